"""Modules written as ONNX files, whose results onnxruntime computes without optimizer."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime  # pyright: ignore[reportMissingTypeStubs] it has none
import pytest
from numpy.typing import ArrayLike, NDArray
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.frontends.onnx import ONNXFileError, write_onnx
from xdsl_quant.machines.numpy import run_function
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.loading import as_module


def function(arguments: str, results: str, *lines: str) -> str:
    """Return the text of a function; the last line is the list of its results."""
    *ops, returned = lines
    body = "\n  ".join(ops)
    return (
        f"func.func @main({arguments}) -> ({results}) {{\n  {body}\n"
        f"  return {returned} : {results}\n}}"
    )


def written(module: ModuleOp | str) -> onnx.ModelProto:
    """Write a module, and check the file."""
    proto = onnx.load_from_string(write_onnx(as_module(module)))
    cast(Any, onnx.checker).check_model(proto, full_check=True)
    return proto


def op_types(proto: onnx.ModelProto) -> Sequence[str]:
    """Return the names of the nodes in order, without casts between stored values."""
    names = [node.op_type for node in proto.graph.node]
    return [
        name for name in names if name not in ("QuantizeLinear", "DequantizeLinear")
    ]


def file_results(proto: onnx.ModelProto, arguments: Sequence[Array]) -> Sequence[Array]:
    """Return the results of onnxruntime."""
    runtime = cast(Any, onnxruntime)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = runtime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [value.name for value in proto.graph.input]
    return session.run(None, dict(zip(names, arguments, strict=True)))


def check(
    text: str,
    *arguments: ArrayLike,
    atol: float = 0,
    nodes: Sequence[str] | None = None,
) -> onnx.ModelProto:
    """
    Compare the results of a file with those of its module.

    Args:
        text: text of the module.
        arguments: arguments.
        atol: absolute tolerance.
        nodes: expected nodes, without casts; by default not compared.

    Returns:
        The file.
    """
    proto, arrays = written(text), [*map(np.asarray, arguments)]
    expected = run_function(as_module(text), None, *arrays)
    for found, array in zip(file_results(proto, arrays), expected, strict=True):
        array = np.asarray(array)
        assert (found.shape, found.dtype) == (array.shape, array.dtype)
        np.testing.assert_allclose(found, array, rtol=0, atol=atol)
    if nodes is not None:
        assert op_types(proto) == [*nodes]
    return proto


def floats(*shape: int, seed: int = 0, scale: float = 1) -> NDArray[np.float32]:
    """Return seeded normal numbers."""
    values = np.random.default_rng(seed).normal(size=shape, scale=scale)
    return values.astype(np.float32)


def integers(*shape: int, low: int = -20, high: int = 20) -> NDArray[np.int32]:
    """Return seeded integers."""
    return np.random.default_rng(1).integers(low, high, shape, np.int32)


def refusal(text: str) -> str:
    """Return the error message of a module without form in ONNX, without location."""
    with pytest.raises(ONNXFileError) as error:
        write_onnx(as_module(text))
    return str(error.value).partition("error: ")[2] or str(error.value)
