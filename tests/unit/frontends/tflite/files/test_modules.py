"""Modules of files, and files of modules."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, DenseResourceAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.printer import Printer
from xdsl.utils.exceptions import InterpretationError

from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import TFLiteFileError, read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.model import (
    Model,
    ModelSignature,
    Operator,
    Subgraph,
    Tensor,
    TensorQuantization,
)
from xdsl_quant.frontends.tflite.files.reader import default_options, read_tflite_model
from xdsl_quant.frontends.tflite.files.schema import options_name
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.arrays import shortened
from xdsl_quant.runtime.loading import (
    IRError,
    apply_passes,
    multiverse_context,
    parse_module,
)

from .litert import LiteRT


def tensor(name: str, type: str = "FLOAT32", *shape: int, **fields: Any) -> Tensor:
    return Tensor(name, type, shape, **fields)


def constant(name: str, type: str, array: Any) -> Tensor:
    array = np.asarray(array)
    data = np.frombuffer(array.tobytes(), np.uint8)
    return Tensor(name, type, array.shape, data=data)


def scales(*values: float, zero_point: int = 0) -> TensorQuantization:
    zero_points = np.full(len(values), zero_point, np.int64)
    return TensorQuantization(np.array(values, np.float32), zero_points)


def op(code: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any):
    table = options_name(code)
    if table:
        options = {**default_options(table), **options}
    return Operator(code, inputs, outputs, options)


def graph(
    tensors: Sequence[Tensor],
    inputs: Sequence[int],
    outputs: Sequence[int],
    *operators: Operator,
    name: str = "main",
) -> Subgraph:
    return Subgraph(name, tensors, inputs, outputs, operators)


def module_of(*subgraphs: Subgraph, verified: bool = True, **options: Any) -> ModuleOp:
    module = read_tflite(write_model(Model(subgraphs)), **options)
    if verified:
        module.verify()
    return module


def body(module: ModuleOp) -> list[str]:
    """The lines of the functions."""
    return [line.strip() for line in str(module).splitlines()[1:-1]]


def again(module: ModuleOp) -> Model:
    """The model of a file that is written, after its text is parsed."""
    ctx = multiverse_context()
    ctx.allow_unregistered = True
    parsed = parse_module(str(module), "m.mlir", ctx)
    written = write_tflite(parsed)
    assert str(read_tflite(written)) == str(module)
    return read_tflite_model(written, "m.tflite")


def error_of(*subgraphs: Subgraph, **options: Any) -> str:
    with pytest.raises(TFLiteFileError) as e:
        module_of(*subgraphs, **options)
    return str(e.value).removeprefix("<bytes>: error: ")


RELU = graph(
    [tensor("x", "FLOAT32", 2), tensor("y", "FLOAT32", 2)],
    [0],
    [1],
    op("RELU", [0], [1]),
)


# Functions


def test_names_of_functions():
    subgraphs = [RELU, *(replace(RELU, name=name) for name in ("f", "f", "main", ""))]
    module = module_of(*subgraphs)
    names = [line.split("(")[0] for line in body(module) if "func.func" in line]
    assert names == [
        "func.func @main",
        "func.func private @f",
        "func.func private @f_2",
        "func.func private @main_3",
        "func.func private @subgraph_4",
    ]
    written = again(module)
    assert [g.name for g in written.subgraphs] == [
        "main",
        "f",
        "f_2",
        "main_3",
        "subgraph_4",
    ]


def test_signatures():
    model = Model([RELU], [ModelSignature("serve", 0, {"in": 0}, {"out": 1})], "words")
    module = read_tflite(write_model(model))
    text = str(module)
    assert 'tf_saved_model.index_path = ["in"]' in text
    assert 'tf_saved_model.exported_names = ["serve"]' in text
    assert 'tf.entry_function = {inputs = "x", outputs = "y"}' in text
    written = again(module)
    assert written.signatures == model.signatures
    assert written.description == "words"


def test_several_signatures_of_one_subgraph():
    """One with other names, one with the same names, and one with two names of a result."""
    signatures = [
        ModelSignature("serve", 0, {"in": 0}, {"out": 1}),
        ModelSignature("predict", 0, {"x": 0}, {"y": 1}),
        ModelSignature("again", 0, {"in": 0}, {"out": 1}),
        ModelSignature("both", 0, {"in": 0}, {"a": 1, "b": 1}),
    ]
    for order in (signatures, signatures[::-1]):
        module = read_tflite(write_model(Model([RELU], order)))
        assert again(module).signatures == order
        assert again(module.clone()).signatures == order


def test_signatures_without_names_of_their_own():
    module = read_tflite(
        write_model(Model([RELU], [ModelSignature("a", 0, {"x": 0}, {})]))
    )
    (function,) = module.ops
    function.attributes["tf_saved_model.exported_names"] = ArrayAttr(
        [StringAttr("a"), StringAttr("b")]
    )
    written = read_tflite_model(write_tflite(module), "m.tflite")
    assert written.signatures == [ModelSignature(key, 0, {"x": 0}, {}) for key in "ab"]


def test_an_input_that_is_an_output():
    module = module_of(graph([tensor("x", "FLOAT32", 2)], [0], [0, 0]))
    assert body(module)[1] == "func.return %x, %x : tensor<2xf32>, tensor<2xf32>"
    written = again(module).subgraphs[0]
    assert (len(written.tensors), written.inputs, written.outputs) == (1, [0], [0, 0])


def test_unused_constants_vanish():
    tensors = [*RELU.tensors, constant("unused", "INT32", np.zeros(1, np.int32))]
    assert "unused" not in str(module_of(replace(RELU, tensors=tensors)))


def test_names_of_tensors():
    # Names need not be different, nor names of values.
    tensors = [tensor("a b", "FLOAT32", 2), *(tensor("a b", "FLOAT32", 2),) * 2]
    operators = [op("RELU", [0], [1]), op("RELU", [1], [2])]
    module = module_of(graph(tensors, [0], [2], *operators))
    assert body(module)[1:3] == [
        '%a_b_1 = "tfl.relu"(%a_b) : (tensor<2xf32>) -> tensor<2xf32>',
        '%a_b_2 = "tfl.relu"(%a_b_1) : (tensor<2xf32>) -> tensor<2xf32>',
    ]
    written = read_tflite_model(write_tflite(module), "")
    assert [t.name for t in written.subgraphs[0].tensors] == ["a b"] * 3


# Types and constants


def test_dynamic_sizes():
    dynamic = tensor("x", "FLOAT32", 1, 2, signature=[-1, 2])
    result = tensor("y", "FLOAT32", 1, 2, signature=[-1, 2])
    subgraph = graph([dynamic, result], [0], [1], op("RELU", [0], [1]))
    module = module_of(subgraph)
    assert "(%x: tensor<?x2xf32>) -> tensor<?x2xf32>" in str(module)
    written = again(module).subgraphs[0].tensors[0]
    assert (written.shape, written.signature) == ([1, 2], [-1, 2])
    for static in (
        module_of(subgraph, static=True),
        module_of(subgraph, shapes={"x": [1, 2]}),
    ):
        assert "(%x: tensor<1x2xf32>) -> tensor<1x2xf32>" in str(static)
    text = str(module_of(subgraph, shapes={"x": [3, 2]}))
    assert "(%x: tensor<3x2xf32>) -> tensor<3x2xf32>" in text


def test_sizes_of_an_input_that_is_a_result():
    dynamic = tensor("x", "FLOAT32", 1, 2, signature=[-1, 2])
    text = str(module_of(graph([dynamic], [0], [0]), static=True))
    assert "(%x: tensor<1x2xf32>) -> tensor<1x2xf32>" in text


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": [1]}, "unknown input 'z'; available: 'x'"),
        ({"x": [1]}, "input 'x' cannot have shape 1; expected ?x2"),
        ({"x": [1, 3]}, "input 'x' cannot have shape 1x3; expected ?x2"),
        ({"x": [-1, 2]}, "input 'x' cannot have shape -1x2; expected ?x2"),
    ],
)
def test_wrong_shapes(shapes: dict[str, list[int]], message: str):
    dynamic = tensor("x", "FLOAT32", 1, 2, signature=[-1, 2])
    assert error_of(graph([dynamic], [0], [0]), shapes=shapes) == message


def test_sizes_that_depend_on_data():
    tensors = [
        tensor("x", "BOOL", 3),
        tensor("y", "INT64", 1, 1, signature=[-1, 1]),
    ]
    subgraph = graph(tensors, [0], [1], op("WHERE", [0], [1]))
    for is_static in (False, True):
        assert "-> tensor<?x1xi64>" in str(module_of(subgraph, static=is_static))


def test_tensors_without_sizes_are_scalars():
    """Files from before 2022 do not say so."""
    tensors = [tensor(name, has_rank=False) for name in "xy"]
    module = module_of(graph(tensors, [0], [1], op("RELU", [0], [1])))
    assert '"tfl.relu"(%x) : (tensor<f32>) -> tensor<f32>' in body(module)[1]
    assert again(module).subgraphs[0].tensors[0].has_rank


def test_results_without_rank_that_are_no_scalars():
    custom = Operator("CUSTOM", [0], [1], {}, "Mine")
    for operator, size in ((custom, 2), (custom, 1)):
        tensors = [tensor("x", "FLOAT32", size), tensor("y", has_rank=False)]
        module = module_of(graph(tensors, [0], [1], operator))
        assert f"(tensor<{size}xf32>) -> tensor<*xf32>" in body(module)[1]
        assert not again(module).subgraphs[0].tensors[1].has_rank


@pytest.mark.parametrize(
    ("new_shape", "sizes", "expected"),
    [
        ([2, 1], None, "dense<[2, 1]> : tensor<2xi32>"),
        ([2, 1], [[1, 2]], "dense<[2, 1]> : tensor<2xi32>"),
        ([], [[2, 1]], "dense<[2, 1]> : tensor<2xi32>"),
        ([1, 2], [2, 1], "dense<[2, 1]> : tensor<2xi32>"),
    ],
)
def test_sizes_of_reshape(new_shape: list[int], sizes: Any, expected: str):
    """Those of the operand count if it is a vector."""
    tensors = [tensor("x", "FLOAT32", 2), tensor("y", "FLOAT32", 2, 1)]
    inputs = [0]
    if sizes is not None:
        inputs.append(2)
        tensors.append(constant("s", "INT32", np.array(sizes, np.int32)))
    reshape = op("RESHAPE", inputs, [1], new_shape=new_shape)
    module = module_of(graph(tensors, [0], [1], reshape))
    assert expected in str(module)
    x = np.array([1, 2], np.float32)
    (y,) = LiteRT(write_tflite(module)).run(x)
    np.testing.assert_array_equal(y, [[1], [2]])


def test_scalars_of_old_files():
    tensors = [tensor("x", "FLOAT32", 1, 1), tensor("y")]
    reshape = op("RESHAPE", [0], [1], new_shape=[0])
    module = module_of(graph(tensors, [0], [1], reshape))
    assert "dense<> : tensor<0xi32>" in str(module)
    file = write_model(Model([graph(tensors, [0], [1], reshape)]))
    x = np.array([[5]], np.float32)
    assert run_function(module, "main", x)[0] == LiteRT(file).run(x)[0] == 5


def test_sizes_of_reshape_that_are_no_vector():
    tensors = [
        tensor("x", "FLOAT32", 2),
        tensor("s", "INT32", 1, 2),
        tensor("y", "FLOAT32", 2, 1),
    ]
    message = error_of(graph(tensors, [0, 1], [2], op("RESHAPE", [0, 1], [2])))
    assert message == (
        "operator 0 (RESHAPE) has a shape operand of type INT32 and rank 2; expected a "
        "constant, or a vector of INT32"
    )


def test_constants_of_all_types():
    arrays = {
        "FLOAT32": np.array([1.5, -2], np.float32),
        "FLOAT16": np.array([1.5, -2], np.float16),
        "BFLOAT16": np.array([1.5, -2], ml_dtypes.bfloat16),
        "FLOAT64": np.array([1.5, -2]),
        "INT8": np.array([1, -2], np.int8),
        "UINT8": np.array([1, 254], np.uint8),
        "INT16": np.array([1, -2], np.int16),
        "UINT16": np.array([1, 65534], np.uint16),
        "INT32": np.array([1, -2], np.int32),
        "UINT32": np.array([1, 2**32 - 1], np.uint32),
        "INT64": np.array([1, -2], np.int64),
        "BOOL": np.array([True, False]),
        "RESHAPE": np.zeros(0, np.int32),
    }
    types = {**{name: name for name in arrays}, "RESHAPE": "INT32"}
    tensors = [constant(name, types[name], array) for name, array in arrays.items()]
    int4 = Tensor("INT4", "INT4", [3], data=np.array([0x2F, 0x08], np.uint8))
    tensors.append(int4)
    module = module_of(graph(tensors, [], range(len(tensors))))
    values = [line.split("value = ")[1].split("}>")[0] for line in body(module)[1:-2]]
    assert values == [
        "dense<[1.500000e+00, -2.000000e+00]> : tensor<2xf32>",
        "dense<[1.500000e+00, -2.000000e+00]> : tensor<2xf16>",
        "dense<[1.500000e+00, -2.000000e+00]> : tensor<2xbf16>",
        "dense<[1.500000e+00, -2.000000e+00]> : tensor<2xf64>",
        "dense<[1, -2]> : tensor<2xi8>",
        "dense<[1, 254]> : tensor<2xui8>",
        "dense<[1, -2]> : tensor<2xi16>",
        "dense<[1, 65534]> : tensor<2xui16>",
        "dense<[1, -2]> : tensor<2xi32>",
        "dense<[1, 4294967295]> : tensor<2xui32>",
        "dense<[1, -2]> : tensor<2xi64>",
        "dense<[true, false]> : tensor<2xi1>",
        "dense<> : tensor<0xi32>",
        "dense<[-1, 2, -8]> : tensor<3xi4>",
    ]
    for before, after in zip(tensors, again(module).subgraphs[0].tensors, strict=True):
        data = b"" if before.data is None else before.data.tobytes()
        assert (b"" if after.data is None else after.data.tobytes()) == data


NARROW = {
    "INT2": (np.array([0xE4, 0x01], np.uint8), "i2", [0, 1, -2, -1, 1]),
    "INT4": (np.array([0x21, 0xF8, 0x0F], np.uint8), "i4", [1, 2, -8, -1, -1]),
    "UINT4": (np.array([0x21, 0xF8, 0x0F], np.uint8), "ui4", [1, 2, 8, 15, 15]),
}
"""Bytes of constants of less than a byte, their type, and their elements."""


@pytest.mark.parametrize("type_name", NARROW)
def test_narrow_integers(type_name: str):
    data, type_, elements = NARROW[type_name]
    x = Tensor("x", type_name, [5], data=data)
    cast = op("CAST", [0], [1])
    module = module_of(graph([x, tensor("y", "FLOAT32", 5)], [], [1], cast))
    assert f"dense<{elements}> : tensor<5x{type_}>" in str(module)
    written = write_tflite(parse_module(str(module), "m.mlir"))
    bytes_of_x = read_tflite_model(written, "").subgraphs[0].tensors[0].data
    assert bytes_of_x is not None
    assert bytes_of_x.tobytes() == data.tobytes()
    assert LiteRT(written).run()[0].tolist() == elements
    assert np.asarray(run_function(module, "main")[0]).tolist() == elements
    assert np.asarray(compile(module, "main")()).tolist() == elements


@pytest.mark.parametrize("type_name", NARROW)
def test_narrow_stored_values(type_name: str):
    data, _, elements = NARROW[type_name]
    x = Tensor("x", type_name, [5], data=data, quantization=scales(0.5))
    y = tensor("y", "FLOAT32", 5)
    module = module_of(graph([x, y], [], [1], op("DEQUANTIZE", [0], [1])))
    expected = [element * 0.5 for element in elements]
    assert LiteRT(write_tflite(module)).run()[0].tolist() == expected
    assert np.asarray(run_function(module, "main")[0]).tolist() == expected


@pytest.mark.parametrize(
    ("type_name", "type_", "dtype"),
    [
        ("FLOAT8_E4M3FN", "f8E4M3FN", ml_dtypes.float8_e4m3fn),
        ("FLOAT8_E5M2", "f8E5M2", ml_dtypes.float8_e5m2),
        ("BFLOAT16", "bf16", ml_dtypes.bfloat16),
    ],
)
def test_small_floats(type_name: str, type_: str, dtype: Any):
    x = constant("x", type_name, np.array([1.5, -2, 448], np.float32).astype(dtype))
    cast = op("CAST", [0], [1])
    module = module_of(graph([x, tensor("y", "FLOAT32", 3)], [], [1], cast))
    assert f"tensor<3x{type_}>" in str(module)
    written = again(module).subgraphs[0].tensors[0]
    assert written.data is not None
    assert x.data is not None
    assert (written.type, written.data.tobytes()) == (type_name, x.data.tobytes())
    expected = np.array([1.5, -2, 448]).astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(run_function(module, "main")[0]), expected)


def test_large_constants_are_resources():
    array = np.arange(1 << 15, dtype=np.float32)
    module = module_of(graph([constant("weights", "FLOAT32", array)], [], [0]))
    (value,) = [
        op.properties["value"] for op in module.walk() if "value" in op.properties
    ]
    assert isinstance(value, DenseResourceAttr)
    assert value.resource_handle.data.startswith("weights")
    assert "dense_resource<weights" in str(module)
    written = read_tflite_model(write_tflite(module), "").subgraphs[0].tensors[0]
    assert written.data is not None
    assert written.data.tobytes() == array.tobytes()


@pytest.mark.parametrize("type_name", ["INT4", "FLOAT32"])
def test_memory_of_large_constants(type_name: str, tmp_path: Path):
    """The module holds the bytes of the file, and nothing is unpacked before its use."""
    size = 1 << 23
    count = size * 2 if type_name == "INT4" else size // 4
    data = np.full(size, 0x21, np.uint8)
    x = Tensor("x", type_name, [count], data=data)
    path = tmp_path / "large.tflite"
    path.write_bytes(write_model(Model([graph([x], [], [0])])))
    read_tflite(write_model(Model([RELU])))
    tracemalloc.start()
    try:
        module = read_tflite(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.3 * size
    (elements,) = run_function(module, "main")
    if type_name == "INT4":
        assert np.asarray(elements)[:4].tolist() == [1, 2, 1, 2]
    written = read_tflite_model(write_tflite(module), "").subgraphs[0].tensors[0].data
    assert written is not None
    assert written.tobytes() == data.tobytes()


def test_strings_are_refused():
    text = Tensor("s", "STRING", [1], data=np.zeros(12, np.uint8))
    assert error_of(graph([text], [], [0])) == (
        "tensor 0 ('s') is a constant of unsupported type STRING"
    )


def test_ranges_without_zero_points():
    bounds = np.array([-1], np.float32), np.array([2], np.float32)
    quantization = TensorQuantization(
        np.empty(0, np.float32), np.empty(0, np.int64), 0, *bounds
    )
    x = replace(RELU.tensors[0], quantization=quantization)
    ranged = module_of(replace(RELU, tensors=[x, RELU.tensors[1]]))
    assert str(ranged) == str(module_of(RELU))


def test_weights_have_a_narrow_range():
    tensors = [
        tensor("x", "INT8", 1, 2, quantization=scales(0.5)),
        replace(
            constant("w", "INT8", np.array([[1, -128]], np.int8)),
            quantization=scales(0.25),
        ),
        tensor("y", "INT8", 1, 1, quantization=scales(1)),
        tensor("z", "INT8", 1, 2, quantization=scales(1)),
    ]
    operators = [op("FULLY_CONNECTED", [0, 1, -1], [2]), op("ADD", [0, 1], [3])]
    module = module_of(graph(tensors, [0], [2, 3], *operators))
    text = str(module)
    assert "!quant.uniform<i8<-127:127>:f32, 2.500000e-01>" in text
    assert "!quant.uniform<i8:f32, 2.500000e-01>" in text
    assert '"tfl.no_value"() <{value}> : () -> none' in text
    assert again(module).subgraphs[0].operators[0].inputs == [0, 1]


def test_wide_bias_is_a_plain_constant():
    tensors = [
        tensor("x", "INT16", 1, 1, 1, 1, quantization=scales(0.5)),
        replace(
            constant("w", "INT8", np.ones((1, 1, 1, 1), np.int8)),
            quantization=scales(0.25),
        ),
        replace(constant("b", "INT64", np.array([2**40])), quantization=scales(0.125)),
        tensor("y", "INT16", 1, 1, 1, 1, quantization=scales(1e7)),
    ]
    convolution = op("CONV_2D", [0, 1, 2], [3], stride_w=1, stride_h=1)
    file = write_model(Model([graph(tensors, [0], [3], convolution)]))
    module = read_tflite(file)
    assert "value = dense<1099511627776> : tensor<1xi64>" in str(module)
    x = np.ones((1, 1, 1, 1), np.int16)
    expected = LiteRT(file).run(x)
    assert 0 < expected[0].item() < 32767
    assert LiteRT(write_tflite(module)).run(x) == expected


@pytest.mark.parametrize("weight_scales", [(0.25,), (0.25, 0.5)])
def test_wide_bias_has_a_scale_in_the_file(weight_scales: tuple[float, ...]):
    """The runtime compares it with those of the factors, where there is one."""
    tensors = [
        tensor("x", "INT16", 1, 3, quantization=scales(0.5)),
        replace(
            constant("w", "INT8", np.ones((2, 3), np.int8)),
            quantization=scales(*weight_scales),
        ),
        replace(
            constant("b", "INT64", np.array([-1, 1])),
            quantization=scales(*(0.5 * scale for scale in weight_scales)),
        ),
        tensor("y", "INT16", 1, 2, quantization=scales(1.0)),
    ]
    file = write_model(
        Model([graph(tensors, [0], [3], op("FULLY_CONNECTED", [0, 1, 2], [3]))])
    )
    written = write_tflite(read_tflite(file))
    (bias,) = (
        t for t in read_tflite_model(written, "").subgraphs[0].tensors if t.name == "b"
    )
    assert bias.quantization is not None
    assert bias.quantization.scales.tolist() == [0.5 * scale for scale in weight_scales]
    assert bias.quantization.zero_points.tolist() == [0] * len(weight_scales)
    x = np.array([[1, 2, 4]], np.int16)
    assert LiteRT(written).run(x)[0].tolist() == LiteRT(file).run(x)[0].tolist()


@pytest.mark.parametrize("name", ["_4", "\N{REPLACEMENT CHARACTER}4", "_1_2", "größe"])
def test_names_of_numbers_alone(name: str):
    """xDSL leaves out numbers at the end of name hints, and does not clone empty ones."""
    tensors = [tensor("x", "FLOAT32", 2), tensor(name, "FLOAT32", 2)]
    module = module_of(graph(tensors, [0], [1], op("EXP", [0], [1])))
    assert str(module.clone()) == str(module)
    assert str(parse_module(str(module))) == str(module)


def test_text_with_names_beyond_ascii():
    """The text of a module, with names as locations, is written as the same file."""
    tensors = [tensor("größe", "FLOAT32", 2), tensor("日本", "FLOAT32", 2)]
    operator = Operator("CUSTOM", [0], [1], {}, "Maß", b"\xc3\xff")
    file = write_model(Model([graph(tensors, [0], [1], operator)], description="ü"))
    module = read_tflite(file)
    stream = StringIO()
    Printer(stream, print_debuginfo=True).print_op(module)
    text = stream.getvalue()
    assert r'custom_code = "Ma\C3\9F"' in text
    assert write_tflite(parse_module(text)) == write_tflite(module)
    assert write_tflite(read_tflite(write_tflite(module))) == write_tflite(module)


def test_quantize_without_result():
    model = graph([tensor("x", "FLOAT32", 2)], [0], [0], op("QUANTIZE", [0], []))
    with pytest.raises(
        TFLiteFileError, match=r"operator 0 \(QUANTIZE\) has no result$"
    ):
        module_of(model)


def test_quantize_to_plain_integers():
    """The dialect allows it, but nothing says which stored values it means."""
    tensors = [tensor("x", "FLOAT32", 2), tensor("y", "INT8", 2)]
    module = module_of(graph(tensors, [0], [1], op("QUANTIZE", [0], [1])))
    message = "'tfl.quantize' op has a result that is not quantized"
    with pytest.raises(IRError, match=message):
        apply_passes(module, "convert-tfl-to-linalg")
    with pytest.raises(InterpretationError, match=message):
        run_function(module, "main", np.zeros(2, np.float32))


# Ops


@pytest.mark.parametrize("pot_scale", [False, True])
def test_sums_of_16_bits_with_powers_of_two(pot_scale: bool):
    tensors = [
        tensor("a", "INT16", 4, quantization=scales(0.25)),
        tensor("b", "INT16", 4, quantization=scales(0.5)),
        tensor("c", "INT16", 4, quantization=scales(0.5)),
    ]
    add = op("ADD", [0, 1], [2], pot_scale_int16=pot_scale)
    file = write_model(Model([graph(tensors, [0, 1], [2], add)]))
    module = read_tflite(file)
    assert ("pot_scale_int16 = false" in str(module)) is not pot_scale
    assert again(module).subgraphs[0].operators[0].options == add.options
    arrays = np.array([1, 3, -3, 32767], np.int16), np.array([0, 1, 2, 3], np.int16)
    expected = LiteRT(file).run(*arrays)
    np.testing.assert_array_equal(LiteRT(write_tflite(module)).run(*arrays), expected)


def test_pot_scale_is_left_out_where_it_changes_nothing():
    tensors = [tensor(n, "INT16", 4, quantization=scales(0.3)) for n in "abc"]
    add = op("ADD", [0, 1], [2], pot_scale_int16=False)
    assert "pot_scale" not in str(module_of(graph(tensors, [0, 1], [2], add)))


def test_custom_ops():
    custom = Operator("CUSTOM", [0], [1], {}, "Mine", b"abc")
    module = module_of(replace(RELU, operators=[custom]))
    assert body(module)[1] == (
        '%y = "tfl.custom"(%x) <{custom_code = "Mine", custom_option = '
        '#tfl<const_bytes : "0x616263">}> : (tensor<2xf32>) -> tensor<2xf32>'
    )
    assert again(module).subgraphs[0].operators == [custom]


def test_ops_that_the_dialect_does_not_have():
    tensors = [tensor("x", "INT32", 2), tensor("y", "INT32", 2)]
    shift = op("RIGHT_SHIFT", [0, 0], [1])
    unknown = op("HASHTABLE_SIZE", [0], [1])
    custom = op("REVERSE_SEQUENCE", [0, 0], [1], seq_dim=3)
    for operator in (shift, unknown, custom):
        module = module_of(graph(tensors, [0], [1], operator), verified=False)
        written = read_tflite_model(write_tflite(module), "").subgraphs[0].operators
        assert written == [operator]


def test_variables():
    handle, x = tensor("h", "RESOURCE"), tensor("x", "FLOAT32", 2)
    var = op("VAR_HANDLE", [], [0], container="", shared_name="v")
    zero = constant("zero", "FLOAT32", np.zeros(2, np.float32))
    start = graph([handle, zero], [], [], var, op("ASSIGN_VARIABLE", [0, 1], []))
    tensors = [x, handle, tensor("old", "FLOAT32", 2), tensor("new", "FLOAT32", 2)]
    main = graph(
        tensors,
        [0],
        [3],
        op("CALL_ONCE", [], [], init_subgraph_index=1),
        replace(var, outputs=[1]),
        op("READ_VARIABLE", [1], [2]),
        op("ADD", [0, 2], [3]),
        op("ASSIGN_VARIABLE", [1, 3], []),
    )
    module = module_of(main, replace(start, name="NoOp"))
    assert body(module)[1:4] == [
        '"tfl.call_once"() <{session_init_function = "NoOp"}> : () -> ()',
        '%h = "tfl.var_handle"() <{container = "", shared_name = "v"}> : () -> '
        "tensor<!tf_type.resource>",
        '%old = "tfl.read_variable"(%h) : (tensor<!tf_type.resource>) -> tensor<2xf32>',
    ]
    again(module)
    litert = LiteRT(write_tflite(module))
    ones = np.ones(2, np.float32)
    assert [litert.run(ones)[0].tolist() for _ in range(3)] == [[1, 1], [2, 2], [3, 3]]


F32 = [tensor(name, "FLOAT32") for name in ("a", "b")]


def test_conditions():
    branches = [
        replace(RELU, name=name, operators=[op(code, [0], [1])])
        for name, code in (("then", "NEG"), ("else", "ABS"))
    ]
    condition = op("IF", [0, 1], [2], then_subgraph_index=1, else_subgraph_index=2)
    tensors = [tensor("p", "BOOL"), *RELU.tensors]
    module = module_of(graph(tensors, [0, 1], [2], condition), *branches)
    assert "func.call @then(%x)" in str(module)
    assert again(module).subgraphs[0].operators == [condition]
    litert = LiteRT(write_tflite(module))
    x = np.array([-1, 2], np.float32)
    for p in (True, False):
        (result,) = litert.run(np.array(p), x)
        assert result.tolist() == ([1, -2] if p else [1, 2])


def test_loops():
    limit = constant("limit", "FLOAT32", np.float32(100))
    condition = graph(
        [F32[0], limit, tensor("c", "BOOL")],
        [0],
        [2],
        op("LESS", [0, 1], [2]),
        name="cond",
    )
    twice = graph(F32, [0], [1], op("ADD", [0, 0], [1]), name="body")
    loop = op("WHILE", [0], [1], cond_subgraph_index=1, body_subgraph_index=2)
    module = module_of(graph(F32, [0], [1], loop), condition, twice)
    assert again(module).subgraphs[0].operators == [loop]
    (result,) = LiteRT(write_tflite(module)).run(np.array(3, np.float32))
    assert result.item() == 192


def test_states_are_not_shared():
    def state_module(same: bool) -> str:
        zeros = '"tfl.pseudo_qconst"() <{qtype = !s, value = dense<0> : '
        zeros += "tensor<1x4xi16>}> : () -> !s"
        return f"""
        !x = tensor<1x2x!quant.uniform<i8:f32, 0.5>>
        !w = tensor<2x2x!quant.uniform<i8:f32, 0.5>>
        !t = tensor<2x2x!quant.uniform<i16:f32, 0.5>>
        !s = tensor<1x4x!quant.uniform<i16:f32, 0.5>>
        func.func @main(%x: !x, %w: !w, %t: !t) -> (!x, !x) {{
          %b = "tfl.no_value"() <{{value}}> : () -> none
          %s = {zeros}
          %r = {zeros}
          %y = "tfl.svdf"(%x, %w, %t, %b, %s) <{{rank = 1 : i32,
              fused_activation_function = "RELU"}}> : (!x, !w, !t, none, !s) -> !x
          %z = "tfl.svdf"(%x, %w, %t, %b, {"%s" if same else "%r"}) <{{rank = 1 : i32,
              fused_activation_function = "RELU"}}> : (!x, !w, !t, none, !s) -> !x
          func.return %y, %z : !x, !x
        }}"""

    for same in (False, True):
        module = parse_module(state_module(same))
        written = read_tflite_model(write_tflite(module), "").subgraphs[0]
        states = [operator.inputs[4] for operator in written.operators]
        assert len({*states}) == 2
        assert all(written.tensors[index].is_variable for index in states)


# Files that are refused, and modules


def test_operands_that_are_not_computed():
    tensors = [tensor(name, "FLOAT32", 2) for name in "xyz"]
    assert error_of(graph(tensors, [0], [1], op("RELU", [2], [1]))) == (
        "tensor 2 ('z') is used before it is computed"
    )
    relu = op("RELU", [0], [1])
    assert error_of(graph(tensors, [0], [1], relu, relu)) == (
        "tensor 1 ('y') is computed twice"
    )
    message = "tensor 0 ('x') is listed as an input twice"
    assert error_of(graph(tensors, [0, 0], [0])) == message


def test_wrong_numbers_of_options():
    padded = op("CONV_2D", [0, 0, 0], [1], padding=7)
    assert error_of(replace(RELU, operators=[padded])) == (
        "padding of operator 0 (CONV_2D) is 7; expected a value in [0, 2)"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a function '@main' in the module"),
        (
            "func.func @main() -> f32 {\n"
            "  %b = arith.constant 1.0 : f32\n  func.return %b : f32\n}",
            "m.mlir:2:3: error: 'arith.constant' op has a scalar value; expected a "
            "tensor",
        ),
        (
            "func.func @main(%a: f32) -> f32 {\n"
            "  %b = arith.addf %a, %a : f32\n  func.return %b : f32\n}",
            "m.mlir:2:3: error: 'arith.addf' op is not an op of TensorFlow Lite; lower it "
            "to 'tfl' first",
        ),
        (
            "func.func @main(%a: tensor<2xindex>) -> tensor<2xindex> {\n"
            "  func.return %a : tensor<2xindex>\n}",
            "m.mlir:1:1: error: 'func.func' op has type 'tensor<2xindex>', which is "
            "unsupported in '.tflite' files",
        ),
        (
            'func.func @main() {\n  "tfl.call_once"() <{session_init_function = "f"}> : '
            "() -> ()\n  func.return\n}",
            "m.mlir:2:3: error: 'tfl.call_once' op calls unknown function '@f'",
        ),
    ],
)
def test_modules_that_no_file_can_have(text: str, message: str):
    module = parse_module(text, "m.mlir") if text else ModuleOp([])
    with pytest.raises(TFLiteFileError) as e:
        write_tflite(module)
    assert str(e.value) == message


@pytest.mark.parametrize(
    "type_",
    [
        "!quant.uniform<f8E4M3FN:f32, 5.000000e-01>",
        "!quant.uniform<f8E5M2:f32:0, {5.000000e-01, 2.500000e-01}>",
        "!quant.uniform<f4E2M1FN:f32, 5.000000e-01>",
        "!quant.uniform<!quant.quantile<ui2:f16, {0.0, 1.0, 2.0, 3.0}>:f32, 5.000000e-01>",
        "!quant.block_scaled<f4E2M1FN:f32:{}, scales = dense<5.000000e-01> : tensor<f32>>",
        "!quant.any<i8:f32>",
        "!quant.uniform<i7:f32, 5.000000e-01>",
        "!quant.calibrated<f32<-1.0:1.0>>",
    ],
)
def test_quantized_types_that_no_file_can_have(type_: str):
    """Their stored values would be those of integers, and their scales would be lost."""
    type_ = f"tensor<2x4x{type_}>"
    module = parse_module(
        f"func.func @main(%a: {type_}) -> {type_} {{\n  func.return %a : {type_}\n}}",
        "m.mlir",
    )
    with pytest.raises(TFLiteFileError) as e:
        write_tflite(module)
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    text = shortened(function.args[0].type)
    assert str(e.value) == (
        f"m.mlir:1:1: error: 'func.func' op has type '{text}', which is unsupported "
        "in '.tflite' files; use '!quant.uniform' with i4, i8, i16 or i32 storage and "
        "per-tensor or per-axis scales"
    )


def test_locations_are_names_of_tensors():
    stream = StringIO()
    Printer(stream, print_debuginfo=True).print_op(module_of(RELU))
    assert 'loc("y")' in stream.getvalue()


# Biases of 32 bits beside values of 16 bits


def product_of_16_bits(code: str, bias: Tensor | None, **options: Any) -> bytes:
    """A file of a product of 2x2 weights, whose accumulator is `bias.type` wide."""
    weights, size = ([[2, 3], [5, 7]], (1, 1, 1, 2))
    image = tensor("x", "INT16", *size, quantization=scales(0.5))
    kernel = constant("w", "INT8", np.array(weights, np.int8).reshape(2, 1, 1, 2))
    kernel.quantization = scales(0.25)
    result = tensor("y", "INT16", *size, quantization=scales(0.375))
    shape = constant("shape", "INT32", np.array(size, np.int32))
    tensors = [shape, kernel, image, result]
    inputs = [0, 1, 2] if code == "TRANSPOSE_CONV" else [2, 1]
    if code == "FULLY_CONNECTED":
        kernel.shape, result.shape = (2, 2), (1, 2)
    if bias is not None:
        tensors.append(bias)
        inputs.append(4)
    if code != "FULLY_CONNECTED":
        options |= {"stride_h": 1, "stride_w": 1}
    operator = op(code, inputs, [3], **options)
    return write_model(Model([graph(tensors, [2], [3], operator)]))


def narrow_bias() -> Tensor:
    bias = constant("b", "INT32", np.array([100, -100], np.int32))
    bias.quantization = scales(0.125)
    return bias


PRODUCTS = ["CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"]


@pytest.mark.parametrize("code", PRODUCTS)
def test_narrow_bias_that_the_runtime_reads_as_a_wide_one(code: str):
    file = product_of_16_bits(code, narrow_bias())
    with pytest.warns(
        UserWarning,
        match=rf"^operator 0 \({code}\) is wrong in LiteRT, which reads INT32 bias 'b' as "
        "INT64 without option 'quantized_bias_type'; write the file with this option, or "
        "with a bias of INT64$",
    ):
        read_tflite(file)


@pytest.mark.parametrize("code", PRODUCTS)
def test_narrow_bias_is_written_with_its_option(code: str):
    file = product_of_16_bits(code, narrow_bias(), quantized_bias_type=2)
    module = read_tflite(file)
    (operator,) = again(module).subgraphs[0].operators
    assert operator.options["quantized_bias_type"] == 2
    x = np.array([1000, -31], np.int16).reshape(1, 1, 1, 2)
    (expected,) = LiteRT(file).run(x)
    (written,) = LiteRT(write_tflite(module)).run(x)
    np.testing.assert_array_equal(written, expected)
    np.testing.assert_array_equal(run_function(module, "main", x)[0], expected)


@pytest.mark.parametrize("number", [0, 2])
def test_width_of_sums_without_bias(number: int):
    file = product_of_16_bits("TRANSPOSE_CONV", None, quantized_bias_type=number)
    module = read_tflite(file)
    assert ("quantized_bias_type = 2 : i32" in str(module)) == (number == 2)
    (operator,) = again(module).subgraphs[0].operators
    assert operator.options["quantized_bias_type"] == number
    x = np.array([8667, 2858], np.int16).reshape(1, 1, 1, 2)
    expected = np.array([[[[8636, 21114 if number else 21113]]]], np.int16)
    np.testing.assert_array_equal(LiteRT(file).run(x)[0], expected)
    np.testing.assert_array_equal(run_function(module, "main", x)[0], expected)


# State and softmax as LiteRT has them


@pytest.mark.parametrize(
    ("type", "quantization", "first"),
    [
        ("INT8", scales(0.5, zero_point=-7), -7),
        ("UINT8", scales(0.5, zero_point=7), 0),
        ("INT16", scales(0.5), 0),
        ("INT8", None, 0),
    ],
)
def test_first_value_of_a_variable(
    type: str, quantization: TensorQuantization | None, first: int
):
    """One that is no resource: its bytes are the zero point of `INT8`."""
    tensors = [
        tensor("state", type, 1, 2, quantization=quantization, is_variable=True),
        tensor("x", type, 1, 2, quantization=quantization),
        tensor("y", type, 2, 2, quantization=quantization),
    ]
    subgraph = graph(tensors, [1], [2], op("CONCATENATION", [0, 1], [2], axis=0))
    file = write_model(Model([subgraph]))
    x = np.array([[3, 4]], {"INT8": "i1", "UINT8": "u1", "INT16": "i2"}[type])
    expected = [[first, first], [3, 4]]
    np.testing.assert_array_equal(LiteRT(file).run(x)[0], expected)
    module = read_tflite(file)
    np.testing.assert_array_equal(run_function(module, "main", x)[0], expected)
    np.testing.assert_array_equal(LiteRT(write_tflite(module)).run(x)[0], expected)


def test_softmax_of_8_bits_with_16_bits():
    tensors = [
        tensor("x", "INT8", 4, 50, quantization=scales(0.1, zero_point=3)),
        tensor("y", "INT16", 4, 50, quantization=scales(2**-15)),
    ]
    file = write_model(
        Model([graph(tensors, [0], [1], op("SOFTMAX", [0], [1], beta=1.0))])
    )
    module = read_tflite(file)
    module.verify()
    apply_passes(module, "tfl-variables-to-arguments")
    x = np.random.default_rng(0).integers(-128, 128, (4, 50)).astype(np.int8)
    (expected,) = LiteRT(file).run(x)
    np.testing.assert_array_equal(run_function(module, "main", x)[0], expected)
    np.testing.assert_array_equal(compile(module, "main")(x), expected)
    # There is no kernel for unsigned values.
    other = str(module).replace("i8:f32", "u8:f32")
    with pytest.raises(
        IRError, match="failed to verify that input and output must have same element"
    ):
        parse_module(other)


def test_a_model_of_static_shapes_is_read_without_kernels():
    code = (
        "import sys\n"
        "from xdsl_quant.frontends.tflite import read_tflite\n"
        "read_tflite('docs/examples/layers_int8.tflite')\n"
        "print('xdsl_quant.frontends.tflite.lowering.kernels' in sys.modules)\n"
    )
    command = (sys.executable, "-c", code)
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
