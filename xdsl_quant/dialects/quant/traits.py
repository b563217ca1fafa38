"""
Traits that describe ops to quantization passes: data movement, elementwise ops, weights,
fixed result scales.

Op classes declare these traits; a registry by op name has the traits of ops in other
dialects. [`quantization_trait`][xdsl_quant.dialects.quant.traits.quantization_trait] looks
in both. Traits that TensorFlow Lite defines keep their names.

Example:

```python
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)

from xdsl_quant.dialects.quant.traits import MovesElements


@irdl_op_definition
class ReverseOp(IRDLOperation):
    name = "toy.reverse"
    input = operand_def()
    result = result_def()
    traits = traits_def(MovesElements())
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from typing_extensions import TypeVar
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, ShapedType
from xdsl.ir import Block, Dialect, Operation, SSAValue
from xdsl.traits import OpTrait

from xdsl_quant.diagnostics import op_name

if TYPE_CHECKING:
    from .types import StoredQuantizedType


@dataclass(frozen=True)
class QuantizationTrait(OpTrait):
    """Base class of the traits that describe ops to quantization passes."""


# Scales


@dataclass(frozen=True)
class SameOperandsAndResultsScale(QuantizationTrait):
    """
    Operands and results need the same scale and zero point, because the op copies elements
    from operands to results.
    """


@dataclass(frozen=True)
class FixedResultUniformScale(QuantizationTrait):
    """
    The result range is fixed: `minimum` (inclusive) to `maximum` (exclusive). The scale for
    `b`-bit storage is `(maximum - minimum) / 2**b`; the zero point is the stored value that
    expresses 0.
    """

    minimum: float
    maximum: float

    symmetric_widths: Sequence[int] = ()
    """
    Widths `b` of signed storage types with zero point 0 and scale
    `max(-minimum, maximum) / 2**(b - 1)`.
    """

    def parameters(self, storage: StoredQuantizedType) -> tuple[float, int]:
        """Return the scale and zero point of results with this storage type."""
        width = storage.storage_type_integral_width
        if width in self.symmetric_widths and storage.is_signed:
            return max(-self.minimum, self.maximum) / 2 ** (width - 1), 0
        scale = (self.maximum - self.minimum) / 2**width
        low, _ = storage.full_storage_range
        return scale, low - round(self.minimum / scale)


@dataclass(frozen=True)
class AccumulatorUniformScale(QuantizationTrait):
    """
    The bias has zero point 0 and the scale of the accumulator, which is the product of the
    scales of the operands that are multiplied.
    """

    bias: int
    """Index of the bias operand."""

    factors: Sequence[int] = (0, 1)
    """Indices of the operands that are multiplied."""


@dataclass(frozen=True)
class AffineOpCoefficient(QuantizationTrait):
    """One operand of the op is a weight."""

    operand: int = 1
    dimension: int | None = None
    """The quantized dimension of per-axis scales; `None` if it depends on the op."""

    def dimension_of(self, op: Operation) -> int | None:
        """Return the quantized dimension of per-axis scales, or `None` if undetermined."""
        return self.dimension

    def result_dimension_of(self, op: Operation) -> int:
        """Return the result dimension that holds the output channels; -1 is the last."""
        return -1

    def input_dimensions_of(self, op: Operation) -> tuple[int, int] | None:
        """
        Return the input-channel dimension of the input and that of the weight, or `None` if
        undetermined. Their sizes differ in a grouped contraction.
        """
        return None

    def contracting_dimensions_of(self, op: Operation) -> Sequence[int]:
        """
        Return the contracted dimensions of the weight: all except the quantized dimension;
        empty if the quantized dimension is undetermined.
        """
        type_ = op.operands[self.operand].type
        dimension = self.dimension_of(op)
        if dimension is None or not isinstance(type_, ShapedType):
            return ()
        return [d for d in range(len(type_.get_shape())) if d != dimension]


@dataclass(frozen=True)
class ChannelCoefficient(AffineOpCoefficient):
    """One operand is a weight with one output-channel and one input-channel dimension."""

    result_dimension: int = -1
    """The result dimension that holds the output channels; -1 is the last."""

    input_dimensions: tuple[int, int] | None = None
    """The input-channel dimension of the input and that of the weight."""

    def result_dimension_of(self, op: Operation) -> int:
        return self.result_dimension

    def input_dimensions_of(self, op: Operation) -> tuple[int, int] | None:
        return self.input_dimensions


@dataclass(frozen=True)
class MatmulCoefficient(AffineOpCoefficient):
    """The right operand of a matrix product is a weight, which may be transposed."""

    def dimension_of(self, op: Operation) -> int | None:
        maps = cast("ArrayAttr[AffineMapAttr]", op.get_attr_or_prop("indexing_maps"))
        _, coefficients, results = (map_.data.results for map_ in maps)
        column = results[-1]
        return coefficients.index(column) if column in coefficients else None

    def input_dimensions_of(self, op: Operation) -> tuple[int, int] | None:
        maps = cast("ArrayAttr[AffineMapAttr]", op.get_attr_or_prop("indexing_maps"))
        inputs, coefficients, _ = (map_.data.results for map_ in maps)
        common = {*inputs} & {*coefficients}
        if len(common) != 1:
            return None
        contracted = common.pop()
        return inputs.index(contracted), coefficients.index(contracted)


# Computation


@dataclass(frozen=True)
class AcceptsStoredValues(QuantizationTrait):
    """The op moves or forwards elements, or reads only shapes: it interprets no element."""


@dataclass(frozen=True)
class MovesElements(AcceptsStoredValues):
    """Each element of the results is an unchanged element of an operand."""

    operands: Sequence[int] | None = None
    """Indices of the operands whose elements are moved; `None` for all operands."""

    def moved_operands(self, op: Operation) -> Sequence[SSAValue]:
        """Return the operands whose elements are moved."""
        if self.operands is None:
            return op.operands
        return [op.operands[i] for i in self.operands if i < len(op.operands)]


@dataclass(frozen=True)
class OrdersElements(QuantizationTrait):
    """
    Each element of the result is the minimum or maximum of several elements. Stored values
    with the same scale and zero point have the order of their expressed values.
    """


@dataclass(frozen=True)
class ComputesElementwise(QuantizationTrait):
    """The op is elementwise."""


@dataclass(frozen=True)
class Adds(ComputesElementwise):
    """The result is the sum of two operands, one of which may be a bias."""


@dataclass(frozen=True)
class Subtracts(ComputesElementwise):
    """The result is the first operand minus the second."""


@dataclass(frozen=True)
class Multiplies(ComputesElementwise):
    """The result is the product of two operands."""


@dataclass(frozen=True)
class Divides(ComputesElementwise):
    """The result is the first operand divided by the second."""


@dataclass(frozen=True)
class ScalesWithOperand(ComputesElementwise):
    """Scaling the operand by a positive factor scales the result by the same factor."""


@dataclass(frozen=True)
class Clamps(ComputesElementwise):
    """The result is the operand clamped to constant bounds, which the op defines."""


@dataclass(frozen=True)
class MultipliesAndAccumulates(QuantizationTrait):
    """The op is a contraction: a sum of products of two operands."""

    lhs: int = 0
    """Index of the activation."""

    rhs: int = 1
    """Index of the other operand: a weight, or a second activation."""


@dataclass(frozen=True)
class Reduces(QuantizationTrait):
    """The op is a reduction whose region combines elements."""


@dataclass(frozen=True)
class CastsQuantization(QuantizationTrait):
    """The op changes only the representation of its operand, apart from rounding."""


@dataclass(frozen=True)
class QuantizableResult(QuantizationTrait):
    """The op has activations as operands and results; no other property is known."""


# Ops of other dialects


def _coefficients(
    dimension: int, result_dimension: int, inputs: tuple[int, int]
) -> Sequence[QuantizationTrait]:
    return (
        MultipliesAndAccumulates(),
        ChannelCoefficient(1, dimension, result_dimension, inputs),
    )


_MOVES_FIRST = (MovesElements((0,)), SameOperandsAndResultsScale())

_OP_TRAITS: Mapping[str, Sequence[QuantizationTrait]] = {
    "arith.addf": (Adds(),),
    **dict.fromkeys(("arith.subf", "linalg.sub"), (Subtracts(),)),
    **dict.fromkeys(("arith.mulf", "linalg.mul"), (Multiplies(),)),
    "arith.divf": (Divides(),),
    "arith.select": (MovesElements((1, 2)),),
    **dict.fromkeys(
        (
            "arith.maximumf",
            "arith.maxnumf",
            "arith.minimumf",
            "arith.minnumf",
            "linalg.max",
            "linalg.min",
        ),
        (OrdersElements(), ComputesElementwise()),
    ),
    "linalg.add": (Adds(),),
    "linalg.conv_2d_nchw_fchw": _coefficients(0, 1, (1, 1)),
    "linalg.conv_2d_nhwc_fhwc": _coefficients(0, 3, (3, 3)),
    "linalg.conv_2d_nhwc_hwcf": _coefficients(3, 3, (3, 2)),
    "linalg.generic": (AcceptsStoredValues(),),
    "linalg.matmul": (MultipliesAndAccumulates(), MatmulCoefficient()),
    "linalg.yield": (AcceptsStoredValues(),),
    **dict.fromkeys(
        (
            "linalg.broadcast",
            "linalg.copy",
            "linalg.fill",
            "linalg.transpose",
            "stablehlo.broadcast",
            "stablehlo.dynamic_broadcast_in_dim",
            "stablehlo.dynamic_reshape",
            "stablehlo.dynamic_slice",
            "stablehlo.gather",
            "stablehlo.real_dynamic_slice",
            "stablehlo.reverse",
            "tensor.cast",
            "tensor.collapse_shape",
            "tensor.expand_shape",
            "tensor.extract_slice",
            "tensor.reshape",
            "tensor.splat",
        ),
        _MOVES_FIRST,
    ),
}

_DIALECT_TRAITS: Mapping[str, Sequence[QuantizationTrait]] = {
    **dict.fromkeys(("arith", "math"), (ComputesElementwise(),)),
    **dict.fromkeys(("cf", "func", "scf", "tensor"), (AcceptsStoredValues(),)),
    "stablehlo": (QuantizableResult(),),
}
"""Default traits of ops by dialect."""

_DECLARATIONS = {
    "stablehlo": ("xdsl_quant.frontends.stablehlo.dialect", "StableHLO"),
    "tfl": ("xdsl_quant.frontends.tflite.dialect", "TFL"),
}
"""Module and variable of each dialect whose traits also apply to unregistered ops."""


@cache
def _declared_traits(dialect_name: str) -> Mapping[str, Sequence[QuantizationTrait]]:
    if (declaration := _DECLARATIONS.get(dialect_name)) is None:
        return {}
    module, variable = declaration
    dialect: Dialect = getattr(import_module(module), variable)
    return {op_type.name: _own_traits(op_type) for op_type in dialect.operations}


def _own_traits(op_type: type[Operation]) -> Sequence[QuantizationTrait]:
    return [trait for trait in op_type.traits if isinstance(trait, QuantizationTrait)]


@cache
def quantization_traits(
    op_type: type[Operation], name: str
) -> Sequence[QuantizationTrait]:
    """
    Return the quantization traits of an op class or, if it has none, of the op name.

    Args:
        op_type: the class, or `UnregisteredOp`.
        name: the name of the op.
    """
    dialect_name, _, _ = name.partition(".")
    return (
        _own_traits(op_type)
        or _OP_TRAITS.get(name)
        or _declared_traits(dialect_name).get(name)
        or _DIALECT_TRAITS.get(dialect_name, ())
    )


TraitT = TypeVar("TraitT", bound=QuantizationTrait)


def quantization_trait(op: Operation, trait_type: type[TraitT]) -> TraitT | None:
    """
    Return a trait of an op, or `None` if the op does not have it.

    Args:
        op: any op, registered or not.
        trait_type: the trait, or a base class of it.
    """
    for trait in quantization_traits(type(op), op_name(op)):
        if isinstance(trait, trait_type):
            return trait
    return None


def has_quantization_trait(
    op: Operation | Block, *trait_types: type[QuantizationTrait]
) -> bool:
    """
    Return True if an op has any of these traits.

    Args:
        op: the owner of a value; a block has no traits.
        trait_types: the traits, or base classes of them.
    """
    return isinstance(op, Operation) and any(
        quantization_trait(op, trait_type) is not None for trait_type in trait_types
    )
