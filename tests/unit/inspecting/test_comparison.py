"""Two models compared value by value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, NameLoc, NoneAttr, StringAttr

from tests.unit.frontends.tflite.files.litert import LiteRT
from tests.unit.quantizer.models import PLAIN, Floats, dense_layers, samples
from tests.unit.quantizer.networks import NETWORKS
from xdsl_quant.inspecting.comparison import compare
from xdsl_quant.inspecting.inspection import inspect
from xdsl_quant.inspecting.value_matching import UnmatchedLayer
from xdsl_quant.numerics import QuantizationParameters, dequantize
from xdsl_quant.numerics import quantize as quantize_values
from xdsl_quant.quantizer import quantize
from xdsl_quant.quantizer.errors import Error
from xdsl_quant.runtime.batches import Batch
from xdsl_quant.runtime.loading import parse_module

DATA = Path(__file__).parents[1] / "quantizer" / "data"

FLOAT = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.constant dense<[0.25, 0.5, -0.75, 0.5]> : tensor<4xf32>
  %y = arith.mulf %x, %c : tensor<4xf32>
  %z = arith.addf %y, %x : tensor<4xf32>
  return %z : tensor<4xf32>
}
"""
QDQ = """
!q = !quant.uniform<i8:f32, 0.0625>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.constant dense<[0.25, 0.5, -0.75, 0.75]> : tensor<4xf32>
  %y = arith.mulf %x, %c : tensor<4xf32>
  %q = quant.qcast %y : tensor<4xf32> to tensor<4x!q>
  %d = quant.dcast %q : tensor<4x!q> to tensor<4xf32>
  %z = arith.addf %d, %x : tensor<4xf32>
  return %z : tensor<4xf32>
}
"""


def sqnr(expected: Floats, actual: Floats) -> float:
    error = Error()
    error.add(expected, actual, None)
    return error.sqnr


def test_values_by_their_keys():
    x = samples(8)
    found = compare(parse_module(FLOAT), parse_module(QDQ), x)
    constant = np.array([0.25, 0.5, -0.75, 0.5], np.float32)
    changed = np.array([0.25, 0.5, -0.75, 0.75], np.float32)
    rows = x.reshape(2, 4)
    parameters = QuantizationParameters(0.0625)
    stored = quantize_values(rows * changed, parameters)
    result = dequantize(stored, parameters) + rows
    expected = [
        ("main:arith.constant:0", "", sqnr(constant, changed), math.inf),
        (
            "main:arith.mulf:0",
            "",
            sqnr(rows * constant, rows * changed),
            math.inf,
        ),
        (
            "main:arith.addf:0",
            "",
            sqnr(rows * constant + rows, result),
            sqnr(rows * constant, rows * changed),
        ),
    ]
    assert [(v.name, v.storage, v.sqnr, v.input_sqnr) for v in found.values] == expected
    assert found.results == {"main:output:0": expected[-1][2]}
    assert found.only_float == {}
    assert found.only_quantized == {"quant.dcast": 1, "quant.qcast": 1}


def test_a_model_and_itself():
    module = parse_module(FLOAT)
    found = compare(module, module, samples(4))
    assert [value.sqnr for value in found.values] == [math.inf] * 3
    assert str(found).splitlines()[-6:] == [
        "",
        "SQNR of the results: main:output:0 exact",
        "layers matched by name: 0, by position: 2",
        "constants of both models: 1",
        "of the float model only: none",
        "of the quantized model only: none",
    ]
    # Neither is changed.
    assert str(module) == str(parse_module(FLOAT))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("batch", [4, "?"])
