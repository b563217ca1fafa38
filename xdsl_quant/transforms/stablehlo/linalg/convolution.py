"""
Convolutions: a sum of products, with the padding and the elements that a dilation puts
between others made first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IntegerType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from xdsl_quant.dialects import stablehlo
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    Size,
    dimensions,
    element_type_of,
    shape_of,
    static_sizes,
)

from .contraction import Factor, sum_of_products
from .element_types import stored_type
from .padding import Padding, padded, why_not_padded


@dataclass(frozen=True)
class _Window:
    """The window of a convolution, with nothing left out."""

    op: stablehlo.ConvolutionOp

    @cached_property
    def rank(self) -> int:
        """The number of spatial dimensions."""
        return len(self.numbers.input_spatial_dimensions.get_values())

    @property
    def numbers(self) -> stablehlo.ConvDimensionNumbersAttr:
        """Which dimension is what."""
        return self.op.dimension_numbers

    def _values(self, attribute: Attribute | None, default: int) -> Sequence[int]:
        if attribute is None:
            return [default] * self.rank
        values = cast(DenseArrayBase[IntegerType], attribute).get_values()
        return [int(value) for value in values]

    @cached_property
    def strides(self) -> Sequence[int]:
        """The steps of the window."""
        return self._values(self.op.window_strides, 1)

    @cached_property
    def dilations(self) -> Sequence[int]:
        """The steps in the window."""
        return self._values(self.op.rhs_dilation, 1)

    @cached_property
    def is_reversed(self) -> Sequence[int]:
        """Whether the kernel is to be read backwards."""
        return self._values(self.op.window_reversal, 0)

    @cached_property
    def paddings(self) -> Sequence[Padding]:
        """The padding of each dimension of the left operand."""
        edges = [0] * (2 * self.rank)
        if (attribute := self.op.padding) is not None:
            edges = cast(Sequence[int], attribute.get_values())
        lhs_dilation = self._values(self.op.lhs_dilation, 1)
        paddings = [Padding()] * (self.rank + 2)
        for index, dimension in enumerate(
            self.numbers.input_spatial_dimensions.get_values()
        ):
            low, high = edges[2 * index : 2 * index + 2]
            paddings[dimension] = Padding(low, high, lhs_dilation[index] - 1)
        return paddings

    @property
    def feature_groups(self) -> int:
        """How many groups the features of the left operand are in."""
        return self.op.feature_group_count.value.data

    @property
    def batch_groups(self) -> int:
        """How many groups the batch is in."""
        return self.op.batch_group_count.value.data


def why_not_convolved(op: Operation) -> str | None:
    """Why a convolution has no loop nest, if it has none."""
    assert isinstance(op, stablehlo.ConvolutionOp)
    window = _Window(op)
    numbers = window.numbers
    shape = shape_of(op.rhs)
    if any(
        shape[dimension] == DYNAMIC_INDEX
        for dimension in numbers.kernel_spatial_dimensions.get_values()
    ):
        return "has a window of unknown size"
    needed = [
        (window.feature_groups, op.lhs, numbers.input_feature_dimension),
        (window.batch_groups, op.lhs, numbers.input_batch_dimension),
        (
            max(window.feature_groups, window.batch_groups),
            op.rhs,
            numbers.kernel_output_feature_dimension,
        ),
    ]
    for count, operand, dimension in needed:
        if count > 1 and shape_of(operand)[dimension.data] == DYNAMIC_INDEX:
            return "has groups in a dimension of unknown size"
    return why_not_padded(op.lhs, window.paddings)


def convert_convolution(
    builder: LoweringBuilder, op: Operation, operands: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """One loop nest over the padded left operand."""
    assert isinstance(op, stablehlo.ConvolutionOp)
    return [_Convolution(builder, op, *operands).result()]


_Label = str | int
"""
A loop: `batch`, `group`, `output` for the output features of a group, `input` for its
input features, and by number first the spatial dimensions of the result, then those of
the window.
"""


@dataclass(frozen=True)
class _Convolution:
    builder: LoweringBuilder
    op: stablehlo.ConvolutionOp
    lhs: SSAValue
    rhs: SSAValue

    @cached_property
    def window(self) -> _Window:
        """The window, with nothing left out."""
        return _Window(self.op)

    @cached_property
    def groups(self) -> int:
        """How many convolutions there are, of a part of the features or batch each."""
        return max(self.window.feature_groups, self.window.batch_groups)

    def result(self) -> SSAValue:
        """The result of the convolution."""
        lhs = padded(self.builder, self.lhs, self.window.paddings)
        sizes = self._sizes(lhs)
        labels, rank = self._result_labels(), self.window.rank
        loops = [*labels, *range(rank, 2 * rank), "input"]
        lhs_type, rhs_type = map(element_type_of, self.op.operands)
        result = sum_of_products(
            self.builder,
            Factor(lhs, lhs_type, self._lhs_indices(loops)),
            Factor(self._forwards(), rhs_type, self._rhs_indices(loops)),
            [sizes[label] for label in labels],
            rank + 1,
            element_type_of(self.op.result),
        )
        return self._without_groups(result, sizes)

    # Sizes

    def _sizes(self, lhs: SSAValue) -> dict[_Label, Size]:
        builder, window = self.builder, self.window
        numbers = window.numbers
        batch = builder.size(lhs, numbers.input_batch_dimension.data)
        outputs = builder.size(self.rhs, numbers.kernel_output_feature_dimension.data)
        sizes: dict[_Label, Size] = {
            "batch": builder.floor_divided(batch, window.batch_groups),
            "group": self.groups,
            "output": builder.floor_divided(outputs, self.groups),
            "input": builder.size(
                self.rhs, numbers.kernel_input_feature_dimension.data
            ),
        }
        kernel = numbers.kernel_spatial_dimensions.get_values()
        for index, dimension in enumerate(
            numbers.input_spatial_dimensions.get_values()
        ):
            size = shape_of(self.rhs)[kernel[index]]
            reach = (size - 1) * window.dilations[index] + 1 if size else 0
            room = builder.plus(builder.size(lhs, dimension), -reach)
            steps = builder.floor_divided(room, window.strides[index])
            sizes[index] = builder.at_least_zero(builder.plus(steps, 1))
            sizes[window.rank + index] = size
        return sizes

    # Order

    def _result_labels(self) -> list[_Label]:
        numbers = self.window.numbers
        spatial = numbers.output_spatial_dimensions.get_values()
        labels: list[_Label] = []
        for dimension in range(self.window.rank + 2):
            if dimension == numbers.output_batch_dimension.data:
                labels.append("batch")
            elif dimension == numbers.output_feature_dimension.data:
                labels.extend(("group", "output") if self.groups > 1 else ("output",))
            else:
                labels.append(spatial.index(dimension))
        return labels

    # Operands

    def _kernel_labels(self) -> list[_Label]:
        """For each dimension of the kernel its loop."""
        numbers = self.window.numbers
        spatial = numbers.kernel_spatial_dimensions.get_values()
        labels: list[_Label] = []
        for dimension in range(self.window.rank + 2):
            if dimension == numbers.kernel_input_feature_dimension.data:
                labels.append("input")
            elif dimension == numbers.kernel_output_feature_dimension.data:
                labels.append("output")
            else:
                labels.append(self.window.rank + spatial.index(dimension))
        return labels

    def _forwards(self) -> SSAValue:
        """The kernel, not reversed."""
        spatial = self.window.numbers.kernel_spatial_dimensions.get_values()
        shape = shape_of(self.rhs)
        source = dimensions(range(len(shape)))
        for index, dimension in enumerate(spatial):
            if self.window.is_reversed[index] and shape[dimension] > 1:
                source[dimension] = source[dimension] * -1 + (shape[dimension] - 1)
        if source == dimensions(range(len(shape))):
            return self.rhs
        type_ = cast(TensorType, self.rhs.type)
        return self.builder.rearranged(
            self.rhs, type_, self.builder.sizes(self.rhs), source
        )

    def _lhs_indices(self, loops: Sequence[_Label]) -> list[AffineExpr]:
        window, numbers = self.window, self.window.numbers
        shape = shape_of(self.lhs)
        batch = numbers.input_batch_dimension.data
        feature = numbers.input_feature_dimension.data
        indices: dict[int, AffineExpr] = {
            batch: AffineDimExpr(loops.index("batch")),
            feature: AffineDimExpr(loops.index("input")),
        }
        for dimension, count in (
            (batch, window.batch_groups),
            (feature, window.feature_groups),
        ):
            if count > 1:
                group = AffineDimExpr(loops.index("group"))
                indices[dimension] += group * (shape[dimension] // count)
        spatial = numbers.input_spatial_dimensions.get_values()
        for index, dimension in enumerate(spatial):
            indices[dimension] = self._position(index, loops)
        return [indices[dimension] for dimension in range(window.rank + 2)]

    def _position(self, index: int, loops: Sequence[_Label]) -> AffineExpr:
        """Where the padded left operand is read in a spatial dimension."""
        start = AffineDimExpr(loops.index(index)) * self.window.strides[index]
        step = AffineDimExpr(loops.index(self.window.rank + index))
        return start + step * self.window.dilations[index]

    def _rhs_indices(self, loops: Sequence[_Label]) -> list[AffineExpr]:
        labels = self._kernel_labels()
        indices = dimensions(map(loops.index, labels))
        if self.groups > 1:
            numbers = self.window.numbers
            features = shape_of(self.rhs)[numbers.kernel_output_feature_dimension.data]
            group = AffineDimExpr(loops.index("group"))
            indices[labels.index("output")] += group * (features // self.groups)
        return indices

    def _without_groups(self, result: SSAValue, sizes: dict[_Label, Size]) -> SSAValue:
        """The features of all groups in one dimension, and the type of the op."""
        labels = self._result_labels()
        result_sizes = [sizes[label] for label in labels]
        if self.groups > 1:
            group = labels.index("group")
            features = self.builder.times(sizes["output"], self.groups)
            result_sizes[group : group + 2] = [features]
            type_ = TensorType(element_type_of(result), static_sizes(result_sizes))
            result = self.builder.reshaped(result, type_, result_sizes)
        return self.builder.cast(result, stored_type(self.op.result.type))
