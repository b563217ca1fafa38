"""Factories for the casts, constants and arithmetic ops that passes create in a dialect."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.arith import AddfOp, MulfOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute

from .ops import DequantizeCastOp, QuantizeCastOp
from .types import QuantizedType, scalar_or_element_type


class DialectOps:
    """
    The ops that passes create in a dialect. The defaults are ops of `quant` and `arith`;
    dialects override them.
    """

    has_accumulators = False
    """True if a contraction of the dialect can return its 32-bit accumulator."""

    broadcasts = False
    """True if elementwise ops broadcast operands as in NumPy."""

    has_stated_rounding = True
    """True if casts of the dialect respect `quant.rounding_mode` and related attributes."""

    is_compiled = False
    """True if `compile` lowers the dialect with `to_linalg`."""

    mlir_passes: ClassVar[Sequence[str]] = ()
    """MLIR passes that lower the dialect to linalg, after `to_linalg`, for `compile`."""

    is_lowered_in_kernels = False
    """True if `to_linalg` also lowers kernel bodies and functions run by calibration."""

    quantized_constant: type[Operation] | None = None
    """Constant op that holds stored values, and their type in the property `qtype`."""

    def accepts(self, element_type: QuantizedType) -> bool:
        """Return True if casts of the dialect support the type."""
        return True

    def build_quantize(self, value: SSAValue, type_: Attribute) -> Sequence[Operation]:
        """Build ops that quantize or requantize a value; the last op returns the result."""
        element_type = scalar_or_element_type(value.type)
        if not isinstance(element_type, QuantizedType) or self._requantizes(
            element_type
        ):
            return (self.quantize(value, type_),)
        expressed = QUANT_OPS.dequantize(value)
        return expressed, self.quantize(expressed.results[0], type_)

    # Former name, kept for compatibility.
    quantized = build_quantize

    def _requantizes(self, element_type: QuantizedType) -> bool:
        """Return True if `quantize` also accepts quantized values of this type."""
        return False

    def quantize(self, value: SSAValue, type_: Attribute) -> Operation:
        """Build the op that quantizes floats."""
        return QuantizeCastOp(value, type_)

    def dequantize(self, value: SSAValue) -> Operation:
        """Build the op that dequantizes a value."""
        return DequantizeCastOp(value, expressed_type(value))

    def add(self, lhs: SSAValue, rhs: SSAValue) -> Operation:
        """Build the op that adds two floats of the same type."""
        return AddfOp(lhs, rhs)

    def multiply(self, lhs: SSAValue, rhs: SSAValue) -> Operation:
        """Build the op that multiplies two floats; one of them may be broadcast."""
        return MulfOp(lhs, rhs)

    def broadcast_to(
        self, value: SSAValue, dimensions: Sequence[int], type_: Attribute
    ) -> Operation | None:
        """
        Build the op that broadcasts `value` to `type_`: dimension `i` becomes dimension
        `dimensions[i]`. Return `None` if the dialect lacks this op.
        """
        return None

    def widen_bias(self, op: Operation, bias: int) -> None:
        """Widen operand number `bias` of an op on 16-bit activations if necessary."""

    def to_linalg(self, ctx: Context, module: ModuleOp) -> None:
        """
        Lower the ops of the dialect in a module to linalg.

        Raises:
            PassFailedException: if an op has no lowering.
        """
        raise NotImplementedError


def expressed_type(value: SSAValue) -> TypeAttribute:
    """Return the type that a quantized value has after dequantization."""
    type_ = QuantizedType.cast_to_expressed_type(value.type)
    assert type_ is not None
    return type_


QUANT_OPS = DialectOps()
