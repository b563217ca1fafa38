"""Replacement of dynamic input sizes by static ones, from the caller or from the file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from xdsl_quant.diagnostics import quoted

from .model import Model, Subgraph, Tensor, TFLiteFileError


def with_static_inputs(model: Model) -> Model:
    """Return the model with the file's static shapes of inputs of uncalled subgraphs."""
    called = {*_called_subgraphs(model)}
    subgraphs = [
        subgraph if index in called else _with_static_inputs(subgraph)
        for index, subgraph in enumerate(model.subgraphs)
    ]
    return replace(model, subgraphs=subgraphs)


def _called_subgraphs(model: Model) -> Iterator[int]:
    for subgraph in model.subgraphs:
        for operator in subgraph.operators:
            for name, value in operator.options.items():
                if name.endswith("subgraph_index") and isinstance(value, int):
                    yield value


def _with_static_inputs(subgraph: Subgraph) -> Subgraph:
    tensors = [*subgraph.tensors]
    for index in subgraph.inputs:
        tensors[index] = replace(tensors[index], signature=None)
    return replace(subgraph, tensors=tensors)


def with_input_shapes(model: Model, shapes: Mapping[str, Sequence[int]]) -> Model:
    """
    Return the model with the given shapes for inputs of the main function.

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
    subgraphs = [replace(main, tensors=tensors), *model.subgraphs[1:]]
    return replace(model, subgraphs=subgraphs)


def _input_index(model: Model, name: str) -> int:
    main: Subgraph = model.subgraphs[0]
    names = {main.tensors[index].name: index for index in main.inputs}
    for signature in model.signatures:
        if signature.subgraph == 0:
            names |= signature.inputs
    if name not in names:
        raise TFLiteFileError(f"unknown input '{name}'; available: {quoted(names)}")
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
