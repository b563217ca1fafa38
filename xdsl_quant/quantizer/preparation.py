"""
Preparation of a float model: the same computation in the form that kernels are fused from.

Frontends such as jax print small private functions, casts to the same type, and weights and
biases as chains of ops on constants.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    TensorType,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.runtime.arrays import constant_elements
from xdsl_quant.runtime.entry_function import functions_by_name, symbols_in

_MAX_INLINED_OPS = 64
"""Most ops of a function that is inlined."""


def prepare(module: ModuleOp, entry: FuncOp) -> None:
    """
    Inline small private functions, remove casts to the same type, and fold moves of
    constants.

    Args:
        module: the float model, which changes.
        entry: the function that takes the samples. It is kept.
    """
    inline_small_functions(module, entry)
    for op in [*module.walk()]:
        _remove_identity(op)
        _remove_maximum(op)
        _fold_moved_constant(op)
        _combine_broadcasts(op)


# Functions


def inline_small_functions(module: ModuleOp, entry: FuncOp) -> None:
    """
    Replace calls of small private functions by their ops, and remove these functions if
    nothing refers to them any more.
    """
    functions = functions_by_name(module)
    done: set[str] = set()
    for name in functions:
        _inline_calls_in(name, functions, done)
    used = {*symbols_in(module)}
    for name, function in functions.items():
        if _is_private(function) and function is not entry and name not in used:
            Rewriter.erase_op(function)


def _inline_calls_in(name: str, functions: dict[str, FuncOp], done: set[str]) -> None:
    """Inline the calls in a function, after those in the functions that it calls."""
    if name in done:
        return
    done.add(name)
    for call in [op for op in functions[name].walk() if isinstance(op, CallOp)]:
        callee = call.callee.root_reference.data
        if callee not in functions or callee == name:
            continue
        _inline_calls_in(callee, functions, done)
        if _is_inlined(functions[callee]):
            _inline(call, functions[callee])


def _is_private(function: FuncOp) -> bool:
    visibility = function.sym_visibility
    return visibility is not None and visibility.data == "private"


def _is_inlined(function: FuncOp) -> bool:
    if not _is_private(function) or len(function.body.blocks) != 1:
        return False
    ops = [*function.walk()]
    return (
        isinstance(function.body.block.last_op, ReturnOp)
        and len(ops) <= _MAX_INLINED_OPS
        # A function that calls itself, or one of its callers, is none of ops alone.
        and not any(isinstance(op, CallOp) for op in ops)
    )


def _inline(call: CallOp, function: FuncOp) -> None:
    *ops, terminator = function.body.block.ops
    arguments = function.body.block.args
    values: dict[SSAValue, SSAValue] = dict(zip(arguments, call.operands, strict=True))
    copies = [op.clone(values) for op in ops]
    results = [values.get(value, value) for value in terminator.operands]
    Rewriter.replace_op(call, copies, results)


# Ops


def _remove_identity(op: Operation) -> None:
    """Remove a cast to the same type."""
    if isinstance(op, stablehlo.ConvertOp) and op.operand.type == op.result.type:
        Rewriter.replace_op(op, (), (op.operand,))


def _remove_maximum(op: Operation) -> None:
    """Remove a maximum of a value and negative infinity, which jax prints in a softmax."""
    if not isinstance(op, stablehlo.MaximumOp):
        return
    for value, other in (op.operands, reversed(op.operands)):
        if value.type == op.results[0].type and _is_negative_infinity(other):
            Rewriter.replace_op(op, (), (value,))
            erase_unused(other.owner)
            return


def _is_negative_infinity(value: SSAValue) -> bool:
    while isinstance(value.owner, stablehlo.BroadcastInDimOp):
        value = value.owner.operands[0]
    if not isinstance(value.owner, stablehlo.ConstantOp):
        return False
    elements = constant_elements(value)
    return elements is not None and bool(np.all(elements == -np.inf))


def _fold_moved_constant(op: Operation) -> None:
    """
    Replace a transpose or reshape of a constant by a constant, so that weights keep the
    dimension of their channels.
    """
    if not isinstance(op, stablehlo.TransposeOp | stablehlo.ReshapeOp):
        return
    source, type_ = op.operands[0].owner, op.results[0].type
    if not isinstance(source, stablehlo.ConstantOp) or not _is_float_tensor(type_):
        return
    elements = constant_elements(source.output)
    assert elements is not None
    if isinstance(op, stablehlo.TransposeOp):
        elements = elements.transpose(op.permutation.get_values())
    elements = elements.reshape(type_.get_shape())
    Rewriter.replace_op(op, _constant(source, elements))
    erase_unused(source)


def _combine_broadcasts(op: Operation) -> None:
    """
    Replace a chain of broadcasts of a constant by one broadcast of a constant without
    dimensions of size 1, as bias correction expects it.
    """
    if not isinstance(op, stablehlo.BroadcastInDimOp):
        return
    dimensions = op.broadcast_dimensions.get_values()
    inner, constant = op.operands[0].owner, op.operands[0].owner
    if isinstance(inner, stablehlo.BroadcastInDimOp):
        constant = inner.operands[0].owner
        dimensions = [dimensions[i] for i in inner.broadcast_dimensions.get_values()]
    if not isinstance(constant, stablehlo.ConstantOp) or not _is_float_tensor(
        constant.output.type
    ):
        return
    shape = constant.output.type.get_shape()
    if constant is inner and 1 not in shape:
        return
    elements = constant_elements(constant.output)
    assert elements is not None
    copy = _constant(constant, elements.squeeze())
    kept = [to for to, size in zip(dimensions, shape, strict=True) if size != 1]
    broadcast = stablehlo.BroadcastInDimOp(copy.output, kept, op.results[0].type)
    broadcast.location = op.location
    Rewriter.replace_op(op, (copy, broadcast))
    erase_unused(inner)


def _is_float_tensor(type_: Attribute) -> TypeGuard[TensorType[AnyFloat]]:
    is_float = isinstance(scalar_or_element_type(type_), AnyFloat)
    return is_float and isinstance(type_, TensorType)


def _constant(
    source: stablehlo.ConstantOp, elements: NDArray[Any]
) -> stablehlo.ConstantOp:
    """A constant with the element type and location of another one."""
    element_type = scalar_or_element_type(source.output.type)
    assert isinstance(element_type, AnyFloat)
    type_ = TensorType(element_type, elements.shape)
    data = BytesAttr(np.ascontiguousarray(elements).tobytes())
    constant = stablehlo.ConstantOp(DenseIntOrFPElementsAttr(type_, data))
    constant.location = source.location
    constant.output.name_hint = source.output.name_hint
    return constant


def erase_unused(op: Operation | Block) -> None:
    """Erase a constant or its broadcast, and then the operand, if nothing uses them."""
    if isinstance(op, Operation) and op.results[0].first_use is None:
        operands = [*op.operands]
        Rewriter.erase_op(op)
        for operand in operands:
            erase_unused(operand.owner)
