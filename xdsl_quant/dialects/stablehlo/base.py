"""
What the declaration of an op is made of: base classes, and traits for how the types of
operands and results belong together.

Messages are those of StableHLO, where some name the op and some do not.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from typing_extensions import TypeVar
from xdsl.dialects.builtin import I64, DenseIntOrFPElementsAttr, IntegerAttr, i64
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import (
    AtLeast,
    AttrConstraint,
    IRDLOperation,
    ParamAttrConstraint,
    VerificationContext,
    eq,
    irdl_to_attr_constraint,
)
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

from .compatibility import (
    RankedTensor,
    are_compatible_elements,
    are_compatible_shapes,
    are_compatible_types,
    have_one_shape,
    tensor_types,
)
from .syntax import DIRECTIVES, ParsedTypes, dimension_size_text

ParametrizedAttributeCovT = TypeVar(
    "ParametrizedAttributeCovT", bound=ParametrizedAttribute, covariant=True
)

_POSITION = re.compile(
    r"(operand|result) '\w+' at positions? (\d+)(?: to \d+)? does not verify:\n"
    r"(?:#(\d+) )?"
)
_ATTRIBUTE = re.compile(r"(?=\battribute '\w+' failed to satisfy constraint: )")


class StableHLOOp(IRDLOperation, ABC):
    """An op whose constraints are reported as those of StableHLO."""

    custom_directives = DIRECTIVES

    @property
    def tensor_types(self) -> tuple[RankedTensor, ...]:
        """The types of operands and results of an op that has tensors only."""
        return tensor_types((*self.operand_types, *self.result_types))

    def emit_error(self, message: str, underlying_error: Exception) -> NoReturn:
        """xDSL names operands and results, StableHLO numbers them and names the op."""

        def number(match: re.Match[str]) -> str:
            index = int(match[2]) + int(match[3] or 0)
            return f"'{self.name}' op {match[1]} #{index} "

        def in_words(text: str) -> str:
            return _ATTRIBUTE.sub(f"'{self.name}' op ", _POSITION.sub(number, text), 1)

        if (words := in_words(text := str(underlying_error))) != text:
            underlying_error = VerifyException(words)
        super().emit_error(in_words(message), underlying_error)


class InferredTypeOp(StableHLOOp, ABC):
    """An op whose result has a type that follows from the op."""

    @abstractmethod
    def inferred_type(self) -> RankedTensor:
        """
        The type of the result, up to scales, zero points and sizes that are not known.

        Raises:
            VerifyException: if operands and properties do not belong together.
        """

    def verify_(self) -> None:
        inferred_type = self.inferred_type()
        result_type = self.tensor_types[-1]
        if not are_compatible_types(inferred_type, result_type):
            raise VerifyException(
                f"'{self.name}' op inferred type(s) '{inferred_type}' are incompatible "
                f"with return type(s) of operation '{result_type}'"
            )


class InferredShapeOp(StableHLOOp, ABC):
    """An op whose result has a shape that follows from the op."""

    @abstractmethod
    def inferred_shape(self) -> Sequence[int]:
        """
        The shape of the result, up to sizes that are not known.

        Raises:
            VerifyException: if operands and properties do not belong together.
        """

    def verify_(self) -> None:
        shape = self.inferred_shape()
        result_type = self.tensor_types[-1]
        if not are_compatible_shapes(shape, result_type.get_shape()):
            sizes = ", ".join(map(dimension_size_text, shape))
            raise VerifyException(
                f"inferred shape '[{sizes}]' is incompatible with return type of "
                f"operation '{result_type}'"
            )


@dataclass(frozen=True)
class TypeRelation(OpTrait):
    """How the types of operands and results belong together."""

    message: str
    """What an op requires."""

    holds: Callable[[Sequence[RankedTensor]], bool]
    """Whether types are in the relation: those of operands, and then those of results."""

    is_of_results: bool = True

    def verify(self, op: Operation) -> None:
        types = op.operand_types
        if self.is_of_results:
            types = (*types, *op.result_types)
        if not self.holds(tensor_types(types)):
            raise VerifyException(f"'{op.name}' op {self.message}")


def _with_first(
    are_related: Callable[[RankedTensor, RankedTensor], bool],
) -> Callable[[Sequence[RankedTensor]], bool]:
    """A relation that each type has with the first one."""
    return lambda types: all(are_related(type_, types[0]) for type_ in types[1:])


def _have_compatible_elements(a: RankedTensor, b: RankedTensor) -> bool:
    return are_compatible_elements(a.element_type, b.element_type)


def _have_same_elements(a: RankedTensor, b: RankedTensor) -> bool:
    return a.element_type == b.element_type


SAME_SHAPE = TypeRelation(
    "requires the same shape for all operands and results", have_one_shape
)
ELEMENTWISE = TypeRelation(
    "all non-scalar operands/results must have the same shape and base type",
    have_one_shape,
)
COMPATIBLE_TYPES = TypeRelation(
    "requires compatible types for all operands and results",
    _with_first(are_compatible_types),
)
COMPATIBLE_ELEMENTS = TypeRelation(
    "requires compatible element types for all operands and results",
    _with_first(_have_compatible_elements),
)
COMPATIBLE_OPERAND_ELEMENTS = TypeRelation(
    "requires compatible element types for all operands",
    _with_first(_have_compatible_elements),
    is_of_results=False,
)
SAME_ELEMENTS = TypeRelation(
    "requires the same element type for all operands and results",
    _with_first(_have_same_elements),
)


class WordedConstraint(ParamAttrConstraint[ParametrizedAttributeCovT]):
    """A constraint of a property, in the words of StableHLO."""

    words: str

    def __init__(
        self, constraint: AttrConstraint[ParametrizedAttributeCovT], words: str
    ):
        assert isinstance(constraint, ParamAttrConstraint)
        super().__init__(constraint.base_attr, constraint.param_constrs)
        object.__setattr__(self, "words", words)

    def verify(self, attr: Attribute, constraint_context: VerificationContext) -> None:
        if isinstance(constraint_context, ParsedTypes):
            return
        try:
            super().verify(attr, constraint_context)
        except VerifyException as e:
            raise VerifyException(self.words) from e


def at_least(minimum: int, property_name: str) -> AttrConstraint[IntegerAttr[I64]]:
    """A property that is a 64-bit integer from 0 or 1 on."""
    return WordedConstraint(
        IntegerAttr[I64].constr(eq(i64), value=AtLeast(minimum)),
        f"attribute '{property_name}' failed to satisfy constraint: 64-bit signless "
        f"integer attribute whose value is {'positive' if minimum else 'non-negative'}",
    )


PADDING = WordedConstraint(
    irdl_to_attr_constraint(DenseIntOrFPElementsAttr[I64]),
    "attribute 'padding' failed to satisfy constraint: 64-bit signless integer elements "
    "attribute",
)
