"""The measured page about weights has the figures that its command prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.weights import layer_rows, rows_of
from examples.classifiers.networks import load_network

PAGE = Path(__file__).parents[3] / "docs" / "measured" / "weights.md"


@pytest.mark.sampled(0)
def test_figures_of_a_network():
    page = PAGE.read_text()
    rows = [*rows_of(["wine_batch_norm"])]
    assert len(rows) == 2
    for row in rows:
        assert f"| {' | '.join(row)} |" in page


@pytest.mark.sampled(0)
def test_figures_of_a_layer():
    pytest.importorskip("onnxruntime")
    page = PAGE.read_text()
    rows = [*layer_rows(load_network("digits"), 0)]
    assert len(rows) == 6
    for row in rows:
        assert f"| {' | '.join(row)} |" in page
