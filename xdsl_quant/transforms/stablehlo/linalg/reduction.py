"""
Reductions along dimensions and over windows: the region of one becomes the body of a loop
nest.

Besides StableHLO's ops on tensors of rank 0, a region may have what casts to and from
quantized types are lowered to: ops of arith and math, and loop nests without a loop. They
become the same ops on scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    TensorType,
)
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.dialects.linalg.ops import YieldOp as LinalgYieldOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant import QuantizedType, StorageCastOp
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.dialects.stablehlo import (
    ConstantOp,
    ReduceOp,
    ReduceWindowOp,
    ReturnOp,
)
from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    REDUCTION,
    LoweringBuilder,
    Size,
    dimensions,
    element_type_of,
    static_sizes,
)

from .conversions import converted
from .element_types import is_arithmetic, stored_type
from .lowering import (
    QUANTIZED_ARITHMETIC,
    LinalgLowering,
    UnsupportedError,
    Values,
    accepts_stored_values,
)
from .scalars import FORMULAS
from .windows import padded, window_of

ReducingOp: TypeAlias = ReduceOp | ReduceWindowOp


class LowerReduce(LinalgLowering[ReduceOp]):
    """
    Lowers `stablehlo.reduce` to one `linalg.generic`, with the loops in the order of the
    dimensions of the inputs.
    """

    op_type = ReduceOp

    def lower(self, builder: LoweringBuilder, op: ReduceOp, operands: Values) -> Values:
        inputs, init_values = _inputs_and_init_values(op, operands)
        reduced = op.dimensions.get_values()
        sizes = builder.sizes(inputs[0])
        kept = [d for d in range(len(sizes)) if d not in reduced]
        input_map = AffineMap.identity(len(sizes))
        result_map = AffineMap(len(sizes), 0, tuple(dimensions(kept)))
        return builder.generics(
            inputs,
            _initial_results(builder, op, init_values, [sizes[d] for d in kept]),
            [input_map] * len(inputs) + [result_map] * len(inputs),
            [REDUCTION if d in reduced else PARALLEL for d in range(len(sizes))],
            lambda body, args: _combined(body, op, args),
        )


class LowerReduceWindow(LinalgLowering[ReduceWindowOp]):
    """
    Lowers `stablehlo.reduce_window` to one `linalg.generic` over the padded inputs. The
    outer loops are over the positions of the window, and the inner ones over its elements.
    """

    op_type = ReduceWindowOp

    def lower(
        self, builder: LoweringBuilder, op: ReduceWindowOp, operands: Values
    ) -> Values:
        inputs, init_values = _inputs_and_init_values(op, operands)
        window = window_of(
            op.window_dimensions.get_values(),
            op.window_strides,
            op.padding,
            op.base_dilations,
            op.window_dilations,
        )
        rank, paddings = len(window), [along.padding for along in window]
        for i, (value, init_value) in enumerate(zip(inputs, init_values, strict=True)):
            if any(map(any, paddings)) and (
                element_type_of(value) != element_type_of(init_value)
            ):
                raise UnsupportedError.missing(
                    "has padding of another type than its inputs"
                )
            inputs[i] = padded(builder, value, paddings, init_value)
        sizes = [
            along.positions(builder, size)
            for along, size in zip(window, builder.sizes(inputs[0]), strict=True)
        ]
        results = _initial_results(builder, op, init_values, sizes)
        if 0 in static_sizes(sizes):
            # Loops that do not run may have indices out of bounds, which MLIR finds wrong.
            return results
        # The loops over the window have the sizes of a tensor that is not read.
        extents = [along.size for along in window]
        shape = builder.empty(TensorType(element_type_of(inputs[0]), extents), extents)
        source = [
            along.element_index(AffineDimExpr(i), AffineDimExpr(rank + i))
            for i, along in enumerate(window)
        ]
        return builder.generics(
            [*inputs, shape],
            results,
            [
                *[_map(rank, source)] * len(inputs),
                _map(rank, dimensions(range(rank, 2 * rank))),
                *[_map(rank, dimensions(range(rank)))] * len(inputs),
            ],
            [PARALLEL] * rank + [REDUCTION] * rank,
            lambda body, args: _combined(body, op, args),
        )


def _map(rank: int, indices: Sequence[AffineExpr]) -> AffineMap:
    """An indexing map in terms of the loops over positions and elements of a window."""
    return AffineMap(2 * rank, 0, tuple(indices))


def _inputs_and_init_values(
    op: ReducingOp, operands: Values
) -> tuple[list[SSAValue], Values]:
    """
    The two halves of the operands.

    Raises:
        UnsupportedError: if they are not what the region takes.
    """
    count = len(operands) // 2
    if not count:
        raise UnsupportedError.missing("has no inputs")
    if len(op.body.blocks) != 1:
        raise UnsupportedError.missing("has a body that is not one block")
    parameters = op.body.block.args
    sources = (*op.results, *op.operands)
    for argument, source in zip(
        (*parameters, *parameters[:count]), sources, strict=True
    ):
        types = element_type_of(argument), element_type_of(source)
        if any(isinstance(t, QuantizedType) for t in types) and types[0] != types[1]:
            raise UnsupportedError.missing(
                "has a body of other quantized types than its operands"
            )
    return [*operands[:count]], operands[count:]


def _initial_results(
    builder: LoweringBuilder, op: ReducingOp, init_values: Values, sizes: Sequence[Size]
) -> Values:
    """For each result a tensor of the initial value."""

    def filled(value: SSAValue, init_value: SSAValue, result: SSAValue) -> SSAValue:
        types = element_type_of(init_value), element_type_of(result)
        element_type = stored_type(result.type).element_type
        return builder.filled(
            TensorType(element_type, static_sizes(sizes)),
            sizes,
            value,
            lambda body, args: converted(body, args[0], *types),
        )

    return [*map(filled, init_values, op.operands[len(init_values) :], op.results)]


# Regions


def _combined(builder: LoweringBuilder, op: ReducingOp, args: Values) -> Values:
    """
    The results after one more element.

    Args:
        builder: where the ops are inserted.
        op: the reduction.
        args: an element of each input first, and the results so far last.
    """
    count = len(op.results)
    block = op.body.block
    scalars = [
        converted(builder, value, element_type_of(source), element_type_of(argument))
        for argument, source, value in zip(
            block.args,
            (*op.results, *op.operands[:count]),
            (*args[-count:], *args[:count]),
            strict=True,
        )
    ]
    return _inlined(builder, block, scalars)


def _inlined(builder: LoweringBuilder, block: Block, args: Values) -> Values:
    """What the terminator of a block takes, given scalars for the block's arguments."""
    scalars: dict[SSAValue, SSAValue] = dict(zip(block.args, args, strict=True))
    for op in block.ops:
        for value in (*op.operands, *op.results):
            _check_scalar(op, value.type)
        try:
            args = [scalars[operand] for operand in op.operands]
        except KeyError:
            raise _unsupported(op, "which uses a value from outside of the body")
        if isinstance(op, ReturnOp | LinalgYieldOp):
            return args
        results = (
            _inlined(builder, op.body.block, args)
            if isinstance(op, GenericOp)
            else [_scalar_result(builder, op, args)]
        )
        scalars.update(zip(op.results, results, strict=True))
    raise AssertionError("a block ends with its results")


