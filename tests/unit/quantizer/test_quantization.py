"""Models that are quantized in one call."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.dialects.quant import UniformQuantizedType
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.execution import compile
from xdsl_quant.quantizer import (
    Override,
    QuantizedModel,
    Recipe,
    RecipeError,
    StaticModel,
    quantize,
    read_recipe,
)
from xdsl_quant.quantizer.samples import DataError
from xdsl_quant.runtime.batches import Batch
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

from .models import (
    PLAIN,
    TO_LINALG,
    Floats,
    dense_layers,
    samples,
    static_model,
    text_of,
)


def run(module: ModuleOp, x: Floats) -> Floats:
    module = module.clone()
    apply_passes(module, TO_LINALG)
    return compile(module)(x)


def stored_types(model: QuantizedModel) -> list[str]:
    """The types of what the ops give, in the order of the text."""
    return [
        str(type_)
        for op in model.module.walk()
        for result in op.results
        if isinstance(
            type_ := scalar_or_element_type(result.type), UniformQuantizedType
        )
    ]


def float_ops(model: StaticModel) -> list[str]:
    return [op.op for op in model.propagation.float_ops]


def test_a_model_becomes_quantized_ops():
    data = samples(16, 6)
    model = static_model(dense_layers(), data)
    assert model.target.name == "stablehlo-int8"
    assert model.kernel_count == 3
    assert float_ops(model) == []
    expected = run(parse_module(dense_layers()), data[:4])
    actual = run(model.module, data[:4])
    noise = np.square(expected - actual).sum() / np.square(expected).sum()
    assert noise < 1e-3
    assert not np.array_equal(expected, actual)


def test_the_input_range_decides_the_scale():
    data = samples(16, 6)
    model = static_model(dense_layers(), data)
    low, high = float(data.min()), float(data.max())
    assert model.statistics.ranges("main:argument:0").layer == (low, high)
    scale = (high - low) / 255
    assert stored_types(model)[0].startswith(f"!quant.uniform<i8:f32, {scale:.6f}"[:28])


def test_a_model_is_not_changed():
    module = parse_module(dense_layers())
    before = str(module)
    quantize(module, samples(8, 6))
    assert str(module) == before


def test_the_forms_of_a_model(tmp_path: Path):
    path = tmp_path / "model.mlir"
    path.write_text(dense_layers())
    data = samples(8, 6)
    texts = {
        str(quantize(model, data).module)
        for model in (dense_layers(), path, str(path), parse_module(dense_layers()))
    }
    assert len(texts) == 1


def test_workers_and_a_checkpoint_give_the_same(tmp_path: Path):
    data = samples(16, 6)
    expected = str(quantize(dense_layers(), data).module)
    with ThreadPoolExecutor(2) as executor:
        model = quantize(dense_layers(), data, executor=executor)
    assert str(model.module) == expected
    checkpoint = tmp_path / "checkpoint"
    for _ in range(2):
        model = quantize(dense_layers(), data, checkpoint=checkpoint)
        assert str(model.module) == expected


def test_progress_is_told_of_all_batches():
    told: list[int | None] = []

    def progress(batches: Iterable[Batch], count: int | None) -> Iterable[Batch]:
        told.append(count)
        yield from batches

    quantize(dense_layers(), samples(16, 6), progress=progress)
    assert told == [4]


# Overrides


def test_a_kernel_that_stays_in_floating_point():
    recipe = Recipe(overrides=(Override(ops=("stablehlo.tanh",), keep_float=True),))
    model = static_model(dense_layers(), samples(8, 6), recipe)
    assert model.kernel_count == 3
    assert float_ops(model) == ["stablehlo.tanh"]
    # Its result is quantized for the next kernel.
    assert not model.propagation.float_values


def test_a_kernel_by_its_location():
    recipe = Recipe(overrides=(Override(locations=(r":8:\d",), keep_float=True),))
    model = static_model(dense_layers(), samples(8, 6), recipe)
    assert float_ops(model) == ["stablehlo.dot_general"]
    assert model.propagation.float_ops[0].location == "module:8:3"


def test_a_value_that_is_not_quantized():
    override = Override(values=("main:stablehlo.tanh:*",), keep_float=True)
    model = static_model(dense_layers(), samples(8, 6), Recipe(overrides=(override,)))
    reasons = {value.name: value.float_reason for value in model.propagation.values}
    assert reasons["%t"] == "kept by '!quant.none<f32>'"


def test_an_observer_of_a_value_and_of_the_result_of_a_kernel():
    data = samples(128, 6)
    plain = static_model(dense_layers(), data, PLAIN)
    for override, index in (
        (Override(values=("main:argument:0",), observer="percentile=80"), 0),
        (Override(ops=("stablehlo.dot_general",), observer="percentile=80"), 1),
    ):
        model = static_model(
            dense_layers(), data, replace(PLAIN, overrides=(override,))
        )
        before, after = (
            [value.parameters for value in each.propagation.values if value.parameters]
            for each in (plain, model)
        )
        changed = [a != b for a, b in zip(before, after, strict=True)]
        assert changed.index(True) == [0, 2][index]


def test_bits_of_weights_that_a_target_has():
    x, w, b = "tensor<4x8xf32>", "tensor<3x8xf32>", "tensor<3xf32>"
    rng = np.random.default_rng(0)
    rows = [[float(f"{v:.6f}") for v in row] for row in rng.normal(0, 1, (3, 8))]
    text = f"""
