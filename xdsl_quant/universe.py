"""What `xdsl-opt` finds in this package: name -> factory, nothing imported before use."""

from collections.abc import Callable, Container, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from importlib import import_module
from typing import Any

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect
from xdsl.targets import get_all_targets
from xdsl.transforms import get_all_passes
from xdsl.universe import Universe

from xdsl_quant import xdsl_patches


def _lazy(module: str, name: str) -> Callable[[], Any]:
    """A factory that imports what it returns."""
    return lambda: getattr(import_module(f"xdsl_quant.{module}"), name)


_DIALECTS = {
    "quant": _lazy("dialects.quant", "Quant"),
    "shape": _lazy("dialects.shape", "Shape"),
    "stablehlo": _lazy("dialects.stablehlo", "StableHLO"),
    "tf_type": _lazy("dialects.tfl", "TFType"),
    "tfl": _lazy("dialects.tfl", "TFL"),
}

_PASS_CLASSES = {
    "quant": {
        "lower-quant-ops": "LowerQuantOpsPass",
        "normalize-quant-types": "NormalizeQuantTypesPass",
        "quant-scales-from-fixed-point": "QuantScalesFromFixedPointPass",
        "quant-scales-to-fixed-point": "QuantScalesToFixedPointPass",
        "strip-func-quant-types": "StripFuncQuantTypesPass",
        "verify-quant-constraints": "VerifyQuantConstraintsPass",
    },
    "statistics": {
        "quant-calibrated-to-uniform": "QuantCalibratedToUniformPass",
        "quant-convert-const": "QuantConvertConstPass",
        "quant-convert-simulated-quantization": "QuantConvertSimulatedQuantizationPass",
        "quant-import-stats": "QuantImportStatsPass",
        "quant-insert-stats-refs": "QuantInsertStatsRefsPass",
        "quant-remove-instrumentation": "QuantRemoveInstrumentationPass",
        "quant-stats-to-calibrated": "QuantStatsToCalibratedPass",
    },
    "stablehlo": {
        "convert-quantized-stablehlo-to-linalg": "ConvertQuantizedStableHLOToLinalgPass",
        "convert-stablehlo-to-linalg": "ConvertStableHLOToLinalgPass",
        "quant-casts-to-stablehlo": "QuantCastsToStablehloPass",
        "stablehlo-casts-to-quant": "StablehloCastsToQuantPass",
        "stablehlo-legalize-qdq-to-quantized-op": "StablehloLegalizeQdqToQuantizedOpPass",
        "stablehlo-legalize-quant-to-integer": "StablehloLegalizeQuantToIntegerPass",
        "stablehlo-legalize-quantized-op-to-qdq": "StablehloLegalizeQuantizedOpToQdqPass",
    },
    "tfl": {
        "convert-tfl-to-linalg": "ConvertTFLToLinalgPass",
        "convert-tfl-to-tosa": "ConvertTFLToTosaPass",
        "tfl-variables-to-arguments": "TFLVariablesToArgumentsPass",
    },
}
"""The passes of each room; the module of a pass is named after it."""

_PASSES = {
    name: _lazy(f"transforms.{room}.{name.replace('-', '_')}", class_name)
    for room, classes in _PASS_CLASSES.items()
    for name, class_name in classes.items()
}

_TARGETS = {"mlir-aliased": _lazy("targets.mlir_aliased", "MLIRAliasedTarget")}


def _without(
    factories: Mapping[str, Callable[[], Any]], taken: Container[str]
) -> dict[str, Callable[[], Any]]:
    return {name: factories[name] for name in factories if name not in taken}


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


class _PluginUniverse(Universe):
    """
    Leaves a dialect to another plugin that has it, too, as xDSL takes each name once.

    What others have is asked for when the tools ask, when all plugins are imported.
    """

    @property
    def all_dialects(self) -> dict[str, Callable[[], Dialect]]:
        return _without(self._all_dialects, _dialects_of_other_plugins())

    @all_dialects.setter
    def all_dialects(self, value: dict[str, Callable[[], Dialect]]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride] as the class says
        self._all_dialects = value


def _load_missing_stablehlo(ctx: Context) -> None:
    """
    Add the ops and attributes of StableHLO that are here to the dialect of another plugin
    if it has none of their names, e.g. the casts between floats and quantized tensors.
    """
    from xdsl_quant.dialects.stablehlo import StableHLO

    parts = (*ctx.loaded_ops, *ctx.loaded_attrs, *ctx.loaded_types)
    loaded = {part.name for part in parts}
    for op in StableHLO.operations:
        if op.name not in loaded:
            ctx.load_op(op)
    for attribute in StableHLO.attributes:
        if attribute.name not in loaded:
            ctx.load_attr_or_type(attribute)


# Lowered modules are read by xDSL's own dialects, which need it, too.
xdsl_patches.apply_on_load({"stablehlo": _load_missing_stablehlo})

# A name that xDSL itself has, too, would make every tool refuse to start.
XDSL_QUANT_UNIVERSE = _PluginUniverse(
    all_dialects=_without(_DIALECTS, get_all_dialects()),
    all_passes=_without(_PASSES, get_all_passes()),
    all_targets=_without(_TARGETS, get_all_targets()),
)
