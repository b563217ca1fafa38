"""Quantized StableHLO ops taken apart and put together, and casts in both dialects."""

import numpy as np
import pytest
from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def

from tests.unit.frontends.stablehlo.lowering.stablehlo_evaluation import (
    FLOAT_MEANING,
    evaluate,
)
from xdsl_quant.dialects.quant import uniform_type
from xdsl_quant.frontends.stablehlo.dialect import (
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from xdsl_quant.numerics import (
    QuantizationParameters,
    dequantize,
    quantize,
    requantize,
)
from xdsl_quant.runtime.loading import (
    IRError,
    apply_passes,
    multiverse_context,
    parse_module,
)

TO_QDQ = "stablehlo-legalize-quantized-op-to-qdq"
TO_INTEGER = "stablehlo-legalize-quant-to-integer"
FROM_QDQ = "stablehlo-legalize-qdq-to-quantized-op"
TO_QUANT = "stablehlo-casts-to-quant"
FROM_QUANT = "quant-casts-to-stablehlo"

Q = "tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>"
R = "tensor<4x!quant.uniform<i8:f32, 1.000000e-01:-7>>"
F = "tensor<4xf32>"


def after(text: str, passes: str) -> str:
    module = parse_module(text)
    apply_passes(module, passes)
    return str(module)


def parsed(text: str) -> str:
    return str(parse_module(text))


@irdl_op_definition
class GeluOp(IRDLOperation):
    """An op of which nothing is known but its name."""

    name = "toy.gelu"
    operand = operand_def()
    result = result_def()


def function(body: str, result: str) -> str:
    return (
        f"func.func @f(%q: {Q}, %r: {R}, %x: {F}, %p: tensor<4xi1>) -> {result} {{\n"
        f"{body}\nreturn %z : {result}\n}}"
    )


ADD = function(f"%z = stablehlo.add %q, %r : ({Q}, {R}) -> {R}", R)

ADD_QDQ = function(
    f"""
    %a = stablehlo.uniform_dequantize %q : ({Q}) -> {F}
    %b = stablehlo.uniform_dequantize %r : ({R}) -> {F}
    %c = stablehlo.add %a, %b : {F}
    %z = stablehlo.uniform_quantize %c : ({F}) -> {R}""",
    R,
)


def without_names(text: str) -> str:
    """The text of a module with values called by their numbers."""
    module = parse_module(text)
    for op in module.walk():
        for value in op.results:
            value.name_hint = None
    return str(module)


def test_there_and_back():
    assert without_names(after(ADD, TO_QDQ)) == without_names(ADD_QDQ)
    assert without_names(after(ADD_QDQ, FROM_QDQ)) == without_names(ADD)


def test_meaning():
    # The case where StableHLO's own interpreter requantizes each operand first.
    text = """
    func.func @f(%a: tensor<1x!quant.uniform<i8:f32, 0.5>>,
        %b: tensor<1x!quant.uniform<i8:f32, 1.0>>)
        -> tensor<1x!quant.uniform<i8:f32, 1.0>> {
      %r = stablehlo.add %a, %b : (tensor<1x!quant.uniform<i8:f32, 0.5>>,
        tensor<1x!quant.uniform<i8:f32, 1.0>>) -> tensor<1x!quant.uniform<i8:f32, 1.0>>
      return %r : tensor<1x!quant.uniform<i8:f32, 1.0>>
    }"""
    (result,) = evaluate(text, FLOAT_MEANING, *np.array([[7], [-3]], np.int8))
    assert result.tolist() == [0]


def test_locations_names_and_attributes():
    text = ADD.replace("%r :", "%r {note = 1 : i32} :")
    module = parse_module(text, "model.mlir")
    apply_passes(module, TO_QDQ)
    (function_op,) = module.ops
    *ops, _ = function_op.regions[0].block.ops
    for op in ops:
        assert isinstance(op.location, FileLineColLoc)
        assert (op.location.line.data, op.location.column.data) == (2, 1)
    assert "note" in ops[2].attributes
    assert ops[-1].results[0].name_hint == "z"
    apply_passes(module, FROM_QDQ)
    add, _ = function_op.regions[0].block.ops
    assert isinstance(add.location, FileLineColLoc)
    assert add.location.line.data == 2
    assert "note" in add.attributes
    assert add.results[0].name_hint == "z"


@pytest.mark.parametrize(
    "body",
    [
        "%z = stablehlo.add %x, %x : tensor<4xf32>",
        f"%z = stablehlo.uniform_quantize %q : ({Q}) -> {R}",
        f"%z = stablehlo.concatenate %q, dim = 0 : ({Q}) -> {Q}",
    ],
)
def test_other_ops_are_not_taken_apart(body: str):
    text = function(body, body.split("-> ")[-1].split(" : ")[-1])
    assert after(text, TO_QDQ) == parsed(text)


APART = {
    "an operand is no dequantized one": (
        f"""%a = stablehlo.uniform_dequantize %q : ({Q}) -> {F}
        %c = stablehlo.add %a, %x : {F}
        %z = stablehlo.uniform_quantize %c : ({F}) -> {R}""",
        R,
    ),
    "nothing is computed": (
        f"""%a = stablehlo.uniform_dequantize %q : ({Q}) -> {F}
        %z = stablehlo.uniform_quantize %a : ({F}) -> {R}""",
        R,
    ),
    "the result is no quantized one": (
        f"""%a = stablehlo.uniform_dequantize %q : ({Q}) -> {F}
        %z = stablehlo.add %a, %a : {F}""",
        F,
    ),
    "a condition is not quantized": (
        f"""%a = stablehlo.uniform_dequantize %q : ({Q}) -> {F}
        %c = stablehlo.select %p, %a, %a : tensor<4xi1>, {F}
        %z = stablehlo.uniform_quantize %c : ({F}) -> {Q}""",
        Q,
    ),
}


@pytest.mark.parametrize("reason", APART)
def test_what_stays_apart(reason: str):
    text = function(*APART[reason])
    assert after(text, FROM_QDQ) == parsed(text)


INVALID = {
    "elements that are moved would be quantized anew": (
        f"""%a = stablehlo.uniform_dequantize %q : ({Q}) -> {F}
        %c = stablehlo.concatenate %a, dim = 0 : ({F}) -> {F}
        %z = stablehlo.uniform_quantize %c : ({F}) -> {R}""",
        R,
    ),
    "there are no such quantized tensors": (
        f"""%a = stablehlo.uniform_dequantize %q : ({Q}) -> {F}
        %c = stablehlo.convert %a : {F}
        %z = stablehlo.uniform_quantize %c : ({F}) -> {R}""",
        R,
    ),
}


@pytest.mark.parametrize("reason", INVALID)
def test_ops_that_are_not_valid_on_quantized_tensors(reason: str):
    text = function(*INVALID[reason])
    assert after(text, f"{FROM_QDQ}{{partial=true}}") == parsed(text)
    with pytest.raises(IRError) as error:
        after(text, FROM_QDQ)
    assert "op cannot be composed to a quantized op: 'stablehlo.con" in str(error.value)
    assert "; use 'partial=true' to keep it" in str(error.value)


UNKNOWN = f"""func.func @f(%q: {Q}) -> {Q} {{
  %y = "toy.gelu"(%q) : ({Q}) -> {Q}
  %z = stablehlo.add %y, %y : {Q}
  return %z : {Q}
}}"""


def test_quantized_ops_that_are_not_known():
    ctx = multiverse_context()
    ctx.load_dialect(Dialect("toy", [GeluOp]))
    module = parse_module(UNKNOWN, "model.mlir", ctx)
    with pytest.raises(IRError) as error:
        apply_passes(module, TO_QDQ, ctx)
    assert str(error.value).startswith(
        "model.mlir:2:3: error: quantized ops with unknown semantics, found 1 "
        "'toy.gelu'; use 'partial=true' to keep them"
    )
    apply_passes(module, f"{TO_QDQ}{{partial=true}}", ctx)
    names = [op.name for op in module.walk()]
    assert names.count("toy.gelu") == 1
    assert names.count("stablehlo.uniform_dequantize") == 2


def test_what_is_used_stays():
    text = ADD_QDQ.replace(
        "return %z", "%k = stablehlo.negate %c : tensor<4xf32>\nreturn %z"
    )
    result = after(text, FROM_QDQ)
    assert result.count("stablehlo.add") == 2
    assert result.count("stablehlo.uniform_dequantize") == 2
    assert "stablehlo.uniform_quantize" not in result


def test_ops_in_a_reduction():
    scalar = Q.replace("4x", "")
    text = f"""
    func.func @f(%q: {Q}, %i: {scalar}) -> {scalar} {{
      %z = stablehlo.reduce(%q init: %i) applies stablehlo.add across dimensions = [0]
        : ({Q}, {scalar}) -> {scalar}
      return %z : {scalar}
    }}"""
    apart = after(text, TO_QDQ)
    assert apart.count("stablehlo.uniform_dequantize") == 2
    assert after(apart, FROM_QDQ) == parsed(text)


# Casts

PARAMETERS = [
    QuantizationParameters(0.3, -7),
    QuantizationParameters(0.7, 9, storage="u8", storage_min=3, storage_max=200),
    QuantizationParameters([0.1, 0.2, 0.3], [0, 1, -2], quantized_dimension=1),
    QuantizationParameters(0.3, 5, storage="i16", expressed="f16"),
]


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_numbers_of_casts(parameters: QuantizationParameters):
    expressed, type_ = parameters.expressed, uniform_type(parameters)
    text = f"""
    func.func @f(%x: tensor<40x3x{expressed}>)
        -> (tensor<40x3x!quant.T>, tensor<40x3x{expressed}>) {{
      %q = stablehlo.uniform_quantize %x
        : (tensor<40x3x{expressed}>) -> tensor<40x3x!quant.T>
      %y = stablehlo.uniform_dequantize %q
        : (tensor<40x3x!quant.T>) -> tensor<40x3x{expressed}>
      return %q, %y : tensor<40x3x!quant.T>, tensor<40x3x{expressed}>
    }}""".replace("!quant.T", str(type_))
    x = np.linspace(-60, 60, 120).reshape(40, 3).astype(parameters.expressed_dtype)
    stored = quantize(x, parameters, rounding_mode="nearest-even")
    values = dequantize(stored, parameters, rounding_mode="nearest-even")
    lowering = f"{TO_QUANT},lower-quant-ops{{rounding-mode=nearest-even keep-qdq=true}}"
    for passes in (TO_QUANT, lowering):
        actual = evaluate(text, passes, x)
        np.testing.assert_array_equal(actual[0], stored)
        np.testing.assert_array_equal(actual[1], values)


def test_requantization_is_two_casts():
    body = f"%z = stablehlo.uniform_quantize %q : ({Q}) -> {R}"
    module = parse_module(function(body, R))
    apply_passes(module, TO_QUANT)
    names = [op.name for op in module.walk()][2:-1]
    assert names == ["quant.dcast", "quant.qcast"]
    stored = np.array([-128, 1, 5, 127], np.int8)
    text = f"func.func @f(%q: {Q}) -> {R} {{\n{body}\nreturn %z : {R}\n}}"
    (result,) = evaluate(text, TO_QUANT, stored)
    source, target = QuantizationParameters(0.5, 3), QuantizationParameters(0.1, -7)
    expected = requantize(stored, source, target, rounding_mode="nearest-even")
    assert result.tolist() == expected.tolist()


def test_casts_there_and_back():
    casts = function(
        f"""%a = stablehlo.uniform_dequantize %q : ({Q}) -> {F}
        %b = stablehlo.negate %a : {F}
        %z = stablehlo.uniform_quantize %b : ({F}) -> {R}""",
        R,
    )
    quant = after(casts, TO_QUANT)
    assert "stablehlo.uniform" not in quant
    assert after(quant, FROM_QUANT) == parsed(casts)
    module = parse_module(quant, "model.mlir")
    places = [op.location for op in module.walk() if op.name.startswith("quant.")]
    apply_passes(module, FROM_QUANT)
    kinds = UniformQuantizeOp | UniformDequantizeOp
    assert [op.location for op in module.walk() if isinstance(op, kinds)] == places


@pytest.mark.parametrize(
    ("container", "quantized", "message"),
    [
        ("{}", "!quant.uniform<i8:f32, 1.0>", "expected a ranked tensor"),
        ("tensor<*x{}>", "!quant.uniform<i8:f32, 1.0>", "expected a ranked tensor"),
        ("tensor<4x{}>", "!quant.any<i8:f32>", "expected per-tensor or per-axis"),
    ],
)
def test_casts_that_stablehlo_has_not(container: str, quantized: str, message: str):
    q, f = container.format(quantized), container.format("f32")
    text = f"""func.func @f(%q: {q}, %t: tensor<4x!quant.uniform<i8:f32, 1.0>>) -> {f} {{
      %0 = quant.dcast %t : tensor<4x!quant.uniform<i8:f32, 1.0>> to {F}
      %1 = quant.dcast %q : {q} to {f}
      return %1 : {f}
    }}"""
    module = parse_module(text, "model.mlir")
    with pytest.raises(IRError) as error:
        apply_passes(module, FROM_QUANT)
    assert str(error.value).startswith(
        "model.mlir:3:7: error: 'quant.dcast' op cannot "
    )
    assert message in str(error.value)
    assert str(module) == parsed(text)


def test_a_bias_without_a_scale_is_refused():
    """Its integers are no numbers: they would be added to floats."""
    module = parse_module(
        """
        !x = !quant.uniform<i16:f32, 0.5>
        !w = !quant.uniform<i8:f32, 0.5>
        func.func @f(%x: tensor<1x2x!x>, %w: tensor<2x2x!w>, %b: tensor<2xi64>)
            -> tensor<1x2x!x> {
          %y = "tfl.fully_connected"(%x, %w, %b) <{fused_activation_function = "NONE",
            keep_num_dims = false, weights_format = "DEFAULT"}>
            : (tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xi64>) -> tensor<1x2x!x>
          func.return %y : tensor<1x2x!x>
        }
        """,
        "model.mlir",
    )
    before = str(module)
    with pytest.raises(IRError) as failure:
        apply_passes(module, "stablehlo-legalize-quantized-op-to-qdq")
    assert str(failure.value).startswith(
        "model.mlir:6:11: error: 'tfl.fully_connected' op has a bias of type "
        "'tensor<2xi64>', expected a quantized one; lower the op first"
    )
    assert str(module) == before


NOT_IN_STABLEHLO = {
    "float storage": "!quant.uniform<f8E4M3FN:f32, 0.5>",
    "table": "!quant.uniform<!quant.quantile<i1:f16, {3.0,-1.0}>:f32, 0.5>",
    "blocks": "!quant.uniform<i8:f32:{0:1}, {0.5, 1.0}>",
    "block scales": "!quant.block_scaled<i8:f32:{}, scales = dense<-0.5> : tensor<f16>>",
}
"""Types that StableHLO does not have; the order of some is not that of stored values."""


@pytest.mark.parametrize("kind", NOT_IN_STABLEHLO)
@pytest.mark.parametrize("passes", [TO_QDQ, f"{TO_INTEGER}{{fallback=qdq}}"])
def test_types_that_stablehlo_has_not(kind: str, passes: str):
    type_ = f"tensor<2x{NOT_IN_STABLEHLO[kind]}>"
    text = f"""func.func @f(%q: {type_}) -> {type_} {{
      %0 = "tfl.add"(%q, %q) <{{fused_activation_function = "NONE"}}>
        : ({type_}, {type_}) -> {type_}
      return %0 : {type_}
    }}"""
    module = parse_module(text, "model.mlir")
    with pytest.raises(IRError) as error:
        apply_passes(module, passes)
    message = str(error.value)
    assert message.startswith(
        "model.mlir:2:7: error: 'tfl.add' op has the type 'tensor<2x"
    )
    assert "expected ranked tensor of per-tensor integer" in message
    assert str(module) == parsed(text)


@pytest.mark.parametrize("kind", ["float storage", "table", "block scales"])
def test_stored_values_that_are_in_another_order(kind: str):
    type_ = f"tensor<2x{NOT_IN_STABLEHLO[kind]}>"
    text = f"""func.func @f(%q: {type_}, %r: {type_}) -> {type_} {{
      %0 = "tfl.maximum"(%q, %r) : ({type_}, {type_}) -> {type_}
      return %0 : {type_}
    }}"""
    module = parse_module(text, "model.mlir")
    with pytest.raises(IRError) as error:
        apply_passes(module, TO_INTEGER)
    assert str(error.value).startswith(
        "model.mlir:2:7: error: 'tfl.maximum' op cannot be computed with integers: unsup"
    )
    assert str(module) == parsed(text)
    assert after(text, f"{TO_INTEGER}{{fallback=keep}}") == parsed(text)


NO_QUANTIZED_OP = (
    "'stablehlo-legalize-quant-to-integer' changed nothing, expected ops on "
    "quantized values, which 'stablehlo-legalize-qdq-to-quantized-op' composes from float "
    "ops between StableHLO casts, found 1 'quant.dcast'"
)


@pytest.mark.parametrize(
    "type_",
    [
        "!quant.uniform<i8:f32, 5.000000e-01>",
        "!quant.block_scaled<i8:f32:{}, scales = dense<5.000000e-01> : tensor<f32>>",
    ],
)
@pytest.mark.parametrize(
    ("passes", "message"),
    [
        (
            FROM_QDQ,
            "'stablehlo-legalize-qdq-to-quantized-op' changed nothing, expected float ops "
            "between StableHLO casts, which 'quant-casts-to-stablehlo' creates, found 1 "
            "'quant.dcast'",
        ),
        (TO_INTEGER, NO_QUANTIZED_OP),
        (f"{TO_INTEGER}{{fallback=qdq}}", NO_QUANTIZED_OP),
    ],
)
def test_warning_of_casts_that_are_left(
    type_: str, passes: str, message: str, capsys: pytest.CaptureFixture[str]
):
    """Patterns of these passes match ops on quantized values: casts alone are no error."""
    text = f"""
func.func @f(%x: tensor<4x{type_}>) -> {F} {{
  %d = quant.dcast %x : tensor<4x{type_}> to {F}
  %z = stablehlo.add %d, %d : {F}
  return %z : {F}
}}
"""
    assert after(text, passes) == parsed(text)
    assert capsys.readouterr().err == f"module:3:3: warning: {message}\n"
