"""Import of `.tflite` files to modules of the `tfl` dialect."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import cast

import numpy as np
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    BoolAttr,
    BytesAttr,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    NameLoc,
    NoneAttr,
    NoneType,
    StringAttr,
    TensorType,
    UnitAttr,
    UnknownLoc,
    UnrankedTensorType,
    UnregisteredOp,
    f32,
    i32,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from xdsl_quant import xdsl_patches
from xdsl_quant.dialects.quant import (
    QuantizedType,
    UniformQuantizedPerAxisType,
    UniformQuantizedType,
)
from xdsl_quant.dialects.quant.types import StorageOptions, scalar_or_element_type
from xdsl_quant.frontends.tflite import dialect as tfl
from xdsl_quant.frontends.tflite.dialect.base import plain_attribute
from xdsl_quant.frontends.tflite.dialect.recurrent import RecurrentOp
from xdsl_quant.frontends.tflite.dialect.signatures import (
    EXPORTED_NAMES,
    name_attributes,
)
from xdsl_quant.frontends.tflite.dynamic_shapes import ops_with_dynamic_shapes
from xdsl_quant.frontends.tflite.formulas.fixed_point import checked_log2
from xdsl_quant.runtime.loading import IRError, verify_module
from xdsl_quant.transforms.building.type_replacement import set_type

from .block_types import type_of_blocks
from .constants import ELEMENT_TYPES, constant_value
from .model import (
    ABSENT,
    ITEM_BITS,
    Model,
    Operator,
    Subgraph,
    Tensor,
    TensorQuantization,
    TFLiteFileError,
)
from .options import properties_of
from .reader import read_tflite_model
from .schema import COMPOSITE, enumerator
from .sizes import with_input_shapes, with_static_inputs

_SMALLEST_SCALE = float(np.finfo(np.float32).smallest_normal)
"""Replacement for scale 0, which some files have for constants of zeros."""

_NARROW_OPERANDS: Mapping[str, Sequence[int]] = {
    "CONV_2D": (1,),
    "DEPTHWISE_CONV_2D": (1,),
    "FULLY_CONNECTED": (1,),
    "TRANSPOSE_CONV": (1,),
    "PRELU": (1,),
    "EMBEDDING_LOOKUP": (1,),
}
"""Indices of operands (weights) whose 8-bit constants exclude the smallest integer."""

_BIAS_POSITIONS: Mapping[str, tuple[int, int]] = {
    "CONV_2D": (0, 2),
    "FULLY_CONNECTED": (0, 2),
    "TRANSPOSE_CONV": (2, 3),
}
"""Operand indices of activation and bias, for ops with an option for the bias type."""

SUBGRAPH_FIELDS: Mapping[str, Sequence[str]] = {
    "IF": ("then_subgraph_index", "else_subgraph_index"),
    "WHILE": ("cond_subgraph_index", "body_subgraph_index"),
}
"""Names of the options that give the subgraph of each region, in region order."""

COMPOSITE_ATTRIBUTE = "tfl.composite"
"""Attribute of calls with the name, the attributes and the version of a composite op."""

_OP_TYPES = {op.name: op for op in tfl.TFL.operations if issubclass(op, IRDLOperation)}


def read_tflite(
    source: str | Path | bytes,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    static: bool = False,
    constants: Sequence[str] = (),
) -> ModuleOp:
    """
    Read a TensorFlow Lite model.

    Each subgraph becomes a function, the first one `@main`. Tensor names become locations;
    scales and zero points become `!quant.uniform` types. Shapes of op results are inferred
    from those of inputs; sizes that depend on `?` or on elements stay dynamic.

    Args:
        source: a path, or the bytes of a file.
        shapes: shapes of the inputs of `@main` by tensor name or signature name.
        static: use the file's static shapes of inputs, in which unknown sizes are 1,
            instead of dynamic sizes (`?`).
        constants: unsupported; must be empty.

    Returns:
        The verified module.

    Raises:
        TFLiteFileError: if the file is damaged or unsupported, an input is incompatible
            with its shape, or the module is invalid.
        OSError: if the file cannot be read.
        ImportError: if the package `tflite` is not installed.
    """
    if constants:
        raise TFLiteFileError(
            f"{'<bytes>' if isinstance(source, bytes) else source}: error: inputs of "
            f".tflite files cannot become constants, found '{constants[0]}'"
        )
    if isinstance(source, bytes):
        return _imported("<bytes>", source, shapes or {}, static)
    return _imported(str(source), Path(source).read_bytes(), shapes or {}, static)


def _imported(
    name: str, content: bytes, shapes: Mapping[str, Sequence[int]], static: bool
) -> ModuleOp:
    model = read_tflite_model(content, name)
    xdsl_patches.apply()
    try:
        module = _module(model)
        given = with_input_shapes(model, shapes) if shapes else model
        given = with_static_inputs(given) if static else given
    except TFLiteFileError as e:
        raise TFLiteFileError(f"{name}: error: {e}") from None
    try:
        # Formulas, which infer shapes, expect valid ops.
        verify_module(module)
        if _set_input_shapes(module, given) or ops_with_dynamic_shapes(module):
            # Start-up: few models have dynamic shapes, and kernels take long to load.
            from ..lowering.tfl_infer_shapes import infer_shapes

            infer_shapes(module)
            verify_module(module)
    except IRError as e:
        raise TFLiteFileError(f"{name}: {e}") from None
    return module


def _set_input_shapes(module: ModuleOp, model: Model) -> bool:
    """
    Set the shapes of function arguments to those of inputs without signature; return True
    if one changed.
    """
    is_changed = False
    for function, subgraph in zip(module.body.block.ops, model.subgraphs, strict=True):
        block = function.regions[0].block
        for argument, index in zip(block.args, subgraph.inputs, strict=True):
            tensor = subgraph.tensors[index]
            if tensor.signature is None and isa(type_ := argument.type, TensorType):
                is_changed |= type_.get_shape() != tuple(tensor.shape)
                set_type(argument, TensorType(type_.element_type, tensor.shape))
    return is_changed


def _module(model: Model) -> ModuleOp:
    names = function_names(model)
    functions = [
        _FunctionImporter(model, index, names).function()
        for index in range(len(model.subgraphs))
    ]
    metadata = {name: _string(data) for name, data in model.metadata.items()}
    attributes: dict[str, Attribute] = {}
    if model.signatures:
        attributes["tf_saved_model.semantics"] = UnitAttr()
    if model.description:
        attributes["tfl.description"] = StringAttr(model.description)
    if metadata:
        attributes["tfl.metadata"] = DictionaryAttr(metadata)
    attributes["tfl.schema_version"] = IntegerAttr(3, i32)
    return ModuleOp(functions, attributes)


def function_names(model: Model) -> Sequence[str]:
    """Return unique function names for the subgraphs; the first one is `main`."""
    names = ["main"]
    for index, subgraph in enumerate(model.subgraphs[1:], 1):
        name = subgraph.name or f"subgraph_{index}"
        names.append(name if name not in names else f"{name}_{index}")
    return names


def _string(data: bytes) -> StringAttr | BytesAttr:
    try:
        return StringAttr(data.decode())
    except UnicodeDecodeError:
        return BytesAttr(data)


def _location(name: str) -> NameLoc | UnknownLoc:
    return NameLoc(StringAttr(name), NoneAttr()) if name else UnknownLoc()


# Types


def element_type(tensor: Tensor, where: str, is_narrow: bool = False) -> TypeAttribute:
    """
    Return the element type of a tensor, a quantized type if the tensor has zero points.

    Args:
        tensor: the tensor.
        where: the tensor's name in messages.
        is_narrow: exclude the smallest integer from 8-bit storage.

    Raises:
        TFLiteFileError: if the type is unsupported.
    """
    if (plain := ELEMENT_TYPES.get(tensor.type)) is None:
        raise TFLiteFileError(f"{where} has unsupported type {tensor.type}")
    quantization = tensor.quantization
    if quantization is None:
        return plain
    has_blocks = quantization.blocks is not None
    if not has_blocks and not quantization.zero_points.size:
        return plain
    if "INT" not in tensor.type:
        raise TFLiteFileError(
            f"{where} has zero points for type {tensor.type}; expected an integer type"
        )
    if ITEM_BITS[tensor.type] > 32:
        # The 64-bit bias of a 16x8-bit contraction: quantized types have at most 32 bits.
        return plain
    try:
        return _quantized_type(quantization, tensor, is_narrow)
    except VerifyException as e:
        raise TFLiteFileError(f"{where} has an invalid quantized type: {e}") from None


def _quantized_type(
    quantization: TensorQuantization, tensor: Tensor, is_narrow: bool
) -> TypeAttribute:
    type_name = tensor.type
    options: StorageOptions = {"is_signed": not type_name.startswith("U")}
    if is_narrow and ITEM_BITS[type_name] == 8:
        options["storage_type_min"] = -127 if options["is_signed"] else 1
    if (blocks := quantization.blocks) is not None:
        return type_of_blocks(tensor, blocks, options)
    storage = IntegerType(ITEM_BITS[type_name])
    scales = quantization.scales.astype(np.float64)
    scales[scales == 0] = _SMALLEST_SCALE
    zero_points = quantization.zero_points
    if scales.size == 1:
        scale, zero_point = float(scales[0]), int(zero_points[0])
        return UniformQuantizedType(storage, f32, scale, zero_point, **options)
    return UniformQuantizedPerAxisType(
        storage,
        f32,
        scales,
        np.broadcast_to(zero_points, scales.shape),
        quantized_dimension=quantization.axis,
        **options,
    )


def has_unknown_rank(tensor: Tensor) -> bool:
    """Return True if a tensor has no sizes, and may be a scalar or unranked."""
    return not tensor.shape and tensor.data is None and not tensor.has_rank


def tensor_type(tensor: Tensor, where: str, is_narrow: bool = False) -> TypeAttribute:
    """
    Return the type of a tensor. Files from before 2022 do not distinguish scalars from
    unranked tensors: as in LiteRT, only variable handles are unranked.
    """
    element = element_type(tensor, where, is_narrow)
    if has_unknown_rank(tensor) and isinstance(element, tfl.ResourceType):
        return UnrankedTensorType(element)
    shape = tensor.shape if tensor.signature is None else tensor.signature
    return TensorType(element, [DYNAMIC_INDEX if size < 0 else size for size in shape])


# Functions


class _FunctionImporter:
    def __init__(self, model: Model, index: int, names: Sequence[str]):
        self.model = model
        self.index = index
        self.names = names
        self.subgraph: Subgraph = model.subgraphs[index]
        self.block = Block()
        self.values: dict[int, SSAValue] = {}
        self.constants: dict[tuple[int, bool], SSAValue] = {}
        self.absent: SSAValue | None = None

    def where(self, index: int) -> str:
        return f"tensor {index} ('{self.subgraph.tensors[index].name}')"

    def type(self, index: int, is_narrow: bool = False) -> TypeAttribute:
        return tensor_type(self.subgraph.tensors[index], self.where(index), is_narrow)

    def add(self, op: Operation, name: str = "") -> Operation:
        op.location = _location(name)
        self.block.add_op(op)
        return op

    def function(self) -> FuncOp:
        subgraph = self.subgraph
        for index in subgraph.inputs:
            argument = self.block.insert_arg(self.type(index), len(self.block.args))
            argument.name_hint = _hint(subgraph.tensors[index].name)
            if self.values.setdefault(index, argument) is not argument:
                raise TFLiteFileError(
                    f"{self.where(index)} is listed as an input twice"
                )
        for position, operator in enumerate(subgraph.operators):
            self.operator(operator, f"operator {position} ({operator.code})")
        results = [self.operand(index, False) for index in subgraph.outputs]
        self.add(ReturnOp(*results))
        input_types = self.block.arg_types
        function = FuncOp(
            self.names[self.index],
            (input_types, [result.type for result in results]),
            Region(self.block),
            "private" if self.index else None,
        )
        self.annotate(function)
        return function

    def annotate(self, function: FuncOp) -> None:
        subgraph = self.subgraph
        if not self.index:
            names = {"inputs": subgraph.inputs, "outputs": subgraph.outputs}
            function.attributes["tf.entry_function"] = DictionaryAttr(
                {
                    key: self.tensor_names(indices)
                    for key, indices in names.items()
                    if indices
                }
            )
        signatures = [s for s in self.model.signatures if s.subgraph == self.index]
        if not signatures:
            return
        function.attributes[EXPORTED_NAMES] = ArrayAttr(
            [StringAttr(signature.key) for signature in signatures]
        )
        inputs = {signature.key: signature.inputs for signature in signatures}
        outputs = {signature.key: signature.outputs for signature in signatures}
        function.arg_attrs = _index_paths(subgraph.inputs, inputs)
        function.res_attrs = _index_paths(subgraph.outputs, outputs)

    def tensor_names(self, indices: Iterable[int]) -> StringAttr:
        names = (self.subgraph.tensors[index].name for index in indices)
        return StringAttr(",".join(names))

    # Operands

    def operand(self, index: int, is_narrow: bool) -> SSAValue:
        if index == ABSENT:
            return self.no_value()
        if (known := self.values.get(index)) is not None:
            return known
        tensor = self.subgraph.tensors[index]
        has_elements = math.prod(tensor.shape) > 0
        if tensor.data is None and has_elements and not tensor.is_variable:
            raise TFLiteFileError(f"{self.where(index)} is used before it is computed")
        key = index, is_narrow
        if (constant := self.constants.get(key)) is None:
            where = self.where(index)
            constant = self.constants[key] = self.constant(tensor, where, is_narrow)
        return constant

    def no_value(self) -> SSAValue:
        """Return the function's only `tfl.no_value`, created at the first use."""
        if self.absent is None:
            op = tfl.NoValueOp.create(
                result_types=[NoneType()], properties={"value": UnitAttr()}
            )
            self.absent = self.add(op).results[0]
        return self.absent

    def constant(self, tensor: Tensor, where: str, is_narrow: bool = False) -> SSAValue:
        if tensor.type not in ITEM_BITS:
            raise TFLiteFileError(
                f"{where} is a constant of unsupported type {tensor.type}"
            )
        element = element_type(tensor, where, is_narrow)
        type_ = TensorType(element, tensor.shape)
        if isinstance(element, QuantizedType):
            storage = IntegerType(ITEM_BITS[tensor.type])
            value = constant_value(tensor, TensorType(storage, tensor.shape))
            op = tfl.QConstOp.create(
                result_types=[type_], properties={"qtype": type_, "value": value}
            )
        else:
            value = constant_value(tensor, type_)
            op = tfl.ConstOp.create(result_types=[type_], properties={"value": value})
            if tensor.is_variable:
                op.attributes["tfl.is_variable"] = UnitAttr()
        return self.add(op, tensor.name).results[0]

    # Operators

    def operator(self, operator: Operator, where: str) -> None:
        narrow = _NARROW_OPERANDS.get(operator.code, ())
        operands = [
            self.operand(index, position in narrow)
            for position, index in enumerate(operator.inputs)
        ]
        if operator.code == "RESHAPE":
            operands[1:] = [self.reshape_sizes(operator, where)]
        name = f"tfl.{operator.code.lower()}"
        op_type = _OP_TYPES.get(name)
        if op_type is not None:
            # Files omit absent operands at the end.
            count = len(op_type.get_irdl_definition().operands)
            operands += [self.no_value() for _ in range(count - len(operands))]
        result_types = [self.type(index) for index in operator.outputs]
        if operator.code == COMPOSITE:
            self.composite(operator, operands, where)
            return
        properties = self.properties(op_type, operator, result_types, where)
        if operator.code in _BIAS_POSITIONS:
            self.warn_of_bias(operator, where)
        op_class = op_type or UnregisteredOp.with_name(name)
        op = op_class.create(
            operands=operands[:1] if operator.code == "IF" else operands,
            result_types=result_types,
            properties=properties,
            attributes=self.discardable(operator),
            regions=self.regions(operator, operands, where),
        )
        tensors = self.subgraph.tensors
        self.add(op, tensors[operator.outputs[0]].name if operator.outputs else "")
        self.drop_unknown_ranks(op, operator)
        self.add_results(op, operator)

    def add_results(self, op: Operation, operator: Operator) -> None:
        tensors = self.subgraph.tensors
        for index, result in zip(operator.outputs, op.results, strict=True):
            result.name_hint = _hint(tensors[index].name)
            if self.values.setdefault(index, result) is not result:
                raise TFLiteFileError(f"{self.where(index)} is computed twice")

    def composite(
        self, operator: Operator, operands: Sequence[SSAValue], where: str
    ) -> None:
        """Add a call of the decomposition, with the name and attributes of the op."""
        options = operator.options
        index = cast(int, options["decomposition_subgraph_index"])
        callee = _FunctionImporter(self.model, index, self.names)
        inputs, outputs = callee.subgraph.inputs, callee.subgraph.outputs
        types = [self.type(i) for i in operator.outputs]
        if [value.type for value in operands] != [callee.type(i) for i in inputs] or (
            types != [callee.type(i) for i in outputs]
        ):
            raise TFLiteFileError(
                f"{where} calls '{self.names[index]}', whose inputs or outputs have other "
                "types than its own"
            )
        call = CallOp(self.names[index], operands, types)
        attributes = bytes(cast(Sequence[int], options["composite_attributes"]))
        call.attributes[COMPOSITE_ATTRIBUTE] = DictionaryAttr(
            {
                "attributes": _string(attributes),
                "name": StringAttr(cast(str, options["name"])),
                "version": IntegerAttr(cast(int, options["version"]), i32),
            }
        )
        self.add(call, self.subgraph.tensors[operator.outputs[0]].name if types else "")
        self.add_results(call, operator)

    def drop_unknown_ranks(self, op: Operation, operator: Operator) -> None:
        """Make results of unknown rank unranked if the op is invalid with scalars."""
        tensors = self.subgraph.tensors
        results = [
            result
            for index, result in zip(operator.outputs, op.results, strict=True)
            if has_unknown_rank(tensors[index]) and isinstance(result.type, TensorType)
        ]
        if not results or _may_have_scalars(op):
            return
        for result in results:
            unranked = UnrankedTensorType(scalar_or_element_type(result.type))
            Rewriter.replace_value_with_new_type(result, unranked)

    def properties(
        self,
        op_type: type[IRDLOperation] | None,
        operator: Operator,
        result_types: Sequence[Attribute],
        where: str,
    ) -> dict[str, Attribute]:
        options = operator.options
        if operator.code == "CUSTOM":
            return {
                "custom_code": StringAttr(operator.custom_code),
                "custom_option": tfl.ConstBytesAttr(BytesAttr(operator.custom_options)),
            }
        if operator.code == "CALL_ONCE":
            subgraph = cast(int, options["init_subgraph_index"])
            return {"session_init_function": StringAttr(self.names[subgraph])}
        if operator.code == "LSTM" and options["kernel_type"] == 1:
            raise TFLiteFileError(
                f"{where} has kernel type BASIC, which is unsupported; expected FULL"
            )
        if operator.code == "QUANTIZE":
            if not result_types:
                raise TFLiteFileError(f"{where} has no result")
            return {"qtype": result_types[0]}
        intermediates = self.intermediates(op_type, operator, where)
        if op_type is None:
            return {name: plain_attribute(options[name]) for name in sorted(options)}
        return properties_of(op_type, options, where) | intermediates

    def intermediates(
        self, op_type: type[IRDLOperation] | None, operator: Operator, where: str
    ) -> dict[str, Attribute]:
        """Return the types of intermediate tensors by property name."""
        if not operator.intermediates:
            return {}
        sequences: Sequence[Sequence[str]] = ()
        if op_type is not None and issubclass(op_type, RecurrentOp):
            sequences = op_type.INTERMEDIATES
        by_count = {len(names): names for names in sequences}
        count = len(operator.intermediates)
        if (names := by_count.get(count)) is None:
            expected = " or ".join(map(str, by_count)) or "none"
            raise TFLiteFileError(
                f"{where} has {count} intermediate tensors, which are unsupported; "
                f"expected {expected}"
            )
        return {
            name: self.type(index)
            for name, index in zip(names, operator.intermediates, strict=True)
        }

    def discardable(self, operator: Operator) -> dict[str, Attribute]:
        """Return attributes for options that affect results but are not op properties."""
        if operator.code == "TRANSPOSE_CONV" and _has_narrow_sums(operator):
            x, bias = (self.operand_tensor(operator, index) for index in (2, 3))
            if bias is None and x is not None and x.type == "INT16":
                number = enumerator("TensorType", "INT32")
                return {"quantized_bias_type": IntegerAttr(number, i32)}
        if operator.options.get("pot_scale_int16", True):
            return {}
        tensors = [self.subgraph.tensors[i] for i in operator.inputs if i != ABSENT]
        tensors += [self.subgraph.tensors[index] for index in operator.outputs]
        if not all(map(_has_power_of_two_scale, tensors)):
            return {}
        return {"pot_scale_int16": BoolAttr.from_bool(False)}

    def reshape_sizes(self, operator: Operator, where: str) -> SSAValue:
        """Return the result sizes of a reshape: a vector operand, or else its option."""
        operand = self.operand_tensor(operator, 1)
        if operand is not None and operand.type == "INT32" and len(operand.shape) == 1:
            return self.operand(operator.inputs[1], False)
        sizes = np.array(operator.options["new_shape"], np.int32)
        if not sizes.size and operand is not None:
            if operand.type != "INT32" or operand.data is None:
                raise TFLiteFileError(
                    f"{where} has a shape operand of type {operand.type} and rank "
                    f"{len(operand.shape)}; expected a constant, or a vector of INT32"
                )
            sizes = operand.data.view(np.int32)
        if sizes.tolist() == [0]:
            # Old files encode a scalar shape this way.
            sizes = sizes[:0]
        name = "" if operand is None else operand.name
        shape = Tensor(name, "INT32", sizes.shape, data=sizes.view(np.uint8))
        return self.constant(shape, where)

    def operand_tensor(self, operator: Operator, position: int) -> Tensor | None:
        """Return the tensor of an operand; `None` if it is absent."""
        if position >= len(operator.inputs) or operator.inputs[position] == ABSENT:
            return None
        return self.subgraph.tensors[operator.inputs[position]]

    def warn_of_bias(self, operator: Operator, where: str) -> None:
        """Warn if an op has a 32-bit bias whose bytes LiteRT reads as 64-bit integers."""
        x, bias = (
            self.operand_tensor(operator, position)
            for position in _BIAS_POSITIONS[operator.code]
        )
        if x is None or bias is None or (x.type, bias.type) != ("INT16", "INT32"):
            return
        if not _has_narrow_sums(operator):
            warnings.warn(
                f"{where} is wrong in LiteRT, which reads INT32 bias '{bias.name}' as "
                "INT64 without option 'quantized_bias_type'; write the file with this "
                "option, or with a bias of INT64",
                stacklevel=2,
            )

    def regions(
        self, operator: Operator, operands: Sequence[SSAValue], where: str
    ) -> list[Region]:
        """Return regions that call the subgraphs of a conditional or loop."""
        if operator.code == "LSTM":
            return [Region()]
        fields = SUBGRAPH_FIELDS.get(operator.code, ())
        indices = [cast(int, operator.options[field]) for field in fields]
        if operator.code == "IF":
            return [self.call(index, operands[1:], where) for index in indices]
        return [self.call(index, None, where) for index in indices]

    def call(
        self, index: int, arguments: Sequence[SSAValue] | None, where: str
    ) -> Region:
        """Return a region that calls a function, by default with the region's arguments."""
        callee = _FunctionImporter(self.model, index, self.names)
        types = [callee.type(i) for i in callee.subgraph.inputs]
        block = Block(arg_types=types if arguments is None else ())
        arguments = block.args if arguments is None else arguments
        if len(arguments) != len(types):
            raise TFLiteFileError(
                f"{where} calls '{self.names[index]}' with {len(arguments)} values; "
                f"expected {len(types)}"
            )
        result_types = [callee.type(i) for i in callee.subgraph.outputs]
        call = CallOp(self.names[index], arguments, result_types)
        block.add_ops([call, tfl.YieldOp.create(operands=call.results)])
        return Region(block)


