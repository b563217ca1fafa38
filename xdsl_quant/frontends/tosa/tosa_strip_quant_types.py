"""
Replacement of quantized types by storage types in a module of TOSA ops.

An op is supported if its operands and attributes contain all parameters that it needs to
compute stored values; `docs/reference/tosa.md` lists the ops.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import tosa
from xdsl.dialects.builtin import BoolAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from xdsl_quant.diagnostics import refuse, refusing
from xdsl_quant.dialects.quant import StorageCastOp, StoredQuantizedType
from xdsl_quant.dialects.quant.traits import (
    AcceptsStoredValues,
    CastsQuantization,
    has_quantization_trait,
)
from xdsl_quant.dialects.quant.types import ScaledQuantizedType, scalar_or_element_type
from xdsl_quant.frontends.tosa import ops
from xdsl_quant.frontends.tosa.rescale import constant_zero_point
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.transforms.building.type_replacement import defined_values, is_quantized
from xdsl_quant.transforms.quant.strip_func_quant_types import StrippedTypes

# Checks: each raises `ValueError` if the integers of an op depend on the types.


def _quantized_types(*values: SSAValue) -> Iterator[StoredQuantizedType]:
    for value in values:
        type_ = scalar_or_element_type(value.type)
        if isinstance(type_, StoredQuantizedType):
            yield type_


def _check_single_type(op: Operation) -> None:
    types = dict.fromkeys(_quantized_types(*op.operands, *op.results))
    if len(types) > 1:
        found = " and ".join(f"'{type_}'" for type_ in types)
        raise ValueError(f"operands and results have different types {found}")


def _check_signed(op: Operation) -> None:
    for type_ in _quantized_types(*op.operands, *op.results):
        if not type_.is_signed:
            raise ValueError(f"'{type_}' has unsigned storage")


def _check_order(op: Operation) -> None:
    _check_single_type(op)
    _check_signed(op)
    for type_ in _quantized_types(*op.operands):
        if isinstance(type_, ScaledQuantizedType) and not type_.is_per_tensor:
            raise ValueError(f"'{type_}' has several scales")


def _check_sum(op: Operation) -> None:
    _check_order(op)
    for type_ in _quantized_types(*op.operands):
        _check_zero(type_)
        if type_.storage_type_integral_width != 32:
            raise ValueError(f"'{type_}' may overflow; expected 32-bit storage")


def _check_zero(type_: StoredQuantizedType) -> None:
    if not isinstance(type_, ScaledQuantizedType) or not type_.is_fixed_point:
        raise ValueError(f"expected zero point 0, got '{type_}'")


def _check_equal_zero_point(
    value: SSAValue, zero_point: SSAValue, is_unsigned: bool
) -> None:
    for type_ in _quantized_types(value):
        if type_.is_signed == is_unsigned:
            flag = "unsigned" if is_unsigned else "signed"
            raise ValueError(f"the op reads '{type_}' as {flag} values")
        if not isinstance(type_, ScaledQuantizedType):
            continue
        if not isinstance(zero_point.owner, tosa.ConstOp):
            continue
        number = constant_zero_point(zero_point, "zero point", is_unsigned)
        if {*type_.zero_point_range} != {number}:
            raise ValueError(f"zero point {number} is not that of '{type_}'")


def _check_zero_points(op: Operation) -> None:
    names = _ZERO_POINTS[type(op)]
    for name in names:
        is_unsigned = isinstance(op, tosa.RescaleOp) and bool(
            cast(BoolAttr, op.properties[f"{name}_unsigned"]).value.data
        )
        value, zero_point = getattr(op, name), getattr(op, f"{name}_zp")
        _check_equal_zero_point(value, zero_point, is_unsigned)
    if "output" not in names:
        for type_ in _quantized_types(*op.results, *op.operands[2:]):
            _check_zero(type_)
    elif not isinstance(op, tosa.RescaleOp):
        _check_single_type(op)


_ZERO_POINTS: Mapping[type[Operation], Sequence[str]] = {
    ops.NegateOp: ("input1", "output"),
    tosa.AvgPool2DOp: ("input", "output"),
    tosa.RescaleOp: ("input", "output"),
    tosa.MatMulOp: ("a", "b"),
    ops.Conv2DOp: ("input", "weight"),
    ops.DepthwiseConv2DOp: ("input", "weight"),
    ops.TransposeConv2DOp: ("input", "weight"),
}
"""Tensors of each op whose zero point is an operand `<name>_zp`."""

_MOVEMENTS = (
    *(ops.IdentityOp, ops.ReshapeOp, ops.TransposeOp, ops.SliceOp, ops.TileOp),
    *(ops.ReverseOp, ops.GatherOp, ops.PadOp, ops.SelectOp, ops.ResizeOp),
    *(tosa.ConcatOp, tosa.ConstOp),
)

_ORDERED_OPS = (
    *(ops.MaximumOp, ops.MinimumOp, ops.EqualOp, ops.GreaterOp, ops.GreaterEqualOp),
    *(ops.ArgMaxOp, tosa.ReduceMaxOp, tosa.ReduceMinOp, tosa.MaxPool2DOp),
    tosa.ClampOp,
)

_STRIP_CHECKS: Mapping[type[Operation], Callable[[Operation], None]] = {
    **dict.fromkeys(_MOVEMENTS, _check_single_type),
    **dict.fromkeys(_ORDERED_OPS, _check_order),
    **dict.fromkeys((tosa.AddOp, tosa.SubOp, tosa.ReduceSumOp, ops.AbsOp), _check_sum),
    **dict.fromkeys(_ZERO_POINTS, _check_zero_points),
    ops.TableOp: _check_signed,
    tosa.IfOp: lambda _: None,
    tosa.YieldOp: lambda _: None,
}


_REMEDY = "use 'tosa.rescale' and an op on plain integers instead"


def _check_strippable(op: Operation) -> None:
    check = _STRIP_CHECKS.get(type(op))
    if check is None:
        if has_quantization_trait(op, AcceptsStoredValues):
            return
        types = "', '".join(map(str, _quantized_types(*op.operands, *op.results)))
        is_cast = has_quantization_trait(op, CastsQuantization)
        remedy = "run 'lower-quant-ops' first" if is_cast else _REMEDY
        refuse(op, "depends on scales", f"'{types}'", remedy)
    with refusing(op, "cannot be computed from stored values"):
        check(op)


@dataclass(frozen=True)
class TosaStripQuantTypesPass(CountingPass):
    """Replace quantized types by storage types everywhere, and remove storage casts."""

    name = "tosa-strip-quant-types"

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        types = StrippedTypes()
        walked = [*op.walk()]
        quantized = [
            inner
            for inner in walked
            if any(map(is_quantized, (*inner.operands, *defined_values(inner))))
        ]
        for inner in quantized:
            _check_strippable(inner)
        for inner in walked:
            with refusing(inner, "cannot be stripped"):
                for value in defined_values(inner):
                    types.replace(value.type)
                if isinstance(inner, FuncOp):
                    types.replace(inner.function_type)
        changed = sum(map(types.replace_in_values, walked))
        for inner in walked:
            if isinstance(inner, FuncOp):
                changed += types.replace_in_signature(inner)
            elif isinstance(inner, StorageCastOp):
                if inner.input.type == inner.result.type:
                    inner.result.replace_all_uses_with(inner.input)
                    Rewriter.erase_op(inner)
        return PassOutcome(quantized, changed, "ops with quantized types")
