"""
Fold batch normalization into the weights and bias of the preceding layer.

At inference, batch normalization multiplies each channel by a constant and adds another
constant. The pass folds the only user of a
[layer][xdsl_quant.transforms.weights.layers.layer.Layer]: a multiplication or division of
output channels by constants changes the layer's weights and bias, and an addition or
subtraction of constants changes the bias.

Example:

```mlir
%y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x2xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
%b = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<3xf32>) -> tensor<4x3xf32>
%z = stablehlo.multiply %y, %b : tensor<4x3xf32>
```

becomes the first op with new weights. The float model changes by the rounding of the new
weights, which are computed in f64 and rounded once.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriteWalker,
    RewritePattern,
)

from xdsl_quant.dialects.quant.traits import (
    Adds,
    Divides,
    Multiplies,
    Subtracts,
    has_quantization_trait,
)
from xdsl_quant.numerics.arrays import Floats
from xdsl_quant.pass_outcome import CountingPass, PassOutcome

from ..weights.layers.channels import broadcast_along, channel_numbers
from ..weights.layers.layer import erase_unused, fused_activation, layer_of, only_user

_SYMMETRIC = Adds, Multiplies
_FOLDED = *_SYMMETRIC, Subtracts, Divides


class FoldBatchNorm(RewritePattern):
    """Fold an arithmetic op with per-channel constants into the layer before it."""

    def __init__(self):
        self.folded: list[Operation] = []

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /):
        if (layer := layer_of(op)) is None or layer.activation != "NONE":
            return
        value = layer.last.results[0]
        user = only_user(value)
        if user is None or not has_quantization_trait(user, *_FOLDED):
            return
        index = user.operands.index(value)
        # `c - y` and `c / y` cannot be folded.
        if index > (1 if has_quantization_trait(user, *_SYMMETRIC) else 0):
            return
        constant = user.operands[1 - index]
        numbers = channel_numbers(constant, value.type, layer.channel)
        if numbers is None or user.results[0].type != value.type:
            return
        is_factor = has_quantization_trait(user, Multiplies, Divides)
        if has_quantization_trait(user, Divides) and not numbers.all():
            return
        numbers = _as_factors_or_terms(user, numbers)
        if not is_factor and layer.bias is None:
            # The product has no bias to fold into, and adding one would gain nothing.
            return
        weights, biases = layer.weights(), layer.biases()
        if is_factor:
            weights = weights * broadcast_along(numbers, weights, layer.dimension)
            biases = biases * numbers
        else:
            biases = biases + numbers
        if not layer.may_have(weights, biases):
            return
        if fused_activation(user) != "NONE":
            name = "fused_activation_function"
            layer.last.properties[name] = user.properties[name]
        if is_factor:
            layer.set_weights(weights, rewriter)
        if layer.bias is not None and (biases != layer.biases()).any():
            layer.set_biases(biases, rewriter)
        rewriter.replace(user, (), [value])
        self.folded.append(user)
        erase_unused(constant, rewriter)


def _as_factors_or_terms(op: Operation, numbers: Floats) -> Floats:
    """Invert divisors and negate subtrahends; return other numbers unchanged."""
    if has_quantization_trait(op, Divides):
        return 1 / numbers
    return -numbers if has_quantization_trait(op, Subtracts) else numbers


@dataclass(frozen=True)
class QuantFoldBatchNormPass(CountingPass):
    """
    Fold per-channel multiplication, division, addition and subtraction after a layer into
    its weights and bias.
    """

    name = "quant-fold-batch-norm"

    def rewrite(self, ctx: Context, op: ModuleOp) -> PassOutcome:
        products = [inner for inner in op.walk() if layer_of(inner) is not None]
        pattern = FoldBatchNorm()
        PatternRewriteWalker(pattern).rewrite_module(op)
        return PassOutcome(
            products,
            len(pattern.folded),
            "contractions with constant weights followed by one constant per channel",
        )
