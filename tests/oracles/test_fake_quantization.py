"""A fixed sample of fake quantization, compared with the converter."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.ir import Attribute

from .fake_quantization import Converter, compare, main


@pytest.fixture(scope="module")
def converter() -> Converter:
    pytest.importorskip("litert_converter", reason="no real TensorFlow Lite converter")
    return Converter()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("first", range(0, 200, 10))
def test_types_are_those_of_the_converter(first: int, converter: Converter):
    found = [compare(converter, 0, index) for index in range(first, first + 10)]
    assert found == [None] * 10


def _no_types(text: str, *, is_tensorflow: bool) -> Sequence[Attribute]:
    return []


@pytest.mark.usefixtures("converter")
def test_another_type_is_a_difference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("tests.oracles.fake_quantization.own_types", _no_types)
    assert main(["--modules", "2"]) == 1
    assert "seed 0, module 1:" in capsys.readouterr().out
