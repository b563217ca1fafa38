"""
Replace fake quantization by casts to a quantized type and back.

The rule `mlir` of [`choose_parameters`][xdsl_quant.numerics.choose_parameters] computes
scale and zero point from range, bits and flags. As in MLIR 14, the bits are rounded up to
8, 16 or 32, and stored values use the full width. TensorFlow, which defines these ops, uses
exactly the given bits, as does `exact-bits`. Both casts get the attributes
`quant.rounding_mode`, `quant.zero_point_order` and `quant.nan` of the op. An error leaves
the module unchanged.
"""

from dataclasses import dataclass

from xdsl.ir import Operation, TypeAttribute
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.dialects.quant.fake_quantization import (
    FakeQuantOp,
    quantized_result_type,
)
from xdsl_quant.dialects.quant.ops import stated_attributes
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern, PatternPass

from .ranges.fake_quantization import cast_pair


@dataclass(frozen=True)
class ConvertFakeQuant(CheckedPattern[TypeAttribute]):
    """
    Replace `quant.const_fake_quant` or `quant.const_fake_quant_per_axis` by `quant.qcast`
    and `quant.dcast`. Raises `PassFailedException` if no quantized type exists.
    """

    exact_bits: bool = False
    """True to use exactly the bits of the op instead of 8, 16 or 32."""

    def plan(self, op: Operation) -> TypeAttribute | None:
        if not isinstance(op, FakeQuantOp):
            return None
        return quantized_result_type(op, exact_bits=self.exact_bits)

    def rewrite(
        self, op: Operation, plan: TypeAttribute, rewriter: PatternRewriter
    ) -> None:
        casts = cast_pair(op.operands[0], plan, op.location)
        for cast in casts:
            cast.attributes |= stated_attributes(op)
        rewriter.replace(op, casts)


@dataclass(frozen=True)
class QuantConvertSimulatedQuantizationPass(PatternPass):
    """
    Replace all `quant.const_fake_quant` and `quant.const_fake_quant_per_axis` by
    `quant.qcast` and `quant.dcast`.

    Extends the pass of MLIR 14 with the option `exact-bits`.
    """

    name = "quant-convert-simulated-quantization"
    pattern_type = ConvertFakeQuant
    op_types = FakeQuantOp
    expected = "a 'quant.const_fake_quant'"

    exact_bits: bool = False
    """True to use exactly the bits of the op; otherwise round up to 8, 16 or 32."""
