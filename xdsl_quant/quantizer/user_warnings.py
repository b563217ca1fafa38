"""Warnings about a model, located at the line of user code that called this package."""

import warnings
from collections.abc import Mapping
from inspect import currentframe

from .signal_noise import Error, decibels, relative_noise

_PACKAGE = __name__.partition(".")[0]


def warn_user(message: str) -> None:
    """Warn, with the source line of the innermost caller outside this package."""
    level, frame = 1, currentframe()
    while (
        frame is not None
        and _PACKAGE == str(frame.f_globals.get("__name__")).partition(".")[0]
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


# Results

LEAST_SQNR = 10.0
"""SQNR in dB below which results are hardly useful."""

_MOST_LOST = 0.5
"""Largest loss of SQNR in dB that may be chance."""


def warn_of_low_sqnr(errors: Mapping[str, Error]) -> None:
    """Warn of the result with the lowest SQNR, if it is below `LEAST_SQNR`."""
    low = {
        key: error.sqnr
        for key, error in errors.items()
        if error.signal and error.sqnr < LEAST_SQNR
    }
    if not low:
        return
    key = min(low, key=low.__getitem__)
    warn_user(
        f"low SQNR of result '{key}': {decibels(low[key])} dB on the samples, expected "
        f"{LEAST_SQNR:.0f} dB or more; give more bits to the kernels with the largest "
        "errors in the report, or keep them in floating point"
    )


def warn_of_worse_results(
    step: str, before: Mapping[str, Error], after: Mapping[str, Error]
) -> None:
    """
    Warn if a step increased the error of results.

    Args:
        step: the name of the step in the warning, such as a line of a recipe.
        before: the errors of results without the step.
        after: the errors of results with it.
    """
    without, found = (
        Error(1.0, relative_noise(errors)).sqnr for errors in (before, after)
    )
    if found < without - _MOST_LOST:
        warn_user(
            f"{step} reduces the SQNR of the results from {decibels(without)} dB to "
            f"{decibels(found)} dB; leave it out"
        )
