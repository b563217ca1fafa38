"""The rules for quantized types: each of them, everywhere, all at once."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import test
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    TensorType,
    TupleType,
    UnknownLoc,
    f32,
    i8,
)
from xdsl.ir import Attribute, TypeAttribute
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.dialects.quant import UniformQuantizedPerAxisType, UniformQuantizedType
from xdsl_quant.inspecting.verify_quant_constraints import (
    Rules,
    VerifyQuantConstraintsPass,
    quant_constraint_violations,
    subnormal_scale_warnings,
)
from xdsl_quant.runtime.loading import multiverse_context, parse_module
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE

FAR_OFF = UniformQuantizedType(i8, f32, 1.0, 300)


def with_result(type_: Attribute) -> ModuleOp:
    return ModuleOp([test.TestOp(result_types=[type_])])


def rules_broken(module: ModuleOp, rules: Rules = "stablehlo") -> list[str]:
    return [violation.rule for violation in quant_constraint_violations(module, rules)]


def module_of(text: str) -> ModuleOp:
    context = multiverse_context()
    context.allow_unregistered = True
    return parse_module(text, "model.mlir", context)


def lines(text: str, rules: Rules = "stablehlo") -> list[str]:
    return [str(v) for v in quant_constraint_violations(module_of(text), rules)]


def type_rules(type_: str, rules: Rules = "stablehlo") -> list[str]:
    return rules_broken(module_of(f"func.func private @f({type_})"), rules)


def test_registered():
    name = VerifyQuantConstraintsPass.name
    assert name == "verify-quant-constraints"
    assert XDSL_QUANT_UNIVERSE.all_passes[name]() is VerifyQuantConstraintsPass


# The pass


def test_pass_leaves_a_module_without_violations_as_it_is():
    module = with_result(TensorType(UniformQuantizedType(i8, f32, 1.0, 5), (2,)))
    before = str(module)
    for rules in ("stablehlo", "tflite"):
        VerifyQuantConstraintsPass(rules=rules).apply(Context(), module)
    assert str(module) == before


def test_pass_fails_with_a_line_for_each_violation_and_their_number():
    module = with_result(FAR_OFF)
    with pytest.raises(PassFailedException) as error:
        VerifyQuantConstraintsPass().apply(Context(), module)
    violations = map(str, quant_constraint_violations(module))
    assert str(error.value).splitlines() == [
        *violations,
        "error: 2 violations of the rules of StableHLO for quantized types",
    ]


def test_one_violation_is_no_plural():
    text = "func.func private @f(!quant.uniform<i16:f32, 1.0:5>)"
    with pytest.raises(PassFailedException) as error:
        VerifyQuantConstraintsPass(rules="tflite").apply(Context(), module_of(text))
    assert str(error.value).splitlines()[-1] == (
        "error: 1 violation of the rules of TensorFlow Lite for quantized types"
    )


def test_unknown_rules():
    message = "^unknown rules 'tosa'; expected one of stablehlo, tflite$"
    with pytest.raises(ValueError, match=message):
        quant_constraint_violations(ModuleOp([]), "tosa")  # pyright: ignore[reportArgumentType] that is the mistake


# Where types are


def test_a_violation_says_rule_place_values_and_what_is_legal():
    text = """
func.func @f(%x: tensor<2xf32>) {
  %q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8<-10:10>:f32, 0.5:11>>
  return
}
"""
    (violation,) = quant_constraint_violations(module_of(text))
    assert violation.rule == "C7"
    assert violation.op.name == "quant.qcast"
    assert violation.subject == "result #0"
    assert violation.location is violation.op.location
    assert str(violation) == (
        "model.mlir:3:3: error: 'quant.qcast' op result #0: zero point 11 of "
        "!quant.uniform<i8<-10:10>:f32, 5.000000e-01:11> is outside of the storage range "
        "-10 to 10 (C7)"
    )


def test_without_a_place_the_op_and_the_value_are_named():
    violation, _ = quant_constraint_violations(with_result(FAR_OFF))
    assert isinstance(violation.location, UnknownLoc)
    assert str(violation).startswith(
        "error: 'test.op' op result #0: zero point 300 of "
    )


def test_all_types_of_a_value():
    text = """
%0 = "test.op"() : () -> tuple<
  !quant.uniform<i8<-10:10>:f32, 0.5:11>, f32, !quant.uniform<i8<-10:10>:f32, 0.5:12>>
