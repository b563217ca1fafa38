"""What a quantized model costs, whatever its mode."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.runtime.batches import Batch
from xdsl_quant.transforms.propagation.module_kernels import kernels_of

from .labels import Labels
from .model_report import ModelReport
from .report import report_on
from .times import measure_times
from .weight_report import report_on_weights

__all__ = ["measure", "measure_times"]


def measure(
    float_module: ModuleOp,
    resolved: ModuleOp,
    reference: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None,
    labels: Labels | None,
) -> ModelReport:
    """
    Return the report on the kernels of a model, or on its products if it has no kernels.

    Args:
        float_module: the float model.
        resolved: the model with kernels that have quantization parameters, or with weights
            that are quantized and dequantized.
        reference: the same with the constants of the float model.
        batches: samples, best those that the model was not calibrated with.
        entry: the function that takes the samples.
        labels: what is right for the samples.

    Raises:
        DataError: if the labels do not fit the results.
    """
    if kernels_of(resolved):
        return report_on(resolved, batches, entry, reference, labels)
    return report_on_weights(float_module, resolved, batches, entry, labels)
