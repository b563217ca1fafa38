"""What a `.tflite` file says, apart from how its bytes are laid out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.runtime.plugins import ModelFileError

OptionValue: TypeAlias = bool | int | float | str | Sequence[int]

ABSENT = -1
"""The index of an operand that is not there."""


class TFLiteFileError(ModelFileError):
    """A file is damaged, or has what no module can say."""


@dataclass
class TensorQuantization:
    """How the values of a tensor are stored."""

    scales: NDArray[np.float32]
    zero_points: NDArray[np.int64]
    axis: int = 0
    """The dimension of the scales, if there are several."""

    minimum: NDArray[np.float32] | None = None
    maximum: NDArray[np.float32] | None = None


@dataclass
class Tensor:
    """A value of a subgraph."""

    name: str
    type: str
    """The name of the enumerator of the schema, e.g. `INT8`."""

    shape: Sequence[int] = ()
    signature: Sequence[int] | None = None
    """The shape with -1 for sizes that are not known, if the file has it."""

    data: NDArray[np.uint8] | None = None
    """The bytes of a constant: a view of those of the file."""

    quantization: TensorQuantization | None = None
    is_variable: bool = False
    has_rank: bool = True


@dataclass
class Operator:
    """An op of a subgraph."""

    code: str
    """The name of the enumerator of the schema, e.g. `CONV_2D`."""

    inputs: Sequence[int]
    """Indices of tensors, `ABSENT` for an operand that is left out."""

    outputs: Sequence[int]
    options: Mapping[str, OptionValue] = field(default_factory=dict[str, OptionValue])
    """What the schema has for this op, with the names of its fields in snake case."""

    custom_code: str = ""
    """The name of an op that the schema does not have, where `code` is `CUSTOM`."""

    custom_options: bytes = b""


@dataclass
class Subgraph:
    """A function."""

    name: str
    tensors: Sequence[Tensor]
    inputs: Sequence[int]
    outputs: Sequence[int]
    operators: Sequence[Operator]
    """In the order in which they are run."""


@dataclass
class ModelSignature:
    """The names under which callers know a subgraph, its inputs and its outputs."""

    key: str
    subgraph: int
    inputs: Mapping[str, int]
    """Indices of tensors by the names of arguments."""

    outputs: Mapping[str, int]


@dataclass
class Model:
    """A file."""

    subgraphs: Sequence[Subgraph]
    signatures: Sequence[ModelSignature] = ()
    description: str = ""
    metadata: Mapping[str, bytes] = field(default_factory=dict[str, bytes])


ITEM_BITS: Mapping[str, int] = {
    "FLOAT32": 32,
    "FLOAT16": 16,
    "BFLOAT16": 16,
    "FLOAT64": 64,
    "INT4": 4,
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
"""The size of an element; strings, resources and variants have none."""
