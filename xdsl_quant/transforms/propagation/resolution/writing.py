"""Write specifications, and find rescales and overruled specifications."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation, TypeAttribute
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.dialects.quant.types import UniformType

from ..port_ranges import remove_used_ranges
from .kernels import Kernel, PortValue


@dataclass(frozen=True)
class ParameterChange:
    """
    Change of parameters at a port: from those of the value (which needs a rescale), or from
    those that the port specified.
    """

    kernel: Kernel
    port: int
    before: UniformType
    """Parameters of the value where it is computed, or parameters that were specified."""

    after: UniformType

    decision: str
    """Cause of the change, e.g. a specification, statistics or a constraint."""


def conflicts_of(values: Iterable[PortValue]) -> Sequence[ParameterChange]:
    """Return the rescales of values, in the order of values and of their users."""
    rescales: list[ParameterChange] = []
    for value in values:
        before, cause = value.parameters, value.decision
        if value.producer is not None:
            kernel, port = value.producer
            before = kernel.parameters(port)
            if port in kernel.rescaled:
                cause = kernel.rescaled[port][1]
        for user, port in value.users:
            after = user.parameters(port)
            if before is None or after is None or before == after:
                continue
            decision = user.rescaled[port][1] if port in user.rescaled else cause
            assert decision is not None
            rescales.append(ParameterChange(user, port, before, after, decision))
    return rescales


def overruled_specs(kernels: Iterable[Kernel]) -> Sequence[ParameterChange]:
    """
    Return the specifications that propagation overruled; call before `write_specs`.
    Omit those of operands if another port of the value has the specified parameters.
    """
    overruled: list[ParameterChange] = []
    for kernel in kernels:
        for port, spec in enumerate(kernel.op.specs):
            if not isinstance(spec, UniformType):
                continue
            value, after = kernel.values[port], kernel.parameters(port)
            if value is None or after is None or after == spec:
                continue
            ports = value.users if value.producer is None else [value.producer]
            if port < kernel.input_count:
                if any(peer.parameters(i) == spec for peer, i in ports):
                    continue
            decision = kernel.decision(port)
            overruled.append(ParameterChange(kernel, port, spec, after, decision))
    return overruled


def write_specs(kernels: Iterable[Kernel]) -> None:
    """Replace the specifications of ports that have parameters."""
    for kernel in kernels:
        op = kernel.op
        specs: list[TypeAttribute] = [*op.input_specs, *op.output_specs]
        specs = [kernel.parameters(port) or spec for port, spec in enumerate(specs)]
        count = kernel.input_count
        op.input_specs = ArrayAttr(specs[:count])
        op.output_specs = ArrayAttr(specs[count:])
        remove_used_ranges(op)


def duplicate_constants(values: Iterable[PortValue]) -> None:
    """Copy constants so that each has a single set of parameters."""
    copies: dict[tuple[Operation, UniformType | None], Operation] = {}
    first: dict[Operation, UniformType | None] = {}
    for value in values:
        constant = value.ssa.owner
        if not value.is_constant or not isinstance(constant, Operation):
            continue
        kernel, port = value.users[0]
        if kernel.op.operands[port] is not value.ssa:
            # The constant belongs to another function.
            continue
        parameters = kernel.parameters(port)
        if first.setdefault(constant, parameters) == parameters:
            continue
        key = constant, parameters
        if (copy := copies.get(key)) is None:
            copy = copies[key] = constant.clone()
            Rewriter.insert_op(copy, InsertPoint.after(constant))
        kernel.op.operands[port] = copy.results[0]
        value.ssa = copy.results[0]
