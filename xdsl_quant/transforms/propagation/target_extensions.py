"""What plugins have for hardware targets: files, constraints and patterns."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from xdsl_quant.runtime.plugins import MatchFn, QuantFn, plugins


class TargetExtensions(NamedTuple):
    """What all plugins have, by name. Nothing is imported before it is used."""

    targets: Mapping[str, Callable[[], Path]]
    """Files of targets."""

    constraints: Mapping[str, Callable[[], QuantFn]]
    """Constraints in Python."""

    patterns: Mapping[str, Callable[[], MatchFn]]
    """Patterns in Python."""


def target_extensions() -> TargetExtensions:
    """
    Return what the plugins have that `xdsl-opt` finds: those whose universe is a
    [`QuantizationUniverse`][xdsl_quant.runtime.plugins.QuantizationUniverse].

    Raises:
        PluginError: if two plugins have one name for different things.
    """
    found = plugins()
    return TargetExtensions(
        found.hardware_targets, found.constraints, found.kernel_patterns
    )
