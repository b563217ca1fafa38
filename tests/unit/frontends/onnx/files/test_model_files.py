"""Checks and conversions of ONNX files when they are loaded."""

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import Message
from onnx import IR_VERSION, GraphProto, ModelProto, NodeProto, TensorProto, helper
from onnx.defs import onnx_opset_version
from onnx.helper import make_node

from tests.unit.frontends.onnx.files.models import (
    branches,
    double,
    functions,
    graph,
    initializer,
    model,
    old,
    relu,
    samples,
    value,
    with_external_data,
)
from xdsl_quant.frontends.onnx.files.model_files import ONNXFileError, load_model
from xdsl_quant.frontends.onnx.files.tensors import array_of
from xdsl_quant.runtime.plugins import ModelFileError

ONES = np.ones(2, np.float32)


def ops(main: GraphProto) -> Sequence[str]:
    """Return the names of the ops of a graph."""
    return [node.op_type for node in main.node]


def loaded(proto: ModelProto) -> ModelProto:
    """Return a model after loading from bytes."""
    return load_model(proto.SerializeToString()).proto


def error_of(source: bytes | Message) -> str:
    """Return the message about a file."""
    content = source if isinstance(source, bytes) else source.SerializeToString()
    with pytest.raises(ONNXFileError) as e:
        load_model(content)
    message = str(e.value)
    assert message.startswith("<bytes>: error: ")
    return message.removeprefix("<bytes>: error: ")


def one_op(node: NodeProto, *inputs: str, **options: Any) -> ModelProto:
    """Return a model of one op; the options of `model` have several types."""
    return model(graph([node], [value(name) for name in inputs or ("x",)]), **options)


@pytest.mark.parametrize("name", ["quantized", "control flow", "functions", "old"])
def test_valid_models(tmp_path: Path, name: str):
    sample = samples(tmp_path)[name]
    if name == "old":
        with pytest.warns(UserWarning, match="constants: 'w'$"):
            proto = loaded(sample)
    else:
        proto = loaded(sample)
    assert [item.name for item in proto.graph.output] == ["y"]


def test_files(tmp_path: Path):
    path = tmp_path / "a.onnx"
    path.write_bytes(relu().SerializeToString())
    for source in (path, str(path)):
        found = load_model(source)
        assert found.folder == tmp_path
        assert found.name == str(path)
        assert found.proto == relu()
    assert load_model(path.read_bytes()).folder is None


def test_errors_name_the_file(tmp_path: Path):
    path = tmp_path / "a.onnx"
    path.touch()
    with pytest.raises(ModelFileError, match=f"^{path}: error: the file is empty$"):
        load_model(path)


def test_missing_files():
    with pytest.raises(FileNotFoundError):
        load_model("missing.onnx")


@pytest.mark.parametrize("name", ["read_onnx", "write_onnx", "ONNXFileError"])
def test_missing_package(name: str, monkeypatch: pytest.MonkeyPatch):
    package = "xdsl_quant.frontends.onnx"
    for loaded in [loaded for loaded in sys.modules if loaded.startswith(package)]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError) as e:
        getattr(import_module(package), name)
    assert str(e.value) == (
        "a '.onnx' file needs onnx, which is not installed; run pip install '.[onnx]' in "
        "a checkout of xdsl-quant"
    )


NO_MODEL = "not an ONNX model: the file is damaged, truncated or nested too deeply"


def nested(depth: int) -> bytes:
    """Return a model with an `If` in an `If` and so on, which `onnx` would not build."""

    def field(number: int, content: bytes) -> bytes:
        size = len(content)
        digits = bytearray()
        while size > 127:
            digits.append(size & 127 | 128)
            size >>= 7
        return bytes([number << 3 | 2, *digits, size]) + content

    body = b""
    for _ in range(depth):
        # A graph with a node with an attribute with a graph.
        body = field(1, field(5, field(6, body)))
    return field(7, body)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"hello world", NO_MODEL),
        (relu().SerializeToString()[:-5], NO_MODEL),
        (relu().SerializeToString() + b"\0", NO_MODEL),
        (nested(60), NO_MODEL),
        (b"\x08\x08", "not an ONNX model: the graph is missing"),
        (
            relu().SerializeToString().replace(b"Relu", b"R\xff\nu"),
            "the file is damaged: op_type b'R\\xff\\nu' is not UTF-8",
        ),
    ],
)
def test_damaged_files(content: bytes, message: str):
    assert error_of(content) == message


