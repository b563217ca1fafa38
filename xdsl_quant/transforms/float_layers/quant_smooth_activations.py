"""
SmoothQuant: shift range differences between the channels of an activation to the weights.

Each channel of an activation is divided by a factor and the corresponding weights are
multiplied by it, which preserves the product
([Xiao et al. 2022](https://arxiv.org/abs/2211.10438)). Factors come from
[`smoothing_factors`][xdsl_quant.numerics.weights.smoothing_factors], based on the
calibrated channel ranges in a `quant.stats`:

```mlir
%n = stablehlo.multiply %z, %gamma : tensor<4x2xf32>
%x = quant.stats %n <-8.0:1.0> axis 1 [<-8.0:2.0>, <-0.5:0.25>] : tensor<4x2xf32>
%y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
```

The division is folded into the weights and bias of the preceding layer, or into constant
factors and summands such as those of a layer normalization. A rectifier may be in between.

The pass updates the statistics of divided activations and changed constants.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from xdsl_quant.diagnostics import location_prefix, op_name, warn
from xdsl_quant.dialects.quant import StatisticsOp
from xdsl_quant.dialects.quant.instrumentation import ranges_of
from xdsl_quant.dialects.quant.traits import (
    Adds,
    Divides,
    Multiplies,
    Subtracts,
    has_quantization_trait,
)
from xdsl_quant.numerics.weights import smoothing_factors
from xdsl_quant.pass_outcome import CountingPass, PassOutcome
from xdsl_quant.runtime.plugins import dialect_ops
from xdsl_quant.unsupported import Unsupported

from ..weights.layers.channels import (
    are_finite_in,
    broadcast_along,
    build_channel_constant,
    channel_numbers,
    constant_numbers,
    largest_weights,
)
from ..weights.layers.layer import (
    SCALING_ACTIVATIONS,
    Layer,
    fused_activation,
    layer_of,
    replace_constant,
    scales_with,
)
from ..weights.quant_quantize_weights import weight_of


class Constant(NamedTuple):
    """A constant operand with one number per channel."""

    op: Operation
    operand: int
    is_divisor: bool
    dimension: int
    """Channel dimension of the op's result."""


Source = Layer | Constant | StatisticsOp
"""Layer, constant or `quant.stats` to divide so that an activation is divided."""


def division_sources(statistics: StatisticsOp) -> Sequence[Source]:
    """
    Return all sources to divide so that the operand of a `quant.stats` is divided.

    Raises:
        Unsupported: if channels cannot be divided, with the reason.
    """
    assert statistics.axis is not None
    axis = statistics.axis.value.data
    sources: list[Source] = []
    value: SSAValue = statistics.input
    while True:
        if not value.has_one_use():
            raise Unsupported("another op uses values that would be divided")
        op = value.owner
        if not isinstance(op, Operation):
            raise Unsupported("the values are a block argument")
        if (layer := _layer_before(op)) is not None and layer.channel == axis:
            if layer.activation not in SCALING_ACTIVATIONS:
                raise Unsupported(f"activation '{layer.activation}' does not scale")
            return [*sources, layer]
        if isinstance(op, StatisticsOp):
            if op.axis is None or op.axis.value.data != axis or op.axis_stats is None:
                raise Unsupported("a preceding 'quant.stats' has no channel ranges")
            sources.append(op)
            value = op.input
            continue
        scaled = [operand for operand in op.operands if scales_with(op, operand)]
        if scaled:
            value = scaled[0]
            continue
        constant = _constant_operand_of(op, axis)
        if constant is None or fused_activation(op) not in SCALING_ACTIVATIONS:
            raise Unsupported(f"preceding op '{op_name(op)}' has no constant to divide")
        sources.append(constant)
        if has_quantization_trait(op, Multiplies, Divides):
            return sources
        value = op.operands[1 - constant.operand]


def _layer_before(op: Operation) -> Layer | None:
    products = [op]
    if has_quantization_trait(op, Adds):
        owners = [operand.owner for operand in op.operands]
        products += [owner for owner in owners if isinstance(owner, Operation)]
    layers = [layer_of(product) for product in products]
    return next((each for each in layers if each is not None and each.last is op), None)


def _constant_operand_of(op: Operation, axis: int) -> Constant | None:
    """Return the per-channel constant operand of an arithmetic op, or `None`."""
    if not has_quantization_trait(op, Adds, Divides, Multiplies, Subtracts):
        return None
    for operand, value in enumerate(op.operands):
        if channel_numbers(value, op.results[0].type, axis) is not None:
            is_divisor = operand == 1 and has_quantization_trait(op, Divides)
            return Constant(op, operand, is_divisor, axis)
    return None


