"""
Mixed precision: the widths of storage of each kernel, found by measuring on samples.

1. The widest assignment is measured, and each narrower choice of each kernel alone, others
   at the widest. The measure is the noise of the results of the model, relative to their
   signal.
2. Noise powers are added up, as if the errors of kernels were independent. Under this model
   the assignments are found that no other one beats in both bytes and noise: the front.
3. Assignments of the front are measured, and the cheapest one is taken that keeps the
   budget as measured.
4. Errors are not quite independent, least of all where noise is as strong as the signal.
   So the most promising assignments that differ from this one in one or two kernels are
   measured, too, until none of them is better.

Nothing is random: the same model, samples and recipe have the same result.
"""

import math
from bisect import bisect_right
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
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

from .bias_correction import (
    Correction,
    biased_kernels,
    correct_biases,
)
from .errors import float_module, quantized_module
from .kernel_widths import Width, ask_for, widths_of
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
"""For each kernel with widths to choose from, the number of its width."""

_CURVE = 12
"""How many assignments of the front are measured, whatever the budget."""

_NEAR = 4
"""How many assignments beside the best one are measured at a time."""

_MOST = 4096
"""How many assignments the front has at most; fewer combinations are searched exactly."""

_MOST_BYTES = 1 << 26
"""The size of the results of the model in floats that are kept."""


