"""
Write the files of `recipes/`: a float model, and what each recipe of AI Edge Quantizer with
blocks makes of it. Run with `pip install ai-edge-quantizer==0.10.0`:

    python -m tests.unit.frontends.tflite.files.blockwise_recipes
"""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from xdsl_quant.frontends.tflite.files.model import (
    Model,
    ModelSignature,
    Operator,
    Subgraph,
    Tensor,
)
from xdsl_quant.frontends.tflite.files.reader import default_options
from xdsl_quant.frontends.tflite.files.writer import write_model

RECIPES = Path(__file__).with_name("recipes")

_INPUTS = 64


def _constant(name: str, array: Any) -> Tensor:
    data = array.astype(np.float32)
    return Tensor(name, "FLOAT32", data.shape, data=data.view(np.uint8).ravel())


def float_model() -> Model:
    """Two fully connected layers, and a lookup of rows."""
    random = np.random.default_rng(0)
    rows = np.geomspace(0.1, 4, 4)[:, None]
    weights = random.standard_normal((4, _INPUTS)) * rows
    tensors = [
        Tensor("x", "FLOAT32", [2, _INPUTS]),
        Tensor("ids", "INT32", [2]),
        _constant("weights", weights),
        _constant("bias", random.standard_normal(4)),
        _constant("table", random.standard_normal((3, _INPUTS))),
        _constant("other_weights", random.standard_normal((3, _INPUTS))),
        Tensor("y", "FLOAT32", [2, 4]),
        Tensor("rows", "FLOAT32", [2, _INPUTS]),
        Tensor("per_layer", "FLOAT32", [2, 3]),
    ]
    options = default_options("FullyConnectedOptions")
    operators = [
        Operator("FULLY_CONNECTED", [0, 2, 3], [6], options),
        Operator("EMBEDDING_LOOKUP", [1, 4], [7]),
        Operator("FULLY_CONNECTED", [0, 5], [8], options),
    ]
    subgraph = Subgraph("main", tensors, [0, 1], [6, 7, 8], operators)
    outputs = {"y": 6, "rows": 7, "per_layer": 8}
    signature = ModelSignature("serving_default", 0, {"x": 0, "ids": 1}, outputs)
    return Model([subgraph], [signature])


def main() -> None:
    # The package has no type annotations.
    quantizer: Any = import_module("ai_edge_quantizer.quantizer")
    recipe: Any = import_module("ai_edge_quantizer.recipe")
    source = RECIPES / "float.tflite"
    source.write_bytes(write_model(float_model()))
    recipes: dict[str, Any] = {}
    for size in (32, 64):
        for bits in (2, 4, 8):
            name = f"dynamic_wi{bits}b{size}_afp32"
            recipes[name] = getattr(recipe, name)()
        mixed = getattr(recipe, f"gemma4_mixed48_b{size}")()
        for part in ("tf_lite_embedder", "tf_lite_prefill_decode"):
            recipes[f"gemma4_mixed48_b{size}_{part}"] = mixed[part]
    for name, entries in recipes.items():
        run = quantizer.Quantizer(str(source))
        run.load_quantization_recipe(entries)
        (RECIPES / f"{name}.tflite").write_bytes(run.quantize().quantized_model)


if __name__ == "__main__":
    main()
