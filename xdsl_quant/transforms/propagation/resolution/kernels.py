"""
Values and kernels while their parameters are being resolved: what each port is, what
holds between ports, and what is known so far, first of all from specifications.
"""

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
from xdsl_quant.dialects.quant import traits
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
"""The smallest and the largest number."""


SPECIFICATION = "specification"
"""Why a value has the parameters that it had before propagation."""


@dataclass(eq=False, slots=True, repr=False)
class PortValue:
    """
    A value at the ports of kernels: one state for its definition and all uses. Each use of
    a constant is a value of its own.
    """

    ssa: SSAValue
    producer: tuple[Kernel, int] | None = None
    """The kernel that computes the value, and the port there."""

    users: list[tuple[Kernel, int]] = field(default_factory=list["tuple[Kernel, int]"])
    """The kernels that take the value, and the ports there, in the order of the text."""

    is_constant: bool = False

    said: Range | None = None
    """The smallest and the largest element, if statistics say so."""

    range: Range | None = None
    """That range, or another one that parameters are chosen for."""

    ranges: ValueRanges | None = None
    """The said range with those of a dimension, if statistics say so."""

    coupled: list[PortValue] = field(default_factory=list["PortValue"])
    """The values that have the same parameters, with this one; none if it is alone."""

    parameters: UniformType | None = None
    is_immutable: bool = False
    """True if parameters were said before propagation."""

    decision: str | None = None
    """What decided the parameters: `statistics`, `bias of` a kernel and the like."""

    float_reason: str | None = None
    """Why there are no parameters, if there are none."""

    @property
    def expressed_type(self) -> AnyFloat:
        return cast(AnyFloat, scalar_or_element_type(self.ssa.type))

    def content(self) -> Array:
        """
        Return the numbers of a constant.

        Raises:
            ValueError: if they are not there, or NumPy has no such floats.
            ImportError: if their type needs a package that is not installed.
        """
        op = self.ssa.owner
        assert isinstance(op, Operation)
        numbers = float_numbers(op.properties.get("value", op.attributes.get("value")))
        if numbers is None:
            raise ValueError("the content of the constant is not known")
        return np.asarray(numbers)

    @property
    def ports(self) -> Sequence[tuple[Kernel, int]]:
        """Where kernels compute and take the value."""
        return [*(() if self.producer is None else (self.producer,)), *self.users]


@dataclass
class Constraints:
    """What holds between the ports of a kernel, which are numbered as in `Kernel`."""

    is_same_scale: bool = False
    is_power_of_two: bool = False
    fixed: dict[int, traits.FixedResultUniformScale] = field(
        default_factory=dict[int, traits.FixedResultUniformScale]
    )
    """The results that have a fixed range."""

    products: list[tuple[int, Sequence[int]]] = field(
        default_factory=list[tuple[int, Sequence[int]]]
    )
    """Results whose scale is the product of those of other ports."""

    biases: list[tuple[int, Sequence[int]]] = field(
        default_factory=list[tuple[int, Sequence[int]]]
    )
    """Biases, and the ports whose scales they multiply."""

    coefficients: dict[int, int | None] = field(default_factory=dict[int, "int | None"])
    """Weights, with the dimension of per-axis scales."""

    functions: list[QuantFn] = field(default_factory=list[QuantFn])


