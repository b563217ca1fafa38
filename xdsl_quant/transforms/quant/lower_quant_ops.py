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

Integer scales become floats where an expressed value is needed. Where it is not, because a
`quant.dcast` is followed by a `quant.qcast` and both types have integer scales, the stored
value is computed with integers alone, whatever the rounding mode is: see
[`fixed_point_requantization`][xdsl_quant.transforms.building.fixed_point_requantization].

The code for an op has three layers, each with one place:

* `Arithmetic` knows how a scale and a zero point become ops on numbers.
* `Code` collects these ops for scalars, for whole tensors or for the body of a
  `linalg.generic`.
* `LowerQuantCast` knows how the tensor is traversed: which scale belongs to which
  element, and how an unranked tensor is reshaped to a ranked one and back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.context import Context
from xdsl.dialects import tensor
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float80Type,
    Float128Type,
    ModuleOp,
    TensorType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.diagnostics import fail
from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    StorageCastOp,
)
from xdsl_quant.dialects.quant.fixed_point_types import FixedPointType
from xdsl_quant.dialects.quant.nan_result import nan_result
from xdsl_quant.dialects.quant.requantization import (
    fixed_point_type,
    requantized_dcast,
    requantizing_qcasts,
)
from xdsl_quant.dialects.quant.types import (
    UniformType,
    scalar_or_element_type,
    with_element_type,
)
from xdsl_quant.rounding_mode import (
    NanResult,
    Rounding,
    RoundingMode,
    ScaleRounding,
    ZeroPointOrder,
)
from xdsl_quant.transforms.building.builder import (
    INDEX,
    LoweringBuilder,
    TensorwiseBuilder,
)
from xdsl_quant.transforms.building.cast_folding import find_folds, remove_folded
from xdsl_quant.transforms.building.fixed_point_requantization import (
    Requantization,
    requantize,
)
from xdsl_quant.transforms.building.garbage_collection import without_garbage_collection
from xdsl_quant.transforms.building.quantization_arithmetic import (
    Arithmetic,
    why_not_lowerable,
)
from xdsl_quant.transforms.building.tensor_traversal import (
    Layout,
    assert_equal,
    assert_extents,
    assert_rank,
    assert_sizes,
    convert_by_generic,
    dynamic_sizes,
    flatten_all,
    flatten_around_axes,
    flatten_around_axis,
    shape_of,
)
from xdsl_quant.xdsl_patches import patched_pass

CastOp = QuantizeCastOp | DequantizeCastOp


# Traversal


def _block_index(axis: int, block_size: int) -> AffineExpr:
    index = AffineExpr.dimension(axis)
    return index if block_size == 1 else index // block_size


def _needed_size(
    quantized_type: UniformType, count: int, block_size: int
) -> tuple[int, str]:
    """The size that a quantized dimension must have, and why."""
    if quantized_type.axis is not None:
        return count, "the number of scales"
    return count * block_size, f"{count} blocks of {block_size}"


def _ranked_layout(quantized_type: UniformType) -> Layout | None:
    """Which scale belongs to which element of a ranked tensor; `None` for one scale."""
    if quantized_type.is_per_tensor:
        return None
    blocks, shape = quantized_type.get_blocks(), quantized_type.get_scales_shape()
    axes = blocks if quantized_type.axis is not None else range(len(shape))
    return Layout(
        shape,
        tuple(
            _block_index(axis, blocks[axis][1])
            if axis in blocks
            else AffineConstantExpr(0)
            for axis in axes
        ),
        {axis: _needed_size(quantized_type, *block) for axis, block in blocks.items()},
    )


def _flattened_layout(quantized_type: UniformType) -> tuple[Sequence[int], Layout]:
    """
    The axes that an unranked tensor is flattened around, and which scale belongs to which
    element of the flattened tensor: the axes are its odd dimensions.
    """
    blocks = dict(sorted(quantized_type.get_blocks().items()))
    flat_blocks = {2 * i + 1: block for i, block in enumerate(blocks.values())}
    return [*blocks], Layout(
        tuple(count for count, _ in blocks.values()),
        tuple(_block_index(axis, size) for axis, (_, size) in flat_blocks.items()),
        {a: _needed_size(quantized_type, *block) for a, block in flat_blocks.items()},
    )


