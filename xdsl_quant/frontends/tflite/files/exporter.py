"""Export of `tfl` modules to `.tflite` files."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    NameLoc,
    NoneType,
    StringAttr,
    TensorType,
    UnrankedTensorType,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, Region, SSAValue

from xdsl_quant import xdsl_patches
from xdsl_quant.diagnostics import location_prefix, op_name
from xdsl_quant.dialects.quant import (
    BlockScaledQuantizedType,
    QuantizedType,
    UniformQuantizedSubChannelType,
)
from xdsl_quant.dialects.quant.traits import AccumulatorUniformScale, quantization_trait
from xdsl_quant.dialects.quant.types import (
    PerAxisType,
    PerTensorType,
    ScaledQuantizedType,
    scalar_or_element_type,
)
from xdsl_quant.frontends.tflite.dialect.attributes import ConstBytesAttr
from xdsl_quant.frontends.tflite.dialect.constants import ConstOp, NoValueOp, QConstOp
from xdsl_quant.frontends.tflite.dialect.control_flow import IfOp
from xdsl_quant.frontends.tflite.dialect.products import (
    has_wide_accumulator_without_bias,
)
from xdsl_quant.frontends.tflite.dialect.recurrent import RecurrentOp
from xdsl_quant.frontends.tflite.dialect.signatures import (
    EXPORTED_NAMES,
    INDEX_PATH,
    SIGNATURE_NAMES,
    strings,
)
from xdsl_quant.runtime.arrays import shortened
from xdsl_quant.runtime.entry_function import entry_function
from xdsl_quant.runtime.loading import apply_passes, parse_passes
from xdsl_quant.runtime.plugins import dialects_in
from xdsl_quant.xdsl_patches.resources import resource_data

from .block_types import blocks_of_type
from .constants import ELEMENT_TYPES, file_bytes
from .importer import COMPOSITE_ATTRIBUTE, SUBGRAPH_FIELDS
from .model import (
    ABSENT,
    Model,
    ModelSignature,
    Operator,
    OptionValue,
    Subgraph,
    Tensor,
    TensorQuantization,
    TFLiteFileError,
)
from .options import options_of
from .reader import default_options
from .schema import COMPOSITE, enumerator, enumerators, options_name
from .writer import write_model

_TENSOR_TYPES: Mapping[Attribute, str] = {
    type_: name for name, type_ in ELEMENT_TYPES.items()
}

_QUANTIZED_HINT = (
    "; use '!quant.uniform' with i4, i8, i16 or i32 storage and per-tensor or per-axis "
    "scales"
)

_STATES: Mapping[str, Sequence[int]] = {
    "SVDF": (4,),
    "LSTM": (18, 19),
    "UNIDIRECTIONAL_SEQUENCE_RNN": (4,),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (18, 19),
    "BIDIRECTIONAL_SEQUENCE_LSTM": (35, 36, 37, 38),
}
"""Indices of the state operands of each op, which the op updates in place."""

_LEAST_COUNTS: Mapping[str, int] = {"LSTM": 24, "UNIDIRECTIONAL_SEQUENCE_LSTM": 24}
"""Number of operands of ops whose kernels also count absent operands."""

Constant = ConstOp | QConstOp | arith.ConstantOp


def _tensor_type_number(value: SSAValue) -> int:
    return enumerator("TensorType", _tensor_type(value.type) or "FLOAT32")


def _bias_type_number(op: Operation) -> int:
    """Return the enum value of the bias type (accumulator width); 0 for the default."""
    trait = quantization_trait(op, AccumulatorUniformScale)
    if trait is None or trait.bias >= len(op.operands):
        return 0
    factors = (op.operands[index] for index in trait.factors)
    if all(_tensor_type(factor.type) != "INT16" for factor in factors):
        return 0
    bias = op.operands[trait.bias]
    if not isinstance(bias.type, NoneType):
        return _tensor_type_number(bias)
    return (
        0
        if has_wide_accumulator_without_bias(op)
        else enumerator("TensorType", "INT32")
    )


_TYPE_OPTIONS: Mapping[str, Callable[[Operation], int]] = {
    "in_data_type": lambda op: _tensor_type_number(op.operands[0]),
    "out_data_type": lambda op: _tensor_type_number(op.results[0]),
    "out_type": lambda op: _tensor_type_number(op.results[0]),
    "output_type": lambda op: _tensor_type_number(op.results[0]),
    "quantized_bias_type": _bias_type_number,
}
"""Functions that return the value of an option for an op, by option name."""


def write_tflite(module: ModuleOp) -> bytes:
    """
    Write a TensorFlow Lite model.

    StableHLO ops are converted to the dialect `tfl` first.

    Args:
        module: functions of `tfl` or StableHLO ops; `@main` is the entry point.

    Returns:
        The bytes of the file.

    Raises:
        TFLiteFileError: if the module has ops or types that a file does not support.
        ImportError: if the package `tflite` is not installed.
    """
    dialects = dialects_in(module)
    has_only_casts = "quant" in dialects and "tfl" not in dialects
    if has_only_casts or dialects & {"chlo", "stablehlo"}:
        module = _in_tfl_dialect(module)
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    functions.sort(key=lambda function: function.sym_name.data != "main")
    if not functions or functions[0].sym_name.data != "main":
        raise TFLiteFileError("expected a function '@main' in the module")
    names = [function.sym_name.data for function in functions]
    exporters = [_FunctionExporter(function, names) for function in functions]
    subgraphs = [exporter.subgraph() for exporter in exporters]
    signatures = [
        signature
        for index, exporter in enumerate(exporters)
        for signature in exporter.signatures(index)
    ]
    return write_model(Model(subgraphs, signatures, *_description(module)))


def _in_tfl_dialect(module: ModuleOp) -> ModuleOp:
    """
    Convert the StableHLO ops of a copy of a module.

    Raises:
        TFLiteFileError: if an op has no conversion.
    """
    xdsl_patches.apply()
    module = module.clone()
    try:
        name = entry_function(module).sym_name.data
        apply_passes(module, parse_passes("convert-stablehlo-to-tfl"), is_routine=True)
    except ValueError as e:
        raise TFLiteFileError(str(e)) from None
    entry_function(module, name).sym_name = StringAttr("main")
    return module


def _description(module: ModuleOp) -> tuple[str, Mapping[str, bytes]]:
    description = module.attributes.get("tfl.description")
    entries = _entries(module.attributes.get("tfl.metadata"))
    return (
        description.data if isinstance(description, StringAttr) else "",
        {
            name: _bytes(value)
            for name, value in entries.items()
            if isinstance(value, StringAttr | BytesAttr)
        },
    )


def _bytes(attribute: Attribute | None) -> bytes:
    if isinstance(attribute, StringAttr):
        return attribute.data.encode()
    return attribute.data if isinstance(attribute, BytesAttr) else b""


def _entries(attribute: Attribute | None) -> Mapping[str, Attribute]:
    return attribute.data if isinstance(attribute, DictionaryAttr) else {}


# Types


def _file_error(op: Operation, message: str) -> TFLiteFileError:
    prefix = location_prefix(op.location)
    start = f"{prefix}error: " if prefix else ""
    return TFLiteFileError(f"{start}'{op_name(op)}' op {message}")


def _tensor_type(type_: Attribute) -> str | None:
    """Return the name of the element type in the schema; `None` if it is unsupported."""
    element_type = scalar_or_element_type(type_)
    if not isinstance(
        element_type, PerTensorType | PerAxisType | BlockScaledQuantizedType
    ):
        return _TENSOR_TYPES.get(element_type)
    if not element_type.has_integer_storage:
        return None
    sign = "" if element_type.is_signed else "U"
    name = f"{sign}INT{element_type.storage_type_integral_width}"
    return name if name in ELEMENT_TYPES else None


def _quantization(
    type_: Attribute, op: Operation, name: str, rank: int
) -> TensorQuantization | None:
    element_type = scalar_or_element_type(type_)
    if isinstance(element_type, BlockScaledQuantizedType):
        try:
            blocks = blocks_of_type(element_type, name, rank)
        except ValueError as e:
            raise _file_error(
                op,
                f"has a type with {e}, which is unsupported in '.tflite' files; use "
                "'!quant.block_scaled' with blocks of one size and scales of 'f16'",
            ) from None
        scales, zero_points = np.empty(0, np.float32), np.empty(0, np.int64)
        return TensorQuantization(scales, zero_points, blocks=blocks)
    if not isinstance(element_type, ScaledQuantizedType):
        return None
    return TensorQuantization(
        np.asarray(element_type.get_scales(), np.float32).ravel(),
        np.asarray(element_type.get_zero_points(), np.int64).ravel(),
        element_type.axis or 0 if isinstance(element_type, PerAxisType) else 0,
    )


class _FunctionExporter:
    def __init__(self, function: FuncOp, function_names: Sequence[str]):
        self.function = function
        self.function_names = function_names
        self.tensors: list[Tensor] = []
        self.indices: dict[SSAValue, int] = {}
        """Tensor index by value."""

        self.hints = Counter[str]()
        """Number of tensors by name hint."""

        self.operators: list[Operator] = []
        self.states: set[int] = set()
        """Indices of tensors that an op updates in place."""

    def subgraph(self) -> Subgraph:
        function = self.function
        if len(function.body.blocks) != 1:
            raise _file_error(function, "expects a body with one block")
        names = _entries(function.attributes.get("tf.entry_function"))
        inputs = _split(names.get("inputs"))
        for position, argument in enumerate(function.args):
            name = inputs[position] if position < len(inputs) else argument.name_hint
            self.add_tensor(argument, function, name or "")
        *ops, end = function.body.block.ops
        if not isinstance(end, ReturnOp):
            raise _file_error(
                end, "is an unsupported terminator; expected 'func.return'"
            )
        for op in ops:
            self.add_op(op)
        outputs = [self.index(value) for value in end.operands]
        for index, name in zip(outputs, _split(names.get("outputs")), strict=False):
            self.tensors[index].name = name
        is_main = function.sym_name.data == "main"
        return Subgraph(
            "main" if is_main else function.sym_name.data,
            self.tensors,
            [self.indices[argument] for argument in function.args],
            outputs,
            self.operators,
        )

    def signatures(self, index: int) -> Sequence[ModelSignature]:
        function = self.function
        end = function.body.block.last_op
        assert end is not None
        keys = strings(function.attributes.get(EXPORTED_NAMES))
        return [
            ModelSignature(
                key,
                index,
                self.names(function.arg_attrs, function.args, key, key == keys[0]),
                self.names(function.res_attrs, end.operands, key, key == keys[0]),
            )
            for key in keys
        ]

    def names(
        self,
        attributes: ArrayAttr[DictionaryAttr] | None,
        values: Sequence[SSAValue],
        key: str,
        is_first: bool,
    ) -> Mapping[str, int]:
        if attributes is None:
            return {}
        names: dict[str, int] = {}
        # A signature without own names uses the names of the first signature.
        signature_names = [_entries(a.data.get(SIGNATURE_NAMES)) for a in attributes]
        has_paths = is_first or all(key not in own for own in signature_names)
        for attribute, own, value in zip(
            attributes, signature_names, values, strict=True
        ):
            path = strings(attribute.data.get(INDEX_PATH))[:1] if has_paths else ()
            for name in (*path, *strings(own.get(key))):
                names[name] = self.index(value)
        return names

    # Tensors

    def index(self, value: SSAValue) -> int:
        if isinstance(value.type, NoneType):
            return ABSENT
        return self.indices[value]

    def tensor_name(self, op: Operation, value: SSAValue) -> str:
        """Return the name in the location of an op, or a unique one from a name hint."""
        location = op.location if op.results[0] is value else None
        if isinstance(location, NameLoc):
            return location.desc.data
        hint = value.name_hint or ""
        self.hints[hint] += 1
        return hint if self.hints[hint] == 1 else hint and f"{hint}_{self.hints[hint]}"

    def add_tensor(self, value: SSAValue, op: Operation, name: str) -> int:
        self.indices[value] = self.add_typed_tensor(value.type, op, name)
        return self.indices[value]

    def add_typed_tensor(self, type_: Attribute, op: Operation, name: str) -> int:
        if isinstance(scalar_or_element_type(type_), UniformQuantizedSubChannelType):
            raise _file_error(
                op,
                "has a sub-channel type, which is unsupported in '.tflite' files; use "
                "per-axis scales",
            )
        if (type_name := _tensor_type(type_)) is None:
            is_quantized = QuantizedType.get_quantized_element_type(type_) is not None
            hint = _QUANTIZED_HINT if is_quantized else ""
            raise _file_error(
                op,
                f"has type '{shortened(type_)}', which is unsupported in '.tflite' "
                f"files{hint}",
            )
        shape = type_.get_shape() if isinstance(type_, TensorType) else ()
        signature = None
        if DYNAMIC_INDEX in shape:
            signature = [-1 if size == DYNAMIC_INDEX else size for size in shape]
            shape = [1 if size == DYNAMIC_INDEX else size for size in shape]
        name = name or f"tensor_{len(self.tensors)}"
        self.tensors.append(
            Tensor(
                name,
                type_name,
                shape,
                signature,
                None,
                _quantization(cast(Attribute, type_), op, name, len(shape)),
                has_rank=not isinstance(type_, UnrankedTensorType),
            )
        )
        return len(self.tensors) - 1

    def add_constant(self, op: Constant) -> None:
        value, (result,) = op.properties["value"], op.results
        if isinstance(value, DenseResourceAttr):
            if (data := resource_data(value)) is None:
                raise _file_error(
                    op, f"has no data for the resource '{value.resource_handle.data}'"
                )
        elif isinstance(value, DenseIntOrFPElementsAttr):
            data = value.data.data
        else:
            raise _file_error(op, "has a scalar value; expected a tensor")
        index = self.add_tensor(result, op, self.tensor_name(op, result))
        tensor = self.tensors[index]
        tensor.data = file_bytes(data, tensor.type, math.prod(tensor.shape))

    # Operators

    def add_op(self, op: Operation) -> None:
        if isinstance(op, NoValueOp):
            return
        if isinstance(op, Constant):
            self.add_constant(op)
            return
        code, custom_code, custom_options = self.code(op)
        inputs = [self.index(operand) for operand in self.operands(op)]
        least_count = _LEAST_COUNTS.get(code, 0)
        # Kernels count operands, so absent operands at the end are omitted.
        while len(inputs) > least_count and inputs[-1] == ABSENT:
            inputs.pop()
        if isinstance(op, RecurrentOp) and op.next_states:
            raise _file_error(
                op,
                "has its next state as a result, which is unsupported in '.tflite' files",
            )
        for position in _STATES.get(code, ()):
            if position < len(inputs) and inputs[position] != ABSENT:
                inputs[position] = self.state(inputs[position])
        self.add_bias_scales(op, inputs)
        outputs = [
            self.add_tensor(result, op, self.tensor_name(op, result))
            for result in op.results
        ]
        options: Mapping[str, OptionValue] = {}
        if code != "CUSTOM":
            options = self.options(op, code)
        self.operators.append(
            Operator(
                code,
                inputs,
                outputs,
                options,
                custom_code,
                custom_options,
                self.intermediates(op),
            )
        )

    def intermediates(self, op: Operation) -> Sequence[int]:
        """Add the intermediate tensors whose types an op states; return their indices."""
        if not isinstance(op, RecurrentOp):
            return ()
        # The longest sequence first: it has names of the others.
        for names in reversed(op.INTERMEDIATES):
            if all(name in op.properties for name in names):
                return tuple(
                    self.add_typed_tensor(op.properties[name], op, name)
                    for name in names
                )
        if names := [name for name in op.properties if name.endswith("_intermediate")]:
            raise _file_error(
                op,
                f"states {len(names)} types of intermediate tensors; expected all of "
                + " or ".join(str(len(names)) for names in op.INTERMEDIATES)
                + ", or none",
            )
        return ()

    def add_bias_scales(self, op: Operation, inputs: Sequence[int]) -> None:
        """Add accumulator scales to a 64-bit bias, because some kernels require them."""
        trait = quantization_trait(op, AccumulatorUniformScale)
        if trait is None or trait.bias >= len(inputs) or inputs[trait.bias] == ABSENT:
            return
        bias = self.tensors[inputs[trait.bias]]
        factors = [self.tensors[inputs[index]].quantization for index in trait.factors]
        scales = [factor.scales for factor in factors if factor]
        if bias.type != "INT64" or bias.quantization or len(scales) < len(factors):
            return
        if min(map(len, scales)) == 1:
            product = scales[0] * scales[1]
            bias.quantization = TensorQuantization(
                product, np.zeros(len(product), np.int64)
            )

    def state(self, index: int) -> int:
        """Return the index of a variable tensor that holds only this op's state."""
        variable = replace(self.tensors[index], data=None, is_variable=True)
        if index in self.states:
            self.tensors.append(variable)
            index = len(self.tensors) - 1
        self.tensors[index] = variable
        self.states.add(index)
        return index

    def operands(self, op: Operation) -> Sequence[SSAValue]:
        """Return the operands of an op and, for `tfl.if`, of the calls in its regions."""
        if not isinstance(op, IfOp):
            return op.operands
        then_call, else_call = (self.call(region, op) for region in op.regions)
        if [*then_call.arguments] != [*else_call.arguments]:
            raise _file_error(
                op, "expects both regions to pass the same operands to their calls"
            )
        return [*op.operands, *then_call.arguments]

    def call(self, region: Region, op: Operation) -> CallOp:
        """Return the call in a region; raise an error if the region has other ops."""
        ops = [*region.block.ops] if region.blocks else []
        if len(ops) == 2 and isinstance(call := ops[0], CallOp):
            arguments = call.arguments if isinstance(op, IfOp) else region.block.args
            passed, returned = [*call.arguments], [*ops[1].operands]
            if passed == [*arguments] and returned == [*call.results]:
                return call
        raise _file_error(
            op,
            "has an unsupported region; expected a call with all arguments whose results "
            "are yielded",
        )

    def function_index(self, op: Operation, name: str) -> int:
        if name not in self.function_names:
            raise _file_error(op, f"calls unknown function '@{name}'")
        return self.function_names.index(name)

    def code(self, op: Operation) -> tuple[str, str, bytes]:
        if isinstance(op, CallOp) and COMPOSITE_ATTRIBUTE in op.attributes:
            return COMPOSITE, "", b""
        dialect, _, mnemonic = op_name(op).partition(".")
        code = mnemonic.upper()
        if dialect != "tfl" or code not in enumerators("BuiltinOperator").values():
            raise _file_error(
                op, "is not an op of TensorFlow Lite; lower it to 'tfl' first"
            )
        if code != "CUSTOM":
            return code, "", b""
        custom_code = cast(StringAttr, op.properties["custom_code"])
        options = cast(ConstBytesAttr, op.properties["custom_option"])
        return code, custom_code.data, options.value.data

    def composite_options(self, op: CallOp) -> Mapping[str, OptionValue]:
        entries = _entries(op.attributes[COMPOSITE_ATTRIBUTE])
        name, version = entries.get("name"), entries.get("version")
        if not isinstance(name, StringAttr) or not isinstance(version, IntegerAttr):
            raise _file_error(
                op, f"expects a name and a version in '{COMPOSITE_ATTRIBUTE}'"
            )
        return {
            "name": name.data,
            "decomposition_subgraph_index": self.function_index(
                op, op.callee.string_value()
            ),
            "composite_attributes": _bytes(entries.get("attributes")),
            "version": cast("IntegerAttr[IntegerType]", version).value.data,
        }

    def options(self, op: Operation, code: str) -> Mapping[str, OptionValue]:
        if isinstance(op, CallOp):
            return self.composite_options(op)
        if (table := options_name(code)) is None:
            return {}
        values = default_options(table)
        if code == "CALL_ONCE":
            name = cast(StringAttr, op.properties["session_init_function"]).data
            return {"init_subgraph_index": self.function_index(op, name)}
        if (fields := SUBGRAPH_FIELDS.get(code)) is not None:
            calls = [self.call(region, op) for region in op.regions]
            return {
                field: self.function_index(op, call.callee.string_value())
                for field, call in zip(fields, calls, strict=True)
            }
        types = {
            field: kind(op) for field, kind in _TYPE_OPTIONS.items() if field in values
        }
        return {**values, **options_of(op, values), **types}


def _split(names: Attribute | None) -> Sequence[str]:
    return names.data.split(",") if isinstance(names, StringAttr) and names.data else ()
