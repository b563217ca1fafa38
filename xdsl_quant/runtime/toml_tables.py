"""TOML tables that know the lines of their values, for error messages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from xdsl_quant.diagnostics import quoted

_Path: TypeAlias = "tuple[str | int, ...]"
"""Keys and indices that lead to a value in a file."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"\s*[\"']?([\w-]+)[\"']?\s*=")


class TomlError(ValueError):
    """Raised for an error in a TOML file; the message is one line with its location."""


@dataclass(frozen=True)
class TomlFile:
    """Text of a TOML file, with the lines of its keys."""

    text: str
    name: str

    error: type[TomlError] = TomlError

    @staticmethod
    def read(path: Path, error: type[TomlError] = TomlError) -> TomlFile:
        """
        Read a TOML file.

        Raises:
            TomlError: if the file cannot be read or is not UTF-8 text.
        """
        try:
            text = path.read_bytes().decode("utf-8-sig")
        except OSError as e:
            reason = (e.strerror or str(e)).lower()
            raise error(f"{path}: error: {reason}; use the path of a .toml file") from e
        except UnicodeDecodeError as e:
            raise error(
                f"{path}: error: expected UTF-8 text, found a binary file; use the path of "
                "a .toml file"
            ) from e
        return TomlFile(text, str(path), error)

    def table(self) -> TomlTable:
        """
        Return the root table.

        Raises:
            TomlError: if the text is not TOML.
        """
        try:
            return TomlTable(self, (), tomllib.loads(self.text))
        except tomllib.TOMLDecodeError as e:
            reason, _, place = str(e).rstrip(")").partition(" (at ")
        numbers = re.match(r"line (\d+), column (\d+)", place)
        line = numbers[1] if numbers else str(self.text.count("\n") + 1)
        column = f":{numbers[2]}" if numbers else ""
        raise self.error(
            f"{self.name}:{line}{column}: error: expected TOML, found "
            f"{reason[:1].lower()}{reason[1:]}; see https://toml.io"
        ) from None

    def line(self, path: _Path, found: str | None = None) -> int:
        """
        Return the line of a value, or of the nearest enclosing key or table.

        Args:
            path: keys and indices of the value.
            found: string in the value, to return the line of this string instead.
        """
        while path not in self._starts:
            path = path[:-1]
        first = self._starts[path]
        if found is None:
            return first
        lines = self.text.splitlines()
        later = (number for number in self._starts.values() if number > first)
        if not path or isinstance(path[-1], int):
            # Search to the end of the file: the value is a table, not a key.
            later = iter(())
        for number in range(first, min(later, default=len(lines) + 1)):
            if re.search(f"[\"']{re.escape(found)}[\"']", lines[number - 1]):
                return number
        return first

    @cached_property
    def _starts(self) -> Mapping[_Path, int]:
        """Line numbers of headers and keys."""
        starts: dict[_Path, int] = {(): 1}
        counts: dict[_Path, int] = {}
        table: _Path = ()
        for number, line in enumerate(self.text.splitlines(), 1):
            if header := _HEADER.match(line):
                table = _header_path(header[2], header[1] == "[[", counts)
                starts.setdefault(table, number)
            elif key := _KEY.match(line):
                starts.setdefault((*table, key[1]), number)
        return starts


def _header_path(name: str, is_array: bool, counts: dict[_Path, int]) -> _Path:
    path: _Path = ()
    *parents, last = (part.strip(" \"'") for part in name.split("."))
    for parent in parents:
        path = (*path, parent)
        if path in counts:
            path = (*path, counts[path])
    path = (*path, last)
    if not is_array:
        return path
    counts[path] = counts.get(path, -1) + 1
    return (*path, counts[path])


@dataclass(frozen=True)
class TomlTable:
    """A table with its location. All methods raise `TomlError` for wrong values."""

    file: TomlFile
    path: _Path
    values: Mapping[str, Any]

    found: str | None = None
    """String in an inline table, which locates it in the array at `path`."""

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def location(self, key: str | None = None, found: str | None = None) -> str:
        """
        Return the location of the table, e.g. `my.toml:3`.

        Args:
            key: key in the table, to return its location instead.
            found: string in the value, to return the location of this string instead.
        """
        path = self.path if key is None else (*self.path, key)
        return f"{self.file.name}:{self.file.line(path, found or self.found)}"

    def fail(
        self, message: str, key: str | None = None, found: str | None = None
    ) -> NoReturn:
        """
        Raise an error with its location.

        Args:
            message: problem, value found and remedy.
            key: the wrong key, if any.
            found: the wrong string in an array, if any.
        """
        # Strings from the file may contain line breaks.
        sentence = " ".join(message.split())
        raise self.file.error(f"{self.location(key, found)}: error: {sentence}")

    def check_keys(self, known: Sequence[str], owner: str) -> None:
        """Raise an error for unknown keys."""
        for key in self.values:
            if key in known:
                continue
            close = get_close_matches(key, known, 1, 0.5)
            remedy = f"use '{close[0]}'" if close else f"use one of {quoted(known)}"
            self.fail(f"unknown key, found '{key}' in {owner}; {remedy}", key)

    def text(self, key: str) -> str | None:
        """Return the string at a key; `None` if the key is missing."""
        if key not in self:
            return None
        return self._value(key, str, "a string")

    def texts(self, key: str) -> Sequence[str]:
        """Return the array of strings at a key; empty if the key is missing."""
        return self._items(key, str, "an array of strings", "a string in its place")

    def array(self, key: str) -> Sequence[Any]:
        """Return the array at a key; empty if the key is missing."""
        return self._items(key, object, "an array", "")

    def tables(self, key: str) -> Sequence[TomlTable]:
        """Return the array of tables at a key; empty if the key is missing."""
        words = (
            f"tables with the header [[{'.'.join(map(str, (*self.path[::2], key)))}]]"
        )
        return [
            TomlTable(self.file, (*self.path, key, index), values)
            for index, values in enumerate(self._items(key, dict, words, words))
        ]

    def table(self, key: str) -> TomlTable:
        """Return the table at a key."""
        values = self._value(key, dict, f"a table with the header [{key}]")
        return TomlTable(self.file, (*self.path, key), values)

    def inline(self, key: str, values: Mapping[str, Any], found: str) -> TomlTable:
        """
        Return a table in the array at `key`; messages locate it by the string `found`.
        """
        return TomlTable(self.file, (*self.path, key), values, found)

    def _value(self, key: str, kind: type, words: str) -> Any:
        value = self.values[key]
        if not isinstance(value, kind):
            self.fail(
                f"expected {words} for '{key}', found {toml_kind(value)}; write {words}",
                key,
            )
        return value

    def _items(self, key: str, kind: type, words: str, remedy: str) -> Sequence[Any]:
        items: list[Any] = self._value(key, list, words) if key in self else []
        for item in items:
            if not isinstance(item, kind):
                self.fail(
                    f"expected {words} for '{key}', found {toml_kind(item)} in it; write "
                    f"{remedy}",
                    key,
                )
        return items


def toml_kind(value: object) -> str:
    """Return the type of a value in TOML's words, for a message."""
    if isinstance(value, dict):
        return "a table"
    return "an array" if isinstance(value, list) else toml_text(value)


def toml_text(value: object) -> str:
    """Return a value as text for a message."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)
