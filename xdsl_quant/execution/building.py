"""What changes of MLIR's IR share: small builders of ops, on MLIR's bindings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .mlir_bindings import arith, ir, linalg, tensor


def index(value: int) -> Any:
    """A constant of type `index`."""
    return arith.constant(ir.IndexType.get(), value)


def is_dynamic(size: int) -> bool:
    """Whether a size in a shaped type is not known."""
    return size == ir.ShapedType.get_dynamic_size()


def has_identity_layout(type_: Any) -> bool:
    """Whether the elements of a memref are one after the other, from its beginning."""
    return type_.layout == ir.AffineMapAttr.get(ir.AffineMap.get_identity(type_.rank))


def sizes_of(value: Any) -> list[Any]:
    """The sizes of a tensor as values of type `index`."""
    sizes = mixed_sizes_of(value)
    return [index(size) if isinstance(size, int) else size for size in sizes]


def mixed_sizes_of(value: Any) -> list[Any]:
    """The sizes of a tensor, those that its type knows as integers."""
    return [
        tensor.dim(value, index(i)) if is_dynamic(size) else size
        for i, size in enumerate(value.type.shape)
    ]


def filled(sizes: Sequence[Any], element_type: Any, number: float) -> Any:
    """A tensor of equal elements."""
    constant = arith.constant(element_type, number)
    return linalg.fill(constant, outs=[tensor.empty(sizes, element_type)])


def reshaped(value: Any, sizes: Sequence[Any]) -> Any:
    """
    The elements of a tensor in the same order with other sizes, integers or values.

    It is a `tensor.reshape`, through which MLIR fuses no loops.
    """
    dynamic = ir.ShapedType.get_dynamic_size()
    shape = [size if isinstance(size, int) else dynamic for size in sizes]
    if shape == value.type.shape:
        return value
    values = [index(size) if isinstance(size, int) else size for size in sizes]
    shape_type = ir.RankedTensorType.get([len(sizes)], ir.IndexType.get())
    return tensor.reshape(
        ir.RankedTensorType.get(shape, value.type.element_type),
        value,
        tensor.from_elements(shape_type, values),
    )


def generic(
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    maps: Sequence[Any],
    kinds: Sequence[str],
    body: Callable[[Sequence[Any]], Sequence[Any]],
) -> Sequence[Any]:
    """
    The results of a `linalg.generic` on tensors.

    Args:
        inputs: tensors or scalars that are read.
        outputs: tensors with the initial values of the results.
        maps: the affine map of each input and output.
        kinds: `parallel` or `reduction` for each loop.
        body: yields values, given those of the inputs and outputs.
    """
    result_types = [output.type for output in outputs]
    op = linalg.GenericOp(result_types, inputs, outputs, maps, kinds)
    types = [
        value.type.element_type
        if isinstance(value.type, ir.RankedTensorType)
        else value.type
        for value in op.operands
    ]
    block = op.regions[0].blocks.append(*types, arg_locs=[op.location] * len(types))
    with ir.InsertionPoint(block):
        linalg.YieldOp(body([*block.arguments]))
    return op.results


def elementwise(
    inputs: Sequence[Any],
    element_type: Any,
    body: Callable[[Sequence[Any]], Any],
    maps: Sequence[Any] | None = None,
) -> Any:
    """
    A tensor of the sizes of the first input, made of the elements of the inputs.

    Args:
        inputs: tensors.
        element_type: that of the result.
        body: makes an element, given those of the inputs.
        maps: the affine maps of the inputs, if they are not all identities.
    """
    rank = inputs[0].type.rank
    identity = ir.AffineMap.get_identity(rank)
    (result,) = generic(
        inputs,
        [tensor.empty(mixed_sizes_of(inputs[0]), element_type)],
        [*(maps or [identity] * len(inputs)), identity],
        ["parallel"] * rank,
        lambda arguments: [body(arguments[:-1])],
    )
    return result
