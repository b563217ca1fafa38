"""Import hook for modules that have moved: their old names still work."""

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

_FOLDERS = {
    "dialects.quant.format_types": "numerics.formats.format_types",
    "dialects.quant.nan_result": "dialects.quant.ops",
    "dialects.stablehlo": "frontends.stablehlo.dialect",
    "dialects.tfl": "frontends.tflite.dialect",
    "frontends.tflite.reader": "frontends.tflite.files.reader",
    "interpreters.tfl": "frontends.tflite.interpreter",
    "interpreters": "machines.numpy",
    "numerics.tflite": "frontends.tflite.formulas",
    "quantizer.budget": "quantizer.recipe",
    "quantizer.comparison": "inspecting.comparison",
    "quantizer.inspection": "inspecting.inspection",
    "quantizer.times": "inspecting.times",
    "quantizer.value_matching": "inspecting.value_matching",
    "quantizer.weight_bias_correction": "quantizer.weight_rounding",
    "quantizer.weight_products": "quantizer.weight_only",
    "runtime.array_types": "runtime.arrays",
    "transforms.building.arrays": "runtime.arrays",
    "transforms.building.tosa_rescale": "frontends.tosa.rescale",
    **{
        f"transforms.quant.quant_{name}_to_tosa": f"frontends.tosa.quant_{name}_to_tosa"
        for name in ("block_scaled", "requantize")
    },
    "transforms.quant.tosa_rescale_to_quant": "frontends.tosa.tosa_rescale_to_quant",
    "transforms.building.block_scaled_arithmetic": "transforms.building.codec_arithmetic",
    "transforms.propagation.target_checks": "inspecting.target_checks",
    "transforms.quant.verify_quant_constraints": "inspecting.verify_quant_constraints",
    "transforms.stablehlo": "frontends.stablehlo.lowering",
    "transforms.tfl": "frontends.tflite.lowering",
    **{
        f"transforms.weights.quant_{name}": f"transforms.float_layers.quant_{name}"
        for name in (
            *("equalize_layers", "fold_batch_norm"),
            *("smooth_activations", "split_reductions"),
        )
    },
    "xdsl_patches.tosa": "frontends.tosa.patches",
    "xdsl_patches.tosa_ops": "frontends.tosa.ops",
}
"""
New names of modules and packages by old name, without `xdsl_quant.`; the first prefix match
wins. Stub files repeat the entries of `dialects` for type checkers.
"""


class _Mover:
    """Import hook that imports the moved module, not a copy, under its old name."""

    def find_spec(
        self, fullname: str, path: object, target: object = None
    ) -> ModuleSpec | None:
        for old, new in _FOLDERS.items():
            if f"{fullname}.".startswith(f"xdsl_quant.{old}."):
                rest = fullname.removeprefix(f"xdsl_quant.{old}")
                state = import_module(f"xdsl_quant.{new}{rest}").__spec__
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
