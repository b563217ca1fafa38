"""
Quantize fifteen networks of 3 to 40 kernels with this package, with and without bias
correction, with onnxruntime and, if given, with litert-quantizer.

`python -m benchmarks.quantizers.deep_networks [--litert PYTHON] [NAME ...]`: the networks
are in `tests/unit/quantizer/networks.py`. All quantizers calibrate with the same samples.
The cells are the SQNR of the results on other samples, in dB. The last column is the
difference between the best quantizer and this package with bias correction, which is the
default. The command fails if it exceeds 0.5 dB.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tests.unit.quantizer.network_builders import (
    Activation,
    Builder,
    Floats,
    Value,
    text_of_network,
)
from tests.unit.quantizer.networks import NETWORKS, Model
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import write_tflite
from xdsl_quant.quantizer import Recipe, quantize
from xdsl_quant.quantizer.quantization import read_model

from .__main__ import decibels, run_litert
from .onnx_models import quantized_session

SAMPLES = 64
TEST_SAMPLES = 128
MOST_LOST = 0.5
"""In dB."""


class OnnxBuilder(Builder):
    """Builder of ONNX nodes; images have channels last, except inside of convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.helper: Any = import_module("onnx.helper")
        self.arrays: Any = import_module("onnx.numpy_helper")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def _op(
        self, name: str, values: Sequence[Value], shape: Sequence[int], **options: Any
    ) -> Value:
        result = Value(f"{name.lower()}_{len(self.nodes)}", (*shape,))
        names = [value.name for value in values]
        self.nodes.append(self.helper.make_node(name, names, [result.name], **options))
        return result

    def _array(self, values: Any) -> Value:
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.arrays.from_array(np.asarray(values), name))
        return Value(name, np.shape(values))

    def constant(self, values: Floats | float) -> Value:
        return self._array(np.asarray(values, np.float32))

    def window(
        self,
        x: Value,
        weights: Floats,
        bias: Floats,
        stride: int,
        activation: Activation,
        *,
        is_depthwise: bool,
    ) -> Value:
        kernel = weights.transpose((3, 0, 1, 2) if is_depthwise else (0, 3, 1, 2))
        size = weights.shape[1]
        shape = (1, *(-(-n // stride) for n in x.shape[1:3]), len(bias))
        pads = [
            max((m - 1) * stride + size - n, 0)
            for n, m in zip(x.shape[1:3], shape[1:3], strict=True)
        ]
        moved = self._op(
            "Transpose", [x], [x.shape[i] for i in (0, 3, 1, 2)], perm=[0, 3, 1, 2]
        )
        result = self._op(
            "Conv",
            [moved, self._array(np.ascontiguousarray(kernel)), self._array(bias)],
            [shape[i] for i in (0, 3, 1, 2)],
            group=len(bias) if is_depthwise else 1,
            kernel_shape=[size, size],
            strides=[stride, stride],
            pads=[*(pad // 2 for pad in pads), *(pad - pad // 2 for pad in pads)],
        )
        result = self._activation(result, activation)
        return self._op("Transpose", [result], shape, perm=[0, 2, 3, 1])

    def _activation(self, x: Value, activation: Activation) -> Value:
        if activation == "none":
            return x
        if activation == "relu":
            return self._op("Relu", [x], x.shape)
        return self._op("Clip", [x, self.constant(0.0), self.constant(6.0)], x.shape)

    def product(
        self, x: Value, weights: Floats, bias: Floats, activation: Activation
    ) -> Value:
        shape = (*x.shape[:-1], len(bias))
        matrix = self._array(np.ascontiguousarray(weights.T))
        if len(shape) == 2:
            result = self._op("Gemm", [x, matrix, self._array(bias)], shape)
        else:
            result = self._op("MatMul", [x, matrix], shape)
            result = self._op("Add", [result, self._array(bias)], shape)
        return self._activation(result, activation)

    def binary(self, name: str, x: Value, y: Value) -> Value:
        return self._op(
            name.capitalize(), [x, y], np.broadcast_shapes(x.shape, y.shape)
        )

    def unary(self, name: str, x: Value) -> Value:
        if name == "rsqrt":
            return self._op("Reciprocal", [self._op("Sqrt", [x], x.shape)], x.shape)
        name = {"relu": "Relu", "logistic": "Sigmoid", "tanh": "Tanh"}[name]
        return self._op(name, [x], x.shape)

    def gelu(self, x: Value) -> Value:
        return self._op("Gelu", [x], x.shape, approximate="tanh")

    def softmax(self, x: Value) -> Value:
        return self._op("Softmax", [x], x.shape)

    def batch_product(self, x: Value, y: Value, *, transposed: bool) -> Value:
        if transposed:
            order = [*range(len(y.shape) - 2), len(y.shape) - 1, len(y.shape) - 2]
            y = self.transpose(y, order)
        return self._op("MatMul", [x, y], (*x.shape[:-1], y.shape[-1]))

    def mean(self, x: Value, axes: Sequence[int]) -> Value:
        shape = [1 if d in axes else size for d, size in enumerate(x.shape)]
        return self._op("ReduceMean", [x, self._array([*axes])], shape)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        return self._op("Reshape", [x, self._array([*shape])], shape)

    def transpose(self, x: Value, order: Sequence[int]) -> Value:
        shape = [x.shape[d] for d in order]
        return self._op("Transpose", [x], shape, perm=[*order])

    def slice(self, x: Value, start: int, end: int) -> Value:
        values = [x, *(self._array([n]) for n in (start, end, len(x.shape) - 1))]
        return self._op("Slice", values, (*x.shape[:-1], end - start))

    def concatenate(self, values: Sequence[Value]) -> Value:
        shape = (*values[0].shape[:-1], sum(value.shape[-1] for value in values))
        return self._op("Concat", values, shape, axis=len(shape) - 1)

    def text(self, argument: Value, result: Value) -> str:
        """Return the serialized model, with one character per byte."""
        onnx: Any = import_module("onnx")
        infos = [
            self.helper.make_tensor_value_info(v.name, onnx.TensorProto.FLOAT, v.shape)
            for v in (argument, result)
        ]
        graph = self.helper.make_graph(
            self.nodes, "network", infos[:1], infos[1:], self.constants
        )
        opset = self.helper.make_opsetid("", 20)
        model = self.helper.make_model(graph, opset_imports=[opset], ir_version=9)
        return model.SerializeToString().decode("latin1")


def onnxruntime(model: Model, directory: Path, expected: Floats) -> float:
    """Return the SQNR of onnxruntime's static per-channel quantization."""
    text = text_of_network(model.network, model.shape, OnnxBuilder())
    rows = ({"%x": row[None]} for row in model.samples(SAMPLES))
    session = quantized_session(text.encode("latin1"), rows, directory)
    samples = model.samples(TEST_SAMPLES, 1)
    rows = [session.run(None, {"%x": row[None]})[0] for row in samples]
    return decibels(expected, np.concatenate(rows))


def litert(python: str, model: Model, directory: Path, expected: Floats) -> float:
    """Return the SQNR of litert-quantizer's static quantization with min-max ranges."""
    import subprocess

    worker = Path(__file__).with_name("litert_worker.py")
    source, samples, target = (
        directory / name for name in ("float.tflite", "x.npz", "quantized.tflite")
    )
    source.write_bytes(write_tflite(read_model(model.tfl_text())))
    np.savez(samples, x=model.samples(SAMPLES))
    command = [python, str(worker), str(source), str(samples), str(target), "min-max"]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        return float("nan")
    run = run_litert(target.read_bytes())
    return decibels(expected, run(model.samples(TEST_SAMPLES, 1)))


def ours(model: Model, *, corrects_bias: bool) -> float:
    """Return the SQNR of this package."""
    recipe = Recipe(bias_correction=corrects_bias)
    quantized = quantize(model.tfl_text(), model.samples(SAMPLES), recipe)
    (sqnr,) = quantized.report(model.samples(TEST_SAMPLES, 1)).outputs.values()
    return sqnr


def main() -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--litert", help="the interpreter that has litert-quantizer")
    parser.add_argument("names", nargs="*", default=[*NETWORKS])
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    worst = 0.0
    print("| network | ours | uncorrected | onnxruntime | litert-quantizer | below |")
    print("|---|---|---|---|---|---|")
    for name in options.names:
        model = NETWORKS[name]
        compiled = compile(read_model(model.tfl_text()))
        samples = model.samples(TEST_SAMPLES, 1)
        expected = np.concatenate([compiled(row[None]) for row in samples])
        with TemporaryDirectory() as temporary:
            directory = Path(temporary)
            found = [
                ours(model, corrects_bias=True),
                ours(model, corrects_bias=False),
                onnxruntime(model, directory, expected),
            ]
            if options.litert:
                found.append(litert(options.litert, model, directory, expected))
        below = np.nanmax(found) - found[0]
        worst = max(worst, below)
        cells = [f"{sqnr:.1f}" for sqnr in (*found, *[np.nan] * (4 - len(found)))]
        print(f"| {name} | {' | '.join(cells)} | {below:.1f} |", flush=True)
    return int(worst > MOST_LOST)


if __name__ == "__main__":
    sys.exit(main())
