"""
Reading types: lists of plain decimal numbers are read all at once, anything else token by
token. Both have to give the same types, and the same errors.
"""

import math
from collections.abc import Sequence
from itertools import product
from struct import pack
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from xdsl_quant.dialects.quant import (
    Quant,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)

_TOKEN_BY_TOKEN = (
    "xdsl_quant.dialects.quant.type_syntax.TypeSyntax._scale_and_zero_point"
)
_COMMENT = " // Not a number.\n"


def parse(text: str) -> Attribute:
    """The type with this text."""
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Quant)
    return Parser(context, text).parse_type()


def parse_slowly(text: str) -> Attribute:
    """The same, with a comment in the list that the fast path does not understand."""
    start = text.index("{", text.index(", {")) + 1
    return parse(text[:start] + _COMMENT + text[start:])


def error(text: str) -> str:
    """What is wrong with a text."""
    with pytest.raises(ParseError) as e:
        parse(text)
    return e.value.msg


def _refuse(*_: object) -> NoReturn:
    raise AssertionError("read token by token")


def _refuse_all(*_: object) -> None:
    return None


# Texts

_ZERO_POINTS = st.integers(-(1 << 63), (1 << 63) - 1)
_SPACES = st.sampled_from(["", " ", "  ", "\n", "\t", " \n "])


@st.composite
def _scale_texts(draw: st.DrawFn) -> str:
    mantissa = f"{draw(st.integers(1, 99999))}.{draw(st.sampled_from(['0', '25']))}"
    sign = draw(st.sampled_from(["", "-", "+"]))
    exponent = f"{draw(st.sampled_from('eE'))}{sign}{draw(st.integers(0, 30)):02}"
    decimal = mantissa + draw(st.sampled_from(["", exponent]))
    bits = pack(">d", float(decimal)).hex()
    return draw(st.sampled_from([decimal, decimal, f"0x{bits}", f"0x{bits.upper()}"]))


@st.composite
def _element_texts(draw: st.DrawFn) -> str:
    scale = draw(_scale_texts())
    if draw(st.booleans()):
        return scale
    zero_point = draw(_ZERO_POINTS | st.integers(-9, 9))
    return f"{scale}{draw(_SPACES)}:{draw(_SPACES)}{zero_point}"


@st.composite
def _lists(draw: st.DrawFn, shape: Sequence[int]) -> str:
    elements = [
        draw(_lists(shape[1:]) if len(shape) > 1 else _element_texts())
        for _ in range(shape[0])
    ]
    comma = f"{draw(_SPACES)},{draw(_SPACES)}"
    return f"{{{draw(_SPACES)}{comma.join(elements)}{draw(_SPACES)}}}"


_SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4)


@given(st.data())
def test_both_ways_give_the_same_type(data: st.DataObject):
    shape = data.draw(_SHAPES)
    kind = data.draw(st.sampled_from(["0", "{}", "{0:1, 3:2}"]))
    expressed_type = data.draw(st.sampled_from(["f32", "f64", "bf16"]))
    text = f"!quant.uniform<i8:{expressed_type}:{kind}, {data.draw(_lists(shape))}>"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_TOKEN_BY_TOKEN, _refuse)
        fast = parse(text)
    slow = parse_slowly(text)

    assert fast == slow
    assert str(fast) == str(slow)
    if isinstance(fast, UniformQuantizedSubChannelType):
        assert fast.scales_shape.get_values() == tuple(shape)
    else:
        assert isinstance(fast, UniformQuantizedPerAxisType)
        assert len(fast.scales) == math.prod(shape)
    assert parse(str(fast)) == fast


@st.composite
def _almost_lists(draw: st.DrawFn) -> str:
    """A list in which a few characters are replaced."""
    text = draw(_SHAPES.flatmap(_lists))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = min(start + draw(st.integers(0, 2)), len(text))
        text = text[:start] + draw(st.text("{},:.-+eN 01_xA>", max_size=2)) + text[end:]
    return text


@given(_almost_lists(), st.sampled_from(["0", "{}"]))
def test_both_ways_give_the_same_error(text: str, kind: str):
    text = f"!quant.uniform<i8:f32:{kind}, {text}>"

    def outcome() -> str:
        try:
            return str(parse(text))
        except ParseError as e:
            return f"{e.msg} at {e.span.start}"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "xdsl_quant.dialects.quant.type_tokens._read_plain_list", _refuse_all
        )
        slow = outcome()
    assert outcome() == slow


