"""The command `xdsl-quant inspect`: the quantized tensors of a model."""

import argparse
import sys
from collections.abc import Sequence

from xdsl_quant.inspecting.inspection import inspect
from xdsl_quant.runtime.loading import multiverse_context

from .array_files import check_files
from .commands import parse_arguments
from .failures import exit_code, print_results, read_module, write_text


def main(args: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return exit_code(_inspect, parse_arguments("inspect", args))


def _inspect(options: argparse.Namespace) -> None:
    check_files(options, {"--json": options.json})
    ctx = multiverse_context()
    # Types are of interest even in ops of missing dialects.
    ctx.allow_unregistered = True
    found = inspect(read_module(options, ctx)).sorted_by(options.sort)
    text = found if found.tensors else f"{options.module}: {found}"
    print_results([text], options)
    write_text(options.json, found.json())


if __name__ == "__main__":
    sys.exit(main())
