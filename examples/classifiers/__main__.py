"""
Quantize the digits network with several recipes, print SQNR and accuracy, and write the
file of the first recipe: `python -m examples.classifiers [FILE]`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import parse_module

from .forms import tfl_text
from .networks import load_network
from .recipes import results, table

FILE = "build/digits_int8.tflite"


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
    print(f"{path}: {path.stat().st_size:,} bytes\n")
    print(table(network, batch=29))


if __name__ == "__main__":
    main(sys.argv[1:])
