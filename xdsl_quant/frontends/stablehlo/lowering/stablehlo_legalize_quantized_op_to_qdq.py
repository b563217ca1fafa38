"""
Decomposition of quantized StableHLO ops: dequantize, compute with floats, quantize.

Like StableHLO's pass of this name, the pass decomposes ops that the specification defines
as `dequantize_op_quantize`, and ops with a quantized operand and an unquantized result
(`compare`, hybrid `dot_general`, hybrid `convolution`). Data movement ops and `reduce` stay
quantized, but the scalar ops in the region of a `reduce` are decomposed. Unlike StableHLO's
pass, this one also decomposes `iota`, and converts operands and results of a `reduce` to
the quantized types of its region by `uniform_quantize`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

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
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.frontends.stablehlo.dialect import (
    BatchNormInferenceOp,
    DotOp,
    DynamicIotaOp,
    EinsumOp,
    IotaOp,
    UnaryEinsumOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from xdsl_quant.frontends.stablehlo.dialect.reduction import ReductionOp
from xdsl_quant.frontends.stablehlo.dialect.tensor_kinds import (
    QUANTIZED_OR_PER_AXIS as CASTABLE,
)
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.runtime.garbage_collection import without_garbage_collection
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.dequantize_fallback import (
    DequantizeFallback,
    replace_with_built,
)
from xdsl_quant.transforms.building.type_replacement import is_quantized

from .adoption import adopt_ops

COMPUTE_TRAITS = (ComputesElementwise, OrdersElements, MultipliesAndAccumulates)
"""Traits of ops that are computed with floats."""


COMPUTED_OPS = (
    BatchNormInferenceOp,
    DotOp,
    DynamicIotaOp,
    EinsumOp,
    IotaOp,
    UnaryEinsumOp,
)
"""Further ops that are computed with floats."""


class DecomposeQuantizedOp(DequantizeFallback[Operation]):
    """Decompose a quantized op of any dialect into StableHLO casts and a float op."""

    op_type = Operation
    dequantize_op = UniformDequantizeOp
    quantize_op = UniformQuantizeOp

    def matches(self, op: Operation) -> TypeGuard[Operation]:
        computes = has_quantization_trait(op, *COMPUTE_TRAITS) or isinstance(
            op, COMPUTED_OPS
        )
        return computes and super().matches(op)

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


class ConvertToAccumulators(RewritePattern):
    """
    Insert `uniform_quantize` around a reduction: operands are converted to the quantized
    types of its region, and results back.
    """

    def matches(self, op: Operation) -> TypeGuard[ReductionOp]:
        """Return True if the region has other quantized types than operands or results."""
        return isinstance(op, ReductionOp) and _accumulated_types(op) != [
            *op.operand_types,
            *op.result_types,
        ]

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not self.matches(op):
            return
        types, count = _accumulated_types(op), len(op.operands)

        def build(builder: LoweringBuilder) -> Sequence[SSAValue]:
            def converted(value: SSAValue, type_: Attribute) -> SSAValue:
                if value.type == type_:
                    return value
                return builder.op(UniformQuantizeOp, (value,), type_)

            operands = [*map(converted, op.operands, types[:count])]
            regions = [op.detach_region(0)]
            results = builder.same_op(op, operands, types[count:], regions)
            return [*map(converted, results, op.result_types)]

        replace_with_built(op, rewriter, build)


def _accumulated_types(op: ReductionOp) -> Sequence[Attribute]:
    """Return types of operands and results, with the quantized types of the region."""
    arguments = op.body.block.arg_types
    accumulators = (*arguments, *arguments[: len(op.results)])
    return [
        with_element_type(value.type, element_type)
        if (element_type := QuantizedType.get_quantized_element_type(accumulator))
        else value.type
        for value, accumulator in zip(
            (*op.operands, *op.results), accumulators, strict=True
        )
    ]


def decompose(ops: Iterable[Operation]) -> int:
    """
    Decompose ops that compute with quantized tensors, and return their number.

    Raises:
        PassFailedException: if an op cannot be decomposed; all ops are unchanged then.
    """
    pattern, conversion = DecomposeQuantizedOp(), ConvertToAccumulators()
    ops = [*ops]
    matched = [*filter(pattern.matches, ops)]
    reductions = [*filter(conversion.matches, ops)]
    for op in matched:
        pattern.check(op)
    for op in matched:
        pattern.match_and_rewrite(op, PatternRewriter(op))
    for op in reductions:
        conversion.match_and_rewrite(op, PatternRewriter(op))
    return len(matched) + len(reductions)


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
            and not isinstance(inner, COMPUTED_OPS)
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
