"""Warnings about a user's model, at the user's line."""

from __future__ import annotations

import warnings
from inspect import currentframe

_PACKAGE = __name__.partition(".")[0]


def warn_user(message: str) -> None:
    """Warn at the innermost line outside of this package."""
    level, frame = 1, currentframe()
    while frame is not None and _is_here(frame.f_globals.get("__name__")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def _is_here(module: object) -> bool:
    return str(module).partition(".")[0] == _PACKAGE
