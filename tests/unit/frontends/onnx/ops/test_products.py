"""Contractions compared with onnxruntime, for what ONNX's node cases do not cover."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.unit.frontends.onnx.import_errors import import_error
from tests.unit.frontends.onnx.onnxruntime_results import check_node
from xdsl_quant.numerics.arrays import Array


def _floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize(
    "shapes",
    [
        ([3], [3]),
        ([3], [3, 2]),
        ([2, 3], [3]),
        ([2, 1, 4, 3], [5, 3, 2]),
        ([4, 3], [5, 3, 2]),
        ([3], [5, 3, 2]),
        ([5, 4, 3], [3]),
        ([5, 4, 3], [3, 2]),
        ([2, 3, 4, 3], [1, 1, 3, 2]),
    ],
)
def test_matrix_product(shapes: Sequence[Sequence[int]]) -> None:
    check_node("MatMul", *(_floats(*shape) for shape in shapes), rtol=1e-5, atol=1e-6)


def test_matrix_product_of_integers() -> None:
    x, y = (
        np.arange(-6, 6, dtype=np.int64).reshape(shape) for shape in ((4, 3), (3, 4))
    )
    check_node("MatMul", x, y)


def test_gemm_with_factor_0() -> None:
    """NaN is not multiplied by 0."""
    bias = np.array([np.nan, 1], np.float32)
    check_node("Gemm", _floats(2, 3), _floats(3, 2), bias, beta=0.0, rtol=1e-5)


@pytest.mark.parametrize("bias", [(), (1,), (2,), (4, 1), (1, 2), (4, 2)])
@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm(bias: Sequence[int], transposed: int) -> None:
    x, y = (3, 4) if transposed else (4, 3), (2, 3) if transposed else (3, 2)
    check_node(
        "Gemm",
        _floats(*x),
        _floats(*y),
        _floats(*bias),
        transA=transposed,
        transB=transposed,
        alpha=0.5,
        beta=-2.0,
        rtol=1e-5,
        atol=1e-6,
    )


def test_compiled_products() -> None:
    check_node("MatMul", _floats(2, 4, 3), _floats(3, 5), atol=1e-6, is_compiled=True)
    check_node(
        "ConvTranspose",
        _floats(1, 4, 5, 6),
        _floats(4, 3, 3, 2),
        strides=[2, 3],
        group=2,
        atol=1e-5,
        is_compiled=True,
    )


# Convolutions


def _drawn(seed: int, *, is_transposed: bool) -> tuple[Sequence[Array], dict[str, Any]]:
    random = np.random.default_rng(seed)
    rank = int(random.integers(1, 4))
    group, inputs, outputs = (int(n) for n in random.integers(1, 3, 3))
    kernel = random.integers(1, 4, rank).tolist()
    strides, dilations = (random.integers(1, 4, rank).tolist() for _ in range(2))
    size = 14 if rank < 3 else 8
    image = random.integers(size // 2, size, rank).tolist()
    shape = [group * inputs, outputs] if is_transposed else [group * outputs, inputs]
    values = [
        _floats(2, group * inputs, *image),
        _floats(*shape, *kernel),
        _floats(group * outputs),
    ]
    attributes: dict[str, Any] = {
        "strides": strides,
        "dilations": dilations,
        "group": group,
    }
    return values[: random.integers(2, 4)], attributes


@pytest.mark.parametrize("seed", range(12))
def test_convolution(seed: int) -> None:
    values, attributes = _drawn(seed, is_transposed=False)
    random = np.random.default_rng(seed)
    mode = random.choice(["NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"])
    rank = len(attributes["strides"])
    if mode == "NOTSET":
        attributes["pads"] = random.integers(0, 3, 2 * rank).tolist()
    elif mode != "VALID":
        # onnxruntime refuses others.
        attributes["dilations"] = [1] * rank
    check_node("Conv", *values, auto_pad=mode, rtol=1e-4, atol=1e-5, **attributes)


@pytest.mark.parametrize("seed", range(12))
def test_transposed_convolution(seed: int) -> None:
    values, attributes = _drawn(seed, is_transposed=True)
    random = np.random.default_rng(seed)
    strides: list[int] = attributes["strides"]
    rank = len(strides)
    attributes["output_padding"] = [int(random.integers(0, s)) for s in strides]
    match seed % 3:
        case 0:
            attributes["pads"] = random.integers(0, 2, 2 * rank).tolist()
        case 1:
            attributes["auto_pad"] = random.choice(
                ["VALID", "SAME_UPPER", "SAME_LOWER"]
            )
        case _:
            sizes = values[0].shape[2:]
            attributes["output_shape"] = [
                int(max(size * s + random.integers(-3, 1), 1))
                for size, s in zip(sizes, strides, strict=True)
            ]
            attributes["auto_pad"] = random.choice(
                ["NOTSET", "SAME_UPPER", "SAME_LOWER"]
            )
    check_node("ConvTranspose", *values, rtol=1e-4, atol=1e-5, **attributes)


def test_convolution_errors() -> None:
    x, weights = _floats(1, 2, 5, 5), _floats(4, 2, 3, 3)
    assert import_error("Conv", x, weights, strides=[1]) == (
        "attribute 'strides' has 1 values; expected 2"
    )
    assert import_error("Conv", x, weights, kernel_shape=[2, 2]) == (
        "attribute 'kernel_shape' is 2x2, but the weights have windows 3x3"
    )
    assert import_error("Conv", x, weights, dilations=[0, 1]) == (
        "sizes, strides and dilations of windows must be positive; found 3, 1 and 0"
    )
    assert import_error("Conv", x, weights, auto_pad="SAME") == (
        "attribute 'auto_pad' has the unknown value 'SAME'"
    )
    assert import_error("Conv", x[0], weights) == (
        "has an input of rank 3 and weights of rank 4; expected equal ranks of at least 3"
    )
    assert import_error("ConvTranspose", x, weights, output_shape=[9, 5]) == (
        "'output_shape' has size 9; expected at most 7"
    )
    assert import_error("ConvTranspose", x, weights, group=3) == (
        "4 input features have no 3 equal groups"
    )


def test_errors_of_matrix_products() -> None:
    assert import_error("MatMul", _floats(2, 3), _floats()) == (
        "has an operand of rank 0; expected vectors, matrices or stacks of matrices"
    )
    assert import_error("MatMul", _floats(2, 2, 3), _floats(3, 3, 2)) == (
        "shapes 2 and 3 cannot be broadcast together"
    )


def test_sizes_of_products() -> None:
    assert import_error("MatMul", _floats(2, 3), _floats(4, 3)) == (
        "multiplies shapes 2x3 and 4x3; expected equal sizes along the sum, found 3 and 4"
    )
    assert import_error("Gemm", _floats(2, 3), _floats(3)) == (
        "has operands of ranks 2 and 1; expected 2"
    )


def test_einsum_errors() -> None:
    x = _floats(2, 3)
    assert import_error("Einsum", x, equation="ij->ik") == (
        "has the unknown label 'k' in its result"
    )
    assert import_error("Einsum", x, equation="ij,jk") == (
        "has the invalid equation 'ij,jk'"
    )
    assert import_error("Einsum", x, equation="ijk") == (
        "has an operand of rank 2 for 'ijk' in the equation"
    )
    assert import_error("Einsum", x, equation="ii") == ("label 'i' has sizes 3 and 2")


# Einstein notation


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ij->ji", [(2, 3)]),
        ("ba", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("iij->j", [(3, 3, 2)]),
        ("i,j->ij", [(2,), (3,)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (5, 3, 4)]),
        ("...ij,...jk", [(5, 2, 3), (1, 3, 4)]),
        ("b...,b...->b...", [(2, 3, 4), (2, 3, 4)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("bhqd,bhkd->bhqk", [(1, 2, 3, 4), (1, 2, 5, 4)]),
        ("ij,kl->jl", [(2, 3), (4, 5)]),
    ],
)
def test_einsum(equation: str, shapes: Sequence[Sequence[int]]) -> None:
    values = [_floats(*shape) for shape in shapes]
    check_node("Einsum", *values, equation=equation, rtol=1e-5, atol=1e-5)