_STORAGES = ["i8", "u8", "si8", "ui4", "i08", "i33", "f8E5M2", "i8<-127:127>"]
_SCALES = ["0.5", "1.0e-50", "1.0e400", "65505.0", "1e5", "-0.5", "0x3F800000"]
_PLAIN_ZERO_POINTS = [
    "",
    ":3",
    ":-129",
    ":123456789012345678",
    ":9223372036854775808",
    ": 3",
]


@pytest.mark.parametrize("expressed", ["f32", "f16", "bf16", "f8"])
def test_per_tensor_types_are_the_same_without_tokens(expressed: str):
    parts = product(_STORAGES, _SCALES, _PLAIN_ZERO_POINTS)
    texts = [
        f"!quant.uniform<{storage}:{expressed}, {scale}{zero_point}>"
        for storage, scale, zero_point in parts
    ]

    def outcome(text: str) -> tuple[Attribute | int, str]:
        try:
            parsed = parse(text)
        except ParseError as e:
            return e.span.start, e.msg
        assert isinstance(parsed, UniformQuantizedType)
        # Verify what was built without verification.
        assert parsed == UniformQuantizedType.new(parsed.parameters)
        return parsed, str(parsed)

    # The first types of each kind are read token by token.
    known = [outcome(text) for text in texts + texts][len(texts) :]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xdsl_quant.dialects.quant.types._plain_type", _refuse_all)
        assert [outcome(text) for text in texts] == known


# What is read

SCALES = "{{1.0:1, 2.0}, {3.0, 4.0:-4}}"


def test_nested_lists():
    sub_channel = parse(f"!quant.uniform<i8:f32:{{0:1, 1:2}}, {SCALES}>")
    assert isinstance(sub_channel, UniformQuantizedSubChannelType)
    assert sub_channel.scales.get_values() == (1.0, 2.0, 3.0, 4.0)
    assert sub_channel.zero_points.get_values() == (1, 0, 0, -4)
    assert sub_channel.scales_shape.get_values() == (2, 2)

    per_axis = parse(f"!quant.uniform<i8:f32:1, {SCALES}>")
    assert isinstance(per_axis, UniformQuantizedPerAxisType)
    assert per_axis.scales.get_values() == (1.0, 2.0, 3.0, 4.0)
    assert per_axis.zero_points.get_values() == (1, 0, 0, -4)


@pytest.mark.parametrize(
    "text",
    [
        "{{1.0:1,2.0},{3.0,4.0:-4}}",
        "{ {1.0 : 1 , 2.0} , { 3.0,4.0:-4 } }",
        "{\n  {1.0:1,\n   2.0},\n  {3.0,\n   4.0:-4}\n}",
        "{\t{\t1.0:1,2.0}\t,\r\n{3.0,4.0:-4}}",
        "{{1.0:1, // one\n2.0}, {3.0, 4.0: -4}}",
        "{{1.:01, 20.0e-1}, {0x4008000000000000:0, 4.0:- 4}}",
        "{{1.0:0x1, 2.0E0}, {3.0e+00:-0, 4.0:-0x4}}",
    ],
)
def test_space_and_spelling(text: str):
    expected = parse(f"!quant.uniform<i8:f32:{{}}, {SCALES}>")
    assert parse(f"!quant.uniform<i8:f32:{{}}, {text}>") == expected
    assert parse(f"!quant.uniform<i8:f32:{{}} ,{text} >") == expected


def test_bits_of_few_digits():
    text = "!quant.uniform<i8:f64:0, {0x1, 0x00ff:3, 1.0}>"
    parsed = parse(text)
    assert parsed == parse_slowly(text)
    assert isinstance(parsed, UniformQuantizedPerAxisType)
    assert parsed.scales.get_values() == (5e-324, 255 * 5e-324, 1.0)
    assert parsed.zero_points.get_values() == (0, 3, 0)


