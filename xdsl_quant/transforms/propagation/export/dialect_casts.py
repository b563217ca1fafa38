"""How casts of the dialects that have quantized ops are written."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizedType,
    RegionOp,
    ScaledQuantizedType,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type

from ..module_kernels import ParametersType


class Words:
    """How the casts of a dialect are written: here those of the quant dialect."""

    has_accumulators = False
    """Whether accumulators of 32 bits are values."""

    def accepts(self, _element_type: QuantizedType) -> bool:
        """Whether casts of the dialect have values of a type."""
        return True

    def quantized(self, value: SSAValue, type_: Attribute) -> Sequence[Operation]:
        """Ops the last of which gives a float or quantized value another type."""
        element_type = scalar_or_element_type(value.type)
        if not isinstance(element_type, QuantizedType) or self._requantizes(
            element_type
        ):
            return (self._quantize(value, type_),)
        expressed = QUANT_WORDS.expressed(value)
        return expressed, self._quantize(expressed.results[0], type_)

    def _requantizes(self, _element_type: QuantizedType) -> bool:
        """Whether the op that quantizes floats takes stored values of a type, too."""
        return False

    def _quantize(self, value: SSAValue, type_: Attribute) -> Operation:
        return QuantizeCastOp(value, type_)

    def expressed(self, value: SSAValue) -> Operation:
        """The op that gives the floats of a quantized value."""
        return DequantizeCastOp(value, _expressed_type(value))


class _TFLWords(Words):
    def accepts(self, element_type: QuantizedType) -> bool:
        return (
            isinstance(element_type, ScaledQuantizedType)
            and element_type.has_integer_storage
        )

    def _requantizes(self, element_type: QuantizedType) -> bool:
        return self.accepts(element_type)

    def _quantize(self, value: SSAValue, type_: Attribute) -> Operation:
        from xdsl_quant.frontends.tflite.dialect.elementwise import QuantizeOp

        return QuantizeOp.create(
            operands=[value], result_types=[type_], properties={"qtype": type_}
        )

    def expressed(self, value: SSAValue) -> Operation:
        from xdsl_quant.frontends.tflite.dialect.elementwise import DequantizeOp

        return DequantizeOp.create(
            operands=[value], result_types=[_expressed_type(value)]
        )


class _StableHLOWords(Words):
    has_accumulators = True

    def accepts(self, element_type: QuantizedType) -> bool:
        from xdsl_quant.frontends.stablehlo.dialect.tensor_kinds import element_kind

        return element_kind(element_type) is not None

    def _requantizes(self, element_type: QuantizedType) -> bool:
        return self.accepts(element_type)

    def _quantize(self, value: SSAValue, type_: Attribute) -> Operation:
        from xdsl_quant.frontends.stablehlo.dialect.elementwise import UniformQuantizeOp

        return UniformQuantizeOp.create(operands=[value], result_types=[type_])

    def expressed(self, value: SSAValue) -> Operation:
        from xdsl_quant.frontends.stablehlo.dialect.elementwise import (
            UniformDequantizeOp,
        )

        return UniformDequantizeOp.create(
            operands=[value], result_types=[_expressed_type(value)]
        )


QUANT_WORDS = Words()
_WORDS = {"tfl": _TFLWords(), "stablehlo": _StableHLOWords()}


def words_of(region: RegionOp) -> Words:
    """The casts of the dialect of the ops, if it has those of all ports."""
    dialects = (op.name.partition(".")[0] for op in region.body.block.ops)
    words = next((_WORDS[name] for name in dialects if name in _WORDS), QUANT_WORDS)
    specs = (spec for spec in region.specs if isinstance(spec, ParametersType))
    return words if all(map(words.accepts, specs)) else QUANT_WORDS


def is_quantized(type_: Attribute) -> bool:
    return isinstance(scalar_or_element_type(type_), QuantizedType)


def _expressed_type(value: SSAValue) -> TypeAttribute:
    type_ = QuantizedType.cast_to_expressed_type(value.type)
    assert type_ is not None
    return type_
