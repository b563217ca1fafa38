"""
Read hardware targets from TOML files into a
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

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from xdsl.context import Context
from xdsl.dialects.builtin import bf16, f16, f32, f64
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, PassFailedException, VerifyException

from xdsl_quant.diagnostics import quoted
from xdsl_quant.dialects.quant import AnyQuantizedType, Quant, traits
from xdsl_quant.runtime.atomic_files import has_suffix
from xdsl_quant.runtime.toml_tables import TomlError, TomlFile, TomlTable, toml_text

from .kernel_matching import COMPOSITE
from .target_extensions import target_extensions
from .target_spec import (
    CoefficientOfOp,
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

_T = TypeVar("_T")

CONSTRAINTS: Mapping[str, type[Any]] = {
    "accumulator-scale": traits.AccumulatorUniformScale,
    "coefficient-axis": traits.AffineOpCoefficient,
    "coefficient-of-op": CoefficientOfOp,
    "fixed-scale": traits.FixedResultUniformScale,
    "multiplier-scale": MultiplierUniformScale,
    "power-of-two-scale": PowerOfTwoScale,
    "same-scale": traits.SameOperandsAndResultsScale,
}
"""Maps `kind` in target files to a constraint class; other keys set its fields."""

_RANGE_RULES: Sequence[RangeRule] = get_args(RangeRule)
_SIGNATURE_KEYS = ("inputs", "outputs", "constraints")
_KERNEL_KEYS = (
    *("name", "ops", "composites", "patterns", "signatures"),
    *_SIGNATURE_KEYS,
)
_TARGET_KEYS = ("name", "description", "extends", "range-rule", "kernels")

_PORT = re.compile(
    r"(?P<const>const )?(?:(?P<float>-|float|bf16|f16|f32|f64)|(?P<any>any=)?"
    r"(?P<storage>(?:(?:[su]?i|u)[0-9]+|f8E5M2|f8E4M3FN|f4E2M1FN)"
    r"(?:<-?[0-9]+:-?[0-9]+>)?)"
    r"(?P<blocks>\{[0-9]+:[0-9]+(?:, ?[0-9]+:[0-9]+)*\})?(?::(?P<zero>-?[0-9]+))?)"
)
_FLOAT_TYPES = {type_.name: type_ for type_ in (bf16, f16, f32, f64)}
_OP_NAME = re.compile(r"\w+(\.\w+)+(\[\w+(\.\w+)+(,\w+(\.\w+)+)*\])?")


class TargetError(TomlError):
    """Error in a target file, with a message of one line."""


def read_target(source: str | Path) -> TargetSpec:
    """
    Read a target.

    Args:
        source: the path of a `.toml` file, or the name of a built-in or plugin target.

    Raises:
        TargetError: if the file is unreadable or invalid, or the target is unknown.
    """
    file = target_file(source)
    return _target(file.table(), Path(file.name).stem, [file.name])


def target_file(source: str | Path) -> TomlFile:
    """
    Return the TOML file of a target, without parsing it.

    Raises:
        TargetError: if the file is unreadable or the target is unknown.
    """
    if isinstance(source, Path) or has_suffix(source, ".toml"):
        path = Path(source)
    elif (extension := target_extensions().targets.get(source)) is not None:
        path = extension()
    else:
        raise TargetError(f"unknown target '{source}', {_available()}")
    return TomlFile.read(path, TargetError)


def target_of_option(text: str | None) -> TargetSpec:
    """
    Read the target that a pass option names.

    Raises:
        PassFailedException: if the option is missing, the target is unknown, or its
            file is invalid.
    """
    if text is None:
        raise PassFailedException(f"missing option 'target', {_available()}")
    try:
        return read_target(text)
    except TargetError as e:
        raise PassFailedException(str(e)) from None


def _available() -> str:
    names = quoted(sorted(target_extensions().targets))
    return f"available: {names}; use one of them, or the path of a .toml file"


def parse_target(
    text: str, file_name: str = "target.toml", name: str = "target"
) -> TargetSpec:
    """
    Parse a target from TOML text.

    Args:
        text: the content of a target file.
        file_name: the file name to print in messages.
        name: the target's name if the text has no `name`.

    Raises:
        TargetError: if the text is invalid.
    """
    return _target(TomlFile(text, file_name, TargetError).table(), name, [file_name])


def _target(table: TomlTable, name: str, files: Sequence[str]) -> TargetSpec:
    """
    Build a target from the root table of the last of `files`; the other files extend it.
    """
    table.check_keys(_TARGET_KEYS, "a target")
    bases = extended_targets(table, files)
    rule = table.values.get("range-rule", bases[0].range_rule if bases else "exact")
    if rule not in _RANGE_RULES:
        problem = f"unknown rule for ranges, found {toml_text(rule)}"
        table.fail(f"{problem}; use one of {quoted(_RANGE_RULES)}", "range-rule")
    name = _entry_name(table) or name
    description = table.text("description") or ""
    extended = merge_kernels(bases)
    kernels: dict[str, KernelSpec] = {}
    for entry, kernel in target_kernels(table, extended):
        if kernel.name in kernels:
            problem = f"duplicate kernel, found '{kernel.name}' twice"
            remedy = "rename one, or merge them with several [[kernels.signatures]]"
            entry.fail(f"{problem}; {remedy}", found=kernel.name)
        kernels[kernel.name] = kernel
    for kernel in kernels.values():
        known = extended.get(kernel.name, kernel)
        extended[kernel.name] = _merged_kernel(kernel, known)
    return TargetSpec(name, extended, rule, description)


def extended_targets(table: TomlTable, files: Sequence[str]) -> Sequence[TargetSpec]:
    """
    Return the targets that a file lists in `extends`.

    Args:
        table: the root table of the file.
        files: the file's name, preceded by the names of the files that extend it.

    Raises:
        TargetError: if an extended target is invalid or extends itself.
    """
    bases: list[TargetSpec] = []
    for source in table.texts("extends"):
        file = target_file(source)
        if file.name in files:
            message = f"target extends itself, found '{source}'; leave it out"
            table.fail(message, "extends", source)
        base = _target(file.table(), Path(file.name).stem, [*files, file.name])
        bases.append(base)
    return bases


def merge_kernels(targets: Sequence[TargetSpec]) -> dict[str, KernelSpec]:
    """Merge the kernels of targets; signatures of earlier targets come first."""
    kernels: dict[str, KernelSpec] = {}
    for target in targets:
        for name, kernel in target.kernels.items():
            kernels[name] = _merged_kernel(kernels.get(name, kernel), kernel)
    return kernels


def _merged_kernel(kernel: KernelSpec, extension: KernelSpec) -> KernelSpec:
    """Append the signatures of `extension` to a kernel, unless they can never match."""
    if kernel is extension:
        return kernel
    signatures = [*kernel.signatures]
    for signature in extension.signatures:
        if not any(known.covers(signature) for known in signatures):
            signatures.append(signature)
    return replace(kernel, signatures=signatures)


def target_kernels(
    table: TomlTable, extended: Mapping[str, KernelSpec] | None = None
) -> Iterator[tuple[TomlTable, KernelSpec]]:
    """
    Yield the kernels of a file in order, each with its table. Several kernels may share
    a name or a table.

    Args:
        table: the root table of the file.
        extended: the kernels of the targets that the file extends, by name.

    Raises:
        TargetError: if there are no kernels, or one is invalid.
    """
    if not table.values.get("kernels") and not extended:
        table.fail("expected kernels, found none; add a table [[kernels]]")
    for entry in table.tables("kernels"):
        for kernel in _kernels(entry, extended or {}):
            yield entry, kernel


def _entry_name(table: TomlTable) -> str | None:
    name = table.text("name")
    if name is not None and not name.strip():
        table.fail("expected a name, found an empty string; write a name", "name")
    return name


def _kernels(
    table: TomlTable, extended: Mapping[str, KernelSpec]
) -> Sequence[KernelSpec]:
    """
    Return the kernels of a table: a single named kernel, whose ops may be unknown, or
    one kernel per op.
    """
    table.check_keys(_KERNEL_KEYS, "a kernel")
    name = _entry_name(table)
    ops = [_op_name(table, "ops", text, text) for text in table.texts("ops")]
    ops += [_composite(table, text) for text in table.texts("composites")]
    texts = table.texts("patterns")
    if name is not None and name in extended and not ops and not texts:
        return [replace(extended[name], signatures=_signatures(table))]
    if not ops and not texts and name is None:
        problem = "expected ops or a name of a kernel, found neither"
        table.fail(f"{problem}; add 'ops', or 'name'")
    if texts and name is None:
        problem = "expected a name of a kernel with patterns, found none"
        table.fail(f"{problem}; add 'name'", "patterns")
    signatures = _signatures(table)
    if name is None:
        return [
            KernelSpec(
                op.removeprefix(COMPOSITE), signatures, [OpPattern([PatternStep([op])])]
            )
            for op in ops
        ]
    of_ops = [OpPattern([_pattern_step(table, "ops", ops)])] if ops else []
    patterns = [*of_ops, *(_pattern(table, text) for text in texts)]
    return [KernelSpec(name, signatures, patterns)]


# Patterns


def _composite(table: TomlTable, name: str) -> str:
    """Return the name in patterns of a composite op or function."""
    if re.fullmatch(r"[\w.$-]+", name) is None:
        problem = f"expected the name of a composite op or function, found '{name}'"
        remedy = "write it without '@' and quotes, e.g. 'odml.group_norm'"
        table.fail(f"{problem}; {remedy}", "composites", name)
    return COMPOSITE + name


def _op_name(table: TomlTable, key: str, name: str, found: str) -> str:
    name = re.sub(r"\s*([\[\],])\s*", r"\1", name.strip())
    if _OP_NAME.fullmatch(name) is None:
        problem = f"expected the name of an op, found '{name}'"
        remedy = "write it with its dialect, e.g. 'stablehlo.add'"
        table.fail(f"{problem}; {remedy}", key, found)
    return name


def _pattern_step(
    table: TomlTable, key: str, names: Sequence[str], is_optional: bool = False
) -> PatternStep:
    for index, name in enumerate(names):
        if name in names[:index]:
            problem = f"expected different ops, found '{name}' twice"
            table.fail(f"{problem}; leave out one", key, name)
    return PatternStep(names, is_optional)


def _pattern(table: TomlTable, text: str) -> OpPattern | MatchFn:
    """Parse a pattern: a chain of ops, or `@name` for a pattern of a plugin."""
    if text.startswith("@"):
        known = target_extensions().patterns
        return _extension(table, "patterns", text, known, "pattern")
    steps = [
        _pattern_step(
            table,
            "patterns",
            [
                _op_name(table, "patterns", name, text)
                for name in step.strip().removesuffix("?").split("|")
            ],
            step.strip().endswith("?"),
        )
        for step in text.split("->")
    ]
    if all(step.is_optional for step in steps):
        problem = "expected a required op in a pattern"
        found = f"found only optional ones in '{text}'"
        table.fail(f"{problem}, {found}; leave out a '?'", "patterns", text)
    return OpPattern(steps)


def _extension(
    table: TomlTable,
    key: str,
    text: str,
    known: Mapping[str, Callable[[], _T]],
    kind: str,
) -> _T:
    """Return the plugin extension for the text `@name`."""
    if (factory := known.get(text.removeprefix("@"))) is None:
        available = quoted(sorted(known)) or "none"
        problem = f"unknown {kind} of a plugin, found '{text}', available: {available}"
        table.fail(f"{problem}; install the plugin that defines it", key, text)
    return factory()


# Signatures


def _signatures(table: TomlTable) -> Sequence[Signature]:
    if "signatures" not in table:
        return [_signature(table)]
    for key in _SIGNATURE_KEYS:
        if key in table:
            problem = f"expected either '{key}' or 'signatures', found both"
            remedy = f"move '{key}' into a table of [[kernels.signatures]]"
            table.fail(f"{problem}; {remedy}", key)
    tables = table.tables("signatures")
    if not tables:
        remedy = "add a table [[kernels.signatures]]"
        table.fail(f"expected signatures, found none; {remedy}", "signatures")
    for each in tables:
        each.check_keys(_SIGNATURE_KEYS, "a signature")
    return [*map(_signature, tables)]


def _signature(table: TomlTable) -> Signature:
    for key in ("inputs", "outputs"):
        if key not in table:
            remedy = f'add an array of ports, e.g. {key} = ["i8"]'
            table.fail(f"missing '{key}' of a kernel; {remedy}")
    inputs, is_variadic = _ports(table, "inputs")
    outputs, has_variadic_results = _ports(table, "outputs")
    signature = Signature(inputs, outputs, is_variadic, has_variadic_results)
    if "constraints" not in table:
        return signature
    values = table.array("constraints")
    constraints = [_constraint(table, value, signature) for value in values]
    return replace(signature, constraints=constraints)


def _ports(table: TomlTable, key: str) -> tuple[Sequence[Port], bool]:
    """Return the ports, and True if the last one is variadic."""
    texts = table.texts(key)
    is_variadic = texts[-1:] == ["..."]
    if is_variadic:
        texts = texts[:-1]
    if "..." in texts or (is_variadic and not texts):
        problem = f"expected '...' after the last port of '{key}', found it elsewhere"
        table.fail(f"{problem}; move it to the end", key, "...")
    return [_port(table, key, text) for text in texts], is_variadic


def _port(table: TomlTable, key: str, text: str) -> Port:
    if (match := _PORT.fullmatch(text)) is None:
        remedy = (
            "write a storage type such as 'i8', 'i8<-127:127>', 'u8', 'any=i8', "
            "'i16:0', 'f8E4M3FN' or 'const i4{1:32}', a float type such as 'bf16', or "
            "'-' for an unquantized port"
        )
        table.fail(f"expected a port, found '{text}'; {remedy}", key, text)
    is_constant, is_wildcard = match["const"] is not None, match["any"] is not None
    if (name := match["float"]) is not None:
        return Port(is_constant=is_constant, float_type=_FLOAT_TYPES.get(name))
    try:
        storage = _parsed_storage(match["storage"])
    except (ParseError, VerifyException) as e:
        reason = str(e.msg if isinstance(e, ParseError) else e).strip()
        table.fail(f"{reason}, found '{text}'; write another storage type", key, text)
    zero_point = None if match["zero"] is None else int(match["zero"])
    low, high = storage.storage_range
    if zero_point is not None and not low <= zero_point <= high:
        problem = f"zero point exceeds the storage range, found '{text}'"
        table.fail(f"{problem}; write one from {low} to {high}", key, text)
    if zero_point and not storage.has_integer_storage:
        problem = f"unsupported zero point of floats, found '{text}'"
        table.fail(f"{problem}; leave it out", key, text)
    blocks = _block_sizes(table, key, text, match["blocks"])
    return Port(storage, is_wildcard, zero_point, is_constant, block_sizes=blocks)


def _block_sizes(
    table: TomlTable, key: str, text: str, blocks: str | None
) -> Sequence[tuple[int, int]]:
    """Parse the block sizes of a constant operand, e.g. `{0:1,1:32}`."""
    if blocks is None:
        return ()
    pairs = re.findall("([0-9]+):([0-9]+)", blocks)
    sizes = {int(dimension): int(size) for dimension, size in pairs}
    if len(sizes) < len(pairs) or 0 in sizes.values():
        problem = "expected positive sizes of different dimensions"
        table.fail(f"{problem}, found '{text}'; write others", key, text)
    if key == "outputs" or not text.startswith("const "):
        problem = f"expected a constant operand for a port with blocks, found '{text}'"
        remedy = "leave out the blocks" if key == "outputs" else "write 'const' first"
        table.fail(f"{problem}; {remedy}", key, text)
    return (*sorted(sizes.items()),)


@cache
def _parsed_storage(text: str) -> AnyQuantizedType:
    ctx = Context()
    ctx.load_dialect(Quant)
    return cast(AnyQuantizedType, Parser(ctx, f"!quant.any<{text}>").parse_type())


# Constraints


def _constraint(table: TomlTable, value: object, signature: Signature) -> Constraint:
    if isinstance(value, str) and value.startswith("@"):
        known = target_extensions().constraints
        return _extension(table, "constraints", value, known, "constraint")
    values = {"kind": value} if isinstance(value, str) else value
    if not isinstance(values, dict) or not isinstance(
        kind := cast("dict[str, object]", values).get("kind"), str
    ):
        remedy = "write a name, e.g. 'same-scale', or a table with 'kind'"
        problem = f"expected a constraint, found {toml_text(value)}"
        table.fail(f"{problem}; {remedy}", "constraints")
    table = table.inline("constraints", cast("dict[str, object]", values), kind)
    if (constraint_type := CONSTRAINTS.get(kind)) is None:
        close = get_close_matches(kind, CONSTRAINTS, 1, 0.5)
        remedy = f"'{close[0]}'" if close else f"one of {quoted([*CONSTRAINTS])}"
        table.fail(f"unknown constraint, found '{kind}'; use {remedy}")
    known = {each.name.replace("_", "-"): each for each in fields(constraint_type)}
    table.check_keys(["kind", *known], f"'{kind}'")
    arguments = {
        field.name: _argument(table, kind, key, field) for key, field in known.items()
    }
    _check_numbers(table, kind, arguments)
    _check_ports(table, kind, arguments, signature)
    return constraint_type(**arguments)


def _argument(table: TomlTable, kind: str, key: str, field: Field[Any]) -> Any:
    if key not in table:
        if field.default is MISSING:
            table.fail(f"missing '{key}' of '{kind}'; add it")
        return field.default
    value = table.values[key]
    is_right, words = _ARGUMENTS[str(field.type)]
    if not is_right(value):
        problem = f"expected {words} for '{key}' of '{kind}', found {toml_text(value)}"
        table.fail(f"{problem}; write {words}")
    is_array = isinstance(value, list)
    return tuple(cast("list[int]", value)) if is_array else value


def _check_numbers(table: TomlTable, kind: str, arguments: Mapping[str, Any]) -> None:
    """Check a constraint's numbers, independently of the ports."""
    if "minimum" in arguments:
        low, high = arguments["minimum"], arguments["maximum"]
        if not (-math.inf < low <= 0 <= high < math.inf and low < high):
            problem = f"expected a finite range that contains 0 for '{kind}'"
            table.fail(f"{problem}, found {low} to {high}; write other numbers")
    factors = arguments.get("factors")
    if factors == ():
        remedy = "add the indices of operands"
        table.fail(f"expected factors of '{kind}', found none; {remedy}")
    if factors and (bias := arguments.get("bias")) in factors:
        problem = f"expected different ports for bias and factors of '{kind}'"
        table.fail(f"{problem}, found index {bias} for both; use another index")


def _check_ports(
    table: TomlTable, kind: str, arguments: Mapping[str, Any], signature: Signature
) -> None:
    """Check that the ports named in a constraint exist and are quantized."""
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
                problem = f"unknown port, found index {index} for '{name}' of '{kind}'"
                table.fail(f"{problem} and {len(ports)} {word}; count from 0")
            if index < len(ports) and ports[index].storage is None:
                problem = f"expected a quantized port for '{name}' of '{kind}'"
                found = f"found '{ports[index].text}' at index {index} of {word}"
                remedy = "use another index, or a storage type there"
                table.fail(f"{problem}, {found}; {remedy}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_index(value: object) -> bool:
    return isinstance(value, int) and _is_number(value)


def _are_indices(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_index, cast("list[object]", value)))


_ARGUMENTS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "float": (_is_number, "a number"),
    "int": (_is_index, "an integer"),
    "int | None": (_is_index, "an integer"),
    "Sequence[int]": (_are_indices, "an array of integers"),
}
"""Maps the annotation of a constraint field to the check and description of values."""
