"""Convolutions, matrix products and pooling as TOSA ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from xdsl.dialects import tosa
from xdsl.dialects.builtin import DenseArrayBase, f32, i8, i16, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.frontends.tflite.formulas import floats
from xdsl_quant.frontends.tflite.formulas.products import Window
from xdsl_quant.frontends.tflite.formulas.products import windows as windows_of
from xdsl_quant.frontends.tosa import ops as tosa_ops
from xdsl_quant.numerics.primitives import Array
from xdsl_quant.unsupported import Unsupported

from .arrays import lift_number, tosa_builder_of
from .building import TosaBuilder, i48
from .expressions import (
    KnownInteger,
    TosaInteger,
    TosaReal,
    TosaTensor,
    add_constant,
    definition,
    split_constant,
    tosa_form,
)

Factors: TypeAlias = TosaTensor | Array
"""Factor of products: an expression, or an array if constant."""

# Factors and sums


class _Factor(NamedTuple):
    """Factor of products with its zero point."""

    tensor: TosaTensor
    element_type: Attribute
    zero_point: int

    @classmethod
    def of(cls, values: Factors, builder: TosaBuilder) -> _Factor:
        """Return a factor with an element type that TOSA multiplies, and its zero point."""
        x, constant = split_constant(lift_number(values, builder))
        if not isinstance(x, KnownInteger):
            return cls(x, x.element_type, -constant)
        low, high = x.bounds
        if high - low > 255:
            return cls(x, i16, 0)
        # Zero-point-corrected 8-bit values may have 9 bits.
        return cls(x, i8, max(-low - 128, 0) or min(127 - high, 0))

    @property
    def native(self) -> SSAValue:
        if isinstance(self.tensor, KnownInteger):
            return self.tensor.stored_as(self.element_type, -self.zero_point)
        return self.tensor.native

    @property
    def largest(self) -> int:
        """Largest absolute zero-point-corrected value."""
        offset = 0 if isinstance(self.tensor, KnownInteger) else self.zero_point
        return max(abs(bound - offset) for bound in self.tensor.bounds)

    @property
    def zero(self) -> SSAValue:
        return self.tensor.builder.one(self.zero_point, self.element_type)


_ACCUMULATORS: Mapping[tuple[Attribute, Attribute], Attribute] = {
    (i8, i8): i32,
    (i16, i8): i48,
    (i16, i16): i48,
    (f32, f32): f32,
}


def _sums(
    x: _Factor,
    y: _Factor,
    terms: int,
    shape: Sequence[int],
    build: Callable[[Attribute, SSAValue | None], SSAValue],
) -> TosaTensor:
    """
    Return sums of products.

    Args:
        x: first factor.
        y: second factor.
        terms: number of products per sum.
        shape: shape of the result.
        build: builds the op, given the accumulator type and an optional bias.
    """
    types = x.element_type, y.element_type
    if (type_ := _ACCUMULATORS.get(types)) is None:
        raise Unsupported(
            f"multiplies '{types[0]}' by '{types[1]}', which TOSA does not support"
        )
    builder, kind, bounds = x.tensor.builder, TosaReal, (-math.inf, math.inf)
    if type_ != f32:
        most = x.largest * y.largest * terms
        kind, bounds = TosaInteger, (-most, most)
    return kind(builder, lambda: build(type_, None), shape, type_, bounds)


# Windows of images


def _integers(**values: Sequence[int]) -> dict[str, Attribute]:
    return {
        name: DenseArrayBase.from_list(i64, [int(v) for v in numbers])
        for name, numbers in values.items()
    }


class _Steps:
    """
    Sizes and padding for the windows of a TOSA op. TOSA requires that windows cover the
    padded image exactly, so the image is cropped to the elements that they reach.
    """

    def __init__(self, image: Sequence[int], kernel: Sequence[int], window: Window):
        self.sizes = [image[0]]
        self.shape = [image[0]]
        self.pads: list[int] = []
        for axis in range(2):
            size = image[axis + 1]
            extent = (kernel[axis] - 1) * window.dilations[axis] + 1
            before, _ = window.padding_before(size, kernel[axis], axis)
            self.shape.append(window.result_size(size, kernel[axis], axis))
            reached = (self.shape[-1] - 1) * window.strides[axis] + extent - before
            self.sizes.append(min(size, reached))
            self.pads += [before, reached - self.sizes[-1]]

    def part(self, image: TosaTensor) -> SSAValue:
        """Crop an image to the elements that windows reach."""
        sizes = *self.sizes, image.shape[3]
        return image.builder.slice(image.native, [0] * 4, sizes)


def _convolution(
    op_type: type[Operation],
    values: Factors,
    weights: Factors,
    terms: int,
    shape: Sequence[int],
    image: Callable[[_Factor], SSAValue] = lambda x: x.native,
    **properties: Sequence[int],
) -> TosaTensor:
    """Return the sums of a convolution; a bias can be fused into the op later."""
    builder = tosa_builder_of(values, weights)
    x, kernel = (_Factor.of(v, builder) for v in (values, weights))

    def build(type_: Attribute, bias: SSAValue | None) -> SSAValue:
        operands = image(x), kernel.native
        if bias is None:
            bias = builder.array(np.zeros(shape[-1], np.int64), type_)
        operands = *operands, bias, x.zero, kernel.zero
        options = {"acc_type": type_, **_integers(**properties)}
        return builder.tosa(op_type, operands, shape, type_, **options)

    result = _sums(x, kernel, terms, shape, build)
    result.biased = lambda bias: build(result.element_type, bias)
    return result


def _over_image(
    op_type: type[Operation],
    values: Factors,
    weights: Factors,
    terms: int,
    sizes: Sequence[int],
    outputs: int,
    window: Window,
) -> TosaTensor:
    """Return the sums of a convolution whose window moves over an image."""
    steps = _Steps(values.shape, sizes, window)
    return _convolution(
        op_type,
        values,
        weights,
        terms,
        (*steps.shape, outputs),
        lambda x: steps.part(x.tensor),
        stride=window.strides,
        dilation=window.dilations,
        pad=steps.pads,
    )


@tosa_form("convolution_sums")
def _convolution_sums(values: Factors, weights: Factors, window: Window) -> TosaTensor:
    outputs, *sizes, depth = weights.shape
    groups = values.shape[-1] // depth
    if groups > 1:
        count = outputs // groups
        parts = [
            _convolution_sums(
                values[..., group * depth : (group + 1) * depth],
                weights[group * count : (group + 1) * count],
                window,
            )
            for group in range(groups)
        ]
        return cast(TosaTensor, np.concatenate(cast("list[Array]", parts), axis=-1))
    terms = math.prod(sizes) * depth
    op_type = tosa_ops.Conv2DOp
    return _over_image(op_type, values, weights, terms, sizes, outputs, window)


@tosa_form("depthwise_sums")
def _depthwise_sums(values: Factors, weights: Factors, window: Window) -> TosaTensor:
    _, *sizes, outputs = weights.shape
    channels = values.shape[-1]
    kernels = weights.reshape(*sizes, channels, outputs // channels)
    terms, op_type = math.prod(sizes), tosa_ops.DepthwiseConv2DOp
    return _over_image(op_type, values, kernels, terms, sizes, outputs, window)


@tosa_form("transposed_sums")
def _transposed_sums(
    values: Factors, weights: Factors, shape: Sequence[int], window: Window
) -> TosaTensor:
    outputs, *sizes, depth = weights.shape
    pads: list[int] = []
    for axis in range(2):
        before, _ = window.padding_before(shape[axis + 1], sizes[axis], axis)
        size = (values.shape[axis + 1] - 1) * window.strides[axis] + sizes[axis]
        pads += [-before, shape[axis + 1] - size + before]
    return _convolution(
        tosa_ops.TransposeConv2DOp,
        values,
        weights,
        math.prod(sizes) * depth,
        (*shape[:3], outputs),
        stride=window.strides,
        out_pad=pads,
    )


# Products of matrices


@tosa_form(np.matmul)
def _matmul(lhs: Factors, rhs: Factors) -> TosaTensor:
    builder = tosa_builder_of(lhs, rhs)
    *outer, rows, depth = lhs.shape
    x, y = (_Factor.of(v, builder) for v in (lhs, rhs))
    if rhs.ndim == 2 and (x.element_type, y.element_type) != (i16, i16):
        # Unlike `tosa.matmul`, convolutions have a bias, and multiply i16 by i8.
        kernel = rhs.T.reshape(rhs.shape[1], 1, 1, depth)
        sums = _convolution_sums(lhs.reshape(-1, 1, 1, depth), kernel, Window())
        return sums.reshape(*outer, rows, rhs.shape[1])
    batch = np.broadcast_shapes(outer, rhs.shape[:-2])
    pair = [
        np.broadcast_to(cast(Array, v), (*batch, *v.shape[-2:])) for v in (lhs, rhs)
    ]
    x, y = (_Factor.of(v.reshape(-1, *v.shape[-2:]), builder) for v in pair)

    def build(type_: Attribute, bias: SSAValue | None) -> SSAValue:
        operands = x.native, y.native, x.zero, y.zero
        return builder.tosa(tosa.MatMulOp, operands, shape, type_)

    shape = math.prod(batch), rows, rhs.shape[-1]
    return _sums(x, y, depth, shape, build).reshape(*batch, *shape[1:])


# Pools


class _Windows(NamedTuple):
    """Elements of an image at each window position."""

    x: TosaTensor
    sizes: tuple[int, int]
    window: Window

    def sum(self, axis: ArrayLike, dtype: DTypeLike | None = None) -> TosaTensor:
        """Return window sums: convolutions with weights of 1, which are exact."""
        base, constant = split_constant(self.x)
        ones = np.ones((1, *self.sizes, base.shape[-1]), base.dtype)
        total = _depthwise_sums(base, ones, self.window)
        if not constant:
            return total
        counts: Array = windows_of(
            np.ones(base.shape, np.int64), self.sizes, self.window
        )
        return cast(TosaInteger, total) + constant * counts.sum((-2, -1))

    def max(self, axis: ArrayLike) -> TosaTensor:
        base, constant = split_constant(self.x)
        pooled = _pooling(tosa.MaxPool2DOp, base, self.sizes, self.window)
        return add_constant(pooled, constant)


def _pooling(
    op_type: type[Operation],
    x: TosaTensor,
    sizes: Sequence[int],
    window: Window,
    zeros: Callable[[], Sequence[SSAValue]] = lambda: (),
    **properties: Attribute,
) -> TosaTensor:
    steps = _Steps(x.shape, sizes, window)
    shape = *steps.shape, x.shape[3]

    def build() -> SSAValue:
        operands = steps.part(x), *zeros()
        options = _integers(kernel=sizes, stride=window.strides, pad=steps.pads)
        options.update(properties)
        return x.builder.tosa(op_type, operands, shape, x.element_type, **options)

    return x.like(build, shape)


@tosa_form("windows")
def _windows_form(
    values: TosaTensor, sizes: tuple[int, int], window: Window, fill: float = 0
) -> _Windows:
    return _Windows(values, sizes, window)


@tosa_form("average_pool_2d")
def _average_pool(x: TosaTensor, sizes: tuple[int, int], window: Window) -> TosaTensor:
    if not isinstance(x, TosaReal):
        return definition(floats.average_pool_2d)(x, sizes, window)

    def zeros() -> Sequence[SSAValue]:
        return [x.builder.one(0, f32)] * 2

    return _pooling(tosa.AvgPool2DOp, x, sizes, window, zeros, acc_type=f32)
