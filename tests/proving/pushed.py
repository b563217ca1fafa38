"""
Pushed rescales of `quant-export{mode=codegen}`, compared with unpushed ones for all inputs:
two arguments of 8 bits, and random kernels that compute elementwise.
"""

from __future__ import annotations

import time
from itertools import islice
from math import inf
from typing import Any

import numpy as np

from tests.unit.transforms.propagation.codegen_programs import Program, Storage
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.proving import Theorem
from xdsl_quant.runtime.loading import apply_passes, parse_module

SEEDS = range(200)

_KERNELS = 6


class Elementwise(Program):
    """A program of kernels that add, order, negate and multiply."""

    def add_kernel(self) -> None:
        kinds = [self._binary, self._unary]
        kinds[self.rng.choice(2, p=[0.7, 0.3])]()

    def input_storage(self) -> Storage:
        """A type of 8 bits."""
        found = (self.storage(4.0) for _ in iter(int, 1))
        return next(each for each in found if each.high - each.low < 256)


def program(seed: int) -> Elementwise:
    """A random program of all pairs of two arguments."""
    made = Elementwise(np.random.default_rng(seed), inputs=2)
    storages = [made.input_storage() for _ in range(2)]
    first, second = (each.high - each.low + 1 for each in storages)
    for storage in storages:
        value = made.value((first, second), 4.0)
        made.values[-1] = type(value)(value.name, value.shape, storage)
    for _ in islice(iter(int, 1), _KERNELS):
        made.add_kernel()
    return made


def theorem(seed: int, *, tightened: int = 0) -> Theorem:
    """
    Whether results with pushing are within the bound that the pass computes of those
    without; unknown if it computes none.

    Args:
        seed: of the program.
        tightened: by how much the bound is less than that.
    """
    start = time.perf_counter()
    made = program(seed)
    shape = made.values[0].shape
    storages = [value.storage for value in made.values[:2]]
    grids = np.meshgrid(
        *(np.arange(each.low, each.high + 1) for each in storages), indexing="ij"
    )
    floats = [
        ((grid - each.zero_point) * np.float32(each.scale)).astype(np.float32)
        for grid, each in zip(grids, storages, strict=True)
    ]
    modules = [parse_module(made.text(returns_all=False)) for _ in range(2)]
    for module, option in zip(modules, ("", " push-rescales=false"), strict=True):
        apply_passes(module, f"quant-export{{mode=codegen{option}}}")
    found, expected = (run_function(module, "main", *floats) for module in modules)
    statistics: Any = modules[0].attributes["quant.rescales"]
    details = ""
    bounds = [inf] * len(found)
    if known := statistics.data.get("differences"):
        bounds = known.data["main"].get_values()
    for i, bound, *results in zip(made.last, bounds, found, expected, strict=True):
        storage = made.values[i].storage
        units = [np.rint(np.float64(each) / storage.scale) for each in results]
        difference = np.abs(units[0] - units[1])
        if difference.max() > bound - tightened:
            place = int(difference.argmax())
            inputs = ", ".join(str(grid.flat[place]) for grid in grids)
            details = f"inputs {inputs}: {difference.max():g} units, bound {bound}"
    return Theorem(
        "pushed rescales are within their bound of unpushed ones",
        "refuted" if details else "proved" if known else "unknown",
        f"{shape[0] * shape[1]:,} inputs",
        time.perf_counter() - start,
        details,
    )
