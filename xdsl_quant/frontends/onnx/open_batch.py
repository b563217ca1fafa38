"""
Batch sizes of files that are quantized with a batch of 1.

Kernels of quantized models have static sizes, so a batch that the source file leaves open
is 1 while the model is quantized. If each op of the written graph computes the samples of
a batch independently, the file gets the open batch back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, numpy_helper

from .files.model_files import described

_ELEMENTWISE = frozenset(
    """
    Abs Add And Cast Ceil Clip Div Equal Erf Exp Floor Greater GreaterOrEqual Identity
    IsNaN Less LessOrEqual Log Max Min Mod Mul Neg Not Or Pow Reciprocal Relu Round Sigmoid
    Sign Sqrt Sub Tanh Where Xor
    """.split()
)
_WINDOWS = "AveragePool", "Conv", "ConvTranspose", "GlobalAveragePool", "MaxPool"
"""Ops whose first operand has samples in its first dimension."""

_ONE_AXIS = {
    "ArgMax": 0,
    "ArgMin": 0,
    "Concat": 0,
    "DequantizeLinear": 1,
    "Gather": 0,
    "QuantizeLinear": 1,
    "Softmax": -1,
}
"""Ops with an attribute `axis`, and its default."""

_AXES = "ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Squeeze Unsqueeze".split()
"""Ops whose second operand has axes."""

_Operands: TypeAlias = "Sequence[bool]"


@dataclass
class _Samples:
    """Tensors with a batch, and the sizes of all tensors for a batch of 1."""

    shapes: Mapping[str, Sequence[int]]
    constants: Mapping[str, TensorProto]
    batched: set[str]
    new_constants: list[TensorProto] = field(default_factory=list[TensorProto])

    def rank(self, name: str) -> int:
        return len(self.shapes[name])

    def numbers(self, node: NodeProto, index: int) -> Sequence[int]:
        """Return the integers of a constant operand; empty if it is absent."""
        name = node.input[index] if index < len(node.input) else ""
        return numpy_helper.to_array(self.constants[name]).tolist() if name else []

    def keeps_samples_apart(self, node: NodeProto, operands: _Operands) -> bool:
        """
        Return True if result `i` of a batch depends on sample `i` alone.

        Args:
            node: node with an operand that has a batch.
            operands: True for each operand with a batch.
        """
        op_type = node.op_type
        if node.domain or any(self.shapes[x][:1] != [1] for x in node.output):
            return False
        if op_type in _ELEMENTWISE:
            ranks = {self.rank(x) for x in node.input if x in self.batched}
            return ranks == {self.rank(node.output[0])}
        if op_type in ("MatMul", "Gemm"):
            return self._is_product_of_samples(node, operands)
        if op_type == "Concat":
            return all(operands) and self._axis(node) != 0
        if not operands[0] or any(operands[1:]):
            return False
        if op_type in ("QuantizeLinear", "DequantizeLinear"):
            rank = self.rank(node.input[1])
            return rank == 0 or (rank == 1 and self._axis(node) != 0)
        if op_type in _ONE_AXIS:
            return self._axis(node) != 0
        if (rule := _RULES.get(op_type)) is not None:
            return rule(self, node)
        return op_type in _WINDOWS

    def _axis(self, node: NodeProto) -> int:
        axis = _integer_attribute(node, "axis", _ONE_AXIS[node.op_type])
        return axis % self.rank(node.input[0])

    def _is_product_of_samples(self, node: NodeProto, operands: _Operands) -> bool:
        lhs, rhs, *bias = operands
        ranks = [self.rank(name) for name in (*node.input[:2], node.output[0])]
        if node.op_type == "Gemm":
            return not (rhs or any(bias) or _integer_attribute(node, "transA", 0))
        if not rhs:
            return ranks[0] == ranks[2]
        # The rows and columns of the second operand do not have the samples.
        return ranks[1] == ranks[2] > 2 and (not lhs or ranks[0] == ranks[2])

    def reshape(self, node: NodeProto) -> bool:
        """Open the batch of the shape of a Reshape."""
        first, *others = self.numbers(node, 1) or [0]
        if first != 1 or min(others, default=1) < 1:
            return False
        name = f"{node.output[0]}_open_batch"
        if name in self.shapes:
            return False
        self.new_constants.append(
            numpy_helper.from_array(np.array([-1, *others]), name)
        )
        node.input[1] = name
        return True

    def keeps_first_axis(self, node: NodeProto, index: int) -> bool:
        """Return True if the axes of an operand exclude the first dimension."""
        has_result_axes = node.op_type == "Unsqueeze"
        rank = self.rank(node.output[0] if has_result_axes else node.input[0])
        axes = [axis % rank for axis in self.numbers(node, index)]
        return bool(axes) and 0 not in axes

    def has_no_padding_of_samples(self, node: NodeProto) -> bool:
        if len(node.input) > 3 and node.input[3]:
            return self.keeps_first_axis(node, 3)
        pads = self.numbers(node, 1)
        return pads[0] == pads[self.rank(node.input[0])] == 0


def _integer_attribute(node: NodeProto, name: str, default: int) -> int:
    return next((each.i for each in node.attribute if each.name == name), default)


_RULES: Mapping[str, Callable[[_Samples, NodeProto], bool]] = {
    # Expansion to a size of 1 keeps other sizes.
    "Expand": lambda graph, node: (
        graph.rank(node.input[0]) == graph.rank(node.output[0])
        and [1] == [*graph.numbers(node, 1)[:1]]
    ),
    "Pad": _Samples.has_no_padding_of_samples,
    "Reshape": _Samples.reshape,
    "Slice": lambda graph, node: graph.keeps_first_axis(node, 3),
    "Transpose": lambda _, node: next(
        (each.ints[0] == 0 for each in node.attribute if each.name == "perm"), False
    ),
    **dict.fromkeys(_AXES, lambda graph, node: graph.keeps_first_axis(node, 1)),
}
"""Conditions of nodes whose first operand alone has a batch."""


def open_batch(model: ModelProto, batches: Sequence[str]) -> str | None:
    """
    Replace the batch of 1 by an open one, in place.

    Args:
        model: a written model, whose inputs have static sizes.
        batches: name of the first size of each input; empty for a static one.

    Returns:
        A description of the node that combines samples, and `None` without one. The model
        does not change if there is such a node.
    """
    graph, names = model.graph, {*batches} - {""}
    if len(names) != 1:
        return "inputs with different batches"
    inputs = zip(graph.input, batches, strict=True)
    found = _samples(model, {value.name for value, name in inputs if name})
    nodes = [NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    for node in nodes:
        operands = [name in found.batched for name in node.input]
        if not any(operands):
            continue
        try:
            if not found.keeps_samples_apart(node, operands):
                return described(node)
        except KeyError:
            # Operands that are not constant, or values of unknown shape.
            return described(node)
        found.batched.update(node.output)
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    tensors = [each for each in graph.initializer if each.name in used]
    del graph.initializer[:]
    graph.initializer.extend([*tensors, *found.new_constants])
    for value in (*graph.input, *graph.output):
        if value.name in found.batched:
            size = value.type.tensor_type.shape.dim[0]
            (size.dim_param,) = names
    return None


def _samples(model: ModelProto, batched: set[str]) -> _Samples:
    inferred = onnx.shape_inference.infer_shapes(model).graph
    values = (*inferred.value_info, *inferred.input, *inferred.output)
    shapes: dict[str, Sequence[int]] = {
        value.name: [size.dim_value for size in value.type.tensor_type.shape.dim]
        for value in values
    }
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    shapes |= {name: [*tensor.dims] for name, tensor in constants.items()}
    return _Samples(shapes, constants, batched)
