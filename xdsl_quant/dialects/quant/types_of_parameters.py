"""The `!quant.uniform` type for scales, zero points and a storage type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness

from .float_formats import FLOAT_FORMATS
from .types import (
    StorageOptions,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
    UniformType,
)

if TYPE_CHECKING:
    from xdsl_quant.numerics import QuantizationParameters


def uniform_type(
    parameters: QuantizationParameters, expressed_type: AnyFloat | None = None
) -> UniformType:
    """
    The type with quantization parameters, from which
    `QuantizationParameters.from_type` makes these parameters again.

    Args:
        parameters: scales, zero points and how values are stored.
        expressed_type: another expressed type than that of the parameters.

    Raises:
        VerifyException: if a scale is out of the range of the expressed type.
    """
    if expressed_type is None:
        names = {type_.name: type_ for type_ in FLOAT_FORMATS}
        expressed_type = names[parameters.expressed]()
    signedness = {"si": Signedness.SIGNED, "ui": Signedness.UNSIGNED}.get(
        parameters.storage[:2], Signedness.SIGNLESS
    )
    storage_type = IntegerType(parameters.storage_width, signedness)
    options: StorageOptions = {
        "storage_type_min": parameters.storage_min,
        "storage_type_max": parameters.storage_max,
        "is_signed": parameters.is_signed,
    }
    scales, zero_points = parameters.scales, parameters.zero_points
    if (blocks := parameters.block_sizes) is not None:
        return UniformQuantizedSubChannelType(
            storage_type,
            expressed_type,
            scales,
            zero_points,
            quantized_dimensions=[dimension for dimension, _ in blocks],
            block_sizes=[size for _, size in blocks],
            **options,
        )
    if (dimension := parameters.quantized_dimension) is not None:
        return UniformQuantizedPerAxisType(
            storage_type,
            expressed_type,
            scales,
            zero_points,
            quantized_dimension=dimension,
            **options,
        )
    return UniformQuantizedType(
        storage_type, expressed_type, float(scales), int(zero_points), **options
    )
