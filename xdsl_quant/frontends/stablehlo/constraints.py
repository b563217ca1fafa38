"""
Constraints of StableHLO on quantized types: supported storage types, and the rules common
to all dialects.

These constraints do not depend on how a value is used. TensorFlow Lite's do: see
[`frontends.tflite.constraints`][xdsl_quant.frontends.tflite.constraints.types].
"""

from collections.abc import Iterator

from xdsl.dialects.builtin import IntegerType, Signedness

from xdsl_quant.dialects.quant.constructor_arguments import short_text
from xdsl_quant.dialects.quant.type_rules import (
    Finding,
    RuleSet,
    TypeUse,
    common_findings,
)
from xdsl_quant.dialects.quant.types import UniformType

STORAGE_WIDTHS = (2, 4, 8, 16, 32)
"""Bit widths of StableHLO's storage types, signed and unsigned."""


def stablehlo_findings(use: TypeUse) -> Iterator[Finding]:
    """Yield a finding for each StableHLO constraint that a quantized type violates."""
    if isinstance(use.quantized_type, UniformType):
        yield from _storage_type(use.quantized_type)
    yield from common_findings(use)


def _storage_type(quantized_type: UniformType) -> Iterator[Finding]:
    storage_type = quantized_type.storage_type
    if (
        isinstance(storage_type, IntegerType)
        and storage_type.width.data in STORAGE_WIDTHS
        and storage_type.signedness.data is not Signedness.SIGNED
    ):
        return
    legal = ", ".join(f"{sign}{width}" for sign in "iu" for width in STORAGE_WIDTHS)
    yield Finding(
        "QuantizationStorageType",
        f"storage type {quantized_type.short_storage_name} of "
        f"{short_text(quantized_type)} is not one of {legal}",
    )


STABLEHLO_RULES = RuleSet("StableHLO", stablehlo_findings)
