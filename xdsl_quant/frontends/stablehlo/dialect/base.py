"""
Base classes of StableHLO ops, and traits that relate the types of operands and results.

Types that differ only in dynamic sizes, scales or zero points are compatible. Error
messages have StableHLO's wording, but a single check covers all dimension numbers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    BoolAttr,
    ComplexType,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Dialect, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, operand_def, result_def, traits_def
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import quoted
from xdsl_quant.dialects.op_messages import mlir_message
from xdsl_quant.dialects.quant import StoredQuantizedType
from xdsl_quant.dialects.quant.types import PerAxisType
from xdsl_quant.dialects.type_kinds import TypeKind
from xdsl_quant.dialects.verification import (
    RankedTensor,
    are_compatible_shapes,
    have_one_shape,
    require,
)

from .attributes import TypeExtensionsAttr, dimensions_attr
from .syntax import DIRECTIVES

# Compatible types


def real_type(element_type: Attribute) -> Attribute:
    """Return the float type of a complex type; return any other type unchanged."""
    if isinstance(element_type, ComplexType):
        return cast(ComplexType[AnyFloat], element_type).element_type
    return element_type


def are_compatible_elements(a: Attribute, b: Attribute) -> bool:
    """Return True if types are equal except for scales, zero points and quantized axis."""
    return a == b or (
        isinstance(a, StoredQuantizedType)
        and isinstance(b, StoredQuantizedType)
        and isinstance(a, PerAxisType) == isinstance(b, PerAxisType)
        and a.storage_type == b.storage_type
        and a.storage_range == b.storage_range
        and a.expressed_type == b.expressed_type
    )


def _is_within_bounds(shape: Sequence[int], encoding: Attribute) -> bool:
    if not isinstance(encoding, TypeExtensionsAttr):
        return True
    return all(
        bound == DYNAMIC_INDEX or size <= bound
        for size, bound in zip(shape, encoding.bounds.get_values(), strict=False)
    )


def are_compatible_types(a: RankedTensor, b: RankedTensor) -> bool:
    """Return True if shapes, bounds and element types are compatible."""
    return a == b or (
        are_compatible_shapes(a_shape := a.get_shape(), b_shape := b.get_shape())
        and _is_within_bounds(a_shape, b.encoding)
        and _is_within_bounds(b_shape, a.encoding)
        and are_compatible_elements(a.element_type, b.element_type)
    )


@dataclass(frozen=True)
class TypeRelation(OpTrait):
    """Required relation between the types of operands and results."""

    message: str
    """Error message, which follows the name of the op."""

    holds: Callable[[Sequence[RankedTensor]], bool]
    """Predicate on a sequence of the operand types and then the result types."""

    def verify(self, op: Operation) -> None:
        types = (*op.operand_types, *op.result_types)
        if not self.holds(cast(Sequence[RankedTensor], types)):
            raise VerifyException(f"'{op.name}' op {self.message}")


def _matches_first(
    are_related: Callable[[RankedTensor, RankedTensor], bool],
) -> Callable[[Sequence[RankedTensor]], bool]:
    return lambda types: all(are_related(type_, types[0]) for type_ in types[1:])


SAME_SHAPE = TypeRelation(
    "requires the same shape for all operands and results", have_one_shape
)
ELEMENTWISE = TypeRelation(
    "all non-scalar operands/results must have the same shape and base type",
    have_one_shape,
)
COMPATIBLE_TYPES = TypeRelation(
    "requires compatible types for all operands and results",
    _matches_first(are_compatible_types),
)
COMPATIBLE_ELEMENTS = TypeRelation(
    "requires compatible element types for all operands and results",
    _matches_first(
        lambda a, b: are_compatible_elements(a.element_type, b.element_type)
    ),
)
SAME_ELEMENTS = TypeRelation(
    "requires the same element type for all operands and results",
    _matches_first(lambda a, b: a.element_type == b.element_type),
)


class ValidBounds(OpTrait):
    """Verify that tensor types have one bound per dimension, and none of static ones."""

    def verify(self, op: Operation) -> None:
        for value in (*op.operands, *op.results):
            if isinstance(type_ := value.type, TensorType) and isinstance(
                encoding := type_.encoding, TypeExtensionsAttr
            ):
                shape, bounds = type_.get_shape(), encoding.bounds.get_values()
                require(
                    len(bounds) == len(shape)
                    and all(DYNAMIC_INDEX in pair for pair in zip(shape, bounds)),
                    f"'{op.name}' op expects a bound or '?' of each dynamic dimension "
                    f"and '?' of each static one, got '{type_}'",
                )


# Ops

Operand = SSAValue | Operation
"""Operand of a new op: a value, or an op with a single result."""

PropertyValue = Attribute | bool | int | Sequence[int] | None
"""Value of a property of a new op; `None` omits the property."""


def _property_attribute(value: PropertyValue) -> Attribute | None:
    if value is None or isinstance(value, Attribute):
        return value
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    return dimensions_attr(value)


class StableHLOOp(IRDLOperation, ABC):
    """
    Op whose verifier errors have StableHLO's wording. An elementwise op may pass the type
    constraint of all its operands and of its result as `elements`.
    """

    custom_directives = DIRECTIVES
    traits = traits_def(ValidBounds())

    def __init_subclass__(cls, elements: TypeKind[RankedTensor] | None = None) -> None:
        super().__init_subclass__()
        if elements is not None:
            for name in ("operand", "lhs", "rhs"):
                if hasattr(cls, name):
                    setattr(cls, name, operand_def(elements))
            cls.result = result_def(elements)

    def __init__(
        self,
        *operands: Operand | Sequence[Operand],
        result_types: Sequence[Attribute | Sequence[Attribute]] | None = None,
        regions: Sequence[Region] = (),
        **properties: PropertyValue,
    ):
        """
        Build an op from its operands in declaration order; a variadic operand is a
        sequence. By default, result types are inferred; an op without inference has the
        type of its first operand. A `bool` property becomes an `i1`, an `int` an `i64`, and
        a sequence of `int` an array of `i64`.
        """
        first = operands[0] if operands else ()
        values = first if isinstance(first, Sequence) else (first,)
        super().__init__(
            operands=operands,
            result_types=[SSAValue.get(value).type for value in values[:1]]
            if result_types is None
            else result_types,
            regions=regions,
            properties={
                name: _property_attribute(value) for name, value in properties.items()
            },
        )
        if result_types is None:
            self.infer_result_types()

    @property
    def tensor_types(self) -> tuple[RankedTensor, ...]:
        """Types of operands and results, for ops on tensors only."""
        return cast(tuple[RankedTensor, ...], (*self.operand_types, *self.result_types))

    def inferred_types(self) -> Sequence[Attribute]:
        """Infer result types; actual scales, zero points and dynamic sizes may differ."""
        return self.result_types

    def infer_result_types(self) -> None:
        """Replace the result types by the inferred types."""
        for result, type_ in zip(self.results, self.inferred_types(), strict=True):
            result._type = type_  # pyright: ignore[reportPrivateUsage] no public way

    def verify_inferred(self, inferred: Sequence[RankedTensor]) -> None:
        """Raise `VerifyException` if result types are incompatible with `inferred`."""
        results = self.tensor_types[len(self.operands) :]
        self.require_inferred(
            len(inferred) == len(results)
            and all(map(are_compatible_types, inferred, results)),
            inferred,
        )

    def require_inferred(self, holds: bool, inferred: Sequence[Attribute]) -> None:
        """Raise `VerifyException` about inferred types unless the condition holds."""
        require(
            holds,
            f"'{self.name}' op inferred type(s) {quoted(inferred)} are incompatible with "
            f"return type(s) of operation {quoted(self.result_types)}",
        )

    def require_operands(self, operands: Sequence[SSAValue]) -> None:
        """Raise `VerifyException` if a variadic operand is empty."""
        require(
            bool(operands), f"'{self.name}' op expected 1 or more operands, but found 0"
        )

    def require_same(self, what: str, *names: str) -> None:
        """Raise `VerifyException` unless values have the same `type` or `element type`."""
        types = [cast(RankedTensor, getattr(self, name).type) for name in names]
        compared = types if what == "type" else [type_.element_type for type_ in types]
        require(
            len({*compared}) == 1,
            f"'{self.name}' op failed to verify that all of {{{', '.join(names)}}} have "
            f"same {what}",
        )

    def emit_error(self, message: str, underlying_error: Exception) -> NoReturn:
        """Raise a verifier error with MLIR's wording."""
        if isinstance(underlying_error, VerifyException):
            message = mlir_message(self, message)
            text = mlir_message(self, str(underlying_error))
            underlying_error = VerifyException(text)
        super().emit_error(message, underlying_error)


def dialect_of(name: str, values: Iterable[object]) -> Dialect:
    """Return the dialect of the ops, attributes and types with its prefix among values."""
    defined = [
        value
        for value in values
        if isinstance(value, type)
        and getattr(value, "name", "").partition(".")[0] == name
    ]
    return Dialect(
        name,
        [value for value in defined if issubclass(value, Operation)],
        [value for value in defined if issubclass(value, Attribute)],
    )


class InferredTypeOp(StableHLOOp, ABC):
    """Op whose single result has an inferred type."""

    @abstractmethod
    def inferred_type(self) -> RankedTensor:
        """
        Infer the result type; actual scales, zero points and dynamic sizes may differ.

        Raises:
            VerifyException: if operands and properties are inconsistent.
        """

    def inferred_types(self) -> Sequence[RankedTensor]:
        return [self.inferred_type()]

    def verify_(self) -> None:
        self.verify_inferred(self.inferred_types())
