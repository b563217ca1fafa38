"""Builder of TensorFlow Lite ops, and constants of StableHLO."""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, NoneType, TensorType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    ScaledQuantizedType,
)
from xdsl_quant.dialects.quant.ops import cast_rounding
from xdsl_quant.dialects.quant.types import PerTensorType, scalar_or_element_type
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect.base import PlainValue, plain_attribute
from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.arrays import (
    constant_elements,
    elements_attr,
    numpy_dtype,
    stored_elements,
)
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    element_type_of,
    shape_of,
)
from xdsl_quant.unsupported import Unsupported

# The class of the op differs by entry of the tables.
SingleConversion: TypeAlias = Callable[["TFLBuilder", Any], SSAValue]
"""
Function that builds the result of a StableHLO op. Its operands may still be results of
StableHLO ops, because a module is converted from its end.
"""

Conversion: TypeAlias = (
    SingleConversion | Callable[["TFLBuilder", Any], Sequence[SSAValue]]
)
"""Function that builds the result of a StableHLO op, or all its results."""


def inverse(permutation: Sequence[int]) -> Sequence[int]:
    """Return the permutation that undoes a transpose."""
    return [*np.argsort(permutation).tolist()]


class TFLBuilder(LoweringBuilder):
    """Builder of TensorFlow Lite ops on ranked tensors."""

    def build(
        self,
        op_type: type[Operation],
        operands: Sequence[SSAValue],
        result_type: Attribute,
        **properties: PlainValue,
    ) -> SSAValue:
        """Build an op whose properties are Python values."""
        attributes = {name: plain_attribute(p) for name, p in properties.items()}
        return self.op(op_type, operands, result_type, attributes)

    def array(self, elements: Array, element_type: Attribute) -> SSAValue:
        """Build a constant from elements that are convertible to an element type."""
        array = np.asarray(elements, numpy_dtype(element_type))
        value = elements_attr(array, element_type)
        return self.op(tfl.ConstOp, (), value.type, {"value": value})

    def integers(self, numbers: Sequence[int]) -> SSAValue:
        """Build a constant vector of `i32`, e.g. of sizes or axes."""
        if not all(-(1 << 31) <= number < 1 << 31 for number in numbers):
            raise Unsupported("has a size or index of more than 32 bits")
        return self.array(np.array(numbers, np.int32), i32)

    def scalar(self, number: float, element_type: Attribute) -> SSAValue:
        return self.array(np.array(number), element_type)

    def absent(self) -> SSAValue:
        """Build the placeholder of an optional operand."""
        return self.add(tfl.NoValueOp(result_types=[NoneType()]))

    def like(self, value: SSAValue, shape: Sequence[int]) -> TensorType:
        """Return the type of a tensor with the elements of `value` and another shape."""
        return TensorType(element_type_of(value), shape)

    def transpose(self, value: SSAValue, permutation: Sequence[int]) -> SSAValue:
        if [*permutation] == [*range(len(permutation))]:
            return value
        shape = [shape_of(value)[d] for d in permutation]
        order = self.integers(permutation)
        type_ = self.like(value, shape)
        return self.add(tfl.TransposeOp(value, order, result_types=[type_]))

    def reshape_to(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        if shape_of(value) == (*shape,):
            return value
        if shape.count(DYNAMIC_INDEX) > 1:
            raise Unsupported("has several dynamic sizes, to which it cannot reshape")
        sizes = self.integers([-1 if n == DYNAMIC_INDEX else n for n in shape])
        type_ = self.like(value, shape)
        return self.add(tfl.ReshapeOp(value, sizes, result_types=[type_]))

    def slice(
        self,
        value: SSAValue,
        starts: Sequence[int],
        limits: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> SSAValue:
        """Build a slice; the sizes of sliced dimensions are known."""
        strides = strides or [1] * len(starts)
        bounds = zip(starts, limits, strides, strict=True)
        sizes = [-(-(limit - start) // stride) for start, limit, stride in bounds]
        type_ = self.like(value, sizes)
        if type_ == value.type:
            return value
        if max(strides, default=1) == 1:
            begin, size = self.integers(starts), self.integers(sizes)
            return self.add(tfl.SliceOp(value, begin, size, result_types=[type_]))
        operands = [self.integers(each) for each in (starts, limits, strides)]
        masks = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
        flags = dict.fromkeys((f"{name}_mask" for name in masks), 0)
        return self.build(
            tfl.StridedSliceOp, (value, *operands), type_, offset=False, **flags
        )

    def pad(
        self,
        value: SSAValue,
        low: Sequence[int],
        high: Sequence[int],
        fill: SSAValue | None = None,
    ) -> SSAValue:
        """
        Pad a value; negative padding removes elements.

        Args:
            value: value to pad; the sizes of padded dimensions are known.
            low: number of elements before those of the value, by dimension.
            high: number of elements after them.
            fill: tensor with the element to pad with; by default zero.
        """
        if min((*low, *high), default=0) < 0:
            starts = [max(-n, 0) for n in low]
            ends = zip(shape_of(value), high, strict=True)
            value = self.slice(value, starts, [size + min(n, 0) for size, n in ends])
            low, high = ([max(n, 0) for n in each] for each in (low, high))
        if not any((*low, *high)):
            return value
        if any(
            n == DYNAMIC_INDEX and (a or b)
            for n, a, b in zip(shape_of(value), low, high, strict=True)
        ):
            raise Unsupported("pads a dimension of dynamic size")
        sizes = zip(low, shape_of(value), high, strict=True)
        type_ = self.like(
            value, [n if n == DYNAMIC_INDEX else a + n + b for a, n, b in sizes]
        )
        rows = self.array(np.array([low, high], np.int32).T, i32)
        if fill is None:
            return self.add(tfl.PadOp(value, rows, result_types=[type_]))
        return self.add(tfl.PadV2Op(value, rows, fill, result_types=[type_]))


# Constants


def _broadcast_elements(array: Array, op: stablehlo.BroadcastInDimOp) -> Array:
    shape = shape_of(op.results[0])
    sizes = [1] * len(shape)
    dimensions = op.broadcast_dimensions.get_values()
    for dimension, size in zip(dimensions, array.shape, strict=True):
        sizes[dimension] = size
    order = np.argsort(dimensions)
    return np.broadcast_to(array.transpose(order).reshape(sizes), shape)


QUANTIZE = QuantizeCastOp | stablehlo.UniformQuantizeOp
DEQUANTIZE = DequantizeCastOp | stablehlo.UniformDequantizeOp


def known_elements(value: SSAValue) -> Array | None:
    """
    Return the elements of a number tensor that StableHLO ops compute from constants by
    broadcasting, reshaping or dequantization; `None` for other values.
    """
    op = value.owner
    if isinstance(op, stablehlo.ConstantOp):
        elements = constant_elements(value)
        is_stored = isinstance(element_type_of(value), ScaledQuantizedType)
        return None if is_stored else elements
    if isinstance(op, DEQUANTIZE):
        return _dequantized_elements(op)
    if not isinstance(op, stablehlo.BroadcastInDimOp | stablehlo.ReshapeOp):
        return None
    if (array := known_elements(op.operands[0])) is None:
        return None
    if isinstance(op, stablehlo.BroadcastInDimOp):
        return _broadcast_elements(array, op)
    return array.reshape(shape_of(value))


def _dequantized_elements(op: Operation) -> Array | None:
    """Return the elements of a dequantized constant, which a cast may have quantized."""
    type_ = scalar_or_element_type(op.operands[0].type)
    source = op.operands[0].owner
    if not isinstance(type_, ScaledQuantizedType) or not type_.has_integer_storage:
        return None
    parameters = QuantizationParameters.from_integer_type(type_)
    if isinstance(source, stablehlo.ConstantOp):
        elements = constant_elements(op.operands[0])
        if elements is None:
            return None
        return dequantize(stored_elements(elements, type_), parameters)
    if not isinstance(source, QUANTIZE):
        return None
    elements = known_elements(source.operands[0])
    if elements is None:
        return None
    rounding = cast_rounding(source, Rounding())
    stored = quantize(
        elements,
        parameters,
        rounding_mode=rounding.mode,
        zero_point_order=rounding.zero_point_order,
        nan=rounding.nan,
    )
    return dequantize(stored, parameters)


def filling_number(value: SSAValue) -> float | None:
    """Return the number that fills a tensor, or `None`."""
    if not isinstance(value.type, TensorType):
        return None
    array = known_elements(value)
    if array is None or not array.size or (array != array.flat[0]).any():
        return None
    return float(array.flat[0])


def float_range(value: SSAValue) -> tuple[float, float]:
    """Return bounds of the elements of a float tensor, infinite for unknown ones."""
    op = value.owner
    if not isinstance(op, DEQUANTIZE):
        return -inf, inf
    type_ = scalar_or_element_type(op.operands[0].type)
    if not isinstance(type_, PerTensorType) or not type_.has_integer_storage:
        return -inf, inf
    parameters = QuantizationParameters.from_integer_type(type_)
    ends = np.array(
        [parameters.storage_min, parameters.storage_max], parameters.storage_dtype
    )
    low, high = dequantize(ends, parameters).tolist()
    return low, high


def is_float(value: SSAValue) -> bool:
    """Return True for a tensor of floats, not of stored values."""
    return isinstance(scalar_or_element_type(value.type), AnyFloat)
