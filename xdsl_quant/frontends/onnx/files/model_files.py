"""
Loading of `.onnx` files.

`onnx` parses a damaged file into any message, and its checker accepts models that only fail
later. A [`LoadedModel`][xdsl_quant.frontends.onnx.files.model_files.LoadedModel] has valid
names, sorted nodes, no functions, and ops that fit their declarations. Sizes of constants
are checked when they are read.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path
from typing import TypeVar

import onnx
from google.protobuf.message import DecodeError, Message
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnx.defs import onnx_opset_version
from onnx.helper import make_attribute
from onnx.inliner import inline_local_functions
from onnx.version_converter import convert_version

from xdsl_quant.runtime.plugins import ModelFileError
from xdsl_quant.runtime.toml_tables import quoted

OLDEST_OPSET = 11
"""Version to which older models are converted."""

_RESIZE_BEFORE_11 = {
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "simple",
}
"""
Attributes of Resize and Upsample before opset 11, which had no attributes for them. The
mode `simple` rounds down, or up for scales below 1; ONNX has no name for it.
"""

_MAX_INLINED_BYTES = 1 << 28
"""Maximum size of nodes after inlining; each function may double it."""

_SHOWN_NAMES = 3
"""Number of names to list in a warning."""

_Result = TypeVar("_Result")


class ONNXFileError(ModelFileError):
    """Raised for damaged files and unsupported models; the message is one line."""

    def __init__(self, message: str):
        # Names in damaged files may have any characters.
        super().__init__("".join(c if c.isprintable() else "\ufffd" for c in message))


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A valid model of opset 11 or later, without local functions."""

    proto: ModelProto
    """
    The model. The nodes of each graph are sorted: a value is defined before its uses. No
    input of the main graph is also an initializer.
    """

    folder: Path | None
    """Folder of the file, which contains its external data; `None` for bytes."""

    name: str
    """Name of the file in messages."""


def load_model(source: str | Path | bytes) -> LoadedModel:
    """
    Parse and check a file, sort its nodes, inline its functions, and convert opsets before
    11.

    Initializers that are also inputs, i.e. defaults that a caller may override, become
    constants, with a warning.

    Args:
        source: a path, or the bytes of a file.

    Raises:
        ONNXFileError: if the file is damaged, newer than the installed `onnx`, not
            convertible to opset 11, or bytes that refer to external data.
        OSError: if the file cannot be read.
    """
    if isinstance(source, bytes):
        return _loaded("<bytes>", source, None)
    path = Path(source)
    return _loaded(str(source), path.read_bytes(), path.parent)


def _loaded(name: str, content: bytes, folder: Path | None) -> LoadedModel:
    try:
        proto = _parsed(content)
        _check_text(proto)
        _check_versions(proto)
        if folder is None:
            _check_has_no_external_data(proto)
        _remove_defaults(proto, name)
        _check_graphs(proto)
        current = _with_known_opset(_inlined(proto))
        if current is not proto:
            _check_graphs(current)
    except ONNXFileError as e:
        raise ONNXFileError(f"{name}: error: {e}") from None
    return LoadedModel(current, folder, name)


# Messages


def _parsed(content: bytes) -> ModelProto:
    if not content:
        raise ONNXFileError("the file is empty")
    model = ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        raise ONNXFileError(
            "not an ONNX model: the file is damaged, truncated or nested too deeply"
        ) from None
    if not model.HasField("graph"):
        raise ONNXFileError("not an ONNX model: the graph is missing")
    return model


def _check_text(message: Message) -> None:
    """Check that all strings are UTF-8; `protobuf` returns bytes for other strings."""
    for field, value in message.ListFields():
        values = value if field.is_repeated else (value,)
        if field.type == field.TYPE_MESSAGE:
            for item in values:
                _check_text(item)
        elif field.type == field.TYPE_STRING:
            for text in values:
                if not isinstance(text, str):
                    raise ONNXFileError(
                        f"the file is damaged: {field.name} {text!r} is not UTF-8"
                    )


def _check_versions(model: ModelProto) -> None:
    if not 1 <= model.ir_version <= onnx.IR_VERSION:
        raise ONNXFileError(
            f"unsupported IR version {model.ir_version}: onnx {onnx.__version__} reads 1 "
            f"to {onnx.IR_VERSION}; install a newer onnx"
        )
    if not model.opset_import:
        if model.ir_version >= 3:
            raise ONNXFileError("the model has no opset_import")
        model.opset_import.add(version=1)
    versions = _opset_versions(model)
    if len(versions) > 1:
        raise ONNXFileError(
            f"the model imports several opsets: {', '.join(map(str, versions))}"
        )
    newest = onnx_opset_version()
    for version in versions:
        if not 1 <= version <= newest:
            raise ONNXFileError(
                f"unsupported opset {version}: onnx {onnx.__version__} has 1 to "
                f"{newest}; install a newer onnx"
            )


