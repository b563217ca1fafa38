"""State of kernels and values during propagation, initialized from specifications."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import ConstantLike

from xdsl_quant.diagnostics import location_prefix, warn
from xdsl_quant.dialects.quant import BlockScaledQuantizedType, traits
from xdsl_quant.dialects.quant.regions import RegionOp
from xdsl_quant.dialects.quant.traits import quantization_trait
from xdsl_quant.dialects.quant.types import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    NoQuantizedType,
    UniformType,
    scalar_or_element_type,
)
from xdsl_quant.numerics import RangeRule
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.transforms.statistics.ranges.float_constants import float_numbers
from xdsl_quant.transforms.statistics.ranges.value_ranges import ValueRanges

from ..kernel_matching import is_constant
from ..module_kernels import (
    fitting_signature,
    is_float_value,
    ops_outside_kernels,
    ports_of,
)
from ..port_ranges import COUPLED_PORTS, PORT_STATS, coupled_ports, port_ranges
from ..target_spec import (
    CoefficientOfOp,
    KernelSpec,
    MultiplierUniformScale,
    Port,
    PowerOfTwoScale,
    QuantFn,
    Signature,
    TargetSpec,
)
from .parameters import ParameterChoice

Range: TypeAlias = tuple[float, float]
"""Minimum and maximum."""


SPECIFICATION = "specification"
"""Decision text for parameters that were specified before propagation."""


@dataclass(eq=False, slots=True, repr=False)
class PortValue:
    """State of a value at all its ports. Each use of a constant has its own state."""

    ssa: SSAValue
    producer: tuple[Kernel, int] | None = None

    users: list[tuple[Kernel, int]] = field(default_factory=list["tuple[Kernel, int]"])
    """Kernels and ports that use the value, in textual order."""

    is_constant: bool = False

    observed: Range | None = None
    """Range of the elements from statistics."""

    range: Range | None = None
    """Range for choosing parameters: from statistics, or widened by other values."""

    ranges: ValueRanges | None = None
    """Statistics with per-axis ranges."""

    coupled: list[PortValue] = field(default_factory=list["PortValue"])
    """Values with the same parameters, this one included; empty if uncoupled."""

    parameters: UniformType | None = None
    is_immutable: bool = False
    """True if the parameters come from a specification or statistics."""

    decision: str | None = None
    """Origin of the parameters, e.g. `statistics` or `bias of k` for a kernel `k`."""

    float_reason: str | None = None
    """Reason for the lack of parameters."""

    @property
    def expressed_type(self) -> AnyFloat:
        return cast(AnyFloat, scalar_or_element_type(self.ssa.type))

    def content(self) -> Array:
        """
        Return the elements of a constant.

        Raises:
            ValueError: if the elements are unavailable, or NumPy lacks the float type.
            ImportError: if the type needs a package that is not installed.
        """
        op = self.ssa.owner
        assert isinstance(op, Operation)
        numbers = float_numbers(op.properties.get("value", op.attributes.get("value")))
        if numbers is None:
            raise ValueError("the elements of the constant are unavailable")
        return np.asarray(numbers)

    @property
    def ports(self) -> Sequence[tuple[Kernel, int]]:
        """Ports that compute or use the value."""
        return [*(() if self.producer is None else (self.producer,)), *self.users]


@dataclass
class Constraints:
    """Constraints between the ports of a kernel, numbered as in `Kernel`."""

    is_same_scale: bool = False
    is_power_of_two: bool = False
    fixed: dict[int, traits.FixedResultUniformScale] = field(
        default_factory=dict[int, traits.FixedResultUniformScale]
    )
    """Traits of results with a fixed range, by port."""

    products: list[tuple[int, Sequence[int]]] = field(
        default_factory=list[tuple[int, Sequence[int]]]
    )
    """Pairs of a result port and the ports of its factors, whose scales multiply."""

    biases: list[tuple[int, Sequence[int]]] = field(
        default_factory=list[tuple[int, Sequence[int]]]
    )
    """Pairs of a bias port and the ports of the factors, whose scales multiply."""

    coefficients: dict[int, int | None] = field(default_factory=dict[int, "int | None"])
    """Maps weight ports to the dimension along which their scales may differ."""

    functions: list[QuantFn] = field(default_factory=list[QuantFn])


@dataclass(eq=False, slots=True, repr=False)
class Kernel:
    """Kernel of the target. Port numbers count operands, then results."""

    op: RegionOp
    ports: Sequence[Port]
    constraints: Constraints
    values: list[PortValue | None] = field(default_factory=list["PortValue | None"])
    """Value at each port, or `None` for an unquantized port."""

    rescaled: dict[int, tuple[UniformType, str]] = field(
        default_factory=dict[int, tuple[UniformType, str]]
    )
    """Maps ports whose value is rescaled to the port's parameters and decision text."""

    ranges: Mapping[int, ValueRanges] = field(default_factory=dict[int, ValueRanges])
    """Ranges from the attribute `quant.port_stats` by port."""

    is_done: bool = False

    @property
    def name(self) -> str:
        return self.op.kernel

    @property
    def input_count(self) -> int:
        return len(self.op.inputs)

    @property
    def inputs(self) -> range:
        """Port numbers of operands."""
        return range(self.input_count)

    @property
    def outputs(self) -> range:
        """Port numbers of results."""
        return range(self.input_count, len(self.ports))

    def parameters(self, port: int) -> UniformType | None:
        """Return the parameters at a port, or `None` if unknown."""
        if port in self.rescaled:
            return self.rescaled[port][0]
        value = self.values[port]
        return None if value is None else value.parameters

    def accepts(self, port: int, parameters: UniformType) -> bool:
        """Return True if a port accepts parameters, independently of other ports."""
        return self.ports[port].accepts(parameters) and (
            not self.constraints.is_power_of_two
            or all(math.frexp(scale)[0] == 0.5 for scale in parameters.scale_array())
        )

    def decision(self, port: int) -> str:
        """Return the reason for the parameters of a port."""
        value = self.values[port]
        assert value is not None
        _, decision = self.rescaled.get(port, (None, value.decision))
        assert decision is not None
        return decision

    def choice(self, port: int, rule: RangeRule) -> ParameterChoice:
        """Return the settings for choosing parameters of a port."""
        value, storage = self.values[port], self.ports[port].storage
        assert value is not None
        assert storage is not None
        return ParameterChoice(
            storage,
            value.expressed_type,
            rule,
            self.ports[port].zero_point is not None,
            self.constraints.is_power_of_two,
            self.ports[port].block_sizes,
        )

    def port_name(self, port: int) -> str:
        return port_name(self.op, port)

    def port_text(self, port: int) -> str:
        """Return a port and its kernel in words, e.g. `operand 1 of kernel 'k'`."""
        return f"{self.port_name(port)} of kernel '{self.name}'"

    def rule_text(self, rule: str) -> str:
        """Return the decision text for a rule of the kernel, e.g. `bias of k`."""
        return f"{rule} of {self.name}"

    def warn(self, message: str) -> None:
        """Print a warning with the kernel's location on standard error."""
        warn(message, location_prefix(self.op.location))


