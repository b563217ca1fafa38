"""
Quantized StableHLO ops as integer arithmetic on stored values, through multipliers and
shifts.

With `a`, `b` zero-point-corrected values, `z` the zero point of the result and
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
of the result. If `x` may have more than 32 bits, `M` is rounded half up to fewer bits, so
that `x * M` fits 64 bits. For a sum, `S` is the smaller one of both
shifts and the other multiplier is rounded to it; then both lose bits until the products fit
63 bits. A quotient that is 1 is not multiplied by. Where a sum could still be off by more
than a quarter of a unit, as with storage of 32 bits, `M1` and `M2` have two parts of up to
30 bits each, and so have the products: `(high + (low >> bits) + (1 << (S - 1))) >> S`.

With `rounding=double` the product of `scaled` is rounded as TOSA's `apply_scale_32` does
with double rounding, where `x` has up to 32 bits. Sums of `add` and `subtract` and wider
integers are always rounded once.

`compare` compares `a * P` with `b * Q`, where `P / Q` is about the quotient of scales: see
`comparison_factors` in `integers.scales`.

Ops that move or order elements are applied to stored values: `reshape`, `maximum`, and all
others, of any dialect, that have the trait
[`MovesElements`][xdsl_quant.dialects.quant.traits.MovesElements] or
[`OrdersElements`][xdsl_quant.dialects.quant.traits.OrdersElements]. Operands whose type is
not that of the result are rescaled before, as `uniform_quantize` does. A constant becomes
one of stored values. So does a `reduce` of one type whose region is one `add`, `maximum` or
`minimum`: a sum is `a + b + z`, clamped at each step.

The patterns for these are in the folder `integers`. An op that none of them is for has no
integer form: the pass fails, or keeps it between `quant.scast`s, or dequantizes, computes
with floats and quantizes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import fail_for_all, refuse
from xdsl_quant.dialects.quant import StorageCastOp, StoredQuantizedType
from xdsl_quant.dialects.quant.traits import (
    AcceptsStoredValues,
    Adds,
    CastsQuantization,
    MovesElements,
    OrdersElements,
    Reduces,
    has_quantization_trait,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.frontends.stablehlo.dialect import ConstantOp
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.runtime.arrays import shortened
from xdsl_quant.runtime.garbage_collection import without_garbage_collection
from xdsl_quant.transforms.building.builder import LoweringBuilder, shape_of
from xdsl_quant.transforms.building.quantization_arithmetic import (
    unsupported_cast_reason,
)
from xdsl_quant.transforms.building.type_replacement import set_type
from xdsl_quant.xdsl_patches import patched_pass

from .adoption import adopt_ops
from .integers.elementwise import (
    REQUANTIZATION,
    ComparisonToIntegers,
    ElementwiseToIntegers,
    Form,
    IntegerPattern,
    Values,
    formula_form,
    have_one_meaning,
    quantizations,
    quantized_type_of,
    replace_with_form,
    storage_of,
    widened,
    wider_type,
)
from .integers.products import ProductToIntegers
from .linalg.data_movement import elements_of_type
from .stablehlo_legalize_quantized_op_to_qdq import decompose, takes_quantized


@dataclass(frozen=True)
class ConstantToIntegers(IntegerPattern):
    """Replaces `stablehlo.constant` of a quantized type by one of its stored values."""

    def form(self, op: Operation) -> Form | None:
        if not isinstance(op, ConstantOp) or not quantized_type_of(op.output.type):
            return None
        type_ = storage_of(op.output.type)
        properties = {"value": elements_of_type(op.value, type_)}
        return lambda builder, _: [builder.op(ConstantOp, (), type_, properties)]


@dataclass(frozen=True)
class SameScaleToIntegers(IntegerPattern):
    """
    Applies ops that move or order elements to stored values: those with the trait
    [`MovesElements`][xdsl_quant.dialects.quant.traits.MovesElements] or
    [`OrdersElements`][xdsl_quant.dialects.quant.traits.OrdersElements], of any dialect.
    Operands of another type than the result are rescaled first.
    """

    rounding: ScaleRounding = "single"
    """How the product of an integer and a multiplier is rounded."""

    def form(self, op: Operation) -> Form | None:
        moves = quantization_trait(op, MovesElements)
        if moves is None and not has_quantization_trait(op, OrdersElements):
            return None
        operands = op.operands if moves is None else moves.moved(op)
        types = [value.type for value in (*op.results, *operands)]
        if op.regions or not op.results or not all(map(quantized_type_of, types)):
            return None
        target = quantized_type_of(types[0])
        assert target is not None
        for type_ in types:
            _check_container(type_)
        # Stored values of tables and of negative scales have another order.
        if moves is None and (reason := unsupported_cast_reason(target)) is not None:
            raise ValueError(reason)
        rescalings = self._rescalings(op, types[0], target)
        # The order of unsigned integers is that of wider signed ones.
        is_wider = moves is None and not target.is_signed

        def build(builder: LoweringBuilder, stored: Values) -> Values:
            operands = [
                rescalings[i](builder, (value,))[0] if i in rescalings else value
                for i, value in enumerate(stored)
            ]
            result_types = [*map(storage_of, op.result_types)]
            if not is_wider:
                return builder.same_op(op, operands, result_types)
            operands = [widened(builder, value, target) for value in operands]
            wide_type = wider_type(target)
            wide_types = [with_element_type(type_, wide_type) for type_ in result_types]
            results = builder.same_op(op, operands, wide_types)
            return [
                builder.op(arith.TruncIOp, (result,), type_)
                for result, type_ in zip(results, result_types, strict=True)
            ]

        return build

    def _rescalings(
        self, op: Operation, type_: Attribute, target: StoredQuantizedType
    ) -> Mapping[int, Form]:
        """
        Return the forms of operands, by number, whose types differ from that of the
        result.
        """
        return {
            i: cast(Form, formula_form(REQUANTIZATION, pair, self.rounding))
            for i, operand_type in enumerate(op.operand_types)
            if quantized_type_of(operand_type)
            and not have_one_meaning((operand_type, type_))
            for pair in [(operand_type, with_element_type(operand_type, target))]
        }


def _check_container(type_: Attribute) -> None:
    """
    Raises:
        ValueError: if a tensor type does not have the sizes that its scales are for, which
            ops of other dialects than StableHLO allow.
    """
    quantized_type = quantized_type_of(type_)
    assert quantized_type is not None
    try:
        quantized_type.verify_container(type_)
    except VerifyException as e:
        raise ValueError(f"{e}, found '{shortened(type_)}'") from None


@dataclass(frozen=True)
class ReductionToIntegers(IntegerPattern):
    """
    Applies reductions to stored values, if they are by one op that adds or orders, and all
    types in them are the same: the scale cancels out.

    The op in the region gets quantized operands from `quant.scast`, and is replaced by the
    pattern that is for it.
    """

    def form(self, op: Operation) -> Form | None:
        if not has_quantization_trait(op, Reduces) or not _is_by_one_op(op):
            return None
        block = op.regions[0].block
        values = (*op.operands, *op.results, *block.args)
        types = {scalar_or_element_type(value.type) for value in values}
        if len(types) > 1 or quantizations(op.result_types) is None:
            return None

        def build(builder: LoweringBuilder, stored: Values) -> Values:
            _take_stored_values(block)
            result_types = [*map(storage_of, op.result_types)]
            return builder.same_op(op, stored, result_types, [op.detach_region(0)])

        return build


def _is_by_one_op(op: Operation) -> bool:
    """Return True if a reduction is by one op on both arguments of its region."""
    if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
        return False
    block = op.regions[0].block
    if len(ops := [*block.ops]) != 2 or len(block.args) != 2:
        return False
    inner, last = ops
    return (
        has_quantization_trait(inner, Adds, OrdersElements)
        and [*last.operands] == [*inner.results]
        and {*inner.operands} == {*block.args}
        and not any(map(shape_of, block.args))
    )


def _take_stored_values(block: Block) -> None:
    """Make a block take and give the stored values of quantized tensors."""
    first, last = block.first_op, block.last_op
    assert first is not None
    assert last is not None
    for i, result in enumerate(last.operands):
        cast_op = StorageCastOp(result, storage_of(result.type))
        block.insert_op_before(cast_op, last)
        last.operands[i] = cast_op.result
    for argument in block.args:
        cast_op = StorageCastOp(argument, argument.type)
        argument.replace_all_uses_with(cast_op.result)
        cast_op.operands[0] = argument
        set_type(argument, storage_of(argument.type))
        block.insert_op_before(cast_op, first)


def integer_patterns(rounding: ScaleRounding = "single") -> Sequence[IntegerPattern]:
    """
    Return the patterns of the pass; the first one that matches an op is for it.

    Args:
        rounding: how the product of an integer and a multiplier is rounded.
    """
    return (
        ConstantToIntegers(),
        ReductionToIntegers(),
        SameScaleToIntegers(rounding),
        ComparisonToIntegers(),
        ProductToIntegers(rounding),
        ElementwiseToIntegers(rounding),
    )


@dataclass(frozen=True)
class StablehloLegalizeQuantToIntegerPass(CountingPass):
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

    fallback: Literal["fail", "keep", "qdq"] = "fail"
    """
    What becomes of an op that has no integer form, or whose types and sizes do not allow
    for it: the pass fails, or `keep`s the op as it is, or makes of it what
    `stablehlo-legalize-quantized-op-to-qdq` makes (`qdq`).
    """

    @patched_pass
    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        adopt_ops(op)
        plans, others = self._plans(op)
        unhandled = [
            inner
            for inner in others
            if not _is_reduction(inner.parent_op()) or inner.parent_op() in plans
            if _needs_integer_form(inner)
        ]
        if unhandled and self.fallback == "fail":
            fail_for_all(
                unhandled,
                "quantized ops without integer form",
                "use 'fallback=qdq' to compute them with floats, or 'fallback=keep' to "
                "keep them as they are",
            )
        found = [
            inner
            for inner in [*plans, *others]
            if takes_quantized(inner)
            or has_quantization_trait(inner, CastsQuantization)
        ]
        changed = 0
        with without_garbage_collection():
            if self.fallback == "qdq":
                changed = decompose(others)
            for inner, form in plans.items():
                replace_with_form(inner, form, PatternRewriter(inner))
        is_kept = bool(unhandled) and self.fallback == "keep"
        return PassOutcome(
            found,
            changed + len(plans),
            "ops that take quantized values, as 'stablehlo-legalize-qdq-to-quantized-op' "
            "makes of float ops between casts of StableHLO",
            unhandled if is_kept else (),
            "use 'fallback=qdq' to compute them with floats" if is_kept else "",
        )

    def _plans(
        self, module: ModuleOp
    ) -> tuple[Mapping[Operation, Form], Sequence[Operation]]:
        """Return the integer forms of ops, and the ops without one."""
        patterns = integer_patterns(self.rounding)
        plans: dict[Operation, Form] = {}
        others: list[Operation] = []
        for op in module.walk():
            parent = op.parent_op()
            # If a reduction is not by one op, none of its ops is for integers.
            is_left = _is_reduction(parent) and parent not in plans
            if not is_left and (form := self._form(op, patterns)) is not None:
                plans[op] = form
            else:
                others.append(op)
        return plans, others

    def _form(self, op: Operation, patterns: Sequence[IntegerPattern]) -> Form | None:
        try:
            forms = (pattern.form(op) for pattern in patterns)
            return next((form for form in forms if form is not None), None)
        except ValueError as e:
            if self.fallback == "fail":
                # The fallback is for ops that compute.
                hint = "'fallback=qdq' to compute it with floats"
                if has_quantization_trait(op, MovesElements):
                    hint = "'fallback=keep' to keep it as it is"
                refuse(op, "cannot be computed with integers", e, f"use {hint}")
            return None


def _is_reduction(op: Operation | None) -> bool:
    return op is not None and has_quantization_trait(op, Reduces)


def _needs_integer_form(op: Operation) -> bool:
    """
    Return True if an op has to become one on stored values because it takes quantized
    ones.
    """
    trait = quantization_trait(op, AcceptsStoredValues)
    passes_on = trait is not None and not isinstance(trait, MovesElements)
    return (
        takes_quantized(op)
        and not passes_on
        and not has_quantization_trait(op, CastsQuantization)
    )
