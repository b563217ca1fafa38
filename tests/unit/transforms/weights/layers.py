"""Small networks whose layers are changed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.machines.numpy import run_function
from xdsl_quant.runtime.loading import apply_passes

Array = NDArray[Any]

TO_LINALG = (
    "convert-tfl-to-linalg,convert-stablehlo-to-linalg,"
    "lower-quant-ops{rounding-mode=nearest-even},canonicalize"
)

CONVOLUTION = """dilation_h_factor = 1 : i32, dilation_w_factor = 1 : i32,
    padding = "SAME", stride_h = 1 : i32, stride_w = 1 : i32"""


def run(module: ModuleOp, *arguments: Array) -> Array:
    copy = module.clone()
    apply_passes(copy, TO_LINALG, is_routine=True)
    (result,) = run_function(copy, "main", *arguments)
    return result


def type_of(*shape: int) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}f32>"


def constant(name: str, values: Array, op: str) -> str:
    """A constant of a dialect, with all digits of its numbers."""
    data = values.astype("<f4")
    type_ = type_of(*data.shape)
    text = f'dense<"0x{data.tobytes().hex()}"> : {type_}'
    if not data.shape or (data == data.flat[0]).all():
        text = f"dense<{float(data.flat[0]):.9e}> : {type_}"
    if op == "tfl":
        return f'%{name} = "tfl.pseudo_const"() <{{value = {text}}}> : () -> {type_}'
    return f"%{name} = {op}.constant {text}"


def normal(*shape: int, seed: int = 0) -> Array:
    values = np.random.default_rng(seed).normal(size=shape)
    return values.astype(np.float32)


def relative(expected: Array, actual: Array) -> float:
    """The largest difference, as a part of the largest number."""
    return float(np.abs(expected - actual).max() / np.abs(expected).max())
