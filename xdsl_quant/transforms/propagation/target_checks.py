"""
What is wrong with a target although its file can be read: ops that cannot be part of a
kernel, and kernels that are never found.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from xdsl.context import Context
from xdsl.traits import IsTerminator

from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    MultipliesAndAccumulates,
    quantization_traits,
)
from xdsl_quant.runtime.toml_tables import TomlFile, TomlTable

from .kernel_matching import unsupported_reason, without_options
from .target_files import extended_targets, target_kernels, united_kernels
from .target_spec import KernelSpec, MatchFn, OpPattern, PatternStep, Signature

_BIAS_BITS = 32
"""Bits of an operand that is a bias."""


def check_target(file: TomlFile, ctx: Context) -> Sequence[str]:
    """
    Return the warnings about a target, each with its location.

    Args:
        file: the target.
        ctx: has the dialects of the ops.

    Raises:
        TargetError: if an op cannot be part of a kernel.
    """
    warnings: list[str] = []
    names: set[str] = set()
    earlier: list[tuple[KernelSpec, OpPattern | MatchFn]] = []
    table = file.table()
    extended = united_kernels(extended_targets(table, [file.name]))
    for entry, kernel in target_kernels(table, extended):
        warnings += _unused_signatures(entry, kernel)
        warnings += _free_biases(entry, kernel, ctx)
        for key, text, pattern in _patterns(entry, kernel):
            for name, is_in_region in _op_names(pattern):
                warning = _check_op(name, is_in_region, ctx, entry, key, text)
                if warning and name not in names:
                    warnings.append(warning)
                    names.add(name)
            for other, taken in earlier:
                if _takes(other, taken, kernel, pattern):
                    warnings.append(
                        f"{entry.location(key, text)}: warning: pattern is never found, "
                        f"found '{' '.join(text.split())}' after kernel '{other.name}', "
                        "which takes the same ops; remove one of them"
                    )
                    break
            earlier.append((kernel, pattern))
    # Kernels of one table have the same signatures.
    return [*dict.fromkeys(warnings)]


def _patterns(
    entry: TomlTable, kernel: KernelSpec
) -> Iterator[tuple[str, str, OpPattern | MatchFn]]:
    """
    Yield the patterns of a kernel, one for each of its ops, with their keys and texts.
    """
    patterns = iter(kernel.patterns)
    if "ops" in entry and isinstance(ops := next(patterns), OpPattern):
        for name in ops.steps[0].names:
            yield "ops", name, OpPattern([PatternStep([name])])
    for text, pattern in zip(entry.texts("patterns"), patterns, strict=False):
        yield "patterns", text, pattern


# Ops


def _op_names(pattern: OpPattern | MatchFn) -> Iterator[tuple[str, bool]]:
    """Yield the names of ops, and whether they are in the region of another one."""
    for step in pattern.steps if isinstance(pattern, OpPattern) else ():
        for name in step.names:
            outer, *inner = re.findall(r"[\w.]+", name)
            yield outer, False
            yield from ((each, True) for each in inner)


def _check_op(
    name: str, is_in_region: bool, ctx: Context, entry: TomlTable, key: str, text: str
) -> str | None:
    """What is told of an op that no dialect has, which is never found."""
    place = f"{entry.location(key, text)}: warning:"
    dialect_name, _, _ = name.partition(".")
    if dialect_name not in ctx.registered_dialect_names:
        return (
            f"{place} unknown dialect '{dialect_name}' of op '{name}'; install the plugin "
            "that has it"
        )
    if (op_type := ctx.get_optional_op(name)) is None:
        names = [op.name for op in ctx.get_dialect(dialect_name).operations]
        close = get_close_matches(name, names, 1)
        remedy = f"use '{close[0]}'" if close else "use another name"
        return f"{place} unknown op, found '{name}'; {remedy}"
    if is_in_region:
        reason = "a terminator" if op_type.has_trait(IsTerminator) else None
        owner = "the region of an op"
    else:
        reason, owner = unsupported_reason(op_type, name), "a kernel"
    if reason is not None:
        problem = f"unsupported op of {owner}, found '{name}', {reason}"
        entry.fail(f"{problem}; leave it out", key, text)
    return None


# Biases


def _free_biases(entry: TomlTable, kernel: KernelSpec, ctx: Context) -> Iterator[str]:
    """Warnings of biases that get a scale of their own."""
    for signature in kernel.signatures:
        for port, spec in enumerate(signature.inputs):
            if (
                port >= 2
                and spec.storage is not None
                and spec.storage.storage_type_integral_width >= _BIAS_BITS
                and not _is_constrained(signature, port)
            ) and any(
                _is_product(step, ctx, port if signature.constraints is None else None)
                for pattern in kernel.patterns
                if isinstance(pattern, OpPattern)
                for step in pattern.steps[:1]
            ):
                yield (
                    f"{entry.location()}: warning: bias has a scale of its own, found "
                    f"operand {port} of '{spec.storage}' without a constraint; add "
                    f'{{ kind = "accumulator-scale", bias = {port} }}'
                )


def _is_constrained(signature: Signature, port: int) -> bool:
    """True if a constraint, or a function that may be one, concerns an operand."""
    return any(
        each.bias == port
        if isinstance(each, AccumulatorUniformScale)
        else callable(each)
        for each in signature.constraints or ()
    )


def _is_product(step: PatternStep, ctx: Context, bias: int | None) -> bool:
    """True if an op is a product which does not say itself that an operand is its bias."""
    for name in step.names:
        op_type = ctx.get_optional_op(name)
        if op_type is None:
            continue
        traits = quantization_traits(op_type, name)
        biases = [t.bias for t in traits if isinstance(t, AccumulatorUniformScale)]
        is_product = any(isinstance(t, MultipliesAndAccumulates) for t in traits)
        if is_product and bias not in biases:
            return True
    return False


# What is never found


def _unused_signatures(entry: TomlTable, kernel: KernelSpec) -> Iterator[str]:
    for index, signature in enumerate(kernel.signatures):
        earlier = enumerate(kernel.signatures[:index])
        number = next((i for i, each in earlier if each.covers(signature)), None)
        if number is not None:
            table = entry.tables("signatures")[index]
            yield (
                f"{table.location()}: warning: signature is never taken, found signature "
                f"{number} of the kernel before it, which fits whatever it fits; remove "
                "one of them, or change their order"
            )


def _takes(
    other: KernelSpec,
    taken: OpPattern | MatchFn,
    kernel: KernelSpec,
    pattern: OpPattern | MatchFn,
) -> bool:
    """Return True if a kernel takes all ops that a later one would take."""
    return _finds(taken, pattern) and all(
        any(earlier.covers(signature) for earlier in other.signatures)
        for signature in kernel.signatures
    )


def _finds(taken: OpPattern | MatchFn, pattern: OpPattern | MatchFn) -> bool:
    """Return True if a pattern finds all ops that another one finds."""
    if not isinstance(taken, OpPattern) or not isinstance(pattern, OpPattern):
        return taken is pattern
    return all(
        any(
            len(steps) == len(others)
            and all(
                # A name without a region is that of all regions.
                {*other.names} & {name, name.partition("[")[0]}
                for step, other in zip(steps, others, strict=True)
                for name in step.names
            )
            for others in without_options(taken.steps)
        )
        for steps in without_options(pattern.steps)
    )
