"""Proofs for kernels whose result elements depend on one element of each argument."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf, prod

import numpy as np
from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Block, Operation, SSAValue

from xdsl_quant import execution
from xdsl_quant.diagnostics import counted, op_name
from xdsl_quant.dialects.quant.types import (
    QuantizedType,
    UniformQuantizedType,
    scalar_or_element_type,
)
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import constant_attr, shape_of, shape_text
from xdsl_quant.runtime.stateful_function import result_tuple

from ..terms import UnsupportedError, int_width
from .comparison import KernelComparison, RefutedError, distance
from .forms import has_different_constants, is_splat
from .monotonicity import Trend, check_monotonic
from .parts import affine_part
from .step_functions import from_ordered_bits, merged_steps, ordered_bits, thresholds

MAX_CALLS = 4096
"""Maximum number of calls of a kernel for all stored values."""

_MAX_INPUTS = 1 << 17
"""Maximum number of combinations of stored values."""


def decide_elementwise(comparison: KernelComparison) -> str:
    """
    Compare the results for all combinations of elements, and return the method.

    Raises:
        RefutedError: if results differ.
        UnsupportedError: if there are too many combinations.
    """
    form = comparison.form
    name = form.is_elementwise(form.function.args, keeps_channels=False)
    if name is not None:
        raise UnsupportedError(f"its code has '{name}', which is not elementwise")
    is_shared = not (
        has_different_constants(form, form.function.args)
        or _has_different_parameters(comparison.kernel.op)
    )
    if is_shared and [*map(scalar_or_element_type, comparison.types)] == [
        Float32Type()
    ]:
        return _decide_floats(comparison)
    sizes = [high - low + 1 for low, high in comparison.ranges]
    count, total = _shared_size(comparison), prod(sizes)
    # Each element gets all values if its constants may differ from those of others.
    step = count if is_shared else 1
    if form.has_broadcasts(count):
        raise UnsupportedError("its code broadcasts elements")
    if total > min(_MAX_INPUTS, step * MAX_CALLS):
        raise UnsupportedError(
            f"has {total:,} combinations of stored values for "
            f"{counted(count, 'element')}"
        )

    def inputs() -> Iterable[Sequence[Array]]:
        for start in range(0, total, step):
            numbers = (start + np.arange(count) * is_shared) % total
            offsets = np.unravel_index(numbers, sizes)
            yield [comparison.stored(i, part) for i, part in enumerate(offsets)]

    compare_results(comparison, inputs())
    return f"all {total:,} inputs of an element"


def _has_different_parameters(op: Operation) -> bool:
    """Return True if the formula of an op may differ between elements."""
    values = [*op.operands, *op.results]
    kinds = [scalar_or_element_type(value.type) for value in values]
    constants = [v for v in op.operands if constant_attr(v) is not None]
    return not all(map(is_splat, constants)) or any(
        isinstance(kind, QuantizedType) and not isinstance(kind, UniformQuantizedType)
        for kind in kinds
    )


def _shared_size(comparison: KernelComparison) -> int:
    """Return the number of elements of each argument and result."""
    results = [result.type for result in comparison.kernel.op.results]
    shapes = {shape_of(type_) for type_ in [*comparison.types, *results]}
    if len(shapes) > 1:
        raise UnsupportedError(f"has shapes {' and '.join(map(shape_text, shapes))}")
    return prod(shapes.pop())


def compare_results(
    comparison: KernelComparison, inputs: Iterable[Sequence[Array]]
) -> None:
    """
    Compare the results for inputs that have all values of elements.

    Raises:
        RefutedError: with the largest difference, if results differ.
    """
    units, wrong, is_float = 0, None, False
    for each in inputs:
        if comparison.is_equal(each):
            continue
        wrong = wrong or each
        try:
            found = comparison.after(each)
        except ValueError:
            raise RefutedError(each) from None
        for a, b in zip(found, comparison.before(each), strict=True):
            is_float = is_float or a.dtype.kind == "f"
            units = max(units, distance(a, b))
    if wrong is not None:
        raise RefutedError(wrong, counted(units, "ulp" if is_float else "unit"))


# Floats

_NOT_NUMBERS = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF], np.uint32)
"""Bits of NaN with each sign."""


def _decide_floats(comparison: KernelComparison) -> str:
    """Compare two step functions of an `f32` number: a formula that quantizes, and code."""
    shape = shape_of(comparison.types[0])
    if comparison.kernel.op.name != "tfl.quantize" or prod(shape) == 0:
        raise UnsupportedError("its formula is not known to be a step function")
    (zero,) = comparison.before([np.zeros(shape, np.float32)])
    # The order of the code's results is that of signed integers.
    if zero.dtype != np.int8:
        raise UnsupportedError("has results that are not signed integers of 8 bits")
    if comparison.form.has_broadcasts(prod(shape)):
        raise UnsupportedError("its code broadcasts elements")

    def calls(numbers: Array) -> Iterable[Sequence[Array]]:
        flat = numbers.reshape(-1)
        for start in range(0, flat.size, prod(shape)):
            yield [np.resize(flat[start : start + prod(shape)], shape)]

    def evaluated(
        function: Callable[[Sequence[Array]], tuple[Array, ...]], keys: Array
    ) -> Array:
        found: list[Array] = []
        for x in calls(from_ordered_bits(keys)):
            try:
                found.append(function(x)[0].reshape(-1))
            except ValueError:
                # A check in the code failed, e.g. of an index of a table.
                raise RefutedError(x) from None
        return np.concatenate(found)[: keys.size].reshape(keys.shape)

    low, high = _pieces(comparison, evaluated)
    pair = partial(evaluated, comparison.after), partial(evaluated, comparison.before)
    ends = np.stack([f(np.stack([low, high])) for f in pair]).astype(np.int64)
    first, last = ends[:, 0].min(axis=0), ends[:, 1].max(axis=0)
    results = first + np.arange(int((last - first).max()) + 1)[:, None]
    steps = merged_steps(*pair, low, high, results)
    numbers = [_NOT_NUMBERS.view(np.float32), from_ordered_bits(steps).reshape(-1)]
    compare_results(comparison, calls(np.concatenate(numbers)))
    return f"{steps.size:,} steps of all f32 numbers, and NaN"


def _pieces(
    comparison: KernelComparison,
    evaluated: Callable[[Callable[[Sequence[Array]], tuple[Array, ...]], Array], Array],
) -> tuple[Array, Array]:
    """
    Return the first and last numbers of intervals in which the code does not decrease:
    one interval, or one for each index at which the code reads tables.
    """
    form = comparison.form
    low, high = ordered_bits(np.array([[-inf], [inf]]))
    ops = form.tail(form.function.args)
    indices = {op.operands[1] for op in ops if op_name(op) == "tosa.gather"}
    start, (result,) = Trend(-inf, inf, 1), form.results
    if not indices:
        check_monotonic(form.function, start)
        return low, high
    cast = result.owner
    if len(indices) > 1 or isinstance(cast, Block) or op_name(cast) != "tosa.cast":
        raise UnsupportedError("its code reads tables in an unknown form")
    wide = cast.operands[0]
    check_monotonic(form.function, start, indices, wide)

    def inner(value: SSAValue, keys: Array) -> Array:
        code = execution.compile(affine_part(form, value, has_factors=True))
        return evaluated(lambda x: result_tuple(code(*x)), keys)

    (index,) = indices
    ends = inner(index, np.stack([low, high]))
    results = np.arange(int(ends.min()) + 1, int(ends.max()) + 1)[:, None]
    changes = thresholds(lambda keys: inner(index, keys), low, high, results)
    first = np.unique(np.concatenate([low, changes.reshape(-1)]))
    last = np.append(first[1:] - 1, high)
    half = 1 << int_width(scalar_or_element_type(result.type)) - 1
    extremes = inner(wide, np.stack([first, last]))
    if extremes.min() < -half or extremes.max() >= half:
        raise UnsupportedError("its code may overflow in 'tosa.cast'")
    return first, last
