"""Fake quantization of TensorFlow."""

import pytest

from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module


def module(low: str, high: str, options: str, suffix: str = "") -> str:
    size = "3x" if suffix else ""
    return f"""
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
  %a = "tf.Const"() {{value = dense<{low}> : tensor<{size}f32>}} : () -> tensor<{size}f32>
  %b = arith.constant dense<{high}> : tensor<{size}f32>
  %y = "tf.FakeQuantWithMinMaxVars{suffix}"(%x, %a, %b) {{{options}}}
    : (tensor<2x3xf32>, tensor<{size}f32>, tensor<{size}f32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}}
"""


def lite_module(low: str, high: str, bits: int, is_narrow: str) -> str:
    return f"""
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {{
  %y = "tfl.fake_quant"(%x) <{{min = {low} : f32, max = {high} : f32,
      num_bits = {bits} : i32, narrow_range = {is_narrow}}}>
    : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}}
"""


def casts(text: str) -> list[str]:
    converted = parse_module(text)
    apply_passes(converted, "tf-to-quant")
    return [line for line in str(converted).splitlines() if "cast" in line]


# The types are those of LiteRT's converter; `tests/oracles/fake_quantization.py` asks it.
@pytest.mark.parametrize(
    ("low", "high", "options", "suffix", "quantized"),
    [
        ("-1.0", "2.0", "num_bits = 8", "", "i8:f32, 0.011764705882352941:-43"),
        ("-1.0", "2.0", "", "", "i8:f32, 0.011764705882352941:-43"),
        (
            *("-1.0", "1.0", "num_bits = 7, narrow_range = true", ""),
            "i8<-127:127>:f32, 0.0078740157480314959",
        ),
        ("-1.0", "2.0", "num_bits = 4", "", "i4:f32, 2.000000e-01:-3"),
        ("-1.0", "2.0", "num_bits = 9", "", "i16:f32, 4.5777065690089265E-5:-10923"),
        ("1.0", "2.0", "num_bits = 8", "", "i8:f32, 0.0039215686274509803:-128"),
        ("0.0", "0.0", "num_bits = 8", "", "i8:f32, 3.9215686274509805E-9"),
        (
            *("[-1.0, -2.0, 0.0]", "[1.0, 0.5, 3.0]", "num_bits = 8", "PerChannel"),
            "i8:f32:1, {0.0078431372549019607:-1,0.0098039215686274508:76,"
            "0.011764705882352941:-128}",
        ),
    ],
)
def test_types(low: str, high: str, options: str, suffix: str, quantized: str):
    converted = parse_module(module(low, high, options, suffix))
    apply_passes(converted, "tf-to-quant")
    q = f"tensor<2x3x!quant.uniform<{quantized}>>"
    lines = [line.strip() for line in str(converted).splitlines()]
    assert f"%y = quant.qcast %x : tensor<2x3xf32> to {q}" in lines
    assert f"%y_1 = quant.dcast %y : {q} to tensor<2x3xf32>" in lines
    assert "tf.FakeQuant" not in str(converted)


@pytest.mark.parametrize("bits", [4, 8, 9])
@pytest.mark.parametrize("is_narrow", ["true", "false"])
@pytest.mark.parametrize(("low", "high"), [("-1.0", "2.0"), ("0.0", "0.0")])
def test_types_of_tensorflow_lite(low: str, high: str, bits: int, is_narrow: str):
    """They are the types of TensorFlow's op."""
    options = f"num_bits = {bits}, narrow_range = {is_narrow}"
    expected = casts(module(low, high, options))
    assert len(expected) == 2
    assert casts(lite_module(low, high, bits, is_narrow)) == expected


def test_infinite_range_of_tensorflow_lite():
    text = lite_module("-1.0", "0x7F800000", 8, "false")
    with pytest.raises(IRError, match="expected finite numbers as max"):
        apply_passes(parse_module(text), "tf-to-quant")


@pytest.mark.parametrize("element_type", ["i32", "!quant.uniform<i8:f32, 0.5>"])
def test_fake_quantization_of_stored_values(element_type: str):
    text = lite_module("-1.0", "2.0", 8, "false").replace("xf32>", f"x{element_type}>")
    with pytest.raises(IRError, match="expected tensors of one float type, found"):
        apply_passes(parse_module(text), "tf-to-quant")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "(%x, %a, %b)",
            "(%x, %c, %b)",
            "'tf.FakeQuantWithMinMaxVars' op cannot be converted: expected a constant min; "
            "fold the constants first",
        ),
        ("num_bits = 8", "num_bits = 17", "requires num_bits to be between 2 and 16"),
        ("num_bits = 8", "num_bits = 1", "requires num_bits to be between 2 and 16"),
        ("dense<1.0>", "dense<0x7F800000>", "expected finite numbers as min"),
    ],
)
def test_mistakes(old: str, new: str, message: str):
    text = module("1.0", "2.0", "num_bits = 8").replace(old, new)
    text = text.replace(
        "(%x: tensor<2x3xf32>)", "(%x: tensor<2x3xf32>, %c: tensor<f32>)"
    )
    with pytest.raises(IRError, match=message):
        apply_passes(parse_module(text), "tf-to-quant")


def test_ranks_of_ranges():
    text = module("1.0", "2.0", "num_bits = 8", "PerChannel")
    text = text.replace("3xf32>} : () -> tensor<3x", "f32>} : () -> tensor<")
    text = text.replace(
        "(tensor<2x3xf32>, tensor<3xf32>, ", "(tensor<2x3xf32>, tensor<f32>, "
    )
    with pytest.raises(IRError, match="requires min to be a 1d float tensor"):
        parse_module(text)
