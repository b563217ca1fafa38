"""The choice of the hardware target of a model."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.diagnostics import counted_names
from xdsl_quant.transforms.propagation.module_kernels import float_ops_of
from xdsl_quant.transforms.propagation.quant_fuse_kernels import fuse_kernels
from xdsl_quant.transforms.propagation.target_files import read_target
from xdsl_quant.transforms.propagation.target_spec import TargetSpec

from .recipe import Recipe
from .user_warnings import warn_user


def chosen_target(module: ModuleOp, targets: Sequence[str | TargetSpec]) -> TargetSpec:
    """
    Return the first target that has most kernels for the ops of a module.

    Raises:
        ValueError: if no target has a kernel for them.
    """
    specs = [read_target(each) if isinstance(each, str) else each for each in targets]
    counts = [fuse_kernels(module.clone(), spec) for spec in specs]
    if not any(counts):
        names = ", ".join(f"'{spec.name}'" for spec in specs)
        found = counted_names(float_ops_of(module)) or "no op of floats"
        raise ValueError(f"no kernel of {names} is in the model, found {found}")
    return specs[counts.index(max(counts))]


def warn_of_activations(recipe: Recipe, target: TargetSpec) -> None:
    """Warn of a target without the widths of activations that a recipe is made for."""
    if recipe.targets == Recipe.targets:
        return
    asked = {
        bits for each in recipe.targets for bits in _result_bits(read_target(each))
    }
    if asked.isdisjoint(found := _result_bits(target)):
        asked, found = (" or ".join(map(str, sorted(each))) for each in (asked, found))
        warn_user(
            f"recipe '{recipe.name}' is for activations of {asked} bits, found target "
            f"'{target.name}' with {found or 'none'}; leave the target out, or use another "
            "recipe"
        )


def _result_bits(target: TargetSpec) -> Collection[int]:
    """The widths of the results of the kernels of a target."""
    return {
        port.storage.storage_type_integral_width
        for kernel in target.kernels.values()
        for signature in kernel.signatures
        for port in signature.outputs
        if port.storage is not None
    }