def test_accumulated_errors_are_those_of_the_report(batch: int | str):
    data = samples(16, 6)
    model = quantize(dense_layers(batch), data, PLAIN)
    report = model.report(data)
    found = compare(parse_module(dense_layers(4)), model.module, data)
    by_op = [v for v in found.values if v.op != "stablehlo.constant"]
    assert [v.op for v in by_op] == [kernel.kernel for kernel in report.kernels]
    assert [v.storage for v in by_op] == ["i8"] * 3
    assert [v.sqnr for v in by_op] == [
        pytest.approx(kernel.sqnr) for kernel in report.kernels
    ]
    assert found.results == pytest.approx(dict(report.outputs))
    weights = [v for v in found.values if v.op == "stablehlo.constant"]
    assert [v.sqnr for v in weights] == [
        pytest.approx(kernel.weight_sqnr)
        for kernel in report.kernels
        if kernel.weight_type
    ]
    assert by_op[0].input_sqnr == math.inf
    assert by_op[1].input_sqnr == by_op[0].sqnr


def test_quantized_arguments_and_results():
    data = samples(4)
    module = parse_module("""
!q = !quant.uniform<i8:f32, 0.0625>
func.func @main(%x: tensor<4x!q>) -> tensor<4x!q> {
  return %x : tensor<4x!q>
}""")
    same = parse_module("""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}""")
    parameters = QuantizationParameters(0.0625)
    rounded = dequantize(quantize_values(data, parameters), parameters)
    assert compare(same, module, data).results == {"main:output:0": sqnr(data, rounded)}
    # Stored values are taken as they are.
    stored = np.array([1, 2, 3, 4], np.int8)
    assert compare(module, module, stored).results == {"main:output:0": math.inf}


def with_names(text: str, names: dict[str, str]) -> ModuleOp:
    """A module of which some ops have a named location."""
    module = parse_module(text)
    for op in module.walk():
        if op.results and (name := names.get(op.results[0].name_hint or "")):
            op.location = NameLoc(StringAttr(name), NoneAttr())
    return module


RELU = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = "tfl.add"(%x, %x) <{fused_activation_function = "NONE"}>
    : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %z = "tfl.relu"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}
"""
FUSED = """
!q = !quant.uniform<i8:f32, 0.0625>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "tfl.quantize"(%x) <{qtype = tensor<4x!q>}> : (tensor<4xf32>) -> tensor<4x!q>
  %y = "tfl.add"(%a, %a) <{fused_activation_function = "RELU"}>
    : (tensor<4x!q>, tensor<4x!q>) -> tensor<4x!q>
  %z = "tfl.dequantize"(%y) : (tensor<4x!q>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}