def port_name(op: RegionOp, port: int) -> str:
    """Return the name of a port, e.g. `operand 1`."""
    count = len(op.inputs)
    return f"operand {port}" if port < count else f"result {port - count}"


# Constraints


def constraints_of(op: RegionOp, signature: Signature) -> Constraints:
    """Return the constraints of a signature; by default, of the kernel's op traits."""
    if signature.constraints is None:
        return _constraints_of_ops(op)
    count, constraints = len(op.inputs), Constraints()
    for constraint in signature.constraints:
        match constraint:
            case traits.SameOperandsAndResultsScale():
                constraints.is_same_scale = True
            case PowerOfTwoScale():
                constraints.is_power_of_two = True
            case traits.FixedResultUniformScale() as trait:
                constraints.fixed |= {count + i: trait for i in range(len(op.results))}
            case MultiplierUniformScale(result, factors):
                constraints.products.append((count + result, factors))
            case traits.AccumulatorUniformScale() as trait:
                if trait.bias < count:
                    constraints.biases.append((trait.bias, trait.factors))
            case traits.AffineOpCoefficient() as trait:
                if trait.operand < count:
                    constraints.coefficients[trait.operand] = trait.dimension
            case CoefficientOfOp():
                from_traits = _constraints_of_ops(op).coefficients
                constraints.coefficients = from_traits | constraints.coefficients
            case traits.QuantizationTrait():
                pass
            case _:
                constraints.functions.append(constraint)
    return constraints


def compute_ops(op: RegionOp) -> Sequence[Operation]:
    """Return the ops of a kernel, except constants."""
    *ops, _ = op.body.block.ops
    return [inner for inner in ops if not inner.has_trait(ConstantLike)]


def _operand_port(block: Block, op: Operation, operand: int) -> int | None:
    if operand >= len(op.operands):
        return None
    value = op.operands[operand]
    if isinstance(value, BlockArgument) and value.owner is block:
        return value.index
    return None


