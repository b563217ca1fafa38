"""Diagnostics for ops that lowering passes compute with floats."""

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
from xdsl_quant.frontends.tflite.detection import DETECTION
from xdsl_quant.frontends.tflite.dialect.recurrent import RecurrentOp

Fallback: TypeAlias = tuple[Operation, str]
"""Op without an integer form, and the reason, e.g. `has no integer kernel`."""


_STATE = (tfl.VarHandleOp, tfl.ReadVariableOp, tfl.AssignVariableOp, tfl.CallOnceOp)

SIZES_HINT = (
    "set dynamic argument shapes with 'tfl-infer-shapes{static=true}'; sizes that depend "
    "on data are unsupported"
)
"""Advice in messages about dynamic sizes."""


def has_state(op: Operation) -> bool:
    """Return True if an op accesses variables, or keeps state between calls."""
    return isinstance(op, _STATE) or (
        isinstance(op, RecurrentOp) and not op.next_states
    )


def without_conversion(op: Operation, target: str) -> str:
    """Return why a pass cannot convert an op, e.g. `has no conversion to TOSA`."""
    if has_state(op):
        return "has state; run 'tfl-variables-to-arguments' first"
    if isinstance(op, tfl.ShapeOp):
        # Static shapes are constants before.
        return f"has no conversion to {target}: {SIZES_HINT}"
    if not isinstance(op, tfl.CustomOp):
        return f"has no conversion to {target}"
    name = op.custom_code.data
    advice = "run the interpreter, or " if name == DETECTION else ""
    return (
        f"has no conversion to {target}: unsupported custom operator '{name}'; "
        f"{advice}split the model before it"
    )


def list_fallbacks(module: ModuleOp, fallbacks: Sequence[Fallback]) -> None:
    """List ops and reasons in the attribute `tfl.fallback` of a module."""
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
    """Return the name of the first result in the `.tflite` file, or else its SSA name."""
    if isinstance(op.location, NameLoc):
        return op.location.desc.data
    return op.results[0].name_hint or ""


def refuse_fallbacks(fallbacks: Sequence[Fallback]) -> None:
    """
    Raise an error that lists the given ops, if any.

    Raises:
        PassFailedException: with one line for each op.
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
