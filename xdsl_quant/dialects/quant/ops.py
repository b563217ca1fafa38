"""The casts between expressed, quantized and stored values."""

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, cast, get_args

from typing_extensions import TypeIs
from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    UnrankedTensorType,
)
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.type_kinds import TypeKind, verify_kinds
from xdsl_quant.rounding_mode import NanResult

from .fixed_point_types import FixedPointType
from .storage_types import FloatStorageType
from .traits import AcceptsStoredValues, CastsQuantization
from .types import QuantizedType, StoredQuantizedType, scalar_or_element_type

NAN_ATTRIBUTE = "quant.nan"
"""
The discardable attribute of a `quant.qcast` or `quant.dynamic_qcast` that says what becomes
of NaN: one of the texts of `NanResult`. A module from a dialect that defines it has one
answer, whatever the options are that it is run or lowered with.
"""


def nan_result(op: Operation, default: NanResult) -> NanResult:
    """
    What becomes of NaN in a cast.

    Args:
        op: the cast.
        default: what it is if the op does not say it.

    Raises:
        ValueError: if what the op says is not known.
    """
    if (attribute := op.attributes.get(NAN_ATTRIBUTE)) is None:
        return default
    if isinstance(attribute, StringAttr) and attribute.data in get_args(NanResult):
        return cast(NanResult, attribute.data)
    known = " or ".join(f'"{name}"' for name in get_args(NanResult))
    raise ValueError(f"attribute '{NAN_ATTRIBUTE}' must be {known}, not {attribute}")


def has_signless_integers(type_: Attribute) -> bool:
    """
    Return True if a type, or the element type of a tensor, is a signless integer type.
    """
    element_type = scalar_or_element_type(type_)
    return isinstance(element_type, IntegerType) and (
        cast(IntegerType, element_type).signedness.data is Signedness.SIGNLESS
    )


def has_floats(type_: Attribute) -> bool:
    """Return True if a type, or the element type of a tensor, is a float type."""
    return isinstance(scalar_or_element_type(type_), AnyFloat)


def _has_quantized(type_: Attribute) -> bool:
    return isinstance(scalar_or_element_type(type_), QuantizedType)


def _has_float_storage(type_: Attribute) -> TypeIs[StoredQuantizedType]:
    return isinstance(type_, StoredQuantizedType) and isinstance(
        type_.storage_type, FloatStorageType
    )


FLOAT = TypeKind("scalar or tensor of floating-point", has_floats)
STORED = TypeKind("scalar or tensor of signless integer", has_signless_integers)
_QUANTIZED = TypeKind("scalar or tensor of quantized type", _has_quantized)


_STORED_OR_QUANTIZED = TypeKind(
    "scalar or tensor of signless integer or quantized type",
    lambda type_: _has_quantized(type_) or has_signless_integers(type_),
)


def have_matching_shape(type_a: Attribute, type_b: Attribute) -> bool:
    """
    Return True if both types are scalars, both unranked tensors, or both tensors with
    the same static and dynamic dimensions.
    """
    if isinstance(type_a, TensorType):
        return isinstance(type_b, TensorType) and type_a.shape == type_b.shape
    if isinstance(type_a, UnrankedTensorType):
        return isinstance(type_b, UnrankedTensorType)
    return not isinstance(type_b, TensorType | UnrankedTensorType)


class _CastOp(IRDLOperation, HasFolderInterface, ABC):
    """
    A cast of a scalar, or of each element of a tensor.

    Operand and result are not constrained by their definitions but in `verify_`, because
    messages and their order are those of MLIR.
    """

    input = operand_def()
    result = result_def()

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: SSAValue | Operation, result_type: Attribute):
        super().__init__(operands=[input], result_types=[result_type])

    KINDS: ClassVar[tuple[TypeKind, TypeKind]]
    """What the operand and the result must be."""

    INVERSE: ClassVar[str]
    """The name of the op that reverses this one."""

    def _mismatch(self, quantized: QuantizedType, other: Attribute) -> str:
        """What is wrong with element types that do not belong together."""
        return "expressed type in quantized type expected to match float type"

    def _match(self, quantized: QuantizedType, other: Attribute) -> bool:
        """Return True if the two element types belong together."""
        return quantized.expressed_type == other

    def _verify_kinds(self) -> None:
        operand_kind, result_kind = self.KINDS
        verify_kinds(self, [operand_kind], [result_kind])

    def verify_(self) -> None:
        types = self.input.type, self.result.type
        self._verify_kinds()
        if not have_matching_shape(*types):
            raise VerifyException(
                f"'{self.name}' op failed to verify that input and result are both "
                "scalars or both tensors with matching shape"
            )
        element_types = [*map(scalar_or_element_type, types)]
        quantized = [t for t in element_types if isinstance(t, QuantizedType)]
        if len(quantized) != 1:
            raise VerifyException(
                f"'{self.name}' op failed to verify that input must be integer and "
                "result must be quantized, or vice versa"
            )
        quantized_type = quantized[0]
        other = element_types[element_types[0] is quantized_type]
        if not self._match(quantized_type, other):
            raise VerifyException(self._mismatch(quantized_type, other))
        quantized_type.verify_container(self.input.type)

    def fold(self) -> Sequence[SSAValue] | None:
        """Return a cast there and back is nothing."""
        producer = self.input.owner
        if not isinstance(producer, _CastOp) or producer.name != self.INVERSE:
            return None
        # In a graph region two casts may be each other's operands.
        if producer.input is self.result or producer.input.type != self.result.type:
            return None
        return (producer.input,)


