"""
Make ops of kernels, when all parameters are known: each `quant.region` becomes quantized
ops of the dialect of its ops, for targets with
[fixed kernels][xdsl_quant.transforms.propagation.export.fixed].

A kernel stays what it was in floating point if a port has no uniform type or an op does not
accept the types: it reads what is dequantized.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.passes import ModulePass

from xdsl_quant.diagnostics import fail, location_prefix
from xdsl_quant.dialects.quant import RegionOp
from xdsl_quant.transforms.statistics.quant_convert_const import QuantizeConstant
from xdsl_quant.xdsl_patches import patched_pass

from .export.fixed import FixedExport

FLOAT_KERNELS = "quant.float_kernels"
"""The attribute of a module that lists the kernels that stayed in floating point."""


@dataclass(frozen=True)
class QuantExportPass(ModulePass):
    """
    Replace each `quant.region` whose ports all have uniform types by the quantized ops of
    the dialect of its ops, and every other one by its ops in floating point, between casts.
    The attribute `quant.float_kernels` of the module lists those, and why.
    """

    name = "quant-export"

    fully_quantized: bool = False
    """Fail if a kernel stays in floating point."""

    @patched_pass
    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.fully_quantized:
            _check(op)
        export = FixedExport(op)
        export.run()
        QuantizeConstant().rewrite_module(op)
        if export.in_float:
            op.attributes[FLOAT_KERNELS] = ArrayAttr(
                map(StringAttr, _descriptions(export))
            )


def _descriptions(export: FixedExport) -> Iterator[str]:
    """Which kernels stay in floating point, and why."""
    for region, reason in export.in_float.items():
        yield f"{location_prefix(region.location)}kernel '{region.kernel}': {reason}"


def _check(module: ModuleOp) -> None:
    """Fail if a kernel would stay in floating point, before the module changes."""
    regions = [op for op in module.walk() if isinstance(op, RegionOp)]
    export = FixedExport(module.clone())
    places = dict(zip(export.regions, regions, strict=True))
    export.run()
    if not export.in_float:
        return
    first, *_ = export.in_float
    fail(
        places[first],
        f"{len(export.in_float)} kernels stay in floating point, expected none: "
        + "; ".join(_descriptions(export)),
    )
