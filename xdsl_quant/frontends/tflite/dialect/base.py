"""
Relations between operand and result types, and base classes of ops.

Shapes may have dynamic dimensions, and tensors may be unranked. Messages and the order of
checks are those of TensorFlow Lite: first relations with a message `failed to verify that
...`, then all other relations, the op's own verifier, and inferred types.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import ClassVar, NoReturn, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    BoolAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    f32,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    OptionalDef,
    VerificationContext,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import OpTrait, Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import quoted
from xdsl_quant.dialects.op_messages import mlir_message
from xdsl_quant.dialects.quant import BlockScaledQuantizedType
from xdsl_quant.dialects.quant import traits as quant
from xdsl_quant.dialects.quant.types import (
    QuantizedType,
    StoredQuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedSubChannelType,
    scalar_or_element_type,
)
from xdsl_quant.dialects.verification import (
    RankedTensor,
    are_compatible_shapes,
    have_one_shape,
    require,
)

from .attributes import Quint8Type
from .property_kinds import PropertyError
from .tensor_kinds import is_tensor, tensor_of

Shape = tuple[int, ...]

NO_KERNEL_FOR_BLOCKS = (
    "has an operand of '!quant.block_scaled', for which no kernel is implemented; use "
    "'tfl.dequantize'"
)
"""Message after the name of an op whose operands have block scales."""


# Shapes and constants


def shape_of(value: SSAValue) -> Shape | None:
    """Return the shape of a tensor; `None` if it is unranked."""
    return type_.get_shape() if isinstance(type_ := value.type, TensorType) else None


def static_shape_of(value: SSAValue) -> Shape | None:
    """Return the shape of a tensor; `None` if it is unranked or has dynamic dimensions."""
    shape = shape_of(value)
    return None if shape is None or DYNAMIC_INDEX in shape else shape


def is_compatible_with_shape(value: SSAValue, shape: Shape | None) -> bool:
    """Return True if a tensor's shape is compatible with `shape`; `None` fits any shape."""
    own_shape = shape_of(value)
    return shape is None or own_shape is None or are_compatible_shapes(own_shape, shape)


def shape_from_sizes(sizes: Sequence[int]) -> Shape:
    """Convert constant sizes to a shape: -1 becomes `DYNAMIC_INDEX`."""
    return tuple(DYNAMIC_INDEX if size == -1 else size for size in sizes)


def normalized_axis(axis: int, rank: int) -> int | None:
    """Return the axis as a non-negative number; `None` if it is out of range."""
    return axis % rank if -rank <= axis < rank else None


def broadcast_shape(a: Shape, b: Shape) -> Shape | None:
    """
    Return the broadcast shape; `None` if shapes are incompatible. A dynamic size and a
    static size above 1 broadcast to the static size.
    """
    sizes: list[int] = []
    for pair in zip_longest(reversed(a), reversed(b), fillvalue=1):
        larger = {size for size in pair if size not in (1, DYNAMIC_INDEX)}
        if len(larger) > 1:
            return None
        default = DYNAMIC_INDEX if DYNAMIC_INDEX in pair else 1
        sizes.append(larger.pop() if larger else default)
    return tuple(reversed(sizes))


def is_true(attribute: BoolAttr | None) -> bool:
    """Return the value of a flag; an absent flag is false."""
    return attribute is not None and bool(attribute.value.data)


# Relations

Relation = Callable[[Operation], str | None]
"""Check of an op; returns an error message without the op's name, or `None` if valid."""


@dataclass(frozen=True)
class Requires(OpTrait):
    """Trait that verifies relations between operand and result types, in order."""

    relations: tuple[Relation, ...]

    def __init__(self, *relations: Relation):
        object.__setattr__(self, "relations", relations)

    def verify(self, op: Operation) -> None:
        for relation in self.relations:
            if (message := relation(op)) is not None:
                raise VerifyException(f"'{op.name}' op {message}")


def verified(words: str, holds: Callable[[Operation], bool]) -> Relation:
    """Return the relation `failed to verify that ...`."""
    return lambda op: None if holds(op) else f"failed to verify that {words}"


def _storage(type_: Attribute) -> Attribute | None:
    if not isinstance(type_, StoredQuantizedType):
        return None
    return type_.signless_storage_type


