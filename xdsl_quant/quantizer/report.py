"""Errors and sizes of the kernels, matrix products and convolutions of quantized models."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Operation, SSAValue

from xdsl_quant.diagnostics import location_prefix, op_name
from xdsl_quant.dialects.quant import BlockScaledQuantizedType, RegionOp
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.numerics.histogram import Histogram
from xdsl_quant.numerics.observers import observe_histogram
from xdsl_quant.runtime.arrays import constant_elements
from xdsl_quant.runtime.batches import Batch
from xdsl_quant.runtime.entry_function import entry_function, ops_in_execution_order
from xdsl_quant.transforms.propagation.module_kernels import (
    is_float_value,
    kernels_of,
    ports_of,
)
from xdsl_quant.transforms.propagation.quant_export import needs_parameters

from .attention_masks import MASKED
from .errors import (
    KernelErrors,
    compare_runs,
    has_constant_value,
    measure_errors,
    result_errors,
    result_key,
    stored_bounds,
)
from .labels import Labels, Scores
from .recording import RecordedModule, as_stored, record, record_results
from .report_data import KernelReport, ModelReport
from .signal_noise import OUTPUT, Error, Floats, Values
from .weight_only import cast_of, constant_weight, products_of, with_float_weights


def measure(
    float_module: ModuleOp,
    resolved: ModuleOp,
    reference: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None,
    labels: Labels | None,
) -> ModelReport:
    """
    Measure the kernels of a model; without kernels, its matrix products and convolutions.

    Args:
        float_module: the float model.
        resolved: the model with quantized kernels, or with fake-quantized weights.
        reference: the same model with the constants of the float model.
        batches: samples, preferably not those used for calibration.
        entry: the function that takes the samples.
        labels: the labels of the samples.

    Raises:
        DataError: if the labels do not match the results.
    """
    if kernels_of(resolved):
        return measure_kernels(resolved, batches, entry, reference, labels)
    return measure_products(float_module, resolved, batches, entry, labels)


def in_execution_order(
    report: ModelReport, resolved: ModuleOp, entry: str | None
) -> ModelReport:
    """Return a report on a model with the kernels in the order of execution."""
    ops = ops_in_execution_order(resolved, entry_function(resolved, entry))
    places = {op: place for place, op in enumerate(ops)}
    kernels = kernels_of(resolved) or products_of(resolved)
    numbers = sorted(
        range(len(kernels)), key=lambda number: places.get(kernels[number], len(places))
    )
    return replace(report, kernels=[report.kernels[number] for number in numbers])


def measure_kernels(
    resolved: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None = None,
    reference: ModuleOp | None = None,
    labels: Labels | None = None,
) -> ModelReport:
    """
    Measure the errors and sizes of the kernels of a model.

    Args:
        resolved: the model, whose kernels have quantization parameters.
        batches: samples, preferably not those used for calibration.
        entry: the function that takes the samples.
        reference: the same model with the constants of the float model, if those of
            `resolved` differ.
        labels: the labels of the samples.

    Raises:
        DataError: if the labels do not match the results.
    """
    scores = Scores(labels)
    values: dict[str, _Values] = {}

    def observe(expected: Values, actual: Values) -> None:
        scores.add(expected, actual)
        for key, result in expected.items():
            if OUTPUT not in key:
                values.setdefault(key, _Values()).add(result)

    errors = measure_errors(resolved, batches, entry, reference, observe)
    exact = resolved if reference is None else reference
    kernels = _kernel_reports(resolved, exact, errors, values)
    return ModelReport(kernels, _output_sqnrs(errors), scores.accuracy())


def _kernel_reports(
    resolved: ModuleOp,
    reference: ModuleOp,
    errors: Mapping[str, KernelErrors],
    values: Mapping[str, _Values],
) -> Sequence[KernelReport]:
    bounds = stored_bounds(resolved)
    reports: list[KernelReport] = []
    originals, sizes = kernels_of(reference), _kernel_sizes(resolved)
    for number, kernel in enumerate(kernels_of(resolved)):
        key = result_key(number, 0)
        report = _kernel_report(
            kernel, originals[number], errors.get(key), *sizes[number]
        )
        report = replace(
            report,
            stored_range=bounds.get(key),
            is_constant=all(map(has_constant_value, kernel.inputs)),
            histogram=values[key].histogram() if key in values else None,
        )
        reports.append(report)
    return reports


@dataclass
class _Values:
    """Histogram of values, which are buffered and added in large batches."""

    _known: Histogram | None = None
    _waiting: list[Floats] = field(default_factory=list[Floats])
    _count: int = 0

    def add(self, values: Floats) -> None:
        self._waiting.append(values.ravel())
        self._count += values.size
        if self._count >= _MANY:
            self.histogram()

    def histogram(self) -> Histogram | None:
        """Return the histogram of all finite values; `None` if there are none."""
        values = np.concatenate([np.empty(0, np.float32), *self._waiting])
        self._waiting.clear()
        self._count = 0
        if (values := values[np.isfinite(values)]).size:
            new = observe_histogram(values)
            self._known = new if self._known is None else new.merge(self._known)
        return self._known


_BIAS_BITS = 32

_MANY = 1 << 14
"""Number of values that are buffered before they are added to the histogram."""


def _kernel_report(
    kernel: RegionOp,
    original: RegionOp,
    errors: KernelErrors | None,
    float_bytes: int,
    stored_bytes: int,
) -> KernelReport:
    is_float = is_float_kernel(kernel)
    weights = [*_kernel_constants(kernel, is_float=is_float)]
    weight_error = Error()
    for weight, exact in zip(
        weights, _kernel_constants(original, is_float=is_float), strict=True
    ):
        if weight.type is not None:
            stored = as_stored(weight.values, weight.type)
            # Corrected biases and masks differ on purpose: only compare their rounding.
            is_bias = weight.type.storage_type_integral_width >= _BIAS_BITS
            is_changed = is_bias or MASKED in kernel.attributes
            expected = weight.values if is_changed else exact.values
            weight_error.add(expected.astype(stored.dtype), stored)
    result = kernel.output_specs.data[0]
    types = [str(weight.type) for weight in weights if weight.type is not None]
    return KernelReport(
        kernel.kernel,
        location_prefix(kernel.location).removesuffix(": "),
        "" if is_float else str(result),
        types[0] if types else "",
        math.nan if errors is None else errors.accumulated.sqnr,
        math.nan if errors is None else errors.own.sqnr,
        weight_error.sqnr if types else math.nan,
        0.0 if errors is None else errors.own.saturated_part,
        float_bytes,
        stored_bytes,
    )


@dataclass(frozen=True)
class _KernelConstant:
    value: SSAValue

    values: NDArray[np.floating]
    type: UniformType | None
    """Storage type; `None` for a float constant."""

    @property
    def stored_bytes(self) -> int:
        if self.type is None:
            return self.values.nbytes
        return -(-self.values.size * self.type.storage_type_integral_width // 8)


def stored_bytes(module: ModuleOp) -> int:
    """Return the size of the constants of kernels with quantization parameters."""
    return sum(size for _, size in _kernel_sizes(module))


def _kernel_sizes(module: ModuleOp) -> Sequence[tuple[int, int]]:
    """Return each kernel's float and stored bytes; shared constants count once."""
    in_float = set[SSAValue]()
    stored = set[tuple[SSAValue, UniformType | None]]()
    sizes: list[tuple[int, int]] = []
    for kernel in kernels_of(module):
        before = after = 0
        for weight in _kernel_constants(kernel, is_float=is_float_kernel(kernel)):
            if weight.value not in in_float:
                before += weight.values.nbytes
            if (weight.value, weight.type) not in stored:
                after += weight.stored_bytes
            in_float.add(weight.value)
            stored.add((weight.value, weight.type))
        sizes.append((before, after))
    return sizes


