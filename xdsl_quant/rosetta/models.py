"""Compares the ops of a TensorFlow Lite model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.dialects.quant import QuantizedType
from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.frontends.tflite import TFLiteFileError
from xdsl_quant.frontends.tflite.lowering.kernels import unsupported_type
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import numpy_dtype
from xdsl_quant.runtime.loading import IRError, apply_passes

from .casts import RUNTIMES, chosen_names
from .comparison import Comparison
from .compiled import Compiled
from .counting import RuntimeRun, counted_differences
from .libraries import LiteRTReference, OnnxRuntime
from .onnx_ops import onnx_model
from .runtimes import Runtime, Unavailable
from .single_ops import SingleOp, single_ops
from .tosa import TosaTools
from .worker import Worker

_OPTIONS: Sequence[Mapping[str, str]] = (
    {},
    {"kernels": "multiplier"},
    {"fallback": "only"},
)
"""The options of `convert-tfl-to-linalg` that change results."""


def _options_name(options: Mapping[str, str]) -> str:
    return " ".join(["compiled", *(f"{key}={value}" for key, value in options.items())])


TOSA = "tosa"
"""The public converter to TOSA, and TOSA's reference model."""

_LIBRARIES = (LiteRTReference, OnnxRuntime)

OP_RUNTIMES: Sequence[str] = (
    *map(_options_name, _OPTIONS),
    *(each.name for each in RUNTIMES.values() if isinstance(each, _LIBRARIES)),
    TOSA,
)
"""The names of what computes ops."""


def compare_ops(
    module: ModuleOp,
    *,
    against: str = "compiled",
    runtimes: Sequence[str] | None = None,
    ops: Sequence[str] | None = None,
) -> Iterator[Comparison]:
    """
    A comparison for each op that computes with stored values.

    Elementwise ops get all stored values, or all pairs of them, or 65,536 random pairs of
    more than 8 bits. Other ops keep their shapes and constants, and get random stored
    values, for at least 4 runs and 4,096 results.

    Args:
        module: functions of ops of the `tfl` dialect.
        against: the name of the runtime that others are compared with.
        runtimes: the names of the others; by default all in `OP_RUNTIMES`.
        ops: the names of ops, e.g. `add`; by default all.

    Raises:
        ValueError: if there is no such runtime, or no such op.
    """
    names = chosen_names(against, runtimes, OP_RUNTIMES)
    found = False
    with Worker() as worker, TosaTools() as tools:
        for single in single_ops(module, ops):
            found = True
            yield _op_comparison(single, names, worker, tools)
    if not found:
        raise ValueError(_unsupported_type(module) or _nothing_to_compare(ops))


def _unsupported_type(module: ModuleOp) -> str | None:
    """Why a type of a module is none of TensorFlow Lite; `None` if all are."""
    values = (v for op in module.walk() for v in (*op.operands, *op.results))
    types = (QuantizedType.get_quantized_element_type(value.type) for value in values)
    reasons = (unsupported_type(type_) for type_ in types if type_ is not None)
    return next(filter(None, reasons), None)


def _nothing_to_compare(ops: Sequence[str] | None) -> str:
    which = "ops" if ops is None else f"ops {', '.join(map(repr, ops))}"
    return (
        f"the model has no {which} with static shapes that compute with stored values; "
        "--static takes the sizes in a .tflite file for which it was written"
    )


def _op_comparison(
    single: SingleOp, names: Sequence[str], worker: Worker, tools: TosaTools
) -> Comparison:
    compiled = [_compiled_computation(single, options) for options in _OPTIONS]
    by_name = {each.name: each for each in (*compiled, _in_tosa(single, tools))}
    computations = [
        by_name.get(name) or _of_library(single, RUNTIMES[name], worker)
        for name in names
    ]
    candidates = [each for each in compiled if not each.missing]
    # Not all ops have an integer form.
    candidates = [each for each in candidates if _runs(each)]
    return counted_differences(
        single.title, computations, candidates, [(None, single.labels)]
    )


def _runs(computation: RuntimeRun[None]) -> bool:
    try:
        computation.run(None)
    except Unavailable:
        return False
    return True


def _compiled_computation(
    single: SingleOp, options: Mapping[str, str]
) -> RuntimeRun[None]:
    @cache
    def run(_: None) -> Array:
        module = single.module.clone()
        listed = " ".join(f"{key}={value}" for key, value in options.items())
        try:
            lowering = f"convert-tfl-to-linalg{{{listed}}}"
            apply_passes(module, lowering, is_routine=True)
            function = compile(module)
        except (IRError, CompilationError) as error:
            raise Unavailable(str(error)) from None
        return np.concatenate([np.ravel(function(*run)) for run in single.runs])

    return RuntimeRun(_options_name(options), run, "", options, Compiled().missing())


def _of_library(single: SingleOp, runtime: Runtime, worker: Worker) -> RuntimeRun[None]:
    def run(_: None) -> Array:
        if isinstance(runtime, OnnxRuntime):
            model, bounds = onnx_model(single.op)
            results = worker.call(runtime.run_model, model, single.runs)
            return np.clip(np.concatenate(results), *bounds)
        assert isinstance(runtime, LiteRTReference)
        return np.concatenate(worker.call(runtime.run_file, _file(single), single.runs))

    return RuntimeRun(runtime.name, run, runtime.version(), None, runtime.missing())


def _in_tosa(single: SingleOp, tools: TosaTools) -> RuntimeRun[None]:
    def run(_: None) -> Array:
        dtype = numpy_dtype(single.op.results[0].type)
        return np.concatenate(tools.run_file(_file(single), single.runs, dtype))

    missing = "" if tools.are_installed else "'make tosa-tools' has not installed it"
    return RuntimeRun(TOSA, run, missing=missing)


def _file(single: SingleOp) -> bytes:
    try:
        return single.file
    except (TFLiteFileError, ImportError) as error:
        raise Unavailable(str(error)) from None
