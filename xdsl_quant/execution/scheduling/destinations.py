"""Placement of tensors in destination buffers, which avoids copies."""

from collections.abc import Iterable

from .. import mlir_bindings as mlir
from ..building import has_identity_layout, is_dynamic
from ..mlir_bindings import ir, linalg, tensor


def share_destinations(module: ir.Module) -> None:
    """Rewrite tensors so that bufferization computes them in their users' buffers."""
    read_padded_tensors(module)
    separate_destinations(module)
    # Otherwise a branch could write its result to a buffer of another size.
    if not _has_dynamic_branches(module) and _may_write_results_at_once(module):
        mlir.run_passes(module, ("eliminate-empty-tensors",))


_BRANCHES = ("arith.select", "scf.for", "scf.if", "scf.index_switch", "scf.while")


def _has_dynamic_branches(module: ir.Module) -> bool:
    """Return True if control flow yields a tensor of dynamic shape."""
    return any(
        isinstance(result.type, ir.RankedTensorType)
        and not result.type.has_static_shape
        for op in mlir.ops_in(module, *_BRANCHES)
        for result in op.results
    )


def _may_write_results_at_once(module: ir.Module) -> bool:
    """
    Return False if MLIR might compute an intermediate value in a result's buffer and
    overwrite it too early. MLIR does so if in-place ops turn the value into the result,
    even if another result is computed from the value later.
    """
    ends = mlir.ops_in(module, "bufferization.materialize_in_destination")
    for end in ends:
        block = mlir.operations_of(end.block)
        later = block[block.index(end) + 1 :]
        read = {value for op in later for value in _possible_aliases(op.operands)}
        sources = _possible_aliases(end.operands[:1]) - {end.operands[0]}
        if any(_is_computed(value) for value in sources & read):
            return False
    return True


def _is_computed(value: ir.Value) -> bool:
    is_result = isinstance(value, ir.OpResult)
    return is_result and value.owner.name != "tensor.empty"


def _possible_aliases(values: Iterable[ir.Value]) -> set[ir.Value]:
    """Return the values and all tensors that may alias them after in-place ops."""
    aliases: set[ir.Value] = set()
    todo = [*values]
    while todo:
        value = todo.pop()
        if value in aliases or not isinstance(value.type, ir.RankedTensorType):
            continue
        aliases.add(value)
        if (block := mlir.argument_block(value)) is not None:
            todo += block.owner.operands
            continue
        op = value.owner.operation
        is_linalg = op.name.startswith("linalg.")
        # The last operands of `linalg` ops are their destinations.
        todo += [*op.operands][-len(op.results) if is_linalg else 0 :]
        todo += [
            v for region in op.regions for b in region for v in mlir.yielded_values(b)
        ]
    return aliases


def read_padded_tensors(module: ir.Module) -> None:
    """
    Let the readers of the input of a pad read a slice of the padded result: elements are
    then stored only once. To this end, reshapes that only add a leading dimension of 1
    become views.
    """
    for reshape in mlir.ops_in(module, "tensor.reshape"):
        _add_dimension(reshape)
    for insert in mlir.ops_in(module, "tensor.insert_slice"):
        source, *_ = insert.operands
        readers = [user for user in mlir.users_of(source) if user != insert]
        can_read = all(
            op.name.startswith(_READS)
            and op.block == insert.block
            and insert.is_before_in_block(op)
            for op in readers
        )
        if readers and can_read and _pads(insert):
            _read_inside(insert)


_READS = "linalg.", "tensor.expand_shape"


def _add_dimension(reshape: ir.Operation) -> None:
    """Replace a reshape that prepends a dimension of 1 by a view."""
    source, result = reshape.operands[0], reshape.results[0]
    type_ = mlir.shaped_type(source)
    shape = type_.shape if type_.has_rank else []
    expanded = [1, *shape]
    if any(map(is_dynamic, shape)) or not shape or mlir.shape(result) != expanded:
        return
    groups = [[0, 1], *([i] for i in range(2, len(expanded)))]
    with ir.InsertionPoint(reshape), reshape.location:
        view = tensor.expand_shape(result.type, source, groups, [], expanded)
    mlir.replace_op(reshape, view)


