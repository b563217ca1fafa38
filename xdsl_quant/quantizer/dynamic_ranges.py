"""Products that quantize their activations at run time."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from .model_dialects import model_dialect


def quantize_activations(module: ModuleOp) -> None:
    """
    Replace products that take quantized weights by integer products, unless their dialect
    has kernels that quantize activations themselves.

    Modules without such products do not change.

    Args:
        module: changes; its weights are float constants that are quantized.
    """
    for dialect in {model_dialect(op): None for op in module.walk()}:
        dialect.quantize_activations(module)