"""
    first, second = quant_constraint_violations(module_of(text))
    assert "zero point 11" in first.message
    assert "zero point 12" in second.message


def test_the_place_of_an_argument():
    text = """
"test.op"() ({
^bb0(%a: !quant.uniform<i8<-10:10>:f32, 0.5:11> loc("there.py":4:2)):
  "test.termop"() : () -> ()
}) : () -> ()
"""
    (line,) = lines(text)
    assert line.startswith(
        "there.py:4:2: error: 'test.op' op argument #0 of block #0: "
    )


def test_the_place_of_an_argument_that_is_wrong_for_its_users():
    text = """
"test.op"() ({
^bb0(%a: tensor<2x!quant.uniform<i8:f32:0, {1.0,2.0}>> loc("there.py":4:2)):
  "test.termop"() : () -> ()
}) : () -> ()
"""
    (violation,) = quant_constraint_violations(module_of(text), "tflite")
    assert violation.rule == "activation-granularity"
    assert str(violation).startswith(
        "there.py:4:2: error: 'test.op' op argument #0 of block #0: "
    )


@pytest.mark.parametrize(
    "type_",
    [
        FAR_OFF,
        TensorType(FAR_OFF, (2,)),
        TensorType(f32, (2,), DictionaryAttr({"type": FAR_OFF})),
        TupleType((f32, TensorType(FAR_OFF, (2,)))),
        TupleType((TupleType((FAR_OFF,)),)),
        FunctionType.from_lists([f32], [FAR_OFF]),
        FunctionType.from_lists([TensorType(FAR_OFF, (2,))], []),
    ],
)
def test_nested_types(type_: TypeAttribute):
    assert rules_broken(with_result(type_)) == ["C7", "C8"]


@pytest.mark.parametrize(
    "attribute",
    [
        FAR_OFF,
        ArrayAttr([ArrayAttr([TensorType(FAR_OFF, (2,))])]),
        DictionaryAttr({"a": DictionaryAttr({"b": TupleType((FAR_OFF,))})}),
    ],
)
def test_types_in_attributes(attribute: Attribute):
    for op in (
        test.TestOp(attributes={"name": attribute}),
        test.TestOp(properties={"name": attribute}),
    ):
        violations = quant_constraint_violations(ModuleOp([op]))
        assert [(v.rule, v.subject) for v in violations] == [
            ("C7", "attribute 'name'"),
            ("C8", "attribute 'name'"),
        ]


def test_attributes_of_the_module_itself():
    module = ModuleOp([], {"test.type": FAR_OFF})
    violation, _ = quant_constraint_violations(module)
    assert violation.op is module


def test_a_type_is_reported_at_each_value_that_has_it_and_once_at_an_argument():
    text = """
