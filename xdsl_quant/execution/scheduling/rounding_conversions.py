"""
Conversions to integers that round to nearest.

A quantization rounds to an integral float and converts that to an integer, with one op
each, but processors have one instruction for both. The difference can be measured where the
values come from the cache.
"""

from .. import mlir_bindings as mlir
from ..mlir_bindings import arith, ir, llvm, math

_CLAMPS = {"arith.maxnumf": arith.maxnumf, "arith.minnumf": arith.minnumf}
"""The functions that insert ops, by the names of these."""

_LIMIT = 1 << 31


def round_while_converting(module: ir.Module) -> None:
    """
    Clamp before rounding, and let the conversion to an i32 round.

    The numbers are the same if a value is clamped once from below and once from above, to
    integers that an i32 has: rounding keeps the order and integers as they are.
    """
    i32 = ir.IntegerType.get_signless(32, module.context)
    for conversion in mlir.ops_in(module, "arith.fptosi"):
        (clamped,), (result,) = conversion.operands, conversion.results
        if result.type != i32 or (found := _rounded_and_clamped(clamped)) is None:
            continue
        value, clamps = found
        with ir.InsertionPoint(conversion), conversion.location:
            for clamp in clamps:
                value = _CLAMPS[clamp.name](value, clamp.operands[1])
            mlir.replace_op(conversion, llvm.intr_lrint(i32, value))


def round_in_f32(module: ir.Module) -> None:
    """
    Round numbers of f32 half away from zero in f32, where that is done in f64.

    They are clamped before, to integers of which f32 has all halves. Then the sum with the
    largest number below a half is truncated to the same integer.
    """
    f32, i32 = (
        ir.F32Type.get(module.context),
        ir.IntegerType.get_signless(32, module.context),
    )
    for conversion in mlir.ops_in(module, "arith.fptosi"):
        (clamped,), (result,) = conversion.operands, conversion.results
        if result.type != i32 or (found := _rounded_away(clamped)) is None:
            continue
        value, clamps, moved = found
        with ir.InsertionPoint(conversion), conversion.location:
            for name, bound in clamps:
                value = _CLAMPS[name](value, arith.constant(f32, float(bound - moved)))
            half = math.copysign(arith.constant(f32, _BELOW_HALF), value)
            rounded = arith.fptosi(i32, arith.addf(value, half))
            integer = arith.addi(rounded, arith.constant(i32, moved))
        mlir.replace_op(conversion, integer)


_BELOW_HALF = 0.5 - 2.0**-25

_MOST = 1 << 20


def _rounded_away(
    value: ir.Value,
) -> tuple[ir.Value, list[tuple[str, int]], int] | None:
    """
    What is rounded half away from zero, the ops that clamp it then and their bounds, and
    what is added before these, if a value is made so of one of f32.
    """
    if not isinstance(value.type, ir.F64Type):
        return None
    clamps: list[tuple[str, int]] = []
    while clamp := mlir.made_by(value, *_CLAMPS):
        if (bound := _bound(clamp.operands[1])) is None:
            return None
        clamps.insert(0, (clamp.name, bound))
        value = clamp.operands[0]
    moved = 0
    if sum_ := mlir.made_by(value, "arith.addf"):
        if (number := _bound(sum_.operands[1])) is None:
            return None
        value, moved = sum_.operands[0], number
    if not (signed := mlir.made_by(value, "math.copysign")):
        return None
    magnitude, value = signed.operands
    floored = mlir.made_by(magnitude, "math.floor")
    raised = floored and mlir.made_by(floored.operands[0], "arith.addf")
    positive = raised and mlir.made_by(raised.operands[0], "math.absf")
    extended = mlir.made_by(value, "arith.extf")
    if not raised or not positive or not extended or positive.operands[0] != value:
        return None
    (narrow,) = extended.operands
    if mlir.number_of(raised.operands[1]) != 0.5:
        return None
    if sorted(name for name, _ in clamps) != [*_CLAMPS] or any(
        abs(bound - moved) > _MOST for _, bound in clamps
    ):
        return None
    return (narrow, clamps, moved) if isinstance(narrow.type, ir.F32Type) else None


def _rounded_and_clamped(value: ir.Value) -> tuple[ir.Value, list[ir.Operation]] | None:
    """What is rounded, and the ops that clamp it after that, if a value is made so."""
    if not isinstance(value.type, ir.F32Type | ir.F64Type):
        return None
    clamps: list[ir.Operation] = []
    while clamp := mlir.made_by(value, *_CLAMPS):
        if _bound(clamp.operands[1]) is None:
            return None
        clamps.insert(0, clamp)
        value = clamp.operands[0]
    if sorted(clamp.name for clamp in clamps) != [*_CLAMPS]:
        return None
    rounding = mlir.made_by(value, "math.roundeven")
    return (rounding.operands[0], clamps) if rounding else None


def _bound(value: ir.Value) -> int | None:
    """Return the number of a constant without fraction and in the range of an i32."""
    number = mlir.number_of(value)
    # NaN and infinities are not in range.
    if number is None or not -_LIMIT <= number < _LIMIT or number != int(number):
        return None
    return int(number)
