"""
Quantizing a model in one call, and what it costs.

[`quantize`][xdsl_quant.quantizer.quantize] makes a quantized model of a float one and of
samples, by a recipe.
"""

from .quantization import pipeline, quantize
from .recipe import Budget, Override, Recipe, SearchOptions, WeightOptions
from .recipe_files import RecipeError, parse_recipe, read_recipe
from .report_data import KernelReport, ModelReport
from .results import (
    DynamicRangeModel,
    MixedModel,
    QuantizedModel,
    StaticModel,
    WeightOnlyModel,
)
from .samples import DataError
from .search_result import Assignment, BitSearchResult
from .stages import Pipeline, Request

__all__ = [
    "Assignment",
    "BitSearchResult",
    "Budget",
    "DataError",
    "DynamicRangeModel",
    "KernelReport",
    "ModelReport",
    "MixedModel",
    "Override",
    "Pipeline",
    "QuantizedModel",
    "Recipe",
    "RecipeError",
    "Request",
    "SearchOptions",
    "StaticModel",
    "WeightOnlyModel",
    "WeightOptions",
    "parse_recipe",
    "pipeline",
    "quantize",
    "read_recipe",
]
