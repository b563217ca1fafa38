"""Replacement of dynamic sizes by static ones, from the caller or from the file."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from .model import Model, Operator, Subgraph, Tensor, TFLiteFileError

_DATA_DEPENDENT = {
    "WHERE",
    "UNIQUE",
    "NON_MAX_SUPPRESSION_V4",
    "NON_MAX_SUPPRESSION_V5",
    "CUSTOM",
}
"""Ops with data-dependent result sizes."""

_SHAPE_OPERANDS = {
    "BROADCAST_TO": (1,),
    "FILL": (0,),
    "MIRROR_PAD": (1,),
    "PAD": (1,),
    "PADV2": (1,),
    "RANGE": (0, 1, 2),
    "RESHAPE": (1,),
    "SLICE": (1, 2),
    "STRIDED_SLICE": (1, 2, 3),
    "TILE": (1,),
}
"""Indices of operands that determine the result shape."""


def with_static_sizes(model: Model) -> Model:
    """
    Return the model with the file's static shapes, in which unknown sizes are 1. Shapes
    that have unknown sizes and depend on computed values stay dynamic.

    Raises:
        TFLiteFileError: if an op has results with data-dependent sizes.
    """
    for subgraph in model.subgraphs:
        for position, operator in enumerate(subgraph.operators):
            if operator.code in _DATA_DEPENDENT and any(
                _is_dynamic(subgraph.tensors[index]) for index in operator.outputs
            ):
                raise TFLiteFileError(
                    f"operator {position} ({operator.custom_code or operator.code}) has "
                    "results with data-dependent sizes, which cannot be static"
                )
    subgraphs = [
        replace(subgraph, tensors=_static_tensors(subgraph))
        for subgraph in model.subgraphs
    ]
    return replace(model, subgraphs=subgraphs)


def _static_tensors(subgraph: Subgraph) -> Sequence[Tensor]:
    computed: set[int] = set()
    for operator in subgraph.operators:
        if not computed.isdisjoint(operator.inputs) or _computes_shape(
            subgraph, operator
        ):
            computed.update(
                i for i in operator.outputs if _has_unknown_size(subgraph.tensors[i])
            )
    return [
        tensor if index in computed else replace(tensor, signature=None)
        for index, tensor in enumerate(subgraph.tensors)
    ]


def _computes_shape(subgraph: Subgraph, operator: Operator) -> bool:
    """Return True if the result shape depends on values that are not constant."""
    operands = [
        subgraph.tensors[operator.inputs[position]]
        for position in _SHAPE_OPERANDS.get(operator.code, ())
        if position < len(operator.inputs)
    ]
    if all(tensor.data is not None for tensor in operands):
        return False
    if operator.code != "RESHAPE":
        return True
    # The file's static shapes are right if operand and result have equal counts.
    first, result = operator.inputs[0], operator.outputs[0]
    shapes = [subgraph.tensors[index].shape for index in (first, result)]
    return math.prod(shapes[0]) != math.prod(shapes[1])


def _has_unknown_size(tensor: Tensor) -> bool:
    """Return True if a dynamic size is unknown: 1 in the file's static shape."""
    sizes = zip(tensor.shape, tensor.signature or (), strict=False)
    return any(size == 1 and known == -1 for size, known in sizes)


def with_input_shapes(model: Model, shapes: Mapping[str, Sequence[int]]) -> Model:
    """
    Return the model with the given shapes for inputs of the main function. If all dynamic
    inputs get the file's static shapes, so do all other tensors.

    Args:
        shapes: shapes by tensor name or signature name.

    Raises:
        TFLiteFileError: if an input is unknown or incompatible with its shape.
    """
    main = model.subgraphs[0]
    tensors = [*main.tensors]
    for name, shape in shapes.items():
        index = _input_index(model, name)
        _check_shape(tensors[index], name, shape)
        tensors[index] = replace(tensors[index], shape=[*shape], signature=None)
    if all(
        not _is_dynamic(tensors[index])
        and [*tensors[index].shape] == [*main.tensors[index].shape]
        for index in main.inputs
    ):
        return with_static_sizes(model)
    subgraphs = [replace(main, tensors=tensors), *model.subgraphs[1:]]
    return replace(model, subgraphs=subgraphs)


def _is_dynamic(tensor: Tensor) -> bool:
    return tensor.signature is not None and -1 in tensor.signature


def _input_index(model: Model, name: str) -> int:
    main: Subgraph = model.subgraphs[0]
    names = {main.tensors[index].name: index for index in main.inputs}
    for signature in model.signatures:
        if signature.subgraph == 0:
            names |= signature.inputs
    if name not in names:
        known = ", ".join(f"'{known}'" for known in names)
        raise TFLiteFileError(f"unknown input '{name}'; available: {known}")
    return names[name]


def _check_shape(tensor: Tensor, name: str, shape: Sequence[int]) -> None:
    known = tensor.shape if tensor.signature is None else tensor.signature
    if len(shape) != len(known) or any(
        size < 0 or expected not in (-1, size)
        for size, expected in zip(shape, known, strict=True)
    ):
        expected = "x".join("?" if size < 0 else str(size) for size in known)
        raise TFLiteFileError(
            f"input '{name}' cannot have shape {'x'.join(map(str, shape)) or '()'}; "
            f"expected {expected or '()'}"
        )
