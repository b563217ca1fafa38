"""
Lowering of reductions along dimensions and over windows: regions become bodies of loop
nests.

Regions may contain StableHLO ops on tensors of rank 0, and lowered quantization casts: ops
of arith and math, and `linalg.generic` without loops. All of them become ops on scalars.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard, cast

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IndexType,
    TensorType,
)
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.dialects.linalg.ops import YieldOp as LinalgYieldOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant import QuantizedType, StorageCastOp
from xdsl_quant.dialects.quant.traits import ComputesElementwise, has_quantization_trait
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.stablehlo.dialect import (
    ConstantOp,
    MapOp,
    ReduceOp,
    ReduceWindowOp,
    ReturnOp,
)
from xdsl_quant.frontends.stablehlo.dialect.reduction import ReductionOp
from xdsl_quant.transforms.building.builder import (
    PARALLEL,
    REDUCTION,
    LoweringBuilder,
    Size,
    dimensions,
    element_type_of,
    shape_of,
    static_sizes,
)
from xdsl_quant.unsupported import Unsupported

from .data_movement import element_index, pad_tensor, window_count
from .elementwise import FORMULAS, convert_scalar
from .lowering import (
    QUANTIZED_ARITHMETIC,
    LinalgLowering,
    Values,
    accepts_stored_values,
    is_arithmetic,
    stored_type,
    without_linalg,
)


class LowerReduce(LinalgLowering[ReduceOp]):
    """Lower `stablehlo.reduce` to one `linalg.generic` with a loop per input dimension."""

    def lower(self, builder: LoweringBuilder, op: ReduceOp, args: Values) -> Values:
        count, sizes = len(op.results), builder.sizes(args[0])
        reduced = op.dimensions.get_values()
        source = dimensions(range(len(sizes)))
        return _region_loops(
            builder,
            op,
            [(value, source) for value in args[:count]],
            args[count:],
            {d: size for d, size in enumerate(sizes) if d not in reduced},
            len(sizes),
        )


class LowerReduceWindow(LinalgLowering[ReduceWindowOp]):
    """Lower `stablehlo.reduce_window` to one `linalg.generic` over the padded inputs."""

    def lower(
        self, builder: LoweringBuilder, op: ReduceWindowOp, args: Values
    ) -> Values:
        count, extents = len(op.results), op.window_dimensions.get_values()
        window, rank = op.window, len(extents)
        source = [
            element_index(along, AffineDimExpr(d), AffineDimExpr(rank + d))
            for d, along in enumerate(window)
        ]
        inputs: list[tuple[SSAValue, Sequence[AffineExpr]]] = []
        for value, init_value in zip(args[:count], args[count:], strict=True):
            if element_type_of(value) != element_type_of(init_value):
                raise without_linalg(
                    "has an initial value of another type than its input"
                )
            paddings = {d: along.padding for d, along in enumerate(window)}
            inputs.append((pad_tensor(builder, value, paddings, init_value), source))
        sizes = {
            d: window_count(builder, along, builder.size(inputs[0][0], d))
            for d, along in enumerate(window)
        }
        # An unread tensor of the window's shape sets the sizes of the inner loops.
        shape = builder.empty(TensorType(element_type_of(args[0]), extents), extents)
        inputs.append((shape, dimensions(range(rank, 2 * rank))))
        return _region_loops(builder, op, inputs, args[count:], sizes, 2 * rank)


class LowerMap(LinalgLowering[MapOp]):
    """Lower `stablehlo.map` to one `linalg.generic` with the computation as its body."""

    def lower(self, builder: LoweringBuilder, op: MapOp, args: Values) -> Values:
        indices = dimensions(range(len(shape_of(args[0]))))

        def body(body: LoweringBuilder, elements: Values) -> SSAValue:
            (result,) = inline_block(body, op.computation.block, elements[:-1])
            return result

        inputs = [(value, indices) for value in args]
        type_ = stored_type(op.result.type)
        return [builder.map(inputs, type_, builder.sizes(args[0]), body)]


def reduction_loops(
    builder: LoweringBuilder,
    inputs: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
    initial: Values,
    parallel: Sequence[int],
    loop_count: int,
    body: Callable[[LoweringBuilder, Values], Values],
) -> Values:
    """
    Reduce tensors in one loop nest, and return the results, which share one shape.

    Args:
        builder: insertion point.
        inputs: input tensors, each with its indices in terms of the loops.
        initial: one tensor of initial values per result.
        parallel: index of the loop over each result dimension; all other loops reduce.
        loop_count: number of loops.
        body: builder of the new result elements, from an element of each input and the
            current result elements.
    """
    if 0 in shape_of(initial[0]):
        # MLIR rejects out-of-bounds indices even if the loops do not run.
        return initial
    indices = (
        *(source for _, source in inputs),
        *[dimensions(parallel)] * len(initial),
    )
    return builder.generics(
        [value for value, _ in inputs],
        initial,
        [AffineMap(loop_count, 0, tuple(exprs)) for exprs in indices],
        [PARALLEL if loop in parallel else REDUCTION for loop in range(loop_count)],
        body,
    )


def _region_loops(
    builder: LoweringBuilder,
    op: ReductionOp,
    inputs: Sequence[tuple[SSAValue, Sequence[AffineExpr]]],
    init_values: Values,
    sizes: Mapping[int, Size],
    loop_count: int,
) -> Values:
    """
    Build the loop nest of a reduction, and return its results.

    Args:
        builder: insertion point.
        op: reduction.
        inputs: input tensors, each with its indices in terms of the loops.
        init_values: initial value of each result.
        sizes: size of each loop over a result dimension, in order of dimensions.
        loop_count: number of loops.
    """
    count, result_sizes = len(init_values), [*sizes.values()]

    def filled(value: SSAValue, init_value: SSAValue, result: SSAValue) -> SSAValue:
        element_type = stored_type(result.type).element_type
        return builder.fill(
            TensorType(element_type, static_sizes(result_sizes)),
            result_sizes,
            value,
            lambda body, args: _converted_element(body, args[0], init_value, result),
        )

    def body(body: LoweringBuilder, args: Values) -> Values:
        # The first half of the region's arguments are the current results.
        values = (*args[-count:], *args[:count])
        sources = (*op.results, *op.inputs)
        block = op.body.block
        scalars = map(
            _converted_element, [body] * (2 * count), values, sources, block.args
        )
        return inline_block(body, block, [*scalars])

    results = [*map(filled, init_values, op.init_values, op.results)]
    return reduction_loops(builder, inputs, results, [*sizes], loop_count, body)


def _converted_element(
    builder: LoweringBuilder, value: SSAValue, source: SSAValue, target: SSAValue
) -> SSAValue:
    types = element_type_of(source), element_type_of(target)
    if types[0] != types[1] and any(isinstance(t, QuantizedType) for t in types):
        raise Unsupported(QUANTIZED_ARITHMETIC)
    return convert_scalar(builder, value, *types)


# Regions


def inline_block(builder: LoweringBuilder, block: Block, args: Values) -> Values:
    """Inline a block on scalar arguments, and return its terminator's operands."""
    scalars: dict[SSAValue, SSAValue] = dict(zip(block.args, args, strict=True))
    for op in block.ops:
        if _is_table(op):
            continue
        operands = [value for value in op.operands if not _is_table(value.owner)]
        for value in (*operands, *op.results):
            _check_scalar(op, value.type)
        for operand in operands:
            if operand not in scalars:
                scalars[operand] = _outer_constant(builder, op, operand)
        args = [scalars[operand] for operand in operands]
        if isinstance(op, ReturnOp | LinalgYieldOp | func.ReturnOp):
            return args
        results = (
            inline_block(builder, op.body.block, args)
            if isinstance(op, GenericOp)
            else [_scalar_result(builder, op, args)]
        )
        scalars.update(zip(op.results, results, strict=True))
    raise AssertionError("a block ends with its results")


