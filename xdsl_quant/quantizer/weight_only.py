"""
Contractions (matrix products and convolutions) with constant weights, and the quantization
of these weights, for weight-only and dynamic range quantization.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.diagnostics import counted_names, location_prefix, op_name
from xdsl_quant.transforms.propagation.module_kernels import float_ops_outside_kernels
from xdsl_quant.transforms.weights.layers.layer import erase_unused
from xdsl_quant.transforms.weights.quant_quantize_weights import (
    Granularity,
    QuantizeWeight,
    weight_of,
)

from .dynamic_ranges import model_dialect
from .recipe import Recipe, WeightGranularity
from .recipe_files import RecipeError
from .selection import check_selectors, overrides_of, selector_names


def products_of(module: ModuleOp) -> Sequence[Operation]:
    """
    Return the contractions with constant weights, quantized or not, in module order. A
    contraction has the same position in float and quantized modules.
    """
    return [op for op in module.walk() if weight_of(op, is_quantized=True) is not None]


def cast_of(op: Operation) -> Operation | None:
    """Return the op that quantizes the weights of a contraction, or `None`."""
    weight = weight_of(op, is_quantized=True)
    assert weight is not None
    value, cast = op.operands[weight.operand], None
    while value is not weight.value:
        assert isinstance(value.owner, Operation)
        cast = value.owner
        value = cast.operands[0]
    return cast


def with_float_weights(
    module: ModuleOp, quantized: ModuleOp
) -> tuple[ModuleOp, Sequence[tuple[Operation, Operation]]]:
    """
    Build a float model that also contains the contractions with quantized weights.

    Args:
        module: a float model.
        quantized: the same model with fake-quantized weights.

    Returns:
        The model, whose contractions all take activations of the float model; and pairs of
        float and quantized contraction, in the order of `products_of`.
    """
    result = quantized.clone()
    pairs: list[tuple[Operation, Operation]] = []
    for original, op in zip(products_of(module), products_of(result), strict=True):
        weight = weight_of(original)
        assert weight is not None
        assert isinstance(weight.value.owner, Operation)
        constant, float_op = weight.value.owner.clone(), op.clone()
        float_op.operands[weight.operand] = constant.results[0]
        Rewriter.insert_op((constant, float_op), InsertPoint.before(op))
        op.results[0].replace_all_uses_with(float_op.results[0])
        pairs.append((float_op, op))
    return result, pairs


def check_finite_values(
    values: NDArray[np.float64], product: Operation, what: str
) -> None:
    """Raise a `ValueError` if values are not finite; the message begins with `what`."""
    if not (is_finite := np.isfinite(values)).all():
        raise ValueError(
            f"{location_prefix(product.location)}error: '{op_name(product)}' op {what}, "
            f"found {values[~is_finite][0]}; use samples that lead to finite values"
        )


def quantize_weights(module: ModuleOp, recipe: Recipe) -> ModuleOp:
    """
    Quantize and dequantize the weights of contractions. In mode `dynamic-range`,
    contractions that support quantized weights take them without the dequantization.

    Args:
        module: a float model, which does not change.
        recipe: the recipe.

    Returns:
        A copy with casts; its constants are still floats.

    Raises:
        RecipeError: if an override selects nothing, or has no effect on weights.
        ValueError: if the model has no contraction with constant weights, or all stay in
            floating point.
        PassFailedException: if a weight is not finite.
    """
    quantized = module.clone()
    products = [op for op in quantized.walk() if weight_of(op) is not None]
    if not products:
        found = counted_names(float_ops_outside_kernels(module)) or "no float op"
        raise ValueError(
            f"the model has no product with constant weights, found {found}"
        )
    bits = _bits_of_products(recipe, products)
    if not bits:
        raise ValueError(f"recipe '{recipe.name}' keeps all weights in floating point")
    options = recipe.weights
    # Share patterns, because several products may take the same constant.
    patterns: dict[tuple[int, Granularity], QuantizeWeight] = {}
    for op, width in bits.items():
        kind = width, _granularity(options.granularity, op)
        if kind not in patterns:
            patterns[kind] = QuantizeWeight(*kind, options.block_size, options.range)
        patterns[kind].match_and_rewrite(op, PatternRewriter(op))
    if recipe.mode == "dynamic-range":
        _take_stored_weights(bits, recipe)
    return quantized


def _take_stored_weights(ops: Iterable[Operation], recipe: Recipe) -> None:
    """Pass quantized weights to the contractions that can quantize their activations."""
    casts = {op: cast for op in ops if (cast := cast_of(op)) is not None}
    reasons = {
        op: model_dialect(op).hybrid_reason(op, cast.results[0])
        for op, cast in casts.items()
    }
    supported = [op for op, reason in reasons.items() if reason is None]
    if not supported:
        found = ", ".join(dict.fromkeys(filter(None, reasons.values())))
        raise ValueError(
            "cannot quantize activations at run time: "
            f"{counted_names(reasons)}: {found}; use mode 'weight-only'"
        )
    for op in supported:
        dialect = model_dialect(op)
        if recipe.asymmetric_inputs and not dialect.has_zero_points:
            raise RecipeError(
                f"recipe '{recipe.name}': 'asymmetric-inputs' has no effect on "
                f"'{op_name(op)}', whose activations have no zero points; leave it out"
            )
        dialect.set_zero_points(op, wanted=recipe.asymmetric_inputs is not False)
        weight = weight_of(op, is_quantized=True)
        assert weight is not None
        dequantized = op.operands[weight.operand]
        op.operands[weight.operand] = casts[op].results[0]
        erase_unused(dequantized, PatternRewriter(op))


def _granularity(granularity: WeightGranularity, op: Operation) -> Granularity:
    if granularity == "block-or-axis":
        return "axis" if op_name(op).startswith("tfl.") else "block"
    return granularity


def _bits_of_products(
    recipe: Recipe, products: Sequence[Operation]
) -> Mapping[Operation, int]:
    """Return the weight width of each contraction whose weights are quantized."""
    if any(each.values or each.observer is not None for each in recipe.overrides):
        raise RecipeError(
            f"recipe '{recipe.name}': 'values' and 'observer' have no effect in mode "
            f"'{recipe.mode}', expected 'ops' or 'locations' with 'keep-float' or "
            "'weight-bits'"
        )
    names = {op: selector_names([op]) for op in products}
    check_selectors(recipe, [*names.values()])
    bits: dict[Operation, int] = {}
    for op in products:
        width: int | None = recipe.weights.bits
        for override in overrides_of(recipe, names[op]):
            if override.keep_float:
                width = None
            elif override.weight_bits is not None:
                width = override.weight_bits
            elif width is None:
                width = recipe.weights.bits
        if width is not None:
            bits[op] = width
    return bits


# Former name, kept for compatibility.
with_float_values = with_float_weights
