"""Matrix decompositions and Fourier transforms: verified and kept, but not run."""

from typing import cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BoolAttr,
    ComplexType,
    Float32Type,
    Float64Type,
    TensorType,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import SpacedOpaqueSyntaxAttribute
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.str_enum import StrEnum

from xdsl_quant.dialects.verification import (
    RankedTensor,
    are_compatible_shapes,
    are_compatible_sizes,
    require,
)

from . import tensor_kinds as kinds
from .base import COMPATIBLE_ELEMENTS, InferredTypeOp, real_type
from .syntax import FUNCTIONAL_TYPE, SAME_TYPE

__all__ = [
    "CholeskyOp",
    "FftOp",
    "FftType",
    "FftTypeAttr",
    "Transpose",
    "TransposeAttr",
    "TriangularSolveOp",
]


class Transpose(StrEnum):
    """Form of the matrix of `stablehlo.triangular_solve`."""

    TRANSPOSE_INVALID = "TRANSPOSE_INVALID"
    NO_TRANSPOSE = "NO_TRANSPOSE"
    TRANSPOSE = "TRANSPOSE"
    ADJOINT = "ADJOINT"


@irdl_attr_definition
class TransposeAttr(EnumAttribute[Transpose], SpacedOpaqueSyntaxAttribute):
    """`#stablehlo<transpose NO_TRANSPOSE>`"""

    name = "stablehlo.transpose"


class FftType(StrEnum):
    """Kind of a Fourier transform: of complex or real numbers, forward or inverse."""

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"


@irdl_attr_definition
class FftTypeAttr(EnumAttribute[FftType], SpacedOpaqueSyntaxAttribute):
    """`#stablehlo<fft_type RFFT>`"""

    name = "stablehlo.fft_type"


def _verify_square(type_: RankedTensor) -> None:
    """Raise `VerifyException` unless a tensor consists of square matrices."""
    shape = type_.get_shape()
    require(
        len(shape) >= 2 and are_compatible_sizes(*shape[-2:]),
        f"expects square matrices, got '{type_}'",
    )


@irdl_op_definition
class CholeskyOp(InferredTypeOp):
    """
    Cholesky decomposition of Hermitian positive-definite matrices.

    Example:

    ```mlir
    %1 = stablehlo.cholesky %0, lower = true : tensor<3x3xf32>
    ```
    """

    name = "stablehlo.cholesky"

    a = operand_def(kinds.FLOAT_OR_COMPLEX)
    lower = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    result = result_def(kinds.FLOAT_OR_COMPLEX)

    assembly_format = f"$a (`,` `lower` `=` $lower^)? {SAME_TYPE}"

    traits = traits_def(Pure())

    def inferred_type(self) -> RankedTensor:
        _verify_square(self.tensor_types[0])
        return self.tensor_types[0]


@irdl_op_definition
class TriangularSolveOp(InferredTypeOp):
    """
    Solutions `x` of `op(a) x = b`, or of `x op(a) = b`, for triangular matrices `a`.

    Example:

    ```mlir
    %2 = "stablehlo.triangular_solve"(%0, %1) <{
        left_side = true, lower = true,
        transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false
    }> : (tensor<3x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
    ```
    """

    name = "stablehlo.triangular_solve"

    a = operand_def(kinds.FLOAT_OR_COMPLEX_NOT_QUANTIZED)
    b = operand_def(kinds.FLOAT_OR_COMPLEX_NOT_QUANTIZED)
    left_side = prop_def(BoolAttr)
    lower = prop_def(BoolAttr)
    unit_diagonal = prop_def(BoolAttr)
    transpose_a = prop_def(TransposeAttr)
    result = result_def(kinds.FLOAT_OR_COMPLEX_NOT_QUANTIZED)

    traits = traits_def(Pure(), COMPATIBLE_ELEMENTS)

    def inferred_type(self) -> RankedTensor:
        a, b, _ = self.tensor_types
        _verify_square(a)
        shapes = a.get_shape(), b.get_shape()
        require(
            len(shapes[0]) == len(shapes[1])
            and are_compatible_shapes(shapes[0][:-2], shapes[1][:-2])
            and are_compatible_sizes(
                shapes[0][-1], shapes[1][-2 if self.left_side.value.data else -1]
            ),
            f"expects matrices that can be multiplied, got '{a}' and '{b}'",
        )
        require(
            self.transpose_a.data is not Transpose.TRANSPOSE_INVALID,
            "expects a valid transpose_a, got TRANSPOSE_INVALID",
        )
        return b


@irdl_op_definition
class FftOp(InferredTypeOp):
    """
    Discrete Fourier transform along the last dimensions.

    Example:

    ```mlir
    %1 = stablehlo.fft %0, type = RFFT, length = [8]
        : (tensor<4x8xf32>) -> tensor<4x5xcomplex<f32>>
    ```
    """

    name = "stablehlo.fft"

    operand = operand_def(kinds.FLOAT_OR_COMPLEX_NOT_QUANTIZED)
    fft_type = prop_def(FftTypeAttr)
    fft_length = prop_def(kinds.NUMBERS)
    result = result_def(kinds.FLOAT_OR_COMPLEX_NOT_QUANTIZED)

    assembly_format = (
        "$operand `,` `type` `=` $fft_type `,` `length` `=` "
        f"custom<DimensionList>($fft_length) {FUNCTIONAL_TYPE}"
    )

    traits = traits_def(Pure())

    def inferred_type(self) -> RankedTensor:
        operand, _ = self.tensor_types
        lengths, kind = self.fft_length.get_values(), self.fft_type.data
        shape, element = [*operand.get_shape()], operand.element_type
        require(
            1 <= len(lengths) <= min(3, len(shape)),
            f"expects 1 to 3 lengths for the last dimensions, got {len(lengths)}",
        )
        is_real = kind is FftType.RFFT
        accepted = Float32Type | Float64Type if is_real else ComplexType
        require(
            isinstance(element, accepted),
            f"expects {'floats' if is_real else 'complex numbers'}, got '{element}'",
        )
        half = lengths[-1] // 2 + 1 if lengths[-1] else 0
        expected = [*lengths[:-1], half if kind is FftType.IRFFT else lengths[-1]]
        sizes = shape[-len(lengths) :]
        require(
            kind in (FftType.FFT, FftType.IFFT)
            or are_compatible_shapes(sizes, expected),
            f"expects the last dimensions to be {expected}, got {sizes}",
        )
        if is_real and shape[-1] != DYNAMIC_INDEX:
            shape[-1] = half
        elif kind is FftType.IRFFT and shape[-1] != DYNAMIC_INDEX:
            shape[-1] = lengths[-1]
        if is_real:
            element = ComplexType(cast(AnyFloat, element))
        elif kind is FftType.IRFFT:
            element = real_type(element)
        return TensorType(element, shape)
