"""Small ONNX models that together use all parts of a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)
from onnx.helper import make_node

from xdsl_quant.numerics.arrays import Array


def value(
    name: str, shape: Sequence[int | str] = (2,), data_type: int = TensorProto.FLOAT
) -> ValueInfoProto:
    """Return the declaration of an input or output."""
    return helper.make_tensor_value_info(name, data_type, shape)


def initializer(name: str, array: Array) -> TensorProto:
    """Return a tensor with its elements in `raw_data`."""
    return numpy_helper.from_array(array, name)


def graph(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto] = (value("x"),),
    outputs: Sequence[ValueInfoProto] = (value("y"),),
    initializers: Sequence[TensorProto] = (),
) -> GraphProto:
    """Return a graph, by default from `x` to `y`, two floats each."""
    return helper.make_graph(nodes, "g", inputs, outputs, initializers)


def model(
    main: GraphProto,
    opset: int = 17,
    functions: Sequence[FunctionProto] = (),
    domains: Mapping[str, int] | None = None,
    ir_version: int = 8,
) -> ModelProto:
    """Return a model that imports an opset and versions of other domains."""
    imports = {"": opset, **(domains or {})}
    return helper.make_model(
        main,
        functions=functions,
        opset_imports=[helper.make_opsetid(*item) for item in imports.items()],
        ir_version=ir_version,
    )


def relu() -> ModelProto:
    """Return a model of one op."""
    return model(graph([make_node("Relu", ["x"], ["y"], name="relu")]))


def branches(name: str, positive: NodeProto, negative: NodeProto) -> NodeProto:
    """Return an `If` on `c` whose branches, of one op each, have the result `r`."""
    then, other = (graph([node], (), (value("r"),)) for node in (positive, negative))
    return make_node("If", ["c"], [name], then_branch=then, else_branch=other)


def _quantized() -> ModelProto:
    """Return a QDQ convolution with 4-bit weights in typed fields."""
    weights = helper.make_tensor(
        "w", TensorProto.INT4, [2, 1, 3, 3], np.arange(18) % 16 - 8
    )
    nodes = [
        make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"),
        make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="d"),
        make_node("DequantizeLinear", ["w", "ws"], ["wd"], axis=0),
        make_node("Conv", ["d", "wd", "b"], ["c"], pads=[1, 1, 1, 1], strides=[1, 1]),
        make_node("Relu", ["c"], ["y"]),
    ]
    initializers = [
        initializer("s", np.array(0.5, np.float32)),
        initializer("z", np.array(3, np.uint8)),
        helper.make_tensor("ws", TensorProto.FLOAT, [2], [0.25, 0.5]),
        helper.make_tensor("b", TensorProto.FLOAT, [2], [1.0, -1.0]),
        weights,
    ]
    inputs, outputs = [value("x", ["n", 1, 4, 4])], [value("y", ["n", 2, 4, 4])]
    return model(graph(nodes, inputs, outputs, initializers), 21, ir_version=10)


def _control_flow() -> ModelProto:
    """Return an `If` around an `If`, whose branches read outer values."""
    inner = branches(
        "r", make_node("Abs", ["a"], ["r"]), make_node("Neg", ["x"], ["r"])
    )
    nodes = [
        make_node("Constant", [], ["k"], value=initializer("", np.ones(2, np.float32))),
        make_node("Add", ["x", "k"], ["a"]),
        branches("y", inner, make_node("Mul", ["a", "k"], ["r"])),
    ]
    inputs = [value("x"), value("c", (), TensorProto.BOOL)]
    return model(graph(nodes, inputs))


def double(callee: str = "Relu", domain: str = "") -> FunctionProto:
    """Return a function `my.Double` of two calls."""
    calls = [
        make_node(callee, ["a"], ["t"], domain=domain),
        make_node(callee, ["t"], ["b"], domain=domain),
    ]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    return helper.make_function("my", "Double", ["a"], ["b"], calls, imports)


def functions() -> ModelProto:
    """Return a model that calls a function twice."""
    nodes = [
        make_node("Double", ["x"], ["a"], domain="my"),
        make_node("Double", ["a"], ["y"], domain="my"),
    ]
    return model(graph(nodes), 17, [double()], {"my": 1})


def old() -> ModelProto:
    """Return a model of opset 9, which has attributes in place of later inputs."""
    nodes = [
        make_node("Clip", ["x"], ["a"], min=-1.0, max=1.0),
        make_node("Unsqueeze", ["a"], ["b"], axes=[0]),
        make_node("Pad", ["b"], ["c"], pads=[0, 1, 0, 1]),
        make_node("Add", ["c", "w"], ["y"]),
    ]
    weights = initializer("w", np.ones(4, np.float32))
    inputs = [value("x"), value("w", [4])]
    return model(graph(nodes, inputs, [value("y", [1, 4])], [weights]), 9, ir_version=3)


def external(**entries: str) -> TensorProto:
    """Return the tensor `w` of four floats in `w.bin`, with other entries."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in {"location": "w.bin", **entries}.items():
        tensor.external_data.add(key=key, value=text)
    return tensor


def with_external_data(folder: Path, **entries: str) -> ModelProto:
    """Return a model with `w.bin`, which is written: a float for padding, then `w`."""
    np.arange(5, dtype=np.float32).tofile(folder / "w.bin")
    tensor = external(offset="4", length="16", **entries)
    outputs = [value("y", [4])]
    nodes = [make_node("Add", ["x", "w"], ["y"])]
    return model(graph(nodes, [value("x", [4])], outputs, [tensor]))


def samples(folder: Path) -> Mapping[str, ModelProto]:
    """Return models to mutate, by name; external data is in `folder`."""
    return {
        "quantized": _quantized(),
        "control flow": _control_flow(),
        "functions": functions(),
        "old": old(),
        "external": with_external_data(folder),
    }
