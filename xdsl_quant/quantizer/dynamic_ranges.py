"""
Preparation of float models by dialect: inlining and simplification before kernels are
fused, and integer contractions that quantize their activations at run time.
"""

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from xdsl_quant.diagnostics import op_name
from xdsl_quant.runtime.model_dialects import ModelDialect
from xdsl_quant.runtime.plugins import optional_module, plugins
from xdsl_quant.transforms.propagation.target_spec import TargetSpec

_UNKNOWN = ModelDialect()


def model_dialect(op: Operation) -> ModelDialect:
    """Return the quantizer hooks for the dialect of an op."""
    load = plugins().model_dialects.get(op_name(op).partition(".")[0])
    return _UNKNOWN if load is None else load()


def quantize_activations(module: ModuleOp) -> None:
    """
    Replace contractions with quantized weights by integer contractions that quantize their
    activations, unless the dialect has kernels that quantize activations.

    Args:
        module: a module with quantized float constants as weights; it changes.
    """
    for dialect in {model_dialect(op): None for op in module.walk()}:
        dialect.quantize_activations(module)


def prepare(
    module: ModuleOp, entry: FuncOp, targets: Sequence[TargetSpec] = ()
) -> None:
    """
    Inline small private functions, which jax emits, and simplify ops: for example,
    remove casts to the same type and fold data movement of constants.

    Args:
        module: the float model, which changes.
        entry: the function that takes the samples. It is never removed.
        targets: targets whose composites are not inlined.
    """
    inlining = optional_module("transforms.composites.inlining")
    if inlining is not None:
        inlining.inline_small_functions(module, entry, targets)
    for op in [*module.walk()]:
        model_dialect(op).simplify(op)
    if inlining is not None:
        inlining.erase_unused_functions(module, entry)
