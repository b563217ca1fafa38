"""
Read mutated ONNX files: `make oracles`.

    python -m tests.oracles.onnx_files --count 5000 --seed 0

A file is read, or refused with a message of one line. The exit code is 1 for a traceback;
a crash of the `onnx` package ends the program. Memory is limited. `--first N --count 1`
reads one file again.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import resource
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from tests.unit.frontends.onnx.files.models import samples
from tests.unit.frontends.onnx.files.mutants import mutated
from tests.unit.frontends.onnx.files.test_mutated_files import read
from xdsl_quant.runtime.plugins import ModelFileError

_MEMORY = 1 << 30
"""Bytes that may be allocated in addition to those of the imported packages."""


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + _MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _outcome(path: Path) -> str:
    try:
        read(path)
    except ModelFileError as e:
        is_sentence = str(e).isprintable() and str(e).startswith(f"{path}: error: ")
        return "refused" if is_sentence else f"message {e!r}"
    except Exception as e:
        traceback.print_exc()
        return f"{type(e).__name__}: {e}"
    return "read"


def main(args: Sequence[str] | None = None) -> int:
    """The exit code for the arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracles.onnx_files")
    parser.add_argument("--count", type=int, default=5000, help="number of files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    options = parser.parse_args(args)
    faulthandler.enable()
    warnings.simplefilter("ignore")
    _limit_memory()
    found: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        models = [*samples(path.parent).values()]
        for number in range(options.first, options.first + options.count):
            random = np.random.default_rng((options.seed, number))
            path.write_bytes(mutated(models[number % len(models)], random))
            outcome = _outcome(path)
            found[outcome] += 1
            if outcome not in ("read", "refused"):
                print(f"--first {number}: {outcome}")
    print(", ".join(f"{name}: {count}" for name, count in sorted(found.items())))
    return int(found.keys() > {"read", "refused"})


if __name__ == "__main__":
    sys.exit(main())
