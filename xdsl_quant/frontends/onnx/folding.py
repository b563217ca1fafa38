"""
Constant folding of ONNX nodes: shape arithmetic becomes constants at import.

ONNX's reference evaluator computes the nodes, for which it agrees with onnxruntime. It
computes small tensors only: their sizes are bounded before it runs.
"""

import math
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType
from xdsl.ir import SSAValue

from xdsl_quant.numerics.arrays import Array
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .node import Node

_FOLDED_OPS = frozenset(
    """
    Abs Add And Cast Ceil Compress Concat ConstantOfShape Div Equal Expand Flatten Floor
    Gather GatherElements GatherND Greater GreaterOrEqual Identity Less LessOrEqual Max Min
    Mod Mul Neg NonZero Not Or Range ReduceMax ReduceMin ReduceProd ReduceSum Reshape
    ScatterND Size Slice Split Sqrt Squeeze Sub Tile Transpose Unique Unsqueeze Where Xor
    """.split()
)
"""Ops of shape arithmetic."""

_MAX_ELEMENTS = 1 << 12
"""Maximum element count of operands and results of folded nodes."""


def folded_results(
    node: Node,
    operands: Sequence[SSAValue | None],
    known: Callable[[SSAValue], Array | None],
) -> Sequence[Array | None] | None:
    """
    Return the results of a node of small constants; `None` for other nodes.

    Args:
        node: the node.
        operands: its operands; `None` for absent ones.
        known: function that returns the elements of a constant, `None` for other values.

    Returns:
        An array for each result of the node; `None` for an absent result.

    Raises:
        Unsupported: if the node cannot be computed, e.g. since shapes do not match.
    """
    if node.op_type not in _FOLDED_OPS or not operands:
        return None
    arrays = [None if value is None else _constant(value, known) for value in operands]
    constants = {
        name: array
        for name, array in zip(node.proto.input, arrays, strict=True)
        if array is not None
    }
    if any(name and name not in constants for name in node.proto.input):
        return None
    present = [array for array in arrays if array is not None]
    if _max_result_count(node, present) > _MAX_ELEMENTS:
        return None
    if not _is_computed_as_in_onnx(node, arrays):
        return None
    return _evaluated(node, constants)


def _is_computed_as_in_onnx(node: Node, arrays: Sequence[Array | None]) -> bool:
    """Return False if the evaluator differs from ONNX; refuse a division by zero."""
    match node.op_type, arrays:
        case "Div" | "Mod", [_, np.ndarray() as divisor]:
            if divisor.dtype.kind in "iu" and not divisor.all():
                raise Unsupported("divides an integer by zero")
        case (
            "Slice",
            [np.ndarray() as data, np.ndarray() as starts, _, _, np.ndarray() as steps],
        ):
            # Backwards from before the first element, the evaluator returns none.
            first = -min(data.shape, default=0)
            return bool((steps > 0).all() or (starts >= first).all())
        case _:
            pass
    return True


def _constant(
    value: SSAValue, known: Callable[[SSAValue], Array | None]
) -> Array | None:
    return known(value) if _is_small(value) else None


def _is_small(value: SSAValue) -> bool:
    """Return True for at most `_MAX_ELEMENTS` elements that NumPy has a dtype for."""
    shape, element_type = shape_of(value), element_type_of(value)
    is_narrow = isinstance(element_type, IntegerType) and 1 < element_type.bitwidth < 8
    is_static = DYNAMIC_INDEX not in shape
    return is_static and math.prod(shape) <= _MAX_ELEMENTS and not is_narrow


def _max_result_count(node: Node, operands: Sequence[Array]) -> float:
    """Return an upper bound of the element counts of the results."""
    first, *others = operands
    match node.op_type:
        case "ConstantOfShape":
            return math.prod(map(int, first.reshape(-1)))
        case "Tile":
            return first.size * math.prod(map(int, others[0].reshape(-1)))
        case "Range":
            if any(operand.size != 1 for operand in operands):
                return math.inf
            start, limit, step = (float(operand.item()) for operand in operands)
            return (limit - start) / step if step else math.inf
        case "Gather" | "GatherND":
            return first.size * others[0].size
        case "Concat":
            return sum(operand.size for operand in operands)
        case "Expand":
            shapes = first.shape, [int(size) for size in others[0].reshape(-1)]
        case _:
            # Elementwise ops broadcast; other ops have results of the size of an operand.
            shapes = [operand.shape for operand in operands]
    columns = zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1)
    return math.prod(map(max, columns))


def _evaluated(node: Node, constants: dict[str, Array]) -> Sequence[Array | None]:
    names = [name for name in node.result_names if name]
    function = onnx.helper.make_function(
        "folded",
        "node",
        [*constants],
        names,
        [node.proto],
        [onnx.helper.make_opsetid(node.proto.domain, node.version)],
    )
    try:
        # NumPy warns of NaN and overflow, which are results like any other here.
        with np.errstate(all="ignore"):
            evaluator: Any = ReferenceEvaluator(function)
            results = evaluator.run(None, constants, attributes={})
    except Exception as e:  # the evaluator raises exceptions of any kind
        reason = str(e).strip().partition("\n")[0].rstrip(".")
        raise Unsupported(f"cannot be computed for its constants: {reason}") from None
    arrays = dict(zip(names, map(np.asarray, results), strict=True))
    return [arrays.get(name) for name in node.result_names]
