"""Integer form of elementwise ops (arithmetic on stored values), and building blocks."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import sub
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
    f32,
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
from xdsl_quant.dialects.quant.ops import stated_attributes
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.frontends.stablehlo.dialect import (
    CompareOp,
    ComparisonDirection,
    ConstantOp,
)
from xdsl_quant.machines.arith import (
    Condition,
    FloatExpression,
    IntegerExpression,
    type_for,
)
from xdsl_quant.machines.expression import Bounds
from xdsl_quant.numerics.fixed_point import apply_scale_unchecked
from xdsl_quant.numerics.primitives import Array, Integers
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.runtime.arrays import elements_attr
from xdsl_quant.transforms.building.builder import LoweringBuilder, dimensions, shape_of
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern
from xdsl_quant.transforms.building.dequantize_fallback import replace_with_built

from ..linalg.elementwise import LowerElementwise
from .float_rescaling import FloatRescaling
from .partial_sums import partial_sum_bounds
from .scales import (
    MULTIPLIER_BITS,
    Formula,
    ScaledTensor,
    Scaling,
    comparison_factors,
    product_scaling,
    sum_scaling,
)

Values: TypeAlias = Sequence[SSAValue]

Multiplication: TypeAlias = ScaleRounding | Literal["f32"]
"""Rounding of a product with a fixed-point multiplier, or `f32` factors: onnxruntime's."""

Form: TypeAlias = Callable[[LoweringBuilder, Values], Values]
"""Function that builds results from operands; neither have quantized types."""


def quantized_type_of(type_: Attribute) -> StoredQuantizedType | None:
    """Return the quantized element type of a ranked tensor; `None` for other types."""
    quantized_type = QuantizedType.get_quantized_element_type(type_)
    is_stored = isinstance(quantized_type, StoredQuantizedType)
    return quantized_type if is_stored and isinstance(type_, TensorType) else None


def storage_of(type_: Attribute) -> TensorType:
    """Return the type of a quantized tensor's stored values; keep any other tensor type."""
    stored = StoredQuantizedType.cast_to_signless_storage_type(type_)
    return cast(TensorType, stored or type_)


class IntegerPattern(CheckedPattern[Form]):
    """Replace ops on quantized tensors by ops on stored values, between `quant.scast`s."""

    @abstractmethod
    def form(self, op: Operation) -> Form | None:
        """
        Return a builder of integer ops for `op`, or `None` if the pattern does not match.

        Raises:
            ValueError: if types or sizes of a matching op are unsupported; the message says
                why.
        """

    def plan(self, op: Operation) -> Form | None:
        try:
            return self.form(op)
        except ValueError:
            return None

    def rewrite(self, op: Operation, plan: Form, rewriter: PatternRewriter) -> None:
        replace_with_form(op, plan, rewriter)


@dataclass(frozen=True)
class RoundingPattern(IntegerPattern):
    """Replace ops whose integer form multiplies integers by multipliers."""

    rounding: Multiplication = "single"
    """Rounding of the product of an integer and a multiplier."""


def replace_with_form(op: Operation, form: Form, rewriter: PatternRewriter) -> None:
    """Replace an op on quantized tensors by its integer form."""
    owners = dict.fromkeys(operand.owner for operand in op.operands)
    stored = [_stored_operand(operand, rewriter) for operand in op.operands]

    def build(builder: LoweringBuilder) -> Values:
        builder.name_hint = op.results[0].name_hint
        results: list[SSAValue] = []
        for value, result in zip(form(builder, stored), op.results, strict=True):
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
    """Replace the `quant.scast`s of a quantized value by its stored values."""
    for user in [use.operation for use in quantized.uses]:
        if isinstance(user, StorageCastOp) and user.result.type == stored.type:
            rewriter.replace(user, (), (stored,))


def _stored_operand(value: SSAValue, rewriter: PatternRewriter) -> SSAValue:
    """Return the stored values of a quantized tensor; return any other tensor unchanged."""
    owner = value.owner
    if quantized_type_of(value.type) is None:
        return value
    if isinstance(owner, StorageCastOp):
        return owner.input
    # All users share one cast, which follows the definition of the value.
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


