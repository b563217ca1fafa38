"""
The block-scaled quantized type, whose scales are stored in a narrow or quantized type.

Its syntax, with the nonterminals of [`type_syntax`][xdsl_quant.dialects.quant.type_syntax]:

```
block-scaled ::= `block_scaled` `<` storage `:` float-type `:` blocks `,`
                 `scales` `=` numbers (`,` `zero_points` `=` numbers)?
                 (`,` `offsets` `=` numbers)? `>`
numbers      ::= elements (`as` type)?
```

`zero_points` and `offsets` may be in any order.
`elements` is a builtin attribute: `dense` or `dense_resource` with a tensor type.
"""

from __future__ import annotations

import json
import math
import re
import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from io import StringIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias, Unpack, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I32,
    AnyFloat,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    Float80Type,
    Float128Type,
    FloatData,
    FloatTF32Type,
    IntAttr,
    IntegerType,
    NoneAttr,
    TensorType,
    UnrankedTensorType,
    f32,
    f64,
    i32,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError, VerifyException

from xdsl_quant.xdsl_patches.resources import resource_data

from .constructor_arguments import (
    INTEGERS,
    Ints,
    flatten_sequence,
    ints_attr,
    type_text,
    vector,
)
from .float_formats import MIN_BULK_COUNT, float_format, float_properties
from .storage_types import MAX_STORAGE_BITS, StorageType
from .type_syntax import TypeSyntax
from .types import (
    AnyQuantizedType,
    StorageOptions,
    StoredQuantizedType,
    UniformQuantizedType,
    block_counts_text,
    common_arguments,
    numeric,
    verify_blocks,
)

if TYPE_CHECKING:
    from xdsl_quant.numerics.arrays import Array, Floats


# Block parameters

Elements: TypeAlias = DenseIntOrFPElementsAttr | DenseResourceAttr
"""A dense attribute, or a reference to a resource."""


