"""
Lower `quant.qcast` and `quant.dcast` to arith, math, tensor, linalg and shape.

By default the ops are those of MLIR's pass, in the same order. They divide and add in
the expressed type, convert to an integer by truncation, and clamp that integer only if
the storage range is narrower than the storage type. Results for values out of range of
the storage type are undefined.

With a rounding mode other than `truncate`, the result is defined for every input:
`clamp(round(expressed / scale + zero_point), storage_min, storage_max)`, or
`clamp(round(expressed / scale) + zero_point, storage_min, storage_max)` with
`zero-point-order=after-rounding`.

* The ops compute in the expressed type if it has at least 16 bits and represents these
  numbers exactly: all stored values, the zero point and their differences, and the
  halves in between if a zero point is added. Otherwise they compute in f32, or in f64
  if f32 does not represent these numbers.
* Values are clamped before the conversion to integers, so infinities saturate. NaN
  becomes the smallest stored value.

With `nan=stored-zero` NaN becomes the stored value 0, clamped to the storage range, in
each rounding mode. The attribute `quant.nan` of a cast overrides the option.

The storage type may also be a float, e.g. `f8E4M3FN`, or a table of numbers. Then
`clamp(expressed / scale + zero_point)` is rounded to the nearest number that has a stored
value. Ties go to the even bit pattern, or to the smaller table index. For these types
`nearest-even` is the default, and other rounding modes are refused. As for integers, the
compute type represents all numbers, the zero point and their differences exactly. The clamp
limits are the ends of the storage range. Bit patterns are computed with integers: values of
the float type only occur between `quant.scast` and `arith.bitcast`.

Casts of block-scaled types compute
`clamp(round((expressed - offset) / scale + zero_point))` in their
[`compute_type`][xdsl_quant.dialects.quant.BlockScaledQuantizedType.compute_type].
The quotient is 0 where the scale is 0.

Fixed-point scales become floats if the expressed value is computed. A `quant.qcast` of a
`quant.dcast`, both with fixed-point scales, is lowered to integer arithmetic instead,
in each rounding mode: see
[`fixed_point_requantization`][xdsl_quant.transforms.building.fixed_point_requantization].

`quant.dynamic_qcast` and `quant.dynamic_dcast` are lowered in the same way, with
operands instead of constants. They clamp before the conversion to integers, even with
`truncate`, so every input has a defined result.

The lowering has three layers:

* `Quantization` and `Dequantization` build the ops for a scale and a zero point.
* `convert_value` traverses a tensor: it maps elements to scales, and reshapes an
  unranked tensor to a ranked one and back.
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

    A `quant.qcast` of a `quant.dcast`, both with fixed-point scales, is lowered to
    integer arithmetic. Other casts are not folded.

    Raises:
        PassFailedException: for unsupported types, and for options that exclude each
            other.
    """

    _conversions: dict[tuple[object, ...], ElementConversion] = field(
        default_factory=dict[tuple[object, ...], ElementConversion],
        init=False,
        compare=False,
    )
    """Cache of conversions, by quantized type or pair of types."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        if not isinstance(op, CastOp):
            return
        is_fixed_point = isinstance(_type_of_cast(op), FixedPointType)
        if not is_fixed_point or not self._requantize(op, rewriter):
            self._replace(op, op.input, self._conversion(op), rewriter)

    def check(self, op: CastOp, expressed: SSAValue | None = None) -> None:
        """
        Refuse a cast that cannot be lowered.

        Args:
            op: a cast.
            expressed: the operand that the cast will have when it is lowered; by
                default its current operand.

        Raises:
            PassFailedException: with the reason and the location of the op.
        """
        if (dcast := requantized_dcast(op, expressed)) is not None:
            self._requantization(cast(QuantizeCastOp, op), dcast)
        elif not op.result.first_use or any(
            requantized_dcast(use.operation) is not op for use in op.result.uses
        ):
            # If all users requantize, the expressed value is never computed.
            self._conversion(op)

    def _conversion(self, op: CastOp) -> ElementConversion:
        quantized_type = _type_of_cast(op)
        is_quantization = isinstance(op, QuantizeCastOp)
        rounding = self.rounding_of(op, quantized_type)
        key = (is_quantization, quantized_type, rounding)
        if (cached := self._conversions.get(key)) is not None:
            return cached
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
            # Import late: NumPy takes longer to import than `xdsl-opt` to start.
            from xdsl_quant.transforms.building import codec_arithmetic

            with refusing(op, "cannot be lowered"):
                conversion = codec_arithmetic.block_or_codec_cast(
                    type_, rounding, is_quantization
                )
        self._conversions[key] = conversion
        return conversion

    def _requantize(self, op: CastOp, rewriter: PatternRewriter) -> bool:
        """Lower requantizations that contain `op`; return True if `op` is then erased."""
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
        # The expressed value has no uses left.
        rewriter.erase(op)
        return True

    def _requantization(
        self, qcast: QuantizeCastOp, dcast: DequantizeCastOp
    ) -> ElementConversion:
        # Import late: NumPy takes longer to import than `xdsl-opt` to start.
        from xdsl_quant.transforms.building.fixed_point_requantization import (
            Requantization,
        )

        key = source, target = (
            fixed_point_type_of(dcast.input),
            fixed_point_type_of(qcast.result),
        )
        assert source is not None
        assert target is not None
        if (cached := self._conversions.get(key)) is None:
            with refusing(qcast, "cannot be lowered"):
                cached = Requantization(source, target, self.scale_rounding)
            self._conversions[key] = cached
        return cached

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
    Lower `quant.qcast` and `quant.dcast`, `quant.dynamic_qcast` and
    `quant.dynamic_dcast`, and `quant.choose_parameters` to arith, math, tensor, linalg
    and shape. `quant.scast` remains.

    See external [documentation](https://mlir.llvm.org/docs/Passes/#-lower-quant-ops).
    """

    name = "lower-quant-ops"

    rounding_mode: RoundingMode | None = None
    """Rounding mode. Default: `truncate` for integer storage, else `nearest-even`."""

    fuse: bool = False
    """True if each cast of a ranked tensor becomes one `linalg.generic`."""

    runtime_checks: bool = False
    """True to assert at run time that dynamic sizes match scales and blocks."""

    keep_qdq: bool | None = None
    """
    True if casts that reverse another cast are kept. By default `nearest-*` rounding
    modes keep them, and `truncate` folds them, as in MLIR.
    """

    scale_rounding: ScaleRounding = "single"
    """Rounding of products with a fixed-point multiplier: see `apply_scale`."""

    zero_point_order: ZeroPointOrder = "before-rounding"
    """Addition of the zero point before or after rounding; MLIR adds it before."""

    nan: NanResult = "storage-min"
    """
    Stored value for NaN in casts without `quant.nan`. With `truncate`, only
    `stored-zero` defines the result for NaN.
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
                # A `quant.qcast` may be lowered already, together with its `quant.dcast`.
                if cast_op.parent is not None:
                    pattern.match_and_rewrite(cast_op, PatternRewriter(cast_op))
            for dynamic_pattern in dynamic_patterns:
                dynamic_pattern.rewrite_planned()
        not_lowered = [o for o in ops if isinstance(o, _NotLoweredOp)]
        return PassOutcome(
            [*casts, *dynamic_ops, *not_lowered],
            len(casts) + len(dynamic_ops),
            "quantized casts",
            not_lowered,
            "'quant-export' lowers kernels, 'quant-convert-simulated-quantization' "
            "converts fake quantization to casts",
        )

    @property
    def _options(self) -> dict[str, Any]:
        """Options shared with the patterns for casts."""
        names = [option.name for option in fields(RoundedCastPattern)]
        return {name: getattr(self, name) for name in names}

    def _dynamic_patterns(self):
        # Import late: NumPy takes longer to import than `xdsl-opt` to start.
        from xdsl_quant.transforms.building.dynamic_arithmetic import (
            LowerChooseParameters,
            LowerDynamicCast,
        )

        return LowerDynamicCast(**self._options), LowerChooseParameters()
