"""Selection of kernels and values by the overrides of a recipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from xdsl_quant.diagnostics import location_prefix, op_name
from xdsl_quant.dialects.quant import RegionOp, StatisticsRefOp
from xdsl_quant.transforms.propagation.module_kernels import kernels_of

from .recipe import Override, Recipe
from .recipe_files import RecipeError


@dataclass(frozen=True)
class Selection:
    """Overrides that apply to the kernels and values of a module."""

    kernels: Mapping[int, Sequence[Override]]
    """Maps the position of each kernel with overrides to these overrides."""

    keys: Mapping[str, Sequence[Override]]
    """Maps a statistics key to the overrides of the kernel, then those of the value."""

    @property
    def float_kernels(self) -> Sequence[int]:
        """Positions of the kernels that stay in floating point."""
        return [
            number
            for number, overrides in self.kernels.items()
            if _keeps_float(overrides)
        ]

    @property
    def weight_bits(self) -> Mapping[int, int]:
        """
        Maps the position of a kernel to the minimum width of weights that an override sets.
        Positions count only the kernels that do not stay in floating point.
        """
        inlined = {*self.float_kernels}
        return {
            number - sum(position < number for position in inlined): bits
            for number, overrides in self.kernels.items()
            if number not in inlined
            for override in overrides
            if (bits := override.weight_bits) is not None
        }

    def is_float(self, key: str) -> bool:
        """Return True if a value is not quantized."""
        return _keeps_float(self.keys.get(key, ()))

    def with_float_kernels(self, kernels: Iterable[int]) -> Selection:
        """Return a copy that also keeps the given kernels in floating point."""
        keep = Override(ops=("*",), keep_float=True)
        added = {number: [*self.kernels.get(number, ()), keep] for number in kernels}
        return replace(self, kernels={**self.kernels, **added})

    def observer(self, key: str, default: str) -> str:
        """Return the observer of a value."""
        observers = [each.observer for each in self.keys.get(key, ())]
        return next((each for each in reversed(observers) if each is not None), default)


def _keeps_float(overrides: Sequence[Override]) -> bool:
    flags = [each.keep_float for each in overrides if each.keep_float is not None]
    return bool(flags) and flags[-1]


def select(recipe: Recipe, module: ModuleOp) -> Selection:
    """
    Resolve the overrides of a recipe.

    Args:
        recipe: the recipe.
        module: a model of kernels, with a `quant.stats_ref` for each value.

    Raises:
        RecipeError: if a pattern selects nothing, or all kernels stay in floating
            point.
    """
    names = {
        number: selector_names([*kernel.body.block.ops], kernel.kernel)
        for number, kernel in enumerate(kernels_of(module))
    }
    references = [op for op in module.walk() if isinstance(op, StatisticsRefOp)]
    all_keys = [op.stats_key.data for op in references]
    check_selectors(recipe, [*names.values(), {"values": all_keys}])
    kernels = {n: each for n in names if (each := overrides_of(recipe, names[n]))}
    keys: dict[str, list[Override]] = {}
    for number, kernel in enumerate(kernels_of(module)):
        # Drop `keep_float`: quantized kernels may use the results of a float kernel.
        observers = [
            replace(override, keep_float=None)
            for override in kernels.get(number, ())
            if override.observer is not None
        ]
        for key in keys_of(kernel):
            keys.setdefault(key, []).extend(observers)
    for key in all_keys:
        keys.setdefault(key, []).extend(overrides_of(recipe, {"values": (key,)}))
    selection = Selection(kernels, keys)
    if len(selection.float_kernels) == len(names):
        raise RecipeError(
            f"recipe '{recipe.name}' keeps all kernels in floating point, expected one or "
            "more quantized kernels"
        )
    return selection


_Names: TypeAlias = Mapping[str, Sequence[str]]
"""Names by kind of selector."""


def overrides_of(recipe: Recipe, names: _Names) -> Sequence[Override]:
    """Return the overrides that select any of the names."""
    return [
        override
        for override in recipe.overrides
        if any(each.selects(names.get(each.kind, ())) for each in override.selectors)
    ]


def check_selectors(recipe: Recipe, names: Sequence[_Names]) -> None:
    """Raise a `RecipeError` if a pattern of a recipe selects none of the names."""
    for override in recipe.overrides:
        for selector in override.selectors:
            known = {name for each in names for name in each.get(selector.kind, ())}
            if selector.selects(known):
                continue
            near = get_close_matches(selector.pattern, sorted(known), 1)
            hint = f", maybe '{near[0]}' was meant" if near else ""
            place = override.places.get(selector)
            start = f"recipe '{recipe.name}'" if place is None else f"{place}: error"
            raise RecipeError(
                f"{start}: '{selector.pattern}' in '{selector.kind}' selects nothing in "
                f"the model{hint}"
            )


def selector_names(ops: Sequence[Operation], *kernels: str) -> _Names:
    """Return the names by which overrides select ops, or a kernel of these ops."""
    return {
        "ops": [*kernels, *map(op_name, ops)],
        "locations": [location_prefix(op.location).removesuffix(": ") for op in ops],
    }


def keys_of(kernel: RegionOp) -> Iterator[str]:
    """Yield the statistics keys of the results of a kernel."""
    for result in kernel.results:
        for use in result.uses:
            if isinstance(use.operation, StatisticsRefOp):
                yield use.operation.stats_key.data
