"""
Recipes in TOML files.

Static quantization with overrides:

```toml
description = "8 bits, except in the last layer"
targets = ["tflite-int8"]
observer = "percentile=99.99"

[[overrides]]
ops = ["tfl.softmax"]
keep-float = true

[[overrides]]
locations = ["block_1/"]
observer = "mse=8"
```

Weights alone:

```toml
description = "4-bit weights"
mode = "weight-only"

[weights]
bits = 4
granularity = "block"
block-size = 32
range = "mse"
```

A search for the widths of weights:

```toml
description = "4 or 8 bits"
targets = ["tflite-mixed"]

[search]
weight-bits = [4, 8]
budget = "20 kB"
```
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias, get_args

from xdsl_quant.diagnostics import quoted
from xdsl_quant.runtime.atomic_files import has_suffix
from xdsl_quant.runtime.loading import model_format
from xdsl_quant.runtime.toml_tables import TomlFile, TomlTable, toml_text

from .recipe import (
    MAX_BITS,
    Mode,
    Override,
    PartialBlocks,
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
    parse_budget,
)

_RECIPES = Path(__file__).with_name("recipes")

_KEYS_OF_MODES: Mapping[str, Sequence[Mode]] = {
    "targets": ("static",),
    "observer": ("static",),
    "search": ("static",),
    "asymmetric-inputs": ("dynamic-range",),
    "float-concatenations": ("static",),
}
_OVERRIDE_KEYS = tuple(
    field.name.replace("_", "-") for field in fields(Override) if field.compare
)

_Reader: TypeAlias = Callable[[TomlTable, str], object]
"""Function that returns the checked value of a key in a table."""


def recipe_names() -> Sequence[str]:
    """Return the names of the built-in recipes."""
    return sorted(path.stem for path in _RECIPES.glob("*.toml"))


def read_recipe(source: str | Path) -> Recipe:
    """
    Read a recipe.

    Args:
        source: the path of a `.toml` file, or the name of a built-in recipe.

    Raises:
        RecipeError: if the file cannot be read or is invalid, or the name is unknown.
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


def with_target_of_file(recipe: Recipe, source: object, model: object) -> Recipe:
    """
    Return the recipe with the default target of the model's file format. The observer of
    the built-in recipe `int8` becomes `percentile` for this target.

    Args:
        recipe: a recipe, which keeps its `targets` if they are not the default ones, or
            contain the target of the format.
        source: the name or path from which the recipe was read, or a recipe.
        model: the path of a model file; other objects have no format.
    """
    file_format, known = model_format(model), (*recipe.targets,)
    if not file_format or known != Recipe.targets or file_format.target in known:
        return recipe
    observer = "percentile" if source == Recipe.name else recipe.observer
    return replace(recipe, targets=(file_format.target,), observer=observer)


def parse_recipe(
    text: str, file_name: str = "recipe.toml", name: str = "recipe"
) -> Recipe:
    """
    Parse a recipe from TOML text.

    Raises:
        RecipeError: if the text is invalid.
    """
    return _recipe(TomlFile(text, file_name, RecipeError).table(), name)


def _recipe(table: TomlTable, name: str) -> Recipe:
    table.check_keys([*_RECIPE], "a recipe")
    mode = _word_of(Mode)(table, "mode") if "mode" in table else Recipe.mode
    for key, modes in _KEYS_OF_MODES.items():
        if key in table and mode not in modes:
            table.fail(f"'{key}' has no effect in mode '{mode}'; leave it out", key)
    return replace(Recipe(name), **_given_fields(table, _RECIPE))


def _given_fields(
    table: TomlTable, readers: Mapping[str, _Reader]
) -> dict[str, object]:
    return {
        key.replace("-", "_"): read(table, key)
        for key, read in readers.items()
        if key in table
    }


def _read_targets(table: TomlTable, key: str) -> Sequence[str]:
    if not (targets := table.texts(key)):
        table.fail("expected one or more 'targets', found none; leave it out", key)
    return targets


def _read_search(table: TomlTable, key: str) -> SearchOptions:
    table = table.table(key)
    table.check_keys([*_SEARCH], key)
    return replace(SearchOptions(), **_given_fields(table, _SEARCH))


def _budget(table: TomlTable, key: str) -> object:
    try:
        return parse_budget(table.text(key) or "")
    except ValueError as e:
        table.fail(str(e), key)


def _searched_widths(table: TomlTable, key: str) -> Sequence[int]:
    """Return distinct widths in ascending order."""
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


def _weight_options(table: TomlTable, key: str) -> WeightOptions:
    is_static = table.text("mode") in (None, "static")
    table = table.table(key)
    table.check_keys([*_WEIGHTS], key)
    for name in table.values if is_static else ():
        if name != "rounding":
            table.fail(f"'{name}' has no effect in mode 'static'; leave it out", name)
    options = replace(WeightOptions(), **_given_fields(table, _WEIGHTS))
    for name in ("block-size", "partial-blocks"):
        if name in table and "block" not in options.granularity:
            table.fail(
                f"'{name}' has no effect without granularity 'block' or 'block-or-axis'; "
                "leave it out",
                name,
            )
    return options


def _block_size(table: TomlTable, key: str) -> int:
    size: object = table.values[key]
    if type(size) is not int or size < 1:
        table.fail(
            f"expected a positive integer for '{key}', found {toml_text(size)}", key
        )
    return size


def _word_of(kind: object) -> _Reader:
    words = get_args(kind)

    def read(table: TomlTable, key: str) -> str | None:
        if (word := table.text(key)) not in words:
            table.fail(
                f"expected one of {quoted(words)} for '{key}', found '{word}'", key
            )
        return word

    return read


@contextmanager
def _located(table: TomlTable) -> Generator[None]:
    """Add the location in the file to recipe errors."""
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


def _checked_by(check: Callable[[object], object]) -> _Reader:

    def read(table: TomlTable, key: str) -> object:
        with _located(table):
            check(table.values[key])
        return table.values[key]

    return read


_WEIGHTS: Mapping[str, _Reader] = {
    "bits": _checked_by(lambda bits: check_bits("bits", bits, 8)),
    "granularity": _word_of(WeightGranularity),
    "block-size": _block_size,
    "range": _word_of(WeightRange),
    "narrow-range": _checked_by(partial(check_flag, "narrow-range")),
    "partial-blocks": _word_of(PartialBlocks),
    "rounding": _word_of(WeightRounding),
}
_SEARCH: Mapping[str, _Reader] = {
    "weight-bits": _searched_widths,
    "activation-bits": _searched_widths,
    "budget": _budget,
}
_RECIPE: Mapping[str, _Reader] = {
    "description": TomlTable.text,
    "targets": _read_targets,
    "observer": _checked_by(check_observer),
    "bias-correction": _checked_by(partial(check_flag, "bias-correction")),
    "overrides": lambda table, key: tuple(map(_override, table.tables(key))),
    "mode": _word_of(Mode),
    "weights": _weight_options,
    "search": _read_search,
    "asymmetric-inputs": _checked_by(partial(check_flag, "asymmetric-inputs")),
    "float-concatenations": _checked_by(partial(check_flag, "float-concatenations")),
}
"""Reader of each TOML key. The keys have the names of `Recipe` fields."""
