"""What the cf dialect has besides branches, which xDSL's own functions take."""

from __future__ import annotations

import numpy as np
from xdsl.dialects import cf
from xdsl.interpreter import Interpreter, PythonValues

from .implementations import interpreter_functions
from .values import failure


def _assert(
    interpreter: Interpreter, op: cf.AssertOp, args: PythonValues
) -> PythonValues:
    if not np.all(args[0]):
        raise failure(op, f"failed: {op.msg.data}")
    return ()


CF = interpreter_functions({cf.AssertOp: _assert})
"""The assertion."""
