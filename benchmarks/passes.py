"""
Time of the passes that change types, for each op of modules with 1,000 to 100,000 ops,
compared with MLIR.

Times are microseconds for each op of the module, for the pass alone. Each row is a
separate process. *Functions*: small functions with quantized arguments and results; each
calls the previous function. *Calls*: calls of one function; the operand of each call is
the result of the previous call. *Types*: casts in one function, with sub-channel types
that are alternately equivalent to per-tensor and per-axis types. Constant times mean
linear time.
"""

from collections.abc import Callable, Iterator, Sequence

from benchmarks.measuring import Costs, Timings, in_fresh_process, measure
from benchmarks.report import Options, Target, main, number, ratio, table, targets
from benchmarks.tools import TOOL_NAMES, ToolName, load_tool

_QUANTIZED = "tensor<4x4x!quant.uniform<i8:f32, 5.000000e-01:3>>"
_EXPRESSED = "tensor<4x4xf32>"
_PER_LAYER = "tensor<4x4x!quant.uniform<i8:f32:{0:4, 1:4}, {{0.5:3}}>>"
_PER_AXIS = "tensor<4x4x!quant.uniform<i8:f32:{0:1}, {{0.5}, {0.25:1}, {2.0}, {1.0}}>>"


def _functions(count: int) -> str:
    lines = [f"func.func private @f0({_QUANTIZED}) -> {_QUANTIZED}"]
    for i in range(1, count // 5 + 1):
        lines += (
            f"func.func @f{i}(%q: {_QUANTIZED}) -> {_QUANTIZED} {{",
            f"  %0 = call @f{i - 1}(%q) : ({_QUANTIZED}) -> {_QUANTIZED}",
            f"  %1 = quant.dcast %0 : {_QUANTIZED} to {_EXPRESSED}",
            f"  %2 = quant.qcast %1 : {_EXPRESSED} to {_QUANTIZED}",
            f"  return %2 : {_QUANTIZED}",
            "}",
        )
    return "\n".join(lines)


def _calls(count: int) -> str:
    lines = [
        f"func.func private @f({_QUANTIZED}) -> {_QUANTIZED}",
        f"func.func @calls(%arg: {_QUANTIZED}) -> {_QUANTIZED} {{",
    ]
    value = "%arg"
    for i in range(count):
        lines.append(f"  %{i} = call @f({value}) : ({_QUANTIZED}) -> {_QUANTIZED}")
        value = f"%{i}"
    return "\n".join([*lines, f"  return {value} : {_QUANTIZED}", "}"])


def _types(count: int) -> str:
    lines = [f"func.func @types(%x: {_EXPRESSED}) {{"]
    for i in range(count):
        type_ = _PER_AXIS if i % 2 else _PER_LAYER
        lines.append(f"  %{i} = quant.qcast %x : {_EXPRESSED} to {type_}")
    return "\n".join([*lines, "  return", "}"])


_CASES: dict[str, tuple[str, Callable[[int], str]]] = {
    "functions": ("strip-func-quant-types", _functions),
    "calls": ("strip-func-quant-types", _calls),
    "types": ("normalize-quant-types", _types),
}


def _measure_pass(tool_name: ToolName, case: str, count: int) -> Costs:
    tool = load_tool(tool_name)
    pass_, text_of = _CASES[case]

    def work(text: str, timings: Timings) -> None:
        module = tool.parse_module(text)
        with timings.step("pass"):
            module.run(pass_)

    # Warm up: imports and caches of the first use do not count.
    work(text_of(10), Timings())
    text = text_of(count)
    runs = max(1, min(7, 20_000 // count))
    return measure(lambda timings: work(text, timings), runs)


def report(options: Options) -> Iterator[str]:
    """Yield all tables."""
    counts = (20, 100) if options.quick else (1_000, 10_000, 100_000)
    rows: list[Sequence[str]] = []
    limits: list[Target] = []
    for case, (pass_, _) in _CASES.items():
        times: list[float] = []
        for count in counts:
            ours, theirs = (
                in_fresh_process(_measure_pass, tool_name, case, count)
                for tool_name in TOOL_NAMES
            )
            times.append(ours.seconds["pass"] / count * 1e6)
            rows.append(
                [
                    f"`{pass_}`, {case}, {count:,} ops",
                    number(times[-1]),
                    number(theirs.seconds["pass"] / count * 1e6),
                    ratio(ours.seconds["pass"], theirs.seconds["pass"]),
                    number(ours.peak),
                    number(theirs.peak),
                ]
            )
        limits.append(
            Target(
                f"`{pass_}`, {case}: at most 1.3 times as much with {counts[-1]:,} as "
                f"with {counts[0]:,}",
                times[-1] / times[0],
                1.3,
                "x",
            )
        )
    header = ["us an op", "xDSL", "MLIR", "xDSL / MLIR", "peak MiB, xDSL"]
    yield table([*header, "peak MiB, MLIR"], rows)
    yield targets(limits)


if __name__ == "__main__":
    main(__doc__, report)