def _constraints_of_ops(op: RegionOp) -> Constraints:
    block = op.body.block
    ops = compute_ops(op)
    constraints = Constraints(
        is_same_scale=bool(ops)
        and all(
            quantization_trait(inner, traits.SameOperandsAndResultsScale) is not None
            for inner in ops
        )
    )
    for i, value in enumerate(op.returned_values, len(op.inputs)):
        if isinstance(value.owner, Operation):
            trait = quantization_trait(value.owner, traits.FixedResultUniformScale)
            if trait is not None:
                constraints.fixed[i] = trait
    for inner in ops:
        if (
            bias := quantization_trait(inner, traits.AccumulatorUniformScale)
        ) is not None:
            index = _operand_port(block, inner, bias.bias)
            factors = [_operand_port(block, inner, f) for f in bias.factors]
            known = [factor for factor in factors if factor is not None]
            if index is not None and len(known) == len(factors):
                constraints.biases.append((index, known))
        if (
            weight := quantization_trait(inner, traits.AffineOpCoefficient)
        ) is not None:
            index = _operand_port(block, inner, weight.operand)
            if index is not None:
                constraints.coefficients[index] = weight.dimension_of(inner)
    return constraints


# The kernels and values of a module


@dataclass
class Graph:
    """Kernels of a module that the target supports, and the values at their ports."""

    items: list[Kernel | PortValue] = field(default_factory=list["Kernel | PortValue"])
    """Kernels and constants in textual order."""

    values: dict[SSAValue, PortValue] = field(default_factory=dict[SSAValue, PortValue])
    """State of each non-constant value, in textual order."""

    float_kernels: list[tuple[RegionOp, str]] = field(
        default_factory=list["tuple[RegionOp, str]"]
    )
    """Kernels that stay in floating point, with reasons."""

    @property
    def kernels(self) -> Sequence[Kernel]:
        return [item for item in self.items if isinstance(item, Kernel)]

    @property
    def all_values(self) -> Sequence[PortValue]:
        """Values at the ports of kernels, constants last."""
        constants = [item for item in self.items if isinstance(item, PortValue)]
        return [*self.values.values(), *constants]


_Source: TypeAlias = Callable[[SSAValue], SSAValue]
"""Function that returns the definition of a value, looking through calls."""


def _sources(calls: Mapping[CallOp, FuncOp]) -> _Source:
    callers = {function.body.block: call for call, function in calls.items()}

    def source(value: SSAValue) -> SSAValue:
        match value:
            case BlockArgument() if (call := callers.get(value.owner)) is not None:
                return source(call.operands[value.index])
            case OpResult(op=CallOp() as call) if call in calls:
                body = calls[call].body
                end = body.blocks[0].last_op
                if len(body.blocks) == 1 and isinstance(end, ReturnOp):
                    return source(end.operands[value.index])
            case _:
                pass
        return value

    return source


def build_graph(
    module: ModuleOp, target: TargetSpec, calls: Mapping[CallOp, FuncOp]
) -> Graph:
    """
    Build the graph of a module, with parameters and ranges from specifications.

    Args:
        module: the module, which is not changed.
        target: the target with the kernels.
        calls: calls whose callee has no other caller. A value that such a call passes
            counts as one value in caller and callee.
    """
    graph, source = Graph(), _sources(calls)
    ops = [*ops_outside_kernels(module)]
    unquantized = {
        source(value): spec
        for op in ops
        if isinstance(op, RegionOp)
        for value, spec in ports_of(op)
        if isinstance(spec, NoQuantizedType)
    }
    constants: dict[Operation, list[PortValue]] = {}
    order: list[Kernel | list[PortValue]] = []
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
    _couple_values(graph)
    return graph


def _couple_values(graph: Graph) -> None:
    """Couple values of the same float type whose ports share a key."""
    by_key: dict[tuple[str, Attribute], list[PortValue]] = {}
    for kernel in graph.kernels:
        if COUPLED_PORTS not in kernel.op.attributes:
            continue
        for port, key in coupled_ports(kernel.op).items():
            value = kernel.values[port]
            # A constant gets its parameters from its content.
            if value is None or value.is_constant or value.coupled:
                continue
            value.coupled = by_key.setdefault((key, value.expressed_type), [])
            value.coupled.append(value)


