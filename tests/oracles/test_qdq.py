"""A fixed sample of models with casts around float ops, compared with the converter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.real_mlir import Mlir
from xdsl_quant.runtime.loading import parse_module

from .qdq import Tally, compare, draw_qdq, main


@pytest.fixture(scope="module")
def mlir() -> Iterator[Mlir]:
    pytest.importorskip("litert_converter", reason="no real TensorFlow Lite converter")
    with Mlir(package="litert_converter.mlir") as mlir:
        yield mlir


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", range(0, 120, 12))
def test_results_are_those_of_the_converter(first: int, mlir: Mlir):
    tally = Tally()
    for index in range(first, first + 12):
        compare(mlir, tally, f"program {index}", draw_qdq(0, index))
    assert tally.differences == []
    assert tally.equal >= 5
    assert tally.fused_ops > 30


def test_a_pass_without_effect_is_a_difference(
    mlir: Mlir, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("tests.oracles.qdq.fused", parse_module)
    assert main(["--programs", "2"]) == 1
    assert "differ: seed 0, program 0" in capsys.readouterr().out
