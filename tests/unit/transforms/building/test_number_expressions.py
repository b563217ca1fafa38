"""Formulas of numerics, built as ops and interpreted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    IntegerType,
    ModuleOp,
    TensorType,
    UnknownLoc,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr
from xdsl.rewriter import InsertPoint

from tests.unit.frontends.tflite.formulas.cases import Case, Tensor, cases
from xdsl_quant.frontends.tflite.formulas import elementwise, fixed_point
from xdsl_quant.frontends.tflite.formulas.quantized import Quantized
from xdsl_quant.machines.arith import (
    Condition,
    FloatExpression,
    IntegerExpression,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import primitives
from xdsl_quant.transforms.building.builder import LoweringBuilder

ACTIVATIONS = "NONE", "RELU", "RELU_N1_TO_1", "RELU6"
RELU_OPS = "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"


def computed(case: Case, x: list[Quantized]) -> Any:
    """The formula of a case."""
    result = case.results[0]
    if result.type == "BOOL":
        return elementwise.compare(case.op.lower(), *x)
    if case.op in RELU_OPS:
        return elementwise.relu(x[0], result.parameters, case.op)
    kernels: dict[str, Callable[..., Any]] = {
        "ADD": elementwise.add,
        "SUB": elementwise.subtract,
        "MUL": elementwise.multiply,
        "SQUARED_DIFFERENCE": elementwise.squared_difference,
        "LEAKY_RELU": elementwise.leaky_relu,
        "PRELU": elementwise.prelu,
        "ABS": elementwise.absolute,
        "QUANTIZE": elementwise.requantize_integers,
        "HARD_SWISH": elementwise.hard_swish,
    }
    options = dict(case.options)
    if (index := options.pop("fused_activation_function", None)) is not None:
        options["activation"] = ACTIVATIONS[index]
    return kernels[case.op](*x, result.parameters, **options)


BINARY_AND_UNARY = {
    *RELU_OPS,
    *("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE", "LEAKY_RELU", "PRELU", "ABS"),
    *("QUANTIZE", "HARD_SWISH", "EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL"),
    *("LESS", "LESS_EQUAL"),
}
CASES = [
    case
    for case in cases()
    if case.op in BINARY_AND_UNARY
    if case.operands[0] is not None and case.operands[0].type != "FLOAT32"
]


def element_type(tensor: Tensor) -> IntegerType:
    if tensor.type == "BOOL":
        return i1
    return IntegerType(tensor.parameters.storage_width)


def tensor_type(tensor: Tensor) -> TensorType:
    return TensorType(element_type(tensor), tensor.array.shape)


def indices(tensor: Tensor, rank: int) -> list[AffineExpr]:
    first = rank - tensor.array.ndim
    return [
        AffineConstantExpr(0) if size == 1 else AffineDimExpr(first + dimension)
        for dimension, size in enumerate(tensor.array.shape)
    ]


def expression(
    builder: LoweringBuilder, value: SSAValue, tensor: Tensor
) -> IntegerExpression:
    parameters = tensor.parameters
    if not parameters.is_signed:
        value = builder.op(arith.ExtUIOp, (value,), i32)
    bounds = parameters.storage_min, parameters.storage_max
    return IntegerExpression(builder, value, bounds)


def module_of(case: Case, operands: list[Tensor]) -> ModuleOp:
    result = case.results[0]
    types, result_type = [*map(tensor_type, operands)], tensor_type(result)
    block = Block(arg_types=types)
    builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())

    def body(inner: LoweringBuilder, args: Any) -> SSAValue:
        stored = [
            Quantized(expression(inner, arg, tensor), tensor.parameters)  # pyright: ignore[reportArgumentType] in the place of an array
            for arg, tensor in zip(args, operands, strict=False)
        ]
        value = computed(case, stored)
        if isinstance(value, Condition):
            return value.value
        return value.as_type(element_type(result))

    rank = result.array.ndim
    inputs = [
        (arg, indices(tensor, rank))
        for arg, tensor in zip(block.args, operands, strict=True)
    ]
    value = builder.map(inputs, result_type, [*result.array.shape], body)
    block.add_op(ReturnOp(value))
    return ModuleOp([FuncOp("main", (types, [result_type]), Region(block))])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_kernels(case: Case):
    operands = [operand for operand in case.operands if operand is not None]
    module = module_of(case, operands)
    module.verify()
    arrays = [
        tensor.array.astype(tensor.parameters.storage_dtype).view(
            f"i{tensor.parameters.storage_dtype.itemsize}"
        )
        for tensor in operands
    ]
    expected = case.results[0].array
    (array,) = run_function(module, "main", *arrays)
    bits = expected if expected.dtype == np.bool_ else expected.astype(array.dtype)
    np.testing.assert_array_equal(array, bits)


# Parts


def evaluated(formula: Callable[[Any], Any], low: int, high: int, value: int) -> Any:
    """What a formula of one number gives, once as ops, with the bounds that it has."""
    block = Block(arg_types=[i64])
    builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
    result = formula(IntegerExpression(builder, block.args[0], (low, high)))
    block.add_op(ReturnOp(result.value))
    function = FuncOp("main", ([i64], [result.value.type]), Region(block))
    (number,) = run_function(ModuleOp([function]), "main", np.int64(value))
    assert result.bounds[0] <= number <= result.bounds[1]
    return number


def negative(x: Any) -> Any:
    return -x * 3 + 1


def extremes(x: Any) -> Any:
    return np.minimum(3, x) + np.maximum(x, 4)


def selected(x: Any) -> Any:
    # NumPy's annotations do not know that `x` says what this returns.
    where: Any = np.where
    return where(x > 2, x, -x)


FORMULAS: list[Callable[[Any], Any]] = [
    lambda x: 5 - x,
    negative,
    lambda x: (x << 20) >> 3,
    lambda x: np.int64(7) * x,
    lambda x: np.int64(7) + x,
    np.abs,
    lambda x: x & 255,
    lambda x: np.clip(x, -7, 100),
    extremes,
    selected,
    lambda x: x + (x == 3),
    lambda x: x - ((x >= 1) & (x != 9)),
    lambda x: primitives.wrapped(x << 12, 16),
    lambda x: primitives.rounding_divide(x, 5),
    lambda x: primitives.leading_zeros(np.abs(x)),
    lambda x: primitives.rescaled(x, fixed_point.quantized_multiplier(0.37)),
    lambda x: fixed_point.rescale_wide(x, fixed_point.quantized_multiplier(3.7)),
    lambda x: 1 << np.clip(x, 0, 30),
]


@pytest.mark.parametrize("formula", FORMULAS, ids=range(len(FORMULAS)))
@given(value=st.integers(-(1 << 17), 1 << 17))
def test_formulas(formula: Callable[[Any], Any], value: int):
    expected = formula(np.array(value, np.int64))
    assert evaluated(formula, -(1 << 17), 1 << 17, value) == expected


@pytest.mark.parametrize(
    ("bits", "type_"), [(30, i32), (31, i64), (62, i64)], ids=["30", "31", "62"]
)
def test_width(bits: int, type_: IntegerType):
    block = Block(arg_types=[i32])
    builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
    x = IntegerExpression(builder, block.args[0], (-1, 1))
    assert (x << bits).value.type == type_


def test_more_than_64_bits():
    block = Block(arg_types=[i32])
    builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
    x = IntegerExpression(builder, block.args[0], (-1, 1))
    with pytest.raises(ValueError, match="need more than 64 bits"):
        x << 63  # pyright: ignore[reportUnusedExpression] it raises


def test_nothing_to_do():
    """What changes no number builds no op."""
    block = Block(arg_types=[i32])
    builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
    x = IntegerExpression(builder, block.args[0], (-8, 7))
    for same in (x + 0, x - 0, x * 1, x << 0, x >> 0, x.wrapped(4), x.minimum(7)):
        assert same is x
    assert x.maximum(-8) is x
    assert not [*block.ops]


# Floats


def float_result(formula: Callable[[Any], Any], value: float) -> Any:
    """What a formula of a float gives, as ops."""
    block = Block(arg_types=[f32])
    builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
    result = formula(FloatExpression(builder, block.args[0]))
    block.add_op(ReturnOp(result.value))
    function = FuncOp("main", ([f32], [result.value.type]), Region(block))
    (number,) = run_function(ModuleOp([function]), "main", np.float32(value))
    return number


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2.9, 2),
        (-2.9, -2),
        (NAN, -(1 << 63)),
        (-INF, -(1 << 63)),
        (INF, (1 << 63) - (1 << 39)),
    ],
    ids=str,
)
def test_as_integer(value: float, expected: int):
    assert float_result(FloatExpression.as_integer, value) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(2.9, 2), (300, 100), (NAN, -7), (-INF, -7)], ids=str
)
def test_bounded_as_integer(value: float, expected: int):
    """NaN stays NaN in a clamp, and is the smallest integer then."""

    def formula(x: Any) -> Any:
        return np.clip(x, -7.0, 100.0).as_integer()

    result = float_result(formula, value)
    assert result == expected
    assert result.dtype == np.int32


def test_extremes_of_nan():
    for function, expected in ((np.maximum, NAN), (np.fmax, 3), (np.fmin, 3)):

        def formula(x: Any, function: Any = function) -> Any:
            return function(x, 3.0)

        np.testing.assert_equal(float_result(formula, NAN), np.float32(expected))


def test_nothing_to_guard():
    """A float that was an integer, or that is compared with a number, is not NaN."""
    block = Block(arg_types=[i32, f32])
    builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
    integer = IntegerExpression(builder, block.args[0], (-5, 5)).as_float(f32)
    # NumPy's annotations do not know expressions.
    number = cast(Any, np.fmax)(FloatExpression(builder, block.args[1]), 0.0)
    for x, is_nan in ((integer, False), (integer * 0.5, False), (number, False)):
        assert x.may_be_nan == is_nan
    assert (number * number).may_be_nan
