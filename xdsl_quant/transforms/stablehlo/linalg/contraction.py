"""
Sums of products: what matrix products and convolutions have in common.

Products are summed up in the type of the result, in f32 for narrower floats, whose sums
are rounded once, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import AnyFloat, TensorType, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineMap

from xdsl_quant.transforms.building.builder import (
    LoweringBuilder,
    dimensions,
    static_sizes,
)

from .conversions import converted
from .element_types import is_float, signless
from .loops import Contraction, Loop, Operand, computed_once, used_loops
from .scalars import product, total
from .tiling import tiled


def sum_of_products(
    builder: LoweringBuilder, contraction: Contraction, element_type: Attribute
) -> SSAValue:
    """
    Sums of products as one loop nest.

    Args:
        builder: where the ops are inserted.
        contraction: what is multiplied.
        element_type: the element type of the result, with its sign.
    """
    sum_type = element_type
    if is_float(element_type) and cast(AnyFloat, element_type).bitwidth < 32:
        sum_type = f32
    sizes = contraction.result_sizes
    shape = static_sizes(sizes)
    if 0 in shape:
        # Loops that do not run may have indices out of bounds, which MLIR finds wrong.
        return builder.zeros(TensorType(signless(element_type), shape), sizes)
    tiles = tiled(builder, contraction, sum_type)
    sums = _loop_nest(builder, tiles or contraction, sum_type)
    sums = builder.reshaped(sums, TensorType(signless(sum_type), shape), sizes)
    if sum_type == element_type:
        return sums
    return builder.rearranged(
        sums,
        TensorType(element_type, shape),
        sizes,
        dimensions(range(len(sizes))),
        lambda body, args: converted(body, args[0], sum_type, element_type),
    )


def _loop_nest(
    builder: LoweringBuilder, contraction: Contraction, sum_type: Attribute
) -> SSAValue:
    _, _, loops, result, product_type, lhs_range, initial = contraction
    lhs, rhs = (
        computed_once(builder, operand)
        if _is_computed_often(operand, loops)
        else operand
        for operand in (contraction.lhs, contraction.rhs)
    )
    product_type = product_type or sum_type
    if initial is None:
        sizes = contraction.result_sizes
        initial = builder.zeros(
            TensorType(signless(sum_type), static_sizes(sizes)), sizes
        )
    lhs_type = lhs_range or lhs.element_type

    def body(body: LoweringBuilder, args: Sequence[SSAValue]) -> SSAValue:
        lhs_value, rhs_value, so_far = args
        lhs_value = converted(body, lhs_value, lhs.element_type, lhs_type)
        factors = (
            converted(body, lhs_value, lhs_type, product_type),
            converted(body, rhs_value, rhs.element_type, product_type),
        )
        term = converted(body, product(body, *factors), product_type, sum_type)
        return total(body, so_far, term)

    return builder.generic(
        [lhs.value, rhs.value],
        [initial],
        [
            AffineMap(len(loops), 0, tuple(indices))
            for indices in (lhs.indices, rhs.indices, dimensions(result))
        ],
        [loop.kind for loop in loops],
        body,
    )


_FUSED = ("arith.", "linalg.generic", "math.")


def _is_computed_often(operand: Operand, loops: Sequence[Loop]) -> bool:
    """Whether elements are computed, and would be for several products if fused."""
    owner = operand.value.owner
    if not isinstance(owner, Operation) or not owner.name.startswith(_FUSED):
        return False
    used = used_loops(operand.indices)
    return not isinstance(owner, ConstantOp) and any(
        loop not in used and size != 1 for loop, (size, _) in enumerate(loops)
    )
