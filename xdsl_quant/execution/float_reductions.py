"""
Reductions of floats in lanes.

A loop that adds each float to the same number waits for the previous addition. Here
each lane adds up every 16th float, and the lanes are added up after the loop. This
changes the rounding of sums, in the same way for each CPU.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from . import mlir_bindings as mlir
from .building import buffer_of, has_identity_layout, index
from .loop_fixes import iterations
from .mlir_bindings import FieldValue, Values, arith, ir, memref, scf, vector

_LANES = 16

_MAX_SUM_IN_ORDER = 64
"""Largest number of floats that are added in order, such as those of split reductions."""

_ELEMENTWISE = {
    *("arith.addf", "arith.bitcast", "arith.cmpf", "arith.constant", "arith.divf"),
    *("arith.extf", "arith.maximumf", "arith.minimumf", "arith.mulf", "arith.negf"),
    *("arith.select", "arith.shli", "arith.shrsi", "arith.subf", "arith.subi"),
    *("math.absf", "math.sqrt"),
}
"""Ops that support vector operands and that later steps do not rewrite."""

_IDENTITIES = {
    "arith.addf": -0.0,
    "arith.maximumf": -math.inf,
    "arith.minimumf": math.inf,
}
"""Identity of each combining op."""


def reduce_floats_in_lanes(module: ir.Module) -> None:
    """Vectorize the innermost loops that add up f32 or f64 values, or find extremes."""
    for loop in mlir.ops_in(module, "scf.for"):
        if (total := _FloatReduction.of(loop)) is not None:
            total.vectorize()


class _FloatReduction(NamedTuple):
    """Innermost loop that combines an element of a memref with a term per iteration."""

    loop: ir.Operation
    store: ir.Operation
    load: ir.Operation
    term: FieldValue

    @classmethod
    def of(cls, loop: ir.Operation) -> _FloatReduction | None:
        """Return an `scf.for` as a reduction, or `None` if it is unsupported."""
        numbers = iterations(loop)
        if len(loop.results) or numbers.step != 1 or len(numbers) < 2 * _LANES:
            return None
        *ops, _ = mlir.operations_of(mlir.body_of(loop))
        store = ops[-1]
        if store.name != "memref.store":
            return None
        value, *target = store.operands
        total = mlir.defining_op(value, *_IDENTITIES)
        if total is None or not isinstance(value.type, ir.F32Type | ir.F64Type):
            return None
        if total.name == "arith.addf" and len(numbers) <= _MAX_SUM_IN_ORDER:
            return None
        for so_far, term in ([*total.operands], [*total.operands][::-1]):
            load = mlir.defining_op(so_far, "memref.load")
            if load is not None and [*load.operands] == target:
                found = cls(loop, store, load, term)
                rest = [op for op in ops if op not in (store, load, total)]
                return found if found._is_supported(rest, total) else None
        return None

    @property
    def _body(self) -> ir.Block:
        return mlir.body_of(self.loop)

    def _is_outside(self, value: ir.Value) -> bool:
        return (mlir.argument_block(value) or value.owner.operation.block) != self._body

    def _is_supported(self, ops: list[ir.Operation], total: ir.Operation) -> bool:
        target = self.load.operands[0]
        values = (self.load.results[0], total.results[0])
        product = mlir.defining_op(self.term, "arith.mulf")
        if product is not None and product.operands[0] != product.operands[1]:
            # Products of matrices keep the order of their sums.
            return False
        return (
            all(map(self._is_outside, self.load.operands))
            and total.block == self._body
            and all(len(mlir.users_of(value)) == 1 for value in values)
            and all(
                self._can_load(op, target)
                if op.name == "memref.load"
                else op.name in _ELEMENTWISE
                for op in ops
            )
        )

    def _can_load(self, load: ir.Operation, target: ir.Value) -> bool:
        source, *indices = load.operands
        if buffer_of(source) == buffer_of(target):
            return False
        if not isinstance(load.results[0].type, ir.F32Type | ir.F64Type):
            return False
        if all(map(self._is_outside, indices)):
            return True
        *others, last = indices
        return (
            last == self._body.arguments[0]
            and all(map(self._is_outside, others))
            and has_identity_layout(source.type)
        )

    def vectorize(self) -> None:
        """Replace the loop by a loop over vectors, and one over the last elements."""
        numbers, type_ = iterations(self.loop), self.term.type
        rest = len(numbers) % self._lanes
        lanes = mlir.vector_type(self._lanes, type_)
        with ir.InsertionPoint(self.loop), self.loop.location:
            middle = index(numbers.stop - rest)
            identity = arith.constant(type_, _IDENTITIES[self._combiner.name])
            vectors = scf.ForOp(
                self.loop.operands[0],
                middle,
                index(self._lanes),
                iter_args=[vector.broadcast(lanes, identity)],
            )
            total = self._reduced(vectors.results[0])
            so_far = memref.load(*_element_of(self.load))
            memref.store(self._combined(so_far, total), *_element_of(self.load))
        block = mlir.body_of(vectors)
        with ir.InsertionPoint(block), self.loop.location:
            scf.yield_([self._next(block.arguments)])
        if rest:
            self.loop.operands[0] = middle
        else:
            self.loop.erase()

    def _next(self, arguments: Values) -> ir.Value:
        """Build the body on vectors, and return the new accumulators."""
        first, so_far = arguments
        known: dict[ir.Value, ir.Value] = {}

        def vector_of(value: ir.Value) -> ir.Value:
            if value not in known:
                lanes = mlir.vector_type(self._lanes, value.type)
                known[value] = vector.broadcast(lanes, value)
            return known[value]

        for op in mlir.operations_of(self._body):
            if op.name in ("memref.store", "scf.yield") or op == self.load:
                continue
            (result,) = op.results
            if op.name == "memref.load":
                known[result] = self._load(op, first)
            elif op.name == "arith.constant":
                number = op.clone().results[0]
                lanes = mlir.vector_type(self._lanes, number.type)
                known[result] = vector.broadcast(lanes, number)
            elif result != self.store.operands[0]:
                known[result] = self._on_vectors(op, [*map(vector_of, op.operands)])
        return self._combined(so_far, vector_of(self.term))

    @property
    def _lanes(self) -> int:
        """Number of lanes: more for extremes, which take several instructions."""
        is_extreme = self._combiner.name != "arith.addf"
        is_long = len(iterations(self.loop)) >= 4 * _LANES
        return 4 * _LANES if is_extreme and is_long else _LANES

    @property
    def _combiner(self) -> ir.Operation:
        return self.store.operands[0].owner.operation

    def _combined(self, left: ir.Value, right: ir.Value) -> ir.Value:
        return mlir.create_op(self._combiner.name, left.type, [left, right])

    def _reduced(self, lanes: ir.Value) -> ir.Value:
        """Combine the halves of a vector until one number is left."""
        count = self._lanes
        while count > 1:
            count //= 2
            lanes = self._combined(
                *(
                    vector.shuffle(lanes, lanes, [*range(start, start + count)])
                    for start in (0, count)
                )
            )
        return vector.extract(lanes, [], [0])

    def _on_vectors(self, op: ir.Operation, operands: Values) -> ir.Value:
        copy = op.clone()
        for i, operand in enumerate(operands):
            copy.operands[i] = operand
        (result,) = copy.results
        mlir.change_type(result, mlir.vector_type(self._lanes, result.type))
        return result

    def _load(self, load: ir.Operation, first: ir.Value) -> ir.Value:
        source, *indices = load.operands
        lanes = mlir.vector_type(self._lanes, load.results[0].type)
        if all(map(self._is_outside, indices)):
            return vector.broadcast(lanes, memref.load(source, indices))
        return vector.load(lanes, source, [*indices[:-1], first])


def _element_of(load: ir.Operation) -> tuple[ir.Value, Values]:
    memref_, *indices = load.operands
    return memref_, indices
