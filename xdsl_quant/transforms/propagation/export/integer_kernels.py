"""
Ops of a kernel on integers instead of floats.

Ops of linalg, of arith on tensors and of tensor are looked at as loop nests: one that
computes an element from others becomes the same one on integers, one that adds products
becomes sums of products of zero-point-corrected integers, and ops that move elements move
integers. StableHLO is lowered to linalg before that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import isinf, isnan, prod
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
)
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from xdsl_quant.dialects.quant import StatisticsOp, StatisticsRefOp
from xdsl_quant.dialects.quant.traits import (
    MovesElements,
    MultipliesAndAccumulates,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    REDUCTION,
    LoweringBuilder,
    dimensions,
    shape_of,
)
from xdsl_quant.transforms.statistics.ranges.float_constants import float_numbers

from .integers import (
    Integers,
    Loop,
    NoIntegerForm,
    common_scale,
    fitting_type,
    integer_op,
    loaded,
    loop_axis,
    nearest,
    product_of,
    sizes_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CONSTANT_BITS = 24
"""Bits of the integers for a constant within a kernel: those of a float of 32 bits."""


@dataclass(frozen=True)
class Constant:
    """Real numbers that are known: one, or an array with the shape of the tensor."""

    values: NDArray[Any] | float

    @property
    def number(self) -> float:
        """The one number."""
        import numpy as np

        array = np.asarray(self.values)
        if not array.size or (array != array.flat[0]).any():
            raise NoIntegerForm("a constant within that is not one number")
        number = float(array.flat[0])
        if isnan(number):
            raise NoIntegerForm("a constant that is no number")
        return number

    @property
    def is_one_number(self) -> bool:
        """Whether all numbers are equal."""
        try:
            return not isnan(self.number)
        except NoIntegerForm:
            return False


class Empty:
    """A tensor whose elements do not matter."""


Value: TypeAlias = Integers | Constant | Empty | SSAValue
"""What stands for a value of a kernel: the last is for one that is not of floats."""

_FILLS = linalg.ops.FillOp | tensor.SplatOp

_MULTIPLIES = "arith.mulf", "stablehlo.multiply"


def multiplies(op: Operation) -> bool:
    """Whether an op multiplies: it needs factors that are narrow."""
    return any(
        inner.name in _MULTIPLIES
        or quantization_trait(inner, MultipliesAndAccumulates) is not None
        for inner in op.walk()
    )


def is_of_floats(value: SSAValue) -> bool:
    """Whether a value is a float or has elements that are."""
    return isinstance(scalar_or_element_type(value.type), AnyFloat)


@dataclass
class IntegerKernel:
    """The ops of a kernel, which are being made of integers."""

    builder: LoweringBuilder
    values: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])

    def run(self, block: Block) -> Sequence[Value]:
        """
        Build all ops of a block.

        Returns:
            what stands for the operands of the last op.

        Raises:
            NoIntegerForm: if an op has none.
        """
        *ops, last = block.ops
        for op in ops:
            self._add(op)
        return [self._value(value) for value in last.operands]

    def _value(self, value: SSAValue) -> Value:
        return self.values.get(value, value)

    def _add(self, op: Operation) -> None:
        if isinstance(op, StatisticsOp | StatisticsRefOp):
            self.values[op.result] = self._value(op.input)
            return
        if not any(map(is_of_floats, (*op.operands, *op.results))):
            operands = [cast(SSAValue, self._value(operand)) for operand in op.operands]
            regions = [region.clone() for region in op.regions]
            results = self.builder.same_op(op, operands, op.result_types, regions)
            self.values.update(zip(op.results, results, strict=True))
            return
        if isinstance(op, tensor.DimOp):
            self.values[op.result] = self._size(op)
            return
        if len(op.results) != 1 or not isinstance(op.results[0].type, TensorType):
            if op.name != "arith.constant":
                raise NoIntegerForm(f"'{op.name}' has no integer form")
        self.values[op.results[0]] = self._integer_form(op)

    def _size(self, op: tensor.DimOp) -> SSAValue:
        source, index = self._value(op.source), self._value(op.index)
        if not isinstance(source, Integers) or not isinstance(index, SSAValue):
            raise NoIntegerForm(f"'{op.name}' of what is not there")
        return self.builder.op(tensor.DimOp, (source.value, index), op.result.type)

    def _integer_form(self, op: Operation) -> Value:
        if (constant := constant_or_empty(op)) is not None:
            return constant
        operands = [self._value(operand) for operand in op.operands]
        if isinstance(op, _FILLS):
            if isinstance(operands[0], Constant):
                return operands[0]
            raise NoIntegerForm(f"'{op.name}' of a number that is not constant")
        if (nest := loop_nest_of(op)) is not None:
            return self._loop_nest(nest, operands)
        if isinstance(op, tensor.ConcatOp):
            return self._concatenation(op, operands)
        if (moves := quantization_trait(op, MovesElements)) is not None:
            return self._move(op, operands, moves.moved(op))
        raise NoIntegerForm(f"'{op.name}' has no integer form")

    # Moves

    def _move(
        self, op: Operation, operands: Sequence[Value], moved: Sequence[SSAValue]
    ) -> Value:
        tensors = [self._value(value) for value in moved]
        if isinstance(tensors[0], Constant) and tensors[0].is_one_number:
            return tensors[0]
        if len(tensors) != 1 or not isinstance(source := tensors[0], Integers):
            raise NoIntegerForm(f"'{op.name}' of several tensors has no integer form")
        if len(source.scales) > 1:
            raise NoIntegerForm(f"'{op.name}' moves elements of different scales")
        if any(isinstance(value, Constant | Empty) for value in operands):
            raise NoIntegerForm(f"'{op.name}' has no integer form")
        values = [
            value.value if isinstance(value, Integers) else cast(SSAValue, value)
            for value in operands
        ]
        element_type = cast(IntegerType, scalar_or_element_type(source.value.type))
        type_ = with_element_type(op.results[0].type, element_type)
        regions = [region.clone() for region in op.regions]
        (value,) = self.builder.same_op(op, values, [type_], regions)
        return replace(source, value=value, axis=None, array=None)

    def _concatenation(self, op: Operation, operands: Sequence[Value]) -> Value:
        """Tensors one after the other, once they have one scale."""
        tensors = [
            self._tensor_of(value) if isinstance(value, Constant) else value
            for value in operands
        ]
        parts = [value for value in tensors if isinstance(value, Integers)]
        if len(parts) < len(operands):
            raise NoIntegerForm(f"'{op.name}' reads what is not there")
        kinds = {
            (x.scales, x.zero_point, x.is_signed, scalar_or_element_type(x.value.type))
            for x in parts
        }
        if len(kinds) > 1 or len(parts[0].scales) > 1:
            parts = self._with_one_scale(parts)
        first = parts[0]
        element_type = cast(IntegerType, scalar_or_element_type(first.value.type))
        result_type = with_element_type(op.results[0].type, element_type)
        (value,) = self.builder.same_op(op, [x.value for x in parts], [result_type])
        return replace(
            first,
            value=value,
            low=min(x.low for x in parts),
            high=max(x.high for x in parts),
            array=None,
            port=None,
            is_same_at_port=False,
            error=max(x.error for x in parts),
            difference=max(x.difference for x in parts),
        )

    def _with_one_scale(self, tensors: Sequence[Integers]) -> list[Integers]:
        """Tensors of one type and scale, with a zero point of 0."""
        scale = common_scale(tensors)
        elements: list[tuple[Loop, Integers]] = []
        for x in tensors:
            rank = len(shape_of(x.value))
            loop = Loop(self.builder, rank)
            element = loop.element(x, dimensions(range(rank)))
            elements.append((loop, loop.with_scale(element, scale)))
        low = min(element.low for _, element in elements)
        high = max(element.high for _, element in elements)
        type_ = fitting_type(low, high)
        return [
            loop.finished(
                replace(
                    element,
                    value=loop.load(element, type_),
                    low=low,
                    high=high,
                    is_signed=True,
                ),
                shape_of(x.value),
                dimensions(range(loop.rank)),
            )
            for x, (loop, element) in zip(tensors, elements, strict=True)
        ]

    # Loop nests

    def _loop_nest(self, nest: LoopNest, operands: Sequence[Value]) -> Value:
        if REDUCTION in nest.kinds:
            return self._reduction(nest, operands)
        loop = Loop(self.builder, len(nest.kinds))
        result = self._elements(nest, loop, operands)
        if isinstance(result, Constant):
            return result
        return loop.finished(result, nest.shape, nest.result_map.results)

    def _elements(
        self, nest: LoopNest, loop: Loop, operands: Sequence[Value]
    ) -> Integers | Constant:
        """The element that the body of a loop nest computes."""
        elements: dict[SSAValue, Integers | Constant] = {
            value: constant
            for value, constant in self.values.items()
            if isinstance(constant, Constant)
        }
        for argument, value, map_ in zip(
            nest.arguments, operands, nest.maps, strict=True
        ):
            if argument.first_use is None:
                continue
            if isinstance(value, Constant) and not value.is_one_number:
                value = self._tensor_of(value)
            if isinstance(value, Integers):
                elements[argument] = loop.element(value, map_.results)
            elif isinstance(value, Constant):
                elements[argument] = value
            else:
                raise NoIntegerForm(f"'{nest.name}' reads what is not there")
        for op in nest.ops:
            if (numbers := constant_numbers(op)) is not None:
                elements[op.results[0]] = Constant(numbers)
                continue
            if (form := _ELEMENTWISE.get(op.name)) is None:
                raise NoIntegerForm(f"'{op.name}' has no integer form")
            arguments = [_known(elements, op, value) for value in op.operands]
            elements[op.results[0]] = form(loop, *arguments)
        return _known(elements, None, nest.result)

    def _tensor_of(self, constant: Constant) -> Integers:
        """A constant without a specification, as integers of about 24 bits."""
        import numpy as np

        array = np.asarray(constant.values, np.float64)
        if not np.isfinite(array).all():
            raise NoIntegerForm("a constant with infinities or NaN")
        _, exponent = np.frexp(np.abs(array).max())
        power = int(exponent) - _CONSTANT_BITS
        stored = np.floor(np.ldexp(array, -power) + 0.5).astype("<i4")
        scale = Fraction(2) ** power
        type_ = TensorType(IntegerType(32), array.shape)
        data = BytesAttr(stored.tobytes())
        value = self.builder.constant(DenseIntOrFPElementsAttr(type_, data), type_)
        exact = np.array_equal(np.ldexp(stored.astype(np.float64), power), array)
        return Integers(
            value,
            (scale,),
            None,
            0,
            int(stored.min()),
            int(stored.max()),
            array=stored,
            error=Fraction(0) if exact else scale / 2,
        )

    # Reductions

    def _reduction(self, nest: LoopNest, operands: Sequence[Value]) -> Value:
        combined = nest.combined()
        if combined is None:
            raise NoIntegerForm(f"the body of '{nest.name}' has no integer form")
        name, factors = combined
        tensors: list[Integers] = []
        maps: list[AffineMap] = []
        for argument in factors:
            index = nest.arguments.index(argument)
            value = operands[index]
            if isinstance(value, Constant):
                value = self._tensor_of(value)
            if not isinstance(value, Integers):
                raise NoIntegerForm(f"'{nest.name}' reads what is not there")
            tensors.append(value)
            maps.append(nest.maps[index])
        init = operands[-1]
        if name not in ("arith.addf", "arith.mulf"):
            return self._extremes(nest, tensors[0], maps[0], init, name)
        sums = self._sums(nest, tensors, maps)
        if isinstance(init, Constant) and init.is_one_number and not init.number:
            return sums
        return self._plus(sums, init)

    def _plus(self, sums: Integers, init: Value) -> Integers:
        """What is added to the elements of the output that a reduction begins with."""
        shape = shape_of(sums.value)
        loop = Loop(self.builder, len(shape))
        indices = dimensions(range(len(shape)))
        if isinstance(init, Constant) and not init.is_one_number:
            init = self._tensor_of(init)
        if isinstance(init, Integers):
            init = loop.element(init, indices)
        if not isinstance(init, Integers | Constant):
            raise NoIntegerForm("sums begin with what is not there")
        result = _sum(loop, loop.element(sums, indices), init)
        return loop.finished(cast(Integers, result), shape, indices)

    def _sums(
        self, nest: LoopNest, factors: Sequence[Integers], maps: Sequence[AffineMap]
    ) -> Integers:
        sizes = nest.loop_sizes()
        reduced = [d for d, kind in enumerate(nest.kinds) if kind == REDUCTION]
        if any(sizes[d] == DYNAMIC_INDEX for d in reduced):
            raise NoIntegerForm("the number of terms of a sum is not known")
        count = prod(sizes[d] for d in reduced)
        weight = count * factors[-1].largest
        if len(factors) == 2:
            weight = _weight(factors[1], maps[1], reduced, sizes)
            largest = factors[0].largest * weight
        else:
            largest = weight
        stored = [abs(b) for x in factors for b in (x.low, x.high, x.largest)]
        type_ = fitting_type(0, max(largest, *stored))

        def body(inner: LoweringBuilder, args: Sequence[SSAValue]) -> SSAValue:
            numbers = [
                loaded(inner, x, argument, type_)
                for x, argument in zip(factors, args[:-1], strict=True)
            ]
            if len(numbers) == 2:
                numbers = [integer_op(inner, arith.MuliOp, numbers, type_)]
            return integer_op(inner, arith.AddiOp, (args[-1], *numbers), type_)

        inputs = [x.value for x in factors]
        result_sizes = sizes_of(
            self.builder, nest.shape, nest.result_map.results, inputs, maps
        )
        zeros = self.builder.zeros(TensorType(type_, nest.shape), result_sizes)
        all_maps = [*maps, nest.result_map]
        value = self.builder.generic(inputs, [zeros], all_maps, nest.kinds, body)
        for_loops = [
            replace(x, axis=loop_axis(x, map_.results))
            for x, map_ in zip(factors, maps, strict=True)
        ]
        if len(for_loops) == 1:
            result = replace(
                for_loops[0],
                value=value,
                zero_point=0,
                low=-largest,
                high=largest,
                is_signed=True,
                array=None,
                port=None,
                is_same_at_port=False,
                error=count * factors[0].error,
                difference=count * factors[0].difference,
            )
        else:
            lhs, rhs = for_loops
            result = product_of(lhs, rhs, value, largest, count, weight)
        return replace(result, axis=_result_axis(nest, result))

    def _extremes(
        self, nest: LoopNest, x: Integers, map_: AffineMap, init: Value, name: str
    ) -> Integers:
        is_maximum = name in _MAXIMA
        if not isinstance(init, Constant):
            raise NoIntegerForm(f"'{nest.name}' begins with what is not constant")
        number = _bounded(init.number, x, is_maximum=is_maximum)
        if len(x.scales) > 1:
            raise NoIntegerForm(f"'{nest.name}' of different scales")
        start = nearest(number / x.scale) + x.zero_point
        type_ = fitting_type(min(start, x.low), max(start, x.high))
        op_type = arith.MaxSIOp if is_maximum else arith.MinSIOp

        def body(inner: LoweringBuilder, args: Sequence[SSAValue]) -> SSAValue:
            number = loaded(inner, x, args[0], type_, is_corrected=False)
            return integer_op(inner, op_type, (args[1], number), type_)

        result_type = TensorType(type_, nest.shape)
        sizes = sizes_of(
            self.builder, nest.shape, nest.result_map.results, [x.value], [map_]
        )
        starts = self.builder.repeated(start, result_type, sizes)
        maps = [map_, nest.result_map]
        value = self.builder.generic([x.value], [starts], maps, nest.kinds, body)
        order = max if is_maximum else min
        return replace(
            x,
            value=value,
            low=order(start, x.low),
            high=order(start, x.high),
            is_signed=True,
            array=None,
            port=None,
            is_same_at_port=False,
            error=max(x.error, abs((start - x.zero_point) * x.scale - number)),
        )


def _known(
    elements: Mapping[SSAValue, Integers | Constant],
    op: Operation | None,
    value: SSAValue,
) -> Integers | Constant:
    if value not in elements:
        name = "a loop" if op is None else f"'{op.name}'"
        raise NoIntegerForm(f"{name} uses what has no integer form")
    return elements[value]


def _result_axis(nest: LoopNest, result: Integers) -> int | None:
    if result.axis is None:
        return None
    index = AffineDimExpr(result.axis)
    if index not in nest.result_map.results:
        raise NoIntegerForm("scales change along a dimension that is summed over")
    return [*nest.result_map.results].index(index)


def _weight(
    factor: Integers, map_: AffineMap, reduced: Sequence[int], sizes: Sequence[int]
) -> int:
    """The largest sum of absolute values that an element of the result is made with."""
    count = prod(sizes[d] for d in reduced)
    is_plain = all(isinstance(index, AffineDimExpr) for index in map_.results)
    if factor.array is None or not is_plain or not factor.array.size:
        return count * factor.largest
    import numpy as np

    loops = [cast(AffineDimExpr, index).position for index in map_.results]
    axes = tuple(axis for axis, loop in enumerate(loops) if loop in reduced)
    corrected = np.abs(factor.array.astype(np.int64) - factor.zero_point)
    others = prod(sizes[d] for d in reduced if d not in loops)
    return int(corrected.sum(axis=axes).max()) * others


def constant_or_empty(op: Operation | Block) -> Constant | Empty | None:
    """What the result of an op is, if it is constant or does not matter."""
    match op:
        case tensor.EmptyOp():
            return Empty()
        case linalg.ops.FillOp() | tensor.SplatOp():
            return constant_or_empty(op.operands[0].owner)
        case Operation() if (numbers := constant_numbers(op)) is not None:
            return Constant(numbers)
        case _:
            return None


# Loop nests


def constant_numbers(op: Operation) -> NDArray[Any] | float | None:
    """The numbers of a constant of floats."""
    if op.name not in ("arith.constant", "stablehlo.constant"):
        return None
    try:
        numbers = float_numbers(op.properties.get("value"))
    except ValueError as e:
        raise NoIntegerForm(str(e)) from None
    if numbers is None or isinstance(numbers, float):
        return numbers
    import numpy as np

    return np.asarray(numbers, np.float64)


@dataclass(frozen=True)
class LoopNest:
    """An op with one result as loops that compute elements of it."""

    name: str
    maps: Sequence[AffineMap]
    """Which element of an operand an iteration looks at: those of inputs and output."""

    kinds: Sequence[IteratorTypeAttr]
    arguments: Sequence[SSAValue]
    """What stands for the elements."""

    ops: Sequence[Operation]
    """What is computed with them."""

    result: SSAValue
    result_map: AffineMap
    shape: Sequence[int]
    shapes: Sequence[Sequence[int]]

    def loop_sizes(self) -> Sequence[int]:
        """How many iterations loops have, `DYNAMIC_INDEX` where it is not known."""
        sizes: dict[int, int] = {}
        for map_, shape in zip(
            (*self.maps, self.result_map), (*self.shapes, self.shape), strict=True
        ):
            for index, size in zip(map_.results, shape, strict=True):
                if isinstance(index, AffineDimExpr) and (
                    sizes.get(index.position, DYNAMIC_INDEX) == DYNAMIC_INDEX
                ):
                    sizes[index.position] = size
        return [sizes[d] for d in range(len(self.kinds))]

    def combined(self) -> tuple[str, Sequence[SSAValue]] | None:
        """
        How an iteration changes an element of the result: the name of an op, and the
        arguments that it combines the element with. That of `arith.mulf` adds a product.
        """
        if not isinstance(op := self.result.owner, Operation) or op not in self.ops:
            return None
        so_far = self.arguments[-1]
        others = [value for value in op.operands if value is not so_far]
        inputs = self.arguments[:-1]
        if len(others) != 1 or len(op.operands) != 2:
            return None
        (other,) = others
        if len(self.ops) == 1 and other in inputs:
            if op.name == "arith.addf" or op.name in _MAXIMA | _MINIMA:
                return op.name, others
        product = other.owner
        if len(self.ops) != 2 or not isinstance(product, Operation):
            return None
        if (op.name, product.name) != ("arith.addf", "arith.mulf"):
            return None
        if any(value not in inputs for value in product.operands):
            return None
        return product.name, [*product.operands]


def loop_nest_of(op: Operation) -> LoopNest | None:
    """An op as a loop nest; `None` if it is none."""
    if (parts := _parts(op)) is None:
        return None
    maps, kinds, block, input_count = parts
    result = op.results[0]
    shape = shape_of(result)
    shapes = [
        shape_of(value) if isinstance(value.type, TensorType) else ()
        for value in op.operands
    ]
    if block is None:
        arguments, ops, yielded = op.operands, [op], result
    else:
        *ops, last = block.ops
        arguments, yielded = block.args, last.operands[0]
    result_map = maps[input_count] if input_count < len(maps) else maps[-1]
    positions = [
        index.position
        for index in result_map.results
        if isinstance(index, AffineDimExpr)
    ]
    parallel = [d for d, kind in enumerate(kinds) if kind == PARALLEL]
    if sorted(positions) != parallel or len(positions) != len(shape):
        return None
    return LoopNest(
        op.name, maps, kinds, arguments, ops, yielded, result_map, shape, shapes
    )


def _parts(
    op: Operation,
) -> tuple[Sequence[AffineMap], Sequence[IteratorTypeAttr], Block | None, int] | None:
    """Maps and kinds of loops, the body, and the number of inputs."""
    rank = len(shape_of(op.results[0]))
    identity = AffineMap.identity(rank)
    if isinstance(op, LinalgStructuredOperation):
        maps = [attribute.data for attribute in op.get_indexing_maps()]
        kinds = [*op.get_iterator_types()]
        return maps, kinds, op.body.block, len(op.inputs)
    if isinstance(op, linalg.ops.BroadcastOp):
        new = op.dimensions.get_values()
        kept = [d for d in range(rank) if d not in new]
        maps = [AffineMap(rank, 0, tuple(dimensions(kept))), identity]
        return maps, [PARALLEL] * rank, op.hidden_region.block, 1
    if isinstance(op, linalg.ops.ReduceOp) and len(op.operands) == 2:
        sizes = len(shape_of(op.operands[0]))
        reduced = op.dimensions.get_values()
        kept = [d for d in range(sizes) if d not in reduced]
        kinds = [REDUCTION if d in reduced else PARALLEL for d in range(sizes)]
        maps = [AffineMap.identity(sizes), AffineMap(sizes, 0, tuple(dimensions(kept)))]
        return maps, kinds, op.region.block, 1
    if op.name in _ELEMENTWISE:
        return [identity] * len(op.operands), [PARALLEL] * rank, None, len(op.operands)
    return None


# Elements

_MAXIMA = {"arith.maximumf", "arith.maxnumf"}
_MINIMA = {"arith.minimumf", "arith.minnumf"}

_Number: TypeAlias = Integers | Constant


def _fraction(constant: Constant) -> Fraction:
    if isinf(number := constant.number):
        raise NoIntegerForm("a constant that is infinite")
    return Fraction(number)


def _sum(loop: Loop, a: _Number, b: _Number) -> _Number:
    if isinstance(a, Constant):
        a, b = b, a
    if isinstance(a, Constant):
        return Constant(a.number + cast(Constant, b).number)
    if isinstance(b, Constant):
        b = loop.constant(_fraction(b), a)
    return loop.sum(a, b)


def _negative(loop: Loop, a: _Number) -> _Number:
    return Constant(-a.number) if isinstance(a, Constant) else loop.negative(a)


def _difference(loop: Loop, a: _Number, b: _Number) -> _Number:
    return _sum(loop, a, _negative(loop, b))


def _product(loop: Loop, a: _Number, b: _Number) -> _Number:
    if isinstance(a, Constant):
        a, b = b, a
    if isinstance(a, Constant):
        return Constant(a.number * cast(Constant, b).number)
    if not isinstance(b, Constant):
        return loop.product(a, b)
    factor = _fraction(b)
    if not factor:
        return Constant(0.0)
    if factor < 0:
        a = loop.negative(a)
    # The integers are what they are; what they stand for is another number.
    return replace(
        a,
        scales=tuple(abs(factor) * scale for scale in a.scales),
        error=abs(factor) * a.error,
        difference=abs(factor) * a.difference,
    )


def _bounded(number: float, x: Integers, *, is_maximum: bool) -> Fraction:
    """A number that is as large as another one, or the end of a range next to it."""
    ends = [(b - x.zero_point) * s for b in (x.low, x.high) for s in x.scales]
    order, end = (max, min(ends)) if is_maximum else (min, max(ends))
    if isinf(number):
        if (number > 0) == is_maximum:
            raise NoIntegerForm("a constant that is infinite")
        return end
    return order(Fraction(number), end)


def _absolute(loop: Loop, a: _Number) -> _Number:
    if isinstance(a, Constant):
        return Constant(abs(a.number))
    return loop.ordered(a, loop.negative(a), is_maximum=True)


def _ordered(is_maximum: bool) -> Callable[[Loop, _Number, _Number], _Number]:
    def form(loop: Loop, a: _Number, b: _Number) -> _Number:
        if isinstance(a, Constant):
            a, b = b, a
        if isinstance(a, Constant):
            order = max if is_maximum else min
            return Constant(order(a.number, cast(Constant, b).number))
        if isinstance(b, Constant):
            b = loop.constant(_bounded(b.number, a, is_maximum=is_maximum), a)
        return loop.ordered(a, b, is_maximum=is_maximum)

    return form


_ELEMENTWISE: Mapping[str, Callable[..., _Number]] = {
    "arith.addf": _sum,
    "arith.mulf": _product,
    "arith.negf": _negative,
    "arith.subf": _difference,
    "math.absf": _absolute,
    **dict.fromkeys(sorted(_MAXIMA), _ordered(True)),
    **dict.fromkeys(sorted(_MINIMA), _ordered(False)),
}
"""What ops on floats are on integers."""
