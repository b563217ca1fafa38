"""Models of one op with the integers that the reference kernels compute for them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.frontends.tflite.formulas.quantized import Quantized
from xdsl_quant.numerics import QuantizationParameters

_STORAGE = {"INT4": "i4", "INT8": "i8", "UINT8": "u8", "INT16": "i16", "INT32": "i32"}
_FLOAT_OR_BOOL = {"FLOAT32": np.float32, "BOOL": np.bool_}


class Tensor(NamedTuple):
    """An operand or a result."""

    type: str
    array: NDArray[Any]
    scales: list[float]
    zero_points: list[int]
    axis: int | None
    is_constant: bool
    is_variable: bool

    @property
    def parameters(self) -> QuantizationParameters:
        return QuantizationParameters(
            self.scales if self.axis is not None else self.scales[0],
            self.zero_points if self.axis is not None else self.zero_points[0],
            storage=_STORAGE[self.type],
            quantized_dimension=self.axis,
        )

    @property
    def quantized(self) -> Quantized:
        return Quantized(self.array, self.parameters)


class Case(NamedTuple):
    """A model of one op."""

    name: str
    op: str
    options: dict[str, Any]
    operands: list[Tensor | None]
    results: list[Tensor]
    intermediates: Sequence[Tensor] = ()
    """Tensors of which the kernel takes nothing but the parameters."""


def _tensor(data: dict[str, Any] | None) -> Tensor | None:
    if data is None:
        return None
    dtype = _FLOAT_OR_BOOL.get(data["type"], np.int64)
    scales = data.get("scale", [])
    has_axis = len(scales) > 1 or data.get("axis") is not None
    values = data.get("data", np.zeros(data["shape"]))
    return Tensor(
        data["type"],
        np.array(values, dtype).reshape(data["shape"]),
        scales,
        data.get("zero_point", []),
        data.get("axis", 0) if has_axis and scales else None,
        bool(data.get("const")),
        bool(data.get("variable")),
    )


@cache
def cases() -> tuple[Case, ...]:
    """All of them."""
    path = Path(__file__).with_name("tflite_kernels.json.gz")
    with gzip.open(path) as file:
        data = json.load(file)
    return tuple(
        Case(
            case["name"],
            case["op"],
            case["options"],
            [_tensor(tensor) for tensor in case["inputs"]],
            [tensor for data in case["outputs"] if (tensor := _tensor(data))],
        )
        for case in data["cases"]
    )