def _may_have_scalars(op: Operation) -> bool:
    if isinstance(op, tfl.CustomOp | UnregisteredOp):
        return False
    try:
        op.verify()
    except VerifyException:
        return False
    return True


def _has_narrow_sums(operator: Operator) -> bool:
    number = operator.options.get("quantized_bias_type")
    return number == enumerator("TensorType", "INT32")


def _has_power_of_two_scale(tensor: Tensor) -> bool:
    quantization = tensor.quantization
    return (
        tensor.type == "INT16"
        and quantization is not None
        and quantization.scales.size == 1
        and checked_log2(quantization.scales[0]) is not None
    )


def _hint(name: str) -> str | None:
    """Return a valid SSA name for a tensor name, or `None`."""
    # The parser reads ASCII letters alone.
    hint = re.sub(r"[^\w$.-]", "_", name, flags=re.ASCII)
    # xDSL drops trailing numbers, so a name such as `_1_2` would be empty.
    is_empty = re.fullmatch(r"(_\d+)+", hint)
    return hint if SSAValue.is_valid_name(hint) and not is_empty else None


def _index_paths(
    indices: Sequence[int], signatures: Mapping[str, Mapping[str, int]]
) -> ArrayAttr[DictionaryAttr]:
    """
    Return the name attributes of arguments or results.

    Args:
        indices: tensor indices of the arguments or results.
        signatures: for each signature key, a mapping from names to tensor indices.
    """
    return ArrayAttr(
        [
            name_attributes(
                {
                    key: [name for name, tensor in names.items() if tensor == index]
                    for key, names in signatures.items()
                }
            )
            for index in indices
        ]
    )
