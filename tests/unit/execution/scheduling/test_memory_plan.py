"""Places for values in one block of memory."""

from random import Random

import pytest

from xdsl_quant.execution.scheduling.buffer_planning import (
    ALIGNMENT,
    Lifetime,
    by_size,
    plan_memory,
)

PLANS: list[tuple[list[tuple[int, int, int]], tuple[list[int], int]]] = [
    ([], ([], 0)),
    ([(1, 0, 0)], ([0], 64)),
    # What is needed in the same step is apart, and other values share memory.
    ([(64, 0, 1), (65, 1, 2), (64, 2, 3)], ([128, 0, 128], 192)),
    # The largest comes first.
    ([(10, 0, 9), (100, 0, 4), (200, 5, 9)], ([256, 0, 0], 320)),
]


@pytest.mark.parametrize(("values", "expected"), PLANS)
def test_plans(values: list[tuple[int, int, int]], expected: tuple[list[int], int]):
    assert plan_memory([Lifetime(*value) for value in values], [by_size]) == expected


def test_smallest_gap():
    """Of gaps of 960 and 448 bytes in a later step, the second one is taken."""
    values = [
        *(Lifetime(size, 0, 9) for size in (1024, 512, 256)),
        *(Lifetime(size, 0, 0) for size in (960, 448)),
        Lifetime(64, 1, 1),
    ]
    assert plan_memory(values, [by_size]) == ([0, 1984, 2944, 1024, 2496, 2496], 3200)


@pytest.mark.parametrize(
    ("values", "sizes"),
    [
        # Values in the order in which they are needed leave no gap, as larger ones do.
        ([(28227, 0, 3), (20000, 2, 5), (18432, 4, 7), (38416, 6, 9)], (66752, 56896)),
        # Those that are needed long are out of the way of others.
        ([(320, 4, 5), (128, 0, 1), (256, 0, 0), (192, 1, 4)], (640, 576)),
    ],
)
def test_smallest_plan(values: list[tuple[int, int, int]], sizes: tuple[int, int]):
    lifetimes = [Lifetime(*value) for value in values]
    plans = plan_memory(lifetimes, [by_size]), plan_memory(lifetimes)
    assert tuple(size for _, size in plans) == sizes


def test_many_values():
    """Of a chain, each value is needed with its neighbors alone."""
    chain = [Lifetime(64, step, step + 1) for step in range(20_000)]
    assert plan_memory(chain) == ([0, 64] * 10_000, 128)


@pytest.mark.parametrize("seed", range(20))
def test_no_value_is_overwritten(seed: int):
    random = Random(seed)
    values: list[Lifetime] = []
    for _ in range(40):
        start = random.randrange(30)
        values.append(
            Lifetime(random.randint(1, 700), start, start + random.randrange(9))
        )
    offsets, size = plan_memory(values)
    assert size <= plan_memory(values, [by_size])[1]
    owner: dict[tuple[int, int], int] = {}
    for i, (value, offset) in enumerate(zip(values, offsets, strict=True)):
        assert offset % ALIGNMENT == 0
        assert 0 <= offset <= size - value.size
        for step in range(value.start, value.stop + 1):
            for byte in range(offset, offset + value.size):
                assert owner.setdefault((step, byte), i) == i
    needed = [
        sum(v.size for v in values if v.start <= step <= v.stop) for step in range(40)
    ]
    assert max(needed) <= size <= 1.5 * max(needed)
