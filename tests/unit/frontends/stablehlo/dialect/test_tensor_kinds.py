"""Which element types belong to which group, and which belong to none."""

import re

import pytest
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ComplexType,
    Float8E4M3FNType,
    Float80Type,
    FloatTF32Type,
    IndexType,
    IntegerType,
    Signedness,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i64,
)
from xdsl.ir import Attribute

from xdsl_quant.dialects.quant import (
    AnyQuantizedType,
    CalibratedQuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.frontends.stablehlo.dialect import TypeExtensionsAttr
from xdsl_quant.frontends.stablehlo.dialect.tensor_kinds import (
    SCALAR,
    STATIC_OR_BOUNDED_OR_PER_AXIS,
    STATIC_OR_PER_AXIS,
    TENSOR,
    TENSOR_OR_PER_AXIS,
    ElementGroup,
    element_kind,
)
from xdsl_quant.runtime.loading import IRError, parse_module

I3 = IntegerType(3)
UI8 = IntegerType(8, Signedness.UNSIGNED)
SI8 = IntegerType(8, Signedness.SIGNED)

KINDS: list[tuple[Attribute, ElementGroup | None]] = [
    *[
        (type_, ElementGroup.FLOAT)
        for type_ in (f16, bf16, f32, f64, Float8E4M3FNType())
    ],
    (Float80Type(), None),
    (FloatTF32Type(), None),
    (i1, ElementGroup.PRED),
    (i8, ElementGroup.SIGNED),
    (i64, ElementGroup.SIGNED),
    (UI8, ElementGroup.UNSIGNED),
    (SI8, None),
    (I3, None),
    (IntegerType(128), None),
    (IntegerType(1, Signedness.UNSIGNED), None),
    (IndexType(), None),
    (ComplexType(f32), ElementGroup.COMPLEX),
    (ComplexType(f16), None),
    (ComplexType(i8), None),
    (UniformQuantizedType(i8, f32, 0.5, 127), ElementGroup.PER_TENSOR),
    (UniformQuantizedType(i8, f32, 0.5, 128), None),
    (UniformQuantizedType(i8, f32, 0.5, -128), ElementGroup.PER_TENSOR),
    (UniformQuantizedType(i8, f32, 0.5, -129), None),
    (UniformQuantizedType(i8, f32, 0.5, 255, is_signed=False), ElementGroup.PER_TENSOR),
    (UniformQuantizedType(i8, f32, 0.5, -1, is_signed=False), None),
    (UniformQuantizedType(i8, f32, 0.5, 8, storage_type_max=7), None),
    (UniformQuantizedType(UI8, f32, 0.5), ElementGroup.PER_TENSOR),
    (UniformQuantizedType(SI8, f32, 0.5), None),
    (UniformQuantizedType(I3, f32, 0.5), None),
    (UniformQuantizedType(i1, f32, 0.5), None),
    (
        UniformQuantizedPerAxisType(i8, f32, [0.5, 1.0], quantized_dimension=0),
        ElementGroup.PER_AXIS,
    ),
    (
        UniformQuantizedPerAxisType(
            i8, f32, [0.5, 1.0], [0, 128], quantized_dimension=0
        ),
        None,
    ),
    (
        UniformQuantizedSubChannelType(
            i8, f32, [[0.5], [1.0]], quantized_dimensions=[0], block_sizes=[1]
        ),
        None,
    ),
    (AnyQuantizedType(i8, f32), None),
    (CalibratedQuantizedType(f32, -1.0, 1.0), None),
]


@pytest.mark.parametrize(("type_", "kind"), KINDS, ids=lambda value: str(value))
def test_kinds(type_: Attribute, kind: ElementGroup | None):
    assert element_kind(type_) is kind


def test_shapes():
    bounded = TensorType(
        f32, (DYNAMIC_INDEX, 2), TypeExtensionsAttr((4, DYNAMIC_INDEX))
    )
    unbounded = TensorType(f32, (DYNAMIC_INDEX, 2))
    other_bound = TensorType(
        f32, (DYNAMIC_INDEX, 2), TypeExtensionsAttr((DYNAMIC_INDEX, 4))
    )
    two_bounds = TensorType(
        f32, (DYNAMIC_INDEX, DYNAMIC_INDEX), TypeExtensionsAttr((4, 4))
    )
    assert TENSOR.accepts(unbounded)
    assert not STATIC_OR_PER_AXIS.accepts(bounded)
    assert STATIC_OR_BOUNDED_OR_PER_AXIS.accepts(bounded)
    assert not STATIC_OR_BOUNDED_OR_PER_AXIS.accepts(unbounded)
    assert not STATIC_OR_BOUNDED_OR_PER_AXIS.accepts(other_bound)
    assert not STATIC_OR_BOUNDED_OR_PER_AXIS.accepts(two_bounds)
    assert SCALAR.accepts(TensorType(f32, ()))
    assert not SCALAR.accepts(TensorType(f32, (1,)))
    assert not TENSOR.accepts(f32)


@pytest.mark.parametrize(
    ("shape", "is_valid"),
    [((2,), True), ((3,), False), ((DYNAMIC_INDEX,), True), ((), False)],
)
def test_the_quantized_dimension_fits(shape: tuple[int, ...], is_valid: bool):
    per_axis = UniformQuantizedPerAxisType(i8, f32, [0.5, 1.0], quantized_dimension=0)
    assert TENSOR_OR_PER_AXIS.accepts(TensorType(per_axis, shape)) is is_valid
    assert not TENSOR.accepts(TensorType(per_axis, shape))


@pytest.mark.parametrize(
    ("bounds", "is_valid"),
    [("4", False), ("4, 3", False), ("4, ?", True), ("?, ?", True)],
)
def test_bounds(bounds: str, is_valid: bool):
    type_ = f"tensor<?x3xf32, #stablehlo.bounds<{bounds}>>"
    text = f"""
        func.func @f(%x: {type_}) -> {type_} {{
          %0 = stablehlo.tanh %x : {type_}
          func.return %0 : {type_}
        }}
    """
    if is_valid:
        parse_module(text)
        return
    message = "'stablehlo.tanh' op expects a bound or '?' of each dynamic dimension"
    with pytest.raises(IRError, match=re.escape(message)):
        parse_module(text)
