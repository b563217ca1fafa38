"""Registration of the NumPy functions of all dialects with xDSL's interpreter."""

import sys
from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import Interpreter, InterpreterFunctions

from xdsl_quant import xdsl_patches
from xdsl_quant.rounding_mode import NanResult, Rounding, RoundingMode, ZeroPointOrder
from xdsl_quant.runtime.host_functions import HostFunctions
from xdsl_quant.runtime.plugins import plugins

from .arith import ARITH
from .control_flow import CONTROL_FLOW
from .host import host_implementations
from .linalg import LINALG
from .math import MATH
from .quant import quant_functions
from .tensor import TENSOR


def register_implementations(
    interpreter: Interpreter,
    ctx: Context | None = None,
    *,
    rounding_mode: RoundingMode = "nearest-even",
    zero_point_order: ZeroPointOrder = "before-rounding",
    nan: NanResult = "storage-min",
    host_functions: HostFunctions | None = None,
) -> None:
    """
    Register functions on NumPy arrays with an interpreter.

    The functions cover the dialects arith, linalg, math, quant, shape and tensor,
    `cf.assert` and `scf.for`, and imported frontend dialects such as tfl. xDSL's own
    functions for func, cf, scf and builtin are registered too. Functions registered
    before for the same ops are replaced.

    Args:
        interpreter: interpreter of a module.
        ctx: if given, also register xDSL's functions for all other dialects; the
            interpreter must not have any functions of these dialects yet.
        rounding_mode: rounding of `quant.qcast` and `quant.dcast` that are not lowered;
            the same as the option of `lower-quant-ops`.
        zero_point_order: order in which `quant.qcast` adds the zero point and rounds.
        nan: stored value of NaN, unless an attribute `quant.nan` gives it.
        host_functions: Python functions that implement declarations, by name. If a function
            raises an exception, this is the cause of a
            [`HostFailure`][xdsl_quant.machines.numpy.host.HostFailure].
    """
    # Imported here: lowerings import this module, and xDSL's functions of all dialects
    # take a quarter of a second to import.
    from xdsl.interpreters import builtin, cf, func, scf
    from xdsl.interpreters import register_implementations as register_all_of_xdsl

    xdsl_patches.apply()
    if ctx is not None:
        register_all_of_xdsl(interpreter, ctx)
    for functions in (
        builtin.BuiltinFunctions(),
        cf.CfFunctions(),
        func.FuncFunctions(),
        scf.ScfFunctions(),
        ARITH,
        CONTROL_FLOW,
        LINALG,
        MATH,
        quant_functions(Rounding(rounding_mode, zero_point_order, nan)),
        TENSOR,
        *_functions_of_plugins(interpreter.module),
    ):
        interpreter.register_implementations(functions, override=True)
    if host_functions:
        interpreter.register_implementations(
            host_implementations(host_functions), override=True
        )


def _functions_of_plugins(module: ModuleOp) -> Iterator[InterpreterFunctions]:
    for dialect, functions in plugins().interpreters.items():
        if dialect in sys.modules:
            yield from functions()(module)
