"""
Quantize the network on digits in one call, print what that costs, and write the file:
`python -m examples.classifiers [FILE]`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.execution import compile
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import parse_module

from .forms import tfl_text
from .networks import Floats, load_network

FILE = "build/digits_int8.tflite"


def results(module: ModuleOp, samples: Floats) -> Floats:
    """What a model of one sample gives for each sample."""
    run = compile(module)
    return np.concatenate([run(sample[np.newaxis]) for sample in samples])


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    path = Path(*arguments or [FILE])
    network = load_network("digits")
    calibration, test = network.halves(0)
    text = tfl_text(network)
    model = quantize(text, network.samples[calibration])
    print(model.report(network.samples[test]))
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save(path)
    accuracy = [
        network.accuracy(results(module, network.samples[test]), test)
        for module in (parse_module(text), model.module)
    ]
    print(
        f"accuracy on {len(test)} other samples: {accuracy[0]:.2%} in floats, "
        f"{accuracy[1]:.2%} in integers"
    )
    print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
