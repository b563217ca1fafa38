"""Arrays whose elements are known at run time only, and elementwise functions."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray
from xdsl.dialects import arith, tensor
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
    f32,
    i1,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr

from xdsl_quant.machines.arith import (
    Condition,
    FloatExpression,
    IntegerExpression,
    ScalarBuilder,
    type_for,
)
from xdsl_quant.machines.arrays import ARRAY_FORMS, ArrayExpression, Axis, Forms
from xdsl_quant.machines.expression import (
    ANY_INTEGER,
    NO_FORM,
    Bounds,
    Number,
    are_within,
    bounds_of,
    signed_bounds,
)
from xdsl_quant.numerics import primitives
from xdsl_quant.unsupported import Unsupported
from xdsl_quant.xdsl_patches.resources import RESOURCE_BYTES, new_resource

from ..builder import LoweringBuilder, shape_of
from .loops import FLOAT_TYPES, DType, Indices, Loops, Scalar, as_dtype, loops_of

Shape: TypeAlias = tuple[int, ...]

Array: TypeAlias = NDArray[Any]

Value: TypeAlias = "TensorExpression | Array | np.generic | float"
"""Operand of a function: an expression, an array or a number."""

ZERO = AffineConstantExpr(0)

FUNCTIONS = Forms(ARRAY_FORMS)
"""Implementations for expressions, by NumPy function or by name."""

implements = FUNCTIONS.implements


class TensorExpression(ArrayExpression):
    """Array whose elements are known at run time only."""

    FORMS = FUNCTIONS

    builder: LoweringBuilder

    # Elements

    @abstractmethod
    def build_element(self, loops: Loops, indices: Indices) -> Scalar:
        """Build the element at indices, which are affine in the loop indices."""

    def element(self, loops: Loops, indices: Indices) -> Scalar:
        """Return the element at indices, built at most once per loop nest."""
        key = id(self), indices
        if key not in loops.memory:
            loops.memory[key] = self.build_element(loops, indices)
        return loops.memory[key]

    @property
    def is_in_memory(self) -> bool:
        """True if elements are read from memory rather than computed."""
        return False

    @cached_property
    def computed(self) -> InMemoryArray:
        """The same array, materialized in memory."""
        loops = Loops(self.builder)
        scalar = self.element(loops, loops_of(range(self.ndim)))
        return self._with_elements(loops, scalar, memory_type(scalar, self.dtype))

    def _with_elements(
        self, loops: Loops, scalar: Scalar, type_: Attribute
    ) -> InMemoryArray:
        value = as_scalar(loops.builder, scalar, type_)
        tensor_type = TensorType(type_, self.shape)
        output = self.builder.empty(tensor_type, self.shape)
        if 0 in self.shape:
            return InMemoryArray(self.builder, output, self.dtype, (0, 0))
        dimensions = range(self.ndim)
        (result,) = loops.nest(self.shape, [output], dimensions, lambda _: [value])
        return InMemoryArray(self.builder, result, self.dtype, integer_bounds(scalar))

    def tensor(self, element_type: Attribute) -> SSAValue:
        """Materialize the array with a signless element type that holds its bounds."""
        loops = Loops(self.builder)
        scalar = self.element(loops, loops_of(range(self.ndim)))
        return self._with_elements(loops, scalar, element_type).value

    # Interface of NumPy arrays

    def __bool__(self) -> bool:
        raise Unsupported("has a condition that is known only at run time")

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> Any:
        if method != "__call__" or kwargs:
            return NotImplemented
        return FUNCTIONS.get(ufunc, partial(mapped, ufunc))(*inputs)

    def astype(self, dtype: DTypeLike, copy: bool = True) -> TensorExpression:
        """Convert the elements to another dtype."""
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        if (
            isinstance(self, InMemoryArray)
            and self.dtype.kind in "iu"
            and dtype == np.int64
        ):
            return replace(self, dtype=dtype)
        return Mapped(
            self.builder, self.shape, dtype, partial(as_dtype, dtype=dtype), (self,)
        )

    def mean(
        self, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None
    ) -> TensorExpression:
        """Return the means of floats along dimensions."""
        total = self.sum(axis, keepdims, dtype)
        return total / total.dtype.type(self.size / max(total.size, 1))


@dataclass(eq=False)
class InMemoryArray(TensorExpression):
    """Array in memory: a tensor."""

    builder: LoweringBuilder
    value: SSAValue
    """Ranked tensor of a signless type and static shape."""

    dtype: DType
    bounds: Bounds = ANY_INTEGER
    """Bounds of integer elements; elements are unsigned if the bounds require it."""

    def __post_init__(self):
        self.shape = shape_of(self.value)

    @property
    def is_in_memory(self) -> bool:
        return True

    @cached_property
    def computed(self) -> InMemoryArray:
        return self

    def tensor(self, element_type: Attribute) -> SSAValue:
        if cast(TensorType, self.value.type).element_type == element_type:
            return self.value
        return super().tensor(element_type)

    def build_element(self, loops: Loops, indices: Indices) -> Scalar:
        return self.number(loops, loops.load(self.value, indices))

    def number(self, loops: Loops, value: SSAValue) -> Scalar:
        """Convert a scalar read from memory to an expression."""
        builder, type_ = loops.builder, value.type
        if isinstance(type_, AnyFloat):
            return FloatExpression(builder, value)
        if type_ == i1:
            return Condition(builder, value)
        width = cast(IntegerType, type_).bitwidth
        if self.bounds[1] >= 1 << (width - 1):
            value = builder.op(arith.ExtUIOp, (value,), type_for(self.bounds))
        return IntegerExpression(builder, value, self.bounds)


class ConstantArray(InMemoryArray):
    """Array of constants, whose tensor is built on first use."""

    def __init__(self, builder: LoweringBuilder, array: Array):
        self.builder, self.array = builder, array
        self.shape, self.dtype = array.shape, array.dtype
        self.bounds = ANY_INTEGER
        if array.dtype.kind in "iu" and array.size:
            self.bounds = int(array.min()), int(array.max())

    @cached_property
    def value(self) -> SSAValue:  # pyright: ignore[reportIncompatibleVariableOverride] built on first use
        if self.dtype == np.bool_:
            type_: Attribute = i1
        elif self.dtype.kind == "f":
            type_ = FLOAT_TYPES[self.dtype]
        else:
            type_ = storage_type(self.bounds)
        return constant_tensor(self.builder, self.array, type_)

    def astype(self, dtype: DTypeLike, copy: bool = True) -> TensorExpression:
        return ConstantArray(self.builder, self.array.astype(dtype))

    def tensor(self, element_type: Attribute) -> SSAValue:
        return constant_tensor(self.builder, self.array, element_type)

    def build_element(self, loops: Loops, indices: Indices) -> Scalar:
        if self.size and (self.array == self.array.flat[0]).all():
            return self.array.flat[0]
        scalar = super().build_element(loops, indices)
        if isinstance(scalar, FloatExpression):
            low, high = float(self.array.min()), float(self.array.max())
            if not math.isnan(low):
                scalar.bounds, scalar.may_be_nan = (low, high), False
        return scalar


@dataclass(eq=False)
class Mapped(TensorExpression):
    """Elementwise function of other arrays of the same shape."""

    builder: LoweringBuilder
    shape: Shape
    dtype: DType
    function: Callable[..., object]
    operands: Sequence[Value]
    """Expressions of the same shape, and numbers."""

    def build_element(self, loops: Loops, indices: Indices) -> Scalar:
        operands = (
            x.element(loops, indices) if isinstance(x, TensorExpression) else x
            for x in self.operands
        )
        return cast(Scalar, self.function(*operands))


@dataclass(eq=False)
class View(TensorExpression):
    """Elements of another array at affine indices."""

    base: TensorExpression
    shape: Shape
    source: Callable[[Indices], Indices]
    """Map from the indices of an element to indices of the base array."""

    def __post_init__(self):
        self.builder, self.dtype = self.base.builder, self.base.dtype

    @property
    def is_in_memory(self) -> bool:
        return self.base.is_in_memory

    def build_element(self, loops: Loops, indices: Indices) -> Scalar:
        return self.base.element(loops, self.source(indices))


@dataclass(eq=False)
class Transposed(TensorExpression):
    """
    Permutation of the dimensions of another array. It is materialized when an element
    is needed; reductions that may visit elements in any order read the base instead.
    """

    base: TensorExpression
    order: Sequence[int]
    """Dimension of the base array for each dimension of this array."""

    def __post_init__(self):
        self.builder, self.dtype = self.base.builder, self.base.dtype
        self.shape = tuple(self.base.shape[d] for d in self.order)

    @property
    def is_in_memory(self) -> bool:
        return True

    @cached_property
    def computed(self) -> InMemoryArray:
        base = self.base.computed
        value = self.builder.transpose(base.value, self.order)
        return InMemoryArray(self.builder, value, self.dtype, base.bounds)

    def tensor(self, element_type: Attribute) -> SSAValue:
        return self.computed.tensor(element_type)

    def build_element(self, loops: Loops, indices: Indices) -> Scalar:
        return self.computed.element(loops, indices)


@dataclass(eq=False)
class GatheredArray(TensorExpression):
    """Elements of a tensor at indices that may be elements of other arrays."""

    base: InMemoryArray
    shape: Shape
    source: Callable[[Indices], Sequence[AffineExpr | tuple[TensorExpression, Indices]]]
    """Map from an element's indices to base indices: affine, or elements of arrays."""

    def __post_init__(self):
        self.builder, self.dtype = self.base.builder, self.base.dtype

    def build_element(self, loops: Loops, indices: Indices) -> Scalar:
        values: list[SSAValue] = []
        for index, size in zip(self.source(indices), self.base.shape, strict=True):
            if isinstance(index, AffineExpr):
                values.append(loops.index(index))
                continue
            array, array_indices = index
            # Clamp the index, so that nothing is read out of bounds.
            number = cast(Any, np.clip)(
                array.element(loops, array_indices), 0, size - 1
            )
            values.append(
                number.as_index()
                if isinstance(number, IntegerExpression)
                else loops.builder.index(int(number))
            )
        base = self.base.value
        type_ = cast(TensorType, base.type).element_type
        value = loops.builder.op(tensor.ExtractOp, (base, *values), type_)
        return self.base.number(loops, value)


