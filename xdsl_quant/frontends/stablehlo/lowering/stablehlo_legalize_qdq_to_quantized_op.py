"""
Dequantize, compute with floats, quantize: as one quantized StableHLO op.

An op becomes a quantized one if each operand is a `uniform_dequantize` and a
`uniform_quantize` takes its result. The quantized op means what is replaced, so numbers
stay, with one exception: what only moves elements no longer clamps and rounds. That makes a
difference only for stored values outside of a narrowed storage range, and for those that
are no floats of the expressed type, e.g. with 32 bits of storage and `f32`.

If the quantized op is not valid, e.g. because storage types differ, the pass fails, as
StableHLO's own one does, or leaves such an op as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import refuse
from xdsl_quant.dialects.quant.traits import (
    CastsQuantization,
    MovesElements,
    has_quantization_trait,
)
from xdsl_quant.frontends.stablehlo.dialect import (
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern, PatternPass

from .adoption import adopt_ops
from .stablehlo_legalize_quantized_op_to_qdq import COMPUTING


def _computing_op(quantize: UniformQuantizeOp) -> Operation | None:
    """Return the op that is to become quantized because of a `uniform_quantize`."""
    op = quantize.operand.owner
    if (
        isinstance(op, Operation)
        and has_quantization_trait(op, *COMPUTING, MovesElements)
        and len(op.results) == 1
        and all(isinstance(value.owner, UniformDequantizeOp) for value in op.operands)
    ):
        return op
    return None


def _on_quantized_tensors(op: Operation, quantize: UniformQuantizeOp) -> Operation:
    """Return the op on quantized tensors, which may not be valid."""
    return type(op).create(
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


@dataclass(frozen=True)
class ComposeQuantizedOp(CheckedPattern[Operation]):
    """
    Replaces a `stablehlo.uniform_quantize` of the result of an op, all of whose operands
    are results of `stablehlo.uniform_dequantize`, by that op on quantized tensors.
    """

    partial: bool = False
    """
    True if an op stays that is not valid on quantized tensors; otherwise this fails.
    """

    def plan(self, op: Operation) -> Operation | None:
        if not isinstance(op, UniformQuantizeOp):
            return None
        if (computing_op := _computing_op(op)) is None:
            return None
        quantized_op = _on_quantized_tensors(computing_op, op)
        try:
            quantized_op.verify()
        except VerifyException as e:
            if self.partial:
                return None
            problem = "cannot become a quantized op"
            refuse(computing_op, problem, e, "use 'partial=true' to leave it as it is")
        finally:
            quantized_op.erase()
        return computing_op

    def rewrite(
        self, op: Operation, plan: Operation, rewriter: PatternRewriter
    ) -> None:
        assert isinstance(op, UniformQuantizeOp)
        rewriter.replace(op, _on_quantized_tensors(plan, op))
        for unused in dict.fromkeys((plan, *(value.owner for value in plan.operands))):
            assert isinstance(unused, Operation)
            if unused.results[0].first_use is None:
                rewriter.erase(unused)


@dataclass(frozen=True)
class StablehloLegalizeQdqToQuantizedOpPass(PatternPass):
    """
    Compose quantized StableHLO ops from `uniform_dequantize`, op and `uniform_quantize`.

    It is a pass of StableHLO. What nothing uses afterwards goes, of these three.
    """

    name = "stablehlo-legalize-qdq-to-quantized-op"

    partial: bool = False
    """True if ops stay that are not valid on quantized tensors; otherwise it fails."""

    expected = (
        "float ops between casts of StableHLO, which 'quant-casts-to-stablehlo' makes"
    )
    pattern_type = ComposeQuantizedOp

    def candidates(self, module: ModuleOp) -> Sequence[Operation]:
        adopt_ops(module)
        return [
            o for o in module.walk() if has_quantization_trait(o, CastsQuantization)
        ]
