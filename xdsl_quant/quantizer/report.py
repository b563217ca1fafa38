"""What quantization did to a model: kernel by kernel, and as a whole."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import SSAValue

from xdsl_quant.calibration.instrumented_function import Batch
from xdsl_quant.diagnostics import location_prefix, table
from xdsl_quant.dialects.quant import RegionOp
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize
from xdsl_quant.transforms.building.arrays import constant_elements
from xdsl_quant.transforms.propagation.kernel_matching import is_constant
from xdsl_quant.transforms.propagation.module_kernels import kernels_of, ports_of

from .accuracy import Accuracy, Labels, Scores
from .errors import (
    OUTPUT,
    Error,
    KernelErrors,
    decibels,
    json_text,
    measure_errors,
    result_key,
)


@dataclass(frozen=True)
class KernelReport:
    """What quantization did to a kernel."""

    kernel: str
    """The name of the kernel."""

    location: str
    """Where it is in the model; empty if that is not known."""

    result_type: str
    """The quantized type of its result; empty if the kernel stays in floating point."""

    weight_type: str
    """The quantized type of its weights; empty if it has none."""

    sqnr: float
    """
    Signal to quantization noise ratio of the result in dB, in the quantized model; NaN if
    no sample reaches the kernel.
    """

    own_sqnr: float
    """The same if no other kernel is quantized."""

    weight_sqnr: float
    """That of the weights; NaN if it has none."""

    saturated_part: float
    """The part of the values of the float model that is outside of what is stored."""

    float_bytes: int
    """The size of constants in floating point."""

    stored_bytes: int
    """The size of what is stored instead, without scales."""


@dataclass(frozen=True)
class ModelReport:
    """What quantization did to a model."""

    kernels: Sequence[KernelReport]
    """The kernels in the order of the text."""

    outputs: Mapping[str, float]
    """The signal to quantization noise ratio of each result of the model in dB."""

    accuracy: Accuracy | None = None
    """That of the float and of the quantized model, if there are labels."""

    @property
    def float_bytes(self) -> int:
        """The size of constants in floating point."""
        return sum(kernel.float_bytes for kernel in self.kernels)

    @property
    def stored_bytes(self) -> int:
        """The size of what is stored instead, without scales."""
        return sum(kernel.stored_bytes for kernel in self.kernels)

    def json(self) -> str:
        """
        The report as JSON: objects whose keys are the fields of these classes. A ratio
        without noise, and one of what there is not, is `null`.
        """
        return json_text(asdict(self))

    def __str__(self) -> str:
        """The report as a table."""
        rows = [
            (
                "kernel",
                "where",
                "result",
                "weights",
                "SQNR",
                "own",
                "weights",
                "saturated",
                "bytes",
            )
        ]
        rows += [
            (
                each.kernel,
                each.location,
                _storage(each.result_type) or "float",
                _storage(each.weight_type) or "-",
                decibels(each.sqnr),
                decibels(each.own_sqnr),
                decibels(each.weight_sqnr),
                f"{each.saturated_part:.2%}",
                f"{each.float_bytes} -> {each.stored_bytes}"
                if each.float_bytes
                else "-",
            )
            for each in self.kernels
        ]
        outputs = ", ".join(
            f"{name} {decibels(sqnr)} dB" for name, sqnr in self.outputs.items()
        )
        ratio = self.float_bytes / self.stored_bytes if self.stored_bytes else 1.0
        return "\n".join(
            [
                *table(rows),
                "",
                f"SQNR of the results: {outputs}",
                *([] if self.accuracy is None else [str(self.accuracy)]),
                f"constants: {self.float_bytes} -> {self.stored_bytes} bytes, "
                f"{ratio:.2f} times less",
            ]
        )


def report_on(
    resolved: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None = None,
    reference: ModuleOp | None = None,
    labels: Labels | None = None,
) -> ModelReport:
    """
    Measure what quantization does to a model.

    Args:
        resolved: the model, whose kernels have quantization parameters.
        batches: samples, best those that the model was not calibrated with.
        entry: the function that takes the samples.
        reference: the same model with the constants of the float one, if `resolved` has
            others.
        labels: what is right for the samples.

    Raises:
        DataError: if the labels do not fit the results.
    """
    scores = None if labels is None else Scores.of(labels)
    observe = None if scores is None else scores.add
    errors = measure_errors(resolved, batches, entry, reference, observe)
    return ModelReport(
        [
            _kernel_report(kernel, errors.get(result_key(number, 0)))
            for number, kernel in enumerate(kernels_of(resolved))
        ],
        {
            name: found.accumulated.sqnr
            for name, found in errors.items()
            if OUTPUT in name
        },
        None if scores is None else scores.accuracy(),
    )


def _kernel_report(kernel: RegionOp, errors: KernelErrors | None) -> KernelReport:
    is_float = stays_float(kernel)
    weights = [*_weights(kernel, is_float=is_float)]
    weight_error = Error()
    for weight in weights:
        if weight.type is not None:
            parameters = QuantizationParameters.from_type(weight.type)
            values = weight.values.astype(parameters.expressed_dtype)
            stored = quantize(values, parameters)
            weight_error.add(values, dequantize(stored, parameters), None)
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
        sum(weight.values.nbytes for weight in weights),
        sum(weight.stored_bytes for weight in weights),
    )


@dataclass(frozen=True)
class _Weight:
    """A constant of a kernel."""

    values: NDArray[np.floating]
    type: UniformType | None
    """How it is stored; `None` if as it is."""

    @property
    def stored_bytes(self) -> int:
        if self.type is None:
            return self.values.nbytes
        return -(-self.values.size * self.type.storage_type_integral_width // 8)


def _has_floats(value: SSAValue) -> bool:
    return isinstance(scalar_or_element_type(value.type), AnyFloat)


def stored_bytes(module: ModuleOp) -> int:
    """The size of the constants of kernels that have quantization parameters."""
    return sum(
        weight.stored_bytes
        for kernel in kernels_of(module)
        for weight in _weights(kernel, is_float=stays_float(kernel))
    )


def stays_float(kernel: RegionOp) -> bool:
    """Whether a kernel has a port of floats without quantization parameters."""
    return any(
        _has_floats(value)
        and not isinstance(spec, UniformType)
        and not is_constant(value)
        for value, spec in ports_of(kernel)
    )


def _weights(kernel: RegionOp, *, is_float: bool) -> Iterator[_Weight]:
    for value, spec in zip(kernel.inputs, kernel.input_specs, strict=True):
        values = constant_elements(value)
        if values is not None and _has_floats(value):
            if is_float or not isinstance(spec, UniformType):
                spec = None
            yield _Weight(values, spec)


def _storage(quantized_type: str) -> str:
    """A quantized type without its parameters."""
    found = re.match(r"!quant\.uniform<(\w+(<[^>]*>)?)", quantized_type)
    return found[1] if found else ""
