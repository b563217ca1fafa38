"""The numbers of blocks as they are stored: a part of block-scaled types."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    Float8E8M0FNUType,
    Float80Type,
    Float128Type,
    FloatTF32Type,
    IntegerType,
    NoneAttr,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.xdsl_patches.resources import resource_data

from .constructor_arguments import type_text
from .float_formats import MANY
from .storage_types import MAX_STORAGE_BITS
from .types import AnyQuantizedType, StoredQuantizedType, numeric

if TYPE_CHECKING:
    from xdsl_quant.numerics.arrays import Array, Floats


Elements: TypeAlias = DenseIntOrFPElementsAttr | DenseResourceAttr
"""The bytes of numbers, or the name of a resource with these bytes."""


@irdl_attr_definition
class StoredNumbersAttr(ParametrizedAttribute):
    """
    A tensor of numbers, one for each block: floats, integers, or stored values of a
    quantized type, which stand for their expressed values.

    It has no syntax of its own: it is a part of
    [`BlockScaledQuantizedType`][xdsl_quant.dialects.quant.BlockScaledQuantizedType].
    """

    name = "quant.stored_numbers"

    elements: DenseIntOrFPElementsAttr | DenseResourceAttr

    quantized_type: StoredQuantizedType | NoneAttr
    """The quantized type of stored values; none if the elements are the numbers."""

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
        The numbers of an array.

        Args:
            array: floats, integers, or their bits; the elements have the size of
                `element_type` in bytes.
            element_type: the type of an element.
            quantized_type: the quantized type of stored values.

        Raises:
            VerifyException: if the elements have another size in bytes.
        """
        size = element_type.compile_time_size
        if array.itemsize != size:
            raise VerifyException(
                f"an element of type '{element_type}' has {size} bytes, but one of the "
                f"array has {array.itemsize}"
            )
        type_ = TensorType(element_type, array.shape)
        data = BytesAttr(numeric().element_bytes(array, element_type))
        elements = DenseIntOrFPElementsAttr(type_, data)
        return StoredNumbersAttr(elements, quantized_type)

    @property
    def type(self) -> TensorType[Attribute]:
        """The type of the elements."""
        return cast("TensorType[Attribute]", self.elements.type)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.get_shape()

    @property
    def element_type(self) -> AnyFloat | IntegerType:
        """The type of stored elements."""
        return cast("AnyFloat | IntegerType", self.type.element_type)

    @property
    def number_type(self) -> AnyFloat | IntegerType:
        """The type of the numbers that the elements stand for."""
        if isinstance(self.quantized_type, NoneAttr):
            return self.element_type
        return cast(AnyFloat, self.quantized_type.expressed_type)

    @property
    def has_nan_exponent(self) -> bool:
        """Whether one of the elements, unless these are in a resource, is the NaN of MX."""
        return (
            isinstance(self.element_type, Float8E8M0FNUType)
            and isinstance(self.elements, DenseIntOrFPElementsAttr)
            and 0xFF in self.elements.data.data
        )

    def data(self) -> bytes:
        """
        The bytes of the elements, in row-major order.

        Raises:
            ValueError: if they are in a resource that is missing or damaged.
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
            raise ValueError(f"resource '{name}' is missing")
        if len(data) != (needed := math.prod(self.shape) * size):
            raise ValueError(
                f"resource '{name}' has {len(data)} bytes, but {self.type} has {needed}"
            )
        return data

    # Verification

    def verify(self) -> None:
        type_ = self.elements.type
        if not isinstance(type_, TensorType) or DYNAMIC_INDEX in type_.get_shape():
            raise VerifyException(
                f"block parameters must be a tensor of static shape, but got '{type_}'"
            )
        if not math.prod(type_.get_shape()):
            raise VerifyException(f"there are no block parameters in '{type_}'")
        if isinstance(self.quantized_type, NoneAttr):
            self._verify_numbers()
        else:
            self._verify_stored(self.quantized_type)

    def _verify_numbers(self) -> None:
        element_type = cast(Attribute, self.element_type)
        if isinstance(element_type, IntegerType):
            width = element_type.bitwidth
            if not 1 < width <= MAX_STORAGE_BITS:
                raise VerifyException(f"illegal size of block parameters: {width}")
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
            # It has no infinities. NaN is the scale of a block of NaNs, and nothing else.
            return
        if len(elements) < MANY:
            numbers = cast(Iterable[float], elements.iter_values())
            wrong = next((x for x in numbers if not math.isfinite(x)), None)
        else:
            wrong = numeric().first_not_finite(self.numbers(is_signed=True))
        if wrong is not None:
            raise VerifyException(
                f"block parameters must be finite, but one is {wrong}"
            )

    def _verify_stored(self, quantized_type: StoredQuantizedType) -> None:
        if isinstance(quantized_type, AnyQuantizedType):
            raise VerifyException(
                f"block parameters are stored as '{quantized_type}', which has no scale"
            )
        if self.element_type != quantized_type.stored_type:
            raise VerifyException(
                f"block parameters have type '{self.element_type}', but those of "
                f"'{type_text(quantized_type)}' are stored as "
                f"'{quantized_type.stored_type}'"
            )
        quantized_type.verify_container(TensorType(quantized_type, self.shape))

    # Values

    def codes(self, is_signed: bool) -> Array:
        """
        The elements as a read-only array of integers, of floats that NumPy has, or of the
        bits of other floats as unsigned integers.

        Args:
            is_signed: whether signless integers are signed.

        Raises:
            ValueError: if they are in a resource that is missing or damaged.
        """
        codes = numeric().stored_codes(self.data(), self.element_type, is_signed)
        return codes.reshape(self.shape)

    def numbers(self, is_signed: bool) -> Floats:
        """
        The numbers in f64, which represents all of them exactly.

        Args:
            is_signed: whether signless integers are signed, unless they are stored values
                of a quantized type.

        Raises:
            ValueError: if they are in a resource that is missing or damaged, or has
                infinities or NaN.
        """
        if not isinstance(self.quantized_type, NoneAttr):
            codes = self.codes(self.quantized_type.is_signed)
            return numeric().dequantized_codes(codes, self.quantized_type)
        numbers = numeric().numbers_of_codes(self.codes(is_signed), self.element_type)
        self._check_resource(numbers)
        return numbers

    def _check_resource(self, numbers: Floats) -> None:
        """Raise a `ValueError` for a resource with numbers that `verify` refuses."""
        elements = self.elements
        if isinstance(elements, DenseIntOrFPElementsAttr) or isinstance(
            self.element_type, Float8E8M0FNUType
        ):
            return
        if (wrong := numeric().first_not_finite(numbers)) is not None:
            raise ValueError(
                f"block parameters must be finite, but one of resource "
                f"'{elements.resource_handle.data}' is {wrong}"
            )

    def print_numbers(self, printer: Printer) -> None:
        """Print the elements and, after `as`, the quantized type of stored values."""
        printer.print_attribute(self.elements)
        if not isinstance(self.quantized_type, NoneAttr):
            printer.print_string(" as ")
            printer.print_attribute(self.quantized_type)
