"""
Small models whose ops share values, compiled for each CPU level: `make fuzz`.

    python -m tests.oracles.graphs --seconds 600 --seed 1

Scheduling and fusion look at how ops use the results of others: sums of a product that are
used twice, gates, residuals, tables after products, results that become floats. The exit
code is 1 if compiled code fails or differs from the reference kernels of TensorFlow Lite.
`--first N --seconds 0` makes one model again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import count

from tests.cpus.foreign_code import foreign_code
from tests.unit.execution.other_cpus import (
    LoweredModule,
    ops_without_hash,
)
from tests.unit.frontends.tflite.files.litert_process import LiteRTProcess
from tests.unit.frontends.tflite.formulas.cases import Tensor
from xdsl_quant.execution import disk_cache
from xdsl_quant.execution.cpu import CPU_LEVELS, Cpu, available_cpus
from xdsl_quant.frontends.tflite import read_tflite

from .comparing import difference
from .drawing import Draw
from .networks import (
    Layer,
    Network,
    activation,
    concatenation,
    convolution,
    fully_connected,
    global_mean,
    one_of,
    pool,
    requantized,
    sigmoid,
    softmax,
    sum_of,
)

NAME = "GRAPH"
KINDS = "i8", "u8", "i16"

LEAST_OPS, MOST_OPS = 3, 8

LEVELS = [available_cpus()["native"], *CPU_LEVELS]
"""The CPUs for which models are compiled, whether this machine is one or not."""


def _product(net: Network, x: Tensor) -> Tensor:
    is_image = x.array.ndim == 4 and net.draw.chance(0.8)
    return net.ordinary((convolution if is_image else fully_connected)(net, x))


def _sum(net: Network, x: Tensor, y: Tensor) -> Tensor:
    return net.ordinary(sum_of(net, x, y))


def _function(net: Network, x: Tensor) -> Tensor:
    return (_sigmoid if net.draw.chance(0.5) else activation)(net, x)


def _sigmoid(net: Network, x: Tensor) -> Tensor:
    return sigmoid(net, x, net.draw.choice(("LOGISTIC", "TANH")))


def _gate(net: Network, x: Tensor) -> Tensor:
    """The sums of a product, combined with a function of themselves, once or twice."""
    y = _product(net, x)
    z = _sum(net, y, net.ordinary(_function(net, y)))
    return _sum(net, z, y) if net.draw.chance(0.7) else z


def _residual(net: Network, x: Tensor) -> Tensor:
    """A product that is added to another one, or to its operand."""
    y = _product(net, x)
    other = _product(net, x) if net.draw.chance(0.4) else x
    z = _sum(net, y, other)
    return (_product if net.draw.chance(0.4) else _function)(net, z)


def _floats(net: Network, x: Tensor) -> Tensor:
    """Floats that nothing else is computed from."""
    return net.op("DEQUANTIZE", [x], net.draw.result("f32"))


def _classifier(net: Network, x: Tensor) -> Tensor:
    return _floats(net, _sigmoid(net, _product(net, x)))


_FIRST: Sequence[Layer] = _gate, _gate, _residual, _residual, _product
_OTHERS: Sequence[Layer] = (
    *_FIRST,
    *(activation, sum_of, concatenation, requantized, softmax),
)
_IMAGES: Sequence[Layer] = pool, global_mean


def _layer(net: Network, x: Tensor) -> None:
    layers = _OTHERS if net.operators else _FIRST
    if net.operators and x.array.ndim == 4:
        layers = *layers, *_IMAGES
    one_of(net, x, layers)


def _end(net: Network, x: Tensor) -> None:
    one_of(net, x, (_floats, _classifier))


def graph(draw: Draw, process: LiteRTProcess) -> Network:
    """A random model of 3 to 8 ops, or a few more where a layer has several."""
    net = Network(draw, process, 1)
    shape = 1, draw.integer(2, 5), draw.integer(2, 5), draw.integer(1, 8)
    if draw.chance(0.4):
        shape = draw.integer(1, 5), draw.integer(2, 20)
    x = draw.quantized(shape, draw.scale())
    count = draw.integer(LEAST_OPS, MOST_OPS)
    for _ in range(4 * MOST_OPS):
        if len(net.operators) >= count:
            break
        net.attempt(_layer, net.ordinary(net.any_value()) if net.operators else x)
    if draw.chance(0.5):
        net.attempt(_end, net.ordinary(net.any_value()))
    return net


def _mismatch(net: Network, lowered: LoweredModule, cpu: Cpu) -> str | None:
    """
    How the code for a CPU differs from the reference kernels, if it does. Instructions that
    this machine lacks are emulated; code with tiles is only compiled.
    """
    is_here = cpu.name in available_cpus()
    try:
        with nullcontext() if is_here else foreign_code():
            function = lowered.compiled(cpu)
        if not is_here and cpu.has_tiles:
            return None
        results = function(*net.steps[0])
    # Whatever is raised is a mismatch of this model.
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    positions = [net.results.index(leaf) for leaf in net.leaves]
    expected = [net.expected[-1][position] for position in positions]
    return difference(results if len(expected) > 1 else [results], expected)


def mismatches(
    process: LiteRTProcess, cpus: Sequence[Cpu], seed: int, index: int
) -> list[str]:
    """How the code of one model for some CPUs differs from the reference kernels."""
    draw = Draw(NAME, KINDS[index % len(KINDS)], seed, index)
    net = graph(draw, process)
    lowered = LoweredModule(read_tflite(net.file(net.leaves)))
    return [
        f"{draw.name}, {cpu.name}: {text}"
        for cpu in cpus
        if (text := _mismatch(net, lowered, cpu))
    ]


def main(args: Sequence[str] | None = None) -> int:
    """Compare models until the time is over, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracles.graphs")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first model")
    options = parser.parse_args(args)
    os.environ[disk_cache.VARIABLE] = "off"
    # A step of scheduling that is left out is a mismatch.
    warnings.simplefilter("error", RuntimeWarning)
    end = time.monotonic() + options.seconds
    models = failures = 0
    with LiteRTProcess() as process, ops_without_hash():
        for index in count(options.first):
            for text in mismatches(process, LEVELS, options.seed, index):
                print(text, flush=True)
                failures += 1
            models += 1
            if time.monotonic() >= end:
                break
    print(f"{models} models on {len(LEVELS)} CPU levels, {failures} mismatches")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
