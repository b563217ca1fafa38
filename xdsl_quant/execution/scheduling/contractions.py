"""Recognition of contractions (sums of products) among `linalg` ops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .. import mlir_bindings as mlir
from ..building import indexing_maps, loops_in, mixed_sizes, reshape_tensor
from ..mlir_bindings import FieldValue, Values, arith, ir, linalg, tensor
from .generic_ops import build_generic


class Factor(NamedTuple):
    value: FieldValue
    """Tensor or memref of the factor."""

    indices: Sequence[ir.AffineExpr]
    """Indices of the element, as affine expressions of the loops."""

    conversion: ir.Operation | None
    """Op that extends elements to the type of the product, or `None`."""

    zero_point: int = 0
    """Zero point subtracted from the extended elements."""

    @property
    def is_unsigned(self) -> bool:
        """True if the conversion is `arith.extui`."""
        return self.conversion is not None and self.conversion.name == "arith.extui"

    def convert(self, element: ir.Value, type_: ir.Type) -> ir.Value:
        """Return the converted, zero-point-corrected element."""
        value = (
            clone_with_operands(self.conversion, type_, element)
            if self.conversion
            else element
        )
        if not self.zero_point:
            return value
        return arith.subi(value, arith.constant(type_, self.zero_point))

    @property
    def element_type(self) -> ir.Type:
        return mlir.element(self.value)

    @property
    def loops(self) -> set[int]:
        """Loops that the element index depends on."""
        return loops_in(*self.indices)

    @property
    def is_computed(self) -> bool:
        """True if MLIR may fuse the ops that compute the tensor."""
        if not isinstance(self.value, ir.OpResult):
            return False
        name = self.value.owner.name
        fused = ("arith.", "linalg.generic", "math.")
        return name.startswith(fused) and name != "arith.constant"

    def as_numbers(self, type_: ir.Type) -> Factor:
        """Convert the elements of the tensor to a type, and return the new factor."""
        if self.element_type == type_:
            return self
        rank = mlir.shaped_type(self.value).rank
        (value,) = build_generic(
            [self.value],
            [tensor.empty(mixed_sizes(self.value), type_)],
            [ir.AffineMap.get_identity(rank)] * 2,
            ["parallel"] * rank,
            lambda arguments: [self.convert(arguments[0], type_)],
        )
        return self._replace(value=value, conversion=None, zero_point=0)

    def prevent_fusion(self) -> Factor:
        """Return the reshaped factor; the reshape prevents fusion of its producer."""
        zero = ir.AffineExpr.get_constant(0)
        value = reshape_tensor(self.value, [1, *mixed_sizes(self.value)])
        return self._replace(value=value, indices=[zero, *self.indices])


@dataclass(frozen=True)
class Contraction:
    """Sum of products as one op, on tensors or memrefs."""

    op: ir.Operation

    loop_count: int
    lhs: Factor
    rhs: Factor

    result: Sequence[int]
    """Loop number of each result dimension."""

    product: ir.Operation
    """Op that multiplies."""

    total: ir.Operation
    """Op that accumulates."""

    @property
    def shape(self) -> Sequence[int]:
        return mlir.shape(self.op.operands[2])

    def size(self, loop: int) -> int:
        """Return the trip count of a result loop; negative if dynamic."""
        return self.shape[self.result.index(loop)]

    @property
    def sizes(self) -> dict[int, int]:
        """Trip counts of all loops that index an operand directly."""
        sizes: dict[int, int] = {}
        for factor in (self.lhs, self.rhs):
            shape = mlir.shape(factor.value)
            for index, size in zip(factor.indices, shape, strict=True):
                if isinstance(index, ir.AffineDimExpr):
                    sizes[index.position] = size
        return sizes | dict(zip(self.result, self.shape, strict=True))

    @property
    def sum_type(self) -> ir.Type:
        return mlir.element(self.op.operands[2])

    def body(self, lhs: Factor, rhs: Factor) -> Callable[[Values], Values]:
        """Return a `linalg.generic` body that sums products of `lhs` and `rhs`."""

        def added(arguments: Values) -> Values:
            left, right, so_far = arguments
            type_ = self.sum_type
            factors = lhs.convert(left, type_), rhs.convert(right, type_)
            term = clone_with_operands(self.product, type_, *factors)
            return [clone_with_operands(self.total, type_, so_far, term)]

        return added

    def reuse(self, factor: Factor) -> int:
        """Return the number of uses of each factor element; large if dynamic."""
        loops = factor.loops
        return math.prod(
            abs(self.size(loop)) for loop in self.result if loop not in loops
        )


def contraction_of(op: ir.Operation) -> Contraction | None:
    """
    Return a `linalg` op as a contraction; `None` if the op does not accumulate products
    of two factors, which may be extended and zero-point-corrected.
    """
    if not op.name.startswith("linalg.") or len(op.regions) != 1:
        return None
    if "operandSegmentSizes" not in op.attributes or not all(
        map(_is_plain_value, op.operands)
    ):
        return None
    if [*mlir.attribute_of(op, "operandSegmentSizes", ir.DenseI32ArrayAttr)] != [2, 1]:
        return None
    *maps, result = (m.value for m in linalg.get_indexing_maps(op))
    block = mlir.body_of(op)
    *arguments, so_far = block.arguments
    (yielded,) = mlir.yielded_values(block)
    total = mlir.defining_op(yielded, "arith.addf", "arith.addi")
    if total is None:
        return None
    terms = [value for value in total.operands if value != so_far]
    product = (
        mlir.defining_op(terms[0], "arith.mulf", "arith.muli")
        if len(terms) == 1
        else None
    )
    if product is None or not result.is_projected_permutation:
        return None
    conversions = dict(map(_converted_from, product.operands))
    loops = mlir.dimensions_of(result)
    if {*conversions} != {*arguments} or len(loops) == result.n_dims:
        return None
    lhs, rhs = (
        Factor(value, [*map_.results], *conversions[argument])
        for value, map_, argument in zip(op.operands, maps, arguments, strict=False)
    )
    return Contraction(op, result.n_dims, lhs, rhs, loops, product, total)


def _is_plain_value(value: ir.Value) -> bool:
    type_ = value.type
    is_tensor = isinstance(type_, ir.RankedTensorType) and type_.encoding is None
    return is_tensor or isinstance(type_, ir.MemRefType)


def _converted_from(
    value: ir.Value,
) -> tuple[ir.Value, tuple[ir.Operation | None, int]]:
    """Return the value before conversion, the conversion op and the zero point."""
    zero_point = 0
    if (
        (difference := mlir.defining_op(value, "arith.subi"))
        and isinstance(value.type, ir.IntegerType)
        and (subtracted := mlir.integer_of(difference.operands[1])) is not None
    ):
        value, zero_point = difference.operands[0], subtracted
    conversion = mlir.defining_op(value, "arith.extf", "arith.extsi", "arith.extui")
    return (conversion.operands[0] if conversion else value), (conversion, zero_point)


def clone_with_operands(
    op: ir.Operation, type_: ir.Type, *operands: ir.Value
) -> ir.Value:
    """Clone an op with new operands and a new result type, and return its result."""
    copy = op.clone()
    for i, operand in enumerate(operands):
        copy.operands[i] = operand
    mlir.change_type(copy.results[0], type_)
    return copy.results[0]


def materialize_operand(op: ir.Operation, operand: int) -> None:
    """Make MLIR store a computed operand in memory before the loops of an op."""
    maps = indexing_maps(op)
    with ir.InsertionPoint(op), op.location:
        factor = Factor(
            op.operands[operand], maps[operand].results, None
        ).prevent_fusion()
    op.operands[operand] = factor.value
    maps[operand] = mlir.affine_map(maps[operand].n_dims, factor.indices)
    op.attributes["indexing_maps"] = mlir.array_attr(map(ir.AffineMapAttr.get, maps))
