"""Ops of another dialect `stablehlo`, which is made here."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import (
    Attribute,
    Dialect,
    ParametrizedAttribute,
    SpacedOpaqueSyntaxAttribute,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.traits import IsTerminator
from xdsl.universe import Universe

from xdsl_quant.execution import compile
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.lowering.adoption import adopt_ops
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.quantizer import quantize
from xdsl_quant.runtime.loading import (
    IRError,
    apply_passes,
    as_module,
    parse_module,
)


@irdl_op_definition
class AddOp(IRDLOperation):
    name = "stablehlo.add"
    left = operand_def()
    right = operand_def()
    total = result_def()

    assembly_format = (
        "$left `plus` $right attr-dict `:` "
        "type($left) `,` type($right) `,` type($total)"
    )


@irdl_attr_definition
class DirectionAttr(ParametrizedAttribute, SpacedOpaqueSyntaxAttribute):
    """A class with the text of one of this package."""

    name = "stablehlo.comparison_direction"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        parser.parse_keyword("LT")
        return ()

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("LT")


@irdl_op_definition
class CompareOp(IRDLOperation):
    name = "stablehlo.compare"
    lhs = operand_def()
    rhs = operand_def()
    comparison_direction = prop_def(DirectionAttr)
    result = result_def()


@irdl_op_definition
class TanhOp(IRDLOperation):
    """It has another operand than the op of this package."""

    name = "stablehlo.tanh"
    operand = operand_def()
    shift = operand_def()
    result = result_def()


@irdl_op_definition
class NewOp(IRDLOperation):
    """This package has no such op."""

    name = "stablehlo.new"
    operand = operand_def()
    result = result_def()


@irdl_op_definition
class ReturnOp(IRDLOperation):
    name = "stablehlo.return"
    values = var_operand_def()
    traits = traits_def(IsTerminator())


OTHER = Dialect(
    "stablehlo", [AddOp, CompareOp, TanhOp, NewOp, ReturnOp], [DirectionAttr]
)


def foreign_context() -> Context:
    """A context in which `stablehlo` is the other dialect."""
    ctx = Context()
    for name, factory in Universe.get_multiverse().all_dialects.items():
        ctx.register_dialect(name, factory if name != "stablehlo" else lambda: OTHER)
    return ctx


Q = "tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>"

ADD_AND_COMPARE = f"""
func.func @f(%x: {Q}, %y: {Q}) -> ({Q}, tensor<4xi1>) {{
  %0 = stablehlo.add %x plus %y {{note = 1 : i64}} : {Q}, {Q}, {Q}
  %1 = "stablehlo.compare"(%0, %x)
    <{{comparison_direction = #stablehlo<comparison_direction LT>}}>
    : ({Q}, {Q}) -> tensor<4xi1>
  return %0, %1 : {Q}, tensor<4xi1>
}}"""


def foreign_module(text: str) -> ModuleOp:
    return parse_module(text, "model.mlir", foreign_context())


def test_ops_and_attributes_are_adopted():
    module = foreign_module(ADD_AND_COMPARE)
    (add,) = [op for op in module.walk() if op.name == "stablehlo.add"]
    assert isinstance(add, AddOp)
    adopt_ops(module)
    add, compare = [op for op in module.walk() if op.name.startswith("stablehlo.")]
    assert isinstance(add, stablehlo.AddOp)
    assert add.attributes == {"note": IntegerAttr(1, i64)}
    assert isinstance(compare, stablehlo.CompareOp)
    assert compare.comparison_direction.data is stablehlo.ComparisonDirection.LT
    assert str(add.location) == 'loc("model.mlir":3:3)'
    assert "%0 = stablehlo.add %x, %y {note = 1 : i64} : tensor<4x" in str(module)
    module.verify()


@pytest.mark.parametrize(
    "passes",
    [
        "convert-quantized-stablehlo-to-linalg",
        "stablehlo-legalize-quant-to-integer,convert-stablehlo-to-linalg",
        "stablehlo-legalize-quantized-op-to-qdq,stablehlo-casts-to-quant,"
        "lower-quant-ops{rounding-mode=nearest-even},convert-stablehlo-to-linalg",
        "stablehlo-legalize-quantized-op-to-qdq,stablehlo-legalize-qdq-to-quantized-op,"
        "convert-quantized-stablehlo-to-linalg",
    ],
)
def test_passes_rewrite_ops_of_another_dialect(passes: str):
    module = foreign_module(ADD_AND_COMPARE)
    apply_passes(module, f"{passes},strip-func-quant-types,canonicalize")
    assert "stablehlo" not in str(module)
    x, y = np.array([5, 7, 9, 120], np.int8), np.array([4, 2, -3, 90], np.int8)
    for results in (run_function(module, "f", x, y), compile(module, "f")(x, y)):
        assert np.asarray(results[0]).tolist() == [6, 6, 3, 127]
        assert np.asarray(results[1]).tolist() == [False, True, True, False]


DENSE = """
func.func @f(%x: tensor<2x3xf32>) -> tensor<2x2xf32> {
  %w = stablehlo.constant dense<[[1.0, 100.0], [2.0, -50.0], [-3.0, 25.0]]>
    : tensor<3x2xf32>
  %b = stablehlo.constant dense<[1.0, -20.0]> : tensor<2xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<2xf32>) -> tensor<2x2xf32>
  %2 = stablehlo.add %0, %1 : tensor<2x2xf32>
  return %2 : tensor<2x2xf32>
}"""


def test_a_module_of_another_dialect_is_quantized_like_one_of_this():
    own = parse_module(DENSE)
    foreign = own.clone()
    (add,) = [op for op in foreign.walk() if op.name == "stablehlo.add"]
    Rewriter.replace_op(
        add, AddOp(operands=add.operands, result_types=add.result_types)
    )
    samples = np.random.default_rng(0).uniform(-1, 1, (8, 3)).astype(np.float32)
    text = str(foreign)
    expected = str(quantize(own, samples).module)
    assert "!quant.uniform<i32:f32:1, " in expected
    assert str(quantize(foreign, samples).module) == expected
    assert str(foreign) == text
    outputs = [run_function(module, "f", samples[:2])[0] for module in (own, foreign)]
    np.testing.assert_array_equal(outputs[1], outputs[0])


@pytest.mark.parametrize("load", [as_module, compile])
def test_a_module_of_unsupported_ops_is_an_error(load: Callable[[ModuleOp], object]):
    module = foreign_module(TANH_OF_TWO)
    with pytest.raises(ValueError, match="requires a single operand") as error:
        load(module)
    assert str(error.value).startswith(TANH_ERROR)


MAX_POOL = """
func.func @f(%x: tensor<4xf32>, %low: tensor<f32>) -> tensor<2xf32> {
  %0 = "stablehlo.reduce_window"(%x, %low) <{
    window_dimensions = array<i64: 2>, window_strides = array<i64: 2>
  }> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %1 = stablehlo.maximum %a, %b : tensor<f32>
    "stablehlo.return"(%1) : (tensor<f32>) -> ()
  }) : (tensor<4xf32>, tensor<f32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}"""


def test_max_pool_that_ends_with_an_op_of_another_dialect():
    module = foreign_module(MAX_POOL)
    assert any(isinstance(op, ReturnOp) for op in module.walk())
    apply_passes(module, "convert-stablehlo-to-linalg")
    x, low = np.array([1, 4, 3, 2], np.float32), np.float32(-np.inf)
    (result,) = run_function(module, "f", x, low)
    assert np.asarray(result).tolist() == [4, 3]


PASSES = [
    "convert-quantized-stablehlo-to-linalg",
    "convert-stablehlo-to-linalg",
    "stablehlo-casts-to-quant",
    "stablehlo-legalize-qdq-to-quantized-op",
    "stablehlo-legalize-quant-to-integer",
    "stablehlo-legalize-quantized-op-to-qdq",
]


TANH_OF_TWO = f"""
        func.func @f(%x: {Q}) -> {Q} {{
          %0 = "stablehlo.tanh"(%x, %x) : ({Q}, {Q}) -> {Q}
          return %0 : {Q}
        }}"""
TANH_ERROR = (
    "model.mlir:3:11: error: 'stablehlo.tanh' op of another dialect 'stablehlo' is "
    "unsupported: "
)


@pytest.mark.parametrize("passes", PASSES)
def test_other_operands_are_an_error(passes: str):
    module = foreign_module(TANH_OF_TWO)
    with pytest.raises(IRError) as error:
        apply_passes(module, passes)
    message = str(error.value)
    assert message.startswith(TANH_ERROR)
    assert message.count("\n") == 0
    assert "requires a single operand" in message
    (tanh,) = [op for op in module.walk() if op.name == "stablehlo.tanh"]
    assert isinstance(tanh, TanhOp)


@pytest.mark.parametrize(
    "passes", [p for p in PASSES if "to-int" in p or "to-qdq" in p]
)
def test_quantized_ops_that_are_not_known_are_an_error(passes: str):
    module = foreign_module(
        f"""
        func.func @f(%x: {Q}) -> {Q} {{
          %0 = "stablehlo.new"(%x) : ({Q}) -> {Q}
          return %0 : {Q}
        }}"""
    )
    with pytest.raises(IRError) as error:
        apply_passes(module, passes)
    assert str(error.value).startswith("model.mlir:3:11: error: ")
    assert "found 1 'stablehlo.new'; use " in str(error.value)
