"""
Float ops between casts to the integer arithmetic of onnxruntime's kernels.

ONNX models express quantized ops in this form (QDQ): casts dequantize the operands of a
float op and quantize its result. onnxruntime's optimizer replaces such groups of unsigned
tensors by kernels on stored values; see
[`qdq_groups`][xdsl_quant.frontends.stablehlo.lowering.integers.qdq_groups] for the groups,
and [`float_rescaling`][xdsl_quant.frontends.stablehlo.lowering.integers.float_rescaling]
for the arithmetic.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.dialects.quant.ops import rounding_attributes
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.building import StableHLOBuilder
from xdsl_quant.frontends.stablehlo.dialect.products import ProductOp
from xdsl_quant.pass_outcome import PassOutcome
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern, PatternPass

from .adoption import adopt_ops
from .integers.elementwise import Form, Multiplication, replace_with_form
from .integers.merged_products import merge_products
from .integers.qdq_groups import QDQGroup, QuantizeOp, qdq_group
from .stablehlo_legalize_quant_to_integer import integer_patterns

MultiplierKind = Literal["f32", "fixed-point"]
"""A float, or a 32-bit multiplier and a shift."""

_RESCALED_OPS = (ProductOp, stablehlo.AddOp, stablehlo.MultiplyOp, stablehlo.ReduceOp)


@dataclass(frozen=True)
class QDQGroupToIntegers(CheckedPattern[QDQGroup]):
    """Replace a float op between casts by integer arithmetic of onnxruntime's kernels."""

    signed: bool = False
    """True to replace ops on signed tensors, too."""

    multiplier: MultiplierKind = "f32"
    """Kind of the factor that rescales sums and products."""

    def plan(self, op: Operation) -> QDQGroup | None:
        group = qdq_group(op, allows_signed=self.signed)
        if self.multiplier == "f32" or group is None:
            return group
        # The others have no integer form, or one with multipliers of their own.
        return group if isinstance(group.op, _RESCALED_OPS) else None

    def rewrite(self, op: Operation, plan: QDQGroup, rewriter: PatternRewriter) -> None:
        if plan.is_float:
            op.attributes.update(rounding_attributes(Rounding()))
            rewriter.notify_op_modified(op)
            return
        value, ops = plan.build(
            StableHLOBuilder(InsertPoint.before(op), location=op.location)
        )
        unused = op.operands[0].owner
        rewriter.replace(op, (), (value,))
        _erase_unused_chain(unused)
        # Before replacement: the sum of a mean is bounded by the types of its terms.
        rounding = "f32" if self.multiplier == "f32" else "single"
        forms = [
            (quantized_op, _integer_form(quantized_op, rounding))
            for quantized_op in ops
        ]
        for quantized_op, form in forms:
            replace_with_form(quantized_op, form, PatternRewriter(quantized_op))


def _integer_form(op: Operation, rounding: Multiplication) -> Form:
    forms = (pattern.form(op) for pattern in integer_patterns(rounding))
    return next(form for form in forms if form is not None)


def _erase_unused_chain(op: object) -> None:
    """Erase an op whose result is unused, then its unused operands."""
    if not isinstance(op, Operation) or any(r.first_use for r in op.results):
        return
    owners = dict.fromkeys(operand.owner for operand in op.operands)
    Rewriter.erase_op(op)
    for owner in owners:
        _erase_unused_chain(owner)


@dataclass(frozen=True)
class StablehloLegalizeQdqToIntegerPass(PatternPass):
    """
    Replace float ops between casts by the integer arithmetic of onnxruntime's kernels.

    The pass replaces contractions with or without bias, sums and products of two tensors,
    means, `logistic` and softmax between casts of 8-bit types. A bias has the product of
    the scales of the factors; ops with another bias remain. Means of windows remain, but
    their result is quantized with the zero point added before rounding.
    """

    name = "stablehlo-legalize-qdq-to-integer"

    signed: bool = False
    """
    True to replace ops on signed tensors, too, as onnxruntime does with the session option
    `session.qdqisint8allowed`.
    """

    multiplier: MultiplierKind = "f32"
    """
    Kind of the factor that rescales sums and products: `f32`, as in onnxruntime, or
    `fixed-point`, as in `stablehlo-legalize-quant-to-integer`, which leaves `logistic` and
    softmax as floats.
    """

    op_types = QuantizeOp
    expected = "float ops between casts of 8-bit types"
    pattern_type = QDQGroupToIntegers

    def candidates(self, module: ModuleOp) -> Sequence[Operation]:
        adopt_ops(module)
        return super().candidates(module)

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        outcome = super().rewrite(ctx, op)
        merge_products(op)
        return outcome
