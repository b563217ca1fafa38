"""Elementwise ops: arithmetic, comparisons, logic and activations."""

import math
from collections.abc import Mapping, Sequence
from functools import partial, reduce

import numpy as np
from xdsl.dialects.builtin import AnyFloat, f64
from xdsl.ir import SSAValue

from xdsl_quant.frontends.onnx.graph_builder import Conversion, GraphBuilder
from xdsl_quant.frontends.onnx.node import Node
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.dialect import ComparisonDirection, chlo
from xdsl_quant.frontends.stablehlo.dialect.elementwise import BinaryOp, UnaryOp
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.transforms.building.signless_types import has_signedness
from xdsl_quant.unsupported import Unsupported

from .element_types import convert_elements

# Families


def _unary_op(
    op_type: type[UnaryOp | chlo.CHLOFunctionOp],
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
) -> SSAValue:
    return b.add(op_type(x))


def _binary_op(
    op_type: type[BinaryOp], b: GraphBuilder, node: Node, x: SSAValue, y: SSAValue
) -> SSAValue:
    return b.compute(op_type, x, y)


def _variadic(
    op_type: type[BinaryOp], b: GraphBuilder, node: Node, *values: SSAValue
) -> SSAValue:
    if None in values:
        raise Unsupported("an operand is missing; expected the name of a value")
    return reduce(partial(b.compute, op_type), values)


def _comparison_op(
    direction: ComparisonDirection,
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    y: SSAValue,
) -> SSAValue:
    return b.compare(direction, x, y)


# Arithmetic


