"""Window parameters of convolution and pooling ops."""

from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX

from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect.base import shape_of
from xdsl_quant.frontends.tflite.formulas.products import Window
from xdsl_quant.unsupported import Unsupported


def window_of(op: Any) -> Window:
    """
    Return the strides, dilations (1 if the op has none) and padding of an op, or raise
    `Unsupported` for a convolution whose channels do not form groups.
    """
    if isinstance(op, tfl.Conv2DOp | tfl.DepthwiseConv2DOp):
        _check_groups(op)
    dilations = 1, 1
    if "dilation_h_factor" in op.properties:
        factors = op.dilation_h_factor, op.dilation_w_factor
        dilations = factors[0].value.data, factors[1].value.data
    strides = op.stride_h.value.data, op.stride_w.value.data
    return Window(strides, dilations, op.padding.data)


def _check_groups(op: tfl.Conv2DOp | tfl.DepthwiseConv2DOp) -> None:
    image, weights = shape_of(op.input), shape_of(op.filter)
    if (
        not image
        or not weights
        or DYNAMIC_INDEX in (image[-1], weights[0], weights[-1])
    ):
        return
    channels, depth, outputs = image[-1], weights[-1], weights[0]
    if isinstance(op, tfl.DepthwiseConv2DOp):
        depth, outputs = 1, depth
    if not depth or channels % depth:
        raise Unsupported(
            f"has {channels} input channels, expected a multiple of the {depth} channels "
            "of the filter"
        )
    groups = channels // depth
    if not groups or outputs % groups:
        raise Unsupported(
            f"has {outputs} output channels, expected a multiple of the {groups} groups"
        )
