"""Inferred shapes, compared with those that LiteRT computes when it allocates tensors."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, NameLoc

from tests.unit.frontends.tflite.files.test_reported_models import content
from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.dynamic_shapes import ops_with_dynamic_shapes
from xdsl_quant.frontends.tflite.files.model import Model, Operator, Subgraph, Tensor
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.arrays import shape_of
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

from .computed_shapes import STEPS, Graph, input_of, random_file

Shapes = Mapping[str, tuple[int, ...]]


def litert(file: bytes, x: NDArray[Any]) -> tuple[NDArray[Any], Shapes]:
    """The result for an input of any batch size, and the shapes of all tensors."""
    pytest.importorskip("ai_edge_litert", reason="pip install ai-edge-litert")
    library: Any = import_module("ai_edge_litert.interpreter")
    interpreter: Any = library.Interpreter(
        model_content=file,
        experimental_op_resolver_type=library.OpResolverType.BUILTIN_REF,
        experimental_preserve_all_tensors=True,
    )
    interpreter.resize_tensor_input(0, x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(0, x)
    interpreter.invoke()
    details = interpreter.get_tensor_details()
    shapes = {detail["name"]: tuple(map(int, detail["shape"])) for detail in details}
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), shapes


def inferred(module: ModuleOp) -> Shapes:
    return {
        op.location.desc.data: shape_of(op.results[0].type)
        for op in module.walk()
        if isinstance(op.location, NameLoc) and op.results
    }


def assert_agrees(file: bytes, batch: int) -> None:
    x = input_of(batch)
    expected, shapes = litert(file, x)
    module = read_tflite(file, shapes={"x": x.shape})
    for name, shape in inferred(module).items():
        assert shape == shapes[name], name
    (result,) = run_function(module, "main", x)
    np.testing.assert_array_equal(result, expected, strict=True)


@pytest.mark.sampled(40)
@pytest.mark.parametrize("seed", range(400))
def test_random_files(seed: int):
    file = random_file(seed)
    for batch in (1, 3):
        assert_agrees(file, batch)


def test_all_steps_compiled():
    """Files and modules of dynamic shape are compiled, and results have static types."""
    graph = Graph(0)
    value, sizes = 0, [1, 6, 4]
    for step in STEPS:
        value, sizes = step(graph, value, sizes)
    file = graph.file(value)
    x = input_of(1)
    expected, _ = litert(file, x)
    for model in (file, read_tflite(file)):
        function = compile(model)
        np.testing.assert_array_equal(np.asarray(function(x)), expected, strict=True)
        assert [*map(shape_of, function.result_types)] == [expected.shape]


@pytest.mark.parametrize("target", ["tosa", "stablehlo"])
@pytest.mark.parametrize("step", [STEPS[0], STEPS[1], STEPS[3]])
def test_each_step_in_other_dialects(step: Any, target: str):
    graph = Graph(1)
    file = graph.file(step(graph, 0, [1, 6, 4])[0])
    module = read_tflite(file, static=True)
    apply_passes(module, f"convert-tfl-to-{target}")
    assert "tfl." not in "".join(op.name for op in module.walk())


def test_a_slice_to_a_computed_end():
    file = content("dyn_slice")
    x = np.arange(10, dtype=np.float32)[None]
    expected, _ = litert(file, x)
    assert expected.shape == (1, 8)
    module = read_tflite(file)
    assert "-> tensor<?x?xf32>" in str(module)
    for model in (file, module, str(module), read_tflite(file, static=True)):
        np.testing.assert_array_equal(np.asarray(compile(model)(x)), expected)
    assert "-> tensor<5x8xf32>" in str(read_tflite(file, shapes={"x": [5, 10]}))


@pytest.mark.parametrize("batch", [1, 3])
def test_calibration_compiles_for_the_batch(
    batch: int, recwarn: pytest.WarningsRecorder
):
    rows = np.linspace(0, 1, 10 * batch, dtype=np.float32).reshape(batch, 10)
    module = read_tflite(content("dyn_slice"))
    model = quantize(module, [rows, rows * 2])
    assert not recwarn.list
    assert "quant.uniform" in str(model.module)


# Text


RELU = """func.func @main(%x: tensor<?x4xf32>, %n: tensor<1xi32>) -> tensor<?x?xf32> {
  %0 = "tfl.relu"(%x) : (tensor<?x4xf32>) -> tensor<?x?xf32>
  func.return %0 : tensor<?x?xf32>
}"""


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ("static=true", "1x4"),
        ('shapes="x=3x4"', "3x4"),
        ('static=true shapes="x=2x4"', "2x4"),
    ],
)
def test_pass_options(options: str, shape: str):
    module = parse_module(RELU)
    apply_passes(module, f"tfl-infer-shapes{{{options}}}")
    assert f"(tensor<{shape}xf32>) -> tensor<{shape}xf32>" in str(module)
    assert f"-> tensor<{shape}xf32> {{" in str(module)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("y=1x4", "unknown input 'y'; available: 'x', 'n'"),
        (
            "x=1x5",
            "argument 0 has shape 1x5, but its type is 'tensor<?x4xf32>'; expected "
            "the static sizes of the type",
        ),
        ("x", "invalid shape: 'x'; expected NAME=SIZES, e.g. x=1x16x16x3"),
    ],
)
def test_wrong_shapes(shape: str, message: str):
    module = parse_module(RELU)
    before = str(module)
    with pytest.raises(IRError) as caught:
        apply_passes(module, f'tfl-infer-shapes{{shapes="{shape}"}}')
    assert message in str(caught.value)
    assert str(module) == before


def test_nothing_to_infer(capsys: pytest.CaptureFixture[str]):
    apply_passes(parse_module(RELU.replace("?x?", "?x4")), "tfl-infer-shapes")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("; set the shapes of arguments with 'shapes' or 'static'")


def test_sizes_that_depend_on_data():
    """The message does not advise what does not help."""
    module = parse_module(
        """func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<?xf32> {
          %c = "tfl.pseudo_const"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
          %d = "tfl.pseudo_const"() {value = dense<1> : tensor<i32>} : () -> tensor<i32>
          %r = "tfl.range"(%c, %n, %d)
            : (tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<?xi32>
          %0 = "tfl.gather"(%x, %r) <{axis = 0 : i32}>
            : (tensor<4xf32>, tensor<?xi32>) -> tensor<?xf32>
          func.return %0 : tensor<?xf32>
        }"""
    )
    with pytest.raises(CompilationError) as caught:
        compile(module)
    assert "static" not in str(caught.value)


# Functions and regions


def test_variable():
    """A variable has the shape of its initial value."""
    handle = """%h = "tfl.var_handle"() <{container = "", shared_name = "h"}>
      : () -> tensor<*x!tf_type.resource>"""
    module = parse_module(
        f"""func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {{
          "tfl.call_once"() <{{session_init_function = "init"}}> : () -> ()
          {handle}
          %0 = "tfl.read_variable"(%h) : (tensor<*x!tf_type.resource>) -> tensor<?x4xf32>
          %1 = tfl.add(%0, %x) <{{fused_activation_function = "NONE"}}>
            : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
          "tfl.assign_variable"(%h, %1)
            : (tensor<*x!tf_type.resource>, tensor<?x4xf32>) -> ()
          func.return %1 : tensor<?x4xf32>
        }}
        func.func private @init() {{
          {handle}
          %0 = "tfl.pseudo_const"() <{{value = dense<0.0> : tensor<1x4xf32>}}>
            : () -> tensor<1x4xf32>
          "tfl.assign_variable"(%h, %0)
            : (tensor<*x!tf_type.resource>, tensor<1x4xf32>) -> ()
          func.return
        }}"""
    )
    apply_passes(module, "tfl-infer-shapes{static=true}")
    assert not ops_with_dynamic_shapes(module)


CALLS = """
func.func @main(%x: tensor<?x4xf32>, %y: tensor<?x4xf32>)
    -> (tensor<?x4xf32>, tensor<?x4xf32>) {
  %0 = func.call @f(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %1 = func.call @f(%y) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %0, %1 : tensor<?x4xf32>, tensor<?x4xf32>
}
func.func private @f(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = "tfl.relu"(%x) : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %0 : tensor<?x4xf32>
}
"""


def test_calls_of_one_shape():
    module = parse_module(CALLS)
    apply_passes(module, "tfl-infer-shapes{static=true}")
    assert not ops_with_dynamic_shapes(module)
    assert str(module).count("func.func") == 2


def test_calls_of_two_shapes():
    """Calls with other shapes call a copy."""
    module = parse_module(CALLS)
    apply_passes(module, 'tfl-infer-shapes{shapes="x=2x4","y=3x4"}')
    assert not ops_with_dynamic_shapes(module)
    assert "-> (tensor<2x4xf32>, tensor<3x4xf32>)" in str(module)
    x, y = np.full((2, 4), -1, np.float32), np.ones((3, 4), np.float32)
    results = run_function(module, "main", x, y)
    assert [r.tolist() for r in results] == [(x * 0).tolist(), y.tolist()]


LOOP = """
func.func @main(%i: tensor<i32>, %x: tensor<?x4xf32>) -> tensor<?x4xf32> {{
  %n = "tfl.pseudo_const"() {{value = dense<3> : tensor<i32>}} : () -> tensor<i32>
  %one = "tfl.pseudo_const"() {{value = dense<1> : tensor<i32>}} : () -> tensor<i32>
  %0:2 = "tfl.while"(%i, %x) ({{
  ^bb0(%a: tensor<i32>, %b: tensor<?x4xf32>):
    %1 = tfl.less(%a, %n) : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "tfl.yield"(%1) : (tensor<i1>) -> ()
  }}, {{
  ^bb0(%a: tensor<i32>, %b: tensor<?x4xf32>):
    %1 = tfl.add %a, %one {{fused_activation_function = "NONE"}} : tensor<i32>
    %2 = {step} -> tensor<?x4xf32>
    "tfl.yield"(%1, %2) : (tensor<i32>, tensor<?x4xf32>) -> ()
  }}) : (tensor<i32>, tensor<?x4xf32>) -> (tensor<i32>, tensor<?x4xf32>)
  func.return %0#1 : tensor<?x4xf32>
}}
"""


def test_loop():
    step = '"tfl.relu"(%b) : (tensor<?x4xf32>)'
    module = parse_module(LOOP.format(step=step))
    apply_passes(module, "tfl-infer-shapes{static=true}")
    assert not ops_with_dynamic_shapes(module)


def test_loop_that_grows():
    """The result has another shape in each step: only the operand becomes static."""
    step = (
        '"tfl.concatenation"(%b, %b) '
        '<{axis = 0 : i32, fused_activation_function = "NONE"}> '
        ": (tensor<?x4xf32>, tensor<?x4xf32>)"
    )
    module = parse_module(LOOP.format(step=step))
    before = str(module).count("?x4")
    apply_passes(module, "tfl-infer-shapes{static=true}")
    assert str(module).count("?x4") == before - 2
    module.verify()
    (result,) = run_function(module, "main", np.int32(0), np.ones((1, 4), np.float32))
    assert result.shape == (8, 4)


def test_conditional():
    tensors = [
        Tensor("c", "BOOL"),
        Tensor("x", "FLOAT32", [1, 2], [-1, 2]),
        Tensor("y", "FLOAT32", [1, 2], [-1, 2]),
    ]
    main = Subgraph(
        "main",
        tensors,
        [0, 1],
        [2],
        [
            Operator(
                "IF", [0, 1], [2], {"then_subgraph_index": 1, "else_subgraph_index": 2}
            )
        ],
    )
    branches = [
        Subgraph(
            code,
            [
                Tensor("x", "FLOAT32", [1, 2], [-1, 2]),
                Tensor("y", "FLOAT32", [1, 2], [-1, 2]),
            ],
            [0],
            [1],
            [Operator(code, [0], [1])],
        )
        for code in ("RELU", "TANH")
    ]
    file = write_model(Model([main, *branches]))
    assert not ops_with_dynamic_shapes(read_tflite(file, static=True))
    assert ops_with_dynamic_shapes(read_tflite(file))
    module = read_tflite(file, shapes={"x": [7, 2]})
    assert not ops_with_dynamic_shapes(module)
    assert str(module).count("tensor<7x2xf32>") > 8
