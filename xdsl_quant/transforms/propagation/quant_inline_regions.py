"""
Replace kernels by their ops.

Ports with a specification become pairs of casts with the same parameters; other ports
disappear. Before propagation, the pass reverts `quant-fuse-kernels`.

Before:

```mlir
%y = quant.region "tfl.tanh" (%x_1 = %x : tensor<4xf32>)
    -> (tensor<4xf32> as !quant.uniform<i8:f32, 7.812500e-03>) {
  %y = "tfl.tanh"(%x_1) : (tensor<4xf32>) -> tensor<4xf32>
  quant.return %y : tensor<4xf32>
}
```

After:

```mlir
%y = "tfl.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
%0 = quant.qcast %y : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 7.812500e-03>>
%1 = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 7.812500e-03>> to tensor<4xf32>
```
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from xdsl_quant.diagnostics import quoted
from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizedType,
)
from xdsl_quant.dialects.quant.regions import RegionOp, ReturnOp
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.transforms.statistics.ranges.value_ranges import ValueRanges

from .dialect_casts import rounded_as_stated, stated_quantization
from .module_kernels import fitting_signature, kernels_of, operands_of
from .port_ranges import port_ranges
from .quant_fuse_kernels import POSITIONS
from .target_files import target_of_option
from .target_spec import TargetSpec


@dataclass(frozen=True)
class QuantInlineRegionsPass(CountingPass):
    """
    Replace kernels by their ops, and their specifications by casts at the ports. With
    both options, the pass inlines the kernels that satisfy both.
    """

    name = "quant-inline-regions"

    kernels: tuple[str, ...] = ()
    """Names of the kernels to inline; by default all kernels."""

    not_in_target: str | None = None
    """Inline only kernels that this target (name or `.toml` file) does not support."""

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        found = regions = kernels_of(op)
        known = {region.kernel for region in regions}
        for name in self.kernels:
            if name not in known:
                available = quoted(sorted(known)) or "none"
                raise PassFailedException(
                    f"unknown kernel '{name}' in option 'kernels', available: {available}"
                )
        if self.kernels:
            regions = [region for region in regions if region.kernel in self.kernels]
        if self.not_in_target is not None:
            target = target_of_option(self.not_in_target)
            regions = [region for region in regions if not _has_kernel(target, region)]
        inline_regions(regions)
        expected = "kernels, which 'quant-fuse-kernels' creates"
        if self.not_in_target is not None:
            expected = f"kernels that target '{self.not_in_target}' lacks"
        return PassOutcome(found, len(regions), expected)


def _has_kernel(target: TargetSpec, region: RegionOp) -> bool:
    kernel = target.kernels.get(region.kernel)
    return kernel is not None and bool(fitting_signature(region, kernel, region.specs))


def inline_regions(regions: Sequence[RegionOp]) -> None:
    """
    Replace kernels by their ops, with casts for specifications. Without quantized
    specifications, restore the order that ops had before fusion.
    """
    if any(isinstance(spec, QuantizedType) for each in regions for spec in each.specs):
        for region in regions:
            inline_region(region)
        return
    positions: dict[Block, dict[Operation, int]] = {}
    for region in regions:
        block = region.parent
        assert block is not None
        ops = [*region.body.block.ops][:-1]
        known = region.attributes.get(POSITIONS)
        inline_region(region)
        if isa(known, ArrayAttr[IntegerAttr]) and len(known) == len(ops):
            numbers = (number.value.data for number in known)
            positions.setdefault(block, {}).update(zip(ops, numbers, strict=True))
    for block, known in positions.items():
        _restore_order(block, known)


def _restore_order(block: Block, positions: Mapping[Operation, int]) -> None:
    """Move ops to their former positions, unless that order is invalid."""
    ops = {position: op for op, position in positions.items()}
    unmoved = (op for op in block.ops if op not in positions)
    count = len(block.ops)
    if (
        any(isinstance(op, RegionOp) for op in block.ops)
        or len(ops) < len(positions)
        or not {*ops} <= {*range(count)}
    ):
        return
    order = [ops[i] if i in ops else next(unmoved) for i in range(count)]
    indices = {op: index for index, op in enumerate(order)}
    if any(
        isinstance(owner := operand.owner, Operation)
        and indices.get(owner, -1) >= index
        for op, index in indices.items()
        for inner in op.walk()
        for operand in inner.operands
    ):
        return
    for op in order:
        op.detach()
        block.add_op(op)


def inline_region(region: RegionOp) -> None:
    """Replace a kernel by its ops, and its specifications by casts at the ports."""
    terminator = region.body.block.last_op
    assert isinstance(terminator, ReturnOp)
    builder = Builder(InsertPoint.before(region))
    ranges = port_ranges(region)
    arguments = [
        _quantized_as_specified(builder, value, spec, ranges.get(number))
        for number, (_, value, spec) in enumerate(operands_of(region))
    ]
    Rewriter.inline_block(region.body.block, InsertPoint.before(region), arguments)
    for number, (result, value) in enumerate(
        zip(region.results, terminator.arguments, strict=True), len(region.inputs)
    ):
        spec = region.specs[number]
        value = rounded_as_stated(builder, value, region, result.index)
        cast = _quantized_as_specified(builder, value, spec, ranges.get(number))
        result.replace_all_uses_with(cast)
    Rewriter.erase_op(terminator)
    Rewriter.erase_op(region)


def _quantized_as_specified(
    builder: Builder, value: SSAValue, spec: Attribute, ranges: ValueRanges | None
) -> SSAValue:
    """Quantize and dequantize a value as specified, with its per-axis ranges."""
    if not isinstance(spec, QuantizedType):
        return value
    quantized_type = spec.cast_from_expressed_type(value.type)
    assert quantized_type is not None
    if stated_quantization(value, quantized_type) is not None:
        return value
    quantized = builder.insert(QuantizeCastOp(value, quantized_type))
    if ranges is not None:
        quantized.attributes |= ranges.axis_attributes()
        if isinstance(spec, AnyQuantizedType):
            quantized.attributes |= ranges.layer_attributes()
    return builder.insert(DequantizeCastOp(quantized.result, value.type)).result
