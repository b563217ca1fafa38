"""
`verify-quant-constraints` accepts the types that the ops of real StableHLO accept.

The real one is that of `litert-converter`: `stablehlo.add` there takes a tensor, or says
that it is none of a type that it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from tests.real_stablehlo import RealStableHLO
from xdsl_quant.inspecting.verify_quant_constraints import (
    quant_constraint_violations,
)
from xdsl_quant.runtime.loading import IRError, parse_module

Accepts = Callable[[str], bool]


@pytest.fixture(scope="module")
def real_stablehlo() -> Accepts:
    """Whether real StableHLO accepts a module."""
    real = RealStableHLO()

    def accepts(text: str) -> bool:
        return real.text(text) is not None

    assert accepts("module {}")
    return accepts


STORAGE = {
    **{f"i{n}": (-(1 << (n - 1)), (1 << (n - 1)) - 1) for n in (2, 4, 8, 16, 32)},
    **{f"u{n}": (0, (1 << n) - 1) for n in (2, 4, 8, 16, 32)},
    "ui8": (0, 255),
}
"""Storage types and their ranges."""

ODD_STORAGE = {
    **{
        "i1": (-1, 0),
        "i3": (-4, 3),
        "u7": (0, 127),
        "i24": (-(1 << 23), (1 << 23) - 1),
    },
    **{"si8": (-128, 127), "si16": (-(1 << 15), (1 << 15) - 1)},
    **{"i64": (0, 1), "i33": (0, 1)},
}
"""Storage types that there are not in StableHLO."""

EXPRESSED = ("f32", "f32", "f64", "f16", "bf16", "f8E4M3FN", "tf32")
SCALES = ("1.0", "0.5", "3.0")
ODD_SCALES = ("1.0e-40", "300.0", "0.0", "-1.0", "1.0e39")


def one_in(draw: st.DrawFn, count: int) -> bool:
    """`True` once in `count` times."""
    return draw(st.integers(1, count)) == count


@st.composite
def storage_texts(draw: st.DrawFn) -> tuple[str, int, int]:
    """The text of a storage type with its range."""
    ranges = ODD_STORAGE if one_in(draw, 8) else STORAGE
    name = draw(st.sampled_from(sorted(ranges)))
    low, high = ranges[name]
    if not one_in(draw, 4):
        return name, low, high
    low += draw(st.integers(-1, 1))
    high -= draw(st.integers(-1, 1))
    return f"{name}<{low}:{high}>", low, high


@st.composite
def parameter_texts(draw: st.DrawFn, low: int, high: int) -> str:
    """The text of a scale and a zero point, which mostly lies in a range."""
    scale = draw(st.sampled_from(ODD_SCALES if one_in(draw, 20) else SCALES))
    low, high = min(low, high), max(low, high)
    if one_in(draw, 10):
        return f"{scale}:{draw(st.sampled_from((low - 1, high + 1)))}"
    return f"{scale}:{draw(st.sampled_from((low, high)) | st.integers(low, high))}"


@st.composite
def element_types(draw: st.DrawFn, sizes: Sequence[str]) -> str:
    """The text of a quantized type that mostly fits a shape."""
    storage, low, high = draw(storage_texts())
    start = f"{storage}:{draw(st.sampled_from(EXPRESSED))}"
    parameters = parameter_texts(low, high)
    if one_in(draw, 10):
        odd = (
            f"!quant.uniform<{start}:{{0:1}}, {{{draw(parameters)}}}>",
            f"!quant.any<{storage}:f32>",
            "!quant.calibrated<f32<-1.0:1.0>>",
        )
        return draw(st.sampled_from(odd))
    if not sizes or one_in(draw, 3):
        return f"!quant.uniform<{start}, {draw(parameters)}>"
    axis = draw(st.integers(0, len(sizes) - (not one_in(draw, 6))))
    size = sizes[axis] if axis < len(sizes) else "1"
    count = int(size) if size.isdigit() else draw(st.integers(1, 3))
    count += one_in(draw, 6)
    scales = ", ".join(draw(parameters) for _ in range(count))
    return f"!quant.uniform<{start}:{axis}, {{{scales}}}>"


@st.composite
def tensor_types(draw: st.DrawFn) -> str:
    """The text of a tensor type, often one that breaks a rule."""
    sizes: Sequence[str] = ["*"]
    if not one_in(draw, 16):
        sizes = draw(st.lists(st.sampled_from(("?", "1", "2", "3")), max_size=3))
    shape = "".join(f"{size}x" for size in sizes)
    return f"tensor<{shape}{draw(element_types(sizes))}>"


def accepted_here(type_: str) -> bool:
    """Whether the type is valid here, and violates no rule of StableHLO."""
    try:
        module = parse_module(f"func.func private @f({type_})")
    except IRError:
        return False
    return not quant_constraint_violations(module)


@pytest.mark.sampled(0)
@settings(deadline=None, max_examples=400)
@given(type_=tensor_types())
@example("tensor<2x3x!quant.uniform<i8:f32, 1.0:300>>")
@example("tensor<2x3x!quant.uniform<u8:f32, 1.0:255>>")
@example("tensor<2x3x!quant.uniform<u32:f32, 1.0:4294967295>>")
@example("tensor<2x3x!quant.uniform<i8:f32:2, {1.0}>>")
@example("tensor<2x3x!quant.uniform<i8:f32:0, {1.0, 2.0, 3.0}>>")
@example("tensor<?x3x!quant.uniform<i8:f32:0, {1.0, 2.0, 3.0}>>")
@example("tensor<?x?x!quant.uniform<i8:f32:{0:1}, {{1.0}}>>")
@example("tensor<!quant.uniform<i8:f32:0, {1.0}>>")
def test_types_have_the_verdict_of_real_stablehlo(real_stablehlo: Accepts, type_: str):
    accepted = real_stablehlo(
        f"func.func @f(%a: {type_}) {{\n"
        f"  %0 = stablehlo.add %a, %a : {type_}\n"
        "  return\n"
        "}"
    )
    event(f"accepted: {accepted}")
    assert accepted_here(type_) is accepted, type_
