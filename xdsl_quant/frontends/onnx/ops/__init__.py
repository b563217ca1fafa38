"""Conversions of ONNX ops to StableHLO, by op."""

from collections.abc import Mapping

from xdsl_quant.frontends.onnx.graph_builder import Conversion

from .control_flow import CONTROL_FLOW
from .data_movement import DATA_MOVEMENT
from .element_types import ELEMENT_TYPES
from .elementwise import ELEMENTWISE
from .fourier import FOURIER
from .fused import FUSED
from .indexing import INDEXING
from .normalization import NORMALIZATION
from .products import PRODUCTS
from .qonnx import QONNX
from .quantized import QUANTIZED
from .quantized_kernels import QUANTIZED_KERNELS, with_quantized_moves
from .recurrent import RECURRENT
from .reduction import REDUCTION
from .resize import RESIZE
from .sampling import SAMPLING
from .windows import WINDOWS

CONVERSIONS: Mapping[str, Conversion] = with_quantized_moves(
    {
        **CONTROL_FLOW,
        **DATA_MOVEMENT,
        **ELEMENT_TYPES,
        **ELEMENTWISE,
        **FOURIER,
        **FUSED,
        **INDEXING,
        **NORMALIZATION,
        **PRODUCTS,
        **QONNX,
        **QUANTIZED,
        **QUANTIZED_KERNELS,
        **RECURRENT,
        **REDUCTION,
        **RESIZE,
        **SAMPLING,
        **WINDOWS,
    }
)
"""Conversion of each op, by its name, see `Node.op_type`."""
