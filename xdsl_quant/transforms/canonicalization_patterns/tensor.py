"""Canonicalization patterns of the dialect `tensor`."""

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.transforms.canonicalization_patterns.utils import const_evaluate_operand
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.type import get_element_type_or_self


class ReshapeOfReshape(RewritePattern):
    """Reshape the operand of a reshape instead of its result."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: tensor.ReshapeOp, rewriter: PatternRewriter, /
    ) -> None:
        if not isinstance(producer := op.source.owner, tensor.ReshapeOp):
            return
        reshape = tensor.ReshapeOp(producer.source, op.shape, op.result.type)
        try:
            reshape.verify_()
        except VerifyException:
            # The static element counts of the operand and the result differ.
            reshape.erase()
            return
        rewriter.replace(op, reshape)


class RedundantReshape(RewritePattern):
    """Remove a reshape to the same type with at most one dimension."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: tensor.ReshapeOp, rewriter: PatternRewriter, /
    ) -> None:
        type_ = op.source.type
        if (
            isinstance(type_, TensorType)
            and type_.get_num_dims() <= 1
            and type_ == op.result.type
        ):
            rewriter.replace(op, (), (op.source,))


class DimOfReshape(RewritePattern):
    """Extract a dimension of a reshaped tensor from the shape operand of the reshape."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tensor.DimOp, rewriter: PatternRewriter, /) -> None:
        if not isinstance(reshape := op.source.owner, tensor.ReshapeOp):
            return
        size_type = get_element_type_or_self(reshape.shape.type)
        extract = tensor.ExtractOp(reshape.shape, op.index, size_type)
        if size_type == op.result.type:
            rewriter.replace(op, extract)
        else:
            cast = arith.IndexCastOp(extract, op.result.type)
            rewriter.replace(op, (extract, cast))


class ExtractFromElements(RewritePattern):
    """Replace an element extracted from `tensor.from_elements` by the operand."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: tensor.ExtractOp, rewriter: PatternRewriter, /
    ) -> None:
        if not isinstance(producer := op.tensor.owner, tensor.FromElementsOp):
            return
        position = 0
        for operand, size in zip(
            op.indices, producer.result.type.get_shape(), strict=True
        ):
            index = const_evaluate_operand(operand)
            if index is None or not 0 <= index < size:
                return
            position = position * size + index
        rewriter.replace(op, (), (producer.elements[position],))


PATTERNS = (
    ReshapeOfReshape(),
    RedundantReshape(),
    DimOfReshape(),
    ExtractFromElements(),
)
"""All patterns."""
