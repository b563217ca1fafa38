"""
Conversion of scalars, ranked and unranked tensors element by element. It maps elements to
scales, and reshapes unranked tensors to ranked ones and back.

An [`ElementConversion`][xdsl_quant.transforms.building.tensor_traversal.ElementConversion]
converts a single element.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

from xdsl.dialects import arith, cf, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IntegerType,
    TensorType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr

from xdsl_quant.dialects.quant import (
    QuantizedType,
    ScaledQuantizedType,
    StorageCastOp,
    StoredQuantizedType,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.dialects.shape import NumElementsOp, ShapeOfOp, SplitAtOp

from .builder import INDEX, LoweringBuilder, Values, dimensions, ranked_type, shape_of

Operands: TypeAlias = "Mapping[str, SSAValue]"
"""Scales and other parameters by name: scalars for one element, or tensors."""

_SHAPE_TYPE = TensorType(INDEX, [DYNAMIC_INDEX])


class Layout(NamedTuple):
    """Assignment of scales to the elements of a tensor."""

    counts: Mapping[int, int]
    """Number of scales along each quantized dimension, by ascending dimension."""

    block_sizes: Mapping[int, int]
    """Number of indices that share a scale, for each quantized dimension."""

    rank: int | None = None
    """Rank of the scale tensor; `None` if all its dimensions are quantized."""

    last_may_be_shorter: bool = False
    """True if the last block of a dimension may be shorter than its block size."""

    @staticmethod
    def of(quantized_type: ScaledQuantizedType) -> Layout | None:
        """Return the layout of the scales of a type, or `None` for a single scale."""
        if quantized_type.is_per_tensor:
            return None
        blocks = dict(sorted(quantized_type.get_blocks().items()))
        counts = {axis: count for axis, (count, _) in blocks.items()}
        sizes = {axis: size for axis, (_, size) in blocks.items()}
        rank = len(quantized_type.get_scales_shape())
        return Layout(counts, sizes, None if rank == len(counts) else rank)

    @property
    def _dimensions(self) -> Sequence[int]:
        return [*self.counts] if self.rank is None else range(self.rank)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the scale tensor."""
        return tuple(self.counts.get(dimension, 1) for dimension in self._dimensions)

    @property
    def exprs(self) -> tuple[AffineExpr, ...]:
        """Indices of an element's scale, as functions of the indices of the element."""
        return tuple(map(self._block_index, self._dimensions))

    def _block_index(self, dimension: int) -> AffineExpr:
        if dimension not in self.counts:
            return AffineConstantExpr(0)
        index, size = AffineExpr.dimension(dimension), self.block_sizes[dimension]
        return index if size == 1 else index // size

    def size(self, axis: int) -> int:
        """Return the required size of a quantized dimension."""
        return self.counts[axis] * self.block_sizes[axis]

    def size_message(self, axis: int) -> str:
        """Return the message of the assertion on the size of a quantized dimension."""
        count, block_size = self.counts[axis], self.block_sizes[axis]
        blocks = f"{count} blocks of {block_size}"
        if self.last_may_be_shorter:
            return f"dimension {axis} must have {blocks}"
        is_per_index = {*self.block_sizes.values()} == {1}
        reason = "the number of scales" if is_per_index else blocks
        return f"size of dimension {axis} must be {self.size(axis)}: {reason}"

    def flattened(self) -> Layout:
        """Return the layout of the flattened tensor: dimensions 1, 3, ... are quantized."""
        axes = dict(enumerate(self.counts))
        return Layout(
            {2 * i + 1: self.counts[axis] for i, axis in axes.items()},
            {2 * i + 1: self.block_sizes[axis] for i, axis in axes.items()},
            last_may_be_shorter=self.last_may_be_shorter,
        )


