"""Ops on tensors under construction: loop nests, sizes, and what moves elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AnyFloat,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerType,
    PackableType,
    TensorType,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from xdsl_quant.transforms.building.emission import INDEX

from .scalar_builder import ScalarBuilder

Size = int | SSAValue
"""A size or index, or the value that is known at run time."""

Body = Callable[[ScalarBuilder, Sequence[SSAValue]], SSAValue]
"""Makes the scalar that a loop computes from the scalars of its operands."""

PARALLEL = IteratorTypeAttr.parallel()
REDUCTION = IteratorTypeAttr.reduction()


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The sizes of a ranked tensor, `DYNAMIC_INDEX` for one that is not known."""
    return cast(TensorType, value.type).get_shape()


def element_type_of(value: SSAValue) -> Attribute:
    """The type of the elements of a ranked tensor."""
    return cast(TensorType, value.type).element_type


def static_sizes(sizes: Iterable[Size]) -> list[int]:
    """Sizes as a tensor type has them."""
    return [size if isinstance(size, int) else DYNAMIC_INDEX for size in sizes]


def dimensions(positions: Iterable[int]) -> list[AffineExpr]:
    """The expressions for these loops."""
    return [AffineDimExpr(position) for position in positions]


def _first(code: ScalarBuilder, args: Sequence[SSAValue]) -> SSAValue:
    return args[0]


