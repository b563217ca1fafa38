"""
Decomposition of quantized StableHLO ops: dequantize, compute with floats, quantize.

Like StableHLO's pass of this name, the pass decomposes ops that the specification defines
as `dequantize_op_quantize`, and ops with a quantized operand and an unquantized result
(`compare`, hybrid `dot_general`, hybrid `convolution`). Data movement ops and `reduce` stay
quantized, but the scalar ops in the region of a `reduce` are decomposed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.diagnostics import fail, fail_for_all
from xdsl_quant.dialects.quant import QuantizedType
from xdsl_quant.dialects.quant.traits import (
    AcceptsStoredValues,
    AccumulatorUniformScale,
    CastsQuantization,
    ComputesElementwise,
    MultipliesAndAccumulates,
    OrdersElements,
    Reduces,
    has_quantization_trait,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.stablehlo.dialect import (
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from xdsl_quant.frontends.stablehlo.dialect.tensor_kinds import (
    QUANTIZED_OR_PER_AXIS as CASTABLE,
)
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.runtime.garbage_collection import without_garbage_collection
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.dequantize_fallback import DequantizeFallback
from xdsl_quant.transforms.building.type_replacement import is_quantized

from .adoption import adopt_ops

COMPUTE_TRAITS = (ComputesElementwise, OrdersElements, MultipliesAndAccumulates)
"""Traits of ops that are computed with floats."""


class DecomposeQuantizedOp(DequantizeFallback[Operation]):
    """Decompose a quantized op of any dialect into StableHLO casts and a float op."""

    op_type = Operation
    dequantize_op = UniformDequantizeOp
    quantize_op = UniformQuantizeOp

    def matches(self, op: Operation) -> TypeGuard[Operation]:
        return super().matches(op) and has_quantization_trait(op, *COMPUTE_TRAITS)

    def check(self, op: Operation) -> None:
        super().check(op)
        for value in filter(is_quantized, (*op.operands, *op.results)):
            if not CASTABLE.accepts(value.type):
                fail(
                    op,
                    f"'{op.name}' op has the type '{value.type}', expected "
                    f"{CASTABLE.description}; lower the op first",
                )
        trait = quantization_trait(op, AccumulatorUniformScale)
        if trait is None or trait.bias >= len(op.operands):
            return
        type_ = op.operands[trait.bias].type
        if isinstance(scalar_or_element_type(type_), IntegerType):
            fail(
                op,
                f"'{op.name}' op has a bias of type '{type_}', expected a quantized one; "
                "lower the op first",
            )

    def lower_float(
        self,
        op: Operation,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        builder: LoweringBuilder,
    ) -> Sequence[SSAValue]:
        return builder.same_op(op, operands, result_types)


def decompose(ops: Iterable[Operation]) -> int:
    """
    Decompose ops that compute with quantized tensors, and return their number.

    Raises:
        PassFailedException: if an op cannot be decomposed; all ops are unchanged then.
    """
    pattern = DecomposeQuantizedOp()
    matched = [*filter(pattern.matches, ops)]
    for op in matched:
        pattern.check(op)
    for op in matched:
        pattern.match_and_rewrite(op, PatternRewriter(op))
    return len(matched)


def has_quantized_operands(op: Operation) -> bool:
    """Return True for an op outside builtin and quant that has a quantized operand."""
    dialect_name, _, _ = op.name.partition(".")
    return dialect_name not in ("builtin", "quant") and any(
        QuantizedType.get_quantized_element_type(type_) for type_ in op.operand_types
    )


@dataclass(frozen=True)
class StablehloLegalizeQuantizedOpToQdqPass(CountingPass):
    """
    Decompose quantized StableHLO ops: `uniform_dequantize` their operands, apply the op to
    floats, `uniform_quantize` the result.

    Unlike StableHLO's pass of the same name, this pass keeps unused ops.
    """

    name = "stablehlo-legalize-quantized-op-to-qdq"

    partial: bool = False
    """True to keep quantized ops with unknown semantics, False to fail."""

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        adopt_ops(op)
        ops = [*op.walk()]
        unknown = [
            inner
            for inner in ops
            if has_quantized_operands(inner)
            and not has_quantization_trait(
                inner, *COMPUTE_TRAITS, AcceptsStoredValues, CastsQuantization, Reduces
            )
        ]
        if unknown and not self.partial:
            fail_for_all(
                unknown,
                "quantized ops with unknown semantics",
                "use 'partial=true' to keep them, or give them traits of "
                "'xdsl_quant.dialects.quant.traits'",
            )
        candidates = [inner for inner in ops if has_quantized_operands(inner)]
        with without_garbage_collection():
            changed = decompose(ops)
        return PassOutcome(
            candidates,
            changed,
            "ops that compute with quantized values",
            unknown,
            "give them traits of 'xdsl_quant.dialects.quant.traits'",
        )


# Former name, kept for compatibility.
takes_quantized = has_quantized_operands
