"""
Replace dynamic casts whose scales and zero points are constants by `quant.qcast` or
`quant.dcast`, and a `quant.scast` between stored and quantized values.

A cast is kept if no quantized type can express its parameters, e.g. negative scales or a
shorter last block. It is also kept if its compute type would change: see
`quant-casts-to-dynamic`.

With the rounding mode `truncate`, out-of-range values saturate in a dynamic cast, but
have an undefined result in a typed cast, as in MLIR.
"""

from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, FloatAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    DynamicCastOp,
    DynamicQuantizeCastOp,
    QuantizeCastOp,
    StorageCastOp,
    uniform_type,
)
from xdsl_quant.dialects.quant.types import (
    UniformType,
    scalar_or_element_type,
    with_element_type,
)
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.float_dtypes import float_dtype, rounded
from xdsl_quant.numerics.parameters import storage_arguments
from xdsl_quant.runtime.arrays import constant_elements, stored_elements
from xdsl_quant.transforms.building.builder import LoweringBuilder, shape_of
from xdsl_quant.transforms.building.checked_patterns import PatternPass

from .quant_casts_to_dynamic import keeps_compute_type


@dataclass(frozen=True)
class DynamicCastToTyped(RewritePattern):
    """Replace dynamic casts that have constant parameters by typed casts."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        if not isinstance(op, DynamicCastOp):
            return
        if (quantized_type := constant_type(op)) is None:
            return
        builder = LoweringBuilder.before(op)
        type_ = with_element_type(op.result.type, quantized_type)
        if isinstance(op, DynamicQuantizeCastOp):
            cast_op = QuantizeCastOp(op.input, type_)
            cast_op.attributes.update(op.attributes)
            result = builder.op(StorageCastOp, (builder.add(cast_op),), op.result.type)
        else:
            quantized = builder.op(StorageCastOp, (op.input,), type_)
            cast_op = DequantizeCastOp(quantized, op.result.type)
            cast_op.attributes.update(op.attributes)
            result = builder.add(cast_op)
        rewriter.replace(op, (), (result,))


def constant_type(op: DynamicCastOp) -> UniformType | None:
    """Return the quantized type for the constant operands of a cast, or `None`."""
    zero_points = None if op.zero_point is None else _constant_array(op.zero_point)
    scales = _constant_array(op.scale)
    if scales is None or (op.zero_point is not None and zero_points is None):
        return None
    expressed = cast(AnyFloat, scalar_or_element_type(op.expressed.type))
    blocks, container = op.blocks, op.expressed.type
    shape = shape_of(op.expressed) if blocks else ()
    if any(size > 1 and shape[axis] == DYNAMIC_INDEX for axis, size in blocks.items()):
        # The last block may be shorter.
        return None
    is_per_axis = scales.ndim == 1 and [*blocks.values()] == [1]
    scales_shape = scales.shape if blocks else ()
    if blocks and not is_per_axis and len(scales_shape) != len(shape):
        counts = dict(zip(blocks, scales_shape, strict=True))
        scales_shape = tuple(counts.get(axis, 1) for axis in range(len(shape)))
    storage, stored = op.storage, 0
    if zero_points is not None:
        stored = stored_elements(zero_points, storage).reshape(scales_shape)
    try:
        parameters = QuantizationParameters(
            _shortest(scales, expressed).reshape(scales_shape),
            stored,
            **storage_arguments(storage),
            expressed=expressed.name,
            quantized_dimension=next(iter(blocks)) if is_per_axis else None,
            block_sizes=None if is_per_axis or not blocks else blocks,
        )
        uniform = uniform_type(parameters)
        # Keep the table as spelled in the cast: `uniform` may spell it differently.
        common = expressed, *storage.common_parameters[1:]
        quantized_type = uniform.new((*common, *uniform.parameters[len(common) :]))
        quantized_type.verify_container(container)
    except (ValueError, ImportError, VerifyException):
        return None
    same_compute_type = keeps_compute_type(quantized_type, op.zero_point is not None)
    return quantized_type if same_compute_type else None


def _constant_array(value: SSAValue) -> Array | None:
    attr = (
        value.owner.get_attr_or_prop("value")
        if isinstance(value.owner, Operation)
        else None
    )
    if isinstance(attr, FloatAttr | IntegerAttr):
        return np.array(cast("FloatAttr | IntegerAttr", attr).value.data)
    try:
        return constant_elements(value)
    except (ValueError, TypeError, ImportError):
        return None


def _shortest(scales: Array, expressed: AnyFloat) -> Array:
    """Return the doubles with the fewest decimal digits that round to `scales`."""
    dtype = float_dtype(expressed.name)
    exact = scales.astype(np.float64)
    if dtype == np.float64:
        return exact
    shortest = exact.copy()
    is_pending = np.isfinite(exact) & (exact != 0)
    exponents = np.floor(
        np.log10(np.abs(exact, where=is_pending, out=np.ones_like(exact)))
    )
    for digits in range(1, _MAX_DIGITS + 1):
        decimal_places = digits - 1 - exponents
        powers = 10.0 ** np.abs(decimal_places)
        # A quotient of exact integers is rounded once, like a parsed decimal.
        texts = np.where(
            decimal_places < 0,
            np.rint(exact / powers) * powers,
            np.rint(exact * powers) / powers,
        )
        is_exact = np.abs(decimal_places) <= _MAX_EXACT_POWER
        shortest[is_pending & is_exact] = texts[is_pending & is_exact]
        for i in np.flatnonzero(is_pending & ~is_exact):
            shortest.flat[i] = float(f"{exact.flat[i]:.{digits}g}")
        is_pending &= rounded(shortest, dtype) != exact
    return np.where(is_pending, exact, shortest)


_MAX_DIGITS = 9
"""Number of decimal digits that distinguish all f32 numbers."""

_MAX_EXACT_POWER = 22
"""Largest exponent of a power of ten that is exact in f64."""


# Pass


@dataclass(frozen=True)
class QuantCastsFromDynamicPass(PatternPass):
    """
    Replace `quant.dynamic_qcast` and `quant.dynamic_dcast` by `quant.qcast` and
    `quant.dcast` if their scales and zero points are constants.
    """

    name = "quant-casts-from-dynamic"
    pattern_type = DynamicCastToTyped
    op_types = DynamicCastOp
    expected = "a 'quant.dynamic_qcast' or 'quant.dynamic_dcast' with constant scales"
    replaces_all = True
    remedy = "their scales are not constants"
