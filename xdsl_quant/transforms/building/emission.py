"""Ops under construction: what rewrites build with, on scalars or on whole tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    ArrayAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    LocationAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue

INDEX = IndexType()
_NO_PROPERTIES: Mapping[str, Attribute] = {}


@lru_cache(maxsize=1024)
def tensor_type(
    element_type: Attribute, shape: ArrayAttr[IntAttr], encoding: Attribute
) -> TensorType:
    return TensorType(element_type, shape, encoding)


@cache
def _index_attr(value: int) -> IntegerAttr:
    return IntegerAttr(value, INDEX)


@dataclass
class Code:
    """Ops under construction, on scalars. All of them have one location."""

    location: LocationAttr
    ops: list[Operation] = field(default_factory=list[Operation])

    def op(
        self,
        op_type: type[Operation],
        operands: Sequence[SSAValue],
        result_type: Attribute,
        properties: Mapping[str, Attribute] = _NO_PROPERTIES,
    ) -> SSAValue:
        """Add an op with one result."""
        # `create` takes a third of the time of a constructor.
        op = op_type.create(
            operands=operands,
            result_types=(result_type,),
            properties=properties,
            location=self.location,
        )
        self.ops.append(op)
        return op.results[0]

    def constant(self, value: Attribute, type_: Attribute) -> SSAValue:
        """Add a constant."""
        return self.op(arith.ConstantOp, (), type_, {"value": value})

    def index(self, value: int) -> SSAValue:
        """Add an index constant."""
        return self.constant(_index_attr(value), INDEX)

    # What differs for tensors

    @property
    def is_scalar(self) -> bool:
        """Whether numbers are computed one by one."""
        return True

    def type(self, element_type: Attribute) -> Attribute:
        """The type of numbers of this element type."""
        return element_type

    def lift(self, scalar: SSAValue) -> SSAValue:
        """A scalar as an operand of elementwise ops."""
        return scalar

    def elementwise(
        self,
        op_type: type[Operation],
        operands: Sequence[SSAValue],
        element_type: Attribute,
        properties: Mapping[str, Attribute] = _NO_PROPERTIES,
    ) -> SSAValue:
        """Add an op on numbers."""
        return self.op(op_type, operands, self.type(element_type), properties)


@dataclass
class TensorCode(Code):
    """Ops under construction, on whole ranked tensors of one shape."""

    container: TensorType = field(kw_only=True)
    """A tensor type with the shape and encoding of the operands."""

    dynamic_sizes: Sequence[SSAValue] = field(kw_only=True)

    _types: dict[Attribute, TensorType] = field(
        default_factory=dict[Attribute, TensorType], init=False
    )

    @property
    def is_scalar(self) -> bool:
        return False

    def type(self, element_type: Attribute) -> Attribute:
        # All ops are on one shape: looking it up by its element type alone is cheap.
        if (known := self._types.get(element_type)) is None:
            container = self.container
            known = tensor_type(element_type, container.shape, container.encoding)
            self._types[element_type] = known
        return known

    def lift(self, scalar: SSAValue) -> SSAValue:
        return self.op(
            tensor.SplatOp, (scalar, *self.dynamic_sizes), self.type(scalar.type)
        )
