"""
Convert kernels to ops of `vec`: the kernels of the target are named like these ops, and
their ports are the operands and results of the ops.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
    op_type_rewrite_pattern,
)

from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    RegionOp,
    UniformQuantizedPerAxisType,
    UniformQuantizedType,
)

from .dialect import Vec

OPS = {op.name: op for op in Vec.operations}


class ConvertKernel(RewritePattern):
    """
    Replace a kernel with known parameters by an op between casts. `canonicalize` removes
    the casts between two such ops.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: RegionOp, rewriter: PatternRewriter):
        types = [
            type_
            for value, spec in zip((*op.inputs, *op.results), op.specs, strict=True)
            if isinstance(spec, UniformQuantizedType | UniformQuantizedPerAxisType)
            and (type_ := spec.cast_from_expressed_type(value.type)) is not None
        ]
        if op.kernel not in OPS or len(types) < len(op.specs):
            return
        count = len(op.inputs)
        operands = [
            QuantizeCastOp(value, type_)
            for value, type_ in zip(op.inputs, types[:count], strict=True)
        ]
        new_op = OPS[op.kernel].create(
            operands=[cast.result for cast in operands], result_types=types[count:]
        )
        results = [
            DequantizeCastOp(value, result.type)
            for value, result in zip(new_op.results, op.results, strict=True)
        ]
        rewriter.replace(
            op, [*operands, new_op, *results], [cast.result for cast in results]
        )


@dataclass(frozen=True)
class ConvertKernelsToVecPass(ModulePass):
    """Replace kernels by ops of `vec`."""

    name = "convert-kernels-to-vec"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(ConvertKernel(), apply_recursively=False).rewrite_module(
            op
        )
