"""
Integer kernels, for all stored values of their operands, compared with the exact function
of what they express.

The exact result is `f(scale * (q - zero_point), ...) / result scale + result zero point`,
clamped to the storage range: a rational number, or for a transcendental `f` a decimal one
of 50 digits. Nothing here is shared with the lowerings. What runs is the lowered code, on
arrays of all inputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import product
from math import ceil, floor
from operator import eq, ge, gt, le, lt, ne
from random import Random
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes, parse_module

Real = Callable[[Any], Any] | Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any]
"""A function of fractions; `None` where it is not defined."""

HALF = Fraction(1, 2)
DIGITS = 50


class Parameters(NamedTuple):
    """Those of a quantized type, or of truth values, with the storage `i1`."""

    storage: str
    scale: float
    zero_point: int

    @property
    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest stored value."""
        width = int(self.storage[1:])
        if self.storage[0] == "u" or width == 1:
            return 0, (1 << width) - 1
        return -(1 << width - 1), (1 << width - 1) - 1

    def tensor(self, *shape: int) -> str:
        """A type of a tensor."""
        element = self.storage
        if self != TRUTH:
            element = f"{element}:f32, {self.scale:.20e}:{self.zero_point}"
            element = f"!quant.uniform<{element}>"
        return f"tensor<{'x'.join(map(str, shape))}x{element}>"

    def stored(self) -> NDArray[Any]:
        """All stored values."""
        low, high = self.bounds
        width = 8 if int(self.storage[1:]) <= 8 else 16
        return np.arange(low, high + 1).astype(f"{'u' * (low == 0)}int{width}")


TRUTH = Parameters("i1", 1.0, 0)
"""Results of comparisons."""


def transcendental(function: Callable[[Decimal], Decimal]) -> Real:
    """A function as an exact fraction near its result."""

    def rounded(x: Fraction) -> Fraction | None:
        with localcontext() as context:
            context.prec = DIGITS
            return Fraction(function(Decimal(x.numerator) / Decimal(x.denominator)))

    return cache(rounded)


def _tanh(x: Decimal) -> Decimal:
    power = (-2 * abs(x)).exp()
    return ((1 - power) / (1 + power)).copy_sign(x)


def _logistic(x: Decimal) -> Decimal:
    return 1 / (1 + (-x).exp())


_PI = Decimal("3.14159265358979323846264338327950288419716939937510582")


def _erf(x: Decimal) -> Decimal:
    """The Taylor series, which all the digits of 50 are enough for up to 6."""
    if abs(x) > 6:
        # The rest is less than 1e-17.
        return Decimal(1).copy_sign(x)
    term, total, n = x, x, 0
    while abs(term) > Decimal(10) ** -30:
        n += 1
        term = -term * x * x / n
        total += term / (2 * n + 1)
    return 2 * total / _PI.sqrt()


def _sine(x: Decimal) -> Decimal:
    """The Taylor series, for less than 20."""
    term, total, n = x, x, 1
    while abs(term) > Decimal(10) ** -30:
        n += 2
        term = -term * x * x / (n * (n - 1))
        total += term
    return total


def _gelu(x: Decimal) -> Decimal:
    return x * (1 + _erf(x / Decimal(2).sqrt())) / 2


def _positive(function: Callable[[Decimal], Decimal]) -> Real:
    exact = cast(Callable[[Any], Any], transcendental(function))

    def positive(x: Any) -> Any:
        return exact(x) if x > 0 else None

    return positive


def _cubic_root(x: Decimal) -> Decimal:
    return ((abs(x).ln() / 3).exp()).copy_sign(x) if x else x


def _tangent(x: Decimal) -> Decimal:
    return _sine(x) / _sine(x + _PI / 2)


def _away_from_zero(x: Any) -> Any:
    return floor(abs(x) + HALF) * ((x > 0) - (x < 0))


def _log_plus_one(x: Any) -> Any:
    return cast(Callable[[Any], Any], _positive(Decimal.ln))(x + 1)


def _clamped(low: int, high: int | None) -> Real:
    def clamped(x: Any) -> Any:
        return max(x, low) if high is None else min(max(x, low), high)

    return clamped


def _quotient(x: Any, y: Any) -> Any:
    return x / y if y else None


