"""Builder of StableHLO ops, for frontends whose ops are lowered to StableHLO."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue, TypeAttribute

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizedType,
    ScaledQuantizedType,
    uniform_type,
)
from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.dialects.quant.storage_types import (
    default_storage_max,
    default_storage_min,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.numerics import QuantizationParameters, quantize
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    element_type_of,
    shape_of,
)
from xdsl_quant.unsupported import Unsupported

from . import dialect as stablehlo
from .dialect.attributes import ComparisonDirection, ComparisonDirectionAttr
from .dialect.elementwise import BinaryOp


class StableHLOBuilder(LoweringBuilder):
    """Builder of StableHLO ops on ranked tensors, which may be quantized."""

    sizes_hint = "set the sizes of the inputs"
    """Advice in messages about dynamic sizes."""

    def _check_is_static(self, shape: Sequence[int]) -> None:
        if DYNAMIC_INDEX in shape:
            raise Unsupported(
                "has dynamic sizes, to which StableHLO cannot broadcast or reshape; "
                f"{self.sizes_hint}"
            )

    def dequantize(self, value: SSAValue) -> SSAValue:
        """Dequantize a value with `quant.dcast` if it is quantized."""
        type_ = QuantizedType.cast_to_expressed_type(value.type)
        return value if type_ is None else self.op(DequantizeCastOp, (value,), type_)

    def as_type(self, value: SSAValue, type_: Attribute) -> SSAValue:
        """Quantize a float value with `quant.qcast` if `type_` is quantized."""
        element_type = scalar_or_element_type(type_)
        if not isinstance(element_type, QuantizedType) or value.type == type_:
            return value
        return self.op(QuantizeCastOp, (value,), type_)

    def scalar(self, value: float, element_type: Attribute) -> SSAValue:
        """Build a constant of rank 0, clamped to the range of the type."""
        return self.splat(value, TensorType(element_type, ()))

    def splat(self, value: float, type_: TensorType) -> SSAValue:
        """Build a constant filled with `value`, clamped to the range of the type."""
        storage = element_type = cast(TypeAttribute, type_.element_type)
        if isinstance(element_type, ScaledQuantizedType):
            parameters = QuantizationParameters.from_integer_type(element_type)
            value = int(quantize(value, parameters))
            storage = element_type.storage_type
        elif isinstance(element_type, IntegerType):
            width = cast("IntegerType", element_type).bitwidth
            is_signed = width > 1 and element_type != IntegerType(
                width, Signedness.UNSIGNED
            )
            low = default_storage_min(width, is_signed)
            # NumPy would round bounds of 64 bits.
            value = int(min(max(value, low), default_storage_max(width, is_signed)))
        elif math.isfinite(value):
            largest = float_format(cast(AnyFloat, element_type)).largest
            value = min(max(value, -largest), largest)
        values_type = cast("TensorType[AnyFloat]", with_element_type(type_, storage))
        attribute = DenseIntOrFPElementsAttr.from_list(values_type, [value])
        return self.op(stablehlo.ConstantOp, (), type_, {"value": attribute})

    def reshape_to(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Reshape a value."""
        if shape_of(value) == (*shape,):
            return value
        self._check_is_static(shape)
        type_ = TensorType(element_type_of(value), shape)
        return self.op(stablehlo.ReshapeOp, (value,), type_)

    def broadcast(
        self,
        value: SSAValue,
        shape: Sequence[int],
        dimensions: Sequence[int] | None = None,
    ) -> SSAValue:
        """
        Broadcast a value.

        Args:
            value: floats, integers or stored values.
            shape: shape of the result.
            dimensions: result dimension for each dimension of the value; by default the
                last dimensions of the result.
        """
        own_shape = shape_of(value)
        if own_shape == (*shape,):
            return value
        self._check_is_static(shape)
        if dimensions is None:
            dimensions = range(len(shape) - len(own_shape), len(shape))
        element_type = element_type_of(value)
        if isinstance(element_type, ScaledQuantizedType) and (
            (axis := element_type.axis) is not None
        ):
            parameters = QuantizationParameters.from_integer_type(element_type)
            element_type = uniform_type(
                replace(parameters, quantized_dimension=dimensions[axis])
            )
        type_ = TensorType(element_type, shape)
        return self.add(
            stablehlo.BroadcastInDimOp(
                value, result_types=[type_], broadcast_dimensions=dimensions
            )
        )

    def slice(
        self,
        value: SSAValue,
        starts: Sequence[int],
        limits: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> SSAValue:
        return self.add(
            stablehlo.SliceOp(
                value,
                start_indices=starts,
                limit_indices=limits,
                strides=strides or [1] * len(starts),
            )
        )

    def pad(
        self, value: SSAValue, fill: SSAValue, low: Sequence[int], high: Sequence[int]
    ) -> SSAValue:
        """
        Pad a value at the low and high end of each dimension; negative padding removes
        elements.

        Args:
            value: value of static or dynamic sizes.
            fill: tensor with the single element to pad with.
            low: number of elements before those of the value, by dimension.
            high: number of elements after them.
        """
        return self.add(
            stablehlo.PadOp(
                value,
                self.reshape_to(fill, ()),
                edge_padding_low=low,
                edge_padding_high=high,
                interior_padding=[0] * len(low),
            )
        )

    def concatenate(self, values: Sequence[SSAValue], axis: int) -> SSAValue:
        """Concatenate tensors."""
        return self.add(stablehlo.ConcatenateOp(values, dimension=axis))

    def reduce(
        self,
        op_type: type[BinaryOp],
        value: SSAValue,
        start: float,
        axes: Sequence[int],
    ) -> SSAValue:
        """Reduce a value along `axes`, and drop these dimensions."""
        axes = sorted({axis % len(shape_of(value)) for axis in axes})
        init = self.scalar(start, element_type_of(value))
        return self.add(stablehlo.ReduceOp([value], [init], op_type, dimensions=axes))

    def compare(
        self, direction: ComparisonDirection, x: SSAValue, y: SSAValue
    ) -> SSAValue:
        """Compare tensors of one shape elementwise."""
        attribute = ComparisonDirectionAttr(direction)
        return self.add(stablehlo.CompareOp(x, y, comparison_direction=attribute))

    def clamp(self, value: SSAValue, low: float, high: float) -> SSAValue:
        least, most = (self.scalar(end, element_type_of(value)) for end in (low, high))
        return self.add(stablehlo.ClampOp(least, value, most))
