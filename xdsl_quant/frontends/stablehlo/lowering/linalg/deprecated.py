"""Lowering of deprecated ops: sums of products, repetition and indexing."""

import re
from collections.abc import Sequence

from xdsl.dialects import linalg, tensor
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from xdsl_quant.dialects.verification import are_compatible_shapes
from xdsl_quant.frontends.stablehlo.dialect import (
    BroadcastOp,
    DotOp,
    EinsumOp,
    TorchIndexSelectOp,
    UnaryEinsumOp,
)
from xdsl_quant.frontends.stablehlo.dialect.attributes import dimension_size_text
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    Size,
    dimensions,
    element_type_of,
    shape_of,
    static_sizes,
)
from xdsl_quant.unsupported import Unsupported

from .contraction import Factor, sum_of_products
from .data_movement import clamped_index
from .lowering import LinalgLowering, Values, is_floating


class LowerBroadcast(LinalgLowering[BroadcastOp]):
    """Lower `stablehlo.broadcast` to a `linalg.generic` over the result."""

    def lower(self, builder: LoweringBuilder, op: BroadcastOp, args: Values) -> Values:
        (value,) = args
        sizes: list[Size] = [*op.broadcast_sizes.get_values(), *builder.sizes(value)]
        type_ = TensorType(element_type_of(value), static_sizes(sizes))
        first = len(sizes) - len(shape_of(value))
        source = dimensions(range(first, len(sizes)))
        return [builder.rearrange(value, type_, sizes, source)]


class LowerDot(LinalgLowering[DotOp]):
    """Lower `stablehlo.dot` to one `linalg.generic`."""

    def lower(self, builder: LoweringBuilder, op: DotOp, args: Values) -> Values:
        letters = "ab"[2 - len(shape_of(args[0])) :], "bc"[: len(shape_of(args[1]))]
        result = "".join(letter for letter in "ac" if letter in "".join(letters))
        return [_sum_by_letters(builder, op, args, letters, result)]


class LowerEinsum(LinalgLowering[EinsumOp]):
    """Lower `stablehlo.einsum` to one `linalg.generic`."""

    def lower(self, builder: LoweringBuilder, op: EinsumOp, args: Values) -> Values:
        return [_sum_by_letters(builder, op, args, *_configuration(op))]


class LowerUnaryEinsum(LinalgLowering[UnaryEinsumOp]):
    """Lower `stablehlo.unary_einsum` to one `linalg.generic`."""

    def lower(
        self, builder: LoweringBuilder, op: UnaryEinsumOp, args: Values
    ) -> Values:
        return [_sum_by_letters(builder, op, args, *_configuration(op))]


def _configuration(op: EinsumOp | UnaryEinsumOp) -> tuple[Sequence[str], str]:
    """
    Return the letters of the dimensions of each operand and of the result.

    Raises:
        Unsupported: if letters and ranks do not match, or if there is an ellipsis.
    """
    config = op.einsum_config.data
    match = re.fullmatch(r"([a-zA-Z,]*)->([a-zA-Z]*)", config.replace(" ", ""))
    operands, result = (match[1].split(","), match[2]) if match else ([], "")
    values = (*op.operands, op.result)
    if (
        [len(letters) for letters in (*operands, result)]
        != [len(shape_of(value)) for value in values]
        or not {*result} <= {*"".join(operands)}
        or len({*result}) < len(result)
    ):
        raise Unsupported(
            f"has the configuration '{config}', expected a letter for each dimension of "
            "operands and result, as in 'ab,bc->ac'"
        )
    return operands, result


def _sum_by_letters(
    builder: LoweringBuilder,
    op: DotOp | EinsumOp | UnaryEinsumOp,
    args: Values,
    operands: Sequence[str],
    result: str,
) -> SSAValue:
    """Build the sum of products of the elements with the same letters."""
    sizes: dict[str, Size] = {}
    for letters, value in zip(operands, args, strict=True):
        for letter, size in zip(letters, builder.sizes(value), strict=True):
            known = sizes.setdefault(letter, size)
            if isinstance(known, int) and isinstance(size, int) and known != size:
                raise Unsupported(f"has sizes {known} and {size} of one dimension")
            if not isinstance(known, int):
                sizes[letter] = size
    summed = [letter for letter in sizes if letter not in result]
    order = [*result, *summed]
    loops: dict[str, AffineExpr] = dict(
        zip(order, dimensions(range(len(order))), strict=True)
    )
    factors: list[Factor] = [
        (value, [loops[letter] for letter in letters])
        for letters, value in zip(operands, args, strict=True)
    ]
    result_sizes = [sizes[letter] for letter in result]
    _check_result_shape(op, result_sizes)
    return sum_of_products(builder, op, factors, result_sizes, len(summed))


def _check_result_shape(op: Operation, sizes: Sequence[Size]) -> None:
    """Raise `Unsupported` if the result has another shape; the verifiers accept any."""
    expected, actual = static_sizes(sizes), shape_of(op.results[0])
    if not are_compatible_shapes(expected, [*actual]):
        raise Unsupported(
            f"has a result of type '{op.results[0].type}', expected sizes "
            f"{', '.join(map(dimension_size_text, expected))}"
        )


class LowerTorchIndexSelect(LinalgLowering[TorchIndexSelectOp]):
    """Lower `stablehlo.torch_index_select` to a `linalg.generic` with clamped indices."""

    def lower(
        self, builder: LoweringBuilder, op: TorchIndexSelectOp, args: Values
    ) -> Values:
        table, index = args
        sizes, index_sizes = builder.sizes(table), builder.sizes(index)
        dim, batch = op.dim.value.data, op.batch_dims.value.data
        dim += len(sizes) if dim < 0 else 0
        batch += len(index_sizes) if batch < 0 else 0
        if not (0 <= batch <= dim < len(sizes) and batch <= len(index_sizes)):
            raise Unsupported(
                f"has dim {op.dim.value.data} and batch_dims {op.batch_dims.value.data}, "
                "expected 0 <= batch_dims <= dim, and dimensions of the operands"
            )
        index_type = element_type_of(op.index)
        if is_floating(index_type):
            raise Unsupported(f"has indices of type '{index_type}', expected integers")
        inner = len(index_sizes) - batch
        result_sizes = [*sizes[:dim], *index_sizes[batch:], *sizes[dim + 1 :]]
        _check_result_shape(op, result_sizes)
        if (element_type := element_type_of(op.result)) != element_type_of(op.operand):
            raise Unsupported(
                f"has a result of '{element_type}', expected elements of the operand"
            )
        last = builder.plus(sizes[dim], -1)
        along = [*range(dim), -1, *range(dim + inner, len(result_sizes))]

        def body(body: LoweringBuilder, elements: Values) -> SSAValue:
            start = clamped_index(body, elements[0], index_type, last)
            place = [
                start if loop < 0 else body.add(linalg.ops.IndexOp(loop))
                for loop in along
            ]
            return body.op(tensor.ExtractOp, (table, *place), element_type_of(table))

        type_ = TensorType(element_type_of(table), static_sizes(result_sizes))
        source = dimensions([*range(batch), *range(dim, dim + inner)])
        return [builder.map([(index, source)], type_, result_sizes, body)]
