"""The dialect that has the casts of a kernel."""

from __future__ import annotations

from xdsl_quant.dialects.quant import RegionOp
from xdsl_quant.dialects.quant.dialect_ops import QUANT_OPS, DialectOps
from xdsl_quant.runtime.plugins import dialect_ops

from ..module_kernels import ParametersType


def dialect_ops_of(region: RegionOp) -> DialectOps:
    """Return the casts of the dialect of the ops, if it has those of all ports."""
    dialects = (op.name.partition(".")[0] for op in region.body.block.ops)
    ops = next(
        (found for name in dialects if (found := dialect_ops(name)) is not QUANT_OPS),
        QUANT_OPS,
    )
    specs = (spec for spec in region.specs if isinstance(spec, ParametersType))
    return ops if all(map(ops.accepts, specs)) else QUANT_OPS
