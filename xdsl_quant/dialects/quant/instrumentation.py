"""
Ops that record or request the quantization of a value: fake quantization, calibration
statistics and couplings.

MLIR had these ops until version 18. Attributes and verifier messages are those of MLIR 14,
which has the generic form only. Their custom form is:

```
const_fake_quant          ::= `quant.const_fake_quant` value range bits rest
const_fake_quant_per_axis ::= `quant.const_fake_quant_per_axis` value `axis` int ranges
                              bits rest
stats                     ::= `quant.stats` value range (`axis` int ranges)? rest
stats_ref                 ::= `quant.stats_ref` value string rest
coupled_ref               ::= `quant.coupled_ref` value string rest
range                     ::= `<` float `:` float `>`
ranges                    ::= `[` (range (`,` range)*)? `]`
bits                      ::= `bits` int `signed`? `narrow`?
rest                      ::= attribute-dictionary? `:` type
```

Parameters without a custom form, e.g. statistics of type f64 or unequal numbers of minima
and maxima, are printed in the attribute dictionary.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I1,
    I64,
    AnyFloat,
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    Float32Type,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    UnrankedTensorType,
    VectorType,
    f32,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.type_kinds import (
    AttributeKind,
    TypeKind,
    attribute,
    verify_attributes,
    verify_kinds,
)

from .ops import has_floats, verify_cast_rounding
from .type_tokens import float_spelling_hint
from .types import QuantizedType, scalar_or_element_type

Range = tuple[float, float]
"""A min/max range."""

_F32 = AttributeKind(FloatAttr[Float32Type], "32-bit float")
_F32_ARRAY = AttributeKind(ArrayAttr[FloatAttr[Float32Type]], "32-bit float array")
_I64 = AttributeKind(IntegerAttr[I64], "64-bit signless integer")
_OPTIONAL_I64 = AttributeKind(IntegerAttr[I64] | None, _I64.description)
_OPTIONAL_BOOL = AttributeKind(IntegerAttr[I1] | None, "bool")
_STRING = AttributeKind(StringAttr, "string")
_ELEMENTS = AttributeKind(DenseIntOrFPElementsAttr, "constant vector/tensor")
_OPTIONAL_ELEMENTS = AttributeKind(
    DenseIntOrFPElementsAttr | None, _ELEMENTS.description
)


# Text of parameters


def _parse_bound(parser: Parser) -> float:
    """Parse an f32 number in decimal, or its bits in hexadecimal."""
    start = parser.pos
    number = parser.parse_number(context_msg=" in a range")
    if isinstance(number, float):
        try:
            return f32.unpack(f32.pack((number,)), 1)[0]
        except OverflowError:
            parser.raise_error("bound of a range is out of range for f32", start)
    text = parser.lexer.input.content[start : parser.pos]
    if not text.startswith("0x"):
        hint = float_spelling_hint(parser.lexer.input.content, start)
        parser.raise_error(f"bound of a range needs a decimal point{hint}", start)
    if number >> 32:
        parser.raise_error(
            "hexadecimal float constant out of range for type", start, parser.pos
        )
    return f32.unpack(number.to_bytes(4, "little"), 1)[0]


def _parse_optional_range(parser: Parser) -> Range | None:
    if parser.parse_optional_punctuation("<") is None:
        return None
    low = _parse_bound(parser)
    parser.parse_punctuation(":")
    high = _parse_bound(parser)
    parser.parse_punctuation(">")
    return low, high


def _parse_optional_axis(parser: Parser) -> tuple[int, list[Range]] | None:
    if parser.parse_optional_keyword("axis") is None:
        return None
    axis = parser.parse_integer(allow_boolean=False)
    ranges = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE,
        lambda: parser.expect(lambda: _parse_optional_range(parser), "expected range"),
    )
    return axis, ranges


def _print_range(printer: Printer, bounds: Range) -> None:
    with printer.in_angle_brackets():
        printer.print_float(bounds[0], f32)
        printer.print_string(":")
        printer.print_float(bounds[1], f32)


def _print_axis(
    printer: Printer, axis: IntegerAttr[I64], ranges: Iterable[Range]
) -> None:
    printer.print_string(f" axis {axis.value.data} ")
    with printer.in_square_brackets():
        printer.print_list(ranges, lambda bounds: _print_range(printer, bounds))


# Parameters


_TRUE = IntegerAttr(1, i1)


def _bits_attributes(
    num_bits: int, is_signed: bool, narrow_range: bool
) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {"num_bits": IntegerAttr(num_bits, i64)}
    if is_signed:
        attributes["is_signed"] = _TRUE
    if narrow_range:
        attributes["narrow_range"] = _TRUE
    return attributes


def _parse_bits(parser: Parser) -> dict[str, Attribute]:
    parser.parse_keyword("bits")
    return _bits_attributes(
        parser.parse_integer(allow_boolean=False),
        is_signed=parser.parse_optional_keyword("signed") is not None,
        narrow_range=parser.parse_optional_keyword("narrow") is not None,
    )


def _print_bits(printer: Printer, op: _ConstFakeQuantOp) -> Iterable[str]:
    printer.print_string(f" bits {op.num_bits.value.data}")
    yield "num_bits"
    for name, keyword in (("is_signed", "signed"), ("narrow_range", "narrow")):
        if op.attributes.get(name) == _TRUE:
            printer.print_string(f" {keyword}")
            yield name


def _ranges_attr(ranges: Sequence[Range], *shape: int) -> DenseIntOrFPElementsAttr:
    bounds = [bound for range_ in ranges for bound in range_]
    return DenseIntOrFPElementsAttr(
        TensorType(f32, (*shape, 2)), BytesAttr(f32.pack(bounds))
    )


def ranges_of(attr: DenseIntOrFPElementsAttr) -> list[Range]:
    """Return the min/max ranges of a statistics attribute."""
    values = cast("tuple[float, ...]", attr.get_values())
    return list(zip(values[::2], values[1::2], strict=True))


def _are_f32_ranges(attr: DenseIntOrFPElementsAttr, rank: int) -> bool:
    """Return True if statistics are f32 pairs of this rank, as the custom form requires."""
    shape = attr.get_shape()
    return (
        attr.type == TensorType(f32, shape)
        and len(shape) == rank
        and shape[-1] == 2
        and 2 * math.prod(shape[:-1]) == len(attr)
    )


# Ops


def _is_tensor_type(type_: Attribute) -> bool:
    return isinstance(type_, TensorType | UnrankedTensorType)


def _has_real_values(type_: Attribute) -> bool:
    if isinstance(type_, VectorType):
        return isinstance(cast(Attribute, type_.element_type), AnyFloat)
    return isinstance(scalar_or_element_type(type_), AnyFloat | QuantizedType)


_REAL_VALUE = TypeKind(
    "primitive/tensor/vector of real valued primitive (float or quantized type)",
    _has_real_values,
)


class InstrumentationOp(IRDLOperation, ABC):
    """
    Base class of ops that return their operand.

    `verify_` checks types, because the op definition would not report MLIR 14's messages.
    """

    input = operand_def()
    result = result_def()

    KIND: ClassVar[TypeKind]
    """Type constraint of the operand."""

    def __init__(
        self, input: SSAValue | Operation, attributes: Mapping[str, Attribute]
    ):
        value = SSAValue.get(input)
        super().__init__(
            operands=[value], result_types=[value.type], attributes=attributes
        )

    # Verification

    def verify_(self) -> None:
        verify_attributes(self)
        verify_kinds(self, [self.KIND], [self.KIND])
        if self.input.type != self.result.type:
            raise VerifyException(
                f"'{self.name}' op requires the same type for all operands and results"
            )

    # Text

    @classmethod
    @abstractmethod
    def parse_parameters(cls, parser: Parser) -> dict[str, Attribute]:
        """Parse the custom form of parameters, if any, and return them as attributes."""

    @abstractmethod
    def print_parameters(self, printer: Printer) -> Iterable[str]:
        """Print the custom form of parameters, and return the names of the printed ones."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        attributes = cls.parse_parameters(parser)
        start = parser.pos
        for name, attr in parser.parse_optional_attr_dict().items():
            if name in attributes:
                parser.raise_error(f"attribute '{name}' occurs twice", start)
            attributes[name] = attr
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        return cls.create(
            operands=[parser.resolve_operand(operand, type_)],
            result_types=[type_],
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.input)
        try:
            verify_attributes(self)
            printed = self.print_parameters(printer)
        except VerifyException:
            # An invalid op is printed, too: xDSL shows it below the error message.
            printed = ()
        printer.print_op_attributes(self.attributes, reserved_attr_names=set(printed))
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


