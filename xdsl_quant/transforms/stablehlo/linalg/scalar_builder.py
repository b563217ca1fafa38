"""Ops on scalars under construction."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from xdsl_quant.transforms.building.emission import Code


class ScalarBuilder(Code):
    """Ops under construction, on scalars. All of them have one location."""

    def add(self, op: Operation) -> SSAValue:
        """Add an op and return its first result."""
        op.location = self.location
        self.ops.append(op)
        return op.results[0]

    def number(self, value: float, type_: Attribute) -> SSAValue:
        """A constant of a signless type; an integer is the one with the same bits."""
        if isinstance(type_, AnyFloat):
            return self.constant(FloatAttr(float(value), type_), type_)
        integer_type = cast(IntegerType, type_)
        half = 1 << (integer_type.bitwidth - 1)
        # `true` is 1 in an attribute, and not -1.
        shift = half if integer_type.bitwidth > 1 else 0
        bits = (int(value) + shift) % (2 * half) - shift
        return self.constant(IntegerAttr(bits, integer_type), type_)
