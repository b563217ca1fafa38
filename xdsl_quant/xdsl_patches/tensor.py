"""Patches of the dialect `tensor`: `tensor.reshape` and `tensor.empty`."""

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    IndexType,
    TensorType,
    UnitAttr,
    UnrankedTensorType,
    f32,
)
from xdsl.dialects.tensor import EmptyOp, ReshapeOp
from xdsl.ir import Attribute
from xdsl.irdl import AnyAttr, BaseAttr
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.type import get_element_type_or_self

from .widening import Widened, takes, widen


def widen_reshape() -> None:
    """
    Let `tensor.reshape` have unranked types and dynamic dimensions.

    MLIR: only verifies numbers of elements that are known, and a shape operand of unknown
    length makes an unranked tensor.
    Ends with: `docs/upstream/tensor-reshape.md`.
    """
    shape, result = TensorType(IndexType(), (1,)), TensorType(f32, (DYNAMIC_INDEX,))
    if takes(ReshapeOp, (UnrankedTensorType(f32), shape), result):
        return

    tensors = Widened(TensorType.constr(AnyAttr()), BaseAttr(UnrankedTensorType))
    widen(ReshapeOp, tensors, tensors)
    definition = ReshapeOp.get_irdl_definition()
    verify_ranked = ReshapeOp.verify_

    def verify_(self: ReshapeOp) -> None:
        types = (self.source.type, self.shape.type, self.result.type)
        definition.verify(self)
        mistake = _mistake(*types)
        is_ranked = all(isinstance(t, TensorType) for t in types)
        is_static = all(
            isinstance(t, TensorType) and t.has_static_shape() for t in types
        )
        if is_static or (is_ranked and mistake is not None):
            verify_ranked(self)
        elif mistake is not None:
            raise VerifyException(mistake)

    ReshapeOp.verify_ = verify_


def _mistake(source: Attribute, shape: Attribute, result: Attribute) -> str | None:
    """What is wrong with a `tensor.reshape`, numbers of elements aside, in MLIR's words."""
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


def keep_empty_attributes() -> None:
    """
    Print and parse the discardable attributes of `tensor.empty`; xDSL refuses them.

    MLIR: keeps them.
    Ends with: `docs/upstream/tensor-empty.md`.
    """
    empty = EmptyOp((), TensorType(f32, (1,)))
    empty.attributes["kept"] = UnitAttr()
    if "kept" in str(empty):
        return

    def print_(self: EmptyOp, printer: Printer) -> None:
        with printer.in_parens():
            printer.print_list(self.dynamic_sizes, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.tensor.type)

    def parse(parser: Parser) -> EmptyOp:
        pos = parser.pos
        parser.parse_punctuation("(")
        sizes: list[UnresolvedOperand] = []
        if parser.parse_optional_punctuation(")") is None:
            sizes = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, parser.parse_unresolved_operand
            )
            parser.parse_punctuation(")")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        result_type = parser.parse_attribute()
        empty = EmptyOp(
            parser.resolve_operands(sizes, [IndexType()] * len(sizes), pos), result_type
        )
        empty.attributes |= attributes
        return empty

    EmptyOp.print = print_
    EmptyOp.parse = staticmethod(parse)


PATCHES = (widen_reshape, keep_empty_attributes)
