"""What a value is for, and what TensorFlow Lite demands of it."""

from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.tensor import Tensor
from xdsl.universe import Universe

from xdsl_quant.dialects.quant import Quant
from xdsl_quant.inspecting.verify_quant_constraints import (
    QuantConstraintViolation,
    quant_constraint_violations,
)
from xdsl_quant.runtime.loading import parse_module


def context_without_tfl() -> Context:
    """Ops of TensorFlow Lite are known by their names alone, and nothing verifies them."""
    context = Context()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        if name != "tfl":
            context.register_dialect(name, factory)
    return context


def violations(
    text: str, context: Context | None = None
) -> list[QuantConstraintViolation]:
    context = context or context_without_tfl()
    context.allow_unregistered = True
    module = parse_module(text, "model.mlir", context)
    return quant_constraint_violations(module, "tflite")


def lines(text: str) -> list[str]:
    return [str(violation) for violation in violations(text)]


def rules_broken(text: str) -> list[str]:
    return [violation.rule for violation in violations(text)]


# Layers: products of activations and weights, plus a bias

WEIGHT = "!quant.uniform<i8<-127:127>:f32:1, {0.25,0.1}>"
BIAS = "!quant.uniform<i32:f32:1, {0.125,0.05}>"
PRODUCT = "!quant.uniform<i32:f32:1, {0.125,0.05}>"


def aliases(weight: str, bias: str, product: str) -> str:
    return f"""
!input = !quant.uniform<i8:f32, 0.5:3>
!weight = {weight}
!bias = {bias}
!product = {product}
!x = tensor<4x8x!input>
!w = tensor<8x2x!weight>
!b = tensor<4x2x!bias>
!p = tensor<4x2x!product>
!y = tensor<4x2x!input>
"""


def dense_layer(weight: str = WEIGHT, bias: str = BIAS, product: str = PRODUCT) -> str:
    """A layer with an op of TensorFlow Lite's that takes a bias."""
    return f"""{aliases(weight, bias, product)}
func.func @f(%x: !x) -> !y {{
  %cw = arith.constant dense<1> : tensor<8x2xi8>
  %w = quant.scast %cw : tensor<8x2xi8> to !w
  %b = "tfl.pseudo_qconst"() : () -> !b
  %p = "tfl.fully_connected"(%x, %w, %b) : (!x, !w, !b) -> !p
  %y = "tfl.quantize"(%p) : (!p) -> !y
  return %y : !y
}}
"""


def stablehlo_layer(weight: str = WEIGHT, bias: str = BIAS) -> str:
    """A layer with quantized ops, and a bias of two elements."""
    return f"""{aliases(weight, bias, PRODUCT)}
!v = tensor<2x{bias.replace("f32:1", "f32:0")}>
func.func @f(%x: !x) -> !y {{
  %w = stablehlo.constant() <{{value = dense<1> : tensor<8x2xi8>}}> : () -> !w
  %v = stablehlo.constant() <{{value = dense<1> : tensor<2xi32>}}> : () -> !v
  %b = stablehlo.broadcast_in_dim %v, dims = [1] : (!v) -> !b
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (!x, !w) -> !p
  %s = stablehlo.add %b, %p : (!b, !p) -> !p
  %y = stablehlo.uniform_quantize %s : (!p) -> !y
  return %y : !y
}}
"""


def qdq_layer(weight: str = WEIGHT, bias: str = BIAS) -> str:
    """A layer with float ops between casts."""
    return f"""{aliases(weight, bias, PRODUCT)}
!xf = tensor<4x8xf32>
!wf = tensor<8x2xf32>
!yf = tensor<4x2xf32>
func.func @f(%x: !x) -> !yf {{
  %cw = arith.constant dense<1.0> : !wf
  %w = quant.qcast %cw : !wf to !w
  %cb = arith.constant dense<1.0> : !yf
  %b = quant.qcast %cb : !yf to !b
  %xf = quant.dcast %x : !x to !xf
  %wf = quant.dcast %w : !w to !wf
  %bf = quant.dcast %b : !b to !yf
  %i = tensor.empty() : !yf
  %p = linalg.matmul ins(%xf, %wf : !xf, !wf) outs(%i : !yf) -> !yf
  %s = arith.addf %p, %bf : !yf
  return %s : !yf
}}
"""


