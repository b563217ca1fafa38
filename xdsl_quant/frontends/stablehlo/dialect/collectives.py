"""
Collectives: ops on the tensors of all devices that run a program.

They are verified and kept, but no machine of this package runs more than one device.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    I64,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    IntAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    i32,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import (
    AtLeast,
    eq,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    param_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure, RecursiveMemoryEffect, SymbolTable

from xdsl_quant.dialects.quant.traits import MovesElements
from xdsl_quant.dialects.type_kinds import VariadicOf
from xdsl_quant.dialects.verification import (
    RankedTensor,
    are_compatible_shapes,
    require,
)

from . import tensor_kinds as kinds
from .attributes import FieldsAttr
from .base import SAME_ELEMENTS, InferredTypeOp, StableHLOOp
from .control_flow import returned_types
from .reduction import verify_computation
from .rules import verify_count

__all__ = [
    "AllGatherOp",
    "AllReduceOp",
    "AllToAllOp",
    "AxisRefAttr",
    "ChannelHandleAttr",
    "CollectiveBroadcastOp",
    "CollectivePermuteOp",
    "CollectiveReduceOp",
    "CrossReplicaSumOp",
    "PartitionIdOp",
    "ReduceScatterOp",
    "ReplicaGroupMeshAxesAttr",
    "ReplicaIdOp",
]

Integers = DenseIntOrFPElementsAttr[I64]


@irdl_attr_definition
class ChannelHandleAttr(FieldsAttr):
    """
    Channel of a transfer between devices or with the host.

    Example:

    ```mlir
    #stablehlo.channel_handle<handle = 1, type = 0>
    ```
    """

    name = "stablehlo.channel_handle"

    IS_SPARSE: ClassVar[bool] = False

    handle: IntAttr = param_def(converter=IntAttr.get)
    type: IntAttr = param_def(converter=IntAttr.get)


@irdl_attr_definition
class AxisRefAttr(ParametrizedAttribute):
    """
    Axis of a mesh of devices.

    Example:

    ```mlir
    #stablehlo.axis_ref<name = "x">
    ```
    """

    name = "stablehlo.axis_ref"

    axis: StringAttr = param_def(converter=StringAttr.get)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            parser.parse_keyword("name")
            parser.parse_punctuation("=")
            return (StringAttr(parser.parse_str_literal()),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string("name = ")
            printer.print_string_literal(self.axis.data)


@irdl_attr_definition
class ReplicaGroupMeshAxesAttr(FieldsAttr):
    """
    Replica groups along axes of a mesh, which is a symbol of the module.

    Example:

    ```mlir
    #stablehlo.replica_group_mesh_axes<mesh = @mesh,
      axes = [#stablehlo.axis_ref<name = "x">]>
    ```
    """

    name = "stablehlo.replica_group_mesh_axes"

    IS_SPARSE: ClassVar[bool] = False

    mesh: SymbolRefAttr
    axes: ArrayAttr[AxisRefAttr]


def integer_rows(name: str, attribute: Integers) -> Sequence[Sequence[int]]:
    """
    Return the rows of a matrix of integers.

    Raises:
        VerifyException: if the attribute has another rank.
    """
    shape = attribute.get_shape()
    require(len(shape) == 2, f"expects {name} of rank 2, got {len(shape)}")
    count, length = shape
    values = cast(Sequence[int], attribute.get_values())
    return [values[length * row : length * (row + 1)] for row in range(count)]


def _sizes_along(
    dimension: int, operand: RankedTensor, result: RankedTensor
) -> tuple[Sequence[int], Sequence[Sequence[int]]]:
    """
    Return the sizes of operand and result along a dimension, and their other sizes.

    Raises:
        VerifyException: if a tensor does not have the dimension, or the ranks differ.
    """
    shapes = [*operand.get_shape()], [*result.get_shape()]
    require(
        dimension < len(shapes[0]) == len(shapes[1]),
        f"expects operand and result of one rank above {dimension}, got '{operand}' "
        f"and '{result}'",
    )
    return [shape.pop(dimension) for shape in shapes], shapes


class CollectiveOp(StableHLOOp, ABC):
    """Op that combines tensors of the devices in each replica group."""

    inputs = var_operand_def(VariadicOf(kinds.TENSOR))
    replica_groups = prop_def(Integers | ReplicaGroupMeshAxesAttr)
    channel_handle = opt_prop_def(ChannelHandleAttr)
    results_ = var_result_def(VariadicOf(kinds.TENSOR))

    NEEDS_EQUAL_GROUPS: ClassVar[bool] = True
    """True if all groups must have the same size, without padding by -1."""

    LOWEST_HANDLE: ClassVar[int] = 1
    """Lowest handle of the channel of groups of devices."""

    @property
    def has_global_ids(self) -> bool:
        """True if groups consist of devices, not of replicas or partitions."""
        return self.properties.get("use_global_device_ids") is not None

    def verify_groups(self, size: int | None = None) -> None:
        """
        Verify the replica groups, and the channel of groups of devices.

        Args:
            size: expected size of each group, `None` for any.

        Raises:
            VerifyException: if a group or the channel is invalid.
        """
        if isinstance(groups := self.replica_groups, ReplicaGroupMeshAxesAttr):
            name = groups.mesh.string_value()
            require(
                SymbolTable.lookup_symbol(self, groups.mesh) is not None,
                f"replica_groups: mesh symbol '{name}' not found",
            )
        else:
            self._verify_ids(groups, size)
        handle = self.channel_handle.handle.data if self.channel_handle else 0
        require(
            not self.has_global_ids or handle >= self.LOWEST_HANDLE,
            f"expects a channel_handle of at least {self.LOWEST_HANDLE} if "
            f"use_global_device_ids is set, got {handle}",
        )

    def _verify_ids(self, groups: Integers, size: int | None) -> None:
        """Verify that the groups contain each id once, and have a size."""
        rows = integer_rows("replica_groups", groups)
        ids = [number for row in rows for number in row]
        if not self.NEEDS_EQUAL_GROUPS:
            ids = [number for number in ids if number != -1]
        require(
            not self.has_global_ids or bool(ids),
            "expects replica_groups if use_global_device_ids is set",
        )
        require(
            sorted(ids) == [*range(len(ids))],
            f"expects each id from 0 to {len(ids) - 1} once in replica_groups, got {ids}",
        )
        if size is not None:
            length = groups.get_shape()[1]
            require(
                length == size, f"expects replica_groups of size {size}, got {length}"
            )

    def combined_types(self) -> Sequence[RankedTensor]:
        """
        Return the types of the tensors that are combined: of all operands, except for the
        number of the device that has the result.

        Raises:
            VerifyException: if no tensor is combined, or the number has another type.
        """
        types = self.tensor_types[: len(self.inputs)]
        if "has_dynamic_root" not in self.get_irdl_definition().properties:
            return types
        if self.properties.get("has_dynamic_root") is not None:
            self.require_operands(self.inputs)
            *types, root = types
            require(
                len(root.shape) == 1 and root.element_type == i32,
                f"expects a root of type 'tensor<1xi32>' as the last operand, got '{root}'",
            )
        require(bool(types), "expects 1 or more tensors, got 0")
        return types


@irdl_op_definition
class AllGatherOp(CollectiveOp):
    """Concatenation of the tensors of each replica group along a dimension."""

    name = "stablehlo.all_gather"

    LOWEST_HANDLE: ClassVar[int] = 0

    all_gather_dim = prop_def(kinds.DIMENSION)
    use_global_device_ids = opt_prop_def(UnitAttr)

    traits = traits_def(SAME_ELEMENTS, MovesElements())

    def verify_(self) -> None:
        self.verify_groups()
        dimension = self.all_gather_dim.value.data
        verify_count("results", self.results, len(self.inputs))
        for input, result in zip(self.inputs, self.results, strict=True):
            types = cast(RankedTensor, input.type), cast(RankedTensor, result.type)
            (size, total), others = _sizes_along(dimension, *types)
            is_whole = DYNAMIC_INDEX in (size, total) or (size and total % size == 0)
            require(
                size != 0 and are_compatible_shapes(*others) and bool(is_whole),
                f"expects dimension {dimension} of the result to be a multiple of that of "
                f"the operand, and equal others, got '{input.type}' and '{result.type}'",
            )


class ReducingCollectiveOp(CollectiveOp, ABC):
    """Collective that combines elements by the function in its region."""

    use_global_device_ids = opt_prop_def(UnitAttr)
    computation = region_def("single_block")

    traits = traits_def(RecursiveMemoryEffect())

    def combined_element(self, type_: RankedTensor) -> Attribute:
        """Verify the region for one tensor; return the element type that it returns."""
        element = TensorType(type_.element_type, ())
        verify_computation(self.computation, [element], [element])
        (returned,) = cast(Sequence[RankedTensor], returned_types(self.computation))
        return returned.element_type


class ReplicaReductionOp(ReducingCollectiveOp, ABC):
    """Reduction of the tensors of each replica group by the function in the region."""

    NEEDS_EQUAL_GROUPS: ClassVar[bool] = False

    def verify_(self) -> None:
        self.verify_groups()
        types = self.combined_types()
        self.verify_inferred(
            [TensorType(self.combined_element(t), t.shape, t.encoding) for t in types]
        )


@irdl_op_definition
class AllReduceOp(ReplicaReductionOp):
    """
    Reduction of the tensors of each replica group by the function in the region.

    Example:

    ```mlir
    %1 = "stablehlo.all_reduce"(%0) <{
        replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>
    }> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %2 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    ```
    """

    name = "stablehlo.all_reduce"


@irdl_op_definition
class CollectiveReduceOp(ReplicaReductionOp):
    """Reduction of the tensors of each replica group, with the results on one device."""

    name = "stablehlo.collective_reduce"

    has_dynamic_root = opt_prop_def(UnitAttr)


@irdl_op_definition
class ReduceScatterOp(ReducingCollectiveOp):
    """Reduction of the tensors of each replica group, split among its devices."""

    name = "stablehlo.reduce_scatter"

    inputs = operand_def(kinds.TENSOR)
    scatter_dimension = prop_def(kinds.DIMENSION)
    results_ = result_def(kinds.TENSOR)

    def verify_(self) -> None:
        self.verify_groups()
        operand, result = self.tensor_types
        element = self.combined_element(operand)
        dimension = self.scatter_dimension.value.data
        (total, size), others = _sizes_along(dimension, operand, result)
        is_whole = are_compatible_shapes(*others) and size and total % size == 0
        require(
            DYNAMIC_INDEX in (size, total) or bool(is_whole),
            f"expects dimension {dimension} of the operand to be a multiple of that of the "
            f"result, and equal others, got '{operand}' and '{result}'",
        )
        require(
            result.element_type == element,
            f"expects a result of '{element}' as the region returns, got '{result}'",
        )


@irdl_op_definition
class AllToAllOp(CollectiveOp):
    """Exchange of the parts of tensors: parts are concatenated along another dimension."""

    name = "stablehlo.all_to_all"

    split_dimension = prop_def(kinds.DIMENSION)
    concat_dimension = prop_def(kinds.DIMENSION)
    split_count = prop_def(IntegerAttr.constr(eq(i64), value=AtLeast(1)))

    traits = traits_def(MovesElements())

    def verify_(self) -> None:
        count = self.split_count.value.data
        self.verify_groups(count)
        split, concat = (
            self.split_dimension.value.data,
            self.concat_dimension.value.data,
        )
        inferred: list[RankedTensor] = []
        for type_ in self.tensor_types[: len(self.inputs)]:
            shape = [*type_.get_shape()]
            require(
                max(split, concat) < len(shape),
                f"expects split and concat dimensions below {len(shape)}, got {split} and "
                f"{concat}",
            )
            if shape[split] != DYNAMIC_INDEX:
                require(
                    shape[split] % count == 0,
                    f"expects the size of dimension {split} to be a multiple of the "
                    f"split_count {count}, got {shape[split]}",
                )
                shape[split] //= count
            if shape[concat] != DYNAMIC_INDEX:
                shape[concat] *= count
            inferred.append(TensorType(type_.element_type, shape))
        self.verify_inferred(inferred)


@irdl_op_definition
class CollectiveBroadcastOp(CollectiveOp):
    """Tensors of the first device of each replica group."""

    name = "stablehlo.collective_broadcast"

    has_dynamic_root = opt_prop_def(UnitAttr)

    traits = traits_def(MovesElements())

    def verify_(self) -> None:
        if isinstance(self.replica_groups, ReplicaGroupMeshAxesAttr):
            self.verify_groups()
        else:
            rows = integer_rows("replica_groups", self.replica_groups)
            ids = [number for row in rows for number in row]
            require(
                min(ids, default=0) >= 0 and len({*ids}) == len(ids),
                f"expects distinct, non-negative ids in replica_groups, got {ids}",
            )
        self.verify_inferred(self.combined_types())


@irdl_op_definition
class CollectivePermuteOp(InferredTypeOp):
    """Tensors sent from source devices to target devices; zeros elsewhere."""

    name = "stablehlo.collective_permute"

    operand = operand_def(kinds.TENSOR)
    source_target_pairs = prop_def(Integers)
    channel_handle = opt_prop_def(ChannelHandleAttr)
    result = result_def(kinds.TENSOR)

    traits = traits_def(MovesElements())

    def inferred_type(self) -> RankedTensor:
        rows = integer_rows("source_target_pairs", self.source_target_pairs)
        require(
            all(len(row) == 2 for row in rows),
            f"expects pairs of devices in source_target_pairs, got {rows}",
        )
        for devices in zip(*rows, strict=True):
            require(
                len({*devices}) == len(devices) and min(devices) >= 0,
                "expects distinct, non-negative sources and targets in "
                f"source_target_pairs, got {rows}",
            )
        return self.tensor_types[0]


@irdl_op_definition
class CrossReplicaSumOp(InferredTypeOp):
    """Sum of the tensors of each replica group (deprecated, see `all_reduce`)."""

    name = "stablehlo.cross-replica-sum"

    operand = operand_def(kinds.TENSOR)
    replica_groups = prop_def(Integers)
    result = result_def(kinds.TENSOR)

    def inferred_type(self) -> RankedTensor:
        return self.tensor_types[0]


class DeviceIdOp(StableHLOOp, ABC):
    """Number of the device that runs the program."""

    result = result_def(kinds.UI32_TENSOR)

    assembly_format = "attr-dict `:` type($result)"

    traits = traits_def(Pure())

    def verify_(self) -> None:
        inferred: Sequence[RankedTensor] = [TensorType(kinds.UI32, ())]
        self.verify_inferred(inferred)


@irdl_op_definition
class PartitionIdOp(DeviceIdOp):
    """Partition of the device that runs the program."""

    name = "stablehlo.partition_id"


@irdl_op_definition
class ReplicaIdOp(DeviceIdOp):
    """Replica of the device that runs the program."""

    name = "stablehlo.replica_id"
