"""StableHLO's attributes and types, e.g. enumerations, dimension numbers and tokens."""

from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    AnyFloat,
    BoolAttr,
    DenseArrayBase,
    DenseIntElementsAttr,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntAttr,
    IntegerType,
    TensorType,
    f64,
    i1,
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

from xdsl_quant.frontends.bracketed_attributes import BracketedAttribute

__all__ = [
    "ComparisonDirection",
    "ComparisonDirectionAttr",
    "ComparisonType",
    "ComparisonTypeAttr",
    "ConvDimensionNumbersAttr",
    "DotAlgorithmAttr",
    "DotDimensionNumbersAttr",
    "GatherDimensionNumbersAttr",
    "OutputOperandAliasAttr",
    "Precision",
    "PrecisionAttr",
    "ResultAccuracyAttr",
    "ResultAccuracyMode",
    "ResultAccuracyModeAttr",
    "ScatterDimensionNumbersAttr",
    "TokenType",
    "TypeExtensionsAttr",
]

# Parsing and printing of dimensions


def parse_number(parser: AttrParser) -> int:
    """Parse a signed 64-bit integer: a dimension number, size or index."""
    pos = parser.pos
    number = parser.parse_integer(allow_boolean=False)
    if not -(1 << 63) <= number < 1 << 63:
        parser.raise_error("integer value too large", pos, parser.pos)
    return number


def parse_dimensions(parser: AttrParser) -> Sequence[int]:
    """Parse dimension numbers, e.g. `[0, 1]`."""
    return parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_number(parser)
    )


def dimensions_text(dimensions: Sequence[int]) -> str:
    """Format dimension numbers, e.g. `[0, 1]`."""
    return f"[{', '.join(map(str, dimensions))}]"


def parse_dimension_size(parser: AttrParser) -> int:
    """Parse a size; return `DYNAMIC_INDEX` for `?`."""
    if parser.parse_optional_punctuation("?"):
        return DYNAMIC_INDEX
    return parse_number(parser)


def dimension_size_text(size: int) -> str:
    """Format a size; return `?` for `DYNAMIC_INDEX`."""
    return "?" if size == DYNAMIC_INDEX else str(size)


# Enumerations


class ComparisonDirection(StrEnum):
    """Predicate of `stablehlo.compare`."""

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
    """Interpretation of the operands of `stablehlo.compare`, e.g. as signed integers."""

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
    """Trade-off between accuracy and speed of `dot_general` and `convolution`."""

    DEFAULT = "DEFAULT"
    HIGH = "HIGH"
    HIGHEST = "HIGHEST"


@irdl_attr_definition
class PrecisionAttr(EnumAttribute[Precision], SpacedOpaqueSyntaxAttribute):
    """`#stablehlo<precision DEFAULT>`"""

    name = "stablehlo.precision"


class ResultAccuracyMode(StrEnum):
    """Accuracy mode of a transcendental function."""

    DEFAULT = "DEFAULT"
    HIGHEST = "HIGHEST"
    TOLERANCE = "TOLERANCE"


@irdl_attr_definition
class ResultAccuracyModeAttr(
    BracketedAttribute[ResultAccuracyMode], EnumAttribute[ResultAccuracyMode]
):
    """`#stablehlo.result_accuracy_mode<DEFAULT>`"""

    name = "stablehlo.result_accuracy_mode"


# Attributes with named fields

Dimensions = DenseArrayBase[I64]


def dimensions_attr(dimensions: Sequence[int]) -> Dimensions:
    """Return dimension numbers as an array of `i64`."""
    return DenseArrayBase.from_list(i64, dimensions)


