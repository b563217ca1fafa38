"""
Times of compiled models and kernels, in floating point and in integers.

Each kernel is compiled alone, as a function of its non-constant operands, twice: with float
ops, and with the quantized ops of the exported model. Quantized ops take and return stored
values, so casts are not measured. The operands come from the first batch of samples.
Measurements alternate between float and quantized code, and the median of each is reported.
The time is CPU time of a single thread. It includes the call from Python, which takes less
than a microsecond. The times of kernels do not add up to the time of the model, which keeps
values in registers and caches.
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
from xdsl_quant.quantizer.errors import (
    cloned_constant,
    has_constant_value,
    inline_floats,
)
from xdsl_quant.quantizer.recording import (
    RecordedModule,
    export_kernels,
    lower_stablehlo,
    record,
    represents_floats,
    stored_arguments,
)
from xdsl_quant.quantizer.report_data import Latency, ModelTimes, Times, duration
from xdsl_quant.quantizer.signal_noise import Floats
from xdsl_quant.runtime.batches import Arguments, Batch, as_tuple
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import apply_passes
from xdsl_quant.transforms.propagation.module_kernels import kernels_of
from xdsl_quant.transforms.statistics.quant_remove_instrumentation import (
    QuantRemoveInstrumentationPass,
)

__all__ = ["Latency", "ModelTimes", "Times", "duration", "measure_times"]

_ROUNDS = 15
"""Maximum number of measurements of the float code, and of the quantized code."""

_ROUND_SECONDS = 2e-3
"""Minimum time in seconds of a measurement, which repeats a call."""

_ALL_ROUNDS_SECONDS = 2.0
"""Time in seconds after which no measurement starts, except the first 3."""


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
        float_module: the float model; its statistics ops are not measured.
        quantized_module: the quantized model.
        resolved: the model whose kernels have quantization parameters.
        batches: samples; only the first batch is used.
        entry: the function that takes the samples.

    Raises:
        ValueError: if the samples do not match the model.
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
    """Compile a model and return its call; on failure, add a reason and return `None`."""
    module = module.clone()
    apply_passes(module, [QuantRemoveInstrumentationPass()], is_routine=True)
    return _compiled_call(module, entry_function(module, entry), batch, reasons)


def _compiled_call(
    module: ModuleOp, function: FuncOp, values: Arguments, reasons: list[str]
) -> Callable[[], object] | None:
    """Compile a function and return its call; failures are handled as in `_model_call`."""
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
        # Binding is unsupported, e.g. if the sizes of results are dynamic.
        return lambda: compiled(*arguments)


def _medians(calls: Sequence[Callable[[], object] | None]) -> Sequence[float]:
    """Return the median time of each call in seconds. Measurements alternate."""
    repetitions = [0 if call is None else _repetitions(call) for call in calls]
    seconds: list[list[float]] = [[] for _ in calls]
    begin = time.thread_time()
    for number in range(_ROUNDS):
        if number >= 3 and time.thread_time() - begin > _ALL_ROUNDS_SECONDS:
            break
        for call, count, rounds in zip(calls, repetitions, seconds, strict=True):
            if call is not None:
                rounds.append(_seconds(call, count) / count)
    return [median(rounds) if rounds else math.nan for rounds in seconds]


def _repetitions(call: Callable[[], object]) -> int:
    """Return the number of calls that take `_ROUND_SECONDS`."""
    call()
    count = 1
    while (seconds := _seconds(call, count)) < _ROUND_SECONDS:
        count *= max(2, min(100, round(_ROUND_SECONDS / max(seconds, 1e-7))))
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
    return [
        value
        for value in dict.fromkeys(kernel.operands)
        if not has_constant_value(value)
    ]


def _operand_values(
    resolved: ModuleOp, batch: Arguments, entry: str | None
) -> Mapping[str, Floats]:
    module = resolved.clone()
    kernels = kernels_of(module)
    for number, kernel in enumerate(kernels):
        for index, value in enumerate(_varying_operands(kernel)):
            if represents_floats(value.type):
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
    """Compile a kernel, quantized or in floats, and return its call; `None` on failure."""
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
    """Replace float arguments and results by stored values, and remove their casts."""
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
