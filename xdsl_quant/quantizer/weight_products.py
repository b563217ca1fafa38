"""Products by constants, in a float model and in one with quantized weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from xdsl_quant.diagnostics import location_prefix, op_name
from xdsl_quant.transforms.weights.quant_quantize_weights import weight_of


def products_of(module: ModuleOp) -> Sequence[Operation]:
    """
    The products by constants, which may be quantized and dequantized, in the order of the
    text: their positions are the same for all kinds of weights.
    """
    return [op for op in module.walk() if weight_of(op, is_quantized=True) is not None]


def cast_of(op: Operation) -> Operation | None:
    """The op that quantizes the weights of a product; `None` if they are not quantized."""
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
