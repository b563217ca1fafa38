"""The element types that declarations of ops name."""

from collections.abc import Sequence

from xdsl.irdl import RangeConstraint, RangeLengthConstraint, RangeOf

from xdsl_quant.frontends.tflite.dialect.tensor_kinds import ElementKind, TFLTensorKind


def elements_of(constraint: RangeConstraint) -> Sequence[ElementKind]:
    """
    The element types that the runtime computes with.

    Args:
        constraint: that of an operand or a result in the definition of an op.
    """
    while isinstance(constraint, RangeLengthConstraint):
        constraint = constraint.constraint
    if isinstance(constraint, RangeOf) and isinstance(constraint.constr, TFLTensorKind):
        return constraint.constr.elements
    return ()
