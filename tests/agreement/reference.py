"""What quantization means, written down once more and independently, with NumPy."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

DTYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
SIGNIFICANT_BITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}


@dataclass(frozen=True)
class Storage:
    """A storage type with its range, e.g. `i8<-8:7>`."""

    name: str
    low: int
    high: int

    @property
    def is_signed(self) -> bool:
        return self.name.startswith("i")

    @property
    def width(self) -> int:
        return int(self.name[1:])


def compute_type(expressed: str, storage: Storage, zero_points: NDArray[Any]) -> str:
    """
    The first of the expressed type, f32 and f64 that holds every stored value, every zero
    point and their differences, and quarters of them if there is anything to add.
    """
    integers = [storage.low, storage.high, *map(int, zero_points.flat)]
    integers += [storage.low - int(zero_points.max())]
    integers += [storage.high - int(zero_points.min())]
    steps = 4 if np.any(zero_points) else 1
    for name in (expressed, "f32"):
        if max(map(abs, integers)) * steps <= 2 ** SIGNIFICANT_BITS[name]:
            return name
    return "f64"


def quantize(
    values: NDArray[Any],
    scales: NDArray[Any],
    zero_points: NDArray[Any],
    expressed: str,
    storage: Storage,
    rounding_mode: str,
    zero_point_order: str = "before-rounding",
    nan: str = "storage-min",
) -> NDArray[np.int64]:
    """
    Stored values. `scales` and `zero_points` have the shape of `values` or broadcast to
    it. With `truncate` the result is right only where nothing is out of range.
    """
    is_added_last = zero_point_order == "after-rounding"
    truncate = rounding_mode == "truncate"
    compute = expressed if truncate else compute_type(expressed, storage, zero_points)
    dtype = DTYPES[compute]
    with np.errstate(all="ignore"):
        scaled = values.astype(dtype) / scales.astype(DTYPES[expressed]).astype(dtype)
        if np.any(zero_points) and not is_added_last:
            scaled = scaled + zero_points.astype(dtype)
        wide = scaled.astype(np.float64)
        if truncate:
            rounded = np.trunc(wide)
        elif rounding_mode == "nearest-even":
            rounded = np.rint(wide)
        else:
            rounded = np.where(
                np.abs(wide - np.trunc(wide)) >= 0.5,
                np.trunc(wide) + np.sign(wide),
                np.trunc(wide),
            )
        if is_added_last:
            rounded = rounded + zero_points
        if nan == "stored-zero":
            rounded = np.where(np.isnan(rounded), 0.0, rounded)
        # NaN compares false, so it becomes the smallest stored value.
        clamped = np.where(rounded > storage.low, rounded, storage.low)
        clamped = np.where(clamped < storage.high, clamped, storage.high)
    return clamped.astype(np.int64)


def is_convertible(
    values: NDArray[Any],
    scales: NDArray[Any],
    zero_points: NDArray[Any],
    expressed: str,
    storage: Storage,
) -> NDArray[np.bool_]:
    """Where truncation has a defined result: the number fits the whole storage type."""
    dtype = DTYPES[expressed]
    with np.errstate(all="ignore"):
        scaled = values.astype(dtype) / scales.astype(dtype)
        scaled = (scaled + zero_points.astype(dtype)).astype(np.float64)
        lowest = -(2 ** (storage.width - 1)) if storage.is_signed else 0
        highest = 2 ** (storage.width - storage.is_signed) - 1
        return (np.trunc(scaled) >= lowest) & (np.trunc(scaled) <= highest)


def dequantize(
    stored: NDArray[np.int64],
    scales: NDArray[Any],
    zero_points: NDArray[Any],
    expressed: str,
    storage: Storage,
    rounding_mode: str,
) -> NDArray[Any]:
    """Expressed values, in the NumPy type of `expressed`."""
    truncate = rounding_mode == "truncate"
    compute = expressed if truncate else compute_type(expressed, storage, zero_points)
    dtype = DTYPES[compute]
    with np.errstate(all="ignore"):
        difference = stored.astype(dtype) - zero_points.astype(dtype)
        scale = scales.astype(DTYPES[expressed]).astype(dtype)
        return rounded(difference * scale, expressed)


def rounded(values: NDArray[Any], expressed: str) -> NDArray[Any]:
    """Values in another type, rounded once."""
    # By itself f64 becomes bf16 by way of f32, which is to round twice.
    if expressed == "bf16" and values.dtype == np.float64:
        _, exponents = np.frexp(values)
        steps = np.ldexp(1.0, np.maximum(exponents - SIGNIFICANT_BITS["bf16"], -133))
        values = np.rint(values / steps) * steps
    return values.astype(DTYPES[expressed])


def edge_values(scale: float, zero_point: int, storage: Storage) -> list[float]:
    """Values at which a quantization goes wrong, if it goes wrong anywhere."""
    scale_fraction = Fraction(scale)
    stored = {
        storage.low - 1,
        storage.low,
        storage.low + 1,
        zero_point - 1,
        zero_point,
        zero_point + 1,
        storage.high - 1,
        storage.high,
        storage.high + 1,
    }
    values: list[float] = []
    for integer in sorted(stored):
        for offset in (Fraction(-1, 2), Fraction(0), Fraction(1, 3), Fraction(1, 2)):
            exact = float((integer - zero_point + offset) * scale_fraction)
            values += [np.nextafter(exact, -np.inf), exact, np.nextafter(exact, np.inf)]
    values += [0.0, -0.0, 5e-324, -5e-324, 1e-40, -1e-40, 6e-8, 1.0, -1.0]
    values += [3e38, -3e38, 65504.0, -65504.0, 1e5, 2.0**31, -(2.0**31), 2.0**32, 1e300]
    return [*values, float("inf"), float("-inf"), float("nan")]
