"""The plugin of a hardware team: found by all tools once it is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from xdsl.dialects.builtin import f32, i8

from examples.npu.vec_npu.kernels import gated_result
from xdsl_quant.dialects.quant import UniformQuantizedType
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
    %w = arith.constant dense<5.000000e-01> : tensor<3x4xf32>
    %v = arith.constant dense<2.500000e-01> : tensor<3x4xf32>
    %a = quant.region "vec.dot" (%x_1 = %x : tensor<2x3xf32>, %w_1 = %w : tensor<3x4xf32>) \
-> (tensor<2x4xf32>) {
      %a_1 = vec.dot %x_1, %w_1 : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
      quant.return %a_1 : tensor<2x4xf32>
    }
    %g = quant.region "vec.dot" (%x_1 = %x : tensor<2x3xf32>, %v_1 = %v : tensor<3x4xf32>) \
-> (tensor<2x4xf32>) {
      %g_1 = vec.dot %x_1, %v_1 : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
      quant.return %g_1 : tensor<2x4xf32>
    }
    %y = quant.region "gated" (%g_1 = %g : tensor<2x4xf32>, %a_1 = %a : tensor<2x4xf32>) \
-> (tensor<2x4xf32>) {
      %s = vec.sigmoid %g_1 : tensor<2x4xf32>
      %y_1 = vec.gate %a_1, %s : tensor<2x4xf32>
      quant.return %y_1 : tensor<2x4xf32>
    }
    func.return %y : tensor<2x4xf32>
  }
}
"""

TABLE = """\
vec-npu: Example: a vector unit with gates
3 kernels, ranges by the rule 'exact'

kernel       ops      inputs                    outputs  constraints
gated        gated()  i8, i8                    i8       gated_result()
vec.dot               i8, const i8<-127:127>:0  i8       (coefficient-axis dimension=1)
vec.sigmoid           i8                        u8       (fixed-scale minimum=0 maximum=1)
"""


def test_fusion(environment: dict[str, str]):
    model = str(EXAMPLE / "model.mlir")
    passes = "quant-fuse-kernels{target=vec-npu}"
    tool = ("-c", "from xdsl.tools.xdsl_opt import main; main()")
    fused = run(environment, *tool, model, "-p", passes)
    assert fused.rstrip() == FUSED.rstrip()
    back = run(environment, *tool, model, "-p", f"{passes},quant-inline-regions")
    assert back == run(environment, *tool, model)


def test_propagation(environment: dict[str, str]):
    """The constraint of the plugin decides what no statistics are there for."""
    commands = re.findall("^xdsl-opt (.*) -p '(.*)'$", README.read_text(), re.M)
    ((model, passes),) = commands[1:]
    tool = ("-c", "from xdsl.tools.xdsl_opt import main; main()")
    printed = run(environment, *tool, str(EXAMPLE / model), "-p", passes)
    values = "tensor<2x4xf32> as !quant.uniform<i8:f32, 0.011764705882352941:-1>"
    assert f"= %a : {values}) -> ({values})" in printed


def test_target(environment: dict[str, str]):
    tool = ("-m", "xdsl_quant.tools.target")
    assert run(environment, *tool, "check", "vec-npu") == TABLE
    listed = run(environment, *tool, "list").splitlines()
    assert "vec-npu         Example: a vector unit with gates" in listed


def test_constraint():
    values = UniformQuantizedType(i8, f32, 0.5, 3)
    outputs: Specs = [f32]
    assert gated_result([f32, f32], outputs) == ((), ())
    assert gated_result([f32, values], outputs) == ((), (0,))
    assert outputs == [values]
    assert gated_result([f32, values], outputs) == ((), ())
