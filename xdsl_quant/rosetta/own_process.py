"""Separate processes for libraries, which may print or abort and cannot be unloaded."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

_Request = TypeVar("_Request")


class ProcessEnded(Exception):
    """Raised when a library ends its process; the argument is the exit code."""


class LibraryProcess:
    """Process that starts on the first request, and restarts after an abort."""

    def __init__(
        self, *command: str | Path, environment: Mapping[str, str] | None = None
    ):
        """
        Args:
            command: command line; the first argument is the Python executable.
            environment: environment variables; by default those of this process.
        """
        self._command: Sequence[str | Path] = command
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> int | None:
        """End the process and return its exit code; `None` if it was not running."""
        if (process := self._process) is None:
            return None
        self._process = None
        # The process ends when its standard input is closed.
        process.communicate()
        return process.returncode

    # The type of the answer depends on the request.
    def ask(self, request: object) -> Any:
        """
        Send a request and return the answer.

        Raises:
            ProcessEnded: if the process ends without an answer.
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
    """Read requests from standard input, and write answers to standard output."""
    # Redirect the output of libraries to standard error.
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(answer(request), stdout)
        stdout.flush()
