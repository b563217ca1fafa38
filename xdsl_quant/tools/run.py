"""The command `xdsl-quant run`: a function of a model on NumPy arrays."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import starmap
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import InterpretationError

from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import StatefulModel
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import shape_text
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.extras import slice_function
from xdsl_quant.runtime.kernel_sets import select_kernels
from xdsl_quant.runtime.missing_lowering import compiled_only
from xdsl_quant.runtime.state_arguments import state_arguments
from xdsl_quant.runtime.stateful_function import StatefulFunction, result_tuple
from xdsl_quant.transforms.statistics.quant_convert_simulated_quantization import (
    FakeQuantOp,
)

from .array_files import check_files, check_output, read_values, write_results
from .commands import parse_arguments
from .failures import exit_code, naming_failures, print_results, read_module
from .options import rounding_options

_Runner = Callable[[ModuleOp, str], Callable[..., Sequence[Array]]]


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return exit_code(_run_function, parse_arguments("run", args))


def _run_function(options: argparse.Namespace) -> None:
    outputs = {"-o": options.output, "--c-header": options.c_header}
    trace = {} if options.trace is None else {f"--trace {options.trace}": options.trace}
    check_files(options, outputs, trace)
    module = read_module(options)
    select_kernels(module, options.kernels)
    rounding = _rounding(options, module)
    inputs = read_values(options)
    with naming_failures(
        options.module, InterpretationError, TypeError, ValueError, ImportError
    ):
        function = entry_function(module, options.entry)
        states = [*state_arguments(function)] if options.steps else []
        if options.output is not None:
            count = len(function.function_type.outputs) - len(states)
            check_output(options.output, count)
        with _runner(options, rounding) as runner:
            name = function.sym_name.data
            model = StatefulFunction(module, runner, name) if states else None
            step = runner(module, name) if model is None else model.step
            results = _run_steps(step, inputs) if options.steps else step(*inputs)
    print_results(_lines(results), options)
    if options.output is not None:
        write_results(options.output, results)


def _rounding(options: argparse.Namespace, module: ModuleOp) -> dict[str, Any]:
    """Return the rounding options; warn if the module has no casts to apply them to."""
    given = rounding_options(options)
    casts = QuantizeCastOp | DequantizeCastOp | FakeQuantOp
    if given and not any(isinstance(op, casts) for op in module.walk()):
        print(
            f"{options.module}: warning: --rounding-mode, --zero-point-order and --nan "
            "have no effect: the module has no casts to run; give these options to "
            "lower-quant-ops",
            file=sys.stderr,
        )
    return given


def _runner(
    options: argparse.Namespace, rounding: dict[str, Any]
) -> AbstractContextManager[_Runner]:
    """Return a factory of functions that run: compiled if the interpreter lacks an op."""
    if options.trace is not None or options.c_header is not None:
        return slice_function("--trace", "tools.trace.traced_runner")(options, rounding)

    def runner(module: ModuleOp, name: str) -> Callable[..., Sequence[Array]]:
        if compiled_only([module]) is None:
            return StatefulModel(module, name, **rounding).step
        function = compile(module, name, **rounding)
        return lambda *arguments: result_tuple(function(*arguments))

    return nullcontext(runner)


def _run_steps(
    step: Callable[..., Sequence[Array]], inputs: Sequence[ArrayLike]
) -> Sequence[Array]:
    """Return the results of all steps, stacked, given the values of all steps."""
    steps = [step(*arguments) for arguments in _arguments_of_steps(inputs)]
    return [*starmap(_stacked_steps, enumerate(zip(*steps, strict=True)))]


def _arguments_of_steps(inputs: Sequence[ArrayLike]) -> Sequence[Sequence[ArrayLike]]:
    """Return the arguments of each step. Lists stay lists until their dtype is known."""
    for index, value in enumerate(inputs):
        if not isinstance(value, list) and not np.ndim(value):
            raise ValueError(
                f"input {index} has rank 0; expected steps along its first dimension"
            )
    sized = cast(Sequence[Sequence[ArrayLike]], inputs)
    if len(counts := {len(value) for value in sized}) != 1 or 0 in counts:
        found = " and ".join(map(str, sorted(counts))) or "no"
        raise ValueError(
            f"inputs have {found} steps; expected the same number, at least 1"
        )
    return [*zip(*sized, strict=True)]


def _stacked_steps(index: int, results: Sequence[Array]) -> Array:
    shapes = {np.shape(result): None for result in results}
    if len(shapes) > 1:
        found = " and ".join(map(shape_text, shapes))
        raise ValueError(
            f"result {index} has shapes {found}; expected the same shape in all steps"
        )
    return np.stack(results)


def _lines(results: Sequence[Array]) -> Iterator[object]:
    for index, result in enumerate(results):
        shape = f", shape {shape_text(result.shape)}" if result.ndim else ""
        yield f"result{index}: {result.dtype}{shape}"
        yield result


if __name__ == "__main__":
    sys.exit(main())
