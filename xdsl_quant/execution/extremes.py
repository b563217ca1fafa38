"""
Calls of functions of Python that need no more than the smallest and the largest values.

Compiled code finds them while it computes the values, and calls the function with them.
What it finds are three integers, as LLVM has instructions for these on whole vectors that
need not care for NaN. The bits of a float without its sign are in the order of floats, so
for the bits of some floats

* the largest signed integer is the largest float, if not all are negative,
* the largest unsigned integer is the smallest float, if one is negative,
* the smallest unsigned integer is what is left of the two otherwise.

The bits of NaN are beyond those of infinity on both sides: it is never missed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from xdsl_quant.dialects.quant.types import scalar_or_element_type

from .boundary import Boundary
from .mlir_bindings import bindings, ops_in

_FLOATS = ("f16", "bf16", "f32", "f64")
"""Floats whose bits are in their order."""


def have_extremes(arguments: Sequence[Boundary], axis: int | None) -> bool:
    """Whether compiled code can find the extremes of arguments."""
    if len(arguments) != 1:
        return False
    element_type = scalar_or_element_type(arguments[0].type_)
    is_axis = axis is None or 0 <= axis < len(arguments[0].shape)
    return element_type.name in _FLOATS and is_axis


def extremes_of(bits: Sequence[int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """
    The smallest and the largest of all values; none if there are no values.

    Args:
        bits: the largest signed, the largest unsigned and the smallest unsigned integer,
            all as signed ones.
        dtype: that of the values.
    """
    # With few values this is most of what a call costs, and arrays are slow.
    modulus = 1 << (8 * dtype.itemsize)
    signed, largest, smallest = (integer % modulus for integer in bits)
    if largest < smallest:
        return np.empty(0, dtype)
    is_negative = largest >= modulus // 2
    low = largest if is_negative else smallest
    high = signed if signed < modulus // 2 else smallest
    return np.array((low, high), f"u{dtype.itemsize}").view(dtype)


def extremes_along(
    bits: Sequence[NDArray[Any]], dtype: np.dtype[Any], axis: int
) -> NDArray[Any]:
    """
    The smallest and the largest value for each index of an axis; none if there are no
    values.

    Args:
        bits: the largest signed, the largest unsigned and the smallest unsigned integers.
        dtype: that of the values.
        axis: the axis, which is that of the result, too.
    """
    signed, largest, smallest = bits
    unsigned = f"u{dtype.itemsize}"
    largest, smallest = largest.view(unsigned), smallest.view(unsigned)
    is_negative = largest >= 1 << (8 * dtype.itemsize - 1)
    ends = np.empty((*signed.shape, 2), unsigned)
    ends[..., 0] = np.where(is_negative, largest, smallest)
    ends[..., 1] = np.where(signed >= 0, signed.view(unsigned), smallest)
    ends = ends.view(dtype)
    if (largest < smallest).any():
        ends = ends[..., :0]
    return ends.reshape((1,) * axis + ends.shape)


def find_extremes(module: Any, axes: Mapping[str, int | None]) -> None:
    """
    Let calls have the extremes of their argument.

    Args:
        module: the module, which is changed.
        axes: the functions that are called, each with the axis along which there are
            extremes for each index.
    """
    ir = bindings().ir
    types: dict[str, list[Any]] = {}
    for call in ops_in(module, "func.call"):
        name = call.attributes["callee"].value
        if name in axes:
            with ir.InsertionPoint(call), call.location:
                integers = _reduction(call.operands[0], axes[name])
                bindings().func.call([], name, integers)
            types[name] = [integer.type for integer in integers]
            call.erase()
    for function in ops_in(module, "func.func"):
        name = function.attributes["sym_name"].value
        if name in types:
            type_ = ir.FunctionType.get(types[name], [])
            reads = ir.DictAttr.get({"bufferization.access": ir.StringAttr.get("read")})
            function.attributes["function_type"] = ir.TypeAttr.get(type_)
            function.attributes["arg_attrs"] = ir.ArrayAttr.get(
                [reads] * len(types[name])
            )


def _reduction(values: Any, axis: int | None) -> list[Any]:
    """The three integers, or vectors of them."""
    ir, arith, linalg = bindings().ir, bindings().arith, bindings().linalg
    type_ = values.type
    width = type_.element_type.width
    integer = ir.IntegerType.get_signless(width)
    highest = 1 << (width - 1)
    combine: tuple[tuple[Callable[[Any, Any], Any], int], ...] = (
        (arith.maxsi, -highest),
        (arith.maxui, 0),
        (arith.minui, -1),
    )
    outs = [_filled(values, axis, integer, start) for _, start in combine]
    identity = ir.AffineMap.get_identity(type_.rank)
    kept = [] if axis is None else [ir.AffineExpr.get_dim(axis)]
    reduced = ir.AffineMap.get(type_.rank, 0, kept)
    kinds = ("parallel" if i == axis else "reduction" for i in range(type_.rank))
    generic = linalg.GenericOp(
        [out.type for out in outs],
        [values],
        outs,
        ir.ArrayAttr.get([ir.AffineMapAttr.get(m) for m in (identity, *[reduced] * 3)]),
        ir.ArrayAttr.get(
            [ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]
        ),
    )
    elements = [type_.element_type, *[integer] * 3]
    block = generic.regions[0].blocks.append(
        *elements, arg_locs=[generic.location] * len(elements)
    )
    with ir.InsertionPoint(block):
        value, *sofar = block.arguments
        bits = arith.bitcast(integer, value)
        linalg.YieldOp(
            [step(old, bits) for (step, _), old in zip(combine, sofar, strict=True)]
        )
    return list(generic.results)


def _filled(values: Any, axis: int | None, integer: Any, start: int) -> Any:
    ir, arith, linalg = bindings().ir, bindings().arith, bindings().linalg
    tensor = bindings().tensor
    sizes: list[Any] = []
    if axis is not None:
        index = arith.constant(ir.IndexType.get(), axis)
        is_dynamic = values.type.is_dynamic_dim(axis)
        sizes = [
            tensor.dim(values, index) if is_dynamic else values.type.get_dim_size(axis)
        ]
    empty = tensor.empty(sizes, integer)
    return linalg.fill(arith.constant(integer, start), outs=[empty])
