"""What the name of a file says of its content."""

from __future__ import annotations

import os


def has_suffix(path: str | os.PathLike[str], *suffixes: str) -> bool:
    """Whether the name of a file ends with one of these, such as `.npy`, in any case."""
    return os.fspath(path).lower().endswith(suffixes)
