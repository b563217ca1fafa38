"""Writers of casts between floats, stored values and quantized values."""

from collections.abc import Mapping
from functools import partial

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    IntegerType,
    Signedness,
    StringAttr,
)
from xdsl.dialects.tensor import FromElementsOp
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.dialects.quant import (
    ChooseParametersOp,
    DequantizeCastOp,
    DynamicDequantizeCastOp,
    DynamicQuantizeCastOp,
    QuantizeCastOp,
    StorageCastOp,
)
from xdsl_quant.dialects.quant.dynamic_ops import DynamicCastOp
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.onnx.graph_writer import (
    GraphWriter,
    Writer,
    file_element_type,
    is_accumulator,
    quantized_type,
    stored_constant,
)
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.runtime.arrays import integer_width, numpy_dtype
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported


def write_at_use(w: GraphWriter, op: Operation) -> None:
    """Write nothing: users write constants and broadcasts, and see through casts."""


def _quantize(w: GraphWriter, op: Operation) -> None:
    (operand,), (result,) = op.operands, op.results
    if stored_constant(operand) is not None and _is_wider(operand, result):
        w.alias(result, operand, lambda layout: layout)
        return
    _check_onnx_cast(op)
    layout = w.layout(operand)
    w.result(result, w.operand(operand, layout), layout)


_ROUNDING = {
    "quant.rounding_mode": "nearest-even",
    "quant.zero_point_order": "after-rounding",
}
"""Attributes of a cast that rounds as ONNX's `QuantizeLinear`."""


def _check_onnx_cast(op: Operation) -> None:
    """Refuse casts to 32 bits, and casts that state another rounding than ONNX's."""
    for name, value in _ROUNDING.items():
        stated = op.attributes.get(name)
        if isinstance(stated, StringAttr) and stated.data != value:
            raise Unsupported(f"{name} is '{stated.data}'; ONNX has '{value}'")
    is_float = isinstance(element_type_of(op.operands[0]), AnyFloat)
    if is_float and is_accumulator(op.results[0].type):
        raise Unsupported("quantization of floats to 32 bits")


def _is_wider(operand: SSAValue, result: SSAValue) -> bool:
    """Return True if the type of the result has the numbers of that of the operand."""
    types = quantized_type(operand.type), quantized_type(result.type)
    if types[0] is None or types[1] is None or types[0].axis != types[1].axis:
        return False
    (low, high), (lowest, highest) = (type_.storage_range for type_ in types if type_)
    parameters = [(t.get_scales(), t.get_zero_points()) for t in types if t]
    return lowest <= low and high <= highest and all(map(np.array_equal, *parameters))


def _scast(w: GraphWriter, op: Operation) -> None:
    """Reinterpret stored values, or convert signless ones to unsigned ones."""
    (operand,), (result,) = op.operands, op.results
    if stored_constant(result) is not None:
        return
    if (type_ := quantized_type(result.type)) is not None:
        stored, target = w.operand(operand), file_element_type(type_)
        if target != element_type_of(operand):
            stored = w.cast(stored, target)
        w.set_stored(result, stored)
        return
    stored = w.stored(operand)
    if (type_ := quantized_type(operand.type)) is not None and (
        file_element_type(type_) != element_type_of(result)
    ):
        stored = w.cast(stored, element_type_of(result))
    w.set_tensor(result, stored)


# Scales of data


def _type_of_stored_values(op: DynamicCastOp | ChooseParametersOp) -> Attribute:
    """Return the element type of stored values in the file."""
    stored, width = op.storage.stored_type, op.storage.storage_type_integral_width
    if isinstance(stored, IntegerType) and not op.storage.is_signed:
        stored = IntegerType(width, Signedness.UNSIGNED)
    if op.storage.has_storage_type_bounds:
        raise Unsupported(f"storage range of '{op.storage}'")
    return stored


