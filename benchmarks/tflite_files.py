"""
Time to import a `.tflite` file and to lower its ops to `linalg`, for each op of files
with 1,000 to 100,000 ops.

The file contains one chain of quantized ops, which repeats a fully connected layer, an
addition, a ReLU, a logistic function and a requantization. Times are microseconds for
each op of TensorFlow Lite; the lowering creates and verifies 24 ops for it. Each row is a
separate process. Constant times mean linear time.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import Costs, Timings, in_fresh_process, measure
from benchmarks.report import Options, Target, main, number, table, targets
from xdsl_quant.frontends.tflite import write_tflite
from xdsl_quant.runtime.loading import apply_passes, parse_module, read_tflite_file

_X = "tensor<1x8x!quant.uniform<i8:f32, 0.05:3>>"
_Y = "tensor<1x8x!quant.uniform<i8:f32, 0.00390625:-128>>"
_WEIGHTS = "tensor<8x8x!quant.uniform<i8<-127:127>:f32, 0.025>>"
_BIAS = "tensor<8x!quant.uniform<i32:f32, 0.00125>>"
_STEPS = ("import", "lower", "print")


def _text(count: int) -> str:
    lines = [
        f"func.func @main(%0: {_X}, %b: {_X}) -> {_X} {{",
        f'  %w = "tfl.pseudo_qconst"() {{qtype = {_WEIGHTS}, value = dense<3> : '
        f"tensor<8x8xi8>}} : () -> {_WEIGHTS}",
        f'  %n = "tfl.pseudo_qconst"() {{qtype = {_BIAS}, value = dense<5> : '
        f"tensor<8xi32>}} : () -> {_BIAS}",
    ]
    for i in range(0, count, 5):
        lines += (
            f'  %{i + 1} = "tfl.fully_connected"(%{i}, %w, %n) {{'
            'fused_activation_function = "NONE", keep_num_dims = false, weights_format = '
            f'"DEFAULT"}} : ({_X}, {_WEIGHTS}, {_BIAS}) -> {_X}',
            f'  %{i + 2} = "tfl.add"(%{i + 1}, %b) {{fused_activation_function = '
            f'"NONE"}} : ({_X}, {_X}) -> {_X}',
            f'  %{i + 3} = "tfl.relu"(%{i + 2}) : ({_X}) -> {_X}',
            f'  %{i + 4} = "tfl.logistic"(%{i + 3}) : ({_X}) -> {_Y}',
            f'  %{i + 5} = "tfl.quantize"(%{i + 4}) {{qtype = {_X}}} : ({_Y}) -> {_X}',
        )
    return "\n".join([*lines, f"  return %{count} : {_X}", "}"])


def _write(path: Path, count: int) -> None:
    path.write_bytes(write_tflite(parse_module(_text(count))))


def _measured(path: Path, runs: int) -> Costs:
    def work(timings: Timings) -> None:
        with timings.step("import"):
            module = read_tflite_file(path)
        with timings.step("lower"):
            apply_passes(module, "convert-tfl-to-linalg")
        with timings.step("print"):
            str(module)

    return measure(work, runs)


def _costs(folder: Path, count: int) -> Costs:
    small, path = folder / "small.tflite", folder / f"{count}.tflite"
    # Warm up: imports and caches of the first use do not count.
    _write(small, 5)
    _measured(small, 1)
    in_fresh_process(_write, path, count)
    return _measured(path, max(1, min(5, 5_000 // count)))


def report(options: Options) -> Iterator[str]:
    """Yield the table."""
    counts = (10, 50) if options.quick else (1_000, 10_000, 100_000)
    rows: list[list[str]] = []
    times: list[list[float]] = []
    for count in counts:
        with tempfile.TemporaryDirectory() as folder:
            costs = in_fresh_process(_costs, Path(folder), count)
        times.append([costs.seconds[step] / count * 1e6 for step in _STEPS])
        rows.append([f"{count:,} ops", *map(number, times[-1]), number(costs.peak)])
    yield table(["us an op", *_STEPS, "peak MiB"], rows)
    yield targets(
        [
            Target(
                f"{step}: at most 1.3 times as much with {counts[-1]:,} ops as with "
                f"{counts[0]:,}",
                last / first,
                1.3,
                "x",
            )
            for step, first, last in zip(_STEPS, times[0], times[-1], strict=True)
        ]
    )


if __name__ == "__main__":
    main(__doc__, report)
