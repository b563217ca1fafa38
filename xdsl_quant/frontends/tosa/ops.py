"""
TOSA ops of MLIR 22 that the dialect in xDSL lacks.

As in MLIR, verifiers check element types, ranks, and the shapes of broadcasts,
reductions and convolutions. They do not check MLIR's other rules for shapes. Tensors are
ranked, as in xDSL's own ops.

MLIR documentation: <https://mlir.llvm.org/docs/Dialects/TOSA/>
"""

import math
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I32,
    I64,
    BoolAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    bf16,
    f16,
    f32,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.dialects.tosa import NanMode, NanModeAttr, RoundingModeAttr
from xdsl.ir import Attribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Commutative, ConstantLike, Pure

from xdsl_quant.dialects.verification import are_compatible_sizes

# The redundant names keep former import paths.
from .attributes import BlockScaledType as BlockScaledType
from .attributes import BlockSize as BlockSize
from .attributes import BlockSizeAttr, ResizeModeAttr, ShapeType
from .attributes import MXInt8Type as MXInt8Type
from .attributes import ResizeMode as ResizeMode
from .checks import (
    BLOCK_ELEMENTS,
    BLOCK_SCALES,
    BOOLEANS,
    INTEGERS,
    NON_SCALAR,
    NUMBERS,
    ONE,
    ONE_NUMBER,
    SHAPE,
    compares_same_elements,
    has_elements_of_operand,
    has_rank_of_operand,
    has_same_elements,
    has_shape_of_operand,
    is_broadcast,
    of_rank,
    tensor_kind,
    tosa_element_type,
    tosa_elements,
    tosa_error,
    tosa_shape,
    verify_axis,
    verify_broadcast,
    verify_result_shape,
    verify_same_elements,
    verify_zero_point,
)
from .checks import is_number as is_number
from .syntax import parse_with_keywords, print_with_keywords

# Former name, kept for compatibility.
TensorKind = tensor_kind

# Base classes


def _static_sizes(value: SSAValue) -> Sequence[int] | None:
    """Return the sizes of a `tosa.const_shape`; `None` for any other value."""
    op = value.owner
    if not isinstance(op, ConstShapeOp):
        return None
    return cast(Sequence[int], op.values.get_values())


class CheckedOp(IRDLOperation, ABC):
    CHECKS: ClassVar[Sequence[Callable[[IRDLOperation], None]]] = ()

    traits = traits_def(Pure())

    def verify_(self) -> None:
        for check in self.CHECKS:
            check(self)


class TosaOp(CheckedOp, ABC):
    """Base class of ops with the syntax `tosa.name %0, %1 {...} : (...) -> ...`."""

    irdl_options = (ParsePropInAttrDict(),)

    assembly_format = "operands attr-dict `:` functional-type(operands, results)"


class KeywordOp(CheckedOp, ABC):
    """Base class of ops like `TosaOp`, but with enum properties printed as keywords."""

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        """Parse the op after its name."""
        op = parse_with_keywords(cls, parser)
        assert isinstance(op, cls)
        return op

    def print(self, printer: Printer) -> None:
        """Print the op without its name."""
        print_with_keywords(self, printer)


# Unary elementwise ops


class UnaryOp(TosaOp, ABC):
    input1 = operand_def(NUMBERS)
    output = result_def(NUMBERS)

    CHECKS: ClassVar = (has_shape_of_operand, has_elements_of_operand)


@irdl_op_definition
class AbsOp(UnaryOp):
    name = "tosa.abs"


@irdl_op_definition
class BitwiseNotOp(UnaryOp):
    name = "tosa.bitwise_not"


@irdl_op_definition
class CeilOp(UnaryOp):
    name = "tosa.ceil"


@irdl_op_definition
class ClzOp(UnaryOp):
    name = "tosa.clz"


@irdl_op_definition
class ExpOp(UnaryOp):
    name = "tosa.exp"


@irdl_op_definition
class FloorOp(UnaryOp):
    name = "tosa.floor"


@irdl_op_definition
class LogOp(UnaryOp):
    name = "tosa.log"


@irdl_op_definition
class RsqrtOp(UnaryOp):
    name = "tosa.rsqrt"


