"""
Time of `quant-propagate` for each kernel, for programs with 1,000 to 100,000 kernels.

Times are microseconds for each kernel. *Pass* is the pass without parsing and printing;
*report* creates the report. *Statistics* is a chain of kernels whose results all have a
range. *Same scale* is a chain of kernels that all have the parameters of the last result.
*Conflicts* is a chain of kernels of one kind; every fourth kernel needs a rescale.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from benchmarks.measuring import Costs, Timings, in_fresh_process, measure
from benchmarks.report import Options, Target, main, number, table, targets
from xdsl_quant.dialects import quant
from xdsl_quant.dialects.quant import CalibratedQuantizedType, RegionOp
from xdsl_quant.frontends.tflite.dialect.activations import ReluOp, TanhOp
from xdsl_quant.frontends.tflite.dialect.base import TFLOp
from xdsl_quant.frontends.tflite.dialect.elementwise import MaximumOp
from xdsl_quant.transforms.propagation.quant_propagate import Propagation
from xdsl_quant.transforms.propagation.target_files import read_target

_TENSOR = TensorType(f32, (4,))

OpType = type[TFLOp]


def _module(
    count: int, op_type: Callable[[int], OpType], has_range: Callable[[int], bool]
) -> ModuleOp:
    function = FuncOp("main", ((_TENSOR,), (_TENSOR,)))
    values: list[SSAValue] = [*function.body.block.args]
    for i in range(count):
        kind = op_type(i)
        inputs = values[-2:] if kind is MaximumOp else values[-1:]
        inputs = inputs * 2 if kind is MaximumOp and len(inputs) == 1 else inputs
        block = Block(arg_types=[_TENSOR] * len(inputs))
        op = kind(*block.args, result_types=[_TENSOR])
        block.add_ops([op, quant.ReturnOp(op.results[0])])
        bounds = CalibratedQuantizedType(f32, -1.0 - i % 7, 2.0)
        region = RegionOp(
            op.name,
            inputs,
            [_TENSOR],
            Region(block),
            output_specs=[bounds] if has_range(i) else (),
        )
        function.body.block.add_op(region)
        values.append(region.results[0])
    function.body.block.add_op(ReturnOp(values[-1]))
    return ModuleOp([function])


_CASES: dict[str, Callable[[int], ModuleOp]] = {
    "statistics": lambda count: _module(count, lambda i: ReluOp, lambda i: True),
    "same scale": lambda count: _module(
        count, lambda i: MaximumOp, lambda i: i == count - 1
    ),
    "conflicts": lambda count: _module(
        count,
        lambda i: (ReluOp, TanhOp, MaximumOp, MaximumOp)[i % 4],
        lambda i: i % 4 == 0,
    ),
}


def _measure_pass(case: str, count: int) -> Costs:
    target = read_target("tflite-int8")

    def work(timings: Timings) -> None:
        module = _CASES[case](count)
        with timings.step("pass"):
            propagation = Propagation(module, target)
        with timings.step("report"):
            propagation.report()

    # Warm up: imports and caches of the first use do not count.
    Propagation(_CASES[case](100), target).report()
    return measure(work, max(1, min(5, 10_000 // count)))


def report(options: Options) -> Iterator[str]:
    """Yield all tables."""
    counts = (20, 100) if options.quick else (1_000, 10_000, 100_000)
    rows: list[Sequence[str]] = []
    limits: list[Target] = []
    for case in _CASES:
        times: list[float] = []
        for count in counts:
            costs = in_fresh_process(_measure_pass, case, count)
            times.append(costs.seconds["pass"] / count * 1e6)
            rows.append(
                [
                    f"{case}, {count:,} kernels",
                    number(times[-1]),
                    number(costs.seconds["report"] / count * 1e6),
                    number(costs.peak),
                ]
            )
        limits.append(
            Target(
                f"{case}: at most 3 times as much with {counts[-1]:,} as with "
                f"{counts[0]:,}",
                times[-1] / times[0],
                3.0,
                "x",
            )
        )
    yield table(["us a kernel", "pass", "report", "peak MiB"], rows)
    yield targets(limits)


if __name__ == "__main__":
    main(__doc__, report)
