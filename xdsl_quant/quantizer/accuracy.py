"""Accuracy of a single model on samples with labels."""

from collections.abc import Iterable

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.runtime.batches import Batch
from xdsl_quant.runtime.entry_function import entry_function

from .labels import Accuracy, Labels, Metric, Outputs, Score
from .labels import Scores as Scores
from .recording import RecordedModule, record_results
from .signal_noise import OUTPUT

__all__ = ["Accuracy", "Labels", "Metric", "Outputs", "accuracy_of"]


def accuracy_of(
    module: ModuleOp,
    batches: Iterable[Batch],
    labels: Labels,
    entry: str | None = None,
) -> float:
    """
    Return the accuracy of a float or quantized model.

    Args:
        module: the model, which does not change. Its quantized kernels must have been
            exported as ops.
        batches: the samples.
        labels: the expected labels.
        entry: the function that takes the samples.

    Raises:
        DataError: if the labels do not match the outputs.
        ValueError: if the module cannot be run.
    """
    module = module.clone()
    function = entry_function(module, entry)
    record_results(function, OUTPUT)
    recorded = RecordedModule.of(module, function.sym_name.data)
    score = Score(labels)
    for batch in batches:
        score.add(recorded.values(batch))
    return score.value()