@dataclass(eq=False, slots=True, repr=False)
class Kernel:
    """A kernel of the target. Its ports are operands, then results."""

    op: RegionOp
    ports: Sequence[Port]
    constraints: Constraints
    values: list[PortValue | None] = field(default_factory=list["PortValue | None"])
    """The value at each port; `None` where a port is not quantized."""

    rescaled: dict[int, tuple[UniformType, str]] = field(
        default_factory=dict[int, tuple[UniformType, str]]
    )
    """The parameters at ports that differ from those of the value there."""

    ranges: Mapping[int, ValueRanges] = field(default_factory=dict[int, ValueRanges])
    """What the attribute `quant.port_stats` says about ports."""

    is_done: bool = False

    @property
    def name(self) -> str:
        return self.op.kernel

    @property
    def input_count(self) -> int:
        return len(self.op.inputs)

    @property
    def inputs(self) -> range:
        """The numbers of the ports that are operands."""
        return range(self.input_count)

    @property
    def outputs(self) -> range:
        """The numbers of the ports that are results."""
        return range(self.input_count, len(self.ports))

    def parameters(self, port: int) -> UniformType | None:
        """Return the parameters at a port, if they are known."""
        if port in self.rescaled:
            return self.rescaled[port][0]
        value = self.values[port]
        return None if value is None else value.parameters

    def accepts(self, port: int, parameters: UniformType) -> bool:
        """Return True if a port may have parameters, whatever the others have."""
        return self.ports[port].accepts(parameters) and (
            not self.constraints.is_power_of_two
            or all(math.frexp(scale)[0] == 0.5 for scale in parameters.scale_array())
        )

    def decision(self, port: int) -> str:
        """Why a port with parameters has them."""
        value = self.values[port]
        assert value is not None
        _, decision = self.rescaled.get(port, (None, value.decision))
        assert decision is not None
        return decision

    def choice(self, port: int, rule: RangeRule) -> ParameterChoice:
        """How parameters are chosen for a port."""
        value, storage = self.values[port], self.ports[port].storage
        assert value is not None
        assert storage is not None
        return ParameterChoice(
            storage,
            value.expressed_type,
            rule,
            self.ports[port].zero_point is not None,
            self.constraints.is_power_of_two,
        )

    def port_name(self, port: int) -> str:
        """Return a port in words, e.g. `operand 1`."""
        return port_name(self.op, port)

    def port_text(self, port: int) -> str:
        """Return a port in words, with the name of the kernel."""
        return f"{self.port_name(port)} of kernel '{self.name}'"

    def rule_text(self, rule: str) -> str:
        """Return a rule of the kernel as what decides parameters."""
        return f"{rule} of {self.name}"

    def warn(self, message: str) -> None:
        """Say something about the kernel on standard error."""
        warn(message, location_prefix(self.op.location))


def port_name(op: RegionOp, port: int) -> str:
    """Return a port of a kernel in words, e.g. `operand 1`."""
    count = len(op.inputs)
    return f"operand {port}" if port < count else f"result {port - count}"


# Constraints


def constraints_of(op: RegionOp, signature: Signature) -> Constraints:
    """
    Return the constraints of a signature, or those that the ops of a kernel say with
    traits.
    """
    if signature.constraints is None:
        return _constraints_of_ops(op)
    count, found = len(op.inputs), Constraints()
    for constraint in signature.constraints:
        match constraint:
            case traits.SameOperandsAndResultsScale():
                found.is_same_scale = True
            case PowerOfTwoScale():
                found.is_power_of_two = True
            case traits.FixedResultUniformScale() as trait:
                found.fixed |= {count + i: trait for i in range(len(op.results))}
            case MultiplierUniformScale(result, factors):
                found.products.append((count + result, factors))
            case traits.AccumulatorUniformScale() as trait:
                if trait.bias < count:
                    found.biases.append((trait.bias, trait.factors))
            case traits.AffineOpCoefficient() as trait:
                if trait.operand < count:
                    found.coefficients[trait.operand] = trait.dimension
            case CoefficientOfOp():
                of_ops = _constraints_of_ops(op).coefficients
                found.coefficients = of_ops | found.coefficients
            case traits.QuantizationTrait():
                pass
            case _:
                found.functions.append(constraint)
    return found


def computing_ops(op: RegionOp) -> Sequence[Operation]:
    """Return the ops of a kernel but for constants."""
    *ops, _ = op.body.block.ops
    return [inner for inner in ops if not inner.has_trait(ConstantLike)]


def _operand_port(block: Block, op: Operation, operand: int) -> int | None:
    """Return the port of a kernel whose value is an operand of an op in its block."""
    if operand >= len(op.operands):
        return None
    value = op.operands[operand]
    if isinstance(value, BlockArgument) and value.owner is block:
        return value.index
    return None


def _constraints_of_ops(op: RegionOp) -> Constraints:
    block = op.body.block
    ops = computing_ops(op)
    found = Constraints(
        is_same_scale=bool(ops)
        and all(
            quantization_trait(inner, traits.SameOperandsAndResultsScale) is not None
            for inner in ops
        )
    )
    for i, value in enumerate(op.returned, len(op.inputs)):
        if isinstance(value.owner, Operation):
            trait = quantization_trait(value.owner, traits.FixedResultUniformScale)
            if trait is not None:
                found.fixed[i] = trait
    for inner in ops:
        if (
            bias := quantization_trait(inner, traits.AccumulatorUniformScale)
        ) is not None:
            index = _operand_port(block, inner, bias.bias)
            factors = [_operand_port(block, inner, f) for f in bias.factors]
            known = [factor for factor in factors if factor is not None]
            if index is not None and len(known) == len(factors):
                found.biases.append((index, known))
        if (
            weight := quantization_trait(inner, traits.AffineOpCoefficient)
        ) is not None:
            index = _operand_port(block, inner, weight.operand)
            if index is not None:
                found.coefficients[index] = weight.dimension_of(inner)
    return found