def _unsupported(op: Operation, problem: str) -> UnsupportedError:
    return UnsupportedError.missing(f"has a body with '{op_name(op)}', {problem}")


def _check_scalar(op: Operation, type_: Attribute) -> None:
    element_type = scalar_or_element_type(type_)
    if type_ != element_type and not (
        isinstance(type_, TensorType) and not type_.get_shape()
    ):
        raise _unsupported(op, "which has values that are no tensors of rank 0")
    if isinstance(element_type, QuantizedType):
        if accepts_stored_values(op):
            return
        if op_name(op) in FORMULAS:
            raise UnsupportedError(QUANTIZED_ARITHMETIC)
    if not is_arithmetic(element_type):
        raise _unsupported(op, f"for which there is no arithmetic on '{element_type}'")


def _scalar_result(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    """The result of an op, computed on scalars."""
    if (formula := FORMULAS.get(op_name(op))) is not None:
        return formula(builder, op, args)
    if isinstance(op, StorageCastOp | tensor.SplatOp):
        return args[0]
    if len(op.results) != 1:
        raise _unsupported(op, "which is not elementwise")
    type_ = scalar_or_element_type(stored_type(op.results[0].type))
    if isinstance(op, tensor.EmptyOp):
        # It has any number.
        return builder.number(0, type_)
    if isinstance(op, ConstantOp | arith.ConstantOp):
        value = op.value
        if isinstance(value, DenseResourceAttr):
            raise _unsupported(op, "whose value is a resource")
        if not isinstance(value, DenseIntOrFPElementsAttr):
            return builder.constant(value, type_)
        (number,) = value.get_values()
        return builder.number(cast(float, number), type_)
    if not op.name.startswith(("arith.", "math.")):
        raise _unsupported(op, "which is not elementwise")
    return builder.op(type(op), args, type_, op.properties)
