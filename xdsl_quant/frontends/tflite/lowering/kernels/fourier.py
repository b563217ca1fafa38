"""Implementations of Fourier transforms, and of ops on their complex results."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ComplexType, f32
from xdsl.ir import Attribute, Operation

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.formulas import fourier
from xdsl_quant.frontends.tflite.formulas.fourier import ComplexParts
from xdsl_quant.unsupported import Unsupported

from .computation import Array, Function, integers_of, is_array

Complex: TypeAlias = NDArray[np.complex64]
"""Complex numbers, or a [`ComplexExpression`][..ComplexExpression] for them."""


@dataclass(frozen=True)
class ComplexExpression:
    """Complex numbers known only at run time; only ops of `FOURIER` take them."""

    real: Array
    imag: Array


def is_complex(type_: Attribute) -> bool:
    return isinstance(scalar_or_element_type(type_), ComplexType)


def _rfft2d(op: tfl.RFFT2dOp, x: Array, sizes: Array) -> Array:
    rows, columns = integers_of(sizes)
    if x.ndim < 2 or rows < 1 or columns < 1:
        raise Unsupported(f"has a shape of rank {x.ndim}, and sizes {rows}x{columns}")
    real, imag = fourier.rfft2d(x, (rows, columns))
    if not is_array(real):
        return cast(Array, ComplexExpression(real, imag))
    result = np.empty(real.shape, np.complex64)
    result.real, result.imag = real, imag
    return result


def _check_single_precision(op: tfl.RealOp | tfl.ImagOp | tfl.ComplexAbsOp) -> None:
    if scalar_or_element_type(op.input.type) != ComplexType(f32):
        raise Unsupported(f"has type '{op.input.type}'; expected 'complex<f32>'")


def _real(op: tfl.RealOp, x: Complex) -> Array:
    _check_single_precision(op)
    return x.real


def _imag(op: tfl.ImagOp, x: Complex) -> Array:
    _check_single_precision(op)
    return x.imag


def _magnitude(op: tfl.ComplexAbsOp, x: Complex) -> Array:
    _check_single_precision(op)
    return fourier.magnitude(ComplexParts(x.real, x.imag))


FOURIER: Mapping[type[Operation], Function] = {
    tfl.RFFT2dOp: _rfft2d,
    tfl.RealOp: _real,
    tfl.ImagOp: _imag,
    tfl.ComplexAbsOp: _magnitude,
}
"""Implementations of ops with complex operands or results."""
