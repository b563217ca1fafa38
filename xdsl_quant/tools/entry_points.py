"""
Entry points of the commands, which import nothing before they can be interrupted.

The imports of a command take seconds on a slow disk.
"""

import sys
from importlib import import_module


def _run(command: str) -> int:
    try:
        return import_module(f"xdsl_quant.tools.{command}").main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def calibrate() -> int:
    return _run("calibrate")


def compare() -> int:
    return _run("compare")


def import_model() -> int:
    return _run("import_model")


def inspect() -> int:
    return _run("inspect")


def prove() -> int:
    return _run("prove")


def quantize() -> int:
    return _run("quantize")


def rosetta() -> int:
    return _run("rosetta")


def run() -> int:
    return _run("run")


def target() -> int:
    return _run("target")
