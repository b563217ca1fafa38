"""
Ops of CHLO that JAX and torch-mlir print: functions without StableHLO op, `top_k`,
`ragged_dot`, and ops that broadcast their operands.

See external [documentation](https://openxla.org/stablehlo/generated/chlo).
"""

from abc import ABC
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    AnyFloat,
    ArrayAttr,
    ComplexType,
    IntegerAttr,
    TensorType,
    i1,
    i32,
)
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import Attribute, SpacedOpaqueSyntaxAttribute
from xdsl.irdl import (
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from xdsl_quant.dialects.quant.traits import ComputesElementwise
from xdsl_quant.dialects.verification import (
    RankedTensor,
    are_compatible_shapes,
    require,
)

from . import tensor_kinds as kinds
from .attributes import (
    ComparisonDirection,
    ComparisonType,
    Dimensions,
    FieldsAttr,
    Precision,
    dimensions_text,
)
from .base import (
    COMPATIBLE_ELEMENTS,
    COMPATIBLE_TYPES,
    ELEMENTWISE,
    SAME_ELEMENTS,
    StableHLOOp,
    dialect_of,
)
from .products import verify_precisions, verify_product_shape
from .rules import verify_count, verify_dimensions
from .syntax import FUNCTIONAL_TYPE


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


class RealFunctionOp(SameTypeFunctionOp, ABC, elements=kinds.CHLO_FLOAT):
    """Function of floats."""


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
class MulhiOp(BinaryFunctionOp, elements=kinds.INTEGER_TENSOR):
    """High half of the product of integers."""

    name = "chlo.mulhi"


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


@irdl_attr_definition
class PrecisionAttr(EnumAttribute[Precision], SpacedOpaqueSyntaxAttribute):
    """`#chlo<precision DEFAULT>`"""

    name = "chlo.precision"


@irdl_attr_definition
class RaggedDotDimensionNumbersAttr(FieldsAttr):
    """
    Dimensions of `chlo.ragged_dot`.

    Example:

    ```mlir
    #chlo.ragged_dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1],
      lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>
    ```
    """

    name = "chlo.ragged_dot"

    lhs_batching_dimensions: Dimensions
    rhs_batching_dimensions: Dimensions
    lhs_contracting_dimensions: Dimensions
    rhs_contracting_dimensions: Dimensions

    lhs_ragged_dimensions: Dimensions
    """Dimension that is split into groups."""

    rhs_group_dimensions: Dimensions
    """Dimension with the weights of each group, if groups share none."""


@irdl_op_definition
class RaggedDotOp(StableHLOOp):
    """
    Matrix product by groups of the rows of `lhs`, or sums by groups if the contracting
    dimension is split. JAX prints it for accelerators; it is verified and kept, not run.
    """

    name = "chlo.ragged_dot"

    lhs = operand_def(kinds.CHLO_TENSOR)
    rhs = operand_def(kinds.CHLO_TENSOR)
    group_sizes = operand_def(kinds.INTEGER_TENSOR)
    ragged_dot_dimension_numbers = prop_def(RaggedDotDimensionNumbersAttr)
    precision_config = opt_prop_def(ArrayAttr[PrecisionAttr])
    result = result_def(kinds.CHLO_TENSOR)

    traits = traits_def(Pure())

    def inferred_shape(self) -> Sequence[int]:
        """
        Infer the shape of the result: batching dimensions, free ones of `lhs`, then of
        `rhs`, after the number of groups if the contracting dimension is split.

        Raises:
            VerifyException: if operands and properties are inconsistent.
        """
        lhs, rhs, sizes = (type_.get_shape() for type_ in self.tensor_types[:3])
        batch, rhs_batch, contracting, rhs_contracting, ragged, group = (
            cast(Dimensions, parameter).get_values()
            for parameter in self.ragged_dot_dimension_numbers.parameters
        )
        used, rhs_used = [*batch, *contracting], [*rhs_batch, *rhs_contracting, *group]
        verify_dimensions("lhs dimension numbers", used, len(lhs))
        verify_dimensions("rhs dimension numbers", rhs_used, len(rhs))
        verify_dimensions("lhs_ragged_dimensions", ragged, len(lhs))
        verify_count("lhs_ragged_dimensions", ragged, 1)
        verify_count("rhs_group_dimensions", group, int(ragged[0] not in used))
        self._verify_group_sizes(sizes, ragged[0], batch, contracting)
        groups = sizes[-1:] if group else ()
        shapes = [*(lhs[d] for d in used), *groups], [rhs[d] for d in rhs_used]
        require(
            are_compatible_shapes(*shapes),
            "expects equal batching and contracting dimensions of lhs and rhs, and a "
            f"group dimension of the number of groups, got {shapes[0]} and {shapes[1]}",
        )
        return [
            *sizes[-1:] * (ragged[0] in contracting),
            *(lhs[d] for d in batch),
            *(size for d, size in enumerate(lhs) if d not in used),
            *(size for d, size in enumerate(rhs) if d not in rhs_used),
        ]

    def _verify_group_sizes(
        self,
        sizes: Sequence[int],
        ragged: int,
        batch: Sequence[int],
        contracting: Sequence[int],
    ) -> None:
        """
        Verify that groups have one size each, or one for each index of the outer
        dimensions: those of its kind before the ragged one, after batching ones.
        """
        shape = self.tensor_types[0].get_shape()
        free = [d for d in range(len(shape)) if d not in (*batch, *contracting)]
        kind = next(dims for dims in (batch, contracting, free) if ragged in dims)
        outer = () if kind is batch else batch
        prefix = [shape[d] for d in (*outer, *kind[: kind.index(ragged)])]
        require(
            bool(sizes) and [*sizes[:-1]] in ([], prefix),
            "expects group_sizes of rank 1, or with the sizes of the outer dimensions "
            f"{prefix} first, got {[*sizes]}",
        )

    def verify_(self) -> None:
        verify_precisions(self.precision_config)
        verify_product_shape(self.inferred_shape(), self.tensor_types[-1])


# Ops that broadcast


@irdl_attr_definition
class ComparisonDirectionAttr(
    EnumAttribute[ComparisonDirection], SpacedOpaqueSyntaxAttribute
):
    """`#chlo<comparison_direction EQ>`"""

    name = "chlo.comparison_direction"


@irdl_attr_definition
class ComparisonTypeAttr(EnumAttribute[ComparisonType], SpacedOpaqueSyntaxAttribute):
    """`#chlo<comparison_type SIGNED>`"""

    name = "chlo.comparison_type"


_OWN_OPS = ("next_after", "polygamma", "zeta")


def _merged_size(a: int, b: int) -> int | None:
    """Return the size of a dimension of two tensors, `None` if it cannot be broadcast."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if DYNAMIC_INDEX in (a, b):
        return max(a, b)
    return None


class BroadcastingOp(StableHLOOp, ABC):
    """
    Elementwise op whose operands are broadcast to one shape: as in NumPy, or the operand of
    the smaller rank (of one rank: the last operand) along `broadcast_dimensions`.
    """

    result = result_def(kinds.CHLO_TENSOR)

    assembly_format = f"operands {FUNCTIONAL_TYPE}"
    irdl_options = (ParsePropInAttrDict(),)

    traits = traits_def(Pure())

    @classmethod
    def applied_name(cls) -> str:
        """Return the name of the op for operands of one shape."""
        name = cls.name.removeprefix("chlo.broadcast_")
        return f"{'chlo' if name in _OWN_OPS else 'stablehlo'}.{name}"

    def inferred_element(self, element_type: Attribute) -> Attribute:
        """Return the element type of the result for that of the last operand."""
        return element_type

    def operand_dimensions(self) -> Sequence[Sequence[int]]:
        """
        Return the result dimension of each operand dimension, for each operand.

        Raises:
            VerifyException: if `broadcast_dimensions` do not match the ranks.
        """
        ranks = [len(type_.shape) for type_ in self.tensor_types[:-1]]
        rank, smallest = max(ranks), min(ranks)
        dimensions = [range(rank - own, rank) for own in ranks]
        attribute = self.properties.get("broadcast_dimensions")
        if not isa(attribute, Dimensions):
            return dimensions
        along = attribute.get_values()
        require(
            len(along) == smallest and len({*along} & {*range(rank)}) == smallest,
            f"has broadcast_dimensions {dimensions_text(along)}, which do not match "
            f"operands of rank {ranks}",
        )
        # Of operands of one rank, the last one is broadcast.
        last = len(ranks) - 1 - ranks[::-1].index(smallest)
        return [along if i == last else own for i, own in enumerate(dimensions)]

    def inferred_shape(self) -> Sequence[int]:
        """
        Infer the shape of the result, in which unknown sizes are `DYNAMIC_INDEX`.

        Raises:
            VerifyException: if the operands cannot be broadcast.
        """
        shape: dict[int, int] = {}
        shapes = [type_.get_shape() for type_ in self.tensor_types[:-1]]
        for own, along in zip(shapes, self.operand_dimensions(), strict=True):
            for size, dimension in zip(own, along, strict=True):
                merged = _merged_size(shape.get(dimension, 1), size)
                if merged is None:
                    raise VerifyException(
                        f"cannot broadcast sizes {shape[dimension]} and {size} of "
                        f"dimension {dimension} of the result"
                    )
                shape[dimension] = merged
        return [shape[dimension] for dimension in sorted(shape)]

    def inferred_types(self) -> Sequence[RankedTensor]:
        element_type = self.inferred_element(self.tensor_types[-2].element_type)
        return [TensorType(element_type, self.inferred_shape())]

    def verify_(self) -> None:
        *_, first, second, _ = self.tensor_types
        require(first.element_type == second.element_type, "mismatched operand types")
        try:
            inferred = self.inferred_types()
        except VerifyException:
            # CHLO accepts any result then; lowerings refuse the op.
            return
        self.verify_inferred(inferred)


class BroadcastingBinaryOp(BroadcastingOp, ABC):
    """Broadcasting op with two operands."""

    lhs = operand_def(kinds.CHLO_TENSOR)
    rhs = operand_def(kinds.CHLO_TENSOR)
    broadcast_dimensions = opt_prop_def(kinds.NUMBERS)


class BroadcastingNumberOp(BroadcastingBinaryOp, ABC):
    """Broadcasting op on two tensors of one element type."""

    traits = traits_def(SAME_ELEMENTS)


class BroadcastingLogicalOp(
    BroadcastingBinaryOp, ABC, elements=kinds.CHLO_PRED_OR_INTEGER
):
    """Broadcasting op on booleans or on the bits of integers."""


@irdl_op_definition
class BroadcastAddOp(BroadcastingBinaryOp):
    """Sum."""

    name = "chlo.broadcast_add"

    traits = traits_def(COMPATIBLE_ELEMENTS)


@irdl_op_definition
class BroadcastAndOp(BroadcastingLogicalOp):
    """Logical or bitwise AND."""

    name = "chlo.broadcast_and"


@irdl_op_definition
class BroadcastAtan2Op(BroadcastingNumberOp):
    """Angle in radians between the positive x axis and the point `(rhs, lhs)`."""

    name = "chlo.broadcast_atan2"


@irdl_op_definition
class BroadcastCompareOp(BroadcastingBinaryOp):
    """Elementwise comparison."""

    name = "chlo.broadcast_compare"

    comparison_direction = prop_def(ComparisonDirectionAttr)
    compare_type = opt_prop_def(ComparisonTypeAttr)
    result = result_def(kinds.CHLO_PRED)

    def inferred_element(self, element_type: Attribute) -> Attribute:
        return i1


@irdl_op_definition
class BroadcastComplexOp(BroadcastingBinaryOp):
    """Complex numbers with real part `lhs` and imaginary part `rhs`."""

    name = "chlo.broadcast_complex"

    lhs = operand_def(kinds.CHLO_FLOAT)
    rhs = operand_def(kinds.CHLO_FLOAT)
    result = result_def(kinds.CHLO_COMPLEX)

    def inferred_element(self, element_type: Attribute) -> Attribute:
        return ComplexType(cast(AnyFloat, element_type))


@irdl_op_definition
class BroadcastDivideOp(BroadcastingNumberOp):
    """Quotient."""

    name = "chlo.broadcast_divide"


@irdl_op_definition
class BroadcastMaximumOp(BroadcastingBinaryOp):
    """Maximum of two values."""

    name = "chlo.broadcast_maximum"

    traits = traits_def(COMPATIBLE_ELEMENTS)


@irdl_op_definition
class BroadcastMinimumOp(BroadcastingBinaryOp):
    """Minimum of two values."""

    name = "chlo.broadcast_minimum"

    traits = traits_def(COMPATIBLE_ELEMENTS)


@irdl_op_definition
class BroadcastMultiplyOp(BroadcastingNumberOp):
    """Product."""

    name = "chlo.broadcast_multiply"


@irdl_op_definition
class BroadcastNextAfterOp(BroadcastingNumberOp):
    """Next representable float from `lhs` toward `rhs`."""

    name = "chlo.broadcast_next_after"


@irdl_op_definition
class BroadcastOrOp(BroadcastingLogicalOp):
    """Logical or bitwise OR."""

    name = "chlo.broadcast_or"


@irdl_op_definition
class BroadcastPolygammaOp(BroadcastingNumberOp):
    """Derivative of order `lhs` of the digamma function at `rhs`."""

    name = "chlo.broadcast_polygamma"


@irdl_op_definition
class BroadcastPowerOp(BroadcastingNumberOp):
    """Power."""

    name = "chlo.broadcast_power"


@irdl_op_definition
class BroadcastRemainderOp(BroadcastingNumberOp):
    """Remainder of a division that rounds toward zero."""

    name = "chlo.broadcast_remainder"


@irdl_op_definition
class BroadcastSelectOp(BroadcastingOp):
    """Elementwise selection: `on_true` where the predicate is true, else `on_false`."""

    name = "chlo.broadcast_select"

    pred = operand_def(kinds.PRED_TENSOR)
    on_true = operand_def(kinds.CHLO_TENSOR)
    on_false = operand_def(kinds.CHLO_TENSOR)


@irdl_op_definition
class BroadcastShiftLeftOp(BroadcastingNumberOp):
    """Shift to the left."""

    name = "chlo.broadcast_shift_left"


@irdl_op_definition
class BroadcastShiftRightArithmeticOp(BroadcastingNumberOp):
    """Shift to the right that repeats the sign bit."""

    name = "chlo.broadcast_shift_right_arithmetic"


@irdl_op_definition
class BroadcastShiftRightLogicalOp(BroadcastingNumberOp):
    """Shift to the right that inserts zeros."""

    name = "chlo.broadcast_shift_right_logical"


@irdl_op_definition
class BroadcastSubtractOp(BroadcastingNumberOp):
    """Difference."""

    name = "chlo.broadcast_subtract"


@irdl_op_definition
class BroadcastXorOp(BroadcastingLogicalOp):
    """Logical or bitwise XOR."""

    name = "chlo.broadcast_xor"


@irdl_op_definition
class BroadcastZetaOp(BroadcastingNumberOp, elements=kinds.CHLO_FLOAT):
    """Hurwitz zeta function."""

    name = "chlo.broadcast_zeta"


CHLO = dialect_of("chlo", globals().values())
"""CHLO dialect with the ops of this package."""
