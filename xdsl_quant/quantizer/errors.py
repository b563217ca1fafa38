"""
Where the error of a quantized model comes from, kernel by kernel.

A kernel has two errors. The accumulated one is that of its results in the quantized model,
compared with the float model. Its own one is that of its results if it is the only kernel
that is quantized: it is computed from the values of the float model. So three modules are
run on the same samples: the float model, the quantized one, and one in which each quantized
kernel stands beside the float one, and only the latter has users.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.calibration.instrumented_function import Batch
from xdsl_quant.dialects.quant import RegionOp
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.runtime.loading import apply_passes
from xdsl_quant.transforms.propagation.module_kernels import kernels_of
from xdsl_quant.transforms.propagation.port_ranges import set_specs
from xdsl_quant.transforms.propagation.quant_export import QuantExportPass
from xdsl_quant.transforms.propagation.quant_inline_regions import inline_regions

from .recording import Floats, RecordedModule, is_recordable, record, record_results


@dataclass
class Error:
    """The difference between the values of a float model and those of a quantized one."""

    signal: float = 0.0
    """The sum of the squares of the values of the float model."""

    noise: float = 0.0
    """The sum of the squares of the differences."""

    count: int = 0
    """The number of values."""

    saturated: int = 0
    """How many values of the float model are outside of what can be stored."""

    @property
    def sqnr(self) -> float:
        """Signal to quantization noise ratio in dB: infinite if there is no difference."""
        if not self.noise:
            return math.inf
        if not self.signal:
            return -math.inf
        return 10 * math.log10(self.signal / self.noise)

    @property
    def saturated_part(self) -> float:
        """The part of the values that is outside of what can be stored, from 0 to 1."""
        return self.saturated / self.count if self.count else 0.0

    def add(
        self, expected: Floats, actual: Floats, bounds: tuple[float, float] | None
    ) -> None:
        """Add values of the float model, those instead of them, and their storage range."""
        values = expected.astype(np.float64)
        self.signal += float(np.square(values).sum())
        self.noise += float(np.square(values - actual).sum())
        self.count += values.size
        if bounds is not None:
            low, high = bounds
            self.saturated += int(np.count_nonzero((values < low) | (values > high)))


def decibels(sqnr: float) -> str:
    """A signal to quantization noise ratio in a table."""
    if math.isnan(sqnr):
        return "-"
    return "exact" if sqnr == math.inf else f"{sqnr:.1f}"


@dataclass(frozen=True)
class KernelErrors:
    """The errors of a result of a kernel."""

    accumulated: Error
    own: Error


def result_key(kernel: int, result: int) -> str:
    """What a result of a kernel is called: by the number of the kernel in the module."""
    return f"{kernel}:{result}"


OUTPUT = "output:"
"""What results of the model are called, with a number after it."""


def measure_errors(
    resolved: ModuleOp, batches: Iterable[Batch], entry: str | None = None
) -> Mapping[str, KernelErrors]:
    """
    The errors of the results of kernels and of the model.

    Args:
        resolved: a model whose kernels have quantization parameters.
        batches: the samples, as [`calibrate`][xdsl_quant.calibration.calibrate] takes them.
        entry: the function that takes them.

    Returns:
        The errors by [`result_key`][xdsl_quant.quantizer.errors.result_key] and
        [`OUTPUT`][xdsl_quant.quantizer.errors.OUTPUT], in the order of the text.
        The model has no error of its own: both are the same.

    Raises:
        ValueError: if the samples do not fit the function.
    """
    bounds = _bounds(resolved)
    runs = [
        RecordedModule.of(module, entry)
        for module in (_float_module(resolved), _quantized(resolved), _own(resolved))
    ]
    errors: dict[str, KernelErrors] = {}
    for batch in batches:
        expected, accumulated, own = (run.values(batch) for run in runs)
        for key, values in expected.items():
            known = errors.setdefault(key, KernelErrors(Error(), Error()))
            limits = bounds.get(key)
            known.accumulated.add(values, accumulated[key], limits)
            known.own.add(values, own.get(key, accumulated[key]), limits)
    return errors


def _bounds(module: ModuleOp) -> Mapping[str, tuple[float, float]]:
    """The smallest and the largest number that results of kernels can be stored as."""
    bounds: dict[str, tuple[float, float]] = {}
    for number, kernel in enumerate(kernels_of(module)):
        for index, spec in enumerate(kernel.output_specs):
            if isinstance(spec, UniformType):
                parameters = QuantizationParameters.from_type(spec)
                stored = np.array([parameters.storage_min, parameters.storage_max])
                points = parameters.zero_points.reshape(-1, 1)
                limits = (stored - points) * parameters.scales.reshape(-1, 1)
                bounds[result_key(number, index)] = limits.min(), limits.max()
    return bounds


# The three modules


def _with_refs(resolved: ModuleOp) -> ModuleOp:
    """A copy with a `quant.stats_ref` for each result of a kernel, and of the model."""
    module = resolved.clone()
    for number, kernel in enumerate(kernels_of(module)):
        _add_refs(kernel, number)
    for function in module.ops:
        if isinstance(function, FuncOp):
            record_results(function, f"{function.sym_name.data}:{OUTPUT}")
    return module


def _add_refs(kernel: RegionOp, number: int) -> None:
    for index, result in enumerate(kernel.results):
        if is_recordable(result):
            record(result, result_key(number, index))


def _float_module(resolved: ModuleOp) -> ModuleOp:
    module = _with_refs(resolved)
    kernels = kernels_of(module)
    for kernel in kernels:
        _forget_specs(kernel)
    inline_regions(kernels)
    return module


def _forget_specs(kernel: RegionOp) -> None:
    types = *kernel.operand_types, *kernel.result_types
    set_specs(kernel, [scalar_or_element_type(type_) for type_ in types], {})


def _quantized(resolved: ModuleOp) -> ModuleOp:
    module = _with_refs(resolved)
    apply_passes(module, [QuantExportPass()])
    return module


def _own(resolved: ModuleOp) -> ModuleOp:
    module = resolved.clone()
    for number, kernel in enumerate(kernels_of(module)):
        copy = kernel.clone()
        _forget_specs(copy)
        Rewriter.insert_op(copy, InsertPoint.before(kernel))
        for result, float_result in zip(kernel.results, copy.results, strict=True):
            result.replace_all_uses_with(float_result)
        _add_refs(kernel, number)
        inline_regions([copy])
    apply_passes(module, [QuantExportPass()])
    return module
