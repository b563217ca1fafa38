"""
Quantization of a float model in one call, [`quantize`][xdsl_quant.quantizer.quantize],
from samples and a recipe, and the report on its error, size and time.
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