# From tensors and arrays


def stored(
    builder: LoweringBuilder, value: SSAValue, *, is_signed: bool = True
) -> InMemoryArray:
    """
    Return the elements of a tensor of a signless type. Integer arithmetic on these
    elements is exact: results get wider types, instead of wrapping around (see `plain`).

    Args:
        builder: inserts the ops.
        value: a ranked tensor of static shape.
        is_signed: True if integers are signed.
    """
    type_ = cast(TensorType, value.type).element_type
    if isinstance(type_, AnyFloat):
        (dtype,) = (d for d, t in FLOAT_TYPES.items() if t == type_)
        return InMemoryArray(builder, value, dtype)
    if type_ == i1:
        return InMemoryArray(builder, value, np.dtype(np.bool_))
    width = cast(IntegerType, type_).bitwidth
    bounds = signed_bounds(width) if is_signed else (0, (1 << width) - 1)
    return InMemoryArray(builder, value, np.dtype(np.int64), bounds)


def plain(
    builder: LoweringBuilder, value: SSAValue, *, is_signed: bool = True
) -> InMemoryArray:
    """Return the elements of a tensor; arithmetic wraps around at the bit width."""
    result = stored(builder, value, is_signed=is_signed)
    if result.dtype == np.int64:
        width = cast(IntegerType, cast(TensorType, value.type).element_type).bitwidth
        result.dtype = np.dtype(f"{'i' if is_signed else 'u'}{(width + 7) // 8}")
    return result


