"""
Deviation of the float fallback of `convert-tfl-to-linalg` from exact results and from
TensorFlow Lite's reference kernels.

Each op of the golden cases in the tests is lowered with `fallback=only`: the lowering
dequantizes the operands, computes the op in `f32` and quantizes the result, rounding half
to even. *Exact* results are computed in `f64` from the exact values of the operands, then
rounded and clamped in the same way. Differences are counted in units of the stored value.
NaN results, such as logarithms of negative numbers, are excluded. The storage is `i8` or
`u8`, except where the row says `i16`.

The reference computes something else where the fallback is far from it:
`neg`, `floor_div` and `floor_mod` ignore zero points or scales, products of `reduce_prod`
wrap around, `sqrt` truncates, and functions of `i16` are tables with interpolation. `div`
has no reference, because its kernel computes wrong quotients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.ir import Operation

from benchmarks.report import Options, Target, main, table, targets
from tests.unit.frontends.tflite.files.models import DTYPES, model_of
from tests.unit.frontends.tflite.formulas.cases import Case, Tensor, cases
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.frontends.tflite.lowering.convert_tfl_to_linalg import (
    ConvertTFLToLinalgPass,
)
from xdsl_quant.frontends.tflite.lowering.kernels import (
    IMPLEMENTATIONS,
    Computation,
    parameters_of,
)
from xdsl_quant.machines.numpy import run_function

_NO_REFERENCE = frozenset({"DIV"})
"""Ops whose reference kernel computes wrong results."""


@dataclass
class Row:
    """Deviations found for an op."""

    values: int = 0
    from_exact: int = 0
    """Number of results that differ from the exact results."""

    largest_from_exact: int = 0
    from_reference: int = 0
    largest_from_reference: int = 0


def measure(chosen: Iterable[Case]) -> dict[str, Row]:
    """
    Compare the results of the fallback.

    Args:
        chosen: cases of any ops; cases without a fallback are skipped.

    Returns:
        The deviations by op name, with the suffix ` i16` for 16-bit storage.
    """
    rows: dict[str, Row] = {}
    for case in chosen:
        module = read_tflite(write_model(model_of(case)))
        for op in module.walk():
            if not isinstance(IMPLEMENTATIONS.get(type(op)), Computation):
                continue
            types = *op.operand_types, *op.result_types
            parameters = [p for type_ in types if (p := parameters_of(type_))]
            if not parameters:
                continue
            exact = _exact(op, case)
            ConvertTFLToLinalgPass(fallback="only").apply(Context(), module)
            (results,) = run_function(module, "main", *_arguments(case))
            is_wide = any(p.storage_width == 16 for p in parameters)
            suffix = " i16" if is_wide else ""
            row = rows.setdefault(f"{op.name[4:]}{suffix}", Row())
            _compare(row, case, results, exact)
            break
    return rows


def divisions() -> Iterator[Case]:
    """Yield divisions, which have no results of a reference kernel."""
    random = np.random.default_rng(0)
    for i in range(14):
        x_scale, y_scale, steps = 2 ** random.uniform((-8, -8, 3), (2, 2, 6))
        # The quotient of two typical stored values is `steps` units of the result.
        scales = x_scale, y_scale, x_scale / y_scale / steps
        x, y, result = (
            Tensor(
                "INT8",
                random.integers(-128, 128, 64),
                [float(np.float32(scale))],
                [int(random.integers(-128, 128))],
                axis=None,
                is_constant=False,
                is_variable=False,
            )
            for scale in scales
        )
        # Avoid division by zero.
        y = y._replace(array=np.where(y.array == y.zero_points[0], 0, y.array))
        if not y.zero_points[0]:
            y = y._replace(array=np.where(y.array, y.array, 1))
        options = {"fused_activation_function": 0}
        yield Case(f"DIV #{i}", "DIV", options, [x, y], [result])


def _arguments(case: Case) -> list[NDArray[Any]]:
    return [
        operand.array.astype(DTYPES[operand.type])
        for operand in case.operands
        if operand and not operand.is_constant
    ]


def _exact(op: Operation, case: Case) -> NDArray[Any]:
    """Compute an op in `f64`; return stored values if its result is quantized."""
    implementation = IMPLEMENTATIONS[type(op)]
    assert isinstance(implementation, Computation)
    arrays = [operand and operand.array for operand in case.operands]
    arrays += [None] * (len(op.operands) - len(arrays))
    values = [_expressed(*pair) for pair in zip(arrays, op.operand_types, strict=True)]
    what = implementation.operands
    if what.bias is not None and (bias := arrays[what.bias]) is not None:
        assert what.weights is not None
        # The bias has the scale of the products; the scale of its type is ignored.
        scale = _scales(op, what.input) * _scales(op, what.weights)
        values[what.bias] = bias.astype(np.float64) * scale
    with np.errstate(all="ignore"):
        results = np.asarray(implementation.formula(op, *values))
        if (parameters := parameters_of(op.result_types[0])) is None:
            return results
        steps = np.rint(results / _scales(op) + parameters.zero_points)
    return np.clip(steps, parameters.storage_min, parameters.storage_max)


def _scales(op: Operation, operand: int | None = None) -> NDArray[np.float64]:
    """Return the scales of an operand or result."""
    values = op.results[0] if operand is None else op.operands[operand]
    parameters = parameters_of(values.type)
    assert parameters is not None
    return parameters.scales.astype(np.float64)


def _expressed(array: NDArray[Any] | None, type_: Any) -> Any:
    """Dequantize stored values to `f64`; return integers and `None` unchanged."""
    if array is None or (parameters := parameters_of(type_)) is None:
        return array
    shape = [1] * array.ndim
    if (axis := parameters.quantized_dimension) is not None:
        shape[axis] = -1
    else:
        shape = []
    zero_points = parameters.zero_points.astype(np.float64).reshape(shape)
    return (array - zero_points) * parameters.scales.astype(np.float64).reshape(shape)


def _compare(row: Row, case: Case, results: NDArray[Any], exact: NDArray[Any]) -> None:
    is_number = ~np.isnan(exact.astype(np.float64))
    stored = results[is_number].astype(np.int64)
    distances = np.abs(stored - exact[is_number].astype(np.int64))
    row.values += stored.size
    row.from_exact += int(np.count_nonzero(distances))
    row.largest_from_exact = max(row.largest_from_exact, int(distances.max(initial=0)))
    distances = np.abs(stored - case.results[0].array[is_number].astype(np.int64))
    row.from_reference += int(np.count_nonzero(distances))
    row.largest_from_reference = max(
        row.largest_from_reference, int(distances.max(initial=0))
    )


def lines(rows: dict[str, Row]) -> Iterator[Sequence[str]]:
    """Return the cells of the table, sorted by op."""
    for name, row in sorted(rows.items()):
        has_reference = name.split(" ")[0].upper() not in _NO_REFERENCE
        yield (
            f"`{name}`",
            f"{row.values:,}",
            f"{row.from_exact / row.values:.2%}",
            f"{row.largest_from_exact}",
            f"{row.from_reference / row.values:.2%}" if has_reference else "",
            f"{row.largest_from_reference:,}" if has_reference else "",
        )


HEADER = (
    "op",
    "values",
    "differ from exact",
    "at most by",
    "differ from reference",
    "at most by",
)


def report(options: Options) -> Iterator[str]:
    """Yield the table, and the target of at most one unit from the exact results."""
    step = 7 if options.quick else 1
    rows = measure([*cases()[::step], *divisions()])
    yield table(HEADER, lines(rows))
    largest = max(row.largest_from_exact for row in rows.values())
    yield targets([Target("results differ at most by 1 from exact", largest, 1, "")])


if __name__ == "__main__":
    main(__doc__, report)
