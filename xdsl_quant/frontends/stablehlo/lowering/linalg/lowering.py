"""Base class and type checks of lowering patterns from StableHLO to linalg."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import UnionType
from typing import ClassVar, Generic, NamedTuple, TypeAlias, cast, get_args, get_origin

from typing_extensions import TypeVar, get_original_bases
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    NoneAttr,
    Signedness,
    TensorType,
    UnrealizedConversionCastOp,
)
from xdsl.dialects.linalg.ops import YieldOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import ConstantLike
from xdsl.utils.hints import isa

from xdsl_quant.dialects.quant import QuantizedType, StorageCastOp, StoredQuantizedType
from xdsl_quant.dialects.quant.traits import (
    AcceptsStoredValues,
    ComputesElementwise,
    MultipliesAndAccumulates,
    OrdersElements,
    Reduces,
    has_quantization_trait,
)
from xdsl_quant.frontends.stablehlo.dialect import ConvertOp
from xdsl_quant.transforms.building.builder import LoweringBuilder
from xdsl_quant.transforms.building.signless_types import signless
from xdsl_quant.unsupported import Unsupported

UnsupportedError = Unsupported
"""Former name of `Unsupported`."""

Values: TypeAlias = Sequence[SSAValue]

OpT = TypeVar("OpT", bound=Operation, default=Operation)

QUANTIZED_ARITHMETIC = (
    "is arithmetic on a quantized tensor: run 'convert-quantized-stablehlo-to-linalg' "
    "instead"
)


_DECOMPOSED = (ComputesElementwise, MultipliesAndAccumulates, OrdersElements)
"""Traits of quantized ops that another pass decomposes."""


class Replacement(NamedTuple):
    """Lowered form of an op, before insertion."""

    op: Operation

    block: Block
    """Lowered ops, and a terminator whose operands are the new results."""

    def insert(self) -> None:
        """Replace the op by its lowered form."""
        terminator = self.block.last_op
        assert terminator is not None
        results = terminator.operands
        Rewriter.erase_op(terminator)
        Rewriter.inline_block(self.block, InsertPoint.before(self.op))
        Rewriter.replace_op(self.op, (), results)

    def discard(self) -> None:
        """Erase the lowered ops without replacing the op."""
        self.block.erase()


class LinalgLowering(RewritePattern, ABC, Generic[OpT]):
    """
    Lower an op to linalg, tensor, arith and math, or leave it unchanged if unsupported.

    Lowered ops compute on signless types. Quantized operands and results are converted by
    `quant.scast`, signed and unsigned integers by `unrealized_conversion_cast`.
    """

    op_type: ClassVar[type[Operation] | UnionType]
    """Class or union of classes of the lowered ops: the argument of the generic base."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for base in get_original_bases(cls):
            if get_origin(base) is LinalgLowering:
                (cls.op_type,) = get_args(base)

    def handles(self, op: Operation) -> bool:
        """Return True if this pattern lowers an op."""
        return isinstance(op, self.op_type)

    @abstractmethod
    def lower(self, builder: LoweringBuilder, op: OpT, args: Values) -> Values:
        """
        Build the lowered form of an op.

        Args:
            builder: insertion point.
            op: op to lower, not modified.
            args: operands as tensors of signless types.

        Returns:
            Results as tensors of signless types.

        Raises:
            Unsupported: if the op cannot be lowered; the message continues `'name' op`.
        """

    def replacement(self, op: Operation) -> Replacement:
        """
        Return the lowered form of an op.

        Raises:
            Unsupported: if the op cannot be lowered; the message continues `'name' op`.
        """
        for value in (*op.operands, *op.results):
            _check_type(op, value.type)
        block = Block()
        builder = LoweringBuilder(InsertPoint.at_end(block), location=op.location)
        try:
            args = [
                _bit_cast(builder, operand, stored_type(operand.type))
                for operand in op.operands
            ]
            values = self.lower(builder, cast(OpT, op), args)
            results: list[SSAValue] = []
            for value, result in zip(values, op.results, strict=True):
                value = builder.cast(value, stored_type(result.type))
                results.append(_bit_cast(builder, value, result.type))
                for new in (value, results[-1]):
                    new.name_hint = new.name_hint or result.name_hint
        except Unsupported:
            # The ops of an unfinished region still use values of the block.
            block.erase(safe_erase=False)
            raise
        # A result may be the result of another op, which is replaced later: operands of the
        # terminator follow the replacement.
        block.add_op(YieldOp.create(operands=results))
        return Replacement(op, block)

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not self.handles(op):
            return
        try:
            replacement = self.replacement(op)
        except Unsupported:
            return
        replacement.insert()
        rewriter.has_done_action = True