Layer = Callable[..., str]

LAYERS = pytest.mark.parametrize("layer", [dense_layer, stablehlo_layer, qdq_layer])


@LAYERS
def test_a_layer_as_tensorflow_lite_has_it(layer: Layer):
    assert lines(layer()) == []


@LAYERS
def test_weights_are_symmetric_and_narrow(layer: Layer):
    weight = "!quant.uniform<i8:f32:1, {2.500000e-01,1.000000e-01}>"
    (line,) = lines(layer(weight=weight))
    assert line.endswith(
        f"result #0: the smallest stored value of {weight}, a weight, is -128; expected "
        "-127 or more, as in i8<-127:127> (weight-range)"
    )


def test_zero_point_of_a_weight():
    weight = "!quant.uniform<i8<-127:127>:f32:1, {2.500000e-01,1.000000e-01:3}>"
    (line,) = lines(dense_layer(weight=weight))
    assert line == (
        f"model.mlir:14:3: error: 'quant.scast' op result #0: zero point 3 at index 1 of "
        f"{weight} is not 0, as weights require (weight-zero-point)"
    )


@LAYERS
def test_bias_scale(layer: Layer):
    bias = "!quant.uniform<i32:f32:1, {0.125,0.06}>"
    (line,) = lines(layer(bias=bias))
    assert "op result #0: scale 0.06 at index 1 of !quant.uniform<i32:" in line
    assert line.endswith(
        "', is not input scale x weight scale; expected 0.5 x 0.1 = 0.05 (bias-scale)"
    )


@pytest.mark.parametrize(
    ("bias", "weight", "count"),
    [
        ("{0.125,0.05}", "{0.25,0.1}", 0),
        # Neighbours among the numbers of f32: scales are rounded to it.
        ("{0.125,0.05000000074505806}", "{0.25,0.1}", 0),
        ("{0.125,0.0500001}", "{0.25,0.1}", 1),
        ("{0.125,0.125}", "{0.25,0.25}", 0),
        ("{0.125,0.05,0.05}", "{0.25,0.1}", 1),
    ],
)
def test_bias_scales_that_are_close_enough(bias: str, weight: str, count: int):
    module = dense_layer(
        weight=f"!quant.uniform<i8<-127:127>:f32:1, {weight}>",
        bias=f"!quant.uniform<i32:f32:1, {bias}>",
    )
    found = [line for line in lines(module) if "(bias-scale)" in line]
    assert len(found) == count


def test_one_bias_scale_for_many_weight_scales():
    bias = "!quant.uniform<i32:f32, 0.125>"
    (line,) = lines(dense_layer(bias=bias))
    assert "scale 0.125 at index 1 of" in line
    weight = "!quant.uniform<i8<-127:127>:f32, 0.25>"
    assert lines(dense_layer(weight=weight, bias=bias)) == []


def test_number_of_bias_scales():
    bias = "!quant.uniform<i32:f32:1, {1.000000e+00,2.000000e+00,3.000000e+00}>"
    _, line = lines(dense_layer(bias=bias))
    assert line.endswith(
        f"op result #0: {bias}, a bias of 'tfl.fully_connected', has 3 scales; expected "
        "2 like its weight (bias-scale)"
    )


def test_bias_scale_of_a_type_with_one_scale():
    bias = "!quant.uniform<i32:f32, 1.260000e-01>"
    weight = "!quant.uniform<i8<-127:127>:f32, 0.25>"
    (line,) = lines(dense_layer(bias=bias, weight=weight))
    assert line.endswith(
        f"op result #0: scale 0.126 of {bias}, a bias of 'tfl.fully_connected', is not "
        "input scale x weight scale; expected 0.5 x 0.25 = 0.125 (bias-scale)"
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("scale", "bias", "count"),
    [
        ("1.0e300", "1.0", 1),
        ("1.0e-300", "1.0", 1),
        # Nothing is nearer to a product that is too small.
        ("1.0e-300", "5.0e-324", 0),
        ("1.0e-300", "1.0e-323", 1),
        ("1.0", "1.0", 0),
        ("1.0", "1.00000000000000044", 0),
        ("1.0", "1.00000000000000067", 1),
        ("1.9", "3.610000000000001", 0),
        ("1.9", "3.6100000000000017", 1),
    ],
)
def test_bias_scales_of_any_size(scale: str, bias: str, count: int):
    module = dense_layer(
        weight=f"!quant.uniform<i8<-127:127>:f64, {scale}>",
        bias=f"!quant.uniform<i32:f64, {bias}>",
    ).replace("!quant.uniform<i8:f32, 0.5:3>", f"!quant.uniform<i8:f64, {scale}:3>")
    assert rules_broken(module).count("bias-scale") == count


