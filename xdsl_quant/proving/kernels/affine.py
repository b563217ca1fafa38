"""Affine parts of kernels: sums of stored values that are multiplied by constants."""

from collections.abc import Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from xdsl_quant import execution
from xdsl_quant.diagnostics import op_name
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import numpy_dtype, shape_of
from xdsl_quant.runtime.stateful_function import result_tuple

from ..terms import UnsupportedError
from .comparison import KernelComparison, UndecidedError
from .parts import affine_part

_SIGNED, _UNSIGNED = {"arith.extsi", "tosa.cast"}, {"arith.extui"}
"""Extensions of stored values."""

_SEARCHED_INPUTS = 200


class AffineProof:
    """Base of proofs about kernels whose code has an affine part."""

    def __init__(self, comparison: KernelComparison, value: SSAValue):
        if len(comparison.types) != 1:
            raise UnsupportedError("has several arguments that are multiplied")
        (function,) = comparison.kernel.module.ops
        assert isinstance(function, FuncOp)
        if function.args[0].uses.get_length() > 1:
            raise UnsupportedError("multiplies its argument by itself")
        result = comparison.kernel.op.results[0]
        if prod(shape_of(value.type)) != prod(shape_of(result.type)):
            raise UnsupportedError("its code broadcasts sums")
        self.comparison = comparison
        self.value = value
        self.type = comparison.types[0]
        self.shape = shape_of(self.type)
        self.low, self.high = comparison.ranges[0]
        self.base = comparison.filled(0, self.low)
        form = comparison.form
        self._dtype = numpy_dtype(form.function.args[0].type)
        if form.has_negation(value):
            raise UnsupportedError("its affine part subtracts elements")
        is_signed = self.base.dtype.kind == "i"
        # The other extension is affine on half of the stored values only.
        if form.extensions & (_UNSIGNED if is_signed else _SIGNED):
            raise UnsupportedError("its code extends elements by another sign")
        self._affine = execution.compile(affine_part(form, value, has_factors=True))
        self._ones = execution.compile(affine_part(form, value, has_factors=False))

    def affine(self, x: Array) -> Array:
        """Return the affine part as `int64`."""
        (result,) = result_tuple(self._affine(x.view(self._dtype)))
        return result.astype(np.int64)

    def dependences(self, x: Array) -> Array:
        """Return the affine part whose factors are 1."""
        (result,) = result_tuple(self._ones(x.view(self._dtype)))
        # 256 dependences would be none in i8.
        if result.dtype.itemsize < 4:
            raise UnsupportedError("its sums have less than 32 bits")
        return result.astype(np.int64)

    def input_with(self, members: Array, offsets: Array | int) -> Array:
        """Return the smallest stored values plus offsets at flat indices."""
        x = self.base.copy()
        x.reshape(-1)[members] = self.low + offsets
        return x

    def classes(self) -> Sequence[Array]:
        """
        Return flat indices of elements of the argument in classes of which no result
        depends on two elements; this is checked for the code.
        """
        window = _window_of_values(self.comparison.kernel.op)
        indices = np.arange(prod(self.shape)).reshape(self.shape)
        if window is None or len(self.shape) != 4:
            return [*indices.reshape(-1, 1)]
        (height, width), is_depthwise = window
        channels = [slice(None)] if is_depthwise else range(self.shape[3])
        return [
            indices[:, i::height, j::width, c].reshape(-1)
            for i in range(min(height, self.shape[1]))
            for j in range(min(width, self.shape[2]))
            for c in channels
        ]

    def refute_sums(self) -> NoReturn:
        """Search an input, as the sums differ; raise an `UnsupportedError` at last."""
        random = np.random.default_rng(1)
        for _ in range(_SEARCHED_INPUTS):
            shape, dtype = self.shape, self.base.dtype
            x = random.integers(self.low, self.high + 1, shape).astype(dtype)
            # Sparse inputs keep most results from saturating.
            keep = random.random(shape) < random.choice([0.02, 0.2, 1])
            self.comparison.check([np.where(keep, x, self.base)])
        raise UndecidedError("its sums differ, but no results that were tried")


def _window_of_values(op: Any) -> tuple[tuple[int, int], bool] | None:
    """Return the extent of a window, and True if channels are separate."""
    name = op_name(op)
    if name == "tfl.average_pool_2d":
        sizes = op.filter_height.value.data, op.filter_width.value.data
        return sizes, True
    if name not in ("tfl.conv_2d", "tfl.depthwise_conv_2d"):
        return None
    _, height, width, _ = shape_of(op.operands[1].type)
    rows = (height - 1) * op.dilation_h_factor.value.data + 1
    columns = (width - 1) * op.dilation_w_factor.value.data + 1
    is_depthwise = name == "tfl.depthwise_conv_2d"
    return (rows, columns), is_depthwise
