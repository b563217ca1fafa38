"""Proofs for means of windows."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from xdsl_quant.numerics.arrays import Array

from ..terms import UnsupportedError
from .affine import AffineProof
from .elementwise import MAX_CALLS, compare_results
from .forms import has_different_constants


class MeanProof(AffineProof):
    """Proof for means of windows that do not overlap."""

    def decide(self) -> str:
        """Return the method; see `validation.decide`."""
        op: Any = self.comparison.kernel.op
        self._window = op.filter_height.value.data, op.filter_width.value.data
        height, width = self._window
        strides = op.stride_h.value.data, op.stride_w.value.data
        batch, rows, columns, channels = self.shape
        if strides != (height, width) and (rows, columns) != (height, width):
            raise UnsupportedError("its windows overlap")
        if rows % height or columns % width:
            raise UnsupportedError("its windows have padding")
        start, ones = self.affine(self.base), self.dependences(self.base)
        for members in self.classes():
            x = self.input_with(members, 1)
            changes = self.dependences(x) - ones, self.affine(x) - start
            if any((change != 1).any() for change in changes):
                self.refute_sums()
        grid = (batch, rows // height, columns // width, channels)
        numbers = np.arange(prod(grid)).reshape(grid)
        count = height * width
        for bit in range(max(1, numbers.size - 1).bit_length()):
            bits = numbers >> bit & 1
            x = self._windows(np.broadcast_to(bits[..., None], (*grid, count)))
            change = (self.affine(x) - start).reshape(grid)
            if (change != bits * count).any():
                self.refute_sums()
        return self._compare_sums(numbers, count)

    def _compare_sums(self, numbers: Array, count: int) -> str:
        """Compare the results for all sums, given numbers of the windows of a size."""
        total = count * (self.high - self.low) + 1
        # Each element gets all sums if its constants may differ from those of others.
        is_shared = not has_different_constants(self.comparison.form, [self.value])
        step = numbers.size if is_shared else 1
        if total > step * MAX_CALLS:
            raise UnsupportedError("its code has different constants for elements")

        def inputs() -> Iterator[Sequence[Array]]:
            for first in range(0, total, step):
                sums = np.minimum(first + numbers * is_shared, total - 1)[..., None]
                parts = [sums // count + (i < sums % count) for i in range(count)]
                yield [self._windows(np.concatenate(parts, -1))]

        compare_results(self.comparison, inputs())
        return f"{total:,} sums of {count} elements"

    def _windows(self, offsets: Array) -> Array:
        """Return an argument, given the offsets `[batch, rows, columns, channels, i]`."""
        height, width = self._window
        batch, rows, columns, channels, _ = offsets.shape
        grid = offsets.reshape(batch, rows, columns, channels, height, width)
        image = grid.transpose(0, 1, 4, 2, 5, 3).reshape(self.shape)
        return (image + self.low).astype(self.base.dtype)