func.func @main(%x: {x}) -> tensor<4x3xf32> {{
  %w = arith.constant dense<{rows}> : {w}
  %b = arith.constant dense<0.5> : {b}
  %y = "tfl.fully_connected"(%x, %w, %b) {{keep_num_dims = false,
    weights_format = "DEFAULT", fused_activation_function = "NONE"}}
    : ({x}, {w}, {b}) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}}
"""
    data = samples(8, 8)

    def weight_type(bits: int | None) -> str:
        overrides = (Override(ops=("tfl.*",), weight_bits=bits),) if bits else ()
        model = static_model(text, data, Recipe(overrides=overrides))
        (found,) = [v for v in model.propagation.values if v.name == "%w"]
        return str(found.parameters).partition(":f32")[0]

    assert weight_type(None) == weight_type(8) == "!quant.uniform<i8<-127:127>"


def test_bits_of_weights_that_a_target_lacks():
    override = Override(locations=(r"model\.mlir:8",), weight_bits=16)
    module = parse_module(dense_layers(), "model.mlir")
    with pytest.warns(UserWarning, match="16 bits") as caught:
        model = static_model(module, samples(8, 6), Recipe(overrides=(override,)))
    assert [str(each.message) for each in caught] == [
        "model.mlir:8:3: kernel 'stablehlo.dot_general' stays in floating point: no "
        "signature with weights of 16 bits in target 'stablehlo-int8'; use fewer bits or "
        "another target"
    ]
    assert [each.location for each in model.propagation.float_kernels] == [
        "model.mlir:8:3"
    ]


def test_a_target_without_the_activations_of_the_recipe():
    data = samples(8, 6)
    with pytest.warns(UserWarning, match="16 bits") as caught:
        model = quantize(dense_layers(), data, "int16x8", target="mac-array")
    assert [str(each.message) for each in caught] == [
        "recipe 'int16x8' expects activations of 16 bits, found 8 in target "
        "'mac-array'; leave the target out, or use another recipe"
    ]
    plain = quantize(dense_layers(), data, target="mac-array")
    assert str(model.module) == str(plain.module)


def test_a_target_of_a_frontend_that_is_missing():
    data, int8 = samples(8, 6), read_recipe("int8")
    recipe = replace(int8, targets=("of-a-frontend", "stablehlo-int8"))
    with pytest.warns(UserWarning, match=r"^unknown target 'of-a-frontend'") as caught:
        model = quantize(dense_layers(), data, recipe)
    assert str(caught[0].message).endswith("; trying the other targets of the recipe")
    assert str(model.module) == str(quantize(dense_layers(), data, int8).module)
    recipe = replace(int8, targets=("of-a-frontend",))
    with pytest.raises(ValueError, match=r"^unknown target 'of-a-frontend', available"):
        quantize(dense_layers(), data, recipe)


def test_later_overrides_count_more():
    overrides = (
        Override(ops=("*",), keep_float=True),
        Override(ops=("stablehlo.dot_general",), keep_float=False),
    )
    data = samples(8, 6)
    model = static_model(dense_layers(), data, Recipe(overrides=overrides))
    assert float_ops(model) == ["stablehlo.tanh"]
    values = (
        Override(values=("*",), keep_float=True),
        Override(values=("*",), keep_float=False),
    )
    model = static_model(dense_layers(), data, Recipe(overrides=values))
    assert str(model.module) == str(quantize(dense_layers(), data).module)
    recipe = replace(PLAIN, overrides=overrides, mode="weight-only")
    weights = quantize(dense_layers(), data, recipe)
    plain = quantize(dense_layers(), data, replace(PLAIN, mode="weight-only"))
    assert str(weights.module) == str(plain.module)


@pytest.mark.sampled(0)
def test_a_report_of_bfloat16_and_of_a_function_that_is_not_called():
    text = dense_layers("?")
    other = text.replace("@main", "@other")
    data = samples(8, 6)
    kernels = quantize(text + other, data, PLAIN).report(data).kernels
    assert [kernel.result_type[:15] for kernel in kernels] == [
        *["!quant.uniform<"] * 3,
        *[""] * 3,
    ]
    first, *_, last = kernels
    assert (first.float_bytes, first.stored_bytes) == (192, 48)
    assert (last.float_bytes, last.stored_bytes) == (96, 96)
    assert np.isnan([last.sqnr, last.own_sqnr, last.weight_sqnr]).all()
    bf16 = text.replace("f32", "bf16")
    rows = data.astype(ml_dtypes.bfloat16)
    report = quantize(bf16, rows, PLAIN).report(rows)
    assert (report.float_bytes, report.stored_bytes) == (144, 72)
    row = str(report).splitlines()[1].split()
    assert row[0] == "stablehlo.dot_general"
    assert row[2:4] == ["i8", "i8<-127:127>"]


# Mistakes


def test_nothing_that_can_be_quantized():
    data = samples(8, 6)
    recipe = Recipe(overrides=(Override(ops=("*",), keep_float=True),))
    with pytest.raises(RecipeError) as caught:
        quantize(dense_layers(), data, recipe)
    assert str(caught.value) == (
        "recipe 'int8' keeps all kernels in floating point, expected one or more "
        "quantized kernels"
    )
    recipe = Recipe(overrides=(Override(values=("*",), keep_float=True),))
    with pytest.raises(ValueError, match="can be quantized") as found:
        quantize(dense_layers(), data, recipe)
    assert str(found.value) == (
        "no kernel of 'stablehlo-int8' can be quantized, the first one stays in floating "
        "point: no signature of kernel 'stablehlo.dot_general' accepts operand 0 as "
        "'!quant.none<f32>'"
    )


@pytest.mark.parametrize("recipe", ["int8", "int8-weights"])
def test_a_model_that_is_quantized_already(recipe: str):
    data = samples(8, 6)
    model = quantize(dense_layers(), data)
    with pytest.raises(ValueError, match="already quantized") as caught:
        quantize(model.module, data, recipe)
    assert str(caught.value) == (
        "the model is already quantized: found 'stablehlo.uniform_quantize' with a "
        "quantized operand or result; quantize the original float model"
    )


@pytest.mark.parametrize("recipe", ["int8", "int8-weights", "dynamic-range"])
def test_a_model_of_integers(recipe: str):
    text = """
