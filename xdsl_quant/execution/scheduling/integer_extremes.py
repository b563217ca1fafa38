"""
Extremes of floats by comparisons of integers.

The maximum of floats that keeps NaN and orders zeros takes seven instructions. Here a
reduction converts each float to an integer of the same order, in three instructions, and
compares integers, in one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .. import mlir_bindings as mlir
from ..building import mixed_sizes
from ..mlir_bindings import FieldValue, Values, arith, ir, linalg, tensor
from .generic_ops import build_generic, clone_with

_INTEGER_OPS = {"arith.maximumf": arith.maxsi, "arith.minimumf": arith.minsi}


def compare_integers(module: ir.Module) -> None:
    """Reduce f32 and f64 values to their largest or smallest value as integers."""
    for op in mlir.ops_in(module):
        is_structured = op.name.startswith("linalg.") and len(op.regions) == 1
        if is_structured and (extreme := _Extreme.of(op)) is not None:
            with ir.InsertionPoint(op), op.location:
                mlir.replace_op(op, extreme.of_integers())


def _maps_of(op: ir.Operation) -> list[ir.AffineMap]:
    return [attribute.value for attribute in linalg.get_indexing_maps(op)]


class _Extreme(NamedTuple):
    """Reduction of floats to an extreme."""

    op: ir.Operation
    combiner: ir.Operation
    term: FieldValue

    @classmethod
    def of(cls, op: ir.Operation) -> _Extreme | None:
        """Return a `linalg` op on tensors as a reduction to an extreme, or `None`."""
        block = mlir.body_of(op)
        if len(op.results) != 1 or _maps_of(op)[-1].is_permutation:
            return None
        (yielded,), so_far = mlir.yielded_values(block), [*block.arguments][-1]
        combiner = mlir.defining_op(yielded, *_INTEGER_OPS)
        if combiner is None or not isinstance(yielded.type, ir.F32Type | ir.F64Type):
            return None
        terms = [value for value in combiner.operands if value != so_far]
        if len(terms) != 1 or len(mlir.users_of(so_far)) != 1:
            return None
        if any(len(inner.regions) for inner in mlir.operations_of(block)):
            return None
        return cls(op, combiner, terms[0])

    def of_integers(self) -> ir.Value:
        """Build the reduction of integers, and return its result as floats."""
        *inputs, start = self.op.operands
        maps = _maps_of(self.op)
        kept = mlir.dimensions_of(maps[-1])
        loops = range(maps[-1].n_dims)
        (total,) = build_generic(
            inputs,
            [self._converted(start, self._integer, self._integer_type)],
            maps,
            ["parallel" if loop in kept else "reduction" for loop in loops],
            self._body,
        )
        return self._converted(total, self._float, mlir.element(start))

    @property
    def _integer_type(self) -> ir.Type:
        return ir.IntegerType.get_signless(mlir.bits(self.term.type))

    @staticmethod
    def _converted(
        value: ir.Value, convert: Callable[[ir.Value], ir.Value], type_: ir.Type
    ) -> ir.Value:
        """Convert the elements of a tensor."""
        rank = mlir.shaped_type(value).rank
        (result,) = build_generic(
            [value],
            [tensor.empty(mixed_sizes(value), type_)],
            [ir.AffineMap.get_identity(rank)] * 2,
            ["parallel"] * rank,
            lambda arguments: [convert(arguments[0])],
        )
        return result

    def _body(self, arguments: Values) -> Values:
        body = mlir.body_of(self.op)
        known: dict[ir.Value, ir.Value] = dict(
            zip(body.arguments, arguments, strict=True)
        )
        *ops, _ = mlir.operations_of(body)
        for op in ops:
            if op != self.combiner:
                clone_with(op, known)
        integer = self._integer(known.get(self.term, self.term))
        return [_INTEGER_OPS[self.combiner.name](arguments[-1], integer)]

    # Conversions

    def _integer(self, value: ir.Value) -> ir.Value:
        """Return an integer of the same order; NaN wins each comparison."""
        bits = arith.bitcast(self._integer_type, value)
        return arith.addi(self._in_order(bits), self._constant(-self._nan_count))

    def _float(self, integer: ir.Value) -> ir.Value:
        bits = arith.addi(integer, self._constant(self._nan_count))
        return arith.bitcast(self.term.type, self._in_order(bits))

    def _in_order(self, bits: ir.Value) -> ir.Value:
        """Reverse the order of negative numbers, whose bits have a sign and a size."""
        width = mlir.bits(self.term.type)
        is_negative = arith.shrsi(bits, self._constant(width - 1))
        size = arith.andi(is_negative, self._constant((1 << (width - 1)) - 1))
        return arith.xori(bits, size)

    @property
    def _nan_count(self) -> int:
        """
        Number of NaN of each sign, negated for minima. Subtracting it moves negative NaN
        from below all numbers to above; adding it moves positive NaN to below.
        """
        mantissa = 23 if isinstance(self.term.type, ir.F32Type) else 52
        count = (1 << mantissa) - 1
        return count if self.combiner.name == "arith.maximumf" else -count

    def _constant(self, number: int) -> ir.Value:
        return arith.constant(self._integer_type, number)