def _width(type_: Attribute) -> int | None:
    if isinstance(type_, StoredQuantizedType):
        return type_.storage_type_integral_width
    return cast(IntegerType, type_).bitwidth if isinstance(type_, IntegerType) else None


def _is_byte(type_: Attribute) -> bool:
    return type_ in (IntegerType(8, Signedness.UNSIGNED), Quint8Type())


def _is_half_byte(type_: Attribute) -> bool:
    return _width(type_) == 4


def _have_one_storage(a: Attribute, b: Attribute) -> bool:
    """Return True for equal types, or quantized types with the same storage type."""
    storage = _storage(b)
    return a == b or (storage is not None and _storage(a) == storage)


def result_has_operand_type(operand: int, words: str) -> Relation:
    """Require that the first result has the element type or storage type of an operand."""

    def holds(op: Operation) -> bool:
        if not op.operands or not is_tensor(op.operands[operand].type):
            return False
        a = scalar_or_element_type(op.results[0].type)
        b = scalar_or_element_type(op.operands[operand].type)
        return (
            _have_one_storage(a, b)
            or (_is_byte(a) and _is_byte(b))
            or (_is_half_byte(a) and _is_half_byte(b))
        )

    return verified(words, holds)


def require_operand_types(
    a: int, b: int, words: str, *, bytes_are: bool = True
) -> Relation:
    """Require equal element or storage types; `bytes_are`: `ui8` counts as `quint8`."""

    def holds(op: Operation) -> bool:
        x = scalar_or_element_type(op.operands[a].type)
        y = scalar_or_element_type(op.operands[b].type)
        return _have_one_storage(x, y) or (bytes_are and _is_byte(x) and _is_byte(y))

    return verified(words, holds)


def has_rank(operand: int, least: int, most: int | None, words: str) -> Relation:
    """Require that an operand is unranked, or that `least <= rank <= most`."""

    def holds(op: Operation) -> bool:
        shape = shape_of(op.operands[operand])
        return shape is None or (
            least <= len(shape) and (most is None or len(shape) <= most)
        )

    return verified(words, holds)


def require_rank(operand: int, rank: int) -> Relation:
    """Require that an operand is unranked or has the given rank."""
    return has_rank(operand, rank, rank, f"operand {operand} is {rank}-D")


def require_size(operand: int, size: int) -> Relation:
    """Require that the first dimension of an operand is dynamic or has the given size."""
    return verified(
        f"operand {operand}'s dimension 0 is dynamic or equals {size}",
        lambda op: (
            (shape_of(op.operands[operand]) or (size,))[0] in (size, DYNAMIC_INDEX)
        ),
    )


def require_rank_at_most(operand: int, rank: int) -> Relation:
    """Require that an operand is unranked or has at most the given rank."""
    return has_rank(operand, 0, rank, f"operand {operand} is at most {rank}-D")


def require_first_size_at_most(operand: int, size: int, words: str) -> Relation:
    """Require that an operand has a first dimension of at most `size`."""

    def holds(op: Operation) -> bool:
        shape = shape_of(op.operands[operand])
        return shape is None or (len(shape) > 0 and shape[0] <= size)

    return verified(words, holds)


def _same_shape(op: Operation) -> str | None:
    types = (*op.operand_types, *op.result_types)
    ranked = [cast(RankedTensor, t) for t in types if isinstance(t, TensorType)]
    words = "requires the same shape for all operands and results"
    return None if have_one_shape(ranked) else words


def _same_elements(words: str) -> Relation:
    def relation(op: Operation) -> str | None:
        types = map(scalar_or_element_type, (*op.operand_types, *op.result_types))
        return None if len({*types}) < 2 else words

    return relation


def _shape_text(shape: Shape) -> str:
    sizes = ("?" if size == DYNAMIC_INDEX else str(size) for size in shape)
    return f"'{'x'.join(sizes)}'"


def _broadcast_error_message(op: Operation) -> str | None:
    shapes = [shape for v in op.operands if (shape := shape_of(v)) is not None]
    if not shapes:
        return None
    merged = shapes[0]
    for shape in shapes:
        if (both := broadcast_shape(merged, shape)) is None:
            return "operands don't have broadcast-compatible shapes"
        merged = both
    for result in op.results:
        shape = shape_of(result)
        if shape is not None and not are_compatible_shapes(
            shape[max(len(shape) - len(merged), 0) :], merged
        ):
            return (
                f"result type {_shape_text(shape)} not broadcast compatible with "
                f"broadcasted operands's shapes {_shape_text(merged)}"
            )
    return None


