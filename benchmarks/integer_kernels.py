"""
Throughput of 8-bit matrix products and convolutions compared with onnxruntime and with
floats, and the time to verify StableHLO.

*Kernels*: a product of two 1024 x 1024 matrices, and a convolution of 56 x 56 pixels with
64 channels, a 3 x 3 window and 64 output channels. Activations have one scale and a zero
point, weights are constants with one scale per channel, and the result is requantized.
*integers* and *floats* are the same `stablehlo` op compiled by `xdsl_quant.execution`:
*integers* after `stablehlo-legalize-quant-to-integer`, *floats* after
`stablehlo-legalize-quantized-op-to-qdq`. *onnxruntime* is `QLinearMatMul` and
`QLinearConv`, with activations of `i8`, as in the other rows, and with `u8`. One thread
runs on one core. The kernels run alternately. *times* is the time divided by that of
*integers*: the median of the quotients of all rounds. A multiplication and an addition
count as two operations (OP).

*Products of two activations*, as in attention, are `tfl.batch_matmul` with zero points on
both operands. `QLinearMatMul` and `MatMulInteger`, which returns the sums, have
activations of `u8`.

*Layers* are the convolutions of the [models](#models), with random weights, as quantized
`tfl` ops and as `QLinearConv` with activations of `u8`. The results differ by at most one
unit.

*Verification* is the CPU time to verify a module of 20,000 quantized ops (100,000 with
`--all`), divided by the time to parse it without verification.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import Kernel, Timings, in_fresh_process, in_turns, measure
from benchmarks.models import MODELS, Layer
from benchmarks.peers import onnx_value, onnxruntime_kernel
from benchmarks.report import Options, Target, main, number, table, targets

# Kernels

_PASSES = {
    "integers": "stablehlo-legalize-quant-to-integer,convert-stablehlo-to-linalg",
    "floats": (
        "stablehlo-legalize-quantized-op-to-qdq,stablehlo-casts-to-quant,"
        "lower-quant-ops{rounding-mode=nearest-even},"
        "convert-stablehlo-to-linalg"
    ),
}

_INPUT_SCALE, _INPUT_ZERO_POINT = 0.02, 3
_RESULT_ZERO_POINT = -5


@dataclass(frozen=True)
class Case:
    """A matrix product, or a convolution with a window of 3 x 3."""

    size: int
    """Number of rows, or of pixels along each side."""

    channels: int
    """Channels of the input and of the result."""

    is_convolution: bool

    def __str__(self) -> str:
        name = "convolution" if self.is_convolution else "dot_general"
        return f"{name} {self.size} x {self.channels}"

    @property
    def operations(self) -> int:
        """Number of multiplications and additions."""
        rows = self.size**2 if self.is_convolution else self.size
        return 2 * rows * int(np.prod(self.weights.shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the input and of the result."""
        if self.is_convolution:
            return (1, self.size, self.size, self.channels)
        return (self.size, self.channels)

    @cached_property
    def weights(self) -> NDArray[np.int8]:
        """Stored weights; the output channels are the last dimension."""
        window = (3, 3) if self.is_convolution else ()
        shape = (*window, self.channels, self.channels)
        return np.random.default_rng(0).integers(-127, 128, shape, np.int8)

    @cached_property
    def scales(self) -> NDArray[np.float32]:
        """Scales of the weights."""
        random = np.random.default_rng(1)
        return random.uniform(0.001, 0.003, self.channels).astype(np.float32)

    @property
    def result_scale(self) -> float:
        """Scale of the result, for which the results cover the storage range."""
        return 0.005 * float(self.weights[..., 0].size ** 0.5)

    @cached_property
    def source(self) -> NDArray[np.int8]:
        """Return stored values of the input."""
        return np.random.default_rng(2).integers(-128, 128, self.shape, np.int8)

    def text(self) -> str:
        """Return the function `main` of a StableHLO module."""

        def tensor(shape: tuple[int, ...], element: str) -> str:
            return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"

        def activations(scale: float, zero_point: int) -> str:
            return tensor(self.shape, f"!quant.uniform<i8:f32, {scale}:{zero_point}>")

        scales = ",".join(map(repr, self.scales.tolist()))
        axis = self.weights.ndim - 1
        stored = tensor(self.weights.shape, "i8")
        weights = tensor(
            self.weights.shape,
            f"!quant.uniform<i8<-127:127>:f32:{axis}, {{{scales}}}>",
        )
        source = activations(_INPUT_SCALE, _INPUT_ZERO_POINT)
        result = activations(self.result_scale, _RESULT_ZERO_POINT)
        op = (
            "convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
            "window = {pad = [[1, 1], [1, 1]]} "
            "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}"
            if self.is_convolution
            else "dot_general %x, %w, contracting_dims = [1] x [0]"
        )
        return f"""
        func.func @main(%x: {source}) -> {result} {{
          %w = stablehlo.constant() <{{
            value = dense<"0x{self.weights.tobytes().hex()}"> : {stored}
          }}> : () -> {weights}
          %y = stablehlo.{op} : ({source}, {weights}) -> {result}
          return %y : {result}
        }}"""

    def onnx_model(self, offset: int) -> bytes:
        """Return the same for onnxruntime; adding `offset` converts activations to `u8`."""
        shape, weights, name = self.shape, self.weights, "QLinearMatMul"
        attributes: dict[str, Any] = {}
        if self.is_convolution:
            shape = (1, self.channels, self.size, self.size)
            weights = np.ascontiguousarray(weights.transpose(3, 2, 0, 1))
            name, attributes = "QLinearConv", {"pads": [1, 1, 1, 1]}
        constants = _onnx_constants(weights, self.scales, self.result_scale, offset)
        return _onnx_model(name, attributes, constants, shape, shape)


