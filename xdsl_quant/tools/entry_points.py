"""
Entry points of the commands, which users can interrupt while modules are imported.

The imports of a command take seconds on a slow disk.
"""

import sys
from functools import partial
from importlib import import_module


def _run_command(command: str, *libraries: str) -> int:
    """Import a command and the libraries that it imports later; then run the command."""
    try:
        for library in libraries:
            _import_library(library)
        return _import_library(f"xdsl_quant.tools.{command}").main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _import_library(name: str):
    """
    Import a module.

    Raises:
        KeyboardInterrupt: if the user interrupts the import, also where NumPy replaces
            this error by an `ImportError`.
    """
    from signal import SIGINT, default_int_handler, getsignal, signal

    is_interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        raise KeyboardInterrupt

    # If the shell has started the command with SIGINT ignored, keep it ignored.
    is_watched = getsignal(SIGINT) is default_int_handler
    if is_watched:
        signal(SIGINT, interrupt)
    try:
        return import_module(name)
    finally:
        if is_watched:
            signal(SIGINT, default_int_handler)
        if is_interrupted:
            raise KeyboardInterrupt


calibrate = partial(_run_command, "calibrate")
compare = partial(_run_command, "compare")
import_model = partial(_run_command, "import_model")
inspect = partial(_run_command, "inspect")
prove = partial(_run_command, "prove", "numpy")
quantize = partial(_run_command, "quantize")
rosetta = partial(_run_command, "rosetta")
run = partial(_run_command, "run")
target = partial(_run_command, "target")
