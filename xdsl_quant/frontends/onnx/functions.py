"""Functions of ONNX's op definitions: an op without conversion becomes simpler ops."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import onnx
from onnx import defs, helper, inliner
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import SSAValue

from xdsl_quant.transforms.building.builder import element_type_of, shape_of

from .files.tensors import data_type_of_element
from .node import Node


def expanded_nodes(
    node: Node, operands: Sequence[SSAValue | None]
) -> tuple[Sequence[onnx.NodeProto], Mapping[str, int]] | None:
    """
    Return the nodes that define a node, and the opset versions of their domains; `None`
    for an op that is not defined by a function.
    """
    domain = node.proto.domain
    if not defs.has(node.proto.op_type, node.version, domain):
        return None
    schema = defs.get_schema(node.proto.op_type, node.version, domain)
    proto = _with_defaults(node.proto, schema)
    if (function := _definition(schema, proto, operands)) is None:
        return None
    graph = helper.make_graph(
        [proto],
        "graph",
        [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(proto.input) if name],
        [onnx.ValueInfoProto(name=name) for name in proto.output if name],
    )
    function.domain = domain
    model = helper.make_model(
        graph,
        functions=[function],
        opset_imports=[helper.make_opsetid(domain, node.version)],
    )
    versions = {
        opset.domain or "ai.onnx": opset.version for opset in function.opset_import
    }
    return inliner.inline_local_functions(model).graph.node, versions


def _with_defaults(proto: onnx.NodeProto, schema: defs.OpSchema) -> onnx.NodeProto:
    """Return a node with the default values of its attributes."""
    copy = onnx.NodeProto()
    copy.CopyFrom(proto)
    names = {attribute.name for attribute in proto.attribute}
    for name, attribute in schema.attributes.items():
        if name not in names and attribute.default_value.name:
            copy.attribute.append(attribute.default_value)
    return copy


def _definition(
    schema: defs.OpSchema, proto: onnx.NodeProto, operands: Sequence[SSAValue | None]
) -> onnx.FunctionProto | None:
    """Return the function of an op, which may depend on attributes and operand types."""
    if schema.function_body.node:
        return schema.function_body
    # The type stubs of `onnx` lack these.
    untyped = cast(Any, schema)
    if not untyped.has_context_dependent_function:
        return None
    types = [
        b"" if value is None else _type_proto(value).SerializeToString()
        for value in operands
    ]
    data = untyped.get_context_dependent_function(proto.SerializeToString(), types)
    function = onnx.FunctionProto()
    function.ParseFromString(data)
    # Empty for operands of unsupported types.
    return function if function.node else None


def _type_proto(value: SSAValue) -> onnx.TypeProto:
    element_type = data_type_of_element(element_type_of(value))
    sizes = [None if size == DYNAMIC_INDEX else size for size in shape_of(value)]
    return helper.make_tensor_type_proto(element_type, sizes)
