"""
Mutants of the analysis of certificates, held against errors of drawn inputs.

`python -m tests.oracles.certificate_mutants --count 60` changes one operator, function or
constant in the transfer functions or the back substitution at a time. A mutant is `refuted`
if an error, a result or a lead of a drawn input exceeds its bound, if a part of the
analysis does not hold for drawn values, if it raises an error, or, if no bound is wider,
if a fast unit test fails. It is `harmless` if some of its bounds are wider and none is
tighter, or if `certificate_mutants.txt` states why it is sound, and `open` otherwise.
"""

from __future__ import annotations

import argparse
import ast
import copy
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tests.mutants.survivors import Mutant, listed
from xdsl_quant.proving import Region, certify
from xdsl_quant.proving.certificates.attacks import runner
from xdsl_quant.runtime.entry_function import entry_function

from .certificate_parts import CHECKS, PACKAGE
from .certificates import BATCH, Floats, drawn_inputs, networks

FOLDER = Path("xdsl_quant/proving/certificates")

MUTATED = (
    *("readers", "common_readers", "tfl_readers", "stablehlo_readers"),
    *("analysis", "functions", "bounds", "relaxations", "linear_maps"),
    *("network_bounds", "slopes", "class_search", "networks"),
)
"""Modules to change."""

NETWORKS = (
    *("wine tfl", "breast_cancer stablehlo", "digits mlp stablehlo", "residual tfl"),
    *("wine_batch_norm tfl", "attention tfl", "attention stablehlo"),
    "wine_saturated tfl",
)

SOUND = Path(__file__).with_suffix(".txt")
"""File of mutants that are sound, with reasons, as in `tests/mutants/survivors.txt`."""

REGIONS, POINTS = 4, 2
"""Number of balls of each network, and of regions of one input, which are tightest."""

_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_FUNCTIONS = {
    "minimum": "maximum",
    "maximum": "minimum",
    "min": "max",
    "max": "min",
    "floor": "ceil",
    "ceil": "floor",
    "low": "high",
    "high": "low",
}


@dataclass(frozen=True)
class Observed:
    """A network, and the errors, results and leads of drawn inputs."""

    quantized: ModuleOp
    float_module: ModuleOp
    low: Floats
    high: Floats

    least: Floats
    """
    Smallest errors, float results, quantized results, and leads of the classes in both
    networks: `[regions, 3 * results + 2]`.
    """

    most: Floats

    classes: Sequence[tuple[int, int]]
    """Classes of each region: in the float network, and in the quantized one."""


def observed(name: str, count: int, seed: int) -> Observed:
    """Run a network on drawn inputs of its regions."""
    network = networks()[name]()
    points = network.centers[:POINTS].astype(np.float64)
    balls = replace(network, centers=network.centers[:REGIONS]).region
    ends = (np.concatenate([end, points]) for end in (balls.low, balls.high))
    regions = Region(*ends)
    modules, batched = network.modules(1), network.modules(BATCH)
    shape = BATCH, *network.centers.shape[1:]
    runs = [runner(module, None, shape) for module in batched]
    ends = regions.float_ends(int(np.prod(shape[1:])))
    rng = np.random.default_rng(seed)
    least, most = list[Floats](), list[Floats]()
    # The search of the certificate finds larger errors than draws.
    found = certify(*modules, regions, tries=200).regions
    single = [runner(module, None, (1, *shape[1:])) for module in modules]
    for low, high, region in zip(*ends, found, strict=True):
        worst = np.array(region.argument)
        classes = region.classes
        results = [_observations([run(worst) for run in single], 1, classes)]
        for step in (0.0, *[1 / 255] * bool(network.limits), *[0.0] * (count - 1)):
            drawn = drawn_inputs(low, high, step, BATCH, rng)
            both = [run(drawn.ravel()) for run in runs]
            results.append(_observations(both, BATCH, classes))
        least.append(np.concatenate(results).min(axis=0))
        most.append(np.concatenate(results).max(axis=0))
    low, high = regions.flattened(ends[0].shape[1])
    ends = np.array(least), np.array(most)
    return Observed(*modules, low, high, *ends, [region.classes for region in found])


