"""Read and replace the constant weights and biases of layers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    AnyFloat,
    NoneType,
    ShapedType,
    StringAttr,
)
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from xdsl_quant.diagnostics import op_name
from xdsl_quant.dialects.quant.dialect_ops import QUANT_OPS
from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    Adds,
    AffineOpCoefficient,
    MultipliesAndAccumulates,
    OrdersElements,
    ScalesWithOperand,
    has_quantization_trait,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.runtime.plugins import dialect_ops

from ..quant_quantize_weights import Weight, weight_of
from .channels import (
    are_finite_in,
    build_channel_constant,
    channel_numbers,
    constant_like,
    constant_numbers,
)

_ACTIVATION = "fused_activation_function"


SCALING_ACTIVATIONS = ("NONE", "RELU")
"""Fused activation functions with `f(s * x) = s * f(x)` for positive `s`."""


class Bias(NamedTuple):
    """A constant with a number for each output channel."""

    op: Operation
    """Op with the bias operand: the product, or an addition."""

    operand: int
    """Operand number; an operand of type `none` means zeros."""


@dataclass(frozen=True)
class Layer:
    """Product with constant weights and an optional bias."""

    product: Operation
    weight: Weight

    dimension: int
    """Output channel dimension of the weights."""

    channel: int
    """Output channel dimension of the result."""

    bias: Bias | None

    @property
    def last(self) -> Operation:
        """Last op of the layer: the product, or the addition of the bias."""
        return self.product if self.bias is None else self.bias.op

    @property
    def activation(self) -> str:
        """Fused activation function of the last op, or `NONE`."""
        return fused_activation(self.last)

    def weights(self) -> NDArray[np.float64]:
        elements = self.weight.elements()
        assert elements is not None
        return elements.astype(np.float64)

    def biases(self) -> NDArray[np.float64]:
        """Return the bias of each output channel as f64, zeros by default."""
        if self.bias is None:
            size: int = self.weights().shape[self.dimension]
            return np.zeros(size, np.float64)
        numbers: NDArray[np.float64] | None = _bias_of_channels(*self.bias, self)
        assert numbers is not None
        return numbers

    def set_weights(
        self, numbers: NDArray[np.float64], rewriter: PatternRewriter
    ) -> None:
        old = self.product.operands[self.weight.operand]
        constant = constant_like(self.weight.value, numbers, old.type)
        constant.results[0].name_hint = old.name_hint
        replace_constant(self.product, self.weight.operand, [constant], rewriter)

    def set_biases(
        self, numbers: NDArray[np.float64], rewriter: PatternRewriter
    ) -> None:
        """Replace or add the bias. This layer is then outdated: call `layer_of` again."""
        product = self.product.results[0]
        ops_of_dialect = dialect_ops(op_name(self.last).partition(".")[0])
        broadcasts = ops_of_dialect.broadcasts
        if self.bias is None:
            # Ops that broadcast also have a fused activation function: use `arith`.
            ops_of_dialect = QUANT_OPS if broadcasts else ops_of_dialect
            broadcasts = False
        elif self.bias.op is self.product:
            # The bias of a product is broadcast as in NumPy.
            broadcasts = True
        ops = build_channel_constant(
            ops_of_dialect,
            self.weight.value,
            numbers,
            product.type,
            self.channel,
            broadcasts=broadcasts,
        )
        if self.bias is not None:
            old = self.bias.op.operands[self.bias.operand]
            ops[-1].results[0].name_hint = old.name_hint
            replace_constant(*self.bias, ops, rewriter)
            return
        add = ops_of_dialect.add(product, ops[-1].results[0])
        product.replace_uses_with_if(add.results[0], lambda use: True)
        add.operands[0] = product
        rewriter.insert([*ops, add], InsertPoint.after(self.product))

    def product_with_weights(self, numbers: NDArray[np.float64]) -> Sequence[Operation]:
        """Build the product with other weights and without bias; it is the last op."""
        copy = self.product.clone()
        ops = [constant_like(self.weight.value, numbers, self.weight.value.type)]
        copy.operands[self.weight.operand] = ops[0].results[0]
        if self.bias is not None and self.bias.op is self.product:
            type_ = copy.operands[self.bias.operand].type
            if isinstance(type_, ShapedType):
                zeros = np.zeros(type_.get_shape())
                ops.append(constant_like(self.weight.value, zeros, type_))
                copy.operands[self.bias.operand] = ops[-1].results[0]
        return *ops, without_activation(copy)

    def input(self) -> tuple[SSAValue, tuple[int, int] | None]:
        """
        Return the input value, and the input channel dimensions of the input and of the
        weights; the dimensions are `None` if the op does not define them.
        """
        product = quantization_trait(self.product, MultipliesAndAccumulates)
        trait = quantization_trait(self.product, AffineOpCoefficient)
        assert product is not None
        assert trait is not None
        value = self.product.operands[product.lhs]
        return value, trait.input_dimensions_of(self.product)

    def input_dimension(self, value: SSAValue, channel: int) -> int | None:
        """
        Return the dimension of the weights that the product contracts with dimension
        `channel` of `value`, or `None` if it does not contract that dimension.
        """
        own_input, dimensions = self.input()
        if dimensions is None or own_input is not value:
            return None
        shape = cast("ShapedType", value.type).get_shape()
        sizes = cast("ShapedType", self.weight.value.type).get_shape()
        own_channel, dimension = dimensions
        is_input = own_channel % len(shape) == channel
        return dimension if is_input and sizes[dimension] == shape[channel] else None

    def may_have(self, *arrays: NDArray[np.float64]) -> bool:
        """Return True if all numbers are in the finite range of the weights' type."""
        return are_finite_in(self.weight.value.type, *arrays)

    def may_have_bias(self) -> bool:
        """Return True if the layer has a bias or can get one."""
        shape = cast("ShapedType", self.product.results[0].type).get_shape()
        return self.bias is not None or min(shape, default=1) > 0


