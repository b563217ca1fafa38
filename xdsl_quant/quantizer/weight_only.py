"""
Weight-only quantization: integer weights, and floating-point activations; and dynamic
range quantization, where products quantize activations when they run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xdsl.dialects.builtin import AnyFloat, BoolAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from xdsl_quant.calibration.instrumented_function import Batch
from xdsl_quant.diagnostics import counted_names, location_prefix, op_name
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.frontends.stablehlo.dialect.products import ProductOp
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.lowering.kernels import has_hybrid_kernel
from xdsl_quant.numerics import QuantizationParameters, dequantize, quantize
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.transforms.propagation.module_kernels import float_ops_of
from xdsl_quant.transforms.weights.layers.layer import erase_unused
from xdsl_quant.transforms.weights.quant_quantize_weights import (
    Granularity,
    QuantizeWeight,
    weight_of,
)

from .accuracy import Labels, Scores
from .dynamic_ranges import unsupported_reason
from .errors import OUTPUT, Error, result_errors, result_key
from .recipe import Recipe, Selector, WeightGranularity
from .recipe_files import RecipeError
from .recording import RecordedModule, record, record_results
from .report import ModelReport
from .report_data import KernelReport
from .selection import fail_to_select
from .weight_products import cast_of, products_of, with_float_values


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
    bits = _bits(recipe, products)
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
    reasons = {op: _unsupported_reason(op) for op in ops}
    supported = [op for op, reason in reasons.items() if reason is None]
    if not supported:
        found = ", ".join(dict.fromkeys(filter(None, reasons.values())))
        raise ValueError(
            "no product of the model can quantize activations when it runs, found "
            f"{counted_names(reasons)}: {found}; use mode 'weight-only'"
        )
    for op in supported:
        if isinstance(op, tfl.FullyConnectedOp):
            is_asymmetric = recipe.asymmetric_inputs is not False
            op.asymmetric_quantize_inputs = BoolAttr.from_bool(is_asymmetric)
        elif isinstance(op, ProductOp) and recipe.asymmetric_inputs:
            raise RecipeError(
                f"recipe '{recipe.name}': 'asymmetric-inputs' is for TensorFlow Lite, but "
                f"the model has a '{op.name}', whose activations have no zero points; "
                "leave it out"
            )
        cast, weight = cast_of(op), weight_of(op, is_quantized=True)
        assert cast is not None
        assert weight is not None
        dequantized = op.operands[weight.operand]
        op.operands[weight.operand] = cast.results[0]
        erase_unused(dequantized, PatternRewriter(op))


def _unsupported_reason(op: Operation) -> str | None:
    """Return why a product cannot quantize activations at run time; `None` if it can."""
    cast = cast_of(op)
    assert cast is not None
    if isinstance(op, ProductOp):
        return unsupported_reason(op, cast.results[0])
    if not isinstance(cast, tfl.QuantizeOp) or not has_hybrid_kernel(op):
        return "no hybrid kernel"
    type_ = scalar_or_element_type(cast.output.type)
    assert isinstance(type_, UniformType)
    parameters = QuantizationParameters.from_integer_type(type_)
    if isinstance(op, tfl.DepthwiseConv2DOp) and (
        parameters.storage_width != 8 or not parameters.scales.ndim
    ):
        return "LiteRT refuses these weights of a depthwise convolution"
    return None


def _granularity(wanted: WeightGranularity, op: Operation) -> Granularity:
    if wanted == "block-or-axis":
        return "axis" if op_name(op).startswith("tfl.") else "block"
    return wanted


def _bits(recipe: Recipe, products: Sequence[Operation]) -> Mapping[Operation, int]:
    """How wide the weights of products are, without those that stay floats."""
    bits = dict.fromkeys(products, recipe.weights.bits)
    for override in recipe.overrides:
        if override.values or override.observer is not None:
            raise RecipeError(
                f"recipe '{recipe.name}': 'values' and 'observer' have no effect in mode "
                f"'{recipe.mode}', expected 'ops' or 'locations' with 'keep-float' or "
                "'weight-bits'"
            )
        for selector in override.selectors:
            known = [_name(op, selector) for op in products]
            selected = [
                op
                for op, name in zip(products, known, strict=True)
                if selector.selects([name])
            ]
            if not selected:
                fail_to_select(recipe, selector, {*known})
            for op in selected:
                if override.keep_float:
                    bits.pop(op, None)
                elif override.weight_bits is not None:
                    bits[op] = override.weight_bits
                elif override.keep_float is not None:
                    bits.setdefault(op, recipe.weights.bits)
    return bits


def _name(op: Operation, selector: Selector) -> str:
    if selector.kind == "ops":
        return op_name(op)
    return location_prefix(op.location).removesuffix(": ")


# The report


def weight_errors(
    module: ModuleOp,
    quantized: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None = None,
) -> Mapping[str, Error]:
    """The errors of the results of a model with quantized weights."""
    function = entry_function(module, entry).sym_name.data
    exact = _recorded(module.clone(), function)
    return result_errors(exact, _recorded(quantized.clone(), function), batches)


def report_on_weights(
    module: ModuleOp,
    quantized: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None = None,
    labels: Labels | None = None,
) -> ModelReport:
    """
    Measure what the quantization of weights does to a model.

    Args:
        module: the float model.
        quantized: the same, with weights that are quantized and dequantized.
        batches: samples, best those that were not used to quantize it.
        entry: the function that takes the samples.
        labels: what is right for the samples.

    Raises:
        DataError: if the labels do not fit the results.
    """
    function = entry_function(module, entry).sym_name.data
    scores = None if labels is None else Scores.of(labels)
    runs = [
        _recorded(module.clone(), function),
        _recorded(quantized.clone(), function),
        _own(module, quantized, function),
    ]
    accumulated: dict[str, Error] = {}
    own: dict[str, Error] = {}
    for batch in batches:
        expected, *others = (run.values(batch) for run in runs)
        if scores is not None:
            scores.add(expected, others[0])
        for errors, values in zip((accumulated, own), others, strict=True):
            for key, found in values.items():
                errors.setdefault(key, Error()).add(expected[key], found, None)
    reports: list[KernelReport] = []
    known = set[SSAValue]()
    products = zip(products_of(module), products_of(quantized), strict=True)
    for number, (original, op) in enumerate(products):
        key = result_key(number, 0)
        reports.append(_report(original, op, accumulated[key], own[key]))
        weight = weight_of(original)
        assert weight is not None
        if weight.value in known:
            # What several products take counts for the first of them.
            reports[-1] = replace(reports[-1], float_bytes=0, stored_bytes=0)
        known.add(weight.value)
    outputs = {key: error.sqnr for key, error in accumulated.items() if OUTPUT in key}
    return ModelReport(reports, outputs, None if scores is None else scores.accuracy())


def _recorded(module: ModuleOp, function: str) -> RecordedModule:
    """A module that records the results of products and of a function."""
    for number, op in enumerate(products_of(module)):
        record(op.results[0], result_key(number, 0))
    for op in module.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == function:
            record_results(op, f"{function}:{OUTPUT}")
    return RecordedModule.of(module, function)


def _own(module: ModuleOp, quantized: ModuleOp, function: str) -> RecordedModule:
    """A module of floats that records products of its values by quantized weights."""
    both, products = with_float_values(module, quantized)
    for number, (_, op) in enumerate(products):
        record(op.results[0], result_key(number, 0))
    return RecordedModule.of(both, function)


def _report(
    original: Operation, op: Operation, accumulated: Error, own: Error
) -> KernelReport:
    weight, stored = weight_of(original), weight_of(op, is_quantized=True)
    assert weight is not None
    assert stored is not None
    elements, rounded = weight.elements(), stored.elements()
    assert elements is not None
    assert rounded is not None
    type_ = None
    expressed = scalar_or_element_type(weight.value.type)
    assert isinstance(expressed, AnyFloat)
    size = elements.size * expressed.bitwidth
    stored_size, weight_sqnr = size, math.nan
    if (cast := cast_of(op)) is not None:
        type_ = scalar_or_element_type(cast.results[0].type)
        assert isinstance(type_, UniformType)
        parameters = QuantizationParameters.from_integer_type(type_)
        error = Error()
        rounded = rounded.astype(parameters.expressed_dtype)
        found = dequantize(quantize(rounded, parameters), parameters)
        error.add(elements.astype(parameters.expressed_dtype), found, None)
        stored_size, weight_sqnr = elements.size * parameters.storage_width, error.sqnr
    return KernelReport(
        op_name(op),
        location_prefix(op.location).removesuffix(": "),
        "",
        "" if type_ is None else str(type_),
        accumulated.sqnr,
        own.sqnr,
        weight_sqnr,
        0.0,
        -(-size // 8),
        -(-stored_size // 8),
    )
