"""
Builder and reader of `tosa.rescale` with constant operands.

See external [documentation](https://mlir.llvm.org/docs/Dialects/TOSA/#tosarescale-mlirtosarescaleop).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from xdsl.dialects import tosa
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BoolAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    PackableType,
    TensorType,
    i1,
    i8,
    i16,
    i32,
)
from xdsl.ir import Attribute, SSAValue

from xdsl_quant.dialects.quant.fixed_point_types import FixedPointType
from xdsl_quant.numerics.arrays import Array, Integers, check_bounds
from xdsl_quant.numerics.fixed_point import MAX_SHIFT, MIN_SHIFT
from xdsl_quant.rounding_mode import ScaleRounding
from xdsl_quant.runtime.arrays import dense_elements
from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    element_type_of,
    integer_attr,
    shape_of,
)
from xdsl_quant.transforms.building.fixed_point_requantization import Requantization

SINGLE_ROUND = tosa.RoundingMode.SINGLE_ROUND
DOUBLE_ROUND = tosa.RoundingMode.DOUBLE_ROUND
INEXACT_ROUND = tosa.RoundingMode.INEXACT_ROUND

ROUNDING_MODES: Mapping[ScaleRounding, tosa.RoundingMode] = {
    "single": SINGLE_ROUND,
    "double": DOUBLE_ROUND,
}
"""TOSA's rounding mode by value of the pass option `scale-rounding`."""


def constant(
    builder: LoweringBuilder, values: ArrayLike, element_type: Attribute
) -> SSAValue:
    """Build a `tosa.const` with the values of an array."""
    array = np.asarray(values)
    type_ = TensorType(element_type, array.shape)
    if element_type == i1:
        # `true` is -1 in a dense attribute.
        array = -array.astype(np.int8)
    data = cast("PackableType[int]", element_type).pack(array.ravel().tolist())
    attribute = DenseIntOrFPElementsAttr(
        cast("TensorType[IntegerType]", type_), BytesAttr(data)
    )
    return builder.op(tosa.ConstOp, (), type_, {"values": attribute})


@dataclass(frozen=True, eq=False)
class Rescale:
    """`tosa.rescale`: `clamp(apply_scale(x - input_zp, multiplier, shift) + output_zp)`."""

    multipliers: NDArray[np.int64]
    """One-dimensional: one multiplier, or one per index of the last dimension."""

    shifts: NDArray[np.int64]

    input_zp: int = 0
    """Zero point of the input; non-negative for unsigned inputs."""

    output_zp: int = 0
    """Zero point of the result; non-negative for unsigned results."""

    rounding_mode: tosa.RoundingMode = SINGLE_ROUND
    """Rounding of scaled values."""

    scale32: bool = True
    """True for 32-bit multipliers, false for 16-bit multipliers."""

    input_unsigned: bool = False
    """True if the signless input holds unsigned integers."""

    output_unsigned: bool = False
    """True if the signless result holds unsigned integers."""

    def build(
        self, builder: LoweringBuilder, value: SSAValue, result_type: TensorType
    ) -> SSAValue:
        """
        Build the op and its constants.

        Args:
            builder: the builder of the ops.
            value: a tensor of signless integers.
            result_type: a tensor type of signless integers.
        """
        operands = (
            value,
            constant(builder, self.multipliers, i32 if self.scale32 else i16),
            constant(builder, self.shifts, i8),
            _zero_point_constant(builder, self.input_zp, element_type_of(value)),
            _zero_point_constant(builder, self.output_zp, result_type.element_type),
        )
        properties = {
            "input_unsigned": BoolAttr.from_bool(self.input_unsigned),
            "output_unsigned": BoolAttr.from_bool(self.output_unsigned),
            "per_channel": BoolAttr.from_bool(self.multipliers.size > 1),
            "rounding_mode": tosa.RoundingModeAttr(self.rounding_mode),
            "scale32": BoolAttr.from_bool(self.scale32),
        }
        return builder.op(tosa.RescaleOp, operands, result_type, properties)

    @classmethod
    def of(cls, op: tosa.RescaleOp) -> Rescale:
        """
        Read the parameters of an op.

        Raises:
            ValueError: if an operand is not constant, or parameters are invalid in TOSA.
        """
        count = _channel_count(op)
        rescale = cls(
            _constant_operand(op.multiplier, "multiplier", count),
            _constant_operand(op.shift, "shift", count),
            constant_zero_point(op.input_zp, "input_zp", _is_true(op.input_unsigned)),
            constant_zero_point(
                op.output_zp, "output_zp", _is_true(op.output_unsigned)
            ),
            op.rounding_mode.data,
            _is_true(op.scale32),
            _is_true(op.input_unsigned),
            _is_true(op.output_unsigned),
        )
        if not rescale.scale32 and rescale.rounding_mode == DOUBLE_ROUND:
            raise ValueError(f"{DOUBLE_ROUND} requires scale32 = true")
        largest = (1 << (31 if rescale.scale32 else 15)) - 1
        for name, numbers, low, high in (
            ("multiplier", rescale.multipliers, 1, largest),
            ("shift", rescale.shifts, MIN_SHIFT, MAX_SHIFT),
        ):
            check_bounds(
                numbers, low, high, f"{name} {{}} is out of the range {low} to {high}"
            )
        return rescale

    @classmethod
    def of_types(
        cls,
        source: FixedPointType,
        target: FixedPointType,
        rank: int,
        rounding: ScaleRounding,
    ) -> Rescale:
        """
        Return the rescale that computes a
        [requantization][xdsl_quant.transforms.building.fixed_point_requantization],
        without the clamp to the storage range of `target`.

        Args:
            source: the element type of the input.
            target: the element type of the result.
            rank: the rank of the tensor.
            rounding: the rounding of scaled values.

        Raises:
            ValueError: if the types cannot be requantized, zero points differ, or scales
                vary along another dimension than the last one.
        """
        requantization = Requantization(source, target)
        numbers = requantization.numbers
        multipliers, shifts = (
            _numbers_of_channels(numbers[name], requantization.axes, rank)
            for name in ("multiplier", "shift")
        )
        if (multipliers == multipliers[0]).all() and (shifts == shifts[0]).all():
            multipliers, shifts = multipliers[:1], shifts[:1]
        return cls(
            multipliers,
            shifts,
            _common_zero_point(numbers["source_zero_point"]),
            _common_zero_point(numbers["zero_point"]),
            ROUNDING_MODES[rounding],
            input_unsigned=not source.is_signed,
            output_unsigned=not target.is_signed,
        )

    def has_results_of(self, other: Rescale) -> bool:
        """
        Return True if both rescales compute equal results; neither may be `INEXACT_ROUND`.

        Rescales whose multipliers and shifts encode the same scale may compute
        different results with double rounding.
        """
        is_same = (self.multipliers == other.multipliers) & (
            self.shifts == other.shifts
        )
        is_once = ~(self._is_rounded_twice | other._is_rounded_twice)
        is_twice = self._is_rounded_twice & other._is_rounded_twice
        is_equal = (is_once & (self.scales == other.scales)) | (is_twice & is_same)
        return self._additions == other._additions and bool(is_equal.all())

    @property
    def scales(self) -> NDArray[np.float64]:
        """Exact factors, `multiplier / 2**shift`."""
        return np.ldexp(self.multipliers.astype(np.float64), -self.shifts)

    @property
    def _additions(self) -> tuple[int, int, bool, bool]:
        return self.input_zp, self.output_zp, self.input_unsigned, self.output_unsigned

    @property
    def _is_rounded_twice(self) -> NDArray[np.bool_]:
        return (self.shifts > 31) & (self.rounding_mode == DOUBLE_ROUND)