def test_zero_point_of_a_bias_of_sixteen_bits_is_one_mistake():
    broken = rules_broken(dense_layer(bias="!quant.uniform<i16:f32, 0.05:1>"))
    assert broken.count("zero-point") == 1


def test_the_second_bias_of_a_product():
    text = f"""{aliases(WEIGHT, BIAS, PRODUCT)}
!wrong = tensor<4x2x!quant.uniform<i32:f32:1, {{0.125,0.06}}>>
func.func @f(%x: !x, %w: !w, %b: !b, %c: !wrong) -> !p {{
  %p = "tfl.fully_connected"(%x, %w) : (!x, !w) -> !p
  %s = stablehlo.add %p, %b : (!p, !b) -> !p
  %t = stablehlo.add %s, %c : (!p, !wrong) -> !p
  return %t : !p
}}
"""
    assert rules_broken(text) == ["bias-scale"]


def test_types_without_a_scale_are_nothing_else():
    text = """
func.func @f(%x: tensor<2x!quant.calibrated<f32<-1.0:1.0>>>, %y: !quant.any<i8:f32>) {
  return
}
"""
    first, second = (str(violation) for violation in violations(text))
    calibrated = "!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>"
    assert calibrated in first
    assert "!quant.any<i8:f32>" in second


USES = {
    "weight": '%{} = "tfl.fully_connected"(%x, %w) : (!x, !w) -> !y',
    "activation of a product": '%{} = "tfl.fully_connected"(%w, %v) : (!w, !v) -> !y',
    "activation": "%{} = stablehlo.add %w, %w : !w",
    "moved activation": """%{0}m = "stablehlo.dynamic_reshape"(%w, %shape) : (!w, !s) -> !w
  %{0} = stablehlo.add %{0}m, %{0}m : !w""",
    "unknown": '%{} = "a.b"(%w) : (!w) -> i8',
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("second", USES)
@pytest.mark.parametrize("first", ["weight", "unknown"])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_value_with_two_uses(first: str, second: str, is_first: bool):
    """A constant is a weight if one of its users may take it as one, in any order."""
    uses = [USES[first], USES[second]] if is_first else [USES[second], USES[first]]
    body = "\n  ".join(use.format(i) for use, i in zip(uses, "ab", strict=True))
    text = f"""
!x = tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<4x4x!quant.uniform<i8:f32, 0.5>>
!v = tensor<4x4x!quant.uniform<i8<-127:127>:f32, 0.5>>
!y = tensor<4x4x!quant.uniform<i32:f32, 0.25>>
!s = tensor<2xi32>
func.func @f(%x: !x, %v: !v) {{
  %shape = arith.constant dense<4> : tensor<2xi32>
  %c = arith.constant dense<1> : tensor<4x4xi8>
  %w = quant.scast %c : tensor<4x4xi8> to !w
  {body}
  return
}}
"""
    assert "weight-range" in rules_broken(text)


@pytest.mark.parametrize("second", USES)
@pytest.mark.parametrize("is_first", [False, True])
def test_an_argument_with_two_uses(second: str, is_first: bool):
    uses = [USES["weight"], USES[second]]
    ordered = uses if is_first else reversed(uses)
    body = "\n  ".join(use.format(i) for use, i in zip(ordered, "ab", strict=True))
    text = f"""
!x = tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<4x4x!quant.uniform<i8:f32, 0.5:4>>
!v = tensor<4x4x!quant.uniform<i8<-127:127>:f32, 0.5>>
!y = tensor<4x4x!quant.uniform<i32:f32, 0.25>>
!s = tensor<2xi32>
func.func @f(%x: !x, %v: !v, %w: !w, %shape: !s) {{
  {body}
  return
}}
"""
    assert "weight-zero-point" in rules_broken(text)


def test_a_bias_that_is_a_weight_too():
    text = f"""{aliases(WEIGHT, BIAS, PRODUCT)}
!both = tensor<4x2x!quant.uniform<i32:f32, 1.0:1>>
func.func @f(%x: !x, %w: !w, %b: !both) {{
  %p = "tfl.fully_connected"(%x, %w) : (!x, !w) -> !p
  %s = stablehlo.add %p, %b : (!p, !both) -> !p
  %q = "tfl.fully_connected"(%x, %b) : (!x, !both) -> !p
  return
}}
"""
    assert "weight-zero-point" in rules_broken(text)


@pytest.mark.parametrize("is_first", [False, True])
def test_a_bias_that_is_an_activation_too(is_first: bool):
    uses = [
        '%p = "tfl.fully_connected"(%x, %w, %b) : (!x, !w, !wrong) -> !p',
        "%s = stablehlo.add %b, %b : !wrong",
    ]
    first, second = uses if is_first else reversed(uses)
    text = f"""{aliases(WEIGHT, BIAS, PRODUCT)}
!wrong = tensor<4x2x!quant.uniform<i32:f32:1, {{0.125,0.06}}>>
func.func @f(%x: !x, %w: !w, %b: !wrong) {{
  {first}
  {second}
  return
}}
"""
    assert "bias-scale" in rules_broken(text)


def test_bias_of_a_product_that_is_cast():
    text = f"""{aliases(WEIGHT, BIAS, PRODUCT)}
!wrong = tensor<4x2x!quant.uniform<i32:f32:1, {{0.125,0.06}}>>
!f = tensor<4x2xf32>
func.func @f(%x: !x, %w: !w, %b: !wrong) {{
  %p = "tfl.fully_connected"(%x, %w) : (!x, !w) -> !p
  %q = quant.dcast %p : !p to !f
  %c = quant.dcast %b : !wrong to !f
  %s = arith.addf %q, %c : !f
  return
}}
"""
    assert rules_broken(text) == ["bias-scale"]


def svdf(operands: int) -> str:
    """A layer with state, whose bias has another scale than weights and state."""
    names = ", ".join(("%x", "%f", "%t", "%b", "%s")[:operands])
    types = ", ".join(("!x", "!f", "!t", "!b", "!s")[:operands])
    return f"""
!x = tensor<1x8x!quant.uniform<i8:f32, 0.5>>
!f = tensor<4x8x!quant.uniform<i8<-127:127>:f32, 0.25>>
!t = tensor<4x3x!quant.uniform<i16:f32, 0.125>>
!b = tensor<4x!quant.uniform<i32:f32, 0.75>>
!s = tensor<1x12x!quant.uniform<i16:f32, 0.0625>>
func.func @f(%x: !x, %f: !f, %t: !t, %b: !b, %s: !s) {{
  %y = "tfl.svdf"({names}) : ({types}) -> tensor<1x4x!quant.uniform<i8:f32, 0.5>>
  return
}}
"""


def test_bias_of_a_state():
    (line,) = lines(svdf(operands=5))
    assert line.endswith(
        "argument #3: scale 0.75 of !quant.uniform<i32:f32, 7.500000e-01>, a bias of "
        "'tfl.svdf', is not the product of the scales of operands #2 and #4; expected "
        "0.125 x 0.0625 = 0.0078125 (bias-scale)"
    )
    assert lines(svdf(operands=4)) == []


def test_bias_of_an_activation_without_a_scale():
    text = f"""{aliases(WEIGHT, BIAS, PRODUCT)}
func.func @f(%x: tensor<4x8xf32>, %w: !w, %b: !b) -> !p {{
  %p = "tfl.fully_connected"(%x, %w, %b) : (tensor<4x8xf32>, !w, !b) -> !p
  return %p : !p
}}
"""
    assert rules_broken(text) == []


def test_a_constant_shape_makes_no_weight():
    text = """
!x = tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
func.func @f(%x: !x) -> !x {
  %shape = arith.constant dense<4> : tensor<2xi32>
  %y = "stablehlo.dynamic_reshape"(%x, %shape) : (!x, tensor<2xi32>) -> !x
  return %y : !x
}
"""
    assert rules_broken(text) == []


def test_a_constant_that_is_appended_makes_no_weight():
    text = f"""
func.func @f(%x: {SKEWED}) {{
  %stored = arith.constant dense<1> : tensor<2xi8>
  %c = quant.scast %stored : tensor<2xi8> to {SKEWED}
  %y = stablehlo.concatenate %x, %c, dim = 0
    : ({SKEWED}, {SKEWED}) -> {SKEWED.replace("<2x", "<4x")}
  return
}}
"""
    # The constant itself is taken for a weight, whose zero point must be 0.
    (line,) = lines(text)
    assert line.startswith("model.mlir:4:3: error: 'quant.scast' op result #0: ")


def test_a_sum_of_two_products_adds_no_bias():
    text = f"""{aliases(WEIGHT, "!quant.uniform<i32:f32, 1.0>", PRODUCT)}
func.func @f(%x: !x, %w: !w) -> !b {{
  %p = "tfl.fully_connected"(%x, %w) : (!x, !w) -> !b
  %q = "tfl.fully_connected"(%x, %w) : (!x, !w) -> !b
  %s = stablehlo.add %p, %q : !b
  return %s : !b
}}
"""
    assert lines(text) == []


def test_a_weight_with_blocks_is_one_mistake():
    weight = "!quant.uniform<i8<-127:127>:f32:{0:4}, {{1.0},{2.0}}>"
    (line,) = lines(dense_layer(weight=weight))
    assert line.endswith("(QuantizedTensorElementType)")


def test_zero_point_of_a_bias_of_eight_bits():
    (line,) = lines(dense_layer(bias="!quant.uniform<i8:f32, 0.05:1>"))[:1]
    assert line.endswith(" is not 0, as biases require (zero-point)")


def test_activations_are_not_per_axis():
    product = "!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00}>"
    (line,) = lines(dense_layer(product=product))
    assert line == (
        "model.mlir:16:3: error: 'tfl.fully_connected' op result #0: activation of type "
        f"{product} has 2 scales; expected one for all values (activation-granularity)"
    )


def test_wide_activations_that_are_no_products_are_not_per_axis():
    (line,) = lines(f'"my.op"() : () -> tensor<4x2x{PRODUCT}>')
    assert line.startswith(
        "model.mlir:1:1: error: 'my.op' op result #0: activation of "
    )


PER_AXIS = "tensor<2x!quant.uniform<i8<-127:127>:f32:0, {1.0,2.0}>>"
NARROW = "tensor<2x!quant.uniform<i8<-127:127>:f32, 1.0>>"
SKEWED = "tensor<2x!quant.uniform<i8<-127:127>:f32, 1.0:5>>"


@pytest.mark.parametrize(
    ("body", "broken"),
    [
        # What is made of a constant is a weight ...
        (f"quant.qcast %c : tensor<2xf32> to {PER_AXIS}", []),
        (f"quant.qcast %c : tensor<2xf32> to {SKEWED}", ["weight-zero-point"]),
        # ... and what is made of anything else is none.
        (f"quant.qcast %x : tensor<2xf32> to {PER_AXIS}", ["activation-granularity"]),
        (f"quant.qcast %x : tensor<2xf32> to {SKEWED}", []),
    ],
)
def test_constants_are_weights(body: str, broken: list[str]):
    text = f"""
func.func @f(%x: tensor<2xf32>) {{
  %c = arith.constant dense<1.0> : tensor<2xf32>
  %q = {body}
  return
}}
"""
    assert rules_broken(text) == broken


@pytest.mark.parametrize(
    ("op", "broken"), [("arith.mulf", []), ("my.filter", ["weight-zero-point"])]
)
def test_a_constant_that_is_only_used_as_an_activation_is_one(
    op: str, broken: list[str]
):
    text = f"""
func.func @f(%x: tensor<2xf32>) {{
  %c = arith.constant dense<1.0> : tensor<2xf32>
  %q = quant.qcast %c : tensor<2xf32> to {SKEWED}
  %d = quant.dcast %q : {SKEWED} to tensor<2xf32>
  %y = "{op}"(%x, %d) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return
}}
"""
    assert rules_broken(text) == broken


ARGUMENTS = """
!input = !quant.uniform<i8:f32, 0.5:3>
!kernel = !quant.uniform<i8<-127:127>:f32:0, {0.25,0.1}>
!weight = !quant.uniform<i8<-127:127>:f32:1, {0.25,0.1}>
!x = tensor<4x8x!input>
!k = tensor<2x8x!kernel>
!w = tensor<8x2x!weight>
!b = tensor<2x!quant.uniform<i32:f32:0, {0.125,0.05}>>
!y = tensor<4x2x!input>
func.func @f(%x: !x, %k: !k, %b: !b) {
  %w = stablehlo.transpose %k, dims = [1, 0] : (!k) -> !w
  %y = "tfl.conv_2d"(%x, %w, %b) : (!x, !w, !b) -> !y
  return
}
"""


def test_an_argument_is_what_its_users_take_it_for():
    assert lines(ARGUMENTS) == []
    (line,) = lines(ARGUMENTS.replace("0.05}", "0.06}"))
    assert " op argument #2: scale 0.06 at index 1 of " in line
    assert line.endswith("(bias-scale)")
    (line,) = lines(ARGUMENTS.replace("<-127:127>", ""))
    assert " op argument #1: the smallest stored value of " in line


def test_a_weight_that_is_computed_may_use_its_whole_range():
    text = """
!x = tensor<8x8x!quant.uniform<i8:f32, 0.5>>
func.func @f(%x: !x) {
  %y = "my.op"() : () -> !x
  %p = "tfl.fully_connected"(%x, %y) : (!x, !x) -> !x
  return
}
"""
    assert lines(text) == []


def test_unsigned_weights_may_have_a_zero_point():
    weight = "!quant.uniform<u8:f32, 0.25:128>"
    bias = "!quant.uniform<i32:f32, 0.125>"
    assert lines(dense_layer(weight=weight, bias=bias)) == []


def context_without_stablehlo() -> Context:
    context = Context()
    for dialect in (Builtin, Quant, Tensor):
        context.load_dialect(dialect)
    return context


def test_values_that_use_each_other():
    text = f"""
%a = tensor.cast %b : {SKEWED} to {SKEWED}
%b = tensor.cast %a : {SKEWED} to {SKEWED}
%c = "stablehlo.add"(%c, %a) : ({SKEWED}, {SKEWED}) -> {SKEWED}
"""
    assert violations(text, context_without_stablehlo()) == []


def test_ops_without_the_operands_that_they_should_have():
    text = f"""
%a = "tfl.conv_2d"() : () -> {SKEWED}
%b = "tfl.conv_2d"(%a) : ({SKEWED}) -> {SKEWED}
%c = "stablehlo.add"(%b) : ({SKEWED}) -> {SKEWED}
%d = "stablehlo.reshape"() : () -> {SKEWED}
%e = "my.bias"() : () -> !quant.uniform<i32:f32, 1.0>
%f = "stablehlo.add"(%b, %e) : ({SKEWED}, !quant.uniform<i32:f32, 1.0>) -> {SKEWED}
"""
    assert violations(text, context_without_stablehlo()) == []


def test_a_filter_without_an_operand_takes_no_activation():
    text = f"""
%c = arith.constant dense<1.0> : tensor<2xf32>
%q = quant.qcast %c : tensor<2xf32> to {SKEWED}
%y = "tfl.conv_2d"(%q) : ({SKEWED}) -> {SKEWED}
"""
    assert rules_broken(text) == ["weight-zero-point"]


def test_a_product_is_no_weight():
    text = """
!x = tensor<4x4x!quant.uniform<i8:f32, 0.5:3>>
!w = tensor<4x4x!quant.uniform<i8<-127:127>:f32, 0.25>>
func.func @attention(%x: !x, %wq: !w, %wk: !w) -> !x {
  %q = stablehlo.dot_general %x, %wq, contracting_dims = [1] x [0] : (!x, !w) -> !x
  %k = stablehlo.dot_general %x, %wk, contracting_dims = [1] x [0] : (!x, !w) -> !x
  %kd = stablehlo.uniform_dequantize %k : (!x) -> tensor<4x4xf32>
  %qd = stablehlo.uniform_dequantize %q : (!x) -> tensor<4x4xf32>
  %s = stablehlo.dot_general %qd, %kd, contracting_dims = [1] x [1]
      : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %y = stablehlo.uniform_quantize %s : (tensor<4x4xf32>) -> !x
  return %y : !x
}"""
    assert rules_broken(text) == []
