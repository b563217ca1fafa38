"""
How expressed values become stored ones: a pass option, an argument of a NumPy function and
an argument of the compiler have the same names with the same meaning.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar, get_args

RoundingMode = Literal["truncate", "nearest-even", "nearest-away"]
"""How an expressed value between two stored ones is rounded."""

ZeroPointOrder = Literal["before-rounding", "after-rounding"]
"""
Whether the zero point is added to the quotient of expressed value and scale, or to the
integer that this is rounded to.
"""

NanResult = Literal["storage-min", "stored-zero"]
"""
The stored value that NaN becomes: the smallest one, or 0, clamped to the storage range.
"""

ScaleRounding = Literal["single", "double"]
"""How the product of an integer with a multiplier is rounded when it is shifted."""


class Rounding(NamedTuple):
    """All that says which stored value an expressed value becomes."""

    mode: RoundingMode = "nearest-even"
    zero_point_order: ZeroPointOrder = "before-rounding"
    nan: NanResult = "storage-min"

    def mistake(self) -> str | None:
        """Why there is no such rounding; `None` if there is."""
        for name, value, literal in (
            ("rounding mode", self.mode, RoundingMode),
            ("zero point order", self.zero_point_order, ZeroPointOrder),
            ("nan", self.nan, NanResult),
        ):
            if value not in (known := get_args(literal)):
                listed = ", ".join(map(repr, known))
                return f"{name} is one of {listed}, but {value!r} was given"
        if self.mode == "truncate" and self.zero_point_order == "after-rounding":
            return (
                "zero point order 'after-rounding' needs rounding to nearest, but the "
                "rounding mode is 'truncate'; use 'nearest-even' or 'nearest-away'"
            )
        return None

    def unsupported(
        self, storage: str, is_integer: bool, has_zero_points: bool
    ) -> str | None:
        """
        Why a storage type has no such rounding; `None` if it has. What is stored for floats
        and for tables is the nearest number, not one that is rounded to an integer.

        Args:
            storage: the name of the storage type.
            is_integer: whether stored values are integers that stand for themselves.
            has_zero_points: whether any zero point is not 0.
        """
        if is_integer:
            return None
        if self.mode != "nearest-even":
            return (
                f"unsupported rounding mode '{self.mode}' for storage type '{storage}', "
                "use 'nearest-even'"
            )
        if has_zero_points and self.zero_point_order == "after-rounding":
            return (
                f"unsupported zero point order '{self.zero_point_order}' for storage type "
                f"'{storage}', use 'before-rounding'"
            )
        return None


FloatType = TypeVar("FloatType")
"""A float type of xDSL, or a dtype of NumPy."""


def largest_integer(
    storage_range: tuple[int, int], zero_point_range: tuple[int, int]
) -> int:
    """
    The largest absolute value among stored values, zero points and their differences.

    Args:
        storage_range: the smallest and the largest stored value.
        zero_point_range: the smallest and the largest zero point.
    """
    (low, high), (first, last) = storage_range, zero_point_range
    return max(map(abs, (low, high, first, last, low - last, high - first)))


def compute_type(
    mode: RoundingMode,
    types: Sequence[FloatType],
    width_and_precision: Callable[[FloatType], tuple[int, int]],
    storage_range: tuple[int, int],
    zero_point_range: tuple[int, int],
) -> FloatType:
    """
    The float type that a cast computes in: `truncate` computes in the expressed type as
    MLIR does, the other modes in the first type that is wide enough.

    A type is wide enough if all stored values, zero points and their differences are exact
    in it, and the halves between them, too, where a zero point is added. Types of less
    than 16 bits are not: what is too large in them is often not infinite but NaN.

    Args:
        mode: how the cast rounds.
        types: the expressed type, then wider and wider ones; the last one is wide enough.
        width_and_precision: the number of bits of a type and of its significand.
        storage_range: the smallest and the largest stored value.
        zero_point_range: the smallest and the largest zero point.
    """
    if mode == "truncate":
        return types[0]
    largest = largest_integer(storage_range, zero_point_range)
    fraction_bits = 0 if zero_point_range == (0, 0) else 2
    for type_ in types[:-1]:
        width, precision = width_and_precision(type_)
        if width >= 16 and largest <= 1 << (precision - fraction_bits):
            return type_
    return types[-1]
