"""
Compare random models with the reference kernels of TensorFlow Lite: `make oracles`.

    python -m tests.oracles --ops ADD,CONV_2D --draws 200 --seed 1

Each line of the table is an op with one kind of operands, or `NETWORK`, models of several
ops, or `FLOAT_NETWORK`, such models on floats, whose results are equal within a
tolerance, or `DEFAULT_KERNELS`, models of stored weights and floats that LiteRT's default
kernels run. The exit code is 1 if a value
differs, or if there are too few values or too many at the ends of the range. A model that
is named in a message is made again by `--ops OP --kind KIND --first N --draws 1`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from . import default_kernels, float_networks, networks
from .comparing import DECLARATIONS, compare_in_own_process
from .tally import Tally

_SHOWN = 3
_KINDS = {
    networks.NAME: networks.KINDS,
    float_networks.NAME: ("f32",),
    default_kernels.NAME: tuple(default_kernels.KINDS),
    **{op: declaration.kinds for op, declaration in DECLARATIONS.items()},
}


def complaints(tally: Tally, draws: int) -> Sequence[str]:
    """What is wrong with a line."""
    found = list(tally.mismatches[:_SHOWN])
    if tally.draws < draws:
        found.append(f"only {tally.draws} models ran, {draws} were expected")
    # A few models can have more.
    if draws >= 100 and 2 * tally.ends > tally.values:
        found.append("more than half of the values are at the ends of the range")
    return found


def _line(*cells: object) -> str:
    widths = 30, 19, 6, 9, 6, 9, 9, 11, 8
    first, second, *others = (
        f"{cell:{'<' if i < 2 else '>'}{width}}"
        for i, (cell, width) in enumerate(zip(map(str, cells), widths, strict=True))
    )
    return "".join((first, second, *others)).rstrip()


def _row(tally: Tally) -> str:
    share = f"{100 * tally.ends / tally.values:.0f} %" if tally.values else "-"
    return _line(
        tally.op,
        tally.kind,
        tally.draws,
        tally.compiled,
        tally.tosa,
        tally.values,
        share,
        len(tally.mismatches),
        len(tally.refused),
    )


def main(args: Sequence[str] | None = None) -> int:
    """The exit code for the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracles")
    parser.add_argument("--ops", default=",".join(_KINDS), help="separated by ','")
    parser.add_argument("--kind", help="the only kind of operands")
    parser.add_argument("--draws", type=int, default=200, help="models for each line")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first model")
    parser.add_argument(
        "--compiled-step", type=int, default=20, help="compile one model of so many"
    )
    options = parser.parse_args(args)
    jobs = [
        (op, kind)
        for op in options.ops.split(",")
        for kind in _KINDS[op]
        if options.kind in (None, kind)
    ]
    numbers = options.draws, options.seed, options.compiled_step, options.first
    titles = "draws", "compiled", "tosa", "values", "at ends", "mismatches", "refused"
    print(_line("op", "operands", *titles))
    total, failures = Tally("total", ""), 0
    # Compilers have threads, which a fork would not copy.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for result in [
            pool.submit(compare_in_own_process, *job, *numbers) for job in jobs
        ]:
            tally = result.result()
            print(_row(tally))
            found = complaints(tally, options.draws)
            for text in (*found, *tally.refused[:_SHOWN]):
                print(f"    {text}")
            sys.stdout.flush()
            failures += bool(found)
            total.draws += tally.draws
            total.compiled += tally.compiled
            total.tosa += tally.tosa
            total.values += tally.values
            total.ends += tally.ends
            total.mismatches += tally.mismatches
            total.refused += tally.refused
    print(_row(total))
    print(f"{len(jobs)} kinds of operands, seed {options.seed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