func.func @main(%x: tensor<2x3xi8>) -> tensor<2x3xi8> {
  %y = stablehlo.add %x, %x : tensor<2x3xi8>
  return %y : tensor<2x3xi8>
}
"""
    with pytest.raises(ValueError, match="floats") as caught:
        quantize(text, np.zeros((2, 3), np.int8), recipe)
    assert str(caught.value) == "expected a float model, found no floats"


def test_samples_that_are_all_the_same():
    with pytest.warns(UserWarning, match="constant samples") as caught:
        quantize(dense_layers(), np.full((8, 6), 0.5, np.float32))
    assert [str(each.message) for each in caught] == [
        "data: constant samples: every value is 0.5; use real inputs, or ranges and "
        "errors are meaningless"
    ]


@pytest.mark.parametrize(
    ("name", "is_written"),
    [("m.pb", False), ("m.MLIR", True), ("m", True), ("m.txt", False)],
)
def test_files_of_other_kinds(name: str, is_written: bool, tmp_path: Path):
    model = quantize(dense_layers(), samples(8, 6))
    path = tmp_path / name
    if is_written:
        model.save(path)
        assert path.read_text() == f"{model.module!s}\n"
        return
    with pytest.raises(ValueError, match="expected") as caught:
        model.save(path)
    assert str(caught.value) == f"{path}: expected a .mlir, .onnx or .tflite file"
    assert not path.exists()


def test_an_override_that_selects_nothing():
    for override, message in (
        (
            Override(ops=("stablehlo.tan",), keep_float=True),
            "recipe 'int8': 'stablehlo.tan' in 'ops' selects nothing in the model, maybe "
            "'stablehlo.tanh' was meant",
        ),
        (
            Override(values=("main:argument:1",), observer="mse=8"),
            "recipe 'int8': 'main:argument:1' in 'values' selects nothing in the model, "
            "maybe 'main:argument:0' was meant",
        ),
        (
            Override(locations=("^block",), keep_float=True),
            "recipe 'int8': '^block' in 'locations' selects nothing in the model",
        ),
    ):
        with pytest.raises(RecipeError) as caught:
            quantize(dense_layers(), samples(8, 6), Recipe(overrides=(override,)))
        assert str(caught.value) == message


def test_a_model_without_kernels():
    text = "func.func @main(%x: tensor<?x2xf32>) { return }"
    message = (
        "no op of the model has a kernel in 'tflite-int8', 'stablehlo-int8', found no "
        "float op"
    )
    with pytest.raises(ValueError, match=f"^{message}$"):
        quantize(text, samples(8, 2))


def test_a_suffix_in_capitals(tmp_path: Path):
    path = tmp_path / "LAYERS.MLIR"
    path.write_text(str(dense_layers()))
    assert static_model(path, samples(8, 6)).kernel_count == 3


def test_a_file_that_is_missing():
    with pytest.raises(IRError) as caught:
        quantize("missing.mlir", samples(8, 6))
    assert str(caught.value) == "missing.mlir: error: no such file or directory"


def test_a_model_with_state():
    x = "tensor<1x4xf32>"
    text = f"""
