"""What ops on elements that are floats are on integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from math import isinf
from typing import TypeAlias, cast

from xdsl.ir import SSAValue

from xdsl_quant.unsupported import Unsupported

from .constants import RealConstant
from .integers import Integers
from .loops import IntegerLoop

MAXIMA = {"arith.maximumf", "arith.maxnumf"}
MINIMA = {"arith.minimumf", "arith.minnumf"}

_Number: TypeAlias = Integers | RealConstant


def _fraction(constant: RealConstant) -> Fraction:
    if isinf(number := constant.number):
        raise Unsupported("a constant that is infinite")
    return Fraction(number)


def sum_of(loop: IntegerLoop, a: _Number, b: _Number) -> _Number:
    if isinstance(a, RealConstant):
        a, b = b, a
    if isinstance(a, RealConstant):
        return RealConstant(a.number + cast(RealConstant, b).number)
    if isinstance(b, RealConstant):
        b = loop.constant(_fraction(b), a)
    return loop.sum(a, b)


def _negative_form(loop: IntegerLoop, a: _Number) -> _Number:
    return RealConstant(-a.number) if isinstance(a, RealConstant) else loop.negative(a)


def _difference_form(loop: IntegerLoop, a: _Number, b: _Number) -> _Number:
    return sum_of(loop, a, _negative_form(loop, b))


def _product_form(loop: IntegerLoop, a: _Number, b: _Number) -> _Number:
    if isinstance(a, RealConstant):
        a, b = b, a
    if isinstance(a, RealConstant):
        return RealConstant(a.number * cast(RealConstant, b).number)
    if not isinstance(b, RealConstant):
        return loop.product(a, b)
    factor = _fraction(b)
    if not factor:
        return RealConstant(0.0)
    if factor < 0:
        a = loop.negative(a)
    # The integers are what they are; what they stand for is another number.
    return replace(
        a,
        scales=tuple(abs(factor) * scale for scale in a.scales),
        error=abs(factor) * a.error,
        difference=abs(factor) * a.difference,
    )


def bounded(number: float, x: Integers, *, is_maximum: bool) -> Fraction:
    """A number that is as large as another one, or the end of a range next to it."""
    ends = [(b - x.zero_point) * s for b in (x.low, x.high) for s in x.scales]
    order, end = (max, min(ends)) if is_maximum else (min, max(ends))
    if isinf(number):
        if (number > 0) == is_maximum:
            raise Unsupported("a constant that is infinite")
        return end
    return order(Fraction(number), end)


def _absolute_form(loop: IntegerLoop, a: _Number) -> _Number:
    if isinstance(a, RealConstant):
        return RealConstant(abs(a.number))
    return loop.ordered(a, loop.negative(a), is_maximum=True)


def _ordered(is_maximum: bool) -> Callable[[IntegerLoop, _Number, _Number], _Number]:
    def form(loop: IntegerLoop, a: _Number, b: _Number) -> _Number:
        if isinstance(a, RealConstant):
            a, b = b, a
        if isinstance(a, RealConstant):
            order = max if is_maximum else min
            return RealConstant(order(a.number, cast(RealConstant, b).number))
        if isinstance(b, RealConstant):
            b = loop.constant(bounded(b.number, a, is_maximum=is_maximum), a)
        return loop.ordered(a, b, is_maximum=is_maximum)

    return form


def _selected_form(
    loop: IntegerLoop, condition: SSAValue, a: _Number, b: _Number
) -> _Number:
    if isinstance(a, RealConstant):
        if isinstance(b, RealConstant):
            raise Unsupported("a selection of constants")
        a = loop.constant(_fraction(a), b)
    elif isinstance(b, RealConstant):
        b = loop.constant(_fraction(b), a)
    return loop.chosen(condition, a, b)


ELEMENTWISE: Mapping[str, Callable[..., _Number]] = {
    "arith.addf": sum_of,
    "arith.mulf": _product_form,
    "arith.negf": _negative_form,
    "arith.select": _selected_form,
    "arith.subf": _difference_form,
    "math.absf": _absolute_form,
    **dict.fromkeys(sorted(MAXIMA), _ordered(True)),
    **dict.fromkeys(sorted(MINIMA), _ordered(False)),
}
"""What ops on floats are on integers."""
