"""
Contractions (matrix products and convolutions) with constant weights, and the quantization
of these weights, for weight-only and dynamic range quantization.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.diagnostics import counted_names, location_prefix, op_name
from xdsl_quant.runtime.model_dialects import BlockScales
from xdsl_quant.transforms.propagation.module_kernels import float_ops_outside_kernels
from xdsl_quant.transforms.weights.layers.layer import erase_unused
from xdsl_quant.transforms.weights.quant_quantize_weights import (
    Granularity,
    QuantizeWeight,
    Weight,
    weight_of,
)

from .dynamic_ranges import model_dialect
from .recipe import Recipe, WeightGranularity, WeightOptions
from .recipe_files import RecipeError
from .selection import check_selectors, overrides_of, selector_names
from .user_warnings import warn_user


def products_of(module: ModuleOp) -> Sequence[Operation]:
    """
    Return the contractions with constant weights and the lookups in constant tables,
    quantized or not, in module order. An op has the same position in float and quantized
    modules.
    """
    return [op for op in module.walk() if constant_weight(op) is not None]


def constant_weight(op: Operation) -> Weight | None:
    """Return the constant weight, quantized or not, of a contraction or lookup."""
    return weight_of(op, is_quantized=True, includes_tables=True)


def cast_of(op: Operation) -> Operation | None:
    """Return the op that quantizes the weights of a contraction, or `None`."""
    weight = constant_weight(op)
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
        weight = constant_weight(original)
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
    products = [
        op
        for op in products_of(quantized)
        if weight_of(op) is not None or _uses_blocks(op, recipe)
    ]
    if not products:
        found = counted_names(float_ops_outside_kernels(module)) or "no float op"
        raise ValueError(
            f"the model has no product with constant weights, found {found}"
        )
    bits = _bits_of_products(recipe, products)
    bits = {op: n for op, n in bits.items() if _is_quantizable(op, recipe, n)}
    if not bits:
        raise ValueError(
            f"recipe '{recipe.name}' keeps all weights in float, by its overrides or blocks"
        )
    _cast_weights(bits, recipe.weights)
    if recipe.mode == "dynamic-range":
        _take_stored_weights(bits, recipe)
    return quantized


def _cast_weights(bits: Mapping[Operation, int], options: WeightOptions) -> None:
    # Share patterns, because several products may take the same constant.
    patterns: dict[tuple[int, Granularity, BlockScales], QuantizeWeight] = {}
    for op, width in bits.items():
        granularity = _granularity(options.granularity, op)
        kind = width, granularity, model_dialect(op).block_scales
        if kind not in patterns:
            patterns[kind] = QuantizeWeight(
                width,
                granularity,
                options.block_size,
                options.range,
                options.narrow_range,
                kind[-1],
            )
        patterns[kind].match_and_rewrite(op, PatternRewriter(op))


def _uses_blocks(op: Operation, recipe: Recipe) -> bool:
    return _granularity(recipe.weights.granularity, op) == "block"


def _is_quantizable(op: Operation, recipe: Recipe, bits: int) -> bool:
    """Return False for weights that stay floats; warn of those without whole blocks."""
    options, weight = recipe.weights, constant_weight(op)
    assert weight is not None
    if not _uses_blocks(op, recipe):
        return True
    if not model_dialect(op).supports_blocks(op, bits):
        return False
    if options.partial_blocks == "resize" or not weight.contracting_dimensions:
        return True
    shape = cast(TensorType, weight.value.type).get_shape()
    size = shape[max(weight.contracting_dimensions)]
    if not size % options.block_size:
        return True
    place = location_prefix(op.location)
    problem = (
        f"'{op_name(op)}' op has {size} weights along its blocks, expected a multiple of "
        f"{options.block_size}"
    )
    if options.partial_blocks == "error":
        raise ValueError(
            f"{place}error: {problem}; use another 'block-size' or 'partial-blocks'"
        )
    warn_user(f"{place}{problem}; they stay in floating point")
    return False


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
        problem = f"{counted_names(reasons)}: {found}"
        if recipe.weights.granularity != "block":
            raise ValueError(
                f"cannot quantize activations at run time: {problem}; use mode "
                "'weight-only'"
            )
        warn_user(f"activations stay in floating point: {problem}")
    for op in supported:
        dialect = model_dialect(op)
        has_choice = dialect.has_zero_points and not _uses_blocks(op, recipe)
        if recipe.asymmetric_inputs is (not dialect.has_zero_points) and not has_choice:
            number = "always have" if dialect.has_zero_points else "have no"
            raise RecipeError(
                f"recipe '{recipe.name}': 'asymmetric-inputs' has no effect on "
                f"'{op_name(op)}', whose activations {number} zero points; leave it out"
            )
        dialect.set_zero_points(op, wanted=recipe.asymmetric_inputs is not False)
        weight = constant_weight(op)
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
