"""Questions to real MLIR."""

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Literal, Self

from .answers import Accepted, Answer, Crashed, Diagnostic, Rejected

_WORKER = Path(__file__).with_name("mlir_worker.py")

PYTHON_24 = Path(__file__).parents[2] / ".venv-mlir24/bin/python"
"""That of the environment that `make mlir24` makes."""

Release = Literal[22, 24]
"""A version of MLIR: the last one that is released, and what its main branch became."""


class Mlir:
    """
    Real MLIR behind a pipe. An abort of MLIR is an answer like any other, and does not
    spoil the next question.

    A missing `mlir` module is an error at the first question, never a skipped test.
    """

    def __init__(
        self,
        cpu_seconds: float = 60.0,
        package: str = "mlir",
        python: Path = Path(sys.executable),
        release: Release = 22,
    ):
        """
        `cpu_seconds`: CPU time after which a question counts as a crash, which does not
        depend on other processes; `package`: the one
        that has MLIR's bindings; `python`: that of the environment with the package;
        `release`: the version of what it has.
        """
        self.cpu_seconds = cpu_seconds
        self.package = package
        self.python = python
        self.release: Release = release
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker process."""
        if (process := self.process) is None:
            return
        self.process = None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def type(self, text: str) -> Answer:
        """What MLIR says about the text of a type."""
        return self._ask("type", text)

    def run(
        self,
        text: str,
        pipeline: str | None = None,
        *,
        generic: bool = False,
        debug: bool = False,
    ) -> Answer:
        """
        What MLIR says about a module, after the passes of `pipeline`, which is written
        as in `--pass-pipeline=builtin.module(...)` without the outermost level; with
        `debug`, with locations.
        """
        return self._ask("module", text, pipeline, generic, debug)

    def imported(self, file: bytes) -> Answer:
        """The module of a TensorFlow Lite file, as `litert_converter.mlir` has it."""
        return self._ask("import", "", file=file)

    def exported(self, text: str, file: bytes) -> Answer:
        """The TensorFlow Lite file of a module in Base64, after importing another one."""
        return self._ask("export", text, file=file)

    def _ask(
        self,
        kind: Literal["type", "module", "import", "export"],
        text: str,
        pipeline: str | None = None,
        generic: bool = False,
        debug: bool = False,
        file: bytes = b"",
    ) -> Answer:
        request = {
            "kind": kind,
            "text": text,
            "pipeline": pipeline,
            "generic": generic,
            "debug": debug,
            "file": base64.b64encode(file).decode(),
        }
        line = self._exchange(json.dumps(request))
        response = json.loads(line)
        if "crashed" in response:
            return Crashed(response["crashed"])
        if "text" in response:
            return Accepted(response["text"].rstrip("\n"))
        return Rejected(tuple(Diagnostic(*error) for error in response["errors"]))

    def _exchange(self, request: str) -> str:
        """The worker's answer."""
        if self.process is None:
            self.process = _start_worker(self.python, self.package, self.cpu_seconds)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        if line := self.process.stdout.readline():
            return line
        self.close()
        raise RuntimeError(f"the MLIR worker ended; is `{self.package}` installed?")


def mlir_24() -> Mlir:
    """
    MLIR's main branch of 2026-10, in the environment that `make mlir24` makes. It has no
    assertions, and some texts make it run forever.
    """
    return Mlir(cpu_seconds=5.0, package="torch_mlir", python=PYTHON_24, release=24)


def _start_worker(
    python: Path, package: str, cpu_seconds: float
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [python, _WORKER, package, str(cpu_seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
