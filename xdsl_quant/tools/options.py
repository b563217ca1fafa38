"""The options that commands share, and the progress bar that one of them hides."""

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
        "help": "the function; by default the only public one, or else 'main'",
    },
    "-p/--passes": {
        "default": "",
        "metavar": "PIPELINE",
        "help": "passes to apply first, as for xdsl-opt",
    },
    "--shape": {
        "action": "append",
        "default": [],
        "metavar": "NAME=SIZES",
        "help": "the shape of an input of a .tflite file with dynamic sizes, e.g. "
        "x=1x16x16x3; once for each",
    },
    "--static": {
        "action": "store_true",
        "help": "take the sizes for which the .tflite file was written, 1 for unknown "
        "ones, instead of dynamic sizes",
    },
    "--labels": {
        "metavar": "FILE",
        "help": "the index of the class of each sample, to measure accuracy with: a .npy "
        "file, or a .npz file with one array",
    },
    "--json": {
        "metavar": "FILE",
        "help": "where to write what is printed, as JSON",
    },
    "--checkpoint": {
        "metavar": "FILE",
        "help": "where to keep what was observed, so that an interrupted run of the same "
        "samples is resumed",
    },
    "--no-progress": {
        "action": "store_false",
        "dest": "progress",
        "help": "do not show how far it is, which is shown if standard error is a terminal",
    },
}
"""Arguments of `add_argument` for options that commands share, by their flags."""

_ROUNDING = {
    "rounding_mode": (RoundingMode, "how they round (default: nearest-even)"),
    "zero_point_order": (
        ZeroPointOrder,
        "when they add the zero point (default: before-rounding)",
    ),
    "nan": (
        NanResult,
        "the stored value that NaN becomes where they do not say it (default: "
        "storage-min)",
    ),
}
"""The options of casts, which are fields of `Rounding`."""


def command_parser(prog: str, description: str | None) -> argparse.ArgumentParser:
    """
    A parser of the options of a command, so far of `--help` and `--version`.

    Args:
        prog: the name of the command.
        description: what it does, with examples.
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
    Add options that commands share.

    Args:
        parser: the parser of a command.
        names: their names as in `_OPTIONS`, in the order of the help.
    """
    for name in names:
        parser.add_argument(*name.split("/"), **_OPTIONS[name])


def module_parser(
    prog: str, description: str | None, inputs: str, *, required: bool
) -> argparse.ArgumentParser:
    """
    A parser of the options of commands that run a module: it, passes, entry and inputs.

    Args:
        prog: the name of the command.
        description: what it does, with examples.
        inputs: the option for inputs.
        required: whether there must be one.
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
        help="an argument of the function, once for each: a .npy file, file.npz:key, a "
        "number, or a list of numbers; file.npz stands for all arrays in it",
    )
    return parser


def add_rounding_options(parser: argparse.ArgumentParser, title: str) -> None:
    """Add the options of casts as a group with a title."""
    group = parser.add_argument_group(title)
    for name, (values, description) in _ROUNDING.items():
        option = f"--{name.replace('_', '-')}"
        group.add_argument(option, choices=get_args(values), help=description)


def given_rounding(options: argparse.Namespace) -> dict[str, Any]:
    """The options of casts that are given."""
    values = {name: getattr(options, name) for name in _ROUNDING}
    return {name: value for name, value in values.items() if value is not None}


def shows_progress(options: argparse.Namespace) -> bool:
    """Whether there is a progress bar."""
    return options.progress and sys.stderr.isatty()


def with_progress(batches: Iterable[_T], count: int | None) -> Iterator[_T]:
    """Pass on batches, and show on standard error how many of them there were."""
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
    """Pass on chunks, which are counted before, and show how many of them there were."""
    known = [*chunks]
    return with_progress(known, len(known))
