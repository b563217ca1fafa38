"""
Entry points of `xdsl-quant` and of its commands, which users can interrupt while modules
are imported.

The imports of a command take seconds on a slow disk.
"""

import sys
from functools import partial
from importlib import import_module

from .commands import COMMANDS, command_name, parse_arguments

_MODULES = {"import": "import_model"}
"""Modules of commands with other names."""


def main() -> int:
    """Run the command that the arguments of the process name."""
    name = command_name(sys.argv[1:])
    return _run_command(name, sys.argv[2:])


def _run_command(name: str, arguments: list[str] | None = None) -> int:
    """Check the arguments, by default those of the process, then import the command."""
    parse_arguments(name, arguments)
    try:
        for library in COMMANDS[name].libraries:
            _import_library(library)
        module = _import_library(f"xdsl_quant.tools.{_MODULES.get(name, name)}")
        return module.main(arguments)
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


# The commands `xdsl-quant-calibrate` and so on, of earlier versions.
calibrate = partial(_run_command, "calibrate")
compare = partial(_run_command, "compare")
import_model = partial(_run_command, "import")
inspect = partial(_run_command, "inspect")
prove = partial(_run_command, "prove")
quantize = partial(_run_command, "quantize")
rosetta = partial(_run_command, "rosetta")
run = partial(_run_command, "run")
target = partial(_run_command, "target")