def _is_table(op: Operation | Block) -> TypeGuard[arith.ConstantOp]:
    """Return True for a constant that `tensor.extract` reads."""
    return isinstance(op, arith.ConstantOp) and any(
        isinstance(use.operation, tensor.ExtractOp) for use in op.result.uses
    )


def _outer_constant(
    builder: LoweringBuilder, op: Operation, operand: SSAValue
) -> SSAValue:
    """Return a constant from outside of the body as a scalar."""
    owner = operand.owner
    if not isinstance(owner, ConstantOp | arith.ConstantOp):
        raise _unsupported_body(op, "which uses a value from outside of the body")
    _check_scalar(owner, operand.type)
    return _scalar_result(builder, owner, ())


def _unsupported_body(op: Operation, problem: str) -> Unsupported:
    return without_linalg(f"has a body with '{op_name(op)}', {problem}")


def _check_scalar(op: Operation, type_: Attribute) -> None:
    element_type = scalar_or_element_type(type_)
    if type_ != element_type and not (
        isinstance(type_, TensorType) and not type_.get_shape()
    ):
        raise _unsupported_body(op, "which has a value that is not a tensor of rank 0")
    if isinstance(element_type, QuantizedType):
        if accepts_stored_values(op):
            return
        if op_name(op) in FORMULAS:
            raise Unsupported(QUANTIZED_ARITHMETIC)
    if not is_arithmetic(element_type) and not isinstance(element_type, IndexType):
        raise _unsupported_body(
            op, f"which has the unsupported element type '{element_type}'"
        )


def _scalar_result(builder: LoweringBuilder, op: Operation, args: Values) -> SSAValue:
    if (formula := FORMULAS.get(op_name(op))) is not None:
        return formula(builder, op, args)
    if isinstance(op, StorageCastOp | tensor.SplatOp):
        return args[0]
    if isinstance(op, tensor.ExtractOp) and _is_table(source := op.tensor.owner):
        entries = builder.constant(source.value, op.tensor.type)
        return builder.add(tensor.ExtractOp(entries, args, op.result.type))
    if len(op.results) != 1:
        raise _unsupported_body(op, "which is not elementwise")
    type_ = scalar_or_element_type(stored_type(op.results[0].type))
    if isinstance(op, tensor.EmptyOp):
        # Elements of `tensor.empty` are undefined.
        return builder.number(0, type_)
    if isinstance(op, ConstantOp | arith.ConstantOp):
        value = op.value
        if isinstance(value, DenseResourceAttr):
            raise _unsupported_body(op, "whose value is a resource")
        if not isinstance(value, DenseIntOrFPElementsAttr):
            return builder.constant(value, type_)
        (number,) = value.get_values()
        return builder.number(cast(float, number), type_)
    if not op.name.startswith(("arith.", "math.")):
        if has_quantization_trait(op, ComputesElementwise):
            raise _unsupported_body(op, "which has no formula on scalars")
        raise _unsupported_body(op, "which is not elementwise")
    return builder.op(type(op), args, type_, op.properties)


# Former name, kept for compatibility.
reducing_loops = reduction_loops
