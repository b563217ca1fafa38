"""Random StableHLO models of one op or one layer, for the conversion to TensorFlow Lite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeVar

import numpy as np
from numpy.random import Generator
from xdsl.dialects.builtin import ModuleOp, TensorType, UnknownLoc, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    uniform_type,
)
from xdsl_quant.dialects.quant.types import UniformType
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.building import StableHLOBuilder
from xdsl_quant.frontends.stablehlo.dialect import chlo
from xdsl_quant.frontends.stablehlo.dialect.attributes import (
    booleans_attr,
    padding_attr,
)
from xdsl_quant.frontends.stablehlo.dialect.elementwise import BinaryOp, UnaryOp
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import elements_attr
from xdsl_quant.transforms.building.builder import shape_of

_T = TypeVar("_T")


@dataclass
class Model:
    """A model under construction: a function, and the values of its arguments."""

    random: Generator
    block: Block = field(default_factory=Block)
    arguments: list[Array] = field(default_factory=list[Array])
    unit: float | None = None
    """Scale of the last quantized value, if any."""

    has_quantized_arguments: bool = False
    """True if arguments are cast by way of `i8` or `u8`."""

    def __post_init__(self) -> None:
        self.b = StableHLOBuilder(InsertPoint.at_end(self.block), location=UnknownLoc())

    def integer(self, low: int, high: int) -> int:
        """Return a number from `low` to `high`, both included."""
        return int(self.random.integers(low, high, endpoint=True))

    def choice(self, members: Sequence[_T]) -> _T:
        return members[self.integer(0, len(members) - 1)]

    def shape(self, rank: int | None = None) -> Sequence[int]:
        rank = self.integer(1, 4) if rank is None else rank
        return [self.integer(1, 6) for _ in range(rank)]

    def floats(self, shape: Sequence[int]) -> Array:
        return self.random.normal(size=shape).astype(np.float32)

    def argument(self, shape: Sequence[int]) -> SSAValue:
        self.arguments.append(self.floats(shape))
        value = self.block.insert_arg(TensorType(f32, shape), len(self.block.args))
        return self.quantized(value, 3) if self.has_quantized_arguments else value

    def constant(self, array: Array) -> SSAValue:
        attribute = elements_attr(array.astype(np.float32), f32)
        return self.b.add(stablehlo.ConstantOp(attribute))

    def weights(self, shape: Sequence[int]) -> SSAValue:
        return self.constant(self.floats(shape))

    def cast(self, value: SSAValue, type_: UniformType) -> SSAValue:
        """Quantize a value and dequantize it again."""
        tensor = TensorType(type_, shape_of(value))
        stored = self.b.op(QuantizeCastOp, (value,), tensor)
        return self.b.op(DequantizeCastOp, (stored,), value.type)

    def quantized(self, value: SSAValue, largest: float) -> SSAValue:
        """Cast a value by way of `i8` or `u8`; `largest` is its largest magnitude."""
        storage = self.choice(("i8", "u8"))
        zero_point = self.integer(-20, 20) + (128 if storage == "u8" else 0)
        self.unit = scale = largest / self.integer(90, 140)
        return self.cast(
            value,
            uniform_type(QuantizationParameters(scale, zero_point, storage=storage)),
        )

    def quantized_weights(self, array: Array, axis: int) -> SSAValue:
        """Cast weights by way of `i8`, with one scale or one for each index of an axis."""
        magnitudes, dimension = np.abs(array).max(), None
        if self.random.random() < 0.7:
            axes = tuple(d for d in range(array.ndim) if d != axis)
            magnitudes, dimension = np.abs(array).max(axes), axis
        parameters = QuantizationParameters(
            np.maximum(magnitudes, 1e-3) / 127, quantized_dimension=dimension
        )
        return self.cast(self.constant(array), uniform_type(parameters))

    def module(self, result: SSAValue) -> ModuleOp:
        self.block.add_op(ReturnOp(result))
        types = self.block.arg_types, [result.type]
        return ModuleOp([FuncOp("main", types, Region(self.block))])


Draw = Callable[[Model], SSAValue]
"""Function that builds the result of a random model."""

# Elementwise ops


def _unary(op_type: type[UnaryOp], *, is_positive: bool = False) -> Draw:
    def draw(m: Model) -> SSAValue:
        x = m.argument(m.shape())
        if is_positive:
            m.arguments[0] = np.abs(m.arguments[0]) + np.float32(0.1)
        return m.b.add(op_type(x))

    return draw


def _binary(op_type: type[BinaryOp]) -> Draw:
    def draw(m: Model) -> SSAValue:
        shape = m.shape()
        x = m.argument(shape)
        dimensions = [d for d in range(len(shape)) if m.random.random() < 0.6]
        small = [shape[d] for d in dimensions]
        y = m.choice((m.argument, m.weights))(small)
        divides = op_type in (stablehlo.DivideOp, stablehlo.RemainderOp)
        if divides and len(m.arguments) > 1:
            m.arguments[1] = np.abs(m.arguments[1]) + np.float32(0.5)
        y = m.b.broadcast(y, shape, dimensions)
        operands = [x, y] if m.random.random() < 0.7 else [y, x]
        return m.b.add(op_type(*operands))

    return draw


def _clamp(m: Model) -> SSAValue:
    ends = [(0, inf), (0, 6), (-1, 1), (0, 1), (-0.5, 2), (-inf, 0.25), (0.1, inf)]
    return m.b.clamp(m.argument(m.shape()), *m.choice(ends))


def _softmax(m: Model) -> SSAValue:
    shape = m.shape(m.integer(1, 4))
    x, axis = m.argument(shape), m.integer(0, len(shape) - 1)
    others = [d for d in range(len(shape)) if d != axis]
    largest = m.b.reduce(stablehlo.MaximumOp, x, -inf, [axis])
    difference = stablehlo.SubtractOp(x, m.b.broadcast(largest, shape, others))
    powers = m.b.add(stablehlo.ExponentialOp(m.b.add(difference)))
    total = m.b.reduce(stablehlo.AddOp, powers, 0, [axis])
    return m.b.add(stablehlo.DivideOp(powers, m.b.broadcast(total, shape, others)))


def _elu(m: Model) -> SSAValue:
    """Build `x > 0 ? x : alpha * (exp(slope * x) - 1)`."""
    x = m.argument(shape := m.shape())
    slope, alpha = m.choice(((1, 1), (1, 1.6732632), (0.5, 2)))
    zero = m.constant(np.zeros(shape))
    is_positive = m.b.compare(stablehlo.ComparisonDirection.GT, x, zero)
    exponent = x
    if slope != 1:
        slopes = m.constant(np.full(shape, slope))
        exponent = m.b.add(stablehlo.MultiplyOp(x, slopes))
    elif m.random.random() < 0.5:
        exponent = m.b.add(stablehlo.SelectOp(is_positive, zero, x))
    below = m.b.add(stablehlo.ExponentialMinusOneOp(exponent))
    if alpha != 1:
        below = m.b.add(stablehlo.MultiplyOp(m.constant(np.full(shape, alpha)), below))
    return m.b.add(stablehlo.SelectOp(is_positive, x, below))


def _erf(m: Model) -> SSAValue:
    return m.b.add(chlo.ErfOp(m.argument(m.shape())))


def _top_k(m: Model) -> SSAValue:
    x = m.argument(m.shape())
    count = m.integer(1, shape_of(x)[-1])
    top = chlo.TopKOp(x, k=count, result_types=[x.type, x.type])
    top.infer_result_types()
    m.b.add(top)
    if m.random.random() < 0.5:
        return top.values
    return m.b.add(stablehlo.ConvertOp(top.indices, result_types=[top.values.type]))


# Control flow


def _region(
    m: Model, types: Sequence[Attribute], draw: Callable[..., Sequence[SSAValue]]
) -> Region:
    """Return a region that returns what `draw` builds from the arguments of the region."""
    block, outer = Block(arg_types=types), m.b
    m.b = StableHLOBuilder(InsertPoint.at_end(block), location=UnknownLoc())
    block.add_op(stablehlo.ReturnOp(*draw(*block.args)))
    m.b = outer
    return Region(block)


def _loop(m: Model) -> SSAValue:
    """Build a loop over floats; its body selects one of two updates."""
    x, step = (m.argument([3, 2]) for _ in range(2))
    type_, number = x.type, TensorType(f32, [])
    less = stablehlo.ComparisonDirection.LT
    limit = m.b.scalar(m.integer(0, 4), f32)

    def is_continued(i: SSAValue, state: SSAValue) -> Sequence[SSAValue]:
        return [m.b.compare(less, i, limit)]

    def update(i: SSAValue, state: SSAValue) -> Sequence[SSAValue]:
        is_early = m.b.compare(less, i, m.b.scalar(1.5, f32))
        sum_, product = stablehlo.AddOp(state, step), stablehlo.MultiplyOp(state, step)
        branches = [
            _region(m, [], lambda: [m.b.add(sum_)]),
            _region(m, [], lambda: [m.b.add(product)]),
        ]
        choice = stablehlo.IfOp(is_early, result_types=[[type_]], regions=branches)
        return [m.b.add(stablehlo.AddOp(i, m.b.scalar(1, f32))), m.b.add(choice)]

    types = [number, type_]
    regions = [_region(m, types, is_continued), _region(m, types, update)]
    start = [m.b.scalar(0, f32), x]
    loop = stablehlo.WhileOp(start, result_types=[types], regions=regions)
    m.b.add(loop)
    return loop.results[1]


# Data movement


def _move(m: Model, x: SSAValue) -> SSAValue:
    """Build a random data movement op."""
    shape = shape_of(x)
    rank = len(shape)
    match m.integer(0, 5):
        case 0:
            order = m.random.permutation(rank).tolist()
            return m.b.add(stablehlo.TransposeOp(x, permutation=order))
        case 1:
            return m.b.reshape_to(x, [shape[0], *[1] * m.integer(0, 1), *shape[1:]])
        case 2:
            starts = [m.integer(0, n - 1) for n in shape]
            limits = [m.integer(a + 1, n) for a, n in zip(starts, shape, strict=True)]
            return m.b.slice(x, starts, limits, [m.integer(1, 2) for _ in shape])
        case 3:
            low, high = ([m.integer(0, 2) for _ in shape] for _ in range(2))
            return m.b.pad(x, m.b.scalar(m.choice((0, 1.5)), f32), low, high)
        case 4:
            return m.b.concatenate([x, x], m.integer(0, rank - 1))
        case _:
            axes = [d for d in range(rank) if m.random.random() < 0.5]
            return m.b.add(stablehlo.ReverseOp(x, dimensions=axes))


def _moves(m: Model) -> SSAValue:
    x = m.argument(m.shape())
    for _ in range(m.integer(1, 4)):
        x = _move(m, x)
    return x


# Reductions and windows


def _reduction(op_type: type[BinaryOp], start: float) -> Draw:
    def draw(m: Model) -> SSAValue:
        shape = m.shape()
        axes = [d for d in range(len(shape)) if m.random.random() < 0.5] or [0]
        return m.b.reduce(op_type, m.argument(shape), start, axes)

    return draw


def _mean(m: Model) -> SSAValue:
    shape = m.shape(4)
    axes = m.choice(([1, 2], [2, 3], [1], [3]))
    total = m.b.reduce(stablehlo.AddOp, m.argument(shape), 0, axes)
    count = float(np.prod([shape[axis] for axis in axes]))
    divisor = m.b.broadcast(m.b.scalar(count, f32), shape_of(total), [])
    mean = m.b.add(stablehlo.DivideOp(total, divisor))
    return m.b.reshape_to(mean, [1 if d in axes else n for d, n in enumerate(shape)])


def _pool(m: Model, x: SSAValue, *, is_maximum: bool) -> SSAValue:
    """Build pooling of NCHW or NHWC images, or of a signal."""
    rank = len(shape_of(x))
    spatial = [2, 3] if rank == 4 else [2]
    if rank == 4 and m.random.random() < 0.3:
        spatial = [1, 2]
    size = [m.integer(1, 3) if d in spatial else 1 for d in range(rank)]
    strides = [m.integer(1, 2) if d in spatial else 1 for d in range(rank)]
    pads = [(m.integer(0, n - 1), m.integer(0, n - 1)) for n in size]
    if m.random.random() < 0.3:
        pads = [(0, 0)] * rank
    op_type = stablehlo.MaximumOp if is_maximum else stablehlo.AddOp

    def windows(value: SSAValue) -> stablehlo.ReduceWindowOp:
        start = m.b.scalar(-inf if is_maximum else 0, f32)
        op = stablehlo.ReduceWindowOp(
            [value],
            [start],
            op_type,
            window_dimensions=size,
            window_strides=strides,
            padding=padding_attr(pads),
        )
        return op

    total = m.b.add(windows(x))
    if is_maximum:
        return total
    if m.random.random() < 0.5:
        counts = np.full(shape_of(total), np.prod(size))
    else:
        image = np.pad(np.ones(shape_of(x)), pads)
        view = np.lib.stride_tricks.sliding_window_view(image, size)
        view = view[tuple(slice(None, None, stride) for stride in strides)]
        counts = view.sum(tuple(range(rank, 2 * rank)))
    return m.b.add(stablehlo.DivideOp(total, m.constant(counts)))


def _pooling(*, is_maximum: bool) -> Draw:
    def draw(m: Model) -> SSAValue:
        rank = m.choice((3, 4, 4))
        shape = [m.integer(1, 3), *(m.integer(3, 7) for _ in range(rank - 1))]
        return _pool(m, m.argument(shape), is_maximum=is_maximum)

    return draw


# Contractions


Numbers = tuple[
    int, int, Sequence[int], int, int, Sequence[int], int, int, Sequence[int]
]
"""Batch, feature and spatial dimensions of images, of weights and of results."""


@dataclass
class Geometry:
    """Dimension numbers, windows and sizes of a convolution."""

    images: Sequence[int]
    weights: Sequence[int]
    numbers: Numbers
    groups: int
    axis: int
    """Dimension of the weights that corresponds to the channels of the result."""

    channel: int
    """Dimension of the channels of the result."""


def _geometry(m: Model) -> Geometry:
    channels = m.integer(1, 4)
    groups = m.choice((1, 1, channels))
    outputs = groups * m.integer(1, 3)
    height, width = m.integer(4, 9), m.integer(4, 9)
    window = m.integer(1, 3), m.integer(1, 3)
    depth = channels // groups
    if m.random.random() < 0.6:
        numbers = 0, 1, [2, 3], 1, 0, [2, 3], 0, 1, [2, 3]
        images = m.integer(1, 2), channels, height, width
        return Geometry(images, (outputs, depth, *window), numbers, groups, 0, 1)
    numbers = 0, 3, [1, 2], 2, 3, [0, 1], 0, 3, [1, 2]
    images = m.integer(1, 2), height, width, channels
    return Geometry(images, (*window, depth, outputs), numbers, groups, 3, 3)


def _convolution_of(m: Model, x: SSAValue, weights: SSAValue, g: Geometry) -> SSAValue:
    spatial = [g.weights[d] for d in g.numbers[5]]
    pads = [(m.integer(0, n - 1), m.integer(0, n - 1)) for n in spatial]
    dilated = m.random.random() < 0.2
    op = stablehlo.ConvolutionOp(
        x,
        weights,
        dimension_numbers=stablehlo.ConvDimensionNumbersAttr(*g.numbers),
        window_strides=[1, 1] if dilated else [m.integer(1, 2), m.integer(1, 2)],
        padding=padding_attr(pads),
        rhs_dilation=[m.integer(1, 2), 1] if dilated else [1, 1],
        batch_group_count=1,
        feature_group_count=g.groups,
    )
    return m.b.add(op)


def _activated(m: Model, value: SSAValue) -> SSAValue:
    ends = m.choice([None, (0.0, inf), (0.0, 6.0)])
    return value if ends is None else m.b.clamp(value, *ends)


def _with_bias(m: Model, value: SSAValue, channel: int) -> SSAValue:
    shape = shape_of(value)
    bias = m.b.broadcast(m.weights([shape[channel]]), shape, [channel])
    return m.b.add(stablehlo.AddOp(value, bias))


def _convolution(m: Model) -> SSAValue:
    g = _geometry(m)
    value = _convolution_of(m, m.argument(g.images), m.weights(g.weights), g)
    if m.random.random() < 0.7:
        value = _with_bias(m, value, g.channel)
    return _activated(m, value)


def _transposed_convolution(m: Model) -> SSAValue:
    channels, outputs = m.integer(1, 3), m.integer(1, 3)
    x = m.argument([1, channels, m.integer(2, 5), m.integer(2, 5)])
    window = [m.integer(1, 3), m.integer(1, 3)]
    weights = m.weights([channels, outputs, *window])
    numbers = 0, 1, [2, 3], 0, 1, [2, 3], 0, 1, [2, 3]
    flags = m.choice(([1, 1], [0, 0]))
    op = stablehlo.ConvolutionOp(
        x,
        weights,
        dimension_numbers=stablehlo.ConvDimensionNumbersAttr(*numbers),
        window_strides=[1, 1],
        padding=padding_attr([(m.integer(0, n), m.integer(0, n)) for n in window]),
        lhs_dilation=[2, m.integer(1, 3)],
        rhs_dilation=[1, 1],
        window_reversal=booleans_attr(flags),
        batch_group_count=1,
        feature_group_count=1,
    )
    return m.b.add(op)


def _dot_general(m: Model) -> SSAValue:
    batch = m.shape(m.integer(0, 2))
    depth = [m.integer(1, 5) for _ in range(m.integer(1, 2))]
    shapes = [[*batch, *m.shape(m.integer(0, 2)), *depth] for _ in range(2)]
    orders: list[list[int]] = [
        m.random.permutation(len(shape)).tolist() for shape in shapes
    ]
    numbers: list[list[int]] = []
    for start, count in ((0, len(batch)), (None, len(depth))):
        for shape, order in zip(shapes, orders, strict=True):
            first = len(shape) - count if start is None else 0
            numbers.append([order.index(d) for d in range(first, first + count)])
    lhs, rhs = ([s[d] for d in o] for s, o in zip(shapes, orders, strict=True))
    right = m.argument if batch or m.random.random() < 0.4 else m.weights
    x, y = m.argument(lhs), right(rhs)
    attribute = stablehlo.DotDimensionNumbersAttr(*numbers)
    return m.b.add(stablehlo.DotGeneralOp(x, y, dot_dimension_numbers=attribute))


# Layers between casts


def _quantized_convolution(m: Model) -> SSAValue:
    g = _geometry(m)
    x = m.quantized(m.argument(g.images), 3)
    weights = m.quantized_weights(m.floats(g.weights), g.axis)
    value = _convolution_of(m, x, weights, g)
    if m.random.random() < 0.7:
        value = _with_bias(m, value, g.channel)
    return m.quantized(_activated(m, value), 8)


def _quantized_dense(m: Model) -> SSAValue:
    depth = m.integer(2, 30)
    x = m.quantized(m.argument([m.integer(1, 4), depth]), 3)
    weights = m.quantized_weights(m.floats([depth, m.integer(1, 8)]), 1)
    numbers = stablehlo.DotDimensionNumbersAttr([], [], [1], [0])
    value = m.b.add(stablehlo.DotGeneralOp(x, weights, dot_dimension_numbers=numbers))
    return m.quantized(_activated(m, _with_bias(m, value, 1)), 10)


def _quantized_sum(m: Model) -> SSAValue:
    op_type = m.choice((stablehlo.AddOp, stablehlo.MultiplyOp, stablehlo.SubtractOp))
    shape = m.shape(4)
    x, y = (m.quantized(m.argument(shape), 3) for _ in range(2))
    return m.quantized(m.b.add(op_type(x, y)), 6)


def _quantized_activation(m: Model) -> SSAValue:
    """Build a sigmoid, softmax, tanh or ELU; kernels of the first two have fixed scales."""
    name = m.choice(("logistic", "softmax", "tanh", "elu"))
    m.has_quantized_arguments = True
    return m.quantized(FLOAT_MODELS[name](m), 3 if name == "elu" else 1)


def _quantized_moves(m: Model) -> SSAValue:
    x = m.quantized(m.argument(m.shape(4)), 3)
    for _ in range(m.integer(1, 3)):
        x = _move(m, x)
    return m.quantized(x, 4)


FLOAT_MODELS: Mapping[str, Draw] = {
    **{
        op_type.name.partition(".")[2]: _unary(op_type)
        for op_type in (
            stablehlo.AbsOp,
            stablehlo.CosineOp,
            stablehlo.ExponentialMinusOneOp,
            stablehlo.ExponentialOp,
            stablehlo.FloorOp,
            stablehlo.LogisticOp,
            stablehlo.NegateOp,
            stablehlo.SignOp,
            stablehlo.SineOp,
            stablehlo.TanhOp,
        )
    },
    "log": _unary(stablehlo.LogOp, is_positive=True),
    "log_plus_one": _unary(stablehlo.LogPlusOneOp, is_positive=True),
    "rsqrt": _unary(stablehlo.RsqrtOp, is_positive=True),
    "sqrt": _unary(stablehlo.SqrtOp, is_positive=True),
    **{
        op_type.name.partition(".")[2]: _binary(op_type)
        for op_type in (
            stablehlo.AddOp,
            stablehlo.DivideOp,
            stablehlo.MaximumOp,
            stablehlo.MinimumOp,
            stablehlo.MultiplyOp,
            stablehlo.RemainderOp,
            stablehlo.SubtractOp,
        )
    },
    "elu": _elu,
    "erf": _erf,
    "top_k": _top_k,
    "loop": _loop,
    "clamp": _clamp,
    "softmax": _softmax,
    "data movement": _moves,
    "reduce add": _reduction(stablehlo.AddOp, 0),
    "reduce maximum": _reduction(stablehlo.MaximumOp, -inf),
    "reduce minimum": _reduction(stablehlo.MinimumOp, inf),
    "reduce multiply": _reduction(stablehlo.MultiplyOp, 1),
    "mean": _mean,
    "max pooling": _pooling(is_maximum=True),
    "average pooling": _pooling(is_maximum=False),
    "convolution": _convolution,
    "transposed convolution": _transposed_convolution,
    "dot_general": _dot_general,
}
"""Functions that draw models of floats, by name."""

QUANTIZED_MODELS: Mapping[str, Draw] = {
    "quantized convolution": _quantized_convolution,
    "quantized dense layer": _quantized_dense,
    "quantized arithmetic": _quantized_sum,
    "quantized activation": _quantized_activation,
    "quantized data movement": _quantized_moves,
}
"""Functions that draw models with casts, by name."""
