"""Matrix product over any dimensions."""

from __future__ import annotations

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


@irdl_op_definition
class DotGeneralOp(InferredShapeOp):
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

    lhs = operand_def(kinds.TENSOR)
    rhs = operand_def(kinds.TENSOR_OR_PER_AXIS)
    dot_dimension_numbers = prop_def(DotDimensionNumbersAttr)
    precision_config = opt_prop_def(ArrayAttr[PrecisionAttr])
    algorithm = opt_prop_def(DotAlgorithmAttr)
    result = result_def(kinds.TENSOR_OR_PER_AXIS)

    assembly_format = (
        "$lhs `,` $rhs `,` custom<DotDimensions>($dot_dimension_numbers) "
        "custom<PrecisionAndAlgorithm>($precision_config, $algorithm) "
        f"attr-dict custom<PropertiesInAttrDict>() `:` {FUNCTIONAL_TYPE}"
    )
    custom_directives = (*DIRECTIVES, DotDimensions, PrecisionAndAlgorithm)

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
        super().verify_()
        lhs, rhs, result = types = self.tensor_types
        if has_quantized(types):
            numbers = self.dot_dimension_numbers
            contracting = numbers.rhs_contracting_dimensions.get_values()
            verify_rhs_of_dot(rhs.element_type, contracting)
            verify_quantized_product(
                lhs.element_type, rhs.element_type, result.element_type
            )

    def inferred_shape(self) -> Sequence[int]:
        verify_precision_config(self.precision_config)
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


def verify_precision_config(config: ArrayAttr[PrecisionAttr] | None) -> None:
    """There is one precision for each operand, or none."""
    count = 0 if config is None else len(config)
    require(
        count <= 2,
        f"expects precision config to be empty or have <= 2 elements, got {count}",
    )


def _pairs(numbers: DotDimensionNumbersAttr) -> tuple[Pair, Pair]:
    """The batching and the contracting dimensions."""
    values = [
        cast(Dimensions, parameter).get_values() for parameter in numbers.parameters
    ]
    return (values[0], values[1]), (values[2], values[3])
