"""Dialects, passes and targets for `xdsl-opt`, imported on first use."""

from collections.abc import Callable, Container, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from pathlib import Path
from typing import TypeVar

from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect
from xdsl.targets import get_all_targets
from xdsl.transforms import get_all_passes

from xdsl_quant import xdsl_patches
from xdsl_quant.runtime.plugins import (
    QuantizationUniverse,
    add_extensions,
    lazy,
    optional_module,
    pass_factories,
    target_files,
)

__all__ = ["QuantizationUniverse", "XDSL_QUANT_UNIVERSE"]

_T = TypeVar("_T")

_CORE = QuantizationUniverse(
    all_dialects={
        "quant": lazy("dialects.quant", "Quant"),
        "shape": lazy("dialects.shape", "Shape"),
    },
    all_passes={
        **pass_factories("transforms.quant"),
        **pass_factories(
            "transforms.propagation",
            (
                "quant-constraints-to-specs",
                "quant-export",
                "quant-fuse-kernels",
                "quant-inline-regions",
                "quant-propagate",
            ),
        ),
        **pass_factories("transforms.statistics"),
        **pass_factories("transforms.weights"),
    },
    all_targets={"mlir-aliased": lazy("targets.mlir_aliased", "MLIRAliasedTarget")},
    hardware_targets=target_files(
        Path(__file__).parent / "transforms" / "propagation" / "hardware_targets",
        ["mac-array"],
    ),
)

_SLICES = (
    "frontends.linalg_named_ops",
    "frontends.onnx",
    "frontends.stablehlo",
    "frontends.tflite",
    "frontends.tosa",
    "inspecting",
    "transforms.float_layers",
)
"""Optional packages whose `slice.py` declares further dialects, passes and targets."""


def _declarations() -> Iterator[tuple[str, QuantizationUniverse]]:
    yield "core", _CORE
    for folder in _SLICES:
        if (module := optional_module(f"{folder}.slice")) is not None:
            yield folder, module.SLICE


@cache
def _dialects_of_other_plugins() -> AbstractSet[str]:
    from importlib.metadata import entry_points

    universes = (plugin.load() for plugin in entry_points(group="xdsl.universe"))
    return {
        name
        for universe in universes
        if universe is not XDSL_QUANT_UNIVERSE
        for name in universe.all_dialects
    }


class _PluginUniverse(QuantizationUniverse):
    """
    Universe without the dialects that other plugins declare: xDSL refuses duplicates.

    Other plugins are loaded when `all_dialects` is read: xDSL has imported them by then.
    """

    @property
    def all_dialects(self) -> dict[str, Callable[[], Dialect]]:
        other_dialects = _dialects_of_other_plugins()
        return {k: v for k, v in self._all_dialects.items() if k not in other_dialects}

    @all_dialects.setter
    def all_dialects(self, value: dict[str, Callable[[], Dialect]]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride] as the class says
        self._all_dialects = value


def _united(
    part: Callable[[QuantizationUniverse], Mapping[str, _T]],
    taken: Container[str] = (),
) -> dict[str, _T]:
    """Merge one mapping (e.g. passes) of core and slices, without the names in `taken`."""
    return {
        name: value
        for _, declaration in _DECLARED
        for name, value in part(declaration).items()
        if name not in taken
    }


_DECLARED = [*_declarations()]

# xDSL's own dialects need the patches to parse lowered modules.
xdsl_patches.apply_on_load(_united(lambda part: part.on_load))
xdsl_patches.apply_to_tool()

# xDSL tools refuse to start if a plugin redeclares a name of xDSL.
XDSL_QUANT_UNIVERSE = _PluginUniverse(
    all_dialects=_united(lambda part: part.all_dialects, get_all_dialects()),
    all_passes=_united(lambda part: part.all_passes, get_all_passes()),
    all_targets=_united(lambda part: part.all_targets, get_all_targets()),
)
add_extensions(XDSL_QUANT_UNIVERSE, _DECLARED)
