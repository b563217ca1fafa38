"""
Builder that all lowerings share. It builds ops on scalars and tensors, sizes of tensors,
and loop nests.

A [`LoweringBuilder`][xdsl_quant.transforms.building.builder.LoweringBuilder] is an xDSL
builder that gives all its ops the same location. Lowerings write elementwise arithmetic
once: [`TensorwiseBuilder`][xdsl_quant.transforms.building.builder.TensorwiseBuilder]
builds the same ops on whole tensors of one shape.
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
"""Static size or index, or the SSA value of a dynamic one."""


@lru_cache(maxsize=1024)
def ranked_type(
    element_type: Attribute, shape: ArrayAttr[IntAttr], encoding: Attribute
) -> TensorType:
    """Return the tensor type with this shape and encoding, cached."""
    return TensorType(element_type, shape, encoding)


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Return the shape of a ranked tensor, with `DYNAMIC_INDEX` for dynamic sizes."""
    return cast(TensorType, value.type).get_shape()


def element_type_of(value: SSAValue) -> Attribute:
    """Return the element type of a ranked tensor."""
    return cast(TensorType, value.type).element_type


def static_sizes(sizes: Iterable[Size]) -> list[int]:
    """Return the sizes as a shape, with `DYNAMIC_INDEX` for dynamic ones."""
    return [size if isinstance(size, int) else DYNAMIC_INDEX for size in sizes]


def dimensions(positions: Iterable[int]) -> list[AffineExpr]:
    """Return the affine dimension expressions at these positions."""
    return [AffineDimExpr(position) for position in positions]


@cache
def _index_attr(value: int) -> IntegerAttr:
    return IntegerAttr(value, INDEX)


