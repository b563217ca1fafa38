"""Integer forms of ops whose regions compute on quantized scalars."""

from functools import partial

from xdsl.dialects.func import CallOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from xdsl_quant.dialects.quant import StorageCastOp
from xdsl_quant.dialects.quant.traits import (
    Adds,
    OrdersElements,
    has_quantization_trait,
)
from xdsl_quant.frontends.stablehlo.dialect import (
    CaseOp,
    CompareOp,
    CompositeOp,
    IfOp,
    MapOp,
    OptimizationBarrierOp,
    ScatterOp,
    SelectAndScatterOp,
    SortOp,
    WhileOp,
)
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.type_replacement import set_type

from .elementwise import (
    Form,
    IntegerPattern,
    Values,
    have_same_parameters,
    quantized_type_of,
    scaled_tensors,
    storage_of,
)


def convert_to_stored(block: Block) -> None:
    """Convert quantized arguments and results of a block to stored values."""
    first, last = block.first_op, block.last_op
    assert first is not None
    assert last is not None
    for i, result in enumerate(last.operands):
        if quantized_type_of(result.type) is None:
            continue
        cast_op = StorageCastOp(result, storage_of(result.type))
        block.insert_op_before(cast_op, last)
        last.operands[i] = cast_op.result
    for argument in block.args:
        if quantized_type_of(argument.type) is None:
            continue
        cast_op = StorageCastOp(argument, argument.type)
        argument.replace_all_uses_with(cast_op.result)
        cast_op.operands[0] = argument
        set_type(argument, storage_of(argument.type))
        block.insert_op_before(cast_op, first)


_STORED_OPS = (CaseOp, IfOp, MapOp, OptimizationBarrierOp, ScatterOp, SortOp, WhileOp)
"""Ops whose regions compute on stored values with the integer forms of their ops."""


class RegionsToIntegers(IntegerPattern):
    """
    Let control flow, `map`, `scatter` and `sort` pass stored values on. Other patterns
    replace the ops in the regions.
    """

    def form(self, op: Operation) -> Form | None:
        types = (*op.operand_types, *op.result_types)
        if not isinstance(op, _STORED_OPS) or not any(map(quantized_type_of, types)):
            return None

        def build(builder: LoweringBuilder, stored: Values) -> Values:
            for region in op.regions:
                convert_to_stored(region.block)
            regions = [op.detach_region(0) for _ in (*op.regions,)]
            types = [*map(storage_of, op.result_types)]
            return builder.same_op(op, stored, types, regions)

        return build


class CompositeToCall(IntegerPattern):
    """Replace a composite op on quantized tensors by a call of its decomposition."""

    def form(self, op: Operation) -> Form | None:
        types = (*op.operand_types, *op.result_types)
        if not isinstance(op, CompositeOp) or not any(map(quantized_type_of, types)):
            return None

        def build(builder: LoweringBuilder, stored: Values) -> Values:
            operands = map(partial(_storage_cast, builder), stored, op.operand_types)
            call = CallOp(op.decomposition, [*operands], op.result_types)
            call.location = op.location
            results = builder.insert(call).results
            types = map(storage_of, op.result_types)
            return [*map(partial(_storage_cast, builder), results, types)]

        return build


def _storage_cast(
    builder: LoweringBuilder, value: SSAValue, type_: Attribute
) -> SSAValue:
    if value.type == type_:
        return value
    return builder.add(StorageCastOp(value, type_))


class SelectAndScatterToIntegers(IntegerPattern):
    """
    Apply `select_and_scatter` to stored values if all values have one quantized type, and
    its regions are one comparison, and one addition, maximum or minimum. Other patterns
    replace the ops in the regions.
    """

    def form(self, op: Operation) -> Form | None:
        if not isinstance(op, SelectAndScatterOp):
            return None
        blocks = op.select.block, op.scatter.block
        inner = [[*block.ops] for block in blocks]
        if [len(ops) for ops in inner] != [2, 2] or any(
            {*ops[0].operands} != {*block.args}
            or {*ops[1].operands} != {*ops[0].results}
            for ops, block in zip(inner, blocks, strict=True)
        ):
            return None
        (compared, _), (combined, _) = inner
        values = (*op.operands, *op.results, *combined.results)
        arguments = (*blocks[0].args, *blocks[1].args)
        types = [value.type for value in (*values, *arguments)]
        if scaled_tensors(types) is None or not have_same_parameters(types):
            return None
        if not isinstance(compared, CompareOp) or not has_quantization_trait(
            combined, Adds, OrdersElements
        ):
            return None

        def build(builder: LoweringBuilder, stored: Values) -> Values:
            for block in blocks:
                convert_to_stored(block)
            regions = [op.detach_region(0), op.detach_region(0)]
            return builder.same_op(op, stored, [storage_of(op.result.type)], regions)

        return build
