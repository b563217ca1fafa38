"""Float TensorFlow Lite models: contractions that quantize activations at run time."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import BoolAttr, ModuleOp, TensorType, i32
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from xdsl_quant.diagnostics import location_prefix
from xdsl_quant.dialects.quant import DequantizeCastOp, QuantizeCastOp
from xdsl_quant.dialects.quant.ops import stated_attributes
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.weights import LARGEST_F16_SCALE
from xdsl_quant.quantizer.user_warnings import warn_user
from xdsl_quant.runtime.arrays import elements_attr
from xdsl_quant.runtime.loading import apply_passes
from xdsl_quant.runtime.model_dialects import ModelDialect
from xdsl_quant.transforms.statistics.quant_convert_const import QuantConvertConstPass
from xdsl_quant.transforms.weights.quant_quantize_weights import weight_of

from .dialect import (
    ConstOp,
    DepthwiseConv2DOp,
    DequantizeOp,
    EmbeddingLookupOp,
    FullyConnectedOp,
    QuantizeOp,
)
from .dialect_ops import TFL_OPS
from .lowering.kernels import block_type, has_hybrid_kernel
from .lowering.tfl_infer_shapes import set_argument_shapes


class _TFLModels(ModelDialect):
    block_scales = "f16"

    def supports_blocks(self, op: Operation, bits: int) -> bool:
        if not isinstance(op, FullyConnectedOp | EmbeddingLookupOp):
            return False
        weight = weight_of(op, is_quantized=True, includes_tables=True)
        elements = None if weight is None else weight.elements()
        if elements is None:
            return True
        limit = LARGEST_F16_SCALE * (2 ** (bits - 1) - 1)
        largest = float(np.abs(elements).max(initial=0))
        # The quantization refuses numbers that are not finite.
        if not limit < largest < np.inf:
            return True
        warn_user(
            f"{location_prefix(op.location)}'{op.name}' op has a weight of {largest:g}, "
            f"expected at most {limit:g} in blocks of {bits} bits; its weights stay in "
            "floating point"
        )
        return False

    def hybrid_reason(self, product: Operation, weights: SSAValue) -> str | None:
        if block_type(weights.type) is not None:
            return None
        if not isinstance(weights.owner, QuantizeOp) or not has_hybrid_kernel(product):
            return super().hybrid_reason(product, weights)
        type_ = scalar_or_element_type(weights.type)
        assert isinstance(type_, UniformType)
        parameters = QuantizationParameters.from_integer_type(type_)
        if isinstance(product, DepthwiseConv2DOp) and (
            parameters.storage_width != 8 or not parameters.scales.ndim
        ):
            return "LiteRT refuses these weights of a depthwise convolution"
        return None

    def set_zero_points(self, product: Operation, *, wanted: bool) -> None:
        if isinstance(product, FullyConnectedOp):
            product.asymmetric_quantize_inputs = BoolAttr.from_bool(wanted)

    def set_argument_shapes(
        self, module: ModuleOp, function: FuncOp, shapes: Sequence[Sequence[int]]
    ) -> None:
        set_argument_shapes(module, function, shapes)

    def quantize_activations(self, module: ModuleOp) -> None:
        """Fold weights with block scales to constants, which their kernels require."""
        casts = [
            op
            for op in module.walk()
            if isinstance(op, QuantizeCastOp | QuantizeOp)
            and block_type(op.results[0].type) is not None
        ]
        if not casts:
            return
        for op in casts:
            if isinstance(op, QuantizeCastOp):
                # TensorFlow Lite's cast does not verify types of 2 bits.
                new_op = TFL_OPS.quantize(op.input, op.result.type)
                new_op.attributes |= stated_attributes(op)
                Rewriter.replace_op(op, new_op)
        apply_passes(module, [QuantConvertConstPass()], is_routine=True)
        for op in [*module.walk()]:
            if isinstance(op, DequantizeOp | DequantizeCastOp):
                _dequantize_by_lookup(op)


def _dequantize_by_lookup(op: DequantizeOp | DequantizeCastOp) -> None:
    """
    Replace the dequantization of a table or of weights with block scales by a lookup of all
    rows, because LiteRT's `DEQUANTIZE` returns zeros.
    """
    if block_type(op.input.type) is None:
        return
    for use in [*op.results[0].uses]:
        if isinstance(use.operation, EmbeddingLookupOp):
            use.operation.operands[use.index] = op.input
    if op.results[0].first_use is None:
        Rewriter.erase_op(op)
        return
    type_ = op.results[0].type
    assert isinstance(type_, TensorType)
    rows = elements_attr(np.arange(type_.get_shape()[0], dtype=np.int32), i32)
    indices = ConstOp.create(properties={"value": rows}, result_types=[rows.type])
    lookup = EmbeddingLookupOp.create(
        operands=[indices.results[0], op.input], result_types=op.result_types
    )
    indices.location = lookup.location = op.location
    Rewriter.replace_op(op, (indices, lookup))


TFL_MODELS = _TFLModels()
