"""The shape dialect: a shape is an array of `index`."""

from __future__ import annotations

import math

import numpy as np
from xdsl.interpreter import Interpreter, PythonValues

from xdsl_quant.dialects.shape import NumElementsOp, ShapeOfOp, SplitAtOp

from .implementations import interpreter_functions
from .values import failure


def _shape_of(
    interpreter: Interpreter, op: ShapeOfOp, args: PythonValues
) -> PythonValues:
    return (np.array(np.shape(args[0]), np.int64),)


def _num_elements(
    interpreter: Interpreter, op: NumElementsOp, args: PythonValues
) -> PythonValues:
    return (np.int64(math.prod(args[0].tolist())),)


def _split_at(
    interpreter: Interpreter, op: SplitAtOp, args: PythonValues
) -> PythonValues:
    shape, index = args
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
