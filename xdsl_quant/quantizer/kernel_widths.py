"""Storage widths that the signatures of a target support for a kernel."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute

from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    NoQuantizedType,
    RegionOp,
)
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.transforms.propagation.kernel_matching import is_constant
from xdsl_quant.transforms.propagation.module_kernels import (
    fitting_signature,
    is_float_value,
    ports_of,
)
from xdsl_quant.transforms.propagation.port_ranges import port_ranges, set_specs
from xdsl_quant.transforms.propagation.resolution.kernels import constraints_of
from xdsl_quant.transforms.propagation.target_spec import Signature, TargetSpec

from .recipe import SearchOptions


def result_widths(target: TargetSpec, *names: str) -> Collection[int]:
    """Return the storage widths of results of the named kernels, by default of all."""
    return {
        port.storage.storage_type_integral_width
        for name in names or target.kernels
        if name in target.kernels
        for signature in target.kernels[name].signatures
        for port in signature.outputs
        if port.storage is not None
    }


@dataclass(frozen=True)
class Width:
    """Storage widths of weights and activations in a signature."""

    weight_bits: int | None
    """Width of constant weights; `None` without weights."""

    activation_bits: int | None
    """Width of non-constant operands and of results; `None` if none are quantized."""

    ports: Mapping[int, AnyQuantizedType]
    """Storage types by port index; with them, the target selects this signature."""

    @property
    def text(self) -> str:
        """Widths of activations and weights, e.g. `16x8`."""
        bits = (self.activation_bits, self.weight_bits)
        return "x".join(str(each) for each in bits if each is not None)


def widths_of(
    kernel: RegionOp,
    target: TargetSpec,
    options: SearchOptions,
    least_weight_bits: int = 0,
) -> Sequence[Width]:
    """
    Return the available widths of a kernel, from narrow to wide.

    Args:
        kernel: a kernel with specifications of its ports.
        target: the target of the kernel.
        options: the widths to try.
        least_weight_bits: the least width of the weights.
    """
    widths: dict[tuple[int | None, int | None], Width] = {}
    for width in _signature_widths(kernel, target):
        bits = width.weight_bits, width.activation_bits
        if (
            width.ports
            and width.weight_bits in (None, *options.weight_bits)
            and width.activation_bits in (None, *options.activation_bits)
            and (width.weight_bits is None or width.weight_bits >= least_weight_bits)
        ):
            # Of signatures with equal widths, take the one with the widest ports.
            widths[bits] = max(widths.get(bits, width), width, key=_port_bits)
    return sorted(
        widths.values(), key=lambda w: (w.activation_bits or 0, w.weight_bits or 0)
    )


def _port_bits(width: Width) -> int:
    return sum(type_.storage_type_integral_width for type_ in width.ports.values())


def _signature_widths(kernel: RegionOp, target: TargetSpec) -> Iterator[Width]:
    if (known := target.kernels.get(kernel.kernel)) is None:
        return
    count = len(kernel.inputs)
    specs = [
        # The range of a constant follows from its elements.
        spec.expressed_type
        if isinstance(spec, CalibratedQuantizedType) and is_constant(value)
        else spec
        for value, spec in ports_of(kernel)
    ]
    for signature in known.signatures:
        fitted = signature.expand_ports(specs[:count], specs[count:])
        if fitted is None:
            continue
        width = _signature_width(kernel, fitted)
        wanted_specs = [width.ports.get(port, spec) for port, spec in enumerate(specs)]
        if fitting_signature(kernel, known, wanted_specs) == fitted:
            yield width


def _signature_width(kernel: RegionOp, signature: Signature) -> Width:
    constraints = constraints_of(kernel, signature)
    biases = {port for port, _ in constraints.biases}
    port_specs: dict[int, AnyQuantizedType] = {}
    weights: list[int] = []
    activations: list[int] = []
    ports = [*signature.inputs, *signature.outputs]
    for number, (port, (value, spec)) in enumerate(
        zip(ports, ports_of(kernel), strict=True)
    ):
        if (
            port.storage is None
            or port.is_wildcard
            or number in biases
            or not is_float_value(value)
            or isinstance(spec, UniformType | NoQuantizedType)
        ):
            continue
        is_weight = is_constant(value)
        if is_weight and number not in constraints.coefficients:
            continue
        bits = port.storage.storage_type_integral_width
        (weights if is_weight else activations).append(bits)
        port_specs[number] = AnyQuantizedType(
            port.storage.storage_type,
            cast(AnyFloat, scalar_or_element_type(value.type)),
            is_signed=port.storage.is_signed,
        )
    return Width(max(weights, default=None), max(activations, default=None), port_specs)


def request_width(kernel: RegionOp, width: Width) -> None:
    """Specify the storage widths of a kernel's ports; their ranges do not change."""
    specs: list[Attribute] = [
        width.ports.get(port, spec) for port, spec in enumerate(kernel.specs)
    ]
    set_specs(kernel, specs, port_ranges(kernel))


# Former name, kept for compatibility.
ask_for = request_width
