"""Compares the casts of a type: quantization and dequantization."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp
from xdsl_quant.dialects.quant.types import (
    UniformType,
    scalar_or_element_type,
    uniform_type,
)
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.runtime.loading import parse_type

from .comparison import Comparison, Difference, Match, Row
from .compiled import DEFAULT, ROUNDINGS, Compiled, MLIRDefault, options_of
from .definitions import OnnxDefinition, StableHLODefinition
from .inputs import all_expressed_values, expressed_values, stored_values
from .libraries import (
    XNNPACK,
    LiteRTOptimized,
    LiteRTReference,
    OnnxRuntime,
    StableHLO,
    Torch,
    TorchFakeQuantize,
)
from .runtimes import Library, Runtime, Unavailable
from .worker import Worker

Array = NDArray[Any]
Op = Literal["quantize", "dequantize"]

RUNTIMES: Mapping[str, Runtime] = {
    runtime.name: runtime
    for runtime in (
        *map(Compiled, ROUNDINGS),
        OnnxDefinition(),
        OnnxRuntime(),
        Torch(),
        TorchFakeQuantize(),
        LiteRTReference(),
        LiteRTOptimized(),
        XNNPACK(),
        StableHLODefinition(),
        StableHLO(),
        MLIRDefault(),
    )
}
"""What can be compared, by name."""

_CANDIDATES = (
    *ROUNDINGS,
    *(
        each._replace(nan="stored-zero")
        for each in ROUNDINGS
        if each.mode != "truncate"
    ),
)
"""All options that may reproduce a runtime; to truncate is not defined for NaN."""


def compare_runtimes(
    source: ModuleOp | Attribute | str,
    *,
    against: str = "compiled",
    runtimes: Sequence[str] | None = None,
    all_inputs: bool = False,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Iterator[Comparison]:
    """
    Two comparisons for each pair of a scale and a zero point: of quantization, and of
    dequantization of all stored values.

    Quantized are all floats of 16 bits. Of wider ones it is all within 4 units in the last
    place of a multiple of half a scale, where any quantization steps up, zeros,
    infinities, NaN, 16 for each sign and exponent, and 65,536 random ones in range.

    Args:
        source: a quantized type or its text; or a module, for all its casts.
        against: the name of the runtime that others are compared with.
        runtimes: the names of the others; by default all in `RUNTIMES`.
        all_inputs: whether to quantize all floats of 32 bits, too, which takes seconds to
            hours for each runtime.
        progress: is given the numbers of chunks of them, and passes them on.

    Raises:
        ValueError: if there is no such runtime, or no such type of casts.
        Unavailable: if the runtime to compare with is not installed or has no such type,
            or all inputs are too many.
        IRError: if a text is no type.
    """
    names = [against, *(RUNTIMES if runtimes is None else runtimes)]
    for name in names:
        if name not in RUNTIMES:
            raise ValueError(
                f"unknown runtime {name!r}; available: {', '.join(map(repr, RUNTIMES))}"
            )
    chosen = [RUNTIMES[name] for name in dict.fromkeys(names)]
    with Worker() as worker:
        for parameters in _parameters_of(source):
            if all_inputs:
                chunks = all_expressed_values(parameters, progress)
            else:
                chunks = iter([expressed_values(parameters)])
            yield _compared(parameters, "quantize", chosen, worker, chunks)
            chunks = iter([stored_values(parameters)])
            yield _compared(parameters, "dequantize", chosen, worker, chunks)


def _parameters_of(
    source: ModuleOp | Attribute | str,
) -> Sequence[QuantizationParameters]:
    """The parameters of all casts, each pair of a scale and a zero point alone."""
    types: list[Attribute] = []
    if isinstance(source, ModuleOp):
        for op in source.walk():
            if isinstance(op, QuantizeCastOp):
                types.append(op.result.type)
            elif isinstance(op, DequantizeCastOp):
                types.append(op.input.type)
        if not types:
            raise ValueError("the module has no casts, nothing to compare")
    else:
        types.append(parse_type(source) if isinstance(source, str) else source)
    found: dict[QuantizationParameters, None] = {}
    for type_ in map(scalar_or_element_type, types):
        if not isinstance(type_, UniformType):
            raise ValueError(f"'{type_}' is no '!quant.uniform' type")
        for each in type_.per_tensor_types():
            found[QuantizationParameters.from_type(each)] = None
    return [*found]


# Comparison


@dataclass
class _Count:
    """For how many inputs two runtimes differ."""

    numbers: int = 0
    nans: int = 0
    first: tuple[tuple[float, bool], Difference] | None = None
    """The difference at the smallest magnitude, after this magnitude and sign."""

    def add(
        self,
        inputs: Array,
        found: NDArray[np.float64],
        expected: NDArray[np.float64],
        is_nan: NDArray[np.bool_],
    ) -> None:
        """Count where results differ; what is not defined does not."""
        differ = (found != expected) & ~np.isnan(found) & ~np.isnan(expected)
        self.nans += int(np.count_nonzero(differ & is_nan))
        places = np.flatnonzero(differ & ~is_nan)
        if not places.size:
            return
        self.numbers += places.size
        numbers = _as_numbers(inputs[places])
        place = np.lexsort((np.signbit(numbers), np.abs(numbers)))[0]
        key = float(abs(numbers[place])), bool(np.signbit(numbers[place]))
        if self.first is None or key < self.first[0]:
            index = places[place]
            results = (_text(float(each[index])) for each in (found, expected))
            self.first = key, Difference(str(inputs[index]), *results)

    @property
    def difference(self) -> Difference | None:
        """The first difference."""
        return None if self.first is None else self.first[1]


@dataclass
class _Tally:
    """What is known of a runtime so far."""

    runtime: Runtime
    candidates: Sequence[_Count]
    """Compared with compiled code with options."""

    own: _Count = field(default_factory=_Count)
    """Compared with the runtime that all are compared with."""

    nan_results: set[str] = field(default_factory=set[str])


def _compared(
    parameters: QuantizationParameters,
    op: Op,
    chosen: Sequence[Runtime],
    worker: Worker,
    chunks: Iterator[Array],
) -> Comparison:
    roundings = _CANDIDATES
    if op == "dequantize":
        # Only the type that is computed in depends on the rounding.
        roundings = tuple(each for each in ROUNDINGS if each[1:] == DEFAULT[1:])
        chosen = [
            each
            for each in chosen
            if not isinstance(each, Compiled) or each.rounding in roundings
        ]
    left_out = {each.name: why for each in chosen if (why := each.missing())}
    present = [each for each in chosen if each.name not in left_out]
    candidates: Sequence[Compiled] = ()
    if not Compiled().missing() and not all(isinstance(r, Compiled) for r in present):
        candidates = [*map(Compiled, roundings)]
    tallies = [_Tally(each, [_Count() for _ in candidates]) for each in present]

    def result(runtime: Runtime, inputs: Array) -> Array:
        if isinstance(runtime, Library):
            return worker.call(runtime, op, parameters, inputs)
        return getattr(runtime, op)(parameters, inputs)

    reference = chosen[0]

    def expected_of(inputs: Array) -> Array:
        try:
            if reference.name in left_out:
                raise Unavailable(left_out[reference.name])
            return result(reference, inputs)
        except Unavailable as error:
            raise Unavailable(
                f"cannot compare with '{reference.name}': {error}"
            ) from None

    total = 0
    for inputs in chunks:
        total += inputs.size
        expected = _as_numbers(expected_of(inputs))
        others = [_as_numbers(result(candidate, inputs)) for candidate in candidates]
        is_nan = np.isnan(_as_numbers(inputs))
        for tally in [*tallies]:
            try:
                found = _as_numbers(result(tally.runtime, inputs))
            except Unavailable as error:
                left_out[tally.runtime.name] = str(error)
                tallies.remove(tally)
                continue
            tally.own.add(inputs, found, expected, is_nan)
            for count, other in zip(tally.candidates, others, strict=True):
                count.add(inputs, found, other, is_nan)
            tally.nan_results.update(map(_text, np.unique(found[is_nan]).tolist()))
    type_ = uniform_type(parameters)
    return Comparison(
        f"{op} {type_}",
        reference.name,
        total,
        [_row(tally, roundings) for tally in tallies],
        left_out,
    )


def _as_numbers(results: Array) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return results.astype(np.float64)


def _text(result: float) -> str:
    if math.isnan(result):
        return "undefined"
    if result.is_integer():
        return str(int(result))
    # Most results are floats of at most 32 bits.
    return str(short if (short := np.float32(result)) == result else result)


def _row(tally: _Tally, roundings: Sequence[Rounding]) -> Row:
    runtime = tally.runtime
    match = None
    if not isinstance(runtime, Compiled) and tally.candidates:
        best, rounding = min(
            zip(tally.candidates, roundings, strict=True),
            key=lambda pair: (pair[0].numbers, pair[0].nans, len(options_of(pair[1]))),
        )
        match = Match(
            options_of(rounding), best.numbers, best.difference, not best.nans
        )
    own, nan = tally.own, ", ".join(sorted(tally.nan_results))
    return Row(runtime.name, runtime.version(), own.numbers, own.difference, nan, match)
