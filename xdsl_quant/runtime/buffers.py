"""Error messages about memrefs and vectors, which arrays cannot be passed for."""

from collections.abc import Iterable

from xdsl.dialects.builtin import MemRefType, UnrankedMemRefType, VectorType
from xdsl.dialects.func import FuncOp

from xdsl_quant.diagnostics import located_message

_MEMREF = MemRefType | UnrankedMemRefType


def signature_error_message(function: FuncOp) -> str | None:
    """
    Return an error message about the first memref or vector in the signature of an entry
    function; `None` if there is none.
    """
    signature = function.function_type
    for noun, types in (("argument", signature.inputs), ("result", signature.outputs)):
        for i, type_ in enumerate(types):
            if isinstance(type_, _MEMREF | VectorType):
                return located_message(
                    function,
                    f"function '{function.sym_name.data}' cannot be called with arrays: "
                    f"{noun} {i} has type '{type_}'; use the module before it is "
                    "bufferized or vectorized, with tensors",
                )
    return None


def memref_error_message(functions: Iterable[FuncOp]) -> str | None:
    """
    Return an error message about the first op with a memref, for the interpreter; `None`
    if there is none.
    """
    for op in (op for function in functions for op in function.body.walk()):
        for value in (*op.operands, *op.results):
            if isinstance(type_ := value.type, _MEMREF):
                return located_message(
                    op,
                    f"'{op.name}' op cannot be interpreted: a value has type "
                    f"'{type_}'; compile the function, or use the module before it is "
                    "bufferized",
                )
    return None