def constant(builder: LoweringBuilder, array: Array) -> ConstantArray:
    """Return an array as an expression, with the smallest type that holds it."""
    return ConstantArray(builder, np.asarray(array))


def constant_tensor(
    builder: LoweringBuilder, array: Array, element_type: Attribute
) -> SSAValue:
    """Build a constant; the signless element type must hold all elements."""
    type_ = TensorType(element_type, array.shape)
    bit_width = cast("IntegerType | AnyFloat", element_type).bitwidth
    if element_type == i1:
        data = array.astype(np.int8)
    elif isinstance(element_type, AnyFloat):
        data = array.astype(np.dtype(f"f{bit_width // 8}"))
    else:
        data = array.astype(np.dtype(f"i{(bit_width + 7) // 8}"))
    if data.nbytes >= RESOURCE_BYTES and data.dtype.itemsize * 8 == bit_width:
        return builder.constant(new_resource("constant", data, type_), type_)
    attribute = DenseIntOrFPElementsAttr(
        cast("TensorType[IntegerType | AnyFloat]", type_), BytesAttr(data.tobytes())
    )
    return builder.constant(attribute, type_)


def storage_type(bounds: Bounds) -> IntegerType:
    """
    Return the smallest signed integer type of whole bytes that holds the bounds.

    Raises:
        Unsupported: if more than 64 bits are needed.
    """
    for bits in (8, 16):
        if are_within(bounds, signed_bounds(bits)):
            return IntegerType(bits)
    return type_for(bounds)


