"""StableHLO ops that passes create."""

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.dialects.quant import QuantizedType
from xdsl_quant.dialects.quant.dialect_ops import DialectOps

from . import dialect as stablehlo
from .dialect.tensor_kinds import element_kind


class _StableHLOOps(DialectOps):
    has_accumulators = True
    is_lowered_in_kernels = True

    def accepts(self, element_type: QuantizedType) -> bool:
        return element_kind(element_type) is not None

    def _requantizes(self, element_type: QuantizedType) -> bool:
        return self.accepts(element_type)

    def quantize(self, value: SSAValue, type_: Attribute) -> Operation:
        return stablehlo.UniformQuantizeOp(value, result_types=[type_])

    def dequantize(self, value: SSAValue) -> Operation:
        return stablehlo.UniformDequantizeOp(value)

    def add(self, lhs: SSAValue, rhs: SSAValue) -> Operation:
        return stablehlo.AddOp(lhs, rhs)

    def multiply(self, lhs: SSAValue, rhs: SSAValue) -> Operation:
        return stablehlo.MultiplyOp(lhs, rhs)

    def broadcast_to(
        self, value: SSAValue, dimensions: Sequence[int], type_: Attribute
    ) -> Operation:
        return stablehlo.BroadcastInDimOp(
            value, result_types=[type_], broadcast_dimensions=dimensions
        )

    def to_linalg(self, ctx: Context, module: ModuleOp) -> None:
        # Loaded lazily: only modules that are run or exported are lowered.
        from .lowering.convert_stablehlo_to_linalg import ConvertStableHLOToLinalgPass

        ConvertStableHLOToLinalgPass().rewrite(ctx, module)


STABLEHLO_OPS = _StableHLOOps()
