"""Numbers of SSA values for all values of the bytes from which ops compute them."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from xdsl_quant.numerics.arrays import Array

from .. import mlir_bindings as mlir
from ..mlir_bindings import ir
from .memrefs import constant_of

BYTES: Array = np.arange(256).astype(np.uint8).view(np.int8).astype(np.int64)
"""The bytes 0 to 127, then -128 to -1."""

_OPS: Mapping[str, Callable[..., Array]] = {
    "arith.addi": np.add,
    "arith.andi": np.bitwise_and,
    "arith.extf": np.positive,
    "arith.extsi": np.positive,
    "arith.extui": np.positive,
    "arith.index_cast": np.positive,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.mulf": np.multiply,
    "arith.muli": np.multiply,
    "arith.ori": np.bitwise_or,
    "arith.select": np.where,
    "arith.shli": np.left_shift,
    "arith.shrsi": np.right_shift,
    "arith.sitofp": np.positive,
    "arith.subi": np.subtract,
    "arith.trunci": np.positive,
    "arith.uitofp": np.positive,
    "arith.xori": np.bitwise_xor,
}
"""Functions of numbers; results are converted to the type of the op's result."""

_COMPARISONS = (
    *(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal),
)
"""Signed comparisons, by the number of their predicate."""

_Float = ir.F16Type | ir.F32Type


def repeated_number(value: ir.Value) -> Array | None:
    """Return the repeated number of an `arith.constant`; `None` for other values."""
    number = mlir.number_of(value)
    return None if number is None else _as_type(np.full(256, number), value.type)


def values_in(
    block: ir.Block, arguments: Mapping[ir.Value, Array]
) -> dict[ir.Value, Array] | None:
    """
    Return the numbers of the values in a block, which broadcast with those of its
    arguments; `None` if an op is unsupported or an assertion fails.
    """
    values = {**arguments}
    for op in mlir.operations_of(block)[:-1]:
        if op.name == "arith.constant":
            continue
        sources, table = [*op.operands], None
        if op.name == "memref.load":
            table = constant_of(sources.pop(0))
        for value in sources:
            if value not in values and (number := repeated_number(value)) is not None:
                values[value] = number
        if not {*sources} <= values.keys():
            return None
        numbers = [values[value] for value in sources]
        if op.name == "cf.assert":
            if not numbers[0].all():
                return None
            continue
        if (result := evaluated(op, numbers, table)) is None:
            return None
        values[op.results[0]] = result
    return values


def evaluated(
    op: ir.Operation, operands: Sequence[Array], table: Array | None = None
) -> Array | None:
    """
    Return the 256 numbers of an op's result, or `None` if the op is unsupported. Integers
    are sign-extended to i64; numbers of other floats than f16 and f32 are their bits.

    Args:
        op: the op.
        operands: the numbers of its operands; of a `memref.load`, those of its indices.
        table: the elements of the constant that a `memref.load` reads.
    """
    if len(op.results) != 1 or not operands:
        return None
    first, type_ = operands[0], op.results[0].type
    match op.name:
        case "memref.load":
            if table is None or not table.ndim == len(operands) == 1:
                return None
            # Unused byte values may be out of bounds.
            return table.take(first, mode="clip")
        case "arith.bitcast":
            return _bitcast(first, type_)
        case "arith.cmpi":
            predicate = mlir.attribute_of(op, "predicate", ir.IntegerAttr).value
            compare = dict(enumerate(_COMPARISONS)).get(predicate)
            return compare and _as_type(compare(*operands), type_)
        case "arith.extui" | "arith.uitofp":
            operands = [first & ((1 << mlir.bits(op.operands[0].type)) - 1)]
        case "arith.extf" if not isinstance(op.operands[0].type, _Float):
            return None
        case "arith.shli" | "arith.shrsi":
            if operands[1].min() < 0 or operands[1].max() >= _width_of(type_):
                return None
        case _:
            pass
    if (function := _OPS.get(op.name)) is None:
        return None
    with np.errstate(all="ignore"):
        return _as_type(function(*operands), type_)


def _width_of(type_: ir.Type) -> int:
    return 64 if isinstance(type_, ir.IndexType) else mlir.bits(type_)


def _as_type(numbers: Array, type_: ir.Type) -> Array | None:
    """Round numbers to f16 or f32, or wrap integers; return `None` for other types."""
    if isinstance(type_, _Float):
        return numbers.astype(f"f{type_.width // 8}")
    if not isinstance(type_, ir.IntegerType | ir.IndexType):
        return None
    unused = 64 - _width_of(type_)
    return numbers.astype(np.int64) << unused >> unused


def _bitcast(numbers: Array, type_: ir.Type) -> Array | None:
    if numbers.dtype.kind == "f":
        numbers = numbers.view(f"i{numbers.itemsize}").astype(np.int64)
    if isinstance(type_, _Float):
        size = type_.width // 8
        return numbers.astype(f"i{size}").view(f"f{size}")
    is_small = isinstance(type_, ir.FloatType) and type_.width <= 8
    return numbers if is_small or isinstance(type_, ir.IntegerType) else None