def _same_type(op: Operation) -> str | None:
    (operand,), (result,) = op.operands, op.results
    if _same_elements("")(op) is not None or not is_compatible_with_shape(
        result, shape_of(operand)
    ):
        return "requires the same type for all operands and results"
    if operand.type == result.type:
        return None
    return (
        f"inferred type(s) '{operand.type}' are incompatible with return type(s) of "
        f"operation '{result.type}'"
    )


def without_blocks(op: Operation) -> str | None:
    """Require operands without block scales, for ops whose kernels lack them."""
    types = map(scalar_or_element_type, op.operand_types)
    if any(isinstance(type_, BlockScaledQuantizedType) for type_ in types):
        return NO_KERNEL_FOR_BLOCKS
    return None


def _has_results(op: Operation) -> str | None:
    return None if op.results else "expected 1 or more results"


def _has_padding_of_rank(op: Operation) -> bool:
    shape, padding = shape_of(op.operands[0]), static_shape_of(op.operands[1])
    return shape is None or padding is None or len(shape) == padding[0]


def _are_blocks(a: QuantizedType, b: QuantizedType) -> bool:
    kinds = UniformQuantizedSubChannelType, BlockScaledQuantizedType
    return any(isinstance(a, kind) and isinstance(b, kind) for kind in kinds)


def _parameters(type_: QuantizedType) -> object:
    if not isinstance(type_, UniformQuantizedPerAxisType):
        return type_
    arrays = tuple(type_.scale_array()), tuple(type_.zero_point_array())
    return type_.signless_storage_type, type_.expressed_type, *arrays


def _is_u8(type_: QuantizedType) -> bool:
    return (
        isinstance(type_, StoredQuantizedType)
        and not type_.is_signed
        and type_.storage_type_integral_width == 8
    )


def _same_scale(have_one: Callable[[QuantizedType, QuantizedType], bool]) -> Relation:
    def relation(op: Operation) -> str | None:
        elements = map(scalar_or_element_type, (*op.operand_types, *op.result_types))
        types = [type_ for type_ in elements if isinstance(type_, QuantizedType)]
        for type_ in types[1:]:
            if types[0] != type_ and not have_one(types[0], type_):
                return (
                    "quantization parameters violate the same scale constraint: "
                    f"{types[0]} vs. {type_}"
                )
        return None

    return relation


SAME_SHAPE = _same_shape
SAME_TYPE = _same_type
SAME_ELEMENTS = _same_elements(
    "requires the same element type for all operands and results"
)
COMPATIBLE_ELEMENTS = _same_elements(
    "requires compatible element types for all operands and results"
)
BROADCAST = _broadcast_error_message
HAS_RESULTS = _has_results
SAME_SCALE = _same_scale(lambda a, b: False)
SAME_SCALE_OF_ANY_AXIS = _same_scale(lambda a, b: _parameters(a) == _parameters(b))
SAME_SCALE_BUT_U8_OR_BLOCKS = _same_scale(
    lambda a, b: (_is_u8(a) and _is_u8(b)) or _are_blocks(a, b)
)
SAME_SCALE_OR_BLOCKS = _same_scale(_are_blocks)
SAME_SCALE_OF_ANY_AXIS_OR_BLOCKS = _same_scale(
    lambda a, b: _parameters(a) == _parameters(b) or _are_blocks(a, b)
)

SAME_FIRST = result_has_operand_type(0, "values and output must have same element type")
SAME_INPUT = result_has_operand_type(0, "input and output must have same element type")


def SAME_INPUT_OR_I16(op: Operation) -> str | None:
    """Require `SAME_INPUT`, or an i16 result for an i8 input (accepted by LiteRT only)."""
    a, b = (scalar_or_element_type(v.type) for v in (*op.operands[:1], *op.results[:1]))
    if isinstance(a, StoredQuantizedType) and a.is_signed:
        if (_storage(a), _storage(b)) == (IntegerType(8), IntegerType(16)):
            return None
    return SAME_INPUT(op)