# Versions


def without_opset() -> ModelProto:
    """Return a model without opset_import."""
    proto = relu()
    proto.ClearField("opset_import")
    return proto


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (without_opset(), "the model has no opset_import"),
        (
            one_op(make_node("Relu", ["x"], ["y"]), opset=17, domains={"ai.onnx": 11}),
            "the model imports several opsets: 11, 17",
        ),
        (
            one_op(make_node("Relu", ["x"], ["y"]), opset=99),
            rf"unsupported opset 99: onnx \S+ has 1 to {onnx_opset_version()}; install a "
            "newer onnx",
        ),
        (
            one_op(make_node("Relu", ["x"], ["y"]), opset=0),
            r"unsupported opset 0: onnx .*",
        ),
        (
            one_op(make_node("Relu", ["x"], ["y"]), ir_version=99),
            rf"unsupported IR version 99: onnx \S+ reads 1 to {IR_VERSION}; install a "
            "newer onnx",
        ),
        (
            one_op(make_node("Relu", ["x"], ["y"]), ir_version=0),
            "unsupported IR version 0: .*",
        ),
    ],
)
def test_unsupported_versions(proto: ModelProto, message: str):
    assert re.fullmatch(message, error_of(proto))


def test_oldest_files():
    proto = without_opset()
    proto.ir_version = 2
    assert [item.version for item in loaded(proto).opset_import] == [11]


def test_newer_opsets_stay():
    for opset in (11, 13, onnx_opset_version()):
        proto = loaded(one_op(make_node("Relu", ["x"], ["y"]), opset=opset))
        assert [item.version for item in proto.opset_import] == [opset]


@pytest.mark.filterwarnings("ignore:.*inputs with a default value")
def test_old_opsets_are_converted():
    runtime: Any = import_module("onnxruntime")
    proto = loaded(old())
    assert [item.version for item in proto.opset_import] == [11]
    # Limits and pads are operands now.
    counts = {node.op_type: len(node.input) for node in proto.graph.node}
    assert (counts["Clip"], counts["Pad"]) == (3, 3)
    x = np.array([-2, 0.5], np.float32)
    before, after = (
        runtime.InferenceSession(item.SerializeToString()).run(None, {"x": x})[0]
        for item in (old(), proto)
    )
    np.testing.assert_array_equal(before, after)


def test_old_opsets_of_subgraphs_are_converted():
    clip = make_node("Clip", ["x"], ["r"], min=0.0, max=1.0)
    node = branches("y", clip, make_node("Neg", ["x"], ["r"]))
    inputs = [value("x"), value("c", (), TensorProto.BOOL)]
    proto = loaded(model(graph([node], inputs), 9))
    branch = {item.name: item.g for item in proto.graph.node[0].attribute}[
        "then_branch"
    ]
    assert ops(branch) == ["Constant", "Constant", "Clip"]


def test_failing_conversion():
    node = make_node("Upsample", ["x"], ["y"], width_scale=2.0, height_scale=2.0)
    message = error_of(one_op(node, opset=1))
    assert message.startswith("opset 1 cannot be converted to 11: ")


# Order and names


def test_unsorted_nodes():
    nodes = [
        make_node("Relu", ["b"], ["y"]),
        make_node("Neg", ["x"], ["a"]),
        make_node("Add", ["a", "w"], ["b"]),
    ]
    proto = loaded(model(graph(nodes, initializers=[initializer("w", ONES)])))
    assert ops(proto.graph) == ["Neg", "Add", "Relu"]


