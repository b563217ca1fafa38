"""Type aliases for batches: the arguments of one call of a function."""

from numpy.typing import ArrayLike

Arguments = tuple[ArrayLike, ...]

Batch = ArrayLike | Arguments
"""Arguments of a function: a tuple, or its only argument."""


def as_tuple(batch: Batch) -> Arguments:
    """Return the arguments of a function as a tuple."""
    return batch if isinstance(batch, tuple) else (batch,)
