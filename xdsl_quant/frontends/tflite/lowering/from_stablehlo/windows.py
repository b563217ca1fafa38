"""Conversions of reductions: over dimensions, and over the windows of pooling."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf, prod

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, IntegerType, Signedness
from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects.quant.storage_types import (
    default_storage_max,
    default_storage_min,
)
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.reduction import ReductionOp, region_op
from xdsl_quant.frontends.stablehlo.dialect.rules import Padding, WindowDimension
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.formulas.products import Window, windows
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .building import (
    Conversion,
    TFLBuilder,
    filling_number,
    float_range,
    inverse,
    known_elements,
)

_REDUCTIONS: Mapping[type[Operation], tuple[type[Operation], float]] = {
    stablehlo.AddOp: (tfl.SumOp, 0),
    stablehlo.MultiplyOp: (tfl.ReduceProdOp, 1),
    stablehlo.MaximumOp: (tfl.ReduceMaxOp, -inf),
    stablehlo.MinimumOp: (tfl.ReduceMinOp, inf),
}
"""Reductions over dimensions, and their neutral elements."""


def _combined_by(op: ReductionOp) -> type[Operation]:
    """
    Return the class of the op in the region of a reduction.

    Raises:
        Unsupported: if it is not in `_REDUCTIONS`.
    """
    applied = region_op(op)
    if applied is None or type(applied) not in _REDUCTIONS or len(op.inputs) != 1:
        raise Unsupported(
            "combines elements by another function than one of + * max min"
        )
    if 0 in shape_of(op.inputs[0]):
        raise Unsupported("reduces a tensor without elements")
    return type(applied)


def _starts_from_neutral(op: ReductionOp) -> bool:
    """Return True if the initial value of a reduction does not change the result."""
    element_type = element_type_of(op.inputs[0])
    start, neutral = filling_number(op.init_values[0]), _REDUCTIONS[_combined_by(op)][1]
    if start is None:
        return False
    low, high = float_range(op.inputs[0])
    if (neutral == -inf and start <= low) or (neutral == inf and start >= high):
        return True
    if isinstance(element_type, AnyFloat) and abs(neutral) == inf:
        # Some frontends start from the largest finite number.
        return abs(start) >= 3.4e38 and (start < 0) == (neutral < 0)
    if isinstance(element_type, IntegerType) and abs(neutral) == inf:
        end = default_storage_min if neutral < 0 else default_storage_max
        width = element_type.bitwidth
        is_signed = element_type != IntegerType(width, Signedness.UNSIGNED)
        neutral = float(end(width, is_signed))
    return start == neutral


def _check_start(op: ReductionOp) -> None:
    if not _starts_from_neutral(op):
        raise Unsupported("starts from another value than the neutral element")


def _reduced(
    b: TFLBuilder, op_type: type[Operation], op: stablehlo.ReduceOp
) -> SSAValue:
    axes = b.integers(op.dimensions.get_values())
    type_ = op.results[0].type
    return b.build(op_type, (op.inputs[0], axes), type_, keep_dims=False)


_COMBINING: Mapping[type[Operation], tuple[type[Operation], Mapping[str, str]]] = {
    stablehlo.AddOp: (tfl.AddOp, {"fused_activation_function": "NONE"}),
    stablehlo.MultiplyOp: (tfl.MulOp, {"fused_activation_function": "NONE"}),
    stablehlo.MaximumOp: (tfl.MaximumOp, {}),
    stablehlo.MinimumOp: (tfl.MinimumOp, {}),
}
"""Ops that combine the result of a reduction with another initial value."""


def _reduce(b: TFLBuilder, op: stablehlo.ReduceOp) -> SSAValue:
    combined = _combined_by(op)
    value = _reduced(b, _REDUCTIONS[combined][0], op)
    if _starts_from_neutral(op):
        return value
    op_type, properties = _COMBINING[combined]
    return b.build(op_type, (value, op.init_values[0]), value.type, **properties)


def mean(b: TFLBuilder, op: Operation) -> SSAValue | None:
    """
    Build the mean that an op computes: a sum divided by the number of its terms, or
    multiplied by the reciprocal. Return `None` for other ops.
    """
    for total, factor in pairwise((*op.operands, op.operands[0])):
        number, reduce = filling_number(factor), total.owner
        if number is None or not isinstance(reduce, stablehlo.ReduceOp):
            if isinstance(op, stablehlo.DivideOp):
                return None
            continue
        axes = reduce.dimensions.get_values()
        count = prod(shape_of(reduce.inputs[0])[axis] for axis in axes)
        if isinstance(op, stablehlo.MultiplyOp):
            number = 1 / number if number and number == np.float32(1 / count) else 0
            number = round(number)
        is_sum = isinstance(region_op(reduce), stablehlo.AddOp)
        if count <= 0 or number != count or not is_sum:
            return None
        _check_start(reduce)
        return _reduced(b, tfl.MeanOp, reduce)
    return None


# Pooling

POINT = WindowDimension(1, 1, 1, Padding())
"""Window of one element."""


def pad_images(
    b: TFLBuilder,
    images: SSAValue,
    window: Sequence[WindowDimension],
    fill: float | None = None,
    *,
    is_explicit: bool = False,
) -> tuple[SSAValue, str]:
    """
    Pad NHWC images unless TensorFlow Lite's op adds the padding.

    Args:
        b: builder.
        images: the images.
        window: windows along height and width.
        fill: element of the padding; by default zero.
        is_explicit: True if the op must not add padding itself.

    Returns:
        The images, and the attribute `padding` of the op.
    """
    pairs = [(along.padding.low, along.padding.high) for along in window]
    if not any(map(any, pairs)):
        return images, "VALID"
    sizes = shape_of(images)[1:3]
    if DYNAMIC_INDEX in sizes:
        raise Unsupported("pads an image of dynamic size")
    rows, columns = window
    strides = rows.stride, columns.stride
    same = Window(strides, (rows.dilation, columns.dilation), "SAME")
    expected = [
        same.padding_before(size, along.size, axis)
        for axis, (size, along) in enumerate(zip(sizes, window, strict=True))
    ]
    if pairs == expected and not is_explicit:
        return images, "SAME"
    low, high = ([0, *ends, 0] for ends in zip(*pairs, strict=True))
    element = None if fill is None else b.scalar(fill, element_type_of(images))
    return b.pad(images, low, high, element), "VALID"


class Images:
    """
    Operand of a window op as NHWC images. The window has at most two dimensions; the
    others are batch and channels.
    """

    def __init__(self, op: stablehlo.ReduceWindowOp):
        """
        Choose the dimensions.

        Raises:
            Unsupported: if the op has other windows than those of pooling.
        """
        self.value = op.inputs[0]
        window, rank = op.window, len(op.window)
        moving = [d for d, along in enumerate(window) if along != POINT]
        if any(along.dilation != 1 or along.padding.interior for along in window):
            raise Unsupported("has dilated windows or elements")
        if not 3 <= rank <= 4 or len(moving) > rank - 2:
            raise Unsupported(
                f"has windows along {len(moving)} of {rank} dimensions; expected one of 3 "
                "or at most two of 4"
            )
        spatial = _spatial_dimensions(moving, rank)
        batch, *channels = (d for d in range(rank) if d not in spatial)
        self.order = [batch, *spatial, *channels]
        self.window = [POINT] * (4 - rank) + [window[d] for d in spatial]

    def arranged(self, array: Array) -> Array:
        """Return an array of the result's shape, by batch, row, column and channel."""
        array = array.transpose(self.order)
        return array if array.ndim == 4 else array[:, None]

    def images(self, b: TFLBuilder) -> SSAValue:
        value = b.transpose(self.value, self.order)
        batch, *sizes = shape_of(value)
        return b.reshape_to(value, [batch, *[1] * (3 - len(sizes)), *sizes])

    def pool(
        self, b: TFLBuilder, op_type: type[Operation], images: SSAValue, padding: str
    ) -> SSAValue:
        """Build a pooling op, and restore the order of the dimensions."""
        (rows, columns), (height, width) = (
            [getattr(along, name) for along in self.window]
            for name in ("stride", "size")
        )
        shape, window = [*shape_of(images)], Window((rows, columns), padding=padding)
        for axis, along in enumerate(self.window):
            if (size := shape[axis + 1]) != DYNAMIC_INDEX:
                shape[axis + 1] = window.result_size(size, along.size, axis)
        value = b.build(
            op_type,
            (images,),
            b.like(images, shape),
            filter_height=height,
            filter_width=width,
            fused_activation_function="NONE",
            padding=padding,
            stride_h=rows,
            stride_w=columns,
        )
        if len(self.order) == 3:
            value = b.reshape_to(value, [shape[0], *shape[2:]])
        return b.transpose(value, inverse(self.order))


