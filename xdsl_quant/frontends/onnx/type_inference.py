"""Types of values that ONNX infers, for ops without conversion."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import onnx
from google.protobuf.message import DecodeError
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType

_PROGRAM = """
import sys
import onnx
model = onnx.load_from_string(sys.stdin.buffer.read())
inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
sys.stdout.buffer.write(inferred.SerializeToString())
"""

_SECONDS = 60
"""Time limit of the inference."""


@dataclass(frozen=True, eq=False)
class ValueTypes:
    """Types of values, which the file declares or ONNX infers when one is asked for."""

    proto: onnx.ModelProto

    inputs: Mapping[str, TensorType]
    """Types of the inputs of the model."""

    def get(self, name: str) -> onnx.TypeProto | None:
        """Return the type of a value; `None` if it is unknown."""
        declared = _declared_types(self.proto).get(name)
        is_known = declared is not None and _has_known_sizes(declared)
        return declared if is_known else self._inferred.get(name, declared)

    @cached_property
    def _inferred(self) -> Mapping[str, onnx.TypeProto]:
        sized = onnx.ModelProto()
        sized.CopyFrom(self.proto)
        for value in sized.graph.input:
            sizes = value.type.tensor_type.shape.dim
            shape = self.inputs[value.name].get_shape()
            for dimension, size in zip(sizes, shape, strict=True):
                if size != DYNAMIC_INDEX:
                    dimension.dim_value = size
        inferred = _inferred(sized)
        return {} if inferred is None else _declared_types(inferred)


def _declared_types(model: onnx.ModelProto) -> Mapping[str, onnx.TypeProto]:
    values = (*model.graph.value_info, *model.graph.output)
    return {value.name: value.type for value in values}


def _has_known_sizes(type_: onnx.TypeProto) -> bool:
    tensor = type_.tensor_type
    return tensor.HasField("shape") and all(
        size.HasField("dim_value") for size in tensor.shape.dim
    )


def _inferred(model: onnx.ModelProto) -> onnx.ModelProto | None:
    """Infer types in another process, which invalid nodes may abort."""
    try:
        process = subprocess.run(
            [sys.executable, "-P", "-c", _PROGRAM],
            input=model.SerializeToString(),
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
        return onnx.load_from_string(process.stdout)
    except (OSError, ValueError, subprocess.SubprocessError, DecodeError):
        return None
