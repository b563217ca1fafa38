"""Plugin declarations of the StableHLO frontend."""

from pathlib import Path

from xdsl.context import Context

from xdsl_quant.runtime.plugins import (
    QuantizationUniverse,
    lazy,
    pass_factories,
    target_files,
)

_HERE = "frontends.stablehlo"


def _load_missing_stablehlo(ctx: Context) -> None:
    """Load ops and attributes that another plugin's dialect `stablehlo` lacks."""
    from .dialect import StableHLO

    parts = (*ctx.loaded_ops, *ctx.loaded_attrs, *ctx.loaded_types)
    loaded = {part.name for part in parts}
    for op in StableHLO.operations:
        if op.name not in loaded:
            ctx.load_op(op)
    for attribute in StableHLO.attributes:
        if attribute.name not in loaded:
            ctx.load_attr_or_type(attribute)


SLICE = QuantizationUniverse(
    all_dialects={"stablehlo": lazy(f"{_HERE}.dialect", "StableHLO")},
    all_passes=pass_factories(
        f"{_HERE}.lowering",
        (
            "convert-quantized-stablehlo-to-linalg",
            "convert-stablehlo-to-linalg",
            "quant-casts-to-stablehlo",
            "stablehlo-casts-to-quant",
            "stablehlo-legalize-qdq-to-quantized-op",
            "stablehlo-legalize-quant-to-integer",
            "stablehlo-legalize-quantized-op-to-qdq",
        ),
    ),
    hardware_targets=target_files(
        Path(__file__).with_name("targets"),
        ("stablehlo-int16x8", "stablehlo-int8", "stablehlo-mixed"),
    ),
    on_load={"stablehlo": _load_missing_stablehlo},
    dialect_ops={"stablehlo": lazy(f"{_HERE}.dialect_ops", "STABLEHLO_OPS")},
    model_dialects={"stablehlo": lazy(f"{_HERE}.models", "STABLEHLO_MODELS")},
    rule_sets={"stablehlo": lazy(f"{_HERE}.constraints", "STABLEHLO_RULES")},
)
