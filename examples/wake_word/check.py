"""Run a model step by step, and compare all its tensors with LiteRT."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import OpResult

from xdsl_quant.dialects.quant import UniformQuantizedType
from xdsl_quant.dialects.tfl import VarHandleOp
from xdsl_quant.execution import compile
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.files.reader import read_tflite_model
from xdsl_quant.frontends.tflite.lowering.convert_tfl_to_linalg import (
    ConvertTFLToLinalgPass,
)
from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.stateful_function import StatefulFunction

_CONSTANTS = ("tfl.pseudo_const", "tfl.pseudo_qconst", "tfl.no_value")


@dataclass
class ModelResult:
    """Results for one model."""

    operators: int
    """Number of ops of the model, without constants."""

    fallbacks: int
    """Number of ops without integer kernel."""

    steps: int

    tensors: int
    """Number of results of these ops."""

    values: int
    """Number of compared values of all tensors in all steps; 0 without LiteRT."""

    wrong: int
    """Number of values that differ from LiteRT."""

    probabilities: NDArray[np.float32]
    """Output of each step."""

    import_seconds: float
    compile_seconds: float

    step_seconds: float
    """Median over all steps."""


class Reference:
    """The reference kernels of LiteRT."""

    def __init__(self, path: Path):
        """
        Raises:
            ImportError: if `ai-edge-litert` is not installed.
        """
        # Only needed for the comparison.
        from ai_edge_litert import (  # pyright: ignore[reportMissingTypeStubs] no stubs
            interpreter as litert,
        )

        runtime: Any = litert
        self._interpreter = runtime.Interpreter(
            str(path),
            experimental_op_resolver_type=runtime.OpResolverType.BUILTIN_REF,
            experimental_preserve_all_tensors=True,
            num_threads=1,
        )
        self._interpreter.allocate_tensors()
        (self._input,) = self._interpreter.get_input_details()
        # The results of the ops, in the order of the ops in the module.
        operators = (
            read_tflite_model(path.read_bytes(), path.name).subgraphs[0].operators
        )
        self._indices = [
            index
            for operator in operators
            if operator.code != "VAR_HANDLE"
            for index in operator.outputs
        ]

    def step(self, frame: NDArray[np.int8]) -> None:
        """Run the model on one input."""
        self._interpreter.set_tensor(self._input["index"], frame)
        self._interpreter.invoke()

    def tensors(self) -> Iterator[NDArray[Any]]:
        """Return the results of all ops of the last step."""
        return map(self._interpreter.get_tensor, self._indices)


def check_model(
    path: Path, features: NDArray[np.float32], reference: Reference | None
) -> ModelResult:
    """
    Compile a streaming model and run it.

    Args:
        path: the `.tflite` file.
        features: the input, shape `[frames, 40]`.
        reference: the reference kernels to compare all tensors with in every step; `None`
            for no comparison.
    """
    start = time.perf_counter()
    module = read_tflite(path)
    imported = time.perf_counter()
    model = StatefulFunction(module, compile)
    compiled = time.perf_counter()

    function = entry_function(module, None)
    frames = [*_frames(function, features)]
    outputs, seconds = _run(model, frames)

    count, wrong = 0, 0
    if reference is not None:
        count, wrong = _compare(module, frames, outputs, reference)
    (result_type,) = function.function_type.outputs
    return ModelResult(
        operators=sum(op.name not in _CONSTANTS for op in function.body.block.ops) - 1,
        fallbacks=_fallback_count(model.module),
        steps=len(frames),
        tensors=len([*_computed_values(function)]),
        values=count,
        wrong=wrong,
        probabilities=np.ravel(dequantize(np.array(outputs), _parameters(result_type))),
        import_seconds=imported - start,
        compile_seconds=compiled - imported,
        step_seconds=float(np.median(seconds)),
    )


def _fallback_count(module: ModuleOp) -> int:
    """Return the number of ops without integer kernel, which are computed with floats."""
    lowered = module.clone()
    ConvertTFLToLinalgPass().apply(Context(), lowered)
    fallbacks = lowered.attributes.get("tfl.fallback")
    return len(cast(ArrayAttr[Any], fallbacks)) if fallbacks is not None else 0


def _parameters(type_: Any) -> QuantizationParameters:
    element_type = type_.element_type
    assert isinstance(element_type, UniformQuantizedType)
    return QuantizationParameters.from_type(element_type)


def _frames(
    function: FuncOp, features: NDArray[np.float32]
) -> Iterator[NDArray[np.int8]]:
    """Return the quantized inputs of the steps; each has several frames of features."""
    (argument,) = function.args
    type_: Any = argument.type
    shape = type_.get_shape()
    stored = quantize(features, _parameters(type_))
    stride = shape[1]
    for first in range(0, len(stored) - stride + 1, stride):
        yield stored[first : first + stride].reshape(shape)


def _run(
    model: StatefulFunction, frames: Sequence[NDArray[np.int8]]
) -> tuple[list[NDArray[Any]], list[float]]:
    """Run all steps; return the output and the seconds of each step."""
    outputs: list[NDArray[Any]] = []
    seconds: list[float] = []
    for frame in frames:
        start = time.perf_counter()
        (output,) = model.step(frame)
        seconds.append(time.perf_counter() - start)
        outputs.append(output)
    return outputs, seconds


# All tensors


def _computed_values(function: FuncOp) -> Iterator[OpResult]:
    """Return the results of all ops except constants."""
    for op in function.body.walk():
        if op.name not in _CONSTANTS and not isinstance(op, VarHandleOp):
            yield from op.results


def returning_all_values(module: ModuleOp) -> ModuleOp:
    """
    Return a copy of a module whose function also returns the results of all its ops:

    ```mlir
    func.func @main(%x: tensor<4x!q>) -> (tensor<4x!q>, tensor<4x!p>, tensor<4x!q>) {
      %0 = "tfl.exp"(%x) : (tensor<4x!q>) -> tensor<4x!p>
      %1 = "tfl.log"(%0) : (tensor<4x!p>) -> tensor<4x!q>
      func.return %1, %0, %1 : tensor<4x!q>, tensor<4x!p>, tensor<4x!q>
    }
    ```
    """
    copy = module.clone()
    function = entry_function(copy, None)
    values = [*_computed_values(function)]
    last = function.get_return_op()
    assert last is not None
    last.detach()
    function.body.block.add_op(ReturnOp(*last.operands, *values))
    last.erase()
    # These attributes have an entry for each result.
    for name in ("res_attrs", "tf.entry_function"):
        function.properties.pop(name, None)
        function.attributes.pop(name, None)
    function.update_function_type()
    return copy


def _compare(
    module: ModuleOp,
    frames: Sequence[NDArray[np.int8]],
    outputs: Sequence[NDArray[Any]],
    reference: Reference,
) -> tuple[int, int]:
    """Return the number of compared values, and of different values."""
    model = StatefulFunction(returning_all_values(module), compile)
    count, wrong = 0, 0
    for frame, output in zip(frames, outputs, strict=True):
        reference.step(frame)
        again, *computed = model.step(frame)
        # The time of a step is that of the original model, compiled separately.
        wrong += count_differences(output, again)
        for expected, array in zip(reference.tensors(), computed, strict=True):
            wrong += count_differences(expected, array)
            count += array.size
    return count, wrong


def count_differences(expected: NDArray[Any], actual: NDArray[Any]) -> int:
    """
    Return the number of elements that differ in any bit.

    Raises:
        ValueError: if shapes or dtypes differ.
    """
    if (expected.shape, expected.dtype) != (actual.shape, actual.dtype):
        raise ValueError(
            f"shapes or dtypes differ: {expected.dtype} {expected.shape} and "
            f"{actual.dtype} {actual.shape}"
        )
    bits = f"u{expected.dtype.itemsize}"
    return int(np.count_nonzero(expected.view(bits) != actual.view(bits)))
