"""
The bytes of a `.tflite` file as a model.

What reads the tables of the file checks nothing: a number that is wrong leads anywhere in
the file, or out of it. So each index is checked here, each constant must have as many bytes
as its type, and no more elements are read than a file of its size can have.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

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
from .schema import enumerators, option_fields, options_name, schema

_DAMAGE = (struct.error, IndexError, ValueError, TypeError, OverflowError)
"""What the reader of tables raises where it is led out of the file."""

_BUILTIN_CODE_FIELD = 10
"""Offset of the entry of `builtin_code` in the field table of an operator code."""

_QUANTIZATION_DETAILS = {
    1: "kind 'CustomQuantization'",
    2: "kind 'BlockwiseQuantization'",
    3: "kind 'MultiAxisQuantization'",
}
"""The kinds of details of scales; the package has the first one only."""


def read_tflite_model(content: bytes, name: str) -> Model:
    """
    Read a file.

    Args:
        content: its bytes.
        name: what messages call it.

    Raises:
        TFLiteFileError: if the file is damaged or too new.
        ImportError: if the package `tflite` is not installed.
    """
    # Without the package, this says so.
    schema()
    try:
        return _Reader().model(content)
    except TFLiteFileError as e:
        raise TFLiteFileError(f"{name}: error: {e}") from None
    except _DAMAGE:
        raise TFLiteFileError(
            f"{name}: error: the file is damaged: an offset leads out of it"
        ) from None


read_model = read_tflite_model
"""The former name, which an example printed."""


def _enumerator(enumeration: str, number: int, where: str) -> str:
    if (name := enumerators(enumeration).get(number)) is None:
        raise TFLiteFileError(f"{where} has unknown {enumeration} {number}")
    return name


def _check_index(index: int, count: int, what: str, where: str) -> int:
    if not 0 <= index < count:
        raise TFLiteFileError(f"{where} has {what} {index}, but there are {count}")
    return index


_Scalar = TypeVar("_Scalar", bound=np.generic)


class _Budget:
    """The number of elements that may still be read: no file has more than bytes."""

    def __init__(self, content: bytes):
        self.left = len(content)

    def spend(self, count: int) -> None:
        """Count elements: tables that overlap could have any number of them."""
        self.left -= count
        if self.left < 0:
            raise TFLiteFileError(
                "the file is damaged: its tables have more elements than bytes"
            )


class _Table:
    """
    A table of the package `tflite`, which has no types. A field is an accessor: `Shape` is
    the first of `Shape`, `ShapeLength`, `ShapeAsNumpy` and `ShapeIsNone`.
    """

    def __init__(self, table: object, budget: _Budget):
        self.wrapped = table
        self._budget = budget

    @classmethod
    def root(cls, kind: str, content: bytes) -> _Table:
        """Return the root of a file, or of a buffer with one table."""
        return cls(getattr(schema(), kind).GetRootAs(content, 0), _Budget(content))

    def number(self, field: str) -> int:
        """Return an integer or a truth value."""
        return getattr(self.wrapped, field)()

    def text(self, field: str) -> str:
        """Return a string, empty if it is not there."""
        value: bytes = getattr(self.wrapped, field)() or b""
        self._budget.spend(len(value))
        return value.decode(errors="replace")

    def table(self, field: str) -> _Table | None:
        found = getattr(self.wrapped, field)()
        return None if found is None else _Table(found, self._budget)

    def length(self, field: str) -> int:
        """Return the number of elements of a vector."""
        return getattr(self.wrapped, f"{field}Length")()

    def tables(self, field: str) -> Sequence[_Table]:
        """Return the tables of a vector."""
        count = self.length(field)
        self._budget.spend(count)
        get: Callable[[int], object] = getattr(self.wrapped, field)
        return [_Table(get(index), self._budget) for index in range(count)]

    def array(self, field: str, dtype: type[_Scalar]) -> NDArray[_Scalar] | None:
        """Return the numbers of a vector of a dtype; `None` if it is not there."""
        if getattr(self.wrapped, f"{field}IsNone")():
            return None
        self._budget.spend(self.length(field))
        return getattr(self.wrapped, f"{field}AsNumpy")()

    def numbers(self, field: str, dtype: type[_Scalar]) -> NDArray[_Scalar]:
        """Return the numbers of a vector of a dtype, none if it is not there."""
        array = self.array(field, dtype)
        return np.empty(0, dtype) if array is None else array

    def integers(self, field: str) -> Sequence[int]:
        """Return the integers of a vector, none if it is not there."""
        return self.numbers(field, np.int32).tolist()

    def builtin_code(self) -> int:
        """
        Return the field `builtin_code` of an operator code. The accessor of the package
        returns `deprecated_builtin_code` instead if it is below 127.
        """
        # Tables of the package have no other access to a field.
        fields = getattr(self.wrapped, "_tab")
        offset = fields.Offset(_BUILTIN_CODE_FIELD)
        if not offset:
            return 0
        (number,) = struct.unpack_from("<i", fields.Bytes, fields.Pos + offset)
        return number

    def union(self, field: str, kind: str) -> _Table | None:
        """Return the table of a union, which is of a known kind."""
        if (union := getattr(self.wrapped, field)()) is None:
            return None
        options = getattr(schema(), kind)()
        options.Init(union.Bytes, union.Pos)
        return _Table(options, self._budget)

    def options(self, kind: str) -> Mapping[str, OptionValue]:
        """Return the fields of a table of options."""
        values: dict[str, OptionValue] = {}
        for field, accessor in option_fields(kind).items():
            if hasattr(self.wrapped, f"{accessor}Length"):
                values[field] = self.integers(accessor)
                continue
            value = getattr(self.wrapped, accessor)()
            if value is None or isinstance(value, bytes):
                value = self.text(accessor)
            values[field] = value
        return values


class _Reader:
    """Reads the tables of a file."""

    def model(self, content: bytes) -> Model:
        if len(content) < 8 or content[4:8] != b"TFL3":
            raise TFLiteFileError(
                "this is no TensorFlow Lite model: bytes 4 to 8 are not 'TFL3'"
            )
        table = _Table.root("Model", content)
        if (version := table.number("Version")) != 3:
            raise TFLiteFileError(f"the schema has version {version}, but 3 is read")
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
        if table.number("Offset") > 1 or table.number("Size") > 1:
            raise TFLiteFileError(
                f"buffer {index} is behind the tables, as in files of more than 2 GB, "
                "which are not read"
            )
        return table.array("Data", np.uint8)

    def _code(self, table: _Table, index: int) -> tuple[str, str]:
        number = max(table.builtin_code(), table.number("DeprecatedBuiltinCode"))
        code = _enumerator("BuiltinOperator", number, f"operator code {index}")
        return code, table.text("CustomCode")

    def _metadata(self, table: _Table) -> tuple[str, bytes]:
        name = table.text("Name")
        data = self._buffer(table.number("Buffer"), f"metadata '{name}'")
        return name, b"" if data is None else data.tobytes()

    def _buffer(self, index: int, where: str) -> NDArray[np.uint8] | None:
        return self.buffers[_check_index(index, len(self.buffers), "buffer", where)]

    def _subgraph(self, table: _Table, index: int) -> Subgraph:
        name = table.text("Name")
        tensors = [self._tensor(t, i) for i, t in enumerate(table.tables("Tensors"))]
        where = f"subgraph {index}"
        count = len(tensors)
        return Subgraph(
            name,
            tensors,
            self._tensor_indices(table, "Inputs", count, where),
            self._tensor_indices(table, "Outputs", count, where),
            [
                self._operator(operator, i, count)
                for i, operator in enumerate(table.tables("Operators"))
            ],
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
                _check_index(index, count, "tensor", where)
        return indices

    def _tensor(self, table: _Table, index: int) -> Tensor:
        name = table.text("Name")
        where = f"tensor {index} ('{name}')"
        type_ = _enumerator("TensorType", table.number("Type"), where)
        if table.table("Sparsity") is not None:
            raise TFLiteFileError(f"{where} is sparse, which is not supported")
        shape = table.integers("Shape")
        signature = table.integers("ShapeSignature") or None
        if min(shape, default=0) < 0 or min(signature or (), default=0) < -1:
            raise TFLiteFileError(f"{where} has a negative size: {[*shape]}")
        if signature is not None and len(signature) != len(shape):
            raise TFLiteFileError(
                f"{where} has {len(shape)} sizes, but {len(signature)} in its signature"
            )
        data = self._buffer(table.number("Buffer"), where)
        if data is not None and not data.size:
            data = None
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
                f"{where} has {data.size} bytes, but {expected} are needed for type "
                f"{type_} and shape {[*shape]}"
            )

    def _quantization(
        self, table: _Table | None, rank: int, where: str
    ) -> TensorQuantization | None:
        if table is None:
            return None
        if number := table.number("DetailsType"):
            kind = _QUANTIZATION_DETAILS.get(number, f"kind {number}")
            raise TFLiteFileError(
                f"{where} has quantization details of {kind}, which are not supported; "
                "expected scales for the tensor or for one dimension"
            )
        scales = table.numbers("Scale", np.float32)
        zero_points = table.numbers("ZeroPoint", np.int64)
        minimum, maximum = (table.array(name, np.float32) for name in ("Min", "Max"))
        if not (scales.size or zero_points.size or minimum is not None):
            return None
        axis = table.number("QuantizedDimension")
        if zero_points.size:
            if zero_points.size not in (1, scales.size) or not scales.size:
                raise TFLiteFileError(
                    f"{where} has {scales.size} scales and {zero_points.size} zero points"
                )
            if not (np.isfinite(scales) & (scales >= 0)).all():
                raise TFLiteFileError(f"{where} has a scale that is no positive number")
            if scales.size > 1:
                _check_index(axis, rank, "quantized dimension", where)
        return TensorQuantization(scales, zero_points, axis, minimum, maximum)

    def _operator(self, table: _Table, index: int, tensor_count: int) -> Operator:
        where = f"operator {index}"
        code_index = _check_index(
            table.number("OpcodeIndex"), len(self.codes), "operator code", where
        )
        code, custom_code = self.codes[code_index]
        where = f"{where} ({custom_code or code})"
        if table.length("Intermediates"):
            raise TFLiteFileError(
                f"{where} has intermediate tensors, which are not supported"
            )
        return Operator(
            code,
            self._tensor_indices(table, "Inputs", tensor_count, where, True),
            self._tensor_indices(table, "Outputs", tensor_count, where),
            self._options(table, code, where),
            custom_code,
            table.numbers("CustomOptions", np.uint8).tobytes(),
        )

    def _options(
        self, table: _Table, code: str, where: str
    ) -> Mapping[str, OptionValue]:
        if number := table.number("BuiltinOptions2Type"):
            found = _enumerator("BuiltinOptions2", number, where)
            raise TFLiteFileError(f"{where} has {found}, which are not supported")
        name = options_name(code)
        number = table.number("BuiltinOptionsType")
        if not number:
            return default_options(name) if name else {}
        found = _enumerator("BuiltinOptions", number, where)
        if name is None or found != name:
            expected = f"takes {name}" if name else "takes no options"
            raise TFLiteFileError(f"{where} has {found}, but {expected}")
        if (options := table.union("BuiltinOptions", name)) is None:
            return default_options(name)
        values = options.options(name)
        for field, value in values.items():
            if field.endswith("subgraph_index"):
                assert isinstance(value, int)
                _check_index(value, self.subgraph_count, "subgraph", where)
        return values

    def _signature(
        self, table: _Table, subgraphs: Sequence[Subgraph]
    ) -> ModelSignature:
        key = table.text("SignatureKey")
        where = f"signature '{key}'"
        index = _check_index(
            table.number("SubgraphIndex"), len(subgraphs), "subgraph", where
        )
        count = len(subgraphs[index].tensors)

        def names(field: str) -> Mapping[str, int]:
            return {
                entry.text("Name"): _check_index(
                    entry.number("TensorIndex"), count, "tensor", where
                )
                for entry in table.tables(field)
            }

        return ModelSignature(key, index, names("Inputs"), names("Outputs"))


@cache
def default_options(name: str) -> Mapping[str, OptionValue]:
    """Return what the fields of a table of options are where a file lacks them."""
    import flatbuffers  # pyright: ignore[reportMissingTypeStubs] it has no type annotations

    builder: Any = flatbuffers.Builder(0)
    tables = schema()
    getattr(tables, f"{name}Start")(builder)
    builder.Finish(getattr(tables, f"{name}End")(builder))
    return _Table.root(name, bytes(builder.Output())).options(name)
