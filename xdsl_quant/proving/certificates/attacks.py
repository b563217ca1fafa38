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
        is_better = self.error.add(
            float(np.abs(quantized - number).max()), argument
        )
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

    def search(self, directions: Floats, tries: int, seed: int) -> None:
        """
        Try corners along directions, random corners and points, then greedy changes of
        the best arguments.

        Args:
            directions: `[rows, elements]`, in which results grow.
            tries: number of arguments to run.
            seed: seed of the draws.
        """
        rng = np.random.default_rng(seed)
        signs = [np.sign(row) * side for row in directions for side in (1, -1)]
        for sign in signs[: tries // 2]:
            self.visit(np.where(sign > 0, self.high, self.low))
        rest = max(tries - min(len(signs), tries // 2), 0)
        for number in range(rest):
            if number < rest // 4:
                corner = rng.integers(0, 2, self.low.shape) > 0
                self.visit(np.where(corner, self.high, self.low))
                continue
            goals = [self.error, self.error, self.float_class, self.quantized_class]
            goal = goals[number % 4]
            origin = goal.argument if goal.argument.size else self.low
            self.visit(self._changed(origin, rng))

    def _changed(self, argument: Floats, rng: np.random.Generator) -> Floats:
        """Move some elements to an end, or to a point of the region."""
        part = rng.random(argument.shape) < rng.choice([0.02, 0.1, 0.3])
        part[rng.integers(part.size)] = True
        share = rng.random(argument.shape)
        if rng.random() < 0.7:
            share = np.rint(share)
        moved = self.low + share * (self.high - self.low)
        moved = np.clip(moved.astype(np.float32), self.low, self.high)
        return np.where(part, moved, argument)


def _margin(results: Floats, chosen: int) -> float:
    """Return the distance of a result from the largest other result."""
    return float(results[chosen] - np.delete(results, chosen).max())
