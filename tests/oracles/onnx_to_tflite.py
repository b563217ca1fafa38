"""
Convert ONNX models to `.tflite` files and compare their results with onnxruntime.

    python -m tests.oracles.onnx_to_tflite --models ResNet8,hey_jarvis

The models are those of `benchmarks.models`, as `.tflite` files of 8 bits. Each becomes an
`.onnx` file and a `.tflite` file again: quantized constants must stay the same, and the
results of LiteRT's reference kernels, too. Then onnxruntime's `quantize_static` quantizes
the model without its casts, and the result becomes a `.tflite` file. *Reference* and
*XNNPACK* count values in which LiteRT differs from onnxruntime without optimizer, with
the largest difference in units of the stored value. The exit code is 1 if a way round
changes anything.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime  # pyright: ignore[reportMissingTypeStubs] it has none
from onnx import helper, numpy_helper
from onnxruntime import quantization  # pyright: ignore[reportMissingTypeStubs] see above

from benchmarks.models import MODELS, saved_model
from benchmarks.report import table
from examples.wake_word.models import model_paths
from tests.unit.frontends.tflite.files.litert_process import LiteRTProcess
from xdsl_quant.frontends.onnx import read_onnx, write_onnx
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.reader import read_tflite_model
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.loading import apply_passes

# Its modules have no type stubs.
_quantization = cast(Any, quantization)
_runtime = cast(Any, onnxruntime)

_KINDS: Mapping[str, Mapping[str, object]] = {
    "i8, i8 per channel": {"activation": "QInt8", "weight": "QInt8", "channels": True},
    "u8, i8 per channel": {"activation": "QUInt8", "weight": "QInt8", "channels": True},
    "u8, u8 per tensor": {"activation": "QUInt8", "weight": "QUInt8"},
}
"""Types of activations and weights that `quantize_static` uses, by text of the table."""

_SAMPLES, _TESTS = 16, 8


def stored_constants(file: bytes) -> Counter[object]:
    """Return shapes, parameters and data of the quantized constants, with counts."""
    (graph,) = read_tflite_model(file, "file").subgraphs
    return Counter(
        (
            tensor.type,
            (*tensor.shape,),
            np.asarray(tensor.quantization.scales, np.float32).tobytes(),
            np.asarray(tensor.quantization.zero_points, np.int64).tobytes(),
            bytes(tensor.data),
        )
        for tensor in graph.tensors
        if tensor.data is not None and tensor.quantization is not None
    )


# Float models


class _Twin:
    """Float model with the dequantized constants of a QDQ model, and without its casts."""

    def __init__(self, model: onnx.ModelProto):
        self.graph = model.graph
        self.arrays = {t.name: numpy_helper.to_array(t) for t in self.graph.initializer}
        self.sources: dict[str, str] = {}
        self.constants: dict[str, Array] = {}

    def source(self, name: str) -> str:
        """Return the name of the float that a value was before its casts."""
        while name in self.sources:
            name = self.sources[name]
        return name

    def model(self) -> onnx.ModelProto:
        nodes = [node for node in self.graph.node if not self._is_cast(node)]
        for node in nodes:
            for index, name in enumerate(node.input):
                node.input[index] = source = self.source(name)
                if source in self.arrays:
                    self.constants[source] = self.arrays[source]
        for output in self.graph.output:
            if (source := self.source(output.name)) != output.name:
                nodes.append(helper.make_node("Identity", [source], [output.name]))
        graph = helper.make_graph(
            nodes,
            "float",
            [self._declaration(value) for value in self.graph.input],
            [self._declaration(value) for value in self.graph.output],
            [numpy_helper.from_array(a, name) for name, a in self.constants.items()],
        )
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def _is_cast(self, node: onnx.NodeProto) -> bool:
        """Return True for a cast, and note what its result is."""
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear", "Cast"):
            return False
        name, result = node.input[0], node.output[0]
        if node.op_type == "DequantizeLinear" and name in self.arrays:
            self.constants[result] = self._dequantized(node)
        else:
            self.sources[result] = name
        return True

    def _dequantized(self, node: onnx.NodeProto) -> Array:
        stored, scales, *zero_points = (self.arrays[name] for name in node.input)
        shape = [1] * stored.ndim
        if scales.ndim:
            axis = next(a.i for a in node.attribute if a.name == "axis")
            shape[axis] = -1
        zeros = zero_points[0].astype(np.float64) if zero_points else np.zeros(())
        zeros = zeros.reshape(shape) if zeros.ndim else zeros
        scales = scales.reshape(shape) if scales.ndim else scales
        return ((stored - zeros) * scales).astype(np.float32)

    @staticmethod
    def _declaration(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
        sizes = [size.dim_value for size in value.type.tensor_type.shape.dim]
        return helper.make_tensor_value_info(value.name, onnx.TensorProto.FLOAT, sizes)


def _samples(
    model: onnx.ModelProto, count: int, seed: int
) -> Iterator[dict[str, Array]]:
    """Yield inputs; states are not negative, as after a rectifier."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        arrays: dict[str, Array] = {}
        for value in model.graph.input:
            sizes = [size.dim_value for size in value.type.tensor_type.shape.dim]
            array = random.normal(size=sizes).astype(np.float32)
            arrays[value.name] = 3 * np.abs(array) if "stat" in value.name else array
        yield arrays