class _ConstFakeQuantOp(InstrumentationOp, ABC):
    """Base class of per-tensor and per-axis fake quantization."""

    num_bits = attribute(_I64)
    """Width of the storage type in bits."""

    narrow_range = attribute(_OPTIONAL_BOOL)
    """True if the storage range excludes the smallest value."""

    is_signed = attribute(_OPTIONAL_BOOL)
    """True if stored values are signed."""

    traits = traits_def(Pure())

    def verify_(self) -> None:
        super().verify_()
        verify_cast_rounding(self)


@irdl_op_definition
class ConstFakeQuantOp(_ConstFakeQuantOp):
    """
    Fake-quantize a value with one min/max range for all elements.
    `quant-convert-simulated-quantization` lowers the op to casts.

    Example:

    ```mlir
    %y = quant.const_fake_quant %x <-1.0:1.0> bits 8 signed narrow : tensor<4xf32>
    ```
    """

    name = "quant.const_fake_quant"
    KIND: ClassVar[TypeKind] = TypeKind(
        "floating-point or tensor of floating-point values", has_floats
    )

    min = attribute(_F32)
    """Minimum of the range."""

    max = attribute(_F32)
    """Maximum of the range."""

    def __init__(
        self,
        input: SSAValue | Operation,
        min: float,
        max: float,
        num_bits: int,
        *,
        is_signed: bool = False,
        narrow_range: bool = False,
    ):
        bits = _bits_attributes(num_bits, is_signed, narrow_range)
        super().__init__(input, {**_range_attributes((min, max)), **bits})

    @classmethod
    def parse_parameters(cls, parser: Parser) -> dict[str, Attribute]:
        if (range_ := _parse_optional_range(parser)) is None:
            return {}
        return {**_range_attributes(range_), **_parse_bits(parser)}

    def print_parameters(self, printer: Printer) -> Iterable[str]:
        printer.print_string(" ")
        _print_range(printer, (self.min.value.data, self.max.value.data))
        return ("min", "max", *_print_bits(printer, self))


