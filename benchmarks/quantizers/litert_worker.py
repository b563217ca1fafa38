"""
Quantize a `.tflite` file with litert-quantizer.

litert-quantizer pins other packages, so this script runs in its own environment and
imports nothing from this package.

`python litert_worker.py FLOAT.tflite SAMPLES.npz QUANTIZED.tflite RANGES`
`python litert_worker.py FLOAT.tflite '' QUANTIZED.tflite RECIPE`

By default, the ranges are moving averages of the min and max of the samples, which clip
extreme samples. With `min-max` as RANGES they contain all samples, like the ranges of the
other quantizers. A RECIPE such as `dynamic_wi4b32_afp32` needs no samples.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

# Not installed in the environment of the type checker.
_algorithms: Any = import_module("litert_quantizer.algorithm_manager")
_ranges: Any = import_module("litert_quantizer.utils.qsv_utils")
_quantizer: Any = import_module("litert_quantizer.quantizer")
_recipe: Any = import_module("litert_quantizer.recipe")


def _min_max(_algorithm: object, _op: object) -> object:
    return _ranges.min_max_update


def main() -> None:
    """Run the command."""
    source, samples, target, kind = sys.argv[1:]
    if not samples:
        quantizer = _quantizer.Quantizer(source, getattr(_recipe, kind)())
        Path(target).write_bytes(quantizer.quantize().quantized_model)
        return
    if kind == "min-max":
        # litert-quantizer implements min-max, but offers no option for it.
        _algorithms.get_update_qsv_func = _min_max
    with np.load(samples) as file:
        arguments = {name: file[name] for name in file}
    quantizer = _quantizer.Quantizer(source, _recipe.static_wi8_ai8())
    count = len(next(iter(arguments.values())))
    rows = (
        {name: array[i : i + 1] for name, array in arguments.items()}
        for i in range(count)
    )
    data = {"serving_default": [*rows]}
    result = quantizer.quantize(quantizer.calibrate(data))
    Path(target).write_bytes(result.quantized_model)


if __name__ == "__main__":
    main()