# The kernels and values of a module


@dataclass
class Graph:
    """The kernels of a module that a target has, and the values at their ports."""

    items: list[Kernel | PortValue] = field(default_factory=list["Kernel | PortValue"])
    """Kernels and constants, in the order of the text."""

    values: dict[SSAValue, PortValue] = field(default_factory=dict[SSAValue, PortValue])
    """The values that are no constants, in the order of the text."""

    float_kernels: list[tuple[RegionOp, str]] = field(
        default_factory=list["tuple[RegionOp, str]"]
    )
    """The kernels that stay as they are, and why."""

    @property
    def kernels(self) -> Sequence[Kernel]:
        return [item for item in self.items if isinstance(item, Kernel)]

    @property
    def all_values(self) -> Sequence[PortValue]:
        """The values at the ports of kernels of the target, with those of constants."""
        constants = [item for item in self.items if isinstance(item, PortValue)]
        return [*self.values.values(), *constants]


_Source: TypeAlias = Callable[[SSAValue], SSAValue]
"""Returns where a value comes from, through calls of functions that are called once."""


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


def collect(
    module: ModuleOp, target: TargetSpec, calls: Mapping[CallOp, FuncOp]
) -> Graph:
    """
    Return the kernels and values of a module, with what specifications say about them.

    Args:
        module: it is not changed.
        target: what its kernels are.
        calls: calls of functions that are called only there: their arguments are the
            operands of the call, and its results are what they return.
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
    _couple(graph)
    return graph


def _couple(graph: Graph) -> None:
    """Find the values of one float type whose ports have one key."""
    by_key: dict[tuple[str, Attribute], list[PortValue]] = {}
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
    source: _Source,
) -> Kernel | None:
    """Return a kernel with a signature; `None` if the target has none that fits."""
    # The content of a constant says more than a range of it, which any port may ignore.
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
    types = [scalar_or_element_type(value.type) for value, _ in ports_of(op)]

    def fits(specs: Sequence[Attribute]) -> bool:
        return known.signature(specs[:count], specs[count:]) is not None

    subject = f"no signature of kernel '{op.kernel}' has"
    if fits(specs):
        return f"{subject} ports for operands that are not constant"
    if not fits(types):
        inputs, outputs = (
            ", ".join(map(str, each)) or "nothing"
            for each in (types[:count], types[count:])
        )
        return f"{subject} operands of {inputs} and results of {outputs}"
    for port, spec in enumerate(specs):
        if not fits([*types[:port], spec, *types[port + 1 :]]):
            return f"{subject} {port_name(op, port)} as '{spec}'"
    return f"{subject} all of these specifications"


def _connect(
    graph: Graph,
    kernel: Kernel,
    constants: dict[Operation, list[PortValue]],
    source: _Source,
) -> None:
    """Find or make the values at the ports of a kernel."""
    op = kernel.op
    for port, ssa in enumerate((*op.inputs, *op.results)):
        if kernel.ports[port].storage is None or not is_float_value(ssa):
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
    """Return a value for one more use of a constant."""
    value = PortValue(ssa, is_constant=True)
    uses.append(value)
    return value


def _read_specs(value: PortValue) -> None:
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
            is_of_value = is_common or port >= kernel.input_count
            if not is_known and is_of_value:
                value.parameters, value.decision = spec, SPECIFICATION
                value.is_immutable = True
            elif value.parameters != spec:
                kernel.rescaled[port] = spec, SPECIFICATION


def _have_common_spec(value: PortValue) -> bool:
    """True if all uses of a value are in kernels and have one uniform type."""
    specs = {kernel.op.specs[port] for kernel, port in value.users}
    return (
        len(specs) == 1
        and all(isinstance(spec, UniformType) for spec in specs)
        and all(isinstance(x.operation, RegionOp | CallOp) for x in value.ssa.uses)
    )
