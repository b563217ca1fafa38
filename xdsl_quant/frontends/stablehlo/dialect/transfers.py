"""
Transfers with the host and between devices, the tokens that order them, and tuples.

These ops are verified and kept, but not run.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    I32,
    I64,
    ArrayAttr,
    BoolAttr,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    StringAttr,
    TensorType,
    TupleType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from xdsl_quant.diagnostics import quoted
from xdsl_quant.dialects.quant.traits import AcceptsStoredValues
from xdsl_quant.dialects.type_kinds import TypeKind, VariadicOf
from xdsl_quant.dialects.verification import require

from . import tensor_kinds as kinds
from .attributes import TokenType
from .base import StableHLOOp
from .collectives import ChannelHandleAttr
from .control_flow import are_compatible_lists, returned_types
from .rules import verify_count
from .syntax import FUNCTIONAL_TYPE

__all__ = [
    "AfterAllOp",
    "AsyncDoneOp",
    "AsyncStartOp",
    "CreateTokenOp",
    "FutureType",
    "GetTupleElementOp",
    "InfeedOp",
    "OutfeedOp",
    "RecvOp",
    "SendOp",
    "TupleOp",
]


# Tokens


@irdl_op_definition
class AfterAllOp(StableHLOOp):
    """
    Token that follows other tokens.

    Example:

    ```mlir
    %2 = stablehlo.after_all %0, %1 : !stablehlo.token
    ```
    """

    name = "stablehlo.after_all"

    inputs = var_operand_def(VariadicOf(kinds.TOKEN))
    result = result_def(kinds.TOKEN)

    assembly_format = (
        "$inputs attr-dict `:` "
        "custom<SameOperandsAndResultType>(type(operands), type(results))"
    )

    traits = traits_def(Pure())


@irdl_op_definition
class CreateTokenOp(StableHLOOp):
    """New token (deprecated, see `after_all`)."""

    name = "stablehlo.create_token"

    output = result_def(kinds.TOKEN)

    assembly_format = "attr-dict `:` type($output)"

    traits = traits_def(Pure())


# Tuples


@irdl_op_definition
class TupleOp(StableHLOOp):
    """
    Tuple of values.

    Example:

    ```mlir
    %2 = stablehlo.tuple %0, %1 : tuple<tensor<2xf32>, tensor<i32>>
    ```
    """

    name = "stablehlo.tuple"

    val = var_operand_def(VariadicOf(kinds.TUPLE_ELEMENT))
    result = result_def(kinds.TUPLE)

    assembly_format = (
        "$val attr-dict `:` custom<TupleOpType>(type(operands), type(results))"
    )

    traits = traits_def(Pure())

    def verify_(self) -> None:
        inferred = TupleType(cast(tuple[TypeAttribute, ...], (*self.operand_types,)))
        self.require_inferred(
            are_compatible_lists(
                cast(TupleType, self.result.type).types.data, self.operand_types
            ),
            [inferred],
        )


@irdl_op_definition
class GetTupleElementOp(StableHLOOp):
    """
    Element of a tuple.

    Example:

    ```mlir
    %1 = stablehlo.get_tuple_element %0[1]
        : (tuple<tensor<2xf32>, tensor<i32>>) -> tensor<i32>
    ```
    """

    name = "stablehlo.get_tuple_element"

    operand = operand_def(kinds.TUPLE)
    index = prop_def(IntegerAttr[I32])
    result = result_def(kinds.TUPLE_ELEMENT)

    assembly_format = f"$operand `[` $index `]` {FUNCTIONAL_TYPE}"

    traits = traits_def(Pure())

    def verify_(self) -> None:
        types = cast(TupleType, self.operand.type).types.data
        index = self.index.value.data
        require(
            0 <= index < len(types),
            f"expects index in [0, {len(types)}), got {index}",
        )
        self.require_inferred(
            are_compatible_lists([types[index]], self.result_types), [types[index]]
        )


# Transfers


class ReceivingOp(StableHLOOp, ABC):
    """Op that returns tensors and a token."""

    token = operand_def(kinds.TOKEN)
    results_ = var_result_def(VariadicOf(kinds.STATIC_OR_TOKEN))

    def verify_(self) -> None:
        types = self.result_types
        require(
            bool(types) and isinstance(types[-1], TokenType),
            "expects a token as the last result",
        )
        require(
            all(isinstance(type_, TensorType) for type_ in types[:-1]),
            "expects tensors before the token",
        )


class SendingOp(StableHLOOp, ABC):
    """Op that consumes tensors and a token, and returns a token."""

    inputs = var_operand_def(VariadicOf(kinds.TENSOR_OR_PER_AXIS))
    token = operand_def(kinds.TOKEN)
    result = result_def(kinds.TOKEN)

    traits = traits_def(AcceptsStoredValues())


@irdl_op_definition
class InfeedOp(ReceivingOp):
    """Tensors from the host."""

    name = "stablehlo.infeed"

    infeed_config = opt_prop_def(StringAttr, default_value=StringAttr(""))
    layout = opt_prop_def(ArrayAttr)

    def __post_init__(self) -> None:
        super().__post_init__()
        # StableHLO prints the configuration even if it is absent.
        self.properties = {"infeed_config": StringAttr(""), **self.properties}

    def verify_(self) -> None:
        super().verify_()
        if self.layout is None:
            return
        count = len(self.results) - 1
        require(
            len(self.layout) == count,
            f"expects {count} layouts, got {len(self.layout)}",
        )
        for layout in self.layout:
            require(
                isa(layout, ArrayAttr[IntegerAttr]),
                f"expects layouts that are arrays of integers, got '{layout}'",
            )


@irdl_op_definition
class OutfeedOp(SendingOp):
    """Transfer of tensors to the host."""

    name = "stablehlo.outfeed"

    outfeed_config = opt_prop_def(StringAttr, default_value=StringAttr(""))

    def __post_init__(self) -> None:
        super().__post_init__()
        # StableHLO prints the configuration even if it is absent.
        self.properties = {"outfeed_config": StringAttr(""), **self.properties}


_DEVICE_TO_DEVICE = 1


class ChannelOp(StableHLOOp, ABC):
    """Transfer over a channel."""

    channel_handle = prop_def(ChannelHandleAttr)
    is_host_transfer = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    source_target_pairs = opt_prop_def(DenseIntOrFPElementsAttr[I64])

    HOST_CHANNEL: ClassVar[int]
    """Type of the channel of a transfer with the host."""

    def verify_channel(self) -> None:
        """Raise `VerifyException` unless channel and transfer match."""
        is_host = bool(self.is_host_transfer.value.data)
        expected = self.HOST_CHANNEL if is_host else _DEVICE_TO_DEVICE
        actual = self.channel_handle.type.data
        require(
            actual == expected,
            f"expects a channel of type {expected} if is_host_transfer is "
            f"{str(is_host).lower()}, got {actual}",
        )


@irdl_op_definition
class SendOp(SendingOp, ChannelOp):
    """Transfer of tensors to a channel."""

    name = "stablehlo.send"

    HOST_CHANNEL: ClassVar[int] = 2

    def verify_(self) -> None:
        self.verify_channel()


@irdl_op_definition
class RecvOp(ReceivingOp, ChannelOp):
    """Tensors from a channel."""

    name = "stablehlo.recv"

    HOST_CHANNEL: ClassVar[int] = 3

    def verify_(self) -> None:
        self.verify_channel()
        super().verify_()


# Asynchronous collectives


@irdl_attr_definition
class FutureType(ParametrizedAttribute, TypeAttribute):
    """
    Results of an asynchronous op.

    Example:

    ```mlir
    !stablehlo.future<tensor<4xf32>, tensor<i32>>
    ```
    """

    name = "stablehlo.future"

    types: ArrayAttr[Attribute]

    def verify(self) -> None:
        for type_ in self.types:
            if not isinstance(type_, TensorType):
                raise VerifyException(
                    f"future element type must be a ranked tensor, but got '{type_}'"
                )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        pos = parser.pos
        types = parser.parse_comma_separated_list(
            parser.Delimiter.ANGLE, parser.parse_type
        )
        if not types:
            parser.raise_error("expected type", pos, parser.pos)
        return (ArrayAttr(types),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_list(self.types, printer.print_attribute)


_ASYNCHRONOUS = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("all_gather", "all_reduce", "all_to_all", "collective_broadcast"),
        *("collective_permute", "collective_reduce", "reduce_scatter"),
        *("slice", "dynamic_slice", "dynamic_update_slice"),
    )
)
"""Names of the ops that may run asynchronously."""

FUTURE = TypeKind("future", lambda type_: isinstance(type_, FutureType))


@irdl_op_definition
class AsyncStartOp(StableHLOOp):
    """Start of the op in the region; `async_done` waits for its results."""

    name = "stablehlo.async_start"

    inputs = var_operand_def(VariadicOf(kinds.TENSOR))
    result = result_def(FUTURE)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove())

    def verify_(self) -> None:
        arguments = self.body.block.arg_types
        verify_count("operands", self.operand_types, len(arguments))
        pairs = zip(self.operand_types, arguments, strict=True)
        for index, (type_, argument) in enumerate(pairs):
            require(
                type_ == argument,
                f"operand type '{type_}' at index {index} must match region argument type "
                f"'{argument}'",
            )
        names = [op.name for op in self.body.block.ops]
        require(
            len(names) == 2 and names[0] in _ASYNCHRONOUS,
            f"expects a region with a collective or a slice, got {quoted(names)}",
        )
        returned = returned_types(self.body)
        verify_count("results of the region", returned, 1)
        inferred = FutureType(ArrayAttr(returned))
        types = cast(FutureType, self.result.type).types.data
        self.require_inferred(
            are_compatible_lists(inferred.types.data, types), [inferred]
        )


@irdl_op_definition
class AsyncDoneOp(StableHLOOp):
    """Result of an asynchronous op."""

    name = "stablehlo.async_done"

    operand = operand_def(FUTURE)
    result = result_def(kinds.TENSOR)

    def verify_(self) -> None:
        types = cast(FutureType, self.operand.type).types.data
        self.require_inferred(are_compatible_lists(types, self.result_types), types)
