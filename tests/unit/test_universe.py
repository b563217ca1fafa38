"""The plugin, as the tools of xDSL see it."""

import subprocess
import sys

from xdsl.universe import Universe

from xdsl_quant.universe import XDSL_QUANT_UNIVERSE


def test_what_the_plugin_offers():
    assert set(XDSL_QUANT_UNIVERSE.all_dialects) == {
        "chlo",
        "quant",
        "sdy",
        "shape",
        "stablehlo",
        "tf",
        "tf_type",
        "tfl",
    }
    assert set(XDSL_QUANT_UNIVERSE.all_passes) == {
        "arith-expand-small-floats",
        "convert-quantized-stablehlo-to-linalg",
        "convert-stablehlo-to-linalg",
        "convert-stablehlo-to-tfl",
        "convert-tfl-to-linalg",
        "convert-tfl-to-stablehlo",
        "convert-tfl-to-tosa",
        "lower-quant-ops",
        "normalize-quant-types",
        "quant-block-scaled-to-tosa",
        "quant-calibrated-to-uniform",
        "quant-casts-from-dynamic",
        "quant-casts-to-dynamic",
        "quant-casts-to-stablehlo",
        "quant-constraints-to-specs",
        "quant-convert-const",
        "quant-convert-simulated-quantization",
        "quant-equalize-layers",
        "quant-export",
        "quant-fold-batch-norm",
        "quant-fuse-kernels",
        "quant-import-stats",
        "quant-inline-regions",
        "quant-insert-stats-refs",
        "quant-propagate",
        "quant-quantize-weights",
        "quant-smooth-activations",
        "quant-split-reductions",
        "quant-remove-instrumentation",
        "quant-requantize-to-tosa",
        "quant-scales-from-fixed-point",
        "quant-scales-to-fixed-point",
        "quant-stats-to-calibrated",
        "stablehlo-casts-to-quant",
        "stablehlo-legalize-qdq-to-integer",
        "stablehlo-legalize-qdq-to-quantized-op",
        "stablehlo-legalize-quant-composite",
        "stablehlo-legalize-quant-to-integer",
        "stablehlo-legalize-quantized-op-to-qdq",
        "strip-func-quant-types",
        "tf-to-quant",
        "tfl-fuse-qdq",
        "tfl-infer-shapes",
        "tfl-variables-to-arguments",
        "tosa-rescale-to-quant",
        "tosa-strip-quant-types",
        "verify-quant-constraints",
    }
    assert set(XDSL_QUANT_UNIVERSE.all_targets) == {"mlir-aliased", "mlir-main"}


def test_factories_make_what_they_are_named_after():
    for name, dialect in XDSL_QUANT_UNIVERSE.all_dialects.items():
        assert dialect().name == name
    for name, pass_type in XDSL_QUANT_UNIVERSE.all_passes.items():
        assert pass_type().name == name
    for name, target_type in XDSL_QUANT_UNIVERSE.all_targets.items():
        assert target_type().name == name


def test_tools_find_the_plugin():
    multiverse = Universe.get_multiverse()
    assert XDSL_QUANT_UNIVERSE.all_dialects.items() <= multiverse.all_dialects.items()
    assert XDSL_QUANT_UNIVERSE.all_passes.items() <= multiverse.all_passes.items()
    assert XDSL_QUANT_UNIVERSE.all_targets.items() <= multiverse.all_targets.items()


_LATER_XDSL = """
import xdsl.dialects, xdsl.targets, xdsl.transforms
dialects, passes = xdsl.dialects.get_all_dialects, xdsl.transforms.get_all_passes
targets = xdsl.targets.get_all_targets
xdsl.dialects.get_all_dialects = lambda: {**dialects(), "quant": None}
xdsl.transforms.get_all_passes = lambda: {**passes(), "lower-quant-ops": None}
xdsl.targets.get_all_targets = lambda: {**targets(), "mlir-aliased": None}
from xdsl.universe import Universe
from xdsl_quant.universe import XDSL_QUANT_UNIVERSE
passes = XDSL_QUANT_UNIVERSE.all_passes
print(sorted(XDSL_QUANT_UNIVERSE.all_dialects), "lower-quant-ops" in passes, len(passes))
print(sorted(XDSL_QUANT_UNIVERSE.all_targets))
Universe.get_multiverse()
"""

_IMPORTED = """
import sys, xdsl.universe
before = set(sys.modules)
import xdsl_quant.universe
print(sorted(name for name in set(sys.modules) - before))
"""


def _python(script: str) -> str:
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_name_that_xdsl_has_is_left_to_xdsl():
    assert _python(_LATER_XDSL) == (
        "['chlo', 'sdy', 'shape', 'stablehlo', 'tf', 'tf_type', 'tfl'] "
        f"False {len(XDSL_QUANT_UNIVERSE.all_passes) - 1}\n['mlir-main']\n"
    )


def test_the_plugin_imports_nothing_heavy():
    assert _python(_IMPORTED) == (
        "['gc', 'xdsl_quant', 'xdsl_quant.diagnostics', 'xdsl_quant.frontends', "
        "'xdsl_quant.frontends.linalg_named_ops', "
        "'xdsl_quant.frontends.linalg_named_ops.slice', "
        "'xdsl_quant.frontends.onnx', 'xdsl_quant.frontends.onnx.slice', "
        "'xdsl_quant.frontends.stablehlo', 'xdsl_quant.frontends.stablehlo.slice', "
        "'xdsl_quant.frontends.tflite', 'xdsl_quant.frontends.tflite.slice', "
        "'xdsl_quant.frontends.tosa', 'xdsl_quant.frontends.tosa.slice', "
        "'xdsl_quant.inspecting', 'xdsl_quant.inspecting.slice', "
        "'xdsl_quant.moved_modules', 'xdsl_quant.runtime', "
        "'xdsl_quant.runtime.garbage_collection', 'xdsl_quant.runtime.plugins', "
        "'xdsl_quant.transforms', 'xdsl_quant.transforms.float_layers', "
        "'xdsl_quant.transforms.float_layers.slice', 'xdsl_quant.universe', "
        "'xdsl_quant.xdsl_patches']\n"
    )
