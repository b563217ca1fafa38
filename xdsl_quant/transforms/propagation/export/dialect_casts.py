"""How casts of the dialects that have quantized ops are written."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizedType,
    RegionOp,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type

from .reasons import UnsupportedParameters, check_parameters


class Words:
    """How the casts of a dialect are written: here those of the quant dialect."""

    has_accumulators = False
    """Whether accumulators of 32 bits are values."""

    def quantized(self, value: SSAValue, type_: Attribute) -> Sequence[Operation]:
        """Ops the last of which gives a float or quantized value another type."""
        if not is_quantized(value.type):
            return (QuantizeCastOp(value, type_),)
        expressed = self.expressed(value)
        return expressed, QuantizeCastOp(expressed.results[0], type_)

    def expressed(self, value: SSAValue) -> Operation:
        """The op that gives the floats of a quantized value."""
        return DequantizeCastOp(value, _expressed_type(value))


class _TFLWords(Words):
    def quantized(self, value: SSAValue, type_: Attribute) -> Sequence[Operation]:
        from xdsl_quant.dialects.tfl.elementwise import QuantizeOp

        op = QuantizeOp.create(
            operands=[value], result_types=[type_], properties={"qtype": type_}
        )
        return (op,)

    def expressed(self, value: SSAValue) -> Operation:
        from xdsl_quant.dialects.tfl.elementwise import DequantizeOp

        return DequantizeOp.create(
            operands=[value], result_types=[_expressed_type(value)]
        )


class _StableHLOWords(Words):
    has_accumulators = True

    def quantized(self, value: SSAValue, type_: Attribute) -> Sequence[Operation]:
        from xdsl_quant.dialects.stablehlo.elementwise import UniformQuantizeOp

        return (UniformQuantizeOp.create(operands=[value], result_types=[type_]),)

    def expressed(self, value: SSAValue) -> Operation:
        from xdsl_quant.dialects.stablehlo.elementwise import UniformDequantizeOp

        return UniformDequantizeOp.create(
            operands=[value], result_types=[_expressed_type(value)]
        )


QUANT_WORDS = Words()
_WORDS = {"tfl": _TFLWords(), "stablehlo": _StableHLOWords()}


def words_of(region: RegionOp) -> Words:
    try:
        check_parameters(region)
    except UnsupportedParameters:
        # No other dialect has casts to floats, tables and block-scaled types.
        return QUANT_WORDS
    dialects = (op.name.partition(".")[0] for op in region.body.block.ops)
    return next((_WORDS[name] for name in dialects if name in _WORDS), QUANT_WORDS)


def is_quantized(type_: Attribute) -> bool:
    return isinstance(scalar_or_element_type(type_), QuantizedType)


def _expressed_type(value: SSAValue) -> TypeAttribute:
    type_ = QuantizedType.cast_to_expressed_type(value.type)
    assert type_ is not None
    return type_
