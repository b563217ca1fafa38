"""
Mutants of the analysis of certificates, held against errors of drawn inputs.

`python -m tests.oracles.certificate_mutants --count 60` changes one operator, function or
constant in the transfer functions or the back substitution at a time. A mutant is `refuted`
if an error or a float result of a drawn input exceeds its bound, if a relaxation does not
contain drawn values, or if it raises an error. It is `harmless` if none of its bounds is
tighter than before, and `open` otherwise.
"""

from __future__ import annotations

import argparse
import ast
import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.proving import Region, certify
from xdsl_quant.proving.certificates.attacks import runner
from xdsl_quant.runtime.entry_function import entry_function

from .certificates import BATCH, Floats, drawn_inputs, networks

PACKAGE = "xdsl_quant.proving.certificates"
FOLDER = Path("xdsl_quant/proving/certificates")

MUTATED = (
    *("readers", "common_readers", "tfl_readers", "stablehlo_readers"),
    *("analysis", "functions", "bounds", "relaxations", "linear_maps"),
)
"""Modules to change."""

NETWORKS = (
    *("wine tfl", "breast_cancer stablehlo", "digits mlp stablehlo", "residual tfl"),
    *("wine_batch_norm tfl", "attention tfl", "attention stablehlo"),
    "wine_saturated tfl",
)

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
    """A network, and the errors and float results of drawn inputs."""

    quantized: ModuleOp
    float_module: ModuleOp
    low: Floats
    high: Floats

    least: Floats
    """Smallest errors, then smallest float results: `[regions, 2 * results]`."""

    most: Floats


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
        results = [_errors_and_results([run(worst) for run in single], 1)]
        for step in (0.0, *[1 / 255] * bool(network.limits), *[0.0] * (count - 1)):
            drawn = drawn_inputs(low, high, step, BATCH, rng)
            both = [run(drawn.ravel()) for run in runs]
            results.append(_errors_and_results(both, BATCH))
        least.append(np.concatenate(results).min(axis=0))
        most.append(np.concatenate(results).max(axis=0))
    low, high = regions.flattened(ends[0].shape[1])
    return Observed(*modules, low, high, np.array(least), np.array(most))


def _errors_and_results(runs: Sequence[Floats], rows: int) -> Floats:
    """Return the errors and the float results of a quantized and a float network."""
    quantized, number = (run.reshape(rows, -1) for run in runs)
    return np.concatenate([quantized - number, number], axis=1)


# Mutants


def _sites(tree: ast.AST) -> Iterator[ast.AST]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
                yield node
            elif isinstance(node, ast.Compare) and type(node.ops[0]) in _OPERATORS:
                yield node
            elif isinstance(node, ast.Attribute) and node.attr in _FUNCTIONS:
                yield node
            elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
                yield node


def mutant(source: str, rng: np.random.Generator) -> tuple[ast.Module, str]:
    """Change one place that is drawn, and return the module and its description."""
    tree = ast.parse(source)
    sites = [*_sites(tree)]
    index = int(rng.integers(len(sites)))
    node: Any = sites[index]
    before = ast.unparse(node)
    kind = type(sites[index])
    if kind is ast.BinOp:
        node.op = _OPERATORS[type(node.op)]()
    elif kind is ast.Compare:
        node.ops[0] = _OPERATORS[type(node.ops[0])]()
    elif kind is ast.Attribute:
        node.attr = _FUNCTIONS[node.attr]
    else:
        node.value = node.value / 2 if isinstance(node.value, float) else node.value + 1
    return tree, f"line {node.lineno}: {before} -> {ast.unparse(node)}"


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


def are_slopes_bounded() -> bool:
    """Return True if difference quotients of all functions are within their bounds."""
    functions = import_module(f"{PACKAGE}.functions").FUNCTIONS
    ends = np.sort(np.random.default_rng(2).normal(0, 3, (2000, 2)), axis=1)
    for function in functions.values():
        own = np.exp(ends) if function.domain == 0 else ends
        smallest, largest = function.slopes(own[:, 0], own[:, 1])
        change = np.diff(function.compute(own), axis=1)[:, 0]
        quotient = change / np.diff(own, axis=1)[:, 0]
        error = 1e-7 * (1 + np.abs(quotient))
        if np.any((quotient < smallest - error) | (quotient > largest + error)):
            return False
    return True


def _contains(variable: Any, value: Floats, operands: Mapping[Any, Floats]) -> bool:
    """Return True if a value is within the box and the linear bounds of its variable."""
    linear = variable.constant
    for operand, coefficient in variable.terms:
        if isinstance(coefficient, np.ndarray):
            linear = linear + coefficient * operands[operand]
        else:
            linear = linear + coefficient.apply(operands[operand])
    distance = np.abs(value - linear) - variable.radius - variable.slack
    is_inside = (variable.low <= value) & (value <= variable.high)
    return bool(np.all(is_inside & (distance <= 0)))


