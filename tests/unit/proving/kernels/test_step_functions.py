"""Comparison of step functions at their steps."""

import numpy as np
import pytest

from xdsl_quant.numerics.arrays import Array
from xdsl_quant.proving.kernels.step_functions import (
    StepFunction,
    from_ordered_bits,
    merged_steps,
    ordered_bits,
)

LOW, HIGH = np.array([-9, 3]), np.array([20, 3])
RESULTS = np.arange(-4, 4)[:, None]


def _function(values: Array) -> StepFunction:
    """Return a function of `int64` arrays `[steps, 2]` with these values from `LOW` on."""
    return lambda x: values[x - LOW]


@pytest.mark.parametrize("end", [0, -1, 12])
def test_functions_that_differ_somewhere_differ_at_a_step(end: int):
    random = np.random.default_rng(0)
    for _ in range(200):
        one = np.sort(random.integers(-4, 4, 30))
        other = one.copy()
        # One place differs, for example the first or last one.
        other[end] = random.integers(other[end - 1], 4) if end else -4
        if end > 0:
            other[end] = min(other[end], other[end + 1])
        pair = _function(one), _function(other)
        steps = merged_steps(*pair, LOW, HIGH, RESULTS)
        assert (steps >= LOW).all()
        assert (steps <= HIGH).all()
        found = (pair[0](steps) != pair[1](steps)).any()
        assert found == (one != other).any()


def test_ordered_bits_are_in_the_order_of_floats():
    tiny = np.float32(1e-45)
    numbers = [-np.inf, -3.0e38, -1.0, -tiny, -0.0, 0.0, tiny, 1.0, 3.0e38, np.inf]
    array = np.array(numbers, np.float32)
    bits = ordered_bits(array)
    assert (np.diff(bits) > 0).all()
    assert from_ordered_bits(bits).tobytes() == array.tobytes()
    # Neighbours have neighbouring integers, through zero, too.
    assert bits[3:7].tolist() == [-2, -1, 0, 1]
