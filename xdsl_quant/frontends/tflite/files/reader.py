"""
Deserialization of `.tflite` files to models.

The package `tflite` validates nothing: with a wrong offset, it reads other bytes of the
file, or beyond its end. This module verifies indices and constant sizes, and reads at
most as many elements as the file has bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .blocks import DETAILS_TABLES, QuantizationDetails, block_quantization
from .model import (
    ABSENT,
    ITEM_BITS,
    Model,
    ModelSignature,
    Operator,
    OptionValue,
    Subgraph,
    Tensor,
    TensorQuantization,
    TFLiteFileError,
)
from .schema import (
    COMPOSITE,
    COMPOSITE_OPTIONS,
    enumerators,
    option_fields,
    options_name,
    schema,
)
from .sparsity import SparseDimension, Sparsity, densified

_DAMAGE = (struct.error, IndexError, ValueError, TypeError, OverflowError)
"""Exceptions of the package `tflite` for offsets outside the file."""

_BUILTIN_CODE_SLOT = 3
"""Number of the field `builtin_code` of an operator code."""

_EXTERNAL_BUFFER_SLOT, _QUANT_SPEC_SLOT = 10, 5
"""
Numbers of fields that the package `tflite` lacks: `external_buffer` of a tensor, and
`quant_spec` of `FullyConnectedOptions`.
"""


def read_tflite_model(content: bytes, name: str) -> Model:
    """
    Deserialize a file.

    Args:
        content: the bytes of the file.
        name: the file's name in messages.

    Raises:
        TFLiteFileError: if the file is damaged or unsupported.
        ImportError: if the package `tflite` is not installed.
    """
    # Raises ImportError if the package is missing.
    schema()
    try:
        return _Reader().model(content)
    except TFLiteFileError as e:
        raise TFLiteFileError(f"{name}: error: {e}") from None
    except _DAMAGE:
        raise TFLiteFileError(
            f"{name}: error: the file is damaged: an offset is beyond the end of the file"
        ) from None


read_model = read_tflite_model
"""Former name of `read_tflite_model`, which a published example uses."""


def _enumerator(enumeration: str, number: int, where: str) -> str:
    if (name := enumerators(enumeration).get(number)) is None:
        raise TFLiteFileError(f"{where} has unknown {enumeration} {number}")
    return name


def _check_index(index: int, count: int, name: str, where: str) -> int:
    if not 0 <= index < count:
        raise TFLiteFileError(
            f"{where} has {name} {index}; expected a value in [0, {count})"
        )
    return index


_Scalar = TypeVar("_Scalar", bound=np.generic)


class _Budget:
    """Number of elements that may still be read; a valid file has at most one per byte."""

    def __init__(self, content: bytes):
        self.left = len(content)

    def spend(self, count: int) -> None:
        """Subtract `count`; raise an error if the file has fewer bytes than elements."""
        self.left -= count
        if self.left < 0:
            raise TFLiteFileError(
                "the file is damaged: its tables have more elements than the file has bytes"
            )


class _Table:
    """Table of the package `tflite`; methods take the name of a field, e.g. `Shape`."""

    def __init__(self, table: object, budget: _Budget):
        self._flatbuffer = table
        self._budget = budget

    @classmethod
    def root(cls, kind: str, content: bytes) -> _Table:
        return cls(getattr(schema(), kind).GetRootAs(content, 0), _Budget(content))

    def number(self, field: str) -> int:
        return getattr(self._flatbuffer, field)()

    def text(self, field: str) -> str:
        """Return a string; empty if it is absent."""
        value: bytes = getattr(self._flatbuffer, field)() or b""
        self._budget.spend(len(value))
        return value.decode(errors="replace")

    def table(self, field: str) -> _Table | None:
        table = getattr(self._flatbuffer, field)()
        return None if table is None else _Table(table, self._budget)

    def length(self, field: str) -> int:
        return getattr(self._flatbuffer, f"{field}Length")()

    def tables(self, field: str) -> Sequence[_Table]:
        count = self.length(field)
        self._budget.spend(count)
        get: Callable[[int], object] = getattr(self._flatbuffer, field)
        return [_Table(get(index), self._budget) for index in range(count)]

    def array(self, field: str, dtype: type[_Scalar]) -> NDArray[_Scalar] | None:
        """Return a vector of numbers; `None` if it is absent."""
        if getattr(self._flatbuffer, f"{field}IsNone")():
            return None
        self._budget.spend(self.length(field))
        return getattr(self._flatbuffer, f"{field}AsNumpy")()

    def numbers(self, field: str, dtype: type[_Scalar]) -> NDArray[_Scalar]:
        """Return a vector of numbers; empty if it is absent."""
        array = self.array(field, dtype)
        return np.empty(0, dtype) if array is None else array

    def integers(self, field: str) -> Sequence[int]:
        """Return a vector of integers; empty if it is absent."""
        return self.numbers(field, np.int32).tolist()

    def _slot(self, slot: int) -> tuple[bytes, int]:
        """Return the file and the position of a field by number; 0 if it is absent."""
        # The package has no public access to fields by number.
        fields = getattr(self._flatbuffer, "_tab")
        offset = fields.Offset(4 + 2 * slot)
        return fields.Bytes, offset and fields.Pos + offset

    def has_slot(self, slot: int) -> bool:
        return self._slot(slot)[1] > 0

    def slot_number(self, slot: int) -> int:
        """Return a 32-bit integer by the number of its field; 0 if it is absent."""
        content, position = self._slot(slot)
        return struct.unpack_from("<i", content, position)[0] if position else 0

    def slot_integers(self, slot: int) -> Sequence[int]:
        """Return a vector by the number of its field; empty if it is absent."""
        content, position = self._slot(slot)
        if not position:
            return ()
        position += struct.unpack_from("<I", content, position)[0]
        (count,) = struct.unpack_from("<I", content, position)
        self._budget.spend(count)
        return struct.unpack_from(f"<{count}i", content, position + 4)

    def union(self, field: str, kind: str) -> _Table | None:
        if (union := getattr(self._flatbuffer, field)()) is None:
            return None
        options = getattr(schema(), kind)()
        options.Init(union.Bytes, union.Pos)
        return _Table(options, self._budget)

    def options(self, kind: str) -> Mapping[str, OptionValue]:
        values: dict[str, OptionValue] = {}
        for field, accessor in option_fields(kind).items():
            if hasattr(self._flatbuffer, f"{accessor}Length"):
                values[field] = self.integers(accessor)
                continue
            value = getattr(self._flatbuffer, accessor)()
            if value is None or isinstance(value, bytes):
                value = self.text(accessor)
            values[field] = value
        return values


class _Reader:
    def model(self, content: bytes) -> Model:
        if len(content) < 8 or content[4:8] != b"TFL3":
            raise TFLiteFileError(
                "not a TensorFlow Lite model: bytes 4 to 8 are not 'TFL3'"
            )
        table = _Table.root("Model", content)
        if (version := table.number("Version")) != 3:
            raise TFLiteFileError(f"unsupported schema version {version}; expected 3")
        self.content = np.frombuffer(content, np.uint8)
        self.buffers = [self._data(b, i) for i, b in enumerate(table.tables("Buffers"))]
        self.codes = [
            self._code(code, i) for i, code in enumerate(table.tables("OperatorCodes"))
        ]
        subgraph_tables = table.tables("Subgraphs")
        self.subgraph_count = len(subgraph_tables)
        if not subgraph_tables:
            raise TFLiteFileError("the model has no subgraph")
        subgraphs = [self._subgraph(s, i) for i, s in enumerate(subgraph_tables)]
        return Model(
            subgraphs,
            [self._signature(s, subgraphs) for s in table.tables("SignatureDefs")],
            table.text("Description"),
            dict(map(self._metadata, table.tables("Metadata"))),
        )

    def _data(self, table: _Table, index: int) -> NDArray[np.uint8] | None:
        offset, size = table.number("Offset"), table.number("Size")
        if offset <= 1 or size <= 1:
            return table.array("Data", np.uint8)
        # After the tables, as in files larger than 2 GB.
        if offset + size > self.content.size:
            raise TFLiteFileError(
                f"buffer {index} ends at byte {offset + size} of a file of "
                f"{self.content.size} bytes"
            )
        return self.content[offset : offset + size]

    def _code(self, table: _Table, index: int) -> tuple[str, str]:
        # For codes below 127, the accessor of the package returns the deprecated field.
        own = table.slot_number(_BUILTIN_CODE_SLOT)
        number = max(own, table.number("DeprecatedBuiltinCode"))
        code = _enumerator("BuiltinOperator", number, f"operator code {index}")
        return code, table.text("CustomCode")

    def _metadata(self, table: _Table) -> tuple[str, bytes]:
        name = table.text("Name")
        data = self._buffer(table.number("Buffer"), f"metadata '{name}'")
        return name, b"" if data is None else data.tobytes()

    def _buffer(self, index: int, where: str) -> NDArray[np.uint8] | None:
        return self.buffers[
            _check_index(index, len(self.buffers), "buffer index", where)
        ]

    def _subgraph(self, table: _Table, index: int) -> Subgraph:
        name = table.text("Name")
        tensors = [*self._tensors(table.tables("Tensors"))]
        where = f"subgraph {index}"
        count = len(tensors)
        operators = [
            self._operator(operator, i, count)
            for i, operator in enumerate(table.tables("Operators"))
        ]
        return Subgraph(
            name,
            tensors,
            self._tensor_indices(table, "Inputs", count, where),
            self._tensor_indices(table, "Outputs", count, where),
            [op for op in operators if not _is_densified(op, tensors)],
        )

    def _tensor_indices(
        self,
        table: _Table,
        field: str,
        count: int,
        where: str,
        may_be_absent: bool = False,
    ) -> Sequence[int]:
        indices = table.integers(field)
        for index in indices:
            if not (may_be_absent and index == ABSENT):
                _check_index(index, count, "tensor index", where)
        return indices

    def _tensors(self, tables: Sequence[_Table]) -> Sequence[Tensor]:
        tensors = [self._tensor(table, index) for index, table in enumerate(tables)]
        for index, (table, tensor) in enumerate(zip(tables, tensors, strict=True)):
            parameters, quantization = table.table("Quantization"), tensor.quantization
            if parameters is None or quantization is None:
                continue
            where = f"tensor {index} ('{tensor.name}')"
            if (details := self._details(parameters, where)) is not None:
                blocks = block_quantization(details, tensor, tensors, where)
                quantization.blocks = blocks
        return tensors

    def _details(self, table: _Table, where: str) -> QuantizationDetails | None:
        if not (number := table.number("DetailsType")):
            return None
        kind = enumerators("QuantizationDetails").get(number, str(number))
        # Any table gives access to the fields of one that the package `tflite` lacks.
        fields = table.union("Details", "CustomQuantization")
        if kind not in DETAILS_TABLES or fields is None:
            raise TFLiteFileError(
                f"{where} has unsupported quantization details of kind '{kind}'; expected "
                "per-tensor or per-axis scales, or scales of blocks"
            )
        scales, zero_points, size = (fields.slot_number(slot) for slot in range(3))
        dimensions = fields.slot_integers(3)
        return QuantizationDetails(kind, scales, zero_points, size, dimensions)

    def _tensor(self, table: _Table, index: int) -> Tensor:
        name = table.text("Name")
        where = f"tensor {index} ('{name}')"
        type_ = _enumerator("TensorType", table.number("Type"), where)
        if number := table.slot_number(_EXTERNAL_BUFFER_SLOT):
            raise TFLiteFileError(
                f"{where} has its data in external buffer {number} of another file, which "
                "is unsupported"
            )
        shape = table.integers("Shape")
        signature = table.integers("ShapeSignature") or None
        if min(shape, default=0) < 0 or min(signature or (), default=0) < -1:
            raise TFLiteFileError(f"{where} has a negative size: {[*shape]}")
        if signature is not None and len(signature) != len(shape):
            raise TFLiteFileError(
                f"{where} has rank {len(shape)}, but a shape signature of rank "
                f"{len(signature)}"
            )
        data = self._buffer(table.number("Buffer"), where)
        if data is not None and not data.size:
            data = None
        if (sparsity := table.table("Sparsity")) is not None:
            data = _dense_data(type_, shape, data, sparsity, where)
        self._check_size(type_, shape, data, where)
        return Tensor(
            name,
            type_,
            shape,
            signature,
            data,
            self._quantization(table.table("Quantization"), len(shape), where),
            bool(table.number("IsVariable")),
            bool(table.number("HasRank")),
        )

    def _check_size(
        self,
        type_: str,
        shape: Sequence[int],
        data: NDArray[np.uint8] | None,
        where: str,
    ) -> None:
        if data is None or (bits := ITEM_BITS.get(type_)) is None:
            return
        expected = -(-math.prod(shape) * bits // 8)
        if data.size != expected:
            raise TFLiteFileError(
                f"{where} has {data.size} bytes; expected {expected} for type {type_} and "
                f"shape {[*shape]}"
            )

    def _quantization(
        self, table: _Table | None, rank: int, where: str
    ) -> TensorQuantization | None:
        if table is None:
            return None
        scales = table.numbers("Scale", np.float32)
        zero_points = table.numbers("ZeroPoint", np.int64)
        minimum, maximum = (table.array(name, np.float32) for name in ("Min", "Max"))
        has_details = table.number("DetailsType") != 0
        if not (scales.size or zero_points.size or minimum is not None or has_details):
            return None
        axis = table.number("QuantizedDimension")
        if zero_points.size:
            if zero_points.size not in (1, scales.size) or not scales.size:
                raise TFLiteFileError(
                    f"{where} has {scales.size} scales and {zero_points.size} zero points; "
                    "expected one zero point, or one per scale"
                )
            if not (np.isfinite(scales) & (scales >= 0)).all():
                raise TFLiteFileError(
                    f"{where} has an invalid scale; expected finite values >= 0"
                )
            if scales.size > 1:
                _check_index(axis, rank, "quantized dimension", where)
        return TensorQuantization(scales, zero_points, axis, minimum, maximum)

    def _operator(self, table: _Table, index: int, tensor_count: int) -> Operator:
        where = f"operator {index}"
        code_index = _check_index(
            table.number("OpcodeIndex"), len(self.codes), "operator code index", where
        )
        code, custom_code = self.codes[code_index]
        where = f"{where} ({custom_code or code})"
        return Operator(
            code,
            self._tensor_indices(table, "Inputs", tensor_count, where, True),
            self._tensor_indices(table, "Outputs", tensor_count, where),
            self._options(table, code, where),
            custom_code,
            table.numbers("CustomOptions", np.uint8).tobytes(),
            self._tensor_indices(table, "Intermediates", tensor_count, where) or (),
        )

    def _options(
        self, table: _Table, code: str, where: str
    ) -> Mapping[str, OptionValue]:
        if number := table.number("BuiltinOptions2Type"):
            table_name = _enumerator("BuiltinOptions2", number, where)
            composite = table.union("BuiltinOptions2", COMPOSITE_OPTIONS)
            if composite is None or (code, table_name) != (
                COMPOSITE,
                COMPOSITE_OPTIONS,
            ):
                raise TFLiteFileError(f"{where} has unsupported options {table_name}")
            return self._checked_options(composite, COMPOSITE_OPTIONS, where)
        if code == COMPOSITE:
            raise TFLiteFileError(f"{where} has no options {COMPOSITE_OPTIONS}")
        name = options_name(code)
        number = table.number("BuiltinOptionsType")
        if not number:
            return default_options(name) if name else {}
        table_name = _enumerator("BuiltinOptions", number, where)
        if name is None or table_name != name:
            raise TFLiteFileError(
                f"{where} has options {table_name}; expected {name or 'none'}"
            )
        if (options := table.union("BuiltinOptions", name)) is None:
            return default_options(name)
        return self._checked_options(options, name, where)

    def _checked_options(
        self, options: _Table, name: str, where: str
    ) -> Mapping[str, OptionValue]:
        if name == "FullyConnectedOptions" and options.has_slot(_QUANT_SPEC_SLOT):
            raise TFLiteFileError(f"{where} has unsupported option 'quant_spec'")
        values = options.options(name)
        for field, value in values.items():
            if field.endswith("subgraph_index"):
                assert isinstance(value, int)
                _check_index(value, self.subgraph_count, "subgraph index", where)
        return values

    def _signature(
        self, table: _Table, subgraphs: Sequence[Subgraph]
    ) -> ModelSignature:
        key = table.text("SignatureKey")
        where = f"signature '{key}'"
        index = _check_index(
            table.number("SubgraphIndex"), len(subgraphs), "subgraph index", where
        )
        count = len(subgraphs[index].tensors)

        def names(field: str) -> Mapping[str, int]:
            return {
                entry.text("Name"): _check_index(
                    entry.number("TensorIndex"), count, "tensor index", where
                )
                for entry in table.tables(field)
            }

        return ModelSignature(key, index, names("Inputs"), names("Outputs"))


def _is_densified(operator: Operator, tensors: list[Tensor]) -> bool:
    """Make the result of `DENSIFY` a constant; return False for any other op."""
    if operator.code != "DENSIFY" or (
        len(operator.inputs),
        len(operator.outputs),
    ) != (1, 1):
        return False
    (source,), (target,) = operator.inputs, operator.outputs
    dense, result = tensors[source], tensors[target]
    if source == ABSENT or dense.data is None or dense.type != result.type:
        return False
    tensors[target] = replace(
        result, shape=dense.shape, signature=None, data=dense.data
    )
    return True


def _dense_data(
    type_: str,
    shape: Sequence[int],
    data: NDArray[np.uint8] | None,
    table: _Table,
    where: str,
) -> NDArray[np.uint8]:
    """Return the bytes of all elements of a sparse tensor."""
    bits = ITEM_BITS.get(type_, 0)
    if data is None or bits < 8:
        raise TFLiteFileError(
            f"{where} is a sparse tensor of type {type_}; expected a constant whose "
            "elements have whole bytes"
        )
    dimensions = [
        _sparse_dimension(dimension, where) for dimension in table.tables("DimMetadata")
    ]
    order, blocks = table.integers("TraversalOrder"), table.integers("BlockMap")
    try:
        return densified(data, bits // 8, shape, Sparsity(order, blocks, dimensions))
    except TFLiteFileError as e:
        raise TFLiteFileError(f"{where} {e}") from None


def _sparse_dimension(table: _Table, where: str) -> SparseDimension:
    if not _enumerator("DimensionType", table.number("Format"), where).startswith("S"):
        return SparseDimension(table.number("DenseSize"))
    segments, indices = (
        _sparse_vector(table, field, where)
        for field in ("ArraySegments", "ArrayIndices")
    )
    return SparseDimension(table.number("DenseSize"), segments, indices)


def _sparse_vector(table: _Table, field: str, where: str) -> NDArray[np.int64]:
    kind = _enumerator("SparseIndexVector", table.number(f"{field}Type"), where)
    vector = None if kind == "NONE" else table.union(field, kind)
    if vector is None:
        raise TFLiteFileError(f"{where} has a compressed dimension without '{field}'")
    return vector.numbers("Values", np.int64).astype(np.int64)


@cache
def default_options(name: str) -> Mapping[str, OptionValue]:
    """Return the schema's default values of an option table."""
    import flatbuffers  # pyright: ignore[reportMissingTypeStubs] it has no type annotations

    builder: Any = flatbuffers.Builder(0)
    tables = schema()
    getattr(tables, f"{name}Start")(builder)
    builder.Finish(getattr(tables, f"{name}End")(builder))
    return _Table.root(name, bytes(builder.Output())).options(name)
