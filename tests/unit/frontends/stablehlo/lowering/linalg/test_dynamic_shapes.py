"""Ops with shapes that are operands, compared with NumPy, and with the static ops."""

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.utils.exceptions import InterpretationError

from tests.unit.frontends.stablehlo.lowering.linalg.running import (
    TYPES,
    Array,
    function,
    lowered,
    run,
    same_bits,
    tensor,
)
from xdsl_quant.execution import compile
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module

VALUES: Array = np.arange(12, dtype=np.float32).reshape(3, 4)
UNKNOWN = (None, None)


def numbers(element_type: str, *values: int) -> Array:
    return np.array(values, TYPES.get(element_type, np.int64))


def one_op(op: str, operands: Sequence[str], result: str) -> str:
    """A function of the operands of one op, in which `%0`, ... are its operands."""
    types = f"({', '.join(operands)}) -> {result}"
    return function(operands, [f"{op} : {types}"], [result])


@pytest.mark.parametrize("element_type", ["i32", "i64", "ui8", "index"])
@pytest.mark.parametrize("result", [UNKNOWN, (2, None), (2, 6)])
def test_reshape(element_type: str, result: Sequence[int | None]):
    operands = [tensor(UNKNOWN, "f32"), f"tensor<2x{element_type}>"]
    text = one_op("stablehlo.dynamic_reshape %0, %1", operands, tensor(result, "f32"))
    (actual,) = run(text, VALUES, numbers(element_type, 2, 6))
    same_bits(actual, VALUES.reshape(2, 6))


BROADCASTS: list[
    tuple[Sequence[int | None], Sequence[int], list[int], str, Sequence[int]]
] = [
    # Type of the operand, its shape, dimensions, hints, shape of the result.
    ((None,), (3,), [1], "", (2, 3)),
    ((None,), (1,), [1], "", (2, 3)),
    ((None,), (1,), [0], "", (1, 3)),
    ((), (), [], "", (2, 3)),
    ((3,), (3,), [1], "", (2, 3)),
    ((1, None), (1, 3), [0, 1], "", (2, 3)),
    ((None, None), (1, 3), [1, 0], "", (3, 4)),
    ((None, None), (1, 1), [0, 1], "", (0, 2)),
    ((None,), (1,), [1], " {known_expanding_dimensions = array<i64: 0>}", (2, 3)),
    ((None,), (3,), [1], " {known_nonexpanding_dimensions = array<i64: 0>}", (2, 3)),
]


@pytest.mark.parametrize(("type_", "shape", "along", "hint", "sizes"), BROADCASTS)
def test_broadcast(
    type_: Sequence[int | None],
    shape: Sequence[int],
    along: Sequence[int],
    hint: str,
    sizes: Sequence[int],
):
    operands = [tensor(type_, "f32"), "tensor<2xi32>"]
    op = f"stablehlo.dynamic_broadcast_in_dim %0, %1, dims = {along}{hint}"
    value: Array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    aligned = np.moveaxis(
        value.reshape(*shape, *[1] * (2 - len(shape))), range(len(along)), along
    )
    for result in (UNKNOWN, (None, sizes[1]), sizes):
        text = one_op(op, operands, tensor(result, "f32"))
        (actual,) = run(text, value, numbers("i32", *sizes))
        same_bits(actual, np.broadcast_to(aligned, sizes))


@pytest.mark.parametrize("element_type", ["i32", "f32", "ui8"])
@pytest.mark.parametrize("dimension", [0, 1])
def test_iota(element_type: str, dimension: int):
    text = one_op(
        f"stablehlo.dynamic_iota %0, dim = {dimension}",
        ["tensor<2xi64>"],
        tensor((None, 3), element_type),
    )
    (actual,) = run(text, numbers("i64", 2, 3))
    same_bits(actual, np.indices((2, 3))[dimension].astype(TYPES[element_type]))


@pytest.mark.parametrize(
    ("starts", "limits", "strides"),
    [
        ((0, 1), (3, 4), (1, 1)),
        ((1, 0), (3, 4), (2, 3)),
        ((2, 4), (2, 4), (1, 1)),
        ((0, 3), (1, 4), (5, 5)),
    ],
)
def test_real_dynamic_slice(
    starts: tuple[int, int], limits: tuple[int, int], strides: tuple[int, int]
):
    operands = [tensor(UNKNOWN, "f32"), *["tensor<2xi32>"] * 3]
    text = one_op(
        "stablehlo.real_dynamic_slice %0, %1, %2, %3", operands, tensor(UNKNOWN, "f32")
    )
    rows = [numbers("i32", *row) for row in (starts, limits, strides)]
    (actual,) = run(text, VALUES, *rows)
    slices = (slice(*row) for row in zip(starts, limits, strides, strict=True))
    same_bits(actual, VALUES[tuple(slices)])


