"""Which shape a convolution has, after a check that it has one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, DenseArrayBase, IntegerType
from xdsl.utils.exceptions import VerifyException

from .attributes import ConvDimensionNumbersAttr
from .compatibility import RankedTensor, are_compatible_elements
from .dot_general import verify_precision_config
from .quantized_constraints import has_quantized

if TYPE_CHECKING:
    from .convolution import ConvolutionOp


def convolved_shape(
    op: ConvolutionOp, lhs: RankedTensor, rhs: RankedTensor
) -> Sequence[int]:
    """The shape that follows from input, kernel and window."""
    _verify_operands(lhs, rhs)
    numbers = op.dimension_numbers
    lhs_shape, rhs_shape = lhs.get_shape(), rhs.get_shape()
    rank = len(lhs_shape)
    _verify_dimension_numbers(numbers, rank)
    _verify_groups(op, lhs_shape, rhs_shape)
    verify_precision_config(op.precision_config)
    input_spatial = numbers.input_spatial_dimensions.get_values()
    if rank != len(input_spatial) + 2:
        raise VerifyException(
            f"expects convolution arguments to have {len(input_spatial) + 2} "
            f"dimensions. Got: {rank}"
        )
    window = _window(op, rhs_shape)
    shape = [DYNAMIC_INDEX] * rank
    for dimension, input_dimension, size in zip(
        numbers.output_spatial_dimensions.get_values(),
        input_spatial,
        window,
        strict=True,
    ):
        shape[dimension] = size.positions_in(lhs_shape[input_dimension])
    batch = lhs_shape[numbers.input_batch_dimension.data]
    if batch != DYNAMIC_INDEX:
        batch //= op.batch_group_count.value.data
    shape[numbers.output_batch_dimension.data] = batch
    features = rhs_shape[numbers.kernel_output_feature_dimension.data]
    shape[numbers.output_feature_dimension.data] = features
    return shape


def _verify_operands(lhs: RankedTensor, rhs: RankedTensor) -> None:
    rank = len(lhs.get_shape())
    if rank < 2:
        raise VerifyException(
            "expects convolution arguments to have >= 2 dimensions. Got: "
            f"'{lhs}' and '{rhs}'."
        )
    if rank != len(rhs.get_shape()):
        raise VerifyException(
            "expects convolution arguments to have same number of dimensions. Got: "
            f"'{lhs}' and '{rhs}'."
        )
    if not has_quantized((lhs, rhs)) and not are_compatible_elements(
        lhs.element_type, rhs.element_type
    ):
        raise VerifyException(
            "expects lhs and rhs to have compatible element type. Got: "
            f"'{lhs.element_type}' and '{rhs.element_type}'"
        )


def _verify_dimension_numbers(numbers: ConvDimensionNumbersAttr, rank: int) -> None:
    spatial = [
        dimensions.get_values()
        for dimensions in (
            numbers.input_spatial_dimensions,
            numbers.kernel_spatial_dimensions,
            numbers.output_spatial_dimensions,
        )
    ]
    counts = [len(dimensions) for dimensions in spatial]
    if len(set(counts)) > 1:
        raise VerifyException(
            "expects the same size for input, kernel and output spatial-dimensions, but "
            f"got {counts[0]}, {counts[1]}, and {counts[2]} resp."
        )
    named = {
        "input": (
            numbers.input_batch_dimension.data,
            numbers.input_feature_dimension.data,
            *spatial[0],
        ),
        "kernel": (
            numbers.kernel_input_feature_dimension.data,
            numbers.kernel_output_feature_dimension.data,
            *spatial[1],
        ),
        "output": (
            numbers.output_batch_dimension.data,
            numbers.output_feature_dimension.data,
            *spatial[2],
        ),
    }
    if any(
        not 0 <= dimension < rank
        for dimensions in named.values()
        for dimension in dimensions
    ):
        raise VerifyException(
            "expects input, kernel, and output dimension-numbers to be in-range "
            f"[0, {rank})."
        )
    for tensor, dimensions in named.items():
        if len(set(dimensions)) != len(dimensions):
            raise VerifyException(
                f"expects {tensor} dimension-numbers to be unique, got "
                f"{{{', '.join(map(str, dimensions))}}}."
            )


def _verify_groups(
    op: ConvolutionOp, lhs_shape: Sequence[int], rhs_shape: Sequence[int]
) -> None:
    numbers = op.dimension_numbers
    batch_groups = op.batch_group_count.value.data
    feature_groups = op.feature_group_count.value.data
    if batch_groups > 1 and feature_groups > 1:
        raise VerifyException(
            "expects batch_group_count and feature_group_count not to be both greater "
            f"than 1. Got {batch_groups} and {feature_groups} resp."
        )
    batch = lhs_shape[numbers.input_batch_dimension.data]
    features = lhs_shape[numbers.input_feature_dimension.data]
    kernel_features = rhs_shape[numbers.kernel_input_feature_dimension.data]
    output_features = rhs_shape[numbers.kernel_output_feature_dimension.data]
    if batch != DYNAMIC_INDEX and batch % batch_groups:
        raise VerifyException(
            f"expects input batch dimension ({batch}) to be divisible by "
            f"batch_group_count. Got batch_group_count = {batch_groups}."
        )
    if features != DYNAMIC_INDEX:
        if features % feature_groups:
            raise VerifyException(
                f"expects input feature dimension ({features}) to be a multiple of "
                f"feature_group_count. Got feature_group_count = {feature_groups}."
            )
        if kernel_features not in (DYNAMIC_INDEX, features // feature_groups):
            raise VerifyException(
                f"expects input feature dimension ({features}) / feature_group_count = "
                f"kernel input feature dimension ({kernel_features}). Got "
                f"feature_group_count = {feature_groups}."
            )
    if output_features == DYNAMIC_INDEX:
        return
    if output_features % batch_groups:
        raise VerifyException(
            f"expects output feature dimension size ({output_features}) to be a "
            f"multiple of batch_group_count. Got batch_group_count = {batch_groups}."
        )
    if output_features % feature_groups:
        raise VerifyException(
            f"expects kernel output feature dimension ({output_features}) to be "
            f"divisible by feature_group_count. For feature_group_count = "
            f"{feature_groups}."
        )


def _dilated(size: int, dilation: int) -> int:
    """The size of a dimension with `dilation - 1` holes between its elements."""
    return (size - 1) * dilation + 1 if size else 0


@dataclass(frozen=True)
class _WindowDimension:
    size: int
    stride: int
    padding: tuple[int, int]
    base_dilation: int
    window_dilation: int

    def positions_in(self, size: int) -> int:
        """How many positions the window has in a dimension of the input."""
        if DYNAMIC_INDEX in (size, self.size):
            return DYNAMIC_INDEX
        padded = _dilated(size, self.base_dilation) + sum(self.padding)
        window = _dilated(self.size, self.window_dilation)
        if not padded or window > padded:
            return 0
        return (padded - window) // self.stride + 1


def _window(op: ConvolutionOp, rhs_shape: Sequence[int]) -> list[_WindowDimension]:
    sizes = [
        rhs_shape[dimension]
        for dimension in op.dimension_numbers.kernel_spatial_dimensions.get_values()
    ]
    padding = _padding(op)
    count = len(sizes)

    def values(
        attribute: DenseArrayBase[IntegerType] | None, name: str
    ) -> Sequence[int]:
        given = () if attribute is None else attribute.get_values()
        _verify_count(count, len(given), name)
        return given or (1,) * count

    strides = values(op.window_strides, "window-strides")
    base_dilations = values(op.lhs_dilation, "base-dilation factors")
    window_dilations = values(op.rhs_dilation, "window-dilation factors")
    _verify_count(count, len(padding), "padding-entries")
    values(op.window_reversal, "window-reversal")
    window = [
        _WindowDimension(*dimension)
        for dimension in zip(
            sizes,
            strides,
            padding or ((0, 0),) * count,
            base_dilations,
            window_dilations,
            strict=True,
        )
    ]
    for index, dimension in enumerate(window):
        _verify_window_dimension(index, dimension)
    return window


def _padding(op: ConvolutionOp) -> Sequence[tuple[int, int]]:
    if (attribute := op.padding) is None:
        return ()
    shape = attribute.get_shape()
    if len(shape) != 2 or shape[1] != 2:
        raise VerifyException(
            "expects the shape of padding-attribute to be {N, 2}, but got "
            f"{{{', '.join(map(str, shape))}}}."
        )
    sizes = cast(Sequence[int], attribute.get_values())
    return list(zip(sizes[::2], sizes[1::2], strict=True))


def _verify_count(expected: int, count: int, name: str) -> None:
    if count not in (0, expected):
        raise VerifyException(
            f"expects {name} to have same dimension-size as size of window dimensions "
            f"({expected}), but got: {count}."
        )


def _verify_window_dimension(index: int, dimension: _WindowDimension) -> None:
    # Of these the size alone may be unknown.
    size = 1 if dimension.size == DYNAMIC_INDEX else dimension.size
    for name, value in (
        ("value", size),
        ("stride", dimension.stride),
        ("base dilation factor", dimension.base_dilation),
        ("window dilation factor", dimension.window_dilation),
    ):
        if value <= 0:
            raise VerifyException(
                f"expects window to have positive {name} for {index}-th window "
                f"dimension, but got {value}."
            )
