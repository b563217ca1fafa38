"""
Time of parsing, printing and CSE for a type with a million scales, compared with MLIR.

The expressed type is f32, with one scale for each of 1,000,000 elements or rows. *Short*
literals have four digits, so many scales are equal. *Full* literals have 17 digits, so
all scales differ. Times are CPU seconds: the median of three runs in one process, each
with a new context. Each row is a separate process.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from struct import pack
from typing import Literal

from benchmarks.measuring import Costs, Timings, in_fresh_process, measure
from benchmarks.report import Options, Target, main, number, ratio, table, targets
from benchmarks.tools import TOOL_NAMES, ToolName, load_tool

Literals = Literal["short", "full", "hexadecimal", "mixed"]

_RUNS = 3


def _decimal(random: Random, digits: int) -> str:
    # Large enough to be printed without an exponent.
    return f"{random.uniform(0.001, 1.0):.{digits}g}"


def _hexadecimal(random: Random) -> str:
    return f"0x{pack('>d', random.uniform(0.001, 1.0)).hex().upper()}"


def _mixed(random: Random) -> str:
    return _hexadecimal(random) if random.random() < 0.1 else _decimal(random, 17)


_SCALES: dict[Literals, Callable[[Random], str]] = {
    "short": lambda random: f"{random.randrange(1, 10_000) / 10_000:.4f}",
    "full": lambda random: _decimal(random, 17),
    "hexadecimal": _hexadecimal,
    "mixed": _mixed,
}


@dataclass(frozen=True)
class _TypeKind:
    layout: Literal["sub-channel", "per-axis"]
    literals: Literals
    has_zero_points: bool

    @property
    def label(self) -> str:
        zero_points = ", zero points" if self.has_zero_points else ""
        return f"{self.layout}, {self.literals}{zero_points}"

    def text(self, count: int) -> str:
        """Return the type with about `count` scales; square for a sub-channel type."""
        random = Random(0)

        def element() -> str:
            scale = _SCALES[self.literals](random)
            if not self.has_zero_points:
                return scale
            # MLIR with assertions crashes on negative zero points.
            return f"{scale}:{random.randrange(128)}"

        if self.layout == "per-axis":
            elements = ",".join(element() for _ in range(count))
            return f"!quant.uniform<i8:f32:0, {{{elements}}}>"
        side = round(count**0.5)
        rows = (", ".join(element() for _ in range(side)) for _ in range(side))
        lists = ", ".join(f"{{{row}}}" for row in rows)
        return f"!quant.uniform<i8:f32:{{0:1, 1:1}}, {{{lists}}}>"


_DECIMAL_KINDS = [
    _TypeKind(layout, literals, has_zero_points)
    for layout in ("sub-channel", "per-axis")
    for literals in ("short", "full")
    for has_zero_points in (False, True)
]

_GENERAL_KINDS = [
    _TypeKind("sub-channel", literals, has_zero_points)
    for literals in ("hexadecimal", "mixed")
    for has_zero_points in (False, True)
]


def _measure_type(tool_name: ToolName, kind: _TypeKind, count: int) -> Costs:
    tool = load_tool(tool_name)

    def work(text: str, timings: Timings) -> None:
        with timings.step("parse"):
            type_ = tool.parse_type(text)
        with timings.step("print"):
            str(type_)

    # Warm up: imports and caches of the first use do not count.
    work(kind.text(4), Timings())
    text = kind.text(count)
    return measure(lambda timings: work(text, timings), _RUNS)


def _total(costs: Costs) -> float:
    return costs.seconds["parse"] + costs.seconds["print"]


def _decimals(count: int) -> Iterator[str]:
    rows: list[Sequence[str]] = []
    measured: dict[_TypeKind, tuple[Costs, Costs]] = {}
    for kind in _DECIMAL_KINDS:
        ours = in_fresh_process(_measure_type, "xDSL", kind, count)
        theirs = in_fresh_process(_measure_type, "MLIR", kind, count)
        measured[kind] = ours, theirs
        for tool_name, costs in (("xDSL", ours), ("MLIR", theirs)):
            cells = (costs.seconds["parse"], _total(costs), costs.peak)
            rows.append([f"{kind.label}: {tool_name}", *map(number, cells)])
        rows.append(
            [
                f"{kind.label}: xDSL / MLIR",
                ratio(ours.seconds["parse"], theirs.seconds["parse"]),
                ratio(_total(ours), _total(theirs)),
                ratio(ours.peak, theirs.peak),
            ]
        )
    yield table([f"{count:,} scales", "parse s", "parse + print s", "peak MiB"], rows)
    yield targets(_decimal_targets(measured))


def _decimal_targets(
    measured: Mapping[_TypeKind, tuple[Costs, Costs]],
) -> Iterator[Target]:
    for kind, (ours, theirs) in measured.items():
        yield Target(
            f"{kind.label}: parsed in 0.3 s",
            ours.seconds["parse"],
            0.3,
            " s",
            "Python and NumPy take 0.2 us to parse a number of 17 digits, and 0.1 us for a "
            "zero point.",
        )
        yield Target(
            f"{kind.label}: parsed and printed in half of MLIR's time",
            _total(ours) / _total(theirs),
            0.5,
            " of it",
            "The exact decimal expansion of each number takes most of the time.",
        )


def _general(count: int) -> Iterator[str]:
    rows: list[Sequence[str]] = []
    worst_growth = worst_ratio = 0.0
    for kind in _GENERAL_KINDS:
        few = in_fresh_process(_measure_type, "xDSL", kind, count)
        many = in_fresh_process(_measure_type, "xDSL", kind, 2 * count)
        theirs = in_fresh_process(_measure_type, "MLIR", kind, 2 * count)
        growth = many.seconds["parse"] / few.seconds["parse"]
        worst_growth = max(worst_growth, growth)
        worst_ratio = max(worst_ratio, many.seconds["parse"] / theirs.seconds["parse"])
        rows.append(
            [
                kind.label,
                number(few.seconds["parse"]),
                number(many.seconds["parse"]),
                f"{number(growth)}x",
                number(theirs.seconds["parse"]),
                ratio(many.seconds["parse"], theirs.seconds["parse"]),
                number(many.peak),
            ]
        )
    yield "Types with hexadecimal literals, all or one in ten:"
    yield table(
        [
            "parse s",
            f"{count:,} scales",
            f"{2 * count:,}",
            "growth",
            f"MLIR {2 * count:,}",
            "xDSL / MLIR",
            "peak MiB",
        ],
        rows,
    )
    claim = "time for twice the scales, at most 2.4 times as long"
    yield targets(
        [
            Target(claim, worst_growth, 2.4, "x"),
            Target("parsed in at most twice MLIR's time", worst_ratio, 2, "x"),
        ]
    )


_CSE_OPS = 1_000
_CSE_ARGUMENTS = 10

_LARGE_TYPE = "quant.qcast, large type"
_PER_TENSOR = "quant.qcast, per-tensor type"
_FLOAT = "arith.extf"

_CSE_CASES = (_FLOAT, _PER_TENSOR, _LARGE_TYPE)


def _cse_text(case: str, count: int) -> str:
    """Return a function that casts each of ten arguments many times."""
    side = round(count**0.5)
    expressed = f"tensor<{side}x{side}xf32>"
    element, op = {
        _FLOAT: ("f64", "arith.extf"),
        _PER_TENSOR: ("!quant.uniform<i8:f32, 0.5>", "quant.qcast"),
        _LARGE_TYPE: (
            _TypeKind("sub-channel", "full", False).text(count),
            "quant.qcast",
        ),
    }[case]
    arguments = ", ".join(f"%x{i}: {expressed}" for i in range(_CSE_ARGUMENTS))
    casts = (
        f"  %{i} = {op} %x{i % _CSE_ARGUMENTS} : {expressed} "
        f"to tensor<{side}x{side}x!element>"
        for i in range(_CSE_OPS)
    )
    return "\n".join(
        (
            f"!element = {element}",
            f"func.func @casts({arguments}) {{",
            *casts,
            "  return",
            "}",
        )
    )


def _measure_cse(tool_name: ToolName, case: str, count: int) -> Costs:
    tool = load_tool(tool_name)
    tool.parse_module(_cse_text(case, 4)).run("cse")
    text = _cse_text(case, count)

    def work(timings: Timings) -> None:
        module = tool.parse_module(text)
        with timings.step("cse"):
            module.run("cse")

    return measure(work, 11)


def _cse(count: int) -> Iterator[str]:
    rows: list[Sequence[str]] = []
    times: dict[str, float] = {}
    for case in _CSE_CASES:
        ours, theirs = (
            in_fresh_process(_measure_cse, tool_name, case, count)
            for tool_name in TOOL_NAMES
        )
        times[case] = ours.seconds["cse"]
        rows.append(
            [
                case,
                number(ours.seconds["cse"] / _CSE_OPS * 1e6),
                number(theirs.seconds["cse"] / _CSE_OPS * 1e6),
                ratio(ours.seconds["cse"], theirs.seconds["cse"]),
                number(ours.peak),
                number(theirs.peak),
            ]
        )
    yield f"CSE over {_CSE_OPS:,} casts of {_CSE_ARGUMENTS} values:"
    yield table(
        [
            "us an op",
            "xDSL",
            "MLIR",
            "xDSL / MLIR",
            "peak MiB, xDSL",
            "peak MiB, MLIR",
        ],
        rows,
    )
    yield targets(
        Target(
            f"large type: CSE takes at most 1.05 times as long as for {case}",
            times[_LARGE_TYPE] / times[case],
            1.05,
            "x",
        )
        for case in (_FLOAT, _PER_TENSOR)
    )


def report(options: Options) -> Iterator[str]:
    """Yield all tables."""
    count = 1_000 if options.quick else 1_000_000
    yield from _decimals(count)
    yield from _general(count // 10)
    yield from _cse(count)


if __name__ == "__main__":
    main(__doc__, report)
