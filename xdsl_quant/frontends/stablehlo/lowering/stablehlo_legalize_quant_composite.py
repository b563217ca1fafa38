"""
Conversion of fake quantization, as PyTorch and jax tools annotate it, to casts.

The annotation is a composite op or a custom call with the name `quant.fake_quant`:

| attribute | value |
|---|---|
| `dtype` | storage type: `"i2"`, `"i4"`, `"i8"`, `"i16"`, `"ui4"` or `"ui8"` |
| `scale` | tensor of floats: one, or per index of `quantization_dimension`, or per block |
| `zero_point` | tensor of integers, one, or one per scale; by default 0 |
| `narrow_range` | true if the smallest stored value is not used |
| `quantization_dimension` | dimension with a scale per index; unused with one scale |

The types are those of LiteRT's converter. StableHLO casts round half to even, as the
annotation does. Scales of blocks have several dimensions, which divide those of the tensor:
the casts are then `quant.qcast`, with the rounding of StableHLO, and `quant.dcast`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    BoolAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue, TypeAttribute
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import Rewriter
from xdsl.utils.hints import isa

from xdsl_quant.diagnostics import quoted, refuse, refusing
from xdsl_quant.dialects.quant import QuantizedType, UniformQuantizedSubChannelType
from xdsl_quant.dialects.quant.dialect_ops import DialectOps
from xdsl_quant.dialects.quant.ops import rounding_attributes
from xdsl_quant.dialects.quant.types import (
    scalar_or_element_type,
    uniform_type,
    with_element_type,
)
from xdsl_quant.frontends.stablehlo.dialect import CompositeOp, CustomCallOp
from xdsl_quant.frontends.stablehlo.dialect.attributes import dimensions_text
from xdsl_quant.frontends.stablehlo.dialect_ops import STABLEHLO_OPS
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.pass_outcome import PassOutcome
from xdsl_quant.runtime.entry_function import functions_by_name, referenced_symbols
from xdsl_quant.transforms.building.checked_patterns import CheckedPattern, PatternPass
from xdsl_quant.transforms.statistics.ranges.fake_quantization import cast_pair
from xdsl_quant.transforms.statistics.ranges.float_constants import float_numbers

from .stablehlo_casts_to_quant import STABLEHLO_ROUNDING

FAKE_QUANT = "quant.fake_quant"
"""Name of composite ops and custom calls that round values to stored values."""


_DTYPES = ("i2", "i4", "i8", "i16", "ui4", "ui8")


def fake_quant_attributes(op: Operation) -> Mapping[str, Attribute] | None:
    """Return the attributes of a fake-quantization annotation; `None` for other ops."""
    match op:
        case CompositeOp() if op.composite_name.data == FAKE_QUANT:
            attributes = op.composite_attributes or DictionaryAttr({})
            return attributes.data
        case CustomCallOp() if op.call_target_name.data == FAKE_QUANT:
            return op.attributes
        case _:
            return None


def _annotated_storage(attributes: Mapping[str, Attribute]) -> tuple[str, int]:
    """Return the storage type, e.g. `u8`, and its smallest stored value."""
    dtype, narrow = attributes.get("dtype"), attributes.get("narrow_range")
    name = dtype.data if isinstance(dtype, StringAttr) else ""
    if name not in _DTYPES:
        raise ValueError(
            f"expected a 'dtype' of {quoted(_DTYPES)}, found {dtype or 'none'}"
        )
    if not isa(narrow, BoolAttr):
        raise ValueError(f"expected a bool 'narrow_range', found {narrow or 'none'}")
    is_signed = name.startswith("i")
    width = int(name.removeprefix("u").removeprefix("i"))
    smallest = -(1 << width - 1) if is_signed else 0
    return name.replace("ui", "u"), smallest + bool(narrow.value.data)


def _annotated_scales(attributes: Mapping[str, Attribute]) -> Array:
    value = attributes.get("scale")
    # A float attribute has no shape; LiteRT's converter ignores it, too.
    numbers = None if isinstance(value, FloatAttr) else float_numbers(value)
    scales = np.asarray([] if numbers is None else numbers, np.float64)
    if not scales.size:
        raise ValueError(
            f"expected a tensor of floats as 'scale', found {value or 'none'}"
        )
    if not (scales > 0).all():
        raise ValueError(f"expected positive numbers as 'scale', found {scales.min()}")
    return scales


def _annotated_zero_points(attributes: Mapping[str, Attribute], count: int) -> Array:
    value = attributes.get("zero_point")
    if value is None:
        return np.zeros(count, np.int64)
    if not isinstance(value, DenseIntOrFPElementsAttr) or not isinstance(
        value.get_element_type(), IntegerType
    ):
        raise ValueError(
            f"expected a tensor of integers as 'zero_point', found {value}"
        )
    points = np.array([*value.get_values()], np.int64)
    if len(points) not in (1, count):
        raise ValueError(f"{len(points)} zero points do not match {count} scales")
    return np.broadcast_to(points, count)


def _annotated_axis(attributes: Mapping[str, Attribute], count: int) -> int:
    """Return the dimension with a number of scales."""
    dimension = attributes.get("quantization_dimension")
    if not isinstance(dimension, IntegerAttr):
        raise ValueError(
            f"expected 'quantization_dimension' with {count} scales, found "
            f"{dimension or 'none'}"
        )
    return dimension.value.data


def _annotated_blocks(counts: Sequence[int], type_: Attribute) -> dict[int, int]:
    """Return the block size by dimension for numbers of blocks along each dimension."""
    shape = type_.get_shape() if isinstance(type_, TensorType) else ()
    if len(counts) != len(shape) or any(
        size < count or size % count for size, count in zip(shape, counts, strict=True)
    ):
        raise ValueError(
            f"expected a 'scale' whose shape divides that of '{type_}', found "
            f"{dimensions_text(counts)}"
        )
    sizes = zip(shape, counts, strict=True)
    return {d: size // count for d, (size, count) in enumerate(sizes)}


def fake_quant_type(
    attributes: Mapping[str, Attribute], type_: Attribute
) -> TypeAttribute:
    """
    Return the quantized type of a fake-quantization annotation.

    Args:
        attributes: attributes of the annotation.
        type_: type of the floats, with a rank if there are several scales.

    Raises:
        ValueError: if an attribute is missing or unsupported.
        VerifyException: if the type is invalid.
    """
    expressed_type = scalar_or_element_type(type_)
    if not isinstance(expressed_type, AnyFloat):
        raise ValueError(f"expected floats, found type '{type_}'")
    storage, smallest = _annotated_storage(attributes)
    scales = _annotated_scales(attributes)
    zero_points = _annotated_zero_points(attributes, scales.size)
    axis = block_sizes = None
    if scales.size == 1:
        scales, zero_points = scales.item(), zero_points[0]
    elif sum(size > 1 for size in scales.shape) > 1:
        block_sizes = _annotated_blocks(scales.shape, type_)
        zero_points = zero_points.reshape(scales.shape)
    else:
        scales = scales.ravel()
        axis = _annotated_axis(attributes, len(scales))
    parameters = QuantizationParameters(
        scales,
        zero_points,
        storage=storage,
        storage_min=smallest,
        expressed="f64",
        quantized_dimension=axis,
        block_sizes=block_sizes,
    )
    return with_element_type(type_, uniform_type(parameters, expressed_type))


@dataclass(frozen=True)
class LegalizeFakeQuant(CheckedPattern[TypeAttribute]):
    """
    Replace fake-quantization annotations by `stablehlo.uniform_quantize` and
    `stablehlo.uniform_dequantize`. Raises `PassFailedException` for annotations without a
    valid type.
    """

    ops: DialectOps = STABLEHLO_OPS
    """Dialect of the casts."""

    def plan(self, op: Operation) -> TypeAttribute | None:
        if (attributes := fake_quant_attributes(op)) is None:
            return None
        problem = f"'{FAKE_QUANT}' cannot be converted"
        if len(op.operands) != 1 or op.operand_types != op.result_types:
            types = ", ".join(map(str, (*op.operand_types, *op.result_types)))
            found = f"expected an operand and a result of one type, found {types}"
            refuse(op, problem, found)
        with refusing(op, problem):
            type_ = fake_quant_type(attributes, op.results[0].type)
            # A block argument instead of the operand, which would keep this use.
            value = Block(arg_types=op.operand_types).args[0]
            for cast in self._casts(value, type_, op.location):
                cast.verify()
        return type_

    def _casts(
        self, value: SSAValue, type_: TypeAttribute, location: LocationAttr
    ) -> Sequence[Operation]:
        element_type = QuantizedType.get_quantized_element_type(type_)
        if not isinstance(element_type, UniformQuantizedSubChannelType):
            return cast_pair(value, type_, location, self.ops)
        quantize, dequantize = cast_pair(value, type_, location)
        quantize.attributes |= rounding_attributes(STABLEHLO_ROUNDING)
        return quantize, dequantize

    def rewrite(
        self, op: Operation, plan: TypeAttribute, rewriter: PatternRewriter
    ) -> None:
        rewriter.replace(op, self._casts(op.operands[0], plan, op.location))


@dataclass(frozen=True)
class StablehloLegalizeQuantCompositePass(PatternPass):
    """
    Replace composite ops and custom calls named `quant.fake_quant` by
    `stablehlo.uniform_quantize` and `stablehlo.uniform_dequantize`, and erase private
    functions that only these composites used.
    """

    name = "stablehlo-legalize-quant-composite"
    pattern_type = LegalizeFakeQuant
    op_types = CompositeOp | CustomCallOp
    expected = f"a composite or custom call '{FAKE_QUANT}'"

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        names = {
            composite.decomposition.root_reference.data
            for composite in op.walk()
            if isinstance(composite, CompositeOp)
            and fake_quant_attributes(composite) is not None
        }
        outcome = super().rewrite(ctx, op)
        used = {*referenced_symbols(op)}
        for name, function in functions_by_name(op).items():
            is_private = function.sym_visibility == StringAttr("private")
            if name in names - used and is_private:
                Rewriter.erase_op(function)
        return outcome
