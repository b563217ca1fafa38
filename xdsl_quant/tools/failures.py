"""What all commands share: the module that they are about, and errors in one line."""

import argparse
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.runtime.atomic_files import open_atomically
from xdsl_quant.runtime.loading import (
    IRError,
    apply_passes,
    model_format,
    parse_module,
    parse_passes,
    read_model_file,
    suffixes,
)
from xdsl_quant.runtime.plugins import PluginError

_BYTECODE = b"ML\xefR"
"""How a file with MLIR bytecode begins."""


_TRACEBACK = "XDSL_QUANT_TRACEBACK"
"""The environment variable that lets a command print the traceback of a bug."""


class Failure(Exception):
    """What to tell the user."""


def exit_code(
    run: Callable[[argparse.Namespace], None], options: argparse.Namespace
) -> int:
    """
    Run a command on its options, of which `module` is what it is about.

    Returns:
        0; 1 after an error message; 130 if the user interrupts it; 141 if nobody reads its
        output any more; 70 (`EX_SOFTWARE`) after a message about a bug of this package.
    """
    try:
        with _short_warnings():
            run(options)
        # Else what is left in the buffer is written when there is nobody to see an error.
        sys.stdout.flush()
    except Failure as message:
        return _told(message)
    except PluginError as error:
        return _told(f"xdsl.universe: error: {error}")
    except BrokenPipeError:
        drop_output()
        return 141
    except OSError as error:  # Not of files, of which commands say the names.
        drop_output()
        return _told(failure_at("standard output", error))
    except MemoryError as error:
        details = f": {error}" if str(error) else ""
        return _told(f"{options.module}: error: there is not enough memory{details}")
    except KeyboardInterrupt:
        checkpoint = getattr(options, "checkpoint", None)
        is_kept = checkpoint is not None and Path(checkpoint).exists()
        remedy = (
            f"; to go on from {checkpoint}, run the same command" if is_kept else ""
        )
        print(f"interrupted{remedy}", file=sys.stderr)
        return 130
    except Exception as error:
        drop_output()
        return _reported_bug(options.module, error)
    return 0


def _reported_bug(place: str, error: Exception) -> int:
    if os.environ.get(_TRACEBACK):
        traceback.print_exception(error)
    reason = str(error).partition("\n")[0]
    print(
        f"{place}: error: bug in xdsl-quant: {type(error).__name__}"
        f"{f': {reason}' if reason else ''}; please report it with the traceback, which "
        f"{_TRACEBACK}=1 in the environment prints",
        file=sys.stderr,
    )
    return 70