def _opset_versions(model: ModelProto) -> Sequence[int]:
    imports = model.opset_import
    return sorted({item.version for item in imports if is_standard(item.domain)})


def is_standard(domain: str) -> bool:
    """Return True if a domain is ONNX's own, which has two names."""
    return domain in ("", "ai.onnx")


def _check_has_no_external_data(model: ModelProto) -> None:
    functions = (node for function in model.functions for node in function.node)
    nodes = chain(model.graph.node, functions)
    for tensor in chain(model.graph.initializer, _tensors(nodes)):
        if tensor.data_location == TensorProto.EXTERNAL:
            raise ONNXFileError(
                f"bytes of a model with external data, e.g. of '{tensor.name}'; pass the "
                "path of the file"
            )


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs of a node's attributes, e.g. the branches of `If`."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _tensors(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    """Yield the tensors of nodes and their subgraphs."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for graph in subgraphs(node):
            yield from graph.initializer
            yield from _tensors(graph.node)


# Order


def _check_graphs(model: ModelProto) -> None:
    """Sort the nodes of all graphs, and check the model without its constants."""
    for function in model.functions:
        names = [*function.input]
        _require_known(
            _order_nodes(function, names, function.output), f"'{function.name}'"
        )
    if model.graph.sparse_initializer:
        raise ONNXFileError("unsupported sparse initializer")
    _require_known(_order_graph(model.graph), "the graph")
    outline = _model_outline(model)
    _attempt(
        lambda: onnx.checker.check_model(  # pyright: ignore[reportUnknownMemberType] its hint has PathLike without argument
            outline, skip_opset_compatibility_check=True
        ),
        "invalid model",
    )


def _require_known(free: Iterable[str], where: str) -> None:
    for name in sorted(free):
        raise ONNXFileError(
            f"unknown value '{name}' in {where}: expected an input, an initializer or a "
            "result of a node"
        )


def _order_graph(graph: GraphProto) -> set[str]:
    """Sort the nodes, in place; return the names of values that outer graphs define."""
    names = [item.name for item in chain(graph.input, graph.initializer)]
    return _order_nodes(graph, names, [item.name for item in graph.output])


def _order_nodes(
    graph: GraphProto | FunctionProto, names: Sequence[str], outputs: Iterable[str]
) -> set[str]:
    results = ((i, name) for i, node in enumerate(graph.node) for name in node.output)
    definers: dict[str, int] = {}
    for index, name in chain(((-1, name) for name in names), results):
        if name in definers:
            raise ONNXFileError(f"value '{name}' is defined twice")
        if name:
            definers[name] = index
    uses = [_used_names(node) for node in graph.node]
    _sort(graph, [{definers.get(name, -1) for name in names} for names in uses])
    return {*outputs}.union(*uses) - definers.keys()


def _used_names(node: NodeProto) -> set[str]:
    """Return the names of a node's operands, and of those of its subgraphs."""
    return {*node.input}.union(*map(_order_graph, subgraphs(node))) - {""}


def _sort(graph: GraphProto | FunctionProto, predecessors: Sequence[set[int]]) -> None:
    if all(max(found, default=-1) < i for i, found in enumerate(predecessors)):
        return
    sorter = TopologicalSorter(
        {i: found - {-1} for i, found in enumerate(predecessors)}
    )
    try:
        order = [*sorter.static_order()]
    except CycleError as e:
        cycle: list[int] = e.args[1]
        node = graph.node[cycle[0]]
        raise ONNXFileError(
            f"{described(node)} uses its own result, directly or not"
        ) from None
    nodes = [NodeProto.FromString(graph.node[i].SerializeToString()) for i in order]
    graph.ClearField("node")
    graph.node.extend(nodes)


def described(node: NodeProto) -> str:
    """Return op and name of a node for a message, e.g. `node 'conv1' (Conv)`."""
    name = node.name or next(filter(None, node.output), "")
    return f"node '{name}' ({node.op_type})"


# Checks of ops


def _model_outline(model: ModelProto) -> ModelProto:
    """Copy a model without the elements of tensors, which may be large or external."""
    graph = model.graph
    outline = ModelProto(
        ir_version=model.ir_version,
        opset_import=model.opset_import,
        functions=model.functions,
        graph=GraphProto(
            name=graph.name,
            input=graph.input,
            output=graph.output,
            value_info=graph.value_info,
            initializer=map(_without_elements, graph.initializer),
            node=map(_node_outline, graph.node),
        ),
    )
    for function in outline.functions:
        _remove_elements(_tensors(function.node))
    return outline


