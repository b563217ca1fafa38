"""Quantizing a model in one call."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat, IntegerType, ModuleOp
from xdsl.ir import BlockArgument
from xdsl.rewriter import Rewriter

from xdsl_quant.calibration import Statistics
from xdsl_quant.calibration.instrumented_function import Batch
from xdsl_quant.diagnostics import counted_names, location_prefix, op_name
from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    DequantizeCastOp,
    NoQuantizedType,
    QuantizeCastOp,
    RegionOp,
    ScaledQuantizedType,
    StatisticsRefOp,
)
from xdsl_quant.dialects.quant.traits import AffineOpCoefficient, quantization_trait
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.runtime.atomic_files import open_atomically
from xdsl_quant.runtime.entry_function import entry_function, functions_run
from xdsl_quant.runtime.file_names import has_suffix
from xdsl_quant.runtime.loading import (
    IRError,
    apply_passes,
    is_tflite_file,
    parse_module,
    read_tflite_file,
)
from xdsl_quant.transforms.building.type_replacement import defined_values
from xdsl_quant.transforms.propagation.module_kernels import (
    float_ops_of,
    kernels_of,
    signature_of,
)
from xdsl_quant.transforms.propagation.port_ranges import port_ranges, set_specs
from xdsl_quant.transforms.propagation.quant_constraints_to_specs import (
    QuantConstraintsToSpecsPass,
)
from xdsl_quant.transforms.propagation.quant_fuse_kernels import fuse_kernels
from xdsl_quant.transforms.propagation.quant_inline_regions import inline_regions
from xdsl_quant.transforms.propagation.quant_propagate import propagate
from xdsl_quant.transforms.propagation.resolution.report import PropagationReport
from xdsl_quant.transforms.propagation.target_files import read_target
from xdsl_quant.transforms.propagation.target_spec import TargetSpec
from xdsl_quant.transforms.statistics.quant_convert_const import QuantConvertConstPass
from xdsl_quant.transforms.statistics.quant_import_stats import ImportStatistics
from xdsl_quant.transforms.statistics.quant_insert_stats_refs import (
    QuantInsertStatsRefsPass,
)
from xdsl_quant.transforms.statistics.ranges.statistics_file import KeyStatistics

from .accuracy import Labels, Metric
from .attention_masks import (
    AttentionMasks,
    forget_masks,
    mark_masked_kernels,
    mask_numbers,
    refuse_infinite_constants,
    separate_masks,
    set_mask_numbers,
    warn_of_wide_constants,
)
from .bias_correction import correct_biases
from .bit_search import BitSearch
from .budget import Budget, parse_budget
from .dynamic_ranges import quantize_activations
from .errors import (
    Error,
    float_module,
    quantized_module,
    relative_noise,
    result_errors,
)
from .observation import Calibration, Progress
from .preparation import prepare
from .recipe import Recipe, SearchOptions
from .recipe_files import read_recipe
from .recording import RecordedModule, export_kernels
from .report import ModelReport, report_on, stays_float
from .result_warnings import warn_of_low_sqnr, warn_of_worse_results
from .samples import Data, LabelData, batches_of, spread_batches
from .search_result import BitSearchResult
from .selection import Selection, select
from .shared_scales import lost_operands
from .times import measure_times
from .weight_bias_correction import corrected_biases
from .weight_only import quantize_weights, report_on_weights, weight_errors
from .weight_rounding import round_kernel_weights, rounded_weights, set_weights

Model: TypeAlias = "ModuleOp | str | os.PathLike[str]"
"""
A module, MLIR text such as that of `jax.jit(f).lower(x).as_text()`, or a `.tflite` or
`.mlir` file.
"""

_TEXT = re.compile(r"\n|[{}]|^\s*(//.*)?$")
"""What MLIR text has in it and the name of a file has not."""


@dataclass(frozen=True)
class QuantizedModel:
    """What became of a model."""

    module: ModuleOp
    """The quantized model."""

    float_module: ModuleOp
    """The model as it was, with a `quant.stats_ref` for each observed value."""

    resolved: ModuleOp
    """
    The model with a `quant.region` for each kernel and quantization parameters, or in other
    modes than `static` with weights that are quantized, and dequantized if need be. In mode
    `dynamic-range` products of StableHLO take float activations and quantized weights.
    """

    reference: ModuleOp
    """The same with the constants of the float model, before biases are corrected."""

    recipe: Recipe

    target: TargetSpec
    """The hardware target; in other modes than `static` it has no kernels."""

    statistics: Statistics
    """What was observed; in other modes than `static` that is nothing."""

    propagation: PropagationReport
    """
    What was decided for the values of kernels; in other modes than `static` that is
    nothing.
    """

    entry: str | None = None

    search: BitSearchResult | None = None
    """What a search for bits has found, if the recipe has one."""

    @property
    def kernel_count(self) -> int:
        """How many kernels the model has, also those that stay in floating point."""
        return len(kernels_of(self.resolved))

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
        function = entry_function(self.float_module, self.entry)
        batches, _ = batches_of(data, function)
        if labels is None and metric is not None:
            raise TypeError("a metric compares outputs with labels, expected labels")
        known = None if labels is None else Labels.of(labels, batches, metric)
        if self.recipe.mode != "static":
            found = report_on_weights(
                self.float_module, self.resolved, batches, self.entry, known
            )
        else:
            found = report_on(self.resolved, batches, self.entry, self.reference, known)
            found = replace(found, target=self.target.name)
        found = replace(found, recipe=self.recipe.name, search=self.search)
        if not times:
            return found
        modules = self.float_module, self.module, self.resolved
        return found.with_times(measure_times(*modules, batches, self.entry))

    def save(self, path: str | os.PathLike[str]) -> None:
        """
        Write the quantized model to a `.tflite` file, or as text to a `.mlir` file or one
        whose name has no suffix.

        Raises:
            ValueError: if it is another kind of file.
            OSError: if the file cannot be written.
            TFLiteFileError: if an op has no form in a `.tflite` file.
        """
        if is_tflite_file(Path(path)):
            from xdsl_quant.frontends.tflite import write_tflite

            content = write_tflite(self.module)
        else:
            if Path(path).suffix and not has_suffix(path, ".mlir"):
                raise ValueError(f"{path}: expected a .mlir or .tflite file")
            content = f"{self.module!s}\n".encode()
        with open_atomically(path) as file:
            file.write(content)


def read_model(model: Model) -> ModuleOp:
    """
    The module of a model, which is not the one that is given.

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
    if is_tflite_file(path):
        return read_tflite_file(path)
    if not has_suffix(path, ".mlir"):
        raise IRError(f"{path}: error: unknown kind of file, expected .tflite or .mlir")
    try:
        return parse_module(path.read_text(), str(path))
    except OSError as e:
        reason = (e.strerror or str(e)).lower()
        raise IRError(f"{path}: error: {reason}") from None