def test_unsorted_branches():
    node = branches("y", make_node("Abs", ["a"], ["r"]), make_node("Neg", ["x"], ["r"]))
    branch = {item.name: item.g for item in node.attribute}["then_branch"]
    branch.node.insert(0, make_node("Relu", ["r"], ["s"]))
    branch.output[0].name = "s"
    nodes = [node, make_node("Exp", ["x"], ["a"])]
    inputs = [value("x"), value("c", (), TensorProto.BOOL)]
    proto = loaded(model(graph(nodes, inputs)))
    # `If` comes after the value that its branch reads.
    assert ops(proto.graph) == ["Exp", "If"]
    found = {item.name: ops(item.g) for item in proto.graph.node[1].attribute}
    assert found == {"then_branch": ["Abs", "Relu"], "else_branch": ["Neg"]}


def test_unsorted_functions():
    function = double()
    function.node.reverse()
    nodes = [make_node("Double", ["x"], ["y"], domain="my")]
    assert (
        ops(loaded(model(graph(nodes), 17, [function], {"my": 1})).graph)
        == ["Relu"] * 2
    )


def test_equal_node_names_are_valid():
    nodes = [
        make_node("Neg", ["x"], ["a"], name="n"),
        make_node("Abs", ["a"], ["y"], name="n"),
    ]
    assert ops(loaded(model(graph(nodes))).graph) == ["Neg", "Abs"]


def test_results_that_are_inputs_or_initializers():
    assert not loaded(model(graph([], outputs=[value("x")]))).graph.node
    constant = graph([], initializers=[initializer("y", ONES)])
    assert not loaded(model(constant)).graph.node


def self_reading() -> ModelProto:
    """Return a model whose `If` reads its own result in a branch."""
    node = branches("y", make_node("Abs", ["y"], ["r"]), make_node("Neg", ["x"], ["r"]))
    return model(graph([node], [value("x"), value("c", (), TensorProto.BOOL)]))


UNKNOWN = "expected an input, an initializer or a result of a node"


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (
            model(
                graph(
                    [
                        make_node("Add", ["x", "b"], ["a"], name="add"),
                        make_node("Relu", ["a"], ["b"]),
                        make_node("Abs", ["b"], ["y"]),
                    ]
                )
            ),
            "node 'add' (Add) uses its own result, directly or not",
        ),
        (self_reading(), "node 'y' (If) uses its own result, directly or not"),
        (
            model(
                graph([make_node("Abs", ["x"], ["y"]), make_node("Neg", ["x"], ["y"])])
            ),
            "value 'y' is defined twice",
        ),
        (one_op(make_node("Split", ["x"], ["y", "y"])), "value 'y' is defined twice"),
        (one_op(make_node("Abs", ["x"], ["x"])), "value 'x' is defined twice"),
        (
            one_op(make_node("Abs", ["x"], ["y"]), "x", "x"),
            "value 'x' is defined twice",
        ),
        (
            model(graph([], initializers=[initializer("y", ONES)] * 2)),
            "value 'y' is defined twice",
        ),
        (
            one_op(make_node("Relu", ["a"], ["y"])),
            f"unknown value 'a' in the graph: {UNKNOWN}",
        ),
        (
            one_op(make_node("Relu", ["x"], ["z"])),
            f"unknown value 'y' in the graph: {UNKNOWN}",
        ),
        (
            one_op(
                branches(
                    "y", make_node("Abs", ["a"], ["r"]), make_node("Abs", ["x"], ["r"])
                ),
                "x",
                "c",
            ),
            f"unknown value 'a' in the graph: {UNKNOWN}",
        ),
    ],
)
def test_invalid_names(proto: ModelProto, message: str):
    assert error_of(proto) == message


# Ops


def test_unknown_domains_are_valid():
    node = make_node("QGemm", ["x"], ["y"], domain="com.microsoft")
    assert ops(loaded(one_op(node, domains={"com.microsoft": 1})).graph) == ["QGemm"]


@pytest.mark.parametrize(
    "node",
    [
        make_node("Unknown", ["x"], ["y"], name="n"),
        make_node("Relu", ["x"], ["y"], name="n", alpha=1.0),
        make_node("Relu", ["x", "x"], ["y"], name="n"),
        make_node("Softmax", ["x"], ["y"], name="n", axis=1.0),
        make_node("Cast", ["x"], ["y"], name="n"),
        make_node("Relu", ["x"], ["y"], name="n", domain="other"),
    ],
)
def test_invalid_ops(node: NodeProto):
    message = error_of(one_op(node))
    assert message.startswith("invalid model: ")
    assert message.endswith(f" in node 'n' ({node.op_type})")


