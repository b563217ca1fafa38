"""
Rules of TensorFlow Lite's 8-bit specification for weights, biases and activations.

A value is a *weight* or *bias* if an op with the trait `MultipliesAndAccumulates` takes it
as such (traits `AffineOpCoefficient` and `AccumulatorUniformScale`). A 32-bit value that is
added to the result of such an op is a bias, too. The use is traced through casts and data
movement ops. A value derived from a constant is also a weight unless only ops on
activations use it. Every other value is an *activation*.

See external [documentation](https://ai.google.dev/edge/litert/conversion/tensorflow/quantization/quantization_spec).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from enum import Flag, auto

from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.traits import ConstantLike

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant import QuantizedType, traits
from xdsl_quant.dialects.quant.constructor_arguments import short_text
from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.dialects.quant.traits import has_quantization_trait, quantization_trait
from xdsl_quant.dialects.quant.type_rules import (
    Finding,
    TypeUse,
    common_findings,
    zero_points_out_of_range,
)
from xdsl_quant.dialects.quant.types import UniformType


class _Use(Flag):
    WEIGHT = auto()
    BIAS = auto()
    ACTIVATION = auto()
    UNKNOWN = auto()


_TAKE_ACTIVATIONS = (
    traits.ComputesElementwise,
    traits.OrdersElements,
    traits.QuantizableResult,
    traits.Reduces,
)
"""Traits of ops whose operands are activations unless another use is known."""


def uniform_type_of(value: SSAValue) -> UniformType | None:
    """Return the value's uniform quantized element type; `None` for other types."""
    quantized_type = QuantizedType.get_quantized_element_type(value.type)
    return quantized_type if isinstance(quantized_type, UniformType) else None


def _has_accumulator_width(type_: UniformType | None) -> bool:
    return type_ is not None and type_.storage_type_integral_width == 32


def _weighted_product(op: Operation) -> traits.MultipliesAndAccumulates | None:
    product = quantization_trait(op, traits.MultipliesAndAccumulates)
    # An unregistered op may have any number of operands.
    if product is None or len(op.operands) <= max(product.lhs, product.rhs):
        return None
    return product


def _same_use_operands(op: Operation) -> Sequence[SSAValue]:
    """
    Return the operands of a cast or data movement op, which have the use of its result.
    """
    if not op.results:
        return ()
    if has_quantization_trait(op, traits.CastsQuantization):
        return op.operands[:1]
    moves = quantization_trait(op, traits.MovesElements)
    return () if moves is None else moves.moved_operands(op)


# Uses of values


