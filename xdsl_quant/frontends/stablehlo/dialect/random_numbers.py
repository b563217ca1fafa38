"""Random numbers: ops that are verified and kept, but not run."""

from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, TensorType
from xdsl.dialects.utils import EnumAttribute
from xdsl.ir import SpacedOpaqueSyntaxAttribute
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
)
from xdsl.utils.str_enum import StrEnum

from xdsl_quant.dialects.verification import RankedTensor, constant_integers, require

from . import tensor_kinds as kinds
from .base import InferredTypeOp, StableHLOOp, are_compatible_types
from .syntax import FUNCTIONAL_TYPE

__all__ = [
    "RngAlgorithm",
    "RngAlgorithmAttr",
    "RngBitGeneratorOp",
    "RngDistribution",
    "RngDistributionAttr",
    "RngOp",
]


class RngDistribution(StrEnum):
    """Distribution of `stablehlo.rng`."""

    UNIFORM = "UNIFORM"
    NORMAL = "NORMAL"


@irdl_attr_definition
class RngDistributionAttr(EnumAttribute[RngDistribution], SpacedOpaqueSyntaxAttribute):
    """`#stablehlo<rng_distribution UNIFORM>`"""

    name = "stablehlo.rng_distribution"


class RngAlgorithm(StrEnum):
    """Algorithm of `stablehlo.rng_bit_generator`."""

    DEFAULT = "DEFAULT"
    THREE_FRY = "THREE_FRY"
    PHILOX = "PHILOX"


@irdl_attr_definition
class RngAlgorithmAttr(EnumAttribute[RngAlgorithm], SpacedOpaqueSyntaxAttribute):
    """`#stablehlo<rng_algorithm PHILOX>`"""

    name = "stablehlo.rng_algorithm"


@irdl_op_definition
class RngOp(InferredTypeOp):
    """
    Random numbers of a distribution: uniform from `a` to `b`, or normal with mean `a` and
    standard deviation `b`.

    Example:

    ```mlir
    %3 = stablehlo.rng %0, %1, %2, distribution = UNIFORM
        : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<2x3xf32>
    ```
    """

    name = "stablehlo.rng"

    a = operand_def(kinds.RANDOM_SCALAR)
    b = operand_def(kinds.RANDOM_SCALAR)
    shape = operand_def(kinds.SHAPE)
    rng_distribution = prop_def(RngDistributionAttr)
    result = result_def(kinds.RANDOM)

    assembly_format = (
        "$a `,` $b `,` $shape `,` `distribution` `=` $rng_distribution "
        f"{FUNCTIONAL_TYPE}"
    )

    def inferred_type(self) -> RankedTensor:
        a, b, shape, result = self.tensor_types
        require(
            a.element_type == b.element_type == result.element_type,
            f"expects '{a.element_type}' as in the first operand, got "
            f"'{b.element_type}' and '{result.element_type}'",
        )
        is_normal = self.rng_distribution.data is RngDistribution.NORMAL
        require(
            not is_normal or isinstance(a.element_type, AnyFloat),
            f"expects floats for a normal distribution, got '{a.element_type}'",
        )
        sizes = constant_integers(self.shape)
        if sizes is None:
            sizes = [DYNAMIC_INDEX] * shape.get_shape()[0]
        return TensorType(a.element_type, sizes)


@irdl_op_definition
class RngBitGeneratorOp(StableHLOOp):
    """
    Uniform random bits and the next state of the generator.

    Example:

    ```mlir
    %1, %2 = stablehlo.rng_bit_generator %0, algorithm = THREE_FRY
        : (tensor<2xui64>) -> (tensor<2xui64>, tensor<8xui32>)
    ```
    """

    name = "stablehlo.rng_bit_generator"

    initial_state = operand_def(kinds.INTEGER_OR_FLOAT)
    rng_algorithm = prop_def(RngAlgorithmAttr)
    output_state = result_def(kinds.INTEGER_OR_FLOAT)
    output = result_def(kinds.STATIC_INTEGER_OR_FLOAT)

    assembly_format = (
        f"$initial_state `,` `algorithm` `=` $rng_algorithm {FUNCTIONAL_TYPE}"
    )

    def verify_(self) -> None:
        before, after, _ = self.tensor_types
        require(
            are_compatible_types(before, after),
            f"expects a next state of type '{before}', got '{after}'",
        )
