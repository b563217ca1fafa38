"""The command `xdsl-quant rosetta`: the arithmetic of runtimes, compared."""

import argparse
import sys
from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.rosetta import (
    RuntimeComparison,
    Unavailable,
    compare_ops,
    compare_runtimes,
)
from xdsl_quant.rosetta.comparison import comparisons_json
from xdsl_quant.runtime.loading import IRError

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
    found: list[RuntimeComparison] = []
    with naming_failures(options.module, ValueError, Unavailable, IRError, ImportError):
        for comparison in _comparisons(source, options):
            print_results([comparison], options)
            found.append(comparison)
    write_text(options.json, comparisons_json(found))


def _comparisons(
    source: ModuleOp | str, options: argparse.Namespace
) -> Iterator[RuntimeComparison]:
    names = None if options.runtimes is None else options.runtimes.split(",")
    if isinstance(source, ModuleOp) and any(
        op.name[:4] == "tfl." for op in source.walk()
    ):
        if options.all_inputs:
            raise ValueError("--all-inputs applies to types of casts, not to tfl ops")
        ops = None if options.ops is None else options.ops.split(",")
        yield from compare_ops(source, against=options.against, runtimes=names, ops=ops)
        return
    if options.ops is not None:
        raise ValueError("--ops applies to tfl ops, but the input has none")
    yield from compare_runtimes(
        source,
        against=options.against,
        runtimes=names,
        all_inputs=options.all_inputs,
        progress=with_counted_progress if shows_progress(options) else iter,
    )


if __name__ == "__main__":
    sys.exit(main())
