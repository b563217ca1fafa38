"""Conversion of control flow to scf, and of composites to calls."""

from collections.abc import Sequence

from xdsl.dialects import arith, func, scf, tensor
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.stablehlo.dialect import CaseOp, CompositeOp, IfOp, WhileOp
from xdsl_quant.frontends.stablehlo.dialect.attributes import TokenType
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.signless_types import signless
from xdsl_quant.unsupported import Unsupported

ControlFlowOp = IfOp | CaseOp | CompositeOp | WhileOp


def check_control_flow(op: ControlFlowOp) -> None:
    """
    Check that a conversion exists: regions have exactly the types of the results.

    Raises:
        Unsupported: if there is none; the message continues `'name' op`.
    """
    types = op.result_types
    if any(isinstance(type_, TokenType) for type_ in types):
        raise Unsupported("has a token, which has no conversion to linalg")
    if isinstance(op, CompositeOp):
        return
    if isinstance(op, WhileOp):
        _check_carried_types("operands", op.operand_types, types)
        for region in op.regions:
            _check_carried_types("arguments of a region", region.block.arg_types, types)
    returning = [op.body] if isinstance(op, WhileOp) else op.regions
    for region in returning:
        _check_carried_types(
            "a region that returns", _terminator(region).operand_types, types
        )


def _check_carried_types(
    words: str, actual: Sequence[Attribute], expected: Sequence[Attribute]
) -> None:
    if (*actual,) != (*expected,):
        texts = (", ".join(map(str, types)) for types in (actual, expected))
        raise Unsupported(
            "has {} values of types ({}), expected the types of its results, ({})".format(
                words, *texts
            )
        )


def _terminator(region: Region) -> Operation:
    last_op = region.block.last_op
    assert last_op is not None
    return last_op


def convert_control_flow(op: ControlFlowOp) -> None:
    """Replace an op whose operands and regions are lowered by one of scf, or by a call."""
    builder = LoweringBuilder.before(op)
    match op:
        case WhileOp():
            new: Operation = _converted_while(op)
        case IfOp():
            _return_to_yield(op.true_branch)
            _return_to_yield(op.false_branch)
            condition = _extracted_scalar(builder, op.pred)
            branches = (op.detach_region(region) for region in (*op.regions,))
            new = scf.IfOp(condition, op.result_types, next(branches), next(branches))
        case CaseOp():
            new = _converted_case(builder, op)
        case CompositeOp():
            new = func.CallOp(op.decomposition, op.operands, op.result_types)
    new.location = op.location
    builder.insert(new)
    for old, result in zip(op.results, new.results, strict=True):
        result.name_hint = old.name_hint
    Rewriter.replace_op(op, (), new.results)


def _extracted_scalar(builder: LoweringBuilder, value: SSAValue) -> SSAValue:
    element_type = signless(scalar_or_element_type(value.type))
    return builder.op(tensor.ExtractOp, (value,), element_type)


def _return_to_yield(region: Region) -> None:
    terminator = _terminator(region)
    new = scf.YieldOp(*terminator.operands)
    new.location = terminator.location
    Rewriter.replace_op(terminator, new)


def _converted_while(op: WhileOp) -> scf.WhileOp:
    terminator = _terminator(op.cond)
    builder = LoweringBuilder.before(terminator)
    condition = _extracted_scalar(builder, terminator.operands[0])
    Rewriter.replace_op(terminator, scf.ConditionOp(condition, *op.cond.block.args))
    _return_to_yield(op.body)
    cond, body = (op.detach_region(region) for region in (*op.regions,))
    return scf.WhileOp(op.operands, op.result_types, cond, body)


def _converted_case(builder: LoweringBuilder, op: CaseOp) -> scf.IfOp:
    """Return nested conditionals; the innermost one also has the last branch."""
    index = _extracted_scalar(builder, op.index)
    regions = [op.detach_region(region) for region in (*op.regions,)]
    for region in regions:
        _return_to_yield(region)
    if len(regions) == 1:
        # The only branch is selected by every index.
        regions.append(regions[0].clone())
    is_selected = [
        builder.add(arith.CmpiOp(index, builder.number(number, index.type), "eq"))
        for number in range(len(regions) - 1)
    ]
    *others, otherwise = regions
    for condition, region in zip(reversed(is_selected), reversed(others), strict=True):
        new = scf.IfOp(condition, op.result_types, region, otherwise)
        otherwise = Region(Block([new, scf.YieldOp(*new.results)]))
    block = otherwise.block
    outermost = block.first_op
    assert isinstance(outermost, scf.IfOp)
    Rewriter.erase_op(_terminator(otherwise))
    outermost.detach()
    return outermost
