"""
Preparation of float StableHLO models: simplification for kernel matching, and contractions
that quantize activations at run time.

Frontends such as jax emit casts that change no type, and chains of ops that compute
weights and biases from constants. Simplification removes the casts and folds the chains.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, ModuleOp, TensorType, UnknownLoc, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import Rewriter

from xdsl_quant.dialects.quant.dialect_ops import QUANT_OPS
from xdsl_quant.dialects.quant.types import (
    scalar_or_element_type,
    with_element_type,
)
from xdsl_quant.numerics.float_dtypes import float_dtype
from xdsl_quant.runtime.arrays import constant_elements, elements_attr
from xdsl_quant.runtime.loading import apply_passes
from xdsl_quant.runtime.model_dialects import ModelDialect
from xdsl_quant.runtime.plugins import optional_module
from xdsl_quant.transforms.statistics.quant_convert_const import QuantConvertConstPass

from . import dialect as stablehlo
from .dialect.attributes import ComparisonDirection
from .dialect.products import ProductOp
from .loops import split_product, unroll
from .lowering.integers.elementwise import quantized_type_of
from .lowering.integers.hybrid_products import (
    DequantizedWeightToStablehlo,
    HybridProductToIntegers,
)
from .lowering.stablehlo_legalize_quant_composite import LegalizeFakeQuant
from .lowering.stablehlo_legalize_quant_to_integer import ConstantToIntegers

_TO_INTEGERS = (
    ConstantToIntegers(),
    HybridProductToIntegers(),
    DequantizedWeightToStablehlo(),
)


class _StableHLOModels(ModelDialect):
    has_zero_points = False

    def simplify(self, op: Operation) -> None:
        if isinstance(op, stablehlo.WhileOp):
            new_ops = unroll(op)
            for new in new_ops:
                self.simplify(new)
            for new in new_ops:
                split_product(new)
            return
        for simplify in (
            _legalize_fake_quant,
            _remove_identity_cast,
            _fold_converted_constant,
            _fold_arithmetic,
            _remove_neutral_operand,
            _fold_moved_constant,
            _combine_broadcasts,
            _combine_logistic,
            _compare_mask,
            _fold_batch_norm,
        ):
            if op.parent is not None:
                simplify(op)

    def hybrid_reason(self, product: Operation, weights: SSAValue) -> str | None:
        if not isinstance(product, ProductOp):
            return super().hybrid_reason(product, weights)
        hybrid = product.clone()
        hybrid.operands[1] = weights
        try:
            HybridProductToIntegers().form(hybrid)
        except ValueError as e:
            return str(e)
        finally:
            hybrid.erase()
        return None

    def quantize_activations(self, module: ModuleOp) -> None:
        """Replace hybrid contractions by integer ones; lower `quant.dcast` to StableHLO."""
        products = (op for op in module.walk() if isinstance(op, ProductOp))
        if not any(quantized_type_of(op.rhs.type) for op in products):
            return
        apply_passes(module, [QuantConvertConstPass()], is_routine=True)
        for pattern in _TO_INTEGERS:
            pattern.rewrite_module(module)


STABLEHLO_MODELS = _StableHLOModels()


# Simplification


def _legalize_fake_quant(op: Operation) -> None:
    # Calibration runs casts of the quant dialect; both dialects' become constraints.
    LegalizeFakeQuant(QUANT_OPS).match_and_rewrite(op, PatternRewriter(op))


def _remove_identity_cast(op: Operation) -> None:
    if isinstance(op, stablehlo.ConvertOp) and op.operand.type == op.result.type:
        Rewriter.replace_op(op, (), (op.operand,))


def _fold_converted_constant(op: Operation) -> None:
    """Fold conversions of constants to floats, such as factors of 1 that PyTorch emits."""
    if not isinstance(op, stablehlo.ConvertOp) or not _is_float_tensor(op.result.type):
        return
    elements = constant_elements(op.operand)
    if elements is None or elements.dtype.kind not in "biuf":
        return
    element_type = op.result.type.element_type
    folded = elements.astype(float_dtype(element_type.name))
    _replace_with(op, stablehlo.ConstantOp(elements_attr(folded, element_type)))


_ARITHMETIC: Mapping[type[Operation], Callable[..., NDArray[np.generic]]] = {
    stablehlo.AddOp: np.add,
    stablehlo.DivideOp: np.divide,
    stablehlo.MultiplyOp: np.multiply,
    stablehlo.SqrtOp: np.sqrt,
    stablehlo.SubtractOp: np.subtract,
}


def _fold_arithmetic(op: Operation) -> None:
    """Fold arithmetic of float constants, such as the factors of a batch norm."""
    function, sources = _ARITHMETIC.get(type(op)), [x.owner for x in op.operands]
    if function is None or not _is_float_tensor(op.results[0].type):
        return
    constants = [each for each in sources if isinstance(each, stablehlo.ConstantOp)]
    elements = [constant_elements(each.output) for each in constants]
    arrays = [array for array in elements if array is not None]
    if not arrays or len(arrays) < len(sources):
        return
    with np.errstate(all="ignore"):
        folded = function(*arrays)
    _replace_with(op, _constant_like(constants[0], folded))


_NEUTRAL_OPERANDS: Mapping[type[Operation], tuple[float, Sequence[int]]] = {
    # jax emits this maximum in a softmax.
    stablehlo.MaximumOp: (-np.inf, (0, 1)),
    stablehlo.MultiplyOp: (1.0, (0, 1)),
    stablehlo.DivideOp: (1.0, (1,)),
}
"""Constant that leaves the other float operand unchanged, and its possible indices."""


def _remove_neutral_operand(op: Operation) -> None:
    """Remove an op that returns one operand because the other is a neutral constant."""
    number, indices = _NEUTRAL_OPERANDS.get(type(op), (0.0, ()))
    for index in indices:
        value, neutral = op.operands[1 - index], op.operands[index]
        is_same_type = value.type == op.results[0].type
        if is_same_type and _is_filled_with(neutral, number):
            Rewriter.replace_op(op, (), (value,))
            _erase_unused(neutral.owner)
            return


def _is_filled_with(value: SSAValue, number: float) -> bool:
    """Return True for a float constant, possibly broadcast, of equal elements."""
    elements = _unbroadcast_elements(value)
    return elements is not None and bool(np.all(elements == number))


def _unbroadcast_elements(value: SSAValue) -> NDArray[np.generic] | None:
    """Return the elements of a float constant before any broadcast; otherwise `None`."""
    while isinstance(
        value.owner, stablehlo.BroadcastInDimOp | stablehlo.DynamicBroadcastInDimOp
    ):
        value = value.owner.operands[0]
    if not isinstance(value.owner, stablehlo.ConstantOp):
        return None
    return constant_elements(value) if _is_float_tensor(value.type) else None


def _fold_moved_constant(op: Operation) -> None:
    """Fold transposes and reshapes of float constants, e.g. of weights."""
    if not isinstance(op, stablehlo.TransposeOp | stablehlo.ReshapeOp):
        return
    source, type_ = op.operands[0].owner, op.results[0].type
    # torch-mlir prints scalars as constants of arith.
    is_constant = isinstance(source, stablehlo.ConstantOp | arith.ConstantOp)
    if not is_constant or not _is_float_tensor(type_):
        return
    elements = constant_elements(op.operands[0])
    assert elements is not None
    if isinstance(op, stablehlo.TransposeOp):
        elements = elements.transpose(op.permutation.get_values())
    elements = elements.reshape(type_.get_shape())
    _replace_with(op, _constant_like(source, elements))


def _combine_broadcasts(op: Operation) -> None:
    """Merge broadcasts of a constant and drop its unit dimensions, for bias correction."""
    if not isinstance(op, stablehlo.BroadcastInDimOp):
        return
    dimensions = op.broadcast_dimensions.get_values()
    inner, constant = op.operands[0].owner, op.operands[0].owner
    if isinstance(inner, stablehlo.BroadcastInDimOp):
        constant = inner.operands[0].owner
        dimensions = [dimensions[i] for i in inner.broadcast_dimensions.get_values()]
    if not isinstance(constant, stablehlo.ConstantOp) or not _is_float_tensor(
        constant.output.type
    ):
        return
    shape = constant.output.type.get_shape()
    if constant is inner and 1 not in shape:
        return
    elements = constant_elements(constant.output)
    assert elements is not None
    squeezed = _constant_like(constant, elements.squeeze())
    targets = [d for d, size in zip(dimensions, shape, strict=True) if size != 1]
    broadcast = stablehlo.BroadcastInDimOp(
        squeezed, result_types=op.result_types, broadcast_dimensions=targets
    )
    _replace_with(op, squeezed, broadcast)


def _combine_logistic(op: Operation) -> None:
    """
    Replace `1 / (1 + exp(-x))`, as jax emits it, by the logistic function: the exponential
    has a large range, and the sum loses the small quotients in 8 bits.
    """
    if not isinstance(op, stablehlo.DivideOp) or not _is_filled_with(op.lhs, 1.0):
        return
    total = op.rhs.owner
    if not isinstance(total, stablehlo.AddOp):
        return
    for one, power in (total.operands, total.operands[::-1]):
        if _is_filled_with(one, 1.0) and isinstance(
            exponential := power.owner, stablehlo.ExponentialOp
        ):
            negative = exponential.operand.owner
            if isinstance(negative, stablehlo.NegateOp):
                _replace_with(op, stablehlo.LogisticOp(negative.operand))
                return


def _compare_mask(op: Operation) -> None:
    """
    Replace a comparison of masked scores with negative infinity, by which PyTorch finds
    fully masked rows, by the predicate of the mask: other scores are finite.
    """
    if (
        isinstance(op, stablehlo.CompareOp)
        and op.comparison_direction.data == ComparisonDirection.EQ
        and _is_filled_with(op.rhs, -np.inf)
        and (new_ops := _mask_predicate(op.lhs))
    ):
        _replace_with(op, *new_ops)


def _mask_predicate(value: SSAValue) -> Sequence[Operation]:
    """Return ops that find the elements that a mask makes infinite; empty if unknown."""
    op = value.owner
    if isinstance(op, stablehlo.AddOp):
        return _mask_predicate(op.lhs) or _mask_predicate(op.rhs)
    if isinstance(op, stablehlo.BroadcastInDimOp):
        if not (ops := _mask_predicate(op.operands[0])):
            return ()
        dimensions = op.broadcast_dimensions.get_values()
        type_ = with_element_type(value.type, i1)
        broadcast = stablehlo.BroadcastInDimOp(
            ops[-1].results[0], result_types=[type_], broadcast_dimensions=dimensions
        )
        return *ops, broadcast
    if not isinstance(op, stablehlo.SelectOp):
        return ()
    if _is_filled_with(op.on_false, -np.inf):
        return (stablehlo.NotOp(op.pred),)
    constants = map(_unbroadcast_elements, (op.on_true, op.on_false))
    if all(each is not None and np.isfinite(each).all() for each in constants):
        # No element is infinite.
        return (stablehlo.XorOp(op.pred, op.pred),)
    return ()


def _fold_batch_norm(op: Operation) -> None:
    """
    Fold a factor or term per channel into the product before it: a batch normalization
    that is quantized by itself rounds the results twice, and scales them per tensor.
    """
    if not isinstance(op, stablehlo.AddOp | stablehlo.MultiplyOp):
        return
    fold = optional_module("transforms.float_layers.quant_fold_batch_norm")
    if fold is None:
        return
    for value in op.operands:
        inner = value.owner
        if isinstance(inner, stablehlo.AddOp):
            owners = (term.owner for term in inner.operands)
            inner = next((o for o in owners if isinstance(o, ProductOp)), inner)
        if isinstance(inner, ProductOp):
            fold.FoldBatchNorm().match_and_rewrite(inner, PatternRewriter(inner))
            return


def _is_float_tensor(type_: Attribute) -> TypeGuard[TensorType[AnyFloat]]:
    is_float = isinstance(scalar_or_element_type(type_), AnyFloat)
    return is_float and isinstance(type_, TensorType)


def _constant_like(
    source: stablehlo.ConstantOp | arith.ConstantOp, elements: NDArray[np.generic]
) -> stablehlo.ConstantOp:
    """Return a constant with the element type, location and name of `source`."""
    element_type = scalar_or_element_type(source.results[0].type)
    assert isinstance(element_type, AnyFloat)
    constant = stablehlo.ConstantOp(elements_attr(elements, element_type))
    constant.location = source.location
    constant.output.name_hint = source.results[0].name_hint
    return constant


def _replace_with(op: Operation, *new_ops: Operation) -> None:
    """Replace an op by new ops, and erase the operands that are unused afterwards."""
    if isinstance(new_ops[-1].location, UnknownLoc):
        new_ops[-1].location = op.location
    owners = [operand.owner for operand in op.operands]
    Rewriter.replace_op(op, new_ops)
    for owner in owners:
        _erase_unused(owner)


def _erase_unused(op: Operation | Block) -> None:
    """Erase an unused op, such as a constant, then its unused operands."""
    if isinstance(op, Operation) and all(
        result.first_use is None for result in op.results
    ):
        owners = [operand.owner for operand in op.operands]
        Rewriter.erase_op(op)
        for owner in owners:
            _erase_unused(owner)
