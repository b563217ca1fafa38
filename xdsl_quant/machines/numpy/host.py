"""Python functions that a module calls: see `xdsl_quant.runtime.host_functions`."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl_external,
    register_impls,
)
from xdsl.ir import Operation

from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.host_functions import HostFunctions


class HostFailure(Exception):
    """Raised when a Python function that the module calls has raised `cause`."""

    def __init__(self, cause: Exception):
        super().__init__(str(cause))
        self.cause = cause


def host_implementations(host_functions: HostFunctions) -> InterpreterFunctions:
    """Return Python functions in the form that xDSL's interpreter registers."""
    methods = {
        f"host_{index}": _host_method(name, function)
        for index, (name, function) in enumerate(host_functions.items())
    }
    return register_impls(type("HostFunctions", (InterpreterFunctions,), methods))()


def _host_method(name: str, function: Callable[..., object]) -> object:
    def call(
        functions: InterpreterFunctions,
        interpreter: Interpreter,
        op: Operation,
        args: PythonValues,
    ) -> PythonValues:
        try:
            function(*map(_read_only, args))
        except Exception as e:
            raise HostFailure(e) from e
        return ()

    return impl_external(name)(call)


def _read_only(value: ArrayLike) -> Array:
    view = np.asarray(value).view()
    view.flags.writeable = False
    return view
