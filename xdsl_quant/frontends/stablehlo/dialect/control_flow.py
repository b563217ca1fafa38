"""Control flow: conditionals and loops."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DictionaryAttr, i1
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    region_def,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure, RecursiveMemoryEffect

from xdsl_quant.diagnostics import quoted
from xdsl_quant.dialects.quant.traits import AcceptsStoredValues
from xdsl_quant.dialects.type_kinds import VariadicOf
from xdsl_quant.dialects.verification import RankedTensor, require

from . import tensor_kinds as kinds
from .base import StableHLOOp, are_compatible_types

__all__ = ["CaseOp", "IfOp", "OptimizationBarrierOp", "WhileOp"]


def returned_types(region: Region) -> Sequence[Attribute]:
    """Return the types that a region of one block returns."""
    last_op = region.block.last_op
    return last_op.operand_types if last_op is not None else ()


def are_compatible_lists(a: Sequence[Attribute], b: Sequence[Attribute]) -> bool:
    """Return True if two lists of types of tensors or tokens are compatible."""
    return len(a) == len(b) and all(
        x == y
        or (
            all(kinds.TENSOR_OR_PER_AXIS.accepts(type_) for type_ in (x, y))
            and are_compatible_types(cast(RankedTensor, x), cast(RankedTensor, y))
        )
        for x, y in zip(a, b, strict=True)
    )


class BranchingOp(StableHLOOp, ABC):
    """Op whose results are those of one of its regions, selected by its operand."""

    results_ = var_result_def(VariadicOf(kinds.SELECTED))

    traits = traits_def(RecursiveMemoryEffect(), AcceptsStoredValues())

    def verify_(self) -> None:
        (operand, *_) = self.tensor_types
        require(
            not (rank := len(operand.get_shape())),
            f"operand should be rank 0 tensor but got rank {rank}",
        )
        first = returned_types(self.regions[0])
        for index, region in enumerate(self.regions):
            count = len(region.block.args)
            require(
                not count,
                f"branch {index} must have 0 arguments, but found {count}",
            )
            types = returned_types(region)
            require(
                are_compatible_lists(first, types),
                f"branch 0 and branch {index} have mismatched return types: "
                f"{quoted(first)} vs {quoted(types)}",
            )
        self.require_inferred(are_compatible_lists(first, self.result_types), first)


@irdl_op_definition
class IfOp(BranchingOp):
    """
    Conditional: the results of `true_branch` if `pred` is true, else of `false_branch`.

    Example:

    ```mlir
    %1 = "stablehlo.if"(%pred) ({
      stablehlo.return %a : tensor<4xf32>
    }, {
      stablehlo.return %b : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    ```
    """

    name = "stablehlo.if"

    pred = operand_def(kinds.PRED_TENSOR)
    true_branch = region_def("single_block")
    false_branch = region_def("single_block")


@irdl_op_definition
class CaseOp(BranchingOp):
    """
    Results of the branch with the number `index`, or of the last one if there is none.

    Example:

    ```mlir
    %1 = "stablehlo.case"(%index) ({
      stablehlo.return %a : tensor<4xf32>
    }, {
      stablehlo.return %b : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    ```
    """

    name = "stablehlo.case"

    index = operand_def(kinds.I32_TENSOR)
    branches = var_region_def("single_block")

    def verify_(self) -> None:
        require(
            bool(self.branches),
            f"'{self.name}' op expected at least 1 region, but got 0",
        )
        super().verify_()


@irdl_op_definition
class WhileOp(StableHLOOp):
    """
    Loop: apply `body` to the loop-carried values as long as `cond` returns true.

    Example:

    ```mlir
    %2 = stablehlo.while(%i = %start) : tensor<i32>
    cond {
      %0 = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %0 : tensor<i1>
    } do {
      %1 = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %1 : tensor<i32>
    }
    ```
    """

    name = "stablehlo.while"

    operand = var_operand_def(VariadicOf(kinds.RETURNED))
    results_ = var_result_def(VariadicOf(kinds.RETURNED))
    cond = region_def("single_block")
    body = region_def("single_block")

    traits = traits_def(RecursiveMemoryEffect(), AcceptsStoredValues())

    def verify_(self) -> None:
        operands = self.operand_types
        condition = returned_types(self.cond)
        for types, words in (
            (self.cond.block.arg_types, "condition block arguments"),
            (self.body.block.arg_types, "body block arguments"),
            (returned_types(self.body), "body block return types"),
        ):
            require(
                are_compatible_lists(operands, types),
                f"expect operands to be compatible with {words} but got "
                f"{quoted(operands)} vs {quoted(types)}",
            )
        require(
            len(condition) == 1,
            f"expect condition body returns a single value but got {len(condition)}",
        )
        (type_,) = condition
        is_scalar = (
            kinds.PRED_TENSOR.accepts(type_)
            and not cast(RankedTensor, type_).get_shape()
        )
        require(
            is_scalar,
            "expect condition block return a zero-ranked tensor of "
            f"{i1} but got '{type_}'",
        )
        self.require_inferred(
            are_compatible_lists(operands, self.result_types), operands
        )

    @classmethod
    def parse(cls, parser: Parser) -> WhileOp:
        pos = parser.pos

        def parse_pair() -> tuple[Parser.UnresolvedArgument, UnresolvedOperand]:
            argument = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            return argument, parser.parse_unresolved_operand()

        pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_pair)
        types: Sequence[Attribute] = ()
        if pairs:
            parser.parse_punctuation(":")
            types = parser.parse_comma_separated_list(
                parser.Delimiter.NONE, parser.parse_type
            )
        attributes = parser.parse_optional_attr_dict_with_keyword()
        operands = parser.resolve_operands([o for _, o in pairs], types, pos)
        regions: list[Region] = []
        for keyword in ("cond", "do"):
            parser.parse_keyword(keyword)
            arguments = [
                argument.resolve(type_)
                for (argument, _), type_ in zip(pairs, types, strict=True)
            ]
            regions.append(parser.parse_region(arguments))
        return cls.build(
            operands=[operands],
            result_types=[types],
            regions=regions,
            attributes=(attributes or DictionaryAttr({})).data,
        )

    def print(self, printer: Printer) -> None:
        def print_pair(pair: tuple[SSAValue, SSAValue]) -> None:
            argument, operand = pair
            printer.print_ssa_value(argument)
            printer.print_string(" = ")
            printer.print_ssa_value(operand)

        arguments = self.cond.block.args
        with printer.in_parens():
            printer.print_list(zip(arguments, self.operand, strict=True), print_pair)
        if self.operand:
            printer.print_string(" : ")
            printer.print_list(self.operand_types, printer.print_attribute)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        # The arguments of both regions have one name.
        names = printer._ssa_values  # pyright: ignore[reportPrivateUsage] no public way
        for argument, other in zip(self.body.block.args, arguments, strict=True):
            names[argument] = names[other]
        printer._print_new_line()  # pyright: ignore[reportPrivateUsage] no public way
        for keyword, region in (("cond", self.cond), (" do", self.body)):
            printer.print_string(f"{keyword} ")
            printer.print_region(region, print_entry_block_args=False)


@irdl_op_definition
class OptimizationBarrierOp(StableHLOOp):
    """
    The operands, which must all be computed before an op uses a result.

    Example:

    ```mlir
    %2:2 = stablehlo.optimization_barrier %0, %1 : tensor<4xf32>, tensor<f32>
    ```
    """

    name = "stablehlo.optimization_barrier"

    operand = var_operand_def(VariadicOf(kinds.TENSOR_OR_TOKEN))
    results_ = var_result_def(VariadicOf(kinds.TENSOR_OR_TOKEN))

    assembly_format = (
        "$operand attr-dict `:` custom<PairwiseTypes>(type($operand), type($results_))"
    )

    traits = traits_def(Pure(), AcceptsStoredValues())

    def verify_(self) -> None:
        require(
            len(self.operand) == len(self.results_),
            f"'{self.name}' op requires the same number of operands and results",
        )
        pairs = zip(self.operand_types, self.result_types, strict=True)
        for index, (operand, result) in enumerate(pairs):
            require(
                operand == result,
                f"'{self.name}' op requires the same type for operand and result at "
                f"index {index}",
            )
