"""Helpers that build and inspect MLIR ops, shared by the rewrites."""

from math import prod

from . import mlir_bindings as mlir
from .mlir_bindings import Op, Sizes, arith, ir, tensor


def index(value: int) -> ir.Value:
    return arith.constant(ir.IndexType.get(), value)


def is_dynamic(size: int) -> bool:
    return size == ir.ShapedType.get_dynamic_size()


def has_identity_layout(type_: ir.Type) -> bool:
    """Return True if a memref is contiguous, row-major and without offset."""
    if not isinstance(type_, ir.MemRefType):
        return False
    return type_.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank))


def memref_bytes(type_: ir.Type) -> int:
    """Return the byte size of a memref; 0 for dynamic sizes or strided layouts."""
    assert isinstance(type_, ir.MemRefType)
    if not has_identity_layout(type_) or any(map(is_dynamic, type_.shape)):
        return 0
    return prod(type_.shape) * _number_bytes(type_.element_type)


def _number_bytes(type_: ir.Type) -> int:
    """Return the byte size of a number type; 0 for other types and below 8 bits."""
    if isinstance(type_, ir.IndexType):
        return 8
    return type_.width // 8 if isinstance(type_, ir.IntegerType | ir.FloatType) else 0


def size_values(value: ir.Value) -> list[ir.Value]:
    return as_values(mixed_sizes(value))


def as_values(sizes: Sizes) -> list[ir.Value]:
    """Convert sizes to values of type `index`."""
    return [index(size) if isinstance(size, int) else size for size in sizes]


def mixed_sizes(value: ir.Value) -> list[int | ir.Value]:
    """Return the sizes of a tensor: integers if static, `index` values if dynamic."""
    return [
        tensor.dim(value, index(i)) if is_dynamic(size) else size
        for i, size in enumerate(mlir.shape(value))
    ]


def reshape_tensor(value: ir.Value, sizes: Sizes) -> ir.Value:
    """
    Reshape a tensor to static or dynamic sizes, in row-major order. The new op is a
    `tensor.reshape`, across which MLIR does not fuse loops.
    """
    dynamic = ir.ShapedType.get_dynamic_size()
    shape = [size if isinstance(size, int) else dynamic for size in sizes]
    type_ = mlir.shaped_type(value)
    if shape == type_.shape:
        return value
    shape_type = ir.RankedTensorType.get([len(sizes)], ir.IndexType.get())
    result_type = ir.RankedTensorType.get(shape, type_.element_type)
    elements = tensor.from_elements(shape_type, as_values(sizes))
    return tensor.reshape(result_type, value, elements)


def input_count(op: Op) -> int:
    """Return the number of inputs of a `linalg` op, without its `outs` operands."""
    return mlir.attribute_of(op, "operandSegmentSizes", ir.DenseI32ArrayAttr)[0]


def indexing_maps(op: Op) -> list[ir.AffineMap]:
    maps = mlir.attribute_of(op, "indexing_maps", ir.ArrayAttr)
    return [
        attribute.value for attribute in maps if isinstance(attribute, ir.AffineMapAttr)
    ]


def iterator_types_of(op: Op) -> list[str]:
    """Return the iterator types of a `linalg.generic` as strings."""
    return [str(kind) for kind in mlir.attribute_of(op, "iterator_types", ir.ArrayAttr)]


def loops_in(*indices: ir.AffineExpr) -> set[int]:
    """Return the loops that affine indices depend on."""
    loops: set[int] = set()
    for expression in indices:
        if isinstance(expression, ir.AffineDimExpr):
            loops.add(expression.position)
        elif isinstance(expression, ir.AffineBinaryExpr):
            loops |= loops_in(expression.lhs, expression.rhs)
    return loops


VIEWS = (
    "memref.cast",
    "memref.collapse_shape",
    "memref.expand_shape",
    "memref.reinterpret_cast",
    "memref.reshape",
    "memref.subview",
)
"""Ops whose result aliases their first operand."""


def buffer_of(memref: ir.Value) -> ir.Value:
    """Return the buffer that a memref is a view of."""
    while view := mlir.defining_op(memref, *VIEWS):
        memref = view.operands[0]
    return memref
