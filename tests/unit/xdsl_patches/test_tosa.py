"""Ops of TOSA with keywords in their text."""

from itertools import permutations

import pytest

from xdsl_quant.runtime.loading import IRError, parse_module

ENTRIES = {
    "kernel": "array<i64: 1, 1>",
    "pad": "array<i64: 0, 0, 0, 0>",
    "stride": "array<i64: 1, 1>",
}


@pytest.mark.parametrize("names", [*permutations(ENTRIES)])
def test_properties_are_in_the_order_of_the_text(names: tuple[str, ...]):
    entries = ", ".join(f"{name} = {ENTRIES[name]}" for name in names)
    module = parse_module(f"""
      func.func @f(%x: tensor<1x2x2x1xf32>) {{
        %y = tosa.max_pool2d %x {{{entries}, nan_mode = IGNORE}}
          : (tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
        return
      }}""")
    (pool,) = [op for op in module.walk() if op.name == "tosa.max_pool2d"]
    assert [*pool.properties] == [*names, "nan_mode"]


def _block_scaled(parameters: str) -> str:
    type_ = f"tensor<2x32x!tosa.block_scaled<{parameters}>>"
    return f"func.func private @f({type_})"


@pytest.mark.parametrize(
    ("scales", "expected"),
    [
        ("", ""),
        (", {1.0, 2.0}", ", {1.000000e+00, 2.000000e+00}"),
        (", \n { 1.0 ,2.0 }", ", {1.000000e+00, 2.000000e+00}"),
        # A text of six digits, a tie, and what is too small, as in MLIR.
        (", {1.701410e+38, 5.877470e-39}", ", {1.701412e+38, 5.877472e-39}"),
        (", {1.5, 0.75}", ", {2.000000e+00, 1.000000e+00}"),
        (", {0.0, 1.0e-50}", ", {5.877472e-39, 5.877472e-39}"),
    ],
)
def test_block_scaled_type(scales: str, expected: str):
    text = "BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN"
    assert f"{text}{expected}>>" in str(parse_module(_block_scaled(text + scales)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("BLOCK_SHAPE_32:f32:f4E2M1FN", "expected type 'f8E8M0FNU', got 'f32'"),
        ("BLOCK_SHAPE_32:f8E8M0FNU:i8", "expected a micro-scaling format number"),
        (
            "BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN, {1.0, -1.0}",
            "scale value must be from 0 to 2**127, got -1.000000e+00",
        ),
        ("BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN, {1.0, nan}", "got nan"),
        ("BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN, {1.0, }", "not convert string to float"),
        ("BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN, {1.0", "expected '}'"),
        ("BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN, 1.0", "Expected '{'"),
        (
            "BLOCK_SHAPE_32:f8E8M0FNU:f4E2M1FN, {3.0e38}",
            "scale value must be from 0 to 2**127, got 3.000000e+38",
        ),
    ],
)
def test_no_block_scaled_type(parameters: str, message: str):
    with pytest.raises(IRError) as e:
        parse_module(_block_scaled(parameters))
    assert message in str(e.value)
