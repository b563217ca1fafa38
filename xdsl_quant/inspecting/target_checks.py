"""Check target files for unusable ops, unconstrained biases, unreachable kernels."""

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches

from xdsl.context import Context
from xdsl.traits import IsTerminator

from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    MultipliesAndAccumulates,
    quantization_traits,
)
from xdsl_quant.runtime.toml_tables import TomlFile, TomlTable
from xdsl_quant.transforms.propagation.kernel_matching import (
    COMPOSITE,
    unsupported_reason,
    without_options,
)
from xdsl_quant.transforms.propagation.target_files import (
    extended_targets,
    merge_kernels,
    target_kernels,
)
from xdsl_quant.transforms.propagation.target_spec import (
    KernelSpec,
    MatchFn,
    OpPattern,
    PatternStep,
    Signature,
)

_BIAS_BITS = 32
"""Minimum width of an operand that counts as a bias."""


def check_target(file: TomlFile, ctx: Context) -> Sequence[str]:
    """
    Check a target and return warnings with locations.

    Args:
        file: the target.
        ctx: context with the dialects of the ops.

    Raises:
        TargetError: if an op cannot be part of a kernel.
    """
    warnings: list[str] = []
    names: set[str] = set()
    earlier: list[tuple[KernelSpec, OpPattern | MatchFn]] = []
    table = file.table()
    extended = merge_kernels(extended_targets(table, [file.name]))
    for entry, kernel in target_kernels(table, extended):
        warnings += _misspelled_names(entry, kernel, extended)
        warnings += _unused_signatures(entry, kernel)
        warnings += _free_biases(entry, kernel, ctx)
        for key, text, pattern in _patterns(entry, kernel):
            for name, is_in_region in _op_names(pattern):
                warning = _check_op(name, is_in_region, ctx, entry, key, text)
                if warning and name not in names:
                    warnings.append(warning)
                    names.add(name)
            for earlier_kernel, earlier_pattern in earlier:
                if _shadows(earlier_kernel, earlier_pattern, kernel, pattern):
                    warnings.append(
                        f"{entry.location(key, text)}: warning: unreachable pattern, "
                        f"found '{' '.join(text.split())}' after kernel "
                        f"'{earlier_kernel.name}', which matches the same ops; remove "
                        "one of them"
                    )
                    break
            earlier.append((kernel, pattern))
    # Kernels of one table have the same signatures.
    return [*dict.fromkeys(warnings)]


def _patterns(
    entry: TomlTable, kernel: KernelSpec
) -> Iterator[tuple[str, str, OpPattern | MatchFn]]:
    """Yield TOML key, text and pattern for each entry of `ops` and `patterns`."""
    patterns = iter(kernel.patterns)
    has_ops = "ops" in entry or "composites" in entry
    if has_ops and isinstance(ops := next(patterns), OpPattern):
        for name in ops.steps[0].names:
            key = "composites" if name.startswith(COMPOSITE) else "ops"
            text = name.removeprefix(COMPOSITE)
            yield key, text, OpPattern([PatternStep([name])])
    for text, pattern in zip(entry.texts("patterns"), patterns, strict=False):
        yield "patterns", text, pattern


# Ops


def _op_names(pattern: OpPattern | MatchFn) -> Iterator[tuple[str, bool]]:
    """Yield each op name in a pattern, with True if the op is in a region."""
    for step in pattern.steps if isinstance(pattern, OpPattern) else ():
        for name in step.names:
            if name.startswith(COMPOSITE):
                continue
            outer, *inner = re.findall(r"[\w.]+", name)
            yield outer, False
            yield from ((each, True) for each in inner)


def _check_op(
    name: str, is_in_region: bool, ctx: Context, entry: TomlTable, key: str, text: str
) -> str | None:
    """
    Return a warning if the op is unknown; raise `TargetError` if kernels cannot contain
    the op.
    """
    place = f"{entry.location(key, text)}: warning:"
    dialect_name, _, _ = name.partition(".")
    if dialect_name not in ctx.registered_dialect_names:
        return (
            f"{place} unknown dialect '{dialect_name}' of op '{name}'; install the plugin "
            "that defines it"
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
    """Yield warnings about biases whose scale need not be that of the accumulator."""
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
                    f"{entry.location()}: warning: unconstrained bias scale, found "
                    f"operand {port} of '{spec.storage}' without a constraint; add "
                    f'{{ kind = "accumulator-scale", bias = {port} }}'
                )


def _is_constrained(signature: Signature, port: int) -> bool:
    """Return True if a constraint, or a Python function, may apply to an operand."""
    return any(
        each.bias == port
        if isinstance(each, AccumulatorUniformScale)
        else callable(each)
        for each in signature.constraints or ()
    )


def _is_product(step: PatternStep, ctx: Context, bias: int | None) -> bool:
    """Return True if a step matches a contraction whose bias is not operand `bias`."""
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


# Kernels without ops


def _misspelled_names(
    entry: TomlTable, kernel: KernelSpec, extended: Mapping[str, KernelSpec]
) -> Iterator[str]:
    """Yield a warning if a kernel without ops seems to repeat another target's name."""
    if kernel.patterns or kernel.name in extended:
        return
    for name in get_close_matches(kernel.name, extended, 1):
        yield (
            f"{entry.location('name', kernel.name)}: warning: kernel without ops, found "
            f"'{kernel.name}', which no target in 'extends' has; use '{name}', or add 'ops'"
        )


# Unreachable patterns and signatures


def _unused_signatures(entry: TomlTable, kernel: KernelSpec) -> Iterator[str]:
    for index, signature in enumerate(kernel.signatures):
        earlier = enumerate(kernel.signatures[:index])
        number = next((i for i, each in earlier if each.covers(signature)), None)
        if number is not None:
            table = entry.tables("signatures")[index]
            yield (
                f"{table.location()}: warning: unreachable signature, found it after "
                f"signature {number} of the kernel, which matches the same ports; remove "
                "one of them, or change their order"
            )


def _shadows(
    earlier_kernel: KernelSpec,
    earlier_pattern: OpPattern | MatchFn,
    kernel: KernelSpec,
    pattern: OpPattern | MatchFn,
) -> bool:
    """Return True if an earlier kernel takes all matches of a kernel's pattern."""
    return _covers_pattern(earlier_pattern, pattern) and all(
        any(earlier.covers(signature) for earlier in earlier_kernel.signatures)
        for signature in kernel.signatures
    )


def _covers_pattern(earlier: OpPattern | MatchFn, pattern: OpPattern | MatchFn) -> bool:
    """Return True if a pattern matches all ops that a later one matches."""
    if not isinstance(earlier, OpPattern) or not isinstance(pattern, OpPattern):
        return earlier is pattern
    return all(
        any(
            len(steps) == len(others)
            and all(
                # A name without a region matches the op with any region.
                {*other.names} & {name, name.partition("[")[0]}
                for step, other in zip(steps, others, strict=True)
                for name in step.names
            )
            for others in without_options(earlier.steps)
        )
        for steps in without_options(pattern.steps)
    )
