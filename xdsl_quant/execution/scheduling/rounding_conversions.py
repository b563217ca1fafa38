"""
Conversions to integers that round to nearest.

A quantization rounds to an integral float and converts that to an integer, with one op
each, but processors have one instruction for both. The difference can be measured where the
values come from the cache.
"""

from __future__ import annotations

from typing import Any

from ..mlir_bindings import arith, ir, llvm, made_by, ops_in

_CLAMPS = ("arith.maxnumf", "arith.minnumf")

_LIMIT = 1 << 31


def round_while_converting(module: Any) -> None:
    """
    Clamp before rounding, and let the conversion to an i32 round.

    The numbers are the same if a value is clamped once from below and once from above, to
    integers that an i32 has: rounding keeps the order and integers as they are.
    """
    i32 = ir.IntegerType.get_signless(32, module.context)
    for conversion in ops_in(module, "arith.fptosi"):
        (clamped,), (result,) = conversion.operands, conversion.results
        if result.type != i32 or (found := _rounded_and_clamped(clamped)) is None:
            continue
        value, clamps = found
        with ir.InsertionPoint(conversion), conversion.location:
            for clamp in clamps:
                value = getattr(arith, clamp.name.removeprefix("arith."))(
                    value, clamp.operands[1]
                )
            result.replace_all_uses_with(llvm.intr_lrint(i32, value))
        conversion.erase()


def _rounded_and_clamped(value: Any) -> tuple[Any, list[Any]] | None:
    """What is rounded, and the ops that clamp it after that, if a value is made so."""
    if not isinstance(value.type, ir.F32Type | ir.F64Type):
        return None
    clamps: list[Any] = []
    while clamp := made_by(value, *_CLAMPS):
        if not _is_integer_constant(clamp.operands[1]):
            return None
        clamps.insert(0, clamp)
        value = clamp.operands[0]
    if sorted(clamp.name for clamp in clamps) != [*_CLAMPS]:
        return None
    rounding = made_by(value, "math.roundeven")
    return (rounding.operands[0], clamps) if rounding else None


def _is_integer_constant(value: Any) -> bool:
    """Whether a value is a constant, without fraction and in the range of an i32."""
    if not (constant := made_by(value, "arith.constant")):
        return False
    number = constant.attributes["value"].value
    # NaN and infinities are not in range.
    return -_LIMIT <= number < _LIMIT and number.is_integer()
