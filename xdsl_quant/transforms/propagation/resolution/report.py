"""Report of the decisions of propagation, as tables and as JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import StringIO
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.printer import Printer

from xdsl_quant.diagnostics import location_prefix, op_name, table
from xdsl_quant.dialects.quant.regions import RegionOp
from xdsl_quant.dialects.quant.types import NoQuantizedType, UniformType

from ..kernel_matching import is_constant
from ..module_kernels import (
    float_ops_outside_kernels,
    functions_in_kernels,
    is_float_value,
    ports_of,
)
from .kernels import Graph, Kernel, PortValue
from .writing import conflicts_of


@dataclass(frozen=True)
class PortRescale:
    """Kernel operand that needs a rescale: its parameters are not those of the value."""

    kernel: str

    operand: int

    parameters: str
    """Quantized type that the kernel needs."""

    decided_by: str
    """Constraint that caused the rescale, and its kernel."""


Rescale = PortRescale
"""Former name, kept for compatibility."""


@dataclass(frozen=True)
class ValueReport:
    """Decision about a value at the ports of kernels."""

    function: str

    name: str
    """Name of the value in the printed function."""

    type: str
    """Type of the value, which propagation does not change."""

    kernel: str | None
    """Kernel that computes the value, or `None` for arguments and other ops."""

    parameters: str | None
    """Quantized type, or `None` if the value stays in floating point."""

    decided_by: str | None
    """Constraint that decided the parameters, and its kernel."""

    float_reason: str | None
    """Reason why the value stays in floating point, or `None`."""

    rescales: Sequence[PortRescale] = ()
    """Uses with parameters that differ from `parameters`."""


@dataclass(frozen=True)
class FloatKernelReport:
    """Kernel that stays in floating point."""

    function: str

    kernel: str

    value: str
    """Name of the first result of the kernel in the printed function."""

    location: str
    """Location of the kernel; empty if unknown."""

    float_reason: str
    """Reason why the kernel stays in floating point."""


KernelReport = FloatKernelReport
"""Former name, kept for compatibility."""


@dataclass(frozen=True)
class OpReport:
    """Float op outside of kernels."""

    function: str

    op: str

    value: str
    """Name of the first result in the printed function; `-` without results."""

    location: str
    """Location of the op; empty if unknown."""


@dataclass(frozen=True)
class PropagationReport:
    """
    Decisions of propagation: values at the ports of kernels in textual order, kernels
    in floating point, float ops outside of kernels, and duplicated functions.
    """

    target: str

    values: Sequence[ValueReport]
    float_kernels: Sequence[FloatKernelReport] = ()
    float_ops: Sequence[OpReport] = ()
    duplicates: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of copied functions, with the names of their originals."""

    @property
    def rescales(self) -> Sequence[tuple[ValueReport, PortRescale]]:
        """Pairs of a value and one of its rescales."""
        return [(value, rescale) for value in self.values for rescale in value.rescales]

    @property
    def float_values(self) -> Sequence[ValueReport]:
        """Values that stay in floating point."""
        return [value for value in self.values if value.parameters is None]

    def json(self) -> str:
        """Return the report as JSON objects, with fields as keys."""
        return json.dumps(asdict(self), indent=2) + "\n"

    def __str__(self) -> str:
        """Return the report as one table per function."""
        decided = len(self.values) - len(self.float_values)
        lines = [
            f"target {self.target}, quantized values: {decided} of {len(self.values)}, "
            f"rescales: {len(self.rescales)}, kernels in floating point: "
            f"{len(self.float_kernels)}, ops in no kernel: {len(self.float_ops)}"
        ]
        header = "value", "type", "kernel", "parameters", "decided by"
        tables: dict[str, list[Sequence[str]]] = {}
        for value in self.values:
            rows = tables.setdefault(f"@{value.function}", [header])
            rows += _report_rows(value)
        tables["kernels that stay in floating point"] = [
            (k.location or f"@{k.function}", k.value, k.kernel, k.float_reason)
            for k in self.float_kernels
        ]
        tables["ops in no kernel"] = [
            (op.location or f"@{op.function}", op.value, op.op) for op in self.float_ops
        ]
        tables["duplicated functions"] = [
            (f"@{copy}", f"copy of @{root}") for copy, root in self.duplicates.items()
        ]
        for title, rows in tables.items():
            lines += ["", title, *table(rows)] if rows else []
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
    """Shorten a type for a table: list only the first of more than two scales."""
    start, brace, rest = parameters.partition("{")
    scales = rest.split(",")
    if len(scales) <= _SHOWN_SCALES:
        return parameters
    return f"{start}{brace}{scales[0]}, ... {len(scales)} in all}}>"


# Construction of the report


def build_report(
    module: ModuleOp, target: str, graph: Graph, copies: Mapping[FuncOp, FuncOp]
) -> PropagationReport:
    """
    Build the report of a propagation.

    Args:
        module: the module after propagation.
        target: the name of the target.
        graph: the decisions.
        copies: the duplicated functions with their originals.
    """
    description, in_kernels = _Description(graph), functions_in_kernels(module)
    for top in module.body.block.ops:
        if top not in in_kernels:
            description.add(top)
    return PropagationReport(
        target,
        description.values,
        description.float_kernels,
        description.float_ops,
        {copy.sym_name.data: root.sym_name.data for copy, root in copies.items()},
    )


