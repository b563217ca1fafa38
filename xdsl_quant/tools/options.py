"""Rounding options of commands, and the progress bar."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

_BAR_LENGTH = 40

_T = TypeVar("_T")

_ROUNDING = ("rounding_mode", "zero_point_order", "nan")


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