def _range_attributes(range_: Range) -> dict[str, Attribute]:
    low, high = range_
    return {"min": FloatAttr(low, f32), "max": FloatAttr(high, f32)}


@irdl_op_definition
class ConstFakeQuantPerAxisOp(_ConstFakeQuantOp):
    """
    Fake-quantize a value with a min/max range for each index of one dimension.
    `quant-convert-simulated-quantization` lowers the op to casts.

    Example:

    ```mlir
    %y = quant.const_fake_quant_per_axis %x axis 1 [<-1.0:1.0>, <0.0:2.0>] bits 8
           : tensor<4x2xf32>
    ```
    """

    name = "quant.const_fake_quant_per_axis"
    KIND: ClassVar[TypeKind] = TypeKind(
        "tensor of floating-point values",
        lambda type_: _is_tensor_type(type_) and has_floats(type_),
    )

    min = attribute(_F32_ARRAY)
    """Minimum of each range."""

    max = attribute(_F32_ARRAY)
    """Maximum of each range."""

    axis = attribute(_I64)
    """The quantized dimension."""

    def __init__(
        self,
        input: SSAValue | Operation,
        min: Iterable[float],
        max: Iterable[float],
        axis: int,
        num_bits: int,
        *,
        is_signed: bool = False,
        narrow_range: bool = False,
    ):
        super().__init__(
            input,
            {
                **_axis_attributes(axis, min, max),
                **_bits_attributes(num_bits, is_signed, narrow_range),
            },
        )

    @classmethod
    def parse_parameters(cls, parser: Parser) -> dict[str, Attribute]:
        if (parsed := _parse_optional_axis(parser)) is None:
            return {}
        axis, ranges = parsed
        lows, highs = [low for low, _ in ranges], [high for _, high in ranges]
        return {**_axis_attributes(axis, lows, highs), **_parse_bits(parser)}

    def print_parameters(self, printer: Printer) -> Iterable[str]:
        if len(self.min) != len(self.max):
            return ()
        lows, highs = ([bound.value.data for bound in a] for a in (self.min, self.max))
        _print_axis(printer, self.axis, zip(lows, highs, strict=True))
        return ("min", "max", "axis", *_print_bits(printer, self))


