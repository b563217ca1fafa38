"""
Quantization and dequantization of array pieces that fit the cache.

Operations in a float type narrower than f32 are computed in f32 and rounded after each
step. The result is bit-identical to computing in the narrow type: an exact quotient,
product or sum is never so close to the midpoint of two narrow floats that rounding it to
f32 first makes a difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from itertools import islice
from operator import is_
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.rounding_mode import (
    FloatProperties,
    Rounding,
    RoundingMode,
    compute_type,
    largest_integer,
)

from .arrays import Array, DType
from .blocks import Grid, Shape, broadcastable_views, grid_block_shape, pieces
from .codecs import Codec, codec_of, represented_numbers
from .float_dtypes import float_info, rounded
from .parameters import QuantizationParameters, storage_range

PIECE_BYTES = 1 << 17
"""Size of a buffer in bytes; several buffers fit the L2 cache."""

LARGE_PIECE = 1 << 19
"""Element count of the pieces whose scales and zero points are converted together."""

_CONVERTED = PIECE_BYTES // 4
"""Fastest buffer size for NumPy's conversion of integers, in elements."""

_LONG_ROW = 1 << 13
"""Row length from which broadcasting one scale per row is as fast as repeating it."""

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


def compute_dtype(
    parameters: QuantizationParameters, rounding_mode: RoundingMode
) -> DType:
    """Return the float type in which a cast computes: see `compute_type`."""
    return compute_type(
        "nearest-even" if parameters.has_codes else rounding_mode,
        (parameters.expressed_dtype, _F32, _F64),
        _float_properties,
        represented_numbers(parameters),
        parameters.zero_point_range,
    )


@cache
def _float_properties(dtype: DType) -> FloatProperties:
    info = float_info(dtype)
    return FloatProperties(
        8 * dtype.itemsize,
        _precision(dtype),
        float(info.smallest_subnormal),
        float(info.max),
    )


def _precision(dtype: DType) -> int:
    return int(float_info(dtype).nmant) + 1


def check_storage(parameters: QuantizationParameters, rounding: Rounding) -> None:
    """Raise a `ValueError` if the storage type does not support the rounding."""
    reason = rounding.unsupported(
        parameters.storage, not parameters.has_codes, parameters.has_zero_points
    )
    if reason is not None:
        raise ValueError(reason)


