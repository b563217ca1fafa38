"""The command `xdsl-quant compare`: the errors of a quantized model."""

import argparse
import sys
from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.inspecting.comparison import SwappedModelsError, compare
from xdsl_quant.quantizer import DataError
from xdsl_quant.runtime.atomic_files import has_suffix
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import is_model_file

from .array_files import check_files, data_file, read_samples
from .commands import parse_arguments
from .failures import (
    Failure,
    exit_code,
    naming_failures,
    print_results,
    read_module,
    write_text,
)
from .options import shows_progress, with_progress


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return exit_code(_compare_models, parse_arguments("compare", args))


def _compare_models(options: argparse.Namespace) -> None:
    others = {"the quantized model": options.quantized}
    if options.labels is not None:
        others[f"--labels {options.labels}"] = options.labels
    check_files(options, {"--json": options.json}, others)
    float_module, quantized_module = _read_models(options)
    shown = shows_progress(options)
    data = data_file(options)
    errors = (ValueError, TypeError, ImportError, OSError)
    with (
        naming_failures(options.quantized, *errors),
        naming_failures(data, DataError),
        naming_failures(options.module, SwappedModelsError),
    ):
        found = compare(
            float_module,
            quantized_module,
            read_samples(data),
            entry=options.entry,
            progress=with_progress if shown else None,
            labels=options.labels,
        )
    print_results([found], options)
    write_text(options.json, found.json())


def _read_models(options: argparse.Namespace) -> Sequence[ModuleOp]:
    """Read both models; only those with the input of a constant get it."""
    modules: list[ModuleOp] = []
    used: set[str] = set()
    for path in (options.module, options.quantized):
        module, constants = _read_with_constants(options, path)
        modules.append(module)
        used.update(constants)
    for text in options.constant:
        if text not in used:
            name = text.rpartition("=")[0]
            raise Failure(
                f"--constant {text}: error: unknown input '{name}' in both models; use "
                "an input of an .onnx model"
            )
    return modules


def _read_with_constants(
    options: argparse.Namespace, path: str
) -> tuple[ModuleOp, Sequence[str]]:
    """Read a model, and return it with the constants whose inputs it has."""
    constants: Sequence[str] = options.constant if has_suffix(path, ".onnx") else []
    while True:
        try:
            return _read(options, path, constants), constants
        except Failure as failure:
            known = [
                text
                for text in constants
                if f"unknown input '{text.rpartition('=')[0]}'" not in str(failure)
            ]
            if len(known) == len(constants):
                raise
            constants = known


def _read(options: argparse.Namespace, path: str, constants: Sequence[str]) -> ModuleOp:
    own = argparse.Namespace(**{**vars(options), "module": path, "passes": ""})
    own.constant = [*constants]
    if not is_model_file(own.module):
        # --shape and --static apply to model files only.
        own.shape, own.static = [], False
    module = read_module(own)
    with naming_failures(path, ValueError):
        entry_function(module, options.entry)
    return module


if __name__ == "__main__":
    sys.exit(main())