def _dynamic_cast(op_type: str, w: GraphWriter, op: DynamicCastOp) -> None:
    """Write a cast whose scales and zero points are tensors."""
    stored, name = _type_of_stored_values(op), w.value_name(op.result)
    inputs = [w.operand(op.input), w.operand(op.scale)]
    if op.input is op.stored:
        inputs[0] = _node_of_conversion(w, inputs[0], op.input, stored)
    if op.zero_point is not None:
        zero_point = w.operand(op.zero_point)
        inputs.append(_node_of_conversion(w, zero_point, op.zero_point, stored))
    elif op.input is not op.stored:
        # It has the type of the results.
        inputs.append(_zeros_like(w, op.scale, stored))
    if integer_width(stored) not in (8, 32):
        w.require_narrow_types()
    tensor = w.node(op_type, inputs, name, **_block_attributes(w, op))
    if op.result is op.stored and stored != element_type_of(op.result):
        tensor = w.cast(tensor, element_type_of(op.result))
    w.result(op.result, tensor)


def _zeros_like(w: GraphWriter, scale: SSAValue, stored: Attribute) -> str:
    """Return the tensor of a zero point 0 for each scale."""
    if DYNAMIC_INDEX not in (shape := shape_of(scale)):
        zeros = np.zeros(shape, numpy_dtype(stored))
        return w.initializer(zeros, stored, "zero_point")
    sizes = w.node("Shape", [w.operand(scale)], "scale_shape")
    return w.node("Expand", [w.number(0, stored), sizes], "zero_point")


def _node_of_conversion(
    w: GraphWriter, tensor: str, value: SSAValue, element_type: Attribute
) -> str:
    is_known = element_type_of(value) == element_type
    return tensor if is_known else w.cast(tensor, element_type)


def _block_attributes(w: GraphWriter, op: DynamicCastOp) -> Mapping[str, int]:
    """Return the axis and the size of blocks, one along a dimension."""
    sizes = op.quantized_dimensions.get_values(), op.block_sizes.get_values()
    blocks = dict(zip(*sizes, strict=True))
    if not blocks:
        return {}
    large = [axis for axis, size in blocks.items() if size > 1]
    if not large and len(blocks) == 1:
        return {"axis": next(iter(blocks))}
    if len(large) != 1 or len(blocks) != len(shape_of(op.input)):
        raise Unsupported("blocks along several dimensions")
    w.require_narrow_types()
    return {"axis": large[0], "block_size": blocks[large[0]]}


def _choose_parameters(w: GraphWriter, op: ChooseParametersOp) -> None:
    is_byte = _type_of_stored_values(op) == IntegerType(8, Signedness.UNSIGNED)
    is_whole = not op.quantized_dimensions.get_values()
    if op.zero_point is None or not is_byte or not is_whole:
        raise Unsupported("parameters other than those of one 'u8' per tensor")
    names = ["quantized", w.value_name(op.scale), w.value_name(op.zero_point)]
    inputs = [w.operand(op.input)]
    _, scale, zero_point = w.multi_node("DynamicQuantizeLinear", inputs, names, {})
    w.result(op.scale, scale)
    w.result(
        op.zero_point, w.cast(zero_point, scalar_or_element_type(op.zero_point.type))
    )


def _scalar_tensor(w: GraphWriter, op: FromElementsOp) -> None:
    """Write a scalar that becomes a tensor: both are tensors of one element in ONNX."""
    if len(op.elements) != 1:
        raise Unsupported("tensor of several scalars")
    tensor = w.operand(op.elements[0])
    if sizes := shape_of(op.result):
        tensor = w.node("Reshape", [tensor, w.integers(sizes)], w.value_name(op.result))
    w.result(op.result, tensor)


CAST_WRITERS: Mapping[type[Operation], Writer] = {
    QuantizeCastOp: _quantize,
    ChooseParametersOp: _choose_parameters,
    DequantizeCastOp: write_at_use,
    DynamicDequantizeCastOp: partial(_dynamic_cast, "DequantizeLinear"),
    FromElementsOp: _scalar_tensor,
    DynamicQuantizeCastOp: partial(_dynamic_cast, "QuantizeLinear"),
    StorageCastOp: _scast,
    stablehlo.UniformQuantizeOp: _quantize,
    stablehlo.UniformDequantizeOp: write_at_use,
}
"""Writers of casts, by op."""
