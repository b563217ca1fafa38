"""
Replace kernels by their ops.

A port with a specification becomes a pair of casts, so that what was decided for it stays;
one without becomes nothing. So before propagation this is the reverse of
`quant-fuse-kernels`: the ops of each kernel are where its last op was.

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

from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizedType,
)
from xdsl_quant.dialects.quant.regions import RegionOp, ReturnOp
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.runtime.toml_tables import quoted
from xdsl_quant.transforms.statistics.ranges.value_ranges import ValueRanges

from .module_kernels import fitting_signature, kernels_of, operands_of
from .port_ranges import port_ranges
from .quant_fuse_kernels import POSITIONS
from .target_files import target_of_option
from .target_spec import TargetSpec


@dataclass(frozen=True)
class QuantInlineRegionsPass(CountingPass):
    """
    Replace kernels by their ops, and their specifications by casts at the ports. If both
    options are given, kernels are replaced that both select.
    """

    name = "quant-inline-regions"

    kernels: tuple[str, ...] = ()
    """Names of the kernels that are replaced; by default all are."""

    not_in_target: str | None = None
    """
    A target, by name or the path of a `.toml` file: the kernels are replaced that it does
    not have, or not with these specifications.
    """

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        found = regions = kernels_of(op)
        known = {region.kernel for region in regions}
        for name in self.kernels:
            if name not in known:
                available = quoted(sorted(known)) or "none"
                raise PassFailedException(
                    f"unknown kernel in 'kernels', found '{name}', available: {available}; "
                    "use one that the module has"
                )
        if self.kernels:
            regions = [region for region in regions if region.kernel in self.kernels]
        if self.not_in_target is not None:
            target = target_of_option(self.not_in_target)
            regions = [region for region in regions if not _has_kernel(target, region)]
        inline_regions(regions)
        expected = "kernels, which 'quant-fuse-kernels' makes"
        if self.not_in_target is not None:
            expected = f"kernels that target '{self.not_in_target}' does not have"
        return PassOutcome(found, len(regions), expected)


def _has_kernel(target: TargetSpec, region: RegionOp) -> bool:
    kernel = target.kernels.get(region.kernel)
    return kernel is not None and bool(fitting_signature(region, kernel, region.specs))


def inline_regions(regions: Sequence[RegionOp]) -> None:
    """
    Replace kernels by their ops, and their specifications by casts at the ports. If these
    are all kernels, and nothing happened since fusion, the ops are in their order again.
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
    """Put ops where they were, and the others around them, if that is a valid order."""
    ops = {position: op for op, position in positions.items()}
    others = (op for op in block.ops if op not in positions)
    count = len(block.ops)
    if (
        any(isinstance(op, RegionOp) for op in block.ops)
        or len(ops) < len(positions)
        or not {*ops} <= {*range(count)}
    ):
        return
    order = [ops[i] if i in ops else next(others) for i in range(count)]
    places = {op: place for place, op in enumerate(order)}
    if any(
        isinstance(owner := operand.owner, Operation) and places.get(owner, -1) >= place
        for op, place in places.items()
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
        cast = _quantized_as_specified(builder, value, spec, ranges.get(number))
        result.replace_all_uses_with(cast)
    Rewriter.erase_op(terminator)
    Rewriter.erase_op(region)


def _quantized_as_specified(
    builder: Builder, value: SSAValue, spec: Attribute, ranges: ValueRanges | None
) -> SSAValue:
    """
    Return a value that was quantized as a specification says, with ranges of an axis.
    """
    if not isinstance(spec, QuantizedType):
        return value
    quantized_type = spec.cast_from_expressed_type(value.type)
    assert quantized_type is not None
    quantized = builder.insert(QuantizeCastOp(value, quantized_type))
    if ranges is not None:
        quantized.attributes |= ranges.axis_attributes()
        if isinstance(spec, AnyQuantizedType):
            quantized.attributes |= ranges.layer_attributes()
    return builder.insert(DequantizeCastOp(quantized.result, value.type)).result
