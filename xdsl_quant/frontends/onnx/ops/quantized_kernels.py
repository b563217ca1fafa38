"""
Kernels on stored values: float ops between casts, and sums of products of integers.

The float ops and casts are those of the QDQ form of the same kernel, which targets fuse.
Results differ from those of onnxruntime's kernels by at most 1, since these multiply sums
of integers by one rounded factor.

The bias of a kernel has the product of the scales of its operands by definition. In the
QDQ form, a bias has its own scale: it is dequantized with that one, while onnxruntime's
optimizer silently takes the product when it fuses a Gemm.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf, prod

import numpy as np
from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import SSAValue

from xdsl_quant.dialects.quant import DequantizeCastOp, UniformQuantizedType
from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .operand_checks import with_operand_checks
from .stored_values import (
    Blocks,
    clip_quantized,
    dequantize_stored,
    parameter_of,
    quantize_to_stored,
    quantized_source,
    stored_value,
)


def _float_op(
    b: GraphBuilder, name: str, node: Node, *operands: SSAValue | None, version: int = 0
) -> SSAValue:
    """Convert a float op of ONNX with the attributes of a kernel."""
    version = version or b.versions.get("ai.onnx", 1)
    result = b.conversions[name](b, Node(node.proto, version), *operands)
    assert isinstance(result, SSAValue)
    return result


def _along(
    b: GraphBuilder, x: SSAValue, parameter: SSAValue, axis: int
) -> tuple[SSAValue, Blocks]:
    """
    Return scales or zero points, and the blocks that share them.

    Args:
        b: insertion point.
        x: operand of a kernel.
        parameter: one number, one for each index of an axis, or a tensor of the rank of `x`
            with size 1 along the other axes.
        axis: the axis of a vector.
    """
    sizes, rank = shape_of(parameter), len(shape_of(x))
    if prod(sizes) == 1:
        return parameter_of(b, parameter, ()), {}
    if len(sizes) == 1:
        return parameter, {axis % rank: 1}
    if len(sizes) != rank:
        raise Unsupported(
            f"has parameters of rank {len(sizes)}; expected 0, 1 or {rank}"
        )
    return parameter, {d: 1 for d, size in enumerate(sizes) if size > 1}


def _kernel_operand(
    b: GraphBuilder,
    x: SSAValue,
    scale: SSAValue,
    zero_point: SSAValue | None,
    axis: int = 0,
) -> SSAValue:
    scale, blocks = _along(b, x, scale, axis)
    return dequantize_stored(b, x, scale, zero_point, blocks)


def _kernel_result(
    b: GraphBuilder,
    x: SSAValue,
    scale: SSAValue,
    zero_point: SSAValue | None,
    like: SSAValue,
    axis: int = 0,
) -> SSAValue:
    """Quantize a result; without zero point, it has the element type of an operand."""
    scale, blocks = _along(b, x, scale, axis)
    type_ = element_type_of(like if zero_point is None else zero_point)
    return quantize_to_stored(b, x, type_, scale, zero_point, blocks)


# Float ops between casts


def _unary_kernel(
    op_name: str,
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    x_scale: SSAValue,
    x_zero_point: SSAValue | None,
    scale: SSAValue,
    zero_point: SSAValue | None = None,
) -> SSAValue:
    value = _kernel_operand(b, x, x_scale, x_zero_point)
    is_last, rank = node.flag("channels_last"), len(shape_of(x))
    if is_last:
        value = b.permute(value, [0, rank - 1, *range(1, rank - 1)])
    value = _float_op(b, op_name, node, value, version=node.integer("opset", 0))
    if is_last:
        value = b.permute(value, [0, *range(2, rank), 1])
    return _kernel_result(b, value, scale, zero_point, x)


def _binary_kernel(
    op_name: str,
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    x_scale: SSAValue,
    x_zero_point: SSAValue | None,
    y: SSAValue,
    y_scale: SSAValue,
    y_zero_point: SSAValue | None,
    scale: SSAValue,
    zero_point: SSAValue | None = None,
) -> SSAValue:
    """Convert a kernel of two operands, which may have scales along rows and columns."""
    value = _float_op(
        b,
        op_name,
        node,
        _kernel_operand(b, x, x_scale, x_zero_point, -2),
        _kernel_operand(b, y, y_scale, y_zero_point, -1),
    )
    return _kernel_result(b, value, scale, zero_point, x, -2)


def _conv_kernel(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    x_scale: SSAValue,
    x_zero_point: SSAValue | None,
    weights: SSAValue,
    weights_scale: SSAValue,
    weights_zero_point: SSAValue | None,
    scale: SSAValue,
    zero_point: SSAValue | None = None,
    bias: SSAValue | None = None,
) -> SSAValue:
    if bias is not None:
        bias = _kernel_operand(b, bias, _product_scale(b, x_scale, weights_scale), None)
    value = _float_op(
        b,
        "Conv",
        node,
        _kernel_operand(b, x, x_scale, x_zero_point),
        _kernel_operand(b, weights, weights_scale, weights_zero_point),
        bias,
    )
    return _kernel_result(b, value, scale, zero_point, x)


def _gemm_kernel(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    x_scale: SSAValue,
    x_zero_point: SSAValue | None,
    y: SSAValue,
    y_scale: SSAValue,
    y_zero_point: SSAValue | None,
    bias: SSAValue | None = None,
    scale: SSAValue | None = None,
    zero_point: SSAValue | None = None,
) -> SSAValue:
    if bias is not None:
        product_scale = _product_scale(b, x_scale, y_scale)
        factor = b.tensor(np.array(node.number("alpha", 1), np.float32))
        bias = _kernel_operand(
            b, bias, _product_scale(b, product_scale, factor), None, -1
        )
    value = _float_op(
        b,
        "Gemm",
        node,
        _kernel_operand(b, x, x_scale, x_zero_point),
        _kernel_operand(b, y, y_scale, y_zero_point, -2 if node.flag("transB") else -1),
        bias,
    )
    return value if scale is None else _kernel_result(b, value, scale, zero_point, x)


def _product_scale(b: GraphBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Multiply scales; those of constants are constants."""
    x, y = (parameter_of(b, v, ()) if prod(shape_of(v)) == 1 else v for v in (x, y))
    first, second = b.known(x), b.known(y)
    if first is None or second is None:
        return b.compute(stablehlo.MultiplyOp, x, y)
    return b.tensor(np.multiply(first, second), element_type_of(x))


