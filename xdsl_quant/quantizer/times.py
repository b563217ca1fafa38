"""
How long kernels and whole models take as compiled code, in floats and in integers.

Each kernel is compiled alone, as a function of those of its operands that are no constants:
once with its ops of floats, and once with the quantized ops of the exported model, whose
arguments and results are stored values, so that no cast is measured. Arguments are the
values that the first batch of samples has there. Both forms are called alternately, and the
median of the rounds counts. It is CPU time of the one thread that compiled code runs in,
and includes the call from Python, less than a microsecond. The sum over kernels is not the
time of the model: a kernel that is alone reads and writes memory that the whole model may
not need.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import cast

import numpy as np
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from xdsl_quant import execution
from xdsl_quant.dialects.quant import RegionOp, StatisticsRefOp
from xdsl_quant.dialects.quant.traits import CastsQuantization, has_quantization_trait
from xdsl_quant.dialects.quant.types import UniformType
from xdsl_quant.runtime.batches import Arguments, Batch, as_tuple
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import apply_passes
from xdsl_quant.transforms.propagation.module_kernels import kernels_of
from xdsl_quant.transforms.statistics.quant_remove_instrumentation import (
    QuantRemoveInstrumentationPass,
)

from .errors import cloned_constant, has_constant_value, inline_floats
from .recording import (
    RecordedModule,
    export_kernels,
    lower_stablehlo,
    record,
    stands_for_floats,
    stored_arguments,
)
from .report_data import Latency, ModelTimes, Times, duration
from .signal_noise import Floats

__all__ = ["Latency", "ModelTimes", "Times", "duration", "measure_times"]

_ROUNDS = 15
"""How often both forms are measured; less often if they take long."""

_ROUND_SECONDS = 2e-3
"""How long a round of one form is at least."""

_ALL_ROUNDS_SECONDS = 2.0
"""Fewer rounds than `_ROUNDS` are enough if they took longer, but never fewer than 3."""


def measure_times(
    float_module: ModuleOp,
    quantized_module: ModuleOp,
    resolved: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None = None,
) -> ModelTimes:
    """
    Measure the times of a model and of its kernels.

    Args:
        float_module: the float model; statistics of it are not taken.
        quantized_module: the quantized one.
        resolved: the model whose kernels have quantization parameters.
        batches: samples, of which the first batch is taken.
        entry: the function that takes them.

    Raises:
        ValueError: if the samples do not fit the model.
    """
    batch = as_tuple(next(iter(batches)))
    count = int(np.shape(batch[0])[0]) if batch and np.ndim(batch[0]) else 1
    reasons: list[str] = []
    calls = [
        _model_call(module, batch, entry, reasons)
        for module in (float_module, quantized_module)
    ]
    if reasons and not any(calls):
        return ModelTimes(Latency(Times(), count, reasons[0]), {})
    return ModelTimes(
        Latency(Times(*_medians(calls)), count, "; ".join(reasons)),
        _kernel_times(resolved, batch, entry),
    )


def _model_call(
    module: ModuleOp, batch: Arguments, entry: str | None, reasons: list[str]
) -> Callable[[], object] | None:
    """Return a call of a model; `None` and a reason if it cannot be compiled."""
    module = module.clone()
    apply_passes(module, [QuantRemoveInstrumentationPass()], is_routine=True)
    return _compiled_call(module, entry_function(module, entry), batch, reasons)


def _compiled_call(
    module: ModuleOp, function: FuncOp, values: Arguments, reasons: list[str]
) -> Callable[[], object] | None:
    """Return a call of a function of a module, which is lowered; see `_model_call`."""
    arguments = stored_arguments(function, values)
    lower_stablehlo(module)
    try:
        compiled = execution.compile(module, function.sym_name.data)
    except (execution.CompilationError, ImportError) as e:
        reasons.append(str(e).partition("\n")[0])
        return None
    try:
        return compiled.bind(*map(np.ascontiguousarray, arguments))
    except ValueError:
        # Sizes of results, or numbers of arguments, must be checked in each call.
        return lambda: compiled(*arguments)


def _medians(calls: Sequence[Callable[[], object] | None]) -> Sequence[float]:
    """Return the median times of calls in seconds, which are made alternately."""
    repetitions = [0 if call is None else _repetitions(call) for call in calls]
    seconds: list[list[float]] = [[] for _ in calls]
    begin = time.thread_time()
    for number in range(_ROUNDS):
        if number >= 3 and time.thread_time() - begin > _ALL_ROUNDS_SECONDS:
            break
        for call, count, found in zip(calls, repetitions, seconds, strict=True):
            if call is not None:
                found.append(_seconds(call, count) / count)
    return [median(found) if found else math.nan for found in seconds]


def _repetitions(call: Callable[[], object]) -> int:
    """How often a call is made in a round."""
    call()
    count = 1
    while (found := _seconds(call, count)) < _ROUND_SECONDS:
        count *= max(2, min(100, round(_ROUND_SECONDS / max(found, 1e-7))))
    return count


def _seconds(call: Callable[[], object], count: int) -> float:
    begin = time.thread_time()
    for _ in range(count):
        call()
    return time.thread_time() - begin


# Kernels


def _kernel_times(
    resolved: ModuleOp, batch: Arguments, entry: str | None
) -> Mapping[int, Times]:
    values = _operand_values(resolved, batch, entry)
    times: dict[int, Times] = {}
    for number, kernel in enumerate(kernels_of(resolved)):
        operands = _varying_operands(kernel)
        arguments = [
            values.get(_operand_key(number, index)) for index in range(len(operands))
        ]
        known = [value for value in arguments if value is not None]
        if operands and len(known) == len(operands):
            calls = [
                _kernel_call(kernel, operands, known, is_quantized=is_quantized)
                for is_quantized in (False, True)
            ]
            times[number] = Times(*_medians(calls))
    return times


def _operand_key(kernel: int, operand: int) -> str:
    return f"{kernel}:operand:{operand}"


def _varying_operands(kernel: RegionOp) -> Sequence[SSAValue]:
    """Return the operands of a kernel that are no constants, each of them once."""
    return [
        value
        for value in dict.fromkeys(kernel.operands)
        if not has_constant_value(value)
    ]


def _operand_values(
    resolved: ModuleOp, batch: Arguments, entry: str | None
) -> Mapping[str, Floats]:
    """
    Return the values of the operands of kernels in the float model, if they are floats.
    """
    module = resolved.clone()
    kernels = kernels_of(module)
    for number, kernel in enumerate(kernels):
        for index, value in enumerate(_varying_operands(kernel)):
            if stands_for_floats(value.type):
                record(value, _operand_key(number, index), kernel)
    inline_floats(kernels)
    if not any(isinstance(op, StatisticsRefOp) for op in module.walk()):
        return {}
    return RecordedModule.of(module, entry).values(batch)


def _kernel_call(
    kernel: RegionOp,
    operands: Sequence[SSAValue],
    values: Sequence[Floats],
    *,
    is_quantized: bool,
) -> Callable[[], object] | None:
    """
    Return a call of a kernel alone; `None` if it has no such form, or cannot be
    compiled.
    """
    module, function = _lone_kernel(kernel, operands)
    kernels = kernels_of(module)
    if is_quantized:
        if all(not isinstance(spec, UniformType) for spec in kernel.specs):
            return None
        export_kernels(module)
        _remove_boundary_casts(function)
    else:
        inline_floats(kernels)
    return _compiled_call(module, function, tuple(values), [])


def _lone_kernel(
    kernel: RegionOp, operands: Sequence[SSAValue]
) -> tuple[ModuleOp, FuncOp]:
    """Return a module with a function that has no more than a copy of a kernel."""
    types = [value.type for value in operands]
    block = Block(arg_types=types)
    arguments = dict(zip(operands, block.args, strict=True))
    copy = kernel.clone()
    block.add_op(copy)
    copy.operands = [
        arguments[value] if value in arguments else cloned_constant(value, copy)
        for value in kernel.operands
    ]
    block.add_op(ReturnOp(*copy.results))
    type_ = FunctionType.from_lists(types, [*copy.result_types])
    function = FuncOp("kernel", type_, Region(block))
    return ModuleOp([function]), function


def _remove_boundary_casts(function: FuncOp) -> None:
    """Let arguments and results be stored values instead of floats that are cast."""
    for argument in [*function.args]:
        casts = [use.operation for use in argument.uses]
        types = {type_ for op in casts for type_ in op.result_types}
        if len(types) == 1 and all(map(_is_cast, casts)):
            stored = Rewriter.replace_value_with_new_type(argument, *types)
            for op in casts:
                Rewriter.replace_op(op, (), (stored,))
    end = function.body.block.last_op
    assert isinstance(end, ReturnOp)
    end.operands = [
        cast("Operation", value.owner).operands[0] if _is_cast(value.owner) else value
        for value in end.operands
    ]
    for op in reversed([*function.body.block.ops]):
        if _is_cast(op) and not op.results[0].uses.get_length():
            Rewriter.erase_op(op)
    function.update_function_type()


def _is_cast(owner: Operation | Block) -> bool:
    return isinstance(owner, Operation) and has_quantization_trait(
        owner, CastsQuantization
    )
