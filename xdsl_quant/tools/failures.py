"""Reading the module of a command, and reporting errors in one line."""

import argparse
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from xdsl_quant.diagnostics import colored
from xdsl_quant.runtime.atomic_files import open_atomically
from xdsl_quant.runtime.loading import (
    IRError,
    apply_passes,
    format_of_content,
    model_format,
    multiverse,
    parse_module,
    parse_passes,
    read_by_format,
    read_model_file,
    read_utf8,
    suffixes,
)
from xdsl_quant.runtime.plugins import PluginError, ReaderOptions, dialects_in

_INFER_SHAPES = "tfl-infer-shapes"

_TRACEBACK = "XDSL_QUANT_TRACEBACK"
"""Environment variable that makes a command print the traceback of a bug."""


class Failure(Exception):
    """An error message for the user."""

    code = 1
    """Exit code of the command."""


class UsageError(Failure):
    """An error message about arguments that do not belong together."""

    code = 2


def exit_code(
    run: Callable[[argparse.Namespace], None], options: argparse.Namespace
) -> int:
    """
    Run a command, report its errors, and return its exit code.

    Returns:
        0; 1 after an error message, 2 after one about the usage, 70 after one about a bug
        of this package; 130 after an interrupt; 141 if standard output is a closed pipe.
    """
    try:
        with _short_warnings():
            run(options)
        # At interpreter exit, write errors would be lost.
        sys.stdout.flush()
    except Failure as message:
        return _print_message(message)
    except PluginError as error:
        return _print_message(f"xdsl.universe: error: {error}")
    except BrokenPipeError:
        drop_output()
        return 141
    except OSError as error:  # Commands report errors of named files themselves.
        drop_output()
        return _print_message(failure_at("standard output", error))
    except MemoryError as error:
        details = f": {error}" if str(error) else ""
        return _print_message(f"{options.module}: error: not enough memory{details}")
    except KeyboardInterrupt:
        checkpoint = getattr(options, "checkpoint", None)
        is_kept = checkpoint is not None and Path(checkpoint).exists()
        remedy = (
            f"; run the same command to resume from {checkpoint}" if is_kept else ""
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
    _print_message(
        f"{place}: error: bug in xdsl-quant: {type(error).__name__}"
        f"{f': {reason}' if reason else ''}; please report it with the traceback; set "
        f"{_TRACEBACK}=1 to print the traceback"
    )
    return 70


@contextmanager
def _short_warnings() -> Generator[None]:
    """Print each warning as one line, without the source location."""

    def show(message: Warning | str, *args: object) -> None:
        _print_message(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _print_message(message: Failure | str) -> int:
    print(colored(str(message), sys.stderr), file=sys.stderr)
    return getattr(message, "code", 1)


def print_results(lines: Iterable[object], options: argparse.Namespace) -> None:
    """
    Print results: nothing if `--json` is `-`, to standard error if another output is `-`.
    Call this before files are written, so that a failure leaves no file. A closed pipe is
    not an error if there is an output file.

    Raises:
        OSError: if the results cannot be printed.
    """
    json, *others = (getattr(options, name, None) for name in ("json", *_OUTPUTS))
    if json == "-":
        return
    stream = sys.stderr if "-" in others else sys.stdout
    try:
        for line in lines:
            print(line, file=stream)
        stream.flush()
    except BrokenPipeError:
        if not any((json, *others)):
            raise
        drop_output()


_OUTPUTS = ("output", "report")


def drop_output() -> None:
    """Discard buffered output that cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def failure_at(place: str, error: BaseException) -> Failure:
    """Convert an error to a failure; its message starts with `place`, a file or option."""
    # Errors in samples have the file as attribute.
    place = getattr(error, "source", "") or place
    message = str(getattr(error, "message", error)).partition("\n")[0]
    if isinstance(error, OSError) and error.strerror:
        place = error.filename or place
        message = error.strerror.lower()
    # Errors of ops already start with a location, unless a batch number precedes it.
    if ": error: " in message and not message.startswith("batch "):
        # A tensor name alone does not identify the file.
        is_name = message.startswith("loc(")
        return Failure(f"{place}: {message}" if is_name else message)
    return Failure(f"{place}: error: {message.removeprefix('error: ')}")


@contextmanager
def naming_failures(place: str, *errors: type[Exception]) -> Generator[None]:
    """
    Convert errors of the given types to failures that name `place`, a file or option.

    Raises:
        Failure: instead of an error of these types.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except errors as error:
        raise failure_at(place, error) from error


@contextmanager
def report_file(path: str | None, text: str) -> Generator[None]:
    """
    Write a report to a file, or to standard output for `-`, if the `with` block, which
    writes another file, succeeds.

    Raises:
        Failure: if the report cannot be written.
    """
    if path is None or path == "-":
        yield
        print(end=text if path else "")
        return
    with open_output(path) as file:
        file.write(text.encode())
        file.flush()
        yield


def write_text(path: str | None, text: str) -> None:
    """
    Write text to a file, or to standard output for `-`; do nothing if `path` is `None`.

    Raises:
        Failure: if the file cannot be written.
    """
    with report_file(path, text):
        pass


@contextmanager
def open_output(path: str) -> Generator[BinaryIO]:
    """
    Open a file that is written completely or not at all, or standard output for `-`.

    Raises:
        Failure: if the file cannot be written.
    """
    if path != "-":
        with naming_failures(path, OSError), open_atomically(path) as file:
            yield file
        return
    sys.stdout.flush()
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def read_module(options: argparse.Namespace, ctx: Context | None = None) -> ModuleOp:
    """
    Read the module of a command and apply its passes.

    Args:
        options: the options of `module_parser`.
        ctx: the context (default: all dialects that `xdsl-opt` finds).

    Raises:
        Failure: if the module cannot be read or is invalid, or a pass fails.
    """
    path: str = options.module
    sizes = ReaderOptions(
        shapes=dict(map(_input_shape, options.shape)), static=options.static
    )
    if options.constant:
        sizes["constants"] = options.constant
    is_file = model_format(path) is not None
    stdin = standard_input() if path == "-" else None
    format_ = format_of_content(stdin.getvalue()) if stdin is not None else None
    text = "" if is_file or format_ is not None else read_text(path, stdin)
    with naming_failures(path, IRError, ImportError):
        passes = parse_passes(options.passes)
        if is_file:
            module = read_model_file(path, **sizes)
        elif stdin is not None and format_ is not None:
            module = read_by_format(format_, stdin.getvalue(), **sizes)
        else:
            module = parse_module(text, path, ctx)
            if any(sizes.values()):
                passes = [_shape_pass(options, module), *passes]
        apply_passes(module, passes, ctx)
        return module


def _shape_pass(options: argparse.Namespace, module: ModuleOp) -> ModulePass:
    """Return the pass that applies --shape and --static to a module."""
    load = multiverse().all_passes.get(_INFER_SHAPES)
    if load is None or "tfl" not in dialects_in(module) or options.constant:
        raise Failure(
            f"{options.module}: error: --shape, --static and --constant are for "
            f"{suffixes()} models; the sizes of other modules are in their types"
        )
    arguments = {"shapes": tuple(options.shape), "static": options.static}
    return cast(Any, load())(**arguments)


def read_type_or_module(options: argparse.Namespace) -> str | ModuleOp:
    """
    Return the text of a quantized type, which begins with `!`, or read a module.

    Raises:
        Failure: if an option for modules is set with a type, or `read_module` fails.
    """
    text: str = options.module
    if not text.startswith("!"):
        if text.startswith("quant.") and not Path(text).exists():
            raise Failure(f"{text}: error: a type begins with '!': '!{text}'")
        return read_module(options)
    for name in ("passes", "shape", "static", "constant"):
        if getattr(options, name):
            raise Failure(
                f"{text}: error: option --{name} has no effect for a type; remove it"
            )
    return text


_MAX_SIZE = (1 << 31) - 1
"""Largest size of a dimension in a `.tflite` file."""


def _input_shape(text: str) -> tuple[str, list[int]]:
    """
    Parse a shape such as `x=1x16x16x3`.

    Raises:
        Failure: if the text has a different form.
    """
    name, equals, sizes = text.rpartition("=")
    numbers = sizes.split("x") if sizes else []
    if not (name and equals) or not all(map(str.isdecimal, numbers)):
        raise Failure(f"--shape {text}: error: expected NAME=SIZES, e.g. x=1x16x16x3")
    shape = [int(number) for number in numbers]
    if (largest := max(shape, default=0)) > _MAX_SIZE:
        raise Failure(
            f"--shape {text}: error: expected sizes up to {_MAX_SIZE}, found {largest}"
        )
    return name, shape


def standard_input() -> io.BytesIO:
    """Read standard input, which may be a model file."""
    with naming_failures("-", OSError):
        return io.BytesIO(sys.stdin.buffer.read())


def read_text(path: str, stdin: BinaryIO | None = None) -> str:
    """
    Read the text of a module from a file, or from `stdin` if it is given.

    Raises:
        Failure: if the file cannot be read or is not UTF-8 text.
    """
    with naming_failures(path, OSError, IRError):
        if stdin is not None:
            return read_utf8(stdin, path)
        with Path(path).open("rb") as stream:
            return read_utf8(stream, path)
