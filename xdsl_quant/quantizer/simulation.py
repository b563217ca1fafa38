"""
Simulation of a quantized model by float ops, with fake quantization at the ports of
kernels.

Constants are arguments, so that models with equal activation types share compiled code.
Lowering and compiling a quantized model takes a hundred times as long as running it.
Results may differ from integer arithmetic by a few units of the stored value.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from xdsl.dialects.builtin import AnyFloat, ModuleOp, ShapedType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import ConstantLike

from xdsl_quant.dialects.quant import RegionOp
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.runtime.arrays import constant_elements
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.transforms.propagation.module_kernels import kernels_of, ports_of
from xdsl_quant.transforms.propagation.port_ranges import set_specs
from xdsl_quant.transforms.propagation.quant_inline_regions import inline_regions

from .errors import has_constant_value
from .recording import RecordedModule, as_stored, record_results
from .signal_noise import OUTPUT, Floats

_Port: TypeAlias = "tuple[int, int]"
"""Number of a kernel, and index of one of its operands."""


@dataclass
class Simulations:
    """Cache of the simulations of a model with different quantization parameters."""

    entry: str | None = None
    _modules: dict[tuple[Attribute, ...], RecordedModule] = field(
        default_factory=dict[tuple[Attribute, ...], RecordedModule]
    )
    _constants: dict[tuple[_Port, Attribute], Floats] = field(
        default_factory=dict[tuple[_Port, Attribute], Floats]
    )

    def can_run(self, resolved: ModuleOp) -> bool:
        """Return True if all kernels are in the single block of the entry function."""
        body = entry_function(resolved, self.entry).body
        return len(body.blocks) == 1 and all(
            kernel.parent is body.block for kernel in kernels_of(resolved)
        )

    def of(self, resolved: ModuleOp) -> RecordedModule:
        """
        Return the simulation of a model.

        Args:
            resolved: a model with quantization parameters. The models of different
                calls may differ only in these parameters.
        """
        key = tuple(
            _specification(value, spec)
            for kernel in kernels_of(resolved)
            for value, spec in ports_of(kernel)
        )
        if key not in self._modules:
            module = _simulated(resolved, self.entry)
            self._modules[key] = RecordedModule.of(module, self.entry)
        return replace(self._modules[key], constants=[*self._arguments(resolved)])

    def _arguments(self, resolved: ModuleOp) -> Iterator[Floats]:
        kernels = kernels_of(resolved)
        for number, index in _constant_ports(resolved):
            kernel = kernels[number]
            spec = kernel.input_specs.data[index]
            key = (number, index), spec
            if key not in self._constants:
                self._constants[key] = _rounded_constant(kernel.inputs[index], spec)
            yield self._constants[key]


def _constant_ports(module: ModuleOp) -> Iterator[_Port]:
    """Yield the kernel operands that are float constants."""
    for number, kernel in enumerate(kernels_of(module)):
        for index, value in enumerate(kernel.inputs):
            op = value.owner
            if (
                isinstance(op, Operation)
                and op.has_trait(ConstantLike)
                and isinstance(scalar_or_element_type(value.type), AnyFloat)
                and isinstance(value.type, ShapedType)
            ):
                yield number, index


def _rounded_constant(value: SSAValue, spec: Attribute) -> Floats:
    elements = constant_elements(value)
    assert elements is not None
    if not isinstance(spec, UniformType):
        return elements.copy()
    return as_stored(elements, spec)


def _specification(value: SSAValue, spec: Attribute) -> Attribute:
    """Return the uniform type of a port, or a float type for constants and float ports."""
    if isinstance(spec, UniformType) and not has_constant_value(value):
        return spec
    return scalar_or_element_type(value.type)


def _simulated(resolved: ModuleOp, entry: str | None) -> ModuleOp:
    module = resolved.clone()
    function = entry_function(module, entry)
    kernels: list[RegionOp] = [*kernels_of(module)]
    for kernel in kernels:
        specs = [_specification(value, spec) for value, spec in ports_of(kernel)]
        set_specs(kernel, specs, {})
    block = function.body.block
    for number, index in [*_constant_ports(module)]:
        type_ = kernels[number].inputs[index].type
        kernels[number].operands[index] = block.insert_arg(type_, len(block.args))
    function.arg_attrs = None
    function.update_function_type()
    inline_regions(kernels)
    record_results(function, f"{function.sym_name.data}:{OUTPUT}")
    return module
