"""
Recipes in files.

Example:

```toml
description = "8 bits, but for the last layer"
targets = ["tflite-int8"]
observer = "percentile=99.99"

[[overrides]]
ops = ["tfl.softmax"]
keep-float = true

[[overrides]]
locations = ["block_1/"]
observer = "mse=8"
```

One that quantizes weights alone:

```toml
description = "4-bit weights"
mode = "weight-only"

[weights]
bits = 4
granularity = "block"
block-size = 32
range = "mse"
```

One that searches for the bits of weights:

```toml
description = "4 or 8 bits"
targets = ["tflite-mixed"]

[search]
weight-bits = [4, 8]
budget = "20 kB"
```
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TypeVar, cast, get_args

from xdsl_quant.runtime.file_names import has_suffix
from xdsl_quant.runtime.toml_tables import (
    TomlFile,
    TomlTable,
    quoted,
    toml_text,
)

from .budget import parse_budget
from .recipe import (
    MAX_BITS,
    Mode,
    Override,
    Recipe,
    RecipeError,
    SearchOptions,
    WeightGranularity,
    WeightOptions,
    WeightRange,
    WeightRounding,
    check_bits,
    check_flag,
    check_observer,
)

_WordT = TypeVar("_WordT", bound=str)

_RECIPES = Path(__file__).with_name("recipes")

_RECIPE_KEYS = tuple(
    field.name.replace("_", "-") for field in fields(Recipe) if field.name != "name"
)
_KEYS_OF_MODES: Mapping[str, Sequence[Mode]] = {
    "targets": ("static",),
    "observer": ("static",),
    "search": ("static",),
    "asymmetric-inputs": ("dynamic-range",),
    "float-concatenations": ("static",),
}
_WEIGHT_KEYS = tuple(field.name.replace("_", "-") for field in fields(WeightOptions))
_SEARCH_KEYS = tuple(field.name.replace("_", "-") for field in fields(SearchOptions))
_OVERRIDE_KEYS = tuple(
    field.name.replace("_", "-") for field in fields(Override) if field.compare
)


def recipe_names() -> Sequence[str]:
    """The names of the recipes that this package has."""
    return sorted(path.stem for path in _RECIPES.glob("*.toml"))


def read_recipe(source: str | Path) -> Recipe:
    """
    The recipe of a file.

    Args:
        source: the path of a `.toml` file, or the name of a recipe that this package has.

    Raises:
        RecipeError: if the file cannot be read, is wrong, or there is no such recipe.
    """
    path = Path(source)
    if isinstance(source, str) and not has_suffix(source, ".toml"):
        path = _RECIPES / f"{source}.toml"
        if source not in recipe_names():
            raise RecipeError(
                f"unknown recipe '{source}', available: {quoted(recipe_names())}; use one "
                "of them, or the path of a .toml file"
            )
    return _recipe(TomlFile.read(path, RecipeError).table(), path.stem)


def parse_recipe(
    text: str, file_name: str = "recipe.toml", name: str = "recipe"
) -> Recipe:
    """
    The recipe that a text in TOML describes.

    Raises:
        RecipeError: if the text is wrong.
    """
    return _recipe(TomlFile(text, file_name, RecipeError).table(), name)


def _recipe(table: TomlTable, name: str) -> Recipe:
    table.check_keys(_RECIPE_KEYS, "a recipe")
    default = Recipe()
    mode = _word(table, "mode", get_args(Mode)) or default.mode
    for key, modes in _KEYS_OF_MODES.items():
        if key in table and mode not in modes:
            table.fail(f"'{key}' has no effect in mode '{mode}'; leave it out", key)
    if "targets" in table and not table.texts("targets"):
        table.fail(
            "expected one or more 'targets', found none; leave it out", "targets"
        )
    corrects_bias = _bool(table, "bias-correction")
    return Recipe(
        name,
        table.text("description") or "",
        table.texts("targets") or default.targets,
        _observer(table) or default.observer,
        default.bias_correction if corrects_bias is None else corrects_bias,
        tuple(_override(each) for each in table.tables("overrides")),
        mode,
        _weight_options(table.table("weights"), mode)
        if "weights" in table
        else default.weights,
        _search(table.table("search")) if "search" in table else default.search,
        _bool(table, "asymmetric-inputs"),
        _bool(table, "float-concatenations") or default.float_concatenations,
    )


def _search(table: TomlTable) -> SearchOptions:
    table.check_keys(_SEARCH_KEYS, "search")
    default = SearchOptions()
    budget, text = default.budget, table.text("budget")
    if text is not None:
        try:
            budget = parse_budget(text)
        except ValueError as e:
            table.fail(str(e), "budget")
    return SearchOptions(
        _searched_widths(table, "weight-bits") or default.weight_bits,
        _searched_widths(table, "activation-bits") or default.activation_bits,
        budget,
    )


def _searched_widths(table: TomlTable, key: str) -> Sequence[int]:
    """Different numbers of bits, from the least; none if there is no such key."""
    if key not in table:
        return ()
    values = [*table.array(key)]
    for value in values:
        if type(value) is not int or not 2 <= value <= MAX_BITS:
            table.fail(
                f"expected numbers of bits from 2 to {MAX_BITS} for '{key}', found "
                f"{toml_text(value)}",
                key,
            )
    if not values or len({*values}) < len(values):
        table.fail(
            f"expected different numbers of bits for '{key}', found {values}; leave it "
            "out, or write each one once",
            key,
        )
    return tuple(sorted(values))


def _weight_options(table: TomlTable, mode: Mode) -> WeightOptions:
    table.check_keys(_WEIGHT_KEYS, "weights")
    for key in table.values if mode == "static" else ():
        if key != "rounding":
            table.fail(f"'{key}' has no effect in mode 'static'; leave it out", key)
    default = WeightOptions()
    granularity = _word(table, "granularity", get_args(WeightGranularity))
    weight_range = _word(table, "range", get_args(WeightRange))
    rounding = _word(table, "rounding", get_args(WeightRounding))
    size: object = table.values.get("block-size", default.block_size)
    if type(size) is not int or size < 1:
        table.fail(
            f"expected a positive integer for 'block-size', found {toml_text(size)}",
            "block-size",
        )
    if "block-size" in table and granularity not in ("block", "block-or-axis"):
        table.fail(
            "'block-size' has no effect without granularity 'block' or 'block-or-axis'; "
            "leave it out",
            "block-size",
        )
    bits = _checked(table, "bits", lambda bits: check_bits("bits", bits, 8))
    return WeightOptions(
        cast("int | None", bits) or default.bits,
        granularity or default.granularity,
        size,
        weight_range or default.range,
        rounding or default.rounding,
    )


def _word(table: TomlTable, key: str, words: Sequence[_WordT]) -> _WordT | None:
    """One of several words; `None` if there is no such key."""
    if (word := table.text(key)) is None:
        return None
    if word not in words:
        table.fail(f"expected one of {quoted(words)} for '{key}', found '{word}'", key)
    return words[words.index(word)]


@contextmanager
def _located(table: TomlTable) -> Generator[None]:
    """Say where in a file a recipe is wrong."""
    try:
        yield
    except RecipeError as e:
        table.fail(str(e), e.key, e.found)


def _override(table: TomlTable) -> Override:
    table.check_keys(_OVERRIDE_KEYS, "an override")
    ops, locations, values = map(table.texts, ("ops", "locations", "values"))
    with _located(table):
        override = Override(
            ops,
            locations,
            values,
            table.values.get("keep-float"),
            table.values.get("observer"),
            table.values.get("weight-bits"),
        )
    places = {
        each: table.location(each.kind, each.pattern) for each in override.selectors
    }
    return replace(override, places=places)


def _observer(table: TomlTable) -> str | None:
    return cast("str | None", _checked(table, "observer", check_observer))


def _bool(table: TomlTable, key: str) -> bool | None:
    return cast("bool | None", _checked(table, key, partial(check_flag, key)))


def _checked(table: TomlTable, key: str, check: Callable[[object], object]) -> object:
    """Return a value after a check; `None` if there is no such key."""
    value = table.values.get(key)
    with _located(table):
        check(value)
    return value
