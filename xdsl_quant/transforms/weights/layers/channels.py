"""Read and build per-channel constants, repeated along all other dimensions."""

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerType,
    ShapedType,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.hints import isa

from xdsl_quant.dialects.quant.dialect_ops import DialectOps
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.numerics.float_dtypes import float_dtype, float_info
from xdsl_quant.transforms.statistics.ranges.float_constants import float_elements
from xdsl_quant.xdsl_patches.resources import new_resource


def constant_numbers(value: SSAValue) -> NDArray[np.floating] | None:
    """
    Return the elements of a float constant, looking through `linalg.fill` and
    `stablehlo.broadcast_in_dim`; `None` for other values or missing data.
    """
    owner = value.owner
    if not isinstance(owner, Operation):
        return None
    if owner.name == "stablehlo.broadcast_in_dim":
        if (numbers := constant_numbers(owner.operands[0])) is None:
            return None
        shape = cast("ShapedType", value.type).get_shape()
        sizes = [1] * len(shape)
        attribute = owner.get_attr_or_prop("broadcast_dimensions")
        assert isa(attribute, DenseArrayBase[IntegerType])
        dimensions = attribute.get_values()
        for dimension, size in zip(dimensions, numbers.shape, strict=True):
            sizes[dimension] = size
        order = np.argsort(dimensions)
        numbers = numbers.transpose(order)
        return np.broadcast_to(numbers.reshape(sizes), shape)
    if owner.name == "linalg.fill":
        # The result is a splat of any size.
        return constant_numbers(owner.operands[0])
    if owner.operands:
        return None
    try:
        return float_elements(owner.get_attr_or_prop("value"))
    except (ValueError, ImportError):
        return None


def channel_numbers(
    value: SSAValue, type_: Attribute, dimension: int
) -> NDArray[np.float64] | None:
    """
    Return the elements of a constant operand of an elementwise op, one per channel, as
    an f64 array of shape `(n,)`; `None` if elements differ along other dimensions.

    Args:
        value: the constant, broadcast as in NumPy.
        type_: the type of the op's result.
        dimension: the channel dimension of the result.
    """
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


def constant_like(
    value: SSAValue, numbers: NDArray[np.floating], type_: Attribute
) -> Operation:
    """
    Return a new constant with the dialect and location of an existing one.

    Args:
        value: the existing constant.
        numbers: the elements of the new constant.
        type_: the type of the new constant.
    """
    owner = value.owner
    assert isinstance(owner, Operation)
    element_type = scalar_or_element_type(type_)
    assert isinstance(element_type, AnyFloat)
    array = np.ascontiguousarray(numbers).astype(float_dtype(element_type.name))
    tensor = cast("TensorType[AnyFloat]", type_)
    old = owner.properties["value"]
    elements: Attribute
    if isinstance(old, DenseResourceAttr):
        elements = new_resource(old.resource_handle.data, array, tensor)
    else:
        elements = DenseIntOrFPElementsAttr(tensor, BytesAttr(array.tobytes()))
    return type(owner).create(
        properties={"value": elements}, result_types=[type_], location=owner.location
    )


def build_channel_constant(
    ops: DialectOps,
    like: SSAValue,
    numbers: NDArray[np.float64],
    type_: Attribute,
    channel: int,
    *,
    broadcasts: bool,
) -> Sequence[Operation]:
    """
    Build a constant operand with one number per channel; the last op returns it.

    Args:
        ops: the ops of the dialect in which the operand is used.
        like: a constant whose dialect the new constant gets.
        numbers: the numbers.
        type_: the type of the user's result.
        channel: the channel dimension of the user's result.
        broadcasts: True if the user broadcasts operands as in NumPy.
    """
    shape = cast("ShapedType", type_).get_shape()
    element_type = scalar_or_element_type(type_)
    sizes = [len(numbers), *[1] * (len(shape) - 1 - channel)]
    if broadcasts:
        # Without leading ones: contractions accept only biases of rank 1.
        return [constant_like(like, numbers, TensorType(element_type, sizes))]
    constant = constant_like(like, numbers, TensorType(element_type, [len(numbers)]))
    repeated = ops.broadcast_to(constant.results[0], [channel], type_)
    if repeated is not None:
        return constant, repeated
    full = np.broadcast_to(numbers.reshape(sizes), shape)
    return [constant_like(like, full, type_)]


def largest_weights(
    weights: NDArray[np.float64], dimension: int
) -> NDArray[np.float64]:
    """Return the largest absolute weight for each index of a dimension."""
    reduced = tuple(d for d in range(weights.ndim) if d != dimension)
    return np.abs(weights).max(reduced)


def broadcast_along(
    numbers: NDArray[np.float64], weights: NDArray[np.float64], dimension: int
) -> NDArray[np.float64]:
    """Reshape per-channel numbers so that they broadcast to weights."""
    sizes = [1] * weights.ndim
    sizes[dimension] = -1
    return numbers.reshape(sizes)


def are_finite_in(type_: Attribute, *arrays: NDArray[np.float64]) -> bool:
    """Return True if all numbers are in the finite range of an element type."""
    element_type = scalar_or_element_type(type_)
    assert isinstance(element_type, AnyFloat)
    limit = float(float_info(float_dtype(element_type.name)).max)
    # Comparisons with NaN are false.
    return all(bool((np.abs(numbers) <= limit).all()) for numbers in arrays)


# Former names, kept for compatibility.
along, of_channels = broadcast_along, channel_numbers
constants_of_channels = build_channel_constant
