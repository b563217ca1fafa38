"""The function that quantizes a model in one call, and its stages."""

from __future__ import annotations

import os
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Operation

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant import StoredQuantizedType
from xdsl_quant.dialects.quant.traits import CastsQuantization, has_quantization_trait
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.transforms.building.type_replacement import defined_values

from .recipe import Budget, Recipe, SearchOptions, parse_budget
from .recipe_files import read_recipe, with_target_of_file
from .results import Model, QuantizedModel, module_of, read_model
from .samples import Data, LabelData, Progress
from .stages import Pipeline, Request

if TYPE_CHECKING:
    from xdsl_quant.transforms.propagation.target_spec import TargetSpec

__all__ = [
    "Model",
    "QuantizedModel",
    "module_of",
    "pipeline",
    "quantize",
    "read_model",
]


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
    Quantize a model: calibrate ranges on samples, group ops into kernels of a target,
    choose quantization parameters, and export the kernels as quantized ops.

    Args:
        model: the model, which does not change.
        data: samples: see [`Data`][xdsl_quant.quantizer.samples.Data].
        recipe: a recipe, its name, or the path of a file.
        target: by default, that of the recipe or file format with the most kernels.
        budget: the budget of a search, e.g. `"20 kB"`; by default that of the recipe.
        labels: the classes of the samples, for a budget such as `"0.5 %"` of accuracy.
        entry: the function to quantize; by default the only public function, or `main`.
        executor: runs batches: see [`calibrate`][xdsl_quant.calibration.calibrate].
        checkpoint: a file from which an interrupted calibration resumes.
        progress: see [`Progress`][xdsl_quant.quantizer.samples.Progress].

    Raises:
        IRError: if the model cannot be read, or a pass fails.
        RecipeError: if an override of the recipe selects nothing, or has no effect.
        TypeError: if an argument has the wrong type.
        DataError: if samples cannot be used.
        ValueError: if the model cannot be quantized or is already quantized, an option
            has no effect in the recipe's mode, no kernel has widths to choose from, or
            no widths are within the budget.
    """
    options = target, budget, labels, entry, executor, checkpoint, progress
    return pipeline(Request(model, data, recipe, *options)).result()


def pipeline(request: Request) -> Pipeline:
    """
    Return the stages of a quantization without running them.

    Args:
        request: the arguments of [`quantize`][xdsl_quant.quantizer.quantize].

    Raises:
        IRError: if the model cannot be read.
        RecipeError: if the recipe cannot be read.
        TypeError, ValueError: errors of `quantize` that are found before the first stage.
    """
    recipe = with_target_of_file(
        _recipe_of(request.recipe), request.recipe, request.model
    )
    options = _search_options(recipe, request.budget, request.labels)
    module = read_model(request.model)
    entry_function(module, request.entry)
    _check_is_float(module, recipe)
    # Import only the passes that the mode needs.
    if recipe.mode != "static":
        from .weight_stages import WeightPipeline

        _refuse_static_options(request, recipe)
        return WeightPipeline(request, recipe, module)
    from .static_stages import MixedPipeline, StaticPipeline

    if options is None:
        return StaticPipeline(request, recipe, module)
    return MixedPipeline(request, recipe, module, options)


def _recipe_of(recipe: Recipe | str | Path) -> Recipe:
    if isinstance(recipe, Recipe):
        return recipe
    if not isinstance(cast(object, recipe), str | Path):
        raise TypeError(
            "recipe must be a recipe, the name of one or the path of a file, not "
            f"{type(recipe).__name__}"
        )
    return read_recipe(recipe)


def _refuse_static_options(request: Request, recipe: Recipe) -> None:
    for name in ("target", "checkpoint"):
        if getattr(request, name) is not None:
            raise ValueError(
                f"unsupported {name} in mode '{recipe.mode}' of recipe '{recipe.name}'; "
                "leave it out"
            )


def _search_options(
    recipe: Recipe, budget: Budget | str | None, labels: LabelData | None
) -> SearchOptions | None:
    """Return the search options of a recipe, with the given budget if any."""
    if labels is not None and recipe.search is None:
        raise ValueError(
            f"unsupported labels for recipe '{recipe.name}' without [search]; leave them "
            "out, or use recipe 'mixed'"
        )
    if budget is None:
        return recipe.search
    if not isinstance(cast(object, budget), Budget | str):
        raise TypeError(
            "budget must be a Budget or a string such as '20 kB', not "
            f"{type(budget).__name__}"
        )
    if isinstance(budget, str):
        budget = parse_budget(budget)
    if recipe.search is None:
        raise ValueError(
            f"unsupported budget of {budget} for recipe '{recipe.name}' without [search]; "
            "use recipe 'mixed', or one with [search]"
        )
    return replace(recipe.search, budget=budget)


def _check_is_float(module: ModuleOp, recipe: Recipe) -> None:
    for op in module.walk():
        if not _has_quantized_values(op, accepts_casts=recipe.mode == "static"):
            continue
        raise ValueError(
            f"the model is already quantized: found '{op_name(op)}' with a quantized "
            "operand or result; quantize the original float model"
        )
    values = (value for op in module.walk() for value in defined_values(op))
    if not any(isinstance(scalar_or_element_type(v.type), AnyFloat) for v in values):
        raise ValueError("expected a float model, found no floats")


def _has_quantized_values(op: Operation, *, accepts_casts: bool) -> bool:
    """
    Return True if an op of a frontend has quantized operands or results. Casts of `tfl`
    may count as constraints on the values of float ops, with constants as operands.
    """
    dialect = op_name(op).partition(".")[0]
    if dialect not in ("stablehlo", "tfl"):
        return False
    # Calibration lowers StableHLO without casts.
    if accepts_casts and dialect == "tfl":
        is_cast = has_quantization_trait(op, CastsQuantization)
        if is_cast or not op.operands:
            return False
    return any(
        isinstance(scalar_or_element_type(value.type), StoredQuantizedType)
        for value in (*op.operands, *op.results)
    )
