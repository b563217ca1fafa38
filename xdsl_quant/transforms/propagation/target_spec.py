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

from xdsl.dialects.builtin import AnyFloat, NoneType
from xdsl.ir import Attribute

from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    StoredQuantizedType,
)
from xdsl_quant.dialects.quant.traits import QuantizationTrait
from xdsl_quant.dialects.quant.types import UniformType
from xdsl_quant.runtime.plugins import MatchFn, QuantFn
from xdsl_quant.runtime.plugins import Specs as Specs

RangeRule: TypeAlias = Literal["exact", "mlir", "tflite"]
"""How a range becomes parameters."""


@dataclass(frozen=True)
class MultiplierUniformScale:
    """The scale of a result is the product of those of operands; the zero point is 0."""

    result: int = 0
    factors: Sequence[int] = (0, 1)


@dataclass(frozen=True)
class CoefficientOfOp:
    """
    Weights, and the dimension that their scales belong to, are those that the ops of the
    kernel say themselves.
    """


@dataclass(frozen=True)
class PowerOfTwoScale:
    """
    The scales of all quantized ports are powers of two: the least that are not less than
    what ranges need.
    """


ScaleConstraint: TypeAlias = CoefficientOfOp | MultiplierUniformScale | PowerOfTwoScale
"""What ops do not say with traits."""

Constraint: TypeAlias = "QuantizationTrait | ScaleConstraint | QuantFn"


@dataclass(frozen=True)
class Port:
    """How an operand or a result of a kernel stores values."""

    storage: AnyQuantizedType | None = None
    """Storage type and range; `None` if the port is not quantized."""

    is_wildcard: bool = False
    """True if other storage types are right, too. `storage` is the default then."""

    zero_point: int | None = None
    """The zero point that values must have; `None` if they may have any."""

    is_constant: bool = False
    """True if the port takes constants only, such as weights."""

    def accepts(self, spec: Attribute) -> bool:
        """
        Return True if the port can be as a specification says. An expressed type says
        nothing, and neither does `none`, the type of an operand that is absent. A
        `!quant.any` is a least width, any other type with storage says what is stored.
        """
        storage = self.storage
        if storage is None:
            return not isinstance(spec, StoredQuantizedType | CalibratedQuantizedType)
        if not isinstance(spec, StoredQuantizedType):
            return isinstance(spec, AnyFloat | CalibratedQuantizedType | NoneType)
        if isinstance(spec, UniformType) and self.zero_point is not None:
            if any(point != self.zero_point for point in spec.zero_point_array()):
                return False
        if self.is_wildcard:
            return True
        if isinstance(spec, AnyQuantizedType):
            return (
                spec.storage_type_integral_width <= storage.storage_type_integral_width
                and spec.is_signed == storage.is_signed
            )
        return _stores_all_of(storage, spec)

    def covers(self, other: Port) -> bool:
        """Return True if the port can be all that another one can be."""
        if self.is_constant and not other.is_constant:
            return False
        if self.storage is None or other.storage is None:
            return self.storage is other.storage
        if self.zero_point is not None and self.zero_point != other.zero_point:
            return False
        if self.is_wildcard or other.is_wildcard:
            return self.is_wildcard
        return _stores_all_of(self.storage, other.storage)

    @property
    def text(self) -> str:
        """The port as files have it, e.g. `const i8<-127:127>:0`."""
        text = "-" if self.storage is None else self.storage.storage_text
        if self.is_wildcard:
            text = f"any={text}"
        if self.zero_point is not None:
            text = f"{text}:{self.zero_point}"
        return f"const {text}" if self.is_constant else text


def _stores_all_of(storage: StoredQuantizedType, other: StoredQuantizedType) -> bool:
    (low, high), (least, largest) = storage.storage_range, other.storage_range
    return (
        storage.signless_storage_type == other.signless_storage_type
        and storage.is_signed == other.is_signed
        and low <= least
        and largest <= high
    )


