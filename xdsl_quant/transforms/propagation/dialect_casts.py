"""Casts of other dialects, such as `tfl.quantize`, at the ports of kernels."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from xdsl.builder import Builder
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    RegionOp,
    ScaledQuantizedType,
    StatisticsOp,
    StatisticsRefOp,
)
from xdsl_quant.dialects.quant.dialect_ops import QUANT_OPS, DialectOps, expressed_type
from xdsl_quant.dialects.quant.ops import stated_attributes
from xdsl_quant.dialects.quant.traits import CastsQuantization, has_quantization_trait
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.runtime.plugins import dialect_ops

from .module_kernels import kernels_of
from .port_ranges import result_rounding

QuantCast = QuantizeCastOp | DequantizeCastOp


def stated_quantization(value: SSAValue, type_: Attribute) -> SSAValue | None:
    """
    Return the quantized value of a type that a value is dequantized from, if its
    `quant.qcast` states its rounding; otherwise `None`.
    """
    if not isinstance(value.owner, DequantizeCastOp):
        return None
    quantized = value.owner.input
    cast = quantized.owner
    is_stated = isinstance(cast, QuantizeCastOp) and bool(stated_attributes(cast))
    return quantized if is_stated and quantized.type == type_ else None


def rounded_as_stated(
    builder: Builder, value: SSAValue, kernel: RegionOp, index: int
) -> SSAValue:
    """Round the float result number `index` of a kernel as a cast stated, if one did."""
    spec, rounding = kernel.output_specs.data[index], result_rounding(kernel, index)
    if not rounding or not isinstance(spec, ScaledQuantizedType):
        return value
    quantize = QuantizeCastOp(value, with_element_type(value.type, spec))
    quantize.attributes |= rounding
    quantized = builder.insert(quantize).result
    return builder.insert(DequantizeCastOp(quantized, value.type)).result


@contextmanager
def casts_as_quant(module: ModuleOp) -> Generator[Mapping[Operation, str]]:
    """
    Replace casts of other dialects at the ports of kernels by casts of the quant dialect
    while the `with` statement runs. A requantization becomes a dequantization and a
    quantization. Casts that remain get their own dialect back at the end. Yield the name
    of the replaced op for each cast.
    """
    replaced: list[tuple[DialectOps, Sequence[QuantCast]]] = []
    names: dict[Operation, str] = {}
    for op in _casts_at_ports(module):
        ops = dialect_ops(op.name.partition(".")[0])
        if ops is not QUANT_OPS and (casts := _as_quant(op)):
            _replace(op, casts)
            replaced.append((ops, casts))
            names |= dict.fromkeys(casts, op.name)
    try:
        yield names
    finally:
        for ops, casts in replaced:
            _restore(ops, casts)


def _casts_at_ports(module: ModuleOp) -> Sequence[Operation]:
    """Return the casts that only casts and statistics separate from a kernel."""
    values = [
        value
        for kernel in kernels_of(module)
        for value in (*kernel.inputs, *kernel.results)
    ]
    seen: set[SSAValue] = set()
    casts: dict[Operation, None] = {}
    while values:
        value = values.pop()
        if value in seen:
            continue
        seen.add(value)
        for op in (value.owner, *(use.operation for use in value.uses)):
            if not isinstance(op, Operation):
                continue
            if has_quantization_trait(op, CastsQuantization):
                casts[op] = None
            elif not isinstance(op, StatisticsOp | StatisticsRefOp):
                continue
            values += *op.operands, *op.results
    return [*casts]


def _as_quant(op: Operation) -> Sequence[QuantCast]:
    """Return the casts of the quant dialect for a cast, or `()` if there are none."""
    if len(op.operands) != 1 or len(op.results) != 1:
        return ()
    (value,), (result,) = op.operands, op.results
    casts: list[QuantCast] = []
    if isinstance(scalar_or_element_type(value.type), ScaledQuantizedType):
        casts.append(DequantizeCastOp(value, expressed_type(value)))
        value = casts[0].result
    if isinstance(scalar_or_element_type(result.type), ScaledQuantizedType):
        casts.append(QuantizeCastOp(value, result.type))
    return casts


def _restore(ops: DialectOps, casts: Sequence[QuantCast]) -> None:
    """Replace the casts that remain of a cast by casts of its dialect."""
    for cast in reversed([cast for cast in casts if cast.parent is not None]):
        if isinstance(cast, QuantizeCastOp):
            # Both casts of a requantization remain: skip the floats between them.
            is_second = cast.input.owner in casts
            source = casts[0].input if is_second else cast.input
            _replace(cast, ops.build_quantize(source, cast.result.type))
        elif cast.result.first_use is None:
            Rewriter.erase_op(cast)
        else:
            _replace(cast, (ops.dequantize(cast.input),))


def _replace(op: Operation, new_ops: Sequence[Operation]) -> None:
    """Replace a cast; the new ops get its attributes, its location and its name."""
    for new_op in new_ops:
        new_op.attributes |= op.attributes
        new_op.location = op.location
    new_ops[-1].results[0].name_hint = op.results[0].name_hint
    Rewriter.replace_op(op, new_ops)
