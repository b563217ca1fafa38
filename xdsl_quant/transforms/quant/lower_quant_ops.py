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

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import Float80Type, Float128Type, ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.diagnostics import fail
from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    ChooseParametersOp,
    ConstFakeQuantOp,
    ConstFakeQuantPerAxisOp,
    DequantizeCastOp,
    DynamicCastOp,
    DynamicQuantizeCastOp,
    QuantizeCastOp,
    RegionOp,
    ScaledQuantizedType,
    StoredQuantizedType,
)
from xdsl_quant.dialects.quant.nan_result import nan_result
from xdsl_quant.dialects.quant.requantization import (
    fixed_point_type,
    requantized_dcast,
    requantizing_qcasts,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.rounding_mode import (
    NanResult,
    Rounding,
    RoundingMode,
    ScaleRounding,
    ZeroPointOrder,
)
from xdsl_quant.runtime.garbage_collection import without_garbage_collection
from xdsl_quant.transforms.building.block_scaled_arithmetic import (
    BlockDequantization,
    BlockQuantization,
)
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.cast_folding import find_folds, remove_folded
from xdsl_quant.transforms.building.dynamic_arithmetic import (
    DynamicDequantization,
    DynamicQuantization,
    lowered_dynamic_cast,
)
from xdsl_quant.transforms.building.fixed_point_requantization import Requantization
from xdsl_quant.transforms.building.quantization_arithmetic import (
    Dequantization,
    Quantization,
    unsupported_reason,
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
class LowerQuantCast(RewritePattern):
    """
    Lower one `quant.qcast` or `quant.dcast`, or one with operands for scales.

    The pattern does not fold casts away. It raises `PassFailedException` for a type that
    has no lowering, and when it is made with options that do not go together.
    """

    rounding_mode: RoundingMode | None = None
    """
    How a value between two stored ones is rounded; `None` for `truncate` to integers and
    `nearest-even` to floats and numbers of a table.
    """

    fuse: bool = False
    """Whether a ranked tensor is computed by one `linalg.generic`."""

    runtime_checks: bool = False
    """Whether sizes that are not known before run time are asserted."""

    scale_rounding: ScaleRounding = "single"
    """How the product with an integer multiplier is rounded."""

    zero_point_order: ZeroPointOrder = "before-rounding"
    """When the zero point is added."""

    nan: NanResult = "storage-min"
    """What NaN becomes, where a cast does not say it."""

    _conversions: dict[tuple[object, ...], ElementConversion] = field(
        default_factory=dict[tuple[object, ...], ElementConversion],
        init=False,
        compare=False,
    )
    """One for each type or pair of types that was lowered, and kind of rounding."""

    def __post_init__(self) -> None:
        if (mistake := self._rounding.mistake()) is not None:
            raise PassFailedException(mistake)

    @property
    def _rounding(self) -> Rounding:
        mode = self.rounding_mode or "truncate"
        return Rounding(mode, self.zero_point_order, self.nan)

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        if isinstance(op, ChooseParametersOp):
            # Its formulas are those of NumPy, which other ops do not need.
            from xdsl_quant.transforms.building.dynamic_parameters import (
                lowered_parameters,
            )

            rewriter.replace(op, (), lowered_parameters(op))
            return
        if isinstance(op, DynamicCastOp):
            rewriter.replace(op, (), (self._lowered_dynamic(op),))
            return
        if not isinstance(op, CastOp):
            return
        if (dcast := requantized_dcast(op)) is not None:
            conversion = self._requantization_of(cast(QuantizeCastOp, op), dcast)
            self._replace(op, dcast.input, conversion, rewriter)
            return
        if isinstance(op, DequantizeCastOp) and fixed_point_type(op.input) is not None:
            for qcast in requantizing_qcasts(op):
                conversion = self._requantization_of(qcast, op)
                self._replace(qcast, op.input, conversion, rewriter)
            # Nothing needs the expressed value any more.
            if op.result.first_use is None:
                rewriter.erase(op)
                return
        self._replace(op, op.input, self._conversion_of(op), rewriter)

    def check(self, op: CastOp, expressed: SSAValue | None = None) -> None:
        """
        Raise if there is no lowering.

        Args:
            op: a cast.
            expressed: what its operand is going to be, if not the one that it has.

        Raises:
            PassFailedException: with the reason and the location of the op.
        """
        if (dcast := requantized_dcast(op, expressed)) is not None:
            self._requantization_of(cast(QuantizeCastOp, op), dcast)
        elif not op.result.first_use or any(
            requantized_dcast(use.operation) is not op for use in op.result.uses
        ):
            # Otherwise the expressed value is never computed.
            self._conversion_of(op)

    def _conversion_of(self, op: CastOp) -> ElementConversion:
        is_quantization = isinstance(op, QuantizeCastOp)
        quantized = op.result if is_quantization else op.input
        quantized_type = scalar_or_element_type(quantized.type)
        rounding = self._rounding_of(op, quantized_type)
        key = (is_quantization, quantized_type, rounding)
        if (known := self._conversions.get(key)) is not None:
            return known
        is_block_scaled = isinstance(quantized_type, BlockScaledQuantizedType)
        reason = unsupported_reason(quantized_type, needs_integers=False)
        if not is_block_scaled and reason is not None:
            fail(op, f"'{op.name}' op cannot be lowered: {reason}")
        expressed_type = cast(ScaledQuantizedType, quantized_type).expressed_type
        _check_expressed_type(op, expressed_type)
        if is_block_scaled:
            conversion = self._block_conversion(op, quantized_type, rounding)
            self._conversions[key] = conversion
            return conversion
        conversion = self._conversions[key] = self._conversion(
            op, cast(ScaledQuantizedType, quantized_type), rounding
        )
        return conversion

    def _conversion(
        self, op: CastOp, quantized_type: ScaledQuantizedType, rounding: Rounding
    ) -> ElementConversion:
        is_quantization = isinstance(op, QuantizeCastOp)
        if quantized_type.has_integer_storage:
            conversion_type = Quantization if is_quantization else Dequantization
            return conversion_type(quantized_type, rounding, self.fuse)
        # It needs NumPy, whose import takes longer than starting `xdsl-opt`.
        from xdsl_quant.transforms.building.codec_arithmetic import codec_cast

        try:
            return codec_cast(quantized_type, rounding, is_quantization)
        except (ValueError, ImportError) as e:
            fail(op, f"'{op.name}' op cannot be lowered: {e}")

    def _block_conversion(
        self, op: CastOp, type_: BlockScaledQuantizedType, rounding: Rounding
    ) -> ElementConversion:
        is_quantization = isinstance(op, QuantizeCastOp)
        conversion_type = BlockQuantization if is_quantization else BlockDequantization
        conversion = conversion_type(type_, rounding)
        try:
            # The bytes of resources are read now, so that nothing is changed before.
            _ = conversion.numbers, conversion.elements
        except (ValueError, ImportError) as e:
            fail(op, f"'{op.name}' op cannot be lowered: {e}")
        return conversion

    def _lowered_dynamic(self, op: DynamicCastOp) -> SSAValue:
        rounding, fuse = self._rounding_of(op, op.storage), self.fuse
        if op.storage.has_integer_storage:
            is_quantization = isinstance(op, DynamicQuantizeCastOp)
            kind = DynamicQuantization if is_quantization else DynamicDequantization
        else:
            # It needs NumPy, whose import takes longer than starting `xdsl-opt`.
            from xdsl_quant.transforms.building.codec_arithmetic import (
                dynamic_codec_type,
            )

            kind = dynamic_codec_type(op)
            # Only what becomes of NaN is left to choose.
            rounding, fuse = Rounding(nan=rounding.nan), True
        return lowered_dynamic_cast(op, kind, rounding, fuse, self.runtime_checks)

    def check_dynamic(self, op: DynamicOp) -> None:
        """`check` for a cast whose scales are operands, or what chooses them."""
        _check_expressed_type(op, scalar_or_element_type(op.scale.type))
        if not isinstance(op, DynamicCastOp):
            return
        rounding = self._rounding_of(op, op.storage)
        if op.storage.has_integer_storage:
            return
        # It needs NumPy, whose import takes longer than starting `xdsl-opt`.
        from xdsl_quant.transforms.building.codec_arithmetic import check_dynamic_codec

        try:
            check_dynamic_codec(op, rounding)
        except (ValueError, ImportError) as e:
            fail(op, f"'{op.name}' op cannot be lowered: {e}")

    def _rounding_of(
        self, op: CastOp | DynamicCastOp, quantized_type: Attribute
    ) -> Rounding:
        rounding = self._rounding
        if (
            self.rounding_mode is None
            and isinstance(quantized_type, StoredQuantizedType)
            and not quantized_type.has_integer_storage
        ):
            rounding = rounding._replace(mode="nearest-even")
        if not isinstance(op, QuantizeCastOp | DynamicQuantizeCastOp):
            return rounding
        try:
            return rounding._replace(nan=nan_result(op, self.nan))
        except ValueError as e:
            fail(op, f"'{op.name}' op cannot be lowered: {e}")

    def _requantization_of(
        self, qcast: QuantizeCastOp, dcast: DequantizeCastOp
    ) -> ElementConversion:
        source, target = fixed_point_type(dcast.input), fixed_point_type(qcast.result)
        assert source is not None
        assert target is not None
        if (known := self._conversions.get((source, target))) is not None:
            return known
        try:
            requantization = Requantization(source, target, self.scale_rounding)
        except ValueError as e:
            fail(qcast, f"'{qcast.name}' op cannot be lowered: {e}")
        self._conversions[source, target] = requantization
        return requantization

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


def _check_expressed_type(op: Operation, expressed_type: Attribute) -> None:
    if isinstance(expressed_type, Float80Type | Float128Type):
        fail(
            op,
            f"'{op.name}' op cannot be lowered: xDSL has no constants of expressed type "
            f"'{expressed_type}'; use f64",
        )


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
    Whether each cast of a ranked tensor becomes one `linalg.generic` with the scale and
    the zero point of a per-tensor type in its body.
    """

    runtime_checks: bool = False
    """
    Whether a dynamic size that must match the number of scales or blocks is asserted.
    """

    keep_qdq: bool | None = None
    """
    Whether a cast is kept even if another one reverses it. Unset, it is kept if the option
    `rounding-mode` says to round to nearest; otherwise it folds away, as in MLIR.
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
        pattern = LowerQuantCast(
            self.rounding_mode,
            self.fuse,
            self.runtime_checks,
            self.scale_rounding,
            self.zero_point_order,
            self.nan,
        )
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
        for dynamic_op in dynamic_ops:
            pattern.check_dynamic(dynamic_op)
        with without_garbage_collection():
            remove_folded(casts, folds)
            for cast_op in lowered:
                # A requantization is lowered together with the cast before it.
                if cast_op.parent is not None:
                    pattern.match_and_rewrite(cast_op, PatternRewriter(cast_op))
            for dynamic_op in dynamic_ops:
                pattern.match_and_rewrite(dynamic_op, PatternRewriter(dynamic_op))
        left = [o for o in ops if isinstance(o, _NotLoweredOp)]
        return PassOutcome(
            [*casts, *dynamic_ops, *left],
            len(casts) + len(dynamic_ops),
            "quantized casts",
            left,
            "'quant-export' lowers kernels, 'quant-convert-simulated-quantization' makes "
            "casts of fake quantization",
        )
