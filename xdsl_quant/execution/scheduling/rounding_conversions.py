"""
Rounding with fewer or narrower operations.

Quantization rounds to an integral float and converts this to an integer, with two ops.
One CPU instruction does both, measurably faster if values are in the cache.
"""

from collections.abc import Iterable
from math import inf

from .. import mlir_bindings as mlir
from ..mlir_bindings import arith, ir, llvm, math

_CLAMPS = {
    "arith.maximumf": arith.maximumf,
    "arith.maxnumf": arith.maxnumf,
    "arith.minimumf": arith.minimumf,
    "arith.minnumf": arith.minnumf,
}
"""Builders of clamps by op name."""

_LIMIT = 1 << 31


def round_while_converting(module: ir.Module) -> None:
    """
    Clamp before rounding, so that one conversion to i32 also rounds half to even.
    The bounds must be integers in the range of i32. The result does not change, because
    rounding is monotonic and keeps integers.
    """
    i32 = ir.IntegerType.get_signless(32, module.context)
    for conversion in mlir.ops_in(module, "arith.fptosi"):
        (clamped,), (result,) = conversion.operands, conversion.results
        if result.type != i32 or (clamping := _rounded_and_clamped(clamped)) is None:
            continue
        value, clamps = clamping
        with ir.InsertionPoint(conversion), conversion.location:
            for clamp in clamps:
                value = _CLAMPS[clamp.name](value, clamp.operands[1])
            mlir.replace_op(conversion, llvm.intr_lrint(i32, value))


def round_in_f32(module: ir.Module) -> None:
    """
    Round half away from zero in f32 where f32 values are rounded in f64. The values are
    clamped first, to a range in which f32 represents halves. Adding the largest f32
    below 0.5 and truncating then gives the same integer.
    """
    f32, i32 = (
        ir.F32Type.get(module.context),
        ir.IntegerType.get_signless(32, module.context),
    )
    for conversion in mlir.ops_in(module, "arith.fptosi"):
        (clamped,), (result,) = conversion.operands, conversion.results
        if result.type != i32 or (rounding := _rounded_away(clamped)) is None:
            continue
        value, clamps, zero_point = rounding
        with ir.InsertionPoint(conversion), conversion.location:
            for name, bound in clamps:
                value = _CLAMPS[name](
                    value, arith.constant(f32, float(bound - zero_point))
                )
            half = math.copysign(arith.constant(f32, _BELOW_HALF), value)
            rounded = arith.fptosi(i32, arith.addf(value, half))
            integer = arith.addi(rounded, arith.constant(i32, zero_point))
        mlir.replace_op(conversion, integer)


_BELOW_HALF = 0.5 - 2.0**-25

_MAX_BOUND = 1 << 20


def _rounded_away(
    value: ir.Value,
) -> tuple[ir.Value, list[tuple[str, int]], int] | None:
    """
    Return an f32 value that is rounded half away from zero in f64, then its clamps with
    their bounds, and the zero point added before clamping; `None` if unsupported.
    """
    if not isinstance(value.type, ir.F64Type):
        return None
    clamps: list[tuple[str, int]] = []
    while clamp := mlir.defining_op(value, *_CLAMPS):
        if (bound := _bound(clamp.operands[1])) is None:
            return None
        clamps.insert(0, (clamp.name, bound))
        value = clamp.operands[0]
    zero_point = 0
    if sum_ := mlir.defining_op(value, "arith.addf"):
        if (number := _bound(sum_.operands[1])) is None:
            return None
        value, zero_point = sum_.operands[0], number
    if not (signed := mlir.defining_op(value, "math.copysign")):
        return None
    magnitude, value = signed.operands
    floored = mlir.defining_op(magnitude, "math.floor")
    raised = floored and mlir.defining_op(floored.operands[0], "arith.addf")
    positive = raised and mlir.defining_op(raised.operands[0], "math.absf")
    extended = mlir.defining_op(value, "arith.extf")
    if not raised or not positive or not extended or positive.operands[0] != value:
        return None
    (narrow,) = extended.operands
    if mlir.number_of(raised.operands[1]) != 0.5:
        return None
    if not _have_both_ends(name for name, _ in clamps) or any(
        abs(bound - zero_point) > _MAX_BOUND for _, bound in clamps
    ):
        return None
    return (narrow, clamps, zero_point) if isinstance(narrow.type, ir.F32Type) else None


def _rounded_and_clamped(value: ir.Value) -> tuple[ir.Value, list[ir.Operation]] | None:
    """Return the value before rounding half to even, and the later clamps; or `None`."""
    if not isinstance(value.type, ir.F32Type | ir.F64Type):
        return None
    clamps: list[ir.Operation] = []
    while clamp := mlir.defining_op(value, *_CLAMPS):
        if _bound(clamp.operands[1]) is None:
            return None
        clamps.insert(0, clamp)
        value = clamp.operands[0]
    if not _have_both_ends(clamp.name for clamp in clamps):
        return None
    rounding = mlir.defining_op(value, "math.roundeven")
    return (rounding.operands[0], clamps) if rounding else None


def _have_both_ends(names: Iterable[str]) -> bool:
    """Return True if clamps bound a value below and above."""
    return {name.removeprefix("arith.")[:3] for name in names} == {"max", "min"}


def clamped_range(value: ir.Value) -> tuple[int, int] | None:
    """Return the bounds of a clamped integer or a converted clamped float, or `None`."""
    if not isinstance(value.type, ir.IntegerType):
        return None
    if conversion := mlir.defining_op(value, "arith.fptosi"):
        (value,) = conversion.operands
    low, high = -inf, inf
    while clamp := mlir.defining_op(value, *_CLAMPS, "arith.maxsi", "arith.minsi"):
        if (bound := _bound(clamp.operands[1])) is None:
            return None
        # Later clamps take precedence.
        if "max" in clamp.name:
            low = max(low, min(bound, high))
        else:
            high = min(high, max(bound, low))
        value = clamp.operands[0]
    return None if inf in (-low, high) else (int(low), int(high))


def _bound(value: ir.Value) -> int | None:
    """Return a constant as int; `None` if it is not an integer in the range of i32."""
    number = mlir.number_of(value)
    # NaN and infinities are not in range.
    if number is None or not -_LIMIT <= number < _LIMIT or number != int(number):
        return None
    return int(number)
