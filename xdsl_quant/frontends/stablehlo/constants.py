"""Constants of other dialects in modules of StableHLO ops."""

from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from .dialect import ConstantOp


def replace_arith_constants(module: ModuleOp) -> None:
    """Replace tensors that `arith.constant` defines by `stablehlo.constant`."""
    for op in [*module.walk()]:
        if not isinstance(op, arith.ConstantOp):
            continue
        type_: Attribute = op.result.type
        if not isa(type_, TensorType[Attribute]):
            continue
        constant = ConstantOp.create(
            result_types=[type_],
            properties={"value": op.value},
            location=op.location,
        )
        constant.output.name_hint = op.result.name_hint
        Rewriter.replace_op(op, constant)