def _power(x: Any, y: Any) -> Any:
    if x <= 0 or abs(y * x) > 1000:
        return None
    with localcontext() as context:
        context.prec = DIGITS
        base, exponent = (
            Decimal(value.numerator) / Decimal(value.denominator) for value in (x, y)
        )
        return Fraction(base**exponent)


_F32_TENTH = Fraction(float(np.float32(0.1)))


@dataclass(frozen=True)
class Kernel:
    """An op, and what it computes."""

    op: str
    """With its properties."""

    exact: Real
    bound: Fraction
    """How far results are at most from what is exact, in units of the result's scale."""

    operands: int = 1
    result: Parameters | None = None
    """The parameters of results, if the op fixes them."""

    shares: bool = False
    """Whether all types are the same."""

    storages: Sequence[str] = ("i8",)

    @property
    def name(self) -> str:
        """The name of the op, without its dialect."""
        return self.op.partition(" ")[0]

    @property
    def title(self) -> str:
        """The name, and what else tells rows of a table apart."""
        direction = re.search(r"comparison_direction (\w+)>", self.op)
        end = f" {direction[1]}" if direction else ""
        return f"{self.name}{end}{', one type' if self.shares else ''}"


EXACT = HALF + Fraction(1, 1 << 20)
"""Once rounded: a multiplier has 31 bits."""

FLOAT = HALF + Fraction(1, 10000)
"""Computed with floats of 32 bits, or looked up in a table that was."""

TWICE = Fraction(1)
"""Rounded twice, or limited to what is rounded itself."""
NEARLY_EQUAL = Fraction(1)
"""
As in TensorFlow Lite, operands of different scales are rounded before they are compared.
"""

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "EQ": eq,
    "NE": ne,
    "GE": ge,
    "GT": gt,
    "LE": le,
    "LT": lt,
}

TABLES: Mapping[str, Real] = {
    "round_nearest_even": lambda x: round(x),
    "round_nearest_afz": _away_from_zero,
    "ceil": ceil,
    "floor": floor,
    "sign": lambda x: (x > 0) - (x < 0),
    "tanh": transcendental(_tanh),
    "logistic": transcendental(_logistic),
    "exponential": transcendental(Decimal.exp),
    "exponential_minus_one": transcendental(lambda x: x.exp() - 1),
    "log": _positive(Decimal.ln),
    "log_plus_one": _log_plus_one,
    "sqrt": _positive(Decimal.sqrt),
    "rsqrt": _positive(lambda x: 1 / x.sqrt()),
    "cbrt": transcendental(_cubic_root),
    "sine": transcendental(_sine),
    "cosine": transcendental(lambda x: _sine(x + _PI / 2)),
    "tan": transcendental(_tangent),
}
"""StableHLO's functions of one operand, which become tables."""

STABLEHLO = (
    Kernel("abs", abs, EXACT, storages=("i8", "u8", "i4")),
    Kernel("negate", lambda x: -x, EXACT, storages=("i8", "u8", "i4")),
    Kernel("uniform_quantize", lambda x: x, EXACT, storages=("i8", "u8", "i4")),
    Kernel("add", lambda x, y: x + y, EXACT, 2, storages=("i8", "u8", "i4")),
    Kernel("subtract", lambda x, y: x - y, EXACT, 2, storages=("i8", "u8")),
    Kernel("multiply", lambda x, y: x * y, EXACT, 2, storages=("i8", "u8", "i4")),
    Kernel("maximum", max, FLOAT, 2),
    Kernel("minimum", min, FLOAT, 2),
    *(
        Kernel(
            f"compare <{{comparison_direction = #stablehlo<comparison_direction {name}>}}>",
            compare,
            Fraction(0),
            2,
            result=TRUTH,
            storages=("i8", "u8", "i4"),
        )
        for name, compare in _COMPARISONS.items()
    ),
    Kernel(
        "clamp",
        lambda low, x, high: min(max(x, low), high),
        Fraction(0),
        3,
        shares=True,
        storages=("i4",),
    ),
    Kernel("divide", _quotient, FLOAT, 2),
    *(
        Kernel(name, exact, FLOAT, storages=("i8", "u8", "i4"))
        for name, exact in TABLES.items()
    ),
    Kernel("is_finite", lambda x: True, Fraction(0), result=TRUTH),
)
"""Ops with an integer form, and `divide`; those of one operand are tables of floats."""

