"""Fourier transforms, compared with LiteRT."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.unit.frontends.tflite.files.litert import LiteRT
from xdsl_quant.execution import CompilationError, compile
from xdsl_quant.frontends.tflite import read_tflite, write_tflite
from xdsl_quant.frontends.tflite.files.model import Model, Operator, Subgraph, Tensor
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import IRError, apply_passes, parse_module


def file_of(shape: Sequence[int], sizes: tuple[int, int], *codes: str) -> bytes:
    """A transform, and an op on its result for each code."""
    spectrum = (*shape[:-2], sizes[0], sizes[1] // 2 + 1)
    data = np.array(sizes, np.int32).view(np.uint8)
    tensors = [
        Tensor("x", "FLOAT32", shape),
        Tensor("sizes", "INT32", [2], data=data),
        Tensor("spectrum", "COMPLEX64", spectrum),
        *(Tensor(code, "FLOAT32", spectrum) for code in codes),
    ]
    results = [*range(3, 3 + len(codes))] or [2]
    operators = [Operator("RFFT2D", [0, 1], [2])]
    operators += [Operator(code, [2], [3 + i]) for i, code in enumerate(codes)]
    return write_model(Model([Subgraph("main", tensors, [0], results, operators)]))


CODES = "COMPLEX_ABS", "REAL", "IMAG"
SIZES = [
    ((3, 16), (4, 8)),
    ((2, 3, 8), (2, 16)),
    ((5, 1, 32), (1, 32)),
    ((2, 2, 1, 10), (1, 64)),
    ((7, 4), (8, 2)),
]


@pytest.mark.parametrize(("shape", "sizes"), SIZES)
def test_transform(shape: Sequence[int], sizes: tuple[int, int]):
    file = file_of(shape, sizes, *CODES)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    expected = LiteRT(file).run(x)
    module = read_tflite(file)
    assert write_tflite(module) == file
    for results in (run_function(module, "main", x), compile(module)(x)):
        for result, array in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, array, rtol=2e-7, atol=1e-6)


def test_complex_results():
    file = file_of((3, 8), (4, 8))
    x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    (result,) = run_function(read_tflite(file), "main", x)
    assert result.dtype == np.complex64
    np.testing.assert_allclose(result, np.fft.rfft2(x, (4, 8)), atol=1e-6)
    with pytest.raises(CompilationError, match="complex<f32>>' have no NumPy dtype"):
        compile(read_tflite(file))


def test_no_conversion_to_tosa():
    module = read_tflite(file_of((3, 8), (4, 8), "REAL"))
    with pytest.raises(IRError, match=r"'tfl.rfft2d' op has no conversion to TOSA"):
        apply_passes(module, "convert-tfl-to-tosa")


TRANSFORM = """
    %n = "tfl.pseudo_const"() <{value = dense<[1, 4]> : tensor<2xi32>}> : ()
        -> tensor<2xi32>
    %c = "tfl.rfft2d"(%x, %n) : (tensor<1x4xf32>, tensor<2xi32>)
        -> tensor<1x3xcomplex<f32>>
"""


@pytest.mark.parametrize(
    ("op", "type_", "message"),
    [
        (
            '%y = "tfl.neg"(%c) : (tensor<1x3xcomplex<f32>>) -> tensor<1x3xcomplex<f32>>',
            "1x3xcomplex<f32>",
            "'tfl.neg' op has complex operands; use 'tfl.real', 'tfl.imag' or",
        ),
        (
            '%y = "test.op"(%c) : (tensor<1x3xcomplex<f32>>) -> tensor<3xf32>',
            "3xf32",
            "'tfl.rfft2d' op has a complex result; use 'tfl.real', 'tfl.imag' or",
        ),
        (
            '%d = "tfl.cast"(%c) : (tensor<1x3xcomplex<f32>>) -> tensor<1x3xcomplex<f64>>\n'
            '%y = "tfl.real"(%d) : (tensor<1x3xcomplex<f64>>) -> tensor<1x3xf64>',
            "1x3xf64",
            "'tfl.cast' op has complex operands; use",
        ),
    ],
)
def test_complex_numbers_have_no_other_conversion(op: str, type_: str, message: str):
    module = parse_module(f"""
        func.func @main(%x: tensor<1x4xf32>) -> tensor<{type_}> {{{TRANSFORM}
          {op}
          return %y : tensor<{type_}>
        }}
    """)
    before = str(module)
    with pytest.raises(IRError, match=message):
        apply_passes(module, "convert-tfl-to-linalg")
    assert str(module) == before
