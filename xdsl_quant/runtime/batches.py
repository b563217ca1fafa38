"""Batches: the arguments of one call of a function."""

from numpy.typing import ArrayLike

Arguments = tuple[ArrayLike, ...]
"""The arguments of a function."""

Batch = ArrayLike | Arguments
"""The arguments of a function: a tuple, or the only one of them."""


def as_tuple(batch: Batch) -> Arguments:
    """Return the arguments of a function as a tuple."""
    return batch if isinstance(batch, tuple) else (batch,)