@irdl_attr_definition
class StoredNumbersAttr(ParametrizedAttribute):
    """
    Tensor of block parameters, one per block: floats, integers, or stored values of a
    quantized type. Stored values stand for their expressed values.

    The attribute has no syntax outside
    [`BlockScaledQuantizedType`][xdsl_quant.dialects.quant.BlockScaledQuantizedType].
    """

    name = "quant.stored_numbers"

    elements: DenseIntOrFPElementsAttr | DenseResourceAttr

    quantized_type: StoredQuantizedType | NoneAttr
    """The quantized type of the elements, or `NoneAttr` for plain numbers."""

    def __init__(
        self, elements: Elements, quantized_type: StoredQuantizedType | None = None
    ):
        super().__init__(elements, quantized_type or NoneAttr())

    @staticmethod
    def from_array(
        array: Array,
        element_type: AnyFloat | IntegerType,
        quantized_type: StoredQuantizedType | None = None,
    ) -> StoredNumbersAttr:
        """
        Build block parameters from an array.

        Args:
            array: floats or integers, or the bits of the elements as integers.
            element_type: the type of an element.
            quantized_type: the quantized type of the elements.

        Raises:
            VerifyException: if array elements and `element_type` differ in byte size.
        """
        size = element_type.compile_time_size
        if array.itemsize != size:
            raise VerifyException(
                f"expected array elements of {size} bytes for type '{element_type}', but "
                f"got {array.itemsize} bytes"
            )
        type_ = TensorType(element_type, array.shape)
        data = BytesAttr(numeric().element_bytes(array, element_type))
        elements = DenseIntOrFPElementsAttr(type_, data)
        return StoredNumbersAttr(elements, quantized_type)

    @property
    def type(self) -> TensorType[Attribute]:
        """The tensor type of the elements."""
        return cast("TensorType[Attribute]", self.elements.type)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.get_shape()

    @property
    def element_type(self) -> AnyFloat | IntegerType:
        """The type of an element."""
        return cast("AnyFloat | IntegerType", self.type.element_type)

    @property
    def number_type(self) -> AnyFloat | IntegerType:
        """The expressed type of `quantized_type`, or the element type of plain numbers."""
        if isinstance(self.quantized_type, NoneAttr):
            return self.element_type
        return cast(AnyFloat, self.quantized_type.expressed_type)

    @property
    def has_nan_exponent(self) -> bool:
        """True if any f8E8M0FNU element is NaN; False for a resource, which is not read."""
        return (
            isinstance(self.element_type, Float8E8M0FNUType)
            and isinstance(self.elements, DenseIntOrFPElementsAttr)
            and 0xFF in self.elements.data.data
        )

    def data(self) -> bytes:
        """
        Return the bytes of the elements, in row-major order.

        Raises:
            ValueError: if the resource is missing or damaged.
        """
        elements = self.elements
        if isinstance(elements, DenseIntOrFPElementsAttr):
            return elements.data.data
        name, size = elements.resource_handle.data, self.element_type.compile_time_size
        try:
            data = resource_data(elements)
        except ValueError as e:
            raise ValueError(f"resource '{name}' is damaged: {e}") from None
        if data is None:
            raise ValueError(f"missing data of resource '{name}'")
        if len(data) != (needed := math.prod(self.shape) * size):
            raise ValueError(
                f"resource '{name}' has {len(data)} bytes; expected {needed} for "
                f"'{self.type}'"
            )
        return bytes(data)

    # Verification

    def verify(self) -> None:
        type_ = self.elements.type
        if not isinstance(type_, TensorType) or DYNAMIC_INDEX in type_.get_shape():
            raise VerifyException(
                f"block parameters must be a tensor of static shape, but got '{type_}'"
            )
        if not math.prod(type_.get_shape()):
            raise VerifyException(f"expected at least one block, but got '{type_}'")
        if isinstance(self.quantized_type, NoneAttr):
            self._verify_numbers()
        else:
            self._verify_stored(self.quantized_type)

    def _verify_numbers(self) -> None:
        element_type = cast(Attribute, self.element_type)
        if isinstance(element_type, IntegerType):
            width = element_type.bitwidth
            if not 1 < width <= MAX_STORAGE_BITS:
                raise VerifyException(
                    f"expected block parameters of 2 to {MAX_STORAGE_BITS} bits, but got "
                    f"'{element_type}'"
                )
        elif not isinstance(element_type, AnyFloat) or isinstance(
            element_type, FloatTF32Type | Float80Type | Float128Type
        ):
            raise VerifyException(
                "block parameters must be integers, or floats such as f16, but got "
                f"'{element_type}'"
            )
        elif isinstance(self.elements, DenseIntOrFPElementsAttr):
            self._verify_finite(self.elements)

    def _verify_finite(self, elements: DenseIntOrFPElementsAttr) -> None:
        if isinstance(self.element_type, Float8E8M0FNUType):
            # f8E8M0FNU has no infinities. NaN is valid: it is the scale of a block of NaNs.
            return
        if len(elements) < MIN_BULK_COUNT:
            numbers = cast(Iterable[float], elements.iter_values())
            non_finite = next((x for x in numbers if not math.isfinite(x)), None)
        else:
            non_finite = numeric().first_not_finite(self.numbers(is_signed=True))
        if non_finite is not None:
            raise VerifyException(
                f"block parameters must be finite, but one is {non_finite}"
            )

    def _verify_stored(self, quantized_type: StoredQuantizedType) -> None:
        if isinstance(quantized_type, AnyQuantizedType):
            raise VerifyException(
                "expected a quantized type with a scale for block parameters, but got "
                f"'{quantized_type}'"
            )
        if self.element_type != quantized_type.stored_type:
            raise VerifyException(
                f"expected block parameters of type '{quantized_type.stored_type}' for "
                f"'{type_text(quantized_type)}', but got '{self.element_type}'"
            )
        quantized_type.verify_container(TensorType(quantized_type, self.shape))

    # Values

    def codes(self, is_signed: bool) -> Array:
        """
        Return the elements as a read-only array: integers, floats of a NumPy dtype, or the
        bits of other floats as unsigned integers.

        Args:
            is_signed: True to read signless integers as signed.

        Raises:
            ValueError: if the resource is missing or damaged.
        """
        codes = numeric().stored_codes(self.data(), self.element_type, is_signed)
        return codes.reshape(self.shape)

    def numbers(self, is_signed: bool) -> Floats:
        """
        Return the numbers that the elements represent, as f64 and without rounding.

        Args:
            is_signed: True to read signless integers as signed; ignored for elements with
                a quantized type.

        Raises:
            ValueError: if the resource is missing, damaged, or not finite.
        """
        if not isinstance(self.quantized_type, NoneAttr):
            codes = self.codes(self.quantized_type.is_signed)
            return numeric().dequantized_codes(codes, self.quantized_type)
        numbers = numeric().decode_elements(self.codes(is_signed), self.element_type)
        self._check_resource(numbers)
        return numbers

    def _check_resource(self, numbers: Floats) -> None:
        """Raise a `ValueError` if a resource has infinities or NaN."""
        elements = self.elements
        if isinstance(elements, DenseIntOrFPElementsAttr) or isinstance(
            self.element_type, Float8E8M0FNUType
        ):
            return
        if (non_finite := numeric().first_not_finite(numbers)) is not None:
            raise ValueError(
                f"block parameters must be finite, but one of resource "
                f"'{elements.resource_handle.data}' is {non_finite}"
            )

    def print_numbers(self, printer: Printer) -> None:
        """Print the elements and, after `as`, their quantized type."""
        printer.print_attribute(self.elements)
        if not isinstance(self.quantized_type, NoneAttr):
            printer.print_string(" as ")
            printer.print_attribute(self.quantized_type)


