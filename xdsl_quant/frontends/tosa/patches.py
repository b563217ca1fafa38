"""Patches of xDSL's `tosa` dialect: ops of MLIR 22 that it lacks or partly supports."""

from typing import cast

from xdsl.dialects.builtin import (
    DenseResourceAttr,
    IntegerType,
    TensorType,
    f32,
    i8,
    i32,
)
from xdsl.dialects.tosa import (
    TOSA,
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
)
from xdsl.ir import Block
from xdsl.irdl import AttrConstraint, BaseAttr, IRDLOperation, PropertyDef, ResultDef
from xdsl.traits import MemoryEffect, Pure

from xdsl_quant.xdsl_patches.widening import UnionConstraint, accepts_types

from .ops import ATTRIBUTES, OPERATIONS, parse_with_keywords, print_with_keywords


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


def widen_products() -> None:
    """
    Let integer `mul` and `matmul` have wider results, and `matmul` a batch dimension.

    MLIR: the product of `i8` is `i32`, and `matmul` has a batch dimension.
    Obsolete with: `docs/upstream/tosa-products.md`.
    """
    narrow, wide = TensorType(i8, (2, 1, 1)), TensorType(i32, (2, 1, 1))
    one = TensorType(i8, (1,))
    if not accepts_types(MulOp, (narrow, narrow, one), wide):
        _widen_result(MulOp, TensorType.constr(MulOp.T))
    if not accepts_types(MatMulOp, (narrow, narrow, one, one), wide):
        _widen_result(MatMulOp, TensorType.constr(MatMulOp.T))
        _verify_batches()


def _widen_result(op_type: type[IRDLOperation], result: AttrConstraint) -> None:
    """Let an op have integer results of any width."""
    definition = op_type.get_irdl_definition()
    ((name, _),) = definition.results
    integers = TensorType.constr(BaseAttr(IntegerType))
    definition.results[0] = (name, ResultDef(UnionConstraint(result, integers)))


def _verify_batches() -> None:
    definition = MatMulOp.get_irdl_definition()
    verify_single = MatMulOp.verify_

    def verify_(self: MatMulOp) -> None:
        definition.verify(self)
        a, b, a_zp, b_zp = (
            cast(TensorType, operand.type).get_shape() for operand in self.operands
        )
        # Let xDSL's verifier report errors.
        if (
            not (len(a) == len(b) == 3 and a_zp == b_zp == (1,))
            or a[0] != b[0]
            or a[2] != b[1]
        ):
            verify_single(self)

    MatMulOp.verify_ = verify_


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


PATCHES = (
    add_ops,
    read_nan_mode_keywords,
    take_resources,
    widen_products,
    make_ops_pure,
)
