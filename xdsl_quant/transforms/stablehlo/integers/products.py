"""
The sums of products of `dot_general` and `convolution`, on stored values.

Stored values of the left side are multiplied by those of the right side, less their zero
points, which are 0 as a rule. The zero point of the left side times the sum of the right
side's values is subtracted later:

    sum((lhs - zero_point) * rhs) = sum(lhs * rhs) - zero_point * sum(rhs)

A convolution has to be padded with the zero point for this. A `pad` op before it does so,
between the elements, too, if they are dilated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
    i32,
    i64,
)
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from xdsl_quant.dialects.quant import StoredQuantizedType
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.dialects.stablehlo import (
    ConstantOp,
    ConvolutionOp,
    DotGeneralOp,
    PadOp,
)
from xdsl_quant.dialects.stablehlo.attributes import dimensions_attr
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.fixed_point_arithmetic import extend, subtract

from .generic import Input, elementwise, identity, sums, tensor_of
from .scales import Quantization


def _wider(quantized_type: StoredQuantizedType) -> IntegerType:
    """The narrowest usual type of signed integers with more bits than stored values."""
    width = quantized_type.storage_type_integral_width
    return IntegerType(next(size for size in (8, 16, 32, 64) if width < size))


@dataclass(frozen=True)
class _Geometry:
    """Which dimension is which."""

    kept: Sequence[int]
    """The dimensions of the right side that are not summed over, in ascending order."""

    places: Sequence[int]
    """For each of these, the dimension of the result that it is."""


def _dot_geometry(op: DotGeneralOp) -> _Geometry:
    numbers = op.dot_dimension_numbers
    contracting = numbers.rhs_contracting_dimensions.get_values()
    batching = numbers.rhs_batching_dimensions.get_values()
    rank = len(cast(TensorType, op.rhs.type).get_shape())
    result_rank = len(cast(TensorType, op.result.type).get_shape())
    kept = [dimension for dimension in range(rank) if dimension not in contracting]
    free = [dimension for dimension in kept if dimension not in batching]
    places = dict(zip(batching, range(len(batching)), strict=True))
    # Dimensions that only the right side has are the last ones of the result.
    places |= dict(zip(free, range(result_rank - len(free), result_rank), strict=True))
    return _Geometry(kept, [places[dimension] for dimension in kept])


def _convolution_geometry(op: ConvolutionOp) -> _Geometry:
    numbers = op.dimension_numbers
    return _Geometry(
        [numbers.kernel_output_feature_dimension.data],
        [numbers.output_feature_dimension.data],
    )


@dataclass
class Product:
    """
    The sums of products of one op.

    Raises:
        ValueError: if they cannot be computed with integers, with the reason.
    """

    op: DotGeneralOp | ConvolutionOp
    lhs_type: StoredQuantizedType
    rhs_type: StoredQuantizedType

    lhs: Quantization = field(init=False)
    """How the left side is quantized, in terms of the result."""

    rhs: Quantization = field(init=False)
    """How the right side is."""

    largest: int = field(init=False)
    """The largest absolute value of a sum of centred values."""

    _accumulator: IntegerType = field(init=False)

    def __post_init__(self) -> None:
        rank = len(cast(TensorType, self.op.result.type).get_shape())
        self.lhs = Quantization(self.lhs_type, rank)
        self.rhs = Quantization(self.rhs_type, rank, self._rhs_axis)
        count = self._count() * self.rhs.largest
        self.largest = count * self.lhs.largest
        # Before and after the zero point is subtracted, and what is subtracted.
        largest = count * max(
            self.lhs.largest, self.lhs.largest_stored, abs(self.zero_point)
        )
        if largest >= 1 << 63:
            raise ValueError(
                f"sums of up to {largest.bit_length()} bits do not fit 64 bits"
            )
        # A sum is at least as wide as what is summed, which may be widened first.
        is_narrow = largest < 1 << 31 and max(self.lhs.width, self.rhs.width) < 32
        self._accumulator = i32 if is_narrow else i64

    @property
    def zero_point(self) -> int:
        """The zero point of the left side."""
        return int(self.lhs.zero_points.flat[0])

    @cached_property
    def _geometry(self) -> _Geometry:
        if isinstance(self.op, DotGeneralOp):
            return _dot_geometry(self.op)
        return _convolution_geometry(self.op)

    @property
    def _rhs_axis(self) -> int | None:
        """The dimension of the result that the scales of the right side change along."""
        from xdsl_quant.numerics import QuantizationParameters

        parameters = QuantizationParameters.from_type(self.rhs_type)
        if (axis := parameters.quantized_dimension) is None:
            return None
        return self._geometry.places[self._geometry.kept.index(axis)]

    def _count(self) -> int:
        """How many products are added."""
        shape = cast(TensorType, self.op.rhs.type).get_shape()
        sizes = [
            size
            for dimension, size in enumerate(shape)
            if dimension not in self._geometry.kept
        ]
        if DYNAMIC_INDEX in sizes:
            raise ValueError(
                "the number of products that are added is not known, it decides how wide "
                "sums are"
            )
        return math.prod(sizes)

    # Ops

    def sums(
        self, builder: LoweringBuilder, lhs: SSAValue, rhs: SSAValue
    ) -> list[Input]:
        """
        The sums of products and, if the zero point is not 0, those of the right side.

        Args:
            builder: where the ops are inserted.
            lhs: stored values of the left side.
            rhs: stored values of the right side.
        """
        if self.rhs.zero_points.any():
            lhs = _widened(builder, lhs, self.lhs_type)
            rhs = _centred(builder, rhs, self.rhs_type)
        elif not (self.lhs_type.is_signed and self.rhs_type.is_signed):
            lhs = _widened(builder, lhs, self.lhs_type)
            rhs = _widened(builder, rhs, self.rhs_type)
        result_type = tensor_of(
            cast(TensorType, self.op.result.type), self._accumulator
        )
        products = self._products(builder, lhs, rhs, result_type)
        inputs = [Input(products, identity(len(result_type.get_shape())))]
        if self.zero_point:
            rhs_sums = sums(builder, rhs, self._geometry.kept, self._accumulator)
            exprs = tuple(map(AffineExpr.dimension, self._geometry.places))
            inputs.append(Input(rhs_sums, exprs))
        return inputs

    def _products(
        self,
        builder: LoweringBuilder,
        lhs: SSAValue,
        rhs: SSAValue,
        result_type: TensorType,
    ) -> SSAValue:
        properties = dict(self.op.properties)
        if isinstance(self.op, ConvolutionOp) and self.zero_point:
            lhs = _padded(builder, self.op, lhs, self.zero_point)
            for name in ("padding", "lhs_dilation"):
                properties.pop(name, None)
        return builder.op(type(self.op), (lhs, rhs), result_type, properties)


def _widened(
    builder: LoweringBuilder, stored: SSAValue, quantized_type: StoredQuantizedType
) -> SSAValue:
    """Stored values as wider signed integers."""
    result_type = tensor_of(cast(TensorType, stored.type), _wider(quantized_type))
    extension = arith.ExtSIOp if quantized_type.is_signed else arith.ExtUIOp
    return builder.op(extension, (stored,), result_type)


def _centred(
    builder: LoweringBuilder, stored: SSAValue, quantized_type: StoredQuantizedType
) -> SSAValue:
    """Stored values less their zero points, as wider signed integers."""
    stored_type = cast(TensorType, stored.type)
    rank = len(stored_type.get_shape())
    wider = _wider(quantized_type)

    def body(
        builder: LoweringBuilder,
        stored: Sequence[SSAValue],
        numbers: Mapping[str, SSAValue],
    ) -> SSAValue:
        value = extend(builder, stored[0], quantized_type.is_signed)
        value = subtract(builder, value, numbers["zero_point"])
        if wider == i64:
            return value
        return builder.elementwise(arith.TruncIOp, (value,), wider)

    zero_points = {"zero_point": Quantization(quantized_type, rank).zero_points}
    inputs = [Input(stored, identity(rank))]
    return elementwise(
        builder, inputs, zero_points, tensor_of(stored_type, wider), body
    )


def _padded(
    builder: LoweringBuilder, op: ConvolutionOp, lhs: SSAValue, zero_point: int
) -> SSAValue:
    """The left side as the convolution pads and dilates it, with the zero point."""
    spatial = op.dimension_numbers.input_spatial_dimensions.get_values()
    lhs_type = cast(TensorType, lhs.type)
    shape = [*lhs_type.get_shape()]
    low, high, interior = ([0] * len(shape) for _ in range(3))
    paddings: Sequence[int] = [0] * (2 * len(spatial))
    if op.padding is not None:
        paddings = cast(Sequence[int], op.padding.get_values())
    dilations: Sequence[int] = [1] * len(spatial)
    if op.lhs_dilation is not None:
        dilations = op.lhs_dilation.get_values()
    for i, dimension in enumerate(spatial):
        low[dimension], high[dimension] = paddings[2 * i], paddings[2 * i + 1]
        interior[dimension] = dilations[i] - 1
        if (size := shape[dimension]) != DYNAMIC_INDEX:
            size += max(size - 1, 0) * interior[dimension]
            if low[dimension] + size + high[dimension] < 0:
                # Nothing is left, and a tensor cannot have less than that.
                low[dimension], high[dimension] = -size, 0
            shape[dimension] = low[dimension] + size + high[dimension]
    if not (any(low) or any(high) or any(interior)):
        return lhs
    element_type = cast(IntegerType, scalar_or_element_type(lhs_type))
    value = DenseIntOrFPElementsAttr.from_list(
        TensorType(element_type, ()), [zero_point]
    )
    padding_value = builder.op(ConstantOp, (), value.type, {"value": value})
    properties = {
        "edge_padding_low": dimensions_attr(low),
        "edge_padding_high": dimensions_attr(high),
        "interior_padding": dimensions_attr(interior),
    }
    return builder.op(
        PadOp,
        (lhs, padding_value),
        TensorType(element_type, shape, lhs_type.encoding),
        properties,
    )
