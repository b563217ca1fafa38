"""Generated ops, compared with the real dialect, which `litert-converter` has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from tests.conformance.answers import Accepted, Answer, Crashed, Rejected
from tests.conformance.real_mlir import Mlir
from tests.conformance.this_package import answer_module

from .texts import CUSTOM_FORMS, SAMPLES, Sample, changed

OF_XDSL = re.compile(
    r"use of value '.*' expects different type than prior uses"
    r"|expected non-function type|invalid memref element type"
    r"|invalid element type for complex"
)
"""What parsers say, of types and values: xDSL has its own words for that."""


def comparable(text: str) -> str:
    """
    The text with values numbered in their order, without the bindings of results, which
    xDSL names one by one, and without what xDSL writes longer.
    """
    names: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"%{len(names)}")

    text = re.sub(r"%\w+(?::\d+|(?:, %\w+)+) = ", "%results = ", text)
    for longer, shorter in (
        ("builtin.module", "module"),
        ("func.return", "return"),
        (" : i64]", "]"),
    ):
        text = text.replace(longer, shorter)
    # Values in regions are named alone in MLIR, and with those around them in xDSL.
    return re.sub(r"%\w+", "%" if "^bb0" in text else number, text)


def assert_same(text: str, real: Answer, ours: Answer) -> None:
    """That two answers have the same verdict, and the same text or words."""
    assert not isinstance(ours, Crashed), f"{text}\n{ours.reason}"
    if isinstance(real, Crashed):
        return
    assert type(real) is type(ours), f"{text}\n{real}\n{ours}"
    if isinstance(real, Accepted) and isinstance(ours, Accepted):
        assert comparable(ours.text) == comparable(real.text), text
    if isinstance(real, Rejected) and isinstance(ours, Rejected):
        words = real.message
        if not OF_XDSL.match(words):
            assert words in ours.message.replace(" : i64]", "]"), text


def forms(sample: Sample) -> Iterator[Sample]:
    """A sample in each of its forms."""
    yield sample
    if sample.name not in CUSTOM_FORMS:
        return
    yield replace(sample, form="unquoted")
    if {*sample.operands} == {*sample.results}:
        yield replace(sample, form="custom")


IDS = [f"{sample.name}-{index}" for index, sample in enumerate(SAMPLES)]


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_valid(litert_converter: Mlir, sample: Sample):
    for form in forms(sample):
        text = form.text()
        real = litert_converter.run(text)
        assert isinstance(real, Accepted), (text, real)
        assert_same(text, real, answer_module(text))
        assert_same(text, real, answer_module(real.text))


@pytest.mark.sampled
@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_changed(
    litert_converter: Mlir, sample: Sample, request: pytest.FixtureRequest
):
    for seed in range(20 if request.config.getoption("--all-cases") else 5):
        text = changed(Random(f"{sample} {seed}"), sample).text()
        assert_same(text, litert_converter.run(text), answer_module(text))


CUSTOM_TEXTS = [
    "tfl.add %a, %b : tensor<2xf32>",
    'tfl.add %a {fused_activation_function = "NONE"} : tensor<2xf32>',
    'tfl.add %a, %b, %a {fused_activation_function = "NONE"} : tensor<2xf32>',
    'tfl.add %a, %b {fused_activation_function = "RELU", x = 1 : i32} : tensor<2xf32>',
    'tfl.add %a, %b {fused_activation_function = "X"} : tensor<2xf32>',
    'tfl.add(%a, %b) <{fused_activation_function = "NONE"}> {z, b = 2 : i8} '
    ": (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
    '"tfl.add"(%a, %b) {fused_activation_function = "NONE"} '
    ": (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
    '"tfl.add"(%a, %b) <{fused_activation_function = "NONE", other = 1 : i32}> '
    ": (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>",
    '"tfl.softmax"(%a) <{other = 1 : i32}> {beta = 1.0 : f32, y, x} '
    ": (tensor<2xf32>) -> tensor<2xf32>",
    '"tfl.softmax"(%a) {beta = 1.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>',
    '"tfl.var_handle"() : () -> tensor<*x!tf_type.resource>',
    '"tfl.no_value"() {value} : () -> none',
    '"tfl.custom"() <{custom_code = "", custom_option = #tfl<const_bytes : "0xABc">}> '
    ": () -> tensor<2x!tf_type.quint8>",
    '"tfl.custom"() <{custom_code = "", custom_option = #tfl<const_bytes : "0xZa">}> '
    ": () -> tensor<2x!tf_type.string>",
    '"tfl.custom"() <{custom_code = "", custom_option = #tfl<const_bytes : "a\\0A">}> '
    ": () -> tensor<2xf32>",
]


@pytest.mark.parametrize("op", CUSTOM_TEXTS)
def test_forms(litert_converter: Mlir, op: str):
    body = f"%0 = {op}\n  func.return"
    text = f"func.func @f(%a: tensor<2xf32>, %b: tensor<2xf32>) {{\n  {body}\n}}"
    assert_same(text, litert_converter.run(text), answer_module(text))


BRANCH = '"tfl.yield"(%b) : (tensor<2xf32>) -> ()'
LOOP = '^bb0(%c: tensor<2xf32>): "tfl.yield"(%c) : (tensor<2xf32>) -> ()'
RESULT = "(tensor<i1>) -> tensor<2xf32>"
CONTROL_FLOW = [
    f'%0 = "tfl.if"(%a) ({{ {BRANCH} }}, {{ {BRANCH} }}) : {RESULT}',
    f'%0 = "tfl.if"(%a) ({{ {BRANCH} }}, {{ }}) : {RESULT}',
    f'%0 = "tfl.if"(%a) ({{ }}, {{ {BRANCH} }}) : {RESULT}',
    f'%0 = "tfl.if"(%a) ({{ {LOOP} }}, {{ {BRANCH} }}) : {RESULT}',
    f'%0 = "tfl.if"(%a) ({{ {BRANCH} }}) : {RESULT}',
    f'%0 = "tfl.while"(%b) ({{ {LOOP} }}, {{ {LOOP} }}) '
    ": (tensor<2xf32>) -> tensor<2xf32>",
    f'%0 = "tfl.while"(%b) <{{is_stateless = true}}> ({{ {LOOP} }}, {{ {LOOP} }}) '
    ": (tensor<2xf32>) -> tensor<3xf32>",
    f'%0:2 = "tfl.while"(%b) ({{ {LOOP} }}, {{ {LOOP} }}) '
    ": (tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>)",
    f'%0 = "tfl.while"(%b) ({{ {BRANCH} }}, {{ {LOOP} }}) '
    ": (tensor<2xf32>) -> tensor<2xf32>",
    f'%0 = "tfl.while"(%b) ({{ {LOOP.replace("2x", "3x")} }}, {{ {LOOP} }}) '
    ": (tensor<2xf32>) -> tensor<2xf32>",
    f'%0 = "tfl.while"(%b) ({{ }}, {{ {LOOP} }}) : (tensor<2xf32>) -> tensor<2xf32>',
]


@pytest.mark.parametrize("op", CONTROL_FLOW)
def test_control_flow(litert_converter: Mlir, op: str):
    text = (
        f"func.func @f(%a: tensor<i1>, %b: tensor<2xf32>) {{\n  {op}\n  func.return\n}}"
    )
    assert_same(text, litert_converter.run(text), answer_module(text))
