"""
The syntax of block-scaled types, with the nonterminals of
[`type_syntax`][xdsl_quant.dialects.quant.type_syntax].

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
import re
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, NoReturn, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    NoneAttr,
    TensorType,
    i32,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import ParseError, VerifyException

from .constructor_arguments import flattened, ints_attr
from .storage_types import StorageType
from .stored_numbers import StoredNumbersAttr
from .type_syntax import TypeSyntax
from .types import StoredQuantizedType

_OPTIONAL = ("zero_points", "offsets")

_DENSE_LIST = re.compile(
    r"dense\s*<\s*(?P<numbers>\[[-+0-9.eE,\[\]\s]*+)>\s*:", re.ASCII
)
"""A list of numbers up to the place of its type."""


class BlockScaledSyntax(TypeSyntax):
    """One block-scaled type that is being parsed."""

    STORAGE_TYPES: ClassVar = StorageType

    def parameters(self) -> Sequence[Attribute]:
        """Parse the parameters of a `!quant.block_scaled` type."""
        _, common = self._storage_and_expressed_type()
        self._expect(":")
        dimensions, block_sizes = self._blocks()
        self._expect(",")
        self._expect("scales")
        numbers: dict[str, Attribute] = {"scales": self._numbers()}
        rest = [*_OPTIONAL]
        while self._optional(","):
            if (name := next(filter(self._optional, rest), None)) is None:
                expected = " or ".join(map(repr, rest)) or "'>'"
                self.parser.raise_error(f"expected {expected}")
            numbers[name] = self._numbers()
            rest.remove(name)
        for name in _OPTIONAL:
            numbers.setdefault(name, NoneAttr())
        return (
            *common,
            DenseArrayBase.from_list(i32, dimensions),
            ints_attr(block_sizes),
            *(numbers[name] for name in ("scales", *_OPTIONAL)),
        )

    def _numbers(self) -> StoredNumbersAttr:
        self._expect("=")
        start = self.parser.pos
        try:
            if (elements := self._plain_elements()) is None:
                elements = self.parser.parse_attribute()
        except (NotImplementedError, OverflowError, ValueError):
            # xDSL reports a number that its type does not have like this.
            self.parser.raise_error(
                "expected numbers that their type can represent", start, self.parser.pos
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
        A `dense` list of plain decimal numbers, without a look at each token.
        `None`, with nothing consumed, if there is anything else or anything wrong.
        """
        start = self.parser.pos
        if (match := _DENSE_LIST.match(self.content, start)) is None:
            return None
        self._resume_from(match.end())
        try:
            type_ = self.parser._parse_dense_literal_type()  # pyright: ignore[reportPrivateUsage] no public way
            data, shape = _read_packed(match["numbers"], type_.element_type)
        except (ParseError, *_NOT_PLAIN):
            pass
        else:
            if shape == type_.get_shape():
                return DenseIntOrFPElementsAttr(type_, BytesAttr(data))
        self._resume_from(start)
        return None


_NOT_PLAIN = (
    NotImplementedError,
    OverflowError,
    RecursionError,
    struct.error,
    TypeError,
    ValueError,
    VerifyException,
)
"""What `_read_packed` raises if a text is not surely a list of plain numbers of a type."""


def _read_packed(text: str, element_type: Attribute) -> tuple[bytes, tuple[int, ...]]:
    """
    The bytes of a nested list of numbers, and its shape. Numbers of JSON are numbers of
    MLIR, too.

    There is no Python code per number, but one per text of a number: a narrow type has few.

    Raises:
        Exception: one of `_NOT_PLAIN`.
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
        numbers, shape = flattened(nested, "list", "numbers")
        return b"".join(numbers), shape
    if not isinstance(element_type, AnyFloat):
        raise TypeError(f"no packed numbers of type '{element_type}'")
    is_native = isinstance(element_type, Float16Type | Float32Type | Float64Type)
    parse_float = float if is_native else packed_float
    nested = json.loads(text, parse_int=refuse, parse_float=parse_float)
    numbers, shape = flattened(nested, "list", "numbers")
    if text.count(".") != len(numbers):
        raise ValueError("a number without a decimal point")
    return element_type.pack(numbers) if is_native else b"".join(numbers), shape


def _packed_number(element_type: Any, number: float) -> bytes:
    """The bytes of one number."""
    type_ = TensorType(element_type, ())
    return DenseIntOrFPElementsAttr.from_list(type_, (number,)).data.data