class Element(NamedTuple):
    """Element that a loop reads from an integer tensor."""

    tensor: SSAValue

    indices: Sequence[AffineExpr]
    """Indices of the element in terms of the result's indices."""

    bounds: Bounds

    is_signed: bool = True

    def as_expression(
        self, builder: LoweringBuilder, value: SSAValue
    ) -> IntegerExpression | FloatExpression:
        """Return the element as an expression in the loop body."""
        if value.type == f32:
            return FloatExpression(builder, value, self.bounds, may_be_nan=False)
        # A storage range of 32 unsigned bits may fit signed ones.
        if not self.is_signed and value.type != (type_ := type_for(self.bounds)):
            value = builder.op(arith.ExtUIOp, (value,), type_)
        return IntegerExpression(builder, value, self.bounds)


def element_at_result_index(
    tensor: SSAValue, bounds: Bounds, is_signed: bool = True
) -> Element:
    """Return the element of a tensor that has the same index as the result element."""
    return Element(tensor, dimensions(range(len(shape_of(tensor)))), bounds, is_signed)


def operand_elements(
    tensors: Values,
    operands: Sequence[ScaledTensor],
    bounds: Sequence[Bounds] | None = None,
) -> Sequence[Element]:
    """Return, for each operand, its stored value at the index of the result element."""
    types = [operand.quantized_type for operand in operands]
    bounds = bounds or [type_.storage_range for type_ in types]
    return [
        element_at_result_index(tensor, limits, type_.is_signed)
        for tensor, limits, type_ in zip(tensors, bounds, types, strict=True)
    ]


def zero_points(operands: Sequence[ScaledTensor]) -> Sequence[Integers]:
    return [operand.zero_points for operand in operands]


def build_elementwise(
    builder: LoweringBuilder,
    elements: Sequence[Element],
    numbers: Sequence[Array],
    result_type: Attribute,
    formula: Callable[..., object],
) -> SSAValue:
    """
    Build a tensor by applying a formula to elements of the input tensors.

    Args:
        builder: insertion point.
        elements: elements to read; the first tensor has the shape of the result.
        numbers: constant arguments of the formula, as arrays that broadcast to the result.
            Floats are `f32`. Equal elements become one scalar constant.
        result_type: type of the result.
        formula: function of `elements`, followed by `numbers`.
    """
    operands: list[Element | float] = [*elements]
    for array in numbers:
        low, high = array.min().item(), array.max().item()
        if low == high:
            operands.append(low)
            continue
        axes = [axis for axis, size in enumerate(array.shape) if size != 1]
        dtype, type_ = ("<f4", f32) if array.dtype.kind == "f" else ("<i8", i64)
        attribute = elements_attr(array.squeeze().astype(dtype), type_)
        constant = builder.constant(attribute, attribute.type)
        operands.append(Element(constant, dimensions(axes), (low, high)))
    loaded = [operand for operand in operands if isinstance(operand, Element)]
    type_ = cast(TensorType, result_type)

    def body(inner: LoweringBuilder, args: Values) -> SSAValue:
        values = iter(args)
        numbers = [
            operand.as_expression(inner, next(values))
            if isinstance(operand, Element)
            else operand
            for operand in operands
        ]
        result = formula(*numbers)
        if isinstance(result, IntegerExpression):
            return result.as_type(cast(IntegerType, type_.element_type))
        return cast(Condition, result).value

    inputs = [(element.tensor, element.indices) for element in loaded]
    return builder.map(inputs, type_, builder.sizes(elements[0].tensor), body)


