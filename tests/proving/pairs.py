"""Choices of several options such that each pair of two values occurs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations, product
from random import Random
from typing import Any

Choice = Mapping[str, Any]


def all_pairs(
    options: Mapping[str, Sequence[Any]],
    is_valid: Callable[[Choice], bool] = lambda _: True,
    *,
    tries: int = 200,
) -> list[Choice]:
    """
    Choices with each pair of values of two options that any valid choice has.

    Args:
        options: the values of each.
        is_valid: whether values go together.
        tries: how many choices are compared for each that is taken.
    """
    random = Random(0)
    names = [*options]
    everything = [
        choice
        for values in product(*options.values())
        if is_valid(choice := dict(zip(names, values, strict=True)))
    ]
    missing = {pair for choice in everything for pair in _pairs(choice)}
    taken: list[Choice] = []
    while missing:
        some = random.sample(everything, min(tries, len(everything)))
        first = next(iter(sorted(missing, key=repr)))
        some += [c for c in everything if first in _pairs(c)][:tries]
        best = max(some, key=lambda choice: len(missing & _pairs(choice)))
        missing -= _pairs(best)
        taken.append(best)
    return taken


def _pairs(choice: Choice) -> set[tuple[tuple[str, Any], tuple[str, Any]]]:
    return {*combinations(choice.items(), 2)}
