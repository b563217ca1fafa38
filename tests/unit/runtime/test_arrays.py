"""The dtypes of types, and the elements of constants as arrays."""

from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import (
    Builtin,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerType,
    TensorType,
    f32,
    i8,
)
from xdsl.ir import Attribute
from xdsl.parser import Parser

from xdsl_quant.dialects.quant import Quant
from xdsl_quant.dialects.quant.types import StoredQuantizedType
from xdsl_quant.runtime.arrays import (
    constant_elements,
    dense_elements,
    numpy_dtype,
    stored_elements,
)
from xdsl_quant.runtime.loading import parse_module
from xdsl_quant.xdsl_patches.resources import new_resource


def parsed(text: str) -> Attribute:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Quant)
    return Parser(context, text).parse_attribute()


def _uniform(storage: str) -> str:
    return f"!quant.uniform<{storage}:f32, 0.5>"


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("f16", np.float16),
        ("bf16", ml_dtypes.bfloat16),
        ("f32", np.float32),
        ("f64", np.float64),
        ("f8E4M3FN", ml_dtypes.float8_e4m3fn),
        ("i1", np.bool_),
        ("i2", np.int8),
        ("i8", np.int8),
        ("i9", np.int16),
        ("i17", np.int32),
        ("i33", np.int64),
        ("i64", np.int64),
        ("si4", np.int8),
        ("ui4", np.uint8),
        ("ui1", np.uint8),
        ("ui64", np.uint64),
        ("index", np.int64),
        (_uniform("i1"), np.int8),
        (_uniform("u1"), np.uint8),
        (_uniform("i8"), np.int8),
        (_uniform("u4"), np.uint8),
        (_uniform("ui12"), np.uint16),
        (_uniform("i24"), np.int32),
        (_uniform("u32"), np.uint32),
        ("!quant.any<u8>", np.uint8),
    ],
)
def test_dtype(text: str, dtype: Any):
    for form in ("{}", "tensor<2x{}>", "tensor<*x{}>"):
        assert numpy_dtype(parsed(form.format(text))) == dtype


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i65", "unsupported width 65; expected at most 64 bits"),
        ("f80", "NumPy has no dtype for values of type 'f80'"),
        ("tf32", "NumPy has no dtype for values of type 'tf32'"),
        ("none", "values of type 'none' have no NumPy dtype"),
        ("memref<2xf32>", "values of type 'memref<2xf32>' have no NumPy dtype"),
        (
            "tensor<2x!quant.calibrated<f32<-1.0:1.0>>>",
            "values of type 'tensor<2x!quant.calibrated<f32...",
        ),
        ("!quant.none<f32>", "values of type '!quant.none<f32>' have no NumPy dtype"),
    ],
)
def test_type_without_dtype(text: str, message: str):
    with pytest.raises(TypeError) as caught:
        numpy_dtype(parsed(text))
    assert str(caught.value).startswith(message.removesuffix("..."))


@pytest.mark.parametrize(
    ("text", "dtype", "expected"),
    [
        ("dense<[[1, -2]]> : tensor<1x2xi4>", np.int8, [[1, -2]]),
        ("dense<[200, 3]> : tensor<2xui8>", np.uint8, [200, 3]),
        ("dense<[true, false]> : tensor<2xi1>", np.bool_, [True, False]),
        ("dense<-7> : tensor<2x3xi16>", np.int16, [[-7] * 3] * 2),
        ("dense<true> : tensor<2xi1>", np.bool_, [True, True]),
        ("dense<5> : tensor<i64>", np.int64, 5),
        ("dense<0.5> : tensor<1x2xbf16>", "bfloat16", [[0.5, 0.5]]),
        ("dense<[]> : tensor<0xf32>", np.float32, []),
    ],
)
def test_elements(text: str, dtype: Any, expected: object):
    attribute = parsed(text)
    assert isinstance(attribute, DenseIntOrFPElementsAttr)
    elements = dense_elements(cast(DenseIntOrFPElementsAttr, attribute))
    assert elements.dtype == dtype
    assert elements.tolist() == expected


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0,)])
def test_one_element_stands_for_all(shape: tuple[int, ...]):
    """Constants that the package makes may have a single one."""
    data = BytesAttr(np.float32(0.5).tobytes())
    attribute = DenseIntOrFPElementsAttr(TensorType(f32, shape), data)
    elements = dense_elements(cast("DenseIntOrFPElementsAttr[Any]", attribute))
    np.testing.assert_array_equal(elements, np.full(shape, 0.5, np.float32))
    assert elements.shape == shape


def test_elements_of_a_resource():
    array = np.array([[1, -2, 7], [0, -8, 3]], np.int8)
    # Names are global: this one is in no other test.
    attribute = new_resource("elements", array, TensorType(IntegerType(4), [2, 3]))
    assert dense_elements(attribute).tolist() == array.tolist()


def test_a_resource_without_data():
    attribute = DenseResourceAttr.from_params("no_elements", TensorType(i8, [2]))
    with pytest.raises(ValueError, match=r"^missing data of resource 'no_elements'$"):
        dense_elements(attribute)


def test_elements_of_a_constant():
    module = parse_module("""
func.func @f(%x: tensor<2xi8>) -> tensor<2xi8> {
  %c = arith.constant dense<[1, -2]> : tensor<2xi8>
  %y = arith.addi %x, %c : tensor<2xi8>
  return %y : tensor<2xi8>
}""")
    values = [value for op in module.walk() for value in op.results]
    found = [constant_elements(value) for value in values]
    assert found[0] is not None
    assert found[0].tolist() == [1, -2]
    assert found[1] is None
    (argument,) = next(iter(module.body.block.ops)).regions[0].block.args
    assert constant_elements(argument) is None


@pytest.mark.parametrize(
    ("storage", "dtype", "stored"),
    [
        ("i8", np.int8, [-1, 7, -8]),
        ("u8", np.uint8, [255, 7, 248]),
        ("i4", np.int8, [-1, 7, -8]),
        ("u4", np.uint8, [15, 7, 8]),
        ("u16", np.uint16, [65535, 7, 65528]),
        ("i2", np.int8, [-1, -1, 0]),
    ],
)
def test_stored_elements(storage: str, dtype: type, stored: list[int]):
    type_ = parsed(_uniform(storage))
    assert isinstance(type_, StoredQuantizedType)
    elements = stored_elements(np.array([-1, 7, -8], np.int8), type_)
    assert elements.dtype == dtype
    assert elements.tolist() == stored
