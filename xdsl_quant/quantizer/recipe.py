"""What to quantize, how, and what it may cost: a recipe and a budget, as data."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from operator import index
from typing import Literal, NamedTuple, SupportsIndex, TypeAlias, cast, get_args

from xdsl_quant.numerics.observers import parse_observer
from xdsl_quant.runtime.toml_tables import TomlError, quoted, toml_kind, toml_text

BudgetUnit: TypeAlias = Literal["bytes", "dB", "points"]

_BYTES: Mapping[str, int] = {
    "B": 1,
    "kB": 1000,
    "KiB": 1024,
    "MB": 1000**2,
    "MiB": 1024**2,
    "GB": 1000**3,
    "GiB": 1024**3,
}
_UNITS: Mapping[str, BudgetUnit] = {"dB": "dB", "%": "points"}
_BUDGET_TEXT = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(\S+)")


@dataclass(frozen=True)
class Budget:
    """How much may be spent."""

    amount: float
    """
    The size of constants in bytes, or how much may be lost compared with the widest
    assignment: dB of the signal to quantization noise ratio, or percentage points of
    accuracy.
    """

    unit: BudgetUnit

    def __post_init__(self) -> None:
        """
        Raises:
            ValueError: if the amount is negative or NaN, or the unit is unknown.
        """
        if not self.amount >= 0:
            raise ValueError(f"expected a budget of 0 or more, found {self.amount}")
        if self.unit not in (units := get_args(BudgetUnit)):
            raise ValueError(
                f"unknown unit of a budget '{self.unit}', available: {quoted(units)}"
            )

    def __str__(self) -> str:
        """Return the budget in words."""
        amount = f"{self.amount:g}"
        if self.unit == "bytes":
            return f"{self.amount:.0f} bytes"
        return f"{amount} {'dB' if self.unit == 'dB' else 'points of accuracy'} lost"


def parse_budget(text: str) -> Budget:
    """
    Return the budget that a text such as `20 kB`, `1.5 dB` or `0.5 %` says.

    Raises:
        ValueError: if it says none.
    """
    found = _BUDGET_TEXT.fullmatch(text.strip())
    if found is not None and (factor := _BYTES.get(found[2])) is not None:
        return Budget(float(found[1]) * factor, "bytes")
    if found is not None and (unit := _UNITS.get(found[2])) is not None:
        return Budget(float(found[1]), unit)
    raise ValueError(
        f"expected a budget, found '{text}'; write bytes such as '20 kB', a loss of SQNR "
        "such as '1 dB', or a loss of accuracy in points such as '0.5 %'"
    )


MAX_BITS = 16
"""The most bits of a stored number."""


class RecipeError(TomlError):
    """A recipe that cannot be used, explained in one line."""

    def __init__(self, message: str, key: str | None = None, found: str | None = None):
        """
        Args:
            message: what is wrong.
            key: the key of a file that is wrong, if it is one.
            found: the string that is wrong, if it is one of several.
        """
        super().__init__(message)
        self.key = key
        self.found = found


class Selector(NamedTuple):
    """A pattern that selects kernels or values."""

    kind: Literal["ops", "locations", "values"]
    pattern: str

    def selects(self, names: Iterable[str]) -> bool:
        """
        Return True if one of these names fits: a location anywhere, others as a whole.
        """
        if self.kind == "locations":
            return any(re.search(self.pattern, name) for name in names)
        return any(fnmatchcase(name, self.pattern) for name in names)


@dataclass(frozen=True)
class Override:
    """
    What is different for some kernels or values: those that one of the patterns selects.
    What is said of a kernel holds for its results.

    Raises:
        RecipeError: if it selects nothing or changes nothing, or a value is wrong; keys are
            called as in files.
    """

    ops: Sequence[str] = ()
    """Names of kernels, or of their ops, with `*`."""

    locations: Sequence[str] = ()
    """Regular expressions that are found in the location of an op of the kernel."""

    values: Sequence[str] = ()
    """Keys of values as `quant-insert-stats-refs` has them, with `*`."""

    keep_float: bool | None = None
    """
    True if these kernels stay in floating point, and these values are not quantized;
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

    def __post_init__(self):
        for key in ("ops", "locations", "values"):
            _check_texts(key, getattr(self, key))
        if not self.selectors:
            raise RecipeError(
                "expected 'ops', 'locations' or 'values' in an override, found none; say "
                "what it is for"
            )
        if self.keep_float is self.observer is self.weight_bits is None:
            raise RecipeError(
                "expected 'keep-float', 'observer' or 'weight-bits' in an override, found "
                "none; say what is different"
            )
        check_flag("keep-float", self.keep_float)
        check_observer(self.observer)
        check_bits("weight-bits", self.weight_bits)
        if self.weight_bits is not None and not (self.ops or self.locations):
            raise RecipeError(
                "'weight-bits' has no effect on 'values'; select kernels by 'ops' or "
                "'locations'",
                "weight-bits",
            )
        for pattern in self.locations:
            try:
                re.compile(pattern)
            except re.error as e:
                raise RecipeError(
                    f"expected a regular expression, found '{pattern}': {e}",
                    "locations",
                    pattern,
                ) from None

    @property
    def selectors(self) -> Sequence[Selector]:
        """All patterns."""
        return [
            *(Selector("ops", pattern) for pattern in self.ops),
            *(Selector("locations", pattern) for pattern in self.locations),
            *(Selector("values", pattern) for pattern in self.values),
        ]


