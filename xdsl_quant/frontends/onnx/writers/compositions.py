"""Writers of compositions of ops for which ONNX has one op: softmax and means."""

import math
from collections.abc import Mapping

from xdsl.ir import Operation

from xdsl_quant.frontends.onnx.graph_writer import GraphWriter, Writer, known_number
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.softmax import match_softmax
from xdsl_quant.transforms.building.builder import shape_of

from .elementwise import write_elementwise
from .reductions import is_sum, pooled, reduced, window_element_count


def _divide(w: GraphWriter, op: stablehlo.DivideOp) -> None:
    """Write a division, or the composition that it ends; unused nodes are removed."""
    divisor, name = known_number(op.rhs), w.value_name(op.result)
    match op.lhs.owner:
        case stablehlo.ExponentialOp() if (softmax := match_softmax(op)) is not None:
            layout = w.layout(softmax.operand)
            inputs, axis = [w.operand(softmax.operand, layout)], softmax.axis
            tensor = w.node("Softmax", inputs, name, axis=layout.index(axis))
            w.result(op.result, tensor, layout)
        case stablehlo.ReduceOp() as total if is_sum(
            total
        ) and divisor == _reduced_count(total):
            w.result(op.result, *reduced(w, total, "ReduceMean", name))
        case stablehlo.ReduceWindowOp() as total if is_sum(
            total
        ) and divisor == window_element_count(total):
            w.result(op.result, *pooled(w, total, "AveragePool", name))
        case _:
            write_elementwise("Div", w, op)


def _reduced_count(op: stablehlo.ReduceOp) -> int:
    shape = shape_of(op.inputs[0])
    return math.prod(shape[dimension] for dimension in op.dimensions.get_values())


COMPOSITION_WRITERS: Mapping[type[Operation], Writer] = {stablehlo.DivideOp: _divide}
"""Writers of the last ops of compositions, by op."""
