"""Writer of the nodes of an ONNX graph, from values of StableHLO ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import onnx
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    IntegerType,
    NameLoc,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.hints import isa

from xdsl_quant.diagnostics import located_message, op_name
from xdsl_quant.dialects.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    ScaledQuantizedType,
    StorageCastOp,
)
from xdsl_quant.dialects.quant.storage_types import default_storage_range
from xdsl_quant.dialects.quant.types import scalar_or_element_type
from xdsl_quant.frontends.stablehlo import dialect as stablehlo
from xdsl_quant.numerics.arrays import Array
from xdsl_quant.runtime.arrays import (
    constant_attr,
    constant_elements,
    dense_elements,
    elements_attr,
    numpy_dtype,
    stored_elements,
)
from xdsl_quant.runtime.arrays import shape_of as shape_of_type
from xdsl_quant.transforms.building.builder import element_type_of
from xdsl_quant.unsupported import Unsupported

from .files.model_files import ONNXFileError
from .files.tensors import data_type_of_element, tensor_proto

BroadcastOp: TypeAlias = stablehlo.BroadcastInDimOp | stablehlo.DynamicBroadcastInDimOp

Layout: TypeAlias = "tuple[int, ...]"
"""Order of dimensions: dimension `i` of a tensor is dimension `layout[i]` of its value."""

Writer: TypeAlias = "Callable[..., None]"
"""
Function that writes the nodes of an op, from the graph writer and the op. It raises
`Unsupported` with a message that follows the name of the op.
"""

OPSET = 20
"""Opset version of files with 8-bit types."""

_NARROW_OPSET = 21
"""
First opset whose casts have 4-bit types, 16-bit types and blocks. onnxruntime 1.32 cannot
optimize some models of this opset with 8-bit types.
"""

_SATURATED_TYPES = {
    onnx.TensorProto.FLOAT8E4M3FN,
    onnx.TensorProto.FLOAT8E4M3FNUZ,
    onnx.TensorProto.FLOAT8E5M2,
    onnx.TensorProto.FLOAT8E5M2FNUZ,
}
"""Types to which `Cast` saturates by default."""

_TYPE_OPSETS: Mapping[int, int] = {
    onnx.TensorProto.INT4: _NARROW_OPSET,
    onnx.TensorProto.UINT4: _NARROW_OPSET,
    onnx.TensorProto.FLOAT4E2M1: 23,
    onnx.TensorProto.FLOAT8E8M0: 24,
    onnx.TensorProto.INT2: 25,
    onnx.TensorProto.UINT2: 25,
}
"""First opset whose casts have a type, for types that `OPSET` lacks."""

_SMALL_BYTES = 64
"""Maximum size of a constant that is compared with others."""

_STORAGE_WIDTHS = 4, 8, 16, 32
"""Widths of stored values that casts of ONNX have."""


def is_accumulator(type_: Attribute) -> bool:
    """
    Return True for a quantized type of 32 bits: sums of products, and biases. Files have
    these values as floats, as no kernel requantizes them.
    """
    element_type = scalar_or_element_type(type_)
    return (
        isinstance(element_type, ScaledQuantizedType)
        and element_type.storage_type_integral_width == 32
    )


def quantized_type(type_: Attribute) -> ScaledQuantizedType | None:
    """Return the element type of a value between casts; `None` for other values."""
    element_type = scalar_or_element_type(type_)
    is_cast = isinstance(element_type, ScaledQuantizedType)
    return element_type if is_cast and not is_accumulator(type_) else None


def file_element_type(type_: ScaledQuantizedType) -> IntegerType:
    """Return the element type of stored values in a file, which may be wider."""
    width = type_.storage_type_integral_width
    sign = Signedness.SIGNLESS if type_.is_signed else Signedness.UNSIGNED
    if not type_.has_integer_storage or width > max(_STORAGE_WIDTHS):
        raise Unsupported(f"quantized type '{type_}'")
    return IntegerType(min(w for w in _STORAGE_WIDTHS if w >= width), sign)


def source(value: SSAValue) -> SSAValue:
    """Return the value with the same tensor: the operand of dequantization."""
    while isinstance(value.owner, DequantizeCastOp | stablehlo.UniformDequantizeOp):
        (value,) = value.owner.operands
    return value


def stored_constant(value: SSAValue) -> SSAValue | None:
    """Return the constant whose elements are the stored values of a value, if any."""
    value = source(value)
    while isinstance(value.owner, StorageCastOp):
        value = value.owner.operands[0]
    return value if isinstance(value.owner, stablehlo.ConstantOp) else None


def expressed_element_type(value: SSAValue) -> Attribute:
    """Return the element type of the tensor of a value."""
    element_type = element_type_of(value)
    is_quantized = isinstance(element_type, ScaledQuantizedType)
    return element_type.expressed_type if is_quantized else element_type


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Return the shape of a tensor; that of a scalar is empty."""
    return shape_of_type(value.type)


