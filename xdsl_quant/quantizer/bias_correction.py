"""
Bias correction: quantization shifts the mean of what a product gives, and its bias can take
the shift back.

The shift of each channel is the mean difference between the float model and the quantized
one on samples. It contains what earlier kernels shift, so all biases are corrected at once,
and once more with what the correction leaves. A shift is only corrected if it is certain:
`_CERTAIN` times its standard error or more. For the idea see Nagel et al., "Data-Free
Quantization Through Weight Equalization and Bias Correction", 2019, section 4.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    TensorType,
)
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import ConstantLike

from xdsl_quant.calibration.instrumented_function import Batch
from xdsl_quant.dialects.quant import RegionOp
from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    Adds,
    MultipliesAndAccumulates,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import UniformType
from xdsl_quant.transforms.building.arrays import dense_elements
from xdsl_quant.transforms.propagation.module_kernels import kernels_of

from .errors import float_module, quantized_module, result_key
from .recording import RecordedModule

_ROUNDS = 2
_CERTAIN = 3.0

Numbers = NDArray[np.float64]


def correct_biases(
    resolved: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None = None,
    reference: ModuleOp | None = None,
) -> None:
    """
    Change constants that are biases, so that quantized products have the mean of the float
    ones in each channel.

    Args:
        resolved: a model whose kernels have quantization parameters; its constants change.
        batches: samples, which are read twice.
        entry: the function that takes them.
        reference: the same model with the constants of the float one, if `resolved` has
            other weights.
    """
    biases = _biases(resolved)
    if not biases:
        return
    original = resolved if reference is None else reference
    exact = RecordedModule.of(float_module(original, entry), entry)
    for _ in range(_ROUNDS):
        actual = RecordedModule.of(quantized_module(resolved, entry), entry)
        shifts = {key: _Shift() for key in biases}
        for batch in batches:
            expected, found = exact.values(batch), actual.values(batch)
            for key, bias in biases.items():
                shifts[key].add(bias.mean(expected[key] - found[key]))
        for key, bias in biases.items():
            bias.add(shifts[key].certain)


@dataclass
class _Shift:
    """The mean of differences in each channel, over batches."""

    count: int = 0
    sums: Any = 0.0
    squares: Any = 0.0

    def add(self, mean: Numbers) -> None:
        """Add the mean of a batch."""
        self.count += 1
        self.sums = self.sums + mean
        self.squares = self.squares + np.square(mean)

    @property
    def certain(self) -> Numbers:
        """The mean of each channel, and 0 where it may be chance."""
        mean = self.sums / self.count
        variance = np.maximum(self.squares / self.count - np.square(mean), 0)
        is_certain = np.abs(mean) > _CERTAIN * np.sqrt(variance) / sqrt(self.count)
        return np.where(is_certain, mean, 0.0)


@dataclass(frozen=True)
class _Bias:
    """A constant that is the bias of one kernel."""

    constant: Operation
    axes: tuple[int, ...]
    """The dimensions of the result that the constant has no elements of its own for."""

    def mean(self, differences: NDArray[np.floating]) -> Numbers:
        """The mean for each element of the bias."""
        means = np.mean(differences, self.axes, np.float64)
        return np.reshape(means, self._elements.shape)

    def add(self, numbers: Numbers) -> None:
        """Add numbers to the elements of the constant."""
        old = self._elements
        value = cast("DenseIntOrFPElementsAttr[Any]", self.constant.properties["value"])
        data = (old + numbers).astype(old.dtype)
        self.constant.properties["value"] = DenseIntOrFPElementsAttr(
            value.type, BytesAttr(data.tobytes())
        )

    @property
    def _elements(self) -> NDArray[Any]:
        value = self.constant.properties["value"]
        return dense_elements(cast("DenseIntOrFPElementsAttr[Any]", value))


def _biases(module: ModuleOp) -> Mapping[str, _Bias]:
    """The biases of quantized products, by the keys of their results."""
    biases: dict[str, _Bias] = {}
    for number, kernel in enumerate(kernels_of(module)):
        is_quantized = all(
            isinstance(spec, UniformType) for spec in kernel.output_specs
        )
        if not is_quantized or (value := _bias_of(kernel)) is None:
            continue
        if (bias := _constant_of(value, kernel)) is not None:
            biases[result_key(number, 0)] = bias
    return biases


def _bias_of(kernel: RegionOp) -> SSAValue | None:
    """What is added to the product of a kernel, if it is one."""
    product: Operation | None = None
    for op in kernel.body.block.ops:
        operands: list[SSAValue] = []
        if quantization_trait(op, MultipliesAndAccumulates) is not None:
            product = op
            if (trait := quantization_trait(op, AccumulatorUniformScale)) is not None:
                operands = [*op.operands[trait.bias : trait.bias + 1]]
        elif product is not None and quantization_trait(op, Adds) is not None:
            operands = [each for each in op.operands if each.owner is not product]
        if len(operands) == 1 and isinstance(port := operands[0], BlockArgument):
            return kernel.inputs[port.index]
    return None


def _constant_of(value: SSAValue, kernel: RegionOp) -> _Bias | None:
    """The constant that a bias is, or is broadcast of, if nothing else uses it."""
    type_ = kernel.results[0].type
    if not isinstance(type_, TensorType) or len([*value.uses]) != 1:
        return None
    rank = len(type_.get_shape())
    kept: list[int] | None = None
    if isinstance(region := value.owner, RegionOp):
        op, *others = region.body.block.ops
        dimensions = op.get_attr_or_prop("broadcast_dimensions")
        if len(others) != 1 or not isinstance(dimensions, DenseArrayBase):
            return None
        kept = [int(dimension) for dimension in dimensions.get_values()]
        value = region.inputs[0]
    constant = value.owner
    if not isinstance(constant, Operation) or not constant.has_trait(ConstantLike):
        return None
    own = value.type
    attr = constant.properties.get("value")
    if (
        not isinstance(own, TensorType)
        or not isinstance(attr, DenseIntOrFPElementsAttr)
        or len([*value.uses]) != 1
    ):
        return None
    shape = own.get_shape()
    if kept is None:
        kept = [*range(rank - len(shape), rank)]
    result = type_.get_shape()
    if any(shape[i] != result[dimension] for i, dimension in enumerate(kept)):
        return None
    return _Bias(constant, tuple(i for i in range(rank) if i not in kept))
