"""Counts of the comparisons of an op."""

from dataclasses import dataclass, field


@dataclass
class Tally:
    """The comparisons of an op with one kind of operands."""

    op: str
    kind: str

    draws: int = 0
    """Models that the reference kernels ran."""

    compiled: int = 0
    """Models that were also compiled."""

    tosa: int = 0
    """Models that MLIR also ran as TOSA."""

    values: int = 0
    """Elements of results."""

    ends: int = 0
    """Elements that are the smallest or largest number that the result can hold."""

    mismatches: list[str] = field(default_factory=list[str])
    """Differences, each with the name of its model."""

    refused: list[str] = field(default_factory=list[str])
    """Reasons why the reference kernels did not run a model, each with its name."""
