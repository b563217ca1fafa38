"""Located messages: where in a module an error is, and how a pass says so."""

from typing import NoReturn

from xdsl.dialects.builtin import FileLineColLoc, UnregisteredOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import PassFailedException


def location_prefix(location: Attribute) -> str:
    """A location as the start of a message, e.g. `model.mlir:3:5: `; empty if unknown."""
    if not isinstance(location, FileLineColLoc):
        return ""
    parts = (location.filename, location.line, location.column)
    return f"{':'.join(str(part.data) for part in parts)}: "


def op_name(op: Operation) -> str:
    """The name of an op, also if it is not registered."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def fail(op: Operation, message: str) -> NoReturn:
    """
    Fail a pass because of an op.

    Raises:
        PassFailedException: with the message, after the location of the op if it is known.
    """
    if prefix := location_prefix(op.location):
        message = f"{prefix}error: {message}"
    op.emit_error(message, PassFailedException(message))
