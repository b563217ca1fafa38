"""
Time to dequantize weights in blocks of 4 bits, compared with `memcpy`, and to multiply
them by a vector, compared with onnxruntime.

*Dequantize* is a compiled `quant.dcast` from a
[`!quant.block_scaled`](../reference/formats.md#block-scaled-type) type to `f32`, for
4096 x 4096 values. Each code is a byte, and the results are written to an existing array.
A call checks that all codes have 4 bits. *memcpy* is a copy of the results by NumPy.

*Product* multiplies 4096 x 4096 constant weights by a vector of `f32`: `quant.dcast` and
`stablehlo.dot_general`, after `convert-stablehlo-to-linalg,quant-split-reductions`. No
float array of the size of the weights is allocated. *onnxruntime* is `MatMulNBits` with
blocks of 32 weights of 4 bits: with `accuracy_level` 0, which computes in `f32` as this
package does, and with `accuracy_level` 4, which first quantizes the vector to 8 bits.

One thread runs on one core. All kernels run in random order; a cell is the median of all
rounds.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from statistics import median
from typing import Any

import numpy as np

from benchmarks.measuring import Kernel, in_turns
from benchmarks.peers import onnxruntime_kernel
from benchmarks.report import Options, Target, cpu, main, number, ratio, table, targets
from xdsl_quant.execution import CompiledFunction, compile
from xdsl_quant.numerics.formats import FORMATS, BlockScaled
from xdsl_quant.numerics.formats.format_types import block_scaled_type
from xdsl_quant.runtime.loading import apply_passes, parse_module

DEQUANTIZED = ("MXFP4", "NVFP4", "NF4", "Q4_0", "Q4_1", "Q4_K", "GPTQ", "AWQ")
"""The formats with elements of 4 bits."""

MULTIPLIED = ("Q4_0", "MXFP4")


def stored_weights(name: str, size: int) -> BlockScaled:
    """Return random weights; K-quants are slow to quantize, so they repeat some rows."""
    rng = np.random.default_rng(0)
    rows = size // 16 if name.endswith("_K") else size
    weights = rng.normal(size=(rows, size)).astype(np.float32)
    return FORMATS[name].quantize(np.tile(weights, (size // rows, 1)))


def dequantization(stored: BlockScaled) -> CompiledFunction:
    """Compile a function from codes to floats."""
    rows, columns = stored.codes.shape
    codes = f"tensor<{rows}x{columns}x{block_scaled_type(stored)}>"
    floats = f"tensor<{rows}x{columns}xf32>"
    return compile(f"""
        func.func @main(%q: {codes}) -> {floats} {{
          %x = quant.dcast %q : {codes} to {floats}
          return %x : {floats}
        }}""")


def product(stored: BlockScaled) -> CompiledFunction:
    """Compile a function that multiplies constant weights by a vector."""
    rows, columns = stored.codes.shape
    type_ = block_scaled_type(stored)
    numbers, codes, weights, vector, result = (
        f"tensor<{each}>"
        for each in (
            f"{rows}x{columns}x{type_.stored_type}",
            f"{rows}x{columns}x{type_}",
            f"{rows}x{columns}xf32",
            f"{columns}xf32",
            f"{rows}xf32",
        )
    )
    data = (stored.codes.view(np.uint8) & 15).tobytes().hex()
    module = parse_module(f"""
        func.func @main(%x: {vector}) -> {result} {{
          %c = arith.constant dense<"0x{data}"> : {numbers}
          %q = quant.scast %c : {numbers} to {codes}
          %w = quant.dcast %q : {codes} to {weights}
          %y = stablehlo.dot_general %w, %x, contracting_dims = [1] x [0]
            : ({weights}, {vector}) -> {result}
          return %y : {result}
        }}""")
    apply_passes(module, "convert-stablehlo-to-linalg,quant-split-reductions")
    return compile(module)


def dequantizations(size: int) -> Mapping[str, Kernel]:
    """Return the kernels of the first table."""
    source = np.ones((size, size), np.float32)
    result = np.empty_like(source)
    kernels: dict[str, Kernel] = {"memcpy": lambda: np.copyto(result, source)}
    for name in DEQUANTIZED:
        stored = stored_weights(name, size)
        function, codes = dequantization(stored), stored.codes
        function(codes, out=result)
        np.testing.assert_array_equal(result, stored.dequantize())
        kernels[name] = lambda f=function, c=codes: f(c, out=result)
    return kernels


def products(size: int) -> Mapping[str, Kernel]:
    """Return the kernels of the second table."""
    vector = np.random.default_rng(1).normal(size=size).astype(np.float32)
    result = np.empty(size, np.float32)
    kernels: dict[str, Kernel] = {}
    for name in MULTIPLIED:
        stored = stored_weights(name, size)
        function = product(stored)
        expected = stored.dequantize().astype(np.float64) @ vector
        np.testing.assert_allclose(function(vector), expected, 0, 1e-3)
        kernels[name] = lambda f=function: f(vector, out=result)
    for level in (0, 4):
        model = _matmul_n_bits(size, level)
        kernels[f"onnxruntime, {level}"] = onnxruntime_kernel(
            model, vector[np.newaxis], np.empty((1, size), np.float32)
        )
    return kernels


def _matmul_n_bits(size: int, accuracy_level: int) -> bytes:
    """Return a model with random weights."""
    helper, types = import_module("onnx.helper"), import_module("onnx").TensorProto
    rng = np.random.default_rng(2)
    packed = rng.integers(0, 256, (size, size // 32, 16), np.uint8)
    scales = rng.normal(size=size * size // 32).astype(np.float32)
    node = helper.make_node(
        "MatMulNBits",
        ["source", "weights", "scales"],
        ["result"],
        domain="com.microsoft",
        K=size,
        N=size,
        bits=4,
        block_size=32,
        accuracy_level=accuracy_level,
    )
    values = [
        helper.make_tensor_value_info(name, types.FLOAT, [1, size])
        for name in ("source", "result")
    ]
    constants = [
        helper.make_tensor(name, type_, array.shape, array.tobytes(), raw=True)
        for name, type_, array in (
            ("weights", types.UINT8, packed),
            ("scales", types.FLOAT, scales),
        )
    ]
    graph = helper.make_graph([node], "graph", values[:1], values[1:], constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model: Any = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return model.SerializeToString()


def report(options: Options) -> Iterator[str]:
    """Yield the tables of this benchmark."""
    size, rounds = (512, 3) if options.quick else (4096, 21)
    yield f"CPU: {cpu()}."
    times = _medians(dequantizations(size), rounds)
    header = ["dequantize", "ms", "times a memcpy"]
    yield table(header, _rows(times, "memcpy"))
    yield targets(
        Target(
            f"{name}: at most 1.2 times a memcpy",
            seconds / times["memcpy"],
            1.2,
            "x",
        )
        for name, seconds in times.items()
        if name != "memcpy"
    )
    times = _medians(products(size), rounds)
    theirs = "onnxruntime, 0"
    yield table(["product", "ms", "times onnxruntime, 0"], _rows(times, theirs))
    yield targets(
        Target(f"{name}: at most as long", times[name] / times[theirs], 1.0, "x")
        for name in MULTIPLIED
    )


def _medians(kernels: Mapping[str, Kernel], rounds: int) -> Mapping[str, float]:
    seconds = in_turns(kernels, rounds)
    return {name: median(each) for name, each in seconds.items()}


def _rows(times: Mapping[str, float], divisor: str) -> Iterator[list[str]]:
    for name, seconds in times.items():
        yield [name, number(1e3 * seconds), ratio(seconds, times[divisor])]


if __name__ == "__main__":
    main(__doc__, report)
