"""Ops that are made without a text, and what is said of each op."""

from typing import TypeVar

import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    TensorType,
    f32,
    i8,
    i32,
)
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import (
    UniformQuantizedSubChannelType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    AffineOpCoefficient,
    FixedResultUniformScale,
    MovesElements,
    MultipliesAndAccumulates,
    OrdersElements,
    QuantizationTrait,
    SameOperandsAndResultsScale,
    quantization_trait,
)
from xdsl_quant.frontends.tflite.dialect import (
    TFL,
    AddOp,
    ConcatenationOp,
    ConstOp,
    ReshapeOp,
    SoftmaxOp,
    SqueezeOp,
    SVDFOp,
    TileOp,
)
from xdsl_quant.frontends.tflite.dialect.property_kinds import ACTIVATION, PADDING

from .element_kinds import elements_of

X = TensorType(f32, (2, 3))


def value(type_: Attribute = X) -> test.TestOp:
    return test.TestOp(result_types=[type_])


def test_a_constructor_for_all():
    x = value()
    add = AddOp(x, x, result_types=[X], fused_activation_function="RELU")
    add.verify()
    assert add.fused_activation_function.data == "RELU"
    softmax = SoftmaxOp(add, result_types=[X], beta=0.5)
    softmax.verify()
    assert softmax.beta.value.data == 0.5
    concatenation = ConcatenationOp(
        [x, softmax],
        result_types=[TensorType(f32, (4, 3))],
        fused_activation_function="NONE",
        axis=-2,
    )
    concatenation.verify()
    assert [*concatenation.properties] == ["axis", "fused_activation_function"]
    squeeze = SqueezeOp(
        value(TensorType(f32, (1, 3))),
        result_types=[TensorType(f32, (3,))],
        squeeze_dims=[0],
    )
    squeeze.verify()


def test_optional_results_may_be_left_out():
    shapes = ((1, 2), (2, 2), (2, 3), (2,), (1, 6))
    operands = [value(TensorType(f32, shape)) for shape in shapes]
    types = [TensorType(f32, (1, 2)), TensorType(f32, (1, 6))]
    for count in (1, 2):
        svdf = SVDFOp(
            *operands,
            result_types=types[:count],
            fused_activation_function="NONE",
            rank=1,
        )
        svdf.verify()
        assert [*svdf.result_types] == types[:count]
        assert (svdf.next_state is not None) == (count == 2)


def test_a_constant_says_the_shape():
    type_ = TensorType(i32, (2,))
    sizes = DenseIntOrFPElementsAttr.from_list(type_, [3, -1])
    shape = ConstOp(result_types=[type_], value=sizes)
    ReshapeOp(value(), shape, result_types=[TensorType(f32, (3, 2))]).verify()
    wrong = ReshapeOp(value(), shape, result_types=[TensorType(f32, (1, 6))])
    with pytest.raises(
        VerifyException, match="to be cast compatible with expected type"
    ):
        wrong.verify()


def test_scales_of_a_result():
    x, y = (
        TensorType(UniformQuantizedType(i8, f32, scale), (2,)) for scale in (0.5, 0.25)
    )
    reshape = ReshapeOp(value(x), value(TensorType(i32, (1,))), result_types=[y])
    with pytest.raises(VerifyException, match="violate the same scale constraint"):
        reshape.verify()


OPS = {op.name: op for op in TFL.operations}

TraitT = TypeVar("TraitT", bound=QuantizationTrait)


def trait(name: str, trait_type: type[TraitT]) -> TraitT | None:
    return quantization_trait(OPS[f"tfl.{name}"].create(), trait_type)


def test_what_ops_mean_to_quantization():
    for name, dimension in (
        ("conv_2d", 0),
        ("depthwise_conv_2d", 3),
        ("fully_connected", 0),
    ):
        coefficient = trait(name, AffineOpCoefficient)
        assert coefficient is not None
        assert (coefficient.operand, coefficient.dimension) == (1, dimension)
        assert trait(name, AccumulatorUniformScale) == AccumulatorUniformScale(2)
        assert trait(name, MultipliesAndAccumulates) == MultipliesAndAccumulates()
    assert trait("transpose_conv", AccumulatorUniformScale) == AccumulatorUniformScale(
        3, (1, 2)
    )
    assert trait("logistic", FixedResultUniformScale) == FixedResultUniformScale(
        0, 1, symmetric_widths=(16,)
    )
    assert trait("split", MovesElements) == MovesElements((1,))
    assert trait("reduce_max", OrdersElements) == OrdersElements()
    assert trait("mean", SameOperandsAndResultsScale) is None
    for name in ("reshape", "concatenation", "max_pool_2d", "pad", "maximum"):
        assert trait(name, SameOperandsAndResultsScale) is not None


def test_enumerations_have_the_order_of_files():
    assert ACTIVATION.values[3] == "RELU6"
    assert PADDING.values == ("SAME", "VALID")


def element_names(name: str) -> list[list[str]]:
    op = OPS[f"tfl.{name}"]
    assert issubclass(op, IRDLOperation)
    operands = op.get_irdl_definition().operands
    return [[kind.name for kind in elements_of(each.constr)] for _, each in operands]


def test_element_types_of_the_runtime():
    assert element_names("relu") == [["f32", "QUI8", "QI8", "QI16"]]
    *_, bias = element_names("conv_2d")
    assert bias == ["f32", "i32", "i64"]
    assert "QI8" in element_names("concatenation")[0]
    assert element_names("yield") == [[]]


def test_the_first_error_does_not_depend_on_the_order_of_traits():
    # The traits of an op are a set, which has another order in each process.
    blocks = UniformQuantizedSubChannelType(
        i8, f32, [[1.0], [2.0]], quantized_dimensions=[0], block_sizes=[1]
    )
    values = test.TestOp(
        result_types=[TensorType(blocks, (2, 4)), TensorType(i32, (2,))]
    )
    op = TileOp(*values.results, result_types=[TensorType(f32, (2, 4))])
    messages: set[str] = set()
    for trait in op.traits.traits:
        try:
            trait.verify(op)
        except VerifyException as e:
            messages.add(str(e))
    assert messages == {
        "'tfl.tile' op failed to verify that input and output must have same element type"
    }
