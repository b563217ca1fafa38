"""
Kernels of the target `onnxruntime-u8s8` that are compositions of StableHLO ops: onnxruntime
has one op for each.
"""

from collections.abc import Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.compositions import observed, ops_between
from xdsl_quant.frontends.stablehlo.softmax import match_softmax


def softmax(op: Operation) -> Sequence[Operation] | None:
    """Match the pattern `@onnx.softmax`."""
    if not isinstance(op, stablehlo.DivideOp) or (matched := match_softmax(op)) is None:
        return None
    return ops_between(matched.operand, op)


def normalization(op: Operation) -> Sequence[Operation] | None:
    """
    Match the pattern `@onnx.normalization`: a layer normalization or division by the root
    mean square, with the constant factor and the constant bias after it.
    """
    core = op
    for op_type in (stablehlo.AddOp, stablehlo.MultiplyOp):
        if isinstance(core, op_type) and any(
            map(_is_broadcast_constant, core.operands)
        ):
            value = next(
                (x for x in core.operands if not _is_broadcast_constant(x)), None
            )
            if value is None or not isinstance(
                inner := observed(value).owner, Operation
            ):
                return None
            core = inner
    if not isinstance(core, stablehlo.DivideOp | stablehlo.MultiplyOp):
        return None
    for source in _normalized_values(core):
        ops = ops_between(source, op) or ()
        if any(isinstance(each, stablehlo.ReduceOp) for each in ops):
            return ops
    return None


def _normalized_values(
    op: stablehlo.DivideOp | stablehlo.MultiplyOp,
) -> Iterator[SSAValue]:
    """Yield the values that may be normalized: minuends first."""
    for value, root in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if not _is_root(root):
            continue
        if isinstance(difference := observed(value).owner, stablehlo.SubtractOp):
            yield difference.lhs
        yield value


def _is_root(value: SSAValue) -> bool:
    """Return True for a square root, its reciprocal, or a broadcast of either."""
    op = observed(value).owner
    while isinstance(op, stablehlo.BroadcastInDimOp | stablehlo.ReshapeOp):
        op = observed(op.operands[0]).owner
    if isinstance(op, stablehlo.DivideOp) and _is_broadcast_constant(op.lhs):
        return _is_root(op.rhs)
    return isinstance(op, stablehlo.SqrtOp | stablehlo.RsqrtOp)


def _is_broadcast_constant(value: SSAValue) -> bool:
    op = observed(value).owner
    while isinstance(op, stablehlo.BroadcastInDimOp | stablehlo.ReshapeOp):
        op = observed(op.operands[0]).owner
    return isinstance(op, stablehlo.ConstantOp)
