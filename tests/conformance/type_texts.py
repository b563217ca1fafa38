"""
Random texts of quantized types: valid ones, and what becomes of them by small mistakes.

Everything here draws from a `random.Random`: one of hypothesis in the tests, which can
shrink what it drew, and a plain one in the fuzz script, which is faster.
"""

import math
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import IntegerType, Signedness

from xdsl_quant.dialects.quant.float_formats import FLOAT_FORMATS, FloatFormat
from xdsl_quant.dialects.quant.storage_types import (
    default_storage_max,
    default_storage_min,
)

Tokens = list[str]

FLOAT_FORMAT_BY_NAME = {cls.name: fmt for cls, fmt in FLOAT_FORMATS.items()}

CRASHING_FLOATS = ("f80", "f128")
"""Expressed types with which MLIR that has assertions aborts."""

COMMON_FLOATS = ("f32", "f32", "f32", "f64", "f16", "bf16")
ALL_FLOATS = tuple(sorted(set(FLOAT_FORMAT_BY_NAME) - set(CRASHING_FLOATS)))


def one_in(rng: Random, count: int) -> bool:
    """`True` once in `count` times; what is rare is not what hypothesis shrinks to."""
    return rng.randrange(count) == count - 1


def expressed_name(rng: Random) -> str:
    """The name of a float type; mostly a common one."""
    match rng.randrange(20):
        case 19:
            return rng.choice(CRASHING_FLOATS)
        case 18 | 17 | 16 | 15:
            return rng.choice(ALL_FLOATS)
        case _:
            return rng.choice(COMMON_FLOATS)


# Numbers


def scale_value(rng: Random, float_format: FloatFormat) -> float:
    """A number of about the range of a format, often with few digits, seldom outside."""
    smallest, largest = float_format.smallest, float_format.largest
    match rng.randrange(12):
        case 11:
            return rng.choice((smallest, largest, smallest / 2, largest * (1 + 2**-20)))
        case 10:
            return math.ldexp(1.0, rng.randint(-20, 20))
        case 6 | 5:
            return rng.uniform(0.0, 2.0)
        case 9:
            low, high = math.log2(smallest), math.log2(largest)
            return 2 ** rng.uniform(max(low, -1070.0), min(high, 1023.0))
        case 8:
            return float(rng.randrange(1, 10 ** rng.randint(1, 12)))
        case 7:
            return -rng.random()
        case _:
            return rng.randrange(1, 10 ** rng.randint(1, 6)) / 10 ** rng.randint(0, 6)


def double_bits(value: float) -> int:
    """The bits of an IEEE double."""
    mantissa, exponent = math.frexp(abs(value))
    if not value:
        return 0
    if exponent < -1021:
        return int(math.ldexp(abs(value), 1074))
    return ((exponent + 1022) << 52) + (int(math.ldexp(mantissa, 53)) - (1 << 52))


_ODD_FLOATS = (
    *("0.0", "-0.0", "1.", "1.e5", "1.0e400", "1.0e-400", "4.9e-324", "1.4e-45"),
    *("0x7FF0000000000000", "0x7FF8000000000000", "0xFFF0000000000000", "0x0", "0x1"),
    *("0x3F800000", "0x3FF00000000000000", "0x10000000000000000", "1.0E+3", "00.5"),
    *("65504.0", "3.4028235e38", "123456789.0", "0.998", "931.097", "1.0e-05"),
)


def float_literal(rng: Random, value: float) -> str:
    """One of the many spellings of a number; now and then one that is no spelling."""
    match rng.randrange(14):
        case 13 if value > 0 and math.isfinite(value):
            return f"0x{double_bits(value):016X}"
        case 12:
            return rng.choice(_ODD_FLOATS)
        case 11:
            return f"{value:.{rng.randint(1, 17)}e}"
        case 10:
            return f"{value:.{rng.randint(1, 17)}E}"
        case 9:
            return f"{value:.3f}"
        case _:
            text = repr(value)
            if "e" in text and "." not in text:
                text = text.replace("e", ".0e")
            return text


_ODD_INTEGERS = (
    *(1 << 31, (1 << 31) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, 1 << 64, 10**30),
    *(127, 128, 200, 255, 256, 1 << 15, 1 << 16, 1 << 24, 33, 64, 0, 1),
)


