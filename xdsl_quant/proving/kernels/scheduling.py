"""Code of kernels after the scheduling of ops on tensors, for the analysis of its form."""

from xdsl.dialects.builtin import MemRefType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from xdsl_quant.diagnostics import op_name
from xdsl_quant.execution import CompiledFunction
from xdsl_quant.execution.cpu import CodeOptions, cpu_named
from xdsl_quant.execution.machine_code import scheduled_tensors
from xdsl_quant.execution.schedule import StepError
from xdsl_quant.runtime.loading import IRError, parse_module

from ..terms import UnsupportedError
from .parts import drop_attributes


def scheduled_module(code: CompiledFunction) -> ModuleOp:
    """
    Return the module whose ops on tensors `compile` lowers to machine code.

    Args:
        code: compiled function with static shapes.

    Raises:
        UnsupportedError: if its form is unknown.
    """
    text = f"{code.text}\n{code.wrapper.text}"
    options = CodeOptions(schedule=True, cpu=cpu_named("native"))
    try:
        module = parse_module(scheduled_tensors(text, code.wrapper.names, options))
    except (IRError, StepError) as error:
        raise UnsupportedError(f"its scheduled code is unknown: {error}") from None
    (function, *others) = module.ops
    if others or not isinstance(function, FuncOp):
        raise UnsupportedError("its scheduled code has several functions")
    _return_results(function)
    return module


def _return_results(function: FuncOp) -> None:
    """Return the tensors that a function stores in its arguments."""
    block = function.body.block
    stored: dict[SSAValue, SSAValue] = {}
    for op in [*block.ops]:
        if _is_store(op):
            stored[op.operands[1]] = op.operands[0]
            op.detach()
            op.erase()
    buffers = [x for x in block.args if isinstance(x.type, MemRefType)]
    last = block.last_op
    if last is None or any(x.uses.get_length() or x not in stored for x in buffers):
        raise UnsupportedError("its scheduled code stores parts of results")
    last.operands = [stored[buffer] for buffer in buffers]
    for buffer in buffers:
        block.erase_arg(buffer)
    drop_attributes(function)


def _is_store(op: Operation) -> bool:
    return op_name(op) == "bufferization.materialize_in_destination"
