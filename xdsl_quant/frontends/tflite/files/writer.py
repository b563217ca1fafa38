"""Serialization of a model to the bytes of a `.tflite` file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .blocks import details_of
from .model import (
    ABSENT,
    Model,
    ModelSignature,
    Operator,
    Subgraph,
    Tensor,
    TensorBlocks,
    TensorQuantization,
)
from .schema import (
    COMPOSITE,
    COMPOSITE_OPTIONS,
    enumerator,
    option_fields,
    options_name,
    schema,
)

_FIRST_VERSIONS = {"BROADCAST_TO": 2}
"""Lowest version of each op whose versions do not start at 1."""

_OLD_CODE_LIMIT = 127
"""Largest value of the deprecated operator code field."""

_DATA_ALIGNMENT = 16

_MAX_CONSTANT_BYTES = 2_000_000_000
"""Largest size of all constants in the tables, which must end before 2 GB."""


def write_model(model: Model, max_constant_bytes: int = _MAX_CONSTANT_BYTES) -> bytes:
    """
    Serialize a model to the bytes of a file.

    Args:
        model: the model.
        max_constant_bytes: size of all constants above which they follow the tables.

    Raises:
        ImportError: if the package `tflite` is not installed.
    """
    tensors = (tensor for subgraph in model.subgraphs for tensor in subgraph.tensors)
    sizes = {id(t.data): t.data.size for t in tensors if t.data is not None}
    if sum(sizes.values()) <= max_constant_bytes:
        return _Writer(model).content()
    # Tables have the same size for any offset of the first constant.
    size = len(_Writer(model, _DATA_ALIGNMENT).content())
    writer = _Writer(model, _aligned(size))
    content = writer.content()
    return b"".join([content, *writer.constants_after_tables(size)])


def _aligned(position: int) -> int:
    return -(-position // _DATA_ALIGNMENT) * _DATA_ALIGNMENT


def version(operator: Operator) -> int:
    """Return the lowest version of the op with the features that the operator needs."""
    if (
        operator.code == "TRANSPOSE_CONV"
        and operator.options["fused_activation_function"]
    ):
        return 4
    return _FIRST_VERSIONS.get(operator.code, 1)


def _with_appended_blocks(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """Append the scales and zero points of blocks that are not among the tensors."""
    blocks = (t.quantization.blocks for t in tensors if t.quantization is not None)
    pairs = ((b.scales, b.zero_points) for b in blocks if b is not None)
    parameters = {id(t): t for pair in pairs for t in pair if t is not None}
    for tensor in tensors:
        parameters.pop(id(tensor), None)
    return [*tensors, *parameters.values()]


class _Writer:
    """FlatBuffers serializer, which writes nested tables before their parents."""

    def __init__(self, model: Model, constants_start: int | None = None):
        """Write constants into the tables, or from a position after the tables."""
        import flatbuffers  # pyright: ignore[reportMissingTypeStubs] it has no type annotations

        self.model = model
        self.position = constants_start
        self.tables = schema()
        self.builder: Any = flatbuffers.Builder(1024)
        self.buffers: list[NDArray[np.uint8] | None] = [None]
        self.buffer_indices: dict[int, int] = {}
        self.codes: dict[tuple[str, str, int], int] = {}
        self.tensors: Sequence[Tensor] = ()
        """Tensors of the current subgraph."""

    # FlatBuffers primitives

    def table(self, name: str, fields: Mapping[str, Any]) -> int:
        """Write a table whose nested values are already written; `None` omits a field."""
        getattr(self.tables, f"{name}Start")(self.builder)
        for field, value in fields.items():
            if value is not None:
                getattr(self.tables, f"{name}Add{field}")(self.builder, value)
        return getattr(self.tables, f"{name}End")(self.builder)

    def vector(self, offsets: Iterable[int]) -> int:
        offsets = [*offsets]
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return self.builder.EndVector()

    def numbers(self, values: Any, dtype: type[Any]) -> int:
        return self.builder.CreateNumpyVector(np.asarray(values, dtype))

    def text(self, value: str) -> int:
        return self.builder.CreateString(value)

    # Tables

    def content(self) -> bytes:
        model = self.model
        subgraphs = self.vector([*map(self.subgraph, model.subgraphs)])
        signatures = self.vector([*map(self.signature, model.signatures)])
        metadata = self.vector(
            [self.metadata(name, data) for name, data in model.metadata.items()]
        )
        codes = self.vector([self.code(*code) for code in self.codes])
        buffers = self.vector([*map(self.buffer, self.buffers)])
        root = self.table(
            "Model",
            {
                "Version": 3,
                "Description": self.text(model.description),
                "OperatorCodes": codes,
                "Subgraphs": subgraphs,
                "Buffers": buffers,
                "SignatureDefs": signatures,
                "Metadata": metadata,
            },
        )
        self.builder.Finish(root, file_identifier=b"TFL3")
        return bytes(self.builder.Output())

    def add_buffer(self, data: NDArray[np.uint8] | None) -> int:
        if data is None:
            return 0
        # Tensors that have the same array share a buffer.
        index = self.buffer_indices.setdefault(id(data), len(self.buffers))
        if index == len(self.buffers):
            self.buffers.append(data)
        return index

    def buffer(self, data: NDArray[np.uint8] | None) -> int:
        if data is None:
            return self.table("Buffer", {})
        if self.position is not None and data.size > 1:
            offset = self.position
            self.position = _aligned(offset + data.size)
            return self.table("Buffer", {"Offset": offset, "Size": data.size})
        # Kernels read constants in place, with instructions that require alignment.
        self.builder.Prep(_DATA_ALIGNMENT, data.size)
        return self.table("Buffer", {"Data": self.numbers(data, np.uint8)})

    def constants_after_tables(self, end: int) -> Iterator[bytes]:
        """Yield padding and bytes of each constant; `end` is the size of the tables."""
        for data in self.buffers:
            if data is not None and data.size > 1:
                yield bytes(_aligned(end) - end)
                yield data.tobytes()
                end = _aligned(end) + data.size

    def code(self, name: str, custom_code: str, version: int) -> int:
        number = enumerator("BuiltinOperator", name)
        custom = self.text(custom_code) if custom_code else None
        return self.table(
            "OperatorCode",
            {
                "DeprecatedBuiltinCode": min(number, _OLD_CODE_LIMIT),
                "CustomCode": custom,
                "Version": version,
                "BuiltinCode": number,
            },
        )

    def metadata(self, name: str, data: bytes) -> int:
        buffer = self.add_buffer(np.frombuffer(data, np.uint8))
        return self.table("Metadata", {"Name": self.text(name), "Buffer": buffer})

    def subgraph(self, subgraph: Subgraph) -> int:
        self.tensors = _with_appended_blocks(subgraph.tensors)
        fields = {
            "Tensors": self.vector([*map(self.tensor, self.tensors)]),
            "Inputs": self.numbers(subgraph.inputs, np.int32),
            "Outputs": self.numbers(subgraph.outputs, np.int32),
            "Operators": self.vector([*map(self.operator, subgraph.operators)]),
            "Name": self.text(subgraph.name),
        }
        return self.table("SubGraph", fields)

    def tensor(self, tensor: Tensor) -> int:
        signature = tensor.signature
        fields = {
            "Shape": self.numbers(tensor.shape, np.int32),
            "ShapeSignature": None
            if signature is None
            else self.numbers(signature, np.int32),
            "Name": self.text(tensor.name),
            "Quantization": self.quantization(tensor.quantization, len(tensor.shape)),
            "Type": enumerator("TensorType", tensor.type),
            "Buffer": self.add_buffer(tensor.data),
            "IsVariable": tensor.is_variable,
            "HasRank": tensor.has_rank,
        }
        return self.table("Tensor", fields)

    def quantization(
        self, quantization: TensorQuantization | None, rank: int
    ) -> int | None:
        if quantization is None:
            return None
        ranges = {"Min": quantization.minimum, "Max": quantization.maximum}
        if (blocks := quantization.blocks) is not None:
            parameters = self.details(blocks, rank)
        else:
            parameters = {
                "Scale": self.numbers(quantization.scales, np.float32),
                "ZeroPoint": self.numbers(quantization.zero_points, np.int64),
            }
        fields = {
            **parameters,
            "QuantizedDimension": quantization.axis,
            **{
                name: None if values is None else self.numbers(values, np.float32)
                for name, values in ranges.items()
            },
        }
        return self.table("QuantizationParameters", fields)

    def details(self, blocks: TensorBlocks, rank: int) -> Mapping[str, int]:
        kind, size, dimensions = details_of(blocks, rank)
        zero_points = blocks.zero_points
        numbers = (
            self.tensor_index(blocks.scales),
            ABSENT if zero_points is None else self.tensor_index(zero_points),
            size,
        )
        vector = self.numbers(dimensions, np.int32) if dimensions else 0
        # The package `tflite` lacks these tables.
        self.builder.StartObject(4)
        for slot, number in enumerate(numbers):
            self.builder.PrependInt32Slot(slot, number, 0)
        self.builder.PrependUOffsetTRelativeSlot(3, vector, 0)
        table = self.builder.EndObject()
        number = enumerator("QuantizationDetails", kind)
        return {"DetailsType": number, "Details": table}

    def tensor_index(self, tensor: Tensor) -> int:
        return next(i for i, other in enumerate(self.tensors) if other is tensor)

    def operator(self, operator: Operator) -> int:
        key = operator.code, operator.custom_code, version(operator)
        index = self.codes.setdefault(key, len(self.codes))
        is_composite = operator.code == COMPOSITE
        name = COMPOSITE_OPTIONS if is_composite else options_name(operator.code)
        union = "BuiltinOptions2" if is_composite else "BuiltinOptions"
        custom = np.frombuffer(operator.custom_options, np.uint8)
        fields = {
            "OpcodeIndex": index,
            "Inputs": self.numbers(operator.inputs, np.int32),
            "Outputs": self.numbers(operator.outputs, np.int32),
            f"{union}Type": enumerator(union, name) if name else None,
            union: self.options(name, operator) if name else None,
            "CustomOptions": self.numbers(custom, np.uint8) if custom.size else None,
            "Intermediates": self.numbers(operator.intermediates, np.int32)
            if operator.intermediates
            else None,
        }
        return self.table("Operator", fields)

    def options(self, name: str, operator: Operator) -> int:
        accessors = option_fields(name)
        return self.table(
            name,
            {
                accessors[field]: self.option(value)
                for field, value in operator.options.items()
            },
        )

    def option(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes):
            return self.numbers(np.frombuffer(value, np.uint8), np.uint8)
        return self.numbers(value, np.int32) if isinstance(value, Sequence) else value

    def signature(self, signature: ModelSignature) -> int:
        def names(indices: Mapping[str, int]) -> int:
            return self.vector(
                [
                    self.table(
                        "TensorMap", {"Name": self.text(name), "TensorIndex": index}
                    )
                    for name, index in indices.items()
                ]
            )

        fields = {
            "Inputs": names(signature.inputs),
            "Outputs": names(signature.outputs),
            "SignatureKey": self.text(signature.key),
            "SubgraphIndex": signature.subgraph,
        }
        return self.table("SignatureDef", fields)
