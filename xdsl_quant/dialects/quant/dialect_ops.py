"""The ops of a dialect that passes create: casts, constants and arithmetic."""

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.arith import AddfOp, MulfOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute

from .ops import DequantizeCastOp, QuantizeCastOp
from .types import QuantizedType, scalar_or_element_type


class DialectOps:
    """
    The ops of a dialect that passes create; those of `quant` and `arith` if the dialect
    says nothing else.
    """

    has_accumulators = False
    """True if accumulators of 32 bits are values."""

    broadcasts = False
    """True if the operands of elementwise ops are broadcast as in NumPy."""

    is_compiled = False
    """True if `compile` lowers its ops with `to_linalg`."""

    is_lowered_in_kernels = False
    """True if the ops of kernels and of instrumented functions are lowered, too."""

    quantized_constant: type[Operation] | None = None
    """The op of constants of stored values, if its property `qtype` has their type."""

    def accepts(self, element_type: QuantizedType) -> bool:
        """Return whether casts of the dialect have values of a type."""
        return True

    def quantized(self, value: SSAValue, type_: Attribute) -> Sequence[Operation]:
        """Return ops the last of which gives a float or quantized value another type."""
        element_type = scalar_or_element_type(value.type)
        if not isinstance(element_type, QuantizedType) or self._requantizes(
            element_type
        ):
            return (self.quantize(value, type_),)
        expressed = QUANT_OPS.dequantize(value)
        return expressed, self.quantize(expressed.results[0], type_)

    def _requantizes(self, element_type: QuantizedType) -> bool:
        """Return whether the op that quantizes floats also takes values of a type."""
        return False

    def quantize(self, value: SSAValue, type_: Attribute) -> Operation:
        """Return the op that quantizes floats."""
        return QuantizeCastOp(value, type_)

    def dequantize(self, value: SSAValue) -> Operation:
        """Return the op that gives the floats of a quantized value."""
        return DequantizeCastOp(value, expressed_type(value))

    def add(self, lhs: SSAValue, rhs: SSAValue) -> Operation:
        """Return the sum of two floats of one type."""
        return AddfOp(lhs, rhs)

    def multiply(self, lhs: SSAValue, rhs: SSAValue) -> Operation:
        """Return the product of two floats; one of them may be broadcast."""
        return MulfOp(lhs, rhs)

    def repeated(
        self, value: SSAValue, dimensions: Sequence[int], type_: Attribute
    ) -> Operation | None:
        """
        Return the op that repeats a tensor along the other dimensions of a type, if the
        dialect has one.
        """
        return None

    def widen_bias(self, op: Operation, bias: int) -> None:
        """Replace the bias of an op on 16-bit activations by a wider one if it needs it."""

    def to_linalg(self, ctx: Context, module: ModuleOp) -> None:
        """
        Lower the ops of the dialect in a module to those of linalg.

        Raises:
            PassFailedException: if an op has no lowering.
        """
        raise NotImplementedError


def expressed_type(value: SSAValue) -> TypeAttribute:
    """Return the type of the floats of a quantized value."""
    type_ = QuantizedType.cast_to_expressed_type(value.type)
    assert type_ is not None
    return type_


QUANT_OPS = DialectOps()
