"""
Lower `quant.qcast` and `quant.dcast` to arith, math, tensor, linalg and shape.

By default the ops are those of MLIR's pass, in the same order. They divide and add in the
expressed type, convert to an integer by truncation, and clamp that integer only if the
storage range is narrowed. A value that does not fit the storage type is undefined.

With another rounding mode every input has a defined result,
`clamp(round(expressed / scale + zero_point), storage_min, storage_max)`, or
`clamp(round(expressed / scale) + zero_point, storage_min, storage_max)` with
`zero-point-order=after-rounding`:

* It is computed in the expressed type if that has 16 bits or more and holds all stored
  values, the zero point and their differences exactly (and the halves between them, if
  there is a zero point to add); otherwise in f32 or, if that does not either, in f64.
* The clamp comes before the conversion, so nothing out of range is ever converted, and
  infinities saturate. NaN becomes the smallest stored value.

With `nan=stored-zero` NaN becomes the stored value 0, clamped to the storage range, in each
rounding mode. An attribute `quant.nan` of a cast is obeyed before the option.

If the storage type is a float, e.g. `f8E4M3FN`, or a table, a stored value stands for a
number that is no integer: `clamp(expressed / scale + zero_point)` becomes the nearest one,
of two the one with the even code, or with the smaller index of a table. For these types
`nearest-even` is the default; other rounding modes are refused. The compute type represents
all numbers, the zero point and their differences exactly, as for integers. The clamp is to
the numbers of the float type in the storage range. `quant.scast` gives the float type
itself; the only op on it is `arith.bitcast`, and codes are computed with integers.

Casts of block-scaled types are computed in the type that
[`compute_type`][xdsl_quant.dialects.quant.BlockScaledQuantizedType.compute_type] says, with
`clamp(round((expressed - offset) / scale + zero_point))`.
Where a scale is 0 the quotient is 0.

Fixed-point scales become floats where an expressed value is needed. Where it is not,
because a `quant.dcast` is followed by a `quant.qcast` and both types have fixed-point
scales, the stored value is computed with integers alone, whatever the rounding mode is: see
[`fixed_point_requantization`][xdsl_quant.transforms.building.fixed_point_requantization].

`quant.dynamic_qcast` and `quant.dynamic_dcast` are computed in the same way, with their
operands in place of the constants, but for one thing: with `truncate`, too, values are
clamped before the conversion, and every input has a defined result.

The code for an op has three layers, each with one place:

* `Quantization` and `Dequantization` know how a scale and a zero point become ops on
  numbers.
* `convert_value` knows how a tensor is traversed: which scale belongs to which element,
  and how an unranked tensor is reshaped to a ranked one and back.
* A builder inserts these ops on scalars, on whole tensors or in the body of a
  `linalg.generic`.
"""