def identity(rank: int) -> Layout:
    """Return the order of dimensions of the values themselves."""
    return (*range(rank),)


def composed(layout: Layout, permutation: Sequence[int]) -> Layout:
    """Return the layout of a transposed value in a tensor, from that of its operand."""
    return tuple([*permutation].index(dimension) for dimension in layout)


@dataclass(eq=False)
class GraphWriter:
    """
    Writer of nodes.

    A value may have several tensors, in different layouts: ONNX's windows need features
    before spatial dimensions. Elementwise ops keep the layout of their operands, so that
    few transposes are written. Constants and broadcasts are written when they are used.
    """

    writers: Mapping[type[Operation], Writer]

    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    initializers: dict[str, onnx.TensorProto] = field(
        default_factory=dict[str, onnx.TensorProto]
    )
    versions: dict[str, int] = field(default_factory=lambda: {"": OPSET})
    """Opset version of each domain."""

    written: set[Operation] = field(default_factory=set[Operation])
    """Ops that the writer of another op has included."""

    _tensors: dict[SSAValue, dict[Layout, str]] = field(
        default_factory=dict[SSAValue, dict[Layout, str]]
    )
    """Tensor of each value in each layout; expressed values of quantized ones."""

    _stored: dict[str, str] = field(default_factory=dict[str, str])
    """Tensor with the stored values, by the tensor with the expressed values."""

    _parameters: dict[tuple[Attribute, Layout], tuple[str, str]] = field(
        default_factory=dict[tuple[Attribute, Layout], tuple[str, str]]
    )
    """Tensors with scales and zero points of each quantized type; blocks have a layout."""

    _small_constants: dict[bytes, str] = field(default_factory=dict[bytes, str])
    """Small initializers, which several nodes may use, by their content."""

    _names: set[str] = field(default_factory=set[str])

    _computed: set[str] = field(default_factory=set[str])

    # Names and nodes

    def name(self, wanted: str) -> str:
        """Return a name that no tensor of the graph has yet."""
        name, count = wanted, 0
        while name in self._names:
            count += 1
            name = f"{wanted}_{count}"
        self._names.add(name)
        return name

    def is_computed(self, name: str) -> bool:
        """Return True if a node computes the tensor."""
        return name in self._computed

    def value_name(self, value: SSAValue) -> str:
        """Return the name of a value: of its location, or in MLIR text."""
        op = value.owner
        if (
            isinstance(op, Operation)
            and isinstance(op.location, NameLoc)
            and len(op.results) == 1
        ):
            return op.location.desc.data
        return value.name_hint or "value"

    def node(
        self,
        op_type: str,
        inputs: Sequence[str],
        name: str,
        **attributes: object,
    ) -> str:
        """Write a node with one result, and return the name of the result."""
        (result,) = self.multi_node(op_type, inputs, [name], attributes)
        return result

    def multi_node(
        self,
        op_type: str,
        inputs: Sequence[str],
        names: Sequence[str],
        attributes: Mapping[str, object],
        domain: str = "",
    ) -> Sequence[str]:
        """Write a node, and return the names of the results; absent ones are empty."""
        results = [self.name(name) if name else "" for name in names]
        node = onnx.helper.make_node(op_type, inputs, results, domain=domain)
        node.name = next(filter(None, results), "")
        node.attribute.extend(
            onnx.helper.make_attribute(*attribute) for attribute in attributes.items()
        )
        self.nodes.append(node)
        self._computed.update(results)
        return results

    def initializer(
        self, array: Array, element_type: Attribute, name: str = "constant"
    ) -> str:
        """Write a constant tensor, and return its name."""
        self.data_type(element_type)
        tensor = tensor_proto("", elements_attr(array, element_type))
        if array.nbytes > _SMALL_BYTES:
            name = tensor.name = self.name(name)
        else:
            key = tensor.SerializeToString()
            if (known := self._small_constants.get(key)) is not None:
                return known
            name = tensor.name = self._small_constants[key] = self.name(name)
        self.initializers[name] = tensor
        return name

    def integers(self, numbers: Sequence[int], name: str = "integers") -> str:
        """Write a constant list such as axes or sizes, and return its name."""
        return self.initializer(np.array(numbers, np.int64), IntegerType(64), name)

    def number(
        self, number: float, element_type: Attribute, name: str = "number"
    ) -> str:
        """Write a constant scalar, and return its name."""
        array = np.asarray(number, numpy_dtype(element_type))
        return self.initializer(array, element_type, name)

    def require_narrow_types(self) -> None:
        """Set the opset to the first one with narrow types and blocks."""
        self.require_opset(_NARROW_OPSET)

    def require_opset(self, version: int) -> None:
        """Set the opset to this version or a newer one."""
        self.versions[""] = max(self.versions[""], version)

    def data_type(self, element_type: Attribute) -> int:
        """Return the data type of an element type."""
        data_type = data_type_of_element(element_type)
        self.require_opset(_TYPE_OPSETS.get(data_type, OPSET))
        return data_type

    def cast(self, tensor: str, element_type: Attribute) -> str:
        """Write a conversion of elements, and return the name of the result."""
        to, name = self.data_type(element_type), f"{tensor}_{element_type}"
        # Numbers above the largest 8-bit float become NaN or infinite, as in StableHLO.
        attributes = {"saturate": 0} if to in _SATURATED_TYPES else {}
        return self.node("Cast", [tensor], name, to=to, **attributes)

    def reversed(self, tensor: str, axes: Sequence[int]) -> str:
        """Write the reversal of a tensor along axes, and return its name."""
        # Slices end before the first element at an end below the negative size.
        ones, ends = [-1] * len(axes), [-(1 << 62)] * len(axes)
        inputs = [tensor, *map(self.integers, (ones, ends, axes, ones))]
        return self.node("Slice", inputs, f"{tensor}_reversed")

    # Operands

    def layout(self, value: SSAValue) -> Layout:
        """Return the layout in which a value is written; of constants, the identity."""
        tensors = self._tensors.get(source(value), {})
        return next(iter(tensors), identity(len(shape_of(value))))

    def operand(self, value: SSAValue, layout: Layout | None = None) -> str:
        """
        Return the tensor of a value, of expressed values if it is quantized.

        Args:
            value: the value.
            layout: layout of the tensor; by default that of the value.
        """
        layout = layout or identity(len(shape_of(value)))
        value = source(value)
        tensors = self._tensors.setdefault(value, {})
        if (name := tensors.get(layout)) is not None:
            return name
        match value.owner:
            case _ if stored_constant(value) is not None:
                name = self._constant(value, lambda array: array, layout)
            case op if isinstance(op, BroadcastOp) and not tensors:
                name = self._expanded(op, layout)
            case _:
                name = self._transposed(value, layout)
        tensors[layout] = name
        return name

    def is_available(self, value: SSAValue) -> bool:
        """Return True for constants, and for values whose op is written."""
        value = source(value)
        return stored_constant(value) is not None or value in self._tensors

    def stored(self, value: SSAValue) -> str:
        """Return the tensor of the stored values of a quantized value."""
        expressed = self.operand(value)
        if (stored := self._stored.get(expressed)) is None:
            layout = identity(len(shape_of(value)))
            stored = self._quantized(expressed, value.type, layout)
        return stored

    def weights(
        self, value: SSAValue, layout: Layout, change: Callable[[Array], Array]
    ) -> str:
        """
        Return the tensor of a constant that a function changes.

        Args:
            value: the constant.
            layout: layout of the array that the function takes. A quantized dimension stays
                where it is.
            change: function of the array.
        """
        return self._constant(source(value), change, layout)

    def _constant(
        self, value: SSAValue, change: Callable[[Array], Array], layout: Layout
    ) -> str:
        name = self.value_name(value)
        element_type = scalar_or_element_type(value.type)
        constant = stored_constant(value)
        assert constant is not None
        attr = constant_attr(constant)
        assert attr is not None
        array = change(dense_elements(attr).transpose(layout))
        array = np.asarray(array, order="C")
        if not isinstance(element_type, ScaledQuantizedType):
            return self.initializer(array, element_type, name)
        array = stored_elements(array, element_type)
        stored = self.initializer(
            array, file_element_type(element_type), f"{name}_quantized"
        )
        return self._dequantized(stored, value.type, layout, name)

    def _expanded(self, op: BroadcastOp, layout: Layout) -> str:
        """Write a broadcast that its users need in full."""
        name = self.value_name(op.result)
        small = self.broadcast_operand(op.result, layout)
        return self.node("Expand", [small, self._expanded_sizes(op, layout)], name)

    def _expanded_sizes(self, op: BroadcastOp, layout: Layout) -> str:
        sizes = [shape_of(op.result)[dimension] for dimension in layout]
        if DYNAMIC_INDEX not in sizes:
            return self.integers(sizes)
        assert isinstance(op, stablehlo.DynamicBroadcastInDimOp)
        known = self.cast(self.operand(op.output_dimensions), IntegerType(64))
        return self.node("Gather", [known, self.integers(layout)], "sizes")

    def broadcast_operand(self, value: SSAValue, layout: Layout) -> str:
        """
        Return the tensor of an operand of an elementwise node, which broadcasts as NumPy
        does: the operand of a `broadcast_in_dim` is not broadcast.
        """
        value = source(value)
        op = value.owner
        if not isinstance(op, BroadcastOp):
            return self.operand(value, layout)
        if value in self._tensors and layout in self._tensors[value]:
            return self._tensors[value][layout]
        dimensions = op.broadcast_dimensions.get_values()
        kept = [dimension for dimension in layout if dimension in dimensions]
        order = tuple([*dimensions].index(dimension) for dimension in kept)
        shape = shape_of(op.operand)
        sizes = [
            shape[dimensions.index(dimension)] if dimension in dimensions else 1
            for dimension in layout
        ]
        if stored_constant(op.operand) is not None and not isinstance(
            element_type_of(op.operand), ScaledQuantizedType
        ):
            while sizes and sizes[0] == 1:
                del sizes[0]
            return self.weights(op.operand, order, lambda x: x.reshape(sizes))
        tensor = self.operand(op.operand, order)
        new = next((i for i, d in enumerate(layout) if d in dimensions), len(layout))
        del sizes[:new]
        if [shape[i] for i in order] == sizes:
            return tensor
        return self.node(
            "Reshape", [tensor, self.integers(sizes)], self.value_name(value)
        )

    def _transposed(self, value: SSAValue, layout: Layout) -> str:
        tensors = self._tensors[value]
        if not tensors:
            raise Unsupported("operand whose op is not written")
        known, tensor = next(iter(tensors.items()))
        order = [known.index(dimension) for dimension in layout]
        name = self.value_name(value)
        transposed = self.node("Transpose", [tensor], f"{name}_transposed", perm=order)
        return self._cast(transposed, value.type, layout)

    # Results

    def result(
        self, value: SSAValue, tensor: str, layout: Layout | None = None
    ) -> None:
        """
        Set the tensor with the expressed values of a result. A quantized value is quantized
        and dequantized.
        """
        layout = layout or identity(len(shape_of(value)))
        self._tensors[value] = {layout: self._cast(tensor, value.type, layout)}

    def alias(
        self, value: SSAValue, operand: SSAValue, layout: Callable[[Layout], Layout]
    ) -> None:
        """Let a value have the tensor of another one, in another layout."""
        known = self.layout(operand)
        self._tensors[value] = {layout(known): self.operand(operand, known)}

    def set_stored(self, value: SSAValue, stored: str) -> None:
        """Set the tensor with the stored values of a quantized value."""
        layout = identity(len(shape_of(value)))
        name = self._dequantized(stored, value.type, layout, self.value_name(value))
        self._tensors[value] = {layout: name}

    def set_tensor(self, value: SSAValue, name: str) -> None:
        """Set the tensor of a value, of expressed values if it is quantized."""
        self._tensors[value] = {identity(len(shape_of(value))): name}

    # Casts

    def _cast(self, tensor: str, type_: Attribute, layout: Layout) -> str:
        """Quantize and dequantize a tensor if the type of its value is quantized."""
        if quantized_type(type_) is None:
            return tensor
        stored = self._quantized(tensor, type_, layout)
        return self._dequantized(stored, type_, layout, f"{tensor}_dequantized")

    def _quantized(self, tensor: str, type_: Attribute, layout: Layout) -> str:
        return self._cast_node(
            "QuantizeLinear",
            self._clipped(tensor, type_, layout),
            type_,
            layout,
            f"{tensor}_quantized",
        )

    def _dequantized(
        self, stored: str, type_: Attribute, layout: Layout, name: str
    ) -> str:
        expressed = self._cast_node("DequantizeLinear", stored, type_, layout, name)
        self._stored[expressed] = stored
        return expressed

    def _cast_node(
        self, op_type: str, tensor: str, type_: Attribute, layout: Layout, name: str
    ) -> str:
        element_type = scalar_or_element_type(type_)
        assert isinstance(element_type, ScaledQuantizedType)
        inputs = [tensor, *self._parameter_tensors(type_, layout)]
        if file_element_type(element_type).bitwidth not in (8, 32):
            self.require_narrow_types()
        attributes: dict[str, int] = {}
        if (axis := element_type.axis) is not None:
            attributes["axis"] = layout.index(axis)
        elif (block := _block(element_type)) is not None:
            attributes["axis"] = layout.index(block[0])
            attributes["block_size"] = block[1]
            self.require_narrow_types()
        return self.node(op_type, inputs, name, **attributes)

    def _clipped(self, tensor: str, type_: Attribute, layout: Layout) -> str:
        """Clamp to a storage range that is narrower than the storage type of the file."""
        element_type = quantized_type(type_)
        assert element_type is not None
        low, high = element_type.storage_range
        if (low, high) == default_storage_range(
            file_element_type(element_type), element_type.is_signed
        ):
            return tensor
        scales, zero_points = element_type.get_scales(), element_type.get_zero_points()
        if (axis := element_type.axis) is not None:
            sizes = [-1 if dimension == axis else 1 for dimension in layout]
            scales, zero_points = scales.reshape(sizes), zero_points.reshape(sizes)
        elif not element_type.is_per_tensor:
            raise Unsupported(f"values of the type '{element_type}'")
        expressed, name = element_type.expressed_type, f"{tensor}_clipped"
        for op_type, end in (("Max", low), ("Min", high)):
            bound = ((end - zero_points) * scales).astype(numpy_dtype(expressed))
            inputs = [tensor, self.initializer(bound, expressed, "bound")]
            tensor = self.node(op_type, inputs, name)
        return tensor

    def _parameter_tensors(self, type_: Attribute, layout: Layout) -> tuple[str, str]:
        """Return the tensors with scales and zero points, one pair for each type."""
        element_type = scalar_or_element_type(type_)
        assert isinstance(element_type, ScaledQuantizedType)
        storage, expressed = (
            file_element_type(element_type),
            element_type.expressed_type,
        )
        arrays = element_type.get_scales(), element_type.get_zero_points()
        key = element_type, ()
        if element_type.granularity == "sub-channel":
            arrays = _block_parameter_tensors(arrays, type_, layout)
            key = type_, layout
        if (known := self._parameters.get(key)) is None:
            scales, zero_points = arrays
            known = self._parameters[key] = (
                self.initializer(
                    scales.astype(numpy_dtype(expressed)), expressed, "scale"
                ),
                self.initializer(
                    zero_points.astype(numpy_dtype(storage)), storage, "zero_point"
                ),
            )
        return known

    # Graphs

    def block(self, block: Block) -> Sequence[SSAValue]:
        """
        Write the ops of a block, whose arguments have tensors, and return the operands of
        its terminator.

        Raises:
            ONNXFileError: if ONNX has no form of an op.
        """
        for op in block.walk():
            # A loop writes the block of its condition twice.
            for result in op.results:
                self._tensors.pop(result, None)
        for op in block.ops:
            if op is block.last_op:
                break
            if op not in self.written:
                self._op(op)
        assert block.last_op is not None
        return block.last_op.operands

    def _op(self, op: Operation) -> None:
        try:
            if (write := self.writers.get(type(op))) is None:
                raise Unsupported("unsupported op")
            for type_ in (*op.operand_types, *op.result_types):
                if not isinstance(type_, TensorType | AnyFloat | IntegerType):
                    raise Unsupported(f"value of type '{type_}'; expected a tensor")
            write(self, op)
        except Unsupported as e:
            raise unwritable(op, str(e)) from None

    def nested(self) -> GraphWriter:
        """Return the writer of a nested graph, which sees the tensors of this one."""
        return replace(
            self,
            nodes=[],
            _tensors={value: {**tensors} for value, tensors in self._tensors.items()},
            _stored={**self._stored},
        )

    def graph(
        self, inputs: Sequence[onnx.ValueInfoProto], results: Sequence[SSAValue]
    ) -> onnx.GraphProto:
        """
        Return the nodes as a nested graph.

        Args:
            inputs: declarations of the inputs.
            results: values of the results.
        """
        outputs = [
            # A result is a tensor of its own, computed in this graph.
            self.declaration(
                self.node("Identity", [self.operand(value)], "result"), value
            )
            for value in results
        ]
        return onnx.helper.make_graph(self.nodes, "graph", inputs, outputs)

    def declaration(
        self, name: str, value: SSAValue, *, is_stored: bool = False
    ) -> onnx.ValueInfoProto:
        """
        Return the declaration of an input or result.

        Args:
            name: name of the tensor.
            value: its value.
            is_stored: True if the tensor has the stored values of a quantized value.

        Raises:
            ONNXFileError: if the value is not a ranked tensor, or of an unsupported type.
        """
        if not isa(value.type, TensorType):
            raise ONNXFileError(
                f"value '{name}' has the type '{value.type}'; expected a ranked tensor"
            )
        element_type = value.type.element_type
        if isinstance(element_type, ScaledQuantizedType):
            is_stored = is_stored and not is_accumulator(element_type)
            element_type = (
                file_element_type(element_type)
                if is_stored
                else element_type.expressed_type
            )
        sizes = [
            None if size == DYNAMIC_INDEX else size for size in value.type.get_shape()
        ]
        return onnx.helper.make_tensor_value_info(
            name, self.data_type(element_type), sizes
        )

    def remove_unused(self, results: Iterable[str]) -> None:
        """Remove the nodes and constants that no result needs."""
        used, nodes = {*results}, list[onnx.NodeProto]()
        for node in reversed(self.nodes):
            if used.isdisjoint(node.output):
                continue
            nodes.append(node)
            used.update(_names_in_use(node))
        self.nodes[:] = reversed(nodes)
        for name in self.initializers.keys() - used:
            del self.initializers[name]

    def rename(self, names: Mapping[str, str]) -> None:
        """Rename results of nodes."""
        for node in self.nodes:
            for names_of in (node.input, node.output):
                for index, name in enumerate(names_of):
                    if name in names:
                        names_of[index] = names[name]


