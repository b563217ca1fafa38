"""Plugin declarations of the check of quantized types."""

from xdsl_quant.runtime.plugins import QuantizationUniverse, pass_factories

SLICE = QuantizationUniverse(
    all_passes=pass_factories("inspecting", ("verify-quant-constraints",))
)
