"""Elementwise ops, compared with StableHLO's own interpreter and NumPy."""

import itertools

import numpy as np
import pytest
from xdsl.dialects import math
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import Pure

from tests.unit.frontends.stablehlo.lowering.linalg.running import (
    TYPES,
    Array,
    function,
    run,
    same_bits,
    stablehlo_results,
    tensor,
)
from xdsl_quant.dialects.quant.traits import ComputesElementwise
from xdsl_quant.execution import compile
from xdsl_quant.frontends.stablehlo.lowering.linalg.elementwise import (
    FORMULAS,
    LowerElementwise,
)
from xdsl_quant.numerics.float_dtypes import float_dtype
from xdsl_quant.runtime.loading import apply_passes

DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")


def special_values(name: str) -> Array:
    """Numbers of a type at which something may go wrong."""
    dtype = np.dtype(TYPES[name])
    if dtype == np.bool_:
        return np.array([False, True])
    if dtype.kind == "f":
        numbers = [np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, -1.5, 3.0, 300.7, -70000.0]
        extremes = [1e30, -1e30, 2.0**31, 2.0**63, 2.0**64, -(2.0**31) - 300]
        with np.errstate(over="ignore"):
            return np.array(numbers + extremes).astype(dtype)
    bounds = np.iinfo(dtype)
    values = [bounds.min, bounds.min + 1, bounds.max, bounds.max - 1, 1, 2, 3, 7, 100]
    return np.array([*values, *([-1, -2, -7] if bounds.min else [])], dtype)


def pairs(name: str) -> tuple[Array, Array]:
    """All pairs of these numbers."""
    numbers = special_values(name)
    lhs, rhs = np.meshgrid(numbers, numbers)
    return np.ascontiguousarray(lhs), np.ascontiguousarray(rhs)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TYPES)
def test_binary_ops(name: str):
    lhs, rhs = pairs(name)
    type_ = tensor(lhs.shape, name)
    names = ["add", "multiply", "maximum", "minimum"]
    if name != "i1":
        names.append("subtract")
    if name[0] == "f":
        names.append("divide")
    ops = [f"stablehlo.{op} %0, %1 : {type_}" for op in names]
    text = function([type_, type_], ops, [type_] * len(ops))
    expected = stablehlo_results(text, lhs, rhs)
    for actual, wanted in zip(run(text, lhs, rhs), expected, strict=True):
        same_bits(actual, wanted)


def quotient(lhs: int, rhs: int) -> int:
    if rhs == 0:
        return -1
    magnitude = abs(lhs) // abs(rhs)
    return magnitude if (lhs < 0) == (rhs < 0) else -magnitude


@pytest.mark.parametrize(
    "name", [name for name in TYPES if "i" in name and name != "i1"]
)
def test_integer_division(name: str):
    """StableHLO's own interpreter ends the process where this is about to overflow."""
    lhs, rhs = pairs(name)
    rhs[0] = 0
    type_ = tensor(lhs.shape, name)
    op = f"stablehlo.divide %0, %1 : {type_}"
    (actual,) = run(function([type_, type_], [op], [type_]), lhs, rhs)
    quotients = [
        quotient(int(x), int(y)) for x, y in zip(lhs.flat, rhs.flat, strict=True)
    ]
    bits = [value % (1 << (8 * lhs.itemsize)) for value in quotients]
    unsigned = np.array(bits, f"uint{8 * lhs.itemsize}").reshape(lhs.shape)
    same_bits(actual, unsigned.view(lhs.dtype))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name in TYPES if name != "i1"])
