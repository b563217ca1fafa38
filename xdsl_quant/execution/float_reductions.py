"""
Sums of floats in lanes.

A loop that adds each float to the same number waits for the previous addition. Here
each lane adds up every 16th float, and the lanes are added up after the loop. This
changes the rounding of sums, so `mark_sums_in_lanes` selects them before scheduling: the
order of a sum depends neither on scheduling nor on the CPU.
"""

from __future__ import annotations

from typing import NamedTuple

from . import mlir_bindings as mlir
from .building import (
    buffer_of,
    has_identity_layout,
    index,
    iterator_types_of,
    loops_in,
    mixed_sizes,
    reshape_tensor,
)
from .loop_fixes import iterations
from .mlir_bindings import (
    FieldValue,
    Op,
    Values,
    arith,
    ir,
    linalg,
    memref,
    scf,
    vector,
)

_MARK = "xdsl_quant.lanes"

_LANES = 16

_RESHAPES = "tensor.collapse_shape", "tensor.expand_shape"

_MAX_SUM_IN_ORDER = 64
"""Largest number of floats that are added in order, such as those of split reductions."""

_ELEMENTWISE = {
    *("arith.addf", "arith.bitcast", "arith.cmpf", "arith.constant", "arith.divf"),
    *("arith.extf", "arith.maximumf", "arith.minimumf", "arith.mulf", "arith.negf"),
    *("arith.select", "arith.shli", "arith.shrsi", "arith.subf", "arith.subi"),
    *("math.absf", "math.sqrt"),
}
"""Ops that support vector operands and that later steps do not rewrite."""

# Choice of sums


def mark_sums_in_lanes(module: ir.Module) -> None:
    """
    Mark the additions of the `linalg` ops that add up more than 64 contiguous f32 or f64
    values in their innermost loop. Products of two factors keep the order of their sum.
    """
    known: set[ir.Value] = set()
    for op in mlir.ops_in(module):
        is_structured = op.name.startswith("linalg.") and len(op.regions) == 1
        if is_structured and (addition := _sum_in_lanes(op)) is not None:
            addition.attributes[_MARK] = ir.UnitAttr.get(module.context)
            _keep_loops(op, known)


def has_sum_in_lanes(op: Op) -> bool:
    """Return True if the body of a `linalg` op has a marked addition."""
    return any(_MARK in inner.attributes for inner in mlir.ops_in(op, "arith.addf"))


def _sum_in_lanes(op: ir.Operation) -> ir.Operation | None:
    """Return the addition of a `linalg` op that adds up numbers in lanes, or `None`."""
    body = mlir.body_of(op)
    if len(op.results) != 1 or _contiguous_terms(op) <= _MAX_SUM_IN_ORDER:
        return None
    (yielded,), total = mlir.yielded_values(body), [*body.arguments][-1]
    addition = mlir.defining_op(yielded, "arith.addf")
    if addition is None or not isinstance(yielded.type, ir.F32Type | ir.F64Type):
        return None
    terms = [value for value in addition.operands if value != total]
    if len(terms) != 1 or len(mlir.users_of(total)) != 1:
        return None
    product = mlir.defining_op(terms[0], "arith.mulf")
    is_contraction = product and product.operands[0] != product.operands[1]
    return None if is_contraction else addition


def _contiguous_terms(op: ir.Operation) -> int:
    """
    Return the trip count of the innermost loop of a `linalg` op if it reduces contiguous
    elements; 0 for other loops and dynamic sizes.
    """
    maps = [attribute.value for attribute in linalg.get_indexing_maps(op)]
    loop = maps[0].n_dims - 1
    if loop in loops_in(*maps[-1].results):
        return 0
    sizes: set[int] = set()
    for value, map_ in zip(op.operands, maps, strict=True):
        *outer, last = [ir.AffineExpr.get_constant(0), *map_.results]
        if loop in loops_in(*outer):
            return 0
        if loop in loops_in(last):
            sizes.add(
                mlir.shape(value)[-1] if last == ir.AffineExpr.get_dim(loop) else 0
            )
    return max(sizes.pop(), 0) if len(sizes) == 1 else 0


def _keep_loops(op: ir.Operation, known: set[ir.Value]) -> None:
    """
    Prevent MLIR from splitting the loops of an op: replace the reshapes that it could move
    across elementwise ops to the op.
    """
    todo = [*op.operands]
    while todo:
        value = todo.pop()
        if value in known or not isinstance(value, ir.OpResult):
            continue
        known.add(value)
        source = value.owner.operation
        if source.name in _RESHAPES:
            with ir.InsertionPoint(source), source.location:
                # The sizes of a result that is replaced are those of a copy.
                sizes = mixed_sizes(source.clone().results[0])
                mlir.replace_op(source, reshape_tensor(source.operands[0], sizes))
        elif _is_fused(source):
            todo += source.operands


def _is_fused(op: ir.Operation) -> bool:
    """Return True for ops that MLIR may fuse into a user, or move reshapes across."""
    if op.name != "linalg.generic":
        return op.name.startswith(("arith.", "math.", "tensor.pad"))
    return all("parallel" in kind for kind in iterator_types_of(op))


# Loops


def reduce_floats_in_lanes(module: ir.Module) -> None:
    """Add up in lanes in the loops of marked additions."""
    for loop in mlir.ops_in(module, "scf.for"):
        if (total := _FloatSum.of(loop)) is not None:
            total.use_lanes()


