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

from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    NoneAttr,
    i32,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from .block_scaled_type import BlockScaledQuantizedType, StoredNumbersAttr
from .storage_types import StorageType
from .type_syntax import TypeSyntax
from .types import StoredQuantizedType, ints_attr

_OPTIONAL = ("zero_points", "offsets")


class BlockScaledSyntax(TypeSyntax):
    """One block-scaled type that is being parsed."""

    STORAGE_TYPES: ClassVar = StorageType

    def body(self) -> BlockScaledQuantizedType:
        self._expect("<")
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
        self._expect(">")
        for name in _OPTIONAL:
            numbers.setdefault(name, NoneAttr())
        return BlockScaledQuantizedType.new(
            (
                *common,
                DenseArrayBase.from_list(i32, dimensions),
                ints_attr(block_sizes),
                *(numbers[name] for name in ("scales", *_OPTIONAL)),
            )
        )

    def _numbers(self) -> StoredNumbersAttr:
        self._expect("=")
        start = self.parser.pos
        try:
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
