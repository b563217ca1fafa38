"""TensorFlow Lite's rules for quantized types and op kernels."""

from xdsl_quant.dialects.quant.type_rules import RuleSet

from .kernels import kernel_findings
from .types import TFLiteConstraints, tflite_type_findings

TFLITE_RULES = RuleSet(
    "TensorFlow Lite",
    tflite_type_findings,
    lambda module: TFLiteConstraints(module).findings,
    kernel_findings,
)
