"""What `xdsl-opt` finds in this package: name -> factory, nothing imported before use."""

from collections.abc import Callable, Container, Mapping
from collections.abc import Set as AbstractSet
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.targets import get_all_targets
from xdsl.transforms import get_all_passes
from xdsl.universe import Universe
from xdsl.utils.target import Target

from xdsl_quant import xdsl_patches

if TYPE_CHECKING:
    from xdsl_quant.transforms.propagation.target_spec import MatchFn, QuantFn


def _lazy(module: str, name: str) -> Callable[[], Any]:
    """A factory that imports what it returns."""
    return lambda: getattr(import_module(f"xdsl_quant.{module}"), name)


_DIALECTS = {
    "quant": _lazy("dialects.quant", "Quant"),
    "shape": _lazy("dialects.shape", "Shape"),
    "stablehlo": _lazy("frontends.stablehlo.dialect", "StableHLO"),
    "tf_type": _lazy("frontends.tflite.dialect", "TFType"),
    "tfl": _lazy("frontends.tflite.dialect", "TFL"),
}

_PASS_CLASSES = {
    "transforms.quant": {
        "arith-expand-small-floats": "ArithExpandSmallFloatsPass",
        "lower-quant-ops": "LowerQuantOpsPass",
        "normalize-quant-types": "NormalizeQuantTypesPass",
        "quant-block-scaled-to-tosa": "QuantBlockScaledToTosaPass",
        "quant-casts-from-dynamic": "QuantCastsFromDynamicPass",
        "quant-casts-to-dynamic": "QuantCastsToDynamicPass",
        "quant-requantize-to-tosa": "QuantRequantizeToTosaPass",
        "quant-scales-from-fixed-point": "QuantScalesFromFixedPointPass",
        "quant-scales-to-fixed-point": "QuantScalesToFixedPointPass",
        "strip-func-quant-types": "StripFuncQuantTypesPass",
        "tosa-rescale-to-quant": "TosaRescaleToQuantPass",
        "verify-quant-constraints": "VerifyQuantConstraintsPass",
    },
    "transforms.propagation": {
        "quant-constraints-to-specs": "QuantConstraintsToSpecsPass",
        "quant-export": "QuantExportPass",
        "quant-fuse-kernels": "QuantFuseKernelsPass",
        "quant-inline-regions": "QuantInlineRegionsPass",
        "quant-propagate": "QuantPropagatePass",
    },
    "transforms.statistics": {
        "quant-calibrated-to-uniform": "QuantCalibratedToUniformPass",
        "quant-convert-const": "QuantConvertConstPass",
        "quant-convert-simulated-quantization": "QuantConvertSimulatedQuantizationPass",
        "quant-import-stats": "QuantImportStatsPass",
        "quant-insert-stats-refs": "QuantInsertStatsRefsPass",
        "quant-remove-instrumentation": "QuantRemoveInstrumentationPass",
        "quant-stats-to-calibrated": "QuantStatsToCalibratedPass",
    },
    "frontends.stablehlo.lowering": {
        "convert-quantized-stablehlo-to-linalg": "ConvertQuantizedStableHLOToLinalgPass",
        "convert-stablehlo-to-linalg": "ConvertStableHLOToLinalgPass",
        "quant-casts-to-stablehlo": "QuantCastsToStablehloPass",
        "stablehlo-casts-to-quant": "StablehloCastsToQuantPass",
        "stablehlo-legalize-qdq-to-quantized-op": "StablehloLegalizeQdqToQuantizedOpPass",
        "stablehlo-legalize-quant-to-integer": "StablehloLegalizeQuantToIntegerPass",
        "stablehlo-legalize-quantized-op-to-qdq": "StablehloLegalizeQuantizedOpToQdqPass",
    },
    "frontends.tflite.lowering": {
        "convert-tfl-to-linalg": "ConvertTFLToLinalgPass",
        "convert-tfl-to-stablehlo": "ConvertTFLToStablehloPass",
        "convert-tfl-to-tosa": "ConvertTFLToTosaPass",
        "tfl-variables-to-arguments": "TFLVariablesToArgumentsPass",
    },
    "transforms.weights": {
        "quant-equalize-layers": "QuantEqualizeLayersPass",
        "quant-fold-batch-norm": "QuantFoldBatchNormPass",
        "quant-quantize-weights": "QuantQuantizeWeightsPass",
        "quant-smooth-activations": "QuantSmoothActivationsPass",
        "quant-split-reductions": "QuantSplitReductionsPass",
    },
}
"""The passes of each room; the module of a pass is named after it."""

_PASSES = {
    name: _lazy(f"{room}.{name.replace('-', '_')}", class_name)
    for room, classes in _PASS_CLASSES.items()
    for name, class_name in classes.items()
}

_HARDWARE_TARGETS = (
    "mac-array",
    "stablehlo-int16x8",
    "stablehlo-int8",
    "stablehlo-mixed",
    "tflite-int16x8",
    "tflite-int8",
    "tflite-mixed",
)
"""Files of `transforms/propagation/hardware_targets`."""

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


class QuantizationUniverse(Universe):
    """
    A universe of a plugin that also has hardware targets, and what files of targets name
    with a `@`: constraints and patterns in Python.
    """

    hardware_targets: Mapping[str, Callable[[], Path]]
    """The files of targets, by name."""

    constraints: Mapping[str, Callable[[], "QuantFn"]]
    """Constraints in Python, by name."""

    kernel_patterns: Mapping[str, Callable[[], "MatchFn"]]
    """Patterns in Python, by name."""

    def __init__(
        self,
        *,
        all_dialects: dict[str, Callable[[], Dialect]] | None = None,
        all_passes: dict[str, Callable[[], type[ModulePass]]] | None = None,
        all_targets: dict[str, Callable[[], type[Target]]] | None = None,
        hardware_targets: Mapping[str, Callable[[], Path]] | None = None,
        constraints: Mapping[str, Callable[[], "QuantFn"]] | None = None,
        kernel_patterns: Mapping[str, Callable[[], "MatchFn"]] | None = None,
    ):
        super().__init__(
            all_dialects=all_dialects, all_passes=all_passes, all_targets=all_targets
        )
        self.hardware_targets = hardware_targets or {}
        self.constraints = constraints or {}
        self.kernel_patterns = kernel_patterns or {}


def _target_file(name: str) -> Path:
    folders = {
        "tflite": "frontends/tflite/targets",
        "stablehlo": "frontends/stablehlo/targets",
    }
    folder = folders.get(name.split("-")[0], "transforms/propagation/hardware_targets")
    return Path(__file__).parent / folder / f"{name}.toml"


class _PluginUniverse(QuantizationUniverse):
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
    from xdsl_quant.frontends.stablehlo.dialect import StableHLO

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
    hardware_targets={name: partial(_target_file, name) for name in _HARDWARE_TARGETS},
)
