"""
How expressed values become stored ones: a pass option, an argument of a NumPy function and
an argument of the compiler have the same names with the same meaning.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Self, TypeVar, get_args

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


class RepresentedNumbers(NamedTuple):
    """The numbers that stored values stand for, as far as the compute type needs them."""

    low: float
    """The smallest number."""

    high: float
    """The largest number."""

    unit: float = 1
    """A power of two of which all numbers are multiples."""

    precision: int = 0
    """The bits of the significand that the number with the most of them needs."""

    @classmethod
    def integers(cls, storage_range: tuple[int, int]) -> Self:
        """All integers of a storage range."""
        low, high = storage_range
        # The largest one may be a power of two.
        return cls(low, high, precision=(max(-low, high) - 1).bit_length())


class FloatProperties(NamedTuple):
    """What decides whether casts can be computed in a float type."""

    width: int
    """The number of bits."""

    precision: int
    """Bits of the significand, the leading one included."""

    smallest: float
    """The smallest positive number."""

    largest: float
    """The largest finite number."""

    def is_wide_enough(
        self, numbers: RepresentedNumbers, zero_point_range: tuple[int, int]
    ) -> bool:
        """
        Whether stored numbers and zero points are exact: see
        [`compute_type`][xdsl_quant.rounding_mode.compute_type].
        """
        if self.width < 16 or numbers.unit < self.smallest:
            return False
        low, high, unit, precision = numbers
        if zero_point_range == (0, 0):
            return precision <= self.precision and max(-low, high) <= self.largest
        first, last = zero_point_range
        largest = max(map(abs, (low, high, first, last, low - last, high - first)))
        # Twice the bits of fractions that halves need.
        is_exact = largest <= unit * (1 << (self.precision - 2))
        return is_exact and largest <= self.largest


def compute_type(
    mode: RoundingMode,
    types: Sequence[FloatType],
    properties: Callable[[FloatType], FloatProperties],
    numbers: RepresentedNumbers,
    zero_point_range: tuple[int, int],
) -> FloatType:
    """
    The float type that a cast computes in: `truncate` computes in the expressed type as
    MLIR does, the other modes in the first type that is wide enough.

    A type is wide enough if the numbers of all stored values, zero points and their
    differences are exact in it, and the halves between them, too, where a zero point is
    added. Types of less than 16 bits are not: what is too large in them is often not
    infinite but NaN.

    Args:
        mode: how the cast rounds.
        types: the expressed type, then wider and wider ones; the last one is taken if no
            other one is wide enough.
        properties: what is known of a type.
        numbers: the numbers that stored values stand for.
        zero_point_range: the smallest and the largest zero point.
    """
    if mode == "truncate":
        return types[0]
    for type_ in types[:-1]:
        if properties(type_).is_wide_enough(numbers, zero_point_range):
            return type_
    return types[-1]
