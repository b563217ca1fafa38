"""
Overhead of calibration, throughput of the observers, and time to quantize constants.

*Calibration* is the time of `calibrate` for a batch, with the observer `min-max` and all
float tensors recorded, divided by the time of the same compiled function without
`quant.stats_ref` ops, which writes to existing arrays. One thread runs on one core. Both
run alternately; the cell is the median of the quotients.

*Observers* record a tensor of 4M values of a normal distribution. With two threads, each
thread has its own tensor.

*Constants* is the time of `quant-convert-const` for one constant of 16M values, divided
by the time of a `memcpy` of the constants before and after the pass. Parsing converts the
data of a resource from text to bytes, and printing converts it back; these times are
given below the tables.
"""

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import in_fresh_process
from benchmarks.report import Options, Target, main, number, table, targets

_MEBI = 1 << 20

# Calibration


@dataclass(frozen=True)
class Model:
    """A function, and the reason for its calibration overhead."""

    name: str
    text: str
    shapes: tuple[tuple[int, ...], ...]
    """Shapes of the arguments."""

    why: str = ""

    def arguments(self) -> tuple[NDArray[np.float32], ...]:
        """Return normal values, scaled to equal magnitude of the results of layers."""
        random = np.random.default_rng(0)
        return tuple(
            random.normal(0, 1 / max(1, shape[-2:][0]) ** 0.5, shape).astype(np.float32)
            for shape in self.shapes
        )


_LAYERS = (
    "Calls from and to Python add about ten microseconds to a batch. Calibration "
    "reads each value once more, weights included, unless a separate loop computes it; "
    "this takes 0.05 ns for a value in the cache."
)
"""Reason for the overhead of layers."""


def _tensor(shape: Sequence[int]) -> str:
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


def _function(
    shapes: Sequence[Sequence[int]], lines: Sequence[str], result: str
) -> str:
    arguments = ", ".join(f"%a{i}: {_tensor(shape)}" for i, shape in enumerate(shapes))
    value, type_ = result.split(" : ")
    body = "\n  ".join([*lines, f"return {value} : {type_}"])
    return f"func.func @main({arguments}) -> {type_} {{\n  {body}\n}}"


def _layer(op: str, i: int, source: str, sources: str, type_: str) -> Sequence[str]:
    """Return the lines of an op with zero-initialized result, and a ReLU."""
    return [
        f"%zero{i} = arith.constant 0.0 : f32",
        f"%empty{i} = tensor.empty() : {type_}",
        f"%zeros{i} = linalg.fill ins(%zero{i} : f32) outs(%empty{i} : {type_}) "
        f"-> {type_}",
        f"%sum{i} = {op} ins({source}, %a{i} : {sources}) outs(%zeros{i} : {type_}) "
        f"-> {type_}",
        f"%none{i} = arith.constant dense<0.0> : {type_}",
        f"%relu{i} = arith.maximumf %sum{i}, %none{i} : {type_}",
    ]


def _mlp(samples: int, sizes: Sequence[int]) -> Model:
    shapes = [(samples, sizes[0]), *pairwise(sizes)]
    lines: list[str] = []
    source, type_ = "%a0", _tensor(shapes[0])
    for i, shape in enumerate(shapes[1:], 1):
        result = _tensor((samples, shape[1]))
        lines += _layer(
            "linalg.matmul", i, source, f"{type_}, {_tensor(shape)}", result
        )
        source, type_ = f"%relu{i}", result
    name = f"MLP {'-'.join(map(str, sizes))}, {samples} samples"
    text = _function(shapes, lines, f"{source} : {type_}")
    return Model(name, text, tuple(shapes), _LAYERS)


_CONVOLUTION = (
    "linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, "
    "strides = dense<1> : tensor<2xi64>}"
)


def _conv_net(samples: int, size: int, channels: Sequence[int]) -> Model:
    shapes: list[tuple[int, ...]] = [(samples, size, size, channels[0])]
    lines: list[str] = []
    source, type_ = "%a0", _tensor(shapes[0])
    for i, (before, after) in enumerate(pairwise(channels), 1):
        shapes.append((3, 3, before, after))
        size -= 2
        result = _tensor((samples, size, size, after))
        sources = f"{type_}, {_tensor(shapes[-1])}"
        lines += _layer(_CONVOLUTION, i, source, sources, result)
        source, type_ = f"%relu{i}", result
    name = f"{len(channels) - 1} convolutions, {samples} images"
    return Model(
        name, _function(shapes, lines, f"{source} : {type_}"), tuple(shapes), _LAYERS
    )


