"""What a command says of a mistake: one line, with the place."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from numpy.typing import ArrayLike

from .array_files import read_inputs


class Failure(Exception):
    """What to tell the user."""


def exit_code(
    run: Callable[[argparse.Namespace], None], options: argparse.Namespace
) -> int:
    """Run a command: 0, or 1 after an error message."""
    try:
        run(options)
    except Failure as message:
        print(message, file=sys.stderr)
        return 1
    return 0


def failure(place: str, error: BaseException) -> Failure:
    """What to tell of an error that happened at a place, e.g. in a file."""
    message = str(error).partition("\n")[0]
    if isinstance(error, OSError) and error.strerror:
        place = error.filename or place
        message = error.strerror.lower()
    # Errors of ops say themselves where; in a batch they do so in the middle.
    if ": error: " in message and not message.startswith("batch "):
        return Failure(message)
    return Failure(f"{place}: error: {message.removeprefix('error: ')}")


def read_text(path: str) -> str:
    """
    The text of a file, or of the standard input for `-`.

    Raises:
        Failure: if it cannot be read.
    """
    try:
        if path == "-":
            return sys.stdin.read()
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise failure(path, error) from error


def read_values(text: str) -> list[ArrayLike]:
    """
    The values that an argument of the command stands for.

    Raises:
        Failure: if it stands for none.
    """
    try:
        return read_inputs(text)
    except (OSError, ValueError) as error:
        raise failure(f"input {text}", error) from error
