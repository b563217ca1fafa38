"""What an implementation of the quant dialect says about a text."""

from typing import NamedTuple


class Diagnostic(NamedTuple):
    """An error and the place that it points to; line and column count from 1."""

    line: int
    column: int
    message: str


class Accepted(NamedTuple):
    """The text is valid."""

    text: str
    """What is printed for it."""


class Rejected(NamedTuple):
    """The text is invalid."""

    diagnostics: tuple[Diagnostic, ...]

    @property
    def message(self) -> str:
        """The first message."""
        return self.diagnostics[0].message if self.diagnostics else ""


class Crashed(NamedTuple):
    """There is no answer: an abort of MLIR, or a Python error of ours."""

    reason: str


Answer = Accepted | Rejected | Crashed