def padded(value: Array, low: int, high: int, interior: int, filling: float) -> Array:
    """A vector with padding."""
    gaps = max(len(value) - 1, 0) * interior
    spread = np.full(len(value) + gaps, filling, value.dtype)
    spread[:: interior + 1] = value
    full = np.pad(spread, (max(low, 0), max(high, 0)), constant_values=filling)
    return full[max(-low, 0) : len(full) - max(-high, 0)]


@pytest.mark.parametrize("count", [0, 1, 4])
@pytest.mark.parametrize(
    ("low", "high", "interior"),
    [(1, 2, 0), (0, 0, 2), (-1, 2, 1), (2, -1, 0), (0, 0, 0), (-1, -2, 1)],
)
def test_pad(count: int, low: int, high: int, interior: int):
    operands = ["tensor<?xf32>", "tensor<f32>", *["tensor<1xi32>"] * 3]
    text = one_op("stablehlo.dynamic_pad %0, %1, %2, %3, %4", operands, "tensor<?xf32>")
    value: Array = np.arange(1, count + 1, dtype=np.float32)
    expected = padded(value, low, high, interior, 9.0)
    if count + max(count - 1, 0) * interior + low + high < 0:
        expected = expected[:0]
    amounts = [numbers("i32", number) for number in (low, high, interior)]
    (actual,) = run(text, value, np.float32(9.0), *amounts)
    same_bits(actual, expected)


@pytest.mark.parametrize("index_type", ["i32", "ui8"])
def test_gather(index_type: str):
    """Rows of a table; the indices are clamped."""
    operands = [tensor(UNKNOWN, "f32"), f"tensor<?x1x{index_type}>", "tensor<2xi32>"]
    text = one_op(
        '"stablehlo.dynamic_gather"(%0, %1, %2) <{dimension_numbers = '
        "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], "
        "start_index_map = [0], index_vector_dim = 1>}>",
        operands,
        tensor(UNKNOWN, "f32"),
    )
    indices = numbers(index_type, 2, 0, 200 if index_type == "ui8" else -1)
    (actual,) = run(text, VALUES, indices[:, None], numbers("i32", 1, 4))
    same_bits(actual, VALUES[[2, 0, 2 if index_type == "ui8" else 0]])


def test_conv():
    text = one_op(
        '"stablehlo.dynamic_conv"(%0, %1, %2) <{dimension_numbers = '
        "#stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, batch_group_count = 1 : i64, "
        "feature_group_count = 1 : i64, window_strides = array<i64: 2>, "
        "lhs_dilation = array<i64: 2>}>",
        ["tensor<1x?x1xf32>", "tensor<3x1x1xf32>", "tensor<1x2xi32>"],
        "tensor<1x?x1xf32>",
    )
    value, kernel = np.array([1, 2, 3], np.float32), np.array([1, 10, 100], np.float32)
    for low, high in ((0, 0), (1, 2), (-1, 1)):
        spread = padded(value, low, high, 1, 0.0)
        expected = np.correlate(spread, kernel)[::2]
        amounts = np.array([[low, high]], np.int32)
        (actual,) = run(text, value[None, :, None], kernel[:, None, None], amounts)
        same_bits(actual, expected[None, :, None])


def test_dynamic_slices():
    """Slices of tensors of unknown sizes, at clamped indices."""
    type_, index = tensor(UNKNOWN, "f32"), "tensor<i32>"
    ops = [
        "stablehlo.dynamic_slice %0, %2, %2, sizes = [2, 2] : "
        f"({type_}, {index}, {index}) -> tensor<2x2xf32>",
        "stablehlo.dynamic_update_slice %0, %1, %2, %2 : "
        f"({type_}, {type_}, {index}, {index}) -> {type_}",
    ]
    text = function([type_, type_, index], ops, ["tensor<2x2xf32>", type_])
    update: Array = -np.ones((2, 1), np.float32)
    part, updated = run(text, VALUES, update, np.int32(9))
    same_bits(part, VALUES[1:, 2:])
    expected = VALUES.copy()
    expected[1:, 3:] = -1
    same_bits(updated, expected)


ASSERTIONS = [
    (
        one_op(
            "stablehlo.dynamic_reshape %0, %1",
            ["tensor<?xf32>", "tensor<2xi32>"],
            "tensor<2x?xf32>",
        ),
        [np.array([1, 2, 3, 4, 5, 6], np.float32), numbers("i32", 3, 2)],
        "'stablehlo.dynamic_reshape' op has an invalid size of dimension 0 of its result",
    ),
    (
        one_op(
            "stablehlo.dynamic_iota %0, dim = 0", ["tensor<1xi32>"], "tensor<?xi32>"
        ),
        [numbers("i32", -1)],
        "'stablehlo.dynamic_iota' op has an invalid size of dimension 0 of its result",
    ),
    (
        one_op(
            "stablehlo.dynamic_broadcast_in_dim %0, %1, dims = [0]",
            ["tensor<?xf32>", "tensor<1xi32>"],
            "tensor<?xf32>",
        ),
        [np.array([1, 2], np.float32), numbers("i32", 3)],
        "'stablehlo.dynamic_broadcast_in_dim' op broadcasts dimension 0 to another size",
    ),
    (
        one_op(
            "stablehlo.dynamic_slice %0, %1, sizes = [3]",
            ["tensor<?xf32>", "tensor<i32>"],
            "tensor<3xf32>",
        ),
        [np.array([1, 2], np.float32), np.int32(0)],
        "'stablehlo.dynamic_slice' op has a slice that exceeds dimension 0",
    ),
]