def are_relaxations_bounded() -> bool:
    """Return True if drawn products and softmax, and differences, are within bounds."""
    bounds, relaxations = (
        import_module(f"{PACKAGE}.{name}") for name in ("bounds", "relaxations")
    )
    rng = np.random.default_rng(2)
    shape = 200, 4
    variables = bounds.Variables(shape[0])
    inputs: list[Any] = []
    for _ in range(4):
        low, width = rng.normal(0, 2, shape), np.exp(rng.normal(-2, 2, shape))
        # Without width, rounding errors are all of the bound.
        width = np.where(rng.random((shape[0], 1)) < 0.5, width, 0.0)
        inputs.append(variables.input(low, low + width))
    pairs = [bounds.ValuePair(*inputs[:2]), bounds.ValuePair(*inputs[2:])]
    products = relaxations.product_pair(variables, *pairs)
    softmax = relaxations.softmax_pair(variables, pairs[0], shape[1])
    for _ in range(100):
        share = rng.random((4, *shape))
        share = np.where(rng.random(share.shape) < 0.5, np.rint(share), share)
        drawn = {
            each: each.low + part * (each.high - each.low)
            for each, part in zip(inputs, share, strict=True)
        }
        first, change, second, more = drawn.values()
        # Products that are rounded to `f32`, as far as they may be.
        unit = rng.choice([-1, 1]) * 2.0**-24
        changed = (first + change) * (second + more)
        for pair, before, after in (
            (products, first * second * (1 + unit), changed * (1 - unit)),
            (softmax, _softmax(first), _softmax(first + change)),
        ):
            if not _contains(pair.number, before, drawn):
                return False
            if not _contains(pair.difference, after - before, drawn):
                return False
    return True


def are_roundings_bounded() -> bool:
    """Return True if bounds of rounding errors are at least the exact largest errors."""
    maps, analysing, networking, pairing = (
        import_module(f"{PACKAGE}.{name}")
        for name in ("linear_maps", "analysis", "networks", "pairing")
    )
    for bits, count in product((24, 53), (1, 2, 7, 64, 4096, 10**5, 10**6)):
        exact = Fraction(count, 2**bits - count)
        if Fraction(maps.growth(count, 2.0**-bits)) < exact:
            return False
    bound = analysing._rounding_error
    for count in (1, 2, 7, 64):
        path = maps.Path([maps.Matrix(1, np.full((count, 1), 3.0))])
        base, zero = networking.Value(None, (count,)), np.zeros(1)
        total = networking.Sum(None, (1,), [(base, path)], zero)
        affine = pairing.expand(total, {base})
        # A product and `count - 1` sums, each rounded up; the constant is 0.
        exact = 3 * count * ((1 + Fraction(1, 2**24)) ** count - 1)
        if Fraction(bound(affine, [np.ones(count)])[0]) < exact:
            return False
    return True


def are_maps_consistent() -> bool:
    """Return True if differences and transposes of linear maps agree with their results."""
    maps = import_module(f"{PACKAGE}.linear_maps")
    rng = np.random.default_rng(2)
    paddings = (1, 0), (0, 1)
    window = maps.WindowGeometry((1, 5, 4, 4), (2, 1), (1, 2), paddings)
    kinds: Sequence[tuple[Any, tuple[int, ...]]] = (
        (partial(maps.Matrix, 2), (4, 3)),
        (partial(maps.Convolution, window), (2, 2, 2, 2, 3)),
        (partial(maps.Convolution, window), (2, 2, 1, 4, 3)),
        (maps.ElementScaling, (7,)),
    )
    for kind, shape in kinds:
        lhs, rhs = (kind(rng.normal(size=shape)) for _ in range(2))
        values = rng.normal(size=(2, lhs.inputs))
        change = lhs.apply(values) - rhs.apply(values)
        if not np.allclose(lhs.minus(rhs).apply(values), change):
            return False
        rows = rng.normal(size=(2, lhs.outputs))
        sums = (lhs.transpose(rows) * values).sum(), (rows * lhs.apply(values)).sum()
        if not np.isclose(float(sums[0]), float(sums[1])):
            return False
    return True


def _softmax(values: Floats) -> Floats:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


CHECKS = {
    "slopes": are_slopes_bounded,
    "relaxations": are_relaxations_bounded,
    "roundings": are_roundings_bounded,
    "maps": are_maps_consistent,
}
"""Checks of parts of the analysis, which import the package as it is now."""


def bounds_of(networks_: Sequence[Observed]) -> list[tuple[Floats, Floats]]:
    """
    Return bounds of the errors and of the float results by the package as it is imported
    now.
    """
    import_module(PACKAGE)
    reading, pairing, analysing = (
        import_module(f"{PACKAGE}.{name}")
        for name in ("readers", "pairing", "analysis")
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
        low, high = (np.concatenate(each, axis=1) for each in zip(*ends, strict=True))
        found.append((low, high))
    return found


def verdict(
    name: str,
    tree: ast.Module,
    networks_: Sequence[Observed],
    expected: Sequence[tuple[Floats, Floats]],
) -> str:
    """Return the verdict on a mutant of the module `name`."""
    finder = _MutantFinder(f"{PACKAGE}.{name}", tree)
    known = {key: module for key, module in sys.modules.items() if PACKAGE in key}
    for key in known:
        del sys.modules[key]
    sys.meta_path.insert(0, finder)
    try:
        found = bounds_of(networks_)
        for part, holds in CHECKS.items():
            if not holds():
                return f"refuted ({part})"
    except Exception as e:  # A mutant may fail in any way.
        return f"refuted ({type(e).__name__})"
    finally:
        sys.meta_path.remove(finder)
        for key in [key for key in sys.modules if PACKAGE in key]:
            del sys.modules[key]
        sys.modules.update(known)
    is_tighter = False
    for (low, high), (least, most), each in zip(
        found, expected, networks_, strict=True
    ):
        if not np.all((low <= each.least) & (each.most <= high)):
            return "refuted"
        margin = 1e-9 * (1 + np.abs(most - least))
        is_tighter |= bool(np.any((low > least + margin) | (high < most - margin)))
    return "open" if is_tighter else "harmless"


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
        tree, text = mutant((FOLDER / f"{name}.py").read_text(), rng)
        with np.errstate(all="ignore"):
            found = verdict(name, copy.deepcopy(tree), known, expected)
        counts[found.split()[0]] += 1
        print(f"{found:<28} {name} {text}", flush=True)
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
