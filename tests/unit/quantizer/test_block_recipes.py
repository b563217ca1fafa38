"""Weights with a scale for each block, in TensorFlow Lite files and in StableHLO."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from tests.unit.frontends.tflite import files
from tests.unit.frontends.tflite.lowering.test_blockwise_kernels import (
    assert_close,
    default_kernels,
)
from xdsl_quant.dialects.quant import BlockScaledQuantizedType
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.files.reader import read_tflite_model
from xdsl_quant.inspecting.comparison import compare
from xdsl_quant.quantizer import (
    QuantizedModel,
    Recipe,
    RecipeError,
    WeightOptions,
    quantize,
    read_recipe,
)

from .models import dense_layers, samples

Floats = NDArray[np.float32]

MODEL = Path(files.__path__[0]) / "recipes" / "float.tflite"
"""Two fully connected layers of 64 inputs, and a lookup in a table of 64 columns."""

RNG = np.random.default_rng(5)
DATA = {
    "x": RNG.normal(size=(8, 64)).astype(np.float32),
    "ids": RNG.integers(0, 3, 8, np.int32),
}


class SavedModel(NamedTuple):
    """A model with blocks of 32 weights of 4 bits, and its file."""

    model: QuantizedModel
    path: Path


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> SavedModel:
    recipe = replace(read_recipe("int4-blocks-32"), bias_correction=False)
    path = tmp_path_factory.mktemp("blocks") / "model.tflite"
    model = quantize(MODEL, DATA, recipe)
    model.save(path)
    return SavedModel(model, path)


def block_types(module: ModuleOp) -> Sequence[BlockScaledQuantizedType]:
    return [
        type_
        for op in module.walk()
        if op.name == "tfl.pseudo_qconst"
        and isinstance(
            type_ := scalar_or_element_type(op.results[0].type),
            BlockScaledQuantizedType,
        )
    ]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("mode", ["dynamic-range", "weight-only"])
@pytest.mark.parametrize("name", ["int4-blocks-32", "int4-blocks-64", "int2-blocks-32"])
@pytest.mark.filterwarnings("ignore:low SQNR")
def test_litert_and_compiled_code_agree(name: str, mode: str, tmp_path: Path):
    recipe, path = replace(read_recipe(name), mode=mode), tmp_path / "model.tflite"
    model = quantize(MODEL, DATA, recipe)
    model.save(path)
    imported = read_tflite(path)
    types = block_types(imported)
    assert types == block_types(model.module)
    assert [str(type_.storage_type) for type_ in types] == [f"i{name[3]}"] * 3
    x, ids = DATA["x"][:2], DATA["ids"][:2]
    results = compile(imported)(x, ids)
    for result, other in zip(results, compile(model.module)(x, ids), strict=True):
        np.testing.assert_array_equal(result, other)
    if name.startswith("int2") and mode == "dynamic-range":
        # LiteRT has no such kernel.
        return
    arguments = [x, ids]
    for result, expected in zip(
        results, default_kernels(path.read_bytes(), *arguments), strict=True
    ):
        if mode == "dynamic-range":
            assert_close(result, expected)
        else:
            # The order of float sums depends on the CPU.
            np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5)


def test_files_have_the_tensors_of_ai_edge_quantizer(saved: SavedModel):
    ours, theirs = (
        read_tflite_model(file.read_bytes(), file.name).subgraphs[0]
        for file in (saved.path, MODEL.with_name("dynamic_wi4b32_afp32.tflite"))
    )
    for name in ("weights", "table", "other_weights"):
        found, expected = (
            next(t for t in graph.tensors if t.name == name) for graph in (ours, theirs)
        )
        assert (found.type, [*found.shape]) == (expected.type, [*expected.shape])
        blocks, others = (
            t.quantization and t.quantization.blocks for t in (found, expected)
        )
        assert blocks
        assert others
        assert blocks.sizes == others.sizes
        assert blocks.scales.name == others.scales.name == f"{name}_scales"
        assert blocks.scales.type == others.scales.type
        assert blocks.zero_points is others.zero_points is None


def test_scales_are_numbers_of_bf16(saved: SavedModel):
    for type_ in block_types(saved.model.module):
        scales = type_.get_numbers()["scales"].astype(np.float32)
        assert not (scales.view(np.uint32) & 0xFFFF).any()
        assert type_.storage_range == (-8, 7)


def test_the_report_shows_what_stays_float():
    text = """
    func.func @main(%x: tensor<1x4x4x1xf32>) -> tensor<1x2xf32> {
      %w = arith.constant dense<0.5> : tensor<2x1x1x1xf32>
      %b = arith.constant dense<0.0> : tensor<2xf32>
      %y = "tfl.conv_2d"(%x, %w, %b) {dilation_h_factor = 1 : i32,
        dilation_w_factor = 1 : i32, stride_h = 1 : i32, stride_w = 1 : i32,
        padding = "SAME", fused_activation_function = "NONE"} : (tensor<1x4x4x1xf32>,
        tensor<2x1x1x1xf32>, tensor<2xf32>) -> tensor<1x4x4x2xf32>
      %s = arith.constant dense<[1, 32]> : tensor<2xi32>
      %r = "tfl.reshape"(%y, %s) : (tensor<1x4x4x2xf32>, tensor<2xi32>) -> tensor<1x32xf32>
      %v = arith.constant dense<0.25> : tensor<2x32xf32>
      %z = "tfl.fully_connected"(%r, %v, %b) {fused_activation_function = "NONE",
        keep_num_dims = false, weights_format = "DEFAULT"} : (tensor<1x32xf32>,
        tensor<2x32xf32>, tensor<2xf32>) -> tensor<1x2xf32>
      return %z : tensor<1x2xf32>
    }
    """
    x = RNG.normal(size=(4, 4, 4, 1)).astype(np.float32)
    report = quantize(text, x, "int4-blocks-32").report(x)
    convolution, product = report.kernels
    assert (convolution.kernel, convolution.weight_type) == ("tfl.conv_2d", "")
    assert product.weight_type.startswith("!quant.block_scaled<i4:f32:{0:1, 1:32}")
    # 64 weights of 4 bits, and two scales of 16 bits.
    assert (product.float_bytes, product.stored_bytes) == (256, 36)


@pytest.mark.parametrize(("largest", "is_float"), [(456_959.0, False), (5e5, True)])
def test_weights_beyond_the_scales_of_f16(largest: float, is_float: bool):
    """The largest stored value is 7, and the largest number of f16 and bf16 65,280."""
    weights = RNG.normal(size=(2, 2, 32)).astype(np.float32)
    weights[0, 1, 3] = -largest
    rows = [
        f'%w{i} = "tfl.pseudo_const"() <{{value = dense<{matrix.tolist()}> : '
        "tensor<2x32xf32>}> : () -> tensor<2x32xf32>\n"
        f'%y{i} = "tfl.fully_connected"(%x, %w{i}, %n) <{{fused_activation_function = '
        '"NONE", keep_num_dims = false, weights_format = "DEFAULT"}> : (tensor<1x32xf32>, '
        "tensor<2x32xf32>, none) -> tensor<1x2xf32>\n"
        for i, matrix in enumerate(weights)
    ]
    text = (
        "func.func @main(%x: tensor<1x32xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {\n"
        '%n = "tfl.no_value"() <{value}> : () -> none\n'
        f"{''.join(rows)}return %y0, %y1 : tensor<1x2xf32>, tensor<1x2xf32>\n}}"
    )
    x = RNG.normal(size=(4, 32)).astype(np.float32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        recipe = replace(read_recipe("int4-blocks-32"), bias_correction=False)
        types = block_types(quantize(text, x, recipe).module)
    assert len(types) == (1 if is_float else 2)
    assert [str(each.message) for each in caught] == [
        "module:4:1: 'tfl.fully_connected' op has a weight of 500000, expected at most "
        "456960 in blocks of 4 bits; its weights stay in floating point"
    ] * is_float


PARTIAL = Recipe(
    "mine",
    bias_correction=False,
    mode="dynamic-range",
    weights=WeightOptions(4, "block", 48, partial_blocks="float"),
)


def test_partial_blocks():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(
            ValueError, match=r"^recipe 'mine' keeps all weights in float"
        ):
            quantize(MODEL, DATA, PARTIAL)
    assert [str(each.message) for each in caught] == [
        f"loc(\"{name}\"): 'tfl.{op}' op has 64 weights along its blocks, expected a "
        "multiple of 48; they stay in floating point"
        for name, op in (
            ("y", "fully_connected"),
            ("rows", "embedding_lookup"),
            ("per_layer", "fully_connected"),
        )
    ]
    refused = replace(PARTIAL, weights=replace(PARTIAL.weights, partial_blocks="error"))
    with pytest.raises(ValueError, match="partial-blocks") as error:
        quantize(MODEL, DATA, refused)
    assert str(error.value) == (
        "loc(\"y\"): error: 'tfl.fully_connected' op has 64 weights along its blocks, "
        "expected a multiple of 48; use another 'block-size' or 'partial-blocks'"
    )
    resized = replace(
        PARTIAL, weights=replace(PARTIAL.weights, partial_blocks="resize")
    )
    types = block_types(quantize(MODEL, DATA, resized).module)
    assert {type_.block_size_info for type_ in types} == {((0, 1), (1, 64))}


def test_activations_always_have_zero_points():
    recipe = replace(read_recipe("int4-blocks-32"), asymmetric_inputs=False)
    with pytest.raises(RecipeError) as caught:
        quantize(MODEL, DATA, recipe)
    assert str(caught.value) == (
        "recipe 'int4-blocks-32': 'asymmetric-inputs' has no effect on "
        "'tfl.fully_connected', whose activations always have zero points; leave it out"
    )


def test_a_file_of_blocks_is_not_quantized_again(saved: SavedModel):
    with pytest.raises(ValueError, match=r"^the model is already quantized"):
        quantize(saved.path, DATA, "int4-blocks-32")


@pytest.mark.sampled(0)
def test_gptq():
    recipe = replace(read_recipe("int4-blocks-32"), bias_correction=False)
    gptq = replace(recipe, weights=replace(recipe.weights, rounding="gptq"))
    data = {name: np.repeat(array, 8, 0) for name, array in DATA.items()}
    nearest, rounded = (
        quantize(MODEL, data, each).report(data).kernels[0].sqnr
        for each in (recipe, gptq)
    )
    assert rounded > nearest + 1


def test_stablehlo():
    """Weights have sub-channel types, which products dequantize."""
    x, blocks = samples(8, 6), WeightOptions(4, "block", 2, "mse", narrow_range=False)
    recipe = Recipe("mine", mode="weight-only", weights=blocks, bias_correction=False)
    model = quantize(dense_layers(), x, recipe)
    assert "!quant.uniform<i4:f32:{0:2, 1:1}" in str(model.module)
    narrow = replace(recipe, weights=replace(blocks, narrow_range=True))
    assert model.report(x).kernels[0].weight_sqnr >= (
        quantize(dense_layers(), x, narrow).report(x).kernels[0].weight_sqnr
    )


def test_comparison_of_weights(saved: SavedModel):
    found = [each.weight_sqnr for each in compare(MODEL, saved.path, DATA).layers]
    expected = [each.weight_sqnr for each in saved.model.report(DATA).kernels]
    assert found == pytest.approx(expected, rel=1e-6)
    with pytest.raises(ValueError, match="pass the float model first"):
        compare(saved.path, MODEL, DATA)


def test_lookups_do_not_shift_the_products_of_static_kernels():
    """The second product follows a lookup in a constant table."""
    stored: list[dict[str, str]] = []
    for rounding in ("nearest", "gptq"):
        recipe = Recipe(bias_correction=False, weights=WeightOptions(rounding=rounding))
        module = quantize(MODEL, DATA, recipe).module
        stored.append(
            {
                str(op.location): str(op.properties["value"])
                for op in module.walk()
                if op.name == "tfl.pseudo_qconst"
                and "xi8" in str(op.properties["value"])
            }
        )
    changed = {name for name, value in stored[0].items() if stored[1][name] != value}
    assert changed == {'loc("weights")', 'loc("other_weights")'}