def test_shape_assertion():
    text = (
        "func.func @main(%0: tensor<i1>, %1: tensor<i32>) {\n"
        "  stablehlo.custom_call @shape_assertion(%0, %1) {api_version = 2 : i32, "
        'error_message = "b = {0} is odd", has_side_effect = true} '
        ": (tensor<i1>, tensor<i32>) -> ()\n  return\n}"
    )
    module = lowered(text)
    assert run_function(module, None, np.bool_(True), np.int32(2)) == ()
    with pytest.raises(InterpretationError, match=r"b = \? is odd"):
        run_function(module, None, np.bool_(False), np.int32(3))


@pytest.mark.parametrize(("text", "arguments", "message"), ASSERTIONS)
def test_wrong_sizes(text: str, arguments: Sequence[Array], message: str):
    """Interpreted and compiled code fail instead of reading other memory."""
    module = lowered(text)
    with pytest.raises(InterpretationError, match=message):
        run_function(module, None, *arguments)
    with pytest.raises(ValueError, match=message):
        compile(module)(*arguments)


@pytest.mark.parametrize(
    ("op", "types", "message"),
    [
        (
            "stablehlo.dynamic_iota %0, dim = 0",
            ("tensor<2xi32>", "tensor<?xi32>"),
            "'stablehlo.dynamic_iota' op has a shape of 2 sizes for a result of rank 1",
        ),
        (
            "stablehlo.dynamic_reshape %1, %0",
            ("tensor<1xi32>", "tensor<?x!quant.uniform<i8:f32, 0.5>>"),
            "'stablehlo.dynamic_reshape' op has elements of type 'f32' and a result of "
            "type '!quant.uniform<i8:f32, 5.000000e-01>', which has no conversion",
        ),
    ],
)
def test_no_conversion(op: str, types: tuple[str, str], message: str):
    arguments = [types[0], "tensor<?xf32>"][: 1 + op.count("%1")]
    operands = ", ".join(reversed(arguments))
    text = function(arguments, [f"{op} : ({operands}) -> {types[1]}"], [types[1]])
    with pytest.raises(IRError) as error:
        apply_passes(parse_module(text), "convert-stablehlo-to-linalg")
    assert message in str(error.value)


SET_SIZE = """
func.func @main(%x: tensor<4x3xf32>, %n: tensor<i32>) -> tensor<?x3xf32> {
  %r = stablehlo.set_dimension_size %x, %n, dim = 0
    : (tensor<4x3xf32>, tensor<i32>) -> tensor<?x3xf32>
  return %r : tensor<?x3xf32>
}"""


@pytest.mark.parametrize("size", [0, 1, 4])
def test_set_dimension_size(size: int):
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    (actual,) = run(SET_SIZE, values, np.int32(size))
    same_bits(actual, values[:size])


@pytest.mark.parametrize("size", [-1, 5])
def test_size_beyond_its_bound(size: int):
    values = np.zeros((4, 3), np.float32)
    message = "'stablehlo.set_dimension_size' op sets the size of dimension 0 beyond"
    with pytest.raises(InterpretationError, match=message):
        run_function(lowered(SET_SIZE), None, values, np.int32(size))


@pytest.mark.parametrize("size", [0, 1, 4])
def test_types_with_bounds(size: int):
    """They are erased, also from types in the function and its signature."""
    text = SET_SIZE.replace("return %r", "%s = stablehlo.negate %r : TYPE\n return %s")
    bounded = "tensor<?x3xf32, #stablehlo.bounds<4, ?>>"
    text = text.replace("TYPE", bounded).replace("tensor<?x3xf32>", bounded)
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    (actual,) = run(text, values, np.int32(size))
    same_bits(actual, -values[:size])


def test_bounds_stay_if_the_pass_fails():
    text = SET_SIZE.replace("?x3xf32", "?x3xf32, #stablehlo.bounds<4, ?>")
    module = parse_module(
        text.replace("return %r", "stablehlo.custom_call @f() : () -> ()\n return %r")
    )
    before = str(module)
    with pytest.raises(IRError, match="calls 'f'"):
        apply_passes(module, "convert-stablehlo-to-linalg")
    assert str(module) == before
