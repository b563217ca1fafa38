"""
Cross-layer equalization: channels between two products get weights of the same size.

A channel of a value between two products by constants may be divided by any positive number
in the first one, and multiplied by it in the second one: a rectifier between them does not
change that. The numbers are chosen so that the largest weight of the channel is the same in
both, `sqrt(r1 * r2)`, where `r1` and `r2` are the largest absolute weights of the channel
before: then one scale for all channels fits each of them as well as it can
([Nagel et al. 2019](https://arxiv.org/abs/1906.04721), section 4.1).

Between the products there may be a bias, and one op that gives `s * y` for `s * x` for any
positive `s`, such as `tfl.relu` or the maximum with zeros. No other op may use the values.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from xdsl_quant.pass_outcome import CountingPass, PassOutcome

from .layers.channels import along, largest_weights
from .layers.layer import (
    SCALING_ACTIVATIONS,
    Layer,
    layer_of,
    only_user,
    scales_with,
)
from .quant_quantize_weights import weight_of

_BALANCED = 0.01
"""Factors that are nearer to 1 are not worth another rounding of the weights."""

_MOST_ROUNDS = 20


class Pair(NamedTuple):
    """Two layers, the second of which takes the result of the first."""

    first: Layer
    second: Layer
    dimension: int
    """The dimension of the weights of the second layer that has the channels."""


def pair_of(op: Operation) -> Pair | None:
    """
    Return the two layers of which an op is the first product; `None` if there are none.
    """
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
    """Equalize the channels between a product and the next one."""

    factors: Literal["any", "power-of-two"] = "any"
    """By which numbers channels are divided."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        if (pair := pair_of(op)) is None:
            return
        first, second, dimension = pair
        weights, next_weights = first.weights(), second.weights()
        ranges = (
            largest_weights(weights, first.dimension),
            largest_weights(next_weights, dimension),
        )
        # A channel that is zero has no range to be balanced.
        is_used = (ranges[0] > 0) & (ranges[1] > 0) & np.isfinite(ranges).all(0)
        quotients = np.divide(*ranges, out=np.ones_like(ranges[0]), where=is_used)
        factors = np.sqrt(quotients)
        if self.factors == "power-of-two":
            factors = 2.0 ** np.rint(np.log2(factors))
        if np.abs(factors - 1).max(initial=0) < _BALANCED:
            return
        first.set_weights(weights / along(factors, weights, first.dimension), rewriter)
        if first.bias is not None and (biases := first.biases()).any():
            first.set_biases(biases / factors, rewriter)
        second.set_weights(
            next_weights * along(factors, next_weights, dimension), rewriter
        )


@dataclass(frozen=True)
class QuantEqualizeLayersPass(CountingPass):
    """
    Equalize the channels between each two products by constants that follow each other.
    What a float model computes stays the same but for rounding.
    """

    name = "quant-equalize-layers"

    factors: Literal["any", "power-of-two"] = "any"
    """
    By which numbers channels are divided: powers of two change no result, as only exponents
    change, but balance channels up to a factor of two.
    """

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        pattern = EqualizePair(self.factors)
        products = [inner for inner in op.walk() if weight_of(inner) is not None]
        # What balances a layer with the next one takes it out of balance with the last.
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
            "two products by constants that follow each other and are out of balance",
        )