def _onnx_constants(
    weights: NDArray[np.int8],
    scales: NDArray[np.float32],
    result_scale: float,
    offset: int,
) -> Mapping[str, Any]:
    """Return the operands of an op after the first, with `offset` added to activations."""
    dtype = np.uint8 if offset else np.int8
    return {
        "source_scale": np.float32(_INPUT_SCALE),
        "source_zero_point": dtype(_INPUT_ZERO_POINT + offset),
        "weights": weights,
        "scales": scales,
        "zero_points": np.zeros(scales.size, np.int8),
        "result_scale": np.float32(result_scale),
        "result_zero_point": dtype(_RESULT_ZERO_POINT + offset),
    }


def _onnx_model(
    name: str,
    attributes: Mapping[str, Any],
    constants: Mapping[str, Any],
    source: Sequence[int],
    result: Sequence[int],
) -> bytes:
    """Return a model with a single op on activations of these shapes."""
    onnx: Any = import_module("onnx")
    dtype = constants["source_zero_point"].dtype
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(name, ["source", *constants], ["result"], **attributes)],
        "kernel",
        [onnx_value(onnx, "source", np.empty(source, dtype))],
        [onnx_value(onnx, "result", np.empty(result, dtype))],
        [
            onnx.numpy_helper.from_array(np.asarray(value), key)
            for key, value in constants.items()
        ],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10
    )
    return model.SerializeToString()


def _compiled(
    case: Case, passes: str, result: NDArray[np.int8], threads: int = 1
) -> Kernel:
    from xdsl_quant import execution
    from xdsl_quant.runtime.loading import apply_passes, parse_module

    module = parse_module(case.text())
    apply_passes(module, f"{passes},strip-func-quant-types,canonicalize")
    function = execution.compile(module, threads=threads)
    return lambda: function(case.source, out=result)


def _onnxruntime(case: Case, offset: int, result: NDArray[np.int8]) -> Kernel:
    source, stored = case.source.astype(np.int16) + offset, result
    if case.is_convolution:
        # onnxruntime expects channels before pixels.
        source, stored = (array.transpose(0, 3, 1, 2) for array in (source, stored))
    dtype = np.uint8 if offset else np.int8
    source = np.ascontiguousarray(source.astype(dtype))
    own_result = np.empty(source.shape, dtype)
    kernel = onnxruntime_kernel(case.onnx_model(offset), source, own_result)
    kernel()
    stored[...] = own_result.astype(np.int16) - offset
    return kernel


