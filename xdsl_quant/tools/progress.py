"""A progress bar."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

_BAR_LENGTH = 40

_T = TypeVar("_T")


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
