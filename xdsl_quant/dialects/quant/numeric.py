"""
NumPy functions for quantized types. Other modules import this one lazily, as importing
NumPy takes longer than starting `xdsl-opt`.
"""

from typing import cast

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness

from xdsl_quant.numerics import QuantizationParameters, dequantize
from xdsl_quant.numerics.arrays import Array, Floats, bytes_of, sign_extended
from xdsl_quant.numerics.block_scaled import (
    BlockScaledParameters,
    TypeWithBlockScales,
    dequantize_blocks,
)
from xdsl_quant.numerics.codecs import represented_numbers
from xdsl_quant.numerics.parameters import ScaledType, StoredType, storage_arguments
from xdsl_quant.numerics.small_floats import small_float
from xdsl_quant.rounding_mode import RepresentedNumbers


def numbers_of_type(quantized_type: StoredType) -> RepresentedNumbers:
    """Return the numbers that the stored values of a type represent."""
    storage = storage_arguments(quantized_type)
    return represented_numbers(QuantizationParameters(1.0, **storage))


def element_bytes(array: Array, element_type: AnyFloat | IntegerType) -> bytes:
    """Return the elements of an array in MLIR's byte layout."""
    if isinstance(element_type, IntegerType) and (
        element_type.signedness.data is Signedness.SIGNLESS
    ):
        # Sign-extend signless integers, as xDSL's parser does.
        array = sign_extended(array, element_type.bitwidth)
    return bytes_of(array)


def stored_codes(
    data: bytes, element_type: AnyFloat | IntegerType, is_signed: bool
) -> Array:
    """
    Return elements as integers, floats of NumPy types, or the bits of other floats.

    Args:
        data: the bytes of the elements.
        element_type: the type of an element.
        is_signed: True to read signless integers as signed.
    """
    size = element_type.compile_time_size
    if not isinstance(element_type, IntegerType):
        kind = "f" if element_type.name in ("f16", "f32", "f64") else "u"
        return np.frombuffer(data, f"<{kind}{size}")
    if element_type.signedness.data is not Signedness.SIGNLESS:
        is_signed = element_type.signedness.data is Signedness.SIGNED
    codes = np.frombuffer(data, f"<i{size}")
    if is_signed:
        return sign_extended(codes, element_type.bitwidth)
    return codes.view(f"<u{size}") & ((1 << element_type.bitwidth) - 1)


def decode_elements(codes: Array, element_type: AnyFloat | IntegerType) -> Floats:
    """Convert the result of `stored_codes` to f64."""
    name = element_type.name
    if name == "bf16":
        codes = (codes.astype(np.uint32) << 16).view(np.float32)
    elif codes.dtype.kind == "u" and not isinstance(element_type, IntegerType):
        codes = small_float(name).decode(codes)
    return codes.astype(np.float64)


def dequantized_codes(codes: Array, quantized_type: StoredType) -> Floats:
    """Dequantize stored values to f64, for a type with scales."""
    if hasattr(quantized_type, "get_numbers"):
        block_scaled_type = cast(TypeWithBlockScales, quantized_type)
        block_parameters = BlockScaledParameters.from_type(block_scaled_type)
        return dequantize_blocks(codes, block_parameters).astype(np.float64)
    scaled_type = cast(ScaledType, quantized_type)
    parameters = QuantizationParameters.from_type(scaled_type)
    return dequantize(codes, parameters).astype(np.float64)


def first_not_finite(numbers: Floats) -> float | None:
    """Return the first number that is infinite or NaN, or `None`."""
    is_finite = np.isfinite(numbers)
    return None if is_finite.all() else float(numbers[~is_finite][0])