class TFLiteConstraints:
    """Check of the values of a module against TensorFlow Lite's specification."""

    def __init__(self, module: Operation):
        self._uses: defaultdict[SSAValue, _Use] = defaultdict(lambda: _Use(0))
        self._constants: set[SSAValue] = set()
        self._products: dict[SSAValue, Operation] = {}
        """Maps a value to its contraction, which casts or a bias addition may follow."""
        self._sources: dict[SSAValue, SSAValue] = {}
        """Maps the result of a dequantization to its quantized operand."""
        self._biases: dict[Operation, int] = {}
        """Maps an addition to the index of its bias operand."""
        self._biased: defaultdict[SSAValue, list[Operation]] = defaultdict(list)
        """Maps a bias to the contractions to whose results it is added."""
        ops = list(module.walk())
        for op in ops:
            self._find_sources(op)
        # Users come after definitions, except in graph regions.
        for op in reversed(ops):
            self._find_uses(op)

    def _quantized_source(self, value: SSAValue) -> SSAValue | None:
        return value if uniform_type_of(value) else self._sources.get(value)

    def _source_type(self, value: SSAValue) -> UniformType | None:
        source = self._quantized_source(value)
        return None if source is None else uniform_type_of(source)

    def _find_sources(self, op: Operation) -> None:
        same_use_operands = _same_use_operands(op)
        inputs = same_use_operands or (
            op.operands
            if has_quantization_trait(op, traits.AcceptsStoredValues)
            else ()
        )
        if op.has_trait(ConstantLike, value_if_unregistered=False) or (
            self._constants & {*inputs[:1]}
        ):
            self._constants.update(op.results)
        if _weighted_product(op) is not None:
            self._products.update(dict.fromkeys(op.results, op))
        elif same_use_operands:
            operand, result = same_use_operands[0], op.results[0]
            if (product := self._products.get(operand)) is not None:
                self._products[result] = product
            if (source := self._quantized_source(operand)) is not None:
                self._sources[result] = source
        elif has_quantization_trait(op, traits.Adds) and len(op.operands) >= 2:
            self._find_bias(op)

    def _find_bias(self, addition: Operation) -> None:
        for index, bias in enumerate(addition.operands[:2]):
            multiplication = self._products.get(addition.operands[1 - index])
            if (
                multiplication is not None
                and bias not in self._products
                and _has_accumulator_width(self._source_type(bias))
            ):
                self._biases[addition] = index
                self._add_bias(bias, multiplication)
                self._products.update(dict.fromkeys(addition.results, multiplication))
                return

    def _add_bias(self, operand: SSAValue, multiplication: Operation) -> None:
        if (source := self._quantized_source(operand)) is not None:
            self._biased[source].append(multiplication)

    def _find_uses(self, op: Operation) -> None:
        same_use_operands = _same_use_operands(op)
        product = _weighted_product(op)
        for index, operand in enumerate(op.operands):
            if operand in same_use_operands:
                self._uses[operand] |= self._uses[op.results[0]]
            elif product is not None:
                self._uses[operand] |= self._use_in_product(op, product, index)
            elif self._biases.get(op) == index:
                self._uses[operand] |= _Use.BIAS
            elif op in self._biases or has_quantization_trait(op, *_TAKE_ACTIVATIONS):
                self._uses[operand] |= _Use.ACTIVATION
            else:
                self._uses[operand] |= _Use.UNKNOWN

    def _use_in_product(
        self, op: Operation, product: traits.MultipliesAndAccumulates, index: int
    ) -> _Use:
        operand = op.operands[index]
        if index == product.lhs:
            return _Use.ACTIVATION
        if index == product.rhs:
            # In attention layers, both factors are activations.
            is_activation = operand in self._products or not has_quantization_trait(
                op, traits.AffineOpCoefficient
            )
            return _Use.ACTIVATION if is_activation else _Use.WEIGHT
        accumulator = quantization_trait(op, traits.AccumulatorUniformScale)
        if accumulator is not None and index == accumulator.bias:
            self._add_bias(operand, op)
            return _Use.BIAS
        return _Use.UNKNOWN

    def _is_weight(self, value: SSAValue) -> bool:
        uses = self._uses[value]
        if _Use.WEIGHT in uses:
            return True
        if _Use.BIAS in uses or value not in self._constants:
            return False
        return not uses or _Use.UNKNOWN in uses

    # Rules

    def findings(self, value: SSAValue) -> Iterator[Finding]:
        """Yield a finding for each violated rule on weights, biases or activations."""
        if (quantized_type := uniform_type_of(value)) is None:
            return
        if self._is_weight(value):
            is_stored = value in self._constants or isinstance(value, BlockArgument)
            yield from _weight(quantized_type, is_stored)
        elif _Use.BIAS in self._uses[value]:
            # `tflite_type_findings` checks wider storage types.
            if quantized_type.storage_type_integral_width < 16:
                yield from _zero_point_findings("zero-point", quantized_type, "biases")
            for op in self._biased.get(value, ()):
                yield from self._bias_scale(quantized_type, op)
        elif not quantized_type.is_per_tensor and not (
            (value in self._products and _has_accumulator_width(quantized_type))
            or _is_only_dequantized(value)
        ):
            subject = f"activation of type {short_text(quantized_type)} has "
            subject += f"{len(quantized_type.scale_array())} scales"
            message = f"{subject}; expected one for all values"
            yield Finding("activation-granularity", message)

    def _bias_scale(self, bias: UniformType, op: Operation) -> Iterator[Finding]:
        product = _weighted_product(op)
        assert product is not None
        trait = quantization_trait(op, traits.AccumulatorUniformScale)
        factors = (product.lhs, product.rhs) if trait is None else trait.factors
        if len(op.operands) <= max(factors):
            return
        activation, weight = (self._source_type(op.operands[i]) for i in factors)
        if activation is None or weight is None:
            return
        if "sub-channel" in (weight.granularity, bias.granularity):
            # Other rules report sub-channel types, and activations with several scales.
            return
        if activation.is_per_tensor:
            (scale,) = activation.scale_array()
            words = "input scale x weight scale"
            if {*factors} != {product.lhs, product.rhs}:
                first, second = factors
                words = f"the product of the scales of operands #{first} and #{second}"
            yield from _bias_scale(bias, scale, weight, op_name(op), words)


