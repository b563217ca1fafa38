"""
Quantize constants: a `quant.qcast` of an `arith.constant` becomes a constant of stored
values and a `quant.scast`.

A `stablehlo.constant` becomes a quantized `stablehlo.constant`, which holds stored values,
be it quantized by `quant.qcast` or by `stablehlo.uniform_quantize`. Where StableHLO has no
such constant, as for sub-channel types, it becomes what an `arith.constant` does.

All elements of a constant are quantized at once, by
[`quantize`][xdsl_quant.numerics.quantize], so results are those of running the cast that
is lowered with the same options. With `nearest-away` and no `zero-point-order` they are
those of MLIR 14, which divides in f64 and has an order for each type: see
[`quantize_constant`][xdsl_quant.numerics.quantization.quantize_constant].

A resource stays a resource, under a name of its own, if stored values have 8, 16 or 32
bits. How narrower ones are laid out in a resource is not settled: they become a dense
constant. All constants are quantized before the first op is replaced.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from xdsl.context import Context
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
    ShapedType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException, VerifyException

from xdsl_quant.diagnostics import fail
from xdsl_quant.dialects.quant import QuantizeCastOp, StorageCastOp
from xdsl_quant.dialects.quant.fixed_point_types import FixedPointType
from xdsl_quant.dialects.quant.nan_result import NAN_ATTRIBUTE, nan_result
from xdsl_quant.dialects.quant.types import (
    UniformType,
    scalar_or_element_type,
    with_element_type,
)
from xdsl_quant.rounding_mode import NanResult, Rounding, RoundingMode, ZeroPointOrder
from xdsl_quant.transforms.building.quantization_arithmetic import why_not_lowerable
from xdsl_quant.xdsl_patches.resources import new_resource, resource_data

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_ScaledType = UniformType | FixedPointType
"""Types that say how a value is stored."""

_CASTS = ("quant.qcast", "stablehlo.uniform_quantize")
_CONSTANTS = ("arith.constant", "stablehlo.constant")


def _bytes_of(value: DenseIntOrFPElementsAttr | DenseResourceAttr) -> bytes:
    if isinstance(value, DenseIntOrFPElementsAttr):
        return value.data.data
    if (data := resource_data(value)) is None:
        raise ValueError(
            f"there is no data for resource '{value.resource_handle.data}'"
        )
    return data


def _numbers(value: Attribute, dtype: np.dtype[Any]) -> NDArray[Any] | float:
    """
    The numbers of a float constant, without a Python object for each of them.

    Raises:
        ValueError: if they are not there.
    """
    import numpy

    if isinstance(value, FloatAttr):
        return value.value.data
    assert isinstance(value, DenseIntOrFPElementsAttr | DenseResourceAttr)
    data = _bytes_of(cast("DenseIntOrFPElementsAttr | DenseResourceAttr", value))
    shape = cast(ShapedType, value.get_type()).get_shape()
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{len(data)} bytes are no '{value.get_type()}'")
    return numpy.frombuffer(data, dtype).reshape(shape)


def _quantized_array(
    value: Attribute, quantized_type: _ScaledType, rounding: Rounding, as_mlir_14: bool
) -> NDArray[Any]:
    """
    The stored values of a constant.

    Raises:
        ValueError: if it cannot be quantized.
        ImportError: if its type needs a package that is not installed.
    """
    # Importing NumPy takes longer than starting `xdsl-opt`.
    from xdsl_quant.numerics import QuantizationParameters, quantize
    from xdsl_quant.numerics.quantization import quantize_constant

    if (reason := why_not_lowerable(quantized_type)) is not None:
        raise ValueError(reason)
    parameters = QuantizationParameters.from_type(quantized_type)
    expressed = _numbers(value, parameters.expressed_dtype)
    if as_mlir_14:
        return quantize_constant(expressed, parameters, rounding.nan)
    return quantize(
        expressed,
        parameters,
        rounding_mode=rounding.mode,
        zero_point_order=rounding.zero_point_order,
        nan=rounding.nan,
    )


def _with_sign(stored: NDArray[Any], width: int) -> NDArray[Any]:
    """Stored values as xDSL keeps integers: with a sign, whatever they mean."""
    bits = 8 * stored.itemsize
    signed = stored.view(f"i{stored.itemsize}")
    return signed if width == bits else signed << (bits - width) >> (bits - width)


def _stored_attribute(
    value: Attribute,
    stored: NDArray[Any],
    quantized: Attribute,
    storage_type: IntegerType,
) -> Attribute:
    """The constant of stored values that takes the place of `value`."""
    if storage_type.signedness.data is not Signedness.UNSIGNED:
        stored = _with_sign(stored, storage_type.bitwidth)
    if not isinstance(quantized, TensorType):
        return IntegerAttr(int(stored), storage_type)
    container = cast("TensorType[_ScaledType]", quantized)
    storage = TensorType(storage_type, container.shape, container.encoding)
    is_plain = storage_type.bitwidth == 8 * stored.itemsize
    if is_plain and isinstance(value, DenseResourceAttr):
        return new_resource(f"{value.resource_handle.data}_quantized", stored, storage)
    return DenseIntOrFPElementsAttr(storage, BytesAttr(stored.tobytes()))


def _quantized_type(type_: Attribute) -> _ScaledType:
    quantized_type = scalar_or_element_type(type_)
    assert isinstance(quantized_type, _ScaledType)
    return quantized_type


class _StoredConstant(NamedTuple):
    """The constant of stored values in place of one of expressed values."""

    op_type: type[Operation]
    value: Attribute
    type_: Attribute
    """That of the values, or the quantized type of StableHLO's quantized constants."""