def test_sparse_initializers():
    proto = relu()
    proto.graph.sparse_initializer.add()
    assert error_of(proto) == "unsupported sparse initializer"


def test_large_declared_shapes():
    main = graph([make_node("Relu", ["x"], ["y"])], [value("x", [2**40, 2**40])])
    assert ops(loaded(model(main)).graph) == ["Relu"]


# Functions


def test_functions_are_inlined():
    proto = loaded(functions())
    assert ops(proto.graph) == ["Relu"] * 4
    assert not proto.functions


def test_functions_of_other_opsets_are_converted():
    total = make_node("ReduceSum", ["a"], ["b"], axes=[0])
    function = helper.make_function(
        "my", "F", ["a"], ["b"], [total], [helper.make_opsetid("", 11)]
    )
    node = make_node("F", ["x"], ["y"], domain="my")
    proto = loaded(one_op(node, functions=[function], domains={"my": 1}))
    assert [
        len(node.input) for node in proto.graph.node if node.op_type != "Constant"
    ] == [2]


def test_recursive_functions():
    node = make_node("Double", ["x"], ["y"], domain="my")
    proto = one_op(node, functions=[double("Double", "my")], domains={"my": 1})
    assert "my::Double -> my::Double" in error_of(proto)


def test_functions_that_double_the_model():
    chain = [
        double(f"F{i + 1}" if i < 30 else "Relu", "my" if i < 30 else "")
        for i in range(31)
    ]
    for i, function in enumerate(chain):
        function.name = f"F{i}"
    node = make_node("F0", ["x"], ["y"], domain="my")
    message = error_of(one_op(node, functions=chain, domains={"my": 1}))
    size = 2**31 * chain[-1].node[0].ByteSize()
    assert message == f"functions expand to {size} bytes; expected at most {2**28}"


# Inputs with default values


@pytest.mark.parametrize("ir_version", [3, 8])
def test_initializers_that_are_inputs(ir_version: int):
    names = [f"w{i}" for i in range(5)]
    nodes = [
        make_node("Sum", ["x", *names], ["a"]),
        make_node("Relu", ["a"], ["y"]),
    ]
    inputs = [value(name) for name in (*names[:2], "x", *names[2:])]
    initializers = [initializer(name, ONES) for name in names]
    proto = model(
        graph(nodes, inputs, initializers=initializers), ir_version=ir_version
    )
    message = (
        "inputs with a default value become constants: 'w0', 'w1', 'w2' and 2 more$"
    )
    with pytest.warns(UserWarning, match=message):
        found = loaded(proto)
    assert [item.name for item in found.graph.input] == ["x"]
    assert [item.name for item in found.graph.initializer] == names


# External data


def test_external_data(tmp_path: Path):
    path = tmp_path / "a.onnx"
    path.write_bytes(with_external_data(tmp_path).SerializeToString())
    found = load_model(path)
    (tensor,) = found.proto.graph.initializer
    assert array_of(tensor, found.folder).tolist() == [1, 2, 3, 4]


def test_bytes_with_external_data(tmp_path: Path):
    proto = with_external_data(tmp_path)
    message = (
        "bytes of a model with external data, e.g. of 'w'; pass the path of the file"
    )
    assert error_of(proto) == message
    tensor = proto.graph.initializer[0]
    constant = make_node("Constant", [], ["y"], value=tensor)
    assert error_of(model(graph([constant]))) == message


def test_external_constants_of_nodes(tmp_path: Path):
    path = tmp_path / "a.onnx"
    tensor = with_external_data(tmp_path).graph.initializer[0]
    constant = make_node("Constant", [], ["y"], value=tensor)
    path.write_bytes(model(graph([constant])).SerializeToString())
    found = load_model(path)
    (node,) = found.proto.graph.node
    assert array_of(node.attribute[0].t, found.folder).tolist() == [1, 2, 3, 4]
