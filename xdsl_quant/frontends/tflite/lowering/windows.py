"""Window parameters of convolution and pooling ops."""

from typing import Any

from xdsl_quant.frontends.tflite.formulas.products import Window


def window_of(op: Any) -> Window:
    """Return the strides, dilations (1 if the op has none) and padding of an op."""
    dilations = 1, 1
    if "dilation_h_factor" in op.properties:
        factors = op.dilation_h_factor, op.dilation_w_factor
        dilations = factors[0].value.data, factors[1].value.data
    strides = op.stride_h.value.data, op.stride_w.value.data
    return Window(strides, dilations, op.padding.data)