class _FloatSum(NamedTuple):
    """Loop that adds a term to an element of a memref in each iteration."""

    loop: ir.Operation
    store: ir.Operation
    load: ir.Operation
    term: FieldValue

    @classmethod
    def of(cls, loop: ir.Operation) -> _FloatSum | None:
        """Return an `scf.for` with a marked addition as a sum, or `None`."""
        *_, store, _ = [None, *mlir.operations_of(mlir.body_of(loop))]
        if len(loop.results) or store is None or store.name != "memref.store":
            return None
        value, *target = store.operands
        total = mlir.defining_op(value, "arith.addf")
        if total is None or _MARK not in total.attributes:
            return None
        for so_far, term in ([*total.operands], [*total.operands][::-1]):
            load = mlir.defining_op(so_far, "memref.load")
            if load is not None and [*load.operands] == target:
                return cls(loop, store, load, term)
        return None

    @property
    def _body(self) -> ir.Block:
        return mlir.body_of(self.loop)

    @property
    def _total(self) -> ir.Value:
        return self.store.operands[0]

    def _is_outside(self, value: ir.Value) -> bool:
        return (mlir.argument_block(value) or value.owner.operation.block) != self._body

    @property
    def _has_vector_form(self) -> bool:
        *ops, _ = mlir.operations_of(self._body)
        return all(
            self._can_load(op) if op.name == "memref.load" else op.name in _ELEMENTWISE
            for op in ops
            if op not in (self.store, self.load)
        )

    def _can_load(self, load: ir.Operation) -> bool:
        source, *indices = load.operands
        if buffer_of(source) == buffer_of(self.load.operands[0]):
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

    def use_lanes(self) -> None:
        """Replace the loop by one with lanes, and one over the last elements."""
        numbers = iterations(self.loop)
        rest = len(numbers) % _LANES
        add_up = self._in_vectors if self._has_vector_form else self._in_memory
        with ir.InsertionPoint(self.loop), self.loop.location:
            middle = index(numbers.stop - rest)
            total = _sum_of_lanes(add_up(middle))
            so_far = memref.load(*_element_of(self.load))
            memref.store(arith.addf(so_far, total), *_element_of(self.load))
        if rest:
            self.loop.operands[0] = middle
        else:
            self.loop.erase()

    def _zeros(self) -> ir.Value:
        # The sum of -0.0 and 0.0 is 0.0.
        zero = arith.constant(self.term.type, -0.0)
        return vector.broadcast(mlir.vector_type(_LANES, self.term.type), zero)

    def _in_memory(self, stop: ir.Value) -> ir.Value:
        """Build a loop that adds to the elements of a buffer in turn; return the lanes."""
        type_ = ir.MemRefType.get([_LANES], self.term.type)
        with ir.InsertionPoint.at_block_begin(_outermost_block(self.loop)):
            memory = memref.alloca(type_, [], [])
        zero = index(0)
        vector.store(self._zeros(), memory, [zero])
        loop = self.loop.clone()
        loop.operands[1] = stop
        copy = _FloatSum.of(loop)
        assert copy is not None
        body = mlir.body_of(loop)
        with ir.InsertionPoint.at_block_begin(body):
            lane = arith.remui(body.arguments[0], index(_LANES))
        with ir.InsertionPoint(copy.store):
            memref.store(copy.store.operands[0], memory, [lane])
        with ir.InsertionPoint(copy.load):
            so_far = memref.load(memory, [lane])
        copy.store.erase()
        mlir.replace_op(copy.load, so_far)
        return vector.load(self._zeros().type, memory, [zero])

    def _in_vectors(self, stop: ir.Value) -> ir.Value:
        """Build a loop over vectors, and return the lanes."""
        start, step = self.loop.operands[0], index(_LANES)
        loop = scf.ForOp(start, stop, step, iter_args=[self._zeros()])
        block = mlir.body_of(loop)
        with ir.InsertionPoint(block):
            scf.yield_([self._next(block.arguments)])
        return loop.results[0]

    def _next(self, arguments: Values) -> ir.Value:
        """Build the body on vectors, and return the new sums."""
        first, so_far = arguments
        known: dict[ir.Value, ir.Value] = {}

        def vector_of(value: ir.Value) -> ir.Value:
            if value not in known:
                lanes = mlir.vector_type(_LANES, value.type)
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
                lanes = mlir.vector_type(_LANES, number.type)
                known[result] = vector.broadcast(lanes, number)
            elif result != self._total:
                known[result] = self._on_vectors(op, [*map(vector_of, op.operands)])
        return arith.addf(so_far, vector_of(self.term))

    def _on_vectors(self, op: ir.Operation, operands: Values) -> ir.Value:
        copy = op.clone()
        for i, operand in enumerate(operands):
            copy.operands[i] = operand
        (result,) = copy.results
        mlir.change_type(result, mlir.vector_type(_LANES, result.type))
        return result

    def _load(self, load: ir.Operation, first: ir.Value) -> ir.Value:
        source, *indices = load.operands
        lanes = mlir.vector_type(_LANES, load.results[0].type)
        if all(map(self._is_outside, indices)):
            return vector.broadcast(lanes, memref.load(source, indices))
        return vector.load(lanes, source, [*indices[:-1], first])


def _sum_of_lanes(lanes: ir.Value) -> ir.Value:
    """Add the halves of a vector until one number is left."""
    count = _LANES
    while count > 1:
        count //= 2
        halves = (
            vector.shuffle(lanes, lanes, [*range(start, start + count)])
            for start in (0, count)
        )
        lanes = arith.addf(*halves)
    return vector.extract(lanes, [], [0])


def _outermost_block(op: ir.Operation) -> ir.Block:
    """Return the first block of the function that contains an op."""
    while op.name != "func.func" and (parent := op.parent) is not None:
        op = parent.operation
    return mlir.body_of(op)


def _element_of(load: ir.Operation) -> tuple[ir.Value, Values]:
    memref_, *indices = load.operands
    return memref_, indices