def _abs(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    return x if has_signedness(x.type) else b.add(stablehlo.AbsOp(x))


def _sign(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    if has_signedness(x.type):
        return b.compute(stablehlo.MinimumOp, x, 1)
    return b.add(stablehlo.SignOp(x))


def _reciprocal(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    return b.compute(stablehlo.DivideOp, 1, x)


def _mean(b: GraphBuilder, node: Node, *values: SSAValue) -> SSAValue:
    total = _variadic(stablehlo.AddOp, b, node, *values)
    return b.compute(stablehlo.DivideOp, total, len(values))


def _mod(b: GraphBuilder, node: Node, x: SSAValue, y: SSAValue) -> SSAValue:
    rest = b.compute(stablehlo.RemainderOp, x, y)
    if node.flag("fmod") or has_signedness(x.type):
        return rest
    # The result has the sign of `y`.
    signs = (b.compare(ComparisonDirection.LT, value, 0) for value in (rest, y))
    has_other_sign = b.compute(stablehlo.XorOp, *signs)
    is_nonzero = b.compare(ComparisonDirection.NE, rest, 0)
    is_wrong = b.compute(stablehlo.AndOp, has_other_sign, is_nonzero)
    return b.select(is_wrong, b.compute(stablehlo.AddOp, rest, y), rest)


def _pow(b: GraphBuilder, node: Node, x: SSAValue, y: SSAValue) -> SSAValue:
    """Build powers, in f64 if the base is an integer but the exponent is a float."""
    if (exponent := _known_exponent(b, x, y)) in (2, 3):
        # As onnxruntime does.
        square = b.compute(stablehlo.MultiplyOp, x, x)
        return square if exponent == 2 else b.compute(stablehlo.MultiplyOp, square, x)
    types = element_type_of(x), element_type_of(y)
    are_floats = [isinstance(type_, AnyFloat) for type_ in types]
    wide = f64 if f64 in types or are_floats == [False, True] else types[0]
    power = b.compute(stablehlo.PowerOp, b.convert(x, wide), b.convert(y, wide))
    return convert_elements(b, power, types[0])


def _known_exponent(b: GraphBuilder, x: SSAValue, y: SSAValue) -> float | None:
    """Return the only element of `y` if it is constant and does not enlarge the rank."""
    known = b.known(y)
    if known is None or known.size != 1 or known.ndim > len(shape_of(x)):
        return None
    return float(known.reshape(-1)[0])


def _bit_shift(b: GraphBuilder, node: Node, x: SSAValue, y: SSAValue) -> SSAValue:
    if node.text("direction", "") == "LEFT":
        return b.compute(stablehlo.ShiftLeftOp, x, y)
    if has_signedness(x.type):
        return b.compute(stablehlo.ShiftRightLogicalOp, x, y)
    return b.compute(stablehlo.ShiftRightArithmeticOp, x, y)


def _clip(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    low: SSAValue | None = None,
    high: SSAValue | None = None,
) -> SSAValue:
    if low is not None and high is not None:
        return b.add(
            stablehlo.ClampOp(b.reshape_to(low, ()), x, b.reshape_to(high, ()))
        )
    if low is not None:
        return b.compute(stablehlo.MaximumOp, x, low)
    return x if high is None else b.compute(stablehlo.MinimumOp, x, high)


# Tests


def _is_nan(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    return b.compare(ComparisonDirection.NE, x, x)


def _is_inf(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    match (
        node.flag("detect_negative", default=True),
        node.flag("detect_positive", default=True),
    ):
        case True, True:
            return b.add(chlo.IsInfOp(x))
        case True, False:
            return b.add(chlo.IsNegInfOp(x))
        case False, True:
            return b.add(chlo.IsPosInfOp(x))
        case _:
            return b.broadcast(b.tensor(np.array(False)), shape_of(x))


def _where(
    b: GraphBuilder, node: Node, condition: SSAValue, x: SSAValue, y: SSAValue
) -> SSAValue:
    return b.select(condition, x, y)


# Activations


def _relu(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    return b.compute(stablehlo.MaximumOp, x, 0)


def _leaky_relu(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    below = b.compute(stablehlo.MultiplyOp, x, node.number("alpha", 0.01))
    return b.select(b.compare(ComparisonDirection.GE, x, 0), x, below)


def _prelu(b: GraphBuilder, node: Node, x: SSAValue, slope: SSAValue) -> SSAValue:
    below = b.compute(stablehlo.MultiplyOp, x, slope)
    return b.select(b.compare(ComparisonDirection.GE, x, 0), x, below)


def _thresholded_relu(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    is_above = b.compare(ComparisonDirection.GT, x, node.number("alpha", 1))
    return b.select(is_above, x, 0)


def _exponential_unit(
    b: GraphBuilder, x: SSAValue, alpha: float, width: float
) -> SSAValue:
    """Build `alpha * (exp(x / width) - 1)` below zero, and `x` above."""
    exponent = x if width == 1 else b.compute(stablehlo.DivideOp, x, width)
    below = b.add(stablehlo.ExponentialMinusOneOp(exponent))
    if alpha != 1:
        below = b.compute(stablehlo.MultiplyOp, below, alpha)
    return b.select(b.compare(ComparisonDirection.GT, x, 0), x, below)


def _elu(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    return _exponential_unit(b, x, node.number("alpha", 1), 1)


def _selu(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    alpha = node.number("alpha", 1.67326319217681884765625)
    gamma = node.number("gamma", 1.05070102214813232421875)
    return b.compute(stablehlo.MultiplyOp, _exponential_unit(b, x, alpha, 1), gamma)


def _celu(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    alpha = node.number("alpha", 1)
    return _exponential_unit(b, x, alpha, alpha)


def _linear_clamp(b: GraphBuilder, x: SSAValue, alpha: float, beta: float) -> SSAValue:
    scaled = b.compute(stablehlo.MultiplyOp, x, alpha)
    return b.clamp(b.compute(stablehlo.AddOp, scaled, beta), 0, 1)


def _hard_sigmoid(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    return _linear_clamp(b, x, node.number("alpha", 0.2), node.number("beta", 0.5))


def _hard_swish(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    return b.compute(stablehlo.MultiplyOp, x, _linear_clamp(b, x, 1 / 6, 0.5))


def _softplus(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    """Build `log(1 + exp(x))` without overflow."""
    magnitude = b.add(stablehlo.AbsOp(x))
    power = b.add(stablehlo.ExponentialOp(b.add(stablehlo.NegateOp(magnitude))))
    return b.compute(
        stablehlo.AddOp,
        b.compute(stablehlo.MaximumOp, x, 0),
        b.add(stablehlo.LogPlusOneOp(power)),
    )


def _mish(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    factor = b.add(stablehlo.TanhOp(_softplus(b, node, x)))
    return b.compute(stablehlo.MultiplyOp, x, factor)


def _softsign(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    divisor = b.compute(stablehlo.AddOp, b.add(stablehlo.AbsOp(x)), 1)
    return b.compute(stablehlo.DivideOp, x, divisor)


def _swish(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    alpha = node.number("alpha", 1)
    scaled = x if alpha == 1 else b.compute(stablehlo.MultiplyOp, x, alpha)
    return b.compute(stablehlo.MultiplyOp, x, b.add(stablehlo.LogisticOp(scaled)))


def _swiglu(b: GraphBuilder, node: Node, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.compute(stablehlo.MultiplyOp, _swish(b, node, x), y)


def _gelu(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    return gelu(b, x, is_approximate=node.text("approximate", "none") == "tanh")


def gelu(b: GraphBuilder, x: SSAValue, *, is_approximate: bool) -> SSAValue:
    """Build `x * Phi(x)`, or its approximation with tanh."""
    if is_approximate:
        square = b.compute(stablehlo.MultiplyOp, x, x)
        factor = b.compute(stablehlo.MultiplyOp, square, 0.044715)
        sum_ = b.compute(stablehlo.AddOp, factor, 1)
        inner = b.compute(stablehlo.MultiplyOp, x, math.sqrt(2 / math.pi))
        inner = b.compute(stablehlo.MultiplyOp, inner, sum_)
        odd = b.add(stablehlo.TanhOp(inner))
    else:
        odd = b.add(chlo.ErfOp(b.compute(stablehlo.MultiplyOp, x, math.sqrt(0.5))))
    weight = b.compute(stablehlo.AddOp, odd, 1)
    return b.compute(
        stablehlo.MultiplyOp, b.compute(stablehlo.MultiplyOp, x, 0.5), weight
    )


def _shrink(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    bound, bias = node.number("lambd", 0.5), node.number("bias", 0)
    is_below = b.compare(ComparisonDirection.LT, x, -bound)
    is_above = b.compare(ComparisonDirection.GT, x, bound)
    inner = b.select(is_above, b.compute(stablehlo.SubtractOp, x, bias), 0)
    return b.select(is_below, b.compute(stablehlo.AddOp, x, bias), inner)


# Identity


def _identity(b: GraphBuilder, node: Node, x: SSAValue) -> SSAValue:
    return x


def _dropout(
    b: GraphBuilder,
    node: Node,
    x: SSAValue,
    ratio: SSAValue | None = None,
    training_mode: SSAValue | None = None,
) -> Sequence[SSAValue]:
    if training_mode is not None and any(b.integers(training_mode, "training modes")):
        if ratio is None or b.array(ratio, "ratios").any():
            raise Unsupported("training mode is unsupported; export for inference")
    if not any(node.result_names[1:]):
        return [x]
    return x, b.broadcast_like(b.tensor(np.array(True)), x)


ELEMENTWISE: Mapping[str, Conversion] = {
    "Abs": _abs,
    "Acos": partial(_unary_op, chlo.AcosOp),
    "Acosh": partial(_unary_op, chlo.AcoshOp),
    "Add": partial(_binary_op, stablehlo.AddOp),
    "And": partial(_binary_op, stablehlo.AndOp),
    "Asin": partial(_unary_op, chlo.AsinOp),
    "Asinh": partial(_unary_op, chlo.AsinhOp),
    "Atan": partial(_unary_op, chlo.AtanOp),
    "Atanh": partial(_unary_op, chlo.AtanhOp),
    "BitShift": _bit_shift,
    "BitwiseAnd": partial(_binary_op, stablehlo.AndOp),
    "BitwiseNot": partial(_unary_op, stablehlo.NotOp),
    "BitwiseOr": partial(_binary_op, stablehlo.OrOp),
    "BitwiseXor": partial(_binary_op, stablehlo.XorOp),
    "Ceil": partial(_unary_op, stablehlo.CeilOp),
    "Celu": _celu,
    "Clip": _clip,
    "Cos": partial(_unary_op, stablehlo.CosineOp),
    "Cosh": partial(_unary_op, chlo.CoshOp),
    "Div": partial(_binary_op, stablehlo.DivideOp),
    "Dropout": _dropout,
    "Elu": _elu,
    "Equal": partial(_comparison_op, ComparisonDirection.EQ),
    "Erf": partial(_unary_op, chlo.ErfOp),
    "Exp": partial(_unary_op, stablehlo.ExponentialOp),
    "Floor": partial(_unary_op, stablehlo.FloorOp),
    "Gelu": _gelu,
    "Greater": partial(_comparison_op, ComparisonDirection.GT),
    "GreaterOrEqual": partial(_comparison_op, ComparisonDirection.GE),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
    "Identity": _identity,
    "IsInf": _is_inf,
    "IsNaN": _is_nan,
    "LeakyRelu": _leaky_relu,
    "Less": partial(_comparison_op, ComparisonDirection.LT),
    "LessOrEqual": partial(_comparison_op, ComparisonDirection.LE),
    "Log": partial(_unary_op, stablehlo.LogOp),
    "Max": partial(_variadic, stablehlo.MaximumOp),
    "Mean": _mean,
    "Min": partial(_variadic, stablehlo.MinimumOp),
    "Mish": _mish,
    "Mod": _mod,
    "Mul": partial(_binary_op, stablehlo.MultiplyOp),
    "Neg": partial(_unary_op, stablehlo.NegateOp),
    "Not": partial(_unary_op, stablehlo.NotOp),
    "Or": partial(_binary_op, stablehlo.OrOp),
    "PRelu": _prelu,
    "Pow": _pow,
    "Reciprocal": _reciprocal,
    "Relu": _relu,
    "Round": partial(_unary_op, stablehlo.RoundNearestEvenOp),
    "Selu": _selu,
    "Shrink": _shrink,
    "Sigmoid": partial(_unary_op, stablehlo.LogisticOp),
    "Sign": _sign,
    "Sin": partial(_unary_op, stablehlo.SineOp),
    "Sinh": partial(_unary_op, chlo.SinhOp),
    "Softplus": _softplus,
    "Softsign": _softsign,
    "Sqrt": partial(_unary_op, stablehlo.SqrtOp),
    "Sub": partial(_binary_op, stablehlo.SubtractOp),
    "Sum": partial(_variadic, stablehlo.AddOp),
    "SwiGLU": _swiglu,
    "Swish": _swish,
    "Tan": partial(_unary_op, stablehlo.TanOp),
    "Tanh": partial(_unary_op, stablehlo.TanhOp),
    "ThresholdedRelu": _thresholded_relu,
    "Where": _where,
    "Xor": partial(_binary_op, stablehlo.XorOp),
}
"""Conversions of elementwise ops, by op."""