@dataclass
class BitSearch:
    """A search for the widths of the kernels of a model."""

    module: ModuleOp
    """
    A copy of the model that is given, with a `quant.region` for each kernel and
    specifications of what is known.
    """

    target: TargetSpec
    options: SearchOptions
    batches: Iterable[Batch]
    """The samples, which are read several times."""

    samples: Callable[[], Iterable[Batch]]
    """Returns the same batches, to be measured."""

    entry: str | None = None
    """The function that takes them."""

    corrects_bias: bool = True
    """
    True if biases are corrected before an assignment is measured, but for simulations.
    """

    least_weight_bits: Mapping[int, int] = field(default_factory=dict[int, int])
    """The least width of weights by the position of the kernel, where one is given."""

    labels: Labels | None = None
    """What is right for the samples, if accuracy is measured."""

    widths: Sequence[Sequence[Width]] = field(init=False)
    """The widths of each kernel, from narrow to wide; none if it is left as it is."""

    measured: dict[Choice, Assignment] = field(init=False)
    """Measured assignments, by simulation if that can run the model."""

    confirmed: dict[Choice, Assignment] = field(init=False)
    """Assignments measured with integers: the widest one and candidates for the best."""

    _corrections: list[tuple[ModuleOp, Correction]] = field(init=False)
    """Models before their biases were corrected, and the corrections."""

    _expected: list[Values] = field(init=False)
    """The results of the model in floats for the first batches."""

    def __post_init__(self) -> None:
        """
        Raises:
            ValueError: if there is nothing to choose from.
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
                f"nothing to search, target '{self.target.name}' has no kernel in the "
                f"model with several signatures of weights of {weights} bits and "
                f"activations of {activations} bits; use another recipe or target"
            )

    @property
    def widest(self) -> Choice:
        """The assignment that others are compared with."""
        return tuple(len(widths) - 1 for widths in self._searched)

    @property
    def _searched(self) -> Sequence[Sequence[Width]]:
        return [widths for widths in self.widths if widths]

    def ask(self, module: ModuleOp, choice: Choice) -> None:
        """Make the widths of an assignment specifications of the kernels of a module."""
        numbers = iter(choice)
        for kernel, widths in zip(kernels_of(module), self.widths, strict=True):
            if widths:
                ask_for(kernel, widths[next(numbers)])

    def run(self, budget: Budget) -> tuple[Choice, BitSearchResult]:
        """
        Return the cheapest assignment that keeps a budget, or the best one if that is
        bytes.

        Raises:
            ValueError: if no assignment keeps it, it is one of accuracy and there are no
                labels, or the noise of the widest assignment is infinite.
        """
        self._measure_alone(budget)
        front = self.front()
        least = self._bytes(front[0])
        if budget.unit == "bytes" and budget.amount < least:
            raise ValueError(
                f"the budget of {budget} cannot be kept, the least is {least} bytes; "
                "allow more, or add narrower widths to the recipe"
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
        """Measure the widest assignment, and those that differ in one kernel."""
        if budget.unit == "points" and self.labels is None:
            raise ValueError(
                f"the budget of {budget} needs the classes of the calibration samples; "
                "give labels, in the command --data-labels, or a budget of SQNR such as "
                "'6 dB'"
            )
        self.measure([self.widest])
        self.confirm(self.widest)
        if math.isinf(self.measured[self.widest].noise):
            raise ValueError(
                "nothing to compare, the SQNR of the results is -inf dB with the widest "
                "widths; expected samples whose results are finite and not all 0"
            )
        self.measure(self._alone())
        widest = self.measured[self.widest]
        if all(self.measured[each].loss(widest) <= 0 for each in self._alone()):
            warn_user(
                "no narrower width of a kernel loses SQNR on the samples, found "
                f"{widest.sqnr:.1f} dB with the widest; check that results differ from "
                "sample to sample"
            )

    def confirm(self, choice: Choice) -> None:
        """Measure an assignment with integers, if it was simulated."""
        if choice not in self.confirmed:
            self.confirmed[choice] = (
                self._compared(choice, False)
                if self._is_simulated
                else self.measured[choice]
            )

    def _best(self, budget: Budget) -> Choice:
        """Return the best assignment that was measured and keeps a budget."""

        def order(choice: Choice) -> tuple[object, ...]:
            noise, cost = self.measured[choice].noise, self._cost(choice)
            is_spent = budget.unit == "bytes"
            return (noise, cost, choice) if is_spent else (cost, noise, choice)

        return min((c for c in self.measured if self._keeps(c, budget)), key=order)

    def _keeps(self, choice: Choice, budget: Budget) -> bool:
        known = self.confirmed if choice in self.confirmed else self.measured
        found, widest = known[choice], known[self.widest]
        if budget.unit == "bytes":
            return found.stored_bytes <= budget.amount
        if choice == self.widest:
            return True
        if budget.unit == "points":
            return found.points_lost(widest) <= budget.amount
        return found.loss(widest) <= budget.amount

    def _narrow_down(
        self, front: Sequence[Choice], keeps: Callable[[Choice], bool]
    ) -> None:
        """Measure assignments between the cheapest one that keeps a budget and the next."""
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

    # The model of noise

    def _alone(self) -> Iterator[Choice]:
        """Yield the assignments that differ from the widest one in one kernel."""
        for kernel, last in enumerate(self.widest):
            for width in range(last):
                yield self._with(kernel, width)

    def _with(self, kernel: int, width: int) -> Choice:
        return (*self.widest[:kernel], width, *self.widest[kernel + 1 :])

    def _options(self, kernel: int) -> Sequence[tuple[int, int, float]]:
        """
        For each width of a kernel what it adds to the bytes of the widest assignment, the
        width of activations, and the noise that it adds alone.
        """
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
        Return the assignments that no other one beats in cost and noise, from cheap to
        good, if the noise that each width of each kernel adds alone is what it adds
        beside others.
        """
        # Bytes, widths of activations, noise, and the order of choices, which breaks ties.
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
        Some assignments that are not measured, differ from a given one in one or two
        kernels, and may be better: those with the least noise, as in `front`.
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
        found: list[Choice] = []
        for i in order[may_be_better[order]]:
            near = [0, *choice]
            for change in (second[i], first[i]):
                near[kernels[change]] = int(widths[change])
            if (changed := tuple(near[1:])) not in self.measured:
                found.append(changed)
            if len(found) == _NEAR:
                break
        return found

    def _changes(
        self, choice: Choice
    ) -> tuple[NDArray[np.int_], NDArray[np.int_], NDArray[np.float64]]:
        """
        Return the changes of one kernel, counted from 1: kernels, their widths, and
        what is added to bytes, widths of activations, and noise. The first one changes
        nothing.
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
        """Return the size of constants, which is a sum over kernels."""
        if choice in self.measured:
            return self.measured[choice].stored_bytes
        widest = self.measured[self.widest].stored_bytes
        return widest + sum(
            self.measured[self._with(kernel, width)].stored_bytes - widest
            for kernel, width in enumerate(choice)
        )

    def _cost(self, choice: Choice) -> tuple[int, int]:
        """Bytes of constants, and of equal ones the widths of activations."""
        pairs = zip(self._searched, choice, strict=True)
        return self._bytes(choice), sum(w[i].activation_bits or 0 for w, i in pairs)

    # Measuring

    def measure(self, choices: Iterable[Choice]) -> None:
        """Measure assignments that are not measured yet, each on all samples."""
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
            found = actual.values(batch)
            for key, values in self._expected_results(number, batch).items():
                errors.setdefault(key, Error()).add(values, found[key])
            if score is not None:
                score.add(found)
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
        """Return the results of the model in floats for a batch."""
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
        Correct the biases of a model with quantization parameters that equals one which was
        confirmed; return `None` if there is none.
        """
        for known, correction in self._corrections:
            if known.is_structurally_equivalent(resolved):
                correction.apply(resolved, self.entry)
                return correction
        return None

    def _with_integers(self, resolved: ModuleOp) -> RecordedModule:
        """
        Return a model with quantization parameters, whose biases are corrected if need
        be.
        """
        if self.corrects_bias:
            # Calls with other parameters may have copies of functions, and so of kernels.
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
        """
        The model in floats, with which all assignments are compared, and biases are
        corrected.
        """
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
    """At most so many of some points, with the first one and the last one."""
    if len(points) <= most:
        return [*points]
    last = len(points) - 1
    return [points[round(i * last / (most - 1))] for i in range(most)]
