"""Modules of one op of TensorFlow Lite."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from xdsl_quant.dialects.quant.types import (
    StoredQuantizedType,
    UniformQuantizedType,
    scalar_or_element_type,
)
from xdsl_quant.runtime.loading import parse_module

Array = NDArray[Any]

_CONSTANT = re.compile(r"(dense<.*?>) : (.*)")


def module_of(
    op: str, properties: str, operands: Sequence[str], results: Sequence[str]
) -> ModuleOp:
    """
    A function that calls an op.

    Args:
        op: the name of the op without `tfl`.
        properties: the text in `<{}>`, and that of attributes in `{}` after a `;`.
        operands: types of arguments, `none`, or constants such as `dense<1> : tensor<i32>`.
        results: types.
    """
    arguments: list[str] = []
    lines: list[str] = []
    types: list[str] = []
    for i, text in enumerate(operands):
        match = _CONSTANT.fullmatch(text)
        type_ = text if match is None else match[2]
        types.append(type_)
        if text == "none":
            lines.append(f'%{i} = "tfl.no_value"() <{{value}}> : () -> none')
        elif match is None:
            arguments.append(f"%{i}: {type_}")
        elif storage := re.search(r"!quant.uniform<[iu](\d+).*>(?=>)", type_):
            stored = type_.replace(storage[0], f"i{storage[1]}")
            constant = f"qtype = {type_}, value = {match[1]} : {stored}"
            lines.append(
                f'%{i} = "tfl.pseudo_qconst"() <{{{constant}}}> : () -> {type_}'
            )
        else:
            constant = f"value = {match[1]} : {type_}"
            lines.append(
                f'%{i} = "tfl.pseudo_const"() <{{{constant}}}> : () -> {type_}'
            )
    count = len(results)
    names = ", ".join(f"%r#{i}" if count > 1 else "%r" for i in range(count))
    values = ", ".join(f"%{i}" for i in range(len(operands)))
    properties, _, attributes = properties.partition(";")
    signature = f"({', '.join(types)}) -> ({', '.join(results)})"
    body = "\n  ".join(lines)
    results_text = ", ".join(results)
    left = f"%r:{count}" if count > 1 else "%r"
    return parse_module(
        f"""func.func @main({", ".join(arguments)}) -> ({results_text}) {{
  {body}
  {left} = "tfl.{op}"({values}) <{{{properties}}}> {{{attributes}}} : {signature}
  return {names} : {results_text}
}}""",
        "model.mlir",
    )


def inputs_of(module: ModuleOp, low: int = -8, high: int = 8) -> Sequence[Array]:
    """
    Values of the arguments: stored values from `low` to below `high`, of u8 from 120.
    """
    function = module.body.block.first_op
    assert isinstance(function, FuncOp)
    random = np.random.default_rng(0)
    return [
        _values(type_, random, low, high) for type_ in function.function_type.inputs
    ]


def _values(
    type_: Attribute, random: np.random.Generator, low: int, high: int
) -> Array:
    element_type = scalar_or_element_type(type_)
    assert isinstance(type_, TensorType)
    shape = type_.get_shape()
    if isinstance(element_type, StoredQuantizedType):
        width = max(element_type.storage_type_integral_width, 8)
        name = f"{'int' if element_type.is_signed else 'uint'}{width}"
        offset = 0 if element_type.is_signed else 128
        return (random.integers(low, high, shape) + offset).astype(name)
    if str(element_type) == "i1":
        return random.integers(0, 2, shape).astype(np.bool_)
    if str(element_type) == "f32":
        return random.normal(size=shape).astype(np.float32)
    return random.integers(low, high, shape).astype(
        str(element_type).replace("i", "int")
    )


def expressed(values: Array, type_: Attribute) -> Array:
    """The numbers that values with one scale stand for."""
    element_type = scalar_or_element_type(type_)
    if not isinstance(element_type, UniformQuantizedType):
        return values.astype(np.float64)
    (scale,), (zero_point,) = (
        element_type.scale_array(),
        element_type.zero_point_array(),
    )
    return (values.astype(np.float64) - zero_point) * scale


def steps_off(stored: Array, numbers: Array, type_: Attribute) -> float:
    """How far a result is from numbers in units of its scale, after clamping."""
    element_type = scalar_or_element_type(type_)
    if not isinstance(element_type, UniformQuantizedType):
        return float(np.abs(stored.astype(np.float64) - numbers).max())
    (scale,) = element_type.scale_array()
    low, high = element_type.storage_range
    bounds = expressed(np.array([low, high]), type_)
    numbers = np.clip(numbers, *bounds)
    return float(np.abs(expressed(stored, type_) - numbers).max() / scale)