def _quantized(path: Path, model: onnx.ModelProto, kind: Mapping[str, object]) -> bytes:
    """Quantize the model in a file with onnxruntime, and return the content."""
    output, types = path.with_suffix(".quantized.onnx"), _quantization.QuantType
    samples = _samples(model, _SAMPLES, seed=0)

    class Reader(_quantization.CalibrationDataReader):
        def get_next(self) -> dict[str, Array] | None:
            return next(samples, None)

    _quantization.quantize_static(
        str(path),
        str(output),
        Reader(),
        quant_format=_quantization.QuantFormat.QDQ,
        activation_type=getattr(types, str(kind["activation"])),
        weight_type=getattr(types, str(kind["weight"])),
        per_channel=bool(kind.get("channels")),
    )
    return output.read_bytes()


# Comparison


def _session(content: bytes) -> Any:
    options = _runtime.SessionOptions()
    level = _runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.graph_optimization_level = level
    options.log_severity_level = 3
    return _runtime.InferenceSession(content, options)


def _units(content: bytes) -> Sequence[float]:
    """Return the scales of the results of a QDQ model."""
    graph = onnx.load_from_string(content).graph
    arrays = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    units: list[float] = []
    for output in graph.output:
        node = makers[output.name]
        while node.op_type == "Identity":
            node = makers[node.input[0]]
        units.append(float(arrays[node.input[1]]))
    return units


class _LiteRT:
    """LiteRT with its reference kernels, or with its default kernels and XNNPACK."""

    def __init__(self, file: bytes, resolver: str):
        library: Any = import_module("ai_edge_litert.interpreter")
        self._interpreter: Any = library.Interpreter(
            model_content=file,
            experimental_op_resolver_type=getattr(library.OpResolverType, resolver),
            num_threads=1,
        )
        self._interpreter.allocate_tensors()

    def run(self, arguments: Iterable[Array]) -> Sequence[Array]:
        details = self._interpreter.get_input_details()
        for detail, array in zip(details, arguments, strict=True):
            self._interpreter.set_tensor(detail["index"], array)
        self._interpreter.invoke()
        return [
            self._interpreter.get_tensor(detail["index"])
            for detail in self._interpreter.get_output_details()
        ]


def count_static(content: bytes, model: onnx.ModelProto) -> Sequence[str]:
    """Return the number of compared values, and those that differ by runtime."""
    file, session = write_tflite(read_onnx(content)), _session(content)
    units, values = _units(content), 0
    runtimes = [_LiteRT(file, resolver) for resolver in ("BUILTIN_REF", "AUTO")]
    cells = [[0, 0] for _ in runtimes]
    for arrays in _samples(model, _TESTS, seed=1):
        results: Sequence[Array] = session.run(None, arrays)
        values += sum(array.size for array in results)
        for cell, runtime in zip(cells, runtimes, strict=True):
            found = runtime.run(arrays.values())
            for array, expected, unit in zip(found, results, units, strict=True):
                distance = np.round(np.abs(array.astype(np.float64) - expected) / unit)
                cell[0] += int((distance > 0).sum())
                cell[1] = max(cell[1], int(distance.max()))
    return [f"{values:,}", *(f"{n:,} (at most {most})" for n, most in cells)]


def count_way_round(process: LiteRTProcess, file: bytes, back: bytes) -> Sequence[str]:
    """Return numbers of constants and values, and of those that a way round changes."""
    constants, found = stored_constants(file), stored_constants(back)
    lost = (constants - found).total() + (found - constants).total()
    (graph,) = read_tflite_model(file, "file").subgraphs
    random, values, different = np.random.default_rng(0), 0, 0
    for _ in range(_TESTS):
        inputs = [
            random.normal(size=graph.tensors[index].shape).astype(np.float32)
            if graph.tensors[index].type == "FLOAT32"
            else random.integers(-128, 128, graph.tensors[index].shape, np.int8)
            for index in graph.inputs
        ]
        runs = [process.run(each, inputs) for each in (file, back)]
        for a, b in zip(*(run.results for run in runs), strict=True):
            values += a.size
            different += int((a != b).sum())
    return [f"{constants.total()}", f"{lost}", f"{values:,}", f"{different}"]


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    names = [*MODELS, *model_paths()]
    parser = argparse.ArgumentParser(prog="python -m tests.oracles.onnx_to_tflite")
    parser.add_argument("--models", default=",".join(names), help="separated by ','")
    options = parser.parse_args(args)
    logging.disable(logging.WARNING)
    ways: list[Sequence[str]] = []
    static: list[Sequence[str]] = []
    with LiteRTProcess() as process, TemporaryDirectory() as folder:
        for name in options.models.split(","):
            module = read_tflite(saved_model(name, Path(folder)).path)
            apply_passes(module, "tfl-variables-to-arguments", is_routine=True)
            content, path = write_onnx(module), Path(folder, "float.onnx")
            files = write_tflite(module), write_tflite(read_onnx(content))
            ways.append([name, *count_way_round(process, *files)])
            model = _Twin(onnx.load_from_string(content)).model()
            path.write_bytes(model.SerializeToString())
            for kind, types in _KINDS.items():
                quantized = _quantized(path, model, types)
                static.append([name, kind, *count_static(quantized, model)])
    header = "model", "constants", "changed", "values", "different"
    print(table(header, ways, texts=1))
    header = "model", "quantize_static", "values", "reference", "XNNPACK"
    print(table(header, static, texts=2))
    return 1 if any((row[2], row[4]) != ("0", "0") for row in ways) else 0


if __name__ == "__main__":
    sys.exit(main())
