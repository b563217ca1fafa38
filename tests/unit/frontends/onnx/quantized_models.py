"""Drawn models of quantized ops, in the QDQ form and as kernels of onnxruntime."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.random import Generator
from numpy.typing import DTypeLike
from onnx import helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.execution import compile
from xdsl_quant.frontends.onnx import read_onnx
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array

from .onnxruntime_results import runtime_results


@dataclass
class Graph:
    """A model under construction."""

    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list[onnx.ValueInfoProto])
    constants: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])
    arguments: dict[str, Array] = field(default_factory=dict[str, Array])

    def constant(self, array: Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def argument(self, array: Array) -> str:
        name = f"x{len(self.inputs)}"
        data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, data_type, array.shape))
        self.arguments[name] = array
        return name

    def node(
        self,
        op_type: str,
        operands: Sequence[str],
        result_count: int = 1,
        **attributes: Any,
    ) -> str:
        """Append a node, and return the name of its first result."""
        domain, _, op = op_type.rpartition(".")
        name = f"v{len(self.nodes)}"
        results = [name, *(f"{name}_{i}" for i in range(1, result_count))]
        node = helper.make_node(op, operands, results, domain=domain, **attributes)
        self.nodes.append(node)
        return name

    def model(
        self,
        shape: Sequence[int] | None = None,
        dtype: DTypeLike = np.float32,
        opset: int = 21,
    ) -> bytes:
        """
        Return the bytes of the model, whose result is that of the last node. onnxruntime
        needs neither its shape nor its type.
        """
        result = self.nodes[-1].output[0]
        output = onnx.ValueInfoProto(name=result)
        if shape is not None:
            data_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
            output = helper.make_tensor_value_info(result, data_type, shape)
        graph = helper.make_graph(
            self.nodes, "graph", self.inputs, [output], self.constants
        )
        domains = {node.domain for node in self.nodes}
        opsets = {"com.microsoft": 1} | dict.fromkeys(domains, 1) | {"": opset}
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid(*pair) for pair in opsets.items()],
            ir_version=13 if opset > 24 else 10,
        )
        return model.SerializeToString()


def check_graph(
    graph: Graph,
    *,
    opset: int = 21,
    rtol: float = 0,
    units: int = 0,
    is_compiled: bool = False,
) -> ModuleOp:
    """
    Compare a model, interpreted or compiled, with onnxruntime, and return its module.

    Args:
        graph: the graph.
        opset: version of ONNX's ops.
        rtol: tolerance of floats, relative to the largest one.
        units: tolerance of integers.
        is_compiled: whether to compile the module, not only to interpret it.
    """
    arguments = graph.arguments
    (expected,) = runtime_results(graph.model(opset=opset), arguments)
    module = read_onnx(graph.model(expected.shape, expected.dtype, opset))
    results = [*run_function(module, None, *arguments.values())]
    if is_compiled:
        results.append(compile(module)(*arguments.values()))
    for result in results:
        found = np.asarray(result)
        assert found.dtype.itemsize == expected.dtype.itemsize
        if found.dtype.kind == "i":
            # Integers without sign have signless types.
            found = found.view(expected.dtype)
        atol = float(rtol and rtol * np.abs(expected).max()) or units
        np.testing.assert_allclose(
            found.astype(np.float64), expected.astype(np.float64), 0, atol
        )
    return module


@dataclass
class Operand:
    """Stored values with scales and zero points."""

    stored: Array
    scale: Array
    zero_point: Array | None
    axis: int = 0
    is_constant: bool = False

    def names(self, graph: Graph) -> Sequence[str]:
        """Return the names of stored values, scale and zero point."""
        add = graph.constant if self.is_constant else graph.argument
        zero = self.zero_point
        zero_point = "" if zero is None else graph.constant(zero)
        return add(self.stored), graph.constant(self.scale), zero_point


def integer_info(dtype: DTypeLike) -> "np.iinfo[Any]":
    """Return the bounds of an integer dtype."""
    return np.iinfo(np.dtype(dtype).name)


def scale(rng: Generator, shape: Sequence[int] = ()) -> Array:
    """Draw scales; those of a few decimal digits and powers of two give ties."""
    values = rng.uniform(0.003, 0.2, shape)
    kind = rng.integers(3)
    if kind == 0:
        values = np.round(values + 0.005, 2)
    elif kind == 1:
        values = 2.0 ** rng.integers(-8, -2, shape)
    return np.asarray(values, np.float32)


def activation(rng: Generator, shape: Sequence[int], dtype: DTypeLike) -> Operand:
    """Draw an argument with one scale and zero point."""
    info = integer_info(dtype)
    stored = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    zero_point = np.array(rng.integers(info.min, info.max + 1), dtype)
    return Operand(stored, scale(rng), zero_point)


def weights(
    rng: Generator, shape: Sequence[int], axis: int, dtype: DTypeLike = np.int8
) -> Operand:
    """Draw constant weights of 7 bits, with scales per tensor or per axis."""
    # Kernels of onnxruntime for AVX2 saturate sums of products of wider weights.
    stored = rng.integers(-64, 65, shape)
    zero = 0
    if np.dtype(dtype).kind == "u":
        stored, zero = stored + 128, 128
    sizes = (shape[axis],) if rng.integers(2) else ()
    zero_point = np.full(sizes, zero, dtype)
    return Operand(stored.astype(dtype), scale(rng, sizes), zero_point, axis, True)


def bias(rng: Generator, x: Operand, y: Operand, count: int) -> Operand:
    """Draw a bias whose scale is the product of those of the operands."""
    stored = rng.integers(-20000, 20000, count).astype(np.int32)
    factor = np.broadcast_to(x.scale * y.scale, count).astype(np.float32)
    return Operand(stored, factor, None, 0, True)


@dataclass
class Drawn:
    """An op on quantized operands."""

    op_type: str
    operands: Sequence[Operand]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])


Draw = Callable[[Generator, DTypeLike], Drawn]


def _conv(rng: Generator, dtype: DTypeLike) -> Drawn:
    group = int(rng.choice([1, 1, 2]))
    x = activation(rng, (1, 8, 20, 20), dtype)
    w = weights(rng, (16, 8 // group, 3, 3), 0)
    operands = [x, w]
    if rng.integers(2):
        operands.append(bias(rng, x, w, 16))
    pads = [int(n) for n in rng.integers(0, 2, 4)]
    return Drawn("Conv", operands, {"group": group, "pads": pads})


def _mat_mul(rng: Generator, dtype: DTypeLike) -> Drawn:
    x = activation(rng, (160, 64), dtype)
    return Drawn("MatMul", [x, weights(rng, (64, 32), 1)])


def _gemm(rng: Generator, dtype: DTypeLike) -> Drawn:
    x = activation(rng, (160, 64), dtype)
    is_transposed = int(rng.integers(2))
    shape = (32, 64) if is_transposed else (64, 32)
    w = weights(rng, shape, 1 - is_transposed)
    operands = [x, w]
    if rng.integers(2):
        operands.append(bias(rng, x, w, 32))
    return Drawn("Gemm", operands, {"transB": is_transposed})


def _binary(op_type: str, rng: Generator, dtype: DTypeLike) -> Drawn:
    shape = ((50, 100), (100,), (50, 1))[rng.integers(3)]
    x, y = activation(rng, (50, 100), dtype), activation(rng, shape, dtype)
    return Drawn(op_type, [x, y])


def _unary(op_type: str, rng: Generator, dtype: DTypeLike, **attributes: Any) -> Drawn:
    return Drawn(op_type, [activation(rng, (50, 100), dtype)], attributes)


def _leaky_relu(rng: Generator, dtype: DTypeLike) -> Drawn:
    return _unary("LeakyRelu", rng, dtype, alpha=float(rng.uniform(0.01, 0.5)))


def _softmax(rng: Generator, dtype: DTypeLike) -> Drawn:
    return _unary("Softmax", rng, dtype, axis=int(rng.integers(2)))


def _average_pool(rng: Generator, dtype: DTypeLike) -> Drawn:
    x = activation(rng, (1, 16, 38, 38), dtype)
    attributes = {
        "kernel_shape": [3, 3],
        "strides": [2, 2],
        "pads": [int(n) for n in rng.integers(0, 2, 4)],
        "count_include_pad": int(rng.integers(2)),
    }
    return Drawn("AveragePool", [x], attributes)


def _global_average_pool(rng: Generator, dtype: DTypeLike) -> Drawn:
    return Drawn("GlobalAveragePool", [activation(rng, (50, 100, 5, 5), dtype)])


def _max_pool(rng: Generator, dtype: DTypeLike) -> Drawn:
    x = activation(rng, (1, 16, 20, 20), dtype)
    return Drawn("MaxPool", [x], {"kernel_shape": [3, 3], "pads": [0, 1, 0, 1]})


def _concat(rng: Generator, dtype: DTypeLike) -> Drawn:
    operands = [activation(rng, (50, size), dtype) for size in (30, 50, 20)]
    return Drawn("Concat", operands, {"axis": 1})


DRAWS: Mapping[str, Draw] = {
    "Add": lambda rng, dtype: _binary("Add", rng, dtype),
    "AveragePool": _average_pool,
    "Concat": _concat,
    "Conv": _conv,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average_pool,
    "LeakyRelu": _leaky_relu,
    "MatMul": _mat_mul,
    "MaxPool": _max_pool,
    "Mul": lambda rng, dtype: _binary("Mul", rng, dtype),
    "Relu": lambda rng, dtype: _unary("Relu", rng, dtype),
    "Sigmoid": lambda rng, dtype: _unary("Sigmoid", rng, dtype),
    "Softmax": _softmax,
    "Transpose": lambda rng, dtype: _unary("Transpose", rng, dtype, perm=[1, 0]),
}
"""Draws of ops on quantized operands, by op."""

KERNELS: Mapping[str, str] = {
    "Conv": "QLinearConv",
    "Gemm": "com.microsoft.QGemm",
    "MatMul": "QLinearMatMul",
    **{
        op: f"com.microsoft.QLinear{op}"
        for op in (
            "Add AveragePool Concat GlobalAveragePool LeakyRelu Mul Sigmoid Softmax".split()
        )
    },
}
"""Kernels with the same operands, by op."""


EXACT = {"Add", "Concat", "LeakyRelu", "MaxPool", "Mul", "Relu", "Transpose"}
"""Ops whose floats are rounded alike, so that integers after casts are equal."""


def quantized_graph(
    drawn: Drawn, rng: Generator, dtype: DTypeLike, *, is_kernel: bool = False
) -> Graph:
    """
    Return a graph whose result is stored values: a float op between casts, or the kernel of
    onnxruntime with the same operands.
    """
    graph = Graph()
    names = [operand.names(graph) for operand in drawn.operands]
    values = [
        graph.node(
            "DequantizeLinear", triple if triple[2] else triple[:2], axis=operand.axis
        )
        for operand, triple in zip(drawn.operands, names, strict=True)
    ]
    result = graph.node(drawn.op_type, values, **drawn.attributes)
    (y,) = runtime_results(graph.model(), graph.arguments)
    triple = _result_parameters(graph, rng, y, dtype)
    if not is_kernel:
        graph.node("QuantizeLinear", [result, *triple])
    else:
        graph.nodes = []
        # `opset` is the version of Softmax.
        attributes = dict(drawn.attributes)
        if drawn.op_type == "Softmax":
            attributes["opset"] = 21
        operands = _kernel_operands(drawn.op_type, names, triple)
        graph.node(KERNELS[drawn.op_type], operands, **attributes)
    return graph


def _result_parameters(
    graph: Graph, rng: Generator, y: Array, dtype: DTypeLike
) -> Sequence[str]:
    """Draw a scale and zero point with which a few results saturate."""
    info = integer_info(dtype)
    low, high = min(float(y.min()), 0), max(float(y.max()), 0)
    span = high - low or 1.0
    steps = span / (info.max - info.min) * rng.uniform(0.9, 1.3)
    if rng.integers(2):
        # Powers of two give ties.
        steps = 2.0 ** round(math.log2(steps))
    zero_point = min(max(round(info.min - low / steps), info.min), info.max)
    values = np.array(steps, np.float32), np.array(zero_point, dtype)
    return [graph.constant(value) for value in values]


def _kernel_operands(
    op_type: str, names: Sequence[Sequence[str]], result: Sequence[str]
) -> Sequence[str]:
    flat = [name for triple in names for name in triple]
    match op_type:
        case "Conv":
            return [*flat[:6], *result, *flat[6:7]]
        case "Gemm":
            return [*flat[:6], flat[6] if len(flat) > 6 else "", *result]
        case "Concat":
            return [*result, *flat]
        case _:
            return [*flat, *result]


# Casts and kernels with other results


def _stored(rng: Generator, shape: Sequence[int], dtype: DTypeLike) -> Array:
    info = integer_info(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def _cast_parameters(
    graph: Graph, rng: Generator, dtype: DTypeLike
) -> tuple[Sequence[str], Mapping[str, int]]:
    """Draw parameters for values of shape 50x100, constants or arguments."""
    choices: Sequence[tuple[Sequence[int], Mapping[str, int]]] = (
        ((), {}),
        ((50,), {"axis": 0}),
        ((100,), {"axis": -1}),
        ((50, 7), {"axis": 1, "block_size": 16}),
        ((13, 100), {"axis": 0, "block_size": 4}),
    )
    sizes, attributes = choices[rng.integers(len(choices))]
    add = graph.constant if rng.integers(4) else graph.argument
    names = [add(scale(rng, sizes))]
    if rng.integers(4):
        names.append(add(_stored(rng, sizes, dtype)))
    return names, attributes


def _quantize(rng: Generator, dtype: DTypeLike) -> Graph:
    graph = Graph()
    x = rng.normal(0, 10.0 ** rng.integers(-1, 3), (50, 100)).astype(np.float32)
    names, attributes = _cast_parameters(graph, rng, dtype)
    if len(names) == 1:
        data_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        attributes = {**attributes, "output_dtype": data_type}
    graph.node("QuantizeLinear", [graph.argument(x), *names], **attributes)
    return graph


def _dequantize(rng: Generator, dtype: DTypeLike) -> Graph:
    graph = Graph()
    x = graph.argument(_stored(rng, (50, 100), dtype))
    names, attributes = _cast_parameters(graph, rng, dtype)
    graph.node("DequantizeLinear", [x, *names], **attributes)
    return graph


def _dynamic_quantize(rng: Generator, dtype: DTypeLike) -> Graph:
    graph = Graph()
    x = rng.normal(rng.normal(), 10.0 ** rng.integers(-3, 4), 5000).astype(np.float32)
    graph.node("DynamicQuantizeLinear", [graph.argument(x)], 3)
    return graph


def _mat_mul_integer(rng: Generator, dtype: DTypeLike) -> Graph:
    graph = Graph()
    x, y = activation(rng, (160, 64), dtype), weights(rng, (64, 32), 1)
    (x_name, _, x_zero_point), (y_name, _, y_zero_point) = (
        x.names(graph),
        y.names(graph),
    )
    graph.node("MatMulInteger", [x_name, y_name, x_zero_point, y_zero_point])
    return graph


def _conv_integer(rng: Generator, dtype: DTypeLike) -> Graph:
    graph = Graph()
    x = activation(rng, (1, 8, 20, 20), np.uint8)
    y = weights(rng, (16, 8, 3, 3), 0)
    (x_name, _, x_zero_point), (y_name, *_) = x.names(graph), y.names(graph)
    graph.node("ConvInteger", [x_name, y_name, x_zero_point], pads=[1, 0, 1, 0])
    return graph


CASTS: Mapping[str, Callable[[Generator, DTypeLike], Graph]] = {
    "ConvInteger": _conv_integer,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "MatMulInteger": _mat_mul_integer,
    "QuantizeLinear": _quantize,
}
"""Draws of graphs of one op whose result is exact, by op."""
