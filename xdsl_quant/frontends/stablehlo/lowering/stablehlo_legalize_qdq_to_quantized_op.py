"""
Composition of quantized StableHLO ops from dequantization, float op and quantization.

An op is composed if each of its operands comes from a `uniform_dequantize` and its result
goes to a `uniform_quantize`. The specification defines the quantized op by these float
ops, so results are the same, with one exception: data movement ops no longer clamp and
round. This affects only stored values outside a narrowed storage range, and
values that the expressed type cannot represent, e.g. 32-bit storage with `f32`.

If the quantized op is invalid, e.g. because storage types differ, the pass fails, as
StableHLO's own does, or keeps the float op (`partial=true`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import refuse
from xdsl_quant.dialects.quant.ops import stated_attributes
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
from .stablehlo_legalize_quantized_op_to_qdq import COMPUTE_TRAITS


def _computing_op(quantize: UniformQuantizeOp) -> Operation | None:
    """Return the float op between `uniform_dequantize`s and `quantize`, or `None`."""
    if stated_attributes(quantize):
        # Quantized ops round like StableHLO's casts.
        return None
    op = quantize.operand.owner
    if (
        isinstance(op, Operation)
        and has_quantization_trait(op, *COMPUTE_TRAITS, MovesElements)
        and len(op.results) == 1
        and all(isinstance(value.owner, UniformDequantizeOp) for value in op.operands)
    ):
        return op
    return None


def _on_quantized_tensors(op: Operation, quantize: UniformQuantizeOp) -> Operation:
    """Return a copy of the op on quantized tensors, not verified yet."""
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
    """Compose a quantized op from an op between StableHLO's casts."""

    partial: bool = False
    """True to keep ops that are invalid on quantized tensors, False to fail."""

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
            problem = "cannot be composed to a quantized op"
            refuse(computing_op, problem, e, "use 'partial=true' to keep it")
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

    StableHLO has a pass of the same name. Replaced ops without other uses are erased.
    """

    name = "stablehlo-legalize-qdq-to-quantized-op"

    partial: bool = False
    """True to keep ops that are invalid on quantized tensors, False to fail."""

    expected = (
        "float ops between StableHLO casts, which 'quant-casts-to-stablehlo' creates"
    )
    pattern_type = ComposeQuantizedOp

    def candidates(self, module: ModuleOp) -> Sequence[Operation]:
        adopt_ops(module)
        return [
            o for o in module.walk() if has_quantization_trait(o, CastsQuantization)
        ]
