"""Writers of data movement ops, constants and custom calls."""

from collections.abc import Mapping, Sequence
from typing import TypeVar, cast

import numpy as np
import onnx
from onnx.version_converter import convert_version
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation

from xdsl_quant.frontends.onnx.files.tensors import tensor_proto
from xdsl_quant.frontends.onnx.graph_writer import (
    OPSET,
    GraphWriter,
    Writer,
    composed,
    quantized_type,
)
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.runtime.arrays import ElementsAttr, numpy_dtype
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .casts import write_at_use

_Kind = TypeVar("_Kind", bound=Attribute)


def _transpose(w: GraphWriter, op: stablehlo.TransposeOp) -> None:
    permutation = op.permutation.get_values()
    w.alias(op.result, op.operand, lambda layout: composed(layout, permutation))


_Reshape = stablehlo.ReshapeOp | stablehlo.DynamicReshapeOp


def _reshape(w: GraphWriter, op: _Reshape) -> None:
    operand, shape = op.operand, shape_of(op.result)
    while isinstance(operand.owner, _Reshape) and (
        element_type_of(operand) == element_type_of(operand.owner.operand)
    ):
        operand = operand.owner.operand
    if operand.type == op.result.type and DYNAMIC_INDEX not in shape:
        w.alias(op.result, operand, lambda layout: layout)
        return
    inputs, name = [w.operand(operand), _reshaped_sizes(w, op)], w.value_name(op.result)
    # Without `allowzero`, 0 copies a size of the operand.
    attributes = {"allowzero": 1} if 0 in shape else {}
    w.result(op.result, w.node("Reshape", inputs, name, **attributes))


def _reshaped_sizes(w: GraphWriter, op: _Reshape) -> str:
    """Return the tensor with the sizes of a result, of which one may be -1."""
    shape = shape_of(op.result)
    unknown = shape.count(DYNAMIC_INDEX)
    if unknown > 1 or (unknown and 0 in shape):
        if isinstance(op, stablehlo.ReshapeOp):
            raise Unsupported("several dynamic sizes")
        return w.cast(w.operand(op.output_shape), i64)
    return w.integers(
        [-1 if size == DYNAMIC_INDEX else size for size in shape], "shape"
    )


def _concatenate(w: GraphWriter, op: stablehlo.ConcatenateOp) -> None:
    layout = w.layout(op.inputs[0])
    tensors = [w.operand(value, layout) for value in op.inputs]
    axis = layout.index(op.dimension.value.data)
    name = w.value_name(op.result)
    w.result(op.result, w.node("Concat", tensors, name, axis=axis), layout)


def _slice(w: GraphWriter, op: stablehlo.SliceOp) -> None:
    layout = w.layout(op.operand)
    numbers = [
        numbers.get_values()
        for numbers in (op.start_indices, op.limit_indices, op.strides)
    ]
    axes = [
        axis
        for axis, (start, limit, stride, size) in enumerate(
            zip(*numbers, shape_of(op.operand), strict=True)
        )
        if (start, limit, stride) != (0, size, 1)
    ]
    if not axes:
        w.alias(op.result, op.operand, lambda layout: layout)
        return
    starts, limits, strides = ([each[axis] for axis in axes] for each in numbers)
    lists = starts, limits, [layout.index(axis) for axis in axes], strides
    inputs = [w.operand(op.operand, layout), *map(w.integers, lists)]
    w.result(op.result, w.node("Slice", inputs, w.value_name(op.result)), layout)


_ALL_ELEMENTS = (1 << 63) - 1
"""End of a slice of a dimension of any size."""


def _crop(w: GraphWriter, op: stablehlo.PadOp) -> None:
    """Write padding that only removes elements; the sizes may be unknown."""
    layout = w.layout(op.operand)
    low, high = op.edge_padding_low.get_values(), op.edge_padding_high.get_values()
    axes = [axis for axis, pair in enumerate(zip(low, high, strict=True)) if any(pair)]
    lists = (
        [-low[axis] for axis in axes],
        [high[axis] or _ALL_ELEMENTS for axis in axes],
        [layout.index(axis) for axis in axes],
    )
    inputs = [w.operand(op.operand, layout), *map(w.integers, lists)]
    w.result(op.result, w.node("Slice", inputs, w.value_name(op.result)), layout)


