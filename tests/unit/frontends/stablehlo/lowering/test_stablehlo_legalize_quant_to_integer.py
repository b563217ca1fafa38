"""Integer arithmetic, compared with its formulas and with arithmetic on floats."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, FunctionType
from xdsl.dialects.func import FuncOp

from tests.unit.frontends.stablehlo.lowering.stablehlo_evaluation import (
    FLOAT_MEANING,
    Array,
    evaluate,
)
from tests.unit.frontends.stablehlo.lowering.stablehlo_programs import (
    INPUT_SHAPE,
    WINDOWS,
    Window,
    convolution,
    dot_general,
    elementwise,
    function,
    quantization,
    stored_values,
    tensor,
)
from xdsl_quant.dialects.quant import StorageCastOp
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.execution import compile
from xdsl_quant.frontends.stablehlo.lowering.stablehlo_legalize_quant_to_integer import (
    StablehloLegalizeQuantToIntegerPass,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics import (
    QuantizationParameters,
    requantize_fixed_point,
    rescale_multiplier,
)
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module
from xdsl_quant.transforms.quant.quant_scales_to_fixed_point import (
    QuantScalesToFixedPointPass,
)

TO_INTEGER = "stablehlo-legalize-quant-to-integer"

SHAPE = (32, 32)

STORAGES = {
    "i4": (-3, 5),
    "i8": (-7, 100),
    "u8": (3, 131),
    "i16": (-300, 20000),
}
"""Storage types, and zero points to choose from besides 0."""


def integer_result(text: str, *arguments: Array, rounding: str = "single") -> Array:
    (result,) = evaluate(text, f"{TO_INTEGER}{{rounding={rounding}}}", *arguments)
    return result


def distances(text: str, *arguments: Array) -> set[int]:
    """How far the stored values are from those that floats give."""
    (expected,) = evaluate(text, FLOAT_MEANING, *arguments)
    result = integer_result(text, *arguments)
    assert result.dtype == expected.dtype
    return {*np.abs(result.astype(np.int64) - expected.astype(np.int64)).flat}


# Formulas, in Python's integers


def centred(stored: Array, quantized: QuantizationParameters) -> Array:
    values = stored.astype(object)
    return values - along_axis(quantized.zero_points, quantized, stored.ndim)


def along_axis(
    values: Any, quantized: QuantizationParameters, rank: int, axis: int | None = None
) -> Array:
    shape = [1] * rank
    if quantized.quantized_dimension is not None:
        shape[quantized.quantized_dimension if axis is None else axis] = -1
    return np.asarray(values).astype(object).reshape(shape)


def clamped(values: Array, result: QuantizationParameters) -> Array:
    values = values + along_axis(result.zero_points, result, values.ndim)
    clipped = np.clip(values, result.storage_min, result.storage_max)
    return clipped.astype(result.storage_dtype)


def multipliers_of(
    scales: Sequence[Array], result: QuantizationParameters, rank: int
) -> tuple[Array, Array]:
    floats = [np.asarray(scale).astype(float) for scale in scales]
    own = along_axis(result.scales, result, rank).astype(float)
    multipliers, shifts = rescale_multiplier(floats, own)
    return multipliers.astype(object), shifts.astype(object)


def scaled(values: Array, multipliers: Array, shifts: Array) -> Array:
    return (values * multipliers + (1 << (shifts - 1))) >> shifts


def reference_sum(
    op: str,
    stored: Sequence[Array],
    operands: Sequence[QuantizationParameters],
    result: QuantizationParameters,
) -> Array:
    rank = stored[0].ndim
    (m1, s1), (m2, s2) = (
        multipliers_of([along_axis(p.scales, p, rank)], result, rank) for p in operands
    )
    shift = np.minimum(s1, s2)
    first, second = (
        centred(x, p) * ((m + (1 << (s - shift) >> 1)) >> (s - shift))
        for x, p, m, s in zip(stored, operands, (m1, m2), (s1, s2), strict=True)
    )
    total = first + second if op == "add" else first - second
    return clamped((total + (1 << (shift - 1))) >> shift, result)


def reference_product(
    products: Array,
    scales: Sequence[Array],
    result: QuantizationParameters,
) -> Array:
    multipliers, shifts = multipliers_of(scales, result, products.ndim)
    return clamped(scaled(products, multipliers, shifts), result)


PER_AXIS = quantization("i8", np.linspace(0.02, 0.5, 32), 3, axis=1)

OPERANDS = {
    "per tensor": (
        quantization("i8", 0.3, 3),
        quantization("i8", 0.11, -128),
        quantization("i8", 0.37, 5),
    ),
    "per axis": (
        PER_AXIS,
        quantization("i8", 0.2),
        quantization("i8", [0.1, 0.4] * 16, -5, axis=1),
    ),
    "u8": (
        quantization("u8", 0.3, 128, bounds=(10, 200)),
        quantization("u8", 0.01, 200, bounds=(10, 200)),
        quantization("u8", 0.2, 77, bounds=(10, 200)),
    ),
    "i16": (
        quantization("i16", 1e-4, 300),
        quantization("i16", 2e-4),
        quantization("i16", 1.7e-4, -32768),
    ),
    "u4": (
        quantization("u4", 0.5, 8),
        quantization("u4", 0.3, 15),
        quantization("u4", 0.7),
    ),
    "i32": (
        quantization("i32", 1e-6, 1 << 20),
        quantization("i32", 1e-6, -(1 << 31)),
        quantization("i32", 1e-6),
    ),
}


# StableHLO has sums of tensors with scales per axis, but no differences and products.
PER_TENSOR = [kind for kind in OPERANDS if kind != "per axis"]


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        *(("add", kind) for kind in OPERANDS),
        *(("subtract", kind) for kind in PER_TENSOR),
    ],
)
def test_sum(op: str, kind: str):
    first, second, result = OPERANDS[kind]
    stored = [stored_values(i, SHAPE, p) for i, p in enumerate((first, second))]
    actual = integer_result(
        elementwise(op, SHAPE, [first, second], result), *stored, rounding="double"
    )
    expected = reference_sum(op, stored, (first, second), result)
    assert actual.dtype == expected.dtype
    assert (actual == expected).all()


@pytest.mark.parametrize("kind", [kind for kind in PER_TENSOR if kind != "i32"])
def test_product(kind: str):
    first, second, result = OPERANDS[kind]
    stored = [stored_values(i, SHAPE, p) for i, p in enumerate((first, second))]
    actual = integer_result(
        elementwise("multiply", SHAPE, [first, second], result), *stored
    )
    scales = [along_axis(p.scales, p, 2) for p in (first, second)]
    products = centred(stored[0], first) * centred(stored[1], second)
    assert (actual == reference_product(products, scales, result)).all()


@pytest.mark.parametrize("rounding", ["single", "double"])
@pytest.mark.parametrize("kind", OPERANDS)
@pytest.mark.parametrize("target_index", [1, 2])
def test_requantization_is_that_of_numpy(rounding: Any, kind: str, target_index: int):
    source, target = OPERANDS[kind][0], OPERANDS[kind][target_index]
    stored = stored_values(0, SHAPE, source)
    text = elementwise("uniform_quantize", SHAPE, [source], target)
    actual = integer_result(text, stored, rounding=rounding)
    expected = requantize_fixed_point(stored, source, target, rounding=rounding)
    assert actual.dtype == expected.dtype
    assert (actual == expected).all()


def test_double_rounding_is_another_one():
    source, target = quantization("i16", 0.001), quantization("i16", 0.0037)
    stored = np.arange(-1024, 0, dtype=np.int16).reshape(SHAPE)
    text = elementwise("uniform_quantize", SHAPE, [source], target)
    single, double = (
        integer_result(text, stored, rounding=name) for name in ("single", "double")
    )
    assert (single != double).any()


@pytest.mark.parametrize("per_axis", [False, True])
@pytest.mark.parametrize("zero_point", [0, -128, 127, 5])
def test_dot_general(per_axis: bool, zero_point: int):
    lhs = quantization("i8", 0.03, zero_point)
    rhs = quantization("i8", [0.5, 0.25, 0.1, 0.3, 0.2], axis=1, bounds=(-127, 127))
    result = quantization("i8", [2.0, 3.0, 1.0, 0.5, 0.7], axis=1)
    if not per_axis:
        rhs, result = quantization("i8", 0.25), quantization("i8", 2.0, -3)
    stored = stored_values(0, (16, 64), lhs), stored_values(1, (64, 5), rhs)
    actual = integer_result(dot_general((16, 64, 5), lhs, rhs, result), *stored)
    products = centred(stored[0], lhs) @ centred(stored[1], rhs)
    scales = [along_axis(lhs.scales, lhs, 2), along_axis(rhs.scales, rhs, 2)]
    assert (actual == reference_product(products, scales, result)).all()


@pytest.mark.parametrize("storage", ["u8", "i4", "u4", "i16", "u16"])
def test_dot_general_of_other_storage(storage: str):
    lhs, rhs = quantization(storage, 0.1, 5), quantization(storage, 0.2)
    result = quantization(storage, 0.1 * 0.2 * lhs.storage_max * 3, 7)
    stored = stored_values(0, (16, 9), lhs), stored_values(1, (9, 8), rhs)
    actual = integer_result(dot_general((16, 9, 8), lhs, rhs, result), *stored)
    products = centred(stored[0], lhs) @ centred(stored[1], rhs)
    exact = np.round((products * (0.1 * 0.2)).astype(float) / float(result.scales))
    distance = np.abs(actual.astype(object) - clamped(exact.astype(object), result))
    assert distance.max() <= 1
    assert (distance == 0).mean() > 0.9
    assert np.unique(actual).size > 5


@pytest.mark.parametrize(("left", "right"), [("i8", "u8"), ("u8", "i8")])
@pytest.mark.parametrize("zero_point", [0, 7])
def test_dot_general_of_both_signs(left: str, right: str, zero_point: int):
    # StableHLO asks for one storage type, and i8 and u8 are two spellings of one.
    lhs, rhs = quantization(left, 0.1, zero_point), quantization(right, 0.2)
    result = quantization("i8", 20.0, 5)
    stored = stored_values(0, (16, 9), lhs), stored_values(1, (9, 8), rhs)
    actual = integer_result(dot_general((16, 9, 8), lhs, rhs, result), *stored)
    products = centred(stored[0], lhs) @ centred(stored[1], rhs)
    scales = [np.array([[0.1]]), np.array([[0.2]])]
    assert (actual == reference_product(products, scales, result)).all()


def test_dot_general_over_any_dimensions():
    # Batch dimensions in another order, and the right side's in the middle.
    lhs = quantization("i8", 0.1, -9)
    rhs = quantization("i8", [0.1, 0.2, 0.3, 0.4], axis=3)
    by_batch = quantization("i8", [0.1, 0.2], axis=1)
    result = quantization("i8", 0.5, 3)
    op = (
        "stablehlo.dot_general %0, %1, batching_dims = [2, 0] x [3, 1], "
        "contracting_dims = [3] x [0]"
    )
    shapes = (2, 5, 4, 7), (7, 2, 3, 4)
    x = stored_values(0, shapes[0], lhs)
    for weights in (rhs, by_batch):
        text = function(
            [tensor(shapes[0], lhs), tensor(shapes[1], weights)],
            tensor((4, 2, 5, 3), result),
            op,
        )
        y = stored_values(1, shapes[1], weights)
        products = np.einsum(
            "biak,kbca->abic", centred(x, lhs).astype(int), y.astype(int)
        )
        place = {3: 0, 1: 1}[weights.quantized_dimension or 0]
        scales = [
            along_axis(lhs.scales, lhs, 4),
            along_axis(weights.scales, weights, 4, place),
        ]
        expected = reference_product(products.astype(object), scales, result)
        assert (integer_result(text, x, y) == expected).all()


def legalized_sums(text: str) -> str:
    """The type of the sums of products."""
    module = parse_module(text)
    apply_passes(module, TO_INTEGER)
    products = (op for op in module.walk() if op.name == "stablehlo.dot_general")
    return str(next(products).results[0].type)


def test_sums_of_products_do_not_overflow():
    # The largest sums that are possible, at the limits of 31 and of 32 bits.
    for count in (65_793, 65_794, 131_586, 131_587):
        lhs, rhs = quantization("i8", 1.0, -128), quantization("i8", 1.0)
        result = quantization("i32", 4.0)
        x, y = np.full((1, count), 127, np.int8), np.full((count, 1), -128, np.int8)
        text = dot_general((1, count, 1), lhs, rhs, result)
        assert integer_result(text, x, y).item() == -count * 255 * 32
        assert ("xi64>" in legalized_sums(text)) == (count > 65_793)


@pytest.mark.parametrize("storage", ["i32", "u32"])
def test_small_sums_of_wide_storage(storage: str):
    # 32 bits are enough for the sums, but not for the unsigned stored values.
    lhs = quantization(storage, 1.0, 1, bounds=(0, 3))
    rhs = quantization(storage, 1.0, bounds=(0, 3))
    stored = stored_values(0, (2, 3), lhs), stored_values(1, (3, 2), rhs)
    text = dot_general((2, 3, 2), lhs, rhs, quantization("i8", 1.0))
    expected = centred(stored[0], lhs) @ centred(stored[1], rhs)
    assert (integer_result(text, *stored) == expected).all()


def test_long_sums_have_shorter_multipliers():
    lhs, rhs = quantization("i16", 1e-4, 32767), quantization("i16", 1e-3)
    result = quantization("i16", 4321.0, 5)
    x, y = np.full((1, 4000), -32768, np.int16), np.full((4000, 1), 32767, np.int16)
    actual = integer_result(dot_general((1, 4000, 1), lhs, rhs, result), x, y)
    assert actual.item() == round(-4000 * 65535 * 32767 * 1e-7 / 4321.0) + 5


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("storage", "zero_point", "rhs_zero_point"),
    [("i8", 0, 0), ("i8", -9, 0), ("i8", -9, 5), ("u8", 130, 120), ("i4", 0, -8)],
)
@pytest.mark.parametrize("window", WINDOWS)
def test_convolution(
    window: Window, storage: str, zero_point: int, rhs_zero_point: int
):
    lhs = quantization(storage, 0.1, zero_point)
    scales = [0.05, 0.25, 0.1, 0.3, 0.2, 0.4]
    rhs = quantization(storage, scales, rhs_zero_point, axis=3)
    result = quantization(storage, 0.01 * lhs.storage_max, 3)
    text = convolution(window, lhs, rhs, result)
    # With a scale of 1 floats are integers.
    in_floats = convolution(
        window,
        quantization(storage, 1.0, zero_point),
        quantization(storage, 1.0, rhs_zero_point),
        quantization("i32", 1.0),
    )
    stored = stored_values(0, INPUT_SHAPE, lhs), stored_values(1, window.kernel, rhs)
    (products,) = evaluate(in_floats, FLOAT_MEANING, *stored)
    factors = [along_axis(lhs.scales, lhs, 4), along_axis(rhs.scales, rhs, 4)]
    expected = reference_product(products.astype(object), factors, result)
    assert (integer_result(text, *stored) == expected).all()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("size", [0, 1, 2])
@pytest.mark.parametrize("padding", [(-1, -1), (-3, 0), (0, -3), (2, -5), (-5, 2)])
def test_padding_that_removes_more_than_there_is(padding: tuple[int, int], size: int):
    lhs, rhs = quantization("i8", 0.1, 3), quantization("i8", 0.2)
    result = quantization("i8", 0.5, 7)
    shape = (1, max(size + sum(padding), 0), 1)
    text = function(
        [tensor((1, size, 1), lhs), tensor((1, 1, 1), rhs)],
        tensor(shape, result),
        "stablehlo.convolution(%0, %1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], "
        f"window = {{pad = [[{padding[0]}, {padding[1]}]]}} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64}",
    )
    assert shape[1] == 0
    module = parse_module(text)
    apply_passes(
        module,
        f"{TO_INTEGER},convert-stablehlo-to-linalg,strip-func-quant-types,canonicalize",
    )
    arguments = np.full((1, size, 1), 5, np.int8), np.ones((1, 1, 1), np.int8)
    (interpreted,) = run_function(module, None, *arguments)
    assert np.asarray(interpreted).shape == shape
    assert np.asarray(compile(module)(*arguments)).shape == shape


# Floats


def scales_of(draw: st.DrawFn, like: float, spread: float) -> float:
    exponent = draw(st.floats(-spread, spread))
    return float(np.float32(like * 2.0**exponent))


@st.composite
def elementwise_programs(draw: st.DrawFn, expressed: str):
    storage = draw(st.sampled_from([*STORAGES]))
    axis = draw(st.sampled_from([None, None, 0, 1]))
    # More is refused for sums of `i16`.
    spread = 3.0 if expressed == "f32" else 5.0
    kinds: list[QuantizationParameters] = []
    zero_points = st.sampled_from([0, *STORAGES[storage]])
    for _ in range(3):
        zero_point = draw(zero_points)
        count = 4 if axis is not None else 1
        scales = np.resize([scales_of(draw, 1.0, spread) for _ in range(count)], 32)
        scale = scales if axis is not None else float(scales[0])
        kinds.append(
            quantization(storage, scale, zero_point, axis=axis, expressed=expressed)
        )
    per_tensor_ops = ["subtract", "multiply"] if axis is None else []
    op = draw(st.sampled_from(["add", "uniform_quantize", *per_tensor_ops]))
    seed = draw(st.integers(0, 1 << 16))
    operands = kinds[:1] if op == "uniform_quantize" else kinds[:2]
    if op == "multiply":
        # Products have twice as many bits.
        scale = float(kinds[2].scales) * 2.0 ** (kinds[2].storage_width - 1)
        kinds[2] = quantization(storage, scale, draw(zero_points), expressed=expressed)
    return op, operands, kinds[2], seed


@pytest.mark.sampled(2)
@pytest.mark.parametrize("expressed", ["f32", "f64"])
def test_at_most_one_unit_from_floats(expressed: str):
    @settings(max_examples=40, deadline=None)
    @given(elementwise_programs(expressed))
    def check(program: Any):
        op, operands, result, seed = program
        stored = [stored_values(seed + i, SHAPE, p) for i, p in enumerate(operands)]
        assert distances(elementwise(op, SHAPE, operands, result), *stored) <= {0, 1}

    check()


@st.composite
def product_programs(draw: st.DrawFn):
    storage = draw(st.sampled_from([*STORAGES]))
    zero_points = st.sampled_from([0, *STORAGES[storage]])
    lhs = quantization(storage, scales_of(draw, 0.1, 5), draw(zero_points))
    weight_scales = [scales_of(draw, 0.01, 3) for _ in range(6)]
    per_axis = draw(st.booleans())
    axis = 3 if per_axis else None
    rhs = quantization(
        storage, weight_scales if per_axis else weight_scales[0], axis=axis
    )
    range_ = rhs.storage_max * float(lhs.scales) * min(weight_scales) * 4
    result = quantization(storage, scales_of(draw, range_, 2), draw(zero_points))
    return lhs, rhs, result, draw(st.sampled_from(WINDOWS)), draw(st.integers(0, 999))


@settings(max_examples=40, deadline=None)
@given(product_programs())
def test_products_are_at_most_one_unit_from_floats(program: Any):
    lhs, rhs, result, window, seed = program
    stored = (
        stored_values(seed, INPUT_SHAPE, lhs),
        stored_values(seed + 1, window.kernel, rhs),
    )
    assert distances(convolution(window, lhs, rhs, result), *stored) <= {0, 1}


# Modules


def legalized(text: str, passes: str = TO_INTEGER) -> str:
    module = parse_module(text)
    apply_passes(module, passes)
    return str(module)


Q = "!quant.uniform<i8:f32, 5.000000e-01:3>"
R = "!quant.uniform<i8:f32, 1.000000e-01:-7>"
W = "!quant.uniform<i8:f32:1, {1.000000e-01,2.000000e-01,3.000000e-01}>"

CHAIN = f"""
func.func @f(%x: tensor<2x4x{Q}>) -> tensor<3x2x{R}> {{
  %w = stablehlo.constant() <{{value = dense<[[1, 2, -3], [4, 5, 6], [7, 8, 9], [-1, 2, 0]]>
    : tensor<4x3xi8>}}> : () -> tensor<4x3x{W}>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x4x{Q}>, tensor<4x3x{W}>) -> tensor<2x3x{Q}>
  %b = stablehlo.constant() <{{value = dense<5> : tensor<3xi8>}}> : () -> tensor<3x{Q}>
  %c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<3x{Q}>) -> tensor<2x3x{Q}>
  %s = stablehlo.add %y, %c : tensor<2x3x{Q}>
  %z = stablehlo.constant() <{{value = dense<3> : tensor<i8>}}> : () -> tensor<{Q}>
  %i = stablehlo.constant() <{{value = dense<100> : tensor<i8>}}> : () -> tensor<{Q}>
  %k = stablehlo.clamp %z, %s, %i
    : (tensor<{Q}>, tensor<2x3x{Q}>, tensor<{Q}>) -> tensor<2x3x{Q}>
  %m = stablehlo.minimum %k, %s : tensor<2x3x{Q}>
  %l = stablehlo.pad %m, %z, low = [0, 0], high = [1, 0], interior = [0, 0]
    : (tensor<2x3x{Q}>, tensor<{Q}>) -> tensor<3x3x{Q}>
  %e = stablehlo.slice %l [1:3, 0:3] : (tensor<3x3x{Q}>) -> tensor<2x3x{Q}>
  %o = stablehlo.concatenate %e, %m, dim = 0
    : (tensor<2x3x{Q}>, tensor<2x3x{Q}>) -> tensor<4x3x{Q}>
  %h = stablehlo.slice %o [0:4:2, 0:3] : (tensor<4x3x{Q}>) -> tensor<2x3x{Q}>
  %p = stablehlo.reshape %h : (tensor<2x3x{Q}>) -> tensor<6x{Q}>
  %g = stablehlo.reshape %p : (tensor<6x{Q}>) -> tensor<2x3x{Q}>
  %t = stablehlo.transpose %g, dims = [1, 0] : (tensor<2x3x{Q}>) -> tensor<3x2x{Q}>
  %r = stablehlo.uniform_quantize %t : (tensor<3x2x{Q}>) -> tensor<3x2x{R}>
  return %r : tensor<3x2x{R}>
}}
"""


def test_chain():
    x = np.arange(-4, 4, dtype=np.int8).reshape(2, 4) * 9
    (expected,) = evaluate(CHAIN, FLOAT_MEANING, x)
    assert (np.abs(integer_result(CHAIN, x).astype(int) - expected) <= 1).all()
    assert np.unique(expected).size > 2


def test_no_float_is_left():
    module = parse_module(CHAIN)
    apply_passes(module, f"{TO_INTEGER},strip-func-quant-types,canonicalize")
    for op in module.walk():
        assert not isinstance(op, StorageCastOp)
        types = [value.type for value in (*op.operands, *op.results)]
        if isinstance(op, FuncOp):
            assert isinstance(op.function_type, FunctionType)
            types += [*op.function_type.inputs, *op.function_type.outputs]
        for type_ in types:
            assert not isinstance(scalar_or_element_type(type_), AnyFloat)
    assert "f32" not in str(module)


def test_selected_values():
    text = f"""
    func.func @f(%p: tensor<3xi1>, %x: tensor<3x{Q}>, %y: tensor<3x{Q}>) -> tensor<3x{Q}> {{
      %r = stablehlo.select %p, %x, %y : tensor<3xi1>, tensor<3x{Q}>
      return %r : tensor<3x{Q}>
    }}"""
    x, y = np.array([[1, 2, 3], [4, 5, 6]], np.int8)
    condition = np.array([True, False, True])
    assert integer_result(text, condition, x, y).tolist() == [1, 5, 3]


def test_constants_of_resources():
    text = f"""
    func.func @f() -> tensor<2x{Q}> {{
      %r = stablehlo.constant() <{{value = dense_resource<legalized> : tensor<2xi8>}}>
        : () -> tensor<2x{Q}>
      return %r : tensor<2x{Q}>
    }}
    {{-# dialect_resources: {{ builtin: {{ legalized: "0x010000000102" }} }} #-}}"""
    result = legalized(text)
    assert "stablehlo.constant dense_resource<legalized> : tensor<2xi8>" in result


def test_unsigned_values_are_compared_as_such():
    u8 = quantization("u8", 0.5, 3)
    x, y = np.array([1, 200, 3], np.uint8), np.array([255, 100, 2], np.uint8)
    for op, expected in (("maximum", [255, 200, 3]), ("minimum", [1, 100, 2])):
        text = elementwise(op, (3,), [u8, u8], u8)
        assert integer_result(text, x, y).tolist() == expected


def _pair() -> tuple[list[QuantizationParameters], QuantizationParameters]:
    operands = [quantization("i8", 0.3, 3), quantization("i8", 0.1)]
    return operands, quantization("i8", 0.5, 1)


FIXED_POINT = {
    "multiply": elementwise("multiply", SHAPE, *_pair()),
    "dot_general": dot_general(
        (32, 32, 32),
        quantization("i8", 0.3, 3),
        quantization("i8", np.linspace(0.1, 0.2, 32), axis=1),
        quantization("i8", 40.0, 1),
    ),
}


@pytest.mark.parametrize("op", FIXED_POINT)
def test_fixed_point_types(op: str):
    text = FIXED_POINT[op]
    stored = [stored_values(i, SHAPE, quantization("i8", 1.0)) for i in range(2)]
    (expected,) = evaluate(text, TO_INTEGER, *stored)
    module = parse_module(text)
    # StableHLO's ops do not take these types, so nothing in between is verified.
    QuantScalesToFixedPointPass().apply(Context(), module)
    assert "quant.fixed_point" in str(module)
    StablehloLegalizeQuantToIntegerPass().apply(Context(), module)
    assert (evaluate(str(module), "", *stored)[0] == expected).all()


def test_dynamic_sizes():
    text = elementwise("add", SHAPE, *_pair()).replace("32x32x", "?x32x")
    stored = [stored_values(i, SHAPE, quantization("i8", 1.0)) for i in range(2)]
    expected = integer_result(elementwise("add", SHAPE, *_pair()), *stored)
    assert (integer_result(text, *stored) == expected).all()


def test_locations_and_names():
    module = parse_module(CHAIN, "chain.mlir")
    places = {
        str(op.location)
        for op in module.walk()
        if op.name == "stablehlo.uniform_quantize"
    }
    apply_passes(module, TO_INTEGER)
    casts = [op for op in module.walk() if isinstance(op, StorageCastOp)]
    last = casts[-1]
    assert last.result.name_hint == "r"
    assert {str(last.location)} == places


LEFT_ALONE = [
    f"%r = stablehlo.power %x, %x : tensor<4x{Q}>",
    f"%r = stablehlo.divide %x, %x : (tensor<4x{Q}>, tensor<4x{Q}>) -> tensor<4x{R}>",
    f"%y = stablehlo.uniform_dequantize %x : (tensor<4x{Q}>) -> tensor<4xf32>\n"
    f"%r = stablehlo.uniform_quantize %y : (tensor<4xf32>) -> tensor<4x{Q}>",
]


KEEP = f"{TO_INTEGER}{{fallback=keep}}"


def unary(body: str) -> str:
    result = R if R in body else Q
    return (
        f"func.func @f(%x: tensor<4x{Q}>) -> tensor<4x{result}> {{\n{body}\n"
        f"return %r : tensor<4x{result}>\n}}"
    )


@pytest.mark.parametrize("body", LEFT_ALONE)
def test_other_ops_are_kept(body: str):
    text = unary(body)
    assert legalized(text, KEEP) == str(parse_module(text))


def refusal(text: str, passes: str = TO_INTEGER) -> str:
    """The message of an error, after which the module is as it was."""
    module = parse_module(text, "model.mlir")
    before = str(module)
    with pytest.raises(IRError) as error:
        apply_passes(module, passes)
    assert str(module) == before
    return str(error.value)


def test_other_ops_are_refused_with_their_names_counts_and_first_location():
    text = unary(
        f"%a = stablehlo.negate %x : tensor<4x{Q}>\n"
        f"%b = stablehlo.power %a, %a : tensor<4x{Q}>\n"
        f"%c = stablehlo.divide %b, %x : tensor<4x{Q}>\n"
        f"%r = stablehlo.power %c, %c : tensor<4x{Q}>"
    )
    message = (
        "model.mlir:3:1: error: quantized ops without integer form, found 1 "
        "'stablehlo.divide', 2 'stablehlo.power'; use 'fallback=qdq' to compute them with "
        "floats, or 'fallback=keep' to keep them"
    )
    assert refusal(text).startswith(message)
    assert "arith.subi" in legalized(text, KEEP)
    assert legalized(text, KEEP).count("stablehlo.power") == 2


def test_quantized_weights_of_a_float_product_are_kept():
    text = f"""
    func.func @f(%x: tensor<2x4xf32>, %w: tensor<4x3x{W}>) -> tensor<2x3xf32> {{
      %r = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
        : (tensor<2x4xf32>, tensor<4x3x{W}>) -> tensor<2x3xf32>
      return %r : tensor<2x3xf32>
    }}"""
    assert legalized(text, KEEP) == str(parse_module(text))
    assert "1 'stablehlo.dot_general'" in refusal(text)


I32 = quantization("i32", 1.0, 5)

REFUSED = [
    (
        elementwise(
            "add", (3,), [quantization("i32", 2.0**26)] * 2, quantization("i32", 0.3)
        ),
        "a scale 2.23696e+08 times that of the result is too large: its multiplier of 58 "
        "bits causes an error of 0.89 units",
    ),
    (
        elementwise("uniform_quantize", (3,), [quantization("i8", 2.0**30)], I32),
        "ratio of scales 1073741824.0 / 1.0 is too large; expected less than 2**29",
    ),
    (
        elementwise("multiply", (3,), [I32, I32], I32),
        "products of integers of up to 63 bits and the required multiplier of 19 bits "
        "exceed 64 bits",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_cannot_be_computed_is_refused(text: str, message: str):
    error = refusal(text)
    assert error.startswith("model.mlir:2:")
    assert "op cannot be computed with integers: " in error
    assert message in error
