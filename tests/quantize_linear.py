"""ONNX's `QuantizeLinear` as a model of one node, and as a function of onnxruntime."""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
Evaluate = Callable[[Array, Array, Array], Array]

_NAMES = {"f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT"}
_STORAGES = {"i8": "INT8", "u8": "UINT8", "i16": "INT16", "u16": "UINT16"}


@cache
def quantize_linear_model(expressed: str, storage: str, opset: int = 21) -> Any:
    onnx: Any = import_module("onnx")
    helper, types = onnx.helper, onnx.TensorProto
    float_type = getattr(types, _NAMES[expressed])
    stored_type = getattr(types, _STORAGES[storage])
    graph = helper.make_graph(
        [helper.make_node("QuantizeLinear", ["x", "scale", "zero_point"], ["y"])],
        "quantize",
        [
            helper.make_tensor_value_info("x", float_type, [None]),
            helper.make_tensor_value_info("scale", float_type, []),
            helper.make_tensor_value_info("zero_point", stored_type, []),
        ],
        [helper.make_tensor_value_info("y", stored_type, [None])],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def quantize_linear_inputs(
    x: Array, scale: Array, zero_point: Array
) -> dict[str, Array]:
    return {"x": x, "scale": scale, "zero_point": zero_point}


@cache
def quantize_linear(expressed: str, storage: str, opset: int = 21) -> Evaluate:
    """Return a function that quantizes with onnxruntime, without optimizations."""
    onnxruntime: Any = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(
        quantize_linear_model(expressed, storage, opset).SerializeToString(),
        options,
        providers=["CPUExecutionProvider"],
    )

    def evaluate(*arrays: Array) -> Array:
        return session.run(None, quantize_linear_inputs(*arrays))[0]

    return evaluate
