"""
Notebook displays: IR with aliases for quantized types, error plots, and calibration
reports.

`%load_ext xdsl_quant.display` adds the cell magic `%%quant`.
"""

from typing import Any

from xdsl_quant.runtime.extras import missing_package

from .calibration_report import CalibrationReport, calibration_report
from .error_plot import plot_error
from .ir_view import IRComparison, IRView, compare, show

__all__ = [
    "CalibrationReport",
    "IRComparison",
    "IRView",
    "calibration_report",
    "compare",
    "plot_error",
    "show",
]


def load_ipython_extension(ipython: Any) -> None:
    """
    Register the cell magic `%%quant`. IPython calls this for `%load_ext`.

    Args:
        ipython: an `InteractiveShell`.

    Raises:
        ImportError: if IPython is not installed.
        TypeError: if `ipython` is not a shell, e.g. `get_ipython()` outside of IPython.
    """
    try:
        from IPython.core.interactiveshell import InteractiveShell
        from IPython.core.magic import no_var_expand
    except ModuleNotFoundError:
        raise missing_package("%%quant", "IPython", "notebook") from None

    from .cell_magic import quant

    # The annotations of IPython are incomplete.
    shell_class: type[Any] = InteractiveShell
    if not isinstance(ipython, shell_class):
        raise TypeError(
            f"expected an IPython shell, found {type(ipython).__name__}; use "
            "'%load_ext xdsl_quant.display' in IPython or a notebook"
        )
    # Otherwise IPython expands the braces of pass options as Python expressions.
    ipython.register_magic_function(no_var_expand(quant), magic_kind="cell")