!bad = !quant.uniform<i8<-10:10>:f32, 0.5:11>
func.func private @declared(!bad) -> (f32, !bad)
func.func @f(%a: f32, %x: !bad) -> !bad {
  %r:2 = "test.op"() ({
  ^bb0:
    "test.termop"() : () -> ()
  ^bb1(%b: f32, %c: !bad):
    "test.termop"() : () -> ()
  }) : () -> (f32, !bad)
  cf.br ^bb2(%x : !bad)
^bb2(%y: !bad):
  return %x : !bad
}
"""
    violations = quant_constraint_violations(module_of(text))
    assert [(v.op.name, v.subject) for v in violations] == [
        ("func.func", "argument #0"),
        ("func.func", "result #1 of the signature"),
        ("func.func", "argument #1"),
        ("func.func", "result #0 of the signature"),
        ("func.func", "argument #0 of block #1"),
        ("test.op", "result #1"),
        ("test.op", "argument #1 of block #1"),
    ]


# Rules for types


@pytest.mark.parametrize("rules", ["stablehlo", "tflite"])
@pytest.mark.parametrize(
    ("type_", "broken"),
    [
        ("!quant.uniform<i8:f32, 1.0:-128>", []),
        ("!quant.uniform<i8:f32, 1.0:127>", []),
        ("!quant.uniform<i8:f32, 1.0:128>", ["C7", "C8"]),
        ("!quant.uniform<i8:f32, 1.0:-129>", ["C7", "C8"]),
        ("!quant.uniform<i8<-127:127>:f32, 1.0:-128>", ["C7"]),
        ("!quant.uniform<u8:f32, 1.0:255>", []),
        ("!quant.uniform<u8:f32, 1.0:-1>", ["C7", "C8"]),
        ("!quant.uniform<ui8:f32, 1.0:255>", []),
        ("!quant.uniform<i4:f32, 1.0:8>", ["C7", "C8"]),
        ("!quant.uniform<i8:f32:0, {1.0,2.0:128}>", ["C7", "C8"]),
        ("!quant.uniform<i8<0:9>:f32:0, {1.0:-1,2.0:10}>", ["C7"]),
        ("tensor<2x3x!quant.uniform<i8:f32:1, {1.0,2.0,3.0}>>", []),
        ("tensor<2x3x!quant.uniform<i8:f32:2, {1.0,2.0,3.0}>>", ["C12"]),
        ("tensor<!quant.uniform<i8:f32:0, {1.0}>>", ["C12"]),
        ("tensor<2x3x!quant.uniform<i8:f32:0, {1.0,2.0,3.0}>>", ["C13"]),
        ("tensor<?x3x!quant.uniform<i8:f32:0, {1.0,2.0,3.0}>>", []),
        ("tuple<tensor<2x!quant.uniform<i8:f32:0, {1.0:500}>>>", ["C7", "C8", "C13"]),
        ("!quant.uniform<i8:f32:5, {1.0,2.0}>", []),
        ("tensor<*x!quant.uniform<i8:f32:0, {1.0}>>", ["QuantizedTensorType"]),
        ("tensor<*x!quant.uniform<i8:f32, 1.0>>", ["QuantizedTensorType"]),
        ("!quant.any<i8:f32>", ["QuantizedTensorElementType"]),
        ("!quant.calibrated<f32<-1.0:1.0>>", ["QuantizedTensorElementType"]),
        ("!quant.none<f32>", ["QuantizedTensorElementType"]),
        (
            "tensor<2x!quant.uniform<i8:f32:{0:1}, {1.0:128,2.0}>>",
            ["QuantizedTensorElementType", "C7", "C8"],
        ),
    ],
)
def test_rules_of_both_sets(type_: str, broken: list[str], rules: Rules):
    assert type_rules(type_, rules) == broken


@pytest.mark.parametrize(
    ("type_", "stablehlo", "tflite"),
    [
        ("!quant.uniform<i16:f32, 1.0:5>", [], ["zero-point"]),
        ("!quant.uniform<i32:f32, 1.0:-5>", [], ["zero-point"]),
        ("!quant.uniform<i32:f32:0, {1.0,2.0:1}>", [], ["zero-point"]),
        ("!quant.uniform<i32:f32, 1.0>", [], []),
        ("!quant.uniform<i3:f32, 1.0>", ["QuantizationStorageType"], []),
        ("!quant.uniform<si8:f32, 1.0>", ["QuantizationStorageType"], []),
        ("!quant.uniform<i2:f64, 1.0>", [], []),
        ("!quant.uniform<u32:f8E4M3FN, 1.0>", [], []),
    ],
)
def test_rules_of_one_set(type_: str, stablehlo: list[str], tflite: list[str]):
    assert type_rules(type_) == stablehlo
    assert type_rules(type_, "tflite") == tflite


def messages(type_: str, rules: Rules = "stablehlo") -> list[str]:
    module = module_of(f"func.func private @f({type_})")
    return [
        violation.message for violation in quant_constraint_violations(module, rules)
    ]


def test_zero_points_that_are_farthest_outside():
    scales = ",".join(f"1.000000e+00:{z}" for z in (-300, 11, 12))
    text = f"!quant.uniform<i8<-9:9>:f32:0, {{{scales}}}>"
    assert messages(text) == [
        f"zero points -300 at index 0 and 12 at index 2 of {text} are outside of the "
        "storage range -9 to 9",
        f"zero point -300 at index 0 of {text} is not representable in i8: expected "
        "-128 to 127",
    ]


def test_what_a_shape_says():
    per_axis = "!quant.uniform<i8:f32:1, {1.000000e+00,2.000000e+00}>"
    assert messages(f"tensor<2x{per_axis}>") == [
        f"quantized dimension 1 of {per_axis} must be less than 1 in a shape of rank 1"
    ]
    assert messages(f"tensor<{per_axis}>") == [
        f"quantized dimension 1 of {per_axis} is out of range in a shape of rank 0"
    ]
    assert messages(f"tensor<2x3x{per_axis}>") == [
        f"{per_axis} has 2 scales: expected 3, the size of dimension 1"
    ]


def test_what_a_type_may_be():
    assert messages("!quant.uniform<si16:f32, 1.0>") == [
        "storage type si16 of !quant.uniform<si16:f32, 1.000000e+00> is not one of i2, i4, "
        "i8, i16, i32, u2, u4, u8, u16, u32"
    ]
    assert messages("!quant.any<i8>") == [
        "!quant.any<i8> is unsupported: expected a per-tensor or per-axis !quant.uniform "
        "type"
    ]
    assert messages("tensor<*x!quant.uniform<i8:f32, 1.0>>") == [
        "tensor of !quant.uniform<i8:f32, 1.000000e+00> is unranked: expected a ranked "
        "tensor"
    ]


def test_a_message_is_short_if_a_type_is_long():
    zero_points = np.zeros(1000, np.int64)
    zero_points[777] = 128
    type_ = UniformQuantizedPerAxisType(
        i8, f32, np.ones(1000), zero_points, quantized_dimension=0
    )
    for violation in quant_constraint_violations(with_result(type_)):
        assert violation.message.startswith("zero point 128 at index 777 of ")
        assert len(violation.message) < 400


# Subnormal scales


@pytest.mark.parametrize(
    ("type_", "found"),
    [
        ("i8:f32, 1.0e-40", "1.000000e-40"),
        # The smallest normal number with nine digits is rounded up to it.
        ("i8:f32, 1.17549435e-38", None),
        ("i8:f32, 1.1754942e-38", "1.175494e-38"),
        ("i8:f32, 1.0", None),
        ("i8:f64, 1.0e-40", None),
        ("i8:f64, 1.0e-310", "1.000000e-310"),
        ("i8:f80, 1.0e-310", None),
        ("i8:f16, 6.0e-5", "6.000000e-05"),
        ("i8:f16, 6.2e-5", None),
        ("i8:bf16, 6.0e-5", None),
        ("i8:f32:0, {1.0,2.0e-39:1,1.0e-40,3.0}", "1.000000e-40 at index 2"),
        ("i8:f32:0, {1.0,2.0}", None),
        ("i8:f32:{0:2}, {1.0,2.0e-39}", "2.000000e-39 at index 1"),
    ],
)
def test_subnormal_scales(type_: str, found: str | None):
    module = module_of(f"func.func private @f(!quant.uniform<{type_}>)")
    messages = [warning.message for warning in subnormal_scale_warnings(module)]
    starts = [message.partition(" of ")[0] for message in messages]
    assert starts == ([] if found is None else [f"scale {found}"])


@pytest.mark.parametrize("type_", ["!quant.any<i8:f32>", "f32"])
def test_types_without_scales_have_no_subnormal_ones(type_: str):
    module = module_of(f"func.func private @f({type_})")
    assert subnormal_scale_warnings(module) == []


@pytest.mark.parametrize("rules", ["stablehlo", "tflite"])
def test_the_pass_warns_of_a_subnormal_scale_and_does_not_fail(
    rules: Rules, capsys: pytest.CaptureFixture[str]
):
    text = """
func.func @f(%x: tensor<2xf32>) {
  %q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 5.0e-39>>
  return
}
"""
    VerifyQuantConstraintsPass(rules=rules).apply(Context(), module_of(text))
    assert capsys.readouterr().err == (
        "model.mlir:3:3: warning: 'quant.qcast' op result #0: scale 5.000000e-39 of "
        "!quant.uniform<i8:f32, 5.000000e-39> is subnormal and may be flushed "
        "to 0: expected a normal number, at least 1.17549435e-38 for f32 "
        "(subnormal-scale)\n"
    )


def test_the_pass_warns_before_it_fails(capsys: pytest.CaptureFixture[str]):
    module = with_result(UniformQuantizedType(i8, f32, 1e-40, 300))
    with pytest.raises(PassFailedException, match="2 violations"):
        VerifyQuantConstraintsPass().apply(Context(), module)
    assert capsys.readouterr().err.count("warning: ") == 1