def _check_texts(key: str, values: object) -> None:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise RecipeError(
            f"expected an array of strings for '{key}', found {toml_kind(values)}; write "
            "an array of strings",
            key,
        )
    for value in cast("Sequence[object]", values):
        if not isinstance(value, str):
            raise RecipeError(
                f"expected an array of strings for '{key}', found {toml_kind(value)} in "
                "it; write a string in its place",
                key,
            )


def check_flag(key: str, value: object) -> None:
    """
    Raises:
        RecipeError: if a value is there that is neither true nor false.
    """
    if value is not None and not isinstance(value, bool):
        raise RecipeError(
            f"expected true or false for '{key}', found {toml_text(value)}", key
        )


def check_observer(value: object) -> None:
    """
    Raises:
        RecipeError: if a value is there that is no observer.
    """
    if value is None:
        return
    if not isinstance(value, str):
        raise RecipeError(
            f"expected a string for 'observer', found {toml_kind(value)}; write a string",
            "observer",
        )
    try:
        parse_observer(value)
    except ValueError as e:
        raise RecipeError(str(e), "observer") from None


def check_bits(key: str, value: object, most: int = MAX_BITS) -> None:
    """
    Raises:
        RecipeError: if a value is there that is no integer from 2 to the most.
    """
    if value is None:
        return
    if (
        isinstance(value, bool)
        or not isinstance(value, SupportsIndex)
        or not 2 <= index(value) <= most
    ):
        raise RecipeError(
            f"expected a number of bits from 2 to {most} for '{key}', found "
            f"{toml_text(value)}",
            key,
        )


Mode = Literal["static", "weight-only", "dynamic-range"]
"""
What becomes integers: weights and activations, whose ranges are observed on samples;
weights alone; or weights and, when the model runs, activations, in products of TensorFlow
Lite that have kernels for that.
"""


WeightGranularity = Literal["tensor", "axis", "block", "block-or-axis"]
"""What has a scale: see [`WeightOptions`][xdsl_quant.quantizer.recipe.WeightOptions]."""


WeightRange = Literal["min-max", "mse"]

WeightRounding = Literal["nearest", "gptq"]


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

    range: WeightRange = "min-max"
    """Which weights a scale is for: all, or a part of the range with less error."""

    rounding: WeightRounding = "nearest"
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
    True if biases take back what quantization shifts: see
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

    asymmetric_inputs: bool | None = None
    """
    Zero points of activations in mode `dynamic-range`: `tfl.fully_connected` has them
    unless it is `False`. TensorFlow Lite's convolutions always have them; StableHLO's
    products never do, and `True` is refused.
    """

    float_concatenations: bool = False
    """
    True to keep a concatenation, or another kernel whose operands share a scale, in
    floating point if the range of one operand leaves fewer than four steps of the scale
    for that of another one.
    """
