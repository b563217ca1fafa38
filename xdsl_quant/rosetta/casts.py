"""Compares the casts of a type: quantization and dequantization."""

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
) -> Iterator[RuntimeComparison]:
    """
    Two comparisons for each pair of a scale and a zero point: of quantization, and of
    dequantization of all stored values, unless what is compared with only quantizes.

    Quantized are all floats of 16 bits. Of wider ones it is all within 4 units in the last
    place of a multiple of half a scale, where any quantization steps up, zeros,
    infinities, NaN, 16 for each sign and exponent, and 65,536 random ones in range.

    Args:
        source: a quantized type or its text; or a module, for all its casts.
        against: the name of the runtime that others are compared with.
        runtimes: the names of the others; by default all in `RUNTIMES`.
        all_inputs: whether to quantize all floats of 32 bits, too, which takes an hour.
        progress: is given the numbers of chunks of them, and passes them on.

    Raises:
        ValueError: if there is no such runtime, or no such type of casts.
        Unavailable: if the runtime to compare with is not installed or has no such type,
            or all inputs are too many.
        IRError: if a text is no type.
    """
    names = chosen_names(against, runtimes, [*RUNTIMES])
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


def chosen_names(
    against: str, others: Sequence[str] | None, known: Sequence[str]
) -> Sequence[str]:
    """
    The names of the runtimes that are compared, each one once.

    Raises:
        ValueError: if one of them is not known.
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
            found[QuantizationParameters.from_integer_type(each)] = None
    return [*found]


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
        # Only the type that is computed in depends on the rounding.
        roundings = tuple(each for each in ROUNDINGS if each[1:] == DEFAULT[1:])
        chosen = [
            each
            for each in chosen
            if not isinstance(each, Compiled) or each.rounding in roundings
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
