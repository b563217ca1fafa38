"""The casts between expressed, quantized and stored values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerType,
    Signedness,
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

from .traits import AcceptsStoredValues, CastsQuantization
from .types import (
    QuantizedType,
    StoredQuantizedType,
    scalar_or_element_type,
)


def _is_signless_integer(type_: Attribute) -> bool:
    if not isinstance(type_, IntegerType):
        return False
    return cast(IntegerType, type_).signedness.data is Signedness.SIGNLESS


def _have_matching_shape(type_a: Attribute, type_b: Attribute) -> bool:
    """
    Whether both types are scalars, both unranked tensors, or both tensors with the same
    static and dynamic dimensions.
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

    @abstractmethod
    def _verify_kinds(self) -> None:
        """Verify what the operand and the result are, each of them alone."""

    @abstractmethod
    def _verify_elements(self, input_type: Attribute, result_type: Attribute) -> None:
        """Verify that the two element types belong together."""

    def _verify_kind(self, value: SSAValue, is_kind: bool, kind: str) -> None:
        if is_kind:
            return
        which = "operand" if value is self.input else "result"
        raise VerifyException(
            f"'{self.name}' op {which} #0 must be scalar or tensor of {kind}, but got "
            f"'{value.type}'"
        )

    def verify_(self) -> None:
        input_type, result_type = self.input.type, self.result.type
        self._verify_kinds()
        if not _have_matching_shape(input_type, result_type):
            raise VerifyException(
                f"'{self.name}' op failed to verify that input and result are both "
                "scalars or both tensors with matching shape"
            )
        self._verify_elements(
            scalar_or_element_type(input_type), scalar_or_element_type(result_type)
        )

    def _fold_inverse(self, inverse: type[_CastOp]) -> Sequence[SSAValue] | None:
        """A cast there and back is nothing."""
        if not isinstance(producer := self.input.owner, inverse):
            return None
        if producer.input.type != self.result.type:
            return None
        # In a graph region two casts may be each other's operands.
        if producer.input is self.result:
            return None
        return (producer.input,)


def _verify_expressed_type(
    quantized: Attribute, expressed: Attribute, container: Attribute
) -> None:
    assert isinstance(quantized, QuantizedType)
    if quantized.expressed_type != expressed:
        raise VerifyException(
            "expressed type in quantized type expected to match float type"
        )
    quantized.verify_container(container)


@irdl_op_definition
class QuantizeCastOp(_CastOp):
    """
    Quantize: convert an expressed value to a quantized one,
    `clamp(round(expressed / scale + zero_point))`. How it is rounded, and what becomes of
    a value out of range, is an option of `lower-quant-ops`. What becomes of NaN may be said
    by the op: see [`nan_result`][xdsl_quant.dialects.quant.nan_result.nan_result].

    Example:

    ```mlir
    %q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 2.000000e+00>>
    ```

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/#quantqcast-quantquantizecastop).
    """

    name = "quant.qcast"

    traits = traits_def(Pure(), CastsQuantization())

    def _verify_kinds(self) -> None:
        input_element = scalar_or_element_type(self.input.type)
        result_element = scalar_or_element_type(self.result.type)
        self._verify_kind(
            self.input, isinstance(input_element, AnyFloat), "floating-point"
        )
        self._verify_kind(
            self.result, isinstance(result_element, QuantizedType), "quantized type"
        )

    def _verify_elements(self, input_type: Attribute, result_type: Attribute) -> None:
        _verify_expressed_type(result_type, input_type, self.result.type)

    def fold(self) -> Sequence[SSAValue] | None:
        return self._fold_inverse(DequantizeCastOp)


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

    def _verify_kinds(self) -> None:
        input_element = scalar_or_element_type(self.input.type)
        result_element = scalar_or_element_type(self.result.type)
        self._verify_kind(
            self.input, isinstance(input_element, QuantizedType), "quantized type"
        )
        self._verify_kind(
            self.result, isinstance(result_element, AnyFloat), "floating-point"
        )

    def _verify_elements(self, input_type: Attribute, result_type: Attribute) -> None:
        _verify_expressed_type(input_type, result_type, self.input.type)

    def fold(self) -> Sequence[SSAValue] | None:
        return self._fold_inverse(QuantizeCastOp)


@irdl_op_definition
class StorageCastOp(_CastOp):
    """
    View a stored value as a quantized one, or the other way round: the bits stay.

    Stored values are signless integers, also those of storage spelled `si8` or `ui8`.

    Example:

    ```mlir
    %q = quant.scast %i : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 2.000000e+00>>
    ```

    See external [documentation](https://mlir.llvm.org/docs/Dialects/QuantDialect/#quantscast-quantstoragecastop).
    """

    name = "quant.scast"

    traits = traits_def(Pure(), AcceptsStoredValues())

    _KIND: ClassVar[str] = "signless integer or quantized type"

    def _verify_kinds(self) -> None:
        for value in (self.input, self.result):
            element = scalar_or_element_type(value.type)
            is_kind = isinstance(element, QuantizedType) or _is_signless_integer(
                element
            )
            self._verify_kind(value, is_kind, self._KIND)

    def _verify_elements(self, input_type: Attribute, result_type: Attribute) -> None:
        is_quantized = isinstance(input_type, QuantizedType)
        if is_quantized == isinstance(result_type, QuantizedType):
            raise VerifyException(
                f"'{self.name}' op failed to verify that input must be integer and "
                "result must be quantized, or vice versa"
            )
        quantized, stored = (
            (input_type, result_type) if is_quantized else (result_type, input_type)
        )
        if (
            not isinstance(quantized, StoredQuantizedType)
            or quantized.signless_storage_type != stored
        ):
            raise VerifyException(
                "storage type in quantized type expected to match integer type"
            )
        quantized.verify_container(self.input.type)

    def fold(self) -> Sequence[SSAValue] | None:
        return self._fold_inverse(StorageCastOp)
