"""Inputs of an ONNX model that become constants."""

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import AnyFloat, IntegerType, TensorType
from xdsl.ir import Attribute

from xdsl_quant.diagnostics import shortened_text
from xdsl_quant.dialects.quant.storage_types import (
    default_storage_max,
    default_storage_min,
)
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import (
    allows_shape,
    elements_attr,
    integer_width,
    numpy_dtype,
    shape_text,
)

from .files.model_files import LoadedModel, ONNXFileError
from .files.tensors import tensor_proto
from .graph_builder import declared_type

Constants: TypeAlias = "Mapping[str, ArrayLike] | Sequence[str]"
"""Values by name, or texts `NAME=VALUE`."""


def set_constants(model: LoadedModel, constants: Constants) -> None:
    """
    Replace inputs by initializers, in place.

    Args:
        model: the model.
        constants: values of the inputs.

    Raises:
        ONNXFileError: if a name is not an input, or a value has another type or shape.
    """
    pairs = (
        constants.items()
        if isinstance(constants, Mapping)
        else map(_named_value, constants)
    )
    graph = model.proto.graph
    try:
        for name, value in pairs:
            inputs = {item.name: index for index, item in enumerate(graph.input)}
            if (index := inputs.get(name)) is None:
                known = ", ".join(f"'{known}'" for known in inputs)
                raise ONNXFileError(f"unknown input '{name}'; available: {known}")
            type_ = declared_type(graph.input[index].type, name)
            array = _fitting_array(name, value, type_)
            attribute = elements_attr(array, type_.element_type)
            graph.initializer.append(tensor_proto(name, attribute))
            del graph.input[index]
    except ONNXFileError as e:
        raise ONNXFileError(f"{model.name}: error: {e}") from None


def _named_value(text: str) -> tuple[str, ArrayLike]:
    # A name may contain '=', a value does not.
    name, equals, value = text.rpartition("=")
    try:
        if name and equals:
            return name, json.loads(value)
    except ValueError:
        pass
    raise ONNXFileError(
        f"constant '{text}': expected NAME=VALUE with a number or a list, e.g. sr=16000"
    )


def _fitting_array(name: str, value: ArrayLike, type_: TensorType) -> Array:
    """Return a value as an array of a type, which must have the same numbers."""
    try:
        given = np.asarray(value)
    except ValueError:  # lists of different lengths
        raise ONNXFileError(f"constant '{name}' is not an array: {value!r}") from None
    if not allows_shape(type_, given.shape):
        found, expected = (
            shape_text(shape) or "()" for shape in (given.shape, type_.get_shape())
        )
        raise ONNXFileError(
            f"constant '{name}' has shape {found}; expected shape {expected}"
        )
    element_type = type_.element_type
    if given.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            array = given.astype(numpy_dtype(element_type))
        if _is_representable(array, given, element_type):
            return array
    raise ONNXFileError(
        f"constant '{name}' is {shortened_text(repr(value))}; expected elements of type "
        f"'{element_type}'"
    )


def _is_representable(array: Array, given: Array, element_type: Attribute) -> bool:
    """Return True if a converted array is equal, or finite if it is rounded."""
    if isinstance(element_type, AnyFloat):
        wide = array.astype(np.float64)
        return np.array_equal(np.isfinite(wide), np.isfinite(given.astype(np.float64)))
    width = integer_width(element_type)
    if width is not None and 1 < width < 8:
        is_signed = element_type == IntegerType(width)
        low, high = (
            end(width, is_signed) for end in (default_storage_min, default_storage_max)
        )
        return bool(((given >= low) & (given <= high)).all())
    return np.array_equal(array, given)
