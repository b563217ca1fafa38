"""How a pass says that it cannot do its work."""

from typing import NoReturn

from xdsl.dialects.builtin import UnregisteredOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.places import place


def op_name(op: Operation) -> str:
    """The name of an op, also if it is not registered."""
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def fail(op: Operation, message: str) -> NoReturn:
    """
    Fail a pass because of an op.

    Raises:
        PassFailedException: with the message, after the place of the op if it is known.
    """
    if where := place(op.location):
        message = f"{where}error: {message}"
    op.emit_error(message, PassFailedException(message))
