"""Writers of conditionals and loops, which become nodes with graphs."""

from collections.abc import Mapping, Sequence

import onnx
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, Region, SSAValue

from xdsl_quant.frontends.onnx.graph_writer import GraphWriter, Writer
from xdsl_quant.frontends.stablehlo import dialect as stablehlo


def _set_results(w: GraphWriter, op: Operation, tensors: Sequence[str]) -> None:
    for result, tensor in zip(op.results, tensors, strict=True):
        w.set_tensor(result, tensor)


def _branch(w: GraphWriter, region: Region) -> onnx.GraphProto:
    inner = w.nested()
    return inner.graph([], inner.block(region.block))


def _conditional(
    w: GraphWriter,
    op: Operation,
    condition: str,
    then_branch: onnx.GraphProto,
    else_branch: onnx.GraphProto,
) -> Sequence[str]:
    return w.multi_node(
        "If",
        [condition],
        [w.value_name(result) for result in op.results],
        {"then_branch": then_branch, "else_branch": else_branch},
    )


def _if(w: GraphWriter, op: stablehlo.IfOp) -> None:
    branches = [_branch(w, region) for region in (op.true_branch, op.false_branch)]
    _set_results(w, op, _conditional(w, op, w.operand(op.pred), *branches))


def _case(w: GraphWriter, op: stablehlo.CaseOp) -> None:
    _set_results(w, op, _chosen(w, op, 0))


def _chosen(w: GraphWriter, op: stablehlo.CaseOp, number: int) -> Sequence[str]:
    """Write the choice among the branches from a number on; the last one is the default."""
    region = op.branches[number]
    if number == len(op.branches) - 1:
        return [w.operand(value) for value in w.block(region.block)]
    other = w.nested()
    results = _chosen(other, op, number + 1)
    for result, tensor in zip(op.results, results, strict=True):
        other.set_tensor(result, tensor)
    index = w.number(number, i32)
    condition = w.node("Equal", [w.operand(op.index), index], "is_chosen")
    return _conditional(
        w, op, condition, _branch(w, region), other.graph([], op.results)
    )


def _bind(w: GraphWriter, block: Block, tensors: Sequence[str]) -> None:
    for argument, tensor in zip(block.args, tensors, strict=True):
        w.set_tensor(argument, tensor)


def _condition(w: GraphWriter, op: stablehlo.WhileOp, tensors: Sequence[str]) -> str:
    block = op.cond.block
    _bind(w, block, tensors)
    (condition,) = w.block(block)
    return w.operand(condition)


def _while(w: GraphWriter, op: stablehlo.WhileOp) -> None:
    states = [w.operand(value) for value in op.operand]
    first = _condition(w, op, states)
    inner, block = w.nested(), op.body.block
    names = [inner.name(inner.value_name(argument)) for argument in block.args]
    _bind(inner, block, names)
    # The copies are results, even if a state is not changed.
    results = [
        inner.node("Identity", [inner.operand(value)], "state")
        for value in inner.block(block)
    ]
    condition = _condition(inner, op, results)
    body = onnx.helper.make_graph(
        inner.nodes,
        "body",
        [
            _scalar_condition(inner.name("iteration"), onnx.TensorProto.INT64),
            _scalar_condition(inner.name("condition"), onnx.TensorProto.BOOL),
            *_declared(inner, names, block.args),
        ],
        [
            _scalar_condition(
                inner.node("Identity", [condition], "condition"), onnx.TensorProto.BOOL
            ),
            *_declared(inner, results, block.args),
        ],
    )
    wanted = [w.value_name(result) for result in op.results]
    tensors = w.multi_node("Loop", ["", first, *states], wanted, {"body": body})
    _set_results(w, op, tensors)


def _scalar_condition(name: str, data_type: int) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(name, data_type, ())


def _declared(
    w: GraphWriter, names: Sequence[str], values: Sequence[SSAValue]
) -> Sequence[onnx.ValueInfoProto]:
    return [w.declaration(*pair) for pair in zip(names, values, strict=True)]


def _barrier(w: GraphWriter, op: stablehlo.OptimizationBarrierOp) -> None:
    for result, value in zip(op.results, op.operand, strict=True):
        w.alias(result, value, lambda layout: layout)


CONTROL_FLOW_WRITERS: Mapping[type[Operation], Writer] = {
    stablehlo.CaseOp: _case,
    stablehlo.IfOp: _if,
    stablehlo.OptimizationBarrierOp: _barrier,
    stablehlo.WhileOp: _while,
}
"""Writers of control flow, by op."""
