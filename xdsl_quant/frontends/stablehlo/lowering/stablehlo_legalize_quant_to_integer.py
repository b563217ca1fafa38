"""
Integer arithmetic on stored values for quantized StableHLO ops, with multipliers and
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
the exact ratio of scales: the scale of the operand, or the product of the operands' scales,
divided by the scale of the result. If `x` may exceed 32 bits, `M` is rounded half up to
fewer bits, so that `x * M` fits 64 bits. For a sum, `S` is the smaller shift: the
multiplier with the larger shift is rounded to shift `S`. Then both multipliers are rounded
to fewer bits until the products fit 63 bits. A ratio of 1 needs no multiplication. If a sum
could still deviate by more than a quarter of a unit, e.g. with 32-bit storage, `M1` and
`M2` have a high and a low part of up to 30 bits each, and products are summed by part:
`(high + (low >> bits) + (1 << (S - 1))) >> S`.

With `rounding=double`, `scaled` uses the double rounding of TOSA's `apply_scale_32` if `x`
has up to 32 bits. Sums of `add` and `subtract` and wider integers are always rounded once.

`compare` compares `a * P` with `b * Q`, where `P / Q` approximates the ratio of scales: see
`comparison_factors` in `integers.scales`.

Data movement ops such as `reshape` and ordering ops such as `maximum` are applied to stored
values: all ops, of any dialect, with the trait
[`MovesElements`][xdsl_quant.dialects.quant.traits.MovesElements] or
[`OrdersElements`][xdsl_quant.dialects.quant.traits.OrdersElements]. Operands whose type
differs from that of the result are requantized first, as by `uniform_quantize`. Constants
become constants of stored values. A `reduce` whose region is one `add`, `maximum` or
`minimum` of one quantized type is applied to stored values: a sum is `a + b + z`, clamped
at each step. Operands and results of another type than the region are requantized. `iota`
requantizes the indices, which have scale 1. Other functions of one operand of up to 8 bits
become tables. Control flow, `map`, `scatter` and `sort` pass stored values on.

The patterns are in the folder `integers`. If no pattern matches an op, it has no integer
form: the pass fails, keeps the op between `quant.scast`s, or dequantizes its operands,
computes with floats and quantizes the result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, f32, i32
from xdsl.ir import Attribute, Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import fail, fail_for_all, refuse
from xdsl_quant.dialects.quant import UniformQuantizedType
from xdsl_quant.dialects.quant.ops import rounding_attributes, stated_attributes
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
from xdsl_quant.dialects.quant.types import with_element_type
from xdsl_quant.frontends.stablehlo.dialect import (
    ConstantOp,
    GetDimensionSizeOp,
    IotaOp,
    UniformQuantizeOp,
)
from xdsl_quant.kernel_set import KernelSet
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.runtime.arrays import shortened
from xdsl_quant.runtime.garbage_collection import without_garbage_collection
from xdsl_quant.runtime.kernel_sets import kernel_set
from xdsl_quant.transforms.building.builder import LoweringBuilder, shape_of
from xdsl_quant.transforms.building.quantization_arithmetic import (
    unsupported_cast_reason,
)
from xdsl_quant.xdsl_patches import patched_pass

from .adoption import adopt_ops
from .integers.elementwise import (
    FORMULAS,
    REQUANTIZATION,
    ComparisonToIntegers,
    ElementwiseToIntegers,
    Form,
    IntegerPattern,
    Multiplication,
    RoundingPattern,
    Values,
    formula_form,
    have_same_parameters,
    quantized_type_of,
    replace_with_form,
    scaled_tensors,
    storage_of,
    widen_stored,
    wider_type,
)
from .integers.float_logistic import LogisticToFloats
from .integers.partial_sums import applies_one_op
from .integers.products import ProductToIntegers
from .integers.regions import (
    CompositeToCall,
    RegionsToIntegers,
    SelectAndScatterToIntegers,
    convert_to_stored,
)
from .integers.tables import TableToIntegers
from .linalg.data_movement import elements_of_type
from .stablehlo_casts_to_quant import ONNX_ROUNDING
from .stablehlo_legalize_quantized_op_to_qdq import decompose, has_quantized_operands


class ConstantToIntegers(IntegerPattern):
    """Replace quantized `stablehlo.constant`s by constants of stored values."""

    def form(self, op: Operation) -> Form | None:
        if not isinstance(op, ConstantOp) or not quantized_type_of(op.output.type):
            return None
        type_ = storage_of(op.output.type)
        properties = {"value": elements_of_type(op.value, type_)}
        return lambda builder, _: [builder.op(ConstantOp, (), type_, properties)]


class IotaToIntegers(RoundingPattern):
    """Replace a quantized `stablehlo.iota` by requantized indices, whose scale is 1."""

    def form(self, op: Operation) -> Form | None:
        if not isinstance(op, IotaOp) or not quantized_type_of(type_ := op.output.type):
            return None
        dimension = op.iota_dimension.value.data
        size = shape_of(op.output)[dimension]
        if size > 1 << 31:
            raise ValueError(
                f"size {size} of dimension {dimension} has indices that exceed i32"
            )
        last = max(size - 1, 1)
        indices = UniformQuantizedType(
            i32, f32, 1.0, storage_type_min=0, storage_type_max=last
        )
        types = with_element_type(type_, indices), type_
        requantize = cast(Form, formula_form(REQUANTIZATION, types, self.rounding))

        def build(builder: LoweringBuilder, _: Values) -> Values:
            index_type = with_element_type(type_, i32)
            return requantize(builder, builder.same_op(op, (), [index_type]))

        return build


class SizeToIntegers(IntegerPattern):
    """Let `stablehlo.get_dimension_size` read the size from stored values."""

    def form(self, op: Operation) -> Form | None:
        if not isinstance(op, GetDimensionSizeOp):
            return None
        if quantized_type_of(op.operand.type) is None:
            return None
        return lambda builder, stored: builder.same_op(op, stored, op.result_types)


class SameScaleToIntegers(RoundingPattern):
    """
    Apply data movement and ordering ops to stored values: ops of any dialect with the trait
    [`MovesElements`][xdsl_quant.dialects.quant.traits.MovesElements] or
    [`OrdersElements`][xdsl_quant.dialects.quant.traits.OrdersElements]. Operands whose type
    differs from that of the result are requantized first.
    """

    def form(self, op: Operation) -> Form | None:
        moves = quantization_trait(op, MovesElements)
        if moves is None and not has_quantization_trait(op, OrdersElements):
            return None
        operands = op.operands if moves is None else moves.moved_operands(op)
        types = [value.type for value in (*op.results, *operands)]
        if op.regions or not op.results or not all(map(quantized_type_of, types)):
            return None
        target = quantized_type_of(types[0])
        assert target is not None
        for type_ in types:
            _check_container(type_)
        # Tables and negative scales order stored values differently.
        if moves is None and (reason := unsupported_cast_reason(target)) is not None:
            raise ValueError(reason)
        rescalings = _requantizations(op.operand_types, types[0], self.rounding)
        # Signless ops order signed integers, so unsigned ones are widened first.
        is_wider = moves is None and not target.is_signed

        def build(builder: LoweringBuilder, stored: Values) -> Values:
            operands = _requantized(builder, stored, rescalings)
            result_types = [*map(storage_of, op.result_types)]
            if not is_wider:
                return builder.same_op(op, operands, result_types)
            operands = [widen_stored(builder, value, target) for value in operands]
            wide_type = wider_type(target)
            wide_types = [with_element_type(type_, wide_type) for type_ in result_types]
            results = builder.same_op(op, operands, wide_types)
            return [
                builder.op(arith.TruncIOp, (result,), type_)
                for result, type_ in zip(results, result_types, strict=True)
            ]

        return build


def _requantizations(
    types: Sequence[Attribute], target: Attribute, rounding: Multiplication
) -> Mapping[int, Form]:
    """Return requantizations to the elements of `target`, by index of types that differ."""
    element_type = quantized_type_of(target)
    assert element_type is not None
    return {
        i: cast(Form, formula_form(REQUANTIZATION, pair, rounding))
        for i, type_ in enumerate(types)
        if quantized_type_of(type_) and not have_same_parameters((type_, target))
        for pair in [(type_, with_element_type(type_, element_type))]
    }


def _requantized(
    builder: LoweringBuilder, stored: Values, forms: Mapping[int, Form]
) -> Values:
    return [
        forms[i](builder, (value,))[0] if i in forms else value
        for i, value in enumerate(stored)
    ]


def _check_container(type_: Attribute) -> None:
    """Raise `ValueError` if the number of scales does not match the shape of the tensor."""
    quantized_type = quantized_type_of(type_)
    assert quantized_type is not None
    try:
        quantized_type.verify_container(type_)
    except VerifyException as e:
        raise ValueError(f"{e}, found '{shortened(type_)}'") from None


class ReductionToIntegers(RoundingPattern):
    """
    Apply reductions to stored values if their region is one addition, maximum or minimum of
    one quantized type, so that the scale cancels out. Operands and results of another type
    are requantized. Another pattern replaces the op in the region.
    """

    def form(self, op: Operation) -> Form | None:
        if not has_quantization_trait(op, Reduces) or not applies_one_op(op):
            return None
        block, (result_type,) = op.regions[0].block, op.result_types
        inner = cast(Operation, block.first_op)
        if not has_quantization_trait(inner, Adds, OrdersElements):
            return None
        accumulator, *others = (*block.arg_types, *inner.result_types)
        element_type = quantized_type_of(accumulator)
        if element_type is None or any(type_ != accumulator for type_ in others):
            return None
        if scaled_tensors((*op.operand_types, accumulator, result_type)) is None:
            return None
        sum_type = with_element_type(result_type, element_type)
        widenings = _requantizations(op.operand_types, accumulator, self.rounding)
        narrowings = _requantizations((sum_type,), result_type, self.rounding)

        def build(builder: LoweringBuilder, stored: Values) -> Values:
            convert_to_stored(block)
            operands = _requantized(builder, stored, widenings)
            regions = [op.detach_region(0)]
            sums = builder.same_op(op, operands, [storage_of(sum_type)], regions)
            return _requantized(builder, sums, narrowings)

        return build


ONNXRUNTIME_FORMULAS = {
    name: FORMULAS[name]
    for name in ("stablehlo.add", "stablehlo.multiply", "stablehlo.uniform_quantize")
}
"""Formulas for which onnxruntime has kernels, by op name."""


def has_f32_multipliers(module: ModuleOp, kernels: KernelSet | None) -> bool:
    """Return True for kernels that rescale by `f32` factors; default: the module's."""
    try:
        return (kernels or kernel_set(module)) == "onnxruntime"
    except ValueError as e:
        fail(module, str(e))


