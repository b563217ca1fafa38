"""Conversion of TensorFlow Lite ops to ONNX's quantized ops, for onnxruntime."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from xdsl.dialects.builtin import FloatAttr, NoneType, ShapedType, StringAttr
from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects.quant.types import (
    StoredQuantizedType,
    UniformType,
    scalar_or_element_type,
)
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.formulas.quantized import activation_bounds
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import constant_elements, stored_elements

from .inputs import parameters_of_type
from .runtimes import Unavailable

_CONTRIB = "com.microsoft"
"""Domain of onnxruntime's own ops."""


class _Graph:
    """Builder of an ONNX model for one op."""

    def __init__(self, op: Operation):
        self.op = op
        self._onnx = import_module("onnx")
        self._nodes: list[object] = []
        self._constants: list[object] = []

    def node(
        self, name: str, inputs: Sequence[str], domain: str = "", **attributes: object
    ) -> str:
        """Add a node with one result, and return the name of the result."""
        result = f"t{len(self._nodes)}"
        make = self._onnx.helper.make_node
        node = make(name, [*inputs], [result], domain=domain, **attributes)
        self._nodes.append(node)
        return result

    def constant(self, values: ArrayLike, dtype: DTypeLike) -> str:
        """Add a constant, and return its name."""
        name = f"c{len(self._constants)}"
        array = np.asarray(values).astype(dtype)
        self._constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def scale_and_zero_point(self, value: SSAValue) -> Sequence[str]:
        """Add constants with the scale and zero point of a value."""
        parameters = parameters_of_type(value.type)
        return (
            self.constant(parameters.scales, np.float32),
            self.constant(parameters.zero_points, parameters.storage_dtype),
        )

    def model(self, result: str) -> bytes:
        """Return the model; its inputs are the non-constant operands of the op."""
        helper = self._onnx.helper
        inputs = [
            helper.make_tensor_value_info(f"x{index}", self._type(value), None)
            for index, value in enumerate(self.op.operands)
            if is_argument(value)
        ]
        output = helper.make_tensor_value_info(
            result, self._type(self.op.results[0]), None
        )
        graph = helper.make_graph(self._nodes, "op", inputs, [output], self._constants)
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid(_CONTRIB, 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return model.SerializeToString()

    def _type(self, value: SSAValue) -> int:
        is_quantized = isinstance(scalar_or_element_type(value.type), UniformType)
        dtype = (
            parameters_of_type(value.type).storage_dtype if is_quantized else np.float32
        )
        return self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def is_argument(value: SSAValue) -> bool:
    """Return True if an operand is neither constant nor absent."""
    return not isinstance(value.type, NoneType) and constant_elements(value) is None


def _qlinear_elementwise(name: str) -> Callable[[_Graph], str]:
    def build(graph: _Graph) -> str:
        inputs: list[str] = []
        for index, value in enumerate(graph.op.operands):
            inputs += [f"x{index}", *graph.scale_and_zero_point(value)]
        inputs += graph.scale_and_zero_point(graph.op.results[0])
        alpha = graph.op.properties.get("alpha")
        attributes: dict[str, object] = {}
        if isinstance(alpha, FloatAttr):
            attributes["alpha"] = alpha.value.data
        return graph.node(name, inputs, _CONTRIB, **attributes)

    return build


def _qdq(graph: _Graph) -> str:
    """Build `DequantizeLinear`, `QuantizeLinear` or both."""
    value, (operand,), (result,) = "x0", graph.op.operands, graph.op.results
    for name, typed in (("DequantizeLinear", operand), ("QuantizeLinear", result)):
        if isinstance(scalar_or_element_type(typed.type), UniformType):
            value = graph.node(name, [value, *graph.scale_and_zero_point(typed)])
    return value


def _constant_weights(value: SSAValue) -> Array:
    elements, element = constant_elements(value), scalar_or_element_type(value.type)
    if elements is None or not isinstance(element, StoredQuantizedType):
        raise Unavailable("expected constant weights")
    return stored_elements(elements, element)


def _constant_bias(value: SSAValue, count: int) -> Array:
    elements = None
    if (
        not isinstance(value.type, NoneType)
        and (elements := constant_elements(value)) is None
    ):
        raise Unavailable("expected a constant bias")
    if elements is None:
        return np.zeros(count, np.int32)
    if elements.dtype.itemsize > 4:
        raise Unavailable("unsupported 64-bit bias")
    return elements.ravel()


def _qlinear_conv(graph: _Graph) -> str:
    op = graph.op
    assert isinstance(op, tfl.Conv2DOp | tfl.DepthwiseConv2DOp)
    weights = _constant_weights(op.filter)
    assert isinstance(op.input.type, ShapedType)
    channels = op.input.type.get_shape()[3]
    if isinstance(op, tfl.DepthwiseConv2DOp):
        weights, groups = weights.transpose(3, 0, 1, 2), channels
    else:
        weights = weights.transpose(0, 3, 1, 2)
        groups = channels // weights.shape[1]
    inputs = [
        graph.node("Transpose", ["x0"], perm=[0, 3, 1, 2]),
        *graph.scale_and_zero_point(op.input),
        graph.constant(weights, weights.dtype),
        *graph.scale_and_zero_point(op.filter),
        *graph.scale_and_zero_point(op.output),
        graph.constant(_constant_bias(op.bias, weights.shape[0]), np.int32),
    ]
    result = graph.node(
        "QLinearConv",
        inputs,
        auto_pad="SAME_UPPER" if op.padding.data == "SAME" else "VALID",
        strides=[op.stride_h.value.data, op.stride_w.value.data],
        dilations=[op.dilation_h_factor.value.data, op.dilation_w_factor.value.data],
        group=groups,
    )
    return graph.node("Transpose", [result], perm=[0, 2, 3, 1])


def _qgemm(graph: _Graph) -> str:
    op = graph.op
    assert isinstance(op, tfl.FullyConnectedOp)
    weights = _constant_weights(op.filter)
    shape = graph.constant([-1, weights.shape[1]], np.int64)
    inputs = [
        graph.node("Reshape", ["x0", shape]),
        *graph.scale_and_zero_point(op.input),
        graph.constant(weights, weights.dtype),
        *graph.scale_and_zero_point(op.filter),
        graph.constant(_constant_bias(op.bias, weights.shape[0]), np.int32),
        *graph.scale_and_zero_point(op.results[0]),
    ]
    return graph.node("QGemm", inputs, _CONTRIB, transB=1)


_BUILDERS: Mapping[str, Callable[[_Graph], str]] = {
    "tfl.add": _qlinear_elementwise("QLinearAdd"),
    "tfl.mul": _qlinear_elementwise("QLinearMul"),
    "tfl.logistic": _qlinear_elementwise("QLinearSigmoid"),
    "tfl.leaky_relu": _qlinear_elementwise("QLinearLeakyRelu"),
    "tfl.quantize": _qdq,
    "tfl.dequantize": _qdq,
    "tfl.conv_2d": _qlinear_conv,
    "tfl.depthwise_conv_2d": _qlinear_conv,
    "tfl.fully_connected": _qgemm,
}


def onnx_model(op: Operation) -> tuple[bytes, tuple[float, float]]:
    """
    Return an ONNX model with the equivalent op (up to rounding), and bounds to which
    the caller must clamp its results, as onnxruntime has no fused activations.

    Args:
        op: op with 8-bit storage types; its operands are arguments and constants.

    Raises:
        Unavailable: if there is no equivalent op.
    """
    if (build := _BUILDERS.get(op.name)) is None:
        raise Unavailable(f"no quantized op for '{op.name}'")
    graph = _Graph(op)
    model = graph.model(build(graph))
    activation = op.properties.get("fused_activation_function")
    if not isinstance(activation, StringAttr):
        return model, (-np.inf, np.inf)
    return model, activation_bounds(
        parameters_of_type(op.results[0].type), activation.data
    )
