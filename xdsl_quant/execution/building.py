"""What changes of MLIR's IR share: small builders of ops, and readers of `linalg`."""

from math import prod

from . import mlir_bindings as mlir
from .mlir_bindings import Op, Sizes, arith, ir, tensor


def index(value: int) -> ir.Value:
    """Return a constant of type `index`."""
    return arith.constant(ir.IndexType.get(), value)


def is_dynamic(size: int) -> bool:
    """Return True if a size in a shaped type is not known."""
    return size == ir.ShapedType.get_dynamic_size()


def has_identity_layout(type_: ir.Type) -> bool:
    """
    Return True if the elements of a memref are one after the other, from its beginning.
    """
    if not isinstance(type_, ir.MemRefType):
        return False
    return type_.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank))


def memref_bytes(type_: ir.Type) -> int:
    """Return the bytes of a memref; 0 if they are not known."""
    assert isinstance(type_, ir.MemRefType)
    if not has_identity_layout(type_) or any(map(is_dynamic, type_.shape)):
        return 0
    return prod(type_.shape) * _number_bytes(type_.element_type)


def _number_bytes(type_: ir.Type) -> int:
    """
    Return the bytes of a number, which are whole ones by now; 0 for what is no number.
    """
    if isinstance(type_, ir.IndexType):
        return 8
    return type_.width // 8 if isinstance(type_, ir.IntegerType | ir.FloatType) else 0


def size_values(value: ir.Value) -> list[ir.Value]:
    """Return the sizes of a tensor as values of type `index`."""
    return as_values(mixed_sizes(value))


def as_values(sizes: Sizes) -> list[ir.Value]:
    """Sizes as values of type `index`."""
    return [index(size) if isinstance(size, int) else size for size in sizes]


def mixed_sizes(value: ir.Value) -> list[int | ir.Value]:
    """Return the sizes of a tensor, those that its type knows as integers."""
    return [
        tensor.dim(value, index(i)) if is_dynamic(size) else size
        for i, size in enumerate(mlir.shape(value))
    ]


def reshaped_tensor(value: ir.Value, sizes: Sizes) -> ir.Value:
    """
    Return the elements of a tensor in the same order with other sizes, integers or
    values.

    It is a `tensor.reshape`, through which MLIR fuses no loops.
    """
    dynamic = ir.ShapedType.get_dynamic_size()
    shape = [size if isinstance(size, int) else dynamic for size in sizes]
    type_ = mlir.shaped_type(value)
    if shape == type_.shape:
        return value
    shape_type = ir.RankedTensorType.get([len(sizes)], ir.IndexType.get())
    return tensor.reshape(
        ir.RankedTensorType.get(shape, type_.element_type),
        value,
        tensor.from_elements(shape_type, as_values(sizes)),
    )


def input_count(op: Op) -> int:
    """Return the number of operands that a `linalg` op only reads."""
    return mlir.attribute_of(op, "operandSegmentSizes", ir.DenseI32ArrayAttr)[0]


def indexing_maps(op: Op) -> list[ir.AffineMap]:
    """Return the maps of the operands of a `linalg.generic`."""
    maps = mlir.attribute_of(op, "indexing_maps", ir.ArrayAttr)
    return [
        attribute.value for attribute in maps if isinstance(attribute, ir.AffineMapAttr)
    ]


def loop_kinds(op: Op) -> list[str]:
    """Return the texts of the kinds of loops of a `linalg.generic`."""
    return [str(kind) for kind in mlir.attribute_of(op, "iterator_types", ir.ArrayAttr)]
