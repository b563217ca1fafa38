"""Find the kernels of a module and the float ops outside of kernels."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from xdsl.dialects import tensor
from xdsl.dialects.builtin import AnyFloat, ModuleOp
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
from xdsl_quant.runtime.entry_function import referenced_symbols, symbols_from

from .kernel_matching import COMPUTATIONS, DIALECTS_OF_CONTROL_FLOW, is_constant
from .target_spec import KernelSpec, Signature

ParametersType: TypeAlias = ScaledQuantizedType | BlockScaledQuantizedType
"""Specification with all parameters that a cast needs."""

_DIALECTS_OF_BODIES = ("linalg", "stablehlo", "tensor")
"""Dialects whose regions compute single elements."""

_CONTROL_FLOW = ("stablehlo.case", "stablehlo.if", "stablehlo.while")
"""Ops of `_DIALECTS_OF_BODIES` whose regions contain ordinary ops."""

_PASSES_ON = RegionOp | StatisticsOp | StatisticsRefOp | tensor.EmptyOp
"""Ops that do not compute."""


def kernels_of(module: Operation) -> Sequence[RegionOp]:
    """Return the kernels within an op in textual order."""
    return [op for op in module.walk() if isinstance(op, RegionOp)]


def ops_outside_kernels(op: Operation) -> Iterator[Operation]:
    """Yield the ops within an op in textual order, except those inside kernels."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield inner
                if not isinstance(inner, RegionOp):
                    yield from ops_outside_kernels(inner)


def ports_of(kernel: RegionOp) -> Iterator[tuple[SSAValue, Attribute]]:
    """Yield the values at a kernel's ports, operands first, with specifications."""
    return zip((*kernel.inputs, *kernel.results), kernel.specs, strict=True)


def operands_of(
    kernel: RegionOp,
) -> Iterator[tuple[BlockArgument, SSAValue, Attribute]]:
    """Yield the block argument, value and specification of each operand of a kernel."""
    args = kernel.body.block.args
    return zip(args, kernel.inputs, kernel.input_specs, strict=True)


def fitting_signature(
    kernel: RegionOp, known: KernelSpec, specs: Sequence[Attribute]
) -> Signature | None:
    """
    Return the first signature that matches a kernel.

    Args:
        kernel: the kernel, whose operands at `const` ports must be constant.
        known: the description of the kernel in the target.
        specs: the specifications of the ports.
    """
    count = len(kernel.inputs)
    return known.signature(
        specs[:count],
        specs[count:],
        lambda number: is_constant(kernel.inputs[number], through_kernels=True),
    )


def blocks_with_kernels(op: Operation) -> Iterator[Block]:
    """Yield the blocks within an op that may contain kernels."""
    for inner in (op, *_ops_that_may_be_kernels(op)):
        yield from _blocks(inner)


def float_ops_outside_kernels(op: Operation) -> Iterator[Operation]:
    """
    Yield float ops outside of kernels in textual order, except constants, casts and
    control flow.
    """
    return filter(_is_of_floats, _ops_that_may_be_kernels(op))


def functions_called_by(module: ModuleOp, ops: Iterable[Operation]) -> set[Operation]:
    """Return the functions that ops or their regions call, directly or indirectly."""
    names = [name for op in ops for name in referenced_symbols(op)]
    return {*symbols_from(module, names).values()}


def functions_in_kernels(op: Operation) -> set[Operation]:
    """Return the functions that kernels call, if `op` is a module."""
    is_module = isinstance(op, ModuleOp)
    return functions_called_by(op, kernels_of(op)) if is_module else set()


def _ops_that_may_be_kernels(op: Operation) -> Iterator[Operation]:
    in_kernels = functions_in_kernels(op)
    for block in _blocks(op):
        for inner in block.ops:
            if inner not in in_kernels:
                yield inner
                yield from _ops_that_may_be_kernels(inner)


def _blocks(op: Operation) -> Iterator[Block]:
    """Yield the blocks of an op, except those of kernels and of elementwise bodies."""
    if not isinstance(op, RegionOp) and not _has_body(op):
        for region in op.regions:
            yield from region.blocks


def _has_body(op: Operation) -> bool:
    """Return True if the regions of an op compute elements, as in `linalg.generic`."""
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
    # Ops without float results count only if they compute or store: shape ops do not.
    is_store = not op.results and not op.has_trait(IsTerminator)
    return any(map(is_float_value, op.operands)) and (
        is_store or has_quantization_trait(op, *COMPUTATIONS)
    )


def is_float_value(value: SSAValue) -> bool:
    """Return True if a value is a float or a container of floats."""
    return isinstance(scalar_or_element_type(value.type), AnyFloat)
