"""Data movement ops: their results only hold elements of their operands."""

from abc import ABC
from collections.abc import Callable, Sequence
from math import prod
from typing import ClassVar

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntAttr, TensorType, UnrankedTensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
)
from xdsl_quant.dialects.quant import traits as quant
from xdsl_quant.dialects.quant.moved_blocks import (
    have_equal_blocks,
    reshaped_blocks,
    sliced_blocks,
    transposed_blocks,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.dialects.verification import (
    are_compatible_sizes,
    constant_integers,
    require,
)
from xdsl_quant.frontends.tflite.slicing import SliceMasks, strided_index

from . import property_kinds as props
from . import tensor_kinds as kinds
from .base import (
    AT_MOST_5_DIMENSIONS,
    HAS_RESULTS,
    PADDING_OF_RANK,
    SAME_ELEMENTS,
    SAME_FIRST,
    SAME_INPUT,
    SAME_PARAMS,
    SAME_SCALE,
    SAME_SCALE_BUT_U8_OR_BLOCKS,
    SAME_SCALE_OF_ANY_AXIS,
    SAME_SCALE_OF_ANY_AXIS_OR_BLOCKS,
    SAME_SCALE_OR_BLOCKS,
    SINGLE_ELEMENT,
    InferredTypesOp,
    OneInputOp,
    Requires,
    Shape,
    TFLOp,
    data_movement_traits,
    has_rank,
    is_compatible_with_shape,
    normalized_axis,
    require_first_size_at_most,
    require_operand_types,
    require_rank,
    require_rank_at_most,
    shape_from_sizes,
    shape_of,
    static_shape_of,
)
from .block_movement import (
    BlockOrigin,
    Move,
    moves_blocks,
    strided_move,
    verify_moves,
    whole,
)

__all__ = [
    "BatchToSpaceNdOp",
    "BroadcastToOp",
    "ConcatenationOp",
    "DepthToSpaceOp",
    "DynamicUpdateSliceOp",
    "ExpandDimsOp",
    "GatherNdOp",
    "GatherOp",
    "MirrorPadOp",
    "PackOp",
    "PadOp",
    "PadV2Op",
    "ReshapeOp",
    "ReverseV2Op",
    "SliceOp",
    "SpaceToBatchNdOp",
    "SpaceToDepthOp",
    "SplitOp",
    "SplitVOp",
    "SqueezeOp",
    "StridedSliceOp",
    "TileOp",
    "TransposeOp",
    "UnpackOp",
]


class DataMovementOp(TFLOp, ABC):
    """Base class of ops that move elements of their first operand."""

    traits = traits_def(*data_movement_traits(0))


BlockMove = Callable[
    [UniformQuantizedSubChannelType], UniformQuantizedSubChannelType | None
]
"""Maps the sub-channel type of an operand to that of the result; `None` if it has none."""


def _verify_blocks(
    op: TFLOp, move: BlockMove | None, block_move: Move | None = None
) -> None:
    """
    Verify that the blocks of the first operand move with its elements.

    Args:
        op: the op, which may have other types.
        move: the movement; `None` if it is unknown, so that blocks may not move.
        block_move: the same for block-scaled types.

    Raises:
        VerifyException: if blocks do not divide a tensor, or do not match.
    """
    operand, result = op.operands[0], op.results[0]
    a, b = (scalar_or_element_type(value.type) for value in (operand, result))
    if isinstance(a, BlockScaledQuantizedType) and moves_blocks(op):
        return verify_moves(op, block_move)
    if not isinstance(a, UniformQuantizedSubChannelType) or not isinstance(
        b, UniformQuantizedSubChannelType
    ):
        return
    for type_, value in (a, operand), (b, result):
        try:
            type_.verify_container(value.type)
        except VerifyException as e:
            op.require(False, f"has the type '{value.type}': {e}")
    if move is None:
        op.require(a == b, f"has unknown sizes, expected one type: {a} vs. {b}")
        return
    expected = move(a)
    op.require(expected is not None, f"splits blocks of {a}; dequantize them first")
    op.require(
        expected is not None and have_equal_blocks(expected, b),
        f"moves blocks, expected a result of {expected}, found {b}",
    )


def _verify_reshaped_blocks(op: TFLOp) -> None:
    shape, result_shape = (static_shape_of(x) for x in (op.operands[0], op.results[0]))
    if shape is None or result_shape is None:
        return _verify_blocks(op, None)
    _verify_blocks(
        op,
        lambda type_: reshaped_blocks(type_, shape, result_shape),
        _unit_dimensions(op.operands[0], shape, result_shape),
    )


def _unit_dimensions(
    operand: SSAValue, shape: Shape, result_shape: Shape
) -> Move | None:
    """Return the movement of a reshape that inserts or drops dimensions of size 1."""
    kept = [axis for axis, size in enumerate(shape) if size != 1]
    result_kept = [axis for axis, size in enumerate(result_shape) if size != 1]
    if [shape[i] for i in kept] != [result_shape[i] for i in result_kept]:
        return None
    sources: list[BlockOrigin | None] = [None] * len(result_shape)
    for axis, dimension in zip(kept, result_kept, strict=True):
        sources[dimension] = BlockOrigin(axis, range(shape[axis]))
    return Move(operand, sources)


def _verify_parts(
    op: TFLOp,
    value: SSAValue,
    split_dim: SSAValue,
    num_splits: int,
    sizes_along: Callable[[int], Sequence[int] | None],
) -> None:
    """
    Verify that the results are the parts of a value along a dimension.

    Args:
        sizes_along: maps the size of the split dimension to part sizes; `None` if unknown.

    Raises:
        VerifyException: if the results do not match.
    """
    op.require(
        len(op.results) == num_splits,
        "output count should match 'num_splits' attribute",
    )
    numbers, shape = constant_integers(split_dim), shape_of(value)
    if numbers is None or len(numbers) != 1 or shape is None:
        return
    if (axis := normalized_axis(numbers[0], len(shape))) is None:
        return op.require(False, "'split_dim' should be in [-rank, rank)")
    if shape[axis] == DYNAMIC_INDEX or (sizes := sizes_along(shape[axis])) is None:
        return
    element_type = scalar_or_element_type(value.type)
    for index, (size, result) in enumerate(zip(sizes, op.results, strict=True)):
        part = (*shape[:axis], size, *shape[axis + 1 :])
        op.require(
            is_compatible_with_shape(result, part),
            f"output #{index} should be '{TensorType(element_type, part)}' instead got "
            f"'{result.type}'",
        )


def _reshaped_element_type(
    element_type: Attribute, shape: Shape, sizes: Sequence[int]
) -> Attribute:
    if not isinstance(element_type, UniformQuantizedPerAxisType):
        return element_type
    axis = element_type.quantized_dimension.data
    for index, size in enumerate(sizes):
        if size == shape[axis] and prod(sizes[:index]) == prod(shape[:axis]):
            *before, _, scales = element_type.parameters
            return element_type.new((*before, IntAttr(index), scales))
    raise VerifyException(
        f"'tfl.reshape' op expects the result to keep the quantized dimension {axis}"
    )


@irdl_op_definition
class ReshapeOp(DataMovementOp):
    """
    Reshape a tensor.

    Example:

    ```mlir
    %2 = "tfl.reshape"(%0, %1) : (tensor<2x6xf32>, tensor<2xi32>) -> tensor<3x4xf32>
    ```
    """

    name = "tfl.reshape"
    MOVES_BLOCKS: ClassVar[bool] = True

    input = operand_def(kinds.ANY)
    shape = operand_def(kinds.I32)
    output = result_def(kinds.ANY)

    traits = traits_def(Requires(SAME_SCALE_OF_ANY_AXIS_OR_BLOCKS))

    def verify_(self) -> None:
        inferred = self._inferred_type()
        if shape_of(self.output) is None:
            return
        result = self.output.type
        shape, result_shape = static_shape_of(self.input), static_shape_of(self.output)
        if shape is not None and result_shape is not None:
            count, result_count = prod(shape), prod(result_shape)
            self.require(
                count == result_count,
                "requires 'output' number of elements to match 'input' number of elements, "
                f"but got {result_count} and {count}",
            )
        self.require(
            scalar_or_element_type(inferred) == scalar_or_element_type(result)
            and (
                not isinstance(inferred, TensorType)
                or is_compatible_with_shape(self.output, inferred.get_shape())
            ),
            f"requires 'output' type '{result}' to be cast compatible with expected type "
            f"'{inferred}'",
        )
        _verify_reshaped_blocks(self)

    def _inferred_type(self) -> Attribute:
        element_type = scalar_or_element_type(self.input.type)
        if isinstance(
            element_type, UniformQuantizedSubChannelType | BlockScaledQuantizedType
        ):
            # `_verify_reshaped_blocks` compares the blocks.
            element_type = scalar_or_element_type(self.output.type)
        if (sizes_shape := shape_of(self.shape)) is None:
            return UnrankedTensorType(element_type)
        self.require(
            len(sizes_shape) == 1,
            f"requires 'shape' to be rank 1, but got {len(sizes_shape)}",
        )
        if (sizes := constant_integers(self.shape)) is None:
            if sizes_shape[0] == DYNAMIC_INDEX:
                return UnrankedTensorType(element_type)
            return TensorType(element_type, [DYNAMIC_INDEX] * sizes_shape[0])
        self._verify_sizes(sizes)
        if (shape := static_shape_of(self.input)) is None:
            return TensorType(element_type, shape_from_sizes(sizes))
        if -1 in sizes:
            sizes = self._with_size(sizes, shape)
        return TensorType(_reshaped_element_type(element_type, shape, sizes), sizes)

    def _verify_sizes(self, sizes: Sequence[int]) -> None:
        unknown: list[int] = []
        for index, size in enumerate(sizes):
            self.require(
                size >= -1,
                "requires 'shape' to have dimensions greater than -1, but got "
                f"{size} at index {index}",
            )
            unknown += [index] if size == -1 else []
            self.require(
                len(unknown) < 2,
                "requires 'shape' to have at most one dynamic dimension, but got multiple "
                f"dynamic dimensions at indices {' and '.join(map(str, unknown))}. You "
                "need to set up the unspecified size(s) to avoid this problem, for "
                "example,setting batch size in keras model or setting unspecified input "
                "size(s) with fixed ones.",
            )

    def _with_size(self, sizes: Sequence[int], shape: Shape) -> Sequence[int]:
        known = prod(size for size in sizes if size > 0)
        has_zero = 0 in sizes and 0 in shape
        count = prod(size for size in shape if size or not has_zero)
        self.require(
            has_zero or count % known == 0,
            f"requires 'input' number of elements be a multiple of {known}, but got "
            f"{count}",
        )
        return [count // known if size == -1 else size for size in sizes]


@irdl_op_definition
class SqueezeOp(DataMovementOp):
    """
    Remove dimensions of size 1.

    Example:

    ```mlir
    %1 = "tfl.squeeze"(%0) <{squeeze_dims = [0]}> : (tensor<1x4xf32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.squeeze"
    MOVES_BLOCKS: ClassVar[bool] = True

    input = operand_def(kinds.ANY)
    squeeze_dims = opt_prop_def(props.DIMENSIONS)
    output = result_def(kinds.ANY)

    traits = traits_def(Requires(SAME_SCALE_OR_BLOCKS))

    def verify_(self) -> None:
        _verify_reshaped_blocks(self)


@irdl_op_definition
class ExpandDimsOp(DataMovementOp):
    """
    Insert a dimension of size 1.

    Example:

    ```mlir
    %2 = "tfl.expand_dims"(%0, %1) : (tensor<4xf32>, tensor<i32>) -> tensor<1x4xf32>
    ```
    """

    name = "tfl.expand_dims"
    MOVES_BLOCKS: ClassVar[bool] = True

    input = operand_def(kinds.ANY)
    dim = operand_def(kinds.INDEX)
    output = result_def(kinds.ANY)

    traits = traits_def(Requires(SAME_INPUT, SAME_SCALE_OR_BLOCKS))

    def verify_(self) -> None:
        _verify_reshaped_blocks(self)


_TRANSPOSE_ELEMENTS = kinds.tensor_of(
    "i32 f32 f16 bf16 i8 ui8 QI8 QUI8 i4 QI4 quint8 i1 i64 QI16"
)


@irdl_op_definition
class TransposeOp(DataMovementOp):
    """
    Permute the dimensions of a tensor.

    Example:

    ```mlir
    %2 = "tfl.transpose"(%0, %1) : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<3x2xf32>
    ```
    """

    name = "tfl.transpose"
    MOVES_BLOCKS: ClassVar[bool] = True

    input = operand_def(_TRANSPOSE_ELEMENTS)
    perm = operand_def(kinds.I32)
    output = result_def(_TRANSPOSE_ELEMENTS)

    traits = traits_def(
        Requires(require_rank(1, 1), SAME_INPUT, SAME_SCALE_OF_ANY_AXIS_OR_BLOCKS)
    )

    def verify_(self) -> None:
        shape, perm_shape = shape_of(self.input), static_shape_of(self.perm)
        static_shape = static_shape_of(self.input)
        self.require(
            static_shape is None or perm_shape in (None, (len(static_shape),)),
            "perm tensor elements size is not equal to input tensor rank",
        )
        if (perm := constant_integers(self.perm)) is None:
            return _verify_blocks(self, None)
        axes: list[int] = []
        for index, number in enumerate(perm):
            axis = number + (len(shape or ()) if number < 0 else 0)
            self.require(
                axis >= 0 and (shape is None or axis < len(shape)),
                f"perm[{index}] must be in [-rank, rank)",
            )
            self.require(axis not in axes, f"perm[{index}] cannot have duplicated axis")
            axes.append(axis)
        if static_shape is not None and static_shape_of(self.output) is not None:
            self.verify_type_of(
                self.output, [static_shape[axis] for axis in axes], self.input
            )
        a, b = map(scalar_or_element_type, (self.input.type, self.output.type))
        kind = UniformQuantizedPerAxisType
        if isinstance(a, kind) and isinstance(b, kind):
            axis = b.quantized_dimension.data
            self.require(
                axis >= len(axes) or axes[axis] == a.quantized_dimension.data,
                "has mismatched quantized axes of input and output",
            )
        move = None if static_shape is None else whole(self.input, static_shape, axes)
        _verify_blocks(self, lambda type_: transposed_blocks(type_, axes), move)


_SLICE_ELEMENTS = kinds.tensor_of(
    "f32 f16 i32 i64 QI4 i8 ui8 ui32 i1 string QI8 QUI8 quint8 QI16"
)


@irdl_op_definition
class SliceOp(DataMovementOp):
    """
    Slice of a tensor from `begin` with sizes `size`; size -1 extends it to the end.

    Example:

    ```mlir
    %3 = "tfl.slice"(%0, %1, %2)
        : (tensor<4x6xf32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x3xf32>
    ```
    """

    name = "tfl.slice"
    MOVES_BLOCKS: ClassVar[bool] = True

    input = operand_def(_SLICE_ELEMENTS)
    begin = operand_def(kinds.INDEX)
    size = operand_def(kinds.INDEX)
    output = result_def(_SLICE_ELEMENTS)

    traits = traits_def(
        Requires(
            SAME_INPUT,
            require_rank_at_most(1, 1),
            require_rank_at_most(2, 1),
            SAME_SCALE_OR_BLOCKS,
        )
    )

    def verify_(self) -> None:
        shape = static_shape_of(self.input)
        shapes = static_shape_of(self.begin), static_shape_of(self.size)
        if shape is not None and None not in shapes:
            for name, operand in (("begin", self.begin), ("size", self.size)):
                require(
                    prod(static_shape_of(operand) or ()) == len(shape),
                    f"{name} tensor elements size is not equal to input tensor rank",
                )
        begin, size = constant_integers(self.begin), constant_integers(self.size)
        for index, first in enumerate(begin or ()):
            require(first >= 0, f"begin[{index}] cannot be negative")
        for index, count in enumerate(size or ()):
            require(count >= -1, f"size[{index}] cannot be negative other than -1")
        if begin is None or size is None or shape is None:
            return _verify_blocks(self, None)
        for index, (first, count, total) in enumerate(
            zip(begin, size, shape, strict=False)
        ):
            self.require(
                first <= total,
                f"begin[{index}] cannot exceed dimension length: {total}",
            )
            require(
                first + count <= total,
                f"begin[{index}] + size[{index}] cannot exceed dimension length: {total}",
            )
        slices = [
            range(first, total if count == -1 else first + count)
            for first, count, total in zip(begin, size, shape, strict=False)
        ]
        move = Move(self.input, [BlockOrigin(i, part) for i, part in enumerate(slices)])
        _verify_blocks(self, lambda type_: sliced_blocks(type_, shape, slices), move)


_STRIDED_SLICE_ELEMENTS = kinds.tensor_of(
    "f32 f16 i32 i64 i8 ui8 ui32 QI8 QUI8 i1 i16 QI16 quint8 string"
)


@irdl_op_definition
class StridedSliceOp(DataMovementOp):
    """
    Slice from `begin` to `end` (exclusive) with `strides`. Masks have a bit per dimension.

    Example:

    ```mlir
    %4 = "tfl.strided_slice"(%0, %1, %2, %3) <{
        begin_mask = 0 : i32, ellipsis_mask = 0 : i32, end_mask = 0 : i32,
        new_axis_mask = 0 : i32, offset = false, shrink_axis_mask = 0 : i32
    }> : (tensor<4x6xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<2x3xf32>
    ```
    """

    name = "tfl.strided_slice"
    MOVES_BLOCKS: ClassVar[bool] = True

    input = operand_def(_STRIDED_SLICE_ELEMENTS)
    begin = operand_def(kinds.I32)
    end = operand_def(kinds.I32)
    strides = operand_def(kinds.I32)
    begin_mask = prop_def(props.I32)
    ellipsis_mask = prop_def(props.I32)
    end_mask = prop_def(props.I32)
    new_axis_mask = prop_def(props.I32)
    offset = prop_def(props.BOOL)
    shrink_axis_mask = prop_def(props.I32)
    output = result_def(_STRIDED_SLICE_ELEMENTS)

    traits = traits_def(
        Requires(
            SAME_INPUT,
            require_rank(1, 1),
            require_rank(2, 1),
            require_rank(3, 1),
            SAME_SCALE_OR_BLOCKS,
        )
    )

    def verify_(self) -> None:
        if (shape := shape_of(self.input)) is None:
            return
        for name in ("begin", "end", "strides"):
            sizes = shape_of(getattr(self, name))
            self.require(
                sizes is None or sizes[0] <= len(shape),
                f"expects {name} to have at most {len(shape)} elements, got "
                f"{sizes and sizes[0]}",
            )
        if moves_blocks(self):
            verify_moves(self, self._block_move())

    def _block_move(self) -> Move | None:
        """Return the movement of the elements; `None` if sizes or indices are unknown."""
        shape = static_shape_of(self.input)
        begin, end = constant_integers(self.begin), constant_integers(self.end)
        strides = constant_integers(self.strides)
        if shape is None or begin is None or end is None or strides is None:
            return None
        if self.offset.value.data:
            end = [first + size for first, size in zip(begin, end, strict=True)]
        masks = SliceMasks(
            *(getattr(self, name).value.data for name in SliceMasks._fields)
        )
        index = strided_index(begin, end, strides, masks)
        return strided_move(self.input, shape, index)


_DYNAMIC_UPDATE_SLICE_ELEMENTS = kinds.tensor_of(
    "i1 i4 QI4 QI8 i8 i16 i32 i64 f32 f16 bf16"
)


@irdl_op_definition
class DynamicUpdateSliceOp(TFLOp):
    """
    Replace a slice of a tensor.

    Example:

    ```mlir
    %3 = "tfl.dynamic_update_slice"(%0, %1, %2)
        : (tensor<4x6xf32>, tensor<2x3xf32>, tensor<2xi32>) -> tensor<4x6xf32>
    ```
    """

    name = "tfl.dynamic_update_slice"

    operand = operand_def(_DYNAMIC_UPDATE_SLICE_ELEMENTS)
    update = operand_def(_DYNAMIC_UPDATE_SLICE_ELEMENTS)
    start_indices = operand_def(kinds.INDEX)
    output = result_def(_DYNAMIC_UPDATE_SLICE_ELEMENTS)

    traits = traits_def(
        Requires(SAME_INPUT, SAME_SCALE_OF_ANY_AXIS), *data_movement_traits(0, 1)
    )


@irdl_op_definition
class ConcatenationOp(TFLOp):
    """
    Concatenate tensors along a dimension.

    Example:

    ```mlir
    %2 = "tfl.concatenation"(%0, %1) <{
        axis = 0 : i32, fused_activation_function = "NONE"
    }> : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
    ```
    """

    name = "tfl.concatenation"
    MOVES_BLOCKS: ClassVar[bool] = True

    values = var_operand_def(
        kinds.variadic_of("f32 i64 i32 i16 QI4 i8 QI8 QUI8 ui8 ui32 i1")
    )
    axis = prop_def(props.I32)
    fused_activation_function = prop_def(props.ACTIVATION)
    output = result_def(
        kinds.tensor_of(
            "f32 f16 f8E4M3FN f8E5M2 i64 i32 i16 QI4 i8 QI8 QUI8 ui8 ui32 i1"
        )
    )

    traits = traits_def(
        Requires(SAME_FIRST, SAME_SCALE_BUT_U8_OR_BLOCKS), *data_movement_traits()
    )

    def verify_(self) -> None:
        if (result := shape_of(self.output)) is None:
            return
        if (axis := normalized_axis(self.axis.value.data, len(result))) is None:
            return self.require(
                False, "concatenation dimension must be in [-rank, rank)"
            )
        sizes, sources = [*result], ["output"] * len(result)
        sizes[axis] = 0
        for index, value in enumerate(self.values):
            if (shape := shape_of(value)) is None:
                sizes[axis] = DYNAMIC_INDEX
                continue
            self.require(
                len(shape) == len(result),
                f"rank of operand #{index} must be equal to rank of output, expected "
                f"{len(result)}, got {len(shape)}",
            )
            for dim, (size, known) in enumerate(zip(shape, sizes, strict=True)):
                if dim == axis:
                    is_dynamic = DYNAMIC_INDEX in (size, known)
                    sizes[axis] = DYNAMIC_INDEX if is_dynamic else size + known
                elif known == DYNAMIC_INDEX and size != DYNAMIC_INDEX:
                    sizes[dim], sources[dim] = size, f"operand #{index}"
                else:
                    self.require(
                        are_compatible_sizes(size, known),
                        f"dimension size of dimension #{dim} of operand #{index} must be "
                        f"equal to dimension size of dimension #{dim} of {sources[dim]}, "
                        f"expected {known}, got {size}",
                    )
        self.require(
            are_compatible_sizes(sizes[axis], result[axis]),
            f"dimension size of dimension #{axis} of output must be equal to the sum of "
            f"dimension sizes of dimension #{axis}, expected {sizes[axis]}, got "
            f"{result[axis]}",
        )
        if moves_blocks(self):
            self._verify_blocks(axis)

    def _verify_blocks(self, axis: int) -> None:
        moves: list[Move] = []
        start = 0
        for value in self.values:
            if (shape := static_shape_of(value)) is None:
                return verify_moves(self, None)
            moves.append(whole(value, shape)._replace(start={axis: start}))
            start += shape[axis]
        verify_moves(self, moves)


@irdl_op_definition
class PackOp(TFLOp):
    """
    Stack tensors along a new dimension.

    Example:

    ```mlir
    %2 = "tfl.pack"(%0, %1) <{axis = 0 : i32, values_count = 2 : i32}>
        : (tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    ```
    """

    name = "tfl.pack"

    values = var_operand_def(
        kinds.variadic_of("f32 i8 i16 i32 i64 ui8 ui32 QI8 QUI8 QI16 quint8")
    )
    axis = prop_def(props.I32)
    values_count = prop_def(props.POSITIVE_I32)
    output = result_def(
        kinds.tensor_of(
            "f32 f8E4M3FN f8E5M2 i8 i16 i32 i64 ui8 ui32 QI8 QUI8 QI16 quint8"
        )
    )

    traits = traits_def(Requires(SAME_FIRST, SAME_SCALE), *data_movement_traits())

    def verify_(self) -> None:
        values, axis = self.values, self.axis.value.data
        self.require(
            len(values) == self.values_count.value.data,
            "input count should match 'values_count' attribute",
        )
        shape = shape_of(values[0])
        self.require(
            shape is None or normalized_axis(axis, len(shape) + 1) is not None,
            "op attribute 'axis' should be in range [-rank - 1, rank + 1), got rank = "
            f"{len(shape or ())}, and axis = {axis}",
        )
        for value in values:
            self.require(
                is_compatible_with_shape(value, shape),
                f"operands should be of the same type. got '{values[0].type}', "
                f"'{value.type}'",
            )


@irdl_op_definition
class UnpackOp(InferredTypesOp, DataMovementOp):
    """
    All slices of size 1 along a dimension, without this dimension.

    Example:

    ```mlir
    %1:2 = "tfl.unpack"(%0) <{axis = 0 : i32, num = 2 : i32}>
        : (tensor<2x3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
    ```
    """

    name = "tfl.unpack"

    input = operand_def(
        kinds.tensor_of("f32 f16 bf16 f8E4M3FN f8E5M2 i1 i8 ui8 i32 QI8 QUI8 i16 QI16")
    )
    axis = prop_def(props.I32)
    num = prop_def(props.NON_NEGATIVE_I32)
    outputs = var_result_def(
        kinds.variadic_of("f32 f16 bf16 i1 i8 ui8 i32 QI8 QUI8 i16 QI16")
    )

    traits = traits_def(Requires(HAS_RESULTS, SAME_ELEMENTS, SAME_SCALE))

    def inferred_types(self) -> Sequence[Attribute]:
        element_type = scalar_or_element_type(self.input.type)
        num, number = self.num.value.data, self.axis.value.data
        if (shape := shape_of(self.input)) is None:
            return (UnrankedTensorType(element_type),) * num
        require(0 not in shape, "number of elements in input should be larger than 0")
        require(len(shape) > 0, "input should be of rank larger than 0")
        axis = normalized_axis(number, len(shape))
        require(
            axis is not None,
            "attribute 'axis' should be in range [-rank, rank), got axis = "
            f"{number}, and rank = {len(shape)}",
        )
        sizes = [*shape]
        require(
            are_compatible_sizes(sizes.pop(axis or 0), num),
            "output count should match 'num' attribute",
        )
        return (TensorType(element_type, sizes),) * num


@irdl_op_definition
class SplitOp(TFLOp):
    """
    Split a tensor along a dimension into parts of the same size.

    Example:

    ```mlir
    %2:2 = "tfl.split"(%0, %1) <{num_splits = 2 : i32}>
        : (tensor<i32>, tensor<4x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
    ```
    """

    name = "tfl.split"

    split_dim = operand_def(kinds.I32)
    value = operand_def(
        kinds.tensor_of("f32 f8E4M3FN f8E5M2 i16 i32 i8 ui8 QI8 QUI8 QI16")
    )
    num_splits = prop_def(props.POSITIVE_I32)
    outputs = var_result_def(kinds.variadic_of("f32 i16 i32 i8 ui8 QI8 QUI8 QI16"))

    traits = traits_def(Requires(SINGLE_ELEMENT, SAME_SCALE), *data_movement_traits(1))

    def verify_(self) -> None:
        num_splits = self.num_splits.value.data
        _verify_parts(self, self.value, self.split_dim, num_splits, self._sizes_along)

    def _sizes_along(self, total: int) -> Sequence[int]:
        count = self.num_splits.value.data
        self.require(
            total % count == 0, "'num_splits' should evenly divide 'split_dim' axis"
        )
        return [total // count] * count


@irdl_op_definition
class SplitVOp(TFLOp):
    """
    Split a tensor along a dimension into parts of given sizes; -1 is the remaining size.

    Example:

    ```mlir
    %3:2 = "tfl.split_v"(%0, %1, %2) <{num_splits = 2 : i32}>
        : (tensor<4x3xf32>, tensor<2xi32>, tensor<i32>)
        -> (tensor<1x3xf32>, tensor<3x3xf32>)
    ```
    """

    name = "tfl.split_v"

    value = operand_def(
        kinds.tensor_of("f32 f8E4M3FN f8E5M2 i16 i32 i64 i8 ui8 QI8 QUI8 QI16")
    )
    size_splits = operand_def(kinds.I32_VECTOR)
    split_dim = operand_def(kinds.I32_SCALAR)
    num_splits = prop_def(props.POSITIVE_I32)
    outputs = var_result_def(kinds.variadic_of("f32 i16 i32 i64 i8 ui8 QI8 QUI8 QI16"))

    traits = traits_def(
        Requires(SAME_SCALE),
        quant.MovesElements((0,)),
        quant.SameOperandsAndResultsScale(),
    )

    def verify_(self) -> None:
        num_splits = self.num_splits.value.data
        _verify_parts(self, self.value, self.split_dim, num_splits, self._sizes_along)

    def _sizes_along(self, total: int) -> Sequence[int] | None:
        if (sizes := constant_integers(self.size_splits)) is None:
            return None
        count = self.num_splits.value.data
        self.require(
            len(sizes) == count, f"'size_splits' should be 'tensor<{count}xi32>'"
        )
        known = sum(size for size in sizes if size >= 0)
        self.require(
            min(sizes) >= -1,
            "elements of 'size_splits' should be greater than or equal to -1",
        )
        self.require(sizes.count(-1) < 2, "'size_splits' can only have one -1")
        self.require(
            -1 not in sizes or known <= total,
            "sum of non-negative elements of 'size_splits' is greater than the dimension "
            "size of 'split_dim' axis",
        )
        self.require(
            -1 in sizes or known == total,
            "sum of 'size_splits' should match the dimension size of 'split_dim' axis",
        )
        return [total - known if size == -1 else size for size in sizes]


_PAD_ELEMENTS = kinds.tensor_of("f32 f8E4M3FN f8E5M2 i1 i32 i64 QI8 QUI8 quint8 QI16")


@irdl_op_definition
class PadOp(DataMovementOp):
    """
    Pad each dimension of a tensor with zeros.

    Example:

    ```mlir
    %2 = "tfl.pad"(%0, %1) : (tensor<2x3xf32>, tensor<2x2xi32>) -> tensor<4x5xf32>
    ```
    """

    name = "tfl.pad"

    input = operand_def(_PAD_ELEMENTS)
    padding = operand_def(kinds.INDEX)
    output = result_def(_PAD_ELEMENTS)

    traits = traits_def(
        Requires(
            SAME_INPUT,
            require_rank_at_most(0, 5),
            require_rank(1, 2),
            PADDING_OF_RANK,
            AT_MOST_5_DIMENSIONS,
            SAME_SCALE,
        )
    )


_PADV2_ELEMENTS = kinds.tensor_of("f32 f8E4M3FN f8E5M2 i1 i32 i64 ui8 QI8 QUI8 quint8")


@irdl_op_definition
class PadV2Op(TFLOp):
    """
    Pad each dimension of a tensor with a value.

    Example:

    ```mlir
    %3 = "tfl.padv2"(%0, %1, %2)
        : (tensor<2x3xf32>, tensor<2x2xi32>, tensor<f32>) -> tensor<4x5xf32>
    ```
    """

    name = "tfl.padv2"

    input = operand_def(_PADV2_ELEMENTS)
    padding = operand_def(kinds.INDEX)
    constant_values = operand_def(_PADV2_ELEMENTS)
    output = result_def(_PADV2_ELEMENTS)

    traits = traits_def(
        Requires(
            SAME_INPUT,
            require_rank_at_most(0, 5),
            require_rank(1, 2),
            require_rank(2, 0),
            PADDING_OF_RANK,
            AT_MOST_5_DIMENSIONS,
            require_operand_types(
                0, 2, "input and constant value operands must have same element type"
            ),
            SAME_SCALE,
        ),
        *data_movement_traits(0, 2),
    )


_MIRROR_PAD_ELEMENTS = kinds.tensor_of("f32 i32 i64 i8 ui8 QI8 QUI8 QI16")


@irdl_op_definition
class MirrorPadOp(DataMovementOp):
    """
    Pad each dimension of a tensor with its own elements in reverse order.

    Example:

    ```mlir
    %2 = "tfl.mirror_pad"(%0, %1) <{mode = #tfl<mirror_pad_attr REFLECT>}>
        : (tensor<2x3xf32>, tensor<2x2xi32>) -> tensor<4x5xf32>
    ```
    """

    name = "tfl.mirror_pad"

    input = operand_def(_MIRROR_PAD_ELEMENTS)
    pad = operand_def(kinds.tensor_of("i32 i64"))
    mode = prop_def(props.MIRROR_PAD)
    output = result_def(_MIRROR_PAD_ELEMENTS)

    traits = traits_def(Requires(require_rank(1, 2), SAME_SCALE))


_GATHER_ELEMENTS = kinds.tensor_of(
    "f32 f8E4M3FN f8E5M2 i1 i4 i8 i16 i32 i64 string ui8 QI8 QUI8 QI16"
)
_I16_I32_I64 = kinds.tensor_of("i16 i32 i64")


@irdl_op_definition
class GatherOp(DataMovementOp):
    """
    Gather slices of a tensor by index along a dimension.

    Example:

    ```mlir
    %2 = "tfl.gather"(%0, %1) <{axis = 0 : i32, batch_dims = 0 : i32}>
        : (tensor<10x8xf32>, tensor<3xi32>) -> tensor<3x8xf32>
    ```
    """

    name = "tfl.gather"
    MOVES_BLOCKS: ClassVar[bool] = True

    params = operand_def(_GATHER_ELEMENTS)
    indices = operand_def(_I16_I32_I64)
    axis = prop_def(props.I32)
    batch_dims = opt_prop_def(props.I32)
    output = result_def(_GATHER_ELEMENTS)

    traits = traits_def(
        Requires(
            has_rank(0, 1, None, "operand 0 is 1-D"), SAME_PARAMS, SAME_SCALE_OR_BLOCKS
        )
    )

    def verify_(self) -> None:
        if moves_blocks(self):
            verify_moves(self, self._block_move())

    def _block_move(self) -> Move | None:
        """Return the movement of the elements; `None` if sizes are unknown."""
        shape, index_shape = static_shape_of(self.params), static_shape_of(self.indices)
        has_batch = self.batch_dims is not None and self.batch_dims.value.data
        if shape is None or index_shape is None or has_batch:
            return None
        axis = normalized_axis(self.axis.value.data, len(shape))
        indices = constant_integers(self.indices)
        if axis is None:
            return None
        for index in indices or ():
            self.require(
                0 <= index < shape[axis],
                f"has index {index}, expected 0 to {shape[axis] - 1}",
            )
        sources = whole(self.params, shape).sources
        before, after = sources[:axis], sources[axis + 1 :]
        if not index_shape:
            fixed = {axis: None if indices is None else indices[0]}
            return Move(self.params, [*before, *after], fixed)
        own = BlockOrigin(axis, indices if len(index_shape) == 1 else None)
        inserted = [None] * (len(index_shape) - 1)
        return Move(self.params, [*before, own, *inserted, *after])


_GATHER_ND_ELEMENTS = kinds.tensor_of(
    "f32 f8E4M3FN f8E5M2 i1 i8 i16 i64 i32 ui8 QI8 string"
)


@irdl_op_definition
class GatherNdOp(DataMovementOp):
    """
    Gather slices of a tensor by multi-dimensional index.

    Example:

    ```mlir
    %2 = "tfl.gather_nd"(%0, %1)
        : (tensor<10x8xf32>, tensor<3x2xi32>) -> tensor<3xf32>
    ```
    """

    name = "tfl.gather_nd"

    params = operand_def(_GATHER_ND_ELEMENTS)
    indices = operand_def(_I16_I32_I64)
    output = result_def(_GATHER_ND_ELEMENTS)

    traits = traits_def(Requires(SAME_PARAMS, SAME_SCALE))


_TILE_ELEMENTS = kinds.tensor_of("f32 i1 i32 i64 ui8 QI8 QUI8 string")


@irdl_op_definition
class TileOp(DataMovementOp):
    """
    Repeat a tensor along each dimension.

    Example:

    ```mlir
    %2 = "tfl.tile"(%0, %1) : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<4x9xf32>
    ```
    """

    name = "tfl.tile"

    input = operand_def(_TILE_ELEMENTS)
    multiples = operand_def(kinds.INDEX)
    output = result_def(_TILE_ELEMENTS)

    traits = traits_def(Requires(SAME_INPUT, SAME_SCALE))


_BROADCAST_TO_ELEMENTS = kinds.tensor_of(
    "f32 f8E4M3FN f8E5M2 i32 i1 i4 i8 QI8 ui8 ui32 QUI8 i16 QI16 i64 c64"
)


@irdl_op_definition
class BroadcastToOp(DataMovementOp):
    """
    Broadcast a tensor to a shape.

    Example:

    ```mlir
    %2 = "tfl.broadcast_to"(%0, %1) : (tensor<3xf32>, tensor<2xi32>) -> tensor<2x3xf32>
    ```
    """

    name = "tfl.broadcast_to"

    input = operand_def(_BROADCAST_TO_ELEMENTS)
    shape = operand_def(kinds.INDEX)
    output = result_def(_BROADCAST_TO_ELEMENTS)

    traits = traits_def(
        Requires(
            SAME_INPUT,
            require_rank_at_most(0, 8),
            require_rank(1, 1),
            require_first_size_at_most(
                1, 8, "output dimension count must be at most 8"
            ),
            SAME_SCALE_OF_ANY_AXIS,
        )
    )


_REVERSE_V2_ELEMENTS = kinds.tensor_of(
    "f32 f8E4M3FN f8E5M2 ui8 i16 i32 i64 QI16 QUI8 QI8 quint8 i1"
)


@irdl_op_definition
class ReverseV2Op(DataMovementOp):
    """
    Reverse a tensor along dimensions. The runtime copies stored values, whatever the scale.

    Example:

    ```mlir
    %2 = "tfl.reverse_v2"(%0, %1) : (tensor<4xf32>, tensor<1xi32>) -> tensor<4xf32>
    ```
    """

    name = "tfl.reverse_v2"

    input = operand_def(_REVERSE_V2_ELEMENTS)
    axis = operand_def(kinds.I32)
    output = result_def(_REVERSE_V2_ELEMENTS)

    traits = traits_def(Requires(SAME_INPUT, require_rank(1, 1)))


class BlockRearrangeOp(OneInputOp, DataMovementOp, ABC):
    """Base class of ops that move elements between image blocks and channels."""

    block_size = prop_def(props.POSITIVE_I32)

    traits = traits_def(Requires(SAME_INPUT, require_rank_at_most(0, 4), SAME_SCALE))


@irdl_op_definition
class SpaceToDepthOp(BlockRearrangeOp, elements="f32 i32 i64 QI8 QUI8 quint8"):
    """
    Move blocks of images (NHWC) into channels.

    Example:

    ```mlir
    %1 = "tfl.space_to_depth"(%0) <{block_size = 2 : i32}>
        : (tensor<1x4x4x3xf32>) -> tensor<1x2x2x12xf32>
    ```
    """

    name = "tfl.space_to_depth"


@irdl_op_definition
class DepthToSpaceOp(BlockRearrangeOp, elements="f32 i8 i32 i64 quint8 ui8 QI8 QUI8"):
    """
    Move channels of images (NHWC) into blocks.

    Example:

    ```mlir
    %1 = "tfl.depth_to_space"(%0) <{block_size = 2 : i32}>
        : (tensor<1x2x2x12xf32>) -> tensor<1x4x4x3xf32>
    ```
    """

    name = "tfl.depth_to_space"


_SPACE_TO_BATCH_ND_ELEMENTS = kinds.tensor_of("f32 i32 i64 QI8 QUI8 quint8 QI16")


@irdl_op_definition
class SpaceToBatchNdOp(DataMovementOp):
    """
    Pad images (NHWC) and move blocks into the batch dimension.

    Example:

    ```mlir
    %3 = "tfl.space_to_batch_nd"(%0, %1, %2)
        : (tensor<1x4x4x3xf32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<4x2x2x3xf32>
    ```
    """

    name = "tfl.space_to_batch_nd"

    input = operand_def(_SPACE_TO_BATCH_ND_ELEMENTS)
    block_shape = operand_def(kinds.I32)
    paddings = operand_def(kinds.I32)
    output = result_def(_SPACE_TO_BATCH_ND_ELEMENTS)

    traits = traits_def(
        Requires(
            has_rank(0, 3, 4, "operand 0 has rank range [3, 4]"), SAME_INPUT, SAME_SCALE
        )
    )


@irdl_op_definition
class BatchToSpaceNdOp(DataMovementOp):
    """
    Move the batch dimension into blocks of images (NHWC) and crop them.

    Example:

    ```mlir
    %3 = "tfl.batch_to_space_nd"(%0, %1, %2)
        : (tensor<4x2x2x3xf32>, tensor<2xi32>, tensor<2x2xi32>) -> tensor<1x4x4x3xf32>
    ```
    """

    name = "tfl.batch_to_space_nd"

    input = operand_def(kinds.tensor_of("f32 i8 i32 i64 ui8 QI8 QUI8 QI16"))
    block_shape = operand_def(kinds.I32)
    indices = operand_def(kinds.I32)
    output = result_def(kinds.tensor_of("f32 i16 i32 i64 ui8 QI8 QUI8 QI16"))

    traits = traits_def(
        Requires(
            SAME_INPUT,
            has_rank(0, 3, 4, "operand 0 has rank range [3, 4]"),
            require_rank(1, 1),
            require_rank(2, 2),
            SAME_SCALE,
        )
    )
