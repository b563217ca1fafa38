"""
Integer kernels over all stored values and many parameters. LiteRT's reference kernels gave
the same integers: here are their checksums.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from xdsl_quant.frontends.tflite.formulas import elementwise, rows
from xdsl_quant.frontends.tflite.formulas.quantized import Quantized
from xdsl_quant.frontends.tflite.formulas.tables import compute_with_table
from xdsl_quant.numerics import QuantizationParameters

Integers = NDArray[np.int64]
P = QuantizationParameters

ALL = np.arange(-128, 128, dtype=np.int64)
WIDE = np.concatenate([np.arange(-32768, 32767, 13), [-1, 0, 1, 32767]]).astype(
    np.int64
)
LEFT, RIGHT = (grid.ravel() for grid in np.meshgrid(ALL, ALL))
WIDE_LEFT, WIDE_RIGHT = WIDE, np.roll(WIDE, 1234)
ROWS = np.random.default_rng(0).integers(-128, 128, (300, 5))
NEAR_ROWS = np.random.default_rng(1).integers(-128, -115, (300, 5))
WIDE_ROWS = np.random.default_rng(2).integers(-32768, 32768, (300, 5))


class Case(NamedTuple):
    """Stored values and parameters."""

    operands: Sequence[tuple[Integers, P]]
    result: P


def p8(scale: float, zero_point: int = 0) -> P:
    return P(scale, zero_point)


def p16(scale: float) -> P:
    return P(scale, 0, storage="i16")


_SUMS = [
    Case([(LEFT, p8(a, 3)), (RIGHT, p8(b, -5))], p8(c, 1))
    for a, b, c in [
        (0.1, 0.1, 0.1),
        (0.3, 0.0001, 0.002),
        (0.00392, 0.0471, 0.05),
        (1.0, 0.5, 1.5),
        (0.7, 0.011, 3.3),
        (0.0123, 0.0125, 0.000123),
    ]
]
_WIDE_SUMS = [
    Case([(WIDE_LEFT, p16(a)), (WIDE_RIGHT, p16(b))], p16(c))
    for a, b, c in [
        (0.1, 0.2, 0.3),
        (0.001, 0.1, 0.05),
        (0.00003, 0.00004, 0.00005),
        (0.00011209413787582889, 0.027530286461114883, 0.07150411605834961),
    ]
]
_POWERS = [
    Case([(WIDE_LEFT, p16(a)), (WIDE_RIGHT, p16(b))], p16(c))
    for a, b, c in [(0.5, 0.25, 0.5), (0.03125, 0.5, 0.5), (0.25, 0.25, 0.25)]
]
_UNARY = [
    Case([(ALL, p8(a, x))], p8(b, y))
    for a, x, b, y in product(
        (0.004, 0.02, 0.0937, 0.3), (-128, 0, 17), (0.01, 0.07), (0, -9)
    )
]
_HARD_SWISH = [
    Case([(ALL, p8(a, x))], p8(b, y))
    for a, x, b, y in product(
        (0.002, 0.0117, 0.012, 0.0235, 0.05, 0.13),
        (-128, 0, 17),
        (0.012, 0.031, 0.5),
        (0, -9),
    )
]
_ROOTS = [
    Case([(ALL, p8(a, -128))], p8(b, y))
    for a, b, y in product((0.004, 0.0937, 1.7), (0.0021, 0.07), (0, -128))
]
# Parameters whose results show the last bits of constants.
_HARD_SWISH.append(
    Case([(ALL, p8(0.0013727018376812339, -3))], p8(0.0007186076836660504, -6))
)
# Multipliers that do not fit 16 bits, and quotients that are close to an integer.
_HARD_SWISH.extend(
    [
        Case([(ALL, p8(0.011718719266355038, 127))], p8(0.00018310504674445838)),
        Case([(ALL, p8(0.1799992322921753, 127))], p8(0.0014062453992664814)),
        Case([(ALL, p8(0.7867324352264404))], p8(0.011026192456483841)),
        Case([(ALL, p8(0.31590473651885986))], p8(0.0036168056540191174)),
    ]
)
_ROOTS.extend(
    [
        Case([(ALL, p8(0.021849272772669792, -128))], p8(0.004994870629161596, -9)),
        Case([(ALL, p8(0.02870173193514347, -128))], p8(0.030917810276150703, -42)),
    ]
)
_EQUAL_SCALES = [
    Case([(ALL, p8(0.25, 3))], p8(scale, -100)) for scale in (0.25, 0.125, 0.5)
]
_SOFTMAX = [
    Case([(values, p8(a, 5))], p8(1 / 256, -128))
    for values, a in product((ROWS, NEAR_ROWS), (0.0004, 0.01, 0.13, 0.9, 3.0))
]
_LOG_SOFTMAX = [case._replace(result=p8(1 / 16, 127)) for case in _SOFTMAX]
_WIDE_SOFTMAX = [
    Case([(WIDE_ROWS, p16(a))], p16(2**-15)) for a in (0.00001, 0.0001, 0.0003, 0.01)
]
_WIDE_SOFTMAX.append(
    Case([(np.array([[32767] * 40 + [-32768]]), p16(0.01))], p16(2**-15))
)
_SIGMOIDS = [
    Case([(WIDE, p16(a))], p16(2**-15))
    for a in (2**-11, 2**-12, 2**-13, 2**-10, 0.0003, 0.00011, 0.005, 1.3, 1e-9, 3e-10)
]
_WIDE_TABLES = [
    Case([(WIDE, p16(a))], p16(b))
    for a, b in [(0.0003, 0.0003), (0.0001, 0.5), (0.001, 0.00001)]
]


def table(name: str) -> Callable[[Quantized, P], Integers]:
    def kernel(x: Quantized, result: P) -> Integers:
        return compute_with_table(name, x, result)

    return kernel


def add_powers(lhs: Quantized, rhs: Quantized, result: P) -> Integers:
    return elementwise.add(lhs, rhs, result, pot_scale_int16=True)


def subtract_powers(lhs: Quantized, rhs: Quantized, result: P) -> Integers:
    return elementwise.subtract(lhs, rhs, result, pot_scale_int16=True)


def half_beta(x: Quantized, result: P) -> Integers:
    return rows.softmax(x, result, 0.5)


GRIDS: dict[str, tuple[Callable[..., Integers], Sequence[Case], int]] = {
    "add": (elementwise.add, _SUMS, 1154385996),
    "sub": (elementwise.subtract, _SUMS, 1803092787),
    "squared_difference": (
        elementwise.squared_difference,
        _SUMS[:1] + _SUMS[3:5],
        509164965,
    ),
    "mul": (elementwise.multiply, _SUMS, 1108872206),
    "add of i16": (elementwise.add, _WIDE_SUMS + _POWERS, 234084652),
    "add of powers of two": (add_powers, _WIDE_SUMS + _POWERS, 2925005672),
    "sub of powers of two": (subtract_powers, _WIDE_SUMS + _POWERS, 2780335768),
    "relu": (elementwise.relu, _UNARY, 1238085943),
    "abs": (elementwise.absolute, _UNARY + _EQUAL_SCALES, 2963226405),
    "quantize": (elementwise.requantize_integers, _UNARY, 1175822463),
    "hard_swish": (elementwise.hard_swish, _HARD_SWISH, 3685342484),
    "sqrt": (elementwise.square_root, _ROOTS, 4077985583),
    "rsqrt": (elementwise.reciprocal_square_root, _ROOTS, 3493988643),
    "exp": (table("exp"), _UNARY, 3972474509),
    "log": (table("log"), _UNARY, 3177382763),
    "softmax": (rows.softmax, _SOFTMAX, 3835325448),
    "softmax with beta": (half_beta, _SOFTMAX, 2522920078),
    "log_softmax": (rows.log_softmax, _LOG_SOFTMAX, 2499246416),
    "softmax of i16": (rows.softmax, _WIDE_SOFTMAX, 287455876),
    "softmax of i16 with beta": (half_beta, _WIDE_SOFTMAX, 243878909),
    "logistic of i16": (table("logistic"), _SIGMOIDS, 2589771275),
    "tanh of i16": (table("tanh"), _SIGMOIDS, 180063838),
    "exp of i16": (table("exp"), _WIDE_TABLES, 2299314665),
    "log of i16": (table("log"), _WIDE_TABLES, 823768637),
}
"""The kernel, its cases, and the checksum of all results."""


def results(kernel: Callable[..., Integers], cases: Sequence[Case]) -> list[Any]:
    return [
        kernel(*(Quantized(values, x) for values, x in case.operands), case.result)
        for case in cases
    ]


@pytest.mark.parametrize("name", GRIDS)
def test_checksum(name: str):
    kernel, cases, expected = GRIDS[name]
    computed = results(kernel, cases)
    assert all(array.dtype == np.int64 for array in computed)
    text = b"".join(array.astype("<i8").tobytes() for array in computed)
    assert zlib.crc32(text) == expected
