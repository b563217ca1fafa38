"""
Descriptions of hardware targets in files: what a TOML file says becomes a
[`TargetSpec`][xdsl_quant.transforms.propagation.target_spec.TargetSpec].

Example:

```toml
description = "Multiplies and accumulates."

[[kernels]]
name = "matmul"
patterns = ["stablehlo.dot_general -> stablehlo.add?"]
inputs = ["i8", "const i8<-127:127>", "const i32"]
outputs = ["i8"]
constraints = ["coefficient-axis", { kind = "accumulator-scale", bias = 2 }]

[[kernels]]
ops = ["stablehlo.reshape", "stablehlo.transpose"]
inputs = ["any=i8"]
outputs = ["any=i8"]
```
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, cast

from xdsl.context import Context
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, PassFailedException, VerifyException

from xdsl_quant.dialects.quant import AnyQuantizedType, Quant
from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    AffineOpCoefficient,
    FixedResultUniformScale,
    SameOperandsAndResultsScale,
)

from .target_extensions import target_extensions
from .target_spec import (
    Constraint,
    KernelSpec,
    MatchFn,
    MultiplierUniformScale,
    OpPattern,
    PatternStep,
    Port,
    PowerOfTwoScale,
    RangeRule,
    Signature,
    TargetSpec,
)

CONSTRAINTS: Mapping[str, type[Any]] = {
    "accumulator-scale": AccumulatorUniformScale,
    "coefficient-axis": AffineOpCoefficient,
    "fixed-scale": FixedResultUniformScale,
    "multiplier-scale": MultiplierUniformScale,
    "power-of-two-scale": PowerOfTwoScale,
    "same-scale": SameOperandsAndResultsScale,
}
"""Constraints by their names in files; the fields of the classes are further keys."""

_RANGE_RULES: Sequence[RangeRule] = ("exact", "mlir", "tflite")
_SIGNATURE_KEYS = ("inputs", "outputs", "constraints")
_KERNEL_KEYS = ("name", "ops", "patterns", "signatures", *_SIGNATURE_KEYS)
_TARGET_KEYS = ("name", "description", "range-rule", "kernels")

_Path: TypeAlias = "tuple[str | int, ...]"
"""Keys and indices that lead to a value in a file."""

_Table: TypeAlias = "Mapping[str, Any]"

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"\s*[\"']?([\w-]+)[\"']?\s*=")
_PORT = re.compile(
    r"(?P<const>const )?(?:(?P<float>-|float)|(?P<any>any=)?"
    r"(?P<storage>(?:[su]?i|u)[0-9]+(?:<-?[0-9]+:-?[0-9]+>)?)(?::(?P<zero>-?[0-9]+))?)"
)
_OP_NAME = re.compile(r"\w+(\.\w+)+(\[\w+(\.\w+)+(,\w+(\.\w+)+)*\])?")


class TargetError(ValueError):
    """A mistake in the description of a target, explained in one line."""


def read_target(source: str | Path) -> TargetSpec:
    """
    The target of a file.

    Args:
        source: the path of a `.toml` file, or the name of a target that this package or a
            plugin has.

    Raises:
        TargetError: if the file cannot be read, is wrong, or there is no such target.
    """
    if isinstance(source, Path) or source.endswith(".toml"):
        return _read(Path(source))
    targets = target_extensions().targets
    if (path := targets.get(source)) is None:
        available = ", ".join(f"'{name}'" for name in sorted(targets))
        raise TargetError(
            f"unknown target '{source}', available: {available}; use one of them, or the "
            "path of a .toml file"
        )
    return _read(Path(path()))


def target_of_option(text: str) -> TargetSpec:
    """
    The target that the option of a pass names.

    Raises:
        PassFailedException: if there is no such target, or its file is wrong.
    """
    try:
        return read_target(text)
    except TargetError as e:
        raise PassFailedException(str(e)) from None


def _read(path: Path) -> TargetSpec:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as e:
        reason = (e.strerror or str(e)).lower()
        raise TargetError(
            f"{path}: error: {reason}; use the path of a .toml file"
        ) from e
    except UnicodeDecodeError as e:
        raise TargetError(
            f"{path}: error: expected UTF-8 text, found a binary file; use the path of a "
            ".toml file"
        ) from e
    return parse_target(text, str(path), path.stem)


def parse_target(
    text: str, file_name: str = "target.toml", name: str = "target"
) -> TargetSpec:
    """
    The target that a text in TOML describes.

    Args:
        text: what a file contains.
        file_name: what to call the text in messages.
        name: the name of the target, unless the text says it.

    Raises:
        TargetError: if the text is wrong.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise _toml_error(text, file_name, str(e)) from None
    return _Reader(text, file_name).target(table, name)


