"""The elements of constants as arrays."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FixedBitwidthType,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute

from xdsl_quant.xdsl_patches.resources import resource_data

from .building import Unsupported


def dense_elements(value: Attribute) -> NDArray[Any]:
    """
    The elements of a constant: integers of 64 bits, or floats.

    Raises:
        Unsupported: if there is no data for a resource, or if elements are neither.
    """
    if isinstance(value, DenseIntOrFPElementsAttr):
        type_ = cast(TensorType, value.type)
        elements = np.asarray(value.get_values())
    elif isinstance(value, DenseResourceAttr) and isinstance(value.type, TensorType):
        type_ = cast(TensorType, value.type)
        if (data := resource_data(value)) is None:
            key = value.resource_handle.data
            raise Unsupported(f"has no data for the resource '{key}'")
        element_type = cast(FixedBitwidthType, type_.element_type)
        kind = "i" if isinstance(element_type, IntegerType) else "f"
        size = max(element_type.bitwidth // 8, 1)
        elements = np.frombuffer(data, f"{kind}{size}")
    else:
        raise Unsupported("has elements that are no numbers")
    if elements.dtype.kind != "f":
        elements = elements.astype(np.int64)
    shape = type_.get_shape()
    # The one element of a splat may stand for all.
    if elements.size == 1:
        return np.broadcast_to(elements.reshape(-1)[0], shape)
    return elements.reshape(shape)
