"""Matrix product over any dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant.traits import (
    AffineOpCoefficient,
    MultipliesAndAccumulates,
)

from .attributes import DotDimensionNumbersAttr, Precision, PrecisionAttr
from .compatibility import are_compatible_sizes, tensor_types, verify_inferred_shape
from .quantized_constraints import (
    has_quantized,
    verify_quantized_product,
    verify_rhs_of_dot,
)
from .syntax import parse_attributes, parse_dimensions, print_dimensions
from .tensor_kinds import TENSOR, TENSOR_OR_PER_AXIS, verify_kinds

Pair = tuple[Sequence[int], Sequence[int]]
"""Dimensions of `lhs` and of `rhs`."""


def _parse_dimension_numbers(parser: Parser) -> DotDimensionNumbersAttr:
    """Parse `batching_dims = [0] x [0], contracting_dims = [2] x [1]`."""

    def parse_pair() -> Pair:
        parser.parse_punctuation("=")
        lhs = parse_dimensions(parser)
        parser.parse_keyword("x")
        return lhs, parse_dimensions(parser)

    lhs_batching, rhs_batching = (), ()
    if parser.parse_optional_keyword("batching_dims"):
        lhs_batching, rhs_batching = parse_pair()
        parser.parse_punctuation(",")
    parser.parse_keyword("contracting_dims")
    lhs_contracting, rhs_contracting = parse_pair()
    return DotDimensionNumbersAttr(
        lhs_batching_dimensions=lhs_batching,
        rhs_batching_dimensions=rhs_batching,
        lhs_contracting_dimensions=lhs_contracting,
        rhs_contracting_dimensions=rhs_contracting,
    )


def _print_dimension_numbers(
    printer: Printer, numbers: DotDimensionNumbersAttr
) -> None:
    def print_pair(name: str, lhs: Sequence[int], rhs: Sequence[int]) -> None:
        printer.print_string(f"{name} = ")
        print_dimensions(printer, lhs)
        printer.print_string(" x ")
        print_dimensions(printer, rhs)

    lhs_batching = numbers.lhs_batching_dimensions.get_values()
    rhs_batching = numbers.rhs_batching_dimensions.get_values()
    if lhs_batching or rhs_batching:
        print_pair("batching_dims", lhs_batching, rhs_batching)
        printer.print_string(", ")
    print_pair(
        "contracting_dims",
        numbers.lhs_contracting_dimensions.get_values(),
        numbers.rhs_contracting_dimensions.get_values(),
    )


@irdl_op_definition
class DotGeneralOp(IRDLOperation):
    """
    Sum of products over the contracting dimensions, for each index of the others.

    Example:

    ```mlir
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0]
        : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    ```
    """

    name = "stablehlo.dot_general"

    lhs = operand_def()
    rhs = operand_def()
    dot_dimension_numbers = prop_def(DotDimensionNumbersAttr)
    precision_config = opt_prop_def(ArrayAttr[PrecisionAttr])
    result = result_def()

    traits = traits_def(Pure(), MultipliesAndAccumulates(), AffineOpCoefficient())

    def __init__(
        self,
        lhs: SSAValue | Operation,
        rhs: SSAValue | Operation,
        dot_dimension_numbers: DotDimensionNumbersAttr,
        result_type: Attribute,
        precision_config: ArrayAttr[PrecisionAttr] | None = None,
    ):
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type],
            properties={
                "dot_dimension_numbers": dot_dimension_numbers,
                "precision_config": precision_config,
            },
        )

    def verify_(self) -> None:
        verify_kinds(self, (TENSOR, TENSOR_OR_PER_AXIS), (TENSOR_OR_PER_AXIS,))
        verify_precision_config(self.precision_config)
        numbers = self.dot_dimension_numbers
        lhs, rhs, result = types = tensor_types(
            (self.lhs.type, self.rhs.type, self.result.type)
        )
        lhs_batching = numbers.lhs_batching_dimensions.get_values()
        rhs_batching = numbers.rhs_batching_dimensions.get_values()
        lhs_contracting = numbers.lhs_contracting_dimensions.get_values()
        rhs_contracting = numbers.rhs_contracting_dimensions.get_values()
        _verify_dimension_numbers(
            (lhs_batching, rhs_batching),
            (lhs_contracting, rhs_contracting),
            (lhs.get_shape(), rhs.get_shape()),
        )
        lhs_free = _without(lhs.get_shape(), {*lhs_batching, *lhs_contracting})
        rhs_free = _without(rhs.get_shape(), {*rhs_batching, *rhs_contracting})
        batch = [lhs.get_shape()[dimension] for dimension in lhs_batching]
        verify_inferred_shape(self, (*batch, *lhs_free, *rhs_free))
        if has_quantized(types):
            verify_rhs_of_dot(rhs.element_type, rhs_contracting)
            verify_quantized_product(
                lhs.element_type, rhs.element_type, result.element_type
            )

    @classmethod
    def parse(cls, parser: Parser) -> DotGeneralOp:
        pos = parser.pos
        lhs = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        rhs = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        properties: dict[str, Attribute] = {
            "dot_dimension_numbers": _parse_dimension_numbers(parser)
        }
        if parser.parse_optional_punctuation(","):
            parser.parse_keyword("precision")
            parser.parse_punctuation("=")
            precisions = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parser.parse_str_enum(Precision)
            )
            properties["precision_config"] = ArrayAttr(map(PrecisionAttr, precisions))
        attributes = parse_attributes(parser, cls, properties)
        parser.parse_punctuation(":")
        type_ = parser.parse_function_type()
        return cls.build(
            operands=parser.resolve_operands((lhs, rhs), type_.inputs.data, pos),
            result_types=type_.outputs.data,
            properties=properties,
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(", ")
        _print_dimension_numbers(printer, self.dot_dimension_numbers)
        if self.precision_config is not None:
            precisions = ", ".join(
                precision.data for precision in self.precision_config
            )
            printer.print_string(f", precision = [{precisions}]")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_operation_type(self)


def verify_precision_config(config: ArrayAttr[PrecisionAttr] | None) -> None:
    """There is one precision for each operand, or none."""
    if config is not None and len(config) > 2:
        raise VerifyException(
            "expects precision config to be empty or have <= 2 elements, got "
            f"{len(config)}"
        )


def _without(shape: Sequence[int], dimensions: AbstractSet[int]) -> Sequence[int]:
    return [size for dimension, size in enumerate(shape) if dimension not in dimensions]


def _verify_dimension_numbers(batching: Pair, contracting: Pair, shapes: Pair) -> None:
    """Verify that the dimensions exist, that none is there twice, and their sizes."""
    for kind, (lhs, rhs) in (("batching", batching), ("contracting", contracting)):
        if len(lhs) != len(rhs):
            raise VerifyException(
                f"lhs and rhs should have the same number of {kind} dimensions"
            )
    for side in (0, 1):
        _verify_distinct(("lhs", "rhs")[side], batching[side], contracting[side])
    for side in (0, 1):
        rank = len(shapes[side])
        for kind, dimensions in (("batching", batching), ("contracting", contracting)):
            for dimension in dimensions[side]:
                if not 0 <= dimension < rank:
                    raise VerifyException(
                        f"{('lhs', 'rhs')[side]}_{kind}_dimensions value: {dimension} "
                        f"is out of range: [0, {rank})"
                    )
    for kind, dimensions in (("batching", batching), ("contracting", contracting)):
        for lhs, rhs in zip(*dimensions, strict=True):
            if not are_compatible_sizes(shapes[0][lhs], shapes[1][rhs]):
                raise VerifyException(f"{kind} dimension sizes must match for lhs/rhs")


def _verify_distinct(
    side: str, batching: Sequence[int], contracting: Sequence[int]
) -> None:
    seen: set[int] = set()
    for dimension in (*batching, *contracting):
        if dimension in seen:
            raise VerifyException(
                f"has duplicated dimension from {side}_batching_dimensions and "
                f"{side}_contracting_dimensions: {dimension}"
            )
        seen.add(dimension)
