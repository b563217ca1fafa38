"""
Time and memory of an inference of quantized models, and time until the first result,
compared with LiteRT.

Three models have the layer shapes of MobileNetV1 0.25 for 96 x 96 pixels, ResNet8 for 32
x 32 pixels and DS-CNN for 49 x 10 features, and random weights. `xdsl_quant.quantizer`
quantizes them to 8 bits with random samples, so values use the range of their type, and
writes `.tflite` files. The others are the models of the [wake-word
demo](../example_programs/wake_word.md), which have state: an inference is one step.

*ours* is `xdsl_quant.execution`, *reference* is LiteRT with its reference kernels, and
*XNNPACK* is LiteRT with its default options. Arrays are bound before. Times are
microseconds for one inference, the median of all rounds, in random order, with one thread
on one core. *Different* is the number of values that differ from the reference kernels,
in the results for eight inputs. *First* is the time from the file to the first result.
*Second* is the same in another process, which loads the code from the cache. *Start* is
the time of that whole process, including Python and its imports. *Second* and *start* are
CPU time, which varies less than wall time on a busy machine. For models with state, the
cache contains the code, but the process reads the file again.

*KB* is the memory of an inference: arguments, results and the intermediate values that
are live at the same time. *Arena* is the memory of the tensors of the file if they are
placed greedily by size, as LiteRT does; it is not compared for models with state.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from math import prod
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from benchmarks.measuring import Kernel, in_fresh_process, in_turns
from benchmarks.report import Options, Target, main, number, ratio, table, targets
from examples.wake_word.models import model_paths
from xdsl_quant.execution import CompiledFunction, compile
from xdsl_quant.execution.scheduling.buffer_planning import (
    Lifetime,
    by_size,
    plan_memory,
)
from xdsl_quant.frontends.tflite.files.reader import read_tflite_model
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.stateful_function import StatefulFunction

_POOL = (
    "filter_height = {0} : i32, filter_width = {1} : i32, stride_h = {0} : i32, "
    'stride_w = {1} : i32, padding = "VALID", fused_activation_function = "NONE"'
)
_WINDOW = (
    "dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, stride_h = {0} : i32, "
    'stride_w = {1} : i32, padding = "SAME", fused_activation_function = "{2}"'
)
_DENSE = (
    'fused_activation_function = "NONE", keep_num_dims = false, '
    'weights_format = "DEFAULT"'
)


_ITEM_SIZES = {"FLOAT32": 4, "INT8": 1}


def _tensor(shape: Sequence[int]) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


class Layer(NamedTuple):
    """A convolution with same padding."""

    shape: tuple[int, int, int]
    """Height, width and channels of the input."""

    window: tuple[int, int]

    stride: tuple[int, int]

    channels: int
    """Channels of the result."""

    is_depthwise: bool = False


class Network:
    """Builder of a float model of `tfl` ops."""

    def __init__(self, *shape: int):
        """Start with an input of this shape: height, width, channels."""
        self.shape: Sequence[int] = (1, *shape)
        """Shape of the last value."""

        self.value = "%x"
        """Name of the last value."""

        self.products = 0
        """Number of multiplications of an inference."""

        self.layers: list[Layer] = []
        """Convolutions of the network."""

        self._input_shape = self.shape
        self._lines: list[str] = []
        self._random = np.random.default_rng(0)

    def _add(self, line: str) -> str:
        name = f"%v{len(self._lines)}"
        self._lines.append(f"{name} = {line}")
        return name

    def _op(
        self,
        name: str,
        operands: Sequence[tuple[str, str]],
        attributes: str,
        shape: Sequence[int],
    ) -> None:
        """Add an op on the last value and on others, given as names with types."""
        operands = [(self.value, _tensor(self.shape)), *operands]
        names, types = (", ".join(column) for column in zip(*operands, strict=True))
        text = f'"tfl.{name}"({names}) {{{attributes}}} : ({types}) -> '
        self.value, self.shape = self._add(text + _tensor(shape)), shape

    def _constant(self, shape: Sequence[int], deviation: float) -> tuple[str, str]:
        values = (deviation * self._random.normal(size=shape)).astype("<f4")
        text = f'dense<"0x{values.tobytes().hex()}"> : {_tensor(shape)}'
        return self._add(f"arith.constant {text}"), _tensor(shape)

    def _weighted(
        self,
        name: str,
        weights: Sequence[int],
        depth: int,
        attributes: str,
        shape: Sequence[int],
    ) -> None:
        """Add an op with weights, whose results are sums of this number of products."""
        self.products += prod(shape) * depth
        constants = [
            self._constant(weights, (2 / depth) ** 0.5),
            self._constant(shape[-1:], 0.1),
        ]
        self._op(name, constants, attributes, shape)

    def _moved(self, stride: tuple[int, int]) -> tuple[int, int]:
        """Return the height and width of the result of a window op with this stride."""
        _, height, width, _ = self.shape
        return -(-height // stride[0]), -(-width // stride[1])

    def convolution(
        self,
        window: tuple[int, int],
        channels: int,
        stride: tuple[int, int] = (1, 1),
        activation: str = "RELU",
    ) -> None:
        """Add a convolution."""
        _, *size = self.shape
        self.layers.append(Layer((size[0], size[1], size[2]), window, stride, channels))
        weights = (channels, *window, self.shape[-1])
        attributes = _WINDOW.format(*stride, activation)
        shape = (1, *self._moved(stride), channels)
        self._weighted("conv_2d", weights, prod(weights[1:]), attributes, shape)

    def depthwise(self, stride: int = 1) -> None:
        """Add a depthwise convolution with a window of 3 x 3."""
        _, height, width, channels = self.shape
        self.layers.append(
            Layer((height, width, channels), (3, 3), (stride, stride), channels, True)
        )
        attributes = _WINDOW.format(stride, stride, "RELU")
        self._weighted(
            "depthwise_conv_2d",
            (1, 3, 3, channels),
            9,
            f"depth_multiplier = 1 : i32, {attributes}",
            (1, *self._moved((stride, stride)), channels),
        )

    def add(self, other: str) -> None:
        """Add the sum with another value of the same shape."""
        attributes = 'fused_activation_function = "RELU"'
        self._op("add", [(other, _tensor(self.shape))], attributes, self.shape)

    def pool(self) -> None:
        """Add the mean of all pixels."""
        _, height, width, channels = self.shape
        attributes = _POOL.format(height, width)
        self._op("average_pool_2d", [], attributes, (1, 1, 1, channels))

    def dense(self, units: int) -> None:
        """Add a fully connected layer."""
        size = prod(self.shape)
        sizes = self._add(f"arith.constant dense<[1, {size}]> : tensor<2xi32>")
        self._op("reshape", [(sizes, "tensor<2xi32>")], "", (1, size))
        self._weighted("fully_connected", (units, size), size, _DENSE, (1, units))

    def text(self) -> str:
        """Return the function `main`."""
        body = "\n  ".join(self._lines)
        shape = _tensor(self.shape)
        return (
            f"func.func @main(%x: {_tensor(self._input_shape)}) -> {shape} {{\n  {body}\n"
            f"  func.return {self.value} : {shape}\n}}\n"
        )

    def samples(self, count: int) -> NDArray[np.float32]:
        """Return random inputs."""
        shape = (count, *self._input_shape[1:])
        return self._random.normal(size=shape).astype(np.float32)

    def save(self, path: Path) -> None:
        """Quantize the model to 8 bits and write a `.tflite` file."""
        quantize(self.text(), self.samples(16), target="tflite-int8").save(path)


def mobilenet() -> Network:
    """Return MobileNetV1 with a quarter of the channels, for two classes."""
    network = Network(96, 96, 3)
    network.convolution((3, 3), 8, (2, 2))
    for channels, stride in (
        (16, 1),
        (32, 2),
        (32, 1),
        (64, 2),
        (64, 1),
        (128, 2),
        *[(128, 1)] * 5,
        (256, 2),
        (256, 1),
    ):
        network.depthwise(stride)
        network.convolution((1, 1), channels)
    network.pool()
    network.dense(2)
    return network


def resnet8() -> Network:
    """Return ResNet8: three residual blocks, for ten classes."""
    network = Network(32, 32, 3)
    network.convolution((3, 3), 16)
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        value, shape = network.value, network.shape
        network.convolution((3, 3), channels, (stride, stride))
        network.convolution((3, 3), channels, activation="NONE")
        block, network.value, network.shape = network.value, value, shape
        if stride > 1:
            network.convolution((1, 1), channels, (stride, stride), "NONE")
        network.add(block)
    network.pool()
    network.dense(10)
    return network


def ds_cnn() -> Network:
    """Return DS-CNN: four depthwise separable convolutions, for twelve words."""
    network = Network(49, 10, 1)
    network.convolution((10, 4), 64, (2, 2))
    for _ in range(4):
        network.depthwise()
        network.convolution((1, 1), 64)
    network.pool()
    network.dense(12)
    return network


MODELS: Mapping[str, Callable[[], Network]] = {
    "MobileNetV1 0.25": mobilenet,
    "ResNet8": resnet8,
    "DS-CNN": ds_cnn,
}

_INPUTS = 8
"""Number of consecutive inputs for which results are compared."""


class Saved(NamedTuple):
    """A model in a file."""

    path: Path

    inputs: NDArray[Any]

    products: int | None = None
    """Number of multiplications, if known."""


@dataclass(frozen=True)
class Result:
    """Measurements of a model."""

    products: int | None

    first: float
    """Seconds."""

    second: float

    start: float

    different: int

    seconds: Mapping[str, float]

    peak: int
    """Bytes."""

    arena: int | None
    """Bytes of the arena for the tensors of the file; `None` for a model with state."""


def _arena(path: Path) -> int:
    """Return the bytes of a greedy memory plan for the non-constant tensors of a file."""
    graph = read_tflite_model(path.read_bytes(), str(path)).subgraphs[0]
    end = len(graph.operators)
    # Inputs and outputs stay live during the whole inference.
    steps = {index: [0, end] for index in graph.inputs}
    for step, operator in enumerate(graph.operators):
        for index in operator.outputs:
            steps[index] = [step, end if index in graph.outputs else step]
        for index in operator.inputs:
            if index in steps:
                steps[index].append(step)
    sizes = {
        index: prod(graph.tensors[index].shape) * _ITEM_SIZES[graph.tensors[index].type]
        for index in steps
    }
    lifetimes = [Lifetime(sizes[i], min(s), max(s)) for i, s in steps.items()]
    return plan_memory(lifetimes, [by_size])[1]


def _interpreter(path: Path, *, is_reference: bool) -> Any:
    litert: Any = import_module("ai_edge_litert.interpreter")
    kind = "BUILTIN_REF" if is_reference else "AUTO"
    resolver = getattr(litert.OpResolverType, kind)
    interpreter = litert.Interpreter(
        str(path), experimental_op_resolver_type=resolver, num_threads=1
    )
    interpreter.allocate_tensors()
    return interpreter


def _loaded(path: Path) -> tuple[StatefulFunction, CompiledFunction]:
    """Return a model, and the function that runs a step."""
    functions: list[CompiledFunction] = []

    def runner(module: ModuleOp, name: str) -> CompiledFunction:
        functions.append(compile(module, name))
        return functions[0]

    return StatefulFunction(path, runner), functions[0]


_SECOND_START = """
import sys, time
import numpy as np
from xdsl_quant.execution import compile
from xdsl_quant.runtime.stateful_function import StatefulFunction
x = np.load(sys.argv[2])
start = time.process_time()
if sys.argv[3] == "state":
    StatefulFunction(sys.argv[1], compile).step(x)
