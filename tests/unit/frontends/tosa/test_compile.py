"""TOSA is compiled: integers are exact, and errors name the op and its place."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.utils.exceptions import InterpretationError

from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.tools.run import main

_RESCALE = (
    "{input_unsigned = false, output_unsigned = false, per_channel = false, "
    "rounding_mode = DOUBLE_ROUND, scale32 = true}"
)

_ONE, _WIDE = "tensor<1xi8>", "tensor<1xi32>"
_TO_SUM = f"(tensor<3x!q>, {_WIDE}, {_ONE}, {_ONE}, {_WIDE}) -> tensor<3xi32>"
_FROM_SUM = f"(tensor<3xi32>, {_WIDE}, {_ONE}, {_WIDE}, {_ONE}) -> tensor<3x!q>"

_SUM = f"""
!q = !quant.uniform<i8:f32, 2.0>
func.func @predict(%x: tensor<3x!q>, %y: tensor<3x!q>) -> tensor<3x!q> {{
  %m = "tosa.const"() <{{values = dense<1073741824> : tensor<1xi32>}}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{{values = dense<11> : tensor<1xi8>}}> : () -> tensor<1xi8>
  %t = "tosa.const"() <{{values = dense<50> : tensor<1xi8>}}> : () -> tensor<1xi8>
  %z = "tosa.const"() <{{values = dense<0> : tensor<1xi8>}}> : () -> tensor<1xi8>
  %w = "tosa.const"() <{{values = dense<0> : tensor<1xi32>}}> : () -> tensor<1xi32>
  %0 = tosa.rescale %x, %m, %s, %z, %w {_RESCALE} : {_TO_SUM}
  %1 = tosa.rescale %y, %m, %s, %z, %w {_RESCALE} : {_TO_SUM}
  %2 = tosa.add %0, %1 : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
  %3 = tosa.rescale %2, %m, %t, %w, %z {_RESCALE} : {_FROM_SUM}
  return %3 : tensor<3x!q>
}}
"""

_CLAMP = """func.func @f(%x: tensor<?xi8>) -> tensor<?xi8> {
  %0 = tosa.clamp %x {max_val = 100 : i8, min_val = 0 : i8} : (tensor<?xi8>) -> tensor<?xi8>
  return %0 : tensor<?xi8>
}"""


def test_rescaled_sums():
    x, y = np.array([1, 2, 127], np.int8), np.array([2, -7, 127], np.int8)
    # Half of each sum; double rounding rounds half away from zero.
    np.testing.assert_array_equal(compile(_SUM)(x, y), [2, -3, 127])


def test_products_of_quantized_matrices():
    text = """
    !x = !quant.uniform<i8:f32, 0.0215:-25>
    !y = !quant.uniform<i8:f32, 0.0176:18>
    !s = !quant.uniform<i32:f32, 3.784000e-04>
    func.func @f(%x: tensor<2x3x4x!x>, %y: tensor<2x4x3x!y>) -> tensor<2x3x3x!s> {
      %a = "tosa.const"() <{values = dense<-25> : tensor<1xi8>}> : () -> tensor<1xi8>
      %b = "tosa.const"() <{values = dense<18> : tensor<1xi8>}> : () -> tensor<1xi8>
      %0 = tosa.matmul %x, %y, %a, %b :
        (tensor<2x3x4x!x>, tensor<2x4x3x!y>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3x3x!s>
      return %0 : tensor<2x3x3x!s>
    }
    """
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-128, 128, s, np.int8) for s in ((2, 3, 4), (2, 4, 3)))
    expected = (x.astype(np.int32) + 25) @ (y.astype(np.int32) - 18)
    np.testing.assert_array_equal(compile(text)(x, y), expected)


def test_casts_around_quantized_ops():
    clamp = compile("""
    !q = !quant.uniform<i8:f32, 0.5:3>
    func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %q = quant.qcast %x : tensor<4xf32> to tensor<4x!q>
      %0 = tosa.clamp %q {min_val = 3 : i8, max_val = 10 : i8} :
        (tensor<4x!q>) -> tensor<4x!q>
      %d = quant.dcast %0 : tensor<4x!q> to tensor<4xf32>
      return %d : tensor<4xf32>
    }
    """)
    x = np.array([-1, 0.4, 1.6, 50], np.float32)
    np.testing.assert_array_equal(clamp(x), [0, 0.5, 1.5, 3.5])


def test_conditions():
    choose = compile("""
    func.func @f(%a: tensor<i1>, %x: tensor<2xi8>, %y: tensor<2xi8>) -> tensor<2xi8> {
      %0 = tosa.cond_if %a : tensor<i1> -> tensor<2xi8> {
        tosa.yield %x : tensor<2xi8>
      } else {
        tosa.yield %y : tensor<2xi8>
      }
      return %0 : tensor<2xi8>
    }
    """)
    x, y = np.array([1, 2], np.int8), np.array([3, 4], np.int8)
    assert [choose(True, x, y).tolist(), choose(False, x, y).tolist()] == [
        [1, 2],
        [3, 4],
    ]


def test_indices_out_of_range_are_errors():
    rows = compile("""
    func.func @f(%x: tensor<1x5x2xi8>, %i: tensor<1x2xi32>) -> tensor<1x2x2xi8> {
      %0 = tosa.gather %x, %i : (tensor<1x5x2xi8>, tensor<1x2xi32>) -> tensor<1x2x2xi8>
      return %0 : tensor<1x2x2xi8>
    }
    """)
    x = np.arange(10, dtype=np.int8).reshape(1, 5, 2)
    assert rows(x, np.array([[4, 0]], np.int32)).tolist() == [[[8, 9], [0, 1]]]
    with pytest.raises(ValueError, match="out-of-bounds"):
        rows(x, np.array([[5, 0]], np.int32))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "%0 = tosa.maximum %x, %x : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xui8>",
            "module:2:1: error: 'tosa.maximum' op has unsigned elements: 'tensor<4xui8>'; "
            "use signless integers and 'tosa.rescale'",
        ),
        (
            "%y = tosa.abs %f : (tensor<4xf32>) -> tensor<4xf32>\n"
            "%0 = builtin.unrealized_conversion_cast %y : tensor<4xf32> to tensor<4xui8>",
            "module:3:1: error: 'builtin.unrealized_conversion_cast' op cannot be "
            "compiled: MLIR: op was not bufferized",
        ),
    ],
)
def test_errors_name_the_op_and_its_place(body: str, message: str):
    text = (
        "func.func @f(%x: tensor<4xui8>, %f: tensor<4xf32>) -> tensor<4xui8> {\n"
        f"{body}\nreturn %0 : tensor<4xui8>\n}}"
    )
    with pytest.raises(CompilationError) as error:
        compile(text)
    assert str(error.value) == message


def test_the_interpreter_names_the_compiler():
    message = r"module:2:3: error: 'tosa.clamp' op cannot be interpreted; use 'compile'"
    with pytest.raises(InterpretationError, match=message):
        run_function(_CLAMP, None, [1])


def test_the_command_compiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "clamp.mlir"
    path.write_text(_CLAMP)
    assert main([str(path), "--input", "[-1, 2, 127]"]) == 0
    assert capsys.readouterr().out == "result0: int8, shape 3\n[  0   2 100]\n"
    assert main([str(path), "--input", "[[-1], [2]]", "--steps"]) == 0
    assert capsys.readouterr().out == "result0: int8, shape 2x1\n[[0]\n [2]]\n"
