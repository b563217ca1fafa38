"""Options shared by several commands, and the progress bar."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, get_args

from xdsl_quant import __version__
from xdsl_quant.rounding_mode import NanResult, RoundingMode, ZeroPointOrder

_BAR_LENGTH = 40

_T = TypeVar("_T")

_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "module": {
        "help": "file with the module, - for standard input, or a .tflite file",
    },
    "--entry": {
        "metavar": "NAME",
        "help": "function to run (default: the only public function, or 'main')",
    },
    "-p/--passes": {
        "default": "",
        "metavar": "PIPELINE",
        "help": "pass pipeline to apply first, in the syntax of xdsl-opt",
    },
    "--shape": {
        "action": "append",
        "default": [],
        "metavar": "NAME=SIZES",
        "help": "shape of a dynamic input of a .tflite file, e.g. x=1x16x16x3; repeat for "
        "each input",
    },
    "--static": {
        "action": "store_true",
        "help": "replace dynamic sizes by those stored in the .tflite file, or by 1",
    },
    "--labels": {
        "metavar": "FILE",
        "help": "class index of each sample, to measure accuracy: a .npy file, or a .npz "
        "file with one array",
    },
    "--json": {
        "metavar": "FILE",
        "help": "also write the result to this file as JSON",
    },
    "--checkpoint": {
        "metavar": "FILE",
        "help": "file with the progress of the calibration, from which an interrupted run "
        "with the same samples resumes",
    },
    "--no-progress": {
        "action": "store_false",
        "dest": "progress",
        "help": "hide the progress bar, which is shown if standard error is a terminal",
    },
}
"""Keyword arguments of `add_argument` for each shared option."""

_ROUNDING = {
    "rounding_mode": (RoundingMode, "rounding of casts (default: nearest-even)"),
    "zero_point_order": (
        ZeroPointOrder,
        "add the zero point before or after rounding (default: before-rounding)",
    ),
    "nan": (
        NanResult,
        "stored value of NaN, for casts without quant.nan (default: storage-min)",
    ),
}
"""Options of casts: fields of `Rounding` with their values and help."""


def command_parser(prog: str, description: str | None) -> argparse.ArgumentParser:
    """
    Return a parser with the options `--help` and `--version`.

    Args:
        prog: the name of the command.
        description: the help text, with examples.
    """
    parser = argparse.ArgumentParser(
        prog=prog,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    return parser


def add_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """
    Add shared options.

    Args:
        parser: the parser of a command.
        names: keys of `_OPTIONS`, in the order of the help.
    """
    for name in names:
        parser.add_argument(*name.split("/"), **_OPTIONS[name])


def module_parser(
    prog: str, description: str | None, inputs: str, *, required: bool
) -> argparse.ArgumentParser:
    """
    Return the parser of a command that runs a module on inputs.

    Args:
        prog: the name of the command.
        description: the help text, with examples.
        inputs: the flag for inputs.
        required: True if the command requires at least one input.
    """
    parser = command_parser(prog, description)
    add_options(parser, "module", "--entry", "-p/--passes", "--shape", "--static")
    parser.add_argument(
        inputs,
        dest="inputs",
        action="append",
        default=[],
        required=required,
        metavar="VALUE",
        help="argument of the function, repeated for each: a .npy file, file.npz:key, a "
        "number, or a list of numbers; file.npz stands for all its arrays",
    )
    return parser


def add_rounding_options(parser: argparse.ArgumentParser, title: str) -> None:
    """Add the options of casts as a titled group."""
    group = parser.add_argument_group(title)
    for name, (values, description) in _ROUNDING.items():
        option = f"--{name.replace('_', '-')}"
        group.add_argument(option, choices=get_args(values), help=description)


def rounding_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of casts that the user set."""
    values = {name: getattr(options, name) for name in _ROUNDING}
    return {name: value for name, value in values.items() if value is not None}


def shows_progress(options: argparse.Namespace) -> bool:
    """Return True if the command shows a progress bar."""
    return options.progress and sys.stderr.isatty()


def with_progress(batches: Iterable[_T], count: int | None) -> Iterator[_T]:
    """Yield batches, and show their number on standard error."""
    try:
        _show(0, count)
        for done, batch in enumerate(batches, 1):
            yield batch
            _show(done, count)
    finally:
        print(file=sys.stderr)


def _show(done: int, count: int | None) -> None:
    if not count:
        text = f"\r{done} batches"
    else:
        bar = "#" * (done * _BAR_LENGTH // count)
        text = f"\r[{bar:<{_BAR_LENGTH}}] {done}/{count} batches"
    print(text, end="", file=sys.stderr, flush=True)


def with_counted_progress(chunks: Iterable[_T]) -> Iterator[_T]:
    """Yield chunks, and show their progress; all chunks are collected first."""
    known = [*chunks]
    return with_progress(known, len(known))