def _names_in_use(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the inputs of a node, and names in its graphs."""
    yield from node.input
    for attribute in node.attribute:
        for inner in attribute.g.node:
            yield from _names_in_use(inner)


def _block(type_: ScaledQuantizedType) -> tuple[int, int] | None:
    """Return the dimension and the size of the blocks of a sub-channel type."""
    blocks = [(axis, size) for axis, size in type_.block_size_info if size > 1]
    if len(blocks) > 1:
        raise Unsupported(f"type '{type_}' with blocks along several dimensions")
    return blocks[0] if blocks else None


def _block_parameter_tensors(
    arrays: Iterable[Array], type_: Attribute, layout: Layout
) -> Iterable[Array]:
    """Return scales and zero points with one row for each block, in a layout."""
    element_type, shape = scalar_or_element_type(type_), [*shape_of_type(type_)]
    assert isinstance(element_type, ScaledQuantizedType)
    if (block := _block(element_type)) is not None:
        axis, size = block
        shape[axis] = -(-shape[axis] // size)
    return [np.broadcast_to(array, shape).transpose(layout) for array in arrays]


def known_number(value: SSAValue) -> float | None:
    """
    Return the number that fills a constant or broadcast, dequantized if it is quantized;
    `None` for other values.
    """
    value = source(value)
    while isinstance(value.owner, BroadcastOp):
        value = value.owner.operand
    if isinstance(value.owner, QuantizeCastOp | stablehlo.UniformQuantizeOp):
        is_zero = known_number(value.owner.operands[0]) == 0
        return 0 if is_zero and _has_zero(value.owner.results[0].type) else None
    if not isinstance(value.owner, stablehlo.ConstantOp):
        return None
    elements = constant_elements(value)
    assert elements is not None
    type_ = element_type_of(value)
    if isinstance(type_, ScaledQuantizedType):
        if not type_.is_per_tensor:
            return None
        scale = type_.get_scales().astype(numpy_dtype(type_.expressed_type))
        elements = (elements.astype(np.int64) - type_.get_zero_points()) * scale
    first = elements.reshape(-1)[:1]
    return first.item() if first.size and (elements == first[0]).all() else None


def _has_zero(type_: Attribute) -> bool:
    """Return True if zero points, which represent 0, are stored values of the type."""
    if (element_type := quantized_type(type_)) is None:
        return False
    low, high = element_type.storage_range
    zero_points = element_type.get_zero_points()
    return bool(((zero_points >= low) & (zero_points <= high)).all())


def unwritable(op: Operation, reason: str) -> ONNXFileError:
    """Return the error for an op without form in ONNX."""
    message = f"'{op_name(op)}' op cannot be written as ONNX: {reason}"
    return ONNXFileError(located_message(op, message))
