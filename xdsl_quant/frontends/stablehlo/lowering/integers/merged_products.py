"""
Products of several vectors and one matrix, merged to one product of matrices, which reads
the matrix once. Steps of an unrolled recurrence multiply their inputs in this way.
"""

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i64
from xdsl.ir import Attribute, Block, Operation
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.dialects.quant import StorageCastOp
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.building import StableHLOBuilder
from xdsl_quant.transforms.building.builder import element_type_of, shape_of

_Extension = arith.ExtUIOp | arith.ExtSIOp

_MOVED_DIALECTS = {"arith", "linalg", "quant", "tensor"}
_MOVED_OPS = (
    stablehlo.BitcastConvertOp,
    stablehlo.BroadcastInDimOp,
    stablehlo.ConstantOp,
    stablehlo.GatherOp,
    stablehlo.ReshapeOp,
    stablehlo.SliceOp,
    stablehlo.TransposeOp,
)


def merge_products(module: ModuleOp) -> None:
    """Merge products of stored vectors and the same constant matrix."""
    groups: dict[object, list[stablehlo.DotGeneralOp]] = {}
    for op in module.walk():
        if (
            isinstance(op, stablehlo.DotGeneralOp)
            and (key := _vector_product_key(op)) is not None
        ):
            groups.setdefault(key, []).append(op)
    for ops in groups.values():
        if len(ops) > 1 and (moved := _ops_to_move(ops)) is not None:
            for op in moved:
                op.detach()
                Rewriter.insert_op(op, InsertPoint.before(ops[0]))
            _merge_rows(ops)


def _vector_product_key(op: stablehlo.DotGeneralOp) -> object | None:
    """Return a key that is equal for products to merge; `None` for other products."""
    extension, value = op.lhs.owner, op.rhs
    if not isinstance(extension, _Extension) or shape_of(op.lhs)[:1] != (1,):
        return None
    lhs_dimensions, rhs_dimensions = op.result_dimensions()
    if lhs_dimensions != {0: 0} or [*rhs_dimensions.values()] != [1]:
        return None
    matrix: list[Attribute | type[Operation]] = [*op.properties.values()]
    while isinstance(
        owner := value.owner, _Extension | StorageCastOp | stablehlo.TransposeOp
    ):
        matrix += [type(owner), owner.results[0].type, *owner.properties.values()]
        value = owner.operands[0]
    if not isinstance(owner, stablehlo.ConstantOp):
        return None
    types = op.lhs.type, extension.input.type, op.result.type
    return op.parent, value, type(extension), *types, *matrix


def _ops_to_move(ops: Sequence[Operation]) -> Sequence[Operation] | None:
    """
    Return the ops after the first product from which left operands of the others are
    computed, in order; `None` if one depends on a product, or on an op with side effects.
    """
    block = ops[0].parent
    assert isinstance(block, Block)
    order: dict[Operation | Block, int] = {
        op: number for number, op in enumerate(block.ops)
    }
    start, found = order[ops[0]], set[Operation]()
    owners: list[Operation | Block] = [op.operands[0].owner for op in ops]
    while owners:
        owner = owners.pop()
        # Ops in regions, and outside the block, are not in `order`.
        if owner in found or order.get(owner, -1) < start:
            continue
        if isinstance(owner, Block) or owner in ops or not _can_move(owner):
            return None
        found.add(owner)
        owners += [value.owner for inner in owner.walk() for value in inner.operands]
    return sorted(found, key=lambda op: order[op])


def _can_move(op: Operation) -> bool:
    return op.name.split(".")[0] in _MOVED_DIALECTS or isinstance(op, _MOVED_OPS)


def _merge_rows(ops: Sequence[stablehlo.DotGeneralOp]) -> None:
    """Replace products by rows of one product, inserted before the first."""
    first = ops[0]
    builder = StableHLOBuilder(InsertPoint.before(first), location=first.location)
    extensions = [cast(_Extension, op.lhs.owner) for op in ops]
    vectors = [extension.input for extension in extensions]
    (_, length), (_, width) = shape_of(first.lhs), shape_of(first.result)
    count = len(ops)
    rows = builder.op(
        stablehlo.ConcatenateOp,
        vectors,
        TensorType(element_type_of(vectors[0]), (count, length)),
        {"dimension": IntegerAttr(0, i64)},
    )
    wide_type = TensorType(element_type_of(first.lhs), (count, length))
    wide = builder.op(type(extensions[0]), (rows,), wide_type)
    sums_type = TensorType(element_type_of(first.result), (count, width))
    sums = builder.op(
        stablehlo.DotGeneralOp, (wide, first.rhs), sums_type, first.properties
    )
    results = [
        builder.slice(sums, (row, 0), (row + 1, width)) for row in range(len(ops))
    ]
    for op, result in zip(ops, results, strict=True):
        Rewriter.replace_op(op, (), (result,))