class ElementConversion(ABC):
    """Elementwise quantization, dequantization or requantization."""

    @property
    @abstractmethod
    def element_type(self) -> Attribute:
        """Type of a converted element."""

    @property
    @abstractmethod
    def layout(self) -> Layout | None:
        """Assignment of parameters to elements; `None` if all elements share them."""

    @abstractmethod
    def parameters(self, builder: LoweringBuilder, layout: Layout) -> Operands:
        """Map the name of each parameter that differs between elements to a new tensor."""

    @abstractmethod
    def convert(
        self, builder: LoweringBuilder, number: SSAValue, parameters: Operands
    ) -> SSAValue:
        """Convert one element with its parameters, given by name."""

    def convert_tensor(
        self, builder: LoweringBuilder, value: SSAValue, layout: Layout | None
    ) -> SSAValue:
        """Convert a ranked tensor; by default with one `linalg.generic`."""
        container = cast(TensorType, value.type)
        inputs = [(value, dimensions(range(len(container.get_shape()))))]
        parameters: Operands = {}
        if layout is not None:
            parameters = self.parameters(builder, layout)
            inputs += [(tensor, layout.exprs) for tensor in parameters.values()]
        return builder.map(
            inputs,
            ranked_type(self.element_type, container.shape, container.encoding),
            builder.sizes(value),
            lambda inner, args: self.convert(
                inner, args[0], dict(zip(parameters, args[1:-1], strict=True))
            ),
            ("in", *parameters, "out"),
        )


def convert_value(
    builder: LoweringBuilder,
    conversion: ElementConversion,
    value: SSAValue,
    result_type: Attribute,
    runtime_checks: bool,
) -> SSAValue:
    """
    Convert a scalar, a ranked or an unranked tensor.

    Quantized values are cast to stored values and back. These storage casts also change
    the tensor encoding.

    Args:
        builder: inserts the ops.
        conversion: converts an element.
        value: expressed or quantized values.
        result_type: the type of the result, which may be quantized as well.
        runtime_checks: assert that dynamic sizes match the number of scales.
    """
    source = scalar_or_element_type(value.type)
    if isinstance(source, StoredQuantizedType):
        stored_type = with_element_type(result_type, source.stored_type)
        value = builder.op(StorageCastOp, (value,), stored_type)
    if isinstance(value.type, UnrankedTensorType):
        value = _convert_unranked(builder, conversion, value, runtime_checks)
    elif isinstance(value.type, TensorType):
        if runtime_checks and (layout := conversion.layout) is not None:
            shape = shape_of(value)
            axes = [axis for axis in layout.counts if shape[axis] == DYNAMIC_INDEX]
            _assert_sizes(builder, tensor.DimOp, value, layout, axes)
        value = conversion.convert_tensor(builder, value, conversion.layout)
    else:
        value = conversion.convert(builder, value, {})
    if isinstance(scalar_or_element_type(result_type), QuantizedType):
        return builder.op(StorageCastOp, (value,), result_type)
    return value


def _convert_unranked(
    builder: LoweringBuilder,
    conversion: ElementConversion,
    value: SSAValue,
    runtime_checks: bool,
) -> SSAValue:
    shape = builder.op(ShapeOfOp, (value,), _SHAPE_TYPE)
    layout = conversion.layout
    if runtime_checks and layout is not None:
        # Messages count the dimensions of the original tensor.
        _assert_rank(builder, shape, layout)
        _assert_sizes(builder, tensor.ExtractOp, shape, layout, layout.counts)
    flat = _flattened(builder, value, shape, layout)
    flat_layout = None if layout is None else layout.flattened()
    result = conversion.convert_tensor(builder, flat, flat_layout)
    result_type = UnrankedTensorType(cast(IntegerType, conversion.element_type))
    return builder.op(tensor.ReshapeOp, (result, shape), result_type)


# Unranked tensors


def _reshape_flat(
    builder: LoweringBuilder, value: SSAValue, sizes: Values, shape: Sequence[int]
) -> SSAValue:
    result_type = TensorType(scalar_or_element_type(value.type), shape)
    return builder.reshape(value, result_type, sizes)


def _element_count(builder: LoweringBuilder, shape: SSAValue) -> SSAValue:
    return builder.op(NumElementsOp, (shape,), INDEX)


def _split_shape(
    builder: LoweringBuilder, shape: SSAValue, index: SSAValue
) -> tuple[SSAValue, SSAValue]:
    split = SplitAtOp(shape, index, _SHAPE_TYPE, _SHAPE_TYPE)
    builder.add(split)
    return split.head, split.tail