@dataclass(frozen=True)
class Signature:
    """Storage of the ports of a kernel, and what holds between their parameters."""

    inputs: Sequence[Port]
    outputs: Sequence[Port]

    is_variadic: bool = False
    """True if the last operand stands for any number of operands."""

    has_variadic_results: bool = False
    """True if the last result stands for any number of results."""

    constraints: Sequence[Constraint] | None = None
    """What holds; `None` for what the op of the kernel says with its traits."""

    def fitted(
        self, input_specs: Sequence[Attribute], output_specs: Sequence[Attribute]
    ) -> Signature | None:
        """
        Return the signature with a port for each specification; `None` if there are
        more specifications than ports, or a port cannot be as one says. Operands and
        results at the end may be absent.
        """
        inputs = _fitted_ports(self.inputs, input_specs, self.is_variadic)
        outputs = _fitted_ports(self.outputs, output_specs, self.has_variadic_results)
        if inputs is None or outputs is None:
            return None
        return replace(
            self,
            inputs=inputs,
            outputs=outputs,
            is_variadic=False,
            has_variadic_results=False,
        )

    def covers(self, other: Signature) -> bool:
        """Return True if the signature fits whatever another one fits."""
        return _covers(
            self.inputs, self.is_variadic, other.inputs, other.is_variadic
        ) and _covers(
            self.outputs,
            self.has_variadic_results,
            other.outputs,
            other.has_variadic_results,
        )


def _covers(
    ports: Sequence[Port], is_variadic: bool, others: Sequence[Port], are_variadic: bool
) -> bool:
    if are_variadic and not is_variadic:
        return False
    count = max(len(ports), len(others)) if are_variadic else len(others)
    ports, others = (
        [*each, *[each[-1]] * (count - len(each))] if is_longer else each
        for each, is_longer in ((ports, is_variadic), (others, are_variadic))
    )
    return len(others) <= len(ports) and all(
        port.covers(other) for port, other in zip(ports, others, strict=False)
    )


def _fitted_ports(
    ports: Sequence[Port], specs: Sequence[Attribute], is_variadic: bool
) -> Sequence[Port] | None:
    """Return a port for each specification; `None` if one of them does not fit."""
    fitted = [*ports[: len(specs)]]
    if is_variadic:
        fitted += [*ports[-1:]] * (len(specs) - len(fitted))
    if len(fitted) < len(specs):
        return None
    pairs = zip(fitted, specs, strict=True)
    return fitted if all(port.accepts(spec) for port, spec in pairs) else None


@dataclass(frozen=True)
class PatternStep:
    """An op of a pattern."""

    names: Sequence[str]
    """
    The names that the op may have. Those of the ops in its region may follow, e.g.
    `linalg.generic[arith.addf,arith.maximumf]`.
    """

    is_optional: bool = False
    """True if the op may be absent."""


@dataclass(frozen=True)
class OpPattern:
    """
    Which ops form a kernel: a chain, each op of which is the only user of the results of
    the op before it.
    """

    steps: Sequence[PatternStep]
    """The ops, from the first one to the last one."""


@dataclass(frozen=True)
class KernelSpec:
    """A kernel of a target."""

    name: str
    signatures: Sequence[Signature]
    patterns: Sequence[OpPattern | MatchFn] = ()

    def signature(
        self,
        input_specs: Sequence[Attribute],
        output_specs: Sequence[Attribute],
        is_constant: Callable[[int], bool] = lambda _: True,
    ) -> Signature | None:
        """
        Return the first signature that fits, with a port for each specification.

        Args:
            input_specs: the specifications of operands.
            output_specs: those of results.
            is_constant: is given the number of an operand; by default all are constant.
        """
        for signature in self.signatures:
            fitted = signature.fitted(input_specs, output_specs)
            if fitted is not None and all(
                not port.is_constant or is_constant(number)
                for number, port in enumerate(fitted.inputs)
            ):
                return fitted
        return None


@dataclass(frozen=True)
class TargetSpec:
    """A hardware target."""

    name: str
    kernels: Mapping[str, KernelSpec] = field(default_factory=dict[str, KernelSpec])
    """Kernels by name."""

    range_rule: RangeRule = "exact"
    """How a range becomes parameters."""

    description: str = ""
    """What the target is, in one line."""
