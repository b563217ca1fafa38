"""The plugin of a hardware team: found by all tools once it is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import f32, i8

from examples.npu.vec_npu.convert_kernels_to_vec import ConvertKernelsToVecPass
from examples.npu.vec_npu.kernels import dot, gated, gated_result
from xdsl_quant.dialects.quant import UniformQuantizedType
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.transforms.propagation.target_spec import Specs

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "npu"
README = EXAMPLE / "README.md"


@pytest.fixture(name="environment")
def _environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which the package is installed."""
    info = tmp_path / "vec_npu-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: vec-npu\nVersion: 0.1.0\n"
    )
    (info / "entry_points.txt").write_text(
        "[xdsl.universe]\nvec_npu = vec_npu.universe:VEC_NPU_UNIVERSE\n"
    )
    paths = (ROOT, EXAMPLE, tmp_path, os.environ.get("PYTHONPATH", ""))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}


def run(environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, *arguments]
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    assert not result.stderr
    return result.stdout


FUSED = """\
builtin.module {
  func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xf32> {
    %w = stablehlo.constant dense<5.000000e-01> : tensor<3x4xf32>
    %v = stablehlo.constant dense<2.500000e-01> : tensor<3x4xf32>
    %a = quant.region "vec.dot" (%x_1 = %x : tensor<2x3xf32>, %w_1 = %w : tensor<3x4xf32>) \
-> (tensor<2x4xf32>) {
      %a_1 = stablehlo.dot_general %x_1, %w_1, contracting_dims = [1] x [0] : \
(tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
      quant.return %a_1 : tensor<2x4xf32>
    }
    %g = quant.region "vec.dot" (%x_1 = %x : tensor<2x3xf32>, %v_1 = %v : tensor<3x4xf32>) \
-> (tensor<2x4xf32>) {
      %g_1 = stablehlo.dot_general %x_1, %v_1, contracting_dims = [1] x [0] : \
(tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
      quant.return %g_1 : tensor<2x4xf32>
    }
    %y = quant.region "vec.gated" (%g_1 = %g : tensor<2x4xf32>, %a_1 = %a : \
tensor<2x4xf32>) -> (tensor<2x4xf32>) {
      %s = stablehlo.logistic %g_1 : tensor<2x4xf32>
      %y_1 = stablehlo.multiply %a_1, %s : tensor<2x4xf32>
      quant.return %y_1 : tensor<2x4xf32>
    }
    func.return %y : tensor<2x4xf32>
  }
}
"""

TABLE = """\
vec-npu: Example: a vector unit with gates
3 kernels, ranges by the rule 'exact'

kernel       ops                 inputs                    outputs  constraints
vec.gated    gated()             i8, i8                    i8       gated_result()
vec.dot      dot()               i8, const i8<-127:127>:0  i8       coefficient-axis dimension=1
vec.sigmoid  stablehlo.logistic  i8                        u8       (fixed-scale minimum=0 maximum=1)
"""  # noqa: E501 lines of a table

TOOL = ("-c", "from xdsl.tools.xdsl_opt import main; main()")


def test_fusion(environment: dict[str, str]):
    model = str(EXAMPLE / "model.mlir")
    passes = "quant-fuse-kernels{target=vec-npu}"
    fused = run(environment, *TOOL, model, "-p", passes)
    assert fused.rstrip() == FUSED.rstrip()
    back = run(environment, *TOOL, model, "-p", f"{passes},quant-inline-regions")
    assert back == run(environment, *TOOL, model)


def test_commands_of_the_page(environment: dict[str, str]):
    """The second one makes what the page says; the constraint in Python decided it."""
    text = README.read_text()
    (model, passes), calibrated = re.findall("^xdsl-opt (.*) -p '(.*)'$", text, re.M)
    assert run(environment, *TOOL, str(EXAMPLE / model), "-p", passes) == FUSED + "\n"
    model, passes = calibrated
    arguments = (str(EXAMPLE / model), "-p", passes, "-t", "mlir-aliased")
    printed = run(environment, *TOOL, *arguments)
    _, _, rest = text.partition("```mlir\n")
    lines = re.findall("^    (?!func)(.*)$", printed, re.M)
    assert lines == rest.partition("```")[0].splitlines()
    assert "!q2 = !quant.uniform<i8:f32, 0.011764705882352941:-1>\n" in printed


OTHERS = """
func.func @main(%x: tensor<3x3xf32>, %y: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1]
    : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %1 = stablehlo.logistic %0 : tensor<3x3xf32>
  %2 = stablehlo.multiply %1, %1 : tensor<3x3xf32>
  %3 = stablehlo.logistic %2 : tensor<3x3xf32>
  %4 = stablehlo.multiply %2, %3 : tensor<3x3xf32>
  %5 = stablehlo.multiply %3, %4 : tensor<3x3xf32>
  func.return %5 : tensor<3x3xf32>
}
"""


def test_ops_that_are_no_kernels():
    """A transposed matrix, a square, a sigmoid with other users and one on the left."""
    module = parse_module(OTHERS)
    assert [(dot(op), gated(op)) for op in module.walk()] == [(None, None)] * 9


def test_kernels_without_parameters_stay():
    module = parse_module(
        FUSED.replace(
            '"vec.gated" (%g_1 = %g : tensor<2x4xf32>',
            '"vec.gated" (%g_1 = %g : tensor<2x4xf32> as !quant.uniform<i8:f32, 0.5>',
        )
    )
    text = str(module)
    ConvertKernelsToVecPass().apply(Context(), module)
    assert str(module) == text


def test_target(environment: dict[str, str]):
    tool = ("-m", "xdsl_quant.tools.target")
    assert run(environment, *tool, "check", "vec-npu") == TABLE
    listed = run(environment, *tool, "list").splitlines()
    assert ["vec-npu", "Example: a vector unit with gates"] in [
        re.split("  +", line) for line in listed
    ]


def test_constraint():
    values = UniformQuantizedType(i8, f32, 0.5, 3)
    outputs: Specs = [f32]
    assert gated_result([f32, f32], outputs) == ((), ())
    assert gated_result([f32, values], outputs) == ((), (0,))
    assert outputs == [values]
    assert gated_result([f32, values], outputs) == ((), ())
