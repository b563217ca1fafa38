"""Float TensorFlow Lite models: contractions that quantize activations at run time."""

from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import Operation, SSAValue

from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.runtime.model_dialects import ModelDialect

from .dialect import DepthwiseConv2DOp, FullyConnectedOp, QuantizeOp
from .lowering.kernels import has_hybrid_kernel


class _TFLModels(ModelDialect):
    def hybrid_reason(self, product: Operation, weights: SSAValue) -> str | None:
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


TFL_MODELS = _TFLModels()