# Syntax

_OPTIONAL_PARAMETERS = ("zero_points", "offsets")

_DENSE_LIST = re.compile(
    r"dense\s*<\s*(?P<numbers>\[[-+0-9.eE,\[\]\s]*+)>\s*:", re.ASCII
)
"""Regular expression of a dense list of decimal numbers, up to the colon."""


class BlockScaledSyntax(TypeSyntax):
    """Parser of one block-scaled type."""

    STORAGE_TYPES: ClassVar = StorageType

    def parameters(self) -> Sequence[Attribute]:
        """Parse the parameters of a `!quant.block_scaled` type."""
        _, common = self._storage_and_expressed_type()
        self._expect(":")
        dimensions, block_sizes = self._blocks()
        self._expect(",")
        self._expect("scales")
        numbers: dict[str, Attribute] = {"scales": self._numbers()}
        remaining = [*_OPTIONAL_PARAMETERS]
        while self._optional(","):
            if (name := next(filter(self._optional, remaining), None)) is None:
                expected = " or ".join(map(repr, remaining)) or "'>'"
                self.parser.raise_error(f"expected {expected}")
            numbers[name] = self._numbers()
            remaining.remove(name)
        for name in _OPTIONAL_PARAMETERS:
            numbers.setdefault(name, NoneAttr())
        return (
            *common,
            DenseArrayBase.from_list(i32, dimensions),
            ints_attr(block_sizes),
            *(numbers[name] for name in ("scales", *_OPTIONAL_PARAMETERS)),
        )

    def _numbers(self) -> StoredNumbersAttr:
        self._expect("=")
        start = self.parser.pos
        try:
            if (elements := self._plain_elements()) is None:
                elements = self.parser.parse_attribute()
        except (NotImplementedError, OverflowError, ValueError):
            # xDSL raises these errors for numbers that the type does not represent.
            self.parser.raise_error(
                "expected numbers representable in the element type",
                start,
                self.parser.pos,
            )
        if not isinstance(elements, DenseIntOrFPElementsAttr | DenseResourceAttr):
            self.parser.raise_error(
                "expected 'dense' or 'dense_resource' elements", start, self.parser.pos
            )
        quantized_type: Attribute = NoneAttr()
        if self.parser.parse_optional_keyword("as"):
            quantized_type = self.parser.parse_type()
            if not isinstance(quantized_type, StoredQuantizedType):
                self.parser.raise_error(
                    f"expected a quantized type with a scale, but got "
                    f"'{quantized_type}'",
                    start,
                    self.parser.pos,
                )
        try:
            return StoredNumbersAttr.new(
                (cast(Attribute, elements), cast(Attribute, quantized_type))
            )
        except VerifyException as e:
            self.parser.raise_error(str(e), start, self.parser.pos)

    def _plain_elements(self) -> DenseIntOrFPElementsAttr | None:
        """
        Parse a `dense` list of plain decimal numbers without tokenizing it. For any other
        or invalid attribute, consume nothing and return `None`.
        """
        start = self.parser.pos
        if (match := _DENSE_LIST.match(self.content, start)) is None:
            return None
        self._resume_from(match.end())
        try:
            type_ = self.parser._parse_dense_literal_type()  # pyright: ignore[reportPrivateUsage] no public way
            data, shape = _read_packed(match["numbers"], type_.element_type)
        except (ParseError, *_PARSE_ERRORS):
            pass
        else:
            if shape == type_.get_shape():
                return DenseIntOrFPElementsAttr(type_, BytesAttr(data))
        self._resume_from(start)
        return None


