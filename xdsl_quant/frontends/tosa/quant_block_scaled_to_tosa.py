"""
Conversion of MX formats to TOSA: a `quant.dcast` of a block-scaled type becomes
`tosa.cast_from_block_scaled` with a constant for the scales.

An MX format has 4-, 6- or 8-bit elements, blocks of 32 along the last dimension, and
power-of-two scales. The pass also converts block-scaled types whose values an MX format can
represent: scales stored in another type than `f8E8M0FNU`, block sizes that are a multiple
of 32, and rows that share scales. TOSA multiplies element and scale exactly in f32 and
rounds once for bf16, like `quant.dcast`.

With `scales=type`, constants have `!tosa.block_scaled` elements instead, and `tosa.cast`
multiplies by the scales. This type of MLIR's main branch contains the scales of a constant.

A block-scaled `quant.qcast` is an error, which leaves the module unchanged:
`tosa.cast_to_block_scaled` computes block scales from the values, but the quantized type
fixes them. Casts of other types are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith, tosa
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    Float8E8M0FNUType,
    IntegerType,
    TensorType,
    bf16,
    f32,
    i8,
)
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant import xdsl_patches
from xdsl_quant.diagnostics import quoted, refuse, refusing
from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    DequantizeCastOp,
    QuantizeCastOp,
    StorageCastOp,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.frontends.tosa.attributes import (
    BLOCK_ELEMENT_TYPES,
    BlockScaledType,
    BlockSize,
    BlockSizeAttr,
    MXInt8Type,
)
from xdsl_quant.frontends.tosa.ops import BLOCK_SIZE, CastFromBlockScaledOp, CastOp
from xdsl_quant.numerics.arrays import Array, bytes_of
from xdsl_quant.runtime.arrays import (
    ElementsAttr,
    constant_attr,
    dense_elements,
    shortened,
)
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern, PatternPass
from xdsl_quant.xdsl_patches.resources import RESOURCE_BYTES, new_resource

ScalesIn: TypeAlias = Literal["operand", "type"]

_MXINT8_UNIT = 1 / 64
"""Value of an MXINT8 element whose bits are the integer 1."""

_NAN_CODE = 255


class BlockScaledOperands(NamedTuple):
    """Operands of `tosa.cast_from_block_scaled` for a block-scaled tensor."""

    element_type: TypeAttribute
    """Element type, one of `BLOCK_ELEMENT_TYPES`."""

    scales: NDArray[np.uint8]
    """`f8E8M0FNU` codes, one per block of 32 along the last dimension."""


def block_scaled_operands(type_: Attribute) -> BlockScaledOperands:
    """
    Return TOSA's operands for a tensor type with block-scaled elements.

    Raises:
        ValueError: if TOSA cannot represent the type; the message says why.
    """
    if not isinstance(type_, TensorType):
        raise ValueError(f"expected a ranked tensor, found type '{shortened(type_)}'")
    shape = cast("TensorType[Attribute]", type_).get_shape()
    _check_block_shape(shape)
    quantized_type = cast(BlockScaledQuantizedType, type_.element_type)
    for name in ("zero_points", "offsets"):
        if name in quantized_type.block_parameter_attrs:
            raise ValueError(f"unsupported {name.replace('_', ' ')}")
    if quantized_type.expressed_type not in (f32, bf16):
        raise ValueError(
            f"unsupported expressed type '{quantized_type.expressed_type}'; expected "
            "'f32' or 'bf16'"
        )
    element_type = _block_element_type(quantized_type)
    is_integer = isinstance(element_type, MXInt8Type)
    codes = _e8m0_codes(quantized_type, _MXINT8_UNIT if is_integer else 1)
    blocks = quantized_type.get_blocks()
    return BlockScaledOperands(element_type, _repeat_for_blocks(codes, blocks, shape))


def _check_block_shape(shape: Sequence[int]) -> None:
    if not shape or DYNAMIC_INDEX in shape or 0 in shape:
        sizes = "x".join("?" if size == DYNAMIC_INDEX else str(size) for size in shape)
        raise ValueError(
            f"unsupported shape '{sizes}'; expected static, non-zero sizes"
        )
    if shape[-1] % BLOCK_SIZE:
        raise ValueError(
            f"unsupported size {shape[-1]} of the last dimension; expected a multiple of "
            f"{BLOCK_SIZE}"
        )


def _block_element_type(type_: BlockScaledQuantizedType) -> TypeAttribute:
    if type_.stored_type == i8 and type_.is_signed:
        return MXInt8Type()
    if isinstance(type_.stored_type, BLOCK_ELEMENT_TYPES):
        return type_.stored_type
    names = quoted(type_class.name for type_class in BLOCK_ELEMENT_TYPES[:-1])
    raise ValueError(
        f"unsupported storage type '{type_.short_storage_name}'; expected {names} or 'i8'"
    )


def _e8m0_codes(type_: BlockScaledQuantizedType, unit: float) -> NDArray[np.uint8]:
    """Return the scales, divided by `unit`, as `f8E8M0FNU` codes."""
    scales = type_.scales.numbers(type_.is_signed)
    fractions, exponents = np.frexp(scales / unit)
    is_nan = np.isnan(scales)
    is_code = (fractions == 0.5) & (exponents >= -126) & (exponents <= 128) | is_nan
    if not is_code.all():
        suffix = "" if unit == 1 else f" times {unit}"
        raise ValueError(
            f"scale {scales[~is_code].flat[0]} is not representable in f8E8M0FNU{suffix}; "
            "expected a power of two"
        )
    return np.where(is_nan, _NAN_CODE, exponents + 126).astype(np.uint8)


def _repeat_for_blocks(
    codes: NDArray[np.uint8],
    blocks: Mapping[int, tuple[int, int]],
    shape: Sequence[int],
) -> NDArray[np.uint8]:
    """Repeat the codes of larger blocks, so that each block of TOSA has one code."""
    # Dimensions without blocks count as one block.
    counts = [blocks[axis][0] if axis in blocks else 1 for axis in range(len(shape))]
    codes = codes.reshape(counts)
    for axis, size in enumerate(shape):
        is_last = axis == len(shape) - 1
        length = size // BLOCK_SIZE if is_last else size
        repeats = length
        if counts[axis] > 1:
            repeats, rest = divmod(blocks[axis][1], BLOCK_SIZE if is_last else 1)
            if rest:
                raise ValueError(
                    f"unsupported block size {blocks[axis][1]} along the last dimension; "
                    f"expected a multiple of {BLOCK_SIZE}"
                )
        codes = codes.repeat(repeats, axis).take(range(length), axis)
    return codes


class _Plan(NamedTuple):
    operands: BlockScaledOperands

    elements: ElementsAttr | NDArray[np.uint8] | None
    """Elements of a constant: an attribute, or codes for one; `None` for other values."""


@dataclass(frozen=True)
class BlockScaledToTosa(CheckedPattern[_Plan]):
    """
    Lower a `quant.dcast` of a block-scaled type to TOSA, or raise `PassFailedException`.
    """

    scales: ScalesIn = "operand"
    """Location of the scales: an operand, or the element type of a constant."""

    def plan(self, op: Operation) -> _Plan | None:
        if not isinstance(op, DequantizeCastOp | QuantizeCastOp):
            return None
        is_qcast = isinstance(op, QuantizeCastOp)
        quantized = op.result.type if is_qcast else op.input.type
        if not isinstance(scalar_or_element_type(quantized), BlockScaledQuantizedType):
            return None
        problem = "cannot be converted to TOSA"
        if isinstance(op, QuantizeCastOp):
            reason = (
                "tosa.cast_to_block_scaled computes block scales, but the type fixes "
                "them"
            )
            refuse(op, problem, reason, "quantize constants first")
        with refusing(op, problem):
            plan = self._plan_of(op)
        return plan

    def _plan_of(self, op: DequantizeCastOp) -> _Plan:
        operands = block_scaled_operands(op.input.type)
        constant = _stored_constant(op.input)
        is_type = self.scales == "type"
        if is_type and _NAN_CODE in operands.scales:
            raise ValueError(
                "a scale is NaN, which '!tosa.block_scaled' does not support; use "
                "'scales=operand'"
            )
        if constant is not None:
            if not is_type and _is_tosa_constant(constant):
                return _Plan(operands, constant)
            return _Plan(operands, dense_elements(constant).view(np.uint8))
        if is_type or isinstance(operands.element_type, MXInt8Type):
            type_ = "!tosa.block_scaled" if is_type else "!tosa.mxint8"
            raise ValueError(
                f"stored values are not constant, and TOSA has no cast to '{type_}'"
            )
        return _Plan(operands, None)

    def rewrite(self, op: Operation, plan: _Plan, rewriter: PatternRewriter) -> None:
        builder = LoweringBuilder.before(op)
        (quantized,), (result,) = op.operands, op.results
        if self.scales == "type":
            constant = _block_scaled_constant(builder, quantized, plan)
            value = builder.op(CastOp, (constant,), result.type)
        else:
            operands = (
                _element_operand(builder, quantized, plan),
                _scale_operand(builder, plan.operands.scales),
            )
            properties = {"block_size": BlockSizeAttr(BlockSize.BLOCK_SIZE_32)}
            value = builder.op(CastFromBlockScaledOp, operands, result.type, properties)
        rewriter.replace(op, (), (value,))
        _erase_unused_constants(quantized, rewriter)


def _stored_constant(quantized: SSAValue) -> ElementsAttr | None:
    if not isinstance(scast := quantized.owner, StorageCastOp):
        return None
    if isinstance(constant := scast.input.owner, tosa.ConstOp):
        return constant.values
    return constant_attr(scast.input)


def _is_tosa_constant(constant: ElementsAttr) -> bool:
    element_type = scalar_or_element_type(constant.type)
    if not isinstance(element_type, AnyFloat):
        return False
    # TOSA's resources pack elements narrower than 8 bits.
    return element_type.bitwidth == 8 or not isinstance(constant, DenseResourceAttr)


def _element_operand(
    builder: LoweringBuilder, quantized: SSAValue, plan: _Plan
) -> SSAValue:
    element_type, elements = plan.operands.element_type, plan.elements
    type_ = cast(
        "TensorType[IntegerType]", with_element_type(quantized.type, element_type)
    )
    if elements is None:
        return builder.op(StorageCastOp, (quantized,), type_)
    if isinstance(element_type, MXInt8Type):
        # Only resources support elements that are not of a builtin type.
        elements = new_resource("elements", cast(Array, elements), type_)
    elif isinstance(elements, np.ndarray):
        elements = DenseIntOrFPElementsAttr(type_, BytesAttr(bytes_of(elements)))
    return _tosa_constant(builder, elements)


def _scale_operand(builder: LoweringBuilder, codes: NDArray[np.uint8]) -> SSAValue:
    type_ = TensorType(Float8E8M0FNUType(), codes.shape)
    if codes.nbytes >= RESOURCE_BYTES:
        return _tosa_constant(builder, new_resource("scales", codes, type_))
    elements = DenseIntOrFPElementsAttr(type_, BytesAttr(codes.tobytes()))
    return _tosa_constant(builder, elements)


def _block_scaled_constant(
    builder: LoweringBuilder, quantized: SSAValue, plan: _Plan
) -> SSAValue:
    (element_type, scales), codes = plan
    assert isinstance(codes, np.ndarray)
    with_scales, without_scales = (
        cast("TensorType[IntegerType]", with_element_type(quantized.type, type_))
        for type_ in (
            BlockScaledType(element_type, scales.tobytes()),
            BlockScaledType(element_type),
        )
    )
    values = new_resource(
        "elements", _packed_elements(codes, element_type), with_scales
    )
    return builder.op(tosa.ConstOp, (), without_scales, {"values": values})


def _packed_elements(
    codes: NDArray[np.uint8], element_type: TypeAttribute
) -> NDArray[np.uint8]:
    """Pack the codes as in TOSA's resources, with the first code in the lowest bits."""
    if not isinstance(element_type, AnyFloat) or element_type.bitwidth == 8:
        return codes
    bits = np.unpackbits(codes[..., np.newaxis], -1, element_type.bitwidth, "little")
    return np.packbits(bits, bitorder="little")


