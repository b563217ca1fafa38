"""
The text of quantized types whose scales are integers.

```
fixed-point ::= `fixed_point` `<` storage `:` float-type `,` element `>`
              | `fixed_point` `<` storage `:` float-type `:` int `,` list `>`
list        ::= `{` element (`,` element)* `}`
element     ::= multiplier `p-` shift (`:` zero-point)?
```

`multiplier`, `shift` and `zero-point` are decimal integers. `p` is that of hexadecimal
floats: `12p-3` is 12 times 2 to the power of -3. `storage` is that of
[`type_syntax`][xdsl_quant.dialects.quant.type_syntax].
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import AnyFloat, IntAttr
from xdsl.ir import Attribute
from xdsl.utils.mlir_lexer import MLIRTokenKind

from .fixed_point_types import (
    FixedPointQuantizedPerAxisType,
    FixedPointQuantizedType,
    FixedPointType,
    multipliers_attr,
    shifts_attr,
)
from .type_syntax import TypeSyntax
from .types import ints_attr, zero_array

Elements: TypeAlias = "tuple[array[int], array[int], array[int]]"
"""Multipliers, shifts and zero points."""


class FixedPointSyntax(TypeSyntax):
    """One `!quant.fixed_point` that is being parsed."""

    def body(self) -> FixedPointType:
        self._expect("<")
        storage = self._storage()
        self._expect(":")
        expressed_type = self._float_type()
        if self._optional(":"):
            return self._per_axis(expressed_type, storage)
        self._expect(",")
        multiplier, shift, zero_point = self._element()
        self._expect(">")
        return FixedPointQuantizedType.new(
            (
                expressed_type,
                *storage,
                IntAttr(zero_point),
                IntAttr(multiplier),
                IntAttr(shift),
            )
        )

    def _per_axis(
        self, expressed_type: AnyFloat, storage: Sequence[Attribute]
    ) -> FixedPointQuantizedPerAxisType:
        dimension = self._integer(32)
        self._expect(",")
        multipliers, shifts, zero_points = self._plain_elements() or self._elements()
        self._expect(">")
        return FixedPointQuantizedPerAxisType.new(
            (
                expressed_type,
                *storage,
                ints_attr(zero_points),
                IntAttr(dimension),
                multipliers_attr(multipliers),
                shifts_attr(shifts),
            )
        )

    def _element(self) -> tuple[int, int, int]:
        if self._token.kind is MLIRTokenKind.FLOAT_LIT:
            self.parser.raise_error(
                "expected an integer times a power of two, e.g. '1610612736p-38', but got "
                f"'{self._token.text}'"
            )
        multiplier = self._integer()
        # The lexer takes the letter and what follows it for one name.
        if self._token.text != "p":
            self._wrong_token(
                "expected 'p-' and a shift after the multiplier, e.g. '1610612736p-38'"
            )
        self._next()
        self._expect("-")
        shift = self._integer()
        return multiplier, shift, self._integer() if self._optional(":") else 0

    def _elements(self) -> Elements:
        multipliers, shifts, zero_points = array("q"), array("q"), array("q")
        self._expect("{")
        while True:
            multiplier, shift, zero_point = self._element()
            multipliers.append(multiplier)
            shifts.append(shift)
            zero_points.append(zero_point)
            if not self._optional(","):
                self._expect("}")
                return multipliers, shifts, zero_points

    def _plain_elements(self) -> Elements | None:
        """
        The same without a look at each token. `None`, with nothing consumed, if there is
        anything wrong, or anything but decimal numbers.
        """
        start = self.parser.pos
        if (match := _PLAIN_LIST.match(self.content, start)) is None:
            return None
        try:
            elements = _read_elements(match[1])
        except (ValueError, OverflowError):
            return None
        self.parser._resume_from(match.end())  # pyright: ignore[reportPrivateUsage] no public way
        return elements


_ELEMENT = r"[0-9]++p-[0-9]++(?::-?[0-9]++)?+"
_PLAIN_LIST = re.compile(rf"\{{({_ELEMENT}(?:, ?{_ELEMENT})*+)\}}")
"""Possessive: nothing is kept to go back to, and a list may have a million elements."""

_NO_ZERO_POINT = re.compile(r"(?:(?<=p-[0-9])|(?<=p-[0-9][0-9]))(?=,|$)")
"""The place for it. There is nothing to copy: that would run Python for each of them."""


def _read_elements(text: str) -> Elements:
    """
    Read the elements of a list.

    Raises:
        ValueError: if a number begins with zeros, or has too many digits.
        OverflowError: if one does not fit 64 bits.
    """
    if ":" not in text:
        numbers = json.loads(f"[{text.replace('p-', ',')}]")
        multipliers, shifts = array("q", numbers[::2]), array("q", numbers[1::2])
        return multipliers, shifts, zero_array(len(shifts))
    text = _NO_ZERO_POINT.sub(":0", text)
    if text.count(":") != text.count("p"):
        raise ValueError("a shift has more than two digits")
    numbers = json.loads(f"[{text.replace('p-', ',').replace(':', ',')}]")
    multipliers, shifts, zero_points = (array("q", numbers[i::3]) for i in range(3))
    return multipliers, shifts, zero_points
