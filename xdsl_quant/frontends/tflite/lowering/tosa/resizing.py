"""Images of stored values that get another size by interpolation, in TOSA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects.builtin import f32, i8
from xdsl.ir import Operation, SSAValue

from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.formulas import floats, windows
from xdsl_quant.frontends.tosa import ops as tosa_ops
from xdsl_quant.transforms.building.builder import element_type_of
from xdsl_quant.unsupported import Unsupported

from .building import Operand, TosaBuilder, is_unsigned
from .elementwise import Lowering, stored
from .expressions import TosaInteger, TosaReal
from .moving import number


def _resize_bilinear(
    builder: TosaBuilder, op: tfl.ResizeBilinearOp, x: Operand, size: Operand
) -> SSAValue:
    if not x.is_quantized:
        raise Unsupported(f"on '{x.type}' has no form in TOSA")
    height, width = size.numbers
    options = bool(number(op.align_corners)), bool(number(op.half_pixel_centers))
    if is_unsigned(x.type):
        # The kernel computes with floats, of stored values that are 128 more.
        values: Any = TosaReal.of(builder, builder.with_elements(x.value, f32)) + 128.0
        resized: Any = floats.resize_bilinear(values, (height, width), *options)
        rounded = (resized + 0.5).unary(tosa_ops.FloorOp) - 128.0
        return builder.with_elements(rounded.value, i8)
    values = TosaInteger.stored(x)
    if element_type_of(x.value) == i8:
        return stored(op, windows.resize_bilinear(values, (height, width), *options))
    return stored(op, _resized_in_parts(values, (height, width), *options))


def _resized_in_parts(values: Any, sizes: tuple[int, int], *options: bool) -> Any:
    """
    The same with 32 bits: the sum, which has more, is `1024 * high + low`, and of the lower
    part it matters only whether it is 0.
    """
    upper, lower, y = windows.interpolated_rows(values, sizes, *options)
    difference = lower - upper
    low = (difference & 1023) * y
    high = upper + (difference >> 10) * y + (low >> 10)
    # Half a unit is rounded away from 0.
    is_down = (high <= 0) & ((low & 1023) == 0)
    return (high + 512 - is_down) >> 10


LOWERINGS: Mapping[type[Operation], Lowering] = {
    tfl.ResizeBilinearOp: _resize_bilinear,
}
"""The ops that interpolate."""