_PARSE_ERRORS = (
    NotImplementedError,
    OverflowError,
    RecursionError,
    struct.error,
    TypeError,
    ValueError,
    VerifyException,
)
"""Exceptions that `_read_packed` raises for texts that it does not parse."""


def _read_packed(text: str, element_type: Attribute) -> tuple[bytes, tuple[int, ...]]:
    """
    Return the bytes of a nested list of numbers, and its shape. The list is parsed as JSON,
    because each JSON number is a valid MLIR number.

    Python code runs once per distinct number; narrow types have few distinct numbers.

    Raises:
        Exception: one of `_PARSE_ERRORS`.
    """

    def refuse(number: str) -> NoReturn:
        raise ValueError(f"number '{number}' of another kind")

    @cache
    def packed_int(number: str) -> bytes:
        return _packed_number(element_type, int(number))

    @cache
    def packed_float(number: str) -> bytes:
        return _packed_number(element_type, float(number))

    if isinstance(element_type, IntegerType):
        nested = json.loads(text, parse_int=packed_int, parse_float=refuse)
        numbers, shape = flatten_sequence(nested, "list", "numbers")
        return b"".join(numbers), shape
    if not isinstance(element_type, AnyFloat):
        raise TypeError(f"no packed numbers of type '{element_type}'")
    is_native = isinstance(element_type, Float16Type | Float32Type | Float64Type)
    parse_float = float if is_native else packed_float
    nested = json.loads(text, parse_int=refuse, parse_float=parse_float)
    numbers, shape = flatten_sequence(nested, "list", "numbers")
    if text.count(".") != len(numbers):
        raise ValueError("a number without a decimal point")
    return element_type.pack(numbers) if is_native else b"".join(numbers), shape


def _packed_number(element_type: Any, number: float) -> bytes:
    type_ = TensorType(element_type, ())
    return DenseIntOrFPElementsAttr.from_list(type_, (number,)).data.data


def _contains(type_: AnyFloat, number_type: Attribute) -> bool:
    """Return True if `type_` represents all numbers of `number_type` exactly."""
    format_ = float_format(type_)
    if isinstance(number_type, IntegerType):
        return number_type.bitwidth <= format_.precision
    number_format = float_format(cast(AnyFloat, number_type))
    return (
        number_format.precision <= format_.precision
        and number_format.smallest >= format_.smallest
        and number_format.largest <= format_.largest
    )


BlockParameters: TypeAlias = "StoredNumbersAttr | Elements"
"""Constructor argument for scales, zero points or offsets."""


def _numbers_argument(value: object, name: str) -> StoredNumbersAttr:
    if isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr):
        return StoredNumbersAttr(cast(Elements, value))
    if not isinstance(value, StoredNumbersAttr):
        raise TypeError(
            f"{name} must be a StoredNumbersAttr or an elements attribute, not "
            f"{type_text(value)}"
        )
    return value


