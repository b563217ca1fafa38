"""
Computation of TensorFlow Lite ops: stored values by integer kernels, floats and plain
integers by formulas.

An op on stored values without an integer kernel takes the fallback: it dequantizes,
computes in `f32`, and quantizes, rounding half to even.

Operands are NumPy arrays or, if known only at run time,
[expressions][xdsl_quant.transforms.building.tensor_expressions.TensorExpression].
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import Float32Type, NoneType
from xdsl.ir import Attribute, Operation

from xdsl_quant.dialects.quant import BlockScaledQuantizedType
from xdsl_quant.dialects.quant.ops import has_floats
from xdsl_quant.dialects.quant.types import (
    QuantizedType,
    ScaledQuantizedType,
    StoredQuantizedType,
    scalar_or_element_type,
)
from xdsl_quant.frontends.tflite.dialect.base import (
    NO_KERNEL_FOR_BLOCKS,
    static_shape_of,
)
from xdsl_quant.frontends.tflite.formulas import elementwise
from xdsl_quant.frontends.tflite.formulas.quantized import (
    Quantized,
    nearest_stored,
    tabulate,
)
from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize
from xdsl_quant.numerics.block_scaled import BlockScaledParameters, dequantize_blocks
from xdsl_quant.numerics.parameters import storage_range
from xdsl_quant.rounding_mode import Rounding
from xdsl_quant.transforms.building.quantization_arithmetic import (
    Dequantization,
    Quantization,
)
from xdsl_quant.transforms.building.tensor_expressions import TensorExpression, plain
from xdsl_quant.unsupported import Unsupported

Array: TypeAlias = NDArray[Any]
"""NumPy array, or an expression for an array known at run time."""

Formula: TypeAlias = Callable[..., Array]
"""Function that computes a result, given the op and its operands (`None` if absent)."""

Kernel: TypeAlias = Callable[..., Array]
"""
Function that computes stored values, given the op, the parameters of its result (`None`
if it is not quantized), and its quantized or plain integer operands.
"""

Requirement: TypeAlias = Callable[..., "NoKernel | None"]
"""
Function of an op and the quantization parameters of its result and operands (`None` if
not quantized). It returns `NoKernel` if the kernel does not support these parameters.
"""

FallbackMode: TypeAlias = Literal["on", "off", "only"]
"""
Treatment of ops on stored values without an integer kernel: compute in `f32` (`on`), or
fail (`off`). With `only`, all ops on stored values are computed in `f32`.
"""


class NoKernel(NamedTuple):
    """Reason why an op has no integer kernel."""

    reason: str
    """Message after the name of the op, e.g. `has no integer kernel`."""


@dataclass(frozen=True)
class Operands:
    """Operand kinds that a kernel accepts in addition to per-tensor quantized operands."""

    plain: Sequence[int] = ()
    """Indices of operands that may be absent or plain integers."""

    input: int = 0
    """Index of the operand that is multiplied by the weights."""

    weights: int | None = None
    """Index of the operand that may be per-axis quantized with zero points 0."""

    channels: int = 0
    """Channel dimension of the weights."""

    bias: int | None = None
    """Index of the bias; an unquantized one has scale `input scale * weight scale`."""


@dataclass(frozen=True)
class Computation:
    """Computation of an op with one result."""

    formula: Formula
    """Formula for floats and integers that are not quantized."""

    kernel: Kernel | None = None
    """Integer kernel; `None` for ops that always take the fallback."""

    requirement: Requirement | None = None
    """Check of the quantization parameters; `None` if the kernel supports any."""

    operands: Operands = Operands()
    """Operand kinds that the kernel accepts."""

    hybrid: Formula | None = None
    """Formula for float activations and stored weights, or `None`."""

    blockwise: Formula | None = None
    """Formula for float activations and weights with scales of blocks, or `None`."""

    is_truth: bool = False
    """True if the result has type `i1`, even if operands are quantized."""

    accepts_booleans: bool = False
    """True if operands may have type `i1`."""

    def results(
        self,
        op: Operation,
        values: Sequence[Array | None],
        fall_back: Callable[[Operation, str], None] = lambda op, reason: None,
        mode: FallbackMode = "on",
    ) -> Array:
        """
        Return the result of an op.

        Args:
            op: the op.
            values: operands of the op.
            fall_back: called with the op and the reason before the fallback is taken.
            mode: `only` forces the fallback for all ops on stored values.

        Raises:
            Unsupported: if the op does not support its operand or result types.
        """
        types = op.operand_types
        if any(block_type(type_) is not None for type_ in types):
            return self._on_blocks(op, values, fall_back, mode)
        operands = [_operand(*pair) for pair in zip(values, types, strict=True)]
        (type_,) = op.result_types
        result = parameters_of(type_)
        if result is None and not any(isinstance(x, Quantized) for x in operands):
            self._check_numbers(values)
            return self.formula(op, *values)
        self._check_kind(type_)
        if mode == "only":
            return self._by_fallback(op, values)
        if self.hybrid is not None and has_floats(type_) and self._is_hybrid(operands):
            return self.hybrid(op, *operands)
        return self._by_kernel(op, values, operands, fall_back)

    def _by_kernel(
        self,
        op: Operation,
        values: Sequence[Array | None],
        operands: Sequence[Array | Quantized | None],
        fall_back: Callable[[Operation, str], None],
    ) -> Array:
        """Return the result of the integer kernel or, if there is none, of the fallback."""
        if (missing := self.missing_kernel(op)) is not None:
            fall_back(op, missing.reason)
            return self._by_fallback(op, values)
        assert self.kernel is not None
        try:
            return self.kernel(op, parameters_of(op.result_types[0]), *operands)
        except Unsupported as e:
            fall_back(op, str(e))
            return self._by_fallback(op, values)

    def _on_blocks(
        self,
        op: Operation,
        values: Sequence[Array | None],
        fall_back: Callable[[Operation, str], None],
        mode: FallbackMode,
    ) -> Array:
        """Return the result of an op with operands whose scales are those of blocks."""
        if self.blockwise is None:
            raise Unsupported(NO_KERNEL_FOR_BLOCKS)
        weights = self.operands.weights
        for index, type_ in enumerate((*op.operand_types, *op.result_types)):
            element_type = scalar_or_element_type(type_)
            if index != weights and not isinstance(
                element_type, Float32Type | NoneType
            ):
                raise Unsupported(
                    f"has weights of '!quant.block_scaled' and type '{type_}'; expected "
                    "'f32'"
                )
        try:
            if mode != "only":
                return self.blockwise(op, *values)
        except Unsupported as e:
            fall_back(op, str(e))
        return self._by_fallback(op, values)

    def _check_numbers(self, values: Sequence[Array | None]) -> None:
        if self.accepts_booleans:
            return
        if any(x is not None and x.dtype == np.bool_ for x in values):
            raise Unsupported("has operands of 'i1', expected numbers")

    def _check_kind(self, result_type: Attribute) -> None:
        is_quantized = parameters_of(result_type) is not None
        if self.is_truth and (is_quantized or has_floats(result_type)):
            raise Unsupported("has quantized operands and a result that is not i1")
        if isinstance(self.kernel, OnStoredValues) or self.is_truth:
            return
        if not is_quantized and not has_floats(result_type):
            raise Unsupported(
                "has quantized operands and a result that is neither quantized nor "
                "float"
            )

    def _is_hybrid(self, operands: Sequence[Any]) -> bool:
        """Return True if operands are `f32`, and weights are supported stored values."""
        what = self.operands
        assert what.weights is not None
        weights = operands[what.weights]
        others = (x for i, x in enumerate(operands) if i != what.weights)
        if not isinstance(weights, Quantized) or not all(
            x is None or (not isinstance(x, Quantized) and x.dtype == np.float32)
            for x in others
        ):
            return False
        parameters = weights.parameters
        return (
            parameters.is_signed
            and parameters.storage_width <= 8
            and not parameters.has_zero_points
            and parameters.block_sizes is None
            and parameters.quantized_dimension in (None, what.channels)
        )

    def missing_kernel(self, op: Operation) -> NoKernel | None:
        """Return `NoKernel` unless an integer kernel supports the types of an op."""
        if self.kernel is None:
            return NoKernel("has no integer kernel")
        (result_type,) = op.result_types
        result = parameters_of(result_type)
        if result is None and has_floats(result_type):
            return NoKernel("has a float result")
        if not has_one_scale(result):
            return NoKernel("has a result with several scales")
        operands = [parameters_of(type_) for type_ in op.operand_types]
        for index, type_ in enumerate(op.operand_types):
            if (reason := self._unsuitable(index, type_)) is not None:
                return NoKernel(reason)
        if not isinstance(self.kernel, OnStoredValues):
            inputs = (x for i, x in enumerate(operands) if i != self.operands.bias)
            if any(p is not None and p.storage_width > 16 for p in (*inputs, result)):
                return NoKernel("has storage of more than 16 bits")
        requirement = self.requirement
        if isinstance(self.kernel, OnStoredValues):
            requirement = takes_one_scale
        return None if requirement is None else requirement(op, result, *operands)

    def _unsuitable(self, index: int, type_: Attribute) -> str | None:
        """Return why the kernel does not accept an operand; `None` if it does."""
        roles = self.operands
        if (parameters := parameters_of(type_)) is None:
            if index in roles.plain and not has_floats(type_):
                return None
            return f"has an operand #{index} that is not quantized"
        if has_one_scale(parameters) or index == roles.bias:
            return None
        if index != roles.weights:
            return f"has an operand #{index} with several scales"
        if parameters.quantized_dimension != roles.channels:
            return "has weights with scales along another dimension than the channels"
        if parameters.has_zero_points:
            return "has weights with a zero point for each channel"
        return None

    def _by_fallback(self, op: Operation, values: Sequence[Array | None]) -> Array:
        pairs = zip(values, op.operand_types, strict=True)
        floats = [x if x is None else dequantize_array(x, type_) for x, type_ in pairs]
        if (index := self.operands.bias) is not None:
            floats[index] = self._expressed_bias(op, floats[index])
        result = self.formula(op, *floats)
        return quantize_array(result, op.result_types[0], Rounding("nearest-even"))

    def _expressed_bias(self, op: Operation, bias: Array | None) -> Array | None:
        if bias is None or bias.dtype.kind == "f":
            return bias
        what = self.operands
        assert what.weights is not None
        scale = np.float64(1)
        for index in (what.input, what.weights):
            if (parameters := parameters_of(op.operands[index].type)) is not None:
                scale = scale * parameters.scales
        return (bias * scale).astype(np.float32)


Function: TypeAlias = Callable[..., Array | tuple[Array, ...]]
"""Function that returns one or several results, given an op and its operand values."""

Implementation: TypeAlias = Computation | Function
"""Computation of an op, or a function of its operands (stored values if quantized)."""


# Types


def unsupported_type(quantized_type: QuantizedType) -> str | None:
    """Return why TensorFlow Lite does not support a quantized type, or `None`."""
    if isinstance(quantized_type, BlockScaledQuantizedType):
        return "no integer kernel supports '!quant.block_scaled'; use 'tfl.dequantize'"
    if isinstance(quantized_type, StoredQuantizedType):
        return quantized_type.unsupported_storage
    return None


def block_type(type_: Attribute) -> BlockScaledQuantizedType | None:
    """Return the block-scaled element type of a type, or `None`."""
    element_type = scalar_or_element_type(type_)
    is_block_type = isinstance(element_type, BlockScaledQuantizedType)
    return element_type if is_block_type else None


@lru_cache(maxsize=256)
def parameters_of(type_: Attribute) -> QuantizationParameters | None:
    """Return the quantization parameters of a type; `None` if it is not quantized."""
    element_type = scalar_or_element_type(type_)
    if not isinstance(element_type, QuantizedType):
        return None
    if (reason := unsupported_type(element_type)) is not None:
        raise ValueError(reason)
    return QuantizationParameters.from_type(cast(Any, element_type))


def has_one_scale(parameters: QuantizationParameters | None) -> bool:
    """Return True if parameters are per-tensor, or `None` (not quantized)."""
    return parameters is None or not parameters.scales.ndim


# Operands


def is_array(value: object) -> bool:
    """Return True if an operand is an array or scalar rather than an expression."""
    return isinstance(value, np.ndarray | np.generic)


def _operand(value: Array | None, type_: Attribute) -> Array | Quantized | None:
    if value is None or (parameters := parameters_of(type_)) is None:
        return value
    return Quantized(value.astype(np.int64), parameters)


def dequantize_array(value: Array, type_: Attribute) -> Array:
    """Dequantize a value if its type is quantized."""
    if (blocks := block_type(type_)) is not None:
        if not is_array(value):
            raise Unsupported("has blocks of values that are not constant")
        return dequantize_blocks(value, BlockScaledParameters.from_type(blocks))
    if (parameters := parameters_of(type_)) is None:
        return value
    if is_array(value):
        return dequantize(value, parameters)
    if not isinstance(value, TensorExpression):
        if parameters.block_sizes is not None:
            raise Unsupported("has blocks of values that are not constant")
        return elementwise.dequantize(Quantized(value.astype(np.int64), parameters))
    element_type = cast(ScaledQuantizedType, scalar_or_element_type(type_))
    casts = Dequantization(element_type, Rounding("nearest-even"), fuse=True)
    stored = value.tensor(element_type.signless_storage_type)
    result = casts.convert_tensor(value.builder, stored, casts.layout)
    return cast(Array, plain(value.builder, result))


def quantize_array(value: Array, type_: Attribute, rounding: Rounding) -> Array:
    """Quantize floats if the type is quantized."""
    element_type = scalar_or_element_type(type_)
    if not isinstance(element_type, ScaledQuantizedType):
        return value
    parameters = cast(QuantizationParameters, parameters_of(type_))
    if not is_array(value) and not isinstance(value, TensorExpression):
        return nearest_stored(value, parameters)
    if not isinstance(value, TensorExpression):
        return quantize(
            np.asarray(value).astype(np.float32),
            parameters,
            rounding_mode=rounding.mode,
            zero_point_order=rounding.zero_point_order,
        )
    casts = Quantization(element_type, rounding, fuse=True)
    floats = value.tensor(element_type.expressed_type)
    result = casts.convert_tensor(value.builder, floats, casts.layout)
    stored = plain(value.builder, result, is_signed=element_type.is_signed)
    return cast(Array, stored)


def integers_of(values: Array) -> list[int]:
    """
    Return the elements of an operand such as axes, sizes or indices.

    Raises:
        Unsupported: if the operand is not constant.
    """
    if not is_array(values):
        raise Unsupported("has non-constant sizes, axes or indices")
    return np.ravel(values).tolist()


def result_sizes(op: Operation, sizes: Array) -> list[int]:
    """
    Return the result shape that an operand gives, or that of the result type if the operand
    is not constant.

    Raises:
        Unsupported: if neither is known.
    """
    shape = None if is_array(sizes) else static_shape_of(op.results[0])
    return integers_of(sizes) if shape is None else [*shape]


# Building blocks of op tables


def activation_of(op: Any) -> str:
    """Return the fused activation of an op."""
    return op.fused_activation_function.data


def number(attribute: Any) -> Any:
    """Return the value of a numeric property."""
    return attribute.value.data


def kernel_of(function: Callable[..., Array], *options: Callable[[Any], Any]) -> Kernel:
    """
    Return a kernel that calls a function with the operands, the parameters of the
    result, and options of the op.
    """

    def kernel(
        op: Operation, result: QuantizationParameters, *operands: Array
    ) -> Array:
        return function(*operands, result, *(option(op) for option in options))

    return kernel


def table_of(kernel: Kernel) -> Kernel:
    """Return a one-operand kernel that uses a lookup table for 8-bit stored values."""

    def tabulating(
        op: Operation, result: QuantizationParameters, x: Quantized
    ) -> Array:
        low, high = storage_range(x.parameters.storage)
        return tabulate(
            x.values, low, high, lambda v: kernel(op, result, x._replace(values=v))
        )

    return tabulating


def formula_of(
    function: Callable[..., Array], *options: Callable[[Any], Any]
) -> Formula:
    """Return a formula that calls a function with operands and options of the op."""

    def formula(op: Operation, *operands: Array) -> Array:
        return function(*operands, *(option(op) for option in options))

    return formula


def have_one_scale(*parameters: QuantizationParameters | None) -> bool:
    """Return True if all parameters have the same scale and zero point."""
    known = [p for p in parameters if p is not None]
    return all(
        p.scales == known[0].scales and p.zero_points == known[0].zero_points
        for p in known
    )


OTHER_STORAGE = NoKernel(
    "has operands whose storage type differs from that of its result"
)


def have_one_storage(*parameters: QuantizationParameters | None) -> bool:
    """Return True if all parameters have the same storage type."""
    storages = {(p.storage_width, p.is_signed) for p in parameters if p is not None}
    return len(storages) <= 1


def check_moves_stored_values(operand_type: Attribute, result_type: Attribute) -> None:
    """
    Check that stored values express the same real values in both types.

    Raises:
        Unsupported: if the types differ in scale, zero point or storage type.
    """
    element_types = map(scalar_or_element_type, (operand_type, result_type))
    if len({*element_types}) == 1:
        return
    parameters = parameters_of(operand_type), parameters_of(result_type)
    if all(p is None for p in parameters):
        return
    if (
        all(p is not None and has_one_scale(p) for p in parameters)
        and have_one_scale(*parameters)
        and have_one_storage(*parameters)
    ):
        return
    raise Unsupported(
        f"moves stored values of '{operand_type}' to '{result_type}' with different "
        "quantization parameters; use 'tfl.quantize' to requantize"
    )


def takes_one_scale(
    op: Operation,
    result: QuantizationParameters | None,
    *operands: QuantizationParameters | None,
) -> NoKernel | None:
    """Return `NoKernel` unless operands and result have the same parameters."""
    if result is None:
        return None
    if not have_one_scale(result, *operands):
        return NoKernel(
            "has operands whose scale or zero point is not that of its result"
        )
    return None if have_one_storage(result, *operands) else OTHER_STORAGE


@dataclass(frozen=True)
class OnStoredValues:
    """Kernel for any storage width if operands and result have the same parameters."""

    function: Callable[..., Array]
    """Function of the op and its operands; quantized operands are stored values."""

    def __call__(
        self,
        op: Operation,
        result: QuantizationParameters | None,
        *operands: Array | Quantized,
    ) -> Array:
        return self.function(
            op, *(x.values if isinstance(x, Quantized) else x for x in operands)
        )


def on_stored_values(function: Callable[..., Array], plain: int) -> Computation:
    """Return a computation on floats or stored values; operand #`plain` is unquantized."""
    kernel, operands = OnStoredValues(function), Operands((plain,))
    return Computation(function, kernel, operands=operands, accepts_booleans=True)
