"""What a search for bits may spend: bytes, signal to noise ratio, or accuracy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from xdsl_quant.runtime.toml_tables import quoted

BudgetUnit: TypeAlias = Literal["bytes", "dB", "points"]

_BYTES: Mapping[str, int] = {
    "B": 1,
    "kB": 1000,
    "KiB": 1024,
    "MB": 1000**2,
    "MiB": 1024**2,
    "GB": 1000**3,
    "GiB": 1024**3,
}
_UNITS: Mapping[str, BudgetUnit] = {"dB": "dB", "%": "points"}
_BUDGET = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(\S+)")


@dataclass(frozen=True)
class Budget:
    """How much may be spent."""

    amount: float
    """
    The size of constants in bytes, or how much may be lost compared with the widest
    assignment: dB of the signal to quantization noise ratio, or percentage points of
    accuracy.
    """

    unit: BudgetUnit

    def __post_init__(self) -> None:
        """
        Raises:
            ValueError: if the amount is negative or NaN, or the unit is unknown.
        """
        if not self.amount >= 0:
            raise ValueError(f"expected a budget of 0 or more, found {self.amount}")
        if self.unit not in (units := get_args(BudgetUnit)):
            raise ValueError(
                f"unknown unit of a budget '{self.unit}', available: {quoted(units)}"
            )

    def __str__(self) -> str:
        """The budget in words."""
        amount = f"{self.amount:g}"
        if self.unit == "bytes":
            return f"{self.amount:.0f} bytes"
        return f"{amount} {'dB' if self.unit == 'dB' else 'points of accuracy'} lost"


def parse_budget(text: str) -> Budget:
    """
    The budget that a text such as `20 kB`, `1.5 dB` or `0.5 %` says.

    Raises:
        ValueError: if it says none.
    """
    found = _BUDGET.fullmatch(text.strip())
    if found is not None and (factor := _BYTES.get(found[2])) is not None:
        return Budget(float(found[1]) * factor, "bytes")
    if found is not None and (unit := _UNITS.get(found[2])) is not None:
        return Budget(float(found[1]), unit)
    raise ValueError(
        f"expected a budget, found '{text}'; write bytes such as '20 kB', a loss of SQNR "
        "such as '1 dB', or a loss of accuracy in points such as '0.5 %'"
    )
