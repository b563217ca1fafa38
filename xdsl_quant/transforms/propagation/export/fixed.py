"""
Export kernels as quantized ops for targets with fixed kernels: the ops of a
`quant.region` with uniform types at all ports are rebuilt on quantized values.

Values are quantized with the casts of the dialect of the ops, `tfl.quantize` or
`stablehlo.uniform_quantize`, and constants become constants of stored values. A cast
rescales a value between kernels with different parameters. A value that is already
stored with the parameters of a port needs no cast.

Values between the ops of a kernel have no specification. An accumulator, the result of
an op that multiplies and accumulates, is stored in 32 bits. Its scale is the product of
the factors' scales, and values added to it get the same type. A value that reaches a
result only through data movement, ordering and clamping gets the type of that result, as
values out of the result's range are clamped anyway. TensorFlow Lite ops do not return
accumulators.

A kernel stays in floating point if a port has no uniform type, no type is found for a value
between its ops, or an op does not accept the types. It then reads dequantized operands and
unchanged constants; constants with sub-channel types are dequantized, too. Constants of
quantized kernels, such as the 0 of a rectifier, need no specification. They get the type of
the operand that they are compared with, or of the result if that operand's type would round
or clamp them.
"""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.dialects.quant import (
    RegionOp,
    ScaledQuantizedType,
    UniformQuantizedSubChannelType,
)
from xdsl_quant.dialects.quant.dialect_ops import QUANT_OPS, DialectOps
from xdsl_quant.dialects.quant.ops import stated_attributes
from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    CastsQuantization,
    has_quantization_trait,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import (
    StoredQuantizedType,
    scalar_or_element_type,
    with_element_type,
)
from xdsl_quant.runtime.plugins import dialect_ops
from xdsl_quant.transforms.building.builder import Values
from xdsl_quant.transforms.propagation.kernel_matching import is_constant
from xdsl_quant.unsupported import Unsupported

from ..module_kernels import ParametersType, is_float_value, operands_of
from .float_kernels import (
    KernelExport,
    builder_after,
    check_operands,
    check_parameters,
    check_ports,
    has_nan,
)
from .quantized_kernels import QuantizedKernel


def dialect_ops_of(region: RegionOp) -> DialectOps:
    """Return the ops of the kernel's dialect, or `QUANT_OPS` if they reject a type."""
    dialects = (op.name.partition(".")[0] for op in region.body.block.ops)
    ops = next(
        (known for name in dialects if (known := dialect_ops(name)) is not QUANT_OPS),
        QUANT_OPS,
    )
    specs = (spec for spec in region.specs if isinstance(spec, ParametersType))
    return ops if all(map(ops.accepts, specs)) else QUANT_OPS


