"""
Steps of a quantized model: each computes one quantized value from quantized values or
arguments, so that runtimes can compute it with the same operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, NameLoc
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant import StorageCastOp
from xdsl_quant.dialects.quant.traits import (
    CastsQuantization,
    MovesElements,
    has_quantization_trait,
)
from xdsl_quant.dialects.quant.types import StoredQuantizedType, scalar_or_element_type

_ACCUMULATOR_WIDTH = 32
"""Width of sums of products and of biases, which are parts of a step."""

_CONTRACTIONS = ("conv", "dot_general", "fully_connected", "batch_matmul")
"""Starts of names of ops that name their step."""


@dataclass(frozen=True)
class ModelStep:
    """Ops of a model that compute a quantized value."""

    value: SSAValue
    """The value in the model."""

    operands: Sequence[SSAValue]
    """Values in the model from which it is computed, without constants."""

    op_name: str
    """Name of the op that computes, or of the cast."""

    name: str
    """Name of the value's location, or its name in MLIR text, or empty."""

    module: ModuleOp
    """Module with a copy of the ops; its function takes the operands."""

    computes: bool
    """False if the step only moves elements or casts."""


def model_steps(function: FuncOp) -> Iterator[ModelStep]:
    """
    Yield the steps of a function in the order of execution.

    Raises:
        ValueError: if the function has several blocks, or calls another one.
    """
    if len(function.body.blocks) != 1:
        raise ValueError(
            f"function '{function.sym_name.data}' has {len(function.body.blocks)} "
            "blocks; expected one"
        )
    block = function.body.block
    call = next((op for op in block.walk() if isinstance(op, CallOp)), None)
    if call is not None:
        raise ValueError(
            f"function '{function.sym_name.data}' calls "
            f"'{call.callee.string_value()}'; inline calls first"
        )
    inputs: set[SSAValue] = {*block.args}
    varying: set[SSAValue] = {*block.args}
    for op in block.ops:
        if isinstance(op, ReturnOp) or varying.isdisjoint(_outer_operands(op, block)):
            continue
        varying.update(op.results)
        for result in op.results:
            if _is_quantized_result(op, result):
                yield _step_of(block, result, inputs)
                inputs.add(result)


def _is_quantized_result(op: Operation, result: SSAValue) -> bool:
    """Return True for a quantized value that an op computes, not only moves."""
    type_ = scalar_or_element_type(result.type)
    return (
        isinstance(type_, StoredQuantizedType)
        and type_.storage_type_integral_width < _ACCUMULATOR_WIDTH
        and not has_quantization_trait(op, MovesElements)
        and not isinstance(op, StorageCastOp)
    )


def _outer_operands(op: Operation, block: Block) -> Iterator[SSAValue]:
    """Yield the operands of an op, and values of the block that its regions use."""
    for inner in op.walk():
        for value in inner.operands:
            owner = value.owner
            outer = owner if isinstance(owner, Block) else owner.parent_block()
            if outer is block:
                yield value


def _step_of(block: Block, result: SSAValue, inputs: set[SSAValue]) -> ModelStep:
    used: set[Operation] = set()
    operands: dict[SSAValue, None] = {}
    pending = [result]
    while pending:
        value = pending.pop()
        if value in inputs:
            operands[value] = None
        elif isinstance(op := value.owner, Operation) and op not in used:
            used.add(op)
            pending += _outer_operands(op, block)
    ops = [op for op in block.ops if op in used]
    copy = Block(arg_types=[value.type for value in operands])
    values: dict[SSAValue, SSAValue] = dict(zip(operands, copy.args, strict=True))
    copy.add_ops([op.clone(values) for op in ops])
    copy.add_op(ReturnOp(values[result]))
    function = FuncOp("main", (copy.arg_types, [result.type]), Region(copy))
    computing = [op for op in ops if _computes(op)]
    return ModelStep(
        result,
        [*operands],
        op_name(_main_op(computing or ops)),
        _value_name(result),
        ModuleOp([function]),
        bool(computing),
    )


def _computes(op: Operation) -> bool:
    """Return True for ops other than constants, casts and data movement."""
    return (
        bool(op.operands)
        and not isinstance(op, StorageCastOp)
        and not has_quantization_trait(op, CastsQuantization, MovesElements)
    )


def _main_op(ops: Sequence[Operation]) -> Operation:
    """Return the contraction, or the last op."""
    for op in ops:
        if op.name.partition(".")[2].startswith(_CONTRACTIONS):
            return op
    return ops[-1]


def _value_name(value: SSAValue) -> str:
    op = value.owner
    if isinstance(op, Operation) and isinstance(op.location, NameLoc):
        return op.location.desc.data
    return value.name_hint or ""
