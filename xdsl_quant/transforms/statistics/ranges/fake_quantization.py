"""
Simulated quantization: a cast to a quantized type, which is chosen for a range of values,
and the cast back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects.builtin import AnyFloat, LocationAttr
from xdsl.ir import Attribute, Block, SSAValue, TypeAttribute
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp, uniform_type
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from xdsl_quant.numerics import RangeRule


class Storage(NamedTuple):
    """Options of the storage type."""

    width: int
    """Number of bits of a stored value."""

    is_signed: bool = True
    """Whether stored values are signed."""

    is_narrow: bool = False
    """Whether the smallest stored value is left out."""

    is_symmetric: bool = False
    """Whether the zero point is in the middle."""

    @property
    def step_count(self) -> int:
        """Width of a range in scales; at least 2, also for unsupported types."""
        if self.is_symmetric:
            return max(2, 2**self.width - 2)
        return max(2, 2**self.width - 1 - self.is_narrow)


def quantized_counterpart(
    type_: Attribute,
    lows: ArrayLike,
    highs: ArrayLike,
    storage: Storage,
    quantized_dimension: int | None = None,
    *,
    rule: RangeRule,
) -> TypeAttribute:
    """
    The type that a float, or a tensor of floats, is quantized to if its values are in a
    range, or in a range for each index of a dimension. Scales and zero points are those of
    [`choose_parameters`][xdsl_quant.numerics.choose_parameters].

    Raises:
        ValueError: if a range is NaN, infinite or reversed, or there is no such type.
    """
    # Importing NumPy takes longer than starting `xdsl-opt`.
    from xdsl_quant.numerics import choose_parameters

    expressed_type = scalar_or_element_type(type_)
    assert isinstance(expressed_type, AnyFloat)
    parameters = choose_parameters(
        lows,
        highs,
        storage=f"{'i' if storage.is_signed else 'u'}{storage.width}",
        symmetric=storage.is_symmetric,
        narrow_range=storage.is_narrow,
        # Whether a scale fits its expressed type is known to the quantized type, also of
        # types that NumPy does not have.
        expressed="f64",
        quantized_dimension=quantized_dimension,
        rule=rule,
    )
    try:
        quantized = with_element_type(type_, uniform_type(parameters, expressed_type))
        # Whether a per-axis type fits its tensor is known to the cast.
        QuantizeCastOp(Block(arg_types=(type_,)).args[0], quantized).verify_()
    except VerifyException as e:
        raise ValueError(str(e)) from None
    return quantized


def quantized_and_back(
    value: SSAValue, quantized: Attribute, location: LocationAttr
) -> tuple[QuantizeCastOp, DequantizeCastOp]:
    """The cast to a quantized type, and that back to the type of the value."""
    quantize = QuantizeCastOp.create(
        operands=(value,), result_types=(quantized,), location=location
    )
    dequantize = DequantizeCastOp.create(
        operands=(quantize.result,), result_types=(value.type,), location=location
    )
    return quantize, dequantize
