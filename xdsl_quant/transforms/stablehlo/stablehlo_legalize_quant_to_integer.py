"""
Quantized StableHLO ops as integer arithmetic on stored values, through multipliers and
shifts.

With `a`, `b` stored values less their zero points, `z` the zero point of the result and
`scaled(x, M, S) = (x * M + (1 << (S - 1))) >> S`, the stored values of the result are

| op | stored value before it is clamped to the storage range |
|---|---|
| `uniform_quantize` of a quantized tensor | `scaled(a, M, S) + z` |
| `add`, `subtract` | `((a * M1 ± b * M2 + (1 << (S - 1))) >> S) + z` |
| `multiply` | `scaled(a * b, M, S) + z` |
| `negate`, `abs` | `scaled(-a, M, S) + z`, `scaled(max(a, -a), M, S) + z` |
| `dot_general`, `convolution` | `scaled(sum(a * b), M, S) + z` |

`M` and `S` are those of [`rescale_multiplier`][xdsl_quant.numerics.rescale_multiplier] for
the exact quotient of scales: the product of those of the operands, or one of these, by that
of the result. If `x` may have more than 32 bits, the lowest bits of `M` are rounded away,
up in the middle, so that `x * M` fits 64 bits. For a sum, `S` is the smaller one of both
shifts and the other multiplier is rounded to it; then both lose bits until the products fit
63 bits. A quotient that is 1 is not multiplied by. Where a sum could still be off by more
than a quarter of a unit, as with storage of 32 bits, `M1` and `M2` have two parts of up to
30 bits each, and so have the products: `(high + (low >> bits) + (1 << (S - 1))) >> S`.

With `rounding=double` the product of `scaled` is rounded as TOSA's `apply_scale_32` does
with double rounding, where `x` has up to 32 bits. Sums of `add` and `subtract` and wider
integers are always rounded once.

`maximum`, `minimum`, `clamp` and `select` are applied to stored values, after those of
operands whose type is not that of the result were rescaled as `uniform_quantize` does.
`compare` compares `a * P` with `b * Q`, where `P / Q` is about the quotient of scales: see
`comparison_factors` in `integers.scales`.

Other ops: a constant becomes one of stored values; what only moves elements is applied to
stored values. A `reduce` of one type whose region is one `add`, `maximum` or `minimum`
becomes one of stored values, where the sum is `a + b + z`, clamped at each step. All the
rest keeps its quantized types, with `quant.scast` before and after it, or becomes
dequantization, the op on floats, and quantization.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, cast

from xdsl.context import Context
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    IntegerType,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue, TypeAttribute
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.diagnostics import fail
from xdsl_quant.dialects.quant import (
    QuantizedType,
    StorageCastOp,
    StoredQuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.fixed_point_types import (
    FixedPointQuantizedPerAxisType,
    FixedPointQuantizedType,
    FixedPointType,
)
from xdsl_quant.dialects.quant.types import (
    UniformType,
    scalar_or_element_type,
    with_element_type,
)
from xdsl_quant.dialects.stablehlo import (
    AbsOp,
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    CompareOp,
    ConcatenateOp,
    ConstantOp,
    ConvolutionOp,
    DotGeneralOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    NegateOp,
    PadOp,
    ReduceOp,
    ReshapeOp,
    ReturnOp,
    SelectOp,
    SliceOp,
    SubtractOp,
    TransposeOp,
    UniformQuantizeOp,
)
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.fixed_point_arithmetic import (
    add,
    apply_scale,
    clamp_and_truncate,
    extend,
    i64_constant,
    subtract,
)
from xdsl_quant.transforms.building.garbage_collection import without_garbage_collection
from xdsl_quant.transforms.building.quantization_arithmetic import unsupported_reason
from xdsl_quant.xdsl_patches import patched_pass

from .integers.generic import (
    Input,
    elementwise,
    identity,
    reduction,
    tensor_of,
)
from .integers.products import Product
from .integers.scales import (
    MULTIPLIER_BITS,
    Quantization,
    Scaling,
    comparison_factors,
    product_scaling,
    sum_scaling,
)
from .linalg.data_movement import elements_of_type
from .stablehlo_legalize_quantized_op_to_qdq import decompose, is_quantized_op

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ArithmeticOp = AddOp | SubtractOp | MultiplyOp | NegateOp | AbsOp | UniformQuantizeOp
_ProductOp = DotGeneralOp | ConvolutionOp
_OrderOp = MaximumOp | MinimumOp | ClampOp
_RescaledOp = _OrderOp | SelectOp
_RescalingOp = _ArithmeticOp | _ProductOp | _RescaledOp | CompareOp
_ReducingOp = AddOp | MaximumOp | MinimumOp
_MovingOp = (
    ReshapeOp
    | TransposeOp
    | BroadcastInDimOp
    | ConcatenateOp
    | SliceOp
    | PadOp
    | SelectOp
)

Emission = Callable[[LoweringBuilder, Sequence[SSAValue]], SSAValue]
"""Adds the ops that compute stored values of a result from those of the operands."""


def _stored_type(type_: Attribute) -> StoredQuantizedType | None:
    quantized_type = QuantizedType.get_quantized_element_type(type_)
    return quantized_type if isinstance(quantized_type, StoredQuantizedType) else None


def _storage(type_: Attribute) -> TensorType[IntegerType]:
    """The type of the stored values of a quantized tensor."""
    quantized_type = _stored_type(type_)
    assert quantized_type is not None
    return tensor_of(cast(TensorType, type_), quantized_type.signless_storage_type)


# Numbers, in the body of a generic


def _centred(
    builder: LoweringBuilder,
    stored: SSAValue,
    quantization: Quantization,
    zero_point: SSAValue | None,
) -> SSAValue:
    value = extend(builder, stored, quantization.quantized_type.is_signed)
    return value if zero_point is None else subtract(builder, value, zero_point)


def _rounded_shift(
    builder: LoweringBuilder, value: SSAValue, shift: SSAValue
) -> SSAValue:
    """A number divided by a power of two, and rounded to nearest, up in the middle."""
    one = i64_constant(builder, 1)
    but_one = subtract(builder, shift, one)
    halves = builder.elementwise(arith.ShRSIOp, (value, but_one), i64)
    return builder.elementwise(arith.ShRSIOp, (add(builder, halves, one), one), i64)


def _scaled_sum(
    builder: LoweringBuilder,
    combine: Callable[[LoweringBuilder, SSAValue, SSAValue], SSAValue],
    values: Sequence[SSAValue],
    scaling: Scaling,
    numbers: Mapping[str, SSAValue],
) -> SSAValue:
    """The sum or difference of two integers, each multiplied by its own scaling."""
    sums = [
        combine(
            builder,
            _multiply(builder, values[0], numbers[f"{kind}multiplier"]),
            _multiply(builder, values[1], numbers[f"other_{kind}multiplier"]),
        )
        for kind in (("", "low_") if scaling.low_parts else ("",))
    ]
    value = sums[0]
    if scaling.low_parts:
        bits = i64_constant(builder, scaling.bits)
        # What this rounds down is less than one, and what is rounded later is an integer.
        carried = builder.elementwise(arith.ShRSIOp, (sums[1], bits), i64)
        value = add(builder, value, carried)
    return _rounded_shift(builder, value, numbers["shift"])


def _multiply(builder: LoweringBuilder, value: SSAValue, other: SSAValue) -> SSAValue:
    flags = {"overflowFlags": arith.IntegerOverflowAttr("none")}
    return builder.elementwise(arith.MuliOp, (value, other), i64, flags)


def _parameters(
    scaling: Scaling, zero_points: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """The numbers that a body uses, with their names."""
    parameters = {name: array for name, array in zero_points.items() if array.any()}
    if scaling.is_one:
        return parameters
    for kind, arrays in (("", scaling.multipliers), ("low_", scaling.low_parts)):
        names = (f"{kind}multiplier", f"other_{kind}multiplier")
        parameters |= dict(zip(names, arrays, strict=False))
    parameters["shift"] = scaling.shifts
    return parameters


@dataclass(frozen=True)
class _Rescaling:
    """The last step of every op: what was computed in units of its scale is scaled."""

    scaling: Scaling
    target: Quantization
    rounding: ScaleRounding

    def scaled(
        self, builder: LoweringBuilder, value: SSAValue, numbers: Mapping[str, SSAValue]
    ) -> SSAValue:
        """An integer multiplied by the scaling."""
        if self.scaling.is_one:
            return value
        # Wider integers are always rounded once.
        rounding = self.rounding if self.scaling.bits == MULTIPLIER_BITS else "single"
        return apply_scale(
            builder, value, numbers["multiplier"], numbers["shift"], rounding
        )

    def stored(
        self, builder: LoweringBuilder, value: SSAValue, numbers: Mapping[str, SSAValue]
    ) -> SSAValue:
        """The stored value of a scaled integer."""
        if (zero_point := numbers.get("zero_point")) is not None:
            value = add(builder, value, zero_point)
        quantized_type = self.target.quantized_type
        return clamp_and_truncate(
            builder,
            value,
            quantized_type.storage_type_min.data,
            quantized_type.storage_type_max.data,
            quantized_type.signless_storage_type,
        )


# Ops


def _quantizations(types: Sequence[Attribute]) -> list[Quantization]:
    """How tensors are quantized, in terms of the dimensions of the last one."""
    rank = len(cast(TensorType, types[-1]).get_shape())
    stored_types = map(_stored_type, types)
    return [Quantization(type_, rank) for type_ in stored_types if type_ is not None]


def _arithmetic(
    op_type: type[Operation], types: Sequence[Attribute], rounding: ScaleRounding
) -> Emission:
    """An op on operands of all types but the last one, which is that of the result."""
    result_type = _storage(types[-1])
    rank = len(result_type.get_shape())
    *operands, target = _quantizations(types)
    is_sum = op_type in (AddOp, SubtractOp)
    if is_sum:
        scaling = sum_scaling(operands, target)
    else:
        largest = 1
        for operand in operands:
            largest *= operand.largest
        scaling = product_scaling(operands, target, largest)
    rescaling = _Rescaling(scaling, target, rounding)
    combine = subtract if op_type is SubtractOp else add
    names = ("operand_zero_point", "other_zero_point")
    zero_points = {
        name: operand.zero_points
        for name, operand in zip(names, operands, strict=False)
    }
    parameters = _parameters(scaling, {**zero_points, "zero_point": target.zero_points})

    def body(
        builder: LoweringBuilder,
        stored: Sequence[SSAValue],
        numbers: Mapping[str, SSAValue],
    ) -> SSAValue:
        values = [
            _centred(builder, value, operand, numbers.get(name))
            for name, value, operand in zip(names, stored, operands, strict=False)
        ]
        if not is_sum:
            value = _PRODUCTS[op_type](builder, *values)
            value = rescaling.scaled(builder, value, numbers)
        elif scaling.is_one:
            value = combine(builder, *values)
        else:
            value = _scaled_sum(builder, combine, values, scaling, numbers)
        return rescaling.stored(builder, value, numbers)

    def emit(builder: LoweringBuilder, stored: Sequence[SSAValue]) -> SSAValue:
        inputs = [Input(value, identity(rank)) for value in stored]
        return elementwise(builder, inputs, parameters, result_type, body)

    return emit


def _product(op: _ProductOp, rounding: ScaleRounding) -> Emission:
    result_type = _storage(op.result.type)
    lhs_type, rhs_type, target_type = map(
        _stored_type, (*op.operand_types, op.result.type)
    )
    assert lhs_type is not None
    assert rhs_type is not None
    assert target_type is not None
    product = Product(op, lhs_type, rhs_type)
    target = Quantization(target_type, len(result_type.get_shape()))
    scaling = product_scaling([product.lhs, product.rhs], target, product.largest)
    rescaling = _Rescaling(scaling, target, rounding)
    zero_points = {
        "operand_zero_point": product.lhs.zero_points,
        "zero_point": target.zero_points,
    }
    parameters = _parameters(scaling, zero_points)

    def body(
        builder: LoweringBuilder,
        sums: Sequence[SSAValue],
        numbers: Mapping[str, SSAValue],
    ) -> SSAValue:
        value, *others = (_as_i64(builder, number) for number in sums)
        for rhs_sum in others:
            correction = _multiply(builder, rhs_sum, numbers["operand_zero_point"])
            value = subtract(builder, value, correction)
        value = rescaling.scaled(builder, value, numbers)
        return rescaling.stored(builder, value, numbers)

    def emit(builder: LoweringBuilder, stored: Sequence[SSAValue]) -> SSAValue:
        inputs = product.sums(builder, *stored)
        return elementwise(builder, inputs, parameters, result_type, body)

    return emit


def _same(builder: LoweringBuilder, value: SSAValue) -> SSAValue:
    return value


def _negate(builder: LoweringBuilder, value: SSAValue) -> SSAValue:
    return subtract(builder, i64_constant(builder, 0), value)


def _absolute(builder: LoweringBuilder, value: SSAValue) -> SSAValue:
    return builder.elementwise(arith.MaxSIOp, (value, _negate(builder, value)), i64)


_PRODUCTS: Mapping[type[Operation], Callable[..., SSAValue]] = {
    AbsOp: _absolute,
    MultiplyOp: _multiply,
    NegateOp: _negate,
    UniformQuantizeOp: _same,
}
"""What is computed of integers before it is scaled."""


def _as_i64(builder: LoweringBuilder, number: SSAValue) -> SSAValue:
    return number if number.type == i64 else extend(builder, number, True)


def _order_ops(
    quantized_type: StoredQuantizedType,
) -> tuple[type[Operation], type[Operation]]:
    """The ops for the larger and for the smaller stored value."""
    if quantized_type.is_signed:
        return arith.MaxSIOp, arith.MinSIOp
    return arith.MaxUIOp, arith.MinUIOp


def _order(op: _OrderOp) -> Emission:
    """The larger or smaller stored value."""
    result_type = _storage(op.result.type)
    quantized_type = _stored_type(op.result.type)
    assert quantized_type is not None
    largest, smallest = _order_ops(quantized_type)
    element_type = quantized_type.signless_storage_type

    def body(
        builder: LoweringBuilder, stored: Sequence[SSAValue], _: Mapping[str, SSAValue]
    ) -> SSAValue:
        if not isinstance(op, ClampOp):
            order = largest if isinstance(op, MaximumOp) else smallest
            return builder.elementwise(order, stored, element_type)
        value, low, high = stored
        value = builder.elementwise(largest, (value, low), element_type)
        return builder.elementwise(smallest, (value, high), element_type)

    def emit(builder: LoweringBuilder, stored: Sequence[SSAValue]) -> SSAValue:
        if isinstance(op, ClampOp):
            low, value, high = stored
            stored = (value, low, high)
        inputs = [
            Input(value, identity(len(cast(TensorType, value.type).get_shape())))
            for value in stored
        ]
        return elementwise(builder, inputs, {}, result_type, body)

    return emit


def _compare(op: CompareOp) -> Emission:
    """Whether a relation holds between two values, each in units of its own scale."""
    result_type = cast(TensorType, op.result.type)
    operands = _quantizations(op.operand_types)
    is_plain = _have_one_meaning(op.operand_types)
    is_signed = operands[0].quantized_type.is_signed or not is_plain
    direction = op.comparison_direction.data.value.lower()
    prefix = "" if direction in ("eq", "ne") else "s" if is_signed else "u"
    parameters: dict[str, NDArray[Any]] = {}
    factors = (1, 1)
    if not is_plain:
        factors = comparison_factors(*operands)
        parameters = {
            name: operand.zero_points
            for name, operand in zip(("lhs", "rhs"), operands, strict=True)
            if operand.zero_points.any()
        }

    def in_one_unit(
        builder: LoweringBuilder,
        stored: SSAValue,
        index: int,
        zero_point: SSAValue | None,
    ) -> SSAValue:
        if is_plain:
            return stored
        value = _centred(builder, stored, operands[index], zero_point)
        if (factor := factors[index]) == 1:
            return value
        return _multiply(builder, value, i64_constant(builder, factor))

    def body(
        builder: LoweringBuilder,
        stored: Sequence[SSAValue],
        numbers: Mapping[str, SSAValue],
    ) -> SSAValue:
        lhs = in_one_unit(builder, stored[0], 0, numbers.get("lhs"))
        rhs = in_one_unit(builder, stored[1], 1, numbers.get("rhs"))
        comparison = arith.CmpiOp(lhs, rhs, prefix + direction)
        return builder.add(comparison)

    def emit(builder: LoweringBuilder, stored: Sequence[SSAValue]) -> SSAValue:
        exprs = identity(len(result_type.get_shape()))
        inputs = [Input(value, exprs) for value in stored]
        return elementwise(builder, inputs, parameters, result_type, body)

    return emit


def _rescaled(op: _RescaledOp, rounding: ScaleRounding) -> Emission:
    """An op on operands that are given the scale and the zero point of the result."""
    emission = _order(op) if isinstance(op, _OrderOp) else _move(op)
    target = scalar_or_element_type(op.result.type)
    rescalings: dict[int, Emission] = {}
    for i, type_ in enumerate(op.operand_types):
        if _stored_type(type_) is None or _have_one_meaning((type_, op.result.type)):
            continue
        types = type_, with_element_type(type_, cast(TypeAttribute, target))
        rescalings[i] = _arithmetic(UniformQuantizeOp, types, rounding)

    def emit(builder: LoweringBuilder, stored: Sequence[SSAValue]) -> SSAValue:
        operands = [
            rescalings[i](builder, (value,)) if i in rescalings else value
            for i, value in enumerate(stored)
        ]
        return emission(builder, operands)

    return emit


def _move(op: _MovingOp) -> Emission:
    def emit(builder: LoweringBuilder, stored: Sequence[SSAValue]) -> SSAValue:
        result_type = _storage(op.result.type)
        return builder.op(type(op), stored, result_type, op.properties)

    return emit


def _constant(op: ConstantOp) -> Emission:
    storage = _storage(op.output.type)
    stored = elements_of_type(op.value, storage)

    def emit(builder: LoweringBuilder, _: Sequence[SSAValue]) -> SSAValue:
        return builder.op(ConstantOp, (), storage, {"value": stored})

    return emit


# Reductions


def _reducing_op(op: ReduceOp) -> _ReducingOp | None:
    """The op that a region consists of, if it is one on both arguments."""
    if len(op.body.blocks) != 1:
        return None
    block = op.body.block
    ops = [*block.ops]
    if len(ops) != 2 or len(block.args) != 2:
        return None
    inner, last = ops
    if not isinstance(inner, _ReducingOp) or not isinstance(last, ReturnOp):
        return None
    is_whole = {*inner.operands} == {*block.args} and [*last.operands] == [inner.result]
    return inner if is_whole else None


def _reduce(op: ReduceOp) -> Emission | None:
    """
    A reduction of stored values. Where all types are the same, the scale cancels out.

    Raises:
        ValueError: if there is no arithmetic on the stored values.
    """
    if (inner := _reducing_op(op)) is None:
        return None
    values = (*op.operands, *op.results, *inner.operands, inner.result)
    (quantized_type, *others) = {scalar_or_element_type(value.type) for value in values}
    if others or not isinstance(
        quantized_type, UniformQuantizedType | FixedPointQuantizedType
    ):
        return None
    if any(cast(TensorType, value.type).get_shape() for value in inner.operands):
        return None
    if (reason := unsupported_reason(quantized_type)) is not None:
        raise ValueError(reason)
    reduced = op.dimensions.get_values()
    rank = len(cast(TensorType, op.operands[0].type).get_shape())
    kept = [dimension for dimension in range(rank) if dimension not in reduced]

    def body(builder: LoweringBuilder, stored: Sequence[SSAValue]) -> SSAValue:
        return _combined(builder, inner, quantized_type, stored)

    def emit(builder: LoweringBuilder, stored: Sequence[SSAValue]) -> SSAValue:
        value, init_value = stored
        storage_type = quantized_type.signless_storage_type
        init_value = builder.op(tensor.ExtractOp, (init_value,), storage_type)
        result_type = _storage(op.results[0].type)
        return reduction(builder, value, init_value, kept, result_type, body)

    return emit


def _combined(
    builder: LoweringBuilder,
    op: _ReducingOp,
    quantized_type: UniformQuantizedType | FixedPointQuantizedType,
    stored: Sequence[SSAValue],
) -> SSAValue:
    """The stored value that one step of a reduction gives."""
    storage_type = quantized_type.signless_storage_type
    if not isinstance(op, AddOp):
        largest, smallest = _order_ops(quantized_type)
        order = largest if isinstance(op, MaximumOp) else smallest
        return builder.elementwise(order, stored, storage_type)
    value, so_far = (extend(builder, s, quantized_type.is_signed) for s in stored)
    value = add(builder, value, so_far)
    if zero_point := quantized_type.zero_point.data:
        value = subtract(builder, value, i64_constant(builder, zero_point))
    return clamp_and_truncate(
        builder,
        value,
        quantized_type.storage_type_min.data,
        quantized_type.storage_type_max.data,
        storage_type,
    )


# Which ops


def _quantized_values(op: Operation) -> list[SSAValue]:
    """The operands and results that have to be quantized."""
    operands = op.operands[1:] if isinstance(op, SelectOp) else op.operands
    return [*operands] if isinstance(op, CompareOp) else [*operands, *op.results]


def _meaning(quantized_type: StoredQuantizedType) -> Sequence[Attribute]:
    """What stored values mean, wherever the quantized dimension is."""
    parameters = quantized_type.parameters
    if isinstance(
        quantized_type, UniformQuantizedPerAxisType | FixedPointQuantizedPerAxisType
    ):
        # It is the last one.
        return parameters[:-1]
    return parameters


def _have_one_meaning(types: Sequence[Attribute]) -> bool:
    """Whether stored values of tensors mean the same."""
    meanings = [
        _meaning(type_)
        for type_ in map(_stored_type, types)
        if isinstance(type_, UniformType | FixedPointType)
        and unsupported_reason(type_) is None
    ]
    return len(meanings) == len(types) and len({*map(tuple, meanings)}) == 1


def _emission(op: Operation, rounding: ScaleRounding) -> Emission | None:
    """
    How an op is computed with integers; `None` if it stays as it is.

    Raises:
        ValueError: if it is one that ought to be, but cannot.
    """
    if isinstance(op.parent_op(), ReduceOp):
        return None
    if isinstance(op, ReduceOp):
        return _reduce(op)
    if not isinstance(op, _RescalingOp | _MovingOp | ConstantOp):
        return None
    types = [value.type for value in _quantized_values(op)]
    if not all(map(_stored_type, types)):
        return None
    if isinstance(op, _RescalingOp):
        for type_ in types:
            reason = unsupported_reason(scalar_or_element_type(type_))
            if reason is not None:
                raise ValueError(reason)
    match op:
        case DotGeneralOp() | ConvolutionOp():
            return _product(op, rounding)
        case CompareOp():
            return _compare(op)
        case MaximumOp() | MinimumOp() | ClampOp() | SelectOp():
            return _rescaled(op, rounding)
        case ConstantOp():
            return _constant(op) if _have_one_meaning(types) else None
        case _ if isinstance(op, _MovingOp):
            return _move(op) if _have_one_meaning(types) else None
        case _:
            return _arithmetic(type(op), types, rounding)


# Values


@dataclass
class _StoredValues:
    """Stored values of quantized ones."""

    _casts: dict[SSAValue, StorageCastOp] = field(
        default_factory=dict[SSAValue, StorageCastOp]
    )
    _last_of: dict[Block, Operation] = field(default_factory=dict[Block, Operation])
    """For each block, the last cast of one of its arguments."""

    def of(self, value: SSAValue) -> SSAValue:
        """The stored values of a tensor, or another tensor itself."""
        if _stored_type(value.type) is None:
            return value
        if isinstance(cast_op := value.owner, StorageCastOp):
            return cast_op.input
        if (known := self._casts.get(value)) is None:
            known = self._casts[value] = self._cast(value)
        return known.result

    def _cast(self, value: SSAValue) -> StorageCastOp:
        """Cast a value where it is defined."""
        owner = value.owner
        quantized_type = _stored_type(value.type)
        assert quantized_type is not None
        cast_op = StorageCastOp.create(
            operands=(value,),
            result_types=(
                with_element_type(value.type, quantized_type.signless_storage_type),
            ),
        )
        if isinstance(owner, Operation):
            cast_op.location = owner.location
            Rewriter.insert_op(cast_op, InsertPoint.after(owner))
            return cast_op
        last = self._last_of.get(owner)
        Rewriter.insert_op(
            cast_op,
            InsertPoint.at_start(owner) if last is None else InsertPoint.after(last),
        )
        self._last_of[owner] = cast_op
        return cast_op


def _replace(
    op: Operation, emission: Emission, values: _StoredValues
) -> StorageCastOp | None:
    """Replace an op, and return the cast of the result if that is quantized."""
    builder = LoweringBuilder.before(op)
    result = op.results[0]
    builder.name_hint = result.name_hint
    stored = emission(builder, [values.of(operand) for operand in op.operands])
    stored.name_hint = result.name_hint
    if stored.type == result.type:
        builder.replace(op, (stored,))
        return None
    cast_op = StorageCastOp(stored, result.type)
    builder.replace(op, (builder.add(cast_op),))
    return cast_op


@dataclass(frozen=True)
class StablehloLegalizeQuantToIntegerPass(ModulePass):
    """
    Replace quantized ops that have an integer form by arithmetic on stored integers: all
    but `divide`, `exponential`, `logistic`, `tanh`, products of floats and quantized
    weights, and a `reduce` by anything but one `add`, `maximum` or `minimum`.

    The result is at most one unit from that of `stablehlo-legalize-quantized-op-to-qdq`,
    for storage of up to 16 bits and floats that are as exact as that.
    """

    name = "stablehlo-legalize-quant-to-integer"

    rounding: ScaleRounding = "single"
    """How the product of an integer and a multiplier is rounded."""

    fallback: Literal["none", "qdq"] = "none"
    """
    What becomes of an op that has no integer form: `none` leaves it as it is, or fails if
    it is one whose types and sizes do not allow for the form that it has; `qdq` makes what
    `stablehlo-legalize-quantized-op-to-qdq` makes of it.
    """

    @patched_pass
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        emissions: dict[Operation, Emission] = {}
        others: list[Operation] = []
        for inner in op.walk():
            if (emission := self._emission(inner)) is not None:
                emissions[inner] = emission
            elif inner.parent_op() not in emissions and is_quantized_op(inner):
                others.append(inner)
        values = _StoredValues()
        with without_garbage_collection():
            if self.fallback == "qdq":
                for inner in others:
                    decompose(inner)
            casts = [
                _replace(inner, emission, values)
                for inner, emission in emissions.items()
            ]
            for cast_op in casts:
                if cast_op is not None and cast_op.result.first_use is None:
                    Rewriter.erase_op(cast_op)

    def _emission(self, op: Operation) -> Emission | None:
        try:
            return _emission(op, self.rounding)
        except ValueError as e:
            if self.fallback == "qdq":
                return None
            fail(
                op,
                f"'{op.name}' op cannot be computed with integers: {e}; use 'fallback=qdq' "
                "to compute it with floats",
            )
