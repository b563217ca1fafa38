"""The command `xdsl-quant import`: .onnx and .tflite files to MLIR text, and back."""

import argparse
import io
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.targets.mlir import MLIRTarget
from xdsl.utils.hints import isa

from xdsl_quant.runtime.atomic_files import has_suffix
from xdsl_quant.runtime.loading import model_format, multiverse_context
from xdsl_quant.runtime.plugins import ModelFileError

from .array_files import check_files, check_model_output
from .commands import parse_arguments
from .failures import exit_code, naming_failures, open_output, read_module

_COLUMNS = ("op", "reason")
"""Columns of the table of fallbacks."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return exit_code(_import, parse_arguments("import", args))


def _import(options: argparse.Namespace) -> None:
    source = options.module
    output = None if options.output == "-" else options.output
    check_files(options, {"-o": output})
    check_model_output(output or "")
    ctx = multiverse_context()
    # Files may contain ops that the tfl dialect lacks.
    ctx.allow_unregistered = True
    # Printing resources requires the builtin dialect.
    ctx.load_registered_dialect("builtin")
    # TensorFlow Lite's ops have no forms for the sizes that shape arithmetic computes.
    options.static |= has_suffix(source, ".onnx") and has_suffix(
        output or "", ".tflite"
    )
    module = read_module(options, ctx)
    for line in _fallback_table(module):
        print(line, file=sys.stderr)
    target = MLIRTarget(print_debuginfo=options.print_debuginfo)
    if output is None:
        print(_printed(ctx, target, module), end="")
        return
    with naming_failures(source, ModelFileError, ImportError):
        if (file_format := model_format(output)) is None:
            content = _printed(ctx, target, module).encode()
        else:
            content = file_format.writer()(module)
    with open_output(output) as stream:
        stream.write(content)


def _fallback_table(module: ModuleOp) -> Iterator[str]:
    """Yield the lines of a table of the ops for which a lowering pass uses floats."""
    attribute = module.attributes.get("tfl.fallback")
    if not isa(attribute, ArrayAttr[DictionaryAttr]):
        return
    counts = Counter(
        tuple(str(entry.data.get(key, StringAttr("?"))).strip('"') for key in _COLUMNS)
        for entry in attribute
    )
    yield f"ops without integer kernel, computed with floats: {counts.total()}"
    width = max(len(op) for op, _ in counts)
    for (op, reason), count in counts.items():
        yield f"{count:>5}  {op:<{width}}  {reason}"


def _printed(ctx: Context, target: MLIRTarget, module: ModuleOp) -> str:
    stream = io.StringIO()
    target.emit(ctx, module, stream)
    return f"{stream.getvalue().rstrip()}\n"


if __name__ == "__main__":
    sys.exit(main())