def _bit_cast(builder: LoweringBuilder, value: SSAValue, type_: Attribute) -> SSAValue:
    """Cast a value to another type with the same bits."""
    if value.type == type_:
        return value
    if any(map(QuantizedType.get_quantized_element_type, (value.type, type_))):
        return builder.op(StorageCastOp, (value,), type_)
    return builder.op(UnrealizedConversionCastOp, (value,), type_)


# Types


def is_floating(type_: Attribute) -> bool:
    """Return True if an element type is a float."""
    return isinstance(type_, AnyFloat)


def bit_width(type_: Attribute) -> int:
    """Return the width of an integer or float type."""
    return cast("IntegerType | AnyFloat", type_).bitwidth


def is_boolean(type_: Attribute) -> bool:
    """Return True if an element type is `i1`."""
    return isa(type_, IntegerType) and type_.bitwidth == 1


def is_unsigned_type(type_: Attribute) -> bool:
    """Return True for unsigned integers and unsigned storage types, including `i1`."""
    if isinstance(type_, StoredQuantizedType):
        return not type_.is_signed
    return isa(type_, IntegerType) and (
        type_.bitwidth == 1 or type_.signedness.data is Signedness.UNSIGNED
    )


def is_arithmetic(type_: Attribute) -> bool:
    """Return True if the arith dialect, compiled or interpreted, supports a type."""
    if isa(type_, IntegerType):
        return type_.bitwidth <= 64
    return isinstance(type_, BFloat16Type | Float16Type | Float32Type | Float64Type)


def stored_type(type_: Attribute) -> TensorType:
    """Return the signless type of a tensor or, if quantized, of its stored values."""
    storage = StoredQuantizedType.cast_to_signless_storage_type(type_)
    return cast(TensorType, storage or signless(type_))


def accepts_stored_values(op: Operation) -> bool:
    """Return True if the operands of an op may be replaced by their stored values."""
    return has_quantization_trait(op, AcceptsStoredValues) or op.has_trait(
        ConstantLike, value_if_unregistered=False
    )


def _check_type(op: Operation, type_: Attribute) -> None:
    value = f"has a value of type '{type_}'"
    if not isa(type_, TensorType):
        raise Unsupported(f"{value}, expected a ranked tensor")
    if not isinstance(type_.encoding, NoneAttr):
        raise Unsupported(f"{value}, which has an unsupported encoding")
    element_type, accepts_stored = type_.element_type, accepts_stored_values(op)
    if isinstance(element_type, QuantizedType):
        if not (accepts_stored or has_quantization_trait(op, Reduces)):
            if has_quantization_trait(op, *_DECOMPOSED):
                raise Unsupported(QUANTIZED_ARITHMETIC)
            raise without_linalg("has a quantized operand or result")
        if not isinstance(element_type, StoredQuantizedType):
            raise Unsupported(
                f"takes stored values of type '{element_type}', which has no storage type"
            )
    elif not (
        is_arithmetic(element_type)
        or isinstance(element_type, IndexType)
        or (
            (accepts_stored or isinstance(op, ConvertOp))
            and isinstance(element_type, AnyFloat)
        )
    ):
        raise Unsupported(
            f"{value}, expected elements of type bf16, f16, f32, f64 or an integer of up "
            "to 64 bits"
        )


def without_linalg(feature: str) -> Unsupported:
    """Return the error for an op with a feature that linalg does not support."""
    return Unsupported(f"{feature}, which has no conversion to linalg")