def _pad(w: GraphWriter, op: stablehlo.PadOp) -> None:
    amounts = *op.edge_padding_low.get_values(), *op.edge_padding_high.get_values()
    interior_amounts = op.interior_padding.get_values()
    if not any(interior_amounts) and max(amounts, default=0) <= 0 and any(amounts):
        _crop(w, op)
        return
    layout, value = w.layout(op.operand), w.operand(op.padding_value)
    tensor, name = w.operand(op.operand, layout), w.value_name(op.result)
    for dimension, interior in enumerate(interior_amounts):
        if interior and shape_of(op.operand)[dimension] > 1:
            axis = layout.index(dimension)
            tensor = _padded_between(w, op, tensor, value, axis, interior)
    sides = op.edge_padding_low.get_values(), op.edge_padding_high.get_values()
    pads = [side[dimension] for side in sides for dimension in layout]
    tensor = w.node("Pad", [tensor, w.integers(pads, "pads"), value], name)
    w.result(op.result, tensor, layout)


def _padded_between(
    w: GraphWriter, op: stablehlo.PadOp, tensor: str, value: str, axis: int, count: int
) -> str:
    """Pad each element along an axis at its end, and crop the last padding."""
    rank, name = len(shape_of(op.operand)), w.value_name(op.result)
    column = w.node("Unsqueeze", [tensor, w.integers([axis + 1], "axes")], name)
    ends = [count if d == axis + 1 else 0 for d in range(rank + 1)]
    pads = w.integers([*[0] * (rank + 1), *ends], "pads")
    padded = w.node("Pad", [column, pads, value], name)
    # The axis and the one after it become one.
    sizes = w.node("Shape", [tensor], name)
    axes = w.integers([axis]), w.integers([-1])
    sizes = w.node("ScatterElements", [sizes, *axes], name)
    merged = w.node("Reshape", [padded, sizes], name)
    bounds = w.integers([0]), w.integers([-count]), w.integers([axis], "axes")
    return w.node("Slice", [merged, *bounds], name)


def _reverse(w: GraphWriter, op: stablehlo.ReverseOp) -> None:
    w.result(op.result, w.reversed(w.operand(op.operand), op.dimensions.get_values()))


def _iota(w: GraphWriter, op: stablehlo.IotaOp) -> None:
    if quantized_type(op.output.type) is not None or -1 in shape_of(op.output):
        raise Unsupported("quantized or dynamic indices")
    shape, axis = shape_of(op.output), op.iota_dimension.value.data
    element_type = element_type_of(op.output)
    line = np.arange(shape[axis]).reshape(
        [-1 if d == axis else 1 for d in range(len(shape))]
    )
    array = np.broadcast_to(line, shape).astype(numpy_dtype(element_type))
    name = w.value_name(op.output)
    w.result(op.output, w.initializer(array, element_type, name))


def _size_of_dimension(w: GraphWriter, op: stablehlo.GetDimensionSizeOp) -> None:
    axis, layout = op.dimension.value.data, w.layout(op.operand)
    start, name = layout.index(axis), w.value_name(op.result)
    tensor = w.operand(op.operand, layout)
    sizes = w.node("Shape", [tensor], name, start=start, end=start + 1)
    size = w.node("Squeeze", [sizes], name)
    w.result(op.result, w.cast(size, i32))


_PREFIX = "onnx."


