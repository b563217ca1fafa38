"""Ops that are computed differently in TOSA than in linalg and NumPy."""

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import numpy as np
from xdsl.ir import Operation

from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect.base import is_true
from xdsl_quant.frontends.tflite.formulas import elementwise, windows
from xdsl_quant.frontends.tflite.formulas.fixed_point import (
    Integers,
    quantized_multiplier,
)
from xdsl_quant.frontends.tflite.formulas.quantized import (
    Quantized,
    scale_of,
    store_corrected,
)
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.primitives import Array
from xdsl_quant.unsupported import Unsupported

from ..kernels import IMPLEMENTATIONS, Computation, Implementation, svdf
from ..kernels.computation import parameters_of
from .building import per_tensor
from .expressions import TosaInteger
from .forms import TosaRescaling

COMPUTED_IN_32_BITS = tfl.SoftmaxOp, tfl.LogSoftmaxOp, tfl.SVDFOp
"""Ops whose kernels compute all but products in 32 bits, even if bounds are larger."""

SHAPES: Mapping[type[Operation], tuple[int, int]] = {
    tfl.ReshapeOp: (1, 0),
    tfl.ExpandDimsOp: (1, 0),
    tfl.BroadcastToOp: (1, 0),
    tfl.FillOp: (0, 0),
    tfl.TopKV2Op: (1, -1),
}
"""
Maps an op to the index of the operand that holds sizes of the result, and the result
dimension of the first of these sizes. The lowering reads the result type instead.
"""

WITHOUT_INTEGERS: Mapping[type[Operation], str] = {
    tfl.NegOp: "on quantized values has no integer kernel",
    tfl.ReduceProdOp: "has no integer form in TOSA",
}
"""Ops that have an integer kernel but no integer form in TOSA, with the reasons."""


def _quantize(op: tfl.QuantizeOp, value: Array) -> Array:
    result = per_tensor(op.output.type)
    if parameters_of(op.input.type) is None:
        return elementwise.quantize(value, result)
    x = Quantized(value.astype(np.int64), per_tensor(op.input.type))
    if not isinstance(value, TosaInteger):
        return elementwise.requantize_integers(x, result)
    ratio = float(x.scale) / float(scale_of(result))
    ends = np.array([x.parameters.storage_min, x.parameters.storage_max])
    if np.abs(ends - x.zero_point).max() * ratio > 1 << 31:
        raise Unsupported("has values that exceed 32 bits before they saturate")
    corrected = cast(TosaInteger, x.corrected)
    rescaling = TosaRescaling.by(corrected, quantized_multiplier(ratio))
    return store_corrected(cast(Integers, rescaling.expression()), result)


_RESIZE = cast(Computation, IMPLEMENTATIONS[tfl.ResizeBilinearOp])


def _resize_bilinear(
    op: tfl.ResizeBilinearOp,
    result: QuantizationParameters,
    x: Quantized,
    size: Array,
) -> Array:
    if result.storage_width == 16:
        rows, columns = size.tolist()
        options = is_true(op.align_corners), is_true(op.half_pixel_centers)
        return windows.resize_bilinear_in_32_bits(x.values, (rows, columns), *options)
    assert _RESIZE.kernel is not None
    return _RESIZE.kernel(op, result, x, size)


IMPLEMENTATIONS_IN_TOSA: Mapping[type[Operation], Implementation] = {
    tfl.ExpandDimsOp: IMPLEMENTATIONS[tfl.ReshapeOp],
    tfl.QuantizeOp: _quantize,
    tfl.ResizeBilinearOp: replace(_RESIZE, kernel=_resize_bilinear),
    tfl.SVDFOp: svdf,
}
