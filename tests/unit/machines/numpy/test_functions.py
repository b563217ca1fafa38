"""Calls, branches and loops, and what an interpreter is told."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.interpreter import Interpreter, OpCounter
from xdsl.utils.exceptions import InterpretationError

from xdsl_quant.machines.numpy import register_implementations, run_function
from xdsl_quant.machines.numpy.host import HostFailure
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

from .running import parse, run, same_bits

TWO_FUNCTIONS = """
func.func @f(%x: f32) -> f32 {
  %y = func.call @main(%x) : (f32) -> f32
  %z = func.call @main(%y) : (f32) -> f32
  return %z : f32
}
func.func @main(%x: f32) -> f32 {
  %y = arith.addf %x, %x : f32
  return %y : f32
}
func.func private @elsewhere(f32) -> f32
"""


def test_calls():
    module = parse(TWO_FUNCTIONS)[1]
    assert same_bits(run_function(module, "f", 0.1)[0], np.float32(0.4))
    assert same_bits(run_function(module, None, 0.1)[0], np.float32(0.2))


def test_function_of_python_in_an_interpreter_of_ones_own():
    text = """
func.func private @see(tensor<2xf32>)
func.func @f(%x: tensor<2xf32>) {
  func.call @see(%x) : (tensor<2xf32>) -> ()
  return
}
"""
    error = ValueError("no")

    def see(values: object) -> None:
        raise error

    interpreter = Interpreter(parse(text)[1])
    register_implementations(interpreter, host_functions={"see": see})
    with pytest.raises(HostFailure) as info:
        interpreter.call_op("f", (np.zeros(2, np.float32),))
    assert info.value.cause is error


def test_number_of_arguments():
    module = parse(TWO_FUNCTIONS)[1]
    with pytest.raises(TypeError, match=r"^function 'f' takes 1 argument, but got 2$"):
        run_function(module, "f", 1.0, 2.0)


def test_loop_and_branches():
    text = """
func.func @f(%n: index, %x: tensor<?xi32>) -> (i32, i1) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %start = arith.constant 2147483647 : i32
  %sum = scf.for %i = %zero to %n step %one iter_args(%acc = %start) -> (i32) {
    %v = tensor.extract %x[%i] : tensor<?xi32>
    %k = arith.index_cast %i : index to i32
    %w = arith.addi %v, %k : i32
    %big = arith.constant 5 : i32
    %c = arith.cmpi sgt, %w, %big : i32
    %d = scf.if %c -> (i32) {
      scf.yield %big : i32
    } else {
      scf.yield %w : i32
    }
    %s = arith.addi %acc, %d : i32
    scf.yield %s : i32
  }
  %none = arith.constant 0 : i32
  %is_negative = arith.cmpi slt, %sum, %none : i32
  cf.cond_br %is_negative, ^yes(%sum : i32), ^no
^yes(%r: i32):
  %true = arith.constant true
  return %r, %true : i32, i1
^no:
  %false = arith.constant false
  return %sum, %false : i32, i1
}"""
    total, is_negative = run(text, 3, np.array([1, 9, 1], np.int32))
    # 1 + 5 + 3, from the largest number on
    assert same_bits(total, np.int32(-(2**31) + 8))
    assert same_bits(is_negative, np.True_)
    total, is_negative = run(text, 0, np.zeros(0, np.int32))
    assert same_bits(total, np.int32(2**31 - 1))
    assert same_bits(is_negative, np.False_)


def test_numbers_of_python_wrap_around():
    # An induction variable is an int, whatever its type.
    text = """
func.func @f(%n: i8) -> i8 {
  %zero = arith.constant 0 : i8
  %one = arith.constant 1 : i8
  %r = scf.for %i = %zero to %n step %one iter_args(%acc = %zero) -> (i8) : i8 {
    %square = arith.muli %i, %i : i8
    scf.yield %square : i8
  }
  return %r : i8
}"""
    assert same_bits(run(text, 13)[0], np.int8(144 - 256))


def test_assertion():
    text = """