def _are_near(one: NDArray[np.int8], other: NDArray[np.int8]) -> bool:
    return int(np.abs(one.astype(np.int16) - other).max()) <= 1


def _check(results: Mapping[str, NDArray[np.int8]]) -> None:
    first, *others = results.values()
    if len(np.unique(first)) < 100:
        raise ValueError("results are nearly all the same")
    if not all(_are_near(first, other) for other in others):
        raise ValueError("kernels do not compute the same")


def _kernels(case: Case) -> dict[str, Kernel]:
    kernels: dict[str, Kernel] = {}
    results: dict[str, NDArray[np.int8]] = {}
    for name, passes in _PASSES.items():
        results[name] = np.empty(case.shape, np.int8)
        kernels[name] = _compiled(case, passes, results[name])
        kernels[name]()
    if find_spec("onnxruntime") and find_spec("onnx"):
        for storage, offset in (("i8", 0), ("u8", 128)):
            name = f"onnxruntime, {storage}"
            result = np.empty(case.shape, np.int8)
            kernel = _onnxruntime(case, offset, result)
            # Without VNNI, its sums of two products of u8 and i8 saturate at 16 bits, and
            # the results differ by up to 60.
            if offset and not _are_near(results["integers"], result):
                continue
            results[name], kernels[name] = result, kernel
    _check(results)
    return kernels


