"""Messages for models of one node that cannot be imported."""

from typing import Any

import pytest
from onnx import TensorProto, helper

from xdsl_quant.frontends.onnx import ONNXFileError, read_onnx
from xdsl_quant.numerics.arrays import Array


def import_error(
    op_type: str,
    *values: Array,
    result_count: int = 1,
    opset: int = 21,
    **attributes: Any,
) -> str:
    """Return the message for a node, after the name of the node."""
    names = [f"x{i}" for i in range(len(values))]
    results = [f"y{i}" for i in range(result_count)]
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in zip(names, values, strict=True)
    ]
    node = helper.make_node(op_type, names, results, **attributes)
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N"])
        for name in results
    ]
    graph = helper.make_graph([node], "graph", inputs, outputs)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    with pytest.raises(ONNXFileError) as error:
        read_onnx(model.SerializeToString())
    prefix = f"<bytes>: error: node 'y0' ({op_type}): "
    message = str(error.value)
    assert message.startswith(prefix), message
    return message.removeprefix(prefix)
