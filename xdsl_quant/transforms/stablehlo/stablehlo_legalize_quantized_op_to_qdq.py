"""
Quantized StableHLO ops as what they mean: dequantize, compute with floats, quantize.

The ops are those whose meaning in the specification is `dequantize_op_quantize`, and those
with a quantized operand and another result: `compare`, and `dot_general` and `convolution`
of a floating-point tensor by quantized weights. They are the same ones as for StableHLO's
own pass. What only moves elements stays quantized, as does a `reduce`, in whose region the
ops on scalars are replaced.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from xdsl_quant.dialects.quant import QuantizedType
from xdsl_quant.dialects.quant.traits import (
    ComputesElementwise,
    MultipliesAndAccumulates,
    OrdersElements,
    has_quantization_trait,
)
from xdsl_quant.dialects.stablehlo import UniformDequantizeOp, UniformQuantizeOp
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.garbage_collection import without_garbage_collection


def is_quantized_op(op: Operation) -> bool:
    """Whether an op computes with quantized tensors."""
    return has_quantization_trait(
        op, ComputesElementwise, OrdersElements, MultipliesAndAccumulates
    ) and any(
        QuantizedType.get_quantized_element_type(value.type) is not None
        for value in (*op.operands, *op.results)
    )


def _expressed(type_: Attribute) -> Attribute:
    """The type of expressed values of a quantized type, or another type itself."""
    return QuantizedType.cast_to_expressed_type(type_) or type_


def decompose(op: Operation) -> None:
    """Replace a quantized op by dequantization, the op on floats, and quantization."""
    builder = LoweringBuilder.before(op)
    builder.name_hint = op.results[0].name_hint
    operands = [
        builder.op(UniformDequantizeOp, (operand,), type_)
        if (type_ := _expressed(operand.type)) != operand.type
        else operand
        for operand in op.operands
    ]
    (result,) = op.results
    result_type = _expressed(result.type)
    computing_op = type(op).create(
        operands=operands,
        result_types=(result_type,),
        properties=op.properties,
        attributes=op.attributes,
    )
    expressed = builder.add(computing_op)
    if result_type != result.type:
        expressed = builder.op(UniformQuantizeOp, (expressed,), result.type)
    builder.replace(op, (expressed,))


@dataclass(frozen=True)
class StablehloLegalizeQuantizedOpToQdqPass(ModulePass):
    """
    Decompose quantized StableHLO ops: `uniform_dequantize` their operands, apply the op
    to floats, `uniform_quantize` the result.

    It is a pass of StableHLO, but for what nothing uses: that stays.
    """

    name = "stablehlo-legalize-quantized-op-to-qdq"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        quantized_ops = [o for o in op.walk() if is_quantized_op(o)]
        with without_garbage_collection():
            for quantized_op in quantized_ops:
                decompose(quantized_op)
