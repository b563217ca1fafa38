"""Search for dynamic shapes, without the kernels that infer shapes."""

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, TensorType, UnrankedTensorType
from xdsl.ir import Attribute, Operation
from xdsl.utils.hints import isa

from xdsl_quant.transforms.building.type_replacement import defined_values

from .dialect.attributes import ResourceType


def ops_with_dynamic_shapes(module: ModuleOp) -> Sequence[Operation]:
    """Return the ops with results or block arguments of dynamic shape, in walk order."""
    return [
        op
        for op in module.walk()
        if any(_has_dynamic_shape(value.type) for value in defined_values(op))
    ]


def _has_dynamic_shape(type_: Attribute) -> bool:
    if isa(type_, UnrankedTensorType):
        return not isinstance(type_.element_type, ResourceType)
    return isa(type_, TensorType) and not type_.has_static_shape()