def is_float_kernel(kernel: RegionOp) -> bool:
    """Return True if a float port of the kernel has no quantization parameters."""
    return any(
        needs_parameters(value) and not isinstance(spec, UniformType)
        for value, spec in ports_of(kernel)
    )


def _kernel_constants(kernel: RegionOp, *, is_float: bool) -> Iterator[_KernelConstant]:
    for value, spec in zip(kernel.inputs, kernel.input_specs, strict=True):
        values = constant_elements(value)
        if values is not None and is_float_value(value):
            if is_float or not isinstance(spec, UniformType):
                spec = None
            yield _KernelConstant(value, values, spec)


def weight_errors(
    module: ModuleOp,
    quantized: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None = None,
) -> Mapping[str, Error]:
    """Return the errors of the results of a model with quantized weights."""
    function = entry_function(module, entry).sym_name.data
    exact = _recorded_results(module.clone(), function)
    return result_errors(exact, _recorded_results(quantized.clone(), function), batches)


def measure_products(
    module: ModuleOp,
    quantized: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None = None,
    labels: Labels | None = None,
) -> ModelReport:
    """
    Measure the errors and sizes of the matrix products and convolutions of a model.

    Args:
        module: the float model.
        quantized: the same model with fake-quantized weights.
        batches: samples, preferably not those used for quantization.
        entry: the function that takes the samples.
        labels: the labels of the samples.

    Raises:
        DataError: if the labels do not match the results.
    """
    function = entry_function(module, entry).sym_name.data
    scores = Scores(labels)
    runs = [
        _recorded_results(module.clone(), function),
        _recorded_results(quantized.clone(), function),
        _recorded_own(module, quantized, function),
    ]
    errors = compare_runs(runs, batches, scores.add, {}, {})
    kernels = _product_reports(module, quantized, errors)
    return ModelReport(kernels, _output_sqnrs(errors), scores.accuracy())