def _speeds(case: Case, rounds: int) -> dict[str, tuple[float, float]]:
    """Return GOP/s of each kernel, and its time as a multiple of *integers*."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    seconds = in_turns(_kernels(case), rounds)
    return {
        name: (
            case.operations / median(times) / 1e9,
            median(
                s / ours for s, ours in zip(times, seconds["integers"], strict=True)
            ),
        )
        for name, times in seconds.items()
    }


_LIMITS = {
    "integers": "matrix instructions (AMX) or groups of four 8-bit products (AVX-512 VNNI)",
    "floats": "multiplication and addition are separate instructions, for exact results",
    "onnxruntime, i8": "x86 multiplies `u8` by `i8`; other signs need more instructions",
    "onnxruntime, u8": "matrix instructions (AMX), if the processor has them",
}


def _kernel_report(options: Options) -> Iterator[str]:
    rounds = 3 if options.quick else 15
    cases = (
        [Case(256, 256, False), Case(28, 32, True)]
        if options.quick
        else [Case(1024, 1024, False), Case(56, 64, True)]
    )
    for case in cases:
        speeds = in_fresh_process(_speeds, case, rounds)
        yield table(
            [str(case), "GOP/s", "times", "limited by"],
            (
                [name, number(speed), f"{number(times)}x", _LIMITS[name]]
                for name, (speed, times) in speeds.items()
            ),
        )
        yield targets(
            Target(
                f"{case}: integers at most as long as {name}",
                1 / times,
                1.0,
                "x",
            )
            for name, (_, times) in speeds.items()
            if name != "integers"
        )
        if not case.is_convolution and (theirs := speeds.get("onnxruntime, u8")):
            yield targets(
                [
                    Target(
                        f"{case}: at most 1/1.3 of the time of onnxruntime, u8",
                        1 / theirs[1],
                        1 / 1.3,
                        "x",
                        "Without AMX, the same instruction limits both.",
                    )
                ]
            )
    if len(os.sched_getaffinity(0)) > 1:
        yield from _thread_report(cases[0], rounds)


def _thread_times(case: Case, rounds: int) -> float:
    """Return the time with one thread as a multiple of the time with two."""
    passes, results = _PASSES["integers"], [np.empty(case.shape, np.int8) for _ in "12"]
    kernels = {
        str(threads): _compiled(case, passes, result, threads)
        for threads, result in enumerate(results, 1)
    }
    for kernel in kernels.values():
        kernel()
    if not np.array_equal(results[0], results[1]):
        raise ValueError("two threads do not compute what one does")
    seconds = in_turns(kernels, rounds)
    return median(a / b for a, b in zip(seconds["1"], seconds["2"], strict=True))


def _thread_report(case: Case, rounds: int) -> Iterator[str]:
    times = in_fresh_process(_thread_times, case, rounds)
    claim = f"{case}: two threads at least 1.7 times as fast as one"
    yield f"{case} with two threads: {number(times)} times as fast as with one."
    yield targets([Target(claim, 1 / times, 1 / 1.7, "x")])


# Products of two activations


@dataclass(frozen=True)
class DynamicCase:
    """Products of matrices, neither of which is constant."""

    batch: int
    rows: int
    depth: int
    columns: int

    def __str__(self) -> str:
        return f"{self.batch} x {self.rows} x {self.depth} x {self.columns}"

    @property
    def operations(self) -> int:
        """Number of multiplications and additions."""
        return 2 * self.batch * self.rows * self.depth * self.columns

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Shapes of the factors and of the result."""
        batch, rows, depth, columns = self.batch, self.rows, self.depth, self.columns
        return (batch, rows, depth), (batch, depth, columns), (batch, rows, columns)

    @cached_property
    def sources(self) -> Sequence[NDArray[np.int8]]:
        """Return stored values of the factors."""
        random = np.random.default_rng(0)
        return [random.integers(-128, 128, s, np.int8) for s in self.shapes[:2]]

    @property
    def result_scale(self) -> float:
        """Scale of the result, for which the results cover the storage range."""
        return 0.03 * float(self.depth**0.5)

    def text(self) -> str:
        """Return the function `main` of a module of `tfl` ops."""
        scales = _INPUT_SCALE, _INPUT_SCALE, self.result_scale
        zero_points = _INPUT_ZERO_POINT, _INPUT_ZERO_POINT, _RESULT_ZERO_POINT
        lhs, rhs, result = (
            f"tensor<{'x'.join(map(str, shape))}x!quant.uniform<i8:f32, {scale}:{zero}>>"
            for shape, scale, zero in zip(self.shapes, scales, zero_points, strict=True)
        )
        return f"""
        func.func @main(%x: {lhs}, %y: {rhs}) -> {result} {{
          %z = "tfl.batch_matmul"(%x, %y) {{
            adj_x = false, adj_y = false, asymmetric_quantize_inputs = false
          }} : ({lhs}, {rhs}) -> {result}
          func.return %z : {result}
        }}"""

    def onnx_model(self, name: str, result: NDArray[Any]) -> bytes:
        """Return `QLinearMatMul` or `MatMulInteger` on activations of `u8`."""
        onnx: Any = import_module("onnx")
        constants: Mapping[str, Any] = {
            "scale": np.float32(_INPUT_SCALE),
            "zero_point": np.uint8(_INPUT_ZERO_POINT + 128),
            "result_scale": np.float32(self.result_scale),
            "result_zero_point": np.uint8(_RESULT_ZERO_POINT + 128),
        }
        inputs = ["source", "other", "zero_point", "zero_point"]
        if name == "QLinearMatMul":
            own = "scale", "zero_point"
            inputs = [
                "source",
                *own,
                "other",
                *own,
                "result_scale",
                "result_zero_point",
            ]
        factors = (np.empty(shape, np.uint8) for shape in self.shapes[:2])
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node(name, inputs, ["result"])],
            "kernel",
            [
                onnx_value(onnx, key, factor)
                for key, factor in zip(("source", "other"), factors, strict=True)
            ],
            [onnx_value(onnx, "result", result)],
            [
                onnx.numpy_helper.from_array(np.asarray(value), key)
                for key, value in constants.items()
                if key in inputs
            ],
        )
        model = onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10
        )
        return model.SerializeToString()


def _dynamic_kernels(case: DynamicCase) -> dict[str, Kernel]:
    from xdsl_quant import execution

    ours = np.empty(case.shapes[2], np.int8)
    kernels: dict[str, Kernel] = {
        "integers": execution.compile(case.text()).bind(*case.sources, out=ours)
    }
    kernels["integers"]()
    results = {"integers": ours}
    if find_spec("onnxruntime") and find_spec("onnx"):
        source, other = (
            (values.astype(np.int16) + 128).astype(np.uint8) for values in case.sources
        )
        for name, dtype in (("QLinearMatMul", np.uint8), ("MatMulInteger", np.int32)):
            result = np.empty(ours.shape, dtype)
            model = case.onnx_model(name, result)
            kernels[name] = onnxruntime_kernel(model, source, result, other)
            kernels[name]()
            if dtype == np.uint8:
                results[name] = (result.astype(np.int16) - 128).astype(np.int8)
    _check(results)
    return kernels


