"""Build the ops of a kernel on quantized values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeGuard, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import DYNAMIC_INDEX, I64, AnyFloat, DenseArrayBase
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from xdsl_quant.dialects.quant import (
    QuantizedType,
    RegionOp,
    ScaledQuantizedType,
    StatisticsOp,
    StatisticsRefOp,
    traits,
    uniform_type,
)
from xdsl_quant.dialects.quant.dialect_ops import DialectOps
from xdsl_quant.dialects.quant.traits import has_quantization_trait, quantization_trait
from xdsl_quant.dialects.quant.types import (
    PerAxisType,
    UniformType,
    scalar_or_element_type,
    with_element_type,
)
from xdsl_quant.numerics import QuantizationParameters
from xdsl_quant.transforms.building.builder import Values, shape_of
from xdsl_quant.transforms.building.type_replacement import (
    defined_values,
    is_quantized,
    set_type,
)
from xdsl_quant.unsupported import Unsupported

from ..module_kernels import ParametersType, is_float_value
from ..port_ranges import result_rounding
from .float_kernels import (
    check_not_clamped,
    check_uses_own_values,
    is_exact,
    is_in_range,
    keeps_order,
    op_or_reducing_op,
    out_of_range,
    reason_of,
    stored_as,
    unclamped_range,
)

_ACCUMULATOR_BITS = 32

_F32_ROUNDING = 2.0**-23
"""Relative tolerance between a product of scales and its `f32` value in a file."""

_TAKES_ACCUMULATORS = traits.Adds, traits.MovesElements, traits.MultipliesAndAccumulates
"""Traits of the only StableHLO ops that accept per-axis scales."""


def _storage_width(type_: ScaledQuantizedType) -> int:
    return type_.storage_type_integral_width


def _is_accumulator(type_: Attribute) -> TypeGuard[ScaledQuantizedType]:
    return isinstance(type_, ScaledQuantizedType) and (
        _storage_width(type_) == _ACCUMULATOR_BITS
    )


def _accumulator_of_scales(
    scales: NDArray[np.float64], axis: int | None, expressed_type: AnyFloat
) -> ScaledQuantizedType:
    parameters = QuantizationParameters(
        scales, storage=f"i{_ACCUMULATOR_BITS}", quantized_dimension=axis
    )
    return uniform_type(parameters, expressed_type)


def _accumulator_type(
    op: Operation, operands: Values, specs: Iterable[Attribute]
) -> ScaledQuantizedType:
    """
    Return the type of a sum of products: 32 bits, and the product of the scales.

    Args:
        op: the contraction.
        operands: its quantized operands.
        specs: the kernel's operand specifications. The scales of a bias, i.e. the
            product rounded to `f32`, take precedence.
    """
    trait = quantization_trait(op, traits.MultipliesAndAccumulates)
    assert trait is not None
    factors = operands[trait.lhs], operands[trait.rhs]
    lhs, rhs = (scalar_or_element_type(factor.type) for factor in factors)
    if not (
        isinstance(lhs, ScaledQuantizedType) and isinstance(rhs, ScaledQuantizedType)
    ):
        raise Unsupported(f"a factor of '{op.name}' is not quantized")
    scales = lhs.get_scales() * rhs.get_scales()
    for spec in filter(_is_accumulator, specs):
        bias = spec.get_scales()
        if bias.shape == scales.shape and np.allclose(bias, scales, _F32_ROUNDING, 0):
            scales = bias
    return _accumulator_of_scales(scales, rhs.axis, lhs.expressed_type)


def _along_each_axis(
    type_: ScaledQuantizedType, result: SSAValue
) -> Sequence[QuantizedType]:
    """Return the type for each axis of a result with the right size, last axis first."""
    if type_.axis is None:
        return (type_,)
    parameters = QuantizationParameters.from_integer_type(type_)
    return [
        uniform_type(replace(parameters, quantized_dimension=axis))
        for axis, size in reversed([*enumerate(shape_of(result))])
        if size == len(type_.scale_array())
    ]


@dataclass
class QuantizedKernel:
    """Quantized ops of a kernel, under construction."""

    region: RegionOp
    dialect_ops: DialectOps
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Maps block arguments and op results of the kernel to quantized values."""

    ops: list[Operation] = field(default_factory=list[Operation])

    def results(self) -> Values:
        """
        Build all ops and return the results of the kernel.

        Raises:
            Unsupported: if an op does not accept the types.
        """
        *ops, _ = self.region.body.block.ops
        try:
            for op in ops:
                self._add(op)
            return self._returned()
        except Unsupported:
            # Otherwise their operands keep these uses.
            for op in reversed(self.ops):
                op.erase()
            raise

    def _as(self, value: SSAValue, element_type: QuantizedType) -> SSAValue:
        """Quantize or rescale a value to a type."""
        if scalar_or_element_type(value.type) == element_type:
            return value
        type_ = with_element_type(value.type, element_type)
        new_ops = self.dialect_ops.build_quantize(value, type_)
        self._insert(new_ops)
        return new_ops[-1].results[0]

    def expressed(self, value: SSAValue) -> SSAValue:
        """Dequantize a value."""
        new_op = self.dialect_ops.dequantize(value)
        self._insert((new_op,))
        return new_op.results[0]

    def float_results(self, *, are_stored: bool) -> Values:
        """Copy the float ops and return their results, quantized if `are_stored`."""
        *ops, _ = self.region.body.block.ops
        for op in ops:
            self._append(op, op.clone(self.values))
        if not are_stored:
            return [self.values[value] for value in self.region.returned_values]
        results = self._returned()
        for index, result in enumerate(results):
            if self.dialect_ops.has_stated_rounding and not is_float_value(result):
                assert isinstance(result.owner, Operation)
                result.owner.attributes |= result_rounding(self.region, index)
        return results

    def _returned(self) -> Values:
        returned = [self.values[value] for value in self.region.returned_values]
        return [
            self._as(value, spec) if isinstance(spec, ParametersType) else value
            for value, spec in zip(returned, self.region.output_specs, strict=True)
        ]

    def _append(self, op: Operation, new: Operation) -> None:
        new.location = op.location
        self.ops.append(new)
        for old, result in zip(op.results, new.results, strict=True):
            result.name_hint = old.name_hint
            self.values[old] = result

    def _insert(self, new_ops: Sequence[Operation]) -> None:
        for op in new_ops:
            op.location = self.region.location
            self.ops.append(op)

    def _add(self, op: Operation) -> None:
        if isinstance(op, StatisticsOp | StatisticsRefOp):
            self.values[op.result] = self.values[op.input]
            return
        operands = [self.values[operand] for operand in op.operands]
        types = [scalar_or_element_type(x.type) for x in operands]
        quantized = [type_ for type_ in types if isinstance(type_, QuantizedType)]
        if not quantized:
            self._append(op, _with_types(op, operands, op.result_types))
            return
        operands = self._stored(op, operands, quantized)
        operands = self._with_equal_widths(op, operands)
        self._append(op, self._quantized_op(op, operands))

    def _stored(
        self, op: Operation, operands: Values, quantized: Sequence[QuantizedType]
    ) -> Values:
        """
        Quantize float constants such as the 0 of a rectifier to the type of another
        operand. All operands of a sum get the type of the sum. Data movement and ordering
        ops commute with rounding. Their operands get the type of the result if the op
        accepts no accumulator, if operand types differ, or if a constant would be rounded.
        """
        peer, *_ = quantized
        constants = [x for x in operands if is_float_value(x)]
        needs_no_axis = not has_quantization_trait(op, *_TAKES_ACCUMULATORS) and any(
            isinstance(type_, PerAxisType) and _is_accumulator(type_)
            for type_ in quantized
        )
        own = stored_as(self.region, op.results[0]) if keeps_order(op) else None
        common = None
        if own is not None:
            are_exact = all([is_exact(x, peer) for x in constants])
            for index, operand in enumerate(operands):
                if operand in constants:
                    check_not_clamped(op, index, operand, own)
            if needs_no_axis or not are_exact or len({*quantized}) > 1:
                common = own
        else:
            if self.dialect_ops.has_accumulators and _is_sum(op):
                common = _sum_type(op, operands[0])
            elif needs_no_axis:
                raise Unsupported(f"'{op.name}' does not accept per-axis scales")
            if not all([is_in_range(x, common or peer) for x in constants]):
                raise Unsupported(out_of_range(op, common or peer))
        return [
            self._as(x, common or peer)
            if x in constants or (common is not None and is_quantized(x))
            else x
            for x in operands
        ]

    def _with_equal_widths(self, op: Operation, operands: Values) -> Values:
        """Widen the narrower factor; StableHLO requires factors of one storage type."""
        trait = quantization_trait(op, traits.MultipliesAndAccumulates)
        if trait is None or not self.dialect_ops.has_accumulators:
            return operands
        pair = (
            (i, scalar_or_element_type(operands[i].type))
            for i in (trait.lhs, trait.rhs)
        )
        types = {i: type_ for i, type_ in pair if isinstance(type_, UniformType)}
        widened = [*operands]
        if len(types) == 2 and len({type_.is_signed for type_ in types.values()}) == 1:
            widest = max(types.values(), key=_storage_width)
            for index, type_ in types.items():
                if _storage_width(type_) < _storage_width(widest):
                    wide = _with_storage_of(type_, widest)
                    widened[index] = self._as(operands[index], wide)
        return widened

    @property
    def _result_types(self) -> Sequence[ScaledQuantizedType]:
        specs = self.region.output_specs
        return [spec for spec in specs if isinstance(spec, ScaledQuantizedType)]

    def _quantized_op(self, op: Operation, operands: Values) -> Operation:
        # Without float results, the result types do not change.
        has_floats = any(map(is_float_value, op.results))
        candidates = self._element_types(op, operands) if has_floats else (None,)
        reason: VerifyException | None = None
        for element_type in candidates:
            types = [
                with_element_type(result.type, element_type)
                if element_type is not None and is_float_value(result)
                else result.type
                for result in op.results
            ]
            new = _with_types(op, operands, types)
            if element_type is not None:
                _set_element_types(new, element_type)
            try:
                new.verify()
            except VerifyException as e:
                reason = reason or e
                new.erase()
            else:
                return new
        assert reason is not None
        why = reason_of(reason, op.name)
        raise Unsupported(f"'{op.name}' does not accept the types: {why}")

    def _element_types(
        self, op: Operation, operands: Values
    ) -> Sequence[QuantizedType]:
        """Return the candidates for the type of an op's results."""
        types = [scalar_or_element_type(operand.type) for operand in operands]
        if self.dialect_ops.has_accumulators:
            if op.results[0] not in self.region.returned_values and (
                quantization_trait(op, traits.MultipliesAndAccumulates) is not None
            ):
                specs = self.region.input_specs
                accumulator = _accumulator_type(op, operands, specs)
                self._check_width(op, operands, accumulator)
                return _along_each_axis(accumulator, op.results[0])
            accumulator = next(filter(_is_accumulator, types), None)
            if accumulator is not None and self._may_have(op, accumulator):
                return _along_each_axis(accumulator, op.results[0])
        if has_quantization_trait(op, traits.Reduces):
            return [cast(QuantizedType, types[0])]
        candidates: list[QuantizedType] = []
        if (stored := stored_as(self.region, op.results[0])) is not None:
            candidates.append(stored)
        if keeps_order(op):
            candidates += [t for t in types if isinstance(t, QuantizedType)][:1]
        if candidates:
            return candidates
        users = [use.operation for result in op.results for use in result.uses]
        if not users:
            return self._result_types[:1]
        computing = next((user for user in users if not keeps_order(user)), users[0])
        raise Unsupported(
            f"the result of '{op.name}' has no specification, and "
            f"'{computing.name}' computes with it"
        )

    def _check_width(
        self, op: Operation, operands: Values, accumulator: ScaledQuantizedType
    ) -> None:
        """Raise `Unsupported` if inner sums and results may exceed 32 bits."""
        trait = quantization_trait(op, traits.AffineOpCoefficient)
        if trait is None:
            return
        shape = shape_of(operands[trait.operand])
        sizes = [shape[dimension] for dimension in trait.contracting_dimensions_of(op)]
        types = [scalar_or_element_type(operand.type) for operand in operands]
        widths = [_storage_width(t) for t in types if isinstance(t, UniformType)]
        is_unknown = not sizes or DYNAMIC_INDEX in sizes
        if is_unknown or prod(sizes) << sum(widths) - 2 < 1 << _ACCUMULATOR_BITS - 1:
            return
        largest = accumulator.get_scales().min() * 2.0 ** (_ACCUMULATOR_BITS - 1)
        if any(
            max(map(abs, unclamped_range(spec))) > largest
            for spec in self._result_types
        ):
            raise _unsupported_sums(op)

    def _may_have(self, op: Operation, accumulator: ScaledQuantizedType) -> bool:
        """
        Return True if results of an op may have the scale of an accumulator. Ops that
        sum, move, order or clamp accept any scale. For other ops, the scale must not
        exceed a quarter of the smallest scale at the results of the kernel.
        """
        return (
            has_quantization_trait(op, *_TAKES_ACCUMULATORS, traits.Reduces)
            or keeps_order(op)
            or all(
                accumulator.get_scales().max() <= spec.get_scales().min() / 4
                for spec in self._result_types
            )
        )


