"""
Search for the storage widths of each kernel, by measurement on samples.

1. The search measures the noise of the model results relative to their signal: first
   with the widest width for each kernel, then with each narrower width for a single
   kernel.
2. It adds noise powers, as if the errors of kernels were independent, and determines
   the Pareto front: the assignments of widths to kernels that no other assignment beats
   in both bytes and noise.
3. It measures assignments of the front, and takes the smallest one in bytes whose
   measured noise is within the budget.
4. Errors are not fully independent, least of all where noise is as strong as the
   signal. So it measures the most promising assignments that differ from the best one
   in one or two kernels, until none improves on it.

The search is deterministic.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.diagnostics import location_prefix
from xdsl_quant.runtime.batches import Batch
from xdsl_quant.transforms.propagation.module_kernels import kernels_of
from xdsl_quant.transforms.propagation.quant_propagate import Propagation
from xdsl_quant.transforms.propagation.target_spec import TargetSpec

from .bias_correction import Correction, biased_kernels, correct_biases
from .errors import float_module, quantized_module
from .kernel_widths import Width, request_width, widths_of
from .labels import Labels, Score
from .recipe import Budget, SearchOptions
from .recording import RecordedModule
from .report import stored_bytes
from .search_result import Assignment, BitSearchResult, SearchedKernel
from .signal_noise import OUTPUT, Error, Values, relative_noise
from .simulation import Simulations
from .user_warnings import warn_user

_T = TypeVar("_T")

Choice: TypeAlias = tuple[int, ...]
"""Assignment: for each searched kernel, the index of its width in `BitSearch.widths`."""

_CURVE = 12
"""Number of assignments of the Pareto front to measure, whatever the budget."""

_NEAR = 4
"""Number of assignments near the best one to measure at a time: see `_near`."""

_MOST = 4096
"""Maximum number of assignments in the Pareto front; a longer front is thinned."""

_MOST_BYTES = 1 << 26
"""Maximum size in bytes of the cached results of the float model."""


@dataclass
class BitSearch:
    """Search for the storage widths of the kernels of a model."""

    module: ModuleOp
    """A copy of the given model, with a `quant.region` for each kernel."""

    target: TargetSpec
    options: SearchOptions
    batches: Iterable[Batch]
    """Samples, read several times."""

    samples: Callable[[], Iterable[Batch]]
    """Function that returns the same samples; iterating over its result shows progress."""

    entry: str | None = None
    """Function that takes the samples."""

    corrects_bias: bool = True
    """True to correct biases before an assignment is measured in integer arithmetic."""

    least_weight_bits: Mapping[int, int] = field(default_factory=dict[int, int])
    """Maps the position of a kernel to the minimum weight width set by an override."""

    labels: Labels | None = None
    """Labels of the samples, to measure accuracy."""

    widths: Sequence[Sequence[Width]] = field(init=False)
    """Widths of each kernel, from narrow to wide; empty for unsearched kernels."""

    measured: dict[Choice, Assignment] = field(init=False)
    """Assignments measured by simulation or, if it cannot run, in integer arithmetic."""

    confirmed: dict[Choice, Assignment] = field(init=False)
    """Assignments measured in integer arithmetic: the widest, and the best candidates."""

    _corrections: list[tuple[ModuleOp, Correction]] = field(init=False)
    """Pairs of a model before bias correction and the correction computed for it."""

    _expected: list[Values] = field(init=False)

    def __post_init__(self) -> None:
        """
        Determine the widths of the kernels.

        Raises:
            ValueError: if no kernel has more than one width.
        """
        self.measured, self.confirmed = {}, {}
        self._corrections, self._expected = [], []
        self.widths = [
            widths_of(
                kernel, self.target, self.options, self.least_weight_bits.get(number, 0)
            )
            for number, kernel in enumerate(kernels_of(self.module))
        ]
        self.module = self.module.clone()
        if all(len(widths) < 2 for widths in self.widths):
            weights, activations = (
                " or ".join(map(str, bits))
                for bits in (self.options.weight_bits, self.options.activation_bits)
            )
            raise ValueError(
                f"nothing to search: target '{self.target.name}' supports at most one "
                f"width for each kernel, with weights of {weights} bits and "
                f"activations of {activations} bits; use another recipe or target"
            )

    @property
    def widest(self) -> Choice:
        """Assignment with the widest width for each kernel."""
        return tuple(len(widths) - 1 for widths in self._searched)

    @property
    def _searched(self) -> Sequence[Sequence[Width]]:
        return [widths for widths in self.widths if widths]

    def ask(self, module: ModuleOp, choice: Choice) -> None:
        """Specify the widths of an assignment for the kernels of a module."""
        numbers = iter(choice)
        for kernel, widths in zip(kernels_of(module), self.widths, strict=True):
            if widths:
                request_width(kernel, widths[next(numbers)])

    def run(self, budget: Budget) -> tuple[Choice, BitSearchResult]:
        """
        Return the assignment with the least noise within a budget of bytes, or the
        cheapest one within a budget of SQNR or accuracy; and a result for reports.

        Raises:
            ValueError: if no assignment is within the budget, labels for a budget of
                accuracy are missing, or the noise of the widest assignment is infinite.
        """
        self._measure_alone(budget)
        front = self.front()
        least = self._bytes(front[0])
        if budget.unit == "bytes" and budget.amount < least:
            raise ValueError(
                f"budget of {budget} is too small: expected {least} bytes or more; "
                "increase it, or add narrower widths to the recipe"
            )
        self.measure(_thinned(front, _CURVE))
        if budget.unit == "bytes":
            count = bisect_right(front, budget.amount, key=self._bytes)
            self.measure([front[count - 1]])
        else:
            self._narrow_down(front, lambda choice: self._keeps(choice, budget))
        chosen = self._best(budget)
        while near := self._near(chosen, budget):
            self.measure(near)
            if (better := self._best(budget)) == chosen:
                break
            chosen = better
        while chosen not in self.confirmed:
            self.confirm(chosen)
            chosen = self._best(budget)
        return chosen, self._result(chosen, budget)

    def _measure_alone(self, budget: Budget) -> None:
        """Measure the widest assignment, and its variants with one narrower kernel."""
        if budget.unit == "points" and self.labels is None:
            raise ValueError(
                f"missing labels of the calibration samples for a budget of {budget}; "
                "pass labels (--data-labels), or use a budget of SQNR such as '6 dB'"
            )
        self.measure([self.widest])
        self.confirm(self.widest)
        if math.isinf(self.measured[self.widest].noise):
            raise ValueError(
                "SQNR of the results is -inf dB with the widest widths; use samples whose "
                "results are finite and not all 0"
            )
        self.measure(self._alone())
        widest = self.measured[self.widest]
        if all(self.measured[each].loss(widest) <= 0 for each in self._alone()):
            warn_user(
                f"narrower widths do not reduce the SQNR of {widest.sqnr:.1f} dB on the "
                "samples; check that results differ from sample to sample"
            )

    def confirm(self, choice: Choice) -> None:
        """Measure an assignment in integer arithmetic after its simulation."""
        if choice not in self.confirmed:
            self.confirmed[choice] = (
                self._compared(choice, False)
                if self._is_simulated
                else self.measured[choice]
            )

    def _best(self, budget: Budget) -> Choice:

        def order(choice: Choice) -> tuple[object, ...]:
            noise, cost = self.measured[choice].noise, self._cost(choice)
            is_spent = budget.unit == "bytes"
            return (noise, cost, choice) if is_spent else (cost, noise, choice)

        return min((c for c in self.measured if self._keeps(c, budget)), key=order)

    def _keeps(self, choice: Choice, budget: Budget) -> bool:
        known = self.confirmed if choice in self.confirmed else self.measured
        assignment, widest = known[choice], known[self.widest]
        if budget.unit == "bytes":
            return assignment.stored_bytes <= budget.amount
        if choice == self.widest:
            return True
        if budget.unit == "points":
            return assignment.points_lost(widest) <= budget.amount
        return assignment.loss(widest) <= budget.amount

    def _narrow_down(
        self, front: Sequence[Choice], keeps: Callable[[Choice], bool]
    ) -> None:
        """Bisect the front for its smallest assignment within a budget."""
        known = [i for i, choice in enumerate(front) if choice in self.measured]
        high = min((i for i in known if keeps(front[i])), default=len(front))
        low = max((i for i in known if i < high), default=-1)
        while high - low > 1:
            middle = (low + high) // 2
            self.measure([front[middle]])
            if keeps(front[middle]):
                high = middle
            else:
                low = middle

    # Noise model

    def _alone(self) -> Iterator[Choice]:
        """Yield the variants of the widest assignment with one narrower kernel."""
        for kernel, last in enumerate(self.widest):
            for width in range(last):
                yield self._with(kernel, width)

    def _with(self, kernel: int, width: int) -> Choice:
        return (*self.widest[:kernel], width, *self.widest[kernel + 1 :])

    def _options(self, kernel: int) -> Sequence[tuple[int, int, float]]:
        """Return added bytes, activation width and added noise for each kernel width."""
        widest = self.measured[self.widest]
        options: list[tuple[int, int, float]] = []
        for number, width in enumerate(self._searched[kernel]):
            alone = self.measured[self._with(kernel, number)]
            size = alone.stored_bytes - widest.stored_bytes
            noise = alone.noise - widest.noise
            options.append((size, width.activation_bits or 0, noise))
        return options

    def front(self) -> Sequence[Choice]:
        """
        Return the Pareto front of cost and noise, from cheap to accurate, assuming that
        the noise of kernels adds up.
        """
        # Arrays of bytes, activation widths, noise, and ranks of choices to break ties.
        points = np.zeros(1, int), np.zeros(1, int), np.zeros(1), np.zeros(1, int)
        choices = np.zeros((1, 0), np.uint8)
        for kernel, widths in enumerate(self._searched):
            count = len(widths)
            options = (*np.transpose(self._options(kernel)), np.arange(count))
            *costs, ranks = points
            grown = [
                np.add.outer(each, more).ravel()
                for each, more in zip((*costs, ranks * count), options, strict=True)
            ]
            order = np.lexsort(grown[::-1])
            noise = grown[2][order]
            is_less = noise[1:] < np.minimum.accumulate(noise)[:-1]
            kept: Sequence[int] = order[np.append(True, is_less)].tolist()
            order = np.array(_thinned(kept, _MOST))
            size, wide, noise, ranks = (each[order] for each in grown)
            points = size, wide, noise, ranks.argsort().argsort()
            parents, numbers = np.divmod(order, count)
            choices = np.column_stack([choices[parents], numbers.astype(np.uint8)])
        return [tuple(choice) for choice in choices.tolist()]

    def _near(self, choice: Choice, budget: Budget) -> Sequence[Choice]:
        """
        Return up to `_NEAR` unmeasured assignments that differ in one or two kernels
        and may be better, in order of expected noise.
        """
        kernels, widths, added = self._changes(choice)
        first, second = np.triu_indices(len(kernels), 1)
        with np.errstate(invalid="ignore"):
            size, wide, noise = (added[first] + added[second]).T
        if budget.unit == "bytes":
            may_be_better = size <= budget.amount - self._bytes(choice)
        else:
            may_be_better = (size < 0) | ((size == 0) & (wide < 0))
        may_be_better &= kernels[first] != kernels[second]
        order = np.lexsort((size, noise))
        neighbors: list[Choice] = []
        for i in order[may_be_better[order]]:
            near = [0, *choice]
            for change in (second[i], first[i]):
                near[kernels[change]] = int(widths[change])
            if (changed := tuple(near[1:])) not in self.measured:
                neighbors.append(changed)
            if len(neighbors) == _NEAR:
                break
        return neighbors

    def _changes(
        self, choice: Choice
    ) -> tuple[NDArray[np.int_], NDArray[np.int_], NDArray[np.float64]]:
        """
        Return all changes that give one kernel another width, as three arrays: number of
        the kernel, counted from 1; index of the new width; differences in bytes, activation
        width and noise. The first entry of each array stands for no change.
        """
        kernels, widths, added = [0], [0], [np.zeros(3)]
        for kernel, old in enumerate(choice):
            options = np.array(self._options(kernel))
            for width, option in enumerate(options):
                if width != old:
                    kernels.append(kernel + 1)
                    widths.append(width)
                    added.append(option - options[old])
        return np.array(kernels), np.array(widths), np.array(added)

    def _bytes(self, choice: Choice) -> int:
        if choice in self.measured:
            return self.measured[choice].stored_bytes
        widest = self.measured[self.widest].stored_bytes
        return widest + sum(
            self.measured[self._with(kernel, width)].stored_bytes - widest
            for kernel, width in enumerate(choice)
        )

    def _cost(self, choice: Choice) -> tuple[int, int]:
        """Return the bytes of constants, then the sum of activation widths."""
        pairs = zip(self._searched, choice, strict=True)
        return self._bytes(choice), sum(w[i].activation_bits or 0 for w, i in pairs)

    # Measuring

    def measure(self, choices: Iterable[Choice]) -> None:
        """Measure assignments on all samples, unless they have been measured."""
        for choice in choices:
            if choice not in self.measured:
                self.measured[choice] = self._measured(choice)

    def _measured(self, choice: Choice) -> Assignment:
        return self._compared(choice, self._is_simulated)

    def _compared(self, choice: Choice, is_simulated: bool) -> Assignment:
        resolved = self._resolved(choice)
        actual = (
            self._simulations.of(resolved)
            if is_simulated
            else self._with_integers(resolved)
        )
        errors: dict[str, Error] = {}
        score = None if self.labels is None else Score(self.labels)
        for number, batch in enumerate(self.samples()):
            results = actual.values(batch)
            for key, values in self._expected_results(number, batch).items():
                errors.setdefault(key, Error()).add(values, results[key])
            if score is not None:
                score.add(results)
        widths = [w[i] for w, i in zip(self._searched, choice, strict=True)]
        return Assignment(
            tuple(width.weight_bits for width in widths),
            tuple(width.activation_bits for width in widths),
            stored_bytes(resolved),
            relative_noise(errors),
            None if score is None else score.value(),
        )

    @cached_property
    def _is_simulated(self) -> bool:
        return self._simulations.can_run(self.module)

    @cached_property
    def _simulations(self) -> Simulations:
        return Simulations(self.entry)

    def _expected_results(self, number: int, batch: Batch) -> Values:
        if number < len(self._expected):
            return self._expected[number]
        recorded = self._exact.values(batch).items()
        results = {key: values for key, values in recorded if OUTPUT in key}
        size = sum(values.nbytes for values in results.values())
        if number * size < _MOST_BYTES:
            self._expected.append(results)
        return results

    def corrected(self, resolved: ModuleOp) -> Correction | None:
        """
        Apply the bias correction that was computed for a structurally equivalent model,
        and return it; return `None` if there is none.
        """
        for known, correction in self._corrections:
            if known.is_structurally_equivalent(resolved):
                correction.apply(resolved, self.entry)
                return correction
        return None

    def _with_integers(self, resolved: ModuleOp) -> RecordedModule:
        """Return the integer model, with corrected biases if enabled."""
        if self.corrects_bias:
            # Calls with different parameters may copy functions with their kernels.
            count = len(kernels_of(self.module))
            exact = self._exact if len(kernels_of(resolved)) == count else None
            uncorrected = resolved.clone()
            correction = correct_biases(resolved, self.batches, self.entry, exact=exact)
            if correction is not None:
                self._corrections.append((uncorrected, correction))
                return correction.model
        module = quantized_module(resolved, self.entry, keys=())
        return RecordedModule.of(module, self.entry)

    @cached_property
    def _exact(self) -> RecordedModule:
        keys: Collection[str] = ()
        if self.corrects_bias:
            keys = biased_kernels(self._resolved(self.widest), self.entry)
        module = float_module(self.module, self.entry, keys=keys)
        return RecordedModule.of(module, self.entry)

    def _resolved(self, choice: Choice) -> ModuleOp:
        module = self.module.clone()
        self.ask(module, choice)
        Propagation(module, self.target)
        return module

    def _result(self, chosen: Choice, budget: Budget) -> BitSearchResult:
        widest = self.measured[self.widest]
        searched: list[SearchedKernel] = []
        for kernel, widths in zip(kernels_of(self.module), self.widths, strict=True):
            if not widths:
                continue
            number = len(searched)
            alone = [self.measured[self._with(number, i)] for i in range(len(widths))]
            searched.append(
                SearchedKernel(
                    kernel.kernel,
                    location_prefix(kernel.location).removesuffix(": "),
                    [width.text for width in widths],
                    [each.loss(widest) for each in alone],
                    [each.stored_bytes - widest.stored_bytes for each in alone],
                    chosen[number],
                )
            )
        return BitSearchResult(
            budget,
            searched,
            self.confirmed[chosen],
            self.confirmed[self.widest],
            tuple((self.measured | self.confirmed).values()),
            lambda budget: self.run(budget)[1],
        )


def _thinned(points: Sequence[_T], most: int) -> list[_T]:
    """Return at most `most` evenly spaced points, with the first and the last."""
    if len(points) <= most:
        return [*points]
    last = len(points) - 1
    return [points[round(i * last / (most - 1))] for i in range(most)]
