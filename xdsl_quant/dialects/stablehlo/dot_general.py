"""Matrix product over any dimensions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import cast

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
from xdsl.irdl import declarative_assembly_format as assembly
from xdsl.irdl.declarative_assembly_format import ParsingState, PrintingState
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from xdsl_quant.dialects.quant.traits import (
    AffineOpCoefficient,
    MultipliesAndAccumulates,
)

from . import tensor_kinds as kinds
from .attributes import (
    Dimensions,
    DotAlgorithmAttr,
    DotDimensionNumbersAttr,
    Precision,
    PrecisionAttr,
)
from .base import (
    InferredShapeOp,
    are_compatible_shapes,
    require,
    verify_dimensions,
)
from .quantized_constraints import (
    has_quantized,
    verify_quantized_product,
    verify_rhs_of_dot,
)
from .syntax import DIRECTIVES, FUNCTIONAL_TYPE, dimensions_text, parse_dimensions

Pair = tuple[Sequence[int], Sequence[int]]
"""Dimensions of `lhs` and of `rhs`."""


@assembly.irdl_custom_directive
class DotDimensions(assembly.CustomDirective):
    """`batching_dims = [0] x [0], contracting_dims = [2] x [1]`"""

    dot_dimension_numbers: assembly.AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        def parse_pair() -> Pair:
            parser.parse_punctuation("=")
            lhs = parse_dimensions(parser)
            parser.parse_keyword("x")
            return lhs, parse_dimensions(parser)

        batching: Pair = (), ()
        if parser.parse_optional_keyword("batching_dims"):
            batching = parse_pair()
            parser.parse_punctuation(",")
        parser.parse_keyword("contracting_dims")
        contracting = parse_pair()
        numbers = DotDimensionNumbersAttr(
            lhs_batching_dimensions=batching[0],
            rhs_batching_dimensions=batching[1],
            lhs_contracting_dimensions=contracting[0],
            rhs_contracting_dimensions=contracting[1],
        )
        self.dot_dimension_numbers.set(state, numbers)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        numbers = self.dot_dimension_numbers.get(op)
        assert isinstance(numbers, DotDimensionNumbersAttr)
        batching, contracting = (
            f"{name} = {dimensions_text(lhs)} x {dimensions_text(rhs)}"
            for name, (lhs, rhs) in zip(
                ("batching_dims", "contracting_dims"), _pairs(numbers), strict=True
            )
        )
        if any(_pairs(numbers)[0]):
            printer.print_string(f"{batching}, ")
        printer.print_string(contracting)


@assembly.irdl_custom_directive
class PrecisionAndAlgorithm(assembly.CustomDirective):
    """`, precision = [DEFAULT, HIGH], algorithm = <...>`, as far as they are there."""

    precision_config: assembly.AttributeVariable
    algorithm: assembly.AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        def parse_next(name: str) -> None:
            parser.parse_keyword(name)
            parser.parse_punctuation("=")

        if not parser.parse_optional_punctuation(","):
            return
        if parser.parse_optional_keyword("precision"):
            parser.parse_punctuation("=")
            precisions = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parser.parse_str_enum(Precision)
            )
            config = ArrayAttr([PrecisionAttr(precision) for precision in precisions])
            self.precision_config.set(state, config)
            if not parser.parse_optional_punctuation(","):
                return
        parse_next("algorithm")
        parameters = DotAlgorithmAttr.parse_parameters(parser)
        self.algorithm.set(state, DotAlgorithmAttr.new(parameters))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        assert isinstance(op, DotGeneralOp)
        if op.precision_config is not None:
            precisions = ", ".join(precision.data for precision in op.precision_config)
            printer.print_string(f", precision = [{precisions}]")
        if op.algorithm is not None:
            printer.print_string(", algorithm = ")
            op.algorithm.print_parameters(printer)


class ProductOp(InferredShapeOp, ABC):
    """An op that multiplies a tensor by weights, and accumulates."""

    lhs = operand_def(kinds.TENSOR)
    rhs = operand_def(kinds.TENSOR_OR_PER_AXIS)
    precision_config = opt_prop_def(ArrayAttr[PrecisionAttr])
    result = result_def(kinds.TENSOR_OR_PER_AXIS)

    traits = traits_def(Pure(), MultipliesAndAccumulates(), AffineOpCoefficient())

    @abstractmethod
    def verify_quantization(self, rhs: Attribute, result: Attribute) -> None:
        """
        Verify element types of which one is quantized.

        Raises:
            VerifyException: if zero points or quantized dimensions are not possible here.
        """

    def verify_(self) -> None:
        precisions = self.precision_config or ()
        require(
            len(precisions) <= 2,
            "expects precision config to be empty or have <= 2 elements, got "
            f"{len(precisions)}",
        )
        super().verify_()
        if has_quantized(types := self.tensor_types):
            lhs, rhs, result = (type_.element_type for type_ in types)
            self.verify_quantization(rhs, result)
            verify_quantized_product(lhs, rhs, result)


@irdl_op_definition
class DotGeneralOp(ProductOp):
    """
    Sum of products over the contracting dimensions, for each index of the others.

    Example:

    ```mlir
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0]
        : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#dot_general).
    """

    name = "stablehlo.dot_general"

    dot_dimension_numbers = prop_def(DotDimensionNumbersAttr)
    algorithm = opt_prop_def(DotAlgorithmAttr)

    assembly_format = (
        "$lhs `,` $rhs `,` custom<DotDimensions>($dot_dimension_numbers) "
        "custom<PrecisionAndAlgorithm>($precision_config, $algorithm) "
        f"attr-dict custom<PropertiesInAttrDict>() `:` {FUNCTIONAL_TYPE}"
    )
    custom_directives = (*DIRECTIVES, DotDimensions, PrecisionAndAlgorithm)

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

    def verify_quantization(self, rhs: Attribute, result: Attribute) -> None:
        numbers = self.dot_dimension_numbers
        verify_rhs_of_dot(rhs, numbers.rhs_contracting_dimensions.get_values())

    def inferred_shape(self) -> Sequence[int]:
        batching, contracting = _pairs(self.dot_dimension_numbers)
        lhs, rhs, _ = self.tensor_types
        shapes = lhs.get_shape(), rhs.get_shape()
        used = [[*batching[side], *contracting[side]] for side in (0, 1)]
        for name, shape, dimensions in zip(("lhs", "rhs"), shapes, used, strict=True):
            verify_dimensions(f"{name} dimension numbers", dimensions, len(shape))
        for kind, pair in (("batching", batching), ("contracting", contracting)):
            a, b = (
                [shape[dimension] for dimension in dimensions]
                for shape, dimensions in zip(shapes, pair, strict=True)
            )
            require(
                are_compatible_shapes(a, b), f"{kind} dimensions must match for lhs/rhs"
            )
        free = [
            size
            for shape, dimensions in zip(shapes, used, strict=True)
            for dimension, size in enumerate(shape)
            if dimension not in dimensions
        ]
        return [*(shapes[0][dimension] for dimension in batching[0]), *free]


def _pairs(numbers: DotDimensionNumbersAttr) -> tuple[Pair, Pair]:
    """The batching and the contracting dimensions."""
    values = [
        cast(Dimensions, parameter).get_values() for parameter in numbers.parameters
    ]
    return (values[0], values[1]), (values[2], values[3])
