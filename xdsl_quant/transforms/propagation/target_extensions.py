"""What plugins have for hardware targets: files, constraints and patterns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeVar

from xdsl_quant.universe import QuantizationUniverse

from .target_spec import MatchFn, QuantFn

_T = TypeVar("_T")


@dataclass(frozen=True)
class TargetExtensions:
    """What all plugins have, by name. Nothing is imported before it is used."""

    targets: Mapping[str, Callable[[], Path]]
    """Files of targets."""

    constraints: Mapping[str, Callable[[], QuantFn]]
    """Constraints in Python."""

    patterns: Mapping[str, Callable[[], MatchFn]]
    """Patterns in Python."""


@cache
def target_extensions() -> TargetExtensions:
    """
    What the plugins have that `xdsl-opt` finds: those whose universe is a
    [`QuantizationUniverse`][xdsl_quant.universe.QuantizationUniverse].

    Raises:
        ValueError: if two plugins have one name for different things.
    """
    plugins = sorted(entry_points(group="xdsl.universe"), key=lambda each: each.name)
    universes = [
        (plugin.name, universe)
        for plugin in plugins
        if isinstance(universe := plugin.load(), QuantizationUniverse)
    ]
    return TargetExtensions(
        _united("target", ((name, each.hardware_targets) for name, each in universes)),
        _united("constraint", ((name, each.constraints) for name, each in universes)),
        _united("pattern", ((name, each.kernel_patterns) for name, each in universes)),
    )


def _united(
    kind: str, parts: Iterable[tuple[str, Mapping[str, Callable[[], _T]]]]
) -> Mapping[str, Callable[[], _T]]:
    owners: dict[str, str] = {}
    united: dict[str, Callable[[], _T]] = {}
    for plugin, part in parts:
        for name in part:
            if name in owners:
                raise ValueError(
                    f"two plugins with one {kind}, found '{name}' in '{owners[name]}' and "
                    f"'{plugin}'; uninstall one of them"
                )
            owners[name] = plugin
        united |= part
    return united
