"""Ops of onnxruntime that its optimizer makes of several ops of ONNX, in transformers."""

from collections.abc import Mapping, Sequence
from functools import partial

from xdsl.ir import SSAValue

from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.transforms.building.builder import shape_of
from xdsl_quant.unsupported import Unsupported

from .elementwise import ELEMENTWISE, gelu
from .normalization import layer_normalization, rms_normalization
from .operand_checks import with_operand_checks
from .products import PRODUCTS


def _biased_gelu(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    bias: SSAValue | None = None,
    *,
    is_approximate: bool,
) -> SSAValue:
    if bias is not None:
        x = b.compute(stablehlo.AddOp, x, bias)
    return gelu(b, x, is_approximate=is_approximate)


def _quick_gelu(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    scaled = b.compute(stablehlo.MultiplyOp, x, node.number("alpha", 1.702))
    return b.compute(stablehlo.MultiplyOp, x, b.add(stablehlo.LogisticOp(scaled)))


def _fused_mat_mul(
    b: GraphBuilder, node: Node, x: SSAValue, y: SSAValue
) -> SSAValue | Sequence[SSAValue | None]:
    if node.flag("transBatchA") or node.flag("transBatchB"):
        raise Unsupported("transposes batch dimensions; expected 'transBatchA' 0")
    operands = [
        _with_swapped_rows(b, value) if node.flag(name) else value
        for value, name in ((x, "transA"), (y, "transB"))
    ]
    product = PRODUCTS["MatMul"](b, node, *operands)
    assert isinstance(product, SSAValue)
    return b.compute(stablehlo.MultiplyOp, product, node.number("alpha", 1))


def _with_swapped_rows(b: GraphBuilder, x: SSAValue) -> SSAValue:
    if (rank := len(shape_of(x))) < 2:
        return x
    return b.permute(x, [*range(rank - 2), rank - 1, rank - 2])


def _sum(
    b: GraphBuilder, x: SSAValue, skip: SSAValue, bias: SSAValue | None
) -> SSAValue:
    total = b.compute(stablehlo.AddOp, x, skip)
    return total if bias is None else b.compute(stablehlo.AddOp, total, bias)


def _skip_layer_normalization(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    skip: SSAValue,
    scale: SSAValue,
    offset: SSAValue | None = None,
    bias: SSAValue | None = None,
) -> Sequence[SSAValue | None]:
    total = _sum(b, x, skip, bias)
    return *layer_normalization(b, node, total, scale, offset, epsilon=1e-12), total


def _skip_rms_normalization(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    skip: SSAValue,
    scale: SSAValue,
    bias: SSAValue | None = None,
) -> Sequence[SSAValue | None]:
    total = _sum(b, x, skip, bias)
    return rms_normalization(b, node, total, scale, epsilon=1e-12), None, None, total


FUSED: Mapping[str, Conversion] = {
    f"com.microsoft.{name}": with_operand_checks(conversion, range(required), count)
    for name, conversion, required, count in (
        ("BiasGelu", partial(_biased_gelu, is_approximate=False), 2, 2),
        ("FastGelu", partial(_biased_gelu, is_approximate=True), 1, 2),
        ("FusedMatMul", _fused_mat_mul, 2, 2),
        ("Gelu", ELEMENTWISE["Gelu"], 1, 1),
        ("QuickGelu", _quick_gelu, 1, 1),
        ("SkipLayerNormalization", _skip_layer_normalization, 3, 5),
        ("SkipSimplifiedLayerNormalization", _skip_rms_normalization, 3, 4),
    )
}
"""Conversions of onnxruntime's ops, by op."""
