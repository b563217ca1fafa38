"""
StableHLO's ops on floats, integers and truth values as loop nests of the linalg dialect.

An op that computes becomes a `linalg.generic`, one that only moves elements becomes ops of
the tensor dialect where it can. The modules of the folder `linalg` have a group of ops
each.

Ops that only move elements take quantized tensors as well: they move stored values, and
`quant.scast` stands round them. So does a `reduce`, if the casts in its region are lowered.
There is no arithmetic on quantized tensors here: it has to be turned into arithmetic on
floats or integers first.

The arithmetic of MLIR's dialects knows no `ui8`. Where a module has such a type, it becomes
`i8` everywhere, in the signatures of functions, too; the bits stay.

Everything that may fail is checked before the first change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    FunctionType,
    ModuleOp,
    NoneAttr,
    TensorType,
    UnrealizedConversionCastOp,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from xdsl_quant.diagnostics import fail
from xdsl_quant.dialects import stablehlo
from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizedType,
    StorageCastOp,
    StoredQuantizedType,
)
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.type_replacement import defined_values, set_type
from xdsl_quant.xdsl_patches import patched_pass

from .linalg.convolution import convert_convolution, why_not_convolved
from .linalg.data_movement import (
    convert_broadcast_in_dim,
    convert_concatenate,
    convert_constant,
    convert_pad,
    convert_reshape,
    convert_slice,
    convert_transpose,
    why_not_broadcast,
    why_not_pad,
    why_not_reshaped,
)
from .linalg.dot_general import convert_dot_general
from .linalg.element_types import (
    has_sign,
    is_arithmetic,
    signless,
    stored_type,
)
from .linalg.elementwise import convert_elementwise
from .linalg.reduction import (
    convert_reduce,
    is_quantized_arithmetic,
    why_not_reduced,
)
from .linalg.scalars import SCALARS

_Convert = Callable[
    [LoweringBuilder, Operation, Sequence[SSAValue]], Sequence[SSAValue]
]
"""The results for an op and its stored operands, which have signless types."""


class _Conversion(NamedTuple):
    convert: _Convert
    why_not: Callable[[Operation], str | None] = lambda _: None
    moves: bool = False
    """Whether elements are only moved, so that they may be stored values or any floats."""

    takes_stored: bool = False
    """Whether elements may be stored values although they are not only moved."""


_CONVERSIONS: dict[type[Operation], _Conversion] = {
    **{op_type: _Conversion(convert_elementwise) for op_type in SCALARS},
    stablehlo.BroadcastInDimOp: _Conversion(
        convert_broadcast_in_dim, why_not_broadcast, moves=True
    ),
    stablehlo.ConcatenateOp: _Conversion(convert_concatenate, moves=True),
    stablehlo.ConstantOp: _Conversion(convert_constant, moves=True),
    stablehlo.ConvolutionOp: _Conversion(convert_convolution, why_not_convolved),
    stablehlo.DotGeneralOp: _Conversion(convert_dot_general),
    stablehlo.PadOp: _Conversion(convert_pad, why_not_pad, moves=True),
    stablehlo.ReduceOp: _Conversion(convert_reduce, why_not_reduced, takes_stored=True),
    stablehlo.ReshapeOp: _Conversion(convert_reshape, why_not_reshaped, moves=True),
    stablehlo.SelectOp: _Conversion(convert_elementwise, moves=True),
    stablehlo.SliceOp: _Conversion(convert_slice, moves=True),
    stablehlo.TransposeOp: _Conversion(convert_transpose, moves=True),
}


# Checks

_QUANTIZED_ARITHMETIC = (
    "is arithmetic on a quantized tensor: run 'convert-quantized-stablehlo-to-linalg' "
    "instead"
)


def _check(op: Operation) -> None:
    """
    Raises:
        PassFailedException: if the op cannot be converted.
    """
    if (problem := _why_not_cast(op)) is not None:
        fail(op, problem)
    if isinstance(op, stablehlo.ReduceOp):
        _check_region(op)
    if (conversion := _CONVERSIONS.get(type(op))) is None:
        fail(op, f"'{op.name}' op has no conversion to linalg")
    for value in (*op.operands, *op.results):
        if (problem := _why_not_type(value.type, conversion)) is not None:
            fail(op, f"'{op.name}' op {problem}")
    if (problem := conversion.why_not(op)) is not None:
        fail(op, f"'{op.name}' op {problem}, which has no conversion to linalg")


def _why_not_cast(op: Operation) -> str | None:
    if not isinstance(op, stablehlo.UniformQuantizeOp | stablehlo.UniformDequantizeOp):
        return None
    return (
        f"'{op.name}' op is a cast of the quant dialect: run "
        "'convert-quantized-stablehlo-to-linalg' instead, or 'stablehlo-casts-to-quant' "
        "first"
    )


def _check_region(op: stablehlo.ReduceOp) -> None:
    """
    Raises:
        PassFailedException: if the region computes with quantized numbers.
    """
    for inner in op.body.walk():
        if (problem := _why_not_cast(inner)) is not None:
            fail(op, problem)
        if isinstance(inner, QuantizeCastOp | DequantizeCastOp):
            fail(
                op,
                f"'{inner.name}' op is in the region of a reduction: run "
                "'lower-quant-ops' first",
            )
        if is_quantized_arithmetic(inner):
            fail(op, f"'{op.name}' op {_QUANTIZED_ARITHMETIC}")


def _why_not_type(type_: Attribute, conversion: _Conversion) -> str | None:
    """Why there are no ops on values of a type, if there are none."""
    if not isinstance(type_, TensorType):
        return f"has a value of type '{type_}', which is no ranked tensor"
    container = cast(TensorType, type_)
    if not isinstance(container.encoding, NoneAttr):
        return f"has a value of type '{type_}', whose encoding is not known"
    element_type = container.element_type
    if isinstance(element_type, QuantizedType):
        return _why_not_quantized(element_type, conversion)
    if is_arithmetic(element_type):
        return None
    if conversion.moves and isinstance(element_type, AnyFloat):
        return None
    return (
        f"has a value of type '{type_}', but elements may be integers of up to "
        "64 bits, bf16, f16, f32 and f64"
    )


def _why_not_quantized(type_: QuantizedType, conversion: _Conversion) -> str | None:
    if not (conversion.moves or conversion.takes_stored):
        return _QUANTIZED_ARITHMETIC
    if not isinstance(type_, StoredQuantizedType):
        return f"takes stored values of type '{type_}', which has no storage type"
    return None


_MAY_HAVE_SIGNS = ("cf.", "func.", "scf.", "stablehlo.", "tensor.")
"""Ops, or dialects of ops, that do the same with types without a sign."""


def _check_signs(op: Operation) -> None:
    if op.name.startswith(_MAY_HAVE_SIGNS):
        return
    for value in (*op.operands, *defined_values(op)):
        if has_sign(value.type):
            fail(
                op,
                f"'{op.name}' op has a value of type '{value.type}', which is "
                "about to become one without a sign",
            )


# Conversion


def _cast(builder: LoweringBuilder, value: SSAValue, type_: Attribute) -> SSAValue:
    """A value as one of another type with the same bits."""
    if value.type == type_:
        return value
    owner = value.owner
    if isinstance(owner, StorageCastOp | UnrealizedConversionCastOp):
        if len(owner.operands) == 1 and owner.operands[0].type == type_:
            return owner.operands[0]
    if any(map(QuantizedType.get_quantized_element_type, (value.type, type_))):
        return builder.op(StorageCastOp, (value,), type_)
    return builder.op(UnrealizedConversionCastOp, (value,), type_)


def _convert(op: Operation) -> Sequence[Operation]:
    """Replace an op, and return the ops that take its place."""
    builder = LoweringBuilder.before(op)
    new_ops: list[Operation] = []
    builder.operation_insertion_handler.append(new_ops.append)
    operands = [
        _cast(builder, operand, stored_type(operand.type)) for operand in op.operands
    ]
    results = _CONVERSIONS[type(op)].convert(builder, op, operands)
    for old, new in zip(op.results, results, strict=True):
        replacement = _cast(builder, new, old.type)
        for value in (new, replacement):
            value.name_hint = value.name_hint or old.name_hint
        old.replace_all_uses_with(replacement)
    Rewriter.erase_op(op)
    return new_ops


def _make_signless(module: ModuleOp, casts: Sequence[Operation]) -> None:
    """Replace integer types with a sign by those that have none, and remove casts."""
    for op in module.walk():
        for value in defined_values(op):
            set_type(value, signless(value.type))
        if isinstance(op, FuncOp):
            type_ = op.function_type
            op.function_type = FunctionType.from_lists(
                [*map(signless, type_.inputs)], [*map(signless, type_.outputs)]
            )
    for cast_op in casts:
        cast_op.results[0].replace_all_uses_with(cast_op.operands[0])
        Rewriter.erase_op(cast_op)


@dataclass(frozen=True)
class ConvertStableHLOToLinalgPass(ModulePass):
    """
    Turn StableHLO's ops into ops of linalg, tensor, arith and math. A module has all of
    them converted or, if the pass fails, none.
    """

    name = "convert-stablehlo-to-linalg"

    @patched_pass
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        all_ops = [*op.walk()]
        ops = [
            inner
            for inner in all_ops
            if inner.name.startswith("stablehlo.")
            # What is in the region of a reduction is converted together with it.
            and not isinstance(inner.parent_op(), stablehlo.ReduceOp)
        ]
        for inner in ops:
            _check(inner)
        has_signs = any(
            has_sign(value.type) for inner in all_ops for value in defined_values(inner)
        )
        if has_signs:
            for inner in all_ops:
                _check_signs(inner)
        new_ops = [new for inner in ops for new in _convert(inner)]
        casts: list[Operation] = []
        for new in reversed(new_ops):
            if not isinstance(new, StorageCastOp | UnrealizedConversionCastOp):
                continue
            if new.results[0].first_use is None:
                Rewriter.erase_op(new)
            elif isinstance(new, UnrealizedConversionCastOp):
                casts.append(new)
        if has_signs:
            _make_signless(op, casts)
