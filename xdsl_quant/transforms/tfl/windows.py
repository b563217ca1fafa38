"""Windows and accumulators of convolutions and pools, as the ops say them."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Operation

from xdsl_quant.numerics.tflite.products import Window


def window_of(op: Any) -> Window:
    """The strides, dilations and padding of an op; without dilations these are 1."""
    dilations = 1, 1
    if "dilation_h_factor" in op.properties:
        factors = op.dilation_h_factor, op.dilation_w_factor
        dilations = factors[0].value.data, factors[1].value.data
    strides = op.stride_h.value.data, op.stride_w.value.data
    return Window(strides, dilations, op.padding.data)


def has_wide_sums_without_bias(op: Operation) -> bool:
    """
    Return whether sums for values of 16 bits have 64 bits if there is no bias.

    The attribute `quantized_bias_type = 2 : i32` (`INT32`), an option of files that the
    dialect does not have, makes them 32 bits wide.
    """
    return op.attributes.get("quantized_bias_type") != IntegerAttr(2, i32)
