"""Compiled models of TensorFlow Lite."""

from __future__ import annotations

import re
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pymicro_wakeword
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.targets.mlir import MLIRTarget
from xdsl.utils.exceptions import InterpretationError

from tests.unit.frontends.tflite.lowering.test_tfl_variables_to_arguments import (
    BODIES,
    SVDF,
    svdf_steps,
    text_of,
)
from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.model import Model, Operator, Subgraph, Tensor
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.machines.numpy import StatefulModel, run_function
from xdsl_quant.runtime.loading import (
    IRError,
    apply_passes,
    multiverse_context,
    parse_module,
)
from xdsl_quant.runtime.stateful_function import StatefulFunction

PATHS = sorted(Path(pymicro_wakeword.__file__).parent.rglob("*.tflite"))

FRAMES = np.random.default_rng(0).integers(-128, 128, (20, 1, 3, 40)).astype(np.int8)


def interpreter(module: ModuleOp, name: str) -> Any:
    return partial(run_function, module, name)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("path", PATHS, ids=[path.stem for path in PATHS])
def test_streaming_models(path: Path):
    expected = StatefulModel(path)
    interpreted = StatefulFunction(path, interpreter)
    model = StatefulFunction(path, compile)
    count = 0
    for frame in FRAMES:
        (result,) = model.step(frame)
        for other in (expected, interpreted):
            assert np.array_equal(result, other.step(frame)[0])
        # The results are almost always 0 for noise, but not so the states.
        for state, other in zip(model.state, interpreted.state, strict=True):
            assert np.array_equal(state, other)
            count += state.size
    assert count > 50_000


def test_ops_are_lowered():
    module = read_tflite("docs/examples/dense.tflite", static=True)
    values = np.random.default_rng(0).integers(-128, 128, (50, 1, 4)).astype(np.int8)
    compiled = compile(module)
    for array in values:
        (expected,) = run_function(module, None, array)
        assert np.array_equal(compiled(array), expected)


def test_state_is_no_argument():
    with pytest.raises(
        CompilationError,
        match=r"^'tfl.call_once' op has state; run 'tfl-variables-to-arguments' first$",
    ):
        compile(read_tflite(PATHS[0]))


def test_state_of_svdf():
    model, expected = StatefulFunction(SVDF, compile), StatefulModel(SVDF)
    for arguments in svdf_steps():
        results = model.step(*arguments)
        assert all(map(np.array_equal, results, expected.step(*arguments)))


@pytest.mark.sampled(0)
def test_large_states():
    """Their initial values are resources, which files and texts have, too."""
    size = 1 << 15
    text = Path("docs/examples/running_sum.mlir").read_text()
    text = text.replace("tensor<2x", f"tensor<{size}x")
    text = text.replace("[10, 20]", str([*range(size)]))
    module = read_tflite(write_tflite(parse_module(text)))
    model = StatefulFunction(module, compile)
    assert "dense_resource" in str(model.module)
    context = multiverse_context()
    context.load_registered_dialect("builtin")
    stream = StringIO()
    MLIRTarget().emit(context, model.module, stream)
    others = [StatefulFunction(stream.getvalue(), compile), StatefulModel(module)]
    x = np.random.default_rng(0).integers(-9, 9, (3, size), np.int32)
    for frame, expected in zip(x, np.arange(size) + x.cumsum(0), strict=True):
        for other in (model, *others):
            assert np.array_equal(other.step(frame)[0], expected)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_small_models(body: str):
    text = text_of(body)
    model, expected = StatefulFunction(text, compile), StatefulModel(text)
    random = np.random.default_rng(2)
    for _ in range(20):
        values = [random.integers(1, 9, (), np.int32), random.integers(0, 2) > 0]
        assert model.step(*values) == expected.step(*values)


def test_files(tmp_path: Path):
    """The function is that of the file as it is now."""
    path = tmp_path / "model of today.tflite"
    for operator, expected in (("RELU", [0, 2]), ("NEG", [1, -2])):
        tensors = [Tensor(name, "FLOAT32", [2]) for name in "xy"]
        graph = Subgraph("main", tensors, [0], [1], [Operator(operator, [0], [1])])
        path.write_bytes(write_model(Model([graph])))
        for source in (path, str(path)):
            assert compile(source)([-1, 2]).tolist() == expected
        assert compile(path) is compile(str(path))