def _with_storage_of(type_: UniformType, wide: UniformType) -> QuantizedType:
    """Return a type with the storage type of `wide`, keeping its storage range."""
    parameters = QuantizationParameters.from_integer_type(type_)
    storage = QuantizationParameters.from_integer_type(wide).storage
    return uniform_type(replace(parameters, storage=storage), type_.expressed_type)


def _unsupported_sums(op: Operation) -> Unsupported:
    return Unsupported(
        f"sums of '{op.name}' may need more than {_ACCUMULATOR_BITS} bits"
    )


def _is_sum(op: Operation) -> bool:
    return has_quantization_trait(op, traits.Reduces) and has_quantization_trait(
        op_or_reducing_op(op), traits.Adds
    )


def _sum_type(op: Operation, terms: SSAValue) -> ScaledQuantizedType:
    """
    Return the type of a sum of terms: 32 bits, with the scale of the terms. Raise
    `Unsupported` if the sum may overflow.
    """
    type_ = scalar_or_element_type(terms.type)
    if not isinstance(type_, ScaledQuantizedType):
        raise Unsupported(f"terms of '{op.name}' are not quantized")
    if _is_accumulator(type_):
        return type_
    shape = shape_of(terms)
    window = op.properties.get("window_dimensions")
    reduced = op.properties.get("dimensions")
    sizes: Sequence[int] = shape
    if isa(window, DenseArrayBase[I64]):
        sizes = window.get_values()
    elif isa(reduced, DenseArrayBase[I64]):
        sizes = [shape[dimension] for dimension in reduced.get_values()]
    low, high = type_.storage_range
    largest = high - low
    if DYNAMIC_INDEX in sizes or prod(sizes) * largest >= 1 << _ACCUMULATOR_BITS - 1:
        raise _unsupported_sums(op)
    return _accumulator_of_scales(type_.get_scales(), type_.axis, type_.expressed_type)


def _set_element_types(op: Operation, element_type: QuantizedType) -> None:
    """Replace float element types in the regions of an op."""
    values = {value for inner in op.walk() for value in defined_values(inner)}
    for value in filter(is_float_value, values.difference(op.results)):
        set_type(value, with_element_type(value.type, element_type))


def _with_types(
    op: Operation, operands: Values, types: Sequence[Attribute]
) -> Operation:
    """
    Copy an op with new operands and result types. Raise `Unsupported` if regions use
    values from outside.
    """
    check_uses_own_values(op)
    return type(op).create(
        operands=operands,
        result_types=types,
        properties=op.properties.copy(),
        attributes=op.attributes.copy(),
        regions=[region.clone() for region in op.regions],
    )
