"""
Vectorization of short loops, each iteration of which becomes a lane.

LLVM vectorizes such loops too, but only with lane-wise operations. Loops that need
other operations, such as a table lookup in a register, are vectorized here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import mlir_bindings as mlir
from ..building import buffer_of, has_identity_layout, index
from ..loop_fixes import iterations
from ..mlir_bindings import Values, arith, ir, memref, vector
from .vector_code import INTEGER_OPS, LANES

_Lanes = NDArray[np.int64]

_MAX_LANES = 128
"""Maximum number of lanes, as the code of each vector is unrolled."""


class LaneIndex(NamedTuple):
    """Index in a lane loop: terms common to all lanes plus a constant per lane."""

    terms: Mapping[ir.Value | _Quotient, int]
    """Terms that all lanes share: maps each value or quotient to its factor."""

    numbers: _Lanes
    """Addend of each lane."""

    def is_same(self, other: LaneIndex) -> bool:
        """Return True if two indices are equal in all lanes."""
        return self.terms == other.terms and np.array_equal(self.numbers, other.numbers)

    def advances(self, by: int) -> bool:
        """Return True if the index increases by `by` per lane of a vector."""
        steps = np.diff(self.numbers.reshape(-1, LANES))
        return bool((steps == by).all())

    def build(self, lane: int) -> ir.Value:
        terms = [
            arith.muli(_term_value(value), index(factor))
            for value, factor in self.terms.items()
        ]
        return reduce(arith.addi, terms, index(int(self.numbers[lane])))


class _Quotient(NamedTuple):
    """Quotient of a nonnegative index by a constant."""

    terms: Sequence[tuple[ir.Value | _Quotient, int]]
    number: int
    divisor: int


def _term_value(value: ir.Value | _Quotient) -> ir.Value:
    if isinstance(value, ir.Value):
        return value
    dividend = LaneIndex(dict(value.terms), np.array([value.number]))
    return arith.divui(dividend.build(0), index(value.divisor))


def _index_sum(left: LaneIndex, right: LaneIndex) -> LaneIndex:
    terms = dict(left.terms)
    for value, factor in right.terms.items():
        terms[value] = terms.get(value, 0) + factor
    return LaneIndex(terms, left.numbers + right.numbers)


def _index_product(left: LaneIndex, right: LaneIndex) -> LaneIndex | None:
    if left.terms:
        left, right = right, left
    if left.terms or (right.terms and (left.numbers != left.numbers[0]).any()):
        return None
    factor = int(left.numbers[0])
    terms = {value: factor * each for value, each in right.terms.items()}
    return LaneIndex(terms, left.numbers * right.numbers)


def _index_quotient(left: LaneIndex, right: LaneIndex) -> LaneIndex | None:
    """
    Return a quotient of nonnegative operands, rounded toward zero. The greatest common
    divisor of factors and divisor is canceled first. Rounding the addend down to a
    multiple of this divisor does not change the quotient.
    """
    divisor = int(right.numbers[0])
    if right.terms or (right.numbers != divisor).any() or divisor <= 0:
        return None
    if not all(map(_is_positive, left.terms.items())) or (left.numbers < 0).any():
        return None
    common = gcd(divisor, *left.terms.values())
    terms = {value: factor // common for value, factor in left.terms.items()}
    numbers, divisor = left.numbers // common, divisor // common
    if divisor == 1 or not terms:
        return LaneIndex(terms, numbers // divisor)
    if (numbers != numbers[0]).any():
        return None
    quotient = _Quotient((*terms.items(),), int(numbers[0]), divisor)
    return LaneIndex({quotient: 1}, np.zeros_like(numbers))


def _is_positive(term: tuple[ir.Value | _Quotient, int]) -> bool:
    """Return True if a multiple of a value is provably nonnegative."""
    value, factor = term
    if not isinstance(value, ir.Value):
        return factor >= 0
    if (block := mlir.argument_block(value)) is None:
        return False
    loop = block.owner.operation
    is_counter = loop.name == "scf.for" and value == block.arguments[0]
    numbers = iterations(loop) if is_counter else ()
    return factor >= 0 and min(numbers, default=-1) >= 0


_ARITHMETIC: Mapping[str, Callable[[LaneIndex, LaneIndex], LaneIndex | None]] = {
    "arith.addi": _index_sum,
    "arith.divsi": _index_quotient,
    "arith.divui": _index_quotient,
    "arith.muli": _index_product,
}

_ELEMENTWISE = INTEGER_OPS | {
    *("arith.addf", "arith.bitcast", "arith.extf", "arith.mulf", "arith.shrui"),
    *("arith.sitofp", "arith.subf", "arith.uitofp", "math.fma"),
}
"""
Ops that support vector operands and that later steps do not rewrite. Attributes of
these ops are dropped: they only permit optimizations.
"""

_WITHOUT_OTHER_EFFECTS = (
    "arith.",
    "math.",
    "memref.get_global",
    "memref.load",
    "memref.store",
    "scf.yield",
)


def has_lanes(loop: ir.Operation) -> bool:
    """Return True if the iterations of an `scf.for` fill one to four vector pairs."""
    lanes = iterations(loop)
    is_whole = lanes.step == 1 and not len(lanes) % (2 * LANES)
    return is_whole and 0 < len(lanes) <= _MAX_LANES and not loop.results


class LaneLoop:
    """Innermost loop over a few lanes; each iteration stores one number."""

    @classmethod
    def of(cls, loop: ir.Operation) -> LaneLoop | None:
        """Return an `scf.for` as a lane loop, or `None` if it is not one."""
        if not has_lanes(loop):
            return None
        ops = mlir.operations_of(mlir.body_of(loop))
        stores = [op for op in ops if op.name == "memref.store"]
        is_known = all(op.name.startswith(_WITHOUT_OTHER_EFFECTS) for op in ops)
        if not is_known or len(stores) != 1:
            return None
        return cls(loop, stores[0])

    def __init__(self, loop: ir.Operation, store: ir.Operation):
        self._loop = loop
        self._body = mlir.body_of(loop)
        self._store = store
        self._numbers = np.array(iterations(loop))
        self._defined: dict[ir.Value, Callable[[int], ir.Value]] = {}
        self._found: dict[ir.Value, LaneIndex | None] = {}
        self._supported: dict[ir.Value, bool] = {}
        self._vectors: dict[tuple[ir.Value, int], ir.Value] = {}

    @property
    def loads(self) -> Sequence[ir.Operation]:
        return mlir.ops_in(self._loop, "memref.load")

    def define(self, value: ir.Value, vector_of: Callable[[int], ir.Value]) -> None:
        """Set the function that builds the vector of a value, given the first lane."""
        self._defined[value] = vector_of

    def index(self, value: ir.Value) -> LaneIndex | None:
        """Return a value as an index with a constant addend per lane, or `None`."""
        if value not in self._found:
            self._found[value] = self._index(value)
        return self._found[value]

    def _index(self, value: ir.Value) -> LaneIndex | None:
        zeros = np.zeros_like(self._numbers)
        if (number := mlir.integer_of(value)) is not None:
            return LaneIndex({}, zeros + number)
        if self._is_outside(value):
            return LaneIndex({value: 1}, zeros)
        if isinstance(value, ir.BlockArgument):
            return LaneIndex({}, self._numbers)
        op = value.owner.operation
        if (computed := _ARITHMETIC.get(op.name)) is None:
            return None
        left, right = map(self.index, op.operands)
        return None if left is None or right is None else computed(left, right)

    def is_supported(self) -> bool:
        """Return True if the stored value can be vectorized."""
        value, *target = self._store.operands
        return self.can_access(target, steps=(1,)) and self._is_supported(value)

    def replace(self) -> None:
        """Build the vector ops, and erase the loop."""
        value, target, *indices = self._store.operands
        with ir.InsertionPoint(self._loop), self._loop.location:
            for lane in range(0, self._numbers.size, LANES):
                stored = self._vector(value, lane)
                vector.store(stored, target, self._indices(indices, lane))
        self._loop.erase()

    def _is_outside(self, value: ir.Value) -> bool:
        return (mlir.argument_block(value) or value.owner.operation.block) != self._body

    def _is_supported(self, value: ir.Value) -> bool:
        if value not in self._supported:
            self._supported[value] = self._can_be_vectorized(value)
        return self._supported[value]

    def _can_be_vectorized(self, value: ir.Value) -> bool:
        if value in self._defined:
            return True
        if not _is_element(value.type):
            return False
        if self._is_outside(value):
            return True
        op = value.owner.operation
        if op.name == "memref.load":
            return self._can_load(op)
        return op.name in _ELEMENTWISE and all(map(self._is_supported, op.operands))

    def _can_load(self, load: ir.Operation) -> bool:
        """Return True if a load is vectorizable and reads no stores of other lanes."""
        if not self.can_access([*load.operands], steps=(0, 1)):
            return False
        source, *indices = load.operands
        _, target, *stored = self._store.operands
        if buffer_of(source) != buffer_of(target):
            return True
        pairs = zip(map(self.index, indices), map(self.index, stored), strict=False)
        return source == target and all(a and b and a.is_same(b) for a, b in pairs)

    def can_access(self, operands: Values, steps: Sequence[int]) -> bool:
        """
        Return True if the last index advances by one of `steps` per lane, and all other
        indices are the same for the lanes of a vector.
        """
        source, *indices = operands
        if not indices or not has_identity_layout(source.type):
            return False
        lane_indices = [self.index(each) for each in indices]
        *others, last = lane_indices
        return (
            all(other is not None and other.advances(0) for other in others)
            and last is not None
            and any(last.advances(step) for step in steps)
        )

    def _indices(self, indices: Values, lane: int) -> Values:
        lane_indices = [self.index(each) for each in indices]
        return [each.build(lane) for each in lane_indices if each is not None]

    def _vector(self, value: ir.Value, lane: int) -> ir.Value:
        if (value, lane) not in self._vectors:
            if define := self._defined.get(value):
                built = define(lane)
            else:
                built = self._build_vector(value, lane)
            self._vectors[value, lane] = built
        return self._vectors[value, lane]

    def _build_vector(self, value: ir.Value, lane: int) -> ir.Value:
        type_ = mlir.vector_type(LANES, value.type)
        if self._is_outside(value):
            return vector.broadcast(type_, value)
        op = value.owner.operation
        if op.name != "memref.load":
            operands = [self._vector(operand, lane) for operand in op.operands]
            return mlir.create_op(op.name, type_, operands)
        source, *indices = op.operands
        last = self.index(indices[-1])
        at = self._indices(indices, lane)
        if last is not None and last.advances(1):
            return vector.load(type_, source, at)
        return vector.broadcast(type_, memref.load(source, at))


def _is_element(type_: ir.Type) -> bool:
    """Return True if vectors may have elements of a type."""
    if isinstance(type_, ir.IntegerType):
        return type_.width in (1, 8, 16, 32, 64)
    return isinstance(type_, ir.F16Type | ir.F32Type | ir.F64Type)
