"""
Interpretation of the quant dialect, without lowering it.

A `quant.qcast` of a `quant.dcast` is requantized with integer arithmetic if both types
have fixed-point scales, as `lower-quant-ops` does.
"""

from functools import cache, lru_cache, partial
from typing import TypeAlias, cast

import numpy as np
from xdsl.interpreter import Interpreter, InterpreterFunctions
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import InterpretationError, PassFailedException

from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    ChooseParametersOp,
    ConstFakeQuantOp,
    ConstFakeQuantPerAxisOp,
    CoupledRefOp,
    DequantizeCastOp,
    DynamicCastOp,
    DynamicDequantizeCastOp,
    DynamicQuantizeCastOp,
    QuantizeCastOp,
    StatisticsOp,
    StatisticsRefOp,
    StorageCastOp,
)
from xdsl_quant.dialects.quant.fake_quantization import quantized_result_type
from xdsl_quant.dialects.quant.ops import cast_rounding, has_floats, requantized_dcast
from xdsl_quant.dialects.quant.types import QuantizedType, scalar_or_element_type
from xdsl_quant.numerics import (
    DynamicParameters,
    QuantizationParameters,
    choose_dynamic_parameters,
    dequantize,
    quantize,
    requantize_fixed_point,
)
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.block_scaled import (
    BlockScaledParameters,
    dequantize_blocks,
    quantize_blocks,
)
from xdsl_quant.numerics.parameters import storage_arguments
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.arrays import numpy_dtype

from .implementations import interpreter_functions
from .values import as_numbers, signed, unsigned, wrapped_to

Parameters: TypeAlias = QuantizationParameters | BlockScaledParameters


@lru_cache(maxsize=64)
def _cast_parameters(quantized_type: Attribute) -> Parameters:
    if isinstance(quantized_type, BlockScaledQuantizedType):
        return BlockScaledParameters.from_type(quantized_type)
    return QuantizationParameters.from_type(cast(QuantizedType, quantized_type))


def _value_parameters(value: SSAValue) -> Parameters:
    return _cast_parameters(scalar_or_element_type(value.type))


def _uniform_parameters(parameters: Parameters) -> QuantizationParameters:
    assert isinstance(parameters, QuantizationParameters)
    return parameters


def _run_quantize(
    rounding: Rounding, interpreter: Interpreter, op: QuantizeCastOp, value: Array
) -> Array:
    parameters = _value_parameters(op.result)
    if (dcast := requantized_dcast(op)) is not None:
        (stored,) = interpreter.get_values((dcast.input,))
        source = _uniform_parameters(_value_parameters(dcast.input))
        return requantize_fixed_point(stored, source, _uniform_parameters(parameters))
    rounding = cast_rounding(op, rounding)
    return _quantized_values(as_numbers(value, op.input.type), parameters, rounding)


def _quantized_values(
    values: Array, parameters: Parameters, rounding: Rounding
) -> Array:
    if isinstance(parameters, BlockScaledParameters):
        return quantize_blocks(values, parameters, rounding)
    return quantize(
        values,
        parameters,
        rounding_mode=rounding.mode,
        zero_point_order=rounding.zero_point_order,
        nan=rounding.nan,
    )


def _dequantized_values(
    rounding: Rounding, op: DequantizeCastOp, value: Array
) -> Array:
    parameters = _value_parameters(op.input)
    if isinstance(parameters, BlockScaledParameters):
        return dequantize_blocks(value, parameters)
    mode = cast_rounding(op, rounding).mode
    return dequantize(value, parameters, rounding_mode=mode)


def _dynamic_parameters(
    op: DynamicCastOp, scale: Array, zero_point: Array | None = None
) -> DynamicParameters:
    storage, blocks = op.storage, op.blocks
    arrays = [as_numbers(scale, op.scale.type).astype(np.float64)]
    if op.zero_point is not None:
        to_numbers = signed if storage.is_signed else unsigned
        arrays.append(to_numbers(zero_point, op.zero_point.type))
    if not blocks:
        arrays = [array.reshape(()) for array in arrays]
    return DynamicParameters(
        *arrays,
        **storage_arguments(storage),
        expressed=scalar_or_element_type(op.expressed.type).name,
        block_sizes=blocks or None,
    )