from dataclasses import dataclass, field, fields
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.diagnostics import refuse, refusing
from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    ChooseParametersOp,
    ConstFakeQuantOp,
    ConstFakeQuantPerAxisOp,
    DequantizeCastOp,
    DynamicCastOp,
    QuantizeCastOp,
    RegionOp,
    ScaledQuantizedType,
)
from xdsl_quant.dialects.quant.fixed_point_types import FixedPointType
from xdsl_quant.dialects.quant.ops import (
    fixed_point_type_of,
    requantized_dcast,
    requantizing_qcasts,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.rounding_mode import (
    NanResult,
    RoundingMode,
    ScaleRounding,
    ZeroPointOrder,
)
from xdsl_quant.runtime.garbage_collection import without_garbage_collection
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.cast_folding import find_folds, remove_folded
from xdsl_quant.transforms.building.quantization_arithmetic import (
    Dequantization,
    Quantization,
    RoundedCastPattern,
    check_expressed_type,
    unsupported_cast_reason,
)
from xdsl_quant.transforms.building.tensor_traversal import (
    ElementConversion,
    convert_value,
)
from xdsl_quant.xdsl_patches import patched_pass

CastOp = QuantizeCastOp | DequantizeCastOp
DynamicOp = DynamicCastOp | ChooseParametersOp
_NotLoweredOp = RegionOp | ConstFakeQuantOp | ConstFakeQuantPerAxisOp


@dataclass(frozen=True)
class LowerQuantCast(RoundedCastPattern):
    """
    Lower `quant.qcast` and `quant.dcast` to arith, math, tensor and linalg.

    A `quant.qcast` of a `quant.dcast`, both with fixed-point scales, becomes one integer
    computation. The pattern does not fold casts away. It raises `PassFailedException` for
    a type without lowering, and for options that exclude each other.
    """

    _conversions: dict[tuple[object, ...], ElementConversion] = field(
        default_factory=dict[tuple[object, ...], ElementConversion],
        init=False,
        compare=False,
    )
    """Conversions of the types, or pairs of types, that were lowered."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        if not isinstance(op, CastOp):
            return
        is_fixed_point = isinstance(_type_of_cast(op), FixedPointType)
        if not is_fixed_point or not self._requantize(op, rewriter):
            self._replace(op, op.input, self._conversion(op), rewriter)

    def check(self, op: CastOp, expressed: SSAValue | None = None) -> None:
        """
        Raise if there is no lowering.

        Args:
            op: a cast.
            expressed: future operand of the cast; by default its operand.

        Raises:
            PassFailedException: with the reason and the location of the op.
        """
        if (dcast := requantized_dcast(op, expressed)) is not None:
            self._requantization(cast(QuantizeCastOp, op), dcast)
        elif not op.result.first_use or any(
            requantized_dcast(use.operation) is not op for use in op.result.uses
        ):
            # Otherwise the expressed value is never computed.
            self._conversion(op)

    def _conversion(self, op: CastOp) -> ElementConversion:
        quantized_type = _type_of_cast(op)
        is_quantization = isinstance(op, QuantizeCastOp)
        rounding = self.rounding_of(op, quantized_type)
        key = (is_quantization, quantized_type, rounding)
        if (known := self._conversions.get(key)) is not None:
            return known
        if not isinstance(quantized_type, BlockScaledQuantizedType):
            reason = unsupported_cast_reason(quantized_type, needs_integers=False)
            if reason is not None:
                refuse(op, "cannot be lowered", reason)
        type_ = cast("ScaledQuantizedType | BlockScaledQuantizedType", quantized_type)
        check_expressed_type(op, type_.expressed_type)
        if isinstance(type_, ScaledQuantizedType) and type_.has_integer_storage:
            kind = Quantization if is_quantization else Dequantization
            conversion = kind(type_, rounding, self.fuse)
        else:
            # It needs NumPy, whose import takes longer than starting `xdsl-opt`.
            from xdsl_quant.transforms.building import codec_arithmetic as rare

            with refusing(op, "cannot be lowered"):
                conversion = rare.block_or_codec_cast(type_, rounding, is_quantization)
        self._conversions[key] = conversion
        return conversion

    def _requantize(self, op: CastOp, rewriter: PatternRewriter) -> bool:
        """Lower requantizations with integers alone; true if the cast is lowered, too."""
        if (dcast := requantized_dcast(op)) is not None:
            conversion = self._requantization(cast(QuantizeCastOp, op), dcast)
            self._replace(op, dcast.input, conversion, rewriter)
            return True
        if isinstance(op, QuantizeCastOp):
            return False
        for qcast in requantizing_qcasts(op):
            conversion = self._requantization(qcast, op)
            self._replace(qcast, op.input, conversion, rewriter)
        if op.result.first_use is not None:
            return False
        # No op needs the expressed value any more.
        rewriter.erase(op)
        return True

    def _requantization(
        self, qcast: QuantizeCastOp, dcast: DequantizeCastOp
    ) -> ElementConversion:
        # It needs NumPy, whose import takes longer than starting `xdsl-opt`.
        from xdsl_quant.transforms.building.fixed_point_requantization import (
            Requantization,
        )

        key = source, target = (
            fixed_point_type_of(dcast.input),
            fixed_point_type_of(qcast.result),
        )
        assert source is not None
        assert target is not None
        if (known := self._conversions.get(key)) is None:
            with refusing(qcast, "cannot be lowered"):
                known = Requantization(source, target, self.scale_rounding)
            self._conversions[key] = known
        return known

    def _replace(
        self,
        op: CastOp,
        value: SSAValue,
        conversion: ElementConversion,
        rewriter: PatternRewriter,
    ) -> None:
        builder = LoweringBuilder.before(op)
        result = convert_value(
            builder, conversion, value, op.result.type, self.runtime_checks
        )
        rewriter.replace(op, (), (result,))


def _type_of_cast(op: CastOp) -> Attribute:
    quantized = op.result if isinstance(op, QuantizeCastOp) else op.input
    return scalar_or_element_type(quantized.type)


# Pass


@dataclass(frozen=True)
class LowerQuantOpsPass(CountingPass):
    """
    Lower `quant.qcast`, `quant.dcast` and those with operands for scales and zero points,
    `quant.dynamic_qcast`, `quant.dynamic_dcast` and `quant.choose_parameters`; only
    `quant.scast` is left of casts.

    See external [documentation](https://mlir.llvm.org/docs/Passes/#-lower-quant-ops).
    """

    name = "lower-quant-ops"

    rounding_mode: RoundingMode | None = None
    """
    How a value between two stored ones is rounded. Unset, it is truncated to an integer, as
    in MLIR, and becomes the nearest float or number of a table (`nearest-even`).
    """

    fuse: bool = False
    """
    True if each cast of a ranked tensor becomes one `linalg.generic` with the scale and
    the zero point of a per-tensor type in its body.
    """

    runtime_checks: bool = False
    """
    True if a dynamic size that must match the number of scales or blocks is asserted.
    """

    keep_qdq: bool | None = None
    """
    True if a cast is kept even if another one reverses it. Unset, it is kept if the
    option `rounding-mode` says to round to nearest; otherwise it folds away, as in
    MLIR.
    """

    scale_rounding: ScaleRounding = "single"
    """How the product with an integer multiplier is rounded: see `apply_scale`."""

    zero_point_order: ZeroPointOrder = "before-rounding"
    """When the zero point is added; MLIR, which truncates, adds it before that."""

    nan: NanResult = "storage-min"
    """
    What NaN becomes in casts without an attribute `quant.nan`. With `truncate` the default
    is MLIR's: it is undefined.
    """

    @patched_pass
    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        pattern = LowerQuantCast(**self._options)
        ops = [*op.walk()]
        casts = [o for o in ops if isinstance(o, CastOp)]
        dynamic_ops = [o for o in ops if isinstance(o, DynamicOp)]
        keeps_qdq = self.keep_qdq
        if keeps_qdq is None:
            keeps_qdq = self.rounding_mode not in (None, "truncate")
        folds = {} if keeps_qdq else find_folds(casts)
        lowered = [cast_op for cast_op in casts if cast_op.result not in folds]
        for cast_op in lowered:
            pattern.check(cast_op, folds.get(cast_op.input))
        dynamic_patterns = self._dynamic_patterns() if dynamic_ops else ()
        for dynamic_pattern in dynamic_patterns:
            dynamic_pattern.plan_module(op)
        with without_garbage_collection():
            remove_folded(casts, folds)
            for cast_op in lowered:
                # A requantization is lowered together with the cast before it.
                if cast_op.parent is not None:
                    pattern.match_and_rewrite(cast_op, PatternRewriter(cast_op))
            for dynamic_pattern in dynamic_patterns:
                dynamic_pattern.rewrite_planned()
        left = [o for o in ops if isinstance(o, _NotLoweredOp)]
        return PassOutcome(
            [*casts, *dynamic_ops, *left],
            len(casts) + len(dynamic_ops),
            "quantized casts",
            left,
            "'quant-export' lowers kernels, 'quant-convert-simulated-quantization' makes "
            "casts of fake quantization",
        )

    @property
    def _options(self) -> dict[str, Any]:
        """The options that patterns for casts have, too."""
        names = [option.name for option in fields(RoundedCastPattern)]
        return {name: getattr(self, name) for name in names}

    def _dynamic_patterns(self):
        # They need NumPy, whose import takes longer than starting `xdsl-opt`.
        from xdsl_quant.transforms.building.dynamic_arithmetic import (
            LowerChooseParameters,
            LowerDynamicCast,
        )

        return LowerDynamicCast(**self._options), LowerChooseParameters()