def module_of(model: Model | QuantizedModel) -> ModuleOp:
    """
    The module of a model, or of what a model became, which is not the one that is given.

    Raises:
        IRError, TypeError, ImportError: as `read_model`.
    """
    return read_model(model.module if isinstance(model, QuantizedModel) else model)


def quantize(
    model: Model,
    data: Data,
    recipe: Recipe | str | Path = "int8",
    *,
    target: str | TargetSpec | None = None,
    budget: Budget | str | None = None,
    labels: LabelData | None = None,
    entry: str | None = None,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> QuantizedModel:
    """
    Quantize a model: observe the ranges of its values on samples, make kernels of a
    hardware target of its ops, choose all quantization parameters, and replace the kernels
    by quantized ops.

    Args:
        model: the model, which is not changed.
        data: samples: see [`Data`][xdsl_quant.quantizer.samples.Data].
        recipe: what to quantize, and how: a recipe, the name of one, or the path of a file.
        target: a hardware target; by default the one of the recipe that has most kernels
            for the model.
        budget: what a search for bits may spend, such as `"20 kB"` of constants, or
            `"1 dB"` less than the widest assignment; by default that of the recipe.
        labels: the classes of the samples, for a budget of accuracy such as `"0.5 %"`: a
            file or an array.
        entry: the function that takes the samples; by default the only public one, or
            `main`.
        executor: runs batches: see [`calibrate`][xdsl_quant.calibration.calibrate].
        checkpoint: a file from which an interrupted calibration is resumed.
        progress: is given the batches and their number, if it is known, and passes them on.

    Raises:
        IRError: if the model cannot be read, or a pass fails.
        RecipeError: if an override of the recipe selects nothing, or has no effect.
        TypeError: if the model is neither a module, text nor a path, or the recipe, the
            budget or samples are of another type than they may be.
        DataError: if samples cannot be used.
        ValueError: if the model is quantized already or has no floats, no target has a
            kernel for it, none of its kernels can be quantized, or, in other modes than
            `static`, which need neither target nor checkpoint, it has no products that can
            be; if a search has nothing to choose from, or nothing that keeps the budget.
    """
    recipe = _recipe_of(recipe)
    search = _search_options(recipe, budget, labels)
    module = read_model(model)
    function = entry_function(module, entry)
    _check_is_float(module)
    prepare(module, function)
    if recipe.mode != "static":
        _refuse_static_options(recipe, target=target, checkpoint=checkpoint)
        return _with_quantized_weights(module, recipe, data, entry, progress)
    _warn_of_state(module)
    separate_masks(module)
    names = tuple(f.sym_name.data for f in functions_run(module, function))
    apply_passes(module, [QuantInsertStatsRefsPass(symbols=names)], is_routine=True)
    float_module = module.clone()
    spec = _fused(module, [target] if target is not None else recipe.targets)
    if target is not None:
        _check_activations(recipe, spec)
    selection = select(recipe, module)
    batches, count = batches_of(data, function)
    calibration = Calibration(
        float_module,
        recipe.observer,
        selection,
        batches,
        count,
        entry,
        executor,
        checkpoint,
        progress,
    )
    try:
        statistics = calibration.statistics(recipe.observer)
    except ValueError as e:
        refuse_infinite_constants(float_module, str(e))
        raise
    ranges = calibration.ranges(statistics)
    _check_samples_vary(float_module, ranges)
    warn_of_wide_constants(float_module, ranges)
    masks = AttentionMasks.of(float_module)
    if masks.flows:
        ranges |= _mask_scores(module, masks, calibration, statistics, spec)
    selection = _without_lost_operands(module, ranges, spec, recipe, selection)
    _set_ranges(module, ranges, selection)
    _specify(module, selection, spec)
    bit_search = None
    found = None
    if search is not None:
        known = None if labels is None else Labels.of(labels, batches)
        bit_search = _bit_search(
            module, spec, recipe, search, selection, calibration, known
        )
        choice, found = bit_search.run(search.budget)
        bit_search.ask(module, choice)
    report = propagate(module, spec)
    _check_has_quantized_kernel(module, spec, report)
    if selection.float_kernels:
        # They are kernels again, so that the report lists them.
        fuse_kernels(module, spec)
    reference = module.clone()
    set_mask_numbers(reference, masks.numbers)
    # The search has measured models without numbers of masks.
    _refine(
        module,
        reference,
        recipe,
        batches,
        entry,
        None if masks.numbers else bit_search,
    )
    for each in (module, reference, float_module):
        forget_masks(each)
    resolved = module.clone()
    export_kernels(module)
    return QuantizedModel(
        module,
        float_module,
        resolved,
        reference,
        recipe,
        spec,
        statistics,
        report,
        entry,
        found,
    )


def _recipe_of(recipe: Recipe | str | Path) -> Recipe:
    """
    Raises:
        TypeError: if it is neither a recipe, the name of one nor a path.
        RecipeError: if there is none of the name, or the file cannot be read.
    """
    if isinstance(recipe, Recipe):
        return recipe
    if not isinstance(cast(object, recipe), str | Path):
        raise TypeError(
            "recipe must be a recipe, the name of one or the path of a file, not "
            f"{type(recipe).__name__}"
        )
    return read_recipe(recipe)


def _refuse_static_options(recipe: Recipe, **options: object) -> None:
    """
    Raises:
        ValueError: if a recipe of another mode than `static` is given one of the options
            of static quantization.
    """
    for name, value in options.items():
        if value is not None:
            raise ValueError(
                f"recipe '{recipe.name}' has mode '{recipe.mode}', expected no {name}; "
                "leave it out"
            )


def _warn_of_state(module: ModuleOp) -> None:
    if any(op_name(op) == "tfl.assign_variable" for op in module.walk()):
        warnings.warn(
            "the model has state, found 'tfl.assign_variable', and each batch begins with "
            "the initial one; run 'tfl-variables-to-arguments' first and give samples of "
            "states",
            stacklevel=3,
        )


def _mask_scores(
    module: ModuleOp,
    masks: AttentionMasks,
    calibration: Calibration,
    statistics: Statistics,
    target: TargetSpec,
) -> Mapping[str, KeyStatistics]:
    """
    Replace the constants that mask scores of an attention, and return the ranges of the
    values that they reach.

    Args:
        module: the model with kernels, which changes.
        statistics: those of the model with its own constants.
    """
    extremes = statistics
    if calibration.observer != "min-max":
        extremes = calibration.statistics("min-max")
    known = {key: extremes.ranges(key) for key in extremes.observations}
    set_mask_numbers(module, masks.lowest(known, target))
    lowered = calibration.module.clone()
    set_mask_numbers(lowered, mask_numbers(module))
    mark_masked_kernels(module, masks.keys)
    return calibration.ranges_by_observer(masks.keys, lowered)


def _without_lost_operands(
    module: ModuleOp,
    ranges: Mapping[str, KeyStatistics],
    target: TargetSpec,
    recipe: Recipe,
    selection: Selection,
) -> Selection:
    """
    Keep kernels in floating point in which the range of one operand makes another one 0,
    if the recipe asks for it, and warn of those that are not kept.
    """
    float_kernels: list[RegionOp] = []
    for operand in lost_operands(module, ranges, target):
        if operand.kernel in selection.float_kernels:
            continue
        if recipe.float_concatenations and operand.can_be_kept:
            float_kernels += operand.float_kernels
        else:
            operand.warn(stacklevel=3)
    return selection.with_float_kernels(float_kernels)


def _bit_search(
    module: ModuleOp,
    target: TargetSpec,
    recipe: Recipe,
    search: SearchOptions,
    selection: Selection,
    calibration: Calibration,
    labels: Labels | None,
) -> BitSearch:
    """Return the search for the widths of the weights of a module."""
    least = selection.weight_bits
    return BitSearch(
        module,
        target,
        search,
        calibration.batches,
        calibration.entry,
        recipe.bias_correction,
        lambda kernel: least.get(kernel, 0),
        labels,
        calibration.passed_on,
    )


def _check_has_quantized_kernel(
    module: ModuleOp, target: TargetSpec, report: PropagationReport
) -> None:
    """
    Raises:
        ValueError: if all kernels stay in floating point.
    """
    if all(map(stays_float, kernels_of(module))):
        reasons = "".join(each.float_reason for each in report.float_kernels[:1])
        raise ValueError(
            f"no kernel of '{target.name}' can be quantized, the first one stays in "
            f"floating point: {reasons or 'a value of it does'}"
        )


def _refine(
    module: ModuleOp,
    reference: ModuleOp,
    recipe: Recipe,
    batches: Iterable[Batch],
    entry: str | None,
    bit_search: BitSearch | None,
) -> None:
    """
    Round weights and correct biases as the recipe asks for, and warn of results that
    became worse or are far from those of the float model.

    Args:
        module: the model with quantization parameters, which changes.
        reference: the same with the constants of the float model.
        bit_search: has corrected the biases of such a model, if there is one.
    """
    if recipe.weights.rounding == "gptq":
        round_kernel_weights(module, batches, entry)
        errors = (
            _errors(reference, each, batches, entry) for each in (reference, module)
        )
        warn_of_worse_results(_GPTQ, *errors, stacklevel=3)
    correction = None if bit_search is None else bit_search.corrected(module)
    if recipe.bias_correction and correction is None:
        correction = correct_biases(module, batches, entry, reference)
    found = (
        _errors(reference, module, batches, entry)
        if correction is None
        else correction.after
    )
    warn_of_low_sqnr(found, stacklevel=3)


_GPTQ = "'rounding = \"gptq\"'"

_MOST_BATCHES = 128
"""The number of batches that results are judged by."""


def _errors(
    reference: ModuleOp,
    resolved: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None,
) -> Mapping[str, Error]:
    """The errors of the results of a model whose kernels have quantization parameters."""
    exact = RecordedModule.of(float_module(reference, entry, keys=()), entry)
    quantized = RecordedModule.of(quantized_module(resolved, entry, keys=()), entry)
    return result_errors(exact, quantized, spread_batches(batches, _MOST_BATCHES))


def _search_options(
    recipe: Recipe, budget: Budget | str | None, labels: LabelData | None
) -> SearchOptions | None:
    """
    What a recipe searches for, with another budget if one is given.

    Raises:
        ValueError: if a budget, or labels, are given to a recipe that does not search, or
            a budget is none.
    """
    if labels is not None and recipe.search is None:
        raise ValueError(
            f"recipe '{recipe.name}' has no widths to search, found labels; leave them "
            "out, or use recipe 'mixed'"
        )
    if budget is None:
        return recipe.search
    if not isinstance(cast(object, budget), Budget | str):
        raise TypeError(
            "budget must be a budget or a text such as '20 kB', not "
            f"{type(budget).__name__}"
        )
    if isinstance(budget, str):
        budget = parse_budget(budget)
    if recipe.search is None:
        raise ValueError(
            f"recipe '{recipe.name}' has no widths to search, found a budget of {budget}; "
            "use recipe 'mixed', or one with [search]"
        )
    return replace(recipe.search, budget=budget)


def _check_is_float(module: ModuleOp) -> None:
    """
    Raises:
        ValueError: if a model is quantized or of integers.
    """
    for op in module.walk():
        if op_name(op).partition(".")[0] in ("stablehlo", "tfl") and any(
            isinstance(scalar_or_element_type(type_), ScaledQuantizedType)
            for type_ in op.result_types
        ):
            raise ValueError(
                f"the model is quantized already, found '{op_name(op)}' with a quantized "
                "result; quantize the float model that it was made of"
            )
    values = (value for op in module.walk() for value in defined_values(op))
    if not any(isinstance(scalar_or_element_type(v.type), AnyFloat) for v in values):
        raise ValueError("the model has no floats, expected a float model")


def _check_samples_vary(module: ModuleOp, ranges: Mapping[str, KeyStatistics]) -> None:
    """Warn of samples that are all the same number."""
    layers = [
        ranges[op.stats_key.data].layer
        for op in module.walk()
        if isinstance(op, StatisticsRefOp)
        and isinstance(op.input, BlockArgument)
        and op.stats_key.data in ranges
    ]
    if layers and all(low == high for low, high in layers):
        warnings.warn(
            f"the samples do not vary, found {layers[0][0]:g} only; check the data",
            stacklevel=3,
        )


def _with_quantized_weights(
    module: ModuleOp,
    recipe: Recipe,
    data: Data,
    entry: str | None,
    progress: Progress | None,
) -> QuantizedModel:
    def samples() -> Iterable[Batch]:
        batches, count = batches_of(data, entry_function(module, entry))
        return batches if progress is None else progress(batches, count)

    def errors(quantized: ModuleOp) -> Mapping[str, Error]:
        batches, _ = batches_of(data, entry_function(module, entry))
        return weight_errors(
            module, quantized, spread_batches(batches, _MOST_BATCHES), entry
        )

    reference = resolved = quantize_weights(module, recipe)
    rounded: Mapping[int, NDArray[np.floating]] = {}
    if recipe.weights.rounding == "gptq":
        rounded = rounded_weights(module, resolved, samples(), entry)
        resolved = reference.clone()
        set_weights(resolved, rounded)
        before, after = (errors(each) for each in (reference, resolved))
        warn_of_worse_results(_GPTQ, before, after, stacklevel=3)
    else:
        after = errors(resolved)
    if recipe.bias_correction:
        biased = corrected_biases(module, resolved, samples(), entry)
        corrected = quantize_weights(biased, recipe)
        set_weights(corrected, rounded)
        found = errors(corrected)
        if relative_noise(found) <= relative_noise(after):
            resolved, after = corrected, found
    warn_of_low_sqnr(after, stacklevel=3)
    stored = resolved.clone()
    apply_passes(stored, [QuantConvertConstPass()], is_routine=True)
    quantize_activations(stored)
    no_target = TargetSpec("none")
    report = PropagationReport(no_target.name, [])
    return QuantizedModel(
        stored,
        module,
        resolved,
        reference,
        recipe,
        no_target,
        Statistics(),
        report,
        entry,
    )


def _fused(module: ModuleOp, targets: Sequence[str | TargetSpec]) -> TargetSpec:
    """
    Make kernels of a target of the ops of a module.

    Raises:
        ValueError: if no target has a kernel for them.
    """
    specs = [read_target(each) if isinstance(each, str) else each for each in targets]
    counts = [fuse_kernels(module.clone(), spec) for spec in specs]
    if not any(counts):
        names = ", ".join(f"'{spec.name}'" for spec in specs)
        found = counted_names(float_ops_of(module)) or "no op of floats"
        raise ValueError(f"no kernel of {names} is in the model, found {found}")
    spec = specs[counts.index(max(counts))]
    fuse_kernels(module, spec)
    return spec


def _check_activations(recipe: Recipe, target: TargetSpec) -> None:
    """Warn of a target without the widths of activations that a recipe is made for."""
    if recipe.targets == Recipe.targets:
        return
    asked = {
        bits for each in recipe.targets for bits in _result_bits(read_target(each))
    }
    if asked.isdisjoint(found := _result_bits(target)):
        asked, found = (" or ".join(map(str, sorted(each))) for each in (asked, found))
        warnings.warn(
            f"recipe '{recipe.name}' is for activations of {asked} bits, found target "
            f"'{target.name}' with {found or 'none'}; leave the target out, or use another "
            "recipe",
            stacklevel=3,
        )


def _result_bits(target: TargetSpec) -> Collection[int]:
    """The widths of the results of the kernels of a target."""
    return {
        port.storage.storage_type_integral_width
        for kernel in target.kernels.values()
        for signature in kernel.signatures
        for port in signature.outputs
        if port.storage is not None
    }


def _specify(module: ModuleOp, selection: Selection, target: TargetSpec) -> None:
    """Make specifications of what is known of kernels but those that stay in floats."""
    inline_regions(selection.float_kernels)
    apply_passes(module, [QuantConstraintsToSpecsPass()], is_routine=True)
    for kernel, bits in selection.weight_bits.items():
        had_signature = _has_signature(kernel, target)
        _ask_for_weights(kernel, bits)
        if had_signature and not _has_signature(kernel, target):
            warnings.warn(
                f"{location_prefix(kernel.location)}kernel '{kernel.kernel}' of target "
                f"'{target.name}' stays in floating point, found no signature with weights "
                f"of {bits} bits; use fewer bits or another target",
                stacklevel=3,
            )


def _has_signature(kernel: RegionOp, target: TargetSpec) -> bool:
    known = target.kernels.get(kernel.kernel)
    return known is not None and bool(signature_of(kernel, known, [*kernel.specs]))


def _ask_for_weights(kernel: RegionOp, bits: int) -> None:
    """Say that weights of a kernel have so many bits or more."""
    ranges = port_ranges(kernel)
    specs = [*kernel.specs]
    for op in kernel.body.block.ops:
        trait = quantization_trait(op, AffineOpCoefficient)
        if trait is not None and isinstance(
            port := op.operands[trait.operand], BlockArgument
        ):
            expressed = scalar_or_element_type(port.type)
            assert isinstance(expressed, AnyFloat)
            specs[port.index] = AnyQuantizedType(IntegerType(bits), expressed)
            ranges.pop(port.index, None)
    set_specs(kernel, specs, ranges)


def _set_ranges(
    module: ModuleOp, ranges: Mapping[str, KeyStatistics], selection: Selection
) -> None:
    """
    Replace references to statistics: by statistics, by casts that keep a value as it is, or
    by nothing if no quantized kernel takes or returns the value.
    """
    kernels = {*kernels_of(module)} - {*selection.float_kernels}
    for op in [*module.walk()]:
        if not isinstance(op, StatisticsRefOp):
            continue
        users = {use.operation for use in op.result.uses}
        if isinstance(op.parent_op(), RegionOp) or not kernels & {
            op.input.owner,
            *users,
        }:
            Rewriter.replace_op(op, (), (op.input,))
        elif selection.is_float(op.stats_key.data):
            expressed = scalar_or_element_type(op.input.type)
            assert isinstance(expressed, AnyFloat)
            none = NoQuantizedType(expressed)
            quantize = QuantizeCastOp(op.input, with_element_type(op.input.type, none))
            dequantize = DequantizeCastOp(quantize, op.input.type)
            Rewriter.replace_op(op, (quantize, dequantize))
    ImportStatistics(ranges, "calibration", "keep").rewrite_module(module)
