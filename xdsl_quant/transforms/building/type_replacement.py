"""
Base of the passes that replace quantized types by other types.

Types are dispatched with `isinstance`, and their parameters are not visited: xDSL's
generic `TypeConversionPattern` would walk over every scale of every type.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.dialects.quant import QuantizedType


@dataclass
class TypeReplacement(ABC):
    """Replacement of quantized types in tensor and function types, not in tuples."""

    _replaced: dict[Attribute, Attribute] = field(
        default_factory=dict[Attribute, Attribute], init=False
    )

    @abstractmethod
    def replace_quantized(
        self, type_: Attribute, quantized_type: QuantizedType
    ) -> Attribute:
        """Return the new type for `type_`, which is `quantized_type` or a tensor of it."""

    def replace(self, type_: Attribute) -> Attribute:
        """Return the replacement of a type, or the same object if nothing changes."""
        if isinstance(type_, FunctionType):
            return self.replace_in_function_type(type_)
        quantized_type = QuantizedType.get_quantized_element_type(type_)
        if quantized_type is None:
            return type_
        if (cached := self._replaced.get(type_)) is None:
            cached = self.replace_quantized(type_, quantized_type)
            self._replaced[type_] = cached
        return cached

    def replace_in_function_type(self, function_type: FunctionType) -> FunctionType:
        """Return the function type with its inputs and outputs replaced."""
        types = (*function_type.inputs, *function_type.outputs)
        replaced = [self.replace(type_) for type_ in types]
        if all(new is old for new, old in zip(replaced, types, strict=True)):
            return function_type
        input_count = len(function_type.inputs)
        return FunctionType.from_lists(replaced[:input_count], replaced[input_count:])

    def replace_in_signature(self, function: FuncOp) -> bool:
        """Replace types in a function's type only; return True if it changed."""
        function_type = self.replace_in_function_type(function.function_type)
        if function_type is function.function_type:
            return False
        function.function_type = function_type
        return True

    def replace_in_values(self, op: Operation) -> bool:
        """Replace the types of the values an op defines; return True if any changed."""
        new_types = [(v, self.replace(v.type)) for v in defined_values(op)]
        changed = [(v, type_) for v, type_ in new_types if type_ is not v.type]
        for value, type_ in changed:
            set_type(value, type_)
        return bool(changed)


def is_quantized(value: SSAValue) -> bool:
    return QuantizedType.get_quantized_element_type(value.type) is not None


def quantized_ops(module: ModuleOp) -> Sequence[Operation]:
    """Return the ops of a module that define quantized values, in textual order."""
    return [op for op in module.walk() if any(map(is_quantized, defined_values(op)))]


def defined_values(op: Operation) -> Iterator[SSAValue]:
    """Yield the results of an op and the arguments of the blocks of its regions."""
    yield from op.results
    for region in op.regions:
        for block in region.blocks:
            yield from block.args


def set_type(value: SSAValue, type_: Attribute) -> None:
    """Set the type of a value in place: users, name hint and location stay."""
    # `Rewriter.replace_value_with_new_type` makes a new value: a block argument loses its
    # location, and the time is quadratic in the number of operands of a user.
    value._type = type_  # pyright: ignore[reportPrivateUsage] no public way
