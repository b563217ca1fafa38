"""Products by constant weights, with the bias that follows: read, and written anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects.arith import AddfOp
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    NoneType,
    ShapedType,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from xdsl_quant.dialects.quant.traits import (
    AccumulatorUniformScale,
    Adds,
    AffineOpCoefficient,
    MultipliesAndAccumulates,
    has_quantization_trait,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.dialects.stablehlo.data_movement import BroadcastInDimOp
from xdsl_quant.dialects.stablehlo.elementwise import AddOp
from xdsl_quant.xdsl_patches.resources import new_resource

from ..quant_quantize_weights import Weight, weight_of
from .channels import constant_numbers, of_channels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_ACTIVATION = "fused_activation_function"


class Bias(NamedTuple):
    """A constant with a number for each output channel."""

    op: Operation
    """The op that takes it: the product, or the one that adds it."""

    operand: int
    """Which operand of the op it is; one of type `none` stands for zeros."""


@dataclass(frozen=True)
class Layer:
    """A product by constant weights, and its bias."""

    product: Operation
    weight: Weight

    dimension: int
    """The dimension of the weights that has the output channels."""

    channel: int
    """The dimension of the result that has the output channels."""

    bias: Bias | None

    @property
    def last(self) -> Operation:
        """The product, or the op that adds the bias to it."""
        return self.product if self.bias is None else self.bias.op

    @property
    def activation(self) -> str:
        """The activation function that the last op has; `NONE` if it has none."""
        return fused_activation(self.last)

    def weights(self) -> NDArray[np.float64]:
        """The weights as f64."""
        import numpy as np

        elements = self.weight.elements()
        assert elements is not None
        return elements.astype(np.float64)

    def biases(self) -> NDArray[np.float64]:
        """The bias of each output channel as f64, zeros if there is none."""
        import numpy as np

        if self.bias is None:
            size: int = self.weights().shape[self.dimension]
            return np.zeros(size, np.float64)
        numbers: NDArray[np.float64] | None = _biases(*self.bias, self)
        assert numbers is not None
        return numbers

    def set_weights(
        self, numbers: NDArray[np.float64], rewriter: PatternRewriter
    ) -> None:
        """Replace the weights."""
        old = self.product.operands[self.weight.operand]
        constant = self._constant(numbers, old.type)
        rewriter.insert(constant, InsertPoint.before(self.product))
        self.product.operands[self.weight.operand] = constant.results[0]
        constant.results[0].name_hint = old.name_hint
        erase_unused(old, rewriter)

    def set_biases(
        self, numbers: NDArray[np.float64], rewriter: PatternRewriter
    ) -> None:
        """
        Replace the bias, or add one. The layer is to be asked for again afterwards.
        """
        import numpy as np

        result_type = cast("ShapedType", self.product.results[0].type)
        shape = result_type.get_shape()
        element_type = scalar_or_element_type(self.product.results[0].type)
        point = InsertPoint.before(self.last)
        ops: list[Operation] = []
        if self.bias is None:
            point = InsertPoint.after(self.product)
        elif self.last is self.product or self.last.name.startswith("tfl."):
            # These are broadcast as in NumPy, and `tfl` products take one dimension.
            sizes = (
                [len(numbers)]
                if self.channel == len(shape) - 1
                else [len(numbers), *[1] * (len(shape) - 1 - self.channel)]
            )
            ops.append(self._constant(numbers, TensorType(element_type, sizes)))
        if not ops:
            if self.product.name.startswith("stablehlo."):
                vector = TensorType(element_type, [len(numbers)])
                constant = self._constant(numbers, vector)
                type_ = self.product.results[0].type
                ops += (constant, BroadcastInDimOp(constant, [self.channel], type_))
            else:
                sizes = [1] * len(shape)
                sizes[self.channel] = len(numbers)
                full = np.broadcast_to(numbers.reshape(sizes), shape)
                ops.append(self._constant(full, self.product.results[0].type))
        value = ops[-1].results[0]
        if self.bias is not None:
            old = self.bias.op.operands[self.bias.operand]
            rewriter.insert(ops, point)
            self.bias.op.operands[self.bias.operand] = value
            value.name_hint = old.name_hint
            erase_unused(old, rewriter)
            return
        product = self.product.results[0]
        is_stablehlo = self.product.name.startswith("stablehlo.")
        add = (
            AddOp.create(operands=[product, value], result_types=[product.type])
            if is_stablehlo
            else AddfOp(product, value)
        )
        product.replace_uses_with_if(add.results[0], lambda use: True)
        add.operands[0] = product
        rewriter.insert([*ops, add], point)

    def by_weights(self, numbers: NDArray[np.float64]) -> Sequence[Operation]:
        """
        Ops of which the last one is the product by other weights, without a bias and an
        activation function.
        """
        copy = self.product.clone()
        ops = [self._constant(numbers, self.weight.value.type)]
        copy.operands[self.weight.operand] = ops[0].results[0]
        if self.bias is not None and self.bias.op is self.product:
            type_ = copy.operands[self.bias.operand].type
            if isinstance(type_, ShapedType):
                ops.append(self._constant(_zeros(type_), type_))
                copy.operands[self.bias.operand] = ops[-1].results[0]
        return *ops, without_activation(copy)

    def may_have(self, *arrays: NDArray[np.float64]) -> bool:
        """Whether numbers are finite in the type of the weights."""
        import numpy as np

        from xdsl_quant.numerics.float_dtypes import float_dtype, float_info

        element_type = scalar_or_element_type(self.weight.value.type)
        assert isinstance(element_type, AnyFloat)
        largest = float(float_info(float_dtype(element_type.name)).max)
        # Comparisons with NaN are false.
        return all(bool((np.abs(numbers) <= largest).all()) for numbers in arrays)

    def may_have_bias(self) -> bool:
        """Whether there is a bias, or one can be added."""
        shape = cast("ShapedType", self.product.results[0].type).get_shape()
        return self.bias is not None or min(shape, default=1) > 0

    def _constant(self, numbers: NDArray[np.float64], type_: Attribute) -> Operation:
        return constant_like(self.weight.value, numbers, type_)


def constant_like(
    value: SSAValue, numbers: NDArray[np.floating], type_: Attribute
) -> Operation:
    """
    A constant of the dialect and the location of another one.

    Args:
        value: the other constant.
        numbers: its elements.
        type_: its type.
    """
    import numpy as np

    from xdsl_quant.numerics.float_dtypes import float_dtype

    owner = value.owner
    assert isinstance(owner, Operation)
    element_type = scalar_or_element_type(type_)
    assert isinstance(element_type, AnyFloat)
    array = np.ascontiguousarray(numbers).astype(float_dtype(element_type.name))
    tensor = cast("TensorType[AnyFloat]", type_)
    old = owner.properties["value"]
    elements: Attribute
    if isinstance(old, DenseResourceAttr):
        elements = new_resource(old.resource_handle.data, array, tensor)
    else:
        elements = DenseIntOrFPElementsAttr(tensor, BytesAttr(array.tobytes()))
    return type(owner).create(
        properties={"value": elements}, result_types=[type_], location=owner.location
    )


def layer_of(op: Operation) -> Layer | None:
    """
    The layer of a product; `None` if the op is none, its weight or its bias is no constant
    with an output channel, or it computes anything else.
    """
    weight, trait = weight_of(op), quantization_trait(op, AffineOpCoefficient)
    product = quantization_trait(op, MultipliesAndAccumulates)
    if weight is None or trait is None or product is None:
        return None
    type_ = op.results[0].type
    if weight.dimension is None or len(op.results) != 1:
        return None
    if not isinstance(type_, ShapedType) or not isinstance(
        weight.value.type, ShapedType
    ):
        return None
    shape = type_.get_shape()
    channel = trait.result_dimension_of(op) % len(shape)
    if shape[channel] != weight.value.type.get_shape()[weight.dimension]:
        return None
    accumulator = quantization_trait(op, AccumulatorUniformScale)
    known = {weight.operand, product.lhs, product.rhs}
    layer = Layer(op, weight, weight.dimension, channel, None)
    if accumulator is not None and accumulator.bias < len(op.operands):
        bias = Bias(op, accumulator.bias)
        known.add(accumulator.bias)
        if _biases(*bias, layer) is None:
            return None
        layer = Layer(op, weight, weight.dimension, channel, bias)
    if not all(
        _is_zero(operand) for i, operand in enumerate(op.operands) if i not in known
    ):
        return None
    if layer.bias is None and layer.activation == "NONE":
        return _with_added_bias(layer)
    return layer


def _with_added_bias(layer: Layer) -> Layer:
    """The layer with the constant that the only user of the product adds."""
    if (user := only_user(layer.product.results[0])) is None:
        return layer
    if has_quantization_trait(user, Adds) and len(user.results) == 1:
        index = user.operands.index(layer.product.results[0])
        bias = Bias(user, 1 - index)
        if index < 2 and _biases(*bias, layer) is not None:
            return Layer(
                layer.product, layer.weight, layer.dimension, layer.channel, bias
            )
    return layer


def only_user(value: SSAValue) -> Operation | None:
    """The op that uses a value, if it is used once."""
    return next(iter(value.uses)).operation if value.has_one_use() else None


def fused_activation(op: Operation) -> str:
    """The activation function that an op has; `NONE` if it has none."""
    activation = op.properties.get(_ACTIVATION)
    return activation.data if isinstance(activation, StringAttr) else "NONE"


def without_activation(op: Operation) -> Operation:
    """An op, whose activation function is removed."""
    if fused_activation(op) != "NONE":
        op.properties[_ACTIVATION] = StringAttr("NONE")
    return op


def _zeros(type_: ShapedType) -> NDArray[np.float64]:
    import numpy as np

    return np.zeros(type_.get_shape())


def _biases(op: Operation, operand: int, layer: Layer) -> NDArray[np.float64] | None:
    import numpy as np

    value, type_ = op.operands[operand], layer.product.results[0].type
    if isinstance(value.type, NoneType):
        return np.zeros(cast("ShapedType", type_).get_shape()[layer.channel])
    return of_channels(value, type_, layer.channel)


def _is_zero(value: SSAValue) -> bool:
    """Whether a value has no effect if it is added: it is no float, or zero."""
    if not isinstance(scalar_or_element_type(value.type), AnyFloat):
        return True
    numbers = constant_numbers(value)
    return numbers is not None and not numbers.any()


def erase_unused(value: SSAValue, rewriter: PatternRewriter) -> None:
    """Erase a constant, and what repeats it, if nothing uses it."""
    owner = value.owner
    if value.first_use is None and isinstance(owner, Operation):
        operands = [*owner.operands]
        rewriter.erase(owner)
        for operand in operands:
            erase_unused(operand, rewriter)
