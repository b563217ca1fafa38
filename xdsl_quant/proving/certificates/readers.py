"""
Transfer functions: the values that ops of float and of quantized networks compute.

`READERS` is the only table of ops. A reader states the result of an op in real numbers,
and the largest deviation of the stored result from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    Float32Type,
    ModuleOp,
    TensorType,
    i1,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import SymbolTable

from xdsl_quant.diagnostics import op_name, refuse
from xdsl_quant.dialects.quant.types import (
    ScaledQuantizedType,
    scalar_or_element_type,
)
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import (
    constant_elements,
    numpy_dtype,
    shape_of,
    stored_elements,
)

from .functions import FUNCTIONS
from .linear_maps import Floats, Gathering, Indices, LinearMap, Path
from .networks import (
    Argument,
    Clamp,
    Function,
    Network,
    StoredRounding,
    Sum,
    Table,
    Value,
    element_scales,
    moves_only,
    real_bounds,
    real_numbers,
    scaled_type,
    shape_of_result,
    stored_numbers,
)

NARROW_ERROR, WIDE_ERROR = 2.0**-20, 2.0**-14
"""
Bounds of the relative error of a requantization before it rounds, for results of at most 8
bits and of 16 bits: `f32` scales and products, and multipliers of 31 and of 15 bits.
"""


def refuse_op(op: Operation, found: object) -> NoReturn:
    """Raise a `PassFailedException` that names an op without transfer function."""
    refuse(op, "cannot be bounded", found, "certify a model without it")


@dataclass
class Reader:
    """Values of a function that is read op by op."""

    values: dict[SSAValue, Value] = field(default_factory=dict[SSAValue, Value])
    order: list[Value] = field(default_factory=list[Value])

    def value(self, operand: SSAValue) -> Value:
        """Return the value of an operand."""
        return self.values[operand]

    def constant(self, operand: SSAValue) -> Floats | None:
        """Return the real numbers of a constant operand in its shape, else `None`."""
        value = self.values.get(operand)
        if not isinstance(value, Sum) or value.terms:
            return None
        return value.constant.reshape(value.shape)

    def needed_constant(self, op: Operation, index: int) -> Floats:
        """Return the real numbers of an operand, or refuse the op."""
        constant = self.constant(op.operands[index])
        if constant is None:
            refuse_op(op, f"operand {index} is not constant")
        return constant

    def add(self, value: Value) -> Value:
        """Append a value in execution order."""
        self.order.append(value)
        return value

    def sum(
        self,
        op: Operation,
        terms: Sequence[tuple[Value, Path]],
        constant: Floats | float = 0.0,
        shape: tuple[int, ...] | None = None,
    ) -> Value:
        """Add a sum; fold terms that are constant."""
        shape = shape_of_result(op) if shape is None else shape
        total = np.zeros(int(np.prod(shape))) + np.ravel(constant)
        variable: list[tuple[Value, Path]] = []
        for value, path in terms:
            if isinstance(value, Sum) and not value.terms:
                total = total + path.apply(value.constant)
            else:
                variable.append((value, path))
        if len(terms) > len(variable) == 0 and not moves_only(terms):
            # Their rounding errors in `f32` are unknown.
            refuse_op(op, "operands that are all constant")
        found = Sum(op, shape, variable, total)
        same = next((each for each in self.order if _are_equal_sums(each, found)), None)
        if same is None:
            return self.add(found)
        # One value for equal sums, so that a pair has one float value.
        return self.add(Sum(op, shape, [(same, Path())], np.zeros(same.size)))

    def mapped(
        self, op: Operation, *maps: LinearMap, constant: Floats | float = 0.0
    ) -> Value:
        """Add the linear map of the first operand, plus a constant."""
        return self.sum(op, [(self.value(op.operands[0]), Path(maps))], constant)

    def gathered(self, op: Operation, move: Callable[[Indices], Array]) -> Value:
        """Add the elements of the first operand that `move` selects from its indices."""
        shape = shape_of(op.operands[0].type)
        count = math.prod(shape)
        indices = np.asarray(move(np.arange(count).reshape(shape)), np.intp).ravel()
        if np.array_equal(indices, np.arange(count)):
            return self.mapped(op)
        return self.mapped(op, Gathering(indices, count))


def _are_equal_sums(lhs: Value, rhs: Sum) -> bool:
    """Return True for equal sums of floats."""
    if not isinstance(lhs, Sum) or not rhs.terms or len(lhs.terms) != len(rhs.terms):
        return False
    types = [scaled_type(each.op.results[0].type) for each in (lhs, rhs) if each.op]
    return (
        types == [None, None]
        and all(
            x is y and first.equals(second)
            for (x, first), (y, second) in zip(lhs.terms, rhs.terms, strict=True)
        )
        and np.array_equal(lhs.constant, rhs.constant)
    )


ReadFunction: TypeAlias = Callable[[Reader, Operation], Value]

READERS: dict[str, ReadFunction] = {}
"""Transfer functions by op name."""


def reads(*names: str) -> Callable[[ReadFunction], ReadFunction]:
    """Register a transfer function for ops."""

    def register(function: ReadFunction) -> ReadFunction:
        READERS.update(dict.fromkeys(names, function))
        return function

    return register


def check_function(function: FuncOp) -> None:
    """
    Check that a function has one argument, a static `f32` tensor, and one result.

    Raises:
        ValueError: if it has other arguments, or several results or blocks.
    """
    inputs, outputs = function.function_type.inputs, function.function_type.outputs
    name = function.sym_name.data
    if (len(inputs), len(outputs)) != (1, 1) or len(function.body.blocks) != 1:
        raise ValueError(
            f"function '{name}' cannot be bounded: {len(inputs)} arguments and "
            f"{len(outputs)} results; certify a function of one tensor with one result"
        )
    (type_,) = inputs
    if not isinstance(scalar_or_element_type(type_), Float32Type):
        raise ValueError(
            f"function '{name}' has an argument of type {type_}; certify a function of "
            "an f32 tensor"
        )
    if DYNAMIC_INDEX in shape_of(type_):
        raise ValueError(
            f"function '{name}' has an argument of dynamic size; use --static or --shape"
        )


def read_network(function: FuncOp) -> Network:
    """
    Return the network that a function computes.

    Raises:
        PassFailedException: if an op has no transfer function.
        ValueError: see `check_function`.
    """
    check_function(function)
    (own,) = function.body.block.args
    reader = Reader()
    argument = Argument(None, tuple(shape_of(own.type)))
    reader.values[own] = reader.add(argument)
    result = _read_body(reader, function)
    return Network(_alive(reader.order, argument, result), argument, result)


def _read_body(reader: Reader, function: FuncOp) -> Value:
    """Return the result of a function of values that the reader knows."""
    for op in function.body.block.ops:
        if isinstance(op, ReturnOp):
            return reader.values[op.operands[0]]
        if op_name(op) == "tfl.no_value":
            continue
        if isinstance(op, CallOp):
            reader.values[op.results[0]] = _read_call(reader, op)
            continue
        reader.values[op.results[0]] = _read_op(reader, op)
    raise AssertionError(function.sym_name.data)


def _read_call(reader: Reader, op: CallOp) -> Value:
    """Return the result of a call, by the values of its function."""
    callee = SymbolTable.lookup_symbol(op, op.callee)
    if not isinstance(callee, FuncOp) or callee.is_declaration or len(op.results) != 1:
        refuse_op(op, f"a call of '{op.callee.string_value()}'")
    for own, operand in zip(callee.body.block.args, op.operands, strict=True):
        reader.values[own] = reader.values[operand]
    return _read_body(reader, callee)


def _alive(order: Sequence[Value], argument: Value, result: Value) -> Sequence[Value]:
    """Return the values from which the result is computed, in their order."""
    alive = {argument, result}
    for value in reversed(order):
        if value in alive:
            alive.update(value.operands)
    return [value for value in order if value in alive]


_MOVED_MASKS = ("stablehlo.broadcast_in_dim", "stablehlo.reshape")
"""Ops that may have truth values as results."""


def _read_op(reader: Reader, op: Operation) -> Value:
    if len(op.results) == 1 and (constant := _constant(reader, op)) is not None:
        return reader.sum(op, (), constant)
    read = READERS.get(name := op_name(op))
    if read is None or len(op.results) != 1:
        refuse_op(op, f"no transfer function for '{name}'")
    element = scalar_or_element_type(op.results[0].type)
    if isinstance(element, ScaledQuantizedType):
        element = element.expressed_type
    # Masks of selections are constant, and only moved.
    is_mask = element == i1 and isinstance(reader.values.get(op.operands[0]), Sum)
    # The rounding errors of other floats, and of integers, are not modelled.
    if not isinstance(element, Float32Type) and not (is_mask and name in _MOVED_MASKS):
        refuse_op(op, f"result of type {op.results[0].type}")
    return read(reader, op)


_ARITHMETIC = frozenset("add sub subtract mul multiply div divide negate sqrt".split())
"""Names of ops whose result in `f32` is exact, but rounded once."""


def _constant(reader: Reader, op: Operation) -> Floats | None:
    """Return the numbers of a constant or of arithmetic on constants, else `None`."""
    elements = constant_elements(op.results[0])
    if elements is None:
        return _exact_result(reader, op)
    if (type_ := scaled_type(op.results[0].type)) is not None:
        return real_numbers(stored_elements(elements, type_), type_)
    return elements.astype(np.float64)


def _exact_result(reader: Reader, op: Operation) -> Floats | None:
    """Return the result of arithmetic on `f32` constants, else `None`."""
    if (
        op_name(op).split(".")[-1] not in _ARITHMETIC
        or scaled_type(op.results[0].type) is not None
    ):
        return None
    operands: list[Array] = []
    for operand in op.operands:
        numbers = reader.constant(operand)
        if numbers is None or np.any(numbers != numbers.astype(np.float32)):
            return None
        operands.append(numbers.astype(np.float32))
    return _interpreted_op(op, operands, op.results[0].type).astype(np.float64)


# Rounding to stored values


def finished(
    reader: Reader,
    op: Operation,
    total: Value,
    unit: Floats | float = 0.0,
    *,
    activation: str = "NONE",
    stored: tuple[int, int] | None = None,
    more_error: Floats | float = 0.0,
) -> Value:
    """
    Add the result of an op, given its exact value: rounded if the result is quantized,
    clamped to the range of the activation otherwise.

    Args:
        total: the exact value.
        unit: scale of the integers from which the result is requantized; 0 if the
            result is quantized from floats.
        activation: name of a fused activation of a float op.
        stored: range of the stored values; by default, that of the type.
        more_error: further error, in units of the result.
    """
    type_ = scaled_type(op.results[0].type)
    if type_ is None:
        return activated(reader, op, total, activation)
    scale = element_scales(type_, total.shape).ravel()
    multiplier = np.asarray(unit) / scale
    low, high = real_bounds(type_, total.shape, stored)
    if type_.storage_type_integral_width > 16:
        refuse_op(op, f"result of {type_.storage_type_integral_width} bits")
    error = rounding_error(op, type_, multiplier) + more_error
    # Kernels shift sums of 32 bits left for multipliers of 1 and more.
    shift = np.exp2(np.ceil(np.log2(np.maximum(multiplier, 0.5))) + 1)
    limit = np.where(multiplier > 0, 2.0**31 / shift * unit, np.inf)
    return reader.add(
        StoredRounding(op, total.shape, total, error * scale, low, high, limit)
    )


def rounding_error(
    op: Operation, type_: ScaledQuantizedType, multiplier: Floats | float = 0.0
) -> Floats:
    """
    Return the largest error of a rounding in units of the result: half a unit, the first
    rounding of kernels that round twice, and the relative error of the number that is
    rounded.
    """
    # Of the number before and after the zero point is added.
    largest = max(map(abs, type_.storage_range)) + 1
    largest += 2 * max(map(abs, type_.zero_point_range))
    is_wide = type_.storage_type_integral_width > 8
    relative = WIDE_ERROR if is_wide else NARROW_ERROR
    has_mode = any(name.startswith("quant.") for name in op.attributes)
    half = 1.0 if has_mode else 0.5
    second = np.minimum(np.asarray(multiplier, np.float64), 0.25)
    return half + second + relative * largest


_ACTIVATIONS: Mapping[str, tuple[float, float]] = {
    "RELU": (0.0, np.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}


def activated(reader: Reader, op: Operation, total: Value, activation: str) -> Value:
    """Add a fused activation of a float op."""
    if activation == "NONE":
        return total
    if activation == "TANH":
        return reader.add(Function(op, total.shape, total, "tanh"))
    if activation not in _ACTIVATIONS:
        refuse_op(op, f"activation {activation}")
    low, high = map(np.asarray, _ACTIVATIONS[activation])
    return reader.add(Clamp(op, total.shape, total, low, high))


def operand_unit(op: Operation, index: int, shape: Sequence[int]) -> Floats | float:
    """Return the scales of an operand, spread over a shape; 0 for floats."""
    type_ = scaled_type(op.operands[index].type)
    return 0.0 if type_ is None else element_scales(type_, shape)


# Tables of functions of stored values


def function_value(reader: Reader, op: Operation, name: str) -> Value:
    """Add an elementwise function; a quantized one is tabulated by the interpreter."""
    operand = reader.value(op.operands[0])
    source = scaled_type(op.operands[0].type)
    known = FUNCTIONS.get(name)
    domain = -np.inf if known is None else known.domain
    table = None if source is None else _table(op, source, domain)
    return reader.add(Function(op, operand.shape, operand, name, table))


def _table(op: Operation, source: ScaledQuantizedType, domain: float) -> Table:
    target = scaled_type(op.results[0].type)
    if target is None or not source.is_per_tensor or not target.is_per_tensor:
        refuse_op(op, "operand or result without per-tensor scale")
    if max(source.storage_type_integral_width, target.storage_type_integral_width) > 16:
        refuse_op(op, "stored values of more than 16 bits")
    low, high = source.storage_range
    stored = np.arange(low, high + 1).astype(numpy_dtype(source))
    # The interpreter refuses stored values where the function is undefined.
    stored = stored[real_numbers(stored, source) > domain]
    results = _interpreted_op(op, [stored], TensorType(target, stored.shape))
    return Table(real_numbers(stored, source), real_numbers(results, target))


def converted_constant(op: Operation, constant: Floats) -> Floats:
    """
    Return the result of a requantization or dequantization of constant real numbers, which
    have the shape of the operand.
    """
    source, target = (
        scaled_type(each.type) for each in (op.operands[0], op.results[0])
    )
    if source is None:
        refuse_op(op, "a constant without scale")
    stored = stored_numbers(constant, source).astype(numpy_dtype(source))
    results = _interpreted_op(op, [stored], op.results[0].type)
    return results if target is None else real_numbers(results, target)


def _interpreted_op(
    op: Operation, operands: Sequence[Array], result_type: Attribute
) -> Array:
    """Return the result of an elementwise op for arrays as its operands."""
    types = [
        TensorType(scalar_or_element_type(operand.type), array.shape)
        for operand, array in zip(op.operands, operands, strict=True)
    ]
    function = FuncOp("main", (types, [result_type]))
    block = function.body.block
    own = op.clone(dict(zip(op.operands, block.args, strict=True)))
    block.add_op(own)
    result = Rewriter.replace_value_with_new_type(own.results[0], result_type)
    block.add_op(ReturnOp(result))
    (results,) = run_function(ModuleOp([function]), "main", *operands)
    return results