def test_unary_ops(name: str):
    values = special_values(name)
    type_ = tensor(values.shape, name)
    ops = [f"stablehlo.negate %0 : {type_}"]
    if name[0] != "u":
        ops.append(f"stablehlo.abs %0 : {type_}")
    text = function([type_], ops, [type_] * len(ops))
    expected = stablehlo_results(text, values)
    for actual, wanted in zip(run(text, values), expected, strict=True):
        same_bits(actual, wanted)


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_transcendental_functions(name: str):
    dtype = np.dtype(TYPES[name])
    values = np.linspace(-8, 8, 97).astype(dtype)
    type_ = tensor(values.shape, name)
    names = ("exponential", "logistic", "tanh", "sqrt", "rsqrt")
    text = function(
        [type_], [f"stablehlo.{op} %0 : {type_}" for op in names], [type_] * len(names)
    )
    rounding = 4 * float(np.finfo(dtype).eps)
    actual = run(text, values, is_exact=False)
    for one, other in zip(actual, stablehlo_results(text, values), strict=True):
        np.testing.assert_allclose(one, other, rtol=4 * rounding)
    double = values.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        roots = np.sqrt(double), 1 / np.sqrt(double)
    exact = np.exp(double), 1 / (1 + np.exp(-double)), np.tanh(double), *roots
    for one, other in zip(actual, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=rounding)


FUNCTIONS = (
    *("cbrt", "cosine", "exponential_minus_one", "log", "log_plus_one", "sine", "tan"),
    *("ceil", "floor", "round_nearest_afz", "sign"),
)


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_functions_of_special_values(name: str):
    lhs, rhs = pairs(name)
    type_ = tensor(lhs.shape, name)
    ops = [f"stablehlo.{op} %0 : {type_}" for op in FUNCTIONS]
    ops += [
        f"stablehlo.{op} %0, %1 : {type_}" for op in ("atan2", "power", "remainder")
    ]
    text = function([type_, type_], ops, [type_] * len(ops))
    rounding = 4 * float(np.finfo(np.dtype(TYPES[name])).eps)
    actual = run(text, lhs, rhs, is_exact=False)
    for one, other in zip(actual, stablehlo_results(text, lhs, rhs), strict=True):
        np.testing.assert_allclose(one, other, rtol=rounding)


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_exact_functions(name: str):
    values = special_values(name)
    type_, pred = tensor(values.shape, name), tensor(values.shape, "i1")
    ops = [f"stablehlo.{op} %0 : {type_}" for op in FUNCTIONS[-4:]]
    ops.append(f"stablehlo.is_finite %0 : ({type_}) -> {pred}")
    text = function([type_], ops, [*[type_] * 4, pred])
    expected = stablehlo_results(text, values)
    for actual, wanted in zip(run(text, values), expected, strict=True):
        same_bits(actual, wanted)


INTEGERS = [name for name in TYPES if "i" in name and name != "i1"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", INTEGERS)
def test_functions_of_integers(name: str):
    lhs, rhs = pairs(name)
    type_ = tensor(lhs.shape, name)
    shifts = ("shift_left", "shift_right_arithmetic", "shift_right_logical")
    ops = [f"stablehlo.{op} %0, %1 : {type_}" for op in (*shifts, "xor", "power")]
    ops += [f"stablehlo.{op} %0 : {type_}" for op in ("count_leading_zeros", "popcnt")]
    if name[0] != "u":
        ops.append(f"stablehlo.sign %0 : {type_}")
    text = function([type_, type_], ops, [type_] * len(ops))
    expected = stablehlo_results(text, lhs, rhs)
    for actual, wanted in zip(run(text, lhs, rhs), expected, strict=True):
        same_bits(actual, wanted)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", INTEGERS)
def test_integer_remainders(name: str):
    """StableHLO's own interpreter ends the process where the divisor is zero."""
    lhs, rhs = pairs(name)
    rhs[0] = 0
    type_ = tensor(lhs.shape, name)
    op = f"stablehlo.remainder %0, %1 : {type_}"
    (actual,) = run(function([type_, type_], [op], [type_]), lhs, rhs)
    remainders = [
        x - y * quotient(x, y) if y else x
        for x, y in zip(lhs.ravel().tolist(), rhs.ravel().tolist(), strict=True)
    ]
    same_bits(actual, np.array(remainders, lhs.dtype).reshape(lhs.shape))


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_logistic_of_extremes(name: str):
    values = np.array([-np.inf, np.inf, np.nan, -90, 90, 0, -0.0], TYPES[name])
    type_ = tensor(values.shape, name)
    op = f"stablehlo.logistic %0 : {type_}"
    (actual,) = run(function([type_], [op], [type_]), values, is_exact=False)
    np.testing.assert_array_equal(
        actual[[0, 1, 2, 4, 5, 6]], [0, 1, np.nan, 1, 0.5, 0.5]
    )
    with np.errstate(under="ignore"):
        below = np.array(np.exp(-90.0)).astype(TYPES[name])
    np.testing.assert_allclose(actual[3], below, rtol=1e-5)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TYPES)