class FixedExport(KernelExport):
    """Export of the kernels of a module as quantized ops."""

    def __init__(self, module: ModuleOp):
        super().__init__(module)
        self.stored: dict[SSAValue, dict[Attribute, SSAValue]] = {}
        """Maps each value to its quantized values by element type."""

        self.dialect_ops: dict[SSAValue, DialectOps] = {}
        """Dialect ops that cast each kernel result."""

        self.dequantizations: dict[Operation, None] = {}
        """Dequantizations that kernels bypass by using the quantized operand."""

    def run(self) -> None:
        self.export_kernels()
        self.erase_kernels()
        for op in self.dequantizations:
            if op.results[0].first_use is None:
                Rewriter.erase_op(op)

    def _insert(self, kernel: QuantizedKernel, results: Values) -> None:
        region = kernel.region
        Rewriter.insert_op(kernel.ops, InsertPoint.before(region))
        specs = region.output_specs
        for old, new, spec in zip(region.results, results, specs, strict=True):
            new.name_hint = new.name_hint or old.name_hint
            if isinstance(spec, ParametersType) and not is_float_value(new):
                self.stored[old] = {spec: new}
                self.dialect_ops[old] = kernel.dialect_ops
            else:
                old.replace_all_uses_with(new)

    def export(self, index: int, region: RegionOp) -> None:
        check_parameters(region)
        dialect_ops = dialect_ops_of(region)
        if dialect_ops is QUANT_OPS:
            raise Unsupported(
                "the dialect of its ops has no quantized ops for these types"
            )
        check_ports(region, is_constant)
        if any(map(has_nan, region.inputs)):
            raise Unsupported("a constant has NaN elements")
        check_operands(region, self.out_of_range)
        kernel = QuantizedKernel(region, dialect_ops)
        for argument, value, spec in operands_of(region):
            if isinstance(spec, ScaledQuantizedType):
                value = self._quantized(value, spec, dialect_ops)
            kernel.values[argument] = value
        self._insert(kernel, kernel.results())

    def export_floats(self, region: RegionOp, *, are_stored: bool) -> Values:
        # Constants keep their float elements, unless the target stores them in blocks.
        kernel = QuantizedKernel(region, dialect_ops_of(region))
        for argument, value, spec in operands_of(region):
            if self.is_clamped(value, spec):
                pass
            elif isinstance(spec, ParametersType) and (
                not is_constant(value)
                or isinstance(spec, UniformQuantizedSubChannelType)
                or _as_stored(value, spec) is not None
            ):
                stored = self._quantized(value, spec, kernel.dialect_ops)
                value = kernel.expressed(stored)
            elif value in self.stored:
                value = self._expressed(value)
            kernel.values[argument] = value
        results = kernel.float_results(are_stored=are_stored)
        self._insert(kernel, results)
        return results

    # Values

    def _quantized(
        self, value: SSAValue, spec: ParametersType, dialect_ops: DialectOps
    ) -> SSAValue:
        """Cast a value to a quantized element type; kernels share the cast."""
        known = self.stored.setdefault(value, {})
        if (stored := _as_stored(value, spec)) is not None:
            self.dequantizations[cast(Operation, value.owner)] = None
            known[spec] = stored
        if spec not in known:
            is_result = value in self.dialect_ops
            source = next(iter(known.values())) if is_result else value
            new_ops = dialect_ops.build_quantize(
                source, with_element_type(value.type, spec)
            )
            known[spec] = _inserted_after(source, new_ops)
        return known[spec]

    def floats(self, value: SSAValue) -> SSAValue:
        # Remove casts of kernel results if values with these types already exist.
        known = {stored.type: stored for stored in self.stored.get(value, {}).values()}
        for use in [*value.uses]:
            op = use.operation
            if (
                has_quantization_trait(op, CastsQuantization)
                and not stated_attributes(op)
                and (stored := known.get(op.results[0].type)) is not None
            ):
                Rewriter.replace_op(op, (), (stored,))
        return value if value.first_use is None else self._expressed(value)

    def _expressed(self, value: SSAValue) -> SSAValue:
        """Return a value, dequantized if a kernel computes stored values for it."""
        if (dialect_ops := self.dialect_ops.get(value)) is None:
            return value
        known, expressed = self.stored[value], scalar_or_element_type(value.type)
        if expressed not in known:
            source = next(iter(known.values()))
            known[expressed] = _inserted_after(
                source, (dialect_ops.dequantize(source),)
            )
        return known[expressed]


def _as_stored(value: SSAValue, spec: ParametersType) -> SSAValue | None:
    """Return the operand of type `spec` that a cast converted to `value`, or `None`."""
    op = value.owner
    if not isinstance(op, Operation) or not has_quantization_trait(
        op, CastsQuantization
    ):
        return None
    (source,) = op.operands
    return source if scalar_or_element_type(source.type) == spec else None


def _inserted_after(value: SSAValue, new_ops: Sequence[Operation]) -> SSAValue:
    """Insert ops after a value, and return the result of the last op."""
    builder = builder_after(value)
    return [builder.add(op) for op in new_ops][-1]


def widen_biases(module: ModuleOp) -> None:
    """Widen constant biases of ops on 16-bit activations if the dialect requires it."""
    for op in module.walk():
        trait = quantization_trait(op, AccumulatorUniformScale)
        if trait is None or trait.bias >= len(op.operands):
            continue
        activation = scalar_or_element_type(op.operands[trait.factors[0]].type)
        if (
            isinstance(activation, StoredQuantizedType)
            and activation.storage_type_integral_width == 16
        ):
            dialect_ops(op.name.partition(".")[0]).widen_bias(op, trait.bias)