class _Key(NamedTuple):
    """All that the stored values of a constant depend on."""

    constant: Operation
    type_: Attribute
    cast_name: str
    nan: Attribute | None

    @staticmethod
    def of(cast_op: Operation, constant: Operation) -> _Key:
        nan = cast_op.attributes.get(NAN_ATTRIBUTE)
        return _Key(constant, cast_op.result_types[0], cast_op.name, nan)


def _stored_constant(
    constant: Operation, stored: NDArray[Any], quantized: Attribute
) -> _StoredConstant:
    value = constant.properties["value"]
    quantized_type = _quantized_type(quantized)
    op_type, storage_type = type(constant), quantized_type.storage_type
    if _is_valid_constant(op_type, quantized, storage_type):
        attribute = _stored_attribute(value, stored, quantized, storage_type)
        return _StoredConstant(op_type, attribute, quantized)
    storage_type = quantized_type.signless_storage_type
    attribute = _stored_attribute(value, stored, quantized, storage_type)
    return _StoredConstant(
        ConstantOp, attribute, with_element_type(quantized, storage_type)
    )


def _is_valid_constant(
    op_type: type[Operation], quantized: Attribute, storage_type: IntegerType
) -> bool:
    """Whether a constant may have a quantized type, which those of StableHLO may."""
    if op_type is ConstantOp:
        return False
    # Only the type of the value is looked at.
    stored_type = cast(TensorType, with_element_type(quantized, storage_type))
    value = DenseResourceAttr.from_params("stored", stored_type)
    op = op_type.create(properties={"value": value}, result_types=(quantized,))
    try:
        op.verify()
    except VerifyException:
        return False
    finally:
        op.erase()
    return True


def _replace(cast_op: Operation, constant: Operation, stored: _StoredConstant) -> None:
    stored_op = stored.op_type.create(
        properties={"value": stored.value},
        result_types=(stored.type_,),
        location=constant.location,
    )
    result, name = cast_op.results[0], constant.results[0].name_hint
    quantized = result.type
    if stored.type_ == quantized:
        stored_op.results[0].name_hint = result.name_hint or name
        Rewriter.replace_op(cast_op, stored_op)
        return
    stored_op.results[0].name_hint = name
    scast = StorageCastOp.create(
        operands=stored_op.results,
        result_types=(quantized,),
        location=cast_op.location,
    )
    Rewriter.replace_op(cast_op, (stored_op, scast))


def _quantized_constant(op: Operation) -> Operation | None:
    """The constant of floats that an op quantizes, if it does so."""
    if op.name not in _CASTS:
        return None
    constant = op.operands[0].owner
    if not isinstance(constant, Operation) or constant.name not in _CONSTANTS:
        return None
    expressed = scalar_or_element_type(op.operands[0].type)
    is_scaled = isinstance(scalar_or_element_type(op.results[0].type), _ScaledType)
    return constant if is_scaled and isinstance(expressed, AnyFloat) else None


@dataclass(frozen=True)
class QuantConvertConstPass(ModulePass):
    """
    Replace each `quant.qcast` and `stablehlo.uniform_quantize` of a constant, which is an
    `arith.constant` or a `stablehlo.constant`, by a constant of stored values and a
    `quant.scast`, or by a quantized `stablehlo.constant` for one of these. The constant of
    expressed values goes if nothing else uses it.

    It is a pass of MLIR 14, with sub-channel types, resources, StableHLO and rounding modes
    added.
    """

    name = "quant-convert-const"

    rounding_mode: RoundingMode = "nearest-even"
    """
    How `quant.qcast` rounds a value between two stored ones; `nearest-away` is MLIR 14's
    way. `stablehlo.uniform_quantize` rounds to nearest, ties to even, in any case.
    """

    zero_point_order: ZeroPointOrder | None = None
    """
    When the zero point is added. Unset, it is before rounding, and with `nearest-away` as
    in MLIR 14: before rounding for f32 stored in 8 bits, and otherwise after it.
    """

    nan: NanResult = "storage-min"
    """
    What NaN becomes in casts without an attribute `quant.nan`; `stored-zero` is MLIR 14's
    way.
    """

    @property
    def _rounding(self) -> Rounding:
        order = self.zero_point_order or "before-rounding"
        return Rounding(self.rounding_mode, order, self.nan)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if (mistake := self._rounding.mistake()) is not None:
            raise PassFailedException(mistake)
        casts = [
            (cast_op, constant, _Key.of(cast_op, constant))
            for cast_op in op.walk()
            if (constant := _quantized_constant(cast_op)) is not None
        ]
        arrays: dict[_Key, NDArray[Any]] = {}
        for cast_op, constant, key in casts:
            if key not in arrays:
                arrays[key] = self._quantized(cast_op, constant)
        # The first change of anything is a new resource.
        stored = {
            key: _stored_constant(key.constant, array, key.type_)
            for key, array in arrays.items()
        }
        for cast_op, constant, key in casts:
            _replace(cast_op, constant, stored[key])
        for constant in {constant: None for _, constant, _ in casts}:
            if constant.results[0].first_use is None:
                Rewriter.erase_op(constant)

    def _quantized(self, cast_op: Operation, constant: Operation) -> NDArray[Any]:
        rounding, as_mlir_14 = Rounding(nan="stored-zero"), False
        try:
            if isinstance(cast_op, QuantizeCastOp):
                rounding = self._rounding._replace(nan=nan_result(cast_op, self.nan))
                as_mlir_14 = (
                    rounding.mode == "nearest-away" and not self.zero_point_order
                )
            return _quantized_array(
                constant.properties["value"],
                _quantized_type(cast_op.result_types[0]),
                rounding,
                as_mlir_14,
            )
        except (ValueError, ImportError) as e:
            fail(cast_op, f"'{cast_op.name}' op cannot quantize its constant: {e}")
