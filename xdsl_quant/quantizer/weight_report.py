"""What the quantization of weights does to the products of a model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Operation, SSAValue

from xdsl_quant.diagnostics import location_prefix, op_name
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.runtime.batches import Batch
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.transforms.weights.quant_quantize_weights import weight_of

from .errors import result_errors, result_key
from .labels import Labels, Scores
from .model_report import ModelReport
from .recording import RecordedModule, as_stored, record, record_results
from .report_data import KernelReport
from .signal_noise import OUTPUT, Error, Floats
from .weight_products import cast_of, products_of, with_float_values


def weight_errors(
    module: ModuleOp,
    quantized: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None = None,
) -> Mapping[str, Error]:
    """The errors of the results of a model with quantized weights."""
    function = entry_function(module, entry).sym_name.data
    exact = _recorded_results(module.clone(), function)
    return result_errors(exact, _recorded_results(quantized.clone(), function), batches)


def report_on_weights(
    module: ModuleOp,
    quantized: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None = None,
    labels: Labels | None = None,
) -> ModelReport:
    """
    Measure what the quantization of weights does to a model.

    Args:
        module: the float model.
        quantized: the same, with weights that are quantized and dequantized.
        batches: samples, best those that were not used to quantize it.
        entry: the function that takes the samples.
        labels: what is right for the samples.

    Raises:
        DataError: if the labels do not fit the results.
    """
    function = entry_function(module, entry).sym_name.data
    scores = Scores(labels)
    runs = [
        _recorded_results(module.clone(), function),
        _recorded_results(quantized.clone(), function),
        _recorded_own(module, quantized, function),
    ]
    accumulated: dict[str, Error] = {}
    own: dict[str, Error] = {}
    for batch in batches:
        expected, *others = (run.values(batch) for run in runs)
        scores.add(expected, others[0])
        for errors, values in zip((accumulated, own), others, strict=True):
            for key, found in values.items():
                errors.setdefault(key, Error()).add(expected[key], found)
    kernels = _product_reports(module, quantized, accumulated, own)
    outputs = {key: error.sqnr for key, error in accumulated.items() if OUTPUT in key}
    return ModelReport(kernels, outputs, scores.accuracy())


def _product_reports(
    module: ModuleOp,
    quantized: ModuleOp,
    accumulated: Mapping[str, Error],
    own: Mapping[str, Error],
) -> Sequence[KernelReport]:
    reports: list[KernelReport] = []
    known = set[SSAValue]()
    products = zip(products_of(module), products_of(quantized), strict=True)
    for number, (original, op) in enumerate(products):
        key = result_key(number, 0)
        report = _report(original, op, accumulated[key], own[key])
        weight, _ = _weight_and_elements(original)
        if weight in known:
            # What several products take counts for the first of them.
            report = replace(report, float_bytes=0, stored_bytes=0)
        reports.append(report)
        known.add(weight)
    return reports


def _recorded_results(module: ModuleOp, function: str) -> RecordedModule:
    """A module that records the results of products and of a function."""
    for number, op in enumerate(products_of(module)):
        record(op.results[0], result_key(number, 0))
    record_results(entry_function(module, function), f"{function}:{OUTPUT}")
    return RecordedModule.of(module, function)


def _recorded_own(
    module: ModuleOp, quantized: ModuleOp, function: str
) -> RecordedModule:
    """A module of floats that records products of its values by quantized weights."""
    both, products = with_float_values(module, quantized)
    for number, (_, op) in enumerate(products):
        record(op.results[0], result_key(number, 0))
    return RecordedModule.of(both, function)


def _weight_and_elements(op: Operation) -> tuple[SSAValue, Floats]:
    weight = weight_of(op, is_quantized=True)
    assert weight is not None
    elements = weight.elements()
    assert elements is not None
    return weight.value, elements


def _report(
    original: Operation, op: Operation, accumulated: Error, own: Error
) -> KernelReport:
    (weight, elements), (_, new_elements) = map(_weight_and_elements, (original, op))
    type_ = None
    expressed = scalar_or_element_type(weight.type)
    assert isinstance(expressed, AnyFloat)
    size = elements.size * expressed.bitwidth
    stored_size, weight_sqnr = size, math.nan
    if (cast := cast_of(op)) is not None:
        type_ = scalar_or_element_type(cast.results[0].type)
        assert isinstance(type_, UniformType)
        error, found = Error(), as_stored(new_elements, type_)
        error.add(elements.astype(found.dtype), found)
        stored_size = elements.size * type_.storage_type_integral_width
        weight_sqnr = error.sqnr
    return KernelReport(
        op_name(op),
        location_prefix(op.location).removesuffix(": "),
        "",
        "" if type_ is None else str(type_),
        accumulated.sqnr,
        own.sqnr,
        weight_sqnr,
        0.0,
        -(-size // 8),
        -(-stored_size // 8),
    )
