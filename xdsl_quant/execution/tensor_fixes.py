"""Changes before tensors become buffers for which MLIR has no pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .compilation_error import CompilationError
from .mlir_bindings import bindings, ops_in


def check_has_no_llvm(module: Any) -> None:
    """
    Raises:
        CompilationError: if there is an op of the LLVM dialect, which nothing checks and
            which may end the process.
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
    ir = bindings().ir
    return any(
        isinstance(result.type, ir.RankedTensorType)
        and not result.type.has_static_shape
        for op in ops_in(module, *_BRANCHES)
        for result in op.results
    )


def copy_what_while_loops_carry(module: Any) -> None:
    """
    Let each iteration of an `scf.while` have tensors of its own.

    MLIR does not see that what one iteration hands to the next is the same tensor there,
    and would write to it though others need it.
    """
    ir = bindings().ir
    for loop in ops_in(module, "scf.while"):
        for region in loop.regions:
            end = [*region.blocks[0].operations][-1].operation
            for i, value in enumerate(end.operands):
                if isinstance(value.type, ir.RankedTensorType):
                    end.operands[i] = _copied(value, end)


def _copied(value: Any, before: Any) -> Any:
    ir = bindings().ir
    # Of the sizes, what is copied, and a hint, only the second is there.
    segments = ir.DenseI32ArrayAttr.get([0, 1, 0], before.context)
    with ir.InsertionPoint(before), before.location:
        return ir.Operation.create(
            "bufferization.alloc_tensor",
            results=[value.type],
            operands=[value],
            attributes={"operandSegmentSizes": segments},
        ).result


def may_write_results_at_once(module: Any) -> bool:
    """
    Whether values may be in the arrays of results before these are written.

    MLIR puts a value there if a result is made of it by ops that may work in place. It
    does not see that the array then has another value, once the result is written to it:
    what makes other results of the first value would read that.
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
    is_result = isinstance(value, bindings().ir.OpResult)
    return is_result and value.owner.name != "tensor.empty"


def _origins(values: Iterable[Any]) -> set[Any]:
    """Values, and all with which they may share memory if ops work in place."""
    ir = bindings().ir
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

    MLIR ends the process if one dimension becomes several of them.
    """
    ir, arith, tensor = bindings().ir, bindings().arith, bindings().tensor
    for op in ops_in(module, "tensor.expand_shape"):
        source, *sizes = op.operands
        if len(sizes) < 2:
            continue
        with ir.InsertionPoint(op), op.location:
            type_, index = op.results[0].type, ir.IndexType.get()
            rest = iter(sizes)
            shape = [
                next(rest) if type_.is_dynamic_dim(i) else arith.constant(index, size)
                for i, size in enumerate(op.attributes["static_output_shape"])
            ]
            shape = tensor.from_elements(
                ir.RankedTensorType.get([type_.rank], index), shape
            )
            op.results[0].replace_all_uses_with(tensor.reshape(type_, source, shape))
        op.erase()