def _concat_kernel(b: GraphBuilder, node: Node, *operands: SSAValue | None) -> SSAValue:
    present = [operand for operand in operands if operand is not None]
    if len(present) < max(len(operands), 5) or len(present) % 3 != 2:
        raise Unsupported(
            f"has {len(present)} operands; expected scale and zero point of the result, "
            "then three for each tensor"
        )
    scale, zero_point, *triples = present
    values = [
        _kernel_operand(b, x, x_scale, x_zero_point)
        for x, x_scale, x_zero_point in zip(
            triples[::3], triples[1::3], triples[2::3], strict=True
        )
    ]
    value = _float_op(b, "Concat", node, *values)
    return _kernel_result(b, value, scale, zero_point, triples[0])


# Sums of products of integers


def _corrected_integers(
    b: GraphBuilder, x: SSAValue, zero_point: SSAValue | None, axis: int
) -> SSAValue:
    """Subtract the zero point in 32 bits."""
    value = b.convert(x, i32)
    if zero_point is None:
        return value
    zero_point, blocks = _along(b, x, zero_point, axis)
    zero_point = b.convert(zero_point, i32)
    if blocks and len(blocks) == len(shape_of(zero_point)):
        zero_point = b.broadcast(zero_point, shape_of(x), [*blocks])
    return b.compute(stablehlo.SubtractOp, value, zero_point)


def _integer_product(
    op_name: str,
    axes: tuple[int, int],
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    y: SSAValue,
    x_zero_point: SSAValue | None = None,
    y_zero_point: SSAValue | None = None,
) -> SSAValue:
    """
    Convert a product of integers.

    Args:
        op_name: the float op.
        axes: axis of each operand along which zero points may differ.
        b: insertion point.
        node: the node.
        x: left operand.
        y: right operand.
        x_zero_point: zero points of `x`.
        y_zero_point: zero points of `y`.
    """
    return _float_op(
        b,
        op_name,
        node,
        _corrected_integers(b, x, x_zero_point, axes[0]),
        _corrected_integers(b, y, y_zero_point, axes[1]),
    )


# Data movement