@cache
def integer_attr(value: int, width: int) -> IntegerAttr[IntegerType]:
    """Return the signless integer attribute with the lowest `width` bits of a value."""
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
    """Builder of ops on scalars and ranked tensors that all have one location."""

    location: LocationAttr = field(kw_only=True)

    depth: int = field(default=0, kw_only=True)
    """Number of loops around the insertion point that `in_loop` has entered."""

    @classmethod
    def before(cls, op: Operation) -> LoweringBuilder:
        """Return a builder that inserts before an op, with the location of the op."""
        return LoweringBuilder(InsertPoint.before(op), location=op.location)

    def at_end(self, block: Block) -> LoweringBuilder:
        """Return a builder that appends to a block, with the same location."""
        return LoweringBuilder(
            InsertPoint.at_end(block), location=self.location, depth=self.depth
        )

    def in_loop(self, block: Block) -> LoweringBuilder:
        """Return a builder that appends to the body of a loop, one level deeper."""
        builder = self.at_end(block)
        builder.depth += 1
        return builder

    # Ops

    def op(
        self,
        op_type: type[Operation],
        operands: Values,
        result_type: Attribute,
        properties: Mapping[str, Attribute] = {},
    ) -> SSAValue:
        """Build an op with one result without running its constructor."""
        # `create` takes a third of the time of a constructor.
        op = op_type.create(
            operands=operands,
            result_types=(result_type,),
            properties=properties,
            location=self.location,
        )
        return self._insert_op(op)

    def add(self, op: Operation) -> SSAValue:
        """Insert an op and return its first result."""
        op.location = self.location
        return self._insert_op(op)

    def same_op(
        self,
        op: Operation,
        operands: Values,
        result_types: Sequence[Attribute],
        regions: Sequence[Region] = (),
    ) -> Values:
        """Build a copy of an op with new operands, result types and regions."""
        new_op = type(op).create(
            operands=operands,
            result_types=result_types,
            properties=op.properties,
            attributes=op.attributes,
            regions=regions,
            location=self.location,
        )
        return self.insert(new_op).results

    def _insert_op(self, op: Operation) -> SSAValue:
        if self.name_hint is not None or self.operation_insertion_handler:
            self.insert(op)
            return op.results[0]
        # As `insert`, but without name hints and listeners, in half the time.
        block, before = self.insertion_point.block, self.insertion_point.insert_before
        if before is None:
            block.add_op(op)
        else:
            block.insert_ops_before((op,), before)
        return op.results[0]

    # Constants

    def constant(self, value: Attribute, type_: Attribute) -> SSAValue:
        return self.op(arith.ConstantOp, (), type_, {"value": value})

    def constants(
        self, values: Mapping[str, DenseIntOrFPElementsAttr]
    ) -> Mapping[str, SSAValue]:
        """Build a constant for each attribute; return constants by the same names."""
        return {name: self.constant(v, v.type) for name, v in values.items()}

    def index(self, value: int) -> SSAValue:
        return self.constant(_index_attr(value), INDEX)

    def number(self, value: float, type_: Attribute) -> SSAValue:
        """Build a scalar constant of a signless type; integers out of range wrap around."""
        if isinstance(type_, AnyFloat):
            return self.constant(FloatAttr(float(value), type_), type_)
        width = cast(IntegerType, type_).bitwidth
        return self.constant(integer_attr(int(value), width), type_)

    def zero(self, element_type: Attribute) -> SSAValue:
        """Build a zero tensor of rank 0."""
        type_ = TensorType(element_type, ())
        data = cast("PackableType[int]", element_type).pack([0])
        value = DenseIntOrFPElementsAttr(
            cast("TensorType[IntegerType | AnyFloat]", type_), BytesAttr(data)
        )
        return self.constant(value, type_)

    # Elementwise arithmetic, which `TensorwiseBuilder` overrides

    def type(self, element_type: Attribute) -> Attribute:
        """Return the type of elementwise operands with this element type."""
        return element_type

    def lift(self, scalar: SSAValue) -> SSAValue:
        """Return a scalar as an operand of elementwise ops."""
        return scalar

    def elementwise(
        self, op_type: type[Operation], operands: Values, element_type: Attribute
    ) -> SSAValue:
        """Build an elementwise op."""
        return self.op(op_type, operands, self.type(element_type))

    def on_tensors(
        self, container: TensorType, dynamic_sizes: Values
    ) -> TensorwiseBuilder:
        """Return a builder of ops on tensors of one shape, at the same insertion point."""
        return TensorwiseBuilder(
            self.insertion_point,
            location=self.location,
            container=container,
            dynamic_sizes=dynamic_sizes,
        )

    # Sizes

    def size(self, value: SSAValue, dimension: int) -> Size:
        """Return the size of a dimension; build `tensor.dim` if it is dynamic."""
        if (size := shape_of(value)[dimension]) != DYNAMIC_INDEX:
            return size
        return self.op(tensor.DimOp, (value, self.index(dimension)), INDEX)

    def sizes(self, value: SSAValue) -> list[Size]:
        return [self.size(value, d) for d in range(len(shape_of(value)))]

    def size_value(self, size: Size) -> SSAValue:
        """Return a size as an SSA value of type `index`."""
        return self.index(size) if isinstance(size, int) else size

    def _size_op(
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
        return self._size_op(arith.AddiOp, int.__add__, lhs, rhs, 0)

    def times(self, lhs: Size, factor: Size) -> Size:
        """Return a size times a factor."""
        return self._size_op(arith.MuliOp, int.__mul__, lhs, factor, 1)

    def floor_divide(self, lhs: Size, divisor: Size) -> Size:
        """Return a size divided by a divisor, rounded down."""
        return self._size_op(arith.FloorDivSIOp, int.__floordiv__, lhs, divisor, 1)

    def at_least_zero(self, size: Size) -> Size:
        """Return the size, or 0 for a negative one."""
        if isinstance(size, int):
            return max(size, 0)
        return self.add(arith.MaxSIOp(size, self.index(0)))

    # Tensors

    def empty(self, type_: TensorType, sizes: Sequence[Size]) -> SSAValue:
        """Build `tensor.empty`, with the dynamic sizes of `type_` from `sizes`."""
        dynamic = [
            self.size_value(size)
            for size, static in zip(sizes, type_.get_shape(), strict=True)
            if static == DYNAMIC_INDEX
        ]
        return self.op(tensor.EmptyOp, dynamic, type_)

    def fill(
        self,
        type_: TensorType,
        sizes: Sequence[Size],
        value: SSAValue,
        body: Body | None = None,
    ) -> SSAValue:
        """Build a tensor that repeats the element of a tensor of rank 0."""
        return self.rearrange(value, type_, sizes, (), body)

    def zeros(self, type_: TensorType, sizes: Sequence[Size]) -> SSAValue:
        return self.filled_tensor(0, type_, sizes)

    def filled_tensor(
        self, value: float, type_: TensorType, sizes: Sequence[Size]
    ) -> SSAValue:
        """Build a tensor filled with one number."""
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
        Build a `linalg.generic` with one result.

        Args:
            inputs: the input tensors.
            outputs: one tensor with the initial values, of the type of the result.
            maps: the indexing map of each input and output.
            kinds: the iterator type of each loop: parallel or reduction.
            body: builds an element of the result from an element of each input and
                output.
            names: name hints for the arguments of the body.
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
        """Build a `linalg.generic` with a result for each output: see `generic`."""
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
        Build a `linalg.generic` with an existing body: see `generic`.

        Args:
            block: the body without its terminator, with an argument for each operand.
            results: the values that the body yields.
            inputs: the input tensors.
            outputs: the tensors with the initial values.
            maps: the indexing map of each operand.
            kinds: the iterator type of each loop: parallel or reduction.
        """
        end = linalg.ops.YieldOp.create(operands=results, location=self.location)
        block.add_op(end)
        accumulators = block.args[len(inputs) :]
        if REDUCTION not in kinds and any(arg.first_use for arg in accumulators):
            # MLIR's fusion with a broadcast requires that an elementwise op does not
            # read its output.
            maps = (*maps, *maps[len(inputs) :])
            inputs = (*inputs, *outputs)
            outputs = self._read_as_inputs(block, accumulators, outputs)
        op = linalg.ops.GenericOp.create(
            operands=(*inputs, *outputs),
            result_types=[output.type for output in outputs],
            properties=_loop_properties(
                (*maps,), (*kinds,), (len(inputs), len(outputs))
            ),
            regions=(Region(block),),
            location=self.location,
        )
        self._insert_op(op)
        return op.results

    def _read_as_inputs(
        self, block: Block, arguments: Sequence[BlockArgument], outputs: Values
    ) -> Values:
        """Turn the outputs of a loop into inputs; return empty tensors to write to."""
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
        Build a tensor whose elements are computed from elements of other tensors.

        Args:
            inputs: the input tensors, each with affine indices of the element to read.
            type_: the type of the result.
            sizes: the sizes of the result.
            body: builds an element of the result; its last argument is undefined.
            names: name hints for the arguments of the body.
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

    def rearrange(
        self,
        value: SSAValue,
        type_: TensorType,
        sizes: Sequence[Size],
        source: Sequence[AffineExpr],
        body: Body | None = None,
    ) -> SSAValue:
        """Build a tensor whose elements are read from `value` at indices `source`."""
        body = body or (lambda _, args: args[0])
        return self.map([(value, source)], type_, sizes, body)

    def transpose(self, value: SSAValue, permutation: Sequence[int]) -> SSAValue:
        """
        Build a `linalg.transpose`, or return the tensor if the order does not change.

        MLIR would fuse a `linalg.generic` into each consumer, as strided reads.
        """
        if [*permutation] == [*range(len(permutation))]:
            return value
        sizes = self.sizes(value)
        result_sizes = [sizes[dimension] for dimension in permutation]
        type_ = TensorType(element_type_of(value), static_sizes(result_sizes))
        target = self.empty(type_, result_sizes)
        order = DenseArrayBase.from_list(i64, permutation)
        return self.add(linalg.ops.TransposeOp(value, target, order))

    # Parts of tensors

    def extract_slice(
        self,
        value: SSAValue,
        offsets: Sequence[Size],
        sizes: Sequence[Size],
        strides: Sequence[Size],
    ) -> SSAValue:
        """Build `tensor.extract_slice`."""
        type_ = TensorType(element_type_of(value), static_sizes(sizes))
        return self.add(tensor.ExtractSliceOp(value, offsets, sizes, strides, type_))

    def insert_slice(
        self,
        part: SSAValue,
        into: SSAValue,
        offsets: Sequence[Size],
        sizes: Sequence[Size],
        strides: Sequence[Size],
    ) -> SSAValue:
        """Build `tensor.insert_slice`."""
        dynamic_offsets, dynamic_sizes, dynamic_strides = (
            [number for number in numbers if not isinstance(number, int)]
            for numbers in (offsets, sizes, strides)
        )
        return self.add(
            tensor.InsertSliceOp.get(
                part,
                into,
                static_sizes(sizes),
                static_sizes(offsets),
                static_sizes(strides),
                offsets=dynamic_offsets,
                sizes=dynamic_sizes,
                strides=dynamic_strides,
            )
        )

    # Shapes

    def cast(self, value: SSAValue, type_: Attribute) -> SSAValue:
        """Cast a tensor to a type with more or fewer static sizes."""
        if value.type == type_:
            return value
        return self.add(tensor.CastOp(value, cast(TensorType, type_)))

    def split_dimensions(
        self, value: SSAValue, block_sizes: Mapping[int, int]
    ) -> SSAValue:
        """Split each blocked dimension in two: block index, and index in the block."""
        if not block_sizes:
            return value
        sizes: list[Size] = []
        groups: list[list[int]] = []
        for axis, size in enumerate(self.sizes(value)):
            parts = [size]
            if (block_size := block_sizes.get(axis)) is not None:
                parts = [self.floor_divide(size, block_size), block_size]
            groups.append([*range(len(sizes), len(sizes) + len(parts))])
            sizes += parts
        type_ = TensorType(element_type_of(value), static_sizes(sizes))
        indices = ArrayAttr(ArrayAttr(IntegerAttr(i, i64) for i in g) for g in groups)
        dynamic = [size for size in sizes if not isinstance(size, int)]
        op = tensor.ExpandShapeOp(value, dynamic, indices, type_.get_shape(), type_)
        return self.add(op)

    def reshape(
        self, value: SSAValue, type_: TensorType, sizes: Sequence[Size]
    ) -> SSAValue:
        """Reshape a tensor; its elements keep their order."""
        # Tensors of one type with unknown sizes may have different shapes.
        if value.type == type_ and (len(sizes) < 2 or type_.has_static_shape()):
            return value
        shape_type = TensorType(INDEX, [len(sizes)])
        if all(isinstance(size, int) for size in sizes):
            numbers = cast(Sequence[int], sizes)
            attribute = DenseIntOrFPElementsAttr.from_list(shape_type, numbers)
            shape = self.constant(attribute, shape_type)
        else:
            values = [*map(self.size_value, sizes)]
            shape = self.op(tensor.FromElementsOp, values, shape_type)
        return self.op(tensor.ReshapeOp, (value, shape), type_)


Body: TypeAlias = Callable[[LoweringBuilder, Values], SSAValue]
"""Function that builds the scalar result of a loop from the scalars of its operands."""


@dataclass(eq=False)
class TensorwiseBuilder(LoweringBuilder):
    """Builder whose elementwise ops work on whole ranked tensors of one shape."""

    container: TensorType = field(kw_only=True)
    """Tensor type with the shape and encoding of the operands."""

    dynamic_sizes: Values = field(kw_only=True)

    _types: dict[Attribute, TensorType] = field(
        default_factory=dict[Attribute, TensorType], init=False
    )

    def type(self, element_type: Attribute) -> Attribute:
        # All ops have one shape, so the element type alone is the key.
        if (cached := self._types.get(element_type)) is None:
            container = self.container
            cached = ranked_type(element_type, container.shape, container.encoding)
            self._types[element_type] = cached
        return cached

    def lift(self, scalar: SSAValue) -> SSAValue:
        return self.op(
            tensor.SplatOp, (scalar, *self.dynamic_sizes), self.type(scalar.type)
        )