@irdl_attr_definition
class BlockScaledQuantizedType(StoredQuantizedType):
    """
    Block-scaled quantization: each block has a scale and, optionally, a zero point and an
    offset, stored in separate types: `expressed = (stored - zero_point) * scale + offset`.

    A dimension without a block size is not divided. The last block along a dimension may
    be shorter. Scales, zero points and offsets have one dimension per block size, in the
    same order. They may have a quantized type themselves, e.g. another block-scaled type
    for the super-blocks of GGUF's K-quants. Scales may be negative or zero.

    Casts compute in the first of the expressed type, f32 and f64 that exactly represents
    all stored values, zero points, their differences, scales and offsets. Each arithmetic
    operation rounds its result to this type.

    MLIR does not have this type.

    Example:

    ```mlir
    // Blocks of 32 elements along the second dimension, within one row.
    !quant.block_scaled<i4:f32:{0:1, 1:32}, scales = dense<0.5> : tensor<8x2xf16>>

    // With zero points and offsets. All rows share the scales.
    !quant.block_scaled<u4:f32:{1:32}, scales = dense<[1.0, -2.0]> : tensor<2xf16>,
      zero_points = dense<[7, 8]> : tensor<2xi4>, offsets = dense<0.25> : tensor<2xf16>>

    // 6-bit scales in super-blocks of eight, each with an f16 scale.
    !quant.block_scaled<u4:f32:{0:32}, scales = dense<3> : tensor<16xi6>
      as !quant.block_scaled<u6:f32:{0:8}, scales = dense<0.5> : tensor<2xf16>>>
    ```
    """

    name = "quant.block_scaled"

    expressed_type: AnyFloat

    quantized_dimensions: DenseArrayBase[I32]
    """The dimensions that are divided into blocks, in ascending order."""

    block_sizes: Ints

    scales: StoredNumbersAttr
    """A scale for each block."""

    zero_points: StoredNumbersAttr | NoneAttr
    """
    An integer or float zero point for each block. Signless integers are signed if the
    stored values are signed.
    """

    offsets: StoredNumbersAttr | NoneAttr
    """An offset for each block, added after multiplication by the scale."""

    def __init__(
        self,
        storage_type: StorageType,
        expressed_type: AnyFloat,
        scales: BlockParameters,
        *,
        block_sizes: Mapping[int, int],
        zero_points: BlockParameters | None = None,
        offsets: BlockParameters | None = None,
        **options: Unpack[StorageOptions],
    ):
        """
        Build a type.

        Raises:
            TypeError: if an argument is of the wrong type.
            VerifyException: if arguments are inconsistent.
        """
        sizes = dict(sorted(block_sizes.items()))
        optional = {"zero points": zero_points, "offsets": offsets}
        super().__init__(
            *common_arguments(storage_type, expressed_type, options, StorageType),
            DenseArrayBase.from_list(i32, vector([*sizes], "dimensions", INTEGERS)),
            ints_attr(vector([*sizes.values()], "block sizes", INTEGERS)),
            _numbers_argument(scales, "scales"),
            *(
                NoneAttr() if value is None else _numbers_argument(value, name)
                for name, value in optional.items()
            ),
        )

    # Accessors

    @property
    def block_size_info(self) -> tuple[tuple[int, int], ...]:
        """Pairs of a quantized dimension and its block size."""
        dimensions = self.quantized_dimensions.get_values()
        return tuple(zip(dimensions, self.block_sizes.get_values(), strict=True))

    def get_blocks(self) -> Mapping[int, tuple[int, int]]:
        """Return the number of blocks and the block size of each quantized dimension."""
        pairs = zip(self.block_size_info, self.scales.shape, strict=True)
        return {axis: (count, size) for (axis, size), count in pairs}

    def get_scales_shape(self) -> tuple[int, ...]:
        """Return the number of blocks along each quantized dimension."""
        return self.scales.shape

    @property
    def block_parameter_attrs(self) -> Mapping[str, StoredNumbersAttr]:
        """Scales and, if present, zero points and offsets, by constructor keyword."""
        numbers = {
            "scales": self.scales,
            "zero_points": self.zero_points,
            "offsets": self.offsets,
        }
        return {
            name: attr
            for name, attr in numbers.items()
            if isinstance(attr, StoredNumbersAttr)
        }

    def get_numbers(self) -> Mapping[str, Floats]:
        """
        Return scales and, if present, zero points and offsets, by constructor keyword. The
        shape of each array is `get_scales_shape()`.

        Raises:
            ValueError: if a resource is missing, damaged, or not finite.
        """
        return {
            name: attr.numbers(self.is_signed)
            for name, attr in self.block_parameter_attrs.items()
        }

    @property
    def compute_type(self) -> AnyFloat:
        """
        The type in which casts compute: the first of the expressed type, f32 and f64 that
        represents all operands exactly.
        """
        candidates = (self.expressed_type, f32, f64)
        return next(filter(self._holds_numbers, candidates), f64)

    def _holds_numbers(self, type_: AnyFloat) -> bool:
        # Most narrower types overflow to NaN instead of infinity.
        if type_.bitwidth < 16:
            return False
        numbers = {k: v.number_type for k, v in self.block_parameter_attrs.items()}
        if not all(_contains(type_, number_type) for number_type in numbers.values()):
            return False
        zero_point_type, bounds = numbers.get("zero_points"), (0, 0)
        if isinstance(zero_point_type, IntegerType):
            half = 1 << (zero_point_type.bitwidth - 1)
            bounds = (-half, half - 1) if self.is_signed else (0, 2 * half - 1)
        elif zero_point_type is not None and float_format(type_).precision < 24:
            # `stored - zero_point` needs more bits than the zero point.
            return False
        return float_properties(type_).is_wide_enough(self.represented_numbers, bounds)

    @property
    def element_quantized_type(self) -> UniformQuantizedType:
        """
        The type of the elements before scaling: scale 1, zero point 0, and `compute_type`
        as expressed type. MLIR cannot parse this type if MLIR lacks the storage type.
        """
        _, *storage = self.common_parameters
        return UniformQuantizedType.new(
            (self.compute_type, *storage, IntAttr(0), FloatData(1.0))
        )

    # Verification

    def verify(self) -> None:
        super().verify()
        axes = self.quantized_dimensions.get_values()
        verify_blocks(axes, self.block_sizes.get_values())
        if any(a >= b for a, b in pairwise(axes)):
            raise VerifyException(
                "quantized dimensions must be in ascending order, but got "
                f"{', '.join(map(str, axes))}"
            )
        shape = self.get_scales_shape()
        if len(shape) != len(axes):
            raise VerifyException(
                f"scales must have a dimension for each of the {len(axes)} block sizes, "
                f"but got '{self.scales.type}'"
            )
        for name, numbers in self.block_parameter_attrs.items():
            if numbers.shape != shape:
                raise VerifyException(
                    f"{name} must have the shape of scales, '{self.scales.type}', but got "
                    f"'{numbers.type}'"
                )
            if name != "zero_points" and isinstance(numbers.number_type, IntegerType):
                raise VerifyException(
                    f"{name} must be floats, or stored values followed by 'as' and a "
                    f"quantized type, but got '{numbers.type}'"
                )
            if name != "scales" and numbers.has_nan_exponent:
                raise VerifyException(f"{name} must be finite, but one is nan")

    def verify_container(self, container: Attribute) -> None:
        if isinstance(container, UnrankedTensorType):
            return
        if not isinstance(container, TensorType):
            if self.get_blocks():
                raise VerifyException(
                    "scalar types may not use block scales along a dimension"
                )
            return
        shape = container.get_shape()
        for axis, (count, size) in self.get_blocks().items():
            if axis >= len(shape):
                raise VerifyException(
                    f"quantized dimension {axis} must be less than tensor rank "
                    f"{len(shape)}"
                )
            blocks = -(-shape[axis] // size)
            if shape[axis] != DYNAMIC_INDEX and (blocks != count or not blocks):
                raise VerifyException(
                    f"number of scales along axis {axis} must be {blocks} (size "
                    f"{shape[axis]} in blocks of {size}), but got {count}"
                )

    # Text

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        syntax = BlockScaledSyntax(parser, cls.name)
        return syntax.parse(syntax.parameters, cls.new)

    def print_parameters(self, printer: Printer) -> None:
        # Print attributes with the printer, which collects their resources.
        blocks = ", ".join(f"{axis}:{size}" for axis, size in self.block_size_info)
        printer.print_string(f"<{self.storage_text}:{self.expressed_type}:{{{blocks}}}")
        for name, numbers in self.block_parameter_attrs.items():
            printer.print_string(f", {name} = ")
            numbers.print_numbers(printer)
        printer.print_string(">")

    def text(self) -> str:
        stream = StringIO()
        self.print_parameters(Printer(stream))
        return stream.getvalue()

    def description(self) -> Iterator[tuple[str, object]]:
        yield from super().description()
        text = block_counts_text(self.get_scales_shape(), self.block_size_info)
        yield "blocks", text or "one"
        for name, numbers in self.block_parameter_attrs.items():
            noun, type_ = name.replace("_", " "), numbers.quantized_type
            stored = numbers.element_type
            yield f"type of {noun}", str(stored)
            if not isinstance(type_, NoneAttr):
                yield f"{noun} stored as", type_text(type_)
            yield noun, _described_numbers(numbers, self.is_signed)


def _described_numbers(numbers: StoredNumbersAttr, is_signed: bool) -> object:
    try:
        values = numbers.numbers(is_signed)
    except ValueError as e:
        return str(e)
    return array("d", values.tobytes())
