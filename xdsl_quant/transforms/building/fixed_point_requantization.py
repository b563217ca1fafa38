"""
A `quant.qcast` of a `quant.dcast`, both with integer scales, as integer arithmetic.

The stored value is, bit for bit, that of
[`requantize_fixed_point`][xdsl_quant.numerics.requantize_fixed_point]:

    clamp(apply_scale(stored - source zero point) + target zero point, min, max)

Multiplier and shift are computed here, from the exact ratio of the two scales. No number
that is the same for all channels is read from a tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from xdsl.dialects import tensor
from xdsl.dialects.builtin import (
    BytesAttr,
    DenseIntOrFPElementsAttr,
    TensorType,
    UnrankedTensorType,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from xdsl_quant.dialects.quant import (
    FixedPointQuantizedPerAxisType,
    StorageCastOp,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.fixed_point_types import FixedPointType
from xdsl_quant.dialects.quant.types import with_element_type
from xdsl_quant.rounding_mode import ScaleRounding

from .builder import LoweringBuilder
from .fixed_point_arithmetic import (
    add,
    apply_scale,
    clamp_and_truncate,
    extend,
    i64_constant,
    subtract,
)
from .quantization_arithmetic import why_not_lowerable
from .tensor_traversal import (
    Layout,
    assert_extents,
    assert_rank,
    assert_sizes,
    convert_by_generic,
    flatten_all,
    flatten_around_axes,
    shape_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(eq=False)
class Requantization:
    """
    How stored values of one type become those of another.

    Raises:
        ValueError: if there is no such way, with the reason.
    """

    source: FixedPointType
    target: FixedPointType
    rounding: ScaleRounding

    def __post_init__(self) -> None:
        for quantized_type in (self.source, self.target):
            if (reason := why_not_lowerable(quantized_type)) is not None:
                raise ValueError(reason)
        # The numbers are computed before anything is rewritten.
        _ = self._numbers

    # Numbers

    @cached_property
    def axes(self) -> Sequence[int]:
        """The dimensions along which a scale changes."""
        return sorted(
            {
                quantized_type.quantized_dimension.data
                for quantized_type in (self.source, self.target)
                if isinstance(quantized_type, FixedPointQuantizedPerAxisType)
            }
        )

    @cached_property
    def _numbers(self) -> Mapping[str, NDArray[Any]]:
        """What is computed with, in a shape with a dimension for each axis."""
        import numpy as np

        from xdsl_quant.numerics import rescale_multiplier

        scales, source_zero_points = _scales_and_zero_points(self.source, self.axes)
        target_scales, zero_points = _scales_and_zero_points(self.target, self.axes)
        if (
            isinstance(self.source, FixedPointQuantizedPerAxisType)
            and isinstance(self.target, FixedPointQuantizedPerAxisType)
            and len(self.axes) == 1
            and scales.size != target_scales.size
        ):
            raise ValueError(
                f"dimension {self.axes[0]} has {scales.size} scales, and "
                f"{target_scales.size} scales once it is requantized"
            )
        multipliers, shifts = rescale_multiplier([scales], target_scales)
        return {
            name: np.broadcast_to(array, multipliers.shape)
            for name, array in (
                ("multiplier", multipliers),
                ("shift", shifts),
                ("source_zero_point", source_zero_points),
                ("zero_point", zero_points),
            )
        }

    @cached_property
    def _same(self) -> Mapping[str, int]:
        """The numbers that are the same for all channels."""
        return {
            name: int(array.flat[0])
            for name, array in self._numbers.items()
            if (array == array.flat[0]).all()
        }

    @cached_property
    def _tensors(self) -> Mapping[str, DenseIntOrFPElementsAttr]:
        """The others."""
        return {
            name: DenseIntOrFPElementsAttr(
                TensorType(i64, array.shape), BytesAttr(array.astype("<i8").tobytes())
            )
            for name, array in self._numbers.items()
            if name not in self._same
        }

    # Ops

    def convert(
        self,
        builder: LoweringBuilder,
        stored: SSAValue,
        container: Attribute,
        checks: bool,
    ) -> SSAValue:
        """
        The stored values of the target for those of the source.

        Args:
            builder: where the ops are inserted.
            stored: a scalar, or a tensor with the shape and encoding of `container`.
            container: the type of the result but for its elements.
            checks: whether dynamic sizes are asserted.
        """
        if isinstance(container, UnrankedTensorType):
            return self._convert_unranked(builder, stored, checks)
        if not isinstance(container, TensorType):
            return self._convert_number(builder, stored, ())
        counts = self._numbers["multiplier"].shape
        layout = _layout(self.axes, counts)
        if checks:
            assert_sizes(builder, stored, layout)
        return self._convert_ranked(builder, stored, layout)

    def _convert_ranked(
        self, builder: LoweringBuilder, stored: SSAValue, layout: Layout
    ) -> SSAValue:
        storage = self.target.signless_storage_type
        return convert_by_generic(
            builder, stored, self._tensors, layout.exprs, storage, self._convert_number
        )

    def _convert_unranked(
        self, builder: LoweringBuilder, stored: SSAValue, checks: bool
    ) -> SSAValue:
        shape = shape_of(builder, stored)
        counts = self._numbers["multiplier"].shape
        layout = _layout([2 * i + 1 for i in range(len(counts))], counts)
        if checks and self.axes:
            assert_rank(builder, shape, self.axes)
            assert_extents(builder, shape, self.axes, layout)
        flat = (
            flatten_around_axes(builder, stored, shape, self.axes, counts)
            if self.axes
            else flatten_all(builder, stored, shape)
        )
        result = self._convert_ranked(builder, flat, layout)
        result_type = UnrankedTensorType(self.target.signless_storage_type)
        return builder.op(tensor.ReshapeOp, (result, shape), result_type)

    def _convert_number(
        self, builder: LoweringBuilder, stored: SSAValue, numbers: Sequence[SSAValue]
    ) -> SSAValue:
        """`numbers` are those of the element, for each of the tensors."""
        operands = dict(zip(self._tensors, numbers, strict=True))
        for name, value in self._same.items():
            # A zero point of 0 changes nothing; multipliers and shifts are never 0.
            if value:
                operands[name] = i64_constant(builder, value)
        value = extend(builder, stored, self.source.is_signed)
        if (zero_point := operands.get("source_zero_point")) is not None:
            value = subtract(builder, value, zero_point)
        value = apply_scale(
            builder, value, operands["multiplier"], operands["shift"], self.rounding
        )
        if (zero_point := operands.get("zero_point")) is not None:
            value = add(builder, value, zero_point)
        return clamp_and_truncate(
            builder,
            value,
            self.target.storage_type_min.data,
            self.target.storage_type_max.data,
            self.target.signless_storage_type,
        )


def _scales_and_zero_points(
    quantized_type: FixedPointType, axes: Sequence[int]
) -> Sequence[NDArray[Any]]:
    """Arrays with a dimension for each axis. The expressed type does not matter."""
    import numpy as np

    uniform = quantized_type.to_uniform()
    if isinstance(uniform, UniformQuantizedType):
        shape = [1] * len(axes)
        numbers = [np.array(uniform.scale.data), np.array(uniform.zero_point.data)]
    else:
        shape = [-1 if axis == uniform.quantized_dimension.data else 1 for axis in axes]
        numbers = [
            np.frombuffer(uniform.scales.data.data, np.float64),
            np.frombuffer(uniform.zero_points.data.data, np.int64),
        ]
    return [array.reshape(shape) for array in numbers]


def _layout(axes: Sequence[int], counts: Sequence[int]) -> Layout:
    return Layout(
        tuple(counts),
        tuple(map(AffineExpr.dimension, axes)),
        {
            axis: (count, "the number of scales")
            for axis, count in zip(axes, counts, strict=True)
        },
    )


def requantize(
    builder: LoweringBuilder,
    requantization: Requantization,
    value: SSAValue,
    result_type: Attribute,
    checks: bool,
) -> SSAValue:
    """
    A value of the source type as one of the target type.

    Args:
        builder: where the ops are inserted.
        requantization: the two types.
        value: a value of the source type.
        result_type: the type of the result.
        checks: whether dynamic sizes are asserted.
    """
    # The encoding of the result: a storage cast does not mind another one.
    storage = requantization.source.signless_storage_type
    stored = builder.op(
        StorageCastOp, (value,), with_element_type(result_type, storage)
    )
    result = requantization.convert(builder, stored, result_type, checks)
    return builder.op(StorageCastOp, (result,), result_type)
