"""The functions of expressions, compared with NumPy's on special values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType, UnknownLoc, f32, f64, i1
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.rewriter import InsertPoint

from xdsl_quant.machines.arith import Condition, FloatExpression
from xdsl_quant.machines.expression import FUNCTIONS
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.transforms.building.builder import LoweringBuilder

VALUES = [
    *(math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5),
    *(-2.5, 1e-40, -1e-40, 3.0e38, -3.0e38, 7.0, -7.0, 0.1),
]

UNARY = [
    f
    for f in FUNCTIONS
    if isinstance(f, np.ufunc) and f.nin == 1
    if f not in (np.invert, np.logical_not)
]
BINARY = [
    *(np.add, np.subtract, np.multiply, np.divide, np.minimum, np.maximum, np.fmin),
    *(np.fmax, np.copysign, np.power, np.equal, np.not_equal, np.less, np.less_equal),
    *(np.greater, np.greater_equal),
]
TYPES = {"f4": f32, "f8": f64}


def computed(function: Callable[..., Any], *arrays: NDArray[Any]) -> NDArray[Any]:
    """The elements of a function that is built as ops and interpreted."""
    type_ = TYPES[arrays[0].dtype.str[1:]]
    shape = arrays[0].shape
    block = Block(arg_types=[TensorType(type_, shape)] * len(arrays))
    builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
    kinds: list[bool] = []

    def body(inner: LoweringBuilder, values: Sequence[SSAValue]) -> SSAValue:
        result = function(*(FloatExpression(inner, v) for v in values[: len(arrays)]))
        kinds.append(isinstance(result, Condition))
        return result.value

    is_truth = isinstance(function(*(a[0] for a in arrays)), np.bool_)
    result_type = TensorType(i1 if is_truth else type_, shape)
    inputs = [(argument, [AffineDimExpr(0)]) for argument in block.args]
    result = builder.map(inputs, result_type, [*shape], body)
    block.add_op(ReturnOp(result))
    types = [*block.arg_types], [result_type]
    module = ModuleOp([FuncOp("main", types, Region(block))])
    module.verify()
    assert kinds == [is_truth]
    (elements,) = run_function(module, "main", *arrays)
    return elements


def check(function: np.ufunc, *arrays: NDArray[Any]) -> None:
    with np.errstate(all="ignore"):
        expected = function(*arrays)
        result = computed(function, *arrays)
    np.testing.assert_allclose(result, expected, rtol=1e-6)
    if expected.dtype.kind == "f" and function not in (np.minimum, np.maximum):
        numbers = ~np.isnan(expected)
        signs = np.signbit(result) == np.signbit(expected)
        assert signs[numbers].all() or function in (np.fmin, np.fmax, np.sign)


@pytest.mark.parametrize("function", UNARY, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", TYPES)
def test_functions_of_one_float(function: np.ufunc, dtype: str):
    check(function, np.array(VALUES, dtype))


@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", TYPES)
def test_functions_of_two_floats(function: np.ufunc, dtype: str):
    lhs, rhs = np.array([*product(VALUES, VALUES)], dtype).T
    check(function, np.ascontiguousarray(lhs), np.ascontiguousarray(rhs))


def test_lists_have_all_functions():
    """Functions of integers and of truth values are tested with all small numbers."""
    others = {
        *(np.floor_divide, np.remainder, np.fmod, np.left_shift, np.right_shift),
        *(np.bitwise_and, np.bitwise_or, np.invert, np.logical_and, np.logical_or),
        *(np.logical_not, np.clip, np.where),
    }
    assert {*UNARY, *BINARY} | others == {*FUNCTIONS}
