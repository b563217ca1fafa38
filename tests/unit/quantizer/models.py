"""Small models for the tests of the quantizer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.quantizer import MixedModel, Recipe, StaticModel, quantize
from xdsl_quant.quantizer.results import Model
from xdsl_quant.quantizer.samples import Data

Floats = NDArray[np.float32]

PLAIN = Recipe(bias_correction=False)
"""The recipe `int8` with the biases of the float model."""

TO_LINALG = (
    "convert-quantized-stablehlo-to-linalg,convert-stablehlo-to-linalg,"
    "lower-quant-ops{rounding-mode=nearest-even},strip-func-quant-types,canonicalize"
)
"""What makes a module that runs of ops of StableHLO, quantized or not."""


def samples(count: int, *shape: int, seed: int = 0) -> Floats:
    """Random numbers from -1 to 1."""
    values = np.random.default_rng(seed).uniform(-1, 1, (count, *shape))
    return values.astype(np.float32)


def text_of(values: Floats) -> str:
    """A constant."""
    shape = "x".join(map(str, values.shape))
    elements = str([[f"{x:.9e}" for x in row] for row in values]).replace("'", "")
    return f"dense<{elements}> : tensor<{shape}xf32>"


def dense_layers(batch: int | str = 4) -> str:
    """Two products of StableHLO with a bias and a rectifier between them."""
    rng = np.random.default_rng(1)
    first, second = (
        text_of(rng.normal(0, 0.5, shape).astype(np.float32))
        for shape in ((6, 8), (8, 3))
    )
    return f"""
func.func @main(%x: tensor<{batch}x6xf32>) -> tensor<{batch}x3xf32> {{
  %w = stablehlo.constant() <{{value = {first}}}> : () -> tensor<6x8xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<{batch}x6xf32>, tensor<6x8xf32>) -> tensor<{batch}x8xf32>
  %t = stablehlo.tanh %y : tensor<{batch}x8xf32>
  %v = stablehlo.constant() <{{value = {second}}}> : () -> tensor<8x3xf32>
  %z = stablehlo.dot_general %t, %v, contracting_dims = [1] x [0]
    : (tensor<{batch}x8xf32>, tensor<8x3xf32>) -> tensor<{batch}x3xf32>
  return %z : tensor<{batch}x3xf32>
}}
"""


def static_model(
    model: Model, data: Data, recipe: Recipe | str = "int8", **options: Any
) -> StaticModel:
    """Quantize a model by a recipe of mode `static`."""
    result = quantize(model, data, recipe, **options)
    assert isinstance(result, StaticModel)
    return result


def mixed_model(
    model: Model, data: Data, recipe: Recipe | str = "mixed", **options: Any
) -> MixedModel:
    """Quantize a model by a recipe that searches for bits."""
    result = quantize(model, data, recipe, **options)
    assert isinstance(result, MixedModel)
    return result