_ACTIVATION = '<{fused_activation_function = "NONE"}>'
TFL = (
    Kernel("abs", abs, TWICE),
    Kernel("quantize", lambda x: x, EXACT),
    Kernel(f"add {_ACTIVATION}", lambda x, y: x + y, EXACT, 2),
    Kernel(f"sub {_ACTIVATION}", lambda x, y: x - y, EXACT, 2),
    Kernel(f"mul {_ACTIVATION}", lambda x, y: x * y, TWICE, 2),
    Kernel("square", lambda x: x * x, FLOAT, shares=True),
    Kernel("squared_difference", lambda x, y: (x - y) ** 2, TWICE, 2),
    Kernel("maximum", max, Fraction(0), 2, shares=True),
    Kernel("minimum", min, Fraction(0), 2, shares=True),
    Kernel("relu", _clamped(0, None), EXACT),
    Kernel("relu6", _clamped(0, 6), TWICE),
    Kernel("relu_n1_to_1", _clamped(-1, 1), TWICE),
    Kernel("relu_0_to_1", _clamped(0, 1), TWICE),
    Kernel(
        "leaky_relu <{alpha = 0.1 : f32}>",
        lambda x: x if x >= 0 else x * _F32_TENTH,
        TWICE,
    ),
    Kernel("prelu", lambda x, a: x if x >= 0 else x * a, TWICE, 2),
    Kernel("hard_swish", lambda x: x * min(max(x + 3, 0), 6) / 6, TWICE),
    Kernel(
        "logistic",
        transcendental(_logistic),
        FLOAT,
        result=Parameters("i8", 2.0**-8, -128),
    ),
    Kernel("tanh", transcendental(_tanh), FLOAT, result=Parameters("i8", 2.0**-7, 0)),
    Kernel("exp", transcendental(Decimal.exp), FLOAT),
    Kernel("log", _positive(Decimal.ln), FLOAT),
    Kernel("sqrt", _positive(Decimal.sqrt), TWICE),
    Kernel("rsqrt", _positive(lambda x: 1 / x.sqrt()), TWICE),
    Kernel(
        "elu",
        transcendental(lambda x: x if x > 0 else x.exp() - 1),
        FLOAT,
    ),
    Kernel("gelu <{approximate = false}>", transcendental(_gelu), FLOAT),
    Kernel("neg", lambda x: -x, EXACT, shares=True),
    Kernel("sign", lambda x: (x > 0) - (x < 0), FLOAT, shares=True),
    Kernel("floor", floor, FLOAT, shares=True),
    Kernel("ceil", ceil, FLOAT, shares=True),
    Kernel("round", round, FLOAT, shares=True),
    Kernel("sin", transcendental(_sine), FLOAT, shares=True),
    Kernel("cos", transcendental(lambda x: _sine(x + _PI / 2)), FLOAT, shares=True),
    Kernel(f"div {_ACTIVATION}", _quotient, FLOAT, 2),
    Kernel("floor_div", lambda x, y: x // y if y else None, FLOAT, 2),
    Kernel("floor_mod", lambda x, y: x % y if y else None, FLOAT, 2),
    Kernel("pow", _power, FLOAT, 2),
    *(
        Kernel(name, _COMPARISONS[direction], bound, 2, result=TRUTH, shares=shares)
        for name, direction in (
            ("equal", "EQ"),
            ("not_equal", "NE"),
            ("greater_equal", "GE"),
            ("greater", "GT"),
            ("less_equal", "LE"),
            ("less", "LT"),
        )
        for bound, shares in ((Fraction(0), True), (NEARLY_EQUAL, False))
    ),
)
"""Ops with the kernels of TensorFlow Lite, which define what is right."""


class Draw(NamedTuple):
    """Types of a kernel."""

    kernel: Kernel
    dialect: str
    operands: Sequence[Parameters]
    result: Parameters

    def text(self, shapes: Sequence[Sequence[int]]) -> str:
        """A module, for operands of these shapes, of which the first is the result's."""
        types = [
            p.tensor(*shape) for p, shape in zip(self.operands, shapes, strict=True)
        ]
        result = self.result.tensor(*shapes[0])
        name, _, properties = self.kernel.op.partition(" ")
        if (self.dialect, name) == ("tfl", "quantize"):
            properties = f"<{{qtype = {result}}}>"
        arguments = ", ".join(f"%{i}: {type_}" for i, type_ in enumerate(types))
        operands = ", ".join(f"%{i}" for i in range(len(types)))
        return (
            f"func.func @main({arguments}) -> {result} {{\n"
            f'  %r = "{self.dialect}.{name}"({operands}) {properties}'
            f" : ({', '.join(types)}) -> {result}\n  return %r : {result}\n}}"
        )


class Distances(NamedTuple):
    """How far all results are from what is exact."""

    inputs: int
    largest: Fraction
    """In units of the scale of the result."""

    misrounded: int
    """How many results are not one of the nearest integers."""

    worst: Sequence[int]
    """Where the distance is largest."""


PASSES = {
    "stablehlo": "convert-quantized-stablehlo-to-linalg",
    "tfl": "convert-tfl-to-linalg",
}


def distances(draw: Draw) -> Distances:
    """The distances for all stored values."""
    arrays = np.meshgrid(*(p.stored() for p in draw.operands), indexing="ij")
    columns = [array.ravel() for array in arrays]
    # The slopes of prelu have one dimension less.
    given = [arrays[0], arrays[1][0]] if draw.kernel.op == "prelu" else arrays
    module = parse_module(draw.text([array.shape for array in given]))
    apply_passes(module, PASSES[draw.dialect])
    with np.errstate(all="ignore"):
        (found,) = run_function(module, "main", *given)
    reals = [
        {q: (q - p.zero_point) * Fraction(_f32(p.scale)) for q in p.stored().tolist()}
        for p in draw.operands
    ]
    exact = cast(Callable[..., Any], draw.kernel.exact)
    low, high = draw.result.bounds
    scale = Fraction(_f32(draw.result.scale))
    largest, misrounded, count, worst = Fraction(-1), 0, 0, ()
    for *stored, result in zip(
        *(c.tolist() for c in columns), found.ravel().tolist(), strict=True
    ):
        real = exact(*(r[q] for r, q in zip(reals, stored, strict=True)))
        if real is None:
            continue
        right = min(max(real / scale + draw.result.zero_point, low), high)
        distance = abs(result - right)
        count += 1
        misrounded += distance > HALF
        if distance > largest:
            largest, worst = Fraction(distance), stored
    return Distances(count, largest, misrounded, worst)


def _f32(scale: float) -> float:
    return float(np.float32(scale))


def draws(dialect: str, kernel: Kernel, count: int) -> Iterator[Draw]:
    """Some scales and zero points, with results that lie in range for the most part."""
    random = Random(f"{dialect} {kernel.op}")

    def parameters(storage: str) -> Parameters:
        low, high = Parameters(storage, 1.0, 0).bounds
        scale = _f32(2.0 ** random.uniform(-7, -3) * 256 / (high - low + 1))
        return Parameters(storage, scale, random.randint(low, high))

    for storage, _ in product(kernel.storages, range(count)):
        operands = [parameters(storage) for _ in range(kernel.operands)]
        result = kernel.result or parameters(storage)
        if kernel.shares:
            operands = [
                result if kernel.result is None else operands[0]
            ] * kernel.operands
        yield Draw(kernel, dialect, operands, result)


KERNELS: Sequence[tuple[str, Kernel]] = [
    *(("stablehlo", kernel) for kernel in STABLEHLO),
    *(("tfl", kernel) for kernel in TFL),
]
"""All kernels, and their dialects."""


def all_distances(
    dialect: str, kernel: Kernel, count: int = 4
) -> tuple[Distances, Draw]:
    """The distances of all draws, and the draw with the largest one."""
    found = [(draw, distances(draw)) for draw in draws(dialect, kernel, count)]
    worst, largest = max(found, key=lambda pair: pair[1].largest)
    some = [each for _, each in found]
    total = largest._replace(
        inputs=sum(each.inputs for each in some),
        misrounded=sum(each.misrounded for each in some),
    )
    return total, worst
