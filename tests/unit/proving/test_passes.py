"""The passes and folds that are proved to change nothing are those that there are."""

from __future__ import annotations

import re

from xdsl.interfaces import HasFolderInterface
from xdsl.traits import HasCanonicalizationPatternsTrait

from tests.proving.passes import INSTANCES
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE

FOLDS = {
    "quant.qcast": "qcast(dcast(q)) is q",
    "quant.dcast": "dcast(qcast(x)) is x",
    "quant.scast": "scast(scast(q)) is q",
    "quant.dynamic_qcast": "quant-casts-to-dynamic and back",
    "quant.dynamic_dcast": "quant-casts-to-dynamic and back",
}
"""The family of each op that folds or has patterns of canonicalization."""

NOT_COMPARED = {
    **dict.fromkeys(
        (
            "convert-quantized-stablehlo-to-linalg",
            "convert-stablehlo-to-linalg",
            "convert-stablehlo-to-tfl",
            "convert-tfl-to-linalg",
            "convert-tfl-to-stablehlo",
            "convert-tfl-to-tosa",
            "stablehlo-legalize-qdq-to-integer",
            "stablehlo-legalize-quant-to-integer",
        ),
        "lowers ops: what it computes is the table of kernels",
    ),
    "arith-expand-small-floats": "expands conversions of small floats, without terms",
    "quant-block-scaled-to-tosa": "lowers casts: all elements and scales are compared",
    "tosa-strip-quant-types": "replaces types: ops and stored values stay",
    "quant-export": "lowers ops: what it pushes is the table of pushed rescales",
    **dict.fromkeys(
        (
            "quant-calibrated-to-uniform",
            "quant-constraints-to-specs",
            "quant-convert-simulated-quantization",
            "quant-import-stats",
            "quant-propagate",
            "quant-quantize-weights",
            "quant-stats-to-calibrated",
        ),
        "quantizes: results change on purpose",
    ),
    **dict.fromkeys(
        ("quant-equalize-layers", "quant-smooth-activations"),
        "changes the scales of channels of floats, and with them what is rounded",
    ),
    "quant-split-reductions": "adds floats in another order",
    "quant-insert-stats-refs": "adds ops that return their operand",
    "stablehlo-legalize-quant-composite": "replaces annotations by the casts they mean",
    "tf-to-quant": "replaces annotations by the casts they mean",
    "tfl-fuse-qdq": "fuses ops: what they compute is the table of kernels",
    "tfl-infer-shapes": "changes types of results",
    "tfl-variables-to-arguments": "changes arguments and results",
    "verify-quant-constraints": "changes nothing",
}
"""Passes that are not compared with the module that they are given, and why."""


def test_all_folds_and_patterns_of_canonicalization():
    folding = {
        op.name
        for dialect in XDSL_QUANT_UNIVERSE.all_dialects.values()
        for op in dialect().operations
        if issubclass(op, HasFolderInterface)
        or op.has_trait(HasCanonicalizationPatternsTrait)
    }
    # Proofs have static sizes, of which no op computes the shape.
    dynamic = {
        name for name in folding if re.match(r"stablehlo\.(real_)?dynamic_", name)
    }
    assert folding - dynamic == {*FOLDS, "shape.shape_of"}
    assert {*FOLDS.values()} <= {instance.family for instance in INSTANCES}


def test_all_passes():
    compared = {
        name
        for instance in INSTANCES
        for name in re.findall(r"[a-z]+(?:-[a-z]+)+(?={|,|$)", instance.passes)
        # A pipeline that lowers everything.
        if instance.family != "canonicalize after lowering"
    }
    passes = {*XDSL_QUANT_UNIVERSE.all_passes}
    assert compared <= passes
    assert passes - compared == {*NOT_COMPARED}
