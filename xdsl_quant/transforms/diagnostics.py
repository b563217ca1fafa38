"""How a pass says that it cannot do its work."""

from typing import NoReturn

from xdsl.dialects.builtin import FileLineColLoc, UnregisteredOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException


def op_name(op: Operation) -> str:
    """The name of an op, also if it is not registered."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def fail(op: Operation, message: str) -> NoReturn:
    """
    Fail a pass because of an op.

    Raises:
        PassFailedException: with the message, after the place of the op if it is known.
    """
    if isinstance(location := op.location, FileLineColLoc):
        place = (location.filename, location.line, location.column)
        message = f"{':'.join(str(part.data) for part in place)}: error: {message}"
    op.emit_error(message, PassFailedException(message))