else:
    compile(sys.argv[1])(x)
print(time.process_time() - start)
"""


def _second_start(path: Path, x: NDArray[Any], kind: str) -> tuple[float, float]:
    """Return the CPU seconds from file to result in a new process, and of the process."""
    sample = path.with_suffix(".npy")
    np.save(sample, x)
    command = [sys.executable, "-c", _SECOND_START, str(path), str(sample), kind]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = float(subprocess.check_output(command))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds, used


def saved_model(name: str, folder: Path, count: int = _INPUTS) -> Saved:
    """Write a model of the benchmark to a folder, with this number of random inputs."""
    path = folder / "model.tflite"
    if (make := MODELS.get(name)) is not None:
        network = make()
        network.save(path)
        return Saved(path, network.samples(count)[:, None], network.products)
    path.write_bytes(model_paths()[name].read_bytes())
    shape = _interpreter(path, is_reference=True).get_input_details()[0]["shape"]
    random = np.random.default_rng(0)
    return Saved(path, random.integers(-128, 128, (count, *shape), np.int8))


def _step(interpreter: Any, x: NDArray[Any]) -> NDArray[Any]:
    """Run an interpreter and return its first result."""
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def _measured(name: str, rounds: int) -> Result:
    with TemporaryDirectory() as folder:
        path, inputs, products = saved_model(name, Path(folder))
        interpreters = {
            "reference": _interpreter(path, is_reference=True),
            "XNNPACK": _interpreter(path, is_reference=False),
        }
        os.environ["XDSL_QUANT_CACHE"] = str(Path(folder, "cache"))
        start = time.perf_counter()
        model, function = _loaded(path)
        results = model.step(inputs[0])
        first = time.perf_counter() - start
        if not model.state:
            # The file is the key of the cache.
            compile(path)
        kind = "state" if model.state else ""
        seconds = [_second_start(path, inputs[0], kind) for _ in range(min(rounds, 5))]
        arena = None if model.state else _arena(path)
    second, start = map(median, zip(*seconds, strict=True))
    model.reset()
    different = sum(
        int(np.count_nonzero(model.step(x)[0] != _step(interpreters["reference"], x)))
        for x in inputs
    )
    kernels: dict[str, Kernel] = {"ours": function.bind(inputs[0], *model.state)}
    for kind, interpreter in interpreters.items():
        _step(interpreter, inputs[0])
        kernels[kind] = interpreter.invoke
    times = in_turns(kernels, rounds)
    arrays = inputs[0], *model.state, *results, *model.state
    return Result(
        products,
        first,
        second,
        start,
        different,
        {kind: median(seconds) for kind, seconds in times.items()},
        sum(array.nbytes for array in arrays) + function.temporary_bytes,
        arena,
    )


def report(options: Options) -> Iterator[str]:
    """Measure all models and yield tables and targets."""
    rounds = 1 if options.quick else 31
    names = [*MODELS][-1:] if options.quick else [*MODELS, *model_paths()]
    results = {name: in_fresh_process(_measured, name, rounds) for name in names}
    header = (
        "us an inference",
        "ours",
        "reference",
        "XNNPACK",
        "ours / XNNPACK",
        "million products",
        "different",
        "first, s",
        "second, s",
        "start, s",
        "KB",
        "arena, KB",
    )
    rows = [
        (
            name,
            *(number(1e6 * seconds) for seconds in result.seconds.values()),
            ratio(result.seconds["ours"], result.seconds["XNNPACK"]),
            "-" if result.products is None else number(result.products / 1e6),
            str(result.different),
            number(result.first),
            number(result.second),
            number(result.start),
            number(result.peak / 1024),
            "-" if result.arena is None else number(result.arena / 1024),
        )
        for name, result in results.items()
    ]
    yield table(header, rows)
    yield targets(_targets(results))


def _targets(results: Mapping[str, Result]) -> Iterator[Target]:
    for name, result in results.items():
        times = result.seconds["ours"] / result.seconds["XNNPACK"]
        why = (
            "The reference kernels, and ours, round twice in integers, XNNPACK once in "
            "floating point."
        )
        yield Target(f"{name}: at most as long as XNNPACK", times, 1.0, "x", why)
        yield Target(f"{name}: different values", result.different, 0, "")
        yield Target(f"{name}: first result in 10 s", result.first, 10, " s")
        if result.arena is not None:
            memory = result.peak / result.arena
            why = "Convolutions read windows from padded copies; LiteRT does not copy."
            claim = f"{name}: at most the memory of the arena"
            yield Target(claim, memory, 1.0, "x", why)
        yield Target(f"{name}: second result in 0.5 s", result.second, 0.5, " s")


if __name__ == "__main__":
    main(__doc__, report)
