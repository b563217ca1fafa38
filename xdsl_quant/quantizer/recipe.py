"""Recipes and budgets as data: storage, targets, observers and corrections."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from operator import index
from typing import Literal, NamedTuple, SupportsIndex, TypeAlias, cast, get_args

from xdsl_quant.diagnostics import quoted
from xdsl_quant.numerics.observers import parse_observer
from xdsl_quant.runtime.toml_tables import TomlError, toml_kind, toml_text

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
    """Upper bound on the size or the loss of a model."""

    amount: float
    """
    Size of constants in bytes, or the loss compared with the widest storage for each
    kernel: dB of signal-to-quantization-noise ratio, or percentage points of accuracy.
    """

    unit: BudgetUnit

    def __post_init__(self) -> None:
        """Raise a `ValueError` if the amount is negative or NaN, or the unit is unknown."""
        if not self.amount >= 0:
            raise ValueError(f"expected a budget of 0 or more, found {self.amount}")
        if self.unit not in (units := get_args(BudgetUnit)):
            raise ValueError(
                f"unknown budget unit '{self.unit}', available: {quoted(units)}"
            )

    def __str__(self) -> str:
        """Return, e.g., `20000 bytes` or `1 dB lost`."""
        amount = f"{self.amount:g}"
        if self.unit == "bytes":
            return f"{self.amount:.0f} bytes"
        return f"{amount} {'dB' if self.unit == 'dB' else 'points of accuracy'} lost"


def parse_budget(text: str) -> Budget:
    """
    Parse a budget such as `20 kB`, `1.5 dB` or `0.5 %`.

    Raises:
        ValueError: if the text is not a budget.
    """
    match = _BUDGET_TEXT.fullmatch(text.strip())
    if match is not None and (factor := _BYTES.get(match[2])) is not None:
        return Budget(float(match[1]) * factor, "bytes")
    if match is not None and (unit := _UNITS.get(match[2])) is not None:
        return Budget(float(match[1]), unit)
    raise ValueError(
        f"expected a budget, found '{text}'; write bytes such as '20 kB', a loss of SQNR "
        "such as '1 dB', or a loss of accuracy in points such as '0.5 %'"
    )


MAX_BITS = 16
"""Maximum width of a stored value."""


class RecipeError(TomlError):
    """Raised for an invalid recipe, with a message of one line."""

    def __init__(self, message: str, key: str | None = None, found: str | None = None):
        """
        Describe the problem of a recipe.

        Args:
            message: the problem.
            key: the TOML key with the problem, if any.
            found: the invalid string, if the value of the key is an array of strings.
        """
        super().__init__(message)
        self.key = key
        self.found = found


class Selector(NamedTuple):
    """A pattern that selects kernels or values."""

    kind: Literal["ops", "locations", "values"]
    pattern: str

    def selects(self, names: Iterable[str]) -> bool:
        """Return True if the pattern matches a whole name, or a part of a location."""
        if self.kind == "locations":
            return any(re.search(self.pattern, name) for name in names)
        return any(fnmatchcase(name, self.pattern) for name in names)


@dataclass(frozen=True)
class Override:
    """
    Changes for some kernels or values, selected by any of the patterns. Changes for a
    kernel apply to its results.

    Raises:
        RecipeError: if the override has no pattern or no change, or a value is invalid;
            the message names the keys of TOML files, e.g. `weight-bits`.
    """

    ops: Sequence[str] = ()
    """Names of kernels, or of their ops, with `*` as a wildcard."""

    locations: Sequence[str] = ()
    """Regular expressions, matched anywhere in the locations of the kernel's ops."""

    values: Sequence[str] = ()
    """Statistics keys from `quant-insert-stats-refs`, with `*` as a wildcard."""

    keep_float: bool | None = None
    """
    True to keep the kernels in floating point and the values unquantized; `False`
    cancels an earlier `True`.
    """

    observer: str | None = None
    """Observer of the ranges of the selected values."""

    weight_bits: int | None = None
    """
    Least width of the weights of the selected kernels; the target uses its first
    signature with at least this width.
    """

    places: Mapping[Selector, str] = field(
        default_factory=dict[Selector, str], compare=False, repr=False
    )
    """Location of each pattern in a file, e.g. `my.toml:3`; empty without a file."""

    def __post_init__(self):
        for key in ("ops", "locations", "values"):
            _check_texts(key, getattr(self, key))
        if not self.selectors:
            raise RecipeError(
                "expected 'ops', 'locations' or 'values' in an override, found none; "
                "select kernels or values"
            )
        if self.keep_float is self.observer is self.weight_bits is None:
            raise RecipeError(
                "expected 'keep-float', 'observer' or 'weight-bits' in an override, found "
                "none; add a change"
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
    """Raise a `RecipeError` if a value is neither `None` nor a boolean."""
    if value is not None and not isinstance(value, bool):
        raise RecipeError(
            f"expected true or false for '{key}', found {toml_text(value)}", key
        )


def check_observer(value: object) -> None:
    """Raise a `RecipeError` if a value is neither `None` nor an observer."""
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
    """Raise a `RecipeError` if a value is neither `None` nor a width from 2 to `most`."""
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
`static` quantizes weights and activations with calibrated ranges. `weight-only` quantizes
weights. `dynamic-range` also quantizes activations of some contractions at run time.
"""


WeightGranularity = Literal["tensor", "axis", "block", "block-or-axis"]
"""Granularity of scales: see `WeightOptions`."""


WeightRange = Literal["min-max", "mse"]

WeightRounding = Literal["nearest", "gptq"]

PartialBlocks = Literal["resize", "float", "error"]
"""Treatment of weights whose size is not a multiple of the block size."""


@dataclass(frozen=True)
class WeightOptions:
    """Storage of weights. Mode `static` uses only `rounding`."""

    bits: int = 8
    """Width of a stored weight, 2 to 8."""

    granularity: WeightGranularity = "axis"
    """
    One scale per weight tensor, output channel or block. `block-or-axis` uses output
    channels for TensorFlow Lite and blocks otherwise.
    """

    block_size: int = 32
    """Number of weights in a block, along the contracted dimension."""

    range: WeightRange = "min-max"
    """`min-max` covers all weights; `mse` minimizes their squared error."""

    rounding: WeightRounding = "nearest"
    """`nearest`, or `gptq` to minimize the error of results on the samples."""

    narrow_range: bool = True
    """`False` to also store the smallest value of the width, e.g. -8 with 4 bits."""

    partial_blocks: PartialBlocks = "resize"
    """
    Weights whose size along the blocks is not a multiple of `block_size`: `resize` uses
    the nearest divisor, `float` leaves them in floating point with a warning, and `error`
    refuses them.
    """


_BUDGET = Budget(12, "dB")


@dataclass(frozen=True)
class SearchOptions:
    """Widths that a search tries for each kernel if the target supports them."""

    weight_bits: Sequence[int] = (4, 8)

    activation_bits: Sequence[int] = (8,)
    """Widths of non-constant operands and of results."""

    budget: Budget = _BUDGET
    """Budget for the chosen widths."""


@dataclass(frozen=True)
class Recipe:
    """Options of the quantization of a model."""

    name: str = "int8"

    description: str = ""
    """The recipe in one line."""

    targets: Sequence[str] = ("tflite-int8", "stablehlo-int8")
    """Names or files of targets; the one with the most kernels for the model is used."""

    observer: str = "min-max"
    """Observer of all values: see [`calibrate`][xdsl_quant.calibration.calibrate]."""

    bias_correction: bool = True
    """True to [correct biases][xdsl_quant.quantizer.bias_correction]."""

    overrides: Sequence[Override] = field(default_factory=tuple[Override, ...])
    """Changes for some kernels and values. Later overrides take precedence."""

    mode: Mode = "static"

    weights: WeightOptions = WeightOptions()
    """Storage and rounding of weights."""

    search: SearchOptions | None = None
    """Widths and budget of a search; `None` to use the widths of the target."""

    asymmetric_inputs: bool | None = None
    """
    `False` to omit the zero points of activations of `tfl.fully_connected` in mode
    `dynamic-range`. TensorFlow Lite's convolutions always have zero points. StableHLO
    contractions never have zero points, and `True` is an error for them.
    """

    float_concatenations: bool = False
    """
    True to keep a kernel whose operands share a scale, such as a concatenation, in floating
    point if the range of an operand is less than four times this scale.
    """
