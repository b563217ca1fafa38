"""
Verification rules for dimension numbers, windows, and quantized operands and results.

Rules for quantized types have the names of StableHLO's specification, e.g. `C4` of `add`.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerType,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import QuantizedType, ScaledQuantizedType
from xdsl_quant.dialects.quant.types import PerAxisType, PerTensorType
from xdsl_quant.dialects.verification import (
    RankedTensor,
    are_compatible_shapes,
    require,
)

from .attributes import (
    GatherDimensionNumbersAttr,
    ScatterDimensionNumbersAttr,
    dimensions_text,
)

# Dimensions


def verify_dimensions(name: str, dimensions: Sequence[int], rank: int) -> None:
    """Raise `VerifyException` if a dimension is out of range or repeated."""
    distinct = set(dimensions)
    require(
        len(distinct) == len(dimensions) and distinct.issubset(range(rank)),
        f"expects distinct dimensions in [0, {rank}) as {name}, got "
        f"{dimensions_text(dimensions)}",
    )


def verify_count(name: str, values: Sequence[object], count: int) -> None:
    """Raise `VerifyException` unless there are `count` values."""
    require(len(values) == count, f"expects {count} {name}, got {len(values)}")


def verify_indexing(
    numbers: GatherDimensionNumbersAttr | ScatterDimensionNumbersAttr,
    shape: Sequence[int],
    indices: Sequence[int],
) -> None:
    """
    Verify the dimension numbers of `gather` and `scatter`, except for slice dimensions and
    the number of components of an index.

    Args:
        numbers: dimension numbers.
        shape: shape of the tensor with the slices.
        indices: shape of the indices.

    Raises:
        VerifyException: if dimension numbers are inconsistent.
    """
    windows, dropped, batching, indices_batching, index_map = numbers.numbers()
    names, vector = numbers.names, numbers.index_vector_dim.data
    verify_dimensions("index_vector_dim", (vector,), len(indices) + 1)
    for name, dimensions in zip(names, (windows, dropped, batching), strict=False):
        require([*dimensions] == sorted(dimensions), f"expects {name} to be sorted")
    for name, dimensions in ((names[1], dropped), (names[4], index_map)):
        words, used = f"{name} and {names[2]}", (*dimensions, *batching)
        verify_dimensions(words, used, len(shape))
    verify_dimensions(names[3], indices_batching, len(indices))
    require(
        vector not in indices_batching,
        f"expects {names[3]} not to include index_vector_dim",
    )
    verify_count(names[3], indices_batching, len(batching))
    require(
        are_compatible_shapes(
            [shape[dimension] for dimension in batching],
            [indices[dimension] for dimension in indices_batching],
        ),
        f"expects {names[2]} and {names[3]} to have compatible sizes",
    )


# Windows


Numbers = DenseArrayBase[IntegerType]


class Padding(NamedTuple):
    """Elements added to a dimension; negative `low` and `high` remove elements."""

    low: int = 0
    high: int = 0

    interior: int = 0
    """Number of elements inserted between neighboring elements."""

    def padded_size(self, size: int) -> int:
        """Return the padded size of a dimension."""
        return size + self.low + self.high + max(size - 1, 0) * self.interior


class WindowDimension(NamedTuple):
    """Window parameters along one dimension of a tensor."""

    size: int
    stride: int
    """Distance between consecutive positions of the window."""

    dilation: int
    """Distance between consecutive elements of the window."""

    padding: Padding

    @property
    def extent(self) -> int:
        """Size of the dilated window."""
        return (self.size - 1) * self.dilation + 1 if self.size else 0

    def positions(self, size: int) -> int:
        """Return the number of window positions along a dimension of `size`, unpadded."""
        if DYNAMIC_INDEX in (size, self.size):
            return DYNAMIC_INDEX
        room = self.padding.padded_size(size) - self.extent
        return room // self.stride + 1 if room >= 0 else 0


def _padding_pairs(
    attribute: DenseIntOrFPElementsAttr | None,
) -> Sequence[tuple[int, int]]:
    if attribute is None:
        return ()
    shape = attribute.get_shape()
    require(
        len(shape) == 2 and shape[1] == 2,
        f"expects the shape of padding to be [N, 2], got {dimensions_text(shape)}",
    )
    sizes = cast(Sequence[int], attribute.get_values())
    return list(zip(sizes[::2], sizes[1::2], strict=True))


def window_dimensions(
    sizes: Sequence[int],
    strides: Numbers | None,
    padding: DenseIntOrFPElementsAttr | None,
    base_dilations: Numbers | None,
    window_dilations: Numbers | None,
    reversal: Numbers | None = None,
) -> list[WindowDimension]:
    """
    Return the dimensions of a window. Strides and dilations default to 1, padding to 0.

    Raises:
        VerifyException: if a property has the wrong length or a value is not positive.
    """
    properties = {
        "window strides": strides,
        "base dilations": base_dilations,
        "window dilations": window_dilations,
        "window reversals": reversal,
    }
    numbers = {
        k: v.get_values() if v is not None else () for k, v in properties.items()
    }
    edges, rank = _padding_pairs(padding), len(sizes)
    for words, values in {**numbers, "padding pairs": edges}.items():
        if values:
            verify_count(words, values, rank)
    *filled, _ = (values or (1,) * rank for values in numbers.values())
    require(
        all(number > 0 for values in filled for number in values)
        and all(size > 0 or size == DYNAMIC_INDEX for size in sizes),
        "expects window to have positive sizes, strides and dilations",
    )
    rows = zip(sizes, *filled, edges or [(0, 0)] * rank, strict=True)
    return [
        WindowDimension(size, stride, dilation, Padding(low, high, base - 1))
        for size, stride, base, dilation, (low, high) in rows
    ]


# Quantized types


def has_quantized(types: Sequence[RankedTensor]) -> bool:
    """Return True if any of the tensors is quantized."""
    return any(isinstance(type_.element_type, QuantizedType) for type_ in types)


def verify_quantized_add(lhs: Attribute, rhs: Attribute, result: Attribute) -> None:
    """Verify C2 to C7 of an `add` with a quantized operand or result."""
    if (
        not isinstance(lhs, ScaledQuantizedType)
        or not isinstance(rhs, ScaledQuantizedType)
        or not isinstance(result, ScaledQuantizedType)
    ):
        raise VerifyException(
            "expects  all operands and results to be either quantized or non-quantized"
        )
    require(
        lhs.storage_type == rhs.storage_type == result.storage_type,
        "mismatched operands and result quantization storage types",
    )
    require(
        lhs.expressed_type == rhs.expressed_type == result.expressed_type,
        "mismatched operands and result quantization expressed types",
    )
    per_axis = {
        name: type_
        for name, type_ in (("lhs", lhs), ("rhs", rhs))
        if isinstance(type_, PerAxisType)
    }
    if not isinstance(result, PerAxisType):
        require(not per_axis, "result is not per_axis quantized but lhs or rhs are")
        return
    require(
        bool(per_axis),
        "result per_axis quantized but none from rhs and lhs are per_axis quantized",
    )
    for name, type_ in per_axis.items():
        if type_.quantized_dimension != result.quantized_dimension:
            raise VerifyException(
                f"quantization_dimension of {name} and result are not same '{type_}' vs "
                f"'{result}'"
            )


def verify_reshape(operand: RankedTensor, result: RankedTensor) -> None:
    """Verify the number of elements and C1 to C3 of `reshape`, if shapes are static."""
    shape, result_shape = operand.get_shape(), result.get_shape()
    if DYNAMIC_INDEX in (*shape, *result_shape):
        return
    expected, actual = math.prod(shape), math.prod(result_shape)
    require(
        actual == expected,
        f"number of output elements ({actual}) doesn't match expected number of "
        f"elements ({expected})",
    )
    verify_same_parameters(operand, result)
    verify_reshaped_dimension(operand, result)


def verify_same_parameters(operand: RankedTensor, result: RankedTensor) -> None:
    """Verify C1 of `reshape` and `transpose`: equal scales and zero points."""
    verify_same_scale(operand, result)
    if (axes := _per_axis_types(operand, result)) is None:
        return
    # If the numbers of scales differ, so do the sizes of the quantized dimensions, which
    # another check reports.
    for a, b in zip(*((axis.scale_array(), axis.zero_point_array()) for axis in axes)):
        if (count := min(len(a), len(b))) and a[:count] != b[:count]:
            raise VerifyException(
                f"expect same quantization scales and zero_points but got '{operand}' vs "
                f"'{result}'"
            )


def verify_same_scale(operand: RankedTensor, result: RankedTensor) -> None:
    """Verify C1 of `broadcast_in_dim`: per-tensor quantized element types are equal."""
    a, b = operand.element_type, result.element_type
    if isinstance(a, PerTensorType) and isinstance(b, PerTensorType) and a != b:
        raise VerifyException(
            f"expect same quantization scale and zero_point but got '{operand}' vs "
            f"'{result}'"
        )


def _per_axis_types(
    operand: RankedTensor, result: RankedTensor
) -> tuple[PerAxisType, PerAxisType] | None:
    a, b = operand.element_type, result.element_type
    if isinstance(a, PerAxisType) and isinstance(b, PerAxisType):
        return a, b
    return None


def verify_reshaped_dimension(operand: RankedTensor, result: RankedTensor) -> None:
    """
    Verify C3 of `reshape`: operand and result agree in the size of the quantized dimension,
    and in the product of the sizes before it.
    """
    if (axes := _per_axis_types(operand, result)) is None:
        return
    before, after = (axis.quantized_dimension.data for axis in axes)
    operand_shape, result_shape = operand.get_shape(), result.get_shape()
    if operand_shape[before] != result_shape[after]:
        raise VerifyException(
            "expect same quantization dimension size for operand and result "
            f"'{operand}' and '{result}'"
        )
    sizes = math.prod(operand_shape[:before]), math.prod(result_shape[:after])
    require(
        sizes[0] == sizes[1],
        "product of dimensions before quantization dimension must match between operand "
        f"and result for {sizes[0]} and {sizes[1]}",
    )


def verify_transposed_dimension(
    operand: RankedTensor, result: RankedTensor, permutation: Sequence[int]
) -> None:
    """Verify C4 of `transpose`: the quantized dimension is permuted like all others."""
    if (axes := _per_axis_types(operand, result)) is None:
        return
    before, after = (axis.quantized_dimension.data for axis in axes)
    # Another check reports a permutation that is too short.
    for source in permutation[after : after + 1]:
        require(
            source == before,
            f"operand quantization_dimension {before} is not same as "
            f"permutation[{after}] = {source}",
        )


def verify_broadcast_dimension(
    operand: RankedTensor, result: RankedTensor, dimensions: Sequence[int]
) -> None:
    """
    Verify C6 of `broadcast_in_dim`: `dimensions` maps the quantized dimension of the
    operand to that of the result. If the operand has one scale, all result scales equal it.
    """
    if (axes := _per_axis_types(operand, result)) is None:
        return
    before, after = (axis.quantized_dimension.data for axis in axes)
    require(
        dimensions[before] == after,
        f"result quantization_dimension {after} not same as "
        f"broadcast_dimensions[{before}] = {dimensions[before]}",
    )
    if operand.get_shape()[before] != 1:
        return
    a, b = axes
    scale, zero_point = a.scale_array()[0], a.zero_point_array()[0]
    parameters = zip(b.scale_array(), b.zero_point_array(), strict=True)
    for index, (result_scale, result_zero_point) in enumerate(parameters):
        if result_scale != scale:
            raise VerifyException(
                f"mismatch result scale {index} ({result_scale:e}) and operand scale 0 "
                f"({scale:e})"
            )
        if result_zero_point != zero_point:
            raise VerifyException(
                f"mismatch result zero_point {index} ({result_zero_point}) and operand "
                f"zero_point 0 ({zero_point})"
            )


def verify_rhs_of_dot(rhs: Attribute, contracting_dimensions: Sequence[int]) -> None:
    """Verify C15 and C16 of `dot_general`: zero points and quantized dimension of `rhs`."""
    if not isinstance(rhs, ScaledQuantizedType):
        return
    is_per_axis = isinstance(rhs, PerAxisType)
    points = "Zero points" if is_per_axis else "Zero point"
    require(rhs.is_fixed_point, f"{points} of rhs should be 0")
    require(
        not is_per_axis or rhs.quantized_dimension.data not in contracting_dimensions,
        "Quantization dimension of rhs should not be in the contracting dimension of rhs",
    )


def verify_quantized_product(lhs: Attribute, rhs: Attribute, result: Attribute) -> None:
    """
    Verify C14 and C17 to C20 of `dot_general`, or C28 and C31 to C34 of `convolution`, for
    an op with a quantized operand or result.

    In hybrid contractions, only `rhs` is quantized.
    """
    is_hybrid = not isinstance(lhs, ScaledQuantizedType)
    if not isinstance(rhs, ScaledQuantizedType) or is_hybrid == isinstance(
        result, ScaledQuantizedType
    ):
        raise VerifyException(
            "rhs should be quantized for quantized operations and "
            "is_quantized(lhs)=is_quantized(result) should hold"
        )
    if is_hybrid:
        require(
            lhs == rhs.expressed_type == result,
            "mismatched rhs quantization expressed type and lhs and result element type",
        )
        return
    assert isinstance(result, ScaledQuantizedType)
    require(
        lhs.storage_type == rhs.storage_type,
        "mismatched lhs and rhs quantization storage types",
    )
    require(
        lhs.expressed_type == rhs.expressed_type == result.expressed_type,
        "mismatched lhs, rhs and result quantization expressed types",
    )
    require(
        not isinstance(rhs, PerTensorType) or isinstance(result, PerTensorType),
        "mismatched rhs and result quantization granularity",
    )