def _numbers_of_channels(numbers: Array, axes: Sequence[int], rank: int) -> Integers:
    """Return parameters by index of the last dimension; raise if other axes have scales."""
    rows = numbers.astype(np.int64).reshape(
        -1, numbers.shape[-1] if rank - 1 in axes else 1
    )
    if (rows != rows[0]).any():
        raise ValueError(
            f"scales vary along dimension {axes[0]}; expected the last of {rank} "
            "dimensions"
        )
    return rows[0]


def _common_zero_point(zero_points: Array) -> int:
    if (zero_points != zero_points.flat[0]).any():
        raise ValueError(
            "zero points differ; expected a single zero point for all channels"
        )
    return int(zero_points.flat[0])


def _channel_count(op: tosa.RescaleOp) -> int:
    for tensor in (op.input, op.output):
        type_ = element_type_of(tensor)
        if not isinstance(type_, IntegerType) or type_ != IntegerType(type_.bitwidth):
            raise ValueError(
                f"unsupported element type '{type_}'; expected a signless integer"
            )
    shape = shape_of(op.input)
    if shape != shape_of(op.output):
        raise ValueError(
            f"types '{op.input.type}' and '{op.output.type}' differ in shape"
        )
    if 0 in shape:
        raise ValueError(f"a tensor of type '{op.input.type}' has no elements")
    if not _is_true(op.per_channel):
        return 1
    if not shape or shape[-1] == DYNAMIC_INDEX:
        raise ValueError(
            f"per_channel requires a static last dimension, got '{op.input.type}'"
        )
    return shape[-1]


def _is_true(attribute: BoolAttr) -> bool:
    return bool(attribute.value.data)


def _zero_point_constant(
    builder: LoweringBuilder, value: int, element_type: Attribute
) -> SSAValue:
    width = cast(IntegerType, element_type).bitwidth
    # Signless, like the elements.
    return constant(builder, [integer_attr(value, width).value.data], element_type)


def _constant_operand(value: SSAValue, name: str, count: int) -> NDArray[np.int64]:
    if not isinstance(op := value.owner, tosa.ConstOp):
        raise ValueError(f"{name} is not constant; expected a 'tosa.const'")
    elements = dense_elements(op.values).ravel().astype(np.int64)
    if elements.size != count:
        raise ValueError(f"{name} has {elements.size} elements; expected {count}")
    return elements


def constant_zero_point(value: SSAValue, name: str, is_unsigned: bool) -> int:
    """Return a constant zero point; raise `ValueError`, with `name`, for other values."""
    (zero_point,) = _constant_operand(value, name, 1).tolist()
    width = cast(IntegerType, element_type_of(value)).bitwidth
    return zero_point % (1 << width) if is_unsigned else zero_point
