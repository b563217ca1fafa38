"""The kernels of a module."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.dialects.quant import RegionOp


def warn_without_kernels(module: ModuleOp) -> None:
    """Say on standard error that a pass does nothing if a module has no kernels."""
    if not kernels_of(module):
        print(
            "warning: the module has no kernels, found no 'quant.region'; "
            "'quant-fuse-kernels' makes them",
            file=sys.stderr,
        )


def kernels_of(module: ModuleOp) -> Sequence[RegionOp]:
    """The kernels of a module, in the order of the text."""
    return [op for op in module.walk() if isinstance(op, RegionOp)]
