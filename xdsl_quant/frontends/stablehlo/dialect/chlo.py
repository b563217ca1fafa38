"""
Ops of CHLO that JAX prints: functions without StableHLO op, and `top_k`.

See external [documentation](https://openxla.org/stablehlo/generated/chlo).
"""

from abc import ABC
from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, I64, IntegerAttr, TensorType, i1, i32
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure

from xdsl_quant.dialects.quant.traits import ComputesElementwise
from xdsl_quant.dialects.verification import RankedTensor, require

from . import tensor_kinds as kinds
from .base import COMPATIBLE_TYPES, ELEMENTWISE, StableHLOOp

__all__ = [
    "AcosOp",
    "AcoshOp",
    "AsinOp",
    "AsinhOp",
    "AtanOp",
    "AtanhOp",
    "BesselI1eOp",
    "CHLO",
    "ConjOp",
    "CoshOp",
    "DigammaOp",
    "ErfInvOp",
    "ErfOp",
    "ErfcOp",
    "IsInfOp",
    "IsNegInfOp",
    "IsPosInfOp",
    "LgammaOp",
    "MulhiOp",
    "NextAfterOp",
    "PolygammaOp",
    "SinhOp",
    "SquareOp",
    "TanOp",
    "TopKOp",
    "ZetaOp",
]


class CHLOFunctionOp(StableHLOOp, ABC):
    """Elementwise function of floats or complex numbers."""

    operand = operand_def(kinds.CHLO_FLOAT_OR_COMPLEX)
    result = result_def(kinds.CHLO_FLOAT_OR_COMPLEX)

    assembly_format = (
        "$operand attr-dict `:` type($operand) `->` type($result) custom<CompleteOp>()"
    )

    traits = traits_def(Pure(), ComputesElementwise())


class SameTypeFunctionOp(CHLOFunctionOp, ABC):
    """Function whose result has the operand's type."""

    traits = traits_def(COMPATIBLE_TYPES)


class RealFunctionOp(SameTypeFunctionOp, ABC):
    """Function of floats."""

    operand = operand_def(kinds.CHLO_FLOAT)
    result = result_def(kinds.CHLO_FLOAT)


class BinaryFunctionOp(StableHLOOp, ABC):
    """Function of two floats."""

    lhs = operand_def(kinds.CHLO_FLOAT)
    rhs = operand_def(kinds.CHLO_FLOAT)
    result = result_def(kinds.CHLO_FLOAT)

    assembly_format = (
        "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result) "
        "custom<CompleteOp>()"
    )

    traits = traits_def(Pure(), ComputesElementwise(), COMPATIBLE_TYPES)


class InfinityOp(CHLOFunctionOp, ABC):
    """Test for infinities."""

    operand = operand_def(kinds.CHLO_FLOAT)
    result = result_def(kinds.CHLO_PRED)

    traits = traits_def(ELEMENTWISE)

    def inferred_types(self) -> Sequence[Attribute]:
        type_, _ = self.tensor_types
        return [TensorType(i1, type_.shape)]


@irdl_op_definition
class AcosOp(SameTypeFunctionOp):
    """Inverse cosine."""

    name = "chlo.acos"


@irdl_op_definition
class AcoshOp(SameTypeFunctionOp):
    """Inverse hyperbolic cosine."""

    name = "chlo.acosh"


@irdl_op_definition
class AsinOp(SameTypeFunctionOp):
    """Inverse sine."""

    name = "chlo.asin"


@irdl_op_definition
class AsinhOp(SameTypeFunctionOp):
    """Inverse hyperbolic sine."""

    name = "chlo.asinh"


@irdl_op_definition
class AtanOp(SameTypeFunctionOp):
    """Inverse tangent."""

    name = "chlo.atan"


@irdl_op_definition
class AtanhOp(SameTypeFunctionOp):
    """Inverse hyperbolic tangent."""

    name = "chlo.atanh"


@irdl_op_definition
class CoshOp(SameTypeFunctionOp):
    """Hyperbolic cosine."""

    name = "chlo.cosh"


@irdl_op_definition
class SinhOp(SameTypeFunctionOp):
    """Hyperbolic sine."""

    name = "chlo.sinh"


@irdl_op_definition
class SquareOp(SameTypeFunctionOp):
    """Square."""

    name = "chlo.square"


@irdl_op_definition
class TanOp(SameTypeFunctionOp):
    """Tangent."""

    name = "chlo.tan"


