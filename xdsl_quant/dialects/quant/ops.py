"""Casts between expressed, quantized and stored values."""

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, cast

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
from xdsl_quant.rounding_mode import NanResult, Rounding

from .fixed_point_types import FixedPointType
from .storage_types import FloatStorageType
from .traits import AcceptsStoredValues, CastsQuantization
from .types import QuantizedType, StoredQuantizedType, scalar_or_element_type

ROUNDING_ATTRIBUTES = ("quant.rounding_mode", "quant.zero_point_order", "quant.nan")
"""
Names of the discardable attributes that set the rounding of a cast, in the order of the
fields of `Rounding`. Their values are strings. They override the options of passes and of
execution. Frontends whose casts have one defined result add them.
"""


def cast_rounding(op: Operation, default: Rounding) -> Rounding:
    """
    Return the rounding of a cast: that of its attributes, otherwise the default.

    Args:
        op: the cast, of any dialect.
        default: the rounding where the op has no attribute.

    Raises:
        ValueError: if an attribute is unknown, or contradicts another one or the default.
    """
    if op.attributes.keys().isdisjoint(ROUNDING_ATTRIBUTES):
        return default
    stated = map(op.attributes.get, ROUNDING_ATTRIBUTES)
    rounding = Rounding._make(
        value if attribute is None else getattr(attribute, "data", str(attribute))
        for attribute, value in zip(stated, default, strict=True)
    )
    if (mistake := rounding.error_message()) is not None:
        raise ValueError(mistake)
    return rounding


def stated_attributes(op: Operation) -> dict[str, Attribute]:
    """Return the attributes of a cast that set its rounding."""
    return {k: v for k, v in op.attributes.items() if k in ROUNDING_ATTRIBUTES}


def rounding_attributes(rounding: Rounding) -> dict[str, Attribute]:
    """Return the attributes of a cast with this rounding, sorted like those of MLIR."""
    values = map(StringAttr, rounding)
    return dict(sorted(zip(ROUNDING_ATTRIBUTES, values, strict=True)))


def verify_cast_rounding(op: Operation) -> None:
    """
    Verify the rounding attributes of a cast.

    Raises:
        VerifyException: if they are invalid.
    """
    try:
        cast_rounding(op, Rounding())
    except ValueError as e:
        raise VerifyException(f"'{op.name}' op {e}") from None


def nan_result(op: Operation, default: NanResult) -> NanResult:
    """Return the result of quantizing NaN with a cast: see `cast_rounding`."""
    return cast_rounding(op, Rounding(nan=default)).nan


def has_signless_integers(type_: Attribute) -> bool:
    """Return True if the type, or the element type of a tensor, is a signless integer."""
    element_type = scalar_or_element_type(type_)
    return isinstance(element_type, IntegerType) and (
        cast(IntegerType, element_type).signedness.data is Signedness.SIGNLESS
    )


