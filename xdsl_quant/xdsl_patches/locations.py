"""Patches of the parser of locations."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile

from xdsl.context import Context
from xdsl.dialects.builtin import FileLineColLoc, FusedLoc, LocationAttr
from xdsl.ir import Attribute
from xdsl.parser import AttrParser, Parser
from xdsl.utils.exceptions import ParseError
from xdsl.utils.mlir_lexer import MLIRTokenKind

_DEFINITION = re.compile(
    r'"(?:[^"\\\n]++|\\.)*+"|//[^\n]*+|([#!](?:\d++|[a-zA-Z$._-][\w$.-]*+))\s*+=(?!=)'
)
"""A string, a comment, or the start of an alias definition with the name as group."""


def _is_refused(location: str) -> bool:
    try:
        Parser(Context(), location).parse_optional_location()
    except ParseError:
        return True
    return False


def read_ranges_and_metadata_of_locations() -> None:
    """
    Read `loc("a":1:2 to 3:4)` as its start, and the metadata of `loc(fused<"m">["a"])`.

    MLIR: keeps ranges; prints metadata like xDSL, which does not read it.
    Obsolete with: `docs/upstream/location-ranges.md`.
    """
    if not _is_refused('loc(fused<"m">["a":1:2 to :3])'):
        return

    parse_location = AttrParser._parse_location  # pyright: ignore[reportPrivateUsage] no public way

    def parse_range_or_metadata(self: AttrParser) -> LocationAttr:
        if (fused := _parse_optional_fused_metadata(self)) is not None:
            return fused
        location = parse_location(self)
        if isinstance(location, FileLineColLoc) and self.parse_optional_keyword("to"):
            self.parse_optional_integer(allow_boolean=False, allow_negative=False)
            self.parse_punctuation(":")
            self.parse_integer(allow_boolean=False, allow_negative=False)
        return location

    AttrParser._parse_location = parse_range_or_metadata  # pyright: ignore[reportPrivateUsage] no public way


def _parse_optional_fused_metadata(parser: AttrParser) -> FusedLoc | None:
    start = parser.pos
    if parser.parse_optional_keyword("fused") is None:
        return None
    if parser.parse_optional_punctuation("<") is None:
        parser._resume_from(start)  # pyright: ignore[reportPrivateUsage] no public way
        return None
    metadata = parser.parse_attribute()
    parser.parse_punctuation(">")
    locations = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE,
        parser._parse_location,  # pyright: ignore[reportPrivateUsage] no public way
    )
    return FusedLoc(tuple(locations), metadata)


@dataclass
class _AliasDefinitions:
    """The alias definitions in the text of a parser."""

    text: str

    open_locations: int = 0
    """Number of nested locations that the parser is reading."""

    attributes: dict[str, Attribute] = field(default_factory=dict[str, Attribute])

    @staticmethod
    def of(parser: AttrParser) -> "_AliasDefinitions":
        if (definitions := vars(parser).get("_alias_definitions")) is None:
            definitions = _AliasDefinitions(parser.lexer.input.content)
            vars(parser)["_alias_definitions"] = definitions
        return definitions

    @cached_property
    def starts(self) -> dict[str, int]:
        """Offset of the definition of each alias that has not been read in advance."""
        matches = _DEFINITION.finditer(self.text)
        return {match[1]: match.end() for match in matches if match[1]}

    def read(self, parser: AttrParser, alias: str) -> Attribute | None:
        """
        Parse the definition of an alias and continue after the alias. Return `None` for
        aliases without definition and for aliases that contain themselves.
        """
        if alias in self.starts:
            position = parser.pos
            for name in (*self._locations_before(alias), alias):
                # Another definition may have used this one.
                if (start := self.starts.pop(name, None)) is not None:
                    parser._resume_from(start)  # pyright: ignore[reportPrivateUsage] no public way
                    self.attributes[name] = parser.parse_attribute()
            parser._resume_from(position)  # pyright: ignore[reportPrivateUsage] no public way
        return self.attributes.get(alias)

    def _locations_before(self, alias: str) -> Sequence[str]:
        """
        Return the locations that are defined before an alias, which may use them; reading
        them first avoids deep recursion.
        """
        earlier = takewhile(lambda item: item[0] != alias, self.starts.items())
        return [name for name, end in earlier if self.text.startswith(" loc(", end)]


def read_location_aliases_before_definition() -> None:
    """
    Read aliases that a location uses before their definition. Printed with debug
    information, a module uses aliases that are defined at its end.

    MLIR: resolves the locations of ops and arguments at the end.
    Obsolete with: `docs/upstream/location-aliases.md`.
    """
    if not _is_refused('loc(#loc) #loc = loc("a")'):
        return

    parse_location = AttrParser._parse_location  # pyright: ignore[reportPrivateUsage] no public way
    parse_symbol = AttrParser._parse_extended_type_or_attribute  # pyright: ignore[reportPrivateUsage] no public way

    def parse_open_location(self: AttrParser) -> LocationAttr:
        definitions = _AliasDefinitions.of(self)
        definitions.open_locations += 1
        try:
            return parse_location(self)
        finally:
            definitions.open_locations -= 1

    def parse_alias_or_symbol(
        self: AttrParser, attr_or_dialect_name: str, is_type: bool
    ) -> Attribute:
        if (
            "." not in attr_or_dialect_name
            and (definitions := _AliasDefinitions.of(self)).open_locations
            and (alias := f"{'!' if is_type else '#'}{attr_or_dialect_name}")
            not in self.attribute_aliases
            and self._current_token.kind is not MLIRTokenKind.LESS  # pyright: ignore[reportPrivateUsage] no public way
            and (attribute := definitions.read(self, alias)) is not None
        ):
            return attribute
        return parse_symbol(self, attr_or_dialect_name, is_type)

    AttrParser._parse_location = parse_open_location  # pyright: ignore[reportPrivateUsage] no public way
    AttrParser._parse_extended_type_or_attribute = parse_alias_or_symbol  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue] it has overloads
