"""Every mistake is one sentence, before anything runs."""

import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from xdsl_quant.execution import CompilationError, CompiledFunction, compile
from xdsl_quant.machines.numpy import run_function

ADD = """
func.func @add(%x: tensor<?x3xf32>, %y: tensor<2x3xf32>) -> tensor<?x3xf32> {
  %0 = tensor.cast %y : tensor<2x3xf32> to tensor<?x3xf32>
  %1 = arith.addf %x, %0 : tensor<?x3xf32>
  return %1 : tensor<?x3xf32>
}
"""


SEE = """
func.func private @see(tensor<2xf32>)
func.func @f(%x: tensor<2xf32>) {
  func.call @see(%x) : (tensor<2xf32>) -> ()
  return
}
"""


@pytest.fixture(scope="module")
def add() -> CompiledFunction:
    return compile(ADD)


def signature(types: str) -> str:
    return f"func.func @f({types}) {{ return }}"


# Modules


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "func.func @f(%x: i32) -> i32 {\n  return %y : i32\n}",
            "module:3:2: error: values used but not defined: [%y]",
        ),
        (
            "func.func @f(%x: i32) -> i64 { return %x : i32 }",
            "module:1:32: error: 'func.return' op Expected arguments to have the same",
        ),
        (
            """!q = !quant.uniform<i8:f32:0, {1.0, 2.0, 3.0}>
func.func @f(%x: tensor<2x!q>) -> tensor<2xf32> {
  %0 = quant.dcast %x : tensor<2x!q> to tensor<2xf32>
  return %0 : tensor<2xf32>
}""",
            "module:3:3: error: 'quant.dcast' op quantized dimension size does not match",
        ),
        (
            """!q = !quant.uniform<i8:f32, 1.0:300>
func.func @f(%x: f32) -> !q {
  %0 = quant.qcast %x : f32 to !q
  return %0 : !q
}""",
            "module:3:3: error: 'quant.qcast' op cannot be lowered: zero point 300 is not ",
        ),
        (
            "func.func private @g()\nfunc.func @f() { func.call @g() : () -> () return }",
            "function 'g' has no body; define it in the module or pass a host function",
        ),
        (
            "func.func private @g() { return }",
            "the module has no public function with a body",
        ),
        (
            "func.func @f() { return } func.func @g() { return }",
            "missing function name; available: 'f', 'g'",
        ),
        (
            "func.func @f() attributes {t = !quant.uniform<i8:f32, 1.0>} { return }",
            "unsupported quantized type in an attribute",
        ),
        (
            """func.func @f(%x: f8E5M2FNUZ) -> f32 {
  %0 = arith.extf %x : f8E5M2FNUZ to f32
  return %0 : f32
}""",
            "unsupported 'arith.extf' op: missing lowering to LLVM",
        ),
        (
            """func.func @f(%x: tensor<?xf32>, %i: index) -> tensor<?xf32> {
  %0 = arith.addf %x, %x : tensor<?xf32>
  %1 = tensor.insert_slice %x into %0[%i][%i][1] : tensor<?xf32> into tensor<?xf32>
  %r = func.call @f(%1, %i) : (tensor<?xf32>, index) -> tensor<?xf32>
  return %r : tensor<?xf32>
}""",
            "unsupported recursive function with run-time checks: 'f'",
        ),
        (
            """func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = stablehlo.custom_call @g(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}""",
            "module:2:3: error: 'stablehlo.custom_call' op calls 'g', which has no "
            "conversion to linalg (in the pass convert-stablehlo-to-linalg)",
        ),
        (
            """func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = quant.region "add" (%a = %x : tensor<2xf32>) -> (tensor<2xf32>) {
    %z = stablehlo.add %a, %a : tensor<2xf32>
    quant.return %z : tensor<2xf32>
  }
  return %y : tensor<2xf32>
}""",
            "module:2:3: error: 'quant.region' op cannot be run; run "
            "'quant-inline-regions' first",
        ),
        (
            signature("%x: tensor<*xf32>"),
            "argument 0 of 'f' has type 'tensor<*xf32>'; expected a ranked tensor",
        ),
        (
            signature("%x: f32, %y: memref<2xf32>"),
            "module:1:1: error: function 'f' cannot be called with arrays: argument 1 has "
            "type 'memref<2xf32>'; use the module before it is bufferized or vectorized, "
            "with tensors",
        ),
        (
            signature("%x: i128"),
            "argument 0 of 'f' has type 'i128': unsupported width 128",
        ),
        (signature("%x: ui4"), "argument 0 of 'f' has type 'ui4'; integers of 4 bits"),
        (
            signature('%x: tensor<2xf32, "a">'),
            "argument 0 of 'f' has type 'tensor<2xf32, \"a\">'; expected a tensor without",
        ),
    ],
)
def test_modules_that_cannot_be_compiled(
    text: str, message: str, capfd: pytest.CaptureFixture[str]
):
    with pytest.raises(CompilationError, match=f"^{re.escape(message)}") as e:
        compile(text)
    assert "\n" not in str(e.value)
    output = capfd.readouterr()
    assert output.out == ""
    assert output.err == ""


