"""The integer kernels compute the integers of the reference kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from xdsl_quant.frontends.tflite.formulas import data_movement as move
from xdsl_quant.frontends.tflite.formulas import (
    elementwise,
    products,
    reduction,
    rows,
    windows,
)
from xdsl_quant.frontends.tflite.formulas.products import Window
from xdsl_quant.frontends.tflite.formulas.tables import compute_with_table
from xdsl_quant.numerics import QuantizationParameters, primitives

from .cases import Case, cases

ACTIVATIONS = "NONE", "RELU", "RELU_N1_TO_1", "RELU6"


def activation(case: Case) -> str:
    index: int = case.options.get("fused_activation_function", 0)
    return ACTIVATIONS[index]


def quantized(case: Case) -> list[Any]:
    return [operand.quantized for operand in case.operands if operand is not None]


def arrays(case: Case) -> list[Any]:
    return [operand.array for operand in case.operands if operand is not None]


def result(case: Case) -> Any:
    return case.results[0].parameters


def window(case: Case) -> Window:
    options = case.options
    return Window(
        (options["stride_h"], options["stride_w"]),
        (options.get("dilation_h_factor", 1), options.get("dilation_w_factor", 1)),
        ("SAME", "VALID")[options["padding"]],
    )


def convolution(case: Case, kernel: Callable[..., Any]) -> Any:
    x, weights, bias = (*case.operands, None)[:3]
    assert x is not None
    assert weights is not None
    return kernel(
        x.quantized,
        weights.quantized,
        None if bias is None else bias.array,
        result(case),
        window(case),
        activation(case),
        x.type == "INT16" and (bias is None or bias.type == "INT64"),
    )


def pool(case: Case, kernel: Callable[..., Any]) -> Any:
    sizes = case.options["filter_height"], case.options["filter_width"]
    (x,) = arrays(case)
    return kernel(x, result(case), sizes, window(case), activation(case))


def reduce(case: Case, kernel: Callable[..., Any]) -> Any:
    x, axes = case.operands
    assert x is not None
    assert axes is not None
    values = kernel(x.quantized, axes.array.ravel().tolist(), result(case))
    return values.reshape(case.results[0].array.shape)


def resize(case: Case, kernel: Callable[..., Any]) -> Any:
    x, sizes = arrays(case)
    return kernel(x, tuple(sizes.tolist()), **case.options)


def transposed_convolution(case: Case) -> Any:
    shape, weights, x, bias = (*case.operands, None)[:4]
    assert shape is not None
    assert weights is not None
    assert x is not None
    return products.transposed_convolution(
        x.quantized,
        weights.quantized,
        None if bias is None else bias.array,
        result(case),
        tuple(shape.array.tolist()),
        window(case),
        activation(case),
        x.type == "INT16" and (bias is None or bias.type == "INT64"),
    )


def fully_connected(case: Case) -> Any:
    x, weights, bias = (*case.operands, None)[:3]
    assert x is not None
    assert weights is not None
    return products.fully_connected(
        x.quantized,
        weights.quantized,
        None if bias is None else bias.array,
        result(case),
        activation(case),
        case.options.get("keep_num_dims", False),
    )


def svdf(case: Case) -> Any:
    x, features, time, bias, state = case.operands
    assert x is not None
    assert features is not None
    assert time is not None
    assert state is not None
    values, _ = products.svdf(
        x.quantized,
        features.quantized,
        time.quantized,
        None if bias is None else bias.array,
        state.quantized,
        result(case),
        case.options["rank"],
    )
    return values


def quantize(case: Case) -> Any:
    (x,) = case.operands
    assert x is not None
    if x.type == "FLOAT32":
        return elementwise.quantize(x.array, result(case))
    return elementwise.requantize_integers(x.quantized, result(case))


def reciprocal_square_root(case: Case) -> Any:
    (x,) = quantized(case)
    if x.parameters.storage_width == 16:
        return compute_with_table("rsqrt", x, result(case))
    return elementwise.reciprocal_square_root(x, result(case))


def table(name: str) -> Callable[[Case], Any]:
    return lambda case: compute_with_table(name, quantized(case)[0], result(case))


def unary(kernel: Callable[..., Any]) -> Callable[[Case], Any]:
    return lambda case: kernel(*quantized(case), result(case), **case.options)


def fused(kernel: Callable[..., Any]) -> Callable[[Case], Any]:
    def run(case: Case) -> Any:
        options = dict(case.options)
        options.pop("fused_activation_function", None)
        return kernel(*quantized(case), result(case), activation(case), **options)

    return run


def l2_normalization(case: Case) -> Any:
    (x,) = quantized(case)
    return rows.l2_normalization(x, result(case))


def dequantize(case: Case) -> Any:
    (x,) = quantized(case)
    return elementwise.dequantize(x)


def relu(name: str) -> Callable[[Case], Any]:
    return lambda case: elementwise.relu(quantized(case)[0], result(case), name)


def compare(case: Case) -> Any:
    lhs, rhs = quantized(case)
    return elementwise.compare(case.op.lower(), lhs, rhs)


def moved(kernel: Callable[..., Any], *options: str) -> Callable[[Case], Any]:
    return lambda case: kernel(*arrays(case), *(case.options[name] for name in options))


def strided_slice(case: Case) -> Any:
    x, begin, end, strides = arrays(case)
    return move.strided_slice(x, begin, end, strides, move.SliceMasks(**case.options))


def space_to_batch(case: Case) -> Any:
    x, block, paddings = arrays(case)
    return move.space_to_batch(x, block, paddings, int(result(case).zero_points))


def top_k(case: Case) -> Any:
    x, count = arrays(case)
    return primitives.top_k(x, int(count))


KERNELS: Mapping[str, Callable[[Case], Any]] = {
    "ADD": fused(elementwise.add),
    "SUB": fused(elementwise.subtract),
    "MUL": fused(elementwise.multiply),
    "SQUARED_DIFFERENCE": unary(elementwise.squared_difference),
    **dict.fromkeys(
        ("EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"),
        compare,
    ),
    "MAXIMUM": lambda case: np.maximum(*arrays(case)),
    "MINIMUM": lambda case: np.minimum(*arrays(case)),
    "PRELU": unary(elementwise.prelu),
    "RELU": relu("RELU"),
    "RELU6": relu("RELU6"),
    "RELU_N1_TO_1": relu("RELU_N1_TO_1"),
    "RELU_0_TO_1": relu("RELU_0_TO_1"),
    "LEAKY_RELU": unary(elementwise.leaky_relu),
    "LOGISTIC": table("logistic"),
    "TANH": table("tanh"),
    "EXP": table("exp"),
    "LOG": table("log"),
    "ELU": table("elu"),
    "GELU": lambda case: table(
        "approximate_gelu" if case.options["approximate"] else "gelu"
    )(case),
    "HARD_SWISH": unary(elementwise.hard_swish),
    "ABS": unary(elementwise.absolute),
    "SQRT": unary(elementwise.square_root),
    "RSQRT": reciprocal_square_root,
    "SOFTMAX": unary(rows.softmax),
    "LOG_SOFTMAX": unary(rows.log_softmax),
    "L2_NORMALIZATION": l2_normalization,
    "QUANTIZE": quantize,
    "DEQUANTIZE": dequantize,
    "CONV_2D": lambda case: convolution(case, products.convolution),
    "DEPTHWISE_CONV_2D": lambda case: convolution(case, products.depthwise_convolution),
    "TRANSPOSE_CONV": transposed_convolution,
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": unary(products.batch_matmul),
    "SVDF": svdf,
    "AVERAGE_POOL_2D": lambda case: pool(case, windows.average_pool_2d),
    "MAX_POOL_2D": lambda case: pool(case, windows.max_pool_2d),
    "RESIZE_BILINEAR": lambda case: resize(case, windows.resize_bilinear),
    "RESIZE_NEAREST_NEIGHBOR": lambda case: resize(
        case, windows.resize_nearest_neighbor
    ),
    "MEAN": lambda case: reduce(case, reduction.mean),
    "SUM": lambda case: reduce(case, reduction.sum_of),
    "REDUCE_PROD": lambda case: reduce(case, reduction.reduce_prod),
    "STRIDED_SLICE": strided_slice,
    "GATHER": moved(move.gather, "axis", "batch_dims"),
    "GATHER_ND": moved(move.gather_nd),
    "DYNAMIC_UPDATE_SLICE": moved(primitives.with_part),
    "SPACE_TO_BATCH_ND": space_to_batch,
    "BATCH_TO_SPACE_ND": moved(move.batch_to_space),
    "SPACE_TO_DEPTH": moved(move.space_to_depth, "block_size"),
    "DEPTH_TO_SPACE": moved(move.depth_to_space, "block_size"),
    "TOPK_V2": top_k,
}

_CASES = [case for case in cases() if case.op in KERNELS]


@pytest.mark.parametrize("case", _CASES, ids=[case.name for case in _CASES])
def test_integers(case: Case):
    computed: Any = KERNELS[case.op](case)
    results: list[Any] = [*computed] if len(case.results) > 1 else [computed]
    for array, expected in zip(results, case.results, strict=True):
        np.testing.assert_array_equal(np.asarray(array), expected.array)


def test_quantize_what_is_no_number():
    parameters = QuantizationParameters(0.5, 3, storage="i8")
    values = np.array([np.nan, -np.inf, np.inf, 0.25, -0.25], np.float32)
    stored = elementwise.quantize(values, parameters)
    np.testing.assert_array_equal(stored, [-128, -128, 127, 4, 2])


@pytest.mark.parametrize(("begin_mask", "expected"), [(0, [6, 8]), (1, [0, 2])])
def test_index_of_a_dimension_that_is_dropped(begin_mask: int, expected: list[int]):
    """Without a bound, the reference kernel takes the first one."""
    masks = move.SliceMasks(begin_mask, shrink_axis_mask=1)
    values = np.arange(9).reshape(3, 3)
    result = move.strided_slice(values, [2, 0], [3, 3], [1, 2], masks)
    assert result.tolist() == expected
