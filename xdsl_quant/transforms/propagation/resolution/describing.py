"""The report of a propagation, from what it decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from io import StringIO

from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.printer import Printer

from xdsl_quant.diagnostics import location_prefix, op_name
from xdsl_quant.dialects.quant.regions import RegionOp
from xdsl_quant.dialects.quant.types import (
    NoQuantizedType,
    UniformType,
    scalar_or_element_type,
)

from ..kernel_matching import is_constant
from ..module_kernels import float_ops_of
from .collecting import Graph
from .kernels import Decision, Kernel, Value
from .report import (
    KernelReport,
    OpReport,
    PropagationReport,
    Rescale,
    ValueReport,
)
from .writing import conflicts_of


def describe(
    module: ModuleOp, target: str, graph: Graph, copies: Mapping[FuncOp, FuncOp]
) -> PropagationReport:
    """
    The report of a propagation.

    Args:
        module: the result.
        target: the name of the target.
        graph: what was decided.
        copies: functions that were duplicated, with what they are copies of.
    """
    description = _Description(graph)
    for top in module.body.block.ops:
        description.add(top)
    return PropagationReport(
        target,
        description.values,
        description.float_kernels,
        description.float_ops,
        {copy.sym_name.data: root.sym_name.data for copy, root in copies.items()},
    )


def undecided_port(kernel: Kernel) -> str | None:
    """
    The first port without parameters, e.g. `operand 0`, for which a kernel stays in
    floating point; `None` if it need not.
    """
    op = kernel.op
    for port, ssa in enumerate((*op.inputs, *op.results)):
        if (
            kernel.values[port] is not None
            and not isinstance(op.specs[port], UniformType)
            and not is_constant(ssa)
        ):
            return kernel.port_name(port)
    return None


class _Description:
    """The values and kernels that were described so far."""

    def __init__(self, graph: Graph):
        self.values: list[ValueReport] = []
        self.float_kernels: list[KernelReport] = []
        self.float_ops: list[OpReport] = []
        self._kernels = {kernel.op: kernel for kernel in graph.kernels}
        self._reasons = dict(graph.float_kernels)
        self._conflicts = {
            (conflict.kernel, conflict.port): conflict
            for conflict in conflicts_of(graph.all_values)
        }

    def add(self, top: Operation) -> None:
        """Describe the values and kernels of a function."""
        function = top.sym_name.data if isinstance(top, FuncOp) else ""
        regions = [op for op in top.walk() if isinstance(op, RegionOp)]
        names = dict(value_names(top))
        ports: dict[SSAValue, list[tuple[RegionOp, int]]] = {}
        for op in regions:
            for port, ssa in enumerate((*op.inputs, *op.results)):
                if isinstance(scalar_or_element_type(ssa.type), AnyFloat):
                    ports.setdefault(ssa, []).append((op, port))
            reason = self._reasons.get(op)
            if reason is None and (port := undecided_port(self._kernels[op])):
                reason = f"{port} has no parameters"
            if reason is not None:
                self.float_kernels.append(
                    KernelReport(
                        function,
                        op.kernel,
                        names[op.results[0]],
                        _place_text(op),
                        reason,
                    )
                )
        self.float_ops += [
            OpReport(
                function,
                op_name(op),
                names[op.results[0]] if op.results else "-",
                _place_text(op),
            )
            for op in float_ops_of(top)
        ]
        for ssa, name in names.items():
            if ssa in ports:
                self.values.append(self._value(function, name, ssa, ports[ssa]))

    def _value(
        self,
        function: str,
        name: str,
        ssa: SSAValue,
        ports: Sequence[tuple[RegionOp, int]],
    ) -> ValueReport:
        known = [
            (kernel, port)
            for op, port in ports
            if (kernel := self._kernels.get(op)) is not None
            and kernel.values[port] is not None
        ]
        # A value is computed before it is used.
        known.sort(key=lambda entry: entry[1] < entry[0].input_count)
        parameters, decision = None, None
        if known:
            parameters, decision = _decision_text(*known[0], ssa)
        return ValueReport(
            function,
            name,
            str(ssa.type),
            owner.kernel if isinstance(owner := ssa.owner, RegionOp) else None,
            None if parameters is None else str(parameters),
            None if decision is None else str(decision),
            None if parameters is not None else self._float_reason(ports, known),
            [
                Rescale(
                    kernel.name,
                    port,
                    str(conflict.after),
                    str(conflict.decision),
                )
                for kernel, port in known
                if (conflict := self._conflicts.get((kernel, port))) is not None
            ],
        )

    def _float_reason(
        self,
        ports: Sequence[tuple[RegionOp, int]],
        known: Sequence[tuple[Kernel, int]],
    ) -> str:
        """Why a value has no parameters."""
        for op, port in ports:
            if isinstance(op.specs[port], NoQuantizedType):
                return f"kept by '{op.specs[port]}'"
        for kernel, port in known:
            value = kernel.values[port]
            if value is not None and value.float_reason is not None:
                return value.float_reason
        if known:
            return "no statistics, and no constraint decides it"
        for op, _ in ports:
            if (reason := self._reasons.get(op)) is not None:
                return reason
        return "its ports are not quantized"


def _place_text(op: Operation) -> str:
    return location_prefix(op.location).removesuffix(": ")


def _decision_text(
    kernel: Kernel, port: int, ssa: SSAValue
) -> tuple[object, Decision | None]:
    """The parameters of a value, and why it has them."""
    value = kernel.values[port]
    assert isinstance(value, Value)
    is_computed = port >= kernel.input_count
    # Only where a value is computed, or for a constant, the port counts for all of it.
    if port in kernel.rescaled and (is_computed or value.is_constant):
        return kernel.rescaled[port]
    return value.parameters, value.decision


def name_of(value: SSAValue) -> str:
    """The name of a value in the text of its function."""
    owner = value.owner
    top = owner if isinstance(owner, Operation) else owner.parent_op()
    assert top is not None
    while (parent := top.parent_op()) is not None and not isinstance(parent, ModuleOp):
        top = parent
    return next(name for ssa, name in value_names(top) if ssa is value)


def value_names(top: Operation) -> Iterator[tuple[SSAValue, str]]:
    """The values of a function but for those in kernels, with the names of the text."""
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
