"""The kernels of a module, and the ops that are in none."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from xdsl.dialects import tensor
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Block, BlockArgument, Operation, SSAValue
from xdsl.traits import IsTerminator

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    RegionOp,
    ScaledQuantizedType,
    StatisticsOp,
    StatisticsRefOp,
)
from xdsl_quant.dialects.quant.traits import CastsQuantization, has_quantization_trait
from xdsl_quant.dialects.quant.types import scalar_or_element_type

from .kernel_matching import COMPUTATIONS, DIALECTS_OF_CONTROL_FLOW, is_constant
from .target_spec import KernelSpec, Signature

ParametersType: TypeAlias = ScaledQuantizedType | BlockScaledQuantizedType
"""A specification with the parameters of a cast."""

_DIALECTS_OF_BODIES = ("linalg", "stablehlo", "tensor")
"""Dialects whose ops have regions that compute single elements."""

_CONTROL_FLOW = ("stablehlo.case", "stablehlo.if", "stablehlo.while")
"""Ops of these dialects whose regions are other ones."""

_PASSES_ON = RegionOp | StatisticsOp | StatisticsRefOp | tensor.EmptyOp
"""Ops that compute nothing themselves."""


def kernels_of(module: Operation) -> Sequence[RegionOp]:
    """Return the kernels of a module, or of another op, in the order of the text."""
    return [op for op in module.walk() if isinstance(op, RegionOp)]


def ops_outside_kernels(op: Operation) -> Iterator[Operation]:
    """Yield the ops within an op but for those in kernels, in the order of the text."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield inner
                if not isinstance(inner, RegionOp):
                    yield from ops_outside_kernels(inner)


def ports_of(kernel: RegionOp) -> Iterator[tuple[SSAValue, Attribute]]:
    """
    Return the values at the ports of a kernel, operands then results, with
    specifications.
    """
    return zip((*kernel.inputs, *kernel.results), kernel.specs, strict=True)


def operands_of(
    kernel: RegionOp,
) -> Iterator[tuple[BlockArgument, SSAValue, Attribute]]:
    """
    Return the operands of a kernel: argument of its block, value and specification.
    """
    args = kernel.body.block.args
    return zip(args, kernel.inputs, kernel.input_specs, strict=True)


def fitting_signature(
    kernel: RegionOp, known: KernelSpec, specs: Sequence[Attribute]
) -> Signature | None:
    """
    Return the first signature that fits a kernel.

    Args:
        kernel: the kernel, whose operands at `const` ports must be constant.
        known: what the target says about it.
        specs: the specifications of its ports.
    """
    count = len(kernel.inputs)
    return known.signature(
        specs[:count],
        specs[count:],
        lambda number: is_constant(kernel.inputs[number], through_kernels=True),
    )


def blocks_with_kernels(op: Operation) -> Iterator[Block]:
    """Yield the blocks within an op that may have kernels."""
    for inner in (op, *_ops_that_may_be_kernels(op)):
        yield from _blocks(inner)


def float_ops_of(op: Operation) -> Iterator[Operation]:
    """
    Return the ops within an op that take or give floats and are in no kernel, in the
    order of the text, but for constants, casts, and what passes values on.
    """
    return filter(_is_of_floats, _ops_that_may_be_kernels(op))


def _ops_that_may_be_kernels(op: Operation) -> Iterator[Operation]:
    for block in _blocks(op):
        for inner in block.ops:
            yield inner
            yield from _ops_that_may_be_kernels(inner)


def _blocks(op: Operation) -> Iterator[Block]:
    """
    Yield the blocks of an op, but for those of kernels and of what computes an element.
    """
    if not isinstance(op, RegionOp) and not _has_body(op):
        for region in op.regions:
            yield from region.blocks


def _has_body(op: Operation) -> bool:
    """Return True if regions of an op say how it computes single elements."""
    name = op_name(op)
    return name.partition(".")[0] in _DIALECTS_OF_BODIES and name not in _CONTROL_FLOW


def _is_of_floats(op: Operation) -> bool:
    if (
        isinstance(op, _PASSES_ON)
        or op_name(op).partition(".")[0] in DIALECTS_OF_CONTROL_FLOW
        or (op.regions and not _has_body(op))
        or has_quantization_trait(op, CastsQuantization)
    ):
        return False
    if any(map(is_float_value, op.results)):
        return not all(map(is_constant, op.results))
    # Of what gives no floats, sizes need none, and a store keeps them.
    is_store = not op.results and not op.has_trait(IsTerminator)
    return any(map(is_float_value, op.operands)) and (
        is_store or has_quantization_trait(op, *COMPUTATIONS)
    )


def is_float_value(value: SSAValue) -> bool:
    """Return True if a value is a float or has elements that are."""
    return isinstance(scalar_or_element_type(value.type), AnyFloat)