def _spatial_dimensions(moving: Sequence[int], rank: int) -> Sequence[int]:
    """Return the dimensions of the window, and neighbors if they are too few."""
    count = rank - 2
    if len(moving) == count:
        return moving
    last = moving[-1] if moving else 1
    first = min(max(last - count + 1, 1), rank - count)
    return [*range(first, first + count)]


def _reduce_window(b: TFLBuilder, op: stablehlo.ReduceWindowOp) -> SSAValue:
    combined = _combined_by(op)
    _check_start(op)
    images = Images(op)
    value = images.images(b)
    if combined is stablehlo.MaximumOp:
        if any(max(a.padding[:2]) >= a.size for a in images.window):
            raise Unsupported("has windows in the padding")
        padded = pad_images(b, value, images.window, float_range(images.value)[0])
        return images.pool(b, tfl.MaxPool2DOp, *padded)
    if combined is not stablehlo.AddOp:
        raise Unsupported("has windows of which it is neither the maximum nor the sum")
    padded = pad_images(b, value, images.window, is_explicit=True)
    average = images.pool(b, tfl.AveragePool2DOp, *padded)
    size = b.scalar(prod(a.size for a in images.window), element_type_of(average))
    return b.add(
        tfl.MulOp(
            average,
            size,
            fused_activation_function="NONE",
            result_types=[average.type],
        )
    )


