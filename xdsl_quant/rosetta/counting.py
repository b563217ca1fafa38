"""Counts for how many inputs results differ."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.numerics.arrays import Array

from .comparison import Difference, Match, Row, RuntimeComparison
from .runtimes import Unavailable

Numbers = NDArray[np.float64]

InputsT = TypeVar("InputsT")
"""What computations take."""


@dataclass(frozen=True)
class RuntimeRun(Generic[InputsT]):
    """What a runtime does with inputs."""

    name: str
    """The name of the runtime."""

    run: Callable[[InputsT], Array]
    """The results, one for each input; it may raise `Unavailable`."""

    version: str = ""
    """The version of its package."""

    options: Mapping[str, str] | None = None
    """The options of compiled code; `None` for other runtimes."""

    missing: str = ""
    """Which package is not installed."""


@dataclass(frozen=True)
class InputLabels:
    """What inputs are called, and which one is first."""

    numbers: Numbers
    """The one with the smallest magnitude is the first; NaN is counted apart."""

    text: Callable[[int], str]
    """The text of the input with an index."""


@dataclass
class _Count:
    """For how many inputs two runtimes differ."""

    numbers: int = 0
    nans: int = 0
    first: tuple[tuple[float, bool], Difference] | None = None
    """The difference at the smallest magnitude, after this magnitude and sign."""

    def add(self, labels: InputLabels, found: Numbers, expected: Numbers) -> None:
        """Count where results differ; what is not defined does not."""
        # Of all floats most are out of range, where most results are equal.
        if np.array_equal(found, expected):
            return
        differ = (found != expected) & ~np.isnan(found) & ~np.isnan(expected)
        is_nan = np.isnan(labels.numbers)
        self.nans += int(np.count_nonzero(differ & is_nan))
        places = np.flatnonzero(differ & ~is_nan)
        if not places.size:
            return
        self.numbers += places.size
        numbers = labels.numbers[places]
        place = np.lexsort((np.signbit(numbers), np.abs(numbers)))[0]
        key = float(abs(numbers[place])), bool(np.signbit(numbers[place]))
        if self.first is None or key < self.first[0]:
            index = int(places[place])
            results = (_result_text(float(each[index])) for each in (found, expected))
            self.first = key, Difference(labels.text(index), *results)

    @property
    def difference(self) -> Difference | None:
        """The first difference."""
        return None if self.first is None else self.first[1]


@dataclass
class _Tally(Generic[InputsT]):
    """What is known of a runtime so far."""

    computation: RuntimeRun[InputsT]
    candidates: Sequence[_Count]
    """Compared with compiled code with options."""

    own: _Count = field(default_factory=_Count)
    """Compared with the runtime that all are compared with."""

    nan_results: set[str] = field(default_factory=set[str])

    def add(
        self,
        inputs: InputsT,
        labels: InputLabels,
        expected: Numbers,
        others: Sequence[Numbers],
    ) -> None:
        """
        Count where the results for inputs differ from those of other computations.

        Raises:
            Unavailable: if there are none.
        """
        found = _numbers_of_run(self.computation, inputs)
        self.own.add(labels, found, expected)
        for count, other in zip(self.candidates, others, strict=True):
            count.add(labels, found, other)
        nans = np.unique(found[np.isnan(labels.numbers)])
        self.nan_results.update(map(_result_text, nans.tolist()))

    def row(self, options: Iterable[Mapping[str, str]]) -> Row:
        """What is known, with the options of the candidates."""
        computation, own, match = self.computation, self.own, None
        if computation.options is None and self.candidates:
            best, chosen = min(
                zip(self.candidates, options, strict=True),
                key=lambda pair: (pair[0].numbers, pair[0].nans, len(pair[1])),
            )
            match = Match(chosen, best.numbers, best.difference, not best.nans)
        return Row(
            computation.name,
            computation.version,
            own.numbers,
            own.difference,
            ", ".join(sorted(self.nan_results)),
            match,
        )


def counted_differences(
    title: str,
    computations: Sequence[RuntimeRun[InputsT]],
    candidates: Sequence[RuntimeRun[InputsT]],
    chunks: Iterable[tuple[InputsT, InputLabels]],
) -> RuntimeComparison:
    """
    Compare the results of computations.

    Args:
        title: what is computed.
        computations: what is compared, first what all others are compared with.
        candidates: compiled code with all options that may reproduce the others.
        chunks: inputs, and what they are called.

    Raises:
        Unavailable: if there is nothing that others are compared with.
    """
    reference = computations[0]
    left_out = {each.name: each.missing for each in computations if each.missing}
    present = [each for each in computations if not each.missing]
    # They are to reproduce other runtimes.
    if all(each.options is not None for each in present):
        candidates = ()
    tallies = [_Tally(each, [_Count() for _ in candidates]) for each in present]
    total = 0
    for inputs, labels in chunks:
        total += labels.numbers.size
        try:
            expected = _numbers_of_run(reference, inputs)
        except Unavailable as error:
            raise Unavailable(
                f"cannot compare with '{reference.name}': {error}"
            ) from None
        others = [_numbers_of_run(candidate, inputs) for candidate in candidates]
        for tally in [*tallies]:
            try:
                tally.add(inputs, labels, expected, others)
            except Unavailable as error:
                left_out[tally.computation.name] = str(error)
                tallies.remove(tally)
    options = [candidate.options or {} for candidate in candidates]
    rows = [tally.row(options) for tally in tallies]
    return RuntimeComparison(title, reference.name, total, rows, left_out)


def _numbers_of_run(computation: RuntimeRun[InputsT], inputs: InputsT) -> Numbers:
    if computation.missing:
        raise Unavailable(computation.missing)
    return as_f64(computation.run(inputs))


def as_f64(array: Array) -> Numbers:
    """The same numbers as f64, NaN included."""
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


def _result_text(result: float) -> str:
    if math.isnan(result):
        return "undefined"
    if result.is_integer():
        return str(int(result))
    # Most results are floats of at most 32 bits.
    return str(short if (short := np.float32(result)) == result else result)