class _UnaryOpOfInput(TosaOp, ABC):
    input = operand_def(NUMBERS)
    output = result_def(NUMBERS)

    CHECKS: ClassVar = (has_shape_of_operand, has_elements_of_operand)


@irdl_op_definition
class ErfOp(_UnaryOpOfInput):
    name = "tosa.erf"


@irdl_op_definition
class SigmoidOp(_UnaryOpOfInput):
    name = "tosa.sigmoid"


@irdl_op_definition
class TanhOp(_UnaryOpOfInput):
    name = "tosa.tanh"


@irdl_op_definition
class LogicalNotOp(UnaryOp):
    name = "tosa.logical_not"

    input1 = operand_def(BOOLEANS)
    output = result_def(BOOLEANS)


@irdl_op_definition
class CastOp(_UnaryOpOfInput):
    """Convert elements; float to integer rounds half to even and saturates."""

    name = "tosa.cast"

    CHECKS: ClassVar = (has_shape_of_operand,)


@irdl_op_definition
class IdentityOp(UnaryOp):
    name = "tosa.identity"

    CHECKS: ClassVar = ()


@irdl_op_definition
class NegateOp(TosaOp):
    """Negation: `output_zp - (x - input1_zp)`."""

    name = "tosa.negate"

    input1 = operand_def(NUMBERS)
    input1_zp = operand_def(ONE_NUMBER)
    output_zp = operand_def(ONE_NUMBER)
    output = result_def(NUMBERS)

    CHECKS: ClassVar = (has_elements_of_operand, has_shape_of_operand)

    def verify_(self) -> None:
        super().verify_()
        verify_zero_point(self, self.input1, self.input1_zp)
        verify_zero_point(self, self.output, self.output_zp)


# Binary and ternary elementwise ops


class BinaryOp(TosaOp, ABC):
    input1 = operand_def(NUMBERS)
    input2 = operand_def(NUMBERS)
    output = result_def(NUMBERS)

    CHECKS: ClassVar = (has_same_elements, is_broadcast)


@irdl_op_definition
class BitwiseAndOp(BinaryOp):
    name = "tosa.bitwise_and"

    traits = traits_def(Commutative())


@irdl_op_definition
class BitwiseOrOp(BinaryOp):
    name = "tosa.bitwise_or"

    traits = traits_def(Commutative())


@irdl_op_definition
class BitwiseXorOp(BinaryOp):
    name = "tosa.bitwise_xor"

    traits = traits_def(Commutative())


@irdl_op_definition
class LogicalLeftShiftOp(BinaryOp):
    name = "tosa.logical_left_shift"


@irdl_op_definition
class LogicalRightShiftOp(BinaryOp):
    """Right shift that fills with zeros."""

    name = "tosa.logical_right_shift"


@irdl_op_definition
class PowOp(BinaryOp):
    name = "tosa.pow"


@irdl_op_definition
class ArithmeticRightShiftOp(BinaryOp):
    """Right shift that keeps the sign; `round` selects rounding half up."""

    name = "tosa.arithmetic_right_shift"

    round = prop_def(BoolAttr)


@irdl_op_definition
class IntDivOp(BinaryOp):
    name = "tosa.intdiv"

    input1 = operand_def(tosa_elements(i32, i64))
    input2 = operand_def(tosa_elements(i32, i64))
    output = result_def(tosa_elements(i32, i64))


class LogicalOp(BinaryOp, ABC):
    input1 = operand_def(BOOLEANS)
    input2 = operand_def(BOOLEANS)
    output = result_def(BOOLEANS)

    traits = traits_def(Commutative())


@irdl_op_definition
class LogicalAndOp(LogicalOp):
    name = "tosa.logical_and"


@irdl_op_definition
class LogicalOrOp(LogicalOp):
    name = "tosa.logical_or"


@irdl_op_definition
class LogicalXorOp(LogicalOp):
    name = "tosa.logical_xor"


class ComparisonOp(BinaryOp, ABC):
    output = result_def(BOOLEANS)

    CHECKS: ClassVar = (compares_same_elements, is_broadcast)


@irdl_op_definition
class EqualOp(ComparisonOp):
    name = "tosa.equal"

    traits = traits_def(Commutative())


@irdl_op_definition
class GreaterOp(ComparisonOp):
    name = "tosa.greater"


