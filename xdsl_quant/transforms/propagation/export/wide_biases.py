"""
Biases of 64 bits: TensorFlow Lite's convolutions of 16-bit activations take them, and no
quantized type has as many bits. So they are integers, whose scale is known from the
factors.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    TensorType,
    i64,
)
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant.traits import AccumulatorUniformScale, quantization_trait
from xdsl_quant.dialects.quant.types import StoredQuantizedType, scalar_or_element_type


def widen_biases(module: ModuleOp) -> None:
    """
    Replace the biases of ops on 16-bit activations that are constants of `tfl` by those of
    64 bits, where the op accepts them.
    """
    for op in module.walk():
        trait = quantization_trait(op, AccumulatorUniformScale)
        if trait is None or trait.bias >= len(op.operands):
            continue
        activation = scalar_or_element_type(op.operands[trait.factors[0]].type)
        if (
            isinstance(activation, StoredQuantizedType)
            and activation.storage_type_integral_width == 16
        ):
            _widen(op, trait.bias)


def _widen(op: Operation, index: int) -> None:
    from xdsl_quant.frontends.tflite import dialect as tfl
    from xdsl_quant.transforms.building.arrays import dense_elements

    old = op.operands[index]
    constant = old.owner
    if not isinstance(constant, tfl.QConstOp):
        return
    elements = dense_elements(constant.value)
    type_ = TensorType(i64, elements.shape)
    data = BytesAttr(elements.astype("<i8").tobytes())
    wide = tfl.ConstOp.create(
        result_types=[type_],
        properties={"value": DenseIntOrFPElementsAttr(type_, data)},
    )
    op.operands[index] = wide.output
    try:
        op.verify()
    except VerifyException:
        op.operands[index] = old
        return
    wide.location = constant.location
    wide.output.name_hint = old.name_hint
    Rewriter.insert_op(wide, InsertPoint.before(constant))
    if old.first_use is None:
        Rewriter.erase_op(constant)
