"""The casts of the quant dialect, as they are, without a lowering."""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import cast

from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues
from xdsl.ir import Attribute

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    StorageCastOp,
)
from xdsl_quant.dialects.quant.types import QuantizedType, scalar_or_element_type
from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize
from xdsl_quant.rounding_mode import RoundingMode

from .implementations import interpreter_functions
from .values import numbers, signed, wrapped

_parameters = lru_cache(maxsize=64)(QuantizationParameters.from_type)


def _parameters_of(type_: Attribute) -> QuantizationParameters:
    return _parameters(cast(QuantizedType, scalar_or_element_type(type_)))


def _quantize(
    rounding_mode: RoundingMode,
    interpreter: Interpreter,
    op: QuantizeCastOp,
    args: PythonValues,
) -> PythonValues:
    values = numbers(args[0], op.input.type)
    parameters = _parameters_of(op.result.type)
    return (quantize(values, parameters, rounding_mode=rounding_mode),)


def _dequantize(
    rounding_mode: RoundingMode,
    interpreter: Interpreter,
    op: DequantizeCastOp,
    args: PythonValues,
) -> PythonValues:
    parameters = _parameters_of(op.input.type)
    return (dequantize(args[0], parameters, rounding_mode=rounding_mode),)


def _cast_storage(
    interpreter: Interpreter, op: StorageCastOp, args: PythonValues
) -> PythonValues:
    return (wrapped(signed(args[0], op.input.type), op.result.type),)


@cache
def quant_functions(rounding_mode: RoundingMode) -> InterpreterFunctions:
    """The casts of the dialect, with this rounding mode."""
    return interpreter_functions(
        {
            QuantizeCastOp: partial(_quantize, rounding_mode),
            DequantizeCastOp: partial(_dequantize, rounding_mode),
            StorageCastOp: _cast_storage,
        }
    )
