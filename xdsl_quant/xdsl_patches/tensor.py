"""Patches of the dialect `tensor`: reshapes of unranked and dynamic tensors."""

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    TensorType,
    UnrankedTensorType,
    f32,
)
from xdsl.dialects.tensor import DimOp, ExtractOp, ReshapeOp
from xdsl.ir import Attribute
from xdsl.irdl import AnyAttr, BaseAttr
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import HasCanonicalizationPatternsTrait
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.type import get_element_type_or_self

from .widening import UnionConstraint, accepts_types, widen


def widen_reshape() -> None:
    """
    Accept unranked types and dynamic dimensions in `tensor.reshape`.

    MLIR: compares element counts only for static shapes; a shape operand of dynamic length
    requires an unranked result.
    Obsolete with: `docs/upstream/tensor-reshape.md`.
    """
    shape, result = TensorType(IndexType(), (1,)), TensorType(f32, (DYNAMIC_INDEX,))
    if accepts_types(ReshapeOp, (UnrankedTensorType(f32), shape), result):
        return

    tensors = UnionConstraint(
        TensorType.constr(AnyAttr()), BaseAttr(UnrankedTensorType)
    )
    widen(ReshapeOp, tensors, tensors)
    definition = ReshapeOp.get_irdl_definition()
    verify_ranked = ReshapeOp.verify_

    def verify_(self: ReshapeOp) -> None:
        types = (self.source.type, self.shape.type, self.result.type)
        definition.verify(self)
        message = _shape_error(*types)
        # xDSL reports the errors that it knows, with its own messages.
        if all(
            isinstance(t, TensorType) and (message or t.has_static_shape())
            for t in types
        ):
            verify_ranked(self)
        elif message is not None:
            raise VerifyException(message)

    ReshapeOp.verify_ = verify_


def _shape_error(source: Attribute, shape: Attribute, result: Attribute) -> str | None:
    """Return MLIR's message about the types, without comparing element counts."""
    assert isinstance(shape, TensorType)
    if get_element_type_or_self(source) != get_element_type_or_self(result):
        return "element types of source and destination tensor types should be the same"
    if shape.get_num_dims() != 1:
        return "shape tensor must have a rank one"
    if not isinstance(result, TensorType):
        return None
    (length,) = shape.get_shape()
    if length == DYNAMIC_INDEX:
        return (
            "cannot use shape operand with dynamic length to reshape to "
            "statically-ranked tensor type"
        )
    if length != result.get_num_dims():
        return "length of shape operand differs from the result's tensor rank"
    return None


class _TensorPatterns(HasCanonicalizationPatternsTrait):
    """All patterns of the dialect; each matches only the ops of its own class."""

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from xdsl_quant.transforms.canonicalization_patterns.tensor import PATTERNS

        return PATTERNS


def canonicalize_reshapes() -> None:
    """
    Canonicalize reshapes of reshaped tensors, and their dimensions.

    MLIR: reshapes the operand of the first reshape; `tensor.dim` becomes an element of
    the shape operand, and an element of `tensor.from_elements` becomes its operand.
    Obsolete with: `docs/upstream/tensor-canonicalization.md`.
    """
    for op_type in (ReshapeOp, DimOp, ExtractOp):
        if not op_type.has_trait(HasCanonicalizationPatternsTrait):
            op_type.traits.add_trait(_TensorPatterns())


PATCHES = (widen_reshape, canonicalize_reshapes)
