"""Casts of other dialects are constraints, like those of the quant dialect."""

from __future__ import annotations

import pytest

from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

PARAMETERS = """
!a = !quant.uniform<i8:f32, 0.1>
!b = !quant.uniform<i8:f32, 0.2>
!w = !quant.uniform<i8<-127:127>:f32:0, {0.1, 0.3}>
"""
PIPELINE = (
    "quant-fuse-kernels{{target={0}}},quant-constraints-to-specs,"
    "quant-propagate{{target={0}}},quant-export"
)
QUANT = {
    "tfl.quantize": "quant.qcast",
    "tfl.dequantize": "quant.dcast",
    "stablehlo.uniform_quantize": "quant.qcast",
    "stablehlo.uniform_dequantize": "quant.dcast",
}

NETWORK = """
func.func @main(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
  %0 = "tfl.quantize"(%x) : (tensor<1x4xf32>) -> tensor<1x4x!a>
  %1 = "tfl.dequantize"(%0) : (tensor<1x4x!a>) -> tensor<1x4xf32>
  %w = "tfl.pseudo_const"() <{value = dense<1.5> : tensor<2x4xf32>}>
    : () -> tensor<2x4xf32>
  %2 = "tfl.quantize"(%w) : (tensor<2x4xf32>) -> tensor<2x4x!w>
  %3 = "tfl.dequantize"(%2) : (tensor<2x4x!w>) -> tensor<2x4xf32>
  %b = "tfl.pseudo_const"() <{value = dense<0.5> : tensor<2xf32>}> : () -> tensor<2xf32>
  %y = "tfl.fully_connected"(%1, %3, %b) <{
    asymmetric_quantize_inputs = false, fused_activation_function = "NONE",
    keep_num_dims = false, weights_format = "DEFAULT"
  }> : (tensor<1x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %4 = "tfl.quantize"(%y) : (tensor<1x2xf32>) -> tensor<1x2x!b>
  %5 = "tfl.dequantize"(%4) : (tensor<1x2x!b>) -> tensor<1x2xf32>
  return %5 : tensor<1x2xf32>
}
"""
SUM = """
func.func @main(%x: tensor<4xf32>) -> tensor<4x!b> {
  %0 = "stablehlo.uniform_quantize"(%x) : (tensor<4xf32>) -> tensor<4x!a>
  %1 = "stablehlo.uniform_dequantize"(%0) : (tensor<4x!a>) -> tensor<4xf32>
  %2 = stablehlo.add %1, %1 : tensor<4xf32>
  %3 = "stablehlo.uniform_quantize"(%2) : (tensor<4xf32>) -> tensor<4x!b>
  return %3 : tensor<4x!b>
}
"""


def with_types(text: str) -> str:
    """Set the property `qtype` of each `tfl.quantize`."""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if '"tfl.quantize"' in line:
            type_ = line.rpartition("-> ")[2]
            lines[i] = line.replace(") :", f") <{{qtype = {type_}}}> :", 1)
    return PARAMETERS + "\n".join(lines)


def converted(text: str, passes: str) -> str:
    module = parse_module(text)
    apply_passes(module, passes)
    module.verify()
    return str(module)


@pytest.mark.parametrize(
    ("target", "text"), [("tflite-int8", NETWORK), ("stablehlo-int8", SUM)]
)
def test_casts_of_a_dialect_give_the_same_kernels_as_quant_casts(
    target: str, text: str
):
    quant = text
    for name, cast in QUANT.items():
        quant = quant.replace(name, cast)
    found = converted(with_types(text), PIPELINE.format(target))
    assert found == converted(PARAMETERS + quant, PIPELINE.format(target))
    *_, before_return, _, _, _ = found.splitlines()
    assert "fully_connected" in found or "stablehlo.add" in before_return
    assert "quant.qcast" not in found