def _dynamic_speeds(case: DynamicCase, rounds: int) -> dict[str, float]:
    """Return GOP/s of each kernel."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    seconds = in_turns(_dynamic_kernels(case), rounds)
    return {name: case.operations / median(s) / 1e9 for name, s in seconds.items()}


def _dynamic_report(options: Options) -> Iterator[str]:
    rounds = 3 if options.quick else 15
    side = 256 if options.quick else 1024
    cases = DynamicCase(1, side, side, side), DynamicCase(12, 128, 64, 128)
    speeds = {case: in_fresh_process(_dynamic_speeds, case, rounds) for case in cases}
    for case, found in speeds.items():
        yield table(
            [f"products of two activations, {case}", "GOP/s", "times"],
            (
                [name, number(speed), f"{number(found['integers'] / speed)}x"]
                for name, speed in found.items()
            ),
        )


# Layers


@dataclass(frozen=True)
class LayerCase:
    """A convolution of a model."""

    layer: Layer

    def __str__(self) -> str:
        (height, width, channels), (h, w), (stride, _), features, is_depthwise = (
            self.layer
        )
        name = f"depthwise {h} x {w}" if is_depthwise else f"{h} x {w}"
        step = f", stride {stride}" if stride > 1 else ""
        return f"{name}, {height} x {width}, {channels} to {features}{step}"

    @property
    def groups(self) -> int:
        """Number of groups of channels."""
        return self.layer.channels if self.layer.is_depthwise else 1

    @property
    def result_shape(self) -> tuple[int, ...]:
        """Shape of the result: batch, height, width, channels."""
        (height, width, _), _, stride, features, _ = self.layer
        return (1, -(-height // stride[0]), -(-width // stride[1]), features)

    @property
    def operations(self) -> int:
        """Number of multiplications and additions."""
        depth = int(np.prod(self.weights.shape[1:]))
        return 2 * int(np.prod(self.result_shape)) * depth

    @cached_property
    def weights(self) -> NDArray[np.int8]:
        """Stored weights: output channels, window, channels of a group."""
        shape = (
            self.layer.channels,
            *self.layer.window,
            self.layer.shape[-1] // self.groups,
        )
        return np.random.default_rng(0).integers(-127, 128, shape, np.int8)

    @cached_property
    def scales(self) -> NDArray[np.float32]:
        """Scales of the weights."""
        random = np.random.default_rng(1)
        return random.uniform(0.001, 0.003, self.layer.channels).astype(np.float32)

    @property
    def result_scale(self) -> float:
        """Scale of the result, for which the results cover the storage range."""
        return 0.005 * float(self.weights[0].size ** 0.5)

    @cached_property
    def source(self) -> NDArray[np.int8]:
        """Return stored values of the input."""
        shape = (1, *self.layer.shape)
        return np.random.default_rng(2).integers(-128, 128, shape, np.int8)

    @property
    def padding(self) -> tuple[list[int], list[int]]:
        """Rows and columns of padding before and after the image."""
        sizes = zip(
            self.layer.shape[:2],
            self.result_shape[1:3],
            self.layer.window,
            self.layer.stride,
            strict=True,
        )
        totals = [
            max((result - 1) * stride + window - size, 0)
            for size, result, window, stride in sizes
        ]
        return [total // 2 for total in totals], [-(-total // 2) for total in totals]

    def text(self) -> str:
        """Return the function `main` of a module of `tfl` ops."""

        def tensor(shape: Sequence[int], element: str) -> str:
            return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"

        def constant(name: str, array: NDArray[np.integer], type_: str) -> str:
            bits = 8 * array.itemsize
            value = tensor(array.shape, f"i{bits}")
            data = f'dense<"0x{array.tobytes().hex()}"> : {value}'
            if not array.any():
                data = f"dense<0> : {value}"
            return (
                f'{name} = "tfl.pseudo_qconst"() '
                f"{{qtype = {type_}, value = {data}}} : () -> {type_}"
            )

        name, multiplier, array = "conv_2d", "", self.weights
        if self.layer.is_depthwise:
            name, multiplier = "depthwise_conv_2d", "depth_multiplier = 1 : i32, "
            array = np.ascontiguousarray(array.transpose(3, 1, 2, 0))
        axis = 3 if self.layer.is_depthwise else 0
        scales = ",".join(map(repr, self.scales.tolist()))
        products = ",".join(
            map(repr, (self.scales * np.float32(_INPUT_SCALE)).tolist())
        )
        weights = tensor(
            array.shape, f"!quant.uniform<i8<-127:127>:f32:{axis}, {{{scales}}}>"
        )
        count = self.layer.channels
        bias = tensor([count], f"!quant.uniform<i32:f32:0, {{{products}}}>")
        source = tensor(
            self.source.shape,
            f"!quant.uniform<i8:f32, {_INPUT_SCALE}:{_INPUT_ZERO_POINT}>",
        )
        result = tensor(
            self.result_shape,
            f"!quant.uniform<i8:f32, {self.result_scale}:{_RESULT_ZERO_POINT}>",
        )
        stride = self.layer.stride
        return f"""
        func.func @main(%x: {source}) -> {result} {{
          {constant("%w", array, weights)}
          {constant("%b", np.zeros(count, np.int32), bias)}
          %y = "tfl.{name}"(%x, %w, %b) {{{multiplier}
            dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32,
            stride_h = {stride[0]} : i32, stride_w = {stride[1]} : i32,
            padding = "SAME", fused_activation_function = "NONE"
          }} : ({source}, {weights}, {bias}) -> {result}
          func.return %y : {result}
        }}"""

    def onnx_model(self) -> bytes:
        """Return the same for onnxruntime, with activations of `u8`."""
        (before, behind), (height, width, channels) = self.padding, self.layer.shape
        _, *size, features = self.result_shape
        constants = _onnx_constants(
            np.ascontiguousarray(self.weights.transpose(0, 3, 1, 2)),
            self.scales,
            self.result_scale,
            128,
        )
        attributes = {
            "pads": [*before, *behind],
            "strides": [*self.layer.stride],
            "group": self.groups,
        }
        shapes = (1, channels, height, width), (1, features, *size)
        return _onnx_model("QLinearConv", attributes, constants, *shapes)


def _layer_kernels(case: LayerCase) -> dict[str, Kernel]:
    from xdsl_quant import execution
    from xdsl_quant.execution.cpu import cpu_named

    ours = np.empty(case.result_shape, np.int8)
    source = (case.source.astype(np.int16) + 128).astype(np.uint8)
    source = np.ascontiguousarray(source.transpose(0, 3, 1, 2))
    theirs = np.empty((1, ours.shape[3], *ours.shape[1:3]), np.uint8)
    kernels = {
        "ours": execution.compile(case.text()).bind(case.source, out=ours),
        "theirs": onnxruntime_kernel(case.onnx_model(), source, theirs),
    }
    for kernel in kernels.values():
        kernel()
    stored = theirs.transpose(0, 2, 3, 1).astype(np.int16) - 128
    # Without VNNI their sums saturate, as in `_kernels`.
    if cpu_named("native").vnni_bits:
        _check({"ours": ours, "theirs": stored.astype(np.int8)})
    return kernels


def _layer_speeds(
    layers: Sequence[Layer], rounds: int
) -> list[tuple[LayerCase, float, float]]:
    """Return the seconds of each layer, and those of onnxruntime as a multiple."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    found: list[tuple[LayerCase, float, float]] = []
    for case in map(LayerCase, layers):
        seconds = in_turns(_layer_kernels(case), rounds)
        pairs = zip(seconds["theirs"], seconds["ours"], strict=True)
        times = median(theirs / ours for theirs, ours in pairs)
        found.append((case, median(seconds["ours"]), times))
    return found


