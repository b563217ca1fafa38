"""Import hook for modules that have moved: their old names still work."""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

_FOLDERS = {
    "xdsl_quant.dialects.quant.format_types": "xdsl_quant.numerics.formats.format_types",
    "xdsl_quant.dialects.quant.nan_result": "xdsl_quant.dialects.quant.ops",
    "xdsl_quant.dialects.stablehlo": "xdsl_quant.frontends.stablehlo.dialect",
    "xdsl_quant.dialects.tfl": "xdsl_quant.frontends.tflite.dialect",
    "xdsl_quant.frontends.tflite.reader": "xdsl_quant.frontends.tflite.files.reader",
    "xdsl_quant.interpreters.tfl": "xdsl_quant.frontends.tflite.interpreter",
    "xdsl_quant.interpreters": "xdsl_quant.machines.numpy",
    "xdsl_quant.numerics.tflite": "xdsl_quant.frontends.tflite.formulas",
    "xdsl_quant.quantizer.budget": "xdsl_quant.quantizer.recipe",
    "xdsl_quant.quantizer.comparison": "xdsl_quant.inspecting.comparison",
    "xdsl_quant.quantizer.inspection": "xdsl_quant.inspecting.inspection",
    "xdsl_quant.quantizer.times": "xdsl_quant.inspecting.times",
    "xdsl_quant.quantizer.value_matching": "xdsl_quant.inspecting.value_matching",
    "xdsl_quant.quantizer.weight_bias_correction": (
        "xdsl_quant.quantizer.weight_rounding"
    ),
    "xdsl_quant.quantizer.weight_products": "xdsl_quant.quantizer.weight_only",
    "xdsl_quant.runtime.array_types": "xdsl_quant.runtime.arrays",
    "xdsl_quant.transforms.building.arrays": "xdsl_quant.runtime.arrays",
    "xdsl_quant.transforms.building.tosa_rescale": "xdsl_quant.frontends.tosa.rescale",
    **{
        f"xdsl_quant.transforms.quant.{name}": f"xdsl_quant.frontends.tosa.{name}"
        for name in (
            "quant_block_scaled_to_tosa",
            "quant_requantize_to_tosa",
            "tosa_rescale_to_quant",
        )
    },
    "xdsl_quant.transforms.building.block_scaled_arithmetic": (
        "xdsl_quant.transforms.building.codec_arithmetic"
    ),
    "xdsl_quant.transforms.propagation.target_checks": (
        "xdsl_quant.inspecting.target_checks"
    ),
    "xdsl_quant.transforms.quant.verify_quant_constraints": (
        "xdsl_quant.inspecting.verify_quant_constraints"
    ),
    "xdsl_quant.transforms.stablehlo": "xdsl_quant.frontends.stablehlo.lowering",
    "xdsl_quant.transforms.tfl": "xdsl_quant.frontends.tflite.lowering",
    **{
        f"xdsl_quant.transforms.weights.{name}": (
            f"xdsl_quant.transforms.float_layers.{name}"
        )
        for name in (
            "quant_equalize_layers",
            "quant_fold_batch_norm",
            "quant_smooth_activations",
            "quant_split_reductions",
        )
    },
    "xdsl_quant.xdsl_patches.tosa": "xdsl_quant.frontends.tosa.patches",
    "xdsl_quant.xdsl_patches.tosa_ops": "xdsl_quant.frontends.tosa.ops",
}
"""
New names of modules and packages by old name; the first prefix match wins. Stub files
repeat the entries of `dialects` for type checkers.
"""


class _Mover:
    """Import hook that imports the moved module, not a copy, under its old name."""

    def find_spec(
        self, fullname: str, path: object, target: object = None
    ) -> ModuleSpec | None:
        for old, new in _FOLDERS.items():
            if f"{fullname}.".startswith(f"{old}."):
                state = import_module(new + fullname.removeprefix(old)).__spec__
                return ModuleSpec(
                    fullname,
                    self,  # pyright: ignore[reportArgumentType] to import its base takes long
                    loader_state=state,
                    is_package=True,
                )
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.loader_state.name]

    def exec_module(self, module: ModuleType) -> None:
        # The import system has set the old name's spec: restore the module's own.
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Install the import hook for old module names."""
    # Insert first: other finders would search the path of the moved package and import
    # copies.
    sys.meta_path.insert(0, _Mover())