def booleans_attr(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """Return booleans as an array of `i1`."""
    return DenseArrayBase.from_list(i1, [bool(value) for value in values])


def padding_attr(pairs: Sequence[Sequence[int]]) -> DenseIntElementsAttr:
    """Return the low and high padding of each dimension as an `Nx2xi64` tensor."""
    return DenseIntOrFPElementsAttr.from_list(
        TensorType(i64, (len(pairs), 2)), [size for pair in pairs for size in pair]
    )


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
    """Attribute with the syntax `<parameter_name = value, ...>`."""

    IS_SPARSE: ClassVar[bool] = True
    """True if parameters that are 0 or `[]` are not printed."""

    def __init__(self, *parameters: Any, **fields: Any):
        """Build the attribute from parameters in declaration order or by name."""
        names = [name for name, _ in self.get_irdl_definition().parameters]
        named = names[len(parameters) :]
        if fields.keys() != set(named):
            raise TypeError(f"expected the fields {', '.join(names)}")
        super().__init__(*parameters, *(fields[name] for name in named))

    @classmethod
    def parse_fields(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `name = value, ...` and return the parameters."""
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
    Required accuracy of the result of a transcendental function.

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


Pair = tuple[Sequence[int], Sequence[int]]
"""Dimensions of `lhs` and of `rhs`."""


@irdl_attr_definition
class DotDimensionNumbersAttr(FieldsAttr):
    """
    Batching and contracting dimensions of `stablehlo.dot_general`.

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

    def pairs(self) -> tuple[Pair, Pair]:
        """Return the batching dimensions and the contracting dimensions."""
        values = [
            cast(Dimensions, parameter).get_values() for parameter in self.parameters
        ]
        return (values[0], values[1]), (values[2], values[3])


@irdl_attr_definition
class DotAlgorithmAttr(FieldsAttr):
    """
    Algorithm of `stablehlo.dot_general`, with operand precision and accumulation type.

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
        lhs, rhs, total = (
            cast(Attribute, type_)
            for type_ in (
                self.lhs_precision_type,
                self.rhs_precision_type,
                self.accumulation_type,
            )
        )
        components = self.lhs_component_count.data, self.rhs_component_count.data
        products = self.num_primitive_operations.data
        are_narrow = all(
            isinstance(type_, AnyFloat) and type_.bitwidth == 8 for type_ in (lhs, rhs)
        )
        if are_narrow:
            is_known = str(total) == "f32" and products == 1
        else:
            counts = _PRODUCT_COUNTS.get((str(lhs), str(total)), ())
            is_precise = not self.allow_imprecise_accumulation.value.data
            is_known = lhs == rhs and products in counts and is_precise
        if not is_known or components != (1, 1):
            raise VerifyException(
                f"dot algorithm not known to be supported on any hardware: {self}"
            )


_PRODUCT_COUNTS = {
    ("f16", "f16"): (1,),
    ("f16", "f32"): (1,),
    ("bf16", "bf16"): (1,),
    ("bf16", "f32"): (1, 3, 6, 9),
    ("tf32", "f32"): (1, 3),
    ("f32", "f32"): (1,),
    ("f64", "f64"): (1,),
}
"""
Supported numbers of products of the components of two elements, by the types of factors and
sums. 8-bit floats of any formats are multiplied once and summed in f32.
"""


class IndexingDimensionsAttr(FieldsAttr, ABC):
    """
    Roles of dimensions of an indexed tensor, of the indices, and of slices. The parameters
    have one order: the slice dimensions, the dimensions of the tensor that a slice lacks,
    the batching dimensions of the tensor and of the indices, the dimensions that index
    vectors refer to, and the dimension of index vectors.
    """

    def numbers(self) -> tuple[Sequence[int], ...]:
        """Return the values of all parameters except the last, in order."""
        return tuple(cast(Dimensions, p).get_values() for p in self.parameters[:-1])

    @property
    def names(self) -> Sequence[str]:
        """Names of the parameters."""
        return [name for name, _ in self.get_irdl_definition().parameters]


@irdl_attr_definition
class GatherDimensionNumbersAttr(IndexingDimensionsAttr):
    """
    Roles of the dimensions of operand, indices and result of `stablehlo.gather`.

    Example:

    ```mlir
    #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
      start_index_map = [0], index_vector_dim = 1>
    ```
    """

    name = "stablehlo.gather"

    offset_dims: Dimensions = param_def(converter=dimensions_attr)
    """Result dimensions that index into a slice of the operand."""

    collapsed_slice_dims: Dimensions = param_def(converter=dimensions_attr)
    """Operand dimensions that have size 1 in each slice and that the result omits."""

    operand_batching_dims: Dimensions = param_def(converter=dimensions_attr)
    start_indices_batching_dims: Dimensions = param_def(converter=dimensions_attr)

    start_index_map: Dimensions = param_def(converter=dimensions_attr)
    """Operand dimension to which each component of an index vector refers."""

    index_vector_dim: IntAttr = param_def(converter=IntAttr.get)
    """Dimension of the indices tensor along which an index vector extends."""


@irdl_attr_definition
class ScatterDimensionNumbersAttr(IndexingDimensionsAttr):
    """
    Roles of the dimensions of inputs, indices and updates of `stablehlo.scatter`.

    Example:

    ```mlir
    #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
    ```
    """

    name = "stablehlo.scatter"

    update_window_dims: Dimensions = param_def(converter=dimensions_attr)
    """Dimensions of the updates that index into a slice of the inputs."""

    inserted_window_dims: Dimensions = param_def(converter=dimensions_attr)
    """Dimensions of the inputs that have size 1 in each slice, and updates omit."""

    input_batching_dims: Dimensions = param_def(converter=dimensions_attr)
    scatter_indices_batching_dims: Dimensions = param_def(converter=dimensions_attr)

    scatter_dims_to_operand_dims: Dimensions = param_def(converter=dimensions_attr)
    """Dimension of the inputs to which each component of an index vector refers."""

    index_vector_dim: IntAttr = param_def(converter=IntAttr.get)
    """Dimension of the indices tensor along which an index vector extends."""


@irdl_attr_definition
class OutputOperandAliasAttr(FieldsAttr):
    """
    Operand of `stablehlo.custom_call` whose buffer a result reuses.

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


_LETTERS = {"input": "bf", "kernel": "io", "output": "bf"}
"""Letters for the two non-spatial dimensions of each tensor."""


@irdl_attr_definition
class ConvDimensionNumbersAttr(FieldsAttr):
    """
    Roles of the dimensions of input, kernel and output of `stablehlo.convolution`.

    In the example, `b` is the batch dimension, `f` a feature dimension, `i` and `o` are the
    kernel's input and output feature dimensions, and numbers are spatial dimensions.

    Example:

    ```mlir
    #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>
    ```
    """

    name = "stablehlo.conv"

    IS_SPARSE: ClassVar[bool] = False

    input_batch_dimension: IntAttr = param_def(converter=IntAttr.get)
    input_feature_dimension: IntAttr = param_def(converter=IntAttr.get)
    input_spatial_dimensions: Dimensions = param_def(converter=dimensions_attr)
    kernel_input_feature_dimension: IntAttr = param_def(converter=IntAttr.get)
    kernel_output_feature_dimension: IntAttr = param_def(converter=IntAttr.get)
    kernel_spatial_dimensions: Dimensions = param_def(converter=dimensions_attr)
    output_batch_dimension: IntAttr = param_def(converter=IntAttr.get)
    output_feature_dimension: IntAttr = param_def(converter=IntAttr.get)
    output_spatial_dimensions: Dimensions = param_def(converter=dimensions_attr)

    def by_tensor(self) -> dict[str, Sequence[int]]:
        """Return each tensor's dimensions by tensor name: non-spatial, then spatial."""
        fields: Iterator[Any] = iter(self.parameters)
        return {
            name: [next(fields).data, next(fields).data, *next(fields).get_values()]
            for name in _LETTERS
        }

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            if parser.parse_optional_keyword("raw"):
                return cls.parse_fields(parser)
            return cls.parse_dimensions(parser)

    @classmethod
    def parse_dimensions(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parse `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`."""
        parameters: list[Attribute] = []
        for separator, letters in zip(("", "x", "->"), _LETTERS.values(), strict=True):
            if separator:
                parser.parse_characters(separator)
            parameters += _parse_tensor_dimensions(parser, letters)
        return parameters

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            self.print_dimensions(printer)

    def print_dimensions(self, printer: Printer) -> None:
        """Print `[b, 0, 1, f]x[0, 1, i, o]->...`, or `raw` fields for invalid numbers."""
        tensors = self.by_tensor()
        if any(
            sorted(numbers) != [*range(len(numbers))] for numbers in tensors.values()
        ):
            printer.print_string("raw ")
            self.print_fields(printer)
            return
        texts: list[str] = []
        for letters, numbers in zip(_LETTERS.values(), tensors.values(), strict=True):
            names = [*letters, *map(str, range(len(numbers) - 2))]
            texts.append(", ".join(names[numbers.index(d)] for d in range(len(names))))
        printer.print_string("[{}]x[{}]->[{}]".format(*texts))


def _parse_tensor_dimensions(parser: AttrParser, letters: str) -> Sequence[Attribute]:
    """Parse the dimensions of one tensor: `[b, 0, 1, f]` if `letters` is `bf`."""
    pos = parser.pos

    def parse_dimension() -> str:
        number = parser.parse_optional_integer(allow_boolean=False)
        return parser.parse_identifier() if number is None else str(number)

    names = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_dimension)
    expected = [*letters, *map(str, range(len(names) - len(letters)))]
    if sorted(names) != sorted(expected):
        message = f"Expected dimensions {', '.join(expected)} in any order"
        parser.raise_error(message, pos, parser.pos)
    first, second, *spatial = (names.index(name) for name in expected)
    return IntAttr(first), IntAttr(second), dimensions_attr(spatial)


# Bounds and tokens


@irdl_attr_definition
class TypeExtensionsAttr(ParametrizedAttribute):
    """
    Upper bounds of dynamic dimensions, as the encoding of a tensor type.

    Example:

    ```mlir
    tensor<?x8xf32, #stablehlo.bounds<3, ?>>
    ```
    """

    name = "stablehlo.bounds"

    bounds: Dimensions = param_def(converter=dimensions_attr)
    """Bound of each dimension, `DYNAMIC_INDEX` if unbounded."""

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
    Token that orders ops with side effects.

    Example:

    ```mlir
    !stablehlo.token
    ```
    """

    name = "stablehlo.token"
