"""Contents of a `.tflite` file, independent of its byte layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.runtime.plugins import ModelFileError

OptionValue: TypeAlias = bool | int | float | str | Sequence[int]

ABSENT = -1
"""Tensor index of an absent operand."""


class TFLiteFileError(ModelFileError):
    """Raised for damaged files and unsupported models; the message is one line."""

    def __init__(self, message: str):
        # Names in damaged files may have any characters.
        super().__init__("".join(c if c.isprintable() else "\ufffd" for c in message))


@dataclass
class TensorBlocks:
    """Scales and zero points of blocks, which other tensors of the subgraph contain."""

    sizes: Mapping[int, int]
    """Block size of each quantized dimension, in ascending order of dimensions."""

    scales: Tensor
    """Constant floats, one per block in row-major order."""

    zero_points: Tensor | None = None

    def counts(self, shape: Sequence[int]) -> Sequence[int]:
        """Return the number of blocks along each quantized dimension."""
        return [shape[axis] // size for axis, size in self.sizes.items()]


@dataclass
class TensorQuantization:
    """Quantization parameters of a tensor."""

    scales: NDArray[np.float32]
    zero_points: NDArray[np.int64]
    axis: int = 0
    """Quantized dimension, used only with several scales."""

    minimum: NDArray[np.float32] | None = None
    maximum: NDArray[np.float32] | None = None
    blocks: TensorBlocks | None = None
    """Parameters of blocks, in place of `scales` and `zero_points`."""


@dataclass
class Tensor:
    """Tensor of a subgraph."""

    name: str
    type: str
    """The enumerator name in the schema, e.g. `INT8`."""

    shape: Sequence[int] = ()
    signature: Sequence[int] | None = None
    """The shape with -1 for dynamic sizes; `None` if all sizes are static."""

    data: NDArray[np.uint8] | None = None
    """The bytes of a constant, as a view of the file's bytes."""

    quantization: TensorQuantization | None = None
    is_variable: bool = False
    has_rank: bool = True


@dataclass
class Operator:
    """Op of a subgraph."""

    code: str
    """The enumerator name in the schema, e.g. `CONV_2D`."""

    inputs: Sequence[int]
    """Tensor indices; `ABSENT` for an absent operand."""

    outputs: Sequence[int]
    options: Mapping[str, OptionValue] = field(default_factory=dict[str, OptionValue])
    """The builtin options by field name in snake case."""

    custom_code: str = ""
    """The name of a custom op, whose `code` is `CUSTOM`."""

    custom_options: bytes = b""
    intermediates: Sequence[int] = ()
    """Indices of tensors whose parameters quantize intermediate results of the kernel."""


@dataclass
class Subgraph:
    """Function of a model."""

    name: str
    tensors: Sequence[Tensor]
    inputs: Sequence[int]
    outputs: Sequence[int]
    operators: Sequence[Operator]
    """The ops in execution order."""


@dataclass
class ModelSignature:
    """Public names of a subgraph, its inputs and its outputs."""

    key: str
    subgraph: int
    inputs: Mapping[str, int]
    """Tensor indices by argument name."""

    outputs: Mapping[str, int]


@dataclass
class Model:
    """Contents of a file."""

    subgraphs: Sequence[Subgraph]
    signatures: Sequence[ModelSignature] = ()
    description: str = ""
    metadata: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


ITEM_BITS: Mapping[str, int] = {
    "FLOAT32": 32,
    "FLOAT16": 16,
    "BFLOAT16": 16,
    "FLOAT64": 64,
    "FLOAT8_E4M3FN": 8,
    "FLOAT8_E5M2": 8,
    "INT2": 2,
    "INT4": 4,
    "UINT4": 4,
    "INT8": 8,
    "UINT8": 8,
    "INT16": 16,
    "UINT16": 16,
    "INT32": 32,
    "UINT32": 32,
    "INT64": 64,
    "UINT64": 64,
    "BOOL": 8,
    "COMPLEX64": 64,
    "COMPLEX128": 128,
}
"""Element size in bits; strings, resources and variants have none."""
