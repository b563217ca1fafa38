"""
Quantization and dequantization by other libraries, which the extra `bench` installs.

All round half to even and saturate, like the kernels compared with them.
"""

import warnings
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measuring import Kernel
from xdsl_quant.numerics import QuantizationParameters


def peers(
    parameters: QuantizationParameters,
    source: NDArray[Any],
    result: NDArray[Any],
    quantizing: bool,
) -> Iterator[tuple[str, Kernel]]:
    """Yield the kernels of the installed libraries that support this case."""
    if find_spec("onnxruntime") and find_spec("onnx"):
        model = _onnx_model(parameters, source, result, quantizing)
        yield "onnxruntime", onnxruntime_kernel(model, source, result)
    if find_spec("torch") and parameters.block_sizes is None:
        yield "torch", _torch_kernel(parameters, source, quantizing)


def onnxruntime_kernel(
    model: bytes,
    source: NDArray[Any],
    result: NDArray[Any],
    other: NDArray[Any] | None = None,
) -> Kernel:
    """Return a model with one op from `source`, and optionally `other`, to `result`."""
    onnxruntime: Any = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model,
        options,
        providers=["CPUExecutionProvider"],
    )
    # Write to an existing array, like all other kernels.
    binding = session.io_binding()
    for bind, name, array in (
        (binding.bind_input, "source", source),
        (binding.bind_output, "result", result),
    ):
        bind(name, "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
    if other is not None:
        type_ = other.dtype.type
        binding.bind_input("other", "cpu", 0, type_, other.shape, other.ctypes.data)
    # The binding holds addresses, and does not keep the arrays alive.
    return lambda _arrays=(source, other, result): session.run_with_iobinding(binding)


def _onnx_model(
    parameters: QuantizationParameters,
    source: NDArray[Any],
    result: NDArray[Any],
    quantizing: bool,
) -> bytes:
    onnx: Any = import_module("onnx")
    from_array = onnx.numpy_helper.from_array
    attributes: dict[str, int] = {}
    if parameters.quantized_dimension is not None:
        attributes["axis"] = parameters.quantized_dimension
    if parameters.block_sizes is not None:
        # A block has size 1 along all other dimensions.
        attributes["axis"], attributes["block_size"] = max(
            parameters.block_sizes, key=lambda pair: pair[1]
        )
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node(
                "QuantizeLinear" if quantizing else "DequantizeLinear",
                ["source", "scales", "zero_points"],
                ["result"],
                **attributes,
            )
        ],
        "kernel",
        [onnx_value(onnx, "source", source)],
        [onnx_value(onnx, "result", result)],
        [
            from_array(parameters.scales.astype(np.float32), "scales"),
            from_array(parameters.zero_points.astype(np.int8), "zero_points"),
        ],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10
    )
    return model.SerializeToString()


def onnx_value(onnx: Any, name: str, array: NDArray[Any]) -> Any:
    """Return the declaration of a value with the type and shape of an array."""
    element_type = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return onnx.helper.make_tensor_value_info(name, element_type, array.shape)


def _torch_kernel(
    parameters: QuantizationParameters, source: NDArray[Any], quantizing: bool
) -> Kernel:
    torch: Any = import_module("torch")
    torch.set_num_threads(1)
    # torch warns that quantized tensors will be removed in a future release.
    warnings.simplefilter("ignore", UserWarning)
    expressed = source if quantizing else np.zeros(source.shape, np.float32)
    tensor = torch.from_numpy(expressed)
    dimension = parameters.quantized_dimension
    scales = torch.from_numpy(np.array(parameters.scales))
    zero_points = torch.from_numpy(np.array(parameters.zero_points))

    def quantize() -> Any:
        if dimension is None:
            return torch.quantize_per_tensor(
                tensor, float(scales), int(zero_points), torch.qint8
            )
        return torch.quantize_per_channel(
            tensor, scales, zero_points, dimension, torch.qint8
        )

    if quantizing:
        return quantize
    quantized = quantize()
    quantized.int_repr()
    return quantized.dequantize
