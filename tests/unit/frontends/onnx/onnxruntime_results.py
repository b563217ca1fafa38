"""Models of one node, and their results in onnxruntime, which is the oracle."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import ArrayLike, DTypeLike, NDArray
from onnx import helper, numpy_helper

from xdsl_quant.execution import compile
from xdsl_quant.frontends.onnx import ONNXFileError, read_onnx, write_onnx
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array

from .node_cases import check_close


def drawn(
    shape: Sequence[int],
    dtype: DTypeLike = np.float32,
    *,
    low: float = 0.5,
    high: float = 4,
    seed: int = 7,
) -> Array:
    """Return seeded values between two bounds."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def floats(values: ArrayLike) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def integers(values: ArrayLike) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def node_model(
    op_type: str,
    arguments: Mapping[str, Array],
    *,
    operands: Sequence[str],
    constants: Mapping[str, Array] = {},
    results: Sequence[str] = ("y",),
    opset: int = 21,
    is_valid: bool = True,
    **attributes: Any,
) -> bytes:
    """
    Return the bytes of a model of one node.

    Args:
        op_type: name of the op.
        arguments: an array of the type and shape of each input.
        operands: names of the operands; empty for absent ones.
        constants: initializers, by name.
        results: names of the results.
        opset: version of ONNX's ops.
        is_valid: whether ONNX can infer the types of the results; otherwise f32 scalars.
        attributes: attributes of the node.
    """
    node = helper.make_node(op_type, operands, results, **attributes)
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in arguments.items()
    ]
    tensors = [
        numpy_helper.from_array(array, name) for name, array in constants.items()
    ]
    outputs = [
        onnx.ValueInfoProto(name=name)
        if is_valid
        else helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ())
        for name in results
    ]
    graph = helper.make_graph([node], "graph", inputs, outputs, tensors)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10
    )
    if is_valid:
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        for value in model.graph.output:
            if not value.type.HasField("tensor_type"):
                value.type.CopyFrom(inputs[0].type)
    return model.SerializeToString()


def runtime_results(
    model: bytes, arguments: Mapping[str, Array], *, optimizes: bool = False
) -> Sequence[Array]:
    """Return the results of onnxruntime, by default without its optimizer."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    if not optimizes:
        level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = runtime.InferenceSession(model, options)
    return session.run(None, dict(arguments))


def check_node(
    op_type: str,
    *values: ArrayLike | None,
    constants: Sequence[int] = (),
    result_count: int = 1,
    opset: int = 21,
    rtol: float = 1e-6,
    atol: float = 1e-7,
    is_compiled: bool = False,
    **attributes: Any,
) -> None:
    """
    Compare a node, interpreted or compiled, with onnxruntime.

    Args:
        op_type: name of the op.
        values: operands; `None` for an absent one.
        constants: indices of operands that are initializers.
        result_count: number of results.
        opset: version of ONNX's ops.
        rtol: relative tolerance of floats; integers must be equal.
        atol: absolute tolerance.
        is_compiled: whether to compile the module, not only to interpret it.
        attributes: attributes of the node.
    """
    model, arguments = _model(
        op_type, values, constants, result_count, opset, attributes
    )
    expected = runtime_results(model, arguments)
    module = read_onnx(model)
    results: list[Sequence[Array]] = [run_function(module, None, *arguments.values())]
    if is_compiled:
        compiled = compile(module)(*arguments.values())
        results.append([compiled] if result_count == 1 else compiled)
    for found in results:
        for result, array in zip(found, expected, strict=True):
            check_close(result, array, rtol, atol)


def check_written_node(
    op_type: str,
    *values: ArrayLike | None,
    constants: Sequence[int] = (),
    result_count: int = 1,
    opset: int = 21,
    atol: float = 0,
    nodes: Sequence[str] | None = None,
    **attributes: Any,
) -> None:
    """
    Compare the file written for a node that is read with the node itself, in onnxruntime.

    Args:
        op_type: name of the op.
        values: operands; `None` for an absent one.
        constants: indices of operands that are initializers.
        result_count: number of results.
        opset: version of ONNX's ops.
        atol: absolute tolerance.
        nodes: ops of the file; by default not compared.
        attributes: attributes of the node.
    """
    model, arguments = _model(
        op_type, values, constants, result_count, opset, attributes
    )
    file = write_onnx(read_onnx(model))
    results = (runtime_results(each, arguments) for each in (file, model))
    for found, expected in zip(*results, strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
    if nodes is not None:
        proto = onnx.load_from_string(file)
        assert [node.op_type for node in proto.graph.node] == [*nodes]


def import_error(
    op_type: str,
    *values: ArrayLike | None,
    constants: Sequence[int] = (),
    opset: int = 21,
    **attributes: Any,
) -> str:
    """Return the message of an unsupported node `y`: see `check_node`."""
    names, known, arguments = _operands(values, constants)
    model = node_model(
        op_type,
        arguments,
        operands=names,
        constants=known,
        opset=opset,
        is_valid=False,
        **attributes,
    )
    with pytest.raises(ONNXFileError) as error:
        read_onnx(model)
    return str(error.value).removeprefix(f"<bytes>: error: node 'y' ({op_type}): ")


def _model(
    op_type: str,
    values: Sequence[ArrayLike | None],
    constants: Sequence[int],
    result_count: int,
    opset: int,
    attributes: Mapping[str, Any],
) -> tuple[bytes, Mapping[str, Array]]:
    """Return the model of a node with results `y0`, ..., and its arguments."""
    names, known, arguments = _operands(values, constants)
    model = node_model(
        op_type,
        arguments,
        operands=names,
        constants=known,
        results=[f"y{i}" for i in range(result_count)],
        opset=opset,
        **attributes,
    )
    return model, arguments


def _operands(
    values: Sequence[ArrayLike | None], constants: Sequence[int]
) -> tuple[Sequence[str], Mapping[str, Array], Mapping[str, Array]]:
    """Return the names of operands, the constants, and the arguments."""
    names = ["" if value is None else f"x{i}" for i, value in enumerate(values)]
    arrays = {
        name: np.asarray(v) for name, v in zip(names, values, strict=True) if name
    }
    known = {f"x{i}": arrays[f"x{i}"] for i in constants}
    return names, known, {k: v for k, v in arrays.items() if k not in known}
