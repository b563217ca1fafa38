"""
Fold casts of constants: a `quant.qcast` of an `arith.constant` becomes a constant of stored
values and a `quant.scast`.

Casts of a `stablehlo.constant` by `quant.qcast` or `stablehlo.uniform_quantize` become a
quantized `stablehlo.constant` with stored values. Types that StableHLO constants do not
support, such as sub-channel types, are folded as for `arith.constant`. A `tfl.quantize` of
a constant becomes a `tfl.pseudo_qconst`.

[`quantize`][xdsl_quant.numerics.quantize] computes stored values, so they are
bit-identical to those of the cast if it is lowered with the same options and run. With
`nearest-away` and no `zero-point-order`, they are bit-identical to those of MLIR 14. MLIR
14 divides in f64, and adds the zero point before or after rounding, by type (see
[`quantize_constant`][xdsl_quant.numerics.quantization.quantize_constant]).

Resources become resources with a new name if stored values have 8, 16 or 32 bits, and dense
constants otherwise, since the layout of narrower values in resources is undefined. All
errors leave the module unchanged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

import numpy as np
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import ConstantLike
from xdsl.utils.exceptions import PassFailedException, VerifyException

from xdsl_quant.diagnostics import refusing
from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    QuantizeCastOp,
    ScaledQuantizedType,
    StorageCastOp,
)
from xdsl_quant.dialects.quant.ops import ROUNDING_ATTRIBUTES, cast_rounding
from xdsl_quant.dialects.quant.storage_types import FloatStorageType, QuantileType
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.numerics import QuantizationParameters, quantize
from xdsl_quant.numerics.arrays import Array, array_of_bytes, bytes_of, sign_extended
from xdsl_quant.numerics.block_scaled import BlockScaledParameters, quantize_blocks
from xdsl_quant.numerics.quantization import quantize_constant
from xdsl_quant.numerics.small_floats import small_float
from xdsl_quant.rounding_mode import NanResult, Rounding, RoundingMode, ZeroPointOrder
from xdsl_quant.runtime.plugins import dialect_ops
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern, PatternPass
from xdsl_quant.transforms.building.quantization_arithmetic import (
    unsupported_cast_reason,
)
from xdsl_quant.xdsl_patches.resources import new_resource

from .ranges.float_constants import float_numbers

_CASTS = ("quant.qcast", "stablehlo.uniform_quantize", "tfl.quantize")
_CONSTANTS = {
    "arith.constant": "value",
    "stablehlo.constant": "value",
    "tfl.pseudo_const": "value",
    "tosa.const": "values",
}
"""Constant ops, mapped to the property that contains the elements."""


def _is_of_constant(op: Operation) -> bool:
    """Return True if an op quantizes a constant of any dialect."""
    if op.name not in _CASTS or not isinstance(
        owner := op.operands[0].owner, Operation
    ):
        return False
    return owner.name in _CONSTANTS or owner.has_trait(
        ConstantLike, value_if_unregistered=False
    )


def _quantized_constant(op: Operation) -> Operation | None:
    if op.name not in _CASTS:
        return None
    constant = op.operands[0].owner
    if not isinstance(constant, Operation) or constant.name not in _CONSTANTS:
        return None
    expressed = scalar_or_element_type(op.operands[0].type)
    quantized_type = scalar_or_element_type(op.results[0].type)
    is_scaled = isinstance(
        quantized_type, ScaledQuantizedType | BlockScaledQuantizedType
    )
    return constant if is_scaled and isinstance(expressed, AnyFloat) else None


def _stored_attribute(
    value: Attribute,
    stored: Array,
    quantized: Attribute,
    storage_type: IntegerType | FloatStorageType,
) -> Attribute:
    """Return the attribute of stored values that replaces `value`."""
    type_ = with_element_type(quantized, storage_type)
    if not isinstance(storage_type, IntegerType):
        stored = stored.view("u1")
        if type_ is storage_type:
            number = small_float(storage_type.name).decode(stored)
            return FloatAttr(float(number), cast(AnyFloat, storage_type))
    # xDSL stores integers as signed unless their type is unsigned.
    elif storage_type.signedness.data is not Signedness.UNSIGNED:
        stored = sign_extended(stored, storage_type.bitwidth)
    if type_ is storage_type:
        return IntegerAttr(int(stored), cast(IntegerType, storage_type))
    storage = cast("TensorType[IntegerType]", type_)
    is_plain = storage_type.bitwidth == 8 * stored.itemsize
    if is_plain and isinstance(value, DenseResourceAttr):
        return new_resource(f"{value.resource_handle.data}_quantized", stored, storage)
    return DenseIntOrFPElementsAttr(storage, BytesAttr(bytes_of(stored)))


def _may_be_quantized(
    op_type: type[Operation], quantized: Attribute, storage_type: IntegerType
) -> bool:
    """
    Return True if a constant op, e.g. `stablehlo.constant`, supports a quantized type.
    """
    if op_type is ConstantOp:
        return False
    # The resource has no data: verification only checks its type.
    stored_type = cast(TensorType, with_element_type(quantized, storage_type))
    value = DenseResourceAttr.from_params("stored", stored_type)
    try:
        op_type.create(properties={"value": value}, result_types=(quantized,)).verify()
    except VerifyException:
        return False
    return True


@dataclass(frozen=True)
class QuantizeConstant(CheckedPattern[Operation]):
    """
    Fold a `quant.qcast`, `stablehlo.uniform_quantize` or `tfl.quantize` of a constant.
    Raises `PassFailedException` for constants that cannot be quantized, and on creation
    for incompatible options.
    """

    rounding_mode: RoundingMode = "nearest-even"
    """Rounding mode of `quant.qcast`."""

    zero_point_order: ZeroPointOrder | None = None
    """Order of rounding and adding the zero point."""

    nan: NanResult = "storage-min"
    """Stored value of NaN for casts without `quant.nan`."""

    _constants: dict[tuple[object, ...], Operation] = field(
        default_factory=dict[tuple[object, ...], Operation], init=False, compare=False
    )
    """Cache of constants of stored values, by float constant and cast."""

    def __post_init__(self) -> None:
        if (mistake := self._rounding.error_message()) is not None:
            raise PassFailedException(mistake)

    @property
    def _rounding(self) -> Rounding:
        order = self.zero_point_order or "before-rounding"
        return Rounding(self.rounding_mode, order, self.nan)

    def plan(self, op: Operation) -> Operation | None:
        """Return the constant of stored values; equal casts share it."""
        if (constant := _quantized_constant(op)) is None:
            return None
        attributes = map(op.attributes.get, ROUNDING_ATTRIBUTES)
        key = constant, op.result_types[0], op.name, *attributes
        if (known := self._constants.get(key)) is None:
            with refusing(op, "cannot quantize its constant"):
                known = self._stored_constant(op, constant)
            self._constants[key] = known
        return known

    def rewrite(self, op: Operation, plan: Operation, rewriter: PatternRewriter):
        constant, result = op.operands[0], op.results[0]
        stored_op = plan.clone()
        new_ops, name = [stored_op], constant.name_hint
        if stored_op.results[0].type == result.type:
            name = result.name_hint or name
        else:
            scast = StorageCastOp(stored_op, result.type)
            scast.location = op.location
            new_ops.append(scast)
        stored_op.results[0].name_hint = name
        rewriter.replace(op, new_ops)
        if constant.first_use is None:
            rewriter.erase(cast(Operation, constant.owner))

    def _stored_constant(self, cast_op: Operation, constant: Operation) -> Operation:
        quantized = cast_op.result_types[0]
        quantized_type = scalar_or_element_type(quantized)
        assert isinstance(
            quantized_type, ScaledQuantizedType | BlockScaledQuantizedType
        )
        stored = self._quantized(cast_op, constant, quantized_type)
        op_type, type_ = type(constant), quantized
        storage_type = quantized_type.storage_type
        properties: dict[str, Attribute] = {}
        dialect, _, _ = cast_op.name.partition(".")
        if (quantized_constant := dialect_ops(dialect).quantized_constant) is not None:
            op_type, properties["qtype"] = quantized_constant, quantized
        elif not isinstance(storage_type, IntegerType) or not _may_be_quantized(
            op_type, quantized, storage_type
        ):
            storage_type = quantized_type.stored_type
            op_type, type_ = ConstantOp, with_element_type(quantized, storage_type)
            if constant.name == "tosa.const":
                op_type = type(constant)
        # Table indices are stored as integers, and TensorFlow Lite has no tables.
        assert not isinstance(storage_type, QuantileType)
        name = _CONSTANTS[constant.name]
        value = _stored_attribute(
            constant.properties[name], stored, quantized, storage_type
        )
        if op_type is ConstantOp:
            name = "value"
        return op_type.create(
            properties=properties | {name: value},
            result_types=(type_,),
            location=constant.location,
        )

    def _quantized(
        self,
        cast_op: Operation,
        constant: Operation,
        quantized_type: ScaledQuantizedType | BlockScaledQuantizedType,
    ) -> Array:
        is_qcast = isinstance(cast_op, QuantizeCastOp)
        default = self._rounding if is_qcast else Rounding(nan="stored-zero")
        rounding = cast_rounding(cast_op, default)
        as_mlir_14 = cast_op.name == "tfl.quantize" and rounding is default
        if is_qcast and rounding.mode == "nearest-away" and not self.zero_point_order:
            as_mlir_14 = "quant.zero_point_order" not in cast_op.attributes
        value = constant.properties[_CONSTANTS[constant.name]]
        if (expressed := float_numbers(value)) is None:
            raise ValueError(f"its value '{value.name}' is not float")
        if isinstance(quantized_type, BlockScaledQuantizedType):
            return _quantized_blocks(expressed, quantized_type, rounding)
        if reason := unsupported_cast_reason(
            quantized_type, needs_integers=not is_qcast
        ):
            raise ValueError(reason)
        parameters = QuantizationParameters.from_type(quantized_type)
        if as_mlir_14 and not parameters.has_codes:
            return quantize_constant(expressed, parameters, rounding.nan)
        stored_values = partial(
            quantize,
            expressed,
            parameters,
            rounding_mode=rounding.mode,
            zero_point_order=rounding.zero_point_order,
            nan=rounding.nan,
        )
        if isinstance(expressed, int | float):
            return stored_values()
        # Quantize into bytes directly: a copy would take half as long as quantization.
        return array_of_bytes(
            expressed.shape,
            parameters.storage_dtype,
            lambda out: stored_values(out=out),
        )


def _quantized_blocks(
    expressed: Array | float,
    quantized_type: BlockScaledQuantizedType,
    rounding: Rounding,
) -> Array:
    parameters = BlockScaledParameters.from_type(quantized_type)
    array = np.asarray(expressed, parameters.expressed_dtype)
    return quantize_blocks(array, parameters, rounding)


@dataclass(frozen=True)
class QuantConvertConstPass(PatternPass):
    """
    Fold casts of constants. A `quant.qcast` or `stablehlo.uniform_quantize` becomes a
    constant of stored values and a `quant.scast`, or a quantized `stablehlo.constant`.
    A `tfl.quantize` becomes a `tfl.pseudo_qconst`. Unused float constants are erased.

    Extends the pass of MLIR 14 with sub-channel and block-scaled types, float and table
    storage, resources, StableHLO, TensorFlow Lite and rounding modes.
    """

    name = "quant-convert-const"
    pattern_type = QuantizeConstant
    expected = "a 'quant.qcast' of a constant"
    replaces_all = True
    remedy = f"constants may be {', '.join(_CONSTANTS)}"

    rounding_mode: RoundingMode = "nearest-even"
    """
    Rounding mode of `quant.qcast`; `nearest-away` is that of MLIR 14.
    `stablehlo.uniform_quantize` always rounds half to even, `tfl.quantize` half away
    from zero.
    """

    zero_point_order: ZeroPointOrder | None = None
    """
    Order of rounding and adding the zero point. Default: `before-rounding`, except that
    `nearest-away` adds it after rounding unless f32 is stored in 8 bits, as in MLIR 14.
    """

    nan: NanResult = "storage-min"
    """Stored value of NaN in casts without `quant.nan`; MLIR 14 has `stored-zero`."""

    def candidates(self, module: ModuleOp) -> Sequence[Operation]:
        return [*filter(_is_of_constant, module.walk())]
