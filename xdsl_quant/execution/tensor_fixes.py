"""Rewrites of tensor ops before bufferization for which MLIR has no pass."""

from . import mlir_bindings as mlir
from .building import (
    indexing_maps,
    input_count,
    is_dynamic,
    iterator_types_of,
    mixed_sizes,
    reshape_tensor,
)
from .compilation_error import CompilationError
from .mlir_bindings import bufferization, ir, linalg, tensor


def check_has_no_llvm(module: ir.Module) -> None:
    """
    Reject ops of the LLVM dialect: as nothing verifies them, they may terminate the
    process.

    Raises:
        CompilationError: if there is such an op.
    """
    for op in mlir.ops_in(module):
        if op.name.startswith("llvm."):
            raise CompilationError(
                f"unsupported '{op.name}' op; expected no ops of the llvm dialect, which "
                "may terminate the process"
            )


def define_undefined_tensors(module: ir.Module) -> None:
    """
    Replace poison tensors by `tensor.empty`: bufferization does not support poison.

    Raises:
        CompilationError: if a poison tensor has a dynamic size: any size chosen for it
            would also apply to the defined values of other control-flow paths.
    """
    for poison in mlir.ops_in(module, "ub.poison"):
        if not isinstance(type_ := poison.results[0].type, ir.RankedTensorType):
            continue
        if not type_.has_static_shape:
            raise CompilationError(
                f"value of type '{type_}' is not defined on every path between blocks; use "
                "scf.if, scf.for or scf.while"
            )
        with ir.InsertionPoint(poison), poison.location:
            empty = tensor.empty(
                type_.shape, type_.element_type, encoding=type_.encoding
            )
        mlir.replace_op(poison, empty)


def read_initial_values_as_inputs(module: ir.Module) -> None:
    """
    Pass the initial value of an output as an input, too, if the body of a
    `linalg.generic` without reductions reads it. Otherwise MLIR may fuse the op with a
    broadcast of its result, and add to the initial value once per broadcast element.
    """
    for op in mlir.ops_in(module, "linalg.generic"):
        is_read = any(
            any(a.uses) for a in [*mlir.body_of(op).arguments][input_count(op) :]
        )
        are_parallel = all("parallel" in kind for kind in iterator_types_of(op))
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


def copy_loop_carried_tensors(module: ir.Module) -> None:
    """
    Copy the tensors that an `scf.while` carries from one iteration to the next. MLIR
    misses their aliasing and would overwrite live tensors in place.
    """
    for loop in mlir.ops_in(module, "scf.while"):
        for region in loop.regions:
            *_, end = mlir.operations_of(region.blocks[0])
            for i, value in enumerate(end.operands):
                if isinstance(value.type, ir.RankedTensorType):
                    with ir.InsertionPoint(end), end.location:
                        copy = bufferization.alloc_tensor(value.type, [], copy=value)
                    end.operands[i] = copy


def reshape_dynamic_expansions(module: ir.Module) -> None:
    """
    Replace each `tensor.expand_shape` with several dynamic sizes by a `tensor.reshape`:
    MLIR terminates the process if one dimension expands to several dynamic ones.
    """
    for op in mlir.ops_in(module, "tensor.expand_shape"):
        source, *dynamic = op.operands
        if len(dynamic) < 2:
            continue
        rest = iter(dynamic)
        static = mlir.attribute_of(op, "static_output_shape", ir.DenseI64ArrayAttr)
        sizes = [next(rest) if is_dynamic(size) else size for size in static]
        with ir.InsertionPoint(op), op.location:
            mlir.replace_op(op, reshape_tensor(source, sizes))
