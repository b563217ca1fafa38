"""Export of modules of StableHLO or `tfl` ops to `.onnx` files."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import onnx
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    ModuleOp,
    NameLoc,
    StringAttr,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import PassFailedException
from xdsl.utils.hints import isa

from xdsl_quant import xdsl_patches
from xdsl_quant.diagnostics import error_summary
from xdsl_quant.frontends.stablehlo.calls import inline_calls
from xdsl_quant.frontends.stablehlo.constants import replace_arith_constants
from xdsl_quant.runtime.entry_function import entry_function, functions_by_name
from xdsl_quant.runtime.loading import apply_passes, parse_passes
from xdsl_quant.runtime.plugins import dialects_in
from xdsl_quant.unsupported import Unsupported

from .files.model_files import ONNXFileError
from .graph_writer import GraphWriter, quantized_type, unwritable
from .open_batch import open_batch
from .writers import WRITERS

_TFL_PASSES = "tfl-variables-to-arguments,convert-tfl-to-stablehlo"
"""Passes for the dialect `tfl`; the state becomes arguments and results."""

_IR_VERSION = 10
"""IR version of files, which onnxruntime reads since release 1.18."""

_LIMIT = 1 << 31
"""Size in bytes that a protobuf message does not reach."""


def write_onnx(module: ModuleOp) -> bytes:
    """
    Write a module as an ONNX file: floats with `QuantizeLinear` and `DequantizeLinear`
    (QDQ) around each op on quantized values.

    Ops of the dialect `tfl` are converted to StableHLO first. Sums of products and biases,
    whose storage type has 32 bits, are floats. The batch of a quantized model that was read
    with `static=True` is open again, or 1, with a warning, if an op may combine samples.

    Args:
        module: module whose function `main`, or only public function, becomes the graph.

    Returns:
        The bytes of the file.

    Raises:
        ONNXFileError: if an op or type has no form in ONNX.
        ImportError: if the package `onnx` is not installed.
    """
    xdsl_patches.apply()
    module = module.clone()
    try:
        if "tfl" in dialects_in(module):
            apply_passes(module, parse_passes(_TFL_PASSES), is_routine=True)
        replace_arith_constants(module)
        function = entry_function(module)
        inline_calls(function, functions_by_name(module))
    except (PassFailedException, ValueError) as e:
        raise ONNXFileError(f"cannot be written as ONNX: {error_summary(e)}") from None
    model = _model(function)
    _open_batch(model, function)
    content = model.SerializeToString()
    if len(content) >= _LIMIT:
        raise ONNXFileError(
            "the model exceeds 2 GB, the limit of one file; external data is unsupported"
        )
    return content


def _model(function: FuncOp) -> onnx.ModelProto:
    writer = GraphWriter(WRITERS)
    inputs = _write_arguments(writer, function)
    # The names of results come before those of other tensors.
    defaults = [f"output_{i}" for i in range(len(function.function_type.outputs))]
    names = [*map(writer.name, _value_names(function, "outputs", defaults))]
    results = writer.block(function.body.block)
    try:
        outputs = _write_results(writer, names, results)
    except Unsupported as e:
        last = function.body.block.last_op
        assert last is not None
        raise unwritable(last, str(e)) from None
    name = function.sym_name.data
    if isinstance(function.location, NameLoc):
        name = function.location.desc.data
    graph = onnx.helper.make_graph(
        writer.nodes, name, inputs, outputs, [*writer.initializers.values()]
    )
    opsets = [onnx.helper.make_opsetid(*each) for each in writer.versions.items()]
    oldest = onnx.helper.find_min_ir_version_for(opsets, ignore_unknown=True)
    return onnx.helper.make_model(
        graph,
        ir_version=max(_IR_VERSION, oldest),
        opset_imports=opsets,
        producer_name="xdsl-quant",
    )


def _open_batch(model: onnx.ModelProto, function: FuncOp) -> None:
    """Open the batch of a quantized model if the file that it was read from has one."""
    batches = _value_names(function, "batches", [""] * len(function.args))
    is_quantized = any(node.op_type == "DequantizeLinear" for node in model.graph.node)
    if not any(batches) or not is_quantized:
        return
    if (node := open_batch(model, batches)) is not None:
        warnings.warn(
            f"the batch of the written file is 1: {node} may combine samples; set the "
            "batch with --shape or 'shapes'",
            stacklevel=3,
        )


def _value_names(function: FuncOp, key: str, defaults: Sequence[str]) -> Sequence[str]:
    """Return the names of `inputs` or `outputs` in `tf.entry_function`, or defaults."""
    entry = function.attributes.get("tf.entry_function")
    text = entry.data.get(key) if isinstance(entry, DictionaryAttr) else None
    names = text.data.split(",") if isinstance(text, StringAttr) else []
    if isa(text, ArrayAttr[StringAttr]):
        # A name has a comma: see the importer.
        names = [name.data for name in text]
    return names if len(names) == len(defaults) else defaults


def _write_arguments(
    writer: GraphWriter, function: FuncOp
) -> Sequence[onnx.ValueInfoProto]:
    inputs: list[onnx.ValueInfoProto] = []
    defaults = [arg.name_hint or f"input_{i}" for i, arg in enumerate(function.args)]
    names = _value_names(function, "inputs", defaults)
    for wanted, argument in zip(names, function.args, strict=True):
        name = writer.name(wanted)
        inputs.append(writer.declaration(name, argument, is_stored=True))
        if quantized_type(argument.type) is None:
            writer.set_tensor(argument, name)
            continue
        try:
            writer.set_stored(argument, name)
        except Unsupported as e:
            raise ONNXFileError(
                f"argument '{name}' cannot be written as ONNX: {e}"
            ) from None
    return inputs


def _write_results(
    writer: GraphWriter, names: Sequence[str], results: Sequence[SSAValue]
) -> Sequence[onnx.ValueInfoProto]:
    """Declare the results, and give their names to the tensors."""
    renamed: dict[str, str] = {}
    for name, value in zip(names, results, strict=True):
        is_stored = quantized_type(value.type) is not None
        tensor = writer.stored(value) if is_stored else writer.operand(value)
        if tensor in renamed or not writer.is_computed(tensor):
            # A result is a tensor of its own, computed by a node.
            tensor = writer.node("Identity", [tensor], name)
        renamed[tensor] = name
    writer.rename(renamed)
    writer.remove_unused(names)
    return [
        writer.declaration(name, value, is_stored=True)
        for name, value in zip(names, results, strict=True)
    ]
