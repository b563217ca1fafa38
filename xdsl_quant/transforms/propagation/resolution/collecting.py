"""The kernels of a module, the values at their ports, and what is said about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import ConstantLike

from xdsl_quant.dialects.quant.regions import RegionOp
from xdsl_quant.dialects.quant.types import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    NoQuantizedType,
    UniformType,
    scalar_or_element_type,
)

from ..coupled_ports import COUPLED_PORTS, coupled_ports
from ..kernel_matching import is_constant
from ..module_kernels import fitting_signature, ops_outside_kernels
from ..port_ranges import PORT_STATS, port_ranges
from ..target_spec import KernelSpec, TargetSpec
from .kernels import Decision, Kernel, Value, constraints_of, port_name


@dataclass
class Graph:
    """The kernels of a module that a target has, and the values at their ports."""

    items: list[Kernel | Value] = field(default_factory=list["Kernel | Value"])
    """Kernels and constants, in the order of the text."""

    values: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])
    """The values that are no constants, in the order of the text."""

    float_kernels: list[tuple[RegionOp, str]] = field(
        default_factory=list["tuple[RegionOp, str]"]
    )
    """The kernels that stay as they are, and why."""

    @property
    def kernels(self) -> Sequence[Kernel]:
        return [item for item in self.items if isinstance(item, Kernel)]

    @property
    def all_values(self) -> Sequence[Value]:
        """The values at the ports of kernels of the target, with those of constants."""
        constants = [item for item in self.items if isinstance(item, Value)]
        return [*self.values.values(), *constants]


class _Sources:
    """Where values come from, through calls of functions that are called once."""

    def __init__(self, calls: Mapping[CallOp, FuncOp]):
        self._callees = calls
        self._callers = {function.body.block: call for call, function in calls.items()}

    def __call__(self, value: SSAValue) -> SSAValue:
        while (source := self._next(value)) is not None:
            value = source
        return value

    def _next(self, value: SSAValue) -> SSAValue | None:
        owner = value.owner
        if isinstance(owner, Block):
            call = self._callers.get(owner)
            assert isinstance(value, BlockArgument)
            return None if call is None else call.operands[value.index]
        function = self._callees.get(owner) if isinstance(owner, CallOp) else None
        if function is None or len(function.body.blocks) != 1:
            return None
        end = function.body.block.last_op
        assert isinstance(value, OpResult)
        return end.operands[value.index] if isinstance(end, ReturnOp) else None


def collect(
    module: ModuleOp, target: TargetSpec, calls: Mapping[CallOp, FuncOp]
) -> Graph:
    """
    The kernels and values of a module, with what specifications say about them.

    Args:
        module: it is not changed.
        target: what its kernels are.
        calls: calls of functions that are called only there: their arguments are the
            operands of the call, and its results are what they return.
    """
    graph, source = Graph(), _Sources(calls)
    ops = [*ops_outside_kernels(module)]
    unquantized = {
        source(value): spec
        for op in ops
        if isinstance(op, RegionOp)
        for value, spec in zip((*op.inputs, *op.results), op.specs, strict=True)
        if isinstance(spec, NoQuantizedType)
    }
    constants: dict[Operation, list[Value]] = {}
    order: list[Kernel | list[Value]] = []
    for op in ops:
        if op.has_trait(ConstantLike):
            order.append(constants.setdefault(op, []))
        if not isinstance(op, RegionOp):
            continue
        kernel = _kernel_of(graph, op, target, unquantized, source)
        if kernel is None:
            continue
        order.append(kernel)
        _connect(graph, kernel, constants, source)
    for entry in order:
        graph.items += [entry] if isinstance(entry, Kernel) else entry
    for value in graph.all_values:
        _read_specs(value)
    _couple(graph)
    return graph


def _couple(graph: Graph) -> None:
    """Find the values of one float type whose ports have one key."""
    by_key: dict[tuple[str, Attribute], list[Value]] = {}
    for kernel in graph.kernels:
        if COUPLED_PORTS not in kernel.op.attributes:
            continue
        for port, key in coupled_ports(kernel.op).items():
            value = kernel.values[port]
            # A constant has the parameters of its content.
            if value is None or value.is_constant or value.coupled:
                continue
            value.coupled = by_key.setdefault((key, value.expressed_type), [])
            value.coupled.append(value)


def _kernel_of(
    graph: Graph,
    op: RegionOp,
    target: TargetSpec,
    unquantized: Mapping[SSAValue, Attribute],
    source: _Sources,
) -> Kernel | None:
    """A kernel with a signature; `None` if the target has none that fits."""
    # The content of a constant says more than a range of it, which any port may ignore.
    specs = [
        spec.expressed_type
        if isinstance(spec, CalibratedQuantizedType) and is_constant(value)
        else unquantized.get(source(value), spec)
        for value, spec in zip((*op.inputs, *op.results), op.specs, strict=True)
    ]
    if (known := target.kernels.get(op.kernel)) is None:
        graph.float_kernels.append(
            (op, f"target '{target.name}' has no kernel '{op.kernel}'")
        )
        return None
    signature = fitting_signature(op, known, specs)
    if signature is None:
        graph.float_kernels.append((op, _misfit(op, known, specs)))
        return None
    ports = [
        replace(port, storage=spec)
        if port.is_wildcard and isinstance(spec, AnyQuantizedType)
        else port
        for port, spec in zip(
            (*signature.inputs, *signature.outputs), specs, strict=True
        )
    ]
    # The ranges of calibrated types are read without arrays.
    ranges = port_ranges(op) if PORT_STATS in op.attributes else {}
    return Kernel(op, ports, constraints_of(op, signature), ranges=ranges)


def _misfit(op: RegionOp, known: KernelSpec, specs: Sequence[Attribute]) -> str:
    """Why no signature fits: because of one specification if there is such a one."""
    count = len(op.inputs)
    types = [
        scalar_or_element_type(type_) for type_ in (*op.operand_types, *op.result_types)
    ]
    subject = f"no signature of kernel '{op.kernel}' has"
    if known.signature(specs[:count], specs[count:]) is not None:
        return f"{subject} ports for operands that are not constant"
    if known.signature(types[:count], types[count:]) is None:
        inputs, outputs = (
            ", ".join(map(str, each)) or "nothing"
            for each in (types[:count], types[count:])
        )
        return f"{subject} operands of {inputs} and results of {outputs}"
    for port, spec in enumerate(specs):
        alone = [*types[:port], spec, *types[port + 1 :]]
        if known.signature(alone[:count], alone[count:]) is None:
            return f"{subject} {port_name(op, port)} as '{spec}'"
    return f"{subject} all of these specifications"


def _connect(
    graph: Graph,
    kernel: Kernel,
    constants: dict[Operation, list[Value]],
    source: _Sources,
) -> None:
    """Find or make the values at the ports of a kernel."""
    op = kernel.op
    for port, ssa in enumerate((*op.inputs, *op.results)):
        is_float = isinstance(scalar_or_element_type(ssa.type), AnyFloat)
        if kernel.ports[port].storage is None or not is_float:
            kernel.values.append(None)
            continue
        ssa = source(ssa)
        owner = ssa.owner
        if isinstance(owner, Operation) and owner.has_trait(ConstantLike):
            value = _new_constant(ssa, constants.setdefault(owner, []))
        else:
            value = graph.values.get(ssa)
            if value is None:
                value = graph.values[ssa] = Value(ssa)
        if port < kernel.input_count:
            value.users.append((kernel, port))
        else:
            value.producer = kernel, port
        kernel.values.append(value)


def _new_constant(ssa: SSAValue, uses: list[Value]) -> Value:
    """A value for one more use of a constant."""
    value = Value(ssa, is_constant=True)
    uses.append(value)
    return value


def _read_specs(value: Value) -> None:
    """
    What specifications say about a value. That where it is computed counts more than those
    where it is used. There a uniform type is that of the port alone, unless all uses have
    it. The range of a constant is that of its content.
    """
    said = [(kernel, port, kernel.op.specs[port]) for kernel, port in value.ports]
    is_common = value.is_constant or _have_common_spec(value)
    for kernel, port, spec in sorted(
        said,
        key=lambda entry: (
            entry[1] < entry[0].input_count,
            not isinstance(entry[2], UniformType),
        ),
    ):
        is_known = value.parameters is not None or value.range is not None
        ranges = kernel.ranges.get(port)
        found: Sequence[float] | None = None
        if isinstance(spec, CalibratedQuantizedType):
            found = spec.min.data, spec.max.data
        elif ranges is not None:
            found = ranges.layer[0].tolist()
        if found is not None:
            if not is_known and not value.is_constant:
                low, high = found
                value.said = value.range = low, high
                value.ranges = ranges
        elif isinstance(spec, UniformType):
            decision = Decision("specification")
            is_of_value = is_common or port >= kernel.input_count
            if not is_known and is_of_value:
                value.parameters, value.decision = spec, decision
                value.is_immutable = True
            elif value.parameters != spec:
                kernel.rescaled[port] = spec, decision


def _have_common_spec(value: Value) -> bool:
    """True if all uses of a value are in kernels and have one uniform type."""
    specs = {kernel.op.specs[port] for kernel, port in value.users}
    return (
        len(specs) == 1
        and all(isinstance(spec, UniformType) for spec in specs)
        and all(isinstance(x.operation, RegionOp | CallOp) for x in value.ssa.uses)
    )
