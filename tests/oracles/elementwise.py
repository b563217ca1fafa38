"""Ops that compute each element, or along the last dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.unit.frontends.tflite.formulas.cases import Case
from xdsl_quant.numerics.parameters import storage_range

from .drawing import Declarations, Draw, real

oracle = Declarations()

# Two operands


@oracle("ADD SUB", "i8, u8, i16, i16 powers")
def sums(draw: Draw) -> Case:
    is_power = draw.kind.endswith("powers")
    # With the option, scales that are all powers of two take a kernel of their own.
    has_shifts = draw.storage == "i16" and draw.chance(0.7)
    shapes = draw.broadcast_shapes()
    if is_power and has_shifts and draw.op == "ADD":
        # This kernel aborts the process for shapes that differ.
        shapes = shapes[0], shapes[0]
    powers: list[float] = []
    if is_power:
        exponents = [draw.integer(-14, -2)]
        exponents += [exponents[0] - draw.choice((0, 1, 2, 5))]
        powers = [2.0**e for e in draw.random.permutation(exponents)]
        scales = [draw.near(power) for power in powers]
    else:
        # Scales of sums that differ by more make one of the operands 0.
        first = draw.any_scale()
        scales = [first, first * draw.scale(0.05, 20)]
    x, y = (draw.quantized(*pair) for pair in zip(shapes, scales, strict=True))
    total = real(x) + real(y) if draw.op == "ADD" else real(x) - real(y)
    # The runtime aborts (ADD) or shifts by negative numbers (SUB) below this scale.
    bits = 15 if draw.storage == "i16" else 20
    least = 2 * max(*x.scales, *y.scales) / 2**bits
    result = draw.result_of(total, least_scale=least)
    if is_power:
        # The kernel demands that one of the operands has the scale of the result.
        result = draw.result("i16", draw.near(max(powers)))
    return draw.case(
        [x, draw.maybe_constant(y)],
        result,
        fused_activation_function=draw.activation(),
        pot_scale_int16=has_shifts,
    )


@oracle("MUL", "i8, u8, i16")
def products(draw: Draw) -> Case:
    x, y = map(draw.quantized, draw.broadcast_shapes())
    result = draw.result_of(real(x) * real(y))
    operands = [x, draw.maybe_constant(y)]
    return draw.case(operands, result, fused_activation_function=draw.activation())


@oracle("SQUARED_DIFFERENCE", "i8")
def squared_differences(draw: Draw) -> Case:
    shapes = draw.broadcast_shapes()
    first = draw.any_scale()
    scales = [first, float(np.float32(first * draw.scale(0.1, 10)))]
    x, y = (draw.quantized(*pair) for pair in zip(shapes, scales, strict=True))
    # The runtime aborts where the multiplier of the result is 1 or more.
    least = (2 * max(scales)) ** 2 / 2**14
    result = draw.result_of((real(x) - real(y)) ** 2, least_scale=least)
    return draw.case([x, draw.maybe_constant(y)], result)


@oracle("MAXIMUM MINIMUM", "i8, u8, i16")
def extrema(draw: Draw) -> Case:
    shape, other = draw.broadcast_shapes()
    x = draw.quantized(shape)
    y = draw.maybe_constant(draw.like(x, other))
    return draw.case([x, y], draw.result_like(x))


@oracle("EQUAL NOT_EQUAL GREATER GREATER_EQUAL LESS LESS_EQUAL", "i8, u8")
def comparisons(draw: Draw) -> Case:
    shape, other = draw.broadcast_shapes()
    # From scale 1 on the kernel shifts left where it should shift right.
    x = draw.quantized(shape, draw.any_scale(below=1))
    y = draw.quantized(other, draw.any_scale(below=1))
    if draw.chance(0.4):
        # Some elements are equal.
        y = draw.like(x, other)
        near = draw.stored(other, draw.storage, low=0, high=3)
        x = x._replace(array=draw.stored(shape, draw.storage, low=0, high=3))
        y = y._replace(array=near)
    return draw.case([x, draw.maybe_constant(y)], draw.result("i1"))


@oracle("SELECT SELECT_V2", "i8, u8, i16")
def selections(draw: Draw) -> Case:
    shape = draw.shape()
    shapes = [shape, shape, shape]
    if draw.op == "SELECT_V2":
        shapes = [draw.part_of(shape) for _ in range(3)]
        shapes[draw.integer(0, 2)] = shape
    elif draw.chance(0.3):
        shapes[0] = shape[:1]
    x = draw.quantized(shapes[1])
    condition = draw.random.random(shapes[0]) < 0.5
    operands = [draw.tensor(condition, "i1"), x, draw.like(x, shapes[2])]
    # The kernels do not change the shape of a result that has one element already.
    result = draw.result_like(x)._replace(array=np.zeros(shape))
    return draw.case(operands, result)


# One operand


@oracle("RELU", "i8, u8, i16")
@oracle("RELU6 RELU_N1_TO_1 RELU_0_TO_1", "i8, u8")
def clamps(draw: Draw) -> Case:
    width = 65536 if draw.storage == "i16" else 256
    extent = {"RELU6": 7, "RELU_N1_TO_1": 2.5, "RELU_0_TO_1": 0.9}.get(draw.op)
    scale = draw.any_scale()
    if extent and draw.chance(0.85):
        scale = draw.scale(0.3 * extent / width, extent / width)
    zero_point = draw.zero_point()
    if zero_point and draw.op != "RELU_N1_TO_1" and draw.chance(0.9):
        # Most values are positive, as negative ones become an end of the range.
        zero_point = storage_range(draw.storage)[0] + draw.integer(0, 60)
    low = -9000 if draw.storage == "i16" else storage_range(draw.storage)[0]
    if draw.op == "RELU_0_TO_1" and zero_point < storage_range(draw.storage)[1]:
        low = max(low, zero_point - 20)
    x = draw.quantized(draw.shape(), scale, zero_point, low=low)
    values = np.maximum(real(x), -1 if draw.op == "RELU_N1_TO_1" else 0)
    # The kernels convert 6 over the scale to an integer of 32 bits, without a check.
    return draw.case([x], draw.result_of(values, least_scale=1e-8))


@oracle("LEAKY_RELU", "i8, u8, i16")
def leaky_relu(draw: Draw) -> Case:
    x = draw.quantized(draw.shape())
    alpha = float(np.float32(draw.choice((0.0, 0.1, 0.2, 0.5, 1.0, 1.5, -0.3))))
    if draw.chance(0.5):
        alpha = draw.scale()
    values = np.where(real(x) >= 0, real(x), alpha * real(x))
    return draw.case([x], draw.result_of(values), alpha=alpha)


@oracle("PRELU", "i8, u8")
def prelu(draw: Draw) -> Case:
    shape = draw.shape(2)
    x = draw.quantized(shape)
    slopes = (*(1 if draw.chance(0.5) else size for size in shape[1:-1]), shape[-1])
    low = -127 if draw.storage == "i8" else None
    alpha = draw.quantized(slopes, draw.scale(1e-3, 0.03), is_constant=True, low=low)
    values = np.where(real(x) >= 0, real(x), real(x) * real(alpha))
    return draw.case([x, alpha], draw.result_of(values))


@oracle("ABS", "i8, i16")
def absolute(draw: Draw) -> Case:
    x = draw.quantized(draw.shape())
    if draw.chance(0.2):
        # With one scale, values are not rescaled.
        zero_point = draw.zero_point()
        result = draw.result(draw.storage, x.scales[0], zero_point)
    else:
        result = draw.result_of(np.abs(real(x)))
    return draw.case([x], result)


@oracle("NEG", "i8")
def negated(draw: Draw) -> Case:
    # The kernel ignores zero points.
    x = draw.quantized(draw.shape(), zero_point=0)
    return draw.case([x], draw.result_like(x))


@oracle("QUANTIZE", "i8, u8, i16, i32, f32")
def quantized(draw: Draw) -> Case:
    # The runtime refuses u8 for what has more than 8 bits.
    is_wide = draw.storage in ("i16", "i32")
    to = draw.choice(("i8", "i16") if is_wide else ("i8", "u8", "i16"))
    if draw.storage != "f32":
        x = draw.quantized(draw.shape())
        if draw.storage == "i32":
            bound = draw.choice((2**31 - 1, 1 << 20, 1000))
            x = draw.quantized(draw.shape(), zero_point=0, low=-bound, high=bound)
        result = draw.result_of(real(x), to)
        if draw.chance(0.3):
            result = draw.result(to, draw.any_scale(), draw.zero_point(to))
        return draw.case([x], result)
    values = draw.random.standard_normal(draw.shape()).astype(np.float32)
    values *= np.float32(draw.any_scale())
    result = draw.result_of(values, to)
    ties = np.float32(result.scales[0]) * (draw.stored(values.shape, "i8") + 0.5)
    values = np.where(draw.random.random(values.shape) < 0.3, ties, values)
    return draw.case([draw.tensor(values.astype(np.float32), "f32")], result)


@oracle("DEQUANTIZE", "i8, u8, i16, i8 per axis")
def dequantized(draw: Draw) -> Case:
    x = draw.quantized(draw.shape())
    if draw.kind == "i8 per axis":
        axis = draw.integer(0, x.array.ndim - 1)
        count = x.array.shape[axis]
        scales = [draw.any_scale() for _ in range(count)]
        points = [draw.zero_point() for _ in range(count)]
        x = draw.tensor(x.array, "i8", scales, points, axis if count > 1 else None)
    return draw.case([x], draw.result("f32"))


@oracle("CAST", "i8, u8, i16, i32, f32, i1")
def casts(draw: Draw) -> Case:
    to = draw.choice(("i8", "u8", "i16", "i32", "i64", "f32", "i1"))
    shape = draw.shape()
    if draw.storage == "f32":
        # What exceeds the integers that a float is cast to is not defined.
        bounds = {"i8": 127, "u8": 255, "i16": 32767}
        low, high = 0 if to == "u8" else -1, 1
        values = draw.random.uniform(low, high, shape) * bounds.get(to, 1e6)
        values = values.astype(np.float32)
    elif draw.storage == "i1":
        values = draw.random.random(shape) < 0.5
    else:
        values = draw.stored(shape, draw.storage)
    types = {"i8": 9, "u8": 3, "i16": 7, "i32": 2, "i64": 4, "f32": 0, "i1": 6}
    return draw.case(
        [draw.tensor(values, draw.storage)],
        draw.result(to),
        in_data_type=types[draw.storage],
        out_data_type=types[to],
    )


# Tables

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _hard_swish(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x * np.clip(x + 3, 0, 6) / 6


def _elu(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(x < 0, np.expm1(x), x)


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "EXP": np.exp,
    "LOG": np.log,
    "ELU": _elu,
    "GELU": lambda x: 0.5 * x * (1 + _erf(x / 2**0.5)),
    "SQRT": np.sqrt,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "HARD_SWISH": _hard_swish,
    "TANH": np.tanh,
}
_NOT_NEGATIVE = ("LOG", "SQRT", "RSQRT")


def _scale_over(draw: Draw, extent: float) -> float:
    """A scale with which the storage type covers about so much."""
    if draw.chance(0.1):
        return draw.any_scale()
    return float(np.float32(extent * draw.scale(0.3, 2) / (1 << int(draw.storage[1:]))))


@oracle("EXP LOG SQRT RSQRT", "i8, i16")
@oracle("ELU", "i8")
@oracle("GELU", "i8, u8, i16")
@oracle("HARD_SWISH", "i8, u8")
def functions(draw: Draw) -> Case:
    zero_point = draw.zero_point()
    low = None
    if draw.op in _NOT_NEGATIVE:
        # Roots of negative numbers are errors; zero points at the end leave no others.
        zero_point = min(zero_point, 100)
        low = zero_point
    x = draw.quantized(draw.shape(), _scale_over(draw, 12), zero_point, low=low)
    with np.errstate(all="ignore"):
        values = _FUNCTIONS[draw.op](real(x))
    # The kernel of HARD_SWISH takes multipliers below 1 only.
    least = x.scales[0] / 128 if draw.op == "HARD_SWISH" else 0
    result = draw.result_of(values, least_scale=least)
    options = {"approximate": draw.chance(0.5)} if draw.op == "GELU" else {}
    return draw.case([x], result, **options)


@oracle("LOGISTIC TANH", "i8, u8, i16")
def sigmoids(draw: Draw) -> Case:
    scale = _scale_over(draw, 8)
    if draw.storage == "i16":
        if draw.chance(0.4):
            scale = draw.near(2.0 ** draw.integer(-15, -8))
        # The products of larger ones overflow.
        scale = min(scale, 5.0)
        # That of LOGISTIC is fixed.
        distance = 0 if draw.op == "LOGISTIC" else 0.9e-3
        result = draw.result("i16", draw.near(2**-15, distance))
    elif draw.op == "LOGISTIC":
        result = draw.result(draw.storage, 1 / 256, -128 if draw.storage == "i8" else 0)
    else:
        result = draw.result(draw.storage, 1 / 128, 0 if draw.storage == "i8" else 128)
    return draw.case([draw.quantized(draw.shape(), scale)], result)


# Along the last dimension


@oracle("SOFTMAX", "i8, u8, i16, i8 to i16")
@oracle("LOG_SOFTMAX", "i8, u8")
def softmax(draw: Draw) -> Case:
    x = draw.quantized(draw.shape(), _scale_over(draw, 5))
    if draw.op == "LOG_SOFTMAX":
        result = draw.result(draw.storage, 1 / 16, 127 if draw.storage == "i8" else 255)
        return draw.case([x], result)
    beta = draw.choice((1.0, 1.0, 0.5, 2.0, draw.scale(0.1, 3)))
    results = {
        "i8": ("i8", 1 / 256, -128),
        "u8": ("u8", 1 / 256, 0),
        "i16": ("i16", 2**-15, 0),
        "i8 to i16": ("i16", 2**-16, -(2**15)),
    }
    return draw.case([x], draw.result(*results[draw.kind]), beta=beta)


# Unsigned stored values have another kernel, which is computed by the fallback.
@oracle("L2_NORMALIZATION", "i8")
def l2_normalization(draw: Draw) -> Case:
    x = draw.quantized(draw.shape())
    return draw.case([x], draw.result("i8", 1 / 128), fused_activation_function=0)