def _kernel_of(
    graph: Graph,
    op: RegionOp,
    target: TargetSpec,
    unquantized: Mapping[SSAValue, Attribute],
    source: _Source,
) -> Kernel | None:
    """Return the kernel, or `None` with a reason in `graph` if no signature matches."""
    # The content of a constant takes precedence over a range, so any port fits it.
    specs = [
        spec.expressed_type
        if isinstance(spec, CalibratedQuantizedType) and is_constant(value)
        else unquantized.get(source(value), spec)
        for value, spec in ports_of(op)
    ]
    if (known := target.kernels.get(op.kernel)) is None:
        reason = f"target '{target.name}' has no kernel '{op.kernel}'"
        graph.float_kernels.append((op, reason))
        return None
    if (signature := fitting_signature(op, known, specs)) is None:
        graph.float_kernels.append((op, _mismatch_reason(op, known, specs)))
        return None
    ports = [
        replace(port, storage=spec)
        if port.is_wildcard and isinstance(spec, AnyQuantizedType)
        else port
        for port, spec in zip(
            (*signature.inputs, *signature.outputs), specs, strict=True
        )
    ]
    # Parsing the attribute costs time, and calibrated types alone do not need it.
    ranges = port_ranges(op) if PORT_STATS in op.attributes else {}
    return Kernel(op, ports, constraints_of(op, signature), ranges=ranges)


def _mismatch_reason(
    op: RegionOp, known: KernelSpec, specs: Sequence[Attribute]
) -> str:
    """Return the reason why no signature matches; name a wrong port if there is one."""
    count = len(op.inputs)
    types = [scalar_or_element_type(value.type) for value, _ in ports_of(op)]

    def fits(specs: Sequence[Attribute]) -> bool:
        return known.signature(specs[:count], specs[count:]) is not None

    subject = f"no signature of kernel '{op.kernel}' accepts"
    if fits(specs):
        return f"{subject} non-constant operands"
    if not fits(types):
        inputs, outputs = (
            ", ".join(map(str, each)) or "nothing"
            for each in (types[:count], types[count:])
        )
        return f"{subject} operands of {inputs} and results of {outputs}"
    for port, spec in enumerate(specs):
        if not fits([*types[:port], spec, *types[port + 1 :]]):
            return f"{subject} {port_name(op, port)} as '{spec}'"
    return f"{subject} all specifications of the kernel"


def _connect(
    graph: Graph,
    kernel: Kernel,
    constants: dict[Operation, list[PortValue]],
    source: _Source,
) -> None:
    """Connect a kernel to the values at its ports; create missing values."""
    op = kernel.op
    for port, ssa in enumerate((*op.inputs, *op.results)):
        if (
            kernel.ports[port].storage is None
            or not is_float_value(ssa)
            or isinstance(op.specs[port], BlockScaledQuantizedType)
        ):
            kernel.values.append(None)
            continue
        ssa = source(ssa)
        owner = ssa.owner
        if isinstance(owner, Operation) and owner.has_trait(ConstantLike):
            value = _new_constant(ssa, constants.setdefault(owner, []))
        else:
            value = graph.values.setdefault(ssa, PortValue(ssa))
        if port < kernel.input_count:
            value.users.append((kernel, port))
        else:
            value.producer = kernel, port
        kernel.values.append(value)


def _new_constant(ssa: SSAValue, uses: list[PortValue]) -> PortValue:
    """Create the state for another use of a constant."""
    value = PortValue(ssa, is_constant=True)
    uses.append(value)
    return value


def _read_specs(value: PortValue) -> None:
    """
    Initialize a value from specifications. The producer's specification takes
    precedence over those of users. A uniform type at a user applies only to the user's
    port, unless all users agree. Ranges of constants are ignored.
    """
    specs = [(kernel, port, kernel.op.specs[port]) for kernel, port in value.ports]
    is_common = value.is_constant or _has_common_spec(value)
    for kernel, port, spec in sorted(
        specs,
        key=lambda entry: (
            entry[1] < entry[0].input_count,
            not isinstance(entry[2], UniformType),
        ),
    ):
        is_known = value.parameters is not None or value.range is not None
        ranges = kernel.ranges.get(port)
        min_max: Sequence[float] | None = None
        if isinstance(spec, CalibratedQuantizedType):
            min_max = spec.min.data, spec.max.data
        elif ranges is not None:
            min_max = ranges.layer[0].tolist()
        if min_max is not None:
            if not is_known and not value.is_constant:
                low, high = min_max
                value.observed = value.range = low, high
                value.ranges = ranges
        elif isinstance(spec, UniformType):
            is_of_value = is_common or port >= kernel.input_count
            if not is_known and is_of_value:
                value.parameters, value.decision = spec, SPECIFICATION
                value.is_immutable = True
            elif value.parameters != spec:
                kernel.rescaled[port] = spec, SPECIFICATION


def _has_common_spec(value: PortValue) -> bool:
    """Return True if all uses of a value are in kernels with the same uniform type."""
    specs = {kernel.op.specs[port] for kernel, port in value.users}
    return (
        len(specs) == 1
        and all(isinstance(spec, UniformType) for spec in specs)
        and all(isinstance(x.operation, RegionOp | CallOp) for x in value.ssa.uses)
    )
