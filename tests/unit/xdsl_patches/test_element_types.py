"""Memrefs and vectors of quantized elements are refused, as by MLIR."""

import pytest
from xdsl.dialects.builtin import MemRefType, UnrankedMemRefType, VectorType, i8
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tests.conformance.answers import Accepted, Rejected
from tests.conformance.real_mlir import Mlir
from xdsl_quant.dialects.quant import AnyQuantizedType, UniformQuantizedType
from xdsl_quant.runtime.loading import IRError, parse_module, parse_type

from .modules import run

UNIFORM = "!quant.uniform<i8:f32, 5.000000e-01>"
MEMREF = "invalid memref element type"
VECTOR = "failed to verify 'elementType': VectorElementTypeInterface instance"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"memref<2x{UNIFORM}>", MEMREF),
        (f"memref<?x2x{UNIFORM}>", MEMREF),
        (f"memref<{UNIFORM}>", MEMREF),
        (f"memref<*x{UNIFORM}>", MEMREF),
        (f"memref<2x{UNIFORM}, strided<[1], offset: ?>>", MEMREF),
        (f"memref<2x{UNIFORM}, 3 : i64>", MEMREF),
        ("memref<2x!quant.any<i8:f32>>", MEMREF),
        ("memref<2x!quant.uniform<i8:f32:0, {1.0, 2.0}>>", MEMREF),
        ("memref<2x!quant.calibrated<f32<-1.0:1.0>>>", MEMREF),
        (f"vector<2x{UNIFORM}>", VECTOR),
        (f"vector<[2]x{UNIFORM}>", VECTOR),
        ("vector<2x!quant.calibrated<f32<-1.0:1.0>>>", VECTOR),
        (f"tensor<2xvector<2x{UNIFORM}>>", VECTOR),
        (f"memref<2xvector<2x{UNIFORM}>>", VECTOR),
        (f"vector<2xmemref<2x{UNIFORM}>>", MEMREF),
        (f"(memref<2x{UNIFORM}>) -> ()", MEMREF),
        (f"tuple<memref<2x{UNIFORM}>>", MEMREF),
    ],
)
def test_refused(mlir: Mlir, text: str, message: str):
    by_mlir = mlir.type(text)
    assert isinstance(by_mlir, Rejected)
    assert by_mlir.message == message
    with pytest.raises(IRError) as error:
        parse_type(text)
    assert str(error.value) == f"{text}: error: {message}"


@pytest.mark.parametrize(
    "text",
    [
        f"tensor<2x{UNIFORM}>",
        f"tensor<*x{UNIFORM}>",
        f"tuple<{UNIFORM}, tensor<2x{UNIFORM}>>",
        "memref<2xi8>",
        "memref<*xf32>",
        "memref<2xvector<2xi8>>",
        "memref<2xmemref<2xi8>>",
        "vector<[2]xindex>",
    ],
)
def test_accepted(mlir: Mlir, text: str):
    assert mlir.type(text) == Accepted(text)
    assert str(parse_type(text)) == text


def test_place_is_that_of_the_element_type():
    text = "!q = !quant.any<i8:f32>\nfunc.func private @f(vector<2xi8>, memref<2x!q>)\n"
    with pytest.raises(IRError) as error:
        parse_module(text, "a.mlir")
    assert str(error.value) == f"a.mlir:2:45: error: {MEMREF}"
    with pytest.raises(AssertionError, match=f"stdin:2:45: error: {MEMREF}"):
        run("xdsl-opt", stdin=text)
    # Quantized elements that xDSL alone cannot interpret are left to it.
    assert "memref" in run("xdsl-opt", stdin=text, XDSL_QUANT_PATCHES="off")


@pytest.mark.parametrize("element_type", [AnyQuantizedType, UniformQuantizedType])
def test_types_that_are_built(element_type: type[Attribute]):
    type_ = parse_type(
        "!quant.any<i8:f32>" if element_type is AnyQuantizedType else UNIFORM
    )
    with pytest.raises(VerifyException, match=f"^{MEMREF}$"):
        MemRefType(type_, (2,))
    with pytest.raises(VerifyException, match=f"^{MEMREF}$"):
        UnrankedMemRefType.from_type(type_)
    with pytest.raises(VerifyException, match=f"^{VECTOR}$"):
        VectorType(type_, (2,))
    # xDSL's own checks are still there.
    with pytest.raises(VerifyException, match="Number of scalable dimension"):
        VectorType.new(
            [i8, VectorType(i8, (2,)).shape, VectorType(i8, ()).scalable_dims]
        )


def test_other_mistakes_are_reported_by_xdsl():
    with pytest.raises(IRError) as error:
        parse_type("vector<0xx>")
    assert str(error.value) == "vector<0xx>: error: Expected vector element type"