def integer(rng: Random, low: int, high: int) -> Tokens:
    """Tokens of an integer, mostly between two bounds."""
    value = rng.randint(low, high)
    if one_in(rng, 24):
        value = rng.choice(_ODD_INTEGERS) * rng.choice((1, 1, -1))
    sign = ["-"] if value < 0 else []
    match rng.randrange(16):
        case 15:
            return [*sign, f"0x{abs(value):x}"]
        case 14:
            return [*sign, f"{abs(value):05}"]
        case _:
            return [*sign, str(abs(value))]


# Types


def storage_type(rng: Random) -> IntegerType:
    """
    A storage type of common or odd width. Signedness tells how it is spelled: signless is
    `i8`, signed is `si8`, unsigned is `u8` or `ui8`.
    """
    width = rng.choice((8, 8, 8, 4, 16, 32, 1, 2, 7, rng.randint(1, 32)))
    signedness = rng.choices(
        (Signedness.SIGNLESS, Signedness.UNSIGNED, Signedness.SIGNED), (10, 8, 1)
    )[0]
    return IntegerType(width, signedness)


class Storage(NamedTuple):
    """The storage part of the text of a type."""

    tokens: Tokens
    zero_points: tuple[int, int]
    """Bounds of the zero points that MLIR does not wrap around."""


def _storage_name(rng: Random, type_: IntegerType) -> str:
    if one_in(rng, 40):
        return rng.choice(("i0", "i33", "u64", "si0", "i08", "index", "f32", "i99999"))
    if type_.signedness.data is Signedness.UNSIGNED and not one_in(rng, 8):
        return f"u{type_.width.data}"
    return str(type_)


def integer_storage(rng: Random) -> Storage:
    """An integer storage type, with or without a range."""
    type_ = storage_type(rng)
    width = type_.width.data
    is_signed = type_.signedness.data is not Signedness.UNSIGNED
    low, high = (
        default_storage_min(width, is_signed),
        default_storage_max(width, is_signed),
    )
    # MLIR keeps the zero points of a sub-channel type in the storage width, as signed.
    zero_points = (low, default_storage_max(width, True))
    tokens = [_storage_name(rng, type_), *_optional_range(rng, low, high)]
    return Storage(tokens, zero_points)


def _optional_range(rng: Random, low: int, high: int) -> Tokens:
    """Seldom a storage range, mostly one between two bounds."""
    if not one_in(rng, 4):
        return []
    if not one_in(rng, 3):
        low, high = sorted((rng.randint(low, high), rng.randint(low, high)))
    return ["<", *integer(rng, low, low), ":", *integer(rng, high, high), ">"]


_FLOAT_STORAGE = {"f8E4M3FN": 448, "f8E5M2": 57344, "f4E2M1FN": 6}


def main_storage(rng: Random) -> Storage:
    """A storage type that MLIR has since version 23, with or without a range."""
    if one_in(rng, 3):
        tokens, (low, high) = _quantile_type(rng)
        tokens = [f"!quant.{tokens[0]}<", *tokens[2:]]
    else:
        name, high = rng.choice([*_FLOAT_STORAGE.items()])
        tokens, low = [name], -high
        if one_in(rng, 40):
            tokens = [rng.choice(("f8E4M3", "f6E2M3FN", "f16", "f8E8M0FNU", "f64"))]
    return Storage([*tokens, *_optional_range(rng, low, high)], (low, high))


def _quantile_type(rng: Random) -> tuple[Tokens, tuple[int, int]]:
    """The tokens of a table of values, and the range of its stored numbers."""
    name, (low, high) = _quantile_storage(rng)
    bounds: Tokens = []
    if one_in(rng, 3) or high - low > 31:
        high = (low := rng.randint(-300, 300)) + rng.randint(1, 8)
        bounds = [
            ",",
            "<",
            *integer(rng, low, low),
            ":",
            *integer(rng, high, high),
            ">",
        ]
    count = high - low + 1
    if one_in(rng, 30):
        count = rng.randrange(4)
    value_type = rng.choice(("f16", "f32", "f64", "i8", "si4", "ui16", "f8E4M3FN"))
    quantiles = separated([_quantile(rng) for _ in range(count)])
    return [
        *("quantile", "<", name, ":", value_type, ",", "{"),
        *(*quantiles, "}", *bounds, ">"),
    ], (low, high)


_FLOAT_WIDTHS = {"f4E2M1FN": 4, "f8E4M3FN": 8, "f16": 16, "f64": 64, "f128": 128}


def _quantile_storage(rng: Random) -> tuple[str, tuple[int, int]]:
    """The storage type of a table of values, and its range."""
    if one_in(rng, 6):
        name, width = rng.choice([*_FLOAT_WIDTHS.items()])
        return name, (-(1 << (width - 1)), (1 << (width - 1)) - 1)
    width = rng.choice((1, 1, 2, 2, 3, 4, 8, 32, rng.randint(0, 70)))
    sign = rng.choice(("", "s", "u"))
    low = -(1 << width) // 2 if sign == "s" else 0
    return f"{sign}i{width}", (low, low + (1 << width) - 1)


