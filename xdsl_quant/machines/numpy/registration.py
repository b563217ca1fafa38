"""Registers the functions of all dialects with an interpreter."""

import sys
from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.interpreter import Interpreter, InterpreterFunctions
from xdsl.interpreters import builtin, cf, func, scf
from xdsl.interpreters import register_implementations as register_all_of_xdsl

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
    Let an interpreter compute on NumPy arrays.

    It gets functions for the dialects arith, linalg, math, quant, shape and tensor, for
    `cf.assert` and `scf.for`, and xDSL's own for all else of func, cf, scf and builtin; and
    for dialects of frontends, as tfl, that are loaded. They take the place of any that are
    registered.

    Args:
        interpreter: the interpreter of a module.
        ctx: if given, xDSL's functions for all other dialects are registered, too. The
            interpreter must not have any of them yet.
        rounding_mode: how `quant.qcast` and `quant.dcast` round where they are not
            lowered; the same as the option of `lower-quant-ops`.
        zero_point_order: when `quant.qcast` adds the zero point there.
        nan: what it makes of NaN there, unless an attribute `quant.nan` says it.
        host_functions: what is called in place of functions without a body, by name. What
            one raises is the cause of a
            [`HostFailure`][xdsl_quant.machines.numpy.host.HostFailure].
    """
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
    """Yield the functions for dialects of plugins that are imported."""
    for dialect, functions in plugins().interpreters.items():
        if dialect in sys.modules:
            yield from functions()(module)