"""


def test_an_activation_that_the_quantized_model_fuses():
    found = compare(parse_module(RELU), parse_module(FUSED), samples(4))
    (value,) = found.values
    assert (value.op, value.quantized_op) == ("tfl.relu", "tfl.add")
    assert value.sqnr == found.results["main:output:0"]
    assert found.only_float == {"tfl.add": 1}
    assert found.only_quantized == {"tfl.quantize": 1, "tfl.dequantize": 1}
    assert found.unmatched == [
        UnmatchedLayer("float", "main:tfl.add:0", "tfl.add", "fused in the other model")
    ]


NORMALIZED = """
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %w = stablehlo.constant dense<[[1.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0],
    [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, -1.0, 1.0]]> : tensor<4x4xf32>
  %s = stablehlo.constant dense<2.0> : tensor<2x4xf32>
  %b = stablehlo.constant dense<3.0> : tensor<2x4xf32>
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %m = stablehlo.multiply %d, %s : tensor<2x4xf32>
  %y = stablehlo.add %m, %b : tensor<2x4xf32>
  %z = stablehlo.tanh %y : tensor<2x4xf32>
  return %z : tensor<2x4xf32>
}
"""


@pytest.mark.parametrize("is_swapped", [False, True])
def test_a_batch_norm_that_one_model_folds(is_swapped: bool):
    """The product before the batch norm does not match the product that contains it."""
    folded = NORMALIZED.replace("%m = stablehlo.multiply %d, %s : tensor<2x4xf32>", "")
    folded = folded.replace("add %m", "add %d").replace(
        "2.0, 0.0, 0.0]", "4.0, 0.0, 0.0]"
    )
    folded = re.sub(r"\b1\.0", "2.0", folded)
    texts = (folded, NORMALIZED) if is_swapped else (NORMALIZED, folded)
    one, other = map(parse_module, texts)
    found = compare(one, other, samples(2, 4))
    assert [(value.op, value.sqnr) for value in found.layers] == [
        ("stablehlo.add", math.inf),
        ("stablehlo.tanh", math.inf),
    ]
    assert {(each.op, each.reason) for each in found.unmatched} == {
        (
            "stablehlo.dot_general",
            "another bias or factor, which may be folded, in the other model",
        ),
        (
            "stablehlo.multiply",
            "1 'stablehlo.multiply' of shape 2x4, none in the "
            f"{'float' if is_swapped else 'quantized'} model",
        ),
    }
    model = parse_module(NORMALIZED)
    both = compare(model, model, samples(2, 4))
    assert [value.op for value in both.layers] == [
        "stablehlo.dot_general",
        "stablehlo.multiply",
        "stablehlo.add",
        "stablehlo.tanh",
    ]


def test_ops_with_other_attributes_are_not_compared():
    other = RELU.replace("NONE", "RELU6").replace("tfl.relu", "tfl.abs")
    with pytest.warns(UserWarning, match="^no matching values of ops: "):
        found = compare(parse_module(RELU), parse_module(other), samples(4))
    difference = (
        '\'fused_activation_function\' is "NONE" in the float model, else "RELU6"'
    )
    assert [(each.model, each.op, each.reason) for each in found.unmatched] == [
        ("float", "tfl.add", difference),
        ("float", "tfl.relu", "1 'tfl.relu' of shape 4, none in the quantized model"),
        ("quantized", "tfl.add", difference),
        ("quantized", "tfl.abs", "1 'tfl.abs' of shape 4, none in the float model"),
    ]


CHAIN = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "tfl.add"(%x, %x) <{fused_activation_function = "NONE"}>
    : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = "tfl.tanh"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = "tfl.add"(%b, %x) <{fused_activation_function = "NONE"}>
    : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  EXTRA
  return %c : tensor<4xf32>
}
"""
EXTRA = """
  %d = "tfl.abs"(%c) : (tensor<4xf32>) -> tensor<4xf32>
  %e = "tfl.add"(%d, %x) <{fused_activation_function = "NONE"}>
    : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
"""


def test_positions_between_matched_values():
    """The adds before the `tanh` match, those after it are too many."""
    one, other = (parse_module(CHAIN.replace("EXTRA", text)) for text in ("", EXTRA))
    found = compare(one, other, samples(4))
    assert [value.name for value in found.values] == [
        "main:tfl.add:0",
        "main:tfl.tanh:0",
    ]
    assert [(each.name, each.reason) for each in found.unmatched] == [
        ("main:tfl.add:1", "2 'tfl.add' of shape 4, 3 in the quantized model"),
        ("main:tfl.add:1", "3 'tfl.add' of shape 4, 2 in the float model"),
        ("main:tfl.abs:0", "1 'tfl.abs' of shape 4, none in the float model"),
        ("main:tfl.add:2", "3 'tfl.add' of shape 4, 2 in the float model"),
    ]
    lines = str(found).splitlines()
    assert [line.split("  ")[0] for line in lines[4:8]] == [
        "not compared",
        "main:tfl.add:1",
        "main:tfl.add:1",
        "main:tfl.abs:0",
    ]
    assert "and 1 more" in lines[6]


def test_a_float_model_of_another_dialect():
    """The products of StableHLO match the fused ops of TensorFlow Lite."""
    model = NETWORKS["mlp"]
    x = model.samples(8)
    quantized = quantize(model.tfl_text(), x, PLAIN)
    expected = compare(model.tfl_text(), quantized, x)
    found = compare(model.stablehlo_text(), quantized, x)
    assert [value.sqnr for value in found.layers] == pytest.approx(
        [value.sqnr for value in expected.layers], abs=0.01
    )
    assert len(found.layers) == 3
    assert {each.reason for each in found.unmatched} == {"fused in the other model"}


