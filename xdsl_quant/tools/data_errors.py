"""Errors of samples and labels in one line."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from xdsl_quant.quantizer.samples import DataError

from .failures import Failure


@contextmanager
def reported_data(data: str) -> Generator[None]:
    """
    Report samples or labels that cannot be used as a mistake in a file.

    Args:
        data: the file with samples, for errors that do not say which file they are about.

    Raises:
        Failure: in place of a `DataError`.
    """
    try:
        yield
    except DataError as error:
        place = error.source or data
        raise Failure(f"{place}: error: {error.message}") from error
