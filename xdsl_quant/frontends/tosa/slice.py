"""Plugin declarations of the passes from and to xDSL's TOSA dialect."""

from xdsl_quant.runtime.plugins import QuantizationUniverse, lazy, pass_factories

SLICE = QuantizationUniverse(
    all_passes=pass_factories(
        "frontends.tosa",
        (
            "quant-block-scaled-to-tosa",
            "quant-requantize-to-tosa",
            "tosa-rescale-to-quant",
            "tosa-strip-quant-types",
        ),
    ),
    all_targets={"mlir-main": lazy("frontends.tosa.mlir_main", "MLIRMainTarget")},
    dialect_ops={"tosa": lazy("frontends.tosa.dialect_ops", "TOSA_OPS")},
)
