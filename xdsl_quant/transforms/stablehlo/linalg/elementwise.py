"""Ops that compute each element of the result from those at the same position."""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Operation

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant.traits import (
    ComputesElementwise,
    has_quantization_trait,
)
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    dimensions,
    shape_of,
)

from .element_types import stored_type
from .lowering import LinalgLowering, UnsupportedError, Values
from .scalars import FORMULAS


class LowerElementwise(LinalgLowering):
    """
    Lowers an op with the trait `ComputesElementwise` to one `linalg.generic` whose body is
    the formula of the op: see
    [`FORMULAS`][xdsl_quant.transforms.stablehlo.linalg.scalars.FORMULAS]. An operand of
    rank 0 is the same for all elements.
    """

    def handles(self, op: Operation) -> bool:
        return has_quantization_trait(op, ComputesElementwise)

    def lower(
        self, builder: LoweringBuilder, op: Operation, operands: Values
    ) -> Values:
        if (formula := FORMULAS.get(op_name(op))) is None:
            raise UnsupportedError("is elementwise, but has no formula on scalars")
        type_ = stored_type(op.results[0].type)
        shape = type_.get_shape()
        ranks = [len(shape_of(operand)) for operand in operands]
        like = operands[ranks.index(len(shape))]
        sizes = [
            builder.size(like, dimension) if size == DYNAMIC_INDEX else size
            for dimension, size in enumerate(shape)
        ]
        inputs = [
            (operand, dimensions(range(rank)))
            for operand, rank in zip(operands, ranks, strict=True)
        ]
        result = builder.map(
            inputs, type_, sizes, lambda body, args: formula(body, op, args[:-1])
        )
        return [result]
