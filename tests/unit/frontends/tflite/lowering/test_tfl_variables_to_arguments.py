"""State as arguments and results: the same numbers as with variables."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pymicro_wakeword
import pytest
from xdsl.dialects.builtin import ModuleOp, NameLoc
from xdsl.dialects.func import FuncOp
from xdsl.interpreter import Interpreter
from xdsl.ir import Operation

from tests.unit.frontends.tflite.files.litert import LiteRT
from tests.unit.frontends.tflite.test_interpreter import Recorder
from xdsl_quant.frontends.tflite import TFLiteFileError, read_tflite, write_tflite
from xdsl_quant.machines.numpy import (
    StatefulModel,
    register_implementations,
    run_function,
)
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module
from xdsl_quant.runtime.state_arguments import state_arguments
from xdsl_quant.runtime.stateful_function import StatefulFunction

from .random_programs import random_program

PATHS = sorted(Path(pymicro_wakeword.__file__).parent.rglob("*.tflite"))

PASS = "tfl-variables-to-arguments"

FRAMES = np.random.default_rng(0).integers(-128, 128, (20, 1, 3, 40)).astype(np.int8)


def interpreted(module: ModuleOp, name: str) -> Any:
    """Only what is an argument can be state from one call to the next."""
    return partial(run_function, module, name)


def names_of(function: FuncOp) -> list[str]:
    """The names of the results, as a file has them."""
    end = function.get_return_op()
    assert end is not None
    locations = [cast(Operation, value.owner).location for value in end.operands]
    return [cast(NameLoc, location).desc.data for location in locations]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_streaming_models(path: Path):
    module = read_tflite(path)
    text = str(module)
    expected = StatefulModel(module)
    model = StatefulFunction(module, interpreted)
    assert str(module) == text
    assert [*model.module.ops] == [model.function]
    assert not any(op.name.endswith(("_handle", "_once")) for op in model.module.walk())
    arguments = [*state_arguments(model.function)]
    assert [(a.argument, a.result) for a in arguments] == [(i, i) for i in range(1, 7)]
    recorder = Recorder()
    interpreter = Interpreter(module, listeners=(recorder,))
    register_implementations(interpreter)
    names = names_of(model.function)[1:]
    for frame in FRAMES:
        (result,) = model.step(frame)
        assert np.array_equal(result, expected.step(frame)[0])
        # The results are almost always 0 for noise, but not so what is assigned.
        interpreter.call_op("main", (frame,))
        for name, state in zip(names, model.state, strict=True):
            assert np.array_equal(recorder.results[name][-1], state)
            assert len(np.unique(state)) > 5
    states = model.state
    model.reset()
    # Each state has changed.
    assert not any(map(np.array_equal, model.state, states))


def test_files_without_state():
    """LiteRT runs what is written after the pass, and the caller carries the state."""
    module = read_tflite(PATHS[0])
    model = StatefulFunction(module, interpreted)
    runtime = LiteRT(write_tflite(model.module))
    states = model.state
    for frame in FRAMES:
        (expected,) = model.step(frame)
        result, *states = runtime.run(frame, *states)
        assert np.array_equal(result, expected)
        assert all(map(np.array_equal, states, model.state))
    module = read_tflite(write_tflite(model.module))
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    assert function.arg_attrs is not None
    assert "stream_6/states" in str(function.arg_attrs)


def test_locations():
    model = StatefulFunction(read_tflite(PATHS[0]), interpreted)
    location = model.function.args[1].location
    assert isinstance(location, NameLoc)
    assert location.desc.data == "stream_10/states"
    results = [op for op in model.module.walk() if op.results]
    assert all(
        isinstance(op.location, NameLoc) for op in results if "const" not in op.name
    )


HANDLE = """%h = "tfl.var_handle"() <{container = "", shared_name = "h"}>
      : () -> tensor<*x!tf_type.resource>"""
READ = '"tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<i32>'
ASSIGN = (
    '"tfl.assign_variable"(%h, {}) : (tensor<*x!tf_type.resource>, tensor<i32>) -> ()'
)
INIT = f"""
func.func private @init() {{
  {HANDLE}
  %0 = "tfl.pseudo_const"() <{{value = dense<5> : tensor<i32>}}> : () -> tensor<i32>
  {ASSIGN.format("%0")}
  return
}}"""


def text_of(body: str) -> str:
    return f"""
