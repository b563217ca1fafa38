"""Files of one op, made from cases of the reference kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.unit.frontends.tflite.formulas.cases import Case
from tests.unit.frontends.tflite.formulas.cases import Tensor as CaseTensor
from xdsl_quant.frontends.tflite.files.model import (
    ABSENT,
    Model,
    Operator,
    Subgraph,
    Tensor,
    TensorQuantization,
)
from xdsl_quant.frontends.tflite.files.reader import default_options
from xdsl_quant.frontends.tflite.files.schema import options_name

DTYPES: dict[str, Any] = {
    "FLOAT32": np.float32,
    "INT4": np.int8,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "BOOL": np.bool_,
}


def _bytes(tensor: CaseTensor) -> Any:
    array = tensor.array.astype(DTYPES[tensor.type]).ravel()
    if tensor.type != "INT4":
        return array.view(np.uint8)
    nibbles = np.append(array.view(np.uint8) & 15, np.zeros(array.size % 2, np.uint8))
    return nibbles[::2] | nibbles[1::2] << 4


def tensor_of(tensor: CaseTensor, name: str) -> Tensor:
    """A tensor of a file."""
    quantization = None
    if tensor.scales:
        quantization = TensorQuantization(
            np.array(tensor.scales, np.float32),
            np.array(tensor.zero_points, np.int64),
            tensor.axis or 0,
        )
    data = _bytes(tensor) if tensor.is_constant else None
    shape = list(tensor.array.shape)
    return Tensor(
        name,
        tensor.type,
        shape,
        None,
        data,
        quantization,
        is_variable=tensor.is_variable,
    )


def model_of(case: Case) -> Model:
    """A model of the op of a case, whose inputs are the operands that are no constants."""
    tensors: list[Tensor] = []
    inputs: list[int] = []
    arguments: list[int] = []
    for position, operand in enumerate(case.operands):
        if operand is None:
            inputs.append(ABSENT)
            continue
        inputs.append(len(tensors))
        tensors.append(tensor_of(operand, f"operand_{position}"))
        if not operand.is_constant and not operand.is_variable:
            arguments.append(inputs[-1])
    outputs = [*range(len(tensors), len(tensors) + len(case.results))]
    tensors += [
        tensor_of(result, f"result_{i}") for i, result in enumerate(case.results)
    ]
    intermediates = tuple(range(len(tensors), len(tensors) + len(case.intermediates)))
    tensors += [
        tensor_of(tensor, f"intermediate_{i}")
        for i, tensor in enumerate(case.intermediates)
    ]
    table = options_name(case.op)
    options = {**default_options(table), **case.options} if table else {}
    operator = Operator(case.op, inputs, outputs, options, intermediates=intermediates)
    return Model([Subgraph("main", tensors, arguments, outputs, [operator])])


def inputs_of(case: Case) -> list[NDArray[Any]]:
    """The values of the inputs of a model."""
    return [
        operand.array.astype(DTYPES[operand.type])
        for operand in case.operands
        if operand and not operand.is_constant and not operand.is_variable
    ]
