"""
Compare `quant-propagate` with TensorFlow Lite's quantization driver on random programs.

    python -m tests.propagation --programs 2000 --seed 1

The exit code is 1 if a difference has no reason, if more than 2 % of the values differ, or
if less than a fifth of the programs has a conflict.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.conformance.real_mlir import Mlir

from .comparing import Tally, compare, driver_answer
from .programs import draw_program, draw_program_with_branches

_SHOWN = 10


def main(args: Sequence[str] | None = None) -> int:
    """The exit code for the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.propagation")
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first program")
    options = parser.parse_args(args)
    tally = Tally()
    with Mlir(package="litert_converter.mlir") as mlir:
        for index in range(options.first, options.first + options.programs):
            for draw in (draw_program, draw_program_with_branches):
                program = draw(options.seed, index)
                name = f"seed {options.seed}, {draw.__name__} {index}"
                compare(tally, name, program, driver_answer(mlir, program))
    print(
        f"{tally.programs} programs, {tally.with_conflicts} with conflicts, "
        f"{tally.driver_failures} failures of the driver, {tally.values} values"
    )
    for reason, count in sorted(tally.excused.items()):
        print(f"{count} values differ: {reason}")
    print(f"{100 * tally.excused_share:.2f} % of the values differ with a reason")
    print(f"{len(tally.differences)} values differ without one")
    for difference in tally.differences[:_SHOWN]:
        print(f"    {difference}")
    is_wrong = (
        tally.differences
        or tally.excused_share > 0.02
        or 5 * tally.with_conflicts < tally.programs
    )
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
