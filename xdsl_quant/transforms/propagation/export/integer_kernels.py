"""
Build the ops of a kernel on integers.

Linalg ops, elementwise arith ops and tensor ops are treated as loop nests: elementwise
bodies compute with integers, contractions sum products of zero-point-corrected
integers, and data movement ops move integers. StableHLO is lowered to linalg first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import isinf, prod
from typing import TypeAlias, cast

import numpy as np
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, TensorType, i8
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from xdsl_quant.dialects.quant import StatisticsOp, StatisticsRefOp
from xdsl_quant.dialects.quant.traits import (
    MovesElements,
    MultipliesAndAccumulates,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.machines.arith import type_for
from xdsl_quant.machines.expression import Bounds, are_within, signed_bounds, union
from xdsl_quant.runtime.arrays import elements_attr
from xdsl_quant.transforms.building.builder import (
    REDUCTION,
    Body,
    LoweringBuilder,
    Size,
    Values,
    dimensions,
    shape_of,
)
from xdsl_quant.unsupported import Unsupported

from ..module_kernels import is_float_value
from .float_kernels import check_uses_own_values, in_names_of_kernel
from .integers import Integers, common_scale
from .loop_nests import (
    MAXIMA,
    EmptyTensor,
    LoopNest,
    RealConstant,
    constant_or_empty,
    known_numbers,
    loop_nest_of,
)
from .loops import (
    ELEMENTWISE,
    IntegerLoop,
    ScaledNumber,
    StoredInteger,
    clamp_to_other_range,
    loop_axis,
    loop_over,
    product_of,
    sizes_of,
)

_CONSTANT_BITS = 24
"""Width of integers for constants inside kernels: that of the `f32` significand."""


Value: TypeAlias = Integers | RealConstant | EmptyTensor | SSAValue
"""Value of a kernel in integer arithmetic; an `SSAValue` if it is not float."""

Element: TypeAlias = ScaledNumber | SSAValue
"""Element of a value in integer arithmetic; an `SSAValue` if it is not float."""

_MANY = 1 << 32
"""Assumed upper bound on the number of terms of a sum over a dynamic dimension."""

_FILLS = linalg.ops.FillOp | tensor.SplatOp

_MULTIPLIES = "arith.mulf", "stablehlo.multiply"


def multiplies(op: Operation) -> bool:
    """Return True if an op multiplies, and therefore needs factors with few bits."""
    return any(
        inner.name in _MULTIPLIES
        or quantization_trait(inner, MultipliesAndAccumulates) is not None
        for inner in op.walk()
    )


@dataclass
class IntegerKernel:
    """Ops of a kernel on integers, under construction."""

    builder: LoweringBuilder
    values: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])
    destinations: dict[SSAValue, SSAValue] = field(
        default_factory=dict[SSAValue, SSAValue]
    )
    """Unquantized operands of the kernel, by block argument."""

    def run(self, block: Block) -> Sequence[Value]:
        """
        Build all ops of a block and return the operands of its terminator.

        Raises:
            Unsupported: if integer arithmetic does not support an op.
        """
        *ops, last = block.ops
        for op in ops:
            try:
                self._add(op)
            except Unsupported as e:
                raise Unsupported(in_names_of_kernel(str(e), op)) from None
        return [self._value(value) for value in last.operands]

    def _value(self, value: SSAValue) -> Value:
        return self.values.get(value, value)

    def _add(self, op: Operation) -> None:
        if isinstance(op, StatisticsOp | StatisticsRefOp):
            self.values[op.result] = self._value(op.input)
            return
        if not any(map(is_float_value, (*op.operands, *op.results))):
            operands = [cast(SSAValue, self._value(operand)) for operand in op.operands]
            results = self._same_op(op, operands, op.result_types)
            self.values.update(zip(op.results, results, strict=True))
            return
        if isinstance(op, tensor.DimOp):
            self.values[op.result] = self._size(op)
            return
        if len(op.results) != 1 or not isinstance(op.results[0].type, TensorType):
            if op.name != "arith.constant":
                raise Unsupported(f"'{op.name}' has no integer form")
        self.values[op.results[0]] = self._integer_form(op)

    def _same_op(
        self, op: Operation, operands: Values, types: Sequence[Attribute]
    ) -> Values:
        check_uses_own_values(op)
        regions = [region.clone() for region in op.regions]
        return self.builder.same_op(op, operands, types, regions)

    def _size(self, op: tensor.DimOp) -> SSAValue:
        source, index = self._value(op.source), self._value(op.index)
        if not isinstance(source, Integers) or not isinstance(index, SSAValue):
            raise Unsupported(f"'{op.name}' reads a tensor without integer form")
        return self.builder.op(tensor.DimOp, (source.value, index), op.result.type)

    def _sizes(self, value: SSAValue) -> Sequence[Size]:
        """
        Return the sizes of a tensor.

        Raises:
            Unsupported: if a dynamic size is unknown.
        """
        shape = shape_of(value)
        if DYNAMIC_INDEX not in shape:
            return shape
        if isinstance(known := self._value(value), Integers):
            return self.builder.sizes(known.value)
        op = self.destinations.get(value, value).owner
        if isinstance(op, tensor.EmptyOp):
            dynamic = iter(op.dynamic_sizes)
            return [
                cast(SSAValue, self._value(next(dynamic)))
                if size == DYNAMIC_INDEX
                else size
                for size in shape
            ]
        if isinstance(op, Operation) and op.operands:
            return self._sizes(op.operands[-1])
        raise Unsupported("a dynamic size of a result is unknown")

    def _integer_form(self, op: Operation) -> Value:
        if (constant := constant_or_empty(op)) is not None:
            return constant
        operands = [self._value(operand) for operand in op.operands]
        if isinstance(op, _FILLS):
            if isinstance(operands[0], RealConstant):
                return operands[0]
            raise Unsupported(f"'{op.name}' fills a tensor with a non-constant number")
        if (nest := loop_nest_of(op)) is not None:
            return self._loop_nest(nest, operands)
        if isinstance(op, tensor.ConcatOp):
            return self._joined(op, op.inputs)
        if isinstance(op, tensor.InsertSliceOp):
            return self._joined(op, (op.source, op.dest))
        if (moves := quantization_trait(op, MovesElements)) is not None:
            return self._move(op, operands, moves.moved_operands(op))
        raise Unsupported(f"'{op.name}' has no integer form")

    # Data movement

    def _move(self, op: Operation, operands: Sequence[Value], moved: Values) -> Value:
        tensors = [self._value(value) for value in moved]
        if isinstance(tensors[0], RealConstant) and tensors[0].is_one_number:
            return tensors[0]
        if len(tensors) != 1 or not isinstance(source := tensors[0], Integers):
            raise Unsupported(f"'{op.name}' moves elements of several tensors")
        if len(source.scales) > 1:
            raise Unsupported(f"'{op.name}' moves elements of different scales")
        if any(isinstance(value, RealConstant | EmptyTensor) for value in operands):
            raise Unsupported(f"'{op.name}' has no integer form")
        values = [
            value.value if isinstance(value, Integers) else cast(SSAValue, value)
            for value in operands
        ]
        type_ = with_element_type(op.results[0].type, _storage_of(source))
        (value,) = self._same_op(op, values, [type_])
        return replace(source, value=value, axis=None, array=None)

    def _joined(self, op: Operation, joined: Values) -> Integers:
        """Build an op that concatenates tensors, aligned to one scale."""
        known = [self._value(value) for value in joined]
        like = next((x for x in known if isinstance(x, Integers)), None)
        if like is None:
            raise Unsupported(
                f"'{op.name}' joins only constants and has no integer form"
            )
        parts = [self._tensor(value, like) for value in joined]
        offsets = [self._value(value) for value in op.operands[len(joined) :]]
        bounds = union(*(x.bounds for x in parts))
        kinds = {(x.scales, x.zero_point, _storage_of(x)) for x in parts}
        if (
            len(kinds) > 1
            or len(like.scales) > 1
            or not _has_room(_storage_of(like), bounds)
        ):
            parts = self._with_one_scale(parts)
            bounds = parts[0].bounds
        first = parts[0]
        result_type = with_element_type(op.results[0].type, _storage_of(first))
        operands = [*(x.value for x in parts), *cast(Values, offsets)]
        (value,) = self.builder.same_op(op, operands, [result_type])
        return replace(
            first.with_result(value, bounds),
            error=max(x.error for x in parts),
            difference=max(x.difference for x in parts),
        )

    def _tensor(self, value: SSAValue, like: Integers) -> Integers:
        """
        Return a value as an integer tensor. A splat constant gets the type of `like` if
        this type represents it exactly. Infinities become ends of the range of `like`.
        """
        known = self._value(value)
        if isinstance(known, Integers):
            return known
        if not isinstance(known, RealConstant):
            raise Unsupported("a tensor has no integer form")
        if not known.is_one_number:
            return self._tensor_of(known)
        if len(like.scales) > 1:
            raise Unsupported(
                "a constant is combined with elements of different scales"
            )
        exact = known.number
        if isinf(exact):
            exact = clamp_to_other_range(exact, like, is_maximum=exact < 0)
        constant = IntegerLoop(self.builder, 0).constant(Fraction(exact), like)
        type_ = _storage_of(like)
        if not _has_room(type_, union(like.bounds, constant.bounds)):
            type_ = type_for(constant.bounds)
        tensor_type = TensorType(type_, shape_of(value))
        sizes = self._sizes(value)
        filled = self.builder.filled_tensor(constant.bounds[0], tensor_type, sizes)
        return replace(constant, value=filled)

    def _with_one_scale(self, tensors: Sequence[Integers]) -> list[Integers]:
        """Convert tensors to a common type, a common scale and zero point 0."""
        scale = common_scale(tensors)
        elements: list[tuple[IntegerLoop, Integers]] = []
        for x in tensors:
            loop, element = loop_over(self.builder, x)
            elements.append((loop, loop.with_scale(element, scale)))
        bounds = union(*(element.bounds for _, element in elements))
        type_ = type_for(bounds)
        results: list[Integers] = []
        for x, (loop, element) in zip(tensors, elements, strict=True):
            value = loop.number(element).as_type(type_)
            result = replace(element, value=value, bounds=bounds)
            results.append(loop.finished(result, shape_of(x.value)))
        return results

    # Loop nests

    def _loop_nest(self, nest: LoopNest, operands: Sequence[Value]) -> Value:
        if REDUCTION in nest.kinds:
            return self._reduction(nest, operands)
        loop = IntegerLoop(self.builder, len(nest.kinds))
        result = self._elements(nest, loop, operands)
        if not isinstance(result, Integers):
            return RealConstant(result)
        return loop.finished(result, nest.shape, nest.indices)

    def _elements(
        self, nest: LoopNest, loop: IntegerLoop, operands: Sequence[Value]
    ) -> ScaledNumber:
        """Build the body of a loop nest and return the computed element."""
        elements = self._arguments(nest, loop, operands)

        def known(user: str, value: SSAValue) -> Element:
            if value not in elements:
                raise Unsupported(f"{user} uses a value without integer form")
            element = elements[value]
            return element.number if isinstance(element, RealConstant) else element

        for op in nest.ops:
            if (numbers := known_numbers(op)) is not None:
                elements[op.results[0]] = RealConstant(numbers)
                continue
            is_float = any(map(is_float_value, (*op.operands, *op.results)))
            if is_float and op.name not in ELEMENTWISE:
                raise Unsupported(f"'{op.name}' has no integer form")
            arguments = [known(f"'{op.name}'", value) for value in op.operands]
            if is_float:
                elements[op.results[0]] = ELEMENTWISE[op.name](loop, *arguments)
                continue
            operand_values = cast(Values, arguments)
            results = loop.inner.same_op(op, operand_values, op.result_types)
            elements.update(zip(op.results, results, strict=True))
        result = known("a loop", nest.result)
        if isinstance(result, SSAValue):
            raise Unsupported(f"'{nest.name}' has a result that is not float")
        return result

    def _arguments(
        self, nest: LoopNest, loop: IntegerLoop, operands: Sequence[Value]
    ) -> dict[SSAValue, Element | RealConstant]:
        """Map values of the body to constants, or to elements of the operands."""
        elements: dict[SSAValue, Element | RealConstant] = {
            value: constant
            for value, constant in self.values.items()
            if isinstance(constant, RealConstant)
        }
        triples = zip(nest.arguments, operands, nest.maps, strict=True)
        for argument, value, map_ in triples:
            if argument.first_use is None:
                continue
            if isinstance(value, SSAValue):
                elements[argument] = loop.argument(value, map_.results)
            elif isinstance(value, RealConstant) and value.is_one_number:
                elements[argument] = value
            else:
                stored = self._as_tensor(nest, value)
                elements[argument] = loop.element(stored, map_.results)
        return elements

    def _as_tensor(self, nest: LoopNest, value: Value) -> Integers:
        if isinstance(value, RealConstant):
            return self._tensor_of(value)
        if not isinstance(value, Integers):
            raise Unsupported(f"'{nest.name}' reads a tensor without integer form")
        return value

    def _tensor_of(self, constant: RealConstant) -> Integers:
        """Return a constant inside the kernel as integers of `_CONSTANT_BITS` bits."""
        array = np.asarray(constant.values, np.float64)
        if not array.size:
            raise Unsupported("a constant has no elements")
        if not np.isfinite(array).all():
            raise Unsupported("a constant has infinite or NaN elements")
        _, exponent = np.frexp(np.abs(array).max())
        power = int(exponent) - _CONSTANT_BITS
        stored = np.floor(np.ldexp(array, -power) + 0.5).astype("<i4")
        scale = Fraction(2) ** power
        attribute = elements_attr(stored, IntegerType(32))
        value = self.builder.constant(attribute, attribute.type)
        exact = np.array_equal(np.ldexp(stored.astype(np.float64), power), array)
        return Integers(
            (scale,),
            None,
            0,
            (int(stored.min()), int(stored.max())),
            value,
            array=stored,
            error=Fraction(0) if exact else scale / 2,
        )

    # Reductions

    def _reduction(self, nest: LoopNest, operands: Sequence[Value]) -> Value:
        combined = nest.combined()
        if combined is None:
            raise Unsupported(f"the body of '{nest.name}' has no integer form")
        name, factors = combined
        indices = [nest.arguments.index(argument) for argument in factors]
        tensors = [self._as_tensor(nest, operands[index]) for index in indices]
        maps = [nest.maps[index] for index in indices]
        init = operands[-1]
        if name not in ("arith.addf", "arith.mulf"):
            return self._extremes(nest, tensors[0], maps[0], init, name in MAXIMA)
        sums = self._sums(nest, tensors, maps)
        if isinstance(init, RealConstant) and init.is_one_number and not init.number:
            return sums
        return self._plus(sums, init)

    def _plus(self, sums: Integers, init: Value) -> Integers:
        """Add the initial elements of a reduction to its sums."""
        loop, element = loop_over(self.builder, sums)
        if isinstance(init, RealConstant) and not init.is_one_number:
            init = self._tensor_of(init)
        if isinstance(init, Integers):
            term: ScaledNumber = loop.element(init, dimensions(range(loop.rank)))
        elif isinstance(init, RealConstant):
            term = init.number
        else:
            raise Unsupported("initial values of sums have no integer form")
        result = cast(Integers, loop.add(element, term))
        return loop.finished(result, shape_of(sums.value))

    def _sums(
        self,
        nest: LoopNest,
        factors: Sequence[Integers],
        maps: Sequence[AffineMap],
    ) -> Integers:
        count, weight = _count_and_weight(nest, factors[-1], maps[-1])
        largest = factors[0].largest * (weight if len(factors) == 2 else count)
        type_ = type_for((-largest, largest))

        def body(inner: LoweringBuilder, args: Values) -> SSAValue:
            number, *others = (
                StoredInteger(inner, argument, x.bounds) - x.zero_point
                for x, argument in zip(factors, args[:-1], strict=False)
            )
            term = number * others[0] if others else number
            return inner.op(arith.AddiOp, (args[-1], term.as_type(type_)), type_)

        value = self._reduced(nest, [x.value for x in factors], maps, 0, type_, body)
        for_loops = [
            replace(x, axis=loop_axis(x, map_.results))
            for x, map_ in zip(factors, maps, strict=True)
        ]
        result = replace(
            for_loops[0].with_result(value, (-largest, largest)),
            zero_point=0,
            error=count * factors[0].error,
            difference=count * factors[0].difference,
        )
        if len(for_loops) == 2:
            result = product_of(for_loops[0], for_loops[1], result, count, weight)
        return replace(result, axis=_result_axis(nest, result))

    def _reduced(
        self,
        nest: LoopNest,
        inputs: Values,
        maps: Sequence[AffineMap],
        start: int,
        type_: IntegerType,
        body: Body,
    ) -> SSAValue:
        """Build the loop nest of a reduction with a constant initial value."""
        try:
            sizes = sizes_of(self.builder, nest.shape, nest.indices, inputs, maps)
        except Unsupported:
            sizes = self._sizes(nest.op.operands[-1])
        starts = self.builder.filled_tensor(start, TensorType(type_, nest.shape), sizes)
        # Tensors that the body does not read only define iteration counts.
        unread = [
            (operand, map_)
            for argument, operand, map_ in zip(
                nest.arguments[:-1], nest.op.operands, nest.maps, strict=False
            )
            if argument.first_use is None
        ]
        windows = [
            self.builder.empty(TensorType(i8, shape_of(x)), self._sizes(x))
            for x, _ in unread
        ]
        all_maps = [*maps, *(map_ for _, map_ in unread), nest.maps[-1]]
        return self.builder.generic(
            [*inputs, *windows], [starts], all_maps, nest.kinds, body
        )

    def _extremes(
        self,
        nest: LoopNest,
        x: Integers,
        map_: AffineMap,
        init: Value,
        is_maximum: bool,
    ) -> Integers:
        if not isinstance(init, RealConstant):
            raise Unsupported(f"'{nest.name}' has a non-constant initial value")
        if len(x.scales) > 1:
            raise Unsupported(f"'{nest.name}' combines elements of different scales")
        number = clamp_to_other_range(init.number, x, is_maximum=is_maximum)
        units = number / x.scale + x.zero_point
        is_exact = units.denominator == 1
        # If the operand's integers cannot represent the number, compare with it last.
        start = int(units) if is_exact else x.bounds[not is_maximum]
        type_ = type_for(x.bounds, (start, start))
        op_type = arith.MaxSIOp if is_maximum else arith.MinSIOp

        def body(inner: LoweringBuilder, args: Values) -> SSAValue:
            number = StoredInteger(inner, args[0], x.bounds).as_type(type_)
            return inner.op(op_type, (args[-1], number), type_)

        value = self._reduced(nest, [x.value], [map_], start, type_, body)
        order = max if is_maximum else min
        low, high = (order(start, bound) for bound in x.bounds)
        result = replace(x.with_result(value, (low, high)), axis=None)
        if is_exact:
            return result
        loop, element = loop_over(self.builder, result)
        compared = loop.extreme(element, init.number, is_maximum=is_maximum)
        return loop.finished(cast(Integers, compared), nest.shape)


def _storage_of(x: Integers) -> IntegerType:
    return cast(IntegerType, scalar_or_element_type(x.value.type))


def _has_room(type_: IntegerType, bounds: Bounds) -> bool:
    """Return True if a type stores integers with these bounds, signed or unsigned."""
    low, high = signed_bounds(type_.bitwidth)
    return are_within(bounds, (low, high)) or are_within(bounds, (0, high - low))


def _result_axis(nest: LoopNest, result: Integers) -> int | None:
    if result.axis is None:
        return None
    index = AffineDimExpr(result.axis)
    if index not in nest.indices:
        raise Unsupported("scales change along a reduced dimension")
    return nest.indices.index(index)


def _count_and_weight(
    nest: LoopNest, factor: Integers, map_: AffineMap
) -> tuple[int, int]:
    """Return the term count of each sum, and a bound on the sum of `abs(factor)`."""
    sizes = [_MANY if d == DYNAMIC_INDEX else d for d in nest.loop_sizes()]
    reduced = [d for d, kind in enumerate(nest.kinds) if kind == REDUCTION]
    count = prod(sizes[d] for d in reduced)
    is_plain = all(isinstance(index, AffineDimExpr) for index in map_.results)
    if factor.array is None or not is_plain or not factor.array.size:
        return count, count * factor.largest
    loops = [cast(AffineDimExpr, index).position for index in map_.results]
    axes = tuple(axis for axis, loop in enumerate(loops) if loop in reduced)
    corrected = np.abs(factor.array.astype(np.int64) - factor.zero_point)
    repeats = prod(sizes[d] for d in reduced if d not in loops)
    return count, int(corrected.sum(axis=axes).max()) * repeats
