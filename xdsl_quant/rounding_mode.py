"""Rounding options of passes, NumPy functions and the compiler."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Self, TypedDict, TypeVar, get_args

RoundingMode = Literal["truncate", "nearest-even", "nearest-away"]
"""Rounding of a quotient: toward zero, half to even, or half away from zero."""

ZeroPointOrder = Literal["before-rounding", "after-rounding"]
"""Order in which the zero point is added: to the quotient before or after rounding."""

NanResult = Literal["storage-min", "stored-zero"]
"""Stored value of NaN: the storage minimum, or 0 clamped to the storage range."""

ScaleRounding = Literal["single", "double"]
"""Rounding of a fixed-point product when it is shifted right: see `apply_scale`."""


class RoundingArguments(TypedDict):
    """The fields of `Rounding` as keyword arguments."""

    rounding_mode: RoundingMode
    zero_point_order: ZeroPointOrder
    nan: NanResult


class Rounding(NamedTuple):
    """Rounding of expressed values to stored values."""

    mode: RoundingMode = "nearest-even"
    zero_point_order: ZeroPointOrder = "before-rounding"
    nan: NanResult = "storage-min"

    def arguments(self) -> RoundingArguments:
        """Return keyword arguments for functions such as `quantize` and `compile`."""
        mode, order, nan = self
        return {"rounding_mode": mode, "zero_point_order": order, "nan": nan}

    def error_message(self) -> str | None:
        """Return a message if options are unknown or contradictory, otherwise `None`."""
        for name, value, literal in (
            ("rounding mode", self.mode, RoundingMode),
            ("zero point order", self.zero_point_order, ZeroPointOrder),
            ("nan", self.nan, NanResult),
        ):
            if value not in (choices := get_args(literal)):
                listed = ", ".join(map(repr, choices))
                return f"unknown {name} {value!r}, available: {listed}"
        if self.mode == "truncate" and self.zero_point_order == "after-rounding":
            return (
                "unsupported zero point order 'after-rounding' for rounding mode "
                "'truncate'; use 'nearest-even' or 'nearest-away'"
            )
        return None

    def unsupported(
        self, storage: str, is_integer: bool, has_zero_points: bool
    ) -> str | None:
        """
        Return an error message if a storage type does not support these options, otherwise
        `None`. Floats and tables only round to the nearest representable number.

        Args:
            storage: the name of the storage type.
            is_integer: True if stored values are integers, not bit patterns of floats or
                table indices.
            has_zero_points: True if any zero point is not 0.
        """
        if is_integer:
            return None
        if self.mode != "nearest-even":
            return (
                f"unsupported rounding mode '{self.mode}' for storage type '{storage}'; "
                "use 'nearest-even'"
            )
        if has_zero_points and self.zero_point_order == "after-rounding":
            return (
                f"unsupported zero point order '{self.zero_point_order}' for storage type "
                f"'{storage}'; use 'before-rounding'"
            )
        return None


FloatType = TypeVar("FloatType")
"""An xDSL float type, or a NumPy dtype."""


def largest_integer(
    storage_range: tuple[int, int], zero_point_range: tuple[int, int]
) -> int:
    """
    Return the largest absolute value among stored values, zero points and
    zero-point-corrected values.

    Args:
        storage_range: the smallest and the largest stored value.
        zero_point_range: the smallest and the largest zero point.
    """
    (low, high), (first, last) = storage_range, zero_point_range
    return max(map(abs, (low, high, first, last, low - last, high - first)))


class RepresentedNumbers(NamedTuple):
    """Bounds, unit and precision of the unscaled numbers that stored values encode."""

    low: float

    high: float

    unit: float = 1
    """A power of two; all numbers are multiples of it."""

    precision: int = 0
    """Number of significand bits that suffices for every number."""

    @classmethod
    def integers(cls, storage_range: tuple[int, int]) -> Self:
        """Return the bounds, unit and precision of the integers in a storage range."""
        low, high = storage_range
        # A largest magnitude of 2**n has a one-bit significand; all others fit n bits.
        return cls(low, high, precision=(max(-low, high) - 1).bit_length())


class FloatProperties(NamedTuple):
    """Properties of a float type that decide if a cast can compute in it."""

    width: int
    """Number of bits."""

    precision: int
    """Number of significand bits, the leading one included."""

    smallest: float
    """Smallest positive number, subnormal if the type has subnormals."""

    largest: float

    def is_wide_enough(
        self, numbers: RepresentedNumbers, zero_point_range: tuple[int, int]
    ) -> bool:
        """Return True if the type is wide enough, as defined by `compute_type`."""
        if self.width < 16 or numbers.unit < self.smallest:
            return False
        low, high, unit, precision = numbers
        if zero_point_range == (0, 0):
            return precision <= self.precision and max(-low, high) <= self.largest
        first, last = zero_point_range
        largest = max(map(abs, (low, high, first, last, low - last, high - first)))
        # Require two fraction bits, although midpoints (halves of `unit`) need only one.
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
    Return the float type in which a cast computes: for `truncate` the expressed type, as in
    MLIR; for other modes the first type that is wide enough.

    A type is wide enough if it has at least 16 bits and exactly represents the numbers of
    all stored values, zero points and zero-point-corrected values. If any zero point is not
    0, midpoints between numbers must be exact, too. Narrower types often overflow to NaN.

    Args:
        mode: the rounding mode of the cast.
        types: the expressed type, then wider ones in ascending order; the last one is the
            fallback.
        properties: a function that returns the properties of a type.
        numbers: the numbers that stored values represent.
        zero_point_range: the smallest and the largest zero point.
    """
    if mode == "truncate":
        return types[0]
    for type_ in types[:-1]:
        if properties(type_).is_wide_enough(numbers, zero_point_range):
            return type_
    return types[-1]
