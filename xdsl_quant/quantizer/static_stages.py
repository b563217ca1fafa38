"""
Stages of static quantization: kernels with integer operands and results, and parameters
calibrated on samples.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

from xdsl_quant.calibration import Statistics, calibrate
from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant import StatisticsRefOp
from xdsl_quant.runtime.entry_function import reachable_functions
from xdsl_quant.runtime.extras import slice_function
from xdsl_quant.runtime.loading import apply_passes
from xdsl_quant.transforms.propagation.module_kernels import kernels_of
from xdsl_quant.transforms.propagation.quant_fuse_kernels import fuse_kernels
from xdsl_quant.transforms.propagation.quant_propagate import propagate
from xdsl_quant.transforms.propagation.resolution.report import PropagationReport
from xdsl_quant.transforms.propagation.target_spec import TargetSpec
from xdsl_quant.transforms.statistics.quant_insert_stats_refs import (
    QuantInsertStatsRefsPass,
)
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics

from .attention_masks import (
    AttentionMasks,
    mark_masked_kernels,
    mask_constants,
    refuse_infinite_constants,
    remove_mask_attributes,
    separate_masks,
    set_mask_constants,
    warn_of_wide_constants,
)
from .bias_correction import Correction, correct_biases
from .dynamic_ranges import prepare
from .errors import float_module, quantized_module, result_errors
from .labels import Labels
from .recipe import Recipe, SearchOptions
from .recording import RecordedModule, export_kernels
from .results import MixedModel, StaticModel
from .search_result import BitSearchResult
from .selection import Selection, select
from .shared_scales import coarse_operands
from .signal_noise import Error
from .specification import (
    ask_for_weights,
    check_has_quantized_kernel,
    chosen_target,
    known_targets,
    set_ranges,
    specify,
    warn_of_activations,
)
from .stages import Pipeline, Request
from .user_warnings import warn_of_worse_results, warn_user
from .weight_rounding import round_kernel_weights


class StaticPipeline(Pipeline):
    """Stages of static quantization."""

    target: TargetSpec
    """Target; set by `fuse`."""

    selection: Selection
    """Resolved overrides; set by `select`."""

    statistics: Statistics
    """Statistics of the default observer; set by `calibrate`."""

    propagation: PropagationReport
    """Storage of values, and the constraints that determined it; set by `propagate`."""

    reference: ModuleOp
    """Module after `propagate` with the constants of the float model."""

    def __init__(self, request: Request, recipe: Recipe, module: ModuleOp):
        super().__init__(request, recipe, module)
        rounds = recipe.weights.rounding == "gptq"
        self.stages = {
            "prepare": self.prepare,
            "instrument": self.instrument,
            "fuse": self.fuse,
            "select": self.select,
            "calibrate": self.calibrate,
            "specify": self.specify,
            "propagate": self.propagate,
            **({"round": self.round} if rounds else {}),
            **({"correct": self.correct} if recipe.bias_correction else {}),
            "check": self.check,
            "export": self.export,
        }

    @property
    def _targets(self) -> Sequence[str | TargetSpec]:
        given = self.request.target
        return self.recipe.targets if given is None else [given]

    # Stages

    def prepare(self, module: ModuleOp) -> ModuleOp:
        """Inline small functions, fold constants, and separate mask constants."""
        prepare(module, self.entry_function(module), known_targets(self._targets)[0])
        if any(op_name(op) == "tfl.assign_variable" for op in module.walk()):
            warn_user(
                "each batch starts with the initial state: found 'tfl.assign_variable' in "
                "the model; run 'tfl-variables-to-arguments' first and pass states as "
                "samples"
            )
        separate_masks(module)
        return module

    def instrument(self, module: ModuleOp) -> ModuleOp:
        """Add a `quant.stats_ref` to each value."""
        functions = reachable_functions(module, self.entry_function(module))
        names = tuple(function.sym_name.data for function in functions)
        passes = [QuantInsertStatsRefsPass(symbols=names)]
        apply_passes(module, passes, is_routine=True)
        return module

    def fuse(self, module: ModuleOp) -> ModuleOp:
        """Fuse ops into kernels of the target with the most kernels for the model."""
        self.target = chosen_target(module, self._targets)
        fuse_kernels(module, self.target)
        if self.request.target is not None:
            warn_of_activations(self.recipe, self.target)
        return module

    def select(self, module: ModuleOp) -> ModuleOp:
        """Resolve the overrides of the recipe."""
        self.selection = select(self.recipe, module)
        return module

    def calibrate(self, module: ModuleOp) -> ModuleOp:
        """Observe values on the samples, and record their ranges in `quant.stats`."""
        ranges = self._observed_ranges(self.modules["instrument"])
        ranges |= self._clipped_ranges(module)
        warn_of_wide_constants(self.modules["instrument"], ranges)
        self.selection = self._without_coarse_operands(module, ranges)
        set_ranges(module, ranges, self.selection)
        return module

    def specify(self, module: ModuleOp) -> ModuleOp:
        """Convert statistics to specifications of kernels, and inline float kernels."""
        kernels = kernels_of(module)
        specify(module, [kernels[i] for i in self.selection.float_kernels])
        kernels = kernels_of(module)
        for number, bits in self.selection.weight_bits.items():
            ask_for_weights(kernels[number], bits, self.target)
        return module

    def propagate(self, module: ModuleOp) -> ModuleOp:
        """Choose quantization parameters that satisfy the constraints of the target."""
        self.propagation = propagate(module, self.target)
        check_has_quantized_kernel(module, self.target, self.propagation)
        if self.selection.float_kernels:
            # Fuse float kernels again, so that the report lists them.
            fuse_kernels(module, self.target)
        self.reference = module.clone()
        set_mask_constants(self.reference, mask_constants(self.modules["instrument"]))
        for each in (module, self.reference):
            remove_mask_attributes(each)
        return module

    def round(self, module: ModuleOp) -> ModuleOp:
        """Round weights by GPTQ, for the least change of results on the samples."""
        round_kernel_weights(module, self.batches, self.request.entry)
        errors = (self.measured_errors(each) for each in (self.reference, module))
        warn_of_worse_results("'rounding = \"gptq\"'", *errors)
        return module

    def correct(self, module: ModuleOp) -> ModuleOp:
        """Correct biases to compensate the mean error of kernels."""
        correction = self.correction(module)
        if correction is not None:
            self.errors = correction.after
        return module

    def export(self, module: ModuleOp) -> ModuleOp:
        """Export kernels as quantized ops or integer arithmetic."""
        export_kernels(module)
        return module

    # Shared by stages

    def _observed_ranges(self, module: ModuleOp) -> dict[str, KeyStatistics]:
        default = self.recipe.observer
        try:
            self.statistics = self._observe(module, default)
        except ValueError as e:
            refuse_infinite_constants(module, str(e))
            raise
        ranges = {
            key: self.statistics.ranges(key) for key in self.statistics.observations
        }
        overridden_keys = [
            key for key in ranges if self.selection.observer(key, default) != default
        ]
        ranges |= self._ranges_by_observer(overridden_keys, module)
        return ranges

    def _clipped_ranges(self, module: ModuleOp) -> Mapping[str, KeyStatistics]:
        """Raise mask constants; return the ranges of values with masked scores."""
        extremes, instrumented = self.statistics, self.modules["instrument"]
        if self.recipe.observer != "min-max":
            extremes = self._observe(instrumented, "min-max")
        known = {key: extremes.ranges(key) for key in extremes.observations}
        masks = AttentionMasks.of(instrumented, known, self.target)
        ranges = masks.clipped_ranges()
        set_mask_constants(module, masks.constants())
        mark_masked_kernels(module, ranges)
        return ranges

    def _observe(
        self, module: ModuleOp, observer: str, keys: Collection[str] | None = None
    ) -> Statistics:
        """Return the statistics of an observer, by default for all values."""
        if keys is not None:
            module = module.clone()
            for op in [*module.walk()]:
                if isinstance(op, StatisticsRefOp) and op.stats_key.data not in keys:
                    Rewriter.replace_op(op, (), (op.input,))
        return calibrate(
            module,
            self.samples(),
            self.request.entry,
            observer,
            executor=self.request.executor,
            checkpoint=self.request.checkpoint if keys is None else None,
            missing="keep",
        )

    def _ranges_by_observer(
        self, keys: Iterable[str], module: ModuleOp
    ) -> dict[str, KeyStatistics]:
        by_observer: dict[str, list[str]] = {}
        for key in keys:
            observer = self.selection.observer(key, self.recipe.observer)
            by_observer.setdefault(observer, []).append(key)
        ranges: dict[str, KeyStatistics] = {}
        for observer, observed in sorted(by_observer.items()):
            statistics = self._observe(module, observer, observed)
            ranges |= {key: statistics.ranges(key) for key in observed}
        return ranges

    def _without_coarse_operands(
        self, module: ModuleOp, ranges: Mapping[str, KeyStatistics]
    ) -> Selection:
        """Keep kernels of coarse operands in floating point if the recipe asks, or warn."""
        numbers = {kernel: number for number, kernel in enumerate(kernels_of(module))}
        float_numbers: list[int] = []
        for operand in coarse_operands(module, ranges, self.target):
            if numbers[operand.kernel] in self.selection.float_kernels:
                continue
            if self.recipe.float_concatenations and operand.can_be_kept:
                float_numbers += [numbers[kernel] for kernel in operand.float_kernels]
            else:
                operand.warn()
        return self.selection.with_float_kernels(float_numbers)

    def correction(self, module: ModuleOp) -> Correction | None:
        """Correct the biases of a module; return `None` if it has none."""
        return correct_biases(module, self.batches, self.request.entry, self.reference)

    def measured_errors(self, module: ModuleOp) -> Mapping[str, Error]:
        entry = self.request.entry
        exact = float_module(self.reference, entry, keys=())
        quantized = quantized_module(module, entry, keys=())
        return result_errors(
            RecordedModule.of(exact, entry),
            RecordedModule.of(quantized, entry),
            self.judged_batches(),
        )

    def result(self) -> StaticModel:
        self.run()
        *_, resolved, module = self.modules.values()
        float_module = self.modules["instrument"].clone()
        remove_mask_attributes(float_module)
        return StaticModel(
            module=module,
            float_module=float_module,
            resolved=resolved,
            reference=self.reference,
            recipe=self.recipe,
            entry=self.request.entry,
            target=self.target,
            statistics=self.statistics,
            propagation=self.propagation,
        )


class MixedPipeline(StaticPipeline):
    """Stages of static quantization with a search for storage widths."""

    bit_search: Any
    """The `BitSearch` of a slice, which caches measurements; set by `search`."""

    found: BitSearchResult
    """Chosen widths, and the cost of other assignments; set by `search`."""

    def __init__(
        self, request: Request, recipe: Recipe, module: ModuleOp, options: SearchOptions
    ):
        super().__init__(request, recipe, module)
        self.options = options
        self.insert("search", self.search, before="propagate")

    def search(self, module: ModuleOp) -> ModuleOp:
        """Choose widths by measurement on the samples, and specify them."""
        labels = self.request.labels
        search = "quantizer.bit_search.BitSearch"
        self.bit_search = slice_function("a search for storage widths", search)(
            module,
            self.target,
            self.options,
            self.batches,
            self.samples,
            self.request.entry,
            self.recipe.bias_correction,
            self.selection.weight_bits,
            None if labels is None else Labels.of(labels, self.batches),
        )
        choice, self.found = self.bit_search.run(self.options.budget)
        self.bit_search.ask(module, choice)
        return module

    def correction(self, module: ModuleOp) -> Correction | None:
        # The search replaces mask constants, so its corrections do not fit masked models.
        if not mask_constants(self.modules["instrument"]):
            if (known := self.bit_search.corrected(module)) is not None:
                return known
        return super().correction(module)

    def result(self) -> MixedModel:
        return MixedModel(**vars(super().result()), search=self.found)