@dataclass(frozen=True)
class LowerQuantCast(RewritePattern):
    """
    Lower one `quant.qcast` or `quant.dcast`.

    The pattern does not fold casts away. It raises `PassFailedException` for a type that
    has no lowering, and when it is made with options that do not go together.
    """

    rounding_mode: RoundingMode = "truncate"
    """How a value between two stored ones is rounded."""

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

    _arithmetic: dict[tuple[Attribute, Rounding], Arithmetic] = field(
        default_factory=dict[tuple[Attribute, Rounding], Arithmetic],
        init=False,
        compare=False,
    )
    """One for each type that was lowered, and for what its casts make of NaN."""

    _requantizations: dict[tuple[Attribute, Attribute], Requantization] = field(
        default_factory=dict[tuple[Attribute, Attribute], Requantization],
        init=False,
        compare=False,
    )
    """One for each pair of types that was lowered."""

    def __post_init__(self) -> None:
        if (mistake := self._rounding.mistake()) is not None:
            raise PassFailedException(mistake)

    @property
    def _rounding(self) -> Rounding:
        return Rounding(self.rounding_mode, self.zero_point_order, self.nan)

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        if not isinstance(op, CastOp):
            return
        if (dcast := requantized_dcast(op)) is not None:
            self._requantize(cast(QuantizeCastOp, op), dcast, rewriter)
            return
        if isinstance(op, DequantizeCastOp) and fixed_point_type(op.input) is not None:
            for qcast in requantizing_qcasts(op):
                self._requantize(qcast, op, rewriter)
            # Nothing needs the expressed value any more.
            if op.result.first_use is None:
                rewriter.erase(op)
                return
        builder = LoweringBuilder.before(op)
        if isinstance(op, QuantizeCastOp):
            arithmetic = self._arithmetic_of(op, op.result.type)
            result = self._quantize(builder, arithmetic, op.input, op.result.type)
        else:
            arithmetic = self._arithmetic_of(op, op.input.type)
            result = self._dequantize(builder, arithmetic, op.input, op.result.type)
        rewriter.replace(op, (), (result,))

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
            return
        quantized = op.result if isinstance(op, QuantizeCastOp) else op.input
        self._arithmetic_of(op, quantized.type)

    def _arithmetic_of(self, op: CastOp, type_: Attribute) -> Arithmetic:
        quantized_type = scalar_or_element_type(type_)
        rounding = self._rounding_of(op)
        if (known := self._arithmetic.get((quantized_type, rounding))) is not None:
            return known
        if (reason := why_not_lowerable(quantized_type)) is not None:
            fail(op, f"'{op.name}' op cannot be lowered: {reason}")
        arithmetic = Arithmetic(
            quantized_type.to_uniform()
            if isinstance(quantized_type, FixedPointType)
            else cast(UniformType, quantized_type),
            rounding,
            self.fuse,
        )
        if isinstance(arithmetic.expressed, Float80Type | Float128Type):
            fail(
                op,
                f"'{op.name}' op cannot be lowered: xDSL has no constants of expressed "
                f"type '{arithmetic.expressed}'; use f64",
            )
        self._arithmetic[quantized_type, rounding] = arithmetic
        return arithmetic

    def _rounding_of(self, op: CastOp) -> Rounding:
        if not isinstance(op, QuantizeCastOp):
            return self._rounding
        try:
            return self._rounding._replace(nan=nan_result(op, self.nan))
        except ValueError as e:
            fail(op, f"'{op.name}' op cannot be lowered: {e}")

    def _requantization_of(
        self, qcast: QuantizeCastOp, dcast: DequantizeCastOp
    ) -> Requantization:
        source, target = fixed_point_type(dcast.input), fixed_point_type(qcast.result)
        assert source is not None
        assert target is not None
        if (known := self._requantizations.get((source, target))) is not None:
            return known
        try:
            requantization = Requantization(source, target, self.scale_rounding)
        except ValueError as e:
            fail(qcast, f"'{qcast.name}' op cannot be lowered: {e}")
        self._requantizations[source, target] = requantization
        return requantization

    def _requantize(
        self, qcast: QuantizeCastOp, dcast: DequantizeCastOp, rewriter: PatternRewriter
    ) -> None:
        builder = LoweringBuilder.before(qcast)
        result = requantize(
            builder,
            self._requantization_of(qcast, dcast),
            dcast.input,
            qcast.result.type,
            self.runtime_checks,
        )
        rewriter.replace(qcast, (), (result,))

    def _quantize(
        self,
        builder: LoweringBuilder,
        arithmetic: Arithmetic,
        value: SSAValue,
        type_: Attribute,
    ) -> SSAValue:
        stored = self._convert(builder, arithmetic, value, value.type, True)
        return builder.op(StorageCastOp, (stored,), type_)

    def _dequantize(
        self,
        builder: LoweringBuilder,
        arithmetic: Arithmetic,
        value: SSAValue,
        type_: Attribute,
    ) -> SSAValue:
        # The encoding of the result and not of the operand: see `_convert`.
        stored_type = with_element_type(type_, arithmetic.storage)
        stored = builder.op(StorageCastOp, (value,), stored_type)
        return self._convert(builder, arithmetic, stored, type_, False)

    def _convert(
        self,
        builder: LoweringBuilder,
        arithmetic: Arithmetic,
        value: SSAValue,
        container: Attribute,
        quantizing: bool,
    ) -> SSAValue:
        """
        The stored values of expressed ones or the other way round.

        All tensors have the shape and encoding of `container`. A storage cast does not
        mind another encoding, so it is the place where encodings change.
        """
        if isinstance(container, UnrankedTensorType):
            return self._convert_unranked(builder, arithmetic, value, quantizing)
        if isinstance(container, TensorType):
            layout = _ranked_layout(arithmetic.quantized_type)
            return self._convert_ranked(builder, arithmetic, value, layout, quantizing)
        return _convert_numbers(builder, arithmetic, value, quantizing)

    # Ranked tensors

    def _convert_ranked(
        self,
        builder: LoweringBuilder,
        arithmetic: Arithmetic,
        value: SSAValue,
        layout: Layout | None,
        quantizing: bool,
    ) -> SSAValue:
        container = cast(TensorType, value.type)
        if layout is not None:
            if self.runtime_checks:
                assert_sizes(builder, value, layout)
            return _convert_by_generic(builder, arithmetic, value, layout, quantizing)
        if self.fuse:
            return _convert_by_generic(builder, arithmetic, value, None, quantizing)
        return _convert_elementwise(builder, arithmetic, value, container, quantizing)

    # Unranked tensors

    def _convert_unranked(
        self,
        builder: LoweringBuilder,
        arithmetic: Arithmetic,
        value: SSAValue,
        quantizing: bool,
    ) -> SSAValue:
        shape = shape_of(builder, value)
        quantized_type = arithmetic.quantized_type
        if quantized_type.is_per_tensor:
            layout = None
            flat = flatten_all(builder, value, shape)
        else:
            axes, layout = _flattened_layout(quantized_type)
            self._check_extents(builder, quantized_type, shape, axes, layout)
            sizes = tuple(layout.sizes[2 * i + 1][0] for i in range(len(axes)))
            if quantized_type.axis is not None:
                flat = flatten_around_axis(builder, value, shape, axes[0], sizes[0])
            elif axes:
                flat = flatten_around_axes(builder, value, shape, axes, sizes)
            else:
                flat = flatten_all(builder, value, shape)
        # Sizes are already checked, in terms of the axes that the user knows.
        result = (
            _convert_by_generic(builder, arithmetic, flat, layout, quantizing)
            if layout is not None
            else self._convert_ranked(builder, arithmetic, flat, None, quantizing)
        )
        element_type = arithmetic.storage if quantizing else arithmetic.expressed
        return builder.op(
            tensor.ReshapeOp, (result, shape), UnrankedTensorType(element_type)
        )

    def _check_extents(
        self,
        builder: LoweringBuilder,
        quantized_type: UniformType,
        shape: SSAValue,
        axes: Sequence[int],
        layout: Layout,
    ) -> None:
        if not self.runtime_checks:
            return
        _assert_rank(builder, quantized_type, shape, axes)
        assert_extents(builder, shape, axes, layout)


