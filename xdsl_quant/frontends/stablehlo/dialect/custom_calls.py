"""Calls of functions that the runtime provides."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolNameConstraint,
    TensorType,
    TupleType,
    UnrankedTensorType,
    i32,
)
from xdsl.ir import Attribute, Operation, TypeAttribute
from xdsl.irdl import (
    AtLeast,
    ParsePropInAttrDict,
    eq,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import EffectInstance, MemoryEffect

from xdsl_quant.dialects.type_kinds import VariadicOf
from xdsl_quant.dialects.verification import require

from . import tensor_kinds as kinds
from .attributes import Dimensions, OutputOperandAliasAttr
from .base import StableHLOOp
from .rules import verify_count
from .syntax import FUNCTIONAL_TYPE

__all__ = ["CustomCallOp"]

_TYPED_FFI = 4
"""Highest `api_version`; only this version has a dictionary as `backend_config`."""

Layouts = ArrayAttr[DenseIntOrFPElementsAttr[IndexType]]
"""For each value, the dimensions of a tensor from minor to major."""


class _CustomCallEffects(MemoryEffect):
    """Memory effects: unknown if `has_side_effect` is true, otherwise none."""

    @classmethod
    def get_effects(cls, op: Operation) -> AbstractSet[EffectInstance] | None:
        assert isinstance(op, CustomCallOp)
        return None if op.has_side_effect.value.data else set()


@irdl_op_definition
class CustomCallOp(StableHLOOp):
    """
    Call of a function that the runtime provides.

    Example:

    ```mlir
    %1 = stablehlo.custom_call @foo(%0) {backend_config = "bar"}
        : (tensor<4xf32>) -> tensor<4xf32>
    ```

    See external [documentation](https://openxla.org/stablehlo/spec#custom_call).
    """

    name = "stablehlo.custom_call"

    inputs = var_operand_def(VariadicOf(kinds.CALL_VALUE))
    call_target_name = prop_def(SymbolNameConstraint())
    has_side_effect = opt_prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))
    backend_config = opt_prop_def(StringAttr | DictionaryAttr)
    api_version = opt_prop_def(
        IntegerAttr.constr(eq(i32), value=AtLeast(0)), default_value=IntegerAttr(1, i32)
    )
    called_computations = opt_prop_def(
        ArrayAttr.constr(FlatSymbolRefAttrConstr), default_value=ArrayAttr(())
    )
    operand_layouts = opt_prop_def(Layouts)
    result_layouts = opt_prop_def(Layouts)
    output_operand_aliases = opt_prop_def(
        ArrayAttr[OutputOperandAliasAttr], default_value=ArrayAttr(())
    )
    result = var_result_def(VariadicOf(kinds.CALL_VALUE))

    assembly_format = f"$call_target_name `(` $inputs `)` {FUNCTIONAL_TYPE}"
    irdl_options = (ParsePropInAttrDict(),)

    traits = traits_def(_CustomCallEffects())

    def verify_(self) -> None:
        version = self.api_version.value.data
        require(version <= _TYPED_FFI, f"expects api_version in [0, 4], got {version}")
        config, is_typed = self.backend_config, version == _TYPED_FFI
        require(
            config is None or isinstance(config, DictionaryAttr) == is_typed,
            f"backend_config for api_version {version} must be a "
            f"{'dictionary' if is_typed else 'string'} attribute.",
        )
        self._verify_layouts()
        for alias in self.output_operand_aliases:
            self._verify_alias(alias)

    def _verify_layouts(self) -> None:
        """Verify that there is a layout for each operand and result, or for none."""
        layouts = self.operand_layouts, self.result_layouts
        if None in layouts:
            require(
                layouts == (None, None),
                "expects operand_layouts and result_layouts, or none of them",
            )
            return
        results = self.result_types
        if len(results) == 1 and isinstance(results[0], TupleType):
            results = results[0].types.data
        for name, types, own in zip(
            ("operands", "results"), (self.operand_types, results), layouts, strict=True
        ):
            assert own is not None
            verify_count(f"layouts of {name}", own.data, len(types))
            for type_, layout in zip(types, own, strict=True):
                _verify_layout(type_, layout)

    def _verify_alias(self, alias: OutputOperandAliasAttr) -> None:
        """Verify that an operand, or a part of it, has the type of the part of a result."""
        index, results = alias.operand_index.data, self.result_types
        require(
            0 <= index < len(self.inputs),
            f"expects operand_index in [0, {len(self.inputs)}), got {index}",
        )
        whole = results[0] if len(results) == 1 else _tuple_of(results)
        operand = _part_of(self.operand_types[index], alias.operand_tuple_indices)
        result = _part_of(whole, alias.output_tuple_indices)
        require(
            operand == result,
            "expects operand and result of one type in output_operand_aliases, got "
            f"'{operand}' and '{result}'",
        )


def _tuple_of(types: Sequence[Attribute]) -> TupleType:
    return TupleType(cast(tuple[TypeAttribute, ...], tuple(types)))


def _part_of(type_: Attribute, indices: Dimensions) -> Attribute:
    """Return the type of the part of a value that indices of nested tuples lead to."""
    for index in indices.get_values():
        count = len(type_.types) if isinstance(type_, TupleType) else 0
        require(
            isinstance(type_, TupleType) and 0 <= index < count,
            f"expects indices of tuples in output_operand_aliases, got {index} for "
            f"'{type_}'",
        )
        type_ = cast(TupleType, type_).types.data[index]
    return type_


def _verify_layout(
    type_: Attribute, layout: DenseIntOrFPElementsAttr[IndexType]
) -> None:
    """Raise `VerifyException` unless a layout orders the dimensions of a type."""
    order = [*layout.get_values()]
    require(
        len(layout.get_shape()) == 1,
        f"expects layouts with one dimension, got '{layout}'",
    )
    if isinstance(type_, UnrankedTensorType):
        return
    require(
        not isinstance(type_, TupleType),
        f"expects no layouts for operands with tuples, got '{type_}'",
    )
    is_shaped = isinstance(type_, TensorType | MemRefType)
    rank = len(type_.get_shape()) if is_shaped else 0
    require(
        sorted(order) == [*range(rank)],
        f"expects a layout of the dimensions [0, {rank}) for '{type_}', got {order}",
    )
