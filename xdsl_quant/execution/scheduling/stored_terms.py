"""
Storage of values that loops would compute more than once.

Lowerings compute operands inside the loops that use them: the left factor of a product
once per column, the exponentials of a softmax in two loops. Here separate loops compute
these values once and store them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from .. import mlir_bindings as mlir
from ..building import (
    indexing_maps,
    input_count,
    is_dynamic,
    iterator_types_of,
    loops_in,
)
from ..mlir_bindings import FieldValue, Sizes, Values, arith, ir, tensor
from .contractions import Factor, materialize_operand
from .generic_ops import build_generic, clone_with
from .rounding_conversions import clamped_range

_MIN_REUSE = 1.5
"""Minimum number of uses per element that pays for memory."""

_SLOW = {
    f"math.{name}"
    for name in ("cos", "erf", "erfc", "exp", "expm1", "log", "log1p", "powf", "sin")
} | {"math.tanh"}
"""Functions that take longer than a load from memory."""

_MIN_DEPTH = 20
"""Minimum length of a chain of ops that takes longer than a load from memory."""

_FREE = {"arith.constant", "arith.extf", "arith.extsi", "arith.extui"}
"""Ops that the bodies of contractions support."""


def store_repeated_terms(module: ir.Module) -> None:
    """
    Store the results of slow functions that several loops compute from the same
    elements, then the operands that a reduction would compute repeatedly.
    """
    _store_shared_terms(_bodies_in(module))
    for body in _bodies_in(module):
        if body.is_reduction and (terms := body.repeated_terms()):
            body.replace(terms)
    _store_operands(module)


def _store_shared_terms(bodies: Sequence[_Body]) -> None:
    bodies = [body for body in bodies if body.slow_values]
    numbers: dict[object, int] = {}
    keys = [body.keys(numbers) for body in bodies]
    by_key: dict[tuple[ir.Block, int], dict[int, ir.Value]] = {}
    for number, body in enumerate(bodies):
        for value in body.slow_values:
            if (key := keys[number].get(value)) is not None:
                by_key.setdefault((body.op.block, key), {})[number] = value
    shared = {
        key: values
        for key, values in by_key.items()
        if len(values) > 1 and any(bodies[i].is_reduction for i in values)
    }
    terms: list[dict[ir.Value, _Term]] = [{} for _ in bodies]
    for (block, _), values in shared.items():
        number, first = next(iter(values.items()))
        users = [user.results for user in mlir.users_of(first)]
        used = [keys[number].get(result) for results in users for result in results]
        if any((block, key) in shared for key in used):
            # Part of a larger value that is shared.
            continue
        if (term := bodies[number].stored(first)) is not None:
            for i, value in values.items():
                terms[i][value] = term
    for body, stored in zip(bodies, terms, strict=True):
        if stored:
            body.replace(stored)


_MIN_COST = 3
"""Minimum number of ops per element of an operand that pays for memory."""


def _store_operands(module: ir.Module) -> None:
    """Prevent fusion of elementwise ops that a loop would compute repeatedly."""
    costs: dict[ir.Value, float] = {}
    """Number of ops per element that MLIR would fuse into a user; infinite if slow."""
    for op in mlir.ops_in(module):
        if len(op.results) != 1 or not isinstance(
            op.results[0].type, ir.RankedTensorType
        ):
            continue
        if op.name.startswith(("arith.", "math.")) and op.name != "arith.constant":
            own, inputs = _cost_of([op]), [*op.operands]
        elif op.name == "linalg.generic":
            body = _Body(op)
            inputs = [*op.operands][: input_count(op)]
            minimum = _MIN_COST if body.is_reduction else math.inf
            for number, value in enumerate(inputs):
                if (
                    costs.get(value, 0) >= minimum
                    and body.reuse([number]) >= _MIN_REUSE
                ):
                    materialize_operand(op, number)
                    costs[op.operands[number]] = 0
            if body.is_reduction:
                continue
            own, inputs = _cost_of(body.ops), [*op.operands][: input_count(op)]
        else:
            continue
        fused = sum(
            costs.get(value, 0) for value in inputs if len(mlir.users_of(value)) == 1
        )
        costs[op.results[0]] = own + fused


def _cost_of(ops: Sequence[ir.Operation]) -> float:
    if any(op.name in _SLOW for op in ops):
        return math.inf
    return sum(op.name not in _FREE and op.name != "linalg.yield" for op in ops)


def _bodies_in(module: ir.Module) -> list[_Body]:
    return [
        body
        for op in mlir.ops_in(module, "linalg.generic")
        if len(op.results) and (body := _Body(op)).is_supported
    ]


class _Term(NamedTuple):
    """Stored value of a body."""

    value: FieldValue
    """Tensor of the stored values."""

    indices: Sequence[ir.AffineExpr]
    """Indices of the element, as affine expressions of the loops."""

    extension: str | None
    """Op that extends the stored integers, or `None`."""

    def extend(self, element: ir.Value, type_: ir.Type) -> ir.Value:
        """Convert a stored element to the type of the value in the body."""
        if self.extension is None:
            return element
        return mlir.create_op(self.extension, type_, [element])


class _Body:
    """Body of a `linalg.generic` on tensors."""

    def __init__(self, op: ir.Operation):
        self.op = op
        self._block = mlir.body_of(op)
        self._inputs = input_count(op)

    @cached_property
    def ops(self) -> Sequence[ir.Operation]:
        return mlir.operations_of(self._block)

    @cached_property
    def _maps(self) -> Sequence[ir.AffineMap]:
        return indexing_maps(self.op)

    @cached_property
    def _numbers(self) -> Mapping[ir.Value, int]:
        return {value: i for i, value in enumerate(self._block.arguments)}

    @cached_property
    def _arguments(self) -> Mapping[ir.Value, frozenset[int]]:
        """Numbers of the arguments that each computed value depends on."""
        arguments: dict[ir.Value, frozenset[int]] = {}
        for op in self.ops:
            used: frozenset[int] = frozenset()
            for operand in op.operands:
                if (number := self._numbers.get(operand)) is not None:
                    used |= {number}
                else:
                    used |= arguments.get(operand, frozenset())
            for result in op.results:
                arguments[result] = used
        return arguments

    @property
    def is_supported(self) -> bool:
        """Return True if all ops can be computed anywhere, without side effects."""
        return all(
            op.name.startswith(("arith.", "math.", "linalg.yield"))
            and not len(op.regions)
            and "div" not in op.name.removesuffix("divf")
            and "rem" not in op.name
            for op in self.ops
        )

    @cached_property
    def is_reduction(self) -> bool:
        return any("reduction" in kind for kind in iterator_types_of(self.op))

    @cached_property
    def slow_values(self) -> Sequence[ir.Value]:
        """Results of slow functions and of long chains of ops."""
        depths: dict[ir.Value, int] = {}
        slow: list[ir.Value] = []
        for op in self.ops:
            depth = 1 + max((depths.get(v, 0) for v in op.operands), default=0)
            for result in op.results:
                depths[result] = depth
                is_long = depth >= _MIN_DEPTH
                if op.name in _SLOW or is_long:
                    slow.append(result)
        return slow

    def keys(self, numbers: dict[object, int]) -> Mapping[ir.Value, int]:
        """
        Return a number for each value that depends on inputs alone. Values computed from
        the same elements have the same number, across all calls with the same `numbers`.
        """
        keys: dict[ir.Value, int] = {}

        def set_key(value: ir.Value, key: object) -> None:
            keys[value] = numbers.setdefault(key, len(numbers))

        for i in range(self._inputs):
            key = self.op.operands[i], str(self._maps[i])
            set_key(self._block.arguments[i], key)
        for op in self.ops:
            for operand in op.operands:
                if operand not in self._numbers and operand not in self._arguments:
                    set_key(operand, operand)
            operands = [keys.get(operand) for operand in op.operands]
            if None not in operands and len(op.results) == 1:
                names = (
                    name for name in ("predicate", "value") if name in op.attributes
                )
                attributes = [str(op.attributes[name]) for name in names]
                result = op.results[0]
                set_key(result, (op.name, str(result.type), *attributes, *operands))
        return keys

    # Choice of values

    def repeated_terms(self) -> dict[ir.Value, _Term]:
        """Store the largest values without accumulators that are computed repeatedly."""
        terms: dict[ir.Value, _Term] = {}
        todo = [*mlir.yielded_values(self._block)]
        seen: set[ir.Value] = set()
        while todo:
            value = todo.pop()
            if value in seen or value not in self._arguments:
                continue
            seen.add(value)
            op = value.owner.operation
            if self._is_stored_once(value) and (term := self.stored(value)) is not None:
                terms[value] = term
            else:
                todo += op.operands
        return terms

    def _is_stored_once(self, value: ir.Value) -> bool:
        used = self._arguments[value]
        if not used or max(used) >= self._inputs or self._is_free(value):
            return False
        return self.reuse(used) >= _MIN_REUSE

    def _is_free(self, value: ir.Value) -> bool:
        """Return True if contractions compute a value in their loops."""
        todo = [value]
        while todo:
            op = mlir.defining_op(value := todo.pop(), *self._names)
            if op is None or op.name == "arith.constant":
                continue
            is_corrected = op.name == "arith.subi" and (
                mlir.integer_of(op.operands[1]) is not None
            )
            if op.name not in _FREE and not is_corrected:
                return False
            todo += op.operands
        return True

    @cached_property
    def _names(self) -> Collection[str]:
        return {op.name for op in self.ops}

    def _spans(
        self, used: Collection[int]
    ) -> Sequence[tuple[ir.AffineExpr, int]] | None:
        """
        Return the distinct index expressions of arguments with the sizes of their
        dimensions; `None` if the sizes of one expression differ.
        """
        spans: list[tuple[ir.AffineExpr, int]] = []
        for number in sorted(used):
            if not isinstance(self.op.operands[number].type, ir.RankedTensorType):
                continue
            shape = mlir.shape(self.op.operands[number])
            for index, size in zip(self._maps[number].results, shape, strict=True):
                if isinstance(index, ir.AffineConstantExpr):
                    continue
                known = [s for i, s in spans if i == index]
                if not known:
                    spans.append((index, size))
                elif known != [size] and not isinstance(index, ir.AffineDimExpr):
                    return None
        return spans

    @cached_property
    def _loop_sizes(self) -> Mapping[int, int]:
        """Trip counts of the loops that index an operand directly."""
        sizes: dict[int, int] = {}
        for map_, operand in zip(self._maps, self.op.operands, strict=True):
            if isinstance(operand.type, ir.RankedTensorType):
                for index, size in zip(map_.results, mlir.shape(operand), strict=True):
                    if isinstance(index, ir.AffineDimExpr) and not is_dynamic(size):
                        sizes[index.position] = size
        return sizes

    def reuse(self, used: Collection[int]) -> float:
        """Return the number of computations per element; infinite if dynamic."""
        spans = self._spans(used)
        if spans is None:
            return 0
        loops = {*range(self._maps[0].n_dims)}
        windows: list[int] = []
        for index, size in spans:
            if isinstance(index, ir.AffineDimExpr):
                loops.discard(index.position)
            else:
                windows.append(size)
        if any(is_dynamic(size) for size in windows):
            for index, _ in spans:
                loops -= loops_in(index)
            windows = []
        count = math.prod(self._loop_sizes.get(loop, math.inf) for loop in loops)
        return count / max(1, math.prod(windows))

    # Rewriting

    def stored(self, value: ir.Value) -> _Term | None:
        """Build a loop before the op that stores a value; return `None` if unsupported."""
        used = sorted(self._arguments[value])
        spans = self._spans(used)
        if not spans or max(used) >= self._inputs:
            return None
        storage, extension = _type_in_memory(value)
        with ir.InsertionPoint(self.op), self.op.location:
            maps = [self._map_of(number, spans) for number in used]
            identity = ir.AffineMap.get_identity(len(spans))

            def body(arguments: Values) -> Values:
                old = [self._block.arguments[number] for number in used]
                known = zip(old, arguments, strict=False)
                (result,) = self._clone([value], known)
                if extension is not None:
                    result = arith.trunci(storage, result)
                return [result]

            (result,) = build_generic(
                [self.op.operands[number] for number in used],
                [tensor.empty(self._sizes(used, spans), storage)],
                [*maps, identity],
                ["parallel"] * len(spans),
                body,
            )
            factor = Factor(result, [i for i, _ in spans], None).prevent_fusion()
        return _Term(factor.value, factor.indices, extension)

    def _map_of(
        self, number: int, spans: Sequence[tuple[ir.AffineExpr, int]]
    ) -> ir.AffineMap:
        """Return the map of an argument in a loop over `spans`."""
        expressions = [index for index, _ in spans]
        return mlir.affine_map(
            len(spans),
            (
                index
                if isinstance(index, ir.AffineConstantExpr)
                else ir.AffineExpr.get_dim(expressions.index(index))
                for index in self._maps[number].results
            ),
        )

    def _sizes(
        self, used: Sequence[int], spans: Sequence[tuple[ir.AffineExpr, int]]
    ) -> Sizes:
        sizes: list[int | ir.Value] = []
        for index, size in spans:
            if is_dynamic(size):
                number, axis = next(
                    (number, [*self._maps[number].results].index(index))
                    for number in used
                    if index in [*self._maps[number].results]
                )
                axis_value = arith.constant(ir.IndexType.get(), axis)
                sizes.append(tensor.dim(self.op.operands[number], axis_value))
            else:
                sizes.append(size)
        return sizes

    def _clone(
        self, values: Values, known: Iterable[tuple[ir.Value, ir.Value]]
    ) -> Values:
        """Clone the ops that compute values, given the known ones, and return them."""
        copies = dict(known)
        needed: set[ir.Value] = set()
        todo = [*values]
        while todo:
            value = todo.pop()
            if value not in copies and value not in needed and value in self._arguments:
                needed.add(value)
                todo += value.owner.operation.operands
        for op in self.ops:
            if any(result in needed for result in op.results):
                clone_with(op, copies)
        return [copies.get(value, value) for value in values]

    def replace(self, terms: Mapping[ir.Value, _Term]) -> None:
        """Replace the op by one that reads the stored terms."""
        op, loops = self.op, self._maps[0].n_dims
        outputs = range(self._inputs, len(op.operands))
        stored = [(t.value, mlir.affine_map(loops, t.indices)) for t in terms.values()]
        reads = self._with_sizes(
            self._reads(terms),
            [*(map_ for _, map_ in stored), *(self._maps[i] for i in outputs)],
        )
        inputs = [*((op.operands[i], self._maps[i]) for i in reads), *stored]

        def body(arguments: Values) -> Values:
            numbers = [*reads, *outputs]
            values = [*arguments[: len(reads)], *arguments[len(inputs) :]]
            old = [self._block.arguments[i] for i in numbers]
            elements = zip(terms.items(), arguments[len(reads) :], strict=False)
            known = [
                *zip(old, values, strict=True),
                *(
                    (value, term.extend(new, value.type))
                    for (value, term), new in elements
                ),
            ]
            return self._clone([*mlir.yielded_values(self._block)], known)

        with ir.InsertionPoint(op), op.location:
            results = build_generic(
                [value for value, _ in inputs],
                [op.operands[i] for i in outputs],
                [*(map_ for _, map_ in inputs), *(self._maps[i] for i in outputs)],
                [
                    "reduction" if "reduction" in kind else "parallel"
                    for kind in iterator_types_of(op)
                ],
                body,
            )
        for old, new in zip(op.results, results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()

    def _with_sizes(
        self, reads: Sequence[int], maps: Sequence[ir.AffineMap]
    ) -> Sequence[int]:
        """Add inputs that define trip counts, e.g. a window without elements to read."""
        maps = [*maps, *(self._maps[number] for number in reads)]
        sized = {loop for map_ in maps for loop in _direct_loops(map_)}
        found = {*reads}
        for number, map_ in enumerate(self._maps[: self._inputs]):
            if (loops := _direct_loops(map_)) - sized:
                found.add(number)
                sized |= loops
        return sorted(found)

    def _reads(self, terms: Collection[ir.Value]) -> Sequence[int]:
        """Return the numbers of the inputs that the results depend on beside `terms`."""
        numbers: set[int] = set()
        seen: set[ir.Value] = set()
        todo = [*mlir.yielded_values(self._block)]
        while todo:
            value = todo.pop()
            if value in terms or value in seen:
                continue
            seen.add(value)
            if value in self._numbers:
                numbers.add(self._numbers[value])
            elif value in self._arguments:
                todo += value.owner.operation.operands
        return sorted(number for number in numbers if number < self._inputs)


def _direct_loops(map_: ir.AffineMap) -> set[int]:
    """Return the loops that are an index of the operand, without arithmetic."""
    indices = map_.results
    return {i.position for i in indices if isinstance(i, ir.AffineDimExpr)}


def _type_in_memory(value: ir.Value) -> tuple[ir.Type, str | None]:
    """Return the type that stores a value, and the op that extends it, or `None`."""
    if (range_ := clamped_range(value)) is not None and mlir.bits(value.type) > 8:
        low, high = range_
        i8 = ir.IntegerType.get_signless(8)
        if -128 <= low and high <= 127:
            return i8, "arith.extsi"
        if low >= 0 and high <= 255:
            return i8, "arith.extui"
    return value.type, None
