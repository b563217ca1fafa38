"""
How an op of TensorFlow Lite is computed: of stored values by an integer kernel, of floats
and plain integers by a formula, and of stored values without a kernel by the fallback,
which dequantizes them, computes in `f32` and quantizes, rounding half to even.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import NoneType
from xdsl.ir import Attribute, Operation

from xdsl_quant.dialects.quant.types import QuantizedType, scalar_or_element_type
from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize
from xdsl_quant.numerics.tflite.quantized import Quantized
from xdsl_quant.runtime.array_types import (
    allows_shape,
    numpy_dtype,
    shape_text,
    shortened,
)

from .implementations import Implementation
from .values import failure

Formula: TypeAlias = Callable[..., Any]
"""Returns the array that an op computes of arrays, `None` for absent operands."""

Kernel: TypeAlias = Callable[..., Any]
"""
Returns the stored values that an op computes, given the op, the parameters of its result
(`None` if it is not quantized), and its operands, quantized or plain integers; or `None` if
there is no kernel for these parameters.
"""


@dataclass(frozen=True)
class Operands:
    """What the operands of an integer kernel may be besides quantized per tensor."""

    plain: Sequence[int] = ()
    """Those that may be absent or plain integers."""

    input: int = 0
    """What weights are multiplied with."""

    weights: int | None = None
    """Those that may have a scale for each channel, with zero points 0."""

    channels: int = 0
    """The dimension of weights that has the channels."""

    bias: int | None = None
    """Where plain integers have the scale of the input times the one of the weights."""


_QUANTIZED = Operands()

# Types


@lru_cache(maxsize=256)
def parameters_of(type_: Attribute) -> QuantizationParameters | None:
    """The parameters of the elements of a tensor; `None` if it is not quantized."""
    element_type = scalar_or_element_type(type_)
    if not isinstance(element_type, QuantizedType):
        return None
    return QuantizationParameters.from_type(cast(Any, element_type))


def typed(op: Operation, *results: Any) -> tuple[NDArray[Any], ...]:
    """
    Results with the dtypes of their types.

    Raises:
        InterpretationError: if a type does not allow the shape.
    """
    arrays: list[NDArray[Any]] = []
    for result, value in zip(results, op.results, strict=True):
        array = np.asarray(result)
        if not allows_shape(value.type, array.shape):
            raise failure(
                op,
                f"has a value of shape '{shape_text(array.shape)}' for the type "
                f"'{shortened(value.type)}'",
            )
        arrays.append(array.astype(numpy_dtype(value.type), copy=False))
    return tuple(arrays)


# Operands


def _operand(value: Any, type_: Attribute) -> Any:
    """A value with its parameters if it is quantized."""
    if (parameters := parameters_of(type_)) is None:
        return value
    return Quantized(np.asarray(value).astype(np.int64), parameters)


def has_one_scale(parameters: QuantizationParameters | None) -> bool:
    """Whether parameters are those of whole tensors."""
    return parameters is None or not parameters.scales.ndim


def _suits_kernel(operands: Sequence[Any], what: Operands) -> bool:
    for index, operand in enumerate(operands):
        if not isinstance(operand, Quantized):
            is_integer = operand is None or np.asarray(operand).dtype.kind != "f"
            if index not in what.plain or not is_integer:
                return False
        elif not has_one_scale(operand.parameters) and not (
            index == what.bias
            or (
                index == what.weights
                and operand.parameters.quantized_dimension == what.channels
                and not operand.parameters.has_zero_points
            )
        ):
            return False
    return True


# Computing


def computed(
    formula: Formula, kernel: Kernel | None = None, what: Operands = _QUANTIZED
) -> Implementation:
    """
    The implementation of an op with one result.

    Args:
        formula: what is computed of floats and plain integers.
        kernel: what is computed of stored values; `None` for ops that always take the
            fallback.
        what: which operands of the kernel may be what.
    """

    def run(op: Operation, *args: Any) -> Any:
        types = op.operand_types
        operands = [_operand(*pair) for pair in zip(args, types, strict=True)]
        (type_,) = op.result_types
        result = parameters_of(type_)
        if result is None and not any(isinstance(x, Quantized) for x in operands):
            return typed(op, formula(op, *args))
        is_float = result is None and numpy_dtype(type_).kind == "f"
        values = None
        if kernel and not is_float and has_one_scale(result):
            if _suits_kernel(operands, what):
                values = kernel(op, result, *operands)
        if values is None:
            values = _by_fallback(formula, op, args, what)
        return typed(op, values)

    return run


def _by_fallback(
    formula: Formula, op: Operation, args: Sequence[Any], what: Operands
) -> Any:
    """Dequantize, compute in `f32`, quantize."""
    floats = [expressed(*pair) for pair in zip(args, op.operand_types, strict=True)]
    if (index := what.bias) is not None:
        floats[index] = _expressed_bias(op, floats[index], what)
    result = parameters_of(op.results[0].type)
    values = np.asarray(formula(op, *floats))
    return values if result is None else quantize(values.astype(np.float32), result)


def expressed(value: Any, type_: Attribute) -> Any:
    """What stored values express; any other value as it is."""
    if value is None or isinstance(type_, NoneType):
        return None
    if (parameters := parameters_of(type_)) is None:
        return value
    return dequantize(np.asarray(value), parameters)


def _expressed_bias(op: Operation, bias: Any, what: Operands) -> Any:
    if bias is None or bias.dtype.kind == "f":
        return bias
    assert what.weights is not None
    scale = np.float64(1)
    for index in (what.input, what.weights):
        if (parameters := parameters_of(op.operands[index].type)) is not None:
            scale = scale * parameters.scales
    return (bias * scale).astype(np.float32)


# What tables of ops are made of


def activation_of(op: Any) -> str:
    """The activation that is computed together with an op."""
    return op.fused_activation_function.data


def flag(attribute: Any) -> bool:
    """A property that is true or false; false if it is absent."""
    return attribute is not None and bool(attribute.value.data)


def number(attribute: Any) -> Any:
    """A property that is a number."""
    return attribute.value.data


def kernel_of(function: Callable[..., Any], *options: Callable[[Any], Any]) -> Kernel:
    """A function of operands, of the parameters of the result, and of options of the op."""

    def kernel(op: Operation, result: QuantizationParameters, *operands: Any) -> Any:
        return function(*operands, result, *(option(op) for option in options))

    return kernel


def formula_of(function: Callable[..., Any], *options: Callable[[Any], Any]) -> Formula:
    """A function of operands and of options of the op."""

    def formula(op: Operation, *operands: Any) -> Any:
        return function(*operands, *(option(op) for option in options))

    return formula


def have_one_scale(result: QuantizationParameters | None, *operands: Quantized) -> bool:
    """Whether the same stored values express the same numbers."""
    assert result is not None
    return all(
        x.parameters.scales == result.scales
        and x.parameters.zero_points == result.zero_points
        for x in operands
    )


def on_stored_values(function: Callable[..., Any]) -> Kernel:
    """A kernel of stored values as they are, if all have the scale of the result."""

    def kernel(
        op: Operation, result: QuantizationParameters | None, *operands: Any
    ) -> Any:
        quantized = [x for x in operands if isinstance(x, Quantized)]
        if result is not None and not have_one_scale(result, *quantized):
            return None
        values = (x.values if isinstance(x, Quantized) else x for x in operands)
        return function(op, *values)

    return kernel
