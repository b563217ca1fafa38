"""
Weight-only quantization: weights are stored as integers, and contractions compute in
floating point.

The pass quantizes and dequantizes the constant weights of contractions, with symmetric
types and a narrow range (see
[`weight_parameters`][xdsl_quant.numerics.weights.weight_parameters]). The op traits
[`MultipliesAndAccumulates`][xdsl_quant.dialects.quant.traits.MultipliesAndAccumulates] and
[`AffineOpCoefficient`][xdsl_quant.dialects.quant.traits.AffineOpCoefficient] identify the
weights. `quant-convert-const` then folds them to integers. Weights of TensorFlow Lite ops
get TensorFlow Lite's casts if these support the type.

Example:

```mlir
%w = arith.constant dense<[[0.5, -2.0], [1.5, 1.0]]> : tensor<2x2xf32>
%q = quant.qcast %w : tensor<2x2xf32>
    to tensor<2x2x!quant.uniform<i4<-7:7>:f32, 0.2857142857142857>>
%d = quant.dcast %q : tensor<2x2x!quant.uniform<i4<-7:7>:f32, 0.2857142857142857>>
    to tensor<2x2xf32>
%y = stablehlo.dot_general %x, %d, contracting_dims = [1] x [0]
    : (tensor<4x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
```

An error leaves the module unchanged.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat, IntegerType, ModuleOp, f16
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import PassFailedException, VerifyException

from xdsl_quant.diagnostics import op_name, refusing
from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    StoredNumbersAttr,
    uniform_type,
)
from xdsl_quant.dialects.quant.traits import (
    AffineOpCoefficient,
    CastsQuantization,
    MovesElements,
    MultipliesAndAccumulates,
    has_quantization_trait,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type, with_element_type
from xdsl_quant.numerics.weights import weight_parameters
from xdsl_quant.runtime.plugins import dialect_ops
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern, PatternPass
from xdsl_quant.transforms.statistics.ranges.fake_quantization import cast_pair
from xdsl_quant.transforms.statistics.ranges.float_constants import float_elements

Granularity = Literal["tensor", "axis", "block"]
"""Weights that share a scale: all, an output channel, or a block of a channel."""


class Weight(NamedTuple):
    """Weight of a contraction."""

    value: SSAValue

    operand: int

    dimension: int | None
    """Output channel dimension; `None` if unknown."""

    contracting_dimensions: Sequence[int]
    """Dimensions of the weight that the contraction reduces."""

    def elements(self) -> NDArray[np.floating] | None:
        """
        Return the elements of the constant, or `None` if they are not float.

        Raises:
            ValueError: if a resource has no data, or NumPy lacks the float type.
            ImportError: if the float type needs `ml_dtypes`, which is not installed.
        """
        owner = self.value.owner
        assert isinstance(owner, Operation)
        return float_elements(owner.get_attr_or_prop("value"))


def weight_of(
    op: Operation, *, is_quantized: bool = False, includes_tables: bool = False
) -> Weight | None:
    """
    Return the constant float weight of a contraction, or `None`.

    Args:
        op: any op.
        is_quantized: True to look through casts of the constant.
        includes_tables: True to also return the table of a lookup.
    """
    trait = quantization_trait(op, AffineOpCoefficient)
    if trait is None or not (
        has_quantization_trait(op, MultipliesAndAccumulates)
        or (includes_tables and is_lookup(op))
    ):
        return None
    value = op.operands[trait.operand]
    while is_quantized and has_quantization_trait(value.owner, CastsQuantization):
        assert isinstance(value.owner, Operation)
        value = value.owner.operands[0]
    if not is_float_constant(value):
        return None
    dimension = trait.dimension_of(op)
    return Weight(value, trait.operand, dimension, trait.contracting_dimensions_of(op))


def is_lookup(op: Operation) -> bool:
    """Return True if an op looks up rows of a table, which may be constant."""
    return has_quantization_trait(op, MovesElements) and has_quantization_trait(
        op, AffineOpCoefficient
    )


def is_float_constant(value: SSAValue) -> bool:
    owner = value.owner
    return (
        isinstance(owner, Operation)
        and not owner.operands
        and owner.get_attr_or_prop("value") is not None
        and isinstance(scalar_or_element_type(value.type), AnyFloat)
    )


def block_shape(
    shape: tuple[int, ...], weight: Weight, granularity: Granularity, block_size: int
) -> tuple[int, ...]:
    """
    Return the shape of the blocks of a weight that share a scale.

    With `axis`, a block is an output channel. With `block`, a block has about
    `block_size` elements of an output channel, first along the last contracted
    dimension. Sizes are divisors of the dimensions, as near to `block_size` by ratio
    as possible. Weights with unknown dimensions are a single block.
    """
    if granularity == "axis" and weight.dimension is not None:
        return tuple(1 if d == weight.dimension else n for d, n in enumerate(shape))
    if granularity != "block" or not weight.contracting_dimensions:
        return shape
    sizes, left = [1] * len(shape), float(block_size)
    for dimension in sorted(weight.contracting_dimensions, reverse=True):
        sizes[dimension] = _nearest_divisor(shape[dimension], left)
        left /= sizes[dimension]
    return tuple(sizes)


def _nearest_divisor(number: int, wanted: float) -> int:
    divisors = [n for n in range(1, number + 1) if number % n == 0]
    return min(divisors, key=lambda n: abs(math.log(n / wanted)))


@dataclass(frozen=True)
class QuantizedWeightOptions:
    """Options of the pass and of its pattern."""

    bits: int = 8
    """Bits per stored weight, 2 to 8."""

    granularity: Granularity = "axis"
    """
    Elements that share a scale: all weights of a contraction (`tensor`), an output
    channel (`axis`), or a block of a channel (`block`).
    """

    block_size: int = 32
    """Approximate number of weights per scale with `granularity=block`."""

    range: Literal["min-max", "mse"] = "min-max"
    """Range that a scale covers: all its weights, or that with the least squared error."""

    narrow_range: bool = True
    """`False` to also store the smallest value of the storage type."""

    scales: Literal["expressed", "f16"] = "expressed"
    """
    Type of the scales of blocks: `f16` creates `!quant.block_scaled` types, with scales
    that `bf16` represents, too, as TensorFlow Lite stores them.
    """


@dataclass(frozen=True)
class QuantizeWeight(
    QuantizedWeightOptions, CheckedPattern["tuple[Weight, Attribute]"]
):
    """
    Add `quant.qcast` and `quant.dcast` to the constant weight of a contraction. Raises
    `PassFailedException` for non-finite weights, and on creation for invalid options.
    """

    _quantized: dict[tuple[SSAValue, Attribute], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, Attribute], SSAValue],
        init=False,
        compare=False,
        repr=False,
    )
    """Cache of dequantized weights, by weight and quantized type."""

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 8:
            raise PassFailedException(
                f"expected 2 to 8 bits for a weight, found {self.bits}"
            )
        if self.block_size < 1:
            raise PassFailedException(
                f"expected a positive block size, found {self.block_size}"
            )

    def plan(self, op: Operation) -> tuple[Weight, Attribute] | None:
        includes_tables = self.granularity == "block"
        if (weight := weight_of(op, includes_tables=includes_tables)) is None:
            return None
        with refusing(op, "has a weight that cannot be quantized"):
            elements = weight.elements()
            if elements is None or not elements.size:
                return None
            plan = weight, self._type(weight, elements)
        return plan

    def rewrite(
        self, op: Operation, plan: tuple[Weight, Attribute], rewriter: PatternRewriter
    ) -> None:
        weight, type_ = plan
        key = weight.value, type_
        if (quantized := self._quantized.get(key)) is None:
            owner = weight.value.owner
            assert isinstance(owner, Operation)
            casts = _casts(op, weight.value, type_)
            rewriter.insert(casts, InsertPoint.after(owner))
            quantized = self._quantized[key] = casts[-1].results[0]
        op.operands[weight.operand] = quantized
        rewriter.notify_op_modified(op)

    def _type(self, weight: Weight, elements: NDArray[np.floating]) -> Attribute:
        expressed = scalar_or_element_type(weight.value.type)
        assert isinstance(expressed, AnyFloat)
        shape = block_shape(elements.shape, weight, self.granularity, self.block_size)
        has_f16_scales = self.scales == "f16" and self.granularity == "block"
        parameters = weight_parameters(
            elements,
            shape,
            bits=self.bits,
            weight_range=self.range,
            expressed=expressed.name,
            narrow_range=self.narrow_range,
            f16_scales=has_f16_scales,
        )
        if not has_f16_scales:
            type_ = uniform_type(parameters, expressed)
            return with_element_type(weight.value.type, type_)
        counts = [n // size for n, size in zip(elements.shape, shape, strict=True)]
        scales = parameters.scales.reshape(counts).astype(np.float16)
        return with_element_type(
            weight.value.type,
            BlockScaledQuantizedType(
                IntegerType(self.bits),
                expressed,
                StoredNumbersAttr.from_array(scales, f16),
                block_sizes=dict(enumerate(shape)),
                storage_type_min=parameters.storage_min,
            ),
        )


def _casts(
    product: Operation, value: SSAValue, quantized: Attribute
) -> Sequence[Operation]:
    """
    Return casts of a constant to a quantized type and back, from the product's dialect
    if possible.
    """
    assert isinstance(value.owner, Operation)
    location = value.owner.location
    ops = dialect_ops(op_name(product).partition(".")[0])
    if ops.quantized_constant is not None:
        casts = cast_pair(value, quantized, location, ops)
        try:
            casts[0].verify()
        except VerifyException:
            for cast in reversed(casts):
                cast.drop_all_references()
        else:
            return casts
    return cast_pair(value, quantized, location)


@dataclass(frozen=True)
class QuantQuantizeWeightsPass(QuantizedWeightOptions, PatternPass):
    """Quantize and dequantize each constant weight of a contraction."""

    name = "quant-quantize-weights"
    pattern_type = QuantizeWeight
    expected = "contractions with constant float weights"

    def candidates(self, module: ModuleOp) -> Sequence[Operation]:
        has_tables = self.granularity == "block"
        return [
            op
            for op in module.walk()
            if has_quantization_trait(op, MultipliesAndAccumulates)
            or (has_tables and is_lookup(op))
        ]
