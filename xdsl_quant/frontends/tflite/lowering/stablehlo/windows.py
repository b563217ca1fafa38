"""Windows over NHWC images."""

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import SSAValue

from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.attributes import padding_attr
from xdsl_quant.frontends.stablehlo.dialect.elementwise import BinaryOp
from xdsl_quant.frontends.tflite.formulas.products import Window
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from ..windows import window_of
from .building import TFLToStableHLOBuilder, number, result_shape


def padding(
    window: Window, image: SSAValue, sizes: Sequence[int]
) -> Sequence[tuple[int, int]]:
    """
    Return the padding before and after height and width.

    Args:
        window: strides, dilations and padding.
        image: NHWC tensor.
        sizes: height and width of the window.

    Raises:
        Unsupported: if the padding depends on a dynamic size.
    """
    shape = shape_of(image)[1:3]
    if window.padding == "SAME" and DYNAMIC_INDEX in shape:
        raise Unsupported("has padding 'SAME' and an image of dynamic size")
    return [
        window.padding_before(size, extent, axis)
        for axis, (size, extent) in enumerate(zip(shape, sizes, strict=True))
    ]


def over_windows(
    b: TFLToStableHLOBuilder,
    op: Any,
    op_type: type[BinaryOp],
    x: SSAValue,
    start: float,
) -> SSAValue:
    """Reduce each window of a pooling op."""
    window = window_of(op)
    sizes = number(op.filter_height), number(op.filter_width)
    element_type = element_type_of(x)
    return b.add(
        stablehlo.ReduceWindowOp(
            [x],
            [b.scalar(start, element_type)],
            op_type,
            [TensorType(element_type, result_shape(op))],
            window_dimensions=[1, *sizes, 1],
            window_strides=[1, *window.strides, 1],
            padding=padding_attr([(0, 0), *padding(window, x, sizes), (0, 0)]),
        )
    )