func.func @main(%x: {x}) -> {x} {{
  %h = "tfl.var_handle"() {{container = "", shared_name = "s"}}
    : () -> tensor<!tf_type.resource>
  %y = "tfl.tanh"(%x) : ({x}) -> {x}
  "tfl.assign_variable"(%h, %y) : (tensor<!tf_type.resource>, {x}) -> ()
  return %y : {x}
}}
"""
    message = "each batch starts with the initial state: found 'tfl.assign_variable'"
    with warnings.catch_warnings(record=True, action="always") as found:
        quantize(text, samples(4, 4))
    # The other warning is that the interpreter is used.
    assert str(found[0].message).startswith(message)


def test_a_pattern_of_a_file_that_selects_nothing(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(
        '[[overrides]]\nops = ["*"]\nobserver = "mse=8"\n[[overrides]]\nops = [\n'
        '  "stablehlo.tanh",\n  "stablehlo.tan"\n]\nkeep-float = true\n'
    )
    with pytest.raises(RecipeError) as caught:
        quantize(dense_layers(), samples(8, 6), path)
    assert str(caught.value) == (
        f"{path}:7: error: 'stablehlo.tan' in 'ops' selects nothing in the model, maybe "
        "'stablehlo.tanh' was meant"
    )


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("x.txt", "expected MLIR text or the name of a .mlir, .onnx or .tflite file"),
        ("model", "expected MLIR text or the name of a .mlir, .onnx or .tflite file"),
        (Path("x.txt"), "unknown kind of file, expected .mlir, .onnx or .tflite"),
    ],
)
def test_a_file_of_an_unknown_kind(model: str | Path, message: str):
    with pytest.raises(IRError) as caught:
        quantize(model, samples(8, 6))
    assert str(caught.value) == f"{model}: error: {message}"


def test_what_is_no_recipe_or_budget():
    none: Any = None
    number: Any = 1000
    with pytest.raises(TypeError) as caught:
        quantize(dense_layers(), samples(8, 6), none)
    assert str(caught.value) == (
        "recipe must be a recipe, the name of one or the path of a file, not NoneType"
    )
    with pytest.raises(TypeError) as caught:
        quantize(dense_layers(), samples(8, 6), "mixed", budget=number)
    assert str(caught.value) == (
        "budget must be a Budget or a string such as '20 kB', not int"
    )


@pytest.mark.parametrize(("model", "name"), [(None, "NoneType"), (3, "int")])
def test_what_is_no_model(model: Any, name: str):
    with pytest.raises(TypeError) as caught:
        quantize(model, samples(8, 6))
    assert str(caught.value) == (
        f"model must be a module, MLIR text, bytes or the path of a file, not {name}"
    )


def test_text_without_ops():
    with pytest.raises(IRError, match=r"^module: error: the text contains no op$"):
        quantize("", samples(8, 6))


def test_batches_that_are_not_finite():
    batches = [*samples(12, 6).reshape(3, 4, 6)]
    batches[2][1, 3] = np.nan
    for recipe in ("int8", "int4-weights"):
        with pytest.raises(DataError) as caught:
            quantize(dense_layers(), batches, recipe)
        assert str(caught.value) == (
            "batch 2, argument 0: non-finite value in row 1: nan; leave the sample out"
        )


def test_dask():
    """Statistics are those of one process, exactly."""
    distributed: Any = pytest.importorskip("distributed")
    data = samples(64, 6)
    expected = static_model(dense_layers(), data)
    with (
        distributed.Client(
            processes=False, n_workers=2, dashboard_address=None
        ) as client,
        client.get_executor() as executor,
    ):
        model = static_model(dense_layers(), data, executor=executor)
    assert model.statistics == expected.statistics
    assert str(model.module) == str(expected.module)


def shared_weights() -> str:
    """Two products with the same weights."""
    rng = np.random.default_rng(1)
    weights = text_of(rng.normal(0, 0.5, (6, 6)).astype(np.float32))
    return f"""
