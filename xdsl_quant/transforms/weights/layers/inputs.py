"""
What the weights of a layer are multiplied by, as a matrix.

A layer is a product `X W` of matrices: `W` has a column for each output channel, and in
each row of `X` are the numbers that are multiplied by the weights of a column and added. Of
a convolution, these are the elements of a window (`im2col`). If groups of channels have
weights of their own, there is such a product for each group.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ShapedType
from xdsl.ir import Operation, SSAValue

from xdsl_quant.numerics.arrays import Array

from .layer import Layer


@dataclass(frozen=True)
class MatrixProduct:
    """A layer as products of matrices, one for each group of channels."""

    layer: Layer
    shape: tuple[int, ...]
    """The shape of the weights."""

    groups: int
    """How many groups of channels have weights of their own."""

    input: SSAValue | None
    """The value that has the rows of `X`, along the dimension `input_dimension`."""

    input_dimension: int

    @property
    def count(self) -> int:
        """How many columns `X` has."""
        rows: int = 1
        for d, size in enumerate(self.shape):
            rows *= 1 if d == self.layer.dimension else size
        return rows

    @property
    def outputs(self) -> int:
        """How many columns `W` has, in each group."""
        return self.shape[self.layer.dimension] // self.groups

    def matrices(self, weights: Array) -> Array:
        """
        Numbers of the shape of the weights as matrices.

        Returns:
            an array of shape `(groups, count, outputs)`.
        """
        rows = np.moveaxis(weights, self.layer.dimension, -1)
        split = rows.reshape(self.count, self.groups, self.outputs)
        return split.transpose(1, 0, 2)

    def weights(self, matrices: Array) -> Array:
        """Return the inverse of `matrices`."""
        sizes = [n for d, n in enumerate(self.shape) if d != self.layer.dimension]
        rows = matrices.transpose(1, 0, 2).reshape(*sizes, -1)
        return np.moveaxis(rows, -1, self.layer.dimension)

    def probes(self) -> Sequence[Sequence[Operation]]:
        """
        Ops whose last results are the columns of `X`, if no value has them: products by
        weights that are 1 at one input for each output channel, and 0 at all others.
        """
        found: list[Sequence[Operation]] = []
        for start in range(0, self.count, self.outputs):
            ones = np.eye(self.count, self.outputs, -start)
            matrices = np.broadcast_to(ones, (self.groups, *ones.shape))
            found.append(self.layer.by_weights(self.weights(matrices)))
        return found

    def inputs(self, values: Sequence[Array]) -> NDArray[np.float64]:
        """
        Return the matrices `X`.

        Args:
            values: the input, or the results of all probes.

        Returns:
            an array of shape `(groups, n, count)`.
        """
        if self.input is not None:
            rows = np.moveaxis(values[0], self.input_dimension, -1)
            return rows.reshape(1, -1, self.count).astype(np.float64)
        columns = [
            np.moveaxis(each, self.layer.channel, -1).reshape(
                -1, self.groups, self.outputs
            )
            for each in values
        ]
        rows = np.concatenate(columns, -1)[..., : self.count]
        return rows.transpose(1, 0, 2).astype(np.float64)


def matrix_product_of(layer: Layer) -> MatrixProduct | None:
    """
    Return a layer as products of matrices; `None` if its op does not say how channels
    of the input are multiplied.
    """
    value, dimensions = layer.input()
    if dimensions is None:
        return None
    shape = cast("ShapedType", layer.weight.value.type).get_shape()
    if len(shape) == 2:
        return MatrixProduct(layer, shape, 1, value, dimensions[0])
    channels = cast("ShapedType", value.type).get_shape()[dimensions[0]]
    # In a depthwise convolution, each channel of the input is a group.
    is_depthwise = dimensions[1] == layer.dimension
    size = 1 if is_depthwise else shape[dimensions[1]]
    if channels <= 0 or channels % size:
        return None
    return MatrixProduct(layer, shape, channels // size, None, dimensions[0])
