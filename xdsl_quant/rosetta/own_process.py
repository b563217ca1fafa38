"""
A process for libraries: they print, some inputs abort them, and a library that was imported
stays so.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

_Request = TypeVar("_Request")


class ProcessEnded(Exception):
    """A library has ended its process; the argument is the exit code."""


class OwnProcess:
    """A process that is started when it is needed, and again when a library aborted it."""

    def __init__(
        self, *command: str | Path, environment: Mapping[str, str] | None = None
    ):
        """
        Args:
            command: its arguments, of which Python is the first one.
            environment: its environment variables; by default those of this process.
        """
        self._command: Sequence[str | Path] = command
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> int | None:
        """End the process; its exit code, if there was one."""
        if (process := self._process) is None:
            return None
        self._process = None
        # Both pipes are closed, and the end of its input ends the process.
        process.communicate()
        return process.returncode

    # Its type depends on the request.
    def ask(self, request: object) -> Any:
        """
        The answer of the process.

        Raises:
            ProcessEnded: if there is none.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environment,
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            pickle.dump(request, stdin)
            stdin.flush()
            return pickle.load(stdout)
        except (BrokenPipeError, EOFError):
            raise ProcessEnded(self.close()) from None


def answer_all(answer: Callable[[_Request], object]) -> None:
    """Answer each request from the standard input on the standard output."""
    # What libraries print does not get among the answers.
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(answer(request), stdout)
        stdout.flush()
