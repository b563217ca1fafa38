"""Canonicalization of ops with dynamic shapes: constant operands become properties."""

from collections.abc import Mapping
from typing import cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.verification import constant_integers

from . import dialect as stablehlo
from .dialect.attributes import dimensions_attr, padding_attr

STATIC_FORMS: Mapping[type[Operation], type[IRDLOperation]] = {
    stablehlo.DynamicBroadcastInDimOp: stablehlo.BroadcastInDimOp,
    stablehlo.DynamicConvOp: stablehlo.ConvolutionOp,
    stablehlo.DynamicGatherOp: stablehlo.GatherOp,
    stablehlo.DynamicIotaOp: stablehlo.IotaOp,
    stablehlo.DynamicPadOp: stablehlo.PadOp,
    stablehlo.DynamicReshapeOp: stablehlo.ReshapeOp,
    stablehlo.RealDynamicSliceOp: stablehlo.SliceOp,
}
"""
Static op by dynamic op. The first operands are those of the static op. The other operands
are properties of the static op with the same names, or the shape of its result.
"""


def _constant_attribute(value: SSAValue) -> Attribute | None:
    """Return the elements of a constant as the value of a property."""
    if (numbers := constant_integers(value)) is None:
        return None
    if len(cast(TensorType, value.type).shape) == 1:
        return dimensions_attr(numbers)
    return padding_attr([*zip(numbers[::2], numbers[1::2], strict=True)])


def static_form(op: Operation) -> IRDLOperation | None:
    """Return a static op for an op with constant shapes, or `None` if there is none."""
    assert isinstance(op, IRDLOperation)
    static_type = STATIC_FORMS[type(op)]
    definition = static_type.get_irdl_definition()
    count = len(definition.operands)
    names = [name for name, _ in op.get_irdl_definition().operands[count:]]
    values = [_constant_attribute(operand) for operand in op.operands[count:]]
    if None in values:
        return None
    properties = {**op.properties, **dict(zip(names, values, strict=True))}
    form = static_type.create(
        operands=op.operands[:count],
        result_types=op.result_types,
        properties={
            name: cast(Attribute, value)
            for name, value in properties.items()
            if name in definition.properties
        },
        attributes=op.attributes,
        location=op.location,
    )
    try:
        form.verify()
    except VerifyException:
        # For example, results of static ops have static shapes.
        form.erase()
        return None
    return form


class ToStaticForm(RewritePattern):
    """Replace an op whose shapes, slices or paddings are constants by the static op."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if (form := static_form(op)) is not None:
            rewriter.replace(op, form)


PATTERNS = (ToStaticForm(),)
"""All patterns."""
