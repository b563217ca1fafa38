"""Another plugin may have a `stablehlo` dialect, too; xDSL takes each name once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PLUGIN = '''
from xdsl.ir import (
    Dialect, EnumAttribute, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute
)
from xdsl.ir import TypeAttribute
from xdsl.irdl import (
    IRDLOperation, irdl_attr_definition, irdl_op_definition, operand_def,
    region_def, result_def, traits_def, var_operand_def
)
from xdsl.passes import ModulePass
from xdsl.traits import IsTerminator, SingleBlockImplicitTerminator
from xdsl.utils.str_enum import StrEnum
from xdsl.universe import Universe


@irdl_attr_definition
class OtherToken(ParametrizedAttribute, TypeAttribute):
    name = "stablehlo.token"


@irdl_attr_definition
class OtherPrecision(ParametrizedAttribute, SpacedOpaqueSyntaxAttribute):
    """A precision without a value."""

    name = "stablehlo.precision"


class Mode(StrEnum):
    HIGHEST = "HIGHEST"


@irdl_attr_definition
class OtherMode(EnumAttribute[Mode], SpacedOpaqueSyntaxAttribute):
    """An attribute with a text that this package does not print."""

    name = "stablehlo.result_accuracy_mode"


@irdl_op_definition
class OtherAdd(IRDLOperation):
    """An `add` with a text of its own."""

    name = "stablehlo.add"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    assembly_format = "$lhs `plus` $rhs attr-dict `:` type($lhs) type($rhs) type($result)"


@irdl_op_definition
class OtherReturn(IRDLOperation):
    name = "stablehlo.return"
    values = var_operand_def()
    traits = traits_def(IsTerminator())


@irdl_op_definition
class OnceOp(IRDLOperation):
    """An op that only this dialect has."""

    name = "stablehlo.once"
    token = operand_def(OtherToken)
    body = region_def("single_block")
    traits = traits_def(SingleBlockImplicitTerminator(OtherReturn))

    def verify_(self):
        assert len(self.body.block.last_op.values) == 1


class CountAdds(ModulePass):
    name = "count-adds"

    def apply(self, ctx, op):
        adds = [inner for inner in op.walk() if isinstance(inner, OtherAdd)]
        print("adds:", len(adds), all(add.lhs == add.rhs for add in adds))


STABLEHLO = Dialect(
    "stablehlo",
    [OtherAdd, OtherReturn, OnceOp],
    [OtherToken, OtherPrecision, OtherMode],
)
UNIVERSE = Universe(
    all_dialects={"stablehlo": lambda: STABLEHLO},
    all_passes={"count-adds": lambda: CountAdds},
)
'''

_MODULE = """
!q = !quant.uniform<i8:f32, 5.000000e-01>
func.func @f(%x: tensor<2xf32>, %t: !stablehlo.token) -> tensor<2x!q> {
  %0 = stablehlo.add %x, %x : tensor<2xf32>
  %1 = stablehlo.uniform_quantize %0 : (tensor<2xf32>) -> tensor<2x!q>
  "stablehlo.once"(%t) ({
    stablehlo.return %0 : tensor<2xf32>
  }) {precision = #stablehlo<precision HIGH>,
      mode = #stablehlo.result_accuracy_mode<HIGHEST>} : (!stablehlo.token) -> ()
  func.return %1 : tensor<2x!q>
}
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that finds the other plugin."""
    (tmp_path / "other_plugin.py").write_text(_PLUGIN)
    return _with_plugin(tmp_path, "[xdsl.universe]\nother = other_plugin:UNIVERSE\n")


def _with_plugin(folder: Path, entry_points: str) -> dict[str, str]:
    """An environment in which only this plugin has another dialect `stablehlo`."""
    # Hides an installed `xdsl-jax`.
    metadata = folder / "xdsl_jax-100.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: xdsl-jax\nVersion: 100.0\n"
    )
    (metadata / "entry_points.txt").write_text(entry_points)
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


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


def test_this_dialect_is_used_and_the_ops_of_the_other_are_added(
    environment: dict[str, str],
):
    run = "from xdsl.tools.xdsl_opt import main; main()"
    arguments = ("-c", run, "-p", "count-adds,stablehlo-casts-to-quant")
    output = _python(environment, *arguments, input=_MODULE)
    assert output.startswith("adds: 1 True\n")
    assert "stablehlo.add %x, %x : tensor<2xf32>" in output
    assert "quant.qcast" in output
    assert "precision HIGH" in output
    assert "#stablehlo.result_accuracy_mode<HIGHEST>" in output
    assert '"stablehlo.once"(%' in output


_CHOSEN = """
import sys
from xdsl.context import Context
from xdsl.parser import Parser
from other_plugin import STABLEHLO, OtherAdd
import xdsl_quant.universe
from xdsl_quant.dialects.stablehlo import AddOp, UniformQuantizeOp

ctx = Context()
ctx.load_dialect(STABLEHLO)
assert ctx.get_op("stablehlo.add") is OtherAdd
assert ctx.get_op("stablehlo.uniform_quantize") is UniformQuantizeOp
ctx = Context()
ctx.load_dialect(xdsl_quant.dialects.stablehlo.StableHLO)
assert ctx.get_op("stablehlo.add") is AddOp
"""


def test_a_dialect_loaded_by_hand_keeps_its_classes(environment: dict[str, str]):
    assert _python(environment, "-c", _CHOSEN) == ""


_NAMES = """
from xdsl.universe import Universe
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE
print(sorted(XDSL_QUANT_UNIVERSE.all_dialects))
print("stablehlo" in Universe.get_multiverse().all_dialects)
"""


def test_the_dialect_is_not_offered_beside_another_one(environment: dict[str, str]):
    assert (
        _python(environment, "-c", _NAMES)
        == "['chlo', 'quant', 'sdy', 'shape', 'tf', 'tf_type', 'tfl']\nTrue\n"
    )


def test_the_dialect_is_offered_if_there_is_no_other_one(tmp_path: Path):
    expected = (
        "['chlo', 'quant', 'sdy', 'shape', 'stablehlo', 'tf', 'tf_type', 'tfl']\nTrue\n"
    )
    assert _python(_with_plugin(tmp_path, ""), "-c", _NAMES) == expected