def _convert_with(
    builder: LoweringBuilder,
    arithmetic: Arithmetic,
    value: SSAValue,
    scale: SSAValue,
    zero_point: SSAValue | None,
    quantizing: bool,
) -> SSAValue:
    if quantizing:
        return arithmetic.quantize(builder, value, scale, zero_point)
    return arithmetic.dequantize(builder, value, scale, zero_point)


def _convert_numbers(
    builder: LoweringBuilder, arithmetic: Arithmetic, value: SSAValue, quantizing: bool
) -> SSAValue:
    """Convert by a per-layer type, with its parameters as constants in the code."""
    scale = arithmetic.scale_constant(builder, quantizing)
    zero_point = arithmetic.zero_point_constant(builder)
    return _convert_with(builder, arithmetic, value, scale, zero_point, quantizing)


def _convert_elementwise(
    builder: LoweringBuilder,
    arithmetic: Arithmetic,
    value: SSAValue,
    container: TensorType,
    quantizing: bool,
) -> SSAValue:
    """Convert by a per-layer type with elementwise ops on tensors, as MLIR does."""
    scale = arithmetic.scale_constant(builder, quantizing)
    zero_point = arithmetic.zero_point_constant(builder)
    tensors = TensorwiseBuilder(
        builder.insertion_point,
        location=builder.location,
        container=container,
        dynamic_sizes=dynamic_sizes(builder, value),
    )
    scale = tensors.lift(scale)
    return _convert_with(tensors, arithmetic, value, scale, zero_point, quantizing)