def test_dynamic_files():
    """A batch of unknown size is that for which the file was written."""
    path = Path("docs/examples/dense.tflite")
    x = np.array([[3, 1, -8, 20]], np.int8)
    expected = run_function(read_tflite(path), "main", x)
    np.testing.assert_array_equal(compile(path)(x), expected[0])
    both = np.concatenate([x, -x])
    module = read_tflite(path, shapes={"x": [2, 4]})
    np.testing.assert_array_equal(
        compile(module)(both), run_function(read_tflite(path), "main", both)[0]
    )


def test_files_that_cannot_be_compiled(tmp_path: Path):
    path = tmp_path / "model.tflite"
    with pytest.raises(
        CompilationError, match=r"model\.tflite: error: no such file or directory$"
    ):
        compile(path)
    path.write_bytes(PATHS[0].read_bytes()[:300])
    with pytest.raises(
        CompilationError, match=r"model\.tflite: error: the file is damaged"
    ):
        compile(path)
    with pytest.raises(
        CompilationError, match=r"^f\.mlir: error: no such file or directory$"
    ):
        compile(Path("f.mlir"))


INT32 = 2
"""The number of the type in files."""


def sliced_file(path: Path, is_dynamic: bool) -> Path:
    """A model that takes the first 8 of 10 columns, whose number it computes."""

    def integers(name: str, *values: int) -> Tensor:
        return Tensor(name, "INT32", [2], data=np.array(values, "<i4").view(np.uint8))

    unknown = [-1, -1] if is_dynamic else None
    tensors = [
        Tensor("x", "FLOAT32", [1, 10], [-1, 10]),
        Tensor("shape", "INT32", [2]),
        integers("two", 0, 2),
        Tensor("end", "INT32", [2]),
        integers("begin", 0, 0),
        integers("strides", 1, 1),
        Tensor("y", "FLOAT32", [1, 1] if is_dynamic else [1, 8], unknown),
        Tensor("z", "FLOAT32", [1, 1] if is_dynamic else [1, 8], unknown),
    ]
    operators = [
        Operator("SHAPE", [0], [1], {"out_type": INT32}),
        Operator("SUB", [1, 2], [3]),
        Operator("STRIDED_SLICE", [0, 4, 3, 5], [6]),
        Operator("NEG", [6], [7]),
    ]
    graph = Subgraph("main", tensors, [0], [7], operators)
    path.write_bytes(write_model(Model([graph])))
    return path


@pytest.mark.parametrize("is_dynamic", [True, False])
def test_sizes_that_a_model_computes(is_dynamic: bool, tmp_path: Path):
    path = sliced_file(tmp_path / "model.tflite", is_dynamic)
    x = np.arange(10, dtype=np.float32)[None]
    function = compile(path)
    assert function(x).tolist() == (-x[:, :8]).tolist()
    assert run_function(path, None, x)[0].tolist() == (-x[:, :8]).tolist()
    assert [*map(str, function.result_types)] == ["tensor<1x8xf32>"]


def test_sizes_of_a_reshape_are_those_of_the_file(tmp_path: Path):
    tensors = [
        Tensor("x", "FLOAT32", [1, 2, 5], [-1, 2, 5]),
        Tensor("shape", "INT32", [2]),
        Tensor("y", "FLOAT32", [1, 10], [-1, 10]),
    ]
    graph = Subgraph("main", tensors, [0, 1], [2], [Operator("RESHAPE", [0, 1], [2])])
    data = write_model(Model([graph]))
    assert "-> tensor<1x10xf32>" in str(read_tflite(data, static=True))


# Indices


def gather_text(op: str, indices: str, result: str, attributes: str = "") -> str:
    values = "tensor<4x3xf32>"
    operands = [("%x", values), ("%i", indices)]
    if op == "embedding_lookup":
        operands.reverse()
    names, types = (", ".join(part) for part in zip(*operands, strict=True))
    return f"""
        func.func @f(%x: {values}, %i: {indices}) -> {result} {{
          %r = "tfl.{op}"({names}) {attributes} : ({types}) -> {result}
          return %r : {result}
        }}"""