def test_ops_on_quantized_values_that_are_not_lowered():
    text = """!q = !quant.uniform<i8:f32, 1.0>
func.func @f(%x: tensor<2x!q>) -> tensor<2xi8> {
  %0 = builtin.unrealized_conversion_cast %x : tensor<2x!q> to tensor<2xi8>
  return %0 : tensor<2xi8>
}"""
    with pytest.raises(
        CompilationError,
        match=r"^'builtin.unrealized_conversion_cast' op has an operand or result of ",
    ):
        compile(text)


def test_entries():
    text = "func.func @f() { return } func.func private @g() { return }"
    assert compile(text).name == "f"
    assert compile(text, "g").name == "g"
    assert compile(text.replace("private ", "").replace("@g", "@main")).name == "main"
    with pytest.raises(
        CompilationError, match=r"^unknown function 'h'; available: 'f', 'g'$"
    ):
        compile(text, "h")
    with pytest.raises(CompilationError, match="unknown function 'h'; the module has"):
        compile("builtin.module {}", "h")


def test_rounding_mode():
    with pytest.raises(ValueError, match=r"^unknown rounding mode 'up', available: "):
        compile(ADD, rounding_mode="up")  # pyright: ignore[reportArgumentType] the test
    with pytest.raises(
        ValueError, match="'after-rounding' for rounding mode 'truncate'"
    ):
        compile(ADD, rounding_mode="truncate", zero_point_order="after-rounding")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"entry": np.ones(2)},
            "entry must be a function name or None, not ndarray",
        ),
        ({"fuse": "no"}, "fuse must be True or False, not 'no'"),
        ({"fuse": 1}, "fuse must be True or False, not 1"),
        ({"schedule": 1}, "schedule must be True or False, not 1"),
        (
            {"host_functions": {"see": 3}},
            "host function 'see' is of type int, which cannot be called",
        ),
        (
            {"host_functions": ["see"]},
            "expected a dict of host functions by name, found list",
        ),
    ],
)
def test_options_of_wrong_types(options: dict[str, Any], message: str):
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        compile(SEE, **options)


@pytest.mark.parametrize("host", [{"see": 3}, ["see"], "see"])
def test_host_functions_of_the_interpreter(host: Any):
    with pytest.raises(
        TypeError, match=r"^(host function|expected a dict of host functions)"
    ):
        run_function(SEE, "f", [1.0, 2.0], host_functions=host)


# Arguments


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((), TypeError, "function 'add' takes 2 arguments, but got 0"),
        (
            (np.zeros((2, 3)), np.zeros((2, 3))),
            TypeError,
            "argument 0 has dtype float64, but 'tensor<?x3xf32>' takes float32",
        ),
        (
            (np.zeros((2, 3), np.float32), np.zeros(3, np.float32)),
            ValueError,
            "argument 1 has rank 1, but 'tensor<2x3xf32>' has rank 2",
        ),
        (
            (np.zeros((2, 4), np.float32), np.zeros((2, 3), np.float32)),
            ValueError,
            "argument 0 has shape 2x4, but 'tensor<?x3xf32>' has shape ?x3",
        ),
        (
            ([[1, 2, 3], ["a", 1, 2]], np.zeros((2, 3), np.float32)),
            TypeError,
            "argument 0 is a list, expected an array, a number or a list of numbers",
        ),
        (
            (np.zeros((3, 3), np.float32), np.zeros((2, 3), np.float32)),
            ValueError,
            "'add': invalid sizes or indices: ",
        ),
    ],
)
def test_arguments(
    add: CompiledFunction, arguments: Any, error: type[Exception], message: str
):
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        add(*arguments)


@pytest.mark.parametrize(
    ("type_", "value", "message"),
    [
        ("i8", 128, "argument 0 contains 128, but 'i8' takes -128 to 127"),
        ("i4", np.int8(8), "argument 0 contains 8, but 'i4' takes -8 to 7"),
        ("i1", 2, "argument 0 contains 2, but 'i1' takes 0 to 1"),
        ("index", 2**63, "argument 0 contains 9223372036854775808, but 'index' takes"),
        (
            "!quant.uniform<u4:f32, 1.0>",
            np.uint8(16),
            "argument 0 contains 16, but '!quant.uniform<u4:f32, 1.000000e+00>' takes 0",
        ),
        ("f32", 1e39, "argument 0 contains 1e+39, which exceeds 'f32'"),
    ],
)
def test_numbers_that_do_not_fit(type_: str, value: Any, message: str):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        compile(signature(f"%x: {type_}"))(value)


