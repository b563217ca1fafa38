"""
What a hardware target can execute, as data: kernels, how their ports store values, and
what holds between the parameters of ports.

A kernel is looked up by its name and by the specifications of its ports, which may be
partial: the first signature that fits says the rest. What an op means to quantization, it
says itself with [traits][xdsl_quant.dialects.quant.traits]: a signature without constraints
of its own has those of the op that its kernel is made of. Indices in traits are those of
operands then, and of ports if the signature names the trait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation

from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    StoredQuantizedType,
)
from xdsl_quant.dialects.quant.traits import QuantizationTrait

Specs: TypeAlias = "list[Attribute]"
"""
The specifications of operands, or of results: quantized types, and expressed types where
nothing is said.
"""

QuantFn: TypeAlias = Callable[[Specs, Specs], tuple[Sequence[int], Sequence[int]]]
"""
A constraint in Python: takes the specifications of operands and those of results, replaces
some of them by uniform types, and returns the indices of those that it replaced.
"""


@dataclass(frozen=True)
class MultiplierUniformScale:
    """The scale of a result is the product of those of operands; the zero point is 0."""

    result: int = 0
    factors: Sequence[int] = (0, 1)


@dataclass(frozen=True)
class PowerOfTwoScale:
    """
    The scales of all quantized ports are powers of two: the least that are not less than
    what ranges need.
    """


Constraint: TypeAlias = (
    "QuantizationTrait | MultiplierUniformScale | PowerOfTwoScale | QuantFn"
)


@dataclass(frozen=True)
class Port:
    """How an operand or a result of a kernel stores values."""

    storage: AnyQuantizedType | None = None
    """Storage type and range; `None` if the port is not quantized."""

    is_wildcard: bool = False
    """Whether other storage types are right, too. `storage` is the default then."""

    def accepts(self, spec: Attribute) -> bool:
        """
        Whether the port can be as a specification says. An expressed type says nothing. A
        `!quant.any` is a least width, any other type with storage says what is stored.
        """
        storage = self.storage
        if storage is None:
            return not isinstance(spec, StoredQuantizedType | CalibratedQuantizedType)
        if not isinstance(spec, StoredQuantizedType):
            return isinstance(spec, AnyFloat | CalibratedQuantizedType)
        if self.is_wildcard:
            return True
        if isinstance(spec, AnyQuantizedType):
            return (
                spec.storage_type_integral_width <= storage.storage_type_integral_width
                and spec.is_signed == storage.is_signed
            )
        low, high = storage.storage_range
        return (
            spec.signless_storage_type == storage.signless_storage_type
            and spec.is_signed == storage.is_signed
            and low <= spec.storage_range[0]
            and spec.storage_range[1] <= high
        )


@dataclass(frozen=True)
class Signature:
    """Storage of the ports of a kernel, and what holds between their parameters."""

    inputs: Sequence[Port]
    outputs: Sequence[Port]

    is_variadic: bool = False
    """Whether the last operand stands for any number of operands."""

    constraints: Sequence[Constraint] | None = None
    """What holds; `None` for what the op of the kernel says with its traits."""

    def fitted(
        self, input_specs: Sequence[Attribute], output_specs: Sequence[Attribute]
    ) -> Signature | None:
        """
        The signature with a port for each specification; `None` if there are more
        specifications than ports, or a port cannot be as one says. Operands and results at
        the end may be absent.
        """
        inputs = [*self.inputs]
        if self.is_variadic:
            inputs += inputs[-1:] * (len(input_specs) - len(inputs))
        if len(input_specs) > len(inputs) or len(output_specs) > len(self.outputs):
            return None
        pairs = (
            *zip(inputs, input_specs, strict=False),
            *zip(self.outputs, output_specs, strict=False),
        )
        if not all(port.accepts(spec) for port, spec in pairs):
            return None
        return replace(
            self,
            inputs=inputs[: len(input_specs)],
            outputs=self.outputs[: len(output_specs)],
            is_variadic=False,
        )


@dataclass(frozen=True)
class OpPattern:
    """
    Which ops form a kernel: a chain, each op of which is the only user of the result of
    the op before it.
    """

    steps: Sequence[Sequence[str]]
    """The names that each op may have, from the first one to the last one."""


MatchFn: TypeAlias = Callable[[Operation], "Sequence[Operation] | None"]
"""
A pattern in Python: takes the last op of a kernel that may be there, and returns the ops of
the kernel in their order, or `None`.
"""


@dataclass(frozen=True)
class KernelSpec:
    """A kernel of a target."""

    name: str
    signatures: Sequence[Signature]
    patterns: Sequence[OpPattern | MatchFn] = ()

    def signature(
        self, input_specs: Sequence[Attribute], output_specs: Sequence[Attribute]
    ) -> Signature | None:
        """The first signature that fits, with a port for each specification."""
        candidates = (s.fitted(input_specs, output_specs) for s in self.signatures)
        return next((s for s in candidates if s is not None), None)


@dataclass(frozen=True)
class TargetSpec:
    """A hardware target."""

    name: str
    kernels: Mapping[str, KernelSpec] = field(default_factory=dict[str, KernelSpec])

    range_rule: Literal["exact", "mlir", "tflite"] = "exact"
    """How a range becomes parameters."""
