"""
Time to quantize many layers and to read many types, and float functions compared with
XNNPACK.

*Layers*: a `tfl` network of dense layers of 8 by 8 values, quantized to 8 bits with eight
samples and bias correction. Times are CPU seconds of a process that has loaded the package.

*Types*: 1,000 functions that return their argument, parsed and printed. The tensor of each
function has another quantized type, or `f32` in all of them. Times are CPU milliseconds,
the shortest of all runs.

*Functions*: a `tfl` op on f32 values, with LiteRT's default options, XNNPACK. Times are CPU
microseconds of a call with bound arrays, and the median of the quotients of all rounds, on
one thread.
"""

import gc
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter  # pyright: ignore[reportMissingTypeStubs] no stubs

from benchmarks.measuring import Kernel, in_fresh_process
from benchmarks.report import Options, Target, main, number, ratio, table, targets
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import write_tflite
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import parse_module

_MOST_SECONDS = 100.0

# Layers


def dense_layers(count: int, size: int = 8) -> str:
    """Return a network of dense layers with random weights, as text."""
    random = np.random.default_rng(0)
    row, square, bias = (
        f"tensor<{n}xf32>" for n in (f"1x{size}", f"{size}x{size}", size)
    )

    def constant(name: str, values: Any, type_: str) -> str:
        data = values.astype("<f4").tobytes().hex()
        return f'%{name} = arith.constant dense<"0x{data}"> : {type_}'

    lines = [f"func.func @main(%v0: {row}) -> {row} {{"]
    for i in range(count):
        weights = random.normal(size=(size, size)) * 1.4 / size**0.5
        lines += [
            constant(f"w{i}", weights, square),
            constant(f"b{i}", 0.1 * random.normal(size=size), bias),
            f'%v{i + 1} = "tfl.fully_connected"(%v{i}, %w{i}, %b{i}) {{'
            'fused_activation_function = "RELU", keep_num_dims = false, '
            f'weights_format = "DEFAULT"}} : ({row}, {square}, {bias}) -> {row}',
        ]
    return "\n".join([*lines, f"func.return %v{count} : {row}", "}"])


def _quantize(count: int) -> float:
    random = np.random.default_rng(1)
    samples = [random.normal(size=(1, 8)).astype(np.float32) for _ in range(8)]
    text = dense_layers(count)
    start = time.process_time()
    quantize(text, samples)
    return time.process_time() - start


def _layers(counts: tuple[int, ...]) -> Iterator[str]:
    seconds = [in_fresh_process(_quantize, count) for count in counts]
    rows = [
        (f"{count:,}", number(each), number(each / count * 1e3))
        for count, each in zip(counts, seconds, strict=True)
    ]
    yield table(["layers", "s", "ms a layer"], rows)
    claim = f"{counts[-1]:,} layers are quantized in {_MOST_SECONDS:.0f} s"
    yield targets([Target(claim, seconds[-1], _MOST_SECONDS, " s")])


# Types


def _functions(element: Callable[[int], str], count: int) -> str:
    types = (f"tensor<4x8x{element(i)}>" for i in range(count))
    return "\n".join(
        f"func.func @f{i}(%x: {type_}) -> {type_} {{\n  return %x : {type_}\n}}"
        for i, type_ in enumerate(types)
    )


def _read_and_print(text: str) -> tuple[float, float]:
    gc.collect()
    start = time.process_time()
    module = parse_module(text)
    middle = time.process_time()
    str(module)
    return middle - start, time.process_time() - middle


def _types(count: int, runs: int) -> Iterator[str]:
    scales = np.random.default_rng(0).uniform(1e-3, 1, count).round(7).tolist()
    texts = {
        "quantized": _functions(
            lambda i: f"!quant.uniform<i8:f32, {scales[i]}:{i % 256 - 128}>", count
        ),
        "f32": _functions(lambda _: "f32", count),
    }
    measured: dict[str, list[tuple[float, float]]] = {name: [] for name in texts}
    for _ in range(runs):
        for name, text in texts.items():
            measured[name].append(_read_and_print(text))
    best = {
        name: [min(column) * 1e3 for column in zip(*each, strict=True)]
        for name, each in measured.items()
    }
    totals = [sum(best[name]) for name in texts]
    rows = [(name, *map(number, (*each, sum(each)))) for name, each in best.items()]
    yield table([f"{count:,} functions", "parse ms", "print ms", "both"], rows)
    claim = "quantized types take at most 1.2 times the time of f32"
    yield targets([Target(claim, totals[0] / totals[1], 1.2, "x")])


# Functions

_OPS = {
    "gelu": '"tfl.gelu"(%x) <{approximate = false}>',
    "gelu, approximate": '"tfl.gelu"(%x) <{approximate = true}>',
    "elu": '"tfl.elu"(%x)',
    "softmax": '"tfl.softmax"(%x) {beta = 1.0 : f32}',
}


def _cpu_seconds(kernel: Kernel, repetitions: int) -> float:
    start = time.process_time()
    for _ in range(repetitions):
        kernel()
    return (time.process_time() - start) / repetitions


def _kernels(op: str, shape: tuple[int, int]) -> tuple[Kernel, Kernel]:
    """Return calls of the compiled op and of XNNPACK, on the same values."""
    type_ = f"tensor<{shape[0]}x{shape[1]}xf32>"
    text = (
        f"func.func @main(%x: {type_}) -> {type_} {{\n"
        f"  %0 = {op} : ({type_}) -> {type_}\n  return %0 : {type_}\n}}"
    )
    values = 2 * np.random.default_rng(0).normal(size=shape).astype(np.float32)
    interpreter: Any = Interpreter(
        model_content=write_tflite(parse_module(text)), num_threads=1
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], values)
    return compile(text).bind(values), interpreter.invoke


def _float_functions(options: Options) -> Iterator[str]:
    rounds = 3 if options.quick else 100
    shapes = ((64, 128),) if options.quick else ((64, 128), (128, 1024))
    rows: list[tuple[str, ...]] = []
    limits: list[Target] = []
    for name, op in _OPS.items():
        for shape in shapes:
            ours, theirs = _kernels(op, shape)
            repetitions = max(1, round(2e-3 / max(_cpu_seconds(theirs, 20), 1e-7)))
            pairs = [
                (_cpu_seconds(ours, repetitions), _cpu_seconds(theirs, repetitions))
                for _ in range(rounds)
            ]
            quotient = median(a / b for a, b in pairs)
            best = [min(column) * 1e6 for column in zip(*pairs, strict=True)]
            label = f"{name}, {shape[0]} x {shape[1]}"
            rows.append((label, *map(number, best), ratio(quotient, 1)))
            limits.append(Target(f"{label}: at most twice XNNPACK", quotient, 2, "x"))
    yield table(["us", "ours", "XNNPACK", "ours / XNNPACK"], rows)
    yield targets(limits)


def report(options: Options) -> Iterator[str]:
    """Yield all tables."""
    yield from _layers((2, 4) if options.quick else (100, 300, 1_000))
    yield from _types(10 if options.quick else 1_000, 2 if options.quick else 11)
    yield from _float_functions(options)


if __name__ == "__main__":
    main(__doc__, report)
