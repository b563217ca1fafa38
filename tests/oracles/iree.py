"""
Compare int8 models compiled by IREE with the compiled code of this package: `make iree`.

    python -m tests.oracles.iree --models ResNet8 --steps 8

Each model of `benchmarks.models` is exported as linalg and as TOSA. IREE compiles both
texts for this CPU and runs consecutive random inputs. The table counts the values of
results and state that differ from `xdsl_quant.execution`: of the model, and of the model
that also returns the results of all ops. The exit code is 1 if a value differs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp

from benchmarks.models import MODELS, Saved, saved_model
from benchmarks.report import table
from examples.wake_word.check import count_differences, returning_all_values
from examples.wake_word.models import model_paths
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tosa.mlir_main import MLIRMainTarget
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.rosetta.own_process import LibraryProcess
from xdsl_quant.runtime.arrays import numpy_dtype
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import apply_passes, parse_passes
from xdsl_quant.runtime.stateful_function import Runner, StatefulFunction

IREE_PYTHON = Path(".venv-iree/bin/python")
"""Python of the environment that `make iree` creates."""


class Lowering(NamedTuple):
    """Lowering of `tfl` models for IREE."""

    passes: str

    expected: str = "canonicalize"
    """Passes before `xdsl_quant.execution.compile` computes the expected values."""


DIALECTS: Mapping[str, Lowering] = {
    "linalg": Lowering("convert-tfl-to-linalg,strip-func-quant-types,canonicalize"),
    # In TOSA, `fully_connected` rescales by 31-bit multipliers.
    "TOSA": Lowering(
        "convert-tfl-to-tosa", "convert-tfl-to-linalg{kernels=multiplier}"
    ),
}


class IREE(LibraryProcess):
    """Process in the environment of IREE."""

    def __init__(self, python: Path):
        worker = Path(__file__).with_name("iree_worker.py")
        # -P: this folder has a module of the name of IREE's package.
        super().__init__(python, "-P", worker, environment={"PATH": os.environ["PATH"]})

    # The answers of the functions have several types.
    def request(self, name: str, *arguments: object) -> Any:
        """
        Call a function of `iree_worker`.

        Raises:
            RuntimeError: if it raises an error.
        """
        status, answer = self.ask((name, arguments))
        if status != "ok":
            raise RuntimeError(answer)
        return answer

    def runner(self, passes: str, driver: str) -> Runner:
        """Return a function that lowers a module with passes and compiles it."""

        def compiled(module: ModuleOp, name: str) -> Callable[..., tuple[Array, ...]]:
            types = entry_function(module, name).function_type.outputs
            text = mlir_main_text(lowered(module, passes))
            number = self.request("compile", text, name, driver)

            def call(*arrays: Array) -> tuple[Array, ...]:
                results = self.request("call", number, arrays)
                return tuple(
                    np.asarray(result).view(numpy_dtype(type_))
                    for result, type_ in zip(results, types, strict=True)
                )

            return call

        return compiled


def mlir_main_text(module: ModuleOp) -> str:
    """Return the text of a module for MLIR's main branch, which IREE follows."""
    context, output = Context(), StringIO()
    # The dialect contains the data of large constants.
    context.load_dialect(Builtin)
    MLIRMainTarget().emit(context, module, output)
    return output.getvalue()


def lowered(module: ModuleOp, passes: str) -> ModuleOp:
    """Return a copy of a module after some passes."""
    copy = module.clone()
    apply_passes(copy, parse_passes(passes), is_routine=True)
    return copy


class Count(NamedTuple):
    """Number of compared values, and of different ones."""

    values: int

    different: int


def count_steps(
    ours: StatefulFunction, theirs: StatefulFunction, inputs: Array
) -> Count:
    """Run consecutive inputs, and count values of results and state."""
    values = different = 0
    for array in inputs:
        expected = (*ours.step(array), *ours.state)
        actual = (*theirs.step(array), *theirs.state)
        for pair in zip(expected, actual, strict=True):
            values += pair[0].size
            different += count_differences(*pair)
    return Count(values, different)


def count_model(
    iree: IREE, model: Saved, lowering: Lowering, driver: str
) -> Sequence[Count]:
    """Count values of the model, and of the model that returns the results of all ops."""

    def expected(module: ModuleOp, name: str) -> Callable[..., Any]:
        return compile(lowered(module, lowering.expected), name)

    actual = iree.runner(lowering.passes, driver)
    module = read_tflite(model.path)
    return [
        count_steps(
            StatefulFunction(form, expected),
            StatefulFunction(form, actual),
            model.inputs,
        )
        for form in (module, returning_all_values(module))
    ]


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    names = [*MODELS, *model_paths()]
    parser = argparse.ArgumentParser(prog="python -m tests.oracles.iree")
    parser.add_argument("--python", type=Path, default=IREE_PYTHON, help="with IREE")
    parser.add_argument("--models", default=",".join(names), help="separated by ','")
    parser.add_argument("--steps", type=int, default=8, help="inputs of each model")
    parser.add_argument("--driver", default="local-sync", help="or local-task")
    options = parser.parse_args(args)
    if not options.python.exists():
        parser.error(f"no IREE: {options.python} is missing; run 'make iree'")
    rows: list[Sequence[str]] = []
    different = 0
    with IREE(options.python) as iree:
        for name in options.models.split(","):
            with TemporaryDirectory() as folder:
                model = saved_model(name, Path(folder), options.steps)
                for dialect, lowering in DIALECTS.items():
                    counts = count_model(iree, model, lowering, options.driver)
                    cells = (f"{number:,}" for count in counts for number in count)
                    rows.append((name, dialect, *cells))
                    different += sum(count.different for count in counts)
    header = "model", "dialect", "values", "different", "values of all ops", "different"
    print(table(header, rows, texts=2))
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