GATHERS = {
    "rows": gather_text(
        "gather", "tensor<2xi32>", "tensor<2x3xf32>", "<{axis = 0 : i32}>"
    ),
    "columns": gather_text(
        "gather", "tensor<2xi64>", "tensor<4x2xf32>", "<{axis = -1 : i32}>"
    ),
    "short": gather_text(
        "gather", "tensor<2xi16>", "tensor<2x3xf32>", "<{axis = 0 : i32}>"
    ),
    "elements": gather_text("gather_nd", "tensor<1x2xi32>", "tensor<1xf32>"),
    "embeddings": gather_text("embedding_lookup", "tensor<2xi32>", "tensor<2x3xf32>"),
}


@pytest.mark.parametrize("kind", GATHERS)
def test_indices_in_range(kind: str):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    function = compile(GATHERS[kind])
    dtype = f"int{str(function.argument_types[1])[-3:-1]}"
    for indices in ([0, 2], [2, 0], [0, 0]):
        array = np.array(indices, dtype).reshape(1, 2)
        array = array if kind == "elements" else array[0]
        (expected,) = run_function(GATHERS[kind], "f", x, array)
        assert function(x, array).tolist() == expected.tolist()


@pytest.mark.parametrize("wrong", [-1, 4, 32767, -32768])
@pytest.mark.parametrize("kind", GATHERS)
def test_indices_out_of_range_are_refused(kind: str, wrong: int):
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    function = compile(GATHERS[kind])
    dtype = f"int{str(function.argument_types[1])[-3:-1]}"
    for indices in ([0, wrong], [wrong, 0]):
        array = np.array(indices, dtype).reshape(1, 2)
        array = array if kind == "elements" else array[0]
        with pytest.raises(
            ValueError, match=r"'tfl\.\w+' op has an index out of range"
        ):
            function(x, array)


CONSTANT_INDICES = {
    "rows": "0, {}",
    "columns": "0, {}",
    "short": "{}, 0",
    "elements": "[0, {}]",
    "embeddings": "1, {}",
}


@pytest.mark.parametrize("wrong", [-1, 3, 4])
@pytest.mark.parametrize("kind", GATHERS)
def test_constant_indices_out_of_range_are_refused(kind: str, wrong: int):
    """The interpreter, compilation and `convert-tfl-to-linalg` alone say the same."""
    (type_,) = re.findall(r"%i: (\S+)\)", GATHERS[kind])
    text = GATHERS[kind].replace(f", %i: {type_})", ")")
    elements = f"dense<[{CONSTANT_INDICES[kind].format(wrong)}]> : {type_}"
    constant = f'%i = "tfl.pseudo_const"() <{{value = {elements}}}> : () -> {type_}\n'
    text = text.replace("%r =", f"{constant} %r =")
    last = 2 if kind in ("columns", "elements") else 3
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    if 0 <= wrong <= last:
        (expected,) = run_function(text, "f", x)
        assert compile(text)(x).tolist() == expected.tolist()
        return
    message = rf"'tfl\.\w+' op has index {wrong}, expected 0 to {last}"
    with pytest.raises(InterpretationError, match=message):
        run_function(text, "f", x)
    with pytest.raises(CompilationError, match=rf"module:4:2: error: {message}"):
        compile(text)
    module = parse_module(text)
    with pytest.raises(IRError, match=rf"module:4:2: error: {message}"):
        apply_passes(module, "convert-tfl-to-linalg")
    assert module.is_structurally_equivalent(parse_module(text))


def test_a_gather_from_nothing_is_refused():
    text = GATHERS["rows"].replace("4x3", "0x3")
    with pytest.raises(
        ValueError, match="out of range of dimension 0, whose size is 0"
    ):
        compile(text)(np.zeros((0, 3), np.float32), np.zeros(2, np.int32))


def test_no_index_is_out_of_range():
    text = (
        GATHERS["rows"].replace("<2xi32>", "<0xi32>").replace("<2x3xf32>", "<0x3xf32>")
    )
    x = np.zeros((4, 3), np.float32)
    assert compile(text)(x, np.zeros(0, np.int32)).shape == (0, 3)
