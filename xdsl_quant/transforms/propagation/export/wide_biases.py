"""Biases of kernels of 16-bit activations that are wider than any quantized type."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.dialects.quant.traits import AccumulatorUniformScale, quantization_trait
from xdsl_quant.dialects.quant.types import StoredQuantizedType, scalar_or_element_type
from xdsl_quant.runtime.plugins import dialect_ops


def widen_biases(module: ModuleOp) -> None:
    """
    Replace constant biases of ops on 16-bit activations by wider ones, where the dialect
    has kernels that need them.
    """
    for op in module.walk():
        trait = quantization_trait(op, AccumulatorUniformScale)
        if trait is None or trait.bias >= len(op.operands):
            continue
        activation = scalar_or_element_type(op.operands[trait.factors[0]].type)
        if (
            isinstance(activation, StoredQuantizedType)
            and activation.storage_type_integral_width == 16
        ):
            dialect_ops(op.name.partition(".")[0]).widen_bias(op, trait.bias)