def has_floats(type_: Attribute) -> bool:
    """Return True if the type, or the element type of a tensor, is a float."""
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
    Return True if both types are scalars, both are unranked tensors, or both are tensors
    with the same static and dynamic dimensions.
    """
    if isinstance(type_a, TensorType):
        return isinstance(type_b, TensorType) and type_a.shape == type_b.shape
    if isinstance(type_a, UnrankedTensorType):
        return isinstance(type_b, UnrankedTensorType)
    return not isinstance(type_b, TensorType | UnrankedTensorType)


class _CastOp(IRDLOperation, HasFolderInterface, ABC):
    """
    Base class of elementwise casts.

    `verify_` checks types, because the op definition would not report MLIR's messages in
    MLIR's order.
    """

    input = operand_def()
    result = result_def()

    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    def __init__(self, input: SSAValue | Operation, result_type: Attribute):
        super().__init__(operands=[input], result_types=[result_type])

    KINDS: ClassVar[tuple[TypeKind, TypeKind]]
    """Type constraints of operand and result."""

    INVERSE: ClassVar[str]
    """Name of the inverse op."""

    def _mismatch(self, quantized: QuantizedType, other_type: Attribute) -> str:
        """Return the message about a mismatch of element types."""
        return "expressed type in quantized type expected to match float type"

    def _match(self, quantized: QuantizedType, other_type: Attribute) -> bool:
        return quantized.expressed_type == other_type

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
        other_type = element_types[element_types[0] is quantized_type]
        if not self._match(quantized_type, other_type):
            raise VerifyException(self._mismatch(quantized_type, other_type))
        quantized_type.verify_container(self.input.type)
        verify_cast_rounding(self)

    def fold(self) -> Sequence[SSAValue] | None:
        """Fold `cast(inverse(x))` to `x`, unless one of them states its rounding mode."""
        producer = self.input.owner
        if not isinstance(producer, _CastOp) or producer.name != self.INVERSE:
            return None
        if any("quant.rounding_mode" in op.attributes for op in (self, producer)):
            return None
        # In a graph region, two casts may be operands of each other.
        if producer.input is self.result or producer.input.type != self.result.type:
            return None
        return (producer.input,)


@irdl_op_definition
class QuantizeCastOp(_CastOp):
    """
    Quantize: convert an expressed value to a quantized one,
    `clamp(round(expressed / scale + zero_point))`. Rounding mode, order of the zero point
    and overflow behaviour are options of `lower-quant-ops`, unless the attributes
    `quant.rounding_mode`, `quant.zero_point_order` and `quant.nan` set them: see
    [`cast_rounding`][xdsl_quant.dialects.quant.ops.cast_rounding].

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
    Dequantize: convert a quantized value to its expressed value,
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
    Reinterpret a stored value as a quantized value, or the reverse. Bits do not change.

    Stored values are floats for the storage types `f8E5M2`, `f8E4M3FN` and `f4E2M1FN`
    (unlike in MLIR). For all other types they are signless integers, also for `si8`, `ui8`
    and the table indices of quantile types.

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
        for quantized, other_type in (types, reversed(types)):
            # MLIR has no storage casts of floats.
            if isinstance(other_type, AnyFloat) and _has_float_storage(quantized):
                return
        super()._verify_kinds()

    def _mismatch(self, quantized: QuantizedType, other_type: Attribute) -> str:
        if _has_float_storage(quantized):
            return (
                f"storage type '{quantized.storage_type}' in quantized type expected to "
                f"match float type, but got '{other_type}'"
            )
        return "storage type in quantized type expected to match integer type"

    def _match(self, quantized: Attribute, other_type: Attribute) -> bool:
        return (
            isinstance(quantized, StoredQuantizedType)
            and quantized.stored_type == other_type
        )


# Integer-only requantization: a `quant.qcast` of a `quant.dcast`, where both types have
# fixed-point scales. The expressed value is never computed.


def fixed_point_type_of(value: SSAValue) -> FixedPointType | None:
    """Return the fixed-point type of a value or its elements, or `None`."""
    quantized_type = scalar_or_element_type(value.type)
    return quantized_type if isinstance(quantized_type, FixedPointType) else None


def requantized_dcast(
    op: Operation, expressed: SSAValue | None = None
) -> DequantizeCastOp | None:
    """
    Return the `quant.dcast` of an integer-only requantization that ends in `op`, or `None`.
    A `quant.qcast` that states its rounding mode rounds expressed values, not integers.

    Args:
        op: any op.
        expressed: the value to use instead of the operand of `op`.
    """
    if (
        not isinstance(op, QuantizeCastOp)
        or fixed_point_type_of(op.result) is None
        or "quant.rounding_mode" in op.attributes
    ):
        return None
    dcast = (op.input if expressed is None else expressed).owner
    if (
        not isinstance(dcast, DequantizeCastOp)
        or fixed_point_type_of(dcast.input) is None
    ):
        return None
    return dcast


def requantizing_qcasts(dcast: DequantizeCastOp) -> list[QuantizeCastOp]:
    """Return the users that form integer-only requantizations with a `quant.dcast`."""
    users = {use.operation: None for use in dcast.result.uses}
    return [
        user
        for user in users
        if isinstance(user, QuantizeCastOp) and requantized_dcast(user) is dcast
    ]
