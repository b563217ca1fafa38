"""Ops that join tensors, take a part of one, or put something around one."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IntegerAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant.traits import MovesElements, SameOperandsAndResultsScale

from .attributes import Dimensions, dimensions_attr
from .base import SAME_ELEMENTS, InferredTypeOp, at_least
from .compatibility import RankedTensor, are_compatible_sizes, merged_shape
from .syntax import DIRECTIVES, parse_number
from .tensor_kinds import SCALAR, TENSOR, VariadicOf


class _PartsOp(InferredTypeOp, ABC):
    """An op whose result has elements of its operands, and no other ones."""

    result = result_def(TENSOR)

    traits = traits_def(Pure(), MovesElements(), SameOperandsAndResultsScale())

    def verify_same_sizes(self, *names: str) -> Sequence[Sequence[int]]:
        """The numbers that properties have for each dimension."""
        values = [
            cast(Dimensions, self.properties[name]).get_values() for name in names
        ]
        if len({len(numbers) for numbers in values}) > 1:
            raise VerifyException(
                f"'{self.name}' op failed to verify that all of {{{', '.join(names)}}} "
                "have same size"
            )
        SAME_ELEMENTS.verify(self)
        return values


@irdl_op_definition
class ConcatenateOp(_PartsOp):
    """
    Tensors one after the other along one dimension.

    Example:

    ```mlir
    %2 = stablehlo.concatenate %0, %1, dim = 0
        : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<3x3xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#concatenate).
    """

    name = "stablehlo.concatenate"

    inputs = var_operand_def(VariadicOf(TENSOR))
    dimension = prop_def(at_least(0, "dimension"))

    traits = traits_def(SAME_ELEMENTS)

    assembly_format = (
        "custom<OperandsBeforeKeyword>($inputs) `dim` `=` $dimension attr-dict `:` "
        "functional-type(operands, results) custom<VerifyTypesLater>()"
    )

    def __init__(
        self,
        inputs: Sequence[SSAValue | Operation],
        dimension: int,
        result_type: Attribute,
    ):
        super().__init__(
            operands=[inputs],
            result_types=[result_type],
            properties={"dimension": IntegerAttr(dimension, i64)},
        )

    def verify_(self) -> None:
        if not self.inputs:
            raise VerifyException(
                f"'{self.name}' op expected 1 or more operands, but found 0"
            )
        super().verify_()

    def inferred_type(self) -> RankedTensor:
        dimension = self.dimension.value.data
        *types, _ = self.tensor_types
        shapes = [type_.get_shape() for type_ in types]
        _verify_concatenable(shapes, dimension)
        sizes = [shape[dimension] for shape in shapes]
        merged = list(merged_shape(shapes))
        merged[dimension] = DYNAMIC_INDEX if DYNAMIC_INDEX in sizes else sum(sizes)
        return TensorType(types[0].element_type, merged)


def _verify_concatenable(shapes: Sequence[Sequence[int]], dimension: int) -> None:
    """Verify that shapes belong together but for one dimension."""
    first, rank = shapes[0], len(shapes[0])
    if not rank:
        raise VerifyException("rank-0 values cannot be concatenated")
    if dimension >= rank:
        raise VerifyException(
            f"dimension {dimension} is out-of-bounds for input rank {rank}"
        )
    for operand, shape in enumerate(shapes):
        if len(shape) != rank:
            raise VerifyException(f"operands (0) and ({operand}) do not match rank")
        for index, (a, b) in enumerate(zip(first, shape, strict=True)):
            if index != dimension and not are_compatible_sizes(a, b):
                raise VerifyException(
                    f"shapes of operand (0) and ({operand}) are not compatible at "
                    f"non-concat index {index}: {_shape_text(first)} != "
                    f"{_shape_text(shape)}"
                )
    # Each may fit the first one, whose size is not known, but not another one.
    known = list(first)
    for shape in shapes:
        for index, (a, b) in enumerate(zip(known, shape, strict=True)):
            if index != dimension and not are_compatible_sizes(a, b):
                raise VerifyException(
                    f"Mismatched dimension sizes {a} and {b} in dimension {index}"
                )
        known = merged_shape((known, shape))


def _shape_text(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))})"


@irdl_custom_directive
class SliceRanges(CustomDirective):
    """`[0:4, 1:5:2]`: start, limit and stride of each dimension, where 1 is left out."""

    start_indices: AttributeVariable
    limit_indices: AttributeVariable
    strides: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        def parse_range() -> tuple[int, int, int]:
            start = parse_number(parser)
            parser.parse_punctuation(":")
            limit = parse_number(parser)
            has_stride = parser.parse_optional_punctuation(":") is not None
            return start, limit, parse_number(parser) if has_stride else 1

        ranges = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parse_range)
        for variable, index in (
            (self.start_indices, 0),
            (self.limit_indices, 1),
            (self.strides, 2),
        ):
            variable.set(state, dimensions_attr([range_[index] for range_ in ranges]))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        assert isinstance(op, SliceOp)
        state.print_whitespace(printer)
        starts, limits, strides = (
            attribute.get_values()
            for attribute in (op.start_indices, op.limit_indices, op.strides)
        )
        if not len(starts) == len(limits) == len(strides):
            # Not valid, and not meant to be parsed: it is part of the error message.
            texts = [
                f"{name}: {', '.join(map(str, values))}"
                for name, values in (
                    ("start_indices", starts),
                    ("limit_indices", limits),
                    ("strides", strides),
                )
            ]
        else:
            texts = [
                f"{start}:{limit}" if stride == 1 else f"{start}:{limit}:{stride}"
                for start, limit, stride in zip(starts, limits, strides, strict=True)
            ]
        printer.print_string(f"[{', '.join(texts)}]")


@irdl_op_definition
class SliceOp(_PartsOp):
    """
    The part of a tensor from `start_indices` to before `limit_indices`, or every so many
    elements of it.

    Example:

    ```mlir
    %1 = stablehlo.slice %0 [0:2, 1:6:2] : (tensor<4x6xf32>) -> tensor<2x3xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#slice).
    """

    name = "stablehlo.slice"

    operand = operand_def(TENSOR)
    start_indices = prop_def(DenseArrayBase.constr(i64))
    limit_indices = prop_def(DenseArrayBase.constr(i64))
    strides = prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$operand custom<SliceRanges>($start_indices, $limit_indices, $strides) "
        "attr-dict `:` functional-type(operands, results) custom<VerifyTypesLater>()"
    )
    custom_directives = (*DIRECTIVES, SliceRanges)

    def __init__(
        self,
        operand: SSAValue | Operation,
        start_indices: Sequence[int],
        limit_indices: Sequence[int],
        strides: Sequence[int],
        result_type: Attribute,
    ):
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={
                "start_indices": dimensions_attr(start_indices),
                "limit_indices": dimensions_attr(limit_indices),
                "strides": dimensions_attr(strides),
            },
        )

    def inferred_type(self) -> RankedTensor:
        ranges = self.verify_same_sizes("start_indices", "limit_indices", "strides")
        type_, _ = self.tensor_types
        shape = type_.get_shape()
        if len(ranges[0]) != len(shape):
            raise VerifyException(
                f"the number of elements in start_indices ({len(ranges[0])}) does not "
                f"match the rank of the operand ({len(shape)})"
            )
        sizes = map(_sliced_size, range(len(shape)), shape, *ranges)
        return TensorType(type_.element_type, list(sizes))


def _sliced_size(dimension: int, size: int, start: int, limit: int, stride: int) -> int:
    """How many of the indices from `start` to `limit` a slice has."""
    if start < 0:
        raise VerifyException(f"negative start index {start} in dimension {dimension}")
    if size != DYNAMIC_INDEX and limit > size:
        raise VerifyException(
            f"limit index {limit} is larger than dimension size {size} in dimension "
            f"{dimension}"
        )
    if start > limit:
        raise VerifyException(
            f"start index {start} is larger than limit index {limit} in dimension "
            f"{dimension}"
        )
    if stride <= 0:
        raise VerifyException(
            f"stride must be positive but got {stride} in dimension {dimension}"
        )
    return -(-(limit - start) // stride)


@irdl_op_definition
class PadOp(_PartsOp):
    """
    A tensor with a value before, after and between its elements. Negative padding takes
    elements away.

    Example:

    ```mlir
    %2 = stablehlo.pad %0, %1, low = [0, 1], high = [0, 1], interior = [0, 0]
        : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x5xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#pad).
    """

    name = "stablehlo.pad"

    operand = operand_def(TENSOR)
    padding_value = operand_def(SCALAR)
    edge_padding_low = prop_def(DenseArrayBase.constr(i64))
    edge_padding_high = prop_def(DenseArrayBase.constr(i64))
    interior_padding = prop_def(DenseArrayBase.constr(i64))

    assembly_format = (
        "$operand `,` $padding_value "
        "`,` `low` `=` custom<DimensionList>($edge_padding_low) "
        "`,` `high` `=` custom<DimensionList>($edge_padding_high) "
        "`,` `interior` `=` custom<DimensionList>($interior_padding) attr-dict `:` "
        "functional-type(operands, results) custom<VerifyTypesLater>()"
    )

    def __init__(
        self,
        operand: SSAValue | Operation,
        padding_value: SSAValue | Operation,
        edge_padding_low: Sequence[int],
        edge_padding_high: Sequence[int],
        interior_padding: Sequence[int],
        result_type: Attribute,
    ):
        super().__init__(
            operands=[operand, padding_value],
            result_types=[result_type],
            properties={
                "edge_padding_low": dimensions_attr(edge_padding_low),
                "edge_padding_high": dimensions_attr(edge_padding_high),
                "interior_padding": dimensions_attr(interior_padding),
            },
        )

    def inferred_type(self) -> RankedTensor:
        padding = self.verify_same_sizes(
            "edge_padding_low", "edge_padding_high", "interior_padding"
        )
        type_, _, _ = self.tensor_types
        shape = type_.get_shape()
        if len(padding[0]) != len(shape):
            raise VerifyException(
                f"edge_padding_low length ({len(padding[0])}) must match operand rank "
                f"({len(shape)})"
            )
        sizes = map(_padded_size, range(len(shape)), shape, *padding)
        return TensorType(type_.element_type, list(sizes))


def _padded_size(dimension: int, size: int, low: int, high: int, interior: int) -> int:
    """The size of a dimension with padding before, after and between its elements."""
    if interior < 0:
        raise VerifyException(f"Interior padding cannot be negative: {interior}")
    if size == DYNAMIC_INDEX:
        return DYNAMIC_INDEX
    padded = size + low + high + max(size - 1, 0) * interior
    if padded < 0:
        raise VerifyException(
            f"Padding result in negative size for dimension {dimension}"
        )
    return padded