def _move_quantized(
    conversion: Conversion,
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    *operands: SSAValue | None,
) -> Sequence[SSAValue | None]:
    """Convert an op on stored values to the same op on quantized values, if known."""
    source = quantized_source(x)
    if source is None or not isinstance(element_type_of(source), UniformQuantizedType):
        source = x
    results = conversion(b, node, source, *operands)
    results = [results] if isinstance(results, SSAValue) else results
    if source is x:
        return results
    return [None if value is None else stored_value(b, value) for value in results]


def _order_quantized(
    conversion: Conversion, b: GraphBuilder, node: Node, x: SSAValue
) -> SSAValue | Sequence[SSAValue | None]:
    """Convert an op on stored values to the same op on floats, which have their order."""
    source = quantized_source(x)
    if source is None or not isinstance(
        type_ := element_type_of(source), UniformQuantizedType
    ):
        return conversion(b, node, x)
    floats = TensorType(type_.expressed_type, shape_of(source))
    return conversion(b, node, b.op(DequantizeCastOp, (source,), floats))


def _clip_stored(
    conversion: Conversion,
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    low: SSAValue | None = None,
    high: SSAValue | None = None,
) -> SSAValue | Sequence[SSAValue | None]:
    """Convert a clip of stored values, with which Brevitas writes narrow types."""
    bounds = [-inf if low is None else None, inf if high is None else None]
    for index, bound in enumerate((low, high)):
        if bound is not None and (known := b.known(bound)) is not None:
            bounds[index] = float(known.reshape(-1)[0]) if known.size else None
    match bounds:
        case [float(first), float(last)]:
            clipped = clip_quantized(b, x, max(first, -(1 << 32)), min(last, 1 << 32))
            if clipped is not None:
                return clipped
        case _:
            pass
    return conversion(b, node, x, low, high)


def with_quantized_moves(
    conversions: Mapping[str, Conversion],
) -> Mapping[str, Conversion]:
    """
    Return conversions whose ops that move elements keep quantized types, so that values
    between two kernels, or between a cast and a kernel, are quantized all the way; and
    whose positions of extrema are those of floats.
    """
    moves = {
        name: partial(_move_quantized, conversion)
        for name, conversion in conversions.items()
        if name in _MOVES
    }
    orders = {
        name: partial(_order_quantized, conversions[name])
        for name in ("ArgMax", "ArgMin")
    }
    clip = partial(_clip_stored, conversions["Clip"])
    return {**conversions, **moves, **orders, "Clip": clip}


_MOVES = frozenset(
    """
    DepthToSpace Flatten MaxPool Reshape Slice SpaceToDepth Split Squeeze Transpose
    Unsqueeze
    """.split()
)
"""Ops whose results have the type of their first operand."""


def _microsoft_unary(op_name: str) -> Conversion:
    return with_operand_checks(partial(_unary_kernel, op_name), (0, 1, 3), 5)


def _microsoft_binary(op_name: str) -> Conversion:
    return with_operand_checks(partial(_binary_kernel, op_name), (0, 1, 3, 4, 6), 8)


QUANTIZED_KERNELS: Mapping[str, Conversion] = {
    "ConvInteger": partial(_integer_product, "Conv", (1, 0)),
    "MatMulInteger": partial(_integer_product, "MatMul", (-2, -1)),
    "QLinearConv": _conv_kernel,
    "QLinearMatMul": partial(_binary_kernel, "MatMul"),
    "com.microsoft.QGemm": with_operand_checks(_gemm_kernel, (0, 1, 3, 4), 9),
    "com.microsoft.QLinearAdd": _microsoft_binary("Add"),
    "com.microsoft.QLinearAveragePool": _microsoft_unary("AveragePool"),
    "com.microsoft.QLinearConcat": _concat_kernel,
    "com.microsoft.QLinearGlobalAveragePool": _microsoft_unary("GlobalAveragePool"),
    "com.microsoft.QLinearLeakyRelu": _microsoft_unary("LeakyRelu"),
    "com.microsoft.QLinearMul": _microsoft_binary("Mul"),
    "com.microsoft.QLinearSigmoid": _microsoft_unary("Sigmoid"),
    "com.microsoft.QLinearSoftmax": _microsoft_unary("Softmax"),
}
"""Conversions of kernels on stored values, by op."""
