"""Writers of ONNX nodes for StableHLO ops, by op."""

from collections.abc import Mapping

from xdsl.ir import Operation

from xdsl_quant.frontends.onnx.graph_writer import Writer

from .casts import CAST_WRITERS
from .compositions import COMPOSITION_WRITERS
from .control_flow import CONTROL_FLOW_WRITERS
from .data_movement import MOVEMENT_WRITERS
from .elementwise import ELEMENTWISE_WRITERS
from .indexing import INDEXING_WRITERS
from .products import PRODUCT_WRITERS
from .reductions import REDUCTION_WRITERS

WRITERS: Mapping[type[Operation], Writer] = {
    **CAST_WRITERS,
    **COMPOSITION_WRITERS,
    **CONTROL_FLOW_WRITERS,
    **ELEMENTWISE_WRITERS,
    **INDEXING_WRITERS,
    **MOVEMENT_WRITERS,
    **PRODUCT_WRITERS,
    **REDUCTION_WRITERS,
}
"""Writers of all ops, by op."""
