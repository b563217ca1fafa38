"""
Verification of data movement ops on tensors whose blocks have scales of their own: each
element of a result must have the scale, zero point and offset of the operand's element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import BlockScaledQuantizedType
from xdsl_quant.dialects.quant.types import (
    UniformQuantizedSubChannelType,
    scalar_or_element_type,
)

from .base import Shape, TFLOp, has_several_scales, static_shape_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

Blocks: TypeAlias = UniformQuantizedSubChannelType | BlockScaledQuantizedType


class BlockOrigin(NamedTuple):
    """Origin of the elements along a dimension of a result."""

    axis: int
    """Dimension of the operand."""

    indices: Sequence[int] | None
    """Indices of the operand; `None` if they are unknown."""


class Move(NamedTuple):
    """Movement of an operand into a part of the result."""

    operand: SSAValue
    sources: Sequence[BlockOrigin | None]
    """Origin of each dimension of the result; `None` for inserted dimensions."""

    fixed: Mapping[int, int | None] = {}
    """Index along dimensions that are dropped; `None` if it is unknown."""

    start: Mapping[int, int] = {}
    """First index of the part in the result, by dimension; 0 by default."""


class _Parameters(NamedTuple):
    """Parameters of blocks, and their sizes, with a dimension for each of a tensor."""

    sizes: Sequence[int]
    arrays: Mapping[str, NDArray[Any]]


def strided_move(
    operand: SSAValue, shape: Shape, index: Sequence[slice | int | EllipsisType | None]
) -> Move:
    """Return the movement of `operand[index]`, with the semantics of NumPy."""
    sources: list[BlockOrigin | None] = []
    fixed: dict[int, int | None] = {}
    axes = iter(range(len(shape)))
    used = sum(isinstance(entry, slice | int) for entry in index)
    has_ellipsis = any(entry is ... for entry in index)
    for entry in index if has_ellipsis else (*index, ...):
        if entry is None:
            sources.append(None)
        elif entry is ...:
            rest = [next(axes) for _ in range(len(shape) - used)]
            sources += [BlockOrigin(axis, range(shape[axis])) for axis in rest]
        elif isinstance(entry, slice):
            axis = next(axes)
            sources.append(BlockOrigin(axis, range(shape[axis])[entry]))
        else:
            axis = next(axes)
            fixed[axis] = range(shape[axis])[entry]
    return Move(operand, sources, fixed)


def moves_blocks(op: TFLOp) -> bool:
    """Return True if the first operand or the first result has several scales of blocks."""
    values = op.operands[0], op.results[0]
    return any(
        has_several_scales(scalar_or_element_type(value.type)) for value in values
    )


def whole(operand: SSAValue, shape: Shape, axes: Sequence[int] | None = None) -> Move:
    """Return the movement of a whole operand; `axes` are its dimensions in the result."""
    order = range(len(shape)) if axes is None else axes
    return Move(operand, [BlockOrigin(axis, range(shape[axis])) for axis in order])


def verify_moves(op: TFLOp, moves: Sequence[Move] | Move | None) -> None:
    """
    Verify that the elements of a result have the parameters of the elements of operands.

    Args:
        op: op with one result, whose operands have static shapes.
        moves: movement of each operand, which covers the result together with the others;
            `None` if sizes or indices are unknown, or no type describes the result.

    Raises:
        VerifyException: if types have other parameters, or divide no tensor of their shape.
    """
    result = op.results[0]
    b, result_shape = scalar_or_element_type(result.type), static_shape_of(result)
    if moves is None or result_shape is None:
        return op.require(
            False, f"moves blocks to unknown places: {b}; dequantize them first"
        )
    for move in [moves] if isinstance(moves, Move) else moves:
        a = scalar_or_element_type(move.operand.type)
        for type_, tensor in (a, move.operand.type), (b, result.type):
            try:
                assert isinstance(type_, Blocks)
                type_.verify_container(tensor)
            except VerifyException as e:
                op.require(False, f"has the type '{tensor}': {e}")
        assert isinstance(a, Blocks)
        assert isinstance(b, Blocks)
        shape = static_shape_of(move.operand)
        op.require(
            shape is not None
            and a.common_parameters == b.common_parameters
            and _have_equal_parameters(
                _full_rank_parameters(a, shape),
                _full_rank_parameters(b, result_shape),
                move,
            ),
            f"splits blocks of {a} or moves them to other scales: {b}; expected the scales "
            "of the moved elements, or dequantized operands",
        )


def _full_rank_parameters(type_: Blocks, shape: Shape) -> _Parameters:
    blocks = dict(type_.block_size_info)
    sizes = [max(1, blocks.get(axis, size)) for axis, size in enumerate(shape)]
    counts = [
        -(-size // block) if axis in blocks else 1
        for axis, (size, block) in enumerate(zip(shape, sizes, strict=True))
    ]
    if isinstance(type_, UniformQuantizedSubChannelType):
        arrays = {"scales": type_.get_scales(), "zero_points": type_.get_zero_points()}
    else:
        arrays = type_.get_numbers()
    return _Parameters(sizes, {k: array.reshape(counts) for k, array in arrays.items()})


def _have_equal_parameters(a: _Parameters, b: _Parameters, move: Move) -> bool:
    """Compare the parameters of each pair of blocks that have an element in common."""
    chosen: dict[int, Sequence[int]] = {}
    for axis, number in move.fixed.items():
        count = a.arrays["scales"].shape[axis]
        if number is None and count > 1:
            return False
        chosen[axis] = [0 if number is None else number // a.sizes[axis]]
    result_chosen: list[Sequence[int]] = []
    for dimension, source in enumerate(move.sources):
        result_blocks = range(b.arrays["scales"].shape[dimension])
        if source is None or source.indices is None:
            if source is not None and a.arrays["scales"].shape[source.axis] > 1:
                return False
            if source is not None:
                chosen[source.axis] = [0]
            result_chosen.append(result_blocks)
            continue
        start, size = move.start.get(dimension, 0), b.sizes[dimension]
        pairs = {
            (index // a.sizes[source.axis], position // size)
            for position, index in enumerate(source.indices, start)
        }
        own, other = zip(*sorted(pairs), strict=True) if pairs else ((), ())
        chosen[source.axis] = own
        result_chosen.append(other)
    for name in a.arrays.keys() | b.arrays.keys():
        x, y = (
            _parameters_of_blocks(a, name, chosen),
            _parameters_of_blocks(b, name, dict(enumerate(result_chosen))),
        )
        x = _in_result_order(x, move)
        if not ((x == y) | ((x != x) & (y != y))).all():
            return False
    return True


def _parameters_of_blocks(
    parameters: _Parameters, name: str, blocks: Mapping[int, Sequence[int]]
) -> NDArray[Any]:
    """Return the parameters of blocks that are chosen along dimensions, or zeros."""
    scales = parameters.arrays["scales"]
    array = parameters.arrays.get(name, scales * 0)
    for axis, numbers in blocks.items():
        array = array.take(numbers, axis)
    return array


def _in_result_order(array: NDArray[Any], move: Move) -> NDArray[Any]:
    """Return an array of the operand's dimensions with those of the result."""
    axes = [source.axis for source in move.sources if source is not None]
    dropped = [axis for axis in range(array.ndim) if axis not in axes]
    moved = array.transpose([*axes, *dropped])
    sizes = iter(moved.shape)
    return moved.reshape([1 if s is None else next(sizes) for s in move.sources])
