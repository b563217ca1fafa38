"""
Where this package deliberately differs from MLIR, and why.

`DIFFERENCES` is the whole list. Whatever else the generated inputs bring up is a bug.
"""

import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from xdsl.dialects.builtin import AnyFloat, Float80Type
from xdsl.utils.exceptions import ParseError

from xdsl_quant.dialects.quant import UniformQuantizedSubChannelType
from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.dialects.quant.float_text import float_text
from xdsl_quant.dialects.quant.storage_types import QuantileType, default_storage_max

from .answers import Accepted, Answer, Crashed, Rejected
from .real_mlir import Release
from .this_package import answer_type, parse_type

PassName = Literal["lower-quant-ops", "strip-func-quant-types", "normalize-quant-types"]
Subject = Literal["type", "op"] | PassName


class Comparison(NamedTuple):
    """A text, and what both implementations say about it."""

    text: str
    mlir: Answer
    ours: Answer
    release: Release

    @property
    def messages(self) -> tuple[str, str]:
        """The first message of MLIR and of ours; empty for a text that is accepted."""
        return _message(self.mlir), _message(self.ours)


def _message(answer: Answer) -> str:
    return answer.message if isinstance(answer, Rejected) else ""


@dataclass(frozen=True)
class Difference:
    """A deliberate difference from MLIR."""

    name: str
    reason: str
    examples: tuple[str, ...]
    """Texts about which the two still differ."""

    explains: Callable[[Comparison], bool]
    """Whether the two answers differ in this way, and in no other."""

    subject: Subject = "type"

    releases: tuple[Release, ...] = (22, 24)
    """The versions of MLIR that differ in this way."""

    main: str = "same"
    """What MLIR 24 does instead, where it does not differ like 22."""


# Texts


_COMMENT = re.compile(r"//[^\n]*")


def _without_space(text: str) -> str:
    return re.sub(r"\s+", "", _COMMENT.sub("", text))


def _text_at_error(comparison: Comparison) -> str:
    """The text from the place on that our first message points to."""
    assert isinstance(comparison.ours, Rejected)
    line, column, _ = comparison.ours.diagnostics[0]
    return "\n".join(comparison.text.split("\n")[line - 1 :])[column - 1 :]


def _text_until(text: str, answer: Rejected) -> str:
    """The text up to the place that the first message points to."""
    line, column, _ = answer.diagnostics[0]
    lines = text.split("\n")[:line]
    return "\n".join([*lines[:-1], lines[-1][: column - 1]])


def _is_refused_with(comparison: Comparison, *beginnings: str) -> bool:
    """Whether it is our message that begins like this."""
    return comparison.messages[1].startswith(beginnings)


# How types are printed


def signless_spelling(text: str) -> str:
    """A text with `i8` and `u8` for the storage types `si8` and `ui8`."""
    return re.sub(r"([su])i(?=\d)", lambda m: "i" if m[1] == "s" else "u", text)


def without_storage_casts(text: str) -> str:
    """A module with casts of any types in place of storage casts."""
    return text.replace("quant.scast", "builtin.unrealized_conversion_cast")


def _sub_channel_type(text: str) -> UniformQuantizedSubChannelType | None:
    try:
        parsed = parse_type(text)
    except ParseError:
        return None
    return parsed if isinstance(parsed, UniformQuantizedSubChannelType) else None


def _elements_rewritten(
    text: str, rewrite: Callable[[UniformQuantizedSubChannelType, str, str], str]
) -> str:
    """The text of a type with each `scale:zero point` of a sub-channel type rewritten."""
    if (parsed := _sub_channel_type(text)) is None:
        return text
    head, separator, elements = text.partition("}, ")

    def rewritten(match: re.Match[str]) -> str:
        return rewrite(parsed, match[1], match[2] or "")

    return head + separator + re.sub(r"([^{}, >:]+)(:-?\d+)?", rewritten, elements)


