"""
Stages of the modes `weight-only` and `dynamic-range`: integer weights, with float
activations or with activations quantized at run time.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.runtime.loading import apply_passes
from xdsl_quant.transforms.statistics.quant_convert_const import QuantConvertConstPass

from .dynamic_ranges import prepare, quantize_activations
from .recipe import Recipe
from .report import weight_errors
from .results import DynamicRangeModel, WeightOnlyModel
from .signal_noise import Error, relative_noise
from .stages import Pipeline, Request
from .user_warnings import warn_of_worse_results
from .weight_only import quantize_weights
from .weight_rounding import corrected_biases, rounded_weights, set_weights


class WeightPipeline(Pipeline):
    """Stages of the modes `weight-only` and `dynamic-range`."""

    def __init__(self, request: Request, recipe: Recipe, module: ModuleOp):
        super().__init__(request, recipe, module)
        self.rounded: Mapping[int, NDArray[np.floating]] = {}
        """Maps the position of a contraction to its rounded weights; set by `round`."""

        rounds = recipe.weights.rounding == "gptq"
        self.stages = {
            "prepare": self.prepare,
            "quantize": self.quantize,
            **({"round": self.round} if rounds else {}),
            **({"correct": self.correct} if recipe.bias_correction else {}),
            "check": self.check,
            "store": self.store,
        }

    # Stages

    def prepare(self, module: ModuleOp) -> ModuleOp:
        """Inline small functions, and fold constants."""
        prepare(module, self.entry_function(module))
        return module

    def quantize(self, module: ModuleOp) -> ModuleOp:
        """Quantize weights, and dequantize them for contractions that take floats."""
        return quantize_weights(module, self.recipe)

    def round(self, module: ModuleOp) -> ModuleOp:
        """Round weights by GPTQ, for the least change of results on the samples."""
        before = self.measured_errors(module)
        self.rounded = rounded_weights(
            self.modules["prepare"], module, self.samples(), self.request.entry
        )
        set_weights(module, self.rounded)
        self.errors = self.measured_errors(module)
        warn_of_worse_results("'rounding = \"gptq\"'", before, self.errors)
        return module

    def correct(self, module: ModuleOp) -> ModuleOp:
        """Correct biases to compensate the mean error, if this improves results."""
        biased = corrected_biases(
            self.modules["prepare"], module, self.samples(), self.request.entry
        )
        corrected = quantize_weights(biased, self.recipe)
        set_weights(corrected, self.rounded)
        before, after = self.known_errors(module), self.measured_errors(corrected)
        is_better = relative_noise(after) <= relative_noise(before)
        module, self.errors = (corrected, after) if is_better else (module, before)
        return module

    def store(self, module: ModuleOp) -> ModuleOp:
        """Replace weights by integer constants."""
        quantize_activations(module)
        apply_passes(module, [QuantConvertConstPass()], is_routine=True)
        return module

    # Shared by stages

    def measured_errors(self, module: ModuleOp) -> Mapping[str, Error]:
        batches, entry = self.judged_batches(), self.request.entry
        return weight_errors(self.modules["prepare"], module, batches, entry)

    def result(self) -> WeightOnlyModel | DynamicRangeModel:
        self.run()
        *_, resolved, module = self.modules.values()
        is_dynamic = self.recipe.mode == "dynamic-range"
        return (DynamicRangeModel if is_dynamic else WeightOnlyModel)(
            module=module,
            float_module=self.modules["prepare"],
            resolved=resolved,
            reference=self.modules["quantize"],
            recipe=self.recipe,
            entry=self.request.entry,
        )
