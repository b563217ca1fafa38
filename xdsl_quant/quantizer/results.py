"""Float models as modules, text and files, and quantized models by mode."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.dialects.quant import RegionOp
from xdsl_quant.runtime.atomic_files import has_suffix, open_atomically
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.extras import slice_function
from xdsl_quant.runtime.loading import (
    Model,
    as_module,
    model_format,
    module_text,
    suffixes,
)

from .labels import Labels, Metric
from .recipe import Recipe
from .report_data import ModelReport
from .samples import Data, LabelData, batches_of

if TYPE_CHECKING:
    from xdsl_quant.calibration import Statistics
    from xdsl_quant.transforms.propagation.resolution.report import PropagationReport
    from xdsl_quant.transforms.propagation.target_spec import TargetSpec

    from .search_result import BitSearchResult


@dataclass(frozen=True, kw_only=True)
class QuantizedModel:
    """A quantized model, with the modules that its report needs."""

    module: ModuleOp

    float_module: ModuleOp
    """The float model after inlining and constant folding."""

    resolved: ModuleOp
    """The float model, with quantization parameters in casts or kernels."""

    reference: ModuleOp
    """`resolved` with the constants of the float model."""

    recipe: Recipe

    entry: str | None = None
    """Function that takes the samples; `None` for the only public function, or `main`."""

    def report(
        self,
        data: Data,
        labels: LabelData | None = None,
        metric: Metric | None = None,
        *,
        times: bool = False,
    ) -> ModelReport:
        """
        Measure the quantization error on samples, preferably not those used for
        calibration.

        Args:
            data: samples: see [`Data`][xdsl_quant.quantizer.samples.Data].
            labels: the labels, as a file or an array with a row for each sample.
                Without `metric`, they are class indices, compared with the index of the
                largest element of the first output.
            metric: a function of all outputs and the labels that returns a number.
            times: True to measure the [times][xdsl_quant.inspecting.times] of the
                compiled model and of its kernels: about a second for each kernel.

        Raises:
            DataError: if samples or labels cannot be used.
            TypeError: if samples or labels have another type, or labels are missing
                although there is a metric.
        """
        # Imported late: a result can be used without the code that runs models.
        from .report import in_execution_order, measure

        batches, _ = batches_of(data, entry_function(self.float_module, self.entry))
        if labels is None and metric is not None:
            raise TypeError("missing labels for the metric; pass labels")
        known = None if labels is None else Labels.of(labels, batches, metric)
        models = self.float_module, self.resolved, self.reference
        report = measure(*models, batches, self.entry, known)
        if times:
            measure_times = slice_function("times", "inspecting.times.measure_times")
            models = self.float_module, self.module, self.resolved
            report = report.with_times(measure_times(*models, batches, self.entry))
        return self._named(in_execution_order(report, self.resolved, self.entry))

    def _named(self, report: ModelReport) -> ModelReport:
        return replace(report, recipe=self.recipe.name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """
        Write the quantized model to an `.onnx` or `.tflite` file, or as text to a `.mlir`
        file or a file without suffix.

        Raises:
            ValueError: if the suffix is unknown.
            OSError: if the file cannot be written.
            ModelFileError: if an op cannot be represented in a file of this format.
        """
        if (file_format := model_format(Path(path))) is not None:
            content = file_format.writer()(self.module)
        elif Path(path).suffix and not has_suffix(path, ".mlir"):
            raise ValueError(f"{path}: expected a {suffixes('.mlir')} file")
        else:
            content = f"{module_text(self.module)}\n".encode()
        with open_atomically(path) as file:
            file.write(content)


@dataclass(frozen=True, kw_only=True)
class StaticModel(QuantizedModel):
    """
    A model with quantized kernels, whose parameters are calibrated.

    `float_module` has a `quant.stats_ref` for each observed value, `resolved` a
    `quant.region` with quantization parameters for each kernel. The biases of
    `reference` are not corrected.
    """

    target: TargetSpec

    statistics: Statistics
    """Observed ranges of values."""

    propagation: PropagationReport
    """Storage of the kernels' values, and the constraints that determined it."""

    @property
    def kernel_count(self) -> int:
        """Number of kernels, including kernels in floating point."""
        return sum(isinstance(op, RegionOp) for op in self.resolved.walk())

    def _named(self, report: ModelReport) -> ModelReport:
        return replace(super()._named(report), target=self.target.name)


@dataclass(frozen=True, kw_only=True)
class MixedModel(StaticModel):
    """A static model with storage widths from a search."""

    search: BitSearchResult
    """Chosen widths, and the cost of other assignments."""

    def _named(self, report: ModelReport) -> ModelReport:
        return replace(super()._named(report), search=self.search)


@dataclass(frozen=True, kw_only=True)
class WeightOnlyModel(QuantizedModel):
    """
    A model whose contractions dequantize integer weights and compute in floating point.

    In `resolved`, casts quantize and dequantize the weights.
    """


@dataclass(frozen=True, kw_only=True)
class DynamicRangeModel(QuantizedModel):
    """
    A model whose contractions take integer weights and quantize activations at run time.

    In `resolved`, casts quantize the weights, and StableHLO contractions take float
    activations and quantized weights.
    """


def read_model(model: Model) -> ModuleOp:
    """
    Read a model and return its module; copy a given module. Sizes that an `.onnx` file
    leaves open are 1.

    Raises:
        IRError, TypeError, ImportError: as `as_module`.
    """
    # Kernels that targets match have static sizes.
    static = isinstance(model, str | Path) and has_suffix(model, ".onnx")
    module = as_module(model, static=static)
    return module.clone() if module is model else module


def module_of(model: Model | QuantizedModel) -> ModuleOp:
    """
    Read a float or quantized model and return its module; copy a given module.

    Raises:
        IRError, TypeError, ImportError: as in `read_model`.
    """
    return read_model(model.module if isinstance(model, QuantizedModel) else model)
