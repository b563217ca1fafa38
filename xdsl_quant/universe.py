"""What `xdsl-opt` finds in this package: name -> factory, nothing imported before use."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import cache

from xdsl.context import Context
from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect
from xdsl.targets import get_all_targets
from xdsl.transforms import get_all_passes
from xdsl.universe import Universe

from xdsl_quant import xdsl_patches


def get_quant():
    from xdsl_quant.dialects.quant import Quant

    return Quant


def get_shape():
    from xdsl_quant.dialects.shape import Shape

    return Shape


def get_stablehlo():
    from xdsl_quant.dialects.stablehlo import StableHLO

    return StableHLO


def get_convert_quantized_stablehlo_to_linalg():
    from .transforms.stablehlo.convert_quantized_stablehlo_to_linalg import (
        ConvertQuantizedStableHLOToLinalgPass,
    )

    return ConvertQuantizedStableHLOToLinalgPass


def get_convert_stablehlo_to_linalg():
    from .transforms.stablehlo.convert_stablehlo_to_linalg import (
        ConvertStableHLOToLinalgPass,
    )

    return ConvertStableHLOToLinalgPass


def get_lower_quant_ops():
    from .transforms.quant.lower_quant_ops import LowerQuantOpsPass

    return LowerQuantOpsPass


def get_normalize_quant_types():
    from .transforms.quant.normalize_quant_types import NormalizeQuantTypesPass

    return NormalizeQuantTypesPass


def get_calibrated_to_uniform():
    from .transforms.statistics.quant_calibrated_to_uniform import (
        QuantCalibratedToUniformPass,
    )

    return QuantCalibratedToUniformPass


def get_convert_const():
    from .transforms.statistics.quant_convert_const import QuantConvertConstPass

    return QuantConvertConstPass


def get_convert_simulated_quantization():
    from .transforms.statistics.quant_convert_simulated_quantization import (
        QuantConvertSimulatedQuantizationPass,
    )

    return QuantConvertSimulatedQuantizationPass


def get_import_stats():
    from .transforms.statistics.quant_import_stats import QuantImportStatsPass

    return QuantImportStatsPass


def get_insert_stats_refs():
    from .transforms.statistics.quant_insert_stats_refs import QuantInsertStatsRefsPass

    return QuantInsertStatsRefsPass


def get_remove_instrumentation():
    from .transforms.statistics.quant_remove_instrumentation import (
        QuantRemoveInstrumentationPass,
    )

    return QuantRemoveInstrumentationPass


def get_scales_from_fixed_point():
    from .transforms.quant.quant_scales_from_fixed_point import (
        QuantScalesFromFixedPointPass,
    )

    return QuantScalesFromFixedPointPass


def get_scales_to_fixed_point():
    from .transforms.quant.quant_scales_to_fixed_point import (
        QuantScalesToFixedPointPass,
    )

    return QuantScalesToFixedPointPass


def get_stats_to_calibrated():
    from .transforms.statistics.quant_stats_to_calibrated import (
        QuantStatsToCalibratedPass,
    )

    return QuantStatsToCalibratedPass


def get_quant_casts_to_stablehlo():
    from .transforms.stablehlo.quant_casts_to_stablehlo import (
        QuantCastsToStablehloPass,
    )

    return QuantCastsToStablehloPass


def get_stablehlo_casts_to_quant():
    from .transforms.stablehlo.stablehlo_casts_to_quant import (
        StablehloCastsToQuantPass,
    )

    return StablehloCastsToQuantPass


def get_legalize_qdq_to_quantized_op():
    from .transforms.stablehlo.stablehlo_legalize_qdq_to_quantized_op import (
        StablehloLegalizeQdqToQuantizedOpPass,
    )

    return StablehloLegalizeQdqToQuantizedOpPass


def get_legalize_quant_to_integer():
    from .transforms.stablehlo.stablehlo_legalize_quant_to_integer import (
        StablehloLegalizeQuantToIntegerPass,
    )

    return StablehloLegalizeQuantToIntegerPass


def get_legalize_quantized_op_to_qdq():
    from .transforms.stablehlo.stablehlo_legalize_quantized_op_to_qdq import (
        StablehloLegalizeQuantizedOpToQdqPass,
    )

    return StablehloLegalizeQuantizedOpToQdqPass


def get_strip_func_quant_types():
    from .transforms.quant.strip_func_quant_types import StripFuncQuantTypesPass

    return StripFuncQuantTypesPass


def get_verify_quant_constraints():
    from .transforms.quant.verify_quant_constraints import (
        VerifyQuantConstraintsPass,
    )

    return VerifyQuantConstraintsPass


def get_mlir_aliased():
    from xdsl_quant.targets.mlir_aliased import MLIRAliasedTarget

    return MLIRAliasedTarget


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
        taken = _dialects_of_other_plugins()
        return {
            name: factory
            for name, factory in self._all_dialects.items()
            if name not in taken
        }

    @all_dialects.setter
    def all_dialects(self, value: dict[str, Callable[[], Dialect]]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride] as the class says
        self._all_dialects = value


def _load_stablehlo_casts(ctx: Context) -> None:
    """
    Let the casts between floats and quantized tensors be there, too, if the dialect is
    that of another plugin.
    """
    from xdsl_quant.dialects.stablehlo import UniformDequantizeOp, UniformQuantizeOp

    loaded = {op.name for op in ctx.loaded_ops}
    for op in (UniformDequantizeOp, UniformQuantizeOp):
        if op.name not in loaded:
            ctx.load_op(op)


# Lowered modules are read by xDSL's own dialects, which need it, too.
xdsl_patches.apply_on_load({"stablehlo": _load_stablehlo_casts})

# A name that xDSL itself has, too, would make every tool refuse to start.
XDSL_QUANT_UNIVERSE = _PluginUniverse(
    all_dialects={
        name: factory
        for name, factory in {
            "quant": get_quant,
            "shape": get_shape,
            "stablehlo": get_stablehlo,
        }.items()
        if name not in get_all_dialects()
    },
    all_passes={
        name: factory
        for name, factory in {
            "convert-quantized-stablehlo-to-linalg": (
                get_convert_quantized_stablehlo_to_linalg
            ),
            "convert-stablehlo-to-linalg": get_convert_stablehlo_to_linalg,
            "lower-quant-ops": get_lower_quant_ops,
            "normalize-quant-types": get_normalize_quant_types,
            "quant-calibrated-to-uniform": get_calibrated_to_uniform,
            "quant-casts-to-stablehlo": get_quant_casts_to_stablehlo,
            "quant-convert-const": get_convert_const,
            "quant-convert-simulated-quantization": get_convert_simulated_quantization,
            "quant-import-stats": get_import_stats,
            "quant-insert-stats-refs": get_insert_stats_refs,
            "quant-remove-instrumentation": get_remove_instrumentation,
            "quant-scales-from-fixed-point": get_scales_from_fixed_point,
            "quant-scales-to-fixed-point": get_scales_to_fixed_point,
            "quant-stats-to-calibrated": get_stats_to_calibrated,
            "stablehlo-casts-to-quant": get_stablehlo_casts_to_quant,
            "stablehlo-legalize-qdq-to-quantized-op": get_legalize_qdq_to_quantized_op,
            "stablehlo-legalize-quant-to-integer": get_legalize_quant_to_integer,
            "stablehlo-legalize-quantized-op-to-qdq": get_legalize_quantized_op_to_qdq,
            "strip-func-quant-types": get_strip_func_quant_types,
            "verify-quant-constraints": get_verify_quant_constraints,
        }.items()
        if name not in get_all_passes()
    },
    all_targets={
        name: factory
        for name, factory in {"mlir-aliased": get_mlir_aliased}.items()
        if name not in get_all_targets()
    },
)
