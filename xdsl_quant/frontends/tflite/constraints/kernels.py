"""
What the kernels of TensorFlow Lite's runtime demand of the ops of its dialect.

The verifier of the dialect accepts more than the runtime computes: the runtime refuses a
`tfl.softmax` whose result has another scale than 1/256, aborts at a `tfl.add` whose result
has too small a scale, and computes something else where a kernel ignores parameters. Each
of these has a rule, with the runtime's tolerance.

Rules are declared for the name of an op, or follow from its traits. They hold for ops that
the dialect has verified: an op that is not registered is not looked at.

See external [documentation](https://github.com/google-ai-edge/LiteRT/tree/main/tflite/kernels).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    BoolAttr,
    FloatAttr,
    IntegerType,
    NoneType,
    StringAttr,
    f32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.dialects.quant.constructor_arguments import short_text
from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    AffineOpCoefficient,
    CastsQuantization,
    ComputesElementwise,
    FixedResultUniformScale,
    MovesElements,
    MultipliesAndAccumulates,
    has_quantization_trait,
    quantization_trait,
)
from xdsl_quant.dialects.quant.type_rules import Finding
from xdsl_quant.dialects.quant.types import (
    QuantizedType,
    UniformType,
    scalar_or_element_type,
)


class KernelFinding(NamedTuple):
    """What is wrong with an op for its kernel."""

    subject: str
    """The operand, result or attribute, e.g. `operand #1`."""

    finding: Finding


Rule = Callable[[Operation], Iterator[KernelFinding]]
"""Returns the findings about an op."""


class _Tensor(NamedTuple):
    """An operand or a result."""

    subject: str
    value: SSAValue

    @property
    def uniform_type(self) -> UniformType | None:
        quantized_type = QuantizedType.get_quantized_element_type(self.value.type)
        return quantized_type if isinstance(quantized_type, UniformType) else None

    @property
    def storage(self) -> str | None:
        """The name of the storage type or of the float type; `None` for anything else."""
        element_type = scalar_or_element_type(self.value.type)
        if isinstance(element_type, UniformType):
            return _storage_name(element_type)
        return str(element_type) if isinstance(element_type, AnyFloat) else None

    @property
    def text(self) -> str:
        """What a message calls it."""
        quantized_type = self.uniform_type
        return (
            str(self.value.type)
            if quantized_type is None
            else short_text(quantized_type)
        )

    def finding(self, rule: str, message: str) -> KernelFinding:
        return KernelFinding(self.subject, Finding(rule, message))


def _storage_name(quantized_type: UniformType) -> str:
    if not quantized_type.has_integer_storage:
        return quantized_type.short_storage_name
    sign = "i" if quantized_type.is_signed else "u"
    return f"{sign}{quantized_type.storage_type_integral_width}"


def _operands(op: Operation) -> Sequence[_Tensor]:
    return [_Tensor(f"operand #{i}", value) for i, value in enumerate(op.operands)]


def _results(op: Operation) -> Sequence[_Tensor]:
    return [_Tensor(f"result #{i}", value) for i, value in enumerate(op.results)]


def _with_storage(tensors: Sequence[_Tensor]) -> Sequence[_Tensor]:
    return [tensor for tensor in tensors if tensor.storage is not None]


def _quantized(tensors: Sequence[_Tensor]) -> Sequence[tuple[_Tensor, UniformType]]:
    return [
        (tensor, quantized_type)
        for tensor in tensors
        if (quantized_type := tensor.uniform_type) is not None
    ]


def _f32(value: float) -> float:
    """The number of f32 that the runtime has for a scale."""
    return float_format(f32).nearest(value)


def _scales(tensors: Sequence[_Tensor]) -> Sequence[float] | None:
    """The only scale of each tensor; `None` if one has none or several."""
    scales: list[float] = []
    for tensor in tensors:
        quantized_type = tensor.uniform_type
        if quantized_type is None or not quantized_type.is_per_tensor:
            return None
        scales.append(_f32(quantized_type.scale_array()[0]))
    return scales


def _zero_points(quantized_type: UniformType) -> set[int]:
    return {*quantized_type.zero_point_range}


def _attribute(op: Operation, name: str) -> Attribute | None:
    return op.properties.get(name, op.attributes.get(name))


def _or(names: str) -> str:
    *others, last = names.split()
    return f"{', '.join(others)} or {last}" if others else last


# Storage types


def _storage(op: Operation, storages: str) -> Iterator[KernelFinding]:
    """
    Quantized tensors have one of several storage types.

    Args:
        op: the op.
        storages: their names; empty if there is no kernel for quantized tensors.
    """
    must_be = f"must be {_or(storages)}" if storages else "must be dequantized before"
    for tensor, quantized_type in _quantized((*_operands(op), *_results(op))):
        if (storage := _storage_name(quantized_type)) not in storages.split():
            yield tensor.finding(
                "kernel-storage",
                f"storage type {storage} of {tensor.text} has no kernel of "
                f"'{op.name}': it {must_be}",
            )
            return


def _same_storage(op: Operation) -> Iterator[KernelFinding]:
    """Quantized and floating-point tensors have the storage type of the first one."""
    tensors = _with_storage((*_operands(op), *_results(op)))
    for tensor in tensors[1:]:
        yield from _storage_differs(tensor, tensors[0])


def _storage_differs(tensor: _Tensor, first: _Tensor) -> Iterator[KernelFinding]:
    if tensor.storage != first.storage:
        yield tensor.finding(
            "operand-storage",
            f"{tensor.text} is not stored as {first.subject}, which is {first.text}: it "
            f"must be {first.storage}",
        )


# Scales and zero points


def _same_parameters(op: Operation) -> Iterator[KernelFinding]:
    """
    Elements that become others keep their scale and zero point. Tensors of u8 are
    rescaled where they are concatenated.
    """
    same = _quantized((*_operands(op), *_results(op)))
    for tensor, quantized_type in same[1:]:
        first, first_type = same[0]
        storage = _storage_name(first_type)
        if op.name == "tfl.concatenation" and storage == "u8":
            return
        # Another storage is a mistake of its own.
        if _storage_name(quantized_type) == storage and (
            quantized_type.scale_array() != first_type.scale_array()
            or quantized_type.zero_point_array() != first_type.zero_point_array()
        ):
            yield tensor.finding(
                "same-parameters",
                f"{tensor.text} has another scale or zero point than {first.subject}, "
                f"which is {first.text}, and '{op.name}' does not rescale: they must be "
                "the same",
            )


def _fixed_result(
    op: Operation, storages: str, tolerance: float = 0.0, *, has_zero_point: bool = True
) -> Iterator[KernelFinding]:
    """
    The result has the scale and the zero point of `FixedResultUniformScale`.

    Args:
        op: the op.
        storages: the storage types for which it has.
        tolerance: how much the scale may be off, relative to it.
        has_zero_point: whether the zero point is fixed, too.
    """
    trait = quantization_trait(op, FixedResultUniformScale)
    assert trait is not None
    (result,) = _results(op)
    quantized_type = result.uniform_type
    if (
        quantized_type is None
        or not quantized_type.is_per_tensor
        or _storage_name(quantized_type) not in storages.split()
    ):
        return
    scale, zero_point = trait.parameters(quantized_type)
    (found,) = quantized_type.scale_array()
    if abs(_f32(found) - scale) > tolerance * scale:
        yield result.finding(
            "result-scale",
            f"scale {found} of {result.text} is not that of the results of '{op.name}': it "
            f"must be {scale}",
        )
    (found_zero_point,) = quantized_type.zero_point_array()
    if has_zero_point and found_zero_point != zero_point:
        yield result.finding(
            "result-zero-point",
            f"zero point {found_zero_point} of {result.text} is not that of the results "
            f"of '{op.name}': it must be {zero_point}",
        )


def _ignored_zero_points(op: Operation) -> Iterator[KernelFinding]:
    """The kernel works on stored values, whatever they stand for."""
    for tensor, quantized_type in _quantized((*_operands(op), *_results(op))):
        if _zero_points(quantized_type) != {0}:
            yield tensor.finding(
                "ignored-parameters",
                f"zero point of {tensor.text} is ignored by the kernel of '{op.name}': it "
                "must be 0",
            )
            return


def _ignored_scales(
    op: Operation, result_scale: float | None = None
) -> Iterator[KernelFinding]:
    """
    The kernel works on stored values, which is right for operands of one scale.

    Args:
        op: the op.
        result_scale: that of the result with which it is right; that of the operands by
            default.
    """
    (_, first), *others = _quantized((*_operands(op), *_results(op)))
    if not first.is_per_tensor:
        return
    scale = _f32(first.scale_array()[0])
    for tensor, quantized_type in others:
        is_result = tensor.value.owner is op
        must_be = scale if result_scale is None or not is_result else result_scale
        if [*map(_f32, quantized_type.scale_array())] != [must_be]:
            yield tensor.finding(
                "ignored-parameters",
                f"scale of {tensor.text} is ignored by the kernel of '{op.name}': it must "
                f"be {must_be}",
            )
            return


def _cast_of_stored_values(op: Operation) -> Iterator[KernelFinding]:
    for tensor, quantized_type in _quantized((*_operands(op), *_results(op))):
        if _zero_points(quantized_type) != {0} or {*quantized_type.scale_array()} != {
            1
        }:
            yield tensor.finding(
                "ignored-parameters",
                f"scale and zero point of {tensor.text} are ignored by the kernel of "
                f"'{op.name}': they must be 1 and 0",
            )


_QUOTIENT_SHIFTS = {"i8": (5, 23), "u8": (5, 23), "i16": (13, 15)}
"""
By the storage type, which ratios of scales have a multiplier of quotients: from and to
below powers of two.
"""


def _division(op: Operation) -> Iterator[KernelFinding]:
    """
    The kernel shifts by the exponents of the ratio of scales, the dividend and the divisor,
    and is right as long as this is to the right and by 31 bits at most.
    """
    (result,) = _results(op)
    scales = _scales((*_operands(op), result))
    shifts = _QUOTIENT_SHIFTS.get(str(result.storage))
    if scales is None or shifts is None:
        return
    ratio = scales[0] / (scales[1] * scales[2])
    low, high = shifts
    if not 2**low <= ratio < 2**high:
        yield result.finding(
            "scale-range",
            f"scale {scales[2]} of {result.text} gives lhs scale / (rhs scale x result "
            f"scale) = {ratio}, for which '{op.name}' has no multiplier: it must be at "
            f"least 2^{low} and less than 2^{high}",
        )


def _squared_difference(op: Operation) -> Iterator[KernelFinding]:
    (result,) = _results(op)
    scales = _scales((*_operands(op), result))
    if scales is None:
        return
    lhs_scale, rhs_scale, scale = scales
    least = max(lhs_scale, rhs_scale) ** 2 / 2**12
    if scale <= least:
        yield _too_small(
            op,
            result,
            scale,
            f"{least}, the square of the larger scale of the operands by 2^12",
        )


def _hard_swish(op: Operation) -> Iterator[KernelFinding]:
    tensors = (*_operands(op), *_results(op))
    scales = _scales(tensors)
    if scales is not None and _f32(scales[0] / 128 / scales[1]) >= 1:
        yield tensors[0].finding(
            "scale-range",
            f"scale {scales[0]} of {tensors[0].text} is too large for the multiplier of "
            f"'{op.name}': it must be less than 128 times that of the result, "
            f"{128 * scales[1]}",
        )


def _too_small(
    op: Operation, tensor: _Tensor, scale: float, least: str
) -> KernelFinding:
    return tensor.finding(
        "scale-range",
        f"scale {scale} of {tensor.text} is too small for the multiplier of "
        f"'{op.name}': it must be greater than {least}",
    )


def _sum_rule(op: Operation) -> Iterator[KernelFinding]:
    """Scales of operands and result of a sum or a difference."""
    lhs, rhs = _operands(op)
    (result,) = _results(op)
    scales = _scales((lhs, rhs, result))
    storage = result.storage
    if scales is None or {lhs.storage, rhs.storage} != {storage}:
        return
    lhs_scale, rhs_scale, scale = scales
    larger = max(lhs_scale, rhs_scale)
    if storage == "i16" and _works_with_shifts(op, scales):
        if _log2(larger) != _log2(scale):
            yield result.finding(
                "power-of-two-scales",
                f"scale {scale} of {result.text} is not the larger one of those of the "
                f"operands of '{op.name}', which are powers of two: it must be {larger}, "
                "or pot_scale_int16 must be false",
            )
        return
    width = 15 if storage == "i16" else 20
    least = 2 * larger / 2**width
    if scale <= least:
        yield _too_small(
            op,
            result,
            scale,
            f"{least}, the larger scale of the operands by 2^{width - 1}",
        )


_LOG2_TOLERANCE = 1e-3
"""How far the logarithm of a power of two may be from an integer."""


def _log2(scale: float) -> int:
    from math import log2

    return round(log2(scale))


def _is_power_of_two(scale: float) -> bool:
    from math import log2

    return abs(log2(scale) - _log2(scale)) < _LOG2_TOLERANCE


def _works_with_shifts(op: Operation, scales: Sequence[float]) -> bool:
    option = _attribute(op, "pot_scale_int16")
    return option != BoolAttr.from_bool(False) and all(map(_is_power_of_two, scales))


def _comparison(op: Operation) -> Iterator[KernelFinding]:
    """
    Numbers of 8 bits are compared after a multiplication by their scale, others are not
    rescaled.
    """
    operands = _quantized(_operands(op))
    if any(_storage_name(type_) not in ("i8", "u8") for _, type_ in operands):
        yield from _same_parameters(op)
        return
    for tensor, _ in operands:
        scales = _scales((tensor,))
        if scales is not None and scales[0] >= 1:
            yield tensor.finding(
                "scale-range",
                f"scale {scales[0]} of {tensor.text} is too large for the multiplier of "
                f"'{op.name}': it must be less than 1",
            )


def _softmax_input(op: Operation) -> Iterator[KernelFinding]:
    """The scale, times `beta`, must be greater than 2^-26 in storage of 8 bits."""
    (tensor,) = _operands(op)
    scales = _scales((tensor,))
    if scales is None or tensor.storage not in ("i8", "u8"):
        return
    attribute = _attribute(op, "beta")
    beta = (
        cast(FloatAttr[AnyFloat], attribute).value.data
        if isinstance(attribute, FloatAttr)
        else 1.0
    )
    if scales[0] * beta <= 2.0**-26:
        factor = "" if attribute is None else f" x beta {beta}"
        yield tensor.finding(
            "scale-range",
            f"scale {scales[0]} of {tensor.text}{factor} is too small for the multiplier "
            f"of '{op.name}': it must be greater than {2.0**-26}",
        )


# Activation functions


def _activation(
    op: Operation, names: str = "NONE RELU RELU6 RELU_N1_TO_1"
) -> Iterator[KernelFinding]:
    """The activation function is one of several, if tensors are quantized."""
    attribute = _attribute(op, "fused_activation_function")
    first = _with_storage(_operands(op))[:1]
    if (
        not isinstance(attribute, StringAttr)
        or attribute.data in names.split()
        or not _quantized(first)
    ):
        return
    yield KernelFinding(
        "attribute 'fused_activation_function'",
        Finding(
            "fused-activation",
            f"activation function {attribute.data} has no kernel of quantized "
            f"'{op.name}': it must be {_or(names)}",
        ),
    )


# Products with weights


@dataclass(frozen=True)
class _Product:
    """What a kernel multiplies, by the storage type of the activation."""

    weights: Mapping[str, str]
    """Storage types of weights."""

    biases: Mapping[str, str]
    """Integer types of biases."""

    needs_bias: bool = False
    compares_bias_scale: bool = False
    """
    Whether the scale of the bias is compared with the product of the others if the
    weights have one scale; it is for u8.
    """

    def __call__(self, op: Operation) -> Iterator[KernelFinding]:
        """Returns the findings about an op."""
        product = quantization_trait(op, MultipliesAndAccumulates)
        assert product is not None
        operands, (result, *_) = _operands(op), _results(op)
        activation, weight = operands[product.lhs], operands[product.rhs]
        if not _quantized((activation, weight)):
            return
        yield from _storage_differs(result, activation)
        yield from self._bias_findings(op, operands, activation)
        weights = self.weights.get(str(activation.storage))
        if activation.uniform_type is None:
            # The kernel quantizes the activation itself.
            return
        if weights is None:
            yield activation.finding(
                "kernel-storage",
                f"storage type {activation.storage} of {activation.text} has no kernel of "
                f"'{op.name}': it must be {_or(' '.join(self.weights))}",
            )
            return
        if weight.storage not in weights.split():
            yield weight.finding(
                "weight-storage",
                f"{weight.text} cannot be multiplied with {activation.storage} by "
                f"'{op.name}': it must be stored as {_or(weights)}",
            )
        yield from _weight_granularity(op, activation, weight)

    def _bias_findings(
        self, op: Operation, operands: Sequence[_Tensor], activation: _Tensor
    ) -> Iterator[KernelFinding]:
        trait = quantization_trait(op, AccumulatorUniformScale)
        if trait is None:
            return
        bias = operands[trait.bias]
        if isinstance(bias.value.type, NoneType):
            if self.needs_bias:
                yield bias.finding(
                    "bias-operand",
                    f"quantized '{op.name}' has no bias: it must have one, if only of "
                    "zeros",
                )
            return
        found = bias.storage or str(scalar_or_element_type(bias.value.type))
        storage = str(activation.storage)
        legal = self.biases.get(storage, storage)
        if found not in legal.split():
            yield bias.finding(
                "bias-storage",
                f"{bias.text} cannot be added to products of {activation.text} by "
                f"'{op.name}': it must be stored as {_or(legal)}",
            )
            return
        element_type = scalar_or_element_type(bias.value.type)
        # One of 64 bits, which no quantized type can have, gets a scale in the file.
        if isinstance(element_type, IntegerType) and element_type.bitwidth < 64:
            yield from self._bias_without_scale(op, operands, activation, bias)

    def _bias_without_scale(
        self,
        op: Operation,
        operands: Sequence[_Tensor],
        activation: _Tensor,
        bias: _Tensor,
    ) -> Iterator[KernelFinding]:
        """The runtime takes 0 for its scale, which it may compare with the product."""
        if not (self.compares_bias_scale or activation.storage == "u8"):
            return
        product = quantization_trait(op, MultipliesAndAccumulates)
        assert product is not None
        scales = _scales((activation, operands[product.rhs], _results(op)[0]))
        if scales is not None and scales[0] * scales[1] / scales[2] > 0.02:
            yield bias.finding(
                "bias-scale",
                f"{bias.text} has no scale for '{op.name}': it must be quantized with "
                f"input scale x weight scale = {scales[0] * scales[1]}",
            )


def _weight_granularity(
    op: Operation, activation: _Tensor, weight: _Tensor
) -> Iterator[KernelFinding]:
    coefficient = quantization_trait(op, AffineOpCoefficient)
    quantized_type = weight.uniform_type
    if coefficient is None or quantized_type is None or quantized_type.axis is None:
        return
    if coefficient.dimension is None or activation.storage == "u8":
        reason = " of activations of u8" if activation.storage == "u8" else ""
        yield weight.finding(
            "weight-granularity",
            f"weights {weight.text}{reason} have several scales in '{op.name}': they must "
            "have one",
        )
    elif quantized_type.axis != coefficient.dimension:
        yield weight.finding(
            "weight-dimension",
            f"quantized dimension {quantized_type.axis} of {weight.text} is not that of "
            f"the outputs of '{op.name}': it must be {coefficient.dimension}",
        )


def _svdf_memory(op: Operation) -> Iterator[KernelFinding]:
    """Weights of time and the state have 16 bits, each one scale."""
    operands = _operands(op)
    if not _quantized(operands[:1]):
        return
    for tensor in (operands[2], operands[4]):
        if tensor.storage != "i16":
            yield tensor.finding(
                "weight-storage",
                f"{tensor.text} cannot be multiplied by '{op.name}' of "
                f"{operands[0].storage}: it must be stored as i16",
            )


def _lookup(op: Operation) -> Iterator[KernelFinding]:
    """Rows stay as they are, or become numbers of f32."""
    (result,) = _results(op)
    if result.uniform_type is not None:
        yield from _storage_differs(result, _operands(op)[1])


def _requantization(op: Operation) -> Iterator[KernelFinding]:
    """The pairs of storage types between which there is a kernel."""
    (operand,), (result,) = _operands(op), _results(op)
    legal = _REQUANTIZED.get(str(operand.storage))
    if not legal:
        yield operand.finding(
            "kernel-storage",
            f"{operand.text} has no kernel of '{op.name}': it must be stored as "
            f"{_or(' '.join(_REQUANTIZED))}",
        )
    elif result.storage not in legal.split():
        yield result.finding(
            "kernel-storage",
            f"{result.text} has no kernel of '{op.name}' from {operand.storage}: it must "
            f"be stored as {_or(legal)}",
        )


def _dequantization(op: Operation) -> Iterator[KernelFinding]:
    yield from _storage(op, "i4 i8 u8 i16")
    for tensor, quantized_type in _quantized(_operands(op)):
        if _storage_name(quantized_type) == "i16" and not quantized_type.is_per_tensor:
            yield tensor.finding(
                "activation-granularity",
                f"{tensor.text} has several scales, for which '{op.name}' has no kernel "
                "of i16: it must have one",
            )


# What kernels there are

_REQUANTIZED = {
    "f32": "i4 i8 u8 i16",
    "i8": "i8 u8 i16",
    "u8": "i8 u8 i16",
    "i16": "i8 i16 i32",
    "i32": "i8 i16",
}
"""Storage types of results of `tfl.quantize` by those of operands."""


_STORAGES: Mapping[str, str] = {
    name: storages
    for storages, names in (
        ("i8 u8 i16", "add sub mul div average_pool_2d gelu leaky_relu logistic"),
        ("i8 u8 i16", "max_pool_2d mean prelu relu relu6 resize_bilinear"),
        ("i8 u8 i16", "softmax sum tanh"),
        ("i8 u8", "hard_swish l2_normalization log_softmax relu_0_to_1 relu_n1_to_1"),
        ("i8 i16", "abs exp floor_div floor_mod log neg reduce_prod rsqrt sqrt"),
        ("i8", "elu squared_difference"),
        ("i8 u8 i32", "arg_max arg_min depth_to_space space_to_depth"),
        ("i8 u8 i16 i32", "equal not_equal greater greater_equal less less_equal"),
        ("i8 u8 i16 i32", "maximum minimum reduce_max reduce_min topk_v2"),
        ("i8 u8 i16 i32", "batch_to_space_nd fill gather_nd mirror_pad pack"),
        ("i8 u8 i16 i32", "pad padv2 resize_nearest_neighbor reverse_v2"),
        ("i8 u8 i16 i32", "select select_v2 space_to_batch_nd split split_v"),
        ("i8 u8 i16 i32", "strided_slice tile unpack"),
        ("", "ceil cos floor pow round sin square"),
    )
    for name in names.split()
}
"""
The storage types that kernels take, by the names of ops without the dialect. Of others,
each has a rule of its own, or moves elements of any type.
"""

_RULES: Mapping[str, Sequence[Rule]] = {
    "add": (_sum_rule,),
    "sub": (_sum_rule,),
    "squared_difference": (_squared_difference,),
    "hard_swish": (_hard_swish,),
    "div": (_division,),
    "neg": (_ignored_zero_points,),
    "floor_div": (_ignored_zero_points, partial(_ignored_scales, result_scale=1.0)),
    "floor_mod": (_ignored_zero_points, _ignored_scales),
    "cast": (_cast_of_stored_values,),
    "equal": (_comparison,),
    "not_equal": (_comparison,),
    "greater": (_comparison,),
    "greater_equal": (_comparison,),
    "less": (_comparison,),
    "less_equal": (_comparison,),
    "softmax": (
        partial(_fixed_result, storages="i8 u8 i16", tolerance=1e-3),
        _softmax_input,
    ),
    "log_softmax": (partial(_fixed_result, storages="i8 u8"), _softmax_input),
    "l2_normalization": (
        partial(_fixed_result, storages="i8 u8"),
        partial(_activation, names="NONE"),
    ),
    "logistic": (partial(_fixed_result, storages="i8 u8 i16", has_zero_point=False),),
    "tanh": (
        partial(
            _fixed_result,
            storages="i16",
            tolerance=2**_LOG2_TOLERANCE - 1,
            has_zero_point=False,
        ),
    ),
    "concatenation": (partial(_activation, names="NONE"),),
    "conv_2d": (
        _Product(
            {"i8": "i8 i4", "u8": "u8", "i16": "i8 i4"},
            {"i8": "i32", "u8": "i32", "i16": "i32 i64"},
            needs_bias=True,
        ),
    ),
    "depthwise_conv_2d": (
        _Product(
            {"i8": "i8 i4", "u8": "u8", "i16": "i8"},
            {"i8": "i32", "u8": "i32", "i16": "i64"},
        ),
    ),
    "transpose_conv": (
        _Product(
            {"i8": "i8", "u8": "u8", "i16": "i8"},
            {"i8": "i32", "u8": "i32", "i16": "i32 i64"},
        ),
    ),
    "fully_connected": (
        _Product(
            {"i8": "i8 i4", "u8": "u8", "i16": "i8 i4 i16"},
            {"i8": "i32", "u8": "i32", "i16": "i32 i64"},
            compares_bias_scale=True,
        ),
    ),
    "batch_matmul": (_Product({"i8": "i8", "i16": "i8 i16"}, {}),),
    "svdf": (
        _Product({"i8": "i8"}, {"i8": "i32"}),
        _svdf_memory,
        partial(_activation, names="RELU"),
    ),
    "embedding_lookup": (_lookup,),
    "quantize": (_requantization,),
    "dequantize": (_dequantization,),
}
"""Rules of single ops, by their names without the dialect."""


_MIXING_TRAITS = (AffineOpCoefficient, CastsQuantization, MultipliesAndAccumulates)
"""What is said of ops whose operands and results may have different storage types."""

_MIX_STORAGES = ("cast",)
"""Other ops of which this is true."""

_OWN_ACTIVATIONS = ("concatenation", "l2_normalization", "svdf")
"""Ops with another rule for their activation function than most."""


def kernel_findings(op: Operation) -> Iterator[KernelFinding]:
    """
    What the runtime of TensorFlow Lite refuses or computes wrong of an op.

    Args:
        op: any op; only those of the dialect `tfl` that are registered have kernels.
    """
    name = op.name.removeprefix("tfl.")
    if name == op.name:
        return
    if not _quantized((*_operands(op), *_results(op))):
        return
    if (storages := _STORAGES.get(name)) is not None:
        yield from _storage(op, storages)
    if name not in _MIX_STORAGES and (
        has_quantization_trait(op, ComputesElementwise)
        or not has_quantization_trait(op, *_MIXING_TRAITS)
    ):
        yield from _same_storage(op)
    # The verifier compares those of other ops.
    if has_quantization_trait(op, MovesElements):
        yield from _same_parameters(op)
    for rule in _RULES.get(name, ()):
        yield from rule(op)
    if name not in _OWN_ACTIVATIONS:
        yield from _activation(op)
