"""
Runtimes, and quantization as specifications define it, with NumPy; nothing here is shared
with `numerics`.

In the definitions, each operation rounds to the expressed type. What a specification does
not say is NaN.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from xdsl_quant.dialects.quant.types import uniform_type
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.numerics.parameters import storage_range

CastKind: TypeAlias = Literal["quantize", "dequantize"]


class Unavailable(Exception):
    """Why a runtime computes nothing, e.g. because it does not know a type."""


class Runtime(ABC):
    """
    Something that quantizes and dequantizes, per-tensor.

    Results are integers, or floats that are integers with NaN where it does not say what
    they are.
    """

    name: str
    """The name in tables and options."""

    package: ClassVar[str] = ""
    """The package that it is; empty if it needs none."""

    modules: ClassVar[Sequence[str]] = ()
    """What it imports, in a process of its own."""

    only_quantizes: ClassVar[bool] = False
    """Whether it has no dequantization."""

    def missing(self) -> str:
        """Which package is not installed; empty if none is missing."""
        for module in self.modules:
            if find_spec(module) is None:
                is_own = self.package and module == self.modules[0]
                return f"{self.package if is_own else module} is not installed"
        return ""

    def version(self) -> str:
        """The version of its package; empty if it needs none."""
        if not self.package:
            return ""
        try:
            return f"{self.package} {version(self.package)}"
        except PackageNotFoundError:
            return self.package

    @abstractmethod
    def run(
        self, op: CastKind, parameters: QuantizationParameters, values: Array
    ) -> Array:
        """
        Return the stored values of expressed ones, or the expressed values of stored ones
        as floats of any type.

        Raises:
            Unavailable: if it cannot.
        """


def cast_types(
    parameters: QuantizationParameters, op: str, size: int | str = "?"
) -> tuple[str, str]:
    """Return the texts of the types of the operand and the result of a cast."""
    floats = f"tensor<{size}x{parameters.expressed}>"
    quantized = f"tensor<{size}x{uniform_type(parameters)}>"
    return (floats, quantized) if op == "quantize" else (quantized, floats)


class Library(Runtime):
    """A runtime that is called in a process of its own."""


def _scale_and_zero_point(parameters: QuantizationParameters) -> tuple[Array, Array]:
    """Both as numbers of the expressed type."""
    dtype = parameters.expressed_dtype
    return parameters.scales.astype(dtype), parameters.zero_points.astype(dtype)


class OnnxDefinition(Runtime):
    """
    ONNX's [QuantizeLinear](https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html):
    `saturate(round_half_to_even(x / y_scale) + y_zero_point)`, which saturates to the whole
    storage type and does not say what NaN becomes; and
    [DequantizeLinear](https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html):
    `(x - x_zero_point) * x_scale`.
    """

    name = "onnx-definition"

    def run(
        self, op: CastKind, parameters: QuantizationParameters, values: Array
    ) -> Array:
        scale, _ = _scale_and_zero_point(parameters)
        if op == "dequantize":
            difference = values.astype(np.int64) - parameters.zero_points
            with np.errstate(all="ignore"):
                return difference.astype(parameters.expressed_dtype) * scale
        with np.errstate(all="ignore"):
            rounded = np.rint((values / scale).astype(np.float64))
        if parameters.storage_width > 16:
            raise Unavailable(f"no storage type '{parameters.storage}'")
        bounds = storage_range(parameters.storage)
        return np.clip(rounded + parameters.zero_points, *bounds)


class StableHLODefinition(Runtime):
    """
    StableHLO's [uniform_quantize](https://openxla.org/stablehlo/spec#uniform_quantize):
    `round_half_to_even(clamp(storage_min, x / scale + zero_point, storage_max))`; and
    [uniform_dequantize](https://openxla.org/stablehlo/spec#uniform_dequantize):
    `(x - zero_point) * scale`. It does not say what NaN becomes, nor what does not fit the
    storage type because a bound of it is no number of the expressed type.
    """

    name = "stablehlo-definition"

    def run(
        self, op: CastKind, parameters: QuantizationParameters, values: Array
    ) -> Array:
        if op == "dequantize":
            return OnnxDefinition().run(op, parameters, values)
        scale, zero_point = _scale_and_zero_point(parameters)
        with np.errstate(all="ignore"):
            shifted = (values / scale + zero_point).astype(np.float64)
        # Bounds are floats of the expressed type, too.
        low, high = np.array([parameters.storage_min, parameters.storage_max]).astype(
            parameters.expressed_dtype
        )
        rounded = np.rint(np.clip(shifted, float(low), float(high)))
        first, last = storage_range(parameters.storage)
        return np.where((rounded < first) | (rounded > last), np.nan, rounded)
