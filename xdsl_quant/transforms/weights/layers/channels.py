"""Constants that are one number for each channel, repeated along all other dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import AnyFloat, ShapedType
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.dialects.stablehlo.data_movement import BroadcastInDimOp
from xdsl_quant.transforms.statistics.ranges.float_constants import float_numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def constant_numbers(value: SSAValue) -> NDArray[np.floating] | None:
    """
    The numbers of a constant of floats, which `stablehlo.broadcast_in_dim` or
    `linalg.fill` may repeat; `None` if the value is none or they are not there.
    """
    import numpy as np

    owner = value.owner
    if not isinstance(owner, Operation):
        return None
    if isinstance(owner, BroadcastInDimOp):
        if (numbers := constant_numbers(owner.operand)) is None:
            return None
        shape = cast("ShapedType", value.type).get_shape()
        sizes = [1] * len(shape)
        dimensions = owner.broadcast_dimensions.get_values()
        for dimension, size in zip(dimensions, numbers.shape, strict=True):
            sizes[dimension] = size
        order = np.argsort(dimensions)
        numbers = numbers.transpose(order)
        return np.broadcast_to(numbers.reshape(sizes), shape)
    if owner.name == "linalg.fill":
        # A number, whatever the sizes are.
        return constant_numbers(owner.operands[0])
    if owner.operands:
        return None
    try:
        numbers = float_numbers(owner.get_attr_or_prop("value"))
    except (ValueError, ImportError):
        return None
    if numbers is None:
        return None
    array = np.asarray(numbers)
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def of_channels(
    value: SSAValue, type_: Attribute, dimension: int
) -> NDArray[np.float64] | None:
    """
    The numbers of a constant for each index of a dimension of a tensor that it is
    combined with elementwise; `None` if it has others along other dimensions.

    Args:
        value: the constant, which is broadcast as in NumPy.
        type_: the type of the tensor.
        dimension: the dimension of the channels.

    Returns:
        an array of f64 with shape `(n,)`.
    """
    import numpy as np

    if not isinstance(type_, ShapedType) or not isinstance(
        scalar_or_element_type(type_), AnyFloat
    ):
        return None
    shape = type_.get_shape()
    if (numbers := constant_numbers(value)) is None or numbers.ndim > len(shape):
        return None
    full = numbers.reshape((1,) * (len(shape) - numbers.ndim) + numbers.shape)
    if not full.size or any(
        size not in (1, length) for size, length in zip(full.shape, shape, strict=True)
    ):
        return None
    first = full[tuple(slice(None if d == dimension else 1) for d in range(len(shape)))]
    if not (full == first).all():
        return None
    return np.broadcast_to(first.reshape(-1), shape[dimension]).astype(np.float64)
