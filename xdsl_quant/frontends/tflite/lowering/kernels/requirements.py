"""
Quantization parameters that the integer kernels of TensorFlow Lite support. With other
parameters, the kernels fail or compute wrong results without an error.
"""

from typing import Any, TypeAlias

import numpy as np
from xdsl.ir import Operation

from xdsl_quant.frontends.tflite.formulas.quantized import scale_of
from xdsl_quant.numerics import QuantizationParameters

from .computation import (
    OTHER_STORAGE,
    NoKernel,
    Operands,
    Requirement,
    activation_of,
    have_one_scale,
    have_one_storage,
    takes_one_scale,
)

Parameters: TypeAlias = QuantizationParameters

OTHER_RESULT = NoKernel(
    "has a result with a scale or zero point other than that of the kernel"
)
WIDE_ZERO_POINT = NoKernel(
    "has a zero point with 16-bit storage, which the kernel ignores"
)


def _is_close(scale: Any, other: Any) -> bool:
    """Compare scales with the runtime's tolerance."""
    return bool(np.all(np.isclose(scale, other, rtol=1e-3, atol=0)))


def _has_scale(parameters: Parameters, scale: float, zero_point: int) -> bool:
    is_same = _is_close(float(parameters.scales), scale)
    return is_same and int(parameters.zero_points) == zero_point


def _has_wide_zero_point(*parameters: Parameters | None) -> bool:
    known = [p for p in parameters if p is not None]
    return any(p.storage_width == 16 and p.has_zero_points for p in known)


# Elementwise


def takes_one_storage(
    op: Operation, result: Parameters, *operands: Parameters
) -> NoKernel | None:
    """Return `NoKernel` unless operands and result have the same storage type."""
    return None if have_one_storage(result, *operands) else OTHER_STORAGE


def takes_bytes(
    op: Operation, result: Parameters, *operands: Parameters
) -> NoKernel | None:
    """Return `NoKernel` unless all storage types have at most 8 bits."""
    if all(p.storage_width <= 8 for p in (result, *operands)):
        return None
    return NoKernel("has storage of more than 8 bits")


def takes_signed_bytes(
    op: Operation, result: Parameters, *operands: Parameters
) -> NoKernel | None:
    """Return `NoKernel` unless all storage types are `i8`."""
    if all(p.storage_width == 8 and p.is_signed for p in (result, *operands)):
        return None
    return NoKernel("has a storage type other than 'i8'")


def takes_zero_points(
    op: Operation, result: Parameters, *operands: Parameters | None
) -> NoKernel | None:
    """Return `NoKernel` if a 16-bit operand or result has a zero point other than 0."""
    return WIDE_ZERO_POINT if _has_wide_zero_point(result, *operands) else None


def takes_sigmoid(op: Operation, result: Parameters, x: Parameters) -> NoKernel | None:
    """Return `NoKernel` if 16-bit `logistic` or `tanh` has unsupported parameters."""
    if result.storage_width < 16 or (
        _has_scale(result, 2**-15, 0) and not x.has_zero_points
    ):
        return None
    return NoKernel("has a result whose scale is not 2**-15, or a zero point")


def takes_negated(op: Operation, result: Parameters, x: Parameters) -> NoKernel | None:
    """Return `NoKernel` unless both zero points are 0, and both scales are equal."""
    if x.has_zero_points and have_one_scale(result, x):
        return NoKernel("has a zero point, which the kernel ignores")
    return takes_one_scale(op, result, x)


def takes_hard_swish(
    op: Operation, result: Parameters, x: Parameters
) -> NoKernel | None:
    """Return `NoKernel` unless storage has up to 8 bits, and the multiplier is below 1."""
    if np.float32(1 / 128) * scale_of(x) / scale_of(result) >= 1:
        return NoKernel(
            "has an operand whose scale is 128 or more times that of its result"
        )
    return takes_bytes(op, result, x)


def takes_squared_difference(
    op: Operation, result: Parameters, lhs: Parameters, rhs: Parameters
) -> NoKernel | None:
    """Return `NoKernel` unless storage is `i8`, and the multiplier is below 1."""
    larger = max(scale_of(lhs), scale_of(rhs))
    if larger * larger >= 4096 * scale_of(result):
        return NoKernel(
            "has an operand whose squared scale is 4096 or more times the result scale"
        )
    return takes_signed_bytes(op, result, lhs, rhs)


# Along the last dimension


def takes_softmax(op: Operation, result: Parameters, x: Parameters) -> NoKernel | None:
    width = result.storage_width
    is_fixed = width == 16 and _has_scale(result, 2**-15, 0)
    if x.storage_width == 8:
        # The kernel does not check a 16-bit result; it computes values of these parameters.
        is_fixed |= _has_scale(result, 2.0**-width, result.storage_min)
    return None if is_fixed else OTHER_RESULT


def takes_log_softmax(
    op: Operation, result: Parameters, x: Parameters
) -> NoKernel | None:
    is_fixed = _has_scale(result, 1 / 16, result.storage_max)
    return None if is_fixed else OTHER_RESULT


def takes_l2_normalization(
    op: Any, result: Parameters, x: Parameters
) -> NoKernel | None:
    # The kernel for unsigned storage is not implemented.
    if not result.is_signed:
        return NoKernel("has unsigned storage, for which no kernel is implemented")
    if not _has_scale(result, 1 / 128, 0):
        return OTHER_RESULT
    if activation_of(op) != "NONE":
        return NoKernel(f"has the activation '{activation_of(op)}'")
    return None


# Products and reductions


def takes_product(roles: Operands, widest_weights: int = 8) -> Requirement:
    """
    Return a `Requirement` for convolutions and matrix products.

    Args:
        roles: indices of input, weights and bias.
        widest_weights: largest storage width of weights, in bits.
    """
    assert roles.weights is not None
    x_index, weights_index, bias_index = (
        roles.input,
        roles.weights,
        roles.bias,
    )

    def requirement(
        op: Operation, result: Parameters, *operands: Any
    ) -> NoKernel | None:
        x, weights = operands[x_index], operands[weights_index]
        bias = None if bias_index is None else operands[bias_index]
        if not have_one_storage(result, x):
            return OTHER_STORAGE
        if _has_wide_zero_point(result, x):
            return WIDE_ZERO_POINT
        if weights.storage_width > widest_weights:
            return NoKernel(f"has weights of more than {widest_weights} bits")
        if bias is None:
            return None
        if bias.storage_width != 32 or bias.has_zero_points:
            return NoKernel(
                "has a bias whose storage is not 'i32' or whose zero point is not 0"
            )
        if not _is_close(bias.scales, x.scales * weights.scales):
            return NoKernel(
                "has a bias whose scale is not the product of input and weight scales"
            )
        return None

    return requirement