SAME_X_Y = result_has_operand_type(0, "x and y must have same element type")
SAME_PARAMS = result_has_operand_type(
    0, "params and output must have same element type"
)
SAME_OPERANDS = require_operand_types(
    0, 1, "binary op operands have same element type", bytes_are=False
)
COMPARABLE = require_operand_types(
    0, 1, "comparison op operands have same element type", bytes_are=False
)
ALL_ALIKE = _same_elements(
    "failed to verify that operands and output must have same element type"
)
SINGLE_ELEMENT = verified(
    "operand #0 is an 0-d tensor or 1-d tensor w/ 1 element",
    lambda op: shape_of(op.operands[0]) in ((), (1,)),
)
PADDING_OF_RANK = verified(
    "operand 0's rank equals operand 1's size", _has_padding_of_rank
)
AT_MOST_5_DIMENSIONS = require_first_size_at_most(
    1, 5, "the first dim size of the padding argument must be at most 5"
)


# Ops


Operand = SSAValue | Operation
"""Operand of an op constructor: a value, or an op with a single result."""

PlainValue = bool | int | float | str | Sequence[int]
"""Python value that op constructors convert to a property."""

PropertyValue = Attribute | PlainValue | None
"""Value of a property in an op constructor; `None` omits the property."""


def plain_attribute(value: PlainValue) -> Attribute:
    """Convert a Python value to an `i1`, `i32`, `f32`, string or array of `i64`."""
    match value:
        case bool():
            return BoolAttr.from_bool(value)
        case int():
            return IntegerAttr(value, i32)
        case float():
            return FloatAttr(value, f32)
        case str():
            return StringAttr(value)
        case _:
            return ArrayAttr([IntegerAttr(number, i64) for number in value])


def _property(value: PropertyValue) -> Attribute | None:
    if value is None or isinstance(value, Attribute):
        return value
    return plain_attribute(value)


class TFLOp(IRDLOperation, ABC):
    """Base class of `tfl` ops, with the error messages of TensorFlow Lite."""

    MOVES_BLOCKS: ClassVar[bool] = False
    """True if the verifier of a data movement op moves the blocks of sub-channel types."""

    def __init__(
        self,
        *operands: Operand | Sequence[Operand],
        result_types: Sequence[Attribute | Sequence[Attribute]] = (),
        regions: Sequence[Region] = (),
        **properties: PropertyValue,
    ):
        """
        Build an op.

        Args:
            operands: the operands in declaration order; a sequence for a variadic operand.
            result_types: the result types; optional results at the end may be omitted.
            regions: the regions.
            properties: attributes or Python values, see `plain_attribute`.
        """
        left_out = len(self.get_irdl_definition().results) - len(result_types)
        super().__init__(
            operands=operands,
            result_types=[*result_types, *[()] * left_out],
            regions=regions,
            properties={name: _property(value) for name, value in properties.items()},
        )

    def __post_init__(self):
        """Sort properties; drop unknown ones, and attributes named like a property."""
        super().__post_init__()
        if known := self.get_irdl_definition().properties.keys():
            self.properties = {
                name: self.properties[name]
                for name in sorted(self.properties.keys() & known)
            }
        self.attributes = {
            name: self.attributes[name]
            for name in sorted(self.attributes.keys() - known)
        }

    def verify(self, verify_nested_ops: bool = True) -> None:
        """Verify properties before operands and results, as MLIR does."""
        try:
            for name, definition in self.get_irdl_definition().properties.items():
                if (attribute := self.properties.get(name)) is not None:
                    definition.constr.verify(attribute, VerificationContext())
                elif not isinstance(definition, OptionalDef):
                    require(False, f"'{self.name}' op requires attribute '{name}'")
        except VerifyException as e:
            self.emit_error(f"Operation does not verify: {e}", e)
        super().verify(verify_nested_ops)

    def emit_error(self, message: str, underlying_error: Exception) -> NoReturn:
        """Raise verification errors in MLIR's words, and all other errors unchanged."""
        if not isinstance(underlying_error, VerifyException):
            super().emit_error(message, underlying_error)
        text = str(underlying_error)
        if isinstance(underlying_error, PropertyError):
            text = underlying_error.message(self)
        message = message.replace(str(underlying_error), text)
        error = VerifyException(mlir_message(self, text))
        super().emit_error(mlir_message(self, message), error)

    def require(self, holds: bool, message: str) -> None:
        """
        Verify a condition.

        Raises:
            VerifyException: if `holds` is false; the message follows the op's name.
        """
        require(holds, f"'{self.name}' op {message}")

    def verify_type_of(
        self, result: SSAValue, sizes: Sequence[int], like: SSAValue | None = None
    ) -> None:
        """
        Verify that a result is compatible with a shape.

        Args:
            sizes: the expected shape, with -1 for dynamic sizes.
            like: value whose element type the message prints; by default the result.

        Raises:
            VerifyException: if the shapes are incompatible.
        """
        element_type = scalar_or_element_type((like or result).type)
        type_ = TensorType(element_type, shape_from_sizes(sizes))
        self.require(
            is_compatible_with_shape(result, type_.get_shape()),
            f"expect output type {type_}, got {result.type}",
        )