class Consumer(NamedTuple):
    """A contraction that uses an activation."""

    layer: Layer
    dimension: int
    """Channel dimension of the consumer's weights."""

    @property
    def largest(self) -> NDArray[np.float64]:
        """Largest absolute weight of each channel."""
        return largest_weights(self.layer.weights(), self.dimension)

    def multiplied(self, factors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights multiplied by a factor per channel."""
        weights = self.layer.weights()
        return weights * broadcast_along(factors, weights, self.dimension)


def consumer_of(statistics: StatisticsOp, op: Operation) -> Consumer | None:
    """Return the op as a `Consumer` if it contracts the channels of a `quant.stats`."""
    assert statistics.axis is not None
    if (layer := layer_of(op)) is None:
        return None
    axis = statistics.axis.value.data
    dimension = layer.input_dimension(statistics.result, axis)
    return None if dimension is None else Consumer(layer, dimension)


@dataclass(frozen=True)
class SmoothActivation(RewritePattern):
    """
    Divide the channels of an activation with statistics, and multiply the weights of its
    users. Apply the pattern once: it also matches the new statistics that it inserts.
    """

    alpha: float = 0.5
    """Share of the differences between channel ranges to move to the weights, 0 to 1."""

    insert_multiply: bool = False
    """True to insert a multiplication if no constant can be divided."""

    unsupported: dict[Operation, str] = field(
        default_factory=dict[Operation, str], init=False, compare=False
    )
    """Maps each statistics op that stays unchanged to the reason."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        if not isinstance(op, StatisticsOp):
            return
        try:
            self._smooth(op, rewriter)
        except Unsupported as e:
            self.unsupported[op] = str(e)

    def _smooth(self, op: StatisticsOp, rewriter: PatternRewriter) -> None:
        is_ranked = isinstance(op.result.type, TensorType)
        if op.axis is None or op.axis_stats is None or not is_ranked:
            raise Unsupported("missing channel ranges, expected an axis")
        users = dict.fromkeys(use.operation for use in op.result.uses)
        consumers = {user: consumer_of(op, user) for user in users}
        smoothed = [each for each in consumers.values() if each is not None]
        if not smoothed:
            raise Unsupported(
                "no contraction with constant weights has these channels as inputs"
            )
        sources = self._sources(op, [u for u, each in consumers.items() if not each])
        ranges = _ranges_of_channels(op)
        weights = np.max([each.largest for each in smoothed], 0)
        if not np.isfinite(ranges).all() or not np.isfinite(weights).all():
            raise Unsupported("values or weights are not finite")
        factors = smoothing_factors(np.abs(ranges).max(1), weights, self.alpha)
        if not all(each.layer.may_have(each.multiplied(factors)) for each in smoothed):
            raise Unsupported("weights would overflow")
        if not all(_is_finite(source, factors) for source in sources or ()):
            raise Unsupported("constants would overflow")
        for each in smoothed:
            each.layer.set_weights(each.multiplied(factors), rewriter)
        if sources is None:
            _insert_multiply(op, [each.layer for each in smoothed], factors, rewriter)
            return
        for source in (*sources, op):
            _divide_channels(source, factors, rewriter)

    def _sources(
        self, op: StatisticsOp, other_users: Sequence[Operation]
    ) -> Sequence[Source] | None:
        """Return the ops to divide, or `None` to insert a multiplication."""
        try:
            sources = division_sources(op)
            if other_users:
                raise Unsupported(f"'{op_name(other_users[0])}' also uses the values")
        except Unsupported:
            if self.insert_multiply:
                return None
            raise
        return sources


def _ranges_of_channels(op: StatisticsOp) -> NDArray[np.float64]:
    """Return the minimum and maximum of each channel, of shape `(n, 2)`."""
    assert op.axis_stats is not None
    return np.array(ranges_of(op.axis_stats), np.float64)


def _divided_statistics(
    op: StatisticsOp, value: SSAValue, factors: NDArray[np.float64]
) -> StatisticsOp:
    """Return the statistics of a value after dividing its channels."""
    assert op.axis is not None
    ranges = _ranges_of_channels(op) / factors.reshape(-1, 1)
    layer = float(ranges[:, 0].min()), float(ranges[:, 1].max())
    pairs = [(float(low), float(high)) for low, high in ranges]
    divided = StatisticsOp(value, layer, pairs, op.axis.value.data)
    divided.location = op.location
    return divided


def _quotients(
    source: Layer | Constant, factors: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the divided weights and biases of a layer, or twice a divided constant."""
    if isinstance(source, Layer):
        weights = source.weights()
        factors_of_weights = broadcast_along(factors, weights, source.dimension)
        return weights / factors_of_weights, source.biases() / factors
    op, operand, is_divisor, dimension = source
    numbers = channel_numbers(op.operands[operand], op.results[0].type, dimension)
    assert numbers is not None
    numbers = numbers * factors if is_divisor else numbers / factors
    return numbers, numbers


def _is_finite(source: Source, factors: NDArray[np.float64]) -> bool:
    if isinstance(source, StatisticsOp):
        return True
    op = source.product if isinstance(source, Layer) else source.op
    return are_finite_in(op.results[0].type, *_quotients(source, factors))


def _divide_channels(
    source: Source, factors: NDArray[np.float64], rewriter: PatternRewriter
) -> None:
    if isinstance(source, StatisticsOp):
        rewriter.replace(source, _divided_statistics(source, source.input, factors))
        return
    numbers, biases = _quotients(source, factors)
    if isinstance(source, Layer):
        source.set_weights(numbers, rewriter)
        if source.bias is not None and biases.any():
            source.set_biases(biases, rewriter)
        return
    op, operand, _, dimension = source
    own = dialect_ops(op_name(op).partition(".")[0])
    ops = build_channel_constant(
        own,
        _repeated_constant(op.operands[operand]),
        numbers,
        op.results[0].type,
        dimension,
        broadcasts=own.broadcasts,
    )
    replace_constant(op, operand, ops, rewriter)


def _repeated_constant(value: SSAValue) -> SSAValue:
    """Return the constant that is broadcast to a value."""
    while isinstance(value.owner, Operation) and value.owner.operands:
        value = value.owner.operands[0]
    return value


def _insert_multiply(
    op: StatisticsOp,
    layers: Sequence[Layer],
    factors: NDArray[np.float64],
    rewriter: PatternRewriter,
) -> None:
    """Multiply the channels by reciprocal factors before the given layers."""
    assert op.axis is not None
    own = dialect_ops(op_name(layers[0].product).partition(".")[0])
    value = op.result
    *constants, last = build_channel_constant(
        own,
        layers[0].weight.value,
        1 / factors,
        value.type,
        op.axis.value.data,
        broadcasts=own.broadcasts,
    )
    multiply = own.multiply(value, last.results[0])
    statistics = _divided_statistics(op, multiply.results[0], factors)
    rewriter.insert([*constants, last, multiply, statistics], InsertPoint.after(op))
    products = {layer.product for layer in layers}
    value.replace_uses_with_if(statistics.result, lambda use: use.operation in products)


class ConstantStatistics(NamedTuple):
    """A removed `quant.stats` of a constant, and one of its former uses."""

    statistics: StatisticsOp
    value: SSAValue
    op: Operation
    operand: int

    def insert(self) -> None:
        """Insert the statistics again; recompute them if the constant changed."""
        if self.op.parent is None:
            return
        value = self.op.operands[self.operand]
        statistics = StatisticsOp.create(
            operands=[value],
            result_types=[value.type],
            attributes=self.statistics.attributes,
            properties=self.statistics.properties,
        )
        numbers = constant_numbers(value)
        if value is not self.value and numbers is not None:
            statistics = _statistics_of(value, numbers, self.statistics.axis)
        statistics.location = self.statistics.location
        statistics.result.name_hint = self.statistics.result.name_hint
        Rewriter.insert_op(statistics, InsertPoint.before(self.op))
        self.op.operands[self.operand] = statistics.result


def _statistics_of(
    value: SSAValue, numbers: NDArray[np.floating], axis: IntegerAttr | None
) -> StatisticsOp:
    layer = float(numbers.min()), float(numbers.max())
    if axis is None:
        return StatisticsOp(value, layer)
    dimension = axis.value.data
    reduced = tuple(d for d in range(numbers.ndim) if d != dimension)
    ends = numbers.min(reduced).tolist(), numbers.max(reduced).tolist()
    return StatisticsOp(value, layer, [*zip(*ends, strict=True)], dimension)


def _without_statistics_of_constants(module: ModuleOp) -> Sequence[ConstantStatistics]:
    """Remove the `quant.stats` of constants; return one entry for each of their uses."""
    removed: list[ConstantStatistics] = []
    for op in [*module.walk()]:
        if isinstance(op, StatisticsOp) and constant_numbers(op.input) is not None:
            removed += (
                ConstantStatistics(op, op.input, use.operation, use.index)
                for use in op.result.uses
            )
            Rewriter.replace_op(op, (), (op.input,))
    return removed


@dataclass(frozen=True)
class QuantSmoothActivationsPass(CountingPass):
    """
    Divide the channels of activations, and multiply the weights of their users, based
    on the ranges in `quant.stats`. The float model stays the same up to rounding.
    """

    name = "quant-smooth-activations"

    alpha: int | float = 0.5
    """Share of the differences between channel ranges to move to the weights, 0 to 1."""

    insert_multiply: bool = False
    """True to insert a multiplication if no layer or constant can be divided."""

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        if not 0 <= self.alpha <= 1:
            raise PassFailedException(f"expected alpha from 0 to 1, found {self.alpha}")
        pattern = SmoothActivation(self.alpha, self.insert_multiply)
        constants = _without_statistics_of_constants(op)
        statistics = [
            inner
            for inner in op.walk()
            if isinstance(inner, StatisticsOp)
            and any(weight_of(use.operation) is not None for use in inner.result.uses)
        ]
        for each in statistics:
            pattern.match_and_rewrite(each, PatternRewriter(each))
            if (reason := pattern.unsupported.get(each)) is not None:
                place = location_prefix(each.location)
                warn(f"channels are not smoothed: {reason}", place)
        for each in constants:
            each.insert()
        return PassOutcome(
            statistics,
            len(statistics) - len(pattern.unsupported),
            "contractions of a per-axis 'quant.stats' with constant weights",
            is_explained=bool(statistics),
        )


# Former name, kept for compatibility.
sources_of = division_sources