func.func @f(%x: i1) {
  cf.assert %x, "x must hold"
  return
}"""
    assert run(text, True) == ()
    with pytest.raises(
        InterpretationError, match=r"^'cf.assert' op failed: x must hold$"
    ):
        run(text, False)


def test_error_has_no_module_in_it():
    # xDSL adds the whole module to an exception, for each region that it leaves.
    text = 'func.func @f(%x: i1) {\n  cf.assert %x, "no"\n  return\n}'
    with pytest.raises(InterpretationError) as caught:
        run(text, False)
    assert not getattr(caught.value, "__notes__", ())


def test_results_are_scalars_or_arrays():
    text = """
func.func @f(%x: f32, %t: tensor<f32>) -> (f32, tensor<f32>) {
  %y = arith.addf %x, %x : f32
  %u = arith.addf %t, %t : tensor<f32>
  return %y, %u : f32, tensor<f32>
}"""
    scalar, tensor = run(text, 1.0, np.float32(2))
    assert type(scalar) is np.float32
    assert type(tensor) is np.ndarray
    assert same_bits(tensor, np.array(4, np.float32))


def test_no_warnings_for_special_values():
    text = """
func.func @f(%x: f32, %n: i8) -> (f32, f32, i8) {
  %zero = arith.constant 0.0 : f32
  %d = arith.divf %x, %zero : f32
  %e = arith.subf %d, %d : f32
  %m = arith.muli %n, %n : i8
  return %d, %e, %m : f32, f32, i8
}"""
    results = run(text, 1.0, 100)
    assert same_bits(results[0], np.float32(np.inf))
    assert same_bits(results[1], np.float32(np.nan))
    assert same_bits(results[2], np.int8(16))


def test_registration():
    module = parse(TWO_FUNCTIONS)[1]
    counter = OpCounter()
    interpreter = Interpreter(module, listeners=(counter,))
    register_implementations(interpreter)
    register_implementations(interpreter)
    (result,) = interpreter.call_op("f", (np.float32(0.1),))
    assert same_bits(result, np.float32(0.4))
    assert counter.ops["arith.addf"] == 2


def test_registration_with_the_other_dialects():
    text = """
func.func @main() -> f32 {
  %x = arith.constant 16777216.0 : f32
  %one = arith.constant 1.0 : f32
  %y = arith.addf %x, %one : f32
  printf.print_format "{}", %y : f32
  return %y : f32
}"""
    module = parse(text)[1]
    interpreter = Interpreter(module)
    register_implementations(interpreter, Context())
    (result,) = interpreter.call_op("main")
    assert same_bits(result, np.float32(16777216.0))


def test_arguments_are_not_written_to():
    text = """
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %zero = arith.constant 0 : index
  %v = arith.constant 7.0 : f32
  %y = tensor.insert %v into %x[%zero] : tensor<2xf32>
  %z = linalg.fill ins(%v : f32) outs(%x : tensor<2xf32>) -> tensor<2xf32>
  %s = arith.addf %y, %z : tensor<2xf32>
  return %s : tensor<2xf32>
}"""
    x = np.array([1, 2], np.float32)
    x.setflags(write=False)
    assert run(text, x)[0].tolist() == [14, 9]
    assert x.tolist() == [1, 2]


def test_text():
    assert same_bits(run_function(TWO_FUNCTIONS, "f", 0.1)[0], np.float32(0.4))


def test_text_that_is_no_module():
    with pytest.raises(IRError, match=r"^module:1:3: error: Operation a is not reg"):
        run_function("a ()", None)


@pytest.mark.parametrize("value", [None, [], 3])
def test_what_is_no_module(value: object):
    with pytest.raises(TypeError) as raised:
        run_function(value, None)  # pyright: ignore[reportArgumentType] the mistake
    name = type(value).__name__
    assert str(raised.value) == (
        f"model must be a module, MLIR text, bytes or the path of a file, not {name}"
    )


def test_unknown_rounding_mode():
    with pytest.raises(ValueError, match=r"^unknown rounding mode 'up', available: "):
        run_function(TWO_FUNCTIONS, None, 1.0, rounding_mode="up")  # pyright: ignore[reportArgumentType] the mistake
    with pytest.raises(
        ValueError, match=r"^unknown zero point order 'up', available: "
    ):
        run_function(TWO_FUNCTIONS, None, 1.0, zero_point_order="up")  # pyright: ignore[reportArgumentType] the mistake


def test_recursion_without_an_end():
    text = """
