"""
The ops of the quant dialect, as they are, without a lowering.

A `quant.qcast` of a `quant.dcast` is computed from the stored value, with integers alone,
if both types have fixed-point scales: that is how `lower-quant-ops` lowers it.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import Any, cast

from numpy.typing import NDArray
from xdsl.interpreter import Interpreter, InterpreterFunctions
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import InterpretationError, PassFailedException

from xdsl_quant.dialects.quant import (
    ConstFakeQuantOp,
    ConstFakeQuantPerAxisOp,
    CoupledRefOp,
    DequantizeCastOp,
    QuantizeCastOp,
    StatisticsOp,
    StatisticsRefOp,
    StorageCastOp,
)
from xdsl_quant.dialects.quant.nan_result import nan_result
from xdsl_quant.dialects.quant.requantization import requantized_dcast
from xdsl_quant.dialects.quant.types import QuantizedType, scalar_or_element_type
from xdsl_quant.numerics import (
    QuantizationParameters,
    dequantize,
    quantize,
    requantize_fixed_point,
)
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.transforms.statistics.quant_convert_simulated_quantization import (
    quantized_result_type,
)

from .implementations import interpreter_functions
from .values import numbers, signed, wrapped

_parameters = lru_cache(maxsize=64)(QuantizationParameters.from_type)


def _parameters_of(type_: Attribute) -> QuantizationParameters:
    return _parameters(cast(QuantizedType, scalar_or_element_type(type_)))


def _quantize(
    rounding: Rounding, interpreter: Interpreter, op: QuantizeCastOp, value: Any
) -> Any:
    parameters = _parameters_of(op.result.type)
    if (dcast := requantized_dcast(op)) is not None:
        (stored,) = interpreter.get_values((dcast.input,))
        return requantize_fixed_point(
            stored, _parameters_of(dcast.input.type), parameters
        )
    rounding = rounding._replace(nan=nan_result(op, rounding.nan))
    return _stored(numbers(value, op.input.type), parameters, rounding)


def _stored(
    values: NDArray[Any], parameters: QuantizationParameters, rounding: Rounding
) -> NDArray[Any]:
    return quantize(
        values,
        parameters,
        rounding_mode=rounding.mode,
        zero_point_order=rounding.zero_point_order,
        nan=rounding.nan,
    )


def _dequantize(rounding: Rounding, op: DequantizeCastOp, value: Any) -> Any:
    parameters = _parameters_of(op.input.type)
    return dequantize(value, parameters, rounding_mode=rounding.mode)


def _cast_storage(op: StorageCastOp, value: Any) -> Any:
    return wrapped(signed(value, op.input.type), op.result.type)


def _unchanged(op: Operation, value: Any) -> Any:
    return value


def _simulate(
    rounding: Rounding, op: ConstFakeQuantOp | ConstFakeQuantPerAxisOp, value: Any
) -> Any:
    try:
        # Stored values have exactly as many bits as the op says.
        type_ = quantized_result_type(op, exact_bits=True)
    except PassFailedException as e:
        raise InterpretationError(str(e)) from None
    parameters = _parameters_of(type_)
    stored = _stored(numbers(value, op.input.type), parameters, rounding)
    return dequantize(stored, parameters, rounding_mode=rounding.mode)


@cache
def quant_functions(rounding: Rounding) -> InterpreterFunctions:
    """The ops of the dialect, with this rounding."""
    return interpreter_functions(
        {
            DequantizeCastOp: partial(_dequantize, rounding),
            StorageCastOp: _cast_storage,
            ConstFakeQuantOp: partial(_simulate, rounding),
            ConstFakeQuantPerAxisOp: partial(_simulate, rounding),
            **dict.fromkeys((StatisticsOp, StatisticsRefOp, CoupledRefOp), _unchanged),
        },
        {QuantizeCastOp: partial(_quantize, rounding)},
    )
