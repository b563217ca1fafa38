"""
Biases that make up for what quantized weights do to the mean of results.

A product by quantized weights differs from one by the weights as they were by
`(W_q - W) x`. The mean of this over samples is a number for each output channel, which is
subtracted from the bias: see [Nagel et al. 2019](https://arxiv.org/abs/1906.04721), section
4.2; here the mean is measured. The values `x` are those of the float model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.runtime.batches import Batch
from xdsl_quant.transforms.weights.layers.layer import (
    Layer,
    layer_of,
    without_activation,
)
from xdsl_quant.transforms.weights.quant_quantize_weights import weight_of

from .recording import RecordedModule, record
from .weight_only import check_finite_values, products_of, with_float_values


def corrected_biases(
    module: ModuleOp,
    quantized: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None = None,
) -> ModuleOp:
    """
    Add the mean error of products by quantized weights to biases.

    Products whose bias is no constant, or that cannot have one, stay as they are.

    Args:
        module: a float model, which is not changed.
        quantized: the same, with weights that are quantized and dequantized.
        batches: samples.
        entry: the function that takes them.

    Returns:
        a copy of the float model with other biases: what is quantized instead of it.

    Raises:
        ValueError: if the model cannot be run, samples do not fit, or products are not
            finite.
    """
    result = module.clone()
    products = zip(products_of(result), products_of(quantized), strict=True)
    layers = {
        number: layer
        for number, (op, quantized_op) in enumerate(products)
        if weight_of(quantized_op) is None
        and (layer := layer_of(op)) is not None
        and layer.may_have_bias()
    }
    if not layers:
        return result
    errors = _mean_errors(module, quantized, layers, batches, entry)
    for number, error in errors.items():
        layer = layers[number]
        layer.set_biases(layer.biases() + error, PatternRewriter(layer.product))
    return result


def _mean_errors(
    module: ModuleOp,
    quantized: ModuleOp,
    layers: Mapping[int, Layer],
    batches: Iterable[Batch],
    entry: str | None,
) -> Mapping[int, NDArray[np.float64]]:
    """What each output channel of products lacks in the mean, by numbers of products."""
    recorded = _recorded_products(module, quantized, layers, entry)
    sums: dict[int, NDArray[np.float64]] = {}
    counts: dict[int, int] = {}
    for batch in batches:
        values = recorded.values(batch)
        for number, layer in layers.items():
            if _product_key(number, "float") in values:
                products = [
                    values[_product_key(number, name)].astype(np.float64)
                    for name in ("float", "quantized")
                ]
                for each in products:
                    check_finite_values(each, layer.product, "has results")
                difference = products[0] - products[1]
                others = tuple(d for d in range(difference.ndim) if d != layer.channel)
                sums[number] = sums.get(number, 0) + difference.sum(others)
                size = difference.shape[layer.channel]
                counts[number] = counts.get(number, 0) + difference.size // size
    return {number: each / counts[number] for number, each in sums.items()}


def _recorded_products(
    module: ModuleOp,
    quantized: ModuleOp,
    layers: Mapping[int, Layer],
    entry: str | None,
) -> RecordedModule:
    """A float model that records products of its values by both kinds of weights."""
    both, products = with_float_values(module, quantized)
    for number in layers:
        float_op, op = products[number]
        for name, each in (("float", float_op), ("quantized", op)):
            product = without_activation(each.clone())
            Rewriter.insert_op(product, InsertPoint.before(op))
            record(product.results[0], _product_key(number, name))
    return RecordedModule.of(both, entry)


def _product_key(number: int, name: str) -> str:
    return f"{number}:{name}"
