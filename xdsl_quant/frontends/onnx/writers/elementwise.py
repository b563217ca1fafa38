"""Writers of elementwise ops."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import cast

from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness, i1, i16, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.dialects.quant import ScaledQuantizedType
from xdsl_quant.frontends.onnx.graph_writer import (
    BroadcastOp,
    GraphWriter,
    Layout,
    Writer,
    expressed_element_type,
    identity,
    known_number,
    quantized_type,
    source,
    stored_constant,
)
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect import chlo
from xdsl_quant.runtime.arrays import constant_elements
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported


def _common_layout(w: GraphWriter, values: Sequence[SSAValue]) -> Layout:
    """Return the layout of the first operand that is already written."""
    for value in values:
        if stored_constant(value) is None and not isinstance(
            source(value).owner, BroadcastOp
        ):
            return w.layout(value)
    return identity(len(shape_of(values[0])))


def _broadcast_operands(
    w: GraphWriter, values: Sequence[SSAValue], layout: Layout
) -> Sequence[str]:
    """Return the tensors of operands that the node broadcasts to the shape of the op."""
    rank = len(layout)
    is_full = [not isinstance(source(value).owner, BroadcastOp) for value in values]
    if not any(is_full):
        is_full[0] = True
    return [
        w.operand(value, layout)
        # The condition of a `select` may be a scalar.
        if full and len(shape_of(value)) == rank
        else w.broadcast_operand(value, layout if len(shape_of(value)) == rank else ())
        for value, full in zip(values, is_full, strict=True)
    ]


_LACKING_TYPES: Mapping[str, Mapping[Attribute, Attribute]] = {
    "Where": {
        i1: IntegerType(8, Signedness.UNSIGNED),
        i16: i32,
        IntegerType(16, Signedness.UNSIGNED): i32,
        IntegerType(64, Signedness.UNSIGNED): i64,
    },
    "Max": {i16: i32, IntegerType(16, Signedness.UNSIGNED): i32},
    "Min": {i16: i32, IntegerType(16, Signedness.UNSIGNED): i32},
}
"""Types that onnxruntime lacks, and the type in which they are computed, by op."""


def _supported_node(
    w: GraphWriter,
    op_type: str,
    tensors: Sequence[str],
    element_type: Attribute,
    name: str,
) -> str:
    """
    Write a node whose results have the type of its operands, but for the condition of
    `Where`, in a type that onnxruntime supports.
    """
    wide = _LACKING_TYPES.get(op_type, {}).get(element_type)
    if wide is None:
        return w.node(op_type, tensors, name)
    first = 1 if op_type == "Where" else 0
    values = [w.cast(tensor, wide) for tensor in tensors[first:]]
    return w.cast(w.node(op_type, [*tensors[:first], *values], name), element_type)


def write_elementwise(op_type: str, w: GraphWriter, op: Operation) -> None:
    """Write an op as a node on operands that are broadcast."""
    layout = _common_layout(w, op.operands)
    tensors = _broadcast_operands(w, op.operands, layout)
    result, element_type = op.results[0], expressed_element_type(op.results[0])
    name = w.value_name(result)
    w.result(result, _supported_node(w, op_type, tensors, element_type, name), layout)


def _node_chain(op_types: Sequence[str], w: GraphWriter, op: Operation) -> None:
    """Write an elementwise op as unary nodes after one another."""
    layout = _common_layout(w, op.operands)
    result, name = op.results[0], w.value_name(op.results[0])
    first, *others = op_types
    tensor = w.node(first, _broadcast_operands(w, op.operands, layout), name)
    for op_type in others:
        tensor = w.node(op_type, [tensor], name)
    w.result(result, tensor, layout)


def _is_storage_bound(
    op: Operation, number: SSAValue, value: SSAValue, end: int
) -> bool:
    """
    Return True if saturation has clamped a quantized value to a constant.

    Args:
        op: the op that clamps.
        number: the constant.
        value: the value.
        end: 0 for the lower bound, 1 for the upper one.
    """
    type_ = quantized_type(value.type)
    if type_ is None or not type_.is_per_tensor or op.results[0].type != value.type:
        return False
    if (
        known_number(number) == 0
        and type_.get_zero_points() == type_.storage_range[end]
    ):
        return True
    constant = source(number)
    while isinstance(constant.owner, BroadcastOp):
        constant = constant.owner.operand
    if element_type_of(constant) != type_:
        return False
    elements = constant_elements(constant)
    return elements is not None and bool((elements == type_.storage_range[end]).all())


def _maximum(w: GraphWriter, op: Operation) -> None:
    (result,) = op.results
    for value, number in (op.operands, op.operands[::-1]):
        if _is_storage_bound(op, number, value, 0):
            w.alias(result, value, lambda layout: layout)
            return
        if known_number(number) == 0 and _is_float(value):
            layout = w.layout(value)
            tensor = w.operand(value, layout)
            w.result(result, w.node("Relu", [tensor], w.value_name(result)), layout)
            return
    write_elementwise("Max", w, op)


def _is_float(value: SSAValue) -> bool:
    element_type = element_type_of(value)
    return isinstance(element_type, AnyFloat | ScaledQuantizedType)


def _clamp(w: GraphWriter, op: stablehlo.ClampOp) -> None:
    layout, name = w.layout(op.operand), w.value_name(op.result)
    ends = [
        (op_type, end)
        for index, (op_type, end) in enumerate((("Max", op.min), ("Min", op.max)))
        if not _is_storage_bound(op, end, op.operand, index)
    ]
    if not ends:
        w.alias(op.result, op.operand, lambda layout: layout)
        return
    tensor = w.operand(op.operand, layout)
    numbers = [known_number(end) for _, end in ends]
    if len(numbers) == 2 and None not in numbers:
        type_ = expressed_element_type(op.operand)
        inputs = [w.number(end, type_) for end in numbers if end is not None]
        tensor = w.node("Clip", [tensor, *inputs], name)
    elif [op_type for op_type, _ in ends] == ["Max"] and (
        numbers == [0] and _is_float(op.operand)
    ):
        tensor = w.node("Relu", [tensor], name)
    else:
        for op_type, end in ends:
            end_layout = layout if len(shape_of(end)) == len(layout) else ()
            bound = w.broadcast_operand(end, end_layout)
            tensor = w.node(op_type, [tensor, bound], name)
    w.result(op.result, tensor, layout)


_COMPARISONS = {
    "EQ": ("Equal",),
    "NE": ("Equal", "Not"),
    "GE": ("GreaterOrEqual",),
    "GT": ("Greater",),
    "LE": ("LessOrEqual",),
    "LT": ("Less",),
}


def _compare(w: GraphWriter, op: stablehlo.CompareOp) -> None:
    _node_chain(_COMPARISONS[op.comparison_direction.data.value], w, op)


def _convert(
    w: GraphWriter, op: stablehlo.ConvertOp | stablehlo.BitcastConvertOp
) -> None:
    layout = w.layout(op.operand)
    tensor = w.cast(w.operand(op.operand, layout), element_type_of(op.result))
    w.result(op.result, tensor, layout)


def _remainder(w: GraphWriter, op: stablehlo.RemainderOp) -> None:
    layout = _common_layout(w, op.operands)
    tensors = _broadcast_operands(w, op.operands, layout)
    name = w.value_name(op.result)
    w.result(op.result, w.node("Mod", tensors, name, fmod=1), layout)


def _boolean(op_type: str, w: GraphWriter, op: Operation) -> None:
    is_boolean = element_type_of(op.results[0]) == i1
    write_elementwise(op_type if is_boolean else f"Bitwise{op_type}", w, op)


def _shift_node(direction: str, w: GraphWriter, op: Operation) -> None:
    layout = _common_layout(w, op.operands)
    inputs = _broadcast_operands(w, op.operands, layout)
    w.result(op.results[0], _shifted_bits(direction, w, op, inputs), layout)


def _shifted_bits(
    direction: str, w: GraphWriter, op: Operation, inputs: Sequence[str]
) -> str:
    """Write a shift of unsigned integers. Shifts by the width or more give 0."""
    (result,), name = op.results, w.value_name(op.results[0])
    element_type = cast(IntegerType, element_type_of(result))
    width = element_type.bitwidth
    unsigned = IntegerType(width, Signedness.UNSIGNED)
    if element_type != unsigned:
        inputs = [w.cast(tensor, unsigned) for tensor in inputs]
    tensor = w.node("BitShift", inputs, name, direction=direction)
    amounts = constant_elements(op.operands[1])
    if element_type != unsigned:
        tensor = w.cast(tensor, element_type)
    if amounts is None or (amounts < 0).any() or (amounts >= width).any():
        is_small = w.node("Less", [inputs[1], w.number(width, unsigned)], "is_small")
        operands = [is_small, tensor, w.number(0, element_type)]
        tensor = _supported_node(w, "Where", operands, element_type, name)
    return tensor


def _shift_right_arithmetic(w: GraphWriter, op: Operation) -> None:
    """Write the shift of a negative integer as that of its complement."""
    layout = _common_layout(w, op.operands)
    value, amount = _broadcast_operands(w, op.operands, layout)
    (result,), name = op.results, w.value_name(op.results[0])
    zero = w.number(0, element_type_of(result))
    is_negative = w.node("Less", [value, zero], "is_negative")
    type_ = element_type_of(result)
    positive = _complement_if(w, is_negative, value, type_)
    shifted = _shifted_bits("RIGHT", w, op, [positive, amount])
    w.result(result, _complement_if(w, is_negative, shifted, type_, name), layout)


def _complement_if(
    w: GraphWriter,
    condition: str,
    tensor: str,
    type_: Attribute,
    name: str = "magnitude",
) -> str:
    complement = w.node("BitwiseNot", [tensor], "complement")
    operands = [condition, complement, tensor]
    return _supported_node(w, "Where", operands, type_, name)


def _convert_bits(w: GraphWriter, op: stablehlo.BitcastConvertOp) -> None:
    """Write a change of the sign of integers as a cast, which wraps."""
    types = element_type_of(op.operand), element_type_of(op.result)
    if shape_of(op.operand) != shape_of(op.result):
        raise Unsupported(f"bits of '{types[0]}' as '{types[1]}'")
    if all(isinstance(each, IntegerType) for each in types):
        _convert(w, op)
        return
    w.require_opset(_BITCAST_OPSET)
    layout, name = w.layout(op.operand), w.value_name(op.result)
    tensor, data_type = w.operand(op.operand, layout), w.data_type(types[1])
    w.result(op.result, w.node("BitCast", [tensor], name, to=data_type), layout)


_BITCAST_OPSET = 26
"""First opset with `BitCast`."""


def _rounded_away_from_zero(w: GraphWriter, op: Operation) -> None:
    """Write the rounding of halves away from zero, which is exact for all floats."""
    (operand,), (result,) = op.operands, op.results
    layout, name = w.layout(operand), w.value_name(result)
    half, type_ = w.number(0.5, element_type_of(result)), element_type_of(result)
    tensor = w.operand(operand, layout)
    magnitude = w.node("Abs", [tensor], name)
    floor = w.node("Floor", [magnitude], name)
    fraction = w.node("Sub", [magnitude, floor], name)
    is_up = w.node("GreaterOrEqual", [fraction, half], name)
    rounded = w.node("Add", [floor, w.cast(is_up, type_)], name)
    sign = w.node("Sign", [tensor], name)
    w.result(result, w.node("Mul", [sign, rounded], name), layout)


def _is_finite(w: GraphWriter, op: Operation) -> None:
    (operand,), (result,) = op.operands, op.results
    layout, name = w.layout(operand), w.value_name(result)
    tensor = w.operand(operand, layout)
    parts = [w.node(op_type, [tensor], name) for op_type in ("IsInf", "IsNaN")]
    tensor = w.node("Not", [w.node("Or", parts, name)], name)
    w.result(result, tensor, layout)


def _infinity_test(signs: Mapping[str, int], w: GraphWriter, op: Operation) -> None:
    (operand,), (result,) = op.operands, op.results
    layout, name = w.layout(operand), w.value_name(result)
    tensor = w.node("IsInf", [w.operand(operand, layout)], name, **signs)
    w.result(result, tensor, layout)


def _exponential_minus_one(w: GraphWriter, op: Operation) -> None:
    """Write `tanh(x / 2) * (exp(x) + 1)`, which is accurate for small numbers, too."""
    (operand,), (result,) = op.operands, op.results
    layout, name = w.layout(operand), w.value_name(result)
    type_, tensor = element_type_of(operand), w.operand(operand, layout)
    half = w.node("Mul", [tensor, w.number(0.5, type_)], name)
    power = w.node("Exp", [tensor], name)
    increased = w.node("Add", [power, w.number(1, type_)], name)
    tensor = w.node("Mul", [w.node("Tanh", [half], name), increased], name)
    w.result(result, tensor, layout)


def _log_plus_one(w: GraphWriter, op: Operation) -> None:
    """Write `2 * atanh(x / (2 + x))` for small numbers, otherwise `log(1 + x)`."""
    (operand,), (result,) = op.operands, op.results
    layout, name = w.layout(operand), w.value_name(result)
    type_, tensor = element_type_of(operand), w.operand(operand, layout)
    one, two = w.number(1, type_), w.number(2, type_)
    quotient = w.node("Div", [tensor, w.node("Add", [tensor, two], name)], name)
    small = w.node("Mul", [w.node("Atanh", [quotient], name), two], name)
    large = w.node("Log", [w.node("Add", [tensor, one], name)], name)
    is_small = w.node("Less", [w.node("Abs", [tensor], name), one], name)
    w.result(result, w.node("Where", [is_small, small, large], name), layout)


def _square(w: GraphWriter, op: Operation) -> None:
    (operand,), (result,) = op.operands, op.results
    layout, name = w.layout(operand), w.value_name(result)
    w.result(result, w.node("Mul", [w.operand(operand, layout)] * 2, name), layout)


ELEMENTWISE_WRITERS: Mapping[type[Operation], Writer] = {
    stablehlo.AbsOp: partial(write_elementwise, "Abs"),
    stablehlo.AddOp: partial(write_elementwise, "Add"),
    stablehlo.AndOp: partial(_boolean, "And"),
    stablehlo.BitcastConvertOp: _convert_bits,
    stablehlo.CeilOp: partial(write_elementwise, "Ceil"),
    stablehlo.ClampOp: _clamp,
    stablehlo.CompareOp: _compare,
    stablehlo.ConvertOp: _convert,
    stablehlo.CosineOp: partial(write_elementwise, "Cos"),
    stablehlo.ExponentialMinusOneOp: _exponential_minus_one,
    stablehlo.ExponentialOp: partial(write_elementwise, "Exp"),
    stablehlo.FloorOp: partial(write_elementwise, "Floor"),
    stablehlo.IsFiniteOp: _is_finite,
    stablehlo.LogOp: partial(write_elementwise, "Log"),
    stablehlo.LogPlusOneOp: _log_plus_one,
    stablehlo.LogisticOp: partial(write_elementwise, "Sigmoid"),
    stablehlo.MaximumOp: _maximum,
    stablehlo.MinimumOp: partial(write_elementwise, "Min"),
    stablehlo.MultiplyOp: partial(write_elementwise, "Mul"),
    stablehlo.NegateOp: partial(write_elementwise, "Neg"),
    stablehlo.NotOp: partial(_boolean, "Not"),
    stablehlo.OrOp: partial(_boolean, "Or"),
    stablehlo.PowerOp: partial(write_elementwise, "Pow"),
    stablehlo.RemainderOp: _remainder,
    stablehlo.RoundNearestAfzOp: _rounded_away_from_zero,
    stablehlo.RoundNearestEvenOp: partial(write_elementwise, "Round"),
    stablehlo.RsqrtOp: partial(_node_chain, ("Sqrt", "Reciprocal")),
    stablehlo.SelectOp: partial(write_elementwise, "Where"),
    stablehlo.ShiftLeftOp: partial(_shift_node, "LEFT"),
    stablehlo.ShiftRightArithmeticOp: _shift_right_arithmetic,
    stablehlo.ShiftRightLogicalOp: partial(_shift_node, "RIGHT"),
    stablehlo.SignOp: partial(write_elementwise, "Sign"),
    stablehlo.SineOp: partial(write_elementwise, "Sin"),
    stablehlo.SqrtOp: partial(write_elementwise, "Sqrt"),
    stablehlo.SubtractOp: partial(write_elementwise, "Sub"),
    stablehlo.TanOp: partial(write_elementwise, "Tan"),
    stablehlo.TanhOp: partial(write_elementwise, "Tanh"),
    stablehlo.XorOp: partial(_boolean, "Xor"),
    chlo.AcosOp: partial(write_elementwise, "Acos"),
    chlo.AcoshOp: partial(write_elementwise, "Acosh"),
    chlo.AsinOp: partial(write_elementwise, "Asin"),
    chlo.AsinhOp: partial(write_elementwise, "Asinh"),
    chlo.AtanOp: partial(write_elementwise, "Atan"),
    chlo.AtanhOp: partial(write_elementwise, "Atanh"),
    chlo.CoshOp: partial(write_elementwise, "Cosh"),
    chlo.ErfOp: partial(write_elementwise, "Erf"),
    chlo.IsInfOp: partial(_infinity_test, {}),
    chlo.IsNegInfOp: partial(_infinity_test, {"detect_positive": 0}),
    chlo.IsPosInfOp: partial(_infinity_test, {"detect_negative": 0}),
    chlo.SinhOp: partial(write_elementwise, "Sinh"),
    chlo.SquareOp: _square,
}
"""Writers of elementwise ops, by op."""
