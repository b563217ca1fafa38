"""
Formulas of integers as ops of the arith dialect.

A formula that is written for NumPy's arrays, with operators and some of NumPy's functions,
builds ops if it is given an
[`IntegerExpression`][xdsl_quant.transforms.building.integer_expressions.IntegerExpression]
in the place of an array: so what numerics computes and what a lowering builds is written
once.

The numbers of a formula are unbounded. Each expression knows the bounds of its value, and
is computed with 32 bits if these are enough, with 64 bits otherwise.

Example:

```python
from xdsl.builder import InsertPoint
from xdsl.dialects.builtin import UnknownLoc, i8
from xdsl.ir import Block

from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.integer_expressions import IntegerExpression

block = Block(arg_types=[i8])
builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
x = IntegerExpression(builder, block.args[0], (-128, 127))
print((x - 3 << 20).bounds)
```

prints `(-137363456, 130023424)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypeAlias, cast

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerType, i32, i64
from xdsl.ir import Operation, SSAValue

from .builder import LoweringBuilder

Bounds: TypeAlias = tuple[int, int]
"""The smallest and the largest value."""

Number: TypeAlias = "IntegerExpression | Condition | SupportsIndex"
"""An operand: an expression, a truth value as 0 or 1, or a number that is known."""


def _signed_bounds(bits: int) -> Bounds:
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _are_within(bounds: Bounds, limits: Bounds) -> bool:
    return limits[0] <= bounds[0] and bounds[1] <= limits[1]


def _union(*bounds: Bounds) -> Bounds:
    return min(low for low, _ in bounds), max(high for _, high in bounds)


def _type_for(*bounds: Bounds) -> IntegerType:
    """
    The type that numbers of these bounds are computed with.

    Raises:
        ValueError: if it needs more than 64 bits.
    """
    union = _union(*bounds)
    for type_ in (i32, i64):
        if _are_within(union, _signed_bounds(type_.bitwidth)):
            return type_
    raise ValueError(f"numbers from {union[0]} to {union[1]} need more than 64 bits")


class _Expression:
    """What NumPy's functions take in the place of an array."""

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        if method != "__call__" or kwargs or ufunc not in _UFUNCS:
            return NotImplemented
        return _UFUNCS[ufunc](*inputs)

    def __array_function__(
        self,
        function: Any,
        types: Sequence[type],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        if kwargs or function not in _FUNCTIONS:
            return NotImplemented
        return _FUNCTIONS[function](*args)


@dataclass(eq=False)
class Condition(_Expression):
    """A truth value that is known at run time."""

    builder: LoweringBuilder
    value: SSAValue

    def __and__(self, other: Condition | bool) -> Condition | int:
        if not isinstance(other, Condition):
            return self if other else 0
        return Condition(
            self.builder, self.builder.add(arith.AndIOp(self.value, other.value))
        )

    @property
    def number(self) -> IntegerExpression:
        """0 or 1."""
        value = self.builder.op(arith.ExtUIOp, (self.value,), i32)
        return IntegerExpression(self.builder, value, (0, 1))


@dataclass(eq=False)
class IntegerExpression(_Expression):
    """An integer that is known at run time."""

    builder: LoweringBuilder
    value: SSAValue
    """Of any integer type, which is taken as signed."""

    bounds: Bounds
    """What the value is within, whatever its type could hold."""

    def as_type(self, type_: IntegerType) -> SSAValue:
        """The value with another number of bits, which its bounds must fit."""
        own_type = cast(IntegerType, self.value.type)
        if own_type == type_:
            return self.value
        is_wider = own_type.bitwidth < type_.bitwidth
        op_type = arith.ExtSIOp if is_wider else arith.TruncIOp
        return self.builder.op(op_type, (self.value,), type_)

    def _operand(self, number: Number, type_: IntegerType) -> SSAValue:
        if isinstance(number, Condition):
            number = number.number
        if isinstance(number, IntegerExpression):
            return number.as_type(type_)
        return self.builder.number(int(number), type_)

    def _built(
        self, op_type: type[Operation], lhs: Number, rhs: Number, bounds: Bounds
    ) -> IntegerExpression:
        """An op whose operands and result have one type."""
        type_ = _type_for(bounds, _bounds(lhs), _bounds(rhs))
        operands = self._operand(lhs, type_), self._operand(rhs, type_)
        value = self.builder.op(op_type, operands, type_)
        return IntegerExpression(self.builder, value, bounds)

    # Operators

    def __add__(self, other: Number) -> IntegerExpression:
        (a, b), (c, d) = self.bounds, _bounds(other)
        if (c, d) == (0, 0):
            return self
        return self._built(arith.AddiOp, self, other, (a + c, b + d))

    __radd__ = __add__

    def __sub__(self, other: Number) -> IntegerExpression:
        (a, b), (c, d) = self.bounds, _bounds(other)
        if (c, d) == (0, 0):
            return self
        return self._built(arith.SubiOp, self, other, (a - d, b - c))

    def __rsub__(self, other: Number) -> IntegerExpression:
        (a, b), (c, d) = self.bounds, _bounds(other)
        return self._built(arith.SubiOp, other, self, (c - b, d - a))

    def __neg__(self) -> IntegerExpression:
        return 0 - self

    def __mul__(self, other: Number) -> IntegerExpression:
        if _bounds(other) == (1, 1):
            return self
        products = [a * b for a in self.bounds for b in _bounds(other)]
        bounds = min(products), max(products)
        return self._built(arith.MuliOp, self, other, bounds)

    __rmul__ = __mul__

    def __lshift__(self, other: Number) -> IntegerExpression:
        if _bounds(other) == (0, 0):
            return self
        return self._built(arith.ShLIOp, self, other, _shifted(self, other))

    def __rlshift__(self, other: Number) -> IntegerExpression:
        return self._built(arith.ShLIOp, other, self, _shifted(other, self))

    def __rshift__(self, other: Number) -> IntegerExpression:
        if _bounds(other) == (0, 0):
            return self
        results = [a >> b for a in self.bounds for b in _bounds(other)]
        return self._built(arith.ShRSIOp, self, other, (min(results), max(results)))

    def __and__(self, other: SupportsIndex) -> IntegerExpression:
        """The bits that `other` has, which is not negative."""
        mask = int(other)
        bounds = self.bounds if self.bounds[0] >= 0 else (0, mask)
        bounds = bounds[0], min(bounds[1], mask)
        return self._built(arith.AndIOp, self, mask, (0, bounds[1]))

    # Comparison

    def _compared(self, predicate: str, other: Number) -> Condition:
        type_ = _type_for(self.bounds, _bounds(other))
        operands = self.as_type(type_), self._operand(other, type_)
        return Condition(
            self.builder, self.builder.add(arith.CmpiOp(*operands, predicate))
        )

    def __lt__(self, other: Number) -> Condition:
        return self._compared("slt", other)

    def __le__(self, other: Number) -> Condition:
        return self._compared("sle", other)

    def __gt__(self, other: Number) -> Condition:
        return self._compared("sgt", other)

    def __ge__(self, other: Number) -> Condition:
        return self._compared("sge", other)

    def __eq__(self, other: Number) -> Condition:  # pyright: ignore[reportIncompatibleMethodOverride] as arrays
        return self._compared("eq", other)

    def __ne__(self, other: Number) -> Condition:  # pyright: ignore[reportIncompatibleMethodOverride] as arrays
        return self._compared("ne", other)

    # Functions

    def minimum(self, other: Number) -> IntegerExpression:
        """The smaller one of two numbers."""
        (a, b), (c, d) = self.bounds, _bounds(other)
        if b <= c:
            return self
        return self._built(arith.MinSIOp, self, other, (min(a, c), min(b, d)))

    def maximum(self, other: Number) -> IntegerExpression:
        """The larger one of two numbers."""
        (a, b), (c, d) = self.bounds, _bounds(other)
        if a >= d:
            return self
        return self._built(arith.MaxSIOp, self, other, (max(a, c), max(b, d)))

    def absolute(self) -> IntegerExpression:
        """The absolute value."""
        low, high = self.bounds
        value = (-self).maximum(self).value
        return IntegerExpression(self.builder, value, (0, max(-low, high)))

    def wrapped(self, bits: int) -> IntegerExpression:
        """The lowest bits, at most those of the value, as a signed number."""
        bounds = _signed_bounds(bits)
        if _are_within(self.bounds, bounds):
            return self
        value = self.as_type(IntegerType(bits))
        return IntegerExpression(self.builder, value, bounds)

    def leading_zeros(self) -> IntegerExpression:
        """The zeros before the first one of the 32 bits of a number from 0."""
        value = self.builder.op(math.CountLeadingZerosOp, (self.as_type(i32),), i32)
        return IntegerExpression(self.builder, value, (0, 32))


def _bounds(number: Number) -> Bounds:
    if isinstance(number, IntegerExpression):
        return number.bounds
    if isinstance(number, Condition):
        return 0, 1
    return int(number), int(number)


def _shifted(number: Number, shift: Number) -> Bounds:
    results = [a << b for a in _bounds(number) for b in _bounds(shift)]
    return min(results), max(results)


# NumPy's functions


def _with_expression_first(
    method: Callable[[IntegerExpression, Number], IntegerExpression],
) -> Callable[[Number, Number], IntegerExpression]:
    """A function that does not depend on the order of its operands."""

    def function(a: Number, b: Number) -> IntegerExpression:
        if isinstance(a, IntegerExpression):
            return method(a, b)
        assert isinstance(b, IntegerExpression)
        return method(b, a)

    return function


def _clip(x: IntegerExpression, low: Number, high: Number) -> IntegerExpression:
    return x.maximum(low).minimum(high)


def _where(condition: Condition, a: Number, b: Number) -> IntegerExpression:
    builder, bounds = condition.builder, _union(_bounds(a), _bounds(b))
    some = IntegerExpression(builder, condition.value, bounds)
    type_ = _type_for(bounds)
    operands = some._operand(a, type_), some._operand(b, type_)  # pyright: ignore[reportPrivateUsage] in its module
    value = builder.add(arith.SelectOp(condition.value, *operands))
    return IntegerExpression(builder, value, bounds)


_UFUNCS: Mapping[Any, Callable[..., IntegerExpression]] = {
    np.minimum: _with_expression_first(IntegerExpression.minimum),
    np.maximum: _with_expression_first(IntegerExpression.maximum),
    np.absolute: IntegerExpression.absolute,
    # These if the left operand is a number of NumPy.
    np.add: _with_expression_first(IntegerExpression.__add__),
    np.multiply: _with_expression_first(IntegerExpression.__mul__),
}

_FUNCTIONS: Mapping[Any, Callable[..., IntegerExpression]] = {
    np.clip: _clip,
    np.where: _where,
}