@irdl_op_definition
class GreaterEqualOp(ComparisonOp):
    name = "tosa.greater_equal"


class _ExtremumOp(KeywordOp, ABC):
    input1 = operand_def(NUMBERS)
    input2 = operand_def(NUMBERS)
    nan_mode = opt_prop_def(NanModeAttr, default_value=NanModeAttr(NanMode.PROPAGATE))
    output = result_def(NUMBERS)

    traits = traits_def(Commutative())

    CHECKS: ClassVar = (has_same_elements, is_broadcast)


@irdl_op_definition
class MaximumOp(_ExtremumOp):
    name = "tosa.maximum"


@irdl_op_definition
class MinimumOp(_ExtremumOp):
    name = "tosa.minimum"


@irdl_op_definition
class SelectOp(TosaOp):
    name = "tosa.select"

    input1 = operand_def(BOOLEANS)
    input2 = operand_def(NUMBERS)
    input3 = operand_def(NUMBERS)
    output = result_def(NUMBERS)

    def verify_(self) -> None:
        verify_same_elements(self, self.input2, self.input3, self.output)
        verify_broadcast(self, self.input1, self.input2, self.input3)


@irdl_op_definition
class ApplyScaleOp(KeywordOp):
    """Multiply scalars or vectors by a 31-bit multiplier and shift right."""

    name = "tosa.apply_scale"

    value = operand_def()
    multiplier = operand_def()
    shift = operand_def()
    rounding_mode = prop_def(RoundingModeAttr)
    output = result_def()


@irdl_op_definition
class TableOp(TosaOp):
    """Table lookup: 256 entries for `i8`; 513 entries with interpolation for `i16`."""

    name = "tosa.table"

    input1 = operand_def(NUMBERS)
    table = operand_def(of_rank(1))
    output = result_def(NUMBERS)

    CHECKS: ClassVar = (has_shape_of_operand,)


# Reductions


@irdl_op_definition
class ArgMaxOp(KeywordOp):
    """Index of the first maximum along an axis."""

    name = "tosa.argmax"

    input = operand_def(NON_SCALAR)
    axis = prop_def(IntegerAttr[I32])
    nan_mode = opt_prop_def(NanModeAttr, default_value=NanModeAttr(NanMode.PROPAGATE))
    output = result_def(INTEGERS)

    def verify_(self) -> None:
        verify_axis(self, self.axis, self.input)
        shape, axis = tosa_shape(self.input), self.axis.value.data
        verify_result_shape(self, (*shape[:axis], *shape[axis + 1 :]))


# Shapes and data movement


@irdl_op_definition
class ConstShapeOp(IRDLOperation):
    name = "tosa.const_shape"

    values = prop_def(DenseIntOrFPElementsAttr)
    output = result_def(SHAPE)

    irdl_options = (ParsePropInAttrDict(),)

    # Two spaces, as in MLIR.
    assembly_format = "` ` attr-dict `:` `(` `)` `->` type($output)"

    traits = traits_def(Pure(), ConstantLike())

    def __init__(self, sizes: Sequence[int]):
        type_ = TensorType(IndexType(), (len(sizes),))
        values = DenseIntOrFPElementsAttr.from_list(type_, sizes)
        super().__init__(
            properties={"values": values}, result_types=(ShapeType(len(sizes)),)
        )

    def verify_(self) -> None:
        type_ = self.values.type
        if not isinstance(type_.element_type, IndexType):
            raise tosa_error(self, "expected values to be index elements")
        if type_.get_num_dims() != 1:
            raise tosa_error(self, "expect elements in attribute values with rank 1")
        rank = self.output.type.rank.data
        if type_.get_shape() != (rank,):
            raise tosa_error(
                self,
                "expect number of elements in attribute values "
                f"({type_.get_shape()[0]}) to be equal to the rank "
                f"({rank}) for the result shape type",
            )


def _verify_lengths(op: IRDLOperation, rank: int, *shapes: SSAValue) -> None:
    for value in shapes:
        length = cast(ShapeType, value.type).rank.data
        if length != rank:
            raise tosa_error(op, f"expected a shape of {rank} sizes, got {length}")


