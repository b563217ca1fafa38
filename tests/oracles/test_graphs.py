"""A fixed sample of the models whose ops share values; `make fuzz` draws others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.execution.other_cpus import ops_without_hash
from tests.unit.frontends.tflite.files.litert_process import LiteRTProcess
from xdsl_quant.execution.scheduling import schedule

from . import graphs
from .drawing import Draw
from .graphs import KINDS, LEVELS, NAME, graph, main, mismatches
from .networks import Network

MODELS = 18
"""Each kind for each of the six CPU levels."""

SEED = 1


@pytest.fixture(scope="module")
def process() -> Iterator[LiteRTProcess]:
    pytest.importorskip("ai_edge_litert", reason="pip install ai-edge-litert")
    with LiteRTProcess() as process, ops_without_hash():
        yield process


def test_random_graphs(process: LiteRTProcess):
    """Each model for one CPU level in turn; `make fuzz` takes all."""
    found = [
        mismatches(process, [LEVELS[(index + index // 6) % 6]], SEED, index)
        for index in range(MODELS)
    ]
    assert [text for texts in found for text in texts] == []


def uses(net: Network) -> Counter[int]:
    """How many ops take each tensor."""
    return Counter(index for op in net.operators for index in {*op.inputs})


def test_graphs_share_values(process: LiteRTProcess):
    nets = [
        graph(Draw(NAME, KINDS[i % len(KINDS)], SEED, i), process) for i in range(12)
    ]
    shared = [any(uses(net)[i] > 1 for i in net.results) for net in nets]
    assert sum(shared) > 6
    assert all(3 <= len(net.operators) <= 20 for net in nets)
    codes = {op.code for net in nets for op in net.operators}
    assert {"ADD", "CONV_2D", "DEQUANTIZE", "FULLY_CONNECTED", "MUL"} <= codes


def test_a_step_that_fails_is_a_mismatch(
    process: LiteRTProcess,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    def decode_constants(*_: Any) -> None:
        raise KeyError("an op")

    monkeypatch.setattr(schedule, "decode_constants", decode_constants)
    monkeypatch.setattr(graphs, "LEVELS", LEVELS[-1:])
    (text,) = mismatches(process, LEVELS[-1:], SEED, 0)
    step = "scheduling step 'decode_constants' failed: KeyError: 'an op'"
    assert text.startswith(
        f"GRAPH i8, seed 1, draw 0, avx2: RuntimeWarning: {step}; compiled code has "
    )
    assert main(["--seconds", "0", "--seed", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [text, "1 models on 1 CPU levels, 1 mismatches"]


def test_one_model_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("ai_edge_litert", reason="pip install ai-edge-litert")
    monkeypatch.setattr(graphs, "LEVELS", LEVELS[-1:])
    assert main(["--seconds", "0", "--first", "7"]) == 0
    assert capsys.readouterr().out == "1 models on 1 CPU levels, 0 mismatches\n"