def _output_sqnrs(errors: Mapping[str, KernelErrors]) -> Mapping[str, float]:
    return {
        key: error.accumulated.sqnr for key, error in errors.items() if OUTPUT in key
    }


def _product_reports(
    module: ModuleOp, quantized: ModuleOp, errors: Mapping[str, KernelErrors]
) -> Sequence[KernelReport]:
    reports: list[KernelReport] = []
    known = set[SSAValue]()
    products = zip(products_of(module), products_of(quantized), strict=True)
    for number, (original, op) in enumerate(products):
        # No sample may run a branch or the body of a loop.
        error = errors.get(result_key(number, 0))
        report = _product_report(original, op, error)
        weight, _ = _weight_and_elements(original)
        if weight in known:
            # Weights of several products count only for the first of them.
            report = replace(report, float_bytes=0, stored_bytes=0)
        reports.append(report)
        known.add(weight)
    return reports


def _recorded_results(module: ModuleOp, function: str) -> RecordedModule:
    for number, op in enumerate(products_of(module)):
        record(op.results[0], result_key(number, 0))
    record_results(entry_function(module, function), f"{function}:{OUTPUT}")
    return RecordedModule.of(module, function)


def _recorded_own(
    module: ModuleOp, quantized: ModuleOp, function: str
) -> RecordedModule:
    both, products = with_float_weights(module, quantized)
    for number, (_, op) in enumerate(products):
        record(op.results[0], result_key(number, 0))
    return RecordedModule.of(both, function)


def _weight_and_elements(op: Operation) -> tuple[SSAValue, Floats]:
    weight = constant_weight(op)
    assert weight is not None
    elements = weight.elements()
    assert elements is not None
    return weight.value, elements


def _product_report(
    original: Operation, op: Operation, errors: KernelErrors | None
) -> KernelReport:
    (weight, elements), (_, new_elements) = map(_weight_and_elements, (original, op))
    type_ = None
    expressed = scalar_or_element_type(weight.type)
    assert isinstance(expressed, AnyFloat)
    size = elements.size * expressed.bitwidth
    stored_size, weight_sqnr = size, math.nan
    if (cast := cast_of(op)) is not None:
        type_ = scalar_or_element_type(cast.results[0].type)
        assert isinstance(type_, UniformType | BlockScaledQuantizedType)
        error, stored = Error(), as_stored(new_elements, type_)
        error.add(elements.astype(stored.dtype), stored)
        stored_size = elements.size * type_.storage_type_integral_width
        if isinstance(type_, BlockScaledQuantizedType):
            scales = type_.scales
            stored_size += math.prod(scales.shape) * scales.element_type.bitwidth
        weight_sqnr = error.sqnr
    return KernelReport(
        op_name(op),
        location_prefix(op.location).removesuffix(": "),
        "",
        "" if type_ is None else str(type_),
        math.nan if errors is None else errors.accumulated.sqnr,
        math.nan if errors is None else errors.own.sqnr,
        weight_sqnr,
        0.0,
        -(-size // 8),
        -(-stored_size // 8),
    )


# Former names, kept for compatibility.
report_on, stays_float = measure_kernels, is_float_kernel
