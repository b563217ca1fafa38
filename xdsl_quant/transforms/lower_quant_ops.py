"""
Lower `quant.qcast` and `quant.dcast` to arith, math, tensor, linalg and shape.

By default the ops are those of MLIR's pass, in the same order. They divide and add in the
expressed type, convert to an integer by truncation, and clamp that integer only if the
storage range is narrowed. A value that does not fit the storage type is undefined.

With another rounding mode every input has a defined result,
`clamp(round(expressed / scale + zero_point), storage_min, storage_max)`:

* It is computed in the expressed type if that has 16 bits or more and holds all stored
  values, the zero point and their differences exactly (and the halves between them, if
  there is a zero point to add); otherwise in f32 or, if that does not either, in f64.
* The clamp comes before the conversion, so nothing out of range is ever converted. NaN
  becomes the smallest stored value and infinities saturate.

The code for an op has three layers, each with one place:

* `Arithmetic` knows how a scale and a zero point become ops on numbers.
* `Code` collects these ops for scalars, for whole tensors or for the body of a
  `linalg.generic`.
* `LowerQuantCast` knows how the tensor is traversed: which scale belongs to which
  element, and how an unranked tensor is reshaped to a ranked one and back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects import arith, cf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    ModuleOp,
    StringAttr,
    TensorType,
    UnrankedTensorType,
    i32,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.dialects.linalg.ops import YieldOp as LinalgYieldOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from xdsl_quant import compat
from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    StorageCastOp,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.types import (
    UniformType,
    scalar_or_element_type,
    with_element_type,
)
from xdsl_quant.dialects.shape import NumElementsOp, ShapeOfOp, SplitAtOp
from xdsl_quant.rounding_mode import RoundingMode

from .cast_folding import find_folds, remove_folded
from .diagnostics import fail
from .emission import INDEX, Code, TensorCode, tensor_type
from .garbage_collection import without_garbage_collection
from .quantization_arithmetic import Arithmetic, why_not_lowerable

# Ops are built here without a context that would load their dialects.
compat.apply_all()

CastOp = QuantizeCastOp | DequantizeCastOp

_SHAPE_TYPE = TensorType(INDEX, [DYNAMIC_INDEX])


@cache
def _parallel(rank: int) -> ArrayAttr[IteratorTypeAttr]:
    return ArrayAttr([IteratorTypeAttr.parallel()] * rank)


@cache
def _indexing_maps(
    rank: int, parameter_exprs: tuple[AffineExpr, ...], parameter_count: int
) -> ArrayAttr[AffineMapAttr]:
    """The maps of a generic with one input, some parameter tensors and one output."""
    identity = AffineMapAttr(AffineMap.identity(rank))
    parameters = AffineMapAttr(AffineMap(rank, 0, parameter_exprs))
    return ArrayAttr([identity, *[parameters] * parameter_count, identity])


# Traversal


class _Layout(NamedTuple):
    """Which scale belongs to which element of a ranked tensor."""

    shape: tuple[int, ...]
    """Shape of the scales."""

    exprs: tuple[AffineExpr, ...]
    """Index of a scale, in terms of the indices of an element."""

    sizes: Mapping[int, tuple[int, str]]
    """
    The size that each dimension with several scales must have, and how it comes about.
    """


def _block_index(axis: int, block_size: int) -> AffineExpr:
    index = AffineExpr.dimension(axis)
    return index if block_size == 1 else index // block_size


def _per_axis_layout(quantized_type: UniformQuantizedPerAxisType) -> _Layout:
    axis = quantized_type.quantized_dimension.data
    count = len(quantized_type.scales)
    return _Layout(
        (count,),
        (AffineExpr.dimension(axis),),
        {axis: (count, "the number of scales")},
    )


def _block_size_of(count: int, block_size: int) -> tuple[int, str]:
    return count * block_size, f"{count} blocks of {block_size}"


def _sub_channel_layout(quantized_type: UniformQuantizedSubChannelType) -> _Layout:
    shape = quantized_type.scales_shape.get_values()
    block_sizes = dict(quantized_type.block_size_info)
    return _Layout(
        shape,
        tuple(
            _block_index(axis, block_sizes[axis])
            if axis in block_sizes
            else AffineConstantExpr(0)
            for axis in range(len(shape))
        ),
        {axis: _block_size_of(shape[axis], size) for axis, size in block_sizes.items()},
    )


def _flattened_layout(
    quantized_type: UniformQuantizedPerAxisType | UniformQuantizedSubChannelType,
) -> tuple[Sequence[int], _Layout]:
    """
    The axes that an unranked tensor is flattened around, and which scale belongs to which
    element of the flattened tensor: the axes are its odd dimensions.
    """
    if isinstance(quantized_type, UniformQuantizedPerAxisType):
        layout = _per_axis_layout(quantized_type)
        axis = quantized_type.quantized_dimension.data
        flat = layout._replace(
            exprs=(AffineExpr.dimension(1),), sizes={1: layout.sizes[axis]}
        )
        return (axis,), flat
    block_sizes = dict(quantized_type.block_size_info)
    axes = sorted(block_sizes)
    shape = quantized_type.scales_shape.get_values()
    if len(shape) != len(axes):
        shape = tuple(shape[axis] for axis in axes)
    return axes, _Layout(
        shape,
        tuple(
            _block_index(2 * i + 1, block_sizes[axis]) for i, axis in enumerate(axes)
        ),
        {
            2 * i + 1: _block_size_of(shape[i], block_sizes[axis])
            for i, axis in enumerate(axes)
        },
    )


@dataclass(frozen=True)
class LowerQuantCast(RewritePattern):
    """
    Lower one `quant.qcast` or `quant.dcast`.

    The pattern does not fold casts away. It raises `PassFailedException` for a type that
    has no lowering.
    """

    rounding_mode: RoundingMode = "truncate"
    """How a value between two stored ones is rounded."""

    fuse: bool = False
    """Whether a ranked tensor is computed by one `linalg.generic`."""

    runtime_checks: bool = False
    """Whether sizes that are not known before run time are asserted."""

    _arithmetic: dict[Attribute, Arithmetic] = field(
        default_factory=dict[Attribute, Arithmetic], init=False, compare=False
    )
    """One for each type that was lowered."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        if not isinstance(op, CastOp):
            return
        code = Code(op.location)
        if isinstance(op, QuantizeCastOp):
            arithmetic = self._arithmetic_of(op, op.result.type)
            result = self._quantize(code, arithmetic, op.input, op.result.type)
        else:
            arithmetic = self._arithmetic_of(op, op.input.type)
            result = self._dequantize(code, arithmetic, op.input, op.result.type)
        rewriter.insert(code.ops)
        rewriter.replace(op, (), (result,))

    def check(self, op: CastOp) -> None:
        """
        Raise if there is no lowering.

        Raises:
            PassFailedException: with the reason and the location of the op.
        """
        quantized = op.result if isinstance(op, QuantizeCastOp) else op.input
        self._arithmetic_of(op, quantized.type)

    def _arithmetic_of(self, op: CastOp, type_: Attribute) -> Arithmetic:
        quantized_type = scalar_or_element_type(type_)
        if (known := self._arithmetic.get(quantized_type)) is not None:
            return known
        if (reason := why_not_lowerable(quantized_type)) is not None:
            fail(op, f"'{op.name}' op cannot be lowered: {reason}")
        arithmetic = Arithmetic(
            cast(UniformType, quantized_type), self.rounding_mode, self.fuse
        )
        self._arithmetic[quantized_type] = arithmetic
        return arithmetic

    def _quantize(
        self, code: Code, arithmetic: Arithmetic, value: SSAValue, type_: Attribute
    ) -> SSAValue:
        stored = self._convert(code, arithmetic, value, value.type, True)
        return code.op(StorageCastOp, (stored,), type_)

    def _dequantize(
        self, code: Code, arithmetic: Arithmetic, value: SSAValue, type_: Attribute
    ) -> SSAValue:
        # The encoding of the result and not of the operand: see `_convert`.
        stored_type = with_element_type(type_, arithmetic.storage)
        stored = code.op(StorageCastOp, (value,), stored_type)
        return self._convert(code, arithmetic, stored, type_, False)

    def _convert(
        self,
        code: Code,
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
            return self._convert_unranked(code, arithmetic, value, quantizing)
        if isinstance(container, TensorType):
            layout = _ranked_layout(arithmetic.quantized_type)
            return self._convert_ranked(code, arithmetic, value, layout, quantizing)
        return _convert_numbers(code, arithmetic, value, quantizing)

    # Ranked tensors

    def _convert_ranked(
        self,
        code: Code,
        arithmetic: Arithmetic,
        value: SSAValue,
        layout: _Layout | None,
        quantizing: bool,
    ) -> SSAValue:
        container = cast(TensorType, value.type)
        if layout is not None:
            self._check_sizes(code, value, layout)
            return _convert_by_generic(code, arithmetic, value, layout, quantizing)
        if self.fuse:
            return _convert_by_generic(code, arithmetic, value, None, quantizing)
        return _convert_elementwise(code, arithmetic, value, container, quantizing)

    def _check_sizes(self, code: Code, value: SSAValue, layout: _Layout) -> None:
        if not self.runtime_checks:
            return
        shape = cast(TensorType, value.type).get_shape()
        for dimension, (size, reason) in sorted(layout.sizes.items()):
            if shape[dimension] == DYNAMIC_INDEX:
                index = code.index(dimension)
                actual = code.op(tensor.DimOp, (value, index), INDEX)
                message = f"size of dimension {dimension} must be {size}: {reason}"
                _assert_equal(code, actual, size, message)

    # Unranked tensors

    def _convert_unranked(
        self, code: Code, arithmetic: Arithmetic, value: SSAValue, quantizing: bool
    ) -> SSAValue:
        shape = code.op(ShapeOfOp, (value,), _SHAPE_TYPE)
        quantized_type = arithmetic.quantized_type
        if isinstance(quantized_type, UniformQuantizedType):
            layout = None
            flat = _flatten_all(code, value, shape)
        else:
            axes, layout = _flattened_layout(quantized_type)
            self._check_extents(code, quantized_type, shape, axes, layout)
            sizes = tuple(layout.sizes[2 * i + 1][0] for i in range(len(axes)))
            if isinstance(quantized_type, UniformQuantizedPerAxisType):
                flat = _flatten_around_axis(code, value, shape, axes[0], sizes[0])
            elif axes:
                flat = _flatten_around_axes(code, value, shape, axes, sizes)
            else:
                flat = _flatten_all(code, value, shape)
        # Sizes are already checked, in terms of the axes that the user knows.
        result = (
            _convert_by_generic(code, arithmetic, flat, layout, quantizing)
            if layout is not None
            else self._convert_ranked(code, arithmetic, flat, None, quantizing)
        )
        element_type = arithmetic.storage if quantizing else arithmetic.expressed
        return code.op(
            tensor.ReshapeOp, (result, shape), UnrankedTensorType(element_type)
        )

    def _check_extents(
        self,
        code: Code,
        quantized_type: UniformQuantizedPerAxisType | UniformQuantizedSubChannelType,
        shape: SSAValue,
        axes: Sequence[int],
        layout: _Layout,
    ) -> None:
        if not self.runtime_checks:
            return
        _check_rank(code, quantized_type, shape, axes)
        for i, axis in enumerate(axes):
            size, reason = layout.sizes[2 * i + 1]
            actual = code.op(tensor.ExtractOp, (shape, code.index(axis)), INDEX)
            message = f"size of dimension {axis} must be {size}: {reason}"
            _assert_equal(code, actual, size, message)


def _ranked_layout(quantized_type: UniformType) -> _Layout | None:
    match quantized_type:
        case UniformQuantizedPerAxisType():
            return _per_axis_layout(quantized_type)
        case UniformQuantizedSubChannelType():
            return _sub_channel_layout(quantized_type)
        case _:
            return None


def _dynamic_sizes(code: Code, value: SSAValue) -> list[SSAValue]:
    return [
        code.op(tensor.DimOp, (value, code.index(dimension)), INDEX)
        for dimension, size in enumerate(cast(TensorType, value.type).get_shape())
        if size == DYNAMIC_INDEX
    ]


def _convert_with(
    code: Code,
    arithmetic: Arithmetic,
    value: SSAValue,
    scale: SSAValue,
    zero_point: SSAValue | None,
    quantizing: bool,
) -> SSAValue:
    if quantizing:
        return arithmetic.quantize(code, value, scale, zero_point)
    return arithmetic.dequantize(code, value, scale, zero_point)


def _convert_numbers(
    code: Code, arithmetic: Arithmetic, value: SSAValue, quantizing: bool
) -> SSAValue:
    """Convert by a per-layer type, with its parameters as constants in the code."""
    scale = arithmetic.scale_constant(code, quantizing)
    zero_point = arithmetic.zero_point_constant(code)
    return _convert_with(code, arithmetic, value, scale, zero_point, quantizing)


def _convert_elementwise(
    code: Code,
    arithmetic: Arithmetic,
    value: SSAValue,
    container: TensorType,
    quantizing: bool,
) -> SSAValue:
    """Convert by a per-layer type with elementwise ops on tensors, as MLIR does."""
    scale = arithmetic.scale_constant(code, quantizing)
    zero_point = arithmetic.zero_point_constant(code)
    tensors = TensorCode(
        code.location,
        code.ops,
        container=container,
        dynamic_sizes=_dynamic_sizes(code, value),
    )
    scale = tensors.lift(scale)
    return _convert_with(tensors, arithmetic, value, scale, zero_point, quantizing)


def _convert_by_generic(
    code: Code,
    arithmetic: Arithmetic,
    value: SSAValue,
    layout: _Layout | None,
    quantizing: bool,
) -> SSAValue:
    """Convert by one `linalg.generic`; without a layout the type is per-layer."""
    container = cast(TensorType, value.type)
    parameters: list[SSAValue] = []
    exprs: tuple[AffineExpr, ...] = ()
    if layout is not None:
        exprs = layout.exprs
        for attr in arithmetic.parameter_tensors(quantizing, layout.shape):
            parameters.append(code.constant(attr, attr.type))
    element_type = arithmetic.storage if quantizing else arithmetic.expressed
    result_type = tensor_type(element_type, container.shape, container.encoding)
    empty = code.op(tensor.EmptyOp, _dynamic_sizes(code, value), result_type)

    inputs = (value, *parameters)
    block = Block(arg_types=[scalar_or_element_type(v.type) for v in (*inputs, empty)])
    for argument, hint in zip(block.args, _BODY_HINTS[len(inputs)], strict=True):
        argument.name_hint = hint
    number, *numbers, _ = block.args
    body = Code(code.location)
    if layout is None:
        result = _convert_numbers(body, arithmetic, number, quantizing)
    else:
        zero_point = numbers[1] if len(numbers) > 1 else None
        result = _convert_with(
            body, arithmetic, number, numbers[0], zero_point, quantizing
        )
    body.ops.append(LinalgYieldOp.create(operands=(result,), location=code.location))
    block.add_ops(body.ops)

    rank = len(container.get_shape())
    generic = GenericOp.create(
        operands=(*inputs, empty),
        result_types=(result_type,),
        properties={
            "indexing_maps": _indexing_maps(rank, exprs, len(parameters)),
            "iterator_types": _parallel(rank),
            "operandSegmentSizes": _segment_sizes(len(inputs)),
        },
        regions=(Region(block),),
        location=code.location,
    )
    code.ops.append(generic)
    return generic.results[0]


_BODY_HINTS = {
    1: ("in", "out"),
    2: ("in", "scale", "out"),
    3: ("in", "scale", "zero_point", "out"),
}


@cache
def _segment_sizes(input_count: int) -> Attribute:
    return DenseArrayBase.from_list(i32, [input_count, 1])


# Shapes


def _reshape(
    code: Code, value: SSAValue, sizes: Sequence[SSAValue], shape: Sequence[int]
) -> SSAValue:
    shape_value = code.op(tensor.FromElementsOp, sizes, TensorType(INDEX, [len(sizes)]))
    result_type = TensorType(scalar_or_element_type(value.type), shape)
    return code.op(tensor.ReshapeOp, (value, shape_value), result_type)


def _num_elements(code: Code, shape: SSAValue) -> SSAValue:
    return code.op(NumElementsOp, (shape,), INDEX)


def _split(code: Code, shape: SSAValue, index: SSAValue) -> tuple[SSAValue, SSAValue]:
    split = SplitAtOp.create(
        operands=(shape, index),
        result_types=(_SHAPE_TYPE, _SHAPE_TYPE),
        location=code.location,
    )
    code.ops.append(split)
    head, tail = split.results
    return head, tail


def _flatten_all(code: Code, value: SSAValue, shape: SSAValue) -> SSAValue:
    return _reshape(code, value, [_num_elements(code, shape)], [DYNAMIC_INDEX])


def _flatten_around_axis(
    code: Code, value: SSAValue, shape: SSAValue, axis: int, size: int
) -> SSAValue:
    """Reshape to three dimensions, as MLIR does: before the axis, the axis, after it."""
    axis_index, next_index = code.index(axis), code.index(axis + 1)
    before, _ = _split(code, shape, axis_index)
    left = _num_elements(code, before)
    _, after = _split(code, shape, next_index)
    right = _num_elements(code, after)
    sizes = (left, code.index(size), right)
    return _reshape(code, value, sizes, [DYNAMIC_INDEX, size, DYNAMIC_INDEX])


def _flatten_around_axes(
    code: Code,
    value: SSAValue,
    shape: SSAValue,
    axes: Sequence[int],
    axis_sizes: Sequence[int],
) -> SSAValue:
    """
    Reshape to `2 * len(axes) + 1` dimensions: before the first axis, the first axis,
    between the first two axes, and so on.
    """
    sizes: list[SSAValue] = []
    flat_shape: list[int] = []
    rest = shape
    position = 0
    for axis, size in zip(axes, axis_sizes, strict=True):
        before, from_axis = _split(code, rest, code.index(axis - position))
        _, rest = _split(code, from_axis, code.index(1))
        position = axis + 1
        sizes += (_num_elements(code, before), code.index(size))
        flat_shape += (DYNAMIC_INDEX, size)
    sizes.append(_num_elements(code, rest))
    return _reshape(code, value, sizes, [*flat_shape, DYNAMIC_INDEX])


# Assertions


def _assert(
    code: Code, predicate: str, left: SSAValue, right: SSAValue, message: str
) -> None:
    comparison = arith.CmpiOp(left, right, predicate)
    comparison.location = code.location
    assertion = cf.AssertOp.create(
        operands=comparison.results,
        properties={"msg": StringAttr(message)},
        location=code.location,
    )
    code.ops += (comparison, assertion)


def _assert_equal(code: Code, actual: SSAValue, size: int, message: str) -> None:
    _assert(code, "eq", actual, code.index(size), message)


def _check_rank(
    code: Code,
    quantized_type: UniformQuantizedPerAxisType | UniformQuantizedSubChannelType,
    shape: SSAValue,
    axes: Sequence[int],
) -> None:
    """The rank is that of the scales, unless these have a dimension for each axis only."""
    rank = code.op(tensor.DimOp, (shape, code.index(0)), INDEX)
    if isinstance(quantized_type, UniformQuantizedSubChannelType):
        scales_rank = len(quantized_type.scales_shape)
        if scales_rank != len(axes):
            message = f"rank must be {scales_rank}, that of the scales"
            _assert_equal(code, rank, scales_rank, message)
            return
    last = axes[-1]
    message = f"rank must be greater than {last}, the last quantized dimension"
    _assert(code, "ugt", rank, code.index(last), message)


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

    keep_qdq: bool = False
    """Whether a cast is kept even if another one reverses it."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        casts = [o for o in op.walk() if isinstance(o, CastOp)]
        folds = {} if self.keep_qdq else find_folds(casts)
        lowered = [cast_op for cast_op in casts if cast_op.result not in folds]
        pattern = LowerQuantCast(self.rounding_mode, self.fuse, self.runtime_checks)
        for cast_op in lowered:
            pattern.check(cast_op)
        with without_garbage_collection():
            remove_folded(casts, folds)
            for cast_op in lowered:
                pattern.match_and_rewrite(cast_op, PatternRewriter(cast_op))