@contextmanager
def _short_warnings() -> Generator[None]:
    """Let warnings be one line, without the place in the code that gives them."""

    def show(message: Warning | str, *args: object) -> None:
        print(f"warning: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _told(message: Failure | str) -> int:
    print(message, file=sys.stderr)
    return 1


def print_results(lines: Iterable[object], *files: str | None) -> None:
    """
    Print results before they are written to files: if they cannot be printed, the command
    fails and leaves no file.

    Args:
        lines: the results.
        files: the files, `None` for those that are not wanted. If there is one, a reader
            of the output that has gone is not an error.

    Raises:
        OSError: if the results cannot be printed.
    """
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except BrokenPipeError:
        if not any(files):
            raise
        drop_output()


def drop_output() -> None:
    """Let what is left in a buffer go nowhere, if it cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def failure_at(place: str, error: BaseException) -> Failure:
    """What to tell of an error that happened at a place, e.g. in a file."""
    # Errors of samples know the file and what is wrong with it.
    place = getattr(error, "source", "") or place
    message = str(getattr(error, "message", error)).partition("\n")[0]
    if isinstance(error, OSError) and error.strerror:
        place = error.filename or place
        message = error.strerror.lower()
    # Errors of ops say themselves where; in a batch they do so in the middle.
    if ": error: " in message and not message.startswith("batch "):
        # Names of tensors are not those of files.
        is_name = message.startswith("loc(")
        return Failure(f"{place}: {message}" if is_name else message)
    return Failure(f"{place}: error: {message.removeprefix('error: ')}")


@contextmanager
def reported(place: str, *errors: type[Exception]) -> Generator[None]:
    """
    Report errors of these types as ones that happened at a place.

    Raises:
        Failure: in place of such an error.
    """
    try:
        yield
    except errors as error:
        raise failure_at(place, error) from error


@contextmanager
def report_file(path: str | None, text: str) -> Generator[None]:
    """
    Write a report to a file, unless the block fails that writes another file.

    Raises:
        Failure: if the report cannot be written.
    """
    if path is None:
        yield
        return
    with reported(path, OSError), open_atomically(path) as file:
        file.write(text.encode())
        file.flush()
        yield


def write_json(path: str | None, text: str) -> None:
    """
    Write the data of a command to the file of `--json`, if there is one.

    Raises:
        Failure: if it cannot be written.
    """
    with report_file(path, text):
        pass


def read_module(options: argparse.Namespace, ctx: Context | None = None) -> ModuleOp:
    """
    The module that the options of a command name, after the passes.

    Args:
        options: those of `module_parser`.
        ctx: the dialects; all that `xdsl-opt` finds by default.

    Raises:
        Failure: if it cannot be read, or is invalid, or a pass fails.
    """
    path: str = options.module
    shapes = dict(map(_input_shape, options.shape))
    is_file = model_format(path) is not None
    if not is_file and (shapes or options.static):
        raise Failure(
            f"{path}: error: --shape and --static are for {suffixes()} files; the sizes of "
            "a module are in its types"
        )
    text = "" if is_file else read_text(path)
    with reported(path, IRError, ImportError):
        passes = parse_passes(options.passes)
        if is_file:
            module = read_model_file(path, shapes=shapes, static=options.static)
        else:
            module = parse_module(text, path, ctx)
        apply_passes(module, passes, ctx)
        return module


def read_type_or_module(options: argparse.Namespace) -> str | ModuleOp:
    """
    What the options of a command name: the text of a quantized type, which begins with
    `!`, or else a module.

    Raises:
        Failure: if an option for modules is given for a type, or as `read_module` says.
    """
    text: str = options.module
    if not text.startswith("!"):
        if text.startswith("quant.") and not Path(text).exists():
            raise Failure(f"{text}: error: a type begins with '!': '!{text}'")
        return read_module(options)
    for name in ("passes", "shape", "static"):
        if getattr(options, name):
            raise Failure(
                f"{text}: error: option --{name} has no meaning of a type; leave it out"
            )
    return text


def _input_shape(text: str) -> tuple[str, list[int]]:
    """
    Raises:
        Failure: if a text is not like `x=1x16x16x3`.
    """
    name, equals, sizes = text.rpartition("=")
    numbers = sizes.split("x") if sizes else []
    if not (name and equals) or not all(map(str.isdecimal, numbers)):
        raise Failure(f"--shape {text}: error: expected NAME=SIZES, e.g. x=1x16x16x3")
    return name, [int(number) for number in numbers]


def read_text(path: str) -> str:
    """
    The text of a module in a file, or on the standard input for `-`.

    Raises:
        Failure: if it cannot be read, or is no text.
    """
    with reported(path, OSError):
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    if data.startswith(_BYTECODE):
        raise Failure(
            f"{path}: error: expected the text of a module, but got MLIR bytecode; "
            "mlir-opt turns it into text"
        )
    if data[4:8] == b"TFL3":
        raise Failure(
            f"{path}: error: expected the text of a module, but got a TensorFlow Lite "
            "file; give the path of one that is called '.tflite'"
        )
    try:
        # With whatever a line ends with.
        text = io.TextIOWrapper(io.BytesIO(data), "utf-8").read()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Failure(
            f"{path}: error: expected the text of a module, but got a binary file; use "
            "UTF-8 text, like that of a .mlir file"
        )
    return text