def _flattened(
    builder: LoweringBuilder, value: SSAValue, shape: SSAValue, layout: Layout | None
) -> SSAValue:
    """Merge unquantized dimensions so that the quantized ones have odd positions."""
    if layout is None or not layout.counts:
        count = _element_count(builder, shape)
        return _reshape_flat(builder, value, [count], [DYNAMIC_INDEX])
    if [*layout.block_sizes.values()] == [1] and not layout.last_may_be_shorter:
        return _flattened_around_axis(builder, value, shape, layout)
    sizes: list[SSAValue] = []
    flat_shape: list[int] = []
    rest = shape
    position = 0
    for axis in layout.counts:
        before, from_axis = _split_shape(builder, rest, builder.index(axis - position))
        _, rest = _split_shape(builder, from_axis, builder.index(1))
        position = axis + 1
        count_before = _element_count(builder, before)
        if layout.last_may_be_shorter:
            index = builder.index(axis)
            size = builder.op(tensor.ExtractOp, (shape, index), INDEX)
            flat_shape += (DYNAMIC_INDEX, DYNAMIC_INDEX)
        else:
            size = builder.index(layout.size(axis))
            flat_shape += (DYNAMIC_INDEX, layout.size(axis))
        sizes += (count_before, size)
    sizes.append(_element_count(builder, rest))
    return _reshape_flat(builder, value, sizes, [*flat_shape, DYNAMIC_INDEX])


def _flattened_around_axis(
    builder: LoweringBuilder, value: SSAValue, shape: SSAValue, layout: Layout
) -> SSAValue:
    """Reshape a tensor with one quantized dimension, with the ops that MLIR builds."""
    (axis,) = layout.counts
    axis_index, next_index = builder.index(axis), builder.index(axis + 1)
    before, _ = _split_shape(builder, shape, axis_index)
    left = _element_count(builder, before)
    _, after = _split_shape(builder, shape, next_index)
    right = _element_count(builder, after)
    size = layout.size(axis)
    sizes = (left, builder.index(size), right)
    return _reshape_flat(builder, value, sizes, [DYNAMIC_INDEX, size, DYNAMIC_INDEX])


# Assertions


def _assert_index(
    builder: LoweringBuilder,
    predicate: str,
    actual: SSAValue,
    bound: int,
    message: str,
) -> None:
    """Assert `predicate`, as in `arith.cmpi`, for an index and a constant."""
    assert_holds(
        builder, arith.CmpiOp(actual, builder.index(bound), predicate), message
    )


def assert_holds(
    builder: LoweringBuilder, comparison: arith.CmpiOp, message: str
) -> None:
    assertion = cf.AssertOp(builder.add(comparison), message)
    assertion.location = builder.location
    builder.insert(assertion)


def _assert_sizes(
    builder: LoweringBuilder,
    op_type: type[Operation],
    value: SSAValue,
    layout: Layout,
    axes: Iterable[int],
) -> None:
    """Assert that the sizes that `op_type` reads from a value match the layout."""
    for axis in axes:
        actual = builder.op(op_type, (value, builder.index(axis)), INDEX)
        expected, message = layout.size(axis), layout.size_message(axis)
        if layout.last_may_be_shorter:
            size = builder.index(layout.block_sizes[axis])
            actual = builder.op(arith.CeilDivSIOp, (actual, size), INDEX)
            expected = layout.counts[axis]
        _assert_index(builder, "eq", actual, expected, message)


def _assert_rank(builder: LoweringBuilder, shape: SSAValue, layout: Layout) -> None:
    """Assert that the rank equals that of the scales, or exceeds all quantized axes."""
    rank = builder.op(tensor.DimOp, (shape, builder.index(0)), INDEX)
    if layout.rank is not None:
        message = f"rank must be {layout.rank}: the rank of the scales"
        _assert_index(builder, "eq", rank, layout.rank, message)
        return
    last = max(layout.counts)
    message = f"rank must be greater than {last}: the last quantized dimension"
    _assert_index(builder, "ugt", rank, last, message)