@irdl_op_definition
class QuantizeCastOp(_CastOp):
    """
    Quantize: convert an expressed value to a quantized one,
    `clamp(round(expressed / scale + zero_point))`. How it is rounded, and what becomes of
    a value out of range, is an option of `lower-quant-ops`. What becomes of NaN may be said
    by the op: see [`nan_result`][xdsl_quant.dialects.quant.ops.nan_result].

    Example:

    ```mlir
    %q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 2.000000e+00>>
    ```

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/#quantqcast-quantquantizecastop).
    """

    name = "quant.qcast"

    traits = traits_def(Pure(), CastsQuantization())

    KINDS: ClassVar[tuple[TypeKind, TypeKind]] = (FLOAT, _QUANTIZED)
    INVERSE: ClassVar[str] = "quant.dcast"


@irdl_op_definition
class DequantizeCastOp(_CastOp):
    """
    Dequantize: convert a quantized value to the value that it expresses,
    `(stored - zero_point) * scale`.

    Example:

    ```mlir
    %x = quant.dcast %q : tensor<4x!quant.uniform<i8:f32, 2.000000e+00>> to tensor<4xf32>
    ```

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/#quantdcast-quantdequantizecastop).
    """

    name = "quant.dcast"

    traits = traits_def(Pure(), CastsQuantization())

    KINDS: ClassVar[tuple[TypeKind, TypeKind]] = (_QUANTIZED, FLOAT)
    INVERSE: ClassVar[str] = "quant.qcast"


@irdl_op_definition
class StorageCastOp(_CastOp):
    """
    View a stored value as a quantized one, or the other way round: the bits stay.

    Stored values are signless integers, also those of storage spelled `si8` or `ui8` and
    the indices of a quantile type, or floats of the storage type `f8E5M2`, `f8E4M3FN` or
    `f4E2M1FN`, which MLIR does not allow.

    Example:

    ```mlir
    %q = quant.scast %i : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 2.000000e+00>>
    ```

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/#quantscast-quantstoragecastop).
    """

    name = "quant.scast"

    traits = traits_def(Pure(), AcceptsStoredValues())

    KINDS: ClassVar[tuple[TypeKind, TypeKind]] = (
        _STORED_OR_QUANTIZED,
        _STORED_OR_QUANTIZED,
    )
    INVERSE: ClassVar[str] = "quant.scast"

    def _verify_kinds(self) -> None:
        types = [
            *map(scalar_or_element_type, (*self.operand_types, *self.result_types))
        ]
        for quantized, other in (types, reversed(types)):
            # MLIR has no storage cast of floats.
            if isinstance(other, AnyFloat) and _has_float_storage(quantized):
                return
        super()._verify_kinds()

    def _mismatch(self, quantized: QuantizedType, other: Attribute) -> str:
        if _has_float_storage(quantized):
            return (
                f"storage type '{quantized.storage_type}' in quantized type expected to "
                f"match float type, but got '{other}'"
            )
        return "storage type in quantized type expected to match integer type"

    def _match(self, quantized: Attribute, other: Attribute) -> bool:
        return (
            isinstance(quantized, StoredQuantizedType)
            and quantized.stored_type == other
        )


# Requantization with integers alone: a `quant.qcast` of a `quant.dcast`, where both types
# have fixed-point scales. The expressed value in between is never computed.


def fixed_point_type_of(value: SSAValue) -> FixedPointType | None:
    """
    Return the type with fixed-point scales that a value or its elements have, if they
    do.
    """
    quantized_type = scalar_or_element_type(value.type)
    return quantized_type if isinstance(quantized_type, FixedPointType) else None


def requantized_dcast(
    op: Operation, expressed: SSAValue | None = None
) -> DequantizeCastOp | None:
    """
    Return the `quant.dcast` that makes an op a requantization with integers alone, or
    `None`.

    Args:
        op: any op.
        expressed: what to take for its operand, if not the one that it has.
    """
    if not isinstance(op, QuantizeCastOp) or fixed_point_type_of(op.result) is None:
        return None
    dcast = (op.input if expressed is None else expressed).owner
    if (
        not isinstance(dcast, DequantizeCastOp)
        or fixed_point_type_of(dcast.input) is None
    ):
        return None
    return dcast


def requantizing_qcasts(dcast: DequantizeCastOp) -> list[QuantizeCastOp]:
    """
    Return the users of a `quant.dcast` that are requantizations with integers alone.
    """
    users = {use.operation: None for use in dcast.result.uses}
    return [
        user
        for user in users
        if isinstance(user, QuantizeCastOp) and requantized_dcast(user) is dcast
    ]
