"""Labels of samples, and the accuracy of models on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import prod
from typing import SupportsFloat, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.batches import Batch

from .samples import DataError, LabelData, labels_of
from .signal_noise import OUTPUT, Floats, Values

Outputs: TypeAlias = tuple[Array, ...]
"""Float or dequantized results of a model, with a row for each sample."""

Metric: TypeAlias = Callable[[Outputs, Array], float]
"""
Function that takes the outputs of a model for all samples, and the labels. It returns a
number, e.g. the fraction of correct predictions.
"""


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of a float model and of the quantized model on the same samples."""

    metric: str
    """`accuracy`, or the name of the user's function."""

    float_value: float

    quantized_value: float

    sample_count: int

    def __str__(self) -> str:
        """Return, e.g., `accuracy: 97.8% -> 96.6% of 89 samples`."""
        before, after = map(self.text, (self.float_value, self.quantized_value))
        return f"{self.metric}: {before} -> {after} of {self.sample_count} samples"

    def text(self, value: float) -> str:
        """Format a value of the metric for a table."""
        return f"{value:.1%}" if self.metric == ACCURACY else f"{value:.6g}"


ACCURACY = "accuracy"
"""Name of the default metric."""

_ARGMAX = "take argmax(-1) of one-hot labels"


@dataclass(frozen=True)
class Labels:
    """Expected labels of samples, and the metric that compares outputs with them."""

    values: Array
    """Labels with a row for each sample."""

    metric: Metric | None = None
    """Metric; default: fraction of samples whose largest output is that of their label."""

    source: str = "labels"
    """Name of the labels in messages, e.g. the path of the file."""

    @staticmethod
    def of(
        labels: LabelData, batches: Iterable[Batch], metric: Metric | None = None
    ) -> Labels:
        """
        Read and check labels.

        Args:
            labels: a `.npy` or `.npz` file with one array, or an array; class indices
                if `metric` is `None`.
            batches: the samples, as returned by
                [`batches_of`][xdsl_quant.quantizer.samples.batches_of].
            metric: the function that compares outputs with labels.

        Raises:
            DataError: if labels cannot be read, differ in number from the samples, or
                are not class indices although `metric` is `None`.
            TypeError: if labels or the metric have another type.
        """
        source, values = labels_of(labels, batches)
        if metric is not None and not callable(cast(object, metric)):
            raise TypeError(
                "metric must be a function of outputs and labels, not "
                f"{type(metric).__name__}"
            )
        if metric is None and values.dtype.kind not in "iu":
            remedy = "convert them with astype" if values.ndim == 1 else _ARGMAX
            raise DataError(
                f"expected class indices, found dtype {values.dtype}; "
                f"{remedy}, or give a metric in Python",
                source,
            )
        return Labels(values, metric, source)

    @property
    def name(self) -> str:
        """Name of the metric."""
        if self.metric is None:
            return ACCURACY
        return getattr(self.metric, "__name__", type(self.metric).__name__)


@dataclass
class Score:
    """Outputs of a model, collected batch by batch, and their metric."""

    labels: Labels
    _batches: list[Outputs] = field(default_factory=list[Outputs])

    def add(self, values: Values) -> None:
        """
        Add the recorded values of the next batch.

        Raises:
            DataError: if the model has no float output or, without a metric, its first
                output has fewer than two classes.
        """
        outputs = tuple(value for key, value in values.items() if OUTPUT in key)
        if not outputs or not all(output.ndim for output in outputs):
            raise DataError(
                "expected float outputs with a row for each sample; leave labels out",
                self.labels.source,
            )
        if self.labels.metric is None:
            # Keep only the class: outputs of all samples may be large.
            outputs = (_classes(outputs[0], self.labels),)
        self._batches.append(outputs)

    def value(self) -> float:
        """
        Return the metric.

        Raises:
            DataError: if the numbers of rows and labels differ.
            TypeError: if the metric returns something other than a number.
        """
        outputs: Outputs = tuple(
            np.concatenate(arrays) for arrays in zip(*self._batches, strict=True)
        )
        labels = self.labels.values
        count = len(outputs[0]) if outputs else 0
        if count != len(labels):
            raise DataError(
                f"found {len(labels)} labels, expected {count} for the rows of the outputs",
                self.labels.source,
            )
        if self.labels.metric is not None:
            return self._number(self.labels.metric(outputs, labels))
        return (
            np.count_nonzero(outputs[0].reshape(labels.shape) == labels) / labels.size
        )

    def _number(self, value: object) -> float:
        try:
            number = float(cast("SupportsFloat", value))
        except (TypeError, ValueError):
            number = math.nan
        if math.isnan(number):
            raise TypeError(
                f"metric '{self.labels.name}' must return a number, not {value!r}"
            )
        return number


def _classes(output: Floats, labels: Labels) -> NDArray[np.intp]:
    values = labels.values
    count = output.shape[-1] if output.ndim > 1 else 1
    if count < 2:
        raise DataError(
            "expected two or more classes in the last dimension of the first output, "
            f"found shape {[*output.shape]}; give a metric in Python",
            labels.source,
        )
    shape = output.shape[1:-1]
    if prod(values.shape[1:]) != prod(shape):
        raise DataError(
            "expected class indices of shape "
            f"{[len(values), *shape]}, found {[*values.shape]}; {_ARGMAX}, or give a "
            "metric in Python",
            labels.source,
        )
    if values.size and not (0 <= values.min() and values.max() < count):
        raise DataError(
            f"expected class indices from 0 to {count - 1}, "
            f"found {values.min()} to {values.max()}",
            labels.source,
        )
    return output.argmax(-1)


class Scores:
    """Scores of a float model and of the quantized model; empty without labels."""

    def __init__(self, labels: Labels | None):
        self._labels = labels
        self._scores = [] if labels is None else [Score(labels), Score(labels)]

    def add(self, expected: Values, actual: Values) -> None:
        """Add recorded values of the float model and of the quantized model."""
        for score, values in zip(self._scores, (expected, actual), strict=False):
            score.add(values)

    def accuracy(self) -> Accuracy | None:
        """Return the accuracy of both models, or `None` without labels."""
        if self._labels is None:
            return None
        before, after = (score.value() for score in self._scores)
        return Accuracy(self._labels.name, before, after, len(self._labels.values))
