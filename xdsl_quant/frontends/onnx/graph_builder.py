"""Builder of the StableHLO ops that compute the nodes of an ONNX graph."""

from __future__ import annotations

import math
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import zip_longest
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FloatAttr,
    IntegerAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    TensorType,
    UnknownLoc,
    bf16,
    f16,
    f32,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.frontends.stablehlo.building import StableHLOBuilder
from xdsl_quant.frontends.stablehlo.dialect.elementwise import BinaryOp
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import constant_elements, shape_text
from xdsl_quant.transforms.building.builder import element_type_of, shape_of
from xdsl_quant.unsupported import Unsupported

from .files.model_files import ONNXFileError, described
from .files.tensors import array_of, constant_attribute, element_type_of_data
from .folding import folded_results
from .functions import expanded_nodes
from .node import Node
from .type_inference import ValueTypes

_MAX_CONSTANT = 1 << 24
"""Maximum element count of a constant that a conversion computes."""

_OPS_OF_UNKNOWN_SIZES = frozenset(
    """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh AveragePool BatchNormalization BitShift
    BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast Ceil Celu Clip Concat Conv ConvInteger
    Cos Cosh DequantizeLinear Div Dropout DynamicQuantizeLinear Elu Equal Erf Exp Flatten
    Floor Gather Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual
    HardSigmoid HardSwish Identity IsNaN LayerNormalization LeakyRelu Less LessOrEqual Log
    LogSoftmax MatMul MatMulInteger Max MaxPool Mean Min Mish Mod Mul Neg Not Or PRelu Pad
    Pow QuantizeLinear Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
    ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu Reshape Round Selu Shrink
    Sigmoid Sign Sin Sinh Slice Softmax Softplus Softsign Split Sqrt Squeeze Sub Sum Swish
    Tan Tanh ThresholdedRelu Transpose Unsqueeze Where Xor
    com.microsoft.BiasGelu com.microsoft.FastGelu com.microsoft.FusedMatMul
    com.microsoft.Gelu com.microsoft.QuickGelu com.microsoft.SkipLayerNormalization
    com.microsoft.SkipSimplifiedLayerNormalization
    """.split()
)
"""Ops whose conversions support unknown sizes of operands, or refuse them themselves."""

Size: TypeAlias = int | SSAValue
"""Size of a dimension; an unknown one is a tensor of one i32."""

Operands: TypeAlias = "Sequence[SSAValue | None]"
"""Operands of a node; `None` for an absent optional operand."""

Number: TypeAlias = "SSAValue | float"
"""Tensor, or number that becomes a constant of the other operand's type."""

Conversion: TypeAlias = "Callable[..., SSAValue | Sequence[SSAValue | None]]"
"""
Function that builds the results of a node from the builder, the node and its operands.
Absent optional operands are `None`, or are not passed if they are the last ones. It raises
`Unsupported` with a message that follows the name of the node.
"""


def _shape_of_sizes(sizes: Sequence[Size]) -> tuple[int, ...]:
    return tuple(s if isinstance(s, int) else DYNAMIC_INDEX for s in sizes)


def location(name: str) -> LocationAttr:
    """Return the location of ops that compute the value with this name."""
    return NameLoc(StringAttr(name), NoneAttr()) if name else UnknownLoc()


def value_hint(name: str) -> str | None:
    """Return a valid SSA name for an ONNX name, or `None`."""
    # The parser reads ASCII letters alone, and xDSL drops trailing numbers.
    hint = re.sub(r"[^\w$.-]", "_", name, flags=re.ASCII)
    is_empty = re.fullmatch(r"(_\d+)+", hint)
    return hint if SSAValue.is_valid_name(hint) and not is_empty else None


def declared_type(proto: onnx.TypeProto, name: str) -> TensorType:
    """
    Return the type of a value, with `?` for symbolic sizes.

    Raises:
        ONNXFileError: if the value is not a tensor of known rank.
    """
    tensor = proto.tensor_type
    if not proto.HasField("tensor_type") or not tensor.HasField("shape"):
        kinds = {"": "of unknown type", "tensor_type": "a tensor of unknown rank"}
        kind = proto.WhichOneof("value") or ""
        raise ONNXFileError(
            f"value '{name}' is {kinds.get(kind, kind)}; expected a tensor with a shape"
        )
    # Some exporters write -1 for an unknown size.
    sizes = [
        size.dim_value
        if size.HasField("dim_value") and size.dim_value >= 0
        else DYNAMIC_INDEX
        for size in tensor.shape.dim
    ]
    return TensorType(element_type_of_data(tensor.elem_type), sizes)


