"""
Casts of ONNX: `QuantizeLinear` becomes `quant.qcast`, `DequantizeLinear` `quant.dcast`;
constants that are quantized become constants of stored values. Products with weights in
blocks.
"""

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from xdsl.dialects import tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    IntegerType,
    Signedness,
    TensorType,
    f32,
    i8,
)
from xdsl.ir import SSAValue

from xdsl_quant.dialects.quant import AnyQuantizedType, ChooseParametersOp
from xdsl_quant.frontends.onnx.files.tensors import (
    element_type_of_data,
    unpack_elements,
)
from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.runtime.arrays import numpy_dtype, shape_text
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .operand_checks import with_operand_checks
from .stored_values import (
    Blocks,
    dequantize_stored,
    parameter_of,
    quantize_to_stored,
    with_sign,
)

UI8 = IntegerType(8, Signedness.UNSIGNED)


def _scales_and_blocks(
    b: GraphBuilder, node: Node, x: SSAValue, scale: SSAValue
) -> tuple[SSAValue, Blocks]:
    """Return the scales, of rank 0 if there is one, and the blocks that share them."""
    shape, sizes = shape_of(x), shape_of(scale)
    block_size = node.integer("block_size", 0)
    if prod(sizes) == 1 and not block_size:
        return parameter_of(b, scale, ()), {}
    (axis,) = b.axes([node.integer("axis", 1)], len(shape))
    blocks = {axis: 1}
    if block_size:
        blocks = dict.fromkeys(range(len(shape)), 1) | {axis: block_size}
    counts = [-(-shape[d] // size) for d, size in blocks.items()]
    if len(sizes) != len(counts) or any(
        DYNAMIC_INDEX not in (size, shape[d]) and size != count
        for d, size, count in zip(blocks, sizes, counts, strict=True)
    ):
        raise Unsupported(
            f"has scales of shape {shape_text(sizes)}; expected {shape_text(counts)}"
        )
    return scale, blocks


def _compute_scale(b: GraphBuilder, node: Node, scale: SSAValue) -> SSAValue:
    """Return the scale in the type in which the cast computes."""
    if not isinstance(type_ := element_type_of(scale), AnyFloat):
        raise Unsupported(f"has scales of type '{type_}'; expected floats")
    if precision := node.integer("precision", 0):
        type_ = element_type_of_data(precision)
    elif node.version < 23:
        # onnxruntime computes in the type of the scale since this version only.
        type_ = f32
    if (known := b.known(scale)) is None:
        return b.convert(scale, type_)
    return b.tensor(known.astype(numpy_dtype(type_)), type_)


# Casts


def _quantize_linear(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    scale: SSAValue,
    zero_point: SSAValue | None = None,
) -> SSAValue:
    if zero_point is not None:
        type_ = element_type_of(zero_point)
    else:
        output_type = node.integer("output_dtype", 0)
        type_ = element_type_of_data(output_type) if output_type else UI8
    scale, blocks = _scales_and_blocks(b, node, x, _compute_scale(b, node, scale))
    return quantize_to_stored(
        b,
        x,
        type_,
        scale,
        zero_point,
        blocks,
        saturate=node.flag("saturate", default=True),
    )


def _dequantize_linear(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    scale: SSAValue,
    zero_point: SSAValue | None = None,
) -> SSAValue:
    output_type = node.integer("output_dtype", 0)
    type_ = element_type_of_data(output_type) if output_type else element_type_of(scale)
    scale, blocks = _scales_and_blocks(b, node, x, _compute_scale(b, node, scale))
    return b.convert(dequantize_stored(b, x, scale, zero_point, blocks), type_)


def _dynamic_quantize_linear(
    b: GraphBuilder, node: Node, x: SSAValue
) -> Sequence[SSAValue]:
    storage = AnyQuantizedType(i8, is_signed=False)
    parameters = ChooseParametersOp(x, storage)
    b.add(parameters)
    scale, zero_point = (
        b.op(tensor.FromElementsOp, (result,), TensorType(result.type, ()))
        for result in parameters.results
    )
    zero_point = with_sign(b, zero_point, is_signed=False)
    return quantize_to_stored(b, x, UI8, scale, zero_point), scale, zero_point


def _mat_mul_n_bits(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    weights: SSAValue,
    scales: SSAValue,
    zero_points: SSAValue | None = None,
    group_indices: SSAValue | None = None,
    bias: SSAValue | None = None,
) -> SSAValue:
    """Multiply with weights whose blocks along rows are packed into bytes."""
    if group_indices is not None:
        raise Unsupported("has the unsupported input 'g_idx'")
    if (bits := node.integer("bits", 4)) not in (2, 4, 8):
        raise Unsupported(f"has weights of {bits} bits; expected 2, 4 or 8")
    size, columns = node.integer("K", 0), node.integer("N", 0)
    if (block_size := node.integer("block_size", 32)) < 1:
        raise Unsupported(f"has blocks of size {block_size}")
    counts = columns, -(-size // block_size)
    packed_size = counts[1] * block_size
    numbers = _unpacked_rows(b, weights, bits, (columns, size), packed_size)
    if zero_points is None:
        middle = np.full(counts, 1 << (bits - 1), np.uint8)
        zero_points = b.tensor(middle, element_type_of(numbers))
    elif element_type_of(zero_points) == UI8:
        zero_points = _unpacked_rows(b, zero_points, bits, counts, counts[1])
    else:
        zero_points = parameter_of(b, zero_points, counts)
    scales = parameter_of(b, scales, counts)
    rows = dequantize_stored(b, numbers, scales, zero_points, {0: 1, 1: block_size})
    axes = stablehlo.DotDimensionNumbersAttr([], [], [len(shape_of(x)) - 1], [1])
    product = b.add(stablehlo.DotGeneralOp(x, rows, dot_dimension_numbers=axes))
    return product if bias is None else b.compute(stablehlo.AddOp, product, bias)


def _unpacked_rows(
    b: GraphBuilder,
    packed: SSAValue,
    bits: int,
    shape: tuple[int, int],
    packed_size: int,
) -> SSAValue:
    """
    Unpack numbers from the bytes of rows, the first one from the lowest bits.

    Args:
        b: insertion point.
        packed: constant with the bytes.
        bits: width of a number.
        shape: number and size of rows.
        packed_size: size of a row with padding, without that of its last byte.
    """
    data = b.array(packed, "packed numbers").reshape(-1)
    byte_count = shape[0] * -(-packed_size * bits // 8)
    if data.size != byte_count or data.dtype != np.uint8:
        raise Unsupported(
            f"has {data.size} packed elements of type '{element_type_of(packed)}'; "
            f"expected {byte_count} bytes"
        )
    type_ = IntegerType(bits, Signedness.UNSIGNED)
    rows = unpack_elements(data, type_).reshape(shape[0], -1)[:, : shape[1]]
    return b.tensor(np.ascontiguousarray(rows), type_)


QUANTIZED: Mapping[str, Conversion] = {
    "DequantizeLinear": _dequantize_linear,
    "DynamicQuantizeLinear": _dynamic_quantize_linear,
    "QuantizeLinear": _quantize_linear,
    "com.microsoft.DequantizeLinear": with_operand_checks(
        _dequantize_linear, (0, 1), 3
    ),
    "com.microsoft.MatMulNBits": with_operand_checks(_mat_mul_n_bits, (0, 1, 2), 6),
    "com.microsoft.QuantizeLinear": with_operand_checks(_quantize_linear, (0, 1), 3),
}
"""Conversions of casts and of products with blocks of stored weights, by op."""