@pytest.mark.parametrize(
    ("elements", "message"),
    [
        ("0x3FF0000000000000, NaN", "expected floating point literal"),
        ("NaN, 1.0", "expected floating point literal"),
        ("1.0:0x3, -0x1", "hexadecimal float literal should not have a leading minus"),
        ("0x10000000000000001", "hexadecimal float constant out of range for type"),
        ("0x3FF0000000000000 1.0", "expected '}'"),
    ],
)
def test_bits_that_are_no_scale(elements: str, message: str):
    assert error(f"!quant.uniform<i8:f64:0, {{{elements}}}>") == message


def test_what_follows_a_list_is_read():
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Quant)
    parser = Parser(
        context,
        "tuple<!quant.uniform<i8:f32:0, {1.0, 2.0:3}>, "
        "tensor<2x!quant.uniform<i8:f32:{0:1}, {1.0, 2.0:3}>, 7 : i8>>, f32",
    )
    assert str(parser.parse_type()) == (
        "tuple<!quant.uniform<i8:f32:0, {1.000000e+00,2.000000e+00:3}>, "
        "tensor<2x!quant.uniform<i8:f32:{0:1}, {1.000000e+00, 2.000000e+00:3}>, "
        "7 : i8>>"
    )
    parser.parse_punctuation(",")
    assert str(parser.parse_type()) == "f32"


def test_hex_bits_of_the_expressed_type():
    """MLIR prints the bits of a f32 where text has no point, and cannot read them."""
    of_single = parse("!quant.uniform<i8:f32:{}, {0x4CEB79A3}>")
    of_double = parse("!quant.uniform<i8:f32:{}, {0x419D6F3460000000}>")
    assert of_single == of_double
    assert str(of_double) == "!quant.uniform<i8:f32:{}, {0x419D6F3460000000}>"
    assert error("!quant.uniform<i8:f32:0, {0x4CEB79A3}>") == (
        "scale 6.375920e-315 out of expressed type range [1.401298e-45, 3.402823e+38]"
    )


# What is wrong

RAGGED = "tensor literal is invalid; ranks are not consistent between elements"


@pytest.mark.parametrize("kind", ["0", "{}", "{0:1}"])
@pytest.mark.parametrize(
    ("scales", "message"),
    [
        ("{{1.0, 2.0}, {3.0}}", RAGGED),
        ("{{1.0}, {2.0, 3.0}}", RAGGED),
        ("{{1.0}, 2.0}", RAGGED),
        ("{1.0, {2.0}}", RAGGED),
        ("{{{1.0}}, {2.0}}", RAGGED),
        ("{{1.0}, {{2.0}}}", RAGGED),
        ("{}", "expected floating point literal"),
        ("{{}}", "expected floating point literal"),
        ("{1.0,}", "expected floating point literal"),
        ("{,1.0}", "expected floating point literal"),
        ("{1.0 2.0}", "expected '}'"),
        ("{1.0:1:2}", "expected '}'"),
        ("{1.0}{2.0}", "expected '>'"),
        ("{1.0}, {2.0}", "expected '>'"),
        ("{{1.0}{2.0}}", "expected '}'"),
        ("{{1.0}1.0}", "expected '}'"),
        ("{{1.0}5}", "expected '}'"),
        (
            "{5{1.0}}",
            "unexpected decimal integer literal for a floating point value; write 5.0",
        ),
        ("1.0", "expected '{'"),
        ("{1.0:}", "expected integer value"),
        ("{1.0:1.0}", "expected integer value"),
        ("{1.0:-}", "expected integer value"),
        (
            "{1, 2}",
            "unexpected decimal integer literal for a floating point value; write 1.0",
        ),
        (
            "{1.0, -1e-17:3}",
            "unexpected decimal integer literal for a floating point value; write 1.0e-17",
        ),
        (
            "{25E+3}",
            "unexpected decimal integer literal for a floating point value; write 25.0E+3",
        ),
        (
            "{1e}",
            "unexpected decimal integer literal for a floating point value",
        ),
        ("{.5}", "Expected three consecutive '.' for an ellipsis"),
        ("{+1.0}", "expected floating point literal"),
        ("{nan}", "expected floating point literal"),
        (
            "{1_0.0}",
            "unexpected decimal integer literal for a floating point value",
        ),
        ("{1.0:9223372036854775808}", "integer value too large"),
        ("{1.0:-9223372036854775809}", "integer value too large"),
        (
            "{-1.0}",
            "scale -1.000000e+00 out of expressed type range "
            "[1.401298e-45, 3.402823e+38]",
        ),
        (
            "{1.0, 1.0e400, 2.0}",
            "scale INF out of expressed type range [1.401298e-45, 3.402823e+38]",
        ),
    ],
)
def test_bad_lists(kind: str, scales: str, message: str):
    assert error(f"!quant.uniform<i8:f32:{kind}, {scales}>") == message


