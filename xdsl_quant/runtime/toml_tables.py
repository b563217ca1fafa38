"""Tables of TOML files that know where in the text their values are."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

_Path: TypeAlias = "tuple[str | int, ...]"
"""Keys and indices that lead to a value in a file."""

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"\s*[\"']?([\w-]+)[\"']?\s*=")


class TomlError(ValueError):
    """A mistake in a TOML file, explained in one line."""


@dataclass(frozen=True)
class TomlFile:
    """A text in TOML, whose parser does not tell where values are."""

    text: str
    name: str

    error: type[TomlError] = TomlError
    """What is raised if something is wrong."""

    @staticmethod
    def read(path: Path, error: type[TomlError] = TomlError) -> TomlFile:
        """
        Return the text of a file.

        Raises:
            TomlError: if it cannot be read, or is no text.
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
        Return the whole file.

        Raises:
            TomlError: if the text is no TOML.
        """
        try:
            return TomlTable(self, (), tomllib.loads(self.text))
        except tomllib.TOMLDecodeError as e:
            reason, _, place = str(e).rstrip(")").partition(" (at ")
        found = re.match(r"line (\d+), column (\d+)", place)
        line = found[1] if found else str(self.text.count("\n") + 1)
        column = f":{found[2]}" if found else ""
        raise self.error(
            f"{self.name}:{line}{column}: error: expected TOML, found "
            f"{reason[:1].lower()}{reason[1:]}; see https://toml.io"
        ) from None

    def line(self, path: _Path, found: str | None = None) -> int:
        """
        Return the line of a value, or of the key or the table that has it.

        Args:
            path: where the value is.
            found: a string in it, if the line of that is looked for.
        """
        while path not in self._starts:
            path = path[:-1]
        first = self._starts[path]
        if found is None:
            return first
        lines = self.text.splitlines()
        later = (number for number in self._starts.values() if number > first)
        if not path or isinstance(path[-1], int):
            # All of a table.
            later = iter(())
        for number in range(first, min(later, default=len(lines) + 1)):
            if re.search(f"[\"']{re.escape(found)}[\"']", lines[number - 1]):
                return number
        return first

    @cached_property
    def _starts(self) -> Mapping[_Path, int]:
        """The lines of headers and keys."""
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
    """A table, and where it is. All methods raise `TomlError` if a value is wrong."""

    file: TomlFile
    path: _Path
    values: Mapping[str, Any]

    found: str | None = None
    """A string in it, if `path` is that of several inline tables."""

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def location(self, key: str | None = None, found: str | None = None) -> str:
        """
        Where the table is, e.g. `my.toml:3`.

        Args:
            key: one of its keys, if that is looked for.
            found: a string in its value, if that is looked for.
        """
        path = self.path if key is None else (*self.path, key)
        return f"{self.file.name}:{self.file.line(path, found or self.found)}"

    def fail(
        self, message: str, key: str | None = None, found: str | None = None
    ) -> NoReturn:
        """
        Say what is wrong, with its location.

        Args:
            message: what is wrong, what was found, what to do.
            key: the key that is wrong, if it is one.
            found: the string that is wrong, if it is one of several.
        """
        # A text in the message may have several lines.
        sentence = " ".join(message.split())
        raise self.file.error(f"{self.location(key, found)}: error: {sentence}")

    def check_keys(self, known: Sequence[str], owner: str) -> None:
        """Check that there are no other keys than these."""
        for key in self.values:
            if key in known:
                continue
            close = get_close_matches(key, known, 1, 0.5)
            remedy = f"use '{close[0]}'" if close else f"use one of {quoted(known)}"
            self.fail(f"unknown key, found '{key}' in {owner}; {remedy}", key)

    def text(self, key: str) -> str | None:
        """Return a string; `None` if there is no such key."""
        if key not in self:
            return None
        return self._value(key, str, "a string")

    def texts(self, key: str) -> Sequence[str]:
        """Return an array of strings; it is empty if there is no such key."""
        return self._items(key, str, "an array of strings", "a string in its place")

    def array(self, key: str) -> Sequence[Any]:
        """Return an array; it is empty if there is no such key."""
        return self._items(key, object, "an array", "")

    def tables(self, key: str) -> Sequence[TomlTable]:
        """Return an array of tables; it is empty if there is no such key."""
        words = (
            f"tables with the header [[{'.'.join(map(str, (*self.path[::2], key)))}]]"
        )
        return [
            TomlTable(self.file, (*self.path, key, index), values)
            for index, values in enumerate(self._items(key, dict, words, words))
        ]

    def table(self, key: str) -> TomlTable:
        """Return the table of a key."""
        values = self._value(key, dict, f"a table with the header [{key}]")
        return TomlTable(self.file, (*self.path, key), values)

    def inline(self, key: str, values: Mapping[str, Any], found: str) -> TomlTable:
        """
        Return one of the inline tables in the array of a key: that which has a string.
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
    """What a value is, in a message."""
    if isinstance(value, dict):
        return "a table"
    return "an array" if isinstance(value, list) else toml_text(value)


def toml_text(value: object) -> str:
    """Return a value in a message."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)


def quoted(names: Sequence[str]) -> str:
    """Names in a message."""
    return ", ".join(f"'{name}'" for name in names)
