"""
How expressed values become stored ones: a pass option, an argument of a NumPy function and
an argument of the compiler have the same names with the same meaning.
"""

from typing import Literal, NamedTuple, get_args

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
