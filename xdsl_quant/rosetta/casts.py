"""Comparison of the quantize and dequantize casts of a type across runtimes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp
from xdsl_quant.dialects.quant.types import (
    UniformType,
    scalar_or_element_type,
    uniform_type,
)
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.loading import parse_type

from .comparison import RuntimeComparison
from .compiled import DEFAULT, ROUNDINGS, Compiled, MLIRDefault, compile_options
from .counting import InputLabels, RuntimeRun, as_f64, counted_differences
from .inputs import all_expressed_values, expressed_values, stored_inputs
from .libraries import (
    XNNPACK,
    LiteRTOptimized,
    LiteRTReference,
    OnnxRuntime,
    StableHLO,
    Torch,
    TorchFakeQuantize,
)
from .runtimes import CastKind, Library, OnnxDefinition, Runtime, StableHLODefinition
from .worker import Worker

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
"""Runtimes to compare, by name."""

_CANDIDATES = (
    *ROUNDINGS,
    *(
        rounding._replace(nan="stored-zero")
        for rounding in ROUNDINGS
        if rounding.mode != "truncate"
    ),
)
"""Rounding options that may reproduce a runtime. NaN is undefined for `truncate`."""


def compare_runtimes(
    source: ModuleOp | Attribute | str,
    *,
    against: str = "compiled",
    runtimes: Sequence[str] | None = None,
    all_inputs: bool = False,
    progress: Callable[[Iterable[int]], Iterable[int]] = iter,
) -> Iterator[RuntimeComparison]:
    """
    Yield comparisons of quantization and, if `against` supports it, of dequantization,
    for each pair of a scale and a zero point.

    Inputs are all stored values and all 16-bit floats. Of wider floats, a sample is
    used: around each multiple of half a scale, for each exponent, and at random.

    Args:
        source: a quantized type or its text; or a module, to compare all its casts.
        against: name of the reference runtime, which all others are compared with.
        runtimes: names of the other runtimes; by default all in `RUNTIMES`.
        all_inputs: True to quantize all 32-bit floats, which takes an hour.
        progress: wrapper of an iterable, to show progress over chunks of inputs.

    Raises:
        ValueError: if a runtime is unknown, or a type is not `!quant.uniform`.
        Unavailable: if `against` does not support the type, or for over 2**32 inputs.
        IRError: if the text is not a type.
    """
    names = runtime_names(against, runtimes, [*RUNTIMES])
    chosen = [RUNTIMES[name] for name in names]
    with Worker() as worker:
        for parameters in _parameters_of(source):
            if all_inputs:
                chunks = all_expressed_values(parameters, progress)
            else:
                chunks = iter([expressed_values(parameters)])
            yield _cast_comparison(parameters, "quantize", chosen, worker, chunks)
            if chosen[0].only_quantizes:
                continue
            chunks = iter([stored_inputs(parameters)])
            yield _cast_comparison(parameters, "dequantize", chosen, worker, chunks)


def runtime_names(
    against: str, others: Sequence[str] | None, known: Sequence[str]
) -> Sequence[str]:
    """
    Return the names of the runtimes to compare, without duplicates.

    Raises:
        ValueError: if a name is unknown.
    """
    names = dict.fromkeys([against, *(known if others is None else others)])
    for name in names:
        if name not in known:
            raise ValueError(
                f"unknown runtime {name!r}; available: {', '.join(map(repr, known))}"
            )
    return [*names]


def _parameters_of(
    source: ModuleOp | Attribute | str,
) -> Sequence[QuantizationParameters]:
    """Return the distinct per-tensor parameters of all casts."""
    types: list[Attribute] = []
    if isinstance(source, ModuleOp):
        for op in source.walk():
            if isinstance(op, QuantizeCastOp):
                types.append(op.result.type)
            elif isinstance(op, DequantizeCastOp):
                types.append(op.input.type)
        if not types:
            raise ValueError("expected casts to compare, found none")
    else:
        types.append(parse_type(source) if isinstance(source, str) else source)
    unique: dict[QuantizationParameters, None] = {}
    for type_ in map(scalar_or_element_type, types):
        if not isinstance(type_, UniformType):
            raise ValueError(f"'{type_}' is not a '!quant.uniform' type")
        for tensor_type in type_.per_tensor_types():
            unique[QuantizationParameters.from_integer_type(tensor_type)] = None
    return [*unique]


# Comparison


def _cast_comparison(
    parameters: QuantizationParameters,
    op: CastKind,
    chosen: Sequence[Runtime],
    worker: Worker,
    chunks: Iterator[Array],
) -> RuntimeComparison:
    roundings = _CANDIDATES
    if op == "dequantize":
        # Only the mode affects dequantization: it selects the float type of the
        # computation.
        roundings = tuple(r for r in ROUNDINGS if r[1:] == DEFAULT[1:])
        chosen = [
            runtime
            for runtime in chosen
            if not isinstance(runtime, Compiled) or runtime.rounding in roundings
        ]

    def computation(runtime: Runtime) -> RuntimeRun[Array]:
        def run(values: Array) -> Array:
            if isinstance(runtime, Library):
                return worker.call(runtime.run, op, parameters, values)
            return runtime.run(op, parameters, values)

        options = None
        if isinstance(runtime, Compiled):
            options = compile_options(runtime.rounding)
        return RuntimeRun(
            runtime.name, run, runtime.version(), options, runtime.missing()
        )

    candidates = () if Compiled().missing() else map(Compiled, roundings)
    return counted_differences(
        f"{op} {uniform_type(parameters)}",
        [*map(computation, chosen)],
        [*map(computation, candidates)],
        ((chunk, _labels(chunk)) for chunk in chunks),
    )


def _labels(inputs: Array) -> InputLabels:
    return InputLabels(as_f64(inputs), lambda index: str(inputs[index]))