def _toml_error(text: str, file_name: str, message: str) -> TargetError:
    reason, _, place = message.rstrip(")").partition(" (at ")
    found = re.match(r"line (\d+), column (\d+)", place)
    line = found[1] if found else str(text.count("\n") + 1)
    column = f":{found[2]}" if found else ""
    return TargetError(
        f"{file_name}:{line}{column}: error: expected TOML, found {_lower(reason)}; see "
        "https://toml.io"
    )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


class _Lines:
    """Where in a text the values are that TOML has, whose parser does not tell."""

    def __init__(self, text: str):
        self.lines = text.splitlines()
        self.starts: dict[_Path, int] = {(): 1}
        counts: dict[_Path, int] = {}
        table: _Path = ()
        for number, line in enumerate(self.lines, 1):
            if header := _HEADER.match(line):
                table = self._table(header[2], header[1] == "[[", counts)
                self.starts.setdefault(table, number)
            elif key := _KEY.match(line):
                self.starts.setdefault((*table, key[1]), number)

    @staticmethod
    def _table(name: str, is_array: bool, counts: dict[_Path, int]) -> _Path:
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

    def line(self, path: _Path, found: str | None) -> int:
        """The line of a value, or of the key or the table that has it."""
        known = path
        while known not in self.starts:
            known = known[:-1]
        first = self.starts[known]
        if found is None:
            return first
        later = (number for number in self.starts.values() if number > first)
        if not isinstance(known[-1] if known else "", str):
            # All of a table.
            later = iter(())
        for number in range(first, min(later, default=len(self.lines) + 1)):
            if re.search(f"[\"']{re.escape(found)}[\"']", self.lines[number - 1]):
                return number
        return first