def test_a_file_of_another_quantizer():
    """`litert-quantizer` wrote the quantized file from the float file."""
    paths = "docs/examples/wine.tflite", f"{DATA}/wine_litert_quantizer.tflite"
    with np.load("docs/examples/wine_test.npz") as data:
        x: Floats = data["x"]
    found = compare(*paths, x)
    assert [(v.name, v.storage, v.is_by_name) for v in found.layers] == [
        ("tfl.fully_connected", "i8", True),
        ("tfl.fully_connected1", "i8", True),
        ("y:0", "i8", True),
    ]
    exact, actual = (LiteRT(Path(path).read_bytes()) for path in paths)
    scale, zero_point = actual.details()[0]["quantization"]
    stored: Floats = np.clip(np.round(x / np.float32(scale)) + zero_point, -128, 127)
    scale, zero_point = actual.details()[1]["quantization"]
    expected = np.concatenate([exact.run(row[None])[0] for row in x])
    results = [actual.run(row[None])[0] for row in stored.astype(np.int8)]
    error = (np.concatenate(results) - np.float32(zero_point)) * np.float32(scale)
    assert found.results["main:output:0"] == pytest.approx(
        sqnr(expected, error), abs=1e-3
    )


def test_dynamic_floats_and_static_quantized_arguments():
    static = parse_module("""
!q = !quant.uniform<i8:f32, 0.0625>
func.func @main(%x: tensor<4x!q>) -> tensor<4x!q> {
  return %x : tensor<4x!q>
}""")
    dynamic = """
func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}"""
    same = dynamic.replace("?", "4")
    data = samples(8)
    assert compare(dynamic, static, data).results == compare(same, static, data).results


ORDERED = """
func.func @main(%{0}: tensor<4xf32>, %{1}: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>)
    attributes {{tf.entry_function = {{inputs = "{0},{1}", outputs = "{2},{3}"}}}} {{
  %s = arith.addf %a, %b : tensor<4xf32>
  %t = arith.subf %a, %b : tensor<4xf32>
  return %{2}, %{3} : tensor<4xf32>, tensor<4xf32>
}}
"""


def test_arguments_and_results_in_another_order():
    """Some tools reorder them, and keep their names."""
    models = ORDERED.format(*"abst"), ORDERED.format(*"bats")
    found = compare(*models, [(samples(4), samples(4, seed=1))])
    assert found.results == {"main:output:0": math.inf, "main:output:1": math.inf}
    assert [value.sqnr for value in found.values] == [math.inf] * 2


def test_layers_that_add_most_error():
    found = compare(
        parse_module(dense_layers()),
        quantize(dense_layers(), samples(8, 6)),
        samples(8, 6),
    )
    added = [
        max(0.0, 10 ** (-value.sqnr / 10) - 10 ** (-value.input_sqnr / 10))
        for value in found.layers
    ]
    assert [value.added_noise for value in found.layers] == pytest.approx(added)
    (worst,) = found.worst
    assert worst.added_noise == max(added) > 0
    marked = [line for line in str(found).splitlines()[1:4] if line.endswith("*")]
    assert [line.split()[0] for line in marked] == [worst.name]


def test_values_by_their_names():
    # The cast has the name of the tensor, too.
    one = with_names(RELU, {"y": "sum", "z": "activation"})
    other = with_names(FUSED, {"y": "activation", "z": "activation"})
    found = compare(one, other, samples(4))
    (value,) = found.values
    assert (value.name, value.op, value.quantized_op, value.storage) == (
        "activation",
        "tfl.relu",
        "tfl.add",
        "i8",
    )
    assert value.sqnr == found.results["main:output:0"]
    assert re.match(
        r"activation  tfl\.relu -> tfl\.add  i8 +\d", str(found).splitlines()[1]
    )


