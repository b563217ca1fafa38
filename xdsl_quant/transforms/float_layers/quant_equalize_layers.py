"""
Cross-layer equalization: equalize the weight ranges of channels between two layers.

Dividing a channel by a positive number in one layer and multiplying it by the same number
in the next layer preserves the result, even if a rectifier is in between. The factors make
the largest absolute weight of the channel equal in both layers: `sqrt(r1 * r2)`, where `r1`
and `r2` are the original largest weights. One scale for all channels then fits each channel
as well as possible ([Nagel et al. 2019](https://arxiv.org/abs/1906.04721), section 4.1).

The layers must have constant weights. Between them may be a bias and one op `f` with
`f(s * x) = s * f(x)` for positive `s`, such as `tfl.relu` or the maximum with zeros. The
values in between must have no other users.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from xdsl_quant.pass_outcome import CountingPass, PassOutcome

from ..weights.layers.channels import broadcast_along, largest_weights
from ..weights.layers.layer import (
    SCALING_ACTIVATIONS,
    Layer,
    layer_of,
    only_user,
    scales_with,
)
from ..weights.quant_quantize_weights import weight_of

_BALANCED = 0.01
"""Largest deviation of factors from 1 for which weights stay unchanged."""

_MOST_ROUNDS = 20


class Pair(NamedTuple):
    """Two layers, the second of which uses the result of the first."""

    first: Layer
    second: Layer
    dimension: int
    """Channel dimension of the second layer's weights."""


def pair_of(op: Operation) -> Pair | None:
    """Return the layer that starts with a product, and its successor, or `None`."""
    first = layer_of(op)
    if (
        first is None
        or not first.may_have_bias()
        or first.activation not in SCALING_ACTIVATIONS
    ):
        return None
    value: SSAValue = first.last.results[0]
    user = only_user(value)
    if user is not None and scales_with(user, value):
        value = user.results[0]
        user = only_user(value)
    if user is None or (second := layer_of(user)) is None:
        return None
    if (dimension := second.input_dimension(value, first.channel)) is None:
        return None
    return Pair(first, second, dimension)


@dataclass(frozen=True)
class EqualizePair(RewritePattern):
    """Equalize the channels between a layer and the next one."""

    factors: Literal["any", "power-of-two"] = "any"
    """Factors of channels: any number, or powers of two only."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        if (pair := pair_of(op)) is None:
            return
        first, second, dimension = pair
        weights, next_weights = first.weights(), second.weights()
        ranges = (
            largest_weights(weights, first.dimension),
            largest_weights(next_weights, dimension),
        )
        # A zero channel has no range to equalize.
        is_used = (ranges[0] > 0) & (ranges[1] > 0) & np.isfinite(ranges).all(0)
        quotients = np.divide(*ranges, out=np.ones_like(ranges[0]), where=is_used)
        factors = np.sqrt(quotients)
        if self.factors == "power-of-two":
            factors = 2.0 ** np.rint(np.log2(factors))
        if np.abs(factors - 1).max(initial=0) < _BALANCED:
            return
        first.set_weights(
            weights / broadcast_along(factors, weights, first.dimension), rewriter
        )
        if first.bias is not None and (biases := first.biases()).any():
            first.set_biases(biases / factors, rewriter)
        next_weights = next_weights * broadcast_along(factors, next_weights, dimension)
        second.set_weights(next_weights, rewriter)


@dataclass(frozen=True)
class QuantEqualizeLayersPass(CountingPass):
    """Equalize channels between layers; the float model is the same up to rounding."""

    name = "quant-equalize-layers"

    factors: Literal["any", "power-of-two"] = "any"
    """
    Factors of channels: `any` number, or `power-of-two`. Powers of two change no result,
    only exponents of weights; balanced ranges may still differ by a factor of two.
    """

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        pattern = EqualizePair(self.factors)
        products = [inner for inner in op.walk() if weight_of(inner) is not None]
        # Equalizing a layer with the next one unbalances it with the previous one.
        equalized: set[Operation] = set()
        for _ in range(_MOST_ROUNDS):
            rewriters = {product: PatternRewriter(product) for product in products}
            for product, rewriter in rewriters.items():
                pattern.match_and_rewrite(product, rewriter)
            changed = {op for op, each in rewriters.items() if each.has_done_action}
            equalized |= changed
            if not changed:
                break
        return PassOutcome(
            products,
            len(equalized),
            "pairs of contractions with constant weights of different channel ranges",
        )
