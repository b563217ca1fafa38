"""Executions of a whole quantized model, compared on samples."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from xdsl_quant.numerics.arrays import Array
from xdsl_quant.rosetta import StepDifference, Unavailable, compare_model
from xdsl_quant.rosetta.executions import executions
from xdsl_quant.rosetta.explanations import Explanation
from xdsl_quant.rosetta.steps import model_steps
from xdsl_quant.rosetta.worker import Worker
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import as_module, parse_module
from xdsl_quant.tools.rosetta import main

_EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"

# The product of scales is half the scale of the result: many sums are ties.
_MODEL = """
!x = !quant.uniform<u8:f32, 0.1:100>
!w = !quant.uniform<i8:f32, 0.1>
!m = !quant.uniform<u8:f32, 0.02:120>
!s = !quant.uniform<u8:f32, 0.00390625>
func.func @main(%x: tensor<32x8xf32>) -> tensor<32x4xf32> {
  %w = stablehlo.constant() <{value = dense<WEIGHTS> : tensor<8x4xi8>}> : ()
    -> tensor<8x4x!w>
  %wf = quant.dcast %w : tensor<8x4x!w> to tensor<8x4xf32>
  %xq = quant.qcast %x : tensor<32x8xf32> to tensor<32x8x!x>
  %xf = quant.dcast %xq : tensor<32x8x!x> to tensor<32x8xf32>
  %m = stablehlo.dot_general %xf, %wf, contracting_dims = [1] x [0]
    : (tensor<32x8xf32>, tensor<8x4xf32>) -> tensor<32x4xf32>
  %mq = quant.qcast %m : tensor<32x4xf32> to tensor<32x4x!m>
  %mf = quant.dcast %mq : tensor<32x4x!m> to tensor<32x4xf32>
  %s = stablehlo.logistic %mf : tensor<32x4xf32>
  %sq = quant.qcast %s : tensor<32x4xf32> to tensor<32x4x!s>
  %sf = quant.dcast %sq : tensor<32x4x!s> to tensor<32x4xf32>
  return %sf : tensor<32x4xf32>
}
"""


def _model() -> str:
    weights = np.random.default_rng(0).integers(-9, 9, (8, 4)).tolist()
    return _MODEL.replace("WEIGHTS", str(weights))


def _samples(count: int = 3) -> Sequence[Sequence[Array]]:
    random = np.random.default_rng(1)
    shape = (32, 8)
    return [[random.normal(0, 0.4, shape).astype(np.float32)] for _ in range(count)]


def _steps(runtime: str, **options: str) -> Sequence[StepDifference]:
    (found,) = compare_model(
        parse_module(_model()), _samples(), runtimes=[runtime], **options
    )
    assert not found.left_out
    return found.steps


def _summary(steps: Sequence[StepDifference]) -> list[tuple[str, str, str]]:
    return [(step.op, step.name, step.reason) for step in steps]


@pytest.mark.parametrize(
    ("runtime", "reason"),
    [
        ("compiled kernels=onnxruntime", "f32 multiplier"),
        ("compiled kernels=multiplier", "fixed-point multiplier"),
        ("stablehlo-definition", "order of the zero point"),
    ],
)
def test_differences_arise_in_the_product(runtime: str, reason: str):
    steps = _steps(runtime)
    assert _summary(steps) == [
        ("stablehlo.dot_general", "mq", reason),
        ("stablehlo.logistic", "sq", ""),
    ]
    product, logistic = steps
    assert product.values == logistic.values == 3 * 32 * 4
    assert 0 < product.differences == product.whole_differences
    assert product.largest == 1
    assert logistic.differences == 0


def test_differences_reach_the_next_ops():
    """The values of the next step differ in the whole model only."""
    product, logistic = _steps("stablehlo-definition")
    assert logistic.differences == 0
    assert 0 < logistic.whole_differences <= product.differences


def test_a_reference_with_arithmetic_of_its_own():
    steps = _steps("onnx-definition", against="compiled kernels=onnxruntime")
    assert steps[0].reason == "f32 multiplier"


def test_onnxruntime_computes_as_its_kernels():
    """The optimizer of onnxruntime fuses casts and ops of each step."""
    (found,) = compare_model(
        parse_module(_model()),
        _samples(),
        runtimes=["onnxruntime"],
        against="compiled kernels=onnxruntime",
    )
    assert not found.left_out
    assert [step.differences for step in found.steps] == [0, 0]


def test_a_model_of_tensorflow_lite():
    module = as_module(_EXAMPLES / "layers_int8.tflite", static=True)
    samples = np.load(_EXAMPLES / "layers.npz")["x"][:8].reshape(2, 1, 4, -1)
    multiplier, reference, definition = compare_model(
        module,
        [*samples],
        runtimes=["compiled kernels=multiplier", "litert-reference", "onnx-definition"],
    )
    names = ["hidden", "hidden/tanh", "logits", "scores"]
    for found in (multiplier, reference, definition):
        assert not found.left_out
        assert [step.name for step in found.steps] == names
    assert not any(step.whole_differences for step in reference.steps)


def _explanation() -> Explanation:
    function = entry_function(parse_module(_model()))
    product = next(s for s in model_steps(function) if s.name == "mq")
    stored = np.zeros((32, 8), np.uint8)
    known = executions(False, Worker())
    return Explanation(product, [[stored]], known, "onnxruntime", "onnx-definition")


def test_saturation_and_unknown_reasons():
    explanation = _explanation()
    indices = np.arange(3)
    zeros = np.zeros(128, np.int64)
    assert explanation.reason(zeros + 255, zeros + 200, indices) == "saturation"
    assert explanation.reason(zeros + 254, zeros + 200, indices) == "other"


def test_a_part_of_the_differences_is_explained():
    explanation = _explanation()
    execution = explanation.executions["stablehlo-definition"]
    (results,) = execution(explanation.step)(explanation.runs)
    found = results.ravel().astype(np.int64)
    found[0] -= 7
    reason = explanation.reason(found, found + 2, np.arange(4))
    assert reason == "order of the zero point (3 of 4)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
            "  return %x : tensor<2xf32>\n}",
            "the model has no quantized values; expected a quantized model",
        ),
        (
            "func.func private @f(tensor<2xf32>) -> tensor<2xf32>\n"
            "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
            "  %y = func.call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>\n"
            "  return %y : tensor<2xf32>\n}",
            "function 'main' calls 'f'; inline calls first",
        ),
    ],
)
def test_models_that_cannot_be_compared(text: str, message: str):
    with pytest.raises(ValueError, match="^" + message):
        next(compare_model(parse_module(text), [[np.zeros(2, np.float32)]]))


def test_an_unknown_runtime():
    with pytest.raises(
        ValueError, match="unknown runtime 'tosa'; available: 'onnx-def"
    ):
        next(compare_model(parse_module(_model()), _samples(), runtimes=["tosa"]))


def test_a_reference_that_cannot_compute():
    text = _model().replace(
        "stablehlo.logistic %mf : tensor<32x4xf32>",
        "stablehlo.custom_call @f(%mf) : (tensor<32x4xf32>) -> tensor<32x4xf32>",
    )
    with pytest.raises(Unavailable, match="'onnx-definition' cannot compute 'sq': "):
        next(compare_model(parse_module(text), _samples()))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    model, data, table = (tmp_path / name for name in ("m.mlir", "x.npy", "t.json"))
    model.write_text(_model())
    np.save(data, np.concatenate([run[0] for run in _samples()]))
    arguments = [str(model), "--runtimes", "stablehlo-definition", "--json", str(table)]
    assert main([*arguments, "--data", str(data)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "stablehlo-definition, compared with onnx-definition: 3 runs"
    (found,) = json.loads(table.read_text())
    (expected,) = compare_model(
        parse_module(_model()), _samples(), runtimes=["stablehlo-definition"]
    )
    assert found["steps"][0]["differences"] == expected.steps[0].differences
    assert main([*arguments, "--input", f"{data}"]) == 1
    assert "has shape" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["!quant.uniform<i8:f32, 0.5>", "--data", "x.npy"],
            "--data and --input apply to models, not to types",
        ),
        (
            ["m.mlir", "--data", "x.npy", "--input", "1"],
            "--data and --input exclude each other",
        ),
        (
            ["m.mlir", "--data", "x.npy", "--ops", "add"],
            "--ops does not apply to a model with samples",
        ),
        (
            ["m.mlir", "--data", "x.npy", "--all-inputs"],
            "--all-inputs does not apply to a model with samples",
        ),
    ],
)
def test_options_that_exclude_each_other(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    Path("m.mlir").write_text(_model())
    np.save("x.npy", np.zeros((32, 8), np.float32))
    assert main(arguments) == 1
    assert capsys.readouterr().err == f"{arguments[0]}: error: {message}\n"
