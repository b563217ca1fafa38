"""
Turn a TensorFlow Lite file into a module of the tfl dialect, or a module into a file.

What is called .tflite is a file, anything else the text of a module.

examples:
  xdsl-quant-import model.tflite -o model.mlir
  xdsl-quant-import model.tflite --shape x=1x16x16x3 -p canonicalize
  xdsl-quant-import model.mlir -o model.tflite
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Mapping, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.targets.mlir import MLIRTarget

from xdsl_quant import __version__
from xdsl_quant.frontends.tflite import TFLiteFileError, read_tflite, write_tflite
from xdsl_quant.runtime.atomic_files import open_atomically
from xdsl_quant.runtime.loading import (
    IRError,
    apply_passes,
    multiverse_context,
    parse_module,
    parse_passes,
    verify_module,
)

from .array_files import check_files
from .failures import Failure, exit_code, read_text, reported

_SUFFIX = ".tflite"


def main(args: Sequence[str] | None = None) -> int:
    """The exit code of the command: 0, or 1 after an error message."""
    return exit_code(_run, _parser().parse_args(args))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xdsl-quant-import",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    parser.add_argument(
        "module",
        metavar="input",
        help="a .tflite file, or one with the text of a module, - for standard input",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="where to write to; by default the text of the module is printed",
    )
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=SIZES",
        help="the shape of an input of a .tflite file with dynamic sizes, e.g. "
        "x=1x16x16x3; once for each",
    )
    parser.add_argument(
        "--static",
        action="store_true",
        help="take the sizes for which the .tflite file was written, 1 for unknown ones, "
        "instead of dynamic sizes",
    )
    parser.add_argument(
        "-p",
        "--passes",
        default="",
        metavar="PIPELINE",
        help="passes to apply, as for xdsl-opt",
    )
    # It has no arrays among its files.
    parser.set_defaults(inputs=[])
    return parser


def _run(options: argparse.Namespace) -> None:
    source, output = options.module, options.output
    is_file = source.endswith(_SUFFIX)
    check_files(options, "", {"-o": output})
    shapes = dict(map(_shape, options.shape))
    if not is_file and (shapes or options.static):
        raise Failure(
            f"{source}: error: --shape and --static are for .tflite files; the sizes of a "
            "module are in its types"
        )
    ctx = multiverse_context()
    # Ops of a file that the dialect does not have.
    ctx.allow_unregistered = True
    # It prints resources.
    ctx.load_registered_dialect("builtin")
    with reported(source, IRError):
        passes = parse_passes(options.passes)
        if is_file:
            module = _read(source, shapes, options.static)
        else:
            module = parse_module(read_text(source), source, ctx)
        apply_passes(module, passes, ctx)
    if output is None:
        print(_text(ctx, module), end="")
        return
    with reported(source, TFLiteFileError, ImportError):
        is_text = not output.endswith(_SUFFIX)
        content = _text(ctx, module).encode() if is_text else write_tflite(module)
    with reported(output, OSError), open_atomically(output) as stream:
        stream.write(content)


def _read(path: str, shapes: Mapping[str, Sequence[int]], static: bool) -> ModuleOp:
    with reported(path, TFLiteFileError, ImportError, OSError):
        module = read_tflite(path, shapes=shapes, static=static)
        verify_module(module)
        return module


def _shape(text: str) -> tuple[str, list[int]]:
    """
    Raises:
        Failure: if a text is not like `x=1x16x16x3`.
    """
    name, equals, sizes = text.rpartition("=")
    numbers = sizes.split("x") if sizes else []
    if not (name and equals) or not all(map(str.isdecimal, numbers)):
        raise Failure(f"--shape {text}: error: expected NAME=SIZES, e.g. x=1x16x16x3")
    return name, [int(number) for number in numbers]


def _text(ctx: Context, module: ModuleOp) -> str:
    stream = io.StringIO()
    MLIRTarget().emit(ctx, module, stream)
    return f"{stream.getvalue().rstrip()}\n"


if __name__ == "__main__":
    sys.exit(main())
