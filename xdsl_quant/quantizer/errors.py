"""
Errors of a quantized model, kernel by kernel.

The accumulated error of a kernel is the difference of its results between the quantized
model and the float model. Its own error is the difference if no other kernel is quantized.
Three modules run on the same samples: the float model, the quantized model, and a float
model that also runs the quantized form of each kernel on its float operands.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import ConstantLike

from xdsl_quant.dialects.quant import RegionOp
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.runtime.batches import Batch
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.transforms.building.type_replacement import defined_values
from xdsl_quant.transforms.propagation.module_kernels import kernels_of
from xdsl_quant.transforms.propagation.port_ranges import set_specs
from xdsl_quant.transforms.propagation.quant_inline_regions import inline_regions

from .attention_masks import MASKED
from .recording import (
    RecordedModule,
    export_kernels,
    record,
    record_results,
    represents_floats,
)
from .signal_noise import OUTPUT, Error, Values
from .signal_noise import decibels as decibels
from .signal_noise import json_text as json_text
from .signal_noise import relative_noise as relative_noise


@dataclass(frozen=True)
class KernelErrors:
    """Accumulated and own error of a kernel result; for a model result, both are equal."""

    accumulated: Error
    own: Error


def result_key(kernel: int, result: int) -> str:
    """Return the key of a kernel result; kernels are numbered in module order."""
    return f"{kernel}:{result}"


def measure_errors(
    resolved: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None = None,
    reference: ModuleOp | None = None,
    observe: Callable[[Values, Values], object] | None = None,
) -> Mapping[str, KernelErrors]:
    """
    Measure the errors of kernel results and of the model results.

    Args:
        resolved: a model whose kernels have quantization parameters.
        batches: the samples, as for [`calibrate`][xdsl_quant.calibration.calibrate].
        entry: the function that takes the samples.
        reference: `resolved` with the constants of the float model, if they differ.
        observe: called with the float and quantized values of each batch.

    Returns:
        Errors by `result_key`, in module order; keys of model results contain `OUTPUT`.

    Raises:
        ValueError: if the samples do not match the function.
    """
    exact = resolved if reference is None else reference
    bounds = stored_bounds(resolved)
    # Masked scores below the representable range are not errors: softmax maps them to 0.
    masked = {
        key: bounds[key][0]
        for number, kernel in enumerate(kernels_of(resolved))
        if MASKED in kernel.attributes
        for key in (result_key(number, i) for i in range(len(kernel.results)))
        if key in bounds
    }
    modules = (
        float_module(exact, entry),
        quantized_module(resolved, entry),
        _own_module(resolved, exact),
    )
    runs = [RecordedModule.of(module, entry) for module in modules]
    return compare_runs(runs, batches, observe, bounds, masked)


def compare_runs(
    runs: Sequence[RecordedModule],
    batches: Iterable[Batch],
    observe: Callable[[Values, Values], object] | None,
    bounds: Mapping[str, tuple[float, float]],
    masked: Mapping[str, float],
) -> Mapping[str, KernelErrors]:
    """
    Return the errors of the values that three modules record.

    Args:
        runs: the float model, the quantized model, and the float model that records the
            result of each quantized kernel on float values.
        batches: the samples.
        observe: see `measure_errors`.
        bounds: the representable range of values by key.
        masked: lower bound by key. Float values below it are masked, and count as values
            without error.
    """
    errors: dict[str, KernelErrors] = {}
    for batch in batches:
        expected, accumulated, own = (dict(run.values(batch)) for run in runs)
        for key, low in masked.items():
            is_masked = expected[key] < low
            for values in (expected, own):
                values[key] = np.where(is_masked, accumulated[key], values[key])
        if observe is not None:
            observe(expected, accumulated)
        for key, values in expected.items():
            known = errors.setdefault(key, KernelErrors(Error(), Error()))
            limits = bounds.get(key)
            known.accumulated.add(values, accumulated[key], limits)
            known.own.add(values, own.get(key, accumulated[key]), limits)
    return errors


def stored_bounds(module: ModuleOp) -> Mapping[str, tuple[float, float]]:
    """Return the smallest and largest representable number of kernel results by key."""
    bounds: dict[str, tuple[float, float]] = {}
    for number, kernel in enumerate(kernels_of(module)):
        for index, spec in enumerate(kernel.output_specs):
            if isinstance(spec, UniformType):
                parameters = QuantizationParameters.from_integer_type(spec)
                stored = np.array([parameters.storage_min, parameters.storage_max])
                points = parameters.zero_points.reshape(-1, 1)
                limits = (stored - points) * parameters.scales.reshape(-1, 1)
                low, high = float(limits.min()), float(limits.max())
                bounds[result_key(number, index)] = low, high
    return bounds


def result_errors(
    exact: RecordedModule, quantized: RecordedModule, batches: Iterable[Batch]
) -> Mapping[str, Error]:
    """Return the errors of the model results, from two modules that record them."""
    errors: dict[str, Error] = {}
    for batch in batches:
        expected, actual = exact.values(batch), quantized.values(batch)
        for key in expected:
            if OUTPUT in key:
                errors.setdefault(key, Error()).add(expected[key], actual[key])
    return errors


# The three modules


def _with_recorded_results(
    resolved: ModuleOp, entry: str | None, keys: Container[str] | None
) -> ModuleOp:
    """
    Return a copy that records the kernel results with the given keys, by default all,
    and each result of the model.
    """
    module = resolved.clone()
    for number, kernel in enumerate(kernels_of(module)):
        _add_refs(kernel, number, keys)
    function = entry_function(module, entry)
    record_results(function, f"{function.sym_name.data}:{OUTPUT}")
    return module


def _add_refs(
    kernel: RegionOp, number: int, keys: Container[str] | None = None
) -> None:
    for index, result in enumerate(kernel.results):
        key = result_key(number, index)
        if represents_floats(result.type) and (keys is None or key in keys):
            record(result, key)


def float_module(
    resolved: ModuleOp,
    entry: str | None = None,
    *,
    keys: Container[str] | None = None,
) -> ModuleOp:
    """
    Return the float model, instrumented to record the results of kernels and of the model.

    Args:
        resolved: a model with kernels, which does not change.
        entry: the function whose results are recorded.
        keys: the [keys][xdsl_quant.quantizer.errors.result_key] of the recorded kernel
            results, by default all. Fewer keys reduce the compilation time.
    """
    module = _with_recorded_results(resolved, entry, keys)
    inline_floats(kernels_of(module))
    return module


def inline_floats(kernels: Sequence[RegionOp]) -> None:
    """Replace kernels by their float ops."""
    for kernel in kernels:
        types = *kernel.operand_types, *kernel.result_types
        set_specs(kernel, [scalar_or_element_type(type_) for type_ in types], {})
    inline_regions(kernels)


def quantized_module(
    resolved: ModuleOp,
    entry: str | None = None,
    *,
    keys: Container[str] | None = None,
) -> ModuleOp:
    """Return the quantized model, instrumented like `float_module`."""
    module = _with_recorded_results(resolved, entry, keys)
    export_kernels(module)
    return module


def _own_module(resolved: ModuleOp, exact: ModuleOp) -> ModuleOp:
    module = exact.clone()
    float_kernels = kernels_of(module)
    # Constants of `exact` may differ: map values of `resolved` to those of `exact`.
    values, own_values = (
        [value for op in each.walk() for value in defined_values(op)]
        for each in (resolved, module)
    )
    counterparts = dict(zip(values, own_values, strict=True))
    kernels = zip(kernels_of(resolved), float_kernels, strict=True)
    for number, (kernel, float_kernel) in enumerate(kernels):
        copy = kernel.clone()
        copy.operands = [
            cloned_constant(value, float_kernel)
            if has_constant_value(value)
            else counterparts[value]
            for value in kernel.operands
        ]
        Rewriter.insert_op(copy, InsertPoint.after(float_kernel))
        _add_refs(copy, number)
    inline_floats(float_kernels)
    export_kernels(module)
    return module


def has_constant_value(value: SSAValue) -> bool:
    """Return True for constants, and for kernel results that depend only on constants."""
    op = value.owner
    if isinstance(op, RegionOp):
        return all(map(has_constant_value, op.operands))
    return isinstance(op, Operation) and op.has_trait(ConstantLike)


def cloned_constant(value: SSAValue, before: Operation) -> SSAValue:
    """Return a copy of a constant, inserted before an op of another module."""
    op = value.owner
    assert isinstance(op, Operation)
    copy = op.clone()
    copy.operands = [cloned_constant(operand, before) for operand in op.operands]
    Rewriter.insert_op(copy, InsertPoint.before(before))
    return copy.results[op.results.index(value)]
