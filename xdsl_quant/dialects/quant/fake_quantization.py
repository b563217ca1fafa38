"""Conversion of ranges and fake-quantization ops to quantized types."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects.builtin import AnyFloat, BoolAttr
from xdsl.ir import Attribute, Block, TypeAttribute
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import fail

from .instrumentation import ConstFakeQuantOp, ConstFakeQuantPerAxisOp
from .ops import QuantizeCastOp
from .types import scalar_or_element_type, uniform_type, with_element_type

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from xdsl_quant.numerics import RangeRule


class Storage(NamedTuple):
    """A storage type, its storage range and its symmetry."""

    width: int
    """Number of bits of a stored value."""

    is_signed: bool = True
    """True if stored values are signed."""

    is_narrow: bool = False
    """True if the storage range excludes the smallest value."""

    is_symmetric: bool = False
    """True if the zero point is in the middle of the storage range."""

    @property
    def step_count(self) -> int:
        """Number of scale steps in the expressed range; at least 2."""
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
    Return the quantized type of a float or tensor of floats, given its min/max range, or
    one range for each index of a dimension. Scales and zero points are those of
    [`choose_parameters`][xdsl_quant.numerics.choose_parameters].

    Raises:
        ValueError: if a range is NaN, infinite or reversed, or yields an invalid type.
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
        # NumPy lacks some expressed types; the quantized type checks its scales itself.
        expressed="f64",
        quantized_dimension=quantized_dimension,
        rule=rule,
    )
    try:
        quantized = with_element_type(type_, uniform_type(parameters, expressed_type))
        # The cast verifies that a per-axis type matches its tensor.
        QuantizeCastOp(Block(arg_types=(type_,)).args[0], quantized).verify_()
    except VerifyException as e:
        raise ValueError(str(e)) from None
    return quantized


FakeQuantOp = ConstFakeQuantOp | ConstFakeQuantPerAxisOp


def _is_set(flag: BoolAttr | None) -> bool:
    return flag is not None and bool(flag.value.data)


def quantized_result_type(
    op: FakeQuantOp, *, exact_bits: bool = False
) -> TypeAttribute:
    """
    Return the result type of the `quant.qcast` that replaces a fake-quantization op. The
    storage type has `num_bits` bits, rounded up to 8, 16 or 32 unless `exact_bits` is True.

    Raises:
        PassFailedException: if no valid type exists.
    """
    num_bits = op.num_bits.value.data
    if not 0 < num_bits <= 32:
        fail(op, f"unsupported FakeQuant number of bits: {num_bits}")
    storage = Storage(
        num_bits if exact_bits else next(w for w in (8, 16, 32) if num_bits <= w),
        is_signed=_is_set(op.is_signed),
        is_narrow=_is_set(op.narrow_range),
    )
    axis = None
    if isinstance(op, ConstFakeQuantOp):
        lows, highs = op.min.value.data, op.max.value.data
    else:
        lows, highs = ([b.value.data for b in bounds] for bounds in (op.min, op.max))
        axis = op.axis.value.data
        if (low_count := len(lows)) != (high_count := len(highs)):
            fail(
                op,
                f"mismatched per-axis min and max size: {low_count} vs. {high_count}",
            )
    try:
        return quantized_counterpart(
            op.result.type, lows, highs, storage, axis, rule="mlir"
        )
    except ValueError as e:
        fail(op, f"'{op.name}' op cannot be converted: {e}")
