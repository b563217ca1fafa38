"""Scheduling and the CPU do not change the order of float sums."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from xdsl_quant.execution import CompiledFunction, compile
from xdsl_quant.execution.cpu import available_cpus

LOOPS = "ijk"

SLOW = ("exp", "tanh", "log", "erf", "sin", "cos", "log1p", "expm1")

TERMS = {
    "%p = arith.addf %x, %y : T": "xy",
    "%p = arith.mulf %x, %y : T": "xy",
    "%p = arith.mulf %x, %x : T": "x",
    "%d = arith.subf %x, %y : T  %p = arith.mulf %d, %d : T": "xy",
    "%q = arith.divf %x, %y : T  %p = arith.mulf %q, %x : T": "xy",
    "%v = arith.negf %x : T  %i = linalg.index 1 : index  "
    "%n = arith.index_cast %i : index to i32  "
    "%m = arith.sitofp %n : i32 to T  %p = arith.addf %v, %m : T": "x",
    **{f"%p = math.{name} %x : T": "x" for name in SLOW},
    "%h = math.exp %x : T  %p = arith.mulf %h, %y : T": "xy",
}
"""Formulas of a term and their operands."""


class Sum(NamedTuple):
    """A sum of terms over some of three loops."""

    sizes: dict[str, int]
    reduced: str
    maps: dict[str, str]
    """Loops that index each operand."""

    term: str
    type_: str

    shared: bool
    """True if another loop computes the first op of the term, too."""

    reshaped: bool
    """True if the first operand is a reshaped tensor."""

    def type_of(self, loops: str) -> str:
        sizes = "".join(f"{self.sizes[loop]}x" for loop in loops)
        return f"tensor<{sizes}{self.type_}>"

    @property
    def result(self) -> str:
        return "".join(loop for loop in LOOPS if loop not in self.reduced)

    @property
    def flat(self) -> str:
        sizes = [self.sizes[loop] for loop in self.maps["x"]]
        return f"tensor<{np.prod(sizes, dtype=int)}x{self.type_}>"

    def generic(self, result: str, reduced: str, body: str, total: str) -> str:
        """Return a loop nest over all loops; the body computes from %x, %y and %s."""
        maps = ", ".join(
            f"affine_map<(i, j, k) -> ({', '.join(loops)})>"
            for loops in (*self.maps.values(), result)
        )
        kinds = ", ".join(
            '"reduction"' if loop in reduced else '"parallel"' for loop in LOOPS
        )
        types = ", ".join(map(self.type_of, self.maps.values()))
        block = ", ".join(f"%{name}: {self.type_}" for name in (*self.maps, "s"))
        return f"""linalg.generic {{indexing_maps = [{maps}],
            iterator_types = [{kinds}]}}
            ins({", ".join(f"%a{name}" for name in self.maps)} : {types})
            outs({total} : {self.type_of(result)}) {{
          ^bb0({block}):
            {body.replace("T", self.type_)}
          }} -> {self.type_of(result)}"""

    @property
    def text(self) -> str:
        types = {f"%a{name}": self.type_of(loops) for name, loops in self.maps.items()}
        given, reshape = dict(types), ""
        if self.reshaped:
            del given["%ax"]
            given = {"%flat": self.flat} | given
            sizes = [self.sizes[loop] for loop in self.maps["x"]]
            reshape = f"""%ax = tensor.expand_shape %flat [{[*range(len(sizes))]}]
                output_shape {sizes} : {self.flat} into {types["%ax"]}"""
        total, all_ = self.type_of(self.result), self.type_of(LOOPS)
        op, _, _ = self.term.partition("  ")
        body = f"{self.term}\n %t = arith.addf %s, %p : T\n linalg.yield %t : T"
        each = (
            f"{op}\n linalg.yield {op.split()[0]} : T"
            if self.shared
            else ("linalg.yield %x : T")
        )
        return f"""
        func.func @f({", ".join(map(" : ".join, given.items()))}, %start: {total})
            -> ({total}, {all_}) {{
          {reshape}
          %e = arith.constant dense<1.0> : {all_}
          %r = {self.generic(self.result, self.reduced, body, "%start")}
          %n = {self.generic(LOOPS, "", each, "%e")}
          return %r, %n : {total}, {all_}
        }}"""


def generated(seed: int) -> Sum:
    rng = np.random.default_rng(seed)
    sizes = {loop: int(rng.choice([3, 8, 20, 65, 100])) for loop in "ij"}
    sizes["k"] = int(rng.choice([4, 32, 66, 100, 130]))
    reduced = ("k", "j", "jk", "ik", "ij")[rng.choice(5, p=[0.4, 0.2, 0.2, 0.1, 0.1])]
    term, names = [*TERMS.items()][seed % len(TERMS)]
    maps = {
        name: "".join(rng.permutation([*LOOPS])[: rng.integers(1, 4)])
        if rng.random() < 0.3
        else ("ijk", "ik", "jk", "k")[rng.choice(4, p=[0.5, 0.2, 0.2, 0.1])]
        for name in names
    }
    if "ijk" not in ("".join(sorted(loops)) for loops in maps.values()):
        maps[names[-1]] = "ijk"
    type_ = "f64" if rng.random() < 0.2 else "f32"
    shared, reshaped = rng.random() < 0.6, rng.random() < 0.3
    return Sum(sizes, reduced, maps, term, type_, shared, reshaped)


def results(function: CompiledFunction, sum_: Sum) -> list[bytes]:
    rng = np.random.default_rng(1)
    dtype = sum_.type_.replace("f", "float")
    arguments = [
        np.abs(rng.normal(size=[sum_.sizes[loop] for loop in loops])).astype(dtype)
        for loops in (*sum_.maps.values(), sum_.result)
    ]
    if sum_.reshaped:
        arguments[0] = arguments[0].ravel()
    return [np.asarray(result).tobytes() for result in function(*arguments)]


@pytest.mark.sampled(31)
@pytest.mark.parametrize("seed", range(240))
def test_scheduling_keeps_the_order(seed: int):
    sum_ = generated(seed)
    plain = results(compile(sum_.text, schedule=False), sum_)
    for cpu in available_cpus().values():
        assert results(compile(sum_.text, cpu=cpu.name), sum_) == plain, cpu.name
