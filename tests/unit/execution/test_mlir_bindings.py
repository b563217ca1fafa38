"""Functions on modules of MLIR's Python bindings."""

from xdsl_quant.execution.mlir_bindings import (
    functions_in,
    ir,
    new_context,
    symbol_of,
)

MODULE = """
"test.op"() : () -> ()
memref.global "private" constant @b : memref<1xi8> = dense<0>
func.func private @a()
func.func private @b_function()
llvm.func @c()
"""


def test_functions_by_name():
    context = new_context()
    context.allow_unregistered_dialects = True
    with context:
        module = ir.Module.parse(MODULE)
        found = functions_in(module, {"a", "b", "c"})
        assert [symbol_of(function) for function in found] == ["a", "c"]