def _chain(elements: int, length: int) -> Model:
    shape = (elements,)
    type_ = _tensor(shape)
    lines: list[str] = []
    source = "%a0"
    for i in range(length):
        lines.append(f"%sum{i} = arith.addf {source}, %a0 : {type_}")
        source = f"%sum{i}"
    why = (
        "Both variants are one loop. The min and max take three operations for each value, "
        "an addition takes one."
    )
    name = f"{length} additions, {elements // _MEBI}M elements"
    return Model(name, _function([shape], lines, f"{source} : {type_}"), (shape,), why)


def _models(quick: bool) -> Iterator[Model]:
    if not quick:
        yield _mlp(64, (784, 256, 128, 10))
    yield _mlp(32, (64, 48, 10))
    yield _conv_net(1, 8, (3, 16)) if quick else _conv_net(8, 32, (3, 16, 32))
    for mebi in (1,) if quick else (1, 16):
        yield _chain(mebi * _MEBI, 8)


def _overhead(model: Model, rounds: int) -> tuple[float, float]:
    """Return the milliseconds of a call, and the time with calibration as a multiple."""
    from xdsl_quant.calibration import calibrate
    from xdsl_quant.execution import compile
    from xdsl_quant.runtime.loading import apply_passes, parse_module

    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    arguments = model.arguments()
    module = parse_module(model.text)
    plain = compile(module)
    out = plain(*arguments)
    apply_passes(module, "quant-insert-stats-refs")
    times: list[tuple[float, float]] = []

    def batches() -> Iterator[tuple[NDArray[np.float32], ...]]:
        # A batch runs between two yields.
        yield arguments
        for _ in range(rounds):
            call = _seconds(lambda: plain(*arguments, out=out))
            start = time.perf_counter()
            yield arguments
            times.append((call, time.perf_counter() - start))

    calibrate(module, batches())
    milliseconds = 1e3 * median(call for call, _ in times)
    return milliseconds, median(observed / call for call, observed in times)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _calibration(options: Options) -> Iterator[str]:
    rounds = 1 if options.quick else 25
    models = list(_models(options.quick))
    costs = [in_fresh_process(_overhead, model, rounds) for model in models]
    yield table(
        ["calibration with min-max", "without, ms", "with, times as long"],
        (
            [model.name, number(milliseconds), f"{number(quotient)}x"]
            for model, (milliseconds, quotient) in zip(models, costs, strict=True)
        ),
    )
    yield targets(
        Target(f"{model.name}: at most 1.2 times", quotient, 1.2, "x", model.why)
        for model, (_, quotient) in zip(models, costs, strict=True)
    )
    milliseconds, quotient = in_fresh_process(_overhead, _chain(64, 8), 100 * rounds)
    yield (
        "With 8 additions of 64 elements, calibration adds "
        f"{number(1e3 * milliseconds * (quotient - 1))} us to a batch. This does not "
        "depend on the number of keys."
    )


# Observers

_OBSERVERS = ("min-max", "percentile", "entropy", "mse")


def _speed(name: str, threads: int, mebi: int, rounds: int) -> float:
    """Return million values per second."""
    from xdsl_quant.numerics.observers import parse_observer

    observer = parse_observer(name)
    random = np.random.default_rng(0)
    tensors = [
        random.normal(size=mebi * _MEBI).astype(np.float32) for _ in range(threads)
    ]
    with ThreadPoolExecutor(threads) as executor:

        def work() -> None:
            list(executor.map(observer.observe, tensors))

        work()
        seconds = median(_seconds(work) for _ in range(rounds))
    return threads * mebi * _MEBI / seconds / 1e6


def _observers(options: Options) -> Iterator[str]:
    mebi, rounds = (1, 1) if options.quick else (4, 25)
    speeds = {
        name: [
            in_fresh_process(_speed, name, threads, mebi, rounds) for threads in (1, 2)
        ]
        for name in _OBSERVERS
    }
    yield table(
        ["observers, million values a second", "one thread", "two threads"],
        ([name, *map(number, pair)] for name, pair in speeds.items()),
    )
    slowest = min(speed for name, (_, speed) in speeds.items() if name != "min-max")
    claim = "histograms: 100 million values in at most 1 s with two threads"
    why = (
        "NumPy finds the bins in one pass and counts them in another, and its "
        "`bincount` holds the global interpreter lock."
    )
    yield targets([Target(claim, 100 / slowest, 1.0, " s", why)])


