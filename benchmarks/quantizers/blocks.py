"""
Quantize three networks with the block recipes of this package and of litert-quantizer,
and compare the results on other samples.

`make quantizers` runs `python -m benchmarks.quantizers.blocks --litert PYTHON`. PYTHON is
the interpreter of an environment that contains litert-quantizer. `--write
docs/measured/blocks.md` also writes the page. The command fails if a result of this package
has an SQNR of more than 0.1 dB below that of litert-quantizer.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import add_write_option, print_page
from examples.digits.dataset import DIRECTORY, load_digits
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import write_tflite
from xdsl_quant.quantizer import quantize
from xdsl_quant.quantizer.quantization import read_model

from .__main__ import decibels

Array = NDArray[Any]

_INTRODUCTION = """\
# Block recipes: this package and litert-quantizer

```sh
make quantizers  # prints this page
python -m benchmarks.quantizers.blocks --litert .venv-litert/bin/python \\
  --write docs/measured/blocks.md
```

Each network is quantized by a [block recipe](../reference/recipes.md#block-recipes) of this
package and by the recipe of litert-quantizer with the same width and block size, such as
`dynamic_wi4b32_afp32`. Cells are the SQNR in dB for three seeds, which choose the samples
and, in the last two networks, the weights. The first network is trained on handwritten
digits. The last one looks up rows of a table.

LiteRT's default kernels run files with 4-bit weights, and the compiled code of this package
returns the same floats for its files; the sums of layers that stay in floating point may
differ in the last bits. The kernels refuse litert-quantizer's files with 2-bit weights. The
compiled code of this package runs both, with float activations. With 2 bits,
litert-quantizer keeps tables in floating point. It refuses models with weights of another
size than a multiple of the block size; this package leaves them in floating point.

| network | recipe | this package | litert-quantizer |
|---|---|---|---|"""

SEEDS = 3
SAMPLES = 256
MOST_LOST = 0.1
"""In dB."""

RECIPES: Mapping[str, str] = {
    "int4-blocks-32": "dynamic_wi4b32_afp32",
    "int4-blocks-64": "dynamic_wi4b64_afp32",
    "int2-blocks-32": "dynamic_wi2b32_afp32",
    "int2-blocks-64": "dynamic_wi2b64_afp32",
}
"""Recipes of this package, and of litert-quantizer."""

_WORKER = Path(__file__).with_name("litert_worker.py")


class Model(NamedTuple):
    """A float model, and samples of its argument."""

    text: str
    calibration: Array
    test: Array


class _Layers:
    """Text of a model of dense layers."""

    def __init__(self, argument: str):
        self.argument = argument
        self.lines: list[str] = []

    def constant(self, values: Array) -> tuple[str, str]:
        name = f"%c{len(self.lines)}"
        type_ = f"tensor<{'x'.join(map(str, values.shape))}xf32>"
        text = f'dense<"0x{values.astype("<f4").tobytes().hex()}"> : {type_}'
        self.lines.append(f"{name} = arith.constant {text}")
        return name, type_

    def lookup(self, table: Array) -> None:
        name, type_ = self.constant(table)
        self.lines.append(
            f'%0 = "tfl.embedding_lookup"(%x, {name}) : ({self.argument}, {type_}) -> '
            f"tensor<1x{table.shape[1]}xf32>"
        )

    def text(self, layers: Sequence[tuple[Array, Array]], value: str) -> str:
        """Return the model with these weights and biases after a value."""
        for number, (weights, bias) in enumerate(layers, 1):
            outputs, inputs = weights.shape
            (w, w_type), (b, b_type) = self.constant(weights), self.constant(bias)
            activation = "NONE" if number == len(layers) else "RELU"
            self.lines.append(
                f'%{number} = "tfl.fully_connected"({value}, {w}, {b}) {{'
                f'fused_activation_function = "{activation}", keep_num_dims = false, '
                f'weights_format = "DEFAULT"}} : (tensor<1x{inputs}xf32>, {w_type}, '
                f"{b_type}) -> tensor<1x{outputs}xf32>"
            )
            value = f"%{number}"
        result, body = f"tensor<1x{len(layers[-1][1])}xf32>", "\n".join(self.lines)
        return (
            f'func.func @main(%x: {self.argument} {{tf_saved_model.index_path = ["x"]}}) '
            f'-> ({result} {{tf_saved_model.index_path = ["y"]}}) attributes '
            '{tf.entry_function = {inputs = "x:0", outputs = "y:0"}, '
            'tf_saved_model.exported_names = ["serving_default"]} {\n'
            f"{body}\nreturn {value} : {result}\n}}\n"
        )


def digits(rng: np.random.Generator) -> Model:
    """Return a perceptron that recognizes handwritten digits."""
    with np.load(DIRECTORY / "mlp.npz") as file:
        layers = [(file[f"weights_{i}"].T, file[f"bias_{i}"]) for i in range(3)]
    calibration, test = (each.images.reshape(-1, 64) for each in load_digits())
    rows = rng.choice(len(test), SAMPLES, replace=False)
    text = _Layers("tensor<1x64xf32>").text(layers, "%x")
    return Model(text, calibration[:SAMPLES], test[rows])


def _random_layers(rng: np.random.Generator, *sizes: int) -> list[tuple[Array, Array]]:
    return [
        (
            rng.standard_t(5, (outputs, inputs)) / inputs**0.5,
            rng.normal(0, 0.1, outputs),
        )
        for inputs, outputs in pairwise(sizes)
    ]


def perceptron(rng: np.random.Generator) -> Model:
    """Return a perceptron with random weights."""
    text = _Layers("tensor<1x256xf32>").text(
        _random_layers(rng, 256, 512, 128, 32), "%x"
    )
    x = rng.normal(size=(2, SAMPLES, 256)).astype(np.float32)
    return Model(text, *x)


def embedding(rng: np.random.Generator) -> Model:
    """Return random dense layers after a table."""
    layers = _Layers("tensor<1xi32>")
    layers.lookup(rng.standard_t(5, (500, 128)))
    text = layers.text(_random_layers(rng, 128, 256, 64), "%0")
    return Model(text, *rng.integers(0, 500, (2, SAMPLES), np.int32))


NETWORKS: Mapping[str, Callable[[np.random.Generator], Model]] = {
    "digits": digits,
    "perceptron": perceptron,
    "embedding": embedding,
}


def default_kernels(path: Path) -> Callable[[Array], Array]:
    """Return a function that runs a file with LiteRT's default kernels."""
    library: Any = import_module("ai_edge_litert.interpreter")
    interpreter = library.Interpreter(str(path), num_threads=1)
    interpreter.allocate_tensors()
    (argument,), (result,) = (
        interpreter.get_input_details(),
        interpreter.get_output_details(),
    )

    def run(x: Array) -> Array:
        interpreter.set_tensor(argument["index"], x)
        interpreter.invoke()
        return interpreter.get_tensor(result["index"])

    return run


def _results(path: Path, samples: Array, *, is_compiled: bool) -> Array:
    """Run a file on samples, one by one."""
    run: Any = compile(path) if is_compiled else default_kernels(path)
    return np.concatenate([run(samples[i : i + 1]) for i in range(len(samples))])


def _check_equal(compiled: Array, found: Array) -> None:
    """Raise an error unless compiled code and LiteRT agree up to the order of sums."""
    limit = 4e-6 * float(np.abs(compiled).max())
    np.testing.assert_allclose(found, compiled, rtol=0, atol=limit)


def sqnrs(model: Model, recipe: str, python: str, folder: Path) -> tuple[float, float]:
    """Return the SQNR of this package, and of litert-quantizer; NaN if it fails."""
    source, ours, theirs = (folder / f"{n}.tflite" for n in ("float", "ours", "theirs"))
    source.write_bytes(write_tflite(read_model(model.text)))
    is_compiled = recipe.startswith("int2")
    expected = _results(source, model.test, is_compiled=is_compiled)

    def sqnr(path: Path) -> float:
        return decibels(expected, _results(path, model.test, is_compiled=is_compiled))

    quantize(source, model.calibration, recipe).save(ours)
    if not is_compiled:
        results = (_results(ours, model.test, is_compiled=x) for x in (True, False))
        _check_equal(*results)
    command = [python, str(_WORKER), str(source), "", str(theirs), RECIPES[recipe]]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        return sqnr(ours), math.nan
    return sqnr(ours), sqnr(theirs)


def _cell(values: Sequence[float]) -> str:
    return " / ".join("refused" if math.isnan(x) else f"{x:.1f}" for x in values)


def page(python: str, failures: list[str]) -> Iterator[str]:
    """Yield the lines of the page; add the rows that fail to `failures`."""
    yield _INTRODUCTION
    with TemporaryDirectory() as folder:
        for name, network in NETWORKS.items():
            for recipe in RECIPES:
                found = [
                    sqnrs(
                        network(np.random.default_rng(seed)),
                        recipe,
                        python,
                        Path(folder),
                    )
                    for seed in range(SEEDS)
                ]
                cells = map(_cell, zip(*found, strict=True))
                row = f"| {name} | `{recipe}` | {' | '.join(cells)} |"
                if any(ours < theirs - MOST_LOST for ours, theirs in found):
                    failures.append(row)
                yield row


def main() -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--litert", required=True, help="the interpreter")
    add_write_option(parser)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "low SQNR|.*they stay in floating point")
    failures: list[str] = []
    print_page(page(options.litert, failures), options.write)
    for row in failures:
        print(
            f"more than {MOST_LOST} dB below litert-quantizer: {row}", file=sys.stderr
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