func.func @main(%x: tensor<i32>, %c: tensor<i1>) -> tensor<i32> {{
  "tfl.call_once"() <{{session_init_function = "init"}}> : () -> ()
  {HANDLE}
  {body}
}}
func.func private @next(%x: tensor<i32>) -> tensor<i32> {{
  {HANDLE}
  %0 = {READ}
  %1 = tfl.add %0, %x {{fused_activation_function = "NONE"}} : tensor<i32>
  {ASSIGN.format("%1")}
  return %0 : tensor<i32>
}}
{INIT}"""


BODIES = {
    "calls": """
  %0 = call @next(%x) : (tensor<i32>) -> tensor<i32>
  %1 = call @next(%0) : (tensor<i32>) -> tensor<i32>
  return %1 : tensor<i32>""",
    "only read": f"%0 = {READ}\n  return %0 : tensor<i32>",
    "only assigned": f"{ASSIGN.format('%x')}\n  return %x : tensor<i32>",
    "assigned twice": f"""%0 = {READ}
  {ASSIGN.format("%x")}
  %1 = {READ}
  %2 = tfl.sub %0, %1 {{fused_activation_function = "NONE"}} : tensor<i32>
  {ASSIGN.format("%2")}
  return %1 : tensor<i32>""",
    "if": f"""
  %0 = "tfl.if"(%c) ({{
    %1 = func.call @next(%x) : (tensor<i32>) -> tensor<i32>
    "tfl.yield"(%1) : (tensor<i32>) -> ()
  }}, {{
    {ASSIGN.format("%x")}
    "tfl.if"(%c) ({{
      "tfl.yield"() : () -> ()
    }}, {{
      %1 = func.call @next(%x) : (tensor<i32>) -> tensor<i32>
      "tfl.yield"() : () -> ()
    }}) : (tensor<i1>) -> ()
    "tfl.yield"(%x) : (tensor<i32>) -> ()
  }}) : (tensor<i1>) -> tensor<i32>
  return %0 : tensor<i32>""",
    "while": f"""
  %0 = "tfl.while"(%x) ({{
  ^bb0(%a: tensor<i32>):
    %1 = {READ}
    %2 = tfl.less(%1, %x) : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "tfl.yield"(%2) : (tensor<i1>) -> ()
  }}, {{
  ^bb0(%a: tensor<i32>):
    %1 = func.call @next(%a) : (tensor<i32>) -> tensor<i32>
    "tfl.yield"(%1) : (tensor<i32>) -> ()
  }}) : (tensor<i32>) -> tensor<i32>
  return %0 : tensor<i32>""",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_small_models(body: str):
    module = parse_module(text_of(body))
    expected = StatefulModel(module)
    model = StatefulFunction(module, interpreted)
    assert [*model.module.ops] == [model.function]
    random = np.random.default_rng(2)
    for _ in range(20):
        values = [random.integers(1, 9, (), np.int32), random.integers(0, 2) > 0]
        assert model.step(*values) == expected.step(*values)
        if body != BODIES["only read"]:
            assert len(model.state) == 1


@pytest.mark.sampled(0)
def test_random_models():
    """What is refused is what may read a variable that has no value."""
    refusals: list[str] = []
    with_state = 0
    for seed in range(30):
        module = parse_module(random_program(seed))
        expected = StatefulModel(module)
        try:
            model = StatefulFunction(module, interpreted)
        except IRError as error:
            refusals.append(str(error))
            continue
        with_state += bool(model.state)
        for x in (3, -1, 0, 5):
            assert model.step(np.int32(x)) == expected.step(np.int32(x)), seed
    assert 1 < len(refusals) < 13
    assert all("before it is assigned" in message for message in refusals)
    assert with_state > 15


def test_functions_of_signatures():
    """A private function has arguments, too, if callers know it by a name."""
    name = 'attributes {tf_saved_model.exported_names = ["next"]} {'
    text = text_of("return %x : tensor<i32>")
    text = text.replace(
        "-> tensor<i32> {\n  %h",
        f"-> tensor<i32> {name}\n"
        '  "tfl.call_once"() <{session_init_function = "init"}> : () -> ()\n  %h',
    )
    model = StatefulFunction(text, interpreted, "next")
    steps = [model.step(np.int32(x))[0] for x in (1, 2, 3)]
    assert steps == [5, 6, 8]
    assert len(list(model.module.ops)) == 2


def test_a_module_that_fails_stays_as_it_is():
    text = text_of(BODIES["if"])
    text += f"""
