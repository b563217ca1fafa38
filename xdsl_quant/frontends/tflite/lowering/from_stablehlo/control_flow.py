"""Conversion of conditionals and loops, whose regions become functions."""

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.runtime.entry_function import functions_by_name

from .building import DEQUANTIZE, QUANTIZE

_CONSTANT_OPS = (
    stablehlo.ConstantOp
    | stablehlo.BroadcastInDimOp
    | stablehlo.ReshapeOp
    | QUANTIZE
    | DEQUANTIZE
)
"""Ops that are copied into a region if they compute constants."""


def _is_in_regions(op: Operation, regions: Sequence[Region]) -> bool:
    return any(region.is_ancestor(op) for region in regions)


def _values_from_outside(regions: Sequence[Region]) -> Sequence[SSAValue]:
    """Return the values from outside that ops in regions use."""
    found: dict[SSAValue, None] = {}
    for region in regions:
        for op in region.walk():
            for value in op.operands:
                owner = value.owner
                block = owner if isinstance(owner, Block) else owner.parent
                if block is None or not any(r.is_ancestor(block) for r in regions):
                    found[value] = None
    return [*found]


def _is_computed_constant(value: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, _CONSTANT_OPS) and all(
        map(_is_computed_constant, op.operands)
    )


def _copy_constants(region: Region) -> None:
    """Copy the constants from outside that a region uses into it."""
    for value in _values_from_outside([region]):
        if _is_computed_constant(value):
            copy = _copied_constant(value, InsertPoint.at_start(region.block))
            value.replace_uses_with_if(
                copy, lambda use: _is_in_regions(use.operation, [region])
            )


def _copied_constant(value: SSAValue, point: InsertPoint) -> SSAValue:
    """Copy the ops that compute a constant."""
    op = value.owner
    assert isinstance(op, Operation)
    operands = [_copied_constant(operand, point) for operand in op.operands]
    copy = op.clone()
    copy.location = op.location
    copy.operands = operands
    Rewriter.insert_op(copy, point)
    return copy.results[0]


def _outlined(
    module: ModuleOp,
    name: str,
    region: Region,
    captured: Sequence[SSAValue],
    *,
    is_loop_body: bool = False,
) -> FuncOp:
    """
    Move a region to a function whose last arguments are the captured values. The body of
    a loop also returns them.
    """
    block = region.detach_block(0)
    for value in captured:
        argument = block.insert_arg(value.type, len(block.args))
        inside = Region(block)
        value.replace_uses_with_if(
            argument, lambda use, inside=inside: _is_in_regions(use.operation, [inside])
        )
        inside.detach_block(0)
    end = block.last_op
    assert end is not None
    returned = [*end.operands]
    if is_loop_body:
        returned += block.args[len(block.args) - len(captured) :]
    Rewriter.replace_op(end, ReturnOp(*returned), ())
    types = block.arg_types, [value.type for value in returned]
    function = FuncOp(name, types, Region(block), StringAttr("private"))
    function.location = end.location
    module.body.block.add_op(function)
    return function


def _calling_region(function: FuncOp, arguments: Sequence[SSAValue] | None) -> Region:
    """Return a region that calls a function, by default with the region's arguments."""
    types = function.function_type.inputs.data
    block = Block(arg_types=types if arguments is None else ())
    call = CallOp(
        function.sym_name.data,
        block.args if arguments is None else arguments,
        function.function_type.outputs.data,
    )
    block.add_ops([call, tfl.YieldOp.create(operands=call.results)])
    return Region(block)


def _call_regions(module: ModuleOp, op: stablehlo.IfOp | stablehlo.WhileOp) -> None:
    """Replace a conditional or loop by an op of TensorFlow Lite that calls functions."""
    is_loop = isinstance(op, stablehlo.WhileOp)
    for region in op.regions:
        _copy_constants(region)
    captured = _values_from_outside(op.regions)
    names = functions_by_name(module)
    functions: list[FuncOp] = []
    for region, kind in zip(
        op.regions, ("cond", "body") if is_loop else ("then", "else"), strict=True
    ):
        number = next(n for n in range(len(names) + 1) if f"{kind}_{n}" not in names)
        is_body = kind == "body"
        functions.append(
            _outlined(
                module, f"{kind}_{number}", region, captured, is_loop_body=is_body
            )
        )
    operands = [*op.operands, *captured] if is_loop else op.operands
    new_op = (tfl.WhileOp if is_loop else tfl.IfOp).create(
        operands=operands,
        result_types=[x.type for x in operands] if is_loop else op.result_types,
        regions=[_calling_region(f, None if is_loop else captured) for f in functions],
        location=op.location,
    )
    Rewriter.replace_op(op, new_op, new_op.results[: len(op.results)])


def outline_control_flow(module: ModuleOp) -> None:
    """
    Replace `stablehlo.if` and `stablehlo.while` by `tfl.if` and `tfl.while`, whose regions
    call private functions; values from outside become arguments.
    """
    for op in [*module.walk()]:
        if isinstance(op, stablehlo.IfOp | stablehlo.WhileOp):
            _call_regions(module, op)
