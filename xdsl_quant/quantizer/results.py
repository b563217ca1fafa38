"""
Float models: modules, MLIR text and files; and quantized models: a class for each mode,
with what is known in that mode.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.dialects.quant import RegionOp
from xdsl_quant.runtime.atomic_files import has_suffix, open_atomically
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import (
    IRError,
    model_format,
    parse_module,
    read_model_file,
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
    """A quantized model, and the modules that it was made from."""

    module: ModuleOp
    """The quantized model."""

    float_module: ModuleOp
    """The prepared float model."""

    resolved: ModuleOp
    """The model in floats, with casts or kernels that say how values are quantized."""

    reference: ModuleOp
    """The same with the constants of the float model."""

    recipe: Recipe

    entry: str | None = None
    """The function that takes the samples; `None` for the only public one, or `main`."""

    def report(
        self,
        data: Data,
        labels: LabelData | None = None,
        metric: Metric | None = None,
        *,
        times: bool = False,
    ) -> ModelReport:
        """
        Measure what quantization costs on samples, best those that the model was not
        calibrated with.

        Args:
            data: samples: see [`Data`][xdsl_quant.quantizer.samples.Data].
            labels: what is right for them, as a file or an array with a row for each: by
                default the index of the largest element of the first output.
            metric: is given the outputs for all samples and the labels, and returns a
                number, if the labels are something else.
            times: whether to measure the [times][xdsl_quant.quantizer.times] of the model
                and of its kernels as compiled code, which takes a second for each.

        Raises:
            DataError: if samples or labels cannot be used.
            TypeError: if they are of another type, or there is a metric without labels.
        """
        # A result can be read without the code that runs models.
        from .report import measure
        from .times import measure_times

        batches, _ = batches_of(data, entry_function(self.float_module, self.entry))
        if labels is None and metric is not None:
            raise TypeError("a metric compares outputs with labels, expected labels")
        known = None if labels is None else Labels.of(labels, batches, metric)
        models = self.float_module, self.resolved, self.reference
        report = self._named(measure(*models, batches, self.entry, known))
        if not times:
            return report
        models = self.float_module, self.module, self.resolved
        return report.with_times(measure_times(*models, batches, self.entry))

    def _named(self, report: ModelReport) -> ModelReport:
        """Return a report that says what the model was quantized with."""
        return replace(report, recipe=self.recipe.name)

    def save(self, path: str | os.PathLike[str]) -> None:
        """
        Write the quantized model to a `.tflite` file, or as text to a `.mlir` file or one
        whose name has no suffix.

        Raises:
            ValueError: if it is another kind of file.
            OSError: if the file cannot be written.
            ModelFileError: if an op has no form in a file of this kind.
        """
        if (file_format := model_format(Path(path))) is not None:
            content = file_format.writer()(self.module)
        elif Path(path).suffix and not has_suffix(path, ".mlir"):
            raise ValueError(f"{path}: expected a {suffixes('.mlir')} file")
        else:
            content = f"{self.module!s}\n".encode()
        with open_atomically(path) as file:
            file.write(content)


@dataclass(frozen=True, kw_only=True)
class StaticModel(QuantizedModel):
    """
    A model whose kernels are quantized, with parameters that are chosen from samples.

    `float_module` has a `quant.stats_ref` for each observed value, `resolved` a
    `quant.region` with quantization parameters for each kernel; `reference` is without
    corrected biases.
    """

    target: TargetSpec
    """The hardware target."""

    statistics: Statistics
    """The observed ranges of values."""

    propagation: PropagationReport
    """How values of kernels are stored, and which constraint decided it."""

    @property
    def kernel_count(self) -> int:
        """Number of kernels, also of those that stay in floating point."""
        return sum(isinstance(op, RegionOp) for op in self.resolved.walk())

    def _named(self, report: ModelReport) -> ModelReport:
        return replace(super()._named(report), target=self.target.name)


@dataclass(frozen=True, kw_only=True)
class MixedModel(StaticModel):
    """A static model whose widths of storage were searched."""

    search: BitSearchResult
    """The chosen widths, and what others cost."""

    def _named(self, report: ModelReport) -> ModelReport:
        return replace(super()._named(report), search=self.search)


@dataclass(frozen=True, kw_only=True)
class WeightOnlyModel(QuantizedModel):
    """
    A model whose products take dequantized integer weights, and compute with floats.

    The weights of `resolved` are quantized and dequantized by casts.
    """


@dataclass(frozen=True, kw_only=True)
class DynamicRangeModel(QuantizedModel):
    """
    A model whose products take integer weights, and quantize activations when they run.

    The weights of `resolved` are quantized by casts: products of StableHLO take float
    activations and quantized weights there.
    """


Model: TypeAlias = "ModuleOp | str | os.PathLike[str]"
"""
A module, MLIR text such as that of `jax.jit(f).lower(x).as_text()`, or a `.tflite` or
`.mlir` file.
"""

_TEXT = re.compile(r"\n|[{}]|^\s*(//.*)?$")
"""What MLIR text has in it and the name of a file has not."""


def read_model(model: Model) -> ModuleOp:
    """
    Return the module of a model, a copy if a module is given.

    Raises:
        IRError: if a text does not parse, or a file cannot be read, is damaged or of an
            unknown kind.
        TypeError: if it is none of these.
        ImportError: if a file needs a package that is not installed.
    """
    if isinstance(model, ModuleOp):
        return model.clone()
    if isinstance(model, str) and _TEXT.search(model):
        return parse_module(model)
    if not isinstance(cast(object, model), str | os.PathLike) or isinstance(
        os.fspath(model), bytes
    ):
        raise TypeError(
            "model must be a module, MLIR text or the path of a file, not "
            f"{type(model).__name__}"
        )
    path = Path(model)
    if model_format(path) is not None:
        return read_model_file(path)
    if not has_suffix(path, ".mlir"):
        raise IRError(
            f"{path}: error: unknown kind of file, expected {suffixes()} or .mlir"
        )
    try:
        return parse_module(path.read_text(), str(path))
    except OSError as e:
        reason = (e.strerror or str(e)).lower()
        raise IRError(f"{path}: error: {reason}") from None


def module_of(model: Model | QuantizedModel) -> ModuleOp:
    """
    Return the module of a model, or of a quantized model, a copy if a module is given.

    Raises:
        IRError, TypeError, ImportError: as `read_model`.
    """
    return read_model(model.module if isinstance(model, QuantizedModel) else model)
