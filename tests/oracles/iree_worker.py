"""
Worker in the environment that `make iree` creates: compiles and calls functions with IREE.

It exchanges pickled objects by standard input and output, and imports nothing of this
project, which is missing in that environment.
"""

import os
import pickle
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, cast

_FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
)


class Functions:
    """Compiled functions, numbered in order."""

    def __init__(self) -> None:
        # Not installed in the environment of the type checker.
        self._tools: Any = import_module("iree.compiler.tools")
        self._runtime: Any = import_module("iree.runtime")
        self._functions: list[Any] = []

    def compile(self, text: str, name: str, driver: str) -> int:
        """Compile a function of an MLIR module, and return its number."""
        binary = self._tools.compile_str(text, extra_args=_FLAGS)
        module = self._runtime.load_vm_flatbuffer(binary, driver=driver)
        self._functions.append(module[name])
        return len(self._functions) - 1

    def call(self, number: int, arrays: Sequence[object]) -> list[object]:
        """Call a compiled function, and return its results as arrays."""
        results: Any = self._functions[number](*arrays)
        if not isinstance(results, list | tuple):
            return [results.to_host()]
        return [result.to_host() for result in cast("Sequence[Any]", results)]


def main() -> None:
    """Answer requests until standard input ends."""
    # Redirect the output of libraries to standard error.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    functions = Functions()
    while True:
        try:
            name, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = "ok", getattr(functions, name)(*arguments)
        except Exception as e:
            answer = "error", f"{type(e).__name__}: {e}"
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
