"""
Quantize constants: a `quant.qcast` of an `arith.constant` becomes a constant of stored
values and a `quant.scast`.

All elements of a constant are quantized at once, by
[`quantize`][xdsl_quant.numerics.quantize], so results are those of running the lowered
cast. With `nearest-away` they are those of MLIR 14, which divides in f64: see
[`quantize_constant`][xdsl_quant.numerics.constant_quantization.quantize_constant].

A resource stays a resource, under a name of its own, if stored values have 8, 16 or 32
bits. How narrower ones are laid out in a resource is not settled: they become a dense
constant. All constants are quantized before the first op is replaced.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    ShapedType,
    TensorType,
)
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from xdsl_quant.dialects.quant import QuantizeCastOp, StorageCastOp
from xdsl_quant.dialects.quant.fixed_point_types import FixedPointType
from xdsl_quant.dialects.quant.types import (
    UniformType,
    scalar_or_element_type,
    with_element_type,
)
from xdsl_quant.resources import new_resource, resource_data
from xdsl_quant.rounding_mode import RoundingMode

from .diagnostics import fail
from .quantization_arithmetic import why_not_lowerable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ScaledType = UniformType | FixedPointType
"""Types that say how a value is stored."""


def _bytes_of(value: DenseIntOrFPElementsAttr | DenseResourceAttr) -> bytes:
    if isinstance(value, DenseIntOrFPElementsAttr):
        return value.data.data
    if (data := resource_data(value)) is None:
        raise ValueError(
            f"there is no data for resource '{value.resource_handle.data}'"
        )
    return data


def _numbers(value: Attribute, dtype: np.dtype[Any]) -> NDArray[Any] | float:
    """
    The numbers of a float constant, without a Python object for each of them.

    Raises:
        ValueError: if they are not there.
    """
    import numpy

    if isinstance(value, FloatAttr):
        return value.value.data
    assert isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr)
    data = _bytes_of(cast("DenseIntOrFPElementsAttr | DenseResourceAttr", value))
    shape = cast(ShapedType, value.get_type()).get_shape()
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{len(data)} bytes are no '{value.get_type()}'")
    return numpy.frombuffer(data, dtype).reshape(shape)


def _quantized_array(
    value: Attribute, quantized_type: _ScaledType, rounding_mode: RoundingMode
) -> NDArray[Any]:
    """
    The stored values of a constant.

    Raises:
        ValueError: if it cannot be quantized.
        ImportError: if its type needs a package that is not installed.
    """
    # Importing NumPy takes longer than starting `xdsl-opt`.
    from xdsl_quant.numerics import QuantizationParameters, quantize
    from xdsl_quant.numerics.constant_quantization import quantize_constant

    if (reason := why_not_lowerable(quantized_type)) is not None:
        raise ValueError(reason)
    parameters = QuantizationParameters.from_type(quantized_type)
    expressed = _numbers(value, parameters.expressed_dtype)
    if rounding_mode == "nearest-away":
        return quantize_constant(expressed, parameters)
    return quantize(expressed, parameters, rounding_mode=rounding_mode)


def _with_sign(stored: NDArray[Any], width: int) -> NDArray[Any]:
    """Stored values as xDSL keeps integers: with a sign, whatever they mean."""
    bits = 8 * stored.itemsize
    signed = stored.view(f"i{stored.itemsize}")
    return signed if width == bits else signed << (bits - width) >> (bits - width)


def _stored_attribute(
    value: Attribute, stored: NDArray[Any], quantized: Attribute
) -> Attribute:
    """The constant of stored values that takes the place of `value`."""
    storage_type = _quantized_type(quantized).signless_storage_type
    stored = _with_sign(stored, storage_type.bitwidth)
    if not isinstance(quantized, TensorType):
        return IntegerAttr(int(stored), storage_type)
    container = cast("TensorType[_ScaledType]", quantized)
    storage = TensorType(storage_type, container.shape, container.encoding)
    is_plain = storage_type.bitwidth == 8 * stored.itemsize
    if is_plain and isinstance(value, DenseResourceAttr):
        return new_resource(f"{value.resource_handle.data}_quantized", stored, storage)
    return DenseIntOrFPElementsAttr(storage, BytesAttr(stored.tobytes()))


def _quantized_type(type_: Attribute) -> _ScaledType:
    quantized_type = scalar_or_element_type(type_)
    assert isinstance(quantized_type, _ScaledType)
    return quantized_type


def _replace(qcast: QuantizeCastOp, constant: ConstantOp, stored: Attribute) -> None:
    quantized = qcast.result.type
    stored_op = ConstantOp.create(
        properties={"value": stored},
        result_types=(
            with_element_type(
                quantized, _quantized_type(quantized).signless_storage_type
            ),
        ),
        location=constant.location,
    )
    stored_op.result.name_hint = constant.result.name_hint
    scast = StorageCastOp.create(
        operands=stored_op.results, result_types=(quantized,), location=qcast.location
    )
    Rewriter.replace_op(qcast, (stored_op, scast))


@dataclass(frozen=True)
class QuantConvertConstPass(ModulePass):
    """
    Replace each `quant.qcast` of an `arith.constant` by a constant of stored values and a
    `quant.scast`. The constant of expressed values goes if nothing else uses it.

    It is a pass of MLIR 14, with sub-channel types, resources and rounding modes added.
    """

    name = "quant-convert-const"

    rounding_mode: RoundingMode = "nearest-even"
    """How a value between two stored ones is rounded; `nearest-away` is MLIR 14's way."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        casts = [
            (qcast, constant)
            for qcast in op.walk()
            if isinstance(qcast, QuantizeCastOp)
            and isinstance(constant := qcast.input.owner, ConstantOp)
            and isinstance(scalar_or_element_type(qcast.result.type), _ScaledType)
        ]
        arrays: dict[tuple[ConstantOp, Attribute], NDArray[Any]] = {}
        for qcast, constant in casts:
            if (key := (constant, qcast.result.type)) not in arrays:
                arrays[key] = self._quantized(qcast, constant)
        attributes = {
            (constant, type_): _stored_attribute(constant.value, array, type_)
            for (constant, type_), array in arrays.items()
        }
        for qcast, constant in casts:
            _replace(qcast, constant, attributes[constant, qcast.result.type])
        for constant in {constant: None for _, constant in casts}:
            if constant.result.first_use is None:
                Rewriter.erase_op(constant)

    def _quantized(self, qcast: QuantizeCastOp, constant: ConstantOp) -> NDArray[Any]:
        quantized_type = _quantized_type(qcast.result.type)
        try:
            return _quantized_array(constant.value, quantized_type, self.rounding_mode)
        except (ValueError, ImportError) as e:
            fail(qcast, f"'quant.qcast' op cannot quantize its constant: {e}")
