"""Types that occur many times are converted once."""

from dataclasses import dataclass, field

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    TensorType,
    TupleType,
    f32,
    i8,
)
from xdsl.dialects.test import TestOp as Op

from xdsl_quant.dialects.quant import QuantizedType, UniformQuantizedType
from xdsl_quant.transforms.building.quantized_type_conversion import (
    QuantizedTypeConversion,
)

OLD, NEW = (UniformQuantizedType(i8, f32, scale) for scale in (1.0, 2.0))


@dataclass(frozen=True)
class Conversion(QuantizedTypeConversion):
    converted_types: list[QuantizedType] = field(default_factory=list[QuantizedType])

    def convert(self, quantized_type: QuantizedType) -> QuantizedType:
        self.converted_types.append(quantized_type)
        return NEW if quantized_type == OLD else quantized_type


def op_with(type_: UniformQuantizedType) -> Op:
    tensor = TensorType(type_, [2])
    attribute = DictionaryAttr(
        {
            "first": StringAttr("name"),
            "second": ArrayAttr([tensor, type_]),
            "third": FunctionType.from_lists(
                [tensor], [TupleType(ArrayAttr([type_, f32]))]
            ),
        }
    )
    return Op(
        result_types=[type_, tensor, TupleType(ArrayAttr([type_, tensor]))],
        attributes={"note": attribute},
        properties={"prop1": ArrayAttr([attribute, type_])},
    )


def test_all_types_are_converted_once():
    module, expected = (ModuleOp([op_with(type_)]) for type_ in (OLD, NEW))
    conversion = Conversion()
    conversion.plan_module(module)
    conversion.rewrite_planned()
    assert str(module) == str(expected)
    assert conversion.converted_types == [OLD]


def test_what_stays_is_the_same_object():
    (op,) = ModuleOp([op_with(NEW)]).ops
    for attribute in (
        *op.attributes.values(),
        *op.properties.values(),
        *op.result_types,
    ):
        assert Conversion().converted(attribute) is attribute
