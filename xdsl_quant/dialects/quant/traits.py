"""
What an op means to quantization.

An op says so with traits, as it says whether it is pure. Those that TensorFlow Lite has,
too, have its names here. For ops of other dialects, whose classes carry none of these
traits, a registry by the name of the op answers:
[`quantization_trait`][xdsl_quant.dialects.quant.traits.quantization_trait] asks both.

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
    """What an op means to quantization: the base class of all these traits."""


# Scales


@dataclass(frozen=True)
class SameOperandsAndResultsScale(QuantizationTrait):
    """
    Operands and results have the same scale and zero point, because elements of one
    become elements of the other.
    """


@dataclass(frozen=True)
class FixedResultUniformScale(QuantizationTrait):
    """
    The results lie from `minimum` to below `maximum`, whatever the operands are: the scale
    for storage of `b` bits is `(maximum - minimum) / 2**b`, and the zero point the stored
    value of 0.
    """

    minimum: float
    maximum: float

    symmetric_widths: Sequence[int] = ()
    """
    Numbers of bits with which the zero point of signed storage is 0: the scale is
    `max(-minimum, maximum) / 2**(b - 1)` then.
    """

    def parameters(self, storage: StoredQuantizedType) -> tuple[float, int]:
        """
        Return the scale and the zero point of results that are stored in this way.
        """
        width = storage.storage_type_integral_width
        if width in self.symmetric_widths and storage.is_signed:
            return max(-self.minimum, self.maximum) / 2 ** (width - 1), 0
        scale = (self.maximum - self.minimum) / 2**width
        low, _ = storage.full_storage_range
        return scale, low - round(self.minimum / scale)


@dataclass(frozen=True)
class AccumulatorUniformScale(QuantizationTrait):
    """
    The scale of the bias is that of the accumulator: the product of the scales of the
    factors. The zero point is 0.
    """

    bias: int
    """Index of the operand that is the bias."""

    factors: Sequence[int] = (0, 1)
    """Indices of the operands whose scales are multiplied."""


@dataclass(frozen=True)
class AffineOpCoefficient(QuantizationTrait):
    """An operand holds coefficients: it is a weight."""

    operand: int = 1
    dimension: int | None = None
    """The dimension that per-axis scales belong to; `None` if the op does not fix it."""

    def dimension_of(self, op: Operation) -> int | None:
        """Return the dimension that per-axis scales belong to in an op."""
        return self.dimension

    def result_dimension_of(self, op: Operation) -> int:
        """
        Return the dimension of the result that `dimension_of` becomes; -1 is the last
        one.
        """
        return -1

    def input_dimensions_of(self, op: Operation) -> tuple[int, int] | None:
        """
        Return the dimension of the input that has its channels, and that of the
        coefficients which is multiplied by it; `None` if the op does not fix them. If
        their sizes differ, groups of channels have coefficients of their own.
        """
        return None

    def contracted_of(self, op: Operation) -> Sequence[int]:
        """
        Return the dimensions of the coefficients that products are summed over in an
        op: all but that which scales belong to; none if the op does not fix it.
        """
        type_ = op.operands[self.operand].type
        dimension = self.dimension_of(op)
        if dimension is None or not isinstance(type_, ShapedType):
            return ()
        return [d for d in range(len(type_.get_shape())) if d != dimension]


@dataclass(frozen=True)
class ChannelCoefficient(AffineOpCoefficient):
    """An operand holds coefficients for each output channel and each input channel."""

    result_dimension: int = -1
    """The dimension of the result that `dimension` becomes; -1 is the last one."""

    input_dimensions: tuple[int, int] | None = None
    """The dimension of the input, and that of the coefficients, of the input channels."""

    def result_dimension_of(self, op: Operation) -> int:
        return self.result_dimension

    def input_dimensions_of(self, op: Operation) -> tuple[int, int] | None:
        return self.input_dimensions


@dataclass(frozen=True)
class MatmulCoefficient(AffineOpCoefficient):
    """The right operand of a matrix product holds coefficients, which may be transposed."""

    def dimension_of(self, op: Operation) -> int | None:
        maps = cast("ArrayAttr[AffineMapAttr]", op.get_attr_or_prop("indexing_maps"))
        _, coefficients, results = (each.data.results for each in maps)
        column = results[-1]
        return coefficients.index(column) if column in coefficients else None

    def input_dimensions_of(self, op: Operation) -> tuple[int, int] | None:
        maps = cast("ArrayAttr[AffineMapAttr]", op.get_attr_or_prop("indexing_maps"))
        inputs, coefficients, _ = (each.data.results for each in maps)
        common = {*inputs} & {*coefficients}
        if len(common) != 1:
            return None
        summed = common.pop()
        return inputs.index(summed), coefficients.index(summed)


# Computation


@dataclass(frozen=True)
class AcceptsStoredValues(QuantizationTrait):
    """
    The op does the same with stored values as with other numbers, because it does not look
    at them: it moves them or passes them on.
    """


@dataclass(frozen=True)
class MovesElements(AcceptsStoredValues):
    """Each element of the results is an element of an operand, unchanged."""

    operands: Sequence[int] | None = None
    """Indices of the operands whose elements are moved; `None` for all of them."""

    def moved(self, op: Operation) -> Sequence[SSAValue]:
        """Return the operands whose elements are moved."""
        if self.operands is None:
            return op.operands
        return [op.operands[i] for i in self.operands if i < len(op.operands)]


@dataclass(frozen=True)
class OrdersElements(QuantizationTrait):
    """
    Each element of the result is the one of several that comes first or last in order.
    Stored values of one scale and zero point are in the order of what they express.
    """


@dataclass(frozen=True)
class ComputesElementwise(QuantizationTrait):
    """Each element of the result is computed from those at the same position."""


@dataclass(frozen=True)
class Adds(ComputesElementwise):
    """The result is the sum of two operands: the op may add a bias."""


@dataclass(frozen=True)
class Subtracts(ComputesElementwise):
    """The result is the first operand less the second."""


@dataclass(frozen=True)
class Multiplies(ComputesElementwise):
    """The result is the product of two operands."""


@dataclass(frozen=True)
class Divides(ComputesElementwise):
    """The result is the first operand divided by the second."""


@dataclass(frozen=True)
class ScalesWithOperand(ComputesElementwise):
    """If the operand is multiplied by a positive number, so is the result."""


@dataclass(frozen=True)
class Clamps(ComputesElementwise):
    """The result is the operand, between constants that the op has."""


@dataclass(frozen=True)
class MultipliesAndAccumulates(QuantizationTrait):
    """Each element of the result is a sum of products of elements of two operands."""

    lhs: int = 0
    """Index of the activation."""

    rhs: int = 1
    """Index of the other operand, which is a weight unless it is an activation, too."""


@dataclass(frozen=True)
class Reduces(QuantizationTrait):
    """Each element of the results combines several elements, as a region says."""


@dataclass(frozen=True)
class CastsQuantization(QuantizationTrait):
    """The op changes how numbers are stored, and not, but for rounding, what they are."""


@dataclass(frozen=True)
class QuantizableResult(QuantizationTrait):
    """The op takes and gives activations; nothing more is known of it."""


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
"""Traits of ops by name."""

_DIALECT_TRAITS: Mapping[str, Sequence[QuantizationTrait]] = {
    **dict.fromkeys(("arith", "math"), (ComputesElementwise(),)),
    **dict.fromkeys(("cf", "func", "scf", "tensor"), (AcceptsStoredValues(),)),
    "stablehlo": (QuantizableResult(),),
}
"""Traits of the other ops of a dialect."""

_DECLARATIONS = {
    "stablehlo": ("xdsl_quant.frontends.stablehlo.dialect", "StableHLO"),
    "tfl": ("xdsl_quant.frontends.tflite.dialect", "TFL"),
}
"""Dialects here that speak for ops with the same names in another package."""


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
    Return all that ops of a class say about themselves, or the registry about their
    name.

    Args:
        op_type: the class; `UnregisteredOp` if there is none.
        name: the name of the ops.
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
    What an op says about itself, or the registry about the name of the op.

    Args:
        op: any op, registered or not.
        trait_type: the trait that is asked for, or a base class of it.

    Returns:
        The trait; `None` if the op does not have it.
    """
    for trait in quantization_traits(type(op), op_name(op)):
        if isinstance(trait, trait_type):
            return trait
    return None


def has_quantization_trait(
    op: Operation | Block, *trait_types: type[QuantizationTrait]
) -> bool:
    """
    Return True if an op has one of these traits.

    Args:
        op: the owner of a value; a block has no traits.
        trait_types: the traits, or base classes of them.
    """
    return isinstance(op, Operation) and any(
        quantization_trait(op, trait_type) is not None for trait_type in trait_types
    )
