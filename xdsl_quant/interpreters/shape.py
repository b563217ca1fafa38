"""The shape dialect: a shape is an array of `index`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xdsl_quant.dialects.shape import NumElementsOp, ShapeOfOp, SplitAtOp

from .implementations import interpreter_functions
from .values import failure


def _shape_of(op: ShapeOfOp, value: Any) -> Any:
    return np.array(np.shape(value), np.int64)


def _num_elements(op: NumElementsOp, shape: Any) -> Any:
    return np.int64(math.prod(shape.tolist()))


def _split_at(op: SplitAtOp, shape: Any, index: int) -> Any:
    rank = len(shape)
    if not -rank <= index <= rank:
        raise failure(op, f"splits a shape of rank {rank} at {index}")
    position = index + rank if index < 0 else index
    return shape[:position], shape[position:]


SHAPE = interpreter_functions(
    {
        ShapeOfOp: _shape_of,
        NumElementsOp: _num_elements,
        SplitAtOp: _split_at,
    }
)
"""The ops of the dialect."""