def undecided_port(kernel: Kernel) -> str | None:
    """Return the name of a port that keeps a kernel in floating point."""
    undecided = (
        kernel.port_name(port)
        for port, (ssa, spec) in enumerate(ports_of(kernel.op))
        if kernel.values[port] is not None
        and not isinstance(spec, UniformType)
        and not is_constant(ssa)
    )
    return next(undecided, None)


_OpPort: TypeAlias = tuple[RegionOp, int]


class _Description:
    """Builder that collects the entries of the report."""

    def __init__(self, graph: Graph):
        self.values: list[ValueReport] = []
        self.float_kernels: list[FloatKernelReport] = []
        self.float_ops: list[OpReport] = []
        self._kernels = {kernel.op: kernel for kernel in graph.kernels}
        self._reasons = dict(graph.float_kernels)
        self._conflicts = {
            (conflict.kernel, conflict.port): conflict
            for conflict in conflicts_of(graph.all_values)
        }

    def add(self, top: Operation) -> None:
        """Add the values and kernels of a function."""
        function = top.sym_name.data if isinstance(top, FuncOp) else ""
        regions = [op for op in top.walk() if isinstance(op, RegionOp)]
        names = dict(value_names(top))
        ports: dict[SSAValue, list[_OpPort]] = {}
        for op in regions:
            for port, ssa in enumerate((*op.inputs, *op.results)):
                if is_float_value(ssa):
                    ports.setdefault(ssa, []).append((op, port))
            reason = self._reasons.get(op)
            if reason is None and (port := undecided_port(self._kernels[op])):
                reason = f"{port} has no parameters"
            if reason is not None:
                name, place = names[op.results[0]], _place_text(op)
                kernel = FloatKernelReport(function, op.kernel, name, place, reason)
                self.float_kernels.append(kernel)
        for op in float_ops_outside_kernels(top):
            name = names[op.results[0]] if op.results else "-"
            report = OpReport(function, op_name(op), name, _place_text(op))
            self.float_ops.append(report)
        for ssa, name in names.items():
            if ssa in ports:
                self.values.append(self._value(function, name, ssa, ports[ssa]))

    def _value(
        self, function: str, name: str, ssa: SSAValue, ports: Sequence[_OpPort]
    ) -> ValueReport:
        known = [
            (kernel, port)
            for op, port in ports
            if (kernel := self._kernels.get(op)) is not None
            and kernel.values[port] is not None
        ]
        # Producers come first: their parameters are those of the value.
        known.sort(key=lambda entry: entry[1] < entry[0].input_count)
        parameters, decision = _decision(*known[0]) if known else (None, None)
        return ValueReport(
            function,
            name,
            str(ssa.type),
            owner.kernel if isinstance(owner := ssa.owner, RegionOp) else None,
            None if parameters is None else str(parameters),
            decision,
            None if parameters is not None else self._float_reason(ports, known),
            [
                PortRescale(kernel.name, port, str(change.after), change.decision)
                for kernel, port in known
                if (change := self._conflicts.get((kernel, port))) is not None
            ],
        )

    def _float_reason(
        self, ports: Sequence[_OpPort], known: Sequence[tuple[Kernel, int]]
    ) -> str:
        """Return the reason why a value has no parameters."""
        for op, port in ports:
            if isinstance(op.specs[port], NoQuantizedType):
                return f"kept by '{op.specs[port]}'"
        values = (kernel.values[port] for kernel, port in known)
        reasons = (value.float_reason for value in values if value is not None)
        default = "its ports are not quantized"
        if known:
            default = "no statistics, and no constraint sets its parameters"
        else:
            reasons = (self._reasons.get(op) for op, _ in ports)
        return next(filter(None, reasons), default)


def _place_text(op: Operation) -> str:
    return location_prefix(op.location).removesuffix(": ")


def _decision(kernel: Kernel, port: int) -> tuple[object, str | None]:
    value = kernel.values[port]
    assert isinstance(value, PortValue)
    is_computed = port >= kernel.input_count
    # Parameters of a port are those of its value only for producers and constants.
    if port in kernel.rescaled and (is_computed or value.is_constant):
        return kernel.rescaled[port]
    return value.parameters, value.decision


def name_of(value: SSAValue) -> str:
    """Return the name of a value in its printed function."""
    owner = value.owner
    top = owner if isinstance(owner, Operation) else owner.parent_op()
    assert top is not None
    while (parent := top.parent_op()) is not None and not isinstance(parent, ModuleOp):
        top = parent
    return next(name for ssa, name in value_names(top) if ssa is value)


def value_names(top: Operation) -> Iterator[tuple[SSAValue, str]]:
    """Yield the values of a function outside of kernels, with their printed names."""
    printer = Printer(StringIO())
    for value in _values_outside_kernels(top):
        yield value, f"%{printer.print_ssa_value(value)}"


def _values_outside_kernels(op: Operation) -> Iterator[SSAValue]:
    yield from op.results
    if isinstance(op, RegionOp):
        return
    blocks = [block for region in op.regions for block in region.blocks]
    for block in blocks:
        yield from block.args
    for block in blocks:
        for inner in block.ops:
            yield from _values_outside_kernels(inner)
