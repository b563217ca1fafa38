"""Execution of the steps of a model by runtimes, and with variations of the arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import InterpretationError

from xdsl_quant.dialects.quant.ops import rounding_attributes
from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.kernel_set import KernelSet
from xdsl_quant.machines.numpy import StatefulModel
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.rounding_mode import Rounding, RoundingMode, ZeroPointOrder
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import IRError, apply_passes
from xdsl_quant.runtime.plugins import ModelFileError, dialects_in, plugins

from .casts import RUNTIMES
from .libraries import LiteRTReference, OnnxRuntime
from .runtimes import Unavailable
from .steps import ModelStep
from .worker import Worker

Runs: TypeAlias = "Sequence[Sequence[Array]]"
"""Arguments of each run."""

StepFunction: TypeAlias = "Callable[[Runs], Sequence[Array]]"
"""Function that computes the results of runs, which may be flattened."""

Execution: TypeAlias = "Callable[[ModelStep], StepFunction]"
"""Preparation of a step for a runtime; it and the function may raise `Unavailable`."""

_QUANTIZING = (".qcast", ".uniform_quantize")
"""Ends of names of casts that round."""

ERRORS = (
    CompilationError,
    ImportError,
    InterpretationError,
    IRError,
    ModelFileError,
    TypeError,
    ValueError,
)
"""Errors of steps that a runtime does not support."""


def _in_stablehlo(module: ModuleOp) -> ModuleOp:
    """Return a copy of a module, with StableHLO ops for `tfl` ops."""
    module = module.clone()
    if "tfl" in dialects_in(module):
        apply_passes(module, "convert-tfl-to-stablehlo", is_routine=True)
    return module


def _called(function: Callable[..., Sequence[Array]]) -> StepFunction:
    return lambda runs: [function(*run)[0] for run in runs]


def by_definition(order: ZeroPointOrder, mode: RoundingMode) -> Execution:
    """Return the execution with float ops between casts, which round as given."""

    def prepare(step: ModelStep) -> StepFunction:
        module = _in_stablehlo(step.module)
        decompose = "stablehlo-legalize-quantized-op-to-qdq"
        apply_passes(module, decompose, is_routine=True)
        stated = rounding_attributes(Rounding(mode, order))
        for op in module.walk():
            if op.name.endswith(_QUANTIZING):
                op.attributes.update(stated)
        return _called(StatefulModel(module).step)

    return prepare


def _integer_execution(multiplier: str) -> Execution:
    """Return the execution with integer arithmetic, and a kind of multiplier."""

    def prepare(step: ModelStep) -> StepFunction:
        module = _in_stablehlo(step.module)
        kernels: KernelSet = "onnxruntime" if multiplier == "f32" else "reference"
        apply_passes(
            module,
            f"stablehlo-legalize-qdq-to-integer{{signed=true multiplier={multiplier}}},"
            f"stablehlo-legalize-quant-to-integer{{kernels={kernels} fallback=qdq}}",
            is_routine=True,
        )
        return _called(StatefulModel(module).step)

    return prepare


def _tfl_kernels(kernels: KernelSet) -> Execution:
    def prepare(step: ModelStep) -> StepFunction:
        return _called(StatefulModel(step.module, kernels=kernels).step)

    return prepare


def _tfl_floats(step: ModelStep) -> StepFunction:
    module = step.module.clone()
    apply_passes(module, "convert-tfl-to-linalg{fallback=only}", is_routine=True)
    function = compile(module)
    return lambda runs: [np.asarray(function(*run)) for run in runs]


def _written(module: ModuleOp, suffix: str) -> bytes:
    if (format_ := plugins().model_formats.get(suffix)) is None:
        raise Unavailable(f"no writer of {suffix} files")
    return format_.writer()(module)


def _onnxruntime(worker: Worker) -> Execution:
    def prepare(step: ModelStep) -> StepFunction:
        file = _written(step.module, ".onnx")
        return lambda runs: worker.call(OnnxRuntime().run_model, file, runs)

    return prepare


def _litert(runtime: LiteRTReference, worker: Worker) -> Execution:
    def prepare(step: ModelStep) -> StepFunction:
        module = step.module.clone()
        if "tfl" not in dialects_in(module):
            apply_passes(module, "convert-stablehlo-to-tfl", is_routine=True)
        file = _written(module, ".tflite")
        return lambda runs: worker.call(runtime.run_file, file, runs)

    return prepare


ONNX, STABLEHLO = "onnx-definition", "stablehlo-definition"
COMPILED = "compiled"
DEFINITIONS = ONNX, STABLEHLO
"""Names of executions with float ops between casts."""


def executions(is_tfl: bool, worker: Worker) -> Mapping[str, Execution]:
    """
    Return the executions of steps, by name of the runtime.

    Args:
        is_tfl: True for steps of the dialect `tfl`, False for StableHLO.
        worker: process of libraries.
    """
    own: dict[str, Execution] = {
        ONNX: by_definition("after-rounding", "nearest-even"),
        STABLEHLO: by_definition("before-rounding", "nearest-even"),
        f"{COMPILED} kernels=onnxruntime": _integer_execution("f32"),
        f"{COMPILED} kernels=multiplier": _integer_execution("fixed-point"),
    }
    if is_tfl:
        own |= {
            COMPILED: _tfl_kernels("reference"),
            f"{COMPILED} kernels=multiplier": _tfl_kernels("multiplier"),
            f"{COMPILED} fallback=only": _tfl_floats,
        }
    own[OnnxRuntime.name] = _onnxruntime(worker)
    for name, runtime in RUNTIMES.items():
        if isinstance(runtime, LiteRTReference):
            own[name] = _litert(runtime, worker)
    return {name: _refusing(execution) for name, execution in own.items()}


def missing_library(name: str) -> str:
    """Return a message about a missing package of a runtime, or an empty text."""
    runtime = RUNTIMES.get(name)
    is_library = isinstance(runtime, LiteRTReference | OnnxRuntime)
    return runtime.missing() if runtime is not None and is_library else ""


def _refusing(execution: Execution) -> Execution:
    """Return an execution that raises `Unavailable` for steps that are unsupported."""

    def prepare(step: ModelStep) -> StepFunction:
        try:
            function = execution(step)
        except ERRORS as error:
            raise Unavailable(_first_line(error)) from None

        def run(runs: Runs) -> Sequence[Array]:
            try:
                return function(runs)
            except ERRORS as error:
                raise Unavailable(_first_line(error)) from None

        return run

    return prepare


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def floats_before_rounding(step: ModelStep) -> StepFunction:
    """
    Return the function of the floats that the cast at the end of a step quantizes.

    Raises:
        Unavailable: if the step does not end with a cast of floats.
    """
    module = _in_stablehlo(step.module)
    apply_passes(module, "stablehlo-legalize-quantized-op-to-qdq", is_routine=True)
    function = entry_function(module)
    end = function.body.block.last_op
    assert end is not None
    cast = end.operands[0].owner
    if not isinstance(cast, Operation) or not cast.name.endswith(_QUANTIZING):
        raise Unavailable("no cast of floats")
    end.operands[0] = cast.operands[0]
    function.update_function_type()
    return _called(StatefulModel(module).step)
