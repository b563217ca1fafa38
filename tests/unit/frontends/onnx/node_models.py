"""Models of one node, compared with onnxruntime, whose optimizer is off."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime  # pyright: ignore[reportMissingTypeStubs] it has none
import pytest
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.execution import compile
from xdsl_quant.frontends.onnx import ONNXFileError, read_onnx
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array

from .node_cases import check_close


@dataclass(frozen=True)
class NodeModel:
    """A model of one node, and its arguments."""

    proto: onnx.ModelProto
    arguments: Mapping[str, Array]

    def module(self) -> ModuleOp:
        """Import the model."""
        return read_onnx(self.proto.SerializeToString())

    def expected(self) -> Sequence[Array]:
        """Return the results of onnxruntime."""
        runtime = cast(Any, onnxruntime)
        options = runtime.SessionOptions()
        options.graph_optimization_level = (
            runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        )
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        session = runtime.InferenceSession(
            self.proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, self.arguments)

    def check(
        self, rtol: float = 0, atol: float = 0, *, compiled: bool = False
    ) -> None:
        """Compare the results of the interpreter, or of compiled code."""
        module, arguments = self.module(), self.arguments.values()
        if compiled:
            found: Any = compile(module)(*arguments)
            results = cast(
                "Sequence[Array]", found if isinstance(found, tuple) else (found,)
            )
        else:
            results = run_function(module, None, *arguments)
        for result, expected in zip(results, self.expected(), strict=True):
            if atol >= 1:
                # Integers that may differ.
                expected, result = (
                    expected.astype(np.float64),
                    result.astype(np.float64),
                )
            check_close(result, expected, rtol, atol)


def node_model(
    op_type: str,
    operands: Sequence[Array | None],
    constants: Collection[int] = (),
    *,
    results: int = 1,
    opset: int = 18,
    **attributes: Any,
) -> NodeModel:
    """
    Return a model of one node.

    Args:
        op_type: name of the op.
        operands: operands of the node; `None` for an absent one.
        constants: positions of operands that are initializers.
        results: number of results.
        opset: opset version of the model.
        attributes: attributes of the node.
    """
    names = ["" if array is None else f"x{i}" for i, array in enumerate(operands)]
    outputs = [f"y{i}" for i in range(results)]
    node = onnx.helper.make_node(op_type, names, outputs, **attributes)
    arrays = {
        name: array
        for name, array in zip(names, operands, strict=True)
        if array is not None
    }
    known = {f"x{position}" for position in constants}
    types = {
        name: onnx.helper.make_tensor_type_proto(
            onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in arrays.items()
    }
    graph = onnx.helper.make_graph(
        [node],
        "graph",
        [
            onnx.helper.make_value_info(name, type_)
            for name, type_ in types.items()
            if name not in known
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [
            onnx.numpy_helper.from_array(array, name)
            for name, array in arrays.items()
            if name in known
        ],
    )
    opsets = [onnx.helper.make_opsetid("", opset)]
    proto = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    # The checker requires types of results, also of nodes that are invalid otherwise.
    proto = onnx.shape_inference.infer_shapes(proto)
    for value in proto.graph.output:
        if not value.type.HasField("tensor_type"):
            value.CopyFrom(
                onnx.helper.make_tensor_value_info(
                    value.name, onnx.TensorProto.FLOAT, [None]
                )
            )
    return NodeModel(proto, {n: a for n, a in arrays.items() if n not in known})


def integers(*numbers: int) -> Array:
    """Return a vector of i64, such as axes, sizes or indices."""
    return np.array(numbers, np.int64)


def refusal(model: NodeModel) -> str:
    """Return the error message of the import, without the name of the file."""
    with pytest.raises(ONNXFileError) as error:
        model.module()
    return str(error.value).removeprefix("<bytes>: error: ")