def _custom_call(w: GraphWriter, op: stablehlo.CustomCallOp) -> None:
    """Write the node that the importer keeps as a call of `@onnx.Name`."""
    target, config = op.call_target_name.data, op.backend_config
    if not target.startswith(_PREFIX) or not isinstance(config, DictionaryAttr):
        raise Unsupported(f"call of '@{target}'")
    domain = _config_entry(config, "domain", StringAttr).data
    op_type = target.removeprefix(_PREFIX).removeprefix(f"{domain}.")
    version = _config_entry(config, "opset_version", IntegerAttr).value.data
    if domain:
        w.versions[domain] = max(version, w.versions.get(domain, 0))
    inputs = [w.operand(value) for value in op.inputs]
    names = [w.value_name(result) for result in op.result]
    for key, present in (("absent_operands", inputs), ("absent_results", names)):
        for index in _config_integers(_config_entry(config, key, DenseArrayBase)):
            present.insert(index, "")
    attributes = _config_entry(config, "attributes", DictionaryAttr).data
    values = {name: _python_value(value) for name, value in attributes.items()}
    results = [*filter(None, w.multi_node(op_type, inputs, names, values, domain))]
    if not domain and (
        _version_of_op(op_type, version) != _version_of_op(op_type, OPSET)
    ):
        _convert_last_node(w, op, version)
    for result, tensor in zip(op.result, results, strict=True):
        w.set_tensor(result, tensor)


def _convert_last_node(
    w: GraphWriter, op: stablehlo.CustomCallOp, version: int
) -> None:
    """Convert the last node, which has another definition in a version, to `OPSET`."""
    node = w.nodes.pop()
    values = (*zip(filter(None, node.input), op.inputs, strict=True),)
    results = (*zip(filter(None, node.output), op.result, strict=True),)
    inputs, outputs = (
        [w.declaration(name, value) for name, value in dict(pairs).items()]
        for pairs in (values, results)
    )
    model = onnx.helper.make_model(
        onnx.helper.make_graph([node], "node", inputs, outputs),
        opset_imports=[onnx.helper.make_opsetid("", version)],
    )
    try:
        converted = convert_version(model, OPSET).graph.node
    except Exception as e:  # its C++ code raises errors of many classes
        raise Unsupported(
            f"opset {version} defines '{node.op_type}' otherwise than {OPSET}, and it "
            "cannot be converted"
        ) from e
    names = {name: name for name, _ in (*values, *results)}
    for each in converted:
        for tensors in (each.input, each.output):
            for index, name in enumerate(tensors):
                if name and name not in names:
                    names[name] = w.name(f"{node.name}{name}")
                tensors[index] = names.get(name, "")
    w.nodes.extend(converted)


def _config_integers(attribute: Attribute) -> Sequence[int]:
    return cast("DenseArrayBase[I64]", attribute).get_values()


def _config_entry(config: DictionaryAttr, key: str, kind: type[_Kind]) -> _Kind:
    if not isinstance(value := config.data.get(key), kind):
        raise Unsupported(f"configuration without '{key}' of an ONNX node")
    return value


def _version_of_op(op_type: str, opset: int) -> int:
    """Return the opset that defines an op; 0 if there is none."""
    try:
        return onnx.defs.get_schema(op_type, opset).since_version
    except onnx.defs.SchemaError:
        return 0


def _python_value(attribute: Attribute) -> object:
    """Return the value of an attribute of a node: see `graph_builder`."""
    match attribute:
        case IntegerAttr() | FloatAttr():
            return attribute.value.data
        case StringAttr():
            return attribute.data
        case ArrayAttr():
            return [_python_value(each) for each in attribute.data]
        case DenseArrayBase():
            return _config_integers(attribute)
        case DenseIntOrFPElementsAttr() | DenseResourceAttr():
            return tensor_proto("", cast("ElementsAttr", attribute))
        case _:
            raise Unsupported(f"attribute '{attribute}'")


MOVEMENT_WRITERS: Mapping[type[Operation], Writer] = {
    stablehlo.BroadcastInDimOp: write_at_use,
    stablehlo.DynamicBroadcastInDimOp: write_at_use,
    stablehlo.DynamicReshapeOp: _reshape,
    stablehlo.ConcatenateOp: _concatenate,
    stablehlo.ConstantOp: write_at_use,
    stablehlo.CustomCallOp: _custom_call,
    stablehlo.GetDimensionSizeOp: _size_of_dimension,
    stablehlo.IotaOp: _iota,
    stablehlo.PadOp: _pad,
    stablehlo.ReshapeOp: _reshape,
    stablehlo.ReverseOp: _reverse,
    stablehlo.SliceOp: _slice,
    stablehlo.TransposeOp: _transpose,
}
"""Writers of data movement ops, constants and custom calls, by op."""
