"""What propagation decided, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from xdsl_quant.diagnostics import table


@dataclass(frozen=True)
class Rescale:
    """A use of a value with other parameters than those with which it is computed."""

    kernel: str
    """The kernel that uses the value."""

    operand: int
    """The number of the operand."""

    parameters: str
    """The type with the parameters that the kernel needs."""

    decided_by: str
    """The constraint that made the difference, and the kernel whose constraint it is."""


@dataclass(frozen=True)
class ValueReport:
    """What is known of a value at the ports of kernels."""

    function: str
    """The name of the function."""

    name: str
    """The name of the value in the text of the function."""

    type: str
    """The type of the value, which propagation does not change."""

    kernel: str | None
    """The kernel that computes the value; `None` for arguments and other ops."""

    parameters: str | None
    """The type with the parameters; `None` if the value stays in floating point."""

    decided_by: str | None
    """The constraint that decided them, and the kernel whose constraint it is."""

    float_reason: str | None
    """Why the value stays in floating point, if it does."""

    rescales: Sequence[Rescale] = ()
    """The uses with other parameters."""


@dataclass(frozen=True)
class KernelReport:
    """A kernel that stays in floating point."""

    function: str
    """The name of the function."""

    kernel: str
    """The name of the kernel."""

    value: str
    """The name of its first result in the text of the function."""

    location: str
    """The location of the kernel; empty if it is not known."""

    float_reason: str
    """Why it stays in floating point."""


@dataclass(frozen=True)
class OpReport:
    """An op of floats that is in no kernel."""

    function: str
    """The name of the function."""

    op: str
    """The name of the op."""

    value: str
    """The name of its first result in the text of the function; `-` if it has none."""

    location: str
    """The location of the op; empty if it is not known."""


@dataclass(frozen=True)
class PropagationReport:
    """
    What propagation decided: every value at the ports of kernels in the order of the text,
    kernels that stay in floating point, ops of floats that are in no kernel, and functions
    that were duplicated.
    """

    target: str
    """The name of the target."""

    values: Sequence[ValueReport]
    float_kernels: Sequence[KernelReport] = ()
    float_ops: Sequence[OpReport] = ()
    duplicates: Mapping[str, str] = field(default_factory=dict[str, str])
    """The names of new functions, with those of the functions that they are copies of."""

    @property
    def rescales(self) -> Sequence[tuple[ValueReport, Rescale]]:
        """The conflicts: values with the uses that need other parameters."""
        return [(value, rescale) for value in self.values for rescale in value.rescales]

    @property
    def float_values(self) -> Sequence[ValueReport]:
        """The values that stay in floating point."""
        return [value for value in self.values if value.parameters is None]

    def json(self) -> str:
        """The report as JSON: objects whose keys are the fields of these classes."""
        return json.dumps(asdict(self), indent=2) + "\n"

    def __str__(self) -> str:
        """The report as tables, one for each function."""
        decided = len(self.values) - len(self.float_values)
        lines = [
            f"target {self.target}, quantized values: {decided} of {len(self.values)}, "
            f"rescales: {len(self.rescales)}, kernels in floating point: "
            f"{len(self.float_kernels)}, ops in no kernel: {len(self.float_ops)}"
        ]
        by_function: dict[str, list[Sequence[str]]] = {}
        for value in self.values:
            rows = by_function.setdefault(
                value.function,
                [("value", "type", "kernel", "parameters", "decided by")],
            )
            rows += _report_rows(value)
        for function, rows in by_function.items():
            lines += ["", f"@{function}", *table(rows)]
        if self.float_kernels:
            rows = [
                (k.location or f"@{k.function}", k.value, k.kernel, k.float_reason)
                for k in self.float_kernels
            ]
            lines += ["", "kernels that stay in floating point", *table(rows)]
        if self.float_ops:
            rows = [
                (op.location or f"@{op.function}", op.value, op.op)
                for op in self.float_ops
            ]
            lines += ["", "ops in no kernel", *table(rows)]
        if self.duplicates:
            rows = [(f"@{a}", f"copy of @{b}") for a, b in self.duplicates.items()]
            lines += ["", "duplicated functions", *table(rows)]
        return "\n".join(lines) + "\n"


def _report_rows(value: ValueReport) -> Sequence[Sequence[str]]:
    is_float = value.parameters is None
    return [
        (
            value.name,
            value.type,
            value.kernel or "-",
            "float" if value.parameters is None else _shortened(value.parameters),
            (value.float_reason if is_float else value.decided_by) or "",
        ),
        *(
            (
                "  rescale",
                "",
                f"{rescale.kernel}, operand {rescale.operand}",
                _shortened(rescale.parameters),
                rescale.decided_by,
            )
            for rescale in value.rescales
        ),
    ]


_SHOWN_SCALES = 2


def _shortened(parameters: str) -> str:
    """A type in a table, with the first of many scales."""
    start, brace, rest = parameters.partition("{")
    scales = rest.split(",")
    if len(scales) <= _SHOWN_SCALES:
        return parameters
    return f"{start}{brace}{scales[0]}, ... {len(scales)} in all}}>"
