"""Canonicalization patterns of the dialect `shape`."""

from xdsl.dialects import tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.utils.hints import isa
from xdsl.utils.type import get_element_type_or_self

from xdsl_quant.dialects.shape import ShapeOfOp


class ShapeOfReshape(RewritePattern):
    """Replace the shape of a reshaped tensor by the shape operand of the reshape."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ShapeOfOp, rewriter: PatternRewriter, /) -> None:
        result_type = op.result.type
        if not isinstance(reshape := op.arg.owner, tensor.ReshapeOp) or not isa(
            result_type, TensorType[Attribute]
        ):
            return
        shape = reshape.shape
        if shape.type == result_type:
            rewriter.replace(op, (), (shape,))
        elif get_element_type_or_self(shape.type) == result_type.element_type:
            rewriter.replace(op, tensor.CastOp(shape, result_type))