def _dynamic_quantize(
    rounding: Rounding, op: DynamicQuantizeCastOp, value: Array, *operands: Array
) -> Array:
    values = as_numbers(value, op.input.type)
    if not values.size:
        return np.empty(values.shape, numpy_dtype(op.result.type))
    parameters = _dynamic_parameters(op, *operands)
    rounding = cast_rounding(op, rounding)
    stored = _quantized_values(values, parameters, rounding)
    return stored if has_floats(op.result.type) else wrapped_to(stored, op.result.type)


def _dynamic_dequantize(
    rounding: Rounding, op: DynamicDequantizeCastOp, value: Array, *operands: Array
) -> Array:
    stored = as_numbers(value, op.input.type)
    if not has_floats(op.input.type):
        to_numbers = signed if op.storage.is_signed else unsigned
        stored = to_numbers(value, op.input.type)
    if not stored.size:
        return np.empty(stored.shape, numpy_dtype(op.result.type))
    parameters = _dynamic_parameters(op, *operands)
    mode = cast_rounding(op, rounding).mode
    return dequantize(stored, parameters, rounding_mode=mode)


def _choose_parameters(op: ChooseParametersOp, value: Array) -> tuple[Array, ...]:
    counts = [-(-value.shape[axis] // size) for axis, size in op.blocks.items()]
    if 0 in counts:
        return tuple(np.empty(counts, numpy_dtype(r.type)) for r in op.results)
    parameters = choose_dynamic_parameters(
        value,
        op.blocks,
        **storage_arguments(op.storage),
        symmetric=op.zero_point is None,
    )
    scales = parameters.scales.astype(numpy_dtype(op.scale.type))
    if op.zero_point is None:
        return (scales,)
    stored = parameters.zero_points.astype(parameters.storage_dtype)
    return scales, wrapped_to(stored, op.zero_point.type)


def _cast_storage(op: StorageCastOp, value: Array) -> Array:
    if has_floats(op.result.type) or has_floats(op.input.type):
        # Float storage and the float type have the same dtype.
        return value
    return wrapped_to(signed(value, op.input.type), op.result.type)


def _unchanged(op: Operation, value: Array) -> Array:
    return value


def _simulate(
    rounding: Rounding, op: ConstFakeQuantOp | ConstFakeQuantPerAxisOp, value: Array
) -> Array:
    try:
        # Use the op's `num_bits` exactly, not the next wider storage type.
        type_ = quantized_result_type(op, exact_bits=True)
    except PassFailedException as e:
        raise InterpretationError(str(e)) from None
    parameters = _uniform_parameters(_cast_parameters(scalar_or_element_type(type_)))
    rounding = cast_rounding(op, rounding)
    stored = _quantized_values(as_numbers(value, op.input.type), parameters, rounding)
    return dequantize(stored, parameters, rounding_mode=rounding.mode)


@cache
def quant_functions(rounding: Rounding) -> InterpreterFunctions:
    """Return the functions of the dialect with the given rounding."""
    return interpreter_functions(
        {
            DequantizeCastOp: partial(_dequantized_values, rounding),
            DynamicQuantizeCastOp: partial(_dynamic_quantize, rounding),
            DynamicDequantizeCastOp: partial(_dynamic_dequantize, rounding),
            ChooseParametersOp: _choose_parameters,
            StorageCastOp: _cast_storage,
            ConstFakeQuantOp: partial(_simulate, rounding),
            ConstFakeQuantPerAxisOp: partial(_simulate, rounding),
            **dict.fromkeys((StatisticsOp, StatisticsRefOp, CoupledRefOp), _unchanged),
        },
        {QuantizeCastOp: partial(_run_quantize, rounding)},
    )