def integer_patterns(rounding: Multiplication = "single") -> Sequence[IntegerPattern]:
    """
    Return the patterns of the pass; the first one that matches an op replaces it.

    Args:
        rounding: rounding of the product of an integer and a multiplier.
    """
    is_float = rounding == "f32"
    formulas = ONNXRUNTIME_FORMULAS if is_float else FORMULAS
    return (
        *([LogisticToFloats()] if is_float else []),
        ConstantToIntegers(),
        IotaToIntegers(rounding),
        SizeToIntegers(),
        ReductionToIntegers(rounding),
        SelectAndScatterToIntegers(),
        RegionsToIntegers(),
        CompositeToCall(),
        SameScaleToIntegers(rounding),
        ComparisonToIntegers(),
        ProductToIntegers(rounding),
        ElementwiseToIntegers(rounding, formulas),
        *([] if is_float else [TableToIntegers()]),
    )


@dataclass(frozen=True)
class StablehloLegalizeQuantToIntegerPass(CountingPass):
    """
    Replace quantized ops by integer arithmetic on stored values.

    Ops without integer form are `divide`, `power`, `remainder`, `atan2`, functions of more
    than 8 bits such as `tanh`, contractions of floats and quantized weights, and reductions
    whose region is not one `add`, `maximum` or `minimum`.

    Results differ by at most one unit from those of
    `stablehlo-legalize-quantized-op-to-qdq` if storage has up to 16 bits, and the
    expressed type has at least this precision.
    """

    name = "stablehlo-legalize-quant-to-integer"

    rounding: ScaleRounding = "single"
    """Rounding of the product of an integer and a multiplier."""

    kernels: KernelSet | None = None
    """
    Kernels whose results are computed; `onnxruntime` multiplies by `f32` factors, and has
    no integer form of `abs`, `negate` and `subtract`. Default: the module attribute
    `quant.kernels`, or fixed-point multipliers.
    """

    fallback: Literal["fail", "keep", "qdq"] = "fail"
    """
    Action for ops without an integer form or with unsupported types or sizes: `fail`,
    `keep` them, or decompose them like `stablehlo-legalize-quantized-op-to-qdq` (`qdq`).
    """

    @patched_pass
    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        adopt_ops(op)
        plans, without_form = self._plans(op)
        unhandled = [
            inner
            for inner in without_form
            if not _is_reduction(inner.parent_op()) or inner.parent_op() in plans
            if _needs_integer_form(inner)
        ]
        if unhandled and self.fallback == "fail":
            fail_for_all(
                unhandled,
                "quantized ops without integer form",
                "use 'fallback=qdq' to compute them with floats, or 'fallback=keep' to "
                "keep them",
            )
        candidates = [
            inner
            for inner in [*plans, *without_form]
            if has_quantized_operands(inner)
            or has_quantization_trait(inner, CastsQuantization)
        ]
        changed = 0
        with without_garbage_collection():
            if self.fallback == "qdq":
                changed = decompose(without_form)
            if has_f32_multipliers(op, self.kernels):
                _state_rounding(op)
            for inner, form in plans.items():
                replace_with_form(inner, form, PatternRewriter(inner))
        is_kept = bool(unhandled) and self.fallback == "keep"
        return PassOutcome(
            candidates,
            changed + len(plans),
            "ops on quantized values, which 'stablehlo-legalize-qdq-to-quantized-op' "
            "composes from float ops between StableHLO casts",
            unhandled if is_kept else (),
            "use 'fallback=qdq' to compute them with floats" if is_kept else "",
        )

    def _plans(
        self, module: ModuleOp
    ) -> tuple[Mapping[Operation, Form], Sequence[Operation]]:
        """Map ops to builders of integer ops; also return ops without integer form."""
        is_float = has_f32_multipliers(module, self.kernels)
        patterns = integer_patterns("f32" if is_float else self.rounding)
        plans: dict[Operation, Form] = {}
        without_form: list[Operation] = []
        for op in module.walk():
            parent = op.parent_op()
            # If a reduction has no integer form, ops in its region have none either.
            lacks_form = _is_reduction(parent) and parent not in plans
            if not lacks_form and (form := self._form(op, patterns)) is not None:
                plans[op] = form
            else:
                without_form.append(op)
        return plans, without_form

    def _form(self, op: Operation, patterns: Sequence[IntegerPattern]) -> Form | None:
        try:
            forms = (pattern.form(op) for pattern in patterns)
            return next((form for form in forms if form is not None), None)
        except ValueError as e:
            if self.fallback == "fail":
                # `qdq` does not decompose data movement ops.
                hint = "'fallback=qdq' to compute it with floats"
                if has_quantization_trait(op, MovesElements):
                    hint = "'fallback=keep' to keep it"
                refuse(op, "cannot be computed with integers", e, f"use {hint}")
            return None


def _state_rounding(module: ModuleOp) -> None:
    """Let casts without attributes round as those of ONNX."""
    stated = rounding_attributes(ONNX_ROUNDING)
    for op in module.walk():
        if isinstance(op, UniformQuantizeOp):
            op.attributes.update(stated | stated_attributes(op))


def _is_reduction(op: Operation | None) -> bool:
    return op is not None and has_quantization_trait(op, Reduces)


def _needs_integer_form(op: Operation) -> bool:
    """Return True if an op takes quantized values, and neither forwards nor casts them."""
    trait = quantization_trait(op, AcceptsStoredValues)
    passes_on = trait is not None and not isinstance(trait, MovesElements)
    return (
        has_quantized_operands(op)
        and not passes_on
        and not has_quantization_trait(op, CastsQuantization)
    )
