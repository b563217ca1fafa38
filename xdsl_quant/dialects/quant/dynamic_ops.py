"""
Dynamic quantization: casts whose scales and zero points are operands, and the op that
chooses scales and zero points at run time.

Blocks have the syntax of sub-channel types: `{axis:size}` divides a dimension into blocks
of this size, of which the last may be shorter. `{0:1}` is one scale per index of dimension
0 (per-axis, or per-token), `{1:32}` one per block of 32 elements along dimension 1. Without
blocks, all elements share one scale. Scales have either only the quantized dimensions, or
the rank of the tensor, with size 1 along dimensions that are not quantized.

The storage type is an attribute with width, signedness and range: `<u8<1:255>>` is short
for `!quant.any<u8<1:255>>`. Stored values are signless integers of this width, or floats
for `f8E5M2`, `f8E4M3FN` and `f4E2M1FN`. Zero points are signless integers of the same
width; float and quantile storage types have none.
"""

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar, NoReturn, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I32,
    I64,
    AnyFloat,
    DenseArrayBase,
    IntegerType,
    NoneAttr,
    TensorType,
    UnrankedTensorType,
    i32,
    i64,
)
from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.pattern_rewriter import RewritePattern
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.diagnostics import counted
from xdsl_quant.dialects.type_kinds import TypeKind, verify_kind

from .ops import (
    FLOAT,
    STORED,
    has_signless_integers,
    have_matching_shape,
    verify_cast_rounding,
)
from .storage_types import FloatStorageType, QuantileType
from .traits import CastsQuantization
from .types import AnyQuantizedType, scalar_or_element_type

_STORED_NUMBERS = TypeKind(
    "scalar or tensor of signless integer, f8E5M2, f8E4M3FN or f4E2M1FN",
    lambda type_: (
        has_signless_integers(type_)
        or isinstance(scalar_or_element_type(type_), FloatStorageType)
    ),
)


@irdl_custom_directive
class Blocks(CustomDirective):
    """The custom form of blocks: `{dimension:size, ...}`, or nothing."""

    dimensions: AttributeVariable
    sizes: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        pairs = parser.parse_optional_comma_separated_list(
            parser.Delimiter.BRACES, lambda: self._pair(parser)
        )
        dimensions, sizes = [d for d, _ in pairs or ()], [s for _, s in pairs or ()]
        self.dimensions.set(state, DenseArrayBase.from_list(i32, dimensions))
        self.sizes.set(state, DenseArrayBase.from_list(i64, sizes))

    @staticmethod
    def _pair(parser: Parser) -> tuple[int, int]:
        dimension = _integer(parser, 32)
        parser.parse_punctuation(":")
        return dimension, _integer(parser, 64)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        dimensions, sizes = (
            cast("DenseArrayBase[I64]", variable.get(op)).get_values()
            for variable in (self.dimensions, self.sizes)
        )
        if not dimensions:
            return
        state.print_whitespace(printer)
        printer.print_string(blocks_text(dict(zip(dimensions, sizes, strict=True))))


def _integer(parser: Parser, bits: int) -> int:
    position = parser.pos
    value = parser.parse_integer(allow_boolean=False)
    if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
        parser.raise_error("integer value too large", position, parser.pos)
    return value


def blocks_text(blocks: Mapping[int, int]) -> str:
    """Format blocks as in a sub-channel type."""
    return f"{{{', '.join(f'{axis}:{size}' for axis, size in blocks.items())}}}"


