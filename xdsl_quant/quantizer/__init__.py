"""
Quantizing a model in one call, and what it costs.

[`quantize`][xdsl_quant.quantizer.quantize] makes a quantized model of a float one and of
samples, by a recipe.
"""

from .budget import Budget
from .quantization import QuantizedModel, quantize
from .recipe import Override, Recipe, SearchOptions, WeightOptions
from .recipe_files import RecipeError, parse_recipe, read_recipe
from .report import ModelReport
from .report_data import KernelReport
from .samples import DataError
from .search_result import Assignment, BitSearchResult

__all__ = [
    "Assignment",
    "BitSearchResult",
    "Budget",
    "DataError",
    "KernelReport",
    "ModelReport",
    "Override",
    "QuantizedModel",
    "Recipe",
    "RecipeError",
    "SearchOptions",
    "WeightOptions",
    "parse_recipe",
    "quantize",
    "read_recipe",
]
