"""
Loops over elements of tensors of integers: arithmetic on integers that stand for real
numbers, and their rescaling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.transforms.building.builder import PARALLEL, LoweringBuilder, Size
from xdsl_quant.transforms.building.fixed_point_arithmetic import (
    add,
    clamp_and_truncate,
    i64_constant,
    multiply,
    rounded_shift,
)
from xdsl_quant.unsupported import Unsupported

from .integers import (
    HALF,
    MULTIPLIER_BITS,
    Integers,
    Port,
    aligned_scales,
    common_scale,
    fitting_type,
    multiplier_and_shift,
    nearest,
    width_of,
)

_LEAST_MULTIPLIER_BITS = 8

_FINE = 1 << 15
"""Integers that are so large have a fine scale: rounding to it does not matter."""


@dataclass(eq=False)
class IntegerLoop:
    """A `linalg.generic` of which each iteration computes one element, being built."""

    builder: LoweringBuilder
    rank: int
    block: Block = field(default_factory=Block)
    inputs: list[SSAValue] = field(default_factory=list[SSAValue])
    maps: list[AffineMap] = field(default_factory=list[AffineMap])
    rescales: int = 0
    """How many multiplications and shifts are there that round."""

    _parameters: dict[tuple[object, ...], SSAValue] = field(
        default_factory=dict[tuple[object, ...], SSAValue]
    )

    def __post_init__(self) -> None:
        self.inner = self.builder.at_end(self.block)

    # Operands and the result

    def argument(self, value: SSAValue, indices: Sequence[AffineExpr]) -> SSAValue:
        """An element of an operand."""
        self.inputs.append(value)
        self.maps.append(AffineMap(self.rank, 0, tuple(indices)))
        type_ = scalar_or_element_type(value.type)
        argument = self.block.insert_arg(type_, len(self.block.args))
        argument.name_hint = "in"
        return argument

    def element(self, tensor: Integers, indices: Sequence[AffineExpr]) -> Integers:
        """
        An element of a tensor.

        Raises:
            Unsupported: if its scale does not belong to one loop.
        """
        argument = self.argument(tensor.value, indices)
        axis = loop_axis(tensor, indices)
        return replace(tensor.computed(argument, tensor.low, tensor.high), axis=axis)

    def parameter(
        self, numbers: Sequence[int], axis: int | None, type_: IntegerType = i64
    ) -> SSAValue:
        """A number: one, or one for each iteration of a loop."""
        if len({*numbers}) == 1:
            return self.inner.number(numbers[0], type_)
        key = (type_, axis, *numbers)
        if key not in self._parameters:
            container = TensorType(type_, [len(numbers)])
            attribute = DenseIntOrFPElementsAttr.from_list(container, numbers)
            tensor = self.builder.constant(attribute, container)
            indices = [AffineDimExpr(cast(int, axis))]
            self._parameters[key] = self.argument(tensor, indices)
        return self._parameters[key]

    def finished(
        self, result: Integers, shape: Sequence[int], indices: Sequence[AffineExpr]
    ) -> Integers:
        """The tensor of all results, each at the indices that an iteration has for it."""
        number = result.value
        fitting = fitting_type(result.low, result.high)
        if cast(IntegerType, number.type).bitwidth > fitting.bitwidth:
            number = self._op(arith.TruncIOp, (number,), fitting)
        type_ = TensorType(number.type, shape)
        sizes = sizes_of(self.builder, shape, indices, self.inputs, self.maps)
        self.block.insert_arg(number.type, len(self.block.args)).name_hint = "out"
        (value,) = self.builder.loop_nest(
            self.block,
            [number],
            self.inputs,
            [self.builder.empty(type_, sizes)],
            [*self.maps, AffineMap(self.rank, 0, tuple(indices))],
            [PARALLEL] * self.rank,
        )
        axis = None
        if result.axis is not None:
            axis = [*indices].index(AffineDimExpr(result.axis))
        return replace(result, value=value, axis=axis)

    # Numbers

    def _op(
        self,
        op_type: type[Operation],
        operands: Sequence[SSAValue],
        type_: IntegerType,
    ) -> SSAValue:
        return integer_op(self.inner, op_type, operands, type_)

    def load(
        self, x: Integers, type_: IntegerType, *, is_corrected: bool = True
    ) -> SSAValue:
        """The zero-point-corrected integer, or the integer itself."""
        return loaded(self.inner, x, x.value, type_, is_corrected=is_corrected)

    def _corrected(self, x: Integers) -> Integers:
        """The same number with a zero point of 0."""
        if not x.zero_point:
            return x
        value = self.load(x, width_of(x.largest, abs(x.low), abs(x.high)))
        low, high = x.low - x.zero_point, x.high - x.zero_point
        return replace(x, value=value, zero_point=0, low=low, high=high, is_signed=True)

    def with_scale(self, x: Integers, scale: Fraction) -> Integers:
        """The same number with another scale and a zero point of 0."""
        x = self._corrected(x)
        factors = [nearest(s / scale) for s in x.scales]
        lost = max(abs(s - f * scale) for s, f in zip(x.scales, factors, strict=True))
        error = x.error + x.largest * lost
        if {*factors} == {1}:
            return replace(x, scales=(scale,), axis=None, error=error)
        bounds = [b * f for b in (x.low, x.high) for f in factors]
        type_ = width_of(x.largest, *factors, *map(abs, bounds))
        operands = self.load(x, type_), self.parameter(factors, x.axis, type_)
        return replace(
            x,
            value=self._op(arith.MuliOp, operands, type_),
            scales=(scale,),
            axis=None,
            low=min(bounds),
            high=max(bounds),
            is_signed=True,
            error=error,
        )

    def aligned(self, *values: Integers) -> Sequence[Integers]:
        """The same numbers with one scale and one zero point."""
        first = values[0]
        same = [x.with_scale_of(first) for x in values]
        if None not in same:
            found = [x for x in same if x is not None]
            if all(x.zero_point == first.zero_point for x in found):
                return found
            return [self._corrected(x) for x in found]
        scale = common_scale(values)
        return [self.with_scale(x, scale) for x in values]

    def sum(self, a: Integers, b: Integers) -> Integers:
        """The sum of two numbers."""
        a, b = self.aligned(self._corrected(a), self._corrected(b))
        low, high = a.low + b.low, a.high + b.high
        type_ = width_of(a.largest + b.largest)
        value = self._op(
            arith.AddiOp, (self.load(a, type_), self.load(b, type_)), type_
        )
        return self._combined(value, a, b, low, high, sum)

    def negative(self, x: Integers) -> Integers:
        """The negative of a number."""
        x = self._corrected(x)
        type_ = width_of(x.largest)
        operands = (self.inner.number(0, type_), self.load(x, type_))
        value = self._op(arith.SubiOp, operands, type_)
        return replace(x, value=value, low=-x.high, high=-x.low, is_signed=True)

    def ordered(self, a: Integers, b: Integers, *, is_maximum: bool) -> Integers:
        """The larger or the smaller one of two numbers."""
        a, b = self.aligned(a, b)
        type_ = width_of(*(abs(bound) for x in (a, b) for bound in (x.low, x.high)))
        order, op_type = (max, arith.MaxSIOp) if is_maximum else (min, arith.MinSIOp)
        operands = [self.load(x, type_, is_corrected=False) for x in (a, b)]
        value = self._op(op_type, operands, type_)
        low, high = order(a.low, b.low), order(a.high, b.high)
        return self._combined(value, a, b, low, high, max)

    def chosen(self, condition: SSAValue, a: Integers, b: Integers) -> Integers:
        """One of two numbers."""
        a, b = self.aligned(a, b)
        low, high = min(a.low, b.low), max(a.high, b.high)
        type_ = fitting_type(low, high)
        numbers = (self.load(x, type_, is_corrected=False) for x in (a, b))
        value = self._op(arith.SelectOp, (condition, *numbers), type_)
        return self._combined(value, a, b, low, high, max)

    def product(self, a: Integers, b: Integers) -> Integers:
        """The product of two numbers."""
        a, b = self._corrected(a), self._corrected(b)
        type_ = width_of(a.largest * b.largest)
        operands = self.load(a, type_), self.load(b, type_)
        value = self._op(arith.MuliOp, operands, type_)
        return product_of(a, b, value, a.largest * b.largest, 1)

    def _combined(
        self, value: SSAValue, a: Integers, b: Integers, low: int, high: int, both: Any
    ) -> Integers:
        return replace(
            a,
            value=value,
            low=low,
            high=high,
            is_signed=True,
            error=both((a.error, b.error)),
            difference=both((a.difference, b.difference)),
        )

    def constant(self, number: Fraction, like: Integers) -> Integers:
        """
        A real number with scales and zero point of another one, or with a scale of its own
        if the other one is coarse and the number would have to be rounded.
        """
        scales, axis, zero_point = like.scales, like.axis, like.zero_point
        if like.largest < _FINE and any((number / s).denominator > 1 for s in scales):
            scales, axis, zero_point = (Fraction(1, number.denominator),), None, 0
        integers = [nearest(number / s) + zero_point for s in scales]
        error = max(
            abs((n - zero_point) * s - number)
            for n, s in zip(integers, scales, strict=True)
        )
        low, high = min(integers), max(integers)
        value = self.parameter(integers, axis, fitting_type(low, high))
        return Integers(value, scales, axis, zero_point, low, high, error=error)

    # Ports

    def clamped(self, x: Integers, port: Port) -> Integers:
        """A number within the range of a type, with the scale that it has."""
        (_, (scales, port_scales)) = aligned_scales([x, _like(port, x)])
        ends: list[list[int]] = []
        error = Fraction(0)
        for end in (port.low, port.high):
            exact = [(end - port.zero_point) * s for s in port_scales]
            integers = [nearest(e / s) for e, s in zip(exact, scales, strict=True)]
            ends.append([n + x.zero_point for n in integers])
            lost = (
                abs(n * s - e) for n, s, e in zip(integers, scales, exact, strict=True)
            )
            error = max(error, *lost)
        lows, highs = ends
        if max(lows) <= x.low and x.high <= min(highs):
            return x
        type_ = fitting_type(min(x.low, *lows), max(x.high, *highs))
        value = self.load(x, type_, is_corrected=False)
        axis = x.axis if len(x.scales) > 1 else port.axis
        for op_type, bounds in ((arith.MaxSIOp, lows), (arith.MinSIOp, highs)):
            operands = value, self.parameter(bounds, axis, type_)
            value = self._op(op_type, operands, type_)
        return replace(
            x,
            value=value,
            low=max(x.low, min(lows)),
            high=max(min(x.high, max(highs)), min(lows)),
            is_signed=True,
            error=x.error + error,
        )

    def rescaled(self, x: Integers, port: Port) -> Integers:
        """
        A number as a type stores it: one multiplication, shift and rounding.

        Raises:
            Unsupported: if the ratio of scales is out of range, or what was lost before
                is more than a quarter of a unit.
        """
        axis, (scales, port_scales) = aligned_scales([x, _like(port, x)])
        ratios = [s / p for s, p in zip(scales, port_scales, strict=True)]
        value = self.load(x, i64)
        lost = Fraction(0)
        rounding = Fraction(0)
        if any(ratio != 1 for ratio in ratios):
            pairs = _multiplier_pairs(x, ratios)
            multipliers, shifts = map(list, zip(*pairs, strict=True))
            value = multiply(self.inner, value, self.parameter(multipliers, axis))
            value = rounded_shift(self.inner, value, self.parameter(shifts, axis))
            for ratio, scale, (m, s) in zip(ratios, port_scales, pairs, strict=True):
                reach = min(x.largest, (port.reach + 1) / ratio)
                lost = max(lost, reach * abs(Fraction(m, 1 << s) - ratio) * scale)
            rounding = HALF * max(port_scales)
            self.rescales += 1
        unit = min(port_scales)
        is_exact = not x.error and x.largest <= 1 << 32
        if not is_exact and x.error + lost > unit / 4:
            raise Unsupported("terms of a sum lose more than a quarter of a unit")
        if port.zero_point:
            value = add(self.inner, value, i64_constant(self.inner, port.zero_point))
        storage = port.type.signless_storage_type
        value = clamp_and_truncate(self.inner, value, port.low, port.high, storage)
        return replace(
            port.integers(value),
            axis=axis if len(port.scales) > 1 else None,
            error=Fraction(0),
            difference=x.difference,
            rounding=x.error + lost + rounding,
        )


def _multiplier_pairs(
    x: Integers, ratios: Sequence[Fraction]
) -> Sequence[tuple[int, int]]:
    """
    Multipliers of as many bits as products of 63 bits leave.

    Raises:
        Unsupported: if these are too few.
    """
    bits = MULTIPLIER_BITS
    if x.largest > 1 << 32:
        bits = min(bits, 62 - x.largest.bit_length())
    if bits < _LEAST_MULTIPLIER_BITS:
        raise Unsupported("numbers of too many bits for a multiplier")
    return [multiplier_and_shift(ratio, bits) for ratio in ratios]


def _like(port: Port, x: Integers) -> Integers:
    return replace(x, scales=port.scales, axis=port.axis)


def integer_op(
    builder: LoweringBuilder,
    op_type: type[Operation],
    operands: Sequence[SSAValue],
    type_: IntegerType,
) -> SSAValue:
    """An op of arith on integers."""
    properties: dict[str, Attribute] = {}
    if op_type in (arith.AddiOp, arith.SubiOp, arith.MuliOp):
        properties["overflowFlags"] = arith.IntegerOverflowAttr("none")
    return builder.op(op_type, operands, type_, properties)


def loaded(
    builder: LoweringBuilder,
    x: Integers,
    number: SSAValue,
    type_: IntegerType,
    *,
    is_corrected: bool = True,
) -> SSAValue:
    """An element of integers, zero-point-corrected or not, as one of a type it fits."""
    before, after = cast(IntegerType, number.type).bitwidth, type_.bitwidth
    if before != after:
        extend = arith.ExtSIOp if x.is_signed else arith.ExtUIOp
        op_type = extend if before < after else arith.TruncIOp
        number = integer_op(builder, op_type, (number,), type_)
    if not is_corrected or not x.zero_point:
        return number
    zero_point = builder.number(x.zero_point, type_)
    return integer_op(builder, arith.SubiOp, (number, zero_point), type_)


def sizes_of(
    builder: LoweringBuilder,
    shape: Sequence[int],
    indices: Sequence[AffineExpr],
    inputs: Sequence[SSAValue],
    maps: Sequence[AffineMap],
) -> Sequence[Size]:
    """
    The sizes of the result of a loop nest.

    Args:
        builder: where the sizes are read from operands that have dynamic ones.
        shape: the static sizes.
        indices: the indices of an element of the result in terms of the loops.
        inputs: the operands.
        maps: the indices of an element of each operand.

    Raises:
        Unsupported: if no operand has a dynamic size.
    """
    sizes: list[Size] = [*shape]
    for position, index in enumerate(indices):
        if shape[position] != DYNAMIC_INDEX:
            continue
        for value, map_ in zip(inputs, maps, strict=True):
            if index in map_.results:
                sizes[position] = builder.size(value, map_.results.index(index))
                break
        else:
            raise Unsupported("a result has a size that no operand has")
    return sizes


def loop_axis(tensor: Integers, indices: Sequence[AffineExpr]) -> int | None:
    """
    The loop that the scales of a tensor belong to.

    Raises:
        Unsupported: if there is none.
    """
    if tensor.axis is None or len(tensor.scales) == 1:
        return None
    index = indices[tensor.axis]
    if not isinstance(index, AffineDimExpr):
        raise Unsupported(f"scales change along dimension {tensor.axis}")
    return index.position


def product_of(
    a: Integers, b: Integers, value: SSAValue, largest: int, count: int, weight: int = 0
) -> Integers:
    """
    What is known of a sum of products.

    Args:
        a: the left factor.
        b: the right factor.
        value: the sums.
        largest: no sum has a greater absolute value.
        count: how many products are added.
        weight: no sum of the absolute values of right factors is greater; unset, it is
            not known.
    """
    axis, (scales, others) = aligned_scales([a, b])
    left = a.largest * a.scale
    right = (weight or count * b.largest) * b.scale

    def spread(of_a: Fraction, of_b: Fraction) -> Fraction:
        """How far sums may be apart if factors may be."""
        return of_a * right + count * of_b * (left + of_a)

    return Integers(
        value,
        tuple(s * t for s, t in zip(scales, others, strict=True)),
        axis,
        0,
        -largest,
        largest,
        error=spread(a.error, b.error),
        difference=spread(a.difference, b.difference),
    )