class Arithmetic:
    """Quantization and dequantization of array pieces, with reusable buffers."""

    def __init__(
        self,
        parameters: QuantizationParameters,
        rounding: Rounding,
        shape: Shape,
        *,
        only_dequantizes: bool = False,
        is_exact: bool = False,
    ):
        """
        Args:
            parameters: the parameters of the whole array.
            rounding: the rounding of quantization. For mode `truncate`, the compute type is
                the expressed type.
            shape: the shape of the whole array.
            only_dequantizes: True to allocate fewer buffers, without support for
                quantization.
            is_exact: True to compute in f64, with scales not rounded to the expressed type.

        Raises:
            ValueError: if the rounding is unsupported, or the parameters do not match the
                shape.
        """
        check_rounding(rounding)
        if not only_dequantizes:
            check_storage(parameters, rounding)
        parameters = parameters.for_shape(shape)
        self.parameters = parameters
        numbers = [parameters.scales, parameters.zero_points]
        self.grid: Grid = (
            grid_block_shape(parameters, shape),
            numbers if parameters.has_zero_points else numbers[:1],
        )
        """Block shape, and the arrays of scales and, if any is nonzero, of zero points."""
        self.count = len(self.grid[1])
        """Number of parameter arrays: 1 for scales only, 2 with zero points."""
        self._rounding = rounding
        self._only_dequantizes = only_dequantizes
        self._uses_f64 = is_exact
        self.limit = math.prod(shape)
        """Maximum element count of a piece."""
        self._repeated: tuple[list[Array], list[Array]] = ([], [])
        if not self._is_one_product:
            # With fewer buffers, each of them can be larger.
            factor = (4 if self._has_one_scale else 2) if only_dequantizes else 1
            self.limit = min(self.limit, factor * PIECE_BYTES // self.dtype.itemsize)
            self._buffer = np.empty(self.limit, self.dtype)

    # Types

    @cached_property
    def _expressed(self) -> DType:
        return _F64 if self._uses_f64 else self.parameters.expressed_dtype

    @cached_property
    def _compute(self) -> DType:
        if self._uses_f64:
            return _F64
        return compute_dtype(self.parameters, self._rounding.mode)

    @cached_property
    def dtype(self) -> DType:
        """Dtype of the buffers, at least as wide as the compute type."""
        integers = self.parameters.storage_min, self.parameters.storage_max
        is_small = self.parameters.has_codes or self._is_exact(integers, _F32)
        return _F32 if self._compute != _F64 and is_small else _F64

    @cached_property
    def _rounds(self) -> bool:
        return self._compute != self.dtype

    @property
    def _has_one_scale(self) -> bool:
        return self.parameters.scales.size == 1

    @cached_property
    def _is_one_product(self) -> bool:
        # NumPy converts integers during the multiplication, in small pieces.
        return (
            self._only_dequantizes
            and self._has_one_scale
            and not self.parameters.has_zero_points
            and not self.parameters.has_codes
            and self._expressed == self.dtype
        )

    def _is_exact(self, integers: tuple[int, int], dtype: DType) -> bool:
        """
        Return True if a float dtype represents all integers of a range exactly, also after
        the zero points are subtracted.
        """
        largest = largest_integer(integers, self.parameters.zero_point_range)
        return largest <= 1 << _precision(dtype)

    @cached_property
    def _has_exact_integers(self) -> bool:
        # Stored values may exceed the storage range, but not the storage type.
        integers = storage_range(self.parameters.storage)
        return not self.parameters.has_codes and self._is_exact(integers, self._compute)

    # Buffers, allocated on first use

    @cached_property
    def _bounds(self) -> tuple[Array, Array]:
        # Arrays, because NumPy has no fast loop for an array and a scalar.
        bounds = (self.parameters.storage_min, self.parameters.storage_max)
        low, high = (np.full(self.limit, bound, self.dtype) for bound in bounds)
        return low, high

    @cached_property
    def _codec(self) -> Codec | None:
        """Storage codec, or `None` for integer storage."""
        return codec_of(self.parameters, self._compute, self._rounding.nan)

    @cached_property
    def _round(self) -> Rounder:
        return Rounder(self._rounding.mode, self.dtype, self.limit)

    @cached_property
    def _narrow(self) -> Array:
        return np.empty(self.limit, self._compute)

    def _buffers(self, shape: Shape) -> tuple[Array, Array]:
        """Return a flat view of the buffer, and a view in the shape of a piece."""
        flat = self._buffer[: math.prod(shape)]
        return flat, flat.reshape(shape)

    # Parameters

    def operands(self, scales: Array, *zero_points: Array) -> list[Array]:
        """Round parameters to the compute type; return them in the dtype of the buffers."""
        operands = [rounded(rounded(scales, self._expressed), self._compute)]
        operands += [
            rounded(array.astype(np.float64), self._compute) for array in zero_points
        ]
        return [operand.astype(self.dtype, copy=False) for operand in operands]

    def _round_to_compute(self, values: Array) -> None:
        if self.dtype == _F64:
            np.copyto(values, rounded(values, self._compute))
            return
        narrow = self._narrow[: values.size].reshape(values.shape)
        np.copyto(narrow, values, casting="unsafe")
        np.copyto(values, narrow)

    def _expanded(self, operands: list[Array], shape: Shape) -> list[Array]:
        """Repeat operands to `shape`, unless broadcasting them is as fast."""
        previous, expanded = self._repeated
        # Consecutive pieces usually share their operands.
        if (
            previous
            and all(map(is_, operands, previous))
            and expanded[0].shape in ((), shape)
        ):
            return expanded
        expanded = [_expanded(operand, shape) for operand in operands]
        self._repeated = operands, expanded
        return expanded

    # Quantization

    def scaled(self, expressed: Array, operands: list[Array]) -> Array:
        """
        Return `expressed / scale + zero_point` in a one-dimensional buffer. The quotient is
        rounded if the zero point is added after rounding.

        Args:
            expressed: at most `limit` expressed values.
            operands: results of `self.operands` that broadcast to `expressed`.
        """
        operands = self._expanded(operands, expressed.shape)
        flat, values = self._buffers(expressed.shape)
        if expressed.dtype != self.dtype:
            np.copyto(values, expressed)
            expressed = values
        np.divide(expressed, operands[0], out=values)
        if self._rounds:
            self._round_to_compute(flat)
        if len(operands) > 1:
            if self._rounding.zero_point_order == "after-rounding":
                self._round(flat)
                np.trunc(flat, out=flat)
            # A sum of integers is exact, or out of the storage range.
            np.add(values, operands[1], out=values)
            if self._rounds:
                self._round_to_compute(flat)
        return flat

    def is_out_of_range(self, scaled: Array) -> NDArray[np.bool_]:
        """Return a mask of values that are NaN or, once rounded, out of storage range."""
        if self._codec is not None:
            least, most = self._codec.limits
            return ~((scaled >= least) & (scaled <= most))
        rounded_values = scaled.copy()
        self._round(rounded_values)
        np.trunc(rounded_values, out=rounded_values)
        low, high = (bound[: scaled.size] for bound in self._bounds)
        # NaN is out of every range.
        return ~((rounded_values >= low) & (rounded_values <= high))

    def store(self, scaled: Array, out: Array) -> None:
        """Write the stored values of `scaled` to `out`. `scaled` is overwritten."""
        if self._codec is not None:
            self._codec.store(scaled, out)
            return
        # All rounding modes are monotonic, so values can be clamped first. `fmax` of
        # NaN and a number is the number.
        low, high = (bound[: scaled.size] for bound in self._bounds)
        # If no stored value is negative, the smallest one is nearest to 0: `fmax` stores
        # it.
        if self._rounding.nan == "stored-zero" and self.parameters.storage_min < 0:
            np.copyto(scaled, 0, where=np.isnan(scaled))
        np.fmax(scaled, low, out=scaled)
        np.minimum(scaled, high, out=scaled)
        self._round(scaled)
        np.copyto(out, scaled.reshape(out.shape), casting="unsafe")

    def quantize(self, expressed: Array, operands: list[Array], out: Array) -> None:
        """Quantize a piece into `out`."""
        self.store(self.scaled(expressed, operands), out)

    # Dequantization

    def dequantize(self, stored: Array, operands: list[Array], out: Array) -> None:
        """Dequantize a piece into `out`."""
        if self._is_one_product:
            _multiply_integers(stored, operands[0].reshape(()), out)
            return
        operands = self._expanded(operands, stored.shape)
        flat, values = self._buffers(stored.shape)
        if self._codec is None:
            np.copyto(values, stored)
        else:
            self._codec.load(stored, values)
        rounds = self._rounds and not self._has_exact_integers
        if rounds:
            self._round_to_compute(flat)
        if len(operands) > 1:
            np.subtract(values, operands[1], out=values)
            if rounds:
                self._round_to_compute(flat)
        if out.dtype == self.dtype and not operands[0].ndim:
            np.multiply(values, operands[0], out=out)
            return
        # With an array of scales, a product in the buffer and a copy are faster than a
        # product written to memory outside of the cache.
        np.multiply(values, operands[0], out=values)
        # A compute type narrower than the buffers is the expressed type, so the product
        # is rounded once.
        np.copyto(out, rounded(values, out.dtype))


def operand_pieces(
    arrays: Sequence[Array], arithmetics: Sequence[Arithmetic], *grids: Grid
) -> Iterator[list[Array]]:
    """
    Split arrays into pieces. For each piece, yield a list: the piece of each array; its
    scales and zero points from `Arithmetic.operands`; its block parameters from `grids`.
    """
    if not arrays[0].size:
        return
    count = len(arrays)
    all_grids = [*(arithmetic.grid for arithmetic in arithmetics), *grids]
    views = broadcastable_views(arrays, all_grids)
    limit = min(arithmetic.limit for arithmetic in arithmetics)
    # Scales and zero points of many pieces are converted together.
    has_one_scale = all(numbers.size == 1 for numbers in views[count:])
    for part in [views] if has_one_scale else pieces(views, LARGE_PIECE):
        numbers = iter(part[count:])
        operands = [
            operand
            for arithmetic in arithmetics
            for operand in arithmetic.operands(*islice(numbers, arithmetic.count))
        ]
        yield from pieces([*part[:count], *operands, *numbers], limit)


def _multiply_integers(integers: Array, factor: Array, out: Array) -> None:
    """Multiply integers by a float in the float's dtype; NumPy converts them piecewise."""
    # NumPy's default buffer is smaller, which is slower.
    previous = np.setbufsize(_CONVERTED)
    try:
        np.multiply(integers, factor, out=out, dtype=factor.dtype)
    finally:
        np.setbufsize(previous)


def _expanded(operand: Array, shape: Shape) -> Array:
    if operand.size == 1:
        return operand.reshape(())
    if operand.shape[-1] == 1 and operand.shape[:-1] == shape[:-1]:
        if shape[-1] > _LONG_ROW:
            return operand
        return operand.repeat(shape[-1]).reshape(shape)
    return np.ascontiguousarray(np.broadcast_to(operand, shape))


# Rounding


ROUNDING_MODES: tuple[RoundingMode, ...] = get_args(RoundingMode)


def check_rounding(rounding: Rounding) -> None:
    """Raise a `ValueError` if the rounding is invalid."""
    if (mistake := rounding.error_message()) is not None:
        raise ValueError(mistake)


class Rounder:
    """
    First of two steps that round finite floats to integers, in place. The second step is a
    conversion to integers, which truncates.
    """

    def __init__(self, rounding_mode: RoundingMode, dtype: DType, limit: int):
        """
        Args:
            rounding_mode: the rounding mode.
            dtype: `float32` or `float64`.
            limit: the maximum element count of an array.
        """
        self._rounding_mode = rounding_mode
        if rounding_mode != "nearest-away":
            return
        bits = np.dtype(f"int{8 * dtype.itemsize}")
        self._sign = np.array(-0.0, dtype).view(bits)
        # Adding 0.5 would round the number just below 0.5 to 1. For all other numbers, sums
        # with 0.5 and with this number round to the same integer.
        self._almost_half = np.nextafter(np.array(0.5, dtype), dtype.type(0)).view(bits)
        self._offset = np.empty(limit, bits)

    def __call__(self, values: Array) -> None:
        if self._rounding_mode == "nearest-even":
            np.rint(values, out=values)
        elif self._rounding_mode == "nearest-away":
            offset = self._offset[: values.size]
            np.bitwise_and(values.view(offset.dtype), self._sign, out=offset)
            np.bitwise_or(offset, self._almost_half, out=offset)
            np.add(values, offset.view(values.dtype), out=values)