@irdl_op_definition
class ReshapeOp(TosaOp):
    name = "tosa.reshape"

    input1 = operand_def(NUMBERS)
    shape = operand_def(SHAPE)
    output = result_def(NUMBERS)

    def verify_(self) -> None:
        verify_same_elements(self, self.input1, self.output)
        _verify_lengths(self, len(tosa_shape(self.output)), self.shape)
        if (sizes := _static_sizes(self.shape)) is not None:
            verify_result_shape(self, [DYNAMIC_INDEX if s == -1 else s for s in sizes])
        shapes = tosa_shape(self.input1), tosa_shape(self.output)
        if DYNAMIC_INDEX not in (*shapes[0], *shapes[1]):
            before, after = map(math.prod, shapes)
            if before != after:
                raise tosa_error(self, f"cannot reshape {before} elements into {after}")


class _DataMovementOp(TosaOp, ABC):
    CHECKS: ClassVar = (has_elements_of_operand, has_rank_of_operand)


@irdl_op_definition
class TileOp(_DataMovementOp):
    name = "tosa.tile"

    input1 = operand_def(NON_SCALAR)
    multiples = operand_def(SHAPE)
    output = result_def(NON_SCALAR)

    def verify_(self) -> None:
        super().verify_()
        _verify_lengths(self, len(tosa_shape(self.input1)), self.multiples)


@irdl_op_definition
class PadOp(_DataMovementOp):
    """Pad a tensor; `padding` has two counts per dimension: elements before and after."""

    name = "tosa.pad"

    input1 = operand_def(NON_SCALAR)
    padding = operand_def(SHAPE)
    pad_const = operand_def(ONE)
    output = result_def(NON_SCALAR)

    def verify_(self) -> None:
        verify_same_elements(self, self.input1, self.pad_const, self.output)
        super().verify_()
        shape = tosa_shape(self.input1)
        _verify_lengths(self, 2 * len(shape), self.padding)
        if (padding := _static_sizes(self.padding)) is not None:
            expected = [
                size if size == DYNAMIC_INDEX else before + size + after
                for size, before, after in zip(
                    shape, padding[::2], padding[1::2], strict=True
                )
            ]
            verify_result_shape(self, expected)


@irdl_op_definition
class SliceOp(_DataMovementOp):
    """Slice of a tensor from `start` with sizes `size`."""

    name = "tosa.slice"

    input1 = operand_def(NON_SCALAR)
    start = operand_def(SHAPE)
    size = operand_def(SHAPE)
    output = result_def(NON_SCALAR)

    def verify_(self) -> None:
        super().verify_()
        _verify_lengths(self, len(tosa_shape(self.input1)), self.start, self.size)


@irdl_op_definition
class TransposeOp(_DataMovementOp):
    """Permute dimensions: dimension k of the result is `perms[k]` of the operand."""

    name = "tosa.transpose"

    input1 = operand_def(NON_SCALAR)
    perms = prop_def(DenseArrayBase[I32])
    output = result_def(NON_SCALAR)

    CHECKS: ClassVar = (has_elements_of_operand,)

    def verify_(self) -> None:
        super().verify_()
        shape, perms = tosa_shape(self.input1), self.perms.get_values()
        if sorted(perms) != [*range(len(shape))]:
            raise tosa_error(self, "expected valid permutation indices")
        verify_result_shape(self, [shape[axis] for axis in perms])


@irdl_op_definition
class ReverseOp(_DataMovementOp):
    name = "tosa.reverse"

    input1 = operand_def(NON_SCALAR)
    axis = prop_def(IntegerAttr[I32])
    output = result_def(NON_SCALAR)

    def verify_(self) -> None:
        super().verify_()
        verify_axis(self, self.axis, self.input1)


@irdl_op_definition
class GatherOp(TosaOp):
    """Rows of `values` by index, separately for each batch."""

    name = "tosa.gather"

    values = operand_def(of_rank(3))
    indices = operand_def(
        tensor_kind("2-d tensor of i32 or i64", {i32, i64}.__contains__, (2,))
    )
    output = result_def(of_rank(3))

    def verify_(self) -> None:
        verify_same_elements(self, self.values, self.output)
        batches, _, channels = tosa_shape(self.values)
        if not are_compatible_sizes(batches, tosa_shape(self.indices)[0]):
            raise tosa_error(
                self, f"requires indices dimension 0 to have size {batches}"
            )
        verify_result_shape(self, (batches, tosa_shape(self.indices)[1], channels))


