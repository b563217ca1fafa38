"""Real streaming models, compiled, against LiteRT."""

import re
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from examples.wake_word import check, demo
from examples.wake_word.audio import SAMPLES_PER_SECOND, features, speech
from examples.wake_word.check import Reference, check_model, returning_all_values
from examples.wake_word.models import model_paths
from xdsl_quant.execution import compile
from xdsl_quant.runtime.loading import parse_module

ROOT = Path(__file__).parents[3]

# Number of ops, of their results, of the values of these in two steps.
MODELS = {
    "alexa": (45, 32, 20_870),
    "hey_jarvis": (45, 32, 19_626),
    "hey_mycroft": (45, 32, 25_990),
    "okay_nabu": (61, 51, 31_814),
}

FEATURES = features(speech(("aesa",), 0.08))


@cache
def _compile_text(text: str, *arguments: Any) -> Any:
    return compile(text, *arguments)


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Share compiled models between tests."""

    def compile_once(module: ModuleOp, *arguments: Any) -> Any:
        return _compile_text(str(module), *arguments)

    monkeypatch.setattr(check, "compile", compile_once)


def reference(name: str) -> Reference:
    pytest.importorskip("ai_edge_litert")
    return Reference(model_paths()[name])


# The models


def test_models():
    assert list(model_paths()) == list(MODELS)


def test_licence_of_the_models_is_what_the_documentation_says():
    assert metadata.metadata("pymicro-wakeword")["License"] == "Apache-2.0"


def test_models_that_are_not_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pymicro_wakeword", None)
    with pytest.raises(ImportError) as e:
        model_paths()
    assert str(e.value) == (
        "the demo needs pymicro-wakeword, which is not installed; run pip install "
        "'.[demo]' in a checkout of xdsl-quant"
    )


# The test of the demo's page runs all of them, too.
@pytest.mark.parametrize(
    "name",
    [
        "alexa",
        pytest.param("hey_jarvis", marks=pytest.mark.sampled(0)),
        pytest.param("hey_mycroft", marks=pytest.mark.sampled(0)),
        pytest.param("okay_nabu", marks=pytest.mark.sampled(0)),
    ],
)
def test_nothing_is_wrong(name: str):
    result = check_model(model_paths()[name], FEATURES, reference(name))
    assert (result.wrong, result.fallbacks, result.steps) == (0, 0, 2)
    assert MODELS[name] == (result.operators, result.tensors, result.values)


def test_command(capsys: pytest.CaptureFixture[str]):
    """The page shows the lines printed for ten seconds."""
    pytest.importorskip("ai_edge_litert")
    assert demo.main(["--model=alexa"]) == 0
    *lines, total, times = capsys.readouterr().out.splitlines()
    shown = (ROOT / "docs/example_programs/wake_word.md").read_text().splitlines()
    assert len(lines) == 3
    assert [line for line in lines if line not in shown] == []
    count = re.split(" +", lines[-1])[5]
    assert total == f"0 of {count} values differ from LiteRT's reference kernels"
    assert times.startswith("times of alexa: import ")


# What must not go unnoticed


def test_one_value_off_by_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("ai_edge_litert")
    tensors = Reference.tensors

    def tampered(self: Reference) -> Any:
        for index, tensor in enumerate(tensors(self)):
            if index == 7:
                tensor.flat[3] ^= 1
            yield tensor

    monkeypatch.setattr(Reference, "tensors", tampered)
    assert demo.main(["--model=alexa", "--seconds=0.08"]) == 1
    assert "\n2 of 20,870 values differ" in capsys.readouterr().out


def test_output_off_by_one(monkeypatch: pytest.MonkeyPatch):
    """What is timed is another function than the one that returns all values."""
    pytest.importorskip("ai_edge_litert")
    compile_ = check.compile
    first: list[Any] = []

    def wrong_once(*arguments: Any) -> Any:
        function = compile_(*arguments)
        first.append(function)
        if len(first) > 1:
            return function

        def tampered(*values: Any) -> Any:
            output, *states = function(*values)
            return (output ^ 1, *states)

        return tampered

    monkeypatch.setattr(check, "compile", wrong_once)
    result = check_model(model_paths()["alexa"], FEATURES, reference("alexa"))
    assert result.wrong == 2


def test_without_litert(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    assert demo.main(["--model=alexa", "--seconds=0.08"]) == 0
    printed = capsys.readouterr().out
    assert "nothing is compared: ai-edge-litert is not installed" in printed
    assert "alexa         45          0      2       32         0      0" in printed


# The parts


def test_returning_all_values():
    module = parse_module("""
        func.func @main(%x: tensor<2xf32>) -> (tensor<2xf32> {a.b = 1 : i32}) {
          %c = "tfl.pseudo_const"() <{value = dense<1.0> : tensor<2xf32>}>
              : () -> tensor<2xf32>
          %y = "tfl.exp"(%x) : (tensor<2xf32>) -> tensor<2xf32>
          %z = "tfl.maximum"(%y, %c)
              : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
          return %z : tensor<2xf32>
        }
    """)
    before = str(module)
    copy = returning_all_values(module)
    copy.verify()
    assert str(module) == before
    (function,) = copy.ops
    assert isinstance(function, FuncOp)
    last = function.get_return_op()
    assert last is not None
    assert [value.name_hint for value in last.operands] == ["z", "y", "z"]


def test_features():
    samples = speech(("aesa", "u"), 2)
    assert (samples.dtype, samples.shape) == (np.int16, (2 * SAMPLES_PER_SECOND,))
    assert np.abs(samples).max() < 32767
    computed = features(samples)
    assert computed.shape == (198, 40)
    # Where there is sound, and where there is none.
    assert computed[5:15].mean() > 10 > computed[90:98].mean()


def test_every_bit_counts():
    zeros = np.array([0.0, -0.0], np.float32)
    assert check.count_differences(zeros, zeros) == 0
    assert check.count_differences(zeros, -zeros) == 2
    with pytest.raises(ValueError, match="shapes or dtypes differ"):
        check.count_differences(zeros, zeros[:1])
