"""
Sets of kernels whose results an interpreter or a lowering reproduces.

Runtimes compute the same op with different kernels. The module attribute `quant.kernels`
selects the kernels for all ops of a module. Those of `onnxruntime` compute StableHLO ops,
all others `tfl` ops; ops of the other dialect have the `reference` kernels.
"""

from typing import cast, get_args

from xdsl.dialects.builtin import ModuleOp, StringAttr

from xdsl_quant.kernel_set import KernelSet

_ATTRIBUTE = "quant.kernels"


def kernel_set(module: ModuleOp) -> KernelSet:
    """
    Return the kernels of a module: `reference` without an attribute.

    Raises:
        ValueError: if the attribute has another value.
    """
    attribute = module.attributes.get(_ATTRIBUTE, StringAttr("reference"))
    name = attribute.data if isinstance(attribute, StringAttr) else str(attribute)
    check_kernel_set(name)
    return cast(KernelSet, name)


def check_kernel_set(name: object) -> None:
    """Raise a `ValueError` for an unknown name of a set."""
    if name not in get_args(KernelSet):
        known = ", ".join(map(repr, get_args(KernelSet)))
        raise ValueError(f"unknown kernels {name!r}; available: {known}")


def select_kernels(module: ModuleOp, name: KernelSet | None) -> None:
    """
    Set the kernels of a module, or keep them for `None`.

    Raises:
        ValueError: if the name is unknown.
    """
    if name is not None:
        check_kernel_set(name)
        module.attributes[_ATTRIBUTE] = StringAttr(name)