def _quantile(rng: Random) -> Tokens:
    value = rng.choice((rng.uniform(-1, 1), float(rng.randint(-8, 8)), rng.random()))
    literal = float_literal(rng, value)
    sign = ["-"] if literal.startswith("-") else []
    return [*sign, literal.removeprefix("-")]


StorageGenerator: TypeAlias = Callable[[Random], Storage]


def _scale(rng: Random, expressed: str, zero_points: tuple[int, int]) -> Tokens:
    scale = float_literal(rng, scale_value(rng, FLOAT_FORMAT_BY_NAME[expressed]))
    negative = scale.startswith("-")
    tokens = ["-", scale[1:]] if negative else [scale]
    if not one_in(rng, 3):
        return tokens
    return [*tokens, ":", *integer(rng, *zero_points)]


def separated(items: list[Tokens]) -> Tokens:
    """Items with commas between them."""
    tokens: Tokens = []
    for item in items:
        tokens += [",", *item] if tokens else item
    return tokens


def _nested(
    rng: Random, shape: list[int], expressed: str, zero_points: tuple[int, int]
) -> Tokens:
    if not shape:
        return _scale(rng, expressed, zero_points)
    items = [_nested(rng, shape[1:], expressed, zero_points) for _ in range(shape[0])]
    return ["{", *separated(items), "}"]


def _body(rng: Random, storage: StorageGenerator) -> Tokens:
    expressed = expressed_name(rng)
    kind = rng.choices(
        ("layer", "axis", "channel", "any", "calibrated"), (6, 5, 6, 3, 2)
    )
    match kind[0]:
        case "any":
            tail = [":", expressed] if not one_in(rng, 4) else []
            return ["any", "<", *storage(rng).tokens, *tail, ">"]
        case "calibrated":
            return ["calibrated", "<", expressed, "<", *_bounds(rng), ">", ">"]
        case _:
            parameters = _uniform_parameters(rng, kind[0], expressed, storage(rng))
            return ["uniform", "<", *parameters, ">"]


def _bounds(rng: Random) -> Tokens:
    low = rng.uniform(-10.0, 1.0)
    tokens: Tokens = []
    for bound in (low, low + rng.random()):
        literal = float_literal(rng, bound)
        sign = ["-"] if literal.startswith("-") else []
        tokens += [*sign, literal.removeprefix("-"), ":"]
    return tokens[:-1]


def _uniform_parameters(
    rng: Random, kind: str, expressed: str, storage: Storage
) -> Tokens:
    tokens, zero_points = storage
    head = [*tokens, ":", expressed]
    if kind == "layer":
        return [*head, ",", *_scale(rng, expressed, zero_points)]
    if kind == "axis":
        shape = [rng.randint(1, 4) for _ in range(rng.choice((1, 1, 1, 1, 2)))]
        dimension = integer(rng, 0, 3)
        return [
            *head,
            ":",
            *dimension,
            ",",
            *_nested(rng, shape, expressed, zero_points),
        ]
    shape = [rng.choice((1, 1, 2, 3)) for _ in range(rng.choice((0, 1, 2, 2, 2, 3, 4)))]
    axes = [axis for axis in range(len(shape)) if not one_in(rng, 2)]
    if one_in(rng, 8):
        rng.shuffle(axes)
        axes += axes[:1]
    blocks = separated([[*integer(rng, a, a), ":", *integer(rng, 1, 4)] for a in axes])
    scales = _nested(rng, shape or [1], expressed, zero_points)
    return [*head, ":", "{", *blocks, "}", ",", *scales]


def valid_tokens(rng: Random, storage: StorageGenerator = integer_storage) -> Tokens:
    """Tokens of a type that is valid, but for a rare number out of its range."""
    return _named(rng, _body(rng, storage))


def _named(rng: Random, body: Tokens) -> Tokens:
    """Tokens of a type, mostly in its short form."""
    if not one_in(rng, 12):
        return [f"!quant.{body[0]}", *body[1:]]
    return ["!quant", "<", *body, ">"]


# Mistakes