func.func @unset() -> tensor<i32> {{
  {HANDLE}
  %0 = {READ}
  return %0 : tensor<i32>
}}"""
    module = parse_module(text, "model.mlir")
    before = str(module)
    with pytest.raises(
        IRError,
        match=r"^model\.mlir:\d+:\d: error: 'tfl.read_variable' op reads variable 'h' ",
    ):
        apply_passes(module, PASS)
    assert str(module) == before


def test_a_module_without_state_stays_as_it_is():
    text = (
        "func.func @f(%x: tensor<i32>) -> tensor<i32> {\n  return %x : tensor<i32>\n}"
    )
    module = parse_module(text)
    function = module.body.block.first_op
    apply_passes(module, PASS)
    assert module.body.block.first_op is function
    model = StatefulFunction(module, interpreted)
    apply_passes(model.module, PASS)
    assert model.step(np.int32(3)) == (3,)
    assert not model.state


SVDF = """
!x = tensor<1x2x!quant.uniform<i8:f32, 0.5>>
!w = tensor<2x2x!quant.uniform<i8:f32, 0.25>>
!t = tensor<2x3x!quant.uniform<i16:f32, 0.5>>
!s = tensor<1x6x!quant.uniform<i16:f32, 0.125>>
func.func @main(%x: !x, %w: !w, %t: !t) -> (!x, !x) {
  %b = "tfl.no_value"() <{value}> : () -> none
  %s = "tfl.pseudo_qconst"() <{qtype = !s, value = dense<[[1, 2, 3, 4, 5, 6]]>
      : tensor<1x6xi16>}> : () -> !s
  %y = "tfl.svdf"(%x, %w, %t, %b, %s) <{rank = 1 : i32,
      fused_activation_function = "RELU"}> : (!x, !w, !t, none, !s) -> !x
  %z = "tfl.svdf"(%y, %w, %t, %b, %s) <{rank = 1 : i32,
      fused_activation_function = "RELU"}> : (!x, !w, !t, none, !s) -> !x
  func.return %y, %z : !x, !x
}"""


def svdf_steps():
    random = np.random.default_rng(3)
    for _ in range(10):
        x, w = (random.integers(-128, 128, (size, 2)).astype("b") for size in (1, 2))
        yield x, w, random.integers(-900, 900, (2, 3)).astype(np.int16)


def test_state_of_svdf():
    """Each op has its own, whose initial values may be one constant."""
    expected = StatefulModel(SVDF)
    model = StatefulFunction(SVDF, interpreted)
    assert [s.tolist() for s in model.state] == [[[1, 2, 3, 4, 5, 6]]] * 2
    assert not any("const" in op.name for op in model.module.walk())
    for arguments in svdf_steps():
        results = model.step(*arguments)
        assert all(map(np.array_equal, results, expected.step(*arguments)))
        assert [r.dtype for r in results] == [np.int8] * 2
        assert [s.dtype for s in model.state] == [np.int16] * 2
    assert not np.array_equal(model.state[0], model.state[1])


def test_no_file_has_the_next_state_of_svdf():
    module = StatefulFunction(SVDF, interpreted).module
    with pytest.raises(
        TFLiteFileError,
        match=r"'tfl.svdf' op has its next state as a result, which is unsupported in "
        r"'.tflite' files$",
    ):
        write_tflite(module)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            "tfl.next_state = 0 : i32",
            "argument 0 of function 'f': expected a constant 'tfl.initial_value' and an "
            "integer 'tfl.next_state', one is missing or invalid",
        ),
        (
            "tfl.initial_value = dense<1> : tensor<i32>, tfl.next_state = 1 : i32",
            "argument 0 of function 'f' has 'tfl.next_state' 1, expected the index of a "
            "result of type 'tensor<i32>'",
        ),
        (
            "tfl.initial_value = dense_resource<no_state> : tensor<i32>, "
            "tfl.next_state = 0 : i32",
            "missing data of resource 'no_state'",
        ),
        (
            "tfl.initial_value = dense<1> : tensor<2xi32>, tfl.next_state = 0 : i32",
            "the initial value of argument 0 has rank 1, but 'tensor<i32>' has rank 0",
        ),
    ],
)
def test_wrong_attributes(attributes: str, message: str):
    text = f"""
func.func @f(%x: tensor<i32> {{{attributes}}}) -> (tensor<i32>, tensor<f32>) {{
  %0 = arith.constant dense<0.0> : tensor<f32>
  return %x, %0 : tensor<i32>, tensor<f32>
}}"""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        StatefulFunction(text, interpreted)
