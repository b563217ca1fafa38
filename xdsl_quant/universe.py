"""What `xdsl-opt` finds in this package: name -> factory, nothing imported before use."""

from xdsl.dialects import get_all_dialects
from xdsl.targets import get_all_targets
from xdsl.transforms import get_all_passes
from xdsl.universe import Universe

from xdsl_quant import compat


def get_quant():
    from xdsl_quant.dialects.quant import Quant

    return Quant


def get_shape():
    from xdsl_quant.dialects.shape import Shape

    return Shape


def get_lower_quant_ops():
    from xdsl_quant.transforms.lower_quant_ops import LowerQuantOpsPass

    return LowerQuantOpsPass


def get_normalize_quant_types():
    from xdsl_quant.transforms.normalize_quant_types import NormalizeQuantTypesPass

    return NormalizeQuantTypesPass


def get_calibrated_to_uniform():
    from xdsl_quant.transforms.quant_calibrated_to_uniform import (
        QuantCalibratedToUniformPass,
    )

    return QuantCalibratedToUniformPass


def get_convert_const():
    from xdsl_quant.transforms.quant_convert_const import QuantConvertConstPass

    return QuantConvertConstPass


def get_convert_simulated_quantization():
    from xdsl_quant.transforms.quant_convert_simulated_quantization import (
        QuantConvertSimulatedQuantizationPass,
    )

    return QuantConvertSimulatedQuantizationPass


def get_import_stats():
    from xdsl_quant.transforms.quant_import_stats import QuantImportStatsPass

    return QuantImportStatsPass


def get_insert_stats_refs():
    from xdsl_quant.transforms.quant_insert_stats_refs import QuantInsertStatsRefsPass

    return QuantInsertStatsRefsPass


def get_remove_instrumentation():
    from xdsl_quant.transforms.quant_remove_instrumentation import (
        QuantRemoveInstrumentationPass,
    )

    return QuantRemoveInstrumentationPass


def get_stats_to_calibrated():
    from xdsl_quant.transforms.quant_stats_to_calibrated import (
        QuantStatsToCalibratedPass,
    )

    return QuantStatsToCalibratedPass


def get_strip_func_quant_types():
    from xdsl_quant.transforms.strip_func_quant_types import StripFuncQuantTypesPass

    return StripFuncQuantTypesPass


def get_mlir_aliased():
    from xdsl_quant.targets.mlir_aliased import MLIRAliasedTarget

    return MLIRAliasedTarget


# Lowered modules are read by xDSL's own dialects, which need it, too.
compat.apply_on_load()

# A name that xDSL itself has, too, would make every tool refuse to start.
XDSL_QUANT_UNIVERSE = Universe(
    all_dialects={
        name: factory
        for name, factory in {"quant": get_quant, "shape": get_shape}.items()
        if name not in get_all_dialects()
    },
    all_passes={
        name: factory
        for name, factory in {
            "lower-quant-ops": get_lower_quant_ops,
            "normalize-quant-types": get_normalize_quant_types,
            "quant-calibrated-to-uniform": get_calibrated_to_uniform,
            "quant-convert-const": get_convert_const,
            "quant-convert-simulated-quantization": get_convert_simulated_quantization,
            "quant-import-stats": get_import_stats,
            "quant-insert-stats-refs": get_insert_stats_refs,
            "quant-remove-instrumentation": get_remove_instrumentation,
            "quant-stats-to-calibrated": get_stats_to_calibrated,
            "strip-func-quant-types": get_strip_func_quant_types,
        }.items()
        if name not in get_all_passes()
    },
    all_targets={
        name: factory
        for name, factory in {"mlir-aliased": get_mlir_aliased}.items()
        if name not in get_all_targets()
    },
)
