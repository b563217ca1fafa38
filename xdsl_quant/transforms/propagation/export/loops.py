"""Build loops over integer tensors: arithmetic on scaled integers, and rescaling."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from math import isinf
from typing import Any, TypeAlias, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.machines.arith import Condition, IntegerExpression, type_for
from xdsl_quant.numerics.primitives import stored_values
from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    LoweringBuilder,
    Size,
    dimensions,
    shape_of,
)
from xdsl_quant.unsupported import Unsupported

from .integers import (
    HALF,
    MULTIPLIER_BITS,
    Integers,
    StoredRange,
    aligned_scales,
    common_scale,
    multiplier_and_shift,
    round_half_up,
)

_LEAST_MULTIPLIER_BITS = 8

_FINE = 1 << 15
"""Minimum of `Integers.largest` for which a constant may be rounded to their scale."""

ScaledNumber: TypeAlias = Integers | float
"""A scaled element, or a constant real number."""


class StoredInteger(IntegerExpression):
    """Element of a tensor, unsigned if its bounds require it."""

    def as_type(self, type_: IntegerType) -> SSAValue:
        width = cast(IntegerType, self.value.type).bitwidth
        if width < type_.bitwidth and self.bounds[1] >= 1 << width - 1:
            return self.builder.op(arith.ExtUIOp, (self.value,), type_)
        return super().as_type(type_)


@dataclass(eq=False)
class IntegerLoop:
    """`linalg.generic` under construction; each iteration computes one element."""

    builder: LoweringBuilder
    rank: int
    block: Block = field(default_factory=Block)
    inputs: list[SSAValue] = field(default_factory=list[SSAValue])
    maps: list[AffineMap] = field(default_factory=list[AffineMap])
    rescales: int = 0
    """Number of rescales with rounding so far."""

    _parameters: dict[tuple[int | None, ...], IntegerExpression] = field(
        default_factory=dict[tuple[int | None, ...], IntegerExpression]
    )

    def __post_init__(self) -> None:
        self.inner = self.builder.at_end(self.block)

    # Operands and the result

    def argument(self, value: SSAValue, indices: Sequence[AffineExpr]) -> SSAValue:
        """Add an operand to the loop and return its element."""
        self.inputs.append(value)
        self.maps.append(AffineMap(self.rank, 0, tuple(indices)))
        type_ = scalar_or_element_type(value.type)
        argument = self.block.insert_arg(type_, len(self.block.args))
        argument.name_hint = "in"
        return argument

    def element(self, tensor: Integers, indices: Sequence[AffineExpr]) -> Integers:
        """
        Return the element of a tensor of scaled integers.

        Raises:
            Unsupported: if its scales do not belong to a single loop.
        """
        argument = self.argument(tensor.value, indices)
        axis = loop_axis(tensor, indices)
        return replace(tensor.with_result(argument, tensor.bounds), axis=axis)

    def parameter(
        self, numbers: Sequence[int], axis: int | None
    ) -> IntegerExpression | int:
        """Return the number for an index of the loop `axis`, or the only number."""
        if len({*numbers}) == 1:
            return numbers[0]
        key = (axis, *numbers)
        if key not in self._parameters:
            bounds = min(numbers), max(numbers)
            container = TensorType(type_for(bounds), [len(numbers)])
            attribute = DenseIntOrFPElementsAttr.from_list(container, numbers)
            tensor = self.builder.constant(attribute, container)
            value = self.argument(tensor, [AffineDimExpr(cast(int, axis))])
            self._parameters[key] = IntegerExpression(self.inner, value, bounds)
        return self._parameters[key]

    def finished(
        self,
        result: Integers,
        shape: Sequence[int],
        indices: Sequence[AffineExpr] | None = None,
    ) -> Integers:
        """Build the op and return its result; iterations write elements to `indices`."""
        indices = dimensions(range(self.rank)) if indices is None else indices
        number, fitting = result.value, type_for(result.bounds)
        if cast(IntegerType, number.type).bitwidth > fitting.bitwidth:
            number = self.number(result).as_type(fitting)
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

    def number(self, x: Integers) -> IntegerExpression:
        """Return a scaled integer as an expression, without its scale."""
        return StoredInteger(self.inner, x.value, x.bounds)

    def _corrected(self, x: Integers) -> Integers:
        """Convert a number to a zero point of 0."""
        return replace(_with_number(x, self.number(x) - x.zero_point), zero_point=0)

    def with_scale(self, x: Integers, scale: Fraction) -> Integers:
        """Convert a number to a given scale and a zero point of 0."""
        x = self._corrected(x)
        factors = [round_half_up(s / scale) for s in x.scales]
        lost = max(abs(s - f * scale) for s, f in zip(x.scales, factors, strict=True))
        number = self.number(x) * self.parameter(factors, x.axis)
        error = x.error + x.largest * lost
        return replace(_with_number(x, number), scales=(scale,), axis=None, error=error)

    def _aligned(self, *values: Integers) -> Sequence[Integers]:
        """Convert numbers to a common scale and zero point."""
        first = values[0]
        same = [y for x in values if (y := x.with_scale_of(first)) is not None]
        if len(same) < len(values):
            scale = common_scale(values)
            return [self.with_scale(x, scale) for x in values]
        if all(x.zero_point == first.zero_point for x in same):
            return same
        return [self._corrected(x) for x in same]

    def constant(self, number: Fraction, like: Integers) -> Integers:
        """
        Convert a real number to an integer with the parameters of `like`, or with a
        scale of its own if the scale of `like` is too coarse.
        """
        scales, axis, zero_point = like.scales, like.axis, like.zero_point
        if like.largest < _FINE and any((number / s).denominator > 1 for s in scales):
            scales, axis, zero_point = (Fraction(1, number.denominator),), None, 0
        integers = [round_half_up(number / s) + zero_point for s in scales]
        error = max(
            abs((n - zero_point) * s - number)
            for n, s in zip(integers, scales, strict=True)
        )
        bounds = min(integers), max(integers)
        value = self.parameter(integers, axis)
        value = (
            self.inner.number(value, type_for(bounds))
            if isinstance(value, int)
            else value.value
        )
        return Integers(scales, axis, zero_point, bounds, value, error=error)

    # Ops on elements

    def add(self, a: ScaledNumber, b: ScaledNumber) -> ScaledNumber:
        if not isinstance(a, Integers):
            a, b = b, a
        if not isinstance(a, Integers):
            return a + cast(float, b)
        if not isinstance(b, Integers):
            b = self.constant(_fraction(b), a)
        a, b = self._aligned(self._corrected(a), self._corrected(b))
        return _combination(self.number(a) + self.number(b), a, b, sum)

    def negate(self, x: ScaledNumber) -> ScaledNumber:
        if not isinstance(x, Integers):
            return -x
        x = self._corrected(x)
        return _with_number(x, -self.number(x))

    def subtract(self, a: ScaledNumber, b: ScaledNumber) -> ScaledNumber:
        return self.add(a, self.negate(b))

    def multiply(self, a: ScaledNumber, b: ScaledNumber) -> ScaledNumber:
        if not isinstance(a, Integers):
            a, b = b, a
        if not isinstance(a, Integers):
            return a * cast(float, b)
        if isinstance(b, Integers):
            a, b = self._corrected(a), self._corrected(b)
            number = self.number(a) * self.number(b)
            return product_of(a, b, _with_number(a, number), 1, b.largest)
        if not (factor := _fraction(b)):
            return 0.0
        if factor < 0:
            a = cast(Integers, self.negate(a))
        # The integers do not change, only the scale does.
        return replace(
            a,
            scales=tuple(abs(factor) * scale for scale in a.scales),
            error=abs(factor) * a.error,
            difference=abs(factor) * a.difference,
        )

    def extreme(
        self, a: ScaledNumber, b: ScaledNumber, *, is_maximum: bool
    ) -> ScaledNumber:
        """Return the maximum or minimum of two numbers."""
        if not isinstance(a, Integers):
            a, b = b, a
        if not isinstance(a, Integers):
            return max(a, cast(float, b)) if is_maximum else min(a, cast(float, b))
        if not isinstance(b, Integers):
            b = self.constant(clamp_to_other_range(b, a, is_maximum=is_maximum), a)
        a, b = self._aligned(a, b)
        order = IntegerExpression.maximum if is_maximum else IntegerExpression.minimum
        return _combination(order(self.number(a), self.number(b)), a, b, max)

    def absolute(self, x: ScaledNumber) -> ScaledNumber:
        if not isinstance(x, Integers):
            return abs(x)
        return self.extreme(x, self.negate(x), is_maximum=True)

    def select(self, condition: SSAValue, a: ScaledNumber, b: ScaledNumber) -> Integers:
        """Build the selection of `a` if the condition holds, else `b`."""
        if not isinstance(a, Integers):
            if not isinstance(b, Integers):
                raise Unsupported("both alternatives of 'arith.select' are constant")
            a = self.constant(_fraction(a), b)
        elif not isinstance(b, Integers):
            b = self.constant(_fraction(b), a)
        a, b = self._aligned(a, b)
        choice = Condition(self.inner, condition)
        return _combination(choice.chosen(self.number(a), self.number(b)), a, b, max)

    # Ports

    def clamped(self, x: Integers, port: StoredRange) -> Integers:
        """Clamp a number to the range of a type, keeping its scale."""
        _, (scales, port_scales) = aligned_scales(x, port)
        ends: list[list[int]] = []
        error = Fraction(0)
        for end in port.bounds:
            exact = [(end - port.zero_point) * s for s in port_scales]
            integers = [
                round_half_up(e / s) for e, s in zip(exact, scales, strict=True)
            ]
            ends.append([n + x.zero_point for n in integers])
            lost = (
                abs(n * s - e) for n, s, e in zip(integers, scales, exact, strict=True)
            )
            error = max(error, *lost)
        lows, highs = ends
        if max(lows) <= x.bounds[0] and x.bounds[1] <= min(highs):
            return x
        axis = x.axis if len(x.scales) > 1 else port.axis
        number = self.number(x).clipped(
            self.parameter(lows, axis), self.parameter(highs, axis)
        )
        return replace(_with_number(x, number), error=x.error + error)

    def rescaled(self, x: Integers, port: StoredRange) -> Integers:
        """
        Requantize a number to a type with one multiplication, shift and rounding.

        Raises:
            Unsupported: if the ratio of scales is out of range, or the accumulated
                error exceeds a quarter of a stored unit.
        """
        axis, (scales, port_scales) = aligned_scales(x, port)
        ratios = [s / p for s, p in zip(scales, port_scales, strict=True)]
        number = self.number(x) - x.zero_point
        lost = rounding = Fraction(0)
        if any(ratio != 1 for ratio in ratios):
            pairs = _multiplier_pairs(x, ratios)
            product = number * self.parameter([m for m, _ in pairs], axis)
            # Add the half after the first part of the shift, so that no sum overflows.
            halves = product >> self.parameter([s - 1 for _, s in pairs], axis)
            number = (halves + 1) >> 1
            for ratio, scale, (m, s) in zip(ratios, port_scales, pairs, strict=True):
                reach = min(x.largest, (port.largest + 1) / ratio)
                lost = max(lost, reach * abs(Fraction(m, 1 << s) - ratio) * scale)
            rounding = HALF * max(port_scales)
            self.rescales += 1
        is_exact = not x.error and x.largest <= 1 << 32
        if not is_exact and x.error + lost > min(port_scales) / 4:
            raise Unsupported(
                "rounding a sum costs more than a quarter of a stored unit"
            )
        stored = cast(Any, stored_values)(number, port.zero_point, *port.bounds)
        return replace(
            port.integers(stored.as_type(port.type.signless_storage_type)),
            axis=axis if len(port.scales) > 1 else None,
            difference=x.difference,
            rounding=x.error + lost + rounding,
        )


_MAXIMUM = partial(IntegerLoop.extreme, is_maximum=True)
_MINIMUM = partial(IntegerLoop.extreme, is_maximum=False)

ELEMENTWISE: Mapping[str, Callable[..., ScaledNumber]] = {
    "arith.addf": IntegerLoop.add,
    "arith.maximumf": _MAXIMUM,
    "arith.maxnumf": _MAXIMUM,
    "arith.minimumf": _MINIMUM,
    "arith.minnumf": _MINIMUM,
    "arith.mulf": IntegerLoop.multiply,
    "arith.negf": IntegerLoop.negate,
    "arith.select": IntegerLoop.select,
    "arith.subf": IntegerLoop.subtract,
    "math.absf": IntegerLoop.absolute,
}
"""Methods that build float ops as integer arithmetic, by op name."""


def loop_over(
    builder: LoweringBuilder, tensor: Integers
) -> tuple[IntegerLoop, Integers]:
    """Return a loop over a tensor, and the element of an iteration."""
    rank = len(shape_of(tensor.value))
    loop = IntegerLoop(builder, rank)
    return loop, loop.element(tensor, dimensions(range(rank)))


def _with_number(x: Integers, number: IntegerExpression) -> Integers:
    return replace(x, value=number.value, bounds=number.bounds)


def _combination(
    number: IntegerExpression,
    a: Integers,
    b: Integers,
    both: Callable[[Iterable[Fraction]], Fraction | int],
) -> Integers:
    """Return a number computed from `a` and `b`; `both` combines their error bounds."""
    error, difference = both((a.error, b.error)), both((a.difference, b.difference))
    return replace(
        _with_number(a, number), error=Fraction(error), difference=Fraction(difference)
    )


def _fraction(number: float) -> Fraction:
    if isinf(number):
        raise Unsupported("a constant is infinite")
    return Fraction(number)


def clamp_to_other_range(number: float, x: Integers, *, is_maximum: bool) -> Fraction:
    """
    Clamp the constant operand of a maximum or minimum with `x`: to the lower end of the
    range of `x` for a maximum, else to the upper end. This does not change the result.

    Raises:
        Unsupported: if the result would always be infinite.
    """
    ends = [(b - x.zero_point) * s for b in x.bounds for s in x.scales]
    order, end = (max, min(ends)) if is_maximum else (min, max(ends))
    if isinf(number):
        if (number > 0) == is_maximum:
            raise Unsupported("a constant is infinite")
        return end
    return order(Fraction(number), end)


def _multiplier_pairs(
    x: Integers, ratios: Sequence[Fraction]
) -> Sequence[tuple[int, int]]:
    """
    Return multipliers and shifts for ratios. Products with `x` fit in 63 bits.

    Raises:
        Unsupported: if that leaves too few bits for a multiplier.
    """
    bits = MULTIPLIER_BITS
    if x.largest > 1 << 32:
        bits = min(bits, 62 - x.largest.bit_length())
    if bits < _LEAST_MULTIPLIER_BITS:
        raise Unsupported("integers are too wide for a multiplier")
    return [multiplier_and_shift(ratio, bits) for ratio in ratios]


def sizes_of(
    builder: LoweringBuilder,
    shape: Sequence[int],
    indices: Sequence[AffineExpr],
    inputs: Sequence[SSAValue],
    maps: Sequence[AffineMap],
) -> Sequence[Size]:
    """
    Return the sizes of the result of a loop nest.

    Args:
        builder: builder of the ops that read dynamic sizes.
        shape: the static sizes.
        indices: the indices of a result element, as expressions of loop indices.
        inputs: the operands.
        maps: maps from loop indices to the indices of each operand's element.

    Raises:
        Unsupported: if a dynamic size of the result is not the size of an operand.
    """

    def size_of(index: AffineExpr) -> Size:
        for value, map_ in zip(inputs, maps, strict=True):
            if index in map_.results:
                return builder.size(value, map_.results.index(index))
        raise Unsupported("a dynamic size of a result is unknown")

    return [
        size_of(index) if size == DYNAMIC_INDEX else size
        for size, index in zip(shape, indices, strict=True)
    ]


def loop_axis(tensor: Integers, indices: Sequence[AffineExpr]) -> int | None:
    """
    Return the loop along which a tensor's scales vary, or `None` for one scale.

    Raises:
        Unsupported: if the scales do not belong to a single loop.
    """
    if tensor.axis is None or len(tensor.scales) == 1:
        return None
    index = indices[tensor.axis]
    if not isinstance(index, AffineDimExpr):
        raise Unsupported(f"scales change along dimension {tensor.axis}")
    return index.position


def product_of(
    a: Integers, b: Integers, result: Integers, count: int, weight: int
) -> Integers:
    """
    Return a sum of products with its scale and error bounds.

    Args:
        a: the left factor.
        b: the right factor.
        result: the sums.
        count: the number of terms.
        weight: upper bound on the sum of the absolute values of the right factors.
    """
    axis, (scales, others) = aligned_scales(a, b)
    left = a.largest * a.scale
    right = weight * b.scale

    def spread(of_a: Fraction, of_b: Fraction) -> Fraction:
        """Return a bound on the deviation of the sum, given bounds for both factors."""
        return of_a * right + count * of_b * (left + of_a)

    return Integers(
        tuple(s * t for s, t in zip(scales, others, strict=True)),
        axis,
        0,
        result.bounds,
        result.value,
        error=spread(a.error, b.error),
        difference=spread(a.difference, b.difference),
    )
