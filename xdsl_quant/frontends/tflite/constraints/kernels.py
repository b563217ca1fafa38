"""
Rules of TensorFlow Lite's runtime kernels for `tfl` ops.

The dialect's verifier accepts more than the runtime supports: the runtime refuses a
`tfl.softmax` whose result scale is not 1/256, aborts if the result scale of a `tfl.add` is
too small, and computes wrong results if a kernel ignores parameters. The rules find these
cases in verified, registered ops, with the runtime's tolerances.

See external [documentation](https://github.com/google-ai-edge/LiteRT/tree/main/tflite/kernels).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import log2
from typing import NamedTuple, TypeAlias, cast

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

from xdsl_quant.dialects.quant import traits
from xdsl_quant.dialects.quant.constructor_arguments import short_text
from xdsl_quant.dialects.quant.float_formats import float_format
from xdsl_quant.dialects.quant.traits import has_quantization_trait, quantization_trait
from xdsl_quant.dialects.quant.type_rules import Finding
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type

from .types import uniform_type_of


class KernelFinding(NamedTuple):
    """Diagnostic: an op violates a rule of its kernel."""

    subject: str
    """Operand, result or attribute that violates the rule, e.g. `operand #1`."""

    finding: Finding


Findings: TypeAlias = Iterator[KernelFinding]

ACTIVATIONS = "NONE RELU RELU6 RELU_N1_TO_1"
"""Fused activation functions that most kernels support."""


class _Tensor(NamedTuple):
    subject: str
    value: SSAValue

    @property
    def uniform_type(self) -> UniformType | None:
        return uniform_type_of(self.value)

    @property
    def storage(self) -> str | None:
        """Name of the storage type or float type; `None` for other types."""
        element_type = scalar_or_element_type(self.value.type)
        if isinstance(element_type, UniformType):
            return _storage_name(element_type)
        return str(element_type) if isinstance(element_type, AnyFloat) else None

    @property
    def text(self) -> str:
        type_ = self.uniform_type
        return str(self.value.type) if type_ is None else short_text(type_)

    def finding(
        self, rule: str, problem: str, expected: object, part: str = ""
    ) -> KernelFinding:
        """Return a finding `<part> <tensor> <problem>; expected <expected>`."""
        subject = f"{part} {self.text}".strip()
        message = f"{subject} {problem}; expected {expected}"
        return KernelFinding(self.subject, Finding(rule, message))


@dataclass(frozen=True)
class _Op:
    op: Operation

    @property
    def name(self) -> str:
        return f"'{self.op.name}'"

    @cached_property
    def operands(self) -> Sequence[_Tensor]:
        return [_Tensor(f"operand #{i}", x) for i, x in enumerate(self.op.operands)]

    @cached_property
    def results(self) -> Sequence[_Tensor]:
        return [_Tensor(f"result #{i}", x) for i, x in enumerate(self.op.results)]

    @cached_property
    def quantized(self) -> Sequence[tuple[_Tensor, UniformType]]:
        return _quantized_tensors((*self.operands, *self.results))

    @cached_property
    def scales(self) -> Sequence[float] | None:
        """Scale of each operand and result; `None` unless all are per-tensor quantized."""
        return _only_scales((*self.operands, *self.results))

    def attribute(self, name: str) -> Attribute | None:
        return self.op.properties.get(name, self.op.attributes.get(name))

    def out_of_range(
        self, tensor: _Tensor, scale: float, size: str, expected: str, factor: str = ""
    ) -> KernelFinding:
        problem = f"{factor}is too {size} for the multiplier of {self.name}"
        return tensor.finding("scale-range", problem, expected, f"scale {scale} of")

    def no_kernel(self, tensor: _Tensor, storages: str) -> KernelFinding:
        problem = f"is unsupported by {self.name}"
        expected = _or(storages) if storages else "floats"
        part = f"storage type {tensor.storage} of"
        return tensor.finding("kernel-storage", problem, expected, part)

    def ignored(self, tensor: _Tensor, names: str, expected: object) -> KernelFinding:
        verb = "are" if " and " in names else "is"
        problem = f"{verb} ignored by the kernel of {self.name}"
        return tensor.finding("ignored-parameters", problem, expected, f"{names} of")


Rule: TypeAlias = Callable[[_Op], Findings]
"""Function that yields a finding for each violation by an op."""


def _storage_name(quantized_type: UniformType) -> str:
    if not quantized_type.has_integer_storage:
        return quantized_type.short_storage_name
    sign = "i" if quantized_type.is_signed else "u"
    return f"{sign}{quantized_type.storage_type_integral_width}"


def _quantized_tensors(
    tensors: Sequence[_Tensor],
) -> Sequence[tuple[_Tensor, UniformType]]:
    return [
        (tensor, quantized_type)
        for tensor in tensors
        if (quantized_type := tensor.uniform_type) is not None
    ]


def _f32(value: float) -> float:
    return float_format(f32).nearest(value)


def _only_scales(tensors: Sequence[_Tensor]) -> Sequence[float] | None:
    """Return the scale of each tensor; `None` unless all are per-tensor quantized."""
    types = [tensor.uniform_type for tensor in tensors]
    known = [type_ for type_ in types if type_ is not None and type_.is_per_tensor]
    if len(known) < len(types):
        return None
    return [_f32(type_.scale_array()[0]) for type_ in known]


def _or(names: str) -> str:
    *others, last = names.split()
    return f"{', '.join(others)} or {last}" if others else last


# Storage types


def _storage_rule(op: _Op, storages: str) -> Findings:
    """Require one of the storage types; `storages` is empty for float-only kernels."""
    for tensor, _ in op.quantized:
        if tensor.storage not in storages.split():
            yield op.no_kernel(tensor, storages)
            return


def _same_storage(op: _Op) -> Findings:
    """Require that all tensors have the storage type or float type of the first."""
    tensors = [x for x in (*op.operands, *op.results) if x.storage is not None]
    for tensor in tensors[1:]:
        yield from _storage_differs(tensor, tensors[0])


def _storage_differs(tensor: _Tensor, first: _Tensor) -> Findings:
    if tensor.storage != first.storage:
        problem = f"has another storage type than {first.subject}, {first.text}"
        yield tensor.finding("operand-storage", problem, first.storage)


# Scales and zero points


def _same_parameters(op: _Op) -> Findings:
    """Require equal scales and zero points, except for `tfl.concatenation` with u8."""
    (first, first_type), *others = op.quantized
    storage = _storage_name(first_type)
    if op.op.name == "tfl.concatenation" and storage == "u8":
        return
    for tensor, quantized_type in others:
        # Another rule reports different storage types.
        if _storage_name(quantized_type) == storage and (
            quantized_type.scale_array() != first_type.scale_array()
            or quantized_type.zero_point_array() != first_type.zero_point_array()
        ):
            yield tensor.finding(
                "same-parameters",
                f"has another scale or zero point than {first.subject}, "
                f"{first.text}, and {op.name} does not rescale",
                "the same",
            )


_LOG2_TOLERANCE = 1e-3
"""Largest deviation of log2(scale) from an integer if the scale must be a power of two."""

_FIXED_RESULTS = {
    "tfl.l2_normalization": ("i8 u8", 0.0, True),
    "tfl.log_softmax": ("i8 u8", 0.0, True),
    "tfl.logistic": ("i8 u8 i16", 0.0, False),
    "tfl.softmax": ("i8 u8 i16", 1e-3, True),
    "tfl.tanh": ("i16", 2**_LOG2_TOLERANCE - 1, False),
}
"""
Maps an op to the storage types whose result scale is fixed, the relative tolerance of the
scale, and True if the result zero point is fixed, too.
"""


def _fixed_result(op: _Op) -> Findings:
    """Require the result scale and zero point of the trait `FixedResultUniformScale`."""
    storages, tolerance, has_zero_point = _FIXED_RESULTS[op.op.name]
    trait = quantization_trait(op.op, traits.FixedResultUniformScale)
    assert trait is not None
    (result,) = op.results
    type_ = result.uniform_type
    if (
        type_ is None
        or not type_.is_per_tensor
        or result.storage not in storages.split()
    ):
        return
    fixed_scale, fixed_zero_point = trait.parameters(type_)
    (scale,), (zero_point,) = type_.scale_array(), type_.zero_point_array()
    is_off = abs(_f32(scale) - fixed_scale) > tolerance * fixed_scale
    for name, is_wrong, actual, expected in (
        ("scale", is_off, scale, fixed_scale),
        (
            "zero point",
            has_zero_point and zero_point != fixed_zero_point,
            zero_point,
            fixed_zero_point,
        ),
    ):
        if is_wrong:
            rule, part = f"result-{name.replace(' ', '-')}", f"{name} {actual} of"
            problem = f"is not the fixed result {name} of {op.name}"
            yield result.finding(rule, problem, expected, part)


def _ignored_zero_points(op: _Op) -> Findings:
    """Require zero points of 0, because the kernel ignores zero points."""
    for tensor, quantized_type in op.quantized:
        if not quantized_type.is_fixed_point:
            yield op.ignored(tensor, "zero point", "0")
            return


def _ignored_scales(op: _Op, result_scale: float | None = None) -> Findings:
    """
    Require equal operand scales, and `result_scale` (default: the operands' scale) for the
    result, because the kernel ignores scales.
    """
    (_, first), *others = op.quantized
    if not first.is_per_tensor:
        return
    scale = _f32(first.scale_array()[0])
    for tensor, quantized_type in others:
        is_result = tensor.value.owner is op.op
        expected = scale if result_scale is None or not is_result else result_scale
        if [*map(_f32, quantized_type.scale_array())] != [expected]:
            yield op.ignored(tensor, "scale", expected)
            return


def _cast_of_stored_values(op: _Op) -> Findings:
    for tensor, quantized_type in op.quantized:
        is_integer = {*quantized_type.scale_array()} == {1}
        if not (quantized_type.is_fixed_point and is_integer):
            yield op.ignored(tensor, "scale and zero point", "1 and 0")


_QUOTIENT_SHIFTS = {"i8": (5, 23), "u8": (5, 23), "i16": (13, 15)}
"""Maps a storage type to `(low, high)`; ratios of scales must be in `[2**low, 2**high)`."""


def _division(op: _Op) -> Findings:
    """
    Require a supported ratio lhs scale / (rhs scale * result scale): the kernel only shifts
    right, by up to 31 bits.
    """
    (result,) = op.results
    shifts = _QUOTIENT_SHIFTS.get(str(result.storage))
    if op.scales is None or shifts is None:
        return
    lhs_scale, rhs_scale, scale = op.scales
    ratio = lhs_scale / (rhs_scale * scale)
    low, high = shifts
    if not 2**low <= ratio < 2**high:
        problem = f"gives lhs scale / (rhs scale x result scale) = {ratio}, which is "
        problem += f"out of range for the multiplier of {op.name}"
        expected = f"at least 2^{low} and less than 2^{high}"
        yield result.finding("scale-range", problem, expected, f"scale {scale} of")


def _squared_difference_rule(op: _Op) -> Findings:
    if op.scales is None:
        return
    *operand_scales, scale = op.scales
    least = max(operand_scales) ** 2 / 2**12
    if scale <= least:
        words = "the square of the larger operand scale divided by 2^12"
        expected = f"more than {least}, {words}"
        yield op.out_of_range(op.results[0], scale, "small", expected)


def _hard_swish(op: _Op) -> Findings:
    if op.scales is not None and _f32(op.scales[0] / 128 / op.scales[1]) >= 1:
        expected = f"less than 128 times the result scale, {128 * op.scales[1]}"
        yield op.out_of_range(op.operands[0], op.scales[0], "large", expected)


def _sum_rule(op: _Op) -> Findings:
    (result,) = op.results
    storage = result.storage
    if op.scales is None or {x.storage for x in op.operands} != {storage}:
        return
    *operand_scales, scale = op.scales
    larger = max(operand_scales)
    option = op.attribute("pot_scale_int16")
    if (
        storage == "i16"
        and option != BoolAttr.from_bool(False)
        and all(map(_is_power_of_two, op.scales))
    ):
        if round(log2(larger)) != round(log2(scale)):
            problem = f"is not the larger operand scale of {op.name}, and all scales "
            problem += "are powers of two"
            expected = f"{larger}, or pot_scale_int16 = false"
            part = f"scale {scale} of"
            yield result.finding("power-of-two-scales", problem, expected, part)
        return
    width = 14 if storage == "i16" else 19
    least = larger / 2**width
    if scale <= least:
        expected = f"more than {least}, the larger operand scale divided by 2^{width}"
        yield op.out_of_range(result, scale, "small", expected)


def _is_power_of_two(scale: float) -> bool:
    return abs(log2(scale) - round(log2(scale))) < _LOG2_TOLERANCE


def _comparison_rule(op: _Op) -> Findings:
    """Require scales below 1 for 8-bit operands, equal parameters for wider operands."""
    operands = _quantized_tensors(op.operands)
    if any(_storage_name(type_) not in ("i8", "u8") for _, type_ in operands):
        yield from _same_parameters(op)
        return
    for tensor, _ in operands:
        scales = _only_scales((tensor,))
        if scales is not None and scales[0] >= 1:
            yield op.out_of_range(tensor, scales[0], "large", "less than 1")


def _softmax_input(op: _Op) -> Findings:
    """Require scale * beta > 2^-26 for 8-bit storage."""
    (tensor,) = op.operands
    scales = _only_scales((tensor,))
    if scales is None or tensor.storage not in ("i8", "u8"):
        return
    beta, factor = 1.0, ""
    if isinstance(attribute := op.attribute("beta"), FloatAttr):
        beta = cast("FloatAttr[AnyFloat]", attribute).value.data
        factor = f"x beta {beta} "
    if scales[0] * beta <= 2.0**-26:
        expected = f"more than {2.0**-26}"
        yield op.out_of_range(tensor, scales[0], "small", expected, factor)


# Activation functions


def _activation(op: _Op, names: str) -> Findings:
    attribute = op.attribute("fused_activation_function")
    first = [x for x in op.operands if x.storage is not None][:1]
    if (
        isinstance(attribute, StringAttr)
        and attribute.data not in names.split()
        and _quantized_tensors(first)
    ):
        yield KernelFinding(
            "attribute 'fused_activation_function'",
            Finding(
                "fused-activation",
                f"activation function {attribute.data} is unsupported by quantized "
                f"{op.name}; expected {_or(names)}",
            ),
        )


# Contractions


@dataclass(frozen=True)
class _Product:
    """Rule for contractions: supported weights and biases by activation storage type."""

    weights: Mapping[str, str]

    biases: Mapping[str, str]

    needs_bias: bool = False
    compares_bias_scale: bool = False
    """
    True if the kernel checks the bias scale for per-tensor weights; with u8 storage, all
    kernels check it.
    """

    def __call__(self, op: _Op) -> Findings:
        product = quantization_trait(op.op, traits.MultipliesAndAccumulates)
        assert product is not None
        activation, weight = op.operands[product.lhs], op.operands[product.rhs]
        if not _quantized_tensors((activation, weight)):
            return
        yield from _storage_differs(op.results[0], activation)
        yield from self._bias_findings(op, activation, weight)
        weights = self.weights.get(str(activation.storage))
        if activation.uniform_type is None:
            # The kernel quantizes the activation itself.
            return
        if weights is None:
            yield op.no_kernel(activation, " ".join(self.weights))
            return
        if weight.storage not in weights.split():
            problem = f"cannot be multiplied by {activation.storage} in {op.name}"
            expected = f"{_or(weights)} storage"
            yield weight.finding("weight-storage", problem, expected)
        yield from _weight_granularity(op, activation, weight)

    def _bias_findings(self, op: _Op, activation: _Tensor, weight: _Tensor) -> Findings:
        trait = quantization_trait(op.op, traits.AccumulatorUniformScale)
        if trait is None:
            return
        bias = op.operands[trait.bias]
        element_type = scalar_or_element_type(bias.value.type)
        if isinstance(element_type, NoneType):
            if self.needs_bias:
                message = f"{op.name} has no bias; expected one, e.g. zeros"
                finding = Finding("bias-operand", f"quantized {message}")
                yield KernelFinding(bias.subject, finding)
            return
        storage = str(activation.storage)
        legal = self.biases.get(storage, storage)
        if (bias.storage or str(element_type)) not in legal.split():
            problem = f"cannot be added to products of {activation.text} in {op.name}"
            yield bias.finding("bias-storage", problem, f"{_or(legal)} storage")
            return
        # The exporter writes a scale for an unquantized 64-bit bias. For any other
        # unquantized bias, the runtime assumes scale 0 and may refuse it.
        scales = _only_scales((activation, weight, op.results[0]))
        if (
            isinstance(element_type, IntegerType)
            and element_type.bitwidth < 64
            and (self.compares_bias_scale or storage == "u8")
            and scales is not None
            and scales[0] * scales[1] / scales[2] > 0.02
        ):
            product = scales[0] * scales[1]
            expected = f"input scale x weight scale = {product}"
            yield bias.finding("bias-scale", f"has no scale for {op.name}", expected)


def _weight_granularity(op: _Op, activation: _Tensor, weight: _Tensor) -> Findings:
    coefficient = quantization_trait(op.op, traits.AffineOpCoefficient)
    quantized_type = weight.uniform_type
    if coefficient is None or quantized_type is None or quantized_type.axis is None:
        return
    if coefficient.dimension is None or activation.storage == "u8":
        qualifier = "for u8 activations " if activation.storage == "u8" else ""
        problem = f"{qualifier}have several scales in {op.name}"
        yield weight.finding("weight-granularity", problem, "one", "weights")
    elif quantized_type.axis != coefficient.dimension:
        part = f"quantized dimension {quantized_type.axis} of"
        problem = f"is not the output dimension of {op.name}"
        yield weight.finding("weight-dimension", problem, coefficient.dimension, part)


def _svdf_memory(op: _Op) -> Findings:
    """Require i16 for the time weights and the state of `tfl.svdf`."""
    if not _quantized_tensors(op.operands[:1]):
        return
    for tensor in (op.operands[2], op.operands[4]):
        if tensor.storage != "i16":
            problem = f"is unsupported by {op.name} with {op.operands[0].storage} input"
            yield tensor.finding("weight-storage", problem, "i16 storage")


def _lookup_rule(op: _Op) -> Findings:
    """Require that a quantized result has the storage type of the table."""
    (result,) = op.results
    if result.uniform_type is not None:
        yield from _storage_differs(result, op.operands[1])


_REQUANTIZED = {
    "f32": "i4 i8 u8 i16",
    "i8": "i8 u8 i16",
    "u8": "i8 u8 i16",
    "i16": "i8 i16 i32",
    "i32": "i8 i16",
}
"""Storage types of `tfl.quantize` results by operand storage type."""


def _requantization(op: _Op) -> Findings:
    (operand,), (result,) = op.operands, op.results
    legal = _REQUANTIZED.get(str(operand.storage))
    problem = f"is unsupported by {op.name}"
    if not legal:
        expected = f"{_or(' '.join(_REQUANTIZED))} storage"
        yield operand.finding("kernel-storage", problem, expected)
    elif result.storage not in legal.split():
        problem += f" of {operand.storage}"
        yield result.finding("kernel-storage", problem, f"{_or(legal)} storage")


def _dequantization(op: _Op) -> Findings:
    (tensor,) = op.operands
    type_ = tensor.uniform_type
    if type_ is not None and tensor.storage == "i16" and not type_.is_per_tensor:
        problem = f"has several scales, which {op.name} of i16 does not support"
        yield tensor.finding("activation-granularity", problem, "one")


# Rules by op


class _Kernels(NamedTuple):
    names: str
    """Op names without the dialect."""

    rules: Sequence[Rule] = ()
    storages: str | None = None
    """Supported storage types; `None` if this table does not restrict them."""

    activations: str = ACTIVATIONS
    mixes_storages: bool = False
    """True if operands and results may have different storage types."""


_I32 = {"i8": "i32", "u8": "i32", "i16": "i32 i64"}
"""Bias types by activation storage type."""

_DENSE_WEIGHTS = {"i8": "i8 i4", "u8": "u8", "i16": "i8 i4 i16"}

_KERNELS: Mapping[str, _Kernels] = {
    name: kernels
    for kernels in (
        _Kernels("add sub", [_sum_rule], "i8 u8 i16"),
        _Kernels(
            "mul average_pool_2d gelu leaky_relu max_pool_2d mean prelu relu relu6 "
            "resize_bilinear sum",
            [],
            "i8 u8 i16",
        ),
        _Kernels("div", [_division], "i8 u8 i16"),
        _Kernels("softmax", [_fixed_result, _softmax_input], "i8 u8 i16"),
        _Kernels("logistic tanh", [_fixed_result], "i8 u8 i16"),
        _Kernels("relu_0_to_1 relu_n1_to_1", [], "i8 u8"),
        _Kernels("hard_swish", [_hard_swish], "i8 u8"),
        _Kernels("l2_normalization", [_fixed_result], "i8 u8", "NONE"),
        _Kernels("log_softmax", [_fixed_result, _softmax_input], "i8 u8"),
        _Kernels("abs exp log reduce_prod rsqrt sqrt", [], "i8 i16"),
        _Kernels("neg", [_ignored_zero_points], "i8 i16"),
        _Kernels(
            "floor_div",
            [_ignored_zero_points, partial(_ignored_scales, result_scale=1.0)],
            "i8 i16",
        ),
        _Kernels("floor_mod", [_ignored_zero_points, _ignored_scales], "i8 i16"),
        _Kernels("elu", [], "i8"),
        _Kernels("squared_difference", [_squared_difference_rule], "i8"),
        _Kernels("arg_max arg_min depth_to_space space_to_depth", [], "i8 u8 i32"),
        _Kernels(
            "equal not_equal greater greater_equal less less_equal",
            [_comparison_rule],
            "i8 u8 i16 i32",
        ),
        _Kernels(
            "maximum minimum reduce_max reduce_min topk_v2 batch_to_space_nd fill "
            "gather_nd mirror_pad pack pad padv2 resize_nearest_neighbor reverse_v2 "
            "select select_v2 space_to_batch_nd split split_v strided_slice tile unpack",
            [],
            "i8 u8 i16 i32",
        ),
        _Kernels("ceil cos floor pow round sin square", [], ""),
        _Kernels("cast", [_cast_of_stored_values], mixes_storages=True),
        _Kernels("concatenation", activations="NONE"),
        _Kernels(
            "conv_2d",
            [
                _Product(
                    {"i8": "i8 i4", "u8": "u8", "i16": "i8 i4"}, _I32, needs_bias=True
                )
            ],
        ),
        _Kernels(
            "depthwise_conv_2d",
            [_Product({"i8": "i8 i4", "u8": "u8", "i16": "i8"}, _I32 | {"i16": "i64"})],
        ),
        _Kernels(
            "transpose_conv", [_Product({"i8": "i8", "u8": "u8", "i16": "i8"}, _I32)]
        ),
        _Kernels(
            "fully_connected",
            [_Product(_DENSE_WEIGHTS, _I32, compares_bias_scale=True)],
        ),
        _Kernels("batch_matmul", [_Product({"i8": "i8", "i16": "i8 i16"}, {})]),
        _Kernels(
            "svdf",
            [_Product({"i8": "i8"}, {"i8": "i32"}), _svdf_memory],
            activations="RELU",
        ),
        _Kernels("embedding_lookup", [_lookup_rule]),
        _Kernels("quantize", [_requantization]),
        _Kernels("dequantize", [_dequantization], "i4 i8 u8 i16"),
    )
    for name in kernels.names.split()
}
"""Kernel rules by op name without the dialect."""

_MIXING_TRAITS = (
    traits.AffineOpCoefficient,
    traits.CastsQuantization,
    traits.MultipliesAndAccumulates,
)
"""Traits of ops whose operands and results may have different storage types."""


def kernel_findings(operation: Operation) -> Findings:
    """
    Yield a finding for each rule of TensorFlow Lite's runtime that an op violates.

    Args:
        operation: any op; only registered `tfl` ops have rules.
    """
    dialect, _, name = operation.name.partition(".")
    op = _Op(operation)
    if dialect != "tfl" or not op.quantized:
        return
    kernels = _KERNELS.get(name, _Kernels(name))
    if kernels.storages is not None:
        yield from _storage_rule(op, kernels.storages)
    if not kernels.mixes_storages and (
        has_quantization_trait(operation, traits.ComputesElementwise)
        or not has_quantization_trait(operation, *_MIXING_TRAITS)
    ):
        yield from _same_storage(op)
    # The verifier compares the parameters of other ops.
    if has_quantization_trait(operation, traits.MovesElements):
        yield from _same_parameters(op)
    for rule in kernels.rules:
        yield from rule(op)
    yield from _activation(op, kernels.activations)