def layer_of(op: Operation) -> Layer | None:
    """
    Return the layer of a product, or `None` for other ops. Weights and biases must be
    constants with output channels; all further operands must be zero.
    """
    weight, trait = weight_of(op), quantization_trait(op, AffineOpCoefficient)
    product = quantization_trait(op, MultipliesAndAccumulates)
    if weight is None or trait is None or product is None:
        return None
    if weight.dimension is None or len(op.results) != 1:
        return None
    types = op.results[0].type, weight.value.type
    if not all(isinstance(type_, ShapedType) for type_ in types):
        return None
    shape, sizes = (cast("ShapedType", type_).get_shape() for type_ in types)
    channel = trait.result_dimension_of(op) % len(shape)
    if shape[channel] != sizes[weight.dimension]:
        return None
    accumulator = quantization_trait(op, AccumulatorUniformScale)
    known = {weight.operand, product.lhs, product.rhs}
    layer = Layer(op, weight, weight.dimension, channel, None)
    if accumulator is not None and accumulator.bias < len(op.operands):
        bias = Bias(op, accumulator.bias)
        known.add(accumulator.bias)
        if _bias_of_channels(*bias, layer) is None:
            return None
        layer = replace(layer, bias=bias)
    if not all(
        _adds_nothing(operand)
        for i, operand in enumerate(op.operands)
        if i not in known
    ):
        return None
    if layer.bias is None and layer.activation == "NONE":
        return _with_added_bias(layer)
    return layer


def _with_added_bias(layer: Layer) -> Layer:
    """Return the layer with the bias that the product's only user adds, if any."""
    if (user := only_user(layer.product.results[0])) is None:
        return layer
    if has_quantization_trait(user, Adds) and len(user.results) == 1:
        index = user.operands.index(layer.product.results[0])
        bias = Bias(user, 1 - index)
        if index < 2 and _bias_of_channels(*bias, layer) is not None:
            return replace(layer, bias=bias)
    return layer


def only_user(value: SSAValue) -> Operation | None:
    """Return the only user of a value, or `None`."""
    return next(iter(value.uses)).operation if value.has_one_use() else None


def fused_activation(op: Operation) -> str:
    """Return the fused activation function of an op, or `NONE`."""
    activation = op.properties.get(_ACTIVATION)
    return activation.data if isinstance(activation, StringAttr) else "NONE"


def scales_with(op: Operation, value: SSAValue) -> bool:
    """Return True if a positive factor of an operand can be moved to the result."""
    if fused_activation(op) not in SCALING_ACTIVATIONS:
        return False
    if has_quantization_trait(op, ScalesWithOperand):
        return True
    if not has_quantization_trait(op, OrdersElements) or op.regions:
        return False
    peers = [operand for operand in op.operands if operand is not value]
    numbers = [constant_numbers(operand) for operand in peers]
    return len(peers) == 1 and numbers[0] is not None and not numbers[0].any()


def without_activation(op: Operation) -> Operation:
    """Remove the fused activation function of an op and return the op."""
    if fused_activation(op) != "NONE":
        op.properties[_ACTIVATION] = StringAttr("NONE")
    return op


def _bias_of_channels(
    op: Operation, operand: int, layer: Layer
) -> NDArray[np.float64] | None:
    value, type_ = op.operands[operand], layer.product.results[0].type
    if isinstance(value.type, NoneType):
        return np.zeros(cast("ShapedType", type_).get_shape()[layer.channel])
    return channel_numbers(value, type_, layer.channel)


def _adds_nothing(value: SSAValue) -> bool:
    """Return True if a value is all zeros, or not float (e.g. an absent operand)."""
    if not isinstance(scalar_or_element_type(value.type), AnyFloat):
        return True
    numbers = constant_numbers(value)
    return numbers is not None and not numbers.any()


def replace_constant(
    op: Operation, operand: int, ops: Sequence[Operation], rewriter: PatternRewriter
) -> None:
    """Replace a constant operand by the last of `ops`; erase the old one if unused."""
    old = op.operands[operand]
    rewriter.insert(ops, InsertPoint.before(op))
    op.operands[operand] = ops[-1].results[0]
    erase_unused(old, rewriter)


def erase_unused(value: SSAValue, rewriter: PatternRewriter) -> None:
    """Erase an unused constant and the ops that broadcast it."""
    owner = value.owner
    if value.first_use is None and isinstance(owner, Operation):
        operands = [*owner.operands]
        rewriter.erase(owner)
        for operand in operands:
            erase_unused(operand, rewriter)
