"""Rewrites of tensors, before bufferization, for which MLIR has no pass."""

from __future__ import annotations

from collections.abc import Iterable

from . import mlir_bindings as mlir
from .building import (
    indexing_maps,
    input_count,
    is_dynamic,
    loop_kinds,
    mixed_sizes,
    reshaped_tensor,
)
from .compilation_error import CompilationError
from .mlir_bindings import bufferization, ir, linalg, tensor


def check_has_no_llvm(module: ir.Module) -> None:
    """
    Raises:
        CompilationError: if there is an op of the LLVM dialect, which nothing verifies and
            which may terminate the process.
    """
    for op in mlir.ops_in(module):
        if op.name.startswith("llvm."):
            raise CompilationError(
                f"'{op.name}' op cannot be compiled: ops of the llvm dialect may end the "
                "process, so a module must have none"
            )


_BRANCHES = ("arith.select", "scf.for", "scf.if", "scf.index_switch", "scf.while")


def has_dynamic_branches(module: ir.Module) -> bool:
    """Whether a tensor may be one of several, and these may be of different sizes."""
    return any(
        isinstance(result.type, ir.RankedTensorType)
        and not result.type.has_static_shape
        for op in mlir.ops_in(module, *_BRANCHES)
        for result in op.results
    )


def define_undefined_tensors(module: ir.Module) -> None:
    """
    Replace poison tensors by empty ones, as bufferization does not support poison. Nothing
    reads them.

    Raises:
        CompilationError: if one has a dynamic size, which would be taken for the size of
            the values on other paths.
    """
    for poison in mlir.ops_in(module, "ub.poison"):
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


def read_initial_values_as_inputs(module: ir.Module) -> None:
    """
    Make initial values inputs of each `linalg.generic` that reads them without a reduction.

    Otherwise MLIR fuses it with an op that broadcasts its result, and adds to the initial
    value once for each element of the broadcast.
    """
    for op in mlir.ops_in(module, "linalg.generic"):
        is_read = any(
            any(a.uses) for a in [*mlir.body_of(op).arguments][input_count(op) :]
        )
        are_parallel = all("parallel" in kind for kind in loop_kinds(op))
        if is_read and len(op.results) and are_parallel:
            _read_as_inputs(op)


