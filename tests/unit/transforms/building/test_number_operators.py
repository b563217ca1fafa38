"""Each operator and function of expressions, on all numbers of small bounds."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    ModuleOp,
    TensorType,
    UnknownLoc,
    f16,
    f32,
    f64,
    i1,
    i32,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr
from xdsl.rewriter import InsertPoint

from xdsl_quant.machines.arith import Condition, FloatExpression, IntegerExpression
from xdsl_quant.machines.expression import ANY_INTEGER, NO_FORM
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.unsupported import Unsupported

Array = NDArray[Any]
Formula = Callable[..., Any]
Unary = Callable[[Any], Any]
Binary = Callable[[Any, Any], Any]

# What NumPy's annotations say of these is not about expressions.
FMOD: Any = np.fmod
WHERE: Any = np.where

INF, NAN = math.inf, math.nan


def a_builder() -> LoweringBuilder:
    return LoweringBuilder(InsertPoint.at_end(Block()), location=UnknownLoc())


def integers(builder: LoweringBuilder, *bounds: tuple[int, int]) -> Any:
    """Arguments of 64 bits with these bounds."""
    args = Block(arg_types=[i64] * len(bounds)).args
    pairs = zip(args, bounds, strict=True)
    return [IntegerExpression(builder, value, pair) for value, pair in pairs]


def evaluated(
    body: Callable[[LoweringBuilder, Sequence[SSAValue]], SSAValue],
    type_: Attribute,
    *arrays: Array,
) -> Array:
    """The elements of a loop over arrays of one dimension and one size."""
    names = {"i8": i64, "f2": f16, "f4": f32, "f8": f64, "b1": i1}
    (shape,) = {array.shape for array in arrays}
    types = [TensorType(names[array.dtype.str[1:]], shape) for array in arrays]
    block = Block(arg_types=types)
    builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
    inputs = [(argument, [AffineDimExpr(0)]) for argument in block.args]
    result_type = TensorType(type_, shape)
    result = builder.map(inputs, result_type, [*shape], lambda b, v: body(b, v[:-1]))
    block.add_op(ReturnOp(result))
    module = ModuleOp([FuncOp("main", (types, [result_type]), Region(block))])
    module.verify()
    (elements,) = run_function(module, "main", *arrays)
    return elements


# Integers

INTERVALS = (-5, 7), (0, 6), (1, 4), (-6, -1), (-3, 0)
PAIRS = [(a, b) for a in INTERVALS for b in (*INTERVALS, (3, 3))]


Pairs = Sequence[tuple[tuple[int, int], tuple[int, int]]]


@pytest.fixture(name="pairs")
def some_pairs(request: pytest.FixtureRequest) -> Pairs:
    """All pairs of bounds, or some that have each interval on both sides."""
    return PAIRS if request.config.getoption("--all-cases") else PAIRS[::5]


def check_integers(formula: Formula, *intervals: tuple[int, int]) -> Any:
    """
    Compare a formula, built as ops, with NumPy's for all numbers within the bounds.

    Returns:
        the bounds of the expression, or none for a condition, and NumPy's results.
    """
    ranges = (np.arange(low, high + 1) for low, high in intervals)
    arrays = [grid.ravel() for grid in np.meshgrid(*ranges)]
    expression = formula(*integers(a_builder(), *intervals))

    def body(builder: LoweringBuilder, values: Sequence[SSAValue]) -> SSAValue:
        pairs = zip(values, intervals, strict=True)
        return formula(*(IntegerExpression(builder, *pair) for pair in pairs)).value

    result = evaluated(body, expression.value.type, *arrays)
    expected = formula(*arrays)
    np.testing.assert_array_equal(result, expected)
    if isinstance(expression, Condition):
        return None, expected
    return expression.bounds, expected


TIGHT: dict[str, Binary] = {
    "x + y": operator.add,
    "x - y": operator.sub,
    "x * y": operator.mul,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "-x": lambda x, y: -x,
    "x + 3": lambda x, y: x + 3,
    "3 - x": lambda x, y: 3 - x,
    "0 - x": lambda x, y: 0 - x,
    "-2 * x": lambda x, y: -2 * x,
    "x << 2": lambda x, y: x << 2,
    "x >> 1": lambda x, y: x >> 1,
    "1 << x": lambda x, y: 3 << (x + 6),
    "x << y": lambda x, y: x << (y + 6),
    "x >> y": lambda x, y: x >> (y + 6),
    "x // 2": lambda x, y: x // 2,
    "x // -3": lambda x, y: x // -3,
    "x // (y + 7)": lambda x, y: x // (y + 7),
    "clip": lambda x, y: np.clip(x, -2, 4),
}
"""Formulas whose bounds are their smallest and their largest result."""


@pytest.mark.sampled
@pytest.mark.parametrize("name", TIGHT)
def test_exact_bounds(name: str, pairs: Pairs):
    for pair in pairs:
        bounds, expected = check_integers(TIGHT[name], *pair)
        assert bounds == (expected.min(), expected.max())


WITHIN: dict[str, Binary] = {
    "x % 3": lambda x, y: x % 3,
    "x % -4": lambda x, y: x % -4,
    "x % (y + 7)": lambda x, y: x % (y + 7),
    "fmod 3": lambda x, y: FMOD(x, 3),
    "fmod -4": lambda x, y: FMOD(x, -4),
    "fmod": lambda x, y: FMOD(x, y + 7),
    "x & 5": lambda x, y: x & 5,
    "absolute": lambda x, y: np.abs(x),
    "sign": lambda x, y: np.sign(x),
    "where": lambda x, y: WHERE(x > y, x - 1, y),
    "where with a number": lambda x, y: WHERE(x > y, x, 3),
    "where with a condition": lambda x, y: WHERE(x > y, x, y > 0),
    "x + condition": lambda x, y: x + (y > 0),
    "condition + x": lambda x, y: (y > 0) + x,
    "x - condition": lambda x, y: x - (y > 0),
    "condition - x": lambda x, y: (y > 0) - x,
    "condition + 3": lambda x, y: (y > 0) + 3,
    "3 - condition": lambda x, y: 3 - (y > 0),
    "x * condition": lambda x, y: x * (y > 0),
    "minimum with a wide number": lambda x, y: np.minimum(x, (y + 6) << 40),
    "minimum of a condition": lambda x, y: np.minimum(y > 0, x),
    "maximum with a number first": lambda x, y: np.maximum(2, x),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", WITHIN)
def test_bounds(name: str, pairs: Pairs):
    for pair in pairs:
        bounds, expected = check_integers(WITHIN[name], *pair)
        assert bounds[0] <= expected.min() <= expected.max() <= bounds[1]


CONDITIONS: dict[str, Binary] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "< 2": lambda x, y: x < 2,
    "and": lambda x, y: (x > 2) & (y > 1),
    "or": lambda x, y: (x > 2) | (y > 1),
    "not": lambda x, y: ~(x > y),
    "conditions that are equal": lambda x, y: (x > 0) == (y > 0),
    "conditions that differ": lambda x, y: (x > 0) != (y > 0),
    "where of conditions": lambda x, y: WHERE(x > y, x > 0, y > 0),
    "not where": lambda x, y: ~WHERE(x > y, x > 0, y > 0),
    "where of truth values": lambda x, y: WHERE(x > y, False, y > 0),
    "logical": lambda x, y: np.logical_or(
        np.logical_and(x > 0, y > 0), np.logical_not(x > y)
    ),
    "invert": lambda x, y: np.invert(x > y),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions(name: str, pairs: Pairs):
    for pair in pairs:
        check_integers(CONDITIONS[name], *pair)


BOUNDS: list[tuple[Unary, tuple[int, int]]] = [
    (lambda x: x % 3, (-11, 13)),
    (lambda x: x.remainder(3), (-2, 2)),
    (lambda x: x.remainder(-100), (-5, 7)),
    (lambda x: (x + 8).remainder(4), (0, 3)),
    (lambda x: (x - 8).remainder(4), (-3, 0)),
    (lambda x: x & 255, (0, 255)),
    (lambda x: (x + 5) & 255, (0, 12)),
    (lambda x: (x + 5) & 3, (0, 3)),
    (lambda x: np.abs(x), (0, 7)),
    (lambda x: np.abs(x - 3), (0, 8)),
    (lambda x: np.abs(x + 6), (1, 13)),
    (lambda x: x.sign(), (-1, 1)),
    (lambda x: x.wrapped(3), (-4, 3)),
    (lambda x: x.leading_zeros(), (0, 32)),
    (lambda x: WHERE(x > 0, 3, -9), (-9, 3)),
    (lambda x: x + (x > 0), (-5, 8)),
    (lambda x: 10 // (x + 6), (0, 10)),
]


@pytest.mark.parametrize(("formula", "expected"), BOUNDS, ids=range(len(BOUNDS)))
def test_which_bounds(formula: Formula, expected: tuple[int, int]):
    assert formula(*integers(a_builder(), (-5, 7))).bounds == expected


DIVISIONS: list[Binary] = [lambda x, y: x // y, lambda x, y: x % y, FMOD]


@pytest.mark.parametrize("function", DIVISIONS, ids=("//", "%", "fmod"))
@pytest.mark.parametrize("bounds", [(0, 3), (-3, 0), (-1, 1)], ids=str)
def test_division_by_zero(function: Formula, bounds: tuple[int, int]):
    x, y = integers(a_builder(), (0, 7), bounds)
    with pytest.raises(ValueError, match=r"^a divisor may be 0$"):
        function(x, y)


def test_division_of_a_number():
    def formula(x: Any) -> Any:
        return 100 // x

    result, expected = check_integers(formula, (3, 8))
    assert result == (12, 33)
    assert (expected.min(), expected.max()) == result


def test_division_by_one():
    x, y = integers(a_builder(), (-5, 7), (1, 1))
    assert x // 1 is x
    assert x // y is x
    # A divisor that is not 1 is no such divisor.
    assert (x // 2) is not x


@pytest.mark.parametrize(
    ("low", "divisor", "expected"),
    [
        (0, 2, arith.DivSIOp),
        (0, 1 << 40, arith.DivSIOp),
        (-1, 2, arith.FloorDivSIOp),
        (0, -2, arith.FloorDivSIOp),
    ],
)
def test_ops_of_divisions(low: int, divisor: int, expected: type):
    (x,) = integers(a_builder(), (low, 7))
    assert isinstance((x // divisor).value.owner, expected)


def test_ops_of_numbers_without_a_sign():
    """A division by what is 1 at least needs no rounding down."""
    x, y = integers(a_builder(), (0, 7), (1, 7))
    assert isinstance((x // y).value.owner, arith.DivSIOp)


def test_types():
    """What fits 32 bits has 32 bits."""
    edge = (1 << 31) - 1
    x, y = integers(a_builder(), (-1 - edge, edge), (0, edge + 1))
    assert (x // 2).value.type == i32
    assert (x + 1).value.type == i64
    assert (x - 1).value.type == i64
    assert (y - 1).value.type == i64
    assert (x < 0).value.type == i1
    assert WHERE(x > 0, edge, -1 - edge).value.type == i32
    assert WHERE(x > 0, edge + 1, 0).value.type == i64


def test_types_of_comparisons():
    """Both sides fit the type."""
    x, y = integers(a_builder(), (0, 3), (0, 1 << 40))
    for condition in (x < 4, 4 > x, x == x):
        assert condition.value.owner.lhs.type == i32
    for condition in (x < 1 << 40, 1 << 40 > x, y < 4, x < y, y != x):
        assert condition.value.owner.lhs.type == i64


def test_any_integer_wraps_around():
    (x,) = integers(a_builder(), ANY_INTEGER)
    for result in (x + 1, 1 - x, x * 3, x + x, np.minimum(x, x + 1)):
        assert result.bounds == ANY_INTEGER
        assert result.value.type == i64


@pytest.mark.parametrize("beyond", [1 << 63, -(1 << 63) - 1])
def test_too_wide(beyond: int):
    (x,) = integers(a_builder(), (0, 1))
    with pytest.raises(
        Unsupported, match=r"has values from .*, which need more than 64 bits"
    ):
        operator.mul(x, beyond)


def test_truth_values_that_are_known():
    (x,) = integers(a_builder(), (0, 3))
    condition = x > 1
    assert (condition & True) is condition
    assert (True & condition) is condition
    # Compared with a number, a condition is another condition.
    for result in (condition & False, False & condition):
        assert type(result) is int
        assert result == 0
    assert WHERE(True, x, 3) is x
    assert WHERE(False, 3, x) is x


def test_choice_between_floats_without_a_type():
    (x,) = integers(a_builder(), (0, 3))
    with pytest.raises(
        ValueError,
        match=r"^expected a float expression in a selection of floats",
    ):
        WHERE(x > 1, 1.5, 2)


def test_functions_of_floats_refuse_integers():
    (x,) = integers(a_builder(), (0, 3))
    for function in (np.sqrt, np.floor):
        with pytest.raises(
            Unsupported, match=r"^has no conversion to linalg for these element types$"
        ):
            function(x)


def test_functions_without_a_form():
    (x,) = integers(a_builder(), (0, 3))
    for function in (np.cbrt, np.add.reduce, np.median):
        with pytest.raises(TypeError):
            function(x)
    with pytest.raises(TypeError):
        np.add(x, 1, dtype=np.int8)
    with pytest.raises(TypeError):
        np.clip(x, 0, 1, dtype=np.int8)


def test_absolute_value_of_what_has_no_sign():
    for bounds in ((0, 3), (1, 3)):
        (x,) = integers(a_builder(), bounds)
        assert np.abs(x) is x


def test_leading_zeros():
    numbers = np.array([0, 1, 2, 255, (1 << 31) - 1])

    def body(builder: LoweringBuilder, values: Sequence[SSAValue]) -> SSAValue:
        x = IntegerExpression(builder, values[0], (0, (1 << 31) - 1))
        return x.leading_zeros().value

    assert evaluated(body, i32, numbers).tolist() == [32, 31, 30, 24, 1]


def test_as_index():
    (x,) = integers(a_builder(), (0, 3))
    index = x.as_index()
    assert isinstance(index.owner, arith.IndexCastOp)
    assert index.owner.input is x.value


# Floats

VALUES = np.array([-INF, -300, -2.5, -1.5, -0.75, -0.0, 0, 0.5, 1, 2.5, 77, INF, NAN])


def float_body(
    formula: Formula, bounds: tuple[float, float] = (-INF, INF)
) -> Callable[[LoweringBuilder, Sequence[SSAValue]], SSAValue]:
    return lambda builder, values: (
        formula(*(FloatExpression(builder, value, bounds) for value in values)).value
    )


UNARY: dict[str, Unary] = {
    "+ 2": lambda x: x + 2,
    "2 +": lambda x: 2 + x,
    "- 2": lambda x: x - 2,
    "2 -": lambda x: 2 - x,
    "* 3": lambda x: x * 3,
    "3 *": lambda x: 3 * x,
    "/ 4": lambda x: x / 4,
    "4 /": lambda x: 4 / x,
    "negative": operator.neg,
    "absolute": np.abs,
    "sign": lambda x: WHERE(x == x, np.sign(x), 0),
    "minimum": lambda x: np.minimum(x, 1.5),
    "maximum with a number first": lambda x: np.maximum(1.5, x),
    "fmin": lambda x: np.fmin(x, 1.5),
    "fmax": lambda x: np.fmax(x, 1.5),
    "copysign": lambda x: np.copysign(x, -2.0),
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
    "trunc": np.trunc,
    "exp": np.exp,
    "expm1": np.expm1,
    "tanh": np.tanh,
    "sqrt": lambda x: np.sqrt(np.abs(x)),
    "log": lambda x: np.log(np.abs(x)),
    "sin": lambda x: np.sin(np.clip(x, -9.0, 9.0)),
    "cos": lambda x: np.cos(np.clip(x, -9.0, 9.0)),
    "power": lambda x: np.power(np.abs(x), 1.5),
    "remainder": lambda x: np.remainder(np.clip(x, -9.0, 9.0), 0.75),
    "remainder of a negative": lambda x: np.remainder(np.clip(x, -9.0, 9.0), -0.75),
    "remainder of infinity": lambda x: np.remainder(np.clip(x, -9.0, 9.0), INF),
    "+ condition": lambda x: x + (x > 0),
    "where": lambda x: WHERE(x > 0, x, 3.0),
    "where + 1": lambda x: WHERE(x > 0, x, 3.0) + 1,
    "where with an integer": lambda x: WHERE(x > 0, 3, x),
}


@pytest.mark.parametrize("type_", [f32, f64], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_floats(name: str, type_: AnyFloat):
    formula = UNARY[name]
    x = VALUES.astype(f"f{type_.bitwidth // 8}")
    with np.errstate(all="ignore"):
        expected = formula(x).astype(x.dtype)
    result = evaluated(float_body(formula), type_, x)
    np.testing.assert_allclose(result, expected, rtol=1e-6, equal_nan=True)
    # The rest of a division is no negative zero in NumPy.
    if "remainder" not in name:
        np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))


PREDICATES: dict[str, Unary] = {
    "<": lambda x: x < 1,
    "<=": lambda x: x <= 1,
    ">": lambda x: x > 1,
    ">=": lambda x: x >= 1,
    "==": lambda x: x == 1,
    "!=": lambda x: x != 1,
    "signbit": np.signbit,
}


@pytest.mark.parametrize("name", PREDICATES)
def test_conditions_of_floats(name: str):
    formula, x = PREDICATES[name], VALUES[:-1]
    result = evaluated(float_body(formula), i1, x)
    np.testing.assert_array_equal(result, formula(x))


def test_comparison_with_nan():
    for name, formula in PREDICATES.items():
        result = evaluated(float_body(formula), i1, np.array([NAN]))
        assert result.tolist() == [name == "!="]


def test_erfc():
    result = evaluated(float_body(FloatExpression.erfc), f64, np.array([-1.0, 0, 2]))
    expected = [*map(math.erfc, (-1.0, 0, 2))]
    np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_conditions_as_floats():
    def body(builder: LoweringBuilder, values: Sequence[SSAValue]) -> SSAValue:
        condition = FloatExpression(builder, values[0]) > 0
        return cast(FloatExpression, condition.as_float(f32)).value

    result = evaluated(
        body,
        f32,
        np.array([1.0, -1.0]),
    )
    assert result.tolist() == [1, 0]


def test_integers_as_floats():
    (x,) = integers(a_builder(), (-5, 8))
    result = x.as_float(f32)
    assert result.value.type == f32
    assert result.bounds == (-5 - 5 / 128, 8 + 8 / 128)
    assert not result.may_be_nan


def float_expression(
    low: float, high: float, *, may_be_nan: bool = False, type_: AnyFloat = f32
) -> Any:
    (value,) = Block(arg_types=[type_]).args
    return FloatExpression(a_builder(), value, (low, high), may_be_nan)


MIXED: dict[str, Binary] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda x, y: x / y,
    "maximum": np.maximum,
    "<": operator.lt,
    ">=": operator.ge,
    "==": operator.eq,
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("is_truth", [False, True], ids=["integer", "truth"])
@pytest.mark.parametrize("is_left", [False, True], ids=["float first", "float last"])
def test_a_float_decides_for_both_operands(name: str, *, is_truth: bool, is_left: bool):
    """The float op is built also if the other operand comes first."""

    def formula(x: Any, y: Any) -> Any:
        return MIXED[name](x, y) if is_left else MIXED[name](y, x)

    def body(builder: LoweringBuilder, values: Sequence[SSAValue]) -> SSAValue:
        x = (
            Condition(builder, values[0])
            if is_truth
            else IntegerExpression(builder, values[0], (1, 4))
        )
        return formula(x, FloatExpression(builder, values[1], (-4, 4))).value

    numbers = np.array([True, True, True] if is_truth else [1, 2, 4])
    floats = np.array([-4, 0.5, 1], np.float32)
    expected = formula(numbers.astype(np.float32), floats)
    type_ = i1 if expected.dtype == np.bool_ else f32
    assert evaluated(body, type_, numbers, floats).tolist() == expected.tolist()


UNSUPPORTED: list[tuple[Unary, str]] = [
    (lambda x: x // 2.0, "float"),
    (lambda x: x << 1, "float"),
    (np.logical_not, "float"),
    (lambda x: np.logical_and(x, x), "float"),
    (lambda x: np.logical_or(1.0, x), "float"),
    (operator.invert, "integer"),
    (lambda x: x | 1, "integer"),
    (np.logical_not, "integer"),
    (lambda x: x / 2, "integer"),
    (operator.neg, "truth"),
]


@pytest.mark.parametrize(("function", "kind"), UNSUPPORTED, ids=range(len(UNSUPPORTED)))
def test_operators_without_a_form(function: Unary, kind: str):
    x = float_expression(-2, 4)
    (integer,) = integers(x.builder, (0, 3))
    operand = {"float": x, "integer": integer, "truth": x > 0}[kind]
    with pytest.raises(Unsupported, match=f"^{NO_FORM}$"):
        function(operand)


def test_an_array_is_not_replaced_in_place():
    array = np.array(1.0)
    with pytest.raises(TypeError):
        np.add(array, float_expression(0, 1), out=(array,))
    x = y = float_expression(0, 1)
    x += 1
    assert (x.bounds, y.bounds) == ((1 - 1 / 128, 2 + 2 / 128), (0, 1))


FLOAT_BOUNDS: list[tuple[Unary, tuple[float, float]]] = [
    (lambda x: x + 126, (126 - 2 - 124 / 128, 130 + 130 / 128)),
    (lambda x: x + (x > 0), (-2 - 2 / 128, 5 + 5 / 128)),
    (lambda x: x - 2, (-4 - 4 / 128, 2 + 2 / 128)),
    (lambda x: 2 - x, (-2 - 2 / 128, 4 + 4 / 128)),
    (lambda x: x * -2, (-8 - 8 / 128, 4 + 4 / 128)),
    (lambda x: x * x, (-8 - 8 / 128, 16 + 16 / 128)),
    (lambda x: x / 2, (-INF, INF)),
    (operator.neg, (-4, 2)),
    (np.abs, (0, 4)),
    (lambda x: np.abs(x - 4), (0, 6 + 6 / 128)),
    (lambda x: np.minimum(x, 1.0), (-2, 1)),
    (lambda x: np.minimum(x, -3.0), (-3, -3)),
    (lambda x: np.maximum(x, 1.0), (1, 4)),
    (lambda x: np.fmin(x, 1.0), (-2, 1)),
    (lambda x: np.fmax(x, 1.0), (1, 4)),
    (lambda x: np.copysign(x, -1.0), (-4, 4)),
    (np.floor, (-3, 5)),
    (np.rint, (-3, 5)),
    (np.exp, (0, INF)),
    (np.expm1, (-1, INF)),
    (np.tanh, (-1, 1)),
    (np.sin, (-1, 1)),
    (np.cos, (-1, 1)),
    (np.sqrt, (-INF, INF)),
    (np.sign, (-1 - 1 / 128, 1 + 1 / 128)),
    (lambda x: x.erfc(), (0 - 0 / 128, 2 + 2 / 128)),
    (lambda x: WHERE(x > 0, x, 7), (-2, 7)),
    (lambda x: WHERE(x > 0, -7.0, x), (-7, 4)),
    (lambda x: x.as_float(f64), (-2, 4)),
    (lambda x: x.as_float(f16), (-2 - 2 / 128, 4 + 4 / 128)),
    (lambda x: x + INF, (-INF, INF)),
    (lambda x: x * INF, (-INF, INF)),
]


@pytest.mark.parametrize(
    ("formula", "expected"), FLOAT_BOUNDS, ids=range(len(FLOAT_BOUNDS))
)
def test_bounds_of_floats(formula: Formula, expected: tuple[float, float]):
    assert formula(float_expression(-2, 4)).bounds == expected


NAN_FROM: list[tuple[Unary, bool, bool]] = [
    (lambda x: x + 1, False, True),
    (lambda x: x + NAN, True, True),
    (lambda x: x / 2, True, True),
    (operator.neg, False, True),
    (np.abs, False, True),
    (np.tanh, False, True),
    (np.sqrt, True, True),
    (lambda x: np.minimum(x, 3.0), False, True),
    (lambda x: np.minimum(x, NAN), True, True),
    (lambda x: np.fmin(x, 3.0), False, False),
    (lambda x: np.fmax(x, 3.0), False, False),
    (lambda x: np.fmin(x, NAN), False, True),
    (lambda x: np.fmax(x, NAN), False, True),
    (lambda x: WHERE(x > 0, x, 1.0), False, True),
    (lambda x: WHERE(x > 0, 1.0, x), False, True),
    (lambda x: WHERE(x > 0, NAN, x), True, True),
    (lambda x: x.as_float(f64), False, True),
    (lambda x: x.as_float(f16), False, True),
]


@pytest.mark.parametrize(
    ("formula", "from_number", "from_any"), NAN_FROM, ids=range(len(NAN_FROM))
)
def test_what_may_be_nan(formula: Formula, *, from_number: bool, from_any: bool):
    for may_be_nan, expected in ((False, from_number), (True, from_any)):
        x = float_expression(-2, 4, may_be_nan=may_be_nan)
        assert formula(x).may_be_nan == expected


def test_bounds_of_two_floats():
    x, y = float_expression(-2, 4), float_expression(-5, 1)
    for a, b in ((x, y), (y, x)):
        assert np.minimum(a, b).bounds == np.fmin(a, b).bounds == (-5, 1)
        assert np.maximum(a, b).bounds == np.fmax(a, b).bounds == (-2, 4)


def test_bounds_of_half_of_all_floats():
    assert (float_expression(-INF, 4) + 1).bounds == (-INF, 5 + 5 / 128)
    assert (float_expression(-2, INF) + 1).bounds == (-1 - 1 / 128, INF)


def test_infinity_may_become_nan():
    x = float_expression(-INF, INF)
    assert (x - x).may_be_nan
    assert not np.abs(x).may_be_nan


def test_ops_of_conversions():
    x = float_expression(-2, 4)
    assert isinstance(x.as_float(f64).value.owner, arith.ExtFOp)
    assert isinstance(x.as_float(f16).value.owner, arith.TruncFOp)


@pytest.mark.parametrize(("type_", "step"), [(f32, 1 << 39), (f64, 1 << 10)], ids=str)
def test_ends_of_integers(type_: AnyFloat, step: int):
    """What becomes an integer of 64 bits is clamped to the floats within its bounds."""
    integer = float_expression(-INF, INF, type_=type_).as_integer()
    (high,) = integer.value.owner.operands
    (low, largest) = high.owner.operands
    smallest = low.owner.operands[1]
    ends = [end.owner.properties["value"].value.data for end in (smallest, largest)]
    assert ends == [-(1 << 63), (1 << 63) - step]
    assert (integer + 1).bounds == ANY_INTEGER


def test_as_the_same_float():
    x = float_expression(-2, 4)
    assert x.as_float(f32) is x


@pytest.mark.parametrize("type_", [f16, f32, f64], ids=str)
def test_as_integers(type_: AnyFloat):
    x = np.array([-2.75, -1, 0.99, 3.5], f"f{type_.bitwidth // 8}")

    def formula(value: Any) -> Any:
        return value.as_integer()

    result = evaluated(float_body(formula, (-2.75, 3.5)), i32, x)
    assert result.tolist() == [-2, -1, 0, 3]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-2.75, 3.5, (-2, 3)),
        (-(2.0**31), 2.0**31 - 1, (-(1 << 31), (1 << 31) - 1)),
        (-(2.0**63), 2.0**40, (-(1 << 63), 1 << 40)),
        (-(2.0**63) * 1.5, 2.0**40, ANY_INTEGER),
        (0, 2.0**63, ANY_INTEGER),
        (-INF, INF, ANY_INTEGER),
    ],
)
def test_bounds_of_floats_as_integers(
    low: float, high: float, expected: tuple[int, int]
):
    result = float_expression(low, high, type_=f64).as_integer()
    assert result.bounds == expected
    fits = expected[1] < 1 << 31 and expected[0] >= -(1 << 31)
    assert result.value.type == (i32 if fits else i64)


def test_ends_of_f64():
    def formula(value: Any) -> Any:
        return value.as_integer()

    result = evaluated(float_body(formula), i64, np.array([-INF, NAN, INF, 1e30]))
    largest = (1 << 63) - (1 << 10)
    assert result.tolist() == [-(1 << 63), -(1 << 63), largest, largest]
