"""
A process for libraries: they print, some inputs abort them, and a library that was imported
stays so.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any, Self

from .runtimes import Unavailable


class Worker:
    """A process that is started when it is needed, and again when a library aborted it."""

    def __init__(self):
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if (process := self._process) is not None:
            self._process = None
            process.communicate()

    def call(self, target: object, method: str, *arguments: Any) -> Any:
        """
        What a method of an object returns in the process.

        Raises:
            Unavailable: with the message of what it raises, or if it ends the process.
        """
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            pickle.dump((target, method, arguments), stdin)
            stdin.flush()
            is_result, answer = pickle.load(stdout)
        except (BrokenPipeError, EOFError):
            self._process.kill()
            self.close()
            raise Unavailable("its library ended the process") from None
        if not is_result:
            raise Unavailable(answer)
        return answer


def _answer(
    target: object, method: str, arguments: tuple[Any, ...]
) -> tuple[bool, Any]:
    try:
        return True, getattr(target, method)(*arguments)
    except Unavailable as error:
        return False, str(error)
    except Exception as error:
        # Libraries raise what they like.
        line = str(error).strip().partition("\n")[0]
        return False, f"{type(error).__name__}: {line}"


def main() -> None:
    """Answer each call from the standard input on the standard output."""
    # What libraries print does not get among the results.
    stdout = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(_answer(*request), stdout)
        stdout.flush()


if __name__ == "__main__":
    main()
