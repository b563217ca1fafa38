"""Element types of tensors, and the bytes of constants in files and in modules."""

import math
from collections.abc import Mapping
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BFloat16Type,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
    TensorType,
    f32,
)
from xdsl.ir import Attribute, TypeAttribute

from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.xdsl_patches.resources import (
    RESOURCE_BYTES,
    ResourceData,
    new_lazy_resource,
)

from .model import ITEM_BITS, Tensor

ELEMENT_TYPES: Mapping[str, TypeAttribute] = {
    "FLOAT32": f32,
    "FLOAT16": Float16Type(),
    "BFLOAT16": BFloat16Type(),
    "FLOAT64": Float64Type(),
    "FLOAT8_E4M3FN": Float8E4M3FNType(),
    "FLOAT8_E5M2": Float8E5M2Type(),
    "INT2": IntegerType(2),
    "INT4": IntegerType(4),
    "UINT4": IntegerType(4, Signedness.UNSIGNED),
    "INT8": IntegerType(8),
    "INT16": IntegerType(16),
    "INT32": IntegerType(32),
    "INT64": IntegerType(64),
    "UINT8": IntegerType(8, Signedness.UNSIGNED),
    "UINT16": IntegerType(16, Signedness.UNSIGNED),
    "UINT32": IntegerType(32, Signedness.UNSIGNED),
    "UINT64": IntegerType(64, Signedness.UNSIGNED),
    "BOOL": IntegerType(1),
    "COMPLEX64": ComplexType(Float32Type()),
    "COMPLEX128": ComplexType(Float64Type()),
    "STRING": tfl.StringType(),
    "RESOURCE": tfl.ResourceType(),
}


def _elements(tensor: Tensor, count: int) -> NDArray[np.uint8]:
    """Return the bytes of a constant in MLIR's layout: at least one byte per element."""
    if not count:
        return np.empty(0, np.uint8)
    if tensor.data is None:
        # The initial value of a variable, as a splat.
        size = max(ITEM_BITS[tensor.type] // 8, 1)
        return np.full(size, _first_value(tensor), np.uint8)
    if tensor.type == "BOOL":
        return np.where(tensor.data != 0, 255, 0).astype(np.uint8)
    if (bits := ITEM_BITS[tensor.type]) >= 8:
        return tensor.data
    # The first element is in the lowest bits. The shift back extends the sign.
    shifts = np.arange(8 - bits, -1, -bits, dtype=np.uint8)
    high = tensor.data[:, None] << shifts
    if not tensor.type.startswith("U"):
        high = high.view(np.int8)
    high >>= high.dtype.type(8 - bits)
    return high.reshape(-1)[:count].view(np.uint8)


def _first_value(tensor: Tensor) -> int:
    """
    Return the byte with which LiteRT fills variables: the zero point of per-tensor `INT8`,
    otherwise 0.
    """
    quantization = tensor.quantization
    if tensor.type != "INT8" or quantization is None:
        return 0
    is_per_tensor = quantization.scales.size == quantization.zero_points.size == 1
    return int(quantization.zero_points[0]) & 255 if is_per_tensor else 0


def _elements_view(tensor: Tensor, count: int) -> memoryview:
    return _elements(tensor, count).data.toreadonly()


def constant_value(
    tensor: Tensor, type_: TensorType[Attribute]
) -> DenseIntOrFPElementsAttr | DenseResourceAttr:
    """Return the elements of a constant, as a resource that unpacks them later if large."""
    count = math.prod(tensor.shape)
    size = max(ITEM_BITS[tensor.type] // 8, 1)
    is_large = tensor.data is not None and count * size >= RESOURCE_BYTES
    if is_large and tensor.type != "BOOL":
        key = tensor.name or "constant"
        read = partial(_elements_view, tensor, count)
        return new_lazy_resource(key, min(size, 8), read, type_)
    elements = _elements(tensor, count)
    # A cast for the type checker only: elements have any type in `ITEM_BITS`.
    return DenseIntOrFPElementsAttr(
        cast(TensorType[IntegerType], type_), BytesAttr(elements.tobytes())
    )


def file_bytes(data: ResourceData, type_name: str, count: int) -> NDArray[np.uint8]:
    """Return the bytes of a constant in file layout, which packs 2 and 4-bit elements."""
    array = np.frombuffer(data, np.uint8)
    if array.size == max(ITEM_BITS[type_name] // 8, 1):
        # A splat has the bytes of a single element.
        array = np.tile(array, count)
    if type_name == "BOOL":
        return array & np.uint8(1)
    if (bits := ITEM_BITS[type_name]) >= 8:
        return array
    count = 8 // bits
    padded = np.append(
        array & ((1 << bits) - 1), np.zeros(-array.size % count, np.uint8)
    )
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return np.bitwise_or.reduce(padded.reshape(-1, count) << shifts, axis=1)
