"""
The ops of the quant dialect, as they are, without a lowering.

A `quant.qcast` of a `quant.dcast` is computed from the stored value, with integers alone,
if both types have integer scales: that is how `lower-quant-ops` lowers it.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import cast

from xdsl.interpreter import Interpreter, InterpreterFunctions, PythonValues
from xdsl.ir import Attribute

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
from xdsl_quant.dialects.quant.requantization import requantized_dcast
from xdsl_quant.dialects.quant.types import QuantizedType, scalar_or_element_type
from xdsl_quant.numerics import (
    QuantizationParameters,
    choose_parameters,
    dequantize,
    quantize,
    requantize_fixed_point,
)
from xdsl_quant.rounding_mode import RoundingMode

from .implementations import interpreter_functions
from .values import failure, numbers, signed, wrapped

_parameters = lru_cache(maxsize=64)(QuantizationParameters.from_type)


def _parameters_of(type_: Attribute) -> QuantizationParameters:
    return _parameters(cast(QuantizedType, scalar_or_element_type(type_)))


def _quantize(
    rounding_mode: RoundingMode,
    interpreter: Interpreter,
    op: QuantizeCastOp,
    args: PythonValues,
) -> PythonValues:
    parameters = _parameters_of(op.result.type)
    if (dcast := requantized_dcast(op)) is not None:
        (stored,) = interpreter.get_values((dcast.input,))
        source = _parameters_of(dcast.input.type)
        try:
            return (requantize_fixed_point(stored, source, parameters),)
        except ValueError as e:
            raise failure(op, f"cannot be computed: {e}") from None
    values = numbers(args[0], op.input.type)
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


def _identity(
    interpreter: Interpreter,
    op: StatisticsOp | StatisticsRefOp | CoupledRefOp,
    args: PythonValues,
) -> PythonValues:
    return args


def _simulated(
    op: ConstFakeQuantOp | ConstFakeQuantPerAxisOp,
) -> QuantizationParameters:
    """The parameters of fake quantization, with exactly as many bits as it says."""
    is_signed, is_narrow = (
        flag is not None and bool(flag.value.data)
        for flag in (op.is_signed, op.narrow_range)
    )
    if isinstance(op, ConstFakeQuantOp):
        low, high, axis = op.min.value.data, op.max.value.data, None
    else:
        low = [bound.value.data for bound in op.min]
        high = [bound.value.data for bound in op.max]
        axis = op.axis.value.data
    return choose_parameters(
        low,
        high,
        storage=f"{'i' if is_signed else 'u'}{op.num_bits.value.data}",
        narrow_range=is_narrow,
        expressed=scalar_or_element_type(op.input.type).name,
        quantized_dimension=axis,
    )


def _simulate(
    rounding_mode: RoundingMode,
    interpreter: Interpreter,
    op: ConstFakeQuantOp | ConstFakeQuantPerAxisOp,
    args: PythonValues,
) -> PythonValues:
    values = numbers(args[0], op.input.type)
    parameters = _simulated(op)
    stored = quantize(values, parameters, rounding_mode=rounding_mode)
    return (dequantize(stored, parameters, rounding_mode=rounding_mode),)


@cache
def quant_functions(rounding_mode: RoundingMode) -> InterpreterFunctions:
    """The ops of the dialect, with this rounding mode."""
    return interpreter_functions(
        {
            QuantizeCastOp: partial(_quantize, rounding_mode),
            DequantizeCastOp: partial(_dequantize, rounding_mode),
            StorageCastOp: _cast_storage,
            ConstFakeQuantOp: partial(_simulate, rounding_mode),
            ConstFakeQuantPerAxisOp: partial(_simulate, rounding_mode),
            StatisticsOp: _identity,
            StatisticsRefOp: _identity,
            CoupledRefOp: _identity,
        }
    )
