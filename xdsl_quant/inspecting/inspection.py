"""Quantized tensors of a module, as a table or JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat, NameLoc, UnrankedTensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.diagnostics import op_name, shortened_text, table
from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    QuantileType,
    QuantizedType,
    RegionOp,
    StorageCastOp,
    StoredQuantizedType,
)
from xdsl_quant.dialects.quant.types import ScaledQuantizedType, with_element_type
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.codecs import float_bounds
from xdsl_quant.numerics.small_floats import small_float
from xdsl_quant.quantizer.results import Model, QuantizedModel, module_of
from xdsl_quant.quantizer.user_warnings import warn_user
from xdsl_quant.runtime.arrays import (
    constant_elements,
    integer_width,
    shape_of,
    shape_text,
    stored_elements,
)
from xdsl_quant.transforms.propagation.resolution.report import value_names

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class QuantizedTensor:
    """A value of a quantized type."""

    name: str
    """Name in a TensorFlow Lite file or, as `%name`, in the text of the module."""

    function: str
    """Name of the function that contains the tensor; empty outside of functions."""

    op: str
    """Name of the defining op; `argument` for function and block arguments."""

    shape: tuple[int, ...] | None
    """Sizes, negative (in JSON -1) if dynamic; `None` if the tensor is unranked."""

    storage: str
    """Storage type, e.g. `i8<-127:127>`, or the name of a type without storage type."""

    scale_count: int = 0
    scales: tuple[float, float] | None = None
    """Smallest and largest scale."""

    zero_points: tuple[float, float] | None = None
    """Smallest and largest zero point; fractional only in block-scaled types."""

    offsets: tuple[float, float] | None = None
    """Smallest and largest offset of a block-scaled type."""

    blocks: Mapping[int, int] | None = None
    """Block sizes by dimension; 1 for the dimension of per-axis quantization."""

    bytes: int | None = None
    """
    Size of the stored values; `None` if unknown. For block-scaled types, it includes
    scales, zero points and offsets.
    """

    stored: tuple[float, float] | None = None
    """Smallest and largest stored value of a constant; indices for quantile types."""

    at_bounds: float | None = None
    """Fraction of the elements of a constant at a bound of the storage range."""

    is_constant: bool = False

    @property
    def float_bytes(self) -> int:
        """Size of the elements in bytes if they were `f32`."""
        return _FLOAT_BYTES * math.prod(self.shape or ())


_SORT_KEYS: Mapping[
    str, Callable[[QuantizedTensor], str | float | tuple[float, ...]]
] = {
    "name": lambda tensor: tensor.name,
    "op": lambda tensor: tensor.op,
    "storage": lambda tensor: tensor.storage,
    "scale": lambda tensor: -tensor.scales[1] if tensor.scales else math.inf,
    "zero-point": lambda tensor: tensor.zero_points or (math.inf,),
    "bytes": lambda tensor: math.inf if tensor.bytes is None else -tensor.bytes,
    "at-bounds": lambda tensor: (
        -tensor.at_bounds if tensor.at_bounds is not None else 1
    ),
}
"""Functions that return sort keys; scales, sizes and fractions sort descending."""

SORT_NAMES = ("order", *_SORT_KEYS)
"""Accepted names of `Inspection.sorted_by`; `order` is the module order."""


@dataclass(frozen=True)
class Inspection:
    """Quantized tensors of a module, and totals."""

    tensors: Sequence[QuantizedTensor]

    other_constant_bytes: int
    """Size of constants that are not quantized."""

    @property
    def stored_bytes(self) -> int:
        """Size of quantized constants."""
        return sum(each.bytes or 0 for each in self.tensors if each.is_constant)

    @property
    def float_bytes(self) -> int:
        """Size of quantized constants as `f32`."""
        return sum(each.float_bytes for each in self.tensors if each.is_constant)

    @property
    def storage_counts(self) -> Mapping[str, int]:
        """Number of tensors by storage type, the most frequent first."""
        return dict(Counter(tensor.storage for tensor in self.tensors).most_common())

    def sorted_by(self, name: str) -> Inspection:
        """
        Return a copy with sorted tensors.

        Args:
            name: one of `SORT_NAMES`.
        """
        if (key := _SORT_KEYS.get(name)) is None:
            return self
        return replace(self, tensors=sorted(self.tensors, key=key))

    def json(self) -> str:
        """Return JSON with totals, and the fields of each `QuantizedTensor` as keys."""
        content = {
            "tensors": [
                asdict(tensor) | {"shape": _plain_sizes(tensor.shape)}
                for tensor in self.tensors
            ],
            "storage_counts": self.storage_counts,
            "stored_bytes": self.stored_bytes,
            "float_bytes": self.float_bytes,
            "other_constant_bytes": self.other_constant_bytes,
        }
        return json.dumps(content, indent=2) + "\n"

    def __str__(self) -> str:
        """Return the tensors as a table, and the totals."""
        if not self.tensors:
            return (
                "no value has a quantized type; quantize a float model with "
                "xdsl-quant quantize"
            )
        hidden: set[str] = set()
        if all(tensor.offsets is None for tensor in self.tensors):
            hidden.add("offset")
        if len({tensor.function for tensor in self.tensors}) == 1:
            hidden.add("function")
        cells = [*map(_tensor_cells, self.tensors)]
        names = [name for name in cells[0] if name not in hidden]
        rows = [names, *([row[name] for name in names] for row in cells)]
        counts = ", ".join(f"{n} {name}" for name, n in self.storage_counts.items())
        lines = [*table(rows), "", f"quantized tensors: {counts}"]
        if stored := self.stored_bytes:
            lines.append(
                f"quantized constants: {stored} bytes; as f32 {self.float_bytes} bytes, "
                f"{self.float_bytes / stored:.2f} times as much"
            )
        if self.other_constant_bytes:
            lines.append(f"other constants: {self.other_constant_bytes} bytes")
        return "\n".join(lines)


def _tensor_cells(tensor: QuantizedTensor) -> Mapping[str, str]:
    shape = "unranked" if tensor.shape is None else shape_text(tensor.shape)
    scale = _limits_text(tensor.scales, ".4g")
    if tensor.scales is not None and tensor.scale_count > 1:
        scale += f" ({tensor.scale_count})"
    return {
        "function": f"@{tensor.function}",
        "value": shortened_text(tensor.name),
        "op": tensor.op,
        "shape": shape or "scalar",
        "storage": tensor.storage,
        "scale": scale,
        "zero point": _limits_text(tensor.zero_points),
        "offset": _limits_text(tensor.offsets, ".4g"),
        "axis": _blocks_text(tensor.blocks or {}),
        "stored": _limits_text(tensor.stored),
        "at bounds": "-" if tensor.at_bounds is None else f"{tensor.at_bounds:.2%}",
        "bytes": "-" if tensor.bytes is None else str(tensor.bytes),
    }


def _blocks_text(blocks: Mapping[int, int]) -> str:
    """Return the axis of a per-axis type, or block sizes as MLIR prints them."""
    if [*blocks.values()] == [1]:
        return str(*blocks)
    return ", ".join(f"{axis}:{size}" for axis, size in blocks.items()) or "-"


def _limits_text(limits: tuple[float, float] | None, spec: str = "") -> str:
    if limits is None:
        return "-"
    low, high = (format(limit, spec) for limit in limits)
    return low if low == high else f"{low}..{high}"


# Inspection


def inspect(model: Model | QuantizedModel) -> Inspection:
    """
    Find the quantized tensors of a module: results of ops, arguments of functions and
    blocks, arguments and results of functions without a body, and results of kernels
    whose ports have a quantized type.

    Args:
        model: a module, MLIR text, the path of a file, or a result of `quantize`.

    Raises:
        IRError: if the model cannot be read.
        TypeError: if `model` has another type.
    """
    types: dict[QuantizedType, QuantizedTensor] = {}
    tensors: list[QuantizedTensor] = []
    stored: set[SSAValue] = set()
    other_sizes: dict[SSAValue, int] = {}
    ops = module_of(model).body.block.ops
    for value in (value for top in ops for value in _values(top)):
        source = _stored_value(value.value)
        elements = None if source is None else _known_elements(source)
        quantized = QuantizedType.get_quantized_element_type(value.type)
        if quantized is None:
            if source is not None and elements is not None:
                width = integer_width(value.type) or 8 * elements.itemsize
                other_sizes[source] = _byte_count(elements.shape, width) or 0
            continue
        if quantized not in types:
            types[quantized] = _tensor_of_type(quantized)
        tensor = _tensor_at(types[quantized], value, quantized)
        if source is not None and elements is not None:
            stored.add(source)
            tensor = _with_contents(tensor, elements, quantized)
        tensors.append(tensor)
    return Inspection(
        tensors, sum(size for value, size in other_sizes.items() if value not in stored)
    )


def _tensor_at(
    tensor: QuantizedTensor, value: _InspectedValue, type_: QuantizedType
) -> QuantizedTensor:
    is_ranked, width = not isinstance(value.type, UnrankedTensorType), None
    shape = shape_of(value.type) if is_ranked else None
    if isinstance(type_, StoredQuantizedType):
        width = type_.storage_type_integral_width
    return replace(
        tensor,
        name=value.name,
        function=value.function,
        op=value.op,
        shape=shape,
        bytes=_byte_count(shape, width, _parameter_bits(type_)),
    )


@dataclass(frozen=True)
class _InspectedValue:
    """A value, or an argument or result of a function without a body."""

    name: str
    function: str
    op: str
    type: Attribute
    value: SSAValue | None = None


def _values(top: Operation) -> Iterator[_InspectedValue]:
    """Yield the values that an op and the ops in its regions define."""
    function = top.sym_name.data if isinstance(top, FuncOp) else ""
    if isinstance(top, FuncOp) and top.is_declaration:
        types = top.function_type
        for noun, each in (("argument", types.inputs), ("result", types.outputs)):
            for index, type_ in enumerate(each):
                yield _InspectedValue(f"{noun} {index}", function, top.name, type_)
    for value, name in value_names(top):
        owner = value.owner
        if not isinstance(owner, Operation):
            yield _InspectedValue(name, function, "argument", value.type, value)
            continue
        type_: Attribute = value.type
        if isinstance(owner, RegionOp):
            spec = owner.output_specs.data[owner.results.index(value)]
            if isinstance(spec, QuantizedType):
                type_ = with_element_type(type_, spec)
        if isinstance(location := owner.location, NameLoc):
            name = location.desc.data
        yield _InspectedValue(name, function, op_name(owner), type_, value)


def _stored_value(value: SSAValue | None) -> SSAValue | None:
    """Return the operand of the storage cast that defines a value, else the value."""
    if value is not None and isinstance(value.owner, StorageCastOp):
        return value.owner.input
    return value


def _known_elements(value: SSAValue) -> Array | None:
    # The data may be missing, and NumPy may lack the type.
    with suppress(ValueError, TypeError, ImportError):
        return constant_elements(value)
    return None


def _plain_sizes(shape: Sequence[int] | None) -> Sequence[int] | None:
    return None if shape is None else [max(size, -1) for size in shape]


def _byte_count(
    shape: Sequence[int] | None, width: int | None, parameter_bits: int = 0
) -> int | None:
    if shape is None or width is None or min(shape, default=0) < 0:
        return None
    return -(-(math.prod(shape) * width + parameter_bits) // 8)


def _parameter_bits(type_: Attribute) -> int:
    """Return the size of block scales, zero points and offsets in bits, or 0."""
    if not isinstance(type_, BlockScaledQuantizedType):
        return 0
    return sum(
        math.prod(numbers.shape) * numbers.element_type.bitwidth
        # Parameters may have a block-scaled type themselves.
        + _parameter_bits(numbers.quantized_type)
        for numbers in type_.block_parameter_attrs.values()
    )


def _tensor_of_type(type_: QuantizedType) -> QuantizedTensor:
    """Return the properties that all tensors of a type share."""
    if not isinstance(type_, StoredQuantizedType):
        storage = type_.name.removeprefix("quant.")
        return QuantizedTensor("", "", "", None, storage)
    storage = type_.storage_text
    if isinstance(type_.storage_type, QuantileType):
        # The quantiles are too long for a column.
        storage = storage.replace(type_.storage_type_name, type_.short_storage_name)
    tensor = QuantizedTensor("", "", "", None, storage)
    if isinstance(type_, BlockScaledQuantizedType):
        return _with_block_parameters(tensor, type_)
    if not isinstance(type_, ScaledQuantizedType):
        return tensor
    scales, zero_points = type_.get_scales(), type_.get_zero_points()
    return replace(
        tensor,
        scale_count=scales.size,
        scales=(float(scales.min()), float(scales.max())),
        zero_points=(int(zero_points.min()), int(zero_points.max())),
        blocks={axis: size for axis, (_, size) in type_.get_blocks().items()},
    )


def _with_block_parameters(
    tensor: QuantizedTensor, type_: BlockScaledQuantizedType
) -> QuantizedTensor:
    numbers: Mapping[str, NDArray[np.float64]] = {}
    try:
        numbers = type_.get_numbers()
    except ValueError as e:
        # The scales are in a resource without data. Types are cached: warn once per type.
        warn_user(f"scales of blocks are not shown: {e}")
    ranges = {name: _limits(array) for name, array in numbers.items()}
    if type_.block_parameter_attrs.keys().isdisjoint(("zero_points", "offsets")):
        ranges["zero_points"] = 0, 0
    return replace(
        tensor,
        scale_count=math.prod(type_.get_scales_shape()),
        scales=ranges.get("scales"),
        zero_points=ranges.get("zero_points"),
        offsets=ranges.get("offsets"),
        blocks=dict(type_.block_size_info),
    )


def _limits(numbers: Array) -> tuple[float, float] | None:
    """Return the smallest and largest number, or `None` if all are NaN."""
    numbers = numbers[~np.isnan(numbers)]
    if not numbers.size:
        return None
    low, high = (float(limit) for limit in (numbers.min(), numbers.max()))
    if low.is_integer() and high.is_integer():
        return int(low), int(high)
    return low, high


def _with_contents(
    tensor: QuantizedTensor, elements: Array, type_: QuantizedType
) -> QuantizedTensor:
    if not isinstance(type_, StoredQuantizedType) or not elements.size:
        return replace(tensor, is_constant=True)
    low, high = type_.storage_range
    if isinstance(stored_type := type_.stored_type, AnyFloat):
        small = small_float(stored_type.name)
        low, high = float_bounds(small, (low, high))
        values = small.decode(elements.view(np.uint8))
    else:
        values = stored_elements(elements, type_)
    at_bounds = np.count_nonzero(values == low) + np.count_nonzero(values == high)
    return replace(
        tensor,
        is_constant=True,
        stored=_limits(values),
        at_bounds=at_bounds / values.size,
    )
