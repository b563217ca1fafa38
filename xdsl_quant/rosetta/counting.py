"""Counts of the inputs for which results differ."""

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


@dataclass(frozen=True)
class RuntimeRun(Generic[InputsT]):
    """Function of a runtime that computes results for inputs."""

    name: str

    run: Callable[[InputsT], Array]
    """Returns one result per input; may raise `Unavailable`."""

    version: str = ""

    options: Mapping[str, str] | None = None
    """Options of compiled code; `None` for other runtimes."""

    missing: str = ""
    """Message about a missing package, or empty."""


@dataclass(frozen=True)
class InputLabels:
    """Texts and sort keys of inputs."""

    numbers: Numbers
    """Sort key of each input: inputs are sorted by magnitude; NaN marks NaN inputs."""

    text: Callable[[int], str]
    """Returns the text of an input, given its index."""


@dataclass
class _Count:
    """Count of the inputs for which two runtimes return different results."""

    numbers: int = 0
    nans: int = 0
    first: tuple[tuple[float, bool], Difference] | None = None
    """
    Magnitude and sign bit of the differing input with the smallest magnitude, and the
    difference there.
    """

    def add(self, labels: InputLabels, actual: Numbers, expected: Numbers) -> None:
        """Count inputs with different results; skip undefined results (NaN)."""
        # Fast path: most floats are out of range, where runtimes agree.
        if np.array_equal(actual, expected):
            return
        differ = (actual != expected) & ~np.isnan(actual) & ~np.isnan(expected)
        is_nan = np.isnan(labels.numbers)
        self.nans += int(np.count_nonzero(differ & is_nan))
        indices = np.flatnonzero(differ & ~is_nan)
        if not indices.size:
            return
        self.numbers += indices.size
        numbers = labels.numbers[indices]
        nearest = np.lexsort((np.signbit(numbers), np.abs(numbers)))[0]
        key = float(abs(numbers[nearest])), bool(np.signbit(numbers[nearest]))
        if self.first is None or key < self.first[0]:
            index = int(indices[nearest])
            results = (_result_text(float(a[index])) for a in (actual, expected))
            self.first = key, Difference(labels.text(index), *results)

    @property
    def difference(self) -> Difference | None:
        return None if self.first is None else self.first[1]


@dataclass
class _Tally(Generic[InputsT]):
    """Counts of inputs where a runtime differs from the reference or a candidate."""

    computation: RuntimeRun[InputsT]
    candidates: Sequence[_Count]
    """Differences from candidates: compiled code with each set of options."""

    own: _Count = field(default_factory=_Count)
    """Differences from the reference runtime."""

    nan_results: set[str] = field(default_factory=set[str])

    def add(
        self,
        inputs: InputsT,
        labels: InputLabels,
        expected: Numbers,
        candidates: Sequence[Numbers],
    ) -> None:
        """Count differences from the results of the reference and of each candidate."""
        actual = _numbers_of_run(self.computation, inputs)
        self.own.add(labels, actual, expected)
        for count, candidate in zip(self.candidates, candidates, strict=True):
            count.add(labels, actual, candidate)
        nans = np.unique(actual[np.isnan(labels.numbers)])
        self.nan_results.update(map(_result_text, nans.tolist()))

    def row(self, options: Iterable[Mapping[str, str]]) -> Row:
        """Return the row of the runtime, with the options of the best candidate."""
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
    Compare the results of computations on all inputs.

    Args:
        title: operation that is compared.
        computations: computations to compare; the first is the reference.
        candidates: compiled code with each set of options to match with other runtimes.
        chunks: inputs and their labels.

    Raises:
        Unavailable: if the reference has no results.
    """
    reference = computations[0]
    left_out = {run.name: run.missing for run in computations if run.missing}
    present = [run for run in computations if not run.missing]
    # Compiled code needs no options that reproduce it.
    if all(run.options is not None for run in present):
        candidates = ()
    tallies = [_Tally(run, [_Count() for _ in candidates]) for run in present]
    total = 0
    for inputs, labels in chunks:
        total += labels.numbers.size
        try:
            expected = _numbers_of_run(reference, inputs)
        except Unavailable as error:
            raise Unavailable(
                f"cannot compare with '{reference.name}': {error}"
            ) from None
        results = [_numbers_of_run(candidate, inputs) for candidate in candidates]
        for tally in [*tallies]:
            try:
                tally.add(inputs, labels, expected, results)
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
    """Convert an array to f64, without warnings about NaN."""
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


def _result_text(result: float) -> str:
    if math.isnan(result):
        return "undefined"
    if result.is_integer():
        return str(int(result))
    # Print f32 results as f32: their text is shorter.
    return str(short if (short := np.float32(result)) == result else result)