def declare_elements(
    cls: type[TFLOp],
    elements: str,
    operands: Sequence[str] = (),
    results: Sequence[str] = (),
) -> None:
    """Declare operands and results as `tensor_of(elements)`, unless `elements` is empty."""
    if elements:
        for name in operands:
            setattr(cls, name, operand_def(tensor_of(elements)))
        for name in results:
            setattr(cls, name, result_def(tensor_of(elements)))


def has_several_scales(type_: Attribute) -> bool:
    """Return True if a quantized type has several scales of blocks."""
    return (
        isinstance(type_, UniformQuantizedSubChannelType) and len(type_.scales) > 1
    ) or (
        isinstance(type_, BlockScaledQuantizedType)
        and max(type_.scales.shape, default=1) > 1
    )


class RefusesMovedBlocks(OpTrait):
    """Trait that refuses blocks with several scales, unless the op moves blocks."""

    def verify(self, op: Operation) -> None:
        if isinstance(op, TFLOp) and op.MOVES_BLOCKS:
            return
        for type_ in map(scalar_or_element_type, (*op.operand_types, *op.result_types)):
            if has_several_scales(type_):
                # Traits have no order: report errors of other relations first.
                for trait in op.get_traits_of_type(Requires):
                    trait.verify(op)
                raise VerifyException(
                    f"'{op.name}' op cannot move blocks of {type_}; dequantize them first"
                )


def data_movement_traits(*operands: int) -> tuple[OpTrait, ...]:
    """Return the traits of an op that moves elements of `operands`, by default of all."""
    return (
        Pure(),
        quant.MovesElements(operands or None),
        quant.SameOperandsAndResultsScale(),
        RefusesMovedBlocks(),
    )


class FunctionOp(TFLOp, ABC):
    """Base class of elementwise functions; subclasses pass their types as `elements`."""

    x = operand_def()
    y = result_def()

    traits = traits_def(Pure(), quant.ComputesElementwise())

    def __init_subclass__(cls, elements: str = "") -> None:
        super().__init_subclass__()
        declare_elements(cls, elements, ("x",), ("y",))


class OneInputOp(TFLOp, ABC):
    """Base class of ops with one operand; subclasses pass its types as `elements`."""

    input = operand_def()
    output = result_def()

    def __init_subclass__(cls, elements: str = "") -> None:
        super().__init_subclass__()
        declare_elements(cls, elements, ("input",), ("output",))


class InferredTypesOp(TFLOp, ABC):
    """Base class of ops that infer the shapes of their results."""

    @abstractmethod
    def inferred_types(self) -> Sequence[Attribute]:
        """
        Infer the result types; actual element types and dynamic sizes may differ.

        Raises:
            VerifyException: if operands and properties are inconsistent.
        """

    def verify_(self) -> None:
        types = self.inferred_types()
        if len(types) == len(self.results) and all(
            not isinstance(type_, TensorType)
            or is_compatible_with_shape(result, type_.get_shape())
            for type_, result in zip(types, self.results, strict=True)
        ):
            return
        self.require(
            False,
            f"inferred type(s) {quoted(types)} are incompatible with return type(s) of "
            f"operation {quoted(self.result_types)}",
        )
