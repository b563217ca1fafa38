"""Cases as modules of TOSA, validated and lowered by MLIR, and executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp

from tests.conformance.real_mlir import Mlir
from tests.unit.frontends.tflite.files.models import DTYPES, model_of
from tests.unit.frontends.tflite.formulas.cases import Case, Tensor
from xdsl_quant.execution import compile
from xdsl_quant.execution.compiled_function import CompiledFunction
from xdsl_quant.frontends.tflite import read_tflite
from xdsl_quant.frontends.tflite.files.writer import write_model
from xdsl_quant.frontends.tflite.formulas.elementwise import quantize
from xdsl_quant.frontends.tflite.formulas.products import fully_connected
from xdsl_quant.frontends.tflite.lowering.convert_tfl_to_tosa import (
    ConvertTFLToTosaPass,
)
from xdsl_quant.frontends.tflite.lowering.tfl_variables_to_arguments import (
    TFLVariablesToArgumentsPass,
)
from xdsl_quant.numerics import dequantize

VALIDATE = (
    "tosa-attach-target{specification_version=1.1.draft level=none profiles=pro_int,pro_fp "
    "extensions=int16,int4,int64,doubleround,inexactround,dynamic},"
    "tosa-validate{strict-op-spec-alignment}"
)


def validated(mlir: Mlir, module: ModuleOp) -> Any:
    """What MLIR says about the ops of TOSA, given the extensions that there are."""
    return mlir.run(str(module), VALIDATE)


def executable(module: ModuleOp) -> CompiledFunction:
    """The compiled function `main` of a module of TOSA."""
    return compile(module, "main")


def group_of(case: Case) -> str:
    """The op of a case and the variant of its storage."""
    return case.name.partition(" ")[0]


def converted(case: Case, fallback: Literal["on", "off"] = "off") -> ModuleOp:
    """A case as TOSA."""
    module = read_tflite(write_model(model_of(case)))
    TFLVariablesToArgumentsPass().apply(Context(), module)
    ConvertTFLToTosaPass(fallback=fallback).apply(Context(), module)
    module.verify()
    return module


def as_signless(array: NDArray[Any]) -> NDArray[Any]:
    """The bits of `u8` as `i8`, and any other array as it is."""
    return array.view(np.int8) if array.dtype == np.uint8 else array


def with_multiplier(case: Case) -> NDArray[Any]:
    """What `fully_connected` gives with a multiplier instead of a float of 64 bits."""
    x, weights, bias = (*case.operands, None)[:3]
    assert x is not None
    assert weights is not None
    activations = "NONE", "RELU", "RELU_N1_TO_1", "RELU6"
    index: int = case.options.get("fused_activation_function", 0)
    return fully_connected(
        x.quantized,
        weights.quantized,
        None if bias is None else bias.array,
        case.results[0].parameters,
        activations[index],
        case.options.get("keep_num_dims", False),
        has_multiplier=True,
    )


def expected_of(case: Case) -> Sequence[NDArray[Any]]:
    """The integers that are expected of a case."""
    arrays = [result.array.astype(DTYPES[result.type]) for result in case.results]
    if case.op == "FULLY_CONNECTED":
        value = with_multiplier(case).astype(arrays[0].dtype)
        assert np.abs(value.astype(np.int64) - arrays[0]).max() <= 1
        arrays = [value]
    return [*map(as_signless, arrays)]


def arguments_of(module: ModuleOp, values: Sequence[Any]) -> list[NDArray[Any]]:
    """Some values as arguments of a module, and a state of zeros."""
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    types = cast(
        "Sequence[TensorType]", function.function_type.inputs.data[len(values) :]
    )
    states = [
        np.zeros(type_.get_shape(), np.float32 if type_.element_type == f32 else "i2")
        for type_ in types
    ]
    return [*map(as_signless, (*values, *states))]


def run(module: ModuleOp, values: Sequence[Any]) -> Sequence[Any]:
    """What a module computes of some values and of a state of zeros."""
    computed: Any = executable(module)(*arguments_of(module, values))
    return cast(
        "Sequence[Any]", computed if isinstance(computed, tuple) else (computed,)
    )


# Fallbacks


def _product(x: Any, axes: Any) -> Any:
    return np.prod(x, axis=tuple(axes.ravel().tolist()))


def _floor_div(x: Any, y: Any) -> Any:
    return np.floor(x / y)


FALLBACKS: Mapping[str, Callable[..., Any]] = {
    "NEG": np.negative,
    "FLOOR_DIV": _floor_div,
    "FLOOR_MOD": np.mod,
    "REDUCE_PROD": _product,
    "SQRT/16": np.sqrt,
    "DIV": np.divide,
    "POW": np.power,
}
"""What the ops compute of real numbers."""


def expressed(tensor: Tensor | None) -> NDArray[Any]:
    """The real numbers of an operand."""
    assert tensor is not None
    if not tensor.scales:
        return tensor.array
    return dequantize(tensor.array.astype(DTYPES[tensor.type]), tensor.parameters)


def fallback_of(case: Case) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The stored values of an op of real numbers, and where these are finite."""
    (result,) = case.results
    with np.errstate(all="ignore"):
        real = FALLBACKS[group_of(case)](*map(expressed, case.operands))
    real = np.reshape(real, result.array.shape)
    exact = quantize(np.asarray(real, np.float32), result.parameters)
    return exact, np.isfinite(real)
