"""The options that commands share."""

from __future__ import annotations

import argparse
import sys
from typing import Any, get_args

from xdsl_quant import __version__
from xdsl_quant.rounding_mode import NanResult, RoundingMode, ZeroPointOrder

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
    add_module_argument(parser)
    add_entry_option(parser)
    add_passes_option(parser)
    add_size_options(parser)
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


def add_module_argument(
    parser: argparse.ArgumentParser, name: str = "the module"
) -> None:
    """Add the argument for the module that a command is about, whatever it is called."""
    parser.add_argument(
        "module", help=f"file with {name}, - for standard input, or a .tflite file"
    )


def add_entry_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for the function that is run."""
    parser.add_argument(
        "--entry",
        metavar="NAME",
        help="the function; by default the only public one, or else 'main'",
    )


def add_passes_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for what is done with a module first."""
    parser.add_argument(
        "-p",
        "--passes",
        default="",
        metavar="PIPELINE",
        help="passes to apply first, as for xdsl-opt",
    )


def add_size_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for sizes that a .tflite file does not know."""
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=SIZES",
        help="the shape of an input of a .tflite file with dynamic sizes, e.g. "
        "x=1x16x16x3; once for each",
    )
    parser.add_argument(
        "--static",
        action="store_true",
        help="take the sizes for which the .tflite file was written, 1 for unknown ones, "
        "instead of dynamic sizes",
    )


def add_labels_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for labels of the samples that are measured."""
    parser.add_argument(
        "--labels",
        metavar="FILE",
        help="the index of the class of each sample, to measure accuracy with: a .npy "
        "file, or a .npz file with one array",
    )


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for what is printed as data."""
    parser.add_argument(
        "--json", metavar="FILE", help="where to write what is printed, as JSON"
    )


def add_checkpoint_option(parser: argparse.ArgumentParser, samples: str) -> None:
    """
    Add the option for a file from which a calibration is resumed.

    Args:
        parser: the parser of a command.
        samples: what the command calls its samples.
    """
    parser.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="where to keep what was observed, so that an interrupted run of the same "
        f"{samples} is resumed",
    )


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


def add_progress_option(parser: argparse.ArgumentParser) -> None:
    """Add the option for no progress bar."""
    parser.add_argument(
        "--no-progress",
        action="store_false",
        dest="progress",
        help="do not show how far it is, which is shown if standard error is a terminal",
    )


def shows_progress(options: argparse.Namespace) -> bool:
    """Whether there is a progress bar."""
    return options.progress and sys.stderr.isatty()