def _pads(insert: ir.Operation) -> bool:
    """Return True if an op only pads: it inserts a static slice into a splat."""
    if len(insert.operands) != 2 or any(map(_writes_to, insert.results[0].uses)):
        return False
    source, target = insert.operands
    op = mlir.defining_op(target, "linalg.fill", "linalg.generic")
    is_filled = op is not None and _has_equal_elements(op)
    return is_filled and mlir.shaped_type(source).rank == mlir.shaped_type(target).rank


def _read_inside(insert: ir.Operation) -> None:
    """Let other readers of the input of a pad read a slice of the padded result."""
    source, *_ = insert.operands
    names = ("static_offsets", "static_sizes", "static_strides")
    parts = [insert.attributes[name] for name in names]
    with ir.InsertionPoint.after(insert), insert.location:
        inside = tensor.extract_slice(
            source.type, insert.results[0], [], [], [], *parts
        )
    mlir.replace_uses_except(source, inside, insert)


def separate_destinations(module: ir.Module) -> None:
    """
    Give each op that writes to an empty tensor or a splat its own destination. MLIR's
    CSE merges identical destinations, which costs a copy for each writer but the last.
    """
    for names in (("linalg.fill", "linalg.generic"), ("tensor.empty",)):
        for op in filter(_has_equal_elements, mlir.ops_in(module, *names)):
            uses = [use for use in op.results[0].uses if _writes_to(use)]
            for use in uses:
                with ir.InsertionPoint(use.owner):
                    copy = op.clone()
                if len(uses) > 1:
                    # The merged producer has the locations of several ops.
                    copy.location = use.owner.location
                use.owner.operands[use.operand_number] = copy.results[0]
            if not any(op.results[0].uses):
                op.erase()


def _has_equal_elements(op: ir.Operation) -> bool:
    """Return True if the only result of an op is a splat constant or undefined."""
    if len(op.results) != 1 or op.name == "tensor.empty":
        return len(op.results) == 1
    if op.name == "linalg.fill":
        return mlir.defining_op(op.operands[0], "arith.constant") is not None
    block = mlir.body_of(op)
    (value,) = mlir.yielded_values(block)
    is_read = any(any(argument.uses) for argument in block.arguments)
    return not is_read and mlir.defining_op(value, "arith.constant") is not None


def _writes_to(use: ir.OpOperand) -> bool:
    """Return True if an op may write its result in place to an operand."""
    op, number = use.owner, use.operand_number
    if op.name == "tensor.insert_slice":
        return number == 1
    if not op.name.startswith("linalg."):
        return False
    return number >= len(op.operands) - len(op.results)


# Copies


def lower_strided_copies(module: ir.Module) -> None:
    """
    Erase copies of memrefs to themselves, and lower strided copies to loops. MLIR would
    call a runtime function for strided copies. Self-copies remain when a result
    computed in place has a more static memref type than its destination.
    """
    for copy in mlir.ops_in(module, "memref.copy"):
        source, target = copy.operands
        if _without_casts(source) == _without_casts(target):
            copy.erase()
        elif not all(map(_is_contiguous, copy.operands)):
            with ir.InsertionPoint(copy), copy.location:
                linalg.copy(source, outs=[target])
            copy.erase()


def _is_contiguous(buffer: ir.Value) -> bool:
    # Unranked memrefs cannot be lowered to loops.
    is_ranked = isinstance(buffer.type, ir.MemRefType)
    return not is_ranked or has_identity_layout(buffer.type)


def _without_casts(buffer: ir.Value) -> ir.Value:
    while cast := mlir.defining_op(buffer, "memref.cast"):
        buffer = cast.operands[0]
    return buffer
