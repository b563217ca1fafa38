"""
Quantize a `.tflite` file with litert-quantizer, which pins other packages: this runs in an
environment of its own, and imports nothing of this package.

`python litert_worker.py FLOAT.tflite SAMPLES.npz QUANTIZED.tflite`
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

# It is not installed where types are checked.
_quantizer: Any = import_module("litert_quantizer.quantizer")
_recipe: Any = import_module("litert_quantizer.recipe")


def main() -> None:
    """Run the command."""
    source, samples, target = sys.argv[1:]
    with np.load(samples) as file:
        rows = file["x"]
    quantizer = _quantizer.Quantizer(source, _recipe.static_wi8_ai8())
    data = {"serving_default": [{"x": row[np.newaxis]} for row in rows]}
    result = quantizer.quantize(quantizer.calibrate(data))
    Path(target).write_bytes(result.quantized_model)


if __name__ == "__main__":
    main()
