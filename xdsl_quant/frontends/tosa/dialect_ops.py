"""Compilation of TOSA ops."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from xdsl_quant.diagnostics import op_name, refuse
from xdsl_quant.dialects.quant.dialect_ops import DialectOps
from xdsl_quant.transforms.building.signless_types import has_signedness

from .tosa_strip_quant_types import TosaStripQuantTypesPass


class _TosaOps(DialectOps):
    is_compiled = True

    mlir_passes: ClassVar[Sequence[str]] = (
        "tosa-to-scf",
        "func.func(tosa-optional-decompositions,tosa-to-linalg-named,tosa-to-linalg,"
        "tosa-to-arith{include-apply-rescale=true},tosa-to-tensor)",
    )

    def to_linalg(self, ctx: Context, module: ModuleOp) -> None:
        TosaStripQuantTypesPass().rewrite(ctx, module)
        for op in module.walk():
            if op_name(op).startswith("tosa."):
                for value in (*op.operands, *op.results):
                    if has_signedness(value.type):
                        remedy = "use signless integers and 'tosa.rescale'"
                        refuse(op, "has unsigned elements", f"'{value.type}'", remedy)


TOSA_OPS = _TosaOps()