# Constants


def _constant(kind: str, mebi: int, rounds: int) -> float:
    """Return the time of a conversion as a multiple of a `memcpy` of both constants."""
    from xdsl.context import Context
    from xdsl.dialects.arith import ConstantOp
    from xdsl.dialects.builtin import (
        BytesAttr,
        DenseIntOrFPElementsAttr,
        ModuleOp,
        TensorType,
        f32,
    )

    from xdsl_quant.dialects.quant import QuantizeCastOp
    from xdsl_quant.runtime.loading import parse_module
    from xdsl_quant.transforms.statistics.quant_convert_const import (
        QuantConvertConstPass,
    )
    from xdsl_quant.xdsl_patches.resources import keep_resources_as_bytes, new_resource

    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    count = mebi * _MEBI
    values = np.random.default_rng(0).normal(size=count).astype(np.float32)
    type_ = TensorType(f32, (count,))
    value: Any = DenseIntOrFPElementsAttr(type_, BytesAttr(values.tobytes()))
    if kind == "resource":
        value = new_resource("values", values, type_)
    quantized = f"tensor<{count}x!quant.uniform<i8:f32, 0.03:1>>"
    text = f"func.func @f(%x: {quantized}) {{ return }}"
    argument: Any = next(iter(parse_module(text).body.ops)).regions[0].block.args[0]
    # With zeros, all pages would share the same memory.
    source = np.ones(count * 5, np.uint8)
    target_memory = np.zeros_like(source)
    blobs = keep_resources_as_bytes().blobs
    quotients: list[float] = []
    for _ in range(rounds):
        constant = ConstantOp(value)
        cast = QuantizeCastOp(constant.result, argument.type)
        module = ModuleOp([constant, cast])
        # Otherwise each round would allocate new pages from the system.
        gc.collect()
        for key in blobs.keys() - {"values"}:
            del blobs[key]
        copy = _seconds(lambda: np.copyto(target_memory, source))
        seconds = _seconds(lambda m=module: QuantConvertConstPass().apply(Context(), m))
        quotients.append(seconds / copy)
    return median(quotients[1:])


def _constants(options: Options) -> Iterator[str]:
    mebi, rounds = (1, 2) if options.quick else (16, 10)
    quotients = {
        kind: in_fresh_process(_constant, kind, mebi, rounds)
        for kind in ("dense", "resource")
    }
    why = (
        "All of it is `numerics.quantize`, which makes six passes over pieces in the cache "
        "and is the first to write to the memory of the result."
    )
    yield table(
        [f"quant-convert-const, {mebi}M elements", "times a memcpy"],
        ([kind, f"{number(quotient)}x"] for kind, quotient in quotients.items()),
    )
    yield targets(
        Target(f"{kind} constant: at most 3 times a memcpy", q, 3.0, "x", why)
        for kind, q in quotients.items()
    )


def _resource_text(mebi: int) -> tuple[float, float, float]:
    """Return the seconds to parse a resource of many values, to decode and to encode it."""
    from xdsl_quant.runtime.loading import parse_module
    from xdsl_quant.xdsl_patches.resources import keep_resources_as_bytes

    values = np.random.default_rng(0).normal(size=mebi * _MEBI).astype(np.float32)
    text = f"0x04000000{values.tobytes().hex()}"
    module = (
        "func.func private @f()\n"
        f'{{-# dialect_resources: {{builtin: {{values: "{text}"}}}} #-}}'
    )
    parsing = _seconds(lambda: parse_module(module))
    resources = keep_resources_as_bytes()
    key = resources.declare_resource("values")
    return (
        parsing,
        _seconds(lambda: resources.parse_resource(key, text)),
        _seconds(lambda: resources.lookup(key)),
    )


def _texts(options: Options) -> Iterator[str]:
    mebi = 1 if options.quick else 16
    parsing, reading, writing = in_fresh_process(_resource_text, mebi)
    yield (
        f"xDSL parses a module with a resource of {mebi}M values "
        f"({8 * mebi} MiB of text) in "
        f"{number(parsing)} s, including {number(reading)} s for the conversion to bytes. "
        f"The conversion to text takes {number(writing)} s."
    )


def report(options: Options) -> Iterator[str]:
    """Yield all tables and targets."""
    yield from _calibration(options)
    yield from _observers(options)
    yield from _constants(options)
    yield from _texts(options)


if __name__ == "__main__":
    main(__doc__, report)