def average_pool(b: TFLBuilder, op: stablehlo.DivideOp) -> SSAValue | None:
    """
    Build the average pooling that a division computes: sums over windows, divided by the
    number of elements, with or without padding. Return `None` for other divisions.
    """
    reduce, counts = op.lhs.owner, known_elements(op.rhs)
    if not isinstance(reduce, stablehlo.ReduceWindowOp) or counts is None:
        return None
    if not isinstance(region_op(reduce), stablehlo.AddOp):
        return None
    _check_start(reduce)
    images = Images(reduce)
    counts = images.arranged(np.broadcast_to(counts, shape_of(op.result)))
    sizes = images.window[0].size, images.window[1].size
    value = images.images(b)
    if (counts == prod(sizes)).all():
        padded = pad_images(b, value, images.window, is_explicit=True)
        return images.pool(b, tfl.AveragePool2DOp, *padded)
    value, padding = pad_images(b, value, images.window)
    if padding != "SAME":
        return None
    strides = images.window[0].stride, images.window[1].stride
    ones = np.ones((1, *shape_of(value)[1:3], 1))
    inside = windows(ones, sizes, Window(strides, padding="SAME")).sum((4, 5))
    if not (counts == inside).all():
        return None
    return images.pool(b, tfl.AveragePool2DOp, value, padding)


CONVERSIONS: Mapping[type[Operation], Conversion] = {
    stablehlo.ReduceOp: _reduce,
    stablehlo.ReduceWindowOp: _reduce_window,
}
"""Conversions of reductions, by op class."""