def tflite_type_findings(use: TypeUse) -> Iterator[Finding]:
    """Yield a finding for each violated rule that does not depend on the use of a value."""
    yield from common_findings(use)
    quantized_type = use.quantized_type
    if not isinstance(quantized_type, UniformType):
        return
    if not quantized_type.has_integer_storage:
        storage = f"storage type {quantized_type.short_storage_name}"
        subject = f"{storage} of {short_text(quantized_type)}"
        yield Finding("storage-type", f"{subject} is not an integer type")
    elif quantized_type.storage_type_integral_width >= 16:
        yield from _zero_point_findings(
            "zero-point", quantized_type, "storage types of 16 bits or more"
        )


def _zero_point_findings(
    rule: str, quantized_type: UniformType, subjects: str
) -> Iterator[Finding]:
    if (subject := zero_points_out_of_range(quantized_type, 0, 0)) is not None:
        yield Finding(rule, f"{subject} not 0, as {subjects} require")


def _is_only_dequantized(value: SSAValue) -> bool:
    """Return True if all users are `tfl.dequantize`, which supports per-axis scales."""
    return bool(value.uses) and all(
        op_name(use.operation) == "tfl.dequantize" for use in value.uses
    )


def _weight(quantized_type: UniformType, is_stored: bool) -> Iterator[Finding]:
    if not quantized_type.is_signed:
        return
    yield from _zero_point_findings("weight-zero-point", quantized_type, "weights")
    low = quantized_type.storage_type_min.data
    if is_stored and quantized_type.storage_type_integral_width == 8 and low == -128:
        subject = (
            f"the smallest stored value of {short_text(quantized_type)}, a weight,"
        )
        example = f"{quantized_type.storage_type_name}<-127:127>"
        message = f"{subject} is {low}; expected -127 or more, as in {example}"
        yield Finding("weight-range", message)


def _bias_scale(
    bias: UniformType,
    input_scale: float,
    weight: UniformType,
    user: str,
    product_words: str,
) -> Iterator[Finding]:
    """Yield a finding unless bias scale = input scale x weight scale, up to rounding."""
    import numpy as np

    bias_scales, weight_scales = (q.get_scales().ravel() for q in (bias, weight))
    counts = (bias_scales.size, weight_scales.size)
    if 1 not in counts and len(set(counts)) > 1:
        subject = f"{short_text(bias)}, a bias of '{user}', has {counts[0]} scales"
        message = f"{subject}; expected {counts[1]} like its weight"
        yield Finding("bias-scale", message)
        return
    bias_scales, weight_scales = np.broadcast_arrays(bias_scales, weight_scales)
    scale_format = float_format(bias.expressed_type)
    with np.errstate(over="ignore", under="ignore"):
        products = input_scale * weight_scales
        tolerance = 4 * 2.0**-scale_format.precision * products + scale_format.smallest
        # An infinite product also has an infinite tolerance.
        is_near = np.abs(bias_scales - products) <= tolerance
        off = ~(is_near & np.isfinite(products))
    if not off.any():
        return
    index = int(np.argmax(off))
    place = f" at index {index}" if off.size > 1 else ""
    yield Finding(
        "bias-scale",
        f"scale {bias_scales[index]}{place} of {short_text(bias)}, a bias of '{user}', "
        f"is not {product_words}; expected "
        f"{input_scale} x {weight_scales[index]} = {products[index]}",
    )
