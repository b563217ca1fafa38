"""The quantized tensors of real models through `xdsl-opt`, MLIR and a compiler."""

import dataclasses
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from examples.wake_word import check, demo
from examples.wake_word.check import ModelResult, check_model
from examples.wake_word.quantized_module import build_module, quantized_type
from examples.wake_word.tflite_tensors import (
    QuantizedTensor,
    model_paths,
    read_tensors,
)

ROOT = Path(__file__).parents[3]

# Number of tensors, how many of them have values in the file, number of all values.
MODELS = {
    "alexa": (59, 26, 38060),
    "hey_jarvis": (59, 26, 34884),
    "hey_mycroft": (59, 26, 41900),
    "okay_nabu": (88, 36, 56620),
}


def all_values() -> list[QuantizedTensor]:
    """Every stored value of 8 bits: signed, with two scales, and unsigned."""
    signed = np.arange(-128, 128, dtype=np.int8)
    unsigned = np.arange(256, dtype=np.uint8)
    return [
        QuantizedTensor(
            "signed",
            np.stack([signed, signed], axis=1),
            np.array([0.1, 0.7], np.float32),
            np.array([-128, 5]),
            1,
            True,
        ),
        QuantizedTensor(
            "unsigned",
            unsigned,
            np.array([0.3], np.float32),
            np.array([200]),
            None,
            True,
        ),
    ]


@pytest.fixture
def small_model(monkeypatch: pytest.MonkeyPatch) -> list[QuantizedTensor]:
    """The tensors that are read instead of those of a file."""
    tensors = all_values()
    monkeypatch.setattr(check, "read_tensors", lambda _path: tensors)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] a lambda has no annotations to annotate it
    return tensors


def tamper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add one to one value on its way into the module."""

    def build_wrong_module(tensors: list[QuantizedTensor]):
        first, *others = tensors
        stored = first.stored.copy()
        stored.flat[37] += 1
        return build_module([dataclasses.replace(first, stored=stored), *others])

    monkeypatch.setattr(check, "build_module", build_wrong_module)


def wrong(result: ModelResult) -> tuple[int, int]:
    return result.wrong_floats, result.wrong_integers


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


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_wrong(name: str, tmp_path: Path):
    result = check_model(model_paths()[name], tmp_path)
    tensors = [tensor for tensor, _, _ in result.tensors]
    assert wrong(result) == (0, 0)
    assert MODELS[name] == (
        len(tensors),
        sum(tensor.is_constant for tensor in tensors),
        sum(tensor.stored.size for tensor in tensors),
    )
    assert max(map(check.largest_distance, tensors)) < check.EXACT_BELOW


def test_command(tmp_path: Path):
    process = subprocess.run(
        [sys.executable, "-m", "examples.wake_word", "--keep", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert "59 tensors" in process.stdout
    assert "38,060             0               0\n" in process.stdout
    assert {path.name for path in tmp_path.iterdir()} == {
        "alexa.mlir",
        "alexa.lowered.mlir",
    }


# What must not go unnoticed


@pytest.mark.usefixtures("small_model")
def test_one_value_off_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tamper(monkeypatch)
    result = check_model(Path("small"), tmp_path)
    assert [counts for _, *counts in result.tensors] == [[1, 1], [0, 0]]


@pytest.mark.usefixtures("small_model")
def test_truncation_is_wrong(tmp_path: Path):
    result = check_model(Path("small"), tmp_path, "truncate")
    assert result.wrong_floats == 0
    assert result.wrong_integers > 0


@pytest.mark.usefixtures("small_model")
def test_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    assert demo.main([]) == 0
    assert "2 tensors" in capsys.readouterr().out
    tamper(monkeypatch)
    assert demo.main([]) == 1


@pytest.mark.usefixtures("small_model")
def test_failing_xdsl_opt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(check, "PASSES", "canonicalize")
    assert demo.main([]) == 1
    assert "left quantized types" in capsys.readouterr().err
    monkeypatch.setattr(check, "PASSES", "no-such-pass")
    assert demo.main([]) == 1
    assert "xdsl-opt -p 'no-such-pass' failed" in capsys.readouterr().err


# The parts


def test_read_tensors():
    tensors = {t.name: t for t in read_tensors(model_paths()["alexa"])}

    audio = tensors["serving_default_input_audio:0"]
    assert (audio.stored.dtype, audio.stored.shape) == (np.int8, (1, 3, 40))
    assert (audio.axis, audio.is_constant) == (None, False)
    assert audio.scales.tolist() == [0.10196078568696976]
    assert audio.zero_points.tolist() == [-128]

    filters = tensors["model_1/depthwise_conv2d_7/depthwise"]
    assert (filters.stored.dtype, filters.stored.shape) == (np.int8, (1, 21, 1, 64))
    assert (filters.axis, filters.is_constant) == (3, True)
    assert len(filters.scales) == len(filters.zero_points) == 64
    assert filters.scales[0] == np.float32(0.001372379600070417)

    bias = tensors["model_1/dense_1/BiasAdd/ReadVariableOp"]
    assert (bias.stored.dtype, bias.stored.tolist()) == (np.int32, [-1863])


def test_random_values_are_the_same_every_time():
    first, second = (read_tensors(model_paths()["alexa"]) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert (one.stored == other.stored).all()


def test_quantized_type():
    signed, unsigned = map(quantized_type, all_values())
    assert str(signed) == (
        "!quant.uniform<i8:f32:1, {0.10000000149011612:-128,0.69999998807907104:5}>"
    )
    assert str(unsigned) == "!quant.uniform<u8:f32, 0.30000001192092896:200>"


def test_expressed_values():
    signed, unsigned = map(check.expressed_values, all_values())
    assert signed[:2].tolist() == [
        [0.0, float(np.float32(-133) * np.float32(0.7))],
        [float(np.float32(0.1)), float(np.float32(-132) * np.float32(0.7))],
    ]
    assert unsigned[200] == 0.0


def test_every_bit_counts():
    zeros = np.array([0.0, -0.0], np.float32)
    assert check.count_differences(zeros, zeros) == 0
    assert check.count_differences(zeros, -zeros) == 2