@dataclass(frozen=True)
class Rescaling:
    """Rescaling of integers to stored values of the result."""

    scaling: Scaling
    target: ScaledTensor
    rounding: ScaleRounding

    @property
    def numbers(self) -> Sequence[Integers]:
        """Zero point, shift and multipliers, which are the last arguments of `stored`."""
        multipliers, shifts, _, low_bits = self.scaling
        parts = [multiplier >> low_bits for multiplier in multipliers]
        if low_bits:
            parts += [multiplier & (1 << low_bits) - 1 for multiplier in multipliers]
        return [self.target.zero_points, shifts - low_bits, *parts]

    def stored(
        self,
        formula: Formula,
        values: Sequence[Integers],
        zero_point: Integers,
        shift: Integers,
        *multipliers: Integers,
    ) -> Integers:
        """Apply a formula to zero-point-corrected values and return the stored value."""
        bits, one = self.scaling.bits, cast(Any, 1)
        if self.scaling.is_one:
            result = formula.combine(*values)
        elif formula.is_sum:
            pairs = zip(multipliers[::2], multipliers[1::2], strict=True)
            result, *low = (
                formula.combine(values[0] * a, values[1] * b) for a, b in pairs
            )
            for part in low:
                # The shift drops fractions, which cannot change the final, rounded sum.
                result = result + (part >> bits)
            result = apply_scale_unchecked(result, one, shift, "single")
        else:
            # Wider integers always use single rounding.
            rounding = self.rounding if bits == MULTIPLIER_BITS else "single"
            result = apply_scale_unchecked(
                formula.combine(*values), multipliers[0], shift, rounding
            )
        smallest, largest = self.target.quantized_type.storage_range
        return np.clip(result + zero_point, smallest, largest)


def build_constant(
    builder: LoweringBuilder, type_: TensorType, *values: float
) -> SSAValue:
    """Build a constant from its elements, or fill it with a single element."""
    numbers = cast("TensorType[AnyFloat]", type_)
    value = DenseIntOrFPElementsAttr.from_list(numbers, values)
    return builder.add(ConstantOp(value))


# Formulas


def have_same_parameters(types: Sequence[Attribute]) -> bool:
    """Return True if types are equal, ignoring which dimension is quantized."""
    first, *remaining = (
        (q.common_parameters, q.scale_array(), q.zero_point_array())
        if isinstance(q := quantized_type_of(type_), ScaledQuantizedType)
        and q.granularity != "sub-channel"
        else type_
        for type_ in types
    )
    return all(parameters == first for parameters in remaining)


def _same(value: Integers) -> Integers:
    return value


REQUANTIZATION = Formula(_same)

FORMULAS: Mapping[str, Formula] = {
    "stablehlo.abs": Formula(np.abs),
    "stablehlo.add": Formula(np.add, is_sum=True),
    "stablehlo.multiply": Formula(np.multiply),
    "stablehlo.negate": Formula(np.negative),
    "stablehlo.subtract": Formula(np.subtract, is_sum=True),
    "stablehlo.uniform_quantize": REQUANTIZATION,
}
"""Formulas by op name."""

COMPARISONS: Mapping[ComparisonDirection, np.ufunc] = {
    ComparisonDirection.EQ: np.equal,
    ComparisonDirection.NE: np.not_equal,
    ComparisonDirection.GE: np.greater_equal,
    ComparisonDirection.GT: np.greater,
    ComparisonDirection.LE: np.less_equal,
    ComparisonDirection.LT: np.less,
}
"""NumPy functions of `compare` by direction."""


def scaled_tensors(types: Sequence[Attribute]) -> Sequence[ScaledTensor] | None:
    """
    Return the quantization of each tensor, with parameters that broadcast to the last
    tensor; `None` if a tensor has no stored values.

    Raises:
        ValueError: if a type does not support integer arithmetic; the message says why.
    """
    if not all(map(quantized_type_of, types)):
        return None
    rank = len(storage_of(types[-1]).get_shape())
    # `ScaledTensor` refuses types without scales.
    element_types = map(scalar_or_element_type, types)
    return [ScaledTensor(cast(ScaledQuantizedType, t), rank) for t in element_types]