def memory_type(scalar: Scalar, dtype: DType) -> Attribute:
    """Return the element type of a tensor that stores elements such as `scalar`."""
    if dtype == np.bool_:
        return i1
    if dtype.kind == "f":
        return FLOAT_TYPES[dtype]
    return storage_type(integer_bounds(scalar))


def integer_bounds(scalar: Scalar) -> Bounds:
    """Return the bounds of an integer element, or `ANY_INTEGER` for other elements."""
    is_other = isinstance(scalar, FloatExpression | Condition | np.floating)
    return ANY_INTEGER if is_other else bounds_of(cast(Number, scalar))


def as_scalar(builder: LoweringBuilder, scalar: Scalar, type_: Attribute) -> SSAValue:
    """Build the SSA value of an element with a given type."""
    if isinstance(scalar, np.generic):
        return builder.number(scalar.item(), type_)
    return scalar.as_value(type_)


def as_number(
    builder: ScalarBuilder, scalar: Scalar
) -> IntegerExpression | FloatExpression:
    """Return an element as an integer or float expression."""
    match scalar:
        case IntegerExpression() | FloatExpression():
            return scalar
        case Condition():
            return scalar.number
        case _:
            number = scalar.item()
    if isinstance(number, float):
        value = builder.number(number, FLOAT_TYPES[scalar.dtype])
        return FloatExpression(builder, value, (number, number))
    bounds = int(number), int(number)
    return IntegerExpression(builder, builder.number(number, type_for(bounds)), bounds)


def builder_of(*values: object) -> LoweringBuilder:
    """Return the builder of the first expression in the innermost loop."""
    builders = (x.builder for x in values if isinstance(x, TensorExpression))
    return max(builders, key=lambda builder: builder.depth)


def as_expression(value: Value, builder: LoweringBuilder) -> TensorExpression:
    if isinstance(value, TensorExpression):
        return value
    return constant(builder, np.asarray(value))


@implements("as_expression_like")
def with_expression(value: Value, *others: Value) -> TensorExpression:
    """Convert `value` to an expression, with the builder of an existing expression."""
    return as_expression(value, builder_of(value, *others))


# Elementwise


def _dtype_of(value: Value) -> Any:
    """Return the dtype of an operand, or the type of a Python number."""
    if isinstance(value, TensorExpression | np.ndarray | np.generic):
        return cast(Any, value).dtype
    if isinstance(value, bool):
        return np.dtype(np.bool_)
    return float if isinstance(value, float) else int


def common_shape(*values: Value) -> Shape:
    """Return the shape of values after broadcasting."""
    arrays = [x if isinstance(x, TensorExpression) else np.asarray(x) for x in values]
    return np.broadcast_shapes(*(x.shape for x in arrays))


