"""
Conversions between NumPy arrays and the arguments and results of a function.

MLIR reads and writes an `i4` or `i1` in memory as a byte whose upper bits it expects to be
zero. So arrays have elements of 8, 16, 32 or 64 bits, and the numbers inside are narrowed
and widened by ops. Loop fusion makes this free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    IndexType,
    IntegerType,
    NoneAttr,
    TensorType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute

from xdsl_quant.dialects.quant import StoredQuantizedType
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.numerics.arrays import Array, DType
from xdsl_quant.runtime.arrays import (
    allows_shape,
    integer_width,
    numpy_dtype,
    shape_of,
    shortened,
)
from xdsl_quant.transforms.building.signless_types import has_signedness, signless

from .compilation_error import CompilationError

_DYNAMIC_SIZE_ESTIMATE = 1024
"""Stands for a dynamic size where only a comparison with others matters."""


class OpLines:
    """Ops of MLIR under construction, as text."""

    def __init__(self):
        self.lines: list[str] = []
        self._count = 0

    def add(self, text: str) -> str:
        """Add an op with a result, whose name is returned."""
        self._count += 1
        self.lines.append(f"%{self._count} = {text}")
        return f"%{self._count}"


def _has_encoding(type_: Attribute) -> bool:
    return isinstance(type_, TensorType) and not isinstance(type_.encoding, NoneAttr)


@dataclass(frozen=True)
class Boundary:
    """Converts between an array and a value in the signature of the entry point."""

    type_: Attribute
    """The type in the signature, possibly quantized."""

    dtype: DType

    @staticmethod
    def of(type_: Attribute, name: str) -> Boundary:
        """
        Raises:
            CompilationError: if no array stands for values of the type; the message calls
                the value `name`.
        """
        problem = f"{name} has type '{shortened(type_)}'"
        if isinstance(type_, UnrankedTensorType):
            raise CompilationError(
                f"{problem}, but compiled code needs to know the rank"
            )
        if _has_encoding(type_):
            raise CompilationError(f"{problem}, but arrays have no encoding")
        try:
            dtype = numpy_dtype(type_)
        except TypeError as e:
            raise CompilationError(f"{problem}: {e}") from None
        boundary = Boundary(type_, dtype)
        if has_signedness(type_) and not boundary.takes_all_numbers:
            raise CompilationError(
                f"{problem}, but only signless integers may have {integer_width(type_)} "
                "bits"
            )
        return boundary

    # Types

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """The sizes of a tensor; nothing for a scalar."""
        return shape_of(self.type_)

    @cached_property
    def dynamic_dimensions(self) -> Sequence[int]:
        return [i for i, size in enumerate(self.shape) if size == DYNAMIC_INDEX]

    @cached_property
    def takes_all_numbers(self) -> bool:
        """Whether every number of the dtype is allowed."""
        width = integer_width(self.type_)
        return self.dtype.kind not in "iu" or width == 8 * self.dtype.itemsize

    def is_same(self, array: Array) -> bool:
        """Whether an array needs neither conversion nor a check of its numbers."""
        return (
            self.takes_all_numbers
            and array.dtype == self.dtype
            and (array.shape == self.shape or allows_shape(self.type_, array.shape))
        )

    @property
    def estimated_bytes(self) -> int:
        """Bytes of the array, if every dynamic size were the same."""
        sizes = (
            _DYNAMIC_SIZE_ESTIMATE if s == DYNAMIC_INDEX else s for s in self.shape
        )
        return self.dtype.itemsize * math.prod(sizes)

    @property
    def _is_scalar(self) -> bool:
        return not isinstance(self.type_, TensorType)

    @cached_property
    def _inner_element(self) -> Attribute:
        element_type = scalar_or_element_type(self.type_)
        if isinstance(element_type, StoredQuantizedType):
            return element_type.stored_type
        return signless(element_type)

    @cached_property
    def _outer_element(self) -> Attribute:
        if isinstance(self._inner_element, AnyFloat):
            return self._inner_element
        return IntegerType(8 * self.dtype.itemsize)

    @property
    def is_plain(self) -> bool:
        """Whether the value is a tensor that is in memory just what the array is."""
        return not self._is_scalar and self._outer_element == self._inner_element

    @cached_property
    def _sizes(self) -> str:
        return "".join("?x" if s == DYNAMIC_INDEX else f"{s}x" for s in self.shape)

    @cached_property
    def memref(self) -> str:
        """The type of the array in memory."""
        return f"memref<{self._sizes}{self._outer_element}>"

    @cached_property
    def tensor(self) -> str:
        """The type of the array as a value."""
        return f"tensor<{self._sizes}{self._outer_element}>"

    def _with_shape(self, element_type: Attribute) -> str:
        if self._is_scalar:
            return str(element_type)
        return f"tensor<{self._sizes}{element_type}>"

    @cached_property
    def inner(self) -> str:
        """The type that the entry point has after quantized types are stripped."""
        return self._with_shape(self._inner_element)

    # Conversions

    def enter(self, code: OpLines, array: str) -> str:
        """The value that the entry point takes, from an array."""
        value = array
        if self._is_scalar:
            value = code.add(f"tensor.extract {value}[] : {self.tensor}")
        if self._outer_element == self._inner_element:
            return value
        op = "index_cast" if isinstance(self._inner_element, IndexType) else "trunci"
        outer = self._with_shape(self._outer_element)
        return code.add(f"arith.{op} {value} : {outer} to {self.inner}")

    def leave(self, code: OpLines, value: str, buffer: str) -> None:
        """Write a result of the entry point to the memory of an array."""
        if self._outer_element != self._inner_element:
            op = "extsi" if self.dtype.kind == "i" else "extui"
            if isinstance(self._inner_element, IndexType):
                op = "index_cast"
            outer = self._with_shape(self._outer_element)
            value = code.add(f"arith.{op} {value} : {self.inner} to {outer}")
        code.lines.append(
            f"memref.store {value}, {buffer}[] : {self.memref}"
            if self._is_scalar
            else f"bufferization.materialize_in_destination {value} in restrict writable "
            f"{buffer} : ({self.tensor}, {self.memref}) -> ()"
        )