def test_compare(name: str):
    lhs, rhs = pairs(name)
    type_, result = tensor(lhs.shape, name), tensor(lhs.shape, "i1")
    ops = [
        f"stablehlo.compare {direction}, %0, %1 : ({type_}, {type_}) -> {result}"
        for direction in DIRECTIONS
    ]
    text = function([type_, type_], ops, [result] * len(ops))
    expected = stablehlo_results(text, lhs, rhs)
    for actual, wanted in zip(run(text, lhs, rhs), expected, strict=True):
        same_bits(actual, wanted)


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_total_order(name: str):
    dtype = np.dtype(TYPES[name])
    numbers = [-np.inf, -2, -0.0, 0.0, 1, np.inf]
    nan = np.array([np.nan], dtype)
    ordered = np.concatenate(
        [np.copysign(nan, dtype.type(-1)), np.array(numbers, dtype), np.abs(nan)]
    )
    lhs, rhs = map(np.ascontiguousarray, np.meshgrid(ordered, ordered))
    type_, result = tensor(lhs.shape, name), tensor(lhs.shape, "i1")
    ops = [
        f"stablehlo.compare {direction}, %0, %1, TOTALORDER : ({type_}, {type_}) -> "
        f"{result}"
        for direction in DIRECTIONS
    ]
    actual = run(function([type_, type_], ops, [result] * len(ops)), lhs, rhs)
    first, second = np.meshgrid(np.arange(len(ordered)), np.arange(len(ordered)))
    comparisons = (np.equal, np.not_equal, np.greater_equal, np.greater, np.less_equal)
    for one, compare in zip(actual, (*comparisons, np.less), strict=True):
        same_bits(one, compare(first, second))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TYPES)
def test_select_and_clamp(name: str):
    lhs, rhs = pairs(name)
    which = np.arange(lhs.size).reshape(lhs.shape) % 3 == 0
    low, high = special_values(name)[[0, 1]]
    type_, scalar = tensor(lhs.shape, name), tensor((), name)
    ops = [
        f"stablehlo.select %2, %0, %1 : {tensor(lhs.shape, 'i1')}, {type_}",
        f"stablehlo.select %3, %0, %1 : tensor<i1>, {type_}",
        f"stablehlo.clamp %0, %1, %0 : {type_}",
        f"stablehlo.clamp %4, %0, %5 : ({scalar}, {type_}, {scalar}) -> {type_}",
        f"stablehlo.clamp %5, %0, %4 : ({scalar}, {type_}, {scalar}) -> {type_}",
    ]
    types = [type_, type_, tensor(lhs.shape, "i1"), "tensor<i1>", scalar, scalar]
    text = function(types, ops, [type_] * len(ops))
    arguments = [lhs, rhs, which, np.array(False), np.array(low), np.array(high)]
    expected = stablehlo_results(text, *arguments)
    for actual, wanted in zip(run(text, *arguments), expected, strict=True):
        same_bits(actual, wanted)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", TYPES)
def test_convert(name: str):
    values = special_values(name)
    type_ = tensor(values.shape, name)
    results = [tensor(values.shape, other) for other in TYPES]
    ops = [f"stablehlo.convert %0 : ({type_}) -> {result}" for result in results]
    text = function([type_], ops, results)
    expected = stablehlo_results(text, values)
    for actual, wanted in zip(run(text, values), expected, strict=True):
        same_bits(actual, wanted)


@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2", "f8E4M3FNUZ", "f4E2M1FN"])
@pytest.mark.parametrize("other", ["f32", "f16", "f64", "i32"])
def test_small_floats_are_converted(name: str, other: str):
    numbers = [0, 1.3, -2.7, 6.5, 100, 0.3, 5, 3] * 2
    values = np.array(numbers).astype(TYPES[other])
    small, type_ = tensor(values.shape, name), tensor(values.shape, other)
    ops = [
        f"stablehlo.convert %0 : ({type_}) -> {small}",
        f"stablehlo.convert %r0 : ({small}) -> {type_}",
    ]
    results = run(function([type_], ops, [small, type_]), values)
    expected = values.astype(float_dtype(name))
    same_bits(results[0], expected)
    same_bits(results[1], expected.astype(values.dtype))


