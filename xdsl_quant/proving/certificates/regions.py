"""Regions of arguments: balls around samples, boxes, and calibrated ranges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.runtime.arrays import shape_of
from xdsl_quant.runtime.entry_function import entry_function

from .linear_maps import Floats
from .networks import StoredRounding
from .readers import read_network

_LARGEST_F32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Region:
    """
    Sets of `f32` arguments, each from `low` to `high`, which have the shape
    `[regions, *shape of the argument]` or, if the argument has one row, `[regions, ...]`
    without the row.
    """

    low: Floats
    high: Floats

    def __post_init__(self) -> None:
        if self.low.shape != self.high.shape or not len(self.low):
            raise ValueError(
                f"invalid region: shapes {[*self.low.shape]} and {[*self.high.shape]}; "
                "expected equal shapes with at least one row"
            )
        if not np.all(np.isfinite(self.low) & np.isfinite(self.high)):
            raise ValueError("invalid region: a bound is not finite")
        if max(self.high.max(initial=0), -self.low.min(initial=0)) > _LARGEST_F32:
            raise ValueError("invalid region: a bound exceeds the range of f32")
        if np.any(self.low > self.high):
            raise ValueError("invalid region: a lower bound exceeds the upper bound")

    @staticmethod
    def ball(
        samples: ArrayLike,
        radius: float,
        limits: tuple[float, float] | None = None,
    ) -> Region:
        """
        Return the arguments that differ by at most `radius` from a sample in each element.

        Args:
            samples: a sample in each row.
            radius: largest difference, at least 0.
            limits: range of all elements, such as 0 and 1 for pixels.
        """
        if not 0 <= radius < np.inf:
            raise ValueError(f"expected a radius of at least 0, found {radius:g}")
        centers = np.asarray(samples, np.float64)
        low, high = centers - radius, centers + radius
        if limits is not None:
            if not limits[0] <= limits[1]:
                raise ValueError(
                    f"lower limit {limits[0]:g} exceeds upper limit {limits[1]:g}"
                )
            if np.any((centers < limits[0]) | (centers > limits[1])):
                raise ValueError(
                    f"a sample is outside of the limits {limits[0]:g} and {limits[1]:g}; "
                    f"samples are from {centers.min():g} to {centers.max():g}"
                )
            low, high = np.clip(low, *limits), np.clip(high, *limits)
        return Region(low, high)

    @staticmethod
    def box(low: ArrayLike, high: ArrayLike) -> Region:
        """Return the arguments between two arrays of the shape of the argument."""
        ends = (np.asarray(end, np.float64)[np.newaxis] for end in (low, high))
        return Region(*ends)

    @staticmethod
    def calibrated(quantized: ModuleOp, entry: str | None = None) -> Region:
        """Return the arguments that the quantized model stores without saturation."""
        function = entry_function(quantized, entry)
        network = read_network(function)
        shape = tuple(shape_of(function.args[0].type))
        users = network.users()[network.argument]
        found = [user for user in users if isinstance(user, StoredRounding)]
        if not found:
            raise ValueError(
                "the argument of the quantized model is never quantized; give samples and "
                "a radius, or the quantized model first"
            )
        size = network.argument.size
        ends = (np.broadcast_to(end, size) for end in (found[0].low, found[0].high))
        return Region.box(*(end.reshape(shape) for end in ends))

    def __len__(self) -> int:
        return len(self.low)

    def flattened(self, size: int) -> tuple[Floats, Floats]:
        """
        Return the bounds as `[regions, elements]`.

        Raises:
            ValueError: if a region does not have `size` elements.
        """
        rows = [end.reshape(len(self), -1) for end in (self.low, self.high)]
        if rows[0].shape[1] != size:
            raise ValueError(
                f"regions of {rows[0].shape[1]} elements do not match the argument, which "
                f"has {size}"
            )
        return rows[0], rows[1]

    def float_ends(self, size: int) -> tuple[Floats, Floats]:
        """Return the smallest and largest `f32` numbers of each region, as `f64`."""
        low, high = self.flattened(size)
        least, most = low.astype(np.float32), high.astype(np.float32)
        up, down = np.float32(np.inf), np.float32(-np.inf)
        least = np.where(least < low, np.nextafter(least, up), least)
        most = np.where(most > high, np.nextafter(most, down), most)
        # A region without `f32` numbers still has bounds, but no witness.
        return least.astype(np.float64), np.maximum(least, most).astype(np.float64)
