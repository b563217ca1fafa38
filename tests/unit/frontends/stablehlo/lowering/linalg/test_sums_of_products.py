"""Matrix products and convolutions, checked against NumPy and StableHLO's interpreter."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.frontends.stablehlo.lowering.linalg.running import (
    TYPES,
    Array,
    function,
    lowered,
    run,
    same_bits,
    stablehlo_results,
    tensor,
)
from tests.unit.frontends.stablehlo.lowering.stablehlo_evaluation import (
    convolution,
    dot_general,
)
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.runtime.loading import parse_module

KINDS = [
    ("i8", "i32"),
    ("ui8", "ui32"),
    ("i8", "i8"),
    ("i8", "i64"),
    ("i16", "i32"),
    ("i1", "i1"),
    ("f32", "f32"),
    ("f64", "f64"),
    ("f16", "f16"),
    ("f16", "f32"),
]
"""Element types of the operands and the result."""


def numbers(shape: Sequence[int], name: str) -> Array:
    """All integers of a type, or small ones, with which floats are exact."""
    random, dtype = np.random.default_rng(len(shape)), np.dtype(TYPES[name])
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(bool)
    if dtype.kind == "f":
        return random.integers(-9, 10, shape).astype(dtype)
    bounds = np.iinfo(dtype)
    return random.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)


def reference(text: str, lhs: Array, rhs: Array) -> Array:
    """The result of the one op of a function."""
    for op in parse_module(text).walk():
        if isinstance(op, stablehlo.DotGeneralOp):
            return dot_general(op, lhs, rhs)
        if isinstance(op, stablehlo.ConvolutionOp):
            return convolution(op, lhs, rhs)
    raise AssertionError


def check(text: str, lhs: Array, rhs: Array) -> None:
    (actual,) = run(text, lhs, rhs)
    # Of a window that does not fit the reference knows nothing, and there is nothing.
    if actual.size:
        same_bits(actual, reference(text, lhs, rhs))


# Matrix products


def product(
    kind: tuple[str, str],
    lhs: Sequence[int | None],
    rhs: Sequence[int | None],
    result: Sequence[int | None],
    numbers: str,
) -> str:
    types = [tensor(lhs, kind[0]), tensor(rhs, kind[0])]
    type_ = tensor(result, kind[1])
    op = (
        f"stablehlo.dot_general %0, %1, {numbers} : ({types[0]}, {types[1]}) -> {type_}"
    )
    return function(types, [op], [type_])


PRODUCTS = [
    ((3, 4), (4, 5), (3, 5), "contracting_dims = [1] x [0]"),
    ((3, 4), (5, 4), (3, 5), "contracting_dims = [1] x [1]"),
    ((4, 3), (4, 5), (3, 5), "contracting_dims = [0] x [0]"),
    ((3, 4), (4,), (3,), "contracting_dims = [1] x [0]"),
    ((4,), (5, 4), (5,), "contracting_dims = [0] x [1]"),
    ((4,), (4,), (), "contracting_dims = [0] x [0]"),
    ((2,), (3,), (2, 3), "contracting_dims = [] x []"),
    ((), (3,), (3,), "contracting_dims = [] x []"),
    (
        (4, 2, 3),
        (2, 5, 4),
        (2, 3, 5),
        "batching_dims = [1] x [0], contracting_dims = [0] x [2]",
    ),
    (
        (2, 3, 4, 5),
        (5, 3, 6, 2),
        (3, 4, 6),
        "batching_dims = [1] x [1], contracting_dims = [0, 3] x [3, 0]",
    ),
    ((3, 0), (0, 5), (3, 5), "contracting_dims = [1] x [0]"),
    ((0, 4), (4, 5), (0, 5), "contracting_dims = [1] x [0]"),
    # In tiles
    ((6, 5), (32, 5), (6, 32), "contracting_dims = [1] x [1]"),
    (
        (3, 14, 5),
        (3, 5, 32),
        (3, 14, 32),
        "batching_dims = [0] x [0], contracting_dims = [2] x [1]",
    ),
    ((5, 7, 3), (3, 5, 2, 32), (7, 2, 32), "contracting_dims = [0, 2] x [1, 0]"),
    ((8, 0), (0, 32), (8, 32), "contracting_dims = [1] x [0]"),
]


TILES = ((16, 5), (5, 64), (16, 64), "contracting_dims = [1] x [0]")


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("kind", "case"),
    [
        *itertools.product([("i8", "i32"), ("f32", "f32")], PRODUCTS),
        *itertools.product(KINDS, [*PRODUCTS[:2], TILES]),
    ],
)
def test_dot_general(kind: tuple[str, str], case: Any):
    text = product(kind, *case)
    check(text, numbers(case[0], kind[0]), numbers(case[1], kind[0]))


@pytest.mark.parametrize("case", PRODUCTS)
def test_dot_general_as_stablehlo_does(case: Any):
    if 0 in (*case[0], *case[1]) or () in case[:2]:
        pytest.skip("StableHLO's own interpreter ends the process")
    text = product(("i8", "i32"), *case)
    arguments = numbers(case[0], "i8"), numbers(case[1], "i8")
    (actual,), (expected,) = run(text, *arguments), stablehlo_results(text, *arguments)
    same_bits(actual, expected)


@pytest.mark.parametrize(
    ("lhs", "rhs", "result"),
    [
        ((None, 4), (4, 5), (None, 5)),
        ((None, None), (None, None), (None, None)),
        ((None, 4), (None, 5), (3, None)),
        ((None, None), (None, 5), (3, 5)),
    ],
)
def test_products_of_unknown_size(lhs: Any, rhs: Any, result: Any):
    text = product(("f32", "f32"), lhs, rhs, result, "contracting_dims = [1] x [0]")
    check(text, numbers((3, 4), "f32"), numbers((4, 5), "f32"))


@pytest.mark.parametrize("kind", [("i8", "i32"), ("ui8", "ui32")])
def test_extreme_factors_in_tiles(kind: tuple[str, str]):
    """Each of the smallest, the largest and some others, times each of them."""
    bounds = np.iinfo(TYPES[kind[0]])
    values = np.array([bounds.min, bounds.min + 1, 0, 1, 100, bounds.max])
    lhs, rhs = (
        values.astype(TYPES[kind[0]])[indices]
        for indices in (np.indices((6, 500))[0], np.indices((500, 32))[1] % 6)
    )
    shapes = ((6, 500), (500, 32), (6, 32))
    check(product(kind, *shapes, "contracting_dims = [1] x [0]"), lhs, rhs)


def test_tiles_of_unknown_size():
    """Only the rows and columns of tiles have to be known."""
    text = product(
        ("i8", "i32"),
        (None, 8, None),
        (None, None, 32),
        (None, 8, 32),
        "batching_dims = [0] x [0], contracting_dims = [2] x [1]",
    )
    check(text, numbers((3, 8, 5), "i8"), numbers((3, 5, 32), "i8"))


@pytest.mark.parametrize("kind", KINDS)
def test_product_is_one_contraction(kind: tuple[str, str]):
    """What makes it fast is left to `execution.scheduling`."""
    names = [op.name for op in lowered(product(kind, *TILES)).walk()]
    is_rounded = kind == ("f16", "f16")
    # Zeros, the contraction and what rounds its sums.
    assert names.count("linalg.generic") == 2 + is_rounded
    assert names.count("tensor.empty") == 1 + is_rounded
    assert not {"linalg.transpose", "tensor.reshape"} & {*names}


@pytest.mark.parametrize("rows", [3, 1])
def test_computed_factors(rows: int):
    types = [tensor((rows, 4), "i8"), tensor((4, 5), "i8")]
    floats = [tensor((rows, 4), "f32"), tensor((4, 5), "f32")]
    result = tensor((rows, 5), "f32")
    ops = [
        *(
            f"stablehlo.convert %{i} : ({type_}) -> {float_}"
            for i, (type_, float_) in enumerate(zip(types, floats, strict=True))
        ),
        "stablehlo.dot_general %r0, %r1, contracting_dims = [1] x [0] : "
        f"({', '.join(floats)}) -> {result}",
    ]
    text = function(types, ops, [*floats, result])
    lhs, rhs = numbers((rows, 4), "i8"), numbers((4, 5), "i8")
    *_, actual = run(text, lhs, rhs)
    same_bits(actual, lhs.astype(np.float32) @ rhs.astype(np.float32))


# Convolutions


def window_text(**values: Any) -> str:
    parts = [f"{name} = {value}" for name, value in values.items()]
    return f"{{{', '.join(parts)}}}".replace("True", "true").replace("False", "false")


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[str, Array, Array]:
    """Any convolution of small tensors."""
    rank = draw(st.integers(0, 3))

    def each(low: int, high: int) -> list[int]:
        return draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank))

    def order(names: str) -> list[str]:
        return draw(st.permutations([*names, *map(str, range(rank))]))

    operand, sums = draw(st.sampled_from([("i8", "i32"), ("f32", "f32")]))
    features, batches = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (4, 1), (1, 2)]))
    groups = max(features, batches)
    sizes, kernel = each(1, 5), each(1, 3)
    strides, dilation, spread = each(1, 3), each(1, 2), each(1, 2)
    low, high = each(-1, 2), each(-1, 2)
    reversal = draw(st.lists(st.booleans(), min_size=rank, max_size=rank))
    batch, inputs, outputs = (draw(st.integers(1, 3)) for _ in range(3))
    result_sizes: list[int] = []
    for i in range(rank):
        extent = (sizes[i] - 1) * dilation[i] + 1 + low[i] + high[i]
        room = extent - ((kernel[i] - 1) * spread[i] + 1)
        result_sizes.append(room // strides[i] + 1 if room >= 0 else 0)
    layouts = order("bf"), order("io"), order("bf")
    known = [
        {"b": batch * batches, "f": inputs * features},
        {"i": inputs, "o": outputs * groups},
        {"b": batch, "f": outputs * groups},
    ]
    for spatial, names in zip((sizes, kernel, result_sizes), known, strict=True):
        names.update((str(i), size) for i, size in enumerate(spatial))
    shapes = [
        [names[name] for name in layout]
        for names, layout in zip(known, layouts, strict=True)
    ]
    texts = [f"[{', '.join(layout)}]" for layout in layouts]
    window = window_text(
        stride=strides,
        pad=[[*pair] for pair in zip(low, high, strict=True)],
        lhs_dilate=dilation,
        rhs_dilate=spread,
        reverse=reversal,
    )
    types = [tensor(shapes[0], operand), tensor(shapes[1], operand)]
    result = tensor(shapes[2], sums)
    op = (
        f"stablehlo.convolution(%0, %1) dim_numbers = {texts[0]}x{texts[1]}->{texts[2]}, "
        f"window = {window if rank else '{}'} {{batch_group_count = {batches} : i64, "
        f"feature_group_count = {features} : i64}} : ({types[0]}, {types[1]}) -> {result}"
    )
    text = function(types, [op], [result])
    return text, numbers(shapes[0], operand), numbers(shapes[1], operand)


@given(convolutions())
@settings(max_examples=15, deadline=None)
def test_convolution(case: tuple[str, Array, Array]):
    check(*case)


def nhwc(
    kind: tuple[str, str],
    shapes: Sequence[Sequence[int | None]],
    window: str = "{pad = [[1, 1], [1, 1]]}",
    layout: str = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
    groups: int = 1,
) -> str:
    lhs, rhs = (tensor(shape, kind[0]) for shape in shapes[:2])
    result = tensor(shapes[2], kind[1])
    op = (
        f"stablehlo.convolution(%0, %1) dim_numbers = {layout}, window = {window} "
        f"{{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : "
        f"({lhs}, {rhs}) -> {result}"
    )
    return function([lhs, rhs], [op], [result])


OUTPUTS_FIRST = "[b, 0, 1, f]x[o, 0, 1, i]->[b, 0, 1, f]"
FEATURES_FIRST = "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]"
STRIDED = "{stride = [2, 2], pad = [[1, 1], [1, 1]]}"

LAYERS: list[tuple[Any, dict[str, Any]]] = [
    # In tiles, of 7 columns of the image each
    (((2, 5, 7, 3), (3, 3, 3, 32), (2, 5, 7, 32)), {}),
    (
        ((1, 4, 6, 3), (32, 3, 3, 3), (1, 4, 6, 32)),
        {"layout": OUTPUTS_FIRST},
    ),
    (
        ((1, 9, 9, 2), (3, 3, 2, 32), (1, 5, 5, 32)),
        {"window": STRIDED},
    ),
    (
        ((1, 3, 6, 6), (8, 3, 3, 3), (1, 8, 6, 6)),
        {"layout": FEATURES_FIRST},
    ),
    # Of each feature on its own
    (((1, 5, 5, 8), (3, 3, 1, 8), (1, 5, 5, 8)), {"groups": 8}),
    (((1, 5, 5, 4), (3, 3, 2, 64), (1, 5, 5, 64)), {"groups": 2}),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [("i8", "i32"), ("f16", "f16")])
@pytest.mark.parametrize(("shapes", "options"), LAYERS)
def test_layers(kind: tuple[str, str], shapes: Any, options: Any):
    text = nhwc(kind, shapes, **options)
    check(text, numbers(shapes[0], kind[0]), numbers(shapes[1], kind[0]))


@pytest.mark.parametrize(("shapes", "options"), LAYERS)
def test_layers_as_stablehlo_does(shapes: Any, options: Any):
    text = nhwc(("i8", "i32"), shapes, **options)
    arguments = numbers(shapes[0], "i8"), numbers(shapes[1], "i8")
    (actual,), (expected,) = run(text, *arguments), stablehlo_results(text, *arguments)
    same_bits(actual, expected)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [1, 5, 6])
def test_images_of_unknown_size(stride: int, size: int):
    """Where the window does not fit, there is nothing."""
    window = f"{{stride = [{stride}, {stride}], pad = [[0, 0], [2, 0]]}}"
    shapes = ((None, None, None, None), (3, 2, 3, 4), (None, None, None, 4))
    text = nhwc(("f32", "f32"), shapes, window)
    check(text, numbers((2, max(size, 3), size, 3), "f32"), numbers(shapes[1], "f32"))
    (actual,) = run(
        text, np.ones((2, 1, 5, 3), np.float32), np.ones(shapes[1], np.float32)
    )
    assert actual.shape[1] == 0
