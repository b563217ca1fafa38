"""`xdsl-quant-run`: interpret a function of a module on NumPy arrays."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, get_args

from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import InterpretationError

from xdsl_quant.dialects.quant import (
    ConstFakeQuantOp,
    ConstFakeQuantPerAxisOp,
    DequantizeCastOp,
    QuantizeCastOp,
)
from xdsl_quant.interpreters import run_function
from xdsl_quant.rounding_mode import NanResult, Rounding, RoundingMode, ZeroPointOrder
from xdsl_quant.runtime.array_types import shape_text
from xdsl_quant.runtime.entry_function import entry_function

from .array_files import check_files, check_output, write_results
from .failures import exit_code, module_parser, read_module, read_values, reported

_DESCRIPTION = """\
Run a function of a module on NumPy arrays, print its results and save them.

Quantized types in the signature are arrays of stored values, e.g. uint8 for u8 storage.
quant.qcast and quant.dcast need no lowering."""

_EPILOG = """\
examples:
  xdsl-quant-run model.mlir --input x.npy --output y.npy
  xdsl-quant-run model.mlir --entry f --input 3.5 --input '[[1, 2], [3, 4]]'
  xdsl-quant-run model.mlir --input all.npz:x --input=-inf
  xdsl-quant-run model.mlir --input x.npy \\
      -p 'lower-quant-ops{rounding-mode=nearest-even},canonicalize'"""


def main(args: Sequence[str] | None = None) -> int:
    """The exit code of the command: 0, or 1 after an error message."""
    return exit_code(_run, _parser().parse_args(args))


def _parser() -> argparse.ArgumentParser:
    parser = module_parser("xdsl-quant-run", _DESCRIPTION, _EPILOG)
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="VALUE",
        help="an argument of the function, once for each: a .npy file, file.npz:key, a "
        "number, or a list of numbers; file.npz stands for all arrays in it",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="where to save results: .npy for one, .npz for any number, with the names "
        "result0, result1, ...",
    )
    parser.add_argument(
        "--rounding-mode",
        choices=get_args(RoundingMode),
        help="how casts round that are not lowered (default: nearest-even)",
    )
    parser.add_argument(
        "--zero-point-order",
        choices=get_args(ZeroPointOrder),
        help="when casts that are not lowered add the zero point (default: "
        "before-rounding)",
    )
    parser.add_argument(
        "--nan",
        choices=get_args(NanResult),
        help="the stored value that NaN becomes where a cast that is not lowered does not "
        "say it (default: storage-min)",
    )
    return parser


def _run(options: argparse.Namespace) -> None:
    with reported("--output", ValueError):
        check_files(
            options.module, ("--input", options.input), {"--output": options.output}
        )
    module = read_module(options)
    rounding = _rounding(options, module)
    inputs = [value for text in options.input for value in read_values(text)]
    with reported(
        options.module, InterpretationError, TypeError, ValueError, ImportError
    ):
        function = entry_function(module, options.entry)
        if options.output is not None:
            check_output(options.output, len(function.function_type.outputs))
        results = run_function(
            module,
            function.sym_name.data,
            *inputs,
            rounding_mode=rounding.mode,
            zero_point_order=rounding.zero_point_order,
            nan=rounding.nan,
        )
    try:
        _print(results)
    except BrokenPipeError:
        # Whoever reads has read enough. What is left in the buffer must go somewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if options.output is not None:
        with reported(options.output, OSError):
            write_results(options.output, results)


_CASTS = (
    QuantizeCastOp,
    DequantizeCastOp,
    ConstFakeQuantOp,
    ConstFakeQuantPerAxisOp,
)


def _rounding(options: argparse.Namespace, module: ModuleOp) -> Rounding:
    """The rounding of casts; a warning if one is asked for and there are no casts."""
    given = {
        "mode": options.rounding_mode,
        "zero_point_order": options.zero_point_order,
        "nan": options.nan,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if given and not any(isinstance(op, _CASTS) for op in module.walk()):
        print(
            f"{options.module}: warning: --rounding-mode, --zero-point-order and --nan "
            "have no effect, no casts are left to run; give these options to "
            "lower-quant-ops",
            file=sys.stderr,
        )
    return Rounding()._replace(**given)


def _print(results: Sequence[NDArray[Any]]) -> None:
    for index, result in enumerate(results):
        shape = f", shape {shape_text(result.shape)}" if result.ndim else ""
        print(f"result{index}: {result.dtype}{shape}")
        print(result)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
