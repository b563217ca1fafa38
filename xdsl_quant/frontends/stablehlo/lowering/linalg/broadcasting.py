"""Lowering of CHLO's ops that broadcast their operands."""

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.frontends.stablehlo.dialect.chlo import BroadcastingOp
from xdsl_quant.transforms.building.builder import LoweringBuilder, Size
from xdsl_quant.unsupported import Unsupported

from .data_movement import broadcast
from .elementwise import apply_formula
from .lowering import LinalgLowering, Values


class LowerBroadcasting(LinalgLowering[BroadcastingOp]):
    """Lower `chlo.broadcast_add` and others to the op on operands of one shape."""

    def lower(
        self, builder: LoweringBuilder, op: BroadcastingOp, args: Values
    ) -> Values:
        try:
            shape, dimensions = op.inferred_shape(), op.operand_dimensions()
        except VerifyException as e:
            raise Unsupported(str(e)) from None
        sizes = _merged_sizes(builder, args, dimensions, len(shape))
        operands = [
            value
            if builder.sizes(value) == sizes
            else broadcast(builder, op, value, along, sizes)
            for value, along in zip(args, dimensions, strict=True)
        ]
        return [apply_formula(builder, op, op.applied_name(), operands)]


def _merged_sizes(
    builder: LoweringBuilder,
    values: Values,
    dimensions: Sequence[Sequence[int]],
    rank: int,
) -> Sequence[Size]:
    """Return the sizes of the result; static sizes other than 1 are those of the result."""
    merged: list[Size] = [1] * rank
    for value, along in zip(values, dimensions, strict=True):
        for size, dimension in zip(builder.sizes(value), along, strict=True):
            known = merged[dimension]
            if known == 1 or (isinstance(size, int) and size != 1):
                merged[dimension] = size
            elif not isinstance(known, int) and not isinstance(size, int):
                is_one = builder.add(arith.CmpiOp(known, builder.index(1), "eq"))
                merged[dimension] = builder.add(arith.SelectOp(is_one, size, known))
    return merged
