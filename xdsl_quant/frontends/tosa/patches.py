"""Patches of xDSL's `tosa` dialect: ops of MLIR 22 that it lacks or partly supports."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    TensorType,
    f32,
    i8,
    i32,
)
from xdsl.dialects.tosa import (
    TOSA,
    AddOp,
    AvgPool2DOp,
    ClampOp,
    ConcatOp,
    ConstOp,
    MatMulOp,
    MaxPool2DOp,
    MulOp,
    NanMode,
    NanModeAttr,
    ReduceAllOp,
    ReduceAnyOp,
    ReduceMaxOp,
    ReduceMinOp,
    ReduceProductOp,
    ReduceSumOp,
    RescaleOp,
    RoundingModeAttr,
    SubOp,
)
from xdsl.ir import Block
from xdsl.irdl import BaseAttr, IRDLOperation, OpDef, OperandDef, PropertyDef, ResultDef
from xdsl.parser import Parser
from xdsl.traits import MemoryEffect, Pure
from xdsl.utils.exceptions import ParseError, VerifyException

from xdsl_quant.dialects.quant import QuantizedType, UniformQuantizedType
from xdsl_quant.xdsl_patches.widening import UnionConstraint, accepts_types

from .attributes import ATTRIBUTES
from .checks import (
    BOUNDS,
    INTEGERS,
    QUANTIZED,
    verify_clamp,
    verify_matmul,
    verify_product,
    verify_sum,
)
from .ops import OPERATIONS
from .syntax import parse_with_keywords, print_with_keywords


def add_ops() -> None:
    """
    Add ops, attributes and types: convolutions, tables, reshapes and elementwise
    arithmetic.

    MLIR: has these ops, attributes and types.
    Obsolete with: `docs/upstream/tosa-ops.md`.
    """
    known = {part.name for part in (*TOSA.operations, *TOSA.attributes)}
    # xDSL has no public way to extend a dialect.
    for op in OPERATIONS:
        if op.name not in known:
            TOSA._operations.append(op)  # pyright: ignore[reportPrivateUsage] no public way
    for attribute in ATTRIBUTES:
        if attribute.name not in known:
            TOSA._attributes.append(attribute)  # pyright: ignore[reportPrivateUsage] no public way


def read_nan_mode_keywords() -> None:
    """
    Let `clamp`, `max_pool2d`, `reduce_max` and `reduce_min` print and parse the NaN
    mode as a keyword: `{nan_mode = IGNORE}`.

    MLIR: reads and prints the keyword.
    Obsolete with: `docs/upstream/tosa-nan-mode.md`.
    """
    (operand,) = Block(arg_types=(TensorType(f32, (1,)),)).args
    op = ReduceMaxOp.build(
        operands=(operand,),
        result_types=(operand.type,),
        properties={"nan_mode": NanModeAttr(NanMode.IGNORE)},
    )
    if "#tosa" not in str(op):
        return
    for op_type in (ClampOp, MaxPool2DOp, ReduceMaxOp, ReduceMinOp):
        op_type.parse = classmethod(parse_with_keywords)  # pyright: ignore[reportAttributeAccessIssue] the type of any op
        op_type.print = print_with_keywords


def take_resources() -> None:
    """
    Let `const` hold a `dense_resource` attribute.

    MLIR: `const` holds elements of any kind.
    Obsolete with: `docs/upstream/tosa-constants.md`.
    """
    properties = ConstOp.get_irdl_definition().properties
    constraint, resource = properties["values"].constr, BaseAttr(DenseResourceAttr)
    type_ = TensorType(i8, (2,))
    if not constraint.verifies(DenseResourceAttr.from_params("elements", type_)):
        properties["values"] = PropertyDef(UnionConstraint(constraint, resource))


def read_rounding_mode_attributes() -> None:
    """
    Let the custom form of `rescale` have `rounding_mode = #tosa.rounding_mode<...>`, and
    print its attributes in alphabetical order.

    MLIR: reads the attribute and the keyword, prints the keyword, and sorts attributes.
    Obsolete with: `docs/upstream/tosa-rounding-mode.md`.
    """
    types = "(i8, i8, i8, i8, i8) -> i8"
    mode = "{rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>}"
    ctx = Context()
    ctx.load_attr_or_type(RoundingModeAttr)
    try:
        RescaleOp.parse(Parser(ctx, f"%x, %x, %x, %x, %x {mode} : {types}"))
    except ParseError:
        RescaleOp.parse = classmethod(parse_with_keywords)  # pyright: ignore[reportAttributeAccessIssue] the type of any op
        RescaleOp.print = print_with_keywords


def take_types_of_mlir() -> None:
    """
    Let `add`, `sub`, `mul`, `matmul` and `clamp` accept quantized elements, wider
    products, batches and dynamic sizes. Error messages for other types do not change.

    MLIR: accepts these types.
    Obsolete with: `docs/upstream/tosa-types.md`.
    """
    type_ = TensorType(UniformQuantizedType(i8, f32, 0.5), (DYNAMIC_INDEX, 1, 1))
    static = TensorType(type_.element_type, (2, 1, 1))
    one, i8_types = TensorType(i8, (1,)), TensorType(i8, (2, 1, 1))
    i32_types = TensorType(i32, (2, 1, 1))
    bounds = {name: IntegerAttr(0, 8) for name in BOUNDS}
    for op_type, check, operands, result, properties in (
        (AddOp, verify_sum, (type_, type_), static, {}),
        (SubOp, verify_sum, (type_, type_), static, {}),
        (MulOp, verify_product, (i8_types, i8_types, one), i32_types, {}),
        (MatMulOp, verify_matmul, (type_, type_, one, one), i32_types, {}),
        (ClampOp, verify_clamp, (type_,), type_, bounds),
    ):
        if accepts_types(op_type, operands, result, properties):
            continue
        definition = op_type.get_irdl_definition()
        xdsl = replace(
            definition,
            operands=[*definition.operands],
            results=[*definition.results],
            properties={**definition.properties},
        )
        verify_xdsl = cast(Callable[[IRDLOperation], None], op_type.verify_)
        _widen(op_type)
        op_type.verify_ = _verifier(xdsl, verify_xdsl, check)  # pyright: ignore[reportAttributeAccessIssue] the type of any op


def _widen(op_type: type[AddOp | SubOp | MulOp | MatMulOp | ClampOp]) -> None:
    # As little as possible: xDSL's parser reports errors of constraints.
    definition = op_type.get_irdl_definition()
    same = TensorType.constr(op_type.T)
    if op_type is MatMulOp:
        for index, (name, _) in enumerate(definition.operands):
            more = INTEGERS if name.endswith("_zp") else QUANTIZED
            operand = OperandDef(UnionConstraint(same, more))
            definition.operands[index] = name, operand
    if op_type in (MulOp, MatMulOp):
        wider = UnionConstraint(UnionConstraint(same, INTEGERS), QUANTIZED)
        definition.results[0] = definition.results[0][0], ResultDef(wider)
    number = BaseAttr(IntegerAttr) | BaseAttr(FloatAttr)
    for name in definition.properties.keys() & {*BOUNDS}:
        constraint = definition.properties[name].constr
        definition.properties[name] = PropertyDef(UnionConstraint(constraint, number))


def _verifier(
    xdsl: OpDef,
    verify_xdsl: Callable[[IRDLOperation], None],
    check: Callable[[IRDLOperation], None],
) -> Callable[[IRDLOperation], None]:
    """Return a verifier with MLIR's rules and, for unquantized types, xDSL's messages."""

    def verify_(self: IRDLOperation) -> None:
        self.get_irdl_definition().verify(self)
        try:
            check(self)
        except (VerifyException, ValueError):
            if any(
                QuantizedType.get_quantized_element_type(t) for t in self.operand_types
            ):
                raise
            xdsl.verify(self)
            verify_xdsl(self)

    return verify_


def make_ops_pure() -> None:
    """
    Mark constants, rescales, pools and reductions as pure, e.g. for CSE.

    MLIR: these ops are pure.
    Obsolete with: `docs/upstream/tosa-pure.md`.
    """
    for op_type in (
        *(AvgPool2DOp, ClampOp, ConcatOp, ConstOp, MaxPool2DOp, RescaleOp),
        *(ReduceAllOp, ReduceAnyOp, ReduceMaxOp, ReduceMinOp, ReduceProductOp),
        ReduceSumOp,
    ):
        if not op_type.has_trait(MemoryEffect):
            op_type.traits.add_trait(Pure())


# Former name, kept for compatibility.
widen_products = take_types_of_mlir

PATCHES = (
    add_ops,
    read_nan_mode_keywords,
    take_resources,
    read_rounding_mode_attributes,
    take_types_of_mlir,
    make_ops_pure,
)
