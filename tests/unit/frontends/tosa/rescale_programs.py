"""Modules with one `tosa.rescale`, and what TOSA's specification says that it computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


def storage_range(width: int, is_unsigned: bool) -> tuple[int, int]:
    """The smallest and the largest stored value."""
    if is_unsigned:
        return 0, (1 << width) - 1
    return -(1 << (width - 1)), (1 << (width - 1)) - 1


def _signless(value: int, width: int) -> int:
    half = 1 << (width - 1)
    return (value + half) % (2 * half) - half


@dataclass(frozen=True)
class Program:
    """A `tosa.rescale`."""

    multipliers: Sequence[int]
    shifts: Sequence[int]
    input_zp: int = 0
    output_zp: int = 0
    rounding_mode: str = "SINGLE_ROUND"
    input_width: int = 8
    output_width: int = 8
    input_unsigned: bool = False
    output_unsigned: bool = False
    scale32: bool = True
    shape: str = ""
    """Dimensions before the last one, e.g. `3x`."""

    @property
    def per_channel(self) -> bool:
        return len(self.multipliers) > 1

    @property
    def last(self) -> int:
        return len(self.multipliers) if self.per_channel else 2

    def _tensor(self, width: int) -> str:
        return f"tensor<{self.shape}{self.last}xi{width}>"

    def __str__(self) -> str:
        source, target = self._tensor(self.input_width), self._tensor(self.output_width)
        constants = [
            ([*self.multipliers], 32 if self.scale32 else 16),
            ([*self.shifts], 8),
            ([_signless(self.input_zp, self.input_width)], self.input_width),
            ([_signless(self.output_zp, self.output_width)], self.output_width),
        ]
        types = [f"tensor<{len(values)}xi{width}>" for values, width in constants]
        lines = [
            f'  %c{i} = "tosa.const"() <{{values = dense<{values}> : {type_}}}> '
            f": () -> {type_}"
            for i, ((values, _), type_) in enumerate(zip(constants, types, strict=True))
        ]
        flags = {
            "input_unsigned": self.input_unsigned,
            "output_unsigned": self.output_unsigned,
            "per_channel": self.per_channel,
            "rounding_mode": self.rounding_mode,
            "scale32": self.scale32,
        }
        attributes = ", ".join(
            f"{name} = {x if isinstance(x, str) else str(x).lower()}"
            for name, x in flags.items()
        )
        return "\n".join(
            [
                f"func.func @main(%x: {source}) -> {target} {{",
                *lines,
                "  %y = tosa.rescale %x, %c0, %c1, %c2, %c3 {"
                f"{attributes}}} : "
                f"({source}, {', '.join(types)}) -> {target}",
                f"  return %y : {target}",
                "}",
            ]
        )

    def value(self, stored: int, channel: int) -> int:
        """What RESCALE is specified as, in unbounded integers, for a stored value."""
        index = channel if self.per_channel else 0
        multiplier, shift = self.multipliers[index], self.shifts[index]
        value = stored - self.input_zp
        rounding = 1 << (shift - 1)
        if self.rounding_mode == "DOUBLE_ROUND" and shift > 31:
            rounding += 1 << 30 if value >= 0 else -(1 << 30)
        result = (value * multiplier + rounding >> shift) + self.output_zp
        low, high = storage_range(self.output_width, self.output_unsigned)
        return min(max(result, low), high)