class TensorBuilder(ScalarBuilder):
    """Ops under construction, on tensors."""

    # Sizes

    def size(self, value: SSAValue, dimension: int) -> Size:
        """The size of a tensor in one dimension."""
        if (size := shape_of(value)[dimension]) != DYNAMIC_INDEX:
            return size
        return self.add(tensor.DimOp(value, self.index(dimension)))

    def sizes(self, value: SSAValue) -> list[Size]:
        """The sizes of a tensor."""
        return [
            self.size(value, dimension) for dimension in range(len(shape_of(value)))
        ]

    def _as_value(self, size: Size) -> SSAValue:
        return self.index(size) if isinstance(size, int) else size

    def _calculate(
        self,
        op_type: type[arith.AddiOp | arith.MuliOp | arith.FloorDivSIOp],
        lhs: Size,
        rhs: Size,
    ) -> SSAValue:
        return self.add(op_type(self._as_value(lhs), self._as_value(rhs)))

    def plus(self, lhs: Size, rhs: Size) -> Size:
        """The sum of sizes."""
        if isinstance(lhs, int) and isinstance(rhs, int):
            return lhs + rhs
        if rhs == 0:
            return lhs
        return self._calculate(arith.AddiOp, lhs, rhs)

    def times(self, lhs: Size, factor: int) -> Size:
        """The product of a size and a number."""
        if isinstance(lhs, int):
            return lhs * factor
        return lhs if factor == 1 else self._calculate(arith.MuliOp, lhs, factor)

    def floor_divided(self, lhs: Size, divisor: int) -> Size:
        """The quotient of a size and a number, rounded down."""
        if isinstance(lhs, int):
            return lhs // divisor
        if divisor == 1:
            return lhs
        return self._calculate(arith.FloorDivSIOp, lhs, divisor)

    def at_least_zero(self, size: Size) -> Size:
        """Zero for a negative size."""
        if isinstance(size, int):
            return max(size, 0)
        return self.add(arith.MaxSIOp(size, self.index(0)))

    # Tensors

    def empty(self, type_: TensorType, sizes: Sequence[Size]) -> SSAValue:
        """A tensor with any elements; `sizes` tell those that the type does not."""
        dynamic = [
            self._as_value(size)
            for size, static in zip(sizes, type_.get_shape(), strict=True)
            if static == DYNAMIC_INDEX
        ]
        return self.add(tensor.EmptyOp(dynamic, type_))

    def filled(
        self,
        type_: TensorType,
        sizes: Sequence[Size],
        value: SSAValue,
        body: Body = _first,
    ) -> SSAValue:
        """A tensor of equal elements, made from a tensor of rank 0."""
        return self.rearranged(value, type_, sizes, (), body)

    def zero(self, element_type: Attribute) -> SSAValue:
        """The tensor of rank 0 with a zero."""
        type_ = TensorType(element_type, ())
        data = cast("PackableType[int]", element_type).pack([0])
        value = DenseIntOrFPElementsAttr(
            cast("TensorType[IntegerType | AnyFloat]", type_), BytesAttr(data)
        )
        return self.constant(value, type_)

    def zeros(self, type_: TensorType, sizes: Sequence[Size]) -> SSAValue:
        """A tensor of zeros."""
        rank = len(sizes)
        return self.generic(
            [],
            [self.empty(type_, sizes)],
            [AffineMap.identity(rank)],
            [PARALLEL] * rank,
            lambda code, _: code.number(0, type_.element_type),
        )

    def generic(
        self,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        kinds: Sequence[IteratorTypeAttr],
        body: Body,
    ) -> SSAValue:
        """A loop nest with one result."""
        (result,) = self.generics(
            inputs, outputs, maps, kinds, lambda code, args: [body(code, args)]
        )
        return result

    def generics(
        self,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        kinds: Sequence[IteratorTypeAttr],
        body: Callable[[ScalarBuilder, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """A loop nest."""
        operands = (*inputs, *outputs)
        block = Block(arg_types=[element_type_of(operand) for operand in operands])
        for index, argument in enumerate(block.args):
            argument.name_hint = "in" if index < len(inputs) else "out"
        code = ScalarBuilder(self.location)
        results = body(code, block.args)
        end = linalg.ops.YieldOp(*results)
        end.location = self.location
        block.add_ops((*code.ops, end))
        so_far = block.args[len(inputs) :]
        if REDUCTION not in kinds and any(arg.first_use for arg in so_far):
            # What MLIR fuses with a broadcast must not read what it writes to.
            maps = (*maps, *maps[len(inputs) :])
            inputs = operands
            outputs = [self._empty_like(output) for output in outputs]
            for argument in so_far:
                argument.name_hint = "in"
                new = block.insert_arg(argument.type, len(block.args))
                new.name_hint = "out"
        op = linalg.ops.GenericOp(
            inputs,
            outputs,
            Region(block),
            [AffineMapAttr(map_) for map_ in maps],
            kinds,
            [output.type for output in outputs],
        )
        self.add(op)
        return op.results

    def _empty_like(self, value: SSAValue) -> SSAValue:
        return self.empty(cast(TensorType, value.type), self.sizes(value))

    def rearranged(
        self,
        value: SSAValue,
        type_: TensorType,
        sizes: Sequence[Size],
        source: Sequence[AffineExpr],
        body: Body = _first,
    ) -> SSAValue:
        """The tensor with, at each place, the element that `source` says where it is."""
        rank = len(sizes)
        maps = [AffineMap(rank, 0, tuple(source)), AffineMap.identity(rank)]
        return self.generic(
            [value], [self.empty(type_, sizes)], maps, [PARALLEL] * rank, body
        )

    def transposed(self, value: SSAValue, permutation: Sequence[int]) -> SSAValue:
        """
        The tensor with its dimensions in another order.

        It is no `linalg.generic`: fused with one that uses the elements many times, that
        would each time read what is far apart.
        """
        if [*permutation] == [*range(len(permutation))]:
            return value
        sizes = self.sizes(value)
        result_sizes = [sizes[dimension] for dimension in permutation]
        type_ = TensorType(element_type_of(value), static_sizes(result_sizes))
        return self.add(
            linalg.ops.TransposeOp(
                value,
                self.empty(type_, result_sizes),
                DenseArrayBase.from_list(i64, permutation),
            )
        )

    # Parts

    def part(
        self,
        value: SSAValue,
        offsets: Sequence[Size],
        sizes: Sequence[Size],
        strides: Sequence[int],
    ) -> SSAValue:
        """A slice of a tensor."""
        type_ = TensorType(element_type_of(value), static_sizes(sizes))
        return self.add(tensor.ExtractSliceOp(value, offsets, sizes, strides, type_))

    def inserted(
        self,
        part: SSAValue,
        into: SSAValue,
        offsets: Sequence[int],
        sizes: Sequence[Size],
        strides: Sequence[int],
    ) -> SSAValue:
        """A tensor of which a slice is replaced."""
        dynamic = [size for size in sizes if not isinstance(size, int)]
        return self.add(
            tensor.InsertSliceOp.build(
                operands=[part, into, [], dynamic, []],
                result_types=[into.type],
                properties={
                    "static_offsets": DenseArrayBase.from_list(i64, offsets),
                    "static_sizes": DenseArrayBase.from_list(i64, static_sizes(sizes)),
                    "static_strides": DenseArrayBase.from_list(i64, strides),
                },
            )
        )

    def cast(self, value: SSAValue, type_: Attribute) -> SSAValue:
        """The tensor as one of a type that says more or less of its sizes."""
        if value.type == type_:
            return value
        return self.add(tensor.CastOp(value, cast(TensorType, type_)))

    def reshaped(
        self, value: SSAValue, type_: TensorType, sizes: Sequence[Size]
    ) -> SSAValue:
        """The elements in the same order as a tensor of another shape."""
        if value.type == type_:
            return value
        if all(isinstance(size, int) for size in sizes):
            shape_type = TensorType(INDEX, [len(sizes)])
            attribute = DenseIntOrFPElementsAttr.from_list(
                shape_type, cast(Sequence[int], sizes)
            )
            shape = self.constant(attribute, shape_type)
        else:
            shape = self.add(tensor.FromElementsOp(*map(self._as_value, sizes)))
        return self.add(tensor.ReshapeOp(value, shape, type_))
