"""
Vectorization of scalar bodies of elementwise integer ops.

64-bit values that provably fit 32 bits are computed in 32 bits. Fixed-point
multiplications that round once or twice get a short sequence: 64-bit products of the
even and the odd lanes, as `vpmuldq` computes, then one addition and one shift.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import mlir_bindings as mlir
from ..mlir_bindings import FieldValue, ir
from .vector_code import INTEGER_OPS, LANES, Code, ColumnTable

_Numbers = NDArray[np.int64]


class Interval(NamedTuple):
    """Interval of signed integers."""

    low: int
    high: int

    def fits(self, width: int) -> bool:
        """Return True if all numbers fit a signed integer of a width."""
        return -(1 << width - 1) <= self.low and self.high < 1 << width - 1

    @classmethod
    def of_width(cls, width: int) -> Interval:
        """Return the interval of signed integers of a width."""
        return cls(-(1 << width - 1), (1 << width - 1) - 1)


class _FixedPointProduct(NamedTuple):
    """
    `(number * multiplier + addend) >> shift` in 64 bits. If it rounds twice, 2**31 is
    subtracted before the shift where `number * multiplier` is negative.
    """

    number: FieldValue
    multiplier: _Numbers
    addend: _Numbers
    shift: _Numbers
    rounds_twice: bool


_PLAIN = INTEGER_OPS | {"arith.cmpi", "arith.maxsi", "arith.minsi"}
"""Ops that support vector operands."""


class VectorBody:
    """Body of an elementwise integer op."""

    def __init__(self, block: ir.Block, constants: Mapping[int, _Numbers]):
        """Take a body and the numbers per column of its constant arguments."""
        self._block = block
        self._constants = {block.arguments[i]: n for i, n in constants.items()}
        self._intervals: dict[ir.Value, Interval] = {}
        self._products: dict[ir.Value, _FixedPointProduct | None] = {}

    @cached_property
    def result(self) -> ir.Value:
        """Value that the body yields."""
        (result,) = mlir.yielded_values(self._block)
        return result

    def argument(self, number: int) -> ir.Value:
        return self._block.arguments[number]

    def only_use(self, value: ir.Value, name: str) -> tuple[ir.Value, _Numbers] | None:
        """Return result and constant of the only user, an `arith.{name}`, or `None`."""
        users = mlir.users_of(value)
        if len(users) != 1 or not users[0].results:
            return None
        (result,) = users[0].results
        operands = self._with_constant(result, name)
        return (result, operands[1]) if operands and operands[0] == value else None

    def set_interval(self, value: ir.Value, interval: Interval) -> None:
        self._intervals[value] = interval

    def is_supported(self) -> bool:
        """Return True if the body can be vectorized."""
        return self._is_supported(self.result) and _is_stored(self.result)

    def _is_supported(self, value: ir.Value) -> bool:
        if not isinstance(value.type, ir.IntegerType) or value.type.width > 64:
            return False
        if (numbers := self.constant(value)) is not None:
            return bool(np.all(numbers == numbers.astype(np.int32)))
        if isinstance(value, ir.BlockArgument):
            return mlir.argument_block(value) == self._block and _is_stored(value)
        op = value.owner.operation
        return op.name in _PLAIN and all(map(self._is_supported, op.operands))

    # Analysis

    def constant(self, value: ir.Value) -> _Numbers | None:
        """Return a constant's number or numbers per column; `None` for other values."""
        if isinstance(value, ir.BlockArgument):
            return self._constants.get(value)
        if (number := mlir.integer_of(value)) is not None:
            return np.array(number, np.int64)
        if op := mlir.defining_op(value, "arith.extsi", "arith.trunci"):
            numbers = self.constant(op.operands[0])
            return numbers if numbers is None else _wrapped_to_type(numbers, value)
        if op := mlir.defining_op(value, "arith.addi", "arith.subi", "arith.muli"):
            left, right = map(self.constant, op.operands)
            if left is None or right is None:
                return None
            functions = {"addi": np.add, "subi": np.subtract, "muli": np.multiply}
            result = functions[op.name.removeprefix("arith.")](left, right)
            return _wrapped_to_type(result, value)
        return None

    def interval(self, value: ir.Value) -> Interval:
        """Return an interval that contains a value, as a signed integer."""
        if value not in self._intervals:
            width = mlir.bits(value.type)
            exact = self._interval(value)
            full = Interval.of_width(width)
            self._intervals[value] = exact if exact and exact.fits(width) else full
        return self._intervals[value]

    def _interval(self, value: ir.Value) -> Interval | None:
        if (numbers := self.constant(value)) is not None:
            return Interval(int(numbers.min()), int(numbers.max()))
        if isinstance(value, ir.BlockArgument):
            return None
        op = value.owner.operation
        return self._exact_interval(op)

    def _exact_interval(self, op: ir.Operation) -> Interval | None:
        """Return the interval of an op's result before the result wraps to its width."""
        operands = [*map(self.interval, op.operands)]
        ends = [(a, b) for a in operands[0] for b in operands[-1]]
        match op.name.removeprefix("arith."):
            case "addi":
                numbers = [a + b for a, b in ends]
            case "subi":
                numbers = [a - b for a, b in ends]
            case "muli":
                numbers = [a * b for a, b in ends]
            case "shrsi" if min(operands[1]) >= 0:
                numbers = [a >> b for a, b in ends]
            case "shli" if 0 <= operands[1].low and operands[1].high < 64:
                numbers = [a << b for a, b in ends]
            case "extsi" | "trunci":
                numbers = [*operands[0]]
            case "extui" if operands[0].low >= 0:
                numbers = [*operands[0]]
            case "extui":
                numbers = [0, (1 << mlir.bits(op.operands[0].type)) - 1]
            case "maxsi":
                numbers = [*map(max, *operands)]
            case "minsi":
                numbers = [*map(min, *operands)]
            case "select":
                numbers = [*operands[1], *operands[2]]
            case _:
                return None
        return Interval(min(numbers), max(numbers))

    def fixed_point_product(self, value: ir.Value) -> _FixedPointProduct | None:
        """Return a value as a rounded fixed-point product, or `None`."""
        if value not in self._products:
            product = (
                self._rounded_twice(value)
                or self._rounded_once(value)
                or self._rounded_with_addend(value)
            )
            is_valid = (
                product is not None
                and self.interval(value).fits(32)
                and mlir.bits(product.number.type) == 64
                and self.interval(product.number).fits(
                    31 if product.rounds_twice else 32
                )
                and bool(
                    np.all((product.multiplier >= 0) & (product.multiplier < 1 << 31))
                )
                and bool(np.all((product.shift > 0) & (product.shift < 63)))
                and bool(np.all(abs(product.addend) < 1 << 61))
            )
            self._products[value] = (
                self._simpler(value, product) if product and is_valid else None
            )
        return self._products[value]

    def _simpler(
        self, value: ir.Value, rounded: _FixedPointProduct
    ) -> _FixedPointProduct:
        """
        Return a product that rounds once and has the same results after clamping, or
        the given product. Results never decrease as `number` grows, so products agree if
        each result has the same smallest `number`. This bounds the new addend.
        """
        low, high = self.interval(rounded.number)
        bounds = self._clamped(value)
        multiplier, shift = rounded.multiplier, rounded.shift
        if (
            not rounded.rounds_twice
            or bounds is None
            or not self.interval(value).fits(31)
            or (multiplier == 0).any()
            or (shift > 54).any()
        ):
            return rounded
        results = np.arange(bounds.low + 1, bounds.high + 1)[:, np.newaxis] << shift
        # Least number with each result, among negative and among other numbers
        below = -((rounded.addend - (1 << 31) - results) // multiplier)
        above = -((rounded.addend - results) // multiplier)
        first = np.where(below < 0, below, np.maximum(above, 0))
        least = results - np.maximum(first, low) * multiplier
        most = results - np.minimum(first - 1, high) * multiplier
        least = np.where(first <= high, least, _MIN_ADDEND).max(0)
        most = np.where(first > low, most, _MAX_ADDEND).min(0)
        if (least >= most).any() or (abs(least) >= _MAX_ADDEND).any():
            return rounded
        return rounded._replace(addend=least, rounds_twice=False)

    def _clamped(self, value: ir.Value) -> Interval | None:
        """Return the range to which the only users of a value clamp it, or `None`."""
        bounds: dict[str, int] = {}
        for _ in range(2):
            for name in ("maxsi", "minsi"):
                if (use := self.only_use(value, name)) is not None:
                    value, (bounds[name], *others) = use[0], use[1].ravel().tolist()
                    if others:
                        return None
                    break
        if {*bounds} != {"maxsi", "minsi"}:
            return None
        clamped = Interval(bounds["maxsi"], bounds["minsi"])
        is_small = clamped.fits(9) and clamped.low < clamped.high
        return clamped if is_small else None

    def _with_constant(
        self, value: ir.Value, name: str
    ) -> tuple[ir.Value, _Numbers] | None:
        """
        Return the variable and the constant operand of an op; the constant must be the
        second unless the op is commutative.
        """
        if not (op := mlir.defining_op(value, f"arith.{name}")):
            return None
        left, right = op.operands
        if (numbers := self.constant(right)) is not None:
            return left, numbers
        is_commutative = name in ("addi", "maxsi", "minsi", "muli")
        if is_commutative and (numbers := self.constant(left)) is not None:
            return right, numbers
        return None

    def _rounded_with_addend(self, value: ir.Value) -> _FixedPointProduct | None:
        """Return a rounded product plus a constant such as a zero point."""
        if not (added := self._with_constant(value, "addi")):
            return None
        rounded, constant = added
        exact = self._exact_interval(value.owner.operation)
        if (
            not (product := self.fixed_point_product(rounded))
            or not exact
            or not exact.fits(32)
        ):
            return None
        if (np.ldexp(np.abs(constant), product.shift) >= 1 << 61).any():
            return None
        return product._replace(addend=product.addend + (constant << product.shift))

    def _rounded_once(self, value: ir.Value) -> _FixedPointProduct | None:
        if not (last := self._with_constant(value, "shrsi")):
            return None
        if not (added := self._with_constant(last[0], "addi")):
            return None
        total, shift = added
        if product := self._with_constant(total, "muli"):
            return _FixedPointProduct(*product, shift, last[1], False)
        # The shift is split around the addition to prevent overflow.
        if not (first := self._with_constant(total, "shrsi")):
            return None
        if not (product := self._with_constant(first[0], "muli")):
            return None
        if (first[1] < 0).any() or (last[1] <= 0).any():
            return None
        addend = shift << np.minimum(first[1], 61)
        return _FixedPointProduct(*product, addend, first[1] + last[1], False)

    def _rounded_twice(self, value: ir.Value) -> _FixedPointProduct | None:
        if not (last := self._with_constant(value, "shrsi")):
            return None
        if not (difference := mlir.defining_op(last[0], "arith.subi")):
            return None
        added = self._with_constant(difference.operands[0], "addi")
        extended = mlir.defining_op(difference.operands[1], "arith.extui")
        compared = extended and mlir.defining_op(extended.operands[0], "arith.cmpi")
        if not added or not compared:
            return None
        high, half = added
        zero = self.constant(compared.operands[1])
        narrowed = mlir.defining_op(high, "arith.trunci")
        if (
            compared.operands[0] != high
            or _predicate(compared) != "slt"
            or zero is None
            or zero.any()
            or not narrowed
        ):
            return None
        once = self._rounded_once(narrowed.operands[0])
        sums = self._exact_interval(difference.operands[0].owner.operation)
        if (
            once is None
            or not (once.shift == 31).all()
            or not (once.addend == 1 << 30).all()
            or not self.interval(narrowed.operands[0]).fits(32)
            or not sums
            or not sums.fits(32)
            or not ((last[1] > 0) & (last[1] < 31)).all()
            # With this addend, the sign of a product that rounds to 0 does not matter.
            or not (half == 1 << (last[1] - 1)).all()
        ):
            return None
        addend, shift = once.addend + (half << 31), last[1] + 31
        return once._replace(addend=addend, shift=shift, rounds_twice=True)


def _wrapped_to_type(numbers: _Numbers, value: ir.Value) -> _Numbers:
    """Return numbers sign-extended from the width of a value."""
    unused = 64 - mlir.bits(value.type)
    return numbers << unused >> unused


def _is_stored(value: ir.Value) -> bool:
    """Return True if a value has a supported width in memory: 8, 16 or 32 bits."""
    return mlir.bits(value.type) in (8, 16, 32)


class BodyCode:
    """Builder of a body's ops in a vector function."""

    def __init__(
        self, body: VectorBody, code: Code, table: ColumnTable, columns: str
    ) -> None:
        """
        Build the ops of `body` in the function `code`. `table` has the column constants
        of the function; `columns` is the pointer to them.
        """
        self._body = body
        self._code = code
        self._table = table
        self._columns = columns
        self._names: dict[ir.Value, str] = {}

    def set(self, value: ir.Value, name: str) -> None:
        self._names[value] = name

    def width(self, value: ir.Value) -> int:
        """Return the bit width in which a value is computed."""
        width = mlir.bits(value.type)
        return 32 if width > 32 and self._body.interval(value).fits(32) else width

    def vector(self, value: ir.Value, width: int | None = None) -> str:
        """Return the vector of a value, sign-extended or truncated to a width."""
        if value not in self._names:
            self._names[value] = self._build_vector(value)
        has, name = self.width(value), self._names[value]
        if width is None or width == has:
            return name
        return self._converted(name, has, width)

    def _converted(self, name: str, has: int, width: int, extend: str = "extsi") -> str:
        if has == width:
            return name
        op = extend if has < width else "trunci"
        return self._code.add(f"arith.{op} {name} : {_type(has)} to {_type(width)}")

    def _build_vector(self, value: ir.Value) -> str:
        body, code, width = self._body, self._code, self.width(value)
        if (numbers := body.constant(value)) is not None:
            return self._constant(numbers, width)
        if rounded := body.fixed_point_product(value):
            return self._converted(self._rounded(rounded), 32, width)
        op = value.owner.operation
        name = op.name.removeprefix("arith.")
        operands = [*op.operands]
        if name in ("extsi", "extui", "trunci"):
            (operand,) = operands
            is_unsigned = name == "extui" and body.interval(operand).low < 0
            extend = "extui" if is_unsigned else "extsi"
            has = mlir.bits(operand.type) if is_unsigned else self.width(operand)
            return self._converted(self.vector(operand, has), has, width, extend)
        numbered = operands[1:] if name == "select" else operands
        values = numbered if name == "cmpi" else [*numbered, value]
        computed = max(map(self.width, values))
        if name in ("shli", "shrsi") and self._body.interval(operands[1]).high >= 32:
            computed = mlir.bits(value.type)
        vectors = [self.vector(operand, computed) for operand in numbered]
        type_ = _type(computed)
        if name == "select":
            vectors = [self.vector(operands[0]), *vectors]
            type_ = f"vector<{LANES}xi1>, {type_}"
        if name == "cmpi":
            name = f"cmpi {_predicate(op)},"
        result = code.add(f"arith.{name} {', '.join(vectors)} : {type_}")
        is_truth = mlir.bits(value.type) == 1
        return result if is_truth else self._converted(result, computed, width)

    def _constant(self, numbers: _Numbers, width: int) -> str:
        code = self._code
        if numbers.size == 1 or (numbers == numbers.flat[0]).all():
            number = int(numbers.flat[0])
            text = str(bool(number)).lower() if width == 1 else number
            return code.splat(text, _type(width))
        offset = self._table.add(numbers)
        loaded = code.load(code.at(self._columns, offset), _type(32), 64)
        return self._converted(loaded, 32, width)

    def _rounded(self, rounded: _FixedPointProduct) -> str:
        number = self.vector(rounded.number, 32)
        if rounded.rounds_twice:
            return self._rounded_twice(rounded, number)
        wide = _WideCode(self._code, self._table, self._columns)
        lower, upper = wide.sums(number, rounded.multiplier, rounded.addend)
        lower = wide.op("shrsi", lower, wide.constant(rounded.shift, 0))
        if (rounded.shift >= 32).all():
            upper = wide.op("shrsi", upper, wide.constant(rounded.shift - 32, 1))
        else:
            upper = wide.op("shrsi", upper, wide.constant(rounded.shift, 1))
            upper = wide.op("shli", upper, wide.bits)
        return wide.lanes_of(lower, upper, 0)

    def _rounded_twice(self, rounded: _FixedPointProduct, number: str) -> str:
        """
        Return the vector of a product that rounds twice: the upper halves of the doubled
        product are shifted by 31 bits, and 1 is subtracted for negative numbers.
        """
        code, type_ = self._code, _type(32)
        wide = _WideCode(code, self._table, self._columns)
        doubled = code.add(f"arith.addi {number}, {number} : {type_}")
        lower, upper = wide.sums(doubled, rounded.multiplier, 2 * rounded.addend)
        total = wide.lanes_of(lower, upper, 1)
        sign = code.add(f"arith.shrsi {number}, {code.splat(31, type_)} : {type_}")
        total = code.add(f"arith.addi {total}, {sign} : {type_}")
        shift = self._constant(rounded.shift - 31, 32)
        return code.add(f"arith.shrsi {total}, {shift} : {type_}")


_WIDE = f"vector<{LANES // 2}xi64>"


class _WideCode:
    """Builder of 64-bit ops; `lanes` is 0 for the even and 1 for the odd lanes."""

    def __init__(self, code: Code, table: ColumnTable, columns: str):
        self.bits = code.splat(32, _WIDE)
        self._code = code
        self._table = table
        self._columns = columns

    def op(self, name: str, left: str, right: str) -> str:
        return self._code.add(f"arith.{name} {left}, {right} : {_WIDE}")

    def low(self, value: str) -> str:
        """Return the lower halves of the lanes, sign-extended to 64 bits."""
        return self.op("shrsi", self.op("shli", value, self.bits), self.bits)

    def constant(self, numbers: _Numbers, lanes: int) -> str:
        """Return the vector of a constant, for the even or the odd columns."""
        code = self._code
        if numbers.size == 1 or (numbers == numbers.flat[0]).all():
            return code.splat(int(numbers.flat[0]), _WIDE)
        offset = self._table.add_halves(numbers)[lanes]
        return code.load(code.at(self._columns, offset), _WIDE, 64)

    def sums(self, number: str, multiplier: _Numbers, addend: _Numbers) -> list[str]:
        """Return `number * multiplier + addend` of the even, and of the odd lanes."""
        both = self._code.add(f"llvm.bitcast {number} : {_type(32)} to {_WIDE}")
        halves = self.low(both), self.op("shrsi", both, self.bits)
        factors = [self.low(self.constant(multiplier, lanes)) for lanes in range(2)]
        products = map(partial(self.op, "muli"), halves, factors)
        return [
            self.op("addi", product, self.constant(addend, lanes))
            for lanes, product in enumerate(products)
        ]

    def lanes_of(self, evens: str, odds: str, half: int) -> str:
        """Return the lower (0) or upper (1) halves of `evens`, upper halves of `odds`."""
        evens, odds = (
            self._code.add(f"llvm.bitcast {x} : {_WIDE} to {_type(32)}")
            for x in (evens, odds)
        )
        lanes = (i + LANES if i % 2 else i + half for i in range(LANES))
        return self._code.shuffle(evens, odds, _type(32), lanes)


_MIN_ADDEND, _MAX_ADDEND = -(1 << 62), 1 << 62

_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
"""Predicates of `arith.cmpi`, by number."""


def _predicate(comparison: ir.Operation) -> str:
    return _PREDICATES[mlir.attribute_of(comparison, "predicate", ir.IntegerAttr).value]


def _type(width: int) -> str:
    return f"vector<{LANES}xi{width}>"