def _mlir_zero_points(text: str) -> str:
    """Zero points kept in the storage width and read as signed."""

    def wrapped(
        parsed: UniformQuantizedSubChannelType, scale: str, zero_point: str
    ) -> str:
        width = parsed.storage_type_integral_width
        written = int(zero_point[1:] or "0")
        value = written & default_storage_max(width, False)
        if value > default_storage_max(width, True):
            value -= 1 << width
        # Without assertions, bits beyond the width stay in the last byte, as no digits.
        rest = written & default_storage_max(-(-width // 8) * 8, False)
        return f"{scale}:{value or ''}" if value or rest else scale

    return _elements_rewritten(text, wrapped)


def _bits(value: float, type_: AnyFloat) -> int:
    """The bits of a positive number of a type."""
    expressed = float_format(type_)
    fraction_bits = expressed.precision - 1
    exponent = max(math.frexp(value)[1] - 1, expressed.min_exponent)
    significand = int(math.ldexp(value, fraction_bits - exponent))
    biased_exponent = exponent - expressed.min_exponent
    if isinstance(type_, Float80Type):
        # It has a bit before the fraction, which is 1: all doubles are normal.
        return (biased_exponent + 1 << expressed.precision) + significand
    return (biased_exponent << fraction_bits) + significand


def _number(text: str) -> float:
    """The number of a float literal."""
    if not text.startswith("0x"):
        return float(text)
    return struct.unpack(">d", bytes.fromhex(f"{int(text, 16):016x}"))[0]


def _mlir_hex_scales(text: str) -> str:
    """Scales in hexadecimal as the bits of the expressed type, or as decimals."""

    def narrow(
        parsed: UniformQuantizedSubChannelType, scale: str, zero_point: str
    ) -> str:
        if not scale.startswith("0x"):
            return scale + zero_point
        value = _number(scale)
        expressed = float_format(parsed.expressed_type)
        scale = float_text(value, expressed)
        if scale.startswith("0x"):
            scale = f"0x{_bits(value, parsed.expressed_type):X}"
        return scale + zero_point

    return _elements_rewritten(text, narrow)


def _is_printed_as(rewrite: Callable[[str], str]) -> Callable[[Comparison], bool]:
    """
    Whether `rewrite` is needed to make MLIR's text of our text, and enough together with
    the other rewrites.
    """

    def explains(comparison: Comparison) -> bool:
        mlir, ours = comparison.mlir, comparison.ours
        if not isinstance(mlir, Accepted) or not isinstance(ours, Accepted):
            return False
        expected = mlir_type_text(ours.text, comparison.release)
        return rewrite(ours.text) != ours.text and expected == mlir.text

    return explains


_INNER_QUANTILES = re.compile(r"(?<=<)(!quant\.quantile<[^{]*\{)([^}]*)")


def _mlir_inner_quantiles(text: str) -> str:
    """Values of a quantile type that is a storage type with six digits after the point."""

    def rounded(match: re.Match[str]) -> str:
        quantiles = (f"{_number(quantile):e}" for quantile in match[2].split(","))
        return match[1] + ",".join(quantiles)

    return _INNER_QUANTILES.sub(rounded, text)


def mlir_type_text(text: str, release: Release = 22) -> str:
    """MLIR's text of a type that is printed like this here."""
    text = _mlir_zero_points(text)
    text = _mlir_hex_scales(text)
    return signless_spelling(text) if release == 22 else _mlir_inner_quantiles(text)


def _mlir_message(message: str, release: Release) -> str:
    """The message with the types in it as MLIR prints them."""
    for text in quantized_types(message):
        message = message.replace(text, mlir_type_text(text, release))
    return message


def quantized_types(text: str) -> list[str]:
    """The texts of the quantized types in a module."""
    found: list[str] = []
    for start in re.finditer(r"!quant\.\w+<", text):
        depth, end = 1, start.end()
        while depth:
            depth += {"<": 1, ">": -1}.get(text[end], 0)
            end += 1
        found.append(text[start.start() : end])
    return found


def _is_block_per_axis(text: str) -> bool:
    """
    Whether MLIR takes a type, whose scales lie along one dimension, for a per-axis type
    though there is not one scale for each index of that dimension.
    """
    if (parsed := _sub_channel_type(text)) is None:
        return False
    blocks = dict(parsed.block_size_info)
    counts = parsed.scales_shape.get_values()
    axes = [axis for axis, count in enumerate(counts) if count != 1]
    return len(axes) == 1 and blocks.get(axes[0]) != 1


def is_normal_text(text: str, release: Release) -> bool:
    """Whether MLIR prints a type that is printed like this here in the same way."""
    return mlir_type_text(text, release) == text


# What is accepted


def _has_unusual_zero_points(comparison: Comparison) -> bool:
    """
    Whether MLIR aborts on a zero point that is no unsigned number of the storage width.
    """
    if not isinstance(comparison.mlir, Crashed):
        return False
    text = _without_space(comparison.text)
    if not (storage := re.search(r"(?:si|ui|i|u)(\d+)(?:<[^>]*>)?:\w+:\{", text)):
        return False
    scales = text[storage.end() :].partition("}")[2]
    zero_points = re.findall(r":(-?)(0x[0-9a-fA-F]+|\d+)", scales)
    return any(
        sign or int(digits, 16 if digits.startswith("0x") else 10) >> int(storage[1])
        for sign, digits in zero_points
    )


def _is_narrow_scale(comparison: Comparison) -> bool:
    """Whether MLIR refuses a scale in hexadecimal that is read here."""
    mlir = comparison.mlir
    if not isinstance(mlir, Rejected) or not mlir.message.startswith("scale "):
        return False
    end_of_scale = _COMMENT.sub("", _text_until(comparison.text, mlir))
    return ":{" in _without_space(comparison.text) and bool(
        re.search(r"0x[0-9a-fA-F]{1,16}\W*$", end_of_scale)
    )


def _is_storage_of_no_integer(comparison: Comparison) -> bool:
    return not isinstance(comparison.mlir, Accepted) and _is_refused_with(
        comparison, "illegal storage type prefix"
    )


def _is_storage_of_main(comparison: Comparison) -> bool:
    """Whether it is a storage type that MLIR has since version 23."""
    return not isinstance(comparison.mlir, Accepted) and _has_storage_of_main(
        comparison.text
    )


def _has_storage_of_main(text: str) -> bool:
    name = r"!?(quant\.|<)quantile\b|<(f8E5M2|f8E4M3FN|f4E2M1FN)\b"
    return bool(re.search(name, _without_space(text)))


def _is_blocks_of_main(comparison: Comparison) -> bool:
    """Whether MLIR crashes on a sub-channel type with one of its new storage types."""
    text = _without_space(comparison.text)
    return (
        isinstance(comparison.mlir, Crashed)
        and _has_storage_of_main(text)
        and ":{" in text
    )


def _has_overflowing_count(comparison: Comparison) -> bool:
    """Whether a table of values has so many that MLIR does not count them in 64 bits."""
    _, ours = comparison.messages
    if not (match := re.search(r"representable storage values \((\S+)\)$", ours)):
        return False
    return match[1].startswith("2**") or int(match[1]) >= 1 << 63


def _has_wide_expressed_type(comparison: Comparison) -> bool:
    if not re.search(r"\b(f80|f128)", comparison.text):
        return False
    of_doubles = "out of expressed type range [4.940656e-324, 1.797693e+308]"
    return isinstance(comparison.mlir, Crashed) or (
        comparison.release == 24 and comparison.messages[1].endswith(of_doubles)
    )


def _is_first_of_two(comparison: Comparison) -> bool:
    mlir, ours = comparison.mlir, comparison.ours
    return bool(
        isinstance(mlir, Rejected)
        and isinstance(ours, Rejected)
        and mlir.diagnostics[:1] == ours.diagnostics
        and mlir.diagnostics[1:]
        and mlir.diagnostics[1].message
        in ("calibrated values must be present", "expecting float expressed type")
    )


def _is_message_with_spelling(comparison: Comparison) -> bool:
    mlir, ours = comparison.mlir, comparison.ours
    if not isinstance(mlir, Rejected) or not isinstance(ours, Rejected):
        return False
    (line, column, message), *_ = ours.diagnostics
    message, separator, _ = message.partition("; write ")
    return bool(separator) and mlir.diagnostics[0] == (line, column, message)


def _is_boolean(comparison: Comparison) -> bool:
    return _is_refused_with(comparison, "expected integer value") and bool(
        re.match(r"(true|false)\b", _text_at_error(comparison))
    )


def _is_opaque_junk(comparison: Comparison) -> bool:
    return _is_refused_with(comparison, "Expected '>'") and bool(
        re.match(r"!quant<", comparison.text)
    )


def _is_name_of_no_type(comparison: Comparison) -> bool:
    _, ours = comparison.messages
    return isinstance(comparison.mlir, Rejected) and bool(
        re.fullmatch(
            r"'quant[^']*' is not registered|Expected attribute name\."
            r"|undefined symbol alias '![^']*'|type expected",
            ours,
        )
    )


def _is_valid_before_error(comparison: Comparison) -> bool:
    assert isinstance(comparison.ours, Rejected)
    text = _text_until(comparison.text, comparison.ours)
    is_opaque = text.startswith("!quant<")
    return any(
        isinstance(answer_type(text + end), Accepted) for end in ("", ">" * is_opaque)
    )


_LEXER_MESSAGES = (
    "Unexpected character",
    "Expected suffix identifier",
    "Expected three consecutive '.'",
    "@ identifier expected to",
    "Unexpected end of file after",
    "End of file reached",
)

_MLIR_LEXER_MESSAGES = (
    "unexpected character",
    "expected three consecutive dots for an ellipsis",
    "@ identifier expected to",
    "invalid SSA name",
    "invalid attribute name",
    "invalid type identifier",
    "invalid block name",
)


def _is_no_token(comparison: Comparison) -> bool:
    is_ours = _is_refused_with(comparison, *_LEXER_MESSAGES)
    if isinstance(comparison.mlir, Accepted):
        # The bindings of MLIR 24 overlook what is no token after a type.
        return (
            is_ours and comparison.release == 24 and _is_valid_before_error(comparison)
        )
    if is_ours:
        return True
    is_rejected = isinstance(comparison.ours, Rejected)
    if is_rejected and comparison.messages[0].startswith(_MLIR_LEXER_MESSAGES):
        return True
    return "\0" in comparison.text or not comparison.text.isascii()


def _is_other_type(comparison: Comparison) -> bool:
    if not isinstance(comparison.mlir, Rejected):
        return False
    if _is_refused_with(comparison, "storage type must", "quantile type must"):
        # Our error is at the name of the type.
        return True
    is_refused = _is_refused_with(
        comparison,
        "invalid kind of type specified",
        "illegal storage type prefix",
        "undefined symbol alias id",
    )
    if not is_refused:
        return False
    other = r"\(|!|(complex|index|memref|none|tensor|tuple|vector)\b"
    text = _text_at_error(comparison)
    return bool(re.match(other, text)) or _is_refused_with(comparison, "undefined")


def _is_wide_unsigned(comparison: Comparison) -> bool:
    return isinstance(comparison.mlir, Crashed) and _is_refused_with(
        comparison, "illegal storage type size"
    )


def _is_cast_of_storage_of_main(comparison: Comparison) -> bool:
    """Whether MLIR refuses a storage cast to or from a float, or of a quantile type."""
    mlir, ours = comparison.messages
    return (
        not isinstance(comparison.ours, Crashed)
        and mlir != ours
        and bool(
            re.search(r"must be scalar or tensor of signless integer|to match", mlir)
        )
        and "scast" in comparison.text
        and any(map(_has_storage_of_main, quantized_types(comparison.text)))
    )


def _is_cast_of_signed_storage(comparison: Comparison) -> bool:
    """
    Whether it is for the spelling that MLIR refuses a storage cast. Something else may be
    wrong as well, which MLIR looks at later.
    """
    mlir, ours = comparison.messages
    return (
        not isinstance(comparison.ours, Crashed)
        and mlir == "storage type in quantized type expected to match integer type"
        and mlir != ours
        and _has_signed_storage(comparison.text)
    )


def _has_signed_storage(text: str) -> bool:
    return any(signless_spelling(type_) != type_ for type_ in quantized_types(text))


def _is_lowered_signed_storage(comparison: Comparison) -> bool:
    return (
        isinstance(comparison.ours, Accepted)
        and not isinstance(comparison.mlir, Accepted)
        and _has_signed_storage(comparison.text)
    )


def _is_stripped_signed_storage(comparison: Comparison) -> bool:
    mlir, ours = comparison.mlir, comparison.ours
    if not isinstance(ours, Accepted) or not _has_signed_storage(comparison.text):
        return False
    if not isinstance(mlir, Accepted):
        return True
    return re.sub(r"[su]i(?=\d)", "i", mlir.text) == ours.text


def _is_lowered_storage_of_main(comparison: Comparison) -> bool:
    return (
        not isinstance(comparison.ours, Crashed)
        and not isinstance(comparison.mlir, Accepted)
        and any(map(_has_storage_of_main, quantized_types(comparison.text)))
    )


_BARE_QUANTILE_TYPE = re.compile(
    r"(?<!any<)(?<!uniform<)!quant\.quantile<[^<>]*(<[^<>]*>)?>"
)


def _is_stripped_storage_of_main(comparison: Comparison) -> bool:
    """Whether MLIR has invalid IR, or tables where we have stored numbers."""
    mlir, ours = comparison.mlir, comparison.ours
    if not isinstance(ours, Accepted):
        return False
    if not isinstance(mlir, Accepted):
        return any(map(_has_storage_of_main, quantized_types(comparison.text)))

    def stored(match: re.Match[str]) -> str:
        table = parse_type(match[0])
        assert isinstance(table, QuantileType)
        return f"i{table.bitwidth}"

    return _BARE_QUANTILE_TYPE.sub(stored, mlir.text) == ours.text


def _is_space_before_bracket(comparison: Comparison) -> bool:
    mlir, _ = comparison.messages
    return mlir.startswith(
        ("found trailing characters: '<", "undefined symbol alias id 'quant")
    ) and bool(re.match(r"!quant\S*\s*(//|\s)", comparison.text))


def _is_bracket_in_comment(comparison: Comparison) -> bool:
    mlir, _ = comparison.messages
    comments = "".join(_COMMENT.findall(comparison.text))
    return mlir.startswith("unbalanced '") and bool(
        re.search(r"[<>{}()\[\]]", comments)
    )


def _module(op: str, source: str, result: str) -> str:
    """A function with one cast."""
    return (
        f"func.func @f(%x: {source}) {{\n"
        f"  %y = quant.{op} %x : {source} to {result}\n"
        "  return\n"
        "}\n"
    )


_BRANCH = (
    "func.func @f(%x: {type}) -> {type} {{\n"
    "  cf.br ^bb1(%x : {type})\n"
    "^bb1(%y: {type}):\n"
    "  return %y : {type}\n"
    "}}\n"
)


def _has_quantized_block_argument(text: str) -> bool:
    return bool(re.search(r"^ *\^bb.*!quant", text, re.MULTILINE))


_ENCODING = re.compile(r", (1|\"encoded\")(?=>)")


def _is_encoding_kept(comparison: Comparison) -> bool:
    text, mlir, ours, _ = comparison
    if not isinstance(ours, Accepted) or not _ENCODING.search(text):
        return False
    if isinstance(mlir, Rejected):
        return True
    is_accepted = isinstance(mlir, Accepted)
    return is_accepted and _ENCODING.sub("", mlir.text) == _ENCODING.sub("", ours.text)


# The table

DIFFERENCES = (
    Difference(
        "signedness in storage types",
        "si8 and ui8 are other types than i8 and u8, so they are printed as written; "
        "MLIR prints i8 and u8, which parses as another type",
        ("!quant.any<si8:f32>", "!quant.uniform<ui4:f32, 1.000000e+00>"),
        _is_printed_as(signless_spelling),
        releases=(22,),
        main="prints si8 and ui8",
    ),
    Difference(
        "sub-channel zero points keep their value",
        "zero points of a sub-channel type are printed with their value; MLIR truncates "
        "them to the storage width and prints them as signed",
        (
            "!quant.uniform<i8:f32:{}, {1.0:200}>",
            "!quant.uniform<u8:f32:{0:1}, {1.0:255, 2.0:128}>",
        ),
        _is_printed_as(_mlir_zero_points),
    ),
    Difference(
        "sub-channel zero points out of range",
        "MLIR with assertions aborts on a zero point of a sub-channel type that is "
        "negative or wider than the storage type",
        ("!quant.uniform<i8:f32:{}, {1.0:-1}>", "!quant.uniform<u8:f32:{}, {1.0:256}>"),
        _has_unusual_zero_points,
        releases=(22,),
        main="not known: the build of MLIR 24 has no assertions, and truncates it",
    ),
    Difference(
        "sub-channel scales round-trip",
        "if a scale of a sub-channel type has no short decimal spelling within the range "
        "of the expressed type, it is printed as the bits of a double, which parse back; "
        "MLIR prints the bits of the expressed type, or a rounded decimal outside of that "
        "range",
        (
            "!quant.uniform<i8:f32:{}, {123456789.0}>",
            "!quant.uniform<i8:f16:{}, {5.9604644775390625e-8}>",
        ),
        _is_printed_as(_mlir_hex_scales),
    ),
    Difference(
        "sub-channel scales as printed by MLIR",
        "if a scale of a sub-channel type has no short decimal spelling, MLIR prints "
        "the bits of the expressed type; this package parses these bits, MLIR does not",
        ("!quant.uniform<i8:f32:{}, {0x4CEB79A3}>",),
        _is_narrow_scale,
    ),
    Difference(
        "NaN scale",
        "in MLIR a type with a scale of NaN is not equal to itself",
        ("!quant.uniform<i8:f32, 0x7FF8000000000000>",),
        lambda c: _is_refused_with(c, "scale nan out of expressed type range"),
    ),
    Difference(
        "NaN bounds",
        "in MLIR a calibrated type with a bound of NaN is not equal to itself",
        ("!quant.calibrated<f32<-1.0:0x7FF8000000000000>>",),
        lambda c: bool(re.match(r"illegal min and max: \(.*\bnan\b", c.messages[1])),
    ),
    Difference(
        "storage type that is not an integer",
        "the message of MLIR contains a width from uninitialized memory",
        ("!quant.any<f32>", "!quant.uniform<index:f32, 1.0>"),
        _is_storage_of_no_integer,
        releases=(22,),
        main="no width in the message",
    ),
    Difference(
        "float and quantile storage",
        "the storage types f8E5M2, f8E4M3FN, f4E2M1FN and quantile types are those of "
        "MLIR's main; MLIR 22 does not know them",
        (
            "!quant.any<f8E4M3FN>",
            "!quant.uniform<f4E2M1FN,>",
            "!quant.quantile<i1:f16, {0.0,1.0}>",
        ),
        _is_storage_of_main,
        releases=(22,),
        main="knows them",
    ),
    Difference(
        "digits of quantiles",
        "the values of a quantile type that is a storage type are printed such that they "
        "read back; MLIR prints six digits after the point",
        ("!quant.any<!quant.quantile<i1:f16, {0.0,0.123456789}>>",),
        _is_printed_as(_mlir_inner_quantiles),
        releases=(24,),
        main="new",
    ),
    Difference(
        "blocks of floats and quantiles",
        "MLIR crashes or does not end on sub-channel types with float or quantile storage",
        ("!quant.uniform<f8E4M3FN:f32:{}, {1.0}>",),
        _is_blocks_of_main,
        releases=(24,),
        main="new",
    ),
    Difference(
        "number of quantiles",
        "MLIR counts the stored numbers of a quantile type in 64 bits, which overflow from "
        "63 bits of storage on",
        (
            "!quant.quantile<i65:f16, {0.0,1.0}>",
            "!quant.quantile<f64:f16, {0.0,1.0}>",
        ),
        _has_overflowing_count,
        releases=(24,),
        main="new",
    ),
    Difference(
        "wide expressed types",
        "MLIR with assertions aborts on uniform types with expressed type f80 or f128; "
        "without assertions it accepts 0 and infinity as scales, which it rejects for "
        "other types",
        ("!quant.uniform<i8:f80, 0.0>", "!quant.uniform<i8:f128:0, {1.0e400}>"),
        _has_wide_expressed_type,
    ),
    Difference(
        "spelling of floats",
        "if a float is written without a decimal point, the message also shows it with a "
        "decimal point",
        ("!quant.uniform<i8:f32, 1e-17>", "!quant.calibrated<f32<-1:1.0>>"),
        _is_message_with_spelling,
    ),
    Difference(
        "wide unsigned storage",
        "MLIR with assertions aborts on u16777216 and wider",
        ("!quant.any<u16777216>",),
        _is_wide_unsigned,
        releases=(22,),
        main="not known: the build of MLIR 24 has no assertions, and rejects it",
    ),
    Difference(
        "other types inside a type",
        "if the storage or expressed type is neither an integer nor a float type, the "
        "error is at its first token; MLIR parses the whole type first and may report "
        "an error in it",
        ("!quant.any<i8:()>", "!quant.any<i8:tensor<>>"),
        _is_other_type,
    ),
    Difference(
        "booleans",
        "MLIR parses `true` and `false` where an integer is expected",
        ("!quant.any<i8<false:true>>",),
        _is_boolean,
    ),
    Difference(
        "one message for each error",
        "MLIR reports two messages for an invalid calibrated type, this package only "
        "the first one",
        ("!quant.calibrated<i8<-1.0:1.0>>", "!quant.calibrated<f32>"),
        _is_first_of_two,
    ),
    Difference(
        "text after the type in the opaque form",
        "MLIR ignores text after the type in `!quant<...>`",
        ("!quant<any<i8> i8>",),
        _is_opaque_junk,
    ),
    Difference(
        "nesting of scales",
        "lists of scales may be nested as deep as tensors have dimensions; MLIR "
        "recurses until the stack overflows",
        (f"!quant.uniform<i8:f32:{{}}, {'{' * 300}1.0{'}' * 300}>",),
        lambda c: _is_refused_with(c, "scales must not be nested deeper than"),
    ),
    Difference(
        "unknown type names",
        "xDSL reports names that are not names of quantized types, with its own message",
        ("!quant.foo", "!quant<>", "!quant.foo<i8>", ":", "!-"),
        _is_name_of_no_type,
    ),
    Difference(
        "types of this package",
        "`!quant.none`, `!quant.fixed_point` and `!quant.block_scaled` are types that MLIR "
        "does not know",
        (
            "!quant.none<f32>",
            "!quant.fixed_point<i8:f32, 1073741824p-32>",
            "!quant<none>",
        ),
        lambda c: c.messages[0].startswith(
            ("unknown quantized type none", "unknown quantized type fixed_point")
        ),
    ),
    Difference(
        "invalid characters and tokens",
        "xDSL reports characters that are not part of a token of MLIR, with its own "
        "message",
        ("!quant.any<;>", "!quant.any<.>", "!quant.any<%>"),
        _is_no_token,
    ),
    Difference(
        "space before the first bracket",
        "xDSL allows white space between the name of a type and its parameters",
        ("!quant.any <i8>", "!quant <any<i8>>"),
        _is_space_before_bracket,
    ),
    Difference(
        "brackets in comments",
        "MLIR counts brackets in comments when it looks for the end of a type",
        ("!quant.any<i8 // <\n>",),
        _is_bracket_in_comment,
    ),
    Difference(
        "types in messages",
        "types in messages are printed with the differences above",
        (
            _module(
                "qcast",
                'tensor<3x!quant.uniform<i8:f8E4M3FNUZ:{}, {0x3F50000000000000}>, "e">',
                "tensor<3xf8E4M3B11FNUZ>",
            ),
        ),
        lambda c: (
            bool(c.messages[0])
            and c.messages[0] == _mlir_message(c.messages[1], c.release)
        ),
        "op",
    ),
    Difference(
        "sub-channel types on unranked tensors",
        "MLIR rejects them although its verifier is meant to allow them",
        (
            _module(
                "dcast",
                "tensor<*x!quant.uniform<i8:f32:{0:2}, {1.0, 2.0}>>",
                "tensor<*xf32>",
            ),
        ),
        lambda c: (
            c.messages[0]
            == "tensor containing the sub-channel quantized type must be ranked"
        ),
        "op",
    ),
    Difference(
        "storage casts of floats and quantiles",
        "a `quant.scast` between f8E4M3FN and a type with that storage is valid, and one "
        "between i4 and a type with quantile storage of 4 bits; MLIR has no valid "
        "`quant.scast` for these types",
        (
            _module("scast", "f8E4M3FN", "!quant.uniform<f8E4M3FN:f32, 1.0>"),
            _module("scast", "!quant.any<!quant.quantile<ui1:f16, {0.0,1.0}>>", "i1"),
        ),
        _is_cast_of_storage_of_main,
        "op",
        releases=(24,),
        main="new",
    ),
    Difference(
        "storage casts of si8 and ui8",
        "a `quant.scast` between i8 and a type with si8 or ui8 storage is valid; MLIR "
        "has no valid `quant.scast` for these types, as it rejects si8 and ui8, too",
        (
            _module("scast", "i8", "!quant.uniform<ui8:f32, 1.0>"),
            _module("scast", "tensor<2x!quant.any<si4>>", "tensor<2xi4>"),
            _module("scast", "i8", "!quant.uniform<si8:f32:{}, {1.0}>"),
        ),
        _is_cast_of_signed_storage,
        "op",
    ),
    Difference(
        "blocks and axes",
        "MLIR converts a sub-channel type with blocks along one dimension to a per-axis "
        "type even if the blocks are larger than 1, which gives wrong results",
        ("func.func private @f(tensor<4x!quant.uniform<i8:f32:{0:2}, {1.0, 2.0}>>)\n",),
        lambda c: (
            isinstance(c.ours, Accepted)
            and any(map(_is_block_per_axis, quantized_types(c.text)))
        ),
        "normalize-quant-types",
    ),
    Difference(
        "casts without a scale",
        "`any` and `calibrated` types have no scale, so casts of them cannot be "
        "lowered: an error here, while MLIR crashes",
        (_module("dcast", "!quant.any<i8:f32>", "f32"),),
        lambda c: (
            isinstance(c.mlir, Crashed)
            and re.search(r"cannot be lowered: type '.*' has no scale$", c.messages[1])
            is not None
        ),
        "lower-quant-ops",
    ),
    Difference(
        "zero points out of range",
        "a zero point that is not representable in the storage type is an error; MLIR "
        "wraps it around",
        (_module("qcast", "f32", "!quant.uniform<i8:f32, 1.0:200>"),),
        lambda c: "is not representable in" in c.messages[1],
        "lower-quant-ops",
    ),
    Difference(
        "tensor encodings",
        "casts of tensors with an encoding are lowered and keep it; MLIR creates "
        "invalid IR, or drops the encoding",
        (
            _module(
                "qcast", "tensor<4xf32, 1>", "tensor<4x!quant.uniform<i8:f32, 1.0>, 1>"
            ),
        ),
        _is_encoding_kept,
        "lower-quant-ops",
    ),
    Difference(
        "float and quantile storage, lowered",
        "casts to and from types with float or quantile storage are lowered, and "
        "round to nearest without an option; MLIR creates invalid IR or crashes",
        (
            _module("dcast", "!quant.uniform<f8E4M3FN:f32, 1.0>", "f32"),
            _module(
                "dcast",
                "!quant.uniform<!quant.quantile<i1:f16, {0.0,1.0}>:f32, 1.0>",
                "f32",
            ),
        ),
        _is_lowered_storage_of_main,
        "lower-quant-ops",
        releases=(24,),
        main="new",
    ),
    Difference(
        "si8 and ui8 storage, lowered",
        "casts to and from si8 or ui8 storage are lowered like those of i8 and u8; MLIR "
        "creates invalid IR or aborts",
        (
            _module(
                "qcast", "tensor<2xf64>", "tensor<2x!quant.uniform<si2<0:1>:f64, 1.0>>"
            ),
            _module("dcast", "!quant.uniform<ui8:f32, 1.0:3>", "f32"),
        ),
        _is_lowered_signed_storage,
        "lower-quant-ops",
    ),
    Difference(
        "float and quantile storage, stripped",
        "a type with quantile storage of 4 bits becomes i4; MLIR uses the quantile "
        "type, and creates invalid IR where a value with float or quantile storage is used",
        (
            "func.func private @f(!quant.any<!quant.quantile<i1:f16, {0.0,1.0}>>)\n",
            _BRANCH.format(type="!quant.any<f8E4M3FN>"),
        ),
        _is_stripped_storage_of_main,
        "strip-func-quant-types",
        releases=(24,),
        main="new",
    ),
    Difference(
        "si8 and ui8 storage, stripped",
        "si8 and ui8 storage becomes i8 in signatures, the type that arithmetic uses; "
        "MLIR uses si8 and ui8, and creates invalid IR where a value is used",
        (
            "func.func private @f(!quant.any<ui8>)\n",
            _BRANCH.format(type="!quant.any<si8>"),
        ),
        _is_stripped_signed_storage,
        "strip-func-quant-types",
    ),
    Difference(
        "types without storage",
        "a calibrated type cannot be stripped: an error here, while MLIR crashes on a "
        "tensor of it",
        ("func.func private @f(tensor<2x!quant.calibrated<f32<0.0:1.0>>>)\n",),
        lambda c: (
            isinstance(c.mlir, Crashed) and "has no storage type" in c.messages[1]
        ),
        "strip-func-quant-types",
    ),
    Difference(
        "quantized block arguments, stripped",
        "MLIR fails if a block other than the first one has a quantized argument",
        (_BRANCH.format(type="!quant.any<i8>"),),
        lambda c: (
            isinstance(c.ours, Accepted)
            and isinstance(c.mlir, Rejected)
            and _has_quantized_block_argument(c.text)
        ),
        "strip-func-quant-types",
    ),
    Difference(
        "quantized block arguments, normalized",
        "MLIR crashes if a block other than the first one has an argument to normalize",
        (_BRANCH.format(type="tensor<4x!quant.uniform<i8:f32:{}, {1.0}>>"),),
        lambda c: (
            isinstance(c.ours, Accepted)
            and isinstance(c.mlir, Crashed)
            and _has_quantized_block_argument(c.text)
        ),
        "normalize-quant-types",
    ),
)


def explanation(comparison: Comparison, subject: Subject) -> Difference | None:
    """The deliberate difference that makes the answers differ, if there is one."""
    if isinstance(comparison.ours, Crashed):
        return None
    return next(
        (
            d
            for d in DIFFERENCES
            if d.subject == subject
            and comparison.release in d.releases
            and d.explains(comparison)
        ),
        None,
    )