@pytest.mark.parametrize(
    "text",
    [
        "!quant.uniform<i8:f32:0, {1.0, 2.0",
        "!quant.uniform<i8:f32:0, {1.0, 2.0}",
        "!quant.uniform<i8:f32:0, {1.0, 2.0>",
        "!quant.uniform<i8:f32:0, {{1.0, 2.0}>",
        "!quant.uniform<i8:f32:0, {1.0, 2.0}}>",
        "!quant.uniform<i8:f32:0, {" + "1.0, " * 10_000,
        "!quant.uniform<i8:f32:0, {" + "{" * 10_000,
    ],
)
def test_unterminated_lists(text: str):
    assert error(text).startswith("unbalanced '")


def test_deep_nesting():
    deep = "{" * 256 + "1.0" + "}" * 256
    sub_channel = parse(f"!quant.uniform<i8:f32:{{}}, {deep}>")
    assert isinstance(sub_channel, UniformQuantizedSubChannelType)
    assert sub_channel.scales_shape.get_values() == (1,) * 256
    assert parse_slowly(f"!quant.uniform<i8:f32:{{}}, {deep}>") == sub_channel
    assert error(f"!quant.uniform<i8:f32:{{}}, {{{deep}}}>") == (
        "scales must not be nested deeper than 256 levels"
    )


def test_huge_list():
    """300,000 scales, read all at once."""
    row = "{" + ", ".join(["0.25:1", "1.5", "2.0e-3:-7"] * 100) + "}"
    text = f"!quant.uniform<i8:f32:{{0:1}}, {{{', '.join([row] * 1000)}}}>"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_TOKEN_BY_TOKEN, _refuse)
        huge = parse(text)
    assert isinstance(huge, UniformQuantizedSubChannelType)
    assert huge.scales_shape.get_values() == (1000, 300)
    assert len(huge.scales) == 300_000
    assert huge.scales.get_values()[-3:] == (0.25, 1.5, 0.0020000000949949026)
    assert huge.zero_points.get_values()[-3:] == (1, 0, -7)
    assert str(huge).endswith("2.500000e-01:1, 1.500000e+00, 2.000000e-03:-7}}>")


def test_numbers_with_many_digits():
    digits = "1" * 5000
    assert error(f"!quant.uniform<i8:f32, 1.0:{digits}>") == "integer value too large"
    assert (
        error(f"!quant.uniform<i8:f32:{digits}, {{1.0}}>") == "integer value too large"
    )
    assert error(f"!quant.any<i8<0:{digits}>>") == "integer value too large"
    assert error(f"!quant.any<u{digits}>") == "expected storage type width"
    assert error(f"!quant.uniform<i8:f32, 0x{digits}>") == (
        "hexadecimal float constant out of range for type"
    )
    assert parse(f"!quant.uniform<i8:f32, 1.{digits}>") == parse(
        "!quant.uniform<i8:f32, 1.1111111111111112>"
    )


def test_negative_zero_points_of_unsigned_sub_channel_types(
    capsys: pytest.CaptureFixture[str],
):
    """MLIR prints 255 as -1 there, and keeps -1 in other types."""
    text = "!quant.uniform<u8:f32:{0:4, 1:1}, {{1.0:3, 1.0:-1}}>"
    assert parse(text) == parse(text.replace("-1", "255"))
    assert capsys.readouterr().err == (
        "<unknown>:1:35: warning: negative zero point of unsigned storage: found -1, read "
        "as 255, which MLIR prints as -1 in sub-channel types; write 255\n"
    )
    for silent in (
        "!quant.uniform<u8:f32:{0:4}, {1.0:255}>",
        "!quant.uniform<i8:f32:{0:4}, {1.0:-1}>",
        "!quant.uniform<u8:f32:0, {1.0:-1}>",
        "!quant.uniform<u8:f32, 1.0:-1>",
    ):
        parse(silent)
    assert capsys.readouterr().err == ""
