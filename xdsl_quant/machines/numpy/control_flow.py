"""Interpreter functions for ops of cf and scf that xDSL's interpreter lacks."""

import numpy as np
from xdsl.dialects import cf, scf
from xdsl.interpreter import Interpreter, PythonValues

from xdsl_quant.numerics.arrays import Array

from .implementations import interpreter_functions
from .values import failure


def _check_assertion(op: cf.AssertOp, condition: Array) -> tuple[()]:
    if not np.all(condition):
        raise failure(op, f"failed: {op.msg.data}")
    return ()


def _for(
    interpreter: Interpreter,
    op: scf.ForOp,
    start: int,
    end: int,
    step: int,
    *carried: object,
) -> PythonValues:
    # MLIR requires a positive step.
    if step <= 0:
        raise failure(op, f"has step {step}, expected a positive step")
    values: PythonValues = carried
    for i in range(start, end, step):
        values = interpreter.run_ssacfg_region(op.body, (i, *values), "for_loop")
    return values


CONTROL_FLOW = interpreter_functions({cf.AssertOp: _check_assertion}, {scf.ForOp: _for})
"""Interpreter functions of `cf.assert` and `scf.for`."""
