"""Fourier transforms, and ops on their complex results."""

from abc import ABC

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from . import tensor_kinds as kinds
from .base import SAME_SHAPE, OneInputOp, Requires, TFLOp

__all__ = [
    "ComplexAbsOp",
    "ImagOp",
    "RFFT2dOp",
    "RealOp",
]


@irdl_op_definition
class RFFT2dOp(TFLOp):
    """
    Fourier transform of real numbers along the last two dimensions, which are cropped or
    padded with zeros to `fft_length`.

    Example:

    ```mlir
    %2 = "tfl.rfft2d"(%0, %1)
        : (tensor<4x8xf32>, tensor<2xi32>) -> tensor<4x5xcomplex<f32>>
    ```
    """

    name = "tfl.rfft2d"

    input = operand_def(kinds.FLOAT)
    fft_length = operand_def(kinds.I32)
    output = result_def(kinds.tensor_of("c64"))

    traits = traits_def(Pure())


class ComplexOp(OneInputOp, ABC):
    """Base class of elementwise ops on complex numbers."""

    input = operand_def(kinds.tensor_of("c64 c128"))
    output = result_def(kinds.tensor_of("f32 f64"))

    traits = traits_def(Pure(), Requires(SAME_SHAPE))


@irdl_op_definition
class RealOp(ComplexOp):
    """
    Real part of complex numbers.

    Example:

    ```mlir
    %1 = "tfl.real"(%0) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
    ```
    """

    name = "tfl.real"


@irdl_op_definition
class ImagOp(ComplexOp):
    """
    Imaginary part of complex numbers.

    Example:

    ```mlir
    %1 = "tfl.imag"(%0) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
    ```
    """

    name = "tfl.imag"


@irdl_op_definition
class ComplexAbsOp(ComplexOp):
    """
    Magnitude of complex numbers.

    Example:

    ```mlir
    %1 = "tfl.complex_abs"(%0) : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
    ```
    """

    name = "tfl.complex_abs"
