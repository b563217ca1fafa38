"""Rewrites of tensors, before bufferization, for which MLIR has no pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .building import is_dynamic, mixed_sizes_of, reshaped
from .compilation_error import CompilationError
from .mlir_bindings import (
    bufferization,
    identity_of,
    ir,
    linalg,
    made_by,
    ops_in,
    tensor,
)


def check_has_no_llvm(module: Any) -> None:
    """
    Raises:
        CompilationError: if there is an op of the LLVM dialect, which nothing verifies and
            which may terminate the process.
    """
    for op in ops_in(module):
        if op.name.startswith("llvm."):
            raise CompilationError(
                f"'{op.name}' op cannot be compiled: ops of the llvm dialect may end the "
                "process, so a module must have none"
            )


_BRANCHES = ("arith.select", "scf.for", "scf.if", "scf.index_switch", "scf.while")


def has_dynamic_branches(module: Any) -> bool:
    """Whether a tensor may be one of several, and these may be of different sizes."""
    return any(
        isinstance(result.type, ir.RankedTensorType)
        and not result.type.has_static_shape
        for op in ops_in(module, *_BRANCHES)
        for result in op.results
    )


def define_undefined_tensors(module: Any) -> None:
    """
    Replace poison tensors by empty ones, as bufferization does not support poison. Nothing
    reads them.

    Raises:
        CompilationError: if one has a dynamic size, which would be taken for the size of
            the values on other paths.
    """
    for poison in ops_in(module, "ub.poison"):
        (undefined,) = poison.results
        if not isinstance(type_ := undefined.type, ir.RankedTensorType):
            continue
        if not type_.has_static_shape:
            raise CompilationError(
                f"blocks pass on a value of type '{type_}' that is not defined on all ways "
                "through them, so they cannot be compiled: write scf.if, scf.for or "
                "scf.while"
            )
        with ir.InsertionPoint(poison), poison.location:
            empty = tensor.empty(
                type_.shape, type_.element_type, encoding=type_.encoding
            )
        undefined.replace_all_uses_with(empty)
        poison.erase()


def read_initial_values_as_inputs(module: Any) -> None:
    """
    Make initial values inputs of each `linalg.generic` that reads them without a reduction.

    Otherwise MLIR fuses it with an op that broadcasts its result, and adds to the initial
    value once for each element of the broadcast.
    """
    for op in ops_in(module, "linalg.generic"):
        kinds = map(str, op.attributes["iterator_types"])
        input_count, _ = op.attributes["operandSegmentSizes"]
        block = op.regions[0].blocks[0]
        is_read = any(any(a.uses) for a in [*block.arguments][input_count:])
        if is_read and len(op.results) and all("parallel" in kind for kind in kinds):
            _read_as_inputs(op, input_count)


def _read_as_inputs(op: Any, input_count: int) -> None:
    block, operands = op.regions[0].blocks[0], [*op.operands]
    initial_values = operands[input_count:]
    maps = [*op.attributes["indexing_maps"]]
    with ir.InsertionPoint(op), op.location:
        new_op = linalg.GenericOp(
            [result.type for result in op.results],
            operands,
            [
                tensor.empty(mixed_sizes_of(value), value.type.element_type)
                for value in initial_values
            ],
            ir.ArrayAttr.get([*maps, *maps[input_count:]]),
            op.attributes["iterator_types"],
        )
    for value in initial_values:
        block.add_argument(value.type.element_type, op.location)
    block.append_to(new_op.regions[0])
    for old, new in zip(op.results, new_op.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def copy_what_while_loops_carry(module: Any) -> None:
    """
    Copy the tensors that an `scf.while` carries from one iteration to the next.

    MLIR misses their aliasing, and would write in place to tensors that are still needed.
    """
    for loop in ops_in(module, "scf.while"):
        for region in loop.regions:
            end = [*region.blocks[0].operations][-1].operation
            for i, value in enumerate(end.operands):
                if isinstance(value.type, ir.RankedTensorType):
                    with ir.InsertionPoint(end), end.location:
                        copy = bufferization.alloc_tensor(value.type, [], copy=value)
                    end.operands[i] = copy


def may_write_results_at_once(module: Any) -> bool:
    """
    Whether intermediate values may be stored in the arrays of results.

    MLIR does so if ops that may work in place turn the value into the result. It misses
    that the array no longer holds the value once the result is written: other results that
    are computed from the value later would read the result.
    """
    ends = ops_in(module, "bufferization.materialize_in_destination")
    for end in ends:
        block = [op.operation for op in end.block.operations]
        later = block[block.index(end) + 1 :]
        read = {value for op in later for value in _origins(op.operands)}
        made_of = _origins(end.operands[:1]) - {end.operands[0]}
        if any(_is_computed(value) for value in made_of & read):
            return False
    return True


def _is_computed(value: Any) -> bool:
    is_result = isinstance(value, ir.OpResult)
    return is_result and value.owner.name != "tensor.empty"


def _origins(values: Iterable[Any]) -> set[Any]:
    """Values, and all that may alias them if ops work in place."""
    found: set[Any] = set()
    todo = [*values]
    while todo:
        value = todo.pop()
        if value in found or not isinstance(value.type, ir.RankedTensorType):
            continue
        found.add(value)
        if not isinstance(value, ir.OpResult):
            todo += value.owner.owner.operands
            continue
        op = value.owner.operation
        is_linalg = op.name.startswith("linalg.")
        # The last operands of these are what results are written to.
        todo += [*op.operands][-len(op.results) if is_linalg else 0 :]
        ends = [[*block.operations][-1] for region in op.regions for block in region]
        todo += [v for end in ends for v in end.operands]
    return found


def reshape_where_sizes_are_dynamic(module: Any) -> None:
    """
    Make a `tensor.reshape` of each `tensor.expand_shape` with more than one dynamic size.

    MLIR terminates the process if one dimension is expanded to several dynamic ones.
    """
    for op in ops_in(module, "tensor.expand_shape"):
        source, *dynamic = op.operands
        if len(dynamic) < 2:
            continue
        rest = iter(dynamic)
        static = op.attributes["static_output_shape"]
        sizes = [next(rest) if is_dynamic(size) else size for size in static]
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(reshaped(source, sizes))
        op.erase()


def read_where_padded(module: Any) -> None:
    """
    Let ops read a tensor where it is with padding around it, so that it is in memory once.
    Those with other shapes can do so, too, if their reshapes only add a dimension of 1.
    """
    for reshape in ops_in(module, "tensor.reshape"):
        _add_dimension(reshape)
    for insert in ops_in(module, "tensor.insert_slice"):
        source, *_ = insert.operands
        users = [use.owner.operation for use in source.uses]
        readers = [user for user in users if user != insert]
        ops = [op.operation for op in insert.block.operations]
        later = {*map(identity_of, ops[ops.index(insert) :])}
        can_read = all(
            op.name.startswith(_READS) and identity_of(op) in later for op in readers
        )
        if readers and can_read and _pads(insert):
            _read_inside(insert)


_READS = "linalg.", "tensor.expand_shape"


def _add_dimension(reshape: Any) -> None:
    """Replace a reshape that adds a first dimension of 1, as only views may have gaps."""
    source, result = reshape.operands[0], reshape.results[0]
    shape = [*source.type.shape] if source.type.has_rank else []
    if any(map(is_dynamic, shape)) or not shape or result.type.shape != [1, *shape]:
        return
    groups = [[0, 1], *([i] for i in range(2, result.type.rank))]
    with ir.InsertionPoint(reshape), reshape.location:
        view = tensor.expand_shape(result.type, source, groups, [], [1, *shape])
    result.replace_all_uses_with(view)
    reshape.erase()


def _pads(insert: Any) -> bool:
    """Whether a slice of static sizes is inserted into equal elements, and nothing else."""
    if len(insert.operands) != 2 or any(map(_writes_to, insert.results[0].uses)):
        return False
    source, target = insert.operands
    op = made_by(target, "linalg.fill", "linalg.generic")
    is_filled = op is not None and _has_equal_elements(op)
    return is_filled and source.type.rank == target.type.rank


def _read_inside(insert: Any) -> None:
    """Read the slice of the result of an insertion in place of what is inserted."""
    source, *_ = insert.operands
    names = ("static_offsets", "static_sizes", "static_strides")
    parts = [insert.attributes[name] for name in names]
    with ir.InsertionPoint.after(insert.operation), insert.location:
        inside = tensor.ExtractSliceOp(
            source.type, insert.results[0], [], [], [], *parts
        ).result
    source.replace_all_uses_except(inside, insert.operation)


def separate_destinations(module: Any) -> None:
    """
    Let each op that writes to an empty tensor, or to one of equal elements, have one of its
    own. MLIR merges the ops that make them, and would copy the tensor for all but the last
    of those that write to it.
    """
    for names in (("linalg.fill", "linalg.generic"), ("tensor.empty",)):
        for op in filter(_has_equal_elements, ops_in(module, *names)):
            uses = [use for use in op.results[0].uses if _writes_to(use)]
            for use in uses:
                with ir.InsertionPoint(use.owner):
                    copy = op.operation.clone()
                if len(uses) > 1:
                    # It is merged from ops of several locations.
                    copy.location = use.owner.location
                use.owner.operands[use.operand_number] = copy.results[0]
            if not any(op.results[0].uses):
                op.operation.erase()


def _has_equal_elements(op: Any) -> bool:
    """Whether an op makes one tensor, whose elements are one constant or undefined."""
    if len(op.results) != 1 or op.name == "tensor.empty":
        return len(op.results) == 1
    if op.name == "linalg.fill":
        return made_by(op.operands[0], "arith.constant") is not None
    block = op.regions[0].blocks[0]
    (value,) = [*block.operations][-1].operands
    is_read = any(any(argument.uses) for argument in block.arguments)
    return not is_read and made_by(value, "arith.constant") is not None


def _writes_to(use: Any) -> bool:
    """Whether an op writes its result to an operand, if it may."""
    op, number = use.owner, use.operand_number
    if op.name == "tensor.insert_slice":
        return number == 1
    if not op.name.startswith("linalg."):
        return False
    return number >= len(op.operands) - len(op.results)
