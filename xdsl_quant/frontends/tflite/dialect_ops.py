"""TensorFlow Lite ops that passes create."""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import QuantizedType, ScaledQuantizedType
from xdsl_quant.dialects.quant.dialect_ops import DialectOps, expressed_type

from . import dialect as tfl


class _TFLOps(DialectOps):
    broadcasts = True
    has_stated_rounding = False
    is_compiled = True
    quantized_constant = tfl.QConstOp

    def accepts(self, element_type: QuantizedType) -> bool:
        return (
            isinstance(element_type, ScaledQuantizedType)
            and element_type.has_integer_storage
        )

    def _requantizes(self, element_type: QuantizedType) -> bool:
        return self.accepts(element_type)

    def quantize(self, value: SSAValue, type_: Attribute) -> Operation:
        return tfl.QuantizeOp.create(
            operands=[value], result_types=[type_], properties={"qtype": type_}
        )

    def dequantize(self, value: SSAValue) -> Operation:
        return tfl.DequantizeOp.create(
            operands=[value], result_types=[expressed_type(value)]
        )

    def multiply(self, lhs: SSAValue, rhs: SSAValue) -> Operation:
        return tfl.MulOp.create(
            operands=[lhs, rhs],
            properties={"fused_activation_function": StringAttr("NONE")},
            result_types=[lhs.type],
        )

    def widen_bias(self, op: Operation, bias: int) -> None:
        """
        Replace a quantized constant bias by plain 64-bit integers, if the op accepts them,
        as convolutions of 16-bit activations do.
        """
        # Lazy import: loading `tfl` must not need NumPy.
        from xdsl_quant.runtime.arrays import dense_elements, elements_attr

        narrow = op.operands[bias]
        constant = narrow.owner
        if not isinstance(constant, tfl.QConstOp):
            return
        value = elements_attr(dense_elements(constant.value).astype("<i8"), i64)
        wide = tfl.ConstOp.create(
            result_types=[value.type], properties={"value": value}
        )
        op.operands[bias] = wide.output
        try:
            op.verify()
        except VerifyException:
            op.operands[bias] = narrow
            return
        wide.location = constant.location
        wide.output.name_hint = narrow.name_hint
        Rewriter.insert_op(wide, InsertPoint.before(constant))
        if narrow.first_use is None:
            Rewriter.erase_op(constant)

    def to_linalg(self, ctx: Context, module: ModuleOp) -> None:
        # Lazy import: only compilation needs the lowering.
        from .lowering import convert_tfl_to_linalg, index_checks

        index_checks.check_indices(module)
        convert_tfl_to_linalg.ConvertTFLToLinalgPass().rewrite(ctx, module)


TFL_OPS = _TFLOps()