def test_values_of_other_sizes_are_not_compared():
    other = FLOAT.replace("%c : ", "%e : ").replace(
        "  %y =",
        "  %e = tensor.extract_slice %c[0] [4] [1] : tensor<8xf32> to tensor<4xf32>\n"
        "  %y =",
    )
    other = other.replace(
        "dense<[0.25, 0.5, -0.75, 0.5]> : tensor<4xf32>", "dense<0.5> : tensor<8xf32>"
    )
    found = compare(parse_module(FLOAT), parse_module(other), samples(4))
    assert [value.op for value in found.values] == ["arith.mulf", "arith.addf"]
    assert found.only_float == {"arith.constant": 1}
    assert found.only_quantized == {"arith.constant": 1, "tensor.extract_slice": 1}


LOOP = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %start = arith.constant 0 : index
  %end = arith.constant COUNT : index
  %step = arith.constant 1 : index
  %r = scf.for %i = %start to %end step %step iter_args(%v = %x) -> (tensor<4xf32>) {
    %y = arith.addf %v, %x : tensor<4xf32>
    scf.yield %y : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}
"""


@pytest.mark.parametrize(("count", "text"), [(0, "-"), (3, "exact")])
def test_values_in_loops(count: int, text: str):
    module = parse_module(LOOP.replace("COUNT", str(count)))
    found = compare(module, module, samples(4))
    rows = [line.split() for line in str(found).splitlines()[1:3]]
    assert rows == [
        ["main:scf.for:0", "scf.for", "float", "exact", "-", "-"],
        ["main:arith.addf:0", "arith.addf", "float", text, "-", "-"],
    ]
    assert json.loads(found.json())["values"][1]["sqnr"] is None


def test_models_without_floats():
    module = a_function(
        "tensor<4xi8>", "tensor<4xi8>", "%y = arith.addi %x, %x : tensor<4xi8>"
    )
    with pytest.raises(
        ValueError,
        match=r"^found no float value that both models have; ",
    ):
        compare(module, module, np.ones(4, np.int8))


def test_functions_that_are_called():
    text = """
func.func @{name}(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %w = arith.negf %x : tensor<4xf32>
  %y = func.call @layer(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}}
