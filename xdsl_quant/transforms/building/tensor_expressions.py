"""
Formulas of arrays as ops on tensors.

A [`TensorExpression`][xdsl_quant.transforms.building.tensor_expressions.TensorExpression]
stands for an array whose elements are known at run time. It has the operators of NumPy's
arrays, and NumPy's functions take it: a formula that is written for arrays builds ops if it
is given expressions, with what it does to each element written once for both.

Nothing is computed before it has to be. Elementwise formulas, slices, and what broadcasts
only say how an element is made of others. It becomes part of the loops that need it: those
of a sum along dimensions, of an op that moves elements where an index is no linear formula
of another, or of a result. All sizes are known.

Example:

```python
import numpy as np
from xdsl.builder import InsertPoint
from xdsl.dialects.builtin import TensorType, UnknownLoc, i8
from xdsl.ir import Block

from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.tensor_expressions import stored

block = Block(arg_types=[TensorType(i8, [2, 3])])
builder = LoweringBuilder(InsertPoint.at_end(block), location=UnknownLoc())
x = stored(builder, block.args[0])
y = np.maximum(x - 5, 0).sum(axis=1)
print(y.shape, y.tensor(i8).type)
```

prints `(2,) tensor<2xi8>`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith, linalg, tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
    f32,
    f64,
    i1,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from xdsl_quant.xdsl_patches.resources import RESOURCE_BYTES, new_resource

from .builder import INDEX, PARALLEL, REDUCTION, LoweringBuilder, shape_of
from .number_expressions import (
    ANY_INTEGER,
    Bounds,
    Condition,
    FloatExpression,
    IntegerExpression,
    signed_bounds,
    type_for,
)

Shape: TypeAlias = tuple[int, ...]

Scalar: TypeAlias = IntegerExpression | FloatExpression | Condition | Any
"""An element: an expression, or a number that is known."""

Indices: TypeAlias = tuple[AffineExpr, ...]

_ZERO = AffineConstantExpr(0)

_FLOAT_TYPES: Mapping[np.dtype[Any], AnyFloat] = {
    np.dtype(np.float32): f32,
    np.dtype(np.float64): f64,
}


def _dims(count: int) -> Indices:
    return tuple(map(AffineDimExpr, range(count)))


# Scalars


def _as_dtype(value: Scalar, dtype: np.dtype[Any]) -> Scalar:
    """A number with another dtype: integers keep the lowest bits."""
    if not isinstance(value, IntegerExpression | FloatExpression | Condition):
        return np.asarray(value).astype(dtype)[()]
    if dtype == np.bool_:
        return value if isinstance(value, Condition) else value != 0
    if dtype.kind == "f":
        return value.as_float(_FLOAT_TYPES[dtype])
    if isinstance(value, Condition):
        return value.number
    if isinstance(value, FloatExpression):
        value = value.as_integer()
    bits = 8 * dtype.itemsize
    if bits == 64:
        return value
    if dtype.kind == "u":
        is_inside = value.bounds[0] >= 0 and value.bounds[1] < 1 << bits
        return value if is_inside else value & ((1 << bits) - 1)
    return value.wrapped(bits)


# Loops


class _Loops:
    """A loop nest whose body is being built."""

    def __init__(self, builder: LoweringBuilder):
        self.outer = builder
        self.block = Block()
        self.builder = builder.at_end(self.block)
        self._loads: dict[tuple[SSAValue, Indices], SSAValue] = {}
        self._indices: dict[AffineExpr, SSAValue] = {}
        self.memory: dict[tuple[int, Indices], Scalar] = {}
        """Elements of expressions that are built already."""

    def load(self, value: SSAValue, indices: Indices) -> SSAValue:
        """An element of a tensor, whose indices are formulas of the loops."""
        key = value, indices
        if (known := self._loads.get(key)) is None:
            type_ = cast(TensorType, value.type).element_type
            known = self.block.insert_arg(type_, len(self.block.args))
            known.name_hint = "in"
            self._loads[key] = known
        return known

    def index(self, formula: AffineExpr) -> SSAValue:
        """The value of a formula of the loops, as an index."""
        if (known := self._indices.get(formula)) is None:
            known = self._indices[formula] = self._index(formula)
        return known

    def _index(self, formula: AffineExpr) -> SSAValue:
        builder = self.builder
        match formula:
            case AffineConstantExpr():
                return builder.index(formula.value)
            case AffineDimExpr():
                return builder.op(
                    linalg.ops.IndexOp,
                    (),
                    INDEX,
                    {"dim": linalg.ops.IndexOp(formula.position).dim},
                )
            case AffineBinaryOpExpr():
                is_sum = formula.kind is AffineBinaryOpKind.Add
                op_type = arith.AddiOp if is_sum else arith.MuliOp
                operands = self.index(formula.lhs), self.index(formula.rhs)
                return builder.op(op_type, operands, INDEX)
            case _:
                raise AssertionError(f"an index formula: {formula}")

    def nest(
        self,
        sizes: Sequence[int],
        outputs: Sequence[SSAValue],
        parallel: Sequence[int],
        body: Callable[[Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """
        The results of the loop nest.

        Args:
            sizes: how often each loop runs.
            outputs: what the results are at first.
            parallel: the loop over each dimension of the results. All others reduce.
            body: builds elements of the results from those so far, in the block.
        """
        indices = [indices for _, indices in self._loads]
        results = dimensions_of(parallel)
        seen = {formula for formulas in (*indices, results) for formula in formulas}
        inputs = [self._part(value, formulas, sizes) for value, formulas in self._loads]
        unseen = [d for d in range(len(sizes)) if AffineDimExpr(d) not in seen]
        if unseen:
            # The loops have the sizes of a tensor that is not read.
            shape = [sizes[d] for d in unseen]
            inputs.append(self.outer.empty(TensorType(i8, shape), shape))
            indices.append(dimensions_of(unseen))
            self.block.insert_arg(i8, len(self.block.args)).name_hint = "in"
        so_far: list[SSAValue] = []
        for output in outputs:
            type_ = cast(TensorType, output.type).element_type
            argument = self.block.insert_arg(type_, len(self.block.args))
            argument.name_hint = "out"
            so_far.append(argument)
        rank = len(sizes)
        return self.outer.loop_nest(
            self.block,
            body(so_far),
            inputs,
            outputs,
            [AffineMap(rank, 0, i) for i in (*indices, *[results] * len(outputs))],
            [PARALLEL if d in parallel else REDUCTION for d in range(rank)],
        )

    def _part(
        self, value: SSAValue, formulas: Indices, sizes: Sequence[int]
    ) -> SSAValue:
        """A tensor of which a loop runs over whole dimensions."""
        shape = shape_of(value)
        part = [
            sizes[formula.position] if isinstance(formula, AffineDimExpr) else size
            for formula, size in zip(formulas, shape, strict=True)
        ]
        if [*shape] == part:
            return value
        rank = len(shape)
        return self.outer.part(value, [0] * rank, part, [1] * rank)


def dimensions_of(positions: Sequence[int]) -> Indices:
    """The loops at these positions as formulas."""
    return tuple(map(AffineDimExpr, positions))


# Expressions


class TensorExpression(ABC):
    """An array whose elements are known at run time."""

    builder: LoweringBuilder
    shape: Shape
    dtype: np.dtype[Any]

    # How elements are made

    @abstractmethod
    def made(self, loops: _Loops, indices: Indices) -> Scalar:
        """Build the element at indices, which are formulas of the loops."""

    def element(self, loops: _Loops, indices: Indices) -> Scalar:
        """The element at indices; each is built once."""
        key = id(self), indices
        if key not in loops.memory:
            loops.memory[key] = self.made(loops, indices)
        return loops.memory[key]

    @cached_property
    def computed(self) -> Loaded:
        """The same array, of which all elements are in memory."""
        loops = _Loops(self.builder)
        scalar = self.element(loops, _dims(self.ndim))
        return self._with_elements(loops, scalar, _element_type(scalar, self.dtype))

    def _with_elements(self, loops: _Loops, scalar: Scalar, type_: Attribute) -> Loaded:
        value = _as_scalar(loops.builder, scalar, type_)
        tensor_type = TensorType(type_, self.shape)
        output = self.builder.empty(tensor_type, self.shape)
        if 0 in self.shape:
            return Loaded(self.builder, output, self.dtype, (0, 0))
        every = range(self.ndim)
        (result,) = loops.nest(self.shape, [output], every, lambda _: [value])
        return Loaded(self.builder, result, self.dtype, _bounds_of(scalar))

    def tensor(self, element_type: Attribute) -> SSAValue:
        """The elements as a tensor of a signless type, which their bounds must fit."""
        loops = _Loops(self.builder)
        scalar = self.element(loops, _dims(self.ndim))
        return self._with_elements(loops, scalar, element_type).value

    # What arrays have

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[TensorExpression]:
        return (self[i] for i in range(len(self)))

    def __bool__(self) -> bool:
        raise TypeError("whether elements are true is known at run time")

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        if ufunc is np.matmul and not kwargs:
            return _matmul(*inputs)
        if method != "__call__" or kwargs:
            return NotImplemented
        return _mapped(ufunc, *inputs)

    def __array_function__(
        self,
        function: Any,
        types: Sequence[type],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Any:
        if function not in _FUNCTIONS:
            return NotImplemented
        return _FUNCTIONS[function](*args, **kwargs)

    def __add__(self, other: Any) -> Any:
        return _mapped(np.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _mapped(np.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _mapped(np.subtract, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _mapped(np.subtract, other, self)

    def __mul__(self, other: Any) -> Any:
        return _mapped(np.multiply, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _mapped(np.multiply, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _mapped(np.divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _mapped(np.divide, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _mapped(np.floor_divide, self, other)

    def __mod__(self, other: Any) -> Any:
        return _mapped(np.remainder, self, other)

    def __neg__(self) -> Any:
        return _mapped(np.negative, self)

    def __invert__(self) -> Any:
        return _mapped(np.logical_not, self)

    def __lshift__(self, other: Any) -> Any:
        return _mapped(np.left_shift, self, other)

    def __rlshift__(self, other: Any) -> Any:
        return _mapped(np.left_shift, other, self)

    def __rshift__(self, other: Any) -> Any:
        return _mapped(np.right_shift, self, other)

    def __and__(self, other: Any) -> Any:
        return _mapped(np.bitwise_and, self, other)

    def __or__(self, other: Any) -> Any:
        return _mapped(np.logical_or, self, other)

    def __pow__(self, other: int) -> Any:
        product = self
        for _ in range(other - 1):
            product = product * self
        return product

    def __matmul__(self, other: Any) -> Any:
        return _matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _matmul(other, self)

    def __lt__(self, other: Any) -> Any:
        return _mapped(np.less, self, other)

    def __le__(self, other: Any) -> Any:
        return _mapped(np.less_equal, self, other)

    def __gt__(self, other: Any) -> Any:
        return _mapped(np.greater, self, other)

    def __ge__(self, other: Any) -> Any:
        return _mapped(np.greater_equal, self, other)

    def __eq__(self, other: object) -> Any:
        return _mapped(np.equal, self, other)

    def __ne__(self, other: object) -> Any:
        return _mapped(np.not_equal, self, other)

    __hash__ = object.__hash__

    def astype(self, dtype: Any, copy: bool = True) -> TensorExpression:
        """The elements with another dtype."""
        dtype = np.dtype(dtype)
        if dtype == self.dtype:
            return self
        if isinstance(self, Loaded) and self.dtype.kind in "iu" and dtype == np.int64:
            return replace(self, dtype=dtype)
        return Mapped(
            self.builder, self.shape, dtype, lambda x: _as_dtype(x, dtype), (self,)
        )

    # What numerics asks expressions for

    def wrapped(self, bits: int) -> TensorExpression:
        """The lowest bits, as signed integers."""
        return self._like(lambda x: x.wrapped(bits))

    def leading_zeros(self) -> TensorExpression:
        """The zeros before the first one of 32 bits."""
        return self._like(lambda x: x.leading_zeros())

    def entries_of(self, table: NDArray[Any]) -> TensorExpression:
        """The entries of a table of one dimension at these indices."""
        return _taken(constant(self.builder, table), self, 0)

    def top_k(self, count: int) -> tuple[TensorExpression, TensorExpression]:
        """The largest elements along the last dimension, and their indices."""
        return _top_k(self, count)

    def with_part(
        self, update: Any, start: Sequence[Any] | TensorExpression
    ) -> TensorExpression:
        """The array with a part replaced. The start is clamped so that the part fits."""
        return _with_part(self, _expression(update, self.builder), start)

    def erfc(self) -> TensorExpression:
        """The complementary error function."""
        return self._like(lambda x: x.erfc())

    def _like(self, function: Callable[[Any], Any]) -> TensorExpression:
        return Mapped(self.builder, self.shape, self.dtype, function, (self,))

    # Dimensions

    def reshape(self, *shape: Any) -> TensorExpression:
        """The elements in the same order in another shape."""
        if len(shape) == 1 and not isinstance(shape[0], int | np.integer):
            (shape,) = shape
        return _reshaped(self, [*map(int, shape)])

    def transpose(self, *order: Any) -> TensorExpression:
        """The dimensions in another order."""
        if len(order) == 1 and not isinstance(order[0], int):
            (order,) = order
        order = [int(d) % self.ndim for d in order] or [*range(self.ndim)][::-1]
        return _transposed(self, order)

    def swapaxes(self, a: int, b: int) -> TensorExpression:
        """Two dimensions exchanged."""
        order = [*range(self.ndim)]
        order[a], order[b] = order[b], order[a]
        return self.transpose(order)

    @property
    def T(self) -> TensorExpression:
        """The dimensions in the reverse order."""
        return self.transpose()

    def __getitem__(self, key: Any) -> TensorExpression:
        return _part(self, key if isinstance(key, tuple) else (key,))

    # Reduction

    def sum(
        self, axis: Any = None, keepdims: bool = False, dtype: Any = None
    ) -> TensorExpression:
        """Sums along dimensions."""
        return _reduced("sum", self, axis, keepdims, dtype)

    def max(self, axis: Any = None, keepdims: bool = False) -> TensorExpression:
        """The largest elements along dimensions."""
        return _reduced("max", self, axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> TensorExpression:
        """The smallest elements along dimensions."""
        return _reduced("min", self, axis, keepdims)

    def mean(
        self, axis: Any = None, keepdims: bool = False, dtype: Any = None
    ) -> TensorExpression:
        """The means of floats along dimensions."""
        total = self.sum(axis, keepdims, dtype)
        return total / total.dtype.type(self.size // max(total.size, 1))


@dataclass(eq=False)
class Loaded(TensorExpression):
    """A tensor."""

    builder: LoweringBuilder
    value: SSAValue
    """A ranked tensor of a signless type and of static shape."""

    dtype: np.dtype[Any]
    bounds: Bounds = ANY_INTEGER
    """What integers are within; from 0 if their type is taken as unsigned."""

    def __post_init__(self):
        self.shape = shape_of(self.value)

    @cached_property
    def computed(self) -> Loaded:
        return self

    def tensor(self, element_type: Attribute) -> SSAValue:
        if cast(TensorType, self.value.type).element_type == element_type:
            return self.value
        return super().tensor(element_type)

    def made(self, loops: _Loops, indices: Indices) -> Scalar:
        return self.number(loops, loops.load(self.value, indices))

    def number(self, loops: _Loops, value: SSAValue) -> Scalar:
        """An element that is read."""
        builder, type_ = loops.builder, value.type
        if isinstance(type_, AnyFloat):
            return FloatExpression(builder, value)
        if type_ == i1:
            return Condition(builder, value)
        width = cast(IntegerType, type_).bitwidth
        if self.bounds[0] >= 0 and self.bounds[1] >= 1 << (width - 1):
            value = builder.op(arith.ExtUIOp, (value,), i64 if width == 32 else i32)
        return IntegerExpression(builder, value, self.bounds)


@dataclass(eq=False)
class Known(Loaded):
    """A tensor of constants."""

    array: NDArray[Any] = field(kw_only=True)

    def made(self, loops: _Loops, indices: Indices) -> Scalar:
        first = self.array.flat[0]
        if self.size == 1 or (self.size < 1 << 16 and (self.array == first).all()):
            return first
        scalar = super().made(loops, indices)
        if isinstance(scalar, FloatExpression):
            scalar.bounds = float(self.array.min()), float(self.array.max())
        return scalar


@dataclass(eq=False)
class Mapped(TensorExpression):
    """A function of the elements of other arrays of the same shape."""

    builder: LoweringBuilder
    shape: Shape
    dtype: np.dtype[Any]
    function: Callable[..., Any]
    operands: Sequence[Any]
    """Expressions of the same shape, and numbers."""

    def made(self, loops: _Loops, indices: Indices) -> Scalar:
        return self.function(
            *(
                x.element(loops, indices) if isinstance(x, TensorExpression) else x
                for x in self.operands
            )
        )


@dataclass(eq=False)
class View(TensorExpression):
    """Elements of another array, whose indices are linear formulas."""

    base: TensorExpression
    shape: Shape
    source: Callable[[Indices], Indices]
    """The indices of an element of the other array."""

    def __post_init__(self):
        self.builder, self.dtype = self.base.builder, self.base.dtype

    def made(self, loops: _Loops, indices: Indices) -> Scalar:
        return self.base.element(loops, self.source(indices))


@dataclass(eq=False)
class Picked(TensorExpression):
    """Elements of a tensor, some of whose indices are elements of other arrays."""

    base: Loaded
    shape: Shape
    source: Callable[[Indices], Sequence[AffineExpr | tuple[TensorExpression, Indices]]]
    """The indices of an element of the tensor."""

    def __post_init__(self):
        self.builder, self.dtype = self.base.builder, self.base.dtype

    def made(self, loops: _Loops, indices: Indices) -> Scalar:
        values: list[SSAValue] = []
        for index, size in zip(self.source(indices), self.base.shape, strict=True):
            if isinstance(index, AffineExpr):
                values.append(loops.index(index))
                continue
            array, place = index
            number = array.element(loops, place)
            if isinstance(number, IntegerExpression):
                # What is out of bounds must not be read.
                values.append(number.maximum(0).minimum(size - 1).as_index())
            else:
                values.append(loops.builder.index(int(number)))
        base = self.base.value
        type_ = cast(TensorType, base.type).element_type
        value = loops.builder.op(tensor.ExtractOp, (base, *values), type_)
        return self.base.number(loops, value)


# From tensors and arrays


def stored(
    builder: LoweringBuilder, value: SSAValue, *, is_signed: bool = True
) -> Loaded:
    """
    The elements of a tensor of a signless type. Integers are those of a formula, which are
    unbounded: see `plain` for others.

    Args:
        builder: where ops are inserted.
        value: a ranked tensor of static shape.
        is_signed: whether integers are signed.
    """
    type_ = cast(TensorType, value.type).element_type
    if isinstance(type_, AnyFloat):
        (dtype,) = (d for d, t in _FLOAT_TYPES.items() if t == type_)
        return Loaded(builder, value, dtype)
    if type_ == i1:
        return Loaded(builder, value, np.dtype(np.bool_))
    width = cast(IntegerType, type_).bitwidth
    bounds = signed_bounds(width) if is_signed else (0, (1 << width) - 1)
    return Loaded(builder, value, np.dtype(np.int64), bounds)


def plain(
    builder: LoweringBuilder, value: SSAValue, *, is_signed: bool = True
) -> Loaded:
    """The same with integers whose arithmetic wraps around, as that of their type does."""
    result = stored(builder, value, is_signed=is_signed)
    if result.dtype == np.int64:
        width = cast(IntegerType, cast(TensorType, value.type).element_type).bitwidth
        result.dtype = np.dtype(f"{'i' if is_signed else 'u'}{max(width, 8) // 8}")
    return result


def constant(builder: LoweringBuilder, array: NDArray[Any]) -> Known:
    """The elements of an array, whose type is the smallest one that holds them."""
    array = np.asarray(array)
    if array.dtype.kind in "iu":
        bounds = (int(array.min()), int(array.max())) if array.size else (0, 0)
        element_type = _storage_type(bounds)
    else:
        bounds = ANY_INTEGER
        element_type = i1 if array.dtype == np.bool_ else _FLOAT_TYPES[array.dtype]
    value = constant_tensor(builder, array, element_type)
    return Known(builder, value, array.dtype, bounds, array=array)


def constant_tensor(
    builder: LoweringBuilder, array: NDArray[Any], element_type: Attribute
) -> SSAValue:
    """An array as a constant of a signless type with at least as many bits."""
    type_ = TensorType(element_type, array.shape)
    bit_width = cast("IntegerType | AnyFloat", element_type).bitwidth
    if element_type == i1:
        data = array.astype(np.int8)
    elif isinstance(element_type, AnyFloat):
        data = array.astype(np.dtype(f"f{bit_width // 8}"))
    else:
        data = array.astype(np.dtype(f"i{max(bit_width, 8) // 8}"))
    if data.nbytes >= RESOURCE_BYTES and data.dtype.itemsize * 8 == bit_width:
        return builder.constant(new_resource("constant", data, type_), type_)
    attribute = DenseIntOrFPElementsAttr(
        cast("TensorType[IntegerType | AnyFloat]", type_), BytesAttr(data.tobytes())
    )
    return builder.constant(attribute, type_)


def _storage_type(bounds: Bounds) -> IntegerType:
    """The smallest type of whole bytes for signed integers."""
    for bits in (8, 16, 32, 64):
        low, high = signed_bounds(bits)
        if low <= bounds[0] and bounds[1] <= high:
            return IntegerType(bits)
    raise ValueError(f"numbers from {bounds[0]} to {bounds[1]} need more than 64 bits")


def _element_type(scalar: Scalar, dtype: np.dtype[Any]) -> Attribute:
    """The type that elements of an array have in memory."""
    match scalar:
        case IntegerExpression():
            return _storage_type(scalar.bounds)
        case FloatExpression():
            return scalar.type
        case Condition():
            return i1
        case _:
            if dtype == np.bool_:
                return i1
            if dtype.kind == "f":
                return _FLOAT_TYPES[dtype]
            return _storage_type((int(scalar), int(scalar)))


def _bounds_of(scalar: Scalar) -> Bounds:
    match scalar:
        case IntegerExpression():
            return scalar.bounds
        case FloatExpression() | Condition():
            return ANY_INTEGER
        case _:
            return int(scalar), int(scalar)


def _as_scalar(builder: LoweringBuilder, scalar: Scalar, type_: Attribute) -> SSAValue:
    """An element as a value of a type."""
    match scalar:
        case IntegerExpression():
            return scalar.as_type(cast(IntegerType, type_))
        case FloatExpression():
            return scalar.as_float(cast(AnyFloat, type_)).value
        case Condition():
            return scalar.value
        case _:
            return builder.number(scalar.item(), type_)


def _builder_of(*values: Any) -> LoweringBuilder:
    return next(x.builder for x in values if isinstance(x, TensorExpression))


def _expression(value: Any, builder: LoweringBuilder) -> TensorExpression:
    if isinstance(value, TensorExpression):
        return value
    return constant(builder, np.asarray(value))


def with_expression(value: Any, *others: Any) -> TensorExpression:
    """A value as an expression, given others one of which is one."""
    return _expression(value, _builder_of(value, *others))


# Elementwise


def _dtype_of(value: Any) -> Any:
    """The dtype of an operand; for a number of Python its type, which adapts to others."""
    if isinstance(value, TensorExpression | np.ndarray | np.generic):
        return cast(Any, value).dtype
    return np.dtype(np.bool_) if isinstance(value, bool) else type(value)


def _is_array(value: Any) -> bool:
    return isinstance(value, TensorExpression) or np.ndim(value) > 0


def _mapped(ufunc: Any, *operands: Any) -> TensorExpression:
    """A function of NumPy's on each element; arrays are broadcast."""
    builder = _builder_of(*operands)
    *operand_dtypes, dtype = ufunc.resolve_dtypes((*map(_dtype_of, operands), None))
    shape = np.broadcast_shapes(*map(np.shape, operands))
    arguments = [
        _broadcast(_expression(x, builder), shape) if _is_array(x) else x
        for x in operands
    ]
    is_float = any(d.kind == "f" for d in operand_dtypes)
    is_narrow = dtype.kind in "iu" and dtype.itemsize < 8

    def function(*scalars: Any) -> Any:
        if is_float:
            scalars = tuple(map(_as_dtype, scalars, operand_dtypes))
        result = ufunc(*scalars)
        return _as_dtype(result, dtype) if is_narrow or dtype.kind == "b" else result

    return Mapped(builder, shape, dtype, function, arguments)


