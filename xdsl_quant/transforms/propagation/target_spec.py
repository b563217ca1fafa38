"""
Data model of a hardware target: its kernels, the storage of their ports, and
constraints between port parameters.

A kernel is looked up by its name and by the specifications of its ports, which may be
partial: the first matching signature completes them. Ops describe how they quantize
with [traits][xdsl_quant.dialects.quant.traits], so a signature without constraints
inherits the constraints of the op's traits. Indices in traits count operands of the op;
indices in signatures count ports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from xdsl.dialects.builtin import AnyFloat, NoneType
from xdsl.ir import Attribute

from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    BlockScaledQuantizedType,
    CalibratedQuantizedType,
    NoQuantizedType,
    StoredQuantizedType,
)
from xdsl_quant.dialects.quant.dynamic_ops import blocks_text
from xdsl_quant.dialects.quant.traits import QuantizationTrait
from xdsl_quant.dialects.quant.types import UniformType
from xdsl_quant.runtime.plugins import MatchFn, QuantFn
from xdsl_quant.runtime.plugins import Specs as Specs

RangeRule: TypeAlias = Literal["exact", "mlir", "tflite"]
"""Rule that derives parameters from a range."""


@dataclass(frozen=True)
class MultiplierUniformScale:
    """Constraint: a result's scale is the product of operand scales, its zero point 0."""

    result: int = 0
    factors: Sequence[int] = (0, 1)


@dataclass(frozen=True)
class CoefficientOfOp:
    """Constraint: the weight ports and their per-axis dimensions are those of op traits."""


@dataclass(frozen=True)
class PowerOfTwoScale:
    """Constraint: all scales are rounded up to powers of two."""


ScaleConstraint: TypeAlias = CoefficientOfOp | MultiplierUniformScale | PowerOfTwoScale
"""Constraints that ops cannot express with traits."""

Constraint: TypeAlias = "QuantizationTrait | ScaleConstraint | QuantFn"


@dataclass(frozen=True)
class Port:
    """Storage of an operand or result of a kernel."""

    storage: AnyQuantizedType | None = None
    """Storage type and range, or `None` if the port is not quantized."""

    is_wildcard: bool = False
    """True if any storage type is accepted; `storage` is the default then."""

    zero_point: int | None = None
    """Required zero point, or `None` for any."""

    is_constant: bool = False
    """True if the port accepts only constants, e.g. weights."""

    float_type: AnyFloat | None = None
    """Element type of an unquantized port, or `None` for any."""

    block_sizes: Sequence[tuple[int, int]] = ()
    """Pairs of dimension and block size of sub-channel parameters; empty for others."""

    def accepts(self, spec: Attribute) -> bool:
        """
        Return True if the port is compatible with a specification. Expressed types and
        `none` (an absent operand) do not restrict storage, `!quant.any` is a minimum
        width, and other types with storage must match.
        """
        storage = self.storage
        if storage is None:
            return self._accepts_unquantized(spec)
        if not isinstance(spec, StoredQuantizedType):
            return isinstance(spec, AnyFloat | CalibratedQuantizedType | NoneType)
        if isinstance(spec, UniformType) and self.zero_point is not None:
            if any(point != self.zero_point for point in spec.zero_point_array()):
                return False
        if self.block_sizes and not self._has_blocks_of(spec):
            return False
        if self.is_wildcard:
            return True
        if isinstance(spec, AnyQuantizedType) and spec.has_integer_storage:
            return (
                storage.has_integer_storage
                and spec.is_signed == storage.is_signed
                and spec.storage_type_integral_width
                <= storage.storage_type_integral_width
            )
        return _stores_all_of(storage, spec)

    def _accepts_unquantized(self, spec: Attribute) -> bool:
        if isinstance(spec, StoredQuantizedType | CalibratedQuantizedType):
            return False
        if self.float_type is None or isinstance(spec, NoneType):
            return True
        if isinstance(spec, NoQuantizedType):
            spec = spec.expressed_type
        return spec == self.float_type

    def _has_blocks_of(self, spec: StoredQuantizedType) -> bool:
        """Return True if a type has the port's block sizes, or no scales."""
        if not isinstance(spec, UniformType | BlockScaledQuantizedType):
            return True
        sizes = {axis: size for axis, (_, size) in spec.get_blocks().items()}
        return sizes == dict(self.block_sizes)

    def covers(self, port: Port) -> bool:
        """Return True if this port accepts everything that `port` accepts."""
        if self.is_constant and not port.is_constant:
            return False
        if self.storage is None or port.storage is None:
            is_any_type = self.float_type in (None, port.float_type)
            return self.storage is port.storage and is_any_type
        if self.block_sizes not in ((), port.block_sizes):
            return False
        if self.zero_point is not None and self.zero_point != port.zero_point:
            return False
        if self.is_wildcard or port.is_wildcard:
            return self.is_wildcard
        return _stores_all_of(self.storage, port.storage)

    @property
    def text(self) -> str:
        """The port in the syntax of target files, e.g. `const i8<-127:127>:0`."""
        text = str(self.float_type or "-")
        if self.storage is not None:
            text = self.storage.storage_text
        if self.is_wildcard:
            text = f"any={text}"
        if self.block_sizes:
            text += blocks_text(dict(self.block_sizes))
        if self.zero_point is not None:
            text = f"{text}:{self.zero_point}"
        return f"const {text}" if self.is_constant else text


