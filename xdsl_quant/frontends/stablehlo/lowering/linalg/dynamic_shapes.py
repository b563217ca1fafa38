"""Lowering of ops whose shape, slice or padding is an operand."""

import re

from xdsl.dialects import cf, tensor
from xdsl.dialects.builtin import StringAttr, TensorType, i1
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.traits import SymbolTable

from xdsl_quant.dialects.quant.types import PerAxisType, scalar_or_element_type
from xdsl_quant.frontends.stablehlo.dialect import (
    CustomCallOp,
    DynamicBroadcastInDimOp,
    DynamicIotaOp,
    DynamicPadOp,
    DynamicReshapeOp,
    RealDynamicSliceOp,
)
from xdsl_quant.frontends.stablehlo.dialect.base import are_compatible_elements
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    Size,
    dimensions,
    element_type_of,
    static_sizes,
)

from .data_movement import RunTimePadding, broadcast, indices_along, pad_tensor
from .lowering import LinalgLowering, Values, without_linalg
from .reduction import inline_block, reduction_loops
from .sizes import result_sizes, run_time_numbers


def _check_elements(op: Operation) -> None:
    """Raise `Unsupported` if an op gives its elements another type."""
    a, b = (scalar_or_element_type(v.type) for v in (op.operands[0], op.results[0]))
    is_per_axis = isinstance(a, PerAxisType) and are_compatible_elements(a, b)
    if a != b and not is_per_axis:
        raise without_linalg(f"has elements of type '{a}' and a result of type '{b}'")


class LowerDynamicReshape(LinalgLowering[DynamicReshapeOp]):
    """Lower `stablehlo.dynamic_reshape` to `tensor.reshape`."""

    def lower(
        self, builder: LoweringBuilder, op: DynamicReshapeOp, args: Values
    ) -> Values:
        _check_elements(op)
        value, shape = args
        sizes = result_sizes(builder, op, op.output_shape, shape)
        type_ = TensorType(element_type_of(value), static_sizes(sizes))
        return [builder.reshape(value, type_, sizes)]


class LowerDynamicBroadcastInDim(LinalgLowering[DynamicBroadcastInDimOp]):
    """Lower `stablehlo.dynamic_broadcast_in_dim` to a `linalg.generic`."""

    def lower(
        self, builder: LoweringBuilder, op: DynamicBroadcastInDimOp, args: Values
    ) -> Values:
        _check_elements(op)
        value, shape = args
        sizes = result_sizes(builder, op, op.output_dimensions, shape)
        along = op.broadcast_dimensions.get_values()
        return [broadcast(builder, op, value, along, sizes)]


class LowerDynamicIota(LinalgLowering[DynamicIotaOp]):
    """Lower `stablehlo.dynamic_iota` to a `linalg.generic` with `linalg.index`."""

    def lower(
        self, builder: LoweringBuilder, op: DynamicIotaOp, args: Values
    ) -> Values:
        sizes = result_sizes(builder, op, op.output_shape, args[0])
        dimension = op.iota_dimension.value.data
        return [indices_along(builder, op.result, dimension, sizes)]


class LowerRealDynamicSlice(LinalgLowering[RealDynamicSliceOp]):
    """Lower `stablehlo.real_dynamic_slice` to `tensor.extract_slice`."""

    def lower(
        self, builder: LoweringBuilder, op: RealDynamicSliceOp, args: Values
    ) -> Values:
        starts, limits, strides = (
            run_time_numbers(builder, operand, value)
            for operand, value in zip(op.operands[1:], args[1:], strict=True)
        )
        sizes: list[Size] = []
        for start, limit, stride in zip(starts, limits, strides, strict=True):
            extent = builder.plus(limit, builder.times(start, -1))
            rounded = builder.plus(builder.plus(extent, stride), -1)
            sizes.append(builder.floor_divide(rounded, stride))
        return [builder.extract_slice(args[0], starts, sizes, strides)]


class LowerDynamicPad(LinalgLowering[DynamicPadOp]):
    """Lower `stablehlo.dynamic_pad` to a `tensor.insert_slice` into a padded tensor."""

    def lower(self, builder: LoweringBuilder, op: DynamicPadOp, args: Values) -> Values:
        amounts = (
            run_time_numbers(builder, operand, value)
            for operand, value in zip(op.operands[2:], args[2:], strict=True)
        )
        paddings = [RunTimePadding(*numbers) for numbers in zip(*amounts, strict=True)]
        return [pad_tensor(builder, args[0], dict(enumerate(paddings)), args[1])]


class LowerDynamicReduceWindow(LinalgLowering[CustomCallOp]):
    """
    Lower calls of `stablehlo.dynamic_reduce_window`, which JAX exports for cumulative sums
    over unknown sizes: a `reduce_window` whose window and padding are operands.
    """

    def handles(self, op: Operation) -> bool:
        name = "stablehlo.dynamic_reduce_window"
        return isinstance(op, CustomCallOp) and op.call_target_name.data == name

    def lower(self, builder: LoweringBuilder, op: CustomCallOp, args: Values) -> Values:
        (computation,) = op.called_computations or (None,)
        function = computation and SymbolTable.lookup_symbol(op, computation)
        if len(args) != 7 or not isinstance(function, FuncOp):
            raise without_linalg("has several inputs or no function")
        value, init_value, *_ = args
        window, *steps, edges = (
            run_time_numbers(builder, operand, number)
            for operand, number in zip(op.operands[2:], args[2:], strict=True)
        )
        if any(step != 1 for numbers in steps for step in numbers):
            raise without_linalg("has strides or dilations other than 1")
        pairs = zip(edges[::2], edges[1::2], strict=True)
        paddings = {d: RunTimePadding(*pair) for d, pair in enumerate(pairs)}
        padded = pad_tensor(builder, value, paddings, init_value)
        sizes = [
            builder.at_least_zero(
                builder.plus(builder.plus(size, builder.times(extent, -1)), 1)
            )
            for size, extent in zip(builder.sizes(padded), window, strict=True)
        ]
        rank, element_type = len(window), element_type_of(value)
        loops = dimensions(range(2 * rank))
        # An unread tensor of the window's shape sets the sizes of the inner loops.
        type_ = TensorType(element_type, static_sizes(window))
        inputs = [
            (padded, [loops[d] + loops[rank + d] for d in range(rank)]),
            (builder.empty(type_, window), loops[rank:]),
        ]
        type_ = TensorType(element_type, static_sizes(sizes))
        initial = builder.fill(type_, sizes, init_value, lambda _, values: values[0])
        return reduction_loops(
            builder,
            inputs,
            [initial],
            range(rank),
            2 * rank,
            lambda body, args: inline_block(body, function.body.block, args[::-2]),
        )


class LowerShapeAssertion(LinalgLowering[CustomCallOp]):
    """Lower calls of `shape_assertion`, which JAX exports, to `cf.assert`."""

    def handles(self, op: Operation) -> bool:
        return (
            isinstance(op, CustomCallOp)
            and op.call_target_name.data == "shape_assertion"
            and not op.results
            and [*op.operand_types][:1] == [TensorType(i1, ())]
        )

    def lower(self, builder: LoweringBuilder, op: CustomCallOp, args: Values) -> Values:
        holds = builder.op(tensor.ExtractOp, args[:1], i1)
        message = op.attributes.get("error_message")
        text = (
            message.data if isinstance(message, StringAttr) else "shapes do not match"
        )
        # The message of an assertion is constant: the numbers are left out.
        assertion = cf.AssertOp(holds, re.sub(r"\{\d+\}", "?", text))
        assertion.location = builder.location
        builder.insert(assertion)
        return []
