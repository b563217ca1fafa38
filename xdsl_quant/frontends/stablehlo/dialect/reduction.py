"""Reduction over dimensions and over windows, and the terminator of their regions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    I64,
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FixedBitwidthType,
    TensorType,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    SameVariadicOperandSize,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Commutative, IsTerminator, Pure, RecursiveMemoryEffect
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.dialects.quant import StoredQuantizedType
from xdsl_quant.dialects.quant.traits import AcceptsStoredValues, Reduces
from xdsl_quant.dialects.type_kinds import VariadicOf
from xdsl_quant.dialects.verification import (
    RankedTensor,
    are_compatible_shapes,
    are_compatible_sizes,
    require,
)

from . import tensor_kinds as kinds
from .attributes import dimensions_attr, dimensions_text, parse_dimensions
from .base import Operand, PropertyValue, StableHLOOp, real_type
from .control_flow import returned_types
from .elementwise import BinaryOp
from .rules import WindowDimension, verify_count, verify_dimensions, window_dimensions
from .syntax import parse_attributes

__all__ = [
    "ReduceOp",
    "ReduceWindowOp",
    "ReturnOp",
]


@irdl_op_definition
class ReturnOp(StableHLOOp):
    """
    Terminator that returns the results of a region.

    Example:

    ```mlir
    stablehlo.return %0 : tensor<f32>
    ```
    """

    name = "stablehlo.return"

    results_ = var_operand_def(VariadicOf(kinds.RETURNED))

    assembly_format = "$results_ attr-dict (`:` type($results_)^)? custom<CompleteOp>()"

    traits = traits_def(Pure(), IsTerminator(), AcceptsStoredValues())

    def __init__(self, *results: Operand):
        super().__init__(results, result_types=())


def _scalar_type(tensor_type: Attribute) -> Attribute:
    if isinstance(tensor_type, TensorType):
        return TensorType(cast(Attribute, tensor_type.element_type), ())
    return tensor_type


def _applying_region(op_type: type[BinaryOp], scalar_type: Attribute) -> Region:
    """Return a region with a single binary op on scalars."""
    block = Block(arg_types=(scalar_type, scalar_type))
    lhs, rhs = block.args
    applied = op_type(lhs, rhs)
    block.add_ops((applied, ReturnOp(applied)))
    return Region(block)


def region_op(reduce: ReductionOp) -> BinaryOp | None:
    """Return the commutative op that the region applies to its arguments, or `None`."""
    if len(reduce.body.blocks) != 1 or not reduce.inputs:
        return None
    block = reduce.body.block
    match [*block.ops]:
        case [BinaryOp() as applied, ReturnOp() as terminator]:
            scalar_type = _scalar_type(reduce.inputs[0].type)
            is_applied = (
                applied.has_trait(Commutative)
                and (*applied.operand_types, applied.result.type) == (scalar_type,) * 3
                and (*block.args,) == (*applied.operands,)
                and (*terminator.operands,) == (applied.result,)
            )
            return applied if is_applied else None
        case _:
            return None


class ReductionOp(StableHLOOp, ABC):
    """Op that combines elements by the function in its region."""

    inputs = var_operand_def(VariadicOf(kinds.TENSOR))
    init_values = var_operand_def(VariadicOf(kinds.TENSOR))
    results_ = var_result_def(VariadicOf(kinds.TENSOR))
    body = region_def("single_block")

    irdl_options = (SameVariadicOperandSize(),)

    traits = traits_def(RecursiveMemoryEffect(), Reduces())

    def __init__(
        self,
        inputs: Sequence[Operand],
        init_values: Sequence[Operand],
        body: type[BinaryOp] | Region,
        result_types: Sequence[Attribute] | None = None,
        **properties: PropertyValue,
    ):
        """Build a reduction; `body` is its region, or the class of the op to apply."""
        if isinstance(body, type):
            body = _applying_region(body, _scalar_type(SSAValue.get(inputs[0]).type))
        super().__init__(
            inputs,
            init_values,
            result_types=[result_types or [SSAValue.get(v).type for v in inputs]],
            regions=[body],
            **properties,
        )
        if result_types is None:
            self.infer_result_types()

    @abstractmethod
    def inferred_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """
        Return the shape of the results.

        Args:
            shape: shape of the inputs.

        Raises:
            VerifyException: if the properties do not match the shape.
        """

    def allowed_dimensions(self, inferred_shape: Sequence[int]) -> Sequence[int]:
        """Return sizes; the shape of a region argument must be a subsequence of them."""
        return inferred_shape

    def verify_(self) -> None:
        count = len(self.inputs)
        self.require_operands(self.inputs)
        last_op = self.body.block.last_op
        # By name: the dialect of another plugin may have its own class.
        if last_op is None or last_op.name != ReturnOp.name:
            raise VerifyException(
                f"'{self.name}' op expects regions to end with '{ReturnOp.name}'"
            )
        inputs, inits = self.tensor_types[:count], self.tensor_types[count : 2 * count]
        shape = inputs[0].get_shape()
        for type_ in inputs:
            require(
                are_compatible_shapes(shape, type_.get_shape()),
                "expects all inputs to have compatible shapes",
            )
        inferred_shape = self.inferred_shape(shape)
        verify_computation(
            self.body, inputs, inits, self.allowed_dimensions(inferred_shape)
        )
        self.verify_inferred(self.inferred_types())

    def inferred_types(self) -> Sequence[RankedTensor]:
        shape = self.inferred_shape(self.tensor_types[0].get_shape())
        last_op = self.body.block.last_op
        assert last_op is not None
        returned = cast(Sequence[RankedTensor], last_op.operand_types)
        return [TensorType(type_.element_type, shape) for type_ in returned]


def verify_computation(
    region: Region,
    inputs: Sequence[RankedTensor],
    inits: Sequence[RankedTensor],
    allowed: Sequence[int] = (),
) -> None:
    """
    Verify a region that combines results, which start with `inits`, with elements.

    Args:
        region: has a parameter for each result and then for each input.
        inputs: types of the tensors with the elements.
        inits: types of the initial results.
        allowed: sizes; the shape of a parameter must be a subsequence of them.

    Raises:
        VerifyException: if the types do not match.
    """
    block, count = region.block, len(inputs)
    for type_ in (*block.arg_types, *returned_types(region)):
        if not isinstance(type_, TensorType):
            raise VerifyException(f"expects a region on tensors, got '{type_}'")
    parameters = cast(Sequence[RankedTensor], block.arg_types)
    returned = cast(Sequence[RankedTensor], returned_types(region))
    verify_count("parameters of the region", parameters, 2 * count)
    verify_count("results of the region", returned, count)
    for index, result in enumerate(returned):
        first, second = parameters[index], parameters[index + count]
        _verify_parameter(index, first, result, is_exact=True)
        _verify_parameter(index + count, second, result, is_exact=False)
        _verify_init(index, result, inits[index])
        _verify_input(index + count, second, inputs[index], allowed)


def _is_promotable(a: Attribute, b: Attribute) -> bool:
    """Return True for two floats, or types of one kind with `b` at least as wide as `a`."""
    if isinstance(a, AnyFloat) and isinstance(b, AnyFloat):
        return True
    if isinstance(a, StoredQuantizedType) and isinstance(b, StoredQuantizedType):
        a_width, b_width = a.storage_type_integral_width, b.storage_type_integral_width
        return a.expressed_type == b.expressed_type and a_width <= b_width
    parts = real_type(a), real_type(b)
    if type(a) is not type(b) or not all(
        isinstance(t, FixedBitwidthType) for t in parts
    ):
        return False
    a_part, b_part = cast(Sequence[FixedBitwidthType], parts)
    return a_part.bitwidth <= b_part.bitwidth


def _verify_parameter(
    index: int, parameter: RankedTensor, result: RankedTensor, *, is_exact: bool
) -> None:
    """Verify that a region parameter has the type of the corresponding region result."""
    elements = parameter.element_type, result.element_type
    are_floats = all(isinstance(element, AnyFloat) for element in elements)
    if not are_compatible_shapes(parameter.get_shape(), result.get_shape()) or not (
        elements[0] == elements[1] or (are_floats and not is_exact)
    ):
        raise VerifyException(
            f"The type of reduction-region's parameter at index {index} is different "
            f"than the corresponding result type: '{parameter}' vs '{result}'"
        )


def _verify_init(index: int, result: RankedTensor, init: RankedTensor) -> None:
    if not are_compatible_shapes(result.get_shape(), init.get_shape()):
        raise VerifyException(
            f"The shape of reduction-region's result type at index {index} differs from "
            f"the op's corresponding init-value type: '{result}' vs '{init}'"
        )
    if not _is_promotable(init.element_type, result.element_type):
        raise VerifyException(
            f"The element-type of reduction-region's result type at index {index} is "
            "expected to be promotable from the op's corresponding init-value "
            f"element-type: '{result}' vs '{init}'"
        )


def _verify_input(
    index: int, parameter: RankedTensor, input: RankedTensor, allowed: Sequence[int]
) -> None:
    if not _is_promotable(input.element_type, parameter.element_type):
        raise VerifyException(
            f"The element-type of reduction-region's argument at index {index} is "
            f"expected to be promotable from '{input.element_type}', but got "
            f"'{parameter.element_type}'"
        )
    remaining = list(parameter.get_shape())
    is_short = len(remaining) <= len(allowed)
    for size in allowed:
        if remaining and are_compatible_sizes(size, remaining[0]):
            del remaining[0]
    require(
        is_short and not remaining,
        f"The shape of reduction-region's argument at index {index} is not compatible "
        "with that of the op's input",
    )


@irdl_op_definition
class ReduceOp(ReductionOp):
    """
    Reduction along dimensions by the function in the region.

    Example:

    ```mlir
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<4x2xf32>, tensor<f32>) -> tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#reduce).
    """

    name = "stablehlo.reduce"

    dimensions = prop_def(kinds.NUMBERS)

    def inferred_shape(self, shape: Sequence[int]) -> Sequence[int]:
        reduced = self.dimensions.get_values()
        verify_dimensions("dimensions", reduced, len(shape))
        return [size for index, size in enumerate(shape) if index not in reduced]

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        pos = parser.pos
        pairs = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: _parse_pair(parser)
        )
        applied = None
        if parser.parse_optional_keyword("applies"):
            applied = _parse_applied_op(parser, pos)
        parser.parse_keyword("across")
        parser.parse_keyword("dimensions")
        parser.parse_punctuation("=")
        dimensions = dimensions_attr(parse_dimensions(parser))
        attributes, _ = parse_attributes(parser, cls, ("dimensions",))
        parser.parse_punctuation(":")
        type_ = parser.parse_function_type()
        operands = parser.resolve_operands(
            [*(input for input, _ in pairs), *(init for _, init in pairs)],
            type_.inputs.data,
            pos,
        )
        if applied is not None:
            if not operands:
                parser.raise_error(
                    "input types missing in reduce-op function type", pos, parser.pos
                )
            body = _applying_region(applied, _scalar_type(operands[0].type))
        else:
            body = _parse_reducer(parser)
        return cls.build(
            operands=[operands[: len(pairs)], operands[len(pairs) :]],
            result_types=[type_.outputs.data],
            properties={"dimensions": dimensions},
            attributes=attributes,
            regions=[body],
        )

    def print(self, printer: Printer) -> None:
        def print_pair(pair: tuple[SSAValue, SSAValue]) -> None:
            input, init_value = pair
            with printer.in_parens():
                printer.print_ssa_value(input)
                printer.print_string(" init: ")
                printer.print_ssa_value(init_value)

        printer.print_list(zip(self.inputs, self.init_values, strict=True), print_pair)
        if (applied := region_op(self)) is not None:
            printer.print_string(f" applies {applied.name}")
        printer.print_string(" across dimensions = ")
        printer.print_string(dimensions_text(self.dimensions.get_values()))
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type(self.operand_types, self.result_types)
        if applied is None:
            self._print_reducer(printer)

    def _print_reducer(self, printer: Printer) -> None:
        arguments = self.body.blocks[0].args if self.body.blocks else ()
        count = len(arguments) // 2
        printer._print_new_line()  # pyright: ignore[reportPrivateUsage] no public way
        printer.print_string(" reducer")
        for input, init_value in zip(arguments, arguments[count:], strict=False):
            with printer.in_parens():
                printer.print_block_argument(input)
                printer.print_string(", ")
                printer.print_block_argument(init_value)
            printer.print_string(" ")
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)


def _parse_pair(parser: Parser) -> tuple[UnresolvedOperand, UnresolvedOperand]:
    """Parse `(%input init: %init_value)`."""
    with parser.in_parens():
        input = parser.parse_unresolved_operand()
        parser.parse_keyword("init")
        parser.parse_punctuation(":")
        return input, parser.parse_unresolved_operand()


def _parse_applied_op(parser: Parser, pos: int) -> type[BinaryOp]:
    name = parser.parse_identifier()
    op_type = parser.ctx.get_optional_op(name)
    if (
        op_type is None
        or not issubclass(op_type, BinaryOp)
        or not op_type.has_trait(Commutative)
    ):
        parser.raise_error(
            "expected the inner-op to be a commutative binary-op from the stablehlo "
            "dialect, with zero region, producing single result",
            pos,
            parser.pos,
        )
    return op_type


def _parse_reducer(parser: Parser) -> Region:
    """Parse `reducer(%a: tensor<f32>, %b: tensor<f32>) { ... }`."""
    parser.parse_keyword("reducer")
    inputs: list[Parser.Argument] = []
    init_values: list[Parser.Argument] = []
    while parser.parse_optional_punctuation("("):
        inputs.append(parser.parse_argument())
        parser.parse_optional_location()
        parser.parse_punctuation(",")
        init_values.append(parser.parse_argument())
        parser.parse_optional_location()
        parser.parse_punctuation(")")
    return parser.parse_region([*inputs, *init_values])


@irdl_op_definition
class ReduceWindowOp(ReductionOp):
    """
    Reduction of the elements at each window position by the function in the region.

    Example: max pooling.

    ```mlir
    %1 = "stablehlo.reduce_window"(%0, %low) <{
        window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>
    }> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %2 = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<1x8x8x4xf32>, tensor<f32>) -> tensor<1x4x4x4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#reduce_window).
    """

    name = "stablehlo.reduce_window"

    window_dimensions = prop_def(kinds.NUMBERS)
    window_strides = opt_prop_def(kinds.NUMBERS)
    base_dilations = opt_prop_def(kinds.NUMBERS)
    window_dilations = opt_prop_def(kinds.NUMBERS)
    padding = opt_prop_def(DenseIntOrFPElementsAttr[I64])

    @property
    def window(self) -> list[WindowDimension]:
        """
        Window parameters along each dimension of the inputs.

        Raises:
            VerifyException: if properties are inconsistent.
        """
        return window_dimensions(
            self.window_dimensions.get_values(),
            self.window_strides,
            self.padding,
            self.base_dilations,
            self.window_dilations,
        )

    def inferred_shape(self, shape: Sequence[int]) -> Sequence[int]:
        window = self.window_dimensions.get_values()
        verify_count("window dimensions", window, len(shape))
        pairs = zip(self.window, shape, strict=True)
        return [along.positions(size) for along, size in pairs]

    def allowed_dimensions(self, inferred_shape: Sequence[int]) -> Sequence[int]:
        return self.window_dimensions.get_values()
