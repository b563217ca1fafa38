"""What is made of sums element by element, by the function that computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..mlir_bindings import identity_of, ir, made_by, ops_in
from ..outlining import buffer_of
from .memrefs import constant_of, steps_of
from .vector_bodies import VectorBody


@dataclass(frozen=True)
class Epilogue:
    """An elementwise op on memrefs, of sums that nothing else reads."""

    op: Any

    sums: int
    """Which operand the sums are."""

    start: int
    """With what sums begin."""

    filled: Any
    """The op that stores this first."""

    constants: Mapping[int, NDArray[np.int64]]
    """Of operands that are constants of columns the numbers."""

    inputs: Sequence[int]
    """The operands that are other memrefs."""

    steps: Sequence[Mapping[int, int]]
    """
    Of the result and of these: for each dimension of the sums the distance in memory of
    neighbours, in elements.
    """

    @property
    def result(self) -> Any:
        """The memref of the result."""
        return self.op.operands[len(self.op.operands) - 1]

    @property
    def memrefs(self) -> Sequence[Any]:
        """The result and the other memrefs."""
        return [self.result, *(self.op.operands[i] for i in self.inputs)]

    @cached_property
    def body(self) -> VectorBody:
        """What is computed."""
        (block,) = self.op.regions[0]
        return VectorBody(block, self.constants)

    @cached_property
    def first(self) -> tuple[Any, NDArray[np.int64]]:
        """
        The value in the body that sums are, and what they begin with: a constant that is
        added to them is added before.
        """
        value, start = self.body.argument(self.sums), np.array(self.start)
        if (added := self.body.only_use(value, "addi")) is not None:
            total, numbers = added
            return total, start + numbers
        return value, start

    def repeated(self, count: int) -> Epilogue:
        """The op for columns that come so many times, one after the other."""
        constants = {i: np.tile(n, count) for i, n in self.constants.items()}
        return replace(self, constants=constants)

    def erase(self) -> None:
        """Erase what the op was, with its sums in memory."""
        sums = self.op.operands[self.sums].owner
        for op in (self.op, self.filled):
            op.erase()
        for use in [*sums.results[0].uses]:
            use.owner.erase()
        sums.erase()


def epilogue_of(op: Any, column: int) -> Epilogue | None:
    """
    The op that follows an op on memrefs which computes sums, if it is to be computed with
    the sums in registers.

    Args:
        op: the op; its last operand are the sums.
        column: the dimension of the sums with columns.
    """
    sums = op.operands[len(op.operands) - 1]
    if not made_by(sums, "memref.alloc"):
        return None
    users = [use.owner.operation for use in sums.uses]
    fills = [user for user in users if user != op and _fill_of(user) is not None]
    others = [
        user
        for user in users
        if user not in (op, *fills) and user.name != "memref.dealloc"
    ]
    is_used_once = len({*map(identity_of, users)}) == len(users)
    if len(fills) != 1 or len(others) != 1 or not is_used_once:
        return None
    (filled,), (last,) = fills, others
    if last.name != "linalg.generic" or not _in_order([filled, op, last]):
        return None
    start = _fill_of(filled)
    found = _elementwise(last, sums, column)
    if start is None or found is None or not _can_be_delayed(op, found):
        return None
    epilogue = replace(found, start=start, filled=filled)
    return epilogue if epilogue.body.is_supported() else None


def _fill_of(op: Any) -> int | None:
    """The integer that an op stores in all elements of its only memref."""
    if op.name == "linalg.fill":
        stored = op.operands[0]
    elif op.name == "linalg.generic" and len(op.operands) == 1:
        block = op.regions[0].blocks[0]
        yielded = [*block.operations[len(block.operations) - 1].operands]
        # An op that only checks its operand yields nothing.
        if not yielded:
            return None
        (stored,) = yielded
    else:
        return None
    constant = made_by(stored, "arith.constant")
    attribute = constant and constant.attributes["value"]
    return attribute.value if isinstance(attribute, ir.IntegerAttr) else None


def _in_order(ops: Sequence[Any]) -> bool:
    """Whether ops are in one block, in this order."""
    blocks = {op.block for op in ops}
    if len(blocks) != 1:
        return False
    return all(a.is_before_in_block(b) for a, b in pairwise(ops))


def _elementwise(op: Any, sums: Any, column: int) -> Epilogue | None:
    """An op on memrefs as an epilogue of these sums, if it is one."""
    operands = [*op.operands]
    maps = [attribute.value for attribute in op.attributes["indexing_maps"]]
    kinds = {str(kind) for kind in op.attributes["iterator_types"]}
    arguments = [*op.regions[0].blocks[0].arguments]
    results = op.attributes["operandSegmentSizes"][1]
    if results != 1 or any(arguments[-1].uses) or sums == operands[-1]:
        return None
    if operands.count(sums) != 1 or kinds != {"#linalg.iterator_type<parallel>"}:
        return None
    position = operands.index(sums)
    loops = {
        index.position: dimension
        for dimension, index in enumerate(maps[position].results)
        if isinstance(index, ir.AffineDimExpr)
    }
    shape = sums.type.shape
    if any(shape[i] != 1 for i in {*range(len(shape))} - {*loops.values()}):
        return None
    sizes = {
        index.position: size
        for index, size in zip(maps[-1].results, operands[-1].type.shape, strict=True)
        if isinstance(index, ir.AffineDimExpr)
    }
    others = {*range(maps[-1].n_dims)} - loops.keys()
    if any(sizes.get(loop) != 1 for loop in others) or column not in loops.values():
        return None
    constants: dict[int, NDArray[np.int64]] = {}
    inputs: list[int] = []
    steps: list[Mapping[int, int]] = []
    for i in (len(operands) - 1, *range(len(operands) - 1)):
        if i == position:
            continue
        value = operands[i]
        if not isinstance(value.type, ir.MemRefType):
            return None
        found = steps_of(maps[i].results, value.type)
        if found is None:
            return None
        by_dimension = {
            loops[loop]: step for loop, step in found.items() if loop in loops
        }
        moving = {d for d, step in by_dimension.items() if step and shape[d] > 1}
        numbers = constant_of(value) if moving <= {column} else None
        if numbers is not None:
            first, step = numbers.ravel(), by_dimension.get(column, 0)
            constants[i] = first[[step * n for n in range(shape[column])]]
            continue
        if by_dimension.get(column) != 1:
            return None
        steps.append(by_dimension)
        if i != len(operands) - 1:
            inputs.append(i)
    return Epilogue(op, position, 0, None, constants, inputs, steps)


def _can_be_delayed(op: Any, epilogue: Epilogue) -> bool:
    """
    Whether sums can be computed where the elementwise op is: until then nothing writes to
    what they are computed of, and the result is stored elsewhere.
    """
    read = {*map(buffer_of, [*op.operands][:-1])}
    result = buffer_of(epilogue.result)
    inputs = {*map(buffer_of, epilogue.memrefs[1:])}
    if not all(map(_is_buffer, (*read, *inputs, result))) or result in read | inputs:
        return False
    ops = [other.operation for other in op.block.operations]
    written = [
        buffer_of(value)
        for between in ops[ops.index(op) + 1 : ops.index(epilogue.op)]
        for inner in ops_in(between)
        for value in _written(inner)
    ]
    return all(map(_is_buffer, written)) and not read & {*written}


def _is_buffer(memref: Any) -> bool:
    """Whether a memref is certainly another one than others for which this is true."""
    is_argument = isinstance(memref, ir.BlockArgument)
    if is_argument:
        return memref.owner.owner.operation.name == "func.func"
    return bool(made_by(memref, "memref.alloc", "memref.get_global"))


_MEMREF_WRITES = "memref.dealloc", "memref.store"


def _written(op: Any) -> Sequence[Any]:
    """The memrefs that an op may write to, or frees."""
    operands = [*op.operands]
    if op.name.startswith("linalg.") and "operandSegmentSizes" in op.attributes:
        operands = operands[op.attributes["operandSegmentSizes"][0] :]
    elif op.name == "memref.copy":
        operands = operands[1:]
    elif op.name.startswith("memref.") and op.name not in _MEMREF_WRITES:
        return []
    return [value for value in operands if isinstance(value.type, ir.MemRefType)]