def _read_as_inputs(op: ir.Operation) -> None:
    block, operands, inputs = mlir.body_of(op), [*op.operands], input_count(op)
    initial_values, maps = operands[inputs:], indexing_maps(op)
    types = [mlir.element(value) for value in initial_values]
    with ir.InsertionPoint(op), op.location:
        new_op = linalg.GenericOp(
            [result.type for result in op.results],
            operands,
            [
                tensor.empty(mixed_sizes(value), type_)
                for value, type_ in zip(initial_values, types, strict=True)
            ],
            [*maps, *maps[inputs:]],
            op.attributes["iterator_types"],
        )
    for type_ in types:
        block.add_argument(type_, op.location)
    block.append_to(new_op.regions[0])
    for old, new in zip(op.results, new_op.results, strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def copy_what_while_loops_carry(module: ir.Module) -> None:
    """
    Copy the tensors that an `scf.while` carries from one iteration to the next.

    MLIR misses their aliasing, and would write in place to tensors that are still needed.
    """
    for loop in mlir.ops_in(module, "scf.while"):
        for region in loop.regions:
            *_, end = mlir.operations_of(region.blocks[0])
            for i, value in enumerate(end.operands):
                if isinstance(value.type, ir.RankedTensorType):
                    with ir.InsertionPoint(end), end.location:
                        copy = bufferization.alloc_tensor(value.type, [], copy=value)
                    end.operands[i] = copy


def may_write_results_at_once(module: ir.Module) -> bool:
    """
    Whether intermediate values may be stored in the arrays of results.

    MLIR does so if ops that may work in place turn the value into the result. It misses
    that the array no longer holds the value once the result is written: other results that
    are computed from the value later would read the result.
    """
    ends = mlir.ops_in(module, "bufferization.materialize_in_destination")
    for end in ends:
        block = mlir.operations_of(end.block)
        later = block[block.index(end) + 1 :]
        read = {value for op in later for value in _origins(op.operands)}
        made_of = _origins(end.operands[:1]) - {end.operands[0]}
        if any(_is_computed(value) for value in made_of & read):
            return False
    return True


def _is_computed(value: ir.Value) -> bool:
    is_result = isinstance(value, ir.OpResult)
    return is_result and value.owner.name != "tensor.empty"


def _origins(values: Iterable[ir.Value]) -> set[ir.Value]:
    """Values, and all that may alias them if ops work in place."""
    found: set[ir.Value] = set()
    todo = [*values]
    while todo:
        value = todo.pop()
        if value in found or not isinstance(value.type, ir.RankedTensorType):
            continue
        found.add(value)
        if (block := mlir.argument_block(value)) is not None:
            todo += block.owner.operands
            continue
        op = value.owner.operation
        is_linalg = op.name.startswith("linalg.")
        # The last operands of these are what results are written to.
        todo += [*op.operands][-len(op.results) if is_linalg else 0 :]
        todo += [v for region in op.regions for b in region for v in mlir.yielded_by(b)]
    return found


def reshape_where_sizes_are_dynamic(module: ir.Module) -> None:
    """
    Make a `tensor.reshape` of each `tensor.expand_shape` with more than one dynamic size.

    MLIR terminates the process if one dimension is expanded to several dynamic ones.
    """
    for op in mlir.ops_in(module, "tensor.expand_shape"):
        source, *dynamic = op.operands
        if len(dynamic) < 2:
            continue
        rest = iter(dynamic)
        static = mlir.attribute_of(op, "static_output_shape", ir.DenseI64ArrayAttr)
        sizes = [next(rest) if is_dynamic(size) else size for size in static]
        with ir.InsertionPoint(op), op.location:
            op.results[0].replace_all_uses_with(reshaped_tensor(source, sizes))
        op.erase()


def read_where_padded(module: ir.Module) -> None:
    """
    Let ops read a tensor where it is with padding around it, so that it is in memory once.
    Those with other shapes can do so, too, if their reshapes only add a dimension of 1.
    """
    for reshape in mlir.ops_in(module, "tensor.reshape"):
        _add_dimension(reshape)
    for insert in mlir.ops_in(module, "tensor.insert_slice"):
        source, *_ = insert.operands
        readers = [user for user in mlir.users_of(source) if user != insert]
        ops = mlir.operations_of(insert.block)
        later = {*map(mlir.identity_of, ops[ops.index(insert) :])}
        can_read = all(
            op.name.startswith(_READS) and mlir.identity_of(op) in later
            for op in readers
        )
        if readers and can_read and _pads(insert):
            _read_inside(insert)


_READS = "linalg.", "tensor.expand_shape"


def _add_dimension(reshape: ir.Operation) -> None:
    """Replace a reshape that adds a first dimension of 1, as only views may have gaps."""
    source, result = reshape.operands[0], reshape.results[0]
    type_ = mlir.shaped_type(source)
    shape = type_.shape if type_.has_rank else []
    expanded = [1, *shape]
    if any(map(is_dynamic, shape)) or not shape or mlir.shape(result) != expanded:
        return
    groups = [[0, 1], *([i] for i in range(2, len(expanded)))]
    with ir.InsertionPoint(reshape), reshape.location:
        view = tensor.expand_shape(result.type, source, groups, [], expanded)
    result.replace_all_uses_with(view)
    reshape.erase()


def _pads(insert: ir.Operation) -> bool:
    """Whether a slice of static sizes is inserted into equal elements, and nothing else."""
    if len(insert.operands) != 2 or any(map(_writes_to, insert.results[0].uses)):
        return False
    source, target = insert.operands
    op = mlir.made_by(target, "linalg.fill", "linalg.generic")
    is_filled = op is not None and _has_equal_elements(op)
    return is_filled and mlir.shaped_type(source).rank == mlir.shaped_type(target).rank


def _read_inside(insert: ir.Operation) -> None:
    """Read the slice of the result of an insertion in place of what is inserted."""
    source, *_ = insert.operands
    names = ("static_offsets", "static_sizes", "static_strides")
    parts = [insert.attributes[name] for name in names]
    with ir.InsertionPoint.after(insert), insert.location:
        inside = tensor.extract_slice(
            source.type, insert.results[0], [], [], [], *parts
        )
    mlir.replace_uses_but(source, inside, insert)


def separate_destinations(module: ir.Module) -> None:
    """
    Let each op that writes to an empty tensor, or to one of equal elements, have one of its
    own. MLIR merges the ops that make them, and would copy the tensor for all but the last
    of those that write to it.
    """
    for names in (("linalg.fill", "linalg.generic"), ("tensor.empty",)):
        for op in filter(_has_equal_elements, mlir.ops_in(module, *names)):
            uses = [use for use in op.results[0].uses if _writes_to(use)]
            for use in uses:
                with ir.InsertionPoint(use.owner):
                    copy = op.clone()
                if len(uses) > 1:
                    # It is merged from ops of several locations.
                    copy.location = use.owner.location
                use.owner.operands[use.operand_number] = copy.results[0]
            if not any(op.results[0].uses):
                op.erase()


def _has_equal_elements(op: ir.Operation) -> bool:
    """Whether an op makes one tensor, whose elements are one constant or undefined."""
    if len(op.results) != 1 or op.name == "tensor.empty":
        return len(op.results) == 1
    if op.name == "linalg.fill":
        return mlir.made_by(op.operands[0], "arith.constant") is not None
    block = mlir.body_of(op)
    (value,) = mlir.yielded_by(block)
    is_read = any(any(argument.uses) for argument in block.arguments)
    return not is_read and mlir.made_by(value, "arith.constant") is not None


def _writes_to(use: ir.OpOperand) -> bool:
    """Whether an op writes its result to an operand, if it may."""
    op, number = use.owner, use.operand_number
    if op.name == "tensor.insert_slice":
        return number == 1
    if not op.name.startswith("linalg."):
        return False
    return number >= len(op.operands) - len(op.results)
