"""What to quantize, and how: a recipe, as data."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from .budget import Budget


class Selector(NamedTuple):
    """A pattern that selects kernels or values."""

    kind: Literal["ops", "locations", "values"]
    pattern: str

    def selects(self, names: Iterable[str]) -> bool:
        """Whether one of these names fits: a location anywhere, others as a whole."""
        if self.kind == "locations":
            return any(re.search(self.pattern, name) for name in names)
        return any(fnmatchcase(name, self.pattern) for name in names)


@dataclass(frozen=True)
class Override:
    """
    What is different for some kernels or values: those that one of the patterns selects.
    What is said of a kernel holds for its results.
    """

    ops: Sequence[str] = ()
    """Names of kernels, or of their ops, with `*`."""

    locations: Sequence[str] = ()
    """Regular expressions that are found in the location of an op of the kernel."""

    values: Sequence[str] = ()
    """Keys of values as `quant-insert-stats-refs` has them, with `*`."""

    keep_float: bool | None = None
    """
    Whether these kernels stay in floating point, and these values are not quantized;
    `False` takes back what an earlier override says.
    """

    observer: str | None = None
    """What finds the ranges of these values."""

    weight_bits: int | None = None
    """
    The least width of the weights of these kernels: the target has the first signature
    with so many bits or more.
    """

    places: Mapping[Selector, str] = field(
        default_factory=dict[Selector, str], compare=False, repr=False
    )
    """Where the patterns are in a file, e.g. `my.toml:3`; empty without one."""

    @property
    def selectors(self) -> Sequence[Selector]:
        """All patterns."""
        return [
            *(Selector("ops", pattern) for pattern in self.ops),
            *(Selector("locations", pattern) for pattern in self.locations),
            *(Selector("values", pattern) for pattern in self.values),
        ]


Mode = Literal["static", "weight-only", "dynamic-range"]
"""
What becomes integers: weights and activations, whose ranges are observed on samples;
weights alone; or weights and, when the model runs, activations, in products of TensorFlow
Lite that have kernels for that.
"""


WeightGranularity = Literal["tensor", "axis", "block", "block-or-axis"]
"""What has a scale: see [`WeightOptions`][xdsl_quant.quantizer.recipe.WeightOptions]."""


@dataclass(frozen=True)
class WeightOptions:
    """How weights are stored if they alone are quantized."""

    bits: int = 8
    """Number of bits of a stored weight."""

    granularity: WeightGranularity = "axis"
    """
    What has a scale: all weights of a product, each output channel, or each block; with
    `block-or-axis` each block, and each output channel of a product of TensorFlow Lite,
    whose files have no blocks.
    """

    block_size: int = 32
    """How many weights that are summed have the same scale in a block."""

    range: Literal["min-max", "mse"] = "min-max"
    """Which weights a scale is for: all, or a part of the range with less error."""

    rounding: Literal["nearest", "gptq"] = "nearest"
    """
    How a weight is rounded: to the nearest integer, or so that products by it change least
    on the samples.
    """


_BUDGET = Budget(12, "dB")


@dataclass(frozen=True)
class SearchOptions:
    """
    Which widths of storage are tried for each kernel, as far as the target has signatures
    for them, and how much may be spent.
    """

    weight_bits: Sequence[int] = (4, 8)
    """The widths of weights."""

    activation_bits: Sequence[int] = (8,)
    """The widths of what kernels take and give."""

    budget: Budget = _BUDGET
    """What the chosen assignment may cost."""


@dataclass(frozen=True)
class Recipe:
    """How a model is quantized."""

    name: str = "int8"

    description: str = ""
    """What the recipe does, in one line."""

    targets: Sequence[str] = ("tflite-int8", "stablehlo-int8")
    """
    Names or files of hardware targets. The first one is taken that has most kernels for the
    ops of the model.
    """

    observer: str = "min-max"
    """
    What finds the ranges of values, as [`calibrate`][xdsl_quant.calibration.calibrate]
    takes it.
    """

    bias_correction: bool = True
    """
    Whether biases take back what quantization shifts: see
    [`bias_correction`][xdsl_quant.quantizer.bias_correction].
    """

    overrides: Sequence[Override] = field(default_factory=tuple[Override, ...])
    """What is different for some kernels and values. Later ones count more."""

    mode: Mode = "static"
    """What is quantized."""

    weights: WeightOptions = WeightOptions()
    """How weights are stored in the modes `weight-only` and `dynamic-range`."""

    search: SearchOptions | None = None
    """What is searched for widths of storage; nothing by default."""

    asymmetric_inputs: bool = True
    """
    Whether activations of `tfl.fully_connected` get zero points in mode `dynamic-range`;
    those of convolutions always do.
    """
