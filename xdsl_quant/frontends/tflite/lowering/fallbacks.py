"""What passes say of ops that they compute with floats."""

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
)
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.diagnostics import located_message
from xdsl_quant.frontends.tflite import dialect as tfl

Fallback: TypeAlias = tuple[Operation, str]
"""An op without an integer form, and why it has none: the predicate of a sentence."""


_STATE = (tfl.VarHandleOp, tfl.ReadVariableOp, tfl.AssignVariableOp, tfl.CallOnceOp)

SIZES_HINT = (
    "give the inputs of the model shapes when the file is read, e.g. by the option "
    "'static' of 'read_tflite' or 'xdsl-quant-import'"
)
"""What to do about sizes that are not known."""


def has_state(op: Operation) -> bool:
    """Return True if what an op computes depends on variables."""
    return isinstance(op, _STATE) or (
        isinstance(op, tfl.SVDFOp) and op.next_state is None
    )


def without_conversion(op: Operation, target: str) -> str:
    """What a pass says of an op that it cannot convert: the predicate of a sentence."""
    if has_state(op):
        return "has state: run 'tfl-variables-to-arguments' first"
    custom = (
        f": unsupported custom operator '{op.custom_code.data}'"
        if isinstance(op, tfl.CustomOp)
        else ""
    )
    return f"has no conversion to {target}{custom}"


def list_fallbacks(module: ModuleOp, fallbacks: Sequence[Fallback]) -> None:
    """Let the attribute `tfl.fallback` of a module list ops, with reasons, if there are."""
    if not fallbacks:
        return
    module.attributes["tfl.fallback"] = ArrayAttr(
        DictionaryAttr(
            {
                "op": StringAttr(op.name),
                "name": StringAttr(_name(op)),
                "reason": StringAttr(reason),
            }
        )
        for op, reason in fallbacks
    )


def _name(op: Operation) -> str:
    """What a result is called in the file, or else in the text."""
    if isinstance(op.location, NameLoc):
        return op.location.desc.data
    return op.results[0].name_hint or ""


def refuse_fallbacks(fallbacks: Sequence[Fallback]) -> None:
    """
    Raises:
        PassFailedException: if there are any, with one sentence for each.
    """
    if not fallbacks:
        return
    remedy = "use 'fallback=on' to compute it with floats"
    raise PassFailedException(
        "\n".join(
            located_message(op, f"'{op.name}' op {reason}; {remedy}")
            for op, reason in fallbacks
        )
    )
