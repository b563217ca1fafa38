"""Products of StableHLO that quantize their activations at run time."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from xdsl_quant.frontends.stablehlo.dialect.products import ProductOp
from xdsl_quant.frontends.stablehlo.lowering.integers.elementwise import (
    quantized_type_of,
)
from xdsl_quant.frontends.stablehlo.lowering.integers.hybrid_products import (
    DequantizedWeightToStablehlo,
    HybridProductToIntegers,
)
from xdsl_quant.frontends.stablehlo.lowering.stablehlo_legalize_quant_to_integer import (
    ConstantToIntegers,
)
from xdsl_quant.runtime.loading import apply_passes
from xdsl_quant.transforms.statistics.quant_convert_const import QuantConvertConstPass

_PATTERNS = (
    ConstantToIntegers(),
    HybridProductToIntegers(),
    DequantizedWeightToStablehlo(),
)


def unsupported_reason(op: ProductOp, weights: SSAValue) -> str | None:
    """
    Return why a product cannot quantize its activations at run time, or `None` if it can.

    Args:
        op: a product of floats.
        weights: its right operand as quantized values.
    """
    hybrid = op.clone()
    hybrid.operands[1] = weights
    try:
        HybridProductToIntegers().form(hybrid)
    except ValueError as e:
        return str(e)
    finally:
        hybrid.erase()
    return None


def quantize_activations(module: ModuleOp) -> None:
    """
    Replace products of StableHLO that take quantized weights by integer products.

    Weights that other products dequantize become StableHLO without quantized types, too.
    Modules without such products do not change.

    Args:
        module: changes; its weights are float constants that are quantized.
    """
    if not any(map(_is_hybrid, module.walk())):
        return
    apply_passes(module, [QuantConvertConstPass()], is_routine=True)
    for pattern in _PATTERNS:
        pattern.rewrite_module(module)


def _is_hybrid(op: Operation) -> bool:
    return isinstance(op, ProductOp) and quantized_type_of(op.rhs.type) is not None
