"""
Replace fake quantization by casts to a quantized type and back.

The type is that of MLIR 14: scale and zero point follow from the range, the number of bits
and the two flags, by the rule `mlir` of
[`choose_parameters`][xdsl_quant.numerics.choose_parameters], and stored values have 8, 16
or 32 bits, all of which are used.
TensorFlow, where these ops come from, uses as many bits as they say: this is an option.

All types are chosen before the first op is replaced.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import BoolAttr, ModuleOp
from xdsl.ir import TypeAttribute
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from xdsl_quant.diagnostics import fail
from xdsl_quant.dialects.quant import ConstFakeQuantOp, ConstFakeQuantPerAxisOp

from .ranges.fake_quantization import (
    Storage,
    quantized_and_back,
    quantized_counterpart,
)

FakeQuantOp = ConstFakeQuantOp | ConstFakeQuantPerAxisOp


def _is_set(flag: BoolAttr | None) -> bool:
    return flag is not None and bool(flag.value.data)


def _storage(op: FakeQuantOp, exact_bits: bool) -> Storage:
    num_bits = op.num_bits.value.data
    if not 0 < num_bits <= 32:
        fail(op, f"unsupported FakeQuant number of bits: {num_bits}")
    width = next(width for width in (8, 16, 32) if num_bits <= width)
    return Storage(
        num_bits if exact_bits else width,
        is_signed=_is_set(op.is_signed),
        is_narrow=_is_set(op.narrow_range),
    )


def quantized_result_type(
    op: FakeQuantOp, *, exact_bits: bool = False
) -> TypeAttribute:
    """
    The quantized type that stands for fake quantization.

    Raises:
        PassFailedException: if there is none.
    """
    storage = _storage(op, exact_bits)
    try:
        if isinstance(op, ConstFakeQuantOp):
            return quantized_counterpart(
                op.result.type,
                op.min.value.data,
                op.max.value.data,
                storage,
                rule="mlir",
            )
        lows = [bound.value.data for bound in op.min]
        highs = [bound.value.data for bound in op.max]
        if len(lows) != len(highs):
            fail(
                op,
                f"mismatched per-axis min and max size: {len(lows)} vs. {len(highs)}",
            )
        return quantized_counterpart(
            op.result.type, lows, highs, storage, op.axis.value.data, rule="mlir"
        )
    except ValueError as e:
        fail(op, f"'{op.name}' op cannot be converted: {e}")


@dataclass(frozen=True)
class QuantConvertSimulatedQuantizationPass(ModulePass):
    """
    Replace `quant.const_fake_quant` and `quant.const_fake_quant_per_axis` by `quant.qcast`
    and `quant.dcast`.

    It is a pass of MLIR 14, with one more option.
    """

    name = "quant-convert-simulated-quantization"

    exact_bits: bool = False
    """
    Whether stored values have as many bits as the op says; otherwise they have 8, 16 or
    32, whichever is enough.
    """

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        types = {
            fake_quant: quantized_result_type(fake_quant, exact_bits=self.exact_bits)
            for fake_quant in op.walk()
            if isinstance(fake_quant, FakeQuantOp)
        }
        for fake_quant, quantized in types.items():
            casts = quantized_and_back(fake_quant.input, quantized, fake_quant.location)
            Rewriter.replace_op(fake_quant, casts)