def _plain_attribute(attribute: onnx.AttributeProto, folder: Path | None) -> Attribute:
    """Return the attribute of a custom call for an attribute of a node."""
    value = onnx.helper.get_attribute_value(attribute)
    kinds = onnx.AttributeProto
    match attribute.type:
        case kinds.INT:
            return IntegerAttr(value, i64)
        case kinds.FLOAT:
            return FloatAttr(value, f32)
        case kinds.INTS:
            return DenseArrayBase.from_list(i64, value)
        case kinds.FLOATS:
            return DenseArrayBase.from_list(f32, value)
        case kinds.STRING:
            return _string_attribute(value)
        case kinds.STRINGS:
            return ArrayAttr(map(_string_attribute, value))
        case kinds.TENSOR:
            element_type = element_type_of_data(value.data_type)
            return constant_attribute(array_of(value, folder), element_type)
        case _:
            name = kinds.AttributeType.Name(attribute.type)
            raise Unsupported(
                f"unsupported op with the attribute '{attribute.name}' of type {name}"
            )


def _string_attribute(text: bytes) -> StringAttr:
    try:
        return StringAttr(text.decode())
    except UnicodeDecodeError:
        raise Unsupported(f"attribute {text!r} is not UTF-8") from None


@dataclass(eq=False)
class GraphBuilder(StableHLOBuilder):
    """
    Builder that converts nodes.

    Shape arithmetic is folded: a node whose operands are all constants becomes a constant
    (see `folding`), so conversions find sizes, axes and indices as constants.
    """

    sizes_hint = "set the sizes of the inputs, e.g. with --shape"

    conversions: Mapping[str, Conversion] = field(kw_only=True)
    """Conversion of each op, by its name (`Conv`, `com.microsoft.QGemm`)."""

    versions: Mapping[str, int] = field(kw_only=True)
    """Opset version of each domain."""

    types: ValueTypes = field(kw_only=True)
    """Declared and inferred types of values."""

    folder: Path | None = field(kw_only=True)
    """Folder of external data."""

    constants_point: InsertPoint = field(kw_only=True)
    """Position of the constants of initializers, which dominates all uses."""

    initializers: ChainMap[str, onnx.TensorProto] = field(
        default_factory=ChainMap[str, onnx.TensorProto]
    )
    """Constants of the file that are not yet in the module, by name."""

    values: ChainMap[str, SSAValue] = field(default_factory=ChainMap[str, SSAValue])
    """Values of the graph and of the graphs around it, by name."""

    known_sizes: dict[SSAValue, Sequence[Size]] = field(
        default_factory=dict[SSAValue, "Sequence[Size]"]
    )
    """Sizes with which values were broadcast or reshaped."""

    # Constants

    def tensor(self, array: Array, element_type: Attribute | None = None) -> SSAValue:
        """Build a constant; its element type is by default that of the array."""
        if element_type is None:
            element_type = element_type_of_data(
                onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            )
        return self.add(stablehlo.ConstantOp(constant_attribute(array, element_type)))

    def known(self, value: SSAValue) -> Array | None:
        """Return the elements of a constant; `None` for other values."""
        is_constant = isinstance(value.owner, stablehlo.ConstantOp)
        return constant_elements(value) if is_constant else None

    def array(self, value: SSAValue, name: str) -> Array:
        """
        Return the elements of a constant operand.

        Args:
            value: the operand.
            name: name of the operand for the message, in the plural.
        """
        if (known := self.known(value)) is None:
            raise Unsupported(
                f"{name} depend on data or on unknown sizes; {self.sizes_hint}"
            )
        return known

    def integers(self, value: SSAValue, name: str) -> Sequence[int]:
        """Return the elements of a constant operand such as axes, sizes or pads."""
        return [int(number) for number in self.array(value, name).reshape(-1)]

    def single_number(self, value: SSAValue, name: str) -> float:
        """Return the element of a constant operand that has one; see `array`."""
        if (elements := self.array(value, name)).size != 1:
            raise Unsupported(f"found {elements.size} {name}; expected 1")
        return elements.item()

    # Shapes

    def axes(self, axes: Sequence[int], rank: int) -> list[int]:
        """Return non-negative axes."""
        for axis in axes:
            if not -rank <= axis < rank:
                raise Unsupported(f"axis {axis} is out of range for rank {rank}")
        return [axis % rank for axis in axes]

    def static_shape(self, value: SSAValue) -> tuple[int, ...]:
        """Return a shape without unknown sizes; others are `Unsupported`."""
        if DYNAMIC_INDEX in (shape := shape_of(value)):
            raise Unsupported(f"the sizes are unknown; {self.sizes_hint}")
        return shape

    def known_count(self, value: SSAValue, axes: Sequence[int]) -> int:
        """Return the number of elements along axes; unknown sizes are `Unsupported`."""
        sizes = [shape_of(value)[axis] for axis in axes]
        if DYNAMIC_INDEX in sizes:
            raise Unsupported(f"divides by an unknown size; {self.sizes_hint}")
        return math.prod(sizes)

    def check_count(self, count: int) -> None:
        """Raise `Unsupported` for the element count of a constant that is too large."""
        if count > _MAX_CONSTANT:
            raise Unsupported(
                f"needs a constant of {count} elements; expected at most {_MAX_CONSTANT}"
            )

    def broadcast_together(self, *values: SSAValue) -> list[SSAValue]:
        """Broadcast values to one shape, as NumPy does."""
        shapes = [shape_of(value) for value in values]
        if len({*shapes}) == 1:
            return [*values]
        shape = self.broadcast_shape(*shapes)
        if DYNAMIC_INDEX not in shape:
            return [self.broadcast_like_numpy(value, shape) for value in values]
        sizes = self._broadcast_sizes(shape, values)
        return [self.broadcast_to_sizes(value, sizes) for value in values]

    def _broadcast_sizes(
        self, shape: Sequence[int], values: Sequence[SSAValue]
    ) -> Sequence[Size]:
        """Return the sizes of a shape; unknown ones are those of a value."""
        sizes: list[Size] = [*shape]
        for value in values:
            own = shape_of(value)
            for position, size in enumerate(own, len(shape) - len(own)):
                if size == sizes[position] == DYNAMIC_INDEX:
                    sizes[position] = self.size_of(value, position - len(shape))
        return sizes

    def size_of(self, value: SSAValue, axis: int) -> Size:
        """Return a size of a value, or a tensor with the size if it is unknown."""
        shape = shape_of(value)
        if (size := shape[axis]) != DYNAMIC_INDEX:
            return size
        if (known := self.known_sizes.get(value)) is not None:
            return known[axis]
        op = stablehlo.GetDimensionSizeOp(value, dimension=axis % len(shape))
        return super().reshape_to(self.add(op), (1,))

    def sizes_of(self, value: SSAValue) -> Sequence[Size]:
        """Return the sizes of a value: see `size_of`."""
        if (known := self.known_sizes.get(value)) is not None:
            return known
        sizes = [self.size_of(value, axis) for axis in range(len(shape_of(value)))]
        return self.with_sizes(value, sizes)

    def with_sizes(self, value: SSAValue, sizes: Sequence[Size]) -> Sequence[Size]:
        """Store the sizes of a value, unless its users may be outside of this block."""
        if self.insertion_point.block is self.constants_point.block:
            self.known_sizes[value] = sizes
        return sizes

    def _with_sizes_of(self, value: SSAValue, other: SSAValue) -> SSAValue:
        if DYNAMIC_INDEX in shape_of(value):
            self.with_sizes(value, self.sizes_of(other))
        return value

    def product_of_sizes(self, sizes: Sequence[Size]) -> Size:
        """Return the product of sizes."""
        known = math.prod(size for size in sizes if isinstance(size, int))
        unknown = [size for size in sizes if isinstance(size, SSAValue)]
        if not unknown or not known:
            return known
        result = reduce(lambda x, y: self.add(stablehlo.MultiplyOp(x, y)), unknown)
        if known == 1:
            return result
        factor = self.tensor(np.array([known], np.int32))
        return self.add(stablehlo.MultiplyOp(result, factor))

    def _shape_tensor(self, sizes: Sequence[Size]) -> SSAValue:
        return self.concatenate(
            [
                size if isinstance(size, SSAValue) else self._size_tensor(size)
                for size in sizes
            ],
            0,
        )

    def _size_tensor(self, size: int) -> SSAValue:
        return self.tensor(np.array([size], np.int32))

    def broadcast_to_sizes(
        self,
        value: SSAValue,
        sizes: Sequence[Size],
        dimensions: Sequence[int] | None = None,
    ) -> SSAValue:
        """Broadcast a value to sizes, which may be unknown: see `broadcast`."""
        shape, own = _shape_of_sizes(sizes), shape_of(value)
        if own == shape:
            return value
        if dimensions is None:
            dimensions = range(len(shape) - len(own), len(shape))
        if DYNAMIC_INDEX not in shape:
            return self.broadcast(value, shape, dimensions)
        result = self.add(
            stablehlo.DynamicBroadcastInDimOp(
                value,
                self._shape_tensor(sizes),
                result_types=[TensorType(element_type_of(value), shape)],
                broadcast_dimensions=dimensions,
            )
        )
        self.known_sizes[result] = sizes
        return result

    def broadcast_like(
        self,
        value: SSAValue,
        other: SSAValue,
        dimensions: Sequence[int] | None = None,
    ) -> SSAValue:
        """Broadcast a value to the shape of another one: see `broadcast`."""
        if shape_of(value) == shape_of(other):
            return value
        return self.broadcast_to_sizes(value, self.sizes_of(other), dimensions)

    def reshape_to(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Reshape a value; another element count is `Unsupported`."""
        own = shape_of(value)
        if DYNAMIC_INDEX not in (*own, *shape) and math.prod(own) != math.prod(shape):
            texts = (shape_text(each) or "()" for each in (own, shape))
            raise Unsupported("cannot reshape {} to {}".format(*texts))
        return super().reshape_to(value, shape)

    def reshape_to_sizes(self, value: SSAValue, sizes: Sequence[Size]) -> SSAValue:
        """Reshape a value to sizes, of which several may be unknown."""
        shape = _shape_of_sizes(sizes)
        if DYNAMIC_INDEX not in shape:
            return self.reshape_to(value, shape)
        result = self.add(
            stablehlo.DynamicReshapeOp(
                value,
                self._shape_tensor(sizes),
                result_types=[TensorType(element_type_of(value), shape)],
            )
        )
        self.known_sizes[result] = sizes
        return result

    def broadcast_shape(self, *shapes: Sequence[int]) -> Sequence[int]:
        """Return the shape to which NumPy broadcasts these shapes."""
        columns = zip_longest(*(shape[::-1] for shape in shapes), fillvalue=1)
        sizes = [{*column} - {1} or {1} for column in columns]
        if any(len(different) > 1 for different in sizes):
            texts = " and ".join("x".join(map(str, shape)) or "()" for shape in shapes)
            raise Unsupported(f"shapes {texts} cannot be broadcast together")
        return [size for (size,) in reversed(sizes)]

    def broadcast_like_numpy(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Broadcast a value to a shape, aligned to the right."""
        own = shape_of(value)
        # A dimension of size 1 is stretched by StableHLO, too.
        rank = len(shape)
        return self.broadcast(value, shape, range(rank - len(own), rank))

    def permute(self, value: SSAValue, permutation: Sequence[int]) -> SSAValue:
        """Build `stablehlo.transpose`, or return the value if the order does not change."""
        if [*permutation] == [*range(len(shape_of(value)))]:
            return value
        return self.add(stablehlo.TransposeOp(value, permutation=permutation))

    def iota(
        self, shape: Sequence[int], axis: int, element_type: Attribute
    ) -> SSAValue:
        """Build the index of each element along an axis."""
        type_ = TensorType(element_type, shape)
        op = stablehlo.IotaOp(result_types=[type_], iota_dimension=axis)
        return self.add(op)

    def convert(self, value: SSAValue, element_type: Attribute) -> SSAValue:
        """Convert the elements of a tensor, as StableHLO does."""
        if element_type_of(value) == element_type:
            return value
        type_ = TensorType(element_type, shape_of(value))
        result = self.op(stablehlo.ConvertOp, (value,), type_)
        return self._with_sizes_of(result, value)

    def reshape_like(self, value: SSAValue, other: SSAValue) -> SSAValue:
        """Reshape a value to the shape of another one."""
        return self.reshape_to_sizes(value, self.sizes_of(other))

    # Arithmetic

    def compute(self, op_type: type[BinaryOp], x: Number, y: Number) -> SSAValue:
        """Build a binary op on operands that are broadcast together."""
        operands = self.numbers(x, y)
        return self._with_sizes_of(self.add(op_type(*operands)), operands[0])

    def compare(
        self, direction: stablehlo.ComparisonDirection, x: Number, y: Number
    ) -> SSAValue:
        """Build a comparison of operands that are broadcast together."""
        operands = self.numbers(x, y)
        result = super().compare(direction, *operands)
        return self._with_sizes_of(result, operands[0])

    def select(self, predicate: SSAValue, x: Number, y: Number) -> SSAValue:
        """Select elements of operands that are broadcast together."""
        operands = self.broadcast_together(predicate, *self.numbers(x, y))
        result = self.add(stablehlo.SelectOp(*operands))
        return self._with_sizes_of(result, operands[0])

    def numbers(self, x: Number, y: Number) -> list[SSAValue]:
        """Broadcast operands together; a Python number has the type of the other one."""
        value = x if isinstance(x, SSAValue) else y
        assert isinstance(value, SSAValue)
        element_type = element_type_of(value)
        return self.broadcast_together(
            *(
                operand
                if isinstance(operand, SSAValue)
                else self.scalar(operand, element_type)
                for operand in (x, y)
            )
        )

    def single(self, value: SSAValue) -> SSAValue:
        """Convert narrower floats to f32, in which onnxruntime computes sums of them."""
        is_narrow = element_type_of(value) in (f16, bf16)
        return self.convert(value, f32) if is_narrow else value

    def reduce_keeping(
        self,
        op_type: type[BinaryOp],
        value: SSAValue,
        start: float,
        axes: Sequence[int],
    ) -> SSAValue:
        """Reduce a value along `axes`, which keep the size 1."""
        sizes = [
            1 if axis in axes else self.size_of(value, axis)
            for axis in range(len(shape_of(value)))
        ]
        return self.reshape_to_sizes(self.reduce(op_type, value, start, axes), sizes)

    # Graphs

    def value(self, name: str) -> SSAValue:
        """Return a value by name; build the constant of an initializer at its first use."""
        # From the innermost graph outward.
        for values, tensors in zip(
            self.values.maps, self.initializers.maps, strict=True
        ):
            if (known := values.get(name)) is not None:
                return known
            if (tensor := tensors.get(name)) is not None:
                values[name] = self._initializer(tensor)
                return values[name]
        raise ONNXFileError(f"value '{name}' is used but not computed before")

    def _initializer(self, tensor: onnx.TensorProto) -> SSAValue:
        element_type = element_type_of_data(tensor.data_type)
        array = array_of(tensor, self.folder)
        attribute = constant_attribute(array, element_type, tensor.name)
        constant = stablehlo.ConstantOp(attribute)
        constant.location = location(tensor.name)
        self._insert_constant(constant)
        return constant.output

    def _insert_constant(self, constant: stablehlo.ConstantOp) -> None:
        point = self.constants_point
        if point.insert_before is None:
            point.block.add_op(constant)
        else:
            point.block.insert_op_before(constant, point.insert_before)

    def node(self, proto: onnx.NodeProto) -> None:
        """
        Convert a node.

        Raises:
            ONNXFileError: if the node is invalid or unsupported.
        """
        version = self.versions.get(proto.domain or "ai.onnx", 1)
        node = Node(proto, version)
        self.location = location(next(filter(None, proto.output), proto.name))
        operands = [self.value(name) if name else None for name in proto.input]
        try:
            results = self._results(node, operands)
        except (Unsupported, VerifyException) as e:
            raise ONNXFileError(f"{described(proto)}: {e}") from None
        for name, result in zip(node.result_names, results, strict=False):
            if name and result is not None:
                self.values[name] = result
                if result.name_hint is None:
                    result.name_hint = value_hint(name)
        missing = [name for name in node.result_names if name not in self.values]
        if any(missing):
            raise ONNXFileError(
                f"{described(proto)}: result '{missing[0]}' is unsupported"
            )

    def _results(self, node: Node, operands: Operands) -> Sequence[SSAValue | None]:
        if (folded := folded_results(node, operands, self.known)) is not None:
            return [None if array is None else self.tensor(array) for array in folded]
        if (conversion := self.conversions.get(node.op_type)) is None:
            expanded = self._expanded(node, operands)
            return self._custom_call(node, operands) if expanded is None else expanded
        if node.op_type not in _OPS_OF_UNKNOWN_SIZES and any(
            operand is not None and DYNAMIC_INDEX in shape_of(operand)
            for operand in operands
        ):
            raise Unsupported(f"has an operand of unknown size; {self.sizes_hint}")
        results = conversion(self, node, *operands)
        results = [results] if isinstance(results, SSAValue) else results
        for result in results:
            shape = () if result is None else shape_of(result)
            if DYNAMIC_INDEX not in shape and math.prod(shape) >= 1 << 63:
                raise Unsupported(f"result [{shape_text(shape)}] has too many elements")
        return results

    def _expanded(
        self, node: Node, operands: Operands
    ) -> Sequence[SSAValue | None] | None:
        """Convert the function that defines an op; return `None` if there is none."""
        if (definition := expanded_nodes(node, operands)) is None:
            return None
        protos, versions = definition
        # A function of another domain may lack the version of ONNX's own.
        versions = {**self.versions, **versions}
        inner = self.nested(self.insertion_point, versions=versions)
        for name, operand in zip(node.proto.input, operands, strict=True):
            if operand is not None:
                inner.values[name] = operand
        for proto in protos:
            inner.node(proto)
        return [inner.value(name) if name else None for name in node.result_names]

    def _custom_call(self, node: Node, operands: Operands) -> Sequence[SSAValue | None]:
        """
        Build a call of `@onnx.Name` for an op without conversion. Its configuration has
        the rest of the node, so that the node can be written again.
        """
        absent_operands = [i for i, value in enumerate(operands) if value is None]
        absent_results = [i for i, name in enumerate(node.result_names) if not name]
        config: dict[str, Attribute] = {
            "attributes": DictionaryAttr(
                {
                    name: _plain_attribute(value, self.folder)
                    for name, value in node.attributes.items()
                }
            ),
            "domain": StringAttr(node.proto.domain),
            "opset_version": IntegerAttr(node.version, i64),
            "absent_operands": DenseArrayBase.from_list(i64, absent_operands),
            "absent_results": DenseArrayBase.from_list(i64, absent_results),
        }
        call = stablehlo.CustomCallOp(
            [value for value in operands if value is not None],
            result_types=[[self._inferred(name) for name in node.result_names if name]],
            call_target_name=StringAttr(f"onnx.{node.op_type}"),
            api_version=IntegerAttr(4, i32),
            backend_config=DictionaryAttr(config),
        )
        self.add(call)
        results = iter(call.results)
        return [next(results) if name else None for name in node.result_names]

    def _inferred(self, name: str) -> TensorType:
        """Return the type of a result of an op without conversion."""
        if (type_ := self.types.get(name)) is None:
            raise Unsupported(f"unsupported op; the type of '{name}' is unknown")
        try:
            return declared_type(type_, name)
        except ONNXFileError as e:
            raise Unsupported(f"unsupported op; {e}") from None

    def graph(
        self, graph: onnx.GraphProto, block: Block, arguments: Sequence[SSAValue] = ()
    ) -> Sequence[SSAValue]:
        """
        Convert a nested graph into a block, and return its results.

        Args:
            graph: the graph; it sees the values of the graphs around it.
            block: end of it receives the ops.
            arguments: values of the inputs of the graph.
        """
        if len(graph.input) != len(arguments):
            raise Unsupported(
                f"has a graph with {len(graph.input)} inputs; expected {len(arguments)}"
            )
        inner = self.nested(InsertPoint.at_end(block), graph.initializer)
        for proto, argument in zip(graph.input, arguments, strict=True):
            inner.values[proto.name] = argument
        for node in graph.node:
            inner.node(node)
        return [inner.value(output.name) for output in graph.output]

    def nested(
        self,
        point: InsertPoint,
        initializers: Sequence[onnx.TensorProto] = (),
        versions: Mapping[str, int] | None = None,
    ) -> GraphBuilder:
        """
        Return the builder of a nested graph.

        Args:
            point: insertion point.
            initializers: constants of the graph.
            versions: opset versions, by default those of this graph.
        """
        return GraphBuilder(
            point,
            location=self.location,
            conversions=self.conversions,
            versions=self.versions if versions is None else versions,
            types=self.types,
            folder=self.folder,
            constants_point=self.constants_point,
            initializers=self.initializers.new_child(
                {tensor.name: tensor for tensor in initializers}
            ),
            values=self.values.new_child(),
            known_sizes=self.known_sizes,
        )
