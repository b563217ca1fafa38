"""
Expressions as TOSA ops on tensors.

Formulas have unbounded integers; TOSA ops compute in 32 bits, or in 64 bits for `i64`
operands. Intermediate results that may exceed 32 bits are rejected, except inside
primitives that `FORMS` implements. Ops are built lazily, when their value is first used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property, partial, reduce
from operator import mul
from typing import Any, NamedTuple, Self, SupportsIndex, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray
from xdsl.dialects import tosa
from xdsl.dialects.builtin import AnyFloat, BoolAttr, f16, f32, i1, i8, i16, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.frontends.tflite.formulas.fixed_point import Integers, Multiplier
from xdsl_quant.frontends.tflite.formulas.quantized import Quantized
from xdsl_quant.frontends.tosa import ops as tosa_ops
from xdsl_quant.machines.arrays import ARRAY_FORMS, ArrayExpression, Axis, Forms
from xdsl_quant.machines.expression import (
    ANY_INTEGER,
    FUNCTIONS,
    NO_FORM,
    Bounds,
    Direction,
    Expression,
    FloatBounds,
    Integer,
    IntegerOperation,
    Number,
    Real,
    RealNumber,
    Truth,
    are_within,
    bounds_of,
    signed_bounds,
)
from xdsl_quant.numerics.primitives import Array
from xdsl_quant.runtime.arrays import numpy_dtype
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .building import Operand, TosaBuilder, i48, is_unsigned, lowered_type, per_tensor
from .positions import Positions, positions_of, take_positions

INT32 = signed_bounds(32)

_INTEGER_OPS: Mapping[IntegerOperation, type[Operation]] = {
    "add": tosa.AddOp,
    "and": tosa_ops.BitwiseAndOp,
    "divide": tosa_ops.IntDivOp,
    "maximum": tosa_ops.MaximumOp,
    "minimum": tosa_ops.MinimumOp,
    "left_shift": tosa_ops.LogicalLeftShiftOp,
    "right_shift": tosa_ops.ArithmeticRightShiftOp,
    "subtract": tosa.SubOp,
}

_FLOAT_OPS: Mapping[str, type[Operation]] = {
    "absolute": tosa_ops.AbsOp,
    "add": tosa.AddOp,
    "ceil": tosa_ops.CeilOp,
    "cos": tosa.CosOp,
    "erf": tosa_ops.ErfOp,
    "exp": tosa_ops.ExpOp,
    "floor": tosa_ops.FloorOp,
    "log": tosa_ops.LogOp,
    "maximum": tosa_ops.MaximumOp,
    "minimum": tosa_ops.MinimumOp,
    "power": tosa_ops.PowOp,
    "reciprocal": tosa.ReciprocalOp,
    "sin": tosa.SinOp,
    "subtract": tosa.SubOp,
    "tanh": tosa_ops.TanhOp,
}

_LOGICAL_OPS: Mapping[str, type[Operation]] = {
    "and": tosa_ops.LogicalAndOp,
    "or": tosa_ops.LogicalOrOp,
    "xor": tosa_ops.LogicalXorOp,
}

_COMPARISONS: Mapping[Direction, type[Operation]] = {
    "eq": tosa_ops.EqualOp,
    "ne": tosa_ops.EqualOp,
    "gt": tosa_ops.GreaterOp,
    "lt": tosa_ops.GreaterOp,
    "ge": tosa_ops.GreaterEqualOp,
    "le": tosa_ops.GreaterEqualOp,
}

FORMS = Forms(ARRAY_FORMS)
"""TOSA forms: functions that build TOSA ops, by NumPy function or name of a primitive."""

FORMS.update((f, FUNCTIONS[f]) for f in (np.clip, np.where))

tosa_form = FORMS.implements


def definition(primitive: Callable[..., Any]) -> Callable[..., Any]:
    """Return the Python definition of a primitive, for operands without a TOSA form."""
    return cast(Any, primitive).__wrapped__


class TosaTensor(ArrayExpression, Expression):
    """Tensor whose ops are built when it is first used."""

    FORMS = FORMS

    bounds: tuple[Any, Any]

    view: tuple[TosaTensor, Positions] | None = None
    """Source tensor and element positions, if this tensor is a view."""

    biased: Callable[[SSAValue], SSAValue] | None = None
    """Function that rebuilds a sum of products with a per-channel bias, or `None`."""

    def __init__(
        self,
        builder: TosaBuilder,
        build: Callable[[], SSAValue],
        shape: Sequence[int],
        element_type: Attribute,
        bounds: tuple[Any, Any] | None = None,
    ):
        """
        Create a tensor whose ops are built on first use.

        Args:
            builder: builder of the ops.
            build: function that builds the elements, or at least their lowest bits.
            shape: shape of the tensor.
            element_type: type of the built elements.
            bounds: range of the elements, if known.
        """
        self.builder = builder
        self.shape = tuple(shape)
        self.element_type = element_type
        self._build = build
        if bounds is not None:
            self.bounds = bounds

    @cached_property
    def native(self) -> SSAValue:
        """Elements of type `element_type`."""
        return self._build()

    @property
    def value(self) -> SSAValue:
        """Elements, converted to the type in which ops compute, e.g. `i32`."""
        return self.native

    def stored_as(self, element_type: Attribute, offset: int = 0) -> SSAValue:
        """Return the elements minus an offset, as elements of the given type."""
        if element_type != self.element_type:
            raise Unsupported(
                f"has results of '{self.element_type}', expected '{element_type}'"
            )
        return self.native

    def like(self, build: Callable[[], SSAValue], shape: Sequence[int]) -> Self:
        result = type(self)(self.builder, build, shape, self.element_type, self.bounds)
        result.dtype = self.dtype
        return result

    def take(self, positions: Positions) -> Self:
        """Return the elements at flat positions, in the shape of `positions`."""
        if self.view is not None:
            source, own = self.view
            return cast("Self", source.take(own.ravel()[positions]))

        def build() -> SSAValue:
            return take_positions(self.builder, self.native, positions)

        result = self.like(build, positions.shape)
        result.view = self, positions
        return result

    @property
    def channel_view(self) -> tuple[TosaTensor, Positions] | None:
        """`view` if elements have the same channel in its source; otherwise `None`."""
        if self.view is None:
            return None
        source, positions = self.view
        channels = positions_of(source.shape[-1:])
        are_same = self.shape[-1:] == source.shape[-1:] and bool(
            (positions % channels.size == channels).all()
        )
        return self.view if are_same else None

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> Any:
        if method == "__call__" and not kwargs and ufunc in FORMS:
            return FORMS[ufunc](*inputs)
        lifted = [lift_array(self.builder, x) for x in inputs]
        return super().__array_ufunc__(ufunc, method, *lifted, **kwargs)

    def _with_bias(self, bias: object) -> Self | None:
        """Return sums of products with a fused per-channel bias; `None` if impossible."""
        if not isinstance(bias, np.ndarray | TosaTensor) or bias.ndim != 1:
            return None
        if (view := self.channel_view) is not None:
            source, positions = view
            result = source._with_bias(cast("Array", bias))
            return None if result is None else cast("Self", result.take(positions))
        if (biased := self.biased) is None:
            return None
        numbers = lift_array(self.builder, cast("Array", bias))
        return self.like(
            lambda: biased(numbers.stored_as(self.element_type)), self.shape
        )

    def compared(self, direction: Direction, other: object) -> Truth:
        """Build a comparison, in `f32` if one operand is a float."""
        builder, shape = self.builder, shape_of_all(self, other)
        type_ = _element_type_of(self, other)

        def build() -> SSAValue:
            pair = [operand(number, self, type_) for number in (self, other)]
            if direction in ("lt", "le"):
                pair.reverse()
            value = builder.binary(_COMPARISONS[direction], *pair, result_type=i1)
            if direction == "ne":
                value = builder.tosa(tosa_ops.LogicalNotOp, (value,), shape, i1)
            return value

        return TosaTruth(builder, build, shape, i1)


def lift_array(builder: TosaBuilder, number: Any) -> Any:
    """Convert an array to an expression; return other values unchanged."""
    if not isinstance(number, np.ndarray) or not number.ndim:
        return cast(Any, number)
    array = cast("Array", number)
    if array.dtype == np.bool_:
        return TosaTruth(builder, partial(builder.array, array, i1), array.shape, i1)
    if array.dtype.kind != "f":
        return KnownInteger(builder, array)
    build = partial(builder.array, array.astype(np.float32), f32)
    bounds = float(array.min()), float(array.max())
    return TosaReal(builder, build, array.shape, f32, bounds)


def split_constant(x: TosaTensor) -> tuple[TosaTensor, int]:
    """Split `tensor + constant`; the constant is 0 for other tensors."""
    if isinstance(x, TosaInteger) and x.linear is not None and x.linear[1] == 1:
        return x.linear[0], x.linear[2]
    return x, 0


def add_constant(x: TosaTensor, constant: int) -> TosaTensor:
    """Add a constant to a tensor of integers; return other tensors unchanged."""
    return x + constant if isinstance(x, TosaInteger) else x


def shape_of_all(*numbers: object) -> tuple[int, ...]:
    """Return the shape to which operands broadcast."""
    shapes = [number.shape for number in numbers if isinstance(number, TosaTensor)]
    return np.broadcast_shapes(*shapes)


def operand(
    number: object, like: TosaTensor, element_type: Attribute, is_checked: bool = True
) -> SSAValue:
    """
    Return an operand of a broadcasting op.

    Args:
        number: tensor, or constant number.
        like: tensor with the builder and the rank to use.
        element_type: type that the op computes in.
        is_checked: reject integers that exceed 32 bits; False for ops that need only
            the lowest bits.
    """
    if isinstance(number, TosaTruth) and element_type != i1:
        number = number.number
    if isinstance(number, TosaInteger) and element_type == f32:
        number = number.as_float(f32)
    if isinstance(number, TosaInteger) and not is_checked:
        return like.builder.cast_elements(number.low, element_type)
    if isinstance(number, TosaTensor):
        return like.builder.cast_elements(number.value, element_type)
    if element_type == i32:
        number = (int(cast(SupportsIndex, number)) + (1 << 31)) % (1 << 32) - (1 << 31)
    return like.builder.array(
        np.full((1,) * like.ndim, cast(float, number)), element_type
    )


def _element_type_of(*numbers: object) -> Attribute:
    if any(isinstance(x, TosaReal) for x in numbers):
        return f32
    wide = any(isinstance(x, TosaInteger) and x.element_type == i64 for x in numbers)
    return i64 if wide else i32


class TosaTruth(Truth, TosaTensor):
    """Tensor of truth values."""

    dtype = np.dtype(np.bool_)

    def _logical(self, operation: str, other: object) -> TosaTruth:
        def build() -> SSAValue:
            if operation == "xor" and other is True:
                op_type = tosa_ops.LogicalNotOp
                return self.builder.tosa(op_type, (self.value,), self.shape, i1)
            operands = self.value, operand(other, self, i1)
            return self.builder.binary(_LOGICAL_OPS[operation], *operands)

        return TosaTruth(self.builder, build, shape_of_all(self, other), i1)

    @property
    def number(self) -> TosaInteger:
        def build() -> SSAValue:
            return self.builder.cast_elements(self.value, i32)

        return TosaInteger(self.builder, build, self.shape, i32, (0, 1))

    def astype(self, dtype: DTypeLike) -> TosaTensor:
        """Convert to 0 and 1 unless the dtype is boolean."""
        return self if np.dtype(dtype) == np.bool_ else self.number.astype(dtype)

    def chosen(self, a: Any, b: Any) -> Any:
        return FORMS["chosen"](self, a, b)


class FusibleOps(NamedTuple):
    """Last operations that computed an integer tensor, for fusion with later operations."""

    shifted: tuple[TosaInteger, int] | None = None
    """Shifted tensor and number of bits, if the last operation is a left shift."""

    rescale: TosaRescaling | None = None
    """Multiplication and right shift."""

    saturated: tuple[TosaRescaling, int, int, int] | None = None
    """Multiplication and right shift; then the added zero point, lower and upper bound."""

    nearest: TosaReal | None = None
    """Float operand, if the last operation rounds floats half to even."""


class TosaRescaling(NamedTuple):
    """Multiplication and right shift, as by `tosa.rescale`."""

    x: TosaInteger

    value: int | Array
    """Multiplier, per-tensor or for each index of the last dimension."""

    shift: int | Array

    is_wide: bool = False
    """True for 48-bit sums, which have a 16-bit multiplier and are rounded once."""

    @classmethod
    def by(
        cls, x: TosaInteger, multiplier: Multiplier, is_wide: bool = False
    ) -> TosaRescaling:
        return cls(x, multiplier[0], 31 - multiplier[1], is_wide)

    @property
    def is_valid(self) -> bool:
        """True if TOSA defines the result of the rescale."""
        shift = min(int(np.min(self.shift)), 31)
        limit = 1 << (shift - 1) if shift > 1 else 0
        low, high = self.x.bounds
        is_short = np.max(self.shift) <= 62
        return is_short and np.min(self.value) >= 0 and -limit <= low and high < limit

    def build(
        self, builder: TosaBuilder, element_type: Attribute = i32, output_zp: int = 0
    ) -> SSAValue:
        """Build the op, which adds the zero point and saturates."""
        if (view := self.x.channel_view) is not None:
            source, positions = view
            rescaling = self._replace(x=cast(TosaInteger, source))
            stored = rescaling.build(builder, element_type, output_zp)
            return take_positions(builder, stored, positions)
        multiplier = Multiplier(self.value, 31 - self.shift)
        x, factor, constant = self.x.linear or (self.x, 1, 0)
        is_stored = x.element_type == i8 or (x.element_type == i16 and not constant)
        if factor != 1 or not (is_stored or self.is_wide):
            value, constant = self.x.value, 0
        else:
            value = x.native
        return builder.rescale(value, multiplier, element_type, -constant, output_zp)

    def expression(self, bounds: Bounds | None = None) -> TosaInteger:
        builder = self.x.builder
        if bounds is None:
            factor = np.max(self.value / 2.0**self.shift)
            low, high = (math.floor(bound * factor) for bound in self.x.bounds)
            bounds = max(min(low, 0) - 1, INT32[0]), min(max(high, 0) + 2, INT32[1])
        build = partial(self.build, builder)
        result = TosaInteger(builder, build, self.x.shape, i32, bounds)
        result.parts = FusibleOps(rescale=self)
        return result


class TosaInteger(TosaTensor, Integer):
    """Tensor of integers."""

    is_lazy = True
    dtype = np.dtype(np.int64)
    parts = FusibleOps()

    @classmethod
    def stored(cls, operand: Operand) -> TosaInteger:
        """Return the stored values or integer elements of an operand."""
        value, (low, high) = operand.value, operand.bounds
        offset = 128 if is_unsigned(operand.type) else 0
        bounds = low - offset, high - offset
        type_, shape = element_type_of(value), shape_of(value)
        return cls(operand.builder, lambda: value, shape, type_, bounds) + offset

    def take(self, positions: Positions) -> TosaInteger:
        if self.linear is None:
            return super().take(positions)
        base, factor, constant = self.linear
        moved = base.take(positions)
        return moved + constant if factor == 1 else constant - moved

    @cached_property
    def low(self) -> SSAValue:
        """Lowest 32 bits as `i32`; `i64` elements are returned unchanged."""
        if self.element_type == i48:
            # The factor 1 as a 31-bit multiplier, which `rescaled` reduces to 16 bits.
            return self.builder.rescale(self.native, Multiplier(1 << 30, 31 - 30), i32)
        type_ = i64 if self.element_type == i64 else i32
        return self.builder.cast_elements(self.native, type_)

    @property
    def value(self) -> SSAValue:
        """
        Elements as `i32`, or unchanged if they are `i64`.

        Raises:
            Unsupported: if they exceed 32 bits.
        """
        if not fits_i32(self.bounds) and not self.builder.assumes_32_bits:
            raise Unsupported(
                f"has values from {self.bounds[0]} to {self.bounds[1]}, which need "
                "more than 32 bits"
            )
        return self.low

    def _combined(
        self, operation: IntegerOperation, lhs: Number, rhs: Number, bounds: Bounds
    ) -> TosaInteger:
        builder, type_ = self.builder, _element_type_of(lhs, rhs)
        if ANY_INTEGER in (bounds_of(lhs), bounds_of(rhs)):
            bounds = ANY_INTEGER

        def build() -> SSAValue:
            # Low result bits of all other ops depend only on low operand bits.
            is_checked = operation in ("maximum", "minimum", "right_shift", "divide")
            values = [operand(x, self, type_, is_checked) for x in (lhs, rhs)]
            if operation == "multiply":
                return product(builder, values[0], values[1])
            properties: dict[str, Attribute] = {}
            if operation == "right_shift":
                properties["round"] = BoolAttr.from_bool(False)
            if operation not in _INTEGER_OPS:
                raise Unsupported(f"requires '{operation}', unsupported in TOSA")
            op_type = _INTEGER_OPS[operation]
            return builder.binary(op_type, values[0], values[1], **properties)

        return TosaInteger(builder, build, shape_of_all(lhs, rhs), type_, bounds)

    # Operators

    def arithmetic(self, name: IntegerOperation, lhs: Number, rhs: Number) -> Any:
        other = rhs if lhs is self else lhs
        if name == "add":
            return self._sum(other)
        if name == "multiply" and isinstance(other, TosaReal | float):
            return self._scaled(other)
        if name == "subtract" and lhs is self:
            return self._difference(rhs)
        result = super().arithmetic(name, lhs, rhs)
        is_known = not isinstance(rhs, Expression)
        if name == "left_shift" and is_known and result is not self:
            result.parts = FusibleOps(shifted=(self, int(rhs)))
        return result

    def _sum(self, other: Number) -> TosaInteger:
        is_known = not isinstance(other, Expression) or isinstance(other, KnownInteger)
        if self.element_type == i48 and not is_known:
            raise Unsupported("has a non-constant 64-bit bias")
        if (biased := self._with_bias(other)) is not None:
            low, high = bounds_of(other)
            biased.bounds = self.bounds[0] + low, self.bounds[1] + high
            return biased
        return super().arithmetic("add", self, other)

    def _difference(self, other: Number) -> TosaInteger:
        low, high = bounds_of(other)
        if (
            not fits_i32((low, high))
            and fits_i32((-high, -low))
            and fits_i32(self.bounds)
        ):
            # Adding the negated constant does not overflow.
            bounds = self.bounds[0] - high, self.bounds[1] - low
            return self._combined("add", self, -low, bounds)
        return super().arithmetic("subtract", self, other)

    def _scaled(self, factor: TosaReal | float) -> TosaReal:
        if not are_within(self.bounds, signed_bounds(24)):
            raise Unsupported("multiplies integers of more than 24 bits by floats")
        return self.as_float(f32) * factor

    def _quotient(self, lhs: Number, rhs: Number) -> TosaInteger:
        """Divide by a power of two, rounding down."""
        divisor = int(cast(SupportsIndex, rhs))
        if divisor & (divisor - 1):
            raise Unsupported(f"divides by {divisor}, expected a power of two")
        return self >> (divisor.bit_length() - 1)

    def with_bounds(self, bounds: Bounds) -> TosaInteger:
        """Return the same integers with the given bounds."""
        return TosaInteger(self.builder, lambda: self.value, self.shape, i32, bounds)

    def combined(
        self, operation: IntegerOperation, other: TosaInteger, bounds: Bounds
    ) -> TosaInteger:
        """Build a binary op on this and another tensor."""
        return self._combined(operation, self, other, bounds)

    # Functions

    def _own(self, op_type: type[Operation], bounds: Bounds) -> TosaInteger:
        if self.element_type == i64:
            raise Unsupported(NO_FORM)
        if self.bounds == ANY_INTEGER:
            bounds = ANY_INTEGER

        def build() -> SSAValue:
            return self.builder.tosa(op_type, (self.value,), self.shape, i32)

        return TosaInteger(self.builder, build, self.shape, i32, bounds)

    def absolute(self) -> TosaInteger:
        low, high = self.bounds
        return self._own(tosa_ops.AbsOp, (0, max(-low, high)))

    def leading_zeros(self) -> TosaInteger:
        low, high = (32 - bound.bit_length() for bound in reversed(self.bounds))
        return self._own(tosa_ops.ClzOp, (low, high))

    def clipped(self, low: Number, high: Number) -> Self:
        is_known = not isinstance(low, Expression) and not isinstance(high, Expression)
        if not is_known or self.element_type not in (i8, i16):
            return super().clipped(low, high)
        limits = int(cast(SupportsIndex, low)), int(cast(SupportsIndex, high))
        if are_within(self.bounds, limits):
            return self
        result = self.like(lambda: self.builder.clamp(self.native, *limits), self.shape)
        result.bounds = limits
        return result

    def wrapped(self, bits: int = 32) -> TosaInteger:
        bounds = signed_bounds(bits)
        if are_within(self.bounds, bounds):
            return self
        if bits == 32:
            result = TosaInteger(
                self.builder, lambda: self.low, self.shape, i32, bounds
            )
            result.parts = self.parts
            return result
        shifted = (self << (32 - bits)).wrapped(32) >> (32 - bits)
        return TosaInteger(self.builder, lambda: shifted.low, self.shape, i32, bounds)

    def as_float(self, type_: AnyFloat) -> TosaReal:
        if self.element_type == i64:
            raise Unsupported("casts 'i64' to 'f32', which TOSA does not support")

        def build() -> SSAValue:
            return self.builder.cast_elements(self.value, type_)

        low, high = map(float, self.bounds)
        return TosaReal(self.builder, build, self.shape, type_, (low, high))

    def astype(self, dtype: DTypeLike) -> Any:
        """Convert to a dtype; all float dtypes become `f32`."""
        dtype = np.dtype(dtype)
        if dtype.kind == "f":
            return self.as_float(f32)
        if dtype == np.bool_:
            return self != 0
        result = copy(self)
        result.dtype = dtype
        return result

    # Results

    def stored_as(self, element_type: Attribute, offset: int = 0) -> SSAValue:
        builder = self.builder
        if self.linear is not None and self.linear[1:] == (1, offset):
            return self.linear[0].stored_as(element_type)
        if (element_type, 0) == (self.element_type, offset):
            return self.value if element_type == i32 else self.native
        if self.view is not None:
            source, positions = self.view
            return take_positions(
                builder, source.stored_as(element_type, offset), positions
            )
        if self.parts.saturated is not None:
            rescaling, zero_point, low, high = self.parts.saturated
            zero_point -= offset
            if not zero_point or element_type == i8:
                result = rescaling.build(builder, element_type, zero_point)
                return builder.clamp_stored(result, low - offset, high - offset)
        if self.parts.nearest is not None:
            nearest = (
                self.parts.nearest - float(offset) if offset else self.parts.nearest
            )
            return builder.cast_elements(nearest.value, element_type)
        value = (self - offset).value
        if element_type != i64:
            # TOSA casts narrow integers from and to i32.
            value = builder.cast_elements(value, i32)
        return builder.cast_elements(value, element_type)


FORMS.update(
    {"leading_zeros": TosaInteger.leading_zeros, "wrapped": TosaInteger.wrapped}
)


class KnownInteger(TosaInteger):
    """Tensor of constant integers."""

    def __init__(self, builder: TosaBuilder, array: NDArray[Any]):
        bounds = int(array.min()), int(array.max())
        build = partial(self.stored_as, i32)
        super().__init__(builder, build, array.shape, i32, bounds)
        self.array = array.astype(np.int64)
        self.dtype = array.dtype

    def take(self, positions: Positions) -> KnownInteger:
        return KnownInteger(self.builder, self.array.ravel()[positions])

    def plus(self, constant: int, factor: int = 1) -> KnownInteger:
        return KnownInteger(self.builder, factor * self.array + constant)

    def stored_as(self, element_type: Attribute, offset: int = 0) -> SSAValue:
        return self.builder.array(self.array - offset, element_type)


class TosaReal(TosaTensor, Real):
    """
    Tensor of floats, which must have 32 bits for arithmetic.

    Division multiplies by the reciprocal, so results may differ from exactly rounded
    quotients in the last bit.
    """

    dtype = np.dtype(np.float32)

    integer: TosaInteger | None = None
    """The same values as integers, if no element has a fraction."""

    @classmethod
    def of(cls, builder: TosaBuilder, value: SSAValue) -> TosaReal:
        """Return a tensor as an expression."""
        type_ = element_type_of(value)
        result = cls(builder, lambda: value, shape_of(value), type_)
        result.dtype = np.dtype(np.float16 if type_ == f16 else np.float32)
        return result

    @property
    def type(self) -> AnyFloat:
        return cast(AnyFloat, self.element_type)

    @property
    def value(self) -> SSAValue:
        if self.element_type != f32:
            raise Unsupported(f"computes with '{self.element_type}', expected 'f32'")
        return self.native

    def arithmetic(self, name: str, lhs: RealNumber, rhs: RealNumber) -> Self:
        biased = self._with_bias(rhs) if name == "add" and lhs is self else None
        return super().arithmetic(name, lhs, rhs) if biased is None else biased

    def __truediv__(self, other: RealNumber) -> Self:
        if isinstance(other, np.ndarray):
            return self * cast(Any, np.float32(1) / cast("Array", other))
        return super().__truediv__(other)

    def __pow__(self, exponent: int) -> Self:
        """Multiply repeatedly, because `tosa.pow` requires positive bases."""
        return reduce(mul, [self] * exponent)

    def _function(
        self,
        name: str,
        operands: Sequence[RealNumber],
        bounds: FloatBounds,
        may_be_nan: bool,
    ) -> TosaReal:
        build = partial(self._built, name, operands)
        result = TosaReal(self.builder, build, shape_of_all(*operands), f32, bounds)
        if name == "rint":
            result.integer = self.nearest_integer()
        elif name in ("floor", "ceil"):
            result.integer = result.nearest_integer()
        return result

    def _built(self, name: str, operands: Sequence[RealNumber]) -> SSAValue:
        builder = self.builder
        match name:
            case "negative":
                return (self * -1.0).value
            case "sqrt":
                return self.power(0.5).value
            case "expm1":
                return (self.function("exp", self) - 1.0).value
            case "rint":
                return builder.cast_elements(self.nearest_integer().low, f32)
            case "trunc":
                return self.as_integer().as_float(f32).value
            case "divide":
                lhs, rhs = operands
                if not isinstance(rhs, Expression):
                    return (self * (1 / float(rhs))).value
                inverse = self.function("reciprocal", rhs)
                is_one = not isinstance(lhs, Expression) and lhs == 1
                return inverse.value if is_one else (inverse * lhs).value
            case _:
                pass
        values = [operand(x, self, f32) for x in operands]
        if name == "multiply":
            return product(builder, values[0], values[1])
        if name not in _FLOAT_OPS:
            raise Unsupported(f"requires '{name}', unsupported in TOSA")
        op_type = _FLOAT_OPS[name]
        if len(values) == 1:
            return builder.tosa(op_type, values, shape_of(values[0]), f32)
        return builder.binary(op_type, values[0], values[1])

    def clipped(self, low: RealNumber, high: RealNumber) -> TosaReal:
        bounds = float(cast(float, low)), float(cast(float, high))

        def build() -> SSAValue:
            return self.builder.clamp(self.value, *bounds)

        return TosaReal(self.builder, build, self.shape, f32, bounds)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> TosaReal:
        total = self.sum(axis, keepdims)
        return total * (math.prod(total.shape) / math.prod(self.shape))

    def as_float(self, type_: AnyFloat) -> Any:
        if type_ == self.type:
            return self
        value = self.builder.cast_elements(self.native, type_)
        return TosaReal.of(self.builder, value)

    def as_integer(self) -> TosaInteger:
        if self.integer is not None:
            return self.integer
        # `tosa.cast` rounds to the nearest integer.
        down, up = (self.rounded(name) for name in ("floor", "ceil"))
        return (self > 0).chosen(down, up).nearest_integer()

    def nearest_integer(self) -> TosaInteger:
        """Round half to even."""

        def build() -> SSAValue:
            return self.builder.cast_elements(self.value, i32)

        low, high = (int(np.clip(bound, *INT32)) for bound in self.bounds)
        result = TosaInteger(self.builder, build, self.shape, i32, (low, high))
        result.parts = FusibleOps(nearest=self)
        return result

    def astype(self, dtype: DTypeLike) -> Any:
        """Convert to integers or to `f32`."""
        return self.as_float(f32) if np.dtype(dtype).kind == "f" else self.as_integer()


def product(
    builder: TosaBuilder, lhs: SSAValue, rhs: SSAValue, shift: int = 0
) -> SSAValue:
    """Multiply tensors; integers are shifted right and rounded half up."""
    shape = np.broadcast_shapes(shape_of(lhs), shape_of(rhs))
    operands = [builder.with_rank(operand, len(shape)) for operand in (lhs, rhs)]
    type_ = element_type_of(lhs)
    return builder.tosa(tosa.MulOp, (*operands, builder.one(shift, i8)), shape, type_)


def fits_i32(bounds: Bounds) -> bool:
    """Return True if integers fit 32 bits, or have unknown bounds (and may wrap around)."""
    return bounds == ANY_INTEGER or are_within(bounds, INT32)


# Operands and results


def expression_of(
    builder: TosaBuilder, operand: SSAValue, value: SSAValue | None
) -> TosaTensor:
    """Return the converted value of an operand of a `tfl` op as an expression."""
    assert value is not None
    element_type = element_type_of(value)
    if element_type == i1:
        return TosaTruth(builder, lambda: value, shape_of(value), i1)
    if isinstance(element_type, AnyFloat):
        return TosaReal.of(builder, value)
    return TosaInteger.stored(Operand(builder, operand.type, value))


def quantized_operand(operand: Operand) -> Quantized:
    """Pair an operand with its quantization parameters, for formulas."""
    values = cast("Integers", TosaInteger.stored(operand))
    return Quantized(values, per_tensor(operand.type))


def stored_result(value: TosaTensor, type_: Attribute) -> SSAValue:
    """
    Build the elements of an expression as a result of the given `tfl` type.

    Raises:
        Unsupported: if the expression has another element type or shape.
    """
    lowered = lowered_type(type_)
    if value.shape != lowered.get_shape():
        raise Unsupported(
            f"has results of type '{lowered}', expected the shape {[*value.shape]}"
        )
    offset = 128 if is_unsigned(type_) else 0
    return value.stored_as(lowered.element_type, offset)


def stored_results(
    op: Operation, results: Array | tuple[Array, ...]
) -> Sequence[SSAValue | Array]:
    """Build one or several results of an op; constant results are arrays."""
    values = results if isinstance(results, tuple) else (results,)
    return [
        stored_result(value, result.type)
        if isinstance(value, TosaTensor)
        else np.asarray(value).astype(numpy_dtype(result.type))
        for value, result in zip(values, op.results, strict=True)
    ]


# Former name, kept for compatibility.
quantized = quantized_operand