def _tosa_constant(builder: LoweringBuilder, elements: ElementsAttr) -> SSAValue:
    return builder.op(tosa.ConstOp, (), elements.type, {"values": elements})


def _erase_unused_constants(value: SSAValue, rewriter: PatternRewriter) -> None:
    op = value.owner
    if value.first_use or not isinstance(
        op, StorageCastOp | arith.ConstantOp | tosa.ConstOp
    ):
        return
    operands = [*op.operands]
    rewriter.erase(op)
    for operand in operands:
        _erase_unused_constants(operand, rewriter)


@dataclass(frozen=True)
class QuantBlockScaledToTosaPass(PatternPass):
    """Lower `quant.dcast` of MX formats to `tosa.cast_from_block_scaled` or `tosa.cast`."""

    name = "quant-block-scaled-to-tosa"
    op_types = QuantizeCastOp | DequantizeCastOp
    expected = "casts of '!quant.block_scaled'"

    scales: ScalesIn = "operand"
    """
    Location of the scales: `operand` of `tosa.cast_from_block_scaled`, or element `type` of
    a constant (`!tosa.block_scaled`, which MLIR 22 lacks).
    """

    def pattern(self) -> BlockScaledToTosa:
        xdsl_patches.apply("builtin", "tosa")
        return BlockScaledToTosa(self.scales)
