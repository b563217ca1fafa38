"""
The quantized tensors of a TensorFlow Lite model, as NumPy arrays.

The packages `tflite` and `flatbuffers` read the file. What they return has no type
annotations, so `_Model` and the protocols below say what is used of it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import tflite  # pyright: ignore[reportMissingTypeStubs] has neither stubs nor hints
from numpy.typing import NDArray

from xdsl_quant.runtime.extras import missing_package

Stored = NDArray[np.signedinteger[Any] | np.unsignedinteger[Any]]
"""Stored values: integers of at most 32 bits."""


@dataclass(frozen=True)
class QuantizedTensor:
    """A tensor of integers that stand for `(stored - zero_point) * scale`."""

    name: str

    stored: Stored
    """
    The stored values: those of the file if `is_constant`, otherwise random ones.
    """

    scales: NDArray[np.float32]
    """One scale, or one for each index of `axis`."""

    zero_points: NDArray[np.int64]
    """As many zero points as scales."""

    axis: int | None
    """The quantized dimension; `None` if there is one scale for the whole tensor."""

    is_constant: bool
    """
    Whether the model has the values of the tensor: it is a weight, a bias or an initial
    state, and not an activation, which only exists while the model runs.
    """


class _Quantization(Protocol):
    def ScaleLength(self) -> int: ...
    def ScaleAsNumpy(self) -> NDArray[np.float32]: ...
    def ZeroPointAsNumpy(self) -> NDArray[np.int64]: ...
    def QuantizedDimension(self) -> int: ...


class _Tensor(Protocol):
    def Name(self) -> bytes: ...
    def Type(self) -> int: ...
    def Buffer(self) -> int: ...
    def ShapeLength(self) -> int: ...
    def Shape(self, j: int, /) -> int: ...
    def Quantization(self) -> _Quantization | None: ...


class _Subgraph(Protocol):
    def TensorsLength(self) -> int: ...
    def Tensors(self, j: int, /) -> _Tensor: ...


class _Buffer(Protocol):
    def DataLength(self) -> int: ...
    def DataAsNumpy(self) -> NDArray[np.uint8]: ...


class _Model(Protocol):
    def SubgraphsLength(self) -> int: ...
    def Subgraphs(self, j: int, /) -> _Subgraph: ...
    def Buffers(self, j: int, /) -> _Buffer: ...


def _load(path: Path) -> _Model:
    return cast(_Model, cast(Any, tflite).Model.GetRootAs(path.read_bytes(), 0))


_DTYPES: dict[int, np.dtype[Any]] = {
    int(getattr(tflite.TensorType, name)): np.dtype(dtype)
    for name, dtype in {
        "INT8": "<i1",
        "UINT8": "<u1",
        "INT16": "<i2",
        "INT32": "<i4",
    }.items()
}
"""The storage types that a quantized type can have too."""


def model_paths() -> dict[str, Path]:
    """
    The models that the package `pymicro-wakeword` brings (licence: Apache-2.0), by name.
    """
    # The package is not imported: that would load its TensorFlow Lite library.
    spec = find_spec("pymicro_wakeword")
    if spec is None or not spec.submodule_search_locations:
        raise missing_package("the demo", "pymicro-wakeword", "demo")
    models = Path(spec.submodule_search_locations[0]) / "models"
    return {path.stem: path for path in sorted(models.glob("*.tflite"))}


def read_tensors(path: Path) -> list[QuantizedTensor]:
    """
    All quantized tensors of a model, those of all its subgraphs, in the order of the
    file.

    Raises:
        ValueError: if a tensor is stored as something else than 8, 16 or 32 bits.
    """
    model = _load(path)
    tensors: list[QuantizedTensor] = []
    for tensor in _tensors(model):
        quantization = tensor.Quantization()
        if quantization is None or not quantization.ScaleLength():
            continue
        data = model.Buffers(tensor.Buffer())
        tensors.append(_quantized_tensor(tensor, quantization, data, len(tensors)))
    return tensors


def _tensors(model: _Model) -> Iterator[_Tensor]:
    for i in range(model.SubgraphsLength()):
        subgraph = model.Subgraphs(i)
        for j in range(subgraph.TensorsLength()):
            yield subgraph.Tensors(j)


def _quantized_tensor(
    tensor: _Tensor, quantization: _Quantization, data: _Buffer, seed: int
) -> QuantizedTensor:
    name = tensor.Name().decode()
    if (dtype := _DTYPES.get(tensor.Type())) is None:
        raise ValueError(f"{name}: no quantized type has the storage of this tensor")
    shape = [tensor.Shape(i) for i in range(tensor.ShapeLength())]
    is_constant = data.DataLength() > 0
    stored: Stored = (
        data.DataAsNumpy().view(dtype).reshape(shape)
        if is_constant
        else _random_values(dtype, shape, seed)
    )
    scales = quantization.ScaleAsNumpy()
    return QuantizedTensor(
        name,
        stored,
        scales,
        quantization.ZeroPointAsNumpy(),
        quantization.QuantizedDimension() if len(scales) > 1 else None,
        is_constant,
    )


def _random_values(dtype: np.dtype[Any], shape: list[int], seed: int) -> Stored:
    """
    Values from the whole range of an 8 or 16 bit type, the same ones for the same seed.
    """
    limits = np.iinfo(dtype)
    values = np.random.default_rng(seed).integers(
        limits.min, limits.max, math.prod(shape), dtype, endpoint=True
    )
    return values.reshape(shape)
