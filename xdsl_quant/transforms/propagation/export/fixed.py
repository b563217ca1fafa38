"""
Kernels as quantized ops, for targets with fixed kernels: a `quant.region` whose ports all
have uniform types becomes the ops within, which take and give quantized values.

It is done with the casts of the dialect that the ops are of: values are quantized by
`tfl.quantize` or `stablehlo.uniform_quantize`, and constants become those of stored values.
Where one kernel gives a value with other parameters than the next one takes, a cast from
the ones to the others is between them. A value that is stored already, with the parameters
that a kernel takes or gives, needs none, and its stored values stay as they are.

A kernel may have values of its own between its ops, and nothing says how these are
quantized. An accumulator, which is the result of an op that multiplies and accumulates, has
32 bits and the product of the scales of its factors; what is added to it has that, too.
A value that is only moved, ordered and clamped until it is a result has the type of this
result: what exceeds it makes no difference. In TensorFlow Lite an accumulator is no value.

A kernel stays what it was in floating point if a port has no uniform type, nothing says how
a value within is stored, or an op does not accept the types: it reads what is dequantized,
and constants as they are. Constants of other kernels need no type, such as the 0 of a
rectifier: they get that of what they are compared with, or of the result if they exceed it.
"""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.dialects.quant import RegionOp, ScaledQuantizedType
from xdsl_quant.dialects.quant.dialect_ops import QUANT_OPS, DialectOps
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
    """Return the casts of the dialect of the ops, if it has those of all ports."""
    dialects = (op.name.partition(".")[0] for op in region.body.block.ops)
    ops = next(
        (found for name in dialects if (found := dialect_ops(name)) is not QUANT_OPS),
        QUANT_OPS,
    )
    specs = (spec for spec in region.specs if isinstance(spec, ParametersType))
    return ops if all(map(ops.accepts, specs)) else QUANT_OPS


class FixedExport(KernelExport):
    """The export of the kernels of a module as quantized ops."""

    def __init__(self, module: ModuleOp):
        super().__init__(module)
        self.stored: dict[SSAValue, dict[Attribute, SSAValue]] = {}
        """What values of the module are quantized as, by element types."""

        self.dialect_ops: dict[SSAValue, DialectOps] = {}
        """With the casts of which dialect the results of kernels are quantized."""

        self.dequantizations: dict[Operation, None] = {}
        """The casts of values that kernels take as they are stored."""

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
                "the dialect of its ops has no quantized ops of these types"
            )
        check_ports(region, is_constant)
        if any(map(has_nan, region.inputs)):
            raise Unsupported("a constant that is no number")
        check_operands(region, self.out_of_range)
        kernel = QuantizedKernel(region, dialect_ops)
        for argument, value, spec in operands_of(region):
            if isinstance(spec, ScaledQuantizedType):
                value = self._quantized(value, spec, dialect_ops)
            kernel.values[argument] = value
        self._insert(kernel, kernel.results())

    def export_floats(self, region: RegionOp, *, are_stored: bool) -> Values:
        # Constants are those of the float model.
        kernel = QuantizedKernel(region, dialect_ops_of(region))
        for argument, value, spec in operands_of(region):
            if self.is_cut_off(value, spec):
                pass
            elif isinstance(spec, ParametersType) and (
                not is_constant(value) or _as_stored(value, spec) is not None
            ):
                value = kernel.expressed(
                    self._quantized(value, spec, kernel.dialect_ops)
                )
            elif value in self.stored:
                value = self._expressed(value)
            kernel.values[argument] = value
        results = kernel.float_results(are_stored=are_stored)
        self._insert(kernel, results)
        return results

    # Values of the module

    def _quantized(
        self, value: SSAValue, spec: ParametersType, dialect_ops: DialectOps
    ) -> SSAValue:
        """
        Return a value with this element type: all kernels that take it share a cast.
        """
        known = self.stored.setdefault(value, {})
        if (stored := _as_stored(value, spec)) is not None:
            self.dequantizations[cast(Operation, value.owner)] = None
            known[spec] = stored
        if spec not in known:
            is_result = value in self.dialect_ops
            source = next(iter(known.values())) if is_result else value
            new_ops = dialect_ops.quantized(source, with_element_type(value.type, spec))
            known[spec] = _inserted_after(source, new_ops)
        return known[spec]

    def floats(self, value: SSAValue) -> SSAValue:
        # Casts of a result of a kernel to a type that it is stored as are needless.
        known = {stored.type: stored for stored in self.stored.get(value, {}).values()}
        for use in [*value.uses]:
            op = use.operation
            if has_quantization_trait(op, CastsQuantization) and (
                (stored := known.get(op.results[0].type)) is not None
            ):
                Rewriter.replace_op(op, (), (stored,))
        return value if value.first_use is None else self._expressed(value)

    def _expressed(self, value: SSAValue) -> SSAValue:
        """Return the floats of a value."""
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
    """What a value is the dequantization of, if that has an element type."""
    op = value.owner
    if not isinstance(op, Operation) or not has_quantization_trait(
        op, CastsQuantization
    ):
        return None
    (source,) = op.operands
    return source if scalar_or_element_type(source.type) == spec else None


def _inserted_after(value: SSAValue, new_ops: Sequence[Operation]) -> SSAValue:
    """Insert ops where a value is there, and return the result of the last one."""
    builder = builder_after(value)
    return [builder.add(op) for op in new_ops][-1]


def widen_biases(module: ModuleOp) -> None:
    """
    Replace constant biases of ops on 16-bit activations by wider ones, where the dialect
    has kernels that need them.
    """
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
