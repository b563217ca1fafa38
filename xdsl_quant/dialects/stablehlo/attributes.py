"""
The attributes and types of StableHLO's ops: enumerations, numbers of dimensions, tokens.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import (
    I64,
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntAttr,
    f64,
    i64,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import (
    Attribute,
    ParametrizedAttribute,
    SpacedOpaqueSyntaxAttribute,
    TypeAttribute,
)
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa
from xdsl.utils.str_enum import StrEnum

from .syntax import (
    dimension_size_text,
    dimensions_text,
    parse_dimension_size,
    parse_dimensions,
)

# Enumerations


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


# Attributes with named fields

Dimensions = DenseArrayBase[I64]


def dimensions_attr(dimensions: Sequence[int]) -> Dimensions:
    """Numbers of dimensions as an attribute."""
    return DenseArrayBase.from_list(i64, dimensions)


_ZEROS: Mapping[type[Attribute] | None, Attribute] = {
    DenseArrayBase: dimensions_attr(()),
    IntAttr: IntAttr(0),
    FloatAttr: FloatAttr(0.0, f64),
}


def _parse_value(parser: AttrParser, base: type[Attribute] | None) -> Attribute:
    if base is DenseArrayBase:
        return dimensions_attr(parse_dimensions(parser))
    if base is IntAttr:
        return IntAttr(parser.parse_integer())
    if base is FloatAttr:
        return FloatAttr(parser.parse_float(), f64)
    return parser.parse_attribute()


class FieldsAttr(ParametrizedAttribute, ABC):
    """An attribute whose text is `<name = value, ...>`, with the names of parameters."""

    IS_SPARSE: ClassVar[bool] = True
    """Whether 0 and `[]` are left out of the text."""

    def __init__(self, *parameters: Any, **fields: Any):
        """Parameters in the order of their declarations, or by their names."""
        names = [name for name, _ in self.get_irdl_definition().parameters]
        named = names[len(parameters) :]
        if fields.keys() != set(named):
            raise TypeError(f"expected the fields {', '.join(names)}")
        super().__init__(*parameters, *(fields[name] for name in named))

    @classmethod
    def parse_fields(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `name = value, ...` to parameters."""
        bases = {
            name: next(iter(parameter.constr.get_bases() or ()), None)
            for name, parameter in cls.get_irdl_definition().parameters
        }
        values: dict[str, Attribute] = {}
        while name := parser.parse_optional_keyword_in(bases):
            if name in values:
                parser.raise_error(f"duplicated `{name}` entry")
            parser.parse_punctuation("=")
            values[name] = _parse_value(parser, bases[name])
            if not parser.parse_optional_punctuation(","):
                break
        for name, base in bases.items():
            if name not in values:
                if not cls.IS_SPARSE or base not in _ZEROS:
                    parser.raise_error(f"expected '{name}'")
                values[name] = _ZEROS[base]
        return [values[name] for name in bases]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        pos = parser.pos
        with parser.in_angle_brackets():
            parameters = cls.parse_fields(parser)
        try:
            return cls.new(parameters).parameters
        except VerifyException as e:
            parser.raise_error(str(e), pos, parser.pos)

    def print_fields(self, printer: Printer) -> None:
        """Print `name = value, ...`."""

        def print_field(field: tuple[str, Attribute]) -> None:
            name, value = field
            printer.print_string(f"{name} = ")
            match value:
                case _ if isa(value, Dimensions):
                    printer.print_string(dimensions_text(value.get_values()))
                case IntAttr():
                    printer.print_int(value.data)
                case FloatAttr():
                    printer.print_float(value.value.data, f64)
                case _:
                    printer.print_attribute(value)

        names = [name for name, _ in self.get_irdl_definition().parameters]
        fields = zip(names, self.parameters, strict=True)
        zeros = _ZEROS.values() if self.IS_SPARSE else ()
        printer.print_list([f for f in fields if f[1] not in zeros], print_field)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self.print_fields(printer)


