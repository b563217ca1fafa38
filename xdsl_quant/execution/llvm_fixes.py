"""Rewrites of the LLVM dialect for which MLIR has no pass."""

from collections.abc import Collection

from . import mlir_bindings as mlir
from .compilation_error import CompilationError
from .cpu import Cpu
from .mlir_bindings import ir, llvm
from .runtime_library import FAIL


def check_is_llvm(module: ir.Module) -> None:
    """
    Verify that the module contains only ops of the LLVM dialect.

    Raises:
        CompilationError: if the module has any other op. Without this check, LLVM would
            only print the casts around the op to standard error.
    """
    cast_name = "builtin.unrealized_conversion_cast"
    left = [
        op.name
        for op in mlir.ops_in(module)
        if not op.name.startswith("llvm.") and op.name != "builtin.module"
    ]
    if left:
        name = next((name for name in left if name != cast_name), cast_name)
        raise CompilationError(f"unsupported '{name}' op: missing lowering to LLVM")


def move_bf16_as_integers(module: ir.Module) -> None:
    """
    Load and store bf16 as i16. LLVM terminates the process for some sizes when it
    vectorizes loads and stores of bf16, as it cannot concatenate vectors of bf16.
    """
    with module.context:
        bf16, i16 = ir.BF16Type.get(), ir.IntegerType.get_signless(16)
    for load in mlir.ops_in(module, "llvm.load"):
        (value,) = load.results
        if value.type == bf16:
            mlir.change_type(value, i16)
            with ir.InsertionPoint.after(load), load.location:
                number = llvm.bitcast(bf16, value)
            mlir.replace_uses_except(value, number, number.owner.operation)
    for store in mlir.ops_in(module, "llvm.store"):
        if store.operands[0].type == bf16:
            with ir.InsertionPoint(store), store.location:
                store.operands[0] = llvm.bitcast(i16, store.operands[0])


_NUMBER_EXTREMES = {
    "llvm.intr.maxnum": "llvm.maximumnum",
    "llvm.intr.minnum": "llvm.minimumnum",
}


def reduce_with_ordered_zeros(module: ir.Module) -> None:
    """
    Replace `maxnum` and `minnum` by `maximumnum` and `minimumnum`, unless they have
    `nnan` or a constant operand. The results are the same, except that -0.0 is always
    less than 0.0.

    LLVM 22 drops rows when it masks the last vector of a `maxnum` reduction without
    `nnan`: see `docs/upstream/llvm-maxnum-reductions.md`. Clamps to constant bounds are
    not reductions and keep the faster `maxnum`.
    """
    for op in mlir.ops_in(module, *_NUMBER_EXTREMES):
        flags = (
            op.attributes["fastmathFlags"] if "fastmathFlags" in op.attributes else ""
        )
        if "nnan" in str(flags) or "fast>" in str(flags):
            continue
        if any(mlir.defining_op(value, "llvm.mlir.constant") for value in op.operands):
            continue
        type_, name = op.results[0].type, _NUMBER_EXTREMES[op.name]
        with ir.InsertionPoint(op), op.location:
            extreme = llvm.call_intrinsic(type_, name, [*op.operands], [], [])
        mlir.replace_op(op, extreme)


def return_where_assertions_fail(module: ir.Module, names: Collection[str]) -> None:
    """
    Make a failed assertion report its message and return from the function.

    MLIR's own lowering prints the message and terminates the process.

    Raises:
        CompilationError: if a function outside `names` has an assertion: a return from
            the function would not stop its caller.
    """
    for call in mlir.ops_in(module, "llvm.call"):
        callee = _callee(call)
        if callee == "puts":
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(FAIL, module.context)
        elif callee == "abort":
            assert call.parent is not None
            name = mlir.symbol_of(call.parent)
            if name not in names:
                raise CompilationError(
                    f"unsupported recursive function with run-time checks: '{name}'"
                )
            unreachable = call.block.operations[len(call.block.operations) - 1]
            with ir.InsertionPoint(unreachable), call.location:
                llvm.return_()
            unreachable.erase()
            call.erase()
    for function in mlir.ops_in(module, "llvm.func"):
        if mlir.symbol_of(function) == "puts":
            function.attributes["sym_name"] = ir.StringAttr.get(FAIL, module.context)


def _callee(call: ir.Operation) -> str:
    """Return the name of the called function; empty for indirect calls."""
    return mlir.symbol_of(call, "callee") if "callee" in call.attributes else ""


# Prefix of the functions that are called from outside the module.
_INTERFACE = "_mlir_ciface_"


def hide_functions(module: ir.Module) -> None:
    """Give functions other than C interfaces internal linkage."""
    # LLVM then removes unused arguments: passing 1000 takes seconds to compile.
    internal = ir.Attribute.parse("#llvm.linkage<internal>", module.context)
    for function in module.body.operations:
        if (
            function.name == "llvm.func"
            and [*function.regions[0].blocks]
            and not mlir.symbol_of(function).startswith(_INTERFACE)
        ):
            function.attributes["linkage"] = internal


def generate_for_cpu(module: ir.Module, cpu: Cpu) -> None:
    """Restrict LLVM to the features of a CPU."""
    if cpu.llvm_name is None:
        return
    with module.context:
        name = ir.StringAttr.get(cpu.llvm_name)
        listed = ", ".join(f'"{feature}"' for feature in cpu.llvm_features.split(","))
        features = ir.Attribute.parse(f"#llvm.target_features<[{listed}]>")
    for function in mlir.ops_in(module, "llvm.func"):
        function.attributes["target_cpu"] = name
        function.attributes["target_features"] = features
