"""Search for arguments with a large error, or of which models give another class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.quantizer.recording import RecordedModule, record_results
from xdsl_quant.runtime.entry_function import entry_function

from .linear_maps import Floats

_KEY = "result:"


def runner(
    module: ModuleOp, entry: str | None, shape: Sequence[int]
) -> Callable[[Floats], Floats]:
    """Return a function that runs a model on one flattened argument."""
    own = module.clone()
    function = entry_function(own, entry)
    record_results(function, _KEY)
    recorded = RecordedModule.of(own, function.sym_name.data)

    def run(argument: Floats) -> Floats:
        batch = (argument.astype(np.float32).reshape(shape),)
        values = recorded.values(batch, [f"{_KEY}0"])
        return values[f"{_KEY}0"].astype(np.float64).ravel()

    return run


@dataclass
class Witness:
    """An argument with the largest value of an objective that was found."""

    value: float = -np.inf
    argument: Floats = field(default_factory=lambda: np.zeros(0))

    def add(self, value: float, argument: Floats) -> bool:
        """Keep the argument if its value is larger."""
        if value <= self.value:
            return False
        self.value, self.argument = value, argument
        return True


@dataclass
class Attack:
    """Search in one region."""

    run_float: Callable[[Floats], Floats]
    run_quantized: Callable[[Floats], Floats]
    low: Floats
    high: Floats

    step: float = 0.0
    """Scale of the stored arguments; 0 if unknown."""

    error: Witness = field(default_factory=Witness)
    """Largest absolute error of a result."""

    float_class: Witness = field(default_factory=Witness)
    """Smallest margin of the class at the center in the float model, negated."""

    quantized_class: Witness = field(default_factory=Witness)

    refuted: dict[str, Floats] = field(default_factory=dict[str, Floats])
    """
    Arguments that refute claims on classes: `float` and `quantized` if the class differs
    from that of the center, `agreement` if the models give different classes.
    """

    classes: tuple[int, int] = (0, 0)
    """Classes at the center: of the float model, of the quantized model."""

    def start(self, center: Floats) -> None:
        """Run the center of the region, whose classes are the reference."""
        results = self.run_float(center), self.run_quantized(center)
        self.classes = int(results[0].argmax()), int(results[1].argmax())
        self.visit(center)

    def visit(self, argument: Floats) -> bool:
        """Run both models; return True if an objective is larger than before."""
        number, quantized = self.run_float(argument), self.run_quantized(argument)
        error = float(np.abs(quantized - number).max())
        # A difference of infinities is NaN.
        error = np.inf if np.isnan(error) else error
        is_better = self.error.add(error, argument)
        if number.size < 2:
            return is_better
        top = int(number.argmax()), int(quantized.argmax())
        names = ("float", "quantized", "agreement")
        differ = top[0] != self.classes[0], top[1] != self.classes[1], top[0] != top[1]
        for name, is_refuted in zip(names, differ, strict=True):
            if is_refuted:
                self.refuted.setdefault(name, argument)
        is_better |= self.float_class.add(-_margin(number, self.classes[0]), argument)
        margin = _margin(quantized, self.classes[1])
        is_better |= self.quantized_class.add(-margin, argument)
        return is_better

    def search(
        self, directions: Floats, roundings: Floats, tries: int, seed: int
    ) -> None:
        """
        Try corners along directions, random corners and points, then greedy changes of
        the best arguments.

        Args:
            directions: `[rows, elements]`, in which results grow.
            roundings: directions of the quantization errors of the argument.
            tries: number of arguments to run.
            seed: seed of the draws.
        """
        rng = np.random.default_rng(seed)
        count = 0
        for row, errors in zip(directions, roundings, strict=True):
            for side in (1, -1):
                corner = np.where(row * side > 0, self.high, self.low)
                for argument in (corner, self._center()):
                    if count < tries // 2:
                        self.visit(self._between(argument, errors * side))
                        count += 1
        for number in range(count, tries):
            if number % 8 == 0:
                corner = rng.integers(0, 2, self.low.shape) > 0
                self.visit(np.where(corner, self.high, self.low))
                continue
            goals = [self.error, self.error, self.float_class, self.quantized_class]
            goal = goals[number % 4]
            origin = goal.argument if goal.argument.size else self.low
            self.visit(self._changed(origin, rng))

    def _center(self) -> Floats:
        center = ((self.low + self.high) / 2).astype(np.float32)
        return np.clip(center.astype(np.float64), self.low, self.high)

    def _between(self, argument: Floats, signs: Floats) -> Floats:
        """
        Move elements next to the nearest bound between two stored values, from where the
        rounding moves them in the direction of `signs`.
        """
        if not self.step:
            return argument
        bounds = (np.floor(argument / self.step) + 0.5) * self.step
        moved = bounds + np.sign(signs) * 1e-3 * self.step
        moved = moved.astype(np.float32).astype(np.float64)
        is_inside = (moved >= self.low) & (moved <= self.high)
        # The next lower bound, for elements at the upper end of the region.
        lower = (moved - self.step).astype(np.float32).astype(np.float64)
        is_lower = ~is_inside & (lower >= self.low) & (lower <= self.high)
        return np.where(is_inside, moved, np.where(is_lower, lower, argument))

    def _changed(self, argument: Floats, rng: np.random.Generator) -> Floats:
        """Move some elements to an end, or to a point of the region."""
        part = rng.random(argument.shape) < rng.choice([0.02, 0.1, 0.3])
        part[rng.integers(part.size)] = True
        share = rng.random(argument.shape)
        if rng.random() < 0.7:
            share = np.rint(share)
        moved = self.low + share * (self.high - self.low)
        if rng.random() < 0.5:
            moved = self._between(moved, rng.choice([-1.0, 1.0], argument.shape))
        moved = np.clip(moved.astype(np.float32), self.low, self.high)
        return np.where(part, moved, argument)


def _margin(results: Floats, chosen: int) -> float:
    """Return the distance of a result from the largest other result."""
    return float(results[chosen] - np.delete(results, chosen).max())