# Results


def test_out(add: CompiledFunction):
    x, y = np.ones((2, 2, 3), np.float32)
    out = np.empty((2, 3), np.float32)
    assert add(x, y, out=out) is out
    np.testing.assert_array_equal(out, np.full((2, 3), 2))
    assert add(x, y, out=(out,)) is out


def test_out_of_several_results():
    function = compile(
        "func.func @f(%x: f32, %y: i8) -> (f32, i8) { return %x, %y : f32, i8 }"
    )
    out = np.empty((), np.float32), np.empty((), np.int8)
    results = function(1.5, 2, out=out)
    assert all(result is array for result, array in zip(results, out, strict=True))
    assert results == (1.5, 2)
    with pytest.raises(
        TypeError,
        match=r"^`out` must have one array per result of 'f': expected 2, found 1$",
    ):
        function(1.5, 2, out=out[0])
    same = np.empty((), np.float32)
    with pytest.raises(
        ValueError, match=r"^out\[1\] overlaps an argument or another output"
    ):
        compile("func.func @f(%x: f32) -> (f32, f32) { return %x, %x : f32, f32 }")(
            1.0, out=(same, same)
        )


@pytest.mark.parametrize(
    ("out", "error", "message"),
    [
        ([[0.0] * 3] * 2, TypeError, "out must be an array, not list"),
        (
            np.empty((2, 3)),
            TypeError,
            "out has dtype float64, but the result has float32",
        ),
        (
            np.empty((3, 3), np.float32),
            ValueError,
            "out has shape 3x3, but the result has shape 2x3",
        ),
        (
            np.empty((3, 2), np.float32).T,
            ValueError,
            "out must be writable, contiguous and aligned",
        ),
        (
            np.broadcast_to(np.float32(0), (2, 3)),
            ValueError,
            "out must be writable, contiguous and aligned",
        ),
    ],
)
def test_out_that_does_not_fit(
    add: CompiledFunction, out: Any, error: type[Exception], message: str
):
    x = np.ones((2, 3), np.float32)
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        add(x, x, out=out)


def test_out_must_not_overlap_arguments(add: CompiledFunction):
    memory = np.zeros((3, 3), np.float32)
    other = np.zeros((2, 3), np.float32)
    with pytest.raises(
        ValueError, match=r"^out overlaps an argument or another output$"
    ):
        add(memory[:2], other, out=memory[1:])
    # A copy of what is not contiguous does not overlap.
    columns = np.zeros((2, 6), np.float32)
    out = columns.reshape(-1)[:6].reshape(2, 3)
    np.testing.assert_array_equal(add(columns[:, ::2], other, out=out), other)


# Installation


def test_without_mlir():
    code = """
import sys
sys.modules["mlir"] = None
import xdsl_quant.execution
try:
    xdsl_quant.execution.compile("func.func @f() { return }")
except ImportError as e:
    print(e)
"""
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert printed.stdout == (
        "compiled execution needs MLIR, which is not installed; run pip install "
        "'.[mlir]' in a checkout of xdsl-quant\n"
    )


def test_mlir_is_imported_when_it_is_needed():
    code = "import sys, xdsl_quant.execution; print('mlir' in sys.modules)"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert printed.stdout == "False\n"


@pytest.mark.parametrize(
    "shape",
    ["3037000500x3037000500", "?x3037000500x3037000500", "0x3037000500x3037000500"],
)
@pytest.mark.parametrize("element", ["i1", "f32"])
def test_tensors_with_too_many_elements(shape: str, element: str):
    type_ = f"tensor<{shape}x{element}>"
    for text in (
        signature(f"%x: {type_}"),
        f"""func.func @f(%x: {element}) {{
          %y = tensor.splat %x : tensor<3037000500x3037000500x{element}>
          return
        }}""",
    ):
        with pytest.raises(
            CompilationError,
            match=r"^module:\d+:\d+: error: '[a-z.]+' op has a tensor with too many",
        ):
            compile(text)


def test_damaged_resource():
    text = """
        func.func @f() -> tensor<1xf32> {
          %0 = arith.constant dense_resource<damaged> : tensor<1xf32>
          return %0 : tensor<1xf32>
        }
        {-# dialect_resources: { builtin: { damaged: "0x040000000000zz3f" } } #-}"""
    with pytest.raises(CompilationError, match=r"unreadable resource 'damaged.*'"):
        compile(text)
