"""The attributes of StableHLO's ops: enumerations and dimension numbers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    FloatAttr,
    IntAttr,
    f64,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from .syntax import parse_dimensions, print_dimensions


class ComparisonDirection(StrEnum):
    """What `stablehlo.compare` asks of its operands."""

    EQ = "EQ"
    NE = "NE"
    GE = "GE"
    GT = "GT"
    LE = "LE"
    LT = "LT"


@irdl_attr_definition
class ComparisonDirectionAttr(
    EnumAttribute[ComparisonDirection], SpacedOpaqueSyntaxAttribute
):
    """`#stablehlo<comparison_direction EQ>`"""

    name = "stablehlo.comparison_direction"


class ComparisonType(StrEnum):
    """How `stablehlo.compare` orders the values of its operands."""

    NOTYPE = "NOTYPE"
    FLOAT = "FLOAT"
    TOTALORDER = "TOTALORDER"
    SIGNED = "SIGNED"
    UNSIGNED = "UNSIGNED"


@irdl_attr_definition
class ComparisonTypeAttr(EnumAttribute[ComparisonType], SpacedOpaqueSyntaxAttribute):
    """`#stablehlo<comparison_type SIGNED>`"""

    name = "stablehlo.comparison_type"


class Precision(StrEnum):
    """How much accuracy may be given away for speed."""

    DEFAULT = "DEFAULT"
    HIGH = "HIGH"
    HIGHEST = "HIGHEST"


@irdl_attr_definition
class PrecisionAttr(EnumAttribute[Precision], SpacedOpaqueSyntaxAttribute):
    """`#stablehlo<precision DEFAULT>`"""

    name = "stablehlo.precision"


class ResultAccuracyMode(StrEnum):
    """Which implementation of a transcendental function to take."""

    DEFAULT = "DEFAULT"
    HIGHEST = "HIGHEST"
    TOLERANCE = "TOLERANCE"


@irdl_attr_definition
class ResultAccuracyModeAttr(EnumAttribute[ResultAccuracyMode]):
    """`#stablehlo.result_accuracy_mode<DEFAULT>`"""

    name = "stablehlo.result_accuracy_mode"

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            super().print_parameter(printer)

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> ResultAccuracyMode:
        with parser.in_angle_brackets():
            return super().parse_parameter(parser)


@irdl_attr_definition
class ResultAccuracyAttr(ParametrizedAttribute):
    """
    How far the result of a transcendental function may be off.

    Example:

    ```mlir
    #stablehlo.result_accuracy<ulps = 2, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>
    ```
    """

    name = "stablehlo.result_accuracy"

    atol: FloatAttr
    """Absolute tolerance."""

    rtol: FloatAttr
    """Relative tolerance."""

    ulps: IntAttr
    """Tolerance in units in the last place."""

    mode: ResultAccuracyModeAttr

    def __init__(
        self,
        mode: ResultAccuracyMode = ResultAccuracyMode.DEFAULT,
        *,
        atol: float = 0.0,
        rtol: float = 0.0,
        ulps: int = 0,
    ):
        super().__init__(
            FloatAttr(atol, f64),
            FloatAttr(rtol, f64),
            IntAttr(ulps),
            ResultAccuracyModeAttr(mode),
        )

    def _tolerances(self) -> tuple[float, float, int]:
        return self.atol.value.data, self.rtol.value.data, self.ulps.data

    def verify(self) -> None:
        tolerances = self._tolerances()
        if min(tolerances) < 0:
            raise VerifyException("Negative tolerance")
        mode = self.mode.data
        if mode is not ResultAccuracyMode.TOLERANCE and any(tolerances):
            raise VerifyException(
                f"Invalid tolerances for ResultAccuracyAttr with mode {mode}, must be "
                "all zero."
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        pos = parser.pos
        atol = rtol = 0.0
        ulps = 0
        with parser.in_angle_brackets():
            if parser.parse_optional_keyword("atol"):
                parser.parse_punctuation("=")
                atol = parser.parse_float()
                parser.parse_punctuation(",")
            if parser.parse_optional_keyword("rtol"):
                parser.parse_punctuation("=")
                rtol = parser.parse_float()
                parser.parse_punctuation(",")
            if parser.parse_optional_keyword("ulps"):
                parser.parse_punctuation("=")
                ulps = parser.parse_integer()
                parser.parse_punctuation(",")
            parser.parse_keyword("mode")
            parser.parse_punctuation("=")
            mode_pos = parser.pos
            mode = parser.parse_attribute()
            if not isinstance(mode, ResultAccuracyModeAttr):
                parser.raise_error("expected a result_accuracy_mode", mode_pos)
        try:
            return cls(mode.data, atol=atol, rtol=rtol, ulps=ulps).parameters
        except VerifyException as e:
            parser.raise_error(str(e), pos, parser.pos)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            for name, value in (("atol", self.atol), ("rtol", self.rtol)):
                if value.value.data:
                    printer.print_string(f"{name} = ")
                    printer.print_float(value.value.data, f64)
                    printer.print_string(", ")
            if self.ulps.data:
                printer.print_string(f"ulps = {self.ulps.data}, ")
            printer.print_string("mode = ")
            printer.print_attribute(self.mode)


Dimensions = DenseArrayBase[I64]


def dimensions_attr(dimensions: Sequence[int]) -> Dimensions:
    """Numbers of dimensions as an attribute."""
    return DenseArrayBase.from_list(i64, dimensions)


@irdl_attr_definition
class DotDimensionNumbersAttr(ParametrizedAttribute):
    """
    Which dimensions `stablehlo.dot_general` keeps in step, and which it sums over.

    Example:

    ```mlir
    #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>
    ```
    """

    name = "stablehlo.dot"

    lhs_batching_dimensions: Dimensions
    rhs_batching_dimensions: Dimensions
    lhs_contracting_dimensions: Dimensions
    rhs_contracting_dimensions: Dimensions

    def __init__(
        self,
        *,
        lhs_batching_dimensions: Sequence[int] = (),
        rhs_batching_dimensions: Sequence[int] = (),
        lhs_contracting_dimensions: Sequence[int] = (),
        rhs_contracting_dimensions: Sequence[int] = (),
    ):
        super().__init__(
            dimensions_attr(lhs_batching_dimensions),
            dimensions_attr(rhs_batching_dimensions),
            dimensions_attr(lhs_contracting_dimensions),
            dimensions_attr(rhs_contracting_dimensions),
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        dimensions: dict[str, Sequence[int]] = {}
        with parser.in_angle_brackets():
            while name := parser.parse_optional_keyword_in(_DOT_FIELDS):
                if name in dimensions:
                    parser.raise_error(f"duplicated `{name}` entry")
                parser.parse_punctuation("=")
                dimensions[name] = parse_dimensions(parser)
                if not parser.parse_optional_punctuation(","):
                    break
        return [dimensions_attr(dimensions.get(name, ())) for name in _DOT_FIELDS]

    def print_parameters(self, printer: Printer) -> None:
        fields = [
            (name, values)
            for name, parameter in zip(_DOT_FIELDS, self.parameters, strict=True)
            if isinstance(parameter, DenseArrayBase)
            and (values := parameter.get_values())
        ]

        def print_field(field: tuple[str, Sequence[int]]) -> None:
            printer.print_string(f"{field[0]} = ")
            print_dimensions(printer, field[1])

        with printer.in_angle_brackets():
            printer.print_list(fields, print_field)


_DOT_FIELDS = (
    "lhs_batching_dimensions",
    "rhs_batching_dimensions",
    "lhs_contracting_dimensions",
    "rhs_contracting_dimensions",
)


@irdl_attr_definition
class ConvDimensionNumbersAttr(ParametrizedAttribute):
    """
    What each dimension of input, kernel and output of `stablehlo.convolution` is.

    In the text `b` is the batch dimension, `f` the feature dimension, `i` and `o` are the
    kernel's input and output feature dimension, and numbers are spatial dimensions.

    Example:

    ```mlir
    #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>
    ```
    """

    name = "stablehlo.conv"

    input_batch_dimension: IntAttr
    input_feature_dimension: IntAttr
    input_spatial_dimensions: Dimensions
    kernel_input_feature_dimension: IntAttr
    kernel_output_feature_dimension: IntAttr
    kernel_spatial_dimensions: Dimensions
    output_batch_dimension: IntAttr
    output_feature_dimension: IntAttr
    output_spatial_dimensions: Dimensions

    def __init__(
        self,
        *,
        input_batch_dimension: int,
        input_feature_dimension: int,
        input_spatial_dimensions: Sequence[int],
        kernel_input_feature_dimension: int,
        kernel_output_feature_dimension: int,
        kernel_spatial_dimensions: Sequence[int],
        output_batch_dimension: int,
        output_feature_dimension: int,
        output_spatial_dimensions: Sequence[int],
    ):
        super().__init__(
            IntAttr(input_batch_dimension),
            IntAttr(input_feature_dimension),
            dimensions_attr(input_spatial_dimensions),
            IntAttr(kernel_input_feature_dimension),
            IntAttr(kernel_output_feature_dimension),
            dimensions_attr(kernel_spatial_dimensions),
            IntAttr(output_batch_dimension),
            IntAttr(output_feature_dimension),
            dimensions_attr(output_spatial_dimensions),
        )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        from .convolution_syntax import parse_dimension_numbers, parse_raw_fields

        with parser.in_angle_brackets():
            if parser.parse_optional_keyword("raw"):
                return parse_raw_fields(parser)
            return parse_dimension_numbers(parser)

    def print_parameters(self, printer: Printer) -> None:
        from .convolution_syntax import print_dimension_numbers

        with printer.in_angle_brackets():
            print_dimension_numbers(printer, self)


@irdl_attr_definition
class TypeExtensionsAttr(ParametrizedAttribute):
    """
    Upper bounds of the dynamic dimensions of a tensor type, as its encoding.

    Example:

    ```mlir
    tensor<?x8xf32, #stablehlo.bounds<3, ?>>
    ```
    """

    name = "stablehlo.bounds"

    bounds: Dimensions
    """A bound for each dimension, `DYNAMIC_INDEX` where there is none."""

    def __init__(self, bounds: Sequence[int]):
        super().__init__(dimensions_attr(bounds))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        from .syntax import parse_dimension_size

        bounds = parser.parse_comma_separated_list(
            parser.Delimiter.ANGLE, lambda: parse_dimension_size(parser)
        )
        return (dimensions_attr(bounds),)

    def print_parameters(self, printer: Printer) -> None:
        from .syntax import dimension_size_text

        with printer.in_angle_brackets():
            printer.print_list(
                self.bounds.get_values(),
                lambda bound: printer.print_string(dimension_size_text(bound)),
            )
