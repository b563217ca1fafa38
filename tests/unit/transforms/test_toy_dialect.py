"""
A dialect whose ops have traits and nothing else goes through every pass that concerns them,
and through both evaluators. Nothing in the package knows it.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, ModuleOp, TensorType
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr, AffineMap
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)

from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    AffineOpCoefficient,
    ComputesElementwise,
    MovesElements,
    MultipliesAndAccumulates,
    OrdersElements,
    SameOperandsAndResultsScale,
)
from xdsl_quant.execution import compile
from xdsl_quant.inspecting.verify_quant_constraints import (
    quant_constraint_violations,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize
from xdsl_quant.runtime.loading import (
    IRError,
    apply_passes,
    multiverse_context,
    parse_module,
)
from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    REDUCTION,
    LoweringBuilder,
    dimensions,
    element_type_of,
    shape_of,
)
from xdsl_quant.transforms.building.dequantize_fallback import (
    DequantizeFallback,
    lower_with_fallback,
)

Array = NDArray[Any]


# The dialect


@irdl_op_definition
class ReverseOp(IRDLOperation):
    """The elements of the last dimension in the other order."""

    name = "toy.reverse"
    operand = operand_def()
    result = result_def()
    traits = traits_def(MovesElements(), SameOperandsAndResultsScale())


class ElementwiseOp(IRDLOperation):
    """What both elementwise ops are for the lowering below."""


@irdl_op_definition
class LeastOp(ElementwiseOp):
    """The lesser of two elements."""

    name = "toy.least"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    traits = traits_def(OrdersElements(), ComputesElementwise())


@irdl_op_definition
class SquareOp(ElementwiseOp):
    """Each element times itself."""

    name = "toy.square"
    operand = operand_def()
    result = result_def()
    traits = traits_def(ComputesElementwise())


@irdl_op_definition
class DenseOp(IRDLOperation):
    """Products with the rows of the weights, summed, and a bias."""

    name = "toy.dense"
    input = operand_def()
    weights = operand_def()
    bias = operand_def()
    result = result_def()
    traits = traits_def(
        MultipliesAndAccumulates(),
        AffineOpCoefficient(1, 0),
        AccumulatorUniformScale(2),
    )


TOY = Dialect("toy", [ReverseOp, LeastOp, SquareOp, DenseOp])


# What the dialect has for numbers


class LowerReverse(DequantizeFallback[ReverseOp]):
    op_type = ReverseOp
    lowers_float_ops = True

    def lower_float(
        self,
        op: ReverseOp,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        builder: LoweringBuilder,
    ) -> Sequence[SSAValue]:
        (value,) = operands
        last = shape_of(value)[-1] - 1
        *others, dimension = dimensions(range(len(shape_of(value))))
        source = [*others, AffineConstantExpr(last) + dimension * -1]
        type_ = cast(TensorType, result_types[0])
        return [builder.rearrange(value, type_, builder.sizes(value), source)]


class LowerElementwise(DequantizeFallback[ElementwiseOp]):
    op_type = ElementwiseOp
    lowers_float_ops = True

    def lower_float(
        self,
        op: ElementwiseOp,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        builder: LoweringBuilder,
    ) -> Sequence[SSAValue]:
        indices: Sequence[AffineExpr] = dimensions(range(len(shape_of(operands[0]))))
        is_float = isinstance(element_type_of(operands[0]), AnyFloat)
        least = arith.MinimumfOp if is_float else arith.MinSIOp

        def body(inner: LoweringBuilder, args: Sequence[SSAValue]) -> SSAValue:
            if isinstance(op, SquareOp):
                return inner.add(arith.MulfOp(args[0], args[0]))
            return inner.add(least(args[0], args[1]))

        type_ = cast(TensorType, result_types[0])
        inputs = [(operand, indices) for operand in operands]
        return [builder.map(inputs, type_, builder.sizes(operands[0]), body)]


class LowerDense(DequantizeFallback[DenseOp]):
    op_type = DenseOp
    lowers_float_ops = True

    def lower_float(
        self,
        op: DenseOp,
        operands: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        builder: LoweringBuilder,
    ) -> Sequence[SSAValue]:
        x, weights, bias = operands
        type_ = cast(TensorType, result_types[0])
        row, column, inner = dimensions(range(3))
        start = builder.rearrange(bias, type_, type_.get_shape(), [column])

        def body(builder: LoweringBuilder, args: Sequence[SSAValue]) -> SSAValue:
            product = builder.add(arith.MulfOp(args[0], args[1]))
            return builder.add(arith.AddfOp(args[2], product))

        maps = [(row, inner), (column, inner), (row, column)]
        return [
            builder.generic(
                [x, weights],
                [start],
                [AffineMap(3, 0, exprs) for exprs in maps],
                [PARALLEL, PARALLEL, REDUCTION],
                body,
            )
        ]


LOWERINGS = (LowerReverse(), LowerElementwise(), LowerDense())


# A program

A = "!quant.uniform<i8:f32, 5.000000e-01:3>"
W = "!quant.uniform<i8<-127:127>:f32:0, {2.500000e-01,5.000000e-01,1.250000e-01}>"
B = "!quant.uniform<i32:f32:0, {1.250000e-01,2.500000e-01,6.250000e-02}>"
R = "!quant.uniform<i8:f32, 1.600000e+01:-100>"

PROGRAM = f"""
!x = tensor<2x4x{A}>
!w = tensor<3x4x{W}>
!b = tensor<3x{B}>
!y = tensor<2x3x{A}>
!r = tensor<2x3x{R}>
func.func @f(%x: !x, %w: !w, %b: !b) -> !r {{
  %y = "toy.dense"(%x, %w, %b) : (!x, !w, !b) -> !y
  %v = "toy.reverse"(%y) : (!y) -> !y
  %l = "toy.least"(%y, %v) : (!y, !y) -> !y
  %r = "toy.square"(%l) : (!y) -> !r
  return %r : !r
}}"""

X = np.array([[3, 10, -20, 50], [-100, 3, 120, 0]], np.int8)
WEIGHTS = np.array([[1, 2, 3, 4], [-5, 9, 0, 11], [100, -7, 30, 2]], np.int8)
BIAS = np.array([40, -30, 500], np.int32)


def toy_context() -> Context:
    ctx = multiverse_context()
    ctx.load_dialect(TOY)
    return ctx


def toy_module(text: str = PROGRAM) -> ModuleOp:
    return parse_module(text, "toy.mlir", toy_context())


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if not op.name.startswith(("bu", "func"))]


def expected() -> list[list[int]]:
    a = QuantizationParameters(0.5, 3)
    weight_scales = np.array([0.25, 0.5, 0.125])
    w = QuantizationParameters(weight_scales, storage_min=-127, quantized_dimension=0)
    b = QuantizationParameters(weight_scales / 2, storage="i32", quantized_dimension=0)
    y = dequantize(X, a) @ dequantize(WEIGHTS, w).T + dequantize(BIAS, b)
    y = dequantize(quantize(y, a, rounding_mode="nearest-even"), a)
    least = np.minimum(y, y[:, ::-1])
    r = QuantizationParameters(16.0, -100)
    return quantize(least * least, r, rounding_mode="nearest-even").tolist()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "passes",
    [
        "",
        "stablehlo-legalize-quant-to-integer{fallback=keep}",
        "stablehlo-legalize-quant-to-integer{fallback=qdq},stablehlo-casts-to-quant",
        "stablehlo-legalize-quantized-op-to-qdq,stablehlo-casts-to-quant",
        "stablehlo-legalize-quantized-op-to-qdq,stablehlo-legalize-qdq-to-quantized-op",
    ],
)
def test_both_evaluators(passes: str):
    module = toy_module()
    apply_passes(module, passes, toy_context())
    lower_with_fallback(module, LOWERINGS)
    apply_passes(
        module,
        "lower-quant-ops{rounding-mode=nearest-even keep-qdq=true},"
        "strip-func-quant-types,canonicalize",
    )
    assert "toy" not in str(module)
    (interpreted,) = run_function(module, "f", X, WEIGHTS, BIAS)
    assert np.asarray(interpreted).tolist() == expected()
    assert compile(module, "f")(X, WEIGHTS, BIAS).tolist() == expected()


def test_qdq_and_back():
    module = toy_module()
    apply_passes(module, "stablehlo-legalize-quantized-op-to-qdq", toy_context())
    module.verify()
    assert names(module) == [
        *["stablehlo.uniform_dequantize"] * 3,
        "toy.dense",
        "stablehlo.uniform_quantize",
        "toy.reverse",
        *["stablehlo.uniform_dequantize"] * 2,
        "toy.least",
        "stablehlo.uniform_quantize",
        "stablehlo.uniform_dequantize",
        "toy.square",
        "stablehlo.uniform_quantize",
    ]
    apply_passes(module, "stablehlo-legalize-qdq-to-quantized-op", toy_context())
    assert str(module) == str(toy_module())


def test_integers():
    module = toy_module()
    with pytest.raises(IRError) as error:
        apply_passes(module, "stablehlo-legalize-quant-to-integer", toy_context())
    assert str(error.value).startswith(
        "toy.mlir:8:3: error: quantized ops without integer form, found 1 'toy.dense', "
        "1 'toy.square'; use "
    )
    passes = "stablehlo-legalize-quant-to-integer{fallback=keep}"
    apply_passes(module, passes, toy_context())
    assert names(module) == [
        "toy.dense",
        "quant.scast",
        "toy.reverse",
        "toy.least",
        "quant.scast",
        "toy.square",
    ]
    reverse, least = (
        op for op in module.walk() if op.name in ("toy.reverse", "toy.least")
    )
    for op in (reverse, least):
        assert {str(v.type) for v in (*op.operands, *op.results)} == {"tensor<2x3xi8>"}


def test_order_of_unsigned_integers():
    module = toy_module(
        """
        !q = tensor<3x!quant.uniform<u8:f32, 5.000000e-01:3>>
        func.func @f(%x: !q, %y: !q) -> !q {
          %l = "toy.least"(%x, %y) : (!q, !q) -> !q
          return %l : !q
        }"""
    )
    apply_passes(module, "stablehlo-legalize-quant-to-integer", toy_context())
    lower_with_fallback(module, LOWERINGS)
    apply_passes(module, "strip-func-quant-types,canonicalize")
    x, y = np.array([200, 3, 255], np.uint8), np.array([100, 130, 0], np.uint8)
    assert compile(module, "f")(x, y).astype(np.uint8).tolist() == [100, 3, 0]


def test_operands_of_another_scale():
    module = toy_module(
        """
        !q = tensor<3x!quant.uniform<i8:f32, 5.000000e-01:3>>
        !r = tensor<3x!quant.uniform<i8:f32, 2.500000e-01>>
        func.func @f(%x: !q, %y: !r) -> !q {
          %l = "toy.least"(%x, %y) : (!q, !r) -> !q
          return %l : !q
        }"""
    )
    apply_passes(module, "stablehlo-legalize-quant-to-integer", toy_context())
    lower_with_fallback(module, LOWERINGS)
    apply_passes(module, "strip-func-quant-types,canonicalize")
    x, y = np.array([13, 3, 120], np.int8), np.array([16, 40, -8], np.int8)
    assert compile(module, "f")(x, y).tolist() == [11, 3, -1]


def violated(text: str) -> set[str]:
    return {v.rule for v in quant_constraint_violations(toy_module(text), "tflite")}


@pytest.mark.parametrize(
    ("old", "new", "rules"),
    [
        (A, A, set[str]()),
        ("{2.500000e-01,", "{2.500000e-01:7,", {"weight-zero-point"}),
        ("i8<-127:127>", "i8", {"weight-range"}),
        ("{1.250000e-01,2.5", "{3.000000e-01,2.5", {"bias-scale"}),
    ],
)
def test_weights_and_biases(old: str, new: str, rules: set[str]):
    assert violated(PROGRAM.replace(old, new)) == rules


def test_statistics_are_of_values_that_are_computed():
    text = PROGRAM
    for type_ in (A, W, B, R):
        text = text.replace(type_, "f32")
    module = toy_module(text)
    apply_passes(module, "quant-insert-stats-refs", toy_context())
    keys = [
        line.split('"')[1] for line in str(module).splitlines() if "stats_ref" in line
    ]
    assert keys == [
        *(f"f:argument:{i}" for i in range(3)),
        "f:toy.dense:0",
        "f:toy.least:0",
        "f:toy.square:0",
    ]
