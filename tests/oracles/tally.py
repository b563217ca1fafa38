"""What comparisons of an op count."""

from dataclasses import dataclass, field


@dataclass
class Tally:
    """The comparisons of an op with one kind of operands."""

    op: str
    kind: str

    draws: int = 0
    """Models that the reference kernels ran."""

    compiled: int = 0
    """Those of them that were compiled, too."""

    tosa: int = 0
    """Those that MLIR ran as TOSA, too."""

    values: int = 0
    """Elements of results."""

    ends: int = 0
    """Those of them that are the smallest or largest of what the result can be."""

    mismatches: list[str] = field(default_factory=list[str])
    """What differs, with the names of models."""

    refused: list[str] = field(default_factory=list[str])
    """Why models were not run by the reference kernels, with their names."""