class _Reader:
    """Makes a target of the tables of a file."""

    def __init__(self, text: str, file_name: str):
        self.text = text
        self.file_name = file_name

    def fail(self, path: _Path, message: str, found: str | None = None) -> NoReturn:
        """
        Args:
            path: where the mistake is.
            message: what is wrong, what was found, what to do.
            found: a text that is wrong, if it is one of several.
        """
        line = _Lines(self.text).line(path, found)
        # A text in the message may have several lines.
        sentence = " ".join(message.split())
        raise TargetError(f"{self.file_name}:{line}: error: {sentence}")

    # Values

    def keys(
        self, table: _Table, path: _Path, known: Sequence[str], owner: str
    ) -> None:
        for key in table:
            if key in known:
                continue
            close = get_close_matches(key, known, 1, 0.5)
            remedy = f"use '{close[0]}'" if close else f"use one of {_list(known)}"
            self.fail((*path, key), f"unknown key, found '{key}' in {owner}; {remedy}")

    def value(
        self, table: _Table, path: _Path, key: str, kind: type, words: str
    ) -> Any:
        """The value of a key that is there."""
        value = table[key]
        if not isinstance(value, kind) or (
            kind is not bool and isinstance(value, bool)
        ):
            self.fail(
                (*path, key),
                f"expected {words} for '{key}', found {_toml_kind(value)}; write {words}",
            )
        return value

    def texts(self, table: _Table, path: _Path, key: str) -> Sequence[str]:
        texts: list[Any] = self.value(table, path, key, list, "an array of strings")
        for text in texts:
            if not isinstance(text, str):
                self.fail(
                    (*path, key),
                    f"expected an array of strings for '{key}', found {_toml_kind(text)} "
                    "in it; write a string in its place",
                )
        return texts

    def tables(self, table: _Table, path: _Path, key: str) -> Sequence[_Table]:
        words = f"tables with the header [[{'.'.join(map(str, (*path[::2], key)))}]]"
        tables: list[Any] = self.value(table, path, key, list, words)
        for each in tables:
            if not isinstance(each, dict):
                self.fail(
                    (*path, key),
                    f"expected {words} for '{key}', found {_toml_kind(each)} in it; write "
                    f"{words}",
                )
        return tables

    # The target

    def target(self, table: _Table, name: str) -> TargetSpec:
        self.keys(table, (), _TARGET_KEYS, "a target")
        rule = table.get("range-rule", "exact")
        if rule not in _RANGE_RULES:
            self.fail(
                ("range-rule",),
                f"unknown rule for ranges, found {_toml_text(rule)}; use one of "
                f"{_list(_RANGE_RULES)}",
            )
        for key in ("name", "description"):
            if key in table:
                self.value(table, (), key, str, "a string")
        if not table.get("kernels"):
            self.fail((), "expected kernels, found none; add a table [[kernels]]")
        kernels: dict[str, KernelSpec] = {}
        for index, each in enumerate(self.tables(table, (), "kernels")):
            for kernel in self.kernels(each, ("kernels", index)):
                if kernel.name in kernels:
                    self.fail(
                        ("kernels", index),
                        f"kernels with one name, found two of '{kernel.name}'; give one "
                        "another name, or one kernel several [[kernels.signatures]]",
                        kernel.name,
                    )
                kernels[kernel.name] = kernel
        return TargetSpec(
            table.get("name", name), kernels, rule, table.get("description", "")
        )

    def kernels(self, table: _Table, path: _Path) -> Sequence[KernelSpec]:
        """The kernels of an entry: the one with a name, or one for each op."""
        self.keys(table, path, _KERNEL_KEYS, "a kernel")
        name = None
        if "name" in table:
            name = cast(str, self.value(table, path, "name", str, "a string"))
        ops = self.texts(table, path, "ops") if "ops" in table else ()
        ops = [self.op_name(op, (*path, "ops"), op) for op in ops]
        texts = self.texts(table, path, "patterns") if "patterns" in table else ()
        if not ops and not texts:
            owner = "a kernel" if name is None else f"kernel '{name}'"
            self.fail(
                path, f"expected ops of {owner}, found none; add 'ops' or 'patterns'"
            )
        if texts and name is None:
            self.fail(
                (*path, "patterns"),
                "expected a name of a kernel with patterns, found none; add 'name'",
            )
        signatures = self.signatures(table, path)
        if name is None:
            return [
                KernelSpec(op, signatures, [OpPattern([PatternStep([op])])])
                for op in ops
            ]
        patterns: list[OpPattern | MatchFn] = []
        if ops:
            patterns.append(OpPattern([PatternStep(ops)]))
        patterns += [self.pattern(text, (*path, "patterns")) for text in texts]
        return [KernelSpec(name, signatures, patterns)]

    # Patterns

    def op_name(self, name: str, path: _Path, found: str) -> str:
        name = re.sub(r"\s*([\[\],])\s*", r"\1", name.strip())
        if _OP_NAME.fullmatch(name) is None:
            self.fail(
                path,
                f"expected the name of an op, found '{name}'; write it with its dialect, "
                "e.g. 'stablehlo.add'",
                found,
            )
        return name

    def pattern(self, text: str, path: _Path) -> OpPattern | MatchFn:
        """A chain of ops, or a pattern of a plugin."""
        if text.startswith("@"):
            return self.extension(target_extensions().patterns, text, path, "pattern")
        steps = [
            PatternStep(
                [
                    self.op_name(name, path, text)
                    for name in step.strip().removesuffix("?").split("|")
                ],
                step.strip().endswith("?"),
            )
            for step in text.split("->")
        ]
        if all(step.is_optional for step in steps):
            self.fail(
                path,
                f"expected an op that must be there, found only optional ones in '{text}'; "
                "leave out a '?'",
                text,
            )
        return OpPattern(steps)

    def extension(
        self, known: Mapping[str, Callable[[], Any]], text: str, path: _Path, kind: str
    ) -> Any:
        """What a plugin has under a name after `@`."""
        name = text.removeprefix("@")
        if (factory := known.get(name)) is None:
            available = _list(sorted(known)) if known else "none"
            self.fail(
                path,
                f"unknown {kind} of a plugin, found '{text}', available: {available}; "
                "install the plugin that has it",
                text,
            )
        return factory()

    # Signatures

    def signatures(self, table: _Table, path: _Path) -> Sequence[Signature]:
        own = [key for key in _SIGNATURE_KEYS if key in table]
        if "signatures" not in table:
            return [self.signature(table, path)]
        if own:
            self.fail(
                (*path, own[0]),
                f"expected one place of a signature, found '{own[0]}' beside 'signatures'; "
                "move it into a table of [[kernels.signatures]]",
            )
        tables = self.tables(table, path, "signatures")
        if not tables:
            self.fail(
                (*path, "signatures"),
                "expected signatures, found none; add a table [[kernels.signatures]]",
            )
        for index, each in enumerate(tables):
            place = (*path, "signatures", index)
            self.keys(each, place, _SIGNATURE_KEYS, "a signature")
        return [
            self.signature(each, (*path, "signatures", index))
            for index, each in enumerate(tables)
        ]

    def signature(self, table: _Table, path: _Path) -> Signature:
        for key in ("inputs", "outputs"):
            if key not in table:
                self.fail(
                    path,
                    f"missing '{key}' of a kernel; add an array of ports, e.g. "
                    f'{key} = ["i8"]',
                )
        inputs, is_variadic = self.ports(table, path, "inputs")
        outputs, has_variadic_results = self.ports(table, path, "outputs")
        signature = Signature(inputs, outputs, is_variadic, has_variadic_results)
        if "constraints" not in table:
            return signature
        values = self.value(table, path, "constraints", list, "an array")
        place = (*path, "constraints")
        constraints = [
            self.constraint(value, place, signature)
            for value in cast("list[Any]", values)
        ]
        return Signature(
            inputs, outputs, is_variadic, has_variadic_results, constraints
        )

    def ports(
        self, table: _Table, path: _Path, key: str
    ) -> tuple[Sequence[Port], bool]:
        """The ports, and whether the last one stands for any number of them."""
        texts = self.texts(table, path, key)
        is_variadic = texts[-1:] == ["..."]
        if is_variadic:
            texts = texts[:-1]
        if "..." in texts or (is_variadic and not texts):
            self.fail(
                (*path, key),
                f"expected '...' after the last of the ports of '{key}', found it "
                "elsewhere; move it to the end",
                "...",
            )
        return [self.port(text, (*path, key)) for text in texts], is_variadic

    def port(self, text: str, path: _Path) -> Port:
        if (match := _PORT.fullmatch(text)) is None:
            self.fail(
                path,
                f"expected a port, found '{text}'; write a storage type such as 'i8', "
                "'i8<-127:127>', 'u8', 'any=i8' or 'i16:0', or '-' for one that is not "
                "quantized",
                text,
            )
        is_constant, is_wildcard = match["const"] is not None, match["any"] is not None
        if match["float"] is not None:
            return Port(is_constant=is_constant)
        try:
            storage = _storage(match["storage"])
        except (ParseError, VerifyException) as e:
            reason = str(e.msg if isinstance(e, ParseError) else e).strip()
            self.fail(
                path, f"{reason}, found '{text}'; write another storage type", text
            )
        zero_point = None if match["zero"] is None else int(match["zero"])
        low, high = storage.storage_range
        if zero_point is not None and not low <= zero_point <= high:
            self.fail(
                path,
                f"zero point is not in the range of the storage, found '{text}'; write "
                f"one from {low} to {high}",
                text,
            )
        return Port(storage, is_wildcard, zero_point, is_constant)

    # Constraints

    def constraint(
        self, value: object, path: _Path, signature: Signature
    ) -> Constraint:
        if isinstance(value, str) and value.startswith("@"):
            return self.extension(
                target_extensions().constraints, value, path, "constraint"
            )
        table = {"kind": value} if isinstance(value, str) else value
        if not isinstance(table, dict) or not isinstance(
            kind := cast("_Table", table).get("kind"), str
        ):
            self.fail(
                path,
                f"expected a constraint, found {_toml_text(value)}; write a name, e.g. "
                "'same-scale', or a table with 'kind'",
            )
        if (constraint_type := CONSTRAINTS.get(kind)) is None:
            close = get_close_matches(kind, CONSTRAINTS, 1, 0.5)
            remedy = f"'{close[0]}'" if close else f"one of {_list([*CONSTRAINTS])}"
            self.fail(path, f"unknown constraint, found '{kind}'; use {remedy}", kind)
        arguments = self.arguments(cast("_Table", table), path, kind, constraint_type)
        self.check_numbers(arguments, path, kind)
        self.check_ports(arguments, path, kind, signature)
        return constraint_type(**arguments)

    def arguments(
        self, table: _Table, path: _Path, kind: str, constraint_type: type[Any]
    ) -> dict[str, Any]:
        """The fields of a constraint."""
        known = {each.name.replace("_", "-"): each for each in fields(constraint_type)}
        self.keys(table, path, ["kind", *known], f"'{kind}'")
        arguments: dict[str, Any] = {}
        for key, each in known.items():
            if key not in table:
                if each.default is MISSING:
                    self.fail(path, f"missing '{key}' of '{kind}'; add it", kind)
                arguments[each.name] = each.default
                continue
            is_right, words = _ARGUMENTS[str(each.type)]
            if not is_right(table[key]):
                self.fail(
                    path,
                    f"expected {words} for '{key}' of '{kind}', found "
                    f"{_toml_text(table[key])}; write {words}",
                    kind,
                )
            value: Any = table[key]
            is_array = isinstance(value, list)
            arguments[each.name] = (
                tuple(cast("list[int]", value)) if is_array else value
            )
        return arguments

    def check_numbers(
        self, arguments: Mapping[str, Any], path: _Path, kind: str
    ) -> None:
        """Check what the numbers of a constraint must be, whatever the ports are."""
        if "minimum" in arguments:
            low, high = arguments["minimum"], arguments["maximum"]
            if not (-math.inf < low <= 0 <= high < math.inf and low < high):
                self.fail(
                    path,
                    f"expected a finite range that contains 0 for '{kind}', found {low} to "
                    f"{high}; write other numbers",
                    kind,
                )
        factors = arguments.get("factors")
        if factors == ():
            self.fail(
                path,
                f"expected factors of '{kind}', found none; add the indices of operands",
                kind,
            )
        if factors and (bias := arguments.get("bias")) in factors:
            self.fail(
                path,
                f"expected a bias that is none of the factors of '{kind}', found index "
                f"{bias} for both; use another index",
                kind,
            )

    def check_ports(
        self,
        arguments: Mapping[str, Any],
        path: _Path,
        kind: str,
        signature: Signature,
    ) -> None:
        """Check that the ports exist, and are quantized, that a constraint names."""
        for name in ("bias", "factors", "operand", "result"):
            value = arguments.get(name)
            if value is None:
                continue
            ports, word, variadic = (
                (signature.outputs, "outputs", signature.has_variadic_results)
                if name == "result"
                else (signature.inputs, "inputs", signature.is_variadic)
            )
            for index in (value,) if isinstance(value, int) else value:
                if index < 0 or (index >= len(ports) and not variadic):
                    self.fail(
                        path,
                        f"unknown port, found index {index} for '{name}' of '{kind}' and "
                        f"{len(ports)} {word}; count from 0",
                        kind,
                    )
                if index < len(ports) and ports[index].storage is None:
                    self.fail(
                        path,
                        f"expected a quantized port for '{name}' of '{kind}', found '-' "
                        f"at index {index} of {word}; use another index, or a storage "
                        "type there",
                        kind,
                    )


@cache
def _storage(text: str) -> AnyQuantizedType:
    """
    Raises:
        ParseError: if it is no storage type, or its range is wrong.
    """
    ctx = Context()
    ctx.load_dialect(Quant)
    return cast(AnyQuantizedType, Parser(ctx, f"!quant.any<{text}>").parse_type())


# What values of TOML are


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_indices(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_index, cast("list[object]", value)))


_ARGUMENTS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "float": (_is_number, "a number"),
    "int": (_is_index, "an integer"),
    "int | None": (_is_index, "an integer"),
    "Sequence[int]": (_are_indices, "an array of integers"),
}
"""What a field of a constraint must be, by its annotation, and that in words."""


def _toml_kind(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    return _toml_text(value)


def _toml_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)


def _list(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)
