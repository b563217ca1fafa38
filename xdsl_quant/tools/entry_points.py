"""
Entry points of the commands, which import nothing before they can be interrupted.

The imports of a command take seconds on a slow disk.
"""

import sys
from importlib import import_module


def _run(command: str, *libraries: str) -> int:
    """Import libraries that the command imports late, and run it."""
    try:
        for library in libraries:
            _imported(library)
        return _imported(f"xdsl_quant.tools.{command}").main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _imported(name: str):
    """
    Import a module.

    Raises:
        KeyboardInterrupt: if the user interrupts the import. NumPy raises `ImportError`.
    """
    from signal import SIGINT, default_int_handler, getsignal, signal

    is_interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        raise KeyboardInterrupt

    # A shell may have started the command with SIGINT ignored.
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


def calibrate() -> int:
    return _run("calibrate")


def compare() -> int:
    return _run("compare")


def import_model() -> int:
    return _run("import_model")


def inspect() -> int:
    return _run("inspect")


def prove() -> int:
    return _run("prove", "numpy")


def quantize() -> int:
    return _run("quantize")


def rosetta() -> int:
    return _run("rosetta")


def run() -> int:
    return _run("run")


def target() -> int:
    return _run("target")
