"""A module that dequantizes and quantizes given tensors, built with the Python API."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    f32,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Region

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    StorageCastOp,
    UniformQuantizedPerAxisType,
    UniformQuantizedType,
)

from .tflite_tensors import QuantizedTensor

DEQUANTIZE_ALL = "dequantize"
"""The function `() -> (tensor<...xf32>, ...)` that dequantizes all tensors."""

QUANTIZE_ALL = "quantize"
"""
The function `(tensor<...xf32>, ...) -> (tensor<...xi8>, ...)` that quantizes floats to the
types of the tensors; results have their storage types.
"""


def quantized_type(
    tensor: QuantizedTensor,
) -> UniformQuantizedType | UniformQuantizedPerAxisType:
    """The element type of a tensor."""
    is_signed = np.issubdtype(tensor.stored.dtype, np.signedinteger)
    if tensor.axis is None:
        return UniformQuantizedType(
            _storage_type(tensor),
            f32,
            float(tensor.scales[0]),
            int(tensor.zero_points[0]),
            is_signed=is_signed,
        )
    return UniformQuantizedPerAxisType(
        _storage_type(tensor),
        f32,
        tensor.scales,
        tensor.zero_points,
        quantized_dimension=tensor.axis,
        is_signed=is_signed,
    )


def build_module(tensors: list[QuantizedTensor]) -> ModuleOp:
    """
    Build a module with three functions for each tensor: one returns its stored values, one
    dequantizes them, and one quantizes any floats of that shape.

    ```mlir
    !q = !quant.uniform<i8:f32, 5.000000e-01>

    func.func private @tensor_0() -> tensor<4x!q> {
      %0 = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi8>
      %1 = quant.scast %0 : tensor<4xi8> to tensor<4x!q>
      func.return %1 : tensor<4x!q>
    }
    func.func private @dequantize_0() -> tensor<4xf32> {
      %0 = func.call @tensor_0() : () -> tensor<4x!q>
      %1 = quant.dcast %0 : tensor<4x!q> to tensor<4xf32>
      func.return %1 : tensor<4xf32>
    }
    func.func private @quantize_0(%0: tensor<4xf32>) -> tensor<4xi8> {
      %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!q>
      %2 = quant.scast %1 : tensor<4x!q> to tensor<4xi8>
      func.return %2 : tensor<4xi8>
    }
    ```

    Two more functions call those of all tensors.

    The ways there and back are two functions because `lower-quant-ops` may fold a quantize
    of a dequantize in one function to nothing.
    """
    functions = [_functions(index, tensor) for index, tensor in enumerate(tensors)]
    module = ModuleOp(
        [
            *(function for group in functions for function in group),
            _call_all(DEQUANTIZE_ALL, [dequantize for _, dequantize, _ in functions]),
            _call_all(QUANTIZE_ALL, [quantize for _, _, quantize in functions]),
        ]
    )
    module.verify()
    return module


def _call_all(name: str, functions: Sequence[FuncOp]) -> FuncOp:
    """A function that calls all `functions`, with all their arguments and results."""
    inputs = [type_ for f in functions for type_ in f.function_type.inputs]
    outputs = [type_ for f in functions for type_ in f.function_type.outputs]
    block = Block(arg_types=inputs)
    arguments = iter(block.args)
    for function in functions:
        operands = [next(arguments) for _ in function.function_type.inputs]
        results = function.function_type.outputs.data
        block.add_op(CallOp(function.sym_name.data, operands, results))
    block.add_op(ReturnOp(*(result for call in block.ops for result in call.results)))
    return FuncOp(name, (inputs, outputs), Region(block))


def _storage_type(tensor: QuantizedTensor) -> IntegerType:
    return IntegerType(8 * tensor.stored.dtype.itemsize)


def _functions(index: int, tensor: QuantizedTensor) -> tuple[FuncOp, FuncOp, FuncOp]:
    shape = tensor.stored.shape
    stored_type = TensorType(_storage_type(tensor), shape)
    tensor_type = TensorType(quantized_type(tensor), shape)
    float_type = TensorType(f32, shape)
    tensor_name = f"tensor_{index}"

    # As bytes the values are printed, and read again, without a look at each of them.
    stored = DenseIntOrFPElementsAttr(stored_type, BytesAttr(tensor.stored.tobytes()))
    constant = ConstantOp(stored)
    view = StorageCastOp(constant, tensor_type)
    values = FuncOp(
        tensor_name,
        ((), (tensor_type,)),
        Region(Block([constant, view, ReturnOp(view)])),
        "private",
    )

    call = CallOp(tensor_name, (), (tensor_type,))
    expressed = DequantizeCastOp(call, float_type)
    dequantize = FuncOp(
        f"dequantize_{index}",
        ((), (float_type,)),
        Region(Block([call, expressed, ReturnOp(expressed)])),
        "private",
    )

    block = Block(arg_types=(float_type,))
    quantized = QuantizeCastOp(block.args[0], tensor_type)
    back = StorageCastOp(quantized, stored_type)
    block.add_ops((quantized, back, ReturnOp(back)))
    quantize = FuncOp(
        f"quantize_{index}", ((float_type,), (stored_type,)), Region(block), "private"
    )
    return values, dequantize, quantize