func.func @f(%x: f32) -> f32 {
  %y = func.call @f(%x) : (f32) -> f32
  return %y : f32
}"""
    with pytest.raises(InterpretationError) as raised:
        run_function(text, None, 1.0)
    assert str(raised.value) == (
        "calls in function 'f' are nested too deeply; check for infinite recursion"
    )
    assert not getattr(raised.value, "__notes__", ())


@pytest.mark.parametrize("step", [0, -1])
def test_step_that_is_not_positive(step: int):
    text = """
func.func @f(%step: index) {
  %zero = arith.constant 0 : index
  scf.for %i = %zero to %zero step %step {
  }
  return
}"""
    with pytest.raises(InterpretationError) as raised:
        run_function(text, None, step)
    assert str(raised.value) == (
        f"module:4:3: error: 'scf.for' op has step {step}, expected a positive step"
    )


@pytest.mark.parametrize("name", [np.ones(2, np.float32), 3, b"f"])
def test_argument_in_place_of_the_name(name: object):
    with pytest.raises(TypeError) as raised:
        run_function(TWO_FUNCTIONS, name, 1.0)  # pyright: ignore[reportArgumentType] the mistake
    assert str(raised.value) == (
        f"entry must be a function name or None, not {type(name).__name__}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
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
    ],
)
def test_ops_that_are_lowered_first(text: str, message: str):
    with pytest.raises(InterpretationError) as raised:
        run_function(text, None, np.zeros(2, np.float32))
    assert str(raised.value) == message


NOT_BUFFERIZED = "use the module before it is bufferized"


@pytest.mark.parametrize(
    ("signature", "body", "message"),
    [
        (
            "@f(%x: tensor<2xi8>, %m: memref<*xi8>)",
            "return",
            "1:1: error: function 'f' cannot be called with arrays: argument 1 has type "
            f"'memref<*xi8>'; {NOT_BUFFERIZED} or vectorized, with tensors",
        ),
        (
            "@f(%v: vector<2xi8>)",
            "return",
            "1:1: error: function 'f' cannot be called with arrays: argument 0 has type "
            f"'vector<2xi8>'; {NOT_BUFFERIZED} or vectorized, with tensors",
        ),
        (
            "@f() -> (i8, memref<2xi8>)",
            '%m, %i = "test.op"() : () -> (memref<2xi8>, i8)\n  return %i, %m : i8, '
            "memref<2xi8>",
            "1:1: error: function 'f' cannot be called with arrays: result 1 has type "
            f"'memref<2xi8>'; {NOT_BUFFERIZED} or vectorized, with tensors",
        ),
        (
            "@f()",
            "func.call @g() : () -> ()\n  return",
            "7:3: error: 'memref.alloc' op cannot be interpreted: a value has type "
            f"'memref<2xi8>'; compile the function, or {NOT_BUFFERIZED}",
        ),
    ],
)
def test_functions_of_memrefs_and_vectors(signature: str, body: str, message: str):
    text = f"""func.func {signature} {{
  {body}
}}
func.func private @g() {{
  %0 = arith.constant 0 : i8
  %1 = memref.alloc() : memref<2xi8>
  return
}}"""
    with pytest.raises(InterpretationError) as raised:
        run_function(text, None)
    assert str(raised.value) == f"module:{message}"


def test_the_pass_that_is_named_for_stablehlo():
    text = """!q = !quant.uniform<i8:f32, 0.5>
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = stablehlo.constant() <{value = dense<1> : tensor<2xi8>}> : () -> tensor<2x!q>
  %q = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!q>
  %y = stablehlo.add %q, %c : tensor<2x!q>
  %z = stablehlo.uniform_dequantize %y : (tensor<2x!q>) -> tensor<2xf32>
  return %z : tensor<2xf32>
}"""
    module = parse_module(text)
    apply_passes(module, "convert-quantized-stablehlo-to-linalg")
    assert run_function(module, None, [1.0, 2.0])[0].tolist() == [1.5, 2.5]


def test_stablehlo_that_is_not_run():
    text = """
func.func @f() { return }
func.func private @g(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = stablehlo.add %x, %x : tensor<2xf32>
  return %y : tensor<2xf32>
}"""
    assert run_function(text, None) == ()
