"""
Time to parse, verify, print and lower one cast, for functions with 1,000 to 100,000
casts, compared with MLIR.

The function alternates `quant.qcast` and `quant.dcast` of `tensor<64x64xf32>`, with a
per-tensor type of `i8` storage. *Independent* casts have arguments of the function as
operands. In a *chain*, each cast has the result of the previous cast as operand, so every
second cast folds away. Each row is a separate process. All columns are microseconds for
each cast of the function before lowering. Constant times in a column mean linear time.

MLIR verifies during parsing, so its *parse* includes *verify*. The other columns contain
a single step: both tools run without the verifiers after passes and before printing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from benchmarks.measuring import Costs, Timings, in_fresh_process, measure
from benchmarks.report import Options, Target, main, number, ratio, table
from benchmarks.tools import TOOL_NAMES, Module, Tool, ToolName, load_tool

Kind = Literal["independent", "chain"]

_QUANTIZED = "tensor<64x64x!quant.uniform<i8:f32, 5.000000e-01:3>>"
_EXPRESSED = "tensor<64x64xf32>"

_COLUMNS: Mapping[Kind, Sequence[str]] = {
    "independent": (
        *("parse", "verify", "print", "lower", "verify lowered", "print lowered"),
    ),
    # The lowering removes all casts.
    "chain": ("parse", "verify", "print", "lower"),
}

_VARIANTS: Sequence[tuple[Kind, str]] = (
    ("independent", "lower-quant-ops"),
    ("independent", "lower-quant-ops{fuse=true}"),
    ("independent", "lower-quant-ops{rounding-mode=nearest-even}"),
    ("independent", "lower-quant-ops{rounding-mode=nearest-even fuse=true}"),
    ("chain", "lower-quant-ops"),
    ("chain", "lower-quant-ops{keep-qdq=true}"),
)

_MLIR_OPT_STEPS = ("parse", "lower", "print lowered")

_MLIR_CHAIN_LIMIT = 10_000
"""Casts in the longest chain that MLIR lowers in seconds: it takes quadratic time."""


def _text(kind: Kind, count: int) -> str:
    """Return the text of a function with `count` casts."""
    lines = [f"func.func @casts(%x: {_EXPRESSED}, %q: {_QUANTIZED}) {{"]
    for i in range(count):
        name, source, from_, to = (
            ("dcast", "%q", _QUANTIZED, _EXPRESSED)
            if i % 2
            else ("qcast", "%x", _EXPRESSED, _QUANTIZED)
        )
        if kind == "chain" and i:
            source = f"%{i - 1}"
        lines.append(f"  %{i} = quant.{name} {source} : {from_} to {to}")
    return "\n".join([*lines, "  return", "}"])


def _work(tool: Tool, text: str, timings: Timings, with_lowering: bool) -> None:
    with timings.step("parse"):
        module = tool.parse_module(text)
    with timings.step("verify"):
        module.verify()
    with timings.step("print"):
        module.text()
    if not with_lowering:
        return
    _lower(module, timings, "lower-quant-ops")
    with timings.step("verify lowered"):
        module.verify()
    with timings.step("print lowered"):
        module.text()


def _lower(module: Module, timings: Timings, pass_: str) -> None:
    with timings.step("lower"):
        module.run(pass_)


def _runs(count: int) -> int:
    return max(1, min(7, 20_000 // count))


def _measure_all(
    tool_name: ToolName, kind: Kind, count: int, with_lowering: bool
) -> Costs:
    tool = load_tool(tool_name)
    # Warm up: imports and caches of the first use do not count.
    _work(tool, _text(kind, 10), Timings(), True)
    text = _text(kind, count)
    return measure(
        lambda timings: _work(tool, text, timings, with_lowering), _runs(count)
    )


def _measure_variant(kind: Kind, pass_: str, count: int) -> Costs:
    tool = load_tool("xDSL")

    def work(text: str, timings: Timings) -> None:
        _lower(tool.parse_module(text), timings, pass_)

    work(_text(kind, 10), Timings())
    text = _text(kind, count)
    return measure(lambda timings: work(text, timings), _runs(count))


def _microseconds(costs: Costs, column: str, count: int) -> float | None:
    seconds = costs.seconds.get(column)
    return None if seconds is None else seconds / count * 1e6


def _row(label: str, costs: Costs, columns: Sequence[str], count: int) -> Sequence[str]:
    values = [_microseconds(costs, column, count) for column in columns]
    cells = ["not run" if value is None else number(value) for value in values]
    return [label, *cells, number(costs.peak)]


def _ratios(ours: Costs, theirs: Costs, columns: Sequence[str]) -> Sequence[str]:
    return [
        ratio(ours.seconds[column], theirs.seconds[column])
        if column in theirs.seconds
        else "-"
        for column in columns
    ]


def _kind_table(
    kind: Kind, costs: Mapping[tuple[ToolName, int], Costs], counts: Sequence[int]
) -> str:
    columns = _COLUMNS[kind]
    rows: list[Sequence[str]] = []
    for count in counts:
        for tool_name in TOOL_NAMES:
            label = f"{count:,} {tool_name}"
            rows.append(_row(label, costs[tool_name, count], columns, count))
        ours, theirs = costs["xDSL", count], costs["MLIR", count]
        rows.append(
            [
                f"{count:,} xDSL / MLIR",
                *_ratios(ours, theirs, columns),
                ratio(ours.peak, theirs.peak),
            ]
        )
    return table([f"{kind}, us an op", *columns, "peak MiB"], rows)


def _growth(few: Costs, many: Costs, column: str, factor: float) -> float:
    return many.seconds[column] / (few.seconds[column] * factor)


def _flat_target(
    kind: Kind, costs: Mapping[tuple[ToolName, int], Costs], counts: Sequence[int]
) -> Target:
    few, many = counts[0], counts[-1]
    growths = {
        column: _growth(costs["xDSL", few], costs["xDSL", many], column, many / few)
        for column in _COLUMNS[kind]
    }
    each = ", ".join(f"{column} {number(g)}x" for column, g in growths.items())
    return Target(
        f"{kind}: time for each op with {many:,} ops, at most 1.3 times that with {few:,} "
        f"({each})",
        max(growths.values()),
        1.3,
        "x",
        "The time of Python's cyclic garbage collector grows, as it visits all objects "
        "repeatedly. xDSL's arith ops have the same growth.",
    )


def _largest_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    return max(a / b for a, b in zip(ours, theirs, strict=True))


def _lower_targets(
    costs: Mapping[tuple[ToolName, int], Costs], counts: Sequence[int]
) -> Iterator[Target]:
    worst = max(costs["xDSL", n].seconds["lower"] / n * 1e6 for n in counts)
    yield Target("lowering: at most 200 us for each cast", worst, 200, " us")
    theirs = [costs["MLIR", n].seconds for n in counts]
    ours = [costs["xDSL", n].seconds["lower"] for n in counts]
    whole_runs = [sum(t[step] for step in _MLIR_OPT_STEPS) for t in theirs]
    yield Target(
        "lowering: at most 10 times as long as MLIR's parsing, lowering and printing",
        _largest_ratio(ours, whole_runs),
        10,
        "x",
    )
    yield Target(
        "lowering: at most 10 times as long as MLIR's lowering alone",
        _largest_ratio(ours, [t["lower"] for t in theirs]),
        10,
        "x",
        "The lowering creates nine ops for a cast; xDSL takes at least 10 us to create and "
        "insert an op.",
    )


def _chain_target(
    costs: Mapping[tuple[ToolName, int], Costs], counts: Sequence[int]
) -> Target:
    lowered = [n for n in counts if "lower" in costs["MLIR", n].seconds]
    longest = lowered[-1]
    share = (
        costs["xDSL", longest].seconds["lower"]
        / costs["MLIR", longest].seconds["lower"]
    )
    return Target(
        f"lowering of {longest:,} casts: at most a fifth of MLIR's time",
        share,
        0.2,
        " of it",
    )


def _variant_table(counts: Sequence[int]) -> str:
    rows: list[Sequence[str]] = []
    for kind, pass_ in _VARIANTS:
        costs = [
            in_fresh_process(_measure_variant, kind, pass_, count) for count in counts
        ]
        times = [
            number(c.seconds["lower"] / count * 1e6)
            for c, count in zip(costs, counts, strict=True)
        ]
        rows.append([f"{kind}, `{pass_}`", *times, number(costs[-1].peak)])
    header = [
        "pass, us an op",
        *(f"{count:,} ops" for count in counts),
        f"peak MiB with {counts[-1]:,}",
    ]
    return table(header, rows)


def report(options: Options) -> Iterator[str]:
    """Yield all tables."""
    counts = (20, 100) if options.quick else (1_000, 10_000, 100_000)
    for kind in _COLUMNS:
        costs: dict[tuple[ToolName, int], Costs] = {}
        for count in counts:
            for tool_name in TOOL_NAMES:
                is_slow = (tool_name, kind) == ("MLIR", "chain")
                with_lowering = options.all or not is_slow or count <= _MLIR_CHAIN_LIMIT
                costs[tool_name, count] = in_fresh_process(
                    _measure_all, tool_name, kind, count, with_lowering
                )
        yield _kind_table(kind, costs, counts)
        if kind == "chain" and not options.all:
            yield (
                "MLIR lowers a chain in quadratic time: 100,000 casts take about five "
                "minutes and are only measured with `--all`."
            )
        limits = [_flat_target(kind, costs, counts)]
        if kind == "chain":
            limits.append(_chain_target(costs, counts))
        else:
            limits += _lower_targets(costs, counts)
        yield "\n".join(map(str, limits))
    yield "Time of the pass with options that MLIR lacks:"
    yield _variant_table(counts)


if __name__ == "__main__":
    main(__doc__, report)
