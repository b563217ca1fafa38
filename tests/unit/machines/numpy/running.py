"""Running text, and the values at which arithmetic goes wrong if it does anywhere."""

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser
from xdsl.universe import Universe

from xdsl_quant.machines.numpy import run_function

FLOAT_DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}

DIALECTS = Universe.get_multiverse().all_dialects


def parse(text: str) -> tuple[Context, ModuleOp]:
    ctx = Context()
    for name, factory in DIALECTS.items():
        ctx.register_dialect(name, factory)
    module = Parser(ctx, text).parse_module()
    module.verify()
    return ctx, module


def run(text: str, *arguments: ArrayLike) -> tuple[NDArray[Any], ...]:
    """The results of the only function in a module."""
    return run_function(parse(text)[1], None, *arguments)


def run_body(
    body: str, results: str, *arguments: tuple[ArrayLike, str]
) -> tuple[NDArray[Any], ...]:
    """
    The results `%r0`, `%r1`, ... of ops on `%a0`, `%a1`, ... `results` are the types,
    `arguments` pairs of a value and its type.
    """
    types = ", ".join(f"%a{i}: {type_}" for i, (_, type_) in enumerate(arguments))
    count = 1 + max(map(int, re.findall(r"%r(\d+)", body)))
    names = ", ".join(f"%r{i}" for i in range(count))
    text = f"""
func.func @f({types}) -> ({results}) {{
  {body}
  return {names} : {results}
}}"""
    return run(text, *(value for value, _ in arguments))


def same_bits(actual: Any, expected: Any) -> bool:
    """Whether arrays are the same, dtype and signs of zeros included; NaN is NaN."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    if actual.dtype.kind in "biu":
        return bool(np.array_equal(actual, expected))
    wide_actual, wide_expected = (x.astype(np.float64) for x in (actual, expected))
    nans = np.isnan(wide_actual) & np.isnan(wide_expected)
    bits = wide_actual.view(np.int64) == wide_expected.view(np.int64)
    return bool(np.all(nans | bits))


def integer_edges(width: int) -> list[int]:
    """Signed integers of a width."""
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    near = [-3, -2, -1, 0, 1, 2, 3, low, low + 1, low // 2, high // 2, high - 1, high]
    near += [width - 1, width, 0x5A5A5A5A5A5A5A5A & high, -(0x3C3C3C3C3C3C3C3C & high)]
    return sorted({value for value in near if low <= value <= high})


def integer_pairs(width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All pairs of edges, and random ones."""
    edges = np.array(integer_edges(width), np.int64)
    low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
    random = np.random.default_rng(width)
    noise = random.integers(low, high, (2, 200), np.int64, endpoint=True)
    lhs = np.concatenate((edges.repeat(len(edges)), noise[0]))
    rhs = np.concatenate((np.tile(edges, len(edges)), noise[1]))
    return lhs, rhs


def float_edges(name: str) -> NDArray[Any]:
    """Floats of a type: zeros, denormals, halves, the largest, infinities, NaN."""
    dtype = np.dtype(FLOAT_DTYPES[name])
    info = cast(Callable[..., Any], ml_dtypes.finfo)(dtype)
    one = dtype.type(1)
    near = [one, np.nextafter(one, dtype.type(0)), np.nextafter(one, dtype.type(2))]
    halves = [0.5, 1.5, 2.5, 3.5, 4.5, 0.25, 0.75, 1e-3, 3.0, 7.0, 100.0, 127.5, 128.0]
    halves += [np.nextafter(dtype.type(0.5), dtype.type(0)), 1 / 3]
    ends = [info.max, info.tiny, info.smallest_subnormal, 3 * info.smallest_subnormal]
    large = [2.0**k + d for k in (7, 8, 10, 11, 15, 22, 23, 24) for d in (0, 0.5, 1)]
    with np.errstate(all="ignore"):
        values = np.array([0.0, *map(float, (*near, *halves, *ends, *large)), np.inf])
        values = values.astype(dtype)
        return np.concatenate((values, -values, np.array([np.nan]).astype(dtype)))


def float_pairs(name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """All pairs of edges, and random ones."""
    edges = float_edges(name)
    random = np.random.default_rng(1)
    with np.errstate(all="ignore"):
        scales = 2.0 ** random.integers(-12, 12, (2, 500))
        noise = (random.standard_normal((2, 500)) * scales).astype(edges.dtype)
    lhs = np.concatenate((edges.repeat(len(edges)), noise[0]))
    rhs = np.concatenate((np.tile(edges, len(edges)), noise[1]))
    return lhs, rhs


SIGNIFICANT_BITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
MIN_EXPONENT = {"f16": -14, "bf16": -126, "f32": -126, "f64": -1022}


def nearest(value: Fraction, type_: str) -> float:
    """The float of a type that is nearest to a number, ties to even."""
    if not value:
        return 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    exponent = max(exponent, MIN_EXPONENT[type_])
    ulp = Fraction(2) ** (exponent - SIGNIFICANT_BITS[type_] + 1)
    rounded = round(magnitude / ulp) * ulp
    limit = Fraction(2) ** (-MIN_EXPONENT[type_] + 2)
    result = math.inf if rounded >= limit else float(rounded)
    return result if value > 0 else -result
