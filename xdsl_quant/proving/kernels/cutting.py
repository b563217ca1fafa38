"""Cutting of models at stored values: each op is a kernel, with its constants."""

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import FunctionType, ModuleOp, NameLoc, NoneType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator

from xdsl_quant.diagnostics import op_name, shortened_text
from xdsl_quant.runtime.arrays import constant_attr

_STATE = frozenset(
    (
        *("tfl.assign_variable", "tfl.call_once", "tfl.read_variable"),
        *("tfl.no_value", "tfl.var_handle", "func.call"),
    )
)
"""Ops of state and structure, whose values are arguments and results of kernels."""


@dataclass(frozen=True)
class ModelKernel:
    """An op of a model with its constants, as a module of one function."""

    op: Operation
    module: ModuleOp

    @property
    def name(self) -> str:
        """Op name and, if known, location name."""
        location = self.op.location
        text = location.desc.data if isinstance(location, NameLoc) else ""
        name = f" {shortened_text(text)}" if text else ""
        return f"'{op_name(self.op)}'{name}"


def cut_kernels(module: ModuleOp) -> Iterator[ModelKernel]:
    """Yield the kernels of a module; of equal kernels, only the first."""
    seen: set[object] = set()
    for function in module.ops:
        if not isinstance(function, FuncOp):
            continue
        for op in function.walk():
            if not _is_kernel(op) or (key := _key(op)) in seen:
                continue
            seen.add(key)
            yield ModelKernel(op, _lone_module(op, module))


def _is_kernel(op: Operation) -> bool:
    is_constant = any(_is_constant_operand(result) for result in op.results)
    return not (
        is_constant
        or isinstance(op, FuncOp)
        or op.has_trait(IsTerminator)
        or op_name(op) in _STATE
    )


def _is_constant_operand(value: SSAValue) -> bool:
    is_absent = isinstance(value.type, NoneType)
    return constant_attr(value) is not None or is_absent


def _key(op: Operation) -> object:
    """Return a key that is equal for equal kernels only."""
    if op.regions:
        return op
    constants = [
        constant_attr(value) or value.type if _is_constant_operand(value) else None
        for value in op.operands
    ]
    operands = [*op.operands]
    same = [operands.index(value) for value in operands]
    return (
        op_name(op),
        frozenset(op.properties.items()),
        frozenset(op.attributes.items()),
        *(value.type for value in (*op.operands, *op.results)),
        *constants,
        *same,
    )


def _lone_module(op: Operation, module: ModuleOp) -> ModuleOp:
    varying = [v for v in dict.fromkeys(op.operands) if not _is_constant_operand(v)]
    block = Block(arg_types=[value.type for value in varying])
    values: dict[SSAValue, SSAValue] = dict(zip(varying, block.args, strict=True))
    for value in op.operands:
        if value not in values:
            assert isinstance(value.owner, Operation)
            copy = value.owner.clone()
            block.add_op(copy)
            values[value] = copy.results[0]
    copy = op.clone(value_mapper=values)
    block.add_op(copy)
    block.add_op(ReturnOp(*copy.results))
    type_ = FunctionType.from_lists([*block.arg_types], [*copy.result_types])
    function = FuncOp("kernel", type_, Region(block))
    return ModuleOp([function], {**module.attributes})