def test_bf16():
    """Each op rounds once; f16 and bf16 become each other without a detour that shows."""
    import ml_dtypes

    values: Array = np.linspace(-3, 3, 25).astype(ml_dtypes.bfloat16)
    half = np.linspace(-65000, 65000, 25).astype(np.float16)
    types = ["tensor<25xbf16>", "tensor<25xf16>"]
    ops = [
        "stablehlo.add %0, %0 : tensor<25xbf16>",
        "stablehlo.convert %0 : (tensor<25xbf16>) -> tensor<25xf16>",
        "stablehlo.convert %1 : (tensor<25xf16>) -> tensor<25xbf16>",
        "stablehlo.convert %0 : (tensor<25xbf16>) -> tensor<25xi8>",
    ]
    results = ["tensor<25xbf16>", "tensor<25xf16>", "tensor<25xbf16>", "tensor<25xi8>"]
    actual = run(function(types, ops, results), values, half)
    expected = (
        values + values,
        values.astype(np.float16),
        half.astype(ml_dtypes.bfloat16),
        values.astype(np.float32).astype(np.int8),
    )
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_sizes_that_are_not_known():
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    shapes = list(itertools.product((3, None), (4, None)))
    for lhs, rhs in itertools.product(shapes, shapes):
        types = [tensor(lhs, "f32"), tensor(rhs, "f32")]
        op = f"stablehlo.add %0, %1 : ({types[0]}, {types[1]}) -> {types[1]}"
        (actual,) = run(function(types, [op], [types[1]]), values, values)
        same_bits(actual, values + values)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", [name for name in TYPES if "i" in name])
def test_bitwise_ops(name: str):
    lhs, rhs = pairs(name)
    type_ = tensor(lhs.shape, name)
    ops = [
        f"stablehlo.and %0, %1 : {type_}",
        f"stablehlo.or %0, %1 : {type_}",
        f"stablehlo.not %0 : {type_}",
    ]
    actual = run(function([type_, type_], ops, [type_] * 3), lhs, rhs)
    for one, expected in zip(actual, (lhs & rhs, lhs | rhs, ~lhs), strict=True):
        same_bits(one, expected)


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_round_nearest_even(name: str):
    values = np.array([-2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, 2.6, np.inf], TYPES[name])
    type_ = tensor(values.shape, name)
    op = f"stablehlo.round_nearest_even %0 : {type_}"
    (actual,) = run(function([type_], [op], [type_]), values)
    same_bits(actual, np.rint(values))


def test_an_op_of_another_dialect_with_a_formula(monkeypatch: pytest.MonkeyPatch):
    """An op of a package that has a formula for it is lowered, and else left alone."""

    @irdl_op_definition
    class SineOp(IRDLOperation):
        name = "toy.sine"
        operand = operand_def()
        result = result_def()
        traits = traits_def(Pure(), ComputesElementwise())

    type_ = TensorType(f32, (4,))
    function = FuncOp("main", ((type_,), (type_,)))
    op = SineOp.create(operands=function.args, result_types=[type_])
    function.body.block.add_ops((op, ReturnOp(op)))
    module = ModuleOp([function])
    apply_passes(module, "convert-stablehlo-to-linalg")
    assert function.body.block.first_op is op
    rewriter = PatternRewriter(op)
    LowerElementwise().match_and_rewrite(op, rewriter)
    assert not rewriter.has_done_action
    monkeypatch.setitem(
        FORMULAS, "toy.sine", lambda b, op, args: b.add(math.SinOp(args[0]))
    )
    apply_passes(module, "convert-stablehlo-to-linalg")
    values = np.linspace(-1, 1, 4, dtype=np.float32)
    np.testing.assert_allclose(compile(module)(values), np.sin(values), rtol=1e-6)
