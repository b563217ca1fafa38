"""The command `xdsl-quant target`: checks of hardware targets."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import UnregisteredOp

from xdsl_quant.diagnostics import table
from xdsl_quant.dialects.quant.traits import quantization_traits
from xdsl_quant.inspecting.target_checks import check_target
from xdsl_quant.runtime.loading import multiverse_context
from xdsl_quant.transforms.propagation.target_extensions import target_extensions
from xdsl_quant.transforms.propagation.target_files import (
    CONSTRAINTS,
    TargetError,
    read_target,
    target_file,
)
from xdsl_quant.transforms.propagation.target_spec import (
    KernelSpec,
    OpPattern,
    Port,
    Signature,
)

from .commands import parse_arguments
from .failures import UsageError, exit_code, naming_failures

_HEADER = ("kernel", "ops", "inputs", "outputs", "constraints")


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return exit_code(_check_or_list, parse_arguments("target", args))


def _check_or_list(options: argparse.Namespace) -> None:
    is_list = options.action == "list"
    if is_list != (options.module is None):
        found = "unexpected" if is_list else "missing"
        raise UsageError(f"target {options.action}: error: {found} TARGET")
    with naming_failures(options.module or "targets", TargetError, ValueError):
        if is_list:
            targets = [
                read_target(name) for name in sorted(target_extensions().targets)
            ]
            rows = [(target.name, target.description) for target in targets]
            print("\n".join(table(rows)))
            return
        target = read_target(options.module)
        ctx = multiverse_context()
        warnings = check_target(target_file(options.module), ctx)
    for warning in warnings:
        print(warning, file=sys.stderr)
    count = len(target.kernels)
    print(f"{target.name}: {target.description}" if target.description else target.name)
    print(
        f"{count} kernel{'s' if count != 1 else ''}, ranges by the rule "
        f"'{target.range_rule}'\n"
    )
    rows = [
        _signature_row(kernel, signature, ctx)
        for kernel in target.kernels.values()
        for signature in kernel.signatures
    ]
    print("\n".join(table([_HEADER, *rows])))


def _signature_row(
    kernel: KernelSpec, signature: Signature, ctx: Context
) -> Sequence[str]:
    patterns = " or ".join(
        _pattern_text(each) if isinstance(each, OpPattern) else f"{each.__name__}()"
        for each in kernel.patterns
    )
    if signature.constraints is None:
        op_name = _only_op(kernel)
        traits = () if op_name is None else _traits(op_name, ctx)
        constraints = f"({', '.join(map(_constraint_text, traits)) or '-'})"
    else:
        constraints = ", ".join(map(_constraint_text, signature.constraints)) or "-"
    return (
        kernel.name,
        "" if patterns == kernel.name else patterns or "-",
        _ports_text(signature.inputs, signature.is_variadic),
        _ports_text(signature.outputs, signature.has_variadic_results),
        constraints,
    )


def _pattern_text(pattern: OpPattern) -> str:
    return " -> ".join(
        "|".join(step.names) + ("?" if step.is_optional else "")
        for step in pattern.steps
    )


def _ports_text(ports: Sequence[Port], is_variadic: bool) -> str:
    return ", ".join(
        [*(port.text for port in ports), *(["..."] if is_variadic else [])]
    )


def _constraint_text(constraint: Any) -> str:
    """Return the name of a constraint, and its fields that differ from their default."""
    for name, constraint_type in CONSTRAINTS.items():
        if isinstance(constraint, constraint_type):
            break
    else:
        return f"{constraint.__name__}()"
    arguments = (
        f"{each.name.replace('_', '-')}={_argument_text(value)}"
        for each in fields(constraint_type)
        if (value := getattr(constraint, each.name)) != each.default
        or each.default is MISSING
    )
    return " ".join((name, *arguments))


def _argument_text(value: object) -> str:
    if isinstance(value, tuple):
        return "/".join(map(str, cast("tuple[object, ...]", value)))
    return str(value)


# Ops


def _only_op(kernel: KernelSpec) -> str | None:
    """Return the only op of a kernel, or `None` if it has several."""
    names = {
        name
        for pattern in kernel.patterns
        if isinstance(pattern, OpPattern)
        for step in pattern.steps
        for name in step.names
    }
    return next(iter(names)) if len(names) == 1 else None


def _traits(op_name: str, ctx: Context) -> Sequence[object]:
    """Return the traits of an op that target files can express as constraints."""
    op_name, _, _ = op_name.partition("[")
    op_type = ctx.get_optional_op(op_name) or UnregisteredOp
    kinds = tuple(CONSTRAINTS.values())
    return [
        trait
        for trait in quantization_traits(op_type, op_name)
        if isinstance(trait, kinds)
    ]


if __name__ == "__main__":
    sys.exit(main())
