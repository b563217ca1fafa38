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
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from xdsl_quant.numerics.observers import parse_observer
from xdsl_quant.runtime.toml_tables import (
    TomlError,
    TomlFile,
    TomlTable,
    quoted,
    toml_text,
)

from .recipe import Override, Recipe

_RECIPES = Path(__file__).with_name("recipes")

_RECIPE_KEYS = ("description", "targets", "observer", "overrides")
_OVERRIDE_KEYS = tuple(field.name.replace("_", "-") for field in fields(Override))

_MAX_BITS = 16


class RecipeError(TomlError):
    """A recipe that cannot be used, explained in one line."""


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
    if isinstance(source, str) and not source.endswith(".toml"):
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
    return Recipe(
        name,
        table.text("description") or "",
        table.texts("targets") or default.targets,
        _observer(table) or default.observer,
        tuple(_override(each) for each in table.tables("overrides")),
    )


def _override(table: TomlTable) -> Override:
    table.check_keys(_OVERRIDE_KEYS, "an override")
    override = Override(
        table.texts("ops"),
        table.texts("locations"),
        table.texts("values"),
        _bool(table, "keep-float"),
        _observer(table),
        _bits(table, "weight-bits"),
    )
    if not override.selectors:
        table.fail(
            "expected 'ops', 'locations' or 'values' in an override, found none; say what "
            "it is for"
        )
    for pattern in override.locations:
        try:
            re.compile(pattern)
        except re.error as e:
            table.fail(
                f"expected a regular expression, found '{pattern}': {e}",
                "locations",
                pattern,
            )
    return override


def _observer(table: TomlTable) -> str | None:
    observer = table.text("observer")
    if observer is not None:
        try:
            parse_observer(observer)
        except ValueError as e:
            table.fail(str(e), "observer")
    return observer


def _bool(table: TomlTable, key: str) -> bool:
    value: Any = table.values.get(key, False)
    if not isinstance(value, bool):
        table.fail(f"expected true or false for '{key}', found {toml_text(value)}", key)
    return value


def _bits(table: TomlTable, key: str) -> int | None:
    value: Any = table.values.get(key)
    if value is None:
        return None
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or not 2 <= value <= _MAX_BITS
    ):
        table.fail(
            f"expected a number of bits from 2 to {_MAX_BITS} for '{key}', found "
            f"{toml_text(value)}",
            key,
        )
    return value