def _axis_attributes(
    axis: int, lows: Iterable[float], highs: Iterable[float]
) -> dict[str, Attribute]:
    return {
        "min": ArrayAttr(FloatAttr(low, f32) for low in lows),
        "max": ArrayAttr(FloatAttr(high, f32) for high in highs),
        "axis": IntegerAttr(axis, i64),
    }


@irdl_op_definition
class StatisticsOp(InstrumentationOp):
    """
    Record the min/max range of a value during calibration and, optionally, one range for
    each index of a dimension.

    Unlike in MLIR 14, the value may be a scalar if it has no per-axis ranges, and `axis`
    may be any dimension, with one range per index. MLIR 14 expects as many ranges as the
    product of the sizes from `axis` on; this count is also accepted.

    Example:

    ```mlir
    %y = quant.stats %x <-1.0:1.0> : tensor<4x2xf32>
    %z = quant.stats %x <-1.0:1.0> axis 1 [<-1.0:0.5>, <0.0:1.0>] : tensor<4x2xf32>
    ```
    """

    name = "quant.stats"
    KIND: ClassVar[TypeKind] = _REAL_VALUE
    layer_stats = attribute(_ELEMENTS, "layerStats")
    """Minimum and maximum of all elements; shape `[2]`."""

    axis_stats = attribute(_OPTIONAL_ELEMENTS, "axisStats")
    """Minimum and maximum for each of the `N` indices of `axis`; shape `[N, 2]`."""

    axis = attribute(_OPTIONAL_I64)
    """The dimension of `axis_stats`."""

    traits = traits_def(Pure())

    def __init__(
        self,
        input: SSAValue | Operation,
        layer_stats: Range,
        axis_stats: Sequence[Range] | None = None,
        axis: int | None = None,
    ):
        super().__init__(input, _statistics(layer_stats, axis_stats, axis))

    def verify_(self) -> None:
        super().verify_()
        if not isinstance(self.layer_stats.get_element_type(), AnyFloat):
            raise self._error("layerStats must have a floating point element type")
        if self.layer_stats.get_shape() != (2,):
            raise self._error("layerStats must have shape [2]")
        if self.axis_stats is not None:
            self._verify_axis_stats(self.axis_stats)

    def _verify_axis_stats(self, axis_stats: DenseIntOrFPElementsAttr) -> None:
        if not _is_tensor_type(self.input.type):
            raise self._error("arg needs to be tensor type.")
        if self.axis is None:
            raise self._error("axis must be specified for axisStats")
        if not isinstance(axis_stats.get_element_type(), AnyFloat):
            raise self._error("axisStats must have a floating point element type")
        shape = axis_stats.get_shape()
        axis = self.axis.value.data
        are_pairs = len(shape) == 2 and shape[1] == 2
        if not are_pairs or not _is_range_count(self.input.type, axis, shape[0]):
            raise self._error(
                "axisStats must have shape [N,2] where N = the slice size defined by "
                "the axis dim"
            )

    def _error(self, message: str) -> VerifyException:
        return VerifyException(f"'{self.name}' op {message}")

    @classmethod
    def parse_parameters(cls, parser: Parser) -> dict[str, Attribute]:
        if (layer := _parse_optional_range(parser)) is None:
            return {}
        axis, ranges = _parse_optional_axis(parser) or (None, None)
        return _statistics(layer, ranges, axis)

    def print_parameters(self, printer: Printer) -> Iterable[str]:
        layer, axis_stats, axis = self.layer_stats, self.axis_stats, self.axis
        if not _are_f32_ranges(layer, 1):
            return ()
        printer.print_string(" ")
        _print_range(printer, ranges_of(layer)[0])
        if axis is None or axis_stats is None or not _are_f32_ranges(axis_stats, 2):
            return ("layerStats",)
        _print_axis(printer, axis, ranges_of(axis_stats))
        return ("layerStats", "axisStats", "axis")