def _layer_report(options: Options) -> Iterator[str]:
    if not find_spec("onnxruntime") or not find_spec("onnx"):
        return
    for name, network in MODELS.items():
        layers = [*dict.fromkeys(network().layers)]
        layers = layers[-2:] if options.quick else layers
        results = in_fresh_process(_layer_speeds, layers, 3 if options.quick else 15)
        yield table(
            [f"layers of {name}", "us", "GOP/s", "onnxruntime u8, times as long"],
            (
                [
                    str(case),
                    number(1e6 * seconds),
                    number(case.operations / seconds / 1e9),
                    f"{number(times)}x",
                ]
                for case, seconds, times in results
            ),
        )
        yield targets(
            Target(
                f"{name}, {case}: at most as long as onnxruntime", 1 / times, 1.0, "x"
            )
            for case, _, times in results
        )


# Verification

_RULES = ("stablehlo", "tflite")


def _layers(ops: int, types: int) -> str:
    """Return a function of layers of five ops, with `types` types of weights."""
    lines: list[str] = []
    value, activation = "%x", "tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>"
    for i in range(ops // 5):
        scale = 0.25 + i % types / 2**20
        scales = ",".join([repr(scale)] * 4)
        weights = f"tensor<4x4x!quant.uniform<i8<-127:127>:f32:1, {{{scales}}}>>"
        scales = ",".join([repr(scale / 2)] * 4)
        sums = f"tensor<4x4x!quant.uniform<i32:f32:1, {{{scales}}}>>"
        lines += [
            f"%w{i} = stablehlo.constant() <{{value = dense<1> : tensor<4x4xi8>}}> : "
            f"() -> {weights}",
            f"%s{i} = stablehlo.dot_general {value}, %w{i}, contracting_dims = [1] x [0] "
            f": ({activation}, {weights}) -> {sums}",
            f"%b{i} = stablehlo.constant() <{{value = dense<1> : tensor<4x4xi32>}}> : "
            f"() -> {sums}",
            f"%a{i} = stablehlo.add %s{i}, %b{i} : ({sums}, {sums}) -> {sums}",
            f"%q{i} = stablehlo.uniform_quantize %a{i} : ({sums}) -> {activation}",
        ]
        value = f"%q{i}"
    body = "\n".join([*lines, f"return {value} : {activation}"])
    return f"func.func @main(%x: {activation}) -> {activation} {{\n{body}\n}}"


def _verification(ops: int, types: int) -> dict[str, float]:
    """Return the CPU seconds of parsing and of each verification."""
    from xdsl.parser import Parser

    from xdsl_quant.inspecting.verify_quant_constraints import (
        VerifyQuantConstraintsPass,
    )
    from xdsl_quant.runtime.loading import multiverse_context

    text = _layers(ops, types)

    def work(timings: Timings) -> None:
        context = multiverse_context()
        with timings.step("parse"):
            module = Parser(context, text).parse_module()
        with timings.step("op.verify()"):
            module.verify()
        for rules in _RULES:
            with timings.step(f"verify-quant-constraints, rules={rules}"):
                VerifyQuantConstraintsPass(rules).apply(context, module)

    return measure(work, 1).seconds


def _verification_report(options: Options) -> Iterator[str]:
    ops = 100_000 if options.all else 500 if options.quick else 20_000
    costs = {
        types: in_fresh_process(_verification, ops, types) for types in (1, ops // 10)
    }
    quotients = {
        step: [seconds[step] / seconds["parse"] for seconds in costs.values()]
        for step in costs[1]
        if step != "parse"
    }
    yield table(
        [
            f"{ops:,} ops, times parsing",
            *(f"types of weights: {types:,}" for types in costs),
        ],
        ([step, *map(number, cells)] for step, cells in quotients.items()),
    )
    yield targets(
        Target(f"{step}: at most as long as parsing", max(cells), 1.0, "x")
        for step, cells in quotients.items()
    )


def report(options: Options) -> Iterator[str]:
    """Yield all tables and targets."""
    yield from _kernel_report(options)
    yield from _dynamic_report(options)
    yield from _layer_report(options)
    yield from _verification_report(options)


if __name__ == "__main__":
    main(__doc__, report)
