"""Messages of `xdsl-opt` about its input: a sentence, the source line and a caret."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from traceback import walk_tb
from types import FrameType

from xdsl import xdsl_opt_main
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.tools.command_line_tool import CommandLineTool
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError

from xdsl_quant.diagnostics import (
    colored,
    error_summary,
    op_name,
    shortened_message,
    shortened_text,
)

from .loading import IRError, enclosing_location, is_of_xdsl, parse_passes

_LOCATED = re.compile(r"(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): error: ")

_WIDTH = 100
"""Maximum number of characters of a source line."""


def print_user_error(error: BaseException) -> bool:
    """
    Print an error that the input or the arguments of `xdsl-opt` cause. Return False,
    without output, for other errors, and if the environment asks for tracebacks.
    """
    if os.environ.get("XDSL_QUANT_TRACEBACK"):
        return False
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    lines = _error_lines(error, frames)
    for line in lines:
        print(colored(line, sys.stderr), file=sys.stderr)
    return bool(lines)


def _error_lines(error: BaseException, frames: Sequence[FrameType]) -> Sequence[str]:
    """Return the lines of the message; none if the error is not the user's."""
    if isinstance(error, ParseError):
        location = error.span.get_location()
        message = f"{location}: error: {shortened_message(' '.join(error.msg.split()))}"
        start = error.span.input.get_start_of_line(error.span.start)
        end = error.span.input.get_end_of_line(error.span.start)
        text = error.span.input.slice(start, end)
        source = text.decode(errors="replace") if isinstance(text, bytes) else text
        return [message, *_excerpt(source or "", location.col)]
    if isinstance(error, DiagnosticException):
        return _diagnostic_lines(error, frames)
    if isinstance(error, OSError) and error.filename is not None:
        return [f"{error.filename}: error: {(error.strerror or str(error)).lower()}"]
    if isinstance(error, OSError):
        return [f"standard output: error: {(error.strerror or str(error)).lower()}"]
    if isinstance(error, NotImplementedError | ValueError) and any(
        isinstance(module_pass := frame.f_locals.get("self"), ModulePass)
        and is_of_xdsl(module_pass)
        for frame in frames
    ):
        return [f"error: {error}{_pass_note(frames)}"]
    if not isinstance(error, ValueError | RecursionError | ArgSpecParseError):
        return []
    for frame in frames:
        if frame.f_code is xdsl_opt_main.xDSLOptMain.setup_pipeline.__code__:
            return _pipeline_lines(frame.f_locals["self"].args.passes)
        if frame.f_code is CommandLineTool.parse_chunk.__code__:
            return [f"{frame.f_locals['self'].get_input_name()}: {_read_error(error)}"]
    # The tool itself raises errors about file suffixes and targets.
    is_argument = frames[-1].f_globals["__name__"] == xdsl_opt_main.__name__
    return [f"error: {error}"] if is_argument else []


def _read_error(error: BaseException) -> str:
    """Describe an error that xDSL's parser does not catch."""
    if isinstance(error, RecursionError):
        return "error: the text is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"error: expected the text of a module in UTF-8: {error}"
    return f"error: {error}"


def _pipeline_lines(pipeline: str) -> Sequence[str]:
    try:
        parse_passes(pipeline)
    except IRError as error:
        return [str(error)]
    return []


def _diagnostic_lines(
    error: DiagnosticException, frames: Sequence[FrameType]
) -> Sequence[str]:
    lines = str(error).splitlines()
    if len(lines) > 1 and all("error: " in line for line in lines):
        # `verify-quant-constraints` reports all violations.
        return lines
    message = shortened_message(error_summary(error)).removeprefix("error: ")
    message += _pass_note(frames)
    op = _failing_op(frames)
    if op is not None and ": error: " not in message:
        subject = "" if op_name(op) in message else f"'{op_name(op)}' op "
        message = f"{enclosing_location(op)}error: {subject}{message}"
    if (located := _LOCATED.match(message)) is not None:
        source = _source_line(located["file"], int(located["line"]))
        return [message, *_excerpt(source, int(located["column"]))]
    if op is None:
        return [message if ": error: " in message else f"error: {message}"]
    if not message.startswith("error: "):
        return [message]
    return [message, f"op: {shortened_text(str(op).strip().partition(chr(10))[0])}"]


def _pass_note(frames: Sequence[FrameType]) -> str:
    """Name the pass that failed or left invalid IR, in the words of `apply_passes`."""
    for frame in reversed(frames):
        if isinstance(module_pass := frame.f_locals.get("self"), ModulePass):
            return f" (in the pass {module_pass.name})"
        if isinstance(module_pass := frame.f_locals.get("previous_pass"), ModulePass):
            return f" (after the pass {module_pass.name})"
    return ""


def _failing_op(frames: Sequence[FrameType]) -> Operation | None:
    """Return the op whose method raised the error: `verify`, or `emit_error`."""
    subjects = (frame.f_locals.get("self") for frame in reversed(frames))
    return next((op for op in subjects if isinstance(op, Operation)), None)


def _source_line(file: str, number: int) -> str:
    """Return a line of a file, empty for standard input."""
    try:
        lines = Path(file).read_text(errors="replace").split("\n")
    except OSError:
        return ""
    return lines[number - 1] if number <= len(lines) else ""


def _excerpt(source: str, column: int) -> Sequence[str]:
    """Return a source line, cut to the surroundings of a column, and a caret."""
    if not source.strip():
        return []
    start = max(0, column - 1 - _WIDTH // 2) if len(source) > _WIDTH else 0
    shown = source[start : start + _WIDTH].replace("\t", " ")
    return [shown, " " * (column - 1 - start) + "^"]
