"""
Time of f32 -> i8 quantization and i8 -> f32 dequantization relative to `memcpy`, compared
with onnxruntime, torch and NumPy.

Each cell is the time of a kernel divided by the time of a `memcpy` that reads and writes
the same number of bytes, 5 for each element: lower is faster. One thread runs on one
core. The kernels of a column run alternately; each round gives one quotient, and the cell
is the median. 1M elements fit into the cache, 16M do not. Quotients below 1 are possible,
because stores are half of the memory traffic of a copy, but only a fifth of that of a
quantization.

*compiled* is `xdsl_quant.execution` with static and dynamic shapes, bound to its arrays
once, like a kernel of onnxruntime. *called* is an ordinary call, which checks its arrays
each time. *numerics* is `xdsl_quant.numerics`. *naive NumPy* applies the formula to whole
arrays. All kernels write to existing arrays, except torch, which always allocates the
result. torch has no kernel for blocks.
"""

import os
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import Kernel, in_fresh_process, in_turns, seconds_of
from benchmarks.peers import peers
from benchmarks.report import Options, Target, main, number, table, targets
from xdsl_quant.dialects.quant import uniform_type
from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize

_MEBI = 1 << 20
_COMPILED = ("compiled", "compiled, dynamic")


@dataclass(frozen=True)
class Case:
    """A tensor shape and the layout of its scales."""

    name: str
    shape: tuple[int, ...]
    quantized_dimension: int | None = None
    block_size: int | None = None
    has_zero_points: bool = True

    @property
    def _block_sizes(self) -> dict[int, int] | None:
        return None if self.block_size is None else {0: 1, 1: self.block_size}

    def parameters(self) -> QuantizationParameters:
        """Return parameters: scales are not powers of two, zero points are optional."""
        shape: tuple[int, ...] = ()
        if self.quantized_dimension is not None:
            shape = (self.shape[self.quantized_dimension],)
        if self.block_size is not None:
            shape = (self.shape[0], self.shape[1] // self.block_size)
        random = np.random.default_rng(0)
        return QuantizationParameters(
            random.uniform(0.02, 0.05, shape),
            random.integers(1, 10, shape) if self.has_zero_points else 0,
            quantized_dimension=self.quantized_dimension,
            block_sizes=self._block_sizes,
        )


def _cases(elements: int) -> Iterator[Case]:
    yield Case("per-tensor", (elements,))
    yield Case("per-tensor, no zero point", (elements,), has_zero_points=False)
    for channels in (64, 4096):
        rest = elements // channels
        yield Case(f"{channels} channels, last axis", (rest, channels), 1)
        yield Case(f"{channels} channels, first axis", (channels, rest), 0)
    side = round(elements**0.5)
    for block_size in (32, 128):
        yield Case(f"blocks of {block_size}", (side, side), None, block_size)


# Kernels


def _module(case: Case, quantizing: bool, is_static: bool) -> str:
    sizes = case.shape if is_static else ("?",) * len(case.shape)
    shape = "".join(f"{size}x" for size in sizes)
    quantized = f"tensor<{shape}{uniform_type(case.parameters())}>"
    expressed = f"tensor<{shape}f32>"
    name, source, result = (
        ("qcast", expressed, quantized)
        if quantizing
        else ("dcast", quantized, expressed)
    )
    return f"""
    func.func @main(%source: {source}) -> {result} {{
      %result = quant.{name} %source : {source} to {result}
      return %result : {result}
    }}"""


def _compiled(
    case: Case, quantizing: bool, source: NDArray[Any], result: NDArray[Any]
) -> Iterator[tuple[str, Kernel]]:
    from xdsl_quant.execution import compile

    for name, is_static in zip(_COMPILED, (True, False), strict=True):
        function = compile(_module(case, quantizing, is_static))
        yield name, function.bind(source, out=result)
        yield f"{name}, called", lambda f=function: f(source, out=result)


def _naive(
    case: Case, quantizing: bool, source: NDArray[Any], result: NDArray[Any]
) -> Kernel:
    parameters = case.parameters()
    scales = parameters.scales.astype(np.float32)
    zero_points = parameters.zero_points.astype(np.float32)
    if case.quantized_dimension == 0:
        scales, zero_points = scales[:, None], zero_points[:, None]
    if case.block_size is not None:
        scales, zero_points = scales[..., None], zero_points[..., None]
        source = source.reshape(*scales.shape[:-1], -1)
        result = result.reshape(source.shape)

    def naive_quantize() -> None:
        result[...] = np.clip(np.rint(source / scales + zero_points), -128, 127)

    def naive_dequantize() -> None:
        result[...] = (source.astype(np.float32) - zero_points) * scales

    return naive_quantize if quantizing else naive_dequantize


def _library(
    case: Case, quantizing: bool, source: NDArray[Any], result: NDArray[Any]
) -> Kernel:
    parameters = case.parameters()
    function = quantize if quantizing else dequantize
    return lambda: function(source, parameters, out=result)


def _copy(elements: int) -> Kernel:
    """Read and write five bytes for each element."""
    source = np.ones(elements * 5 // 2, np.uint8)
    target = np.zeros_like(source)
    return lambda: np.copyto(target, source)


def _arrays(case: Case, quantizing: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the operand of a kernel, and an array for its result."""
    random = np.random.default_rng(1)
    expressed = random.standard_normal(case.shape, np.float32)
    stored = random.integers(-128, 128, case.shape, np.int8)
    if quantizing:
        return expressed, stored
    return stored, expressed


def _kernels(case: Case, quantizing: bool) -> dict[str, Kernel]:
    source, result = _arrays(case, quantizing)
    kernels = {
        "memcpy": _copy(source.size),
        **dict(_compiled(case, quantizing, source, result)),
        "numerics": _library(case, quantizing, source, result),
        "naive NumPy": _naive(case, quantizing, source, result),
    }
    kernels |= peers(case.parameters(), source, result, quantizing)
    return kernels


# Measuring


def _quotients(case: Case, quantizing: bool, rounds: int) -> dict[str, float]:
    """Return the time of each kernel as a multiple of a copy."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    seconds = in_turns(_kernels(case, quantizing), rounds)
    return {
        name: median(s / copy for s, copy in zip(times, seconds["memcpy"], strict=True))
        for name, times in seconds.items()
    }


def _extra_memory(case: Case, quantizing: bool) -> float:
    """Return the peak memory of `numerics` as a fraction of its operand."""
    source, result = _arrays(case, quantizing)
    kernel = _library(case, quantizing, source, result)
    kernel()
    tracemalloc.start()
    kernel()
    return tracemalloc.get_traced_memory()[1] / source.nbytes


def _interpreted_elements_per_second(fuse: bool, rounds: int) -> float:
    """Return the elements per second of a lowered quantization in the interpreter."""
    from xdsl_quant.machines.numpy import run_function
    from xdsl_quant.runtime.loading import apply_passes, parse_module

    case = Case("per-tensor", (_MEBI,))
    module = parse_module(_module(case, True, True))
    options = f"rounding-mode=nearest-even fuse={str(fuse).lower()}"
    pipeline = f"lower-quant-ops{{{options}}},strip-func-quant-types"
    apply_passes(module, pipeline)
    source, _ = _arrays(case, True)
    times = [
        seconds_of(lambda: run_function(module, "main", source)) for _ in range(rounds)
    ]
    return source.size / median(times)


# Report


def _rows(quotients: list[dict[str, float]]) -> Iterator[list[str]]:
    for name in max(quotients, key=len):
        if name != "memcpy":
            cells = [number(q[name]) if name in q else "-" for q in quotients]
            yield [name, *cells]


_PEERS = ("onnxruntime", "torch")

_LIMITS = {
    True: "The kernel divides every value and reads the scales of the blocks.",
    False: "Four fifths of the bytes are stores.",
}
"""Reason that limits compiled code: True for quantization, False for dequantization."""

_LIBRARY_LIMITS = {
    True: "NumPy reads and writes the array once for each step of the formula.",
    False: "NumPy converts i8 to f32; storing the product takes 1.3 times a copy.",
}
"""Reason that limits NumPy."""


def _copy_targets(
    operation: str, cases: list[Case], quotients: list[dict[str, float]], why: str
) -> Iterator[Target]:
    for case, quotient in zip(cases, quotients, strict=True):
        worst = max(quotient[name] for name in _COMPILED)
        claim = f"compiled {operation}, 16M, {case.name}: at most 1.1 times a copy"
        yield Target(claim, worst, 1.1, "x", why)


def _peer_targets(
    title: str, cases: list[Case], quotients: list[dict[str, float]], why: str
) -> Iterator[Target]:
    for case, quotient in zip(cases, quotients, strict=True):
        worst = max(quotient[name] for name in _COMPILED)
        if others := [quotient[name] for name in _PEERS if name in quotient]:
            claim = f"compiled {title}, {case.name}: at most 1.05 times the best peer"
            yield Target(claim, worst / min(others), 1.05, "x", why)


def _library_targets(
    operation: str,
    cases: list[Case],
    quotients: list[dict[str, float]],
    limit: float,
    quantizing: bool,
) -> Iterator[Target]:
    for case, quotient in zip(cases, quotients, strict=True):
        if case.shape[1:]:
            continue
        yield Target(
            f"numerics {operation}, 16M, {case.name}: at most {limit} times a copy",
            quotient["numerics"],
            limit,
            "x",
            _LIBRARY_LIMITS[quantizing],
        )
    yield Target(
        f"numerics {operation}, 16M: extra memory at most 5% of the operand's",
        100 * in_fresh_process(_extra_memory, cases[0], quantizing),
        5.0,
        "%",
    )


def _operation_report(
    options: Options, quantizing: bool, library_limit: float
) -> Iterator[str]:
    operation = "quantize" if quantizing else "dequantize"
    rounds = 1 if options.quick else 25
    for mebi in (1,) if options.quick else (1, 16):
        cases = list(_cases(mebi * _MEBI))[:: 3 if options.quick else 1]
        quotients = [
            in_fresh_process(_quotients, case, quantizing, rounds) for case in cases
        ]
        title = f"{operation}, {mebi}M"
        yield table(
            [f"{title} elements", *(case.name for case in cases)], _rows(quotients)
        )
        why = _LIMITS[quantizing]
        limits = [*_peer_targets(title, cases, quotients, why)]
        if mebi == 16:
            limits += _copy_targets(operation, cases, quotients, why)
            limits += _library_targets(
                operation, cases, quotients, library_limit, quantizing
            )
        yield targets(limits)


def report(options: Options) -> Iterator[str]:
    """Yield all tables and targets."""
    yield from _operation_report(options, True, 3.0)
    yield from _operation_report(options, False, 1.8)
    rounds = 1 if options.quick else 9
    speeds = {
        form: in_fresh_process(_interpreted_elements_per_second, fuse, rounds) / 1e6
        for form, fuse in (("elementwise", False), ("fused", True))
    }
    yield table(
        ["interpreted quantize, 1M elements", "million elements a second"],
        ([form, number(speed)] for form, speed in speeds.items()),
    )
    seconds = 1 / min(speeds.values())
    claim = "interpreter: a million elements in at most 0.05 s"
    yield targets([Target(claim, seconds, 0.05, " s")])


if __name__ == "__main__":
    main(__doc__, report)
