"""Builder and helper functions for lowerings to StableHLO."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects.verification import constant_integers
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.building import StableHLOBuilder
from xdsl_quant.frontends.tflite.dialect.base import is_true
from xdsl_quant.frontends.tflite.formulas.floats import CLIPPED
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from ..fallbacks import SIZES_HINT
from ..kernels.computation import number as number

# Former name, kept for compatibility.
flag = is_true

Lowering: TypeAlias = Callable[..., SSAValue | Sequence[SSAValue]]
"""Function that builds the results of an op from the builder, op and operands."""


def result_shape(op: Operation, index: int = 0) -> Sequence[int]:
    return shape_of(op.results[index])


def integers(value: SSAValue) -> Sequence[int]:
    """
    Return the elements of a constant operand such as axes, sizes or indices.

    Raises:
        Unsupported: if the operand is not constant.
    """
    if (known := constant_integers(value)) is None:
        raise Unsupported("has non-constant sizes, axes or indices")
    return known


class TFLToStableHLOBuilder(StableHLOBuilder):
    """Builder of the StableHLO ops that compute `tfl` ops."""

    sizes_hint = SIZES_HINT

    def apply_activation(self, op: Operation, value: SSAValue) -> SSAValue:
        """
        Apply the fused activation of an op.

        Raises:
            Unsupported: if StableHLO does not support the activation.
        """
        activation = cast(Any, op).fused_activation_function.data
        if activation == "NONE":
            return value
        if activation == "TANH" and isinstance(element_type_of(value), AnyFloat):
            return self.op(stablehlo.TanhOp, (value,), value.type)
        if activation not in CLIPPED:
            raise Unsupported(f"has the unsupported activation '{activation}'")
        return self.clamp(value, *CLIPPED[activation])
