"""Elementwise epilogues that a product applies to its sums in registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import mlir_bindings as mlir
from ..building import VIEWS, buffer_of, indexing_maps, input_count, iterator_types_of
from ..mlir_bindings import Values, ir
from .memrefs import (
    constant_of,
    dimensions_by_loop,
    is_distinct_buffer,
    strides_by_loop,
)
from .vector_bodies import VectorBody


@dataclass(frozen=True)
class Epilogue:
    """Elementwise op on memrefs that consumes the accumulators of a product."""

    op: ir.Operation

    sums: int
    """Index of the operand that holds the sums."""

    start: int
    """Initial value of the sums."""

    fill: ir.Operation
    """Op that stores the initial value."""

    constants: Mapping[int, NDArray[np.int64]]
    """Numbers per column of each constant operand, by operand number."""

    inputs: Sequence[int]
    """Operand numbers of the input memrefs other than sums and constants."""

    steps: Sequence[Mapping[int, int]]
    """Element strides of the result and each of `inputs`, by dimension of the sums."""

    @property
    def result(self) -> ir.Value:
        return self.op.operands[len(self.op.operands) - 1]

    @property
    def memrefs(self) -> Values:
        """Memrefs of the result and of `inputs`."""
        return [self.result, *(self.op.operands[i] for i in self.inputs)]

    @cached_property
    def body(self) -> VectorBody:
        """Scalar body of the op."""
        return VectorBody(mlir.body_of(self.op), self.constants)

    @cached_property
    def sums_and_initial_value(self) -> tuple[ir.Value, NDArray[np.int64]]:
        """
        Value in the body that stands for the sums, and their initial value. A constant
        addend of the sums is folded into the initial value.
        """
        value, start = self.body.argument(self.sums), np.array(self.start)
        if (added := self.body.only_use(value, "addi")) is not None:
            total, numbers = added
            return total, start + numbers
        return value, start

    def repeat_columns(self, count: int) -> Epilogue:
        """Return the epilogue for a matrix whose columns are repeated `count` times."""
        constants = {i: np.tile(n, count) for i, n in self.constants.items()}
        return replace(self, constants=constants)

    def erase(self) -> None:
        """Erase the op and the buffer of the sums."""
        SumsReader(self.op, self.fill).erase(self.op.operands[self.sums])


def epilogue_of(op: ir.Operation, column: int) -> Epilogue | None:
    """
    Return the elementwise op that can be the epilogue of `op`, or `None`. The last
    operand of `op` is the memref of the sums; its dimension `column` holds the columns.
    """
    if (reader := reader_of(op)) is None:
        return None
    sums = op.operands[len(op.operands) - 1]
    epilogue = _elementwise_epilogue(reader.op, reader.fill, sums, column)
    if epilogue is None or not can_be_delayed(
        op, epilogue.op, epilogue.result, epilogue.memrefs[1:]
    ):
        return None
    return epilogue if epilogue.body.is_supported() else None


class SumsReader(NamedTuple):
    """The only op that reads the sums of a product."""

    op: ir.Operation

    fill: ir.Operation
    """Op that stores the initial value of the sums."""

    @property
    def start(self) -> int | None:
        """Initial value of the sums."""
        return _fill_of(self.fill)

    def erase(self, sums: ir.Value) -> None:
        """Erase the ops and the buffer of the sums."""
        for op in (self.op, self.fill):
            op.erase()
        for user in mlir.users_of(sums):
            user.erase()
        sums.owner.erase()


def reader_of(op: ir.Operation) -> SumsReader | None:
    """
    Return the only `linalg.generic` that reads the sums of `op`, or `None`. The last
    operand of `op` is the memref of the sums.
    """
    sums = op.operands[len(op.operands) - 1]
    if not mlir.defining_op(sums, "memref.alloc"):
        return None
    users = mlir.users_of(sums)
    fills = [user for user in users if user != op and _fill_of(user) is not None]
    others = [
        user
        for user in users
        if user not in (op, *fills) and user.name != "memref.dealloc"
    ]
    is_used_once = len({*map(mlir.identity_of, users)}) == len(users)
    if len(fills) != 1 or len(others) != 1 or not is_used_once:
        return None
    (fill,), (last,) = fills, others
    if last.name != "linalg.generic" or not _in_order([fill, op, last]):
        return None
    return SumsReader(last, fill)


def _fill_of(op: ir.Operation) -> int | None:
    """Return the integer that an op fills a memref with, or `None`."""
    if op.name == "linalg.fill":
        stored = op.operands[0]
    elif op.name == "linalg.generic" and len(op.operands) == 1:
        # A body that only asserts yields nothing.
        if not (yielded := [*mlir.yielded_values(mlir.body_of(op))]):
            return None
        (stored,) = yielded
    else:
        return None
    return mlir.integer_of(stored)


def _in_order(ops: Sequence[ir.Operation]) -> bool:
    blocks = {op.block for op in ops}
    if len(blocks) != 1:
        return False
    return all(a.is_before_in_block(b) for a, b in pairwise(ops))


def _elementwise_epilogue(
    op: ir.Operation, fill: ir.Operation, sums: ir.Value, column: int
) -> Epilogue | None:
    """Return an op on memrefs as the epilogue of sums, or `None`."""
    operands, maps, start = [*op.operands], indexing_maps(op), _fill_of(fill)
    *others, result = operands
    *_, old_result = mlir.body_of(op).arguments
    if start is None or input_count(op) != len(others) or any(old_result.uses):
        return None
    if (
        others.count(sums) != 1
        or {*iterator_types_of(op)} != {_PARALLEL}
        or sums == result
    ):
        return None
    position = others.index(sums)
    loops = _dimensions_of_sums(op, position, column)
    if loops is None:
        return None
    constants: dict[int, NDArray[np.int64]] = {}
    inputs: list[int] = []
    operand_strides: list[Mapping[int, int]] = []
    for i in (len(others), *range(len(others))):
        if i == position:
            continue
        if (strides := _steps_by_dimension(operands[i], maps[i], loops)) is None:
            return None
        numbers = _columns_of_constant(operands[i], strides, column, sums)
        if numbers is not None:
            constants[i] = numbers
            continue
        if strides.get(column) != 1:
            return None
        operand_strides.append(strides)
        if i != len(others):
            inputs.append(i)
    return Epilogue(op, position, start, fill, constants, inputs, operand_strides)


_PARALLEL = "#linalg.iterator_type<parallel>"


def _dimensions_of_sums(
    op: ir.Operation, position: int, column: int
) -> Mapping[int, int] | None:
    """
    Map loops of an elementwise op to dimensions of the sums; `None` if the op reads a
    sum repeatedly or has no column loop.
    """
    maps, shapes = indexing_maps(op), [mlir.shape(v) for v in op.operands]
    loops = dimensions_by_loop(maps[position].results, shapes[position])
    if loops is None or column not in loops.values():
        return None
    sizes = {
        index.position: size
        for index, size in zip(maps[-1].results, shapes[-1], strict=True)
        if isinstance(index, ir.AffineDimExpr)
    }
    unread = {*range(maps[-1].n_dims)} - loops.keys()
    return loops if all(sizes.get(loop) == 1 for loop in unread) else None


def _steps_by_dimension(
    value: ir.Value, map_: ir.AffineMap, loops: Mapping[int, int]
) -> Mapping[int, int] | None:
    """Map dimensions of the sums to element strides; `None` if one is not constant."""
    if not isinstance(value.type, ir.MemRefType):
        return None
    steps = strides_by_loop(map_.results, value)
    if steps is None:
        return None
    return {loops[loop]: step for loop, step in steps.items() if loop in loops}


def _columns_of_constant(
    value: ir.Value, steps: Mapping[int, int], column: int, sums: ir.Value
) -> NDArray[np.int64] | None:
    """Return the numbers per column of a constant that depends only on the column."""
    shape = mlir.shape(sums)
    moving = {d for d, step in steps.items() if step and shape[d] > 1}
    numbers = constant_of(value) if moving <= {column} else None
    if numbers is None:
        return None
    step = steps.get(column, 0)
    return numbers.ravel()[[step * n for n in range(shape[column])]]


def can_be_delayed(
    op: ir.Operation, last: ir.Operation, result: ir.Value, inputs: Values
) -> bool:
    """
    Return True if the sums of `op` can be computed later, at `last`: no op in between
    writes to the factors, and the memref `result` is a separate buffer.
    """
    read = {*map(buffer_of, [*op.operands][:-1])}
    target = buffer_of(result)
    others = {*map(buffer_of, inputs)}
    if (
        not all(map(is_distinct_buffer, (*read, *others, target)))
        or target in read | others
    ):
        return False
    return not any(_may_be_written(buffer, op, last) for buffer in read)


def _may_be_written(buffer: ir.Value, first: ir.Operation, last: ir.Operation) -> bool:
    """Return True if an op between two ops of a block may write to a distinct buffer."""
    # Users of the buffer: a long function has far more ops in between than users.
    todo = [buffer]
    while todo:
        memref = todo.pop()
        for user in mlir.users_of(memref):
            if user.name in VIEWS:
                todo += user.results
                continue
            types = [result.type for result in user.results]
            if user.name in _ALIASING or any(isinstance(t, _MEMREFS) for t in types):
                return True
            if memref in _written_memrefs(user):
                place = _ancestor_in(first.block, user)
                if place is not None and _in_order([first, place, last]):
                    return True
    return False


def _ancestor_in(block: ir.Block, op: ir.Operation) -> ir.Operation | None:
    """Return the op of a block that contains an op, or `None`."""
    while op.block != block:
        if op.name == "func.func" or (parent := op.parent) is None:
            return None
        op = parent
    return op


_MEMREFS = ir.MemRefType, ir.UnrankedMemRefType

_ALIASING = "cf.br", "cf.cond_br", "scf.condition", "scf.yield"
"""Ops that pass a memref to another block."""

_MEMREF_WRITES = "memref.dealloc", "memref.store"


def _written_memrefs(op: ir.Operation) -> Values:
    """Return the memrefs that an op may write to or free."""
    operands = [*op.operands]
    if op.name.startswith("linalg.") and "operandSegmentSizes" in op.attributes:
        operands = operands[input_count(op) :]
    elif op.name == "memref.copy":
        operands = operands[1:]
    elif op.name.startswith("memref.") and op.name not in _MEMREF_WRITES:
        return []
    return [value for value in operands if isinstance(value.type, ir.MemRefType)]
