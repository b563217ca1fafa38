"""What is known of the values of a kernel that are no integers: constants, and nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects import linalg, tensor
from xdsl.ir import Block, Operation

from xdsl_quant.numerics.arrays import Array
from xdsl_quant.transforms.statistics.ranges.float_constants import float_numbers
from xdsl_quant.unsupported import Unsupported


@dataclass(frozen=True)
class RealConstant:
    """Real numbers that are known: one, or an array with the shape of the tensor."""

    values: Array | float

    @property
    def is_one_number(self) -> bool:
        """Whether all numbers are equal."""
        array = np.asarray(self.values)
        return bool(array.size and (array == array.flat[0]).all())

    @property
    def number(self) -> float:
        """The one number."""
        if not self.is_one_number:
            raise Unsupported("a constant within that is not one number")
        return float(np.asarray(self.values).flat[0])


class Empty:
    """A tensor whose elements do not matter."""


def constant_or_empty(op: Operation | Block) -> RealConstant | Empty | None:
    """What the result of an op is, if it is constant or does not matter."""
    match op:
        case tensor.EmptyOp():
            return Empty()
        case linalg.ops.FillOp() | tensor.SplatOp():
            return constant_or_empty(op.operands[0].owner)
        case Operation() if (numbers := known_numbers(op)) is not None:
            return RealConstant(numbers)
        case _:
            return None


def known_numbers(op: Operation) -> Array | float | None:
    """The numbers of a constant of floats."""
    if op.name not in ("arith.constant", "stablehlo.constant"):
        return None
    try:
        numbers = float_numbers(op.properties.get("value"))
    except ValueError as e:
        raise Unsupported(str(e)) from None
    if numbers is None or isinstance(numbers, float):
        return numbers
    return np.asarray(numbers, np.float64)