REQUANTIZATION = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "tfl.quantize"(%x) : (tensor<4xf32>) -> tensor<4x!a>
  %1 = "tfl.quantize"(%0) : (tensor<4x!a>) -> tensor<4x!b>
  %2 = "tfl.dequantize"(%1) : (tensor<4x!b>) -> tensor<4xf32>
  %3 = "tfl.relu"(%2) : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "tfl.quantize"(%3) : (tensor<4xf32>) -> tensor<4x!a>
  %5 = "tfl.dequantize"(%4) : (tensor<4x!a>) -> tensor<4xf32>
  return %5 : tensor<4xf32>
}
"""


def test_a_requantization_is_two_constraints():
    found = converted(with_types(REQUANTIZATION), PIPELINE.format("tflite-int8"))
    expected = with_types("""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "tfl.quantize"(%x) : (tensor<4xf32>) -> tensor<4x!a>
  %1 = "tfl.dequantize"(%0) : (tensor<4x!a>) -> tensor<4xf32>
  %2 = "tfl.quantize"(%1) : (tensor<4xf32>) -> tensor<4x!b>
  %3 = "tfl.relu"(%2) : (tensor<4x!b>) -> tensor<4x!a>
  %4 = "tfl.dequantize"(%3) : (tensor<4x!a>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}""")
    assert parse_module(found).is_structurally_equivalent(parse_module(expected))


KERNEL = """
  %k = quant.region "tfl.relu" (%a = %d : tensor<4xf32>{0}) -> (tensor<4xf32>) {{
    %r = "tfl.relu"(%a) : (tensor<4xf32>) -> tensor<4xf32>
    quant.return %r : tensor<4xf32>
  }}
"""


def test_casts_without_ports_keep_their_form():
    """So do requantizations, and casts for uses outside of kernels."""
    text = with_types(f"""
func.func @main(%x: tensor<4x!a>, %y: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4x!a>, tensor<4x!b>, tensor<4xf32>) {{
  %d = "tfl.dequantize"(%x) : (tensor<4x!a>) -> tensor<4xf32>
  {KERNEL.format(" as !a")}
  %q = "tfl.quantize"(%d) : (tensor<4xf32>) -> tensor<4x!a>
  %b = "tfl.quantize"(%q) : (tensor<4x!a>) -> tensor<4x!b>
  %0 = "tfl.quantize"(%y) : (tensor<4xf32>) -> tensor<4x!a>
  %1 = "tfl.dequantize"(%0) : (tensor<4x!a>) -> tensor<4xf32>
  return %d, %q, %b, %1 : tensor<4xf32>, tensor<4x!a>, tensor<4x!b>, tensor<4xf32>
}}""")
    module = parse_module(text)
    apply_passes(module, "quant-constraints-to-specs")
    assert module.is_structurally_equivalent(parse_module(text))


def test_an_error_leaves_the_casts():
    text = with_types(f"""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %p = "tfl.quantize"(%x) : (tensor<4xf32>) -> tensor<4x!b>
  %q = "tfl.quantize"(%p) : (tensor<4x!b>) -> tensor<4x!a>
  %d = "tfl.dequantize"(%q) : (tensor<4x!a>) -> tensor<4xf32>
  {KERNEL.format(" as !quant.none<f32>")}
  return %k : tensor<4xf32>
}}""")
    module = parse_module(text)
    with pytest.raises(IRError, match=r"of 'tfl.quantize' op at module:8:3 and"):
        apply_passes(module, "quant-constraints-to-specs")
    assert module.is_structurally_equivalent(parse_module(text))


def test_an_extension_of_floats_is_no_constraint():
    text = """
func.func @main(%x: tensor<4xf16>) -> tensor<4xf32> {
  %d = "tfl.dequantize"(%x) : (tensor<4xf16>) -> tensor<4xf32>
  %q = quant.qcast %d : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.1>>
  %e = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 0.1>> to tensor<4xf32>
  %y = "tfl.relu"(%e) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
"""
    passes = "quant-fuse-kernels{target=tflite-int8},quant-constraints-to-specs"
    found = converted(text, passes)
    assert '"tfl.dequantize"(%x) : (tensor<4xf16>)' in found
    assert "as !quant.uniform<i8:f32, 1.000000e-01>" in found
