"""
Draw mutants of the lowering of casts and of `numerics`, and refute them.

    python -m tests.proving.mutants --count 150 --seed 0

`make prove-mutants` runs this. [mutmut](https://mutmut.readthedocs.io) makes the mutants of
the lines that are run for the claims in `claims`. A mutant is refuted if a claim about it
is answered in another way than without it. One that is not must be listed in
`tests/mutants/survivors.txt` or in `unchanged.txt`, with the reason why it changes nothing:
otherwise the exit code is 1.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import bf16, f16, i1

from tests.mutants.survivors import listed, mutant_of
from tests.proving.__main__ import OPTIONS, is_valid, prover_of
from tests.proving.pairs import all_pairs
from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import QuantizationParameters, dequantize
from xdsl_quant.proving import CastProver, Theorem
from xdsl_quant.proving.exhaustion import Bits, FloatOrder, Integers
from xdsl_quant.proving.terms import float_sizes
from xdsl_quant.proving.theorems import decode_bits
from xdsl_quant.runtime.arrays import numpy_dtype
from xdsl_quant.runtime.loading import apply_passes, parse_module

ROOT = Path(__file__).parents[2]
UNCHANGED = Path(__file__).with_name("unchanged.txt")
MUTATED = (
    "xdsl_quant/numerics/arithmetic.py",
    "xdsl_quant/numerics/float_dtypes.py",
    "xdsl_quant/numerics/quantization.py",
    "xdsl_quant/transforms/quant/lower_quant_ops.py",
    "xdsl_quant/transforms/building/*arithmetic.py",
)
"""What computes numbers, or writes the code that does."""

SECONDS = 60
"""What a mutant may take. One that takes longer is not refuted."""

_NAMES = re.compile(r"def (x\w+__mutmut_\d+)\(")

Claim = Callable[[], str]
"""Decides what holds: a verdict."""


# Claims


def claims() -> list[Claim]:
    """
    What is claimed of casts. What is right is computed here, without any mutant. What takes
    no solver comes first, as a mutant can be too hard for it.
    """
    choices = all_pairs(OPTIONS, is_valid)
    provers = [*map(prover_of, choices)]
    # What is rounded from f64 to bf16, which no pair of options needs.
    rounded = [
        prover_of({**choice, "mode": "nearest-even"})
        for choice in choices
        if (choice["storage"], choice["expressed"]) == ("i32", "bf16")
    ]
    proofs = (
        partial(_verdict, claim)
        for prover in provers
        for claim in (
            prover.is_defined,
            prover.matches_quantization_formula,
            prover.dequantizes_by_the_formula,
        )
    )
    return [*chain(*map(_comparisons, (*provers, *rounded))), *proofs]


def _comparisons(prover: CastProver) -> Iterator[Claim]:
    q = _some_stored(prover)
    right = _expressed_by_formula(prover, q)
    yield partial(_same, partial(_dequantize_in_numpy, prover), q, right)
    yield partial(_same, partial(_interpret, prover, "d"), q, right)
    bits = _some_expressed(prover, q)
    right = _stored_by_formula(prover, bits)
    is_defined = [i for i, value in enumerate(right) if value is not None]
    bits, integers = bits[is_defined], np.array([right[i] for i in is_defined])
    yield partial(_same, prover.quantize_in_numpy, bits, integers)
    yield partial(_same, partial(_interpret, prover, "q"), bits, integers)


def _dequantize_in_numpy(prover: CastProver, stored: Integers) -> Bits:
    """The bits of what `numerics` expresses stored values as."""
    parameters = QuantizationParameters.from_integer_type(prover.cast.type)
    values = stored.astype(parameters.storage_dtype)
    mode = prover.cast.rounding.mode
    found = dequantize(values, parameters, rounding_mode=mode)
    return found.view(f"u{found.itemsize}")


def _stored_by_formula(prover: CastProver, bits: Bits) -> Sequence[int | None]:
    """
    Return the stored values that the formula defines for the bits of expressed values;
    `None` for undefined results.
    """
    terms, cast = prover.formula.terms, prover.cast
    x = terms.symbol(cast.expressed, "x")
    right = prover.formula.stored(x)
    bit = terms.choice(right.is_defined, *(terms.of_bits(i1, i) for i in (1, 0)))

    def stored(value: int) -> int | None:
        known = {x: terms.of_bits(cast.expressed, value)}
        if not terms.evaluate(bit, known):
            return None
        return int(decode_bits(cast.storage, terms.evaluate(right.term, known)))

    return [*map(stored, bits.tolist())]


def _expressed_by_formula(prover: CastProver, stored: Integers) -> Bits:
    """The bits of what the formula expresses stored values as."""
    terms, cast = prover.formula.terms, prover.cast
    q = terms.symbol(cast.storage, "q")
    expressed = prover.formula.expressed(q)
    bits = [
        terms.evaluate(expressed, {q: terms.of_bits(cast.storage, each)})
        for each in stored.tolist()
    ]
    # Terms of bf16 are those of f32.
    more = 16 if cast.expressed == bf16 else 0
    itemsize = numpy_dtype(cast.expressed).itemsize
    return np.array([each >> more for each in bits], f"u{itemsize}")


def _some_stored(prover: CastProver) -> Integers:
    """The ends of the range, the zero point, and others."""
    low, high = prover.cast.bounds
    numbers = {low, low + 1, high - 1, high, 0, 1, prover.cast.zero_point}
    cast = prover.cast
    scale = float_format(cast.expressed).nearest(cast.type.scale.data)
    for fraction in range(257, 512, 30):
        # In f32 these are the middle of two bf16, and in f64 they are beside it.
        middle = math.ldexp(fraction, math.frexp(scale)[1] + 20)
        difference = math.floor(middle / scale)
        for near in (difference, difference + 1):
            numbers |= {cast.zero_point - near, cast.zero_point + near}
    random = Random(0)
    # With few digits, too.
    numbers |= {random.randint(low, high) >> random.randrange(24) for _ in range(40)}
    return np.array(sorted(n for n in numbers if low <= n <= high))


def _some_expressed(prover: CastProver, q: Integers) -> Bits:
    """The bits of floats beside those where results step up, and of special ones."""
    cast, sizes = prover.cast, float_sizes(prover.cast.expressed)
    assert sizes is not None
    order = FloatOrder(*sizes)
    middle = (q[:, None] - cast.zero_point + [0, 0.5]).ravel() * cast.type.scale.data
    with np.errstate(over="ignore"):
        floats = middle.astype(np.float16 if cast.expressed == f16 else np.float32)
    bits = floats.view(f"u{floats.itemsize}").astype(np.int64)
    near = (bits >> 8 * floats.itemsize - order.width)[:, None] + np.arange(-1, 2)
    sign = 1 << order.width - 1
    special = [0, 1, order.infinity - 1, order.infinity, order.infinity + 1]
    numbers = [*near.ravel().tolist(), *special, *(sign + each for each in special)]
    return np.array([*{each % (2 * sign) for each in numbers}], f"u{order.width // 8}")


def _verdict(claim: Callable[[], Theorem]) -> str:
    return claim().verdict


def _interpret(prover: CastProver, op: str, values: NDArray[Any]) -> NDArray[Any]:
    """Lowered casts of tensors: bits of expressed values and stored ones."""
    module = parse_module(prover.text(op, "tensor<?x{}>"))
    apply_passes(module, prover.passes)
    stored, expressed = map(numpy_dtype, (prover.cast.storage, prover.cast.expressed))
    if op == "q":
        (found,) = run_function(module, "main", values.view(expressed))
        return found.view(stored)
    (found,) = run_function(module, "main", values.astype(stored))
    return found.view(f"u{found.itemsize}")


def _same(
    function: Callable[[NDArray[Any]], NDArray[Any]],
    values: NDArray[Any],
    right: NDArray[Any],
) -> str:
    """Whether a function gives what is right."""
    return "proved" if np.array_equal(function(values), right) else "refuted"


def _answer(claim: Claim) -> str:
    """A verdict, or what was raised."""
    try:
        return claim()
    # A mutant may raise anything.
    except Exception as e:
        return type(e).__name__


# Mutants


class Covered:
    """The lines of mutated files that are run while it is in use."""

    def __init__(self) -> None:
        paths = [path for pattern in MUTATED for path in ROOT.glob(pattern)]
        self.lines: dict[str, set[int]] = {str(path): set() for path in paths}

    def __enter__(self) -> Self:
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._ran if frame.f_code.co_filename in self.lines else None

    def _ran(self, frame: FrameType, event: str, argument: object) -> Any:
        self.lines[frame.f_code.co_filename].add(frame.f_lineno)
        return self._ran


def _mutate(folder: Path, covered: Mapping[str, Collection[int]]) -> list[str]:
    """Write mutated files, and give the names of the mutants."""
    mutate: Any = import_module("mutmut.mutation.file_mutation").mutate_file_contents
    names: list[str] = []
    for file, lines in covered.items():
        path = Path(file).relative_to(ROOT)
        code = mutate(str(path), Path(file).read_text(), {*lines}).code
        (folder / path).write_text(code)
        module = ".".join(path.with_suffix("").parts)
        names += [f"{module}.{name}" for name in _NAMES.findall(code)]
    return names


def _draw(folder: Path, count: int, seed: int) -> None:
    """Make a folder with mutants, and a file with the names of those that are drawn."""
    with Covered() as covered:
        for claim in claims():
            claim()
    for part in ("xdsl_quant", "tests"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, folder / "mutants" / part, ignore=ignored)
        (folder / part).symlink_to(ROOT / part)
    names = _mutate(folder / "mutants", covered.lines)
    drawn = Random(seed).sample(sorted(names), min(count, len(names)))
    print(f"{len(names)} mutants of lines that are run, {len(drawn)} of them drawn")
    (folder / "drawn").write_text("\n".join(drawn))


class Tried(NamedTuple):
    """What became of a mutant."""

    name: str

    refuted_by: int | None
    """The number of the claim; `None` if all claims are answered as without the mutant."""

    is_too_hard: bool
    """Whether it took too long."""

    seconds: float


_claims: list[Claim] = []
_answers: list[str] = []


def _all_answers(_: object) -> list[str]:
    return [*map(_answer, _claims)]


def _try(name: str) -> Tried:
    """In a process of its own: answer claims until one is answered in another way."""
    os.environ["MUTANT_UNDER_TEST"] = name
    start = time.perf_counter()
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(SECONDS)
    number, is_too_hard = None, True
    with suppress(KeyboardInterrupt):
        pairs = zip(_claims, _answers, strict=True)
        differences = (i for i, (c, a) in enumerate(pairs) if _answer(c) != a)
        number, is_too_hard = next(differences, None), False
    return Tried(name, number, is_too_hard, time.perf_counter() - start)


def _stop(*_: object) -> None:
    # As Ctrl-C does: the solver stops at that and not at an exception.
    signal.raise_signal(signal.SIGINT)


def _try_all() -> int:
    """Try the mutants of the folder that this is in, and tell of them."""
    os.environ["MUTANT_UNDER_TEST"] = ""
    _claims.extend(claims())
    processes = os.cpu_count()
    context = get_context("fork")
    with context.Pool(1) as pool:
        _answers.extend(pool.map(_all_answers, [None])[0])
    names = Path("drawn").read_text().split()
    with context.Pool(processes, maxtasksperchild=1) as pool:
        results = [*pool.imap(_try, names, chunksize=1)]
    refuted = [each for each in results if each.refuted_by is not None]
    seconds = [each.seconds for each in refuted]
    print(
        f"{len(refuted)} refuted, in {np.mean(seconds):.1f} s on average and at most "
        f"{max(seconds):.1f} s, by {len({each.refuted_by for each in refuted})} of "
        f"{len(_claims)} claims"
    )
    others = [mutant_of(each.name) for each in results if each.refuted_by is None]
    too_hard = [mutant_of(each.name) for each in results if each.is_too_hard]
    known = [*listed(), *listed(UNCHANGED)]
    new = [each for each in others if not any(entry.has(each) for entry in known)]
    print(f"{len(others) - len(new)} change nothing, for the reason that is listed")
    print(
        f"{len(new)} neither, {len(too_hard)} of all without an answer in {SECONDS} s"
    )
    for function, change in new:
        print(f"\n{function}\n{change}")
    return bool(new)


def main() -> int:
    """The exit code: 1 if a mutant is not refuted without a reason."""
    parser = argparse.ArgumentParser(prog="python -m tests.proving.mutants")
    parser.add_argument("--count", type=int, default=150, help="how many are drawn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        return _try_all()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _draw(folder, options.count, options.seed)
        environment = {**os.environ, "PYTHONPATH": str(folder / "mutants")}
        command = [sys.executable, "-P", "-m", "tests.proving.mutants", "--here"]
        return subprocess.run(
            command, check=False, cwd=folder, env=environment
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
