"""Loop nests under construction, and the elements that are computed in them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import AnyFloat, TensorType, f16, f32, f64, i8
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from xdsl_quant.machines.arith import Condition, FloatExpression, IntegerExpression

from ..builder import INDEX, PARALLEL, REDUCTION, LoweringBuilder, shape_of

Scalar: TypeAlias = "IntegerExpression | FloatExpression | Condition | np.generic"
"""Element of an array: an expression or a constant."""

Indices: TypeAlias = tuple[AffineExpr, ...]
"""Indices of an element, as affine expressions of the loop indices."""

DType: TypeAlias = np.dtype[Any]

FLOAT_TYPES: Mapping[DType, AnyFloat] = {
    np.dtype(np.float16): f16,
    np.dtype(np.float32): f32,
    np.dtype(np.float64): f64,
}


# Elements


def as_dtype(value: Scalar, dtype: DType) -> Scalar:
    """Convert a number to another dtype; integers out of range wrap around."""
    if not isinstance(value, IntegerExpression | FloatExpression | Condition):
        return cast(np.generic, np.asarray(value).astype(dtype)[()])
    if dtype == np.bool_:
        return value if isinstance(value, Condition) else cast(Condition, value != 0)
    if dtype.kind == "f":
        return value.as_float(FLOAT_TYPES[dtype])
    if isinstance(value, Condition):
        return value.number
    if isinstance(value, FloatExpression):
        value = value.as_integer()
    bits = 8 * dtype.itemsize
    if bits == 64:
        return value
    return value & ((1 << bits) - 1) if dtype.kind == "u" else value.wrapped(bits)


# Loops


class Loops:
    """Loop nest whose body is under construction."""

    def __init__(self, builder: LoweringBuilder):
        self.outer = builder
        self.block = Block()
        self.builder = builder.at_end(self.block)
        self._loads: dict[tuple[SSAValue, Indices], SSAValue] = {}
        self._indices: dict[AffineExpr, SSAValue] = {}
        # Keys are `id`s: expressions live as long as the loops that they build.
        self.memory: dict[tuple[int, Indices], Scalar] = {}
        """Cache of the elements built so far, by `id` of the array and indices."""

    def load(self, value: SSAValue, indices: Indices) -> SSAValue:
        """Return the body's argument for the element of a tensor at affine indices."""
        key = value, indices
        if (argument := self._loads.get(key)) is None:
            type_ = cast(TensorType, value.type).element_type
            argument = self.block.insert_arg(type_, len(self.block.args))
            argument.name_hint = "in"
            self._loads[key] = argument
        return argument

    def index(self, formula: AffineExpr) -> SSAValue:
        """Build the `index` value of an affine expression of the loop indices."""
        if (cached := self._indices.get(formula)) is None:
            cached = self._indices[formula] = self._index(formula)
        return cached

    def _index(self, formula: AffineExpr) -> SSAValue:
        builder = self.builder
        match formula:
            case AffineConstantExpr():
                return builder.index(formula.value)
            case AffineDimExpr():
                return builder.add(linalg.ops.IndexOp(formula.position))
            case _:
                assert isinstance(formula, AffineBinaryOpExpr)
                is_sum = formula.kind is AffineBinaryOpKind.Add
                op_type = arith.AddiOp if is_sum else arith.MuliOp
                operands = self.index(formula.lhs), self.index(formula.rhs)
                return builder.op(op_type, operands, INDEX)

    def nest(
        self,
        sizes: Sequence[int],
        outputs: Sequence[SSAValue],
        parallel: Sequence[int],
        body: Callable[[Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """
        Build the loop nest, and return its results.

        Args:
            sizes: the trip count of each loop.
            outputs: the initial values of the results.
            parallel: the loop over each dimension of the results. Other loops reduce.
            body: builds the new elements of the results from the current ones.
        """
        indices = [indices for _, indices in self._loads]
        results = loops_of(parallel)
        seen = {formula for formulas in (*indices, results) for formula in formulas}
        inputs = [self._part(value, formulas, sizes) for value, formulas in self._loads]
        unseen = [d for d in range(len(sizes)) if AffineDimExpr(d) not in seen]
        if unseen:
            # No operand defines the sizes of these loops: add a tensor that is not read.
            shape = [sizes[d] for d in unseen]
            inputs.append(self.outer.empty(TensorType(i8, shape), shape))
            indices.append(loops_of(unseen))
            self.block.insert_arg(i8, len(self.block.args)).name_hint = "in"
        accumulators: list[SSAValue] = []
        for output in outputs:
            type_ = cast(TensorType, output.type).element_type
            argument = self.block.insert_arg(type_, len(self.block.args))
            argument.name_hint = "out"
            accumulators.append(argument)
        rank = len(sizes)
        return self.outer.loop_nest(
            self.block,
            body(accumulators),
            inputs,
            outputs,
            [AffineMap(rank, 0, i) for i in (*indices, *[results] * len(outputs))],
            [PARALLEL if d in parallel else REDUCTION for d in range(rank)],
        )

    def _part(
        self, value: SSAValue, formulas: Indices, sizes: Sequence[int]
    ) -> SSAValue:
        """Return the slice of a tensor that loops of these sizes read."""
        shape = shape_of(value)
        part = [
            sizes[formula.position] if isinstance(formula, AffineDimExpr) else size
            for formula, size in zip(formulas, shape, strict=True)
        ]
        if [*shape] == part:
            return value
        rank = len(shape)
        return self.outer.extract_slice(value, [0] * rank, part, [1] * rank)


def loops_of(positions: Sequence[int]) -> Indices:
    """Return the indices of the loops at these positions."""
    return tuple(map(AffineDimExpr, positions))
