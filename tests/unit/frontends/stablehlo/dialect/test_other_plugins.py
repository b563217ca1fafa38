"""Another plugin may have a `stablehlo` dialect, too; xDSL takes each name once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PLUGIN = '''
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def
from xdsl.universe import Universe


@irdl_op_definition
class AddOp(IRDLOperation):
    """An `add` with a text of its own."""

    name = "stablehlo.add"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    assembly_format = "$lhs `plus` $rhs attr-dict `:` type($lhs) type($rhs) type($result)"


UNIVERSE = Universe(all_dialects={"stablehlo": lambda: Dialect("stablehlo", [AddOp], [])})
'''

_MODULE = """
!q = !quant.uniform<i8:f32, 5.000000e-01>
func.func @f(%x: tensor<2xf32>) -> tensor<2x!q> {
  %0 = stablehlo.add %x plus %x : tensor<2xf32> tensor<2xf32> tensor<2xf32>
  %1 = stablehlo.uniform_quantize %0 : (tensor<2xf32>) -> tensor<2x!q>
  func.return %1 : tensor<2x!q>
}
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that finds the other plugin."""
    (tmp_path / "other_plugin.py").write_text(_PLUGIN)
    metadata = tmp_path / "other_plugin-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: other_plugin\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text(
        "[xdsl.universe]\nother_plugin = other_plugin:UNIVERSE\n"
    )
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def _python(environment: dict[str, str], *arguments: str, input: str = "") -> str:
    process = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        input=input,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not process.returncode, process.stderr
    return process.stdout


def test_the_other_dialect_is_used_and_the_casts_are_added(environment: dict[str, str]):
    run = "from xdsl.tools.xdsl_opt import main; main()"
    output = _python(environment, "-c", run, input=_MODULE)
    assert "stablehlo.add %x plus %x" in output
    assert "stablehlo.uniform_quantize %" in output


_NAMES = """
from xdsl.universe import Universe
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE
print(sorted(XDSL_QUANT_UNIVERSE.all_dialects))
print("stablehlo" in Universe.get_multiverse().all_dialects)
"""


def test_the_dialect_is_not_offered_beside_another_one(environment: dict[str, str]):
    assert (
        _python(environment, "-c", _NAMES)
        == "['quant', 'shape', 'tf_type', 'tfl']\nTrue\n"
    )


def test_the_dialect_is_offered_if_there_is_no_other_one():
    expected = "['quant', 'shape', 'stablehlo', 'tf_type', 'tfl']\nTrue\n"
    assert _python({**os.environ}, "-c", _NAMES) == expected
