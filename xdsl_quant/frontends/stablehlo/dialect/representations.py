"""Ops on the representation of elements: bit casts and reduced precision."""

from typing import cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    ComplexType,
    FixedBitwidthType,
    IntegerAttr,
    i32,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    AtLeast,
    eq,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xdsl_quant.dialects.quant import StoredQuantizedType
from xdsl_quant.dialects.quant.traits import AcceptsStoredValues
from xdsl_quant.dialects.verification import are_compatible_shapes, require

from . import tensor_kinds as kinds
from .base import COMPATIBLE_TYPES, StableHLOOp
from .elementwise import UnaryOp
from .syntax import FUNCTIONAL_TYPE, SAME_TYPE

__all__ = ["BitcastConvertOp", "ReducePrecisionOp"]


@irdl_op_definition
class BitcastConvertOp(StableHLOOp):
    """
    Reinterpretation of bits as elements of another type. If its width differs, the tensor
    of the narrower type has one more dimension.

    Example:

    ```mlir
    %1 = stablehlo.bitcast_convert %0 : (tensor<2xf32>) -> tensor<2x4xi8>
    ```
    """

    name = "stablehlo.bitcast_convert"

    operand = operand_def(kinds.TENSOR_OR_PER_AXIS)
    result = result_def(kinds.TENSOR_OR_PER_AXIS)

    assembly_format = f"operands {FUNCTIONAL_TYPE}"

    traits = traits_def(Pure(), AcceptsStoredValues())

    def verify_(self) -> None:
        types = self.tensor_types
        elements = [type_.element_type for type_ in types]
        are_complex = [isinstance(element, ComplexType) for element in elements]
        texts = [f"'{type_}'" for type_ in types]
        require(
            are_complex[0] == are_complex[1],
            "cannot convert between real and complex types, but got: "
            f"{texts[0]} and {texts[1]}",
        )
        widths = [*map(element_width, elements)]
        shapes = [type_.get_shape() for type_ in types]
        small, large = (0, 1) if widths[0] < widths[1] else (1, 0)
        prefix = shapes[small]
        if widths[small] < widths[large]:
            ranks = len(shapes[small]), len(shapes[large])
            require(
                ranks[0] == ranks[1] + 1,
                f"rank of smaller element type ({ranks[0]}) should be 1 more than rank of "
                f"larger element type ({ranks[1]}), but {ranks[0]} != {ranks[1]} + 1.",
            )
            *prefix, last = shapes[small]
            require(
                last == DYNAMIC_INDEX or last * widths[small] == widths[large],
                f"requires compatible bit widths. Got: {texts[0]} and {texts[1]}, but "
                f"{widths[small]} * {last} != {widths[large]}.",
            )
        # As StableHLO, which does not compare the ranks of types of one width.
        rank = min(len(prefix), len(shapes[large]))
        require(
            are_compatible_shapes([*prefix[:rank]], [*shapes[large][:rank]]),
            "operand and result shapes must match except for the innermost dimension of "
            f"the shape with the smaller element type. Got: {texts[0]} and {texts[1]}.",
        )


def element_width(type_: Attribute) -> int:
    """Return the width of an element in bits: of its storage type if it is quantized."""
    if isinstance(type_, StoredQuantizedType):
        return type_.storage_type_integral_width
    if isinstance(type_, ComplexType):
        return 2 * cast(ComplexType[AnyFloat], type_).element_type.bitwidth
    return cast(FixedBitwidthType, type_).bitwidth


@irdl_op_definition
class ReducePrecisionOp(UnaryOp):
    """
    Round to a float format with fewer exponent and mantissa bits, and back.

    Example:

    ```mlir
    %1 = stablehlo.reduce_precision %0, format = e5m10 : tensor<4xf32>
    ```
    """

    name = "stablehlo.reduce_precision"

    operand = operand_def(kinds.FLOAT_OR_QUANTIZED)
    exponent_bits = prop_def(IntegerAttr.constr(eq(i32), value=AtLeast(1)))
    mantissa_bits = prop_def(IntegerAttr.constr(eq(i32), value=AtLeast(0)))
    result = result_def(kinds.FLOAT_OR_QUANTIZED)

    assembly_format = (
        "$operand `,` `format` `=` "
        f"custom<ExponentAndMantissa>($exponent_bits, $mantissa_bits) {SAME_TYPE}"
    )

    traits = traits_def(COMPATIBLE_TYPES)
