"""Plugin declarations of the passes on layers of float models."""

from xdsl_quant.runtime.plugins import QuantizationUniverse, pass_factories

SLICE = QuantizationUniverse(all_passes=pass_factories("transforms.float_layers"))