func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {{
  %w = stablehlo.constant() <{{value = {weights}}}> : () -> tensor<6x6xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
  %z = stablehlo.dot_general %y, %w, contracting_dims = [1] x [0]
    : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
  return %z : tensor<4x6xf32>
}}
"""


@pytest.mark.parametrize("recipe", ["int8", "int8-weights"])
def test_weights_that_are_shared_count_once(recipe: str):
    data = samples(8, 6)
    report = quantize(
        shared_weights(), data, replace(read_recipe(recipe), bias_correction=False)
    ).report(data)
    assert (report.float_bytes, report.stored_bytes) == (144, 36)
    first, second = report.kernels
    assert (first.float_bytes, first.stored_bytes) == (144, 36)
    assert (second.float_bytes, second.stored_bytes) == (0, 0)


def test_kernels_that_are_kept_in_floating_point_are_listed():
    examples = Path(__file__).parents[3] / "docs" / "examples"
    model, samples = examples / "wine.tflite", examples / "wine_samples.npz"
    x = np.load(samples)["x"][:16]
    whole = quantize(model, x, PLAIN).report(x)
    override = Override(locations=("y:0",), keep_float=True)
    recipe = replace(PLAIN, overrides=(override,))
    report = quantize(model, x, recipe).report(x)
    assert [each.kernel for each in report.kernels] == [
        each.kernel for each in whole.kernels
    ]
    assert [bool(each.result_type) for each in report.kernels] == [True, True, False]
    assert report.float_bytes == whole.float_bytes
    assert report.kernels[2].stored_bytes == report.kernels[2].float_bytes