def _observations(
    runs: Sequence[Floats], rows: int, classes: tuple[int, int]
) -> Floats:
    """Return errors, results and leads of a quantized and a float network."""
    quantized, number = (run.reshape(rows, -1) for run in runs)
    found = [quantized - number, number, quantized]
    for results, top in zip((number, quantized), classes, strict=True):
        others = np.delete(results, top, axis=1).max(axis=1, keepdims=True)
        found.append(results[:, top : top + 1] - others)
    return np.concatenate(found, axis=1)


# Mutants


def _sites(tree: ast.AST) -> Iterator[ast.AST]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        # Types of arguments and results are not evaluated.
        for node in (inner for each in function.body for inner in ast.walk(each)):
            if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
                yield node
            elif isinstance(node, ast.Compare) and type(node.ops[0]) in _OPERATORS:
                yield node
            elif isinstance(node, ast.Attribute) and node.attr in _FUNCTIONS:
                yield node
            elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
                yield node


def mutant(source: str, rng: np.random.Generator) -> tuple[ast.Module, str, str]:
    """Change one place that is drawn; return the module, its function and the change."""
    tree = ast.parse(source)
    sites = [*_sites(tree)]
    index = int(rng.integers(len(sites)))
    node: Any = sites[index]
    statement, function = _enclosing(tree, node)
    before = _first_line(statement)
    kind = type(sites[index])
    if kind is ast.BinOp:
        node.op = _OPERATORS[type(node.op)]()
    elif kind is ast.Compare:
        node.ops[0] = _OPERATORS[type(node.ops[0])]()
    elif kind is ast.Attribute:
        node.attr = _FUNCTIONS[node.attr]
    else:
        is_halved = isinstance(node.value, float) and node.value
        node.value = node.value / 2 if is_halved else node.value + 1
    return tree, function, f"- {before}\n+ {_first_line(statement)}"


def _enclosing(tree: ast.Module, node: ast.AST) -> tuple[ast.AST, str]:
    """Return the statement of a node, and the names of its functions and classes."""
    parents = {each: up for up in ast.walk(tree) for each in ast.iter_child_nodes(up)}
    statement = node
    while not isinstance(statement, ast.stmt):
        statement = parents[statement]
    names: list[str] = []
    scope = statement
    while scope in parents:
        scope = parents[scope]
        if isinstance(scope, ast.FunctionDef | ast.ClassDef):
            names.insert(0, scope.name)
    return statement, ".".join(names)


def _first_line(statement: ast.AST) -> str:
    return ast.unparse(statement).splitlines()[0]


