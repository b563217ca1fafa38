"""Sizes and indices that are known at run time, with assertions on them."""

from collections.abc import Sequence
from itertools import product

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DYNAMIC_INDEX, i64
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.dialects.verification import constant_integers
from xdsl_quant.frontends.stablehlo.dialect import ConcatenateOp, ReshapeOp
from xdsl_quant.transforms.building.builder import (
    INDEX,
    LoweringBuilder,
    Size,
    element_type_of,
    shape_of,
)
from xdsl_quant.transforms.building.tensor_traversal import assert_holds
from xdsl_quant.unsupported import Unsupported

from .elementwise import convert_scalar


def as_index(builder: LoweringBuilder, value: SSAValue, type_: Attribute) -> SSAValue:
    """Return an integer or index of a StableHLO type as an index."""
    if value.type == INDEX:
        return value
    wide = convert_scalar(builder, value, type_, i64)
    return builder.op(arith.IndexCastOp, (wide,), INDEX)


def _known_integers(value: SSAValue) -> Sequence[int] | None:
    """Return the elements of a constant, or of a concatenation of constants."""
    match value.owner:
        case ReshapeOp() as op:
            return _known_integers(op.operand)
        case ConcatenateOp() as op if len(op.result.type.shape) == 1:
            parts = [_known_integers(operand) for operand in op.inputs]
            known = [part for part in parts if part is not None]
            is_known = len(known) == len(parts)
            return [number for part in known for number in part] if is_known else None
        case _:
            return constant_integers(value)


def run_time_numbers(
    builder: LoweringBuilder, operand: SSAValue, value: SSAValue
) -> list[Size]:
    """
    Return the elements of a tensor in row-major order; those of a constant are static.

    Args:
        builder: insertion point.
        operand: operand of the StableHLO op.
        value: the operand as a tensor of a signless type.
    """
    if (numbers := _known_integers(operand)) is not None:
        return [*numbers]
    type_ = scalar_or_element_type(operand.type)
    elements: list[Size] = []
    for position in product(*map(range, shape_of(value))):
        at = [builder.index(index) for index in position]
        element = builder.op(tensor.ExtractOp, (value, *at), element_type_of(value))
        elements.append(as_index(builder, element, type_))
    return elements


def result_sizes(
    builder: LoweringBuilder, op: Operation, operand: SSAValue, value: SSAValue
) -> Sequence[Size]:
    """
    Return the sizes of the result of an op, of which `operand` is the shape; assert that
    they are those of its type.

    Raises:
        Unsupported: if the number of sizes is not the rank of the result.
    """
    shape, sizes = shape_of(op.results[0]), run_time_numbers(builder, operand, value)
    if len(sizes) != len(shape):
        raise Unsupported(
            f"has a shape of {len(sizes)} sizes for a result of rank {len(shape)}"
        )
    for d, (size, static) in enumerate(zip(sizes, shape, strict=True)):
        if isinstance(size, int):
            continue
        is_known = static != DYNAMIC_INDEX
        predicate, bound = ("eq", static) if is_known else ("sge", 0)
        problem = f"has an invalid size of dimension {d} of its result"
        assert_size(builder, op, predicate, size, bound, problem)
    return [
        size if static == DYNAMIC_INDEX else static
        for size, static in zip(sizes, shape, strict=True)
    ]


def assert_size(
    builder: LoweringBuilder,
    op: Operation,
    predicate: str,
    lhs: Size,
    rhs: Size,
    problem: str,
) -> None:
    """Assert `predicate`, as in `arith.cmpi`, for two sizes; `problem` follows the op."""
    comparison = arith.CmpiOp(
        builder.size_value(lhs), builder.size_value(rhs), predicate
    )
    assert_holds(builder, comparison, f"'{op.name}' op {problem}")


def assert_broadcast(
    builder: LoweringBuilder, op: Operation, dimension: int, size: Size, bound: Size
) -> None:
    """Assert that a dimension has the size of the result or, if unknown, the size 1."""
    if size == 1 or (isinstance(size, int) and isinstance(bound, int)):
        return
    if not isinstance(size, int):
        is_one = builder.add(arith.CmpiOp(size, builder.index(1), "eq"))
        size = builder.add(arith.SelectOp(is_one, builder.size_value(bound), size))
    problem = f"broadcasts dimension {dimension} to another size"
    assert_size(builder, op, "eq", size, bound, problem)


def last_start(
    builder: LoweringBuilder, op: Operation, dimension: int, bound: Size, size: Size
) -> Size:
    """Return the last start of a slice in a dimension; assert that the slice fits."""
    if not (isinstance(bound, int) and isinstance(size, int)):
        problem = f"has a slice that exceeds dimension {dimension}"
        assert_size(builder, op, "ule", size, bound, problem)
    return builder.plus(bound, builder.times(size, -1))
