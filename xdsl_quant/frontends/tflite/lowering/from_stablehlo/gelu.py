"""Recognition of GELU, which StableHLO builds from other ops."""

from collections.abc import Sequence
from math import isclose, prod, sqrt

from xdsl.ir import SSAValue

from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect.chlo import ErfOp

from .building import filling_number


def _nested_factors(value: SSAValue, x: SSAValue | None) -> Sequence[SSAValue]:
    """Return the factors of nested products; `x` is a factor itself."""
    op = value.owner
    if value is x or not isinstance(op, stablehlo.MultiplyOp):
        return (value,)
    return (*_nested_factors(op.lhs, x), *_nested_factors(op.rhs, x))


def _scaled_operand(value: SSAValue, factor: float) -> SSAValue | None:
    """Return the value that is multiplied by a factor, or divided by its reciprocal."""
    op = value.owner
    if isinstance(op, stablehlo.MultiplyOp):
        for x, scale in (op.operands, op.operands[::-1]):
            number = filling_number(scale)
            if number is not None and isclose(number, factor, rel_tol=1e-6):
                return x
    if isinstance(op, stablehlo.DivideOp):
        number = filling_number(op.rhs)
        if number is not None and isclose(number * factor, 1, rel_tol=1e-6):
            return op.lhs
    return None


def _erf_operand(value: SSAValue) -> SSAValue | None:
    """Return `x` if a value is `1 + erf(x / sqrt(2))`."""
    op = value.owner
    if not isinstance(op, stablehlo.AddOp):
        return None
    for one, odd in (op.operands, op.operands[::-1]):
        if filling_number(one) == 1 and isinstance(odd.owner, ErfOp):
            return _scaled_operand(odd.owner.operand, sqrt(0.5))
    return None


def match_gelu(product: stablehlo.MultiplyOp) -> SSAValue | None:
    """Return `x` if a product is `0.5 * x * (1 + erf(x / sqrt(2)))`, in any order."""
    found = [_erf_operand(factor) for factor in _nested_factors(product.result, None)]
    x = next((operand for operand in found if operand is not None), None)
    if x is None:
        return None
    factors = _nested_factors(product.result, x)
    numbers = [filling_number(factor) for factor in factors]
    weights = [factor for factor in factors if _erf_operand(factor) is x]
    others = len(factors) - sum(number is not None for number in numbers)
    is_gelu = others == 2 and len(weights) == 1 and [*factors].count(x) == 1
    scale = prod(number for number in numbers if number is not None)
    return x if is_gelu and scale == 0.5 else None
