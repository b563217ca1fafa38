"""
The dialects of the ops of a model, and products that quantize their activations at run
time.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from xdsl_quant.diagnostics import op_name
from xdsl_quant.runtime.model_dialects import ModelDialect
from xdsl_quant.runtime.plugins import plugins

_UNKNOWN = ModelDialect()


def model_dialect(op: Operation) -> ModelDialect:
    """Return the dialect of an op."""
    found = plugins().model_dialects.get(op_name(op).partition(".")[0])
    return _UNKNOWN if found is None else found()


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
