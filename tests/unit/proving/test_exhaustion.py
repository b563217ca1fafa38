"""All inputs of functions of floats."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.proving.exhaustion import (
    Bits,
    FloatOrder,
    StepFunction,
    first_difference,
)

F16 = FloatOrder(5, 11)


def test_the_order_of_floats():
    bits = F16.bits(0, 1 << 16)
    assert bits.dtype == np.uint16
    assert sorted(bits.tolist()) == [*range(1 << 16)]
    numbers = bits[: F16.count].view(np.float16)
    assert F16.count == 63490
    assert numbers[0] == -np.inf
    assert numbers[-1] == np.inf
    assert (numbers[:-1] <= numbers[1:]).all()
    assert np.isnan(bits[F16.count :].view(np.float16)).all()


def test_parts_of_the_order():
    everything = F16.bits(0, 1 << 16)
    for start, stop in (
        (0, 5),
        (31740, 31750),
        (31744, 31746),
        (63480, 63500),
        (65535, 65536),
    ):
        assert F16.bits(start, stop).tolist() == everything[start:stop].tolist()
    assert FloatOrder(8, 24).bits(0, 2).tolist() == [0xFF800000, 0xFF7FFFFF]
    assert FloatOrder(8, 8).bits(0, 1).tolist() == [0xFF80]


def rounded(bits: Bits) -> NDArray[np.integer]:
    values = bits.view(np.float16).astype(np.float64)
    numbers = np.rint(np.clip(np.nan_to_num(values), -3, 40))
    return np.where(np.isnan(values), 7, numbers).astype(np.int8)


def steps() -> StepFunction:
    return StepFunction.of(
        F16, lambda bits: int(rounded(np.array([bits], np.uint16))[0])
    )


def test_steps():
    found = steps()
    assert found.results.tolist() == [*range(-3, 41)]
    assert found.nan == 7
    places = found.starts[1:].tolist()
    before, after = (
        [float(F16.bits(p, p + 1).view(np.float16)[0]) for p in (place - 1, place)]
        for place in (places[0], places[-1])
    )
    # The float below -2.5, -2.5 itself, which is even, 39.5, and the float above it.
    assert before == [-2.501953125, -2.5]
    assert after == [39.46875, 39.5]
    for start, stop in ((0, 1 << 16), (31000, 31001), (63489, 63492), (100, 40000)):
        values = found.values(start, stop, np.dtype(np.int8))
        assert values.dtype == np.int8
        assert values.tolist() == rounded(F16.bits(start, stop)).tolist()


def test_a_jump_of_more_than_one():
    found = StepFunction.of(F16, lambda bits: 0 if bits >= 1 << 15 else 9)
    assert found.results.tolist() == [0, 9]
    assert found.starts.tolist() == [0, F16.infinity + 1]


def test_the_first_difference():
    assert first_difference(steps(), rounded) is None

    def wrong(bits: Bits) -> NDArray[np.integer]:
        return rounded(bits) + (bits == 0x4100).astype(np.int8)

    assert first_difference(steps(), wrong) == (0x4100, 3, 2)

    def wrong_for_nan(bits: Bits) -> NDArray[np.integer]:
        return np.where(bits == 0xFFFF, 8, rounded(bits))

    assert first_difference(steps(), wrong_for_nan) == (0xFFFF, 8, 7)


def test_progress():
    seen: list[int] = []

    def progress(chunks: object) -> list[int]:
        seen.extend(chunks)  # pyright: ignore[reportArgumentType] a range
        return seen

    assert first_difference(steps(), rounded, progress) is None
    assert seen == [0]
