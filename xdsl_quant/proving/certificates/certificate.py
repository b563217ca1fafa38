"""
Certificates: how far a quantized network can be from its float network in regions.

```python
found = certify("int8.tflite", "model.tflite", Region.ball(samples, 0.05))
print(found)
```
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from xdsl_quant.diagnostics import counted, location_prefix, op_name, table
from xdsl_quant.quantizer.signal_noise import json_text
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import Model, as_module

from .analysis import Analysis
from .attacks import Attack, runner
from .bounds import Variable
from .class_search import leads, smallest_leads
from .linear_maps import Floats
from .networks import Network, Value, scaled_type
from .pairing import Pairing
from .readers import read_network
from .regions import Region

Verdict: TypeAlias = Literal["certified", "refuted", "open"]
"""Outcome of a claim: holds for all arguments, an argument refutes it, or unknown."""

CLAIMS = ("float", "quantized", "agreement")
"""
Claims on the class: constant in the float model, in the quantized model, and the same in
both models.
"""

_MOST_ELEMENTS = 1 << 20
"""Maximum number of elements of a variable, all regions of a chunk together."""

_MOST_CASES = 400
_SPLIT_VALUES = 5000
"""Number of cases of a region for networks with at most this number of values."""

_KEPT_BYTES = 1 << 24
"""Size of an array, above that of coefficients."""


@dataclass(frozen=True)
class RegionCertificate:
    """Bounds and observations of one region."""

    errors: Sequence[float]
    """Largest possible absolute error of each result."""

    observed: float
    """Largest absolute error found, of any result."""

    argument: Sequence[float]
    """The `f32` argument with this error, flattened."""

    margin: float
    """
    Largest distance by which the class of the float model is certain to lead in the float
    model; negative if another class may lead, NaN without classes.
    """

    classes: tuple[int, int]
    """Classes at the center of the region: of the float model, of the quantized one."""

    verdicts: Mapping[str, Verdict]
    """Verdict of each claim in `CLAIMS`; empty without classes."""

    witnesses: Mapping[str, Sequence[float]]
    """Arguments that refute claims, flattened."""

    @property
    def error(self) -> float:
        """Largest possible absolute error of any result."""
        return max(self.errors)


@dataclass(frozen=True)
class KernelBound:
    """Largest error of the result of a kernel."""

    op: str
    """Name of the op of the quantized model."""

    place: str
    """Location of the op, or empty."""

    shape: Sequence[int]

    error: float
    """Largest absolute difference from the float model in all regions."""

    magnitude: float
    """Largest absolute value in the float model."""


@dataclass(frozen=True)
class Certificate:
    """Bounds of the error of a quantized network in some regions."""

    regions: Sequence[RegionCertificate]
    kernels: Sequence[KernelBound]

    seconds: float
    """Processor time of the analysis, without the search for witnesses."""

    shape: Sequence[int] = field(default=())
    """Shape of the argument."""

    @property
    def error(self) -> float:
        """Largest possible absolute error of a result in any region."""
        return max(each.error for each in self.regions)

    @property
    def observed(self) -> float:
        """Largest absolute error found."""
        return max(each.observed for each in self.regions)

    @property
    def ratio(self) -> float:
        """Median of bound divided by largest error found, over the regions."""
        ratios = [each.error / each.observed for each in self.regions if each.observed]
        return float(np.median(ratios)) if ratios else np.inf

    def count(self, claim: str, verdict: Verdict) -> int:
        """Return the number of regions with a verdict of a claim."""
        return sum(each.verdicts.get(claim) == verdict for each in self.regions)

    def json(self) -> str:
        """Return the certificate as JSON, with the names of fields as keys."""
        return json_text(asdict(self))

    def __str__(self) -> str:
        """Return a table of kernels, a table of claims, and the bound of the results."""
        rows = [("kernel", "op", "shape", "error at most", "values at most")]
        for kernel in self.kernels:
            shape = "x".join(map(str, kernel.shape))
            numbers = f"{kernel.error:.4g}", f"{kernel.magnitude:.4g}"
            rows.append((kernel.place, kernel.op, shape, *numbers))
        lines = [*table(rows), ""]
        if self.regions[0].verdicts:
            names: tuple[Verdict, ...] = ("certified", "refuted", "open")
            claims = [
                (TITLES[claim], *(str(self.count(claim, name)) for name in names))
                for claim in CLAIMS
            ]
            lines += [*table([("same class", *names), *claims]), ""]
        lines.append(
            f"error of a result in {counted(len(self.regions), 'region')}: at most "
            f"{self.error:.4g}, found {self.observed:.4g} (median ratio {self.ratio:.1f})"
        )
        return "\n".join(lines)


TITLES = {
    "float": "in the float model",
    "quantized": "in the quantized model",
    "agreement": "in both models",
}


def certify(
    quantized: Model,
    float_model: Model,
    region: Region,
    *,
    entry: str | None = None,
    tries: int = 100,
    cases: int | None = None,
    seed: int = 0,
) -> Certificate:
    """
    Bound the error of a quantized network for all arguments of regions.

    Args:
        quantized: the quantized model: a module, MLIR text, or the path of a file.
        float_model: the float model that was quantized.
        region: arguments of both models, in floating point.
        entry: the function; by default the only public one, or `main`.
        tries: number of arguments of each region to run, in search of large errors and
            of other classes; 0 to run only the center.
        cases: largest number of cases into which a region is split to certify its class;
            by default 400, or fewer for networks with more than 5,000 values.
        seed: seed of the search.

    Raises:
        PassFailedException: if an op has no transfer function, or the models differ.
        ValueError: if a model cannot be bounded, or the region does not match it.
    """
    modules = as_module(quantized), as_module(float_model)
    start = time.process_time()
    networks = [read_network(entry_function(module, entry)) for module in modules]
    pairing = Pairing.of(networks[0], networks[1])
    shape = networks[0].argument.shape
    region.flattened(networks[0].argument.size)
    search = _WitnessSearch(modules, entry, region, shape, tries, seed)
    search.step = _argument_step(pairing)
    kernels: dict[Value, KernelBound] = {}
    regions = [*_certificates(pairing, region, search, kernels, cases)]
    seconds = time.process_time() - start - search.seconds
    return Certificate(regions, [*kernels.values()], seconds, shape)


def _certificates(
    pairing: Pairing,
    region: Region,
    search: _WitnessSearch,
    kernels: dict[Value, KernelBound],
    cases: int | None,
) -> Iterator[RegionCertificate]:
    """Yield the certificates of all regions, and add the bounds of kernels."""
    # The C library keeps freed arrays of up to this size, and so does not map them anew.
    np.empty(_KEPT_BYTES, np.uint8)
    networks = pairing.quantized, pairing.float_network
    if cases is None:
        cases = _default_cases(networks)
    low, high = region.flattened(networks[0].argument.size)
    widest = max(value.size for network in networks for value in network.values)
    step = min(max(1, _MOST_ELEMENTS // widest), 32)
    for first in range(0, len(region), step):
        part = slice(first, first + step)
        ends = low[part], high[part]
        analysis = Analysis.of(pairing, *ends)
        chunk = _Chunk.of(analysis, search.classes(part))
        _add_kernels(kernels, analysis)
        search.run(first, chunk)
        _split_regions(pairing, ends, search.attacks[part], chunk, cases)
        yield from search.certificates(first, chunk)


def _default_cases(networks: Sequence[Network]) -> int:
    """Return the number of cases of a region: less for networks with many values."""
    size = max(sum(value.size for value in network.values) for network in networks)
    return min(_MOST_CASES, int(_MOST_CASES * (_SPLIT_VALUES / size) ** 2))


def _split_regions(
    pairing: Pairing,
    ends: tuple[Floats, Floats],
    attacks: Sequence[Attack],
    chunk: _Chunk,
    cases: int,
) -> None:
    """Raise the margins of classes that are neither certain nor refuted."""
    networks = {"float": pairing.float_network, "quantized": pairing.quantized}
    for number, (name, network) in enumerate(networks.items()):
        if cases < 1 or (margins := chunk.margins.get(name)) is None:
            continue
        is_open = (margins <= 0) & [name not in each.refuted for each in attacks]
        rows = np.flatnonzero(is_open).tolist()
        if rows:
            low, high = (end[rows] for end in ends)
            classes = [attacks[row].classes[number] for row in rows]
            found = smallest_leads(network, low, high, classes, cases)
            margins[rows] = np.maximum(margins[rows], found)


def _location_of(op: Operation) -> str:
    """Return the location name of an op, or its position in a file."""
    prefix = location_prefix(op.location).removesuffix(": ")
    return prefix.removeprefix('loc("').removesuffix('")') or "-"


def _add_kernels(kernels: dict[Value, KernelBound], analysis: Analysis) -> None:
    """Add the bounds of all kernels, or replace them by larger ones."""
    # Of the values of an op, such as its exact sum and its rounding, the last one.
    results = {value.op: value for value in analysis.pairs if value.op is not None}
    for value in results.values():
        pair, op = analysis.pairs[value], value.op
        assert op is not None
        parts = pair.difference, pair.number
        error, magnitude = (float(each.magnitude.max()) for each in parts)
        if (known := kernels.get(value)) is not None:
            error, magnitude = max(error, known.error), max(magnitude, known.magnitude)
        names = op_name(op), _location_of(op)
        kernels[value] = KernelBound(*names, value.shape, error, magnitude)


def _argument_step(pairing: Pairing) -> float:
    """Return the scale of the stored arguments; 0 without a single scale."""
    rounded = pairing.quantized.stored_argument()
    if rounded is None or rounded.op is None:
        return 0.0
    type_ = scaled_type(rounded.op.results[0].type)
    if type_ is None or not type_.is_per_tensor:
        return 0.0
    return float(type_.get_scales())


@dataclass(frozen=True)
class _Chunk:
    """Bounds of the results of some regions."""

    errors: Floats
    """Largest absolute error `[regions, results]`."""

    margins: Mapping[str, Floats]
    """Smallest lead of the class in each model, `[regions]`; empty without classes."""

    directions: tuple[Floats, Floats]
    """
    Directions in which errors and leads grow, `[regions, rows, elements]`: of the
    argument, and of the error of its quantization.
    """

    @staticmethod
    def of(analysis: Analysis, classes: Sequence[tuple[int, int]]) -> _Chunk:
        pair = analysis.result()
        (count,) = pair.difference.low.shape[1:]
        errors = np.broadcast_to(np.eye(count), (len(classes), count, count))
        # Rows of coefficients of the float values, and of the differences.
        parts = [(np.zeros_like(errors), errors)]
        # Results of several rows, such as those of a batch, have no single class.
        if 1 < count == max(analysis.pairing.quantized.result.shape):
            first, second = (leads(each, count) for each in zip(*classes, strict=True))
            parts += [(first, np.zeros_like(first)), (second, second)]
        rows = [np.concatenate(each, axis=1) for each in zip(*parts, strict=True)]
        watched = _watched(analysis, rows[0].shape[1])
        low, high = analysis.variables.bound(
            dict(zip((pair.number, pair.difference), rows, strict=True)), watched
        )
        smallest = np.maximum(low[:, :count], pair.difference.low)
        largest = np.minimum(high[:, :count], pair.difference.high)
        parts_of_leads = np.split(low[:, count:], 2, axis=1)
        # No margins without classes.
        names = zip(CLAIMS[: len(parts) - 1], parts_of_leads, strict=False)
        margins = {name: part.min(axis=1) for name, part in names}
        first, second = watched.values()
        return _Chunk(np.maximum(-smallest, largest), margins, (first, second))


def _watched(analysis: Analysis, rows: int) -> dict[Variable, Floats]:
    """Return zeros as coefficients of the argument, and of its quantization error."""
    argument = analysis.pairs[analysis.pairing.quantized.argument]
    rounded = analysis.pairing.quantized.stored_argument()
    second = argument if rounded is None else analysis.pairs[rounded]
    return {
        variable: np.zeros((analysis.variables.regions, rows, variable.low.shape[1]))
        for variable in (argument.number, second.difference)
    }


class _WitnessSearch:
    """Runs of both models in the regions."""

    def __init__(
        self,
        modules: tuple[ModuleOp, ModuleOp],
        entry: str | None,
        region: Region,
        shape: Sequence[int],
        tries: int,
        seed: int,
    ) -> None:
        before = time.process_time()
        runs = [runner(module, entry, shape) for module in modules]
        low, high = region.float_ends(int(np.prod(shape)))
        self.attacks = [
            Attack(runs[1], runs[0], *ends) for ends in zip(low, high, strict=True)
        ]
        self.tries, self.seed = tries, seed
        self.seconds = time.process_time() - before
        """Processor time of the search."""

        self.step = 0.0

    def classes(self, part: slice) -> Sequence[tuple[int, int]]:
        """Return the classes at the centers of some regions."""
        before = time.process_time()
        for attack in self.attacks[part]:
            center = (attack.low + attack.high) / 2
            center = center.astype(np.float32).astype(np.float64)
            attack.start(np.clip(center, attack.low, attack.high))
        self.seconds += time.process_time() - before
        return [attack.classes for attack in self.attacks[part]]

    def run(self, first: int, chunk: _Chunk) -> None:
        """Search in the regions of a chunk."""
        before = time.process_time()
        for row in range(len(chunk.errors)):
            attack = self.attacks[first + row]
            attack.step = self.step
            directions, roundings = (each[row] for each in chunk.directions)
            seed = self.seed + first + row
            attack.search(directions, roundings, self.tries, seed)
        self.seconds += time.process_time() - before

    def certificates(self, first: int, chunk: _Chunk) -> Iterator[RegionCertificate]:
        """Yield the certificates of the regions of a chunk, after the search."""
        for row, errors in enumerate(chunk.errors):
            attack = self.attacks[first + row]
            leads = {name: float(each[row]) for name, each in chunk.margins.items()}
            verdicts = _verdicts(attack, leads) if leads else {}
            _check_witnesses(attack, float(errors.max()), verdicts)
            yield RegionCertificate(
                errors.tolist(),
                attack.error.value,
                attack.error.argument.tolist(),
                leads.get("float", np.nan),
                attack.classes,
                verdicts,
                {name: each.tolist() for name, each in attack.refuted.items()},
            )


def _verdicts(attack: Attack, leads: Mapping[str, float]) -> dict[str, Verdict]:
    """Return the verdicts on the classes of a region."""
    is_certain = {name: lead > 0 for name, lead in leads.items()}
    is_certain["agreement"] = (
        all(is_certain.values()) and attack.classes[0] == attack.classes[1]
    )
    return {
        name: "certified"
        if is_certain[name]
        else "refuted"
        if name in attack.refuted
        else "open"
        for name in CLAIMS
    }


def _check_witnesses(
    attack: Attack, error: float, verdicts: Mapping[str, Verdict]
) -> None:
    """Raise an `AssertionError` if an argument violates the bounds."""
    is_wrong = any(verdicts.get(name) == "certified" for name in attack.refuted)
    # Also true for NaN.
    if is_wrong or not attack.error.value <= error:
        found = f"error {attack.error.value:g} exceeds the bound {error:g}"
        argument = ", ".join(map(str, attack.error.argument.tolist()))
        raise AssertionError(f"{found} or a certified class differs at {argument}")


def witnesses(found: Certificate) -> Iterator[tuple[int, str, Sequence[float]]]:
    """Yield the region, the claim and the argument for each refuted claim."""
    for number, region in enumerate(found.regions):
        for claim, argument in region.witnesses.items():
            if region.verdicts.get(claim) == "refuted":
                yield number, claim, argument