def _broadcast(x: TensorExpression, shape: Shape) -> TensorExpression:
    """An array repeated along new dimensions and those of size 1."""
    if x.shape == shape:
        return x
    if not isinstance(x, Loaded) and x.size < math.prod(shape):
        # What is used many times is computed once.
        x = x.computed
    first = len(shape) - x.ndim

    def source(indices: Indices) -> Indices:
        pairs = zip(x.shape, indices[first:], strict=True)
        return tuple(_ZERO if size == 1 else index for size, index in pairs)

    return View(x, shape, source)


def _where(condition: Any, x: Any, y: Any) -> TensorExpression:
    builder = _builder_of(condition, x, y)
    if not isinstance(condition, TensorExpression) and np.ndim(condition) == 0:
        shape = np.broadcast_shapes(*map(np.shape, (x, y)))
        return _broadcast(_expression(x if condition else y, builder), shape)
    values = [v for v in (x, y) if not isinstance(v, int | float)]
    dtype = np.result_type(*map(_dtype_of, values)) if values else np.dtype(np.int64)
    shape = np.broadcast_shapes(*map(np.shape, (condition, x, y)))
    arguments = [
        _broadcast(_expression(v, builder), shape) if _is_array(v) else v
        for v in (condition, x, y)
    ]

    def function(choice: Any, a: Any, b: Any) -> Any:
        if dtype.kind == "f":
            a, b = _as_dtype(a, dtype), _as_dtype(b, dtype)
            if not isinstance(choice, Condition):
                return a if choice else b
            some = choice.builder
            a, b = (
                v
                if isinstance(v, FloatExpression)
                else FloatExpression(
                    some, some.number(float(v), _FLOAT_TYPES[dtype]), (v, v)
                )
                for v in (a, b)
            )
        if not isinstance(choice, Condition):
            return a if choice else b
        return np.where(cast(Any, choice), a, b)

    return Mapped(builder, shape, dtype, function, arguments)


