"""`xdsl-quant prove --after convert-tfl-to-...`: pipelines on models, kernel by kernel."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, ModuleOp
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.rewriter import Rewriter

from tests.proving.kernel_mutants import STABLEHLO, module, outcomes
from xdsl_quant.execution import CompiledFunction
from xdsl_quant.execution.schedule import StepError
from xdsl_quant.inspecting import op_recording
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.proving.kernels import (
    ModelKernel,
    comparison,
    cut_kernels,
    prove_kernel,
    scheduling,
)
from xdsl_quant.proving.kernels.comparison import KernelComparison
from xdsl_quant.proving.kernels.scheduling import scheduled_module
from xdsl_quant.proving.theorems import Theorem
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.tools.prove import main

LINALG, TOSA = "convert-tfl-to-linalg", "convert-tfl-to-tosa"


@cache
def kernels() -> dict[str, ModelKernel]:
    return {kernel.op.name: kernel for kernel in cut_kernels(module())}


def proved(
    name: str, passes: str = LINALG, mutate: Callable[[ModuleOp], None] | None = None
) -> Theorem:
    return prove_kernel(kernels()[f"tfl.{name}"], passes, mutate)


@pytest.mark.parametrize(
    ("name", "passes", "method"),
    [
        ("conv_2d", LINALG, "36 unit vectors, 1,536 steps"),
        ("depthwise_conv_2d", TOSA, "12 unit vectors, 1,024 steps, before scheduling"),
        ("average_pool_2d", TOSA, "1,531 sums of 6 elements"),
        ("logistic", LINALG, "all 256 inputs of an element"),
        ("quantize", TOSA, "all 256 inputs of an element"),
        ("concatenation", LINALG, "movement, 2 labels"),
        ("reshape", TOSA, "movement, 2 labels"),
    ],
)
def test_kernel_is_proved(name: str, passes: str, method: str):
    theorem = proved(name, passes)
    assert (theorem.verdict, theorem.method) == ("proved", method), theorem


def _replace_constant(name: str, change: Callable[[list[int]], list[int]]) -> Any:
    """Return a mutation of the first constant of a type."""

    def mutate(module: ModuleOp) -> None:
        for op in module.walk():
            if isinstance(op, arith.ConstantOp) and name in str(op.result.type):
                value: Any = op.value
                new = change([*map(int, value.get_values())])
                op.properties["value"] = DenseIntOrFPElementsAttr.from_list(
                    value.type, new
                )
                return
        raise AssertionError

    return mutate


def test_changed_weight_is_refuted():
    def change(values: list[int]) -> list[int]:
        values[5] += 1
        return values

    theorem = proved("conv_2d", LINALG, _replace_constant("3x3x3x2xi8", change))
    assert theorem.verdict == "refuted"


def test_weights_at_other_positions_are_refuted():
    """Unit vectors of a class have equal coefficients, so their labels must differ."""

    def change(values: list[int]) -> list[int]:
        return values[::-1]

    theorem = proved("conv_2d", LINALG, _replace_constant("3x3x3x2xi8", change))
    assert theorem.verdict == "refuted"


def test_extension_of_another_sign_is_not_affine(monkeypatch: pytest.MonkeyPatch):
    """Unit vectors have negative values: without random inputs, nothing shows it."""
    text = """
    !q = !quant.uniform<i8:f32, 0.5>
    !w = !quant.uniform<i8<-127:127>:f32, 0.5>
    func.func @main(%x: tensor<1x2x!q>) -> tensor<1x1x!q> {
      %w = "tfl.pseudo_qconst"() <{qtype = tensor<1x2x!w>,
        value = dense<[[1, -1]]> : tensor<1x2xi8>}> : () -> tensor<1x2x!w>
      %b = "tfl.no_value"() {value} : () -> none
      %y = "tfl.fully_connected"(%x, %w, %b) {fused_activation_function = "NONE",
        keep_num_dims = false, weights_format = "DEFAULT"}
        : (tensor<1x2x!q>, tensor<1x2x!w>, none) -> tensor<1x1x!q>
      return %y : tensor<1x1x!q>
    }"""
    (kernel,) = cut_kernels(parse_module(text))

    def mutate(module: ModuleOp) -> None:
        for op in [*module.walk()]:
            if isinstance(op, GenericOp) and op.body.block.args[:2]:
                first = op.body.block.args[0]
                for use in [*first.uses]:
                    if isinstance(use.operation, arith.ExtSIOp):
                        new = arith.ExtUIOp(first, use.operation.result.type)
                        Rewriter.replace_op(use.operation, new)
                        return
        raise AssertionError

    assert prove_kernel(kernel, LINALG).verdict == "proved"
    assert prove_kernel(kernel, LINALG, mutate).verdict == "refuted"

    def nothing(_: KernelComparison) -> None:
        return

    monkeypatch.setattr(KernelComparison, "check_random_inputs", nothing)
    assert prove_kernel(kernel, LINALG, mutate).verdict == "unknown"


def _skip(_: KernelComparison) -> None:
    return


def test_faults_of_the_complete_code_are_refuted(monkeypatch: pytest.MonkeyPatch):
    after = KernelComparison.after

    def wrong(self: KernelComparison, inputs: Sequence[Array]) -> tuple[Array, ...]:
        (result,) = after(self, inputs)
        # A unit vector, and no input of other proofs.
        is_unit_vector = (inputs[0] != -128).sum() == 1
        return (result ^ 1 if is_unit_vector else result,)

    monkeypatch.setattr(KernelComparison, "check_random_inputs", _skip)
    monkeypatch.setattr(KernelComparison, "after", wrong)
    assert proved("fully_connected").verdict == "refuted"


def test_code_is_analyzed_after_scheduling(monkeypatch: pytest.MonkeyPatch):
    def wrong(code: CompiledFunction) -> ModuleOp:
        module = scheduled_module(code)
        _replace_constant("xi8>", lambda values: [values[0] ^ 1, *values[1:]])(module)
        return module

    monkeypatch.setattr(KernelComparison, "check_random_inputs", _skip)
    monkeypatch.setattr(comparison, "scheduled_module", wrong)
    theorem = proved("fully_connected")
    assert theorem.verdict == "unknown"
    assert theorem.details.startswith("its sums differ")


def test_unknown_scheduled_code(monkeypatch: pytest.MonkeyPatch):
    def failing(*_: object) -> str:
        raise StepError("pack", ValueError("no"))

    monkeypatch.setattr(scheduling, "scheduled_tensors", failing)
    theorem = proved("logistic")
    assert theorem.method == "all 256 inputs of an element, before scheduling"


def test_refutation_gives_bound_and_input():
    """The reference kernel rescales in `f64`, TOSA by a multiplier."""
    theorem = proved("fully_connected", TOSA)
    assert theorem.verdict == "refuted"
    assert theorem.details.startswith("at most 1 unit: argument 0 is -128")


def test_mutants_are_refuted_or_equivalent():
    assert {verdict for verdict, _ in outcomes(3, 7)} <= {"refuted", "equivalent"}


def test_weights_have_the_shape_of_the_result():
    weights = np.arange(-12, 12).reshape(1, 2, 6, 2).tolist()
    scales = "{0.02, 0.03}"
    (kernel,) = cut_kernels(
        parse_module(f"""
    !x = !quant.uniform<i8:f32, 0.05:-3>
    !w = !quant.uniform<i8<-127:127>:f32:3, {scales}>
    func.func @main(%x: tensor<1x2x6x2x!x>) -> tensor<1x2x6x2x!x> {{
      %w = "tfl.pseudo_qconst"() <{{qtype = tensor<1x2x6x2x!w>, value =
        dense<{weights}> : tensor<1x2x6x2xi8>}}> : () -> tensor<1x2x6x2x!w>
      %n = "tfl.no_value"() <{{value}}> : () -> none
      %y = "tfl.depthwise_conv_2d"(%x, %w, %n) <{{depth_multiplier = 1 : i32,
        dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32, stride_h = 1 : i32,
        stride_w = 1 : i32, padding = "SAME", fused_activation_function = "NONE"}}> :
        (tensor<1x2x6x2x!x>, tensor<1x2x6x2x!w>, none) -> tensor<1x2x6x2x!x>
      return %y : tensor<1x2x6x2x!x>
    }}""")
    )
    theorem = prove_kernel(kernel, STABLEHLO)
    assert theorem.details.startswith("at most 1 unit: argument 0 is"), theorem


def quantization(scale: float = 0.5) -> ModelKernel:
    """Return the kernel that quantizes two floats."""
    (kernel,) = cut_kernels(
        parse_module(f"""
    !q = !quant.uniform<i8:f32, {scale}>
    func.func @main(%x: tensor<2xf32>) -> tensor<2x!q> {{
      %0 = "tfl.quantize"(%x) <{{qtype = tensor<2x!q>}}> : (tensor<2xf32>) -> tensor<2x!q>
      return %0 : tensor<2x!q>
    }}""")
    )
    return kernel


@pytest.mark.parametrize(
    ("passes", "steps", "level"),
    [(LINALG, "512", ""), (TOSA, "1,536", ", before scheduling")],
)
def test_quantization_is_proved_for_all_floats(passes: str, steps: str, level: str):
    theorem = prove_kernel(quantization(0.3), passes)
    assert theorem.verdict == "proved"
    assert theorem.method == f"{steps} steps of all f32 numbers, and NaN{level}"


def test_rounding_of_halves_is_refuted():
    """TensorFlow Lite rounds half away from zero, casts of StableHLO to even."""
    theorem = prove_kernel(quantization(), "convert-tfl-to-stablehlo")
    assert theorem.verdict == "refuted"
    # The stored value of 0.25 is 1 or 0.
    assert theorem.details.startswith("at most 1 unit: argument 0 is")


def test_floats_that_are_rounded_differently():
    """The details tell the distance of the results."""
    text = """
    func.func @main(%x: tensor<2x16xf32>) -> tensor<2x16xf32> {
      %0 = "tfl.softmax"(%x) <{beta = 1.0 : f32}>
        : (tensor<2x16xf32>) -> tensor<2x16xf32>
      return %0 : tensor<2x16xf32>
    }"""
    (kernel,) = cut_kernels(parse_module(text))
    theorem = prove_kernel(kernel, LINALG)
    assert theorem.verdict == "refuted"
    assert theorem.details.endswith(" (1 ulp)")


def test_unsigned_stored_values_are_compared_by_their_bits():
    text = """
    !q = !quant.uniform<i8:f32, 3.906250e-03:-128>
    !u = !quant.uniform<u8:f32, 3.906250e-03>
    func.func @main(%x: tensor<2x!q>) -> tensor<2x!u> {
      %0 = "tfl.quantize"(%x) <{qtype = tensor<2x!u>}> : (tensor<2x!q>) -> tensor<2x!u>
      return %0 : tensor<2x!u>
    }"""
    (kernel,) = cut_kernels(parse_module(text))
    theorem = prove_kernel(kernel, TOSA)
    assert theorem.verdict == "proved", theorem


def test_equal_kernels_are_proved_once():
    text = """
    !q = !quant.uniform<i8:f32, 0.5>
    func.func @main(%x: tensor<2x!q>) -> tensor<2x!q> {
      %0 = "tfl.relu"(%x) : (tensor<2x!q>) -> tensor<2x!q>
      %1 = "tfl.relu"(%0) : (tensor<2x!q>) -> tensor<2x!q>
      return %1 : tensor<2x!q>
    }"""
    assert len([*cut_kernels(parse_module(text))]) == 1


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "m.mlir"
    path.write_text("""
    !q = !quant.uniform<i8:f32, 0.5>
    !s = !quant.uniform<i8:f32, 3.906250e-03:-128>
    func.func @main(%x: tensor<1x4x!q>) -> tensor<1x4x!s> {
      %0 = "tfl.relu"(%x) : (tensor<1x4x!q>) -> tensor<1x4x!q>
      %1 = "tfl.logistic"(%0) : (tensor<1x4x!q>) -> tensor<1x4x!s>
      %2 = "tfl.softmax"(%0) <{beta = 1.0 : f32}> : (tensor<1x4x!q>) -> tensor<1x4x!s>
      return %2 : tensor<1x4x!s>
    }""")
    assert op_recording.Recorder is not None
    assert main([str(path), "--after", LINALG]) == 1
    captured = capsys.readouterr()
    found = [line.split(":")[0].strip() for line in captured.out.splitlines()[1:]]
    assert found == ["proved", "proved", "unknown"]
    assert captured.err == f"{path}: error: 1 claim not proved\n"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", (), "the module has no ops to compare"),
        (
            "func.func @main() { func.return }",
            ("--entry", "main"),
            "option --entry has no effect for kernels; remove it",
        ),
    ],
)
def test_nothing_to_prove_and_unused_options_are_errors(
    text: str,
    options: Sequence[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    path = tmp_path / "m.mlir"
    path.write_text(f"builtin.module {{ {text} }}")
    assert main([str(path), "--after", LINALG, *options]) == 1
    assert capsys.readouterr().err == f"{path}: error: {message}\n"


@pytest.mark.parametrize("op", ["tfl.gather", "tfl.embedding_lookup"])
def test_indices_without_results_are_open(op: str):
    axes = " <{axis = 0 : i32, batch_dims = 0 : i32}>" if op == "tfl.gather" else ""
    order = ("%t", "%i") if op == "tfl.gather" else ("%i", "%t")
    types = {"%t": "tensor<3x2xf32>", "%i": "tensor<4xi32>"}
    (kernel,) = cut_kernels(
        parse_module(f"""
    func.func @main(%i: tensor<4xi32>) -> tensor<4x2xf32> {{
      %t = "tfl.pseudo_const"() <{{value = dense<1.0> : tensor<3x2xf32>}}> :
        () -> tensor<3x2xf32>
      %0 = "{op}"({", ".join(order)}){axes} :
        ({", ".join(types[name] for name in order)}) -> tensor<4x2xf32>
      return %0 : tensor<4x2xf32>
    }}""")
    )
    theorem = prove_kernel(kernel, LINALG)
    assert theorem.verdict == "unknown"
    assert "no result" in theorem.details


def test_dynamic_shapes_are_open():
    kernel, *_ = cut_kernels(
        parse_module(Path("docs/examples/dynamic.mlir").read_text())
    )
    theorem = prove_kernel(kernel, LINALG)
    assert theorem.verdict == "unknown"
    assert "dynamic size" in theorem.details