""" + FLOAT.replace("@main", "private @layer")
    one, other = (
        parse_module(text.replace("{name}", name).replace("{{", "{").replace("}}", "}"))
        for name in ("main", "other")
    )
    found = compare(one, other, samples(4))
    # In the order of execution.
    assert [value.name for value in found.values] == [
        "main:arith.negf:0",
        "layer:arith.constant:0",
        "layer:arith.mulf:0",
        "layer:arith.addf:0",
        "main:func.call:0",
    ]


def test_progress():
    module = parse_module(FLOAT)
    seen: list[tuple[int, int | None]] = []

    def progress(batches: Iterable[Batch], count: int | None) -> Iterable[Batch]:
        for number, batch in enumerate(batches):
            seen.append((number, count))
            yield batch

    compare(module, module, samples(8), progress=progress)
    assert seen == [(0, 2), (1, 2)]


def test_dynamic_and_static_sizes():
    """The model that says how many rows it takes decides, whichever it is."""
    dynamic = parse_module(dense_layers("?"))
    static = parse_module(dense_layers(4))
    for models in ((dynamic, static), (static, dynamic)):
        results = compare(*models, samples(8, 6)).results
        assert results == {"main:output:0": math.inf}


def test_json():
    found = compare(parse_module(FLOAT), parse_module(QDQ), samples(4))
    content = json.loads(found.json())
    names = "values results only_float only_quantized accuracy unmatched"
    assert " ".join(content) == names
    assert content["accuracy"] is None
    assert content["values"][0] == {
        "name": "main:arith.constant:0",
        "op": "arith.constant",
        "quantized_op": "arith.constant",
        "storage": "",
        "sqnr": found.values[0].sqnr,
        "input_sqnr": None,
        "signal": 1.125,
        "noise": 0.0625,
        "is_constant": True,
        "is_by_name": False,
        "weight_sqnr": None,
        "match": "position",
    }


ONE_RESULT = "func.func @main(%x: {0}) -> {1} {{\n  {2}\n  return %y : {1}\n}}"


def a_function(argument: str, result: str, body: str) -> ModuleOp:
    return parse_module(ONE_RESULT.format(argument, result, body))


@pytest.mark.parametrize(
    ("argument", "result", "body", "message"),
    [
        (
            "tensor<4xi8>",
            "tensor<4xf32>",
            "%y = arith.sitofp %x : tensor<4xi8> to tensor<4xf32>",
            "argument 0 has type 'tensor<4xi8>' in the quantized model and type "
            "'tensor<4xf32>' in the float model; compare models with floats or quantized "
            "types, which have scales",
        ),
        (
            "tensor<4xf32>",
            "tensor<4xi8>",
            "%y = arith.fptosi %x : tensor<4xf32> to tensor<4xi8>",
            "result 0 has type 'tensor<4xi8>' in the quantized model and type "
            "'tensor<4xf32>' in the float model; compare models with floats or quantized "
            "types, which have scales",
        ),
        (
            "tensor<2x2xf32>",
            "tensor<4xf32>",
            "%y = tensor.collapse_shape %x [[0, 1]]"
            " : tensor<2x2xf32> into tensor<4xf32>",
            "argument 0 has type 'tensor<2x2xf32>' in the quantized model and "
            "type 'tensor<4xf32>' in the float model; compare models with arguments of the "
            "same sizes",
        ),
        (
            "tensor<4xf32>, %z: tensor<4xf32>",
            "tensor<4xf32>",
            "%y = arith.negf %x : tensor<4xf32>",
            "expected 1 argument as in the float model, found 2 in the quantized model",
        ),
        (
            "tensor<4xf32>",
            "tensor<2x2xf32>",
            "%y = tensor.expand_shape %x [[0, 1]] output_shape [2, 2]"
            " : tensor<4xf32> into tensor<2x2xf32>",
            "output:0 has shape [4] in the float model and [2, 2] in the quantized one; "
            "compare models of the same sizes",
        ),
    ],
)
def test_models_that_do_not_fit(argument: str, result: str, body: str, message: str):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        compare(parse_module(FLOAT), a_function(argument, result, body), samples(4))


def test_models_as_text_files_and_results_of_quantize(tmp_path: Path):
    path, x = tmp_path / "model.mlir", samples(8, 6)
    path.write_text(dense_layers())
    quantized = quantize(path, x, replace(PLAIN, mode="weight-only"))
    expected = compare(parse_module(dense_layers()), quantized.module, x)
    assert compare(dense_layers(), quantized, x) == expected
    assert compare(str(path), quantized.module, x) == expected
    assert inspect(quantized) == inspect(str(quantized.module))
    assert inspect(quantized) == inspect(quantized.module)
    none: Any = None
    message = (
        "model must be a module, MLIR text, bytes or the path of a file, not NoneType"
    )
    for call in (lambda: inspect(none), lambda: compare(path, none, x)):
        with pytest.raises(TypeError, match=f"^{message}$"):
            call()


def test_models_that_are_swapped():
    message = (
        "the first model is quantized and the second model is not: found 'quant.qcast' "
        "with a quantized result; pass the float model first"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        compare(QDQ, FLOAT, samples(8))
    # Two quantized models may be compared as well.
    assert compare(QDQ, QDQ, samples(8)).results == {"main:output:0": math.inf}


def test_models_without_a_common_value():
    message = (
        "no matching values of ops: found 3 in the float model and 1 in the quantized "
        "model; compare models with the same ops or location names"
    )
    other = a_function(
        "tensor<4xf32>", "tensor<4xf32>", "%y = arith.negf %x : tensor<4xf32>"
    )
    with pytest.warns(UserWarning, match=f"^{message}$"):
        assert not compare(FLOAT, other, samples(8)).values
