"""
Values and kernels while their parameters are being resolved: what each port is, what
holds between ports, and what is known so far.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.traits import ConstantLike

from xdsl_quant.dialects.quant.regions import RegionOp
from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    AffineOpCoefficient,
    FixedResultUniformScale,
    QuantizationTrait,
    SameOperandsAndResultsScale,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.numerics import RangeRule
from xdsl_quant.transforms.statistics.ranges.value_ranges import ValueRanges

from ..target_spec import (
    CoefficientOfOp,
    MultiplierUniformScale,
    Port,
    PowerOfTwoScale,
    QuantFn,
    ScaleConstraint,
    Signature,
)
from .parameters import ParameterChoice

Range: TypeAlias = tuple[float, float]
"""The smallest and the largest number."""


@dataclass(frozen=True)
class Decision:
    """Why a value has its parameters."""

    rule: str
    """What decided: `specification`, `statistics`, `weight`, `same scale` and the like."""

    kernel: Kernel | None = None
    """The kernel whose constraint it was, if it was one."""

    def __str__(self) -> str:
        return (
            self.rule if self.kernel is None else f"{self.rule} of {self.kernel.name}"
        )


@dataclass(eq=False, slots=True, repr=False)
class Value:
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

    coupled: list[Value] = field(default_factory=list["Value"])
    """The values that have the same parameters, with this one; none if it is alone."""

    parameters: UniformType | None = None
    is_immutable: bool = False
    """Whether parameters were said before propagation."""

    decision: Decision | None = None
    float_reason: str | None = None
    """Why there are no parameters, if there are none."""

    @property
    def expressed_type(self) -> AnyFloat:
        return cast(AnyFloat, scalar_or_element_type(self.ssa.type))

    @property
    def ports(self) -> Sequence[tuple[Kernel, int]]:
        """Where kernels compute and take the value."""
        return [*(() if self.producer is None else (self.producer,)), *self.users]


@dataclass(frozen=True)
class Constraints:
    """What holds between the ports of a kernel, which are numbered as in `Kernel`."""

    is_same_scale: bool = False
    fixed: Mapping[int, FixedResultUniformScale] = field(
        default_factory=dict[int, FixedResultUniformScale]
    )
    """The results that have a fixed range."""

    products: Sequence[tuple[int, Sequence[int]]] = ()
    """Results whose scale is the product of those of other ports."""

    biases: Sequence[tuple[int, Sequence[int]]] = ()
    """Biases, and the ports whose scales they multiply."""

    coefficients: Mapping[int, int | None] = field(
        default_factory=dict[int, "int | None"]
    )
    """Weights, with the dimension of per-axis scales."""

    is_power_of_two: bool = False
    functions: Sequence[QuantFn] = ()


@dataclass(eq=False, slots=True, repr=False)
class Kernel:
    """A kernel of the target. Its ports are operands, then results."""

    op: RegionOp
    ports: Sequence[Port]
    constraints: Constraints
    values: list[Value | None] = field(default_factory=list["Value | None"])
    """The value at each port; `None` where a port is not quantized."""

    rescaled: dict[int, tuple[UniformType, Decision]] = field(
        default_factory=dict[int, "tuple[UniformType, Decision]"]
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
        """The parameters at a port, if they are known."""
        if port in self.rescaled:
            return self.rescaled[port][0]
        value = self.values[port]
        return None if value is None else value.parameters

    def accepts(self, port: int, parameters: UniformType) -> bool:
        """Whether a port may have parameters, whatever the others have."""
        return self.ports[port].accepts(parameters) and (
            not self.constraints.is_power_of_two
            or all(math.frexp(scale)[0] == 0.5 for scale in parameters.scale_array())
        )

    def decision(self, port: int) -> Decision:
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
        """A port in words, e.g. `operand 1`."""
        return port_name(self.op, port)


def port_name(op: RegionOp, port: int) -> str:
    """A port of a kernel in words, e.g. `operand 1`."""
    count = len(op.inputs)
    return f"operand {port}" if port < count else f"result {port - count}"


# Constraints


def constraints_of(op: RegionOp, signature: Signature) -> Constraints:
    """The constraints of a signature, or those that the ops of a kernel say with traits."""
    if signature.constraints is None:
        return _constraints_of_ops(op)
    count = len(op.inputs)
    traits = signature.constraints
    of_ops = _constraints_of_ops(op).coefficients
    fixed = [t for t in traits if isinstance(t, FixedResultUniformScale)]
    return Constraints(
        is_same_scale=any(isinstance(t, SameOperandsAndResultsScale) for t in traits),
        fixed={count + i: trait for trait in fixed for i in range(len(op.results))},
        products=[
            (count + t.result, t.factors)
            for t in traits
            if isinstance(t, MultiplierUniformScale)
        ],
        biases=[
            (t.bias, t.factors)
            for t in traits
            if isinstance(t, AccumulatorUniformScale) and t.bias < count
        ],
        coefficients={
            **(of_ops if CoefficientOfOp() in traits else {}),
            **{
                t.operand: t.dimension
                for t in traits
                if isinstance(t, AffineOpCoefficient) and t.operand < count
            },
        },
        is_power_of_two=any(isinstance(t, PowerOfTwoScale) for t in traits),
        functions=[
            t for t in traits if not isinstance(t, QuantizationTrait | ScaleConstraint)
        ],
    )


def computing_ops(op: RegionOp) -> Sequence[Operation]:
    """The ops of a kernel but for constants."""
    *ops, _ = op.body.block.ops
    return [inner for inner in ops if not inner.has_trait(ConstantLike)]


def _operand_port(block: Block, op: Operation, operand: int) -> int | None:
    """The port of a kernel whose value is an operand of an op in its block."""
    if operand >= len(op.operands):
        return None
    value = op.operands[operand]
    if isinstance(value, BlockArgument) and value.owner is block:
        return value.index
    return None


def _constraints_of_ops(op: RegionOp) -> Constraints:
    block = op.body.block
    ops = computing_ops(op)
    fixed: dict[int, FixedResultUniformScale] = {}
    for i, value in enumerate(op.returned):
        if isinstance(value.owner, Operation):
            trait = quantization_trait(value.owner, FixedResultUniformScale)
            if trait is not None:
                fixed[len(op.inputs) + i] = trait
    biases: list[tuple[int, Sequence[int]]] = []
    coefficients: dict[int, int | None] = {}
    for inner in ops:
        if (bias := quantization_trait(inner, AccumulatorUniformScale)) is not None:
            index = _operand_port(block, inner, bias.bias)
            factors = [_operand_port(block, inner, f) for f in bias.factors]
            known = [factor for factor in factors if factor is not None]
            if index is not None and len(known) == len(factors):
                biases.append((index, known))
        if (weight := quantization_trait(inner, AffineOpCoefficient)) is not None:
            index = _operand_port(block, inner, weight.operand)
            if index is not None:
                coefficients[index] = weight.dimension_of(inner)
    return Constraints(
        is_same_scale=bool(ops)
        and all(
            quantization_trait(inner, SameOperandsAndResultsScale) is not None
            for inner in ops
        ),
        fixed=fixed,
        biases=biases,
        coefficients=coefficients,
    )
