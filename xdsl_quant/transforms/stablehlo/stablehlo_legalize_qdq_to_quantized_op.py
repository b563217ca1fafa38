"""
Dequantize, compute with floats, quantize: as one quantized StableHLO op.

An op becomes a quantized one if each operand is a `uniform_dequantize` and a
`uniform_quantize` takes its result. The quantized op means what is replaced, so numbers
stay, with one exception: what only moves elements no longer clamps and rounds. That makes a
difference only for stored values outside of a narrowed storage range, and for those that
are no floats of the expressed type, e.g. with 32 bits of storage and `f32`.

StableHLO's own pass fails if the quantized op is invalid, e.g. if storage types differ.
This one leaves such an op as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant.traits import (
    ComputesElementwise,
    MovesElements,
    MultipliesAndAccumulates,
    OrdersElements,
    has_quantization_trait,
)
from xdsl_quant.dialects.stablehlo import UniformDequantizeOp, UniformQuantizeOp
from xdsl_quant.transforms.building.garbage_collection import without_garbage_collection


def _computing_op(quantize: UniformQuantizeOp) -> Operation | None:
    """The op that is to become quantized because of a `uniform_quantize`."""
    op = quantize.operand.owner
    if not isinstance(op, Operation) or not has_quantization_trait(
        op,
        ComputesElementwise,
        OrdersElements,
        MultipliesAndAccumulates,
        MovesElements,
    ):
        return None
    if all(isinstance(value.owner, UniformDequantizeOp) for value in op.operands):
        return op
    return None


def _quantized_op(op: Operation, quantize: UniformQuantizeOp) -> Operation | None:
    """The op on quantized tensors, if it is valid."""
    quantized_op = type(op).create(
        operands=[
            owner.operand
            for value in op.operands
            if isinstance(owner := value.owner, UniformDequantizeOp)
        ],
        result_types=quantize.result_types,
        properties=op.properties,
        attributes=op.attributes,
        location=op.location,
    )
    try:
        quantized_op.verify()
    except VerifyException:
        quantized_op.erase()
        return None
    return quantized_op


def _fuse(quantize: UniformQuantizeOp, op: Operation) -> None:
    quantized_op = _quantized_op(op, quantize)
    if quantized_op is None:
        return
    Rewriter.replace_op(quantize, quantized_op)
    producers = {value.owner: None for value in op.operands}
    if op.results[0].first_use is None:
        Rewriter.erase_op(op)
    for producer in producers:
        if isinstance(producer, Operation) and producer.results[0].first_use is None:
            Rewriter.erase_op(producer)


@dataclass(frozen=True)
class StablehloLegalizeQdqToQuantizedOpPass(ModulePass):
    """
    Compose quantized StableHLO ops from `uniform_dequantize`, op and `uniform_quantize`.

    It is a pass of StableHLO. What nothing uses afterwards goes, of these three.
    """

    name = "stablehlo-legalize-qdq-to-quantized-op"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        quantizes = [o for o in op.walk() if isinstance(o, UniformQuantizeOp)]
        with without_garbage_collection():
            for quantize in quantizes:
                if (computing_op := _computing_op(quantize)) is not None:
                    _fuse(quantize, computing_op)
