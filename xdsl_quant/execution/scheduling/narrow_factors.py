"""
Products of bytes that a lowering has extended to 16 bits.

StableHLO's products have factors of one signedness, so that the lowering extends unsigned
bytes, and the signed weights that they are multiplied by, to 16 bits. The instructions for
products of bytes multiply unsigned by signed bytes: the rewrite moves the extensions
behind padding and into the body of the product.
"""

import numpy as np

from .. import mlir_bindings as mlir
from ..mlir_bindings import arith, ir
from .channel_multipliers import splat_value
from .contractions import contraction_of
from .generic_ops import splat_tensor
from .memrefs import constant_of

_EXTENSIONS = "arith.extsi", "arith.extui"


def narrow_factors(module: ir.Module) -> None:
    """Multiply bytes in place of bytes extended to 16 bits, in contractions on tensors."""
    for op in mlir.ops_in(module, "tensor.insert_slice"):
        _extend_after_padding(op)
    for op in mlir.ops_in(module, "linalg.generic"):
        if (contraction := contraction_of(op)) is None:
            continue
        for i, factor in enumerate((contraction.lhs, contraction.rhs)):
            conversion = factor.conversion
            if conversion is not None and conversion.name == "arith.extsi":
                _narrow(op, i, conversion)


def _bytes_of(value: ir.Value) -> ir.Operation | None:
    """Return the op that extends a tensor of bytes to the 16 bits of a value."""
    op = mlir.defining_op(value, *_EXTENSIONS)
    is_extended = op is not None and isinstance(value.type, ir.RankedTensorType)
    widths = [mlir.bits(mlir.element(v)) for v in (op.operands[0], value)] if op else []
    return op if is_extended and widths == [8, 16] else None


def _extend_after_padding(op: ir.Operation) -> None:
    """Pad bytes with a constant and extend the result, if an op pads extended bytes."""
    source, padding = op.operands[0], op.operands[1]
    number = splat_value(padding)
    if (extension := _bytes_of(source)) is None or number is None:
        return
    low = 0 if extension.name == "arith.extui" else -128
    if not low <= number <= low + 255:
        return
    byte = ir.IntegerType.get_signless(8)
    shape = mlir.shape(op.results[0])
    with ir.InsertionPoint(op), op.location:
        padded = op.clone()
        padded.operands[0] = extension.operands[0]
        padded.operands[1] = splat_tensor(shape, byte, (number + 128) % 256 - 128)
        padded.move_before(op)
        mlir.change_type(padded.results[0], ir.RankedTensorType.get(shape, byte))
        extended = mlir.create_op(extension.name, source.type, [padded.results[0]])
    mlir.change_type(extended, op.results[0].type)
    mlir.replace_op(op, extended)


def _narrow(op: ir.Operation, index: int, conversion: ir.Operation) -> None:
    """Read bytes for a factor of a product, and extend them in its body."""
    value, name = op.operands[index], "arith.extsi"
    if (extension := _bytes_of(value)) is not None:
        value, name = extension.operands[0], extension.name
    elif (numbers := constant_of(value)) is None or mlir.bits(
        mlir.element(value)
    ) != 16:
        return
    elif np.abs(2 * numbers + 1).max(initial=0) > 255:
        return
    else:
        type_ = ir.RankedTensorType.get(numbers.shape, ir.IntegerType.get_signless(8))
        with ir.InsertionPoint(op), op.location:
            attribute = mlir.dense_attr(numbers.astype(np.int8), type_)
            value = arith.constant(type_, attribute)
    op.operands[index] = value
    argument = mlir.body_of(op).arguments[index]
    argument.set_type(mlir.element(value))
    with ir.InsertionPoint(conversion), conversion.location:
        wide = mlir.create_op(name, conversion.results[0].type, [argument])
    mlir.replace_op(conversion, wide)