def _stores_all_of(storage: StoredQuantizedType, other: StoredQuantizedType) -> bool:
    (low, high), (least, largest) = storage.storage_range, other.storage_range
    return (
        storage.stored_type == other.stored_type
        and storage.is_signed == other.is_signed
        and low <= least
        and largest <= high
    )


@dataclass(frozen=True)
class Signature:
    """Storage of the ports of a kernel, and constraints on their parameters."""

    inputs: Sequence[Port]
    outputs: Sequence[Port]

    is_variadic: bool = False
    """True if the last operand may be repeated any number of times."""

    has_variadic_results: bool = False
    """True if the last result may be repeated any number of times."""

    constraints: Sequence[Constraint] | None = None
    """Constraints between ports; `None` for those of the op's traits."""

    def expand_ports(
        self, input_specs: Sequence[Attribute], output_specs: Sequence[Attribute]
    ) -> Signature | None:
        """
        Expand the signature to one port per specification, or return `None` if it does
        not match. Trailing operands and results may be absent.
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
        """Return True if the signature matches everything that `other` matches."""
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
    """Return one port per specification, or `None` if one does not match."""
    fitted = [*ports[: len(specs)]]
    if is_variadic:
        fitted += [*ports[-1:]] * (len(specs) - len(fitted))
    if len(fitted) < len(specs):
        return None
    pairs = zip(fitted, specs, strict=True)
    return fitted if all(port.accepts(spec) for port, spec in pairs) else None


@dataclass(frozen=True)
class PatternStep:
    """Step of a pattern that matches one op."""

    names: Sequence[str]
    """
    Alternative names of the op, each optionally with the names of the ops in its
    region, e.g. `linalg.generic[arith.addf,arith.maximumf]`.
    """

    is_optional: bool = False
    """True if the op may be absent."""


@dataclass(frozen=True)
class OpPattern:
    """Chain of ops; each op is the only user of its predecessor's results."""

    steps: Sequence[PatternStep]
    """Steps from first to last op."""


@dataclass(frozen=True)
class KernelSpec:
    """Kernel of a target."""

    name: str
    signatures: Sequence[Signature]
    patterns: Sequence[OpPattern | MatchFn] = ()
    """Ops that fusion wraps; empty for a kernel that only other passes create."""

    def signature(
        self,
        input_specs: Sequence[Attribute],
        output_specs: Sequence[Attribute],
        is_constant: Callable[[int], bool] = lambda _: True,
    ) -> Signature | None:
        """
        Return the first matching signature, expanded to one port per specification.

        Args:
            input_specs: the specifications of operands.
            output_specs: the specifications of results.
            is_constant: function that returns True if the operand with an index is
                constant; by default all operands are constant.
        """
        for signature in self.signatures:
            fitted = signature.expand_ports(input_specs, output_specs)
            if fitted is not None and all(
                not port.is_constant or is_constant(number)
                for number, port in enumerate(fitted.inputs)
            ):
                return fitted
        return None


@dataclass(frozen=True)
class TargetSpec:
    """Hardware target."""

    name: str
    kernels: Mapping[str, KernelSpec] = field(default_factory=dict[str, KernelSpec])

    range_rule: RangeRule = "exact"
    """Rule that derives parameters from a range."""

    description: str = ""

    @property
    def op_names(self) -> AbstractSet[str]:
        """Names in the patterns of the kernels."""
        return {
            name
            for kernel in self.kernels.values()
            for pattern in kernel.patterns
            if isinstance(pattern, OpPattern)
            for step in pattern.steps
            for name in step.names
        }
