"""The command `xdsl-quant rosetta`: the arithmetic of runtimes, compared."""

import argparse
import sys
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.numerics.arrays import Array
from xdsl_quant.quantizer.recording import stored_arguments
from xdsl_quant.quantizer.samples import batches_of
from xdsl_quant.rosetta import (
    ModelComparison,
    RuntimeComparison,
    Unavailable,
    compare_model,
    compare_ops,
    compare_runtimes,
)
from xdsl_quant.rosetta.comparison import comparisons_json
from xdsl_quant.runtime.arrays import check_argument
from xdsl_quant.runtime.batches import as_tuple
from xdsl_quant.runtime.entry_function import check_argument_count, entry_function
from xdsl_quant.runtime.loading import IRError

from .array_files import data_file, read_samples, read_values
from .commands import parse_arguments
from .failures import (
    exit_code,
    naming_failures,
    print_results,
    read_type_or_module,
    write_text,
)
from .options import shows_progress, with_counted_progress


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return exit_code(_print_comparisons, parse_arguments("rosetta", args))


def _print_comparisons(options: argparse.Namespace) -> None:
    source = read_type_or_module(options)
    found: list[RuntimeComparison | ModelComparison] = []
    errors = ValueError, TypeError, Unavailable, IRError, ImportError
    with naming_failures(options.module, *errors):
        for comparison in _comparisons(source, options):
            print_results([comparison], options)
            found.append(comparison)
    write_text(options.json, comparisons_json(found))


def _comparisons(
    source: ModuleOp | str, options: argparse.Namespace
) -> Iterator[RuntimeComparison | ModelComparison]:
    names = None if options.runtimes is None else options.runtimes.split(",")
    has_samples = bool(options.data or options.inputs)
    if isinstance(source, ModuleOp) and has_samples:
        for name in ("ops", "all_inputs"):
            if getattr(options, name):
                option = name.replace("_", "-")
                raise ValueError(f"--{option} does not apply to a model with samples")
        yield from compare_model(
            source,
            _runs(source, options),
            entry=options.entry,
            against=options.against,
            runtimes=names,
        )
        return
    if has_samples:
        raise ValueError("--data and --input apply to models, not to types")
    against = options.against or "compiled"
    if isinstance(source, ModuleOp) and any(
        op.name[:4] == "tfl." for op in source.walk()
    ):
        if options.all_inputs:
            raise ValueError("--all-inputs applies to types of casts, not to tfl ops")
        ops = None if options.ops is None else options.ops.split(",")
        yield from compare_ops(source, against=against, runtimes=names, ops=ops)
        return
    if options.ops is not None:
        raise ValueError("--ops applies to tfl ops, but the input has none")
    yield from compare_runtimes(
        source,
        against=against,
        runtimes=names,
        all_inputs=options.all_inputs,
        progress=with_counted_progress if shows_progress(options) else iter,
    )


def _runs(module: ModuleOp, options: argparse.Namespace) -> Iterator[Sequence[Array]]:
    """Yield the arguments of each run: batches of --data, or those of --input."""
    function = entry_function(module, options.entry)
    if options.inputs and options.data:
        raise ValueError("--data and --input exclude each other")
    batches = [tuple(read_values(options))] if options.inputs else None
    if batches is None:
        batches, _ = batches_of(read_samples(data_file(options)), function)
    for batch in batches:
        values = stored_arguments(function, as_tuple(batch))
        name, types = function.sym_name.data, function.function_type.inputs.data
        check_argument_count(name, len(types), len(values))
        yield [
            check_argument(value, type_, f"argument {index} of function '{name}'")
            for index, (value, type_) in enumerate(zip(values, types, strict=True))
        ]


if __name__ == "__main__":
    sys.exit(main())
