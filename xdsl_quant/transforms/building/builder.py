"""
The builder of all lowerings: ops on scalars and on tensors, sizes, and loop nests.

A [`LoweringBuilder`][xdsl_quant.transforms.building.builder.LoweringBuilder] is one of
xDSL's builders whose ops all have one location. What it builds on numbers is written once
for scalars and for whole tensors:
[`TensorwiseBuilder`][xdsl_quant.transforms.building.builder.TensorwiseBuilder] makes the
same ops on tensors of one shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TypeAlias, cast

from xdsl.builder import Builder
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    PackableType,
    TensorType,
    i32,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from xdsl_quant.dialects.quant.types import scalar_or_element_type

INDEX = IndexType()
PARALLEL = IteratorTypeAttr.parallel()
REDUCTION = IteratorTypeAttr.reduction()

Values: TypeAlias = Sequence[SSAValue]

Size: TypeAlias = int | SSAValue
"""A size or index, or the value that is known at run time."""


@lru_cache(maxsize=1024)
def ranked_type(
    element_type: Attribute, shape: ArrayAttr[IntAttr], encoding: Attribute
) -> TensorType:
    """Return the tensor type of a shape and encoding, made once."""
    return TensorType(element_type, shape, encoding)


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """
    Return the sizes of a ranked tensor, `DYNAMIC_INDEX` for one that is not known.
    """
    return cast(TensorType, value.type).get_shape()


def element_type_of(value: SSAValue) -> Attribute:
    """Return the type of the elements of a ranked tensor."""
    return cast(TensorType, value.type).element_type


def static_sizes(sizes: Iterable[Size]) -> list[int]:
    """Sizes as a tensor type has them."""
    return [size if isinstance(size, int) else DYNAMIC_INDEX for size in sizes]


def dimensions(positions: Iterable[int]) -> list[AffineExpr]:
    """Return the expressions for these loops."""
    return [AffineDimExpr(position) for position in positions]


@cache
def _index_attr(value: int) -> IntegerAttr:
    return IntegerAttr(value, INDEX)


@cache
def integer_attr(value: int, width: int) -> IntegerAttr[IntegerType]:
    """Return the signless number with the same bits."""
    half = 1 << (width - 1)
    return IntegerAttr((value + half) % (2 * half) - half, width)


@lru_cache(maxsize=1024)
def _loop_properties(
    maps: tuple[AffineMap, ...],
    kinds: tuple[IteratorTypeAttr, ...],
    segment_sizes: tuple[int, int],
) -> Mapping[str, Attribute]:
    return {
        "indexing_maps": ArrayAttr(map(AffineMapAttr, maps)),
        "iterator_types": ArrayAttr(kinds),
        "operandSegmentSizes": DenseArrayBase.from_list(i32, segment_sizes),
    }


@dataclass(eq=False)
class LoweringBuilder(Builder):
    """Builds ops on scalars and on ranked tensors. All of them have one location."""

    location: LocationAttr = field(kw_only=True)

    @classmethod
    def before(cls, op: Operation) -> LoweringBuilder:
        """Return a builder of what takes the place of an op."""
        return LoweringBuilder(InsertPoint.before(op), location=op.location)

    def at_end(self, block: Block) -> LoweringBuilder:
        """Return a builder of the last ops of a block, with the same location."""
        return LoweringBuilder(InsertPoint.at_end(block), location=self.location)

    # Ops

    def op(
        self,
        op_type: type[Operation],
        operands: Values,
        result_type: Attribute,
        properties: Mapping[str, Attribute] = {},
    ) -> SSAValue:
        """Build an op with one result from its parts."""
        # `create` takes a third of the time of a constructor.
        op = op_type.create(
            operands=operands,
            result_types=(result_type,),
            properties=properties,
            location=self.location,
        )
        return self._inserted(op)

    def add(self, op: Operation) -> SSAValue:
        """Insert an op and return its first result."""
        op.location = self.location
        return self._inserted(op)

    def same_op(
        self,
        op: Operation,
        operands: Values,
        result_types: Sequence[Attribute],
        regions: Sequence[Region] = (),
    ) -> Values:
        """Build an op that is like another one but for its operands and results."""
        new_op = type(op).create(
            operands=operands,
            result_types=result_types,
            properties=op.properties,
            attributes=op.attributes,
            regions=regions,
            location=self.location,
        )
        return self.insert(new_op).results

    def _inserted(self, op: Operation) -> SSAValue:
        if self.name_hint is not None or self.operation_insertion_handler:
            self.insert(op)
            return op.results[0]
        # Without names and listeners this is all that `insert` does, in half the time.
        block, before = self.insertion_point.block, self.insertion_point.insert_before
        if before is None:
            block.add_op(op)
        else:
            block.insert_ops_before((op,), before)
        return op.results[0]

    # Constants

    def constant(self, value: Attribute, type_: Attribute) -> SSAValue:
        """Return a constant."""
        return self.op(arith.ConstantOp, (), type_, {"value": value})

    def constants(
        self, values: Mapping[str, DenseIntOrFPElementsAttr]
    ) -> Mapping[str, SSAValue]:
        """Constants with the same names."""
        return {name: self.constant(v, v.type) for name, v in values.items()}

    def index(self, value: int) -> SSAValue:
        """Return an index constant."""
        return self.constant(_index_attr(value), INDEX)

    def number(self, value: float, type_: Attribute) -> SSAValue:
        """
        Return a scalar of a signless type; an integer is the one with the same bits.
        """
        if isinstance(type_, AnyFloat):
            return self.constant(FloatAttr(float(value), type_), type_)
        width = cast(IntegerType, type_).bitwidth
        return self.constant(integer_attr(int(value), width), type_)

    def zero(self, element_type: Attribute) -> SSAValue:
        """Return the tensor of rank 0 with a zero."""
        type_ = TensorType(element_type, ())
        data = cast("PackableType[int]", element_type).pack([0])
        value = DenseIntOrFPElementsAttr(
            cast("TensorType[IntegerType | AnyFloat]", type_), BytesAttr(data)
        )
        return self.constant(value, type_)

    # Numbers: what differs if they are whole tensors

    def type(self, element_type: Attribute) -> Attribute:
        """Return the type of numbers of this element type."""
        return element_type

    def lift(self, scalar: SSAValue) -> SSAValue:
        """Return a scalar as an operand of elementwise ops."""
        return scalar

    def elementwise(
        self, op_type: type[Operation], operands: Values, element_type: Attribute
    ) -> SSAValue:
        """Return an op on numbers."""
        return self.op(op_type, operands, self.type(element_type))

    def on_tensors(
        self, container: TensorType, dynamic_sizes: Values
    ) -> TensorwiseBuilder:
        """Return a builder at the same place of ops on whole tensors of one shape."""
        return TensorwiseBuilder(
            self.insertion_point,
            location=self.location,
            container=container,
            dynamic_sizes=dynamic_sizes,
        )

    # Sizes

    def size(self, value: SSAValue, dimension: int) -> Size:
        """Return the size of a tensor in one dimension."""
        if (size := shape_of(value)[dimension]) != DYNAMIC_INDEX:
            return size
        return self.op(tensor.DimOp, (value, self.index(dimension)), INDEX)

    def sizes(self, value: SSAValue) -> list[Size]:
        """Return the sizes of a tensor."""
        return [self.size(value, d) for d in range(len(shape_of(value)))]

    def size_value(self, size: Size) -> SSAValue:
        """Return a size as a value."""
        return self.index(size) if isinstance(size, int) else size

    def _calculated(
        self,
        op_type: type[arith.AddiOp | arith.MuliOp | arith.FloorDivSIOp],
        calculate: Callable[[int, int], int],
        lhs: Size,
        rhs: Size,
        neutral: int,
    ) -> Size:
        if isinstance(lhs, int) and isinstance(rhs, int):
            return calculate(lhs, rhs)
        if rhs == neutral:
            return lhs
        return self.add(op_type(self.size_value(lhs), self.size_value(rhs)))

    def plus(self, lhs: Size, rhs: Size) -> Size:
        """Return the sum of sizes."""
        return self._calculated(arith.AddiOp, int.__add__, lhs, rhs, 0)

    def times(self, lhs: Size, factor: int) -> Size:
        """Return the product of a size and a number."""
        return self._calculated(arith.MuliOp, int.__mul__, lhs, factor, 1)

    def floor_divided(self, lhs: Size, divisor: int) -> Size:
        """Return the quotient of a size and a number, rounded down."""
        return self._calculated(arith.FloorDivSIOp, int.__floordiv__, lhs, divisor, 1)

    def at_least_zero(self, size: Size) -> Size:
        """Zero for a negative size."""
        if isinstance(size, int):
            return max(size, 0)
        return self.add(arith.MaxSIOp(size, self.index(0)))

    # Tensors

    def empty(self, type_: TensorType, sizes: Sequence[Size]) -> SSAValue:
        """
        Return a tensor with any elements; `sizes` tell those that the type does not.
        """
        dynamic = [
            self.size_value(size)
            for size, static in zip(sizes, type_.get_shape(), strict=True)
            if static == DYNAMIC_INDEX
        ]
        return self.op(tensor.EmptyOp, dynamic, type_)

    def filled(
        self,
        type_: TensorType,
        sizes: Sequence[Size],
        value: SSAValue,
        body: Body | None = None,
    ) -> SSAValue:
        """Return a tensor of equal elements, made from a tensor of rank 0."""
        return self.rearranged(value, type_, sizes, (), body)

    def zeros(self, type_: TensorType, sizes: Sequence[Size]) -> SSAValue:
        """Return a tensor of zeros."""
        return self.repeated(0, type_, sizes)

    def repeated(
        self, value: float, type_: TensorType, sizes: Sequence[Size]
    ) -> SSAValue:
        """Return a tensor of one number."""
        element_type = type_.element_type
        return self.map((), type_, sizes, lambda b, _: b.number(value, element_type))

    def generic(
        self,
        inputs: Values,
        outputs: Values,
        maps: Sequence[AffineMap],
        kinds: Sequence[IteratorTypeAttr],
        body: Body,
        names: Sequence[str] | None = None,
    ) -> SSAValue:
        """
        Return a loop nest with one result.

        Args:
            inputs: the tensors that are read.
            outputs: one tensor, of the type of the result: what each element is before.
            maps: for each of these the indices of an element, in terms of the loops.
            kinds: which loops are parallel and which reduce.
            body: builds what an element of the result becomes, given an element of each
                input and of the output.
            names: hints for the names of the arguments of the body.
        """
        (result,) = self.generics(
            inputs, outputs, maps, kinds, lambda b, args: [body(b, args)], names
        )
        return result

    def generics(
        self,
        inputs: Values,
        outputs: Values,
        maps: Sequence[AffineMap],
        kinds: Sequence[IteratorTypeAttr],
        body: Callable[[LoweringBuilder, Values], Values],
        names: Sequence[str] | None = None,
    ) -> Values:
        """Return a loop nest with a result for each output: see `generic`."""
        operands = (*inputs, *outputs)
        names = names or (*["in"] * len(inputs), *["out"] * len(outputs))
        block = Block(arg_types=[scalar_or_element_type(o.type) for o in operands])
        for argument, name in zip(block.args, names, strict=True):
            argument.name_hint = name
        inner = self.at_end(block)
        results = body(inner, block.args)
        return self.loop_nest(block, results, inputs, outputs, maps, kinds)

    def loop_nest(
        self,
        block: Block,
        results: Values,
        inputs: Values,
        outputs: Values,
        maps: Sequence[AffineMap],
        kinds: Sequence[IteratorTypeAttr],
    ) -> Values:
        """
        Return a loop nest whose body is built: see `generic`.

        Args:
            block: the body without its terminator, with an argument for each operand.
            results: what the elements of the results become, in terms of the block.
            inputs: the tensors that are read.
            outputs: what the results are before.
            maps: the indices of an element of each operand.
            kinds: which loops are parallel and which reduce.
        """
        end = linalg.ops.YieldOp.create(operands=results, location=self.location)
        block.add_op(end)
        so_far = block.args[len(inputs) :]
        if REDUCTION not in kinds and any(arg.first_use for arg in so_far):
            # What MLIR fuses with a broadcast must not read what it writes to.
            maps = (*maps, *maps[len(inputs) :])
            inputs = (*inputs, *outputs)
            outputs = self._written_instead(block, so_far, outputs)
        op = linalg.ops.GenericOp.create(
            operands=(*inputs, *outputs),
            result_types=[output.type for output in outputs],
            properties=_loop_properties(
                (*maps,), (*kinds,), (len(inputs), len(outputs))
            ),
            regions=(Region(block),),
            location=self.location,
        )
        self._inserted(op)
        return op.results

    def _written_instead(
        self, block: Block, arguments: Sequence[BlockArgument], outputs: Values
    ) -> Values:
        """Make the arguments of outputs those of inputs, and return other outputs."""
        for argument in arguments:
            argument.name_hint = "in"
            new = block.insert_arg(argument.type, len(block.args))
            new.name_hint = "out"
        return [
            self.empty(cast(TensorType, output.type), self.sizes(output))
            for output in outputs
        ]

    def map(
        self,
        inputs: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
        type_: TensorType,
        sizes: Sequence[Size],
        body: Body,
        names: Sequence[str] | None = None,
    ) -> SSAValue:
        """
        Return a tensor of which each element is computed from others.

        Args:
            inputs: the tensors that are read, each with the indices of what is read, in
                terms of the indices of the element.
            type_: the type of the result.
            sizes: the sizes of the result.
            body: builds the element; the last argument is not to be used.
            names: hints for the names of the arguments of the body.
        """
        rank = len(type_.get_shape())
        return self.generic(
            [value for value, _ in inputs],
            [self.empty(type_, sizes)],
            [
                *(AffineMap(rank, 0, tuple(indices)) for _, indices in inputs),
                AffineMap.identity(rank),
            ],
            [PARALLEL] * rank,
            body,
            names,
        )

    def rearranged(
        self,
        value: SSAValue,
        type_: TensorType,
        sizes: Sequence[Size],
        source: Sequence[AffineExpr],
        body: Body | None = None,
    ) -> SSAValue:
        """
        Return the tensor with, at each place, the element that `source` says where it
        is.
        """
        body = body or (lambda _, args: args[0])
        return self.map([(value, source)], type_, sizes, body)

    def transposed(self, value: SSAValue, permutation: Sequence[int]) -> SSAValue:
        """
        Return the tensor with its dimensions in another order.

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

    # Parts of tensors

    def part(
        self,
        value: SSAValue,
        offsets: Sequence[Size],
        sizes: Sequence[Size],
        strides: Sequence[int],
    ) -> SSAValue:
        """Return a slice of a tensor."""
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
        """Return a tensor of which a slice is replaced."""
        dynamic = [size for size in sizes if not isinstance(size, int)]
        return self.add(
            tensor.InsertSliceOp.get(
                part, into, static_sizes(sizes), offsets, strides, sizes=dynamic
            )
        )

    # Shapes

    def cast(self, value: SSAValue, type_: Attribute) -> SSAValue:
        """Return the tensor as one of a type that says more or less of its sizes."""
        if value.type == type_:
            return value
        return self.add(tensor.CastOp(value, cast(TensorType, type_)))

    def split_dimensions(
        self, value: SSAValue, block_sizes: Mapping[int, int]
    ) -> SSAValue:
        """
        Return a tensor with two dimensions in place of each one that consists of
        blocks: one for blocks, and one for the elements of a block.
        """
        if not block_sizes:
            return value
        sizes: list[Size] = []
        groups: list[list[int]] = []
        for axis, size in enumerate(self.sizes(value)):
            parts = [size]
            if (block_size := block_sizes.get(axis)) is not None:
                parts = [self.floor_divided(size, block_size), block_size]
            groups.append([*range(len(sizes), len(sizes) + len(parts))])
            sizes += parts
        type_ = TensorType(element_type_of(value), static_sizes(sizes))
        reassociation = ArrayAttr(
            ArrayAttr(IntegerAttr(i, i64) for i in group) for group in groups
        )
        dynamic = [size for size in sizes if not isinstance(size, int)]
        return self.add(
            tensor.ExpandShapeOp(
                value, dynamic, reassociation, type_.get_shape(), type_
            )
        )

    def reshaped(
        self, value: SSAValue, type_: TensorType, sizes: Sequence[Size]
    ) -> SSAValue:
        """Return the elements in the same order as a tensor of another shape."""
        if value.type == type_:
            return value
        shape_type = TensorType(INDEX, [len(sizes)])
        if all(isinstance(size, int) for size in sizes):
            attribute = DenseIntOrFPElementsAttr.from_list(
                shape_type, cast(Sequence[int], sizes)
            )
            shape = self.constant(attribute, shape_type)
        else:
            shape = self.op(
                tensor.FromElementsOp, [*map(self.size_value, sizes)], shape_type
            )
        return self.op(tensor.ReshapeOp, (value, shape), type_)


Body: TypeAlias = Callable[[LoweringBuilder, Values], SSAValue]
"""Builds the scalar that a loop computes from the scalars of its operands."""


@dataclass(eq=False)
class TensorwiseBuilder(LoweringBuilder):
    """Builds ops on numbers as ops on whole ranked tensors of one shape."""

    container: TensorType = field(kw_only=True)
    """A tensor type with the shape and encoding of the operands."""

    dynamic_sizes: Values = field(kw_only=True)

    _types: dict[Attribute, TensorType] = field(
        default_factory=dict[Attribute, TensorType], init=False
    )

    def type(self, element_type: Attribute) -> Attribute:
        # All ops are on one shape: looking it up by its element type alone is cheap.
        if (known := self._types.get(element_type)) is None:
            container = self.container
            known = ranked_type(element_type, container.shape, container.encoding)
            self._types[element_type] = known
        return known

    def lift(self, scalar: SSAValue) -> SSAValue:
        return self.op(
            tensor.SplatOp, (scalar, *self.dynamic_sizes), self.type(scalar.type)
        )