class BlockedOp(IRDLOperation, ABC):
    """Base class of ops on blocks that share a scale and a zero point."""

    storage = prop_def(AnyQuantizedType)
    """The storage type and its range."""

    quantized_dimensions = prop_def(DenseArrayBase[I32])
    """The dimensions that are divided into blocks, in ascending order."""

    block_sizes = prop_def(DenseArrayBase[I64])
    """The block size along each of `quantized_dimensions`."""

    custom_directives = (Blocks,)

    @property
    def blocks(self) -> Mapping[int, int]:
        """The block size of each quantized dimension."""
        dimensions, sizes = self.quantized_dimensions, self.block_sizes
        return dict(zip(dimensions.get_values(), sizes.get_values(), strict=True))

    @staticmethod
    def block_properties(
        storage: AnyQuantizedType, blocks: Mapping[int, int]
    ) -> dict[str, Attribute]:
        """Return the properties for the storage type and the blocks."""
        ordered = dict(sorted(blocks.items()))
        return {
            "storage": storage,
            "quantized_dimensions": DenseArrayBase.from_list(i32, [*ordered]),
            "block_sizes": DenseArrayBase.from_list(i64, [*ordered.values()]),
        }

    def verify_parameters(
        self, values: SSAValue, scales: SSAValue, zero_points: SSAValue | None
    ) -> None:
        """
        Verify the types of expressed values, scales, and zero points if there are any.

        Raises:
            VerifyException: if the types do not match.
        """
        expressed, scale = values.type, scales.type
        self._verify_storage(expressed)
        element_type = scalar_or_element_type(expressed)
        if scalar_or_element_type(scale) != element_type:
            self._fail(
                f"expected scales of type '{element_type}' like the expressed values, "
                f"but got '{scale}'"
            )
        self._verify_blocks(expressed, scale)
        if zero_points is None:
            return
        zero_point = zero_points.type
        if not self.storage.has_integer_storage:
            self._fail(
                "expected no zero points for storage type "
                f"'{self.storage.short_storage_name}', but got '{zero_point}'"
            )
        storage = self.storage.signless_storage_type
        if scalar_or_element_type(zero_point) != storage:
            self._fail(
                f"expected zero points of type '{storage}' like the stored values, but "
                f"got '{zero_point}'"
            )
        if not have_matching_shape(scale, zero_point):
            self._fail(
                f"expected scales and zero points of the same shape, but got '{scale}' and "
                f"'{zero_point}'"
            )

    def _verify_storage(self, expressed: Attribute) -> None:
        element_type = scalar_or_element_type(expressed)
        if self.storage.expressed_type not in (NoneAttr(), element_type):
            self._fail(
                f"expected expressed values of type '{self.storage.expressed_type}' as "
                f"in '{self.storage}', but got '{expressed}'"
            )

    def _verify_blocks(self, values: Attribute, scale: Attribute) -> None:
        dimensions = self.quantized_dimensions.get_values()
        sizes = self.block_sizes.get_values()
        if len(dimensions) != len(sizes):
            self._fail(
                f"expected a block size for each of {len(dimensions)} quantized "
                f"dimensions, but got {len(sizes)}"
            )
        if [*dimensions] != sorted({*dimensions}) or min(dimensions, default=0) < 0:
            self._fail(
                "expected ascending quantized dimensions from 0, but got "
                f"{[*dimensions]}"
            )
        if min(sizes, default=1) <= 0:
            self._fail(f"expected positive block sizes, but got {[*sizes]}")
        if not isinstance(scale, TensorType):
            if isinstance(scale, UnrankedTensorType):
                self._fail(f"expected ranked scales, but got '{scale}'")
            if dimensions:
                self._fail(
                    f"expected a tensor of scales for {blocks_text(self.blocks)}, but got "
                    f"'{scale}'"
                )
            return
        shape = values.get_shape() if isinstance(values, TensorType) else ()
        if dimensions and dimensions[-1] >= len(shape):
            allowed = f"dimensions less than {len(shape)} for '{values}'"
            if isinstance(values, UnrankedTensorType):
                allowed = f"no blocks for unranked '{values}'"
            self._fail(f"expected {allowed}, but got {blocks_text(self.blocks)}")
        self._verify_counts(shape, cast("TensorType[AnyFloat]", scale))

    def _verify_counts(
        self, shape: tuple[int, ...], scale: TensorType[AnyFloat]
    ) -> None:
        blocks, counts = self.blocks, scale.get_shape()
        axes = [*blocks] if len(counts) == len(blocks) else range(len(shape))
        if len(counts) != len(axes):
            self._fail(
                f"expected scales of rank {len(shape)} like the values, or {len(blocks)} "
                f"like the blocks, but got '{scale}'"
            )
        for axis, count in zip(axes, counts, strict=True):
            if axis not in blocks:
                expected = 1
            elif DYNAMIC_INDEX in (shape[axis], count):
                continue
            else:
                expected = -(-shape[axis] // blocks[axis])
            if count != expected:
                self._fail(
                    f"expected {counted(expected, 'scale')} along dimension {axis} of "
                    f"the values, but got '{scale}'"
                )

    def _fail(self, message: str) -> NoReturn:
        raise VerifyException(f"'{self.name}' op {message}")


class DynamicCastOp(BlockedOp, HasCanonicalizationPatternsInterface, ABC):
    """Base class of elementwise casts with dynamic scales."""

    input = operand_def()
    scale = operand_def()
    """One float of the expressed type per block."""

    zero_point = opt_operand_def()
    """One signless integer of the storage width per block, or `None` for 0."""

    result = result_def()

    assembly_format = (
        "$input `,` $scale (`,` $zero_point^)? "
        "custom<Blocks>($quantized_dimensions, $block_sizes) `as` $storage attr-dict "
        "`:` type($input) `,` type($scale) (`,` type($zero_point)^)? `to` type($result)"
    )

    traits = traits_def(Pure(), CastsQuantization())

    KINDS: ClassVar[tuple[TypeKind, TypeKind]]
    """Type constraints of operand and result."""

    def __init__(
        self,
        input: SSAValue | Operation,
        scale: SSAValue | Operation,
        zero_point: SSAValue | Operation | None,
        result_type: Attribute,
        storage: AnyQuantizedType,
        blocks: Mapping[int, int] = {},
    ):
        """
        Build a cast.

        Args:
            input: the values to cast.
            scale: one float per block.
            zero_point: one integer per block, or `None` for 0.
            result_type: the type of the result.
            storage: the storage type and its range.
            blocks: the block size of each quantized dimension.
        """
        super().__init__(
            operands=[input, scale, zero_point],
            result_types=[result_type],
            properties=self.block_properties(storage, blocks),
        )

    @property
    def expressed(self) -> SSAValue:
        """The operand or result with expressed values."""
        return self.input if self.KINDS[0] is FLOAT else self.result

    @property
    def stored(self) -> SSAValue:
        """The operand or result with stored values."""
        return self.result if self.KINDS[0] is FLOAT else self.input

    def verify_(self) -> None:
        verify_kind(self, "operand #0", self.input.type, self.KINDS[0])
        verify_kind(self, "operand #1", self.scale.type, FLOAT)
        if self.zero_point is not None:
            verify_kind(self, "operand #2", self.zero_point.type, STORED)
        verify_kind(self, "result #0", self.result.type, self.KINDS[1])
        if not have_matching_shape(self.input.type, self.result.type):
            self._fail(
                "failed to verify that input and result are both scalars or both "
                "tensors with matching shape"
            )
        self.verify_parameters(self.expressed, self.scale, self.zero_point)
        storage = self.storage.stored_type
        if scalar_or_element_type(self.stored.type) != storage:
            self._fail(
                f"expected stored values of type '{storage}' as in '{self.storage}', but "
                f"got '{self.stored.type}'"
            )
        verify_cast_rounding(self)
        verify_cast_rounding(self)

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        from xdsl_quant.transforms.quant.quant_casts_from_dynamic import (
            DynamicCastToTyped,
        )

        return (DynamicCastToTyped(),)


@irdl_op_definition
class DynamicQuantizeCastOp(DynamicCastOp):
    """
    Quantize with scales and zero points that are operands:
    `clamp(round(expressed / scale + zero_point))`. The rounding mode is an option of
    `lower-quant-ops`; the attributes `quant.rounding_mode`, `quant.zero_point_order` and
    `quant.nan` have the same meaning as in `quant.qcast`.

    The result is defined for every input and scale, even with the rounding mode
    `truncate`: values out of range saturate, and NaN is quantized to the smallest stored
    value or, as an option, 0. Division by a scale of 0 yields infinities, 0 / 0 yields NaN;
    a negative scale changes the sign; a NaN scale yields NaN.

    With float or quantile storage, the quotient is rounded to the nearest float or table
    entry, as in `quant.qcast`.

    Example:

    ```mlir
    %q = quant.dynamic_qcast %x, %scale, %zero_point {0:1} as <u8>
        : tensor<4x8xf32>, tensor<4xf32>, tensor<4xi8> to tensor<4x8xi8>
    ```
    """

    name = "quant.dynamic_qcast"

    KINDS: ClassVar[tuple[TypeKind, TypeKind]] = (FLOAT, _STORED_NUMBERS)


@irdl_op_definition
class DynamicDequantizeCastOp(DynamicCastOp):
    """
    Dequantize with scales and zero points that are operands:
    `(stored - zero_point) * scale`.

    Example:

    ```mlir
    %x = quant.dynamic_dcast %q, %scale, %zero_point {0:1} as <u8>
        : tensor<4x8xi8>, tensor<4xf32>, tensor<4xi8> to tensor<4x8xf32>
    ```
    """

    name = "quant.dynamic_dcast"

    KINDS: ClassVar[tuple[TypeKind, TypeKind]] = (_STORED_NUMBERS, FLOAT)


@irdl_op_definition
class ChooseParametersOp(BlockedOp):
    """
    Choose scales and zero points that map the range of the values to the whole storage
    range, for dynamic quantization.

    The result is one scale, or one scale per block. Blocks `{0:1}` mean one scale per index
    of dimension 0 (per-token); `{0:1, 1:32}` means one per 32 values of a row. The last
    block may be shorter. Ranges are extended to contain 0; NaN is ignored. With zero
    points, the formulas are those of ONNX's `DynamicQuantizeLinear` for `<u8>`:

    * `scale = (maximum - minimum) / (storage_max - storage_min)`, or 1 if all values are 0,
    * `zero_point = clamp(round_half_to_even(storage_min - minimum / scale))`, or
      `storage_max` if the quotient is NaN.

    Without a zero-point result, quantization is symmetric, and the scale is
    `max(-minimum, maximum) / min(-storage_min, storage_max)`, or 1 if all values are 0. For
    float and quantile storage, which has no zero points, `storage_min` and `storage_max`
    are the smallest and largest represented number, e.g. -448 and 448 for `f8E4M3FN`.

    The compute type is f32, or f64 if the expressed type is f64 or f32 does not represent
    all stored values. The scale is rounded to the expressed type before the zero point is
    computed.

    Example:

    ```mlir
    %scale, %zero_point = quant.choose_parameters %x {0:1} as <u8>
        : tensor<4x8xf32> to tensor<4xf32>, tensor<4xi8>
    ```

    See external
    [documentation](https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html).
    """

    name = "quant.choose_parameters"

    input = operand_def()
    scale = result_def()
    """A float, or a tensor with one float per block and only the quantized dimensions."""

    zero_point = opt_result_def()
    """One signless integer of the storage width per scale; `None` if all are fixed at 0."""

    traits = traits_def(Pure())

    assembly_format = (
        "$input custom<Blocks>($quantized_dimensions, $block_sizes) `as` $storage "
        "attr-dict `:` type($input) `to` type($scale) (`,` type($zero_point)^)?"
    )

    def __init__(
        self,
        input: SSAValue | Operation,
        storage: AnyQuantizedType,
        blocks: Mapping[int, int] = {},
        *,
        symmetric: bool = False,
    ):
        """
        Build the op.

        Args:
            input: a ranked tensor of floats.
            storage: the storage type and its range.
            blocks: the block size of each quantized dimension.
            symmetric: True to fix zero points at 0 and omit their result.
        """
        value = SSAValue.get(input)
        expressed = cast(AnyFloat, scalar_or_element_type(value.type))
        stored = storage.signless_storage_type
        types: list[AnyFloat | IntegerType] = [expressed, stored]
        if symmetric:
            types = [expressed]
        result_types: list[Attribute] = [*types]
        if blocks:
            counts = _block_counts(value.type, dict(sorted(blocks.items())))
            result_types = [TensorType(type_, counts) for type_ in types]
        super().__init__(
            operands=[value],
            result_types=[result_types[0], result_types[1:]],
            properties=self.block_properties(storage, blocks),
        )

    def verify_(self) -> None:
        verify_kind(self, "operand #0", self.input.type, FLOAT)
        verify_kind(self, "result #0", self.scale.type, FLOAT)
        if self.zero_point is not None:
            verify_kind(self, "result #1", self.zero_point.type, STORED)
        self.verify_parameters(self.input, self.scale, self.zero_point)
        type_ = self.input.type
        if not isinstance(type_, TensorType):
            self._fail(f"expected a ranked tensor, but got '{type_}'")
        low, high = _represented_range(self.storage)
        if self.zero_point is None and not low < 0 < high:
            needed, values = "zero points", "values"
            if not self.storage.has_integer_storage:
                needed, values = "numbers of both signs", "numbers"
            sign = "positive" if low < 0 else "negative"
            self._fail(
                f"expected {needed} for '{self.storage}', which has no {sign} {values}"
            )
        container = cast("TensorType[AnyFloat]", type_)
        expected: Attribute = container.element_type
        if self.blocks:
            counts = _block_counts(container, self.blocks)
            expected = TensorType(container.element_type, counts)
        if self.scale.type != expected:
            self._fail(
                f"expected scales of type '{expected}', but got '{self.scale.type}'"
            )


def _block_counts(values: Attribute, blocks: Mapping[int, int]) -> list[int]:
    shape = cast("TensorType[AnyFloat]", values).get_shape()
    return [
        DYNAMIC_INDEX if shape[axis] == DYNAMIC_INDEX else -(-shape[axis] // size)
        for axis, size in blocks.items()
    ]


def _represented_range(storage: AnyQuantizedType) -> tuple[float, float]:
    """Return the smallest and largest number that stored values represent."""
    low, high = storage.storage_range
    table = storage.storage_type
    if not isinstance(table, QuantileType):
        return low, high
    first, _ = table.storage_range
    numbers = table.quantile_array()[low - first : high - first + 1]
    return min(numbers), max(numbers)