def _without_elements(tensor: TensorProto) -> TensorProto:
    return TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[0])


def _node_outline(node: NodeProto) -> NodeProto:
    outline = NodeProto()
    outline.CopyFrom(node)
    _remove_elements(_tensors([outline]))
    return outline


def _remove_elements(tensors: Iterable[TensorProto]) -> None:
    for tensor in tensors:
        tensor.CopyFrom(_without_elements(tensor))


_NODE_CONTEXT = r"\.?\s*==> Context: Bad node spec for node\. Name: (.*?) OpType: (\S*)"
"""Regular expression of the end of a checker message."""

_ASSERTION = r"^\S+: \w+: Assertion `.*?` failed: "
"""Regular expression of the start of a message of an assertion: position and condition."""


def _attempt(step: Callable[[], _Result], problem: str) -> _Result:
    """Call a function of `onnx`, and raise its errors as one sentence after `problem`."""
    try:
        return step()
    except Exception as e:
        # Its C++ code raises errors of many classes, and UnicodeDecodeError for messages.
        text = re.sub(_NODE_CONTEXT, r" in node '\1' (\2)", str(e))
        text = re.sub(_ASSERTION, "", text)
        raise ONNXFileError(
            f"{problem}: {' '.join(text.split()).rstrip('.')}"
        ) from None


# Functions, opsets and defaults


def _inlined(model: ModelProto) -> ModelProto:
    if not model.functions:
        return model
    _check_size(model)
    inlined = _attempt(
        lambda: inline_local_functions(model, convert_version=True),
        "functions cannot be inlined",
    )
    if inlined.functions:
        raise ONNXFileError(f"function '{inlined.functions[0].name}' cannot be inlined")
    return inlined


_FunctionKey = tuple[str, str, str]
"""Domain, name and overload of a function."""


def _check_size(model: ModelProto) -> None:
    """Check the size of the nodes that inlining would produce."""
    bodies = {
        (f.domain, f.name, f.overload): [*_nested_nodes(f.node)]
        for f in model.functions
    }
    calls = {
        key: {*map(_function_key, body)} & bodies.keys() for key, body in bodies.items()
    }
    sizes: dict[_FunctionKey, int] = {}

    def inlined_size(nodes: Iterable[NodeProto]) -> int:
        return sum(sizes.get(_function_key(node), node.ByteSize()) for node in nodes)

    try:
        for key in TopologicalSorter(calls).static_order():
            sizes[key] = inlined_size(bodies[key])
    except CycleError as e:
        cycle: list[_FunctionKey] = e.args[1]
        raise ONNXFileError(f"function '{cycle[0][1]}' calls itself") from None
    if (size := inlined_size(_nested_nodes(model.graph.node))) > _MAX_INLINED_BYTES:
        raise ONNXFileError(
            f"functions expand to {size} bytes; expected at most {_MAX_INLINED_BYTES}"
        )


def _function_key(node: NodeProto) -> _FunctionKey:
    return node.domain, node.op_type, node.overload


def _nested_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield nodes and those of their subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from _nested_nodes(graph.node)


def _with_known_opset(model: ModelProto) -> ModelProto:
    versions = _opset_versions(model)
    if not versions or versions[0] >= OLDEST_OPSET:
        return model
    converted = _attempt(
        lambda: convert_version(model, OLDEST_OPSET),
        f"opset {versions[0]} cannot be converted to {OLDEST_OPSET}",
    )
    for node in _nested_nodes(converted.graph.node):
        if node.op_type == "Resize":
            # The converter leaves the defaults of opset 11, which change the result.
            node.attribute.extend(
                make_attribute(name, value) for name, value in _RESIZE_BEFORE_11.items()
            )
    return converted


def _remove_defaults(model: ModelProto, where: str) -> None:
    """Remove inputs that are initializers, which `where` names in a warning."""
    # Before version 4, each initializer must be an input.
    model.ir_version = max(model.ir_version, 4)
    names = {tensor.name for tensor in model.graph.initializer}
    inputs = model.graph.input
    defaults = [item.name for item in inputs if item.name in names]
    for index in reversed(range(len(inputs))):
        if inputs[index].name in names:
            del inputs[index]
    if not defaults:
        return
    others = len(defaults) - _SHOWN_NAMES
    more = f" and {others} more" if others > 0 else ""
    warnings.warn(
        f"{where}: inputs with a default value become constants: "
        f"{quoted(defaults[:_SHOWN_NAMES])}{more}",
        stacklevel=4,
    )
