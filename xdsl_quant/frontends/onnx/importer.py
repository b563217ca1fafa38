"""Import of `.onnx` files to modules of StableHLO ops and quantized types."""

from __future__ import annotations

import warnings
from collections import ChainMap
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnknownLoc,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.transforms.dead_code_elimination import dce

from xdsl_quant import xdsl_patches
from xdsl_quant.runtime.arrays import shape_text
from xdsl_quant.runtime.loading import IRError, verify_module

from .constants import Constants, set_constants
from .files.model_files import LoadedModel, ONNXFileError, load_model
from .graph_builder import GraphBuilder, declared_type, location, value_hint
from .ops import CONVERSIONS
from .type_inference import ValueTypes


def read_onnx(
    source: str | Path | bytes,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    static: bool = False,
    constants: Constants = (),
) -> ModuleOp:
    """
    Read an ONNX model.

    The graph becomes the function `@main` of StableHLO ops. Names of values become
    locations. Arithmetic of shapes is folded. An op without conversion becomes a
    `stablehlo.custom_call @onnx.Name`.

    Args:
        source: a path, or the bytes of a file.
        shapes: shapes of the inputs, by name.
        static: use 1 for the remaining symbolic sizes of inputs, with a warning for
            sizes other than the first one, the batch. They are otherwise dynamic (`?`)
            if all ops support it; if not, they are 1, with a warning.
        constants: values of inputs that become constants, by name, e.g. `{"sr": 16000}`;
            or texts such as `sr=16000`, with numbers and lists as in JSON.

    Returns:
        The verified module.

    Raises:
        ONNXFileError: if the file is damaged or unsupported, an input is incompatible
            with its shape or value, or the module is invalid.
        OSError: if the file cannot be read.
        ImportError: if the package `onnx` is not installed.
    """
    model = load_model(source)
    xdsl_patches.apply()
    shapes = shapes or {}
    if constants:
        set_constants(model, constants)
    try:
        module = _read_module(model, shapes, static)
    except ONNXFileError:
        if static or not (unknown := _unknown_sizes(model, shapes)):
            raise
    else:
        if static and (unknown := _unknown_sizes(model, shapes, first=1)):
            warnings.warn(
                f"{model.name}: unknown sizes other than the batch are 1: {unknown}; set "
                "them with --shape or 'shapes'",
                stacklevel=2,
            )
        return module
    note = (
        f"unknown sizes are 1, as not all ops support '?': {unknown}; set other sizes"
    )
    try:
        module = _read_module(model, shapes, True)
    except ONNXFileError as e:
        raise ONNXFileError(f"{e} ({note} with --shape)") from None
    warnings.warn(f"{model.name}: {note} with --shape or 'shapes'", stacklevel=2)
    return module


def _unknown_sizes(
    model: LoadedModel, shapes: Mapping[str, Sequence[int]], *, first: int = 0
) -> str:
    """
    Return a list of the inputs with unknown sizes from dimension `first`, for a message.
    """
    types = _input_types(model.proto.graph.input, shapes, static=False)
    return ", ".join(
        f"input '{name}' has shape {shape_text(type_.get_shape())}"
        for name, type_ in types.items()
        if DYNAMIC_INDEX in type_.get_shape()[first:]
    )


def _read_module(
    model: LoadedModel, shapes: Mapping[str, Sequence[int]], static: bool
) -> ModuleOp:
    try:
        module = ModuleOp([_main(model, shapes, static)])
    except ONNXFileError as e:
        raise ONNXFileError(f"{model.name}: error: {e}") from None
    dce(module)
    try:
        verify_module(module)
    except IRError as e:
        raise ONNXFileError(f"{model.name}: {e}") from None
    return module


def _main(
    model: LoadedModel, shapes: Mapping[str, Sequence[int]], static: bool
) -> FuncOp:
    proto, graph = model.proto, model.proto.graph
    types = _input_types(graph.input, shapes, static)
    block = Block(arg_types=[*types.values()])
    values: dict[str, SSAValue] = {}
    for name, argument in zip(types, block.args, strict=True):
        argument.name_hint = value_hint(name)
        values[name] = argument
    end = InsertPoint.at_end(block)
    builder = GraphBuilder(
        end,
        location=UnknownLoc(),
        conversions=CONVERSIONS,
        versions={
            opset.domain or "ai.onnx": opset.version for opset in proto.opset_import
        },
        types=ValueTypes(proto, types),
        folder=model.folder,
        constants_point=end,
        initializers=ChainMap({tensor.name: tensor for tensor in graph.initializer}),
        values=ChainMap(values),
    )
    for node in graph.node:
        builder.node(node)
    block.add_op(ReturnOp(*(builder.value(output.name) for output in graph.output)))
    return _function(graph, block, _open_batches(graph, shapes) if static else [])


def _open_batches(
    graph: onnx.GraphProto, shapes: Mapping[str, Sequence[int]]
) -> Sequence[str]:
    """Return the name of the first size of each input; empty for a known size."""
    types = _input_types(graph.input, shapes, static=False)
    return [
        value.type.tensor_type.shape.dim[0].dim_param or "batch"
        if types[value.name].get_shape()[:1] == (DYNAMIC_INDEX,)
        else ""
        for value in graph.input
    ]


def _function(graph: onnx.GraphProto, block: Block, batches: Sequence[str]) -> FuncOp:
    """Return the function `@main`, with the names of inputs, outputs and open batches."""
    end = block.last_op
    assert end is not None
    function = FuncOp("main", (block.arg_types, end.operand_types), Region(block))
    function.location = location(graph.name)
    # The attribute with which TensorFlow's importers keep these names.
    names = {
        "inputs": [value.name for value in graph.input],
        "outputs": [value.name for value in graph.output],
        # Sizes that are 1 in the module; the exporter may open them again.
        "batches": batches if any(batches) else [],
    }
    function.attributes["tf.entry_function"] = DictionaryAttr(
        {key: _names_attribute(values) for key, values in names.items() if values}
    )
    return function


def _names_attribute(names: Sequence[str]) -> Attribute:
    """Return names as text with commas, or as a list if a name has a comma."""
    if any("," in name for name in names):
        return ArrayAttr(map(StringAttr, names))
    return StringAttr(",".join(names))


def _input_types(
    inputs: Sequence[onnx.ValueInfoProto],
    shapes: Mapping[str, Sequence[int]],
    static: bool,
) -> Mapping[str, TensorType]:
    types = {value.name: declared_type(value.type, value.name) for value in inputs}
    for name, shape in shapes.items():
        if (type_ := types.get(name)) is None:
            known = ", ".join(f"'{known}'" for known in types)
            raise ONNXFileError(f"unknown input '{name}'; available: {known}")
        expected = type_.get_shape()
        if len(shape) != len(expected) or any(
            size < 0 or known not in (DYNAMIC_INDEX, size)
            for size, known in zip(shape, expected, strict=True)
        ):
            raise ONNXFileError(
                f"input '{name}' cannot have shape {shape_text(shape) or '()'}; expected "
                f"{shape_text(expected) or '()'}"
            )
        types[name] = TensorType(type_.element_type, shape)
    if not static:
        return types
    return {
        name: TensorType(
            type_.element_type,
            [1 if size == DYNAMIC_INDEX else size for size in type_.get_shape()],
        )
        for name, type_ in types.items()
    }
