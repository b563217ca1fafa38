"""
Between `!quant.uniform` types and parameters, without a Python object for each scale. The
scales of `!quant.fixed_point` are exact as those of `!quant.uniform`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from xdsl_quant.dialects.quant.types import QuantizedType, UniformType

    from .parameters import QuantizationParameters


def parameters_of_type(quantized_type: QuantizedType) -> dict[str, Any]:
    """
    The arguments of `QuantizationParameters` for a type.

    Raises:
        ValueError: if it is not a `!quant.uniform` or `!quant.fixed_point` type.
        TypeError: if it is no type at all.
    """
    # Its attributes are read, but their classes are not imported: that takes longer
    # than all else, and whoever has a type has imported them already.
    uniform = cast("Any", quantized_type)
    match getattr(quantized_type, "name", None):
        case "quant.uniform":
            pass
        case "quant.fixed_point":
            uniform = uniform.to_uniform()
        case _:
            _check_type(quantized_type)
            raise ValueError(
                f"type '{quantized_type}' has no scale, use '!quant.uniform'"
            )
    arguments: dict[str, Any] = {
        "storage": uniform.storage_type_name,
        "storage_min": uniform.storage_type_min.data,
        "storage_max": uniform.storage_type_max.data,
        "expressed": uniform.expressed_type.name,
    }
    if hasattr(uniform, "scale"):
        return {
            "scales": uniform.scale.data,
            "zero_points": uniform.zero_point.data,
            **arguments,
        }
    scales = np.frombuffer(uniform.scales.data.data, np.float64)
    zero_points = np.frombuffer(uniform.zero_points.data.data, np.int64)
    if hasattr(uniform, "quantized_dimension"):
        dimension = uniform.quantized_dimension.data
        return {
            "scales": scales,
            "zero_points": zero_points,
            "quantized_dimension": dimension,
            **arguments,
        }
    shape = uniform.scales_shape.get_values()
    return {
        "scales": scales.reshape(shape),
        "zero_points": zero_points.reshape(shape),
        "block_sizes": uniform.block_size_info,
        **arguments,
    }


def _check_type(value: object) -> None:
    from xdsl.ir import Attribute

    if not isinstance(value, Attribute):
        raise TypeError(
            f"a '!quant.uniform' type is needed, but got a {type(value).__name__}"
        )


def type_of_parameters(parameters: QuantizationParameters) -> UniformType:
    """The type with these parameters."""
    from xdsl.dialects.builtin import IntegerType, Signedness

    from xdsl_quant.dialects import quant
    from xdsl_quant.dialects.quant.float_formats import FLOAT_FORMATS

    float_types = {type_.name: type_ for type_ in FLOAT_FORMATS}
    signedness = {"si": Signedness.SIGNED, "ui": Signedness.UNSIGNED}.get(
        parameters.storage[:2], Signedness.SIGNLESS
    )
    storage: Any = {
        "storage_type": IntegerType(parameters.storage_width, signedness),
        "expressed_type": float_types[parameters.expressed](),
        "storage_type_min": parameters.storage_min,
        "storage_type_max": parameters.storage_max,
        "is_signed": parameters.is_signed,
    }
    scales, zero_points = parameters.scales, parameters.zero_points
    if parameters.block_sizes is not None:
        return quant.UniformQuantizedSubChannelType(
            scales=scales,
            zero_points=zero_points,
            quantized_dimensions=[dimension for dimension, _ in parameters.block_sizes],
            block_sizes=[size for _, size in parameters.block_sizes],
            **storage,
        )
    if (dimension := parameters.quantized_dimension) is not None:
        return quant.UniformQuantizedPerAxisType(
            scales=scales,
            zero_points=zero_points,
            quantized_dimension=dimension,
            **storage,
        )
    return quant.UniformQuantizedType(
        scale=float(scales), zero_point=int(zero_points), **storage
    )
