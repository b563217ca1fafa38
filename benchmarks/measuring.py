"""Measure time and memory in fresh processes."""

import gc
import resource
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from random import Random
from statistics import median
from typing import ParamSpec, TypeVar

Kernel = Callable[[], object]
"""One run of a kernel with prepared inputs."""

P = ParamSpec("P")
R = TypeVar("R")


def in_fresh_process(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function in a fresh process and return its result."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        return executor.submit(function, *args, **kwargs).result()


def peak_mebibytes() -> float:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@dataclass
class Timings:
    """
    Times of the steps of repeated work.

    Times are CPU time, which varies less than wall time on a busy machine. The garbage
    collector runs as usual.
    """

    _seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def step(self, name: str) -> AbstractContextManager[None]:
        """Measure the body of the `with` statement."""
        return self._step(name)

    @contextmanager
    def _step(self, name: str):
        start = time.process_time()
        yield
        seconds = time.process_time() - start
        self._seconds.setdefault(name, []).append(seconds)

    def medians(self) -> dict[str, float]:
        """Return the median of each step."""
        return {name: median(seconds) for name, seconds in self._seconds.items()}


@dataclass(frozen=True)
class Costs:
    """Time and memory of some work."""

    seconds: dict[str, float]
    """CPU seconds of each step: the median of all runs."""

    peak: float
    """
    Peak memory of the process in MiB after the first run, including all libraries.
    """


def measure(work: Callable[[Timings], None], runs: int) -> Costs:
    """
    Run work several times and measure it. The garbage collector frees the objects of
    each run before the next run.
    """
    timings = Timings()
    work(timings)
    peak = peak_mebibytes()
    for _ in range(runs - 1):
        gc.collect()
        work(timings)
    return Costs(timings.medians(), peak)


def seconds_of(kernel: Kernel, repetitions: int = 1) -> float:
    """Return the average seconds of a run of a kernel."""
    start = time.perf_counter()
    for _ in range(repetitions):
        kernel()
    return (time.perf_counter() - start) / repetitions


def in_turns(kernels: Mapping[str, Kernel], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of a run of each kernel in each round."""
    repetitions: dict[str, int] = {}
    for name, kernel in kernels.items():
        kernel()
        # A turn takes about ten milliseconds, and at least one run.
        repetitions[name] = max(1, round(0.01 / max(seconds_of(kernel), 1e-6)))
    seconds: dict[str, list[float]] = {name: [] for name in kernels}
    order = [*kernels]
    random = Random(0)
    for _ in range(rounds):
        # Random order: the previous kernel affects the contents of the cache.
        random.shuffle(order)
        for name in order:
            seconds[name].append(seconds_of(kernels[name], repetitions[name]))
    return seconds