_STRAY_TOKENS = (
    *'< > { } [ ] ( ) , : - -> :: = + * ? @f #a %0 ^bb "text" "<" ; . ! !a | @'.split(),
    *"any uniform calibrated foo true false loc dense unit i8 u8 si8 ui8 i4 u i".split(),
    *"U8 u8x int8 index none f32 f16 f8E8M0FNU f128 tensor<2xi8> vector<2xi8>".split(),
    *"tuple<> complex<f32> memref<1xi8> !quant.any<i8> () i9999999999 i1< <-".split(),
    *"0 1 -1 1.0 -1.0 1e-3 .5 +1.0 nan inf 0x 0xg 0x7F800000 u99999999999 //".split(),
    *"0x3FF0000000000000 99999999999999999999 i16777216 i16777215 u16777216".split(),
    *("u4294967296", "() -> ()", "\u00e9", "\u00b2", "\u0663", "\0"),
)
_STRAY_CHARACTERS = "<>{}[]():,-.+0123456789xeEfiuas!#@%\\ \t\n/"


def stray_token(rng: Random) -> str:
    """A token that may or may not occur in a type."""
    match rng.randrange(8):
        case 0:
            return rng.choice(_ODD_FLOATS)
        case 1:
            return str(rng.choice(_ODD_INTEGERS))
        case _:
            return rng.choice(_STRAY_TOKENS)


def _mistake(rng: Random, tokens: Tokens) -> Tokens:
    # The first token is the name, which is xDSL's to understand.
    at = rng.randrange(1, max(len(tokens), 2))
    match rng.randrange(9):
        case 0 | 1:
            return tokens[:at] + tokens[at + 1 :]
        case 2:
            return tokens[:at] + tokens[at - 1 : at] * (at > 1) + tokens[at:]
        case 3 | 4:
            return [*tokens[:at], stray_token(rng), *tokens[at + 1 :]]
        case 5:
            return [*tokens[:at], stray_token(rng), *tokens[at:]]
        case 6:
            other = rng.randrange(1, max(len(tokens), 2))
            if max(at, other) < len(tokens):
                tokens = tokens.copy()
                tokens[at], tokens[other] = tokens[other], tokens[at]
            return tokens
        case 7:
            return tokens[:at] if not one_in(rng, 4) else tokens
        case _:
            misspelled = [_misspelled(rng, token) for token in tokens[at : at + 1]]
            return [*tokens[:at], *misspelled, *tokens[at + 1 :]]


def _misspelled(rng: Random, token: str) -> str:
    if '"' in token:
        # The lexer of xDSL 0.74 takes exponential time for a string that does not end.
        return token
    at = rng.randrange(len(token) + 1)
    return (
        token[:at] + rng.choice(_STRAY_CHARACTERS) * rng.randrange(2) + token[at + 1 :]
    )


def _needs_space(left: str, right: str) -> bool:
    return (left[-1:].isalnum() or left[-1:] in "._$") and (
        right[:1].isalnum() or right[:1] in "._$"
    )


_SPACES = (" ", " ", " ", "\n", "\t", "  ", "\r\n", " // note <{\n", "//\n\n  ")


def spaced(rng: Random, tokens: Tokens) -> str:
    """The text of tokens, with more or less of white space and comments between them."""
    rate = rng.choice((0, 0, 0, 6, 2))
    text = ""
    for token in tokens:
        if rate and text and one_in(rng, rate):
            text += rng.choice(_SPACES)
        elif _needs_space(text, token) and not one_in(rng, 16):
            text += " "
        text += token
    return text


def _mistaken(rng: Random, tokens: Tokens) -> Tokens:
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3))):
        tokens = _mistake(rng, tokens)
    return tokens


def valid_type_text(rng: Random) -> str:
    """The text of a type that is valid, but for a rare number out of its range."""
    return spaced(rng, valid_tokens(rng))


def type_text(rng: Random) -> str:
    """The text of a type, valid or with a few mistakes."""
    return spaced(rng, _mistaken(rng, valid_tokens(rng)))


def _has_blocks(tokens: Tokens) -> bool:
    """Whether it is a sub-channel type: MLIR 24 crashes if it has such storage."""
    return (":", "{") in pairwise(tokens)


def main_type_text(rng: Random) -> str:
    """
    The text of a quantile type, or of a type with float or quantile storage, as MLIR has
    them since version 23; valid or with a few mistakes.
    """
    if one_in(rng, 3):
        tokens = _named(rng, _quantile_type(rng)[0])
    else:
        tokens = valid_tokens(rng, main_storage)
        while _has_blocks(tokens) and not one_in(rng, 40):
            tokens = valid_tokens(rng, main_storage)
    return spaced(rng, tokens if one_in(rng, 2) else _mistaken(rng, tokens))
