"""
Rounding of weights and correction of biases, to reduce the error of contractions.

[`gptq`][xdsl_quant.numerics.gptq.gptq] rounds weights so that the error of a matrix product
is small for its inputs `X` in the float model on samples. Only the matrix `XᵀX`, summed
over the samples, is stored for each matrix product.

A contraction with quantized weights `W_q` differs from the float one by `(W_q - W) x`. The
mean of this error over samples is subtracted from the bias for each output channel. The
method is that of [Nagel et al. 2019](https://arxiv.org/abs/1906.04721), section 4.2, with
measured means; `x` are values of the float model.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.dialects.quant import BlockScaledQuantizedType, RegionOp
from xdsl_quant.dialects.quant.traits import (
    AffineOpCoefficient,
    MultipliesAndAccumulates,
    has_quantization_trait,
    quantization_trait,
)
from xdsl_quant.dialects.quant.types import UniformType, scalar_or_element_type
from xdsl_quant.numerics import QuantizationParameters, dequantize
from xdsl_quant.numerics.gptq import gptq
from xdsl_quant.runtime.batches import Batch
from xdsl_quant.transforms.weights.layers.channels import constant_like
from xdsl_quant.transforms.weights.layers.inputs import MatrixProduct, matrix_product_of
from xdsl_quant.transforms.weights.layers.layer import (
    Layer,
    erase_unused,
    layer_of,
    without_activation,
)
from xdsl_quant.transforms.weights.quant_quantize_weights import (
    is_float_constant,
    is_lookup,
    weight_of,
)

from .errors import float_module
from .recording import RecordedModule, record
from .weight_only import (
    cast_of,
    check_finite_values,
    constant_weight,
    products_of,
    with_float_weights,
)

Floats = NDArray[np.float64]


def rounded_weights(
    module: ModuleOp,
    quantized: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None = None,
) -> Mapping[int, NDArray[np.floating]]:
    """
    Return weights rounded by GPTQ to representable values.

    Args:
        module: a float model.
        quantized: the same model with fake-quantized weights.
        batches: samples.
        entry: the function that takes the samples.

    Returns:
        A mapping from the position of a matrix product (among the contractions in module
        order) to its rounded weights. A product is omitted if its weights are unquantized,
        if no sample reaches it, or if another product takes its weights transposed.

    Raises:
        ValueError: if the model cannot be run, samples do not match, or a matrix product
            takes non-finite values.
    """
    casts = {
        number: cast
        for number, op in enumerate(products_of(quantized))
        if (cast := cast_of(op)) is not None
    }
    recorded = module.clone()
    products = _matrix_products(recorded, casts)
    if not products:
        return {}
    hessians = _hessians(recorded, products, batches, entry)
    # Products that share weights share a sum of `XᵀX`.
    sums: dict[Operation, dict[int, Floats]] = {}
    for number, hessian in hessians.items():
        by_dimension = sums.setdefault(casts[number], {})
        dimension = products[number].layer.dimension
        by_dimension[dimension] = hessian + by_dimension.get(dimension, 0)
    return {
        number: _rounded_by_gptq(
            products[number], _weight_parameters(casts[number]), hessian
        )
        for number in hessians
        # If one product takes the weights transposed, the sums cannot be added.
        if len(by_dimension := sums[casts[number]]) == 1
        for hessian in by_dimension.values()
    }


def set_weights(
    quantized: ModuleOp, weights: Mapping[int, NDArray[np.floating]]
) -> None:
    """
    Replace fake-quantized weights.

    Args:
        quantized: a model, which changes.
        weights: maps the position of a contraction, in module order, to its new weights.
    """
    for number, op in enumerate(products_of(quantized)):
        if number in weights and (cast := cast_of(op)) is not None:
            old = cast.operands[0]
            constant = constant_like(old, weights[number], old.type)
            constant.results[0].name_hint = old.name_hint
            Rewriter.insert_op(constant, InsertPoint.before(cast))
            cast.operands[0] = constant.results[0]
            erase_unused(old, PatternRewriter(cast))


def _matrix_products(
    module: ModuleOp, numbers: Container[int]
) -> Mapping[int, MatrixProduct]:
    return {
        number: product
        for number, op in enumerate(products_of(module))
        if number in numbers
        and (layer := layer_of(op)) is not None
        and (product := matrix_product_of(layer)) is not None
    }


def _weight_parameters(cast: Operation) -> QuantizationParameters:
    type_ = scalar_or_element_type(cast.results[0].type)
    if isinstance(type_, BlockScaledQuantizedType):
        return QuantizationParameters(
            type_.get_numbers()["scales"],
            storage=str(type_.storage_type),
            storage_min=type_.storage_range[0],
            block_sizes=type_.block_size_info,
        )
    assert isinstance(type_, UniformType)
    return QuantizationParameters.from_integer_type(type_)


def _hessians(
    module: ModuleOp,
    products: Mapping[int, MatrixProduct],
    batches: Iterable[Batch],
    entry: str | None,
) -> Mapping[int, Floats]:
    """Return `XᵀX`, summed over batches, for the inputs `X` of each matrix product."""
    keys = {number: _record_inputs(each, number) for number, each in products.items()}
    recorded = RecordedModule.of(module, entry)
    sums: dict[int, Floats] = {}
    for batch in batches:
        values = recorded.values(batch)
        for number, product in products.items():
            if keys[number][0] in values:
                inputs = product.inputs([values[key] for key in keys[number]])
                check_finite_values(
                    inputs, product.layer.product, "takes non-finite values"
                )
                sums[number] = inputs.swapaxes(1, 2) @ inputs + sums.get(number, 0)
    return sums


def _record_inputs(product: MatrixProduct, number: int) -> Sequence[str]:
    """Record the values that form the inputs of a matrix product; return their keys."""
    if product.input is not None:
        record(product.input, key := f"{number}")
        return [key]
    keys: list[str] = []
    for ops in product.probes():
        Rewriter.insert_op(ops, InsertPoint.before(product.layer.product))
        record(ops[-1].results[0], key := f"{number}:{len(keys)}")
        keys.append(key)
    return keys


def _rounded_by_gptq(
    product: MatrixProduct, parameters: QuantizationParameters, hessian: Floats
) -> NDArray[np.floating]:
    """Return the weights of a matrix product, rounded to multiples of their scales."""
    (zero_point,) = {*parameters.zero_points.flatten().tolist()}
    symmetric = QuantizationParameters(
        parameters.scales,
        expressed=parameters.expressed,
        quantized_dimension=parameters.quantized_dimension,
        block_sizes=parameters.block_sizes,
    )
    weights = product.layer.weights()
    ones = np.ones(weights.shape, symmetric.storage_dtype)
    scales = product.matrices(dequantize(ones, symmetric).astype(np.float64))
    stored = gptq(
        product.matrices(weights),
        hessian,
        scales,
        (parameters.storage_min - zero_point, parameters.storage_max - zero_point),
    )
    return product.weights(stored * scales)


# Kernels


def round_kernel_weights(
    resolved: ModuleOp, batches: Iterable[Batch], entry: str | None = None
) -> None:
    """
    Round the constant weights of quantized kernels.

    Constants with several uses, or with several zero points, do not change.

    Args:
        resolved: a model whose kernels have quantization parameters; its constants
            change.
        batches: samples.
        entry: the function that takes the samples.

    Raises:
        ValueError: if a matrix product takes non-finite values.
    """
    weights = _kernel_weights(resolved)
    exact = float_module(resolved, entry, keys=())
    products = _matrix_products(exact, weights)
    if not products:
        return
    for number, hessian in _hessians(exact, products, batches, entry).items():
        value, type_ = weights[number]
        parameters = QuantizationParameters.from_integer_type(type_)
        numbers = _rounded_by_gptq(products[number], parameters, hessian)
        assert isinstance(value.owner, Operation)
        rounded = constant_like(value, numbers, value.type)
        value.owner.properties["value"] = rounded.properties["value"]


class _TypedWeight(NamedTuple):
    value: SSAValue
    type: UniformType


def _kernel_weights(resolved: ModuleOp) -> Mapping[int, _TypedWeight]:
    """Map the position in `products_of`, after kernels are inlined, to the weights."""
    weights: dict[int, _TypedWeight] = {}
    number = 0
    for op in resolved.walk():
        trait, kernel = quantization_trait(op, AffineOpCoefficient), op.parent_op()
        if constant_weight(op) is not None:
            number += 1
        if trait is None or not (
            has_quantization_trait(op, MultipliesAndAccumulates) or is_lookup(op)
        ):
            continue
        port = op.operands[trait.operand]
        if not isinstance(kernel, RegionOp) or not isinstance(port, BlockArgument):
            continue
        value, type_ = kernel.inputs[port.index], kernel.specs[port.index]
        if not is_float_constant(value):
            continue
        if (
            isinstance(type_, UniformType)
            and value.has_one_use()
            and len({*type_.get_zero_points()}) == 1
        ):
            weights[number] = _TypedWeight(value, type_)
        number += 1
    return weights


def corrected_biases(
    module: ModuleOp,
    quantized: ModuleOp,
    batches: Iterable[Batch],
    entry: str | None = None,
) -> ModuleOp:
    """
    Subtract the mean error of each contraction with quantized weights from its bias.

    Contractions that cannot have a constant bias do not change.

    Args:
        module: a float model, which does not change.
        quantized: the same model with fake-quantized weights.
        batches: samples.
        entry: the function that takes the samples.

    Returns:
        A copy of the float model with corrected biases; quantize this copy instead.

    Raises:
        ValueError: if the model cannot be run, samples do not match, or a contraction has
            results that are not finite.
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
    """Return for each contraction the mean of float minus quantized, by channel."""
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
                    check_finite_values(each, layer.product, "has non-finite results")
                difference = products[0] - products[1]
                axes = tuple(d for d in range(difference.ndim) if d != layer.channel)
                sums[number] = sums.get(number, 0) + difference.sum(axes)
                size = difference.shape[layer.channel]
                counts[number] = counts.get(number, 0) + difference.size // size
    return {number: each / counts[number] for number, each in sums.items()}


def _recorded_products(
    module: ModuleOp,
    quantized: ModuleOp,
    layers: Mapping[int, Layer],
    entry: str | None,
) -> RecordedModule:
    both, products = with_float_weights(module, quantized)
    for number in layers:
        float_op, op = products[number]
        for name, each in (("float", float_op), ("quantized", op)):
            product = without_activation(each.clone())
            Rewriter.insert_op(product, InsertPoint.before(op))
            record(product.results[0], _product_key(number, name))
    return RecordedModule.of(both, entry)


def _product_key(number: int, name: str) -> str:
    return f"{number}:{name}"