@irdl_op_definition
class ResizeOp(KeywordOp):
    name = "tosa.resize"

    input = operand_def(of_rank(4))
    scale = operand_def(SHAPE)
    offset = operand_def(SHAPE)
    border = operand_def(SHAPE)
    mode = prop_def(ResizeModeAttr)
    output = result_def(of_rank(4))

    def verify_(self) -> None:
        _verify_lengths(self, 4, self.scale)
        _verify_lengths(self, 2, self.offset, self.border)
        constants = [_static_sizes(value) for value in self.operands[1:]]
        if None in constants:
            return
        scale, offset, border = cast(Sequence[Sequence[int]], constants)
        sizes: list[int] = []
        for i, size in enumerate(tosa_shape(self.input)[1:3]):
            steps = (size - 1) * scale[2 * i] - offset[i] + border[i]
            if size in (1, DYNAMIC_INDEX):
                # MLIR accepts any result size for an image of one pixel.
                sizes.append(DYNAMIC_INDEX)
            elif steps % scale[2 * i + 1]:
                raise tosa_error(
                    self,
                    f"expected {steps} to be wholly divisible by {scale[2 * i + 1]}",
                )
            else:
                sizes.append(steps // scale[2 * i + 1] + 1)
        shape = tosa_shape(self.output)
        verify_result_shape(self, (shape[0], *sizes, shape[3]))


# Contractions

_ACCUMULATORS: Mapping[Attribute, Sequence[Attribute]] = {
    i8: (i32,),
    i16: (IntegerType(48),),
    f16: (f16, f32),
    bf16: (f32,),
    f32: (f32,),
}
"""Accumulator types by element type; other element types are not checked, as in MLIR."""


class ConvolutionOp(TosaOp, ABC):
    """Base class of convolutions of images (NHWC)."""

    input = operand_def(of_rank(4))
    weight = operand_def(of_rank(4))
    bias = operand_def(of_rank(1))
    input_zp = operand_def(ONE_NUMBER)
    weight_zp = operand_def(ONE_NUMBER)
    stride = prop_def(DenseArrayBase[I64])
    acc_type = prop_def(TypeAttribute)
    local_bound = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    output = result_def(of_rank(4))

    KERNEL: ClassVar[Sequence[int]]
    """Weight dimensions that hold the height and the width of the kernel."""

    def verify_(self) -> None:
        verify_zero_point(self, self.input, self.input_zp)
        verify_zero_point(self, self.weight, self.weight_zp)
        element_type = tosa_element_type(self.input)
        types = _ACCUMULATORS.get(element_type, (self.acc_type,))
        if self.acc_type not in types:
            words = "/".join(map(str, types))
            raise tosa_error(
                self, f"accumulator type for {element_type} tensor is not {words}"
            )
        channels, biases = tosa_shape(self.output)[3], tosa_shape(self.bias)[0]
        if biases != 1 and not are_compatible_sizes(biases, channels):
            raise tosa_error(
                self,
                f"bias channels expected to be equal to output channels ({channels}) "
                f"or 1, got {biases}",
            )
        kernel = [tosa_shape(self.weight)[axis] for axis in self.KERNEL]
        image = tosa_shape(self.input)[1:3]
        if DYNAMIC_INDEX not in (*kernel, *image):
            sizes = [
                self.output_size(dimension, size, kernel[dimension])
                for dimension, size in enumerate(image)
            ]
            shape = tosa_shape(self.output)
            verify_result_shape(self, (shape[0], *sizes, shape[3]))

    def output_size(self, dimension: int, size: int, kernel: int) -> int:
        """Return the result height if `dimension` is 0, or the result width if it is 1."""
        raise NotImplementedError


class _PaddedConvolutionOp(ConvolutionOp, ABC):
    pad = prop_def(DenseArrayBase[I64])
    dilation = prop_def(DenseArrayBase[I64])

    def output_size(self, dimension: int, size: int, kernel: int) -> int:
        pads = self.pad.get_values()[2 * dimension : 2 * dimension + 2]
        stride = self.stride.get_values()[dimension]
        extent = (kernel - 1) * self.dilation.get_values()[dimension]
        steps = size - 1 + sum(pads) - extent
        if steps % stride:
            raise tosa_error(
                self,
                f"expected {steps}, which is input_size - 1 + padding - "
                f"(kernel_size - 1) * dilation, to be wholly divisible by stride {stride}",
            )
        return steps // stride + 1


@irdl_op_definition
class Conv2DOp(_PaddedConvolutionOp):
    """Convolution with weights of shape OHWI."""

    name = "tosa.conv2d"

    KERNEL: ClassVar[Sequence[int]] = (1, 2)


@irdl_op_definition
class DepthwiseConv2DOp(_PaddedConvolutionOp):
    """Depthwise convolution with weights of shape HWCM."""

    name = "tosa.depthwise_conv2d"

    KERNEL: ClassVar[Sequence[int]] = (0, 1)


@irdl_op_definition
class TransposeConv2DOp(ConvolutionOp):
    """Transposed convolution with weights of shape OHWI."""

    name = "tosa.transpose_conv2d"

    out_pad = prop_def(DenseArrayBase[I64])

    KERNEL: ClassVar[Sequence[int]] = (1, 2)

    def output_size(self, dimension: int, size: int, kernel: int) -> int:
        pads = self.out_pad.get_values()[2 * dimension : 2 * dimension + 2]
        return (size - 1) * self.stride.get_values()[dimension] + sum(pads) + kernel


# Block-scaled ops

BLOCK_SIZE = 32
"""Number of elements along the last dimension that share a scale."""


@irdl_op_definition
class CastFromBlockScaledOp(KeywordOp):
    """Multiply each element by the scale of its block."""

    name = "tosa.cast_from_block_scaled"

    input_data = operand_def(BLOCK_ELEMENTS)
    input_scale = operand_def(BLOCK_SCALES)
    block_size = prop_def(BlockSizeAttr)
    output_data = result_def(NON_SCALAR)

    CHECKS: ClassVar = (has_shape_of_operand,)

    def verify_(self) -> None:
        super().verify_()
        (*sizes, last), scale_shape = (
            tosa_shape(self.input_data),
            tosa_shape(self.input_scale),
        )
        if len(scale_shape) != len(sizes) + 1 or not all(
            map(are_compatible_sizes, sizes, scale_shape)
        ):
            raise tosa_error(
                self,
                f"require compatible shapes for input_data ('{self.input_data.type}') and "
                f"input_scale ('{self.input_scale.type}') except for the last dimension",
            )
        if last == DYNAMIC_INDEX:
            return
        if last % BLOCK_SIZE:
            raise tosa_error(
                self,
                f"expect last dimension of input_data ({last}) to be divisible by "
                f"block_size ({BLOCK_SIZE})",
            )
        if not are_compatible_sizes(scale_shape[-1], last // BLOCK_SIZE):
            raise tosa_error(
                self,
                f"expect last dimension of input_scale ({scale_shape[-1]}) to be equal to "
                f"last dimension of input_data / block_size ({last // BLOCK_SIZE})",
            )


OPERATIONS: Sequence[type[IRDLOperation]] = (
    *(AbsOp, BitwiseNotOp, CeilOp, ClzOp, ExpOp, FloorOp, LogOp, RsqrtOp),
    *(ErfOp, SigmoidOp, TanhOp, LogicalNotOp, CastOp, IdentityOp, NegateOp),
    *(BitwiseAndOp, BitwiseOrOp, BitwiseXorOp, LogicalLeftShiftOp, LogicalRightShiftOp),
    *(PowOp, ArithmeticRightShiftOp, IntDivOp, LogicalAndOp, LogicalOrOp, LogicalXorOp),
    *(EqualOp, GreaterOp, GreaterEqualOp, MaximumOp, MinimumOp, SelectOp),
    *(ApplyScaleOp, TableOp, ArgMaxOp, ConstShapeOp, ReshapeOp, TileOp, PadOp, SliceOp),
    *(TransposeOp, ReverseOp, GatherOp, ResizeOp),
    *(Conv2DOp, DepthwiseConv2DOp, TransposeConv2DOp),
    CastFromBlockScaledOp,
)
"""Ops that xDSL lacks."""
