"""
Base classes of runtimes, and NumPy implementations of quantization as specifications
define it. These implementations share no formulas with `numerics`.

They round each operation to the expressed type, and return NaN for undefined results.
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
    """Raised when a runtime cannot compute, e.g. for an unsupported type."""


class Runtime(ABC):
    """
    A per-tensor implementation of quantization and dequantization.

    Quantization results are integers, or floats with integer values and NaN for
    undefined results.
    """

    name: str
    """Name in tables and options."""

    package: ClassVar[str] = ""
    """Package of the runtime; empty if it needs none."""

    modules: ClassVar[Sequence[str]] = ()
    """Python modules that the runtime needs. A separate process imports them."""

    only_quantizes: ClassVar[bool] = False
    """True if the runtime has no dequantization."""

    def missing(self) -> str:
        """Return a message about a missing package; empty if all are installed."""
        for module in self.modules:
            if find_spec(module) is None:
                is_own = self.package and module == self.modules[0]
                return f"{self.package if is_own else module} is not installed"
        return ""

    def version(self) -> str:
        """Return the name and version of the package; empty if none is needed."""
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
        Quantize expressed values, or dequantize stored values (result: any float type).

        Raises:
            Unavailable: if the runtime cannot compute this cast.
        """


def cast_types(
    parameters: QuantizationParameters, op: str, size: int | str = "?"
) -> tuple[str, str]:
    """Return the operand type and the result type of a cast, as text."""
    floats = f"tensor<{size}x{parameters.expressed}>"
    quantized = f"tensor<{size}x{uniform_type(parameters)}>"
    return (floats, quantized) if op == "quantize" else (quantized, floats)


class Library(Runtime):
    """A runtime that runs in a process of its own."""


def _scale_and_zero_point(parameters: QuantizationParameters) -> tuple[Array, Array]:
    dtype = parameters.expressed_dtype
    return parameters.scales.astype(dtype), parameters.zero_points.astype(dtype)


class OnnxDefinition(Runtime):
    """
    ONNX's [QuantizeLinear](https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html):
    `saturate(round_half_to_even(x / y_scale) + y_zero_point)`, which saturates to the
    full storage type and is undefined for NaN; and
    [DequantizeLinear](https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html): `(x
    - x_zero_point) * x_scale`.
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
            raise Unavailable(f"unsupported storage type '{parameters.storage}'")
        bounds = storage_range(parameters.storage)
        return np.clip(rounded + parameters.zero_points, *bounds)


class StableHLODefinition(Runtime):
    """
    StableHLO's [uniform_quantize](https://openxla.org/stablehlo/spec#uniform_quantize):
    `round_half_to_even(clamp(storage_min, x / scale + zero_point, storage_max))`; and
    [uniform_dequantize](https://openxla.org/stablehlo/spec#uniform_dequantize): `(x -
    zero_point) * scale`. Results are undefined for NaN. Results out of range are undefined
    if a bound of the storage range is not representable in the expressed type.
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
        # Bounds are rounded to the expressed type.
        low, high = np.array([parameters.storage_min, parameters.storage_max]).astype(
            parameters.expressed_dtype
        )
        rounded = np.rint(np.clip(shifted, float(low), float(high)))
        first, last = storage_range(parameters.storage)
        return np.where((rounded < first) | (rounded > last), np.nan, rounded)