def formula_form(
    formula: Formula,
    types: Sequence[Attribute],
    rounding: Multiplication,
    bounds: Sequence[Bounds] | None = None,
) -> Form | None:
    """
    Return a builder of integer ops for a formula; `None` if a tensor has no stored values.
    `types` lists the operand types and then the result type; `bounds` those of the stored
    operands, by default their storage ranges.

    Raises:
        ValueError: if a multiplier is not representable; the message says why.
    """
    if (quantized := scaled_tensors(types)) is None:
        return None
    *operands, target = quantized
    rescaling = rescaling_to(target, operands, formula, rounding)
    count, numbers = len(operands), [*zero_points(operands), *rescaling.numbers]

    def stored(*values: Integers) -> Integers:
        corrected = map(sub, values[:count], values[count : 2 * count])
        return rescaling.stored(formula, [*corrected], *values[2 * count :])

    def build(builder: LoweringBuilder, tensors: Values) -> Values:
        elements = operand_elements(tensors, operands, bounds)
        type_ = storage_of(types[-1])
        return [build_elementwise(builder, elements, numbers, type_, stored)]

    return build


def rescaling_to(
    target: ScaledTensor,
    terms: Sequence[ScaledTensor],
    formula: Formula,
    rounding: Multiplication,
    largest: int | None = None,
) -> Rescaling | FloatRescaling:
    """
    Return the rescaling of a sum or product of quantized values.

    Args:
        target: quantization of the result.
        terms: operands of the sum, or factors of the product.
        formula: function of the operands.
        rounding: rounding of the product of an integer and a multiplier.
        largest: largest absolute value of a product, if products are accumulated.

    Raises:
        ValueError: if a multiplier is not representable; the message says why.
    """
    if rounding == "f32":
        return FloatRescaling(terms, target, formula.is_sum, largest is not None)
    if formula.is_sum:
        return Rescaling(sum_scaling(terms, target), target, rounding)
    if largest is None:
        largest = math.prod(term.largest for term in terms)
    return Rescaling(product_scaling(terms, target, largest), target, rounding)


@dataclass(frozen=True)
class ElementwiseToIntegers(RoundingPattern):
    """
    Replace elementwise ops that have a formula, such as `stablehlo.add`, by arithmetic on
    stored values.

    Example:

    With `formulas={"toy.mul": FORMULAS["stablehlo.multiply"]}`, it replaces `toy.mul`.
    """

    formulas: Mapping[str, Formula] = field(default_factory=lambda: FORMULAS)

    def form(self, op: Operation) -> Form | None:
        if (formula := self.formulas.get(op.name)) is None:
            return None
        if stated_attributes(op):
            # Floats compute the exact result that a requantization states.
            return None
        types = (*op.operand_types, *op.result_types)
        return formula_form(formula, types, self.rounding, partial_sum_bounds(op))


class ComparisonToIntegers(IntegerPattern):
    """Replace `stablehlo.compare` by a comparison of stored values or scaled integers."""

    def form(self, op: Operation) -> Form | None:
        if not isinstance(op, CompareOp):
            return None
        if (operands := scaled_tensors(op.operand_types)) is None:
            return None
        if have_same_parameters(op.operand_types):
            return lambda builder, stored: LowerElementwise().lower(builder, op, stored)
        compare = COMPARISONS[op.comparison_direction.data]
        factors, numbers = comparison_factors(*operands), zero_points(operands)

        def compared(*values: Integers) -> object:
            lhs, rhs = map(sub, values[:2], values[2:])
            return compare(lhs * factors[0], rhs * factors[1])

        def build(builder: LoweringBuilder, tensors: Values) -> Values:
            elements = operand_elements(tensors, operands)
            return [
                build_elementwise(builder, elements, numbers, op.result.type, compared)
            ]

        return build


# Widths


def wider_type(quantized_type: StoredQuantizedType) -> IntegerType:
    """Return the narrowest type of 8 to 64 bits that is wider than the storage type."""
    width = quantized_type.storage_type_integral_width
    return IntegerType(next(size for size in (8, 16, 32, 64) if width < size))


def widen_stored(
    builder: LoweringBuilder, stored: SSAValue, quantized_type: StoredQuantizedType
) -> SSAValue:
    """Return stored values as wider signed integers."""
    op_type = arith.ExtSIOp if quantized_type.is_signed else arith.ExtUIOp
    type_ = with_element_type(stored.type, wider_type(quantized_type))
    return builder.op(op_type, (stored,), type_)


# Former names, kept for compatibility.
at_position, have_one_meaning = element_at_result_index, have_same_parameters
elementwise, quantizations, widened = build_elementwise, scaled_tensors, widen_stored
