"""
The integer form of elementwise ops: formulas on zero-point-corrected integers, which end
with a rescaling to stored values. It is what all other integer forms are made of, too.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from xdsl_quant.dialects.quant import (
    QuantizedType,
    ScaledQuantizedType,
    StorageCastOp,
    StoredQuantizedType,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.frontends.stablehlo.dialect import CompareOp
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.transforms.building.builder import LoweringBuilder, dimensions, shape_of
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern
from xdsl_quant.transforms.building.dequantize_fallback import replace_with_built
from xdsl_quant.transforms.building.fixed_point_arithmetic import (
    add,
    apply_scale,
    clamp_and_truncate,
    extend,
    i64_constant,
    multiply,
    rounded_shift,
    subtract,
)

from .scales import (
    MULTIPLIER_BITS,
    Quantization,
    Scaling,
    comparison_factors,
    product_scaling,
    sum_scaling,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

Values: TypeAlias = Sequence[SSAValue]

Form: TypeAlias = Callable[[LoweringBuilder, Values], Values]
"""
Builds the results of an op from its operands, with stored values in the place of quantized
ones.
"""


def quantized_type_of(type_: Attribute) -> StoredQuantizedType | None:
    """The quantized element type of a ranked tensor; `None` if it has no stored values."""
    quantized_type = QuantizedType.get_quantized_element_type(type_)
    is_stored = isinstance(quantized_type, StoredQuantizedType)
    return quantized_type if is_stored and isinstance(type_, TensorType) else None


def storage_of(type_: Attribute) -> TensorType:
    """The type of the stored values of a quantized tensor; that of another tensor."""
    stored = StoredQuantizedType.cast_to_signless_storage_type(type_)
    return cast(TensorType, stored or type_)


class IntegerPattern(CheckedPattern[Form]):
    """
    Replaces ops on quantized tensors by ops on their stored values, which `quant.scast`
    makes of operands and turns into results again. Pairs of these casts do not stay.
    """

    @abstractmethod
    def form(self, op: Operation) -> Form | None:
        """
        How an op is computed with integers; `None` if the pattern is not for it.

        Raises:
            ValueError: if it is, but types or sizes of the op do not allow for it.
        """

    def plan(self, op: Operation) -> Form | None:
        try:
            return self.form(op)
        except ValueError:
            return None

    def rewrite(self, op: Operation, plan: Form, rewriter: PatternRewriter) -> None:
        owners = dict.fromkeys(operand.owner for operand in op.operands)
        stored = [_stored_values(operand, rewriter) for operand in op.operands]

        def build(builder: LoweringBuilder) -> Values:
            builder.name_hint = op.results[0].name_hint
            results: list[SSAValue] = []
            for value, result in zip(plan(builder, stored), op.results, strict=True):
                value.name_hint = result.name_hint
                if value.type != result.type:
                    _replace_casts(result, value, rewriter)
                    value = builder.add(StorageCastOp(value, result.type))
                results.append(value)
            return results

        replace_with_built(op, rewriter, build)
        for owner in owners:
            if isinstance(owner, StorageCastOp) and owner.result.first_use is None:
                rewriter.erase(owner)


def _replace_casts(
    quantized: SSAValue, stored: SSAValue, rewriter: PatternRewriter
) -> None:
    """Replace the casts to stored values, which are known now."""
    for user in [use.operation for use in quantized.uses]:
        if isinstance(user, StorageCastOp) and user.result.type == stored.type:
            rewriter.replace(user, (), (stored,))


def _stored_values(value: SSAValue, rewriter: PatternRewriter) -> SSAValue:
    """The stored values of a quantized tensor, or another tensor itself."""
    owner = value.owner
    if quantized_type_of(value.type) is None:
        return value
    if isinstance(owner, StorageCastOp):
        return owner.input
    # One cast is enough: it is where the value is defined.
    is_op = isinstance(owner, Operation)
    following = owner.next_op if is_op else owner.first_op
    while isinstance(following, StorageCastOp):
        if following.input is value:
            return following.result
        following = following.next_op
    cast_op = StorageCastOp(value, storage_of(value.type))
    cast_op.location = owner.location if is_op else cast_op.location
    block = owner.parent if is_op else owner
    assert block is not None
    rewriter.insert(cast_op, InsertPoint(block, following))
    return cast_op.result


# Elements

Combine: TypeAlias = Callable[..., SSAValue]
"""Builds an `i64` number from others: `(builder, *values) -> value`."""


class Element(NamedTuple):
    """What one element of a result is computed with."""

    builder: LoweringBuilder

    numbers: Mapping[str, SSAValue]
    """The `i64` numbers that belong to the element, with their names."""

    def corrected(
        self, stored: Values, operands: Sequence[Quantization]
    ) -> Sequence[SSAValue]:
        """Stored values less their zero points, as `i64`."""
        values: list[SSAValue] = []
        for name, value, operand in zip(_ZERO_POINTS, stored, operands, strict=False):
            value = extend(self.builder, value, operand.quantized_type.is_signed)
            if (zero_point := self.numbers.get(name)) is not None:
                value = subtract(self.builder, value, zero_point)
            values.append(value)
        return values


_ZERO_POINTS = ("operand_zero_point", "other_zero_point")


def zero_points(operands: Sequence[Quantization]) -> Mapping[str, NDArray[Any]]:
    """The zero points that are not 0, as the numbers of an element."""
    named = zip(_ZERO_POINTS, operands, strict=False)
    return {n: o.zero_points for n, o in named if o.zero_points.any()}


def at_position(value: SSAValue) -> tuple[SSAValue, Sequence[AffineExpr]]:
    """A tensor of which the element at the position of the result is read."""
    return value, dimensions(range(len(shape_of(value))))


def elementwise(
    builder: LoweringBuilder,
    inputs: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
    parameters: Mapping[str, NDArray[Any]],
    result_type: Attribute,
    body: Callable[[Element, Values], SSAValue],
) -> Values:
    """
    A tensor of which each element is computed from others and from `i64` numbers.

    Args:
        builder: where the ops are inserted.
        inputs: what is read, and at which indices; the first one has the shape of the
            result.
        parameters: the numbers, in arrays with a dimension for each one of the result.
            Numbers that are the same for all elements become constants of the body.
        result_type: the type of the result.
        body: builds one element from what is read.
    """
    count = len(inputs)
    varying: dict[str, tuple[SSAValue, Sequence[AffineExpr]]] = {}
    for name, array in parameters.items():
        if (array != array.flat[0]).any():
            axes = [axis for axis, size in enumerate(array.shape) if size != 1]
            type_ = TensorType(i64, [array.shape[axis] for axis in axes])
            data = BytesAttr(array.astype("<i8").tobytes())
            constant = builder.constant(DenseIntOrFPElementsAttr(type_, data), type_)
            varying[name] = constant, dimensions(axes)

    def with_numbers(inner: LoweringBuilder, args: Values) -> SSAValue:
        numbers = dict(zip(varying, args[count:], strict=False))
        for name, array in parameters.items():
            if name not in varying:
                numbers[name] = i64_constant(inner, int(array.flat[0]))
        return body(Element(inner, numbers), args[:count])

    sizes = builder.sizes(inputs[0][0])
    names = (*["in"] * count, *varying, "out")
    inputs, type_ = [*inputs, *varying.values()], cast(TensorType, result_type)
    return [builder.map(inputs, type_, sizes, with_numbers, names)]


@dataclass(frozen=True)
class Rescaling:
    """How integers in units of some scales become stored values of a result."""

    scaling: Scaling
    target: Quantization
    rounding: ScaleRounding

    def parameters(
        self, operands: Sequence[Quantization]
    ) -> Mapping[str, NDArray[Any]]:
        """The numbers that a body uses: zero points that are not 0, and the scaling."""
        parameters = {**zero_points(operands)}
        if self.target.zero_points.any():
            parameters["zero_point"] = self.target.zero_points
        if self.scaling.is_one:
            return parameters
        multipliers, shifts, _, low_bits = self.scaling
        parts = [multiplier >> low_bits for multiplier in multipliers]
        if low_bits:
            parts += [multiplier & (1 << low_bits) - 1 for multiplier in multipliers]
        names = ("", "other_", "low_", "other_low_")
        for name, part in zip(names, parts, strict=False):
            parameters[f"{name}multiplier"] = part
        return {**parameters, "shift": shifts - low_bits}

    def stored(self, element: Element, formula: Formula, values: Values) -> SSAValue:
        """The stored value for what a formula computes of integers."""
        builder, numbers = element
        if formula.is_sum and not self.scaling.is_one:
            value = self._scaled_sum(element, formula.combine, values)
        else:
            value = formula.combine(builder, *values)
            if not self.scaling.is_one:
                # Wider integers are always rounded once.
                is_usual = self.scaling.bits == MULTIPLIER_BITS
                rounding = self.rounding if is_usual else "single"
                multiplier, shift = numbers["multiplier"], numbers["shift"]
                value = apply_scale(builder, value, multiplier, shift, rounding)
        if (zero_point := numbers.get("zero_point")) is not None:
            value = add(builder, value, zero_point)
        type_ = self.target.quantized_type
        bounds, storage_type = type_.storage_range, type_.signless_storage_type
        return clamp_and_truncate(builder, value, *bounds, storage_type)

    def _scaled_sum(
        self, element: Element, combine: Combine, values: Values
    ) -> SSAValue:
        """The sum or difference of integers with own scalings."""
        builder, numbers = element
        value, *low = (
            combine(
                builder,
                multiply(builder, values[0], numbers[f"{kind}multiplier"]),
                multiply(builder, values[1], numbers[f"other_{kind}multiplier"]),
            )
            for kind in (("", "low_") if self.scaling.low_bits else ("",))
        )
        for low_sum in low:
            bits = i64_constant(builder, self.scaling.bits)
            # This is rounded down by less than one, and only integers are added to it.
            carried = builder.elementwise(arith.ShRSIOp, (low_sum, bits), i64)
            value = add(builder, value, carried)
        return rounded_shift(builder, value, numbers["shift"])


# Formulas


def have_one_meaning(types: Sequence[Attribute]) -> bool:
    """
    Whether stored values of tensors mean the same, wherever the quantized dimension is.
    """
    first, *others = (
        (q.common_parameters, q.scale_array(), q.zero_point_array())
        if isinstance(q := quantized_type_of(type_), ScaledQuantizedType)
        and q.granularity != "sub-channel"
        else type_
        for type_ in types
    )
    return all(other == first for other in others)


class Formula(NamedTuple):
    """What an elementwise op computes of zero-point-corrected integers."""

    combine: Combine
    """Builds the integer from those of the operands."""

    is_sum: bool = False
    """
    Whether it is the sum or difference of two, each of which has to be scaled: other
    integers are in units of the product of the scales.
    """


def _negated(builder: LoweringBuilder, value: SSAValue) -> SSAValue:
    return subtract(builder, i64_constant(builder, 0), value)


def _absolute(builder: LoweringBuilder, value: SSAValue) -> SSAValue:
    return builder.elementwise(arith.MaxSIOp, (value, _negated(builder, value)), i64)


def _same(_: LoweringBuilder, value: SSAValue) -> SSAValue:
    return value


REQUANTIZATION = Formula(_same)

FORMULAS: Mapping[str, Formula] = {
    "stablehlo.abs": Formula(_absolute),
    "stablehlo.add": Formula(add, is_sum=True),
    "stablehlo.multiply": Formula(multiply),
    "stablehlo.negate": Formula(_negated),
    "stablehlo.subtract": Formula(subtract, is_sum=True),
    "stablehlo.uniform_quantize": REQUANTIZATION,
}
"""The formulas of ops by name."""


def quantizations(types: Sequence[Attribute]) -> Sequence[Quantization] | None:
    """
    How tensors are quantized, in terms of the dimensions of the last one; `None` if one of
    them has no stored values.

    Raises:
        ValueError: if there is no integer arithmetic on one of them, with the reason.
    """
    if not all(map(quantized_type_of, types)):
        return None
    rank = len(storage_of(types[-1]).get_shape())
    # That they have scales is checked.
    element_types = map(scalar_or_element_type, types)
    return [Quantization(cast(ScaledQuantizedType, t), rank) for t in element_types]


def formula_form(
    formula: Formula, types: Sequence[Attribute], rounding: ScaleRounding
) -> Form | None:
    """
    The form of an op on operands of all types but the last one, which is that of the
    result; `None` if one of them has no stored values.

    Raises:
        ValueError: if the numbers of the form are not representable, with the reason.
    """
    if (quantized := quantizations(types)) is None:
        return None
    *operands, target = quantized
    if formula.is_sum:
        scaling = sum_scaling(operands, target)
    else:
        largest = math.prod(operand.largest for operand in operands)
        scaling = product_scaling(operands, target, largest)
    rescaling = Rescaling(scaling, target, rounding)
    parameters = rescaling.parameters(operands)

    def body(element: Element, stored: Values) -> SSAValue:
        values = element.corrected(stored, operands)
        return rescaling.stored(element, formula, values)

    type_ = storage_of(types[-1])
    return lambda builder, stored: elementwise(
        builder, [*map(at_position, stored)], parameters, type_, body
    )


@dataclass(frozen=True)
class ElementwiseToIntegers(IntegerPattern):
    """
    Replaces elementwise ops that have a formula, such as `stablehlo.add`, by arithmetic on
    stored values.

    Example:

    With `formulas={"toy.mul": FORMULAS["stablehlo.multiply"]}` it is for `toy.mul`.
    """

    rounding: ScaleRounding = "single"
    """How the product of an integer and a multiplier is rounded."""

    formulas: Mapping[str, Formula] = field(default_factory=lambda: FORMULAS)
    """The formulas of ops by name."""

    def form(self, op: Operation) -> Form | None:
        if (formula := self.formulas.get(op.name)) is None:
            return None
        types = (*op.operand_types, *op.result_types)
        return formula_form(formula, types, self.rounding)


@dataclass(frozen=True)
class ComparisonToIntegers(IntegerPattern):
    """
    Replaces `stablehlo.compare` by a comparison of stored values or, if the operands have
    other scales, of multiples of zero-point-corrected values.
    """

    def form(self, op: Operation) -> Form | None:
        if not isinstance(op, CompareOp):
            return None
        if (operands := quantizations(op.operand_types)) is None:
            return None
        is_plain = have_one_meaning(op.operand_types)
        factors = (1, 1) if is_plain else comparison_factors(*operands)
        parameters = zero_points(() if is_plain else operands)
        is_signed = operands[0].quantized_type.is_signed or not is_plain
        direction = op.comparison_direction.data.value.lower()
        prefix = "" if direction in ("eq", "ne") else "s" if is_signed else "u"

        def body(element: Element, args: Values) -> SSAValue:
            builder = element.builder
            if not is_plain:
                args = element.corrected(args, operands)
            lhs, rhs = (
                a if f == 1 else multiply(builder, a, i64_constant(builder, f))
                for a, f in zip(args, factors, strict=True)
            )
            return builder.add(arith.CmpiOp(lhs, rhs, prefix + direction))

        return lambda builder, stored: elementwise(
            builder, [*map(at_position, stored)], parameters, op.result.type, body
        )


# Widths


def wider_type(quantized_type: StoredQuantizedType) -> IntegerType:
    """The narrowest usual type of signed integers with more bits than stored values."""
    width = quantized_type.storage_type_integral_width
    return IntegerType(next(size for size in (8, 16, 32, 64) if width < size))


def widened(
    builder: LoweringBuilder, stored: SSAValue, quantized_type: StoredQuantizedType
) -> SSAValue:
    """Stored values as wider signed integers."""
    op_type = arith.ExtSIOp if quantized_type.is_signed else arith.ExtUIOp
    type_ = with_element_type(stored.type, wider_type(quantized_type))
    return builder.op(op_type, (stored,), type_)