def _clip(x: Any, low: Any, high: Any) -> TensorExpression:
    return _mapped(np.minimum, _mapped(np.maximum, x, low), high)


# Dimensions


def _is_flat(x: TensorExpression, shape: Sequence[int]) -> bool:
    """Whether two shapes differ in dimensions of size 1 alone."""
    return [s for s in x.shape if s != 1] == [s for s in shape if s != 1]


def _reshaped(x: TensorExpression, shape: Sequence[int]) -> TensorExpression:
    if -1 in shape:
        rest = math.prod(size for size in shape if size != -1)
        shape = [x.size // rest if size == -1 else size for size in shape]
    shape = tuple(shape)
    if math.prod(shape) != x.size:
        raise ValueError(f"cannot reshape array of size {x.size} into shape {shape}")
    if shape == x.shape:
        return x
    if (parts := _split_dimensions(x.shape, shape)) is not None:
        return View(x, shape, lambda indices: _joined(parts, shape, indices))
    value = x.computed.value
    type_ = TensorType(cast(TensorType, value.type).element_type, shape)
    result = x.builder.reshaped(value, type_, shape)
    return Loaded(x.builder, result, x.dtype, x.computed.bounds)


def _split_dimensions(old: Shape, new: Shape) -> list[list[int]] | None:
    """
    The new dimensions that each old one is split into; `None` if old ones are merged.
    """
    parts: list[list[int]] = []
    position = 0
    for size in old:
        group: list[int] = []
        product = 1
        while product < size and position < len(new):
            product *= new[position]
            group.append(position)
            position += 1
        if product != size:
            return None
        parts.append(group)
    return parts if all(size == 1 for size in new[position:]) else None


def _joined(parts: Sequence[Sequence[int]], shape: Shape, indices: Indices) -> Indices:
    """The index of each dimension from those of the ones that it is split into."""

    def index(group: Sequence[int]) -> AffineExpr:
        formula: AffineExpr | None = None
        for d in group:
            if shape[d] == 1:
                continue
            formula = indices[d] if formula is None else formula * shape[d] + indices[d]
        return formula or _ZERO

    return tuple(map(index, parts))


def _transposed(x: TensorExpression, order: Sequence[int]) -> TensorExpression:
    if [*order] == [*range(x.ndim)]:
        return x
    shape = tuple(x.shape[d] for d in order)
    if _is_flat(x, shape) and [d for d in order if x.shape[d] != 1] == [
        d for d in range(x.ndim) if x.shape[d] != 1
    ]:
        return _reshaped(x, shape)
    base = x.computed
    result = x.builder.transposed(base.value, order)
    return Loaded(x.builder, result, x.dtype, base.bounds)


def _part(x: TensorExpression, key: Sequence[Any]) -> TensorExpression:
    """What NumPy's indexing gives, with at most one array of indices."""
    named = sum(item is not None and item is not ... for item in key)
    rest = [slice(None)] * (x.ndim - named)
    items = [*key]
    if any(item is ... for item in items):
        place = next(i for i, item in enumerate(items) if item is ...)
        items[place : place + 1] = rest
    else:
        items += rest
    arrays = [i for i in items if isinstance(i, np.ndarray | TensorExpression | list)]
    if len(arrays) > 1:
        return _picked(x, arrays, [i for i in items if i is not None])
    if arrays:
        axis = (
            items.index(arrays[0])
            if isinstance(arrays[0], list)
            else next(i for i, item in enumerate(items) if item is arrays[0])
        )
        return _taken(x, arrays[0], axis)
    return _sliced(x, items)


def _sliced(x: TensorExpression, items: Sequence[Any]) -> TensorExpression:
    """What NumPy's indexing with slices and numbers gives."""
    shape: list[int] = []
    sources: list[range | None] = []
    sizes = iter(x.shape)
    for item in items:
        if item is None:
            shape.append(1)
            sources.append(None)
            continue
        size = next(sizes)
        if isinstance(item, slice):
            places = range(*item.indices(size))
            shape.append(len(places))
        else:
            index = int(item)
            if not -size <= index < size:
                raise IndexError(f"index {index} is out of bounds for a size of {size}")
            places = range(index % size, index % size + 1)
        sources.append(places)
    places = [place for place in sources if place is not None]
    kept = [place for place, item in zip(sources, items, strict=True) if _is_kept(item)]
    if all(
        len(place) == size for place, size in zip(places, x.shape, strict=True)
    ) and (all(place.step == 1 or len(place) == 1 for place in places)):
        return _reshaped(x, shape)
    if not isinstance(x, View) and all(place.step > 0 for place in places):
        base = x.computed
        part = x.builder.part(
            base.value,
            [place.start for place in places],
            [len(place) for place in places],
            [place.step for place in places],
        )
        return _reshaped(Loaded(x.builder, part, x.dtype, base.bounds), shape)

    def source(indices: Indices) -> Indices:
        rest = iter(
            index
            for index, place in zip(indices, kept, strict=True)
            if place is not None
        )
        return tuple(
            _linear(next(rest), place)
            if _is_kept(item)
            else AffineConstantExpr(place.start)
            for place, item in zip(sources, items, strict=True)
            if place is not None
        )

    return View(x, tuple(shape), source)


def _is_kept(item: Any) -> bool:
    """Whether an index leaves a dimension."""
    return item is None or isinstance(item, slice)


def _linear(index: AffineExpr, places: range) -> AffineExpr:
    if places.step != 1:
        index = index * places.step
    return index + places.start if places.start else index


def _taken(x: TensorExpression, indices: Any, axis: int) -> TensorExpression:
    """Slices along a dimension at indices, which may be known."""
    array = _expression(
        np.asarray(indices) if isinstance(indices, list) else indices, x.builder
    )
    axis = axis % x.ndim
    shape = (*x.shape[:axis], *array.shape, *x.shape[axis + 1 :])
    end = axis + array.ndim

    def source(
        place: Indices,
    ) -> Sequence[AffineExpr | tuple[TensorExpression, Indices]]:
        return *place[:axis], (array, place[axis:end]), *place[end:]

    return Picked(x.computed, shape, source)


def _picked(
    x: TensorExpression, arrays: Sequence[Any], items: Sequence[Any]
) -> TensorExpression:
    """Slices at indices in leading dimensions, each from an array of one shape."""
    every = [_expression(array, x.builder) for array in arrays]
    if any(isinstance(i, slice) for i in items[: len(every)]):
        raise ValueError("arrays of indices must be those of the first dimensions")
    rank = every[0].ndim

    def source(
        place: Indices,
    ) -> Sequence[AffineExpr | tuple[TensorExpression, Indices]]:
        return *((array, place[:rank]) for array in every), *place[rank:]

    return Picked(x.computed, (*every[0].shape, *x.shape[len(every) :]), source)


def _pad(
    x: TensorExpression, widths: Any, mode: str = "constant", constant_values: Any = 0
) -> TensorExpression:
    pairs = np.broadcast_to(np.asarray(widths), (x.ndim, 2)).tolist()
    if mode != "constant":
        for axis, (size, pair) in enumerate(zip(x.shape, pairs, strict=True)):
            if any(pair):
                indices = np.pad(np.arange(size), [pair], mode=cast(Any, mode))
                x = _taken(x, indices, axis)
        return x
    if not any(map(any, pairs)):
        return x
    value = np.asarray(constant_values)[()]
    if isinstance(x, Mapped):
        inner, number = _preimage(x, value)
        if inner is not None:
            padded = _pad(inner, pairs, constant_values=number)
            operands = [padded if o is inner else o for o in x.operands]
            return Mapped(x.builder, padded.shape, x.dtype, x.function, operands)
    base = x.computed
    shape = tuple(
        size + low + high for size, (low, high) in zip(x.shape, pairs, strict=True)
    )
    type_ = TensorType(cast(TensorType, base.value.type).element_type, shape)
    filled = x.builder.map(
        (), type_, shape, lambda b, _: b.number(value.item(), type_.element_type)
    )
    if 0 in x.shape:
        return Loaded(x.builder, filled, x.dtype, base.bounds)
    result = x.builder.inserted(
        base.value, filled, [low for low, _ in pairs], x.shape, [1] * x.ndim
    )
    low, high = base.bounds
    bounds = base.bounds
    if x.dtype.kind == "i":
        bounds = min(low, int(value)), max(high, int(value))
    return Loaded(x.builder, result, x.dtype, bounds)


def _preimage(x: Mapped, value: Any) -> tuple[TensorExpression | None, int]:
    """
    The array that a function is applied to, and a number of which this gives a value: what
    is padded is then what is in memory. `None` if there is none.
    """
    tensors = [o for o in x.operands if isinstance(o, TensorExpression)]
    if len(tensors) != 1 or len(x.operands) > 2 or x.dtype.kind != "i":
        return None, 0
    (inner,) = tensors
    if not isinstance(inner, Loaded) or inner.bounds[1] - inner.bounds[0] > 1 << 16:
        return None, 0
    low, high = inner.bounds
    numbers = np.arange(low, high + 1)
    operands = [numbers if o is inner else o for o in x.operands]
    (places,) = np.nonzero(x.function(*operands) == value)
    return (inner, low + int(places[0])) if places.size else (None, 0)


def _with_part(
    x: TensorExpression, update: TensorExpression, start: Any
) -> TensorExpression:
    builder, base = x.builder, x.computed
    element_type = cast(TensorType, base.value.type).element_type
    room = [size - part for size, part in zip(x.shape, update.shape, strict=True)]
    if isinstance(start, TensorExpression):
        starts = start.computed
        offsets: list[Any] = []
        for position, most in enumerate(room):
            number = builder.op(
                tensor.ExtractOp,
                (starts.value, builder.index(position)),
                cast(TensorType, starts.value.type).element_type,
            )
            first = IntegerExpression(builder, number, starts.bounds)
            offsets.append(first.maximum(0).minimum(most).as_index())
    else:
        offsets = [
            min(max(int(first), 0), most)
            for first, most in zip(start, room, strict=True)
        ]
    is_known = [isinstance(offset, int) for offset in offsets]
    op = tensor.InsertSliceOp.get(
        update.tensor(element_type),
        base.value,
        update.shape,
        [
            o if known else DYNAMIC_INDEX
            for o, known in zip(offsets, is_known, strict=True)
        ],
        [1] * x.ndim,
        offsets=[o for o, known in zip(offsets, is_known, strict=True) if not known],
    )
    return Loaded(builder, builder.add(op), x.dtype, base.bounds)


def _concatenated(parts: Sequence[Any], axis: int = 0) -> TensorExpression:
    builder = _builder_of(*parts)
    every = [_expression(part, builder) for part in parts]
    every = [part for part in every if part.shape[axis]] or every[:1]
    if len(every) == 1:
        return every[0]
    loaded = [part.computed for part in every]
    bounds = (
        min(part.bounds[0] for part in loaded),
        max(part.bounds[1] for part in loaded),
    )
    types = {cast(TensorType, part.value.type).element_type for part in loaded}
    if len(types) > 1:
        types = {_storage_type(bounds)}
    (type_,) = types
    shape = [*every[0].shape]
    shape[axis] = sum(part.shape[axis] for part in every)
    values = [part.tensor(type_) for part in loaded]
    axis = axis % every[0].ndim
    result = builder.add(tensor.ConcatOp(values, axis, TensorType(type_, shape)))
    return Loaded(builder, result, every[0].dtype, bounds)


def _stacked(parts: Sequence[Any], axis: int = 0) -> TensorExpression:
    builder = _builder_of(*parts)
    every = [_expanded(_expression(part, builder), axis) for part in parts]
    return _concatenated(every, axis)


def _expanded(x: TensorExpression, axis: Any) -> TensorExpression:
    axes = (axis,) if isinstance(axis, int | np.integer) else tuple(axis)
    rank = x.ndim + len(axes)
    places = {int(a) % rank for a in axes}
    sizes = iter(x.shape)
    return _reshaped(x, [1 if d in places else next(sizes) for d in range(rank)])


def _squeezed(x: TensorExpression, axis: Any = None) -> TensorExpression:
    if axis is None:
        axis = tuple(d for d, size in enumerate(x.shape) if size == 1)
    axes = (axis,) if isinstance(axis, int) else axis
    dropped = {a % x.ndim for a in axes}
    if any(x.shape[d] != 1 for d in dropped):
        raise ValueError("cannot squeeze a dimension whose size is not 1")
    return _reshaped(x, [s for d, s in enumerate(x.shape) if d not in dropped])


def _split(x: TensorExpression, parts: Any, axis: int = 0) -> list[TensorExpression]:
    axis = axis % x.ndim
    size = x.shape[axis]
    if isinstance(parts, int):
        if size % parts:
            raise ValueError(
                f"a size of {size} cannot be split into {parts} equal parts"
            )
        ends = [size // parts * i for i in range(parts + 1)]
    else:
        ends = [0, *map(int, parts), size]
    before = (slice(None),) * axis
    return [x[(*before, slice(low, high))] for low, high in pairwise(ends)]


def _moved_axis(x: TensorExpression, source: int, target: int) -> TensorExpression:
    order = [*range(x.ndim)]
    axis = order.pop(source)
    order.insert(target % x.ndim, axis)
    return _transposed(x, order)


def _flipped(x: TensorExpression, axis: Any) -> TensorExpression:
    axes = (axis,) if isinstance(axis, int) else axis
    dropped = {int(a) % x.ndim for a in axes}
    step = [slice(None, None, -1 if d in dropped else None) for d in range(x.ndim)]
    return x[tuple(step)]


def _tiled(x: TensorExpression, counts: Any) -> TensorExpression:
    counts = tuple(counts)
    x = _reshaped(x, (1,) * (len(counts) - x.ndim) + x.shape)
    counts = (1,) * (x.ndim - len(counts)) + counts
    for axis, (size, count) in enumerate(zip(x.shape, counts, strict=True)):
        if count == 1:
            continue
        if size == 1:
            shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
            x = _broadcast(x, shape)
        else:
            x = _taken(x, np.tile(np.arange(size), count), axis)
    return x


def _sliding_windows(
    x: TensorExpression, window_shape: Any, axis: Any, **_: Any
) -> TensorExpression:
    sizes, axes = tuple(window_shape), tuple(axis)
    shape = [*x.shape]
    for size, d in zip(sizes, axes, strict=True):
        shape[d] -= size - 1

    def source(indices: Indices) -> Indices:
        places = [*indices[: x.ndim]]
        for d, inner in zip(axes, indices[x.ndim :], strict=True):
            places[d] = places[d] + inner
        return tuple(places)

    return View(x, (*shape, *sizes), source)


# Reduction

_IDENTITY: Mapping[str, Callable[[Any], float]] = {
    "sum": lambda _: 0,
    "prod": lambda _: 1,
    "max": lambda bounds: bounds[0],
    "min": lambda bounds: bounds[1],
}

_COMBINED: Mapping[str, tuple[type[Any], type[Any]]] = {
    "sum": (arith.AddfOp, arith.AddiOp),
    "prod": (arith.MulfOp, arith.MuliOp),
    "max": (arith.MaximumfOp, arith.MaxSIOp),
    "min": (arith.MinimumfOp, arith.MinSIOp),
}


def _axes_of(axis: Any, rank: int) -> list[int]:
    if axis is None:
        return [*range(rank)]
    axes = (axis,) if isinstance(axis, int | np.integer) else axis
    return sorted({int(a) % rank for a in axes})


def _reduced(
    kind: str, x: TensorExpression, axis: Any, keepdims: bool = False, dtype: Any = None
) -> TensorExpression:
    axes = _axes_of(axis, x.ndim)
    letters = [*range(x.ndim)]
    kept = [d for d in letters if d not in axes]
    result = _contracted(kind, [(x, letters)], kept, dtype)
    if keepdims:
        result = _expanded(result, axes) if axes else result
    return result


def _contracted(
    kind: str,
    operands: Sequence[tuple[Any, Sequence[Any]]],
    result: Sequence[Any],
    dtype: Any = None,
) -> TensorExpression:
    """
    Products of arrays whose dimensions have names, reduced along those that the result does
    not have.

    Args:
        kind: a key of `_COMBINED`.
        operands: arrays with the names of their dimensions.
        result: the names of the dimensions of the result.
        dtype: the dtype of the result.
    """
    builder = _builder_of(*(x for x, _ in operands))
    arrays = [(_expression(x, builder), names) for x, names in operands]
    sizes: dict[Any, int] = {}
    for x, names in arrays:
        sizes.update(zip(names, x.shape, strict=True))
    # Loops over what is next to each other in the last operand are the inner ones.
    names_in_order = [n for _, names in reversed(arrays) for n in names]
    reduced = [
        name
        for name in dict.fromkeys(names_in_order)
        if name not in result and sizes[name] != 1
    ]
    loop_of = {name: AffineDimExpr(i) for i, name in enumerate((*result, *reduced))}
    loops = _Loops(builder)
    scalar: Scalar = None
    for x, names in arrays:
        factor = x.element(loops, tuple(loop_of.get(name, _ZERO) for name in names))
        scalar = factor if scalar is None else scalar * factor
    if isinstance(scalar, Condition):
        scalar = scalar.number
    if not isinstance(scalar, IntegerExpression | FloatExpression):
        builder_inside = loops.builder
        is_float = np.asarray(scalar).dtype.kind == "f"
        type_ = f32 if is_float else i32
        number = builder_inside.number(scalar.item(), type_)
        scalar = (
            FloatExpression(builder_inside, number)
            if is_float
            else IntegerExpression(builder_inside, number, (int(scalar), int(scalar)))
        )
    shape = tuple(sizes[name] for name in result)
    count = math.prod(sizes[name] for name in reduced)
    is_float = isinstance(scalar, FloatExpression)
    if is_float:
        bounds: Any = (-math.inf, math.inf)
        type_ = scalar.type
    elif kind == "sum":
        low, high = _sum_bounds(arrays, result, sizes, count, scalar.bounds)
        bounds = min(low, 0), max(high, 0)
        type_ = type_for(bounds)
    elif kind == "prod":
        bounds, type_ = ANY_INTEGER, i64
    else:
        bounds = scalar.bounds
        type_ = type_for(bounds)
    result_dtype = np.dtype(
        dtype
        or (
            {f32: np.float32, f64: np.float64}[cast(Any, type_)]
            if is_float
            else np.int64
        )
    )
    identity = _IDENTITY[kind](bounds)
    initial = builder.map(
        (),
        TensorType(type_, shape),
        shape,
        lambda b, _: b.number(identity, type_),
    )
    if 0 in (*shape, count):
        return Loaded(builder, initial, result_dtype, bounds)
    op_type = _COMBINED[kind][0 if is_float else 1]

    def body(so_far: Sequence[SSAValue]) -> Sequence[SSAValue]:
        value = _as_scalar(loops.builder, scalar, type_)
        return [loops.builder.op(op_type, (so_far[0], value), type_)]

    loop_sizes = [sizes[name] for name in (*result, *reduced)]
    (value,) = loops.nest(loop_sizes, [initial], range(len(result)), body)
    return Loaded(builder, value, result_dtype, ANY_INTEGER if is_float else bounds)


def _sum_bounds(
    arrays: Sequence[tuple[TensorExpression, Sequence[Any]]],
    result: Sequence[Any],
    sizes: Mapping[Any, int],
    count: int,
    bounds: Bounds,
) -> Bounds:
    """
    The bounds of a sum of products: known weights say more than the largest one of them.
    """
    if bounds == ANY_INTEGER:
        return bounds
    low, high = bounds[0] * count, bounds[1] * count
    known = [(x, names) for x, names in arrays if isinstance(x, Known)]
    if len(arrays) != 2 or len(known) != 1:
        return low, high
    ((weights, names),) = known
    largest = int(np.abs(weights.array).max(initial=0))
    if not largest:
        return 0, 0
    others = -(-max(abs(bounds[0]), abs(bounds[1])) // largest)
    axes = tuple(i for i, name in enumerate(names) if name not in result)
    sums = np.abs(weights.array.astype(np.int64)).sum(axis=axes)
    repeated = math.prod(
        size for name, size in sizes.items() if name not in (*result, *names)
    )
    most = others * int(sums.max(initial=0)) * repeated
    return max(low, -most), min(high, most)


def _einsum(subscripts: str, *operands: Any, optimize: Any = None) -> TensorExpression:
    inputs, result = subscripts.split("->")
    pairs = [*zip(operands, inputs.split(","), strict=True)]
    return _contracted("sum", pairs, result)


def _matmul(lhs: Any, rhs: Any) -> TensorExpression:
    builder = _builder_of(lhs, rhs)
    a, b = _expression(lhs, builder), _expression(rhs, builder)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    names = [*range(len(batch))]

    def batched(x: TensorExpression, own: Sequence[str]) -> tuple[Any, Sequence[Any]]:
        # What is not repeated has no loop of its own.
        first = len(batch) - (x.ndim - 2)
        kept = [d for d in range(x.ndim - 2) if x.shape[d] == batch[first + d]]
        x = _reshaped(x, [*(x.shape[d] for d in kept), *x.shape[-2:]])
        return x, [*(names[first + d] for d in kept), *own]

    operands = [batched(a, ("i", "k")), batched(b, ("k", "j"))]
    return _contracted("sum", operands, [*names, "i", "j"])


def _first_index(is_better: Any) -> Callable[..., TensorExpression]:
    """The index of the first one of the best elements along a dimension."""

    def function(x: TensorExpression, axis: int) -> TensorExpression:
        axis = axis % x.ndim
        shape = (*x.shape[:axis], *x.shape[axis + 1 :])
        # The loop that reduces is the last one.
        place = [*_dims(x.ndim - 1)]
        place.insert(axis, AffineDimExpr(x.ndim - 1))
        loops = _Loops(x.builder)
        scalar = x.element(loops, tuple(place))
        if isinstance(scalar, FloatExpression):
            type_: Attribute = scalar.type
            worst: float = -math.inf if is_better is np.greater else math.inf
        else:
            type_ = type_for(scalar.bounds)
            worst = scalar.bounds[0] if is_better is np.greater else scalar.bounds[1]
        builder = x.builder
        initial = [
            builder.map(
                (), TensorType(t, shape), shape, lambda b, _, n=n, t=t: b.number(n, t)
            )
            for n, t in ((worst, type_), (0, i32))
        ]

        def body(so_far: Sequence[SSAValue]) -> Sequence[SSAValue]:
            inner = loops.builder
            best, index = so_far
            if isinstance(scalar, FloatExpression):
                known: Any = FloatExpression(inner, best)
            else:
                known = IntegerExpression(inner, best, scalar.bounds)
            better = is_better(scalar, known).value
            here = inner.op(
                arith.IndexCastOp, (loops.index(AffineDimExpr(x.ndim - 1)),), i32
            )
            value = _as_scalar(inner, scalar, type_)
            return [
                inner.add(arith.SelectOp(better, value, best)),
                inner.add(arith.SelectOp(better, here, index)),
            ]

        sizes = (*shape, x.shape[axis])
        _, indices = loops.nest(sizes, initial, range(len(shape)), body)
        return Loaded(builder, indices, np.dtype(np.int64), (0, x.shape[axis] - 1))

    return function


def _top_k(
    x: TensorExpression, count: int
) -> tuple[TensorExpression, TensorExpression]:
    x, size = x.computed, x.shape[-1]
    numbers = np.arange(size)
    one, other = x[..., :, None], x[..., None, :]
    is_before = (other > one) | ((other == one) & (numbers[None, :] < numbers[:, None]))
    ranks = is_before.sum(axis=-1)
    is_wanted = ranks[..., None, :] == np.arange(count)[:, None]
    values = np.where(is_wanted, x[..., None, :], x.dtype.type(0)).sum(axis=-1)
    indices = np.where(is_wanted, numbers, 0).sum(axis=-1)
    return values, indices


# NumPy's functions


def _ones_like(x: TensorExpression) -> NDArray[Any]:
    return np.ones(x.shape, x.dtype)


def _shape_function(x: TensorExpression) -> Shape:
    return x.shape


def _method(name: str) -> Callable[..., Any]:
    def function(x: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(x, name)(*args, **kwargs)

    return function


def _product(x: TensorExpression, axis: Any = None, keepdims: bool = False) -> Any:
    return _reduced("prod", x, axis, keepdims)


def _take(x: Any, indices: Any, axis: int = 0) -> TensorExpression:
    return _taken(x, indices, axis)


_FUNCTIONS: Mapping[Any, Callable[..., Any]] = {
    np.argmax: _first_index(np.greater),
    np.argmin: _first_index(np.less),
    np.broadcast_to: _broadcast,
    np.clip: _clip,
    np.concatenate: _concatenated,
    np.einsum: _einsum,
    np.expand_dims: _expanded,
    np.flip: _flipped,
    np.max: _method("max"),
    np.min: _method("min"),
    np.moveaxis: _moved_axis,
    np.ndim: lambda x: x.ndim,
    np.ones_like: _ones_like,
    np.pad: _pad,
    np.prod: _product,
    np.reshape: _method("reshape"),
    np.shape: _shape_function,
    np.split: _split,
    np.squeeze: _squeezed,
    np.stack: _stacked,
    np.sum: _method("sum"),
    np.take: _take,
    np.tile: _tiled,
    np.transpose: _method("transpose"),
    np.where: _where,
    np.lib.stride_tricks.sliding_window_view: _sliding_windows,
}
