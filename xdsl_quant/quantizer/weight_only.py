"""
Products by constants, and the quantization of their weights: integer weights and
floating-point activations; or dynamic range quantization, where products quantize
activations when they run.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.diagnostics import counted_names, location_prefix, op_name
from xdsl_quant.transforms.propagation.module_kernels import float_ops_of
from xdsl_quant.transforms.weights.layers.layer import erase_unused
from xdsl_quant.transforms.weights.quant_quantize_weights import (
    Granularity,
    QuantizeWeight,
    weight_of,
)

from .dynamic_ranges import model_dialect
from .recipe import Recipe, WeightGranularity
from .recipe_files import RecipeError
from .selection import check_selectors, names_of, overrides_of


def products_of(module: ModuleOp) -> Sequence[Operation]:
    """
    Return the products by constants, which may be quantized and dequantized, in the
    order of the text: their positions are the same for all kinds of weights.
    """
    return [op for op in module.walk() if weight_of(op, is_quantized=True) is not None]


def cast_of(op: Operation) -> Operation | None:
    """
    Return the op that quantizes the weights of a product; `None` if they are not
    quantized.
    """
    weight = weight_of(op, is_quantized=True)
    assert weight is not None
    value, cast = op.operands[weight.operand], None
    while value is not weight.value:
        assert isinstance(value.owner, Operation)
        cast = value.owner
        value = cast.operands[0]
    return cast


def with_float_values(
    module: ModuleOp, quantized: ModuleOp
) -> tuple[ModuleOp, Sequence[tuple[Operation, Operation]]]:
    """
    Args:
        module: a float model.
        quantized: the same with weights that are quantized and dequantized.

    Returns:
        a copy of `quantized` whose values are those of the float model, and the products
        of these, in the order of `products_of`.
    """
    result = quantized.clone()
    found: list[tuple[Operation, Operation]] = []
    for original, op in zip(products_of(module), products_of(result), strict=True):
        weight = weight_of(original)
        assert weight is not None
        assert isinstance(weight.value.owner, Operation)
        constant, float_op = weight.value.owner.clone(), op.clone()
        float_op.operands[weight.operand] = constant.results[0]
        Rewriter.insert_op((constant, float_op), InsertPoint.before(op))
        op.results[0].replace_all_uses_with(float_op.results[0])
        found.append((float_op, op))
    return result, found


def check_finite_values(
    values: NDArray[np.float64], product: Operation, what: str
) -> None:
    """
    Raises:
        ValueError: if values of a product are not finite: it `takes values`, for example.
    """
    if not (is_finite := np.isfinite(values)).all():
        raise ValueError(
            f"{location_prefix(product.location)}error: '{op_name(product)}' op {what} "
            f"that are not finite, found {values[~is_finite][0]}; expected samples whose "
            "values are finite"
        )


def quantize_weights(module: ModuleOp, recipe: Recipe) -> ModuleOp:
    """
    Quantize and dequantize the weights of products; in mode `dynamic-range` products that
    can take stored weights do so.

    Args:
        module: a float model, which is not changed.
        recipe: what to quantize, and how.

    Returns:
        a copy, whose constants are still those of floats.

    Raises:
        RecipeError: if an override selects nothing, or says what has no effect on weights.
        ValueError: if there is no product by a constant, or all are kept in floating point.
        PassFailedException: if a weight is not finite.
    """
    quantized = module.clone()
    products = [op for op in quantized.walk() if weight_of(op) is not None]
    if not products:
        found = counted_names(float_ops_of(module)) or "no op of floats"
        raise ValueError(f"no weight of a product is in the model, found {found}")
    bits = _bits_of_products(recipe, products)
    if not bits:
        raise ValueError(f"recipe '{recipe.name}' keeps all weights in floating point")
    options = recipe.weights
    # One for all weights of a kind, as several products may take the same constant.
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
    """
    Let products take their weights as they are stored, if they can quantize activations.

    Raises:
        RecipeError: if the recipe asks for zero points, and a product of StableHLO can.
        ValueError: if no product can.
    """
    casts = {op: cast for op in ops if (cast := cast_of(op)) is not None}
    reasons = {
        op: model_dialect(op).hybrid_reason(op, cast.results[0])
        for op, cast in casts.items()
    }
    supported = [op for op, reason in reasons.items() if reason is None]
    if not supported:
        found = ", ".join(dict.fromkeys(filter(None, reasons.values())))
        raise ValueError(
            "no product of the model can quantize activations when it runs, found "
            f"{counted_names(reasons)}: {found}; use mode 'weight-only'"
        )
    for op in supported:
        dialect = model_dialect(op)
        if recipe.asymmetric_inputs and not dialect.has_zero_points:
            raise RecipeError(
                f"recipe '{recipe.name}': 'asymmetric-inputs' is for TensorFlow Lite, but "
                f"the model has a '{op_name(op)}', whose activations have no zero points; "
                "leave it out"
            )
        dialect.set_zero_points(op, wanted=recipe.asymmetric_inputs is not False)
        weight = weight_of(op, is_quantized=True)
        assert weight is not None
        dequantized = op.operands[weight.operand]
        op.operands[weight.operand] = casts[op].results[0]
        erase_unused(dequantized, PatternRewriter(op))


def _granularity(wanted: WeightGranularity, op: Operation) -> Granularity:
    if wanted == "block-or-axis":
        return "axis" if op_name(op).startswith("tfl.") else "block"
    return wanted


def _bits_of_products(
    recipe: Recipe, products: Sequence[Operation]
) -> Mapping[Operation, int]:
    """How wide the weights of products are, without those that stay floats."""
    if any(each.values or each.observer is not None for each in recipe.overrides):
        raise RecipeError(
            f"recipe '{recipe.name}': 'values' and 'observer' have no effect in mode "
            f"'{recipe.mode}', expected 'ops' or 'locations' with 'keep-float' or "
            "'weight-bits'"
        )
    names = {op: names_of([op]) for op in products}
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
