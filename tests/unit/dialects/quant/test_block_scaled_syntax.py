"""Lists of numbers in block-scaled types, read at once and token by token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.parser import AttrParser, Parser
from xdsl.utils.exceptions import ParseError

from tests.unit.counting import calls
from xdsl_quant.dialects.quant import BlockScaledQuantizedType, Quant
from xdsl_quant.xdsl_patches import apply

_AT_ONCE = "xdsl_quant.dialects.quant.block_scaled_type._read_packed"
_SCALE_TYPES = "f16", "bf16", "f32", "f64", "f8E4M3FN", "f8E5M2FNUZ", "f8E8M0FNU"
_ZERO_POINT_TYPES = "i2", "i4", "i8", "ui8", "si6", "i32", "f16", "i1"


def _parsed(text: str) -> BlockScaledQuantizedType:
    context = Context()
    apply("builtin")
    context.load_dialect(Builtin)
    context.load_dialect(Quant)
    parsed = Parser(context, text).parse_type()
    assert isinstance(parsed, BlockScaledQuantizedType)
    return parsed


def _refuse(*_: Any) -> Any:
    raise ValueError


def _refuse_tokens(*_: Any) -> Any:
    raise AssertionError


def _outcome(text: str) -> str:
    """The numbers of a type, or the message and its location."""
    try:
        type_ = _parsed(text)
    except ParseError as e:
        return f"{e.msg} at {e.span.start} to {e.span.end}"
    numbers = type_.block_parameter_attrs.items()
    return "; ".join(f"{k}: {v.type} {v.data().hex()}" for k, v in numbers)


def _slow_outcome(text: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_AT_ONCE, _refuse)
        return _outcome(text)


def _type(shape: Sequence[int], scales: str, type_: str, rest: str = "") -> str:
    blocks = ", ".join(f"{axis}:2" for axis in range(len(shape)))
    dims = "".join(f"{size}x" for size in shape)
    return (
        f"!quant.block_scaled<i4:f32:{{{blocks}}}, scales = dense<{scales}> : "
        f"tensor<{dims}{type_}>{rest}>"
    )


# Texts

_SPACES = st.sampled_from(["", " ", "\n", "\t", " \r\n "])
_SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@st.composite
def _decimals(draw: st.DrawFn) -> str:
    digits = draw(st.sampled_from(["0", "1", "7", "12", "104857"]))
    fraction = draw(st.sampled_from(["0", "5", "25", "3000000000000001", "1e-1"]))
    sign = draw(st.sampled_from(["", "-"]))
    exponent = draw(st.sampled_from(["", "e+00", "E-05", "e-9", "e1", "E-400"]))
    return f"{sign}{digits}.{fraction}{'' if 'e' in fraction else exponent}"


_INTEGERS = st.integers(-2, 1).map(str)


@st.composite
def _lists(draw: st.DrawFn, shape: Sequence[int], numbers: st.SearchStrategy[str]):
    elements = [
        draw(_lists(shape[1:], numbers) if len(shape) > 1 else numbers)
        for _ in range(shape[0])
    ]
    comma = f"{draw(_SPACES)},{draw(_SPACES)}"
    return f"[{draw(_SPACES)}{comma.join(elements)}{draw(_SPACES)}]"


@st.composite
def _texts(draw: st.DrawFn) -> str:
    shape = draw(_SHAPES)
    scales = draw(_lists(shape, _decimals()))
    text = _type(shape, scales, draw(st.sampled_from(_SCALE_TYPES)))
    zero_points = _type(
        shape,
        draw(_lists(shape, _INTEGERS | st.integers(-9, 300).map(str))),
        draw(st.sampled_from(_ZERO_POINT_TYPES)),
    )
    _, _, zero_points = zero_points.partition("scales")
    return f"{text[:-1]}, zero_points{zero_points}" if draw(st.booleans()) else text


@given(_texts())
def test_both_ways_give_the_same(text: str):
    assert _outcome(text) == _slow_outcome(text)


@given(_texts(), st.data())
def test_both_ways_give_the_same_error(text: str, data: st.DataObject):
    """Some characters are replaced."""
    first = text.index("dense")
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(first, len(text)))
        end = start + data.draw(st.integers(0, 2))
        new = data.draw(st.text("[],:.-+eE 01_xA></\n{", max_size=2))
        text = text[:start] + new + text[end:]
    assert _outcome(text) == _slow_outcome(text)


@given(st.data())
def test_plain_lists_are_read_at_once(data: st.DataObject):
    shape = data.draw(_SHAPES)
    scales = data.draw(_lists(shape, _decimals()))
    zero_points = data.draw(_lists(shape, _INTEGERS))
    dims = "".join(f"{size}x" for size in shape)
    text = _type(
        shape, scales, "f32", f", zero_points = dense<{zero_points}> : tensor<{dims}i2>"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AttrParser, "_parse_tensor_literal", _refuse_tokens)
        fast = _parsed(text)
    assert fast.scales.shape == tuple(shape)
    assert len(fast.scales.data()) == 4 * math.prod(shape)
    assert _slow_outcome(text) == _outcome(text)


@pytest.mark.parametrize(
    ("numbers", "type_", "expected"),
    [
        ("[-0.0, 0.0]", "2xf16", "00800000"),
        ("[-0.0, 0.0]", "2xf8E4M3FN", "8000"),
        ("[1.0e-1, 1.0]", "2xbf16", "cd3d803f"),
        ("[0x3C00, 1.]", "2xf16", "003c003c"),
        ("[1, 1.0]", "2xf16", "003c003c"),
        ("[01.0, - 1.0]", "2xf16", "003c00bc"),
        ("[1.0, // one\n -1.0]", "2xf16", "003c00bc"),
    ],
)
def test_bytes(numbers: str, type_: str, expected: str):
    text = f"!quant.block_scaled<i4:f32:{{0:1}}, scales = dense<{numbers}> : tensor<"
    scales = _parsed(f"{text}{type_}>>").scales
    assert scales.data().hex() == expected


@pytest.mark.parametrize(
    ("numbers", "type_", "message"),
    [
        ("[1e5, 1.0]", "2xf16", "']' expected"),
        ("[1.0, 1.0e9]", "2xf16", "expected numbers representable in the element type"),
        (
            "[1.0, [1.0]]",
            "2xf16",
            "Tensor literal has inconsistent ranks between eleme",
        ),
        (
            "[[1.0], 1.0]",
            "2xf16",
            "Tensor literal has inconsistent ranks between eleme",
        ),
        (
            "[1.0, 1.0,]",
            "2xf16",
            "Expected either a float, integer, or complex literal",
        ),
        ("[1.0]", "2xf16", "Shape mismatch in dense literal. Expected [2] shape from "),
        ("[1.0, 2.0]", "2xi8", "Expected integer value"),
        ("[1, -1]", "2xui8", "Expected non-negative integer values"),
        ("[1.0 2.0]", "2xf16", "']' expected"),
        ("[1.0, 2.0]", "2xf33", "Expected shape type."),
        ("[1.0, .5]", "2xf33", "Expected three consecutive '.' for an ellipsis"),
        (
            "[]",
            "0xf16",
            "expected at least one block, but got 'tensor<0xf16>'",
        ),
    ],
)
def test_errors(numbers: str, type_: str, message: str):
    text = (
        f"!quant.block_scaled<i4:f32:{{0:1}}, scales = dense<{numbers}> : "
        f"tensor<{type_}>>"
    )
    outcome = _outcome(text)
    assert message in outcome
    assert outcome == _slow_outcome(text)


@pytest.mark.parametrize("type_", ["f16", "bf16", "f8E4M3FN"])
def test_many_numbers_take_no_python_code_each(type_: str):
    scales = np.random.default_rng(0).integers(1, 99, (1024, 128)) / 8
    text = _type(scales.shape, str(scales.tolist()), type_)
    # A look at each token would be several calls for each scale.
    assert calls(lambda: _parsed(text)) < scales.size // 4
    assert _parsed(text).scales.shape == (1024, 128)
