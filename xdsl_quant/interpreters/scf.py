"""The loop of the scf dialect; xDSL's own functions take all else."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.interpreter import Interpreter, PythonValues

from .implementations import interpreter_functions
from .values import failure


def _for(interpreter: Interpreter, op: scf.ForOp, args: PythonValues) -> PythonValues:
    start, end, step, *carried = args
    # Any other step has no meaning in MLIR.
    if step <= 0:
        raise failure(op, f"has step {step}, but a step must be positive")
    values = tuple(carried)
    for i in range(start, end, step):
        values = interpreter.run_ssacfg_region(op.body, (i, *values), "for_loop")
    return values


SCF = interpreter_functions({scf.ForOp: _for})
"""The loop that counts."""
