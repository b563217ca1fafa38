"""Patches of the dialect `arith`: casts of tensors and `arith.remf`."""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloatConstr,
    IntegerType,
    ShapedType,
    SignlessIntegerConstraint,
    TensorType,
    VectorType,
    f32,
    i8,
    i32,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import (
    AttrConstraint,
    BaseAttr,
    IRDLOperation,
    irdl_op_definition,
    traits_def,
)
from xdsl.traits import MemoryEffect, OpTrait, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.type import get_element_type_or_self

from .widening import UnionConstraint, accepts_types, widen


class _SameShape(OpTrait):
    """
    Verify that operand and result of a cast have the same shape. The rules, their order and
    the messages are MLIR's.
    """

    def verify(self, op: Operation) -> None:
        source, result = op.operands[0].type, op.results[0].type
        if _tensor_dimensions(source) != _tensor_dimensions(result):
            raise VerifyException(
                f"'{op.name}' op failed to verify that input and output have the same "
                "tensor dimensions"
            )
        if _container(source) != _container(result):
            raise VerifyException(
                f"'{op.name}' op requires the same shape for all operands and results"
            )
        if isinstance(source, TensorType) and isinstance(result, TensorType):
            if source.encoding != result.encoding:
                raise _incompatible(op)


def _tensor_dimensions(type_: Attribute) -> Sequence[int]:
    """Return the dimensions of a tensor; empty for other types."""
    return type_.get_shape() if isinstance(type_, TensorType) else ()


def _container(type_: Attribute) -> Sequence[object]:
    """Return the parameters of a type, except for its element type and encoding."""
    if isinstance(type_, VectorType):
        return type_.shape, type_.scalable_dims
    return (type_.shape,) if isinstance(type_, TensorType) else ()


def _incompatible(op: Operation) -> VerifyException:
    return VerifyException(
        f"'{op.name}' op operand type '{op.operands[0].type}' and result type "
        f"'{op.results[0].type}' are cast incompatible"
    )


def _or_shaped(scalar: AttrConstraint, element: AttrConstraint) -> AttrConstraint:
    return UnionConstraint(
        scalar, VectorType.constr(element) | TensorType.constr(element)
    )


def widen_casts() -> None:
    """
    Accept vectors and ranked tensors in `sitofp`, `uitofp`, `fptosi`, `fptoui`, `extsi`,
    `extui` and `trunci`, which are scalar ops in xDSL.

    MLIR: operand and result are scalars, vectors or ranked tensors of the same shape.
    Obsolete with: `docs/upstream/arith-casts.md`.
    """
    integers = _or_shaped(BaseAttr(IntegerType), SignlessIntegerConstraint)
    floats = _or_shaped(AnyFloatConstr, AnyFloatConstr)
    for op_type, operand, source, result, target in (
        (arith.SIToFPOp, i8, integers, f32, floats),
        (arith.UIToFPOp, i8, integers, f32, floats),
        (arith.FPToSIOp, f32, floats, i8, integers),
        (arith.FPToUIOp, f32, floats, i8, integers),
        (arith.ExtSIOp, i8, integers, i32, integers),
        (arith.ExtUIOp, i8, integers, i32, integers),
        (arith.TruncIOp, i32, integers, i8, integers),
    ):
        if accepts_types(
            op_type, (TensorType(operand, (1,)),), TensorType(result, (1,))
        ):
            continue
        widen(op_type, source, target)
        op_type.get_irdl_definition().traits.add_trait(_SameShape())
        if source is target:
            _verify_widths(op_type)


def _verify_widths(op_type: type[IRDLOperation]) -> None:
    """Make the verifier compare the widths of element types."""
    definition = op_type.get_irdl_definition()
    verify_scalar = op_type.verify_

    def verify_(self: IRDLOperation) -> None:
        types = (self.operands[0].type, self.results[0].type)
        if not all(isinstance(type_, ShapedType) for type_ in types):
            verify_scalar(self)
            return
        definition.verify(self)
        operand, result = map(get_element_type_or_self, types)
        if not accepts_types(op_type, (operand,), result):
            raise _incompatible(self)

    op_type.verify_ = verify_


def make_extsi_pure() -> None:
    """
    Mark `arith.extsi` as pure, like `arith.extui`, so that CSE and dead code elimination
    can remove it.

    MLIR: both are pure.
    Obsolete with: `docs/upstream/arith-extsi.md`.
    """
    if not arith.ExtSIOp.has_trait(MemoryEffect):
        arith.ExtSIOp.traits.add_trait(Pure())


@irdl_op_definition
class _RemFOp(arith.FloatingPointLikeBinaryOperation):
    """
    Return the remainder of a division whose quotient is rounded toward zero.

    See external [documentation](https://mlir.llvm.org/docs/Dialects/ArithOps/#arithremf-arithremfop).
    """

    name = "arith.remf"

    traits = traits_def(Pure())


RemFOp = cast(
    type[arith.FloatingPointLikeBinaryOperation],
    next((op for op in arith.Arith.operations if op.name == _RemFOp.name), _RemFOp),
)
"""The class of `arith.remf`: xDSL's class if there is one."""


def add_remf() -> None:
    """
    Add `arith.remf`, to which the remainder of quantized values is lowered.

    MLIR: has the op.
    Obsolete with: `docs/upstream/arith-remf.md`.
    """
    if RemFOp not in arith.Arith.operations:
        # `Dialect` has no method for adding an op.
        arith.Arith._operations.append(RemFOp)  # pyright: ignore[reportPrivateUsage] no public way


PATCHES = (widen_casts, make_extsi_pure, add_remf)
