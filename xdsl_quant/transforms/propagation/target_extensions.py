"""Target files, constraints and patterns that plugins provide."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from xdsl_quant.runtime.plugins import MatchFn, QuantFn, plugins


class TargetExtensions(NamedTuple):
    """Extensions of all plugins by name, imported on first use."""

    targets: Mapping[str, Callable[[], Path]]
    """Functions that return the path of a target file, by target name."""

    constraints: Mapping[str, Callable[[], QuantFn]]
    """Functions that import a Python constraint, by name."""

    patterns: Mapping[str, Callable[[], MatchFn]]
    """Functions that import a Python pattern, by name."""


def target_extensions() -> TargetExtensions:
    """
    Return the extensions of installed plugins, i.e. of xDSL universes of type
    [`QuantizationUniverse`][xdsl_quant.runtime.plugins.QuantizationUniverse].

    Raises:
        PluginError: if two plugins use the same name for different extensions.
    """
    universe = plugins()
    return TargetExtensions(
        universe.hardware_targets, universe.constraints, universe.kernel_patterns
    )
