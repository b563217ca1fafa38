"""Rewrite of named linalg ops to `linalg.generic` ops in the form that scheduling knows."""

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i8, i32
from xdsl.dialects.linalg.abstract_ops import NamedOperation
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa
from xdsl.utils.type import get_element_type_or_self

from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    REDUCTION,
    LoweringBuilder,
    Values,
    dimensions,
    static_sizes,
)

from .ops import LAYOUTS


def generalize_named_ops(module: ModuleOp) -> None:
    """
    Replace named products, convolutions and pooling by `linalg.generic`. If the zero point
    of the filter is 0, that of the image is subtracted after the products:
    `sum((x - z) * w) = sum(x * w) - z * sum(w)`, also modulo `2**32`.
    """
    for op in [*module.walk()]:
        if not isinstance(op, NamedOperation) or op.name not in LAYOUTS:
            continue
        if _has_symmetric_filter(op):
            Rewriter.replace_op(op, (), [_difference(op)])
        else:
            generic = GenericOp(
                op.inputs,
                op.outputs,
                op.body.clone(),
                op.get_indexing_maps(),
                op.get_iterator_types(),
                op.result_types,
            )
            generic.location = op.location
            Rewriter.replace_op(op, generic)


def _has_symmetric_filter(op: NamedOperation) -> bool:
    """Return True for `i8` tensors, an `i32` result and a constant zero point of 0."""
    if len(op.inputs) != 4 or not op.res:
        return False
    values = (*op.inputs[:3], *op.res)
    zero_point = op.inputs[3].owner
    return (
        [get_element_type_or_self(value.type) for value in values] == [i8, i8, i32, i32]
        and isinstance(zero_point, arith.ConstantOp)
        and isa(zero_point.value, IntegerAttr)
        and zero_point.value.value.data == 0
    )


def _difference(op: NamedOperation) -> SSAValue:
    """Build the products without zero points, and subtract `z * sum(w)`."""
    builder = LoweringBuilder.before(op)
    image, filter_, zero_point, _ = op.inputs
    image_map, filter_map, *_, result_map = (
        map_.data for map_ in op.get_indexing_maps()
    )
    products = builder.generic(
        (image, filter_),
        op.outputs,
        (image_map, filter_map, result_map),
        op.get_iterator_types().data,
        lambda b, args: b.op(
            arith.AddiOp,
            (args[2], b.op(arith.MuliOp, _as_i32(b, args[:2]), i32)),
            i32,
        ),
    )
    # The loops of the result that the filter has: channels, and batches of matrices.
    loops = [expr for expr in result_map.results if expr in filter_map.results]
    sums = _filter_sums(
        builder, filter_, [filter_map.results.index(loop) for loop in loops]
    )

    def corrected(b: LoweringBuilder, args: Values) -> SSAValue:
        correction = b.op(arith.MuliOp, (args[1], zero_point), i32)
        return b.op(arith.SubiOp, (args[0], correction), i32)

    identity = dimensions(range(len(result_map.results)))
    positions = dimensions(result_map.results.index(loop) for loop in loops)
    return builder.map(
        [(products, identity), (sums, positions)],
        op.res[0].type,
        builder.sizes(products),
        corrected,
    )


def _as_i32(builder: LoweringBuilder, values: Values) -> Values:
    return [builder.op(arith.ExtSIOp, (value,), i32) for value in values]


def _filter_sums(
    builder: LoweringBuilder, tensor: SSAValue, axes: Sequence[int]
) -> SSAValue:
    """Build the sums of an `i8` tensor over all dimensions but `axes`."""
    all_sizes = builder.sizes(tensor)
    rank, sizes = len(all_sizes), [all_sizes[axis] for axis in axes]
    return builder.generic(
        (tensor,),
        [builder.zeros(TensorType(i32, static_sizes(sizes)), sizes)],
        (AffineMap.identity(rank), AffineMap(rank, 0, (*dimensions(axes),))),
        [PARALLEL if axis in axes else REDUCTION for axis in range(rank)],
        lambda b, args: b.op(arith.AddiOp, (args[1], *_as_i32(b, args[:1])), i32),
    )