@irdl_op_definition
class ErfOp(RealFunctionOp):
    """Error function."""

    name = "chlo.erf"


@irdl_op_definition
class ErfcOp(RealFunctionOp):
    """Complementary error function, `1 - erf(x)`."""

    name = "chlo.erfc"


@irdl_op_definition
class ErfInvOp(RealFunctionOp):
    """Inverse of the error function."""

    name = "chlo.erf_inv"


@irdl_op_definition
class IsInfOp(InfinityOp):
    """True for infinities."""

    name = "chlo.is_inf"


@irdl_op_definition
class IsNegInfOp(InfinityOp):
    """True for negative infinity."""

    name = "chlo.is_neg_inf"


@irdl_op_definition
class IsPosInfOp(InfinityOp):
    """True for positive infinity."""

    name = "chlo.is_pos_inf"


@irdl_op_definition
class BesselI1eOp(SameTypeFunctionOp):
    """Modified Bessel function of order 1, scaled by `exp(-abs(x))`."""

    name = "chlo.bessel_i1e"


@irdl_op_definition
class ConjOp(SameTypeFunctionOp):
    """Complex conjugate."""

    name = "chlo.conj"


@irdl_op_definition
class DigammaOp(RealFunctionOp):
    """Derivative of the logarithm of the gamma function."""

    name = "chlo.digamma"


@irdl_op_definition
class LgammaOp(RealFunctionOp):
    """Logarithm of the absolute value of the gamma function."""

    name = "chlo.lgamma"


@irdl_op_definition
class MulhiOp(BinaryFunctionOp):
    """High half of the product of integers."""

    name = "chlo.mulhi"

    lhs = operand_def(kinds.INTEGER_TENSOR)
    rhs = operand_def(kinds.INTEGER_TENSOR)
    result = result_def(kinds.INTEGER_TENSOR)


@irdl_op_definition
class NextAfterOp(BinaryFunctionOp):
    """Next representable float from `lhs` toward `rhs`."""

    name = "chlo.next_after"


@irdl_op_definition
class PolygammaOp(BinaryFunctionOp):
    """Derivative of order `lhs` of the digamma function at `rhs`."""

    name = "chlo.polygamma"


@irdl_op_definition
class ZetaOp(BinaryFunctionOp):
    """Hurwitz zeta function."""

    name = "chlo.zeta"


@irdl_op_definition
class TopKOp(StableHLOOp):
    """
    The `k` largest elements along the last dimension, in descending order, and their
    indices. The first of equal elements comes first; NaN is larger than all numbers.

    Example:

    ```mlir
    %values, %indices = chlo.top_k(%0, k = 2)
        : tensor<4x8xf32> -> (tensor<4x2xf32>, tensor<4x2xi32>)
    ```
    """

    name = "chlo.top_k"

    operand = operand_def(kinds.CHLO_TENSOR)
    k = prop_def(IntegerAttr[I64])
    values = result_def(kinds.CHLO_TENSOR)
    indices = result_def(kinds.CHLO_TENSOR)

    assembly_format = (
        "`(` $operand `,` `k` `=` $k `)` attr-dict `:` type($operand) `->` "
        "`(` type($values) `,` type($indices) `)` custom<CompleteOp>()"
    )

    traits = traits_def(Pure())

    def inferred_types(self) -> Sequence[RankedTensor]:
        type_, *_ = self.tensor_types
        require(bool(type_.shape), "operand's rank must be at least 1")
        *shape, last = type_.get_shape()
        count = self.k.value.data
        require(
            last == DYNAMIC_INDEX or count <= last,
            f"operand's last dimension must be at least {count}",
        )
        shape.append(count)
        return [TensorType(type_.element_type, shape), TensorType(i32, shape)]

    def verify_(self) -> None:
        self.verify_inferred(self.inferred_types())


CHLO = Dialect(
    "chlo",
    [
        AcosOp,
        AcoshOp,
        AsinOp,
        AsinhOp,
        AtanOp,
        AtanhOp,
        BesselI1eOp,
        ConjOp,
        CoshOp,
        DigammaOp,
        ErfInvOp,
        ErfOp,
        ErfcOp,
        IsInfOp,
        IsNegInfOp,
        IsPosInfOp,
        LgammaOp,
        MulhiOp,
        NextAfterOp,
        PolygammaOp,
        SinhOp,
        SquareOp,
        TanOp,
        TopKOp,
        ZetaOp,
    ],
)
"""CHLO dialect with the ops of this package."""