@irdl_attr_definition
class ResultAccuracyAttr(FieldsAttr):
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

    def verify(self) -> None:
        tolerances = self.atol.value.data, self.rtol.value.data, self.ulps.data
        if min(tolerances) < 0:
            raise VerifyException("Negative tolerance")
        mode = self.mode.data
        if mode is not ResultAccuracyMode.TOLERANCE and any(tolerances):
            raise VerifyException(
                f"Invalid tolerances for ResultAccuracyAttr with mode {mode}, must be "
                "all zero."
            )


@irdl_attr_definition
class DotDimensionNumbersAttr(FieldsAttr):
    """
    Which dimensions `stablehlo.dot_general` keeps in step, and which it sums over.

    Example:

    ```mlir
    #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>
    ```
    """

    name = "stablehlo.dot"

    lhs_batching_dimensions: Dimensions = param_def(converter=dimensions_attr)
    rhs_batching_dimensions: Dimensions = param_def(converter=dimensions_attr)
    lhs_contracting_dimensions: Dimensions = param_def(converter=dimensions_attr)
    rhs_contracting_dimensions: Dimensions = param_def(converter=dimensions_attr)


@irdl_attr_definition
class DotAlgorithmAttr(FieldsAttr):
    """
    How `stablehlo.dot_general` computes: the types that it rounds operands to and
    accumulates in.

    Example:

    ```mlir
    #stablehlo.dot_algorithm<lhs_precision_type = tf32, rhs_precision_type = tf32,
      accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1,
      num_primitive_operations = 1, allow_imprecise_accumulation = false>
    ```
    """

    name = "stablehlo.dot_algorithm"

    IS_SPARSE: ClassVar[bool] = False

    lhs_precision_type: TypeAttribute
    rhs_precision_type: TypeAttribute
    accumulation_type: TypeAttribute
    lhs_component_count: IntAttr
    rhs_component_count: IntAttr
    num_primitive_operations: IntAttr
    allow_imprecise_accumulation: BoolAttr

    def verify(self) -> None:
        counts = (
            self.lhs_component_count,
            self.rhs_component_count,
            self.num_primitive_operations,
        )
        if min(count.data for count in counts) <= 0:
            raise VerifyException("expects positive counts in a dot algorithm")


@irdl_attr_definition
class GatherDimensionNumbersAttr(FieldsAttr):
    """
    Which dimensions of operand, indices and result belong together in
    `stablehlo.gather`.

    Example:

    ```mlir
    #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 1>
    ```
    """

    name = "stablehlo.gather"

    offset_dims: Dimensions = param_def(converter=dimensions_attr)
    """Dimensions of the result along which a slice of the operand lies."""

    collapsed_slice_dims: Dimensions = param_def(converter=dimensions_attr)
    """Dimensions of the operand, of size 1 in a slice, that the result does not have."""

    operand_batching_dims: Dimensions = param_def(converter=dimensions_attr)
    start_indices_batching_dims: Dimensions = param_def(converter=dimensions_attr)

    start_index_map: Dimensions = param_def(converter=dimensions_attr)
    """The dimension of the operand that each number of an index vector is for."""

    index_vector_dim: IntAttr = param_def(converter=IntAttr.get)
    """The dimension of the indices that an index vector lies along."""


@irdl_attr_definition
class OutputOperandAliasAttr(FieldsAttr):
    """
    An operand of `stablehlo.custom_call` whose buffer a result takes.

    Example:

    ```mlir
    #stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0,
      operand_tuple_indices = []>
    ```
    """

    name = "stablehlo.output_operand_alias"

    IS_SPARSE: ClassVar[bool] = False

    output_tuple_indices: Dimensions
    operand_index: IntAttr
    operand_tuple_indices: Dimensions


# Others


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

    bounds: Dimensions = param_def(converter=dimensions_attr)
    """A bound for each dimension, `DYNAMIC_INDEX` where there is none."""

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        bounds = parser.parse_comma_separated_list(
            parser.Delimiter.ANGLE, lambda: parse_dimension_size(parser)
        )
        return (dimensions_attr(bounds),)

    def print_parameters(self, printer: Printer) -> None:
        bounds = map(dimension_size_text, self.bounds.get_values())
        printer.print_string(f"<{', '.join(bounds)}>")


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """
    What orders ops with side effects.

    Example:

    ```mlir
    !stablehlo.token
    ```
    """

    name = "stablehlo.token"
