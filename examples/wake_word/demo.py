"""
Command line: dequantize and quantize the tensors of real models, and count wrong values.
"""

import argparse
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .check import (
    EXACT_BELOW,
    ModelResult,
    XdslOptError,
    check_model,
    largest_distance,
)
from .quantized_module import quantized_type
from .tflite_tensors import QuantizedTensor, model_paths

_NAME_WIDTH = 36
_DEFAULT_MODEL = "alexa"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. The result is the exit code: 1 if any value is wrong."""
    paths = model_paths()
    options = _parser(list(paths)).parse_args(arguments)
    names: list[str] = list(paths) if options.all else [options.model]
    wrong = 0
    try:
        with _directory(options.keep) as directory:
            for name in names:
                result = check_model(paths[name], directory, options.rounding_mode)
                print(report(name, result))
                wrong += result.wrong_floats + result.wrong_integers
    except XdslOptError as e:
        print(e, file=sys.stderr)
        return 1
    return 1 if wrong else 0


def _parser(models: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.wake_word",
        description="Dequantize every quantized tensor of a wake-word model and quantize "
        "it again, with code that xdsl-opt lowered and MLIR compiled. Compare the floats "
        "with NumPy's and the integers with the model's.",
    )
    parser.add_argument(
        "--model", choices=models, default=_DEFAULT_MODEL, help="(%(default)s)"
    )
    parser.add_argument("--all", action="store_true", help="all models")
    parser.add_argument(
        "--rounding-mode",
        choices=("nearest-even", "nearest-away", "truncate"),
        default="nearest-even",
        help="of lower-quant-ops (%(default)s); truncate is what MLIR does, and wrong",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="leave the .mlir files in DIR"
    )
    return parser


@contextmanager
def _directory(keep: Path | None) -> Generator[Path]:
    """The directory that the modules are written to."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def report(name: str, result: ModelResult) -> str:
    """A table of the tensors of a model, and the seconds of each step."""
    rows = [
        (
            _shortened(tensor.name),
            _type_text(tensor),
            "model" if tensor.is_constant else "random",
            f"{tensor.stored.size:,}",
            f"{wrong_floats:,}",
            f"{wrong_integers:,}",
        )
        for tensor, wrong_floats, wrong_integers in result.tensors
    ]
    tensors = [tensor for tensor, _, _ in result.tensors]
    constants = sum(tensor.is_constant for tensor in tensors)
    total = (
        f"{len(rows)} tensors",
        "",
        f"{constants} model",
        f"{sum(tensor.stored.size for tensor in tensors):,}",
        f"{result.wrong_floats:,}",
        f"{result.wrong_integers:,}",
    )
    header = ("tensor", "type", "values", "elements", "wrong floats", "wrong integers")
    seconds = ", ".join(f"{step} {time:.2f}" for step, time in result.seconds.items())
    distance = max(map(largest_distance, tensors))
    exact = "all" if distance < EXACT_BELOW else "not all"
    return "\n".join(
        (
            f"{name}: xdsl-opt -p '{result.passes}'",
            *_table(header, rows, total),
            f"largest |stored - zero point|: {distance:,}; {exact} below "
            f"{EXACT_BELOW:,}, where f32 loses no integer",
            f"{len(rows) - constants} of {len(rows)} tensors are activations, which the "
            "model has no values for: they are random",
            "the casts of each tensor are run, the network is not",
            f"seconds: {seconds}",
            "",
        )
    )


_LEFT_COLUMNS = 3


def _table(
    header: Sequence[str], rows: Sequence[Sequence[str]], total: Sequence[str]
) -> Iterator[str]:
    """The lines of a table: texts are left-aligned, numbers right-aligned."""
    widths = [
        max(map(len, column)) for column in zip(header, *rows, total, strict=True)
    ]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    for row in (header, (rule,), *rows, (rule,), total):
        cells = (
            cell.ljust(width) if column < _LEFT_COLUMNS else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=False))
        )
        yield "  ".join(cells)


def _shortened(name: str) -> str:
    """The end of the name, which is more specific than its start."""
    # The converter joins the names of all that it fused.
    name = name.partition(";")[0]
    return name if len(name) <= _NAME_WIDTH else f"..{name[2 - _NAME_WIDTH :]}"


def _type_text(tensor: QuantizedTensor) -> str:
    """The type of a tensor; many scales are only counted."""
    shape = "x".join(map(str, tensor.stored.shape))
    storage = quantized_type(tensor).storage_type_name
    if tensor.axis is not None:
        return f"{shape} {storage}:f32:{tensor.axis}, {{{len(tensor.scales)} scales}}"
    zero_point = f":{tensor.zero_points[0]}" if tensor.zero_points[0] else ""
    return f"{shape} {storage}:f32, {tensor.scales[0]:.4g}{zero_point}"
