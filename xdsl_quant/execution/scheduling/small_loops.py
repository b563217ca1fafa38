"""
Loops that are too short to be worth the time in which LLVM makes them fast.

Code that calls Python functions, such as that of calibration, is compiled for one use. LLVM
takes 40 % less time for a network of small layers if their loops stay as they are.
"""

from __future__ import annotations

from .. import mlir_bindings as mlir
from ..loop_fixes import iterations
from ..mlir_bindings import ir

_MOST_ITERATIONS = 1 << 12
"""Scalar code runs so many iterations in a few microseconds, the time of one callback."""


def keep_small_loops_plain(module: ir.Module) -> None:
    """
    Let LLVM neither unroll nor vectorize loops that run at most 4096 iterations in a call,
    those of the loops around them included. No number changes.
    """
    with module.context:
        annotation = ir.Attribute.parse(
            "#llvm.loop_annotation<vectorize = <disable = true>, "
            "unroll = <disable = true>>"
        )
    for loop in mlir.ops_in(module, "scf.for"):
        if 0 < _iterations_in_call(loop) <= _MOST_ITERATIONS:
            loop.attributes["loop_annotation"] = annotation


def _iterations_in_call(loop: ir.Operation) -> int:
    """Return how often a call runs the body of a loop; 0 if that is not known."""
    count, op = 1, loop
    while op.name != "func.func":
        if op.name == "scf.for":
            count *= len(iterations(op))
        elif op.name == "scf.while":
            return 0
        assert op.parent is not None
        op = op.parent
    return count