def mapped(ufunc: np.ufunc, *operands: Value) -> TensorExpression:
    """Apply a NumPy ufunc elementwise, with broadcasting."""
    builder = builder_of(*operands)
    try:
        dtypes = ufunc.resolve_dtypes((*map(_dtype_of, operands), None))
    except TypeError as e:
        raise Unsupported(NO_FORM) from e
    *operand_dtypes, dtype = dtypes

    def function(*scalars: Scalar) -> Scalar:
        return as_dtype(ufunc(*map(as_dtype, scalars, operand_dtypes)), dtype)

    return _mapped_elements(builder, dtype, function, operands)


def _mapped_elements(
    builder: LoweringBuilder,
    dtype: DType,
    function: Callable[..., object],
    operands: Sequence[Value],
) -> TensorExpression:
    """Apply a function of scalars elementwise, with broadcasting."""
    shape = common_shape(*operands)
    arguments = [
        broadcast(as_expression(x, builder), shape)
        if isinstance(x, TensorExpression) or np.ndim(x)
        else x
        for x in operands
    ]
    return Mapped(builder, shape, dtype, function, arguments)


@implements(np.broadcast_to)
def broadcast(x: TensorExpression, shape: Shape) -> TensorExpression:
    """Repeat an array along new dimensions and along dimensions of size 1."""
    if x.shape == shape:
        return x
    if not x.is_in_memory and x.size < math.prod(shape):
        # Elements that are read several times are computed once.
        x = x.computed
    first = len(shape) - x.ndim

    def source(indices: Indices) -> Indices:
        pairs = zip(x.shape, indices[first:], strict=True)
        return tuple(ZERO if size == 1 else index for size, index in pairs)

    return View(x, shape, source)


@implements(np.where)
def _chosen_elements(condition: Value, x: Value, y: Value) -> TensorExpression:
    builder = builder_of(condition, x, y)
    dtype = np.result_type(
        *(v if isinstance(v, int | float) else _dtype_of(v) for v in (x, y))
    )
    if not isinstance(condition, TensorExpression) and np.ndim(condition) == 0:
        chosen = as_expression(x if condition else y, builder)
        return broadcast(chosen, common_shape(x, y)).astype(dtype)

    def function(choice: Scalar, a: Scalar, b: Scalar) -> Scalar:
        choice, a, b = map(as_dtype, (choice, a, b), (np.dtype(np.bool_), dtype, dtype))
        if not isinstance(choice, Condition):
            return a if choice else b
        if dtype.kind == "f":
            a, b = (as_number(choice.builder, v) for v in (a, b))
        return cast(Any, np.where)(choice, a, b)

    return _mapped_elements(builder, dtype, function, (condition, x, y))


@implements(np.clip)
def _clipped_elements(x: Value, low: Value, high: Value) -> TensorExpression:
    return mapped(np.minimum, mapped(np.maximum, x, low), high)


def _apply_elementwise(
    function: Callable[..., object], x: TensorExpression, *operands: int
) -> TensorExpression:
    """Apply a function of an element and constant operands to each element."""
    return Mapped(x.builder, x.shape, x.dtype, function, (x, *operands))


for _name in ("wrapped", "leading_zeros", "erfc"):
    FUNCTIONS[_name] = partial(_apply_elementwise, primitives.PRIMITIVES[_name])


@implements("multiply_add")
def _multiply_add(lhs: Value, rhs: Value, addend: Value) -> TensorExpression:
    def function(*scalars: Scalar) -> Scalar:
        builder = next(x.builder for x in scalars if isinstance(x, FloatExpression))
        x, y, z = (as_number(builder, number).as_float(f32).value for number in scalars)
        return FloatExpression(builder, builder.add(math_dialect.FmaOp(x, y, z)))

    operands = lhs, rhs, addend
    return _mapped_elements(
        builder_of(*operands), np.dtype(np.float32), function, operands
    )


@implements("radicand")
def _radicand(x: TensorExpression) -> TensorExpression:
    return mapped(np.maximum, x, 0)


@implements("exact_factors")
def _exact_factors(lhs: Value, rhs: Value, terms: int) -> tuple[Value, Value]:
    return lhs, rhs