@dataclass
class _MutantFinder(MetaPathFinder, Loader):
    """Importer of a changed module."""

    name: str
    tree: ast.Module

    def find_spec(
        self, fullname: str, path: object, target: object = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        return spec_from_loader(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        code = compile(ast.fix_missing_locations(self.tree), self.name, "exec")
        # The module of the mutant is run in place of the original.
        exec(code, module.__dict__)


def bounds_of(networks_: Sequence[Observed]) -> list[tuple[Floats, Floats]]:
    """
    Return bounds of the errors, results and leads by the package as it is imported now.
    """
    import_module(PACKAGE)
    reading, pairing, analysing, searching = (
        import_module(f"{PACKAGE}.{name}")
        for name in ("readers", "pairing", "analysis", "class_search")
    )
    found = list[tuple[Floats, Floats]]()
    for each in networks_:
        modules = each.quantized, each.float_module
        read = [reading.read_network(entry_function(module)) for module in modules]
        pairs = pairing.Pairing.of(*read)
        analysis = analysing.Analysis.of(pairs, each.low, each.high)
        pair = analysis.result()
        everything = np.ones(pair.number.low.shape, np.bool_)
        ends: list[tuple[Floats, Floats]] = []
        for variable in (pair.difference, pair.number):
            low, high = analysis.variables.refine([variable], everything)
            ends.append(
                (np.maximum(low, variable.low), np.minimum(high, variable.high))
            )
        # Bounds of the float results are those of both analyses.
        own = _bounds_of_one(read[1], each.low, each.high)
        ends[1] = np.maximum(ends[1][0], own[0]), np.minimum(ends[1][1], own[1])
        ends.append(_bounds_of_one(read[0], each.low, each.high))
        tops = zip(*each.classes, strict=True)
        for network, classes in zip((read[1], read[0]), tops, strict=True):
            arguments = network, each.low, each.high, classes, 20
            leads = searching.smallest_leads(*arguments)[:, np.newaxis]
            ends.append((leads, np.full_like(leads, 1e6)))
        low, high = (np.concatenate(each, axis=1) for each in zip(*ends, strict=True))
        found.append((low, high))
    return found


def _bounds_of_one(network: Any, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return bounds of the results of one network, with slopes that are optimized."""
    bounding, searching = (
        import_module(f"{PACKAGE}.{name}") for name in ("network_bounds", "slopes")
    )
    result = bounding.NetworkBounds.of(network, low, high).variable(network.result)
    size = network.result.size
    rows = np.broadcast_to(np.eye(size), (len(low), size, size))
    least, most = (
        searching.SlopeSearch({result: side * rows}, {}).bounds(4) for side in (1, -1)
    )
    return np.maximum(least, result.low), np.minimum(-most, result.high)


def verdict(
    name: str,
    tree: ast.Module,
    networks_: Sequence[Observed],
    expected: Sequence[tuple[Floats, Floats]],
) -> str:
    """
    Return the verdict on a mutant of the module `name`: `equal` if its bounds are those of
    the module.
    """
    with _imported(name, tree):
        try:
            found = bounds_of(networks_)
            for part, holds in CHECKS.items():
                if not holds():
                    return f"refuted ({part})"
        except Exception as e:  # A mutant may fail in any way.
            return f"refuted ({type(e).__name__})"
    is_equal, is_tighter = True, False
    for (low, high), (least, most), each in zip(
        found, expected, networks_, strict=True
    ):
        if not np.all((low <= each.least) & (each.most <= high)):
            return "refuted"
        is_equal &= np.array_equal(low, least) and np.array_equal(high, most)
        margin = 1e-9 * (1 + np.abs(most - least))
        is_tighter |= bool(np.any((low > least + margin) | (high < most - margin)))
    if is_equal:
        return "equal"
    return "open" if is_tighter else "harmless (wider)"


@contextmanager
def _imported(name: str, tree: ast.Module) -> Generator[None]:
    """Import the package with a mutant of the module `name`, within a `with` block."""
    finder = _MutantFinder(f"{PACKAGE}.{name}", tree)
    packages = PACKAGE.rpartition(".")[0], "tests.unit"
    known = {
        key: sys.modules[key] for key in [*sys.modules] if key.startswith(packages)
    }
    for key in known:
        del sys.modules[key]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for key in [key for key in sys.modules if key.startswith(packages)]:
            del sys.modules[key]
        sys.modules.update(known)


_FAST = "refused or named or match or several_rows or stored or sides or cases_contain"
"""Names of fast unit tests: above all, what the analysis refuses."""


def is_refused(name: str, tree: ast.Module) -> bool:
    """Return True if a unit test fails for a mutant."""
    names = "test_certificates", "test_class_search"
    tests = [f"tests/unit/proving/{name}.py" for name in names]
    arguments = [
        "-q",
        "-x",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-k",
        _FAST,
        *tests,
    ]
    with _imported(name, tree), redirect_stdout(StringIO()):
        return pytest.main(arguments) != 0


def is_listed(function: str, change: str) -> bool:
    """Return True if the file of sound mutants has a mutant."""
    return any(each.has(Mutant(function, change)) for each in listed(SOUND))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the verdict on each mutant, and their counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batches", type=int, default=4)
    options = parser.parse_args(arguments)
    known = [observed(name, options.batches, options.seed) for name in NETWORKS]
    expected = bounds_of(known)
    rng = np.random.default_rng(options.seed)
    counts: dict[str, int] = dict.fromkeys(("refuted", "harmless", "open"), 0)
    for _ in range(options.count):
        name = MUTATED[int(rng.integers(len(MUTATED)))]
        tree, function, change = mutant((FOLDER / f"{name}.py").read_text(), rng)
        with np.errstate(all="ignore"):
            found = verdict(name, copy.deepcopy(tree), known, expected)
            if found in ("equal", "open") and is_refused(name, copy.deepcopy(tree)):
                found = "refuted (unit test)"
        if found in ("equal", "open"):
            found = (
                "harmless (listed)"
                if is_listed(f"{name}.{function}", change)
                else "open"
            )
        counts[found.split()[0]] += 1
        print(f"{found}: {name}.{function}\n{change}", flush=True)
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
