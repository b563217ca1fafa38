"""
Express a layer as a matrix product.

A layer is a product `X W` of matrices: `W` has a column for each output channel, and each
row of `X` contains the inputs for one row of outputs. For convolutions, a row of `X` has
the elements of a window (`im2col`). Channel groups with separate weights have separate
products.
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
    """A layer as matrix products, one per channel group."""

    layer: Layer
    shape: tuple[int, ...]

    groups: int
    """Number of channel groups with separate weights."""

    input: SSAValue | None
    """Value that contains `X`, columns along `input_dimension`; `None` for convolutions."""

    input_dimension: int

    @property
    def count(self) -> int:
        """Number of columns of `X`."""
        rows: int = 1
        for d, size in enumerate(self.shape):
            rows *= 1 if d == self.layer.dimension else size
        return rows

    @property
    def outputs(self) -> int:
        """Number of columns of `W` per group."""
        return self.shape[self.layer.dimension] // self.groups

    def matrices(self, weights: Array) -> Array:
        """Reshape weights to the matrices `W`, of shape `(groups, count, outputs)`."""
        rows = np.moveaxis(weights, self.layer.dimension, -1)
        split = rows.reshape(self.count, self.groups, self.outputs)
        return split.transpose(1, 0, 2)

    def weights(self, matrices: Array) -> Array:
        """Reshape matrices to the shape of the weights; the inverse of `matrices`."""
        sizes = [n for d, n in enumerate(self.shape) if d != self.layer.dimension]
        rows = matrices.transpose(1, 0, 2).reshape(*sizes, -1)
        return np.moveaxis(rows, -1, self.layer.dimension)

    def probes(self) -> Sequence[Sequence[Operation]]:
        """
        Return convolutions that extract the columns of the input matrix: each output
        channel has weight 1 for one input, and 0 for the others.
        """
        probes: list[Sequence[Operation]] = []
        for start in range(0, self.count, self.outputs):
            ones = np.eye(self.count, self.outputs, -start)
            matrices = np.broadcast_to(ones, (self.groups, *ones.shape))
            probes.append(self.layer.product_with_weights(self.weights(matrices)))
        return probes

    def inputs(self, values: Sequence[Array]) -> NDArray[np.float64]:
        """
        Return the matrices `X`, of shape `(groups, n, count)`.

        Args:
            values: the input, or the results of all probes.
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
    """Return a layer as matrix products; `None` if no trait defines its input channels."""
    value, dimensions = layer.input()
    if dimensions is None:
        return None
    shape = cast("ShapedType", layer.weight.value.type).get_shape()
    if len(shape) == 2:
        return MatrixProduct(layer, shape, 1, value, dimensions[0])
    channels = cast("ShapedType", value.type).get_shape()[dimensions[0]]
    # In a depthwise convolution, each input channel is a group.
    is_depthwise = dimensions[1] == layer.dimension
    size = 1 if is_depthwise else shape[dimensions[1]]
    if channels <= 0 or channels % size:
        return None
    return MatrixProduct(layer, shape, channels // size, None, dimensions[0])