def _statistics(
    layer_stats: Range, axis_stats: Sequence[Range] | None, axis: int | None
) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {"layerStats": _ranges_attr([layer_stats])}
    if axis is not None:
        attributes["axis"] = IntegerAttr(axis, i64)
    if axis_stats is not None:
        attributes["axisStats"] = _ranges_attr(axis_stats, len(axis_stats))
    return attributes


def _is_range_count(type_: Attribute, axis: int, count: int) -> bool:
    """Return True if `count` per-axis ranges are valid for a dimension of a tensor."""
    if not isinstance(type_, TensorType):
        return False
    shape = type_.get_shape()
    if not 0 <= axis < len(shape):
        return False
    slice_shape = shape[axis:]
    if slice_shape[0] == DYNAMIC_INDEX:
        return count > 0
    if DYNAMIC_INDEX in slice_shape:
        return count == slice_shape[0]
    return count in (slice_shape[0], math.prod(slice_shape))


class _KeyedOp(InstrumentationOp, ABC):
    """Base class of ops whose only parameter is a key."""

    KIND: ClassVar[TypeKind] = _REAL_VALUE

    KEY: ClassVar[str]
    """Name of the attribute with the key."""

    def __init__(self, input: SSAValue | Operation, key: str):
        super().__init__(input, {self.KEY: StringAttr(key)})

    @classmethod
    def parse_parameters(cls, parser: Parser) -> dict[str, Attribute]:
        key = parser.parse_optional_str_literal()
        return {} if key is None else {cls.KEY: StringAttr(key)}

    def print_parameters(self, printer: Printer) -> Iterable[str]:
        printer.print_string(" ")
        printer.print_attribute(self.attributes[self.KEY])
        return (self.KEY,)


@irdl_op_definition
class StatisticsRefOp(_KeyedOp):
    """
    Record the range of a value under a key at run time. Dead code elimination and CSE keep
    the op.

    Example:

    ```mlir
    %y = quant.stats_ref %x "layer_1" : tensor<4x2xf32>
    ```
    """

    name = "quant.stats_ref"
    KEY: ClassVar[str] = "statsKey"

    stats_key = attribute(_STRING, KEY)

    # Recording is a side effect.
    traits = traits_def(MemoryWriteEffect())


@irdl_op_definition
class CoupledRefOp(_KeyedOp):
    """
    Require that all values with the same key have the same quantization.

    Example:

    ```mlir
    %y = quant.coupled_ref %x "state" : tensor<4x2xf32>
    ```
    """

    name = "quant.coupled_ref"
    KEY: ClassVar[str] = "coupledKey"

    coupled_key = attribute(_STRING, KEY)
    """Key of the group of values."""

    traits = traits_def(Pure())
