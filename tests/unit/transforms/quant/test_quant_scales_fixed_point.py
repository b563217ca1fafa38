"""Floating-point scales made integers, and back."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp, bf16, f16, f32, f64, i8
from xdsl.parser import Parser
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriteWalker
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.dialects.quant import (
    FixedPointQuantizedPerAxisType,
    FixedPointQuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedType,
    uniform_type,
)
from xdsl_quant.numerics import QuantizationParameters, quantize_multiplier
from xdsl_quant.runtime.loading import multiverse_context, parse_module
from xdsl_quant.transforms.quant.quant_scales_from_fixed_point import (
    QuantScalesFromFixedPointPass,
    ScalesFromFixedPoint,
)
from xdsl_quant.transforms.quant.quant_scales_to_fixed_point import (
    QuantScalesToFixedPointPass,
    ScalesToFixedPoint,
    fixed_point_type,
)

LARGEST = 2.0**29 - 2.0**-2
SCALES = st.floats(2.0**-32, LARGEST)
ELEMENTS = st.tuples(
    st.integers(1 << 30, (1 << 31) - 1), st.integers(2, 62), st.integers(-128, 127)
)


def _context() -> Context:
    ctx = multiverse_context()
    ctx.allow_unregistered = True
    return ctx


def _applied(module_pass: ModulePass, text: str) -> ModuleOp:
    module = Parser(_context(), text).parse_module()
    module.verify()
    module_pass.apply(Context(), module)
    module.verify()
    return module


# Scales


@given(SCALES)
def test_a_scale_becomes_the_nearest_one(scale: float):
    converted = fixed_point_type(UniformQuantizedType(i8, f64, scale, 3))
    assert isinstance(converted, FixedPointQuantizedType)
    multiplier, shift = converted.multiplier.data, converted.shift.data
    assert (multiplier, shift) == quantize_multiplier(scale)
    error = abs(Fraction(multiplier, 1 << shift) - Fraction(scale))
    assert error <= Fraction(scale) / (1 << 31)
    assert converted.zero_point.data == 3


@given(st.floats(2.0**-32, 2.0**29, exclude_max=True, width=32))
def test_scales_of_f32_are_exact(scale: float):
    quantized_type = UniformQuantizedType(i8, f32, scale)
    assert fixed_point_type(quantized_type).to_uniform() == quantized_type


@given(st.lists(ELEMENTS, min_size=1))
def test_back_and_there_is_the_same(elements: list[tuple[int, int, int]]):
    multipliers, shifts, zero_points = zip(*elements, strict=True)
    per_axis = FixedPointQuantizedPerAxisType(
        i8, f32, multipliers, shifts, zero_points, quantized_dimension=1
    )
    assert fixed_point_type(per_axis.to_uniform()) == per_axis
    per_layer = FixedPointQuantizedType(i8, f32, *elements[0], storage_type_min=-127)
    assert fixed_point_type(per_layer.to_uniform()) == per_layer


@given(st.lists(SCALES, min_size=1))
def test_there_and_back_is_the_same_from_then_on(scales: list[float]):
    quantized_type = UniformQuantizedPerAxisType(i8, f64, scales, quantized_dimension=0)
    first = fixed_point_type(quantized_type)
    assert fixed_point_type(first.to_uniform()) == first
    for scale, converted in zip(
        scales, QuantizationParameters.from_type(first).scales.tolist(), strict=True
    ):
        is_short = Fraction(scale).numerator.bit_length() <= 31
        bound = 0.0 if is_short else scale * 2.0**-31
        assert abs(converted - scale) <= bound


def test_parameters_of_the_type():
    per_layer = FixedPointQuantizedType(i8, f32, 1288490189, 37, 3, storage_type_min=-9)
    parameters = QuantizationParameters.from_type(per_layer)
    assert parameters == QuantizationParameters(1288490189 / 2**37, 3, storage_min=-9)
    assert uniform_type(parameters) == per_layer.to_uniform()
    per_axis = FixedPointQuantizedPerAxisType(
        i8, f32, [1 << 30, 3 << 29], [30, 2], [1, 2], quantized_dimension=4
    )
    assert QuantizationParameters.from_type(per_axis) == QuantizationParameters(
        [1.0, 3.0 * 2**27], [1, 2], quantized_dimension=4
    )


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        # The smallest and the largest, and halves between two, which are rounded up.
        (2.0**-32, (1 << 30, 62)),
        (LARGEST, ((1 << 31) - 1, 2)),
        (LARGEST + 0.124, ((1 << 31) - 1, 2)),
        (1 - 2.0**-32, (1 << 30, 30)),
        (1 - 3 * 2.0**-32, ((1 << 31) - 1, 31)),
        (1 + 2.0**-31, ((1 << 30) + 1, 30)),
        (0.1, (1717986918, 34)),
    ],
)
def test_scales_at_the_edges(scale: float, expected: tuple[int, int]):
    converted = fixed_point_type(UniformQuantizedType(i8, f64, scale))
    assert isinstance(converted, FixedPointQuantizedType)
    assert (converted.multiplier.data, converted.shift.data) == expected


@pytest.mark.parametrize("expressed", [f16, bf16, f32, f64])
def test_scales_at_the_edges_of_the_expressed_type(expressed: AnyFloat):
    for scale in (2.0**-24, 65504.0):
        quantized_type = UniformQuantizedType(i8, expressed, scale)
        assert fixed_point_type(quantized_type).to_uniform() == quantized_type


def test_a_million_scales():
    scales = np.random.default_rng(0).random(1_000_000) + 1e-6
    quantized_type = UniformQuantizedPerAxisType(i8, f32, scales, quantized_dimension=0)
    converted = fixed_point_type(quantized_type).to_uniform()
    assert isinstance(converted, UniformQuantizedPerAxisType)
    result = np.frombuffer(converted.scales.data.data)
    assert (np.abs(result - scales) <= scales * 2.0**-31).all()


# Modules

EVERYWHERE = """
!layer = !quant.uniform<i8<-127:127>:f32, 0.5:3>
!axis = !quant.uniform<u8:f16:1, {0.5:3,0.25}>
!fixed_layer = !quant.fixed_point<i8<-127:127>:f32, 1073741824p-31:3>
!fixed_axis = !quant.fixed_point<u8:f16:1, {1073741824p-31:3,1073741824p-32}>
func.func private @declared(!layer, tensor<*x!axis>) -> (tensor<4x2x!axis, "dense">)
func.func @nested(%f: (!layer) -> tensor<2x2x!axis>, %t: tuple<!layer, tuple<!axis>>) {
  return
}
func.func @attributes(%x: !layer {test.type = !layer}) attributes {
  test.list = [!layer, [tensor<2x!layer>]], test.dict = {a = !axis, b = 3 : i32}
} {
  return
}
func.func @blocks(%c: i1, %x: !layer) -> !layer {
  cf.cond_br %c, ^bb1(%x : !layer), ^bb1(%x : !layer)
^bb1(%y: !layer):
  %z = "test.op"(%y) ({
  ^bb0(%inner: tuple<!layer>):
    "test.end"() : () -> ()
  }) {test.constant = dense<1.5> : tensor<2xf32>} : (!layer) -> !layer
  return %z : !layer
}
func.func @others(%a: !quant.any<i8:f32>, %c: !quant.calibrated<f32<-1.0:2.0>>) {
  return
}
func.func @casts(%x: tensor<?x2xf16>) -> tensor<?x2xi8> {
  %q = quant.qcast %x : tensor<?x2xf16> to tensor<?x2x!axis>
  %i = quant.scast %q : tensor<?x2x!axis> to tensor<?x2xi8>
  return %i : tensor<?x2xi8>
}
"""


def test_all_types_of_a_module():
    expected_text = EVERYWHERE
    for name in ("layer", "axis"):
        head, _, body = expected_text.partition("func.func private")
        body = body.replace(f"!{name}", f"!fixed_{name}")
        expected_text = f"{head}func.func private{body}"
    expected = _applied(QuantScalesFromFixedPointPass(), EVERYWHERE)
    converted = _applied(QuantScalesToFixedPointPass(), EVERYWHERE)
    unchanged = Parser(_context(), expected_text).parse_module()
    assert str(converted) == str(unchanged)
    assert "quant.uniform" not in str(converted)
    # And back.
    QuantScalesFromFixedPointPass().apply(Context(), converted)
    assert converted.is_structurally_equivalent(expected)
    assert str(converted) == str(expected)


def test_what_has_no_scale_to_convert_is_the_same_object():
    module = parse_module("func.func @f(%x: tensor<2xi8>) { return }")
    function = next(iter(module.ops))
    before = function.properties["function_type"]
    QuantScalesToFixedPointPass().apply(Context(), module)
    assert function.properties["function_type"] is before


@pytest.mark.parametrize(
    ("quantized_type", "reason"),
    [
        (
            "!quant.uniform<i8:f32, 1.0e-10>",
            "scale 1e-10 is out of the range of fixed-point scales, "
            "2**-32 to 536870911.75",
        ),
        (
            "!quant.uniform<i8:f32:0, {1.0, 1.0e9, 1.0}>",
            "scale 1000000000.0 at index 1 is out of the range of fixed-point scales, "
            "2**-32 to 536870911.75",
        ),
        (
            "!quant.uniform<i8:f64, 536870911.875>",
            "scale 536870911.875 is out of the range of fixed-point scales, "
            "2**-32 to 536870911.75",
        ),
        (
            "!quant.uniform<i8:f32:{0:1}, {1.0, 2.0}>",
            "fixed-point scales are unsupported in sub-channel types; "
            "'normalize-quant-types' converts equivalent types to per-axis or per-tensor",
        ),
        (
            "!quant.uniform<i8:f32, 1.0:300>",
            "zero point 300 is not representable in 'i8'; expected -128 to 127",
        ),
    ],
)
def test_a_type_that_cannot_be_converted(quantized_type: str, reason: str):
    text = f"""
func.func @f(%x: !quant.uniform<i8:f32, 0.5>) {{
  "test.op"() : () -> tensor<3x{quantized_type}>
  return
}}"""
    module = parse_module(text, "a.mlir", _context())
    before = str(module)
    with pytest.raises(PassFailedException) as failure:
        QuantScalesToFixedPointPass().apply(Context(), module)
    assert str(failure.value) == (
        f"a.mlir:3:3: error: 'test.op' op has a type that cannot be converted: {reason}"
    )
    assert str(module) == before


def test_the_patterns_do_the_same_as_the_passes():
    text = """
    func.func @f(%a: !quant.uniform<i8:f32, 0.5>, %b: tuple<!quant.uniform<i8:f32, 0.75>>) {
      %0 = quant.dcast %a : !quant.uniform<i8:f32, 0.5> to f32
      return
    }
    """
    module = parse_module(text)
    there, back = (
        PatternRewriteWalker(pattern())
        for pattern in (ScalesToFixedPoint, ScalesFromFixedPoint)
    )
    assert there.rewrite_module(module)
    assert str(module) == str(_applied(QuantScalesToFixedPointPass(), text))
    assert not there.rewrite_module(module)
    assert back.rewrite_module(module)
    assert str(module) == str(parse_module(text))
