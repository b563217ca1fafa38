"""How the windows of convolutions and pools move, as the ops say it."""

from typing import Any

from xdsl_quant.frontends.tflite.formulas.products import Window


def window_of(op: Any) -> Window:
    """
    Return the strides, dilations and padding of an op; without dilations these are 1.
    """
    dilations = 1, 1
    if "dilation_h_factor" in op.properties:
        factors = op.dilation_h_factor, op.dilation_w_factor
        dilations = factors[0].value.data, factors[1].value.data
    strides = op.stride_h.value.data, op.stride_w.value.data
    return Window(strides, dilations, op.padding.data)
