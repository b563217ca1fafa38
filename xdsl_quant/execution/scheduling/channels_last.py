"""
Channels-last layouts for convolutions of bytes whose channels come before the pixels.

The columns of a product of bytes are its output channels, which are packed at compile
time. They must be contiguous in the result, and the input channels in the input: the
rewrite transposes these tensors, and all tensors between two convolutions. Only the
arguments and results of such a group of ops are transposed at run time.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from xdsl_quant.numerics.arrays import Array

from .. import mlir_bindings as mlir
from ..building import (
    indexing_maps,
    is_dynamic,
    iterator_types_of,
    loops_in,
    reshape_tensor,
)
from ..float_reductions import has_sum_in_lanes
from ..mlir_bindings import Values, arith, ir, tensor
from .channel_multipliers import splat_value
from .contractions import Contraction, Factor, contraction_of, materialize_operand
from .generic_ops import build_generic, splat_tensor
from .memrefs import constant_of, f32_constant_of

_ORDERS: Mapping[int, Sequence[int]] = {4: (0, 2, 3, 1), 5: (0, 3, 4, 1, 2)}
"""
Dimensions of a tensor with channels last, by rank: batch, pixels, channels. Five
dimensions are those of a convolution with groups: batch, group, channel, pixels.
"""

_SLICES = "tensor.extract_slice", "tensor.insert_slice"

_MIN_CHANNELS = 4
"""Minimum number of input channels that pays for a transposition of the input."""


_MIN_GROUPS = 16
"""Minimum number of channels for which a convolution with groups is moved."""


def move_channels_last(module: ir.Module) -> None:
    """Compute convolutions of bytes, and ops on their results, with channels last."""
    layouts = _Layouts()
    for op in mlir.ops_in(module):
        if len(op.results) != 1 or not _is_static_tensor(op.results[0]):
            continue
        is_moved = any(value in layouts.moved for value in op.operands)
        if not is_moved and not _has_channels_first(op):
            continue
        if (rewrite := _rewrite_of(op, layouts.moved)) is not None:
            with ir.InsertionPoint(op), op.location:
                rewrite(layouts, op)
    layouts.store_or_erase()


def _is_static_tensor(value: ir.Value) -> bool:
    type_ = value.type
    if not isinstance(type_, ir.RankedTensorType) or type_.encoding is not None:
        return False
    return not any(map(is_dynamic, type_.shape))


def _has_channels_first(op: ir.Operation) -> bool:
    """Return True for a convolution of bytes with pixels last, and constant weights."""
    if op.name != "linalg.generic" or (found := contraction_of(op)) is None:
        return False
    return (
        len(found.result) in _ORDERS
        and all(map(_is_static_tensor, op.operands))
        and any(
            _is_convolution(found, *factors)
            for factors in ((found.lhs, found.rhs), (found.rhs, found.lhs))
        )
    )


def _is_convolution(found: Contraction, lhs: Factor, rhs: Factor) -> bool:
    byte = ir.IntegerType.get_signless(8)
    if lhs.element_type != byte or len(lhs.indices) != 4:
        return False
    if constant_of(rhs.value) is None:
        return False
    if len(found.result) == 5 and mlir.shape(lhs.value)[1] < _MIN_GROUPS:
        return False
    batch, last = found.result[0], found.result[-1]
    channels = {*found.result[1 : len(found.result) - 2]}
    return channels <= rhs.loops and not rhs.loops & {batch, last}


@dataclass
class _Layouts:
    """Tensors with channels last, by the tensor with channels first."""

    moved: dict[ir.Value, ir.Value] = field(default_factory=dict[ir.Value, ir.Value])

    def value(self, value: ir.Value) -> ir.Value:
        """Return a tensor with channels last, transposed at run time if necessary."""
        if (known := self.moved.get(value)) is not None:
            return known
        order = _ORDERS[len(mlir.shape(value))]
        if (number := splat_value(value)) is not None:
            return splat_tensor(
                _permuted(mlir.shape(value), order), mlir.element(value), number
            )
        if mlir.defining_op(value, "tensor.empty"):
            return tensor.empty(
                _permuted(mlir.shape(value), order), mlir.element(value)
            )
        if _is_broadcast(value):
            op = mlir.defining_op(value, "linalg.generic")
            assert op is not None
            with ir.InsertionPoint(op):
                return self.generic(op)
        return _transposed(value, order)

    def replace(self, op: ir.Operation, new: ir.Value) -> None:
        """Replace the result of an op by the tensor `new` with channels last."""
        order = _ORDERS[len(mlir.shape(new))]
        back = _transposed(new, [order.index(i) for i in range(len(order))])
        self.moved[back] = new
        mlir.replace_op(op, back)

    def generic(self, op: ir.Operation) -> ir.Value:
        """Compute the result of a `linalg.generic` with channels last, and return it."""
        maps, operands = indexing_maps(op), [*op.operands]
        orders: list[Sequence[int] | None] = [None] * len(operands)
        images = _images_of_channels(op)
        for i, value in enumerate(operands):
            is_result = i == len(operands) - 1
            rank = len(mlir.shape(value)) if _is_static_tensor(value) else 0
            if value in self.moved or (
                rank in _ORDERS
                and (is_result or _is_of_pixels(maps[i], maps[-1]) or i in images)
            ):
                orders[i] = _ORDERS[rank]
                operands[i] = self.value(value)
        new = _with_layouts(op, operands, orders)
        if orders[-1] is None:
            mlir.replace_op(op, new)
        else:
            self.replace(op, new)
        return new

    def store_or_erase(self) -> None:
        """Erase unused transpositions, and store the operands of all others."""
        for back in reversed([*self.moved]):
            op = mlir.defining_op(back, "linalg.generic")
            assert op is not None
            if any(back.uses):
                materialize_operand(op, 0)
            else:
                op.erase()


def _permuted(sizes: Sequence[int], order: Sequence[int]) -> list[int]:
    return [sizes[i] for i in order]


def _is_broadcast(value: ir.Value) -> bool:
    """Return True for an elementwise op on constants of a lower rank, or on its result."""
    rank = len(mlir.shape(value))
    while op := mlir.defining_op(value, "linalg.generic"):
        *inputs, start = op.operands
        if (
            len(op.results) != 1
            or rank not in _ORDERS
            or not all("parallel" in kind for kind in iterator_types_of(op))
            or not mlir.defining_op(start, "tensor.empty")
            or mlir.ops_in(op, "linalg.index")
        ):
            return False
        images = [
            each
            for each in inputs
            if _is_static_tensor(each) and len(mlir.shape(each)) >= rank
        ]
        if not images:
            return True
        if len(inputs) > 1:
            return False
        (value,) = images
    return False


def _is_of_pixels(map_: ir.AffineMap, result: ir.AffineMap) -> bool:
    """Return True if an operand is indexed by batch, channels and pixels, as the result."""
    return [*map_.results] == [*result.results]


def _images_of_channels(op: ir.Operation) -> Sequence[int]:
    """Return the operand number of the input of a convolution of several channels."""
    if not _has_channels_first(op):
        return []
    return [
        i
        for i, value in enumerate([*op.operands][:2])
        if constant_of(value) is None and mlir.shape(value)[1] >= _MIN_CHANNELS
    ]


def _transposed(value: ir.Value, order: Sequence[int]) -> ir.Value:
    """Transpose a tensor, or a constant at compile time."""
    sizes, rank = _permuted(mlir.shape(value), order), len(order)
    element = mlir.element(value)
    if (numbers := _numbers_of_constant(value)) is not None:
        array = np.ascontiguousarray(numbers.transpose(order))
        type_ = ir.RankedTensorType.get(sizes, element)
        return arith.constant(type_, mlir.dense_attr(array, type_))
    dims = [ir.AffineExpr.get_dim(order.index(i)) for i in range(rank)]
    (result,) = build_generic(
        [value],
        [tensor.empty(sizes, element)],
        [mlir.affine_map(rank, dims), ir.AffineMap.get_identity(rank)],
        ["parallel"] * rank,
        lambda arguments: [arguments[0]],
    )
    return result


def _numbers_of_constant(value: ir.Value) -> Array | None:
    """Return the elements of a constant of integers or of f32, or `None`."""
    if (numbers := constant_of(value)) is None:
        return f32_constant_of(value)
    return numbers.astype(f"int{mlir.bits(mlir.element(value))}")


def _with_layouts(
    op: ir.Operation, operands: Values, orders: Sequence[Sequence[int] | None]
) -> ir.Value:
    """
    Clone a `linalg.generic` with operands whose dimensions have other orders. Its loops
    follow the dimensions of the result; the other loops keep their order.
    """
    indices = [
        [*map_.results] if order is None else [map_.results[i] for i in order]
        for map_, order in zip(indexing_maps(op), orders, strict=True)
    ]
    kinds = [*mlir.attribute_of(op, "iterator_types", ir.ArrayAttr)]
    outer = [e.position for e in indices[-1] if isinstance(e, ir.AffineDimExpr)]
    loops = [*outer, *(i for i in range(len(kinds)) if i not in outer)]
    dims = [ir.AffineExpr.get_dim(loops.index(i)) for i in range(len(loops))]
    from_new = mlir.affine_map(len(loops), dims)
    new = op.clone()
    for i, value in enumerate(operands):
        new.operands[i] = value
    new.attributes["indexing_maps"] = mlir.array_attr(
        ir.AffineMapAttr.get(
            mlir.affine_map(len(loops), (each.compose(from_new) for each in results))
        )
        for results in indices
    )
    new.attributes["iterator_types"] = mlir.array_attr(kinds[i] for i in loops)
    mlir.change_type(new.results[0], operands[-1].type)
    return new.results[0]


# Ops by name


def _rewrite_of(
    op: ir.Operation, moved: Collection[ir.Value]
) -> Callable[[_Layouts, ir.Operation], object] | None:
    """Return the function that computes an op with channels last, or `None`."""
    result, operands = op.results[0], [*op.operands]
    is_image = len(mlir.shape(result)) in _ORDERS
    if op.name == "linalg.generic" and not mlir.ops_in(op, "linalg.index"):
        return _Layouts.generic if _may_be_moved(op, moved) else None
    if op.name in _SLICES and is_image:
        count = 1 if op.name == "tensor.extract_slice" else 2
        ranks = {len(mlir.shape(value)) for value in operands[:count]}
        same_rank = ranks == {len(mlir.shape(result))}
        return _move_slice if same_rank and len(operands) == count else None
    if op.name == "tensor.concat" and is_image:
        return _move_concat
    if op.name == "tensor.reshape" and _merges_groups(operands[0], result):
        return _move_merged_groups
    if op.name.startswith(("arith.", "math.")) and is_image:
        return _move_elementwise if all(map(_is_static_tensor, operands)) else None
    return None


def _may_be_moved(op: ir.Operation, moved: Collection[ir.Value]) -> bool:
    """
    Return True for an op whose initial value has no elements of its own, and whose result
    has the pixels of an operand, if it has pixels. Sums in lanes depend on their loops;
    other sums of products are slow if their weights are not contiguous.
    """
    (result,), (*inputs, start) = op.results, op.operands
    is_convolution = _has_channels_first(op)
    if has_sum_in_lanes(op) or (contraction_of(op) and not is_convolution):
        return False
    if len(mlir.shape(result)) not in _ORDERS:
        return True
    has_elements = splat_value(start) is None and not _is_broadcast(start)
    if has_elements and not mlir.defining_op(start, "tensor.empty"):
        return False
    *maps, result_map = indexing_maps(op)
    return is_convolution or any(
        value in moved and _has_pixels_of(map_, result_map, mlir.shape(result))
        for value, map_ in zip(inputs, maps, strict=True)
    )


def _has_pixels_of(
    map_: ir.AffineMap, result: ir.AffineMap, shape: Sequence[int]
) -> bool:
    """Return True if the batch and the last pixel of the result are those of an operand."""
    return all(
        shape[d] == 1 or loops_in(result.results[d]) <= loops_in(map_.results[d])
        for d in (0, len(shape) - 1)
        if len(map_.results) == len(shape)
    )


def _move_slice(layouts: _Layouts, op: ir.Operation) -> None:
    values = [layouts.value(value) for value in op.operands]
    order = _ORDERS[len(mlir.shape(op.results[0]))]
    new = op.clone()
    for i, value in enumerate(values):
        new.operands[i] = value
    for name in ("static_offsets", "static_sizes", "static_strides"):
        numbers = [*mlir.attribute_of(op, name, ir.DenseI64ArrayAttr)]
        new.attributes[name] = ir.DenseI64ArrayAttr.get(_permuted(numbers, order))
    _finish(layouts, op, new, order)


def _move_concat(layouts: _Layouts, op: ir.Operation) -> None:
    values = [layouts.value(value) for value in op.operands]
    order = _ORDERS[len(mlir.shape(op.results[0]))]
    new = op.clone()
    for i, value in enumerate(values):
        new.operands[i] = value
    old = mlir.attribute_of(op, "dim", ir.IntegerAttr)
    new.attributes["dim"] = ir.IntegerAttr.get(old.type, [*order].index(old.value))
    _finish(layouts, op, new, order)


def _move_elementwise(layouts: _Layouts, op: ir.Operation) -> None:
    values = [layouts.value(value) for value in op.operands]
    order = _ORDERS[len(mlir.shape(op.results[0]))]
    new = op.clone()
    for i, value in enumerate(values):
        new.operands[i] = value
    _finish(layouts, op, new, order)


def _finish(
    layouts: _Layouts, op: ir.Operation, new: ir.Operation, order: Sequence[int]
) -> None:
    """Set the type of a clone with channels last, and replace the op by it."""
    result = new.results[0]
    sizes = _permuted(mlir.shape(op.results[0]), order)
    mlir.change_type(result, ir.RankedTensorType.get(sizes, mlir.element(result)))
    layouts.replace(op, result)


def _merges_groups(source: ir.Value, result: ir.Value) -> bool:
    """Return True if a reshape merges groups with the channels of a group."""
    shape = mlir.shape(source)
    if len(shape) != 5 or not _is_static_tensor(source):
        return False
    batch, groups, channels, *pixels = shape
    return mlir.shape(result) == [batch, groups * channels, *pixels]


def _move_merged_groups(layouts: _Layouts, op: ir.Operation) -> None:
    sizes = _permuted(mlir.shape(op.results[0]), _ORDERS[4])
    layouts.replace(op, reshape_tensor(layouts.value(op.operands[0]), sizes))