def _convert_by_generic(
    builder: LoweringBuilder,
    arithmetic: Arithmetic,
    value: SSAValue,
    layout: Layout | None,
    quantizing: bool,
) -> SSAValue:
    """Convert by one `linalg.generic`; without a layout the type is per-layer."""
    parameters: dict[str, DenseIntOrFPElementsAttr] = {}
    exprs: tuple[AffineExpr, ...] = ()
    if layout is not None:
        exprs = layout.exprs
        tensors = arithmetic.parameter_tensors(quantizing, layout.shape)
        parameters = dict(zip(("scale", "zero_point"), tensors, strict=False))

    def body(
        builder: LoweringBuilder, number: SSAValue, numbers: Sequence[SSAValue]
    ) -> SSAValue:
        if layout is None:
            return _convert_numbers(builder, arithmetic, number, quantizing)
        scale, *others = numbers
        zero_point = others[0] if others else None
        return _convert_with(builder, arithmetic, number, scale, zero_point, quantizing)

    element_type = arithmetic.storage if quantizing else arithmetic.expressed
    return convert_by_generic(builder, value, parameters, exprs, element_type, body)


def _assert_rank(
    builder: LoweringBuilder,
    quantized_type: UniformType,
    shape: SSAValue,
    axes: Sequence[int],
) -> None:
    """The rank is that of the scales, unless these have a dimension for each axis only."""
    scales_rank = len(quantized_type.get_scales_shape())
    if quantized_type.axis is None and scales_rank != len(axes):
        rank = builder.op(tensor.DimOp, (shape, builder.index(0)), INDEX)
        message = f"rank must be {scales_rank}, that of the scales"
        assert_equal(builder, rank, scales_rank, message)
        return
    assert_rank(builder, shape, axes)


# Pass


@dataclass(frozen=True)
class LowerQuantOpsPass(ModulePass):
    """
    Lower `quant.qcast` and `quant.dcast`; only `quant.scast` is left of the dialect.

    See external [documentation](https://mlir.llvm.org/docs/Passes/#-lower-quant-ops).
    """

    name = "lower-quant-ops"

    rounding_mode: RoundingMode = "truncate"
    """How a value between two stored ones is rounded. MLIR truncates."""

    fuse: bool = False
    """
    Whether each cast of a ranked tensor becomes one `linalg.generic` with the scale and
    the zero point of a per-layer type in its body.
    """

    runtime_checks: bool = False
    """
    Whether a dynamic size that must match the number of scales or blocks is asserted.
    """

    keep_qdq: bool | None = None
    """
    Whether a cast is kept even if another one reverses it. Unset, it is kept where casts
    round to nearest; with `truncate` it folds away, as in MLIR.
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
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pattern = LowerQuantCast(
            self.rounding_mode,
            self.fuse,
            self.runtime_checks,
            self.scale_rounding,
            self.zero_point_order,
            self.nan,
        )
        casts = [o for o in op.walk() if isinstance(o, CastOp)]
        keeps_qdq = self.keep_qdq
        if keeps_qdq is None:
            keeps_qdq = self.rounding_mode != "truncate"
        folds = {} if keeps_qdq else find_folds(casts)
        lowered = [cast_op for cast_op in casts if cast_op.result not in folds]
        for cast_op in lowered:
            pattern.check(cast_op, folds.get(cast_op.input))
        with without_garbage_collection():
            remove_folded(casts, folds)
            for cast_op in lowered:
                # A requantization is lowered together with the cast before it.
                if cast_op.parent is not None:
                    pattern.match_and_rewrite(cast_op, PatternRewriter(cast_op))
