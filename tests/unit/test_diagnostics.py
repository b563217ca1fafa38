"""Messages about ops and types."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.diagnostics import (
    Diagnostic,
    colored,
    location_prefix,
    refusing,
    shortened_message,
)
from xdsl_quant.numerics.formats import FORMATS
from xdsl_quant.numerics.formats.format_types import block_scaled_type
from xdsl_quant.proving import UnsupportedError, provers
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

_WEIGHTS = FORMATS["MXFP4"].quantize(np.ones((512, 512)) + np.eye(512))

LONG = f"tensor<512x512x{block_scaled_type(_WEIGHTS)}>"
"""A type whose text has thousands of scales."""

DEQUANTIZE = f"""
func.func @f(%q: {LONG}) -> tensor<512x512xf32> {{
  %x = quant.dcast %q : {LONG} to tensor<512x512xf32>
  return %x : tensor<512x512xf32>
}}
"""

QUANTIZE = f"""
func.func @f(%q: {LONG}) -> {LONG} {{
  %x = quant.qcast %q : {LONG} to {LONG}
  return %x : {LONG}
}}
"""


@pytest.mark.parametrize("length", [0, 1, 999])
def test_text_of_normal_length(length: int):
    message = f"'{'x' * length}' is not '{'y' * length}'"
    assert shortened_message(message) == message


def test_text_that_is_very_long():
    message = f"'{'x' * 1000}' is not '{'y' * 500 + 'z' * 500}', but '!a' is"
    x, y, z = ("".join(letter * 30) for letter in "xyz")
    assert shortened_message(message) == f"'{x}...{x}' is not '{y}...{z}', but '!a' is"


@pytest.mark.parametrize(
    ("location", "prefix"),
    [
        ("unknown", ""),
        ('"a.py":1:2', "a.py:1:2: "),
        ('"a"("a.py":1:2)', 'loc("a"): '),
        ('callsite("a.py":1:2 at "b.py":3:4)', "a.py:1:2: "),
        ('callsite(callsite("a" at unknown) at "b.py":3:4)', 'loc("a"): '),
        ('fused[unknown, "a.py":1:2, "b.py":3:4]', "a.py:1:2: "),
        ("fused[unknown]", ""),
    ],
)
def test_locations_of_messages(location: str, prefix: str):
    module = parse_module(f"module {{\n}} loc({location})")
    # The parser locates ops without a location in the text.
    by_text = "module:1:1: " if location == "unknown" else ""
    assert location_prefix(module.location) == by_text + prefix


def test_parts_of_a_message():
    diagnostic = Diagnostic("'a' op", "cannot be lowered", ValueError("size 3"))
    assert str(diagnostic) == "'a' op cannot be lowered: size 3"
    with_remedy = diagnostic._replace(remedy="pad it")
    assert str(with_remedy) == "'a' op cannot be lowered: size 3; pad it"


def test_ops_are_refused_with_the_error():
    (op,) = parse_module("func.func private @f()").ops
    with pytest.raises(PassFailedException, match="op is bad: 3; use 4"):
        with refusing(op, "is bad", "use 4"):
            raise ValueError("3")
    with pytest.raises(KeyError), refusing(op, "is bad"):
        raise KeyError


def lower(text: str, pipeline: str) -> Callable[[], object]:
    return lambda: apply_passes(parse_module(text), pipeline)


SHORT = "tensor<512x512x!quant.block_sc...> : tensor<512x16xf8E8M0FNU>>>"
SHORT_ELEMENT = '!quant.block_scaled<f4E2M1FN:f..."> : tensor<512x16xf8E8M0FNU>>'


@pytest.mark.parametrize(
    ("mistake", "expected"),
    [
        (
            lower(QUANTIZE, "canonicalize"),
            "module:3:3: error: 'quant.qcast' op operand #0 must be scalar or tensor of "
            f"floating-point, but got '{SHORT}'",
        ),
        (
            lower(DEQUANTIZE, "quant-casts-to-stablehlo"),
            "module:3:3: error: 'quant.dcast' op cannot be converted to StableHLO: "
            "expected per-tensor or per-axis storage in integers of 2, 4, 8, 16 or 32 "
            f"bits, found type '{SHORT}'; use 'lower-quant-ops' (in the pass "
            "quant-casts-to-stablehlo)",
        ),
        (
            lower(DEQUANTIZE, "convert-tfl-to-tosa"),
            "module:2:1: error: 'func.func' op has elements of type "
            f"'{SHORT_ELEMENT}', expected i1, i8, i16, i32, i64, f16 or f32 "
            "(in the pass convert-tfl-to-tosa)",
        ),
    ],
)
def test_messages_about_long_types(mistake: Callable[[], object], expected: str):
    with pytest.raises(IRError) as raised:
        mistake()
    assert str(raised.value) == expected


def test_proof_of_a_long_type():
    with pytest.raises(UnsupportedError) as raised:
        list(provers(LONG))
    message = f"unsupported type '{SHORT_ELEMENT}'; expected '!quant.uniform'"
    assert str(raised.value) == message


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "variables", "is_colored"),
    [
        (_Terminal(), {}, True),
        (_Terminal(), {"NO_COLOR": "1"}, False),
        (_Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colors(
    stream: io.StringIO,
    variables: dict[str, str],
    is_colored: bool,
    monkeypatch: pytest.MonkeyPatch,
):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    message = "a.mlir: error: no error: at all"
    colored_message = "a.mlir: \033[1;31merror:\033[0m no error: at all"
    assert colored(message, stream) == (colored_message if is_colored else message)
