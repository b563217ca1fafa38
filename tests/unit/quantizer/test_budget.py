"""What a search for bits may spend."""

import math
from typing import Any

import pytest

from xdsl_quant.quantizer.recipe import Budget, parse_budget


@pytest.mark.parametrize(
    ("text", "expected", "words"),
    [
        ("1000 B", Budget(1000, "bytes"), "1000 bytes"),
        ("20kB", Budget(20000, "bytes"), "20000 bytes"),
        (" .5 KiB ", Budget(512, "bytes"), "512 bytes"),
        ("1.5 MiB", Budget(1572864, "bytes"), "1572864 bytes"),
        ("2 GB", Budget(2e9, "bytes"), "2000000000 bytes"),
        ("1 dB", Budget(1, "dB"), "1 dB lost"),
        ("0. dB", Budget(0, "dB"), "0 dB lost"),
        ("0.5 %", Budget(0.5, "points"), "0.5 points of accuracy lost"),
    ],
)
def test_budgets(text: str, expected: Budget, words: str):
    assert parse_budget(text) == expected
    assert str(expected) == words


@pytest.mark.parametrize("text", ["", "20", "-1 dB", "1 db", "1 kb", "nan dB", "1 2 B"])
def test_what_is_no_budget(text: str):
    with pytest.raises(ValueError, match="expected a budget, found") as caught:
        parse_budget(text)
    assert str(caught.value) == (
        f"expected a budget, found '{text}'; write bytes such as '20 kB', a loss of SQNR "
        "such as '1 dB', or a loss of accuracy in points such as '0.5 %'"
    )


@pytest.mark.parametrize("amount", [-1.0, math.nan])
def test_a_budget_is_not_negative(amount: float):
    with pytest.raises(
        ValueError, match=f"^expected a budget of 0 or more, found {amount}$"
    ):
        Budget(amount, "bytes")


def test_units_of_budgets():
    unit: Any = "db"
    with pytest.raises(ValueError, match="unknown budget unit") as caught:
        Budget(1, unit)
    assert str(caught.value) == (
        "unknown budget unit 'db', available: 'bytes', 'dB', 'points'"
    )
